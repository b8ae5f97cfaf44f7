//! Room on the disk for merges, and what to do when it runs out all the same.
//!
//! In: a step of compaction, the free space. Out: a promise of space or none, a tree without the files of failed
//! writes. Never here: a file that a version or a view names is removed; a removal beside a write.

use std::collections::BTreeSet;
use std::fs;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use lsm_tree::AbstractTree;

use super::policy::Step;
use super::writes::{Alone, Writing};
use crate::disk::Disk;
use crate::disk_space::{Claim, DiskSpace, Promise};
use crate::error::StoreError;

/// How long a removal waits for a write in progress: a copy writes one file for minutes.
const WRITES_END_WITHIN: Duration = Duration::from_secs(5);
/// Interval between two looks whether something writes.
const LOOK: Duration = Duration::from_millis(5);

/// Bytes that merges want and do not get; 0: none.
#[derive(Debug, Default)]
pub(crate) struct Wanted {
    near: AtomicU64,
    other: AtomicU64,
}

impl Wanted {
    fn of(&self, claim: Claim) -> &AtomicU64 {
        match claim {
            Claim::Near => &self.near,
            Claim::Other => &self.other,
        }
    }
}

impl Disk {
    /// From here on a merge begins only where the sum of its inputs is free. Without this call all begin.
    pub fn watch_space(&self, space: Arc<DiskSpace>) {
        // Set once, by the one who opened the tree.
        let _ = self.space.set(space);
    }

    /// The space that is watched.
    #[must_use]
    pub fn space(&self) -> Option<&Arc<DiskSpace>> {
        self.space.get()
    }

    /// Bytes that the next merge needs and that are not free; 0 if no merge waits for space.
    #[must_use]
    pub fn merge_wants_bytes(&self) -> u64 {
        let Wanted { near, other } = &self.wanted;
        near.load(Ordering::Relaxed).max(other.load(Ordering::Relaxed))
    }

    /// Aborts running merges, and prevents new ones until it is called with false: what waits for space comes first.
    pub fn hold_merges(&self, hold: bool) {
        self.dead.hold_merges(hold);
    }

    /// Space for a merge of `bytes`. None: it must not begin. Some(None): nobody watches the space.
    #[allow(clippy::option_option, reason = "no promise is needed if the space is not watched")]
    pub(super) fn room_for(&self, bytes: u64, claim: Claim) -> Option<Option<Promise<'_>>> {
        let wanted = self.wanted.of(claim);
        let promise = match self.space.get() {
            _ if self.dead.are_merges_held() => None,
            None => Some(None),
            Some(space) => space.promise(bytes, claim).map(Some),
        };
        wanted.store(if promise.is_none() { bytes } else { 0 }, Ordering::Relaxed);
        promise
    }

    /// Nothing of this kind is due.
    pub(super) fn wants_no_room(&self, claim: Claim) {
        self.wanted.of(claim).store(0, Ordering::Relaxed);
    }

    /// Bytes of the files that a step reads.
    pub(super) fn input_bytes(&self, step: Step) -> u64 {
        let Step::Merge { from, to } = step else { return 0 };
        let levels = self.levels();
        levels.iter().take(usize::from(to) + 1).skip(usize::from(from)).map(|level| level.bytes).sum()
    }

    /// Held by all that write files of the tree.
    pub(crate) fn writes(&self) -> Writing<'_> {
        self.writing.begin()
    }

    /// Removes files of the tree that no version and no view names: what failed writes left. Aborts merges, and waits
    /// for other writes in progress; none is removed beside one that takes long. Returns the number of bytes removed.
    ///
    /// # Errors
    /// When the folder cannot be read or a file not be removed.
    pub fn remove_unnamed(&self) -> Result<u64, StoreError> {
        let was_held = self.dead.hold_merges(true);
        let alone = self.once_nothing_writes();
        let removed = alone.as_ref().map_or(Ok(0), |_| self.remove_but(&self.named_files()));
        drop(alone);
        self.dead.hold_merges(was_held);
        removed
    }

    fn once_nothing_writes(&self) -> Option<Alone<'_>> {
        let until = Instant::now() + WRITES_END_WITHIN;
        loop {
            let alone = self.writing.alone();
            if alone.is_some() || Instant::now() > until {
                return alone;
            }
            std::thread::sleep(LOOK);
        }
    }

    /// Numbers of the files in the versions that the tree keeps, and in the views.
    fn named_files(&self) -> BTreeSet<u64> {
        let mut named: BTreeSet<u64> = self.tree.get_version_history_lock().table_ids().collect();
        self.each_view(|view| named.extend(view.files()));
        named
    }

    fn remove_but(&self, named: &BTreeSet<u64>) -> Result<u64, StoreError> {
        let failed = |error: std::io::Error| StoreError::io(self.folder(), &error);
        let mut removed = 0;
        for entry in fs::read_dir(self.folder().join("tables")).map_err(failed)? {
            let entry = entry.map_err(failed)?;
            let number = entry.file_name().to_str().and_then(|name| name.parse::<u64>().ok());
            if number.is_none_or(|number| named.contains(&number)) {
                continue;
            }
            removed += entry.metadata().map_or(0, |metadata| metadata.len());
            fs::remove_file(entry.path()).map_err(failed)?;
        }
        Ok(removed)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::disk::of_three_runs;

    /// A run that was begun and not finished leaves a file; a merge for which there is no room does not begin.
    #[test]
    fn files_of_failed_writes_go_and_named_ones_stay() {
        let folder = tempfile::tempdir().unwrap();
        let disk = of_three_runs(folder.path(), 3000, |_, _| true);
        let before = disk.file_numbers();
        let mut run = disk.begin().unwrap();
        for key in 0..20_000u32 {
            run.put(&key.to_be_bytes(), &[7; 200]).unwrap();
        }
        drop(run);
        let tables = || fs::read_dir(folder.path().join("tables")).unwrap().count();
        assert_eq!(tables(), before.len() + 1);
        assert!(disk.remove_unnamed().unwrap() > 1_000_000);
        assert_eq!((tables(), disk.file_numbers()), (before.len(), before.clone()));
        disk.watch_space(Arc::new(DiskSpace::new(folder.path(), Some(u64::MAX))));
        let (near, deep) = (disk.l0_runs(), disk.merge_wants_bytes());
        assert_eq!((near, deep), (3, 0));
        disk.hold_merges(true);
        assert!(!disk.compact_near(0, true).unwrap() && disk.merge_wants_bytes() > 0);
        disk.hold_merges(false);
        assert!(disk.compact_near(0, true).unwrap(), "a near merge may use the reserve");
        assert_eq!(disk.merge_wants_bytes(), 0);
        while disk.compact_near(0, true).unwrap() {}
        assert!(!disk.compact_deep(0, true).unwrap() && disk.merge_wants_bytes() > 0, "into the reserve");
        assert!(matches!(disk.merge_into_last(|| 0), Err(StoreError::DiskFull { .. })));
    }
}
