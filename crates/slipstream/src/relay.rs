//! `slipstream relay`: the process, its port for replicas, its control socket.
//!
//! In: settings, the data folder, requests. Out: a relay until it is told to stop. Never here: receiving and stamping
//! (crate `replica`), dumps (crate `serve`), sessions (crate `door`).

use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::time::{Duration, Instant};

use accounts::Accounts;
use base::GtidSet;
use decode::trackers::TrackerKind;
use door::{Facts, Gtids, Note, OrderDone, Position, Registration, ReplicaStatus, SchemaState, SqlError, Waker};
use engine::orders::named;
use engine::{DoorSettings, OpenDoor, ShownOptions, before_start, log_order, not_now, note, ordered, starting};
use observe::StatusReport;
use relay_log::SyncPolicy;
use replica::config::{OnStop, ReplicaConfig, SourceSpec};
use replica::log::{self, Code};
use replica::{
    Failure, Folder, FolderLock, MemoryPlan, Relay, RelayBase, RelayConfig, RelayStart, Reread, ServeConfig,
    ServedKeep, SourceLogin, Zones, access, replica_text,
};
use serve::GrowingLog;
use sql::ReplicaOrder;

use crate::account;
use crate::control::{ControlServer, Handler, Reply, Request};
use crate::log_file;
use crate::relay_hold;
use crate::relay_orders;
use crate::run::{end_while_starting, keep_failure, lost, narrow};
use crate::settings::Settings;
use crate::signals::Signals;

/// Interval at which the main thread checks signals and the relay's outcome.
const LOOK_EVERY: Duration = Duration::from_millis(20);
/// Interval at which it looks whether the folder is still the one that it owns.
const LOOK_AT_FOLDER_EVERY: Duration = Duration::from_secs(1);
/// Interval at which the status is stored for `status` after a crash.
const KEEP_STATUS_EVERY: Duration = Duration::from_secs(10);
/// A stop that takes longer ends the process, as a crash would.
const STOP_WITHIN: Duration = Duration::from_millis(4500);

/// Options of a served log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct RelaySettings {
    /// Whether a replica serves what it receives.
    pub serve_log: bool,
    /// `--start`, as given.
    pub start: String,
    /// `--definitions-from`, as given.
    pub definitions_from: Option<String>,
    /// Replicas that must have acknowledged first.
    pub ack_after_replicas: usize,
    /// What a transaction must wait for.
    pub tracking: TrackerKind,
    /// Largest served file, in bytes.
    pub max_binlog_size: u64,
    /// How long served files are kept.
    pub serve_keep: Duration,
    /// Most bytes of served files; 0: no limit.
    pub serve_space_limit: u64,
}

impl Default for RelaySettings {
    /// Nothing: the options' own defaults fill it.
    fn default() -> RelaySettings {
        RelaySettings {
            serve_log: false,
            start: String::new(),
            definitions_from: None,
            ack_after_replicas: 0,
            tracking: TrackerKind::Writeset,
            max_binlog_size: 0,
            serve_keep: Duration::ZERO,
            serve_space_limit: 0,
        }
    }
}

/// Checks `--start`.
pub(crate) fn checked_start(text: &str) -> Result<String, String> {
    let is_known = text == "oldest" || text.starts_with("mysql://") || text.parse::<GtidSet>().is_ok();
    if is_known {
        Ok(text.to_owned())
    } else {
        Err(format!(
            "'{text}' is not one of oldest, a GTID set, \
        mysql://REPLICA"
        ))
    }
}

/// Checks `--definitions-from`.
pub(crate) fn checked_url(text: &str) -> Result<String, String> {
    if text.starts_with("mysql://") { Ok(text.to_owned()) } else { Err(format!("'{text}' is not mysql://REPLICA")) }
}

/// Reads `--dependency-tracking`.
pub(crate) fn parse_tracking(text: &str) -> Result<TrackerKind, String> {
    match text.to_ascii_lowercase().replace('_', "-").as_str() {
        "writeset" => Ok(TrackerKind::Writeset),
        "writeset-session" => Ok(TrackerKind::WritesetSession),
        "commit-order" => Ok(TrackerKind::CommitOrder),
        "source" => Ok(TrackerKind::Source),
        _ => Err(format!("'{text}' is not one of writeset, writeset-session, commit-order, source")),
    }
}

