//! Converts text between a column's character set and utf8mb4.
//!
//! In: bytes and a collation. Out: the bytes that a client with character_set_results=utf8mb4 receives, or the bytes
//! stored in the column.
//! Never here: a guess. An unknown character set is `ValueError::Unsupported`.

use std::borrow::Cow;

use crate::charset_data::UPPER_HALVES;
use crate::charset_table::{self, CharsetTable};
use crate::collation::{self, Collation};
use crate::error::ValueError;

/// Character set that can be converted.
#[derive(Debug, Clone, Copy)]
enum Charset {
    /// utf8mb4, utf8mb3 and binary: the client receives the bytes unchanged.
    AsIs,
    /// One byte a character, ASCII below 0x80.
    Single(&'static [u16; 128]),
    /// As `Single`, without U+007F to U+009F; only latin2_czech_cs (`strings/ctype-czech.cc`).
    WithoutControls(&'static [u16; 128]),
    Utf16(fn([u8; 2]) -> u16),
    Utf32,
    /// Multi-byte character sets, and swe7.
    Table(&'static CharsetTable),
}

impl Charset {
    /// True if this byte is not a character and the character of that number has no byte.
    fn lacks(self, byte: u8) -> bool {
        matches!((self, byte), (Charset::WithoutControls(_), 0x7f..=0x9f))
    }
}

fn resolve(collation: u16) -> Result<(Charset, Collation), ValueError> {
    let Some(found) = collation::by_id(collation) else {
        return Err(ValueError::unsupported(format!("text with the collation id {collation}")));
    };
    let charset = match found.charset {
        "utf8mb4" | "utf8mb3" | "binary" => Charset::AsIs,
        "ucs2" | "utf16" => Charset::Utf16(u16::from_be_bytes),
        "utf16le" => Charset::Utf16(u16::from_le_bytes),
        "utf32" => Charset::Utf32,
        name => match UPPER_HALVES.iter().find(|(charset, _)| *charset == name) {
            // The only collation whose tables differ from those of its character set.
            Some((_, upper)) if found.name == "latin2_czech_cs" => Charset::WithoutControls(upper),
            Some((_, upper)) => Charset::Single(upper),
            None => match charset_table::by_name(name) {
                Some(table) => Charset::Table(table),
                None => return Err(ValueError::unsupported(format!("text in character set {name}"))),
            },
        },
    };
    Ok((charset, found))
}

/// True if text of this collation can be converted.
#[must_use]
pub fn is_supported(collation: u16) -> bool {
    resolve(collation).is_ok()
}

/// True if text of this collation is in a multi-byte character set other than Unicode's, or in swe7.
#[must_use]
pub fn is_multi_byte(collation: u16) -> bool {
    matches!(resolve(collation), Ok((Charset::Table(_), _)))
}

/// Returns the text as utf8mb4, as the server sends it to a client.
///
/// # Errors
/// The character set is not implemented, or the bytes are not text in it.
pub fn to_utf8mb4(collation: u16, text: &[u8]) -> Result<Cow<'_, [u8]>, ValueError> {
    let (charset, found) = resolve(collation)?;
    let Charset::WithoutControls(_) = charset else { return by_tables(charset, found, text) };
    // The server consults no table before the first non-ASCII byte (`my_convert`).
    let (plain, rest) = text.split_at(text.iter().position(|byte| !byte.is_ascii()).unwrap_or(text.len()));
    if rest.is_empty() {
        return Ok(Cow::Borrowed(text));
    }
    Ok(Cow::Owned([plain, &by_tables(charset, found, rest)?].concat()))
}

/// As [`to_utf8mb4`] for a value that need not be whole text, as the server sends it (`my_convert`): without an
/// incomplete last character, and with a question mark for each other part that is not text in a multi-byte character
/// set. ALTER TABLE cuts a TEXT that keeps its character set at a byte, even inside a character.
///
/// # Errors
/// The character set is not implemented, or bytes other than the last ones are not text in a Unicode one.
pub fn sent_as_utf8mb4(collation: u16, text: &[u8]) -> Result<Cow<'_, [u8]>, ValueError> {
    let (charset, found) = resolve(collation)?;
    if found.charset == "utf8mb3" {
        return Ok(whole_utf8(text));
    }
    let converted = to_utf8mb4(collation, text);
    match charset {
        Charset::Table(_) if converted.is_err() => to_utf8mb4_with_question_marks(collation, text),
        Charset::Utf32 if converted.is_err() => to_utf8mb4(collation, whole_units(text, 4)),
        Charset::Utf16(unit) if converted.is_err() => {
            let units = whole_units(text, 2);
            let kept = match units.split_last_chunk::<2>() {
                // The first half of a character of four bytes.
                Some((kept, last)) if matches!(unit(*last), 0xd800..=0xdbff) => kept,
                _ => units,
            };
            to_utf8mb4(collation, kept)
        }
        _ => converted,
    }
}

/// The text without an incomplete last unit.
fn whole_units(text: &[u8], len: usize) -> &[u8] {
    text.get(..text.len() - text.len() % len).unwrap_or(text)
}

/// UTF-8 without an incomplete last character, and with a question mark for each other byte that is none.
#[must_use]
pub fn whole_utf8(text: &[u8]) -> Cow<'_, [u8]> {
    if std::str::from_utf8(text).is_ok() {
        return Cow::Borrowed(text);
    }
    let mut whole = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Err(error) = std::str::from_utf8(rest) {
        let (valid, behind) = rest.split_at_checked(error.valid_up_to()).unwrap_or((rest, &[]));
        whole.extend_from_slice(valid);
        if error.error_len().is_none() {
            return Cow::Owned(whole);
        }
        whole.push(b'?');
        rest = behind.get(1..).unwrap_or_default();
    }
    whole.extend_from_slice(rest);
    Cow::Owned(whole)
}

