//! The port for clients in a replica's process: opened before the engine starts, closed before it stops.
//!
//! In: settings, the accounts, the engine. Out: an open port, its part of the status report. Never here: sessions
//! (crate `door`), accounts (crate `accounts`).

use std::cmp::Reverse;
use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use accounts::{Accounts, ServerTls, TlsError, TlsFiles};
use door::{
    DURATION_BOUNDS_US, DigestCount, Door, DoorConfig, Facts, Followed, Forward, Forwarded, Gtids, Note, OrderDone,
    Ordered, ReadLock, ReplicaStatus, SchemaState, Splits, Statements,
};
use observe::{
    ClientsReport, DigestReport, DurationReport, ForwardedReport, RefusedReport, SplitsReport, StatementsReport,
    utc_text,
};
use relay_log::LogPart;
use replica::log::{self, Code};
use replica::{Failure, Folder, MemoryPlan, ServeLog, Zones};
use serve::{GrowingLog, ListedFile};
use sql::{ReplicaOrder, SqlError};
use web::WebConfig;

use crate::engine::Engine;
use crate::gtids::{EngineGtids, not_now};
use crate::orders;

/// How long a transaction or a cursor of a client may keep its snapshot, unless `--snapshot-age` is given.
const SNAPSHOT_AGE: Duration = Duration::from_secs(3600);

/// Options of the port for clients.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DoorSettings {
    /// TCP port; 0 is any free one.
    pub port: u16,
    /// Whether the port was given.
    pub port_given: bool,
    /// Address to listen on.
    pub bind_address: IpAddr,
    /// Whether only the socket is listened on.
    pub skip_networking: bool,
    /// Path of the unix socket.
    pub socket: Option<PathBuf>,
    /// Whether the process's user is `admin` over the socket.
    pub socket_admin: bool,
    /// The certificate shown to clients.
    pub ssl_cert: Option<PathBuf>,
    pub ssl_key: Option<PathBuf>,
    /// Authorities of clients' certificates.
    pub ssl_ca: Option<PathBuf>,
    /// Whether TCP needs TLS; None: where the address is not loopback.
    pub require_secure_transport: Option<bool>,
    /// Sessions, at most.
    pub max_connections: usize,
    /// Largest packet in bytes.
    pub max_allowed_packet: usize,
    /// Time for a login.
    pub connect_timeout: Duration,
    pub server_version: String,
    /// Which statements go to the source, and over how many connections.
    pub forward: Forward,
    pub forward_connections: usize,
    /// Values of system variables that sessions begin with, by name in lower case, instead of the source's.
    pub set: Vec<(String, String)>,
    /// Time for statements at a stop.
    pub drain: Duration,
    /// How long a transaction or a cursor may keep its snapshot.
    pub snapshot_age: Duration,
    /// How long a statement may work; zero: no limit.
    pub statement_cpu_time: Duration,
    /// Bytes that a statement may hold at once; see [`DoorConfig::connection_memory_limit`].
    pub connection_memory_limit: u64,
    /// Whether rows are shown before all that an earlier run showed is visible again.
    pub serve_at_once: bool,
    /// For those who watch over HTTP.
    pub http: HttpSettings,
    /// Address at which ProxySQL gets visible GTIDs.
    pub gtid_port: Option<SocketAddr>,
}

/// Options of the port for those who watch over HTTP.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HttpSettings {
    pub address: Option<SocketAddr>,
    /// Names of this machine that they use, its addresses apart.
    pub names: Vec<String>,
    /// File of a token that lets them in.
    pub token_file: Option<PathBuf>,
}

impl Default for DoorSettings {
    /// Nothing: the options' own defaults fill it.
    fn default() -> DoorSettings {
        DoorSettings {
            port: 0,
            port_given: false,
            bind_address: IpAddr::V4(Ipv4Addr::LOCALHOST),
            skip_networking: false,
            socket: None,
            socket_admin: true,
            ssl_cert: None,
            ssl_key: None,
            ssl_ca: None,
            require_secure_transport: None,
            max_connections: 0,
            max_allowed_packet: 0,
            connect_timeout: Duration::ZERO,
            server_version: String::new(),
            forward: Forward::Off,
            forward_connections: 0,
            set: Vec::new(),
            drain: Duration::ZERO,
            snapshot_age: SNAPSHOT_AGE,
            statement_cpu_time: Duration::ZERO,
            connection_memory_limit: u64::MAX,
            serve_at_once: false,
            http: HttpSettings::default(),
            gtid_port: None,
        }
    }
}

