//! A lane: the rows that one apply worker owns, by table.
//!
//! In: row changes of this lane, in log order. Out: versions. Never here: a mismatch between row and log that goes
//! unnoticed although `check_images` asks for the check (invariant 20).

use std::sync::Arc;

use catalog::{ConversionBuffers, IndexSet, TableId};
use values::ValueError;

use crate::arena::{Cursor, RecordRef, SegmentPool};
use crate::delta::{self, Copies, Deltas};
use crate::error::StoreError;
use crate::expectation::Expected;
use crate::image_check::check_old;
use crate::index_before::{KeysBelow, SlotKeysBelow};
use crate::layers::{Depth, Existence, Layer, Layers};
use crate::row_change::{BeforeImage, CheckImages, Old, RowChange, RowError, RowErrorKind, merge_json};
use crate::row_state::{RowState, multiplicity};
use crate::scan_buffer::ScanBuffer;
use crate::table_shape::{TableShape, append_read};
use crate::version_chain::{Found, LaneTable, RowVersion, Version, WARM_AT_ONCE, Written};

/// Row count and memory of a store.
#[derive(Clone, Copy, Debug, Default)]
pub struct LaneStats {
    /// Rows of all existing tables, counted by their newest versions.
    pub rows: u64,
    /// Bytes taken from the allocator.
    pub bytes: u64,
    /// Of `bytes`, those of versions that no reader can see.
    pub dead_bytes: u64,
}

/// Number of rows that [`Lane::warm`] prefetches at once: more cache misses than a core can have outstanding, yet few
/// enough that prefetched lines are still cached when they are used.
pub const WARM_ROWS: usize = WARM_AT_ONCE;

#[derive(Default)]
struct Table {
    rows: LaneTable,
    /// For tables with secondary indexes over other layers: state of the rows below, see `index_before`.
    keys_below: SlotKeysBelow,
    keyless: bool,
    /// Set once a delta was written, so that other tables need no search for deltas.
    has_deltas: bool,
    /// Set once a deletion or a delta was written: until then whole rows alone replace rows of the layers below.
    hides: bool,
    /// Rows added minus rows removed.
    balance: i64,
    /// This table's share of the lane's `bytes`.
    counted: usize,
}

/// Buffers for the old image of a row.
#[derive(Default)]
struct OldBuffers {
    /// Copied from layers below.
    below: Vec<u8>,
    /// Converted from an earlier definition.
    converted: ConversionBuffers,
    /// Deltas above a row that is being looked up.
    above: Deltas,
}

/// The row of a change.
#[derive(Clone, Copy)]
pub struct RowTarget<'a> {
    /// Number of its lane.
    pub lane: usize,
    pub shape: &'a TableShape<'a>,
    pub hash: u64,
    pub key: &'a [u8],
}

/// What changes are made under.
#[derive(Clone, Copy)]
pub struct WriteContext<'a> {
    /// Number of the transaction.
    pub sequence: u64,
    /// Versions that only older snapshots need are freed.
    pub oldest_needed: u64,
    pub check: CheckImages,
    /// Layers below, for rows that this generation does not hold; their active generation contains the lane.
    pub layers: &'a Layers,
}

/// Rows that one apply worker owns in one generation.
pub struct Lane {
    /// True if there is no layer below, so a deleted row needs no tombstone.
    bottom: bool,
    bytes: usize,
    /// Indexed by table id: ids are small and dense.
    tables: Vec<Option<Box<Table>>>,
    /// Tables dropped by DDL, with the sequence number of that DDL statement.
    dying: Vec<(u64, TableId)>,
    old: OldBuffers,
    /// Buffer for new images that are made here.
    scratch: Vec<u8>,
    /// Buffer for sort keys of rows below.
    below_keys: Vec<u8>,
    segments: Arc<SegmentPool>,
}

