//! The part of [`Conversion`] with text on either side.
//!
//! In: stored text, names of ENUM and SET. Out: stored bytes of the new column; when sql_mode is not strict, question
//! marks for characters that the new character set lacks. Never here: text that is not plainly a number or a date.

use std::borrow::Cow;

use crate::column_type::{ColumnType, type_code as t};
use crate::convert::{Conversion, printed_text, rounded};
use crate::error::ValueError;
use crate::temporal::{DateTime, Time};
use crate::{charset, collation, text};

/// True for bytes, false for text.
pub(crate) fn is_binary(ty: &ColumnType) -> bool {
    ty.collation == collation::BINARY
}

/// True if the column's text can be converted.
pub(crate) fn is_known(ty: &ColumnType) -> bool {
    charset::is_supported(ty.collation)
}

fn charset_of(ty: &ColumnType) -> Option<&'static str> {
    collation::by_id(ty.collation).map(|found| found.charset)
}

/// True if text has the same bytes in both character sets. utf8mb3 is a subset of utf8mb4.
pub(crate) fn same_charset(from: &ColumnType, to: &ColumnType) -> bool {
    match (charset_of(from), charset_of(to)) {
        (Some("utf8mb3"), Some("utf8mb4")) => true,
        (Some(from), Some(to)) => from == to,
        _ => false,
    }
}

/// Characters that a column holds; bytes of a TEXT or BLOB.
fn room(ty: &ColumnType) -> usize {
    match ty.code {
        t::BLOB => (1usize << (8 * ty.meta.clamp(1, 4))) - 1,
        _ => usize::from(ty.meta) / usize::from(collation::by_id(ty.collation).map_or(1, |found| found.mbmaxlen)),
    }
}

/// True if every text of the old column fits the new one.
pub(crate) fn fits_all(from: &ColumnType, to: &ColumnType) -> bool {
    from.code == to.code && room(from) <= room(to)
}

/// Number of characters in text of this column's character set.
fn characters(ty: &ColumnType, content: &[u8]) -> Result<usize, ValueError> {
    match collation::by_id(ty.collation) {
        Some(found) if found.mbmaxlen == 1 => Ok(content.len()),
        _ => Ok(utf8_characters(&charset::to_utf8mb4(ty.collation, content)?)),
    }
}

fn utf8_characters(text: &[u8]) -> usize {
    text.iter().filter(|byte| **byte & 0xc0 != 0x80).count()
}

/// Text of any value: in its column's character set (binary for bytes), or ASCII.
fn content_of<'a>(conversion: &Conversion, stored: &'a [u8]) -> Result<Cow<'a, [u8]>, ValueError> {
    let from = &conversion.from;
    match from.code {
        t::CHAR | t::VARCHAR | t::BLOB => {
            let content = text::content(from, stored)?;
            if from.code == t::CHAR && is_binary(from) {
                let mut padded = content.to_vec();
                padded.resize(usize::from(from.meta), 0);
                return Ok(Cow::Owned(padded));
            }
            Ok(Cow::Borrowed(content))
        }
        t::ENUM | t::SET => text::member_names(from, stored).map(Cow::Owned),
        _ => {
            let mut shown = Vec::new();
            printed_text(conversion, stored, &mut shown)?;
            Ok(Cow::Owned(shown))
        }
    }
}

fn is_text(ty: &ColumnType) -> bool {
    matches!(ty.code, t::CHAR | t::VARCHAR | t::BLOB | t::ENUM | t::SET)
}

/// Converts a value whose text decides the result.
pub(crate) fn from_text(conversion: &Conversion, stored: &[u8], out: &mut Vec<u8>) -> Result<(), ValueError> {
    let (from, to) = (&conversion.from, &conversion.to);
    let content = content_of(conversion, stored)?;
    if !is_text(from) {
        return store_utf8(conversion, &content, out);
    }
    match to.code {
        t::CHAR | t::VARCHAR | t::BLOB => {
            if same_charset(from, to) || is_binary(to) {
                return store(conversion, &content, out);
            }
            if is_binary(from) {
                return store(conversion, text_of_bytes(conversion, &content)?, out);
            }
            let unicode = charset::stored_to_utf8mb4(from.collation, &content)?;
            store_utf8(conversion, &unicode, out)
        }
        t::ENUM => to_enum(conversion, &charset::stored_to_utf8mb4(from.collation, &content)?, out),
        _ => {
            let unicode = charset::stored_to_utf8mb4(from.collation, &content)?;
            plain(conversion, &unicode, out)
        }
    }
}

