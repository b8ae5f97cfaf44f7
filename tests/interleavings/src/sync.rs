//! `std::sync` as the product's parts use it, over loom, minus what [`Weakened`] removes.

use std::cell::Cell;
use std::sync::LockResult;
use std::time::Duration;

pub use loom::sync::{Arc, Mutex, MutexGuard};

use crate::Weakened;

thread_local! {
    // loom runs all threads of a model on the thread that calls it.
    static WEAKENED: Cell<Weakened> = const { Cell::new(Weakened::No) };
}

pub(crate) fn weaken(how: Weakened) {
    WEAKENED.set(how);
}

/// `store`'s exchanged `Arc`: one atomic step here, as `arc_swap` promises.
#[derive(Debug)]
pub struct SwappedArc<T>(Mutex<Arc<T>>);
impl<T> SwappedArc<T> {
    #[must_use]
    pub fn new(first: Arc<T>) -> SwappedArc<T> {
        SwappedArc(Mutex::new(first))
    }

    #[must_use]
    pub fn load(&self) -> Arc<T> {
        Arc::clone(&self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner))
    }

    #[must_use]
    pub fn swap(&self, next: Arc<T>) -> Arc<T> {
        std::mem::replace(&mut self.0.lock().unwrap_or_else(std::sync::PoisonError::into_inner), next)
    }
}

/// `std::sync::Condvar`.
#[derive(Debug, Default)]
pub struct Condvar(loom::sync::Condvar);

#[allow(clippy::missing_errors_doc)]
impl Condvar {
    #[must_use]
    pub fn new() -> Condvar {
        Condvar::default()
    }

    pub fn wait<'a, T>(&self, guard: MutexGuard<'a, T>) -> LockResult<MutexGuard<'a, T>> {
        self.0.wait(guard)
    }

    pub fn wait_timeout<'a, T>(
        &self,
        guard: MutexGuard<'a, T>,
        time: Duration,
    ) -> LockResult<(MutexGuard<'a, T>, loom::sync::WaitTimeoutResult)> {
        self.0.wait_timeout(guard, time)
    }

    pub fn notify_one(&self) {
        if WEAKENED.get() != Weakened::NoWakeUp {
            self.0.notify_one();
        }
    }

    pub fn notify_all(&self) {
        if WEAKENED.get() != Weakened::NoWakeUp {
            self.0.notify_all();
        }
    }
}

/// `std::sync::atomic`.
pub mod atomic {
    pub use std::sync::atomic::Ordering;

    use super::WEAKENED;
    use crate::Weakened;

    fn weaker(order: Ordering) -> Ordering {
        match (WEAKENED.get(), order) {
            (Weakened::NoRelease, Ordering::Release) | (Weakened::NoAcquire, Ordering::Acquire) => Ordering::Relaxed,
            (Weakened::NoRelease, Ordering::AcqRel) => Ordering::Acquire,
            (Weakened::NoAcquire, Ordering::AcqRel) => Ordering::Release,
            (_, order) => order,
        }
    }

    macro_rules! weakened {
        ($name:ident, $value:ty) => {
            #[derive(Debug, Default)]
            pub struct $name(loom::sync::atomic::$name);

            impl $name {
                #[must_use]
                pub fn new(value: $value) -> $name {
                    $name(loom::sync::atomic::$name::new(value))
                }

                #[must_use]
                pub fn load(&self, order: Ordering) -> $value {
                    self.0.load(weaker(order))
                }

                pub fn store(&self, value: $value, order: Ordering) {
                    self.0.store(value, weaker(order));
                }

                pub fn swap(&self, value: $value, order: Ordering) -> $value {
                    self.0.swap(value, weaker(order))
                }
            }
        };
    }

    macro_rules! counts {
        ($name:ident, $value:ty) => {
            impl $name {
                pub fn fetch_add(&self, value: $value, order: Ordering) -> $value {
                    self.0.fetch_add(value, weaker(order))
                }

                pub fn fetch_sub(&self, value: $value, order: Ordering) -> $value {
                    self.0.fetch_sub(value, weaker(order))
                }
            }
        };
    }

    weakened!(AtomicBool, bool);
    weakened!(AtomicU64, u64);
    weakened!(AtomicUsize, usize);
    counts!(AtomicU64, u64);
    counts!(AtomicUsize, usize);
}
