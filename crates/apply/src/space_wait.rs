//! A write of the store that waits for disk space.
//!
//! In: a write that found the disk full. Out: when to try it again. Never here: a second opening of the tree, a wait
//! after a failed sync, a wait that outlasts replay.

use std::sync::Arc;
use std::time::{Duration, Instant};

use base::periods::{WRITE_AGAIN_AFTER, WRITE_AGAIN_AFTER_MAX};
use store::{Disk, StoreError};

use crate::shutdown::Shutdown;

/// Interval between two looks at the disk.
const LOOK: Duration = Duration::from_millis(50);
/// The next try comes once this much more is free than there was.
const MORE_BYTES: u64 = 256 << 10;

/// The wait of one write. While it lasts, no merge runs: the write comes first.
pub(crate) struct SpaceWait<'a> {
    disk: &'a Arc<Disk>,
    tries: u32,
}

impl<'a> SpaceWait<'a> {
    pub(crate) fn new(disk: &'a Arc<Disk>) -> SpaceWait<'a> {
        SpaceWait { disk, tries: 0 }
    }

    /// Frees what failed writes left, and waits until another try makes sense: at once the first time, later until more
    /// is free than was, or for a while. False when replay ends first. `waits` is called before the wait.
    ///
    /// # Errors
    /// What failed writes left cannot be removed.
    pub(crate) fn until_next_try(&mut self, shutdown: &Shutdown, waits: impl FnOnce()) -> Result<bool, StoreError> {
        self.disk.hold_merges(true);
        self.disk.remove_unnamed()?;
        self.tries += 1;
        if self.tries == 1 {
            return Ok(!shutdown.stops_handing_on());
        }
        waits();
        let free_bytes = || self.disk.space().and_then(|space| space.look()).map(|space| space.free_bytes);
        let pause =
            WRITE_AGAIN_AFTER.get().saturating_mul(1 << (self.tries - 2).min(10)).min(WRITE_AGAIN_AFTER_MAX.get());
        let (before, until) = (free_bytes(), Instant::now() + pause);
        while !shutdown.stops_handing_on() {
            std::thread::sleep(LOOK);
            let more = before.zip(free_bytes()).is_some_and(|(before, now)| now >= before.saturating_add(MORE_BYTES));
            if more || Instant::now() >= until {
                return Ok(true);
            }
        }
        Ok(false)
    }
}

impl Drop for SpaceWait<'_> {
    fn drop(&mut self) {
        if self.tries > 0 {
            self.disk.hold_merges(false);
        }
    }
}
