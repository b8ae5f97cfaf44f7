//! A cut: writes everything up to a transaction boundary into the tree, atomically.
//!
//! In: sealed generations and spills, oldest first. Out: one sorted ingestion with the cut's record. Never here: a row
//! above the boundary; a row of a table that no longer exists at the boundary.

use std::cell::OnceCell;
use std::cmp::Ordering;
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::{Arc, RwLockReadGuard};

use base::{GtidSet, PreparedSet, SharedMap};
use catalog::{Catalog, ConversionBuffers, IndexSet, KeyOrder, TableDef, TableId};

use crate::ascending::Ascending;
use crate::cut_record::{CutFacts, TableFacts};
use crate::delta::Deltas;
use crate::disk::{Disk, Run};
use crate::drift::{DriftKind, Finding, Findings};
use crate::error::StoreError;
use crate::expectation::Expected;
use crate::index_before::{KeysBelow, KeysBelowKind};
use crate::index_entries::{CutRow, Scratch, TableEntries, gathered_bytes_max};
use crate::index_state::{Extent, IndexStates};
use crate::key_codec::{self, long_head_of};
use crate::lane::Lane;
use crate::layers::{CutPoint, Existence, Generation, Layer, Layers, Spill, append_found, tables_of};
use crate::row_state::{RowState, copies_in, multiplicity};
use crate::table_shape::{OwnedShape, TableShape};
use crate::version_chain::WARM_AT_ONCE;

/// Statistics of a cut.
#[derive(Clone, Debug, Default)]
pub struct CutReport {
    /// Number of its last transaction.
    pub sequence: u64,
    /// Rows written, deletions included.
    pub entries: u64,
    /// Entries of secondary indexes written, removals included.
    pub index_entries: u64,
    /// Bytes of keys and values.
    pub bytes: u64,
}

/// Location of a row in a generation, sortable in the order of the tree.
#[derive(Clone, Copy, Default)]
struct Place {
    /// First bytes of the key after the table's prefix, padded with zeros: few comparisons need more.
    head: [u8; HEAD_LEN],
    place: u64,
    /// Location of the key, if it is longer than its head.
    key_at: u32,
    key_len: u16,
    lane: u16,
}

const HEAD_LEN: usize = 16;

impl Place {
    #[inline]
    fn order(&self, other: &Place, keys: &[Vec<u8>]) -> Ordering {
        let heads = u128::from_be_bytes(self.head).cmp(&u128::from_be_bytes(other.head));
        heads.then_with(|| {
            if usize::from(self.key_len.min(other.key_len)) <= HEAD_LEN {
                // The shorter key is a prefix of the other.
                return self.key_len.cmp(&other.key_len);
            }
            key_of(keys, self).cmp(key_of(keys, other))
        })
    }
}

/// All rows of one table in one generation, sorted.
#[derive(Default)]
struct SortedTable {
    /// Tree keys without the table's prefix, concatenated; only those longer than their heads.
    keys: Vec<Vec<u8>>,
    places: Vec<Place>,
}

/// Keys are stored in blocks of this size, so that offsets stay short.
const KEY_BLOCK_BYTES: usize = 1 << 28;

impl SortedTable {
    /// Sorts a table's rows, reusing the memory of `sorted`.
    fn of(
        generation: &Generation,
        table: TableId,
        order: &KeyOrder,
        sequence: u64,
        mut sorted: SortedTable,
    ) -> Result<SortedTable, StoreError> {
        sorted.places.clear();
        sorted.keys.truncate(1);
        sorted.keys.iter_mut().for_each(Vec::clear);
        let mut key = Vec::new();
        // Reserved up front: growing step by step would copy everything repeatedly.
        let expected: usize = generation.lanes().map(|lane| lane.slot_count(table)).sum();
        sorted.places.reserve(expected);
        let mut too_long = false;
        for (lane, guard) in (0u16..).zip(generation.lanes()) {
            guard.each_key(table, sequence, |place, stored| {
                key.clear();
                key_codec::append_row_key(order, table, stored, &mut key);
                let rest = &key[key_codec::PREFIX_LEN..];
                let key_at = if rest.len() > HEAD_LEN { sorted.keep_key(rest, expected) } else { Some(0) };
                let key_len = u16::try_from(rest.len()).ok().filter(|len| *len <= TREE_KEY_LEN_MAX);
                let (Some(key_at), Some(key_len)) = (key_at, key_len) else {
                    too_long = true;
                    return;
                };
                sorted.places.push(Place { head: long_head_of(rest), key_at, key_len, lane, place });
            });
        }
        if too_long {
            return Err(StoreError::defect("a key, or all keys of a table in one cut, are longer than the tree takes"));
        }
        let SortedTable { keys, places } = &mut sorted;
        places.sort_unstable_by(|left, right| left.order(right, keys));
        Ok(sorted)
    }

