//! How replay ends: on request, or because a stage panicked. One value that all threads poll.

use std::sync::OnceLock;
use std::time::{Duration, Instant};

use crate::sync::atomic::{AtomicBool, Ordering};

/// Time after a stop request during which decoded pieces are still handed to the workers.
const HAND_ON: Duration = Duration::from_secs(1);
/// Time after a stop request during which workers still finish what they hold. Together with one slice of a huge
/// transaction it stays under the 5 s that a stop may take.
const APPLY: Duration = Duration::from_secs(3);

/// Why and since when replay is ending.
#[derive(Debug, Default)]
pub struct Shutdown {
    asked: OnceLock<Instant>,
    broken: AtomicBool,
    closed: AtomicBool,
}

impl Shutdown {
    /// Requests the end of replay. The deadlines count from the first request.
    pub fn ask(&self) {
        self.asked.get_or_init(Instant::now);
    }

    /// Ends replay because a stage is gone: the work it held will never be finished.
    pub fn break_off(&self) {
        self.broken.store(true, Ordering::Release);
        self.ask();
    }

    /// Stops sequencing; pieces already sequenced still complete.
    pub fn close(&self) {
        self.closed.store(true, Ordering::Release);
    }

    /// True if no more of the log is read.
    #[must_use]
    pub fn stops_reading(&self) -> bool {
        self.is_asked() || self.closed.load(Ordering::Acquire)
    }

    /// True if the end was requested, or a stage is gone.
    #[must_use]
    pub fn is_asked(&self) -> bool {
        self.asked.get().is_some()
    }

    /// True if no more pieces are handed to the workers.
    #[must_use]
    pub fn stops_handing_on(&self) -> bool {
        self.is_broken() || self.asked_for(HAND_ON)
    }

    /// True if workers abandon what they hold.
    #[must_use]
    pub fn stops_applying(&self) -> bool {
        self.is_broken() || self.asked_for(APPLY)
    }

    fn is_broken(&self) -> bool {
        self.broken.load(Ordering::Acquire)
    }

    fn asked_for(&self, time: Duration) -> bool {
        self.asked.get().is_some_and(|asked| asked.elapsed() >= time)
    }
}
