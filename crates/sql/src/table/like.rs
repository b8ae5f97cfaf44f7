//! LIKE over a column, character by character as MySQL compares them there.

use catalog::Column;
use values::charset::first_characters;
use values::collation::{self, BINARY};
use values::sort_key::implemented;
use values::{ColumnType, ValueError, like_weight, type_code as t};

use super::cut::cannot;
use crate::Result;
use crate::charsets::is_unicode;
use crate::error::SqlError;

/// A pattern over one column's text: what stands between its `%`, in order. With no `%` it is one run.
#[derive(Debug, Clone)]
pub(crate) struct Pattern {
    runs: Vec<Run>,
    text: Text,
}

/// Characters that follow one another in the text.
#[derive(Debug, Clone, Default)]
struct Run {
    parts: Vec<Part>,
    /// Of each number of parts that fit, how many fit again behind a part that does not (Knuth, Morris and Pratt), so
    /// that no character is looked at twice; None with `_`, which fits what it is not equal to.
    again: Option<Vec<usize>>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Part {
    /// A character, by its weight.
    One(Vec<u8>),
    /// `_`
    AnyOne,
}

/// Characters that a run with `_` is compared with in one text, at most: it may begin anywhere.
const STEPS_MAX: u64 = 1 << 24;

impl Run {
    fn of(parts: Vec<Part>) -> Run {
        let again = (!parts.contains(&Part::AnyOne)).then(|| {
            let mut again = vec![0; parts.len()];
            let mut fits = 0;
            for at in 1..parts.len() {
                while fits > 0 && parts.get(fits) != parts.get(at) {
                    fits = again.get(fits - 1).copied().unwrap_or_default();
                }
                fits += usize::from(parts.get(fits) == parts.get(at));
                again[at] = fits;
            }
            again
        });
        Run { parts, again }
    }
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

    /// The first character and what follows it; the text must not be empty.
    fn first(self, text: &[u8]) -> (&[u8], &[u8]) {
        text.split_at(first_characters(self.charset, text, 1).len().clamp(1, text.len()))
    }

    /// True if a character fits; `weight` is scratch space.
    fn fits(self, part: &Part, character: &[u8], weight: &mut Vec<u8>) -> std::result::Result<bool, ValueError> {
        let Part::One(wanted) = part else { return Ok(true) };
        if self.by_bytes {
            return Ok(wanted == character);
        }
        weight.clear();
        like_weight(self.collation, character, weight)?;
        Ok(wanted == weight)
    }

    fn weight(self, character: &[u8]) -> std::result::Result<Vec<u8>, ValueError> {
        if self.by_bytes {
            return Ok(character.to_vec());
        }
        let mut weight = Vec::new();
        like_weight(self.collation, character, &mut weight)?;
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
        // Nor does swe7 have a backslash.
        let unreadable = |_: ValueError| SqlError::not_supported(&format!("this pattern in {}", text.charset));
        let sign =
            |sign: &str| values::charset::from_utf8mb4(text.collation, sign.as_bytes()).map(|sign| sign.to_vec());
        let (escape, one, any) =
            (sign("\\").map_err(unreadable)?, sign("_").map_err(unreadable)?, sign("%").map_err(unreadable)?);
        let (mut runs, mut parts, mut rest, mut escaped) = (Vec::new(), Vec::new(), pattern, false);
        while !rest.is_empty() {
            let (character, tail) = text.first(rest);
            rest = tail;
            if escapes && !escaped && character == escape && !rest.is_empty() {
                escaped = true;
                continue;
            }
            match character {
                _ if std::mem::take(&mut escaped) => parts.push(Part::One(text.weight(character).map_err(unreadable)?)),
                sign if sign == one => parts.push(Part::AnyOne),
                sign if sign == any => runs.push(Run::of(std::mem::take(&mut parts))),
                other => parts.push(Part::One(text.weight(other).map_err(unreadable)?)),
            }
        }
        runs.push(Run::of(parts));
        Ok(Pattern { runs, text })
    }