    /// Stores a key and returns its location; None if the location does not fit its field. `about`: expected number of
    /// keys.
    fn keep_key(&mut self, key: &[u8], about: usize) -> Option<u32> {
        let len = key.len().next_multiple_of(1 << KEY_AT_SHIFT);
        if self.keys.last().is_none_or(|block| block.len() + len > KEY_BLOCK_BYTES) {
            self.keys.push(Vec::new());
        }
        let block = self.keys.len() - 1;
        let bytes = self.keys.last_mut()?;
        if bytes.is_empty() {
            bytes.reserve((len * about).min(KEY_BLOCK_BYTES));
        }
        // Each key starts at a multiple of 8, so 32 bits address 32 GiB of keys.
        let key_at = block * (KEY_BLOCK_BYTES >> KEY_AT_SHIFT) + (bytes.len() >> KEY_AT_SHIFT);
        bytes.extend_from_slice(key);
        bytes.resize(bytes.len().next_multiple_of(1 << KEY_AT_SHIFT), 0);
        u32::try_from(key_at).ok()
    }

    fn key(&self, index: usize) -> Option<&[u8]> {
        self.places.get(index).map(|place| key_of(&self.keys, place))
    }
}

const KEY_AT_SHIFT: usize = 3;
/// lsm-tree accepts keys of 64 KiB, including table and index ids.
const TREE_KEY_LEN_MAX: u16 = u16::MAX - 6;

const _: () = assert!(TREE_KEY_LEN_MAX as usize + key_codec::PREFIX_LEN == u16::MAX as usize);
const _: () = assert!(KEY_BLOCK_BYTES.is_multiple_of(1 << KEY_AT_SHIFT) && KEY_BLOCK_BYTES > u16::MAX as usize);
const _: () = assert!(crate::store::LANES_MAX <= u16::MAX as usize, "a place holds its lane in 16 bits");

fn key_of<'a>(keys: &'a [Vec<u8>], place: &'a Place) -> &'a [u8] {
    if let Some(key) = place.head.get(..usize::from(place.key_len)) {
        return key;
    }
    let block_places = KEY_BLOCK_BYTES >> KEY_AT_SHIFT;
    let (block, at) = (place.key_at as usize / block_places, (place.key_at as usize % block_places) << KEY_AT_SHIFT);
    &keys[block][at..at + usize::from(place.key_len)]
}

/// One table's rows of a layer, to be written into a run.
enum Stream<'a> {
    /// The generation is sealed, so holding its lanes blocks nobody.
    Memory {
        lanes: Vec<RwLockReadGuard<'a, Lane>>,
        table: TableId,
        sorted: SortedTable,
        next: usize,
    },
    Spill {
        entries: std::iter::Peekable<Box<dyn Iterator<Item = SpillEntry> + 'a>>,
        keyless: bool,
    },
}

type SpillEntry = Result<(lsm_tree::Slice, lsm_tree::Slice), StoreError>;

