//! The tables of a snapshot by name, by id, and by what they depend on.
//!
//! In: tables that come, go or change. Out: the maps with that change, everything else shared with the snapshot before.
//! Never here: statements, epochs.

use std::borrow::Cow;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use base::SharedMap;

use super::{Database, Inner};
use crate::stored_objects::Definitions;
use crate::table::{TableDef, TableId};

/// Folded names of a database and of a table in it.
pub(super) type FoldedName = Arc<(String, String)>;

/// A table that a foreign key references, or that is a member of a MERGE table, and the table that has the key or the
/// member.
pub(super) type Dependent = (FoldedName, FoldedName);

/// See [`Catalog::visited`](super::Catalog::visited). Shared by all snapshots that one was made into.
#[derive(Debug, Clone, Default)]
pub(super) struct Visits(Arc<AtomicU64>);

impl Visits {
    pub(super) fn add(&self, tables: usize) {
        if cfg!(debug_assertions) {
            self.0.fetch_add(tables as u64, Ordering::Relaxed);
        }
    }

    pub(super) fn sum(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

impl Inner {
    pub(super) fn empty(lower_case_table_names: u8) -> Inner {
        Inner {
            lower_case_table_names,
            epoch: 0,
            next_table_id: 1,
            databases: SharedMap::new(),
            by_id: SharedMap::new(),
            dependents: SharedMap::new(),
            quarantined: SharedMap::new(),
            definitions: Definitions::default(),
            visits: Visits::default(),
        }
    }

    /// A name in the form in which this source compares it.
    pub(super) fn folded<'a>(&self, name: &'a str) -> Cow<'a, str> {
        if self.lower_case_table_names == 0 { Cow::Borrowed(name) } else { Cow::Owned(name.to_lowercase()) }
    }

    /// A name in the form in which this source stores it.
    pub(super) fn stored(&self, name: &str) -> String {
        if self.lower_case_table_names == 1 { name.to_lowercase() } else { name.to_owned() }
    }

    pub(super) fn name_key(&self, db: &str, name: &str) -> (String, String) {
        (self.folded(db).into_owned(), self.folded(name).into_owned())
    }

    pub(super) fn table(&self, db: &str, name: &str) -> Option<&Arc<TableDef>> {
        self.databases.get(self.folded(db).as_ref())?.tables.get(self.folded(name).as_ref())
    }

    pub(super) fn is_view(&self, db: &str, name: &str) -> bool {
        let database = self.databases.get(self.folded(db).as_ref());
        database.is_some_and(|database| database.views.contains_key(self.folded(name).as_ref()))
    }

    /// Tables that depend on the one of this name, sorted by their own.
    pub(super) fn dependents_of(&self, of: FoldedName) -> impl Iterator<Item = &Arc<TableDef>> {
        let first = (Arc::clone(&of), FoldedName::default());
        let all = self.dependents.iter_from(&first).take_while(move |((parent, _), _)| *parent == of);
        all.map(|(_, table)| table).inspect(move |_| self.visits.add(1))
    }

    /// Changes the database of this name, which is made if it is not there.
    pub(super) fn change_database(&mut self, db: &str, change: impl FnOnce(&mut Database)) {
        let key = self.folded(db).into_owned();
        let mut database = self.databases.get(key.as_str()).cloned().unwrap_or_else(|| {
            let (tables, views) = (SharedMap::new(), SharedMap::new());
            Arc::new(Database { name: self.stored(db), collation: None, tables, views })
        });
        change(Arc::make_mut(&mut database));
        self.databases.insert(key.into(), database);
    }

    /// Puts a table in the place of the one of its name, and creates its database if necessary.
    pub(super) fn put_table(&mut self, table: &Arc<TableDef>) {
        if let Some(old) = self.table(&table.db, &table.name).cloned() {
            self.remove_table(&old);
        }
        let own: FoldedName = Arc::new(self.name_key(&table.db, &table.name));
        for parent in self.parents_of(table) {
            self.dependents.insert((parent, Arc::clone(&own)), Arc::clone(table));
        }
        let name = Arc::from(own.1.as_str());
        self.change_database(&table.db, |database| drop(database.tables.insert(name, Arc::clone(table))));
        self.by_id.insert(table.id, Arc::clone(table));
    }

    /// Removes a table; its database stays.
    pub(super) fn remove_table(&mut self, table: &TableDef) {
        self.by_id.remove(&table.id);
        let own: FoldedName = Arc::new(self.name_key(&table.db, &table.name));
        for parent in self.parents_of(table) {
            self.dependents.remove(&(parent, Arc::clone(&own)));
        }
        self.change_database(&table.db, |database| drop(database.tables.remove(own.1.as_str())));
    }

    /// Removes the table of this name; returns its id.
    pub(super) fn take_table(&mut self, db: &str, name: &str) -> Option<TableId> {
        let table = Arc::clone(self.table(db, name)?);
        self.remove_table(&table);
        Some(table.id)
    }

    fn parents_of(&self, table: &TableDef) -> Vec<FoldedName> {
        let keys = table.foreign_keys.iter().map(|key| Arc::new(self.name_key(&key.parent_db, &key.parent_table)));
        keys.chain(table.members().map(|(db, name)| Arc::new(self.name_key(&db, &name)))).collect()
    }
}
