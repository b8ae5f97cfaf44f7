//! Sort keys: bytes whose order is MySQL's order of a key's columns.
//!
//! In: the columns of a key, once; their stored bytes as row images carry them, for each row. Out: a byte string for
//! `memcmp`. Never here: the identity of a row: equal sort keys are values equal to MySQL ('a' and 'A' under a collation
//! without case), so whoever stores them lets the stored bytes follow; decoding: a sort key is not read back.
//!
//! A column's part ends itself, so parts of several columns follow one another, and the parts of the first columns are a
//! bound for range reads. NULL is lower than any value. A descending column's part is inverted.
//!
//! # Format
//!
//! | Column | Part |
//! |---|---|
//! | nullable | 0 for NULL and nothing else; 1 before a value |
//! | integers, YEAR, ENUM and SET by number, DATE | big-endian, of the stored length, the sign bit inverted where signed |
//! | BIT, TIME, DATETIME, TIMESTAMP | the stored bytes, which are big-endian and biased |
//! | DECIMAL | the stored bytes, a negative zero made positive |
//! | FLOAT, DOUBLE | big-endian; all bits of negative numbers inverted, the sign bit of others; −0.0 is 0.0 |
//! | BINARY | its bytes, filled up with 0 to the column's length |
//! | VARBINARY, BLOB, VECTOR, text in `utf8mb4_0900_bin` | the bytes, 0 as 0 0xff; then 0 0 |
//! | text in `utf8mb4_0900_{ai_ci,as_ci,as_cs}` | the weights of each level, two bytes each; 0 0 behind each level |
//! | other text | the weights, each 1 to 3 bytes; runs of spaces are counted (below); then the space's weight and 0x80 |
//! | JSON, GEOMETRY, text in other collations | the bytes as of VARBINARY: not MySQL's order |
//!
//! Collations with PAD SPACE compare as if the shorter text went on with spaces. A run of n spaces is written as one
//! weight of the space and, where a lower weight follows, n (as bytes up to 0x7d; 0x7e is 0x7d and more to come), where a
//! higher weight follows the complement of that. The end is a run without end.
//!
//! The order of text is checked against WEIGHT_STRING of a 9.7 server for every character, and the order of rows of every
//! type against ORDER BY (`tests/sort_key_server.rs`).

use crate::charset;
use crate::collation::{self, Collation};
use crate::column_type::{ColumnType, type_code as t};
use crate::error::ValueError;
use crate::weights::{Order, append_bytes};

pub use crate::weights::weight_string;

/// One column of a key.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SortKeyColumn {
    /// The column's type with its collation.
    pub ty: ColumnType,
    /// May be NULL.
    pub nullable: bool,
    /// DESC.
    pub descending: bool,
    /// Only so many characters from the front count, bytes where the column holds bytes; `None`: all.
    pub prefix_len: Option<u32>,
}

/// How to make the sort keys of one key.
#[derive(Debug, Clone)]
pub struct SortKeyPlan {
    columns: Box<[Part]>,
    ordered_columns: usize,
}

#[derive(Debug, Clone)]
struct Part {
    kind: Kind,
    nullable: bool,
    descending: bool,
    name: &'static str,
}

/// What to do with a column's stored bytes.
#[derive(Debug, Clone, Copy)]
enum Kind {
    /// Little-endian integers of this many bytes.
    Unsigned(usize),
    Signed(usize),
    /// In order as stored, this many bytes.
    AsIs(usize),
    Decimal(usize),
    Float,
    Double,
    /// BINARY: a length of so many bytes, the bytes up to `len`, of which the first `keep` count.
    FilledBytes {
        length: usize,
        len: usize,
        keep: usize,
    },
    /// A length of so many bytes, then bytes, of which at most `keep` count.
    Bytes {
        length: usize,
        keep: usize,
    },
    /// A length of so many bytes, then text.
    Text {
        length: usize,
        text: Text,
    },
}

#[derive(Debug, Clone, Copy)]
struct Text {
    /// None: no weights, so by bytes.
    order: Option<Order>,
    charset: &'static str,
    /// What fills CHAR up and is no part of its values; empty for other types.
    pad: &'static [u8],
    /// At most so many characters.
    keep: Option<u32>,
}

/// Whether text of this collation has sort keys in MySQL's order: all `_bin` collations and `binary`;
/// `utf8mb4_0900_{ai_ci,as_ci,as_cs,bin}`; of utf8mb4, utf8mb3, ucs2, utf16, utf16le, utf32 those named `_general_ci`,
/// `_unicode_ci`, `_unicode_520_ci`, `_general_mysql500_ci`, `_tolower_ci`; all of character sets with one byte a character
/// but `latin1_german2_ci`, `latin2_czech_cs`, `cp1250_czech_cs`, `tis620_thai_ci`. [`implemented_collations`] lists them.
#[must_use]
pub fn implemented(collation_id: u16) -> bool {
    collation::by_id(collation_id).and_then(Order::of).is_some()
}