/// Turns bytes into text unchanged. When not strict, utf8mb3 and utf8mb4 end before the first byte that is not a
/// character (`well_formed_copy_nchars`, sql-common/sql_string.cc). For other character sets the result of invalid text
/// is unknown.
fn text_of_bytes<'a>(conversion: &Conversion, content: &'a [u8]) -> Result<&'a [u8], ValueError> {
    let to = &conversion.to;
    charset::to_utf8mb4(to.collation, content)?;
    let Some(charset @ ("utf8mb3" | "utf8mb4")) = charset_of(to) else { return Ok(content) };
    let valid = content.utf8_chunks().next().map_or("", |chunk| chunk.valid());
    let longest = if charset == "utf8mb3" { 3 } else { 4 };
    let len = valid.char_indices().find(|(_, c)| c.len_utf8() > longest).map_or(valid.len(), |(at, _)| at);
    match content.split_at_checked(len) {
        Some((text, rest)) if rest.is_empty() || !conversion.options.strict => Ok(text),
        _ => Err(ValueError::Invalid { what: "text" }),
    }
}

/// Stores utf8mb4 text in a text column, or ASCII in a binary one.
pub(crate) fn store_utf8(conversion: &Conversion, unicode: &[u8], out: &mut Vec<u8>) -> Result<(), ValueError> {
    let to = conversion.to.collation;
    let converted = if conversion.options.strict {
        charset::from_utf8mb4(to, unicode)?
    } else {
        charset::from_utf8mb4_or_question_marks(to, unicode)?
    };
    store(conversion, &converted, out)
}

/// Stores text that is already in the new column's character set.
fn store(conversion: &Conversion, content: &[u8], out: &mut Vec<u8>) -> Result<(), ValueError> {
    let to = &conversion.to;
    let room = room(to);
    let mut content = Cow::Borrowed(content);
    let of_bytes = to.code == t::BLOB || is_binary(to);
    let len = if content.len() <= room || of_bytes { content.len() } else { characters(to, &content)? };
    if len > room {
        let kept = shortened(conversion, &content, room, of_bytes)?;
        // Strict mode lets VARCHAR and CHAR lose trailing spaces.
        let only_spaces = !of_bytes && kept.1;
        if !only_spaces && conversion.options.strict {
            return Err(ValueError::BadLiteral { what: to.name(), literal: "a value that is too long".into() });
        }
        content = Cow::Owned(kept.0);
    }
    let stored = if to.code == t::CHAR { without_padding(to, &content)? } else { content };
    let prefix = to.prefix_len();
    out.extend(stored.len().to_le_bytes().iter().take(prefix));
    out.extend_from_slice(&stored);
    Ok(())
}

/// Returns the first characters (or bytes), and whether the rest is only spaces. A TEXT that keeps its character set is
/// cut at a byte, even inside a character; one that changes it ends with a whole character (seen on 9.7).
fn shortened(
    conversion: &Conversion,
    content: &[u8],
    room: usize,
    of_bytes: bool,
) -> Result<(Vec<u8>, bool), ValueError> {
    let ty = &conversion.to;
    let single = collation::by_id(ty.collation).is_some_and(|found| found.mbmaxlen == 1);
    if single || of_bytes && same_charset(&conversion.from, ty) {
        let (kept, rest) = content.split_at_checked(room).unwrap_or((content, &[]));
        return Ok((kept.to_vec(), rest.iter().all(|byte| *byte == b' ')));
    }
    let unicode = charset::to_utf8mb4(ty.collation, content)?;
    let unicode = std::str::from_utf8(&unicode).map_err(|_| ValueError::Invalid { what: "text" })?;
    if of_bytes {
        let mut kept = Vec::with_capacity(room);
        for character in unicode.chars() {
            let one = charset::from_utf8mb4(ty.collation, character.encode_utf8(&mut [0; 4]).as_bytes())?.into_owned();
            if kept.len() + one.len() > room {
                break;
            }
            kept.extend_from_slice(&one);
        }
        return Ok((kept, false));
    }
    let at = unicode.char_indices().nth(room).map_or(unicode.len(), |(at, _)| at);
    let (kept, rest) = unicode.split_at_checked(at).unwrap_or((unicode, ""));
    let kept = charset::from_utf8mb4(ty.collation, kept.as_bytes())?.into_owned();
    Ok((kept, rest.bytes().all(|byte| byte == b' ')))
}

