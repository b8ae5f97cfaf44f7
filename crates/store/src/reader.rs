//! What a reader specifies: a prepared table, an order of its rows, bounds in that order.
//!
//! In: a table's definition, values of a key's first columns. Out: the bytes that bound a range.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use catalog::{Index, IndexSet, KeyOrder, NotKept, RowVersions, TableDef, TableId};
use values::{ColumnType, RowLayout, ValueError};

use crate::table_shape::{OwnedShape, TableShape};

/// A table prepared for reading, once per definition, which must be the one in the catalog of the snapshot being read.
#[derive(Debug, Clone)]
pub struct TableReader {
    shape: Arc<OwnedShape>,
    name: Arc<str>,
}

/// Readers of one store's tables, one per definition.
#[derive(Default)]
pub(crate) struct Readers(Mutex<BTreeMap<(TableId, u32), Made>>);

struct Made {
    of: Arc<TableDef>,
    reader: Arc<TableReader>,
}

/// Limit on cached readers: a schema with more tables rebuilds them now and then.
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
    /// By the identifying key. For a table without one, the order has no meaning.
    Identity,
    /// By the secondary index with this id.
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
    /// Prepares a table for reading under this definition.
    #[must_use]
    pub fn new(table: &TableDef) -> TableReader {
        TableReader { shape: Arc::new(OwnedShape::of(table)), name: table.full_name().into() }
    }

    /// Id of the table.
    #[must_use]
    pub fn id(&self) -> TableId {
        self.shape().id
    }

    pub(crate) fn order(&self) -> &KeyOrder {
        self.shape().order
    }

    /// Version of the definition.
    pub(crate) fn definition(&self) -> u32 {
        self.shape().definition
    }

    /// Conversion of rows of earlier definitions.
    pub(crate) fn versions(&self) -> &RowVersions {
        self.shape().versions
    }

    /// Offsets of the columns in a row of this definition.
    #[must_use]
    pub fn layout(&self) -> &RowLayout {
        self.shape().layout
    }

    /// Type of each column.
    #[must_use]
    pub fn column_types(&self) -> &[ColumnType] {
        self.shape().types
    }

    /// Database and table name.
    pub(crate) fn name(&self) -> &str {
        &self.name
    }

    /// What a lane must know about the table.
    #[must_use]
    pub fn shape(&self) -> TableShape<'_> {
        self.shape.lend()
    }

    /// The secondary indexes that are kept.
    #[must_use]
    pub fn indexes(&self) -> &[Index] {
        self.order().indexes().map_or(&[], |set| set.indexes())
    }

    fn index(&self, id: u16) -> Option<&Index> {
        self.order().indexes().map(Arc::as_ref).and_then(|set: &IndexSet| set.index(id))
    }

    /// The order that a key of the table provides.
    ///
    /// # Errors
    /// The reason why the key is not kept.
    pub fn order_of(table: &TableDef, key: &catalog::Key) -> Result<ReadOrder, NotKept> {
        match IndexSet::why_not(table, key) {
            None => Ok(ReadOrder::Index(key.id)),
            Some(NotKept::Identifies) => Ok(ReadOrder::Identity),
            Some(why) => Err(why),
        }
    }

    /// Whether rows come in MySQL's order. False for a column with an unsupported collation: its rows come in byte
    /// order, and bounds are meaningful only as byte equality. False also for the identity of a table without a key.
    #[must_use]
    pub fn is_ordered(&self, order: ReadOrder) -> bool {
        match order {
            ReadOrder::Identity => self.order().is_ordered(),
            ReadOrder::Index(id) => self.index(id).is_some_and(|index| index.plan().is_ordered()),
        }
    }

    /// Common prefix of the sort keys of all rows with these values in the key's first columns, as [`KeyRange`] takes
    /// it. `values` are stored bytes in key order, `None` for NULL. A column that is indexed by a prefix contributes
    /// only that prefix, so rows read through such bounds must be checked again.
    ///
    /// # Errors
    /// There are more values than columns, NULL in a NOT NULL column, bytes that are no value of the column, or an
    /// index that is not kept.
    pub fn bound<'v>(
        &self,
        order: ReadOrder,
        values: impl IntoIterator<Item = Option<&'v [u8]>>,
    ) -> Result<Vec<u8>, ValueError> {
        let mut out = Vec::new();
        match order {
            ReadOrder::Identity => self.order().append_values(values, &mut out)?,
            ReadOrder::Index(id) => {
                let index = self.index(id).ok_or(ValueError::Invalid { what: "an index that is not kept" })?;
                index.plan().append(values, &mut out)?;
            }
        }
        Ok(out)
    }
}

/// A range of an order, between two sort key prefixes as [`TableReader::bound`] returns them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyRange {
    pub(crate) from: Vec<u8>,
    /// Exclusive; None: no upper bound.
    pub(crate) to: Option<Vec<u8>>,
    /// True if no key can be in the range.
    pub(crate) is_empty: bool,
}

impl KeyRange {
    #[must_use]
    pub fn all() -> KeyRange {
        KeyRange { from: Vec::new(), to: None, is_empty: false }
    }

    /// All rows whose first columns have these values.
    #[must_use]
    pub fn prefix(bound: &[u8]) -> KeyRange {
        KeyRange { from: bound.to_vec(), to: behind_prefix(bound), is_empty: false }
    }

    /// Starts at the first row with these values.
    #[must_use]
    pub fn from_including(mut self, bound: &[u8]) -> KeyRange {
        self.from = bound.to_vec();
        self
    }

    /// Starts after the last row with these values.
    #[must_use]
    pub fn from_behind(mut self, bound: &[u8]) -> KeyRange {
        match behind_prefix(bound) {
            Some(behind) => self.from = behind,
            None => self.is_empty = true,
        }
        self
    }

    /// Ends after the last row with these values.
    #[must_use]
    pub fn to_including(mut self, bound: &[u8]) -> KeyRange {
        self.to = behind_prefix(bound);
        self
    }

    /// Goes on after the row at `place` ([`crate::Range::place`]), within the same bounds.
    #[must_use]
    pub fn after(mut self, place: &[u8]) -> KeyRange {
        self.from = place.to_vec();
        self.from.push(0);
        self
    }

    /// Goes on before the row at `place`, within the same bounds, for a range that is read backwards.
    #[must_use]
    pub fn before(mut self, place: &[u8]) -> KeyRange {
        self.to = Some(place.to_vec());
        self
    }

    /// Goes on with the row at `place` itself, within the same bounds, for a range that is read backwards.
    #[must_use]
    pub fn up_to(mut self, place: &[u8]) -> KeyRange {
        self.to = Some([place, &[0]].concat());
        self
    }

    /// Ends before the first row with these values.
    #[must_use]
    pub fn to_before(mut self, bound: &[u8]) -> KeyRange {
        self.to = Some(bound.to_vec());
        self
    }
}

/// The smallest key after all keys that start with `prefix`. None: there is no such key.
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
        assert_eq!(KeyRange::prefix(&[7]).after(&[7, 1]), between(&[7, 1, 0], &[8]));
        assert_eq!(KeyRange::prefix(&[7]).before(&[7, 1]), between(&[7], &[7, 1]));
        assert!(KeyRange::all().from_behind(&[0xff]).to_including(&[0xff]).is_empty, "nothing lies behind");
    }
}
