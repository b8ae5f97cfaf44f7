//! State shared between the receiver and the rest of the replica.
//!
//! In: state changes of the receiver, the request to stop. Out: the parts that status and the outcome need.

use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use base::GtidSet;
use observe::{ConnectionState, ErrorReport, RateMeter, SourceClock, now_us};
use relay_log::FirstEvent;
use source::clock::ClockDifference;
use source::history::PastEvent;

use crate::exit::Failure;
use crate::failure::error_report;
use crate::moved::Moves;
use crate::room::SpaceNeed;
use crate::source_facts::{SourceFacts, SourceSettings};
use crate::witness::{Witness, WitnessFile};

impl SourceState {
    /// How long no byte has come while the source was read; None without a connection.
    pub(crate) fn silence(&self) -> Option<Duration> {
        self.interrupter.as_ref().map(client::Interrupter::read_waits)
    }

    /// Number of transactions that it is known to have and that are not visible; None if it has not been asked, or says
    /// nothing now.
    pub(crate) fn lacks(&self, retrieved: &GtidSet, visible: &GtidSet) -> Option<u64> {
        if self.connection != ConnectionState::Connected || self.is_silent() {
            return None;
        }
        let (_, executed) = self.executed.as_ref().filter(|(server, _)| *server == self.facts.server_uuid)?;
        let mut known = executed.clone();
        known.union_with(retrieved);
        Some(known.subtract(visible).count())
    }

    /// True if that is longer than its heartbeats allow.
    pub(crate) fn is_silent(&self) -> bool {
        self.silent_after.zip(self.silence()).is_some_and(|(limit, silence)| silence >= limit)
    }
}

impl LinkState {
    /// Time until the source may purge what has not been received; see `SourceReport::purges_in_us`. `now_us` is now by
    /// the source's clock, whose difference to ours is `clock_us`.
    pub(crate) fn purges_in_us(&self, now_us: u64, clock_us: i64) -> Option<u64> {
        let expires_us = self.source.log_expires_s?.saturating_mul(1_000_000);
        // Its purge goes by the file's last change, which is later.
        let begun_s = self.received.newest.as_ref().and_then(|(_, event)| event.bytes.first_chunk::<4>());
        let begun_us = begun_s.map_or(0, |seconds| u64::from(u32::from_le_bytes(*seconds)) * 1_000_000);
        let idle_us =
            if self.received.idle_at_us > 0 { self.received.idle_at_us.saturating_add_signed(clock_us) } else { 0 };
        let received_to_us = begun_us.max(idle_us);
        (received_to_us > 0).then(|| expires_us.saturating_sub(now_us.saturating_sub(received_to_us)))
    }
}

/// Shared state of the receiver.
pub(crate) struct Link {
    state: Mutex<LinkState>,
    /// Source clock minus our clock, µs.
    pub source_clock: Arc<SourceClock>,
    /// Half the round trip of that measurement.
    pub clock_error_us: AtomicU64,
    /// Meter of received log bytes.
    pub received: RateMeter,
    /// Set when the replica ends.
    pub stopping: AtomicBool,
    /// Since when the source is asked in vain whether it has what we have, µs; 0 while it is not.
    undecided_since_us: AtomicU64,
    /// What the newest received transaction looks like at the source.
    pub witness: WitnessFile,
    /// What moves to other sources left to be verified.
    pub moves: Moves,
    /// Set when receiving must end, to be started again later.
    pub io_stop: AtomicBool,
}

/// State of the receiver under the lock.
#[derive(Default)]
pub(crate) struct LinkState {
    pub source: SourceState,
    pub received: ReceivedState,
}

/// The source, and the connection to it.
#[derive(Default)]
pub(crate) struct SourceState {
    /// Connected, trying, or ended.
    pub connection: ConnectionState,
    pub facts: SourceFacts,
    /// server_uuid of the server that was asked last for its `gtid_executed`, and that.
    pub executed: Option<(String, GtidSet)>,
    /// TLS version and cipher.
    pub tls: Option<String>,
    /// True once the log says that the source's time zones cannot be read.
    pub zones_not_read_said: bool,
    /// True once the log says that the source's history cannot be known.
    pub history_unknown_said: bool,
    /// True if the source waits for our acknowledgements.
    pub semi_sync: bool,
    /// Start of the current connection or of the attempts, µs.
    pub since_us: u64,
    /// Time of the next try of a login that the source refused, µs; 0 if none waits.
    pub next_try_us: u64,
    pub reconnects: u64,
    /// Time of the last comparison of the clocks, µs.
    pub clock_measured_us: u64,
    /// How long the source keeps its log, seconds; None if it never purges it by itself, or is not known.
    pub log_expires_s: Option<u64>,
    /// Interrupts a blocked read.
    pub interrupter: Option<client::Interrupter>,
    /// Why the connection was ended from here.
    pub doubted: Option<String>,
    /// Time without a byte after which the source is silent; None if it need not send any.
    pub silent_after: Option<Duration>,
}

