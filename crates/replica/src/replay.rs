//! Replay of a replica, and what an operator has asked of it.
//!
//! In: a pipeline that runs, orders to stop, to start, up to where. Out: where replay stands, and what of it the log
//! says. Never here: a row; the relay log's writer; the decision to end the process.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use apply::Pipeline;
use base::{GtidSet, UntilGtids};
use catalog::Catalog;
use decode::SkipList;
use observe::ErrorReport;
use store::CheckImages;

use crate::exit::Failure;
use crate::failure::error_report;
use crate::log::{self, Code};
use crate::relay_purge::LastCut;
use crate::replica::BeginReplay;

/// How long a request to stop replay waits for the end of the transaction in hand.
const ENDS_WITHIN: Duration = Duration::from_secs(15);
/// Interval at which it looks.
const REST_LOOK_EVERY: Duration = Duration::from_millis(1);

/// Replay of a replica.
pub(crate) struct Replay {
    /// The pipeline: rows, watermark, ledger.
    pub pipeline: Pipeline,
    pub skip: SkipList,
    pub last_cut: Arc<Mutex<LastCut>>,
    pub check_images: CheckImages,
    /// True if the start truncated the relay log, which may have lost what was visible before, unless that is known.
    pub log_was_cut: bool,
    /// What must be visible before the kept relay log counts as replayed.
    pub recovered: GtidSet,
    recovery: Recovery,
    until: Until,
    /// Why replay stopped, with the time at which that was noticed.
    error: OnceLock<ErrorReport>,
    /// True once the log says that replay stopped with an error.
    stop_said: AtomicBool,
    /// True once the log says that a copy without a lock is exact; also if there is no such copy.
    settled_said: AtomicBool,
}

/// The replay of the kept relay log after a start.
struct Recovery {
    began: Instant,
    /// Number of the last transaction that the store held.
    from: u64,
    /// True once its duration is logged; also for an empty folder, which has none.
    said: AtomicBool,
}

/// The condition of the last order to start replay.
#[derive(Default)]
struct Until {
    condition: Mutex<Option<UntilGtids>>,
    /// True once the log says that it is met.
    said: AtomicBool,
    /// True once that stop is kept for a restart.
    kept: AtomicBool,
}

impl Until {
    fn condition(&self) -> MutexGuard<'_, Option<UntilGtids>> {
        self.condition.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// What [`Replay`] begins with.
pub(crate) struct Begin<'a> {
    pub pipeline: Pipeline,
    pub skip: SkipList,
    pub last_cut: Arc<Mutex<LastCut>>,
    pub check_images: CheckImages,
    pub log_was_cut: bool,
    /// GTIDs of the kept relay log.
    pub retrieved: GtidSet,
    pub order: &'a BeginReplay,
    /// When the start began.
    pub began: Instant,
    /// Number of the last transaction that the store held; None if the folder was empty.
    pub recovered_from: Option<u64>,
}

impl Replay {
    pub(crate) fn new(begin: Begin<'_>) -> Replay {
        let Begin { pipeline, skip, last_cut, check_images, log_was_cut, retrieved, order, began, recovered_from } =
            begin;
        let recovered = match order {
            // Until then rows are those of before the stop.
            BeginReplay::StoppedAt(shown) => shown.clone(),
            _ => retrieved,
        };
        let condition = match order {
            BeginReplay::Until(until) => Some(until.clone()),
            _ => None,
        };
        let settled = pipeline.store.readable().is_ok();
        Replay {
            pipeline,
            skip,
            last_cut,
            check_images,
            log_was_cut,
            recovered,
            recovery: Recovery {
                began,
                from: recovered_from.unwrap_or_default(),
                said: AtomicBool::new(recovered_from.is_none()),
            },
            until: Until { condition: Mutex::new(condition), ..Until::default() },
            error: OnceLock::new(),
            stop_said: AtomicBool::new(false),
            settled_said: AtomicBool::new(settled),
        }
    }

    /// The GTIDs that can be read.
    pub(crate) fn executed(&self) -> GtidSet {
        self.pipeline.store.visibility().executed()
    }

    /// The definitions that can be read.
    pub(crate) fn catalog(&self) -> Catalog {
        self.pipeline.store.visibility().current().catalog
    }

