//! Reading rows at a snapshot.
//!
//! In: a snapshot, a table as the snapshot's catalog has it. Out: its rows, each once. Never here: a row above the
//! snapshot's watermark, a lock held while the caller works.

use std::ops::ControlFlow;

use catalog::{ConversionBuffers, KeyOrder, RowVersions, TableDef, TableId};
use values::RowLayout;

use crate::cut;
use crate::entry;
use crate::error::StoreError;
use crate::lane::{OwnedShape, Standing, TableShape};
use crate::layers::{Generation, Layer, Layers, TreeAt, is_shadowed, stored_row};
use crate::parts::Parts;
use crate::{PinnedLayers, Row, Snapshot, Store};

/// Rows a reader copies out of a lane under one hold of its lock: bounds how long replay of that lane can wait for
/// a reader (about 50 µs).
const SCAN_SLICE_SLOTS: u32 = 1024;

/// A table at a snapshot.
struct Reader<'a> {
    layers: &'a Layers,
    /// May be given up meanwhile; None: the writer's own look.
    snapshot: Option<&'a Snapshot>,
    sequence: u64,
    shape: TableShape<'a>,
    lanes: usize,
}

/// What a layer has of a row, copied out; images with the version of their definition.
enum Found {
    /// With the number of copies.
    Row(Vec<u8>, u32, u64),
    Part(Vec<u8>, u32),
    Gone,
}

/// What a scan works in.
#[derive(Default)]
struct Scratch {
    copied: ScanBuffer,
    buffers: ConversionBuffers,
    above: Parts,
    image: Vec<u8>,
}

impl Store {
    /// One row by its identifying key at a snapshot: its image, None when it is not there.
    ///
    /// # Errors
    /// When the tree cannot be read.
    pub fn get(&self, snapshot: &Snapshot, table: &TableDef, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        let found = self.found(snapshot, table, key)?;
        snapshot.check().map(|()| found)
    }

    fn found(&self, snapshot: &Snapshot, table: &TableDef, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        let order = KeyOrder::of(table);
        let hash = base::key_hash(table.id.0, key);
        let lane = self.lane_of(hash);
        let (layers, sequence) = (snapshot.layers()?, snapshot.sequence());
        let in_memory = |generation: &Generation| {
            generation.lane(lane).get(table.id, hash, key, sequence).map(|standing| match standing {
                Standing::Row(row, definition) => Found::Row(row.image.to_vec(), definition, row.count),
                Standing::Part { part, definition, .. } => Found::Part(part.to_vec(), definition),
                Standing::Gone => Found::Gone,
            })
        };
        let mut tree_key = Vec::new();
        entry::append_row_key(&order, table.id, key, &mut tree_key);
        let on_disk = |tree: &TreeAt| -> Result<Option<Found>, StoreError> {
            let Some(value) = tree.get(&tree_key)? else { return Ok(None) };
            if entry::is_gone(&value) {
                return Ok(Some(Found::Gone));
            }
            let row = stored_row(&tree.disk, &tree_key, &value, key)?;
            Ok(Some(Found::Row(row.image.to_vec(), row.definition, row.copies)))
        };
        let (versions, mut above) = (RowVersions::of(table), Parts::default());
        let unreadable = |error| layers.unreadable(&error);
        let missing = || StoreError::row_missing(table.full_name(), key);
        for depth in 0..layers.below.len() + 2 {
            let found = match (depth.checked_sub(1), depth.checked_sub(1).and_then(|below| layers.below.get(below))) {
                (None, _) => in_memory(&layers.active),
                (_, Some(Layer::Memory(generation))) => in_memory(generation),
                (_, Some(Layer::Spill(spill))) if spill.sequence <= sequence => on_disk(&spill.tree)?,
                (_, Some(Layer::Spill(_))) => None,
                (_, None) => match &layers.base {
                    Some(tree) => on_disk(tree)?,
                    None => None,
                },
            };
            match found {
                None => {}
                Some(Found::Gone) => break,
                Some(Found::Part(part, definition)) => {
                    above.push(&part, definition, &versions)?;
                }
                Some(Found::Row(image, _, copies)) if order.is_keyless() => {
                    let copies = above.count_over(copies).ok_or_else(missing)?;
                    return Ok((copies > 0).then_some(image));
                }
                Some(Found::Row(image, definition, _)) => {
                    let mut image = if versions.is_current(definition) {
                        image
                    } else {
                        let mut buffers = ConversionBuffers::default();
                        versions.read(definition, &image, &mut buffers).map_err(unreadable)?.to_vec()
                    };
                    if !above.is_empty() {
                        let layout = RowLayout::new(&table.column_types());
                        above.complete(&layout, &mut image, 0).map_err(unreadable)?;
                    }
                    return Ok(Some(image));
                }
            }
        }
        if order.is_keyless() {
            let copies = above.count_over(0).ok_or_else(missing)?;
            return Ok((copies > 0).then(|| key.to_vec()));
        }
        if above.is_empty() { Ok(None) } else { Err(missing()) }
    }

