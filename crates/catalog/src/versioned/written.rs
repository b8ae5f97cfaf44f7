//! Statements in a row-based log that change rows as text (invariant 19), as pt-table-checksum writes them.
//!
//! In: a statement with its context. Out: the tables of this catalog that it may have changed. Never here: the
//! statement's effect, which cannot be known; the tables are copied instead.

use crate::context::StatementContext;
use crate::named::NamedTable;
use crate::targets::targets;

use super::{Catalog, is_system};

/// Tables that a statement may have changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Written {
    /// Tables of this catalog, by their names here. Excludes those of the server's own databases.
    Tables(Vec<NamedTable>),
    /// Tables that are neither in the catalog nor in quarantine: temporary tables of the session, tables that filters
    /// exclude, or tables older than the log.
    Absent(Vec<NamedTable>),
    /// Possibly any table, for this reason.
    Unknown(String),
}

impl Catalog {
    /// The tables that a statement may have changed directly or through foreign keys. None if it is not a readable
    /// INSERT, REPLACE, UPDATE, DELETE or LOAD.
    #[must_use]
    pub fn written(&self, context: &StatementContext, sql: &[u8]) -> Option<Written> {
        let found = targets(context, sql)?;
        let mut tables = Vec::new();
        for (db, name) in found.tables {
            if is_system(&db) {
                continue;
            }
            if self.is_view(&db, &name) {
                return Some(Written::Unknown(format!("it writes through the view `{db}`.`{name}`")));
            }
            self.with_children((db, name), &mut tables);
        }
        for (db, name) in &tables {
            if let Some(why) = self.inner.writes_besides(db, name, &found.calls) {
                return Some(Written::Unknown(why));
            }
        }
        let is_here = |(db, name): &NamedTable| self.table(db, name).is_some() || self.is_quarantined(db, name);
        let keeps_rows =
            |(db, name): &NamedTable| self.table(db, name).is_none_or(|table| table.engine_of().keeps_rows());
        tables.retain(keeps_rows);
        let (here, absent): (Vec<_>, Vec<_>) = tables.into_iter().partition(is_here);
        Some(if here.is_empty() && !absent.is_empty() { Written::Absent(absent) } else { Written::Tables(here) })
    }

    /// Adds a table, its members if it is a MERGE table, and the tables whose rows its foreign keys may change.
    fn with_children(&self, table: NamedTable, tables: &mut Vec<NamedTable>) {
        let mut due = vec![table];
        while let Some((db, name)) = due.pop() {
            let key = self.inner.name_key(&db, &name);
            if tables.contains(&key) {
                continue;
            }
            due.extend(self.table(&db, &name).iter().flat_map(|table| table.members()));
            for (child, foreign) in self.children(&db, &name) {
                if foreign.on_delete.changes_children() || foreign.on_update.changes_children() {
                    due.push((child.db.clone(), child.name.clone()));
                }
            }
            tables.push(key);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_with_those_that_follow_them() {
        let context = StatementContext { default_db: "d".into(), ..StatementContext::default() };
        let mut catalog = Catalog::new(0);
        for sql in [
            "CREATE TABLE p (id INT PRIMARY KEY)",
            "CREATE TABLE c (id INT PRIMARY KEY, p INT, FOREIGN KEY (p) REFERENCES p (id) ON DELETE CASCADE)",
            "CREATE TABLE g (c INT, FOREIGN KEY (c) REFERENCES c (id) ON UPDATE SET NULL)",
            "CREATE TABLE r (p INT, FOREIGN KEY (p) REFERENCES p (id))",
            "CREATE VIEW v AS SELECT * FROM p",
            "CREATE TABLE b (i INT) ENGINE=BLACKHOLE",
            "CREATE TABLE one (i INT) ENGINE=MyISAM",
            "CREATE TABLE two (i INT) ENGINE=MyISAM",
            "CREATE TABLE m (i INT) ENGINE=MERGE UNION=(one, d.two)",
        ] {
            catalog = catalog.apply(&context, sql.as_bytes()).unwrap().catalog;
        }
        let of = |sql: &str| match catalog.written(&context, sql.as_bytes()) {
            Some(Written::Tables(tables)) => tables.into_iter().map(|(_, name)| name).collect::<Vec<_>>().join(" "),
            Some(Written::Absent(tables)) => format!("absent: {}", tables[0].1),
            Some(Written::Unknown(why)) => why,
            None => "none".into(),
        };
        assert_eq!(of("DELETE FROM p"), "p c g");
        assert_eq!(of("UPDATE r SET p = 1"), "r");
        assert_eq!(of("INSERT INTO temporary_one VALUES (1)"), "absent: temporary_one");
        assert_eq!(of("INSERT INTO mysql.x VALUES (1)"), "");
        assert_eq!(of("INSERT INTO v VALUES (1)"), "it writes through the view `d`.`v`");
        assert_eq!(of("CREATE TABLE x (i INT)"), "none");
        assert_eq!(of("INSERT INTO b VALUES (1)"), "", "nothing is kept of it");
        assert_eq!(of("INSERT INTO m VALUES (1)"), "two one", "its members change, it holds nothing itself");
    }
}
