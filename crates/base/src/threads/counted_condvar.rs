//! Condition variable that counts its waiters, because `notify` costs a futex call even when nobody waits.
//!
//! In: guards of the mutex that protects the condition, always the same mutex. Out: waiters, woken. Invariant: a thread
//! that finds the condition false and starts to wait under the lock is woken by the thread that makes it true under the
//! lock (`tests/interleavings`). Never here: the condition itself; a wake-up while the lock is held, which would make
//! the woken thread wait for the lock.

use std::sync::PoisonError;
use std::time::Duration;

use crate::sync::atomic::{AtomicUsize, Ordering};
use crate::sync::{Condvar, MutexGuard};

/// Condition variable with a count of sleeping waiters. All methods expect guards of one and the same mutex.
#[derive(Debug, Default)]
pub struct CountedCondvar {
    condvar: Condvar,
    // Both counts change under the lock only.
    /// Waiters that nobody has woken.
    asleep: AtomicUsize,
    /// Waiters that were woken and do not hold the lock yet.
    woken: AtomicUsize,
}

impl CountedCondvar {
    /// Creates a condition variable without waiters.
    #[must_use]
    pub fn new() -> CountedCondvar {
        CountedCondvar::default()
    }

    /// Waits until woken. Wake-ups may be spurious: the caller checks its condition again.
    pub fn wait<'a, T>(&self, guard: MutexGuard<'a, T>) -> MutexGuard<'a, T> {
        self.enter();
        let guard = self.condvar.wait(guard).unwrap_or_else(PoisonError::into_inner);
        self.leave();
        guard
    }

    /// Like [`wait`](Self::wait), but returns after `timeout` at the latest.
    pub fn wait_timeout<'a, T>(&self, guard: MutexGuard<'a, T>, timeout: Duration) -> MutexGuard<'a, T> {
        self.enter();
        let guard = self.condvar.wait_timeout(guard, timeout).unwrap_or_else(PoisonError::into_inner).0;
        self.leave();
        guard
    }

    /// True if there is a waiter that nobody has woken. Call it under the lock.
    #[must_use]
    pub fn any(&self) -> bool {
        self.asleep.load(Ordering::Relaxed) > 0
    }

    /// Releases the lock and wakes one waiter.
    pub fn wake_one<T>(&self, guard: MutexGuard<'_, T>) {
        let wakes = self.any();
        if wakes {
            self.asleep.fetch_sub(1, Ordering::Relaxed);
            self.woken.fetch_add(1, Ordering::Relaxed);
        }
        drop(guard);
        if wakes {
            self.condvar.notify_one();
        }
    }

    /// Releases the lock and wakes all waiters.
    pub fn wake_all<T>(&self, guard: MutexGuard<'_, T>) {
        let asleep = self.asleep.load(Ordering::Relaxed);
        self.asleep.store(0, Ordering::Relaxed);
        self.woken.fetch_add(asleep, Ordering::Relaxed);
        drop(guard);
        if asleep > 0 {
            self.condvar.notify_all();
        }
    }

    fn enter(&self) {
        self.asleep.fetch_add(1, Ordering::Relaxed);
    }

    /// A waiter that times out may consume another's wake-up count; that other one then decrements `asleep`, so both
    /// sums stay correct.
    fn leave(&self) {
        let of = if self.woken.load(Ordering::Relaxed) > 0 { &self.woken } else { &self.asleep };
        of.fetch_sub(1, Ordering::Relaxed);
    }
}
