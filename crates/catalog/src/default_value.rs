//! Conversion of DEFAULT literals to the bytes of a row image.
//!
//! In: a column's type and a literal. Out: its stored bytes, length prefix included, or `None` if the server's
//! conversion is not reproduced exactly here; such a default is kept as text and never guessed. Never here:
//! expressions.

use values::convert::{Conversion, ConvertOptions, DateRules};
use values::sort_key::{SortKeyColumn, SortKeyPlan};
use values::text::{TextOptions, write_text};
use values::{ColumnType, TypedValue, UtcMoment, Zone};

use crate::charset;
use crate::sql_mode;
use crate::syntax::Literal;
use crate::table::{Column, ColumnDefault, code};

/// What the conversion of a literal depends on besides the type.
#[derive(Debug, Clone, Copy)]
pub(crate) struct LiteralScope<'a> {
    /// M and D of FLOAT(M,D) and DOUBLE(M,D).
    pub(crate) decimals: Option<(u8, u8)>,
    /// The session's `time_zone`.
    pub(crate) time_zone: Option<&'a str>,
    /// True if `sql_mode` has TIME_TRUNCATE_FRACTIONAL.
    pub(crate) truncate_fraction: bool,
}

/// Image of `literal` (not NULL) in a column of type `ty`.
pub(crate) fn image(ty: &ColumnType, literal: &Literal, scope: LiteralScope<'_>) -> Option<Vec<u8>> {
    plain_image(ty, literal, scope).or_else(|| converted(ty, literal, scope))
}

/// Image of a literal as an INSERT of it stores it. The server takes no default that it would warn of.
fn converted(ty: &ColumnType, literal: &Literal, scope: LiteralScope<'_>) -> Option<Vec<u8>> {
    if matches!(ty.code, code::CHAR | code::VARCHAR) || ty.code == code::BIT && matches!(literal, Literal::Text(_)) {
        return None;
    }
    // A number that is no date is none by another reading of its digits either.
    if is_date(ty) && matches!(literal, Literal::Number(_)) {
        return None;
    }
    let (from, stored) = stored_literal(ty, literal)?;
    let offset = scope.time_zone.and_then(offset_seconds);
    let options = ConvertOptions {
        strict: true,
        truncate_fraction: scope.truncate_fraction,
        // A text that names its own offset is the same moment everywhere.
        offset_seconds: offset.or_else(|| (ty.code == code::TIMESTAMP2 && names_offset(literal)).then_some(0)),
        to_decimals: scope.decimals,
        ..ConvertOptions::default()
    };
    let mut image = Vec::new();
    Conversion::new(&from, ty, options).ok()?.append(&stored, &mut image).ok()?;
    Some(image)
}

/// A literal as a value of its own type, for a column of type `ty`.
fn stored_literal(ty: &ColumnType, literal: &Literal) -> Option<(ColumnType, Vec<u8>)> {
    let whole = |unsigned, bytes: [u8; 8]| {
        Some((ColumnType { unsigned, ..ColumnType::new(code::LONGLONG, 0) }, bytes.to_vec()))
    };
    match literal {
        Literal::Null => None,
        Literal::Bool(value) => whole(false, i64::from(*value).to_le_bytes()),
        Literal::Text(text) => stored_text(&charset::to_unicode(&text.bytes, &text.charset).ok()?),
        // A number only where one is wanted.
        Literal::Bytes(bytes) if is_temporal(ty) || matches!(ty.code, code::ENUM | code::SET) => {
            stored_text(std::str::from_utf8(bytes).ok()?)
        }
        Literal::Bytes(bytes) if bytes.len() <= 8 => whole(true, big_endian(bytes).to_le_bytes()),
        Literal::Bytes(_) => None,
        Literal::Number(number) if number.contains(['e', 'E']) => {
            let value = number.parse::<f64>().ok().filter(|value| value.is_finite())?;
            Some((ColumnType::new(code::DOUBLE, 8), value.to_le_bytes().to_vec()))
        }
        Literal::Number(number) => match (number.parse::<i64>(), number.parse::<u64>()) {
            (Ok(number), _) => whole(false, number.to_le_bytes()),
            (_, Ok(number)) => whole(true, number.to_le_bytes()),
            _ => {
                let (_, digits, fraction) = decimal_parts(number)?;
                let scale = u16::try_from(fraction.len()).ok().filter(|scale| *scale <= 30)?;
                let precision = u16::try_from(digits.len()).ok()?.checked_add(scale).filter(|all| *all <= 65)?;
                let from = ColumnType::new(code::DECIMAL, precision << 8 | scale);
                let stored = decimal(&from, number)?;
                Some((from, stored))
            }
        },
    }
}

fn stored_text(text: &str) -> Option<(ColumnType, Vec<u8>)> {
    /// utf8mb4_0900_ai_ci.
    const UTF8: u16 = 255;
    let mut stored = u16::try_from(text.len()).ok()?.to_le_bytes().to_vec();
    stored.extend_from_slice(text.as_bytes());
    Some((ColumnType { collation: UTF8, ..ColumnType::new(code::VARCHAR, u16::MAX) }, stored))
}

fn is_temporal(ty: &ColumnType) -> bool {
    is_date(ty) || ty.code == code::TIME2
}

fn is_date(ty: &ColumnType) -> bool {
    matches!(ty.code, code::DATE | code::DATETIME2 | code::TIMESTAMP2)
}

