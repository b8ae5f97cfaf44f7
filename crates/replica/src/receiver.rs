//! Receiver: feeds the relay log, and reconnects to the source as often as necessary.
//!
//! In: a source's dump stream, or binlog files. Out: appends to the relay log, acknowledgements after our sync, the
//! state of the connection. Never here: replay; an acknowledgement before the sync; a transaction split by a reconnect.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use base::{GtidSet, LogPosition, Uuid};
use binlog::reader::BinlogFile;
use client::{ClientError, ConnectOptions, Connection, DumpRefusal, SslMode};
use observe::fail_point::{self, Phase};
use observe::{ConnectionState, Work, now_us};
use relay_log::boundary::BoundaryError;
use relay_log::{Intake, RelayError, RelayPosition, RelayWriter, Taken};
use source::history::{self, Past};
use source::preflight::{self, PreflightInput, Severity};
use source::{DumpRequest, DumpStream, start_dump};
use store::DiskSpace;

use crate::after_replicas::AfterReplicas;
use crate::config::{OnStop, ReplicaConfig, ServerOptions, SourceSpec};
use crate::exit::{DiskTrouble, Exit, Failure};
use crate::failure::{
    SourceTrouble as Trouble, binlog_failure, preflight_failure, relay_failure, shown_set, source_failure, trouble,
};
use crate::folder::Folder;
use crate::log::{self, Code};
use crate::login::SourceLogin;
use crate::receiver_status::Link;
use crate::room::{Room, SpaceNeed};
use crate::source_facts::{self, FACTS_FILE, SourceFacts, SourceSettings};
use crate::witness::Witness;

/// First pause before a reconnect; doubles up to `connect_retry`.
const RETRY_FIRST: Duration = Duration::from_millis(100);
/// Bytes of a file between two progress updates.
const PROGRESS_BYTES: u64 = 4 << 20;
/// How long an acknowledgement waits for our sync; after that the source's own timeout decides.
const SYNC_WAIT: Duration = Duration::from_secs(60);
/// Time limit of a read while replicas are waited for: only what is there is taken.
const LOOK_FOR_EVENTS: Duration = Duration::from_millis(1);
/// The same while too few are connected.
const LOOK_FOR_REPLICAS: Duration = Duration::from_millis(50);
/// Interval at which a receiver that waits for disk space looks at the disk.
const LOOK_FOR_ROOM_EVERY: Duration = Duration::from_millis(100);
/// Free bytes with which a receiver that waits for more still begins a relay log file, so that the last one can be
/// purged.
const CLOSES_FILE_WITH: u64 = 128 << 10;
/// Interval at which a receiver whose login was refused looks whether an option file has changed.
const LOOK_AT_FILES_EVERY: Duration = Duration::from_secs(1);
/// Interval between comparisons of the clocks.
const CLOCK_EVERY: Duration = Duration::from_secs(60);
/// Round trips per comparison; the shortest counts.
const CLOCK_ROUNDS: u32 = 5;

enum Feed {
    Server { login: Arc<SourceLogin>, first: Option<Box<Connection>> },
    Files(Vec<PathBuf>),
}

#[derive(Clone, Debug, Default)]
pub enum Receive {
    /// The first start of this process: a source that refuses us is an error of the start.
    #[default]
    First,
    /// The engine is started again, and receiving goes on.
    Again,
    /// The engine is started again, and receiving stays stopped, for this reason if it was not asked for.
    Stopped(Option<Failure>),
}

/// Receives from one source into one relay log.
pub(crate) struct Receiver {
    config: ReplicaConfig,
    server_id: u32,
    server_uuid: Uuid,
    link: Arc<Link>,
    intake: Intake,
    /// Bytes of the intake already counted in `Link::received`.
    counted_bytes: u64,
    feed: Feed,
    /// Version of the login last tried.
    tried: u64,
    lower_case_table_names: u8,
    facts_file: PathBuf,
    /// True once a connection was made to find out why the source ended a dump, until a dump works again.
    asked_why: bool,
    /// Content of the facts file.
    known_facts: Option<SourceFacts>,
    /// None: receiving does not wait for disk space.
    room: Option<Room>,
    /// None: the source is acknowledged after our sync.
    after_replicas: Option<AfterReplicas>,
}