impl Table {
    /// Reserves room for as many rows as the newest sealed generation has: growing step by step costs a twentieth of
    /// apply.
    fn like(layers: &Layers, lane: usize, table: TableId, segments: &Arc<SegmentPool>) -> Box<Table> {
        let sealed = layers.newest_sealed();
        let rows = sealed.map_or(0, |generation| generation.lane(lane).slot_count(table));
        Box::new(Table { rows: LaneTable::with_capacity(rows, segments), ..Table::default() })
    }
}

impl Lane {
    pub(crate) fn new(bottom: bool, segments: &Arc<SegmentPool>) -> Lane {
        Lane {
            bottom,
            bytes: 0,
            tables: Vec::new(),
            dying: Vec::new(),
            old: OldBuffers::default(),
            scratch: Vec::new(),
            below_keys: Vec::new(),
            segments: Arc::clone(segments),
        }
    }

    /// Applies one change of a row.
    ///
    /// # Errors
    /// When the stored row does not match the log, or the store cannot be read. In both cases nothing was changed.
    #[inline]
    pub fn apply(
        &mut self,
        target: &RowTarget<'_>,
        change: RowChange<'_>,
        context: &WriteContext<'_>,
    ) -> Result<(), RowError> {
        let RowTarget { lane, shape, hash, key } = *target;
        let WriteContext { sequence, oldest_needed, check, layers } = *context;
        let index = shape.id.0 as usize;
        if self.tables.len() <= index {
            self.tables.resize_with(index + 1, || None);
        }
        let entry = self.tables[index].get_or_insert_with(|| Table::like(layers, lane, shape.id, &self.segments));
        let found = entry.rows.find(hash, key);
        if found.is_some_and(|found| found.sequence() > sequence) {
            // Readers take the first version from the top that they can see: a newer one would be hidden for ever.
            return Err(RowError { kind: RowErrorKind::Defect("a row's version is older than the one before it") });
        }
        // A delta saves the disk read of a row that is not in memory. A row that is read anyway for its before-image
        // check gains nothing from it, and a store without a tree always has the whole row.
        let later = !self.bottom && !reads(check, hash) && stands_as_delta(shape, &change, check);
        let old = match &found {
            Some(found) => old_here(&entry.rows, found, target, &change, later, layers, &mut self.old)?,
            None if self.bottom => Some(RowState::Deleted),
            None => old_below(target, &change, later, context, &mut self.old)?,
        };
        // Only changes that may be stored as a delta are `later`.
        let is_delta = later && matches!(old, None | Some(RowState::Delta(_)));
        let state = match is_delta {
            true => Some(RowState::Delta(new_delta(shape, &change, old, check, &mut self.scratch)?)),
            false => new_state(target, &change, old, check, &mut self.scratch)?,
        };
        let Some(state) = state else { return Ok(()) };
        let keys_below = match shape.order.indexes() {
            // Deltas never change an indexed column.
            Some(indexes) if !self.bottom && !is_delta => {
                let held = found.as_ref().map(|found| entry.keys_below.get(found.slot));
                let keyless = shape.order.is_keyless();
                keys_below_of(indexes, keyless, held, old, &change, state.row(), &mut self.below_keys)?
            }
            _ => KeysBelow::Same,
        };
        entry.balance += balance_of(&change, old);
        entry.keyless |= matches!(change, RowChange::AddOne { .. } | RowChange::RemoveOne { .. });
        entry.has_deltas |= is_delta;
        entry.hides |= !matches!(state, RowState::Row(_));
        let expected = if self.bottom { Expected::Unknown } else { Expected::of(&change, check) };
        let version = Version { sequence, state, expected, definition: shape.definition };
        let slot = entry.rows.append(found, hash, key, version, oldest_needed, self.bottom);
        if keys_below != KeysBelow::Same {
            entry.keys_below.set(slot, keys_below);
        }
        Ok(())
    }