    pub(crate) fn last_cut(&self) -> LastCut {
        self.last_cut.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Stops replay at a transaction boundary. Returns what is visible once nothing becomes visible any more; at once
    /// if replay is on its way to where it is stopped.
    ///
    /// # Errors
    /// `trouble` says why replay cannot come to rest, or it does not in time; it does so later.
    pub(crate) fn stop(&self, trouble: impl Fn() -> Option<Failure>) -> Result<GtidSet, Failure> {
        trouble().map_or(Ok(()), Err)?;
        if let (Some(shown), false) = (self.stopped_at(), self.pipeline.is_paused()) {
            return Ok(shown);
        }
        self.pipeline.pause();
        let until = Instant::now() + ENDS_WITHIN;
        while !self.pipeline.is_at_rest() {
            trouble().map_or(Ok(()), Err)?;
            if Instant::now() > until {
                return Err(Failure::error("replay was told to stop and has not ended its transaction yet"));
            }
            std::thread::sleep(REST_LOOK_EVERY);
        }
        Ok(self.executed())
    }

    /// Starts replay again, up to a condition if there is one. False if it has failed.
    pub(crate) fn start(&self, until: Option<UntilGtids>) -> bool {
        if self.pipeline.failure().is_some() {
            return false;
        }
        self.until.condition().clone_from(&until);
        self.until.said.store(false, Ordering::Relaxed);
        self.until.kept.store(false, Ordering::Relaxed);
        self.pipeline.resume(until);
        true
    }

    /// The condition of the last order to start replay, met or not.
    pub(crate) fn until(&self) -> Option<UntilGtids> {
        self.until.condition().clone()
    }

    /// What is visible, once that condition has stopped replay; returned once, and noted in the log.
    pub(crate) fn take_until_met(&self) -> Option<GtidSet> {
        let until = self.until()?;
        if !self.pipeline.is_until_met() || !self.pipeline.is_at_rest() || self.until.said.swap(true, Ordering::Relaxed)
        {
            return None;
        }
        let text = format!("replay stopped: START REPLICA UNTIL {} = '{}' is met", until.name(), until.set());
        log::write(Code::UntilMet, "Replay", &text);
        Some(self.executed())
    }

    /// What stopped replay at its condition is kept for a restart, or cannot be.
    pub(crate) fn until_is_kept(&self) {
        self.until.kept.store(true, Ordering::Relaxed);
    }

    /// True if an operator has stopped replay, and it has stopped.
    pub(crate) fn is_stopped(&self) -> bool {
        let is_kept =
            || self.until.kept.load(Ordering::Relaxed) || self.until().is_none() || !self.pipeline.is_until_met();
        self.pipeline.is_paused() && self.pipeline.is_at_rest() && is_kept()
    }

    /// What is visible where an operator has stopped replay, also on the way there after a restart; None if it runs.
    pub(crate) fn stopped_at(&self) -> Option<GtidSet> {
        if self.pipeline.is_paused() {
            return Some(self.executed());
        }
        match (self.pipeline.until(), self.until()) {
            (Some(UntilGtids::After(shown)), None) => Some(shown),
            _ => None,
        }
    }

    /// How replay begins in an engine that replaces this one, if nobody asks for another way: as it is here.
    pub(crate) fn again(&self) -> BeginReplay {
        match (self.stopped_at(), self.until()) {
            (Some(shown), _) => BeginReplay::StoppedAt(shown),
            (None, Some(until)) => BeginReplay::Until(until),
            (None, None) => BeginReplay::Runs,
        }
    }

    /// GTIDs of which it is decided whether they are skipped: all that are sequenced. Once replay has failed only the
    /// visible ones: the next engine meets the others again.
    pub(crate) fn decided(&self, sequenced: &GtidSet) -> GtidSet {
        if self.pipeline.failure().is_some() { self.executed() } else { sequenced.clone() }
    }

    /// Why replay stopped, for status. The time is that of the first call.
    pub(crate) fn error(&self, failure: Failure) -> ErrorReport {
        let mut report = self.error.get_or_init(|| error_report(&failure)).clone();
        // A failure at an earlier place of the log may replace the first one that was noticed.
        (report.exit, report.number, report.text, report.way_on) =
            (failure.exit.code(), failure.number, failure.text, failure.hint);
        report
    }

    /// Logs once that replay stopped with an error.
    pub(crate) fn tell_of_stop(&self, failure: Failure) {
        if !self.stop_said.swap(true, Ordering::Relaxed) {
            let text = format!("replay stopped; receiving is not affected: {}", failure.told());
            log::write(Code::SqlStopped, "Replay", &text);
            self.error(failure);
        }
    }

    /// True if the log says that replay stopped.
    pub(crate) fn stop_is_said(&self) -> bool {
        self.stop_said.load(Ordering::Relaxed)
    }

    /// True while the kept part of the relay log is being replayed.
    pub(crate) fn is_recovering(&self) -> bool {
        !self.recovery.said.load(Ordering::Relaxed)
    }

    /// Logs the end of recovery, skipped transactions, and when a copy without a lock becomes consistent.
    pub(crate) fn step(&self) {
        if self.is_recovering() {
            let visible = self.pipeline.store.visibility().current();
            if self.recovered.is_subset_of(&visible.executed) {
                self.recovery.said.store(true, Ordering::Relaxed);
                let replayed = visible.sequence.0.saturating_sub(self.recovery.from);
                let text = format!(
                    "recovered in {} ms: replayed {replayed} transactions of the kept relay log after the cut",
                    self.recovery.began.elapsed().as_millis()
                );
                log::write(Code::Recovered, "Store", &text);
            }
        }
        let (skipped, more) = self.skip.take_skipped(&self.executed());
        for one in skipped {
            let text = format!("{} was committed empty, as the operator asked; it contained {}", one.gtid, one.held);
            log::write(Code::Skipped, "Replay", &text);
        }
        if more > 0 {
            log::write(Code::Skipped, "Replay", &format!("{more} more transactions were committed empty"));
        }
        self.tell_what_was_twice();
        if !self.settled_said.load(Ordering::Relaxed) && self.pipeline.store.readable().is_ok() {
            self.settled_said.store(true, Ordering::Relaxed);
            log::write(
                Code::CopyConsistent,
                "Copy",
                "the copy made without a lock is consistent now; rows can be read",
            );
        }
    }

    /// Logs which transactions the source logged twice around its cascades.
    fn tell_what_was_twice(&self) {
        let (notes, more) = self.pipeline.publisher.logged_twice().take_notes();
        for note in notes {
            let text = format!(
                "passed over {} changes of rows that a cascade of the same statement had deleted or changed: the \
                 source logs them twice; table {note}",
                note.rows
            );
            log::write(Code::LoggedTwice, "Replay", &text);
        }
        if more > 0 {
            log::write(
                Code::LoggedTwice,
                "Replay",
                &format!("passed over {more} more changes that the source logs twice"),
            );
        }
    }

    /// Table and GTID of the newest change that the source logged twice; empty if there is none.
    pub(crate) fn logged_twice_last(&self) -> String {
        self.pipeline.publisher.logged_twice().last().map(|note| note.to_string()).unwrap_or_default()
    }
}
