//! Types of a prepared statement's parameters, which stay from one execution to the next where MySQL keeps them.
//!
//! In: the type that was bound before and the value that is sent. Out: the type that holds now and the value as of it.
//! Never here: a conversion of which MySQL would warn.

use values::collation::BINARY;
use wire::response::column_flag;
use wire::row::type_code;

use crate::Result;
use crate::ast::{Expression, Statement};
use crate::bind::{Field, NOT_FIXED, Value};
use crate::charsets::bytes_a_character;
use crate::error::SqlError;

/// Bytes that MySQL announces for a text.
const TEXT_BYTES: u32 = 65_535;

/// What a parameter is bound as.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ParameterType {
    Text,
    /// A text of bytes.
    Blob,
    Int,
    UInt,
    Double,
    Decimal,
    Date,
    DateTime,
    Time,
    Limit,
    /// Beside a column of dates: a text stays one, and is compared as a constant.
    BesideDate,
    BesideDateTime,
    BesideTime,
}

/// The types of a statement's parameters before its first execution.
///
/// `count` is their number.
#[must_use]
pub fn parameter_types(statement: &Statement, count: usize) -> Vec<ParameterType> {
    let mut types = vec![ParameterType::Text; count];
    if let Statement::Select(select) = statement {
        for expression in [Some(&select.limit.offset), select.limit.rows.as_ref()].into_iter().flatten() {
            if let Expression::Parameter(index) = expression
                && let Some(ty) = types.get_mut(*index)
            {
                *ty = ParameterType::Limit;
            }
        }
    }
    types
}

impl ParameterType {
    /// The type of a value; None for NULL.
    fn of(value: &Value) -> Option<ParameterType> {
        Some(match value {
            Value::Null => return None,
            Value::Int(_) => ParameterType::Int,
            Value::UInt(_) => ParameterType::UInt,
            Value::Double(_) => ParameterType::Double,
            Value::Decimal(_) => ParameterType::Decimal,
            Value::Text(_) => ParameterType::Text,
            Value::DateTime(_, true) => ParameterType::Date,
            Value::DateTime(_, false) => ParameterType::DateTime,
            Value::Time(_) => ParameterType::Time,
        })
    }

    /// The type that holds once this value is sent.
    fn after(self, value: &Value) -> ParameterType {
        use ParameterType::{BesideDate, BesideDateTime, BesideTime};
        use ParameterType::{Blob, Date, DateTime, Decimal, Double, Int, Limit, Text, Time, UInt};
        let Some(sent) = ParameterType::of(value) else { return self };
        match (self, sent) {
            (Blob, Text) => Blob,
            (Text | Blob, sent) | (Int | UInt, sent @ (Int | UInt | Double | Decimal | Date | DateTime | Time)) => sent,
            (Decimal, Double) => Double,
            (Double | Decimal, sent @ (Date | DateTime | Time)) => sent,
            (Date, sent @ (DateTime | Time)) => sent,
            (Time, Date) => Date,
            (BesideDate, DateTime) => BesideDateTime,
            (BesideDate, Time) => BesideTime,
            (BesideTime, Date) => BesideDate,
            (Int | UInt | Double | Decimal | Date | DateTime | Time | Limit, _) => self,
            (BesideDate | BesideDateTime | BesideTime, _) => self,
        }
    }

    /// The value as of this type.
    ///
    /// # Errors
    /// 1210 for what LIMIT does not take; 1235 for a conversion that is not made here.
    fn converted(self, value: Value) -> Result<Value> {
        let refused = || Err(SqlError::not_supported("a parameter of another type than in the execution before"));
        let text = |text: &[u8]| String::from_utf8_lossy(text).into_owned();
        Ok(match (self, value) {
            (ParameterType::Limit, Value::Null) => Value::UInt(0),
            (_, Value::Null) => Value::Null,
            (ParameterType::Blob, value @ Value::Text(_)) => value,
            (own, value) if ParameterType::of(&value) == Some(own) => value,
            // A DATE would be cut out of a longer text.
            (ParameterType::BesideDate, Value::Text(text)) if text.len() != "YYYY-MM-DD".len() => return refused(),
            (ParameterType::BesideTime, value @ (Value::Text(_) | Value::Time(_))) => value,
            (
                ParameterType::BesideDate | ParameterType::BesideDateTime,
                value @ (Value::Text(_) | Value::DateTime(..)),
            ) => value,
            (ParameterType::Limit, value @ (Value::Int(_) | Value::UInt(_))) => value,
            (ParameterType::Limit | ParameterType::UInt, Value::Text(digits)) => match text(&digits).parse() {
                Ok(number) if is_number(&digits, false) => Value::UInt(number),
                _ => return refused(),
            },
            (ParameterType::Limit, _) => {
                return Err(SqlError::new(1210, "HY000", "Incorrect arguments to mysqld_stmt_execute"));
            }
            (ParameterType::Int, Value::Text(digits)) => match text(&digits).parse() {
                Ok(number) if is_number(&digits, false) => Value::Int(number),
                _ => return refused(),
            },
            (ParameterType::Double, Value::Int(number)) => Value::Double(number as f64),
            (ParameterType::Double, Value::UInt(number)) => Value::Double(number as f64),
            (ParameterType::Double, Value::Decimal(digits)) => match digits.parse() {
                Ok(number) => Value::Double(number),
                Err(_) => return refused(),
            },
            (ParameterType::Double, Value::Text(digits)) => match text(&digits).parse() {
                Ok(number) if is_number(&digits, true) => Value::Double(number),
                _ => return refused(),
            },
            (ParameterType::Decimal, Value::Int(number)) => Value::Decimal(number.to_string()),
            (ParameterType::Decimal, Value::UInt(number)) => Value::Decimal(number.to_string()),
            (ParameterType::DateTime, Value::DateTime(date, true)) => Value::DateTime(date, false),
            _ => return refused(),
        })
    }

