//! Effect of replication filters on a statement.
//!
//! In: a statement with its context, whose `names` hold the filters. Out: whether it is executed, or what it does here
//! instead. Never here: a statement's own effect; rows.
//!
//! MySQL decides about a statement as a whole: by the session's default database, then by the tables it changes
//! ([`ReplicationFilters`](crate::ReplicationFilters)). That decision is adopted here. MySQL does not check whether the rows of the tables concerned are
//! replicated, so its replica may end up with a table that nothing keeps current, or stop at the next row. Here a table
//! is in the catalog only while its rows are replicated. Therefore:
//!
//! - An executed statement has no effect on tables whose rows are not replicated.
//! - A filtered-out CREATE, ALTER or TRUNCATE of a table whose rows are replicated puts the table in quarantine until
//!   it is copied. A filtered-out DROP keeps the table, as on MySQL's replica.
//! - A rename to a replicated name of a table that is not in the catalog puts the new name in quarantine. A rename from
//!   a replicated to an unreplicated name removes the table. Each pair of names is decided separately.
//!
//! Databases are created, and get their default collations, whatever the filters say, because tables may follow.

use crate::context::StatementContext;
use crate::named::{Named, NamedTable};
use crate::statement;
use crate::syntax::{AlterAction, PartitionAction, Statement, TableName};
use crate::table::TableId;

use super::{Catalog, Change, Inner};

/// Effect of the filters on a statement.
#[derive(Debug, Clone)]
pub enum Filtered {
    /// The statement is executed.
    Replicated,
    /// The statement is filtered out.
    LeftOut,
    /// The statement is filtered out, but has an effect all the same.
    Instead {
        catalog: Catalog,
        /// Ids whose rows are dead.
        dropped: Vec<TableId>,
        /// Why tables were put in quarantine and must be copied; None if none were.
        copies: Option<String>,
    },
}

/// Objects that a statement names.
#[derive(Debug, PartialEq, Eq)]
enum Objects {
    /// Tables it changes, in the statement's order.
    Changed(Vec<NamedTable>),
    /// Tables or views it drops, or a view it creates.
    Gone(Vec<NamedTable>),
    Renamed {
        pairs: Vec<(NamedTable, NamedTable)>,
        /// True if it also changes the table otherwise.
        altered: bool,
    },
    /// Two tables that exchange rows.
    Exchanged([NamedTable; 2]),
    /// CREATE or ALTER DATABASE, by the name on this replica.
    DatabaseMade(String),
    /// DROP DATABASE, by the name on the source.
    DatabaseGone(String),
    Nothing,
}

impl Objects {
    fn of(context: &StatementContext, sql: &[u8]) -> Objects {
        let name = |name: TableName| (name.db.unwrap_or_else(|| context.default_db.clone()), name.name);
        let Ok(statement) = statement::parse(context, sql) else { return Objects::named(context, sql) };
        match statement {
            Statement::NoEffect(_) | Statement::Recorded(_) | Statement::Optimize(_) => Objects::Nothing,
            Statement::CreateTable(create) => Objects::Changed(vec![name(create.name)]),
            Statement::Truncate(table) => Objects::Changed(vec![name(table)]),
            Statement::CreateView(view) => Objects::Gone(vec![name(view)]),
            Statement::DropView(names) | Statement::DropTable { names, .. } => {
                Objects::Gone(names.into_iter().map(name).collect())
            }
            Statement::RenameTable(pairs) => Objects::Renamed {
                pairs: pairs.into_iter().map(|(from, to)| (name(from), name(to))).collect(),
                altered: false,
            },
            Statement::CreateDatabase { name, .. } => Objects::DatabaseMade(name),
            Statement::AlterDatabase { name, .. } => {
                Objects::DatabaseMade(name.unwrap_or_else(|| context.default_db.clone()))
            }
            Statement::DropDatabase { name, .. } => Objects::DatabaseGone(name),
            Statement::AlterTable { name: table, actions } => {
                let altered = actions.len() > 1;
                for action in actions {
                    match action {
                        AlterAction::RenameTo(to) => {
                            return Objects::Renamed { pairs: vec![(name(table), name(to))], altered };
                        }
                        AlterAction::Partitions(PartitionAction::Exchange { with, .. }) => {
                            return Objects::Exchanged([name(table), name(with)]);
                        }
                        _ => {}
                    }
                }
                Objects::Changed(vec![name(table)])
            }
        }
    }

