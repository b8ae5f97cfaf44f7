//! Names of a result's columns: those that a statement gives, and those of expressions without one.
//!
//! In: the text, as UTF-8. Out: the name as MySQL sends it. Never here: names of tables and their columns. What MySQL
//! does was seen on 9.7: it keeps names in utf8mb3, without spaces and control characters at their beginning, and cuts
//! them.

use crate::error::Warning;
use crate::invalid::{LAST_OF_UTF8MB3, utf8_of, utf8mb3_of};

/// Bytes of a name that a statement gives, at most.
const GIVEN_BYTES: usize = 256;
/// Bytes of an expression's name, at most.
const OWN_BYTES: usize = 255;
/// Bytes of a warning's text, at most (MYSQL_ERRMSG_SIZE).
const MESSAGE_BYTES: usize = 511;

/// The name of a column after its expression; its text may be no UTF-8.
pub(crate) fn own(text: &[u8]) -> Vec<u8> {
    in_names(text, OWN_BYTES).into_bytes()
}

/// The name of a column that quotes a text of the statement; it may be no UTF-8.
#[must_use]
pub fn named_after_text(text: &[u8]) -> String {
    let (name, _) = utf8_of(from_graph(text), "utf8mb3", LAST_OF_UTF8MB3);
    cut(&name, OWN_BYTES).to_owned()
}

/// The name of a column that a statement gives it; it may be no UTF-8.
pub(crate) fn given(name: &[u8]) -> Vec<u8> {
    in_names(name, GIVEN_BYTES).into_bytes()
}

fn in_names(text: &[u8], bytes: usize) -> String {
    let (name, _) = utf8mb3_of(from_graph(text));
    cut(&name, bytes).to_owned()
}

/// What MySQL says of such a name, in UTF-8, when it is parsed.
pub(crate) fn lost_of(name: &[u8]) -> Option<Warning> {
    let text = String::from_utf8_lossy(name);
    let kept = given(name);
    match (kept.len() == text.len(), kept.is_empty()) {
        (true, _) => None,
        (false, true) => Some(Warning::new(1474, message(&format!("Name '{text}' has become ''")))),
        (false, false) => Some(Warning::new(1466, message(&format!("Leading spaces are removed from name '{text}'")))),
    }
}

fn message(text: &str) -> &str {
    cut(text, MESSAGE_BYTES)
}

/// Without blanks, control characters and bytes of no character at the beginning.
pub(crate) fn from_graph(text: &[u8]) -> &[u8] {
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
        let said = |name: &str| lost_of(name.as_bytes()).map(|it| (it.code, it.message));
        assert_eq!(said("a b"), None);
        assert_eq!(said("  x"), Some((1466, "Leading spaces are removed from name '  x'".into())));
        assert_eq!(said(" "), Some((1474, "Name ' ' has become ''".into())));
        assert_eq!(said(&"ä".repeat(300)).unwrap().1.len(), 510);
    }
}
