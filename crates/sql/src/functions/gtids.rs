//! Functions of GTID sets, and those that wait.
//!
//! In: bound arguments. Out: values, or a wait of the statement. Never here: which GTIDs are visible.

use std::sync::Arc;
use std::time::Duration;

use base::GtidSet;
use values::collation::BINARY;
use wire::response::column_flag;
use wire::row::type_code;

use super::Arguments;
use super::texts::computed_text;
use crate::Result;
use crate::bind::{Bind, Bound, Field, Value, binary_flag, is_text};
use crate::charsets::bytes_a_character;
use crate::error::{SqlError, Warning};
use crate::gtid_text::{Grammar, gtid_text, malformed, parse};
use crate::waits::{Called, Event, Made, Wait};

/// Length that MySQL announces for an integer.
const INTEGER_LENGTH: u32 = 21;
/// Characters of a UUID.
const UUID_LENGTH: i64 = 36;
/// Timeouts beyond this, in seconds, are none: a century.
const FAR_S: f64 = 3.2e9;

fn incorrect(function: &str) -> SqlError {
    SqlError::new(1210, "HY000", format!("Incorrect arguments to {function}."))
}

fn number(flags: u16, value: Value) -> Bound {
    Bound { field: Field::number(type_code::LONGLONG, flags, INTEGER_LENGTH), value }
}

/// An argument as text; None is NULL.
fn text(bound: &Bound) -> Option<String> {
    bound.value.text().map(|text| String::from_utf8_lossy(&text).into_owned())
}

/// The sets of two arguments; None if one is NULL.
/// Bytes of a set for a byte of its text, at most: an interval is `:1` at least.
const INTERVAL_BYTES: usize = 8;

fn two_sets(bind: &Bind<'_>, arguments: &Arguments<'_>) -> Result<Option<(GtidSet, GtidSet)>> {
    let [first, second] = arguments.bound.as_slice() else { return Ok(None) };
    let Some((first, second)) = text(first).zip(text(second)) else { return Ok(None) };
    bind.memory.work_with((first.len() + second.len()).saturating_mul(INTERVAL_BYTES))?;
    let set = |text: &str| parse(text, Grammar::Set).ok_or_else(|| malformed(text).of_execution());
    Ok(Some((set(&first)?, set(&second)?)))
}

pub(super) fn subset(bind: &Bind<'_>, arguments: &Arguments<'_>) -> Result<Bound> {
    let not_null = arguments.bound.iter().all(|bound| bound.field.flags & column_flag::NOT_NULL != 0);
    let flags = if not_null { column_flag::NOT_NULL } else { 0 };
    if bind.waits.describes() {
        return Ok(number(flags, Value::Null));
    }
    let sets = two_sets(bind, arguments)?;
    Ok(number(flags, sets.map_or(Value::Null, |(a, b)| Value::Int(i64::from(a.is_subset_of(&b))))))
}

pub(super) fn subtract(bind: &Bind<'_>, arguments: &Arguments<'_>) -> Result<Bound> {
    let connection = bind.settings.charsets().connection;
    let field = computed_text(binary_flag(connection), subtract_length(arguments), connection);
    if bind.waits.describes() {
        return Ok(Bound { field, value: Value::Null });
    }
    let text = two_sets(bind, arguments)?.map(|(a, b)| gtid_text(&a.subtract(&b)).into_bytes());
    bind.hold(text.as_ref().map_or(0, Vec::len))?;
    Ok(Bound { field, value: text.map_or(Value::Null, Value::Text) })
}

/// What MySQL announces (`Item_func_gtid_subtract`): two characters of the second set may split an interval of the
/// first and add five. A negative sum is a huge one there.
fn subtract_length(arguments: &Arguments<'_>) -> u32 {
    let bytes = |bound: &Bound| match is_text(&bound.field) && bound.field.collation != BINARY {
        true => i64::from(bound.field.characters()) * i64::from(bytes_a_character(bound.field.collation)),
        false => i64::from(bound.field.length),
    };
    let [first, second] = arguments.bound.as_slice() else { return u32::MAX };
    let sum = bytes(first) + (bytes(second) - UUID_LENGTH) * 5 / 2;
    u32::try_from(sum).unwrap_or(u32::MAX)
}

