//! Tables whose definition is not known since a statement that could not be interpreted (invariant 23).
//!
//! Such a table is not in the catalog: nothing can be read under a definition that is not its own. Its name is kept
//! here until a copy stands in its place, or it is dropped.

use std::sync::Arc;

use crate::context::StatementContext;
use crate::named::{Named, NamedTable};

use super::{Catalog, Change, Inner};
use crate::syntax::{Statement, TableName};
use crate::table::TableId;

/// What a statement does where tables are quarantined.
#[derive(Debug, Clone)]
pub enum Quarantined {
    /// It does not concern them: it is to be carried out.
    NotConcerned,
    /// Carried out as far as there is anything to do: the next snapshot, and ids whose rows are gone.
    Done(Catalog, Vec<TableId>),
    /// It concerns them and others in a way that cannot be told apart.
    Refused(String),
}

impl Catalog {
    /// Tables whose definition is not known: database, name (as compared) and why.
    pub fn quarantined(&self) -> impl Iterator<Item = (&str, &str, &str)> {
        self.inner.quarantined.iter().map(|((db, name), why)| (db.as_str(), name.as_str(), why.as_str()))
    }

    /// Whether the definition of this table is not known.
    #[must_use]
    pub fn is_quarantined(&self, db: &str, name: &str) -> bool {
        !self.inner.quarantined.is_empty() && self.inner.quarantined.contains_key(&self.inner.name_key(db, name))
    }

    /// The next snapshot, in which nothing is known of a table but that its rows must be copied. With the id whose rows
    /// are gone, where there was one.
    #[must_use]
    pub fn with_quarantined(&self, table: &NamedTable, why: &str) -> (Catalog, Option<TableId>) {
        let mut inner = Inner::clone(&self.inner);
        inner.epoch += 1;
        let old = inner.quarantine(table, why);
        (Catalog { inner: Arc::new(inner) }, old)
    }

    /// The next snapshot behind a statement that is not understood, in which the tables it changes are quarantined; with
    /// the ids whose rows are gone. None where it does not say which tables those are.
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

    /// What a statement does to quarantined tables.
    #[must_use]
    pub fn apply_to_quarantined(&self, context: &StatementContext, sql: &[u8]) -> Quarantined {
        if self.inner.quarantined.is_empty() {
            return Quarantined::NotConcerned;
        }
        let concerned = |table: &NamedTable| self.is_quarantined(&table.0, &table.1);
        let mut inner = Inner::clone(&self.inner);
        let mut gone = Vec::new();
        match Named::of(context, sql) {
            // The copy brings what it does.
            Named::Changes(table) if concerned(&table) => {}
            // With IF NOT EXISTS; the source would not log it otherwise.
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
            // What else it changes, the copy brings.
            Named::Moves(from, to) if concerned(&from) => {
                inner.rename_quarantined(&from, &to);
            }
            // Which rows the other table has now is not known either.
            Named::Exchanges(left, right) if concerned(&left) || concerned(&right) => {
                for table in [left, right].iter().filter(|table| !concerned(table)) {
                    gone.extend(
                        inner.quarantine(table, "a partition changed places with a table, one of them quarantined"),
                    );
                }
            }
            Named::DropsDatabase(db) => {
                let db = inner.folded(&db);
                inner.quarantined.retain(|(of, _), _| *of != db);
                // The database itself, and what else is in it, is the catalog's matter.
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
            Named::Other if self.names_one(sql) => {
                return Quarantined::Refused("it names a quarantined table".into());
            }
            _ => return Quarantined::NotConcerned,
        }
        inner.epoch += 1;
        Quarantined::Done(Catalog { inner: Arc::new(inner) }, gone)
    }

    /// Whether a chain of renames begins at a quarantined table.
    fn touched_by(&self, pairs: &[(NamedTable, NamedTable)]) -> bool {
        pairs.iter().any(|(from, _)| self.is_quarantined(&from.0, &from.1))
    }

    /// Whether the name of a quarantined table stands in an ALTER TABLE that does more than change one table.
    fn names_one(&self, sql: &[u8]) -> bool {
        let text = String::from_utf8_lossy(sql).to_lowercase();
        text.contains("alter") && self.quarantined().any(|(_, name, _)| text.contains(&name.to_lowercase()))
    }
}

impl Inner {
    pub(super) fn name_key(&self, db: &str, name: &str) -> (String, String) {
        (self.folded(db), self.folded(name))
    }

    pub(super) fn quarantine(&mut self, table: &NamedTable, why: &str) -> Option<TableId> {
        let old = self.take_table(&table.0, &table.1);
        let key = self.name_key(&table.0, &table.1);
        self.quarantined.insert(key, why.to_owned());
        old
    }

    /// Gives a quarantined table another name; false where there is none of this one.
    fn rename_quarantined(&mut self, from: &NamedTable, to: &NamedTable) -> bool {
        let (from, to) = (self.name_key(&from.0, &from.1), self.name_key(&to.0, &to.1));
        match self.quarantined.remove(&from) {
            Some(why) => self.quarantined.insert(to, why).is_none(),
            None => false,
        }
    }

    /// The next snapshot behind a rename of one table or view that is not quarantined.
    fn renamed_one(&self, context: &StatementContext, from: &NamedTable, to: &NamedTable) -> Result<Inner, String> {
        let name = |(db, name): &NamedTable| TableName { db: Some(db.clone()), name: name.clone() };
        let mut change = Change::new(context, self);
        match change.carry_out(&Statement::RenameTable(vec![(name(from), name(to))])) {
            Ok(_) => Ok(change.inner),
            Err(problem) => Err(problem.with_statement(b"RENAME TABLE").to_string()),
        }
    }

    /// Takes a table out of the snapshot; its id.
    pub(super) fn take_table(&mut self, db: &str, name: &str) -> Option<TableId> {
        let id = self.table(db, name)?.id;
        self.by_id.remove(&id);
        let (db, name) = self.name_key(db, name);
        if let Some(database) = self.databases.get_mut(&db) {
            Arc::make_mut(database).tables.remove(&name);
        }
        Some(id)
    }
}