impl Stream<'_> {
    /// The next tree key, after the table's prefix.
    #[inline]
    fn key(&mut self) -> Result<Option<&[u8]>, StoreError> {
        match self {
            Stream::Memory { sorted, next, .. } => Ok(sorted.key(*next)),
            Stream::Spill { entries, .. } => {
                if matches!(entries.peek(), Some(Err(_)))
                    && let Some(Err(error)) = entries.next()
                {
                    return Err(error);
                }
                Ok(match entries.peek() {
                    Some(Ok((key, _))) => key.get(key_codec::PREFIX_LEN..),
                    _ => None,
                })
            }
        }
    }

    fn skip(&mut self) {
        match self {
            Stream::Memory { next, .. } => {
                *next += 1;
                if next.is_multiple_of(WARM_AT_ONCE) {
                    self.warm();
                }
            }
            Stream::Spill { entries, .. } => {
                entries.next();
            }
        }
    }

    /// Returns the memory used for sorting, for the next table.
    fn leave(self) -> Option<SortedTable> {
        match self {
            Stream::Memory { sorted, .. } => Some(sorted),
            Stream::Spill { .. } => None,
        }
    }

    /// Prefetches the next records, so that their cache misses overlap: they are scattered in memory.
    fn warm(&self) {
        let Stream::Memory { lanes, table, sorted, next } = self else { return };
        let places = sorted.places.iter().skip(*next).take(WARM_AT_ONCE);
        let touched = places.filter_map(|place| Some(lanes.get(usize::from(place.lane))?.touch(*table, place.place)));
        std::hint::black_box(touched.fold(0, |sum, byte| sum ^ byte));
    }

    /// Whether the next entry's row exists in this layer (a delta changes an existing one), and what the log says of the
    /// row below it.
    fn expectation(&mut self) -> Result<(bool, Expected), StoreError> {
        match self {
            Stream::Memory { lanes, table, sorted, next } => {
                let place = sorted.places.get(*next);
                let guard = place.and_then(|place| lanes.get(usize::from(place.lane)));
                let version = place.zip(guard).and_then(|(place, guard)| guard.version_at(*table, place.place));
                let version = version.ok_or(StoreError::defect("a row of a cut is not where it was sorted from"))?;
                Ok((!matches!(version.state, RowState::Deleted), version.expected))
            }
            Stream::Spill { entries, .. } => match entries.peek() {
                Some(Ok((_, value))) => Ok((!key_codec::is_deleted(value), key_codec::expected_of(value))),
                Some(Err(_)) | None => Err(StoreError::defect("a row of a spill is asked for that was not peeked at")),
            },
        }
    }

    /// Writes the next entry's value to `out`; a delta goes to `whole` instead. Also returns what the log says of the row
    /// below.
    fn value(&mut self, whole: &mut Whole<'_>, out: &mut Vec<u8>) -> Result<(RowState<()>, Expected), StoreError> {
        out.clear();
        match self {
            Stream::Memory { lanes, table, sorted, next } => {
                let place = sorted.places.get(*next);
                let guard = place.and_then(|place| lanes.get(usize::from(place.lane)));
                let version = place.zip(guard).and_then(|(place, guard)| guard.version_at(*table, place.place));
                let (Some(guard), Some(version)) = (guard, version) else {
                    return Err(StoreError::defect("a row of a cut is not where it was sorted from"));
                };
                match version.state {
                    RowState::Row(image) => {
                        let keyless = guard.is_keyless(*table);
                        let copies = copies_in(keyless, image);
                        key_codec::append_value(keyless, version.definition, version.key, image, copies, out);
                    }
                    RowState::Delta(delta) => whole.push(version.key, delta, version.definition)?,
                    RowState::Deleted => {}
                }
                Ok((version.state.bare(), version.expected))
            }
            Stream::Spill { entries, .. } => match entries.peek() {
                Some(Ok((_, value))) => {
                    let expected = key_codec::expected_of(value);
                    if key_codec::is_deleted(value) {
                        return Ok((RowState::Deleted, expected));
                    }
                    out.extend_from_slice(key_codec::plain(value));
                    Ok((RowState::Row(()), expected))
                }
                Some(Err(_)) | None => Err(StoreError::defect("a row of a spill is asked for that was not peeked at")),
            },
        }
    }

    /// State of the row below the next entry, its sort keys in `keys`, and the length of the row's own key.
    fn keys_below(&mut self, table: TableId, indexes: &IndexSet, keys: &mut Vec<u8>) -> Option<(KeysBelowKind, usize)> {
        keys.clear();
        match self {
            Stream::Memory { lanes, sorted, next, .. } => {
                let place = sorted.places.get(*next)?;
                let guard = lanes.get(usize::from(place.lane))?;
                let version = guard.version_at(table, place.place)?;
                let below = guard.keys_below_at(table, place.place);
                let keyless = guard.is_keyless(table);
                let own_len = key_codec::own_len(keyless, version.key);
                if keyless && matches!(version.state, RowState::Deleted) && below == KeysBelow::Same {
                    // The deleted row is the row below: the image is the identity.
                    indexes.append_all(version.key, keys).ok()?;
                    return Some((KeysBelowKind::Keys, own_len));
                }
                Some((KeysBelowKind::of(below, keys), own_len))
            }
            Stream::Spill { entries, keyless } => match entries.peek() {
                Some(Ok((key, value))) => {
                    let Some(head) = key_codec::spill_head_of(value) else {
                        // The table had no index then. Indexes added since have the row's own key in their entries all
                        // the same.
                        let row = key_codec::parse_row(key, value);
                        return Some((KeysBelowKind::Same, row.map_or(0, |row| key_codec::own_len(*keyless, row.key))));
                    };
                    keys.extend_from_slice(head.keys);
                    Some((head.below, head.own_len))
                }
                _ => None,
            },
        }
    }
}

