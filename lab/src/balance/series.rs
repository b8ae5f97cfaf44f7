//! What a try's looks say: how the backlog moved, how late transactions became visible, and whether that is sustained.
//!
//! In: counts of both sides at moments. Out: slope, lag, time to drain, a verdict. Never here: a server, a clock.

use std::fmt;

use serde::Serialize;

/// Part of the rate by which the backlog may grow each second.
const SLOPE_MAX: f64 = 0.005;
/// Part of the asked rate that the source must have committed.
const SENT_MIN: f64 = 0.97;
/// Part of the transactions that may be later than the limit: the lag is judged by its 99th percentile.
const LATE_MAX: f64 = 0.01;

/// One look at both sides.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Look {
    /// Seconds since the try began.
    pub at_s: f64,
    /// Transactions that the source has committed.
    pub committed: u64,
    /// Of these, what a new reader of the replica sees.
    pub shown: u64,
}

impl Look {
    fn backlog(&self) -> f64 {
        self.committed.saturating_sub(self.shown) as f64
    }
}

/// The part of a try that is judged, seconds since it began; before that it warms up, after that the load is over.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Window {
    pub from_s: f64,
    pub to_s: f64,
}

impl Window {
    fn looks<'a>(&self, looks: &'a [Look]) -> impl Iterator<Item = &'a Look> + use<'a> {
        let Window { from_s, to_s } = *self;
        looks.iter().filter(move |look| look.at_s >= from_s && look.at_s <= to_s)
    }
}

/// What a try showed.
#[derive(Clone, Copy, Debug, PartialEq, Serialize)]
pub struct Shown {
    /// Transactions a second that the source committed.
    pub rate: f64,
    /// Least-squares slope of the backlog, transactions a second.
    pub slope: f64,
    /// 99th percentile of the lag, seconds; None: some of the slowest hundredth never became visible.
    pub lag_p99_s: Option<f64>,
    /// Median of the lag, seconds.
    pub lag_p50_s: Option<f64>,
    /// Seconds from the load's end to the backlog's; None: it did not end in the time it had.
    pub drain_s: Option<f64>,
}

/// Why a rate is not followed, or that it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Verdict {
    Follows,
    /// The backlog grows by more than 0.5 % of the rate.
    BacklogGrows,
    /// The 99th percentile of the lag is above the limit.
    TooLate,
    /// The backlog takes longer than twice the limit to drain.
    DrainsSlowly,
    /// The source did not commit at the rate that was asked for: nothing is known of the replica.
    NotSent,
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Verdict::Follows => "follows",
            Verdict::BacklogGrows => "backlog grows",
            Verdict::TooLate => "too late",
            Verdict::DrainsSlowly => "drains slowly",
            Verdict::NotSent => "not sent",
        })
    }
}

impl Shown {
    /// Measures a try. Its looks end with the backlog, or when that took too long.
    #[must_use]
    pub fn of(looks: &[Look], window: Window) -> Shown {
        let lags = lags(looks, window);
        Shown {
            rate: rate(looks, window),
            slope: slope(looks, window),
            lag_p99_s: quantile(&lags, 1.0 - LATE_MAX),
            lag_p50_s: quantile(&lags, 0.5),
            drain_s: drain_s(looks, window.to_s),
        }
    }

    /// Judges it: `asked` is the rate that was asked for, None where the load took what it could.
    #[must_use]
    pub fn verdict(&self, asked: Option<f64>, lag_max_s: f64) -> Verdict {
        let is_in_time = |value: Option<f64>, limit: f64| value.is_some_and(|value| value <= limit);
        match () {
            () if asked.is_some_and(|asked| self.rate < SENT_MIN * asked) => Verdict::NotSent,
            () if self.slope > SLOPE_MAX * self.rate => Verdict::BacklogGrows,
            () if !is_in_time(self.lag_p99_s, lag_max_s) => Verdict::TooLate,
            () if !is_in_time(self.drain_s, 2.0 * lag_max_s) => Verdict::DrainsSlowly,
            () => Verdict::Follows,
        }
    }
}

/// Transactions a second that the source committed in the window.
#[must_use]
pub fn rate(looks: &[Look], window: Window) -> f64 {
    let mut within = window.looks(looks);
    match (within.next(), within.last()) {
        (Some(first), Some(last)) if last.at_s > first.at_s => {
            last.committed.saturating_sub(first.committed) as f64 / (last.at_s - first.at_s)
        }
        _ => 0.0,
    }
}

