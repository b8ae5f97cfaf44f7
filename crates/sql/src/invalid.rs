//! Bytes that are no text of their character set.
//!
//! In: bytes of a client. Out: what MySQL makes of them as UTF-8, where they stop being text, and how its messages show
//! them. Never here: a session's character sets.

use values::collation;

pub(crate) const LAST_OF_UTF8MB3: char = '\u{ffff}';

/// What MySQL makes of bytes of utf8mb4 or utf8mb3 when it converts them, and whether a character was lost: one beyond
/// `last` and each byte that is in none are a question mark, and the bytes of a character that has too few are left out
/// with all that follows.
pub(crate) fn utf8_of(text: &[u8], charset: &str, last: char) -> (String, bool) {
    let (mut name, mut lost, mut rest) = (String::with_capacity(text.len()), false, text);
    while let Some(first) = rest.first() {
        let wanted = match first {
            0..=0xc1 => 1,
            0xc2..=0xdf => 2,
            0xe0..=0xef => 3,
            // No character of utf8mb3 begins so.
            0xf0.. if charset == "utf8mb3" => 1,
            0xf0.. => 4,
        };
        let Some((character, behind)) = rest.split_at_checked(wanted) else { break };
        let letter = std::str::from_utf8(character).ok().and_then(|one| one.chars().next());
        let kept = letter.filter(|letter| *letter <= last);
        lost |= kept.is_none();
        name.push(kept.unwrap_or('?'));
        rest = if letter.is_some() { behind } else { rest.get(1..).unwrap_or_default() };
    }
    (name, lost)
}

/// Bytes of a literal before the first that is in no character of its character set.
pub(crate) fn valid_up_to(charset: &str, text: &[u8]) -> usize {
    let of_utf8 = || std::str::from_utf8(text).map_or_else(|error| error.valid_up_to(), str::len);
    match (charset, collation::charset_default(charset)) {
        ("utf8mb4", _) => of_utf8(),
        ("utf8mb3", _) => {
            let end = of_utf8();
            text.iter().take(end).position(|byte| *byte >= 0xf0).unwrap_or(end)
        }
        (_, Some(found)) if found.mbmaxlen > 1 && !text.is_ascii() => {
            let mut at = 0;
            while let Some(rest) = text.get(at..).filter(|rest| !rest.is_empty()) {
                let one = values::charset::first_characters(charset, rest, 1);
                // Of these only sjis and cp932 have characters of one byte beyond ASCII.
                let is_half =
                    matches!(one, [0x80]) || matches!(one, [0x80..=0xff]) && !matches!(charset, "sjis" | "cp932");
                if one.is_empty() || is_half || values::charset::to_utf8mb4(found.id, one).is_err() {
                    break;
                }
                at += one.len();
            }
            at
        }
        _ => text.len(),
    }
}

/// Text of utf8mb3 with a question mark for each byte that is in none of its characters.
pub(crate) fn utf8mb3_by_bytes(text: &[u8]) -> Vec<u8> {
    let (mut whole, mut rest) = (Vec::with_capacity(text.len()), text);
    while let Some((valid, [_, behind @ ..])) = rest.split_at_checked(valid_up_to("utf8mb3", rest)) {
        whole.extend_from_slice(valid);
        whole.push(b'?');
        rest = behind;
    }
    whole.extend_from_slice(rest);
    whole
}

/// The error or warning of a literal that is no text of its character set.
pub(crate) fn said_of_literal(charset: &str, text: &[u8]) -> Option<String> {
    let valid = valid_up_to(charset, text);
    // sql/sql_string.cc, check_well_formed_result: three bytes from the first that is no character.
    let hex: String = text.iter().skip(valid).take(3).map(|byte| format!("{byte:02X}")).collect();
    (valid < text.len()).then(|| format!("Invalid {charset} character string: '{hex}'"))
}

/// As [`utf8_of`], of utf8mb4 in utf8mb3.
pub(crate) fn utf8mb3_of(text: &[u8]) -> (String, bool) {
    utf8_of(text, "utf8mb4", LAST_OF_UTF8MB3)
}

/// Whether it is text of utf8mb3.
pub(crate) fn whole(text: &[u8]) -> bool {
    std::str::from_utf8(text).is_ok_and(|text| text.chars().all(|letter| letter <= LAST_OF_UTF8MB3))
}

/// A text as MySQL's functions of C see it.
pub(crate) fn before_nul(text: &str) -> &str {
    text.split('\0').next().unwrap_or_default()
}

/// Bytes of a text that an error about its conversion shows.
const SHOWN_BYTES: usize = 6;

/// A text as an error about its conversion shows it.
pub(crate) fn in_hex(text: &[u8]) -> String {
    let more = if text.len() > SHOWN_BYTES { "..." } else { "" };
    let shown: String = text.iter().take(SHOWN_BYTES).map(byte_in_hex).collect();
    shown + more
}

pub(crate) fn byte_in_hex(byte: &u8) -> String {
    match byte {
        b' '..=b'~' => char::from(*byte).to_string(),
        byte => format!("\\x{byte:02X}"),
    }
}
