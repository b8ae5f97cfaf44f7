//! Free space of the data folder's file system, and the part of it that only what frees space may use.
//!
//! In: a folder, the size of the reserve. Out: what is free now, promises of space to merges. Never here: a wait, a
//! decision what to do without space.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

/// Upper bound of the default reserve, in bytes.
const RESERVE_MAX: u64 = 10 << 30;
/// The default reserve is one part in this many of the file system.
const RESERVE_PART: u64 = 20;
/// What waits goes on once this part of the reserve is free above it: it would otherwise begin anew for each
/// transaction.
const GOES_ON_PART: u64 = 8;
const GOES_ON_BYTES: std::ops::RangeInclusive<u64> = (64 << 10)..=(64 << 20);

/// Space of a file system, in bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FreeSpace {
    /// Free for this process.
    pub free_bytes: u64,
    /// Size of the file system.
    pub total_bytes: u64,
    /// Kept for cuts, purges and merges of the newest runs.
    pub reserve_bytes: u64,
}

impl FreeSpace {
    /// Bytes above the reserve.
    #[must_use]
    pub fn above_reserve(&self) -> u64 {
        self.free_bytes.saturating_sub(self.reserve_bytes)
    }

    /// Bytes above the reserve with which what waited for space goes on.
    #[must_use]
    pub fn goes_on_with(&self) -> u64 {
        (self.reserve_bytes / GOES_ON_PART).clamp(*GOES_ON_BYTES.start(), *GOES_ON_BYTES.end())
    }

    /// True if there is less than what waits for space goes on with.
    #[must_use]
    pub fn is_short(&self) -> bool {
        self.above_reserve() < self.goes_on_with()
    }
}

/// The file system of a folder. Shared by all who write there.
#[derive(Debug)]
pub struct DiskSpace {
    folder: PathBuf,
    /// None: the default.
    reserve: Option<u64>,
    /// Bytes that running merges may still need.
    promised: AtomicU64,
}

/// Space that a merge may need, until it is dropped.
pub(crate) struct Promise<'a> {
    space: &'a DiskSpace,
    bytes: u64,
}

impl Drop for Promise<'_> {
    fn drop(&mut self) {
        self.space.promised.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

/// Who asks for space.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Claim {
    /// A merge that cuts wait for: it may use the reserve.
    Near,
    Other,
}

impl DiskSpace {
    /// The file system of `folder`, which exists. `reserve` in bytes; None: 5 % of the file system, at most 10 GiB.
    #[must_use]
    pub fn new(folder: &Path, reserve: Option<u64>) -> DiskSpace {
        DiskSpace { folder: folder.to_owned(), reserve, promised: AtomicU64::new(0) }
    }

    /// What is free now; None if the system does not say, in which case nobody waits.
    #[must_use]
    pub fn look(&self) -> Option<FreeSpace> {
        let facts = rustix::fs::statvfs(&self.folder).ok()?;
        let total_bytes = facts.f_blocks.saturating_mul(facts.f_frsize);
        let free_bytes = facts.f_bavail.saturating_mul(facts.f_frsize);
        let reserve_bytes = self.reserve.unwrap_or((total_bytes / RESERVE_PART).min(RESERVE_MAX));
        // A file system that does not count (some network and pseudo ones) reports no blocks at all.
        (total_bytes > 0).then_some(FreeSpace { free_bytes, total_bytes, reserve_bytes })
    }

    /// Promises a merge of this many bytes their size once more; None if there is less.
    pub(crate) fn promise(&self, bytes: u64, claim: Claim) -> Option<Promise<'_>> {
        let before = self.promised.fetch_add(bytes, Ordering::Relaxed);
        let promise = Promise { space: self, bytes };
        let Some(space) = self.look() else { return Some(promise) };
        let free = if claim == Claim::Near { space.free_bytes } else { space.above_reserve() };
        (before.saturating_add(bytes) <= free).then_some(promise)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn promises_add_up_and_end() {
        let folder = tempfile::tempdir().unwrap();
        let space = DiskSpace::new(folder.path(), Some(u64::MAX));
        let free = space.look().unwrap().free_bytes;
        assert_eq!(space.look().unwrap().above_reserve(), 0);
        assert!(space.promise(1, Claim::Other).is_none(), "the reserve is not for other merges");
        let first = space.promise(free / 4 * 3, Claim::Near).unwrap();
        assert!(space.promise(free / 2, Claim::Near).is_none(), "promised twice");
        drop(first);
        assert!(space.promise(free / 2, Claim::Near).is_some());
        assert_eq!(space.promised.load(Ordering::Relaxed), 0);
    }

    #[test]
    fn the_default_reserve_is_a_part_of_the_disk() {
        let folder = tempfile::tempdir().unwrap();
        let space = DiskSpace::new(folder.path(), None).look().unwrap();
        assert_eq!(space.reserve_bytes, (space.total_bytes / 20).min(10 << 30));
        assert!(DiskSpace::new(Path::new("/proc/self"), None).look().is_none(), "a file system without blocks");
    }
}