    /// Prefetches what [`Lane::apply`] will read for these rows (the first [`WARM_ROWS`] of them) into the cache, from
    /// this generation or the newest sealed one; changes nothing. The cache misses overlap here, whereas in `apply`
    /// each would wait for the previous one.
    #[inline]
    pub fn warm(&self, lane: usize, layers: &Layers, rows: impl Iterator<Item = (TableId, u64)>) {
        let mut asked = [(TableId(0), 0); WARM_ROWS];
        let mut count = 0;
        for (place, row) in asked.iter_mut().zip(rows) {
            *place = row;
            count += 1;
        }
        let asked = &asked[..count];
        let mut found = [RecordRef::NONE; WARM_ROWS];
        self.warm_rows(asked, &mut found);
        if let Some(sealed) = layers.newest_sealed() {
            sealed.lane(lane).warm_rows(asked, &mut found);
        }
    }

    /// Two passes over the rows not found yet: first their slots, then their newest records.
    #[inline]
    fn warm_rows(&self, rows: &[(TableId, u64)], found: &mut [RecordRef; WARM_ROWS]) {
        let rows_of = |table: TableId| self.tables.get(table.0 as usize).and_then(|entry| Some(&entry.as_ref()?.rows));
        let mut here = [RecordRef::NONE; WARM_ROWS];
        for (((table, hash), at), _) in rows.iter().zip(&mut here).zip(found.iter()).filter(|(_, at)| at.is_none()) {
            *at = rows_of(*table).map_or(RecordRef::NONE, |rows| rows.warm_slot(*hash));
        }
        let mut sum = 0;
        for (((table, _), at), found) in rows.iter().zip(here).zip(found).filter(|((_, at), _)| !at.is_none()) {
            sum ^= rows_of(*table).map_or(0, |rows| rows.warm_record(at));
            *found = at;
        }
        // Keeps the compiler from removing the reads.
        std::hint::black_box(sum);
    }

    /// Reads a row's newest image, visible or not, from this generation or the layers below, for the single writer that
    /// moves a row between lanes. False if there is no such row.
    ///
    /// # Errors
    /// When the store cannot be read.
    pub fn newest(&self, target: &RowTarget<'_>, layers: &Layers, image: &mut Vec<u8>) -> Result<bool, RowError> {
        let RowTarget { lane, shape, hash, key } = *target;
        let mut above = Deltas::default();
        match self.newest_version(shape.id, hash, key) {
            Some(RowVersion { state: RowState::Row(found), definition, .. }) => {
                image.clear();
                append_read(shape, definition, found, image).map_err(damaged)?;
                return Ok(true);
            }
            Some(RowVersion { state: RowState::Delta(delta), definition, .. }) => {
                above.push(delta, definition, shape.versions).map_err(store_error)?;
            }
            Some(RowVersion { state: RowState::Deleted, .. }) => return Ok(false),
            None if self.bottom => return Ok(false),
            None => {}
        }
        let below = layers.newest_below(shape, lane, hash, key, Depth::Disk, &mut above, image);
        Ok(below.map_err(store_error)? == Some(Existence::Present))
    }

    /// Makes whole rows of all deltas of a table's rows in this lane, in every generation, before the statement
    /// `sequence` alters the table, which `shape` has as it was. Everything before that statement was applied here.
    ///
    /// The whole rows are versions of the statement's own number, so nobody sees them yet. A reader who sees them would
    /// pass over a row: it read the delta above the row's layer, where a delta has no place, and would find the row
    /// shadowed by a whole one when it comes to that layer.
    ///
    /// # Errors
    /// As `apply`.
    pub fn complete_deltas(
        &mut self,
        lane: usize,
        shape: &TableShape<'_>,
        sequence: u64,
        oldest_needed: u64,
        layers: &Layers,
    ) -> Result<(), RowError> {
        if self.bottom {
            return Ok(());
        }
        let mut rows: Vec<(u64, Vec<u8>)> = Vec::new();
        self.each_delta(shape.id, |hash, key| rows.push((hash, key.to_vec())));
        for layer in &layers.below {
            // Spills and the tree hold whole rows only.
            let Layer::Memory(generation) = layer else { continue };
            generation.lane(lane).each_delta(shape.id, |hash, key| rows.push((hash, key.to_vec())));
        }
        rows.sort_unstable();
        rows.dedup();
        let mut image = Vec::new();
        for (hash, key) in rows {
            if self.newest_version(shape.id, hash, &key).is_some_and(|newest| newest.state.hides_older()) {
                continue;
            }
            let there = self.newest(&RowTarget { lane, shape, hash, key: &key }, layers, &mut image)?;
            if !there && !shape.order.is_keyless() {
                // A generation in between holds the row's deletion.
                continue;
            }
            let index = shape.id.0 as usize;
            if self.tables.len() <= index {
                self.tables.resize_with(index + 1, || None);
            }
            let entry = self.tables[index].get_or_insert_with(Box::default);
            entry.keyless = shape.order.is_keyless();
            entry.hides |= !there;
            let found = entry.rows.find(hash, &key);
            // A keyless row may have lost exactly as many copies as there were.
            let state = if there { RowState::Row(image.as_slice()) } else { RowState::Deleted };
            let (expected, definition) = (Expected::Unknown, shape.definition);
            let version = Version { sequence, state, expected, definition };
            entry.rows.append(found, hash, &key, version, oldest_needed, false);
        }
        self.tidy(std::iter::once(shape.id), oldest_needed);
        Ok(())
    }

