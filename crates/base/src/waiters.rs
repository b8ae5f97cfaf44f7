//! A condition variable that knows who waits: to wake nobody is a system call too.
//!
//! In: the guard of the mutex that the condition is under, always of the same one. Out: who waits, woken. Invariant: who
//! found the condition false and began to wait under the lock is woken by who made it true under the lock
//! (`tests/interleavings`). Never here: the condition; a wake-up while the lock is held, where the woken would only wait
//! for that.

use std::sync::PoisonError;
use std::time::Duration;

use crate::sync::atomic::{AtomicUsize, Ordering};
use crate::sync::{Condvar, MutexGuard};

/// See the module.
#[derive(Debug, Default)]
pub struct Waiters {
    condvar: Condvar,
    // Both change under the lock only.
    /// Who waits, and nobody has woken.
    asleep: AtomicUsize,
    /// Who was woken and does not hold the lock yet.
    woken: AtomicUsize,
}

impl Waiters {
    /// Nobody waits.
    #[must_use]
    pub fn new() -> Waiters {
        Waiters::default()
    }

    /// Waits to be woken, or for nothing at all: the caller looks at its condition again.
    pub fn wait<'a, T>(&self, guard: MutexGuard<'a, T>) -> MutexGuard<'a, T> {
        self.begins();
        let guard = self.condvar.wait(guard).unwrap_or_else(PoisonError::into_inner);
        self.ends();
        guard
    }

    /// As [`wait`](Self::wait), for no longer than `timeout`.
    pub fn wait_timeout<'a, T>(&self, guard: MutexGuard<'a, T>, timeout: Duration) -> MutexGuard<'a, T> {
        self.begins();
        let guard = self.condvar.wait_timeout(guard, timeout).unwrap_or_else(PoisonError::into_inner).0;
        self.ends();
        guard
    }

    /// Whether anybody waits whom nobody has woken. Under the lock.
    #[must_use]
    pub fn any(&self) -> bool {
        self.asleep.load(Ordering::Relaxed) > 0
    }

    /// Lets go of the lock and wakes one of those who wait.
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

    /// Lets go of the lock and wakes all who wait.
    pub fn wake_all<T>(&self, guard: MutexGuard<'_, T>) {
        let asleep = self.asleep.load(Ordering::Relaxed);
        self.asleep.store(0, Ordering::Relaxed);
        self.woken.fetch_add(asleep, Ordering::Relaxed);
        drop(guard);
        if asleep > 0 {
            self.condvar.notify_all();
        }
    }

    fn begins(&self) {
        self.asleep.fetch_add(1, Ordering::Relaxed);
    }

    /// Who ends without having been woken may take another's place among the woken: that one then leaves those asleep, and
    /// both counts are right again.
    fn ends(&self) {
        let of = if self.woken.load(Ordering::Relaxed) > 0 { &self.woken } else { &self.asleep };
        of.fetch_sub(1, Ordering::Relaxed);
    }
}