impl Receiver {
    /// Prepares to receive. Connects to and checks the source here only if nothing was ever received from it. Otherwise
    /// `run` does that, so that replay of the kept log need not wait. A source that cannot be reached is an error only
    /// the first time.
    ///
    /// # Errors
    /// Problems found by preflight, or the source cannot be reached.
    pub(crate) fn prepare(
        config: &ReplicaConfig,
        folder: &Folder,
        link: &Arc<Link>,
        writer: RelayWriter,
        retrieved: &GtidSet,
        receive: &Receive,
        login: Option<&Arc<SourceLogin>>,
    ) -> Result<Receiver, Failure> {
        let start = writer.source_position().cloned();
        let start = start.unwrap_or(LogPosition { file: Arc::from(""), offset: 4 });
        let mut receiver = Receiver {
            config: config.clone(),
            server_id: config.server_id.unwrap_or_else(|| folder.default_server_id()),
            server_uuid: folder.server_uuid(),
            link: Arc::clone(link),
            intake: Intake::new(writer, start).with_clock_difference(Arc::clone(&link.clock_difference_us)),
            counted_bytes: 0,
            feed: Feed::Files(Vec::new()),
            tried: 0,
            lower_case_table_names: 0,
            facts_file: folder.path().join(FACTS_FILE),
            asked_why: false,
            known_facts: None,
            room: None,
            after_replicas: None,
        };
        match (&config.source, login) {
            (SourceSpec::Files(path), _) => receiver.feed = Feed::Files(list_files(path)?),
            (SourceSpec::Server(_), None) => return Err(Failure::usage("a server as the source needs a login")),
            (SourceSpec::Server(_), Some(login)) => {
                let known = source_facts::read(&receiver.facts_file)?;
                let first = match &known {
                    Some(known) if !retrieved.is_empty() || !matches!(receive, Receive::First) => {
                        let mut state = link.lock();
                        state.source.connection = ConnectionState::Connecting;
                        state.source.facts = known.clone();
                        None
                    }
                    _ => {
                        let options = receiver.options_for_try(login);
                        receiver.connect_first(&options, retrieved, known.as_ref())?
                    }
                };
                receiver.lower_case_table_names = link.lock().source.facts.lower_case_table_names;
                receiver.known_facts = known;
                receiver.keep_facts()?;
                receiver.feed = Feed::Server { login: Arc::clone(login), first };
                receiver.intake = receiver.intake.with_only_gtids();
            }
        }
        Ok(receiver)
    }

    fn options_for_try(&mut self, login: &SourceLogin) -> ConnectOptions {
        let options;
        (self.tried, options) = login.versioned_for_try();
        ConnectOptions { read_timeout: Some(self.config.read_timeout), ..options }
    }

    /// None if the source cannot be reached but its facts are known.
    fn connect_first(
        &self,
        options: &ConnectOptions,
        retrieved: &GtidSet,
        known: Option<&SourceFacts>,
    ) -> Result<Option<Box<Connection>>, Failure> {
        match self.connect(options, retrieved) {
            Ok(connection) => Ok(Some(Box::new(connection))),
            Err(Trouble::Again(failure)) => {
                let Some(known) = known else { return Err(failure) };
                self.link.note_error(&failure);
                log::write(Code::ConnectionLost, "Source", &format!("{}; trying again", failure.text));
                self.link.lock().source.facts = known.clone();
                Ok(None)
            }
            Err(trouble) => Err(trouble.into()),
        }
    }

    fn facts_trouble(&self, failure: Failure) -> Trouble {
        match failure.disk {
            Some(DiskTrouble::Full) if self.room.is_some() => {
                Trouble::NoRoom(SpaceNeed { transaction_bytes: 0, begun_s: 0, lacks_bytes: 1 })
            }
            _ => Trouble::Fatal(failure),
        }
    }

    /// Stores the source's facts if they changed, and syncs the file.
    fn keep_facts(&mut self) -> Result<(), Failure> {
        let facts = self.link.lock().source.facts.clone();
        if self.known_facts.as_ref() != Some(&facts) {
            source_facts::write(&self.facts_file, &facts)?;
            self.known_facts = Some(facts);
        }
        Ok(())
    }

    /// Waits before a transaction for which this file system has no room.
    #[must_use]
    pub(crate) fn within(self, space: &Arc<DiskSpace>) -> Receiver {
        Receiver { room: Some(Room::new(Arc::clone(space))), ..self }
    }

    /// Acknowledges the source only after replicas have.
    #[must_use]
    pub(crate) fn acknowledging(self, after_replicas: Option<AfterReplicas>) -> Receiver {
        Receiver { after_replicas, ..self }
    }

