//! Index entries on their way into a run: gathered row by row, written in order.
//!
//! In: for every row of a cut or spill, its state below and its new state. Out: the entries added and removed, sorted.
//! Never here: an entry of an index whose fill has not reached its row (the fill will write it); more in memory than
//! [`gathered_bytes_max`] allows (the excess goes through a tree in the scratch folder).

use std::path::PathBuf;
use std::sync::Arc;

use base::to_usize;
use catalog::{ConversionBuffers, IndexSet, RowVersions, TableDef, TableId};

use crate::disk::{Disk, Kept, Run, remove_folder};
use crate::error::StoreError;
use crate::expectation::Expected;
use crate::index_before::{KeysBelowKind, entry_change};
use crate::index_state::Extent;
use crate::key_codec;

/// Limits on the memory for gathered entries. Between them it is a quarter of the size of the generations being cut.
const GATHERED_BYTES_MIN: u64 = 4 << 20;
const GATHERED_BYTES_MAX: u64 = 64 << 20;

const _: () = assert!(GATHERED_BYTES_MIN <= GATHERED_BYTES_MAX);

/// Overflow area for entries that exceed memory.
#[derive(Clone)]
pub(crate) struct Scratch {
    /// A folder used for nothing else.
    pub folder: PathBuf,
    pub kept: Kept,
    /// Limit on the entries held in memory, in bytes.
    pub bytes_max: usize,
}

/// Memory for gathered entries if the rows take `bytes`.
pub(crate) fn gathered_bytes_max(bytes: u64) -> usize {
    to_usize((bytes / 4).clamp(GATHERED_BYTES_MIN, GATHERED_BYTES_MAX))
}

/// A row of a cut or spill.
#[derive(Clone, Copy)]
pub(crate) struct CutRow<'a> {
    /// Its key in the tree.
    pub key: &'a [u8],
    /// Length of the row's own key at the end of `key`.
    pub own_len: usize,
    /// Its value in the tree; None: deleted.
    pub value: Option<&'a [u8]>,
    /// What the log says of the row below everything that is written.
    pub expected: Expected,
    /// Sort keys of the row below, in `below_keys` where the kind says so.
    pub below: KeysBelowKind,
    pub below_keys: &'a [u8],
}

/// Gathers the index entries of one table.
pub(crate) struct TableEntries {
    table: TableId,
    versions: RowVersions,
    buffers: ConversionBuffers,
    indexes: Arc<IndexSet>,
    /// Per index, in the set's order.
    extents: Vec<Extent>,
    /// True if no layer below has rows of the table.
    is_new: bool,
    sorter: Sorter,
    key: Vec<u8>,
    sort_key: Vec<u8>,
}

impl TableEntries {
    /// `extents`: how much of each index of the set is maintained. `scratch`: its folder gets a subfolder for each
    /// table. None if no index is maintained.
    pub(crate) fn new(
        table: &TableDef,
        indexes: &Arc<IndexSet>,
        extents: Vec<Extent>,
        is_new: bool,
        scratch: Option<&Scratch>,
    ) -> Option<TableEntries> {
        if extents.iter().all(|extent| matches!(extent, Extent::Nothing)) {
            return None;
        }
        let scratch = scratch.map(|scratch| Scratch {
            folder: scratch.folder.join(format!("entries-{}", table.id)),
            kept: scratch.kept.clone(),
            bytes_max: scratch.bytes_max,
        });
        Some(TableEntries {
            table: table.id,
            versions: RowVersions::of(table),
            buffers: ConversionBuffers::default(),
            indexes: Arc::clone(indexes),
            extents,
            is_new,
            sorter: Sorter::new(scratch),
            key: Vec::new(),
            sort_key: Vec::new(),
        })
    }

