//! Quarantine: tables whose definition is unknown because a statement could not be interpreted (invariant 23).
//!
//! In: the names of such tables, and later statements about them. Out: the next snapshot. Such a table is not in the
//! catalog, so that nothing is read under a wrong definition. Its name stays in quarantine until a copy replaces the
//! table or it is dropped. Never here: the copy.

use std::sync::Arc;

use crate::context::StatementContext;
use crate::named::{Named, NamedTable};
use crate::parser::Parser;
use crate::server_text::statement_text;

use super::{Catalog, Change, Inner};
use crate::syntax::{Statement, TableName};
use crate::table::{TableId, same_name};

/// Reason of the quarantine of a table that the source has and its log does not hold.
pub const MISSING: &str = "the source's log does not hold it";

/// How the source's tables differ from those of a catalog, by names here.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Found {
    /// Databases that only the source has, each with its default collation, if it is known.
    pub databases: Vec<(String, Option<u16>)>,
    /// Tables that only the source has.
    pub tables: Vec<NamedTable>,
    /// Tables that wait for their copy and are not on the source.
    pub gone: Vec<NamedTable>,
}

/// What a statement does when tables are quarantined.
#[derive(Debug, Clone)]
pub enum Quarantined {
    /// The statement does not concern quarantined tables: execute it normally.
    NotConcerned,
    /// The statement is done: the next snapshot, and the ids whose rows are dead.
    Done(Catalog, Vec<TableId>),
    /// The statement concerns quarantined and other tables in a way that cannot be separated; the reason.
    Refused(String),
}

/// A table in quarantine.
#[derive(Debug, Clone)]
pub(super) struct Waiting {
    pub(super) why: String,
    /// Epoch at which it got there.
    pub(super) since: u64,
}

impl Catalog {
    /// Tables in quarantine: folded database name, folded table name, reason.
    pub fn quarantined(&self) -> impl Iterator<Item = (&str, &str, &str)> {
        let all = self.inner.quarantined.iter();
        all.map(|(key, waiting)| (key.0.as_str(), key.1.as_str(), waiting.why.as_str()))
    }

    /// True if the table is in quarantine.
    #[must_use]
    pub fn is_quarantined(&self, db: &str, name: &str) -> bool {
        self.why_quarantined(db, name).is_some()
    }

    /// Why the table is in quarantine; None if it is not.
    #[must_use]
    pub fn why_quarantined(&self, db: &str, name: &str) -> Option<&str> {
        if self.inner.quarantined.is_empty() {
            return None;
        }
        Some(&self.inner.quarantined.get(&self.inner.name_key(db, name))?.why)
    }

    /// Epoch at which the table got into quarantine, or of the catalog that was read with it: a table of the same name
    /// that is dropped and made again has another one.
    #[must_use]
    pub fn quarantined_since(&self, db: &str, name: &str) -> Option<u64> {
        Some(self.inner.quarantined.get(&self.inner.name_key(db, name))?.since)
    }

    /// The next snapshot, in which this table is quarantined until it is copied. Also returns the table's id, if it had
    /// one; its rows are dead.
    #[must_use]
    pub fn with_quarantined(&self, table: &NamedTable, why: &str) -> (Catalog, Option<TableId>) {
        let mut inner = Inner::clone(&self.inner);
        inner.epoch += 1;
        let old = inner.quarantine(table, why);
        (Catalog { inner: Arc::new(inner) }, old)
    }

    /// The next snapshot after a statement that is not understood: the tables it changes are quarantined. Also returns
    /// the ids whose rows are dead. None if the statement does not tell which tables it changes.
    #[must_use]
    pub fn with_unknown(&self, named: &Named, why: &str) -> Option<(Catalog, Vec<TableId>)> {
        let mut inner = Inner::clone(&self.inner);
        inner.epoch += 1;
        let gone: Vec<Option<TableId>> = match named {
            Named::Changes(table) | Named::Creates(table, _) => vec![inner.quarantine(table, why)],
            Named::Moves(from, to) => vec![inner.take_table(&from.0, &from.1), inner.quarantine(to, why)],
            Named::Exchanges(left, right) => vec![inner.quarantine(left, why), inner.quarantine(right, why)],
            Named::Drops(_) | Named::Renames(_) | Named::DropsDatabase(_) | Named::Other => return None,
        };
        Some((Catalog { inner: Arc::new(inner) }, gone.into_iter().flatten().collect()))
    }

