//! The tree as of one number, read without the tree's own lock.
//!
//! In: a tree. Out: its current runs, readable at a number from any thread. Never here: the lock that lsm-tree holds
//! while it makes a new version durable (four syncs) and removes the files of old ones; replay and readers waited for
//! it up to 0.7 s after a merge of gigabytes.
//!
//! The tree's memtables are always empty (every write is a sorted ingestion), so the runs are all that must be read.
//! A key's value and ranges read forward come from the blocks themselves (`tree_blocks`, `tree_cursor`); ranges read
//! from the back use the tree's iterator. The lsm-tree items used here are public but hidden from its documentation:
//! check them on every upgrade.

use std::ops::{Deref, Range};
use std::sync::{Arc, OnceLock};

use lsm_tree::file_accessor::FileAccessor;
use lsm_tree::table::block::BlockType;
use lsm_tree::table::filter::block::FilterBlock;
use lsm_tree::table::filter::standard_bloom::Builder;
use lsm_tree::table::util::load_block;
use lsm_tree::table::{Block, BlockHandle};
use lsm_tree::{AbstractTree, AnyTree, CompressionType, GlobalTableId, Slice, Table, Tree};

use crate::disk::{Kept, StillOpen};
use crate::tree_blocks::{BlockView, Malformed};

/// Keys and values, from either end.
pub(crate) type Entries = Box<dyn DoubleEndedIterator<Item = lsm_tree::Result<(Slice, Slice)>> + Send>;
type OpenRange = dyn Fn(&[u8], &[u8]) -> Entries + Send + Sync;

/// A view of the tree as of one number. lsm-tree's versions have no nameable type, so one lives in a closure.
pub(crate) struct TreeView {
    /// Number at which it reads.
    number: u64,
    /// Number of the tree's version whose files it holds.
    version: u64,
    /// Newest first.
    runs: Vec<SortedRun>,
    range: Box<OpenRange>,
    /// The last field: see [`StillOpen`].
    _open: StillOpen,
}

/// Entries of files, which it holds.
struct Held<I> {
    entries: I,
    /// The last field: see [`StillOpen`].
    _open: StillOpen,
}

impl<I: Iterator> Iterator for Held<I> {
    type Item = I::Item;

    fn next(&mut self) -> Option<I::Item> {
        self.entries.next()
    }
}

impl<I: DoubleEndedIterator> DoubleEndedIterator for Held<I> {
    fn next_back(&mut self) -> Option<I::Item> {
        self.entries.next_back()
    }
}

/// Files with disjoint ranges of keys, in ascending order.
pub(crate) type SortedRun = Arc<[TableFile]>;

/// A file of the tree.
pub(crate) struct TableFile {
    table: Table,
    id: GlobalTableId,
    files: FileAccessor,
    /// The top of an index in parts, a few kB, once it was read.
    top: OnceLock<Slice>,
}

/// A value in a block of the tree.
#[derive(Clone)]
pub(crate) struct TreeValue {
    block: Slice,
    range: Range<usize>,
}

/// Why a file of the tree cannot be read.
#[derive(Debug)]
pub(crate) enum TreeFault {
    /// lsm-tree's error.
    Tree(lsm_tree::Error),
    /// A block whose checksum is right does not contain what it should.
    Malformed { file: u64 },
}

impl From<lsm_tree::Error> for TreeFault {
    fn from(error: lsm_tree::Error) -> TreeFault {
        TreeFault::Tree(error)
    }
}

impl Deref for TreeValue {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        // The range was checked when the block was parsed.
        self.block.get(self.range.clone()).unwrap_or_default()
    }
}

impl From<Slice> for TreeValue {
    fn from(block: Slice) -> TreeValue {
        TreeValue { range: 0..block.len(), block }
    }
}