impl DoorSettings {
    /// Checks the options together.
    ///
    /// # Errors
    /// Code 2 for a certificate without its key, or the reverse.
    pub fn check(&self) -> Result<(), Failure> {
        if self.ssl_cert.is_some() != self.ssl_key.is_some() {
            return Err(Failure::usage("ssl-cert and ssl-key must be given together"));
        }
        Ok(())
    }

    /// Whether anything is listened on.
    fn is_open(&self) -> bool {
        !self.skip_networking || self.socket.is_some()
    }

    /// Where those who watch are listened for; None if nowhere.
    pub(crate) fn web(&self) -> Option<WebConfig> {
        let address = self.http.address?;
        let names = self.http.names.iter().cloned().chain([hostname()]).filter(|name| !name.is_empty()).collect();
        Some(WebConfig { address, names })
    }

    /// The certificate of all ports that need one; None if none does.
    ///
    /// # Errors
    /// It cannot be read, made or used.
    pub fn tls(&self, folder: &Folder) -> Result<Option<Arc<ServerTls>>, Failure> {
        if !self.is_open() && !self.web().is_some_and(|web| web.is_guarded()) {
            return Ok(None);
        }
        let files = TlsFiles {
            folder: folder.path().to_owned(),
            certificate: self.ssl_cert.clone(),
            key: self.ssl_key.clone(),
            authorities: self.ssl_ca.clone(),
        };
        let tls = ServerTls::open(files, SystemTime::now());
        Ok(Some(Arc::new(tls.map_err(|error| match error {
            TlsError::Io { path, source } => Failure::io(format!("TLS for clients: {}", path.display()), &source),
            error => Failure::error(format!("TLS for clients: {error}")),
        })?)))
    }

    fn config(&self, folder: &Folder, server_id: u32, clients_memory: u64) -> DoorConfig {
        let secure = self.require_secure_transport.unwrap_or(!self.bind_address.is_loopback());
        let own = [
            ("hostname", hostname()),
            ("datadir", folder.path().display().to_string()),
            ("server_id", server_id.to_string()),
            ("server_uuid", folder.server_uuid().to_string()),
            ("system_time_zone", system_time_zone()),
        ];
        DoorConfig {
            port: (!self.skip_networking).then_some(self.port),
            bind_address: self.bind_address,
            socket: self.socket.clone(),
            require_secure_transport: secure,
            socket_admin: self.socket_admin,
            max_connections: self.max_connections,
            max_allowed_packet: self.max_allowed_packet,
            connect_timeout: self.connect_timeout,
            server_version: self.server_version.clone(),
            forward: self.forward,
            forward_connections: self.forward_connections,
            snapshot_age: self.snapshot_age,
            statement_cpu_time: self.statement_cpu_time,
            connection_memory_limit: self.connection_memory_limit,
            clients_memory,
            set: self.set.iter().cloned().collect(),
            own_values: own.into_iter().map(|(name, value)| (name.to_owned(), value)).collect::<HashMap<_, _>>(),
        }
    }
}

/// The machine's name, as the kernel has it.
fn hostname() -> String {
    std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap_or_default().trim_end().to_owned()
}

/// The abbreviation of this process's time zone now, as MySQL shows it; empty if the system does not tell.
fn system_time_zone() -> String {
    // As libc takes it.
    let is_utc = |name: Option<std::ffi::OsString>| match name {
        Some(name) => name.is_empty(),
        None => !std::path::Path::new("/etc/localtime").exists(),
    };
    if is_utc(std::env::var_os("TZ")) {
        return "UTC".to_owned();
    }
    let zone = jiff::tz::TimeZone::try_system();
    zone.map(|zone| zone.to_offset_info(jiff::Timestamp::now()).abbreviation().to_owned()).unwrap_or_default()
}