    /// The source's `lower_case_table_names`.
    #[must_use]
    pub(crate) fn lower_case_table_names(&self) -> u8 {
        self.lower_case_table_names
    }

    /// Takes another configuration of the source and of the connection to it.
    pub(crate) fn configure(&mut self, config: &ReplicaConfig) {
        self.config.source = config.source.clone();
        self.config.heartbeat = config.heartbeat;
        self.config.connect_retry = config.connect_retry;
        self.config.retry_count = config.retry_count;
    }

    /// Connects to another source and checks that it may be followed from here, without following it.
    ///
    /// # Errors
    /// Why it may not, or that it cannot be reached.
    pub(crate) fn try_source(&self, server: &ServerOptions) -> Result<(), Failure> {
        let read_timeout = Some(self.config.read_timeout);
        let options = ConnectOptions { read_timeout, ..server.connect_options()? };
        let retrieved = self.intake.writer().retrieved().clone();
        let before = {
            let state = self.link.lock();
            (state.source.connection, state.source.facts.clone(), state.source.tls.clone(), state.source.log_expires_s)
        };
        let result = self.connect(&options, &retrieved).map(drop);
        let mut state = self.link.lock();
        (state.source.connection, state.source.facts, state.source.tls, state.source.log_expires_s) = before;
        result.map_err(Failure::from)
    }

    fn stopping(&self) -> bool {
        self.link.must_end()
    }

    /// Receives until stopped, or until a failure that a retry cannot fix. Returns the receiver if it may go on later:
    /// the relay log stays open, so that replay waits for more.
    pub(crate) fn run(mut self) -> Option<Receiver> {
        let result = match &mut self.feed {
            Feed::Server { login, first } => {
                let (login, first) = (Arc::clone(login), first.take());
                self.follow(&login, first)
            }
            Feed::Files(files) => {
                let files = files.clone();
                self.read_files(&files)
            }
        };
        let result = result.and_then(|()| self.intake.abort_partial().map_err(relay_failure));
        let failed = result.is_err();
        if let Err(failure) = result {
            self.link.note_error(&failure);
            self.link.lock().received.failure = Some(failure);
        }
        let files_done = {
            let mut state = self.link.lock();
            state.source.connection = ConnectionState::Stopped;
            state.source.since_us = now_us();
            state.received.files_done
        };
        let ends = files_done || failed && self.config.on_stop == OnStop::Exit;
        if ends || self.link.stopping.load(Ordering::Acquire) {
            self.close();
            return None;
        }
        Some(self)
    }

    /// Closes the relay log, so that replay ends after its last transaction.
    pub(crate) fn close(mut self) {
        let closed = self.intake.abort_partial().and_then(|()| self.intake.finish()).and_then(RelayWriter::close);
        let mut state = self.link.lock();
        if let Err(error) = closed
            && state.received.failure.is_none()
        {
            state.received.failure = Some(relay_failure(error));
        }
    }

    /// Receives from a server, and reconnects with growing pauses after each failure that a retry may fix.
    fn follow(&mut self, login: &SourceLogin, mut first: Option<Box<Connection>>) -> Result<(), Failure> {
        let mut pause = RETRY_FIRST;
        let mut attempts = 0u64;
        while !self.stopping() {
            let received_before = self.intake.taken().1;
            let trouble = match self.session(login, first.take()) {
                Ok(()) => return Ok(()),
                Err(trouble) => trouble,
            };
            self.intake.abort_partial().map_err(relay_failure)?;
            if self.stopping() {
                return Ok(());
            }
            let failure = match trouble {
                Trouble::Fatal(failure) => return Err(failure),
                Trouble::NoRoom(need) => {
                    self.wait_for_room(need)?;
                    continue;
                }
                Trouble::Login(failure, _) if self.config.on_stop == OnStop::Exit => return Err(failure),
                Trouble::Login(failure, wait) => {
                    self.wait_for_login(login, &failure, wait);
                    continue;
                }
                Trouble::Again(failure) => failure,
            };
            // The connection brought events, so this is a new failure and not a further attempt.
            if self.intake.taken().1 > received_before {
                (pause, attempts) = (RETRY_FIRST, 0);
            }
            attempts += 1;
            if self.config.retry_count > 0 && attempts >= self.config.retry_count {
                return Err(failure);
            }
            self.link.note_error(&failure);
            let wait = jittered(pause);
            let text = format!(
                "{}; reconnecting in {} ms (attempt {attempts}), position {}",
                failure.text,
                wait.as_millis(),
                self.intake.source_position()
            );
            log::write(Code::ConnectionLost, "Source", &text);
            {
                let mut state = self.link.lock();
                state.source.connection = ConnectionState::Connecting;
                state.source.reconnects += 1;
                state.source.since_us = now_us();
            }
            let until = Instant::now() + wait;
            while Instant::now() < until && !self.stopping() {
                std::thread::sleep(Duration::from_millis(20));
            }
            pause = (pause * 2).min(self.config.connect_retry.max(RETRY_FIRST));
        }
        Ok(())
    }