    /// The type of a parameter that is described so because it stands beside a column.
    #[must_use]
    pub fn beside(field: Field) -> ParameterType {
        let unsigned = field.flags & column_flag::UNSIGNED != 0;
        match field.type_code {
            type_code::LONGLONG if unsigned => ParameterType::UInt,
            type_code::LONGLONG | type_code::BIT | type_code::YEAR => ParameterType::Int,
            type_code::DOUBLE => ParameterType::Double,
            type_code::NEWDECIMAL => ParameterType::Decimal,
            type_code::DATE => ParameterType::BesideDate,
            type_code::DATETIME => ParameterType::BesideDateTime,
            type_code::TIME => ParameterType::BesideTime,
            _ => ParameterType::Text,
        }
    }

    /// How MySQL describes a parameter of this type, or a column that is one.
    #[must_use]
    pub fn field(self, collation: u16) -> Field {
        match self {
            ParameterType::Text => Field::text(0, TEXT_BYTES / bytes_a_character(collation).max(1), collation),
            ParameterType::Blob => Field::text(column_flag::BINARY, TEXT_BYTES, BINARY),
            ParameterType::Int => Field::number(type_code::LONGLONG, 0, 21),
            ParameterType::UInt | ParameterType::Limit => Field::number(type_code::LONGLONG, column_flag::UNSIGNED, 21),
            ParameterType::Double => Field { decimals: NOT_FIXED, ..Field::number(type_code::DOUBLE, 0, 23) },
            ParameterType::Decimal => Field { decimals: 30, ..Field::number(type_code::NEWDECIMAL, 0, 67) },
            ParameterType::Date | ParameterType::BesideDate => Field::number(type_code::DATE, 0, 10),
            ParameterType::DateTime | ParameterType::BesideDateTime => {
                Field { decimals: 6, ..Field::number(type_code::DATETIME, 0, 26) }
            }
            ParameterType::Time | ParameterType::BesideTime => {
                Field { decimals: 6, ..Field::number(type_code::TIME, 0, 17) }
            }
        }
    }
}

/// Digits, perhaps with a sign and a point, few enough to be exact.
fn is_number(text: &[u8], may_have_point: bool) -> bool {
    let digits = text.strip_prefix(b"-").unwrap_or(text);
    let points = digits.iter().filter(|byte| **byte == b'.').count();
    let others = digits.iter().all(|byte| byte.is_ascii_digit() || *byte == b'.');
    let at_ends = digits.first() != Some(&b'.') && digits.last() != Some(&b'.');
    others && at_ends && !digits.is_empty() && digits.len() <= 20 && points <= usize::from(may_have_point)
}

/// Binds the values that are sent: changes the types where MySQL binds anew; true if it does. `is_blob` tells which are
/// sent as BLOBs.
///
/// # Errors
/// 1210 and 1235, as for a conversion.
pub fn bind_parameters(
    types: &mut [ParameterType],
    values: &mut [Value],
    is_blob: &dyn Fn(usize) -> bool,
) -> Result<bool> {
    let mut changed = false;
    for (ty, value) in types.iter_mut().zip(values.iter()) {
        let after = ty.after(value);
        changed |= after != *ty;
        *ty = after;
    }
    for (index, (ty, value)) in types.iter_mut().zip(values.iter_mut()).enumerate() {
        // NULL has no type when all are bound anew.
        if changed && *value == Value::Null && *ty != ParameterType::Limit {
            *ty = ParameterType::Text;
        }
        if changed && matches!(ty, ParameterType::Text | ParameterType::Blob) && *value != Value::Null {
            *ty = if is_blob(index) { ParameterType::Blob } else { ParameterType::Text };
        }
        *value = ty.converted(std::mem::replace(value, Value::Null))?;
    }
    Ok(changed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn types_stay_where_mysql_keeps_them() {
        let mut types = [ParameterType::Text, ParameterType::Text];
        let text = |text: &str| Value::Text(text.as_bytes().to_vec());
        let mut values = [Value::Int(5), text("89")];
        assert!(bind_parameters(&mut types, &mut values, &|_| false).unwrap());
        assert_eq!(types, [ParameterType::Int, ParameterType::Text]);
        let mut values = [text("89"), Value::Int(5)];
        assert!(bind_parameters(&mut types, &mut values, &|_| false).unwrap());
        assert_eq!(values, [Value::Int(89), Value::Int(5)]);
        let mut values = [Value::Null, Value::Double(2.5)];
        assert!(bind_parameters(&mut types, &mut values, &|_| false).unwrap());
        assert_eq!(types, [ParameterType::Text, ParameterType::Double]);
        let mut values = [text("x"), text("2x")];
        assert_eq!(bind_parameters(&mut types, &mut values, &|_| false).unwrap_err().code, 1235);
    }

    #[test]
    fn limit_takes_integers() {
        let mut types = [ParameterType::Limit];
        for (value, wanted) in [(Value::Int(3), Value::Int(3)), (Value::Null, Value::UInt(0))] {
            let mut values = [value];
            assert!(!bind_parameters(&mut types, &mut values, &|_| false).unwrap());
            assert_eq!(values, [wanted]);
        }
        assert_eq!(bind_parameters(&mut types, &mut [Value::Double(1.0)], &|_| false).unwrap_err().code, 1210);
    }
}
