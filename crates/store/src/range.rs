//! Rows in the order of the identifying key or of a secondary index, from either end.
//!
//! In: a snapshot (or the single writer's read of the newest versions), a prepared table, an order, bounds. Out: the
//! rows in that order, each once. Never here: a row above the snapshot's watermark; a lock held while the caller works;
//! rows fetched ahead of need (they are fetched one at a time).
//!
//! Every layer yields entries in key order: a generation from its slices (`order`), a tree from its own entries. They
//! are merged by key. An entry counts if that layer has a visible version of the row under exactly this key, and no
//! newer layer has any visible version of the row.

use std::cmp::Ordering;
use std::sync::Arc;

use crate::delta;
use crate::error::StoreError;
use crate::key_codec;
use crate::layers::{Generation, Layer, Layers, TreeAt, is_shadowed};
use crate::point::RowBuf;
use crate::reader::{KeyRange, ReadOrder, TableReader};
use crate::row_state::{RowState, copies_in};
use crate::snapshot::LentLayers;
use crate::sorted_slices::{Slice, append_key};
use crate::tree_range::{End, TreeRange};
use crate::{PinnedLayers, Snapshot, Store};

/// An owned copy of a row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnedRow {
    /// Stored key bytes; the whole image for a table without a key.
    pub key: Vec<u8>,
    pub image: Vec<u8>,
    /// Number of equal rows: 1 with a key, 1 or more without.
    pub count: u64,
}

/// What the range reads.
#[derive(Clone, Copy)]
enum View<'a> {
    /// A reader's snapshot, which may be given up at any time.
    Snapshot(&'a Snapshot),
    /// The newest versions, for the single writer at a barrier.
    Newest(&'a Layers),
    /// The versions up to a sequence number, for the sequencing thread.
    Applied(&'a Layers, u64),
}

/// The layers being read, for one step.
enum Lent<'a> {
    Shared(LentLayers),
    Lent(&'a Layers),
}

impl std::ops::Deref for Lent<'_> {
    type Target = Layers;
    fn deref(&self) -> &Layers {
        match self {
            Lent::Shared(layers) => layers,
            Lent::Lent(layers) => layers,
        }
    }
}

impl<'a> View<'a> {
    fn layers(&self) -> Result<Lent<'a>, StoreError> {
        match self {
            View::Snapshot(snapshot) => snapshot.lent_layers().map(Lent::Shared),
            View::Newest(layers) | View::Applied(layers, _) => Ok(Lent::Lent(layers)),
        }
    }

    /// Whether what was read is valid.
    fn check(&self) -> Result<(), StoreError> {
        match self {
            View::Snapshot(snapshot) => snapshot.check(),
            View::Newest(_) | View::Applied(..) => Ok(()),
        }
    }

    fn sequence(&self) -> u64 {
        match self {
            View::Snapshot(snapshot) => snapshot.sequence(),
            View::Newest(_) => u64::MAX,
            View::Applied(_, sequence) => *sequence,
        }
    }

    fn damaged(&self, text: &str) -> StoreError {
        match self {
            View::Snapshot(snapshot) => snapshot.damaged(text),
            View::Newest(layers) | View::Applied(layers, _) => layers.damaged(text),
        }
    }
}

/// An open range: a cursor that copies one row at a time into a buffer ([`Range::next_into`]), or an iterator of owned
/// rows.
pub struct Range<'a> {
    view: View<'a>,
    table: TableReader,
    index: u16,
    lanes: usize,
    sources: Vec<Source>,
    /// True if a row of the tree stands as it is unless one of the slices has its key: no layer in memory hides or
    /// changes rows otherwise, of what is visible here. For the identifying key of a snapshot only.
    tree_stands: bool,
    /// The sources that have entries left, in the order of their keys at the end being read; of equal keys the newer
    /// layer first.
    order: Vec<usize>,
    /// The end that `order` is for; None: it must be made again.
    ordered: Option<End>,
    /// The current key at the end being read, without table and index ids.
    key: Vec<u8>,
    /// Buffer of the iterators.
    row: RowBuf,
}

/// Entries of one layer; 0 is the active generation, then downwards.
struct Source {
    layer: usize,
    places: Places,
}

