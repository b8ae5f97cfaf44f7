//! Converts a stored value to another column type, as ALTER TABLE … MODIFY, CHANGE and CONVERT TO do to existing rows.
//!
//! In: the two types and the stored bytes. Out: the bytes the server stores in the new column (checked against a 9.7
//! server by the forms of `tests/ddl`, value by value by `tests/conversions_server.rs`). Never here: NULL, a guess. An
//! unknown conversion is an error, and so is a value whose result is unknown.
//!
//! The path of a value mirrors `Copy_field::get_copy_func` (sql/field_conv.cc): which pairs of types pass through an
//! integer, a decimal, a floating-point number, a date, or text.

use serde::{Deserialize, Serialize};

use crate::column_type::{ColumnType, Extent, type_code as t};
use crate::convert_parse as parse;
use crate::convert_text as text;
use crate::error::ValueError;
use crate::float::{nearest_f32, write_f64};
use crate::temporal::{DateTime, TIME_HOURS_MAX, Time};
use crate::typed::DateValue;
use crate::{convert_json, decimal};

/// What a conversion depends on, apart from the types.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct ConvertOptions {
    /// `sql_mode` has STRICT_TRANS_TABLES or STRICT_ALL_TABLES. A value that does not fit was an error at the source,
    /// so here it means that the rows differ. Without strict mode the source truncated it.
    #[serde(rename = "strict")]
    pub strict: bool,
    /// `sql_mode` has TIME_TRUNCATE_FRACTIONAL: fractions of seconds are truncated, not rounded.
    #[serde(rename = "truncate_fraction")]
    pub truncate_fraction: bool,
    /// `sql_mode` has PAD_CHAR_TO_FULL_LENGTH: CHAR values keep their trailing spaces.
    #[serde(rename = "pad_char")]
    pub pad_char: bool,
    /// The session's time zone in seconds east of UTC, if it is a fixed offset.
    #[serde(rename = "offset_seconds", deserialize_with = "Option::deserialize")]
    pub offset_seconds: Option<i32>,
    /// Minimum digits that ZEROFILL shows; 0 without ZEROFILL.
    #[serde(rename = "zerofill_width")]
    pub zerofill_width: u16,
    /// Digits after the point of the old column, if it is FLOAT(M,D) or DOUBLE(M,D).
    #[serde(rename = "from_decimals", default, skip_serializing_if = "Option::is_none")]
    pub from_decimals: Option<u8>,
    /// M and D of the new column, if it is FLOAT(M,D) or DOUBLE(M,D).
    #[serde(rename = "to_decimals", default, skip_serializing_if = "Option::is_none")]
    pub to_decimals: Option<(u8, u8)>,
    /// The session's date at the time of the statement, as YYYYMMDD, if it is known: the date that a TIME gets.
    #[serde(rename = "today", default, skip_serializing_if = "Option::is_none")]
    pub today: Option<u32>,
    /// The old column may hold text that is longer than it should be.
    // Not stored when false.
    #[serde(rename = "overlong", default, skip_serializing_if = "std::ops::Not::not")]
    pub overlong: bool,
    /// Dates that the statement accepts.
    // Not stored when every date is accepted.
    #[serde(rename = "dates", default, skip_serializing_if = "DateRules::is_none")]
    pub dates: DateRules,
}

/// Dates that a statement which copies its table rejects. They become zero, date and time, in DATE, DATETIME and
/// TIMESTAMP columns, even in columns whose type does not change. In strict mode they were errors at the source
/// (`check_date`, sql-common/my_time.cc; seen on 9.7). The zero date itself is always accepted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DateRules {
    /// `sql_mode` lacks ALLOW_INVALID_DATES: the day must exist in its month.
    #[serde(rename = "day_must_exist")]
    pub day_must_exist: bool,
    /// `sql_mode` has NO_ZERO_IN_DATE: neither month nor day may be 0.
    #[serde(rename = "no_zero_in_date")]
    pub no_zero_in_date: bool,
}

impl DateRules {
    /// True if every date is accepted.
    #[must_use]
    pub fn is_none(&self) -> bool {
        *self == DateRules::default()
    }