/// True for text such as `2024-01-02 03:04:05+02:00`.
fn names_offset(literal: &Literal) -> bool {
    let Literal::Text(text) = literal else { return false };
    let tail = text.bytes.trim_ascii_end().last_chunk::<6>();
    tail.is_some_and(|tail| matches!(tail, [b'+' | b'-', _, _, b':', _, _]))
}

/// The text of a constant DEFAULT of a TIMESTAMP in a session whose time zone has rules that are not in the log: the
/// local time as the source rounds it. None for other columns and literals.
pub(crate) fn local_text(ty: &ColumnType, literal: &Literal, scope: LiteralScope<'_>) -> Option<String> {
    if ty.code != code::TIMESTAMP2 || scope.time_zone.is_none_or(|zone| offset_seconds(zone).is_some()) {
        return None;
    }
    let local = ColumnType { code: code::DATETIME2, ..ty.clone() };
    let image = image(&local, literal, scope).filter(|_| !names_offset(literal))?;
    let mut out = b"'".to_vec();
    write_text(&local, &image, TextOptions::default(), &mut out).ok()?;
    out.push(b'\'');
    String::from_utf8(out).ok()
}

/// Image of what [`local_text`] wrote, once the zone is known; None for a local time that the zone does not have once.
pub(crate) fn of_local_text(ty: &ColumnType, text: &str, zone: &Zone) -> Option<Vec<u8>> {
    let text = text.strip_prefix('\'')?.strip_suffix('\'')?;
    let (date, (h, m, s, micros)) = date_time(text)?;
    let local = days_from_epoch(date)? * 86_400 + i64::try_from(h * 3600 + m * 60 + s).ok()?;
    let UtcMoment::At(utc) = zone.moment(local) else { return None };
    let mut image = u32::try_from(utc).ok().filter(|utc| *utc > 0)?.to_be_bytes().to_vec();
    image.extend(fraction_bytes(micros, ty.meta)?);
    Some(image)
}

fn plain_image(ty: &ColumnType, literal: &Literal, scope: LiteralScope<'_>) -> Option<Vec<u8>> {
    match ty.code {
        code::TINY | code::SHORT | code::INT24 | code::LONG | code::LONGLONG => integer(ty, literal),
        code::FLOAT | code::DOUBLE => float(ty, literal, scope),
        code::DECIMAL => decimal(ty, &plain_number(&number_text(literal)?)?),
        code::YEAR => year(literal).map(|byte| vec![byte]),
        code::DATE => {
            // The time of day is rounded to whole seconds before it is dropped.
            let (date, time) = date_time(&date_text(literal)?)?;
            Some(date_image(rounded(date, time, 0, scope.truncate_fraction)?.0))
        }
        code::DATETIME2 => {
            let (date, time) = date_time(&date_text(literal)?)?;
            let (date, time) = rounded(date, time, ty.meta, scope.truncate_fraction)?;
            datetime_image(ty, date, time)
        }
        code::TIMESTAMP2 => timestamp(ty, &date_text(literal)?, scope),
        code::TIME2 => time(ty, &temporal_text(literal)?, scope.truncate_fraction),
        code::BIT => bit(ty, literal),
        code::ENUM => enumeration(ty, literal),
        code::SET => set(ty, literal),
        code::CHAR | code::VARCHAR => text(ty, literal),
        _ => None,
    }
}

/// Value of a NOT NULL column without DEFAULT, where sql_mode allows an INSERT to omit it. None if there is none.
pub(crate) fn implicit(ty: &ColumnType) -> Option<Vec<u8>> {
    Some(match ty.code {
        code::DECIMAL => decimal(ty, "0")?,
        code::ENUM => number_image(1, usize::from(ty.meta)),
        code::DATETIME2 => datetime_image(ty, (0, 0, 0), (0, 0, 0, 0))?,
        code::TIME2 => time(ty, "00:00:00", false)?,
        code::GEOMETRY => return None,
        _ => match ty.fixed_len() {
            Some(len) => vec![0; len],
            None => vec![0; ty.prefix_len()],
        },
    })
}

/// A literal as digits or text.
fn number_text(literal: &Literal) -> Option<String> {
    match literal {
        Literal::Number(text) => Some(text.clone()),
        Literal::Text(text) => Some(charset::to_unicode(&text.bytes, &text.charset).ok()?.trim().to_owned()),
        Literal::Bool(value) => Some(u8::from(*value).to_string()),
        Literal::Bytes(bytes) if bytes.len() <= 8 => Some(big_endian(bytes).to_string()),
        Literal::Bytes(_) | Literal::Null => None,
    }
}

/// A literal as the text of a date or time, which hexadecimal is as well.
fn temporal_text(literal: &Literal) -> Option<String> {
    match literal {
        Literal::Bytes(bytes) => String::from_utf8(bytes.trim_ascii().to_vec()).ok(),
        other => number_text(other),
    }
}