enum Places {
    Slice { slice: Arc<Slice>, front: usize, back: usize },
    Tree(Box<TreeRange>),
}

/// What may be the next row.
enum Candidate<'a> {
    /// With the length of the row's own key at the end of the entry's key, if that alone makes the key; else 0.
    Slot {
        lane: usize,
        slot: u32,
        own_len: usize,
    },
    Entry {
        key: &'a [u8],
        value: &'a [u8],
    },
}

impl Snapshot {
    /// Opens a range over a table's rows between two bounds, in this order: see [`Store::range`].
    ///
    /// # Errors
    /// As [`Store::range`].
    pub fn range<'a>(
        &'a self,
        table: &TableReader,
        order: ReadOrder,
        range: &KeyRange,
    ) -> Result<Range<'a>, StoreError> {
        self.store().range(self, table, order, range)
    }

    /// Whether rows can be read in this order: see [`Store::is_ready`].
    ///
    /// # Errors
    /// The snapshot was given up.
    pub fn is_ready(&self, table: &TableReader, order: ReadOrder) -> Result<bool, StoreError> {
        self.store().is_ready(self, table, order)
    }

    /// Splits a table's rows, in the order of its identifying key, into ranges of about `bytes_each` bytes on disk, for
    /// readers side by side. They begin where files of the tree begin; together they hold every row once.
    ///
    /// # Errors
    /// The snapshot was given up.
    pub fn split(&self, table: &TableReader, bytes_each: u64) -> Result<Vec<KeyRange>, StoreError> {
        let layers = self.layers()?;
        let (first, end) = key_codec::table_bounds(table.id());
        let mut starts: Vec<(&[u8], u64)> = Vec::new();
        if let Some(base) = &layers.base {
            let bounds = base.view.file_bounds();
            let inside = bounds.filter(|(from, to, _)| *to >= first.as_slice() && *from < end.as_slice());
            starts.extend(inside.map(|(from, _, bytes)| (from, bytes)));
        }
        starts.sort_unstable();
        let mut ranges = vec![KeyRange::all()];
        let mut bytes = 0;
        for (start, file_bytes) in starts {
            // A file that begins with another table's rows begins no range.
            let key = start.strip_prefix(first.as_slice()).filter(|key| !key.is_empty());
            if let Some(key) = key.filter(|_| bytes >= bytes_each)
                && let Some(last) = ranges.last_mut()
                && last.from.as_slice() < key
            {
                last.to = Some(key.to_vec());
                ranges.push(KeyRange { from: key.to_vec(), to: None, is_empty: false });
                bytes = 0;
            }
            bytes += file_bytes;
        }
        Ok(ranges)
    }
}

