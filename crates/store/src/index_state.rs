//! How much of each secondary index the tree holds.
//!
//! In: the catalog of each cut, the progress of fills. Out: which entries a cut writes, which index a reader may use.
//! Invariant: a complete index has exactly one entry for each row in the tree; an index that is being filled has
//! exactly the entries of the rows up to a key; any other index has no valid entries. A fill and a cut never run at the
//! same time, so each sees the other's rows and entries in full.

use std::collections::BTreeSet;
use std::sync::Arc;

use base::SharedMap;
use catalog::{Catalog, IndexSet, TableDef, TableId};
use serde::{Deserialize, Serialize};

/// A table id and an index id within it.
pub(crate) type IndexName = (u32, u16);

/// States of all secondary indexes in the tree.
#[derive(Clone, Debug)]
pub(crate) struct IndexStates {
    /// That of the newest cut, whose indexes are in `complete` or in `incomplete`.
    catalog: Catalog,
    /// The tree has no rows of tables from this id on.
    next_table_id: u32,
    complete: SharedMap<IndexName, ()>,
    incomplete: SharedMap<IndexName, ()>,
    filling: Option<Filling>,
    /// Tables whose rows a copy wrote into the tree, without index entries, under ids that no cut's catalog knew at
    /// that time.
    copied: BTreeSet<u32>,
}

/// An index that is being filled.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Filling {
    #[serde(rename = "table")]
    pub table: u32,
    #[serde(rename = "index")]
    pub index: u16,
    /// Tree key of the last row whose entry was written.
    #[serde(rename = "done")]
    pub done: Vec<u8>,
}

/// How much of an index a cut maintains.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Extent {
    Everything,
    /// Rows up to this key of the tree.
    UpTo(Vec<u8>),
    Nothing,
}

impl Extent {
    pub(crate) fn covers(&self, row_key: &[u8]) -> bool {
        match self {
            Extent::Everything => true,
            Extent::UpTo(last) => row_key <= last.as_slice(),
            Extent::Nothing => false,
        }
    }
}

/// The record in the tree, as JSON.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Record {
    /// In stores of before the record of each table says which of its indexes are incomplete.
    // Absent since.
    #[serde(rename = "complete", default, skip_serializing_if = "Option::is_none")]
    complete: Option<Vec<IndexName>>,
    #[serde(rename = "filling", deserialize_with = "Option::deserialize")]
    filling: Option<Filling>,
}

impl Default for IndexStates {
    /// Those of a tree without tables.
    fn default() -> IndexStates {
        IndexStates {
            catalog: Catalog::new(0),
            next_table_id: 0,
            complete: SharedMap::new(),
            incomplete: SharedMap::new(),
            filling: None,
            copied: BTreeSet::new(),
        }
    }
}

impl IndexStates {
    /// Parses the record, for the catalog of the same tree. `incomplete` are the indexes that the records of tables
    /// name; None if there are no such records: the one here lists the complete ones then, and without it none is
    /// complete.
    ///
    /// # Errors
    /// If it is no such record, or lacks the list that it needs.
    pub(crate) fn from_json(
        text: Option<&[u8]>,
        catalog: &Catalog,
        incomplete: Option<Vec<IndexName>>,
    ) -> Result<IndexStates, serde_json::Error> {
        let record = match text {
            Some(text) => serde_json::from_slice(text)?,
            None => Record { complete: None, filling: None },
        };
        let is_complete: Box<dyn Fn(&IndexName) -> bool> = match (incomplete, record.complete) {
            (Some(incomplete), None) => {
                let incomplete: BTreeSet<IndexName> = incomplete.into_iter().collect();
                Box::new(move |name| !incomplete.contains(name))
            }
            (None, None) if text.is_some() => return Err(serde::de::Error::missing_field("complete")),
            (Some(_), Some(_)) => return Err(serde::de::Error::unknown_field("complete", &["filling"])),
            (None, complete) => {
                let complete: BTreeSet<IndexName> = complete.into_iter().flatten().collect();
                Box::new(move |name| complete.contains(name))
            }
        };
        let mut states = IndexStates { filling: record.filling, ..IndexStates::none_complete(catalog) };
        for name in kept(catalog).filter(is_complete) {
            states.set_complete(name);
        }
        Ok(states)
    }

    /// The record; with `all`, for a tree without records of tables.
    pub(crate) fn to_json(&self, all: bool) -> Result<Vec<u8>, serde_json::Error> {
        let complete = all.then(|| self.complete.keys().copied().collect());
        serde_json::to_vec(&Record { complete, filling: self.filling.clone() })
    }

    /// Whether an index is being filled, and how far it is.
    pub(crate) fn filling(&self) -> Option<&Filling> {
        self.filling.as_ref()
    }

    /// Ids of the indexes of a table that are not complete.
    pub(crate) fn incomplete_of(&self, table: u32) -> Vec<u16> {
        let of_it = self.incomplete.keys_from(&(table, 0)).take_while(|(of, _)| *of == table);
        of_it.map(|(_, index)| *index).collect()
    }

