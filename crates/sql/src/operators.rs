//! Operators and casts over constants, of those that clients send when they connect.
//!
//! In: the operands. Out: a typed value. Never here: an operand of a type whose conversion is not exact here.

use values::collation::BINARY;
use wire::response::column_flag;
use wire::row::type_code;

use crate::Result;
use crate::ast::{Expression, operator_construct};
use crate::bind::{Bind, Bound, Field, Value, binary_flag, is_parameter, is_text};
use crate::charsets::is_unicode;
use crate::error::SqlError;
use crate::functions::{self, Arguments};
use crate::modes::NO_UNSIGNED_SUBTRACTION;
use crate::parse::expression::CAST_AS_CHAR;
use crate::table::Pattern;

/// Length that MySQL announces for an integer of bits.
const BITS_LENGTH: u32 = 21;
/// Digits of a sum, a difference or a product in its metadata, at most.
const DIGITS_MAX: u32 = 66;
/// Characters that MySQL announces for a double as text.
pub(crate) const DOUBLE_TEXT_LENGTH: u32 = 22;
/// Characters of CHAR(n), at most.
const CHAR_MAX: u32 = 16_383;

/// Bytes of a text times those of what is looked for in it, at most: LIKE and INSTR compare that many at worst.
const STEPS_MAX: usize = 1 << 20;
/// As [`STEPS_MAX`], of one statement.
const ALL_STEPS_MAX: usize = 4 << 20;

/// True where looking for one text in another, with what the statement has looked for before, would take too long for a
/// thread that serves others.
pub(crate) fn takes_long(bind: &Bind<'_>, text: &[u8], wanted: &[u8]) -> bool {
    let steps = text.len().saturating_mul(wanted.len());
    let all = bind.compared.get().saturating_add(steps);
    bind.compared.set(all);
    steps > STEPS_MAX || all > ALL_STEPS_MAX
}

/// Binds a chain of operators, from left to right.
///
/// # Errors
/// MySQL's of an operand, whatever is not answered beside it; 1235 for what is not answered.
pub(crate) fn chain(bind: &Bind<'_>, first: &Expression, rest: &[(&'static str, Expression)]) -> Result<Bound> {
    let mut left_is_parameter = is_parameter(first);
    let mut left = bind.expression(first);
    for (operator, operand) in rest {
        let right = bind.expression(operand);
        left = match (left, right) {
            (Err(error), _) | (_, Err(error)) if !error.is_not_supported() => Err(error),
            _ if left_is_parameter || is_parameter(operand) => {
                Err(SqlError::not_supported(&format!("a parameter in {}", operator_construct(operator))))
            }
            (Ok(left), Ok(right)) => binary(bind, operator, &left, &right),
            (Err(error), _) | (_, Err(error)) => Err(error),
        };
        left_is_parameter = false;
    }
    left
}

fn binary(bind: &Bind<'_>, operator: &str, left: &Bound, right: &Bound) -> Result<Bound> {
    match operator {
        "&" => bits(operator, left, right, |left, right| left & right),
        "|" => bits(operator, left, right, |left, right| left | right),
        "OR" => or(left, right),
        "+" => sum(bind, operator, left, right, i128::checked_add),
        "-" => sum(bind, operator, left, right, i128::checked_sub),
        _ => Err(SqlError::not_supported(&operator_construct(operator))),
    }
}

/// The operands' values; their errors come first.
fn operands(bind: &Bind<'_>, construct: &str, operands: &[Expression]) -> Result<Vec<Bound>> {
    let results: Vec<_> = operands.iter().map(|operand| bind.as_it_is(operand)).collect();
    // What MySQL has an error for is that error, whatever is not answered beside it.
    if let Some(Err(error)) = results.iter().find(|result| matches!(result, Err(error) if !error.is_not_supported())) {
        return Err(error.clone());
    }
    if operands.iter().any(is_parameter) {
        return Err(SqlError::not_supported(&format!("a parameter in {construct}")));
    }
    results.into_iter().collect()
}

