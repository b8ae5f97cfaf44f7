//! Compaction's steps, as its threads take them.
//!
//! In: the levels of the tree, the oldest number that a reader uses. Out: a merge or a move, published. Never here: the
//! decision which runs are merged (`policy`) or which rows are dropped (`filter`).

use std::io::ErrorKind;
use std::sync::atomic::Ordering;
use std::sync::{Arc, PoisonError};

use lsm_tree::compaction::{CompactionStrategy, DropTables, MoveDown, PullDown};
use lsm_tree::{AbstractTree, Slice};

use super::policy::{self, Level, Levels, Step};
use crate::disk::Disk;
use crate::disk_space::Claim;
use crate::error::StoreError;

const FILE_BYTES: u64 = 64 << 20;
/// Dead bytes below this do not justify a rewrite.
const DEAD_BYTES_MIN: u64 = 32 << 20;

/// Approximate cost of a range read per run.
const RUN_NS_PER_RANGE: u64 = 4_000;
/// Approximate cost of merging: 250 MB/s (`examples/compaction_cost.rs`).
const MERGE_NS_PER_BYTE: u64 = 4;

/// What became of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Taken {
    /// Nothing was due, or what was due reads a damaged file.
    No,
    /// The disk has no room for it.
    NoRoom,
    /// The tree has changed.
    Done,
}

impl Disk {
    /// Takes one compaction step, in whichever tier is due; false if none is. `oldest_read` is the oldest number in use
    /// by a reader.
    ///
    /// # Errors
    /// When the tree's files cannot be read or written.
    pub fn compact(&self, oldest_read: u64) -> Result<bool, StoreError> {
        Ok(self.compact_near(oldest_read, false)?
            || self.compact_middle(oldest_read, false)?
            || self.compact_deep(oldest_read, false)?)
    }

    /// Takes one step of the compaction that cuts depend on: drops files of dead tables, merges the newest runs. Waits
    /// for a concurrent call of itself, but never for the other two tiers. `idle`: no cut has come for a while.
    ///
    /// # Errors
    /// As [`compact`](Self::compact).
    pub fn compact_near(&self, oldest_read: u64, idle: bool) -> Result<bool, StoreError> {
        let _alone = self.near.lock().unwrap_or_else(PoisonError::into_inner);
        if self.drop_damaged()? {
            return Ok(true);
        }
        if let Some((first, last)) = self.dead_file() {
            let before = self.tree.current_version().id();
            self.tree.drop_range(first..=last).map_err(|error| self.fault(&error))?;
            // A file that is being merged is not dropped; the merge drops its dead rows.
            if self.is_past(before) {
                return Ok(true);
            }
        }
        self.step(oldest_read, Claim::Near, |levels| policy::near(levels, idle || self.reads_cost_more(levels)))
    }

    /// Takes one step of merging the results of [`compact_near`](Self::compact_near). Waits for a concurrent call of
    /// itself and, in a store that is still small, for [`compact_deep`](Self::compact_deep).
    ///
    /// # Errors
    /// As [`compact`](Self::compact).
    pub fn compact_middle(&self, oldest_read: u64, idle: bool) -> Result<bool, StoreError> {
        let _alone = self.middle.lock().unwrap_or_else(PoisonError::into_inner);
        self.step(oldest_read, Claim::Other, |levels| policy::middle(levels, idle || self.reads_cost_more(levels)))
    }

    /// Takes one step of merging large runs, which may take as long as writing the whole tree. Also false while another
    /// thread is in it.
    ///
    /// # Errors
    /// As [`compact`](Self::compact).
    pub fn compact_deep(&self, oldest_read: u64, idle: bool) -> Result<bool, StoreError> {
        let Ok(_alone) = self.deep.try_lock() else { return Ok(false) };
        self.deep_step(oldest_read, idle)
    }

    /// Takes every compaction step that would be due while cuts arrive, and waits for steps in other threads.
    ///
    /// # Errors
    /// As [`compact`](Self::compact).
    pub fn compact_until_idle(&self, oldest_read: u64) -> Result<(), StoreError> {
        loop {
            let near = self.compact_near(oldest_read, false)?;
            let middle = self.compact_middle(oldest_read, false)?;
            let _alone = self.deep.lock().unwrap_or_else(PoisonError::into_inner);
            if !self.deep_step(oldest_read, false)? && !near && !middle {
                return Ok(());
            }
        }
    }