    /// Objects of a statement that cannot be parsed.
    fn named(context: &StatementContext, sql: &[u8]) -> Objects {
        match Named::of(context, sql) {
            Named::Changes(table) | Named::Creates(table, _) => Objects::Changed(vec![table]),
            Named::Drops(tables) => Objects::Gone(tables),
            Named::Renames(pairs) => Objects::Renamed { pairs, altered: false },
            Named::Moves(from, to) => Objects::Renamed { pairs: vec![(from, to)], altered: true },
            Named::Exchanges(left, right) => Objects::Exchanged([left, right]),
            Named::DropsDatabase(name) => Objects::DatabaseGone(name),
            Named::Other => Objects::Nothing,
        }
    }
}

impl Catalog {
    /// Effect of the filters in `context` on a statement.
    #[must_use]
    pub fn filter(&self, context: &StatementContext, sql: &[u8]) -> Filtered {
        let names = &context.names;
        if names.filters.is_empty() {
            return Filtered::Replicated;
        }
        let lower = names.lower_case_table_names;
        let session = names.filters.database_passes(&context.default_db, lower);
        let passes = |tables: &[NamedTable]| {
            session && names.filters.tables_pass(tables.iter().map(|(db, name)| (db.as_str(), name.as_str())), lower)
        };
        let replicates = |(db, name): &NamedTable| names.replicates(db, name);
        match Objects::of(context, sql) {
            Objects::Nothing if session => Filtered::Replicated,
            Objects::Nothing => Filtered::LeftOut,
            Objects::Changed(tables) if !tables.iter().any(replicates) => Filtered::LeftOut,
            Objects::Changed(tables) if passes(&tables) => Filtered::Replicated,
            Objects::Changed(tables) => self.copies(&tables, "a statement was left out by the filters"),
            Objects::Gone(tables) if tables.iter().any(replicates) && passes(&tables) => Filtered::Replicated,
            Objects::Gone(tables) => self.without_quarantined(&tables),
            Objects::Exchanged(tables) if tables.iter().all(replicates) && passes(&tables) => Filtered::Replicated,
            Objects::Exchanged(tables) => {
                let here: Vec<NamedTable> = tables.into_iter().filter(|table| replicates(table)).collect();
                self.copies(&here, "it exchanged rows with a table that is not replicated")
            }
            Objects::DatabaseMade(name) if session && names.filters.database_statement_passes(&name, lower) => {
                Filtered::Replicated
            }
            Objects::DatabaseMade(_) => match self.apply(context, sql) {
                Ok(outcome) => Filtered::Instead { catalog: outcome.catalog, dropped: Vec::new(), copies: None },
                Err(_) => Filtered::LeftOut,
            },
            // MySQL does not rewrite the name in DROP DATABASE, so its replica keeps the tables. So do we.
            Objects::DatabaseGone(name) => {
                let is_here = self.inner.databases.contains_key(self.inner.folded(&name).as_ref());
                let own = names.database(&name) == name;
                let passes = session && names.filters.database_statement_passes(&name, lower);
                if own && is_here && passes { Filtered::Replicated } else { Filtered::LeftOut }
            }
            Objects::Renamed { pairs, altered } => self.filter_renames(context, &pairs, altered, &passes),
        }
    }

    /// Quarantines these tables until they are copied.
    fn copies(&self, tables: &[NamedTable], why: &str) -> Filtered {
        let mut inner = Inner::clone(&self.inner);
        let mut dropped = Vec::new();
        for table in tables {
            dropped.extend(inner.quarantine(table, why));
        }
        inner.instead(dropped, (!tables.is_empty()).then(|| why.to_owned()))
    }

    /// A filtered-out DROP: quarantined tables leave quarantine, because there is nothing left to copy them from.
    fn without_quarantined(&self, tables: &[NamedTable]) -> Filtered {
        if !tables.iter().any(|(db, name)| self.is_quarantined(db, name)) {
            return Filtered::LeftOut;
        }
        let mut inner = Inner::clone(&self.inner);
        for (db, name) in tables {
            let key = inner.name_key(db, name);
            inner.quarantined.remove(&key);
        }
        inner.instead(Vec::new(), None)
    }