    /// How often it looks at each character at worst: runs with `_` between `%` are tried at each place anew.
    pub(crate) fn passes(&self) -> u64 {
        let middle = self.runs.iter().skip(1).rev().skip(1);
        let again = middle.filter(|run| run.again.is_none()).map(|run| run.parts.len() as u64);
        1 + again.max().unwrap_or(0)
    }

    /// Whether stored text matches. It is read from its beginning to its end, and nothing of it is kept.
    ///
    /// # Errors
    /// The bytes are no text of the column; a run with `_` would be compared more than [`STEPS_MAX`] times.
    pub(crate) fn matches(&self, stored: &[u8]) -> std::result::Result<bool, ValueError> {
        let mut rest = stored.get(self.text.prefix_len..).unwrap_or_default();
        let Some((first, others)) = self.runs.split_first() else { return Ok(rest.is_empty()) };
        let mut weight = Vec::new();
        if !self.begins(first, &mut rest, &mut weight)? {
            return Ok(false);
        }
        let Some((last, middle)) = others.split_last() else { return Ok(rest.is_empty()) };
        for run in middle {
            let found = match &run.again {
                Some(again) => self.find(run, again, &mut rest, &mut weight)?,
                None => self.find_with_any(run, &mut rest, &mut weight)?,
            };
            if !found {
                return Ok(false);
            }
        }
        let mut left = 0;
        let mut behind = rest;
        while !behind.is_empty() {
            behind = self.text.first(behind).1;
            left += 1;
        }
        let Some(before) = usize::checked_sub(left, last.parts.len()) else { return Ok(false) };
        for _ in 0..before {
            rest = self.text.first(rest).1;
        }
        self.begins(last, &mut rest, &mut weight)
    }

    /// Takes a run from the beginning of the text; false if it is not there.
    fn begins(&self, run: &Run, text: &mut &[u8], weight: &mut Vec<u8>) -> std::result::Result<bool, ValueError> {
        for part in &run.parts {
            if text.is_empty() {
                return Ok(false);
            }
            let (character, rest) = self.text.first(text);
            if !self.text.fits(part, character, weight)? {
                return Ok(false);
            }
            *text = rest;
        }
        Ok(true)
    }

    /// Takes all up to the end of the first place where the run stands; false if it stands nowhere.
    fn find(
        &self,
        run: &Run,
        again: &[usize],
        text: &mut &[u8],
        weight: &mut Vec<u8>,
    ) -> std::result::Result<bool, ValueError> {
        let mut fitting = 0;
        while fitting < run.parts.len() {
            if text.is_empty() {
                return Ok(false);
            }
            let (character, rest) = self.text.first(text);
            *text = rest;
            while let Some(part) = run.parts.get(fitting) {
                if self.text.fits(part, character, weight)? {
                    fitting += 1;
                    break;
                }
                let Some(before) = fitting.checked_sub(1) else { break };
                fitting = again.get(before).copied().unwrap_or_default();
            }
        }
        Ok(true)
    }

