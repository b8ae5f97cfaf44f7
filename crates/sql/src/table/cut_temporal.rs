//! Where a constant stands among dates and times.
//!
//! Only constants of MySQL's own form are taken (`YYYY-MM-DD`, `YYYY-MM-DD hh:mm:ss[.f]`, `[-]hh:mm:ss[.f]`): the others
//! that it reads, some with a warning, are refused by name.

use catalog::Column;
use values::{DateTimeValue, DateValue, TimeValue, UtcMoment, constant, type_code as t};
use wire::row::{DateTime, Time};

use super::cut::{Side, cannot};
use super::zone::session_zone;
use crate::Result;
use crate::bind::{Bind, Bound, Value};
use crate::error::SqlError;

pub(super) enum Place {
    /// Above all values.
    Most,
    /// Beside this stored value.
    Near(Vec<u8>, Side),
}

/// # Errors
/// 1235 for what has not MySQL's form.
pub(super) fn place(bind: &Bind<'_>, column: &Column, constant: &Bound) -> Result<Place> {
    if column.ty.code == t::TIME2 {
        return of_time(column, time_of(column, constant)?);
    }
    let value = date_time_of(column, constant)?;
    match column.ty.code {
        t::TIMESTAMP2 => of_timestamp(bind, column, value),
        t::DATE => of_date(column, value),
        _ => of_date_time(column, value),
    }
}

fn time_of(column: &Column, constant: &Bound) -> Result<TimeValue> {
    let parsed = match &constant.value {
        Value::Text(text) => time(std::str::from_utf8(text).unwrap_or_default()),
        Value::Time(Time { negative, days, hours, minutes, seconds, micros }) => Some(TimeValue {
            negative: *negative,
            hour: days * 24 + u32::from(*hours),
            minute: u32::from(*minutes),
            second: u32::from(*seconds),
            micros: *micros,
        }),
        _ => return Err(cannot(column, "anything but strings and times")),
    };
    parsed.ok_or_else(|| cannot(column, "a string that is not of the form hh:mm:ss"))
}

fn date_time_of(column: &Column, constant: &Bound) -> Result<DateTimeValue> {
    let parsed = match &constant.value {
        Value::Text(text) => date_time(std::str::from_utf8(text).unwrap_or_default()),
        Value::DateTime(DateTime { year, month, day, hour, minute, second, micros }, _) => {
            let date = DateValue { year: u32::from(*year), month: u32::from(*month), day: u32::from(*day) };
            let (hour, minute, second) = (u32::from(*hour), u32::from(*minute), u32::from(*second));
            existing(DateTimeValue { date, hour, minute, second, micros: *micros })
        }
        _ => return Err(cannot(column, "anything but strings and dates")),
    };
    parsed.ok_or_else(|| cannot(column, "a string that is no date of the form YYYY-MM-DD [hh:mm:ss]"))
}

/// Microseconds cut to the column's digits, and the side of that on which the value stands.
fn cut_micros(column: &Column, micros: u32) -> (u32, Side) {
    let unit = 10u32.pow(6 - u32::from(column.ty.meta.min(6)));
    let kept = micros / unit * unit;
    (kept, if kept == micros { Side::At } else { Side::After })
}

fn of_time(column: &Column, value: TimeValue) -> Result<Place> {
    let (micros, side) = cut_micros(column, value.micros);
    // Cut towards zero.
    let side = if value.negative && side == Side::After { Side::Before } else { side };
    let is_zero = value.hour == 0 && value.minute == 0 && value.second == 0 && micros == 0;
    let kept = TimeValue { negative: value.negative && !is_zero, micros, ..value };
    match constant::time(&column.ty, kept) {
        Ok(stored) => Ok(Place::Near(stored, side)),
        Err(_) => Err(cannot(column, "a time beyond 838:59:59")),
    }
}

fn of_date(column: &Column, value: DateTimeValue) -> Result<Place> {
    let midnight = DateTimeValue { hour: 0, minute: 0, second: 0, micros: 0, ..value };
    let side = if value == midnight { Side::At } else { Side::After };
    near(column, midnight, side)
}