    /// Waits until the refused login may be tried again, an option file changes, or an operator asks for a try.
    fn wait_for_login(&self, login: &SourceLogin, failure: &Failure, wait: Duration) {
        let requests = login.requests();
        {
            let next_try_us = now_us() + wait.as_micros() as u64;
            let mut state = self.link.lock();
            state.source.connection = ConnectionState::Connecting;
            state.source.next_try_us = next_try_us;
        }
        self.link.note_error(failure);
        if wait == client::HELD_FOR {
            let text = format!(
                "{}; replay is not affected. The same password is not tried again for {} min, so that the source does not \
                 lock the account; another one is tried as soon as the option file has it. Hint: slipstream reload --data \
                 {}, or slipstream start io to try the same one now",
                failure.text,
                wait.as_secs() / 60,
                self.config.data.display()
            );
            log::write(Code::LoginRefused, "Source", &text);
        }
        let until = Instant::now() + wait;
        let mut looked = Instant::now();
        while Instant::now() < until && !self.stopping() && login.requests() == requests {
            std::thread::sleep(Duration::from_millis(20));
            if looked.elapsed() >= LOOK_AT_FILES_EVERY {
                looked = Instant::now();
                if login.version() != self.tried {
                    break;
                }
            }
        }
        self.link.lock().source.next_try_us = 0;
    }

    /// The transaction that an event begins, if there is no room for it.
    fn lacks_room_for(&mut self, event: &[u8]) -> Option<SpaceNeed> {
        let room = self.room.as_mut()?;
        let transaction_bytes = self.intake.length_of_transaction(event).filter(|bytes| !room.takes(*bytes))?;
        let begun_s = event.first_chunk().map_or(0, |seconds| u64::from(u32::from_le_bytes(*seconds)));
        Some(SpaceNeed { transaction_bytes, begun_s, lacks_bytes: room.lacks(transaction_bytes) })
    }

    /// Waits until there is room for the next transaction. Meanwhile cuts purge the relay log: its last file is closed
    /// for that.
    fn wait_for_room(&mut self, need: SpaceNeed) -> Result<(), Failure> {
        let Some(room) = &mut self.room else { return Ok(()) };
        if room.look().is_none_or(|space| space.free_bytes >= CLOSES_FILE_WITH) {
            self.intake.close_file().map_err(relay_failure)?;
        }
        {
            let mut state = self.link.lock();
            state.source.connection = ConnectionState::Connecting;
            state.source.since_us = now_us();
        }
        let mut lacks_bytes = room.lacks(need.transaction_bytes);
        while lacks_bytes > 0 && !self.link.must_end() {
            self.link.lock().received.waits_for_space = Some(SpaceNeed { lacks_bytes, ..need });
            std::thread::sleep(LOOK_FOR_ROOM_EVERY);
            lacks_bytes = room.lacks(need.transaction_bytes);
        }
        let mut state = self.link.lock();
        state.received.waits_for_space = None;
        if let SourceSpec::Files(_) = self.config.source {
            state.source.connection = ConnectionState::Files;
        }
        Ok(())
    }

