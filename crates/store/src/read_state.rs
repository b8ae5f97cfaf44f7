//! Which tables may have changed since a state that was read.
//!
//! In: a state that was read earlier, the one of now. Out: whether a table's rows or definition may be others now.
//! Never here: a row, an answer that a change has not happened where that is not known.

use std::sync::{Arc, Weak};

use catalog::{Catalog, ForeignKey, ReferenceAction, TableDef};

use crate::Store;
use crate::snapshot::Snapshot;

/// A state that was read, without its rows.
#[derive(Clone)]
pub struct ReadState {
    store: Weak<Store>,
    sequence: u64,
    catalog: Catalog,
}

impl ReadState {
    /// Number of its last transaction.
    #[must_use]
    pub fn sequence(&self) -> u64 {
        self.sequence
    }

    /// Table definitions of then.
    #[must_use]
    pub fn catalog(&self) -> &Catalog {
        &self.catalog
    }
}

impl std::fmt::Debug for ReadState {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "ReadState({})", self.sequence)
    }
}

/// True if rows of the child change with those of the parent.
fn cascades(key: &ForeignKey) -> bool {
    let passive = |action| matches!(action, ReferenceAction::NoAction | ReferenceAction::Restrict);
    !passive(key.on_delete) || !passive(key.on_update)
}

/// A table, and those whose changes reach it by foreign keys.
fn with_parents<'a>(catalog: &'a Catalog, table: &'a Arc<TableDef>) -> Vec<&'a Arc<TableDef>> {
    let (mut all, mut next) = (vec![table], 0);
    while let Some(child) = all.get(next).copied() {
        next += 1;
        for key in child.foreign_keys.iter().filter(|key| cascades(key)) {
            let parent = catalog.table(&key.parent_db, &key.parent_table);
            all.extend(parent.filter(|parent| !all.iter().any(|known| known.id == parent.id)));
        }
    }
    all
}

impl Snapshot {
    /// What [`may_have_changed`](Self::may_have_changed) is asked of later.
    #[must_use]
    pub fn read_state(&self) -> ReadState {
        ReadState { store: Arc::downgrade(self.store()), sequence: self.sequence(), catalog: self.catalog().clone() }
    }

    /// False only if it is known that a table has the rows and the definition that it had in that state, in every state
    /// from there to this snapshot.
    #[must_use]
    pub fn may_have_changed(&self, since: &ReadState, db: &str, name: &str) -> bool {
        if !std::ptr::eq(since.store.as_ptr(), Arc::as_ptr(self.store())) {
            return true;
        }
        let (Some(before), Some(now)) = (since.catalog.table(db, name), self.catalog().table(db, name)) else {
            return true;
        };
        let changes = self.store().changes();
        !Arc::ptr_eq(before, now)
            || with_parents(self.catalog(), now).iter().any(|table| changes.is_after(table.id, since.sequence))
    }
}

#[cfg(test)]
mod tests {
    use base::SequenceNumber;
    use catalog::StatementContext;

    use super::*;

    fn with(catalog: &Catalog, sql: &str) -> Catalog {
        let context = StatementContext { default_db: "d".to_owned(), ..StatementContext::default() };
        catalog.apply(&context, sql.as_bytes()).unwrap().catalog
    }

    fn catalog() -> Catalog {
        let tables = [
            "CREATE DATABASE d",
            "CREATE TABLE d.a (id INT PRIMARY KEY)",
            "CREATE TABLE d.b (id INT PRIMARY KEY, a INT, FOREIGN KEY (a) REFERENCES a (id) ON DELETE CASCADE)",
            "CREATE TABLE d.c (id INT PRIMARY KEY, b INT, FOREIGN KEY (b) REFERENCES b (id) ON UPDATE SET NULL)",
            "CREATE TABLE d.e (id INT PRIMARY KEY, a INT, FOREIGN KEY (a) REFERENCES a (id))",
        ];
        tables.iter().fold(Catalog::new(0), |catalog, sql| with(&catalog, sql))
    }

    #[test]
    fn a_table_has_changed_if_it_a_parent_or_its_definition_has() {
        let first = catalog();
        let store = Arc::new(Store::new(1, first.clone()));
        let id = |name: &str| first.table("d", name).unwrap().id;
        let seen = Snapshot::pin(&store).read_state();
        let changed = || {
            let now = Snapshot::pin(&store);
            ["a", "b", "c", "e"].map(|name| now.may_have_changed(&seen, "d", name))
        };
        assert_eq!(changed(), [false; 4]);
        store.changes().note([id("c")].into_iter(), 1);
        assert_eq!(changed(), [false, false, true, false], "before it is visible");
        store.changes().note([id("a")].into_iter(), 2);
        assert_eq!(changed(), [true, true, true, false]);
        store.visibility().advance(SequenceNumber(2), |_| ());
        let later = Snapshot::pin(&store);
        let state = later.read_state();
        assert!(!later.may_have_changed(&state, "d", "c"));
        assert!(later.may_have_changed(&state, "d", "nothing"));
        store.visibility().announce_catalog(SequenceNumber(3), with(&first, "ALTER TABLE d.a COMMENT = 'new'"));
        store.visibility().advance(SequenceNumber(3), |_| ());
        let now = Snapshot::pin(&store);
        assert!(now.may_have_changed(&state, "d", "a") && !now.may_have_changed(&state, "d", "e"));
        let other = Arc::new(Store::new(1, first.clone()));
        assert!(Snapshot::pin(&other).may_have_changed(&seen, "d", "e"), "of another store nothing is known");
    }
}
