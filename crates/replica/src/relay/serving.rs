//! What stays of a served log while engines come and go: its files, who reads them, for whom they are kept; and the
//! thread that stamps for one engine.
//!
//! In: the log, orders about holds. Out: a report, warnings. Never here: a stamp, a dump; the relay log.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use base::ThreadAffinity;
use observe::{HeldReport, ReplicaReadReport, ServedReport};
use serve::GrowingLog;

use super::errant::ErrantWatch;
use super::holds::{Hold, Holds};
use super::replica_text;
use super::stamping::Stamping;
use crate::exit::Failure;
use crate::failure::{error_report, shown_set};
use crate::login::SourceLogin;
use crate::receiver::link::Link;

/// A served log and its readers.
pub struct Serving {
    log: Arc<GrowingLog>,
    pub(crate) holds: Arc<Holds>,
    errant: Arc<ErrantWatch>,
    ack_after_replicas: usize,
}

impl Serving {
    pub(crate) fn new(log: Arc<GrowingLog>, holds: Arc<Holds>, ack_after_replicas: usize) -> Serving {
        if ack_after_replicas > 0 {
            // Before the first of them connects.
            log.ask_for_acks();
        }
        Serving { log, holds, errant: Arc::default(), ack_after_replicas }
    }

    #[must_use]
    pub fn log(&self) -> &Arc<GrowingLog> {
        &self.log
    }

    /// Keeps served files until a replica has executed them; returns what there is to say.
    ///
    /// # Errors
    /// As [`add_stopped`](super::holds::add_stopped).
    pub fn add_hold(&self, hold: &Hold) -> Result<String, Failure> {
        self.holds.add(hold)
    }

    /// Keeps none for the replica of this name any more; returns what there is to say.
    ///
    /// # Errors
    /// As [`remove_stopped`](super::holds::remove_stopped).
    pub fn remove_hold(&self, name: &str) -> Result<String, Failure> {
        self.holds.remove(name)
    }

    /// For which replicas files are kept.
    #[must_use]
    pub fn held(&self) -> Vec<HeldReport> {
        self.holds.report(&self.log.file_sets(), &self.log.executed())
    }

    /// Warns of replicas that have what the source lacks.
    pub(crate) fn look_for_errant(&self, link: &Link, login: &Arc<SourceLogin>) {
        let retrieved = link.lock().received.retrieved.clone();
        self.errant.look(self.log.replicas(), &retrieved, login);
    }

    /// A replica that is connected, with what it has and the source lacks.
    fn about(&self, line: &serve::ReplicaLine) -> String {
        let errant = self.errant.of(&line.server_uuid);
        let errant = errant.map(|errant| format!(", errant GTIDs {}", shown_set(&errant)));
        replica_text(line) + &errant.unwrap_or_default()
    }

    /// How far a connected replica is; None until it has asked for the log.
    fn read(&self, line: &serve::ReplicaLine) -> Option<ReplicaReadReport> {
        let unread_bytes = self.log.unread_bytes(line.dump)?;
        Some(ReplicaReadReport { server_id: line.server_id, server_uuid: line.server_uuid.clone(), unread_bytes })
    }

    /// When the source is acknowledged, in words; empty: after our sync, or never.
    fn acknowledges(&self, semi_sync: bool) -> String {
        let (needed, connected) = (self.ack_after_replicas, self.log.acknowledging());
        if needed == 0 {
            return String::new();
        }
        let state = match (semi_sync, connected < needed) {
            (false, _) => "; the source is not semi-synchronous",
            (true, true) => ": the source is not acknowledged",
            (true, false) => "",
        };
        format!("after {needed} of the semi-synchronous replicas, of which {connected} are connected{state}")
    }

    /// Its part of the status report, with what the thread that stamps shows of itself; `semi_sync`: the source is
    /// semi-synchronous.
    pub(crate) fn report(&self, stamped: &super::stamping::State, semi_sync: bool) -> ServedReport {
        let (files, replicas) = (self.log.files(), self.log.replicas());
        let counts = &stamped.counts;
        ServedReport {
            files: files.len() as u64,
            bytes: files.iter().map(|file| file.1).sum(),
            position: files.last().map(|(file, bytes)| format!("{file}:{bytes}")),
            purged: self.log.purged().to_string(),
            executed: self.log.executed().to_string(),
            beside_replay: false,
            transactions: counts.transactions,
            source_clock: counts.kept,
            drains: counts.drains,
            mean_distance: counts.distance as f64 / counts.transactions.max(1) as f64,
            errant_replicas: replicas.iter().filter(|line| self.errant.of(&line.server_uuid).is_some()).count() as u64,
            replicas: replicas.iter().map(|line| self.about(line)).collect(),
            replicas_read: replicas.iter().filter_map(|line| self.read(line)).collect(),
            acknowledges: self.acknowledges(semi_sync),
            holds: self.held(),
            waits: stamped.waits.clone(),
            error: stamped.failure.as_ref().map(error_report),
        }
    }
}

/// The thread that stamps, which ends with an error or when it is told to, and can be started again.
pub(crate) struct StampingThread {
    stamping: Arc<Stamping>,
    thread: Mutex<Option<JoinHandle<()>>>,
    affinity: ThreadAffinity,
    stopping: AtomicBool,
}

impl StampingThread {
    /// Starts it.
    ///
    /// # Errors
    /// The system cannot start a thread.
    pub(crate) fn start(affinity: &ThreadAffinity, stamping: Stamping) -> Result<StampingThread, Failure> {
        let (stamping, affinity) = (Arc::new(stamping), affinity.clone());
        let thread = Mutex::new(Some(spawn(&affinity, &stamping)?));
        Ok(StampingThread { stamping, thread, affinity, stopping: AtomicBool::new(false) })
    }

    /// What it shows of itself.
    pub(crate) fn state(&self) -> super::stamping::State {
        self.stamping.state()
    }

    /// Why it stopped; None if it runs, or was told to end.
    pub(crate) fn failure(&self) -> Option<Failure> {
        self.stamping.failure()
    }

    /// Tells it to end.
    pub(crate) fn stop(&self) {
        self.stopping.store(true, Ordering::Release);
        self.stamping.stop();
    }

    /// True until it has ended.
    pub(crate) fn runs(&self) -> bool {
        let mut kept = self.thread.lock().unwrap_or_else(PoisonError::into_inner);
        if kept.take_if(|thread| thread.is_finished()).is_some_and(|thread| thread.join().is_err()) {
            self.stamping.panicked();
        }
        kept.is_some()
    }

    /// Starts it again after an error. False if it runs, or is to end.
    ///
    /// # Errors
    /// The system cannot start a thread.
    pub(crate) fn start_again(&self) -> Result<bool, Failure> {
        let mut thread = self.thread.lock().unwrap_or_else(PoisonError::into_inner);
        if self.stamping.failure().is_none() || self.stopping.load(Ordering::Acquire) {
            return Ok(false);
        }
        // It ends once it has told why.
        thread.take().map(JoinHandle::join);
        self.stamping.forget_failure();
        *thread = Some(spawn(&self.affinity, &self.stamping)?);
        Ok(true)
    }
}

fn spawn(affinity: &ThreadAffinity, stamping: &Arc<Stamping>) -> Result<JoinHandle<()>, Failure> {
    let stamping = Arc::clone(stamping);
    let thread = affinity.spawn("stamp", move || stamping.run());
    thread.map_err(|error| Failure::error(format!("cannot start a thread: {error}")))
}