    /// Adds the entries of a row.
    pub(crate) fn row(&mut self, row: &CutRow<'_>, damaged: &dyn Fn() -> StoreError) -> Result<(), StoreError> {
        let below = if self.is_new { KeysBelowKind::Absent } else { row.below };
        if below == KeysBelowKind::Same {
            return Ok(());
        }
        let image = match row.value {
            Some(value) => {
                let stored = key_codec::parse_row(row.key, value).ok_or_else(damaged)?;
                let read = self.versions.read(stored.definition, stored.image, &mut self.buffers);
                Some(read.map_err(|_| damaged())?)
            }
            None => None,
        };
        let own = row.key.len().checked_sub(row.own_len).and_then(|at| row.key.get(at..));
        let own = own.ok_or(StoreError::defect("what names a row is longer than its key"))?;
        for (index, extent) in self.indexes.indexes().iter().zip(&self.extents) {
            if !extent.covers(row.key) {
                continue;
            }
            let below = (below, row.below_keys);
            let change = entry_change(&self.indexes, index, below, image, &mut self.sort_key, damaged)?;
            for (sort_key, comes) in [(change.goes, false), (change.comes, true)] {
                let Some(sort_key) = sort_key else { continue };
                self.key.clear();
                key_codec::append_index_key(self.table, index.id(), sort_key, own, &mut self.key);
                self.sorter.push(&self.key, comes.then_some(own.len()))?;
            }
        }
        Ok(())
    }

    /// Writes the entries. Those to be removed get a tombstone if `removes`, and are skipped otherwise. Returns the
    /// number of entries.
    pub(crate) fn write(self, run: &mut Run<'_>, removes: bool) -> Result<u64, StoreError> {
        let mut count = 0;
        self.sorter.finish(|key, own_len| {
            count += 1;
            match own_len {
                Some(len) => run.put(key, &key_codec::index_value(len)),
                None if removes => run.remove(key),
                None => Ok(()),
            }
        })?;
        Ok(count)
    }
}

/// Sorts keys, each with an optional length, and drops duplicates.
pub(crate) struct Sorter {
    bytes: Vec<u8>,
    /// First bytes after the table id, location, length of the key; in `bytes`, the key is followed by its length
    /// field.
    places: Vec<(u64, usize, usize)>,
    scratch: Option<Scratch>,
    overflow: Option<Disk>,
}

impl Drop for Sorter {
    fn drop(&mut self) {
        if let Some(disk) = self.overflow.take() {
            drop(disk);
            // Anything left is removed at the next start.
            let _ = self.scratch.as_ref().map(|scratch| remove_folder(&scratch.folder));
        }
    }
}

const NO_LEN: u16 = u16::MAX;

impl Sorter {
    /// Without `scratch`, everything stays in memory.
    pub(crate) fn new(scratch: Option<Scratch>) -> Sorter {
        Sorter { bytes: Vec::new(), places: Vec::new(), scratch, overflow: None }
    }

    /// Memory in use, in bytes.
    pub(crate) fn held(&self) -> usize {
        self.bytes.len() + self.places.len() * size_of::<(u64, usize, usize)>()
    }

    pub(crate) fn push(&mut self, key: &[u8], own_len: Option<usize>) -> Result<(), StoreError> {
        let at = self.bytes.len();
        self.bytes.extend_from_slice(key);
        self.bytes.extend_from_slice(&stored_len(own_len)?.to_le_bytes());
        self.places.push((key_codec::head_of(key.get(4..).unwrap_or(&[])), at, key.len()));
        if self.scratch.as_ref().is_some_and(|scratch| self.held() > scratch.bytes_max) {
            self.flush()?;
        }
        Ok(())
    }

    fn sort(&mut self) {
        let bytes = &self.bytes;
        let key = |at: usize, len: usize| &bytes[at..at + len];
        self.places.sort_unstable_by(|left, right| {
            left.0.cmp(&right.0).then_with(|| key(left.1, left.2).cmp(key(right.1, right.2)))
        });
    }