impl Store {
    /// Opens a range over a table's rows between two bounds, in this order; iterates from both ends. Opening sorts the
    /// table's rows in memory that no earlier range has sorted; every step costs one entry per layer and one row.
    ///
    /// # Errors
    /// The index is being filled ([`StoreError::IndexNotReady`]); the snapshot was given up
    /// ([`StoreError::SnapshotTooOld`], also at any step); the tree cannot be read.
    pub fn range<'a>(
        &self,
        snapshot: &'a Snapshot,
        table: &TableReader,
        order: ReadOrder,
        range: &KeyRange,
    ) -> Result<Range<'a>, StoreError> {
        self.range_at(View::Snapshot(snapshot), table, order, range)
    }

    /// As [`Store::range`], over the newest versions, visible or not: for the single writer at a barrier, while nothing
    /// else is applied. Rows it writes while the range is open may or may not appear.
    ///
    /// # Errors
    /// As [`Store::range`].
    pub fn range_newest<'a>(
        &self,
        layers: &'a Layers,
        table: &TableReader,
        order: ReadOrder,
        range: &KeyRange,
    ) -> Result<Range<'a>, StoreError> {
        self.range_at(View::Newest(layers), table, order, range)
    }

    /// As [`Store::range`], over everything applied up to a sequence number, visible or not: for the sequencing thread,
    /// once everything up to that number is applied and before anything above it is.
    ///
    /// # Errors
    /// As [`Store::range`].
    pub fn range_applied<'a>(
        &self,
        layers: &'a PinnedLayers,
        sequence: u64,
        table: &TableReader,
        order: ReadOrder,
        range: &KeyRange,
    ) -> Result<Range<'a>, StoreError> {
        self.range_at(View::Applied(layers, sequence), table, order, range)
    }

    fn range_at<'a>(
        &self,
        view: View<'a>,
        table: &TableReader,
        order: ReadOrder,
        range: &KeyRange,
    ) -> Result<Range<'a>, StoreError> {
        let index = order.index();
        let (layers, sequence) = (view.layers()?, view.sequence());
        if !is_ready(&layers, table, order) {
            return Err(StoreError::IndexNotReady { table: table.id().0, index });
        }
        let mut sources = Vec::with_capacity(layers.below.len() + 4);
        // A single writer's rows may come while the range is open.
        let mut tree_stands =
            matches!(view, View::Snapshot(_)) && order == ReadOrder::Identity && !table.order().is_keyless();
        tree_stands &= !memory_sources(&layers.active, 0, table, index, range, &mut sources)?;
        let prefix = key_codec::index_prefix(table.id(), index);
        let first = [prefix.as_slice(), &range.from].concat();
        let last = match &range.to {
            Some(to) => [prefix.as_slice(), to].concat(),
            None => key_codec::index_end(table.id(), index).to_vec(),
        };
        let mut tree = |tree: &TreeAt, layer: usize| {
            if first < last && !range.is_empty {
                sources.push(Source { layer, places: Places::Tree(Box::new(tree.forward(&first, &last))) });
            }
        };
        for (below, layer) in layers.below.iter().enumerate() {
            match layer {
                Layer::Spill(spill) if spill.sequence <= sequence => {
                    tree(&spill.tree, below + 1);
                    tree_stands = false;
                }
                Layer::Spill(_) | Layer::Memory(_) => {}
            }
        }
        if let Some(base) = &layers.base {
            tree(base, layers.below.len() + 1);
        }
        for (below, layer) in layers.below.iter().enumerate() {
            if let Layer::Memory(generation) = layer {
                tree_stands &= !memory_sources(generation, below + 1, table, index, range, &mut sources)?;
            }
        }
        // Of entries with one key, that of the newest layer comes first.
        sources.sort_by_key(|source| source.layer);
        let (lanes, table) = (self.lane_count(), table.clone());
        let (order, key, row) = (Vec::with_capacity(sources.len()), Vec::new(), RowBuf::default());
        Ok(Range { view, table, index, lanes, sources, tree_stands, order, ordered: None, key, row })
    }

    /// Whether rows can be read in this order at this snapshot. False for an index that a later DDL statement added
    /// while it is being filled, and for an index that is not kept.
    ///
    /// # Errors
    /// The snapshot was given up.
    pub fn is_ready(&self, snapshot: &Snapshot, table: &TableReader, order: ReadOrder) -> Result<bool, StoreError> {
        Ok(is_ready(&*snapshot.layers()?, table, order))
    }
}

fn is_ready(layers: &Layers, table: &TableReader, order: ReadOrder) -> bool {
    let ReadOrder::Index(index) = order else { return true };
    table.order().indexes().is_some_and(|set| set.index(index).is_some())
        && (layers.base.is_none() || layers.indexes.is_complete(table.id().0, index))
        && layers.below.iter().all(|layer| match layer {
            Layer::Spill(spill) => spill.has_index(table.id(), index),
            Layer::Memory(_) => true,
        })
}

fn memory_sources(
    generation: &Generation,
    layer: usize,
    table: &TableReader,
    index: u16,
    range: &KeyRange,
    sources: &mut Vec<Source>,
) -> Result<bool, StoreError> {
    generation.slices(table, index, |slice| {
        let front = slice.below(&range.from);
        let back = range.to.as_ref().map_or(slice.len(), |to| slice.below(to));
        if front < back && !range.is_empty {
            sources.push(Source { layer, places: Places::Slice { slice: Arc::clone(slice), front, back } });
        }
    })
}

