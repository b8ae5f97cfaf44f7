//! Texts of GTID sets, as MySQL's functions read and print them.
//!
//! In: a client's text. Out: a set, or that it is malformed. MySQL 9.7 has two parsers that differ at the edges, so
//! there are two grammars here. Never here: the place of an error.

use base::{GtidSet, Tag, Uuid};

use crate::Result;
use crate::error::SqlError;

/// Largest number of a transaction (`GNO_END` is exclusive).
const NUMBER_MAX: u64 = i64::MAX as u64 - 1;
/// Characters of a malformed set that its error shows.
const SHOWN_MAX: usize = 200;
/// Characters of a UUID with dashes.
const UUID_LENGTH: usize = 36;

/// Whose parser reads a set.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Grammar {
    /// WAIT_FOR_EXECUTED_GTID_SET's (rpl_gtid_set.cc): numbers may have a plus sign, the end of an interval may be
    /// missing, UUIDs have dashes.
    Wait,
    /// GTID_SUBSET's and GTID_SUBTRACT's (gtid/gtid_set.h): numbers are digits, UUIDs may lack dashes or have braces.
    Set,
}

/// The set of a text; None if it is malformed. A UUID or tag without intervals, and an interval that ends before it
/// begins, add nothing.
pub(crate) fn parse(text: &str, grammar: Grammar) -> Option<GtidSet> {
    let mut set = GtidSet::new();
    for member in text.split(',').map(str::trim_ascii).filter(|member| !member.is_empty()) {
        let mut parts = member.split(':').map(str::trim_ascii);
        let uuid = uuid(parts.next()?, grammar)?;
        let mut tag = Tag::EMPTY;
        for part in parts {
            match part.bytes().next()? {
                b'a'..=b'z' | b'A'..=b'Z' | b'_' => tag = Tag::new(part.as_bytes()).ok()?,
                _ => {
                    let (first, last) = interval(part, grammar)?;
                    if first <= last {
                        set.add_range(uuid, tag, first, last);
                    }
                }
            }
        }
    }
    Some(set)
}

fn uuid(text: &str, grammar: Grammar) -> Option<Uuid> {
    if grammar == Grammar::Wait && text.len() != UUID_LENGTH {
        return None;
    }
    text.parse().ok()
}

fn interval(text: &str, grammar: Grammar) -> Option<(u64, u64)> {
    let (first, last) = match text.split_once('-') {
        None => (text, None),
        Some((first, last)) => (first, Some(last)),
    };
    let first = number(first, grammar).filter(|first| (1..=NUMBER_MAX).contains(first))?;
    let last = match last.map(str::trim_ascii) {
        None => first,
        Some("") if grammar == Grammar::Wait => 0,
        Some(last) => number(last, grammar).filter(|last| *last <= NUMBER_MAX)?,
    };
    Some((first, last))
}

fn number(text: &str, grammar: Grammar) -> Option<u64> {
    let text = text.trim_ascii();
    let digits = if grammar == Grammar::Wait { text.strip_prefix('+').unwrap_or(text) } else { text };
    let is_number = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
    if is_number { digits.parse().ok() } else { None }
}

/// The set of a text in an order to the replica.
///
/// # Errors
/// 1772 if it is malformed.
pub fn gtid_set(text: &str) -> Result<GtidSet> {
    parse(text, Grammar::Wait).ok_or_else(|| malformed(text))
}

pub(crate) fn malformed(text: &str) -> SqlError {
    let shown: String = text.chars().take(SHOWN_MAX).collect();
    SqlError::new(1772, "HY000", format!("Malformed GTID set specification '{shown}'."))
}

/// A set as MySQL prints it: a line a UUID.
#[must_use]
pub fn gtid_text(set: &GtidSet) -> String {
    set.to_string().replace(',', ",\n")
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const U: &str = "aaaaaaaa-0000-0000-0000-000000000001";

    fn read(text: &str, grammar: Grammar) -> Option<String> {
        parse(&text.replace('U', U), grammar).map(|set| set.to_string().replace(U, "U"))
    }

    /// What a 9.7 made of each text, with either parser.
    #[test]
    fn edges_are_mysqls() {
        let both = [
            ("", Some("")),
            (",", Some("")),
            ("U", Some("")),
            ("U,", Some("")),
            ("U:1,", Some("U:1")),
            (" U : 1 - 3 ,, ", Some("U:1-3")),
            ("U:5-3", Some("")),
            ("U:5-3:1", Some("U:1")),
            ("U:1-0", Some("")),
            ("U:tag", Some("")),
            ("U:1:tag", Some("U:1")),
            ("U:TAG:1", Some("U:tag:1")),
            ("U:tag:tug:1", Some("U:tug:1")),
            ("U:01", Some("U:1")),
            ("U:1:3-4:tag:2:1,U:9", Some("U:1:3-4:9:tag:1-2")),
            ("U:9223372036854775806", Some("U:9223372036854775806")),
            ("U:9223372036854775807", None),
            ("U:1-9223372036854775807", None),
            ("U:99999999999999999999", None),
            ("U:0", None),
            ("U:", None),
            ("U:tag:", None),
            ("U:1::3", None),
            ("U:-3", None),
            ("U:1-x", None),
            ("U:1-2-3", None),
            ("U:T-g:1", None),
            ("U:1 U:2", None),
            ("U:1;U:2", None),
            ("junk", None),
            ("1", None),
            ("x,U:1", None),
        ];
        for (text, read_as) in both {
            for grammar in [Grammar::Wait, Grammar::Set] {
                assert_eq!(read(text, grammar).as_deref(), read_as, "{text} {grammar:?}");
            }
        }
        let undashed = U.replace('-', "");
        let apart = [
            ("U:1-", Some(""), None),
            ("U:5-:1", Some("U:1"), None),
            ("U:+1", Some("U:1"), None),
            ("{U}:1", None, Some("U:1")),
            (&format!("{undashed}:1"), None, Some("U:1")),
        ];
        for (text, wait, set) in apart {
            assert_eq!(read(text, Grammar::Wait).as_deref(), wait, "{text}");
            assert_eq!(read(text, Grammar::Set).as_deref(), set, "{text}");
        }
    }

    #[test]
    fn a_line_a_uuid() {
        let set =
            parse("bbbbbbbb-0000-0000-0000-000000000001:7,aaaaaaaa-0000-0000-0000-000000000001:1:3", Grammar::Set);
        let text = "aaaaaaaa-0000-0000-0000-000000000001:1:3,\nbbbbbbbb-0000-0000-0000-000000000001:7";
        assert_eq!(gtid_text(&set.unwrap()), text);
    }

    proptest! {
        #[test]
        fn any_text_is_a_set_or_malformed(text in "[-U:,0-9a-z+{} é]{0,60}") {
            for grammar in [Grammar::Wait, Grammar::Set] {
                if let Some(set) = parse(&text.replace('U', U), grammar) {
                    prop_assert_eq!(parse(&gtid_text(&set), grammar), Some(set));
                }
            }
        }
    }
}