/// Finds a row below the layers being written, by its tree key and its stored key, and appends its image. False if
/// there is no such row.
type Under<'a> = dyn FnMut(&TableShape<'_>, &[u8], &[u8], &mut Vec<u8>) -> Result<bool, StoreError> + 'a;

/// Assembles rows of one table from the deltas in several layers.
struct Whole<'a> {
    table: &'a TableDef,
    /// Built when the first delta is found.
    made: OnceCell<Made>,
    under: &'a mut Under<'a>,
    damaged: &'a dyn Fn() -> StoreError,
    above: Deltas,
    /// Stored key of the row that the deltas belong to.
    key: Vec<u8>,
    image: Vec<u8>,
    /// Rows that contradict the log.
    findings: &'a mut Findings,
}

struct Made {
    shape: OwnedShape,
    buffers: ConversionBuffers,
}

impl<'a> Whole<'a> {
    fn new(
        table: &'a TableDef,
        under: &'a mut Under<'a>,
        damaged: &'a dyn Fn() -> StoreError,
        findings: &'a mut Findings,
    ) -> Whole<'a> {
        let (made, above) = (OnceCell::new(), Deltas::default());
        Whole { table, made, under, damaged, above, key: Vec::new(), image: Vec::new(), findings }
    }

    fn make(table: &TableDef) -> Made {
        Made { shape: OwnedShape::of(table), buffers: ConversionBuffers::default() }
    }

    fn push(&mut self, key: &[u8], delta: &[u8], definition: u32) -> Result<(), StoreError> {
        if self.above.is_empty() {
            self.key.clear();
            self.key.extend_from_slice(key);
        }
        let made = self.made.get_or_init(|| Whole::make(self.table));
        self.above.push(delta, definition, made.shape.lend().versions)
    }

    /// Assembles a row from its deltas: on top of `value`, which a layer below them holds, or on top of the row below
    /// all layers.
    fn complete(
        &mut self,
        tree_key: &[u8],
        found: Option<RowState<()>>,
        value: &mut Vec<u8>,
    ) -> Result<RowState<()>, StoreError> {
        self.made.get_or_init(|| Whole::make(self.table));
        let Some(made) = self.made.get_mut() else {
            return Err(StoreError::defect("a shape was made and is not there"));
        };
        let shape = made.shape.lend();
        self.image.clear();
        if shape.order.is_keyless() {
            let copies = match found {
                Some(RowState::Row(())) => key_codec::multiplicity(value).ok_or_else(self.damaged)?,
                Some(RowState::Deleted) => 0,
                Some(RowState::Delta(())) | None => {
                    let there = (self.under)(&shape, tree_key, &self.key, &mut self.image)?;
                    if there { multiplicity(&self.image) } else { 0 }
                }
            };
            let counted = self.above.counted_over(copies);
            if counted.too_few {
                self.findings.push(Finding::new(tree_key, DriftKind::TooFewCopies));
            }
            let copies = counted.copies.unwrap_or(0);
            value.clear();
            if copies == 0 {
                return Ok(RowState::Deleted);
            }
            key_codec::append_value(true, self.table.version, &self.key, &[], copies, value);
            return Ok(RowState::Row(()));
        }
        let there = match found {
            Some(RowState::Row(())) => {
                let row = key_codec::parse_row(tree_key, value).ok_or_else(self.damaged)?;
                let read = shape.versions.read(row.definition, row.image, &mut made.buffers);
                self.image.extend_from_slice(read.map_err(|_| (self.damaged)())?);
                true
            }
            Some(RowState::Deleted) => false,
            Some(RowState::Delta(())) | None => (self.under)(&shape, tree_key, &self.key, &mut self.image)?,
        };
        value.clear();
        if !there {
            // Only some columns are known, which make no row.
            self.above.clear();
            self.findings.push(Finding::new(tree_key, DriftKind::Missing));
            return Ok(RowState::Deleted);
        }
        self.above.complete(shape.layout, &mut self.image, 0).map_err(|_| (self.damaged)())?;
        key_codec::append_value(false, self.table.version, &self.key, &self.image, 1, value);
        Ok(RowState::Row(()))
    }
}

