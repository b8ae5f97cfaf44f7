//! The memory bound: bytes between split and publish.
//!
//! In: reservations in log order. Out: grants. Invariants: the oldest unfinished piece is always granted, so a piece
//! larger than the bound passes alone, and nothing waits for memory that a later piece holds; a thread flushes its
//! output before it waits here, since pieces it has queued but not announced may hold the memory.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use base::CountedCondvar;

/// Limits the bytes between split and publish.
pub struct MemoryGate {
    limit: u64,
    state: Mutex<State>,
    freed: CountedCondvar,
    before_waiting: OnceLock<Box<dyn Fn() + Send + Sync>>,
    waits: AtomicU64,
    peak: AtomicU64,
}

#[derive(Default)]
struct State {
    used: u64,
    open: bool,
}

/// Bytes reserved until dropped.
pub struct Reservation {
    gate: Arc<MemoryGate>,
    bytes: u64,
}

impl MemoryGate {
    /// Creates a gate for `limit` bytes.
    #[must_use]
    pub fn new(limit: u64) -> Arc<MemoryGate> {
        Arc::new(MemoryGate {
            limit,
            state: Mutex::default(),
            freed: CountedCondvar::new(),
            before_waiting: OnceLock::new(),
            waits: AtomicU64::new(0),
            peak: AtomicU64::new(0),
        })
    }

    /// Sets the callback that runs before a wait. It must flush the waiter's output: otherwise the memory held by
    /// pieces queued there is never freed.
    pub fn flush_before_waiting(&self, flush: impl Fn() + Send + Sync + 'static) {
        let _ = self.before_waiting.set(Box::new(flush));
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until `bytes` fit or nothing is reserved. Called by one thread, in log order.
    #[must_use]
    pub fn reserve(self: &Arc<Self>, bytes: u64) -> Reservation {
        let mut state = self.lock();
        let full = |state: &State| state.used > 0 && state.used.saturating_add(bytes) > self.limit && !state.open;
        if full(&state) {
            self.waits.fetch_add(1, Ordering::Relaxed);
            drop(state);
            if let Some(flush) = self.before_waiting.get() {
                flush();
            }
            state = self.lock();
            while full(&state) {
                state = self.freed.wait(state);
            }
        }
        self.take(state, bytes);
        Reservation { gate: Arc::clone(self), bytes }
    }

    fn take(&self, mut state: MutexGuard<'_, State>, bytes: u64) {
        state.used = state.used.saturating_add(bytes);
        self.peak.fetch_max(state.used, Ordering::Relaxed);
    }

    /// Ends all waits: replay ends, and reserved memory may never be freed in order.
    pub fn open(&self) {
        let mut state = self.lock();
        state.open = true;
        self.freed.wake_all(state);
    }

    /// Bytes reserved now.
    #[must_use]
    pub fn used(&self) -> u64 {
        self.lock().used
    }

    /// Peak of reserved bytes.
    #[must_use]
    pub fn peak(&self) -> u64 {
        self.peak.load(Ordering::Relaxed)
    }

    /// Number of pieces that had to wait.
    #[must_use]
    pub fn waits(&self) -> u64 {
        self.waits.load(Ordering::Relaxed)
    }
}

impl Reservation {
    /// Bytes reserved.
    #[must_use]
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Reserves more without waiting, for what decoding adds: this piece is granted already, and later ones wait for
    /// it.
    pub fn grow(&mut self, bytes: u64) {
        self.gate.take(self.gate.lock(), bytes);
        self.bytes = self.bytes.saturating_add(bytes);
    }

    /// Takes so many of its bytes into a reservation of their own; all if it has fewer.
    pub(crate) fn split_off(&mut self, bytes: u64) -> Reservation {
        let bytes = bytes.min(self.bytes);
        self.bytes -= bytes;
        Reservation { gate: Arc::clone(&self.gate), bytes }
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        let mut state = self.gate.lock();
        state.used = state.used.saturating_sub(self.bytes);
        // Waking at 7/8 leaves room for several pieces, so not every piece costs a wake-up. A larger gap would leave
        // memory unused.
        if state.used <= self.gate.limit / 8 * 7 {
            self.gate.freed.wake_one(state);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::time::Duration;

    use super::*;

    #[test]
    fn what_does_not_fit_waits_until_enough_is_freed() {
        let gate = MemoryGate::new(100);
        let first = gate.reserve(60);
        let mut second = gate.reserve(40);
        second.grow(30);
        assert_eq!((gate.used(), second.bytes()), (130, 70));
        let (told, granted) = mpsc::channel();
        let waiter = {
            let gate = Arc::clone(&gate);
            std::thread::spawn(move || {
                let third = gate.reserve(50);
                told.send(()).unwrap();
                third
            })
        };
        assert!(granted.recv_timeout(Duration::from_millis(20)).is_err());
        drop(first);
        assert!(granted.recv_timeout(Duration::from_millis(20)).is_err(), "70 + 50 are too many");
        drop(second);
        let third = waiter.join().unwrap();
        assert_eq!((gate.used(), gate.waits(), gate.peak()), (50, 1, 130));
        drop(third);
        assert_eq!(gate.used(), 0);
    }

    #[test]
    fn a_piece_larger_than_everything_goes_alone() {
        let gate = MemoryGate::new(10);
        assert_eq!(gate.reserve(1_000).bytes(), 1_000);
        assert_eq!((gate.used(), gate.waits()), (0, 0));
    }

    #[test]
    fn nobody_waits_at_an_open_gate() {
        let gate = MemoryGate::new(10);
        let held = gate.reserve(10);
        let waiter = {
            let gate = Arc::clone(&gate);
            std::thread::spawn(move || drop(gate.reserve(10)))
        };
        gate.open();
        waiter.join().unwrap();
        drop((held, gate.reserve(5)));
    }
}
