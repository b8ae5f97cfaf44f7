//! Lag in its parts: from the source to the relay log, from there to the disk, through the workers, to readers.
//!
//! In: the end of each append to the relay log with its time; how far the log is synced; pieces as they are applied and
//! become visible. Out: a histogram for each part. Bounded: at most [`ARRIVALS_MAX`] appends are remembered; beyond
//! that neighbours are joined. Never here: a lock per transaction or per row.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use crate::lag::{LagHistogram, LagMeter, LagSummary};

/// Appends that are remembered until they are durable and visible. With a longer backlog the time of arrival is known
/// less exactly: to within a 1,000th of the backlog's age.
const ARRIVALS_MAX: usize = 4_096;

/// A part of the time from a commit on the source to its visibility here.
///
/// `Transport`, `Apply` and `Publish` add up to the lag. `Durable` begins where `Apply` does and runs beside it: rows
/// are visible before the relay log is synced.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LagPart {
    /// From the commit on the source until the transaction is in the relay log.
    Transport,
    /// From there until the relay log is synced.
    Durable,
    /// From the relay log until all workers have applied it.
    Apply,
    /// From there until it is visible.
    Publish,
}

impl LagPart {
    /// All parts, in the order in which a transaction goes through them.
    pub const ALL: [LagPart; 4] = [LagPart::Transport, LagPart::Durable, LagPart::Apply, LagPart::Publish];

    /// Name in metrics, status variables and on the page.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            LagPart::Transport => "transport",
            LagPart::Durable => "durable",
            LagPart::Apply => "apply",
            LagPart::Publish => "publish",
        }
    }
}

/// A place in the relay log: number of the file, offset in it.
type Place = (u64, u64);

#[derive(Clone, Copy, Debug)]
struct Arrival {
    /// End of the append.
    end: Place,
    /// When it was in the relay log, µs since 1970.
    at_us: u64,
    /// When the first append was that was joined with it.
    first_us: u64,
    transactions: u64,
}

/// What has arrived and is not yet durable and visible.
#[derive(Debug, Default)]
struct Arrivals {
    /// In the log's order.
    queue: VecDeque<Arrival>,
    /// The relay log is synced up to here.
    durable: Place,
    /// Everything up to here is visible.
    visible: Place,
    /// Kept for its allocation: times, each with the number of transactions that took it.
    times: Vec<(u64, u64)>,
}

impl Arrivals {
    fn forget_done(&mut self) {
        let done = self.durable.min(self.visible);
        while self.queue.front().is_some_and(|first| first.end <= done) {
            self.queue.pop_front();
        }
    }

    /// Joins neighbours whose arrivals lie close together, as the whole queue goes, so that half of it is free.
    fn thin(&mut self) {
        let span_us = |first: &Arrival, last: &Arrival| last.at_us.saturating_sub(first.first_us);
        let all_us = self.queue.front().zip(self.queue.back()).map_or(0, |(first, last)| span_us(first, last));
        // Two neighbours together span more than this then, so at most half as many are left.
        let close_us = all_us / (ARRIVALS_MAX as u64 / 4);
        let mut joined: VecDeque<Arrival> = VecDeque::with_capacity(ARRIVALS_MAX);
        for next in self.queue.drain(..) {
            match joined.back_mut() {
                Some(last) if span_us(last, &next) <= close_us => {
                    let transactions = last.transactions + next.transactions;
                    *last = Arrival { first_us: last.first_us, transactions, ..next };
                }
                _ => joined.push_back(next),
            }
        }
        self.queue = joined;
    }
}

/// Transactions that a piece made visible, in the order of the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PieceTimes {
    /// Number of the relay log's file; None if the log is not one that is received now.
    pub file_number: Option<u64>,
    /// When all workers had applied them, µs since 1970.
    pub applied_us: u64,
    /// When they became visible, µs since 1970.
    pub visible_us: u64,
}

/// Histograms of the lag's parts. The clock is the wall clock, as that of the lag: the source's commit times are.
#[derive(Debug, Default)]
pub struct LagByPart {
    meters: [LagMeter; 4],
    arrivals: Mutex<Arrivals>,
}

/// All transactions of a run: by their lag, and by its parts.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct LagHistograms {
    /// By the whole lag.
    pub whole: LagHistogram,
    /// By its parts, in the order of [`LagPart::ALL`].
    pub parts: [LagHistogram; 4],
}

/// One part of the lag, as reports show it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(default)]
pub struct LagPartReport {
    /// Over all transactions since the start.
    #[serde(rename = "overall")]
    pub overall: LagSummary,
    /// In the last ten complete seconds.
    #[serde(rename = "last_10s")]
    pub last_10s: LagSummary,
}

/// The parts of the lag, as reports show them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(default)]
pub struct LagPartsReport {
    /// From the commit on the source to the relay log.
    #[serde(rename = "transport")]
    pub transport: LagPartReport,
    /// From the relay log to its sync, beside apply and publish.
    #[serde(rename = "durable")]
    pub durable: LagPartReport,
    /// From the relay log until all workers have applied it.
    #[serde(rename = "apply")]
    pub apply: LagPartReport,
    /// From there to visibility.
    #[serde(rename = "publish")]
    pub publish: LagPartReport,
}