fn of_date_time(column: &Column, value: DateTimeValue) -> Result<Place> {
    let (micros, side) = cut_micros(column, value.micros);
    near(column, DateTimeValue { micros, ..value }, side)
}

fn near(column: &Column, value: DateTimeValue, side: Side) -> Result<Place> {
    let stored = constant::date_time(&column.ty, value);
    stored.map(|stored| Place::Near(stored, side)).map_err(|_| cannot(column, "this date"))
}

/// A TIMESTAMP holds 1970-01-01 00:00:01 to 2038-01-19 03:14:07 in UTC, and the zero date.
fn of_timestamp(bind: &Bind<'_>, column: &Column, value: DateTimeValue) -> Result<Place> {
    let zone = session_zone(bind.settings, bind.own)?;
    let utc = match value.since_1970().map(|local_s| (local_s, zone.moment(local_s))) {
        Some((local_s, UtcMoment::At(utc))) => value.shifted(utc - local_s),
        // MySQL finds other rows by an index, where it is one moment, than by comparing local times.
        Some(_) => return Err(cannot(column, "a time that time_zone has not, or has twice,")),
        None => None,
    };
    let utc = utc.ok_or_else(|| cannot(column, "this date"))?;
    let (micros, side) = cut_micros(column, utc.micros);
    match constant::date_time(&column.ty, DateTimeValue { micros, ..utc }) {
        Ok(stored) => Ok(Place::Near(stored, side)),
        Err(_) if utc.date.year > 2037 => Ok(Place::Most),
        // Above the zero date.
        Err(_) => Err(SqlError::not_supported("comparing TIMESTAMP with a date before 1970")),
    }
}

fn digits(text: &str, least: usize, most: usize) -> Option<u32> {
    let fits = (least..=most).contains(&text.len()) && text.bytes().all(|byte| byte.is_ascii_digit());
    if fits { text.parse().ok() } else { None }
}

/// `.f` with one to six digits, or nothing.
fn micros(text: Option<&str>) -> Option<u32> {
    let Some(text) = text else { return Some(0) };
    let value = digits(text, 1, 6)?;
    Some(value * 10u32.pow(6 - u32::try_from(text.len()).ok()?))
}

fn clock(text: &str, hour_digits: usize) -> Option<(u32, u32, u32, u32)> {
    let (clock, fraction) = text.split_once('.').map_or((text, None), |(clock, fraction)| (clock, Some(fraction)));
    let mut parts = clock.split(':');
    let hour = digits(parts.next()?, 2, hour_digits)?;
    let minute = digits(parts.next()?, 2, 2).filter(|value| *value < 60)?;
    let second = digits(parts.next()?, 2, 2).filter(|value| *value < 60)?;
    if parts.next().is_some() { None } else { Some((hour, minute, second, micros(fraction)?)) }
}

fn time(text: &str) -> Option<TimeValue> {
    let (negative, rest) = text.strip_prefix('-').map_or((false, text), |rest| (true, rest));
    let (hour, minute, second, micros) = clock(rest, 3)?;
    Some(TimeValue { negative, hour, minute, second, micros })
}

fn date_time(text: &str) -> Option<DateTimeValue> {
    let (date, rest) = text.split_once(' ').map_or((text, None), |(date, rest)| (date, Some(rest)));
    let mut parts = date.split('-');
    let year = digits(parts.next()?, 4, 4).filter(|year| *year > 0)?;
    let (month, day) = (digits(parts.next()?, 2, 2)?, digits(parts.next()?, 2, 2)?);
    if parts.next().is_some() {
        return None;
    }
    let (hour, minute, second, micros) = match rest {
        None => (0, 0, 0, 0),
        Some(rest) => clock(rest, 2).filter(|(hour, ..)| *hour < 24)?,
    };
    existing(DateTimeValue { date: DateValue { year, month, day }, hour, minute, second, micros })
}

/// None for a day that does not exist, the zero date among them: only others can be shifted.
fn existing(value: DateTimeValue) -> Option<DateTimeValue> {
    value.shifted(0)
}
