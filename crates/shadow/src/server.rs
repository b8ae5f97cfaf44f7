//! The listener, and what all sessions share.

use std::fs::DirBuilder;
use std::io::ErrorKind;
use std::net::{SocketAddr, TcpListener};
use std::os::unix::fs::DirBuilderExt as _;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use accounts::{
    AccountName, Accounts, LoginGuard, NewAccount, PasswordPlugin, Reads, Requirement, Rights, ServerTls,
    StoredPassword, TlsFiles,
};
use client::ConnectOptions;
use wire::handshake::capability;

use crate::gate::Gate;
use crate::pair::{Controls, at_replica, at_source};
use crate::report::{Found, Report};
use crate::session;
use crate::{Result, ShadowError};

/// Clients at the same time; more are refused.
const CLIENTS_MAX: usize = 500;
/// Interval between looks for connections and for the end.
const LOOK: Duration = Duration::from_millis(20);

/// What a shadow is started with.
#[derive(Debug, Clone)]
pub struct ShadowConfig {
    pub listen: SocketAddr,
    /// The source, with the account under which clients work there. Clients log in with its name and password.
    pub source: ConnectOptions,
    /// The replica, with an account that may read what clients read.
    pub replica: ConnectOptions,
    /// Folder of the certificate and the hashed password; made if absent.
    pub folder: PathBuf,
    /// File that gets statements and rows of what differs; None keeps none.
    pub keep_rows: Option<PathBuf>,
}

/// A shadow that listens.
#[derive(Debug)]
pub struct Shadow {
    listener: TcpListener,
    shared: Arc<Shared>,
}

/// What all sessions share.
pub(crate) struct Shared {
    pub config: ShadowConfig,
    pub accounts: Arc<Accounts>,
    pub guard: Arc<LoginGuard>,
    pub tls: ServerTls,
    /// Capabilities that both servers and we have.
    pub offered: u32,
    pub version: String,
    pub gate: Gate,
    controls: Mutex<Controls>,
    report: Mutex<Report>,
    next_id: AtomicU32,
    clients: AtomicUsize,
    keeping: Mutex<()>,
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Shared({})", self.config.listen)
    }
}

impl Shared {
    pub(crate) fn report(&self) -> MutexGuard<'_, Report> {
        self.report.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The sessions that say which state a server has.
    pub(crate) fn controls(&self) -> MutexGuard<'_, Controls> {
        self.controls.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts what was found of a statement.
    pub(crate) fn add(&self, found: Found, text: impl FnOnce() -> String) {
        self.report().add(found, text);
    }

    /// Appends to the file of rows, which only its owner may read. What it cannot take is counted: the client's session
    /// has nothing to do with it.
    pub(crate) fn keep(&self, text: &str) {
        let Some(path) = &self.config.keep_rows else { return };
        let _one = self.keeping.lock().unwrap_or_else(PoisonError::into_inner);
        if let Err(error) = append(path, text) {
            let mut report = self.report();
            report.not_kept += 1;
            report.not_kept_because = Some(format!("{}: {error}", path.display()));
        }
    }
}

/// Appends all of a text or nothing.
fn append(path: &Path, text: &str) -> std::io::Result<()> {
    use std::io::Write as _;
    let mut file = base::own_files::append(path, 0o600)?;
    let before = file.metadata()?.len();
    file.write_all(text.as_bytes()).inspect_err(|_| {
        // What is left of it if this fails too is a torn last entry.
        let _ = file.set_len(before);
    })
}

fn own(what: &Path) -> impl Fn(std::io::Error) -> ShadowError + '_ {
    move |source| ShadowError::Own { what: what.display().to_string(), source }
}

/// The account of clients: the source's name and password.
fn accounts(config: &ShadowConfig) -> Result<Arc<Accounts>> {
    let other = |error: &dyn std::fmt::Display| ShadowError::Other(error.to_string());
    // A name of its own: the folder may be a replica's.
    let path = config.folder.join("shadow-account");
    // The password may have changed since.
    match std::fs::remove_file(&path) {
        Err(error) if error.kind() != ErrorKind::NotFound => return Err(own(&path)(error)),
        _ => {}
    }
    let accounts = Accounts::open(&path).map_err(|error| other(&error))?;
    let password = config.source.password.clone().unwrap_or_default();
    let name = AccountName::new(&config.source.user, "%").map_err(ShadowError::Other)?;
    accounts
        .add(NewAccount {
            name: name.clone(),
            rights: Rights { read: true, ..Rights::default() },
            schemas: None,
            requirement: Requirement::None,
            reads: Reads::default(),
            max_connections: None,
            password: StoredPassword::new(PasswordPlugin::CachingSha2, &password).map_err(|error| other(&error))?,
        })
        .map_err(|error| other(&error))?;
    // Clients without TLS get in from the first login on, as at a source that has seen them before.
    accounts.learn_password(&name, &password);
    Ok(accounts)
}