/// A literal as the text of a date. Of a number the source completes the century, and the time of day.
fn date_text(literal: &Literal) -> Option<String> {
    let Literal::Number(number) = literal else { return temporal_text(literal) };
    let (negative, digits, fraction) = plain_number(number).as_deref().and_then(decimal_parts_owned)?;
    let number = digits.parse::<u64>().ok().filter(|number| !negative || *number == 0)?;
    let full = match number {
        0 => return Some("0".to_owned()),
        101..=691_231 => (number + 20_000_000) * 1_000_000,
        700_101..=991_231 => (number + 19_000_000) * 1_000_000,
        991_232..=99_991_231 => number * 1_000_000,
        101_000_000..=691_231_235_959 => number + 20_000_000_000_000,
        700_101_000_000..=991_231_235_959 => number + 19_000_000_000_000,
        10_000_101_000_000.. => number,
        _ => return None,
    };
    let digits = format!("{full:014}");
    let (date, time) = digits.split_at_checked(8)?;
    let [(year, month_day), (hour, rest)] = [date.split_at_checked(4)?, time.split_at_checked(2)?];
    let [(month, day), (minute, second)] = [month_day.split_at_checked(2)?, rest.split_at_checked(2)?];
    let point = if fraction.is_empty() { "" } else { "." };
    // More digits than of a microsecond are not rounded here.
    (fraction.len() <= 6).then(|| format!("{year}-{month}-{day} {hour}:{minute}:{second}{point}{fraction}"))
}

fn decimal_parts_owned(text: &str) -> Option<(bool, String, String)> {
    decimal_parts(text).map(|(negative, whole, fraction)| (negative, whole, fraction.to_owned()))
}

fn big_endian(bytes: &[u8]) -> u64 {
    bytes.iter().fold(0, |value, byte| value << 8 | u64::from(*byte))
}

/// The low `len` bytes of a number, little-endian.
fn number_image(value: u64, len: usize) -> Vec<u8> {
    value.to_le_bytes().into_iter().take(len).collect()
}

/// A number rewritten without exponent. With an exponent the server makes it a double, so only digits that a double
/// surely holds exactly are accepted.
fn plain_number(text: &str) -> Option<String> {
    let Some((mantissa, exponent)) = text.split_once(['e', 'E']) else { return Some(text.to_owned()) };
    let exponent = exponent.parse::<i32>().ok().filter(|exponent| exponent.abs() <= EXPONENT_MAX)?;
    let (negative, whole, fraction) = decimal_parts(mantissa)?;
    let digits = [whole.as_str(), fraction].concat();
    if digits.trim_matches('0').len() > EXACT_DIGITS {
        return None;
    }
    let point = i32::try_from(whole.len()).ok()? + exponent;
    let sign = if negative { "-" } else { "" };
    let point_at = usize::try_from(point.max(0)).ok()?;
    let mut digits = "0".repeat(usize::try_from((-point).max(0)).ok()?) + &digits;
    digits.push_str(&"0".repeat(point_at.saturating_sub(digits.len())));
    let (whole, fraction) = digits.split_at_checked(point_at)?;
    Some(format!("{sign}{}.{fraction}", if whole.is_empty() { "0" } else { whole }))
}

/// Number of significant digits that a double always holds exactly (DBL_DIG).
const EXACT_DIGITS: usize = 15;
/// Larger exponents exceed every DECIMAL and integer.
const EXPONENT_MAX: i32 = 100;

fn integer(ty: &ColumnType, literal: &Literal) -> Option<Vec<u8>> {
    let written = number_text(literal)?;
    let text = plain_number(&written)?;
    let (negative, digits, fraction) = decimal_parts(&text)?;
    if text != written && fraction.bytes().any(|digit| digit != b'0') {
        // A double rounds half to even, but a decimal half away from zero.
        return None;
    }
    let mut value = digits.parse::<i128>().ok()?;
    if fraction.bytes().next().is_some_and(|digit| digit >= b'5') {
        value += 1;
    }
    if negative {
        value = -value;
    }
    let bits = 8 * u32::try_from(ty.fixed_len()?).ok()?;
    let range = if ty.unsigned { 0..1i128 << bits } else { -(1i128 << (bits - 1))..1i128 << (bits - 1) };
    range.contains(&value).then(|| number_image(value as u64, ty.fixed_len().unwrap_or(0)))
}

/// Sign, digits before the point (at least one, without leading zeros) and digits after it. No exponent.
fn decimal_parts(text: &str) -> Option<(bool, String, &str)> {
    let (negative, rest) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text.strip_prefix('+').unwrap_or(text)),
    };
    let (whole, fraction) = rest.split_once('.').unwrap_or((rest, ""));
    let digits = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
    if !digits(whole) || !digits(fraction) || (whole.is_empty() && fraction.is_empty()) {
        return None;
    }
    let whole = whole.trim_start_matches('0');
    Some((negative, if whole.is_empty() { "0".to_owned() } else { whole.to_owned() }, fraction))
}

fn float(ty: &ColumnType, literal: &Literal, scope: LiteralScope<'_>) -> Option<Vec<u8>> {
    // The server rounds to so many decimals, which may change the last bit of a number that has no more.
    if scope.decimals.is_some() {
        return None;
    }
    let text = number_text(literal)?;
    if !text.bytes().all(|byte| byte.is_ascii_digit() || b"+-.eE".contains(&byte)) {
        return None;
    }
    let value = text.parse::<f64>().ok().filter(|value| value.is_finite())?;
    if ty.unsigned && value < 0.0 {
        return None;
    }
    // A number without an exponent is a DECIMAL, whose zero has no sign.
    let is_decimal = matches!(literal, Literal::Number(_)) && decimal_parts(&text).is_some();
    let value = if value == 0.0 && is_decimal { 0.0 } else { value };
    if ty.code == code::DOUBLE {
        return Some(value.to_le_bytes().to_vec());
    }
    let value = value as f32;
    value.is_finite().then(|| value.to_le_bytes().to_vec())
}

