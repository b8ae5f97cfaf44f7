//! The port for clients in a replica's process: opened before the engine starts, closed before it stops.
//!
//! In: settings, the accounts, the engine. Out: an open port, its part of the status report. Never here: sessions
//! (crate `door`), accounts (crate `accounts`).

use std::collections::HashMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, SystemTime};

use accounts::{Accounts, ServerTls, TlsError, TlsFiles};
use door::{Door, DoorConfig, Facts, Gtids, Note, OrderDone, ReplicaStatus, SchemaState};
use observe::{ClientsReport, utc_text};
use replica::log::{self, Code};
use replica::{Failure, Folder};
use sql::{ReplicaOrder, SqlError};
use web::WebConfig;

use crate::control::ReplicaThread;
use crate::engine::Engine;
use crate::engine_gtids::{EngineGtids, not_now};
use crate::replica_status::ShownOptions;
use crate::requests;

/// How long a transaction or a cursor of a client may keep its snapshot, unless `--snapshot-age` is given.
const SNAPSHOT_AGE: Duration = Duration::from_secs(3600);

/// Options of the port for clients.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DoorSettings {
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
    /// Its key.
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
    /// Version shown.
    pub server_version: String,
    /// Time for statements at a stop.
    pub drain: Duration,
    /// How long a transaction or a cursor may keep its snapshot.
    pub snapshot_age: Duration,
    /// How long a statement may work; zero: no limit.
    pub statement_cpu_time: Duration,
    /// Whether rows are shown before all that an earlier run showed is visible again.
    pub serve_at_once: bool,
    /// Address for those who watch over HTTP.
    pub http: Option<SocketAddr>,
    /// Names of this machine that they use besides addresses.
    pub http_names: Vec<String>,
    /// Address at which ProxySQL gets visible GTIDs.
    pub gtid_port: Option<SocketAddr>,
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
            drain: Duration::ZERO,
            snapshot_age: SNAPSHOT_AGE,
            statement_cpu_time: Duration::ZERO,
            serve_at_once: false,
            http: None,
            http_names: Vec::new(),
            gtid_port: None,
        }
    }
}

impl DoorSettings {
    /// Checks the options together.
    ///
    /// # Errors
    /// Code 2 for a certificate without its key, or the reverse.
    pub(crate) fn check(&self) -> Result<(), Failure> {
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
        let address = self.http?;
        let names = self.http_names.iter().cloned().chain([hostname()]).filter(|name| !name.is_empty()).collect();
        Some(WebConfig { address, names })
    }

