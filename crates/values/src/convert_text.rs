//! The part of [`Conversion`] with text on either side.
//!
//! In: stored text, names of ENUM and SET, numbers and dates as text. Out: stored bytes of the new column; when sql_mode
//! is not strict, question marks for characters that the new character set lacks. Never here: how a number or a date is
//! read (`convert_parse`).

use std::borrow::Cow;

use crate::column_type::{ColumnType, type_code as t};
use crate::convert::{Conversion, is_temporal};
use crate::convert_parse::{self as parse, DateRead, Fate, ReadDate, TimeRead};
use crate::error::ValueError;
use crate::temporal::{DateTime, Time};
use crate::text::TextOptions;
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
        _ => printed(conversion, stored).map(Cow::Owned),
    }
}

/// Text of a number or a date, as the server's `val_str` gives it.
fn printed(conversion: &Conversion, stored: &[u8]) -> Result<Vec<u8>, ValueError> {
    let (from, options) = (&conversion.from, &conversion.options);
    let mut shown = Vec::new();
    match (from.code, options.from_decimals) {
        (t::TIMESTAMP2, _) => conversion.date_of(stored)?.write(from.meta, &mut shown),
        (t::FLOAT | t::DOUBLE, Some(decimals)) => {
            let value = conversion.real_of(stored)?;
            shown = format!("{value:.*}", usize::from(decimals)).into_bytes();
        }
        _ => text::write_text(from, stored, TextOptions::default(), &mut shown)?,
    }
    // Longest text before the server writes an exponent, which it does in a result's text only where more zeros stand
    // around the point (seen on 9.7.4).
    let room = match from.code {
        t::FLOAT => 12,
        t::DOUBLE => 24,
        _ => usize::MAX,
    };
    if options.from_decimals.is_none() && shown.len() > room {
        shown = with_exponent(&shown);
    }
    let width = usize::from(options.zerofill_width);
    if shown.len() < width {
        let zeros = std::iter::repeat_n(b'0', width - shown.len());
        shown.splice(0..0, zeros);
    }
    Ok(shown)
}

/// A number in plain digits, rewritten with an exponent.
fn with_exponent(plain: &[u8]) -> Vec<u8> {
    let (sign, number) = match plain {
        [b'-', number @ ..] => ("-", number),
        number => ("", number),
    };
    let point = number.iter().position(|byte| *byte == b'.').unwrap_or(number.len());
    let digits: String = number.iter().filter(|byte| byte.is_ascii_digit()).map(|byte| char::from(*byte)).collect();
    let significant = digits.trim_start_matches('0');
    let exponent = point as i64 - 1 - (digits.len() - significant.len()) as i64;
    let significant = significant.trim_end_matches('0');
    let Some((first, rest)) = significant.split_at_checked(1) else { return plain.to_vec() };
    let dot = if rest.is_empty() { "" } else { "." };
    format!("{sign}{first}{dot}{rest}e{exponent}").into_bytes()
}

/// Text that is to be read as a number or a date.
pub(crate) fn plain_text<'a>(conversion: &Conversion, stored: &'a [u8]) -> Result<Cow<'a, [u8]>, ValueError> {
    let from = &conversion.from;
    let content = content_of(conversion, stored)?;
    if !is_text(from) || is_binary(from) {
        return Ok(content);
    }
    charset::stored_to_utf8mb4(from.collation, &content).map(|text| Cow::Owned(text.into_owned()))
}

/// True if no character of the column's text is one byte. The server has other parsers of whole numbers for such text.
pub(crate) fn is_wide(ty: &ColumnType) -> bool {
    is_text(ty) && charset::pad(ty.collation).len() > 1
}

/// Longest text that the server reads as a date or a time. It cuts text that it has to turn into ASCII first.
fn temporal_len_max(from: &ColumnType, to: &ColumnType) -> usize {
    match charset_of(from) {
        Some("utf8mb4" | "utf8mb3" | "latin1" | "ascii" | "binary") => usize::MAX,
        _ if !is_text(from) => usize::MAX,
        _ if to.code == t::TIME2 => 25,
        _ => 29,
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
        return from_utf8(conversion, &content, out);
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
        _ => from_utf8(conversion, &plain_text(conversion, stored)?, out),
    }
}

