//! LIKE over a column, character by character as MySQL compares them there.

use catalog::Column;
use values::charset::first_characters;
use values::collation::{self, BINARY};
use values::sort_key::implemented;
use values::{ColumnType, ValueError, type_code as t, weight_string};

use super::cut::cannot;
use crate::Result;
use crate::charsets::is_unicode;
use crate::error::SqlError;

/// A pattern over one column's text.
#[derive(Debug, Clone)]
pub(crate) struct Pattern {
    parts: Vec<Part>,
    text: Text,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Part {
    /// A character, by its weight.
    One(Vec<u8>),
    /// `_`
    AnyOne,
    /// `%`
    Any,
}

/// How text is taken apart.
#[derive(Debug, Clone, Copy)]
struct Text {
    prefix_len: usize,
    collation: u16,
    charset: &'static str,
    /// Compared by bytes.
    by_bytes: bool,
}

impl Text {
    fn of(ty: &ColumnType) -> Text {
        let found = collation::by_id(ty.collation);
        let by_bytes = ty.collation == BINARY || found.is_some_and(|found| found.name.ends_with("_bin"));
        let charset = found.map_or("binary", |found| found.charset);
        Text { prefix_len: ty.prefix_len(), collation: ty.collation, charset, by_bytes }
    }

    fn characters(self, text: &[u8]) -> std::result::Result<Vec<Vec<u8>>, ValueError> {
        let mut rest = text;
        let mut all = Vec::new();
        while !rest.is_empty() {
            let (character, tail) = rest.split_at(first_characters(self.charset, rest, 1).len().max(1));
            all.push(self.weight(character)?);
            rest = tail;
        }
        Ok(all)
    }

    fn weight(self, character: &[u8]) -> std::result::Result<Vec<u8>, ValueError> {
        if self.by_bytes {
            return Ok(character.to_vec());
        }
        let mut weight = Vec::new();
        weight_string(self.collation, character, &mut weight)?;
        Ok(weight)
    }
}

impl Pattern {
    /// Takes a pattern in the column's character set apart.
    ///
    /// # Errors
    /// 1235 for columns that are not text, and for collations whose weights are not known here.
    pub(crate) fn of(column: &Column, pattern: &[u8], sql_mode: u64) -> Result<Pattern> {
        let ty = &column.ty;
        if !matches!(ty.code, t::CHAR | t::VARCHAR | t::BLOB) || (ty.code == t::CHAR && ty.collation == BINARY) {
            return Err(cannot(column, "a pattern"));
        }
        if ty.collation != BINARY && !implemented(ty.collation) {
            let name = collation::by_id(ty.collation).map_or("unknown", |found| found.name);
            return Err(SqlError::not_supported(&format!("LIKE in collation {name}")));
        }
        Pattern::over(Text::of(ty), pattern, sql_mode)
    }

    /// Takes a pattern over a constant apart; both are UTF-8.
    ///
    /// # Errors
    /// 1235 for other character sets than utf8mb3 and utf8mb4, and for collations whose weights are not known here.
    pub(crate) fn of_constant(collation: u16, pattern: &[u8], sql_mode: u64) -> Result<Pattern> {
        let found = collation::by_id(collation).filter(|_| is_unicode(collation) && implemented(collation));
        let found = found.ok_or_else(|| SqlError::not_supported("LIKE of constants in this collation"))?;
        let by_bytes = found.name.ends_with("_bin");
        Pattern::over(Text { prefix_len: 0, collation, charset: found.charset, by_bytes }, pattern, sql_mode)
    }

    fn over(text: Text, pattern: &[u8], sql_mode: u64) -> Result<Pattern> {
        let escapes = sql_mode & catalog::sql_mode::NO_BACKSLASH_ESCAPES == 0;
        let unreadable = |error: ValueError| SqlError::new(1105, "HY000", error.to_string());
        let sign =
            |sign: &str| values::charset::from_utf8mb4(text.collation, sign.as_bytes()).map(|sign| sign.to_vec());
        let (escape, one, any) =
            (sign("\\").map_err(unreadable)?, sign("_").map_err(unreadable)?, sign("%").map_err(unreadable)?);
        let (mut parts, mut rest, mut escaped) = (Vec::new(), pattern, false);
        while !rest.is_empty() {
            let (character, tail) = rest.split_at(first_characters(text.charset, rest, 1).len().max(1));
            rest = tail;
            if escapes && !escaped && character == escape && !rest.is_empty() {
                escaped = true;
                continue;
            }
            parts.push(match character {
                _ if std::mem::take(&mut escaped) => Part::One(text.weight(character).map_err(unreadable)?),
                sign if sign == one => Part::AnyOne,
                sign if sign == any => Part::Any,
                other => Part::One(text.weight(other).map_err(unreadable)?),
            });
        }
        Ok(Pattern { parts, text })
    }

