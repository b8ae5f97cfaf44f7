//! Rows in text and binary form.

use std::io::Write as _;

use crate::read::{put_lenenc, put_lenenc_bytes};
use crate::response::ColumnDefinition;
use crate::row::{DateTime, Time, Value, ValueType, type_code};
use crate::{Result, WireError};

/// The part of a column's definition that is required to write its values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ColumnForm {
    /// Type and sign.
    pub value: ValueType,
    /// Number of digits of fractional seconds.
    pub decimals: u8,
}

impl ColumnForm {
    /// The form of a column with this definition.
    #[must_use]
    pub fn of(column: &ColumnDefinition<'_>) -> ColumnForm {
        let unsigned = column.flags & crate::response::column_flag::UNSIGNED != 0;
        ColumnForm { value: ValueType { code: column.type_code, unsigned }, decimals: column.decimals }
    }
}

const MISFIT: WireError = WireError::Unwritable { what: "a value that its column's type does not hold" };

/// Appends a row of the text protocol. FLOAT and DOUBLE are passed as text ([`Value::Bytes`]), because this crate does
/// not know how a server prints them.
///
/// # Errors
/// More or fewer values than columns, or a value that does not fit its column; `out` then contains a partial row.
pub fn put_text_row(out: &mut Vec<u8>, columns: &[ColumnForm], values: &[Value<'_>]) -> Result<()> {
    check_count(columns, values)?;
    for (column, value) in columns.iter().zip(values) {
        match *value {
            Value::Null => put_text(out, None),
            Value::Int(value) => short_text(out, format_args!("{value}")),
            Value::UInt(value) => short_text(out, format_args!("{value}")),
            Value::Bytes(bytes) => put_text(out, Some(bytes)),
            Value::DateTime(value) => put_date_time_text(out, *column, value),
            Value::Time(value) => put_time_text(out, *column, value),
            Value::Float(_) | Value::Double(_) => {
                return Err(WireError::Unwritable { what: "a floating-point number without its text" });
            }
        }
    }
    Ok(())
}

/// Appends a row of the binary protocol.
///
/// # Errors
/// As [`put_text_row`].
pub fn put_binary_row(out: &mut Vec<u8>, columns: &[ColumnForm], values: &[Value<'_>]) -> Result<()> {
    check_count(columns, values)?;
    out.push(0);
    // Column 0 is bit 2.
    let bitmap = out.len();
    out.resize(bitmap + (columns.len() + 2).div_ceil(8), 0);
    for (index, (column, value)) in columns.iter().zip(values).enumerate() {
        if *value == Value::Null {
            let bit = index + 2;
            if let Some(byte) = out.get_mut(bitmap + bit / 8) {
                *byte |= 1 << (bit % 8);
            }
        } else {
            put_binary_value(out, column.value, *value)?;
        }
    }
    Ok(())
}

fn check_count(columns: &[ColumnForm], values: &[Value<'_>]) -> Result<()> {
    if columns.len() == values.len() {
        return Ok(());
    }
    Err(WireError::Unwritable { what: "a row with more or fewer values than columns" })
}

/// Appends a value of a text row; None is NULL.
pub(super) fn put_text(out: &mut Vec<u8>, value: Option<&[u8]>) {
    match value {
        Some(text) => put_lenenc_bytes(out, text),
        None => out.push(0xfb),
    }
}

/// Appends a text of fewer than 251 bytes.
fn short_text(out: &mut Vec<u8>, text: std::fmt::Arguments<'_>) {
    let at = out.len();
    out.push(0);
    // Writing to a vector cannot fail.
    let _ = out.write_fmt(text);
    let len = out.len() - at - 1;
    assert!(len < 0xfb, "a text of {len} bytes has a length of several");
    if let (Some(place), Ok(len)) = (out.get_mut(at), u8::try_from(len)) {
        *place = len;
    }
}

/// Microseconds with the given number of digits after the point; nothing for 0 digits.
struct Fraction {
    micros: u32,
    digits: u8,
}

impl std::fmt::Display for Fraction {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.digits {
            0 => Ok(()),
            digits @ 1..=5 => {
                let digits = usize::from(digits);
                write!(f, ".{:0digits$}", self.micros / 10u32.pow(6 - u32::from(self.digits)))
            }
            _ => write!(f, ".{:06}", self.micros),
        }
    }
}

fn put_date_time_text(out: &mut Vec<u8>, column: ColumnForm, value: DateTime) {
    let DateTime { year, month, day, hour, minute, second, micros } = value;
    if column.value.code == type_code::DATE {
        return short_text(out, format_args!("{year:04}-{month:02}-{day:02}"));
    }
    let fraction = Fraction { micros, digits: column.decimals };
    short_text(out, format_args!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02}{fraction}"));
}

fn put_time_text(out: &mut Vec<u8>, column: ColumnForm, value: Time) {
    let sign = if value.negative { "-" } else { "" };
    let hours = u64::from(value.days) * 24 + u64::from(value.hours);
    let fraction = Fraction { micros: value.micros, digits: column.decimals };
    let Time { minutes, seconds, .. } = value;
    short_text(out, format_args!("{sign}{hours:02}:{minutes:02}:{seconds:02}{fraction}"));
}

/// Appends a value of a binary row, or of a parameter.
pub(super) fn put_binary_value(out: &mut Vec<u8>, ty: ValueType, value: Value<'_>) -> Result<()> {
    match (ty.code, value) {
        (type_code::TINY, value) => put_integer(out, 1, ty.unsigned, value),
        (type_code::SHORT, value) => put_integer(out, 2, ty.unsigned, value),
        (type_code::YEAR, value) => put_integer(out, 2, true, value),
        (type_code::LONG | type_code::INT24, value) => put_integer(out, 4, ty.unsigned, value),
        (type_code::LONGLONG, value) => put_integer(out, 8, ty.unsigned, value),
        (type_code::FLOAT, Value::Float(value)) => {
            out.extend_from_slice(&value.to_le_bytes());
            Ok(())
        }
        (type_code::DOUBLE, Value::Double(value)) => {
            out.extend_from_slice(&value.to_le_bytes());
            Ok(())
        }
        (type_code::DATE | type_code::DATETIME | type_code::TIMESTAMP, Value::DateTime(value)) => {
            put_date_time(out, value);
            Ok(())
        }
        (type_code::TIME, Value::Time(value)) => {
            put_time(out, value);
            Ok(())
        }
        (
            type_code::FLOAT
            | type_code::DOUBLE
            | type_code::DATE
            | type_code::DATETIME
            | type_code::TIMESTAMP
            | type_code::TIME
            | type_code::NULL,
            _,
        ) => Err(MISFIT),
        (_, Value::Bytes(bytes)) => {
            put_lenenc(out, bytes.len() as u64);
            out.extend_from_slice(bytes);
            Ok(())
        }
        _ => Err(MISFIT),
    }
}

fn put_integer(out: &mut Vec<u8>, width: usize, unsigned: bool, value: Value<'_>) -> Result<()> {
    let value = match value {
        Value::Int(value) => i128::from(value),
        Value::UInt(value) => i128::from(value),
        _ => return Err(MISFIT),
    };
    let bits = 8 * width;
    let range = if unsigned { 0..1i128 << bits } else { -(1i128 << (bits - 1))..1i128 << (bits - 1) };
    if !range.contains(&value) {
        return Err(MISFIT);
    }
    out.extend(value.to_le_bytes().iter().take(width));
    Ok(())
}

/// Appends a date of a binary row in its shortest form, as a server does.
pub fn put_date_time(out: &mut Vec<u8>, value: DateTime) {
    let DateTime { year, month, day, hour, minute, second, micros } = value;
    let [low, high] = year.to_le_bytes();
    let clock = [hour, minute, second];
    if value == DateTime::default() {
        out.push(0);
    } else if micros == 0 && clock == [0; 3] {
        out.extend_from_slice(&[4, low, high, month, day]);
    } else {
        out.extend_from_slice(&[if micros == 0 { 7 } else { 11 }, low, high, month, day, hour, minute, second]);
        if micros != 0 {
            out.extend_from_slice(&micros.to_le_bytes());
        }
    }
}

/// Appends a time of a binary row in its shortest form, as a server does.
pub fn put_time(out: &mut Vec<u8>, value: Time) {
    let Time { negative, days, hours, minutes, seconds, micros } = value;
    if (Time { negative: false, ..value }) == Time::default() {
        out.push(0);
        return;
    }
    out.extend_from_slice(&[if micros == 0 { 8 } else { 12 }, u8::from(negative)]);
    out.extend_from_slice(&days.to_le_bytes());
    out.extend_from_slice(&[hours, minutes, seconds]);
    if micros != 0 {
        out.extend_from_slice(&micros.to_le_bytes());
    }
}
