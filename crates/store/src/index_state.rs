//! How much of each secondary index the tree holds.
//!
//! In: the catalog of each cut, the progress of fills. Out: which entries a cut writes, which index a reader may use.
//! Invariant: a complete index has exactly one entry for each row in the tree; an index that is being filled has
//! exactly the entries of the rows up to a key; any other index has no valid entries. A fill and a cut never run at the
//! same time, so each sees the other's rows and entries in full.

use std::collections::BTreeSet;

use catalog::{Catalog, IndexSet, TableDef, TableId};
use serde::{Deserialize, Serialize};

/// A table id and an index id within it.
pub(crate) type IndexName = (u32, u16);

/// States of all secondary indexes in the tree.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct IndexStates {
    /// The tree has no rows of tables from this id on.
    next_table_id: u32,
    complete: BTreeSet<IndexName>,
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
    #[serde(rename = "complete")]
    complete: Vec<IndexName>,
    #[serde(rename = "filling", deserialize_with = "Option::deserialize")]
    filling: Option<Filling>,
}

impl IndexStates {
    /// Parses a record, for the catalog of the same tree. Without a record, no index is complete.
    pub(crate) fn from_json(text: Option<&[u8]>, catalog: &Catalog) -> Result<IndexStates, serde_json::Error> {
        let record = match text {
            Some(text) => serde_json::from_slice(text)?,
            None => Record { complete: Vec::new(), filling: None },
        };
        Ok(IndexStates {
            next_table_id: catalog.next_table_id().0,
            complete: record.complete.into_iter().collect(),
            filling: record.filling,
            copied: BTreeSet::new(),
        })
    }

    pub(crate) fn to_json(&self) -> Result<Vec<u8>, serde_json::Error> {
        serde_json::to_vec(&Record { complete: self.complete.iter().copied().collect(), filling: self.filling.clone() })
    }

    /// All kept indexes of a catalog are complete, as after a copy that wrote entries.
    pub(crate) fn all_complete(catalog: &Catalog) -> IndexStates {
        IndexStates { next_table_id: 0, ..IndexStates::default() }.at_cut(catalog)
    }

    /// No index of a catalog is complete, as after a copy that wrote only rows.
    pub(crate) fn none_complete(catalog: &Catalog) -> IndexStates {
        IndexStates { next_table_id: catalog.next_table_id().0, ..IndexStates::default() }
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
        self.is_beyond(table) || self.complete.contains(&(table, index))
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
        let complete = kept(catalog).filter(|(table, index)| self.is_complete(*table, *index)).collect();
        let filling = self.filling.clone();
        let filling = filling.filter(|filling| kept(catalog).any(|name| name == (filling.table, filling.index)));
        let next_table_id = catalog.next_table_id().0;
        let copied = self.copied.iter().copied().filter(|table| *table >= next_table_id).collect();
        IndexStates { next_table_id, complete, filling, copied }
    }

    /// The index to fill next, and the key to continue after; None if all indexes of the catalog are complete.
    pub(crate) fn to_fill(&self, catalog: &Catalog) -> Option<Filling> {
        if let Some(filling) = &self.filling {
            return Some(filling.clone());
        }
        let (table, index) = kept(catalog).find(|(table, index)| !self.is_complete(*table, *index))?;
        Some(Filling { table, index, done: Vec::new() })
    }

    /// The states after a step of a fill is in the tree.
    pub(crate) fn filled(&self, step: Filling, is_last: bool) -> IndexStates {
        let mut states = self.clone();
        if is_last {
            states.complete.insert((step.table, step.index));
            states.filling = None;
        } else {
            states.filling = Some(step);
        }
        states
    }

    /// Number of indexes of the catalog that are not complete.
    pub(crate) fn incomplete(&self, catalog: &Catalog) -> u64 {
        kept(catalog).filter(|(table, index)| !self.is_complete(*table, *index)).count() as u64
    }
}

fn kept(catalog: &Catalog) -> impl Iterator<Item = IndexName> {
    catalog.tables().flat_map(|table| {
        let ids = |set: IndexSet| set.indexes().iter().map(|index| (table.id.0, index.id())).collect::<Vec<_>>();
        IndexSet::of(table).map(ids).unwrap_or_default()
    })
}
