//! When an engine that the disk has stopped is started again.
//!
//! In: trouble with the disk, free space, starts and their failures. Out: whether a start is due, and what it must
//! know. Never here: a wait, a start.

use std::time::{Duration, Instant};

use base::periods::{START_AGAIN_AFTER, START_AGAIN_AFTER_MAX};
use replica::{AfterDisk, DiskTrouble, Failure, StoppedByDisk};
use store::FreeSpace;

/// An engine that ran this long ends the row.
const ROW_ENDS_AFTER: Duration = Duration::from_secs(120);
/// A start on a full disk needs some space for its small files: this part of the reserve, within bounds.
const START_PART: u64 = 4;
const START_BYTES: std::ops::RangeInclusive<u64> = (256 << 10)..=(16 << 20);

/// Trouble with the disk, and the starts that followed.
#[derive(Debug, Default)]
pub struct DiskMend {
    after: AfterDisk,
    /// Starts in a row.
    starts: u32,
    last_start: Option<Instant>,
    /// Set once a start has failed for the disk, or behind trouble with it: when another one is due.
    next: Option<Instant>,
    /// Free bytes that were not enough; None if space was not the trouble.
    not_enough: Option<u64>,
}

impl DiskMend {
    /// Whether the engine that stopped is started again now. The first time at once; on a full disk once there is some
    /// space.
    pub fn is_due(&mut self, stopped: &StoppedByDisk, space: Option<FreeSpace>) -> bool {
        if self.last_start.is_some_and(|start| start.elapsed() >= ROW_ENDS_AFTER) {
            self.starts = 0;
        }
        let paused = self.last_start.is_some_and(|start| start.elapsed() < self.pause());
        if paused || stopped.trouble == DiskTrouble::Full && !has_some(space) {
            return false;
        }
        self.after.sync_failed |= stopped.trouble == DiskTrouble::SyncFailed;
        // Of two starts that did not get as far as the relay log, the earlier one knows what was durable.
        self.after.keep_up_to = self.after.keep_up_to.or(stopped.keep_up_to);
        self.starts += 1;
        self.last_start = Some(Instant::now());
        self.next = Some(Instant::now());
        true
    }

    /// What the next start must know.
    pub fn after(&self) -> AfterDisk {
        self.after
    }

    pub fn started(&mut self) {
        (self.after, self.next, self.not_enough) = (AfterDisk::default(), None, None);
    }

    /// A start has failed.
    pub fn start_failed(&mut self, failure: &Failure, free_bytes: Option<u64>) {
        // Not only for the disk: what keeps a start behind trouble with the disk from succeeding may pass too.
        if failure.disk.is_none() && self.next.is_none() {
            return;
        }
        self.after.sync_failed |= failure.disk == Some(DiskTrouble::SyncFailed);
        self.not_enough = free_bytes.filter(|_| failure.disk == Some(DiskTrouble::Full));
        self.starts += 1;
        self.last_start = Some(Instant::now());
        self.next = Some(Instant::now() + self.pause());
    }

    /// Whether a start that failed is tried again: after a pause, or at once where there was no space and there is
    /// more.
    pub fn may_start(&self, space: Option<FreeSpace>) -> bool {
        let Some(next) = self.next else { return false };
        let Some(before) = self.not_enough else { return Instant::now() >= next };
        let more = space.is_some_and(|space| space.free_bytes >= before.saturating_add(*START_BYTES.start()));
        has_some(space) && (more || Instant::now() >= next)
    }

    fn pause(&self) -> Duration {
        match self.starts.checked_sub(1) {
            None => Duration::ZERO,
            Some(doubled) => {
                START_AGAIN_AFTER.get().saturating_mul(1 << doubled.min(10)).min(START_AGAIN_AFTER_MAX.get())
            }
        }
    }
}

fn has_some(space: Option<FreeSpace>) -> bool {
    space.is_none_or(|space| {
        let least = (space.reserve_bytes / START_PART).clamp(*START_BYTES.start(), *START_BYTES.end());
        space.free_bytes >= least
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn space(free_bytes: u64) -> Option<FreeSpace> {
        Some(FreeSpace { free_bytes, total_bytes: 64 << 20, reserve_bytes: 3 << 20 })
    }

    fn stopped(trouble: DiskTrouble, offset: u64) -> StoppedByDisk {
        let keep_up_to = Some(relay_log::RelayPosition { file_number: 1, offset });
        StoppedByDisk { trouble, text: String::new(), keep_up_to }
    }

    #[test]
    fn the_first_start_is_at_once_and_the_next_ones_later() {
        let mut mend = DiskMend::default();
        assert!(mend.is_due(&stopped(DiskTrouble::SyncFailed, 7), space(0)));
        let after = AfterDisk { keep_up_to: stopped(DiskTrouble::Full, 7).keep_up_to, sync_failed: true };
        assert_eq!(mend.after(), after);
        mend.started();
        assert_eq!(mend.after(), AfterDisk::default());
        assert!(!mend.is_due(&stopped(DiskTrouble::SyncFailed, 7), space(0)), "a second later at the earliest");
        assert_eq!(mend.pause(), START_AGAIN_AFTER.get());
        mend.starts = 40;
        assert_eq!(mend.pause(), START_AGAIN_AFTER_MAX.get());
    }

    #[test]
    fn a_full_disk_is_started_on_with_some_space() {
        let mut mend = DiskMend::default();
        assert!(!mend.is_due(&stopped(DiskTrouble::Full, 9), space(100 << 10)));
        assert!(mend.is_due(&stopped(DiskTrouble::Full, 9), space(1 << 20)));
        let full = Failure { disk: Some(DiskTrouble::Full), ..Failure::error("full") };
        mend.start_failed(&full, Some(1 << 20));
        assert!(!mend.may_start(space(1 << 20)) && mend.may_start(space(2 << 20)));
        mend.next = Some(Instant::now());
        assert!(mend.may_start(space(1 << 20)), "not every limit shows in the number of free bytes");
        assert!(!mend.may_start(space(100 << 10)));
        // What was durable when the first engine stopped is kept.
        assert_eq!(mend.after().keep_up_to.map(|end| end.offset), Some(9));
        mend.started();
        mend.start_failed(&Failure::error("another reason"), None);
        assert!(!mend.may_start(space(2 << 20)), "an operator decides");
    }
}