impl Shadow {
    /// Connects to both servers and begins to listen.
    ///
    /// # Errors
    /// A server cannot be reached, the address is taken, the folder cannot be written.
    pub fn start(config: ShadowConfig) -> Result<Shadow> {
        let config = ShadowConfig { source: at_source(&config.source), replica: at_replica(&config.replica), ..config };
        // It gets the key and the account's hash.
        let made = DirBuilder::new().recursive(true).mode(0o700).create(&config.folder);
        made.map_err(own(&config.folder))?;
        let controls = Controls::connect(&config.source, &config.replica)?;
        let files = TlsFiles { folder: config.folder.clone(), certificate: None, key: None, authorities: None };
        let tls = ServerTls::open(files, SystemTime::now()).map_err(|error| ShadowError::Other(error.to_string()))?;
        let address = config.listen.to_string();
        let listening = TcpListener::bind(config.listen).and_then(|listener| {
            listener.set_nonblocking(true)?;
            Ok(listener)
        });
        let listener = listening.map_err(|source| ShadowError::Own { what: address, source })?;
        let report =
            Report { source: config.source.to_string(), replica: config.replica.to_string(), ..Report::default() };
        let shared = Shared {
            accounts: accounts(&config)?,
            guard: Arc::default(),
            tls,
            offered: controls.offered() & capability::OF_SESSIONS,
            version: controls.version(),
            gate: Gate::default(),
            controls: Mutex::new(controls),
            report: Mutex::new(report),
            next_id: AtomicU32::new(1),
            clients: AtomicUsize::new(0),
            keeping: Mutex::new(()),
            config,
        };
        Ok(Shadow { listener, shared: Arc::new(shared) })
    }

    /// Where it listens.
    ///
    /// # Errors
    /// The system cannot tell.
    pub fn address(&self) -> std::io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// What was found so far.
    #[must_use]
    pub fn report(&self) -> Report {
        self.shared.report().clone()
    }

    /// Serves clients until `stop` is raised; `told` gets a line for each session that ends with an error. Sessions end
    /// with their clients.
    ///
    /// # Errors
    /// The listener fails.
    pub fn run(&self, stop: &AtomicBool, told: &Arc<dyn Fn(&str) + Send + Sync>) -> Result<()> {
        while !stop.load(Ordering::Relaxed) {
            match self.listener.accept() {
                Ok((socket, _)) => self.serve(socket, told),
                Err(error) if matches!(error.kind(), ErrorKind::WouldBlock | ErrorKind::Interrupted) => {
                    std::thread::sleep(LOOK);
                }
                // Those of one connection that has gone already.
                Err(error) if error.kind() == ErrorKind::ConnectionAborted => {}
                Err(source) => return Err(ShadowError::Own { what: "accept".into(), source }),
            }
        }
        Ok(())
    }

    fn serve(&self, socket: std::net::TcpStream, told: &Arc<dyn Fn(&str) + Send + Sync>) {
        let (shared, told) = (Arc::clone(&self.shared), Arc::clone(told));
        if shared.clients.fetch_add(1, Ordering::Relaxed) >= CLIENTS_MAX {
            shared.clients.fetch_sub(1, Ordering::Relaxed);
            return;
        }
        let id = shared.next_id.fetch_add(1, Ordering::Relaxed);
        let spawned = std::thread::Builder::new().name(format!("client-{id}")).spawn({
            let shared = Arc::clone(&shared);
            move || {
                // What a panic leaves is this client's alone: its connections close, and locks are not poisoned for
                // others.
                let serve = AssertUnwindSafe(|| {
                    let ready = socket.set_nonblocking(false).map_err(ShadowError::from);
                    ready.and_then(|()| session::run(&shared, socket, id))
                });
                match catch_unwind(serve) {
                    Ok(Ok(())) => {}
                    Ok(Err(error)) => told(&format!("client {id}: {error}")),
                    Err(_) => told(&format!(
                        "client {id}: a defect of Slipstream ended its connection; please report it with the lines before this one"
                    )),
                }
                shared.clients.fetch_sub(1, Ordering::Relaxed);
            }
        });
        if spawned.is_err() {
            shared.clients.fetch_sub(1, Ordering::Relaxed);
        }
    }
}