    /// Whether stored text matches.
    ///
    /// # Errors
    /// The bytes are no text of the column.
    pub(crate) fn matches(&self, stored: &[u8]) -> std::result::Result<bool, ValueError> {
        let text = stored.get(self.text.prefix_len..).unwrap_or_default();
        let characters = self.text.characters(text)?;
        Ok(matches(&self.parts, &characters))
    }
}

/// A pattern over names of schemas and tables.
#[derive(Debug, Clone)]
pub struct NamePattern(Pattern);

impl NamePattern {
    /// Names are compared as they are where `lower_case_table_names` is 0, else without regard to case. A backslash
    /// escapes unless the `sql_mode` says otherwise.
    ///
    /// # Errors
    /// The pattern is no text.
    pub fn new(pattern: &str, lower_case_table_names: u8, sql_mode: u64) -> Result<NamePattern> {
        let name = if lower_case_table_names == 0 { "utf8mb4_bin" } else { "utf8mb4_general_ci" };
        let collation = collation::by_name(name).map_or(BINARY, |found| found.id);
        let text = Text { prefix_len: 0, collation, charset: "utf8mb4", by_bytes: lower_case_table_names == 0 };
        Pattern::over(text, pattern.as_bytes(), sql_mode).map(NamePattern)
    }

    /// Whether a name matches.
    #[must_use]
    pub fn matches(&self, name: &str) -> bool {
        self.0.matches(name.as_bytes()).unwrap_or(false)
    }
}

/// Goes back to the last `%` where a character does not match: no more steps than parts times characters.
fn matches(parts: &[Part], characters: &[Vec<u8>]) -> bool {
    let (mut part, mut at) = (0, 0);
    let mut last_any: Option<(usize, usize)> = None;
    while at < characters.len() {
        let fits = match (parts.get(part), characters.get(at)) {
            (Some(Part::One(wanted)), Some(found)) => wanted == found,
            (Some(Part::AnyOne), Some(_)) => true,
            (Some(Part::Any), _) => {
                last_any = Some((part, at));
                part += 1;
                continue;
            }
            _ => false,
        };
        if fits {
            (part, at) = (part + 1, at + 1);
        } else if let Some((any, from)) = last_any {
            last_any = Some((any, from + 1));
            (part, at) = (any + 1, from + 1);
        } else {
            return false;
        }
    }
    parts.get(part..).unwrap_or_default().iter().all(|part| *part == Part::Any)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_matched_as_they_are_compared() {
        let holds = |pattern, name, lower| NamePattern::new(pattern, lower, 0).unwrap().matches(name);
        for (pattern, name) in [("ba%", "bar"), ("shop\\_%", "shop_b"), ("a\\%b", "a%b"), ("Ä%", "Ärger"), ("%", "")]
        {
            assert!(holds(pattern, name, 0) && holds(pattern, name, 1), "{pattern} {name}");
        }
        for (pattern, name) in [("BA%", "bar"), ("ä%", "Ärger")] {
            assert!(!holds(pattern, name, 0) && holds(pattern, name, 1), "{pattern} {name}");
        }
        assert!(
            !holds("shop\\_%", "shopb", 0)
                && !NamePattern::new("a\\_", 0, catalog::sql_mode::NO_BACKSLASH_ESCAPES).unwrap().matches("a_")
        );
    }

    #[test]
    fn patterns() {
        let ty = ColumnType { collation: 255, ..ColumnType::new(t::VARCHAR, 80) };
        let text = Text::of(&ty);
        let holds = |pattern: &str, value: &str| {
            let parts: Vec<Part> = pattern
                .chars()
                .map(|c| match c {
                    '%' => Part::Any,
                    '_' => Part::AnyOne,
                    c => Part::One(text.weight(c.to_string().as_bytes()).unwrap()),
                })
                .collect();
            matches(&parts, &text.characters(value.as_bytes()).unwrap())
        };
        for (pattern, value) in
            [("ab%", "ABC"), ("%", ""), ("_b%c", "abxcbc"), ("É", "e"), ("a%%", "a"), ("%a_", "xaab")]
        {
            assert!(holds(pattern, value), "{pattern} {value}");
        }
        for (pattern, value) in [("ab%", "a"), ("", "a"), ("_", ""), ("a_", "a"), ("%a_", "xaa_b")] {
            assert!(!holds(pattern, value), "{pattern} {value}");
        }
    }
}
