//! The port as a whole: bound, running, stopped.

use std::io;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed, Ordering::SeqCst};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant, SystemTime};

use accounts::{Accounts, LoginGuard, ServerTls};
use catalog::TableId;
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use rustls::crypto::SecureRandom;
use serve::{GrowingLog, ListedFile};
use sql::{Command, OwnValues, Purse, SqlError};
use store::Snapshot;
use tier::Forward;
use values::Zones;
use wire::server::NONCE_LEN;

use crate::census::{Census, Question};
use crate::config::{DoorConfig, Facts, Note};
use crate::event_loop::{Accepting, EventLoop, Inbox, Kind, Loops, UNAUTHENTICATED_MAX};
use crate::gate::Gate;
use crate::helper::{Helper, Job, Lister, Listing};
use crate::listen::{Listeners, SocketFile};
use crate::source::{Forwarded, Sources};
use crate::tally::Statements;
use session::ReplicaStatus;
use session::{Gtids, Waker};
use session::{ReadLock, SchemaState, Statistics, World};

/// Loops for sessions, at most: each serves some 100,000 short statements a second, and replay needs the other cores.
const LOOPS_MAX: usize = 4;
/// Descriptors that the process needs besides those of connections.
const OTHER_DESCRIPTORS: u64 = 2_048;
/// Stack of a loop's thread in bytes: the parser's depth is bounded for it.
const STACK_BYTES: usize = 4 << 20;

/// Why the port cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum DoorError {
    /// An address or a path cannot be listened on.
    #[error("cannot listen on {what}: {source}")]
    Bind {
        /// The address or path.
        what: String,
        source: io::Error,
    },
    /// A thread or one of its descriptors cannot be had.
    #[error("the port's threads: {0}")]
    Threads(io::Error),
}

/// What the port shows of itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DoorStatus {
    /// Address of the TCP listener.
    pub address: Option<SocketAddr>,
    /// Connections that are logged in.
    pub sessions: usize,
    /// Connections that are not logged in yet.
    pub unauthenticated: usize,
    /// Connections accepted since the start.
    pub accepted: u64,
    /// Statements received since the start.
    pub questions: u64,
    /// Bytes that clients hold, as far as they are counted.
    pub clients_memory: u64,
    /// When the certificate ends.
    pub certificate_expires: SystemTime,
    /// What became of statements.
    pub statements: Statements,
    /// What became of those of accounts that forward; None if nothing is forwarded.
    pub forwarded: Option<Forwarded>,
}

pub(crate) struct Server {
    pub(crate) config: DoorConfig,
    pub(crate) accounts: Arc<Accounts>,
    pub(crate) guard: Arc<LoginGuard>,
    pub(crate) tls: Arc<ServerTls>,
    pub(crate) facts: Arc<dyn Facts>,
    pub(crate) gate: Gate,
    /// Who needs no password over the socket.
    pub(crate) socket_admin: Option<u32>,
    pub(crate) sources: Arc<Sources>,
    helper: Helper,
    lister: Lister,
    random: &'static dyn SecureRandom,
    address: Option<SocketAddr>,
    started: Instant,
    /// How often all snapshots were given up.
    pub(crate) given_up: AtomicU64,
    stopping: AtomicBool,
    stop_by: Mutex<Option<Instant>>,
    /// How all loops are reached.
    inboxes: OnceLock<Vec<Arc<Inbox>>>,
    /// Held while a connection moves, while all loops are asked, and while the server begins to stop.
    moves: Mutex<()>,
}

impl Server {
    /// TCP port that is listened on; 0: none.
    fn port(&self) -> u16 {
        self.address.map_or(0, |address| address.port())
    }

    /// Random bytes of a greeting.
    pub(crate) fn nonce(&self) -> Option<[u8; NONCE_LEN]> {
        let mut nonce = [0; NONCE_LEN];
        self.random.fill(&mut nonce).ok()?;
        Some(nonce)
    }

    /// Version of the greeting: who forwards is taken for the source.
    pub(crate) fn greeting_version(&self) -> String {
        let of_source = || self.facts.source_version().filter(|version| !version.is_empty());
        let forwards = self.config.forward != Forward::Off;
        forwards.then(of_source).flatten().unwrap_or_else(|| self.config.server_version.clone())
    }

