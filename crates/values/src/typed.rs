//! Stored bytes as typed values, for readers that compute: SQL expressions, prepared statements, columnar formats.
//!
//! In: a column's type and its stored bytes, or a whole row image. Out: integers, floats, decimals, dates, borrowed
//! bytes. Never here: an allocation, a character set converted, a value guessed: bytes that are no value of the type
//! are an error.

use crate::column_type::{ColumnType, type_code as t};
use crate::decimal;
use crate::error::ValueError;
use crate::layout::{OFFSET_NULL, RowLayout};
use crate::temporal::{DateTime, Time};
use crate::text::content;

/// One value of a column.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum TypedValue<'a> {
    /// NULL.
    Null,
    /// A signed integer.
    Int(i64),
    /// An unsigned integer; the bits of a BIT.
    Unsigned(u64),
    /// FLOAT.
    Float(f32),
    /// DOUBLE.
    Double(f64),
    /// DECIMAL.
    Decimal(DecimalValue<'a>),
    /// YEAR; 0 is the year 0000.
    Year(u16),
    /// DATE.
    Date(DateValue),
    /// DATETIME; TIMESTAMP, in UTC.
    DateTime(DateTimeValue),
    /// TIME.
    Time(TimeValue),
    /// CHAR, VARCHAR and TEXT: bytes in the column's character set.
    Text(&'a [u8]),
    /// BINARY, VARBINARY, BLOB, GEOMETRY, VECTOR. Of BINARY without the zero bytes at its end.
    Bytes(&'a [u8]),
    /// JSON in the server's binary form.
    Json(&'a [u8]),
    /// Number of the member of an ENUM, from 1; 0 is the empty error value.
    Enum(u64),
    /// Members of a SET, a bit each.
    Set(u64),
}

/// A DECIMAL as it is stored.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct DecimalValue<'a> {
    precision: u8,
    scale: u8,
    stored: &'a [u8],
}

/// A date; all zero is MySQL's zero date. Month and day may be zero alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct DateValue {
    /// 0 to 9999.
    pub year: u32,
    /// 0 to 12.
    pub month: u32,
    /// 0 to 31.
    pub day: u32,
}

/// A date with a time of day.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct DateTimeValue {
    /// The day.
    pub date: DateValue,
    /// 0 to 23.
    pub hour: u32,
    /// 0 to 59.
    pub minute: u32,
    /// 0 to 59.
    pub second: u32,
    /// 0 to 999,999.
    pub micros: u32,
}

/// A signed duration of up to 838:59:59.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TimeValue {
    /// Below zero.
    pub negative: bool,
    /// 0 to 838.
    pub hour: u32,
    /// 0 to 59.
    pub minute: u32,
    /// 0 to 59.
    pub second: u32,
    /// 0 to 999,999.
    pub micros: u32,
}

impl DecimalValue<'_> {
    /// Digits, and how many of them stand after the point.
    #[must_use]
    pub fn precision_and_scale(&self) -> (u8, u8) {
        (self.precision, self.scale)
    }

    /// Appends it as text, as the server prints it.
    ///
    /// # Errors
    /// The bytes are no DECIMAL of this precision.
    pub fn write_text(&self, out: &mut Vec<u8>) -> Result<(), ValueError> {
        decimal::write_text(self.precision, self.scale, self.stored, out)
    }

    /// The number without its point: 1.50 of scale 2 is 150. None for more than 38 digits. `scratch` is overwritten.
    ///
    /// # Errors
    /// As [`write_text`](Self::write_text).
    pub fn unscaled(&self, scratch: &mut Vec<u8>) -> Result<Option<i128>, ValueError> {
        scratch.clear();
        self.write_text(scratch)?;
        let digits = scratch.iter().filter(|byte| byte.is_ascii_digit());
        let sum = |sum: i128, byte: &u8| sum.checked_mul(10)?.checked_add(i128::from(byte - b'0'));
        let number = digits.copied().try_fold(0i128, |so_far, byte| sum(so_far, &byte));
        Ok(number.map(|number| if scratch.first() == Some(&b'-') { -number } else { number }))
    }
}

impl From<DateTime> for DateValue {
    fn from(value: DateTime) -> DateValue {
        DateValue { year: value.year, month: value.month, day: value.day }
    }
}

impl From<DateTime> for DateTimeValue {
    fn from(value: DateTime) -> DateTimeValue {
        let DateTime { hour, minute, second, micros, .. } = value;
        DateTimeValue { date: value.into(), hour, minute, second, micros }
    }
}

impl DateTimeValue {
    /// Adds seconds, as from UTC to a zone; None for a day that does not exist, and beyond the years 1 to 9999.
    #[must_use]
    pub fn shifted(self, seconds: i64) -> Option<DateTimeValue> {
        self.parts().shifted(seconds).map(DateTimeValue::from)
    }

    /// Seconds since 1970, as if it were in UTC; None for a day that does not exist, and in the year 0.
    #[must_use]
    pub fn since_1970(self) -> Option<i64> {
        self.parts().since_1970()
    }

