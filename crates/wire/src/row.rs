//! Rows in text and binary form, and parameters of a prepared statement.

use crate::read::{Reader, put_lenenc_bytes};
use crate::{Result, WireError};

/// Protocol type codes.
pub mod type_code {
    #![allow(missing_docs)]
    pub const DECIMAL: u8 = 0;
    pub const TINY: u8 = 1;
    pub const SHORT: u8 = 2;
    pub const LONG: u8 = 3;
    pub const FLOAT: u8 = 4;
    pub const DOUBLE: u8 = 5;
    pub const NULL: u8 = 6;
    pub const TIMESTAMP: u8 = 7;
    pub const LONGLONG: u8 = 8;
    pub const INT24: u8 = 9;
    pub const DATE: u8 = 10;
    pub const TIME: u8 = 11;
    pub const DATETIME: u8 = 12;
    pub const YEAR: u8 = 13;
    pub const VARCHAR: u8 = 15;
    pub const BIT: u8 = 16;
    pub const JSON: u8 = 245;
    pub const NEWDECIMAL: u8 = 246;
    pub const ENUM: u8 = 247;
    pub const SET: u8 = 248;
    pub const TINY_BLOB: u8 = 249;
    pub const MEDIUM_BLOB: u8 = 250;
    pub const LONG_BLOB: u8 = 251;
    pub const BLOB: u8 = 252;
    pub const VAR_STRING: u8 = 253;
    pub const STRING: u8 = 254;
    /// VECTOR, as its floats.
    pub const VECTOR: u8 = 242;
    pub const GEOMETRY: u8 = 255;
}

/// Reads the next value of a text row: `None` is NULL.
#[inline]
pub fn text_value<'a>(reader: &mut Reader<'a>) -> Result<Option<&'a [u8]>> {
    if reader.rest().first() == Some(&0xfb) {
        reader.take(1, "NULL")?;
        return Ok(None);
    }
    reader.lenenc_bytes("text value").map(Some)
}

/// A parameter of a prepared statement. Dates are sent as text.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Param<'a> {
    /// NULL.
    Null,
    /// A signed integer.
    Int(i64),
    /// An unsigned integer.
    UInt(u64),
    /// A double, sent as 8 bytes.
    Double(f64),
    /// Text, a date, a decimal, or bytes: the server converts it like a string literal.
    Bytes(&'a [u8]),
}

impl<'a> From<&'a str> for Param<'a> {
    fn from(text: &'a str) -> Self {
        Param::Bytes(text.as_bytes())
    }
}

impl<'a> From<&'a [u8]> for Param<'a> {
    fn from(bytes: &'a [u8]) -> Self {
        Param::Bytes(bytes)
    }
}

impl From<i64> for Param<'_> {
    fn from(value: i64) -> Self {
        Param::Int(value)
    }
}

impl From<u64> for Param<'_> {
    fn from(value: u64) -> Self {
        Param::UInt(value)
    }
}

impl From<f64> for Param<'_> {
    fn from(value: f64) -> Self {
        Param::Double(value)
    }
}

/// Appends null bitmap, types and values in the form of COM_STMT_EXECUTE.
pub fn put_params(out: &mut Vec<u8>, params: &[Param<'_>]) {
    if params.is_empty() {
        return;
    }
    let bitmap = out.len();
    out.resize(bitmap + params.len().div_ceil(8), 0);
    for (index, param) in params.iter().enumerate() {
        if matches!(param, Param::Null)
            && let Some(byte) = out.get_mut(bitmap + index / 8)
        {
            *byte |= 1 << (index % 8);
        }
    }
    out.push(1);
    for param in params {
        out.extend_from_slice(match param {
            Param::Null => &[type_code::NULL, 0],
            Param::Int(_) => &[type_code::LONGLONG, 0],
            Param::UInt(_) => &[type_code::LONGLONG, 0x80],
            Param::Double(_) => &[type_code::DOUBLE, 0],
            Param::Bytes(_) => &[type_code::VAR_STRING, 0],
        });
    }
    for param in params {
        match param {
            Param::Null => {}
            Param::Int(value) => out.extend_from_slice(&value.to_le_bytes()),
            Param::UInt(value) => out.extend_from_slice(&value.to_le_bytes()),
            Param::Double(value) => out.extend_from_slice(&value.to_le_bytes()),
            Param::Bytes(bytes) => put_lenenc_bytes(out, bytes),
        }
    }
}

/// A value of a binary row.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Value<'a> {
    /// NULL.
    Null,
    /// A signed integer of any width.
    Int(i64),
    /// An unsigned integer of any width, or YEAR.
    UInt(u64),
    /// FLOAT, bit-exact.
    Float(f32),
    /// DOUBLE, bit-exact.
    Double(f64),
    /// Text, decimal text, BLOB, BIT, JSON text, ENUM and SET text.
    Bytes(&'a [u8]),
    /// DATE, DATETIME or TIMESTAMP.
    DateTime(DateTime),
    /// TIME.
    Time(Time),
}

/// DATE, DATETIME or TIMESTAMP; all zero is the zero date.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct DateTime {
    pub year: u16,
    pub month: u8,
    pub day: u8,
    pub hour: u8,
    pub minute: u8,
    pub second: u8,
    pub micros: u32,
}