    /// As [`find`](Self::find), of a run with `_`.
    fn find_with_any(
        &self,
        run: &Run,
        text: &mut &[u8],
        weight: &mut Vec<u8>,
    ) -> std::result::Result<bool, ValueError> {
        let mut steps = 0u64;
        loop {
            let mut from = *text;
            if self.begins(run, &mut from, weight)? {
                *text = from;
                return Ok(true);
            }
            if text.is_empty() {
                return Ok(false);
            }
            steps += 1 + run.parts.len() as u64;
            if steps > STEPS_MAX {
                let what = "LIKE with _ between % over a text of this length".into();
                return Err(ValueError::Unsupported { what });
            }
            *text = self.text.first(text).1;
        }
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

    fn holds(pattern: &str, value: &str) -> bool {
        let ty = ColumnType { collation: 255, ..ColumnType::new(t::VARCHAR, 80) };
        let stored = [vec![0; ty.prefix_len()], value.as_bytes().to_vec()].concat();
        Pattern::over(Text::of(&ty), pattern.as_bytes(), 0).unwrap().matches(&stored).unwrap()
    }

    #[test]
    fn patterns() {
        for (pattern, value) in [
            ("ab%", "ABC"),
            ("%", ""),
            ("", ""),
            ("_b%c", "abxcbc"),
            ("É", "e"),
            ("a%%", "a"),
            ("%a_", "xaab"),
            ("%aab%aab", "aaab aab"),
            ("a%_", "ab"),
            ("%ä_c%", "x Abc y"),
        ] {
            assert!(holds(pattern, value), "{pattern} {value}");
        }
        for (pattern, value) in
            [("ab%", "a"), ("", "a"), ("_", ""), ("a_", "a"), ("%a_", "xaa_b"), ("%ab%ab", "ab"), ("a%a", "a")]
        {
            assert!(!holds(pattern, value), "{pattern} {value}");
        }
    }

    /// Where LIKE and `=` differ; `tests/tests/door_text.rs` compares more with a server.
    #[test]
    fn characters_without_weights_of_their_own_equal_themselves() {
        let alike = |collation: &str, one: &str, other: &str| {
            let pattern = Pattern::of_constant(collation::by_name(collation).unwrap().id, one.as_bytes(), 0).unwrap();
            pattern.matches(other.as_bytes()).unwrap()
        };
        for (collation, beyond) in [
            ("utf8mb4_unicode_ci", false),
            ("utf8mb4_unicode_520_ci", false),
            ("utf8mb4_0900_ai_ci", false),
            ("utf8mb4_0900_as_ci", false),
            ("utf8mb4_general_ci", true),
        ] {
            assert_eq!(alike(collation, "😀", "😁"), beyond, "{collation}");
            assert!(!alike(collation, "\u{f900}", "\u{8c48}"), "{collation}");
            assert!(alike(collation, "😁", "😁") && alike(collation, "%😀%a_", "x😀éAz"), "{collation}");
        }
        assert!(alike("utf8mb4_unicode_ci", "%Ä%", "😀a"));
    }

    /// As MySQL describes it, by trying everything.
    fn by_trying(pattern: &[u8], value: &[u8]) -> bool {
        match (pattern, value) {
            ([], _) => value.is_empty(),
            ([b'%', rest @ ..], _) => {
                by_trying(rest, value) || value.split_first().is_some_and(|(_, behind)| by_trying(pattern, behind))
            }
            ([b'_', rest @ ..], [_, behind @ ..]) => by_trying(rest, behind),
            ([one, rest @ ..], [other, behind @ ..]) => one == other && by_trying(rest, behind),
            _ => false,
        }
    }

    #[test]
    fn random_patterns_match_as_by_trying() {
        let mut random = base::Random::new(11);
        let mut held = 0;
        for _ in 0..60_000 {
            let mut text = |letters: &[&'static str], most: usize| -> String {
                (0..random.below(most)).map(|_| random.pick(letters)).collect()
            };
            let (pattern, value) = (text(&["a", "a", "b", "%", "%", "_"], 9), text(&["a", "a", "b"], 12));
            let wanted = by_trying(pattern.as_bytes(), value.as_bytes());
            assert_eq!(holds(&pattern, &value), wanted, "{pattern} {value}");
            held += usize::from(wanted);
        }
        assert!(held > 5_000, "{held}");
    }

    /// Steps grow with the text's length, not with its product with the pattern's: this would take hours.
    #[test]
    fn a_pattern_that_almost_fits_everywhere_costs_one_pass() {
        let text = "a".repeat(1_000_000);
        assert!(!holds(&format!("%{}b%", "a".repeat(100_000)), &text));
        assert!(holds(&format!("%{}%", "a".repeat(100_000)), &text));
        let ty = ColumnType { collation: 255, ..ColumnType::new(t::VARCHAR, 80) };
        let pattern = Pattern::over(Text::of(&ty), format!("%{}_b%", "a".repeat(100_000)).as_bytes(), 0).unwrap();
        assert!(matches!(pattern.matches(text.as_bytes()), Err(ValueError::Unsupported { .. })));
    }
}
