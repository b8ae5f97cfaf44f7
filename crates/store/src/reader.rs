//! What a reader specifies: a prepared table, an order of its rows, bounds in that order.
//!
//! In: a table's definition, values of a key's first columns. Out: the bytes that bound a range.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use catalog::{Index, IndexSet, KeyOrder, NotKept, RowVersions, TableDef, TableId};
use values::{ColumnType, RowLayout, ValueError};

use crate::lane::TableShape;

/// A table made ready for reading, once per definition. It must be the one of the catalog of the snapshot that is read.
#[derive(Debug, Clone)]
pub struct TableReader {
    id: TableId,
    order: KeyOrder,
    definition: u32,
    versions: Arc<RowVersions>,
    layout: Arc<RowLayout>,
    types: Arc<[ColumnType]>,
    name: Arc<str>,
}

/// Readers of one store's tables, each made once for a definition.
#[derive(Default)]
pub(crate) struct Readers(Mutex<BTreeMap<(TableId, u32), Made>>);

struct Made {
    of: Arc<TableDef>,
    reader: Arc<TableReader>,
}

/// More are not kept: a schema of so many tables makes them again now and then.
const READERS_MAX: usize = 4096;

impl Readers {
    pub(crate) fn of(&self, table: &Arc<TableDef>) -> Arc<TableReader> {
        let mut made = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let name = (table.id, table.version);
        if let Some(found) = made.get(&name).filter(|found| Arc::ptr_eq(&found.of, table)) {
            return Arc::clone(&found.reader);
        }
        if made.len() >= READERS_MAX {
            made.clear();
        }
        let reader = Arc::new(TableReader::new(table));
        made.insert(name, Made { of: Arc::clone(table), reader: Arc::clone(&reader) });
        reader
    }
}

/// An order in which the rows of a table can be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum ReadOrder {
    /// Of the key that identifies rows. A table without one has its rows in no order of use.
    Identity,
    /// Of the secondary index with this id.
    Index(u16),
}

impl ReadOrder {
    pub(crate) fn index(self) -> u16 {
        match self {
            ReadOrder::Identity => 0,
            ReadOrder::Index(id) => id,
        }
    }
}

impl TableReader {
    /// For this definition.
    #[must_use]
    pub fn new(table: &TableDef) -> TableReader {
        let types = table.column_types();
        TableReader {
            id: table.id,
            order: KeyOrder::of(table),
            definition: table.version,
            versions: Arc::new(RowVersions::of(table)),
            layout: Arc::new(RowLayout::new(&types)),
            types: types.into(),
            name: table.full_name().into(),
        }
    }

    /// The table.
    #[must_use]
    pub fn id(&self) -> TableId {
        self.id
    }

    pub(crate) fn order(&self) -> &KeyOrder {
        &self.order
    }

    /// Version of the definition.
    pub(crate) fn definition(&self) -> u32 {
        self.definition
    }

    /// How rows of earlier definitions are read.
    pub(crate) fn versions(&self) -> &RowVersions {
        &self.versions
    }

    /// Where the columns of a row of this definition are.
    #[must_use]
    pub fn layout(&self) -> &RowLayout {
        &self.layout
    }

    /// Type of each column.
    #[must_use]
    pub fn column_types(&self) -> &[ColumnType] {
        &self.types
    }

