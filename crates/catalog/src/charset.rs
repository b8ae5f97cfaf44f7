//! Character sets by name, the meaning of CHARACTER SET and COLLATE clauses, and conversion of text between sets.
//!
//! In: names from statements, numbers from the log. Out: collations with the facts that a type's length depends on.
//! Never here: comparison or weights (crate `values`), guesses: text that cannot be converted exactly is refused.

use values::collation;

use crate::error::Problem;

pub(crate) use values::collation::{BINARY, Collation, UTF8MB4_0900_AI_CI, by_id, by_name};

/// `utf8mb3_general_ci`, the collation of NATIONAL CHARACTER.
#[cfg(test)]
pub(crate) const UTF8MB3_GENERAL_CI: u16 = 33;

/// Default collation of a character set; `utf8` means utf8mb3.
pub(crate) fn default_collation(charset: &str) -> Option<Collation> {
    collation::charset_default(charset)
}

/// The `_bin` collation of a character set.
pub(crate) fn binary_collation(charset: &str) -> Option<Collation> {
    if charset == "binary" { by_id(BINARY) } else { by_name(&format!("{charset}_bin")) }
}

/// Bytes 0x80 to 0x9f of MySQL's latin1, which is Windows-1252 with its five unassigned bytes kept as control
/// characters.
const LATIN1_HIGH: [u16; 32] = [
    0x20ac, 0x81, 0x201a, 0x0192, 0x201e, 0x2026, 0x2020, 0x2021, 0x02c6, 0x2030, 0x0160, 0x2039, 0x0152, 0x8d, 0x017d,
    0x8f, 0x90, 0x2018, 0x2019, 0x201c, 0x201d, 0x2022, 0x2013, 0x2014, 0x02dc, 0x2122, 0x0161, 0x203a, 0x0153, 0x9d,
    0x017e, 0x0178,
];

fn latin1_char(byte: u8) -> char {
    let code = match byte {
        0x80..=0x9f => LATIN1_HIGH.get(usize::from(byte - 0x80)).copied().unwrap_or(u16::from(byte)),
        other => u16::from(other),
    };
    char::from_u32(u32::from(code)).unwrap_or(char::REPLACEMENT_CHARACTER)
}

fn latin1_byte(character: char) -> Option<u8> {
    let code = u32::from(character);
    match LATIN1_HIGH.iter().position(|high| u32::from(*high) == code) {
        Some(position) => u8::try_from(position + 0x80).ok(),
        None if (0x80..=0x9f).contains(&code) => None,
        None => u8::try_from(code).ok(),
    }
}

fn not_converted(charset: &str) -> Problem {
    Problem::NotSupported(format!("text in character set {charset} beyond ASCII in a definition"))
}

/// Decodes bytes in `charset`.
pub(crate) fn to_unicode(bytes: &[u8], charset: &str) -> Result<String, Problem> {
    let wide = |units: Option<Vec<char>>| units.map(String::from_iter).ok_or_else(|| not_converted(charset));
    match charset {
        "utf8mb4" | "utf8mb3" | "utf8" | "binary" => {
            String::from_utf8(bytes.to_vec()).map_err(|_| not_converted(charset))
        }
        "latin1" => Ok(bytes.iter().map(|byte| latin1_char(*byte)).collect()),
        "ucs2" | "utf16" => wide(utf16_chars(bytes, u16::from_be_bytes)),
        "utf16le" => wide(utf16_chars(bytes, u16::from_le_bytes)),
        "utf32" => {
            // MySQL left-pads a short last unit with zeros. Nobody writes that, so it is refused.
            let (units, rest) = bytes.as_chunks::<4>();
            let chars = units.iter().map(|unit| char::from_u32(u32::from_be_bytes(*unit))).collect();
            wide(if rest.is_empty() { chars } else { None })
        }
        _ => {
            let collation = default_collation(charset).ok_or_else(|| not_converted(charset))?;
            let text = values::charset::to_utf8mb4(collation.id, bytes).map_err(|_| not_converted(charset))?;
            String::from_utf8(text.into_owned()).map_err(|_| not_converted(charset))
        }
    }
}

