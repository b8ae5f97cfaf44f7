//! The engine of a replica's process, which may be started again while the process and its socket stay.
//!
//! In: the engine's phases, set by the main thread; requests of operators. Out: the running replica for a request, a
//! status report in every phase, requests to start the engine again. Never here: a start itself, which is the main
//! thread's.

use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use base::{GtidSet, UntilGtids};
use door::SchemaState;
use observe::{ConnectionState, LagHistograms, ReplayState, StatusReport, now_us, steady_us, utc_text};
use replica::{
    BeginReplay, Begun, CopyInProgress, Failure, FilterOrders, Folder, History, Movement, Replica, ServeLog, Serving,
    SourceLogin, SourceOrders, SourceSettings, Stopped,
    config::{ReplicaConfig, SourceSpec},
    failure::error_report,
    log::{self, Code},
};
use serde::{Deserialize, Serialize};

use crate::gtids::Parked;
use crate::open_door::OpenDoor;
use crate::open_web::OpenWeb;
use crate::replica_status::ShownOptions;
use crate::source_set::SourceAsker;

/// How long a request waits for a new engine: less than a client waits for an answer.
const START_WITHIN: Duration = Duration::from_secs(25);

/// A part of a replica that can be stopped and started by itself, by the name of MySQL's thread.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum ReplicaThread {
    Io,
    Sql,
}

/// What the engine does.
enum Phase {
    /// The main thread starts it.
    Starting,
    /// It makes the initial copy.
    Copying(Arc<CopyInProgress>),
    /// It runs; receiving or replay may have stopped.
    Running(Arc<Replica>),
    /// It could not be started again, and waits for a request.
    Down(Failure),
}

/// Where an earlier process may have shown rows.
pub(crate) enum MayHaveRead {
    /// What its folder holds is not known yet.
    Unknown,
    Nothing,
    In(Arc<Replica>),
}

struct State {
    phase: Phase,
    /// The last report of an engine.
    last: StatusReport,
    /// What of the source changes answers, as it was known before the engine ran, or when it was last taken down.
    source: Arc<SourceSettings>,
    /// A request to start the engine again.
    wanted: Option<Wanted>,
    /// Number of attempts to start the engine that have ended.
    attempts: u64,
}

/// A request to start the engine again.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Wanted {
    /// Whether receiving must start too if it is stopped.
    pub io: bool,
    /// How replay must begin; None: as it was left.
    pub replay: Option<BeginReplay>,
    /// Whether the relay log is removed first.
    pub clear_relay_log: bool,
}

/// The configuration in force.
struct InForce {
    orders: SourceOrders,
    filters: FilterOrders,
    shown: Arc<ShownOptions>,
}

/// Shared by the main thread and the control socket.
pub struct Engine {
    state: Mutex<State>,
    changed: Condvar,
    stop: Arc<AtomicBool>,
    folder: Folder,
    /// The configuration of the start.
    start: ReplicaConfig,
    /// What is changed of it by SQL, and what is shown of both.
    in_force: Mutex<InForce>,
    /// Locked while the configuration is changed.
    changing: Mutex<()>,
    /// Locked while it is decided what is stopped.
    deciding: Mutex<()>,
    /// None for a source of files.
    login: Option<Arc<SourceLogin>>,
    /// The port for clients, while it is open. It stays when the engine starts again.
    door: Mutex<Option<OpenDoor>>,
    web: Mutex<Option<OpenWeb>>,
    /// What is served to other replicas, under all engines.
    serve: Option<Arc<ServeLog>>,
    /// Clients that wait for the engine.
    pub parked: Parked,
    history: History,
    /// Asks the source for clients.
    pub(crate) asker: Arc<SourceAsker>,
}