/// Bytes that N decimal digits take in a DECIMAL, for N from 0 to 9.
const DIGIT_BYTES: [usize; 10] = [0, 1, 1, 2, 2, 3, 3, 4, 4, 4];

/// A DECIMAL as stored: groups of nine digits, big-endian, first bit inverted, all bits inverted if negative
/// (strings/decimal.cc). Digits beyond the scale are rounded half away from zero.
fn decimal(ty: &ColumnType, text: &str) -> Option<Vec<u8>> {
    let (negative, whole, fraction) = decimal_parts(text)?;
    let [precision, scale] = ty.meta.to_be_bytes().map(usize::from);
    let whole_len = precision.checked_sub(scale)?;
    let whole = if whole == "0" { "" } else { whole.as_str() };
    // One extra digit in front for the carry of rounding.
    let mut digits: Vec<u8> = vec![0; (whole_len + 1).checked_sub(whole.len())?];
    digits.extend(whole.bytes().chain(fraction.bytes()).map(|digit| digit - b'0'));
    digits.resize(digits.len().max(whole_len + 1 + scale), 0);
    let round_up = digits.get(whole_len + 1 + scale).is_some_and(|digit| *digit >= 5);
    digits.truncate(whole_len + 1 + scale);
    if round_up {
        for digit in digits.iter_mut().rev() {
            *digit += 1;
            if *digit < 10 {
                break;
            }
            *digit = 0;
        }
    }
    let (carry, digits) = digits.split_first()?;
    if *carry != 0 {
        return None;
    }
    let (whole, fraction) = digits.split_at_checked(whole_len)?;
    let (head, groups) = whole.split_at_checked(whole_len % 9)?;
    let mut image = Vec::new();
    for group in std::iter::once(head).chain(groups.chunks(9)).chain(fraction.chunks(9)) {
        let value = group.iter().fold(0u32, |value, digit| value * 10 + u32::from(*digit));
        let len = DIGIT_BYTES.get(group.len()).copied()?;
        image.extend_from_slice(value.to_be_bytes().get(4 - len..)?);
    }
    let is_zero = image.iter().all(|byte| *byte == 0);
    if negative && !is_zero {
        image.iter_mut().for_each(|byte| *byte = !*byte);
    }
    *image.first_mut()? ^= 0x80;
    Some(image)
}

/// YEAR as years since 1900; 0 for 0000.
fn year(literal: &Literal) -> Option<u8> {
    let text = number_text(literal)?;
    let value = text.parse::<u16>().ok()?;
    let is_text = matches!(literal, Literal::Text(_));
    match (value, text.len()) {
        (0, 4) => Some(0),
        (0, _) if !is_text => Some(0),
        (0..=69, 1 | 2) => u8::try_from(value + 100).ok(),
        (70..=99, 2) => u8::try_from(value).ok(),
        (1901..=2155, 4) => u8::try_from(value - 1900).ok(),
        _ => None,
    }
}

pub(crate) type Date = (u64, u64, u64);
/// Hours, minutes, seconds, microseconds.
pub(crate) type Time = (u64, u64, u64, u64);

/// Parses `YYYY-MM-DD[ HH:MM:SS[.ffffff]]`, or the same as digits only. Other forms are not interpreted.
pub(crate) fn date_time(text: &str) -> Option<(Date, Time)> {
    if text.bytes().all(|byte| byte.is_ascii_digit()) {
        let number = |from: usize, to: usize| text.get(from..to)?.parse::<u64>().ok();
        return match text.len() {
            1 if text == "0" => Some(((0, 0, 0), (0, 0, 0, 0))),
            8 => checked((number(0, 4)?, number(4, 6)?, number(6, 8)?), (0, 0, 0, 0)),
            14 => checked(
                (number(0, 4)?, number(4, 6)?, number(6, 8)?),
                (number(8, 10)?, number(10, 12)?, number(12, 14)?, 0),
            ),
            _ => None,
        };
    }
    let (date, time) = match text.split_once([' ', 'T']) {
        Some((date, time)) => (date, Some(time)),
        None => (text, None),
    };
    let mut parts = date.splitn(3, '-');
    let year = digits(parts.next()?, 4, 4)?;
    let date = (year, digits(parts.next()?, 1, 2)?, digits(parts.next()?, 1, 2)?);
    let time = match time {
        Some(time) => clock(time)?,
        None => (0, 0, 0, 0),
    };
    checked(date, time)
}

/// True if a session of this mode refuses a definition with the column's default: 1067. A day beyond the end of its
/// month is refused unless ALLOW_INVALID_DATES allows it; zeros are refused in strict mode only (seen on 9.7.4).
pub(crate) fn is_refused(column: &Column, mode: u64) -> bool {
    let ColumnDefault::Image(image) = &column.default else { return false };
    let date = match TypedValue::of(&column.ty, image) {
        Ok(TypedValue::Date(date)) => date,
        Ok(TypedValue::DateTime(at)) => at.date,
        _ => return false,
    };
    let strict = sql_mode::is_strict(mode);
    if (date.year, date.month, date.day) == (0, 0, 0) {
        return strict && mode & sql_mode::NO_ZERO_DATE != 0;
    }
    let rules = DateRules {
        day_must_exist: mode & sql_mode::ALLOW_INVALID_DATES == 0,
        no_zero_in_date: strict && mode & sql_mode::NO_ZERO_IN_DATE != 0,
    };
    !rules.takes(date)
}