/// The collations for which [`implemented`] holds, by id.
pub fn implemented_collations() -> impl Iterator<Item = Collation> {
    (0..=u16::MAX).filter_map(collation::by_id).filter(|found| Order::of(*found).is_some())
}

impl SortKeyPlan {
    /// Prepares for a key's columns, in key order. Keys of up to 3072 bytes, the most InnoDB has, give sort keys below
    /// 64 KiB.
    ///
    /// # Errors
    /// A type no row image holds.
    pub fn new(columns: &[SortKeyColumn]) -> Result<SortKeyPlan, ValueError> {
        let mut parts = Vec::with_capacity(columns.len());
        let mut ordered_columns = 0;
        for column in columns {
            column.ty.check()?;
            let (kind, ordered) = Kind::of(column);
            if ordered && ordered_columns == parts.len() {
                ordered_columns += 1;
            }
            let SortKeyColumn { ref ty, nullable, descending, .. } = *column;
            parts.push(Part { kind, nullable, descending, name: ty.name() });
        }
        Ok(SortKeyPlan { columns: parts.into_boxed_slice(), ordered_columns })
    }

    /// Whether sort keys are in MySQL's order. False when the key has a column whose collation is not implemented, or of
    /// JSON or GEOMETRY.
    #[must_use]
    pub fn is_ordered(&self) -> bool {
        self.ordered_columns == self.columns.len()
    }

    /// So many columns from the first on are in MySQL's order.
    #[must_use]
    pub fn ordered_columns(&self) -> usize {
        self.ordered_columns
    }

    /// Columns of the key.
    #[must_use]
    pub fn column_count(&self) -> usize {
        self.columns.len()
    }

    /// Appends the sort key of a row to `out`: `values` are the key's columns in key order, stored bytes with their length
    /// prefix as [`crate::RowLayout::walk_offsets`] gives them, `None` for NULL. Fewer values give the part of the first
    /// columns: the front of the sort keys of all rows with these values.
    ///
    /// # Errors
    /// More values than columns, NULL where the column has none, stored bytes of the wrong length. `out` then holds a
    /// part.
    #[inline]
    pub fn append<'a>(
        &self,
        values: impl IntoIterator<Item = Option<&'a [u8]>>,
        out: &mut Vec<u8>,
    ) -> Result<(), ValueError> {
        for (position, value) in values.into_iter().enumerate() {
            self.append_column(position, value, out)?;
        }
        Ok(())
    }

    /// Appends the part of the column at `position`, counted from 0, to `out`.
    ///
    /// # Errors
    /// As [`SortKeyPlan::append`].
    #[inline]
    pub fn append_column(&self, position: usize, value: Option<&[u8]>, out: &mut Vec<u8>) -> Result<(), ValueError> {
        let part = self.columns.get(position).ok_or(ValueError::BeyondLimits { what: "a column of a key" })?;
        let start = out.len();
        match value {
            None if part.nullable => out.push(0),
            None => return Err(ValueError::NullInKey),
            Some(stored) => {
                if part.nullable {
                    out.push(1);
                }
                let wrong_length = ValueError::WrongLength { what: part.name, len: stored.len() };
                part.kind.append(stored, out).ok_or(wrong_length)?;
            }
        }
        if part.descending {
            out.iter_mut().skip(start).for_each(|byte| *byte = !*byte);
        }
        Ok(())
    }
}

impl Kind {
    /// What to do with a column, and whether the result is in MySQL's order.
    fn of(column: &SortKeyColumn) -> (Kind, bool) {
        let ty = &column.ty;
        let keep = column.prefix_len.map_or(usize::MAX, |len| len as usize);
        let length = ty.prefix_len();
        let fixed = ty.fixed_len().unwrap_or(0);
        let kind = match ty.code {
            t::TINY | t::SHORT | t::INT24 | t::LONG | t::LONGLONG if !ty.unsigned => Kind::Signed(fixed),
            t::TIME => Kind::Signed(fixed),
            t::TINY | t::SHORT | t::INT24 | t::LONG | t::LONGLONG | t::YEAR | t::ENUM | t::SET => Kind::Unsigned(fixed),
            t::DATE | t::TIMESTAMP | t::DATETIME => Kind::Unsigned(fixed),
            t::TIME2 | t::DATETIME2 | t::TIMESTAMP2 | t::BIT => Kind::AsIs(fixed),
            t::DECIMAL => Kind::Decimal(fixed),
            t::FLOAT => Kind::Float,
            t::DOUBLE => Kind::Double,
            t::CHAR if ty.collation == collation::BINARY => {
                let len = usize::from(ty.meta);
                Kind::FilledBytes { length, len, keep: keep.min(len) }
            }
            t::VARCHAR | t::BLOB | t::CHAR if ty.collation != collation::BINARY => {
                let order = ty.text_collation().and_then(Order::of);
                let pad = if ty.code == t::CHAR { charset::pad(ty.collation) } else { &[] };
                let charset = collation::by_id(ty.collation).map_or("", |found| found.charset);
                let text = Text { order, charset, pad, keep: column.prefix_len };
                return (Kind::Text { length, text }, order.is_some());
            }
            t::JSON | t::GEOMETRY => return (Kind::Bytes { length, keep }, false),
            // VARBINARY, BLOB, VECTOR.
            _ => Kind::Bytes { length, keep },
        };
        (kind, true)
    }

