//! DATE, TIME, DATETIME, TIMESTAMP, YEAR: stored bytes to fields and back, fields to text.
//!
//! In: stored bytes, packed integers of JSON, fields of a result row. Out: fields, text in UTC, stored bytes. Never
//! here: a time zone, an out-of-range field that is passed on.

use std::io::Write as _;

use crate::error::ValueError;

/// A date with a time of day; all fields zero is MySQL's zero date. Month and day may be zero on their own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct DateTime {
    pub(crate) year: u32,
    pub(crate) month: u32,
    pub(crate) day: u32,
    pub(crate) hour: u32,
    pub(crate) minute: u32,
    pub(crate) second: u32,
    pub(crate) micros: u32,
}

/// A signed duration of up to 838:59:59.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Time {
    pub(crate) negative: bool,
    pub(crate) hour: u32,
    pub(crate) minute: u32,
    pub(crate) second: u32,
    pub(crate) micros: u32,
}

/// Most hours of a TIME.
pub(crate) const TIME_HOURS_MAX: u32 = 838;
/// Seconds in a day.
const DAY_SECONDS: u32 = 86_400;
/// Days from 0000-03-01 to 1970-01-01.
const EPOCH_DAYS: u32 = 719_468;
/// Days in 400 Gregorian years.
const ERA_DAYS: u32 = 146_097;

fn wrong_length(what: &'static str, stored: &[u8]) -> ValueError {
    ValueError::WrongLength { what, len: stored.len() }
}

fn big_endian(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0, |value, byte| value << 8 | u64::from(*byte))
}

fn little_endian(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |value, byte| value << 8 | u64::from(*byte))
}

/// Length in bytes of a fraction of this many digits.
fn fraction_len(digits: u16) -> usize {
    usize::from(digits.div_ceil(2))
}

/// Microseconds in one unit of a fraction stored in this many bytes.
fn fraction_unit(len: usize) -> u32 {
    match len {
        1 => 10_000,
        2 => 100,
        _ => 1,
    }
}

fn micros(fraction: &[u8]) -> Result<u32, ValueError> {
    u32::try_from(big_endian(fraction))
        .ok()
        .and_then(|value| value.checked_mul(fraction_unit(fraction.len())))
        .filter(|micros| *micros < 1_000_000)
        .ok_or(ValueError::Invalid { what: "fraction of a second" })
}

fn push_fraction(digits: u16, micros: u32, out: &mut Vec<u8>) {
    let len = fraction_len(digits);
    if len > 0 {
        let value = micros / fraction_unit(len);
        out.extend(value.to_be_bytes().iter().skip(4 - len));
    }
}

impl DateTime {
    fn checked(self, what: &'static str) -> Result<DateTime, ValueError> {
        let good = self.year <= 9999
            && self.month <= 12
            && self.day <= 31
            && self.hour <= 23
            && self.minute <= 59
            && self.second <= 59
            && self.micros <= 999_999;
        if good { Ok(self) } else { Err(ValueError::Invalid { what }) }
    }

    /// Reads a stored DATE.
    pub(crate) fn from_date(stored: &[u8]) -> Result<DateTime, ValueError> {
        if stored.len() != 3 {
            return Err(wrong_length("DATE", stored));
        }
        let bits = (little_endian(stored) & 0xff_ffff) as u32;
        DateTime { year: bits >> 9, month: bits >> 5 & 15, day: bits & 31, ..DateTime::default() }.checked("DATE")
    }

    /// Reads a stored DATETIME with this many fractional digits.
    pub(crate) fn from_datetime(digits: u16, stored: &[u8]) -> Result<DateTime, ValueError> {
        if stored.len() != 5 + fraction_len(digits) {
            return Err(wrong_length("DATETIME", stored));
        }
        let (whole, fraction) = stored.split_at_checked(5).unwrap_or((stored, &[]));
        let bits = big_endian(whole).checked_sub(1 << 39).ok_or(ValueError::Invalid { what: "DATETIME" })?;
        DateTime::from_bits(bits, micros(fraction)?)
    }

    fn from_bits(bits: u64, micros: u32) -> Result<DateTime, ValueError> {
        // 17 bits of months, then 5 of days, 5 of hours and 6 each of minutes and seconds.
        let months = (bits >> 22 & 0x1_ffff) as u32;
        let rest = (bits & 0x3f_ffff) as u32;
        let field = |shift: u32, mask: u32| rest >> shift & mask;
        DateTime {
            year: months / 13,
            month: months % 13,
            day: field(17, 31),
            hour: field(12, 31),
            minute: field(6, 63),
            second: field(0, 63),
            micros,
        }
        .checked("DATETIME")
    }