impl TreeView {
    /// A view of everything that the tree holds below `number`.
    pub(crate) fn of(tree: &AnyTree, kept: &Kept, number: u64) -> TreeView {
        // Compaction may finish in between: the two then differ in files, not in content.
        let version = tree.current_version();
        let latest = tree.get_version_history_lock().latest_version();
        let file = |table: &Table| TableFile {
            id: (tree.id(), table.id()).into(),
            table: table.clone(),
            files: FileAccessor::DescriptorTable(Arc::clone(&kept.files)),
            top: OnceLock::new(),
        };
        // Levels and runs come newest first.
        let runs = version.iter_levels().flat_map(|level| level.iter());
        let runs = runs.map(|run| run.iter().map(file).collect()).collect();
        let open = kept.open.clone();
        let range = move |from: &[u8], to: &[u8]| -> Entries {
            let range = Tree::create_internal_range(latest.clone(), &(from..to), number, None);
            let entries = range.map(|entry| entry.map(|entry| (entry.key.user_key, entry.value)));
            Box::new(Held { entries, _open: open.clone() })
        };
        TreeView { number, version: version.id(), runs, range: Box::new(range), _open: kept.open.clone() }
    }

    /// Numbers of the files that it reads.
    pub(crate) fn files(&self) -> impl Iterator<Item = u64> + '_ {
        self.runs.iter().flat_map(|run| run.iter()).map(|file| file.table.id())
    }

    /// Numbers and checksums (XXH3-128) of the files that it reads.
    pub(crate) fn checksums(&self) -> impl Iterator<Item = (u64, u128)> + '_ {
        let files = self.runs.iter().flat_map(|run| run.iter());
        files.map(|file| (file.table.id(), file.table.checksum().into_u128()))
    }

    /// First key, last key and bytes of each file.
    pub(crate) fn file_bounds(&self) -> impl Iterator<Item = (&[u8], &[u8], u64)> + '_ {
        let files = self.runs.iter().flat_map(|run| run.iter());
        files.map(|file| (file.first_key(), file.last_key(), file.table.metadata.file_size))
    }

    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    /// Number of the tree's version whose files it holds.
    pub(crate) fn version(&self) -> u64 {
        self.version
    }

    /// Its runs, newest first.
    pub(crate) fn runs(&self) -> &[SortedRun] {
        &self.runs
    }

    /// The value of a key.
    pub(crate) fn get(&self, key: &[u8]) -> Result<Option<TreeValue>, TreeFault> {
        let hash = Builder::get_hash(key);
        for run in &self.runs {
            let Some(file) = run.get(position_of(run, key)).filter(|file| file.first_key() <= key) else { continue };
            match file.get(key, self.number, hash)? {
                InFile::Nothing => {}
                InFile::Removed => return Ok(None),
                InFile::Value(value) => return Ok(Some(value)),
            }
        }
        Ok(None)
    }

    /// Entries from `from` (inclusive) to `to` (exclusive), in order.
    pub(crate) fn entries(&self, from: &[u8], to: &[u8]) -> Entries {
        (self.range)(from, to)
    }
}

/// Position of the first file of a run that ends at or after a key.
pub(crate) fn position_of(run: &[TableFile], key: &[u8]) -> usize {
    run.partition_point(|file| file.last_key() < key)
}

/// What a file holds of a key.
enum InFile {
    Nothing,
    Removed,
    Value(TreeValue),
}

impl TableFile {
    fn first_key(&self) -> &[u8] {
        self.table.metadata.key_range.min()
    }

    fn last_key(&self) -> &[u8] {
        self.table.metadata.key_range.max()
    }

    /// The number below which entries count, relative to the file's own; 0: none does.
    pub(crate) fn relative(&self, number: u64) -> u64 {
        number.saturating_sub(self.table.global_seqno())
    }

    pub(crate) fn malformed(&self, _: Malformed) -> TreeFault {
        TreeFault::Malformed { file: self.id.table_id() }
    }

    fn load(&self, at: &BlockHandle, kind: BlockType, compression: CompressionType) -> Result<Block, TreeFault> {
        Ok(load_block(self.id, &self.table.path, &self.files, &self.table.cache, at, kind, compression)?)
    }