    pub(crate) fn submit(&self, job: Job) -> bool {
        self.helper.submit(job)
    }

    /// Makes a listing beside the loops; false if too many wait.
    pub(crate) fn list(&self, listing: Listing) -> bool {
        self.lister.submit(listing)
    }

    pub(crate) fn ask(&self, question: Question, memory: Purse, waker: Waker) -> Arc<Census> {
        let inboxes = self.inboxes.get().map(Vec::as_slice).unwrap_or_default();
        let census = Census::new(question, inboxes.len(), Some(memory), waker);
        let _moves = self.moves();
        inboxes.iter().for_each(|inbox| inbox.ask(Arc::clone(&census)));
        census
    }

    /// While this is held, no connection moves from one loop to another.
    pub(crate) fn moves(&self) -> MutexGuard<'_, ()> {
        self.moves.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn is_stopping(&self) -> bool {
        self.stopping.load(SeqCst)
    }

    pub(crate) fn drain_is_over(&self) -> bool {
        let by = *self.stop_by.lock().unwrap_or_else(PoisonError::into_inner);
        by.is_some_and(|by| by <= Instant::now())
    }
}

impl World for Server {
    fn has_long_rows(&self, table: TableId) -> bool {
        self.gate.has_long_rows(table)
    }

    fn note_long_rows(&self, table: TableId) {
        self.gate.note_long_rows(table);
    }

    fn connection_memory_limit(&self) -> u64 {
        self.config.connection_memory_limit
    }

    fn statement_cpu_time(&self) -> Option<Duration> {
        Some(self.config.statement_cpu_time).filter(|limit| !limit.is_zero())
    }

    fn own_values(&self) -> &dyn OwnValues {
        self
    }

    fn schema(&self, name: &str) -> SchemaState {
        self.facts.schema(name)
    }

    fn replica_status(&self) -> ReplicaStatus {
        self.facts.replica_status()
    }

    fn gtids(&self) -> &dyn Gtids {
        self.facts.gtids()
    }

    fn log(&self) -> Option<&Arc<GrowingLog>> {
        self.facts.log()
    }

    fn pin(&self) -> Result<Arc<Snapshot>, SqlError> {
        self.facts.pin()
    }

    fn relay_log(&self) -> Result<Vec<ListedFile>, SqlError> {
        self.facts.relay_log()
    }

    fn take_read_lock(&self) -> Result<ReadLock, SqlError> {
        self.facts.take_read_lock()
    }

    fn reload_tls(&self) -> Result<(), String> {
        let result = self.tls.reload(SystemTime::now()).map_err(|error| error.to_string());
        self.facts.note(match &result {
            Ok(()) => Note::TlsReloaded,
            Err(why) => Note::TlsNotReloaded(why.clone()),
        });
        result
    }

    fn status_values(&self) -> Vec<(&'static str, String)> {
        let Statistics { uptime_s, threads, questions } = self.statistics();
        let readable = self.facts.pin().is_ok();
        let mut values = vec![
            ("Bytes_received", self.gate.received.load(Relaxed).to_string()),
            ("Bytes_sent", self.gate.sent.load(Relaxed).to_string()),
            ("Connections", self.gate.accepted.load(Relaxed).to_string()),
            ("Current_tls_version", "TLSv1.2,TLSv1.3".to_owned()),
            ("Max_used_connections", self.gate.most_sessions().to_string()),
            ("Queries", questions.to_string()),
            ("Questions", questions.to_string()),
            ("Slipstream_clients_memory", self.gate.memory().held().to_string()),
            ("Slipstream_clients_memory_limit", self.gate.memory().limit().to_string()),
            ("Slipstream_readable", if readable { "ON" } else { "OFF" }.to_owned()),
            ("Threads_connected", threads.to_string()),
            ("Threads_running", self.gate.running.load(Relaxed).max(1).to_string()),
            ("Uptime", uptime_s.to_string()),
            ("Uptime_since_flush_status", uptime_s.to_string()),
        ];
        values.extend(self.gate.tally.commands());
        values.extend(self.sources.status_values());
        values.extend(self.facts.status_values());
        values
    }