    fn filter_renames(
        &self,
        context: &StatementContext,
        pairs: &[(NamedTable, NamedTable)],
        altered: bool,
        passes: &dyn Fn(&[NamedTable]) -> bool,
    ) -> Filtered {
        let replicates = |(db, name): &NamedTable| context.names.replicates(db, name);
        let all: Vec<NamedTable> = if altered {
            pairs.iter().map(|(from, _)| from.clone()).collect()
        } else {
            pairs.iter().flat_map(|(from, to)| [from.clone(), to.clone()]).collect()
        };
        let inside = pairs.iter().all(|(from, to)| replicates(from) && replicates(to));
        if inside && (!altered || passes(&all)) {
            return Filtered::Replicated;
        }
        if !pairs.iter().any(|(from, to)| replicates(from) || replicates(to)) {
            return Filtered::LeftOut;
        }
        let why = "a table that is not replicated was renamed to this name";
        let mut change = Change::new(context, &self.inner);
        let mut copied = false;
        for (from, to) in pairs {
            let from_key = change.inner.name_key(&from.0, &from.1);
            let known = change.inner.table(&from.0, &from.1).is_some();
            let waiting = change.inner.quarantined.remove(&from_key);
            // An ALTER that also changes the table cannot be executed in part: the table is removed and copied again.
            if !replicates(to) || altered {
                change.dropped.extend(change.inner.take_table(&from.0, &from.1));
            }
            if !replicates(to) {
                continue;
            }
            let name = |(db, name): &NamedTable| TableName { db: Some(db.clone()), name: name.clone() };
            let (view, pair) = (change.is_view(&name(from)).unwrap_or(false), (name(from), name(to)));
            let renamed = (view || (known && !altered)) && change.rename_tables(&[pair]).is_ok();
            if !renamed {
                let why = waiting.as_ref().map_or(why, |waiting| waiting.why.as_str());
                change.dropped.extend(change.inner.quarantine(to, why));
                copied = true;
            }
        }
        change.inner.instead(change.dropped, copied.then(|| why.to_owned()))
    }
}

impl Inner {
    fn instead(mut self, dropped: Vec<TableId>, copies: Option<String>) -> Filtered {
        self.epoch += 1;
        Filtered::Instead { catalog: Catalog { inner: std::sync::Arc::new(self) }, dropped, copies }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use crate::ReplicationFilters;

    use super::*;
    use crate::context::SourceNames;
    use crate::versioned::DdlEffect;

    /// Executes statements as replay does.
    struct Replica {
        catalog: Catalog,
        filters: Arc<ReplicationFilters>,
    }

    impl Replica {
        fn new(rules: &str) -> Replica {
            let mut filters = ReplicationFilters::default();
            for rule in rules.split_whitespace() {
                let (option, value) = rule.split_once('=').unwrap();
                filters.add(&format!("replicate-{option}"), value).unwrap();
            }
            Replica { catalog: Catalog::new(0), filters: Arc::new(filters) }
        }

        fn run(&mut self, db: &str, sql: &str) -> &'static str {
            let names = SourceNames { filters: Arc::clone(&self.filters), lower_case_table_names: 0 };
            let default_db = names.database(db).to_owned();
            let context = StatementContext { default_db, names, ..StatementContext::default() };
            match self.catalog.filter(&context, sql.as_bytes()) {
                Filtered::Replicated => {
                    let outcome = self.catalog.apply(&context, sql.as_bytes()).unwrap();
                    self.catalog = outcome.catalog;
                    if matches!(outcome.effect, DdlEffect::Recorded(_)) { "recorded" } else { "done" }
                }
                Filtered::LeftOut => "left out",
                Filtered::Instead { catalog, copies, .. } => {
                    self.catalog = catalog;
                    if copies.is_some() { "copied" } else { "instead" }
                }
            }
        }

        fn tables(&self) -> String {
            let here = self.catalog.tables().map(|table| format!("{}.{}", table.db, table.name));
            let waiting = self.catalog.quarantined().map(|(db, name, _)| format!("{db}.{name}?"));
            here.chain(waiting).collect::<Vec<_>>().join(" ")
        }
    }

    #[test]
    fn statements_go_by_the_default_database() {
        // Run on 9.7.4, except for the copies: its replica lacks such a table and stops at the first row.
        let mut replica = Replica::new("do-db=a");
        for (db, sql, what) in [
            ("a", "CREATE DATABASE a", "done"),
            ("b", "CREATE DATABASE b", "instead"),
            ("a", "CREATE TABLE t (i INT)", "done"),
            ("b", "CREATE TABLE t (i INT)", "left out"),
            ("", "CREATE TABLE b.u (i INT)", "left out"),
            ("", "CREATE TABLE a.v (i INT)", "copied"),
            ("a", "CREATE TABLE b.v (i INT)", "left out"),
            ("b", "ALTER TABLE a.t ADD j INT", "copied"),
            ("b", "DROP TABLE a.v", "instead"),
            ("b", "CREATE USER u", "left out"),
            ("a", "CREATE USER u", "recorded"),
            ("b", "DROP DATABASE b", "left out"),
        ] {
            assert_eq!(replica.run(db, sql), what, "{sql}");
        }
        assert_eq!(replica.tables(), "a.t?");
        assert_eq!(replica.run("a", "DROP DATABASE a"), "done");
    }

