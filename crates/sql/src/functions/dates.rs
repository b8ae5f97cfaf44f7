//! Functions of dates and times: between zones, differences, formats.
//!
//! In: values of the clock's functions, literals in the form `2024-02-29 13:04:05`. Out: typed values. Never here:
//! other texts for dates, whose conversion is refused.

use std::fmt::Write as _;

use values::{DateTimeValue, DateValue, UtcMoment, Zone};
use wire::row::{DateTime, Time, type_code};

use super::Arguments;
use super::texts::computed_text;
use crate::Result;
use crate::ast::Expression;
use crate::bind::{Bind, Bound, Field, Value, binary_flag, is_text};
use crate::error::SqlError;
use crate::rules;
use crate::table::{ZoneByName, zone_by_name, zone_named};

/// What of the source's tells whether it knows the zone UTC by its name: 1 if it does.
pub const KNOWS_UTC: &str = "knows_utc";

/// Seconds since 1970 of 3001-01-19 00:00:00: CONVERT_TZ leaves alone what is not before it.
const CONVERTED_BEFORE: i64 = 32_536_771_200;
/// Seconds since 1970 of 2038-01-19 03:14:08: the source was asked for its zones' rules until then.
const RULES_UNTIL: i64 = 1 << 31;
/// Hours of a TIME, at most.
const TIME_HOURS_MAX: u64 = 838;
/// Length of a DATETIME without digits of a second.
const DATETIME_LENGTH: u32 = 19;
/// Length of a TIME that is computed, without digits of a second.
const TIME_LENGTH: u32 = 10;

/// A field of a time with so many digits of a second; `length` is that without them.
pub(super) fn with_digits(type_code: u8, flags: u16, length: u32, digits: u8) -> Field {
    let fraction = if digits > 0 { u32::from(digits) + 1 } else { 0 };
    Field { decimals: digits, ..Field::number(type_code, flags, length + fraction) }
}

fn is_null(bound: &Bound) -> bool {
    bound.field.type_code == type_code::NULL
}

/// A literal of the form `2024-02-29 13:04:05.678`, with its number of digits of a second.
fn literal(text: &[u8]) -> Option<(DateTimeValue, u8)> {
    let text = std::str::from_utf8(text).ok()?;
    let (whole, fraction) = text.split_once('.').map_or((text, ""), |(whole, fraction)| (whole, fraction));
    let shape: String = whole.chars().map(|c| if c.is_ascii_digit() { '0' } else { c }).collect();
    let has_point = text.len() > whole.len();
    let is_fraction = (1..=6).contains(&fraction.len()) && fraction.bytes().all(|byte| byte.is_ascii_digit());
    if shape != "0000-00-00 00:00:00" || has_point != is_fraction {
        return None;
    }
    let number = |at: std::ops::Range<usize>| whole.get(at)?.parse::<u32>().ok();
    let date = DateValue { year: number(0..4)?, month: number(5..7)?, day: number(8..10)? };
    let micros = format!("{fraction:0<6}").parse().ok()?;
    let value = DateTimeValue { date, hour: number(11..13)?, minute: number(14..16)?, second: number(17..19)?, micros };
    let is_time = value.hour < 24 && value.minute < 60 && value.second < 60;
    let digits = u8::try_from(fraction.len()).ok()?;
    (is_time && value.since_1970().is_some()).then_some((value, digits))
}

fn of_protocol(value: DateTime) -> DateTimeValue {
    let date = DateValue { year: value.year.into(), month: value.month.into(), day: value.day.into() };
    let (hour, minute, second) = (value.hour.into(), value.minute.into(), value.second.into());
    DateTimeValue { date, hour, minute, second, micros: value.micros }
}

/// A date and time as the protocol sends it.
#[must_use]
pub fn to_protocol(value: DateTimeValue) -> DateTime {
    let small = |number: u32| u8::try_from(number).unwrap_or(u8::MAX);
    DateTime {
        year: u16::try_from(value.date.year).unwrap_or(u16::MAX),
        month: small(value.date.month),
        day: small(value.date.day),
        hour: small(value.hour),
        minute: small(value.minute),
        second: small(value.second),
        micros: value.micros,
    }
}

