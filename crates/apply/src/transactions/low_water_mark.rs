//! The low-water mark: the highest sequence number up to which every transaction is done.
//!
//! In: sequence numbers of finished transactions, in any order. Out: the mark; waiters are woken only once it reaches
//! the lowest number that any of them awaits. Mirrors `get_lwm_timestamp` and the signal in
//! `slave_worker_ends_group`. Never here: a mark that passes a transaction that is not done.

use std::collections::VecDeque;
use std::sync::PoisonError;
use std::time::Duration;

use crate::shutdown::Shutdown;
use crate::sync::atomic::{AtomicU64, Ordering};
use crate::sync::{Condvar, Mutex, MutexGuard};

/// Interval at which a wait checks whether replay ends.
const LOOK: Duration = Duration::from_millis(50);

/// Outcome of a wait.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Waited {
    /// The mark had reached the number already.
    No,
    Yes,
    /// Replay ends, and the mark has not reached the number.
    GivenUp,
}

struct State {
    low: u64,
    /// For each transaction after the mark, whether it is done.
    done: VecDeque<bool>,
    /// The lowest number that a thread waits for.
    awaited: u64,
}

/// The mark, with the finished transactions beyond it.
pub struct LowWaterMark {
    state: Mutex<State>,
    moved: Condvar,
    /// Copy of `State::low` that is read without the lock.
    low: AtomicU64,
}

impl LowWaterMark {
    /// Creates a mark at `low`: everything up to there is done.
    #[must_use]
    pub fn new(low: u64) -> LowWaterMark {
        LowWaterMark {
            state: Mutex::new(State { low, done: VecDeque::new(), awaited: u64::MAX }),
            moved: Condvar::new(),
            low: AtomicU64::new(low),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    #[must_use]
    pub fn low(&self) -> u64 {
        self.low.load(Ordering::Acquire)
    }

    /// Marks a transaction as done. False, with nothing done, if it was marked before.
    pub fn finish(&self, number: u64) -> bool {
        let mut state = self.lock();
        if number <= state.low {
            return false;
        }
        #[allow(clippy::cast_possible_truncation, reason = "of transactions in flight")]
        let at = (number - state.low - 1) as usize;
        if state.done.len() <= at {
            state.done.resize(at + 1, false);
        }
        match state.done.get_mut(at) {
            Some(done) if !*done => *done = true,
            _ => return false,
        }
        while state.done.front() == Some(&true) {
            state.done.pop_front();
            state.low += 1;
        }
        self.low.store(state.low, Ordering::Release);
        if state.low >= state.awaited {
            // Waiters for a higher number register again.
            state.awaited = u64::MAX;
            drop(state);
            self.moved.notify_all();
        }
        true
    }

    /// Waits until every transaction up to `number` is done.
    pub fn wait(&self, number: u64, shutdown: &Shutdown) -> Waited {
        if self.low() >= number {
            return Waited::No;
        }
        let mut state = self.lock();
        let mut waited = Waited::No;
        while state.low < number {
            if shutdown.stops_applying() {
                return Waited::GivenUp;
            }
            waited = Waited::Yes;
            state.awaited = state.awaited.min(number);
            state = self.moved.wait_timeout(state, LOOK).unwrap_or_else(PoisonError::into_inner).0;
        }
        waited
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_mark_is_the_end_of_the_finished_prefix() {
        let mark = LowWaterMark::new(7);
        for (number, low) in [(9, 7), (12, 7), (8, 9), (11, 9), (10, 12)] {
            mark.finish(number);
            assert_eq!(mark.low(), low, "behind {number}");
        }
    }

    #[test]
    fn nothing_is_done_twice() {
        let mark = LowWaterMark::new(0);
        assert!(mark.finish(1) && !mark.finish(1), "below the mark");
        assert!(mark.finish(4) && !mark.finish(4), "above it");
        assert_eq!(mark.low(), 1);
    }

    #[test]
    fn waiters_for_different_numbers_are_all_woken() {
        let (mark, shutdown) = (LowWaterMark::new(0), Shutdown::default());
        std::thread::scope(|scope| {
            let waits: Vec<_> = (1..=6).map(|number| (&mark, &shutdown, number)).collect();
            let waits: Vec<_> = waits
                .into_iter()
                .map(|(mark, shutdown, number)| scope.spawn(move || mark.wait(number, shutdown)))
                .collect();
            for number in [2, 4, 1, 6, 3, 5] {
                mark.finish(number);
            }
            assert!(waits.into_iter().all(|wait| wait.join().unwrap() != Waited::GivenUp));
        });
        assert_eq!(mark.wait(6, &shutdown), Waited::No);
        shutdown.break_off();
        assert_eq!(mark.wait(7, &shutdown), Waited::GivenUp);
    }
}
