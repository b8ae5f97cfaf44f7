//! Names of a result's columns: those that a statement gives, and those of expressions without one.
//!
//! In: the text, as UTF-8. Out: the name as MySQL sends it. Never here: names of tables and their columns. What MySQL
//! does was seen on 9.7: it keeps names in utf8mb3, without spaces and control characters at their beginning, and cuts
//! them.

use crate::Result;
use crate::error::{SqlError, Warning};

/// Bytes of a name that a statement gives, at most.
const GIVEN_BYTES: usize = 256;
/// Bytes of an expression's name, at most.
const OWN_BYTES: usize = 255;
/// Bytes of a text that an error about its characters shows.
const SHOWN_BYTES: usize = 6;
/// Bytes of a warning's text, at most (MYSQL_ERRMSG_SIZE).
const MESSAGE_BYTES: usize = 511;

/// The name of a column after its expression; its text may be no UTF-8.
pub(crate) fn own(text: &[u8]) -> Vec<u8> {
    kept(text, OWN_BYTES)
}

/// The name of a column that a statement gives it; it may be no UTF-8.
pub(crate) fn given(name: &[u8]) -> Vec<u8> {
    kept(name, GIVEN_BYTES)
}

fn kept(text: &[u8], bytes: usize) -> Vec<u8> {
    let mut name = String::new();
    let mut rest = from_graph(text);
    loop {
        let (read, wrong) = match std::str::from_utf8(rest) {
            Ok(text) => (text, None),
            Err(error) => (valid(rest, error.valid_up_to()), error.error_len()),
        };
        // utf8mb3 has no other characters.
        name.extend(read.chars().map(|letter| if letter > '\u{ffff}' { '?' } else { letter }));
        // What begins a character at the end is left out.
        if wrong.is_none() {
            return cut(&name, bytes).as_bytes().to_vec();
        }
        name.push('?');
        rest = rest.get(read.len() + 1..).unwrap_or_default();
    }
}

fn valid(bytes: &[u8], len: usize) -> &str {
    bytes.get(..len).and_then(|bytes| std::str::from_utf8(bytes).ok()).unwrap_or_default()
}

/// What MySQL says of such a name, in UTF-8, when it is parsed.
///
/// # Errors
/// 3854 for a character that utf8mb3 does not have.
pub(crate) fn check_given(name: &[u8]) -> Result<Option<Warning>> {
    let text = String::from_utf8_lossy(name);
    if text.chars().any(|letter| letter > '\u{ffff}') {
        let hex = |byte: &u8| match byte {
            b' '..=b'~' => char::from(*byte).to_string(),
            byte => format!("\\x{byte:02X}"),
        };
        let shown: String = name.iter().take(SHOWN_BYTES).map(hex).collect();
        let more = if name.len() > SHOWN_BYTES { "..." } else { "" };
        let text = format!("Cannot convert string '{shown}{more}' from utf8mb4 to utf8mb3");
        return Err(SqlError::new(3854, "HY000", text));
    }
    let kept = given(name);
    let warning = match (kept.len() == text.len(), kept.is_empty()) {
        (true, _) => return Ok(None),
        (false, true) => Warning::new(1474, message(&format!("Name '{text}' has become ''"))),
        (false, false) => Warning::new(1466, message(&format!("Leading spaces are removed from name '{text}'"))),
    };
    Ok(Some(warning))
}

fn message(text: &str) -> &str {
    cut(text, MESSAGE_BYTES)
}

/// Without blanks, control characters and bytes of no character at the beginning.
fn from_graph(text: &[u8]) -> &[u8] {
    let is_seen = |byte: &u8| !matches!(byte, 0..=b' ' | 0x7f | 0xf8..);
    text.get(text.iter().position(is_seen).unwrap_or(text.len())..).unwrap_or_default()
}

fn cut(text: &str, bytes: usize) -> &str {
    let end = (0..=bytes.min(text.len())).rev().find(|at| text.is_char_boundary(*at)).unwrap_or(0);
    text.get(..end).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_cut_to_bytes_of_whole_characters() {
        let of = |text: String| own(text.as_bytes()).len();
        assert_eq!((of("x".repeat(300)), of("ä".repeat(300)), of("xä".repeat(300))), (255, 254, 255));
        assert_eq!(own("  \t\n😀 x".as_bytes()), b"? x");
        for (text, name) in
            [(&b"\xff"[..], &b""[..]), (b"a\xd2\xe4", b"a?"), (b"\xed\xa0\x80", b"???"), (b"\xf0\x9f", b"")]
        {
            assert_eq!(own(text), name, "{text:?}");
        }
        assert_eq!(
            (given("ä".repeat(300).as_bytes()).len(), given(b" \x7f"), given(b" a ")),
            (256, vec![], b"a ".to_vec())
        );
    }

    #[test]
    fn what_a_name_loses_is_said() {
        let said = |name: &str| check_given(name.as_bytes()).map(|warning| warning.map(|it| (it.code, it.message)));
        assert_eq!(said("a b"), Ok(None));
        assert_eq!(said("  x"), Ok(Some((1466, "Leading spaces are removed from name '  x'".into()))));
        assert_eq!(said(" "), Ok(Some((1474, "Name ' ' has become ''".into()))));
        assert_eq!(said(&"ä".repeat(300)).unwrap().unwrap().1.len(), 510);
        let error = said("😀aaaa").unwrap_err();
        let text = "Cannot convert string '\\xF0\\x9F\\x98\\x80aa...' from utf8mb4 to utf8mb3";
        assert_eq!((error.code, error.message.as_str()), (3854, text));
    }
}