impl Engine {
    /// An engine that is being started. `stop` is set when an operator asks to stop while no replica runs; the folder's
    /// last report is shown until there is one.
    ///
    /// # Errors
    /// What was changed by SQL cannot be read.
    pub fn new(
        stop: Arc<AtomicBool>,
        login: Option<Arc<SourceLogin>>,
        folder: &Folder,
        start: &ReplicaConfig,
    ) -> Result<Arc<Engine>, Failure> {
        let last = before_start(folder);
        let (orders, filters) = (SourceOrders::of(folder)?, FilterOrders::of(folder)?);
        let mut config = orders.over(start)?;
        filters.over(&mut config)?;
        let in_force = InForce { shown: Arc::new(ShownOptions::of(&config)), orders, filters };
        let source = replica::known_source_settings(folder.path());
        let state = State { phase: Phase::Starting, last, source, wanted: None, attempts: 0 };
        Ok(Arc::new(Engine {
            state: Mutex::new(state),
            changed: Condvar::new(),
            stop,
            folder: folder.clone(),
            start: start.clone(),
            in_force: Mutex::new(in_force),
            changing: Mutex::default(),
            deciding: Mutex::default(),
            login,
            door: Mutex::default(),
            web: Mutex::default(),
            serve: ServeLog::of(start, folder),
            parked: Parked::default(),
            history: History::open(folder),
            asker: Arc::default(),
        }))
    }

    /// What the last 24 hours were like, over restarts.
    pub fn history(&self) -> &History {
        &self.history
    }

    pub(crate) fn folder(&self) -> &Folder {
        &self.folder
    }

    /// What is served to other replicas.
    pub fn serve_log(&self) -> Option<&Arc<ServeLog>> {
        self.serve.as_ref()
    }

    /// The served log and its readers.
    ///
    /// # Errors
    /// Nothing is served, or not yet.
    pub fn serving(&self) -> Result<Arc<Serving>, Failure> {
        let Some(serve) = &self.serve else {
            return Err(Failure::usage("a replica without --serve-log runs on this folder, not a relay"));
        };
        serve.serving().cloned().ok_or_else(|| Failure::error(sql::passing::STARTING))
    }

    /// The configuration of the start.
    pub(crate) fn start_config(&self) -> &ReplicaConfig {
        &self.start
    }

    /// The configuration in force.
    ///
    /// # Errors
    /// The options of the start are invalid.
    pub fn config(&self) -> Result<ReplicaConfig, Failure> {
        let InForce { orders, filters, .. } = &*self.in_force();
        let mut config = orders.over(&self.start)?;
        filters.over(&mut config)?;
        Ok(config)
    }

    pub(crate) fn filter_orders(&self) -> FilterOrders {
        self.in_force().filters.clone()
    }

    /// Puts filters in force that are kept already.
    ///
    /// # Errors
    /// The options of the start are invalid.
    pub(crate) fn put_filters_in_force(&self, filters: FilterOrders) -> Result<(), Failure> {
        self.in_force().filters = filters;
        let shown = Arc::new(ShownOptions::of(&self.config()?));
        self.in_force().shown = shown;
        Ok(())
    }

    /// Starts the engine again under the filters in force, with replay stopped where rows are visible now.
    ///
    /// # Errors
    /// Why it does not start.
    pub(crate) fn restart_under_filters(&self, shown: GtidSet) -> Result<(), Failure> {
        self.decide(|stopped| (stopped.sql, stopped.shown) = (true, Some(shown.clone())))?;
        let before = self.lock().attempts;
        let replay = Some(BeginReplay::StoppedAt(shown));
        self.want(before, Wanted { io: false, replay, clear_relay_log: false })
    }

    /// What SHOW REPLICA STATUS shows of the configuration.
    pub(crate) fn shown(&self) -> Arc<ShownOptions> {
        Arc::clone(&self.in_force().shown)
    }

    fn in_force(&self) -> MutexGuard<'_, InForce> {
        self.in_force.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Held by the one who changes the configuration.
    pub(crate) fn changes(&self) -> MutexGuard<'_, ()> {
        self.changing.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Puts changes in force that are kept already, with the configuration that they lead to.
    ///
    /// # Errors
    /// The options of the source are invalid.
    pub(crate) fn put_in_force(&self, orders: &SourceOrders, config: &ReplicaConfig) -> Result<(), Failure> {
        if let (Some(login), SourceSpec::Server(server)) = (&self.login, &config.source) {
            login.change(server)?;
        }
        self.show(orders, config);
        if let Ok(replica) = self.replica() {
            replica.configure(config);
        }
        Ok(())
    }