    fn statistics(&self) -> Statistics {
        Statistics {
            uptime_s: self.started.elapsed().as_secs(),
            threads: self.gate.sessions() as u64,
            questions: self.gate.questions.load(Relaxed),
        }
    }

    fn note_command(&self, command: Command) {
        self.gate.tally.note_command(command);
    }

    fn take_statement(&self) -> bool {
        self.gate.take_statement()
    }

    fn give_statements(&self, count: usize) {
        self.gate.give_statements(count);
    }
}

impl OwnValues for Server {
    fn own_value(&self, name: &str) -> Option<String> {
        let switch = |on: bool| u8::from(on).to_string();
        Some(match name {
            "version" => self.config.server_version.clone(),
            "version_comment" => "Slipstream".to_owned(),
            "port" => self.port().to_string(),
            "report_port" => {
                let given = self.config.set.get(name).filter(|port| *port != "0");
                given.cloned().unwrap_or_else(|| self.port().to_string())
            }
            "bind_address" => self.config.bind_address.to_string(),
            "socket" => self.config.socket.as_ref().map_or_else(String::new, |path| path.display().to_string()),
            "max_connections" => self.config.max_connections.to_string(),
            "max_allowed_packet" => self.config.max_allowed_packet.to_string(),
            "connection_memory_limit" => self.config.connection_memory_limit.to_string(),
            "require_secure_transport" => switch(self.config.require_secure_transport),
            "connect_timeout" => self.config.connect_timeout.as_secs().to_string(),
            "read_only" | "super_read_only" => switch(true),
            "log_bin" | "log_replica_updates" | "log_slave_updates" => switch(self.facts.log().is_some()),
            // Without it replicas are not semi-synchronous.
            "rpl_semi_sync_source_enabled" | "rpl_semi_sync_master_enabled" => {
                return self.facts.log().filter(|log| log.asks_for_acks()).map(|_| switch(true));
            }
            "local_infile" => switch(false),
            "gtid_mode" | "enforce_gtid_consistency" => "ON".to_owned(),
            _ => {
                let set = || self.config.set.get(name).cloned();
                let known = set().or_else(|| self.facts.source_value(name));
                return known.or_else(|| self.config.own_values.get(name).cloned());
            }
        })
    }

    fn zones(&self) -> Option<Arc<Zones>> {
        self.facts.source_zones()
    }
}

/// The port for clients. Dropped without [`stop`](Door::stop), it stops at once.
pub struct Door {
    server: Arc<Server>,
    inboxes: Vec<Arc<Inbox>>,
    threads: Vec<JoinHandle<()>>,
    _file: Option<SocketFile>,
}

impl Door {
    /// Binds port and socket, and begins to serve.
    ///
    /// # Errors
    /// A port or path that is taken, or no threads.
    pub fn open(
        config: DoorConfig,
        accounts: Arc<Accounts>,
        tls: Arc<ServerTls>,
        facts: Arc<dyn Facts>,
    ) -> Result<Door, DoorError> {
        let listeners = Listeners::bind(&config)?;
        raise_descriptors(config.max_connections);
        let (helper, helper_thread) = Helper::start(Arc::clone(&facts)).map_err(DoorError::Threads)?;
        let socket_admin = config.socket_admin.then(|| rustix::process::geteuid().as_raw());
        let clients_memory = config.clients_memory;
        let sources = Sources::start(config.forward, config.forward_connections, &facts).map_err(DoorError::Threads)?;
        let server = Arc::new(Server {
            config,
            accounts,
            guard: Arc::new(LoginGuard::default()),
            tls,
            facts,
            gate: Gate::new(clients_memory),
            socket_admin,
            sources,
            helper,
            lister: Lister::start().map_err(DoorError::Threads)?,
            random: rustls::crypto::ring::default_provider().secure_random,
            address: listeners.address,
            started: Instant::now(),
            given_up: AtomicU64::new(0),
            stopping: AtomicBool::new(false),
            stop_by: Mutex::new(None),
            inboxes: OnceLock::new(),
            moves: Mutex::new(()),
        });
        // The helper ends once no loop is left to give it work.
        drop(helper_thread);
        let mut door = Door { server, inboxes: Vec::new(), threads: Vec::new(), _file: listeners.file };
        door.start_loops(Accepting { tcp: listeners.tcp, unix: listeners.unix }).map_err(DoorError::Threads)?;
        Ok(door)
    }