/// Merges streams (newest first) by key and calls `each` with every key's newest entry. If there are `indexes`, the
/// entry includes the state of the row below all streams.
fn merge(
    table: TableId,
    indexes: Option<&IndexSet>,
    streams: &mut [Stream<'_>],
    mut whole: Whole<'_>,
    mut each: impl FnMut(&CutRow<'_>) -> Result<(), StoreError>,
) -> Result<u64, StoreError> {
    let damaged = whole.damaged;
    let (mut key, mut value) = (key_codec::table_prefix(table).to_vec(), Vec::new());
    let (mut below_keys, mut older_keys) = (Vec::new(), Vec::new());
    let mut count = 0;
    loop {
        // A linear scan for the smallest key is enough: there is one stream per layer. The first stream that has it is
        // the newest, and the streams before it do not have this key.
        let mut first: Option<usize> = None;
        key.truncate(key_codec::PREFIX_LEN);
        for (index, stream) in streams.iter_mut().enumerate() {
            let Some(next) = stream.key()? else { continue };
            let so_far = &key[key_codec::PREFIX_LEN..];
            if first.is_none() || next.cmp(so_far) == Ordering::Less {
                first = Some(index);
                key.truncate(key_codec::PREFIX_LEN);
                key.extend_from_slice(next);
            }
        }
        let Some(first) = first else { return Ok(count) };
        let (mut found, mut expected) = (None, Expected::Unknown);
        let (mut below, mut own_len) = (KeysBelowKind::Same, 0);
        for stream in streams.iter_mut().skip(first) {
            if stream.key()? != key.get(key_codec::PREFIX_LEN..) {
                continue;
            }
            // The newest entry wins. A delta does not end the search: the row continues in an older layer.
            let (exists, expects) = if matches!(found, None | Some(RowState::Delta(()))) {
                let (state, expects) = stream.value(&mut whole, &mut value)?;
                found = Some(state);
                (!matches!(state, RowState::Deleted), expects)
            } else {
                stream.expectation()?
            };
            // Each layer says what lies below it; what the oldest says is left for the tree to compare.
            if expected.is_broken(exists) {
                let kind = if expected == Expected::Row { DriftKind::Missing } else { DriftKind::Duplicate };
                whole.findings.push(Finding::new(&key, kind));
            }
            expected = expects;
            if let Some(indexes) = indexes {
                let (older, len) = stream.keys_below(table, indexes, &mut older_keys).ok_or_else(damaged)?;
                // The oldest layer in which the row changed knows its state below all of them, so later streams
                // overwrite.
                if older != KeysBelowKind::Same {
                    below = older;
                    std::mem::swap(&mut below_keys, &mut older_keys);
                }
                // A deletion in a spill from before the table had indexes has no length, and gives 0.
                own_len = own_len.max(len);
            }
            stream.skip();
        }
        // Deltas were found, so `found` is only what lies under them.
        if !whole.above.is_empty() {
            found = Some(whole.complete(&key, found, &mut value)?);
            if matches!(found, Some(RowState::Deleted)) {
                // Nothing to compare: this is what the row below was looked up for.
                expected = Expected::Unknown;
            }
        }
        let value = (found == Some(RowState::Row(()))).then_some(value.as_slice());
        each(&CutRow { key: &key, own_len, value, expected, below, below_keys: &below_keys })?;
        count += 1;
    }
}

/// Opens a table's stream in each layer. `rooms`: memory for sorting that `Stream::leave` returned.
fn streams<'a>(
    layers: &'a [Layer],
    table: TableId,
    order: &KeyOrder,
    sequence: u64,
    rooms: &mut Vec<SortedTable>,
) -> Result<Vec<Stream<'a>>, StoreError> {
    let mut all = Vec::new();
    for layer in layers {
        match layer {
            Layer::Memory(generation) => {
                let sorted = SortedTable::of(generation, table, order, sequence, rooms.pop().unwrap_or_default())?;
                let lanes = generation.lanes().collect();
                let stream = Stream::Memory { lanes, table, sorted, next: 0 };
                stream.warm();
                all.push(stream);
            }
            Layer::Spill(spill) if spill.sequence <= sequence => {
                all.push(spill_stream(spill, table, order.is_keyless()))
            }
            Layer::Spill(_) => {}
        }
    }
    Ok(all)
}