    /// As [`DateRules::take`], for a date that was read.
    #[must_use]
    pub fn takes(self, date: DateValue) -> bool {
        let DateValue { year, month, day } = date;
        self.take(&DateTime { year, month, day, ..DateTime::default() })
    }

    /// True if the rules accept a date other than zero.
    pub(crate) fn take(self, value: &DateTime) -> bool {
        if value.month == 0 || value.day == 0 {
            return !self.no_zero_in_date;
        }
        !self.day_must_exist || value.is_calendar_day()
    }
}

/// A supported conversion between two types.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Conversion {
    pub(crate) from: ColumnType,
    pub(crate) to: ColumnType,
    pub(crate) options: ConvertOptions,
    kind: Kind,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// The same bytes.
    Same,
    /// The same value in a wider type: no value can be lost.
    Wider,
    /// As one of the two above, except for dates that [`DateRules`] reject.
    Dates,
    /// Depends on the value.
    Each,
}

/// True for CHAR, VARCHAR, TEXT and their binary counterparts.
fn is_string(ty: &ColumnType) -> bool {
    matches!(ty.code, t::CHAR | t::VARCHAR | t::BLOB)
}

fn is_member(ty: &ColumnType) -> bool {
    matches!(ty.code, t::ENUM | t::SET)
}

fn is_real(ty: &ColumnType) -> bool {
    matches!(ty.code, t::FLOAT | t::DOUBLE)
}

/// True for integers and YEAR.
fn is_whole(ty: &ColumnType) -> bool {
    ty.is_integer() || ty.code == t::YEAR
}

fn is_number(ty: &ColumnType) -> bool {
    is_whole(ty) || is_real(ty) || ty.code == t::DECIMAL
}

pub(crate) fn is_temporal(ty: &ColumnType) -> bool {
    matches!(ty.code, t::DATE | t::TIME2 | t::DATETIME2 | t::TIMESTAMP2)
}

impl Conversion {
    /// Prepares the conversion from one type to another.
    ///
    /// # Errors
    /// [`ValueError::Unsupported`]: the conversion is not implemented.
    pub fn new(from: &ColumnType, to: &ColumnType, options: ConvertOptions) -> Result<Conversion, ValueError> {
        from.check()?;
        to.check()?;
        let changes = is_real(to) && options.to_decimals.is_some() || options.overlong;
        let (same, wider) = (!changes && is_same(from, to), !changes && is_wider(from, to));
        let looks_at_dates = !options.strict && !options.dates.is_none() && matches!(from.code, t::DATE | t::DATETIME2);
        let kind = if looks_at_dates && (same || wider) {
            Kind::Dates
        } else if same {
            Kind::Same
        } else if wider {
            Kind::Wider
        } else if is_known(from, to, &options) {
            Kind::Each
        } else {
            return Err(ValueError::unsupported(format!("the conversion of {} to {}", from.name(), to.name())));
        };
        Ok(Conversion { from: from.clone(), to: to.clone(), options, kind })
    }

    /// True if every value keeps its bytes.
    #[must_use]
    pub fn keeps_bytes(&self) -> bool {
        self.kind == Kind::Same
    }

    /// True if every value of the old type fits the new one, and different values stay different.
    #[must_use]
    pub fn is_lossless(&self) -> bool {
        matches!(self.kind, Kind::Same | Kind::Wider)
    }

    /// As [`Conversion::is_lossless`], except for dates that become zero.
    #[must_use]
    pub fn is_lossless_but_for_dates(&self) -> bool {
        self.kind != Kind::Each
    }

