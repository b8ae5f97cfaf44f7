//! Weights of text, which a collation compares in place of the characters.
//!
//! In: a collation and text in its character set. Out: the server's WEIGHT_STRING, and bytes that sort in the
//! collation's order. Never here: a guess. A collation that is not implemented has no order (`Order::of` is None).
//!
//! No collation here looks at more than one character at a time. Those that do, the collations of single languages and
//! some of older multi-byte sets, are not implemented.

use crate::collation::{self, Collation};
use crate::error::ValueError;
use crate::weight_table::{COMPUTED, POOLED, Rule, WeightTable, hangul_letters};

macro_rules! table {
    ($name:ident, $file:literal, $rule:expr) => {
        static $name: WeightTable = WeightTable::new(include_bytes!(concat!("weights/", $file, ".bin")), $rule);
    };
}

table!(GENERAL, "general", Rule::Identity);
table!(GENERAL_MYSQL500, "general_mysql500", Rule::Identity);
table!(TOLOWER, "tolower", Rule::Identity);
table!(UCA_400, "uca_400", Rule::Uca400);
table!(UCA_520, "uca_520", Rule::Uca520);
table!(UCA_900, "uca_900", Rule::Uca900);
// Second and third level. A list holds the number of second-level weights, those weights, then the third-level ones.
table!(UCA_900_LOWER, "uca_900_lower", Rule::Uca900);

/// Single-byte collations: the id in two bytes, then 256 weights.
static SINGLE_BYTE: &[u8] = include_bytes!("weights/single_byte.bin");
const SINGLE_BYTE_RECORD: usize = 2 + 256;

/// How text is divided into characters.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Encoding {
    Utf8,
    Ucs2,
    Utf16,
    Utf16le,
    Utf32,
}