    /// Every row of a table at a snapshot, in no order. Replay of a lane waits at most for the copying of
    /// a thousand rows; `each` runs without any lock.
    ///
    /// # Errors
    /// When the tree cannot be read.
    pub fn scan<B>(
        &self,
        snapshot: &Snapshot,
        table: &TableDef,
        each: impl FnMut(Row<'_>) -> ControlFlow<B>,
    ) -> Result<ControlFlow<B>, StoreError> {
        let layers = snapshot.layers()?;
        self.scan_at(Some(snapshot), &layers, snapshot.sequence(), table, each)
    }

    /// Every row of a table as its newest version is, visible or not: for the one writer at a barrier, which nobody
    /// overtakes. `each` must not wait for a lane.
    ///
    /// # Errors
    /// When the tree cannot be read.
    pub fn scan_newest<B>(
        &self,
        layers: &Layers,
        table: &TableDef,
        each: impl FnMut(Row<'_>) -> ControlFlow<B>,
    ) -> Result<ControlFlow<B>, StoreError> {
        self.scan_at(None, layers, u64::MAX, table, each)
    }

    /// As [`Store::scan`], of all that was applied up to a sequence number, visible or not: for the thread that
    /// sequences, once nothing at or below it is still to be applied and before anything above it is.
    ///
    /// # Errors
    /// When the tree cannot be read.
    pub fn scan_applied<B>(
        &self,
        layers: &PinnedLayers,
        sequence: u64,
        table: &TableDef,
        each: impl FnMut(Row<'_>) -> ControlFlow<B>,
    ) -> Result<ControlFlow<B>, StoreError> {
        self.scan_at(None, layers, sequence, table, each)
    }

    fn scan_at<B>(
        &self,
        snapshot: Option<&Snapshot>,
        layers: &Layers,
        sequence: u64,
        table: &TableDef,
        mut each: impl FnMut(Row<'_>) -> ControlFlow<B>,
    ) -> Result<ControlFlow<B>, StoreError> {
        let shape = OwnedShape::of(table);
        let reader = Reader { layers, snapshot, sequence, shape: shape.lend(), lanes: self.lane_count() };
        if let ControlFlow::Break(end) = reader.generation(&layers.active, None, 0, &mut each)? {
            return Ok(ControlFlow::Break(end));
        }
        for (index, layer) in layers.below.iter().enumerate() {
            let newer = layers.newer_than(index + 1);
            let flow = match layer {
                Layer::Memory(generation) => {
                    reader.generation(generation, Some(&layers.active), index + 1, &mut each)?
                }
                Layer::Spill(spill) if spill.sequence <= reader.sequence => {
                    reader.tree(&spill.tree, newer, &mut each)?
                }
                Layer::Spill(_) => ControlFlow::Continue(()),
            };
            if let ControlFlow::Break(end) = flow {
                return Ok(ControlFlow::Break(end));
            }
        }
        match &layers.base {
            Some(tree) => reader.tree(tree, &layers.below, &mut each),
            None => Ok(ControlFlow::Continue(())),
        }
    }
}

impl Reader<'_> {
    fn table(&self) -> TableId {
        self.shape.id
    }

    fn check(&self) -> Result<(), StoreError> {
        self.snapshot.map_or(Ok(()), Snapshot::check)
    }

    /// An image with the parts that newer layers have of its row.
    fn whole<'a>(&self, image: &'a [u8], above: &mut Parts, out: &'a mut Vec<u8>) -> Result<&'a [u8], StoreError> {
        if above.is_empty() {
            return Ok(image);
        }
        out.clear();
        out.extend_from_slice(image);
        let completed = above.complete(self.shape.layout, out, 0);
        completed.map_err(|error| self.layers.unreadable(&error))?;
        Ok(out)
    }

    /// How many copies of a keyless row there are, with the differences above it.
    fn count(&self, row: &Row<'_>, above: &mut Parts) -> Result<u64, StoreError> {
        let missing = || StoreError::row_missing(format!("table id {}", self.shape.id), row.key);
        above.count_over(row.count).ok_or_else(missing)
    }

    /// The rows of a generation that no newer layer has. `older`: the first layer below it.
    fn generation<B>(
        &self,
        generation: &Generation,
        active: Option<&Generation>,
        older: usize,
        each: &mut impl FnMut(Row<'_>) -> ControlFlow<B>,
    ) -> Result<ControlFlow<B>, StoreError> {
        let newer = self.layers.newer_than(older);
        let Scratch { mut copied, mut buffers, mut above, image: mut whole } = Scratch::default();
        for lane in 0..generation.lane_count() {
            let mut next = Some(0u32);
            while let Some(from) = next {
                copied.clear();
                let guard = generation.lane(lane);
                next = guard.copy_slots(self.table(), self.sequence, from, SCAN_SLICE_SLOTS, &mut copied);
                drop(guard);
                for Read { hash, mut row, definition, is_difference } in copied.rows() {
                    if (active.is_some() || !newer.is_empty())
                        && is_shadowed(active, newer, &self.shape, lane, hash, row.key, self.sequence, &mut above)?
                    {
                        continue;
                    }
                    if is_difference
                        && self.layers.stands_below(older, &self.shape, (lane, hash, row.key), self.sequence)?
                    {
                        above.clear();
                        continue;
                    }
                    if self.shape.order.is_keyless() {
                        row.count = self.count(&row, &mut above)?;
                        if row.count == 0 {
                            continue;
                        }
                    }
                    let image = (self.shape.versions.read(definition, row.image, &mut buffers))
                        .map_err(|error| self.layers.unreadable(&error))?;
                    let image = self.whole(image, &mut above, &mut whole)?;
                    self.check()?;
                    if let ControlFlow::Break(end) = each(Row { image, ..row }) {
                        return Ok(ControlFlow::Break(end));
                    }
                }
            }
        }
        Ok(ControlFlow::Continue(()))
    }

    /// The rows of a tree that no layer above it has.
    fn tree<B>(
        &self,
        tree: &TreeAt,
        newer: &[Layer],
        each: &mut impl FnMut(Row<'_>) -> ControlFlow<B>,
    ) -> Result<ControlFlow<B>, StoreError> {
        let Scratch { mut buffers, mut above, image: mut whole, .. } = Scratch::default();
        cut::each_row(tree, self.table(), |row| {
            let hash = base::key_hash(self.table().0, row.key);
            let lane = base::lane_of(hash, self.lanes);
            let active = Some(&*self.layers.active);
            if is_shadowed(active, newer, &self.shape, lane, hash, row.key, self.sequence, &mut above)? {
                return Ok(ControlFlow::Continue(()));
            }
            let mut count = row.copies;
            if self.shape.order.is_keyless() {
                count = self.count(&Row { key: row.key, image: row.image, count }, &mut above)?;
                if count == 0 {
                    return Ok(ControlFlow::Continue(()));
                }
            }
            let image = (self.shape.versions.read(row.definition, row.image, &mut buffers))
                .map_err(|error| tree.disk.damaged(format!("a row of an earlier definition: {error}")))?;
            let image = self.whole(image, &mut above, &mut whole)?;
            self.check()?;
            Ok(each(Row { key: row.key, image, count }))
        })
    }
}

/// One row of a [`ScanBuffer`].
struct Copied {
    hash: u64,
    key_len: u32,
    image_len: u32,
    count: u64,
    definition: u32,
    is_difference: bool,
}

/// One row as it is stored.
struct Read<'a> {
    hash: u64,
    row: Row<'a>,
    /// Version of its definition.
    definition: u32,
    /// The row's count is how many copies more this generation has, where no layer below has any.
    is_difference: bool,
}

/// Rows copied out of a lane.
#[derive(Default)]
pub(crate) struct ScanBuffer {
    bytes: Vec<u8>,
    rows: Vec<Copied>,
}

impl ScanBuffer {
    fn clear(&mut self) {
        self.bytes.clear();
        self.rows.clear();
    }

    pub(crate) fn push(&mut self, hash: u64, key: &[u8], image: &[u8], count: u64, definition: u32) {
        self.bytes.extend_from_slice(key);
        self.bytes.extend_from_slice(image);
        let (key_len, image_len) = (crate::short(key.len()), crate::short(image.len()));
        self.rows.push(Copied { hash, key_len, image_len, count, definition, is_difference: false });
    }

    /// Copies of a keyless row, over what layers below have of it. Where that is nothing they are not fewer than none.
    pub(crate) fn push_difference(&mut self, hash: u64, key: &[u8], difference: i64, definition: u32) {
        let Ok(count) = u64::try_from(difference) else { return };
        self.bytes.extend_from_slice(key);
        let key_len = crate::short(key.len());
        self.rows.push(Copied { hash, key_len, image_len: 0, count, definition, is_difference: true });
    }

    fn rows(&self) -> impl Iterator<Item = Read<'_>> {
        let mut rest = self.bytes.as_slice();
        self.rows.iter().map(move |&Copied { hash, key_len, image_len, count, definition, is_difference }| {
            let (key, tail) = rest.split_at(key_len as usize);
            let (image, tail) = tail.split_at(image_len as usize);
            rest = tail;
            // A table without a key stores its image as the key, once.
            let row = Row { key, image: if image.is_empty() { key } else { image }, count };
            Read { hash, row, definition, is_difference }
        })
    }
}
