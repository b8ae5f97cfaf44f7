//! Converts rows of a prepared statement's result into row images.
//!
//! In: the types of a table's columns and of the result's columns; rows as COM_STMT_EXECUTE returns them. Out: the
//! image that a rows event would carry for the same row. JSON is the exception: a result has no binary form of it, so
//! the image holds its text instead of the document. `comparable_image` brings images from the log into the same form.
//! Never here: I/O, a value that fits only approximately.
//!
//! The statement must run with `character_set_results = NULL` and `time_zone = '+00:00'`, and must select every column
//! with the expression from `select_expression`.

use crate::charset;
use crate::collation;
use crate::column_type::{ColumnType, type_code as t};
use crate::error::ValueError;
use crate::layout::{NullBitmap, OFFSET_NULL, RowLayout};
use crate::temporal::{DateTime, Time};
use crate::{decimal, json, text};

/// Type of a result column, from its column definition packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ResultColumn {
    /// Type code on the wire.
    pub code: u8,
    /// The UNSIGNED flag.
    pub unsigned: bool,
}

/// Selects NULL in place of a column; every type takes it.
pub const SELECT_NULL: &str = "NULL";

/// Expression that selects a column so that ENUM, SET and BIT arrive as numbers. `name` is already quoted.
#[must_use]
pub fn select_expression(ty: &ColumnType, name: &str) -> String {
    match ty.code {
        // `name + 0` is a DOUBLE for ENUM and SET, too small for a SET of 64 members.
        t::ENUM | t::SET | t::BIT => format!("CAST({name} AS UNSIGNED)"),
        _ => name.to_owned(),
    }
}

/// Converts result rows into row images of one table.
#[derive(Debug, Clone)]
pub struct RowEncoder {
    columns: Box<[(ColumnType, ResultColumn)]>,
}

impl RowEncoder {
    /// Encoder for a table's columns and the result's columns, given in the same order.
    ///
    /// # Errors
    /// The numbers of columns differ, or a result column's type does not suit its table column.
    pub fn new(columns: &[ColumnType], result: &[ResultColumn]) -> Result<RowEncoder, ValueError> {
        if columns.len() != result.len() {
            return Err(ValueError::Invalid { what: "number of result columns" });
        }
        for (ty, wire) in columns.iter().zip(result) {
            if !fits(ty, wire.code) {
                return Err(ValueError::unsupported(format!("result type {} for a {} column", wire.code, ty.name())));
            }
        }
        Ok(RowEncoder { columns: columns.iter().cloned().zip(result.iter().copied()).collect() })
    }

    /// Appends the image of a row packet.
    ///
    /// # Errors
    /// The packet is not a row of these columns, or a value does not fit its column. `out` then holds a partial image.
    pub fn encode_packet(&self, packet: &[u8], out: &mut Vec<u8>) -> Result<(), ValueError> {
        let invalid = ValueError::Invalid { what: "row packet" };
        let Some((0, rest)) = packet.split_first() else { return Err(invalid) };
        let (nulls, values) = rest.split_at_checked((self.columns.len() + 9) / 8).ok_or(invalid)?;
        self.encode(nulls, values, out)
    }

    /// Appends the image of a row, given as the packet's null bitmap (column 0 is bit 2) and its values.
    ///
    /// # Errors
    /// As `encode_packet`.
    pub fn encode(&self, nulls: &[u8], values: &[u8], out: &mut Vec<u8>) -> Result<(), ValueError> {
        let mut bitmap = NullBitmap::start(out, self.columns.len());
        let mut rest = values;
        for (index, (ty, wire)) in self.columns.iter().enumerate() {
            let bit = index + 2;
            let byte = nulls.get(bit / 8).ok_or(ValueError::Invalid { what: "row packet" })?;
            if byte >> (bit % 8) & 1 == 1 {
                bitmap.null(out);
            } else {
                bitmap.not_null();
                rest = encode_value(ty, *wire, rest, out)?;
            }
        }
        if rest.is_empty() { Ok(()) } else { Err(ValueError::Invalid { what: "row packet" }) }
    }
}