/// Decodes a name, a comment, or a member of ENUM or SET. What is not text in a multi-byte set becomes question marks; in
/// other values the server refuses it (1067, 3854; seen on 9.7).
pub(crate) fn name_to_unicode(bytes: &[u8], charset: &str) -> Result<String, Problem> {
    match default_collation(charset) {
        Some(collation) if !bytes.is_ascii() && values::charset::is_multi_byte(collation.id) => {
            let text = values::charset::to_utf8mb4_with_question_marks(collation.id, bytes);
            text.ok().and_then(|text| String::from_utf8(text.into_owned()).ok()).ok_or_else(|| not_converted(charset))
        }
        _ => to_unicode(bytes, charset),
    }
}

fn utf16_chars(bytes: &[u8], unit: fn([u8; 2]) -> u16) -> Option<Vec<char>> {
    let (pairs, rest) = bytes.as_chunks::<2>();
    if !rest.is_empty() {
        return None;
    }
    char::decode_utf16(pairs.iter().map(|pair| unit(*pair))).collect::<Result<_, _>>().ok()
}

/// Encodes text in `charset`.
pub(crate) fn from_unicode(text: &str, charset: &str) -> Result<Vec<u8>, Problem> {
    let refused = || not_converted(charset);
    match charset {
        "utf8mb4" | "binary" => Ok(text.as_bytes().to_vec()),
        "utf8mb3" if text.chars().all(|character| character.len_utf8() < 4) => Ok(text.as_bytes().to_vec()),
        "latin1" => text.chars().map(latin1_byte).collect::<Option<_>>().ok_or_else(refused),
        "ucs2" if text.chars().any(|character| character.len_utf16() > 1) => Err(refused()),
        "ucs2" | "utf16" => Ok(text.encode_utf16().flat_map(u16::to_be_bytes).collect()),
        "utf16le" => Ok(text.encode_utf16().flat_map(u16::to_le_bytes).collect()),
        "utf32" => Ok(text.chars().flat_map(|character| u32::from(character).to_be_bytes()).collect()),
        _ => {
            let collation = default_collation(charset).ok_or_else(refused)?;
            let bytes = values::charset::from_utf8mb4(collation.id, text.as_bytes()).map_err(|_| refused())?;
            Ok(bytes.into_owned())
        }
    }
}

/// Encodes text in `charset`, with a question mark for each character not in it. The server treats ENUM and SET names
/// this way, even in strict mode (seen on 9.7).
pub(crate) fn from_unicode_or_question_marks(text: &str, charset: &str) -> Result<Vec<u8>, Problem> {
    from_unicode(text, charset).or_else(|_| {
        let one = |character: char| from_unicode(character.encode_utf8(&mut [0; 4]), charset);
        let bytes = text.chars().map(|character| one(character).or_else(|_| from_unicode("?", charset)));
        Ok(bytes.collect::<Result<Vec<_>, _>>()?.concat())
    })
}

/// True for text that utf8mb3, the character set of the source's dictionary, has.
pub(crate) fn is_utf8mb3(text: &str) -> bool {
    text.chars().all(|letter| letter.len_utf8() <= 3)
}

/// Text with a question mark for each character that utf8mb3 lacks.
pub(crate) fn in_utf8mb3(text: &str) -> String {
    text.chars().map(|letter| if letter.len_utf8() > 3 { '?' } else { letter }).collect()
}

/// Converts text from one character set to another. Bytes from or to binary are copied as they are, with zeros in front
/// up to whole code units (`String::copy_aligned`, sql-common/sql_string.cc).
pub(crate) fn convert(bytes: &[u8], from: &str, to: &str) -> Result<Vec<u8>, Problem> {
    let from = if from == "utf8" { "utf8mb3" } else { from };
    if from == to || to == "binary" {
        return Ok(bytes.to_vec());
    }
    if from == "binary" {
        let missing = bytes.len().next_multiple_of(code_unit(to)) - bytes.len();
        return Ok([&vec![0; missing], bytes].concat());
    }
    from_unicode(&to_unicode(bytes, from)?, to)
}