    /// Connects to the source and checks it again: it may be a different one, or have purged in the meantime.
    fn connect(&self, options: &ConnectOptions, retrieved: &GtidSet) -> Result<Connection, Trouble> {
        self.link.lock().source.connection = ConnectionState::Connecting;
        let mut connection = Connection::connect(options).map_err(|e| trouble(&e))?;
        let input = PreflightInput {
            server_id: self.server_id,
            uuid: Some(self.server_uuid),
            executed: retrieved,
            retrieved,
            store_empty: retrieved.is_empty(),
        };
        let report = preflight::check(&mut connection, input).map_err(|e| trouble(&e))?;
        for problem in report.problems.iter().filter(|p| p.severity != Severity::Refused) {
            log::write(Code::PreflightWarning, "Source", &problem.to_string());
        }
        let history = self.check_history(options, &mut connection, retrieved, &report);
        if let Some(mut failure) = preflight_failure(&report) {
            if let Err(Trouble::Fatal(reset)) = history
                && reset.exit == Exit::PreflightRefused
            {
                failure.text = format!("{}\n{}", failure.text, reset.text);
            }
            // Not an empty folder, which an initial copy would have filled.
            let lost = failure.exit == Exit::SourcePurged && retrieved.is_empty();
            let hint = || {
                let data = self.config.data.display();
                format!(
                    "rm -r {data}/relay-log {data}/store, then the same command: it fills {data} by an initial copy"
                )
            };
            return Err(Trouble::Fatal(if lost { failure.with_hint(hint()) } else { failure }));
        }
        history?;
        let settings = match source_facts::settings(&mut connection) {
            // A source that is no server of MySQL's need not know the statement.
            Err(error) if error.server_code().is_some() => {
                let text = format!(
                    "the defaults of the source's sessions cannot be read (SHOW GLOBAL VARIABLES, CONVERT_TZ); the \
                     last ones stay in force: {error}"
                );
                log::write(Code::PreflightWarning, "Source", &text);
                self.link.lock().source.facts.settings.clone()
            }
            asked => asked.map_err(|e| trouble(&e))?,
        };
        let mut state = self.link.lock();
        state.source.facts = SourceFacts {
            version: report.facts.version.clone(),
            server_id: report.facts.server_id,
            server_uuid: report.facts.server_uuid.map(|uuid| uuid.to_string()).unwrap_or_default(),
            lower_case_table_names: report.facts.lower_case_table_names,
            settings,
        };
        state.source.log_expires_s = report.facts.log_expires_s;
        state.source.tls = connection.tls_description();
        let gave_password = connection.gave_password();
        if let Some(text) = not_verified(options, state.source.tls.as_deref(), gave_password)
            && state.source.not_verified_said.is_none_or(|said_of_password| gave_password && !said_of_password)
        {
            log::write(Code::SourceNotVerified, "Source", &text);
            state.source.not_verified_said = Some(gave_password);
        }
        if state.source.facts.settings.lacks_zones() && !std::mem::replace(&mut state.source.zones_not_read_said, true)
        {
            log::write(Code::ZonesNotRead, "Source", zones_not_read(&state.source.facts.settings));
        }
        if let Some(clock) = report.facts.clock {
            self.link.clock_difference_us.store(clock.difference_us, Ordering::Relaxed);
            self.link.clock_error_us.store(clock.round_trip_us / 2, Ordering::Relaxed);
            state.source.clock_measured_us = now_us();
        }
        drop(state);
        Ok(connection)
    }

    /// Compares what the newest transaction looked like at the source with what the source has there now.
    fn check_history(
        &self,
        options: &ConnectOptions,
        connection: &mut Connection,
        retrieved: &GtidSet,
        report: &preflight::PreflightReport,
    ) -> Result<(), Trouble> {
        let Some(Witness { server_uuid, event }) = self.link.witness.kept() else { return Ok(()) };
        let same_server = report.facts.server_uuid.is_some_and(|uuid| uuid.to_string() == server_uuid);
        // What a crash took from the relay log is fetched again from whatever history the source has.
        let Some(gtid) = event.gtid().filter(|gtid| same_server && retrieved.contains(gtid)) else { return Ok(()) };
        let past = match history::listed(connection, &event).map_err(|e| trouble(&e))? {
            Some(past) => past,
            None => {
                let second = Connection::connect(options).map_err(|e| trouble(&e))?;
                history::compare(second, &event).map_err(|e| trouble(&e))?
            }
        };
        let place = format!("{}:{}", event.file, event.offset);
        match past {
            Past::Same => Ok(()),
            Past::Unknown(why) => {
                if !std::mem::replace(&mut self.link.lock().source.history_unknown_said, true) {
                    let text = format!(
                        "{why}, so it cannot be known whether its history is still the one that was received (transaction \
                         {gtid} at {place}); to be sure: slipstream verify"
                    );
                    log::write(Code::HistoryUnknown, "Source", &text);
                }
                Ok(())
            }
            Past::Other(there) => {
                let text = format!(
                    "the source's history is not the one that was received: RESET BINARY LOGS AND GTIDS, or an older backup\n    \
                     received at {place}: {}\n    the source has there: {there}",
                    event.shown()
                );
                let hint = "compare with: slipstream verify; then start with an empty folder";
                Err(Trouble::Fatal(Failure::new(Exit::PreflightRefused, text).with_number(1236).with_hint(hint)))
            }
        }
    }

