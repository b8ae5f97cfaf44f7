//! What became of the changes of a copied table.
//!
//! In: word of changes handed on, applied, and not fitting. Out: whether all are applied, and whether all fitted.
//! Invariant: who sees that all are applied sees what did not fit (`tests/interleavings`), so that a copy that lacks a
//! change is never switched to.

use std::sync::PoisonError;

use crate::sync::Mutex;
use crate::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// See the module.
#[derive(Debug, Default)]
pub struct CopyTrack {
    /// Pieces handed on and not applied by all workers.
    in_flight: AtomicU64,
    failed: AtomicBool,
    reason: Mutex<String>,
}

impl CopyTrack {
    /// Told before the piece is on its way.
    pub(crate) fn handed_on(&self) {
        self.in_flight.fetch_add(1, Ordering::AcqRel);
    }

    pub(crate) fn fail(&self, reason: String) {
        let mut first = self.reason.lock().unwrap_or_else(PoisonError::into_inner);
        if !self.failed.swap(true, Ordering::AcqRel) {
            *first = reason;
        }
    }

    pub(crate) fn done(&self) {
        self.in_flight.fetch_sub(1, Ordering::AcqRel);
    }

    /// Whether all that was handed on is applied.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.in_flight.load(Ordering::Acquire) == 0
    }

    /// What did not fit, if anything.
    #[must_use]
    pub fn reason(&self) -> Option<String> {
        let reason = || self.reason.lock().unwrap_or_else(PoisonError::into_inner).clone();
        self.failed.load(Ordering::Acquire).then(reason)
    }
}
