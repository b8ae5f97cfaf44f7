//! Rows in the order of the identifying key, from either end.
//!
//! In: a snapshot, a table as the snapshot's catalog has it, bounds as sort keys. Out: its rows in that order, each once.
//! Never here: a row above the snapshot's watermark, a lock held while the caller works.
//!
//! What lies in memory between the bounds is copied when the range is opened: at most what the generations hold of it.

use std::collections::BTreeMap;
use std::collections::btree_map;

use catalog::{ConversionBuffers, KeyOrder, RowVersions, TableDef};

use crate::entry;
use crate::error::StoreError;
use crate::layers::{Generation, Layer};
use crate::{Snapshot, Store};

/// A row on its own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OwnedRow {
    /// Stored key bytes; the whole image for a table without a key.
    pub key: Vec<u8>,
    /// Row image.
    pub image: Vec<u8>,
    /// How many equal rows this stands for.
    pub count: u64,
}

type TreeEntry = Result<(lsm_tree::Slice, lsm_tree::Slice), StoreError>;
type TreeEntries = Box<dyn DoubleEndedIterator<Item = TreeEntry> + Send>;

/// Rows by the key of the tree; None: deleted.
type InMemory = BTreeMap<Vec<u8>, Option<OwnedRow>>;

/// An open range. The snapshot it was opened at must live as long.
pub struct Range<'a> {
    snapshot: &'a Snapshot,
    versions: RowVersions,
    buffers: ConversionBuffers,
    memory: btree_map::IntoIter<Vec<u8>, Option<OwnedRow>>,
    memory_front: Option<(Vec<u8>, Option<OwnedRow>)>,
    memory_back: Option<(Vec<u8>, Option<OwnedRow>)>,
    tree: Option<TreeEntries>,
    tree_front: Option<(lsm_tree::Slice, lsm_tree::Slice)>,
    tree_back: Option<(lsm_tree::Slice, lsm_tree::Slice)>,
}

/// The first sort key behind all that begin with `prefix`: an upper bound for equality on the first columns of a key.
/// None: there is nothing behind.
#[must_use]
pub fn behind_prefix(prefix: &[u8]) -> Option<Vec<u8>> {
    let mut bound = prefix.to_vec();
    while let Some(last) = bound.pop() {
        if last < 0xff {
            bound.push(last + 1);
            return Some(bound);
        }
    }
    None
}

impl Store {
    /// The rows of a table between two bounds: sort keys (`values::sort_key`), or the first columns' part of them; `from`
    /// itself is inside, `to` is not. Empty and None are the ends. The order is MySQL's where
    /// [`KeyOrder::is_ordered`] says so, otherwise by bytes; a table without a key has none.
    ///
    /// # Errors
    /// When the tree cannot be read.
    pub fn range<'a>(
        &self,
        snapshot: &'a Snapshot,
        table: &TableDef,
        from: &[u8],
        to: Option<&[u8]>,
    ) -> Result<Range<'a>, StoreError> {
        let (order, versions) = (KeyOrder::of(table), RowVersions::of(table));
        let prefix = entry::table_prefix(table.id);
        let first = [prefix.as_slice(), from].concat();
        let last = match to {
            Some(to) => [prefix.as_slice(), to].concat(),
            None => crate::cut::table_bounds(table.id).1.to_vec(),
        };
        let memory = above_tree(snapshot, table, (&order, &versions), (&first, &last))?;
        let layers = snapshot.layers();
        let tree: Option<TreeEntries> = layers
            .base
            .as_ref()
            .filter(|_| first < last)
            .map(|(disk, at)| Box::new(disk.range(*at, &first, &last)) as _);
        Ok(Range {
            snapshot,
            versions,
            buffers: ConversionBuffers::default(),
            memory: memory.into_iter(),
            memory_front: None,
            memory_back: None,
            tree,
            tree_front: None,
            tree_back: None,
        })
    }
}

/// What the layers above the tree hold between two keys of the tree, newest first: the first one to have a key decides.
fn above_tree(
    snapshot: &Snapshot,
    table: &TableDef,
    (order, versions): (&KeyOrder, &RowVersions),
    (first, last): (&[u8], &[u8]),
) -> Result<InMemory, StoreError> {
    let (mut rows, mut buffers) = (InMemory::new(), ConversionBuffers::default());
    let mut unreadable = None;
    let (layers, sequence) = (snapshot.layers(), snapshot.sequence());
    let mut take = |rows: &mut InMemory, buffers: &mut ConversionBuffers, generation: &Generation| {
        for lane in 0..generation.lane_count() {
            let Some(guard) = generation.lane(lane) else { continue };
            guard.each_held(table.id, sequence, |_, held| {
                let mut tree_key = Vec::new();
                entry::append_row_key(order, table.id, held.key, &mut tree_key);
                if tree_key.as_slice() < first || tree_key.as_slice() >= last {
                    return;
                }
                let btree_map::Entry::Vacant(place) = rows.entry(tree_key) else { return };
                let image = held.image.map(|image| if order.is_keyless() { held.key } else { image });
                match image.map(|image| versions.read(held.definition, image, buffers)).transpose() {
                    Ok(image) => {
                        place.insert(image.map(|image| OwnedRow {
                            key: held.key.to_vec(),
                            image: image.to_vec(),
                            count: held.copies,
                        }));
                    }
                    Err(error) => unreadable = Some(layers.unreadable(&error)),
                }
            });
        }
    };
    take(&mut rows, &mut buffers, &layers.active);
    for layer in &layers.below {
        match layer {
            Layer::Memory(generation) => take(&mut rows, &mut buffers, generation),
            Layer::Spill(spill) if spill.sequence <= sequence && first < last => {
                for item in spill.disk.range(spill.disk.read_at(), first, last) {
                    let (key, value) = item?;
                    let live = !entry::is_gone(&value);
                    let row = live.then(|| owned(snapshot, versions, &mut buffers, &key, &value)).transpose()?;
                    rows.entry(key.to_vec()).or_insert(row);
                }
            }
            Layer::Spill(_) => {}
        }
    }
    unreadable.map_or(Ok(rows), Err)
}