/// Strips padding: a row image holds CHAR without trailing spaces and BINARY without trailing zeros.
fn without_padding<'a>(ty: &ColumnType, content: &'a [u8]) -> Result<Cow<'a, [u8]>, ValueError> {
    if is_binary(ty) {
        let len = content.iter().rposition(|byte| *byte != 0).map_or(0, |last| last + 1);
        return Ok(Cow::Borrowed(content.get(..len).unwrap_or(content)));
    }
    let space = charset::from_utf8mb4(ty.collation, b" ")?;
    let mut kept = content;
    while kept.len().is_multiple_of(space.len()) && kept.ends_with(&space) {
        kept = kept.get(..kept.len() - space.len()).unwrap_or(&[]);
    }
    Ok(Cow::Borrowed(kept))
}

/// Position of a utf8mb4 name among the members.
fn member(ty: &ColumnType, name: &str) -> Result<Option<usize>, ValueError> {
    let wanted = name.trim_end_matches(' ');
    let mut alike = None;
    for (index, member) in ty.members.iter().enumerate() {
        let member = charset::to_utf8mb4(ty.collation, member)?;
        if *member == *wanted.as_bytes() {
            return Ok(Some(index));
        }
        if member.eq_ignore_ascii_case(wanted.as_bytes()) {
            alike = alike.or(Some(index));
        }
    }
    if alike.is_none() && !(wanted.is_ascii() && ty.members.iter().all(|member| member.is_ascii())) {
        // The collation may treat other letters as equal.
        return Err(ValueError::BadLiteral { what: ty.name(), literal: name.into() });
    }
    let sensitive = collation::by_id(ty.collation).is_some_and(|c| c.name.ends_with("_bin") || c.name.ends_with("_cs"));
    Ok(alike.filter(|_| !sensitive))
}

fn to_enum(conversion: &Conversion, name: &[u8], out: &mut Vec<u8>) -> Result<(), ValueError> {
    let to = &conversion.to;
    let name = std::str::from_utf8(name).map_err(|_| ValueError::Invalid { what: "text" })?;
    let number = match member(to, name)? {
        Some(index) => index + 1,
        // A number in the text may mean the member of that number.
        None if conversion.options.strict || name.trim().bytes().all(|byte| byte.is_ascii_digit()) => {
            return Err(ValueError::BadLiteral { what: "ENUM", literal: name.into() });
        }
        None => 0,
    };
    out.extend(number.to_le_bytes().iter().take(usize::from(to.meta)));
    Ok(())
}

/// Converts a SET to a SET, matching members by name.
pub(crate) fn set_to_set(conversion: &Conversion, stored: &[u8], out: &mut Vec<u8>) -> Result<(), ValueError> {
    let (from, to) = (&conversion.from, &conversion.to);
    if from.fixed_len() != Some(stored.len()) {
        return Err(ValueError::WrongLength { what: "SET", len: stored.len() });
    }
    let mut bits = stored.iter().rev().fold(0u64, |value, byte| value << 8 | u64::from(*byte));
    let mut kept = 0u64;
    while bits != 0 {
        let name = from.members.get(bits.trailing_zeros() as usize).ok_or(ValueError::Invalid { what: "SET" })?;
        let name = charset::stored_to_utf8mb4(from.collation, name)?;
        let name = std::str::from_utf8(&name).map_err(|_| ValueError::Invalid { what: "text" })?;
        match member(to, name)? {
            Some(index) => kept |= 1 << index,
            None if conversion.options.strict => {
                return Err(ValueError::BadLiteral { what: "SET", literal: name.into() });
            }
            None => {}
        }
        bits &= bits - 1;
    }
    out.extend(kept.to_le_bytes().iter().take(usize::from(to.meta)));
    Ok(())
}

