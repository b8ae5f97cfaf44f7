//! Receives over one connection, until it fails or receiving must end.
//!
//! In: a checked connection's dump stream. Out: events at the end of the relay log, acknowledgements, what ended the
//! connection. Never here: a retry.

use std::sync::Arc;
use std::time::{Duration, Instant};

use base::LogPosition;
use base::periods::SILENT_AFTER;
use client::{ClientError, DumpRefusal};
use observe::fail_point::{self, Phase};
use observe::{ConnectionState, now_us};
use relay_log::boundary::BoundaryError;
use relay_log::{RelayError, Taken};
use source::{DumpRequest, DumpStream, start_dump};

use super::acknowledge::Acknowledger;
use super::choice::SourceChoice;
use super::connect::{Connected, Connector};
use super::link::Link;
use super::log_end::LogEnd;
use super::watch::Watch;
use crate::config::ReplicaConfig;
use crate::exit::{DiskTrouble, Failure};
use crate::failure::{SourceTrouble as Trouble, relay_failure, shown_set, source_failure, trouble};
use crate::log::{self, Code};
use crate::room::SpaceNeed;

/// How long one of several sources may look in its log before it sends the first event: it reads the heads of its
/// files, thousands of them where much is kept, and sends no heartbeats meanwhile.
const BEGINS_WITHIN: Duration = Duration::from_secs(10);

/// What one connection after the other receives with.
pub(super) struct Session {
    pub config: ReplicaConfig,
    pub link: Arc<Link>,
    pub connector: Connector,
    pub end: LogEnd,
    pub acknowledger: Acknowledger,
    /// Why the source ended the last dump, and the transactions received until then. The same once more is final.
    pub ended_because: Option<(String, u64)>,
}

impl Session {
    /// Receives from the chosen source over one connection until it fails or the replica stops.
    pub(super) fn run(&mut self, choice: &mut SourceChoice, ready: Option<Box<Connected>>) -> Result<(), Trouble> {
        let retrieved = self.end.retrieved().clone();
        let Connected { connection, view } = match ready {
            Some(connected) => *connected,
            None => {
                let connected = self.connector.connect(&choice.next(), &retrieved)?;
                self.connector.keep_facts().map_err(|failure| self.facts_trouble(failure))?;
                connected
            }
        };
        let host = self.config.report_host.clone().unwrap_or_default();
        let mut request = DumpRequest::new(self.connector.server_id, &retrieved);
        request.uuid = Some(self.connector.server_uuid);
        request.heartbeat_period = self.config.heartbeat;
        request.semi_sync = self.config.semi_sync;
        request.register_host = &host;
        request.register_port = self.config.report_port;
        let mut stream = start_dump(connection, &request).map_err(|e| trouble(&e))?;
        {
            let mut state = self.link.lock();
            state.source.connection = ConnectionState::Connected;
            state.received.last_error = None;
            state.source.since_us = now_us();
            state.source.semi_sync = stream.semi_sync();
            state.source.interrupter = Some(stream.interrupter().map_err(|e| trouble(&e))?);
            state.source.doubted = None;
            state.source.silent_after = silent_after(self.config.heartbeat);
        }
        let facts = self.link.lock().source.facts.clone();
        let position = self.end.source_position();
        // It has no file before the first byte came.
        let place = if position.file.is_empty() { String::new() } else { format!("from {position} ") };
        let text = format!(
            "connected to source '{}' (server_uuid {}, version {}), receiving {place}after GTIDs {}",
            choice.shown(),
            facts.server_uuid,
            facts.version,
            shown_set(&retrieved)
        );
        log::write(Code::Connected, "Source", &text);
        // Left once it takes no part in its group any more, if another one may be followed.
        let watch = match (choice.tried_options(), view) {
            (Some(options), view) if choice.has_others() => {
                Some(Watch::begin(options, choice.login(), &self.link, view))
            }
            (Some(options), Some(view)) => Some(Watch::only_seen(options, choice.login(), &self.link, view)),
            _ => {
                let (login, tried) = choice.login();
                login.see(tried, "", &[]);
                None
            }
        };
        let result = self.receive(&mut stream, choice);
        drop(watch);
        let doubted = {
            let source = &mut self.link.lock().source;
            source.interrupter = None;
            source.doubted.take()
        };
        // It says more than how the connection ended.
        let result = result.map_err(|trouble| match (trouble, doubted) {
            (fatal @ (Trouble::Fatal(_) | Trouble::NoRoom(_)), _) => fatal,
            (_, Some(why)) => again(&why),
            (trouble, None) => trouble,
        });
        self.end.note_progress();
        // Without the file, a check of the source's history is left out.
        let _ = self.link.keep_witness();
        result
    }

    fn facts_trouble(&self, failure: Failure) -> Trouble {
        match failure.disk {
            Some(DiskTrouble::Full) if self.end.room.is_some() => {
                Trouble::NoRoom(SpaceNeed { transaction_bytes: 0, begun_s: 0, lacks_bytes: 1 })
            }
            _ => Trouble::Fatal(failure),
        }
    }