impl Source {
    /// Reads the entry at one end; false if there is none left.
    fn read(&mut self, end: End) -> Result<bool, StoreError> {
        match &mut self.places {
            Places::Slice { front, back, .. } => Ok(*front < *back),
            Places::Tree(entries) => entries.read(end),
        }
    }

    /// The key of the entry that was read.
    fn key(&self, end: End) -> Option<&[u8]> {
        match &self.places {
            Places::Slice { slice, front, back } => {
                slice.key(if end == End::Front { *front } else { back.checked_sub(1)? })
            }
            Places::Tree(entries) => entries.entry(end).and_then(|(key, _)| key.get(key_codec::PREFIX_LEN..)),
        }
    }

    /// The entry that was read.
    fn candidate(&self, end: End) -> Option<Candidate<'_>> {
        match &self.places {
            Places::Slice { slice, front, back } => {
                let (lane, slot, own_len) = slice.place(if end == End::Front { *front } else { back.checked_sub(1)? });
                Some(Candidate::Slot { lane, slot, own_len })
            }
            Places::Tree(entries) => entries.entry(end).map(|(key, value)| Candidate::Entry { key, value }),
        }
    }

    /// Takes the entry that was read.
    fn advance(&mut self, end: End) {
        match &mut self.places {
            Places::Slice { front, .. } if end == End::Front => *front += 1,
            Places::Slice { back, .. } => *back = back.saturating_sub(1),
            Places::Tree(entries) => entries.take(end),
        }
    }
}

/// Key of the entry that a source has at an end; empty if it has none.
fn key_of(sources: &[Source], end: End, place: usize) -> &[u8] {
    sources.get(place).and_then(|source| source.key(end)).unwrap_or_default()
}

/// Order of two sources in which their entries are taken from an end.
fn compare(sources: &[Source], end: End, one: usize, other: usize) -> Ordering {
    let keys = key_of(sources, end, one).cmp(key_of(sources, end, other));
    let keys = if end == End::Front { keys } else { keys.reverse() };
    keys.then(one.cmp(&other))
}

