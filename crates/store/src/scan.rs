//! Full scan of a table at a snapshot.
//!
//! In: a snapshot, a table as the snapshot's catalog defines it. Out: its rows, each once. Never here: a row above the
//! snapshot's watermark; a lock held while the caller works.

use std::ops::ControlFlow;

use catalog::{ConversionBuffers, TableDef, TableId};
use values::{OFFSET_NULL, RowLayout, ValueError};

use crate::delta::Deltas;
use crate::error::StoreError;
use crate::key_codec;
use crate::layers::{Generation, Layer, Layers, TreeAt, is_shadowed};
use crate::reader::TableReader;
use crate::scan_buffer::{Read, ScanBuffer};
use crate::table_shape::{OwnedShape, TableShape};
use crate::tree_range::{End, TreeRange};
use crate::{PinnedLayers, Row, Snapshot, Store};

/// Rows that a reader copies from a lane under one hold of its lock: bounds how long replay of that lane can wait for a
/// reader (about 50 µs).
const SCAN_SLICE_SLOTS: u32 = 1024;

/// A table at a snapshot.
struct Reader<'a> {
    layers: &'a Layers,
    /// May be given up at any time; None for reads by the writer.
    snapshot: Option<&'a Snapshot>,
    sequence: u64,
    shape: TableShape<'a>,
    lanes: usize,
}

/// Buffers of a scan.
#[derive(Default)]
struct Scratch {
    copied: ScanBuffer,
    buffers: ConversionBuffers,
    above: Deltas,
    image: Vec<u8>,
}

impl Store {
    /// Calls `each` for every row of a table at a snapshot, in no particular order. Replay of a lane waits at most
    /// while a thousand rows are copied; `each` runs without any lock.
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

    /// Calls `each` for the newest version of every row of a table, visible or not: for the single writer at a barrier,
    /// while nothing else is applied. `each` must not wait for a lane.
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