/// Binds a construct with its operands; their errors come first.
///
/// # Errors
/// 1235 for a construct that is not answered.
pub(crate) fn bound(bind: &Bind<'_>, construct: &str, operands: &[Expression]) -> Result<Bound> {
    let values = self::operands(bind, construct, operands)?;
    if values.iter().any(is_invalid) {
        return Err(SqlError::not_supported(&format!("{construct} of invalid text")));
    }
    match (construct, values.as_slice()) {
        (CAST_AS_CHAR, [value]) => cast_as_char(bind, value, None),
        (CAST_AS_CHAR, [value, length]) => cast_as_char(bind, value, Some(&length.value)),
        _ => Err(SqlError::not_supported(construct)),
    }
}

/// True for a text that is invalid in its character set.
fn is_invalid(bound: &Bound) -> bool {
    bound.field.collation != BINARY && matches!(&bound.value, Value::Text(text) if std::str::from_utf8(text).is_err())
}

fn truth(is: bool, flags: u16) -> Bound {
    Bound { field: Field::number(type_code::LONGLONG, flags, 1), value: Value::Int(i64::from(is)) }
}

/// IS NULL and IS NOT NULL.
///
/// # Errors
/// Those of the operand; 1235 for a parameter.
pub(crate) fn is_null(bind: &Bind<'_>, operand: &Expression, negated: bool) -> Result<Bound> {
    let construct = if negated { "IS NOT NULL" } else { "IS NULL" };
    let values = operands(bind, construct, std::slice::from_ref(operand))?;
    let is_null = values.iter().all(|bound| bound.value == Value::Null);
    Ok(truth(is_null != negated, column_flag::NOT_NULL))
}

/// LIKE of texts.
///
/// # Errors
/// Those of the operands; 1235 for other types, parameters, and collations whose weights are not known here.
pub(crate) fn like(bind: &Bind<'_>, sides: &[Expression; 2], negated: bool) -> Result<Bound> {
    let construct = if negated { "NOT LIKE" } else { "LIKE" };
    let refused = |what: &str| Err(SqlError::not_supported(&format!("{construct} of {what}")));
    let bound = operands(bind, construct, sides)?;
    if !bound.iter().all(Bound::is_text_or_null) {
        return refused("values that are not text");
    }
    let arguments = Arguments { expressions: sides, bound };
    let flags = arguments.not_null();
    let collation = functions::collation(bind, &arguments, construct)?;
    let texts: Option<Vec<_>> = arguments.bound.iter().map(|bound| bound.value.text()).collect();
    let Some([text, pattern]) = texts.as_deref() else {
        return Ok(Bound { value: Value::Null, ..truth(false, flags) });
    };
    // No character is equal to bytes that are none.
    if arguments.bound.iter().any(is_invalid) {
        return Ok(truth(negated, flags));
    }
    if takes_long(bind, text, pattern) {
        return refused("texts of this length");
    }
    let matches = Pattern::of_constant(collation, pattern, bind.settings.typed().sql_mode)?;
    let matches = matches.matches(text).map_err(|error| SqlError::unreadable(&error))?;
    Ok(truth(matches != negated, flags))
}

/// An integer's bits; Some(None) is NULL, None is another type.
fn integer_bits(bound: &Bound) -> Option<Option<u64>> {
    let is_integer = matches!(bound.field.type_code, type_code::LONGLONG | type_code::NULL);
    match bound.value {
        Value::Null if is_integer => Some(None),
        Value::Int(value) => Some(Some(value.cast_unsigned())),
        Value::UInt(value) => Some(Some(value)),
        _ => None,
    }
}

fn both_not_null(left: &Bound, right: &Bound) -> u16 {
    left.field.flags & right.field.flags & column_flag::NOT_NULL
}

fn bits(operator: &str, left: &Bound, right: &Bound, of: fn(u64, u64) -> u64) -> Result<Bound> {
    let (Some(a), Some(b)) = (integer_bits(left), integer_bits(right)) else {
        let construct = operator_construct(operator);
        return Err(SqlError::not_supported(&format!("{construct} of values that are not integers")));
    };
    let flags = both_not_null(left, right) | column_flag::UNSIGNED;
    let value = a.zip(b).map_or(Value::Null, |(a, b)| Value::UInt(of(a, b)));
    Ok(Bound { field: Field::number(type_code::LONGLONG, flags, BITS_LENGTH), value })
}

