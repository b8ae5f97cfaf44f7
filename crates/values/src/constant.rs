//! Stored bytes of constants, for readers that compare columns with them.
//!
//! In: a column's type and a value of that type. Out: the bytes that a row image holds for the value. Never here: a value
//! that is rounded or cut to fit.

use crate::charset;
use crate::column_type::{ColumnType, type_code as t};
use crate::error::ValueError;
use crate::temporal::{DateTime, Time};
use crate::typed::{DateTimeValue, TimeValue};
use crate::{binary_protocol, decimal};

/// An integer, YEAR, or the number of an ENUM or SET.
///
/// # Errors
/// It is outside the type's range.
pub fn integer(ty: &ColumnType, value: i128) -> Result<Vec<u8>, ValueError> {
    let mut out = Vec::new();
    binary_protocol::push_number(ty, value, &mut out)?;
    Ok(out)
}

/// The bits of a BIT; None if it has fewer.
#[must_use]
pub fn bits(ty: &ColumnType, value: u64) -> Option<Vec<u8>> {
    let fits = ty.meta >= 64 || value >> ty.meta == 0;
    let len = ty.fixed_len().unwrap_or(0).min(8);
    fits.then(|| value.to_be_bytes().into_iter().skip(8 - len).collect())
}

/// A DECIMAL as `[-]digits[.digits]`, with no more digits than the column has.
///
/// # Errors
/// It is no number, or has more whole digits.
pub fn decimal(ty: &ColumnType, text: &[u8]) -> Result<Vec<u8>, ValueError> {
    let (precision, scale) = ty.precision_and_scale();
    let mut out = Vec::new();
    decimal::from_text(precision, scale, text, &mut out)?;
    Ok(out)
}

/// A DATE, DATETIME or TIMESTAMP, the latter in UTC.
///
/// # Errors
/// The type cannot hold it.
pub fn date_time(ty: &ColumnType, value: DateTimeValue) -> Result<Vec<u8>, ValueError> {
    let DateTimeValue { date, hour, minute, second, micros } = value;
    let value = DateTime { year: date.year, month: date.month, day: date.day, hour, minute, second, micros };
    let mut out = Vec::new();
    match ty.code {
        t::DATE => value.push_date(&mut out)?,
        t::DATETIME2 => value.push_datetime(ty.meta, &mut out)?,
        t::TIMESTAMP2 if value.is_timestamp() => value.push_timestamp(ty.meta, &mut out)?,
        _ => return Err(ValueError::unsupported(format!("a constant for a column of type {}", ty.name()))),
    }
    Ok(out)
}

/// A TIME.
///
/// # Errors
/// The type cannot hold it.
pub fn time(ty: &ColumnType, value: TimeValue) -> Result<Vec<u8>, ValueError> {
    let TimeValue { negative, hour, minute, second, micros } = value;
    if ty.code != t::TIME2 {
        return Err(ValueError::unsupported(format!("a constant for a column of type {}", ty.name())));
    }
    let mut out = Vec::new();
    Time { negative, hour, minute, second, micros }.push(ty.meta, &mut out)?;
    Ok(out)
}

/// Text or bytes with their length, as they are; None if they are longer than the type's prefix tells.
#[must_use]
pub fn content(ty: &ColumnType, bytes: &[u8]) -> Option<Vec<u8>> {
    let len = u32::try_from(bytes.len()).ok()?;
    let prefix = ty.prefix_len();
    let most = if matches!(ty.code, t::CHAR | t::VARCHAR) { u32::from(ty.meta) } else { u32::MAX };
    if len > most || (prefix < 4 && len >> (8 * prefix) != 0) {
        return None;
    }
    Some([len.to_le_bytes().get(..prefix)?, bytes].concat())
}

/// Text without the padding that CHAR of this collation does not store.
#[must_use]
pub fn without_padding(collation: u16, text: &[u8]) -> &[u8] {
    let pad = charset::pad(collation);
    let mut text = text;
    while let Some(shorter) = text.strip_suffix(pad) {
        text = shorter;
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{DateValue, TypedValue};

    #[test]
    fn constants_read_back() {
        let date = DateValue { year: 2024, month: 2, day: 29 };
        let at = DateTimeValue { date, hour: 1, minute: 2, second: 3, micros: 450_000 };
        for code in [t::DATETIME2, t::TIMESTAMP2] {
            let ty = ColumnType::new(code, 2);
            let stored = date_time(&ty, at).unwrap();
            assert_eq!(TypedValue::of(&ty, &stored).unwrap(), TypedValue::DateTime(at));
        }
        assert!(
            date_time(
                &ColumnType::new(t::TIMESTAMP2, 0),
                DateTimeValue { date: DateValue { year: 2039, ..date }, ..at }
            )
            .is_err()
        );
        let ty = ColumnType::new(t::TIME2, 3);
        let span = TimeValue { negative: true, hour: 838, minute: 59, second: 59, micros: 0 };
        assert_eq!(TypedValue::of(&ty, &time(&ty, span).unwrap()).unwrap(), TypedValue::Time(span));
        assert_eq!(integer(&ColumnType::new(t::TINY, 0), -128).unwrap(), [0x80]);
        assert!(integer(&ColumnType::new(t::TINY, 0), 128).is_err());
        assert_eq!(bits(&ColumnType::new(t::BIT, 9), 511).unwrap(), [1, 255]);
        assert_eq!(bits(&ColumnType::new(t::BIT, 9), 512), None);
        assert_eq!(content(&ColumnType::new(t::VARCHAR, 3), b"abc").unwrap(), b"\x03abc");
        assert_eq!(content(&ColumnType::new(t::VARCHAR, 3), b"abcd"), None);
        assert_eq!(content(&ColumnType::new(t::BLOB, 1), &[b'x'; 256]), None);
        assert_eq!(without_padding(crate::collation::by_name("utf16_bin").unwrap().id, b"\0a\0 "), b"\0a");
    }
}
