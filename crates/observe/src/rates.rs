//! Work done per second.
//!
//! In: amounts of work, once per batch. Out: totals and rates. Never here: a clock; a lock per transaction.

use std::sync::{Mutex, PoisonError};

use serde::{Deserialize, Serialize};

const SLOTS: usize = 11;
const SECOND_US: u64 = 1_000_000;
/// Seconds, including the current one, over which the current speed is measured.
const SPEED_SECONDS: u64 = 5;
/// Shortest time from which a speed is computed, µs; over less it means little.
const SPEED_US_MIN: u64 = SECOND_US / 5;

/// An amount of replayed work.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Work {
    /// Number of transactions made visible.
    #[serde(rename = "transactions")]
    pub transactions: u64,
    /// Number of row changes in them.
    #[serde(rename = "rows")]
    pub rows: u64,
    /// Bytes that they take in the log.
    #[serde(rename = "bytes")]
    pub bytes: u64,
}

impl Work {
    fn add(&mut self, more: Work) {
        self.transactions += more.transactions;
        self.rows += more.rows;
        self.bytes += more.bytes;
    }
}

/// Work per second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct RateSample {
    /// Transactions per second.
    #[serde(rename = "transactions_per_s")]
    pub transactions_per_s: f64,
    /// Row changes per second.
    #[serde(rename = "rows_per_s")]
    pub rows_per_s: f64,
    /// Bytes of log per second.
    #[serde(rename = "bytes_per_s")]
    pub bytes_per_s: f64,
}

/// Totals of the run, and amounts of each of the last eleven seconds. One lock, taken once per batch.
#[derive(Debug, Default)]
pub struct RateMeter {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    total: Work,
    seconds: [Second; SLOTS],
}

#[derive(Debug, Default)]
struct Second {
    /// Seconds since 1970.
    number: u64,
    /// When the first batch in it was finished, µs since 1970.
    first_us: u64,
    amount: Work,
}

impl RateMeter {
    /// Creates a meter with nothing counted.
    #[must_use]
    pub fn new() -> RateMeter {
        RateMeter::default()
    }

    /// Counts a batch finished at `now_us` (wall clock, µs since 1970).
    pub fn add(&self, work: Work, now_us: u64) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.total.add(work);
        if !crate::WATCHES {
            return;
        }
        let second = now_us / SECOND_US;
        if let Some(slot) = state.seconds.get_mut((second % SLOTS as u64) as usize) {
            // The slot still has an older second.
            if slot.number != second {
                *slot = Second { number: second, first_us: now_us, amount: Work::default() };
            }
            slot.amount.add(work);
        }
    }

    /// Total since the start.
    #[must_use]
    pub fn total(&self) -> Work {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).total
    }

    /// Mean over the last 1 to 10 complete seconds before `now_us` (µs since 1970).
    #[must_use]
    pub fn last_seconds(&self, seconds: u64, now_us: u64) -> RateSample {
        let seconds = seconds.clamp(1, SLOTS as u64 - 1);
        let this_second = now_us / SECOND_US;
        let first = this_second.saturating_sub(seconds);
        let mut sum = Work::default();
        for slot in &self.state.lock().unwrap_or_else(PoisonError::into_inner).seconds {
            if (first..this_second).contains(&slot.number) {
                sum.add(slot.amount);
            }
        }
        let per_second = |amount: u64| amount as f64 / seconds as f64;
        RateSample {
            transactions_per_s: per_second(sum.transactions),
            rows_per_s: per_second(sum.rows),
            bytes_per_s: per_second(sum.bytes),
        }
    }

    /// Current speed in bytes per second: over the last five seconds, or since the first batch in them. None if there
    /// was no batch or the first one is too recent.
    #[must_use]
    pub fn bytes_per_s_now(&self, now_us: u64) -> Option<f64> {
        let this_second = now_us / SECOND_US;
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let recent = |slot: &&Second| slot.number <= this_second && slot.number + SPEED_SECONDS > this_second;
        let since_us = state.seconds.iter().filter(recent).map(|slot| slot.first_us).min()?;
        let elapsed_us = now_us.checked_sub(since_us).filter(|elapsed_us| *elapsed_us >= SPEED_US_MIN)?;
        let bytes: u64 = state.seconds.iter().filter(recent).map(|slot| slot.amount.bytes).sum();
        (bytes > 0).then_some(bytes as f64 * 1e6 / elapsed_us as f64)
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

    #[test]
    fn the_speed_just_now_counts_from_the_first_batch() {
        let meter = RateMeter::new();
        let batch = |bytes| Work { bytes, ..Work::default() };
        assert_eq!(meter.bytes_per_s_now(100 * SECOND_US), None);
        // Idle until 100.5 s, then 1000 bytes every 100 ms.
        for step in 0..30 {
            meter.add(batch(1000), 100 * SECOND_US + 500_000 + step * 100_000);
        }
        let at = |now_us| meter.bytes_per_s_now(now_us).unwrap();
        assert!((at(103 * SECOND_US + 500_000) - 10_000.0).abs() < 1.0);
        assert_eq!(meter.bytes_per_s_now(100 * SECOND_US + 500_001), None, "too short");
        // A stall lowers the speed until it is unknown.
        assert!(at(104 * SECOND_US + 900_000) < 7_000.0);
        assert_eq!(meter.bytes_per_s_now(109 * SECOND_US), None);
    }
}