impl Settings {
    /// The complete configuration of a relay, checked as a whole.
    ///
    /// # Errors
    /// Code 2 as for a replica, and for options that a relay cannot follow.
    pub(crate) fn relay(&self) -> Result<RelayConfig, Failure> {
        let receiving = ReplicaConfig { on_stop: OnStop::Stay, ..self.receiving()? };
        // What is not synced is not served, so that a longer interval would only be lag.
        let relay_sync = if self.relay_sync_given { receiving.relay_sync } else { SyncPolicy::EveryTransaction };
        let receiving = ReplicaConfig { relay_sync, ..receiving };
        if !matches!(receiving.source, SourceSpec::Server(_)) {
            return Err(Failure::usage("a relay needs a server as its source: --source mysql://USER@HOST:PORT"));
        }
        if !receiving.filters.is_empty() || !receiving.skip.is_empty() {
            let text =
                "a relay serves the source's whole log: replicate-* and skip-gtids belong to the replicas behind it";
            return Err(Failure::usage(text));
        }
        if receiving.relay_sync == SyncPolicy::Never {
            let text = "a relay serves only synced transactions, so it cannot be combined with relay-sync=never";
            return Err(Failure::usage(text));
        }
        let text = self.relay.start.as_str();
        let start = match text {
            "oldest" => RelayStart::Oldest,
            url if url.starts_with("mysql://") => RelayStart::Server(Box::new(self.server(url))),
            set => RelayStart::After(set.parse().map_err(|error| Failure::usage(format!("--start: {error}")))?),
        };
        let serve = self.serve();
        let semi_sync = receiving.semi_sync || serve.ack_after_replicas > 0;
        let receiving = ReplicaConfig { semi_sync, serve_log: None, ..receiving };
        Ok(RelayConfig { receiving, start, serve })
    }

    fn serve(&self) -> ServeConfig {
        let RelaySettings { tracking, max_binlog_size, serve_keep, serve_space_limit, ack_after_replicas, .. } =
            self.relay;
        let keep = ServedKeep { span: serve_keep, bytes: serve_space_limit };
        let definitions_from = self.relay.definitions_from.as_deref().map(|url| self.server(url));
        ServeConfig { tracking, max_binlog_size, definitions_from, ack_after_replicas, keep }
    }

    /// A replica's configuration, with what it serves.
    ///
    /// # Errors
    /// Code 2 for what cannot be served.
    pub(crate) fn serving(&self, config: ReplicaConfig) -> Result<ReplicaConfig, Failure> {
        let refused = |text: &str| Err(Failure::usage(text));
        let serve = self.serve();
        if !self.relay.serve_log {
            let only = "is of a relay, or of a replica with --serve-log";
            return match (serve.ack_after_replicas, &serve.definitions_from) {
                (0, None) => Ok(config),
                (0, Some(_)) => refused(&format!("--definitions-from {only}")),
                _ => refused(&format!("--ack-after-replicas {only}")),
            };
        }
        if !matches!(config.source, SourceSpec::Server(_)) {
            return refused("--serve-log needs a server as the source: --source mysql://USER@HOST:PORT");
        }
        if config.relay_sync == SyncPolicy::Never {
            return refused(
                "--serve-log serves only synced transactions, so it cannot be combined with \
                            relay-sync=never",
            );
        }
        // The last served file can be made again only from the relay log.
        let needed = serve.max_binlog_size.saturating_add(config.max_relay_log_size.saturating_mul(2));
        if (1..needed).contains(&config.relay_log_space_limit) {
            let text = "with --serve-log the relay log is kept from where the last served file begins, so \
                        relay-log-space-limit must be at least max-binlog-size and twice max-relay-log-size, or 0";
            return refused(text);
        }
        let semi_sync = config.semi_sync || serve.ack_after_replicas > 0;
        Ok(ReplicaConfig { semi_sync, serve_log: Some(serve), ..config })
    }
}