/// As [`to_utf8mb4`], with a question mark for each part that is not text in a multi-byte character set, as the server
/// converts the names that a client sends.
///
/// # Errors
/// The character set is not implemented, or the bytes are not text in a Unicode one.
pub fn to_utf8mb4_with_question_marks(collation: u16, text: &[u8]) -> Result<Cow<'_, [u8]>, ValueError> {
    match resolve(collation)?.0 {
        Charset::Table(table) => Ok(Cow::Owned(table.decode_with_question_marks(text).into_bytes())),
        _ => to_utf8mb4(collation, text),
    }
}

/// The text without an incomplete last character of a multi-byte set, which the server drops where it fills a CHAR.
#[must_use]
pub fn without_incomplete_end(collation: u16, text: &[u8]) -> &[u8] {
    match resolve(collation) {
        Ok((Charset::Table(table), _)) => table.without_incomplete_end(text),
        _ => text,
    }
}

/// Returns the text as utf8mb4, as the server stores it in a utf8mb4 column: every character goes through the tables.
///
/// # Errors
/// The character set is not implemented, or the bytes are not text in it.
pub(crate) fn stored_to_utf8mb4(collation: u16, text: &[u8]) -> Result<Cow<'_, [u8]>, ValueError> {
    let (charset, found) = resolve(collation)?;
    by_tables(charset, found, text)
}

fn by_tables(charset: Charset, found: Collation, text: &[u8]) -> Result<Cow<'_, [u8]>, ValueError> {
    let invalid = ValueError::Invalid { what: found.charset };
    match charset {
        Charset::AsIs => Ok(Cow::Borrowed(text)),
        Charset::Single(_) if text.is_ascii() => Ok(Cow::Borrowed(text)),
        Charset::Single(upper) | Charset::WithoutControls(upper) => {
            let chars = text.iter().map(|byte| match byte {
                _ if charset.lacks(*byte) => '?',
                0..=0x7f => char::from(*byte),
                _ => upper.get(usize::from(byte & 0x7f)).and_then(|c| char::from_u32(u32::from(*c))).unwrap_or('?'),
            });
            Ok(Cow::Owned(chars.collect::<String>().into_bytes()))
        }
        Charset::Utf16(unit) => {
            let (units, rest) = text.as_chunks::<2>();
            let decoded = char::decode_utf16(units.iter().map(|u| unit(*u))).collect::<Result<String, _>>();
            match decoded {
                Ok(decoded) if rest.is_empty() => Ok(Cow::Owned(decoded.into_bytes())),
                _ => Err(invalid),
            }
        }
        Charset::Utf32 => {
            let (units, rest) = text.as_chunks::<4>();
            let decoded = units.iter().map(|u| char::from_u32(u32::from_be_bytes(*u))).collect::<Option<String>>();
            match decoded {
                Some(decoded) if rest.is_empty() => Ok(Cow::Owned(decoded.into_bytes())),
                _ => Err(invalid),
            }
        }
        Charset::Table(table) if table.ascii && text.is_ascii() => Ok(Cow::Borrowed(text)),
        Charset::Table(table) => table.decode(text).map(|text| Cow::Owned(text.into_bytes())).ok_or(invalid),
    }
}

