//! The engine of a replica's process, which may be started again while the process and its socket stay.
//!
//! In: the engine's phases, set by the main thread; requests of operators. Out: the running replica for a request, a
//! status report in every phase, requests to start the engine again. Never here: a start itself, which is the main
//! thread's.

use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use door::SchemaState;
use observe::{ConnectionState, LagHistogram, ReplayState, StatusReport, now_us, utc_text};
use replica::{Begun, CopyInProgress, Failure, Movement, Replica, SourceLogin, failure::error_report};

use crate::control::ReplicaThread;
use crate::door::OpenDoor;
use crate::engine_gtids::Parked;
use crate::source_set::SourceAsker;
use crate::web::OpenWeb;

/// How long a request waits for a new engine: less than a client waits for an answer.
const START_WITHIN: Duration = Duration::from_secs(25);

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

struct State {
    phase: Phase,
    /// The last report of an engine.
    last: StatusReport,
    /// A request to start the engine again.
    wanted: Option<Wanted>,
    /// Number of attempts to start the engine that have ended.
    attempts: u64,
}

/// A request to start the engine again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Wanted {
    /// Whether receiving must start too if it is stopped.
    pub io: bool,
}

/// Shared by the main thread and the control socket.
pub(crate) struct Engine {
    state: Mutex<State>,
    changed: Condvar,
    stop: Arc<AtomicBool>,
    /// None for a source of files.
    login: Option<Arc<SourceLogin>>,
    /// The port for clients, while it is open. It stays when the engine starts again.
    door: Mutex<Option<OpenDoor>>,
    web: Mutex<Option<OpenWeb>>,
    /// Clients that wait for the engine.
    pub(crate) parked: Parked,
    /// Asks the source for clients.
    pub(crate) asker: Arc<SourceAsker>,
}