    fn parts(self) -> DateTime {
        let DateTimeValue { date, hour, minute, second, micros } = self;
        DateTime { year: date.year, month: date.month, day: date.day, hour, minute, second, micros }
    }
}

impl From<Time> for TimeValue {
    fn from(Time { negative, hour, minute, second, micros }: Time) -> TimeValue {
        TimeValue { negative, hour, minute, second, micros }
    }
}

impl<'a> TypedValue<'a> {
    /// The value of a column's stored bytes, which are not NULL.
    ///
    /// # Errors
    /// The bytes are no value of the type.
    pub fn of(ty: &ColumnType, stored: &'a [u8]) -> Result<TypedValue<'a>, ValueError> {
        Ok(match ty.code {
            t::TINY | t::SHORT | t::INT24 | t::LONG | t::LONGLONG => {
                let bits = little_endian(ty, stored)?;
                if ty.unsigned {
                    TypedValue::Unsigned(bits)
                } else {
                    TypedValue::Int(sign_extended(bits, stored.len()))
                }
            }
            t::FLOAT => TypedValue::Float(f32::from_le_bytes(fixed(ty, stored)?)),
            t::DOUBLE => TypedValue::Double(f64::from_le_bytes(fixed(ty, stored)?)),
            t::DECIMAL => {
                let (precision, scale) = ty.precision_and_scale();
                if stored.len() != decimal::stored_len(precision, scale) {
                    return Err(wrong_length(ty, stored));
                }
                TypedValue::Decimal(DecimalValue { precision, scale, stored })
            }
            t::YEAR => {
                let [year] = fixed(ty, stored)?;
                TypedValue::Year(if year == 0 { 0 } else { 1900 + u16::from(year) })
            }
            t::DATE => TypedValue::Date(DateTime::from_date(stored)?.into()),
            t::TIME2 => TypedValue::Time(Time::from_time(ty.meta, stored)?.into()),
            t::TIME => TypedValue::Time(Time::from_old_time(stored)?.into()),
            t::DATETIME2 => TypedValue::DateTime(DateTime::from_datetime(ty.meta, stored)?.into()),
            t::DATETIME => TypedValue::DateTime(DateTime::from_old_datetime(stored)?.into()),
            t::TIMESTAMP2 => TypedValue::DateTime(DateTime::from_timestamp(ty.meta, stored)?.into()),
            t::TIMESTAMP => {
                TypedValue::DateTime(DateTime::from_seconds(u32::from_le_bytes(fixed(ty, stored)?), 0).into())
            }
            t::BIT if stored.len() <= 8 => {
                TypedValue::Unsigned(stored.iter().fold(0, |bits, byte| bits << 8 | u64::from(*byte)))
            }
            t::ENUM => TypedValue::Enum(little_endian(ty, stored)?),
            t::SET => TypedValue::Set(little_endian(ty, stored)?),
            t::JSON => TypedValue::Json(content(ty, stored)?),
            t::GEOMETRY | t::VECTOR => TypedValue::Bytes(content(ty, stored)?),
            t::CHAR | t::VARCHAR | t::BLOB if ty.collation == crate::collation::BINARY => {
                TypedValue::Bytes(content(ty, stored)?)
            }
            t::CHAR | t::VARCHAR | t::BLOB => TypedValue::Text(content(ty, stored)?),
            _ => return Err(ValueError::unsupported(format!("column type {}", ty.code))),
        })
    }
}

#[cold]
fn wrong_length(ty: &ColumnType, stored: &[u8]) -> ValueError {
    ValueError::WrongLength { what: ty.name(), len: stored.len() }
}

fn fixed<const N: usize>(ty: &ColumnType, stored: &[u8]) -> Result<[u8; N], ValueError> {
    stored.try_into().map_err(|_| wrong_length(ty, stored))
}

fn little_endian(ty: &ColumnType, stored: &[u8]) -> Result<u64, ValueError> {
    if ty.fixed_len() != Some(stored.len()) || stored.len() > 8 {
        return Err(wrong_length(ty, stored));
    }
    Ok(stored.iter().rev().fold(0, |value, byte| value << 8 | u64::from(*byte)))
}

fn sign_extended(bits: u64, len: usize) -> i64 {
    let unused = 64 - 8 * len.clamp(1, 8);
    (bits << unused).cast_signed() >> unused
}

/// A row image whose columns were found.
#[derive(Debug, Clone, Copy)]
pub struct RowView<'a> {
    types: &'a [ColumnType],
    image: &'a [u8],
    offsets: &'a [(u32, u32)],
}

