//! Point read of one row by its key.
//!
//! In: a snapshot, a prepared table, the stored bytes of a key. Out: the row, in the reader's buffer. Never here: a
//! lane locked while the caller works; an allocation once the buffer has grown.

use catalog::{ConversionBuffers, TableDef};
use values::{RowView, ValueError};

use crate::delta::Deltas;
use crate::error::StoreError;
use crate::key_codec;
use crate::layers::{Generation, Layer, Layers, TreeAt, stored_row};
use crate::reader::TableReader;
use crate::row_state::{RowState, copies_in};
use crate::{Row, Snapshot, Store};

/// A row that a reader copied, and the buffers used to read it. When reused, reading allocates nothing.
#[derive(Default)]
pub struct RowBuf {
    pub(crate) key: Vec<u8>,
    /// Empty for a table without a key, where the key is the image.
    pub(crate) image: Vec<u8>,
    pub(crate) count: u64,
    pub(crate) above: Deltas,
    pub(crate) buffers: ConversionBuffers,
    pub(crate) tree_key: Vec<u8>,
    pub(crate) sort_key: Vec<u8>,
    offsets: Vec<(u32, u32)>,
    /// Whether `offsets` are those of this row.
    located: bool,
}

impl RowBuf {
    #[must_use]
    pub fn row(&self) -> Row<'_> {
        Row { key: &self.key, image: self.image(), count: self.count }
    }

    /// Its image under the requested definition.
    #[must_use]
    pub fn image(&self) -> &[u8] {
        if self.image.is_empty() { &self.key } else { &self.image }
    }

    /// Its columns. `table` must be the reader it was read with.
    ///
    /// # Errors
    /// When the image does not match the table.
    pub fn view<'a>(&'a mut self, table: &'a TableReader) -> Result<RowView<'a>, ValueError> {
        let image = if self.image.is_empty() { &self.key } else { &self.image };
        if !self.located {
            RowView::new(table.layout(), table.column_types(), image, &mut self.offsets)?;
            self.located = true;
        }
        Ok(RowView::again(table.column_types(), image, &self.offsets))
    }

    /// Bytes that it keeps, but for those of older versions of the row.
    #[must_use]
    pub fn memory(&self) -> usize {
        let bytes = [&self.key, &self.image, &self.tree_key, &self.sort_key].map(Vec::capacity);
        bytes.iter().sum::<usize>() + self.offsets.capacity() * size_of::<(u32, u32)>()
    }

    /// An empty one with the memory of this one, unless that is above `bytes_max`.
    #[must_use]
    pub fn emptied(mut self, bytes_max: usize) -> RowBuf {
        if self.memory() > bytes_max {
            return RowBuf::default();
        }
        self.clear();
        self.sort_key.clear();
        RowBuf { above: Deltas::default(), buffers: ConversionBuffers::default(), ..self }
    }

    pub(crate) fn clear(&mut self) {
        self.key.clear();
        self.image.clear();
        self.count = 1;
        self.above.clear();
        self.tree_key.clear();
        self.located = false;
    }

    /// Stores an image of any definition; for a table without a key only the count, because the key is the image.
    pub(crate) fn set(
        &mut self,
        table: &TableReader,
        definition: u32,
        image: &[u8],
        count: u64,
    ) -> Result<(), ValueError> {
        self.image.clear();
        self.count = count;
        if !table.order().is_keyless() {
            self.image.extend_from_slice(table.versions().read(definition, image, &mut self.buffers)?);
        }
        Ok(())
    }
}

impl Snapshot {
    /// Reads one row by the stored bytes of its identifying key; false if it does not exist. `table` must be of this
    /// snapshot's catalog.
    ///
    /// # Errors
    /// When the snapshot was given up, or the tree cannot be read.
    pub fn get(&self, table: &TableReader, key: &[u8], row: &mut RowBuf) -> Result<bool, StoreError> {
        let layers = self.layers()?;
        let found = find(&layers, self.sequence(), table, key, row)?;
        self.check().map(|()| found)
    }
}

