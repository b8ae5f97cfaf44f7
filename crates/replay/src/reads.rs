//! Read rates of the replayed store, before and after compaction.
//!
//! In: a store. Out: [`ReadRates`]. Never here: a write.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Instant;

use base::Random;
use catalog::TableDef;
use store::{KeyRange, ReadOrder, RowBuf, Snapshot, Store, StoreError, TableReader};
use values::{OFFSET_NULL, RowLayout};
use xxhash_rust::xxh3::{xxh3_64_with_seed, xxh3_128};

use super::report::ReadRates;

/// Approximate number of keys to pick from.
const KEYS_KEPT: u128 = 200_000;
/// Rows at which ranges begin.
const BOUNDS_KEPT: usize = 20_000;
const ROWS_PER_RANGE: usize = 10;
/// Reads by key measured for each range.
const READS_PER_RANGE: u64 = 10;
const SEED: u64 = 0x05ee_d0f5_1195;

/// Keys to read, each with its table.
pub(crate) struct Sample {
    keys: Vec<(Arc<TableDef>, Vec<u8>)>,
}

impl Sample {
    pub(crate) fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    pub(crate) fn len(&self) -> usize {
        self.keys.len()
    }

    /// A table and a key; `place` is below the number of keys.
    pub(crate) fn at(&self, place: usize) -> (&Arc<TableDef>, &[u8]) {
        let (table, key) = &self.keys[place];
        (table, key)
    }
}

/// Picks about [`KEYS_KEPT`] keys from all rows of all tables by hash: the same ones wherever and in whatever order
/// rows are stored.
///
/// # Errors
/// The store cannot be read.
pub(crate) fn sample(store: &Arc<Store>) -> Result<Sample, StoreError> {
    let snapshot = Snapshot::pin(store);
    let mut keys: Vec<(u64, Arc<TableDef>, Vec<u8>)> = Vec::new();
    let rows = store.stats().memory.rows.max(1);
    let below = (u128::from(u64::MAX) * KEYS_KEPT.min(rows.into()) / u128::from(rows)) as u64;
    for table in snapshot.catalog().tables() {
        let flow = store.scan::<()>(&snapshot, table, |row| {
            let hash = xxh3_64_with_seed(row.key, SEED ^ u64::from(table.id.0));
            if hash <= below {
                keys.push((hash, Arc::clone(table), row.key.to_vec()));
            }
            ControlFlow::Continue(())
        })?;
        let ControlFlow::Continue(()) = flow else { break };
    }
    keys.sort_unstable_by(|a, b| (a.0, a.1.id.0, &a.2).cmp(&(b.0, b.1.id.0, &b.2)));
    Ok(Sample { keys: keys.into_iter().map(|(_, table, key)| (table, key)).collect() })
}

/// Reads everything in full, then rows by random keys, then ranges of ten rows in the order of keys and indexes.
///
/// # Errors
/// The store cannot be read, or lacks a row that was picked.
pub(crate) fn measure(store: &Arc<Store>, sample: &Sample, key_reads: u64, when: &str) -> anyhow::Result<ReadRates> {
    let snapshot = Snapshot::pin(store);
    let (started, mut rows) = (Instant::now(), 0u64);
    for table in snapshot.catalog().tables() {
        let flow = store.scan::<()>(&snapshot, table, |row| {
            rows += row.count;
            ControlFlow::Continue(())
        })?;
        let ControlFlow::Continue(()) = flow else { break };
    }
    let scanned_rows_per_s = rows as f64 / started.elapsed().as_secs_f64();
    let (mut sum, mut random, mut key_reads_per_s, mut row) = (0u128, Random::new(SEED), 0.0, RowBuf::default());
    if !sample.keys.is_empty() {
        let started = Instant::now();
        for _ in 0..key_reads {
            let at = random.below(sample.keys.len());
            let Some((table, key)) = sample.keys.get(at) else { continue };
            if !snapshot.get(&snapshot.reader(table), key, &mut row)? {
                anyhow::bail!("a row of {}.{} that a full read found is not found by its key", table.db, table.name);
            }
            sum = sum.wrapping_add(xxh3_128(row.image()));
        }
        key_reads_per_s = key_reads as f64 / started.elapsed().as_secs_f64();
    }
    let bounds = bounds(store, &snapshot, sample)?;
    let mut ranges_per_s = 0.0;
    if !bounds.is_empty() {
        let ranges = key_reads / READS_PER_RANGE;
        let started = Instant::now();
        for _ in 0..ranges {
            let Some((reader, order, from)) = bounds.get(random.below(bounds.len())) else { continue };
            let mut range = snapshot.range(reader, *order, from)?;
            for _ in 0..ROWS_PER_RANGE {
                if !range.next_into(&mut row)? {
                    break;
                }
                sum = sum.wrapping_add(xxh3_128(row.image()));
            }
        }
        ranges_per_s = ranges as f64 / started.elapsed().as_secs_f64();
    }
    let hash = format!("{sum:032x}");
    Ok(ReadRates { when: when.into(), scanned_rows_per_s, key_reads_per_s, ranges_per_s, hash })
}

pub(crate) type Bound = (Arc<TableReader>, ReadOrder, KeyRange);
/// A table, and its read orders with the columns of their keys.
type Orders = (Arc<TableReader>, RowLayout, Vec<(ReadOrder, Vec<usize>)>);

/// Range starts at sampled rows, each in the order of one of its table's keys: the one that identifies rows, or a
/// maintained and complete secondary index.
pub(crate) fn bounds(store: &Arc<Store>, snapshot: &Snapshot, sample: &Sample) -> anyhow::Result<Vec<Bound>> {
    let mut readers: BTreeMap<u32, Orders> = BTreeMap::new();
    for table in snapshot.catalog().tables() {
        let reader = snapshot.reader(table);
        let mut orders = Vec::new();
        for key in &table.keys {
            let Ok(order) = TableReader::order_of(table, key) else { continue };
            if reader.is_ordered(order) && store.is_ready(snapshot, &reader, order)? {
                orders.push((order, key.parts.iter().map(|part| part.column).collect()));
            }
        }
        readers.insert(table.id.0, (reader, RowLayout::new(&table.column_types()), orders));
    }
    let (mut bounds, mut offsets) = (Vec::new(), Vec::new());
    for (at, (table, key)) in sample.keys.iter().enumerate().take(BOUNDS_KEPT) {
        let Some((reader, layout, orders)) = readers.get(&table.id.0) else { continue };
        let Some((order, columns)) = orders.get(at % orders.len().max(1)) else { continue };
        let Some(image) = store.get(snapshot, table, key)? else { continue };
        layout.walk_offsets(&image, &mut offsets)?;
        let values = columns.iter().map(|column| {
            let (start, len) = offsets.get(*column).copied().filter(|(start, _)| *start != OFFSET_NULL)?;
            image.get(start as usize..start as usize + len as usize)
        });
        let bound = reader.bound(*order, values)?;
        bounds.push((Arc::clone(reader), *order, KeyRange::all().from_including(&bound)));
    }
    Ok(bounds)
}
