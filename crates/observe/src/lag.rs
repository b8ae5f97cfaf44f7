//! Lag of each transaction, from its commit on the source to its visibility here, corrected for the clock difference.
//!
//! In: lags of a batch of transactions. Out: percentiles over the run, over the last seconds and over parts of a
//! measurement. Never here: a clock; a lock per transaction.

use std::sync::{Mutex, PoisonError};

use hdrhistogram::Histogram;
use serde::{Deserialize, Serialize};

/// A week, µs. A larger lag counts as a week in the percentiles; the maximum stays exact.
const LAG_US_MAX: u64 = 7 * 24 * 3600 * 1_000_000;

/// The current second and the ten complete ones before it.
const SLOTS: usize = 11;

const SECOND_US: u64 = 1_000_000;

/// Percentiles of the lag, µs.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct LagSummary {
    /// Number of transactions measured.
    #[serde(rename = "transactions")]
    pub transactions: u64,
    #[serde(rename = "p50_us")]
    pub p50_us: u64,
    /// 90th percentile.
    #[serde(rename = "p90_us")]
    pub p90_us: u64,
    /// 99th percentile.
    #[serde(rename = "p99_us")]
    pub p99_us: u64,
    /// 99.9th percentile.
    #[serde(rename = "p999_us")]
    pub p999_us: u64,
    /// Maximum, exact.
    #[serde(rename = "max_us")]
    pub max_us: u64,
}

/// Upper bounds of the classes of a [`LagHistogram`], µs; above the last one there is one more class.
pub const LAG_BOUNDS_US: [u64; 21] = [
    100,
    250,
    500,
    1_000,
    2_500,
    5_000,
    10_000,
    25_000,
    50_000,
    100_000,
    250_000,
    500_000,
    1_000_000,
    2_500_000,
    5_000_000,
    10_000_000,
    30_000_000,
    60_000_000,
    300_000_000,
    1_800_000_000,
    3_600_000_000,
];

/// Number of transactions by lag.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LagHistogram {
    /// Transactions in each class of [`LAG_BOUNDS_US`], then those above all.
    pub counts: [u64; LAG_BOUNDS_US.len() + 1],
    /// Sum of all lags, µs, within the precision of the percentiles (1 %).
    pub sum_us: u64,
}

/// One transaction that became visible.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LagSample {
    /// Time from its commit to its visibility, µs.
    pub lag_us: u64,
    /// Number of rows it changed.
    pub rows: u64,
}

/// How [`LagMeter::divide`] divides a measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LagDivision {
    /// Number of rows from which a transaction counts as large.
    pub large_rows: u64,
    /// Number of transactions in the measurement, large ones included; its thirds are thirds of that.
    pub transactions: u64,
}

/// Lag in the parts of a divided measurement.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct LagParts {
    /// Small transactions, whose lag a large one affects only if they come after it.
    #[serde(rename = "small")]
    pub small: LagSummary,
    /// Small transactions in the first third of the log.
    #[serde(rename = "small_first_third")]
    pub small_first_third: LagSummary,
    /// Small transactions in the last third.
    #[serde(rename = "small_last_third")]
    pub small_last_third: LagSummary,
    #[serde(rename = "large")]
    pub large: LagSummary,
}

/// Histograms over the whole run and over the last complete seconds. One lock, taken once per batch.
#[derive(Debug)]
pub struct LagMeter {
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    overall: Slot,
    /// Second s is in slot s modulo SLOTS.
    seconds: Vec<(u64, Slot)>,
    /// Lag of the last transaction, and when it was recorded, both µs.
    last: Option<(u64, u64)>,
    /// Present only after `divide`.
    divided: Option<Box<Divided>>,
}

#[derive(Debug)]
struct Divided {
    division: LagDivision,
    recorded: u64,
    large: Slot,
    thirds: [Slot; 3],
}

impl Divided {
    fn record(&mut self, sample: LagSample) {
        let third = self.recorded.saturating_mul(3) / self.division.transactions.max(1);
        self.recorded += 1;
        if sample.rows >= self.division.large_rows {
            self.large.record(sample.lag_us);
        } else if let Some(slot) = self.thirds.get_mut(third.min(2) as usize) {
            slot.record(sample.lag_us);
        }
    }
}

#[derive(Debug)]
struct Slot {
    /// None only if the library refused the constant bounds, which a test rules out.
    histogram: Option<Histogram<u64>>,
    max_us: u64,
}

impl Slot {
    fn new() -> Slot {
        Slot { histogram: Histogram::new_with_bounds(1, LAG_US_MAX, 2).ok(), max_us: 0 }
    }

    fn record(&mut self, lag_us: u64) {
        self.record_equal(lag_us, 1);
    }

