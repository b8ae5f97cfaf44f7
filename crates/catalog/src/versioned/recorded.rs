//! Definitions that the catalog keeps of objects other than tables and databases.
//!
//! In: statements that are executed or recorded. Out: the definitions after them. Never here: a new epoch, because no
//! row is read under these definitions.

use std::sync::Arc;

use crate::context::StatementContext;
use crate::stored_objects::{
    Answer, Change as DefinitionChange, Definition, Definitions, Recorded, Source, StoredAnswer, Unsettled,
};
use crate::syntax::{AlterAction, Statement, TableName};

use super::{Catalog, Inner};
use crate::error::Problem;

/// Bytes that one statement leaves, at most: 1,000 accounts with options of 60 KB take as many, or 250,000 grants.
const KEPT_BYTES_MAX: usize = 64 << 20;

impl Catalog {
    /// Views, routines, triggers, events, users and grants, in an order in which they can be created again.
    pub fn definitions(&self) -> impl Iterator<Item = &Arc<Definition>> {
        self.inner.definitions.all()
    }

    /// The definition of a view, where it is known.
    #[must_use]
    pub fn view(&self, db: &str, name: &str) -> Option<&Arc<Definition>> {
        self.inner.view(db, name)
    }

    /// Definitions that may not be as the source has them.
    pub fn unsettled_definitions(&self) -> impl Iterator<Item = &Unsettled> {
        self.inner.definitions.unsettled()
    }

    /// GTID of the last statement about users, roles and what they may that was seen in this life of the catalog; empty
    /// without one. Another GTID: grants may be others.
    #[must_use]
    pub fn last_account_statement(&self) -> &Arc<str> {
        self.inner.definitions.last_of_accounts()
    }

    /// True if all of the source's definitions have been read once: by the initial copy, or next to replay.
    #[must_use]
    pub fn knows_definitions(&self) -> bool {
        self.inner.definitions.all_known()
    }

    /// True if the answer is taken over as a whole: nothing was removed or renamed since the source was asked.
    #[must_use]
    pub fn takes(&self, answer: &Answer) -> bool {
        self.inner.definitions.takes(answer)
    }

    /// The next snapshot after the source's answer about unsettled definitions.
    #[must_use]
    pub fn with_answer(&self, answer: &Answer) -> Catalog {
        let mut inner = Inner::clone(&self.inner);
        let lower = inner.lower_case_table_names;
        inner.definitions.settle(answer, &move |name: &str| folded(lower, name));
        Catalog { inner: Arc::new(inner) }
    }

    /// The next snapshot with additional definitions, from the initial copy. `are_all`: its account sees all that the
    /// source has.
    #[must_use]
    pub fn with_definitions(&self, more: Vec<Definition>, are_all: bool) -> Catalog {
        let mut inner = Inner::clone(&self.inner);
        let mut all: Vec<Definition> = inner.definitions.all().map(|one| Definition::clone(one)).collect();
        all.extend(more);
        let unsettled = inner.definitions.unsettled().cloned().collect();
        inner.keep_definitions(all, unsettled);
        if are_all {
            inner.definitions.know_all();
        }
        Catalog { inner: Arc::new(inner) }
    }

    /// The next snapshot after a recorded statement; None if the statement names no object that is kept.
    ///
    /// # Errors
    /// What it leaves with all the accounts that it names would take more than [`KEPT_BYTES_MAX`].
    pub(super) fn recorded(&self, context: &StatementContext, sql: &[u8]) -> Result<Option<Catalog>, Problem> {
        let Some(change) = DefinitionChange::of(context, sql) else { return Ok(None) };
        if change.kept_bytes(sql.len()) > KEPT_BYTES_MAX {
            return Problem::unsupported(
                "a statement of too many accounts: what it gives them is kept with each of them",
            );
        }
        let mut inner = Inner::clone(&self.inner);
        inner.record(context, sql, change);
        Ok(Some(Catalog { inner: Arc::new(inner) }))
    }
}

impl Inner {
    pub(super) fn keep_definitions(&mut self, list: Vec<Definition>, unsettled: Vec<Unsettled>) {
        let lower = self.lower_case_table_names;
        let folded = move |name: &str| folded(lower, name);
        let definitions = Definitions::from_list(list, unsettled, &folded);
        let earlier = std::mem::replace(&mut self.definitions, definitions);
        self.definitions.succeed(earlier);
    }

    pub(super) fn is_known_view(&self, db: &str, name: &str) -> bool {
        self.view(db, name).is_some()
    }

    fn view(&self, db: &str, name: &str) -> Option<&Arc<Definition>> {
        let lower = self.lower_case_table_names;
        self.definitions.view(db, name, &move |name| folded(lower, name))
    }

    pub(super) fn keep_answers(&mut self, answers: Vec<StoredAnswer>, all_known: bool) {
        self.definitions.keep_answers(answers);
        if all_known {
            self.definitions.know_all();
        }
    }

    fn record(&mut self, context: &StatementContext, sql: &[u8], change: DefinitionChange) {
        let lower = self.lower_case_table_names;
        let database = self.databases.get(self.folded(&context.default_db).as_ref());
        let recorded = Recorded::of(context, sql, database.and_then(|database| database.collation));
        let mut definitions = std::mem::take(&mut self.definitions);
        let source = Source {
            server_version: context.server_version,
            changed: context.changed,
            folded: &move |name| folded(lower, name),
            is_table: &|db, name| self.table(db, name).is_some(),
        };
        definitions.take(change, &recorded, &source);
        self.definitions = definitions;
    }

