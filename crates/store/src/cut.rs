//! A cut: everything up to a transaction boundary goes into the tree, at once.
//!
//! In: sealed generations and spills, oldest first. Out: one sorted ingestion with the cut's record. Never here: a
//! row above the boundary, a row of a table that is gone at the boundary.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Arc;

use catalog::{KeyOrder, TableId};

use crate::disk::{CutFacts, Disk, Run};
use crate::entry;
use crate::error::StoreError;
use crate::layers::{CutPoint, Generation, Layer, Spill, tables_of};

/// What a cut wrote.
#[derive(Clone, Debug, Default)]
pub struct CutReport {
    /// Number of its last transaction.
    pub sequence: u64,
    /// Keys written, deletions included.
    pub entries: u64,
    /// Bytes of keys and values.
    pub bytes: u64,
}

/// A row's place in a generation, in the order of the tree.
#[derive(Clone, Copy)]
struct Place {
    /// First bytes of the sort key behind the table's prefix.
    head: u64,
    key_at: u32,
    key_len: u16,
    lane: u16,
    place: u64,
}

/// All rows of one table in one generation, sorted.
struct SortedTable {
    /// Keys of the tree without the table's prefix, end to end.
    keys: Vec<Vec<u8>>,
    places: Vec<Place>,
}

/// Key bytes go in blocks of this size, so that offsets stay short.
const KEY_BLOCK_BYTES: usize = 1 << 28;

impl SortedTable {
    fn of(generation: &Generation, table: TableId, order: &KeyOrder, sequence: u64) -> SortedTable {
        let mut sorted = SortedTable { keys: vec![Vec::new()], places: Vec::new() };
        let mut key = Vec::new();
        for lane in 0..generation.lane_count() {
            let Some(guard) = generation.lane(lane) else { continue };
            guard.each_held(table, sequence, |place, held| {
                key.clear();
                entry::append_row_key(order, table, held.key, &mut key);
                let rest = key.get(entry::PREFIX_LEN..).unwrap_or(&[]);
                if sorted.keys.last().is_none_or(|block| block.len() + rest.len() + 8 > KEY_BLOCK_BYTES) {
                    sorted.keys.push(Vec::new());
                }
                let block = sorted.keys.len() - 1;
                let Some(bytes) = sorted.keys.last_mut() else { return };
                let key_at = (block * (KEY_BLOCK_BYTES >> KEY_AT_SHIFT)) as u32;
                // Each key begins at a multiple of 8: 29 bits of place for 2 GiB of keys, and so on.
                bytes.resize(bytes.len().next_multiple_of(1 << KEY_AT_SHIFT), 0);
                let key_at = key_at + (bytes.len() >> KEY_AT_SHIFT) as u32;
                bytes.extend_from_slice(rest);
                sorted.places.push(Place {
                    head: head_of(rest),
                    key_at,
                    key_len: rest.len() as u16,
                    lane: lane as u16,
                    place,
                });
            });
        }
        let SortedTable { keys, places } = &mut sorted;
        places.sort_unstable_by(|left, right| {
            left.head.cmp(&right.head).then_with(|| key_of(keys, left).cmp(key_of(keys, right)))
        });
        sorted
    }

    fn key(&self, index: usize) -> Option<&[u8]> {
        self.places.get(index).map(|place| key_of(&self.keys, place))
    }
}

const KEY_AT_SHIFT: usize = 3;

fn key_of<'a>(keys: &'a [Vec<u8>], place: &Place) -> &'a [u8] {
    let block_places = KEY_BLOCK_BYTES >> KEY_AT_SHIFT;
    let (block, at) = (place.key_at as usize / block_places, (place.key_at as usize % block_places) << KEY_AT_SHIFT);
    keys.get(block).and_then(|bytes| bytes.get(at..at + usize::from(place.key_len))).unwrap_or(&[])
}