/// Range checks only. The server accepted the default, so a day beyond the end of its month is valid under
/// ALLOW_INVALID_DATES, which allows days up to 31 in any month.
fn checked(date: Date, time: Time) -> Option<(Date, Time)> {
    let (_, month, day) = date;
    (month <= 12 && day <= 31 && time.0 < 24).then_some((date, time))
}

/// A time with this many fractional digits, rounded half up or truncated (`my_datetime_round`; seen on 9.7).
fn rounded(date: Date, time: Time, digits: u16, truncate: bool) -> Option<(Date, Time)> {
    let unit = 10u64.checked_pow(u32::from(6u16.checked_sub(digits)?))?;
    let (hour, minute, second, micros) = time;
    let rest = micros % unit;
    if rest == 0 {
        return Some((date, time));
    }
    if truncate || rest < unit / 2 {
        return Some((date, (hour, minute, second, micros - rest)));
    }
    let of_day = (hour * 3600 + minute * 60 + second) * 1_000_000 + micros - rest + unit;
    let (days, of_day) = (of_day / DAY_US, of_day % DAY_US);
    // Rounding up yields an existing day: 2024-02-30 becomes the 1st of March. The day after 2024-00-00 is undefined.
    let date = match days_from_epoch(date) {
        Some(from) => date_of(u64::try_from(from).ok()? + days)?,
        None if days == 0 => date,
        None => return None,
    };
    let (seconds, micros) = (of_day / 1_000_000, of_day % 1_000_000);
    Some((date, (seconds / 3600, seconds / 60 % 60, seconds % 60, micros)))
}

const DAY_US: u64 = 86_400_000_000;

fn digits(text: &str, min: usize, max: usize) -> Option<u64> {
    let plain = text.bytes().all(|byte| byte.is_ascii_digit()) && (min..=max).contains(&text.len());
    if plain { text.parse().ok() } else { None }
}

/// Parses `HH:MM[:SS[.ffffff]]`, with hours of up to three digits.
fn clock(text: &str) -> Option<Time> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let mut parts = whole.splitn(3, ':');
    let hours = digits(parts.next()?, 1, 3)?;
    let minutes = digits(parts.next()?, 1, 2)?;
    let seconds = parts.next().map_or(Some(0), |part| digits(part, 1, 2))?;
    let micros = if fraction.is_empty() {
        0
    } else {
        digits(fraction, 1, 6)? * 10u64.pow(6 - u32::try_from(fraction.len()).ok()?)
    };
    (minutes < 60 && seconds < 60).then_some((hours, minutes, seconds, micros))
}

fn date_image((year, month, day): Date) -> Vec<u8> {
    number_image(day | month << 5 | year << 9, 3)
}

/// Microseconds as the bytes of `digits` fractional digits; `None` if the server would have to round.
fn fraction_bytes(micros: u64, digits: u16) -> Option<Vec<u8>> {
    let unit = 10u64.checked_pow(u32::from(6u16.checked_sub(digits)?))?;
    if !micros.is_multiple_of(unit) {
        return None;
    }
    let len = usize::from(digits.div_ceil(2));
    let stored = micros / 100u64.pow(3 - u32::try_from(len).ok()?);
    Some(stored.to_be_bytes().get(8 - len..)?.to_vec())
}

fn datetime_image(ty: &ColumnType, (year, month, day): Date, (h, m, s, micros): Time) -> Option<Vec<u8>> {
    let packed = ((year * 13 + month) << 5 | day) << 17 | h << 12 | m << 6 | s;
    let mut image = (packed + 0x80_0000_0000).to_be_bytes().get(3..)?.to_vec();
    image.extend(fraction_bytes(micros, ty.meta)?);
    Some(image)
}

fn timestamp(ty: &ColumnType, text: &str, scope: LiteralScope<'_>) -> Option<Vec<u8>> {
    let (date, time) = date_time(text)?;
    let (date, time) = rounded(date, time, ty.meta, scope.truncate_fraction)?;
    let seconds = if date == (0, 0, 0) && time == (0, 0, 0, 0) {
        0
    } else {
        let (h, m, s, _) = time;
        let local = days_from_epoch(date)? * 86_400 + i64::try_from(h * 3600 + m * 60 + s).ok()?;
        let utc = local - i64::from(offset_seconds(scope.time_zone?)?);
        u32::try_from(utc).ok().filter(|seconds| *seconds > 0)?
    };
    let mut image = seconds.to_be_bytes().to_vec();
    image.extend(fraction_bytes(time.3, ty.meta)?);
    Some(image)
}

/// Days from 1970-01-01 to a complete date.
fn days_from_epoch((year, month, day): Date) -> Option<i64> {
    if year == 0 || month == 0 || day == 0 {
        return None;
    }
    // Years are counted from March, so that the leap day is the last of its year.
    let year = i64::try_from(if month > 2 { year } else { year - 1 }).ok()?;
    let month = i64::try_from((month + 9) % 12).ok()?;
    let day_of_year = (153 * month + 2) / 5 + i64::try_from(day).ok()? - 1;
    Some(365 * year + year.div_euclid(4) - year.div_euclid(100) + year.div_euclid(400) + day_of_year - 719_468)
}

/// The date this many days after 1970-01-01.
fn date_of(days: u64) -> Option<Date> {
    // Years are counted from March, so that the leap day is the last of its year.
    let days = days.checked_add(719_468)?;
    let (era, of_era) = (days / 146_097, days % 146_097);
    let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    let year = era * 400 + year + u64::from(month <= 2);
    Some((year, month, day))
}