impl<'a> RowView<'a> {
    /// Finds the columns of an image that holds all of them. `offsets` is overwritten; kept, it spares an allocation.
    ///
    /// # Errors
    /// The image ends before the row does.
    pub fn new(
        layout: &RowLayout,
        types: &'a [ColumnType],
        image: &'a [u8],
        offsets: &'a mut Vec<(u32, u32)>,
    ) -> Result<RowView<'a>, ValueError> {
        layout.walk_offsets(image, offsets)?;
        Ok(RowView { types, image, offsets })
    }

    /// The same view again, of what [`new`](Self::new) left in `offsets`.
    #[must_use]
    pub fn again(types: &'a [ColumnType], image: &'a [u8], offsets: &'a [(u32, u32)]) -> RowView<'a> {
        RowView { types, image, offsets }
    }

    /// Number of columns.
    #[must_use]
    pub fn len(&self) -> usize {
        self.offsets.len()
    }

    /// Whether the table has no columns.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.offsets.is_empty()
    }

    /// The stored bytes of a column; None for NULL.
    ///
    /// # Errors
    /// There is no such column.
    pub fn stored(&self, column: usize) -> Result<Option<&'a [u8]>, ValueError> {
        let unknown = || ValueError::BeyondLimits { what: "a column number" };
        let Some(&(start, len)) = self.offsets.get(column) else { return Err(unknown()) };
        if start == OFFSET_NULL {
            return Ok(None);
        }
        let bytes = self.image.get(start as usize..).and_then(|rest| rest.get(..len as usize));
        bytes.map(Some).ok_or_else(unknown)
    }

    /// A column's value.
    ///
    /// # Errors
    /// There is no such column; its bytes are no value of its type.
    pub fn column(&self, column: usize) -> Result<TypedValue<'a>, ValueError> {
        let Some(stored) = self.stored(column)? else { return Ok(TypedValue::Null) };
        let ty = self.types.get(column).ok_or(ValueError::BeyondLimits { what: "a column number" })?;
        TypedValue::of(ty, stored)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::text::{TextOptions, write_text};

    fn number(code: u8, unsigned: bool) -> ColumnType {
        ColumnType { unsigned, ..ColumnType::new(code, 0) }
    }

    #[test]
    fn columns_of_a_row() {
        let types = [
            number(t::LONG, false),
            number(t::TINY, true),
            ColumnType { collation: 255, ..ColumnType::new(t::VARCHAR, 40) },
            ColumnType::new(t::DOUBLE, 8),
            ColumnType::new(t::YEAR, 0),
            number(t::INT24, false),
            ColumnType { collation: crate::collation::BINARY, ..ColumnType::new(t::BLOB, 2) },
        ];
        let layout = RowLayout::new(&types);
        let mut image = vec![0b0001_0000];
        image.extend((-5i32).to_le_bytes());
        image.extend([200, 2, b'a', b'b']);
        image.extend(1.5f64.to_le_bytes());
        image.extend([0xff, 0xff, 0xff]);
        image.extend([1, 0, 9]);
        let mut offsets = Vec::new();
        let row = RowView::new(&layout, &types, &image, &mut offsets).unwrap();
        let values: Vec<_> = (0..row.len()).map(|column| row.column(column).unwrap()).collect();
        let expected = [
            TypedValue::Int(-5),
            TypedValue::Unsigned(200),
            TypedValue::Text(b"ab"),
            TypedValue::Double(1.5),
            TypedValue::Null,
            TypedValue::Int(-1),
            TypedValue::Bytes(&[9]),
        ];
        assert_eq!(values, expected);
        assert!(row.column(7).is_err());
    }

    #[test]
    fn decimals_without_their_point() {
        let ty = ColumnType::new(t::DECIMAL, 10 << 8 | 2);
        for (text, unscaled) in [("-1.50", -150), ("0.00", 0), ("12345678.99", 1_234_567_899)] {
            let mut stored = Vec::new();
            decimal::from_text(10, 2, text.as_bytes(), &mut stored).unwrap();
            let TypedValue::Decimal(value) = TypedValue::of(&ty, &stored).unwrap() else { panic!("{text}") };
            assert_eq!(value.unscaled(&mut Vec::new()).unwrap(), Some(unscaled));
            assert_eq!(value.precision_and_scale(), (10, 2));
        }
    }

    proptest! {
        /// Where both understand the bytes they say the same; neither panics on any.
        #[test]
        fn numbers_and_dates_are_those_that_are_printed(code in 1u8..=19, unsigned: bool, meta in 0u16..7, stored: Vec<u8>) {
            let ty = ColumnType { unsigned, ..ColumnType::new(code, meta) };
            let mut text = Vec::new();
            let printed = write_text(&ty, &stored, TextOptions::default(), &mut text);
            let value = TypedValue::of(&ty, &stored);
            let text = String::from_utf8_lossy(&text).into_owned();
            match value {
                Ok(TypedValue::Int(value)) => prop_assert_eq!(text, value.to_string()),
                Ok(TypedValue::Unsigned(value)) if code != t::BIT => prop_assert_eq!(text, value.to_string()),
                Ok(TypedValue::Date(date)) => {
                    prop_assert_eq!(text, format!("{:04}-{:02}-{:02}", date.year, date.month, date.day));
                }
                Ok(TypedValue::Time(time)) => {
                    let start = format!("{}{:02}:{:02}:{:02}", if time.negative { "-" } else { "" }, time.hour, time.minute, time.second);
                    prop_assert!(text.starts_with(&start), "{} {}", text, start);
                }
                Ok(_) => {}
                // Text has more bytes of BIT than 64 bits are.
                Err(_) if code == t::BIT => {}
                Err(_) => prop_assert!(printed.is_err(), "{} is printed", text),
            }
        }
    }
}