/// How a collation compares.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Order {
    /// By bytes; trailing spaces count.
    Bytes,
    /// By bytes, the shorter text padded with spaces. No multi-byte set has a 0x20 that is not the space.
    PaddedBytes,
    /// By one weight a byte, the shorter text padded with spaces.
    SingleByte(&'static [u8; 256]),
    /// By code points, the shorter text padded with spaces.
    CodePoints(Encoding),
    /// By the weights of a table, the shorter text padded with spaces.
    Padded(Encoding, &'static WeightTable),
    /// By the weights of UCA 9.0.0 on 1 to 3 levels; trailing spaces count.
    Uca900(u8),
}

impl Order {
    /// Order of a collation, if it is implemented.
    pub(crate) fn of(collation: Collation) -> Option<Order> {
        if collation.id == collation::BINARY {
            return Some(Order::Bytes);
        }
        let encoding = match collation.charset {
            "utf8mb4" | "utf8mb3" => Some(Encoding::Utf8),
            "ucs2" => Some(Encoding::Ucs2),
            "utf16" => Some(Encoding::Utf16),
            "utf16le" => Some(Encoding::Utf16le),
            "utf32" => Some(Encoding::Utf32),
            _ => None,
        };
        let rest = collation.name.strip_prefix(collation.charset)?;
        match (encoding, rest) {
            (_, "_0900_bin") => Some(Order::Bytes),
            (None | Some(Encoding::Utf8), "_bin") => Some(Order::PaddedBytes),
            (Some(encoding), "_bin") => Some(Order::CodePoints(encoding)),
            (Some(encoding), "_general_ci") => Some(Order::Padded(encoding, &GENERAL)),
            (Some(encoding), "_general_mysql500_ci") => Some(Order::Padded(encoding, &GENERAL_MYSQL500)),
            (Some(encoding), "_tolower_ci") => Some(Order::Padded(encoding, &TOLOWER)),
            (Some(encoding), "_unicode_ci") => Some(Order::Padded(encoding, &UCA_400)),
            (Some(encoding), "_unicode_520_ci") => Some(Order::Padded(encoding, &UCA_520)),
            (Some(_), "_0900_ai_ci") => Some(Order::Uca900(1)),
            (Some(_), "_0900_as_ci") => Some(Order::Uca900(2)),
            (Some(_), "_0900_as_cs") => Some(Order::Uca900(3)),
            (None, _) => {
                let (records, _) = SINGLE_BYTE.as_chunks::<SINGLE_BYTE_RECORD>();
                let record = records.iter().find(|record| record.starts_with(&collation.id.to_le_bytes()))?;
                record.last_chunk().map(Order::SingleByte)
            }
            _ => None,
        }
    }

    /// Appends bytes that compare as the text does and delimit themselves: no such string is a prefix of another. Each
    /// invalid byte counts as U+FFFD.
    #[inline]
    pub(crate) fn append(self, text: &[u8], out: &mut Vec<u8>) {
        match self {
            Order::Uca900(levels) => append_uca_900(levels, text, true, out),
            Order::Bytes => append_bytes(text, out),
            Order::PaddedBytes => append_padded_bytes(text, out),
            Order::SingleByte(map) => {
                let mut padded = Padded::<1>::new(weight_of_space(map), text.len(), out);
                text.iter().for_each(|byte| padded.push(u32::from(single(map, *byte))));
                padded.finish();
            }
            Order::CodePoints(encoding) => {
                let mut padded = Padded::<3>::new(u32::from(b' '), text.len(), out);
                each_code(encoding, text, |code| padded.push(code));
                padded.finish();
            }
            Order::Padded(encoding, table) => {
                let mut space = 0;
                table.weights(u32::from(b' '), &mut |weight| space = u32::from(weight));
                let mut padded = Padded::<2>::new(space, text.len(), out);
                each_code(encoding, text, |code| table.weights(code, &mut |weight| padded.push(u32::from(weight))));
                padded.finish();
            }
        }
    }
}

/// Appends the result of the server's WEIGHT_STRING(text COLLATE …).
///
/// # Errors
/// The collation is not implemented.
pub fn weight_string(collation: u16, text: &[u8], out: &mut Vec<u8>) -> Result<(), ValueError> {
    let (found, order) = ordered(collation)?;
    append_weights(found, order, text, out);
    Ok(())
}

fn ordered(collation: u16) -> Result<(Collation, Order), ValueError> {
    let found = collation::by_id(collation);
    let ordered = found.and_then(|found| Order::of(found).map(|order| (found, order)));
    ordered.ok_or_else(|| ValueError::unsupported(format!("weights of the collation id {collation}")))
}

fn append_weights(found: Collation, order: Order, text: &[u8], out: &mut Vec<u8>) {
    match order {
        Order::Uca900(levels) => append_uca_900(levels, text, false, out),
        Order::SingleByte(map) => out.extend(text.iter().map(|byte| single(map, *byte))),
        Order::CodePoints(encoding) => each_code(encoding, text, |code| push_code(found, code, out)),
        Order::PaddedBytes if found.charset.starts_with("utf8") => {
            each_code(Encoding::Utf8, text, |code| push_code(found, code, out));
        }
        Order::Bytes | Order::PaddedBytes => out.extend_from_slice(text),
        Order::Padded(encoding, table) => each_code(encoding, text, |code| {
            table.weights(code, &mut |weight| out.extend_from_slice(&weight.to_be_bytes()));
        }),
    }
}

/// Appends bytes that are equal for two characters where LIKE takes these for equal. Those are the weights, except that
/// a character of no page in the server's table of a UCA collation equals only itself, whatever its weights
/// (`my_uca_charcmp`, strings/ctype-uca.cc). So U+F900 equals U+8C48 under `=` alone.
///
/// # Errors
/// The collation is not implemented.
pub fn like_weight(collation: u16, character: &[u8], out: &mut Vec<u8>) -> Result<(), ValueError> {
    let (found, order) = ordered(collation)?;
    let paged = match order {
        Order::Uca900(_) => Some((Encoding::Utf8, &UCA_900)),
        Order::Padded(encoding, table) if table.is_uca() => Some((encoding, table)),
        _ => None,
    };
    let mut without_page = None;
    if let Some((encoding, table)) = paged {
        each_code(encoding, character, |code| without_page = Some(code).filter(|code| !table.has_page(*code)));
    }
    match without_page {
        // An odd number of bytes, which weights never have.
        Some(code) => out.extend(code.to_be_bytes().iter().skip(1)),
        None => append_weights(found, order, character, out),
    }
    Ok(())
}

/// A code point takes three bytes if the character set extends beyond the basic plane.
fn push_code(collation: Collation, code: u32, out: &mut Vec<u8>) {
    let skip = if matches!(collation.charset, "utf8mb3" | "ucs2") { 2 } else { 1 };
    out.extend(code.to_be_bytes().iter().skip(skip));
}

fn single(map: &[u8; 256], byte: u8) -> u8 {
    map.get(usize::from(byte)).copied().unwrap_or(byte)
}

fn weight_of_space(map: &[u8; 256]) -> u32 {
    u32::from(single(map, b' '))
}

/// Calls `each` with every code point; each invalid byte gives U+FFFD.
#[inline]
fn each_code(encoding: Encoding, text: &[u8], mut each: impl FnMut(u32)) {
    const REPLACEMENT: u32 = 0xfffd;
    let mut utf16 = |unit: fn([u8; 2]) -> u16| {
        let (units, odd) = text.as_chunks::<2>();
        for code in char::decode_utf16(units.iter().map(|bytes| unit(*bytes))) {
            each(code.map_or(REPLACEMENT, u32::from));
        }
        odd.iter().for_each(|_| each(REPLACEMENT));
    };
    match encoding {
        Encoding::Utf16 => utf16(u16::from_be_bytes),
        Encoding::Utf16le => utf16(u16::from_le_bytes),
        Encoding::Utf8 => {
            let ascii = text.iter().take_while(|byte| byte.is_ascii()).count();
            let (front, behind) = text.split_at_checked(ascii).unwrap_or((text, &[]));
            front.iter().for_each(|byte| each(u32::from(*byte)));
            for chunk in behind.utf8_chunks() {
                chunk.valid().chars().for_each(|c| each(u32::from(c)));
                chunk.invalid().iter().for_each(|_| each(REPLACEMENT));
            }
        }
        Encoding::Ucs2 => {
            let (units, odd) = text.as_chunks::<2>();
            units.iter().for_each(|bytes| each(u32::from(u16::from_be_bytes(*bytes))));
            odd.iter().for_each(|_| each(REPLACEMENT));
        }
        Encoding::Utf32 => {
            let (units, odd) = text.as_chunks::<4>();
            for bytes in units {
                let code = u32::from_be_bytes(*bytes);
                each(if code <= 0x10_ffff { code } else { REPLACEMENT });
            }
            odd.iter().for_each(|_| each(REPLACEMENT));
        }
    }
}

/// Appends the weights of each level, two bytes each, then 0, which is not a weight. The server's WEIGHT_STRING has no
/// 0 after the last level.
fn append_uca_900(levels: u8, text: &[u8], terminated: bool, out: &mut Vec<u8>) {
    append_primary(text, out);
    for level in 2..=levels {
        out.extend_from_slice(&[0, 0]);
        each_code(Encoding::Utf8, text, |code| {
            lower_weights(level, code, |weight| out.extend_from_slice(&weight.to_be_bytes()));
        });
    }
    if terminated {
        out.extend_from_slice(&[0, 0]);
    }
}

/// Appends the first level. Text is mostly ASCII, whose weights are looked up in one page.
fn append_primary(text: &[u8], out: &mut Vec<u8>) {
    out.reserve(2 * text.len() + 2);
    let mut rest = text;
    if let Some(page) = UCA_900.first_page() {
        let ascii = text.iter().take_while(|byte| byte.is_ascii()).count();
        let (front, behind) = text.split_at_checked(ascii).unwrap_or((text, &[]));
        for byte in front {
            let [low, high] = page.get(usize::from(*byte)).copied().unwrap_or_default();
            if (low, high) != (0, 0) {
                out.extend_from_slice(&[high, low]);
            }
        }
        rest = behind;
    }
    if !rest.is_empty() {
        each_code(Encoding::Utf8, rest, |code| {
            UCA_900.weights(code, &mut |weight| out.extend_from_slice(&weight.to_be_bytes()));
        });
    }
}

/// Weights of the second or third level of UCA 9.0.0.
fn lower_weights(level: u8, code: u32, mut sink: impl FnMut(u16)) {
    let entry = UCA_900_LOWER.entry(code);
    if entry == COMPUTED || entry < POOLED {
        let weight = if level == 2 { 0x20 } else { 2 };
        let count = hangul_letters(code).map_or(1, Iterator::count);
        return (0..count).for_each(|_| sink(weight));
    }
    let Some((count, weights)) = UCA_900_LOWER.pooled(entry).split_first() else { return };
    let (second, third) = weights.split_at_checked(usize::from(u16::from_le_bytes(*count))).unwrap_or((weights, &[]));
    let weights = if level == 2 { second } else { third };
    weights.iter().for_each(|unit| sink(u16::from_le_bytes(*unit)));
}

/// Appends bytes so that a prefix sorts before any continuation: 0 is written as 0 0xff, the end as 0 0.
pub(crate) fn append_bytes(bytes: &[u8], out: &mut Vec<u8>) {
    out.reserve(bytes.len() + 2);
    let mut rest = bytes;
    while let Some(at) = rest.iter().position(|byte| *byte == 0) {
        let (front, behind) = rest.split_at_checked(at + 1).unwrap_or((rest, &[]));
        out.extend_from_slice(front);
        out.push(0xff);
        rest = behind;
    }
    out.extend_from_slice(rest);
    out.extend_from_slice(&[0, 0]);
}

/// As `Padded` of single bytes, in pieces between spaces.
fn append_padded_bytes(text: &[u8], out: &mut Vec<u8>) {
    let mut padded = Padded::<1>::new(u32::from(b' '), text.len(), out);
    for (number, word) in text.split(|byte| *byte == b' ').enumerate() {
        padded.run += usize::from(number > 0);
        if let Some(first) = word.first() {
            padded.end_run(*first > b' ');
            padded.out.extend_from_slice(word);
        }
    }
    padded.finish();
}

/// Writes weights so that the shorter of two texts compares as if padded with spaces for ever.
///
/// A weight other than the space's is written as it is. A run of spaces is written as one weight of the space and a
/// mark of what follows, in this order: a smaller weight (a longer run sorts later), the end, a larger weight (a longer
/// run sorts earlier). The end is always written, as a run of spaces without end.
struct Padded<'a, const WIDTH: usize> {
    space: u32,
    /// Spaces not yet written.
    run: usize,
    out: &'a mut Vec<u8>,
}