fn head_of(key: &[u8]) -> u64 {
    let mut head = [0; 8];
    let len = key.len().min(8);
    if let (Some(to), Some(from)) = (head.get_mut(..len), key.get(..len)) {
        to.copy_from_slice(from);
    }
    u64::from_be_bytes(head)
}

/// One table's rows of a layer, on the way into a run.
enum Stream<'a> {
    Memory { generation: &'a Generation, sorted: SortedTable, next: usize },
    Spill { entries: std::iter::Peekable<Box<dyn Iterator<Item = SpillEntry> + 'a>> },
}

type SpillEntry = Result<(lsm_tree::Slice, lsm_tree::Slice), StoreError>;

impl Stream<'_> {
    /// The next key of the tree behind the table's prefix.
    fn key(&mut self) -> Result<Option<&[u8]>, StoreError> {
        match self {
            Stream::Memory { sorted, next, .. } => Ok(sorted.key(*next)),
            Stream::Spill { entries } => {
                if matches!(entries.peek(), Some(Err(_)))
                    && let Some(Err(error)) = entries.next()
                {
                    return Err(error);
                }
                Ok(match entries.peek() {
                    Some(Ok((key, _))) => key.get(entry::PREFIX_LEN..),
                    _ => None,
                })
            }
        }
    }

    fn skip(&mut self) {
        match self {
            Stream::Memory { next, .. } => *next += 1,
            Stream::Spill { entries } => {
                entries.next();
            }
        }
    }

    /// Writes the next entry's value; false when it is a deletion.
    fn value(&mut self, table: TableId, out: &mut Vec<u8>) -> bool {
        out.clear();
        match self {
            Stream::Memory { generation, sorted, next } => {
                let Some(place) = sorted.places.get(*next) else { return false };
                let Some(guard) = generation.lane(usize::from(place.lane)) else { return false };
                let Some(held) = guard.held_at(table, place.place) else { return false };
                let Some(image) = held.image else { return false };
                let keyless = guard.is_keyless(table);
                entry::append_value(keyless, held.definition, held.key, image, held.copies, out);
                true
            }
            Stream::Spill { entries } => match entries.peek() {
                Some(Ok((_, value))) if !entry::is_gone(value) => {
                    out.extend_from_slice(value);
                    true
                }
                _ => false,
            },
        }
    }
}

/// Hands the newest entry of every key of a table to `each`: key, and value or None for a deletion. `streams` are
/// newest first.
fn merge(
    table: TableId,
    mut streams: Vec<Stream<'_>>,
    mut each: impl FnMut(&[u8], Option<&[u8]>) -> Result<(), StoreError>,
) -> Result<u64, StoreError> {
    let (mut key, mut value) = (entry::table_prefix(table).to_vec(), Vec::new());
    let mut count = 0;
    loop {
        let mut first: Option<usize> = None;
        key.truncate(entry::PREFIX_LEN);
        for (index, stream) in streams.iter_mut().enumerate() {
            let Some(next) = stream.key()? else { continue };
            let so_far = key.get(entry::PREFIX_LEN..).unwrap_or(&[]);
            if first.is_none() || next.cmp(so_far) == Ordering::Less {
                first = Some(index);
                key.truncate(entry::PREFIX_LEN);
                key.extend_from_slice(next);
            }
        }
        let Some(first) = first else { return Ok(count) };
        let there = streams.get_mut(first).is_some_and(|stream| stream.value(table, &mut value));
        each(&key, there.then_some(value.as_slice()))?;
        count += 1;
        for stream in streams.iter_mut().skip(first) {
            let same = stream.key()? == key.get(entry::PREFIX_LEN..);
            if same {
                stream.skip();
            }
        }
    }
}