    /// Appends the new stored bytes of a value, length prefix included.
    ///
    /// # Errors
    /// The bytes are not a value of the old type, or the value's result in the new type is unknown. `out` may then hold
    /// part of a value.
    pub fn append(&self, stored: &[u8], out: &mut Vec<u8>) -> Result<(), ValueError> {
        if self.kind == Kind::Same {
            out.extend_from_slice(stored);
            return Ok(());
        }
        let (from, to) = (&self.from, &self.to);
        match (from.code, to.code) {
            (t::ENUM | t::SET, _) if self.kind == Kind::Wider => {
                out.extend_from_slice(stored);
                out.resize(out.len() + usize::from(to.meta - from.meta), 0);
                Ok(())
            }
            (t::JSON, _) => convert_json::from_json(self, stored, out),
            (_, t::JSON) => convert_json::to_json(self, stored, out),
            (t::BIT, t::BLOB) => text::store_bytes(self, stored, out),
            (t::BIT, _) | (_, t::BIT) => self.store_number(self.integer_of(stored)?, out),
            (_, t::DECIMAL) => self.store_decimal(&self.decimal_of(stored)?, out),
            _ if is_temporal(from) && is_temporal(to) => self.temporal_to(stored, out),
            _ if is_whole(to) && (is_number(from) || is_temporal(from) || is_member(from)) => {
                self.store_number(self.integer_of(stored)?, out)
            }
            _ if is_real(to) && is_member(from) => self.store_number(self.integer_of(stored)?, out),
            _ if is_real(to) && (is_number(from) || is_temporal(from)) => self.store_real(self.real_of(stored)?, out),
            (t::SET, t::SET) => text::set_to_set(self, stored, out),
            (t::ENUM, t::ENUM) if stored.iter().all(|byte| *byte == 0) => {
                // ENUM's error value stays the error value.
                out.resize(out.len() + usize::from(to.meta), 0);
                Ok(())
            }
            _ => text::from_text(self, stored, out),
        }
    }

