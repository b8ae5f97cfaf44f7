//! Stack of in-memory generations above the tree.
//!
//! In: sealed generations from the sequencer's thread, cuts from the cutter's. Out: immutable lists that writers and
//! readers hold. Invariant: a key's version in a layer is newer than every version of it in the layers below; the tree
//! holds nothing above the newest cut.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, OnceLock, RwLock, RwLockReadGuard, RwLockWriteGuard};

use base::{GtidSet, PreparedSet};
use catalog::{Catalog, TableId};

use crate::arena::SegmentPool;
use crate::delta::Deltas;
use crate::disk::{Disk, remove_folder};
use crate::error::StoreError;
use crate::index_state::IndexStates;
use crate::key_codec;
use crate::lane::Lane;
use crate::reader::TableReader;
use crate::row_state::{RowState, multiplicity};
use crate::sorted_slices::{Orders, Slice};
use crate::table_shape::{TableShape, append_read};
use crate::tree_range::{End, TreeEntry, TreeRange};
use crate::tree_view::{TreeValue, TreeView};
use crate::version_chain::RowVersion;
use crate::waits::LaneWaits;

/// A transaction boundary, and the state up to it.
#[derive(Clone)]
pub struct CutPoint {
    /// Number of the last transaction.
    pub sequence: u64,
    /// GTIDs of all transactions up to it.
    pub executed: GtidSet,
    pub catalog: Catalog,
    /// End of the last transaction in the relay log: file and offset.
    pub position: Option<(String, u64)>,
    /// The ledger of all events up to it, in its owner's format; stored and returned as it is.
    pub ledger: String,
    /// XA transactions prepared there.
    pub prepared: PreparedSet,
}

impl CutPoint {
    /// The boundary after transaction `sequence`, with all other facts empty.
    #[must_use]
    pub fn at(sequence: u64, catalog: Catalog) -> CutPoint {
        CutPoint {
            sequence,
            executed: GtidSet::new(),
            catalog,
            position: None,
            ledger: String::new(),
            prepared: PreparedSet::default(),
        }
    }
}

/// Rows in memory: one [`Lane`] per lane.
pub struct Generation {
    number: u64,
    lanes: Box<[RwLock<Lane>]>,
    bytes: Box<[AtomicU64]>,
    orders: Orders,
    /// Set when the generation is sealed at a boundary; it can be cut from then on.
    point: OnceLock<CutPoint>,
    waits: Arc<LaneWaits>,
}

impl Generation {
    /// `bottom`: there is no layer below, so deleted rows need no tombstone.
    pub(crate) fn new(
        number: u64,
        lanes: usize,
        bottom: bool,
        segments: &Arc<SegmentPool>,
        waits: &Arc<LaneWaits>,
    ) -> Generation {
        Generation {
            number,
            lanes: (0..lanes).map(|_| RwLock::new(Lane::new(bottom, segments))).collect(),
            bytes: (0..lanes).map(|_| AtomicU64::new(0)).collect(),
            orders: Orders::default(),
            point: OnceLock::new(),
            waits: Arc::clone(waits),
        }
    }

    /// Number of this generation within its store, in order of creation.
    #[must_use]
    pub fn number(&self) -> u64 {
        self.number
    }