pub struct OpenDoor {
    door: Door,
    tls: Arc<ServerTls>,
    socket: Option<PathBuf>,
    drain: Duration,
}

impl OpenDoor {
    /// Opens the port, if there is to be one. `memory` divides `--memory`.
    ///
    /// # Errors
    /// The port or the socket is taken.
    pub fn open(
        settings: &DoorSettings,
        folder: &Folder,
        server_id: Option<u32>,
        memory: &MemoryPlan,
        accounts: Arc<Accounts>,
        tls: Option<Arc<ServerTls>>,
        facts: Arc<dyn Facts>,
    ) -> Result<Option<OpenDoor>, Failure> {
        let Some(tls) = tls.filter(|_| settings.is_open()) else { return Ok(None) };
        let server_id = server_id.unwrap_or(folder.default_server_id());
        let config = settings.config(folder, server_id, memory.clients_bytes);
        let door = Door::open(config, accounts, Arc::clone(&tls), facts).map_err(|error| {
            Failure::error(error.to_string())
                .with_hint("--port=N listens on another port, --skip-networking on none; --socket names the socket")
        })?;
        let open = OpenDoor { door, tls, socket: settings.socket.clone(), drain: settings.drain };
        log::write(Code::ClientsListened, "Clients", &open.about());
        Ok(Some(open))
    }

    fn about(&self) -> String {
        let report = self.report();
        let places: Vec<String> = report.address.into_iter().chain(report.socket).collect();
        format!("listening for clients on {}", places.join(" and "))
    }

    /// Its part of the status report.
    pub fn report(&self) -> ClientsReport {
        let status = self.door.status();
        let expires = status.certificate_expires.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        ClientsReport {
            address: status.address.map(|address| address.to_string()),
            socket: self.socket.as_ref().map(|path| path.display().to_string()),
            connections: status.sessions as u64,
            logging_in: status.unauthenticated as u64,
            accepted: status.accepted,
            questions: status.questions,
            certificate_expires: Some(utc_text(u64::try_from(expires.as_micros()).unwrap_or(u64::MAX))),
            statements: statements_report(status.statements),
            forwarded: status.forwarded.map(forwarded_report),
        }
    }

    /// Lets sessions give up the snapshots that they hold.
    pub(crate) fn give_up_snapshots(&self) {
        self.door.give_up_snapshots();
    }

    /// Reads the certificates again; returns what became of it.
    pub fn reload_tls(&self) {
        let result = self.tls.reload(SystemTime::now());
        note_reload(result.map_err(|error| error.to_string()));
    }

    /// Ends sessions, and gives statements their time.
    pub fn close(self) {
        self.door.stop(self.drain);
    }
}

fn forwarded_report(forwarded: Forwarded) -> ForwardedReport {
    let Forwarded {
        commands,
        served_here,
        refused,
        splits: Splits { begun, older, proofs, conflicts },
        connections,
        waiting,
        by_construct,
        by_digest,
        refused_logins,
        idle: _,
    } = forwarded;
    let splits = SplitsReport { begun, older, proofs, conflicts };
    let by_construct = by_construct.into_iter().map(|(construct, count)| RefusedReport { construct, count }).collect();
    let of_digest = |DigestCount { text, count, construct }| DigestReport { text, construct, count };
    let by_digest = by_digest.into_iter().map(of_digest).collect();
    ForwardedReport {
        commands,
        served_here,
        refused,
        splits,
        connections,
        waiting,
        by_construct,
        by_digest,
        refused_logins,
    }
}

fn statements_report(statements: Statements) -> StatementsReport {
    let Statements { failed, refused, too_old, by_duration, duration_us } = statements;
    let mut by_construct: Vec<RefusedReport> =
        refused.into_iter().map(|(construct, count)| RefusedReport { construct, count }).collect();
    by_construct.sort_by_key(|of| Reverse(of.count));
    StatementsReport {
        failed,
        refused: by_construct.iter().map(|of| of.count).sum(),
        refused_by_construct: by_construct,
        snapshots_too_old: too_old,
        duration: DurationReport {
            bounds_us: DURATION_BOUNDS_US.to_vec(),
            counts: by_duration.to_vec(),
            sum_us: duration_us,
        },
    }
}