/// As [`convert`], with a question mark for each character that is missing there.
///
/// # Errors
/// Bytes that are not whole code units: the server puts zeros in front in a default, and cuts members of ENUM and SET.
pub(crate) fn convert_or_question_marks(bytes: &[u8], from: &str, to: &str) -> Result<Vec<u8>, Problem> {
    match (from, to) {
        (_, "binary") => Ok(bytes.to_vec()),
        ("binary", to) if bytes.len().is_multiple_of(code_unit(to)) => Ok(bytes.to_vec()),
        ("binary", to) => Err(Problem::NotSupported(format!("binary text of {} bytes as {to}", bytes.len()))),
        _ => from_unicode_or_question_marks(&name_to_unicode(bytes, from)?, to),
    }
}

/// As [`convert`], of a default of CHAR, ENUM or SET: the server drops an incomplete last character there, which it
/// refuses for VARCHAR (seen on 9.7).
pub(crate) fn convert_to_char(bytes: &[u8], from: &str, to: &str) -> Result<Vec<u8>, Problem> {
    let whole = |from: Collation| values::charset::without_incomplete_end(from.id, bytes);
    let bytes = if from == to || to == "binary" { bytes } else { default_collation(from).map_or(bytes, whole) };
    convert(bytes, from, to)
}

/// Bytes of a code unit of a character set.
fn code_unit(charset: &str) -> usize {
    match charset {
        "ucs2" | "utf16" | "utf16le" => 2,
        "utf32" => 4,
        _ => 1,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_numbers() {
        let id = |name: &str| by_name(name).map(|found| found.id);
        assert_eq!(id("utf8mb4_0900_ai_ci"), Some(255));
        assert_eq!(id("UTF8_general_ci"), Some(33));
        assert_eq!(id("utf8mb3_bin"), Some(83));
        assert_eq!(id("binary"), Some(63));
        assert_eq!(id("latin1_swedish_ci"), Some(8));
        assert_eq!(id("gb18030_unicode_520_ci"), Some(250));
        assert_eq!(id("nonsense"), None);
        assert_eq!(id("latin1"), None);
        assert_eq!(by_id(309).map(|found| (found.charset, found.mbmaxlen)), Some(("utf8mb4", 4)));
        assert_eq!(default_collation("UTF8").map(|found| found.id), Some(33));
        assert_eq!(binary_collation("utf8mb4").map(|found| found.id), Some(46));
        assert_eq!(binary_collation("binary").map(|found| found.id), Some(63));
        assert_eq!(by_name("utf8mb3_general_ci").map(|found| found.id), Some(UTF8MB3_GENERAL_CI));
    }

    #[test]
    fn conversions() {
        assert_eq!(convert("é€".as_bytes(), "utf8mb4", "latin1").unwrap(), [0xe9, 0x80]);
        assert_eq!(convert(&[0xe9, 0x80], "latin1", "utf8mb4").unwrap(), "é€".as_bytes());
        assert_eq!(convert("é".as_bytes(), "utf8mb4", "utf16").unwrap(), [0, 0xe9]);
        assert_eq!(convert("a".as_bytes(), "utf8mb4", "cp1251").unwrap(), b"a");
        assert!(convert("é".as_bytes(), "utf8mb4", "cp1251").is_err());
        assert_eq!(convert("ж".as_bytes(), "utf8mb4", "cp1251").unwrap(), [0xe6]);
        assert_eq!(convert("ä{".as_bytes(), "utf8mb4", "swe7").ok(), None);
        assert_eq!(convert(b"{", "swe7", "utf8mb4").unwrap(), "ä".as_bytes());
        assert_eq!(convert("好".as_bytes(), "utf8mb4", "big5").unwrap(), [0xa6, 0x6e]);
        assert!(convert("😀".as_bytes(), "utf8mb4", "utf8mb3").is_err());
        assert_eq!(from_unicode_or_question_marks("fünf漢", "ascii").unwrap(), b"f?nf?");
        assert_eq!(from_unicode_or_question_marks("ü😀", "ucs2").unwrap(), [0, 0xfc, 0, b'?']);
        assert_eq!(convert(&[0xff], "utf8mb4", "binary").unwrap(), [0xff]);
    }
}