    fn record_equal(&mut self, lag_us: u64, transactions: u64) {
        if let Some(histogram) = &mut self.histogram {
            histogram.saturating_record_n(lag_us, transactions);
        }
        self.max_us = self.max_us.max(lag_us);
    }

    fn clear(&mut self) {
        if let Some(histogram) = &mut self.histogram {
            histogram.reset();
        }
        self.max_us = 0;
    }

    fn merge(&mut self, other: &Slot) {
        if let (Some(histogram), Some(other)) = (&mut self.histogram, &other.histogram) {
            // Cannot fail, because the bounds are equal.
            let _ = histogram.add(other);
        }
        self.max_us = self.max_us.max(other.max_us);
    }

    fn summary(&self) -> LagSummary {
        let Some(histogram) = &self.histogram else { return LagSummary::default() };
        let at = |quantile: f64| histogram.value_at_quantile(quantile).min(self.max_us);
        LagSummary {
            transactions: histogram.len(),
            p50_us: at(0.5),
            p90_us: at(0.9),
            p99_us: at(0.99),
            p999_us: at(0.999),
            max_us: self.max_us,
        }
    }
}

impl State {
    fn record(&mut self, times: impl Iterator<Item = (u64, u64)>, now_us: u64) {
        let second = now_us / SECOND_US;
        let mut slot = self.seconds.get_mut((second % SLOTS as u64) as usize);
        if let Some((of_second, slot)) = &mut slot {
            // The slot still has an older second.
            if *of_second != second {
                *of_second = second;
                slot.clear();
            }
        }
        for (lag_us, transactions) in times {
            if let Some((_, slot)) = &mut slot {
                slot.record_equal(lag_us, transactions);
            }
            self.overall.record_equal(lag_us, transactions);
            self.last = Some((lag_us, now_us));
        }
    }
}

impl Default for LagMeter {
    fn default() -> Self {
        LagMeter::new()
    }
}

impl LagMeter {
    /// Creates a meter with nothing recorded.
    #[must_use]
    pub fn new() -> LagMeter {
        let seconds = (0..SLOTS).map(|_| (0, Slot::new())).collect();
        LagMeter { state: Mutex::new(State { overall: Slot::new(), seconds, last: None, divided: None }) }
    }