    /// Locks a lane for its single writer.
    pub fn lane_mut(&self, lane: usize) -> Option<LaneGuard<'_>> {
        let guard = self.waits.writers.write(self.lanes.get(lane)?);
        Some(LaneGuard { guard, bytes: self.bytes.get(lane)? })
    }

    /// Locks a lane for reading. Every generation of a store has the same number of lanes, and `base::lane_of` stays
    /// below it.
    pub(crate) fn lane(&self, lane: usize) -> RwLockReadGuard<'_, Lane> {
        assert!(lane < self.lanes.len(), "lane {lane} of a generation of {}", self.lanes.len());
        self.waits.readers.read(&self.lanes[lane])
    }

    /// Locks the lanes for reading, one after the other.
    pub(crate) fn lanes(&self) -> impl Iterator<Item = RwLockReadGuard<'_, Lane>> {
        self.lanes.iter().map(|lane| self.waits.readers.read(lane))
    }

    pub(crate) fn lane_count(&self) -> usize {
        self.lanes.len()
    }

    /// Bytes taken from the allocator, as of each lane's last piece, including the orders that readers built.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.lane_bytes() + self.orders.bytes()
    }

    /// As `bytes`, without the orders that readers built.
    pub(crate) fn lane_bytes(&self) -> u64 {
        self.bytes.iter().map(|bytes| bytes.load(Ordering::Relaxed)).sum()
    }

    /// Rows of a table in the order of an index (0: of the identifying key): see `order`. Returns whether this
    /// generation may hide rows below with something that is not in these slices: see [`Lane::hides`].
    pub(crate) fn slices(
        &self,
        table: &TableReader,
        index: u16,
        each: impl FnMut(&Arc<Slice>),
    ) -> Result<bool, StoreError> {
        self.orders.slices(self, table, index, each)
    }

    /// The boundary it was sealed at; None before.
    #[must_use]
    pub fn point(&self) -> Option<&CutPoint> {
        self.point.get()
    }

    pub(crate) fn seal(&self, point: CutPoint) {
        let first = self.point.set(point).is_ok();
        assert!(first, "generation {} is sealed a second time", self.number);
    }
}

/// A lane locked for writing; publishes its size when it is released.
pub struct LaneGuard<'a> {
    guard: RwLockWriteGuard<'a, Lane>,
    bytes: &'a AtomicU64,
}

impl std::ops::Deref for LaneGuard<'_> {
    type Target = Lane;
    fn deref(&self) -> &Lane {
        &self.guard
    }
}

impl std::ops::DerefMut for LaneGuard<'_> {
    fn deref_mut(&mut self) -> &mut Lane {
        &mut self.guard
    }
}

impl Drop for LaneGuard<'_> {
    fn drop(&mut self) {
        self.bytes.store(self.guard.bytes(), Ordering::Relaxed);
    }
}

/// Rows of an unfinished transaction that exceeded memory, in a tree of their own in the scratch folder. Lost when the
/// process ends; the transaction is then replayed.
pub(crate) struct Spill {
    pub tree: TreeAt,
    /// Sequence number of the transaction.
    pub sequence: u64,
    pub folder: PathBuf,
    /// Rows added to each table, minus rows removed.
    pub balances: BTreeMap<u32, i64>,
    /// Per table, the indexes whose entries the spill contains.
    pub indexes: BTreeMap<u32, Vec<u16>>,
}

impl Spill {
    /// Whether a reader of the index can use the spill: it contains the index's entries, or nothing of the table.
    pub(crate) fn has_index(&self, table: TableId, index: u16) -> bool {
        !self.balances.contains_key(&table.0)
            || self.indexes.get(&table.0).is_some_and(|indexes| indexes.contains(&index))
    }
}

impl Drop for Spill {
    fn drop(&mut self) {
        // Its files are still open; they are removed when the tree is dropped. Anything left is removed at the next
        // start.
        let _ = remove_folder(&self.folder);
    }
}

/// A tree as of one of its numbers. While it lives, the files it reads are kept.
#[derive(Clone)]
pub(crate) struct TreeAt {
    pub disk: Arc<Disk>,
    pub view: Arc<TreeView>,
}

impl TreeAt {
    /// The newest view of the tree.
    pub(crate) fn newest(disk: &Arc<Disk>) -> TreeAt {
        TreeAt { disk: Arc::clone(disk), view: disk.newest() }
    }

    /// The value of a key.
    pub(crate) fn get(&self, key: &[u8]) -> Result<Option<TreeValue>, StoreError> {
        self.disk.get_in(&self.view, key)
    }

    /// Whether the key exists.
    pub(crate) fn contains(&self, key: &[u8]) -> Result<bool, StoreError> {
        Ok(self.get(key)?.is_some())
    }

    /// Entries from `from` (inclusive) to `to` (exclusive), in order.
    pub(crate) fn range(
        &self,
        from: &[u8],
        to: &[u8],
    ) -> impl DoubleEndedIterator<Item = Result<TreeEntry, StoreError>> + use<> {
        self.disk.range_in(&self.view, from, to)
    }