    /// None when the stored bytes have the wrong length.
    #[inline]
    fn append(self, stored: &[u8], out: &mut Vec<u8>) -> Option<()> {
        match self {
            // The commonest keys, without a loop over bytes.
            Kind::Signed(4) => out.extend((u32::from_le_bytes(stored.try_into().ok()?) ^ 1 << 31).to_be_bytes()),
            Kind::Signed(8) => out.extend((u64::from_le_bytes(stored.try_into().ok()?) ^ 1 << 63).to_be_bytes()),
            Kind::Unsigned(4) => out.extend(u32::from_le_bytes(stored.try_into().ok()?).to_be_bytes()),
            Kind::Unsigned(8) => out.extend(u64::from_le_bytes(stored.try_into().ok()?).to_be_bytes()),
            Kind::Signed(len) => append_integer(stored, len, 0x80, out)?,
            Kind::Unsigned(len) => append_integer(stored, len, 0, out)?,
            Kind::AsIs(len) if stored.len() == len => out.extend_from_slice(stored),
            Kind::AsIs(_) => return None,
            Kind::Decimal(len) => append_decimal(stored, len, out)?,
            Kind::Float => {
                let bits = f32::from_le_bytes(stored.try_into().ok()?) + 0.0;
                let bits = bits.to_bits();
                out.extend((bits ^ if bits >> 31 == 0 { 1 << 31 } else { u32::MAX }).to_be_bytes());
            }
            Kind::Double => {
                let bits = f64::from_le_bytes(stored.try_into().ok()?) + 0.0;
                let bits = bits.to_bits();
                out.extend((bits ^ if bits >> 63 == 0 { 1 << 63 } else { u64::MAX }).to_be_bytes());
            }
            Kind::FilledBytes { length, len, keep } => {
                let bytes = content(stored, length)?;
                if bytes.len() > len {
                    return None;
                }
                let kept = bytes.get(..keep).unwrap_or(bytes);
                out.extend_from_slice(kept);
                out.extend(std::iter::repeat_n(0, keep - kept.len()));
            }
            Kind::Bytes { length, keep } => {
                let bytes = content(stored, length)?;
                append_bytes(bytes.get(..keep).unwrap_or(bytes), out);
            }
            Kind::Text { length, text } => text.append(content(stored, length)?, out),
        }
        Some(())
    }
}

impl Text {
    #[inline]
    fn append(&self, bytes: &[u8], out: &mut Vec<u8>) {
        let mut text = bytes;
        if let Some(keep) = self.keep {
            text = charset::first_characters(self.charset, text, keep);
        }
        if !self.pad.is_empty() {
            while let Some(shorter) = text.strip_suffix(self.pad) {
                text = shorter;
            }
        }
        match self.order {
            Some(order) => order.append(text, out),
            None => append_bytes(text, out),
        }
    }
}

/// The bytes behind a length of `length` bytes, if it tells their number.
#[inline]
fn content(stored: &[u8], length: usize) -> Option<&[u8]> {
    let (told, bytes) = stored.split_at_checked(length)?;
    let told = told.iter().rev().fold(0, |value, byte| value << 8 | usize::from(*byte));
    (told == bytes.len()).then_some(bytes)
}

fn append_integer(stored: &[u8], len: usize, sign: u8, out: &mut Vec<u8>) -> Option<()> {
    let (highest, rest) = stored.split_last()?;
    if stored.len() != len {
        return None;
    }
    out.push(highest ^ sign);
    out.extend(rest.iter().rev());
    Some(())
}

fn append_decimal(stored: &[u8], len: usize, out: &mut Vec<u8>) -> Option<()> {
    let (first, rest) = stored.split_first()?;
    if stored.len() != len {
        return None;
    }
    // The server stores no negative zero; were one there, it would equal zero.
    let negative_zero = *first == 0x7f && rest.iter().all(|byte| *byte == 0xff);
    let flip = if negative_zero { 0xff } else { 0 };
    out.extend(stored.iter().map(|byte| byte ^ flip));
    Some(())
}

#[cfg(test)]
#[path = "sort_key_tests.rs"]
mod tests;