    /// The caller holds `deep`.
    fn deep_step(&self, oldest_read: u64, idle: bool) -> Result<bool, StoreError> {
        if self.is_mostly_dead() && !self.damage_list().any() {
            let before = self.tree.current_version().id();
            self.rewrite_all(oldest_read)?;
            if self.is_past(before) {
                return Ok(true);
            }
        }
        if self.step(oldest_read, Claim::Other, |levels| policy::deep(levels, idle || self.reads_cost_more(levels)))? {
            return Ok(true);
        }
        let into_last = |levels: &_| policy::into_last(levels, idle || self.reads_cost_more(levels));
        // Checked without the lock first, because a merge of the middle tier may hold it for long, then again under it.
        if into_last(&self.levels()).is_none() {
            return Ok(false);
        }
        let _between = self.middle.lock().unwrap_or_else(PoisonError::into_inner);
        self.step(oldest_read, Claim::Other, into_last)
    }

    /// Merges everything that is on disk now into the last level, where what the log says of every row is compared with
    /// what is there. Cuts and other merges continue meanwhile, between its steps and beside them.
    ///
    /// # Errors
    /// As [`compact`](Self::compact).
    pub fn merge_into_last(&self, oldest_read: impl Fn() -> u64) -> Result<(), StoreError> {
        // Each tier has one step that merges and one that makes room for the result; a third is for a result that was
        // on its way. Runs of cuts that come meanwhile are not waited for.
        for _ in 0..3 {
            let _alone = self.near.lock().unwrap_or_else(PoisonError::into_inner);
            self.must_step(oldest_read(), Claim::Near, policy::near_all)?;
        }
        for _ in 0..3 {
            let _alone = self.middle.lock().unwrap_or_else(PoisonError::into_inner);
            self.must_step(oldest_read(), Claim::Other, policy::middle_all)?;
        }
        let _alone = self.deep.lock().unwrap_or_else(PoisonError::into_inner);
        for _ in 0..3 {
            self.must_step(oldest_read(), Claim::Other, policy::deep_all)?;
        }
        Ok(())
    }

    /// Aborts running merges, and prevents new ones until it is called with false.
    pub fn break_off_merges(&self, break_off: bool) {
        self.dead.break_off(break_off);
    }

    fn step(&self, oldest_read: u64, claim: Claim, due: impl Fn(&Levels) -> Option<Step>) -> Result<bool, StoreError> {
        self.take_step(oldest_read, claim, due).map(|taken| taken == Taken::Done)
    }

    /// As `step`, for a caller for whom having no room is an error.
    fn must_step(
        &self,
        oldest_read: u64,
        claim: Claim,
        due: impl Fn(&Levels) -> Option<Step>,
    ) -> Result<(), StoreError> {
        match self.take_step(oldest_read, claim, due)? {
            Taken::NoRoom => Err(StoreError::DiskFull { folder: self.folder().to_owned() }),
            Taken::No | Taken::Done => Ok(()),
        }
    }

    fn take_step(
        &self,
        oldest_read: u64,
        claim: Claim,
        due: impl Fn(&Levels) -> Option<Step>,
    ) -> Result<Taken, StoreError> {
        let before = self.tree.current_version().id();
        self.let_go();
        let Some(step) = due(&self.levels()).filter(|step| !self.reads_damage(*step)) else {
            self.wants_no_room(claim);
            return Ok(Taken::No);
        };
        let writes = self.writes();
        let Some(_promise) = self.room_for(self.input_bytes(step), claim) else { return Ok(Taken::NoRoom) };
        // Both strategies are meant for lsm-tree's own tests (its trait cannot be implemented outside the crate). They
        // take whole levels as they find them, so runs that reach level 0 between the check and the step are merged
        // too.
        let strategy: Arc<dyn CompactionStrategy> = match step {
            Step::Merge { from, to } => Arc::new(PullDown(from, to)),
            Step::Move { from, to } => Arc::new(MoveDown(from, to)),
        };
        let ended = self.end_of_merge(self.tree.compact(strategy, oldest_read));
        drop(writes);
        ended?;
        if matches!(step, Step::Merge { .. }) {
            self.ranges_read.store(0, Ordering::Relaxed);
        }
        Ok(if self.is_past(before) { Taken::Done } else { Taken::No })
    }

    /// Merges the whole tree, where the disk has room for it once more.
    fn rewrite_all(&self, oldest_read: u64) -> Result<(), StoreError> {
        let writes = self.writes();
        let Some(_promise) = self.room_for(self.tree.disk_space(), Claim::Other) else { return Ok(()) };
        let ended = self.end_of_merge(self.tree.major_compact(FILE_BYTES, oldest_read));
        drop(writes);
        ended
    }