/// TIME, with a sign.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
#[allow(missing_docs)]
pub struct Time {
    pub negative: bool,
    pub days: u32,
    pub hours: u8,
    pub minutes: u8,
    pub seconds: u8,
    pub micros: u32,
}

/// Type and sign of a result column, required to read its values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ValueType {
    /// Type code, see [`type_code`].
    pub code: u8,
    /// True if UNSIGNED.
    pub unsigned: bool,
}

/// Reads a binary row column by column.
#[derive(Debug, Clone)]
pub struct BinaryRow<'a> {
    types: &'a [ValueType],
    nulls: &'a [u8],
    values: Reader<'a>,
    column: usize,
}

impl<'a> BinaryRow<'a> {
    /// A reader over a row packet of the binary protocol.
    pub fn new(payload: &'a [u8], types: &'a [ValueType]) -> Result<Self> {
        let mut values = Reader::new(payload);
        if values.u8("row header")? != 0 {
            return Err(WireError::Malformed { what: "row header" });
        }
        let nulls = values.take((types.len() + 9) / 8, "NULL bitmap")?;
        Ok(BinaryRow { types, nulls, values, column: 0 })
    }

    /// Reads the next column's value. Reading past the last column is an error.
    #[inline]
    pub fn next_value(&mut self) -> Result<Value<'a>> {
        let Some(&ty) = self.types.get(self.column) else {
            return Err(WireError::Malformed { what: "row has fewer columns" });
        };
        let bit = self.column + 2;
        self.column += 1;
        if self.nulls.get(bit / 8).is_some_and(|byte| byte & (1 << (bit % 8)) != 0) {
            return Ok(Value::Null);
        }
        binary_value(&mut self.values, ty)
    }

    /// Reads the next column as a signed integer; NULL and other types are `None`.
    pub fn next_int(&mut self) -> Result<Option<i64>> {
        Ok(match self.next_value()? {
            Value::Int(value) => Some(value),
            Value::UInt(value) => i64::try_from(value).ok(),
            _ => None,
        })
    }

    /// Reads the next column's bytes; NULL and other types are `None`.
    pub fn next_bytes(&mut self) -> Result<Option<&'a [u8]>> {
        Ok(match self.next_value()? {
            Value::Bytes(bytes) => Some(bytes),
            _ => None,
        })
    }

    /// The raw null bitmap (column 0 is bit 2), and the bytes of the unread values.
    pub fn raw(&self) -> (&'a [u8], &'a [u8]) {
        (self.nulls, self.values.rest())
    }
}

pub(crate) fn binary_value<'a>(reader: &mut Reader<'a>, ty: ValueType) -> Result<Value<'a>> {
    let signed = |value: i64, unsigned: u64| if ty.unsigned { Value::UInt(unsigned) } else { Value::Int(value) };
    Ok(match ty.code {
        type_code::TINY => {
            let value = reader.u8("TINYINT")?;
            signed(i64::from(value as i8), u64::from(value))
        }
        type_code::SHORT => {
            let value = reader.u16("SMALLINT")?;
            signed(i64::from(value as i16), u64::from(value))
        }
        type_code::YEAR => Value::UInt(u64::from(reader.u16("YEAR")?)),
        type_code::LONG | type_code::INT24 => {
            let value = reader.u32("INT")?;
            signed(i64::from(value as i32), u64::from(value))
        }
        type_code::LONGLONG => {
            let value = reader.u64("BIGINT")?;
            signed(value as i64, value)
        }
        type_code::FLOAT => Value::Float(f32::from_bits(reader.u32("FLOAT")?)),
        type_code::DOUBLE => Value::Double(f64::from_bits(reader.u64("DOUBLE")?)),
        type_code::DATE | type_code::DATETIME | type_code::TIMESTAMP => Value::DateTime(date_time(reader)?),
        type_code::TIME => Value::Time(time(reader)?),
        type_code::NULL => Value::Null,
        _ => Value::Bytes(reader.lenenc_bytes("value")?),
    })
}

