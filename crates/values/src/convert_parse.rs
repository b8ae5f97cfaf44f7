//! Reads numbers, dates and times at the front of text as the server does when it stores text in such a column.
//!
//! In: text whose interesting part is ASCII. Out: the value that the server reads, and whether it would warn. Never
//! here: a column's range, rounding to a column's decimals.
//!
//! Mirrors `my_strntoull10rnd_8bit` and `my_strntoll_8bit` (strings/ctype-simple.cc), `my_strtod` (strings/dtoa.cc),
//! `string2decimal` (strings/decimal.cc), `str_to_datetime` and `str_to_time` (mysys/my_time.cc). Every rule was tried
//! on 9.7.4 (`tests/conversions_server.rs`).

use crate::convert::DateRules;
use crate::temporal::{DateTime, TIME_HOURS_MAX, Time};

/// A value read from text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Read<T> {
    pub(crate) value: T,
    pub(crate) fate: Fate,
}

/// What the server says of the text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fate {
    /// All of it was read, but for spaces around.
    Clean,
    /// Something else follows.
    Cut,
    /// There is no number.
    Nothing,
    /// The number is out of range, and the value is the nearest one.
    Range,
}

/// Most digits that the exponent of a number keeps growing by.
const EXPONENT_MAX: i64 = i32::MAX as i64;

/// Microseconds in the last of this many digits of a fraction.
fn unit_of_digits(digits: usize) -> u32 {
    u32::try_from(digits).ok().and_then(|digits| 6u32.checked_sub(digits)).map_or(1, |zeros| 10u32.pow(zeros))
}

fn is_space(byte: u8) -> bool {
    matches!(byte, b' ' | b'\t'..=b'\r')
}

fn digit(text: &[u8], at: usize) -> Option<u8> {
    text.get(at).filter(|byte| byte.is_ascii_digit()).map(|byte| byte - b'0')
}

fn digits_at(text: &[u8], at: usize) -> usize {
    text.iter().skip(at).take_while(|byte| byte.is_ascii_digit()).count()
}

fn spaces_at(text: &[u8], at: usize) -> usize {
    text.iter().skip(at).take_while(|byte| is_space(**byte)).count()
}

/// Position behind leading spaces and a sign, and whether the sign is a minus; None if nothing follows.
fn sign(text: &[u8]) -> Option<(usize, bool)> {
    let at = spaces_at(text, 0);
    let (at, negative) = match text.get(at)? {
        b'-' => (at + 1, true),
        b'+' => (at + 1, false),
        _ => (at, false),
    };
    (at < text.len()).then_some((at, negative))
}

fn fate_of_rest(text: &[u8], at: usize) -> Fate {
    if at + spaces_at(text, at) == text.len() { Fate::Clean } else { Fate::Cut }
}

const NOTHING: Read<i128> = Read { value: 0, fate: Fate::Nothing };

/// A whole number for an integer column, rounded half up. Negative numbers are out of an unsigned column's range.
pub(crate) fn rounded_integer(text: &[u8], unsigned: bool) -> Read<i128> {
    let Some((start, negative)) = sign(text) else { return NOTHING };
    let (mut at, mut value, mut count) = (start, 0u64, 0u32);
    let mut point: Option<usize> = None;
    // A digit that no longer fits rounds the number up.
    let mut carry = false;
    let mut shift = None;
    while let Some(byte) = text.get(at) {
        let Some(next) = digit(text, at) else {
            if *byte != b'.' || point.is_some() {
                break;
            }
            point = Some(at + 1);
            at += 1;
            continue;
        };
        if let Some(more) = value.checked_mul(10).and_then(|value| value.checked_add(next.into())) {
            (value, count, at) = (more, count + 1, at + 1);
            continue;
        }
        if value == u64::MAX / 10 {
            (value, carry, at) = (u64::MAX, true, at + 1);
        } else {
            carry = next >= 5;
        }
        let more = digits_at(text, at);
        if let Some(point) = point {
            shift = Some(to_i64(point) - to_i64(at));
            at += more;
        } else {
            shift = Some(to_i64(more));
            at += more;
            if text.get(at) == Some(&b'.') {
                at += 1 + digits_at(text, at + 1);
            }
        }
        break;
    }
    if count == 0 {
        return NOTHING;
    }
    let mut shift = shift.unwrap_or_else(|| point.map_or(0, |point| to_i64(point) - to_i64(at)));
    if matches!(text.get(at), Some(b'e' | b'E')) {
        at += 1;
        let down = text.get(at) == Some(&b'-');
        if matches!(text.get(at), Some(b'-' | b'+')) {
            at += 1;
        }
        let mut exponent = 0i64;
        while let Some(next) = digit(text, at) {
            exponent = (exponent * 10 + i64::from(next)).min(EXPONENT_MAX);
            at += 1;
        }
        shift += if down { -exponent } else { exponent };
    }
    let fate = fate_of_rest(text, at);
    match shifted(value, shift, carry) {
        None => {
            let value = match (unsigned, negative) {
                (true, true) => 0,
                (true, false) => u64::MAX.into(),
                (false, true) => i64::MIN.into(),
                (false, false) => i64::MAX.into(),
            };
            Read { value, fate: Fate::Range }
        }
        Some(whole) => {
            let value = if negative { -i128::from(whole) } else { i128::from(whole) };
            let (low, high) =
                if unsigned { (0, u64::MAX.into()) } else { (i128::from(i64::MIN), i128::from(i64::MAX)) };
            let kept = value.clamp(low, high);
            Read { value: kept, fate: if kept == value { fate } else { Fate::Range } }
        }
    }
}