    /// Receives over one connection until it fails or the replica stops.
    fn session(&mut self, login: &SourceLogin, ready: Option<Box<Connection>>) -> Result<(), Trouble> {
        let retrieved = self.intake.writer().retrieved().clone();
        let connection = match ready {
            Some(connection) => *connection,
            None => {
                let options = self.options_for_try(login);
                let connection = self.connect(&options, &retrieved)?;
                self.keep_facts().map_err(|failure| self.facts_trouble(failure))?;
                connection
            }
        };
        let host = self.config.report_host.clone().unwrap_or_default();
        let mut request = DumpRequest::new(self.server_id, &retrieved);
        request.uuid = Some(self.server_uuid);
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
        }
        let facts = self.link.lock().source.facts.clone();
        let text = format!(
            "connected to source '{}' (server_uuid {}, version {}), receiving from {} after GTIDs {}",
            self.config.source.shown(),
            facts.server_uuid,
            facts.version,
            self.intake.source_position(),
            shown_set(&retrieved)
        );
        log::write(Code::Connected, "Source", &text);
        let result = self.receive(&mut stream);
        self.link.lock().source.interrupter = None;
        self.note_progress();
        // Without the file, a check of the source's history is left out.
        let _ = self.link.keep_witness();
        result
    }

    /// Stores events as they arrive. Appends and acknowledges when nothing is buffered, so that a busy source's
    /// transactions share a write and a sync.
    fn receive(&mut self, stream: &mut DumpStream) -> Result<(), Trouble> {
        let mut ack: Option<LogPosition> = None;
        self.after_replicas.iter_mut().for_each(AfterReplicas::clear);
        let wait_max = self.config.read_timeout;
        let mut limit = wait_max;
        let mut heard = Instant::now();
        loop {
            if self.stopping() {
                return Ok(());
            }
            let wanted = self.acknowledge_after_replicas(stream)?.unwrap_or(wait_max);
            if limit != wanted {
                limit = wanted;
                stream.set_read_timeout(Some(limit)).map_err(|e| trouble(&e))?;
            }
            let event = match stream.next_event() {
                Ok(Some(event)) => event,
                Ok(None) => return Err(again("the source ended the stream")),
                Err(_) if self.stopping() => return Ok(()),
                // Only a look.
                Err(error) if error.is_timeout() && limit < wait_max && heard.elapsed() < wait_max => continue,
                // The source's log has changed under its dump (RESET): the next connection finds out how.
                Err(error) if error.dump_refusal() == Some(DumpRefusal::Other) && !self.asked_why => {
                    self.asked_why = true;
                    return Err(Trouble::Again(source_failure(&error)));
                }
                // Packets out of order, cut short or of no known kind: another connection fetches them again.
                Err(ClientError::Wire(error)) => {
                    return Err(again(&format!("{error} (source position {})", self.intake.source_position())));
                }
                Err(error) => return Err(trouble(&error)),
            };
            if self.after_replicas.is_some() {
                heard = Instant::now();
            }
            let ack_wanted = event.ack_wanted;
            if let Some(need) = self.lacks_room_for(event.event) {
                // Not acknowledged any more, and sent again over the next connection.
                self.intake.flush().map_err(|e| Trouble::Fatal(relay_failure(e)))?;
                return Err(Trouble::NoRoom(need));
            }
            let taken =
                self.intake.event(event.event).map_err(|error| intake_trouble(error, self.intake.source_position()));
            let taken = taken?;
            if let Taken::Heartbeat { moved } = taken {
                self.asked_why = false;
                let mut state = self.link.lock();
                state.received.last_received_us = now_us();
                if !moved {
                    state.received.idle_at_us = state.received.last_received_us;
                }
            }
            // A source counts as acknowledged only what it sent and we answered. If it skips transactions that we have
            // from an earlier connection, which ended before the answer, its commits would wait (seen with 9.7.4).
            let left_out = taken == Taken::Heartbeat { moved: true } && stream.semi_sync();
            if ack_wanted || left_out {
                ack = Some(self.intake.source_position().clone());
            }
            if stream.buffered() {
                continue;
            }
            // Nothing is buffered: pass on the complete transactions before waiting.
            fail_point::enter(Phase::Receive);
            let end = self.intake.flush().map_err(|e| Trouble::Fatal(relay_failure(e)))?;
            self.note_progress();
            if let Some(position) = ack.take() {
                self.acknowledge(stream, end, &position)?;
            }
        }
    }

    /// Acknowledges what enough replicas have acknowledged, if the source waits for them and sends nothing. Returns for
    /// how long to wait for more of it.
    fn acknowledge_after_replicas(&mut self, stream: &mut DumpStream) -> Result<Option<Duration>, Trouble> {
        let Some(after) = &mut self.after_replicas else { return Ok(None) };
        if after.is_empty() || stream.buffered() {
            return Ok((!after.is_empty()).then_some(LOOK_FOR_EVENTS));
        }
        if let Some(position) = after.ready() {
            stream.ack(&position.file, position.offset).map_err(|e| trouble(&e))?;
        }
        Ok(match (after.is_empty(), after.has_too_few()) {
            (true, _) => None,
            (false, true) => Some(LOOK_FOR_REPLICAS),
            (false, false) => Some(LOOK_FOR_EVENTS),
        })
    }

    /// Tells a semi-synchronous source that everything up to `position` is durable here, once it is; or notes it down
    /// until replicas have it too.
    fn acknowledge(
        &mut self,
        stream: &mut DumpStream,
        end: Option<RelayPosition>,
        position: &LogPosition,
    ) -> Result<(), Trouble> {
        let sync = self.intake.writer().sync();
        let end = end.unwrap_or_else(|| self.intake.writer().position());
        sync.request_sync();
        let synced = sync.wait_synced(end, SYNC_WAIT).map_err(|e| Trouble::Fatal(relay_failure(e)))?;
        match &mut self.after_replicas {
            Some(after) if synced => after.add(position.clone(), self.intake.writer().retrieved().clone()),
            None if synced => stream.ack(&position.file, position.offset).map_err(|e| trouble(&e))?,
            _ => {}
        }
        Ok(())
    }

    /// Updates the figures for status.
    fn note_progress(&mut self) {
        let (now, taken_bytes) = (now_us(), self.intake.taken().1);
        let bytes = taken_bytes.saturating_sub(std::mem::replace(&mut self.counted_bytes, taken_bytes));
        self.asked_why &= bytes == 0;
        self.link.received.add(Work { bytes, ..Work::default() }, now);
        let mut state = self.link.lock();
        state.received.last_received_us = now;
        state.received.transactions = self.intake.taken().0;
        state.received.source_position = Some(self.intake.source_position().to_string());
        if let Some(newest) = self.intake.newest() {
            // Only this session brings new ones, so they are from the source of the facts.
            if state.received.newest.as_ref().is_none_or(|(_, kept)| kept != newest) {
                state.received.newest = Some((state.source.facts.server_uuid.clone(), newest.clone()));
            }
        }
        let retrieved = self.intake.writer().retrieved();
        if state.received.retrieved != *retrieved {
            state.received.retrieved.clone_from(retrieved);
        }
    }

    fn read_files(&mut self, files: &[PathBuf]) -> Result<(), Failure> {
        self.link.lock().source.connection = ConnectionState::Files;
        for path in files {
            self.read_file(path)?;
            self.note_progress();
            if self.stopping() {
                return Ok(());
            }
        }
        self.intake.flush().map_err(relay_failure)?;
        self.note_progress();
        self.link.lock().received.files_done = true;
        Ok(())
    }

    fn read_file(&mut self, path: &Path) -> Result<(), Failure> {
        let name = path.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default();
        let mut file = BinlogFile::open(path).map_err(binlog_failure)?.without_verification();
        self.intake.begin_file(&name);
        while let Some(event) = file.next_event().map_err(binlog_failure)? {
            let offset = event.offset;
            if let Some(need) = self.lacks_room_for(event.bytes) {
                self.wait_for_room(need)?;
            }
            self.intake.event(event.bytes).map_err(|e| {
                let mut failure = relay_failure(e);
                failure.text = format!("{name} at offset {offset}: {}", failure.text);
                failure
            })?;
            if self.intake.taken().1 - self.counted_bytes >= PROGRESS_BYTES {
                self.note_progress();
            }
            if self.stopping() {
                return Ok(());
            }
        }
        if self.intake.in_transaction() {
            let text = format!("{name} ends in the middle of a transaction: the file is truncated");
            return Err(Failure::new(Exit::Corrupt, text));
        }
        Ok(())
    }
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