    /// Reads the packed integer of a JSON value.
    pub(crate) fn from_packed(packed: i64) -> Result<DateTime, ValueError> {
        let bits = u64::try_from(packed).map_err(|_| ValueError::Invalid { what: "DATETIME" })?;
        if bits >> 24 >= 1 << 39 {
            return Err(ValueError::Invalid { what: "DATETIME" });
        }
        DateTime::from_bits(bits >> 24, (bits & 0xff_ffff) as u32)
    }

    /// Reads a stored TIMESTAMP with this many fractional digits, in UTC.
    pub(crate) fn from_timestamp(digits: u16, stored: &[u8]) -> Result<DateTime, ValueError> {
        if stored.len() != 4 + fraction_len(digits) {
            return Err(wrong_length("TIMESTAMP", stored));
        }
        let (whole, fraction) = stored.split_at_checked(4).unwrap_or((stored, &[]));
        Ok(DateTime::from_seconds((big_endian(whole) & 0xffff_ffff) as u32, micros(fraction)?))
    }

    /// Reads a DATETIME as MySQL 5.5 stored it: its digits as one number.
    pub(crate) fn from_old_datetime(stored: &[u8]) -> Result<DateTime, ValueError> {
        if stored.len() != 8 {
            return Err(wrong_length("DATETIME", stored));
        }
        let number = little_endian(stored);
        let date = u32::try_from(number / 1_000_000).map_err(|_| ValueError::Invalid { what: "DATETIME" })?;
        let time = (number % 1_000_000) as u32;
        DateTime {
            year: date / 10_000,
            month: date / 100 % 100,
            day: date % 100,
            hour: time / 10_000,
            minute: time / 100 % 100,
            second: time % 100,
            micros: 0,
        }
        .checked("DATETIME")
    }

    /// Time for seconds since 1970 in UTC; 0 is the zero date.
    pub(crate) fn from_seconds(seconds: u32, micros: u32) -> DateTime {
        if seconds == 0 {
            return DateTime { micros, ..DateTime::default() };
        }
        DateTime { micros, ..DateTime::of_days(seconds / DAY_SECONDS + EPOCH_DAYS, seconds % DAY_SECONDS) }
    }

