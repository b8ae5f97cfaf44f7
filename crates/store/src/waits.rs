//! How long readers and writers waited for a lane held by the other side.
//!
//! In: contended locks. Out: two histograms. Never here: a clock read on an uncontended lock, whose cost is unchanged.

use std::sync::{Mutex, PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard, TryLockError};
use std::time::Instant;

use hdrhistogram::Histogram;

/// Longer waits count as this, in ns.
const WAIT_NS_MAX: u64 = 60_000_000_000;

/// Waits of one side; locks taken without waiting are not counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WaitStats {
    pub count: u64,
    /// Median, in ns.
    pub p50_ns: u64,
    /// 99th percentile, in ns.
    pub p99_ns: u64,
    /// The longest, in ns.
    pub max_ns: u64,
}

/// Wait times of the readers and writers of lanes.
#[derive(Default)]
pub(crate) struct LaneWaits {
    pub readers: Waits,
    pub writers: Waits,
}

#[derive(Default)]
pub(crate) struct Waits(Mutex<Option<Histogram<u64>>>);

impl Waits {
    /// Locks for reading, and records the wait if there was one.
    pub(crate) fn read<'a, T>(&self, lock: &'a RwLock<T>) -> RwLockReadGuard<'a, T> {
        match lock.try_read() {
            Ok(guard) => guard,
            Err(TryLockError::Poisoned(error)) => error.into_inner(),
            Err(TryLockError::WouldBlock) => {
                let since = Instant::now();
                let guard = lock.read().unwrap_or_else(PoisonError::into_inner);
                self.record(since);
                guard
            }
        }
    }

    /// Locks for writing, and records the wait if there was one.
    pub(crate) fn write<'a, T>(&self, lock: &'a RwLock<T>) -> RwLockWriteGuard<'a, T> {
        match lock.try_write() {
            Ok(guard) => guard,
            Err(TryLockError::Poisoned(error)) => error.into_inner(),
            Err(TryLockError::WouldBlock) => {
                let since = Instant::now();
                let guard = lock.write().unwrap_or_else(PoisonError::into_inner);
                self.record(since);
                guard
            }
        }
    }

    #[cold]
    fn record(&self, since: Instant) {
        let waited = u64::try_from(since.elapsed().as_nanos()).unwrap_or(WAIT_NS_MAX);
        let mut held = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if held.is_none() {
            *held = Histogram::new_with_bounds(1, WAIT_NS_MAX, 2).ok();
        }
        if let Some(histogram) = &mut *held {
            histogram.saturating_record(waited);
        }
    }

    pub(crate) fn stats(&self) -> WaitStats {
        let held = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        let stats = |histogram: &Histogram<u64>| WaitStats {
            count: histogram.len(),
            p50_ns: histogram.value_at_quantile(0.5),
            p99_ns: histogram.value_at_quantile(0.99),
            max_ns: histogram.max(),
        };
        held.as_ref().map(stats).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Barrier;
    use std::time::Duration;

    use super::*;

    #[test]
    fn only_waits_are_counted() {
        let (waits, lock) = (LaneWaits::default(), RwLock::new(0));
        drop((waits.readers.read(&lock), waits.readers.read(&lock)));
        *waits.writers.write(&lock) += 1;
        assert_eq!((waits.readers.stats(), waits.writers.stats()), Default::default());
        // Repeats until a reader arrived while the lock was held.
        let deadline = Instant::now() + Duration::from_secs(60);
        while waits.readers.stats().count == 0 {
            assert!(Instant::now() < deadline, "a reader that waits is not counted");
            let (held, arrives) = (waits.writers.write(&lock), Barrier::new(2));
            std::thread::scope(|scope| {
                scope.spawn(|| {
                    arrives.wait();
                    assert_eq!(*waits.readers.read(&lock), 1);
                });
                arrives.wait();
                (0..1000).for_each(|_| std::thread::yield_now());
                drop(held);
            });
        }
        assert!(waits.readers.stats().max_ns > 0);
        assert_eq!(waits.writers.stats().count, 0);
    }
}