impl Engine {
    /// An engine that is being started. `stop` is set when an operator asks to stop while no replica runs; `last` is
    /// shown until there is a report.
    #[must_use]
    pub(crate) fn new(stop: Arc<AtomicBool>, login: Option<Arc<SourceLogin>>, last: StatusReport) -> Arc<Engine> {
        let state = State { phase: Phase::Starting, last, wanted: None, attempts: 0 };
        Arc::new(Engine {
            state: Mutex::new(state),
            changed: Condvar::new(),
            stop,
            login,
            door: Mutex::default(),
            web: Mutex::default(),
            parked: Parked::default(),
            asker: Arc::default(),
        })
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
    pub(crate) fn lags(&self) -> Option<LagHistogram> {
        self.replica().ok().map(|replica| replica.pipeline.lag.histogram())
    }

    /// The login at the source; None for a source of files.
    pub(crate) fn login(&self) -> Option<&Arc<SourceLogin>> {
        self.login.as_ref()
    }

    /// The port for clients is open.
    pub(crate) fn opens(&self, door: Option<OpenDoor>) {
        *self.door() = door;
    }

    /// The port for those who watch is open.
    pub(crate) fn watched_by(&self, web: Option<OpenWeb>) {
        *self.web() = web;
    }

    /// Closes the ports: no new connections, and statements of clients get their time.
    pub(crate) fn close_door(&self) {
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
        let catalog = replica.pipeline.store.visibility().current().catalog;
        let found = catalog.databases().find(|(own, _)| *own == name).map(|(_, collation)| collation);
        found.map_or(SchemaState::Missing, SchemaState::There)
    }

    /// The initial copy runs.
    pub(crate) fn copies(&self, copy: Arc<CopyInProgress>) {
        self.lock().phase = Phase::Copying(copy);
    }

    /// The initial copy has ended, and the start continues.
    pub(crate) fn copied(&self) {
        let mut state = self.lock();
        if let Phase::Copying(copy) = &state.phase {
            state.last = copy.status();
        }
        state.phase = Phase::Starting;
    }

    /// The engine runs.
    pub(crate) fn runs(&self, replica: Arc<Replica>) {
        // An engine that was taken down in this process is known to have shown no more than that.
        if self.lock().attempts == 0 && replica.log_was_cut() {
            self.parked.may_have_lost();
        }
        self.attempt_ended(Phase::Running(replica));
    }

    /// The engine could not be started again.
    pub(crate) fn is_down(&self, failure: Failure) {
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
    pub(crate) fn restarts(&self, last: StatusReport) {
        if let Ok(replica) = self.replica() {
            self.parked.was_shown(replica.pipeline.store.visibility().executed());
        }
        let mut state = self.lock();
        state.last = last;
        state.phase = Phase::Starting;
        drop(state);
        // Nothing is pinned any more, and the store must be let go.
        if let Some(door) = self.door().as_ref() {
            door.give_up_snapshots();
        }
    }

    /// A request to start the engine again, if there is one.
    pub(crate) fn take_wanted(&self) -> Option<Wanted> {
        self.lock().wanted.take()
    }

    /// The running replica.
    ///
    /// # Errors
    /// There is none now.
    pub(crate) fn replica(&self) -> Result<Arc<Replica>, Failure> {
        self.running().map(|(replica, _)| replica)
    }

    /// The running replica, and the number of attempts to start one until then.
    ///
    /// # Errors
    /// There is none now.
    pub(crate) fn running(&self) -> Result<(Arc<Replica>, u64), Failure> {
        let state = self.lock();
        match &state.phase {
            Phase::Running(replica) => Ok((Arc::clone(replica), state.attempts)),
            Phase::Starting => Err(Failure::error("the replica is starting; try again in a moment")),
            Phase::Copying(_) => Err(Failure::error("the initial copy is running; try again when it is done")),
            Phase::Down(failure) => {
                let text = format!("the replica could not be started again: {}", failure.text);
                Err(Failure { text, ..failure.clone() }.with_hint("once that is mended: slipstream start"))
            }
        }
    }

    /// The status in every phase.
    pub(crate) fn status(&self) -> StatusReport {
        let clients = self.door().as_ref().map(OpenDoor::report);
        let http = self.web().as_ref().map(OpenWeb::url);
        StatusReport { clients, http, ..self.engine_status() }
    }

    /// As [`status`](Self::status), without the port for clients.
    pub(crate) fn engine_status(&self) -> StatusReport {
        let state = self.lock();
        match &state.phase {
            Phase::Running(replica) => {
                let replica = Arc::clone(replica);
                drop(state);
                replica.status()
            }
            Phase::Copying(copy) => copy.status(),
            Phase::Starting => without_engine(state.last.clone(), None),
            Phase::Down(failure) => without_engine(state.last.clone(), Some(failure)),
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
    pub(crate) fn stop(&self) {
        self.close_door();
        match &self.lock().phase {
            Phase::Running(replica) => replica.stop(),
            Phase::Copying(copy) => copy.stop(),
            Phase::Starting | Phase::Down(_) => self.stop.store(true, SeqCst),
        }
    }

    /// Reads certificates and option files again; returns what became of the latter. A receiver whose login is refused tries another
    /// password at once.
    ///
    /// # Errors
    /// The files cannot be read; the options stay as they were.
    pub(crate) fn reload(&self) -> Result<&'static str, Failure> {
        if let Some(door) = self.door().as_ref() {
            door.reload_tls();
        } else if let Some(web) = self.web().as_ref() {
            web.reload_tls();
        }
        let Some(login) = &self.login else { return Ok("the source is files, and needs no login") };
        let changed = login.reload()?;
        login.look_again();
        Ok(if changed { "the login has changed" } else { "the login is the same as before" })
    }

    /// Stops one thread.
    ///
    /// # Errors
    /// No engine runs, or the thread does not end in time.
    pub(crate) fn stop_thread(&self, thread: ReplicaThread) -> Result<(), Failure> {
        let replica = self.replica()?;
        match thread {
            ReplicaThread::Io => replica.stop_io(),
            ReplicaThread::Sql => replica.pause(),
        }
    }

    /// Starts one thread, or both, and with them the engine if need be.
    ///
    /// # Errors
    /// Why it does not run.
    pub(crate) fn start_threads(&self, thread: Option<ReplicaThread>) -> Result<(), Failure> {
        let (io, sql) = (thread != Some(ReplicaThread::Sql), thread != Some(ReplicaThread::Io));
        let before = self.lock().attempts;
        if self.begin(io, sql)? == Begun::Running {
            return Ok(());
        }
        self.lock().wanted = Some(Wanted { io });
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
    fn begin(&self, io: bool, sql: bool) -> Result<Begun, Failure> {
        if matches!(self.lock().phase, Phase::Down(_)) {
            return Ok(Begun::NeedsNewEngine);
        }
        let replica = self.replica()?;
        // Replay first: a new engine starts receiving too.
        if sql && replica.start_sql() == Begun::NeedsNewEngine {
            return Ok(Begun::NeedsNewEngine);
        }
        if io { replica.start_io() } else { Ok(Begun::Running) }
    }
}

/// A report of an engine that is not there now.
fn without_engine(last: StatusReport, failure: Option<&Failure>) -> StatusReport {
    let mut report = StatusReport { at: utc_text(now_us()), running: true, pid: Some(std::process::id()), ..last };
    report.source.state = ConnectionState::Stopped;
    report.lag.current_us = None;
    match failure {
        Some(failure) => {
            report.replay.state = ReplayState::Failed;
            "the engine could not be started again".clone_into(&mut report.replay.detail);
            report.last_sql_error = Some(error_report(failure));
            report.last_error.clone_from(&report.last_sql_error);
        }
        None if report.replay.state != ReplayState::Copying => {
            report.replay.state = ReplayState::Stopped;
            "starting".clone_into(&mut report.replay.detail);
        }
        None => {}
    }
    report
}