    fn each_delta(&self, table: TableId, each: impl FnMut(u64, &[u8])) {
        let entry = self.tables.get(table.0 as usize).and_then(Option::as_ref);
        if let Some(entry) = entry.filter(|entry| entry.has_deltas) {
            entry.rows.each_delta(each);
        }
    }

    /// Newest version of a row in this generation.
    pub(crate) fn newest_version(&self, table: TableId, hash: u64, key: &[u8]) -> Option<RowVersion<'_>> {
        let entry = self.tables.get(table.0 as usize)?.as_ref()?;
        let found = entry.rows.find(hash, key)?;
        Some(entry.rows.version(&found))
    }

    /// Bytes taken from the allocator, as of the last `tidy`.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes as u64
    }

    pub(crate) fn table_ids(&self) -> impl Iterator<Item = TableId> {
        let held = self.tables.iter().enumerate().filter(|(_, entry)| entry.is_some());
        held.map(|(index, _)| TableId(crate::short(index)))
    }

    pub(crate) fn is_keyless(&self, table: TableId) -> bool {
        self.tables.get(table.0 as usize).and_then(Option::as_ref).is_some_and(|entry| entry.keyless)
    }

    /// Whether a version here may hide a row of a layer below, or change it, without being a whole row itself.
    pub(crate) fn hides(&self, table: TableId) -> bool {
        self.tables.get(table.0 as usize).and_then(Option::as_ref).is_some_and(|entry| entry.hides)
    }

    /// Rows added to a table here, minus rows removed.
    pub(crate) fn balance(&self, table: TableId) -> i64 {
        self.tables.get(table.0 as usize).and_then(Option::as_ref).map_or(0, |entry| entry.balance)
    }

    /// Calls `each` with place and key of every row of a table that has a version at or below `sequence`.
    pub(crate) fn each_key(&self, table: TableId, sequence: u64, each: impl FnMut(u64, &[u8])) {
        let Some(Some(entry)) = self.tables.get(table.0 as usize) else { return };
        entry.rows.each_newest(sequence, each);
    }

    /// Reads a place that `each_key` returned, to bring it into the cache: see `LaneTable::touch`.
    pub(crate) fn touch(&self, table: TableId, place: u64) -> u8 {
        let entry = self.tables.get(table.0 as usize).and_then(Option::as_ref);
        entry.map_or(0, |entry| entry.rows.touch(place))
    }

    /// The version at a place that `each_key` returned; None only for a table that the lane does not hold.
    pub(crate) fn version_at(&self, table: TableId, place: u64) -> Option<RowVersion<'_>> {
        Some(self.tables.get(table.0 as usize)?.as_ref()?.rows.at(place))
    }

    /// State of the row below one at a place that `each_key` returned, for secondary indexes.
    pub(crate) fn keys_below_at(&self, table: TableId, place: u64) -> KeysBelow<'_> {
        let entry = self.tables.get(table.0 as usize).and_then(Option::as_ref);
        entry.map_or(KeysBelow::Same, |entry| entry.keys_below.get(entry.rows.slot_at(place)))
    }

    /// As `LaneTable::written_since`, but for a table without a key it passes images instead of copy counts and their
    /// differences.
    pub(crate) fn written_since(
        &self,
        table: TableId,
        cursor: &mut Cursor,
        limits: (usize, usize),
        mut each: impl FnMut(Written<'_>),
    ) -> bool {
        let Some(Some(entry)) = self.tables.get(table.0 as usize) else { return false };
        entry.rows.written_since(cursor, limits, entry.keyless, |written| {
            if entry.keyless {
                // A table without a key stores its image once, as the key.
                let key = written.key;
                each(Written { image: key, before: written.before.map(|_| key), ..written });
            } else {
                each(written);
            }
        })
    }

    /// A slot's row at `sequence`; None if this generation has no version of it.
    pub(crate) fn visible(&self, table: TableId, slot: u32, sequence: u64) -> Option<RowVersion<'_>> {
        self.tables.get(table.0 as usize)?.as_ref()?.rows.visible(slot, sequence)
    }

    /// Number of rows of a table in this generation, deleted ones included.
    pub(crate) fn slot_count(&self, table: TableId) -> usize {
        self.tables.get(table.0 as usize).and_then(Option::as_ref).map_or(0, |entry| entry.rows.slot_count())
    }

    /// Drops a table with transaction `sequence`; its rows stay for readers that can still see them.
    pub fn drop_table(&mut self, table: TableId, sequence: u64) {
        self.dying.push((sequence, table));
    }

    /// Frees versions that no reader can see any more, for `tables` that just changed. The work is bounded.
    pub fn tidy(&mut self, tables: impl Iterator<Item = TableId>, oldest_needed: u64) {
        for table in tables {
            if let Some(Some(entry)) = self.tables.get_mut(table.0 as usize) {
                entry.rows.tidy(oldest_needed);
                let now = entry.rows.bytes().0 + entry.keys_below.bytes();
                self.bytes = self.bytes + now - entry.counted;
                entry.counted = now;
            }
        }
        if !self.dying.is_empty() {
            let (tables, bytes) = (&mut self.tables, &mut self.bytes);
            self.dying.retain(|(sequence, table)| {
                let keep = *sequence > oldest_needed;
                if !keep && let Some(slot) = tables.get_mut(table.0 as usize) {
                    *bytes -= slot.take().map_or(0, |entry| entry.counted);
                }
                keep
            });
        }
    }

    /// A row at `sequence`; None if this generation has no version of it.
    pub(crate) fn get(&self, table: TableId, hash: u64, key: &[u8], sequence: u64) -> Option<RowVersion<'_>> {
        self.tables.get(table.0 as usize)?.as_ref()?.rows.get(hash, key, sequence)
    }

    pub(crate) fn copy_slots(
        &self,
        table: TableId,
        sequence: u64,
        from: u32,
        count: u32,
        out: &mut ScanBuffer,
    ) -> Option<u32> {
        let entry = self.tables.get(table.0 as usize)?.as_ref()?;
        entry.rows.slots(sequence, from, count, |hash, RowVersion { key, state, definition, .. }| match state {
            RowState::Row(image) if entry.keyless => out.push(hash, key, &[], multiplicity(image), definition),
            RowState::Row(image) => out.push(hash, key, image, 1, definition),
            RowState::Delta(delta) if entry.keyless => {
                out.push_difference(hash, key, delta::difference(delta), definition);
            }
            // The scan of a layer below returns its row.
            RowState::Delta(_) | RowState::Deleted => {}
        })
    }

    /// Bytes taken from the allocator, and how many of them are dead.
    pub(crate) fn memory(&self) -> (u64, u64) {
        let tables = self.tables.iter().flatten().map(|entry| (entry.keys_below.bytes(), entry.rows.bytes()));
        tables.fold((0, 0), |sum, (keys, (bytes, dead))| (sum.0 + (keys + bytes) as u64, sum.1 + dead as u64))
    }
}

