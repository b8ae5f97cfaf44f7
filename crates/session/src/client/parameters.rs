//! Parameters of prepared statements as values.
//!
//! In: what COM_STMT_EXECUTE holds. Out: values, or MySQL's error. Never here: a value that MySQL would change with a
//! warning.

use sql::{Charsets, SqlError, Value};
use wire::row::{self, DateTime, Time, type_code};

use super::malformed;

/// Hours of a TIME, at most.
const HOURS_MAX: u32 = 838;

/// Whether a parameter that came as long data may have this type.
pub(super) fn check_long(code: u8) -> Result<(), SqlError> {
    match code {
        code if !can_be_sent(code) || code == type_code::NULL => Err(wrong_arguments()),
        code if !row::is_bytes(code) => Err(malformed()),
        _ => Ok(()),
    }
}

fn wrong_arguments() -> SqlError {
    SqlError::new(1210, "HY000", "Incorrect arguments to mysqld_stmt_execute")
}

/// A text; one that is invalid in utf8mb4 is taken unchanged.
pub(super) fn text(charsets: &Charsets, bytes: &[u8]) -> Result<Value, SqlError> {
    if charsets.client_charset() == "utf8mb4" {
        return Ok(Value::Text(bytes.to_vec()));
    }
    charsets.from_client(bytes).map(|text| Value::Text(text.into_owned()))
}

pub(super) fn value(charsets: &Charsets, sent: &row::Value<'_>, code: u8) -> Result<Value, SqlError> {
    match *sent {
        _ if !can_be_sent(code) => Err(wrong_arguments()),
        row::Value::Null => Ok(Value::Null),
        row::Value::Int(value) => Ok(Value::Int(value)),
        row::Value::UInt(value) => Ok(Value::UInt(value)),
        row::Value::Float(value) => Ok(Value::Double(f64::from(value))),
        row::Value::Double(value) => Ok(Value::Double(value)),
        row::Value::Bytes(bytes) if matches!(code, type_code::DECIMAL | type_code::NEWDECIMAL) => decimal(bytes),
        row::Value::Bytes(bytes) => text(charsets, bytes),
        row::Value::DateTime(value) => date(value, code == type_code::DATE),
        row::Value::Time(value) => time(value),
    }
}

/// True for bytes that are no text.
pub(super) fn is_blob(code: u8) -> bool {
    matches!(code, type_code::TINY_BLOB | type_code::MEDIUM_BLOB | type_code::LONG_BLOB | type_code::BLOB)
}

/// Types that MySQL takes of a parameter.
fn can_be_sent(code: u8) -> bool {
    use type_code::*;
    let numbers = [TINY, SHORT, LONG, LONGLONG, FLOAT, DOUBLE, DECIMAL, NEWDECIMAL, NULL];
    let others = [DATE, TIME, DATETIME, TIMESTAMP, VARCHAR, JSON, TINY_BLOB, MEDIUM_BLOB, LONG_BLOB, BLOB];
    numbers.contains(&code) || others.contains(&code) || [VAR_STRING, STRING].contains(&code)
}

/// A DECIMAL as MySQL prints it.
fn decimal(bytes: &[u8]) -> Result<Value, SqlError> {
    let refused = || SqlError::not_supported("DECIMAL parameters in another form than digits and a point");
    let text = std::str::from_utf8(bytes).map_err(|_| refused())?;
    let (sign, digits) = text.strip_prefix('-').map_or(("", text), |digits| ("-", digits));
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let is_digits = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
    let has_point = digits.len() > whole.len();
    let whole_digits = whole.trim_start_matches('0');
    let fits = is_digits(whole) && is_digits(fraction) && !whole.is_empty() && has_point != fraction.is_empty();
    if !fits || whole_digits.len() + fraction.len() > 65 || fraction.len() > 30 {
        return Err(refused());
    }
    let is_zero = whole_digits.is_empty() && fraction.bytes().all(|byte| byte == b'0');
    let sign = if is_zero { "" } else { sign };
    let whole = if whole_digits.is_empty() { "0" } else { whole_digits };
    let point = if has_point { "." } else { "" };
    Ok(Value::Decimal(format!("{sign}{whole}{point}{fraction}")))
}

fn out_of_range(what: &str) -> SqlError {
    SqlError::new(1690, "22003", format!("{what} value is out of range in 'set_parameter_value'"))
}

fn date(value: DateTime, is_date: bool) -> Result<Value, SqlError> {
    let DateTime { year, month, day, hour, minute, second, micros } = value;
    if is_date && (hour, minute, second, micros) != (0, 0, 0, 0) {
        return Err(malformed());
    }
    let fits_day = year <= 9999 && month <= 12 && day <= 31;
    if !fits_day || hour > 23 || minute > 59 || second > 59 || micros > 999_999 {
        return Err(out_of_range(if is_date { "DATE" } else { "DATETIME" }));
    }
    Ok(Value::DateTime(value, is_date))
}

/// Days and hours as MySQL splits them.
fn time(value: Time) -> Result<Value, SqlError> {
    let hours = value.days.saturating_mul(24).saturating_add(u32::from(value.hours));
    if hours > HOURS_MAX || value.minutes > 59 || value.seconds > 59 || value.micros > 999_999 {
        return Err(out_of_range("TIME"));
    }
    let rest = u8::try_from(hours % 24).unwrap_or_default();
    Ok(Value::Time(Time { days: hours / 24, hours: rest, ..value }))
}