pub(crate) fn note_reload(result: Result<(), String>) {
    match result {
        Ok(()) => log::write(Code::TlsRead, "Clients", "certificates read again"),
        Err(why) => {
            let text = format!("certificates could not be read again; the old ones stay in use: {why}");
            log::write(Code::TlsNotRead, "Clients", &text);
        }
    }
}

/// Logs what an account asks for, and returns that.
pub fn log_order(by: &str, order: &ReplicaOrder) -> String {
    let asked = format!("{by} asked to {}", orders::about(order));
    log::write(Code::OperatorCommand, "Clients", &asked);
    asked
}

/// Carries out an order on a thread of its own. The log says so if it is refused; `asked` is what it says of the order.
pub fn ordered(done: OrderDone, asked: String, order: impl FnOnce() -> Result<Ordered, SqlError> + Send + 'static) {
    // Kept here too: a thread that cannot be started drops what it was given.
    let done = Arc::new(Mutex::new(Some(done)));
    let of_thread = Arc::clone(&done);
    // Not joined: it ends within the time that each of these has.
    let run = move || {
        let result = order();
        if let Err(error) = &result {
            let text = format!("{asked}; this was refused: {}", error.message);
            log::write(Code::OperatorCommand, "Clients", &observe::one_line(&text));
        }
        finish(&of_thread, result);
    };
    if std::thread::Builder::new().name("order".into()).spawn(run).is_err() {
        finish(&done, Err(not_now("no thread can be started for it")));
    }
}

fn finish(done: &Mutex<Option<OrderDone>>, result: Result<Ordered, SqlError>) {
    if let Some(done) = done.lock().unwrap_or_else(PoisonError::into_inner).take() {
        done(result);
    }
}

/// Status variables of the lag and of its parts, over all transactions since the engine's start, in the order of
/// `Engine::lag_summaries`.
const LAG_VARIABLES: [&str; 15] = [
    "Slipstream_lag_p50_us",
    "Slipstream_lag_p99_us",
    "Slipstream_lag_max_us",
    "Slipstream_lag_transport_p50_us",
    "Slipstream_lag_transport_p99_us",
    "Slipstream_lag_transport_max_us",
    "Slipstream_lag_durable_p50_us",
    "Slipstream_lag_durable_p99_us",
    "Slipstream_lag_durable_max_us",
    "Slipstream_lag_apply_p50_us",
    "Slipstream_lag_apply_p99_us",
    "Slipstream_lag_apply_max_us",
    "Slipstream_lag_publish_p50_us",
    "Slipstream_lag_publish_p99_us",
    "Slipstream_lag_publish_max_us",
];

/// A number that stands for a server's UUID in this process.
fn number_of(server_uuid: &str) -> u64 {
    use std::hash::{DefaultHasher, Hash as _, Hasher as _};
    let mut hasher = DefaultHasher::new();
    server_uuid.hash(&mut hasher);
    hasher.finish()
}

/// What the port asks of a replica's engine.
pub fn engine_facts(engine: &Arc<Engine>) -> Arc<dyn Facts> {
    Arc::new(EngineFacts { engine: EngineGtids(Arc::downgrade(engine)), serve: engine.serve_log().cloned() })
}

/// What the port asks of the engine.
struct EngineFacts {
    engine: EngineGtids,
    serve: Option<Arc<ServeLog>>,
}

impl Facts for EngineFacts {
    fn yields_to_replay(&self) -> bool {
        true
    }

    fn source_value(&self, name: &str) -> Option<String> {
        self.engine.0.upgrade()?.source_settings().global(name)
    }

    fn source_zones(&self) -> Option<Arc<Zones>> {
        self.engine.0.upgrade()?.source_settings().zones.clone()
    }

    fn schema(&self, name: &str) -> SchemaState {
        let not_now = || SchemaState::Unknown("the replica is stopping".to_owned());
        self.engine.0.upgrade().map_or_else(not_now, |engine| engine.schema(name))
    }