    /// Updates the definitions for a statement about tables, views or databases.
    pub(super) fn follow(&mut self, context: &StatementContext, sql: &[u8], statement: &Statement) {
        let lower = self.lower_case_table_names;
        let folded = move |name: &str| folded(lower, name);
        let full =
            |name: &TableName| (name.db.clone().unwrap_or_else(|| context.default_db.clone()), name.name.clone());
        let renames: Vec<_> = match statement {
            Statement::CreateView(_) | Statement::DropView(_) => {
                if let Some(change) = DefinitionChange::of(context, sql) {
                    self.record(context, sql, change);
                }
                return;
            }
            Statement::DropDatabase { name, .. } => {
                self.definitions.database_gone(&folded(name), &context.gtid, &folded);
                return;
            }
            Statement::DropTable { names, .. } => {
                for (db, name) in names.iter().map(full) {
                    self.definitions.table_gone(&db, &name, &context.gtid, &folded);
                }
                return;
            }
            Statement::RenameTable(pairs) => pairs.iter().map(|(from, to)| (full(from), full(to))).collect(),
            Statement::AlterTable { name, actions } => {
                let to = actions.iter().filter_map(|action| match action {
                    AlterAction::RenameTo(to) => Some((full(name), full(to))),
                    _ => None,
                });
                to.collect()
            }
            _ => return,
        };
        for (from, to) in &renames {
            self.definitions.table_renamed((&from.0, &from.1), (&to.0, &to.1), &context.gtid, &folded);
        }
    }

    /// Why the tables written cannot be determined if a statement changes this table or calls these functions; None if
    /// they can.
    pub(super) fn writes_besides(&self, db: &str, name: &str, calls: &[String]) -> Option<String> {
        let lower = self.lower_case_table_names;
        // A called function or a trigger of the table may write to any table.
        let one = self.definitions.called(calls).or_else(|| {
            let of = self.definitions.triggers_of(db, name, &move |name| folded(lower, name));
            of.into_iter().next()
        })?;
        Some(format!("{} `{}`.`{}` may write any table", one.kind.name(), one.db, one.name))
    }
}

fn folded(lower_case_table_names: u8, name: &str) -> String {
    if lower_case_table_names == 0 { name.to_owned() } else { name.to_lowercase() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::versioned::Written;

    fn shown(catalog: &Catalog) -> String {
        let one = |one: &Arc<Definition>| {
            let table = one.table.as_ref().map(|(_, table)| format!(" on {table}")).unwrap_or_default();
            format!("{} {}.{}{table}", one.kind.name(), one.db, one.name)
        };
        catalog.definitions().map(one).collect::<Vec<_>>().join("; ")
    }

    #[test]
    fn they_follow_tables_and_databases() {
        let context = StatementContext { default_db: "d".into(), gtid: "g:1".into(), ..StatementContext::default() };
        let mut catalog = Catalog::new(0);
        for (sql, wanted) in [
            ("CREATE DATABASE d", ""),
            ("CREATE TABLE t (a INT)", ""),
            ("CREATE VIEW v AS SELECT * FROM t", "VIEW d.v"),
            ("CREATE TRIGGER tr AFTER INSERT ON t FOR EACH ROW SET @a = 1", "VIEW d.v; TRIGGER d.tr on t"),
            ("RENAME TABLE t TO u, v TO w", "VIEW d.w; TRIGGER d.tr on u"),
            ("ALTER TABLE u RENAME TO x", "VIEW d.w; TRIGGER d.tr on x"),
            ("CREATE USER me", "USER .me@%; VIEW d.w; TRIGGER d.tr on x"),
            ("DROP TABLE x", "USER .me@%; VIEW d.w"),
            ("DROP DATABASE d", "USER .me@%"),
        ] {
            catalog = catalog.apply(&context, sql.as_bytes()).unwrap().catalog;
            assert_eq!(shown(&catalog), wanted, "{sql}");
            let kept = Catalog::from_json(&catalog.to_json().unwrap()).unwrap();
            assert!(kept.definitions().eq(catalog.definitions()), "{sql}");
        }
        let me = catalog.definitions().next().unwrap();
        assert_eq!(me.made.as_ref().map(|made| made.gtid.as_str()), Some("g:1"));
    }

    #[test]
    fn triggers_and_functions_may_write_anything() {
        let context = StatementContext { default_db: "d".into(), ..StatementContext::default() };
        let mut catalog = Catalog::new(0);
        for sql in [
            "CREATE TABLE t (a INT)",
            "CREATE TABLE u (a INT)",
            "CREATE TRIGGER tr AFTER INSERT ON t FOR EACH ROW INSERT INTO u VALUES (1)",
            "CREATE FUNCTION Fu() RETURNS INT BEGIN DELETE FROM t; RETURN 1; END",
        ] {
            catalog = catalog.apply(&context, sql.as_bytes()).unwrap().catalog;
        }
        let of = |sql: &str| catalog.written(&context, sql.as_bytes());
        assert!(
            matches!(of("INSERT INTO t VALUES (1)"), Some(Written::Unknown(why)) if why.contains("TRIGGER `d`.`tr`"))
        );
        assert!(matches!(of("INSERT INTO u VALUES (fu())"), Some(Written::Unknown(why)) if why.contains("FUNCTION")));
        assert!(matches!(of("INSERT INTO u VALUES (ABS(1))"), Some(Written::Tables(_))));
    }
}