    /// The certificate of all ports that need one; None if none does.
    ///
    /// # Errors
    /// It cannot be read, made or used.
    pub(crate) fn tls(&self, folder: &Folder) -> Result<Option<Arc<ServerTls>>, Failure> {
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

    fn config(&self, folder: &Folder, server_id: u32) -> DoorConfig {
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
            snapshot_age: self.snapshot_age,
            statement_cpu_time: self.statement_cpu_time,
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

/// The open port.
pub(crate) struct OpenDoor {
    door: Door,
    tls: Arc<ServerTls>,
    socket: Option<PathBuf>,
    drain: Duration,
}

impl OpenDoor {
    /// Opens the port, if there is to be one.
    ///
    /// # Errors
    /// The port or the socket is taken.
    pub(crate) fn open(
        settings: &DoorSettings,
        folder: &Folder,
        server_id: Option<u32>,
        accounts: Arc<Accounts>,
        tls: Option<Arc<ServerTls>>,
        engine: &Arc<Engine>,
        shown: ShownOptions,
    ) -> Result<Option<OpenDoor>, Failure> {
        let Some(tls) = tls.filter(|_| settings.is_open()) else { return Ok(None) };
        let facts = Arc::new(EngineFacts { engine: EngineGtids(Arc::downgrade(engine)), shown });
        let config = settings.config(folder, server_id.unwrap_or(folder.default_server_id()));
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
        format!("clients are listened for on {}", places.join(" and "))
    }

    /// Its part of the status report.
    pub(crate) fn report(&self) -> ClientsReport {
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
        }
    }

    /// Lets sessions give up the snapshots that they hold.
    pub(crate) fn give_up_snapshots(&self) {
        self.door.give_up_snapshots();
    }

    /// Reads the certificates again; returns what became of it.
    pub(crate) fn reload_tls(&self) {
        let result = self.tls.reload(SystemTime::now());
        note_reload(result.map_err(|error| error.to_string()));
    }

    /// Ends sessions, and gives statements their time.
    pub(crate) fn close(self) {
        self.door.stop(self.drain);
    }
}

pub(crate) fn note_reload(result: Result<(), String>) {
    match result {
        Ok(()) => log::write(Code::TlsRead, "Clients", "certificates read again"),
        Err(why) => {
            let text = format!("certificates could not be read again, and stay as they were: {why}");
            log::write(Code::TlsNotRead, "Clients", &text);
        }
    }
}

fn finish(done: &Mutex<Option<OrderDone>>, result: Result<bool, SqlError>) {
    if let Some(done) = done.lock().unwrap_or_else(PoisonError::into_inner).take() {
        done(result);
    }
}

/// The thread that is meant; None for both.
fn thread_of(order: ReplicaOrder) -> Option<ReplicaThread> {
    match (order.io, order.sql) {
        (true, false) => Some(ReplicaThread::Io),
        (false, true) => Some(ReplicaThread::Sql),
        _ => None,
    }
}

/// Starts or stops; true if all was so before.
fn carried_out(engine: &Engine, order: ReplicaOrder) -> Result<bool, Failure> {
    let report = engine.engine_status();
    let io = report.source.state.as_mysql() != "No";
    let sql = report.replay.state.as_mysql() == "Yes";
    let already = (!order.io || io == order.start) && (!order.sql || sql == order.start);
    if order.start {
        // One that waits for its next try does so at once.
        engine.start_threads(thread_of(order))?;
    } else {
        for (wanted, runs, thread) in [(order.io, io, ReplicaThread::Io), (order.sql, sql, ReplicaThread::Sql)] {
            if wanted && runs {
                engine.stop_thread(thread)?;
            }
        }
    }
    Ok(already)
}

/// What the port asks of the engine.
struct EngineFacts {
    engine: EngineGtids,
    shown: ShownOptions,
}

impl Facts for EngineFacts {
    fn schema(&self, name: &str) -> SchemaState {
        let not_now = || SchemaState::Unknown("the replica is stopping".to_owned());
        self.engine.0.upgrade().map_or_else(not_now, |engine| engine.schema(name))
    }

    fn gtids(&self) -> &dyn Gtids {
        &self.engine
    }

    fn replica_status(&self) -> ReplicaStatus {
        let report = self.engine.0.upgrade().map(|engine| engine.engine_status()).unwrap_or_default();
        self.shown.status(&report)
    }

    fn pin(&self) -> Result<Arc<store::Snapshot>, sql::SqlError> {
        self.engine.pin()
    }

    fn carry_out(&self, order: ReplicaOrder, by: &str, done: OrderDone) {
        let Some(engine) = self.engine.0.upgrade() else { return done(Err(not_now("the replica is stopping"))) };
        let (verb, what) = (if order.start { "start" } else { "stop" }, requests::named(thread_of(order)));
        log::write(Code::OperatorCommand, "Clients", &format!("{by} asked to {verb} {what}"));
        // Kept here too: a thread that cannot be started drops what it was given.
        let done = Arc::new(Mutex::new(Some(done)));
        let of_thread = Arc::clone(&done);
        // Not joined: it ends within the time that each of these has.
        let run = move || {
            let result = carried_out(&engine, order).map_err(|failure| not_now(&failure.text));
            drop(engine);
            finish(&of_thread, result);
        };
        if std::thread::Builder::new().name("order".into()).spawn(run).is_err() {
            finish(&done, Err(not_now("no thread can be started for it")));
        }
    }

    fn note(&self, note: Note) {
        match note {
            Note::LoginsDelayed { who } => {
                let text = format!("10 wrong passwords in a row from {who}: its logins to that account are delayed");
                log::write(Code::LoginsDelayed, "Clients", &text);
            }
            Note::NoDescriptors => {
                let text = "no more file descriptors (ulimit -n): the oldest clients that are not logged in make room";
                log::write(Code::NoDescriptors, "Clients", text);
            }
            Note::TlsReloaded => note_reload(Ok(())),
            Note::TlsNotReloaded(why) => note_reload(Err(why)),
        }
    }
}