    /// As [`put_in_force`](Self::put_in_force), of other servers that may be followed: the one that is followed stays.
    ///
    /// # Errors
    /// The options of the source are invalid.
    pub(crate) fn relist(&self, orders: &SourceOrders, config: &ReplicaConfig) -> Result<(), Failure> {
        if let (Some(login), SourceSpec::Server(server)) = (&self.login, &config.source) {
            login.relist(server)?;
        }
        self.show(orders, config);
        Ok(())
    }

    fn show(&self, orders: &SourceOrders, config: &ReplicaConfig) {
        let mut in_force = self.in_force();
        (in_force.orders, in_force.shown) = (orders.clone(), Arc::new(ShownOptions::of(config)));
    }

    /// Starts the engine again with an empty relay log and everything stopped. All that is visible is in the store.
    ///
    /// # Errors
    /// Why it does not start.
    pub(crate) fn restart_without_relay_log(&self, shown: GtidSet) -> Result<(), Failure> {
        self.decide(|stopped| *stopped = Stopped { io: true, sql: true, shown: Some(shown.clone()) })?;
        let before = self.lock().attempts;
        let replay = Some(BeginReplay::StoppedAt(shown));
        self.want(before, Wanted { io: false, replay, clear_relay_log: true })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn door(&self) -> MutexGuard<'_, Option<OpenDoor>> {
        self.door.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn web(&self) -> MutexGuard<'_, Option<OpenWeb>> {
        self.web.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Lag of all transactions since the engine's start; None without one.
    pub(crate) fn lags(&self) -> Option<LagHistograms> {
        let replica = self.replica().ok()?;
        let pipeline = replica.pipeline();
        Some(pipeline.lag_by_part.histograms(&pipeline.lag))
    }

    /// Median, 99th percentile and maximum of the lag and of its parts in the order of `LagPart::ALL`, µs; None if no
    /// engine runs.
    pub(crate) fn lag_summaries(&self) -> Option<Vec<u64>> {
        let replica = self.replica().ok()?;
        let pipeline = replica.pipeline();
        let parts = pipeline.lag_by_part.report(steady_us()).all().map(|(_, figures)| figures.overall);
        let all = std::iter::once(pipeline.lag.overall()).chain(parts);
        Some(all.flat_map(|lag| [lag.p50_us, lag.p99_us, lag.max_us]).collect())
    }

    /// The login at the source; None for a source of files.
    pub fn login(&self) -> Option<&Arc<SourceLogin>> {
        self.login.as_ref()
    }

    /// The port for clients is open.
    pub fn opens(&self, door: Option<OpenDoor>) {
        *self.door() = door;
    }

    /// The port for those who watch is open.
    pub fn watched_by(&self, web: Option<OpenWeb>) {
        *self.web() = web;
    }

    /// Closes the ports: no new connections, and statements of clients get their time.
    pub fn close_door(&self) {
        drop(self.web().take());
        let door = self.door().take();
        door.into_iter().for_each(OpenDoor::close);
    }

    /// Looks up a schema in what is visible.
    pub(crate) fn schema(&self, name: &str) -> SchemaState {
        let replica = match self.replica() {
            Ok(replica) => replica,
            Err(failure) => return SchemaState::Unknown(failure.text),
        };
        let catalog = replica.pipeline().store.visibility().current().catalog;
        let found = catalog.databases().find(|(own, _)| *own == name).map(|(_, collation)| collation);
        found.map_or(SchemaState::Missing, SchemaState::There)
    }

    /// The initial copy runs.
    pub fn copies(&self, copy: Arc<CopyInProgress>) {
        self.lock().phase = Phase::Copying(copy);
    }

    /// The initial copy has ended, and the start continues.
    pub fn copied(&self) {
        let mut state = self.lock();
        if let Phase::Copying(copy) = &state.phase {
            state.last = copy.status();
        }
        state.phase = Phase::Starting;
    }

    pub fn runs(&self, replica: Arc<Replica>) {
        // An engine that was taken down in this process is known to have shown no more than that.
        if self.lock().attempts == 0 && replica.log_was_cut() {
            self.parked.may_have_lost();
        }
        self.attempt_ended(Phase::Running(replica));
    }

    /// The engine could not be started again.
    pub fn is_down(&self, failure: Failure) {
        self.attempt_ended(Phase::Down(failure));
    }

    fn attempt_ended(&self, phase: Phase) {
        let mut state = self.lock();
        state.phase = phase;
        state.attempts += 1;
        drop(state);
        self.changed.notify_all();
        self.parked.look_again();
    }

    /// The main thread takes the engine down, to start it again.
    pub fn restarts(&self, last: StatusReport) {
        let replica = self.replica().ok();
        if let Some(replica) = &replica {
            self.parked.was_shown(replica.pipeline().store.visibility().executed());
        }
        let source = replica.map(|replica| replica.source_settings());
        let mut state = self.lock();
        state.last = last;
        if let Some(source) = source {
            state.source = source;
        }
        state.phase = Phase::Starting;
        drop(state);
        // Nothing is pinned any more, and the store must be let go.
        if let Some(door) = self.door().as_ref() {
            door.give_up_snapshots();
        }
    }

    /// A request to start the engine again, if there is one.
    pub fn take_wanted(&self) -> Option<Wanted> {
        self.lock().wanted.take()
    }

    /// The running replica.
    ///
    /// # Errors
    /// There is none now.
    pub fn replica(&self) -> Result<Arc<Replica>, Failure> {
        self.running().map(|(replica, _)| replica)
    }

    /// What of the source changes answers, also while no replica runs.
    pub(crate) fn source_settings(&self) -> Arc<SourceSettings> {
        let state = self.lock();
        if let Phase::Running(replica) = &state.phase {
            let replica = Arc::clone(replica);
            drop(state);
            return replica.source_settings();
        }
        Arc::clone(&state.source)
    }

    /// What this makes of UUID and version of the source as it was met last; None while no replica runs.
    pub(crate) fn of_source<T>(&self, of: impl FnOnce(&str, &str) -> T) -> Option<T> {
        let replica = match &self.lock().phase {
            Phase::Running(replica) => Arc::clone(replica),
            _ => return None,
        };
        Some(replica.of_source(of))
    }

    /// The running replica, and the number of attempts to start one until then.
    ///
    /// # Errors
    /// There is none now.
    pub(crate) fn running(&self) -> Result<(Arc<Replica>, u64), Failure> {
        let state = self.lock();
        match &state.phase {
            Phase::Running(replica) => Ok((Arc::clone(replica), state.attempts)),
            Phase::Starting => Err(Failure::error(sql::passing::STARTING)),
            Phase::Copying(_) => Err(Failure::error("the initial copy is running; try again when it is done")),
            Phase::Down(failure) => {
                let text = format!("the replica could not be started again: {}", failure.text);
                Err(Failure { text, ..failure.clone() }.with_hint("once that is fixed: slipstream start"))
            }
        }
    }

    /// Where readers may have read, besides in engines of this process that are gone.
    pub(crate) fn may_have_read(&self) -> MayHaveRead {
        match &self.lock().phase {
            Phase::Running(replica) => MayHaveRead::In(Arc::clone(replica)),
            Phase::Starting => MayHaveRead::Unknown,
            Phase::Copying(_) | Phase::Down(_) => MayHaveRead::Nothing,
        }
    }

    /// The status in every phase.
    pub fn status(&self) -> StatusReport {
        let clients = self.door().as_ref().map(OpenDoor::report);
        let http = self.web().as_ref().map(OpenWeb::url);
        let mut report = StatusReport { clients, http, ..self.engine_status() };
        let in_force = self.in_force();
        let of_source = in_force.orders.names().into_iter().map(str::to_owned);
        report.source.changed_by_sql = of_source.chain(in_force.filters.names().iter().cloned()).collect();
        report.replay.filters = in_force.shown.filter_rules();
        drop(in_force);
        report
    }

    /// As [`status`](Self::status), without the port for clients.
    pub fn engine_status(&self) -> StatusReport {
        let state = self.lock();
        match &state.phase {
            Phase::Running(replica) => {
                let replica = Arc::clone(replica);
                drop(state);
                replica.status()
            }
            Phase::Copying(copy) => copy.status(),
            Phase::Starting => starting(state.last.clone(), self.login.as_deref()),
            Phase::Down(failure) => down(state.last.clone(), failure),
        }
    }

    /// Whether the stages move; None while the main thread itself does the work of a start.
    pub(crate) fn movement(&self) -> Option<Movement> {
        let state = self.lock();
        match &state.phase {
            Phase::Running(replica) => {
                let replica = Arc::clone(replica);
                drop(state);
                Some(replica.movement())
            }
            Phase::Copying(copy) => Some(copy.movement()),
            Phase::Down(_) => Some(Movement::Rests),
            Phase::Starting => None,
        }
    }

    /// Asks for the end of the process, at a transaction boundary.
    pub fn stop(&self) {
        self.close_door();
        match &self.lock().phase {
            Phase::Running(replica) => replica.stop(),
            Phase::Copying(copy) => copy.stop(),
            Phase::Starting | Phase::Down(_) => self.stop.store(true, SeqCst),
        }
    }

    /// Reads certificates, the token and option files again; returns what became of the latter. A receiver whose login
    /// is refused tries another password at once.
    ///
    /// # Errors
    /// The files cannot be read; the options stay as they were.
    pub fn reload(&self) -> Result<&'static str, Failure> {
        if let Some(door) = self.door().as_ref() {
            door.reload_tls();
        } else if let Some(web) = self.web().as_ref() {
            web.reload_tls();
        }
        if let Some(web) = self.web().as_ref() {
            web.reload_token();
        }
        let Some(login) = &self.login else { return Ok("the source is files, and needs no login") };
        let changed = login.reload()?;
        login.look_again();
        Ok(if changed { "the login has changed" } else { "the login is the same as before" })
    }

