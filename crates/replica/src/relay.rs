//! The engine of `slipstream relay`: receives as a replica does, and stamps what was received for stock replicas.
//!
//! In: a configuration and a data folder that this process owns. Out: the served log (crate `stamp`), which dumps
//! read as it grows ([`GrowingLog`]), and a status. Never here: a store, a row; a transaction served before it is
//! whole.
//!
//! ```text
//! DIR/relay-start         GTIDs that the served log begins after; marks the folder as a relay's
//! DIR/served-log/         binlog.000001…, binlog.index, and where the last file begins
//! DIR/holds              replicas for which served files are kept
//! DIR/relay-log/          what was received, from where the last served file begins
//! ```

mod begin;
mod errant;
pub mod holds;
mod serving;
pub(crate) mod stamping;

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use base::GtidSet;
use decode::trackers::{HISTORY_SIZE_MAX, TrackerKind};
use observe::{
    Backlog, ConnectionState, DiskReport, GtidReport, LagReport, MemoryReport, PositionReport, ProcessFacts,
    RatesReport, ReplayReport, ReplayState, StatusReport, now_us, utc_text,
};
use relay_log::{OnDamage, RelayLog, RelayOptions, RelayPosition};
use stamp::StampOptions;
use store::DiskSpace;

use crate::after_replicas::AfterReplicas;
use crate::config::{ReplicaConfig, ServerOptions};
use crate::exit::{Exit, Failure};
use crate::failure::{error_report, relay_failure};
use crate::folder::Folder;
use crate::inbound::{Feed, Inbound};
use crate::log::{self, Code};
use crate::login::SourceLogin;
use crate::open::note_truncation;
use crate::receiver::link::Link;
use crate::receiver::{LogSource, Receive, Receiver};
use crate::source_facts::SourceSettings;
use crate::status::disk;
use crate::stopped::Stopped;

pub use begin::RelayBase;
pub(crate) use begin::{LogBegin, is_relays, keep_start, kept_start, served_files};
pub use serving::Serving;
pub(crate) use serving::StampingThread;
use stamping::{Parts, Stamping};

/// Received bytes kept in memory for the stamper: it keeps up with any source.
const HOT_BYTES: usize = 16 << 20;

/// Where the served log begins.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum RelayStart {
    /// With the oldest transaction that the source has.
    #[default]
    Oldest,
    After(GtidSet),
    /// After what this server has executed: a replica that is to be moved.
    Server(Box<ServerOptions>),
}

/// Configuration of `slipstream relay`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RelayConfig {
    /// The source, the data folder, and how the log is received. Its options of replay are not used.
    pub receiving: ReplicaConfig,
    /// Where the served log of an empty folder begins.
    pub start: RelayStart,
    /// How it is served.
    pub serve: ServeConfig,
}

/// How a relay, or a replica with `--serve-log`, serves what it receives.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServeConfig {
    /// What a transaction must wait for.
    pub tracking: TrackerKind,
    /// A served file ends before a transaction that would make it longer, in bytes.
    pub max_binlog_size: u64,
    /// Server where the definitions at the log's beginning are read: a replica that lags; None: the source.
    pub definitions_from: Option<ServerOptions>,
    /// Replicas that must have acknowledged what is received before the source is acknowledged; 0: after our sync.
    pub ack_after_replicas: usize,
    /// How much of the served log is kept.
    pub keep: ServedKeep,
}

impl ServeConfig {
    pub(crate) fn stamps(&self, server_id: u32) -> StampOptions {
        StampOptions {
            tracking: self.tracking,
            history_size: HISTORY_SIZE_MAX,
            file_bytes: self.max_binlog_size,
            server_id,
        }
    }
}

/// How much of a served log is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ServedKeep {
    /// Time since a file was written after which it may go, unless a replica reads it.
    pub span: Duration,
    /// Bytes of all files above which the oldest one goes, read or not; 0: no limit.
    pub bytes: u64,
}

impl RelayConfig {
    fn server_id(&self, folder: &Folder) -> u32 {
        self.receiving.server_id.unwrap_or_else(|| folder.default_server_id())
    }

    fn stamps(&self, folder: &Folder) -> StampOptions {
        self.serve.stamps(self.server_id(folder))
    }
}

pub struct Relay {
    folder: Folder,
    server_id: u32,
    inbound: Inbound,
    stamping: StampingThread,
    serving: Arc<Serving>,
    started: Instant,
    stopping: AtomicBool,
    /// What an operator has stopped, as the folder keeps it.
    stopped: Mutex<Stopped>,
}

