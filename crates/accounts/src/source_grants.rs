//! What a session may read at the source, from its SHOW GRANTS.
//!
//! In: the rows of SHOW GRANTS, which for one's own session include its active roles; variables that say how they are
//! meant. Out: whether a table may be read. Never here: a yes that is not certain. A row that is not understood, and a
//! right to some columns only, are a no: then the source is asked itself.

use std::borrow::Cow;
use std::collections::HashSet;

/// How the source compares names, and reads them in grants.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct GrantNames {
    /// `partial_revokes`: `%` and `_` in the names of schemas are letters.
    pub partial_revokes: bool,
    /// `lower_case_table_names` is not 0: names of schemas and tables are compared without regard to case.
    pub any_case: bool,
}

/// What may be read at the source.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SourceGrants {
    names: GrantNames,
    /// SELECT is granted on `*.*`.
    everywhere: bool,
    /// Schemas from which it was revoked nevertheless.
    but: HashSet<String>,
    /// Schemas as grants name them, and whether these grants have SELECT.
    schemas: Vec<(Vec<Part>, bool)>,
    tables: HashSet<(String, String)>,
}

/// What one row grants.
enum Granted {
    /// Nothing that is about reading rows.
    Other,
    Everywhere(bool),
    Schema {
        name: String,
        select: bool,
    },
    Revoked {
        schema: String,
        select: bool,
    },
    Table {
        schema: String,
        table: String,
        select: bool,
    },
}

impl SourceGrants {
    /// Reads the rows of SHOW GRANTS. With one that is not understood, nothing may be read.
    #[must_use]
    pub fn read<'a>(rows: impl Iterator<Item = &'a str>, names: GrantNames) -> SourceGrants {
        let mut all = SourceGrants { names, ..SourceGrants::default() };
        for row in rows {
            let Some(granted) = Row::new(row).granted() else {
                return SourceGrants { names, ..SourceGrants::default() };
            };
            match granted {
                Granted::Other => {}
                Granted::Everywhere(select) => all.everywhere |= select,
                Granted::Schema { name, select } => {
                    let pattern = pattern(&all.folded(&name), names.partial_revokes);
                    all.schemas.push((pattern, select));
                }
                Granted::Revoked { schema, select } => {
                    let schema = all.folded(&schema).into_owned();
                    all.but.extend(select.then_some(schema));
                }
                Granted::Table { schema, table, select } => {
                    let table = (all.folded(&schema).into_owned(), all.folded(&table).into_owned());
                    all.tables.extend(select.then_some(table));
                }
            }
        }
        all
    }

    /// True if all rows of a table may be read, whichever columns a statement names.
    #[must_use]
    pub fn may_read(&self, schema: &str, table: &str) -> bool {
        let named = || (self.folded(schema).into_owned(), self.folded(table).into_owned());
        self.may_read_all_of(schema) || self.tables.contains(&named())
    }

    /// True if all tables of a schema may be read, whichever there are.
    #[must_use]
    pub fn may_read_all_of(&self, schema: &str) -> bool {
        let schema = self.folded(schema);
        if self.everywhere && !self.but.contains(&*schema) {
            return true;
        }
        // Of several that name it the server takes one, and not all of them.
        let mut meant = self.schemas.iter().filter(|(pattern, _)| matches(pattern, &schema)).peekable();
        meant.peek().is_some() && meant.all(|(_, select)| *select)
    }

    /// True if all tables may be read.
    #[must_use]
    pub fn may_read_everything(&self) -> bool {
        self.everywhere && self.but.is_empty()
    }

    fn folded<'a>(&self, name: &'a str) -> Cow<'a, str> {
        if self.names.any_case { Cow::Owned(name.to_lowercase()) } else { Cow::Borrowed(name) }
    }
}

/// A part of a name in a grant.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    Letter(char),
    One,
    Any,
}

fn pattern(name: &str, is_literal: bool) -> Vec<Part> {
    let mut letters = name.chars();
    let mut parts = Vec::new();
    while let Some(letter) = letters.next() {
        parts.push(match letter {
            '\\' => Part::Letter(letters.next().unwrap_or('\\')),
            '_' if !is_literal => Part::One,
            '%' if !is_literal => Part::Any,
            letter => Part::Letter(letter),
        });
    }
    parts
}