    pub(crate) fn data_block(&self, at: &BlockHandle) -> Result<Slice, TreeFault> {
        Ok(self.load(at, BlockType::Data, self.table.metadata.data_block_compression)?.data)
    }

    fn index_block(&self, at: &BlockHandle) -> Result<Slice, TreeFault> {
        Ok(self.load(at, BlockType::Index, self.table.metadata.index_block_compression)?.data)
    }

    /// The top of the file's index if that has parts.
    fn top(&self) -> Result<Option<&Slice>, TreeFault> {
        if self.table.regions.index.is_none() {
            return Ok(None);
        }
        if let Some(top) = self.top.get() {
            return Ok(Some(top));
        }
        let top = self.index_block(&self.table.regions.tli)?;
        Ok(Some(self.top.get_or_init(|| top)))
    }

    /// The part of the index that names the first data block that can hold a key at a number, and its position. The
    /// index of a small file has one part.
    pub(crate) fn find_index(&self, key: &[u8], number: u64) -> Result<Option<(usize, Slice)>, TreeFault> {
        let Some(top) = self.top()? else {
            return Ok(Some((0, self.index_block(&self.table.regions.tli)?)));
        };
        let view = BlockView::of(top).map_err(|fault| self.malformed(fault))?;
        let Some(part) = view.find_block(key, number).map_err(|fault| self.malformed(fault))? else { return Ok(None) };
        let at = view.block(part).map_err(|fault| self.malformed(fault))?;
        at.map(|at| Ok((part, self.index_block(&at)?))).transpose()
    }

    /// The part of the index at a position; None after the last one.
    pub(crate) fn index_part(&self, part: usize) -> Result<Option<Slice>, TreeFault> {
        let Some(top) = self.top()? else {
            return (part == 0).then(|| self.index_block(&self.table.regions.tli)).transpose();
        };
        let at = BlockView::of(top).and_then(|view| view.block(part)).map_err(|fault| self.malformed(fault))?;
        at.map(|at| self.index_block(&at)).transpose()
    }

    /// False if the file's filter excludes the key.
    fn may_hold(&self, key: &[u8], number: u64, hash: u64) -> Result<bool, TreeFault> {
        let at = match (self.table.regions.filter_tli, self.table.regions.filter) {
            (Some(top), _) => {
                let top = self.index_block(&top)?;
                let view = BlockView::of(&top).map_err(|fault| self.malformed(fault))?;
                let found = view.find_block(key, number).map_err(|fault| self.malformed(fault))?;
                // No part ends at or after the key: the file's index decides.
                let Some(part) = found else { return Ok(true) };
                view.block(part).map_err(|fault| self.malformed(fault))?
            }
            (None, whole) => whole,
        };
        let Some(at) = at else { return Ok(true) };
        // Filters are never compressed.
        let block = self.load(&at, BlockType::Filter, CompressionType::None)?;
        Ok(FilterBlock::new(block).maybe_contains_hash(hash)?)
    }