    /// Calls `each` for every row of a table.
    pub(crate) fn each_row<B>(
        &self,
        table: TableId,
        mut each: impl FnMut(key_codec::StoredRow<'_>) -> Result<ControlFlow<B>, StoreError>,
    ) -> Result<ControlFlow<B>, StoreError> {
        let (from, to) = key_codec::table_bounds(table);
        let mut entries = self.forward(&from, &to);
        while entries.read(End::Front)?
            && let Some((key, value)) = entries.entry(End::Front)
        {
            if !key_codec::is_deleted(value) {
                let row = key_codec::parse_row(key, value);
                let row = row.ok_or_else(|| self.disk.damaged("a row that is not one of ours"))?;
                if let ControlFlow::Break(end) = each(row)? {
                    return Ok(ControlFlow::Break(end));
                }
            }
            entries.take(End::Front);
        }
        Ok(ControlFlow::Continue(()))
    }

    /// As `range`, without copies; meant for reading forward.
    pub(crate) fn forward(&self, from: &[u8], to: &[u8]) -> TreeRange {
        self.disk.tree_range(&self.view, from, to)
    }
}

/// A layer below the active generation.
#[derive(Clone)]
pub(crate) enum Layer {
    Memory(Arc<Generation>),
    Spill(Arc<Spill>),
}

/// The layers of the store, as one writer or reader sees them.
pub struct Layers {
    pub active: Arc<Generation>,
    /// Newest first.
    pub(crate) below: Vec<Layer>,
    /// The tree as of one number; None for an in-memory store.
    pub(crate) base: Option<TreeAt>,
    /// What the tree holds of each secondary index at that number.
    pub(crate) indexes: Arc<IndexStates>,
}

/// How far down to look for a row.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Depth {
    Memory,
    Disk,
}

/// Whether the layers that were searched have a row, its deltas included. In an `Option`, None means that it is not
/// known: nothing in memory tells, and the tree was not read.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Existence {
    /// The row exists; its image was copied.
    Present,
    Absent,
}

impl Layers {
    /// Error for an image in memory that no definition of its table matches.
    pub(crate) fn unreadable(&self, error: &values::ValueError) -> StoreError {
        self.damaged(&format!("a row of an earlier definition: {error}"))
    }

    /// Error for damaged stored content.
    pub(crate) fn damaged(&self, text: &str) -> StoreError {
        let folder = self.base.as_ref().map(|tree| tree.disk.folder().to_owned()).unwrap_or_default();
        StoreError::Damaged { folder, text: text.to_owned() }
    }

    /// The newest sealed generation, if it is in memory and directly below the active one.
    pub(crate) fn newest_sealed(&self) -> Option<&Generation> {
        match self.below.first() {
            Some(Layer::Memory(generation)) => Some(generation),
            _ => None,
        }
    }

    /// The layers below the active generation, from this one on.
    fn from(&self, layer: usize) -> &[Layer] {
        assert!(layer <= self.below.len(), "layer {layer} of {}", self.below.len());
        &self.below[layer..]
    }

    /// The layers between the active generation and this one, which is counted from the active one as 0.
    pub(crate) fn newer_than(&self, layer: usize) -> &[Layer] {
        assert!(layer <= self.below.len() + 1, "layer {layer} of {}", self.below.len());
        &self.below[..layer.saturating_sub(1)]
    }

    /// A copy that shares all layers.
    pub(crate) fn parts(&self) -> Layers {
        Layers {
            active: Arc::clone(&self.active),
            below: self.below.clone(),
            base: self.base.clone(),
            indexes: Arc::clone(&self.indexes),
        }
    }

    /// Newest version of a row below the active generation, with `image` and copies as a lane stores them. `above`
    /// holds the row's deltas in the active generation, which are merged into the image.
    #[allow(clippy::too_many_arguments)]
    pub(crate) fn newest_below(
        &self,
        shape: &TableShape<'_>,
        lane: usize,
        hash: u64,
        key: &[u8],
        depth: Depth,
        above: &mut Deltas,
        image: &mut Vec<u8>,
    ) -> Result<Option<Existence>, StoreError> {
        image.clear();
        let found = self.image_below(0, shape, (lane, hash, key), depth, above, image)?;
        self.completed(shape, key, found, above, image, 0)
    }

