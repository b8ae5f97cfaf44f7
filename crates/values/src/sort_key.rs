//! Sort keys: bytes that order as MySQL orders the columns of a key.
//!
//! In: the columns of a key, once; their stored bytes as row images carry them, for each row. Out: a byte string for
//! `memcmp`. Never here: the identity of a row, decoding. Sort keys are equal where MySQL's values are ('a' and 'A' in
//! a case-insensitive collation), so whoever stores them appends the stored bytes. A sort key is never read back.
//!
//! A column's part delimits itself, so the parts of several columns follow one another, and the parts of the first
//! columns are a bound for range reads. NULL is lower than any value. A descending column's part is inverted.
//!
//! # Format
//!
//! | Column | Part |
//! |---|---|
//! | nullable | 0 for NULL and nothing else; 1 before a value |
//! | integers, YEAR, ENUM and SET by number, DATE | big-endian, of the stored length, the sign bit inverted if signed |
//! | BIT, TIME, DATETIME, TIMESTAMP | the stored bytes, which are big-endian and biased |
//! | DECIMAL | the stored bytes, with a negative zero made positive |
//! | FLOAT, DOUBLE | big-endian; all bits of negative numbers inverted, the sign bit of others; −0.0 is 0.0 |
//! | BINARY | its bytes, padded with 0 to the column's length |
//! | VARBINARY, BLOB, VECTOR, text in `utf8mb4_0900_bin` | the bytes, 0 as 0 0xff; then 0 0 |
//! | text in `utf8mb4_0900_{ai_ci,as_ci,as_cs}` | the weights of each level, two bytes each; 0 0 after each level |
//! | other text | weights of 1 to 3 bytes; runs of spaces are counted (below); then the space's weight and 0x80 |
//! | JSON, GEOMETRY, text in other collations | the bytes as for VARBINARY: not MySQL's order |
//!
//! Collations with PAD SPACE compare as if the shorter text continued with spaces. A run of n spaces is written as one
//! weight of the space and its length: n before a lower weight (as bytes up to 0x7d; 0x7e means 0x7d and more to come),
//! the complement of that before a higher weight. The end of the text is a run without end.
//!
//! The order of text is checked against WEIGHT_STRING of a 9.7 server for every character, and the order of rows of
//! every type against ORDER BY (`tests/sort_key_server.rs`).

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
    /// True unless the column is NOT NULL.
    pub nullable: bool,
    /// True for DESC.
    pub descending: bool,
    /// Length of a prefix key part, in characters, or in bytes if the column holds bytes; `None` for the whole column.
    pub prefix_len: Option<u32>,
}

/// Prepared encoding of one key's sort keys.
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

/// How a column's stored bytes are encoded.
#[derive(Debug, Clone, Copy)]
enum Kind {
    /// Little-endian integers of this many bytes.
    Unsigned(usize),
    Signed(usize),
    /// This many bytes, which already sort as stored.
    AsIs(usize),
    Decimal(usize),
    Float,
    Double,
    /// BINARY: a length of this many bytes, then the bytes, padded to `len`; the first `keep` of them count.
    FilledBytes {
        length: usize,
        len: usize,
        keep: usize,
    },
    /// A length of this many bytes, then bytes, of which at most `keep` count.
    Bytes {
        length: usize,
        keep: usize,
    },
    /// A length of this many bytes, then text.
    Text {
        length: usize,
        text: Text,
    },
}

#[derive(Debug, Clone, Copy)]
struct Text {
    /// `None` if the collation has no weights: ordered by bytes.
    order: Option<Order>,
    charset: &'static str,
    /// Padding of CHAR, which is not part of its values; empty for other types.
    pad: &'static [u8],
    /// Maximum characters that count.
    keep: Option<u32>,
}

/// True if sort keys of text in this collation are in MySQL's order: all `_bin` collations and `binary`;
/// `utf8mb4_0900_{ai_ci,as_ci,as_cs,bin}`; for utf8mb4, utf8mb3, ucs2, utf16, utf16le and utf32 those named
/// `_general_ci`, `_unicode_ci`, `_unicode_520_ci`, `_general_mysql500_ci` and `_tolower_ci`; all of single-byte
/// character sets except `latin1_german2_ci`, `latin2_czech_cs`, `cp1250_czech_cs` and `tis620_thai_ci`.
/// [`implemented_collations`] lists them.
#[must_use]
pub fn implemented(collation_id: u16) -> bool {
    collation::by_id(collation_id).and_then(Order::of).is_some()
}

/// Collations for which [`implemented`] holds, ordered by id.
pub fn implemented_collations() -> impl Iterator<Item = Collation> {
    (0..=u16::MAX).filter_map(collation::by_id).filter(|found| Order::of(*found).is_some())
}

impl SortKeyPlan {
    /// Prepares the encoding for a key's columns, given in key order. Keys of up to 3072 bytes, InnoDB's maximum, give
    /// sort keys below 64 KiB.
    ///
    /// # Errors
    /// A column has a type that no row image holds.
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

    /// True if sort keys are in MySQL's order. False if the key has a JSON or GEOMETRY column, or one whose collation
    /// is not implemented.
    #[must_use]
    pub fn is_ordered(&self) -> bool {
        self.ordered_columns == self.columns.len()
    }

    /// Number of leading columns that are in MySQL's order.
    #[must_use]
    pub fn ordered_columns(&self) -> usize {
        self.ordered_columns
    }

    /// Number of columns in the key.
    #[must_use]
    pub fn column_count(&self) -> usize {
        self.columns.len()
    }

    /// Appends the sort key of a row to `out`. `values` holds the key's columns in key order: stored bytes with their
    /// length prefix as [`crate::RowLayout::walk_offsets`] returns them, `None` for NULL. Fewer values give the prefix
    /// that the sort keys of all rows with these values share.
    ///
    /// # Errors
    /// There are more values than columns, a NOT NULL column has NULL, or stored bytes have the wrong length. `out`
    /// then holds a partial key.
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
    #[inline(always)]
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
    /// Chooses the encoding of a column; the flag is true if the result is in MySQL's order.
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

    /// Returns `None` if the stored bytes have the wrong length.
    #[inline(always)]
    fn append(self, stored: &[u8], out: &mut Vec<u8>) -> Option<()> {
        match self {
            // The most common keys, without a loop over bytes.
            Kind::Signed(4) => {
                out.extend_from_slice(&(u32::from_le_bytes(stored.try_into().ok()?) ^ 1 << 31).to_be_bytes());
            }
            Kind::Signed(8) => {
                out.extend_from_slice(&(u64::from_le_bytes(stored.try_into().ok()?) ^ 1 << 63).to_be_bytes());
            }
            Kind::Unsigned(4) => out.extend_from_slice(&u32::from_le_bytes(stored.try_into().ok()?).to_be_bytes()),
            Kind::Unsigned(8) => out.extend_from_slice(&u64::from_le_bytes(stored.try_into().ok()?).to_be_bytes()),
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

/// The bytes after a length prefix of `length` bytes, if it states their number.
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
    // The server never stores a negative zero; one would equal zero.
    let negative_zero = *first == 0x7f && rest.iter().all(|byte| *byte == 0xff);
    let flip = if negative_zero { 0xff } else { 0 };
    out.extend(stored.iter().map(|byte| byte ^ flip));
    Some(())
}

#[cfg(test)]
#[path = "sort_key_tests.rs"]
mod tests;