fn to_i64(len: usize) -> i64 {
    i64::try_from(len).unwrap_or(i64::MAX)
}

/// The number times a power of ten, rounded half up; None if it is too large.
fn shifted(value: u64, shift: i64, carry: bool) -> Option<u64> {
    const DIGITS_MAX: i64 = 20;
    if shift == 0 {
        return if carry { value.checked_add(1) } else { Some(value) };
    }
    if shift < 0 {
        if -shift >= DIGITS_MAX {
            return Some(0);
        }
        let unit = 10u64.checked_pow(u32::try_from(-shift).ok()?)?;
        let rest = (value % unit).wrapping_mul(2);
        return Some(value / unit + u64::from(rest >= unit));
    }
    if value == 0 {
        return Some(0);
    }
    value.checked_mul(10u64.checked_pow(u32::try_from(shift).ok()?)?)
}

/// A whole number without rounding: what follows its digits is not looked at.
pub(crate) fn integer(text: &[u8]) -> Read<i128> {
    let Some((start, negative)) = sign(text) else { return NOTHING };
    let count = digits_at(text, start);
    if count == 0 {
        return NOTHING;
    }
    let mut value = 0i128;
    for at in start..start + count {
        value = (value * 10 + i128::from(digit(text, at).unwrap_or(0))).min(i128::from(u64::MAX) + 1);
    }
    let value = if negative { -value } else { value };
    let kept = value.clamp(i64::MIN.into(), i64::MAX.into());
    Read { value: kept, fate: if kept == value { fate_of_rest(text, start + count) } else { Fate::Range } }
}

/// Length of the number at the front: digits, a point, an exponent. 0 without digits.
fn number_len(text: &[u8], from: usize) -> usize {
    let whole = digits_at(text, from);
    let mut end = from + whole;
    let mut fraction = 0;
    if text.get(end) == Some(&b'.') {
        fraction = digits_at(text, end + 1);
        end += 1 + fraction;
    }
    if whole + fraction == 0 {
        return 0;
    }
    if matches!(text.get(end), Some(b'e' | b'E')) {
        let sign = usize::from(matches!(text.get(end + 1), Some(b'-' | b'+')));
        let exponent = digits_at(text, end + 1 + sign);
        if exponent > 0 {
            end += 1 + sign + exponent;
        }
    }
    end - from
}

/// A floating-point number.
pub(crate) fn double(text: &[u8]) -> Read<f64> {
    let nothing = Read { value: 0.0, fate: Fate::Nothing };
    let Some((start, negative)) = sign(text) else { return nothing };
    let len = number_len(text, start);
    let number = text.get(start..start + len).and_then(|number| std::str::from_utf8(number).ok()).unwrap_or_default();
    // A point alone is no number to Rust.
    let Ok(value) = number.parse::<f64>() else { return nothing };
    let fate = fate_of_rest(text, start + len);
    let (value, fate) = if value.is_finite() { (value, fate) } else { (f64::MAX, Fate::Range) };
    Read { value: if negative { -value } else { value }, fate }
}