/// Least-squares slope of the backlog over the window, transactions a second; 0 for fewer than two looks.
#[must_use]
pub fn slope(looks: &[Look], window: Window) -> f64 {
    let count = window.looks(looks).count().max(1) as f64;
    let mean = |of: &dyn Fn(&Look) -> f64| window.looks(looks).map(of).sum::<f64>() / count;
    let (time, backlog) = (mean(&|look| look.at_s), mean(&Look::backlog));
    let product: f64 = window.looks(looks).map(|look| (look.at_s - time) * (look.backlog() - backlog)).sum();
    let square: f64 = window.looks(looks).map(|look| (look.at_s - time).powi(2)).sum();
    if square > 0.0 { product / square } else { 0.0 }
}

/// A number of transactions and the longest that one of them took to become visible, seconds; infinite if it did not.
type Late = (f64, f64);

/// Lags of the transactions that were committed in the window. Between two looks commits are taken as even, and a
/// transaction is visible from the look on that showed it: the lag is never smaller than it was, and at most the time
/// between two looks larger.
fn lags(looks: &[Look], window: Window) -> Vec<Late> {
    let mut within = window.looks(looks);
    let (Some(first), Some(last)) = (within.next(), within.last()) else { return Vec::new() };
    let (mut next, end) = (first.committed, last.committed);
    let (mut found, mut at) = (Vec::new(), 0);
    for look in looks {
        let upto = look.shown.min(end);
        while next < upto {
            // The two looks between which transaction `next` was committed.
            let committed = |at: usize| looks.get(at).map_or(u64::MAX, |look| look.committed);
            while committed(at + 1) <= next {
                at += 1;
            }
            let piece = upto.min(committed(at + 1)) - next;
            found.push((piece as f64, (look.at_s - committed_at(looks, at, next)).max(0.0)));
            next += piece;
        }
    }
    if next < end {
        found.push(((end - next) as f64, f64::INFINITY));
    }
    found
}

/// When a transaction was committed that lies between look `at` and the next one.
fn committed_at(looks: &[Look], at: usize, transaction: u64) -> f64 {
    match (looks.get(at), looks.get(at + 1)) {
        (Some(before), Some(after)) if after.committed > before.committed => {
            let part =
                transaction.saturating_sub(before.committed) as f64 / (after.committed - before.committed) as f64;
            before.at_s + part * (after.at_s - before.at_s)
        }
        (Some(before), _) => before.at_s,
        _ => 0.0,
    }
}

/// A quantile of lags; None if there are none, or it is infinite.
fn quantile(lags: &[Late], part: f64) -> Option<f64> {
    let mut sorted = lags.to_vec();
    sorted.sort_by(|a, b| a.1.total_cmp(&b.1));
    let wanted = part * sorted.iter().map(|(count, _)| count).sum::<f64>();
    let mut seen = 0.0;
    let found = sorted.iter().find(|(count, _)| {
        seen += count;
        seen >= wanted
    });
    found.map(|(_, lag)| *lag).filter(|lag| lag.is_finite())
}

/// Seconds from the load's end to the first look without a backlog.
fn drain_s(looks: &[Look], ended_s: f64) -> Option<f64> {
    let mut behind = looks.iter().filter(|look| look.at_s >= ended_s);
    behind.find(|look| look.shown >= look.committed).map(|look| look.at_s - ended_s)
}

/// True if it is certain by now that the 99th percentile of the lag will be above the limit, at this rate to the
/// window's end.
#[must_use]
pub fn is_lost(looks: &[Look], window: Window, rate: f64, lag_max_s: f64) -> bool {
    let Some(now) = looks.last() else { return false };
    let Some(first) = window.looks(looks).next() else { return false };
    let due_s = now.at_s - lag_max_s;
    let due = looks.iter().rev().find(|look| look.at_s <= due_s).map_or(0, |look| look.committed);
    let late = due.saturating_sub(now.shown.max(first.committed));
    late as f64 > LATE_MAX * rate * (window.to_s - window.from_s)
}

#[cfg(test)]
mod tests {
    use super::*;

    const WINDOW: Window = Window { from_s: 2.0, to_s: 10.0 };

    /// Looks every 100 ms for 12 s: a source of 1,000 a second for 10 s, and what a replica shows of `committed` at a
    /// moment.
    fn looks(shown: impl Fn(f64) -> f64) -> Vec<Look> {
        let look = |tenth: u32| {
            let at_s = f64::from(tenth) / 10.0;
            let committed = (1000.0 * at_s.min(10.0)).round() as u64;
            Look { at_s, committed, shown: (shown(at_s).max(0.0).round() as u64).min(committed) }
        };
        (0..=120).map(look).collect()
    }