/// Converts utf8mb4 text to the character set of `collation`.
///
/// # Errors
/// The character set is not implemented, the bytes are not utf8mb4, or the set lacks a character.
pub fn from_utf8mb4(collation: u16, text: &[u8]) -> Result<Cow<'_, [u8]>, ValueError> {
    let (charset, found) = resolve(collation)?;
    if matches!(charset, Charset::AsIs) && found.id == collation::BINARY {
        return Ok(Cow::Borrowed(text));
    }
    let unicode = std::str::from_utf8(text).map_err(|_| ValueError::Invalid { what: "utf8mb4 text" })?;
    let missing = || ValueError::BadLiteral { what: found.charset, literal: unicode.into() };
    match charset {
        Charset::AsIs if found.mbmaxlen < 4 && unicode.chars().any(|c| c.len_utf8() > 3) => Err(missing()),
        Charset::AsIs => Ok(Cow::Borrowed(text)),
        Charset::Single(_) if text.is_ascii() => Ok(Cow::Borrowed(text)),
        Charset::Single(upper) | Charset::WithoutControls(upper) => {
            let byte = |c: char| match u8::try_from(c) {
                Ok(byte) if charset.lacks(byte) => None,
                Ok(byte) if byte.is_ascii() => Some(byte),
                // Several bytes of tis620 decode to U+FFFD; the server encodes it as the last of them.
                _ => upper
                    .iter()
                    .rposition(|u| u32::from(*u) == u32::from(c))
                    .and_then(|at| u8::try_from(at | 0x80).ok()),
            };
            unicode.chars().map(byte).collect::<Option<Vec<u8>>>().map(Cow::Owned).ok_or_else(missing)
        }
        Charset::Utf16(unit) => {
            if found.mbmaxlen < 4 && unicode.chars().any(|c| c.len_utf16() > 1) {
                return Err(missing());
            }
            // Shows which byte comes first.
            let big = unit([0, 1]) == 1;
            let bytes = |u: u16| if big { u.to_be_bytes() } else { u.to_le_bytes() };
            Ok(Cow::Owned(unicode.encode_utf16().flat_map(bytes).collect()))
        }
        Charset::Utf32 => Ok(Cow::Owned(unicode.chars().flat_map(|c| u32::from(c).to_be_bytes()).collect())),
        Charset::Table(table) if table.ascii && text.is_ascii() => Ok(Cow::Borrowed(text)),
        Charset::Table(table) => table.encode(unicode).map(Cow::Owned).ok_or_else(missing),
    }
}

/// As [`from_utf8mb4`], with a question mark for each character that the set lacks, as the server stores it when
/// sql_mode is not strict.
///
/// # Errors
/// The character set is not implemented, or the bytes are not utf8mb4.
pub fn from_utf8mb4_or_question_marks(collation: u16, text: &[u8]) -> Result<Cow<'_, [u8]>, ValueError> {
    let error = match from_utf8mb4(collation, text) {
        Err(error @ ValueError::BadLiteral { .. }) => error,
        other => return other,
    };
    let mut bytes = Vec::with_capacity(text.len());
    for character in std::str::from_utf8(text).map_err(|_| error)?.chars() {
        let mut place = [0; 4];
        let one = from_utf8mb4(collation, character.encode_utf8(&mut place).as_bytes());
        bytes.extend_from_slice(&one.or_else(|_| from_utf8mb4(collation, b"?"))?);
    }
    Ok(Cow::Owned(bytes))
}