    /// Stops one thread, over restarts too.
    ///
    /// # Errors
    /// No engine runs, the thread does not end in time, or the order cannot be kept.
    pub fn stop_thread(&self, thread: ReplicaThread) -> Result<(), Failure> {
        let replica = self.replica()?;
        match thread {
            ReplicaThread::Io => {
                self.decide(|stopped| stopped.io = true)?;
                replica.stop_io()
            }
            ReplicaThread::Sql => {
                let shown = replica.stop_sql();
                if shown.is_err() && replica.sql_failure().is_some() {
                    return shown.map(|_| ());
                }
                // Also one that takes its time stays stopped.
                self.decide(|stopped| (stopped.sql, stopped.shown) = (true, shown.as_ref().ok().cloned()))?;
                shown.map(|_| ())
            }
        }
    }

    /// Keeps over a restart that replay has stopped, if the condition that it was started with is met.
    pub fn look_at_until(&self, replica: &Replica) {
        let Some(shown) = replica.take_until_met() else { return };
        if let Err(failure) = self.decide(|stopped| (stopped.sql, stopped.shown) = (true, Some(shown))) {
            let text = format!("replay would start again with the process: {}", failure.text);
            log::write(Code::StopNotKept, "Replay", &text);
        }
        replica.until_is_kept();
    }