impl Store {
    /// As [`Snapshot::get`], for a single row of a table: returns its image.
    ///
    /// # Errors
    /// As [`Snapshot::get`].
    pub fn get(&self, snapshot: &Snapshot, table: &TableDef, key: &[u8]) -> Result<Option<Vec<u8>>, StoreError> {
        let mut row = RowBuf::default();
        let found = snapshot.get(&TableReader::new(table), key, &mut row)?;
        Ok(found.then(|| row.image().to_vec()))
    }
}

fn find(layers: &Layers, sequence: u64, table: &TableReader, key: &[u8], row: &mut RowBuf) -> Result<bool, StoreError> {
    let hash = base::key_hash(table.id().0, key);
    let place = (base::lane_of(hash, layers.active.lane_count()), hash, key);
    row.clear();
    row.key.extend_from_slice(key);
    let unreadable = |error: ValueError| layers.unreadable(&error);
    let mut found = in_memory(&layers.active, sequence, table, place, row, &unreadable)?;
    for layer in &layers.below {
        if found.is_some_and(|found| found.hides_older()) {
            break;
        }
        found = match layer {
            Layer::Memory(generation) => in_memory(generation, sequence, table, place, row, &unreadable)?,
            Layer::Spill(spill) if spill.sequence <= sequence => on_disk(&spill.tree, table, key, row)?,
            Layer::Spill(_) => None,
        };
    }
    if !found.is_some_and(|found| found.hides_older())
        && let Some(tree) = &layers.base
    {
        found = on_disk(tree, table, key, row)?;
    }
    let missing = || StoreError::row_missing(table.name().to_owned(), key);
    match found {
        _ if table.order().is_keyless() => {
            let copies = if found == Some(RowState::Row(())) { row.count } else { 0 };
            row.count = row.above.count_over(copies).ok_or_else(missing)?;
            Ok(row.count > 0)
        }
        Some(RowState::Row(())) => {
            row.above.complete(table.layout(), &mut row.image, 0).map_err(unreadable)?;
            Ok(true)
        }
        _ if row.above.is_empty() => Ok(false),
        _ => Err(missing()),
    }
}

/// State of the row in a generation: a whole row is copied into the buffer, a delta is added to those above it.
fn in_memory(
    generation: &Generation,
    sequence: u64,
    table: &TableReader,
    (lane, hash, key): (usize, u64, &[u8]),
    row: &mut RowBuf,
    unreadable: &dyn Fn(ValueError) -> StoreError,
) -> Result<Option<RowState<()>>, StoreError> {
    let guard = generation.lane(lane);
    let Some(version) = guard.get(table.id(), hash, key, sequence) else { return Ok(None) };
    match version.state {
        RowState::Row(image) => {
            let copies = copies_in(table.order().is_keyless(), image);
            row.set(table, version.definition, image, copies).map_err(unreadable)?;
        }
        RowState::Delta(delta) => row.above.push(delta, version.definition, table.versions())?,
        RowState::Deleted => {}
    }
    Ok(Some(version.state.bare()))
}

/// As `in_memory`, in a tree.
fn on_disk(
    tree: &TreeAt,
    table: &TableReader,
    key: &[u8],
    row: &mut RowBuf,
) -> Result<Option<RowState<()>>, StoreError> {
    if row.tree_key.is_empty() {
        key_codec::append_row_key(table.order(), table.id(), key, &mut row.tree_key);
    }
    let Some(value) = tree.get(&row.tree_key)? else { return Ok(None) };
    if key_codec::is_deleted(&value) {
        return Ok(Some(RowState::Deleted));
    }
    let stored = stored_row(&tree.disk, &row.tree_key, &value, key)?;
    let (definition, copies) = (stored.definition, stored.copies);
    row.image.clear();
    row.count = copies;
    if !table.order().is_keyless() {
        let read = table.versions().read(definition, stored.image, &mut row.buffers);
        let read = read.map_err(|error| tree.disk.damaged(format!("a row of an earlier definition: {error}")))?;
        row.image.extend_from_slice(read);
    }
    Ok(Some(RowState::Row(())))
}