fn zones_not_read(settings: &SourceSettings) -> &'static str {
    if settings.zones_too_many {
        "the source's tables mysql.time_zone* have more than 2,000,000 rows, or their zones take more than 64 MiB, \
         and are not kept: clients cannot set named zones; refill these tables with mysql_tzinfo_to_sql, then STOP \
         and START REPLICA"
    } else {
        "the source has time zones with names, but its tables mysql.time_zone* cannot be read: clients cannot set them; \
         GRANT SELECT ON these tables, then STOP and START REPLICA"
    }
}

/// What a login has told a server that nobody has verified; None for one that was verified.
pub(crate) fn not_verified(options: &ConnectOptions, tls: Option<&str>, gave_password: bool) -> Option<String> {
    let mode = match options.ssl_mode {
        SslMode::Preferred => "PREFERRED",
        SslMode::Required => "REQUIRED",
        _ => return None,
    };
    if options.socket.is_some() {
        return None;
    }
    let what = match (tls, gave_password) {
        (Some(_), true) => {
            "the source's certificate is not verified, and the login gave it the password itself: another server could \
             pose as the source and keep it"
        }
        (Some(_), false) => {
            "the source's certificate is not verified: another server could pose as the source, and every login gives the \
             password itself to a server that asks for it"
        }
        (None, true) => {
            "the connection to the source is not encrypted, and the login gave the password to whoever sent a public key"
        }
        (None, false) => "the connection to the source is not encrypted",
    };
    Some(format!("{what} (ssl-mode={mode}); ssl-mode=VERIFY_IDENTITY with source-ssl-ca=FILE prevents that"))
}

