//! Functions of texts.
//!
//! In: bound arguments. Out: typed values. Never here: arguments of several character sets, unless all but one set's
//! are ASCII literals, which MySQL takes for text of that set.

use values::collation::BINARY;
use wire::response::column_flag;
use wire::row::type_code;

use super::Arguments;
use crate::Result;
use crate::ast::Expression;
use crate::bind::{Bind, Bound, Field, NOT_FIXED, Value, binary_flag, is_text};
use crate::charsets::bytes_a_character;
use crate::error::SqlError;
use crate::operators::{DOUBLE_TEXT_LENGTH, takes_long};

/// Bytes that MySQL announces for a text that is computed, at most.
const COMPUTED_BYTES_MAX: u32 = 16_777_216;
/// Length that MySQL announces for a place in a list.
const PLACE_LENGTH: u32 = 11;

/// The collation of a result of these arguments.
pub(super) fn collation(bind: &Bind<'_>, arguments: &Arguments<'_>, function: &str) -> Result<u16> {
    let refused = |what: &str| Err(SqlError::not_supported(&format!("{function} of {what}")));
    let mut found: Option<(u16, bool)> = None;
    for (bound, expression) in arguments.bound.iter().zip(arguments.expressions) {
        if !is_text(&bound.field) {
            continue;
        }
        if bound.field.collation == BINARY {
            return refused("binary strings");
        }
        let is_literal = yields(expression);
        let is_ascii = matches!(&bound.value, Value::Text(text) if text.is_ascii());
        found = match found {
            None => Some((bound.field.collation, is_literal && is_ascii)),
            Some((own, _)) if own == bound.field.collation => found,
            // What yields is an ASCII literal.
            Some((_, true)) if !is_literal => Some((bound.field.collation, false)),
            Some((own, false)) if is_literal && is_ascii => Some((own, false)),
            Some(_) => return refused("several character sets"),
        };
    }
    Ok(found.map_or(bind.settings.charsets().connection, |(collation, _)| collation))
}

/// True for a text that takes the other's collation where it is of ASCII: a literal, a format of the current time. One
/// of a constant does too, and MySQL computes it before it announces a length.
fn yields(expression: &Expression) -> bool {
    let is_format = |name: &str| ["DATE_FORMAT", "TIME_FORMAT"].iter().any(|it| name.eq_ignore_ascii_case(it));
    let is_clock = |one: &Expression| matches!(one, Expression::Call { name, .. } if super::reads_clock(name));
    match expression {
        Expression::Text { .. } => true,
        Expression::Call { name, .. } => is_format(name) && expression.any(&is_clock),
        _ => false,
    }
}

/// Characters of an argument as text; None for types that are not joined here.
fn characters(bound: &Bound) -> Option<u32> {
    match bound.field.type_code {
        type_code::LONGLONG | type_code::NEWDECIMAL | type_code::NULL => Some(bound.field.length),
        type_code::DOUBLE if bound.field.decimals == NOT_FIXED => Some(DOUBLE_TEXT_LENGTH),
        _ if is_text(&bound.field) => Some(bound.field.characters()),
        _ => None,
    }
}

pub(super) fn computed_text(flags: u16, characters: u32, collation: u16) -> Field {
    let most = COMPUTED_BYTES_MAX / bytes_a_character(collation).max(1);
    Field::long_text(flags, characters.min(most), collation)
}

pub(super) fn concat(bind: &Bind<'_>, arguments: &Arguments<'_>) -> Result<Bound> {
    let collation = collation(bind, arguments, "CONCAT()")?;
    let mut length = 0u32;
    for bound in &arguments.bound {
        let more = characters(bound).ok_or_else(|| SqlError::not_supported("CONCAT() of this type"))?;
        length = length.saturating_add(more);
    }
    let texts: Option<Vec<_>> = arguments.bound.iter().map(|bound| bound.value.text()).collect();
    bind.hold(texts.iter().flatten().map(Vec::len).sum())?;
    let value = texts.map_or(Value::Null, |texts| Value::Text(texts.concat()));
    Ok(Bound { field: computed_text(binary_flag(collation), length, collation), value })
}

/// COALESCE and IFNULL of texts and NULL.
pub(super) fn coalesce(bind: &Bind<'_>, arguments: &Arguments<'_>) -> Result<Bound> {
    if !arguments.bound.iter().all(Bound::is_text_or_null) || !arguments.bound.iter().any(|bound| is_text(&bound.field))
    {
        return Err(SqlError::not_supported("COALESCE() of values that are not text"));
    }
    let collation = collation(bind, arguments, "COALESCE()")?;
    let length = arguments.bound.iter().map(|bound| bound.field.characters()).max().unwrap_or_default();
    let not_null = arguments.bound.iter().any(|bound| bound.field.flags & column_flag::NOT_NULL != 0);
    let first = arguments.bound.iter().map(|bound| &bound.value).find(|value| **value != Value::Null);
    let flags = binary_flag(collation) | if not_null { column_flag::NOT_NULL } else { 0 };
    let value = first.cloned().unwrap_or(Value::Null);
    Ok(Bound { field: computed_text(flags, length, collation), value })
}

