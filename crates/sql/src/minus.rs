//! A minus sign before an expression.
//!
//! In: a constant with its type. Out: its negative, as typed as MySQL's. Never here: a text that is not simply a
//! number: MySQL warns of such.

use values::collation::BINARY;
use wire::response::column_flag;
use wire::row::type_code;

use crate::Result;
use crate::ast::Expression;
use crate::bind::{Bound, Field, NOT_FIXED, Value, integer, is_text};
use crate::error::SqlError;

/// Length that MySQL announces for a double that is computed.
const DOUBLE_LENGTH: u32 = 23;
/// Length that MySQL announces for a double of a value without decimals.
const WHOLE_DOUBLE_LENGTH: u32 = 17;
/// Digits before the point of a decimal that has 30 behind it, at most.
const WHOLE_DIGITS_MAX: usize = 35;
/// Length of an integer with its sign, at most.
const INTEGER_LENGTH: u32 = 21;

/// The negative of `bound`, the value of `inner`.
///
/// # Errors
/// 1235 for what is not computed here.
pub(crate) fn negated(inner: &Expression, bound: Bound) -> Result<Bound> {
    let Bound { field, value } = bound;
    match (inner, value) {
        (Expression::Number(_), Value::Int(value)) => Ok(Bound { field, value: Value::Int(-value) }),
        (Expression::Bool(_), Value::Int(value)) => Ok(integer(-value, field.length + 1)),
        (Expression::Number(_), Value::UInt(value)) => Ok(negated_unsigned(value, field)),
        (_, value) if is_number_of(&field, type_code::LONGLONG) => negated_integer(inner, field, &value),
        (inner, value) if is_number_of(&field, type_code::NEWDECIMAL) => negated_decimal(inner, field, value),
        (_, value) if is_number_of(&field, type_code::DOUBLE) => {
            let value = if let Value::Double(value) = value { Value::Double(-value) } else { Value::Null };
            Ok(Bound { field: Field { length: DOUBLE_LENGTH, ..field }, value })
        }
        (_, value) => negated_text(field, &value),
    }
}

fn is_number_of(field: &Field, code: u8) -> bool {
    field.type_code == code
}

/// An integer that is no literal. MySQL makes a decimal of what is negative and constant.
fn negated_integer(inner: &Expression, field: Field, value: &Value) -> Result<Bound> {
    let not_null = field.flags & column_flag::NOT_NULL;
    let is_variable = matches!(inner, Expression::UserVariable(_));
    let has_sign = is_variable && field.flags & column_flag::UNSIGNED == 0;
    let length = if has_sign { INTEGER_LENGTH } else { field.length.saturating_add(1) };
    let constant_length = field.length;
    let field = Field::number(type_code::LONGLONG, not_null, length);
    match value {
        Value::Null => Ok(Bound { field, value: Value::Null }),
        Value::Int(value) if *value >= 0 || is_variable => {
            let negative = value.checked_neg().ok_or_else(out_of_range)?;
            Ok(Bound { field, value: Value::Int(negative) })
        }
        Value::UInt(value) => {
            let negative = 0i64.checked_sub_unsigned(*value).ok_or_else(out_of_range)?;
            Ok(Bound { field, value: Value::Int(negative) })
        }
        Value::Int(value) => {
            let field = Field::number(type_code::NEWDECIMAL, not_null, constant_length);
            Ok(Bound { field, value: Value::Decimal(value.unsigned_abs().to_string()) })
        }
        _ => Err(out_of_range()),
    }
}

fn out_of_range() -> SqlError {
    SqlError::not_supported("a minus sign before a number that is too large")
}

fn negated_decimal(inner: &Expression, field: Field, value: Value) -> Result<Bound> {
    let Value::Decimal(text) = value else { return Ok(Bound { field, value }) };
    let negative = match text.strip_prefix('-') {
        Some(positive) => positive.to_owned(),
        None if text.bytes().all(|byte| matches!(byte, b'0' | b'.')) => text,
        None => format!("-{text}"),
    };
    let text = match inner {
        Expression::UserVariable(_) => with_all_decimals(&negative)?,
        _ => negative,
    };
    Ok(Bound { field, value: Value::Decimal(text) })
}

/// With the 30 decimals that a user variable's type has.
fn with_all_decimals(text: &str) -> Result<String> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    if whole.len() > WHOLE_DIGITS_MAX {
        return Err(out_of_range());
    }
    Ok(format!("{whole}.{fraction:0<30}"))
}

/// NULL, text or bytes: a double.
fn negated_text(field: Field, value: &Value) -> Result<Bound> {
    let refused = || SqlError::not_supported("a minus sign before a value that is not a number");
    let not_null = field.flags & column_flag::NOT_NULL;
    let double = |length, decimals| Field { decimals, ..Field::number(type_code::DOUBLE, not_null, length) };
    if field.type_code == type_code::NULL {
        return Ok(Bound { field: double(WHOLE_DOUBLE_LENGTH, 0), value: Value::Null });
    }
    if !is_text(&field) {
        return Err(refused());
    }
    let is_bytes = field.collation == BINARY && field.decimals == 0;
    let field = if is_bytes { double(WHOLE_DOUBLE_LENGTH, 0) } else { double(DOUBLE_LENGTH, NOT_FIXED) };
    let value = match value {
        Value::Null => Value::Null,
        Value::Text(text) if is_bytes => Value::Double(-number_of_bytes(text).ok_or_else(refused)?),
        Value::Text(text) => Value::Double(-simple_number(text).ok_or_else(refused)?),
        _ => return Err(refused()),
    };
    Ok(Bound { field, value })
}

/// The number of a hexadecimal literal of at most eight bytes.
fn number_of_bytes(bytes: &[u8]) -> Option<f64> {
    if bytes.len() > 8 {
        return None;
    }
    Some(bytes.iter().fold(0u64, |number, byte| number << 8 | u64::from(*byte)) as f64)
}

/// A text that is a number of few digits and nothing else.
fn simple_number(text: &[u8]) -> Option<f64> {
    let text = std::str::from_utf8(text).ok()?;
    let digits = text.strip_prefix('-').unwrap_or(text);
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, "0"));
    let all_digits = |part: &str| !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_digit());
    let fits = all_digits(whole) && all_digits(fraction) && whole.len() + fraction.len() <= 15;
    if fits { text.parse().ok() } else { None }
}

fn negated_unsigned(value: u64, field: Field) -> Bound {
    let length = field.length.saturating_add(1);
    match 0i64.checked_sub_unsigned(value) {
        Some(value) => integer(value, length),
        None => {
            let field = Field::number(type_code::NEWDECIMAL, column_flag::NOT_NULL, length);
            Bound { field, value: Value::Decimal(format!("-{value}")) }
        }
    }
}
