//! Which rows compaction may drop.
//!
//! In: the tables and indexes alive at the last durable cut. Out: which ids are dead. Never here: dropping a row or
//! entry that any recoverable state can show; an id is dead only once the last durable cut no longer knows it
//! (invariant 2).

use std::collections::BTreeSet;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use base::SharedMap;
use catalog::{Catalog, Index, IndexSet, TableDef, TableId};
use lsm_tree::compaction::filter::{Context, Factory};
use lsm_tree::compaction::{CompactionFilter, ItemAccessor, ItemVersion, Verdict};

use crate::drift::{DriftKind, DriftList, Finding, Findings};
use crate::expectation::Expected;
use crate::key_codec;

/// Decides which rows and entries are dead, and compares of the others what the log says with what is there.
pub(crate) struct DeadRows {
    known: Mutex<Arc<Known>>,
    /// Tables being copied: no cut knows them, but their rows must be kept.
    copied: Mutex<BTreeSet<u32>>,
    broken_off: Arc<BrokenOff>,
    drift: Arc<DriftList>,
    /// Entries with lower numbers were written by a program that knew no expectations.
    expected_since: AtomicU64,
}

/// Why merges are to be aborted.
#[derive(Default)]
struct BrokenOff {
    /// The store is closed.
    ends: AtomicBool,
    /// Others need the space.
    held: AtomicBool,
}

impl BrokenOff {
    fn is(&self) -> bool {
        self.ends.load(Ordering::Relaxed) || self.held.load(Ordering::Relaxed)
    }
}

/// The ids known to one durable cut. Versions share what did not change.
#[derive(Default, Clone)]
pub(crate) struct Known {
    /// That of the cut.
    catalog: Option<Catalog>,
    alive: SharedMap<u32, ()>,
    /// Those of `alive` that no cut knows: tables being copied.
    copied: BTreeSet<u32>,
    /// Ids from here on have not been assigned yet.
    next: u32,
    /// For alive tables that have or had indexes.
    indexes: SharedMap<u32, Arc<KnownIndexes>>,
}

/// The index ids of one table.
#[derive(Default, Clone)]
struct KnownIndexes {
    alive: BTreeSet<u16>,
    /// Ids above this have not been assigned yet.
    given: u16,
}

impl Known {
    pub(crate) fn is_dead(&self, id: u32) -> bool {
        id < self.next && !self.alive.contains_key(&id)
    }

    /// Whether entries of an index of an alive table are dead. Index id 0 is the rows.
    fn is_dead_index(&self, table: u32, index: u16) -> bool {
        let indexes = self.indexes.get(&table);
        index > 0 && indexes.is_some_and(|known| index <= known.given && !known.alive.contains(&index))
    }

    pub(crate) fn is_dead_key(&self, key: &[u8]) -> bool {
        let Some(table) = key_codec::table_of(key) else { return false };
        self.is_dead(table) || key_codec::index_of(key).is_some_and(|index| self.is_dead_index(table, index))
    }

    /// Whether any id of the range (inclusive) is not dead.
    fn any_alive(&self, first: u32, last: u32) -> bool {
        last >= self.next || self.alive.keys_from(&first).next().is_some_and(|id| *id <= last)
    }

    /// Whether all ids of the range (inclusive) are dead.
    pub(crate) fn is_dead_range(&self, first: u32, last: u32) -> bool {
        first > last || !self.any_alive(first, last)
    }

    fn keep(&mut self, copied: u32) {
        self.copied.insert(copied);
        self.alive.insert(copied, ());
    }

    /// The highest id that was assigned; None if there is none.
    pub(crate) fn highest(&self) -> Option<u32> {
        self.next.checked_sub(1)
    }

    /// Whether all entries between two keys are dead.
    pub(crate) fn all_dead(&self, first: &[u8], last: &[u8]) -> bool {
        match (key_codec::table_of(first), key_codec::table_of(last)) {
            (Some(table), Some(same)) if table == same && !self.is_dead(table) => {
                let (first, last) = (key_codec::index_of(first), key_codec::index_of(last));
                first.zip(last).is_some_and(|(first, last)| (first..=last).all(|id| self.is_dead_index(table, id)))
            }
            (Some(first), Some(last)) => !self.any_alive(first, last),
            _ => false,
        }
    }