    /// The next snapshot after a DROP or RENAME that names a table or database which is not here, because the log does
    /// not hold it. What is here goes; a table under its new name is quarantined. Also returns the ids whose rows are
    /// dead. None for another statement, or if everything that it names is here.
    #[must_use]
    pub fn with_missing(&self, context: &StatementContext, named: &Named) -> Option<(Catalog, Vec<TableId>)> {
        let is_here = |(db, name): &NamedTable| self.table(db, name).is_some() || self.is_quarantined(db, name);
        let mut inner = Inner::clone(&self.inner);
        // Also where nothing else changes: whoever adds missing tables learns that one of them may be gone.
        inner.epoch += 1;
        let mut gone = Vec::new();
        match named {
            Named::Drops(tables) if !tables.iter().all(is_here) => {
                for (db, name) in tables {
                    gone.extend(inner.take_table(db, name));
                    let key = inner.name_key(db, name);
                    inner.quarantined.remove(&key);
                }
            }
            Named::DropsDatabase(db) if !inner.databases.contains_key(inner.folded(db).as_ref()) => {
                inner.end_waiting_in(db);
            }
            Named::Renames(pairs) if !pairs.iter().all(|(from, _)| is_here(from)) => {
                for (from, to) in pairs {
                    if inner.rename_quarantined(from, to) {
                        continue;
                    }
                    match inner.table(&from.0, &from.1) {
                        Some(_) => inner = inner.renamed_one(context, from, to).ok()?,
                        None => gone.extend(inner.quarantine(to, MISSING)),
                    }
                }
            }
            _ => return None,
        }
        Some((Catalog { inner: Arc::new(inner) }, gone))
    }

    /// The next snapshot after a comparison with the source: with what it has and its log does not hold. Tables are
    /// quarantined. What is here already stays as it is.
    #[must_use]
    pub fn with_found(&self, found: &Found) -> Catalog {
        let mut inner = Inner::clone(&self.inner);
        inner.epoch += 1;
        for (db, collation) in &found.databases {
            inner.change_database(db, |database| database.collation = database.collation.or(*collation));
        }
        for table in &found.tables {
            if inner.table(&table.0, &table.1).is_none() && !self.is_quarantined(&table.0, &table.1) {
                inner.quarantine(table, MISSING);
            }
        }
        for (db, name) in &found.gone {
            let key = inner.name_key(db, name);
            if inner.quarantined.get(&key).is_some_and(|waiting| waiting.why == MISSING) {
                inner.quarantined.remove(&key);
            }
        }
        Catalog { inner: Arc::new(inner) }
    }

    /// Tables that wait for their copy because the source's log does not hold them: folded database and table name.
    pub fn missing(&self) -> impl Iterator<Item = (&str, &str)> {
        self.quarantined().filter(|(_, _, why)| *why == MISSING).map(|(db, name, _)| (db, name))
    }

    /// Applies a statement to quarantined tables.
    #[must_use]
    pub fn apply_to_quarantined(&self, context: &StatementContext, sql: &[u8]) -> Quarantined {
        if self.inner.quarantined.is_empty() {
            return Quarantined::NotConcerned;
        }
        let concerned = |table: &NamedTable| self.is_quarantined(&table.0, &table.1);
        let mut inner = Inner::clone(&self.inner);
        let mut gone = Vec::new();
        match Named::of(context, sql) {
            // The copy will include the change.
            Named::Changes(table) if concerned(&table) => {}
            // This has IF NOT EXISTS; otherwise the source would not have logged it.
            Named::Creates(table, _) if concerned(&table) => {}
            Named::Creates(table, Some(like)) if concerned(&like) => {
                gone.extend(inner.quarantine(&table, "made LIKE a table that is quarantined"));
            }
            Named::Drops(tables) if tables.iter().any(concerned) => {
                for (db, name) in tables {
                    let key = inner.name_key(&db, &name);
                    if inner.quarantined.remove(&key).is_none() {
                        gone.extend(inner.take_table(&db, &name));
                    }
                }
            }
            Named::Renames(pairs) if self.touched_by(&pairs) => {
                for (from, to) in &pairs {
                    if !inner.rename_quarantined(from, to) {
                        match inner.renamed_one(context, from, to) {
                            Ok(next) => inner = next,
                            Err(reason) => return Quarantined::Refused(reason),
                        }
                    }
                }
            }
            // The copy will include its other changes.
            Named::Moves(from, to) if concerned(&from) => {
                inner.rename_quarantined(&from, &to);
            }
            // The other table's rows are unknown now, too.
            Named::Exchanges(left, right) if concerned(&left) || concerned(&right) => {
                for table in [left, right].iter().filter(|table| !concerned(table)) {
                    gone.extend(
                        inner.quarantine(table, "a partition changed places with a table, one of them quarantined"),
                    );
                }
            }
            Named::DropsDatabase(db) => {
                inner.end_waiting_in(&db);
                // The catalog handles the database itself and its other objects.
                return match (Catalog { inner: Arc::new(inner) }).apply(context, sql) {
                    Ok(outcome) => {
                        let dropped = match outcome.effect {
                            super::DdlEffect::Changed { dropped, .. } => dropped,
                            _ => Vec::new(),
                        };
                        Quarantined::Done(outcome.catalog, dropped)
                    }
                    Err(error) => Quarantined::Refused(error.to_string()),
                };
            }
            Named::Other if self.names_one(context, sql) => {
                return Quarantined::Refused("it names a quarantined table".into());
            }
            _ => return Quarantined::NotConcerned,
        }
        inner.epoch += 1;
        Quarantined::Done(Catalog { inner: Arc::new(inner) }, gone)
    }