/// A decimal number as plain digits with a point. None where more digits than the server keeps would decide.
pub(crate) fn decimal(text: &[u8]) -> Option<Read<Vec<u8>>> {
    /// Digits before or after the point that are certain to be kept.
    const KEPT: usize = 70;
    let nothing = Read { value: b"0".to_vec(), fate: Fate::Nothing };
    let Some((start, negative)) = sign(text) else { return Some(nothing) };
    let len = number_len(text, start);
    if len == 0 {
        return Some(nothing);
    }
    let number = text.get(start..start + len)?;
    let fate = fate_of_rest(text, start + len);
    let (mantissa, exponent) = match number.iter().position(|byte| matches!(byte, b'e' | b'E')) {
        Some(at) => {
            let exponent = std::str::from_utf8(number.get(at + 1..)?).ok()?.parse::<i32>().ok()?;
            (number.get(..at)?, exponent)
        }
        None => (number, 0),
    };
    let point = mantissa.iter().position(|byte| *byte == b'.').unwrap_or(mantissa.len());
    let digits: Vec<u8> = mantissa.iter().copied().filter(u8::is_ascii_digit).collect();
    let zeros = digits.iter().take_while(|digit| **digit == b'0').count();
    let significant = digits.get(zeros..).unwrap_or_default();
    let last = significant.iter().rposition(|digit| *digit != b'0').map_or(0, |last| last + 1);
    let significant = significant.get(..last)?;
    let mut plain = if negative && !significant.is_empty() { b"-".to_vec() } else { Vec::new() };
    if significant.is_empty() {
        return Some(Read { value: b"0".to_vec(), fate });
    }
    // Digits before the point; negative for zeros after it.
    let whole = to_i64(point) - to_i64(zeros) + i64::from(exponent);
    if whole > to_i64(KEPT) {
        // Larger than any column.
        plain.resize(plain.len() + KEPT + 1, b'9');
        return Some(Read { value: plain, fate: Fate::Range });
    }
    if whole < -to_i64(KEPT) {
        return Some(Read { value: b"0".to_vec(), fate });
    }
    if significant.len() > KEPT {
        return None;
    }
    let at = usize::try_from(whole).unwrap_or(0);
    if at == 0 {
        plain.extend_from_slice(b"0.");
        plain.resize(plain.len() + usize::try_from(-whole).unwrap_or(0), b'0');
        plain.extend_from_slice(significant);
    } else if at >= significant.len() {
        plain.extend_from_slice(significant);
        plain.resize(plain.len() + at - significant.len(), b'0');
    } else {
        let (front, rest) = significant.split_at_checked(at)?;
        plain.extend_from_slice(front);
        plain.push(b'.');
        plain.extend_from_slice(rest);
    }
    Some(Read { value: plain, fate })
}

/// Result of reading a date.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum DateRead {
    /// No date at all; it may be a time.
    NotOne,
    /// A date that does not exist or is not accepted.
    Wrong,
    Is(ReadDate),
}

/// A date read from text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct ReadDate {
    pub(crate) value: DateTime,
    /// Nanoseconds beyond the microseconds.
    pub(crate) nanos: u32,
    /// Seconds east of UTC, if the text says so.
    pub(crate) displacement: Option<i32>,
    /// Nothing but spaces follows.
    pub(crate) clean: bool,
}

/// Seconds east of UTC in `+hh:mm`, which only spaces may follow.
fn displacement(text: &[u8]) -> Option<i32> {
    let [sign @ (b'+' | b'-'), h1, h2, b':', m1, m2, rest @ ..] = text else { return None };
    let number = |tens: &u8, ones: &u8| {
        let digits = tens.is_ascii_digit() && ones.is_ascii_digit();
        digits.then(|| i32::from(tens - b'0') * 10 + i32::from(ones - b'0'))
    };
    let (hours, minutes) = (number(h1, h2)?, number(m1, m2)?);
    let seconds = hours * 3600 + minutes * 60;
    let negative = *sign == b'-';
    let good = minutes < 60 && seconds <= 14 * 3600 && !(negative && seconds == 0) && rest.iter().all(|b| is_space(*b));
    good.then_some(if negative { -seconds } else { seconds })
}