    /// Whether the first or the last of these entries is dead.
    pub(crate) fn dead_at_ends(&self, first: &[u8], last: &[u8]) -> bool {
        [first, last].iter().any(|key| self.is_dead_key(key))
    }
}

impl KnownIndexes {
    fn of(table: &TableDef) -> KnownIndexes {
        let ids = |set: IndexSet| set.indexes().iter().map(Index::id).collect();
        KnownIndexes { alive: IndexSet::of(table).map(ids).unwrap_or_default(), given: table.index_ids_given }
    }
}

impl DeadRows {
    pub(crate) fn new(drift: DriftList) -> DeadRows {
        DeadRows {
            known: Mutex::default(),
            copied: Mutex::default(),
            broken_off: Arc::default(),
            drift: Arc::new(drift),
            expected_since: AtomicU64::new(u64::MAX),
        }
    }

    pub(crate) fn drift(&self) -> &DriftList {
        &self.drift
    }

    /// Number of the tree from which entries say what is expected below them.
    pub(crate) fn expected_since(&self) -> u64 {
        self.expected_since.load(Ordering::Acquire)
    }

    pub(crate) fn set_expected_since(&self, number: u64) {
        self.expected_since.store(number, Ordering::Release);
    }

    /// Sets the catalog of the last durable cut.
    pub(crate) fn set_alive(&self, catalog: &Catalog) {
        let copied = self.copied.lock().unwrap_or_else(PoisonError::into_inner);
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        let mut now = Known::clone(&known);
        let none = Catalog::new(catalog.lower_case_table_names());
        for change in catalog.changes_since(known.catalog.as_ref().unwrap_or(&none)) {
            let id = change.key.0;
            match change.after {
                Some(table) => {
                    now.alive.insert(id, ());
                    now.indexes.insert(id, Arc::new(KnownIndexes::of(table)));
                }
                None => {
                    now.alive.remove(&id);
                    now.indexes.remove(&id);
                }
            }
        }
        for id in std::mem::take(&mut now.copied) {
            if catalog.table_by_id(TableId(id)).is_none() {
                now.alive.remove(&id);
            }
        }
        copied.iter().for_each(|id| now.keep(*id));
        (now.catalog, now.next) = (Some(catalog.clone()), catalog.next_table_id().0);
        *known = Arc::new(now);
    }

    /// Keeps the rows of a table that is being copied, although no cut knows it.
    pub(crate) fn keep(&self, table: u32) {
        let mut copied = self.copied.lock().unwrap_or_else(PoisonError::into_inner);
        copied.insert(table);
        let mut known = self.known.lock().unwrap_or_else(PoisonError::into_inner);
        Arc::make_mut(&mut known).keep(table);
    }

    /// Ends the protection: the table is in the catalog now, or its copy was abandoned. The next cut decides.
    pub(crate) fn keep_no_more(&self, table: u32) {
        self.copied.lock().unwrap_or_else(PoisonError::into_inner).remove(&table);
    }

    /// See [`Disk::break_off_merges`](crate::Disk::break_off_merges).
    pub(crate) fn break_off(&self, break_off: bool) {
        self.broken_off.ends.store(break_off, Ordering::Relaxed);
    }

    pub(crate) fn is_broken_off(&self) -> bool {
        self.broken_off.is()
    }

    /// See [`Disk::hold_merges`](crate::Disk::hold_merges). Returns whether they were held before.
    pub(crate) fn hold_merges(&self, hold: bool) -> bool {
        self.broken_off.held.swap(hold, Ordering::Relaxed)
    }

    pub(crate) fn are_merges_held(&self) -> bool {
        self.broken_off.held.load(Ordering::Relaxed)
    }