    /// Records the lags of a batch that became visible at `now_us` (wall clock, µs since 1970).
    pub fn record(&self, samples: &[LagSample], now_us: u64) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.record(samples.iter().map(|sample| (sample.lag_us, 1)), now_us);
        if let Some(divided) = &mut state.divided {
            samples.iter().for_each(|sample| divided.record(*sample));
        }
    }

    /// As [`record`](Self::record), of times that each so many transactions took; takes no part in a division.
    pub fn record_times(&self, times: impl IntoIterator<Item = (u64, u64)>, now_us: u64) {
        let mut times = times.into_iter().filter(|(_, transactions)| *transactions > 0).peekable();
        if times.peek().is_some() {
            self.state.lock().unwrap_or_else(PoisonError::into_inner).record(times, now_us);
        }
    }

    /// Discards everything recorded so far, so that what follows is measured on its own.
    pub fn clear(&self) {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        state.overall.clear();
        state.seconds.iter_mut().for_each(|(_, slot)| slot.clear());
        state.last = None;
        state.divided = None;
    }

    /// Discards everything recorded so far and also records what follows by parts.
    pub fn divide(&self, division: LagDivision) {
        self.clear();
        let (large, thirds) = (Slot::new(), [Slot::new(), Slot::new(), Slot::new()]);
        let divided = Divided { division, recorded: 0, large, thirds };
        self.state.lock().unwrap_or_else(PoisonError::into_inner).divided = Some(Box::new(divided));
    }

    /// Lag by parts since [`LagMeter::divide`]; None if that was not called.
    #[must_use]
    pub fn parts(&self) -> Option<LagParts> {
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        let Divided { large, thirds: [first, middle, last], .. } = state.divided.as_deref()?;
        let mut small = Slot::new();
        [first, middle, last].into_iter().for_each(|third| small.merge(third));
        Some(LagParts {
            small: small.summary(),
            small_first_third: first.summary(),
            small_last_third: last.summary(),
            large: large.summary(),
        })
    }

    /// Lag over the whole run.
    #[must_use]
    pub fn overall(&self) -> LagSummary {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).overall.summary()
    }

    /// All transactions of the run by lag.
    #[must_use]
    pub fn histogram(&self) -> LagHistogram {
        let mut result = LagHistogram::default();
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        for value in state.overall.histogram.iter().flat_map(Histogram::iter_recorded) {
            let (lag_us, count) = (value.value_iterated_to(), value.count_since_last_iteration());
            let class = LAG_BOUNDS_US.partition_point(|bound| *bound < lag_us);
            if let Some(of_class) = result.counts.get_mut(class) {
                *of_class += count;
            }
            result.sum_us = result.sum_us.saturating_add(lag_us.saturating_mul(count));
        }
        result
    }

    /// Lag over the last 1 to 10 complete seconds before `now_us` (µs since 1970).
    #[must_use]
    pub fn last_seconds(&self, seconds: u64, now_us: u64) -> LagSummary {
        let this_second = now_us / SECOND_US;
        let first = this_second.saturating_sub(seconds.min(SLOTS as u64 - 1));
        let mut merged = Slot::new();
        let state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        for (second, slot) in &state.seconds {
            if (first..this_second).contains(second) {
                merged.merge(slot);
            }
        }
        merged.summary()
    }

    /// Lag of the last visible transaction, and when it became visible (µs since 1970).
    #[must_use]
    pub fn last(&self) -> Option<(u64, u64)> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner).last
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(meter: &LagMeter, lags_us: &[u64], now_us: u64) {
        let samples: Vec<LagSample> = lags_us.iter().map(|lag_us| LagSample { lag_us: *lag_us, rows: 1 }).collect();
        meter.record(&samples, now_us);
    }

    #[test]
    fn bounds_are_accepted_by_the_library() {
        assert!(Slot::new().histogram.is_some());
    }

    #[test]
    fn percentiles_of_a_known_row() {
        let meter = LagMeter::new();
        let lags: Vec<u64> = (1..=1000).map(|n| n * 100).collect();
        record(&meter, &lags, 5 * SECOND_US);
        let summary = meter.overall();
        assert_eq!(summary.transactions, 1000);
        assert_eq!(summary.max_us, 100_000);
        for (value, wanted) in [(summary.p50_us, 50_000), (summary.p90_us, 90_000), (summary.p99_us, 99_000)] {
            assert!(value.abs_diff(wanted) * 100 <= wanted, "{value} is not near {wanted}");
        }
        assert_eq!(meter.last(), Some((100_000, 5 * SECOND_US)));
    }

    #[test]
    fn windows_hold_complete_seconds_only() {
        let meter = LagMeter::new();
        for second in 100..130 {
            record(&meter, &[second], second * SECOND_US + 7);
        }
        let now_us = 129 * SECOND_US + 500_000;
        assert_eq!(meter.last_seconds(1, now_us).max_us, 128);
        assert_eq!(meter.last_seconds(1, now_us).transactions, 1);
        assert_eq!(meter.last_seconds(10, now_us).transactions, 10);
        assert_eq!(meter.last_seconds(10, 200 * SECOND_US), LagSummary::default());
        assert_eq!(meter.overall().transactions, 30);
    }

    #[test]
    fn classes_hold_all_transactions() {
        let meter = LagMeter::new();
        assert_eq!(meter.histogram(), LagHistogram::default());
        record(&meter, &[0, 900, 40_000, 40_000, 2_000_000, u64::MAX], 0);
        let LagHistogram { counts, sum_us } = meter.histogram();
        assert_eq!(counts.iter().sum::<u64>(), 6);
        assert_eq!((counts[0], counts[3], counts[8], counts[13], counts[LAG_BOUNDS_US.len()]), (1, 1, 2, 1, 1));
        assert!(sum_us > LAG_US_MAX && LAG_BOUNDS_US.is_sorted());
    }

    #[test]
    fn the_maximum_is_exact_beyond_a_week() {
        let meter = LagMeter::new();
        record(&meter, &[0, u64::MAX], 0);
        assert_eq!(meter.overall().max_us, u64::MAX);
        assert_eq!(meter.overall().transactions, 2);
    }

    #[test]
    fn a_divided_measurement_has_thirds_and_large_ones_apart() {
        let meter = LagMeter::new();
        record(&meter, &[9_000_000], 0);
        assert_eq!(meter.parts(), None);
        meter.divide(LagDivision { large_rows: 100, transactions: 9 });
        for (lag_us, rows) in [(1, 1), (2, 99), (3, 0), (10, 1), (50_000, 100), (20, 1), (100, 1), (200, 1), (300, 1)] {
            meter.record(&[LagSample { lag_us, rows }], 0);
        }
        let parts = meter.parts().unwrap();
        assert_eq!((parts.small.transactions, parts.small.max_us), (8, 300));
        assert_eq!((parts.small_first_third.transactions, parts.small_first_third.max_us), (3, 3));
        assert_eq!((parts.small_last_third.transactions, parts.small_last_third.p50_us), (3, 200));
        assert_eq!((parts.large.transactions, parts.large.max_us), (1, 50_000));
        assert_eq!(meter.overall().transactions, 9, "what came before was forgotten");
        // Transactions beyond the announced number belong to the last third.
        record(&meter, &[400], 0);
        assert_eq!(meter.parts().unwrap().small_last_third.max_us, 400);
        meter.clear();
        assert_eq!(meter.parts(), None);
    }
}