/// CURRENT_TIMESTAMP at `now_us`, µs since 1970, in a column of this type. A DATETIME is local time and needs the
/// zone's offset in seconds.
pub(crate) fn now(ty: &ColumnType, now_us: u64, offset: Option<i32>) -> Option<Vec<u8>> {
    let (seconds, micros) = (now_us / 1_000_000, now_us % 1_000_000);
    let unit = 10u64.checked_pow(u32::from(6u16.checked_sub(ty.meta)?))?;
    let micros = micros / unit * unit;
    if ty.code == code::TIMESTAMP2 {
        let mut image = u32::try_from(seconds).ok()?.to_be_bytes().to_vec();
        image.extend(fraction_bytes(micros, ty.meta)?);
        return Some(image);
    }
    if ty.code != code::DATETIME2 {
        return None;
    }
    let local = u64::try_from(i64::try_from(seconds).ok()? + i64::from(offset?)).ok()?;
    let of_day = local % 86_400;
    datetime_image(ty, date_of(local / 86_400)?, (of_day / 3600, of_day / 60 % 60, of_day % 60, micros))
}

/// Offset of `+02:00` in seconds; None for a named zone or SYSTEM.
pub(crate) fn offset_seconds(time_zone: &str) -> Option<i32> {
    if time_zone.eq_ignore_ascii_case("UTC") {
        return Some(0);
    }
    let (sign, rest) = match time_zone.split_at_checked(1)? {
        ("+", rest) => (1, rest),
        ("-", rest) => (-1, rest),
        _ => return None,
    };
    let (hours, minutes) = rest.split_once(':')?;
    let seconds = digits(hours, 1, 2)? * 3600 + digits(minutes, 2, 2)? * 60;
    Some(sign * i32::try_from(seconds).ok()?)
}

fn time(ty: &ColumnType, text: &str, truncate: bool) -> Option<Vec<u8>> {
    let (negative, rest) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text),
    };
    // Bare digits mean HHMMSS to the server; only 0 is unambiguous.
    let (hours, minutes, seconds, micros) = if rest == "0" { (0, 0, 0, 0) } else { clock(rest)? };
    // Rounds half away from zero; the carry may reach the hours.
    let unit = 10u64.checked_pow(u32::from(6u16.checked_sub(ty.meta)?))?;
    let rest = micros % unit;
    let up = if truncate || rest < unit.div_ceil(2) { 0 } else { unit };
    let total = (hours * 3600 + minutes * 60 + seconds) * 1_000_000 + micros - rest + up;
    let (total, micros) = (total / 1_000_000, total % 1_000_000);
    if total > 838 * 3600 + 59 * 60 + 59 {
        return None;
    }
    let fraction = fraction_bytes(micros, ty.meta)?;
    let mut value = (total / 3600) << 12 | (total / 60 % 60) << 6 | (total % 60);
    for byte in &fraction {
        value = value << 8 | u64::from(*byte);
    }
    // Whole and fraction form one signed number, offset by the middle of its range (sql-common/my_time.cc).
    let bits = 24 + 8 * fraction.len();
    let middle = 1u64 << (bits - 1);
    let stored = if negative { middle.checked_sub(value)? } else { middle + value };
    Some(stored.to_be_bytes().get(8 - bits / 8..)?.to_vec())
}

fn bit(ty: &ColumnType, literal: &Literal) -> Option<Vec<u8>> {
    let value = match literal {
        Literal::Bytes(bytes) if bytes.len() <= 8 => big_endian(bytes),
        // The bytes of the text are the bits, not a number that it may show.
        Literal::Text(text) if text.bytes.len() <= 8 => big_endian(&text.bytes),
        Literal::Number(text) => text.parse::<u64>().ok()?,
        Literal::Bool(value) => u64::from(*value),
        _ => return None,
    };
    let bits = u32::from(ty.meta);
    if bits < 64 && value >> bits != 0 {
        return None;
    }
    Some(value.to_be_bytes().get(8 - usize::from(ty.meta.div_ceil(8))..)?.to_vec())
}

/// Text converted to the column's character set. SHOW CREATE TABLE writes text that it cannot spell as its bytes
/// (`0xF09F9880`).
fn member_text(ty: &ColumnType, literal: &Literal) -> Option<Vec<u8>> {
    let charset = charset::by_id(ty.collation)?.charset;
    match literal {
        Literal::Text(text) => charset::convert_to_char(&text.bytes, &text.charset, charset).ok(),
        Literal::Bytes(bytes) => charset::convert(bytes, "binary", charset).ok(),
        _ => None,
    }
}

/// The 1-based number of a member; compares exact bytes first, then ignores ASCII case, then asks the collation.
fn member_number(ty: &ColumnType, name: &[u8]) -> Option<u64> {
    let trimmed = name.trim_ascii_end();
    let exact = ty.members.iter().position(|member| member.as_ref() == name || member.as_ref() == trimmed);
    let position = exact.or_else(|| ty.members.iter().position(|member| member.eq_ignore_ascii_case(trimmed)));
    position.map_or_else(|| equal_member(ty, name), |position| u64::try_from(position + 1).ok())
}

