//! Work done per second.

use std::sync::{Mutex, PoisonError};

use serde::{Deserialize, Serialize};

const SLOTS: usize = 11;
const SECOND_US: u64 = 1_000_000;
/// Seconds, the running one included, that tell how fast work goes just now.
const SPEED_SECONDS: u64 = 5;
/// A speed over less than this says little, microseconds.
const SPEED_US_MIN: u64 = SECOND_US / 5;

/// Amounts of replayed work.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Work {
    /// Transactions made visible.
    #[serde(rename = "transactions")]
    pub transactions: u64,
    /// Row changes in them.
    #[serde(rename = "rows")]
    pub rows: u64,
    /// Their bytes in the log.
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

/// Per second.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct RateSample {
    /// Transactions a second.
    #[serde(rename = "transactions_per_s")]
    pub transactions_per_s: f64,
    /// Row changes a second.
    #[serde(rename = "rows_per_s")]
    pub rows_per_s: f64,
    /// Bytes of log a second.
    #[serde(rename = "bytes_per_s")]
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
    seconds: [Second; SLOTS],
}

#[derive(Debug, Default)]
struct Second {
    /// Since 1970.
    number: u64,
    /// When its first batch was finished, microseconds.
    first_us: u64,
    amount: Work,
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
        if let Some(slot) = state.seconds.get_mut((second % SLOTS as u64) as usize) {
            if slot.number != second {
                *slot = Second { number: second, first_us: now_us, amount: Work::default() };
            }
            slot.amount.add(work);
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

    /// Bytes a second just now: over the last five seconds, or since the first batch in them. None when there was none, or
    /// it is too short ago to tell.
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
        // Idle before, then 1000 bytes every 100 ms from 100.5 s on.
        for step in 0..30 {
            meter.add(batch(1000), 100 * SECOND_US + 500_000 + step * 100_000);
        }
        let at = |now_us| meter.bytes_per_s_now(now_us).unwrap();
        assert!((at(103 * SECOND_US + 500_000) - 10_000.0).abs() < 1.0);
        assert_eq!(meter.bytes_per_s_now(100 * SECOND_US + 500_001), None, "too short");
        // A stall shows, and in the end nothing is known.
        assert!(at(104 * SECOND_US + 900_000) < 7_000.0);
        assert_eq!(meter.bytes_per_s_now(109 * SECOND_US), None);
    }
}