/// Collations in which letters of ASCII, digits and _ differ by more than case if their bytes do.
const PLAIN: &[&str] =
    &["utf8mb4_0900_ai_ci", "utf8mb4_general_ci", "utf8mb4_unicode_ci", "utf8mb3_general_ci", "latin1_swedish_ci"];

fn ignores_case_only(collation: u16) -> bool {
    values::collation::by_id(collation).is_some_and(|found| PLAIN.contains(&found.name))
}

/// FIND_IN_SET of texts that are equal if they differ by case only.
pub(super) fn find_in_set(bind: &Bind<'_>, arguments: &Arguments<'_>) -> Result<Bound> {
    let [wanted, list] = arguments.bound.as_slice() else {
        return Err(SqlError::not_supported("FIND_IN_SET()"));
    };
    if !wanted.is_text_or_null() || !list.is_text_or_null() {
        return Err(SqlError::not_supported("FIND_IN_SET() of values that are not text"));
    }
    let collation = collation(bind, arguments, "FIND_IN_SET()")?;
    let not_null = wanted.field.flags & list.field.flags & column_flag::NOT_NULL;
    let field = Field::number(type_code::LONGLONG, not_null, PLACE_LENGTH);
    let (Some(wanted), Some(list)) = (wanted.value.text(), list.value.text()) else {
        return Ok(Bound { field, value: Value::Null });
    };
    let is_plain = |text: &[u8]| text.iter().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b','));
    if !is_plain(&wanted) || !is_plain(&list) || !ignores_case_only(collation) {
        return Err(SqlError::not_supported("FIND_IN_SET() of other than letters, digits and _"));
    }
    let place = list.split(|byte| *byte == b',').position(|part| part.eq_ignore_ascii_case(&wanted));
    let place = place.filter(|_| !list.is_empty()).map_or(0, |place| i64::try_from(place + 1).unwrap_or(i64::MAX));
    Ok(Bound { field, value: Value::Int(place) })
}

/// LEFT of a text.
pub(super) fn left(bind: &Bind<'_>, arguments: &Arguments<'_>) -> Result<Bound> {
    let refused = |what: &str| SqlError::not_supported(&format!("LEFT() {what}"));
    let ([text, count], [_, expression]) = (arguments.bound.as_slice(), arguments.expressions) else {
        return Err(refused("of this"));
    };
    if !is_text(&text.field) || !matches!(count.field.type_code, type_code::LONGLONG | type_code::NULL) {
        return Err(refused("of this type"));
    }
    let first = Arguments { expressions: &arguments.expressions[..1], bound: vec![text.clone()] };
    let collation = collation(bind, &first, "LEFT()")?;
    let known = match count.value {
        Value::Null => None,
        Value::Int(count) => Some(usize::try_from(count).unwrap_or_default()),
        Value::UInt(count) => Some(usize::try_from(count).unwrap_or(usize::MAX)),
        _ => return Err(refused("of this type")),
    };
    // A literal bounds the length that MySQL announces. What is no constant to it does not; of the rest it is not known
    // here.
    let is_literal = |one: &Expression| matches!(one, Expression::Number(_) | Expression::Null);
    let full = text.field.characters();
    let length = match expression {
        Expression::Number(_) | Expression::Null => known.map(|count| u32::try_from(count).unwrap_or(u32::MAX)),
        Expression::Negative(inner) if is_literal(inner) => known.map(|count| u32::try_from(count).unwrap_or(u32::MAX)),
        other if other.any(&super::is_users_name) => None,
        _ => return Err(refused("of a count that is no literal")),
    };
    let length = length.map_or(full, |length| length.min(full));
    let field = computed_text(binary_flag(collation), length, collation);
    let value = match (&text.value, known) {
        (Value::Text(bytes), Some(count)) => {
            let shown: String = String::from_utf8_lossy(bytes).chars().take(count).collect();
            bind.hold(shown.len())?;
            Value::Text(shown.into_bytes())
        }
        _ => Value::Null,
    };
    Ok(Bound { field, value })
}

/// INSTR of texts whose characters differ by case only if they are equal.
pub(super) fn instr(bind: &Bind<'_>, arguments: &Arguments<'_>) -> Result<Bound> {
    let [text, part] = arguments.bound.as_slice() else { return Err(SqlError::not_supported("INSTR()")) };
    if !text.is_text_or_null() || !part.is_text_or_null() {
        return Err(SqlError::not_supported("INSTR() of values that are not text"));
    }
    let collation = collation(bind, arguments, "INSTR()")?;
    let field = Field::number(type_code::LONGLONG, arguments.not_null(), PLACE_LENGTH);
    let (Some(text), Some(part)) = (text.value.text(), part.value.text()) else {
        return Ok(Bound { field, value: Value::Null });
    };
    if takes_long(bind, &text, &part) {
        return Err(SqlError::not_supported("INSTR() of texts of this length"));
    }
    let is_plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"_@.-:%".contains(byte);
    if !text.iter().chain(&part).all(is_plain) || !ignores_case_only(collation) {
        return Err(SqlError::not_supported("INSTR() of other than letters, digits and _@.-:%"));
    }
    let place = match part.len() {
        0 => Some(0),
        len => text.windows(len).position(|window| window.eq_ignore_ascii_case(&part)),
    };
    let place = place.map_or(0, |place| i64::try_from(place + 1).unwrap_or(i64::MAX));
    Ok(Bound { field, value: Value::Int(place) })
}