/// Reads a date, with a time of day or without. `with_time`: a date with delimiters must have a space in it.
pub(crate) fn date(text: &[u8], rules: DateRules, with_time: bool) -> DateRead {
    let mut at = spaces_at(text, 0);
    if digit(text, at).is_none() {
        return DateRead::NotOne;
    }
    let front = text.iter().skip(at).take_while(|byte| byte.is_ascii_digit() || **byte == b'T').count();
    // Without delimiters every field has its width.
    let dense = matches!(text.get(at + front), None | Some(b'.'));
    let mut year_len = if matches!(front, 4 | 8) || front >= 14 { 4 } else { 2 };
    let mut width = if dense { year_len } else { 4 };
    let (mut parts, mut lens) = ([0u32; 8], [0usize; 8]);
    let (mut field, mut behind) = (0, at);
    let (mut delimited, mut spaced, mut offset) = (false, false, None);
    while let (Some(_), true) = (digit(text, at), field < 7) {
        let start = at;
        let free = !dense && field != 6;
        let (mut value, mut left) = (0u32, width);
        while let Some(next) = digit(text, at) {
            if at > start && !free {
                left -= 1;
                if left == 0 {
                    break;
                }
            }
            value = value * 10 + u32::from(next);
            at += 1;
            if value > 999_999 {
                return DateRead::NotOne;
            }
        }
        if let (Some(part), Some(len)) = (parts.get_mut(field), lens.get_mut(field)) {
            (*part, *len) = (value, at - start);
        }
        width = 2;
        behind = at;
        let Some(byte) = text.get(at).copied() else {
            field += 1;
            break;
        };
        if field == 2 && byte == b'T' {
            (at, field) = (at + 1, 3);
            continue;
        }
        if field == 5 {
            field = 6;
            match byte {
                b'.' => {
                    at += 1;
                    (behind, width) = (at, 6);
                }
                b'0'..=b'9' => break,
                b'+' | b'-' => match displacement(text.get(at..).unwrap_or_default()) {
                    Some(seconds) => {
                        offset = Some(seconds);
                        at = text.len();
                        behind = at;
                    }
                    None => return DateRead::NotOne,
                },
                _ => {}
            }
            continue;
        }
        if field == 6 && matches!(byte, b'+' | b'-') {
            match displacement(text.get(at..).unwrap_or_default()) {
                Some(seconds) => {
                    offset = Some(seconds);
                    at = text.len();
                }
                None => return DateRead::NotOne,
            }
        }
        while let Some(byte) = text.get(at).filter(|byte| byte.is_ascii_punctuation() || is_space(**byte)) {
            if is_space(*byte) {
                if field != 2 && field != 6 {
                    return DateRead::NotOne;
                }
                spaced = true;
            }
            delimited = true;
            at += 1;
        }
        // The place of AM and PM is passed over.
        field += if field == 6 { 2 } else { 1 };
        behind = at;
    }
    if delimited && !spaced && with_time {
        return DateRead::NotOne;
    }
    if !dense {
        [year_len, ..] = lens;
    }
    let [year, month, day, hour, minute, second, fraction, _] = parts;
    let [.., fraction_len, _] = lens;
    let micros = fraction * unit_of_digits(fraction_len);
    let zero = parts.iter().all(|part| *part == 0);
    let year = match year_len {
        2 if !zero => year + if year < 70 { 2000 } else { 1900 },
        _ => year,
    };
    let value = DateTime { year, month, day, hour, minute, second, micros };
    let in_range = year <= 9999 && month <= 12 && day <= 31 && hour <= 23 && minute <= 59 && second <= 59;
    if field < 3 || !in_range || !(zero || rules.take(&value)) {
        return DateRead::Wrong;
    }
    let mut nanos = 0;
    if fraction_len == 6
        && let Some(next) = digit(text, behind)
    {
        nanos = 100 * u32::from(next);
        behind += digits_at(text, behind);
    }
    if matches!(text.get(behind), Some(b'+' | b'-')) {
        match displacement(text.get(behind..).unwrap_or_default()) {
            Some(seconds) => {
                return DateRead::Is(ReadDate { value, nanos, displacement: Some(seconds), clean: true });
            }
            None => return DateRead::NotOne,
        }
    }
    DateRead::Is(ReadDate { value, nanos, displacement: offset, clean: fate_of_rest(text, behind) == Fate::Clean })
}

/// Result of reading a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum TimeRead {
    /// No time, or one whose minutes or seconds do not exist.
    Wrong,
    /// No time either, but the server does not say so: the value is zero even in strict mode.
    Nothing,
    /// A date with a time of day and a displacement, whose result is unknown.
    Displaced,
    Is {
        value: Time,
        nanos: u32,
        clean: bool,
    },
}