    /// Database and name.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// Lent to what looks a row up.
    pub(crate) fn shape(&self) -> TableShape<'_> {
        TableShape {
            id: self.id,
            layout: &self.layout,
            types: &self.types,
            order: &self.order,
            definition: self.definition,
            versions: &self.versions,
        }
    }

    /// The kept secondary indexes.
    #[must_use]
    pub fn indexes(&self) -> &[Index] {
        self.order.indexes().map_or(&[], |set| set.indexes())
    }

    fn index(&self, id: u16) -> Option<&Index> {
        self.order.indexes().map(Arc::as_ref).and_then(|set: &IndexSet| set.index(id))
    }

    /// The order that a key of the table stands for.
    ///
    /// # Errors
    /// The key is not kept, and why.
    pub fn order_of(table: &TableDef, key: &catalog::Key) -> Result<ReadOrder, NotKept> {
        match IndexSet::why_not(table, key) {
            None => Ok(ReadOrder::Index(key.id)),
            Some(NotKept::Identifies) => Ok(ReadOrder::Identity),
            Some(why) => Err(why),
        }
    }

    /// Whether rows come in MySQL's order. False where a column's collation is not implemented: rows come by bytes of
    /// it, and only bounds that are equalities of bytes mean anything. False for the identity of a table without a key.
    #[must_use]
    pub fn is_ordered(&self, order: ReadOrder) -> bool {
        match order {
            ReadOrder::Identity => self.order.is_ordered(),
            ReadOrder::Index(id) => self.index(id).is_some_and(|index| index.plan().is_ordered()),
        }
    }

    /// The bytes that the sort keys of all rows with these values in the first columns of the key begin with: what
    /// [`KeyRange`] takes. `values` are stored bytes in key order, `None` for NULL. Of a column that is indexed by a
    /// prefix only the prefix counts: rows read through such bounds must be looked at again.
    ///
    /// # Errors
    /// More values than columns, NULL where there is none, bytes that are no value of the column, an index that is not
    /// kept.
    pub fn bound<'v>(
        &self,
        order: ReadOrder,
        values: impl IntoIterator<Item = Option<&'v [u8]>>,
    ) -> Result<Vec<u8>, ValueError> {
        let mut out = Vec::new();
        match order {
            ReadOrder::Identity => self.order.append_values(values, &mut out)?,
            ReadOrder::Index(id) => {
                let index = self.index(id).ok_or(ValueError::Invalid { what: "an index that is not kept" })?;
                index.plan().append(values, &mut out)?;
            }
        }
        Ok(out)
    }
}

/// A part of an order: between two bounds, each the front of a sort key as [`TableReader::bound`] makes it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyRange {
    pub(crate) from: Vec<u8>,
    /// Exclusive; None: the end.
    pub(crate) to: Option<Vec<u8>>,
    /// Nothing can lie in it.
    pub(crate) is_empty: bool,
}

impl KeyRange {
    /// Everything.
    #[must_use]
    pub fn all() -> KeyRange {
        KeyRange { from: Vec::new(), to: None, is_empty: false }
    }

    /// All rows whose first columns are these values.
    #[must_use]
    pub fn prefix(bound: &[u8]) -> KeyRange {
        KeyRange { from: bound.to_vec(), to: behind_prefix(bound), is_empty: false }
    }

    /// From these values on.
    #[must_use]
    pub fn from_including(mut self, bound: &[u8]) -> KeyRange {
        self.from = bound.to_vec();
        self
    }

    /// From behind all rows with these values on.
    #[must_use]
    pub fn from_behind(mut self, bound: &[u8]) -> KeyRange {
        match behind_prefix(bound) {
            Some(behind) => self.from = behind,
            None => self.is_empty = true,
        }
        self
    }

    /// Up to all rows with these values.
    #[must_use]
    pub fn to_including(mut self, bound: &[u8]) -> KeyRange {
        self.to = behind_prefix(bound);
        self
    }

    /// Up to before the first row with these values.
    #[must_use]
    pub fn to_before(mut self, bound: &[u8]) -> KeyRange {
        self.to = Some(bound.to_vec());
        self
    }
}

/// The first bytes behind all that begin with `prefix`. None: there is nothing behind.
fn behind_prefix(prefix: &[u8]) -> Option<Vec<u8>> {
    let mut bound = prefix.to_vec();
    while let Some(last) = bound.pop() {
        if last < 0xff {
            bound.push(last + 1);
            return Some(bound);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounds_are_between_keys() {
        let between = |from: &[u8], to: &[u8]| KeyRange { from: from.to_vec(), to: Some(to.to_vec()), is_empty: false };
        assert_eq!(KeyRange::prefix(&[1, 0xff]), between(&[1, 0xff], &[2]));
        assert_eq!(KeyRange::prefix(&[0xff]).to, None);
        let range = KeyRange::all().from_behind(&[7]).to_before(&[9]);
        assert_eq!(range, between(&[8], &[9]));
        assert_eq!(KeyRange::all().to_including(&[7]).to, Some(vec![8]));
        assert!(KeyRange::all().from_behind(&[0xff]).to_including(&[0xff]).is_empty, "nothing lies behind");
    }
}