    /// Ends a pause.
    ///
    /// # Errors
    /// No engine runs, replay has failed, or the order cannot be kept.
    pub fn resume(&self) -> Result<(), Failure> {
        let replica = self.replica()?;
        replica.sql_failure().map_or(Ok(()), Err)?;
        self.decide(|stopped| (stopped.sql, stopped.shown) = (false, None))?;
        let _ = replica.start_sql(None);
        Ok(())
    }

    /// Keeps what an operator orders.
    fn decide(&self, change: impl FnOnce(&mut Stopped)) -> Result<(), Failure> {
        let _alone = self.deciding.lock().unwrap_or_else(PoisonError::into_inner);
        let mut stopped = Stopped::of(&self.folder)?;
        change(&mut stopped);
        stopped.keep(&self.folder)
    }

    /// Starts one thread, or both, and with them the engine if need be; replay up to a condition, if there is one.
    ///
    /// # Errors
    /// Why it does not run.
    pub fn start_threads(&self, thread: Option<ReplicaThread>, until: Option<UntilGtids>) -> Result<(), Failure> {
        let (io, sql) = (thread != Some(ReplicaThread::Sql), thread != Some(ReplicaThread::Io));
        self.decide(|stopped| {
            stopped.io &= !io;
            if sql {
                (stopped.sql, stopped.shown) = (false, None);
            }
        })?;
        let before = self.lock().attempts;
        if sql && let Ok(replica) = self.replica() {
            replica.start_stamping()?;
        }
        if self.begin(io, sql, until.as_ref())? == Begun::Running {
            return Ok(());
        }
        let replay = sql.then(|| until.map_or(BeginReplay::Runs, BeginReplay::Until));
        self.want(before, Wanted { io, replay, clear_relay_log: false })
    }