/// State of a row that this generation holds, as far as the change needs it. `later`: the change may be stored as a
/// delta.
#[inline]
fn old_here<'a>(
    rows: &'a LaneTable,
    found: &'a Found,
    target: &RowTarget<'_>,
    change: &RowChange<'_>,
    later: bool,
    layers: &Layers,
    buffers: &'a mut OldBuffers,
) -> Result<Old<'a>, RowError> {
    let RowTarget { lane, shape, hash, key } = *target;
    if found.is_deleted() {
        return Ok(Some(RowState::Deleted));
    }
    let image = rows.image(found);
    if found.is_delta() {
        // The delta in this generation can stay: the new version extends or replaces it without the row.
        if later || !needs_row(shape, change) {
            return Ok(Some(RowState::Delta(image)));
        }
        // The change needs the whole row, so this delta is put over what the layers below hold.
        let OldBuffers { below, above, .. } = buffers;
        above.clear();
        above.push(image, found.definition(), shape.versions).map_err(store_error)?;
        let looked = layers.newest_below(shape, lane, hash, key, Depth::Disk, above, below).map_err(store_error)?;
        return Ok(Some(match looked {
            Some(Existence::Present) => RowState::Row(below.as_slice()),
            Some(Existence::Absent) | None => RowState::Deleted,
        }));
    }
    if shape.versions.is_current(found.definition()) {
        return Ok(Some(RowState::Row(image)));
    }
    let read = shape.versions.read(found.definition(), image, &mut buffers.converted);
    Ok(Some(RowState::Row(read.map_err(damaged)?)))
}