    /// As [`Store::scan`], over everything applied up to a sequence number, visible or not: for the sequencing thread,
    /// once everything up to that number is applied and before anything above it is.
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
        if let ControlFlow::Break(end) = reader.generation(&layers.active, 0, &mut each)? {
            return Ok(ControlFlow::Break(end));
        }
        for (index, layer) in layers.below.iter().enumerate() {
            let flow = match layer {
                Layer::Memory(generation) => reader.generation(generation, index + 1, &mut each)?,
                Layer::Spill(spill) if spill.sequence <= reader.sequence => {
                    reader.tree(&spill.tree, index + 1, &mut each)?
                }
                Layer::Spill(_) => ControlFlow::Continue(()),
            };
            if let ControlFlow::Break(end) = flow {
                return Ok(ControlFlow::Break(end));
            }
        }
        match &layers.base {
            Some(tree) => reader.tree(tree, layers.below.len() + 1, &mut each),
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

    /// An image with the deltas that newer layers hold for its row.
    fn whole<'a>(&self, image: &'a [u8], above: &mut Deltas, out: &'a mut Vec<u8>) -> Result<&'a [u8], StoreError> {
        if above.is_empty() {
            return Ok(image);
        }
        out.clear();
        out.extend_from_slice(image);
        let completed = above.complete(self.shape.layout, out, 0);
        completed.map_err(|error| self.layers.unreadable(&error))?;
        Ok(out)
    }

    /// Number of copies of a keyless row, with the differences above it.
    fn count(&self, row: &Row<'_>, above: &mut Deltas) -> Result<u64, StoreError> {
        let missing = || StoreError::row_missing(format!("table id {}", self.shape.id), row.key);
        above.count_over(row.count).ok_or_else(missing)
    }

    /// Passes on the rows of a generation that no newer layer has. `layer` is counted from the active generation as 0.
    fn generation<B>(
        &self,
        generation: &Generation,
        layer: usize,
        each: &mut impl FnMut(Row<'_>) -> ControlFlow<B>,
    ) -> Result<ControlFlow<B>, StoreError> {
        let mut scratch = Scratch::default();
        for lane in 0..generation.lane_count() {
            let mut next = Some(0u32);
            while let Some(from) = next {
                next = match self.slots(generation, layer, lane, from, &mut scratch, each)? {
                    ControlFlow::Continue(next) => next,
                    ControlFlow::Break(end) => return Ok(ControlFlow::Break(end)),
                };
            }
        }
        Ok(ControlFlow::Continue(()))
    }

    /// Passes on the rows of some slots of a lane, and returns the slot to continue at.
    fn slots<B>(
        &self,
        generation: &Generation,
        layer: usize,
        lane: usize,
        from: u32,
        scratch: &mut Scratch,
        each: &mut impl FnMut(Row<'_>) -> ControlFlow<B>,
    ) -> Result<ControlFlow<B, Option<u32>>, StoreError> {
        let active = Some(&*self.layers.active).filter(|_| layer > 0);
        let newer = self.layers.newer_than(layer);
        let Scratch { copied, buffers, above, image: whole } = scratch;
        copied.clear();
        // Rows are copied first: `each` must not run under the lane's lock.
        let guard = generation.lane(lane);
        let next = guard.copy_slots(self.table(), self.sequence, from, SCAN_SLICE_SLOTS, copied);
        drop(guard);
        for Read { hash, mut row, definition, is_difference } in copied.rows() {
            above.clear();
            if layer > 0 && is_shadowed(active, newer, &self.shape, lane, hash, row.key, self.sequence, above)? {
                continue;
            }
            if is_difference && self.layers.stands_below(layer, &self.shape, (lane, hash, row.key), self.sequence)? {
                continue;
            }
            if self.shape.order.is_keyless() {
                row.count = self.count(&row, above)?;
                if row.count == 0 {
                    continue;
                }
            }
            let image = (self.shape.versions.read(definition, row.image, buffers))
                .map_err(|error| self.layers.unreadable(&error))?;
            let image = self.whole(image, above, whole)?;
            self.check()?;
            if let ControlFlow::Break(end) = each(Row { image, ..row }) {
                return Ok(ControlFlow::Break(end));
            }
        }
        Ok(ControlFlow::Continue(next))
    }

    /// Passes on the rows of a tree that no layer above it has.
    fn tree<B>(
        &self,
        tree: &TreeAt,
        layer: usize,
        each: &mut impl FnMut(Row<'_>) -> ControlFlow<B>,
    ) -> Result<ControlFlow<B>, StoreError> {
        let mut scratch = Scratch::default();
        tree.each_row(self.table(), |row| self.stored(tree, layer, row, &mut scratch, each))
    }

    /// Passes on one row of a tree, unless a layer above has it.
    fn stored<B>(
        &self,
        tree: &TreeAt,
        layer: usize,
        row: key_codec::StoredRow<'_>,
        scratch: &mut Scratch,
        each: &mut impl FnMut(Row<'_>) -> ControlFlow<B>,
    ) -> Result<ControlFlow<B>, StoreError> {
        let Scratch { buffers, above, image: whole, .. } = scratch;
        let hash = base::key_hash(self.table().0, row.key);
        let lane = base::lane_of(hash, self.lanes);
        let (active, newer) = (Some(&*self.layers.active), self.layers.newer_than(layer));
        if is_shadowed(active, newer, &self.shape, lane, hash, row.key, self.sequence, above)? {
            return Ok(ControlFlow::Continue(()));
        }
        let mut count = row.copies;
        if self.shape.order.is_keyless() {
            count = self.count(&Row { key: row.key, image: row.image, count }, above)?;
            if count == 0 {
                return Ok(ControlFlow::Continue(()));
            }
        }
        let image = (self.shape.versions.read(row.definition, row.image, buffers))
            .map_err(|error| tree.disk.damaged(format!("a row of an earlier definition: {error}")))?;
        let image = self.whole(image, above, whole)?;
        self.check()?;
        Ok(each(Row { key: row.key, image, count }))
    }
}

/// Limits of a batch, in rows of a tree and in bytes.
const BATCH_ROWS_MAX: usize = 1024;
const PIECE_BYTES: usize = 1 << 20;

/// Columns of some rows, copied from the store. When reused, it allocates nothing once it has grown.
#[derive(Default)]
pub struct RowBatch {
    columns: usize,
    bytes: Vec<u8>,
    /// Start and length of each value, row by row; None for NULL.
    values: Vec<Option<(usize, usize)>>,
    counts: Vec<u64>,
    offsets: Vec<(u32, u32)>,
}

impl RowBatch {
    #[must_use]
    pub fn len(&self) -> usize {
        self.counts.len()
    }

    /// Whether it has no rows.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.counts.is_empty()
    }

    /// Number of equal rows that this row represents.
    ///
    /// # Panics
    /// If there is no such row.
    #[must_use]
    pub fn count(&self, row: usize) -> u64 {
        self.counts[row]
    }

    /// Stored bytes of a value; `column` counts the requested columns. None for NULL.
    ///
    /// # Panics
    /// If there is no such row or column.
    #[must_use]
    pub fn stored(&self, row: usize, column: usize) -> Option<&[u8]> {
        assert!(column < self.columns, "column {column} of {}", self.columns);
        self.values[row * self.columns + column].map(|(start, len)| &self.bytes[start..start + len])
    }

    fn clear(&mut self, columns: usize) {
        self.columns = columns;
        self.bytes.clear();
        self.values.clear();
        self.counts.clear();
    }

    fn is_full(&self) -> bool {
        self.len() >= BATCH_ROWS_MAX || self.bytes.len() >= PIECE_BYTES
    }

    fn push(&mut self, layout: &RowLayout, columns: &[usize], row: Row<'_>) -> Result<(), ValueError> {
        layout.walk_offsets(row.image, &mut self.offsets)?;
        for column in columns {
            let unknown = ValueError::BeyondLimits { what: "a column number" };
            let (start, len) = *self.offsets.get(*column).ok_or(unknown)?;
            if start == OFFSET_NULL {
                self.values.push(None);
                continue;
            }
            // Within the image: the layout has just walked it.
            let stored = &row.image[start as usize..][..len as usize];
            self.values.push(Some((self.bytes.len(), stored.len())));
            self.bytes.extend_from_slice(stored);
        }
        self.counts.push(row.count);
        Ok(())
    }
}

/// An open scan: some columns of every row, in no particular order, in batches. Each batch locks one lane for the
/// copying of a thousand rows at most.
pub struct Scan<'a> {
    snapshot: &'a Snapshot,
    table: TableReader,
    columns: Vec<usize>,
    at: At,
    scratch: Scratch,
}

/// Position of a scan. Layers are counted from the active generation as 0; the tree is the last.
enum At {
    Layer(usize),
    Slots { layer: usize, lane: usize, slot: u32 },
    Tree { layer: usize, tree: TreeAt, entries: Box<TreeRange> },
    End,
}

impl Snapshot {
    /// Starts a scan of some columns (numbered as in the table). `table` must be of this snapshot's catalog.
    #[must_use]
    pub fn scan(&self, table: &TableReader, columns: &[usize]) -> Scan<'_> {
        let (table, columns) = (table.clone(), columns.to_vec());
        Scan { snapshot: self, table, columns, at: At::Layer(0), scratch: Scratch::default() }
    }
}

impl Scan<'_> {
    /// Fills a batch with the next rows; false if there are no more.
    ///
    /// # Errors
    /// The snapshot was given up; the tree cannot be read; the table has no such column.
    pub fn next_batch(&mut self, batch: &mut RowBatch) -> Result<bool, StoreError> {
        batch.clear(self.columns.len());
        while batch.is_empty() && !matches!(self.at, At::End) {
            let layers = self.snapshot.layers()?;
            let at = std::mem::replace(&mut self.at, At::End);
            self.at = self.step(&layers, at, batch)?;
            // Checked before any row is used.
            self.snapshot.check()?;
        }
        Ok(!batch.is_empty())
    }

    fn step(&mut self, layers: &Layers, at: At, batch: &mut RowBatch) -> Result<At, StoreError> {
        let Scan { snapshot, table, columns, scratch, .. } = self;
        let lanes = layers.active.lane_count();
        let reader = Reader { layers, snapshot: None, sequence: snapshot.sequence(), shape: table.shape(), lanes };
        let mut failure = None;
        let mut take = |batch: &mut RowBatch, row: Row<'_>| match batch.push(table.layout(), columns, row) {
            Ok(()) => ControlFlow::Continue(()),
            Err(error) => {
                failure = Some(error);
                ControlFlow::Break(())
            }
        };
        let next = match at {
            At::End => At::End,
            At::Layer(layer) => return Ok(open(layers, &reader, layer)),
            At::Slots { layer, lane, slot } => {
                let generation = match layer.checked_sub(1).map(|below| layers.below.get(below)) {
                    None => &layers.active,
                    Some(Some(Layer::Memory(generation))) => generation,
                    Some(_) => return Err(StoreError::defect("slots are read of a layer that is on disk")),
                };
                match reader.slots(generation, layer, lane, slot, scratch, &mut |row: Row<'_>| take(batch, row))? {
                    ControlFlow::Continue(Some(slot)) => At::Slots { layer, lane, slot },
                    ControlFlow::Continue(None) if lane + 1 < lanes => At::Slots { layer, lane: lane + 1, slot: 0 },
                    ControlFlow::Continue(None) => At::Layer(layer + 1),
                    ControlFlow::Break(()) => At::End,
                }
            }
            At::Tree { layer, tree, mut entries } => loop {
                if !entries.read(End::Front)? {
                    break At::Layer(layer + 1);
                }
                let Some((key, value)) = entries.entry(End::Front) else { break At::Layer(layer + 1) };
                if key_codec::is_deleted(value) {
                    entries.take(End::Front);
                    continue;
                }
                let row = key_codec::parse_row(key, value);
                let row = row.ok_or_else(|| tree.disk.damaged("a row that is not one of ours"))?;
                let flow = reader.stored(&tree, layer, row, scratch, &mut |row: Row<'_>| take(batch, row))?;
                entries.take(End::Front);
                if flow.is_break() {
                    break At::End;
                }
                if batch.is_full() {
                    break At::Tree { layer, tree, entries };
                }
            },
        };
        match failure {
            Some(error) => Err(layers.unreadable(&error)),
            None => Ok(next),
        }
    }
}

/// Start position in a layer.
fn open(layers: &Layers, reader: &Reader<'_>, layer: usize) -> At {
    let tree = match layer.checked_sub(1).map(|below| layers.below.get(below)) {
        None | Some(Some(Layer::Memory(_))) => return At::Slots { layer, lane: 0, slot: 0 },
        Some(Some(Layer::Spill(spill))) if spill.sequence <= reader.sequence => &spill.tree,
        Some(Some(Layer::Spill(_))) => return At::Layer(layer + 1),
        Some(None) => match &layers.base {
            Some(tree) if layer == layers.below.len() + 1 => tree,
            _ => return At::End,
        },
    };
    let (from, to) = key_codec::table_bounds(reader.table());
    At::Tree { layer, tree: tree.clone(), entries: Box::new(tree.forward(&from, &to)) }
}