    /// Time for days since 0000-03-01 and the second of the day.
    fn of_days(days: u32, second_of_day: u32) -> DateTime {
        // Years start in March, so that the leap day is the last of its year.
        let (era, day_of_era) = (days / ERA_DAYS, days % ERA_DAYS);
        let year_of_era = (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
        let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let month_from_march = (5 * day_of_year + 2) / 153;
        let month = if month_from_march < 10 { month_from_march + 3 } else { month_from_march - 9 };
        DateTime {
            year: era * 400 + year_of_era + u32::from(month <= 2),
            month,
            day: day_of_year - (153 * month_from_march + 2) / 5 + 1,
            hour: second_of_day / 3600,
            minute: second_of_day / 60 % 60,
            second: second_of_day % 60,
            micros: 0,
        }
    }

    /// True if all fields are zero.
    pub(crate) fn is_zero(&self) -> bool {
        *self == DateTime::default()
    }

    /// Adds seconds; `None` if the day does not exist or the year would have more than four digits.
    pub(crate) fn shifted(self, seconds: i64) -> Option<DateTime> {
        let moved = self.since_march_of_0()? + seconds;
        let (days, of_day) = (moved.div_euclid(i64::from(DAY_SECONDS)), moved.rem_euclid(i64::from(DAY_SECONDS)));
        let (days, of_day) = (u32::try_from(days).ok()?, u32::try_from(of_day).ok()?);
        let moved = DateTime { micros: self.micros, ..DateTime::of_days(days, of_day) };
        (moved.year <= 9999).then_some(moved)
    }

    /// Seconds since 1970, as if it were in UTC; `None` if the day does not exist, or is in the year 0.
    pub(crate) fn since_1970(self) -> Option<i64> {
        Some(self.since_march_of_0()? - i64::from(EPOCH_DAYS) * i64::from(DAY_SECONDS))
    }

    /// Seconds since 0000-03-01.
    fn since_march_of_0(self) -> Option<i64> {
        if !self.is_calendar_day() || self.year == 0 {
            return None;
        }
        let year = i64::from(self.year - u32::from(self.month <= 2));
        let month_from_march = i64::from(if self.month > 2 { self.month - 3 } else { self.month + 9 });
        let of_year = (153 * month_from_march + 2) / 5 + i64::from(self.day) - 1;
        let days = 365 * year + year / 4 - year / 100 + year / 400 + of_year;
        let of_day = i64::from(self.hour * 3600 + self.minute * 60 + self.second);
        Some(days * i64::from(DAY_SECONDS) + of_day)
    }

    /// Adds one second. A day beyond its month counts on into the next one, as in the server's day numbers
    /// (`calc_daynr`). `None` if month or day is 0, and past the year 9999.
    pub(crate) fn next_second(mut self) -> Option<DateTime> {
        if self.month == 0 || self.day == 0 {
            return None;
        }
        let of_day = self.hour * 3600 + self.minute * 60 + self.second + 1;
        self.day += of_day / DAY_SECONDS;
        (self.hour, self.minute, self.second) = (of_day / 3600 % 24, of_day / 60 % 60, of_day % 60);
        let days = self.days_of_month();
        if self.day > days {
            (self.month, self.day) = (self.month + 1, self.day - days);
        }
        if self.month > 12 {
            (self.year, self.month) = (self.year + 1, 1);
        }
        (self.year <= 9999).then_some(self)
    }

    /// True if the date is zero, whatever the time of day.
    pub(crate) fn is_zero_date(&self) -> bool {
        self.year == 0 && self.month == 0 && self.day == 0
    }

    /// True if the day exists.
    pub(crate) fn is_calendar_day(&self) -> bool {
        (1..=self.days_of_month()).contains(&self.day)
    }

    /// Days in the month; 0 if there is no such month. Year 0 is not a leap year (`calc_days_in_year`,
    /// sql-common/my_time.cc).
    fn days_of_month(&self) -> u32 {
        let leap = self.year.is_multiple_of(4) && (!self.year.is_multiple_of(100) || self.year.is_multiple_of(400));
        match self.month {
            4 | 6 | 9 | 11 => 30,
            2 => 28 + u32::from(leap && self.year > 0),
            1..=12 => 31,
            _ => 0,
        }
    }

    /// True if TIMESTAMP can hold this UTC time: 1970-01-01 00:00:01 to 2038-01-19 03:14:07.
    pub(crate) fn is_timestamp(&self) -> bool {
        self.seconds().is_ok_and(|seconds| (1..=i32::MAX as u32).contains(&seconds))
    }

    fn seconds(&self) -> Result<u32, ValueError> {
        let invalid = ValueError::Invalid { what: "TIMESTAMP" };
        if self.is_zero_date() && self.hour == 0 && self.minute == 0 && self.second == 0 {
            return Ok(0);
        }
        if self.year < 1970 || !self.is_calendar_day() {
            return Err(invalid);
        }
        let year = self.year - u32::from(self.month <= 2);
        let (era, year_of_era) = (year / 400, year % 400);
        let month_from_march = if self.month > 2 { self.month - 3 } else { self.month + 9 };
        let day_of_year = (153 * month_from_march + 2) / 5 + self.day - 1;
        let day_of_era = year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
        let days = (era * ERA_DAYS + day_of_era).checked_sub(EPOCH_DAYS).ok_or(invalid.clone())?;
        let of_day = self.hour * 3600 + self.minute * 60 + self.second;
        u32::try_from(u64::from(days) * u64::from(DAY_SECONDS) + u64::from(of_day)).map_err(|_| invalid)
    }

    /// Appends the stored DATE.
    pub(crate) fn push_date(self, out: &mut Vec<u8>) -> Result<(), ValueError> {
        let this = self.checked("DATE")?;
        out.extend((this.year << 9 | this.month << 5 | this.day).to_le_bytes().iter().take(3));
        Ok(())
    }

    /// Appends the stored DATETIME.
    pub(crate) fn push_datetime(self, digits: u16, out: &mut Vec<u8>) -> Result<(), ValueError> {
        let this = self.checked("DATETIME")?;
        let date = u64::from(this.year * 13 + this.month) << 5 | u64::from(this.day);
        let time = u64::from(this.hour << 12 | this.minute << 6 | this.second);
        out.extend((1 << 39 | date << 17 | time).to_be_bytes().iter().skip(3));
        push_fraction(digits, this.micros, out);
        Ok(())
    }

    /// Appends the stored TIMESTAMP of a UTC time.
    pub(crate) fn push_timestamp(self, digits: u16, out: &mut Vec<u8>) -> Result<(), ValueError> {
        let this = self.checked("TIMESTAMP")?;
        out.extend(this.seconds()?.to_be_bytes());
        push_fraction(digits, this.micros, out);
        Ok(())
    }

    /// Appends `YYYY-MM-DD`.
    pub(crate) fn write_date(&self, out: &mut Vec<u8>) {
        push_digits(self.year, 4, out);
        out.push(b'-');
        push_digits(self.month, 2, out);
        out.push(b'-');
        push_digits(self.day, 2, out);
    }

    /// Appends `YYYY-MM-DD hh:mm:ss` with this many fractional digits.
    pub(crate) fn write(&self, digits: u16, out: &mut Vec<u8>) {
        self.write_date(out);
        out.push(b' ');
        write_clock(self.hour, self.minute, self.second, self.micros, digits, out);
    }
}

impl Time {
    fn checked(self) -> Result<Time, ValueError> {
        let good = self.hour <= TIME_HOURS_MAX && self.minute <= 59 && self.second <= 59 && self.micros <= 999_999;
        if good { Ok(self) } else { Err(ValueError::Invalid { what: "TIME" }) }
    }