impl Relay {
    /// Opens the relay log, connects to the source, and begins to receive and to stamp.
    ///
    /// # Errors
    /// The source is refused by preflight, or the folder's files are unusable.
    pub fn start(
        config: &RelayConfig,
        folder: &Folder,
        base: RelayBase,
        login: Option<Arc<SourceLogin>>,
    ) -> Result<Relay, Failure> {
        folder.begin_run()?;
        let RelayBase { start, last, serving } = base;
        let (follow, serve) = (&config.receiving, &config.serve);
        let link = Link::new(folder.path())?;
        let server_id = config.server_id(folder);
        let mut options = RelayOptions::new(folder.relay_log());
        options.affinity = follow.pipeline.affinity.clone();
        match &last {
            Some(last) => {
                options.executed.clone_from(&last.executed);
                options.resume_at = Some(last.at.clone());
            }
            None => options.executed.clone_from(&start),
        }
        options.on_damage = OnDamage::FetchAgain;
        options.hot_bytes_max = HOT_BYTES;
        options.max_file_bytes = follow.max_relay_log_size;
        options.sync = follow.relay_sync;
        options.server_id = server_id;
        let (writer, recovery) = RelayLog::open(options).map_err(relay_failure)?;
        folder.sync()?;
        if let Some(cut) = &recovery.truncated {
            note_truncation(cut);
        }
        link.lock().received.retrieved.clone_from(&recovery.retrieved);
        let (relay, relay_sync) = (writer.shared(), writer.sync());
        let space = Arc::new(DiskSpace::new(folder.path(), follow.disk_reserve));
        let stopped = Stopped::of(folder)?;
        let receive = if stopped.io { Receive::Stopped(None) } else { Receive::First };
        let source = LogSource::of(follow, login.as_ref())?;
        let receiver = Receiver::prepare(follow, folder, &link, writer, &receive, source)?;
        let after = AfterReplicas::of(serving.log(), serve.ack_after_replicas);
        let receiver = receiver.within(&space).acknowledging(after);
        let stamping = Stamping::new(Parts {
            path: folder.served_log(),
            options: config.stamps(folder),
            begin: LogBegin { after: start, first: 1 },
            lower_case_table_names: receiver.lower_case_table_names(),
            relay: Arc::clone(&relay),
            log: Arc::clone(serving.log()),
            space: Arc::new(DiskSpace::new(&folder.served_log(), follow.disk_reserve)),
            link: Arc::clone(&link),
            login: login.clone(),
            definitions_from: serve.definitions_from.clone(),
            keep: serve.keep,
            holds: Arc::clone(&serving.holds),
            hold: None,
        });
        if stopped.io {
            let text = "receiving stays stopped, as an operator left it: slipstream start io";
            log::write(Code::OperatorCommand, "Source", text);
        }
        let inbound = Inbound::begin(follow, &receive, link, login, Feed { relay, relay_sync, receiver })?;
        let stamping = StampingThread::start(&follow.pipeline.affinity, stamping)?;
        inbound.watch_source();
        serving.holds.ask_servers();
        Ok(Relay {
            folder: folder.clone(),
            server_id,
            inbound,
            stamping,
            serving,
            started: Instant::now(),
            stopping: AtomicBool::new(false),
            stopped: Mutex::new(stopped),
        })
    }

    #[must_use]
    pub fn serving(&self) -> &Arc<Serving> {
        &self.serving
    }

    /// Asks for the end, at a transaction boundary.
    pub fn stop(&self) {
        if !self.stopping.swap(true, Ordering::AcqRel) {
            self.stamping.stop();
            self.serving.holds.stop();
            self.inbound.end();
        }
    }

    /// How it ended; None while it runs. An error of receiving or stamping leaves the served log open; a failed relay
    /// log and a defect end the relay.
    #[must_use]
    pub fn outcome(&self) -> Option<Result<(), Failure>> {
        if let Some(error) = self.inbound.relay_sync.poison() {
            return Some(Err(relay_failure(error)));
        }
        let stamps = self.stamping.runs();
        let defect = |failure: &Failure| failure.exit == Exit::Defect;
        let failures = [self.io_failure(), self.stamping.failure()];
        if let Some(failure) = failures.into_iter().flatten().find(defect) {
            return Some(Err(failure));
        }
        if !self.stopping.load(Ordering::Acquire) {
            drop(self.inbound.look());
            return None;
        }
        let receives = self.inbound.runs();
        (!stamps && !receives).then_some(Ok(()))
    }

    /// Keeps whether an operator has stopped receiving, over restarts too.
    fn decide(&self, io: bool) -> Result<(), Failure> {
        let mut stopped = self.stopped.lock().unwrap_or_else(PoisonError::into_inner);
        let wanted = Stopped { io, ..stopped.clone() };
        wanted.keep(&self.folder)?;
        *stopped = wanted;
        Ok(())
    }

    /// Stops receiving at a transaction boundary, over restarts too; what was received is served (STOP REPLICA
    /// IO_THREAD). False if it was stopped before.
    ///
    /// # Errors
    /// The order cannot be kept; or the thread does not end in time: it ends later.
    pub fn stop_io(&self) -> Result<bool, Failure> {
        self.decide(true)?;
        let before = self.inbound.runs();
        self.inbound.stop()?;
        Ok(before)
    }