    /// An aborted merge returns the error of the filter that aborted it, which counts as success. Any other error is a
    /// fault.
    fn end_of_merge(&self, result: lsm_tree::Result<()>) -> Result<(), StoreError> {
        match result {
            Err(lsm_tree::Error::Io(error)) if error.kind() == ErrorKind::Interrupted && self.dead.is_broken_off() => {
                Ok(())
            }
            // Nothing was installed, and no further merge reads the file.
            Err(lsm_tree::Error::InTable(file, error)) => {
                let error = self.fault(&lsm_tree::Error::InTable(file, error));
                if self.damage_list().is_damaged(file) { Ok(()) } else { Err(error) }
            }
            result => result.map_err(|error| self.fault(&error)),
        }
    }

    /// Whether a merge would read a damaged file.
    fn reads_damage(&self, step: Step) -> bool {
        let Step::Merge { from, to } = step else { return false };
        let damage = self.damage_list();
        if !damage.any() {
            return false;
        }
        let version = self.tree.current_version();
        let levels = (from..=to).filter_map(|level| version.level(usize::from(level)));
        levels.flat_map(|level| level.list_ids()).any(|file| damage.is_damaged(file))
    }

    /// Drops damaged files that nothing needs any more, unread.
    fn drop_damaged(&self) -> Result<bool, StoreError> {
        let damage = self.damage_list();
        if !damage.any() {
            return Ok(false);
        }
        let files = damage.not_needed(&self.dead.known());
        let before = self.tree.current_version().id();
        if !files.is_empty() {
            let drop: Arc<dyn CompactionStrategy> = Arc::new(DropTables(files));
            self.tree.compact(drop, 0).map_err(|error| self.fault(&error))?;
        }
        damage.note_removed();
        Ok(self.is_past(before))
    }

    /// Whether the tree has changed since this version. A cut that ended in the meantime counts too: one more check
    /// does no harm.
    fn is_past(&self, version: u64) -> bool {
        let did = self.tree.current_version().id() != version;
        if did {
            self.compacted.fetch_add(1, Ordering::Relaxed);
            // The content is the same under the new number; publishing it releases the old files.
            let version_lock = self.version_lock();
            self.take_over(&version_lock);
        }
        did
    }

    pub(crate) fn levels(&self) -> Levels {
        let version = self.tree.current_version();
        std::array::from_fn(|n| {
            let level = version.level(n);
            level.map_or_else(Level::default, |level| Level { runs: level.run_count(), bytes: level.size() })
        })
    }

    /// Whether the range reads since the last merge have cost more, for having many runs, than merging the runs would.
    fn reads_cost_more(&self, levels: &Levels) -> bool {
        let runs: usize = levels.iter().map(|level| level.runs).sum();
        let bytes: u64 = levels.iter().map(|level| level.bytes).sum();
        let lost_ns = self.ranges_read.load(Ordering::Relaxed) * runs.saturating_sub(1) as u64 * RUN_NS_PER_RANGE;
        lost_ns > bytes * MERGE_NS_PER_BYTE
    }

    /// First and last key of a file that holds only rows of dead tables.
    fn dead_file(&self) -> Option<(Slice, Slice)> {
        let known = self.dead.known();
        let version = self.tree.current_version();
        version.iter_tables().find_map(|file| {
            let range = &file.metadata.key_range;
            known.all_dead(range.min(), range.max()).then(|| (range.min().clone(), range.max().clone()))
        })
    }

    /// Whether files that begin or end with a dead table make up enough of the tree to justify rewriting it.
    fn is_mostly_dead(&self) -> bool {
        let known = self.dead.known();
        let version = self.tree.current_version();
        let (mut all, mut some_dead) = (0, 0);
        for file in version.iter_tables() {
            let range = &file.metadata.key_range;
            all += file.metadata.file_size;
            if known.dead_at_ends(range.min(), range.max()) {
                some_dead += file.metadata.file_size;
            }
        }
        some_dead > DEAD_BYTES_MIN && some_dead * 2 > all
    }

    /// Merges everything into one run, for measurements and tests.
    ///
    /// # Errors
    /// As `compact`.
    pub fn compact_fully(&self, oldest_read: u64) -> Result<(), StoreError> {
        self.tree.major_compact(FILE_BYTES, oldest_read).map_err(|error| self.fault(&error))?;
        let version_lock = self.version_lock();
        self.take_over(&version_lock);
        Ok(())
    }
}
