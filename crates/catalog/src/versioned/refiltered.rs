//! The catalog under other filters than those that it was made with.
//!
//! In: the filters from now on, what they let in anew. Out: the next snapshot. Never here: which tables those are, for
//! only the source knows; rows.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use crate::filters::ReplicationFilters;
use crate::named::NamedTable;
use crate::stored_objects::Definition;

use super::{Catalog, Inner};

/// What filters let in that others before them left out, by its name here.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct LetIn {
    #[serde(rename = "tables")]
    pub tables: Vec<NamedTable>,
    #[serde(rename = "views")]
    pub views: Vec<NamedTable>,
    /// Views, routines, triggers and events, as far as the source shows them.
    #[serde(rename = "definitions")]
    pub definitions: Vec<Definition>,
}

/// Reason of a table's quarantine.
const LET_IN: &str = "the replication filters have left it out until now";

impl Catalog {
    /// The next snapshot under these filters. What they leave out is in it no more. Tables that they let in are in
    /// quarantine until they are copied, but for those that are here already.
    #[must_use]
    pub fn under_filters(&self, filters: &ReplicationFilters, let_in: &LetIn) -> Catalog {
        let lower = self.lower_case_table_names();
        let mut inner = Inner::clone(&self.inner);
        inner.epoch += 1;
        let left_out = self.tables().filter(|table| !filters.replicates(&table.db, &table.name, lower));
        for table in left_out {
            inner.take_table(&table.db, &table.name);
        }
        for (key, _) in self.inner.quarantined.iter().filter(|(key, _)| !filters.replicates(&key.0, &key.1, lower)) {
            inner.quarantined.remove(&**key);
        }
        for table in let_in.tables.iter().filter(|(db, name)| filters.replicates(db, name, lower)) {
            if inner.table(&table.0, &table.1).is_none() && !self.is_quarantined(&table.0, &table.1) {
                inner.quarantine(table, LET_IN);
            }
        }
        for database in self.inner.databases.values() {
            let left_out = |view: &&Arc<str>| !filters.replicates(&database.name, view, lower);
            for view in database.views.keys().filter(left_out) {
                inner.change_database(&database.name, |database| _ = database.views.remove(view));
            }
        }
        for (db, view) in let_in.views.iter().filter(|(db, name)| filters.replicates(db, name, lower)) {
            let (db, view) = inner.name_key(db, view);
            if inner.databases.contains_key(db.as_str()) {
                inner.change_database(&db, |database| _ = database.views.insert(view.into(), ()));
            }
        }
        // Of two the later one counts: the log has changed it since it was let in.
        let all = let_in.definitions.iter().chain(self.definitions().map(AsRef::as_ref));
        let all = all.filter(|one| one.passes(filters, lower)).cloned().collect();
        inner.keep_definitions(all, self.unsettled_definitions().cloned().collect());
        Catalog { inner: Arc::new(inner) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::context::StatementContext;
    use crate::stored_objects::DefinitionKind;

    fn filters(rules: &[&str]) -> ReplicationFilters {
        let mut filters = ReplicationFilters::default();
        for rule in rules {
            let (option, value) = rule.split_once('=').unwrap();
            filters.add(&format!("replicate-{option}"), value).unwrap();
        }
        filters
    }

    fn shown(catalog: &Catalog) -> String {
        let mut all: Vec<String> = catalog.tables().map(|table| format!("{}.{}", table.db, table.name)).collect();
        all.extend(catalog.quarantined().map(|(db, name, _)| format!("{db}.{name}?")));
        all.extend(catalog.definitions().map(|one| format!("{} {}.{}", one.kind.name(), one.db, one.name)));
        all.sort();
        all.join(" ")
    }

    fn view(db: &str, name: &str) -> Definition {
        let (db, name) = (db.to_owned(), name.to_owned());
        Definition {
            kind: DefinitionKind::View,
            db,
            name,
            table: None,
            made: None,
            later: crate::Later::default(),
            order: None,
        }
    }

    #[test]
    fn tables_leave_and_wait_for_their_copy() {
        let context = StatementContext { default_db: "a".into(), ..StatementContext::default() };
        let mut catalog = Catalog::new(0);
        for sql in [
            "CREATE DATABASE a",
            "CREATE DATABASE b",
            "CREATE TABLE t (i INT)",
            "CREATE TABLE u (i INT)",
            "CREATE VIEW v AS SELECT * FROM t",
            "CREATE TABLE b.t (i INT)",
        ] {
            catalog = catalog.apply(&context, sql.as_bytes()).unwrap().catalog;
        }
        catalog = catalog.with_quarantined(&("b".into(), "q".into()), "why").0;
        assert_eq!(shown(&catalog), "VIEW a.v a.t a.u b.q? b.t");
        let named = |names: &[(&str, &str)]| -> Vec<NamedTable> {
            names.iter().map(|(db, name)| ((*db).to_owned(), (*name).to_owned())).collect()
        };
        let let_in = LetIn {
            tables: named(&[("b", "x"), ("a", "t")]),
            views: named(&[("b", "w")]),
            definitions: vec![view("b", "w")],
        };
        let now = filters(&["do-table=a.t", "do-table=b.x", "wild-do-table=_.w"]);
        let next = catalog.under_filters(&now, &let_in);
        assert_eq!(shown(&next), "VIEW b.w a.t b.x?");
        assert!(next.is_view("b", "w") && !next.is_view("a", "v"));
        assert!(next.epoch() > catalog.epoch());
        // Again, as after a crash: the same.
        assert_eq!(shown(&next.under_filters(&now, &let_in)), shown(&next));
        // And back: rows of what was left out meanwhile are not known.
        let let_in = LetIn { tables: named(&[("b", "t"), ("a", "u")]), ..LetIn::default() };
        let back = next.under_filters(&filters(&[]), &let_in);
        assert_eq!(shown(&back), "VIEW b.w a.t a.u? b.t? b.x?");
    }
}
