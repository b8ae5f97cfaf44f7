//! Weights of characters in two steps: a page for each 256 code points, an entry in the page.
//!
//! In: a file of `src/weights/`, made from a server's answers by `examples/collation_weights.rs`, which shares this
//! module. Out: the weights of a code point. Never here: character sets, padding, levels of a collation.
//!
//! The file, numbers in little-endian order: 2 bytes, the number of pages; `INDEX_LEN` bytes, for each 256 code points
//! the number of their page, from 1, or 0; the pages, 256 entries of 2 bytes each; the pool, in units of 2 bytes. An
//! entry below `POOLED` is a single weight, 0 stands for no weight at all, `COMPUTED` for a weight by rule (as do all
//! entries of page 0), any other is `POOLED` plus the place in the pool of a list: its length, then that many units.

/// Code points up to 0x10ffff, 256 a page.
pub(crate) const INDEX_LEN: usize = 0x1100;
/// Entries from here on lead into the pool.
pub(crate) const POOLED: u16 = 0x8000;
/// The entry of a character whose weight follows from its code point.
pub(crate) const COMPUTED: u16 = 0xffff;

/// The rule for characters without an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Rule {
    /// The code point; U+FFFD beyond the basic plane.
    Identity,
    /// Unicode collation algorithm 4.0.0, which here knows the basic plane only.
    Uca400,
    /// Unicode collation algorithm 5.2.0. Extensions of the ideographs beyond the basic plane are taken as unassigned.
    Uca520,
    /// Unicode collation algorithm 9.0.0; Hangul syllables are their letters.
    Uca900,
}

/// One or two weights.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Computed {
    pub(crate) first: u16,
    pub(crate) second: Option<u16>,
}

impl Rule {
    /// The weight by rule, of characters that are no Hangul syllables under `Uca900`.
    pub(crate) fn compute(self, code: u32) -> Computed {
        let first = match self {
            Rule::Identity | Rule::Uca400 if code > 0xffff => {
                return Computed { first: 0xfffd, second: None };
            }
            Rule::Identity => return Computed { first: (code & 0xffff) as u16, second: None },
            Rule::Uca900 if (0x17000..=0x18aff).contains(&code) => {
                // Tangut is counted from its first character.
                return Computed { first: 0xfb00, second: Some(((code - 0x17000) & 0x7fff) as u16 | 0x8000) };
            }
            _ => self.implicit_base(code) + ((code >> 15) & 0x3f) as u16,
        };
        Computed { first, second: Some((code & 0x7fff) as u16 | 0x8000) }
    }

    /// Ideographs sort before what is not assigned, the first block of them before its extensions.
    fn implicit_base(self, code: u32) -> u16 {
        let unified_end = if self == Rule::Uca900 { 0x9fd5 } else { 0x9fa5 };
        match code {
            0x4e00..=0x9fff if code <= unified_end => 0xfb40,
            0xfa0e | 0xfa0f | 0xfa11 | 0xfa13 | 0xfa14 | 0xfa1f | 0xfa21 | 0xfa23 | 0xfa24 | 0xfa27..=0xfa29 => 0xfb40,
            0x3400..=0x4db5 => 0xfb80,
            0x20000..=0x2a6d6 | 0x2a700..=0x2b734 | 0x2b740..=0x2b81d | 0x2b820..=0x2cea1 if self == Rule::Uca900 => {
                0xfb80
            }
            _ => 0xfbc0,
        }
    }
}

/// The letters of a Hangul syllable, two or three.
pub(crate) fn hangul_letters(code: u32) -> Option<impl Iterator<Item = u32>> {
    let at = code.checked_sub(0xac00).filter(|at| *at < 19 * 21 * 28)?;
    let last = Some(0x11a7 + at % 28).filter(|last| *last != 0x11a7);
    Some([0x1100 + at / 588, 0x1161 + at % 588 / 28].into_iter().chain(last))
}

/// A weight file, ready for look-ups.
#[derive(Debug)]
pub(crate) struct WeightTable {
    index: &'static [u8; INDEX_LEN],
    pages: &'static [[u8; 2]],
    pool: &'static [[u8; 2]],
    rule: Rule,
}

/// A list of weights.
pub(crate) type Units = &'static [[u8; 2]];

impl WeightTable {
    /// Reads a file's outline. Only for files compiled in: panics at compile time when it is cut off.
    pub(crate) const fn new(file: &'static [u8], rule: Rule) -> WeightTable {
        let Some((count, rest)) = file.split_first_chunk::<2>() else { panic!("no page count") };
        let Some((index, rest)) = rest.split_first_chunk::<INDEX_LEN>() else { panic!("no index") };
        let (units, odd) = rest.as_chunks::<2>();
        assert!(odd.is_empty(), "half an entry");
        let (pages, pool) = units.split_at(u16::from_le_bytes(*count) as usize * 256);
        WeightTable { index, pages, pool, rule }
    }

    /// The entry of a code point: see the module's text.
    #[inline]
    pub(crate) fn entry(&self, code: u32) -> u16 {
        let page = usize::from(self.index.get((code >> 8) as usize).copied().unwrap_or(0));
        if page == 0 {
            return COMPUTED;
        }
        let at = (page - 1) * 256 + (code & 0xff) as usize;
        self.pages.get(at).map_or(COMPUTED, |unit| u16::from_le_bytes(*unit))
    }

    /// The entries of U+0000 to U+00FF, if any differs from the rule.
    pub(crate) fn first_page(&self) -> Option<&'static [[u8; 2]; 256]> {
        let page = usize::from(*self.index.first()?);
        self.pages.get(page.checked_sub(1)? * 256..)?.first_chunk()
    }

    /// The list a pooled entry leads to.
    pub(crate) fn pooled(&self, entry: u16) -> Units {
        let at = usize::from(entry & !POOLED);
        let len = self.pool.get(at).map_or(0, |unit| usize::from(u16::from_le_bytes(*unit)));
        self.pool.get(at + 1..at + 1 + len).unwrap_or(&[])
    }

    /// Gives the weights of a code point one by one.
    #[inline]
    pub(crate) fn weights(&self, code: u32, sink: &mut impl FnMut(u16)) {
        match self.entry(code) {
            0 => {}
            weight @ 1..POOLED => sink(weight),
            COMPUTED => self.computed(code, sink),
            entry => self.pooled(entry).iter().for_each(|unit| sink(u16::from_le_bytes(*unit))),
        }
    }

    fn computed(&self, code: u32, sink: &mut impl FnMut(u16)) {
        if self.rule == Rule::Uca900
            && let Some(letters) = hangul_letters(code)
        {
            // Each letter is a single weight of the table.
            letters.for_each(|letter| sink(self.entry(letter)));
            return;
        }
        let Computed { first, second } = self.rule.compute(code);
        sink(first);
        if let Some(second) = second {
            sink(second);
        }
    }
}