/// True if values of this wire type can be stored in the column.
fn fits(ty: &ColumnType, wire: u8) -> bool {
    let integer = matches!(wire, t::TINY | t::SHORT | t::INT24 | t::LONG | t::LONGLONG | t::YEAR);
    let bytes = matches!(wire, t::VARCHAR | t::VAR_STRING | t::CHAR | 249..=t::BLOB);
    match ty.code {
        // Of `SELECT_NULL`.
        _ if wire == t::NULL => true,
        t::TINY | t::SHORT | t::INT24 | t::LONG | t::LONGLONG | t::YEAR => integer,
        t::ENUM | t::SET => integer || wire == t::DOUBLE,
        t::BIT => integer || wire == t::BIT,
        t::FLOAT => wire == t::FLOAT,
        t::DOUBLE => wire == t::DOUBLE,
        t::DECIMAL => wire == t::DECIMAL,
        t::DATE | t::DATETIME2 | t::TIMESTAMP2 => matches!(wire, t::DATE | t::DATETIME | t::TIMESTAMP),
        t::TIME2 => wire == t::TIME,
        t::CHAR | t::VARCHAR | t::BLOB => bytes,
        // MariaDB has no JSON type.
        t::JSON => wire == t::JSON || bytes,
        t::GEOMETRY => wire == t::GEOMETRY || bytes,
        t::VECTOR => wire == t::VECTOR || bytes,
        _ => false,
    }
}

/// Appends the stored bytes of the value at the front of `bytes` and returns the rest.
///
/// # Errors
/// The bytes are not a value of the wire type, or the value does not fit the column.
fn encode_value<'a>(
    ty: &ColumnType,
    wire: ResultColumn,
    bytes: &'a [u8],
    out: &mut Vec<u8>,
) -> Result<&'a [u8], ValueError> {
    let misfit = ValueError::Invalid { what: ty.name() };
    match ty.code {
        // It has no bytes of its own: whatever follows would be taken for the column's.
        _ if wire.code == t::NULL => Err(misfit),
        t::TINY | t::SHORT | t::INT24 | t::LONG | t::LONGLONG | t::YEAR | t::ENUM | t::SET => {
            let (value, rest) = number(ty, wire, bytes)?;
            push_number(ty, value, out)?;
            Ok(rest)
        }
        t::BIT => {
            let len = ty.fixed_len().unwrap_or(0);
            if wire.code != t::BIT {
                let (value, rest) = number(ty, wire, bytes)?;
                let value = u64::try_from(value).ok().filter(|v| ty.meta >= 64 || v >> ty.meta == 0).ok_or(misfit)?;
                out.extend(value.to_be_bytes().iter().skip(8 - len.min(8)));
                return Ok(rest);
            }
            let (value, rest) = sized(bytes)?;
            if value.len() != len {
                return Err(misfit);
            }
            out.extend_from_slice(value);
            Ok(rest)
        }
        t::FLOAT | t::DOUBLE => {
            let (value, rest) = bytes.split_at_checked(if ty.code == t::FLOAT { 4 } else { 8 }).ok_or(misfit)?;
            out.extend_from_slice(value);
            Ok(rest)
        }
        t::DECIMAL => {
            let (value, rest) = sized(bytes)?;
            let (precision, scale) = ty.precision_and_scale();
            decimal::from_text(precision, scale, value, out)?;
            Ok(rest)
        }
        t::DATE | t::DATETIME2 | t::TIMESTAMP2 => {
            let (value, rest) = datetime(bytes)?;
            match ty.code {
                t::DATE => value.push_date(out)?,
                t::DATETIME2 => value.push_datetime(ty.meta, out)?,
                _ => value.push_timestamp(ty.meta, out)?,
            }
            Ok(rest)
        }
        t::TIME2 => {
            let (value, rest) = time(bytes)?;
            value.push(ty.meta, out)?;
            Ok(rest)
        }
        _ => {
            let (value, rest) = sized(bytes)?;
            push_content(ty, value, out)?;
            Ok(rest)
        }
    }
}