/// State of a row that this generation does not hold, as far as the change needs it; None: not looked up.
#[inline]
fn old_below<'a>(
    target: &RowTarget<'_>,
    change: &RowChange<'_>,
    later: bool,
    context: &WriteContext<'_>,
    buffers: &'a mut OldBuffers,
) -> Result<Old<'a>, RowError> {
    let (RowTarget { lane, shape, hash, key }, check) = (*target, context.check);
    let depth = match depth_of(shape, change, reads(check, hash), check) {
        // Still worth a look in memory: a whole row there is merged at once, without a delta.
        Some(Depth::Disk) if later => Depth::Memory,
        Some(depth) => depth,
        None => return Ok(None),
    };
    let OldBuffers { below, above, .. } = buffers;
    above.clear();
    let looked = context.layers.newest_below(shape, lane, hash, key, depth, above, below).map_err(store_error)?;
    Ok(looked.map(|existence| match existence {
        Existence::Present => RowState::Row(below.as_slice()),
        Existence::Absent => RowState::Deleted,
    }))
}

/// The delta that a change leaves, with that of the same generation before it: readers take only the newest version of
/// a row from each generation.
#[inline]
fn new_delta<'a>(
    shape: &TableShape<'_>,
    change: &RowChange<'_>,
    old: Old<'_>,
    check: CheckImages,
    scratch: &'a mut Vec<u8>,
) -> Result<&'a [u8], RowError> {
    scratch.clear();
    let older = match old {
        Some(RowState::Delta(older)) => Some(older),
        _ => None,
    };
    match (change, older) {
        (RowChange::Merge { present, image, .. }, Some(older)) => {
            delta::append_both(shape.layout, older, present, image, scratch).map_err(damaged)?;
        }
        (RowChange::Merge { present, image, .. }, None) => delta::append(present, image, scratch),
        (change, older) => {
            let one = match change {
                RowChange::AddOne { .. } => Copies { sum: 1, lowest: 0 },
                _ => Copies { sum: -1, lowest: if check.refuses() { -1 } else { 0 } },
            };
            older.map_or_else(Copies::default, Copies::of).then(one).append(scratch);
        }
    }
    Ok(scratch.as_slice())
}

