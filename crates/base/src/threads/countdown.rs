//! Atomic countdown that tells the last of several threads that it is the last.
//!
//! In: one call per finished part. Out: true to the last caller, once. Invariant: the last caller sees everything that
//! the others did before their calls (`tests/interleavings`). Never here: a wait.

use crate::sync::atomic::{AtomicUsize, Ordering};

/// Number of parts that are still open. Created with all of them; each thread counts down its own.
#[derive(Debug)]
pub struct Countdown {
    open: AtomicUsize,
}

impl Countdown {
    /// Creates a countdown with `parts` open parts.
    #[must_use]
    pub fn new(parts: usize) -> Countdown {
        Countdown { open: AtomicUsize::new(parts) }
    }

    /// Adds a part. Only a thread whose own part is still open may call this; otherwise the last one may already have
    /// been told.
    pub fn add(&self) {
        self.open.fetch_add(1, Ordering::Relaxed);
    }

    /// Finishes a part. True if it was the last: everything done before the other calls is visible from here on.
    #[must_use]
    pub fn done(&self) -> bool {
        self.open.fetch_sub(1, Ordering::AcqRel) == 1
    }

    /// Number of open parts. Only a hint for threads that hold none.
    #[must_use]
    pub fn open(&self) -> usize {
        self.open.load(Ordering::Relaxed)
    }
}