/// Stores utf8mb4 text, or bytes that are to be read as text, in a column of any kind but DECIMAL, BIT and JSON.
pub(crate) fn from_utf8(conversion: &Conversion, unicode: &[u8], out: &mut Vec<u8>) -> Result<(), ValueError> {
    let to = &conversion.to;
    match to.code {
        t::CHAR | t::VARCHAR | t::BLOB => store_utf8(conversion, unicode, out),
        t::ENUM => to_enum(conversion, unicode, out),
        t::SET => to_set(conversion, unicode, out),
        t::YEAR => to_year(conversion, unicode, out),
        t::FLOAT | t::DOUBLE => {
            let read = parse::double(unicode);
            conversion.warn_unless(read.fate == Fate::Clean, String::from_utf8_lossy(unicode))?;
            conversion.store_real(read.value, out)
        }
        _ if is_temporal(to) => to_temporal(conversion, unicode, out),
        _ => {
            let read = parse::rounded_integer(unicode, to.unsigned);
            conversion.warn_unless(read.fate == Fate::Clean, String::from_utf8_lossy(unicode))?;
            conversion.store_integer(read.value, out)
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

/// Stores a whole number of BIT as text. The server writes it into 64 bytes, which is too few in utf32.
pub(crate) fn store_number(conversion: &Conversion, value: i128, out: &mut Vec<u8>) -> Result<(), ValueError> {
    const ROOM: usize = 64;
    let shown = value.to_string();
    if shown.len() * charset::pad(conversion.to.collation).len() > ROOM {
        return Err(conversion.does_not_fit(shown));
    }
    store_utf8(conversion, shown.as_bytes(), out)
}

/// Stores bytes.
pub(crate) fn store_bytes(conversion: &Conversion, bytes: &[u8], out: &mut Vec<u8>) -> Result<(), ValueError> {
    let text = if is_binary(&conversion.to) { bytes } else { text_of_bytes(conversion, bytes)? };
    store(conversion, text, out)
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
    /// Longest text that may be a member's number.
    const NUMBER_LEN_MAX: usize = 5;
    let to = &conversion.to;
    let name = std::str::from_utf8(name).map_err(|_| ValueError::Invalid { what: "text" })?;
    let number = match member(to, name)? {
        Some(index) => index as u64 + 1,
        None => number_of_member(conversion, name, NUMBER_LEN_MAX, to.members.len() as u64)?,
    };
    out.extend(number.to_le_bytes().iter().take(usize::from(to.meta)));
    Ok(())
}

/// The number that the text is, if it is one of at most this size (`Field_enum::store`, `Field_set::store`,
/// sql/field.cc); otherwise 0, with a warning.
fn number_of_member(conversion: &Conversion, text: &str, len_max: usize, max: u64) -> Result<u64, ValueError> {
    let to = &conversion.to;
    let text = text.trim_end_matches(' ');
    if is_wide(to) || is_wide(&conversion.from) {
        // Of other lengths than the limit was made for.
        return Err(conversion.does_not_fit(text));
    }
    let read = parse::integer(text.as_bytes());
    // Only spaces may have followed.
    let clean = read.fate == Fate::Clean && text.ends_with(|end: char| end.is_ascii_digit());
    let number = match u64::try_from(read.value) {
        Ok(number) if clean && text.len() <= len_max && number <= max => Some(number),
        _ => None,
    };
    conversion.warn_unless(number.is_some(), text)?;
    Ok(number.unwrap_or(0))
}

/// The member's bit in a SET. Outside strict mode a SET may have more than 64 members, some of them doubled.
fn bit(to: &ColumnType, index: usize) -> Result<u64, ValueError> {
    let bit = u32::try_from(index).ok().and_then(|index| 1u64.checked_shl(index));
    bit.ok_or_else(|| ValueError::unsupported(format!("a {} member beyond the 64th", to.name())))
}

/// Stores the members that text names, separated by commas (`find_set`, sql/strfunc.cc).
fn to_set(conversion: &Conversion, names: &[u8], out: &mut Vec<u8>) -> Result<(), ValueError> {
    /// Longest text that may be the members' bits as a number.
    const NUMBER_LEN_MAX: usize = 21;
    let to = &conversion.to;
    let names = std::str::from_utf8(names).map_err(|_| ValueError::Invalid { what: "text" })?;
    let trimmed = names.trim_end_matches(' ');
    let (mut bits, mut unknown) = (0u64, false);
    if !trimmed.is_empty() {
        for name in trimmed.split(',') {
            if name.ends_with(' ') {
                // Whether spaces count depends on the collation.
                return Err(conversion.does_not_fit(names));
            }
            match member(to, name)? {
                Some(index) => bits |= bit(to, index)?,
                None => unknown = true,
            }
        }
    }
    if bits == 0 && unknown && names.len() <= NUMBER_LEN_MAX {
        if to.members.len() > 63 {
            return Err(conversion.does_not_fit(names));
        }
        bits = number_of_member(conversion, names, NUMBER_LEN_MAX, (1 << to.members.len()) - 1)?;
    } else {
        conversion.warn_unless(!unknown, names)?;
    }
    out.extend(bits.to_le_bytes().iter().take(usize::from(to.meta)));
    Ok(())
}

/// Stores a year (`Field_year::store`, sql/field.cc).
fn to_year(conversion: &Conversion, text: &[u8], out: &mut Vec<u8>) -> Result<(), ValueError> {
    let read = parse::rounded_integer(text, false);
    let shown = || String::from_utf8_lossy(text).into_owned();
    if is_wide(&conversion.from) && !(text.len() == 4 && text.iter().all(u8::is_ascii_digit)) {
        return Err(conversion.does_not_fit(shown()));
    }
    let in_range = matches!(read.value, 0..=99 | 1901..=2155);
    conversion.warn_unless(in_range && read.fate == Fate::Clean, shown())?;
    let year = match read.value {
        _ if !in_range || matches!(read.fate, Fate::Nothing | Fate::Range) => 0,
        // Four zeros are no year, other zeros the year 2000.
        0 if text.len() == 4 => 0,
        value @ 0..=69 => value + 100,
        value @ 70..=99 => value,
        value => value - 1900,
    };
    out.push(u8::try_from(year).map_err(|_| conversion.does_not_fit(shown()))?);
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
            Some(index) => kept |= bit(to, index)?,
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

/// Stores a date or a time.
fn to_temporal(conversion: &Conversion, text: &[u8], out: &mut Vec<u8>) -> Result<(), ValueError> {
    let to = &conversion.to;
    let shown = || String::from_utf8_lossy(text).into_owned();
    let unknown = || ValueError::BadLiteral { what: to.name(), literal: shown().into() };
    if text.len() > temporal_len_max(&conversion.from, to) {
        return Err(unknown());
    }
    // Whether such a byte is a space or punctuation depends on the character set; what begins with a letter is no date.
    let text = match text.first() {
        _ if text.is_ascii() => text,
        Some(first) if *first > 0xc2 => b"-",
        _ => return Err(unknown()),
    };
    if to.code == t::TIME2 {
        return match parse::time(text) {
            TimeRead::Displaced => Err(unknown()),
            TimeRead::Is { value, nanos, clean } => {
                conversion.warn_unless(clean, shown())?;
                conversion.fraction_of_time(value, nanos)?.push(to.meta, out)
            }
            TimeRead::Nothing => Time::default().push(to.meta, out),
            TimeRead::Wrong => {
                conversion.warn_unless(false, shown())?;
                Time::default().push(to.meta, out)
            }
        };
    }
    match parse::date(text, conversion.options.dates, false) {
        DateRead::Is(ReadDate { value, nanos, displacement, clean }) => {
            conversion.warn_unless(clean, shown())?;
            store_read_date(conversion, value, nanos, displacement, out)
        }
        DateRead::NotOne | DateRead::Wrong => {
            conversion.warn_unless(false, shown())?;
            conversion.store_date(DateTime::default(), true, 0, out)
        }
    }
}

/// Stores a date that is local, or as far from UTC as its text says.
fn store_read_date(
    conversion: &Conversion,
    value: DateTime,
    nanos: u32,
    displacement: Option<i32>,
    out: &mut Vec<u8>,
) -> Result<(), ValueError> {
    let to_utc = conversion.to.code == t::TIMESTAMP2;
    let mut value = value;
    if let Some(seconds) = displacement {
        let offset = conversion.options.offset_seconds.ok_or_else(|| ValueError::unsupported("a named time zone"))?;
        let shifted = value.shifted(i64::from(offset) - i64::from(seconds));
        // Rounding up to a second forgets the time zone.
        let shifted = shifted.filter(|_| value.micros == 0);
        value = shifted.ok_or_else(|| ValueError::unsupported("such a date with a time zone"))?;
    }
    if !to_utc {
        return conversion.store_date(value, true, nanos, out);
    }
    match conversion.shifted(value, -1)? {
        Some(shifted) => conversion.store_date(shifted, true, nanos, out),
        None => conversion.store_date(value, false, nanos, out),
    }
}
