//! Progress and failure of the changes applied to a copied table.
//!
//! In: notifications of pieces handed on, applied, and failed. Out: whether all are applied, and whether all fitted.
//! Invariant: a thread that sees all pieces applied also sees any failure among them (`tests/interleavings`), so a
//! copy that lacks a change never takes the table's place.

use std::sync::PoisonError;

use crate::sync::Mutex;
use crate::sync::atomic::{AtomicBool, AtomicU64, Ordering};

/// Counts the pieces of a copy in flight and keeps its first failure.
#[derive(Debug, Default)]
pub struct CopyTrack {
    /// Pieces handed on that some worker has not applied.
    in_flight: AtomicU64,
    failed: AtomicBool,
    reason: Mutex<String>,
}

impl CopyTrack {
    /// Must be called before the piece is sent.
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
        // Release: pairs with the Acquire in `is_idle`, so that a failure noted before this call is visible to
        // whoever reads zero.
        self.in_flight.fetch_sub(1, Ordering::AcqRel);
    }

    /// True if every piece handed on is applied.
    #[must_use]
    pub fn is_idle(&self) -> bool {
        self.in_flight.load(Ordering::Acquire) == 0
    }

    /// The first failure, if any change did not fit.
    #[must_use]
    pub fn reason(&self) -> Option<String> {
        let reason = || self.reason.lock().unwrap_or_else(PoisonError::into_inner).clone();
        self.failed.load(Ordering::Acquire).then(reason)
    }
}