/// The date and time of an argument, with its digits; Some(None) is NULL, None is another type or form.
fn date_time(bound: &Bound, expression: &Expression) -> Option<(Option<DateTimeValue>, u8)> {
    match (&bound.value, expression) {
        (Value::Null, _) if is_null(bound) => Some((None, 0)),
        (Value::DateTime(value, _), _) => Some((Some(of_protocol(*value)), bound.field.decimals)),
        (Value::Null, _) if bound.field.type_code == type_code::DATETIME => Some((None, bound.field.decimals)),
        (Value::Text(text), Expression::Text { .. }) => literal(text).map(|(value, digits)| (Some(value), digits)),
        _ => None,
    }
}

/// A zone that is named in a statement; None if there is no such zone.
fn named_zone(bind: &Bind<'_>, name: &str) -> Result<Option<Zone>> {
    if let Ok(name) = rules::zone(name) {
        return zone_named(bind.own, &name).map(Some);
    }
    match zone_by_name(bind.own, name) {
        ZoneByName::Known(_, zone) => Ok(Some(zone)),
        ZoneByName::Nowhere => Ok(None),
        ZoneByName::NoRules => {
            Err(SqlError::not_supported(&format!("CONVERT_TZ() by the zone {name}, whose rules are not known,")))
        }
    }
}

/// A local time of one zone in another. What is not in MySQL's range stays as it is.
fn converted(given: DateTimeValue, from: &Zone, to: &Zone) -> Result<DateTimeValue> {
    let refused = |what: &str| Err(SqlError::not_supported(&format!("CONVERT_TZ() {what}")));
    let Some(local_s) = given.since_1970() else { return Ok(given) };
    let utc = match from.moment(local_s) {
        UtcMoment::At(utc) => utc,
        UtcMoment::Never | UtcMoment::Twice => return refused("of a time that its zone has not, or has twice,"),
    };
    if !(1..CONVERTED_BEFORE).contains(&utc) {
        return Ok(given);
    }
    if utc >= RULES_UNTIL && [from, to].iter().any(|zone| matches!(zone, Zone::Changing(_))) {
        return refused("by a zone's rules after 2037");
    }
    given.shifted(utc + to.offset_s(utc) - local_s).map_or_else(|| refused("beyond a date"), Ok)
}

pub(super) fn convert_tz(bind: &Bind<'_>, arguments: &Arguments<'_>) -> Result<Bound> {
    let ([value, from, to], [expression, ..]) = (arguments.bound.as_slice(), arguments.expressions) else {
        return Err(SqlError::not_supported("CONVERT_TZ()"));
    };
    let given = date_time(value, expression);
    let (given, digits) = given.ok_or_else(|| SqlError::not_supported("CONVERT_TZ() of this type or form"))?;
    let field = with_digits(type_code::DATETIME, 0, DATETIME_LENGTH, digits);
    let mut zones = [None, None];
    for (zone, bound) in zones.iter_mut().zip([from, to]) {
        if !is_null(bound) && !is_text(&bound.field) {
            return Err(SqlError::not_supported("CONVERT_TZ() with a zone that is not text"));
        }
        if let Value::Text(name) = &bound.value {
            *zone = named_zone(bind, &String::from_utf8_lossy(name))?;
        }
    }
    let (Some(given), [Some(from), Some(to)]) = (given, zones) else {
        return Ok(Bound { field, value: Value::Null });
    };
    let there = converted(given, &from, &to)?;
    Ok(Bound { field, value: Value::DateTime(to_protocol(there), false) })
}

/// TIMEDIFF of two values of one type.
pub(super) fn timediff(_: &Bind<'_>, arguments: &Arguments<'_>) -> Result<Bound> {
    let refused = || SqlError::not_supported("TIMEDIFF() of this type");
    let [left, right] = arguments.bound.as_slice() else { return Err(refused()) };
    let is_known = |bound: &&Bound| is_null(bound) || bound.field.type_code == type_code::DATETIME;
    if !arguments.bound.iter().all(|bound| is_known(&bound)) {
        return Err(refused());
    }
    let digits = left.field.decimals.max(right.field.decimals);
    let field = with_digits(type_code::TIME, 0, TIME_LENGTH, digits);
    let micros = |bound: &Bound| match bound.value {
        Value::DateTime(value, _) => {
            let value = of_protocol(value);
            value.since_1970().map(|seconds| seconds * 1_000_000 + i64::from(value.micros))
        }
        _ => None,
    };
    let (Some(left), Some(right)) = (micros(left), micros(right)) else {
        return Ok(Bound { field, value: Value::Null });
    };
    let apart = left.abs_diff(right);
    let (seconds, hours) = (apart / 1_000_000, apart / 3_600_000_000);
    if hours > TIME_HOURS_MAX {
        return Err(SqlError::not_supported("TIMEDIFF() of more than 838 hours"));
    }
    let small = |number: u64| u8::try_from(number % 60).unwrap_or(u8::MAX);
    let value = Time {
        negative: left < right,
        days: u32::try_from(hours / 24).unwrap_or(u32::MAX),
        hours: u8::try_from(hours % 24).unwrap_or(u8::MAX),
        minutes: small(seconds / 60),
        seconds: small(seconds),
        micros: u32::try_from(apart % 1_000_000).unwrap_or(u32::MAX),
    };
    Ok(Bound { field, value: Value::Time(value) })
}