    /// Appends the whole image of a row below the layer `from`, which is not searched itself; false if there is no such
    /// row.
    pub(crate) fn append_under(
        &self,
        from: usize,
        shape: &TableShape<'_>,
        key: &[u8],
        image: &mut Vec<u8>,
    ) -> Result<bool, StoreError> {
        let hash = base::key_hash(shape.id.0, key);
        let lane = base::lane_of(hash, self.active.lane_count());
        let (mut above, start) = (Deltas::default(), image.len());
        let found = self.image_below(from + 1, shape, (lane, hash, key), Depth::Disk, &mut above, image)?;
        Ok(self.completed(shape, key, found, &mut above, image, start)? == Some(Existence::Present))
    }

    /// Applies the deltas to what was found below them, and returns whether the row exists then.
    fn completed(
        &self,
        shape: &TableShape<'_>,
        key: &[u8],
        found: Option<Existence>,
        above: &mut Deltas,
        image: &mut Vec<u8>,
        start: usize,
    ) -> Result<Option<Existence>, StoreError> {
        let missing = || StoreError::row_missing(format!("table id {}", shape.id), key);
        match found {
            _ if above.is_empty() => Ok(found),
            None => Ok(None),
            Some(existence) if shape.order.is_keyless() => {
                let copies = match existence {
                    Existence::Present => multiplicity(&image[start..]),
                    Existence::Absent => 0,
                };
                image.truncate(start);
                let copies = above.count_over(copies).ok_or_else(missing)?;
                image.extend_from_slice(&copies.to_le_bytes());
                Ok(Some(if copies > 0 { Existence::Present } else { Existence::Absent }))
            }
            Some(Existence::Present) => {
                above.complete(shape.layout, image, start).map_err(|error| self.unreadable(&error))?;
                Ok(found)
            }
            // Deltas are written without a look-up. A missing row means that log and store disagree.
            Some(Existence::Absent) => Err(missing()),
        }
    }

    /// Whether a layer below `from` holds the row, or deltas of it, visible at `sequence`.
    pub(crate) fn stands_below(
        &self,
        from: usize,
        shape: &TableShape<'_>,
        (lane, hash, key): (usize, u64, &[u8]),
        sequence: u64,
    ) -> Result<bool, StoreError> {
        let mut tree_key = Vec::new();
        key_codec::append_row_key(shape.order, shape.id, key, &mut tree_key);
        for layer in self.from(from) {
            match layer {
                Layer::Memory(generation) => match generation.lane(lane).get(shape.id, hash, key, sequence) {
                    None => {}
                    Some(version) => return Ok(!matches!(version.state, RowState::Deleted)),
                },
                Layer::Spill(spill) if spill.sequence <= sequence => {
                    if let Some(value) = spill.tree.get(&tree_key)? {
                        return Ok(!key_codec::is_deleted(&value));
                    }
                }
                Layer::Spill(_) => {}
            }
        }
        match &self.base {
            Some(tree) => tree.contains(&tree_key),
            None => Ok(false),
        }
    }

    /// Looks for a row in the layers from `from` down. Appends its image, and adds the deltas found above it to
    /// `above`.
    fn image_below(
        &self,
        from: usize,
        shape: &TableShape<'_>,
        (lane, hash, key): (usize, u64, &[u8]),
        depth: Depth,
        above: &mut Deltas,
        image: &mut Vec<u8>,
    ) -> Result<Option<Existence>, StoreError> {
        for layer in self.from(from) {
            match layer {
                Layer::Memory(generation) => {
                    let guard = generation.lane(lane);
                    let Some(RowVersion { state, definition, .. }) = guard.newest_version(shape.id, hash, key) else {
                        continue;
                    };
                    match state {
                        RowState::Row(bytes) => {
                            let read = append_read(shape, definition, bytes, image);
                            read.map_err(|error| self.unreadable(&error))?;
                            return Ok(Some(Existence::Present));
                        }
                        RowState::Delta(delta) => above.push(delta, definition, shape.versions)?,
                        RowState::Deleted => return Ok(Some(Existence::Absent)),
                    }
                }
                Layer::Spill(spill) => {
                    if depth == Depth::Memory {
                        return Ok(None);
                    }
                    let found = look_up(&spill.tree, shape, key, image)?;
                    if found.is_some() {
                        return Ok(found);
                    }
                }
            }
        }
        let Some(tree) = &self.base else { return Ok(Some(Existence::Absent)) };
        if depth == Depth::Memory {
            return Ok(None);
        }
        Ok(look_up(tree, shape, key, image)?.or(Some(Existence::Absent)))
    }
}