/// Reads a time, or the time of day of a date.
pub(crate) fn time(text: &[u8]) -> TimeRead {
    /// Shortest text that may be a date with a time of day.
    const DATE_LEN_MIN: usize = 12;
    let mut at = spaces_at(text, 0);
    let negative = text.get(at) == Some(&b'-');
    at += usize::from(negative);
    let text = text.get(at..).unwrap_or_default();
    if text.is_empty() {
        return TimeRead::Nothing;
    }
    if text.len() >= DATE_LEN_MIN {
        let rules = DateRules { day_must_exist: true, no_zero_in_date: false };
        match date(text, rules, true) {
            DateRead::NotOne => {}
            DateRead::Wrong => return TimeRead::Wrong,
            DateRead::Is(ReadDate { displacement: Some(_), .. }) => return TimeRead::Displaced,
            DateRead::Is(ReadDate { value, nanos, clean, .. }) => {
                let DateTime { hour, minute, second, micros, .. } = value;
                return TimeRead::Is { value: Time { negative: false, hour, minute, second, micros }, nanos, clean };
            }
        }
    }
    clock(text, negative)
}

/// Reads `[days ][hh:]mm…` or digits, behind the sign.
fn clock(text: &[u8], negative: bool) -> TimeRead {
    let number = |at: &mut usize| {
        let mut value = 0u64;
        while let Some(next) = digit(text, *at) {
            value = value.wrapping_mul(10).wrapping_add(next.into());
            *at += 1;
        }
        value
    };
    let mut at = 0;
    let first = number(&mut at);
    if first > u64::from(u32::MAX) {
        return TimeRead::Nothing;
    }
    let spaces = spaces_at(text, at);
    at += spaces;
    // Days, hours, minutes, seconds.
    let mut parts = [0u64; 4];
    let mut place = 0;
    if text.len() - at > 1 && spaces > 0 && digit(text, at).is_some() {
        (parts[0], place) = (first, 1);
    } else if text.get(at) == Some(&b':') && digit(text, at + 1).is_some() {
        (parts[1], place) = (first, 2);
        at += 1;
    } else {
        parts = [0, first / 10_000, first / 100 % 100, first % 100];
    }
    while place > 0 {
        let value = number(&mut at);
        if let Some(part) = parts.get_mut(place) {
            *part = value;
        }
        place += 1;
        if place == 4 || text.get(at) != Some(&b':') || digit(text, at + 1).is_none() {
            break;
        }
        at += 1;
    }
    let (mut micros, mut nanos) = (0, 0);
    if text.get(at) == Some(&b'.') {
        let len = digits_at(text, at + 1);
        if len > 0 {
            for place in 0..len.min(6) {
                micros = micros * 10 + u32::from(digit(text, at + 1 + place).unwrap_or(0));
            }
            micros *= unit_of_digits(len);
            at += 1 + len;
            // The last digit, not the seventh, decides (seen on 9.7.4).
            nanos = if len > 6 { 100 * u32::from(digit(text, at - 1).unwrap_or(0)) } else { 0 };
        } else if text.len() - at == 1 {
            at += 1;
        }
    }
    let exponent = matches!(text.get(at), Some(b'e' | b'E'))
        && (digit(text, at + 1).is_some()
            || matches!(text.get(at + 1), Some(b'-' | b'+')) && digit(text, at + 2).is_some());
    if exponent || parts.iter().any(|part| *part > u64::from(u32::MAX)) {
        return TimeRead::Nothing;
    }
    // Hours wrap in the server's 32 bits.
    #[allow(clippy::cast_possible_truncation, reason = "none is above 32 bits but the hours, which wrap")]
    let [hour, minute, second] = [parts[1] + parts[0] * 24, parts[2], parts[3]].map(|part| part as u32);
    if minute > 59 || second > 59 || at == 0 && spaces == 0 {
        return TimeRead::Wrong;
    }
    let clean = fate_of_rest(text, at) == Fate::Clean;
    if hour > TIME_HOURS_MAX || (hour == TIME_HOURS_MAX && minute == 59 && second == 59 && micros > 0) {
        let value = Time { negative, hour: TIME_HOURS_MAX, minute: 59, second: 59, micros: 0 };
        return TimeRead::Is { value, nanos: 0, clean: false };
    }
    TimeRead::Is { value: Time { negative, hour, minute, second, micros }, nanos, clean }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn numbers_as_a_server_read_them() {
        for (text, value, fate) in [
            ("12", 12, Fate::Clean),
            (" \t12 ", 12, Fate::Clean),
            ("1.5", 2, Fate::Clean),
            ("-2.5", -3, Fate::Clean),
            (".5", 1, Fate::Clean),
            ("15e-1", 2, Fate::Clean),
            ("1e+", 1, Fate::Clean),
            ("1e-400", 0, Fate::Clean),
            ("12abc", 12, Fate::Cut),
            ("1.5.5", 2, Fate::Cut),
            ("", 0, Fate::Nothing),
            (".", 0, Fate::Nothing),
            ("-", 0, Fate::Nothing),
            ("e2", 0, Fate::Nothing),
            ("1e19", i64::MAX.into(), Fate::Range),
            ("-9223372036854775809", i64::MIN.into(), Fate::Range),
        ] {
            assert_eq!(rounded_integer(text.as_bytes(), false), Read { value, fate }, "{text}");
        }
        assert_eq!(rounded_integer(b"18446744073709551615", true).value, u64::MAX.into());
        assert_eq!(rounded_integer(b"-1e400", true), Read { value: 0, fate: Fate::Range });
        for (text, value, fate) in
            [("1.5e2x", 150.0, Fate::Cut), ("1e400", f64::MAX, Fate::Range), ("1e", 1.0, Fate::Cut)]
        {
            assert_eq!(double(text.as_bytes()), Read { value, fate }, "{text}");
        }
        for (text, plain) in [("12.50", "12.5"), ("-1e3", "-1000"), ("15e-4", "0.0015"), ("-0.0", "0"), ("x", "0")] {
            assert_eq!(decimal(text.as_bytes()).unwrap().value, plain.as_bytes(), "{text}");
        }
        assert_eq!(decimal(&[b"0.".as_slice(), &[b'7'; 71]].concat()), None);
        assert_eq!(decimal(&[b'7'; 71]).unwrap().fate, Fate::Range);
    }

    #[test]
    fn dates_and_times_as_a_server_read_them() {
        let day = |year, month, day| DateTime { year, month, day, ..DateTime::default() };
        let read = |text: &str| match date(text.as_bytes(), DateRules::default(), false) {
            DateRead::Is(read) => Some((read.value, read.clean)),
            DateRead::Wrong | DateRead::NotOne => None,
        };
        for (text, value) in [
            ("2024-02-29", day(2024, 2, 29)),
            ("69-1-1", day(2069, 1, 1)),
            ("700101", day(1970, 1, 1)),
            ("20240229", day(2024, 2, 29)),
            ("2024/02.29", day(2024, 2, 29)),
            ("20240229T102030", DateTime { hour: 10, minute: 20, second: 30, ..day(2024, 2, 29) }),
            ("240229102030.25", DateTime { hour: 10, minute: 20, second: 30, micros: 250_000, ..day(2024, 2, 29) }),
        ] {
            assert_eq!(read(text), Some((value, true)), "{text}");
        }
        assert_eq!(read("2024-02-29x"), Some((day(2024, 2, 29), false)));
        for text in ["", "x", "2024-02", "2024-13-01", "2024-02-29 24:00:00", "1234567-1-1"] {
            assert_eq!(read(text), None, "{text}");
        }
        let read = |text: &str| match time(text.as_bytes()) {
            TimeRead::Is { value, .. } => {
                let mut shown = Vec::new();
                value.write(6, &mut shown);
                String::from_utf8(shown).unwrap()
            }
            other => format!("{other:?}"),
        };
        for (text, value) in [
            ("10:20", "10:20:00.000000"),
            ("1020", "00:10:20.000000"),
            ("-1 10", "-34:00:00.000000"),
            ("10:20:30.1234567", "10:20:30.123456"),
            ("839:00:00", "838:59:59.000000"),
            ("2024-02-29 10:20:30", "10:20:30.000000"),
            ("10:60:00", "Wrong"),
            ("x", "Wrong"),
            ("", "Nothing"),
            ("1e2", "Nothing"),
        ] {
            assert_eq!(read(text), value, "{text}");
        }
    }

    proptest! {
        #[test]
        fn never_panics(text in "[-+.:eET0-9 /x]{0,40}", bytes: Vec<u8>, unsigned: bool) {
            for text in [text.as_bytes(), bytes.as_slice()] {
                let _ = (rounded_integer(text, unsigned), integer(text), double(text), decimal(text));
                let _ = (date(text, DateRules::default(), unsigned), time(text));
            }
        }
    }
}