fn streams<'a>(layers: &'a [Layer], table: TableId, order: &KeyOrder, sequence: u64) -> Vec<Stream<'a>> {
    let mut all = Vec::new();
    for layer in layers {
        match layer {
            Layer::Memory(generation) => {
                let sorted = SortedTable::of(generation, table, order, sequence);
                all.push(Stream::Memory { generation, sorted, next: 0 });
            }
            Layer::Spill(spill) if spill.sequence <= sequence => all.push(spill_stream(spill, table)),
            Layer::Spill(_) => {}
        }
    }
    all
}

fn spill_stream(spill: &Spill, table: TableId) -> Stream<'_> {
    let (from, to) = table_bounds(table);
    let entries: Box<dyn Iterator<Item = SpillEntry>> = Box::new(spill.disk.range(spill.disk.read_at(), &from, &to));
    Stream::Spill { entries: entries.peekable() }
}

/// First key of a table's rows and first key behind them.
pub(crate) fn table_bounds(table: TableId) -> ([u8; entry::PREFIX_LEN], [u8; entry::PREFIX_LEN]) {
    let from = entry::table_prefix(table);
    let mut to = from;
    to[5] = 1;
    (from, to)
}

/// Writes `layers` (newest first) as they are at `point` into one run of `disk`, with the record; the run is not
/// ended yet. `with_catalog`: the catalog differs from that of the last cut.
pub(crate) fn write<'a>(
    disk: &'a Disk,
    layers: &[Layer],
    point: &CutPoint,
    rows: BTreeMap<u32, i64>,
    with_catalog: bool,
) -> Result<(Run<'a>, CutReport), StoreError> {
    let mut run = disk.begin()?;
    let mut report = CutReport { sequence: point.sequence, ..CutReport::default() };
    let mut tables: Vec<_> = point.catalog.tables().collect();
    tables.sort_unstable_by_key(|table| table.id);
    for table in tables {
        let order = KeyOrder::of(table);
        let streams = streams(layers, table.id, &order, point.sequence);
        report.entries += merge(table.id, streams, |key, value| match value {
            Some(value) => run.put(key, value),
            None => run.remove(key),
        })?;
    }
    run.records(CutFacts {
        sequence: point.sequence,
        executed: &point.executed,
        position: point.position.as_ref().map(|(file, offset)| (file.as_str(), *offset)),
        rows,
        ledger: &point.ledger,
        catalog: with_catalog.then_some(&point.catalog),
    })?;
    Ok((run, report))
}

/// Writes one generation of an unfinished transaction into a tree of its own.
pub(crate) fn spill(
    disk: &Disk,
    generation: &Arc<Generation>,
    order_of: &dyn Fn(TableId) -> Option<KeyOrder>,
) -> Result<(), StoreError> {
    let mut run = disk.begin()?;
    let mut any = false;
    for table in tables_of(generation) {
        let Some(order) = order_of(table) else { continue };
        let layer = [Layer::Memory(Arc::clone(generation))];
        any |= merge(table, streams(&layer, table, &order, u64::MAX), |key, value| {
            run.put(key, value.unwrap_or(&entry::GONE_VALUE))
        })? > 0;
    }
    if any {
        let ending = disk.ending();
        run.finish(&ending)?;
        disk.take_over(&ending);
    }
    Ok(())
}

/// Rows of a table in a tree, each with its key of the tree.
pub(crate) fn each_row<B>(
    disk: &Disk,
    at: u64,
    table: TableId,
    mut each: impl FnMut(entry::StoredRow<'_>) -> Result<ControlFlow<B>, StoreError>,
) -> Result<ControlFlow<B>, StoreError> {
    let (from, to) = table_bounds(table);
    for item in disk.range(at, &from, &to) {
        let (key, value) = item?;
        if entry::is_gone(&value) {
            continue;
        }
        let row = entry::parse_row(&key, &value).ok_or_else(|| disk.damaged("a row that is not one of ours"))?;
        if let ControlFlow::Break(end) = each(row)? {
            return Ok(ControlFlow::Break(end));
        }
    }
    Ok(ControlFlow::Continue(()))
}