impl LagPartsReport {
    /// Each part with its figures.
    #[must_use]
    pub fn all(&self) -> [(LagPart, LagPartReport); 4] {
        let LagPartsReport { transport, durable, apply, publish } = *self;
        let figures = [transport, durable, apply, publish];
        std::array::from_fn(|at| (LagPart::ALL[at], figures[at]))
    }
}

impl LagByPart {
    fn meter(&self, part: LagPart) -> &LagMeter {
        let [transport, durable, apply, publish] = &self.meters;
        match part {
            LagPart::Transport => transport,
            LagPart::Durable => durable,
            LagPart::Apply => apply,
            LagPart::Publish => publish,
        }
    }

    fn arrivals(&self) -> MutexGuard<'_, Arrivals> {
        self.arrivals.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes that the relay log now ends at `end`, with whole transactions. Called before readers of the log see them.
    pub fn arrived(&self, end: (u64, u64), transactions: u64, now_us: u64) {
        let mut arrivals = self.arrivals();
        // The log was truncated meanwhile, and these bytes have taken the place of others.
        while arrivals.queue.back().is_some_and(|last| last.end >= end) {
            arrivals.queue.pop_back();
        }
        if arrivals.queue.len() >= ARRIVALS_MAX {
            arrivals.thin();
        }
        arrivals.queue.push_back(Arrival { end, at_us: now_us, first_us: now_us, transactions });
    }

    /// Records the transport of transactions that are in the relay log since `now_us`: `commits_us` are their commit
    /// times by the source's clock, 0 where the log has none; that clock shows `source_now_us`.
    pub fn transported(&self, commits_us: &[u64], source_now_us: u64, now_us: u64) {
        let timed = commits_us.iter().filter(|commit_us| **commit_us > 0);
        self.meter(LagPart::Transport).record_times(timed.map(|at| (source_now_us.saturating_sub(*at), 1)), now_us);
    }

    /// Notes that the relay log is synced up to `end`.
    pub fn synced(&self, end: (u64, u64), now_us: u64) {
        let mut arrivals = self.arrivals();
        if end <= arrivals.durable {
            // A truncated log begins again at an earlier place.
            arrivals.durable = end;
            return;
        }
        let from = arrivals.queue.partition_point(|arrival| arrival.end <= arrivals.durable);
        let to = arrivals.queue.partition_point(|arrival| arrival.end <= end);
        let times = arrivals.queue.range(from..to.max(from));
        let times = times.map(|arrival| (now_us.saturating_sub(arrival.at_us), arrival.transactions));
        self.meter(LagPart::Durable).record_times(times, now_us);
        arrivals.durable = end;
        arrivals.forget_done();
    }

    /// Records transactions that became visible, by their ends in the relay log's file, in ascending order.
    pub fn shown(&self, piece: PieceTimes, ends: impl Iterator<Item = u64>) {
        let PieceTimes { file_number, applied_us, visible_us } = piece;
        let mut arrivals = self.arrivals();
        let Arrivals { queue, times, .. } = &mut *arrivals;
        let mut transactions = 0;
        times.clear();
        let mut at = 0;
        let mut last = None;
        for offset in ends {
            transactions += 1;
            let Some(end) = file_number.map(|number| (number, offset)).filter(|_| !queue.is_empty()) else { continue };
            if last.is_none() {
                at = queue.partition_point(|arrival| arrival.end < end);
            }
            last = Some(end);
            while queue.get(at).is_some_and(|arrival| arrival.end < end) {
                at += 1;
            }
            // Without one it was received by an earlier process.
            let Some(arrival) = queue.get(at).filter(|arrival| arrival.at_us <= applied_us) else { continue };
            let time = applied_us - arrival.at_us;
            match times.last_mut() {
                Some((same, count)) if *same == time => *count += 1,
                _ => times.push((time, 1)),
            }
        }
        self.meter(LagPart::Apply).record_times(times.iter().copied(), visible_us);
        self.meter(LagPart::Publish).record_times([(visible_us.saturating_sub(applied_us), transactions)], visible_us);
        if let Some(end) = last {
            arrivals.visible = end;
            arrivals.forget_done();
        }
    }

    /// All transactions of the run, with those of the whole lag.
    #[must_use]
    pub fn histograms(&self, whole: &LagMeter) -> LagHistograms {
        let parts = LagPart::ALL.map(|part| self.meter(part).histogram());
        LagHistograms { whole: whole.histogram(), parts }
    }