fn spill_stream(spill: &Spill, table: TableId, keyless: bool) -> Stream<'_> {
    let (from, to) = key_codec::table_bounds(table);
    let entries: Box<dyn Iterator<Item = SpillEntry>> = Box::new(spill.tree.range(&from, &to));
    Stream::Spill { entries: entries.peekable(), keyless }
}

/// Target of a cut, and what the cut must know about it.
pub(crate) struct CutTo<'a> {
    pub disk: &'a Disk,
    pub scratch: Option<&'a Path>,
    /// What the tree holds of each index before the cut.
    pub indexes: &'a IndexStates,
    /// Tables being copied, which are not in any catalog yet.
    pub copied: &'a BTreeMap<TableId, Arc<TableDef>>,
    /// GTIDs that must be executed before the rows are exact.
    pub consistent_at: Option<&'a GtidSet>,
    /// What the tree has of the catalog and its tables, and the number of its records; None if it has no such records.
    pub before: Option<(TableFacts<'a>, u64)>,
    /// True if all records are written, whether or not they changed.
    pub all_records: bool,
    /// XA transactions prepared at the last cut.
    pub prepared: &'a PreparedSet,
}

/// What a cut wrote.
pub(crate) struct Written<'a> {
    /// Not finished yet.
    pub run: Run<'a>,
    pub report: CutReport,
    /// Index states after the cut.
    pub indexes: IndexStates,
    /// The number that parts of the catalog and records of tables are under after the cut.
    pub parts: u64,
    /// Rows that contradict the log, to be saved before the run is finished.
    pub findings: Findings,
}