/// The binlog file itself, or the files that an index lists.
pub(crate) fn list_files(path: &Path) -> Result<Vec<PathBuf>, Failure> {
    if path.extension().is_none_or(|e| e != "index") {
        return Ok(vec![path.to_path_buf()]);
    }
    let text = std::fs::read_to_string(path).map_err(|e| Failure::io(path.display(), &e))?;
    let folder = path.parent().unwrap_or(Path::new("."));
    let files: Vec<PathBuf> =
        text.lines().map(str::trim).filter(|line| !line.is_empty()).map(|line| folder.join(line)).collect();
    if files.is_empty() {
        return Err(Failure::new(Exit::Corrupt, format!("{} lists no file", path.display())));
    }
    Ok(files)
}

/// Random pause between three quarters and all of `pause`, so that many replicas do not reconnect at once.
fn jittered(pause: Duration) -> Duration {
    let spread = u32::try_from(now_us() % 250).unwrap_or(0);
    pause.mul_f64(0.75 + f64::from(spread) / 1000.0)
}

/// Compares the clocks every minute over a separate connection.
pub(crate) fn watch_clock(login: &Arc<SourceLogin>, link: &Arc<Link>) {
    let login = Arc::clone(login);
    let link = Arc::downgrade(link);
    let work = move || {
        let mut connection: Option<Connection> = None;
        let mut next = Instant::now() + CLOCK_EVERY;
        let mut seen = login.requests();
        loop {
            std::thread::sleep(Duration::from_millis(200));
            let Some(link) = link.upgrade() else { return };
            if link.stopping.load(Ordering::Acquire) {
                return;
            }
            if Instant::now() < next {
                continue;
            }
            next = Instant::now() + CLOCK_EVERY;
            let requests = login.requests();
            if std::mem::replace(&mut seen, requests) != requests {
                // The source may be another one now.
                connection = None;
            }
            if connection.is_none() {
                let options = ConnectOptions { read_timeout: Some(Duration::from_secs(10)), ..login.for_try() };
                connection = Connection::connect(&options).ok();
            }
            let measured = connection.as_mut().and_then(|c| source::clock::measure(c, CLOCK_ROUNDS).ok());
            match measured {
                Some(clock) => {
                    link.clock_difference_us.store(clock.difference_us, Ordering::Relaxed);
                    link.clock_error_us.store(clock.round_trip_us / 2, Ordering::Relaxed);
                    link.lock().source.clock_measured_us = now_us();
                }
                None => connection = None,
            }
        }
    };
    // Without the thread, lag is shown with the difference measured at connect.
    let _ = std::thread::Builder::new().name("clock".into()).spawn(work);
}