/// Runs a relay until it is told to stop.
///
/// # Errors
/// As the exit code says.
pub(crate) fn run(settings: &Settings, reread: Reread, signals: &Signals) -> Result<(), Failure> {
    let config = settings.relay()?;
    let (folder, lock) = Folder::own(&config.receiving.data)?;
    let about = format!(
        "slipstream {} relay starting as process {}: source {}, data {}",
        env!("CARGO_PKG_VERSION"),
        std::process::id(),
        config.receiving.source.shown(),
        folder.path().display(),
    );
    log::write(Code::Started, "Server", &about);
    narrow(&folder, config.receiving.access);
    let result = follow(&config, &settings.door, reread, &folder, &lock, signals);
    if let Err(failure) = &result
        && !lock.is_lost()
    {
        keep_failure(&folder, config.receiving.source.shown(), failure);
    }
    result
}

fn follow(
    config: &RelayConfig,
    door: &DoorSettings,
    reread: Reread,
    folder: &Folder,
    lock: &FolderLock,
    signals: &Signals,
) -> Result<(), Failure> {
    let accounts = account::open(folder)?;
    account::warn_of_native(&accounts);
    let SourceSpec::Server(server) = &config.receiving.source else {
        return Err(Failure::usage("a relay needs a server as its source"));
    };
    let login = SourceLogin::kept(server, reread, folder)?;
    let process = Arc::new(Process {
        relay: OnceLock::new(),
        door: Mutex::default(),
        folder: folder.clone(),
        login: Arc::clone(&login),
        stop: signals.stop_flag(),
        before: before_start(folder),
    });
    // Before the source is connected to, which may take long.
    let mut control = ControlServer::start(folder.path(), lock, handler(Arc::clone(&process), Arc::clone(&accounts)))?;
    let started = Arc::new(AtomicBool::new(false));
    end_while_starting(signals.stop_flag(), Arc::clone(&started), control.answers());
    let relay = start(config, door, folder, &process, accounts);
    started.store(true, SeqCst);
    let result = relay.and_then(|relay| supervise(&process, &relay, lock, signals));
    let door = process.door().take();
    door.into_iter().for_each(OpenDoor::close);
    if lock.is_lost() {
        control.abandon()
    } else {
        control.stop()
    }
    if !lock.is_lost() && process.relay.get().is_some() {
        let _ = folder.keep_last_status(&process.status());
    }
    result
}

/// Opens the port for clients, then starts the relay.
fn start(
    config: &RelayConfig,
    door: &DoorSettings,
    folder: &Folder,
    process: &Arc<Process>,
    accounts: Arc<Accounts>,
) -> Result<Arc<Relay>, Failure> {
    let login = &process.login;
    let base = RelayBase::open(config, folder, Some(login))?;
    let shown = ShownOptions::of(&config.receiving);
    let facts = Arc::new(RelayFacts { process: Arc::downgrade(process), log: Arc::clone(base.serving.log()), shown });
    let tls = door.tls(folder)?;
    let server_id = config.receiving.server_id;
    // A relay has no limit of its own: its clients get what those of a replica get without --memory.
    let memory = MemoryPlan::of(0, 0);
    *process.door() = OpenDoor::open(door, folder, server_id, &memory, accounts, tls, facts)?;
    let relay = Arc::new(Relay::start(config, folder, base, Some(Arc::clone(login)))?);
    // Set once.
    let _ = process.relay.set(Arc::clone(&relay));
    Ok(relay)
}

