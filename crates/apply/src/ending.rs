//! How replay ends: asked to, or because a stage panicked. One value that all threads look at.

use std::sync::OnceLock;
use std::time::{Duration, Instant};

use crate::sync::atomic::{AtomicBool, Ordering};

/// After a request to stop, what is decoded already is applied for this long.
const HAND_ON: Duration = Duration::from_secs(1);
/// Then what the workers have in hand; together with one slice of a huge transaction under the 5 s a stop may take.
const APPLY: Duration = Duration::from_secs(3);

/// See the module.
#[derive(Debug, Default)]
pub struct Ending {
    asked: OnceLock<Instant>,
    broken: AtomicBool,
    closed: AtomicBool,
}

impl Ending {
    /// Somebody asked for the end.
    pub fn ask(&self) {
        self.asked.get_or_init(Instant::now);
    }

    /// A stage is gone: what it had in hand will never be finished.
    pub fn break_off(&self) {
        self.broken.store(true, Ordering::Release);
        self.ask();
    }

    /// Nothing more is sequenced; what is goes its way.
    pub fn close(&self) {
        self.closed.store(true, Ordering::Release);
    }

    /// No more log is taken.
    #[must_use]
    pub fn takes_no_more(&self) -> bool {
        self.is_asked() || self.closed.load(Ordering::Acquire)
    }

    /// Somebody asked for the end.
    #[must_use]
    pub fn is_asked(&self) -> bool {
        self.asked.get().is_some()
    }

    /// No more pieces are handed to the workers.
    #[must_use]
    pub fn stops_handing_on(&self) -> bool {
        self.is_broken() || self.asked_for(HAND_ON)
    }

    /// Workers drop what they have.
    #[must_use]
    pub fn gives_up(&self) -> bool {
        self.is_broken() || self.asked_for(APPLY)
    }

    fn is_broken(&self) -> bool {
        self.broken.load(Ordering::Acquire)
    }

    fn asked_for(&self, time: Duration) -> bool {
        self.asked.get().is_some_and(|asked| asked.elapsed() >= time)
    }
}