    /// True if any rename starts from a quarantined table.
    fn touched_by(&self, pairs: &[(NamedTable, NamedTable)]) -> bool {
        pairs.iter().any(|(from, _)| self.is_quarantined(&from.0, &from.1))
    }

    /// True if the text is an ALTER TABLE that contains the name of a quarantined table, of the default database or beside
    /// the name of its own. Only for statements that change more than one table.
    fn names_one(&self, context: &StatementContext, sql: &[u8]) -> bool {
        let mut parser = Parser::new(context, sql);
        // Any word may be in the hash of ALTER USER, or in the body of a routine.
        let eats = |parser: &mut Parser<'_>, word: &str| parser.eat_word(word).unwrap_or(false);
        if !(eats(&mut parser, "ALTER") && eats(&mut parser, "TABLE")) {
            return false;
        }
        let text = statement_text(context, sql).to_lowercase();
        let contains = |name: &str| contains_name(&text, &name.to_lowercase());
        let is_meant = |db: &str| same_name(db, &context.default_db) || contains(db);
        self.quarantined().any(|(db, name, _)| contains(name) && is_meant(db))
    }
}

/// Whether a text contains a name as a word of its own.
fn contains_name(text: &str, name: &str) -> bool {
    let is_part = |c: char| c.is_alphanumeric() || c == '_' || c == '$';
    text.match_indices(name).any(|(at, _)| {
        let before = text.get(..at).and_then(|text| text.chars().next_back());
        let after = text.get(at + name.len()..).and_then(|text| text.chars().next());
        !before.is_some_and(is_part) && !after.is_some_and(is_part)
    })
}

impl Inner {
    pub(super) fn quarantine(&mut self, table: &NamedTable, why: &str) -> Option<TableId> {
        let old = self.take_table(&table.0, &table.1);
        let key = self.name_key(&table.0, &table.1);
        self.wait(key, why);
        old
    }

    /// Puts the table of this key into quarantine, or gives another reason for it.
    pub(super) fn wait(&mut self, key: (String, String), why: &str) {
        let since = self.quarantined.get(&key).map_or(self.epoch, |waiting| waiting.since);
        self.quarantined.insert(Arc::new(key), Arc::new(Waiting { why: why.to_owned(), since }));
    }

    /// Ends the quarantine of all tables of a database.
    fn end_waiting_in(&mut self, db: &str) {
        let first = (self.folded(db).into_owned(), String::new());
        let of_it = self.quarantined.iter_from(&first).map(|(key, _)| key).take_while(|key| key.0 == first.0);
        for key in of_it.cloned().collect::<Vec<_>>() {
            self.quarantined.remove(&*key);
        }
    }

    /// Renames a quarantined table; false if there is none of this name.
    fn rename_quarantined(&mut self, from: &NamedTable, to: &NamedTable) -> bool {
        let (from, to) = (self.name_key(&from.0, &from.1), self.name_key(&to.0, &to.1));
        match self.quarantined.remove(&from) {
            Some(waiting) => self.quarantined.insert(Arc::new(to), waiting).is_none(),
            None => false,
        }
    }

    /// The next snapshot after renaming one table or view that is not quarantined.
    fn renamed_one(&self, context: &StatementContext, from: &NamedTable, to: &NamedTable) -> Result<Inner, String> {
        let name = |(db, name): &NamedTable| TableName { db: Some(db.clone()), name: name.clone() };
        let mut change = Change::new(context, self);
        match change.carry_out(&Statement::RenameTable(vec![(name(from), name(to))])) {
            Ok(_) => Ok(change.inner),
            Err(problem) => Err(problem.with_statement(b"RENAME TABLE").to_string()),
        }
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_name_is_a_word() {
        for (text, name) in
            [("alter table v add w int", "v"), ("alter table `v` union=(a,`b c`)", "b c"), ("a, k3", "k3")]
        {
            assert!(super::contains_name(text, name), "{text}: {name}");
        }
        for (text, name) in
            [("alter view x", "v"), ("alter table kv_1", "kv"), ("alter table k31", "k3"), ("alter", "k")]
        {
            assert!(!super::contains_name(text, name), "{text}: {name}");
        }
    }
}