fn enumeration(ty: &ColumnType, literal: &Literal) -> Option<Vec<u8>> {
    let number = match literal {
        Literal::Text(_) | Literal::Bytes(_) => member_number(ty, &member_text(ty, literal)?)?,
        Literal::Number(text) => {
            let number = text.parse::<u64>().ok()?;
            (1..=u64::try_from(ty.members.len()).ok()?).contains(&number).then_some(number)?
        }
        _ => return None,
    };
    Some(number_image(number, usize::from(ty.meta)))
}

/// The number of a member that the collation calls equal to the name, which is in the column's character set.
fn equal_member(ty: &ColumnType, name: &[u8]) -> Option<u64> {
    let text = ColumnType { collation: ty.collation, ..ColumnType::new(code::VARCHAR, u16::MAX) };
    let column = SortKeyColumn { ty: text, nullable: false, descending: false, prefix_len: None };
    let plan = SortKeyPlan::new(&[column]).ok().filter(SortKeyPlan::is_ordered)?;
    let key = |name: &[u8]| {
        let mut stored = u16::try_from(name.len()).ok()?.to_le_bytes().to_vec();
        stored.extend_from_slice(name);
        let mut key = Vec::new();
        plan.append(std::iter::once(Some(stored.as_slice())), &mut key).ok()?;
        Some(key)
    };
    let wanted = key(name)?;
    let position = ty.members.iter().position(|member| key(member).as_ref() == Some(&wanted))?;
    u64::try_from(position + 1).ok()
}

fn set(ty: &ColumnType, literal: &Literal) -> Option<Vec<u8>> {
    let names = member_text(ty, literal)?;
    let mut value = 0u64;
    if !names.is_empty() {
        for name in names.split(|byte| *byte == b',') {
            value |= 1u64.checked_shl(u32::try_from(member_number(ty, name)? - 1).ok()?)?;
        }
    }
    Some(number_image(value, usize::from(ty.meta)))
}

/// A number as the server writes it into text with sufficient room: as a double if it has an exponent, with all its
/// digits if it has a point (seen on 9.7.4). With less room the server writes a double with fewer digits, which is not
/// reproduced here.
fn shown_number(text: &str) -> Option<String> {
    if text.contains(['e', 'E']) {
        return text.parse::<f64>().ok().filter(|value| value.is_finite()).map(values::text_of_f64);
    }
    let (negative, whole, fraction) = decimal_parts(text)?;
    let is_zero = whole == "0" && fraction.bytes().all(|digit| digit == b'0');
    let sign = if negative && !is_zero { "-" } else { "" };
    let point = if fraction.is_empty() { "" } else { "." };
    Some(format!("{sign}{whole}{point}{fraction}"))
}