    fn start_loops(&mut self, accepting: Accepting) -> io::Result<()> {
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        let count = (cores / 4).clamp(1, LOOPS_MAX);
        let sessions: Vec<_> = (0..count).map(|_| Inbox::new().map(Arc::new)).collect::<io::Result<_>>()?;
        let loops = Loops { logins: Arc::new(Inbox::new()?), sessions, long: Arc::new(Inbox::new()?) };
        let own = [("login".to_owned(), Kind::Logins, &loops.logins), ("long".to_owned(), Kind::Long, &loops.long)];
        let numbered = loops.sessions.iter().enumerate();
        let numbered = numbered.map(|(number, inbox)| (number.to_string(), Kind::Sessions, inbox));
        let all: Vec<(String, Kind, &Arc<Inbox>)> = own.into_iter().chain(numbered).collect();
        self.inboxes = all.iter().map(|(_, _, inbox)| Arc::clone(inbox)).collect();
        let _ = self.server.inboxes.set(self.inboxes.clone());
        let yields = self.server.facts.yields_to_replay();
        let mut accepting = Some(accepting);
        for (name, kind, inbox) in all {
            let accepting = accepting.take_if(|_| kind == Kind::Logins).unwrap_or_default();
            let server = Arc::clone(&self.server);
            let event_loop = EventLoop::new(server, kind, Arc::clone(inbox), loops.clone(), accepting)?;
            let thread = std::thread::Builder::new().name(format!("door-{name}")).stack_size(STACK_BYTES);
            self.threads.push(thread.spawn(move || {
                match kind {
                    Kind::Logins | Kind::Long => base::priority::to_background(),
                    Kind::Sessions if yields => base::priority::to_readers(),
                    Kind::Sessions => {}
                }
                event_loop.run();
            })?);
        }
        Ok(())
    }

    /// What it shows of itself.
    #[must_use]
    pub fn status(&self) -> DoorStatus {
        let gate = &self.server.gate;
        DoorStatus {
            address: self.server.address,
            sessions: gate.sessions(),
            unauthenticated: gate.unauthenticated.load(Relaxed).min(UNAUTHENTICATED_MAX),
            accepted: gate.accepted.load(Relaxed),
            questions: gate.questions.load(Relaxed),
            clients_memory: gate.memory().held(),
            certificate_expires: self.server.tls.expires(),
            statements: gate.tally.report(),
            forwarded: self.server.sources.report(),
        }
    }

    /// Lets sessions give up the snapshots that they hold; they do so soon, not at once. Whoever calls this must have
    /// seen to it that no more are pinned.
    pub fn give_up_snapshots(&self) {
        self.server.given_up.fetch_add(1, SeqCst);
        self.inboxes.iter().for_each(|inbox| inbox.wake());
    }

    /// Takes no more connections, closes idle sessions, and gives statements this long to end.
    pub fn stop(mut self, drain: Duration) {
        self.end(drain);
    }

    fn end(&mut self, drain: Duration) {
        *self.server.stop_by.lock().unwrap_or_else(PoisonError::into_inner) = Some(Instant::now() + drain);
        let moves = self.server.moves();
        self.server.stopping.store(true, SeqCst);
        drop(moves);
        self.inboxes.iter().for_each(|inbox| inbox.wake());
        for thread in self.threads.drain(..) {
            // A loop that panicked has ended too.
            let _ = thread.join();
        }
    }
}

impl Drop for Door {
    fn drop(&mut self) {
        self.end(Duration::ZERO);
    }
}

/// Lets the process have as many descriptors as its connections need, as far as the system allows.
fn raise_descriptors(connections: usize) {
    let wanted = connections as u64 + UNAUTHENTICATED_MAX as u64 + OTHER_DESCRIPTORS;
    let Rlimit { current, maximum } = getrlimit(Resource::Nofile);
    if current.is_some_and(|current| current < wanted) {
        let raised = Rlimit { current: Some(maximum.map_or(wanted, |maximum| maximum.min(wanted))), maximum };
        // Where that is refused, accepting connections makes room instead.
        let _ = setrlimit(Resource::Nofile, raised);
    }
}