const MONTHS: [&str; 12] = [
    "January",
    "February",
    "March",
    "April",
    "May",
    "June",
    "July",
    "August",
    "September",
    "October",
    "November",
    "December",
];
/// From the day of 1970-01-01 on.
const DAYS: [&str; 7] = ["Thursday", "Friday", "Saturday", "Sunday", "Monday", "Tuesday", "Wednesday"];
/// Letters that a short name has.
const SHORT: usize = 3;

/// What is formatted: a date of a DATETIME, and a time of day or a TIME.
struct Moment {
    date: Option<DateTimeValue>,
    negative: bool,
    hours: u32,
    minutes: u32,
    seconds: u32,
    micros: u32,
}

impl Moment {
    fn of(value: &Value, of_time: bool) -> Option<Moment> {
        match value {
            Value::DateTime(value, _) => {
                let value = of_protocol(*value);
                let DateTimeValue { hour: hours, minute: minutes, second: seconds, micros, .. } = value;
                Some(Moment { date: (!of_time).then_some(value), negative: false, hours, minutes, seconds, micros })
            }
            Value::Time(value) if of_time => Some(Moment {
                date: None,
                negative: value.negative,
                hours: value.days * 24 + u32::from(value.hours),
                minutes: value.minutes.into(),
                seconds: value.seconds.into(),
                micros: value.micros,
            }),
            _ => None,
        }
    }

    /// Appends what a letter behind a percent sign stands for. None: a letter that is not known here.
    fn write(&self, letter: char, out: &mut String) -> Option<()> {
        let Moment { hours, minutes, seconds, micros, .. } = *self;
        let of_twelve = (hours + 11) % 12 + 1;
        let half = if hours % 24 < 12 { "AM" } else { "PM" };
        // Writing to a text cannot fail.
        let _ = match letter {
            'H' => write!(out, "{hours:02}"),
            'k' => write!(out, "{hours}"),
            'h' | 'I' => write!(out, "{of_twelve:02}"),
            'l' => write!(out, "{of_twelve}"),
            'i' => write!(out, "{minutes:02}"),
            's' | 'S' => write!(out, "{seconds:02}"),
            'f' => write!(out, "{micros:06}"),
            'p' => write!(out, "{half}"),
            'r' => write!(out, "{of_twelve:02}:{minutes:02}:{seconds:02} {half}"),
            'T' => write!(out, "{hours:02}:{minutes:02}:{seconds:02}"),
            '%' => write!(out, "%"),
            _ => return self.write_date(letter, out),
        };
        Some(())
    }

    fn write_date(&self, letter: char, out: &mut String) -> Option<()> {
        let value = self.date?;
        let DateValue { year, month, day } = value.date;
        let days = value.since_1970()?.div_euclid(24 * 3600);
        let weekday = usize::try_from(days.rem_euclid(7)).ok()?;
        let name = DAYS.get(weekday)?;
        let month_name = MONTHS.get(usize::try_from(month).ok()?.checked_sub(1)?)?;
        let january = DateTimeValue { date: DateValue { month: 1, day: 1, ..value.date }, ..value };
        let of_year = days - january.since_1970()?.div_euclid(24 * 3600) + 1;
        let ending = match (day, day % 10) {
            (11..=13, _) => "th",
            (_, 1) => "st",
            (_, 2) => "nd",
            (_, 3) => "rd",
            _ => "th",
        };
        let _ = match letter {
            'Y' => write!(out, "{year:04}"),
            'y' => write!(out, "{:02}", year % 100),
            'm' => write!(out, "{month:02}"),
            'c' => write!(out, "{month}"),
            'M' => write!(out, "{month_name}"),
            'b' => write!(out, "{}", month_name.get(..SHORT)?),
            'd' => write!(out, "{day:02}"),
            'e' => write!(out, "{day}"),
            'D' => write!(out, "{day}{ending}"),
            'j' => write!(out, "{of_year:03}"),
            'W' => write!(out, "{name}"),
            'a' => write!(out, "{}", name.get(..SHORT)?),
            'w' => write!(out, "{}", (weekday + 4) % 7),
            _ => return None,
        };
        Some(())
    }
}