fn supervise(process: &Process, relay: &Arc<Relay>, lock: &FolderLock, signals: &Signals) -> Result<(), Failure> {
    let mut stopping: Option<Instant> = None;
    let (mut kept, mut looked) = (Instant::now(), Instant::now());
    let _ = process.folder.keep_last_status(&process.status());
    loop {
        if let Some(outcome) = relay.outcome() {
            return outcome;
        }
        if stopping.is_some_and(|since| since.elapsed() >= STOP_WITHIN) {
            let text = "the receiver did not stop in time; the next start checks the relay log";
            log::write(Code::StopTimedOut, "Server", text);
            return Ok(());
        }
        if signals.stop_asked() && stopping.is_none() {
            stopping = Some(Instant::now());
            log::write(Code::StopSignal, "Server", "stopping at a transaction boundary");
            let door = process.door().take();
            door.into_iter().for_each(OpenDoor::close);
            relay.stop();
        }
        if signals.take_reopen() {
            match log_file::reopen() {
                Ok(()) => log::write(Code::LogReopened, "Server", "log file reopened"),
                Err(failure) => log::write(Code::LogNotReopened, "Server", &failure.text),
            }
            // The log has a failure already.
            if let Ok(text) = process.reload() {
                log::write(Code::OptionsRead, "Server", &format!("option files read again: {text}"));
            }
        }
        relay.housekeep();
        if looked.elapsed() >= LOOK_AT_FOLDER_EVERY {
            looked = Instant::now();
            if lock.is_lost() {
                return Err(lost(&process.folder));
            }
        }
        if kept.elapsed() >= KEEP_STATUS_EVERY {
            kept = Instant::now();
            let _ = process.folder.keep_last_status(&process.status());
        }
        std::thread::sleep(LOOK_EVERY);
    }
}

/// What the main thread, the control socket and the port share.
struct Process {
    /// Empty until it has started.
    relay: OnceLock<Arc<Relay>>,
    door: Mutex<Option<OpenDoor>>,
    folder: Folder,
    login: Arc<SourceLogin>,
    stop: Arc<AtomicBool>,
    /// Shown until it has started.
    before: StatusReport,
}

impl Process {
    fn door(&self) -> MutexGuard<'_, Option<OpenDoor>> {
        self.door.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn running(&self) -> Result<Arc<Relay>, Failure> {
        self.relay.get().cloned().ok_or_else(|| Failure::error("the relay is starting; try again"))
    }

    fn status(&self) -> StatusReport {
        let clients = self.door().as_ref().map(OpenDoor::report);
        let report = match self.relay.get() {
            Some(relay) => relay.status(),
            None => starting(self.before.clone(), Some(&self.login)),
        };
        StatusReport { clients, ..report }
    }

    fn reload(&self) -> Result<&'static str, Failure> {
        if let Some(door) = self.door().as_ref() {
            door.reload_tls();
        }
        let changed = self.login.reload()?;
        self.login.look_again();
        Ok(if changed { "the login has changed" } else { "the login is the same as before" })
    }
}

/// Answers requests of the control socket.
fn handler(process: Arc<Process>, accounts: Arc<Accounts>) -> Handler {
    Arc::new(move |request, _| match request {
        Request::Status {} => match serde_json::to_value(process.status()) {
            Ok(body) => Reply::with_body(body),
            Err(error) => Reply::failed(&Failure::error(error.to_string())),
        },
        Request::Stop { thread: None } => {
            log::write(Code::OperatorStop, "Control", "operator asked to stop");
            process.stop.store(true, SeqCst);
            Reply::done()
        }
        Request::Stop { thread: Some(thread) } => {
            log::write(Code::OperatorCommand, "Control", &format!("operator asked to stop {}", named(Some(thread))));
            Reply::from_result(process.running().and_then(|relay| relay_orders::stop(&relay, thread)))
        }
        Request::Start { until: Some(_), .. } => Reply::failed(&relay_orders::no_until()),
        Request::Start { thread, until: None } => {
            log::write(Code::OperatorCommand, "Control", &format!("operator asked to start {}", named(thread)));
            Reply::from_result(process.running().and_then(|relay| relay_orders::start(&relay, thread).map(drop)))
        }
        Request::Execute { statement } => {
            match process.running().and_then(|relay| relay_orders::execute(&relay, &statement)) {
                Ok(text) => Reply::with_body(text.into()),
                Err(failure) => Reply::failed(&failure),
            }
        }
        Request::Reload {} => {
            log::write(Code::OperatorCommand, "Control", "operator asked to read the option files again");
            process.reload().map_or_else(|failure| Reply::failed(&failure), |text| Reply::with_body(text.into()))
        }
        Request::Hold { hold } => match process.running().and_then(|relay| relay_hold::perform(relay.serving(), &hold))
        {
            Ok(body) => Reply::with_body(body),
            Err(failure) => Reply::failed(&failure),
        },
        Request::Account { account } => match account::perform_logged(&accounts, &account) {
            Ok(body) => Reply { body, ..Reply::done() },
            Err(failure) => Reply::failed(&failure),
        },
        _ => Reply::failed(&Failure::usage("a relay runs on this folder: it has no rows, and replays nothing")),
    })
}