/// + and - of integers.
fn sum(
    bind: &Bind<'_>,
    operator: &str,
    left: &Bound,
    right: &Bound,
    of: fn(i128, i128) -> Option<i128>,
) -> Result<Bound> {
    let refused = |what: &str| SqlError::not_supported(&format!("{} {what}", operator_construct(operator)));
    if [left, right].iter().any(|bound| bound.field.type_code != type_code::LONGLONG) {
        return Err(refused("of values that are not integers"));
    }
    let unsigned = (left.field.flags | right.field.flags) & column_flag::UNSIGNED;
    if unsigned != 0 && bind.settings.typed().sql_mode & NO_UNSIGNED_SUBTRACTION != 0 {
        return Err(refused("under NO_UNSIGNED_SUBTRACTION"));
    }
    let digits = |bound: &Bound| {
        let sign = u32::from(bound.field.flags & column_flag::UNSIGNED == 0);
        bound.field.length.saturating_sub(sign).max(1)
    };
    let length = (digits(left).max(digits(right)) + 1).min(DIGITS_MAX) + u32::from(unsigned == 0);
    let flags = left.field.flags & right.field.flags & column_flag::NOT_NULL | unsigned;
    let number = |bound: &Bound| match bound.value {
        Value::Int(value) => Some(i128::from(value)),
        Value::UInt(value) => Some(i128::from(value)),
        _ => None,
    };
    let value = match (number(left), number(right)) {
        (Some(left), Some(right)) => {
            let result = of(left, right).ok_or_else(|| refused("beyond 64 bits"))?;
            let value = if unsigned != 0 { u64::try_from(result).ok().map(Value::UInt) } else { None };
            let signed = || i64::try_from(result).ok().filter(|_| unsigned == 0).map(Value::Int);
            value.or_else(signed).ok_or_else(|| refused("beyond 64 bits"))?
        }
        _ => Value::Null,
    };
    Ok(Bound { field: Field::number(type_code::LONGLONG, flags, length), value })
}

fn or(left: &Bound, right: &Bound) -> Result<Bound> {
    let (Some(a), Some(b)) = (integer_bits(left), integer_bits(right)) else {
        return Err(SqlError::not_supported("operator OR of values that are not integers"));
    };
    let is_true = |bits: Option<u64>| bits.is_some_and(|bits| bits != 0);
    let value = match (a, b) {
        _ if is_true(a) || is_true(b) => Value::Int(1),
        (Some(_), Some(_)) => Value::Int(0),
        _ => Value::Null,
    };
    Ok(Bound { field: Field::number(type_code::LONGLONG, both_not_null(left, right), 1), value })
}

/// CAST to text of the connection's character set, of at most `length` characters.
fn cast_as_char(bind: &Bind<'_>, given: &Bound, length: Option<&Value>) -> Result<Bound> {
    let refused = |what: &str| SqlError::not_supported(&format!("{CAST_AS_CHAR} of {what}"));
    let connection = bind.settings.charsets().connection;
    let is_number = matches!(given.field.type_code, type_code::LONGLONG | type_code::NEWDECIMAL | type_code::NULL);
    let characters = match given.field.type_code {
        _ if is_text(&given.field) && is_unicode(given.field.collation) => given.field.characters(),
        _ if is_number => given.field.length,
        _ => return Err(refused("this type")),
    };
    let length = match length {
        None => characters,
        Some(Value::Int(length)) => {
            u32::try_from(*length).ok().filter(|n| *n <= CHAR_MAX).ok_or_else(|| refused("this length"))?
        }
        Some(_) => return Err(refused("this length")),
    };
    let text = given.value.text();
    let is_longer = text.as_ref().is_some_and(|text| String::from_utf8_lossy(text).chars().count() > length as usize);
    if is_longer || !is_unicode(connection) {
        return Err(refused("what does not fit"));
    }
    let value = text.map_or(Value::Null, Value::Text);
    Ok(Bound { field: Field::long_text(binary_flag(connection), length, connection), value })
}
