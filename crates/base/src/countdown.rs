//! Which of several threads is the last to be done.
//!
//! In: word of every part that is done. Out: true to the last, once. Invariant: the last sees everything that the others
//! did before their word (`tests/interleavings`). Never here: a wait.

use crate::sync::atomic::{AtomicUsize, Ordering};

/// See the module.
#[derive(Debug)]
pub struct Countdown {
    open: AtomicUsize,
}

impl Countdown {
    /// So many parts are open.
    #[must_use]
    pub fn new(parts: usize) -> Countdown {
        Countdown { open: AtomicUsize::new(parts) }
    }

    /// One part more, by a thread whose own is open: else the last may have been told already.
    pub fn add(&self) {
        self.open.fetch_add(1, Ordering::Relaxed);
    }

    /// A part is done. True when it was the last: all that was done before any part's word is seen from here on.
    #[must_use]
    pub fn done(&self) -> bool {
        self.open.fetch_sub(1, Ordering::AcqRel) == 1
    }

    /// Parts that are open, as somebody who takes no part sees it.
    #[must_use]
    pub fn open(&self) -> usize {
        self.open.load(Ordering::Relaxed)
    }
}