    #[test]
    fn a_replica_at_a_constant_distance_follows() {
        let shown = Shown::of(&looks(|at_s| 1000.0 * (at_s - 0.5)), WINDOW);
        assert!((shown.rate - 1000.0).abs() < 1e-6 && shown.slope.abs() < 1e-6, "{shown:?}");
        // Half a second, and up to the look that shows it.
        let (p50, p99) = (shown.lag_p50_s.unwrap(), shown.lag_p99_s.unwrap());
        assert!((0.5..=0.601).contains(&p50) && (0.5..=0.601).contains(&p99), "{shown:?}");
        assert!((shown.drain_s.unwrap() - 0.5).abs() < 1e-6, "{shown:?}");
        assert_eq!(shown.verdict(Some(1000.0), 1.0), Verdict::Follows);
        assert_eq!(shown.verdict(Some(1000.0), 0.1), Verdict::TooLate);
        assert_eq!(shown.verdict(Some(1100.0), 1.0), Verdict::NotSent);
        assert_eq!(shown.verdict(None, 1.0), Verdict::Follows);
    }

    #[test]
    fn a_slower_replica_has_a_backlog_that_grows() {
        let slower = looks(|at_s| 990.0 * at_s);
        let shown = Shown::of(&slower, WINDOW);
        assert!((shown.slope - 10.0).abs() < 1.0, "{shown:?}");
        assert_eq!(shown.verdict(Some(1000.0), 1.0), Verdict::BacklogGrows);
        // By 0.4 % only, for which ten seconds are too few to be late.
        let shown = Shown::of(&looks(|at_s| 996.0 * at_s), WINDOW);
        assert_eq!(shown.verdict(Some(1000.0), 1.0), Verdict::Follows);
    }

    #[test]
    fn a_pause_makes_more_than_a_hundredth_late_without_a_slope() {
        // Stands still for 1.5 s in the middle, then catches up at once.
        let pausing = looks(|at_s| if (5.0..6.5).contains(&at_s) { 5000.0 } else { 1000.0 * at_s });
        let shown = Shown::of(&pausing, WINDOW);
        assert!(shown.slope.abs() < 5.0, "{shown:?}");
        assert_eq!(shown.verdict(Some(1000.0), 1.0), Verdict::TooLate);
        assert!((1.4..=1.6).contains(&shown.lag_p99_s.unwrap()), "{shown:?}");
        assert!(shown.lag_p50_s.unwrap() <= 0.1 + 1e-9, "{shown:?}");
    }

    #[test]
    fn what_never_becomes_visible_is_neither_in_time_nor_drained() {
        let stopped = looks(|at_s| 1000.0 * at_s.min(9.0));
        let shown = Shown::of(&stopped, WINDOW);
        assert_eq!((shown.lag_p99_s, shown.drain_s), (None, None));
        assert_ne!(shown.verdict(Some(1000.0), 1.0), Verdict::Follows);
    }

    #[test]
    fn a_backlog_that_drains_slowly_is_told_apart() {
        let shown = Shown { rate: 1000.0, slope: 0.0, lag_p99_s: Some(0.2), lag_p50_s: Some(0.1), drain_s: Some(3.0) };
        assert_eq!(shown.verdict(Some(1000.0), 1.0), Verdict::DrainsSlowly);
        assert_eq!(Shown { drain_s: Some(2.0), ..shown }.verdict(Some(1000.0), 1.0), Verdict::Follows);
        assert_eq!(Shown { drain_s: None, ..shown }.verdict(Some(1000.0), 1.0), Verdict::DrainsSlowly);
    }

    #[test]
    fn a_lost_try_is_seen_before_its_end_and_no_other() {
        let upto =
            |looks: &[Look], at_s: f64| looks.iter().copied().filter(|look| look.at_s <= at_s).collect::<Vec<_>>();
        let half = looks(|at_s| 500.0 * at_s);
        // At 4 s, what was committed at 3 s should be there: 1,000 of it are not, of which 80 may be late.
        assert!(is_lost(&upto(&half, 4.0), WINDOW, 1000.0, 1.0));
        assert!(!is_lost(&upto(&half, 2.0), WINDOW, 1000.0, 1.0), "nothing of the window is late yet");
        let following = looks(|at_s| 1000.0 * (at_s - 0.9));
        assert!(following.iter().all(|look| !is_lost(&upto(&following, look.at_s), WINDOW, 1000.0, 1.0)));
        assert!(!is_lost(&[], WINDOW, 1000.0, 1.0));
    }

    #[test]
    fn nothing_is_made_of_nothing() {
        let shown = Shown::of(&[], WINDOW);
        assert_eq!((shown.rate, shown.slope, shown.lag_p99_s), (0.0, 0.0, None));
        assert_eq!(shown.verdict(Some(10.0), 1.0), Verdict::NotSent);
    }
}