/// Appends a number in its stored form, little-endian.
pub(crate) fn push_number(ty: &ColumnType, value: i128, out: &mut Vec<u8>) -> Result<(), ValueError> {
    let misfit = ValueError::Invalid { what: ty.name() };
    let len = ty.fixed_len().unwrap_or(0).clamp(1, 8);
    #[allow(clippy::cast_possible_truncation, reason = "at most 8, clamped above")]
    let bits = 8 * len as u32;
    let value = match (ty.code, value) {
        (t::YEAR, 0) => 0,
        (t::YEAR, 1901..=2155) => value - 1900,
        (t::YEAR, _) => return Err(misfit),
        _ => value,
    };
    let unsigned = ty.unsigned || matches!(ty.code, t::ENUM | t::SET | t::YEAR);
    let range = if unsigned { 0..1i128 << bits } else { -(1i128 << (bits - 1))..1i128 << (bits - 1) };
    if !range.contains(&value) {
        return Err(misfit);
    }
    out.extend(value.to_le_bytes().iter().take(len));
    Ok(())
}

/// Appends a value with its length prefix as the server packs it: CHAR and BINARY without padding.
pub(crate) fn push_content(ty: &ColumnType, value: &[u8], out: &mut Vec<u8>) -> Result<(), ValueError> {
    let misfit = ValueError::Invalid { what: ty.name() };
    let value = if ty.code == t::CHAR { without_padding(ty.collation, value)? } else { value };
    let limit = match ty.code {
        t::CHAR | t::VARCHAR => u64::from(ty.meta),
        _ => (1u64 << (8 * ty.prefix_len())) - 1,
    };
    let len = u64::try_from(value.len()).ok().filter(|len| *len <= limit).ok_or(misfit)?;
    out.extend(len.to_le_bytes().iter().take(ty.prefix_len()));
    out.extend_from_slice(value);
    Ok(())
}

fn without_padding(collation: u16, value: &[u8]) -> Result<&[u8], ValueError> {
    if collation::by_id(collation).is_none() {
        return Err(ValueError::unsupported(format!("CHAR with the collation id {collation}")));
    }
    let pad = charset::pad(collation);
    let mut value = value;
    while let Some(shorter) = value.strip_suffix(pad) {
        value = shorter;
    }
    Ok(value)
}

fn number<'a>(ty: &ColumnType, wire: ResultColumn, bytes: &'a [u8]) -> Result<(i128, &'a [u8]), ValueError> {
    let invalid = ValueError::Invalid { what: ty.name() };
    let len = match wire.code {
        t::TINY => 1,
        t::SHORT | t::YEAR => 2,
        t::INT24 | t::LONG => 4,
        _ => 8,
    };
    let (value, rest) = bytes.split_at_checked(len).ok_or(invalid.clone())?;
    let bits = value.iter().rev().fold(0u64, |bits, byte| bits << 8 | u64::from(*byte));
    let unused = 64 - 8 * len;
    let number = if wire.code == t::DOUBLE {
        let double = f64::from_bits(bits);
        let exact = double.fract() == 0.0 && double.abs() <= (1u64 << 53) as f64;
        if !exact {
            return Err(invalid);
        }
        #[allow(clippy::cast_possible_truncation, reason = "a whole number of at most 53 bits, checked above")]
        let whole = double as i128;
        whole
    } else if wire.unsigned || wire.code == t::YEAR {
        i128::from(bits)
    } else {
        i128::from((bits << unused) as i64 >> unused)
    };
    Ok((number, rest))
}