/// True for types whose values are bytes after their length.
#[must_use]
pub fn is_bytes(code: u8) -> bool {
    use type_code::*;
    let fixed = [TINY, SHORT, YEAR, LONG, INT24, LONGLONG, FLOAT, DOUBLE, NULL];
    !fixed.contains(&code) && ![DATE, DATETIME, TIMESTAMP, TIME].contains(&code)
}

fn date_time(reader: &mut Reader<'_>) -> Result<DateTime> {
    let len = reader.u8("date length")?;
    let mut value = DateTime::default();
    if !matches!(len, 0 | 4 | 7 | 11) {
        return Err(WireError::Malformed { what: "date length" });
    }
    if len >= 4 {
        value.year = reader.u16("year")?;
        value.month = reader.u8("month")?;
        value.day = reader.u8("day")?;
    }
    if len >= 7 {
        value.hour = reader.u8("hour")?;
        value.minute = reader.u8("minute")?;
        value.second = reader.u8("second")?;
    }
    if len == 11 {
        value.micros = reader.u32("microseconds")?;
    }
    Ok(value)
}

fn time(reader: &mut Reader<'_>) -> Result<Time> {
    let len = reader.u8("time length")?;
    let mut value = Time::default();
    if !matches!(len, 0 | 8 | 12) {
        return Err(WireError::Malformed { what: "time length" });
    }
    if len >= 8 {
        value.negative = reader.u8("sign")? != 0;
        value.days = reader.u32("days")?;
        value.hours = reader.u8("hours")?;
        value.minutes = reader.u8("minutes")?;
        value.seconds = reader.u8("seconds")?;
    }
    if len == 12 {
        value.micros = reader.u32("microseconds")?;
    }
    Ok(value)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn params_layout() {
        let mut out = Vec::new();
        put_params(&mut out, &[Param::Null, Param::Int(-2), Param::Bytes(b"ab")]);
        assert_eq!(out, b"\x01\x01\x06\x00\x08\x00\xfd\x00\xfe\xff\xff\xff\xff\xff\xff\xff\x02ab");
    }

    #[test]
    fn binary_row_values() {
        let types: Vec<ValueType> = [
            (type_code::TINY, false),
            (type_code::TINY, true),
            (type_code::VAR_STRING, false),
            (type_code::LONG, false),
            (type_code::DATETIME, false),
            (type_code::TIME, false),
            (type_code::DATE, false),
        ]
        .map(|(code, unsigned)| ValueType { code, unsigned })
        .to_vec();
        let row = b"\x00\x20\x00\xff\xff\x02hi\x0b\xea\x07\x0b\x15\x01\x02\x03\x05\x00\x00\x00\x08\x01\x01\x00\x00\x00\x02\x03\x04\x00";
        let mut row = BinaryRow::new(row, &types).unwrap();
        assert_eq!(row.next_value().unwrap(), Value::Int(-1));
        assert_eq!(row.next_value().unwrap(), Value::UInt(255));
        assert_eq!(row.next_bytes().unwrap(), Some(&b"hi"[..]));
        assert_eq!(row.next_int().unwrap(), None);
        let at = DateTime { year: 2026, month: 11, day: 21, hour: 1, minute: 2, second: 3, micros: 5 };
        assert_eq!(row.next_value().unwrap(), Value::DateTime(at));
        let time = Time { negative: true, days: 1, hours: 2, minutes: 3, seconds: 4, micros: 0 };
        assert_eq!(row.next_value().unwrap(), Value::Time(time));
        assert_eq!(row.next_value().unwrap(), Value::DateTime(DateTime::default()));
        assert!(row.next_value().is_err());
    }

    proptest! {
        #[test]
        fn hostile_rows_never_panic(
            bytes in prop::collection::vec(any::<u8>(), 0..200),
            codes in prop::collection::vec(any::<(u8, bool)>(), 0..40),
        ) {
            let types: Vec<ValueType> = codes.iter().map(|&(code, unsigned)| ValueType { code, unsigned }).collect();
            for header in [true, false] {
                let mut payload = bytes.clone();
                if header && let Some(first) = payload.first_mut() {
                    *first = 0;
                }
                if let Ok(mut row) = BinaryRow::new(&payload, &types) {
                    while row.next_value().is_ok() {}
                }
            }
            let mut reader = Reader::new(&bytes);
            while text_value(&mut reader).is_ok() {}
        }
    }
}