    #[test]
    fn several_tables_in_one_statement() {
        let mut replica = Replica::new("ignore-table=a.t");
        for sql in ["CREATE DATABASE a", "CREATE TABLE t (i INT)", "CREATE TABLE u (i INT)", "CREATE TABLE v (i INT)"] {
            let what = if sql.contains(" t ") { "left out" } else { "done" };
            assert_eq!(replica.run("a", sql), what, "{sql}");
        }
        // The first hit decides for all; no rule hits v.
        assert_eq!(replica.run("a", "DROP TABLE t, u"), "left out");
        assert_eq!(replica.tables(), "a.u a.v");
        let mut replica = Replica::new("wild-do-table=a.d%");
        for sql in ["CREATE TABLE d1 (i INT)", "CREATE TABLE d2 (i INT)"] {
            assert_eq!(replica.run("a", sql), "done");
        }
        assert_eq!(replica.run("a", "DROP TABLE d1, x"), "done");
        assert_eq!(replica.tables(), "a.d2");
    }

    #[test]
    fn renames_over_the_border() {
        let mut replica = Replica::new("do-table=d.t do-table=d.keep");
        assert_eq!(replica.run("d", "CREATE TABLE t (i INT)"), "done");
        assert_eq!(replica.run("d", "CREATE TABLE _t_new (i INT, j INT)"), "left out");
        // The way gh-ost and pt-online-schema-change do it.
        assert_eq!(replica.run("d", "RENAME TABLE t TO _t_old, _t_new TO t"), "copied");
        assert_eq!(replica.tables(), "d.t?");
        assert_eq!(replica.run("d", "DROP TABLE _t_old"), "left out");
        assert_eq!(replica.run("d", "CREATE TABLE keep (i INT)"), "done");
        assert_eq!(replica.run("d", "ALTER TABLE keep RENAME TO gone"), "instead");
        assert_eq!(replica.tables(), "d.t?");
        assert_eq!(replica.run("d", "ALTER TABLE gone ADD j INT, RENAME TO keep"), "copied");
        assert_eq!(replica.tables(), "d.keep? d.t?");
        assert_eq!(replica.run("d", "RENAME TABLE keep TO x"), "instead");
        assert_eq!(replica.run("d", "RENAME TABLE x TO y"), "left out");
        assert_eq!(replica.tables(), "d.t?");
    }

    #[test]
    fn rows_exchanged_over_the_border() {
        let mut replica = Replica::new("ignore-table=d.x");
        assert_eq!(replica.run("d", "CREATE TABLE p (i INT) PARTITION BY HASH (i) PARTITIONS 2"), "done");
        assert_eq!(replica.run("d", "ALTER TABLE p EXCHANGE PARTITION p0 WITH TABLE x"), "copied");
        assert_eq!(replica.tables(), "d.p?");
    }

    #[test]
    fn databases_under_another_name() {
        let mut replica = Replica::new("rewrite-db=a->b ignore-table=b.x");
        assert_eq!(replica.run("a", "CREATE DATABASE a COLLATE latin1_bin"), "done");
        assert_eq!(replica.run("a", "CREATE TABLE t (c CHAR(3))"), "done");
        assert_eq!(replica.run("", "CREATE TABLE a.q (i INT PRIMARY KEY)"), "done");
        assert_eq!(replica.run("z", "CREATE TABLE a.child (i INT, FOREIGN KEY (i) REFERENCES a.q (i))"), "done");
        assert_eq!(replica.run("a", "CREATE TABLE x (i INT)"), "left out");
        assert_eq!(replica.tables(), "b.child b.q b.t");
        assert_eq!(replica.catalog.table("b", "t").unwrap().columns[0].ty.collation, 47);
        assert_eq!(replica.catalog.children("b", "q").count(), 1);
        // Run on 9.7.4: the tables remain.
        assert_eq!(replica.run("a", "DROP DATABASE a"), "left out");
        assert_eq!(replica.run("a", "CREATE DATABASE a"), "done");
        assert_eq!(replica.run("a", "DROP TABLE t"), "done");
    }

    #[test]
    fn what_cannot_be_read_is_filtered_by_its_names() {
        let mut replica = Replica::new("ignore-table=d.x");
        assert_eq!(replica.run("d", "ALTER TABLE x FROBNICATE"), "left out");
        assert_eq!(replica.run("d", "CREATE TABLE x (i WONDER)"), "left out");
    }
}