/// Writes `layers` (newest first) as of `point` into one run, with the record, but does not finish the run.
pub(crate) fn write<'a>(
    to: &CutTo<'a>,
    layers: &[Layer],
    point: &CutPoint,
    rows: &SharedMap<u32, i64>,
) -> Result<Written<'a>, StoreError> {
    let (mut run, mut findings) = (to.disk.begin()?, Findings::default());
    let bytes = layers.iter().map(|layer| match layer {
        Layer::Memory(generation) => generation.bytes(),
        Layer::Spill(_) => 0,
    });
    let bytes_max = gathered_bytes_max(bytes.sum());
    let scratch =
        to.scratch.map(|folder| Scratch { folder: folder.to_owned(), kept: to.disk.kept().clone(), bytes_max });
    let mut report = CutReport { sequence: point.sequence, ..CutReport::default() };
    let mut rooms = Vec::new();
    // A run takes keys in ascending order, and they start with the table id. Tables without rows here cost nothing.
    for id in ids_in(layers) {
        // A copied table may be in the catalog too.
        let Some(table) = point.catalog.table_by_id(id).or_else(|| to.copied.get(&id)) else { continue };
        let order = KeyOrder::of(table);
        let mut streams = streams(layers, table.id, &order, point.sequence, &mut rooms)?;
        let (rows, entries) = write_table(to, &mut run, table, &order, &mut streams, scratch.as_ref(), &mut findings)?;
        rooms.extend(streams.into_iter().filter_map(Stream::leave));
        report.entries += rows;
        report.index_entries += entries;
    }
    let states = to.indexes.at_cut(&point.catalog);
    let (tables_before, replaced) = if to.all_records { (None, to.before) } else { (to.before, None) };
    let parts = run.records(&CutFacts {
        sequence: point.sequence,
        executed: &point.executed,
        position: point.position.as_ref().map(|(file, offset)| (file.as_str(), *offset)),
        ledger: &point.ledger,
        consistent_at: to.consistent_at.filter(|set| !set.is_subset_of(&point.executed)),
        tables: TableFacts { catalog: &point.catalog, rows, indexes: &states },
        tables_before,
        replaced,
        prepared: &point.prepared,
        prepared_before: to.prepared,
        all: to.all_records,
    })?;
    Ok(Written { run, report, indexes: states, parts, findings })
}

/// Ids of the tables that have rows or deletions in these layers, in order.
pub(crate) fn ids_in(layers: &[Layer]) -> BTreeSet<TableId> {
    let mut ids = BTreeSet::new();
    for layer in layers {
        match layer {
            Layer::Memory(generation) => ids.extend(tables_of(generation)),
            Layer::Spill(spill) => ids.extend(spill.balances.keys().map(|id| TableId(*id))),
        }
    }
    ids
}

/// Writes a table's rows, then its index entries, which is the order of their keys. Returns the number of each.
fn write_table(
    to: &CutTo<'_>,
    run: &mut Run<'_>,
    table: &TableDef,
    order: &KeyOrder,
    streams: &mut [Stream<'_>],
    scratch: Option<&Scratch>,
    findings: &mut Findings,
) -> Result<(u64, u64), StoreError> {
    let damaged = || to.disk.damaged(format!("a row of {} does not fit its definition", table.full_name()));
    let mut entries = order.indexes().and_then(|set| {
        let extents = to.indexes.extents(table, set);
        TableEntries::new(table, set, extents, to.indexes.is_new(table), scratch)
    });
    let indexes = order.indexes().filter(|_| entries.is_some()).map(|set| &**set);
    let mut tree = Ascending::new(to.disk, &key_codec::table_bounds(table.id).1);
    let mut under = |shape: &TableShape<'_>, tree_key: &[u8], key: &[u8], image: &mut Vec<u8>| {
        let Some(value) = tree.get(tree_key)? else { return Ok(false) };
        append_found(to.disk, shape, key, tree_key, &value, image).map(|found| found == Existence::Present)
    };
    let rows = merge(table.id, indexes, streams, Whole::new(table, &mut under, &damaged, findings), |row| {
        match row.value {
            Some(value) => run.put_row(row.key, value, row.expected)?,
            None => run.remove_row(row.key, row.expected)?,
        }
        match &mut entries {
            Some(entries) => entries.row(row, &damaged),
            None => Ok(()),
        }
    })?;
    let entries = entries.map(|entries| entries.write(run, true)).transpose()?;
    Ok((rows, entries.unwrap_or(0)))
}

