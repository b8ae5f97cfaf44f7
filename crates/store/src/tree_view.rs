//! The tree as of one number, read without the tree's own lock.
//!
//! In: a tree. Out: its current runs, readable at a number from any thread. Never here: the lock that lsm-tree holds
//! while it makes a new version durable (four syncs) and removes the files of old ones; replay and readers waited for
//! it up to 0.7 s after a merge of gigabytes.
//!
//! The tree's memtables are always empty (every write is a sorted ingestion), so the runs are all that must be read.
//! The lsm-tree items used here are public but hidden from its documentation: check them on every upgrade.

use lsm_tree::table::filter::standard_bloom::Builder;
use lsm_tree::{AbstractTree, AnyTree, InternalValue, Slice, Tree};

/// Keys and values, from either end.
pub(crate) type Entries = Box<dyn DoubleEndedIterator<Item = lsm_tree::Result<(Slice, Slice)>> + Send>;
type Get = dyn Fn(&[u8]) -> lsm_tree::Result<Option<InternalValue>> + Send + Sync;
type Range = dyn Fn(&[u8], Option<&[u8]>) -> Entries + Send + Sync;

/// A view of the tree as of one number. lsm-tree's versions have no nameable type, so they live in closures.
pub(crate) struct TreeView {
    /// Number at which it reads.
    number: u64,
    /// Number of the tree's version whose files it holds.
    version: u64,
    get: Box<Get>,
    range: Box<Range>,
}

impl TreeView {
    /// A view of everything that the tree holds below `number`.
    pub(crate) fn of(tree: &AnyTree, number: u64) -> TreeView {
        // Compaction may finish in between: the two then differ in files, not in content.
        let version = tree.current_version();
        let latest = tree.get_version_history_lock().latest_version();
        let id = version.id();
        let get = move |key: &[u8]| {
            let hash = Builder::get_hash(key);
            // Levels and runs come newest first, so the first match is the newest version.
            for run in version.iter_levels().flat_map(|level| level.iter()) {
                let Some(table) = run.get_for_key(key) else { continue };
                if let Some(found) = table.get(key, number, hash)? {
                    return Ok(Some(found));
                }
            }
            Ok(None)
        };
        let range = move |from: &[u8], to: Option<&[u8]>| -> Entries {
            let latest = latest.clone();
            let split = |entry: lsm_tree::Result<InternalValue>| entry.map(|entry| (entry.key.user_key, entry.value));
            match to {
                Some(to) => Box::new(Tree::create_internal_range(latest, &(from..to), number, None).map(split)),
                None => Box::new(Tree::create_internal_range(latest, &(from..), number, None).map(split)),
            }
        };
        TreeView { number, version: id, get: Box::new(get), range: Box::new(range) }
    }

    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    /// Number of the tree's version whose files it holds.
    pub(crate) fn version(&self) -> u64 {
        self.version
    }

    /// The value of a key.
    pub(crate) fn get(&self, key: &[u8]) -> lsm_tree::Result<Option<Slice>> {
        let found = (self.get)(key)?;
        Ok(found.filter(|entry| !entry.is_tombstone()).map(|entry| entry.value))
    }

    /// Entries from `from` (inclusive) to `to` (exclusive), in order.
    pub(crate) fn entries(&self, from: &[u8], to: &[u8]) -> Entries {
        (self.range)(from, Some(to))
    }

    /// Entries from `from` on, in order.
    pub(crate) fn entries_from(&self, from: &[u8]) -> Entries {
        (self.range)(from, None)
    }
}