    fn get(&self, key: &[u8], number: u64, hash: u64) -> Result<InFile, TreeFault> {
        let number = self.relative(number);
        if number == 0 || !self.may_hold(key, number, hash)? {
            return Ok(InFile::Nothing);
        }
        let malformed = |fault| self.malformed(fault);
        let Some((_, index)) = self.find_index(key, number)? else { return Ok(InFile::Nothing) };
        let index = BlockView::of(&index).map_err(malformed)?;
        let Some(position) = index.find_block(key, number).map_err(malformed)? else { return Ok(InFile::Nothing) };
        let Some(at) = index.block(position).map_err(malformed)? else { return Ok(InFile::Nothing) };
        let block = self.data_block(&at)?;
        // The block's last entry is not before the key at this number, so no later block has it.
        let found = BlockView::of(&block).and_then(|view| view.find(key, number)).map_err(malformed)?;
        Ok(match found {
            Some((place, true)) if place.entry.is_tombstone => InFile::Removed,
            Some((place, true)) => InFile::Value(TreeValue { range: place.entry.value, block }),
            Some((_, false)) | None => InFile::Nothing,
        })
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use proptest::prelude::*;

    use super::*;
    use crate::disk::{Disk, DiskOptions};
    use crate::tree_cursor::TreeCursor;

    /// Keys that share prefixes of all lengths with their neighbours, some longer than a block.
    fn key_of(number: u16) -> Vec<u8> {
        let digits = number.to_string().into_bytes();
        let longer = if number % 211 == 7 { 9_000 } else { usize::from(number % 5) };
        [&digits[..], &vec![b'x'; longer][..]].concat()
    }

    /// One sorted run: for some keys a value of that length, or None for a removal. Then whether the tree is merged.
    type Round = (BTreeMap<u16, Option<usize>>, u8);

    fn rounds() -> impl Strategy<Value = Vec<Round>> {
        let value =
            prop_oneof![1 => Just(None), 6 => (0usize..400).prop_map(Some), 1 => (7_000usize..20_000).prop_map(Some)];
        let run = prop::collection::btree_map(0u16..1_200, value, 1..300);
        prop::collection::vec((run, 0u8..6), 1..7)
    }

    fn write(disk: &Disk, run: &BTreeMap<u16, Option<usize>>, round: usize) {
        let run: BTreeMap<Vec<u8>, Option<usize>> = run.iter().map(|(key, value)| (key_of(*key), *value)).collect();
        let mut out = disk.begin().unwrap();
        for (key, value) in &run {
            match value {
                Some(len) => out.put(key, &vec![round as u8; *len]).unwrap(),
                None => out.remove(key).unwrap(),
            }
        }
        let version_lock = disk.version_lock();
        out.finish(&version_lock).unwrap();
        disk.take_over(&version_lock);
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(48))]

        /// Every view, also one whose runs were merged since, returns from the blocks what the tree's iterator returns.
        #[test]
        fn blocks_hold_what_the_tree_s_iterator_returns(rounds in rounds(), from in prop::collection::vec(0u16..1_300, 6)) {
            let folder = tempfile::tempdir().unwrap();
            let (disk, _) = Disk::open(folder.path(), DiskOptions { cache_bytes: 1 << 16 }).unwrap();
            let mut views = Vec::new();
            for (round, (run, merge)) in rounds.iter().enumerate() {
                write(&disk, run, round);
                views.push(disk.newest());
                match merge {
                    0 => disk.compact_fully(disk.newest().number()).unwrap(),
                    // Merged while the oldest version of every key is still read.
                    1 => disk.compact_fully(0).unwrap(),
                    2 => drop(disk.compact_near(0, true).unwrap()),
                    _ => {}
                }
                views.push(Arc::new(TreeView::of(disk.tree(), disk.kept(), disk.newest().number())));
                // A number below those of the newest runs.
                let older = views.get(round / 2).unwrap().number();
                views.push(Arc::new(TreeView::of(disk.tree(), disk.kept(), older)));
            }
            for view in views {
                let end = [0xff_u8; 4];
                let all: BTreeMap<Vec<u8>, Vec<u8>> = view.entries(&[], &end).map(|entry| {
                    let (key, value) = entry.unwrap();
                    (key.to_vec(), value.to_vec())
                }).collect();
                for number in 0..1_210 {
                    let key = key_of(number);
                    let found = view.get(&key).unwrap().map(|value| value.to_vec());
                    prop_assert_eq!(found.as_ref(), all.get(&key), "{:?}", String::from_utf8_lossy(&key));
                }
                let bounds = from.iter().map(|from| key_of(*from)).chain([vec![], vec![b'9'; 3], end.to_vec()]);
                for from in bounds {
                    let mut cursor = TreeCursor::open(&view, &from).unwrap();
                    for (key, value) in all.range(from..) {
                        prop_assert_eq!(cursor.entry(), Some((key.as_slice(), value.as_slice())));
                        cursor.advance().unwrap();
                    }
                    prop_assert_eq!(cursor.entry(), None);
                }
            }
        }
    }
}