fn text(ty: &ColumnType, literal: &Literal) -> Option<Vec<u8>> {
    let collation = charset::by_id(ty.collation)?;
    let mut bytes = match literal {
        Literal::Text(text) if ty.code == code::CHAR => {
            charset::convert_to_char(&text.bytes, &text.charset, collation.charset).ok()?
        }
        Literal::Text(text) => charset::convert(&text.bytes, &text.charset, collation.charset).ok()?,
        Literal::Bytes(bytes) => charset::convert(bytes, "binary", collation.charset).ok()?,
        Literal::Bool(value) => charset::from_unicode(if *value { "1" } else { "0" }, collation.charset).ok()?,
        Literal::Number(number) => {
            let room = usize::from(ty.meta) / usize::from(collation.mbmaxlen.max(1));
            let shown = shown_number(number).filter(|shown| shown.len() <= room)?;
            charset::from_unicode(&shown, collation.charset).ok()?
        }
        Literal::Null => return None,
    };
    if ty.code == code::CHAR {
        // Images of CHAR omit the padding: spaces, or zeros for BINARY.
        let pad: &[u8] = match collation.charset {
            "binary" => &[0],
            "ucs2" | "utf16" => &[0, b' '],
            "utf16le" => &[b' ', 0],
            "utf32" => &[0, 0, 0, b' '],
            _ => b" ",
        };
        while let Some(shorter) = bytes.strip_suffix(pad) {
            bytes.truncate(shorter.len());
        }
    }
    let len = u16::try_from(bytes.len()).ok().filter(|len| *len <= ty.meta)?;
    let mut image = if ty.meta > 255 { len.to_le_bytes().to_vec() } else { vec![u8::try_from(len).ok()?] };
    image.append(&mut bytes);
    Some(image)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::syntax::Text;

    #[test]
    fn members_are_named_by_text_or_bytes() {
        let scope = LiteralScope { decimals: None, time_zone: None, truncate_fraction: false };
        let members = ["a".as_bytes().into(), "😀".as_bytes().into(), "?".as_bytes().into()];
        for (code, expected) in [(code::ENUM, vec![2]), (code::SET, vec![0b10])] {
            let ty = ColumnType { collation: 255, members: members.clone().into(), ..ColumnType::new(code, 1) };
            let text = Text { bytes: "😀".into(), charset: "utf8mb4".into() };
            assert_eq!(image(&ty, &Literal::Text(text), scope), Some(expected.clone()));
            assert_eq!(image(&ty, &Literal::Bytes(b"\xf0\x9f\x98\x80".to_vec()), scope), Some(expected));
            assert_eq!(image(&ty, &Literal::Bytes(b"\xf0\x9f\x98\x81".to_vec()), scope), None);
        }
    }

    fn default_of(code: u8, digits: u16, text: &str, truncate_fraction: bool) -> Option<Vec<u8>> {
        let ty = ColumnType {
            meta: digits,
            ..ColumnType::from_table_map(code, &[digits as u8][..usize::from(code != code::DATE)]).unwrap()
        };
        let text = Text { bytes: text.into(), charset: "utf8mb4".into() };
        let scope = LiteralScope { decimals: None, time_zone: Some("+00:00"), truncate_fraction };
        image(&ty, &Literal::Text(text), scope)
    }

    /// Values as SHOW CREATE TABLE of a 9.7 server prints them.
    #[test]
    fn fractions_that_do_not_fit_are_rounded() {
        let same = |code, digits, given, shown| {
            assert!(default_of(code, digits, shown, false).is_some(), "{shown}");
            assert_eq!(default_of(code, digits, given, false), default_of(code, digits, shown, false), "{given}");
        };
        same(code::DATE, 0, "2024-06-18 04:00:00.5", "2024-06-18");
        same(code::DATE, 0, "2024-06-18 23:59:59.9", "2024-06-19");
        same(code::DATETIME2, 0, "2024-12-31 23:59:59.9", "2025-01-01 00:00:00");
        same(code::DATETIME2, 1, "2024-02-28 23:59:59.96", "2024-02-29 00:00:00");
        same(code::DATETIME2, 0, "2024-02-28 10:00:00.4", "2024-02-28 10:00:00");
        same(code::TIMESTAMP2, 1, "2024-06-18 23:59:59.97", "2024-06-19 00:00:00.0");
        same(code::TIME2, 1, "23:59:59.96", "24:00:00.0");
        same(code::TIME2, 0, "-00:00:00.5", "-00:00:01");
        assert_eq!(default_of(code::TIME2, 0, "838:59:59.9", false), None);
        assert_eq!(default_of(code::DATETIME2, 0, "2024-00-00 23:59:59.9", false), None);
        let cut = default_of(code::DATETIME2, 0, "2024-06-18 23:59:59.9", true);
        assert_eq!(cut, default_of(code::DATETIME2, 0, "2024-06-18 23:59:59", false));
    }

    /// Values as SHOW CREATE TABLE of a 9.7 server prints them.
    #[test]
    fn numbers_are_completed_to_dates() {
        let scope = LiteralScope { decimals: None, time_zone: Some("+00:00"), truncate_fraction: false };
        let of_number =
            |number: &str| image(&ColumnType::new(code::DATETIME2, 3), &Literal::Number(number.to_owned()), scope);
        for (number, shown) in [
            ("101", "2000-01-01 00:00:00"),
            ("691231", "2069-12-31 00:00:00"),
            ("700101", "1970-01-01 00:00:00"),
            ("1010101", "0101-01-01 00:00:00"),
            ("2.40102e5", "2024-01-02 00:00:00"),
            ("10101000000", "2001-01-01 00:00:00"),
            ("240102030405.5", "2024-01-02 03:04:05.5"),
            ("20240102030405.1239", "2024-01-02 03:04:05.124"),
        ] {
            assert!(of_number(number).is_some(), "{number}");
            assert_eq!(of_number(number), default_of(code::DATETIME2, 3, shown, false), "{number}");
        }
        for number in ["1", "100", "691232", "100000000", "-101", "123456789012345678901"] {
            assert_eq!(of_number(number), None, "{number}");
        }
    }

    #[test]
    fn a_local_time_is_a_moment_once_its_zone_is_known() {
        let ty = ColumnType::new(code::TIMESTAMP2, 2);
        let text = |text: &str| Literal::Text(Text { bytes: text.into(), charset: "utf8mb4".into() });
        let scope = LiteralScope { decimals: None, time_zone: Some("SYSTEM"), truncate_fraction: false };
        let local = |literal: &Literal| local_text(&ty, literal, scope);
        assert_eq!(image(&ty, &text("2020-03-29 12:00:00"), scope), None);
        assert_eq!(local(&text("2020-7-1 12:00:00.129")).as_deref(), Some("'2020-07-01 12:00:00.13'"));
        assert_eq!(local(&Literal::Number("20200701".to_owned())).as_deref(), Some("'2020-07-01 00:00:00.00'"));
        // One with an offset of its own needs no zone.
        assert_eq!(local(&text("2020-07-01 12:00:00+02:00")), None);
        let utc = LiteralScope { time_zone: Some("+00:00"), ..scope };
        assert_eq!(local_text(&ty, &text("2020-07-01 12:00:00"), utc), None);
        let with_offset = image(&ty, &text("2020-07-01 12:00:00+02:00"), scope);
        assert_eq!(with_offset, image(&ty, &text("2020-07-01 10:00:00"), utc));

        // Summer from 2020-03-29 01:00 to 2020-10-25 01:00 UTC.
        let zone = Zone::changing(7_200, vec![(1_585_443_600, 10_800), (1_603_587_600, 7_200)]).unwrap();
        let moment = |text: &str| of_local_text(&ty, text, &zone);
        assert_eq!(moment("'2020-07-01 13:00:00.13'"), image(&ty, &text("2020-07-01 10:00:00.13"), utc));
        assert_eq!(moment("'2020-12-01 12:00:00.00'"), image(&ty, &text("2020-12-01 10:00:00"), utc));
        assert_eq!(moment("'2020-03-29 03:30:00.00'"), None, "clocks were put forward over it");
        assert_eq!(moment("'2020-10-25 03:30:00.00'"), None, "clocks were put back over it");
    }
}