/// The state that a change leaves, other than a delta; None if there is nothing to write.
#[inline]
fn new_state<'a>(
    target: &RowTarget<'_>,
    change: &RowChange<'a>,
    old: Old<'_>,
    check: CheckImages,
    scratch: &'a mut Vec<u8>,
) -> Result<Option<RowState<&'a [u8]>>, RowError> {
    let (shape, compare) = (target.shape, compares(check, target.hash));
    let fail = |kind| Err(RowError { kind });
    Ok(Some(match *change {
        RowChange::Insert { .. } if matches!(old, Some(RowState::Row(_))) && check.refuses() => {
            return fail(RowErrorKind::Duplicate);
        }
        RowChange::Insert { image } => RowState::Row(image),
        RowChange::Update { before, image } => {
            check_old(shape, old, before, compare, check)?;
            RowState::Row(image)
        }
        RowChange::Merge { before, present, image, .. } => {
            // Under `NotYetConsistent` a missing row is no error; the variant's documentation says why.
            let Some(RowState::Row(stored)) = old else {
                return if check == CheckImages::NotYetConsistent { Ok(None) } else { fail(RowErrorKind::NotFound) };
            };
            check_old(shape, old, before, compare, check)?;
            scratch.clear();
            shape.layout.merge(stored, present, image, scratch).map_err(damaged)?;
            RowState::Row(scratch.as_slice())
        }
        RowChange::MergeJson { before, present, partial, image } => {
            let Some(RowState::Row(stored)) = old else { return fail(RowErrorKind::NotFound) };
            check_old(shape, old, before, compare, check)?;
            scratch.clear();
            merge_json(shape, stored, present, partial, image, scratch)?;
            RowState::Row(scratch.as_slice())
        }
        RowChange::Delete { before } => {
            check_old(shape, old, before, compare, check)?;
            // Without a row there is nothing to hide, so no tombstone is written. An unknown row gets one.
            if matches!(old, Some(RowState::Deleted)) {
                return Ok(None);
            }
            RowState::Deleted
        }
        RowChange::AddOne { .. } | RowChange::RemoveOne { .. } => {
            let copies = match old {
                Some(RowState::Row(bytes)) => multiplicity(bytes),
                _ => 0,
            };
            let now = match change {
                RowChange::AddOne { .. } => copies + 1,
                // With no copy to remove, counting down is an error under every check mode.
                _ if copies == 0 => return fail(RowErrorKind::NotFound),
                _ => copies - 1,
            };
            scratch.clear();
            scratch.extend_from_slice(&now.to_le_bytes());
            if now > 0 { RowState::Row(scratch.as_slice()) } else { RowState::Deleted }
        }
    }))
}

/// What a change adds to the number of rows. An INSERT over an existing row, or an UPDATE of a missing one, passes only
/// without a check or under `NotYetConsistent`. It counts by its effect, not by its name.
#[inline]
fn balance_of(change: &RowChange<'_>, old: Old<'_>) -> i64 {
    match change {
        RowChange::Insert { .. } if !matches!(old, Some(RowState::Row(_))) => 1,
        RowChange::Update { .. } if matches!(old, Some(RowState::Deleted)) => 1,
        RowChange::Delete { .. } | RowChange::RemoveOne { .. } => -1,
        RowChange::AddOne { .. } => 1,
        _ => 0,
    }
}

fn damaged(_: ValueError) -> RowError {
    RowError { kind: RowErrorKind::Damaged }
}

/// True if this row's before image is compared where the row is in memory. Sampled by the key's hash, which needs no
/// counter: the same rows are sampled every time.
#[inline]
fn compares(check: CheckImages, hash: u64) -> bool {
    match check {
        CheckImages::Off | CheckImages::NotYetConsistent => false,
        CheckImages::Sample => hash & 0xf == 0,
        CheckImages::All => true,
    }
}

fn store_error(error: StoreError) -> RowError {
    match error {
        StoreError::RowMissing { .. } => RowError { kind: RowErrorKind::NotFound },
        StoreError::Defect { what } => RowError { kind: RowErrorKind::Defect(what) },
        error => RowError { kind: RowErrorKind::Store(error) },
    }
}