    /// The value as the server's `val_int` gives it.
    fn integer_of(&self, stored: &[u8]) -> Result<i128, ValueError> {
        let from = &self.from;
        match from.code {
            _ if from.is_integer() => integer(from, stored),
            t::YEAR => Ok(year(stored)),
            t::BIT => Ok(bits(stored)),
            t::DECIMAL => {
                let number = self.decimal_of(stored)?;
                let value = rounded(&number).ok_or(ValueError::Invalid { what: "DECIMAL" })?;
                if from.unsigned { Ok(value.min(u64::MAX.into())) } else { self.as_longlong(value) }
            }
            t::FLOAT | t::DOUBLE => {
                // Ties go to the even neighbour, as in rint(3).
                #[allow(
                    clippy::cast_possible_truncation,
                    reason = "whole; what lies outside becomes an end of the range"
                )]
                let whole = self.real_of(stored)?.round_ties_even() as i128;
                if from.code == t::FLOAT { Ok(self.float_as_longlong(whole)) } else { self.as_longlong(whole) }
            }
            t::ENUM | t::SET => Ok(stored.iter().rev().fold(0, |value, byte| value << 8 | i128::from(*byte))),
            t::TIME2 => {
                let time = self.time_of(stored)?;
                let up = u32::from(time.micros >= 500_000);
                let seconds = time.hour * 3600 + time.minute * 60 + time.second + up;
                let value = i128::from(seconds / 3600 * 10_000 + seconds / 60 % 60 * 100 + seconds % 60);
                Ok(if time.negative { -value } else { value })
            }
            _ if is_temporal(from) => {
                let value = self.date_of(stored)?;
                if value.micros < 500_000 {
                    return Ok(self.digits_of_date(&value));
                }
                // Only midnight needs a date that exists.
                let of_day = value.hour * 3600 + value.minute * 60 + value.second + 1;
                let next = if of_day < 86_400 {
                    let (hour, minute, second) = (of_day / 3600, of_day / 60 % 60, of_day % 60);
                    Some(DateTime { hour, minute, second, ..value })
                } else {
                    value.next_second().filter(|_| value.is_calendar_day())
                };
                let next = next.ok_or_else(|| ValueError::unsupported("a date that is rounded beyond the last one"))?;
                Ok(self.digits_of_date(&next))
            }
            _ => {
                let shown = text::plain_text(self, stored)?;
                let read = parse::integer(&shown);
                if text::is_wide(from) && read.fate == parse::Fate::Nothing {
                    return Err(self.does_not_fit(String::from_utf8_lossy(&shown)));
                }
                self.warn_unless(read.fate == parse::Fate::Clean, read.value)?;
                Ok(read.value)
            }
        }
    }

    /// `20240229`, or `20240229102030` where the old column has a time of day.
    fn digits_of_date(&self, value: &DateTime) -> i128 {
        let date = i128::from(value.year * 10_000 + value.month * 100 + value.day);
        if self.from.code == t::DATE {
            return date;
        }
        date * 1_000_000 + i128::from(value.hour * 10_000 + value.minute * 100 + value.second)
    }

    /// The value as plain decimal text, as the server's `val_decimal` gives it.
    fn decimal_of(&self, stored: &[u8]) -> Result<Vec<u8>, ValueError> {
        let from = &self.from;
        let mut number = Vec::new();
        match from.code {
            t::DECIMAL => {
                let (precision, scale) = from.precision_and_scale();
                decimal::write_text(precision, scale, stored, &mut number)?;
            }
            t::FLOAT | t::DOUBLE => {
                let mut shown = Vec::new();
                write_f64(self.real_of(stored)?, &mut shown);
                number = parse::decimal(&shown).ok_or(ValueError::Invalid { what: "number" })?.value;
            }
            t::TIME2 => {
                let Time { negative, hour, minute, second, micros } = self.time_of(stored)?;
                let sign = if negative { "-" } else { "" };
                number = format!("{sign}{}.{micros:06}", hour * 10_000 + minute * 100 + second).into_bytes();
            }
            _ if is_temporal(from) => {
                let value = self.date_of(stored)?;
                number = format!("{}.{:06}", self.digits_of_date(&value), value.micros).into_bytes();
            }
            t::CHAR | t::VARCHAR | t::BLOB => {
                let text = text::plain_text(self, stored)?;
                let read = parse::decimal(&text).ok_or_else(|| self.does_not_fit(String::from_utf8_lossy(&text)))?;
                self.warn_unless(read.fate == parse::Fate::Clean, String::from_utf8_lossy(&text))?;
                number = read.value;
            }
            _ => number = self.integer_of(stored)?.to_string().into_bytes(),
        }
        Ok(number)
    }

    /// The value as the server's `val_real` gives it.
    pub(crate) fn real_of(&self, stored: &[u8]) -> Result<f64, ValueError> {
        let from = &self.from;
        let wrong = || ValueError::WrongLength { what: from.name(), len: stored.len() };
        match from.code {
            t::FLOAT => Ok(f64::from(f32::from_le_bytes(stored.try_into().map_err(|_| wrong())?))),
            t::DOUBLE => Ok(f64::from_le_bytes(stored.try_into().map_err(|_| wrong())?)),
            t::DECIMAL => {
                let number = self.decimal_of(stored)?;
                Ok(parse::double(&number).value)
            }
            t::TIME2 => {
                let Time { negative, hour, minute, second, micros } = self.time_of(stored)?;
                let value = f64::from(hour * 10_000 + minute * 100 + second) + f64::from(micros) / 1e6;
                Ok(if negative { -value } else { value })
            }
            _ if is_temporal(from) => {
                let value = self.date_of(stored)?;
                Ok(self.digits_of_date(&value) as f64 + f64::from(value.micros) / 1e6)
            }
            _ => Ok(self.integer_of(stored)? as f64),
        }
    }

    fn time_of(&self, stored: &[u8]) -> Result<Time, ValueError> {
        Time::from_time(self.from.meta, stored)
    }

    /// The date in the session's time zone.
    pub(crate) fn date_of(&self, stored: &[u8]) -> Result<DateTime, ValueError> {
        match self.from.code {
            t::DATE => DateTime::from_date(stored),
            t::DATETIME2 => DateTime::from_datetime(self.from.meta, stored),
            _ => {
                let value = DateTime::from_timestamp(self.from.meta, stored)?;
                self.shifted(value, 1)?.ok_or(ValueError::Invalid { what: "TIMESTAMP" })
            }
        }
    }

    /// A warning of the server, which strict mode makes an error: the statement would not have been logged.
    pub(crate) fn warn_unless(&self, good: bool, value: impl std::fmt::Display) -> Result<(), ValueError> {
        if good || !self.options.strict { Ok(()) } else { Err(self.does_not_fit(value)) }
    }

    /// Stores what passed through an integer.
    fn store_number(&self, value: i128, out: &mut Vec<u8>) -> Result<(), ValueError> {
        match self.to.code {
            t::CHAR | t::VARCHAR | t::BLOB => text::store_number(self, value, out),
            t::DECIMAL => self.store_decimal(value.to_string().as_bytes(), out),
            t::FLOAT | t::DOUBLE => self.store_real(value as f64, out),
            _ => self.store_integer(value, out),
        }
    }

    /// Stores a floating-point number, rounded to the column's decimals and clipped to its range
    /// (`Field_real::truncate`, sql/field.cc).
    pub(crate) fn store_real(&self, value: f64, out: &mut Vec<u8>) -> Result<(), ValueError> {
        let to = &self.to;
        let mut kept = if to.unsigned && value < 0.0 { 0.0 } else { value };
        let mut max = if to.code == t::FLOAT { f64::from(f32::MAX) } else { f64::MAX };
        if let Some((digits, decimals)) = self.options.to_decimals {
            let unit = 10f64.powi(decimals.into());
            max = 10f64.powi(i32::from(digits.saturating_sub(decimals))) - 1.0 / unit;
            kept = kept.floor() + ((kept - kept.floor()) * unit).round_ties_even() / unit;
        }
        let clipped = kept.clamp(-max, max);
        self.warn_unless(clipped == kept && !(to.unsigned && value < 0.0), value)?;
        if to.code == t::FLOAT {
            out.extend_from_slice(&nearest_f32(clipped).to_le_bytes());
        } else {
            out.extend_from_slice(&clipped.to_le_bytes());
        }
        Ok(())
    }

    /// Stores a whole number in an integer, BIT or YEAR column.
    pub(crate) fn store_integer(&self, value: i128, out: &mut Vec<u8>) -> Result<(), ValueError> {
        let to = &self.to;
        if to.code == t::YEAR {
            let year = match value {
                0 => 0,
                1..=69 => value + 100,
                70..=99 => value,
                1901..=2155 => value - 1900,
                _ => {
                    self.warn_unless(false, value)?;
                    0
                }
            };
            out.push(u8::try_from(year).map_err(|_| self.does_not_fit(value))?);
            return Ok(());
        }
        let bits = match to.extent() {
            _ if to.code == t::BIT => u32::from(to.meta),
            Extent::Fixed(len) => 8 * len,
            Extent::Prefixed(_) => 8,
        };
        let (low, high) = if to.unsigned || to.code == t::BIT {
            (0, (1i128 << bits) - 1)
        } else {
            (-(1i128 << (bits - 1)), (1i128 << (bits - 1)) - 1)
        };
        // A negative number counts as the large one with the same 64 bits.
        let value = if to.code == t::BIT && value < 0 { value + (1 << 64) } else { value };
        let kept = value.clamp(low, high);
        if kept != value && self.options.strict {
            return Err(self.does_not_fit(value));
        }
        if to.code == t::BIT {
            let len = bits.div_ceil(8) as usize;
            out.extend(kept.to_be_bytes().iter().skip(size_of::<i128>() - len));
        } else {
            out.extend(kept.to_le_bytes().iter().take(to.fixed_len().unwrap_or(0)));
        }
        Ok(())
    }

    /// A FLOAT beyond a signed BIGINT becomes what the processor makes of it: on x86-64 the smallest one, whose bits
    /// are then read according to the FLOAT's sign (`Field_float::val_int`, sql/field.cc; seen on 9.7).
    fn float_as_longlong(&self, value: i128) -> i128 {
        match i64::try_from(value) {
            Ok(_) => value,
            Err(_) if self.from.unsigned => 1 << 63,
            Err(_) => i64::MIN.into(),
        }
    }

    /// Signed DOUBLE and DECIMAL pass through a signed BIGINT, even when the new column is unsigned (`do_field_int`,
    /// sql/field_conv.cc; seen on 9.7).
    fn as_longlong(&self, value: i128) -> Result<i128, ValueError> {
        let kept = value.clamp(i64::MIN.into(), i64::MAX.into());
        if kept != value && self.options.strict {
            return Err(self.does_not_fit(value));
        }
        Ok(kept)
    }

    pub(crate) fn does_not_fit(&self, value: impl std::fmt::Display) -> ValueError {
        ValueError::BadLiteral { what: self.to.name(), literal: value.to_string().into() }
    }

    /// Stores decimal text in a DECIMAL column: rounded to its scale, clipped to its largest value where that is no
    /// error.
    pub(crate) fn store_decimal(&self, number: &[u8], out: &mut Vec<u8>) -> Result<(), ValueError> {
        let (precision, scale) = self.to.precision_and_scale();
        // An unsigned column holds nothing below zero.
        let clipped = match number {
            [b'-', digits @ ..] if self.to.unsigned && digits.iter().any(|byte| (b'1'..=b'9').contains(byte)) => {
                if self.options.strict {
                    return Err(self.does_not_fit(String::from_utf8_lossy(number)));
                }
                b"0"
            }
            other => other,
        };
        let start = out.len();
        match decimal::from_text(precision, scale, clipped, out) {
            Err(ValueError::BadLiteral { .. }) if !self.options.strict => {
                out.truncate(start);
                let sign = if clipped.first() == Some(&b'-') { "-" } else { "" };
                let (whole, fraction) = (usize::from(precision - scale), usize::from(scale));
                let largest = format!("{sign}{:9<whole$}.{:9<fraction$}", "", "");
                decimal::from_text(precision, scale, largest.as_bytes(), out)
            }
            done => done,
        }
    }

    fn temporal_to(&self, stored: &[u8], out: &mut Vec<u8>) -> Result<(), ValueError> {
        let (from, to) = (&self.from, &self.to);
        if from.code == t::TIME2 {
            let time = Time::from_time(from.meta, stored)?;
            if to.code == t::TIME2 {
                return self.fraction_of_time(time, 0)?.push(to.meta, out);
            }
            return self.store_local(self.today_at(time)?, out);
        }
        let mut value = match from.code {
            t::DATE => DateTime::from_date(stored)?,
            t::DATETIME2 => DateTime::from_datetime(from.meta, stored)?,
            _ => DateTime::from_timestamp(from.meta, stored)?,
        };
        let (from_utc, to_utc) = (from.code == t::TIMESTAMP2, to.code == t::TIMESTAMP2);
        if to.code == t::TIME2 {
            if from_utc {
                value = self.shifted(value, 1)?.ok_or(ValueError::Invalid { what: "TIMESTAMP" })?;
            }
            let DateTime { hour, minute, second, micros, .. } = value;
            let time = Time { negative: false, hour, minute, second, micros };
            return self.fraction_of_time(time, 0)?.push(to.meta, out);
        }
        let mut taken = value.is_zero_date() || self.options.dates.take(&value);
        if from_utc != to_utc && taken && !value.is_zero() {
            match self.shifted(value, if from_utc { 1 } else { -1 })? {
                Some(shifted) => value = shifted,
                None => taken = false,
            }
        }
        self.store_date(value, taken, 0, out)
    }

    /// The time on the date of the statement.
    fn today_at(&self, time: Time) -> Result<DateTime, ValueError> {
        let unknown = || ValueError::unsupported("the conversion of TIME to a date without the date of the statement");
        let today = self.options.today.ok_or_else(unknown)?;
        let midnight =
            DateTime { year: today / 10_000, month: today / 100 % 100, day: today % 100, ..DateTime::default() };
        let micros = i64::from(time.hour * 3600 + time.minute * 60 + time.second) * 1_000_000 + i64::from(time.micros);
        let micros = if time.negative { -micros } else { micros };
        let value = midnight.shifted(micros.div_euclid(1_000_000)).ok_or_else(unknown)?;
        Ok(DateTime { micros: u32::try_from(micros.rem_euclid(1_000_000)).unwrap_or(0), ..value })
    }

    /// Stores a local date.
    fn store_local(&self, value: DateTime, out: &mut Vec<u8>) -> Result<(), ValueError> {
        if self.to.code != t::TIMESTAMP2 {
            return self.store_date(value, true, 0, out);
        }
        match self.shifted(value, -1)? {
            Some(shifted) => self.store_date(shifted, true, 0, out),
            None => self.store_date(value, false, 0, out),
        }
    }

    /// Converts a time in UTC to local time (`sign` 1) or back (-1); `None` if there is no such time.
    pub(crate) fn shifted(&self, value: DateTime, sign: i64) -> Result<Option<DateTime>, ValueError> {
        if value.is_zero() {
            return Ok(Some(value));
        }
        let offset = i64::from(self.options.offset_seconds.ok_or_else(no_time_zone)?);
        Ok(value.shifted(sign * offset))
    }

    /// Stores a value in a DATE, DATETIME or (in UTC) TIMESTAMP column, with its fraction rounded. If the date is not
    /// `taken`, if it has no next second to round up to, or if a TIMESTAMP cannot hold it, the result is zero, or an
    /// error in strict mode.
    pub(crate) fn store_date(
        &self,
        value: DateTime,
        taken: bool,
        nanos: u32,
        out: &mut Vec<u8>,
    ) -> Result<(), ValueError> {
        let to = &self.to;
        let digits = if to.code == t::DATE { 0 } else { to.meta };
        let rounded = taken.then(|| self.fraction_of_date(value, nanos, digits)).flatten();
        let fits = |value: &DateTime| to.code != t::TIMESTAMP2 || value.is_zero() || value.is_timestamp();
        let stored = match rounded.filter(fits) {
            Some(value) => value,
            None if self.options.strict => {
                let mut shown = Vec::new();
                value.write(6, &mut shown);
                return Err(self.does_not_fit(String::from_utf8_lossy(&shown)));
            }
            None => DateTime::default(),
        };
        match to.code {
            t::DATE => stored.push_date(out),
            t::TIMESTAMP2 => stored.push_timestamp(to.meta, out),
            _ => stored.push_datetime(to.meta, out),
        }
    }

    fn fraction_of_date(&self, value: DateTime, nanos: u32, digits: u16) -> Option<DateTime> {
        let (micros, carry) = self.fraction(value.micros, nanos, digits);
        let value = DateTime { micros, ..value };
        if carry { value.next_second() } else { Some(value) }
    }

    pub(crate) fn fraction_of_time(&self, value: Time, nanos: u32) -> Result<Time, ValueError> {
        let (micros, carry) = self.fraction(value.micros, nanos, self.to.meta);
        let mut seconds = value.hour * 3600 + value.minute * 60 + value.second + u32::from(carry);
        let mut micros = micros;
        if seconds > TIME_SECONDS_MAX || (seconds == TIME_SECONDS_MAX && micros > 0) {
            self.warn_unless(false, "838:59:59.9")?;
            (seconds, micros) = (TIME_SECONDS_MAX, 0);
        }
        let negative = value.negative && (seconds > 0 || micros > 0);
        Ok(Time { negative, hour: seconds / 3600, minute: seconds / 60 % 60, second: seconds % 60, micros })
    }

    /// Reduces microseconds to this many digits; the flag says whether to add a second.
    fn fraction(&self, micros: u32, nanos: u32, digits: u16) -> (u32, bool) {
        let unit = 10u32.pow(u32::from(6 - digits.min(6)));
        // First to microseconds, then to the column's digits (seen on 9.7.4).
        let kept = if self.options.truncate_fraction { micros } else { micros + u32::from(nanos >= 500) + unit / 2 };
        let kept = kept / unit * unit;
        if kept >= 1_000_000 { (0, true) } else { (kept, false) }
    }
}