/// Splits off a value with a length prefix of 1, 3, 4 or 9 bytes; returns it and the rest.
fn sized(bytes: &[u8]) -> Result<(&[u8], &[u8]), ValueError> {
    let invalid = ValueError::Invalid { what: "row packet" };
    let (first, rest) = bytes.split_first().ok_or(invalid.clone())?;
    let len_len = match first {
        0..=250 => 0,
        252 => 2,
        253 => 3,
        254 => 8,
        _ => return Err(invalid),
    };
    let (len, rest) = rest.split_at_checked(len_len).ok_or(invalid.clone())?;
    let len = match len_len {
        0 => u64::from(*first),
        _ => len.iter().rev().fold(0u64, |len, byte| len << 8 | u64::from(*byte)),
    };
    usize::try_from(len).ok().and_then(|len| rest.split_at_checked(len)).ok_or(invalid)
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..).and_then(|b| b.first_chunk()).map_or(0, |b| u32::from_le_bytes(*b))
}

fn datetime(bytes: &[u8]) -> Result<(DateTime, &[u8]), ValueError> {
    let (value, rest) = sized(bytes)?;
    let mut when = DateTime::default();
    if let [y0, y1, month, day, ..] = value {
        when.year = u32::from(u16::from_le_bytes([*y0, *y1]));
        (when.month, when.day) = (u32::from(*month), u32::from(*day));
    }
    if let [_, _, _, _, hour, minute, second, ..] = value {
        (when.hour, when.minute, when.second) = (u32::from(*hour), u32::from(*minute), u32::from(*second));
    }
    when.micros = u32_at(value, 7);
    match value.len() {
        0 | 4 | 7 | 11 => Ok((when, rest)),
        len => Err(ValueError::WrongLength { what: "DATETIME", len }),
    }
}

fn time(bytes: &[u8]) -> Result<(Time, &[u8]), ValueError> {
    let (value, rest) = sized(bytes)?;
    let mut time = Time::default();
    if let [sign, d0, d1, d2, d3, hour, minute, second, ..] = value {
        let hours = u64::from(u32::from_le_bytes([*d0, *d1, *d2, *d3])) * 24 + u64::from(*hour);
        time.negative = *sign != 0;
        time.hour = u32::try_from(hours).unwrap_or(u32::MAX);
        (time.minute, time.second) = (u32::from(*minute), u32::from(*second));
    }
    time.micros = u32_at(value, 8);
    match value.len() {
        0 | 8 | 12 => Ok((time, rest)),
        len => Err(ValueError::WrongLength { what: "TIME", len }),
    }
}

/// Appends `image` (all columns, as stored) in the form that `RowEncoder` produces: JSON documents as text, unused bits
/// of the null bitmap 0. The columns at the positions `without` become NULL. Returns how many bytes of `image` the row
/// took.
///
/// # Errors
/// The image is cut off, or a document is damaged. `out` then holds a partial image.
pub fn comparable_image(
    columns: &[ColumnType],
    layout: &RowLayout,
    without: &[usize],
    image: &[u8],
    offsets: &mut Vec<(u32, u32)>,
    out: &mut Vec<u8>,
) -> Result<usize, ValueError> {
    let len = layout.walk_offsets(image, offsets)?;
    let mut bitmap = NullBitmap::start(out, columns.len());
    let mut document = Vec::new();
    for (column, (ty, (at, value_len))) in columns.iter().zip(offsets.iter()).enumerate() {
        if *at == OFFSET_NULL || without.contains(&column) {
            bitmap.null(out);
            continue;
        }
        bitmap.not_null();
        let stored = image.get(*at as usize..).and_then(|rest| rest.get(..*value_len as usize)).unwrap_or(&[]);
        if ty.code == t::JSON {
            document.clear();
            json::write_text(text::content(ty, stored)?, &mut document)?;
            push_content(ty, &document, out)?;
        } else {
            out.extend_from_slice(stored);
        }
    }
    Ok(len)
}

#[cfg(test)]
#[path = "binary_protocol_tests.rs"]
mod tests;
