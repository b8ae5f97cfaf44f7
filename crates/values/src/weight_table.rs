//! Weights of characters, looked up in two steps: a page for each 256 code points, then an entry in the page.
//!
//! In: a file of `src/weights/`, made from a server's answers by `examples/collation_weights.rs`, which shares this
//! module. Out: the weights of a code point. Never here: character sets, padding, levels of a collation.
//!
//! Layout of the file, with little-endian numbers: 2 bytes, the number of pages; `INDEX_LEN` bytes, one for each 256
//! code points: their page's number from 1, or 0; the pages, 256 entries of 2 bytes each; the pool, in units of 2
//! bytes. An entry below `POOLED` is a single weight, where 0 means none. `COMPUTED` means a weight by rule, as do all
//! entries of page 0. Any other entry is `POOLED` plus the place of a list in the pool: its length, then that many
//! units.

/// Code points up to 0x10ffff, 256 a page.
pub(crate) const INDEX_LEN: usize = 0x1100;
/// Entries from here on refer to the pool.
pub(crate) const POOLED: u16 = 0x8000;
/// Entry of a character whose weight follows from its code point.
pub(crate) const COMPUTED: u16 = 0xffff;

/// Rule for characters without an entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Rule {
    /// The code point; U+FFFD beyond the basic plane.
    Identity,
    /// Unicode collation algorithm 4.0.0, which covers only the basic plane here.
    Uca400,
    /// Unicode collation algorithm 5.2.0. Ideograph extensions beyond the basic plane count as unassigned.
    Uca520,
    /// Unicode collation algorithm 9.0.0; Hangul syllables are decomposed into their letters.
    Uca900,
}

/// One or two weights.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Computed {
    pub(crate) first: u16,
    pub(crate) second: Option<u16>,
}

impl Rule {
    /// Weight by rule. Under `Uca900` not for Hangul syllables.
    pub(crate) fn compute(self, code: u32) -> Computed {
        let first = match self {
            Rule::Identity | Rule::Uca400 if code > 0xffff => {
                return Computed { first: 0xfffd, second: None };
            }
            Rule::Identity => return Computed { first: (code & 0xffff) as u16, second: None },
            Rule::Uca900 if (0x17000..=0x18aff).contains(&code) => {
                // Tangut is numbered from its first character.
                return Computed { first: 0xfb00, second: Some(((code - 0x17000) & 0x7fff) as u16 | 0x8000) };
            }
            _ => self.implicit_base(code) + ((code >> 15) & 0x3f) as u16,
        };
        Computed { first, second: Some((code & 0x7fff) as u16 | 0x8000) }
    }

    /// Ideographs sort before unassigned code points, the first block of them before its extensions.
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

/// The two or three letters of a Hangul syllable.
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
    /// Reads a file's outline. Only for files that are compiled in: a truncated one panics at compile time.
    pub(crate) const fn new(file: &'static [u8], rule: Rule) -> WeightTable {
        let Some((count, rest)) = file.split_first_chunk::<2>() else { panic!("no page count") };
        let Some((index, rest)) = rest.split_first_chunk::<INDEX_LEN>() else { panic!("no index") };
        let (units, odd) = rest.as_chunks::<2>();
        assert!(odd.is_empty(), "half an entry");
        let (pages, pool) = units.split_at(u16::from_le_bytes(*count) as usize * 256);
        WeightTable { index, pages, pool, rule }
    }

    /// Entry of a code point, as described at the top of the module.
    #[inline]
    pub(crate) fn entry(&self, code: u32) -> u16 {
        let page = usize::from(self.index.get((code >> 8) as usize).copied().unwrap_or(0));
        if page == 0 {
            return COMPUTED;
        }
        let at = (page - 1) * 256 + (code & 0xff) as usize;
        self.pages.get(at).map_or(COMPUTED, |unit| u16::from_le_bytes(*unit))
    }

    /// False if the weights of the 256 code points around this one all follow from the rule.
    pub(crate) fn has_page(&self, code: u32) -> bool {
        self.index.get((code >> 8) as usize).is_some_and(|page| *page != 0)
    }

    /// True for a table of the Unicode collation algorithm.
    pub(crate) fn is_uca(&self) -> bool {
        self.rule != Rule::Identity
    }

    /// Entries of U+0000 to U+00FF, if any differs from the rule.
    pub(crate) fn first_page(&self) -> Option<&'static [[u8; 2]; 256]> {
        let page = usize::from(*self.index.first()?);
        self.pages.get(page.checked_sub(1)? * 256..)?.first_chunk()
    }

    /// The list that a pooled entry refers to.
    pub(crate) fn pooled(&self, entry: u16) -> Units {
        let at = usize::from(entry & !POOLED);
        let len = self.pool.get(at).map_or(0, |unit| usize::from(u16::from_le_bytes(*unit)));
        self.pool.get(at + 1..at + 1 + len).unwrap_or(&[])
    }

    /// Passes the weights of a code point to `sink` one by one.
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
            // Each letter has a single weight in the table.
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