/// 838:59:59.
const TIME_SECONDS_MAX: u32 = TIME_HOURS_MAX * 3600 + 59 * 60 + 59;

fn no_time_zone() -> ValueError {
    ValueError::unsupported("the conversion between TIMESTAMP and a local time in a named time zone")
}

/// Value of an integer column.
fn integer(ty: &ColumnType, stored: &[u8]) -> Result<i128, ValueError> {
    if ty.fixed_len() != Some(stored.len()) || stored.is_empty() {
        return Err(ValueError::WrongLength { what: ty.name(), len: stored.len() });
    }
    let value = stored.iter().rev().fold(0u64, |value, byte| value << 8 | u64::from(*byte));
    let unused = 64 - 8 * stored.len();
    Ok(if ty.unsigned { i128::from(value) } else { i128::from((value << unused) as i64 >> unused) })
}

fn year(stored: &[u8]) -> i128 {
    stored.first().map_or(0, |year| if *year == 0 { 0 } else { 1900 + i128::from(*year) })
}

fn bits(stored: &[u8]) -> i128 {
    stored.iter().fold(0, |value, byte| value << 8 | i128::from(*byte))
}

/// Rounds decimal text to a whole number, halves away from zero.
pub(crate) fn rounded(number: &[u8]) -> Option<i128> {
    let number = std::str::from_utf8(number).ok()?;
    let (negative, digits) = match number.strip_prefix('-') {
        Some(digits) => (true, digits),
        None => (false, number.strip_prefix('+').unwrap_or(number)),
    };
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    // A number with more digits than any integer column can hold counts as the largest number.
    let whole = if whole.trim_start_matches('0').len() > 30 { i128::MAX / 2 } else { whole.parse::<i128>().ok()? };
    let value = whole + i128::from(fraction.bytes().next().is_some_and(|digit| digit >= b'5'));
    Some(if negative { -value } else { value })
}