    fn followed(&self) -> Result<Followed, SqlError> {
        let engine = self.engine.0.upgrade().ok_or_else(|| not_now("the replica is stopping"))?;
        let files = || not_now("the source is files, to which nothing can be forwarded");
        let login = engine.login().ok_or_else(files)?;
        let of_source = engine.of_source(|uuid, _| (!uuid.is_empty()).then(|| (uuid.to_owned(), number_of(uuid))));
        let (server_uuid, number) = of_source.flatten().ok_or_else(|| not_now("the source was not reached yet"))?;
        Ok(Followed { options: login.for_try(), server_uuid, number })
    }

    fn source_number(&self) -> Option<u64> {
        self.engine.0.upgrade()?.of_source(|uuid, _| (!uuid.is_empty()).then(|| number_of(uuid)))?
    }

    fn account_statements(&self) -> Option<Arc<str>> {
        self.engine.account_statements()
    }

    fn source_version(&self) -> Option<String> {
        self.engine.0.upgrade()?.of_source(|_, version| version.to_owned())
    }

    fn gtids(&self) -> &dyn Gtids {
        &self.engine
    }

    fn replica_status(&self) -> ReplicaStatus {
        self.engine.0.upgrade().map(|engine| engine.shown().status(&engine.engine_status())).unwrap_or_default()
    }

    fn status_values(&self) -> Vec<(&'static str, String)> {
        let lags = self.engine.0.upgrade().and_then(|engine| engine.lag_summaries());
        let names = LAG_VARIABLES.iter().copied();
        names.zip(lags.into_iter().flatten()).map(|(name, lag_us)| (name, lag_us.to_string())).collect()
    }

    fn log(&self) -> Option<&Arc<GrowingLog>> {
        Some(self.serve.as_ref()?.serving()?.log())
    }

    fn pin(&self) -> Result<Arc<store::Snapshot>, sql::SqlError> {
        self.engine.pin()
    }

    fn relay_log(&self) -> Result<Vec<ListedFile>, sql::SqlError> {
        let engine = self.engine.0.upgrade().ok_or_else(|| not_now("the replica is stopping"))?;
        let replica = engine.replica().map_err(|failure| not_now(&failure.text))?;
        let listed = |LogPart { name, path, len, .. }: LogPart| ListedFile { name, path, bytes: len };
        Ok(replica.relay_log_files().into_iter().map(listed).collect())
    }

    fn take_read_lock(&self) -> Result<ReadLock, SqlError> {
        let engine = self.engine.0.upgrade().ok_or_else(|| not_now("the replica is stopping"))?;
        let replica = engine.replica().map_err(|failure| not_now(&failure.text))?;
        let publisher = Arc::clone(&replica.pipeline().publisher);
        publisher.take_read_lock();
        Ok(ReadLock::new(move || publisher.release_read_lock()))
    }

    fn carry_out(&self, order: ReplicaOrder, by: &str, done: OrderDone) {
        let Some(engine) = self.engine.0.upgrade() else { return done(Err(not_now("the replica is stopping"))) };
        let asked = log_order(by, &order);
        ordered(done, asked, move || orders::carry_out(&engine, order));
    }

    fn note(&self, told: Note) {
        note(told);
    }
}

/// Logs something that an operator should know of the port.
pub fn note(note: Note) {
    match note {
        Note::LoginsDelayed { who } => {
            let text = format!("10 wrong passwords in a row from {who}: its logins to that account are delayed");
            log::write(Code::LoginsDelayed, "Clients", &text);
        }
        Note::NoDescriptors => {
            let text = "no more file descriptors (ulimit -n): the oldest clients that are not logged in make room";
            log::write(Code::NoDescriptors, "Clients", text);
        }
        Note::Defect { connection, what } => {
            let text = format!(
                "connection {connection} hit a defect of Slipstream and was ended; others continue. Please report this \
                 and the lines before it: {what}"
            );
            log::write(Code::ClientDefect, "Clients", &text);
        }
        Note::TlsReloaded => note_reload(Ok(())),
        Note::TlsNotReloaded(why) => note_reload(Err(why)),
    }
}