    /// Reads a stored TIME with this many fractional digits.
    pub(crate) fn from_time(digits: u16, stored: &[u8]) -> Result<Time, ValueError> {
        let fraction = fraction_len(digits);
        if stored.len() != 3 + fraction || stored.len() > 6 {
            return Err(wrong_length("TIME", stored));
        }
        // The bytes are one number; negative times are below its middle.
        let middle = 1i64 << (8 * stored.len() - 1);
        let value = big_endian(stored) as i64 - middle;
        let magnitude = value.unsigned_abs();
        let part = magnitude & ((1 << (8 * fraction)) - 1);
        Time::from_bits(value < 0, magnitude >> (8 * fraction), part * u64::from(fraction_unit(fraction)))
    }

    fn from_bits(negative: bool, bits: u64, micros: u64) -> Result<Time, ValueError> {
        let time = Time {
            negative,
            hour: u32::try_from(bits >> 12).unwrap_or(u32::MAX),
            minute: (bits >> 6 & 63) as u32,
            second: (bits & 63) as u32,
            micros: u32::try_from(micros).unwrap_or(u32::MAX),
        };
        time.checked()
    }

    /// Reads the packed integer of a JSON value.
    pub(crate) fn from_packed(packed: i64) -> Result<Time, ValueError> {
        let magnitude = packed.unsigned_abs();
        Time::from_bits(packed < 0, magnitude >> 24, magnitude & 0xff_ffff)
    }

    /// Reads a TIME as MySQL 5.5 stored it: its digits as one signed number.
    pub(crate) fn from_old_time(stored: &[u8]) -> Result<Time, ValueError> {
        let [a, b, c] = <[u8; 3]>::try_from(stored).map_err(|_| wrong_length("TIME", stored))?;
        let value = i32::from_le_bytes([0, a, b, c]) >> 8;
        let number = value.unsigned_abs();
        let (hour, minute, second) = (number / 10_000, number / 100 % 100, number % 100);
        Time { negative: value < 0, hour, minute, second, micros: 0 }.checked()
    }

    /// Appends the stored TIME.
    pub(crate) fn push(self, digits: u16, out: &mut Vec<u8>) -> Result<(), ValueError> {
        let this = self.checked()?;
        let fraction = fraction_len(digits);
        let bits = u64::from(this.hour << 12 | this.minute << 6 | this.second);
        let part = if fraction == 0 { 0 } else { this.micros / fraction_unit(fraction) };
        let magnitude = (bits << (8 * fraction) | u64::from(part)) as i64;
        let value = if this.negative { -magnitude } else { magnitude };
        let len = 3 + fraction;
        let shifted = value + (1i64 << (8 * len - 1));
        out.extend(shifted.to_be_bytes().iter().skip(8 - len));
        Ok(())
    }

