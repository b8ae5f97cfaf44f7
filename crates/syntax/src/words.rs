//! A table of words that is found by a hash of them, in any case of their letters.

/// Places of the table: a power of two, at least twice as many as the longest list has words.
const PLACES: usize = 2048;
/// No word of a list is longer.
const LEN_MAX: usize = 48;

/// Finds words of a list.
pub(crate) struct Words {
    texts: &'static [&'static str],
    /// By hash: 1 + the word's place in the list, 0 for none.
    places: Vec<u16>,
}

impl Words {
    pub(crate) fn new(texts: &'static [&'static str]) -> Words {
        let mut places = vec![0u16; PLACES];
        for (number, text) in texts.iter().enumerate() {
            let mut place = hash(text.as_bytes());
            while places.get(place).is_some_and(|taken| *taken != 0) {
                place = (place + 1) % PLACES;
            }
            if let Some(free) = places.get_mut(place) {
                *free = u16::try_from(number + 1).unwrap_or_default();
            }
        }
        Words { texts, places }
    }

    /// The word's place in the list.
    pub(crate) fn find(&self, word: &[u8]) -> Option<usize> {
        if word.len() > LEN_MAX {
            return None;
        }
        let mut place = hash(word);
        loop {
            let number = usize::from(*self.places.get(place)?).checked_sub(1)?;
            if self.texts.get(number)?.as_bytes().eq_ignore_ascii_case(word) {
                return Some(number);
            }
            place = (place + 1) % PLACES;
        }
    }
}

/// The same for both cases of a letter.
fn hash(word: &[u8]) -> usize {
    let hash = word.iter().fold(0xcbf2_9ce4u32, |hash, byte| (hash ^ u32::from(byte & 0xdf)).wrapping_mul(0x0100_0193));
    usize::try_from((hash ^ hash >> 15) & 0xffff).unwrap_or_default() % PLACES
}