/// True if this row is sampled for a before-image check that needs a disk read.
#[inline]
fn reads(check: CheckImages, hash: u64) -> bool {
    match check {
        CheckImages::Off | CheckImages::NotYetConsistent => false,
        CheckImages::Sample => hash & 0x3ff == 0,
        CheckImages::All => true,
    }
}

/// True if the change may be stored as a delta, in place of its row.
#[inline]
fn stands_as_delta(shape: &TableShape<'_>, change: &RowChange<'_>, check: CheckImages) -> bool {
    let unwatched = match change {
        RowChange::Merge { present, later: true, .. } => {
            shape.order.indexes().is_none_or(|indexes| !indexes.may_change(present))
        }
        // Cuts must know the rows that appear and disappear, to maintain index entries.
        RowChange::AddOne { later: true } | RowChange::RemoveOne { later: true } => shape.order.indexes().is_none(),
        _ => false,
    };
    unwatched && check != CheckImages::NotYetConsistent
}

/// True if the change cannot be applied without the old row.
#[inline]
fn needs_row(shape: &TableShape<'_>, change: &RowChange<'_>) -> bool {
    match change {
        RowChange::Merge { .. } | RowChange::MergeJson { .. } => true,
        RowChange::AddOne { .. } | RowChange::RemoveOne { .. } => true,
        // A delta implies a row, so the INSERT is a duplicate unless a look-up shows otherwise.
        RowChange::Insert { .. } => true,
        // The log lacks the values that identify the index entries to remove.
        RowChange::Update { before, .. } | RowChange::Delete { before } => {
            shape.order.indexes().is_some() && !matches!(before, BeforeImage::Full(_))
        }
    }
}

/// How far below the active generation to look for the row of a change; None for not at all.
fn depth_of(shape: &TableShape<'_>, change: &RowChange<'_>, reads: bool, check: CheckImages) -> Option<Depth> {
    match change {
        RowChange::Insert { .. } => {}
        change if needs_row(shape, change) => return Some(Depth::Disk),
        _ => {}
    }
    if reads || check == CheckImages::NotYetConsistent {
        return Some(Depth::Disk);
    }
    // A look in memory is cheap (invariant 20).
    (check != CheckImages::Off).then_some(Depth::Memory)
}

/// What to remember about the row in the layers below. `held` is what is already remembered if this generation has the
/// row. `Same` leaves that unchanged.
fn keys_below_of<'a>(
    indexes: &IndexSet,
    keyless: bool,
    held: Option<KeysBelow<'_>>,
    old: Old<'_>,
    change: &RowChange<'_>,
    image: Option<&[u8]>,
    keys: &'a mut Vec<u8>,
) -> Result<KeysBelow<'a>, RowError> {
    if held.is_some_and(|known| known != KeysBelow::Same) {
        return Ok(KeysBelow::Same);
    }
    if keyless {
        // The image is the identity, so the row below is equal or absent.
        return Ok(if held.is_none() && matches!(old, Some(RowState::Deleted)) {
            KeysBelow::Absent
        } else {
            KeysBelow::Same
        });
    }
    let was = match (old, change) {
        (Some(RowState::Row(stored)), _) => stored,
        // Deleted here while the table had no index: no cut asks for it.
        (Some(RowState::Deleted), _) if held.is_some() => return Ok(KeysBelow::Same),
        (None | Some(RowState::Delta(_)), RowChange::Update { before, .. } | RowChange::Delete { before }) => {
            match before {
                BeforeImage::Full(before) => before,
                // Such a row is always looked up, see `needs_row`.
                BeforeImage::None | BeforeImage::Partial { .. } => return Ok(KeysBelow::Absent),
            }
        }
        _ => return Ok(KeysBelow::Absent),
    };
    if let Some(image) = image
        && indexes.is_same(was, image).map_err(damaged)?
    {
        return Ok(KeysBelow::Same);
    }
    keys.clear();
    indexes.append_all(was, keys).map_err(damaged)?;
    Ok(KeysBelow::Keys(keys))
}