fn matches(pattern: &[Part], text: &str) -> bool {
    let (mut rest, mut of) = (text.chars(), 0);
    // Where to go on if what follows the last Any does not fit.
    let mut again: Option<(std::str::Chars<'_>, usize)> = None;
    loop {
        let mut after = rest.clone();
        match (pattern.get(of), after.next()) {
            (None, None) => return true,
            (Some(Part::Any), _) => {
                of += 1;
                again = Some((rest.clone(), of));
            }
            (Some(Part::One), Some(_)) => (rest, of) = (after, of + 1),
            (Some(Part::Letter(own)), Some(letter)) if *own == letter => (rest, of) = (after, of + 1),
            _ => {
                let Some((from, back)) = &mut again else { return false };
                if from.next().is_none() {
                    return false;
                }
                (rest, of) = (from.clone(), *back);
            }
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Token {
    Word(String),
    Name(String),
    Mark(char),
}

/// A row of SHOW GRANTS, read from its beginning.
struct Row<'a>(&'a str);

impl<'a> Row<'a> {
    fn new(text: &'a str) -> Row<'a> {
        Row(text)
    }

    /// None at the end, and where a name does not end.
    fn next(&mut self) -> Option<Token> {
        let text = self.0.trim_start();
        let first = text.chars().next()?;
        let rest = text.get(first.len_utf8()..).unwrap_or_default();
        match first {
            '`' | '"' | '\'' => {
                let mut name = String::new();
                let mut chars = rest.char_indices();
                while let Some((at, letter)) = chars.next() {
                    if letter != first {
                        name.push(letter);
                    } else if rest.get(at + 1..).is_some_and(|rest| rest.starts_with(first)) {
                        name.push(letter);
                        chars.next();
                    } else {
                        self.0 = rest.get(at + 1..).unwrap_or_default();
                        return Some(Token::Name(name));
                    }
                }
                None
            }
            _ if first.is_ascii_alphanumeric() || first == '_' => {
                let is_in = |letter: char| letter.is_ascii_alphanumeric() || letter == '_';
                let len = text.find(|letter| !is_in(letter)).unwrap_or(text.len());
                let (word, rest) = text.split_at(len);
                self.0 = rest;
                Some(Token::Word(word.to_owned()))
            }
            _ => {
                self.0 = rest;
                Some(Token::Mark(first))
            }
        }
    }

    fn eat(&mut self, wanted: &Token) -> Option<()> {
        (self.next()? == *wanted).then_some(())
    }

    fn word(&mut self) -> Option<String> {
        match self.next()? {
            Token::Word(word) => Some(word),
            _ => None,
        }
    }

    /// None if it is not understood.
    fn granted(mut self) -> Option<Granted> {
        let verb = self.word()?;
        let is_grant = match verb.as_str() {
            "GRANT" => true,
            "REVOKE" => false,
            _ => return None,
        };
        let mut token = self.next()?;
        // Roles: what the active ones grant is in other rows.
        if matches!(token, Token::Name(_)) {
            return is_grant.then_some(Granted::Other);
        }
        // SELECT, without columns.
        let mut select = false;
        loop {
            let mut privilege = String::new();
            let mut columns = false;
            loop {
                match &token {
                    Token::Word(word) if word == "ON" => break,
                    Token::Word(word) if privilege.is_empty() => privilege.clone_from(word),
                    Token::Word(word) => privilege = format!("{privilege} {word}"),
                    Token::Mark('(') => {
                        columns = true;
                        while self.next()? != Token::Mark(')') {}
                    }
                    Token::Mark(',') => break,
                    _ => return None,
                }
                token = self.next()?;
            }
            select |= !columns && matches!(privilege.as_str(), "SELECT" | "ALL" | "ALL PRIVILEGES");
            if token == Token::Word("ON".to_owned()) {
                // Whose name a proxy's session has is seen in its own rows.
                if privilege == "PROXY" {
                    return is_grant.then_some(Granted::Other);
                }
                break;
            }
            token = self.next()?;
        }
        let granted = match self.next()? {
            Token::Word(kind) if matches!(kind.as_str(), "PROCEDURE" | "FUNCTION" | "LIBRARY") => {
                return is_grant.then_some(Granted::Other);
            }
            Token::Mark('*') => {
                self.eat(&Token::Mark('.'))?;
                self.eat(&Token::Mark('*'))?;
                is_grant.then_some(Granted::Everywhere(select))?
            }
            Token::Name(schema) => {
                self.eat(&Token::Mark('.'))?;
                match self.next()? {
                    Token::Mark('*') if is_grant => Granted::Schema { name: schema, select },
                    Token::Mark('*') => Granted::Revoked { schema, select },
                    Token::Name(table) if is_grant => Granted::Table { schema, table, select },
                    _ => return None,
                }
            }
            _ => return None,
        };
        self.eat(&Token::Word(if is_grant { "TO" } else { "FROM" }.to_owned()))?;
        matches!(self.next()?, Token::Name(_)).then_some(granted)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn grants(rows: &[&str]) -> SourceGrants {
        let rows: Vec<String> = rows.iter().map(|row| format!("{row} TO `u`@`%`")).collect();
        SourceGrants::read(rows.iter().map(String::as_str), GrantNames::default())
    }

    #[test]
    fn select_at_each_level() {
        let some = grants(&[
            "GRANT USAGE ON *.*",
            "GRANT BACKUP_ADMIN,SYSTEM_USER ON *.*",
            "GRANT SELECT, SHOW VIEW ON `shop`.*",
            "GRANT INSERT ON `log`.*",
            "GRANT ALL PRIVILEGES ON `a``b`.*",
            "GRANT SELECT, INSERT (`x`, `y`) ON `log`.`read`",
            "GRANT SELECT (`id`, `n)`), UPDATE ON `log`.`some`",
            "GRANT EXECUTE ON PROCEDURE `log`.`p`",
            "GRANT PROXY ON ``@``",
            "GRANT `role`@`%`,`other`@`%`",
        ]);
        for (schema, table, may) in [
            ("shop", "any", true),
            ("a`b", "any", true),
            ("log", "read", true),
            ("log", "some", false),
            ("log", "other", false),
            ("Shop", "any", false),
            ("else", "read", false),
        ] {
            assert_eq!(some.may_read(schema, table), may, "{schema}.{table}");
        }
        assert!(some.may_read_all_of("shop") && !some.may_read_all_of("log"));
        assert!(grants(&["GRANT SELECT, RELOAD ON *.*"]).may_read("any", "t"));
        let any_case = GrantNames { any_case: true, ..GrantNames::default() };
        let some = SourceGrants::read(["GRANT SELECT ON `shop`.* TO `u`@`%`"].into_iter(), any_case);
        assert!(some.may_read("Shop", "T"));
    }

    #[test]
    fn schemas_by_patterns_and_parts_that_are_revoked() {
        let some = grants(&["GRANT SELECT ON `a\\_b`.*", "GRANT SELECT ON `x%`.*", "GRANT INSERT ON `xyz%`.*"]);
        let may = ["a_b", "axb", "x", "xy", "xyz"].map(|schema| some.may_read(schema, "t"));
        assert_eq!(may, [true, false, true, true, false], "of the last two grants the server takes one");
        for (name, schema, means) in [
            ("%", "", true),
            ("a%b%c", "axbxbxc", true),
            ("a%b%c", "axbx", false),
            ("_%", "", false),
            ("a\\%", "ab", false),
        ] {
            assert_eq!(
                grants(&[&format!("GRANT SELECT ON `{name}`.*")]).may_read(schema, "t"),
                means,
                "{name} {schema}"
            );
        }
        let rows = ["GRANT SELECT ON *.* TO `u`@`%`", "REVOKE SELECT, INSERT ON `secret`.* FROM `u`@`%`"];
        let partial = GrantNames { partial_revokes: true, ..GrantNames::default() };
        let all = SourceGrants::read(rows.into_iter(), partial);
        assert!(all.may_read("shop", "t") && !all.may_read("secret", "t"));
        let some = SourceGrants::read(["GRANT SELECT ON `a_%`.* TO `u`@`%`"].into_iter(), partial);
        assert!(some.may_read("a_%", "t") && !some.may_read("axy", "t"));
    }

    #[test]
    fn what_is_not_understood_allows_nothing() {
        let all = "GRANT SELECT ON *.* TO `u`@`%`";
        for row in [
            "",
            "DENY SELECT ON *.* TO `u`@`%`",
            "GRANT SELECT ON",
            "GRANT SELECT ON shop.* TO `u`@`%`",
            "GRANT SELECT ON `shop.* TO u",
            "GRANT SELECT ON `shop`.* FROM `u`@`%`",
            "REVOKE SELECT ON *.* FROM `u`@`%`",
            "REVOKE SELECT ON `a`.`b` FROM `u`@`%`",
            "GRANT SELECT UNTIL `x` ON *.* TO `u`@`%`",
            "GRANT SELECT ON SCHEMA `shop`.* TO `u`@`%`",
        ] {
            let some = SourceGrants::read([all, row].into_iter(), GrantNames::default());
            assert!(!some.may_read("shop", "t"), "{row}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_read(text in "(GRANT|REVOKE)? ?[A-Z ,()]{0,12}( ON )?[`'\"a-z.*%_]{0,20}( TO )?\\PC{0,10}") {
            let _ = SourceGrants::read([text.as_str()].into_iter(), GrantNames::default());
        }
    }
}
