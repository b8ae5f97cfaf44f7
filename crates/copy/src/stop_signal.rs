//! Why a copy's threads stop reading.
//!
//! In: a request to end the copy, or the fact that its snapshot is too old. Out: both flags. Invariant: a thread that
//! sees the copy end because of its snapshot's age also sees that it is too old (`tests/interleavings`); otherwise a
//! copy that should be retried would be reported as stopped. Never here: the error itself.

use crate::sync::atomic::{AtomicBool, Ordering};

/// Flags shared by a copy's threads.
#[derive(Default)]
pub(crate) struct StopSignal {
    stopping: AtomicBool,
    expired: AtomicBool,
}

impl StopSignal {
    /// Ends the copy because of a failure or on request.
    pub(crate) fn end(&self) {
        self.stopping.store(true, Ordering::Release);
    }

    /// Ends the copy because the snapshot is too old.
    // Before `end`, whose release store publishes it.
    pub(crate) fn expire(&self) {
        self.expired.store(true, Ordering::Relaxed);
        self.end();
    }

    pub(crate) fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Acquire)
    }

    pub(crate) fn is_expired(&self) -> bool {
        self.expired.load(Ordering::Relaxed)
    }
}
