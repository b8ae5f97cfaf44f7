//! Names of a result's columns: those that a statement gives, and those of expressions without one.
//!
//! In: the text, as UTF-8. Out: the name as MySQL sends it. Never here: names of tables and their columns. What MySQL
//! does was seen on 9.7: it keeps names in utf8mb3, without spaces and control characters at their beginning, and cuts
//! them.

use crate::error::Warning;
use crate::invalid::{LAST_OF_UTF8MB3, before_nul, utf8_of, utf8mb3_of};

/// Bytes of a name that a statement gives, at most.
const GIVEN_BYTES: usize = 256;
/// Bytes of an expression's name, at most.
const OWN_BYTES: usize = 255;
/// Bytes of a warning's text, at most (MYSQL_ERRMSG_SIZE).
const MESSAGE_BYTES: usize = 511;

/// Bytes beyond ASCII with which no name begins, by character set, in hexadecimal: those that a 9.7 left out of
/// `SELECT _charset'…'`.
const NOT_SEEN: &[(&str, &str)] = &[
    ("armscii8", "80-a0"),
    ("ascii", "80-ff"),
    ("big5", "80-a0 fa-ff"),
    ("binary", "80-ff"),
    ("cp1250", "80-81 83 88 90 98 a0"),
    ("cp1251", "82 84-89 8b 91-99 9b a0 a4 a6-a7 a9 ab-ae b0-b1 b5-b7 b9 bb"),
    ("cp1256", "80 82 84-8b 8f 95-9b 9d-a0 a2-aa ae-af b2-b9 bc-be c0 d7 f7 fd-ff"),
    ("cp1257", "80-a7 a9 ab-ae b0-b7 b9 bb-be d7 f7 ff"),
    ("cp850", "ff"),
    ("cp852", "9e aa ae-b4 b9-bc bf-c5 c8-cf d9-dc df ef-fa fe-ff"),
    ("cp866", "b0-df f8-ff"),
    ("cp932", "fd-ff"),
    ("dec8", "80-a0"),
    ("eucjpms", "80-8d 90-a0 ff"),
    ("euckr", "ff"),
    ("gb18030", "ff"),
    ("gb2312", "80-a0 ff"),
    ("gbk", "80-a0 ff"),
    ("geostd8", "80-81 83 88 8a 8c-90 98-9a 9c-bf e6-ff"),
    ("greek", "80-a0 a4-a5 aa ae d2 ff"),
    ("hebrew", "80-a0 c0-df fb-ff"),
    ("hp8", "80-a0 b1-b2 f2-f5 ff"),
    ("keybcs2", "ac-df e6 ec ef-ff"),
    ("latin1", "81 8d 8f-90 9d a0"),
    ("latin2", "80-a0"),
    ("latin5", "80-a0"),
    ("latin7", "81 83 86-88 8a 8c 90 98-9a 9c 9f-a1 a5"),
    ("macce", "a0-a1 a3-a6 a8-aa ac-ad b2-b3 b6-b7 c2-c3 c6-ca d0-d7 dc-dd e2-e3 ff"),
    ("macroman", "80 a0-a6 a8-ad b0-bd c0-c3 c5-cb ce-d7 da-e5 f0 f6-ff"),
    ("sjis", "fd-ff"),
    ("swe7", "80-ff"),
    ("tis620", "80-ff"),
    ("ujis", "80-8d 90-a0 ff"),
    ("utf8mb3", "ff"),
    ("utf8mb4", "ff"),
];

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
    before_nul(cut(&name, bytes)).to_owned()
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
    without_first(text, |byte| matches!(byte, 0..=b' ' | 0x7f | 0xff))
}

/// As [`from_graph`], of a text in a character set.
pub(crate) fn from_graph_of<'a>(charset: &str, text: &'a [u8]) -> &'a [u8] {
    if matches!(text, [b'!'..=b'~', ..]) {
        return text;
    }
    let (_, ranges) = NOT_SEEN.iter().find(|(own, _)| *own == charset).unwrap_or(&("", ""));
    let byte = |digits| u8::from_str_radix(digits, 16).ok();
    let is_in = |one: u8| {
        ranges.split(' ').any(|range| {
            let (first, last) = range.split_once('-').unwrap_or((range, range));
            byte(first).is_some_and(|first| first <= one) && byte(last).is_some_and(|last| one <= last)
        })
    };
    without_first(text, |byte| matches!(byte, 0..=b' ' | 0x7f) || is_in(byte))
}

fn without_first(text: &[u8], is_left_out: impl Fn(u8) -> bool) -> &[u8] {
    text.get(text.iter().position(|byte| !is_left_out(*byte)).unwrap_or(text.len())..).unwrap_or_default()
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
    fn what_no_name_begins_with_depends_on_the_character_set() {
        let text = b" \xc3\xa0\x81x";
        let of = |charset| from_graph_of(charset, text).len();
        assert_eq!([of("utf8mb4"), of("latin1"), of("binary"), of("tis620"), of("unknown")], [4, 4, 1, 1, 4]);
        assert_eq!(from_graph_of("cp1251", b"\x84\xb9a"), b"a");
        assert_eq!(own(b"a\0b"), b"a");
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