/// Converts text that is plainly a number or a date for a column of that kind.
fn plain(conversion: &Conversion, unicode: &[u8], out: &mut Vec<u8>) -> Result<(), ValueError> {
    let shown = std::str::from_utf8(unicode).map_err(|_| ValueError::Invalid { what: "text" })?;
    let to = &conversion.to;
    let not_plain = || ValueError::BadLiteral { what: to.name(), literal: shown.into() };
    let value = shown.trim_matches(' ');
    match to.code {
        t::DATE | t::DATETIME2 => {
            let value = date_time(value).ok_or_else(not_plain)?;
            // In text the time of day counts too: 00:00:01 on no day is not zero.
            let taken = value.is_zero() || conversion.options.dates.take(&value);
            conversion.store_date(value, taken, out)
        }
        t::TIME2 => {
            let (negative, rest) = value.strip_prefix('-').map_or((false, value), |rest| (true, rest));
            let (hour, minute, second, micros) = clock(rest, 3).ok_or_else(not_plain)?;
            let fits = DateTime { micros, ..DateTime::default() }.is_whole_for(to.meta);
            let time = Time { negative, hour, minute, second, micros };
            if fits { time.push(to.meta, out) } else { Err(not_plain()) }
        }
        _ => {
            let digits = value.strip_prefix(['-', '+']).unwrap_or(value);
            let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
            let all_digits = |part: &str| part.bytes().all(|byte| byte.is_ascii_digit());
            if whole.is_empty() || !all_digits(whole) || !all_digits(fraction) {
                return Err(not_plain());
            }
            match to.code {
                t::DECIMAL => conversion.store_decimal(value.as_bytes(), out),
                t::DOUBLE => store_double(conversion, value.as_bytes(), out),
                _ if to.is_integer() => conversion.store_integer(rounded(value.as_bytes()).ok_or_else(not_plain)?, out),
                _ => Err(not_plain()),
            }
        }
    }
}

/// Stores decimal text in a DOUBLE column.
pub(crate) fn store_double(conversion: &Conversion, number: &[u8], out: &mut Vec<u8>) -> Result<(), ValueError> {
    let value = std::str::from_utf8(number).ok().and_then(|text| text.parse::<f64>().ok());
    match value.filter(|value| value.is_finite() && !(conversion.to.unsigned && *value < 0.0)) {
        Some(value) => {
            out.extend_from_slice(&value.to_le_bytes());
            Ok(())
        }
        None => Err(ValueError::BadLiteral { what: "DOUBLE", literal: String::from_utf8_lossy(number).into() }),
    }
}

/// Parses `YYYY-MM-DD[ hh:mm:ss[.ffffff]]`.
fn date_time(text: &str) -> Option<DateTime> {
    let (date, time) = match text.split_once([' ', 'T']) {
        Some((date, time)) => (date, Some(time)),
        None => (text, None),
    };
    let mut parts = date.split('-');
    let mut part = |len: usize| number(parts.next()?, len, len);
    let (year, month, day) = (part(4)?, part(2)?, part(2)?);
    let (hour, minute, second, micros) = match time {
        Some(time) => clock(time, 2)?,
        None => (0, 0, 0, 0),
    };
    let good = parts.next().is_none() && hour < 24;
    good.then_some(DateTime { year, month, day, hour, minute, second, micros })
}

/// Parses `hh:mm:ss[.ffffff]` with at least `hour_digits` digits of hours.
fn clock(text: &str, hour_digits: usize) -> Option<(u32, u32, u32, u32)> {
    let (whole, fraction) = text.split_once('.').unwrap_or((text, ""));
    let mut parts = whole.split(':');
    let hour = number(parts.next()?, 2, hour_digits)?;
    let (minute, second) = (number(parts.next()?, 2, 2)?, number(parts.next()?, 2, 2)?);
    let micros = match fraction.len() {
        0 => 0,
        len => number(fraction, 1, 6)? * 10u32.pow(6 - u32::try_from(len).ok()?),
    };
    let good = parts.next().is_none() && minute < 60 && second < 60 && text.contains('.') != fraction.is_empty();
    good.then_some((hour, minute, second, micros))
}

fn number(text: &str, min: usize, max: usize) -> Option<u32> {
    let plain = text.bytes().all(|byte| byte.is_ascii_digit()) && (min..=max).contains(&text.len());
    if plain { text.parse().ok() } else { None }
}