    fn flush(&mut self) -> Result<(), StoreError> {
        let Some(scratch) = &self.scratch else { return Ok(()) };
        if self.places.is_empty() {
            return Ok(());
        }
        let disk = match self.overflow.take() {
            Some(disk) => disk,
            None => Disk::open_scratch(&scratch.folder, &scratch.kept)?,
        };
        self.sort();
        let disk = &*self.overflow.insert(disk);
        let mut run = disk.begin()?;
        Sorter::each(&self.bytes, &self.places, |key, own_len| run.put(key, &stored_len(own_len)?.to_le_bytes()))?;
        let version_lock = disk.version_lock();
        run.finish(&version_lock)?;
        disk.take_over(&version_lock);
        drop(version_lock);
        while disk.is_full() && disk.compact(disk.oldest_read())? {}
        self.bytes.clear();
        self.places.clear();
        Ok(())
    }

    /// Passes on the entries in memory, which are sorted.
    fn each(
        bytes: &[u8],
        places: &[(u64, usize, usize)],
        mut each: impl FnMut(&[u8], Option<usize>) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        let mut last: &[u8] = &[];
        for (_, at, len) in places {
            let (key, rest) = bytes[*at..].split_at(*len);
            if key == last {
                continue;
            }
            last = key;
            let stored = rest.first_chunk().ok_or(StoreError::defect("a sorted entry has no length after it"))?;
            each(key, own_len(stored))?;
        }
        Ok(())
    }

    /// Passes on all entries in order.
    pub(crate) fn finish(
        mut self,
        mut each: impl FnMut(&[u8], Option<usize>) -> Result<(), StoreError>,
    ) -> Result<(), StoreError> {
        if self.overflow.is_none() {
            self.sort();
            return Sorter::each(&self.bytes, &self.places, each);
        }
        self.flush()?;
        let Some(disk) = &self.overflow else { return Ok(()) };
        for item in disk.range_in(&disk.newest(), &[], &[0xff; 8]) {
            let (key, value) = item?;
            let stored = value.first_chunk().ok_or_else(|| disk.damaged("an entry that is not one of ours"))?;
            each(&key, own_len(stored))?;
        }
        Ok(())
    }
}

fn stored_len(own_len: Option<usize>) -> Result<u16, StoreError> {
    let Some(len) = own_len else { return Ok(NO_LEN) };
    let len = u16::try_from(len).ok().filter(|len| *len != NO_LEN);
    len.ok_or(StoreError::defect("what names a row is longer than any key"))
}

fn own_len(bytes: &[u8; 2]) -> Option<usize> {
    Some(u16::from_le_bytes(*bytes)).filter(|len| *len != NO_LEN).map(usize::from)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::DiskOptions;

    #[test]
    fn what_outgrows_memory_comes_out_in_the_same_order() {
        let folder = tempfile::tempdir().unwrap();
        let key = |i: u32| [&[0, 0, 0, 1, 0, 2][..], &i.wrapping_mul(2_654_435_761).to_be_bytes(), b"own"].concat();
        let mut expected: Vec<_> = (0..2000).map(|i| (key(i), (i % 3 != 0).then_some(3))).collect();
        expected.sort();
        for spills in [false, true] {
            let bytes_max = if spills { 10_000 } else { usize::MAX };
            let kept = Kept::new(DiskOptions { cache_bytes: 1 << 20 });
            let mut sorter = Sorter::new(Some(Scratch { folder: folder.path().join("entries"), kept, bytes_max }));
            for i in 0..2000 {
                sorter.push(&key(i), (i % 3 != 0).then_some(3)).unwrap();
            }
            assert_eq!(sorter.overflow.is_some(), spills);
            let mut seen = Vec::new();
            sorter
                .finish(|key, own_len| {
                    seen.push((key.to_vec(), own_len));
                    Ok(())
                })
                .unwrap();
            assert_eq!(seen, expected);
            assert!(!folder.path().join("entries").exists());
        }
    }
}