    pub(crate) fn known(&self) -> Arc<Known> {
        Arc::clone(&self.known.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

impl Factory for DeadRows {
    fn name(&self) -> &str {
        "dead tables"
    }

    fn make_filter(&self, _: &Context) -> Box<dyn CompactionFilter> {
        Box::new(Filter {
            known: self.known(),
            broken_off: Arc::clone(&self.broken_off),
            drift: Arc::clone(&self.drift),
            expected_since: self.expected_since(),
            found: Findings::default(),
        })
    }
}

struct Filter {
    known: Arc<Known>,
    broken_off: Arc<BrokenOff>,
    drift: Arc<DriftList>,
    expected_since: u64,
    found: Findings,
}

impl Filter {
    /// What an entry says of what lies below it.
    #[inline]
    fn expected(&self, number: u64) -> Expected {
        if number < self.expected_since { Expected::Unknown } else { Expected::of_number(number) }
    }

    #[cold]
    fn found(&mut self, key: &[u8], expected: Expected) {
        // What lay below a dead row may be gone already.
        if self.known.is_dead_key(key) {
            return;
        }
        let kind = if expected == Expected::Row { DriftKind::Missing } else { DriftKind::Duplicate };
        self.found.push(Finding::new(key, kind));
    }
}

impl CompactionFilter for Filter {
    fn filter_item(&mut self, item: ItemAccessor<'_>, _: &Context) -> lsm_tree::Result<Verdict> {
        if self.broken_off.is() {
            return Err(lsm_tree::Error::Io(std::io::ErrorKind::Interrupted.into()));
        }
        let dead = self.known.is_dead_key(item.key());
        // Destroying the newest version exposes no older one: those of a dead id are dead too.
        Ok(if dead { Verdict::Destroy } else { Verdict::Keep })
    }

    /// The entry that remains has the newer row and the older expectation, which nothing was compared with yet.
    fn older_version(
        &mut self,
        key: &[u8],
        newer: ItemVersion<'_>,
        older: ItemVersion<'_>,
        _drained: bool,
    ) -> lsm_tree::Result<u64> {
        if !key_codec::is_row_key(key) {
            return Ok(newer.seqno);
        }
        let expected = self.expected(newer.seqno);
        if expected.is_broken(older.value.is_some()) {
            self.found(key, expected);
        }
        Ok(older.seqno)
    }

    fn oldest_version(&mut self, key: &[u8], item: ItemVersion<'_>) -> lsm_tree::Result<u64> {
        let expected = self.expected(item.seqno);
        if expected == Expected::Unknown || !key_codec::is_row_key(key) {
            return Ok(item.seqno);
        }
        if expected.is_broken(false) {
            self.found(key, expected);
        }
        Ok(Expected::without(item.seqno))
    }

    fn finish(mut self: Box<Self>) -> lsm_tree::Result<()> {
        Ok(self.found.save(&self.drift)?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn dead_is_what_the_last_cut_does_not_know_and_had_given() {
        let of_seven = KnownIndexes { alive: [2, 5].into_iter().collect(), given: 6 };
        let indexes = [(7, Arc::new(of_seven))].into_iter().collect();
        let alive = [(3, ()), (7, ())].into_iter().collect();
        let known = Known { alive, next: 9, indexes, ..Known::default() };
        let dead: Vec<u32> = (0..12).filter(|id| known.is_dead(*id)).collect();
        assert_eq!(dead, [0, 1, 2, 4, 5, 6, 8]);
        assert!(!known.is_dead(key_codec::RECORDS));
        let entry = |index: u16| [&7u32.to_be_bytes()[..], &index.to_be_bytes(), &[1]].concat();
        let dead: Vec<u16> = (0..9).filter(|index| known.is_dead_key(&entry(*index))).collect();
        assert_eq!(dead, [1, 3, 4, 6]);
        assert!(known.all_dead(&entry(3), &entry(4)) && known.dead_at_ends(&entry(4), &entry(5)));
        assert!(!known.all_dead(&entry(0), &entry(1)) && !known.all_dead(&entry(4), &entry(6)));
        let key = |id: u32| [id.to_be_bytes().as_slice(), &[0, 0, 1]].concat();
        assert!(known.all_dead(&key(4), &key(6)));
        assert!(!known.all_dead(&key(4), &key(7)));
        assert!(!known.all_dead(&key(8), &key(9)));
        assert!(known.dead_at_ends(&key(3), &key(4)));
        assert!(!known.dead_at_ends(&key(3), &key(7)));
    }
}