/// Bytes that pad CHAR text and are stripped from its end.
pub(crate) fn pad(collation: u16) -> &'static [u8] {
    match collation::by_id(collation).map(|found| found.charset) {
        Some("binary") => &[0],
        Some("ucs2" | "utf16") => &[0, b' '],
        Some("utf16le") => &[b' ', 0],
        Some("utf32") => &[0, 0, 0, b' '],
        _ => b" ",
    }
}

/// The first `count` characters of text in a character set, or all of it. Each invalid byte counts as one character.
#[must_use]
pub fn first_characters<'a>(charset: &str, text: &'a [u8], count: u32) -> &'a [u8] {
    let mut end = 0;
    for _ in 0..count {
        let Some(rest @ [first, ..]) = text.get(end..) else { break };
        end += character_len(charset, *first, rest.get(1).copied().unwrap_or(0));
    }
    text.get(..end).unwrap_or(text)
}

/// Length in bytes of the character that begins with these two bytes.
pub(crate) fn character_len(charset: &str, first: u8, second: u8) -> usize {
    match charset {
        "utf8mb4" | "utf8mb3" => match first {
            0xc2..=0xdf => 2,
            0xe0..=0xef => 3,
            0xf0..=0xf4 => 4,
            _ => 1,
        },
        "ucs2" => 2,
        "utf32" => 4,
        "utf16" if first & 0xfc == 0xd8 => 4,
        "utf16le" if second & 0xfc == 0xd8 => 4,
        "utf16" | "utf16le" => 2,
        "gb18030" if first >= 0x81 && second.is_ascii_digit() => 4,
        "ujis" | "eucjpms" if first == 0x8f => 3,
        "sjis" | "cp932" if matches!(first, 0xa0..=0xdf) => 1,
        "big5" | "gb2312" | "gbk" | "gb18030" | "euckr" | "ujis" | "eucjpms" | "sjis" | "cp932" => {
            1 + usize::from(first >= 0x81)
        }
        _ => 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn id(name: &str) -> u16 {
        collation::charset_default(name).unwrap().id
    }

    #[test]
    fn latin1_is_windows_1252_with_five_more() {
        assert_eq!(to_utf8mb4(8, b"caf\xe9 \x80\x81").unwrap(), "café €\u{81}".as_bytes());
        assert_eq!(from_utf8mb4(8, "café €\u{81}".as_bytes()).unwrap().as_ref(), b"caf\xe9 \x80\x81");
        assert!(from_utf8mb4(8, "日".as_bytes()).is_err());
        assert_eq!(from_utf8mb4_or_question_marks(8, "é日a".as_bytes()).unwrap().as_ref(), b"\xe9?a");
        assert_eq!(from_utf8mb4_or_question_marks(id("ucs2"), "😀".as_bytes()).unwrap().as_ref(), b"\0?");
    }

    /// The server's answers (`tests/single_byte_charsets.rs` asks about every character).
    #[test]
    fn latin2_czech_cs_has_tables_of_its_own() {
        let (czech, general) = (2, id("latin2"));
        assert_eq!(collation::by_id(czech).unwrap().name, "latin2_czech_cs");
        assert_eq!(to_utf8mb4(general, b"\x7f\x81\xb1\x7f").unwrap(), "\x7f\u{81}ą\x7f".as_bytes());
        assert_eq!(to_utf8mb4(czech, b"\x7fa\xb1\x7f\x81").unwrap(), "\x7faą??".as_bytes());
        assert_eq!(stored_to_utf8mb4(czech, b"\x7fa").unwrap(), "?a".as_bytes());
        assert_eq!(from_utf8mb4(general, "\x7f\u{81}".as_bytes()).unwrap().as_ref(), b"\x7f\x81");
        assert!(from_utf8mb4(czech, b"a\x7f").is_err());
        let marked = from_utf8mb4_or_question_marks(czech, "ą\x7f\u{80}\u{9f}\u{a0}".as_bytes());
        assert_eq!(marked.unwrap().as_ref(), b"\xb1???\xa0");
    }

    /// Names on a 9.7 server, from clients of these character sets.
    #[test]
    fn what_is_no_text_becomes_question_marks() {
        let name = |charset, bytes: &[u8]| {
            String::from_utf8(to_utf8mb4_with_question_marks(id(charset), bytes).unwrap().into_owned()).unwrap()
        };
        for charset in ["eucjpms", "ujis"] {
            assert_eq!(name(charset, b"x\xe8\xa1\xa8y"), "x茵?y");
            assert_eq!(name(charset, b"x\x8f\xa1y"), "x??y");
            assert_eq!(name(charset, b"x\x8e y"), "x? y");
        }
        for charset in ["gb18030", "sjis", "cp932"] {
            assert_eq!(name(charset, b"x\xffy"), "x?y");
            assert_eq!(name(charset, b"x\x80y"), "x?y");
        }
        for charset in ["gbk", "big5", "euckr", "gb2312"] {
            assert_eq!(name(charset, b"x\xffy"), "x?");
        }
        assert_eq!(name("gb2312", b"x\xe8\xa1\xa8y"), "x琛?");
        assert_eq!(name("gbk", b"x\x80yz"), "x?z");
        assert_eq!(name("gbk", b"x\x81\xffy"), "x?y");
        assert_eq!(name("gb18030", b"x\x81\x30\xffy"), "x?0?y");
        let ends: [(&str, &[u8], &str); 9] = [
            ("swe7", b"z\xe8\xa1\xa8", "z???"),
            ("eucjpms", b"z\xa1\xff", "z??"),
            ("eucjpms", b"z\x8f\xa1", "z"),
            ("ujis", b"z\x80", "z?"),
            ("gb18030", b"z\xff", "z?"),
            ("gb18030", b"z\x81\x30\xff", "z"),
            ("gbk", b"z\x80", "z"),
            ("sjis", b"z\xa0", "z"),
            ("cp932", b"z\xfd", "z"),
        ];
        for (charset, bytes, expected) in ends {
            assert_eq!(name(charset, bytes), expected, "{charset} {bytes:02x?}");
        }
        assert!(to_utf8mb4_with_question_marks(255, b"x\xff").is_ok());
        assert_eq!(without_incomplete_end(id("gbk"), b"x\xe3\x81\x8b"), b"x\xe3\x81");
        assert_eq!(without_incomplete_end(id("eucjpms"), b"x\x8f\xa1"), b"x");
        assert_eq!(without_incomplete_end(id("eucjpms"), b"x\xff"), b"x\xff");
    }

    #[test]
    fn of_bytes_alike_the_last_one_is_stored() {
        assert_eq!(to_utf8mb4(id("tis620"), b"\xa0\xff").unwrap(), "\u{fffd}\u{fffd}".as_bytes());
        assert_eq!(from_utf8mb4(id("tis620"), "\u{fffd}".as_bytes()).unwrap().as_ref(), b"\xff");
    }

    #[test]
    fn others() {
        assert_eq!(to_utf8mb4(id("utf16"), &[0xd8, 0x3d, 0xde, 0x00]).unwrap(), "😀".as_bytes());
        assert_eq!(to_utf8mb4(id("utf16le"), &[0xe9, 0]).unwrap(), "é".as_bytes());
        assert_eq!(to_utf8mb4(id("utf32"), &[0, 1, 0xf6, 0]).unwrap(), "😀".as_bytes());
        assert_eq!(to_utf8mb4(id("gbk"), &[0xc4, 0xe3, b'a']).unwrap(), "你a".as_bytes());
        assert_eq!(to_utf8mb4(id("sjis"), &[0x81, 0x60]).unwrap(), "〜".as_bytes());
        assert_eq!(to_utf8mb4(id("cp932"), &[0x81, 0x60]).unwrap(), "～".as_bytes());
        assert_eq!(to_utf8mb4(id("gb2312"), &[0xa1, 0xa4]).unwrap(), "・".as_bytes());
        assert_eq!(from_utf8mb4(id("gbk"), "你a".as_bytes()).unwrap().as_ref(), [0xc4, 0xe3, b'a']);
        assert_eq!(to_utf8mb4(id("cp1251"), &[0xcf, b'a']).unwrap(), "Пa".as_bytes());
        assert_eq!(from_utf8mb4(id("utf16le"), "é".as_bytes()).unwrap().as_ref(), [0xe9, 0]);
        assert!(from_utf8mb4(id("ucs2"), "😀".as_bytes()).is_err());
        assert!(from_utf8mb4(id("utf8mb3"), "😀".as_bytes()).is_err());
        assert!(to_utf8mb4(id("utf16"), &[0xd8, 0x3d]).is_err());
        assert!(to_utf8mb4(id("utf32"), &[0, 1]).is_err());
        // As a server answered.
        assert_eq!(to_utf8mb4(id("swe7"), b"a[\x7b").unwrap(), "aÄä".as_bytes());
        assert_eq!(from_utf8mb4(id("swe7"), "åÖ".as_bytes()).unwrap().as_ref(), b"}\\");
        assert_eq!(to_utf8mb4(id("big5"), &[0xa7, 0x41, b'a']).unwrap(), "你a".as_bytes());
        assert_eq!(from_utf8mb4(id("big5"), "你a".as_bytes()).unwrap().as_ref(), [0xa7, 0x41, b'a']);
        assert_eq!(to_utf8mb4(id("ujis"), &[0x8f, 0xb0, 0xa1, 0xa4, 0xa2, 0x8e, 0xb1]).unwrap(), "丂あｱ".as_bytes());
        assert_eq!(
            from_utf8mb4(id("ujis"), "丂あｱ".as_bytes()).unwrap().as_ref(),
            [0x8f, 0xb0, 0xa1, 0xa4, 0xa2, 0x8e, 0xb1]
        );
        assert_eq!(to_utf8mb4(id("gb18030"), &[0x94, 0x39, 0xda, 0x33, 0xc4, 0xe3]).unwrap(), "💩你".as_bytes());
        assert_eq!(from_utf8mb4(id("gb18030"), "💩".as_bytes()).unwrap().as_ref(), [0x94, 0x39, 0xda, 0x33]);
        assert_eq!(from_utf8mb4(id("sjis"), "〜".as_bytes()).unwrap().as_ref(), [0x81, 0x60]);
        // A code of the set without a character.
        assert_eq!(to_utf8mb4(id("gbk"), &[0xfe, 0xfe, b'a']).unwrap(), "?a".as_bytes());
        assert!(matches!(to_utf8mb4(0, b"a"), Err(ValueError::Unsupported { .. })));
    }

    #[test]
    fn characters_from_the_front() {
        for (charset, text, count, len) in [
            ("utf8mb4", "aé日😀b".as_bytes(), 4, 10),
            ("utf8mb4", b"a\xff\xffb", 2, 2),
            ("utf8mb4", b"a\xf0", 9, 2),
            ("latin1", b"a\xe9b", 2, 2),
            ("utf16", &[0xd8, 0x3d, 0xde, 0, 0, b'a'], 1, 4),
            ("utf16le", &[b'a', 0, 0x3d, 0xd8, 0, 0xde, b'b', 0], 2, 6),
            ("sjis", &[0xb1, 0x81, 0x60, b'a'], 2, 3),
            ("gb18030", &[0x81, 0x30, 0x81, 0x30, 0xc4, 0xe3, b'a'], 2, 6),
            ("ujis", &[0x8f, 0xb0, 0xa1, 0x8e, 0xb1, b'a'], 2, 5),
        ] {
            assert_eq!(first_characters(charset, text, count).len(), len, "{charset} {text:02x?}");
        }
    }

    proptest! {
        #[test]
        fn what_converts_comes_back(text: String, collation in 1u16..330) {
            if let Ok(bytes) = from_utf8mb4(collation, text.as_bytes()) {
                // The server maps some characters to a similar one.
                let table = collation::by_id(collation).and_then(|found| charset_table::by_name(found.charset));
                prop_assume!(table.is_none_or(|table| text.chars().all(|char| table.comes_back(char))));
                let back = to_utf8mb4(collation, &bytes).unwrap().into_owned();
                prop_assert_eq!(back, text.as_bytes());
            }
        }

        #[test]
        fn never_panics(text: Vec<u8>, collation in 0u16..330) {
            let _ = to_utf8mb4(collation, &text);
            let _ = from_utf8mb4(collation, &text);
        }
    }
}
