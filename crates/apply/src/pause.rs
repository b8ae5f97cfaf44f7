//! Pausing replay: pieces are held back before they are sequenced, while receiving continues.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};

use decode::DecodedPiece;

use crate::shutdown::Shutdown;

/// Whether replay is paused, and what waits meanwhile.
pub(crate) struct Pause {
    shutdown: Arc<Shutdown>,
    paused: Mutex<bool>,
    resumed: Condvar,
    /// Source commit time of the first transaction in the waiting piece, in µs; 0 if none waits.
    held_commit_us: AtomicU64,
}

impl Pause {
    pub(crate) fn new(shutdown: &Arc<Shutdown>) -> Pause {
        Pause {
            shutdown: Arc::clone(shutdown),
            paused: Mutex::new(false),
            resumed: Condvar::new(),
            held_commit_us: AtomicU64::new(0),
        }
    }

    /// Blocks while replay is paused. `before_waiting` is called first if it must wait. False if replay ends meanwhile: a
    /// pause keeps what comes after it from being seen, so the piece is not handed on.
    #[must_use]
    pub(crate) fn wait(&self, piece: &DecodedPiece, before_waiting: impl FnOnce()) -> bool {
        let mut paused = self.paused.lock().unwrap_or_else(PoisonError::into_inner);
        let waits = *paused;
        if waits {
            before_waiting();
            let first = piece.transactions.iter().map(|transaction| transaction.commit_us).find(|at| *at > 0);
            self.held_commit_us.store(first.unwrap_or(0), Ordering::Relaxed);
        }
        while *paused && !self.shutdown.is_asked() {
            paused = self.resumed.wait(paused).unwrap_or_else(PoisonError::into_inner);
        }
        drop(paused);
        self.held_commit_us.store(0, Ordering::Relaxed);
        !waits || !self.shutdown.is_asked()
    }

    pub(crate) fn set(&self, to: bool) {
        *self.paused.lock().unwrap_or_else(PoisonError::into_inner) = to;
        self.resumed.notify_all();
    }

    pub(crate) fn is_on(&self) -> bool {
        *self.paused.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Source commit time of the piece that is held back, in µs.
    pub(crate) fn held_commit_us(&self) -> Option<u64> {
        let held = self.held_commit_us.load(Ordering::Relaxed);
        (held > 0).then_some(held)
    }
}