impl Range<'_> {
    /// Copies the next row into `row`; false after the last one.
    ///
    /// # Errors
    /// The snapshot was given up; the tree cannot be read.
    pub fn next_into(&mut self, row: &mut RowBuf) -> Result<bool, StoreError> {
        self.step(End::Front, row)
    }

    /// Where the row that was read last stands in this order: a later range can go on from there
    /// ([`KeyRange::after`], [`KeyRange::before`]).
    #[must_use]
    pub fn place(&self) -> &[u8] {
        &self.key
    }

    /// As [`next_into`](Self::next_into), from the back.
    ///
    /// # Errors
    /// As [`next_into`](Self::next_into).
    pub fn next_back_into(&mut self, row: &mut RowBuf) -> Result<bool, StoreError> {
        self.step(End::Back, row)
    }

    fn owned(&mut self, end: End) -> Result<Option<OwnedRow>, StoreError> {
        let mut row = std::mem::take(&mut self.row);
        let found = self.step(end, &mut row);
        let owned = || OwnedRow { key: row.key.clone(), image: row.image().to_vec(), count: row.count };
        let found = found.map(|found| found.then(owned));
        self.row = row;
        found
    }

    // The sources are taken out of `self`, because `next_of` borrows both.
    fn step(&mut self, end: End, row: &mut RowBuf) -> Result<bool, StoreError> {
        let layers = self.view.layers()?;
        let (mut sources, mut order) = (std::mem::take(&mut self.sources), std::mem::take(&mut self.order));
        let found = self.next_of(&layers, &mut sources, &mut order, end, row);
        (self.sources, self.order) = (sources, order);
        // After an error the order may be wrong.
        self.ordered = found.is_ok().then_some(end);
        let found = found?;
        self.view.check().map(|()| found)
    }

    /// Takes entries with the smallest or largest key until one of them has a row; false if none are left.
    fn next_of(
        &mut self,
        layers: &Layers,
        sources: &mut [Source],
        order: &mut Vec<usize>,
        end: End,
        row: &mut RowBuf,
    ) -> Result<bool, StoreError> {
        if self.ordered != Some(end) {
            order.clear();
            for (place, source) in sources.iter_mut().enumerate() {
                if source.read(end)? {
                    order.push(place);
                }
            }
            order.sort_unstable_by(|one, other| compare(sources, end, *one, *other));
        }
        while let Some(first) = order.first().copied() {
            self.key.clear();
            self.key.extend_from_slice(key_of(sources, end, first));
            // All entries with this key are consumed: several layers and slices may have one, but the row is returned
            // once. A tree has each key once.
            let (mut found, mut is_newest, mut next) = (false, true, Some(first));
            while let Some(first) = next {
                let Some(source) = sources.get_mut(first) else { break };
                if !found && let Some(candidate) = source.candidate(end) {
                    found = self.row_of(layers, source.layer, candidate, is_newest, row)?;
                }
                is_newest = false;
                let is_tree = matches!(source.places, Places::Tree(_));
                source.advance(end);
                let has_more = source.read(end)?;
                let stays = has_more && order.get(1).is_none_or(|second| compare(sources, end, first, *second).is_lt());
                if !stays {
                    order.remove(0);
                    if has_more {
                        let place = order.partition_point(|other| compare(sources, end, *other, first).is_lt());
                        order.insert(place, first);
                    }
                }
                let is_alone = stays && order.len() == 1 && is_tree;
                next = order.first().copied().filter(|next| !is_alone && key_of(sources, end, *next) == self.key);
            }
            if found {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Copies the row of an entry, if the entry counts. `is_newest`: no newer layer has an entry with its key.
    fn row_of(
        &self,
        layers: &Layers,
        layer: usize,
        candidate: Candidate<'_>,
        is_newest: bool,
        row: &mut RowBuf,
    ) -> Result<bool, StoreError> {
        row.clear();
        let is_sole = self.tree_stands && is_newest && matches!(candidate, Candidate::Entry { .. });
        let (found, is_sure) = match candidate {
            Candidate::Slot { lane, slot, own_len } => {
                let found = self.row_in_memory(layers, layer, lane, slot, row)?;
                // The slot may belong to another row by now. Keys of one length with the same end are the same key.
                if own_len > 0 && found.is_some() && !(row.key.len() == own_len && self.key.ends_with(&row.key)) {
                    return Ok(false);
                }
                (found, own_len > 0)
            }
            // Entries of the rows themselves are always under their row's key.
            Candidate::Entry { key, value } => (self.row_on_disk(layers, layer, key, value, row)?, self.index == 0),
        };
        let is_difference = match found {
            None | Some(RowState::Deleted) => return Ok(false),
            Some(RowState::Row(())) => false,
            Some(RowState::Delta(())) => true,
        };
        // A slot or an index entry may stem from another version, so the visible row must have this very key.
        if !is_sure {
            let mut sort_key = std::mem::take(&mut row.sort_key);
            sort_key.clear();
            let held = append_key(self.table.order(), self.index, &row.key, row.image(), &mut sort_key);
            let stands = held.map(|held| held && sort_key == self.key);
            row.sort_key = sort_key;
            if !stands.map_err(|_| self.view.damaged("a row does not fit its table's definition"))? {
                return Ok(false);
            }
        }
        if (layer == 0 || is_sole) && !is_difference {
            return Ok(true);
        }
        let hash = base::key_hash(self.table.id().0, &row.key);
        let shape = self.table.shape();
        let newer = layers.newer_than(layer);
        let (lane, sequence) = (base::lane_of(hash, self.lanes), self.view.sequence());
        // A difference without a row below is counted here; otherwise it is counted with the row below.
        if is_difference && layers.stands_below(layer, &shape, (lane, hash, &row.key), sequence)? {
            return Ok(false);
        }
        let active = Some(&*layers.active).filter(|_| layer > 0);
        if is_shadowed(active, newer, &shape, lane, hash, &row.key, sequence, &mut row.above)? {
            return Ok(false);
        }
        if self.table.order().is_keyless() {
            let missing = || StoreError::row_missing(self.table.name().to_owned(), &row.key);
            row.count = row.above.count_over(row.count).ok_or_else(missing)?;
            return Ok(row.count > 0);
        }
        // No delta changes an indexed column, so the key still holds.
        let completed = row.above.complete(self.table.layout(), &mut row.image, 0);
        completed.map_err(|error| layers.unreadable(&error))?;
        Ok(true)
    }

    /// Copies a slot's row and returns its state. Only a delta of a keyless row, the number of copies that its layer
    /// adds, can stand for the row.
    fn row_in_memory(
        &self,
        layers: &Layers,
        layer: usize,
        lane: usize,
        slot: u32,
        row: &mut RowBuf,
    ) -> Result<Option<RowState<()>>, StoreError> {
        let generation = match layer.checked_sub(1).map(|below| layers.below.get(below)) {
            None => &layers.active,
            Some(Some(Layer::Memory(generation))) => generation,
            Some(_) => return Err(StoreError::defect("a row in memory is looked for in a layer that is on disk")),
        };
        let guard = generation.lane(lane);
        let keyless = self.table.order().is_keyless();
        let visible = guard.visible(self.table.id(), slot, self.view.sequence());
        let Some(version) = visible else { return Ok(None) };
        let (image, count) = match version.state {
            RowState::Row(image) => (image, copies_in(keyless, image)),
            RowState::Delta(delta) if keyless => {
                // Copies were removed, so a layer below has the row and returns it.
                let Ok(count) = u64::try_from(delta::difference(delta)) else { return Ok(None) };
                (version.key, count)
            }
            RowState::Delta(_) => return Ok(None),
            RowState::Deleted => return Ok(Some(RowState::Deleted)),
        };
        row.key.extend_from_slice(version.key);
        self.set_image(version.definition, image, count, row)?;
        Ok(Some(version.state.bare()))
    }

    fn set_image(&self, definition: u32, image: &[u8], count: u64, row: &mut RowBuf) -> Result<(), StoreError> {
        let set = row.set(&self.table, definition, image, count);
        set.map_err(|error| self.view.damaged(&format!("a row of an earlier definition: {error}")))
    }

    fn row_on_disk(
        &self,
        layers: &Layers,
        layer: usize,
        key: &[u8],
        value: &[u8],
        row: &mut RowBuf,
    ) -> Result<Option<RowState<()>>, StoreError> {
        let damaged = || self.view.damaged("an entry that is not one of ours");
        if self.index == 0 {
            return self.set_stored(key, value, row);
        }
        let tree = match (layers.below.get(layer - 1), &layers.base) {
            (Some(Layer::Spill(spill)), _) => &spill.tree,
            (None, Some(tree)) => tree,
            _ => return Err(StoreError::defect("a row on disk is looked for in a layer that is in memory")),
        };
        let own = key_codec::own_of(key, value).ok_or_else(damaged)?;
        let mut row_key = std::mem::take(&mut row.tree_key);
        row_key.extend_from_slice(&key_codec::table_prefix(self.table.id()));
        if !self.table.order().is_keyless() {
            self.table.order().append(own, &mut row_key);
        }
        row_key.extend_from_slice(own);
        let found = match tree.get(&row_key) {
            Ok(Some(value)) => self.set_stored(&row_key, &value, row),
            Ok(None) => Ok(None),
            Err(error) => Err(error),
        };
        row.tree_key = row_key;
        found
    }

    fn set_stored(&self, key: &[u8], value: &[u8], row: &mut RowBuf) -> Result<Option<RowState<()>>, StoreError> {
        if key_codec::is_deleted(value) {
            return Ok(Some(RowState::Deleted));
        }
        let stored = key_codec::parse_row(key, value);
        let stored = stored.ok_or_else(|| self.view.damaged("an entry that is not one of ours"))?;
        row.key.extend_from_slice(stored.key);
        self.set_image(stored.definition, stored.image, stored.copies, row)?;
        Ok(Some(RowState::Row(())))
    }
}

impl Iterator for Range<'_> {
    type Item = Result<OwnedRow, StoreError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.owned(End::Front).transpose()
    }
}

impl DoubleEndedIterator for Range<'_> {
    fn next_back(&mut self) -> Option<Self::Item> {
        self.owned(End::Back).transpose()
    }
}
