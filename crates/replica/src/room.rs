//! Room on the disk for what the source sends next, and how the room shrinks.
//!
//! In: the free space of the data folder's file system. Out: whether a transaction may be received, when the disk will
//! be full. Never here: a wait.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use store::{DiskSpace, FreeSpace};

/// Age at which a look at the disk is repeated: others write there too.
const LOOK_EVERY: Duration = Duration::from_millis(100);

/// What receiving waits for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SpaceNeed {
    /// Length of the next transaction.
    pub transaction_bytes: u64,
    /// When the source began it, by the source's clock: seconds since 1970.
    pub begun_s: u64,
    /// Bytes that must become free before it is received.
    pub lacks_bytes: u64,
}

pub(crate) struct Room {
    space: Arc<DiskSpace>,
    left_bytes: u64,
    looked: Option<Instant>,
}

impl Room {
    pub(crate) fn new(space: Arc<DiskSpace>) -> Room {
        Room { space, left_bytes: 0, looked: None }
    }

    /// Whether a transaction of this many bytes may be received: it then leaves the reserve alone.
    pub(crate) fn takes(&mut self, bytes: u64) -> bool {
        let is_old = self.looked.is_none_or(|looked| looked.elapsed() >= LOOK_EVERY);
        if is_old || bytes > self.left_bytes {
            self.looked = Some(Instant::now());
            self.left_bytes = self.space.look().map_or(u64::MAX, |space| space.above_reserve());
        }
        let left = self.left_bytes.checked_sub(bytes);
        self.left_bytes = left.unwrap_or(self.left_bytes);
        left.is_some()
    }

    /// What a receiver that waits for room for this many bytes still lacks; 0 if it goes on.
    pub(crate) fn lacks(&mut self, bytes: u64) -> u64 {
        self.looked = None;
        let Some(space) = self.space.look() else { return 0 };
        bytes.saturating_add(space.goes_on_with()).saturating_sub(space.above_reserve())
    }

    /// The space now; None if the system does not say.
    pub(crate) fn look(&self) -> Option<FreeSpace> {
        self.space.look()
    }
}

/// Interval between samples, and how many are kept: an hour.
const SAMPLE_EVERY: Duration = Duration::from_secs(60);
const SAMPLES: usize = 60;
/// A trend over less time says nothing: one large transaction, cut or merge decides it.
const TREND_MIN: Duration = Duration::from_secs(55 * 60);

/// How fast free space shrinks.
#[derive(Debug, Default)]
pub(crate) struct SpaceTrend {
    /// Oldest first.
    samples: VecDeque<(Instant, u64)>,
}

impl SpaceTrend {
    /// Adds a sample if the last one is old enough.
    pub(crate) fn note(&mut self, now: Instant, free_bytes: u64) {
        if self.samples.back().is_some_and(|(last, _)| now.duration_since(*last) < SAMPLE_EVERY) {
            return;
        }
        if self.samples.len() == SAMPLES {
            self.samples.pop_front();
        }
        self.samples.push_back((now, free_bytes));
    }

    /// Time until only the reserve is free, at the mean rate of the last hour. None if space does not shrink, or there
    /// is no trend yet.
    pub(crate) fn full_in(&self, now: Instant, space: &FreeSpace) -> Option<Duration> {
        let (since, before) = *self.samples.front()?;
        let passed = now.duration_since(since);
        let used = before.checked_sub(space.free_bytes).filter(|used| *used > 0 && passed >= TREND_MIN)?;
        let seconds = space.above_reserve() as f64 / (used as f64 / passed.as_secs_f64());
        // More than a year is noise.
        (seconds < 3.2e7).then(|| Duration::from_secs_f64(seconds))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_receiver_leaves_the_reserve_alone_and_goes_on_above_it() {
        let folder = tempfile::tempdir().unwrap();
        let free = DiskSpace::new(folder.path(), Some(0)).look().unwrap().free_bytes;
        let room = |reserve| Room::new(Arc::new(DiskSpace::new(folder.path(), Some(reserve))));
        let mut half = room(free / 2);
        assert!(half.takes(1000) && half.takes(free / 4));
        assert!(!half.takes(free / 4 * 3));
        assert!(half.lacks(free) > 0 && half.lacks(1000) == 0);
        let mut none = room(u64::MAX);
        assert!(!none.takes(1) && none.lacks(1) > (64 << 20));
    }

    #[test]
    fn the_trend_is_that_of_the_last_hour() {
        let (start, mut trend) = (Instant::now(), SpaceTrend::default());
        let at = |minutes: u64| start + Duration::from_secs(60 * minutes);
        let space = |free_bytes| FreeSpace { free_bytes, total_bytes: 1 << 40, reserve_bytes: 1000 };
        assert_eq!(trend.full_in(at(0), &space(9000)), None);
        // 100 bytes a minute for two hours, then 50.
        for minute in 0..120 {
            trend.note(at(minute), 100_000 - 100 * minute);
            trend.note(at(minute) + Duration::from_secs(3), 1);
        }
        assert_eq!(trend.samples.len(), 60);
        let full_in = trend.full_in(at(120), &space(88_000)).unwrap().as_secs() / 60;
        assert_eq!(full_in, 870);
        assert_eq!(trend.full_in(at(120), &space(94_001)), None, "it grew");
        assert_eq!(SpaceTrend { samples: [(start, 9000)].into() }.full_in(at(4), &space(8000)), None, "too early");
    }
}