/// Follows a run of spaces without end. Smaller bytes count the spaces before a smaller weight, larger bytes those
/// before a larger one.
const PADDED_END: u8 = 0x80;
/// Maximum spaces that one counting byte can express. One more means that another counting byte follows. The complement
/// must not be `PADDED_END`.
const RUN_MAX: usize = 0x7d;
const RUN_GOES_ON: u8 = 0x7e;
const _: () = assert!(RUN_GOES_ON as usize == RUN_MAX + 1 && !RUN_GOES_ON != PADDED_END);

impl<'a, const WIDTH: usize> Padded<'a, WIDTH> {
    fn new(space: u32, len: usize, out: &'a mut Vec<u8>) -> Padded<'a, WIDTH> {
        out.reserve(len * WIDTH + WIDTH + 1);
        Padded { space, run: 0, out }
    }

    #[inline]
    fn push(&mut self, weight: u32) {
        if weight == self.space {
            self.run += 1;
            return;
        }
        if self.run > 0 {
            self.end_run(weight > self.space);
        }
        self.write(weight);
    }

    #[inline]
    fn write(&mut self, weight: u32) {
        self.out.extend_from_slice(weight.to_be_bytes().last_chunk::<WIDTH>().map_or(&[], |bytes| bytes));
    }

    fn end_run(&mut self, larger: bool) {
        if self.run == 0 {
            return;
        }
        self.write(self.space);
        let flip = if larger { 0xff } else { 0 };
        while self.run > RUN_MAX {
            self.out.push(RUN_GOES_ON ^ flip);
            self.run -= RUN_MAX;
        }
        #[allow(clippy::cast_possible_truncation, reason = "at most RUN_MAX is left")]
        self.out.push(self.run as u8 ^ flip);
        self.run = 0;
    }

    fn finish(mut self) {
        self.run = 0;
        self.write(self.space);
        self.out.push(PADDED_END);
    }
}