/// Characters that MySQL announces for what a letter stands for, as recorded from 9.7.4; 1 for one that stands for
/// itself.
fn characters(letter: char) -> u32 {
    match letter {
        'a' | 'b' => 32,
        'M' | 'W' => 64,
        'r' => 11,
        'T' => 8,
        'H' | 'k' => 7,
        'f' => 6,
        'D' | 'X' | 'x' | 'Y' => 4,
        'j' => 3,
        'c' | 'd' | 'e' | 'h' | 'I' | 'i' | 'l' | 'm' | 'p' | 'S' | 's' | 'U' | 'u' | 'V' | 'v' | 'y' => 2,
        _ => 1,
    }
}

fn formatted(bind: &Bind<'_>, arguments: &Arguments<'_>, of_time: bool) -> Result<Bound> {
    let name = if of_time { "TIME_FORMAT()" } else { "DATE_FORMAT()" };
    let refused = |what: &str| SqlError::not_supported(&format!("{name} {what}"));
    let ([value, format], [_, Expression::Text { .. }]) = (arguments.bound.as_slice(), arguments.expressions) else {
        return Err(refused("with a format that is not a literal"));
    };
    let known: &[u8] = if of_time {
        &[type_code::NULL, type_code::DATETIME, type_code::TIME]
    } else {
        &[type_code::NULL, type_code::DATETIME, type_code::DATE]
    };
    let Value::Text(format) = &format.value else { return Err(refused("by bytes")) };
    let format = String::from_utf8_lossy(format);
    if !known.contains(&value.field.type_code) || !format.is_ascii() {
        return Err(refused("of this type or by this text"));
    }
    if bind.own.own_value("lc_time_names").is_some_and(|names| names != "en_US") {
        return Err(refused("where lc_time_names is not en_US"));
    }
    let moment = Moment::of(&value.value, of_time);
    let (mut text, mut length) = (String::new(), 0u32);
    if moment.as_ref().is_some_and(|moment| moment.negative) {
        text.push('-');
    }
    // A value that is NULL now may be none in the next execution, so the letters are looked at with any.
    let any = DateTime { year: 2000, month: 1, day: 1, ..DateTime::default() };
    let any = Moment::of(&Value::DateTime(any, false), of_time);
    let shown = moment.as_ref().or(any.as_ref()).ok_or_else(|| refused("of this type"))?;
    let mut rest = format.chars();
    while let Some(sign) = rest.next() {
        match if sign == '%' { rest.next() } else { None } {
            None => {
                length = length.saturating_add(1);
                text.push(sign);
            }
            Some(letter) => {
                length = length.saturating_add(characters(letter));
                shown.write(letter, &mut text).ok_or_else(|| refused(&format!("with %{letter}")))?;
            }
        }
    }
    bind.hold(text.len())?;
    let connection = bind.settings.charsets().connection;
    let is_null = moment.is_none() || format.is_empty();
    let value = if is_null { Value::Null } else { Value::Text(text.into_bytes()) };
    Ok(Bound { field: computed_text(binary_flag(connection), length, connection), value })
}

pub(super) fn date_format(bind: &Bind<'_>, arguments: &Arguments<'_>) -> Result<Bound> {
    formatted(bind, arguments, false)
}

pub(super) fn time_format(bind: &Bind<'_>, arguments: &Arguments<'_>) -> Result<Bound> {
    formatted(bind, arguments, true)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn literals_have_one_form() {
        let (value, digits) = literal(b"2024-02-29 13:04:05.25").unwrap();
        assert_eq!((value.date.day, value.hour, value.micros, digits), (29, 13, 250_000, 2));
        assert!(literal(b"2024-02-29 13:04:05").is_some());
        let others = [
            "2023-02-29 13:04:05",
            "2024-2-29 13:04:05",
            "2024-02-29T13:04:05",
            "2024-02-29 24:00:00",
            "2024-02-29 13:04:05.",
            "2024-02-29 13:04:05.1234567",
            "0000-00-00 00:00:00",
            "2024-02-29",
            "",
        ];
        for other in others {
            assert_eq!(literal(other.as_bytes()), None, "{other}");
        }
    }
}
