//! Rows of a table at a snapshot, in a deterministic order.
//!
//! In: a snapshot and a table. Out: its rows in the order of the identifying key: `ORDER BY` its columns, with DESC
//! columns descending; by bytes of the text if a column's collation is not implemented. A table without a key is
//! ordered by all its columns, text by bytes. Bound: `HELD_BYTES_MAX` of rows are in memory at a time, whatever the
//! table's size; a larger table without a key is scanned as often as necessary. Never here: formats.

use std::collections::BinaryHeap;
use std::ops::ControlFlow;
use std::sync::Arc;

use catalog::TableDef;
use store::{KeyRange, ReadOrder, RowBuf, Snapshot, Store, TableReader};

use crate::error::CompareError;
use crate::row_source::EachRow;
use crate::shape::Shape;

/// Most bytes of rows of a table without a key, sort keys included, in memory at a time.
const HELD_BYTES_MAX: usize = 128 << 20;

/// Which rows of a table.
pub(crate) enum Part {
    All,
    /// Those of a table with a key in this range of its order.
    Keys(KeyRange),
}

/// Splits a table into parts of about `bytes_each` bytes on disk. A table without a key is one part.
///
/// # Errors
/// If the store cannot be read.
pub(crate) fn parts_of(snapshot: &Snapshot, table: &TableDef, bytes_each: u64) -> Result<Vec<Part>, CompareError> {
    if Shape::of(table).key.is_empty() {
        return Ok(vec![Part::All]);
    }
    let ranges = snapshot.split(&TableReader::new(table), bytes_each).map_err(CompareError::Store)?;
    Ok(ranges.into_iter().map(Part::Keys).collect())
}

/// Passes every row of a part to `each`: image and number of equal rows.
///
/// # Errors
/// If the store cannot be read, a row does not fit the table, or `each` fails.
pub(crate) fn each_in_order(
    store: &Arc<Store>,
    snapshot: &Snapshot,
    table: &TableDef,
    shape: &Shape,
    part: &Part,
    each: EachRow<'_>,
) -> Result<(), CompareError> {
    let keys = match part {
        Part::All if shape.key.is_empty() => {
            return each_by_all_columns(store, snapshot, table, shape, HELD_BYTES_MAX, each);
        }
        Part::All => &KeyRange::all(),
        Part::Keys(keys) => keys,
    };
    let reader = TableReader::new(table);
    let mut range = store.range(snapshot, &reader, ReadOrder::Identity, keys).map_err(CompareError::Store)?;
    let mut row = RowBuf::default();
    while range.next_into(&mut row).map_err(CompareError::Store)? {
        each(row.row().image, row.row().count)?;
    }
    Ok(())
}

/// Sort key, image, number of equal rows.
type Held = (Vec<u8>, Vec<u8>, u64);

fn each_by_all_columns(
    store: &Arc<Store>,
    snapshot: &Snapshot,
    table: &TableDef,
    shape: &Shape,
    held_bytes_max: usize,
    each: EachRow<'_>,
) -> Result<(), CompareError> {
    let mut offsets = Vec::new();
    let mut last: Option<(Vec<u8>, Vec<u8>)> = None;
    loop {
        // The lowest rows after `last`, as a heap with the highest of them on top.
        let mut lowest: BinaryHeap<Held> = BinaryHeap::new();
        let (mut held_bytes, mut left_some) = (0, false);
        let flow = store.scan(snapshot, table, |row| match shape.sort_key(row.image, &mut offsets) {
            Ok(key) => {
                let is_done =
                    last.as_ref().is_some_and(|last| (key.as_slice(), row.image) <= (last.0.as_slice(), &last.1));
                if !is_done {
                    held_bytes += key.len() + row.image.len();
                    lowest.push((key, row.image.to_vec(), row.count));
                }
                while held_bytes > held_bytes_max && lowest.len() > 1 {
                    left_some = true;
                    held_bytes -= lowest.pop().map_or(0, |(key, image, _)| key.len() + image.len());
                }
                ControlFlow::Continue(())
            }
            Err(error) => ControlFlow::Break(shape.damaged(error)),
        });
        if let ControlFlow::Break(error) = flow.map_err(CompareError::Store)? {
            return Err(error);
        }
        let rows = lowest.into_sorted_vec();
        for (_, image, copies) in &rows {
            each(image, *copies)?;
        }
        match rows.into_iter().next_back() {
            Some((key, image, _)) if left_some => last = Some((key, image)),
            _ => return Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use base::{SequenceNumber, key_hash};
    use catalog::{Catalog, KeyOrder, StatementContext};
    use store::{CheckImages, RowChange, RowTarget, TableShape, WriteContext};

    use super::*;

    #[test]
    fn a_table_without_a_key_that_outgrows_memory_is_the_same() {
        let context = StatementContext { default_db: "d".into(), ..StatementContext::default() };
        let catalog = Catalog::new(0).apply(&context, b"CREATE TABLE d.t (a SMALLINT, b SMALLINT)").unwrap().catalog;
        let store = Arc::new(Store::new(2, catalog.clone()));
        let def = Arc::clone(catalog.table("d", "t").unwrap());
        let shape = Shape::of(&def);
        let order = KeyOrder::of(&def);
        let versions = catalog::RowVersions::of(&def);
        let table = TableShape {
            id: def.id,
            layout: &shape.layout,
            types: &shape.types,
            order: &order,
            definition: def.version,
            versions: &versions,
        };
        for row in 0..600i16 {
            let (a, b) = ((row * 7) % 40 - 20, (row * 13) % 11);
            let image = [&[0][..], &a.to_le_bytes(), &b.to_le_bytes()].concat();
            let hash = key_hash(def.id.0, &image);
            let (layers, lane) = (store.visibility().layers(), store.lane_of(hash));
            let mut guard = layers.active.lane_mut(lane).unwrap();
            let target = RowTarget { lane, shape: &table, hash, key: &image };
            let context = WriteContext { sequence: 1, oldest_needed: 0, check: CheckImages::All, layers: &layers };
            guard.apply(&target, RowChange::AddOne { later: false }, &context).unwrap();
        }
        store.visibility().advance(SequenceNumber(1), |_| {});
        let snapshot = Snapshot::pin(&store);
        let rows = |held_bytes_max| {
            let mut rows = Vec::new();
            let mut each = |image: &[u8], copies| {
                rows.push((image.to_vec(), copies));
                Ok(())
            };
            each_by_all_columns(&store, &snapshot, &def, &shape, held_bytes_max, &mut each).unwrap();
            rows
        };
        let all = rows(HELD_BYTES_MAX);
        assert_eq!(all.iter().map(|row| row.1).sum::<u64>(), 600);
        assert!(all.is_sorted_by_key(|row| {
            let value = |at: usize| i16::from_le_bytes([row.0[at], row.0[at + 1]]);
            (value(1), value(3))
        }));
        for bound in [1, 100, 1000] {
            assert_eq!(rows(bound), all);
        }
    }
}