    /// Waits until the main thread has started the engine again, of which there were so many attempts before.
    fn want(&self, before: u64, wanted: Wanted) -> Result<(), Failure> {
        self.lock().wanted = Some(wanted);
        let until = Instant::now() + START_WITHIN;
        let mut state = self.lock();
        while state.attempts == before {
            let Some(left) = until.checked_duration_since(Instant::now()) else {
                return Err(Failure::error("still starting; see slipstream status"));
            };
            state = self.changed.wait_timeout(state, left).map_or_else(|e| e.into_inner().0, |(state, _)| state);
        }
        match &state.phase {
            Phase::Down(failure) => Err(failure.clone()),
            _ => Ok(()),
        }
    }

    /// Starts the threads in the engine that runs, if it can go on.
    fn begin(&self, io: bool, sql: bool, until: Option<&UntilGtids>) -> Result<Begun, Failure> {
        if matches!(self.lock().phase, Phase::Down(_)) {
            return Ok(Begun::NeedsNewEngine);
        }
        let replica = self.replica()?;
        // Replay first: a new engine starts receiving too.
        if sql && replica.start_sql(until.cloned()) == Begun::NeedsNewEngine {
            return Ok(Begun::NeedsNewEngine);
        }
        if io { replica.start_io() } else { Ok(Begun::Running) }
    }
}

/// The folder's last report as a start begins with it: why an earlier one ended is no news of this one.
#[must_use]
pub fn before_start(folder: &Folder) -> StatusReport {
    StatusReport { last_error: None, last_io_error: None, last_sql_error: None, ..folder.last_status() }
}

/// A report while a start runs: after the last one, with what it waits for.
#[must_use]
pub fn starting(last: StatusReport, login: Option<&SourceLogin>) -> StatusReport {
    let mut report = without_engine(last);
    if report.replay.state != ReplayState::Copying {
        report.replay.state = ReplayState::Stopped;
        "starting".clone_into(&mut report.replay.detail);
    }
    if let Some(login) = login {
        report.source.uri = login.shown();
        if let Some((source, since_us)) = login.awaited() {
            report.source.state = ConnectionState::Connecting;
            let since = utc_text(since_us);
            report.replay.detail = format!("starting: connecting to {source} since {since}");
            report.source.since = Some(since);
        }
    }
    report
}

/// A report of an engine that could not be started again.
fn down(last: StatusReport, failure: &Failure) -> StatusReport {
    let mut report = without_engine(last);
    report.replay.state = ReplayState::Failed;
    "the engine could not be started again".clone_into(&mut report.replay.detail);
    report.last_sql_error = Some(error_report(failure));
    report.last_error.clone_from(&report.last_sql_error);
    report
}

/// A report of an engine that is not there now.
fn without_engine(last: StatusReport) -> StatusReport {
    let mut report = StatusReport { at: utc_text(now_us()), running: true, pid: Some(std::process::id()), ..last };
    report.source.state = ConnectionState::Stopped;
    report.lag.current_us = None;
    report
}
