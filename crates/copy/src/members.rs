//! Members of ENUM and SET in the text of SHOW CREATE TABLE, which prints characters outside the basic plane as `?`.
//!
//! In: the text, and a way to query a column's exact members. Out: the text with those members. Never here: a guess;
//! members that cannot be queried stay as printed.

use std::ops::Range;

/// List of members of one column in the text.
#[derive(Debug, PartialEq, Eq)]
struct List {
    column: String,
    is_set: bool,
    /// Byte range between the parentheses.
    place: Range<usize>,
    count: usize,
}

/// Queries a column's members as the server spells them in full: column, whether it is a SET, number of members. None
/// if there is no such column.
type Ask<'a> = dyn FnMut(&str, bool, usize) -> client::Result<Option<Vec<String>>> + 'a;

/// Queries the members of each list that contains a `?`, and writes them into the text.
///
/// # Errors
/// Those of `ask`.
pub(crate) fn spell_members(mut definition: Vec<u8>, ask: &mut Ask<'_>) -> client::Result<Vec<u8>> {
    // From the end, so that earlier ranges remain valid.
    for list in lists(&definition).into_iter().rev() {
        if !definition.get(list.place.clone()).is_some_and(|text| text.contains(&b'?')) {
            continue;
        }
        if let Some(members) = ask(&list.column, list.is_set, list.count)? {
            let members: Vec<String> = members.iter().map(|member| literal(member)).collect();
            definition.splice(list.place, members.join(",").into_bytes());
        }
    }
    Ok(definition)
}

/// A member as the server prints it (`append_unescaped`), without line breaks.
fn literal(member: &str) -> String {
    let mut text = String::from("'");
    for character in member.chars() {
        match character {
            '\0' => text.push_str("\\0"),
            '\n' => text.push_str("\\n"),
            '\r' => text.push_str("\\r"),
            '\\' => text.push_str("\\\\"),
            '\'' => text.push_str("''"),
            other => text.push(other),
        }
    }
    text.push('\'');
    text
}

/// Finds all lists. Each column has its own line, which starts with its name and type.
fn lists(definition: &[u8]) -> Vec<List> {
    let mut found = Vec::new();
    let mut line_start = 0;
    for line in definition.split(|byte| *byte == b'\n') {
        found.extend(
            list(line).map(|list| List { place: list.place.start + line_start..list.place.end + line_start, ..list }),
        );
        line_start += line.len() + 1;
    }
    found
}

fn list(line: &[u8]) -> Option<List> {
    let quoted = line.strip_prefix(b"  `")?;
    let (mut column, mut at) = (Vec::new(), 0);
    loop {
        match (*quoted.get(at)?, quoted.get(at + 1)) {
            (b'`', Some(b'`')) => at += 1,
            (b'`', _) => break,
            _ => {}
        }
        column.push(*quoted.get(at)?);
        at += 1;
    }
    let rest = quoted.get(at + 1..)?;
    let (is_set, members) = match rest.strip_prefix(b" enum(") {
        Some(members) => (false, members),
        None => (true, rest.strip_prefix(b" set(")?),
    };
    let start = line.len() - members.len();
    let (mut inside, mut count, mut at) = (false, 0, 0);
    loop {
        match *members.get(at)? {
            b'\\' if inside => at += 1,
            b'\'' => {
                // A doubled quote closes and reopens the member; no comma precedes it, so it is not counted.
                count += usize::from(!inside && (at == 0 || members.get(at - 1) == Some(&b',')));
                inside = !inside;
            }
            b')' if !inside => break,
            _ => {}
        }
        at += 1;
    }
    Some(List { column: String::from_utf8(column).ok()?, is_set, place: start..start + at, count })
}

#[cfg(test)]
mod tests {
    use super::*;

    const DEFINITION: &str = "CREATE TABLE `t` (\n  `a` enum('x','?') NOT NULL DEFAULT 'x',\n  `b``c` set('it''s','?)','\\\\','') \
                              DEFAULT NULL COMMENT ' enum(''?'')',\n  `d` enum('plain'),\n  KEY `e` (`a`)\n)";

    #[test]
    fn lists_are_found_with_their_columns_and_counts() {
        let found = lists(DEFINITION.as_bytes());
        let text = |list: &List| &DEFINITION[list.place.clone()];
        let seen: Vec<_> = found.iter().map(|list| (&*list.column, list.is_set, list.count, text(list))).collect();
        let expected =
            [("a", false, 2, "'x','?'"), ("b`c", true, 4, "'it''s','?)','\\\\',''"), ("d", false, 1, "'plain'")];
        assert_eq!(seen, expected);
        assert!(lists(b"  `a` enum('not closed").is_empty());
    }

    #[test]
    fn only_lists_with_question_marks_are_asked_for() {
        let mut asked = Vec::new();
        let spelled = spell_members(DEFINITION.as_bytes().to_vec(), &mut |column, _, count| {
            asked.push((column.to_owned(), count));
            Ok((column == "a").then(|| vec!["x".into(), "😀'\n".into()]))
        });
        let text = String::from_utf8(spelled.unwrap()).unwrap();
        assert_eq!(text, DEFINITION.replace("'x','?')", "'x','😀''\\n')"));
        assert_eq!(asked, [("b`c".to_owned(), 4), ("a".to_owned(), 2)]);
    }
}