/// Looks a row up in a tree. Absent: it is marked as deleted (spills store an entry for that); None: the tree has no
/// entry.
fn look_up(
    tree: &TreeAt,
    shape: &TableShape<'_>,
    key: &[u8],
    image: &mut Vec<u8>,
) -> Result<Option<Existence>, StoreError> {
    let mut tree_key = Vec::with_capacity(key_codec::PREFIX_LEN + 2 * key.len() + 16);
    key_codec::append_row_key(shape.order, shape.id, key, &mut tree_key);
    let Some(value) = tree.get(&tree_key)? else { return Ok(None) };
    append_found(&tree.disk, shape, key, &tree_key, &value, image).map(Some)
}

/// Appends the image in an entry.
pub(crate) fn append_found(
    disk: &Disk,
    shape: &TableShape<'_>,
    key: &[u8],
    tree_key: &[u8],
    value: &[u8],
    image: &mut Vec<u8>,
) -> Result<Existence, StoreError> {
    if key_codec::is_deleted(value) {
        return Ok(Existence::Absent);
    }
    let row = stored_row(disk, tree_key, value, key)?;
    if shape.order.is_keyless() {
        image.extend_from_slice(&row.copies.to_le_bytes());
    } else {
        let read = append_read(shape, row.definition, row.image, image);
        read.map_err(|error| disk.damaged(format!("a row of an earlier definition: {error}")))?;
    }
    Ok(Existence::Present)
}

/// Parses a row's entry and checks that it is the requested row: two images of a keyless table could have the same
/// hash.
pub(crate) fn stored_row<'a>(
    disk: &Disk,
    tree_key: &'a [u8],
    value: &'a [u8],
    key: &[u8],
) -> Result<key_codec::StoredRow<'a>, StoreError> {
    match key_codec::parse_row(tree_key, value) {
        Some(row) if row.key == key => Ok(row),
        Some(_) => Err(disk.damaged("two rows of a table without a key have the same 128-bit hash")),
        None => Err(disk.damaged("a row that is not one of ours")),
    }
}

/// Whether a layer of `newer` holds the row or its deletion, visible at `sequence`. Clears `above`, then adds the row's
/// deltas found in those layers.
#[allow(clippy::too_many_arguments)]
pub(crate) fn is_shadowed(
    active: Option<&Generation>,
    newer: &[Layer],
    shape: &TableShape<'_>,
    lane: usize,
    hash: u64,
    key: &[u8],
    sequence: u64,
    above: &mut Deltas,
) -> Result<bool, StoreError> {
    above.clear();
    let mut in_memory = |generation: &Generation| {
        let guard = generation.lane(lane);
        let Some(version) = guard.get(shape.id, hash, key, sequence) else { return Ok(false) };
        if let RowState::Delta(delta) = version.state {
            above.push(delta, version.definition, shape.versions)?;
        }
        Ok(version.state.hides_older())
    };
    if let Some(active) = active
        && in_memory(active)?
    {
        return Ok(true);
    }
    let mut tree_key = Vec::new();
    for layer in newer {
        match layer {
            Layer::Memory(generation) => {
                if in_memory(generation)? {
                    return Ok(true);
                }
            }
            Layer::Spill(spill) if spill.sequence <= sequence => {
                if tree_key.is_empty() {
                    key_codec::append_row_key(shape.order, shape.id, key, &mut tree_key);
                }
                if spill.tree.contains(&tree_key)? {
                    return Ok(true);
                }
            }
            Layer::Spill(_) => {}
        }
    }
    Ok(false)
}

/// Ids of the tables with rows in a generation.
pub(crate) fn tables_of(generation: &Generation) -> Vec<TableId> {
    let mut ids: Vec<TableId> = generation.lanes().flat_map(|lane| lane.table_ids().collect::<Vec<_>>()).collect();
    ids.sort_unstable();
    ids.dedup();
    ids
}