/// Seconds of an argument; None is NULL.
fn seconds(bound: &Bound, function: &str) -> Result<Option<f64>> {
    let refused = || SqlError::not_supported(&format!("{function}() with a timeout that is no number"));
    Ok(match &bound.value {
        Value::Null => None,
        Value::Double(value) => Some(*value),
        Value::Int(_) | Value::UInt(_) | Value::Decimal(_) | Value::Text(_) => Some(
            text(bound)
                .and_then(|text| text.trim_start().parse().ok())
                .filter(|v: &f64| v.is_finite())
                .ok_or_else(refused)?,
        ),
        Value::DateTime(..) | Value::Time(_) => return Err(refused()),
    })
}

fn span(seconds: f64) -> Option<Duration> {
    if seconds < FAR_S { Duration::try_from_secs_f64(seconds).ok() } else { None }
}

/// The timeout of a function that waits without one for 0.
fn timeout(argument: Option<&Bound>, function: &str) -> Result<Option<Duration>> {
    let Some(argument) = argument else { return Ok(None) };
    match seconds(argument, function)? {
        Some(given) if given >= 0.0 => Ok(if given == 0.0 { None } else { span(given) }),
        _ => Err(incorrect(function).of_execution()),
    }
}

fn null() -> Called {
    Called::Value(number(0, Value::Null))
}

fn waits(event: Event, timeout: Option<Duration>, bound: &Bound, made: Made) -> Called {
    Called::Waits(Wait { event, timeout }, bound.field, made)
}

pub(super) fn wait_for_executed(bind: &Bind<'_>, arguments: &Arguments<'_>) -> Result<Called> {
    const NAME: &str = "WAIT_FOR_EXECUTED_GTID_SET";
    let (Some(set), false) = (arguments.bound.first(), bind.waits.describes()) else { return Ok(null()) };
    let Some(set) = text(set) else { return Err(malformed("NULL").of_execution()) };
    let timeout = timeout(arguments.bound.get(1), NAME)?;
    let set = parse(&set, Grammar::Wait).ok_or_else(|| malformed(&set).of_execution())?;
    Ok(waits(Event::Executed(Arc::new(set)), timeout, &number(0, Value::Null), Made::Executed))
}

pub(super) fn sleep(bind: &Bind<'_>, arguments: &Arguments<'_>) -> Result<Called> {
    let Some(argument) = arguments.bound.first() else { return Ok(null()) };
    let described = number(argument.field.flags & column_flag::NOT_NULL, Value::Null);
    if bind.waits.describes() {
        return Ok(Called::Value(described));
    }
    let given = seconds(argument, "SLEEP")?.filter(|given| *given >= 0.0);
    let given = given.ok_or_else(|| incorrect("sleep").of_execution())?;
    Ok(waits(Event::Time, span(given), &described, Made::Slept))
}

pub(super) fn source_pos_wait(bind: &Bind<'_>, arguments: &Arguments<'_>) -> Result<Called> {
    position(bind, arguments, "SOURCE_POS_WAIT")
}

/// The old name, which warns.
pub(super) fn master_pos_wait(bind: &Bind<'_>, arguments: &Arguments<'_>) -> Result<Called> {
    if bind.parameters.is_none() {
        return Err(SqlError::not_supported("MASTER_POS_WAIT() but in SELECT and DO; use SOURCE_POS_WAIT()"));
    }
    let text = "'MASTER_POS_WAIT' is deprecated and will be removed in a future release. Please use SOURCE_POS_WAIT \
                instead";
    bind.waits.warn(Warning::new(1287, text));
    position(bind, arguments, "MASTER_POS_WAIT")
}

fn position(bind: &Bind<'_>, arguments: &Arguments<'_>, name: &str) -> Result<Called> {
    let ([file, offset, rest @ ..], false) = (arguments.bound.as_slice(), bind.waits.describes()) else {
        return Ok(null());
    };
    let (Some(file), Some(offset)) = (text(file).filter(|file| !file.is_empty()), integer(offset, name)?) else {
        return Ok(null());
    };
    let timeout = match rest.first() {
        Some(bound) if bound.value == Value::Null => None,
        given => timeout(given, name)?,
    };
    // There is one channel, without a name.
    if rest.get(1).is_some_and(|channel| text(channel).is_some_and(|name| !name.is_empty())) {
        return Ok(null());
    }
    Ok(waits(Event::Position { file, offset }, timeout, &number(0, Value::Null), Made::Moves))
}

/// An offset; None is NULL, or before any log.
fn integer(bound: &Bound, function: &str) -> Result<Option<u64>> {
    match bound.value {
        Value::Null => Ok(None),
        Value::Int(value) => Ok(u64::try_from(value).ok()),
        Value::UInt(value) => Ok(Some(value)),
        _ => Err(SqlError::not_supported(&format!("{function}() with a position that is no integer"))),
    }
}