/// Writes one generation of an unfinished transaction into a tree of its own. Each row of a table with indexes includes
/// the state of the row below; readers also get the entries of the existing rows. Deltas become whole rows.
pub(crate) fn spill(
    disk: &Disk,
    layers: &Layers,
    generation: &Arc<Generation>,
    catalog: &Catalog,
) -> Result<(), StoreError> {
    let is_it = |layer: &Layer| matches!(layer, Layer::Memory(held) if held.number() == generation.number());
    let place = layers.below.iter().position(is_it);
    let place = place.ok_or(StoreError::defect("a generation is spilled that is not among the layers"))?;
    let mut run = disk.begin()?;
    let (mut any, mut rooms, mut findings) = (false, Vec::new(), Findings::default());
    for table in tables_of(generation) {
        let Some(table) = catalog.table_by_id(table) else { continue };
        let order = KeyOrder::of(table);
        let layer = [Layer::Memory(Arc::clone(generation))];
        let mut streams = streams(&layer, table.id, &order, u64::MAX, &mut rooms)?;
        let damaged = || disk.damaged(format!("a row of {} does not fit its definition", table.full_name()));
        let mut entries = order.indexes().and_then(|set| {
            let extents = vec![Extent::Everything; set.indexes().len()];
            TableEntries::new(table, set, extents, true, None)
        });
        let mut value = Vec::new();
        let indexes = order.indexes().map(|set| &**set);
        let mut under = |shape: &TableShape<'_>, _: &[u8], key: &[u8], image: &mut Vec<u8>| {
            layers.append_under(place, shape, key, image)
        };
        let whole = Whole::new(table, &mut under, &damaged, &mut findings);
        let rows = merge(table.id, indexes, &mut streams, whole, |row| {
            value.clear();
            key_codec::append_expected(row.expected, &mut value);
            if let Some(entries) = &mut entries {
                let head = key_codec::SpillHead {
                    below: row.below,
                    keys: if row.below == KeysBelowKind::Keys { row.below_keys } else { &[] },
                    own_len: row.own_len,
                };
                key_codec::append_spill_head(&head, &mut value);
                entries.row(row, &damaged)?;
            }
            value.extend_from_slice(row.value.unwrap_or(&key_codec::DELETED_VALUE));
            run.put(row.key, &value)
        })?;
        if let Some(key) = findings.first_key() {
            // The transaction is not visible to anybody yet, so replay can stop in front of it.
            return Err(StoreError::row_missing_hex(table.full_name(), key));
        }
        any |= rows > 0;
        rooms.extend(streams.into_iter().filter_map(Stream::leave));
        if let Some(entries) = entries {
            entries.write(&mut run, false)?;
        }
    }
    if any {
        let version_lock = disk.version_lock();
        run.finish(&version_lock)?;
        disk.take_over(&version_lock);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use base::Random;

    use super::*;

    #[test]
    fn places_are_in_the_order_of_their_keys() {
        // Keys of zeros and ones, so that many are prefixes of others and continue with the padding byte.
        let mut random = Random::new(7);
        let mut next = |bound: u64| random.below(bound);
        let mut sorted = SortedTable::default();
        let mut keys = Vec::new();
        for place in 0..4000 {
            let zeros = next(20) as usize;
            let key: Vec<u8> = (0..next(22) as usize).map(|at| if at < zeros { 0 } else { next(2) as u8 }).collect();
            let key_at = if key.len() > HEAD_LEN { sorted.keep_key(&key, 10).unwrap() } else { 0 };
            sorted.places.push(Place { head: long_head_of(&key), place, key_at, key_len: key.len() as u16, lane: 0 });
            keys.push(key);
        }
        let SortedTable { keys: kept, places } = &mut sorted;
        places.sort_unstable_by(|left, right| left.order(right, kept));
        let there: Vec<&[u8]> = (0..sorted.places.len()).filter_map(|index| sorted.key(index)).collect();
        assert!(sorted.places.iter().zip(&there).all(|(place, key)| keys[place.place as usize] == *key));
        keys.sort();
        assert_eq!(there, keys);
    }
}