/// What was received, from whatever source, and why no more is.
#[derive(Default)]
pub(crate) struct ReceivedState {
    /// Time of the last event or heartbeat, µs.
    pub last_received_us: u64,
    /// Time of the last heartbeat that told of nothing new, µs: all of the source's log had been received.
    pub idle_at_us: u64,
    /// GTIDs in the relay log.
    pub retrieved: GtidSet,
    /// Position in the source's log that corresponds to `retrieved`.
    pub source_position: Option<String>,
    /// Number of transactions received since the start.
    pub transactions: u64,
    /// The last error of receiving, for status; cleared by a new connection.
    pub last_error: Option<ErrorReport>,
    /// Failure that stopped receiving until it is started again.
    pub failure: Option<Failure>,
    /// First event of the newest transaction received in this run, and the server_uuid of its source.
    pub newest: Option<(String, FirstEvent)>,
    /// True if all files of a file source have been read.
    pub files_done: bool,
    /// Set while receiving waits for disk space.
    pub waits_for_space: Option<SpaceNeed>,
}

impl Link {
    /// # Errors
    /// The file of the newest received transaction cannot be read.
    pub(crate) fn new(data: &Path) -> Result<Arc<Link>, Failure> {
        Ok(Arc::new(Link {
            state: Mutex::new(LinkState::default()),
            source_clock: Arc::default(),
            clock_error_us: AtomicU64::new(0),
            received: RateMeter::new(),
            stopping: AtomicBool::new(false),
            io_stop: AtomicBool::new(false),
            undecided_since_us: AtomicU64::new(0),
            witness: WitnessFile::open(data)?,
            moves: Moves::open(data)?,
        }))
    }

    /// Takes note of whether the source could say that it has what we have.
    ///
    /// # Errors
    /// It could not, for this reason, and for how long.
    pub(crate) fn decided(&self, undecided: Option<&str>) -> Result<(), Failure> {
        let Some(why) = undecided else {
            self.undecided_since_us.store(0, Ordering::Relaxed);
            return Ok(());
        };
        let now_us = now_us();
        let since_us = match self.undecided_since_us.compare_exchange(0, now_us, Ordering::Relaxed, Ordering::Relaxed) {
            Ok(_) => now_us,
            Err(since_us) => since_us,
        };
        Err(Failure::error(format!("{why}; waiting for {} s", now_us.saturating_sub(since_us) / 1_000_000)))
    }

    /// What of the source changes answers, as last asked.
    pub(crate) fn source_settings(&self) -> Arc<SourceSettings> {
        Arc::clone(&self.lock().source.facts.settings)
    }

    /// What this makes of UUID and version of the source as it was met last.
    pub(crate) fn of_source<T>(&self, of: impl FnOnce(&str, &str) -> T) -> T {
        let facts = &self.lock().source.facts;
        of(&facts.server_uuid, &facts.version)
    }

    /// True if receiving must end, for now or for good.
    pub(crate) fn must_end(&self) -> bool {
        self.stopping.load(Ordering::Acquire) || self.io_stop.load(Ordering::Acquire)
    }

    /// Ends a blocked read of the receiver.
    pub(crate) fn interrupt(&self) {
        if let Some(interrupter) = &self.lock().source.interrupter {
            interrupter.shutdown();
        }
    }

    /// Stores durably what the newest received transaction looks like at the source.
    ///
    /// # Errors
    /// Code 8 for disk errors.
    pub(crate) fn keep_witness(&self) -> Result<(), Failure> {
        let newest = self.lock().received.newest.clone().filter(|(server_uuid, _)| !server_uuid.is_empty());
        let Some((server_uuid, FirstEvent { file, offset, bytes })) = newest else { return Ok(()) };
        self.witness.keep(Witness { server_uuid, event: PastEvent { file: file.to_string(), offset, bytes } })
    }

    /// Locks the state; hold the guard only briefly.
    pub(crate) fn lock(&self) -> MutexGuard<'_, LinkState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Records a comparison of the clocks.
    pub(crate) fn note_clock(&self, clock: ClockDifference) {
        self.source_clock.set(clock.difference_us);
        self.clock_error_us.store(clock.round_trip_us / 2, Ordering::Relaxed);
        self.lock().source.clock_measured_us = now_us();
    }

    /// Ends the connection that receives, for this reason, if `is_meant` says under the lock that it is still the one.
    pub(crate) fn doubt(&self, why: &str, is_meant: impl FnOnce() -> bool) {
        let mut state = self.lock();
        if is_meant() {
            state.source.doubted = Some(why.to_owned());
            if let Some(interrupter) = &state.source.interrupter {
                interrupter.shutdown();
            }
        }
    }

    /// Records an error for status and log.
    pub(crate) fn note_error(&self, failure: &Failure) {
        self.lock().received.last_error = Some(error_report(failure));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_not_received_is_purged_after_its_age() {
        let mut state = LinkState::default();
        assert_eq!(state.purges_in_us(2_000_000_000, 0), None);
        state.source.log_expires_s = Some(3600);
        assert_eq!(state.purges_in_us(2_000_000_000, 0), None, "nothing was received in this run");
        let newest = FirstEvent { file: "binlog.000001".into(), offset: 4, bytes: 1000_u32.to_le_bytes().to_vec() };
        state.received.newest = Some((String::new(), newest));
        assert_eq!(state.purges_in_us(1_600_000_000, 0), Some(3_000_000_000));
        assert_eq!(state.purges_in_us(9_000_000_000, 0), Some(0));
        // Idle since: a heartbeat at 8,900 s of our clock, which is 5 s behind.
        state.received.idle_at_us = 8_900_000_000;
        assert_eq!(state.purges_in_us(9_000_000_000, 5_000_000), Some(3_505_000_000));
        state.source.log_expires_s = None;
        assert_eq!(state.purges_in_us(9_000_000_000, 0), None);
    }
}
