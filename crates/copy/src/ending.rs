//! Why a copy's threads read no further.
//!
//! In: word that the copy is to end, or that its snapshot is too old. Out: both. Invariant: who sees that it ends because
//! of its age sees that it is too old (`tests/interleavings`): else a copy to be tried again would be told as stopped.

use crate::sync::atomic::{AtomicBool, Ordering};

/// See the module.
#[derive(Default)]
pub(crate) struct Ending {
    ending: AtomicBool,
    expired: AtomicBool,
}

impl Ending {
    /// A failure, or somebody asked for it.
    pub(crate) fn end(&self) {
        self.ending.store(true, Ordering::Release);
    }

    /// The snapshot is too old.
    pub(crate) fn expire(&self) {
        self.expired.store(true, Ordering::Relaxed);
        self.end();
    }

    pub(crate) fn is_ending(&self) -> bool {
        self.ending.load(Ordering::Acquire)
    }

    pub(crate) fn is_expired(&self) -> bool {
        self.expired.load(Ordering::Relaxed)
    }
}