fn owned(
    snapshot: &Snapshot,
    versions: &RowVersions,
    buffers: &mut ConversionBuffers,
    key: &[u8],
    value: &[u8],
) -> Result<OwnedRow, StoreError> {
    let Some(row) = entry::parse_row(key, value) else {
        return Err(snapshot.damaged("a row that is not one of ours"));
    };
    let image = versions.read(row.definition, row.image, buffers);
    let image = image.map_err(|error| snapshot.damaged(&format!("a row of an earlier definition: {error}")))?;
    Ok(OwnedRow { key: row.key.to_vec(), image: image.to_vec(), count: row.copies })
}

/// Which end.
#[derive(Clone, Copy, PartialEq, Eq)]
enum End {
    Front,
    Back,
}

impl Range<'_> {
    fn step(&mut self, end: End) -> Option<Result<OwnedRow, StoreError>> {
        loop {
            let memory = self.peek_memory(end);
            let tree = match self.peek_tree(end) {
                Ok(tree) => tree,
                Err(error) => return Some(Err(error)),
            };
            let (from_memory, from_tree) = match (&memory, &tree) {
                (None, None) => return None,
                (Some(_), None) => (true, false),
                (None, Some(_)) => (false, true),
                (Some(memory), Some(tree)) => {
                    let order = memory.as_slice().cmp(tree.as_slice());
                    let order = if end == End::Front { order } else { order.reverse() };
                    (order.is_le(), order.is_ge())
                }
            };
            let tree_row = if from_tree { self.take_tree(end) } else { None };
            if from_memory {
                // What is in memory hides what is in the tree.
                match self.take_memory(end) {
                    Some((_, Some(row))) => return Some(Ok(row)),
                    _ => continue,
                }
            }
            let (key, value) = tree_row?;
            return Some(owned(self.snapshot, &self.versions, &mut self.buffers, &key, &value));
        }
    }

    fn peek_memory(&mut self, end: End) -> Option<Vec<u8>> {
        let (slot, other) = match end {
            End::Front => (&mut self.memory_front, &self.memory_back),
            End::Back => (&mut self.memory_back, &self.memory_front),
        };
        if slot.is_none() {
            *slot = if end == End::Front { self.memory.next() } else { self.memory.next_back() };
        }
        slot.as_ref().or(other.as_ref()).map(|(key, _)| key.clone())
    }

    fn take_memory(&mut self, end: End) -> Option<(Vec<u8>, Option<OwnedRow>)> {
        match end {
            End::Front => self.memory_front.take().or_else(|| self.memory_back.take()),
            End::Back => self.memory_back.take().or_else(|| self.memory_front.take()),
        }
    }

    fn peek_tree(&mut self, end: End) -> Result<Option<lsm_tree::Slice>, StoreError> {
        let (slot, other) = match end {
            End::Front => (&mut self.tree_front, &self.tree_back),
            End::Back => (&mut self.tree_back, &self.tree_front),
        };
        if slot.is_none()
            && let Some(tree) = &mut self.tree
        {
            let next = if end == End::Front { tree.next() } else { tree.next_back() };
            *slot = next.transpose()?;
        }
        Ok(slot.as_ref().or(other.as_ref()).map(|(key, _)| key.clone()))
    }

    fn take_tree(&mut self, end: End) -> Option<(lsm_tree::Slice, lsm_tree::Slice)> {
        match end {
            End::Front => self.tree_front.take().or_else(|| self.tree_back.take()),
            End::Back => self.tree_back.take().or_else(|| self.tree_front.take()),
        }
    }
}

impl Iterator for Range<'_> {
    type Item = Result<OwnedRow, StoreError>;

    fn next(&mut self) -> Option<Self::Item> {
        self.step(End::Front)
    }
}

impl DoubleEndedIterator for Range<'_> {
    fn next_back(&mut self) -> Option<Self::Item> {
        self.step(End::Back)
    }
}
