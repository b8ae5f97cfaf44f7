//! Takes an input apart from the front.

/// Bytes not yet taken. At the end it yields zeros and empty slices: no input is too short.
#[derive(Clone, Copy)]
pub struct Input<'a>(&'a [u8]);

impl<'a> Input<'a> {
    pub fn new(bytes: &'a [u8]) -> Input<'a> {
        Input(bytes)
    }

    pub fn byte(&mut self) -> u8 {
        let (first, rest) = self.0.split_first().unwrap_or((&0, &[]));
        self.0 = rest;
        *first
    }

    pub fn u16(&mut self) -> u16 {
        u16::from_le_bytes([self.byte(), self.byte()])
    }

    /// Two bytes of length, then that many bytes or as many as there are.
    pub fn chunk(&mut self) -> &'a [u8] {
        let len = usize::from(self.u16());
        let (chunk, rest) = self.0.split_at(len.min(self.0.len()));
        self.0 = rest;
        chunk
    }

    /// All remaining chunks.
    pub fn chunks(mut self) -> impl Iterator<Item = &'a [u8]> {
        std::iter::from_fn(move || (!self.0.is_empty()).then(|| self.chunk()))
    }

    pub fn rest(self) -> &'a [u8] {
        self.0
    }
}

/// Longest text that [`long`] makes, in bytes.
const LONG_MAX: usize = 1 << 20;

/// A text in which each part between the bytes 14 and 15 stands as often as the square of the byte behind it says,
/// twice: inputs are short, and what breaks by many terms is not.
pub fn long(text: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    let mut rest = text;
    while let Some(begin) = rest.iter().position(|byte| *byte == 14) {
        let (before, part) = (&rest[..begin], &rest[begin + 1..]);
        out.extend_from_slice(before);
        let Some(end) = part.iter().position(|byte| *byte == 15) else {
            rest = part;
            break;
        };
        let count = part.get(end + 1).map_or(0, |times| usize::from(*times).pow(2) * 2);
        for _ in 0..count {
            if out.len() + end > LONG_MAX {
                break;
            }
            out.extend_from_slice(&part[..end]);
        }
        rest = part.get(end + 2..).unwrap_or_default();
    }
    out.extend_from_slice(rest);
    out
}

/// Encodes bytes as [`Input::chunk`] reads them.
pub fn chunk(bytes: &[u8]) -> Vec<u8> {
    let bytes = &bytes[..bytes.len().min(usize::from(u16::MAX))];
    [&(bytes.len() as u16).to_le_bytes()[..], bytes].concat()
}

/// Concatenates parts.
pub fn join(parts: &[&[u8]]) -> Vec<u8> {
    parts.concat()
}