    /// Tables with an index that is incomplete in only one of two states.
    pub(crate) fn tables_changed(&self, earlier: &IndexStates) -> Vec<u32> {
        let changes = self.incomplete.differences(&earlier.incomplete, |(), ()| true);
        changes.iter().map(|change| change.key.0).collect()
    }

    fn set_complete(&mut self, name: IndexName) {
        self.incomplete.remove(&name);
        self.complete.insert(name, ());
    }

    /// All kept indexes of a catalog are complete, as after a copy that wrote entries.
    pub(crate) fn all_complete(catalog: &Catalog) -> IndexStates {
        IndexStates::default().at_cut(catalog)
    }

    /// No index of a catalog is complete, as after a copy that wrote only rows.
    pub(crate) fn none_complete(catalog: &Catalog) -> IndexStates {
        IndexStates {
            catalog: catalog.clone(),
            next_table_id: catalog.next_table_id().0,
            incomplete: kept(catalog).map(|name| (name, ())).collect(),
            ..IndexStates::default()
        }
    }

    /// These states plus a table whose rows are copied without entries.
    pub(crate) fn with_copied(&self, table: TableId) -> IndexStates {
        let mut states = self.clone();
        states.copied.insert(table.0);
        states
    }

    /// Whether the tree has no rows of the table.
    pub(crate) fn is_new(&self, table: &TableDef) -> bool {
        self.is_beyond(table.id.0)
    }

    fn is_beyond(&self, table: u32) -> bool {
        table >= self.next_table_id && !self.copied.contains(&table)
    }

    /// Whether the tree has all entries of an index.
    pub(crate) fn is_complete(&self, table: u32, index: u16) -> bool {
        self.is_beyond(table) || self.complete.contains_key(&(table, index))
    }

    /// How much of each index of the set the next cut maintains, in the set's order.
    pub(crate) fn extents(&self, table: &TableDef, indexes: &IndexSet) -> Vec<Extent> {
        let extent = |id: u16| match &self.filling {
            _ if self.is_complete(table.id.0, id) => Extent::Everything,
            Some(filling) if (filling.table, filling.index) == (table.id.0, id) => Extent::UpTo(filling.done.clone()),
            _ => Extent::Nothing,
        };
        indexes.indexes().iter().map(|index| extent(index.id())).collect()
    }

    /// The states after a cut with this catalog.
    pub(crate) fn at_cut(&self, catalog: &Catalog) -> IndexStates {
        let mut states = self.clone();
        for change in catalog.changes_since(&self.catalog) {
            for name in change.before.into_iter().flat_map(kept_of) {
                states.complete.remove(&name);
                states.incomplete.remove(&name);
            }
            for name in change.after.into_iter().flat_map(kept_of) {
                let to = if self.is_complete(name.0, name.1) { &mut states.complete } else { &mut states.incomplete };
                to.insert(name, ());
            }
        }
        (states.catalog, states.next_table_id) = (catalog.clone(), catalog.next_table_id().0);
        let is_kept = |filling: &Filling| states.incomplete.contains_key(&(filling.table, filling.index));
        states.filling = states.filling.take().filter(is_kept);
        states.copied.retain(|table| *table >= catalog.next_table_id().0);
        states
    }

    /// The index to fill next, and the key to continue after; None if all indexes of the newest cut are complete.
    pub(crate) fn to_fill(&self) -> Option<Filling> {
        if let Some(filling) = &self.filling {
            return Some(filling.clone());
        }
        let (table, index) = *self.incomplete.keys().next()?;
        Some(Filling { table, index, done: Vec::new() })
    }

    /// The states after a step of a fill is in the tree.
    pub(crate) fn filled(&self, step: Filling, is_last: bool) -> IndexStates {
        let mut states = self.clone();
        if is_last {
            states.set_complete((step.table, step.index));
            states.filling = None;
        } else {
            states.filling = Some(step);
        }
        states
    }

    /// Number of indexes of a catalog that are not complete.
    pub(crate) fn incomplete(&self, catalog: &Catalog) -> u64 {
        let mut count = self.incomplete.len();
        for change in catalog.changes_since(&self.catalog) {
            let before = change.before.into_iter().flat_map(kept_of);
            count -= before.filter(|name| self.incomplete.contains_key(name)).count();
            count +=
                change.after.into_iter().flat_map(kept_of).filter(|name| !self.is_complete(name.0, name.1)).count();
        }
        count as u64
    }
}

fn kept(catalog: &Catalog) -> impl Iterator<Item = IndexName> {
    catalog.tables().flat_map(kept_of)
}

fn kept_of(table: &Arc<TableDef>) -> Vec<IndexName> {
    let ids = |set: IndexSet| set.indexes().iter().map(|index| (table.id.0, index.id())).collect();
    IndexSet::of(table).map(ids).unwrap_or_default()
}
