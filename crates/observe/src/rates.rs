//! Work done per second.

use std::sync::{Mutex, PoisonError};

use serde::{Deserialize, Serialize};

const SLOTS: usize = 11;
const SECOND_US: u64 = 1_000_000;

/// Amounts of replayed work.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Work {
    /// Transactions made visible.
    pub transactions: u64,
    /// Row changes in them.
    pub rows: u64,
    /// Their bytes in the log.
    pub bytes: u64,
}

impl Work {
    fn add(&mut self, more: Work) {
        self.transactions += more.transactions;
        self.rows += more.rows;
        self.bytes += more.bytes;
    }
}

/// Per second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct RateSample {
    /// Transactions a second.
    pub transactions_per_s: f64,
    /// Row changes a second.
    pub rows_per_s: f64,
    /// Bytes of log a second.
    pub bytes_per_s: f64,
}

/// Totals of the run and per-second amounts of the last eleven seconds. One lock, taken once a batch.
#[derive(Debug, Default)]
pub struct RateMeter {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    total: Work,
    seconds: [(u64, Work); SLOTS],
}

impl RateMeter {
    /// With nothing counted.
    #[must_use]
    pub fn new() -> RateMeter {
        RateMeter::default()
    }

    /// Counts a batch finished at `now_us` (wall clock, microseconds).
    pub fn add(&self, work: Work, now_us: u64) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.total.add(work);
        let second = now_us / SECOND_US;
        if let Some((of_second, amount)) = state.seconds.get_mut((second % SLOTS as u64) as usize) {
            if *of_second != second {
                (*of_second, *amount) = (second, Work::default());
            }
            amount.add(work);
        }
    }

    /// Since the start.
    #[must_use]
    pub fn total(&self) -> Work {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).total
    }

    /// Mean over the last 1 to 10 complete seconds before `now_us`.
    #[must_use]
    pub fn last_seconds(&self, seconds: u64, now_us: u64) -> RateSample {
        let seconds = seconds.clamp(1, SLOTS as u64 - 1);
        let this_second = now_us / SECOND_US;
        let first = this_second.saturating_sub(seconds);
        let mut sum = Work::default();
        for (second, amount) in &self.state.lock().unwrap_or_else(PoisonError::into_inner).seconds {
            if (first..this_second).contains(second) {
                sum.add(*amount);
            }
        }
        let per_second = |amount: u64| amount as f64 / seconds as f64;
        RateSample {
            transactions_per_s: per_second(sum.transactions),
            rows_per_s: per_second(sum.rows),
            bytes_per_s: per_second(sum.bytes),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_over_complete_seconds() {
        let meter = RateMeter::new();
        for second in 50..70 {
            for _ in 0..second {
                meter.add(Work { transactions: 1, rows: 10, bytes: 100 }, second * SECOND_US);
            }
        }
        let now_us = 70 * SECOND_US + 1;
        assert_eq!(meter.last_seconds(1, now_us).transactions_per_s, 69.0);
        assert_eq!(meter.last_seconds(10, now_us).rows_per_s, 645.0);
        assert_eq!(meter.last_seconds(1, 90 * SECOND_US), RateSample::default());
        assert_eq!(meter.total().transactions, (50..70).sum::<u64>());
    }
}