/// True if every value keeps its bytes.
fn is_same(from: &ColumnType, to: &ColumnType) -> bool {
    if from.code != to.code {
        return false;
    }
    match from.code {
        _ if is_string(from) => {
            // BINARY's padding is not stored, so a longer column holds the same bytes.
            text::same_charset(from, to) && from.prefix_len() == to.prefix_len() && text::fits_all(from, to)
        }
        t::ENUM | t::SET => {
            from.meta == to.meta && text::same_charset(from, to) && to.members.starts_with(&from.members)
        }
        t::BIT => from.meta <= to.meta && from.meta.div_ceil(8) == to.meta.div_ceil(8),
        t::JSON | t::GEOMETRY | t::VECTOR => from.meta == to.meta,
        _ => from.meta == to.meta && from.unsigned == to.unsigned,
    }
}

/// True if every value fits.
fn is_wider(from: &ColumnType, to: &ColumnType) -> bool {
    if from.is_integer() && to.is_integer() {
        let (old, new) = (from.fixed_len().unwrap_or(0), to.fixed_len().unwrap_or(0));
        return new >= old && (from.unsigned == to.unsigned || (from.unsigned && new > old));
    }
    if from.code != to.code {
        return from.code == t::FLOAT && to.code == t::DOUBLE && from.unsigned == to.unsigned;
    }
    match from.code {
        _ if is_string(from) => text::same_charset(from, to) && text::fits_all(from, to),
        t::ENUM => from.meta < to.meta && text::same_charset(from, to) && to.members.starts_with(&from.members),
        t::SET => from.meta < to.meta && text::same_charset(from, to) && to.members.starts_with(&from.members),
        t::DECIMAL => {
            let ((precision, scale), (new_precision, new_scale)) =
                (from.precision_and_scale(), to.precision_and_scale());
            let whole = precision.saturating_sub(scale) <= new_precision.saturating_sub(new_scale);
            whole && scale <= new_scale && from.unsigned == to.unsigned
        }
        t::TIME2 | t::DATETIME2 | t::TIMESTAMP2 => from.meta <= to.meta,
        t::BIT => from.meta <= to.meta,
        _ => false,
    }
}

/// True for the pairs that [`Conversion::append`] converts value by value.
fn is_known(from: &ColumnType, to: &ColumnType, options: &ConvertOptions) -> bool {
    let local = |ty: &ColumnType| ty.code != t::TIMESTAMP2 || options.offset_seconds.is_some();
    let text = |ty: &ColumnType| (is_string(ty) || is_member(ty)) && text::is_known(ty);
    let known = |ty: &ColumnType| text(ty) || is_number(ty) || is_temporal(ty);
    if options.pad_char && from.code == t::CHAR && to.code != t::CHAR {
        return false;
    }
    if !local(from) || !local(to) {
        return from.code == to.code;
    }
    match (from.code, to.code) {
        (t::BIT, t::BIT) => true,
        (t::BIT, _) => is_number(to) || (is_string(to) && text(to)),
        (_, t::BIT) => known(from) || from.code == t::JSON,
        (t::JSON, _) => known(to),
        (_, t::JSON) => text(from) && !text::is_binary(from) || is_number(from),
        (t::TIME2, t::DATE | t::DATETIME2 | t::TIMESTAMP2) => options.today.is_some(),
        _ => known(from) && known(to),
    }
}