    /// Stores events as they arrive. Appends and acknowledges when nothing is buffered, so that a busy source's
    /// transactions share a write and a sync.
    fn receive(&mut self, stream: &mut DumpStream, choice: &SourceChoice) -> Result<(), Trouble> {
        let mut ack: Option<LogPosition> = None;
        self.acknowledger.clear();
        // A source says nothing while it looks where the dump begins.
        let begins_within = if choice.has_others() { BEGINS_WITHIN } else { Duration::ZERO };
        let mut wait_max = self.config.read_timeout.max(begins_within);
        let mut limit = Duration::ZERO;
        let mut heard = Instant::now();
        let mut has_begun = false;
        loop {
            if self.link.must_end() {
                return Ok(());
            }
            let wanted = self.acknowledger.acknowledge_after_replicas(stream)?.unwrap_or(wait_max);
            if limit != wanted {
                limit = wanted;
                stream.set_read_timeout(Some(limit)).map_err(|e| trouble(&e))?;
            }
            let event = match stream.next_event() {
                Ok(Some(event)) => event,
                Ok(None) => return Err(again("the source ended the stream")),
                Err(_) if self.link.must_end() => return Ok(()),
                // Only a look.
                Err(error) if error.is_timeout() && limit < wait_max && heard.elapsed() < wait_max => continue,
                Err(ClientError::Interrupted) => return Err(again("the connection was ended from here")),
                Err(error) => return Err(self.stream_trouble(error)),
            };
            if self.acknowledger.waits_for_replicas() {
                heard = Instant::now();
            }
            if !std::mem::replace(&mut has_begun, true) {
                wait_max = self.config.read_timeout;
                choice.follows(&self.link.lock().source.facts.server_uuid);
            }
            let ack_wanted = event.ack_wanted;
            if let Some(need) = self.end.lacks_room_for(event.event) {
                // Not acknowledged any more, and sent again over the next connection.
                self.end.flush().map_err(Trouble::Fatal)?;
                return Err(Trouble::NoRoom(need));
            }
            let taken =
                self.end.event(event.event).map_err(|error| intake_trouble(error, self.end.source_position()))?;
            if let Taken::Heartbeat { moved } = taken {
                self.note_heartbeat(moved);
            }
            // A source counts as acknowledged only what it sent and we answered. If it skips transactions that we have
            // from an earlier connection, which ended before the answer, its commits would wait (seen with 9.7.4).
            let left_out = taken == Taken::Heartbeat { moved: true } && stream.semi_sync();
            if ack_wanted || left_out {
                ack = Some(self.end.source_position().clone());
            }
            if stream.buffered() {
                continue;
            }
            // Nothing is buffered: pass on the complete transactions before waiting.
            fail_point::enter(Phase::Receive);
            let end = self.end.flush().map_err(Trouble::Fatal)?;
            self.end.note_progress();
            if let Some(position) = ack.take() {
                self.acknowledger.acknowledge(stream, self.end.writer(), end, &position)?;
            }
        }
    }

    fn stream_trouble(&mut self, error: ClientError) -> Trouble {
        match error {
            // The source's log may have changed under its dump (RESET): the next connection finds out how.
            error if matches!(error.dump_refusal(), Some(DumpRefusal::Other | DumpRefusal::EventTooLarge)) => {
                let why = (error.to_string(), self.end.taken_transactions());
                if self.ended_because.replace(why.clone()) == Some(why) {
                    trouble(&error)
                } else {
                    Trouble::Again(source_failure(&error))
                }
            }
            // Packets out of order, cut short or of no known kind: another connection fetches them again.
            ClientError::Wire(error) => again(&format!("{error} (source position {})", self.end.source_position())),
            error => trouble(&error),
        }
    }

    /// `moved`: the source's position is after the last event that it sent.
    fn note_heartbeat(&mut self, moved: bool) {
        let mut state = self.link.lock();
        let received = &mut state.received;
        received.last_received_us = now_us();
        if !moved {
            received.idle_at_us = received.last_received_us;
        }
    }
}

/// Time without a byte after which a source is silent: three of its heartbeats are missing.
fn silent_after(heartbeat: Duration) -> Option<Duration> {
    (!heartbeat.is_zero()).then(|| SILENT_AFTER.get().max(heartbeat.saturating_mul(3)))
}

fn again(text: &str) -> Trouble {
    Trouble::Again(Failure::error(text))
}

/// The trouble that an event makes, of which the last one before it ends at `after`.
fn intake_trouble(error: RelayError, after: &LogPosition) -> Trouble {
    match &error {
        // Bytes damaged in transit: another connection fetches them again.
        RelayError::Boundary(BoundaryError::Malformed(text)) => again(text),
        RelayError::Boundary(_) => {
            let mut failure = relay_failure(error);
            failure.text = format!("{} (source position {after})", failure.text);
            Trouble::Fatal(failure)
        }
        _ => Trouble::Fatal(relay_failure(error)),
    }
}