    /// Appends `[-]hh:mm:ss` with this many fractional digits.
    pub(crate) fn write(&self, digits: u16, out: &mut Vec<u8>) {
        if self.negative {
            out.push(b'-');
        }
        write_clock(self.hour, self.minute, self.second, self.micros, digits, out);
    }
}

fn write_clock(hour: u32, minute: u32, second: u32, micros: u32, digits: u16, out: &mut Vec<u8>) {
    push_digits(hour, 2, out);
    out.push(b':');
    push_digits(minute, 2, out);
    out.push(b':');
    push_digits(second, 2, out);
    if digits > 0 {
        out.push(b'.');
        let start = out.len();
        push_digits(micros, 6, out);
        out.truncate(start + usize::from(digits.min(6)));
    }
}

fn push_digits(value: u32, width: usize, out: &mut Vec<u8>) {
    // Writing to a Vec cannot fail.
    let _ = write!(out, "{value:0width$}");
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn datetime(digits: u16, stored: &[u8]) -> String {
        let mut out = Vec::new();
        DateTime::from_datetime(digits, stored).unwrap().write(digits, &mut out);
        String::from_utf8(out).unwrap()
    }

    fn time(digits: u16, stored: &[u8]) -> String {
        let mut out = Vec::new();
        Time::from_time(digits, stored).unwrap().write(digits, &mut out);
        String::from_utf8(out).unwrap()
    }

    #[test]
    fn known_bytes() {
        assert_eq!(datetime(0, &[0x99, 0xa5, 0x44, 0x31, 0x05]), "2020-01-02 03:04:05");
        assert_eq!(datetime(0, &[0x80, 0, 0, 0, 0]), "0000-00-00 00:00:00");
        assert_eq!(time(0, &[0x80, 0, 0]), "00:00:00");
        assert_eq!(time(0, &[0x7f, 0xff, 0xff]), "-00:00:01");
        assert_eq!(time(2, &[0x7f, 0xff, 0xfe, 0xce]), "-00:00:01.50");
        assert_eq!(time(6, &[0x7f, 0xff, 0xff, 0xff, 0xff, 0xff]), "-00:00:00.000001");
        assert_eq!(time(0, &[0xb4, 0x6e, 0xfb]), "838:59:59");
        assert_eq!(time(0, &[0x4b, 0x91, 0x05]), "-838:59:59");
        assert!(DateTime::from_datetime(0, &[0x7f, 0, 0, 0, 0]).is_err());
        assert!(DateTime::from_date(&[0xff, 0xff, 0xff]).is_err());
        assert!(DateTime::from_datetime(2, &[0x80, 0, 0, 0, 0, 100]).is_err());
    }

    #[test]
    fn days_since_the_epoch() {
        let mut out = Vec::new();
        for (seconds, text) in [
            (1, "1970-01-01 00:00:01"),
            (951_782_400, "2000-02-29 00:00:00"),
            (951_868_799, "2000-02-29 23:59:59"),
            (i32::MAX as u32, "2038-01-19 03:14:07"),
            (u32::MAX, "2106-02-07 06:28:15"),
        ] {
            out.clear();
            DateTime::from_seconds(seconds, 0).write(0, &mut out);
            assert_eq!(out, text.as_bytes());
        }
        assert!(DateTime { year: 2021, month: 2, day: 29, ..DateTime::default() }.seconds().is_err());
        assert!(DateTime { year: 9999, month: 2, day: 28, ..DateTime::default() }.seconds().is_err());
    }

    proptest! {
        #[test]
        fn stored_forms_come_back(seconds: u32, micros in 0u32..1_000_000, digits in 0u16..=6, negative: bool, hour in 0u32..=838) {
            let unit = 10u32.pow(6 - u32::from(digits.div_ceil(2) * 2));
            let micros = micros / unit * unit;
            let when = DateTime::from_seconds(seconds, micros);
            let mut out = Vec::new();
            when.push_timestamp(digits, &mut out).unwrap();
            prop_assert_eq!(DateTime::from_timestamp(digits, &out).unwrap(), when);
            out.clear();
            when.push_datetime(digits, &mut out).unwrap();
            prop_assert_eq!(DateTime::from_datetime(digits, &out).unwrap(), when);
            out.clear();
            when.push_date(&mut out).unwrap();
            let date = DateTime { year: when.year, month: when.month, day: when.day, ..DateTime::default() };
            prop_assert_eq!(DateTime::from_date(&out).unwrap(), date);
            let time = Time { negative, hour, minute: when.minute, second: when.second, micros };
            out.clear();
            time.push(digits, &mut out).unwrap();
            let back = Time::from_time(digits, &out).unwrap();
            let zero = hour == 0 && time.minute == 0 && time.second == 0 && micros == 0;
            prop_assert_eq!(back, Time { negative: negative && !zero, ..time });
        }

        #[test]
        fn never_panics(digits in 0u16..10, stored: Vec<u8>, packed: i64) {
            let _ = DateTime::from_date(&stored);
            let _ = DateTime::from_datetime(digits, &stored);
            let _ = DateTime::from_timestamp(digits, &stored);
            let _ = DateTime::from_old_datetime(&stored);
            let _ = Time::from_time(digits, &stored);
            let _ = Time::from_old_time(&stored);
            let _ = DateTime::from_packed(packed);
            let _ = Time::from_packed(packed);
        }
    }
}
