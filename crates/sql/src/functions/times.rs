//! The current date and time: of the moment at which the statement began, but for SYSDATE().
//!
//! In: that moment, the session's time zone. Out: typed values. Never here: a date that is given.

use std::time::{Duration, SystemTime};

use values::{DateTimeValue, DateValue, Zone};
use wire::response::column_flag;
use wire::row::{DateTime, Time, type_code};

use super::Arguments;
use super::dates::{to_protocol, with_digits};
use crate::Result;
use crate::ast::Expression;
use crate::bind::{Bind, Bound, Field, Value};
use crate::error::SqlError;
use crate::table::session_zone;

/// Digits of a second, at most.
const DIGITS_MAX: u8 = 6;
/// Length that MySQL announces for UNIX_TIMESTAMP().
const SECONDS_LENGTH: u32 = 21;

/// Which part of the moment a function gives.
#[derive(Clone, Copy)]
enum Part {
    Date,
    Time,
    Both,
}

/// What is left of a moment's microseconds with this many digits.
fn cut(micros: u32, digits: u8) -> u32 {
    let unit = 10u32.pow(u32::from(DIGITS_MAX.saturating_sub(digits)));
    micros / unit * unit
}

/// The number of digits that a call asks for. MySQL takes nothing but an integer's digits for it.
fn digits(arguments: &Arguments<'_>, function: &str) -> Result<u8> {
    let refused = || SqlError::not_supported(&format!("this argument of {}()", function.to_uppercase()));
    let number = match arguments.expressions {
        [] => return Ok(0),
        [Expression::Number(digits)] => digits.parse::<u8>().map_err(|_| refused())?,
        _ => return Err(refused()),
    };
    if number > DIGITS_MAX {
        let text = format!("Too-big precision {number} specified for '{function}'. Maximum is {DIGITS_MAX}.");
        return Err(SqlError::new(1426, "42000", text));
    }
    Ok(number)
}

/// A part of a moment in a zone.
fn part(since_epoch: Duration, zone: &Zone, part: Part, digits: u8) -> Result<Bound> {
    let epoch = DateValue { year: 1970, month: 1, day: 1 };
    let start = DateTimeValue { date: epoch, hour: 0, minute: 0, second: 0, micros: 0 };
    let seconds = i64::try_from(since_epoch.as_secs()).ok();
    let at = seconds.and_then(|seconds| start.shifted(seconds.checked_add(zone.offset_s(seconds))?));
    let at = at.ok_or_else(|| SqlError::not_supported("the system's time"))?;
    let at = to_protocol(DateTimeValue { micros: cut(since_epoch.subsec_micros(), digits), ..at });
    let DateTime { year, month, day, hour, minute, second, micros } = at;
    let field = |type_code, length| with_digits(type_code, column_flag::NOT_NULL, length, digits);
    Ok(match part {
        Part::Date => {
            let value = DateTime { year, month, day, ..DateTime::default() };
            Bound { field: field(type_code::DATE, 10), value: Value::DateTime(value, true) }
        }
        Part::Both => Bound { field: field(type_code::DATETIME, 19), value: Value::DateTime(at, false) },
        Part::Time => {
            let value = Time { hours: hour, minutes: minute, seconds: second, micros, ..Time::default() };
            Bound { field: field(type_code::TIME, 8), value: Value::Time(value) }
        }
    })
}

/// NOW, CURRENT_TIMESTAMP, LOCALTIME and LOCALTIMESTAMP.
pub(super) fn now(bind: &Bind<'_>, arguments: &Arguments<'_>) -> Result<Bound> {
    let digits = digits(arguments, "now")?;
    part(bind.settings.began(), &session_zone(bind.settings, bind.own)?, Part::Both, digits)
}

/// SYSDATE: the moment at which it is evaluated.
pub(super) fn sysdate(bind: &Bind<'_>, arguments: &Arguments<'_>) -> Result<Bound> {
    let digits = digits(arguments, "sysdate")?;
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    part(now, &session_zone(bind.settings, bind.own)?, Part::Both, digits)
}

pub(super) fn current_date(bind: &Bind<'_>, _: &Arguments<'_>) -> Result<Bound> {
    part(bind.settings.began(), &session_zone(bind.settings, bind.own)?, Part::Date, 0)
}

pub(super) fn current_time(bind: &Bind<'_>, arguments: &Arguments<'_>) -> Result<Bound> {
    let digits = digits(arguments, "curtime")?;
    part(bind.settings.began(), &session_zone(bind.settings, bind.own)?, Part::Time, digits)
}

pub(super) fn utc_timestamp(bind: &Bind<'_>, arguments: &Arguments<'_>) -> Result<Bound> {
    let digits = digits(arguments, "utc_timestamp")?;
    part(bind.settings.began(), &Zone::UTC, Part::Both, digits)
}

pub(super) fn utc_date(bind: &Bind<'_>, _: &Arguments<'_>) -> Result<Bound> {
    part(bind.settings.began(), &Zone::UTC, Part::Date, 0)
}

pub(super) fn utc_time(bind: &Bind<'_>, arguments: &Arguments<'_>) -> Result<Bound> {
    let digits = digits(arguments, "utc_time")?;
    part(bind.settings.began(), &Zone::UTC, Part::Time, digits)
}

/// UNIX_TIMESTAMP without an argument.
pub(super) fn unix_timestamp(bind: &Bind<'_>, arguments: &Arguments<'_>) -> Result<Bound> {
    if !arguments.expressions.is_empty() {
        return Err(SqlError::not_supported("UNIX_TIMESTAMP() of a date"));
    }
    let field = Field::number(type_code::LONGLONG, column_flag::NOT_NULL, SECONDS_LENGTH);
    Ok(Bound { field, value: Value::Int(i64::try_from(bind.settings.began().as_secs()).unwrap_or(i64::MAX)) })
}