    /// The parts in figures, at `now_us`.
    #[must_use]
    pub fn report(&self, now_us: u64) -> LagPartsReport {
        let of = |part| {
            let meter = self.meter(part);
            LagPartReport { overall: meter.overall(), last_10s: meter.last_seconds(10, now_us) }
        };
        LagPartsReport {
            transport: of(LagPart::Transport),
            durable: of(LagPart::Durable),
            apply: of(LagPart::Apply),
            publish: of(LagPart::Publish),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn of(lags: &LagByPart, part: LagPart) -> (u64, u64) {
        let LagSummary { transactions, max_us, .. } = lags.meter(part).overall();
        (transactions, max_us)
    }

    fn piece(applied_us: u64, visible_us: u64) -> PieceTimes {
        PieceTimes { file_number: Some(7), applied_us, visible_us }
    }

    #[test]
    fn a_transaction_goes_through_all_parts() {
        let lags = LagByPart::default();
        lags.arrived((7, 100), 1, 1_000_300);
        lags.transported(&[1_000_050, 0], 1_000_250, 1_000_300);
        assert_eq!(of(&lags, LagPart::Transport), (1, 200), "our clock is 50 µs ahead of the source's");
        lags.shown(piece(1_000_700, 1_000_710), [100].into_iter());
        assert_eq!(of(&lags, LagPart::Apply), (1, 400));
        assert_eq!(of(&lags, LagPart::Publish), (1, 10));
        assert_eq!(of(&lags, LagPart::Durable), (0, 0), "it is visible before it is durable");
        lags.synced((7, 100), 1_009_300);
        assert_eq!(of(&lags, LagPart::Durable), (1, 9_000));
        assert!(lags.arrivals().queue.is_empty());
        lags.synced((7, 100), 1_019_300);
        assert_eq!(of(&lags, LagPart::Durable), (1, 9_000), "once");
        assert_eq!(lags.report(2_000_000).all().map(|(_, figures)| figures.last_10s.transactions), [1, 1, 1, 1]);
    }

    #[test]
    fn a_piece_may_hold_several_arrivals_and_an_arrival_several_pieces() {
        let lags = LagByPart::default();
        lags.arrived((7, 100), 2, 10);
        lags.arrived((7, 200), 3, 20);
        lags.shown(piece(110, 110), [50, 100, 150].into_iter());
        assert_eq!(of(&lags, LagPart::Apply), (3, 100));
        assert_eq!(lags.meter(LagPart::Apply).overall().p50_us, 100);
        lags.shown(piece(220, 220), [180, 200].into_iter());
        assert_eq!(of(&lags, LagPart::Apply), (5, 200));
        assert_eq!(of(&lags, LagPart::Publish), (5, 0));
        lags.synced((7, 250), 220);
        assert_eq!(of(&lags, LagPart::Durable), (5, 210));
    }

    #[test]
    fn what_an_earlier_process_received_counts_for_publish_alone() {
        let lags = LagByPart::default();
        lags.shown(piece(5, 9), [100, 200].into_iter());
        lags.shown(PieceTimes { file_number: None, ..piece(5, 9) }, [300].into_iter());
        assert_eq!((of(&lags, LagPart::Apply), of(&lags, LagPart::Publish)), ((0, 0), (3, 4)));
        // Behind it, in the same file, this process appends.
        lags.arrived((7, 500), 1, 1_000);
        lags.shown(piece(900, 900), [400].into_iter());
        assert_eq!(of(&lags, LagPart::Apply), (0, 0), "it was applied before anything arrived");
    }

    #[test]
    fn a_truncated_log_is_counted_by_what_took_its_place() {
        let lags = LagByPart::default();
        lags.arrived((7, 100), 1, 10);
        lags.arrived((7, 200), 1, 20);
        lags.arrived((7, 150), 1, 1_000);
        lags.shown(piece(1_010, 1_010), [100, 150].into_iter());
        assert_eq!((of(&lags, LagPart::Apply), lags.meter(LagPart::Apply).overall().p50_us), ((2, 1_000), 10));
        lags.synced((7, 200), 1_010);
        lags.synced((7, 120), 1_020);
        lags.arrived((7, 140), 1, 1_030);
        lags.synced((7, 140), 1_040);
        assert_eq!(of(&lags, LagPart::Durable), (3, 1_000));
    }

    #[test]
    fn a_backlog_is_remembered_within_bounds() {
        let lags = LagByPart::default();
        let count = 100 * ARRIVALS_MAX as u64;
        for number in 1..=count {
            lags.arrived((7, number), 1, number * 1_000);
        }
        assert!(lags.arrivals().queue.len() <= ARRIVALS_MAX);
        let now_us = count * 1_000;
        lags.synced((7, count), now_us);
        assert_eq!(of(&lags, LagPart::Durable).0, count, "none is lost by joining");
        for number in 1..=count {
            lags.shown(piece(now_us, now_us), [number].into_iter());
        }
        let (transactions, max_us) = of(&lags, LagPart::Apply);
        assert_eq!(transactions, count);
        assert!(max_us <= now_us && max_us > now_us - now_us / 500, "{max_us} of {now_us}");
        assert!(lags.arrivals().queue.is_empty());
    }
}