/// What the port asks of the relay.
struct RelayFacts {
    process: Weak<Process>,
    log: Arc<GrowingLog>,
    shown: ShownOptions,
}

impl RelayFacts {
    fn no_tables(&self) -> SqlError {
        let replicas: Vec<String> = self.log.replicas().iter().map(replica_text).collect();
        let behind = match replicas.as_slice() {
            [] => "no replica is connected to it now".to_owned(),
            replicas => format!("behind it are: {}", replicas.join(", ")),
        };
        let text = format!("This server is slipstream relay, which serves a log and keeps no tables; {behind}");
        SqlError::new(1235, "42000", text)
    }
}

impl Facts for RelayFacts {
    /// For replicas of ours behind it, whose clients begin with what clients of its source begin with.
    fn source_value(&self, name: &str) -> Option<String> {
        self.process.upgrade()?.running().ok()?.source_settings().global(name)
    }

    fn source_zones(&self) -> Option<Arc<Zones>> {
        self.process.upgrade()?.running().ok()?.source_settings().zones.clone()
    }

    fn schema(&self, _: &str) -> SchemaState {
        SchemaState::Unknown(self.no_tables().message)
    }

    fn replica_status(&self) -> ReplicaStatus {
        let report = self.process.upgrade().map(|process| process.status()).unwrap_or_default();
        self.shown.status(&report)
    }

    fn gtids(&self) -> &dyn Gtids {
        self
    }

    fn log(&self) -> Option<&Arc<GrowingLog>> {
        Some(&self.log)
    }

    fn pin(&self) -> Result<Arc<store::Snapshot>, SqlError> {
        Err(self.no_tables())
    }

    fn carry_out(&self, order: ReplicaOrder, by: &str, done: OrderDone) {
        let relay = self.process.upgrade().map(|process| process.running());
        let relay = match relay.unwrap_or_else(|| Err(Failure::error("the relay is stopping"))) {
            Ok(relay) => relay,
            Err(failure) => return done(Err(not_now(&failure.text))),
        };
        let asked = log_order(by, &order);
        ordered(done, asked, move || relay_orders::carry_out(&relay, &order));
    }

    fn note(&self, told: Note) {
        note(told);
    }
}

impl Gtids for RelayFacts {
    fn readable(&self) -> Result<(), SqlError> {
        Ok(())
    }

    fn visible(&self) -> Result<GtidSet, SqlError> {
        Ok(self.log.executed())
    }

    fn when_visible(&self, set: &GtidSet, waker: Waker) -> Option<Registration> {
        let version = self.log.version();
        if self.log.has(set) {
            return None;
        }
        let log = Arc::clone(&self.log);
        // If it has grown meanwhile, the waker wakes at once.
        let ticket = log.when_changed(version, Box::new(move || drop(waker)));
        Some(Registration::new(move || ticket.into_iter().for_each(|ticket| log.forget(ticket))))
    }

    fn when_position(&self, _: &str, _: u64, _: Waker) -> Position {
        Position::NotRunning
    }
}

/// Prepares the process, as for a replica.
///
/// # Errors
/// The log file cannot be opened, or signals cannot be had.
pub(crate) fn prepare(settings: &Settings) -> Result<Signals, Failure> {
    let umask = access::set_umask(settings.access());
    log_file::init(settings.log(), umask)?;
    for warning in settings.warnings() {
        log::write(Code::OptionFileReadable, "Server", warning);
    }
    Signals::install()
}