    /// Starts receiving again (START REPLICA IO_THREAD). False if it runs; a try that it waits for is made at once
    /// then.
    ///
    /// # Errors
    /// The order cannot be kept, it is still ending, or a thread cannot be started.
    pub fn start_io(&self) -> Result<bool, Failure> {
        self.decide(false)?;
        self.inbound.start()?.ok_or_else(|| Failure::error("the relay is stopping"))
    }

    /// Starts stamping again after an error (START REPLICA SQL_THREAD). False if it runs.
    ///
    /// # Errors
    /// A thread cannot be started.
    pub fn start_stamping(&self) -> Result<bool, Failure> {
        self.stamping.start_again()
    }

    /// Why receiving stopped; None if it runs.
    #[must_use]
    pub fn io_failure(&self) -> Option<Failure> {
        self.inbound.failure()
    }

    /// Work of the main thread, every few milliseconds.
    pub fn housekeep(&self) {
        self.inbound.step(Instant::now());
        if let Some(login) = &self.inbound.login {
            self.serving.look_for_errant(&self.inbound.link, login);
        }
        if let Some(failure) = self.inbound.failure() {
            self.inbound.tell_of_stop(&failure, "received transactions are still served", self.folder.path());
        }
    }

    /// What of the source changes answers, as last asked.
    #[must_use]
    pub fn source_settings(&self) -> Arc<SourceSettings> {
        self.inbound.source_settings()
    }

    /// The report for `slipstream status`.
    #[must_use]
    pub fn status(&self) -> StatusReport {
        let now = now_us();
        let stamped = self.stamping.state();
        let link = self.inbound.link.lock();
        let executed = self.serving.log().executed();
        let process = ProcessFacts::read();
        let relay_bytes = self.inbound.relay.total_bytes();
        let waiting = link.received.retrieved.subtract(&executed).count();
        let read = stamped.position.as_ref().and_then(RelayPosition::of);
        let state = match (&stamped.failure, self.stopping.load(Ordering::Acquire)) {
            (Some(_), _) => ReplayState::Failed,
            (None, true) => ReplayState::Stopping,
            (None, false) if waiting == 0 => ReplayState::CaughtUp,
            (None, false) => ReplayState::Running,
        };
        let current_us =
            (link.source.connection == ConnectionState::Connected && waiting == 0 && !link.source.is_silent())
                .then_some(0);
        let io_error = self.inbound.error(&link, self.folder.path(), None);
        let stamp_error = stamped.failure.as_ref().map(error_report);
        let served = self.serving.report(&stamped, link.source.semi_sync);
        let counts = stamped.counts;
        let mut report = StatusReport {
            version: env!("CARGO_PKG_VERSION").into(),
            at: utc_text(now),
            running: true,
            pid: Some(std::process::id()),
            uptime_us: self.started.elapsed().as_micros() as u64,
            data: self.folder.path().display().to_string(),
            server_id: self.server_id,
            server_uuid: self.folder.server_uuid().to_string(),
            source: self.inbound.source_report(&link, now),
            replay: ReplayReport { state, detail: stamped.waits, ..ReplayReport::default() },
            gtid: GtidReport {
                retrieved: link.received.retrieved.to_string(),
                executed: executed.to_string(),
                to_skip: String::new(),
                lacks: link.source.lacks(&link.received.retrieved, &executed),
            },
            position: PositionReport {
                source_received: link.received.source_position.clone(),
                source_executed: if waiting == 0 { link.received.source_position.clone() } else { None },
                relay_received: Some(self.inbound.received_up_to()),
                relay_executed: stamped.position.map(|position| position.to_string()),
                watermark: counts.transactions,
            },
            backlog: Backlog { transactions: waiting, bytes: self.inbound.relay.unread_bytes(read), catch_up_us: None },
            rates: RatesReport::default(),
            last_error: stamp_error.clone().or_else(|| io_error.clone()),
            last_io_error: io_error,
            last_sql_error: stamp_error,
            memory: MemoryReport {
                rss_bytes: process.rss_bytes,
                rss_peak_bytes: process.rss_peak_bytes,
                ..MemoryReport::default()
            },
            disk: DiskReport { ..disk(self.folder.path(), relay_bytes) },
            cpu_us: process.cpu_us,
            threads: process.threads,
            served: Some(served),
            ..StatusReport::default()
        };
        report.lag = LagReport { current_us, ..self.inbound.clock_report(&link) };
        report
    }
}

/// A replica that is connected, in words.
#[must_use]
pub fn replica_text(line: &serve::ReplicaLine) -> String {
    let serve::ReplicaLine { server_id, host, port, server_uuid, acknowledges, .. } = line;
    let place = if host.is_empty() { String::new() } else { format!(" at {host}:{port}") };
    let server_uuid = if server_uuid.is_empty() { "no server_uuid" } else { server_uuid };
    format!("server id {server_id}{place} ({server_uuid}){}", if *acknowledges { ", semi-synchronous" } else { "" })
}
