//! A server of logins: a thread for each connection, every statement answered with who asks.

use std::io::{self, Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener};
use std::os::unix::net::UnixListener;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::time::{Duration, SystemTime};

use accounts::{
    Accepted, Accounts, Login, LoginGuard, LoginRules, LoginStep, NewAccount, PasswordPlugin, Peer, Requirement,
    Rights, ServerTls, SessionStart, StoredPassword, TlsFiles, TlsPeer,
};
use wire::handshake::capability;
use wire::server::{self, ServerOk};

/// What the server offers besides what a login needs.
const CAPABILITIES: u32 = capability::LONG_PASSWORD
    | capability::LONG_FLAG
    | capability::TRANSACTIONS
    | capability::MULTI_RESULTS
    | capability::PS_MULTI_RESULTS
    | capability::DEPRECATE_EOF;

/// A running server; ends with its value.
pub(crate) struct LoginServer {
    pub(crate) guard: Arc<LoginGuard>,
    pub(crate) port: u16,
    pub(crate) socket: PathBuf,
    /// Delays that were asked for; none is waited for.
    pub(crate) waits: Arc<Mutex<Vec<Duration>>>,
    /// Passwords hashed.
    pub(crate) hashed: Arc<AtomicU64>,
    ended: Arc<AtomicBool>,
    folder: tempfile::TempDir,
}

/// What connections share.
#[derive(Clone)]
struct Shared {
    accounts: Arc<Accounts>,
    guard: Arc<LoginGuard>,
    tls: Arc<ServerTls>,
    rules: LoginRules,
    waits: Arc<Mutex<Vec<Duration>>>,
    hashed: Arc<AtomicU64>,
}

pub(crate) trait Both: Read + Write + Send {}
impl<T: Read + Write + Send> Both for T {}

impl LoginServer {
    /// Accounts: `app` with `secret`, `old` with `secret` by mysql_native_password, `tls` that requires TLS, `cert`
    /// that requires a certificate of `friend`.
    pub(crate) fn start(change: impl FnOnce(&mut LoginRules)) -> LoginServer {
        let folder = tempfile::tempdir().unwrap();
        let accounts = Accounts::open(&folder.path().join("accounts")).unwrap();
        add(&accounts, "app", PasswordPlugin::CachingSha2, Requirement::None);
        add(&accounts, "old", PasswordPlugin::Native, Requirement::None);
        add(&accounts, "tls", PasswordPlugin::CachingSha2, Requirement::Tls);
        add(&accounts, "cert", PasswordPlugin::CachingSha2, Requirement::Certificate);
        let authorities = Some(certificate("friend-ca.pem"));
        let files = TlsFiles { folder: folder.path().to_owned(), authorities, ..TlsFiles::default() };
        let tls = Arc::new(ServerTls::open(files, SystemTime::now()).unwrap());
        let mut rules = LoginRules {
            require_secure_transport: false,
            offers_tls: true,
            socket_admin: Some(own_uid()),
            capabilities: CAPABILITIES,
        };
        change(&mut rules);
        let shared =
            Shared { accounts, guard: Arc::default(), tls, rules, waits: Arc::default(), hashed: Arc::default() };
        let (waits, hashed) = (Arc::clone(&shared.waits), Arc::clone(&shared.hashed));
        let guard = Arc::clone(&shared.guard);
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
        let port = listener.local_addr().unwrap().port();
        let socket = folder.path().join("mysql.sock");
        let local = UnixListener::bind(&socket).unwrap();
        let ended = Arc::new(AtomicBool::new(false));
        let (stop, tcp) = (Arc::clone(&ended), shared.clone());
        std::thread::spawn(move || {
            while let Ok((stream, SocketAddr::V4(from))) = listener.accept() {
                if stop.load(SeqCst) {
                    return;
                }
                let (shared, peer) = (tcp.clone(), Peer::Tcp(IpAddr::V4(*from.ip())));
                std::thread::spawn(move || serve(&shared, peer, Box::new(stream)));
            }
        });
        let stop = Arc::clone(&ended);
        std::thread::spawn(move || {
            while let Ok((stream, _)) = local.accept() {
                if stop.load(SeqCst) {
                    return;
                }
                let (shared, peer) = (shared.clone(), Peer::Socket { uid: own_uid() });
                std::thread::spawn(move || serve(&shared, peer, Box::new(stream)));
            }
        });
        LoginServer { guard, port, socket, waits, hashed, ended, folder }
    }

    /// The certificate that the server shows.
    pub(crate) fn certificate(&self) -> PathBuf {
        self.folder.path().join("server-cert.pem")
    }
}

impl Drop for LoginServer {
    fn drop(&mut self) {
        self.ended.store(true, SeqCst);
        let _ = std::net::TcpStream::connect((Ipv4Addr::LOCALHOST, self.port));
        let _ = std::os::unix::net::UnixStream::connect(&self.socket);
    }
}

/// The user that runs the test: tests have no peer credentials of the sockets themselves.
pub(crate) fn own_uid() -> u32 {
    use std::os::unix::fs::MetadataExt as _;
    Path::new("/proc/self").metadata().unwrap().uid()
}

/// A file of the tests' certificates.
pub(crate) fn certificate(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/certificates").join(name)
}

pub(crate) fn add(accounts: &Accounts, user: &str, plugin: PasswordPlugin, requirement: Requirement) {
    let password = StoredPassword::new(plugin, "secret").unwrap();
    let rights = Rights { read: true, ..Rights::default() };
    let (name, reads) = (user.parse().unwrap(), accounts::Reads::default());
    accounts
        .add(NewAccount { name, rights, schemas: None, requirement, reads, max_connections: None, password })
        .unwrap();
}

fn nonce() -> [u8; 20] {
    let mut bytes = [0; 20];
    std::fs::File::open("/dev/urandom").unwrap().read_exact(&mut bytes).unwrap();
    bytes
}

/// One connection, with or without TLS.
struct Connection {
    stream: Option<Box<dyn Both>>,
    tls: Option<(TlsPeer, String)>,
    sequence: u8,
}

fn serve(shared: &Shared, peer: Peer, stream: Box<dyn Both>) {
    let mut connection = Connection { stream: Some(stream), tls: None, sequence: 0 };
    // Clients hang up as they like.
    let _ = connection.run(shared, peer);
}

impl Connection {
    fn run(&mut self, shared: &Shared, peer: Peer) -> io::Result<()> {
        let login = || Login::new(shared.accounts.clone(), shared.guard.clone(), peer, shared.rules, nonce());
        let mut first = login();
        self.write(&first.greeting("9.7.4-slipstream", 7))?;
        let payload = self.read()?;
        let step = first.packet(&payload, None);
        let Some(mut session) = self.follow(shared, &mut first, step)? else { return Ok(()) };
        loop {
            self.sequence = 0;
            let payload = self.read()?;
            match payload.first() {
                Some(&wire::command::CHANGE_USER) => {
                    let mut change = login();
                    let tls = self.tls.as_ref().map(|(tls, _)| *tls);
                    let step = change.change_user(&payload, &session.start, tls.as_ref());
                    let Some(next) = self.follow(shared, &mut change, step)? else { return Ok(()) };
                    session = next;
                }
                // The mysql client takes an error for granted, and reads no rows.
                Some(&wire::command::QUERY) if payload.ends_with(b"$$") => self.error(1064, "42000", "no statement")?,
                Some(&wire::command::QUERY) => self.answer(&session)?,
                Some(&wire::command::QUIT) | None => return Ok(()),
                _ => self.ok(&session.start)?,
            }
        }
    }

    /// Does what the login asks for; None once it is refused.
    fn follow(&mut self, shared: &Shared, login: &mut Login, mut step: LoginStep) -> io::Result<Option<Accepted>> {
        loop {
            step = match step {
                LoginStep::Send(payload) => {
                    self.write(&payload)?;
                    self.packet(login)?
                }
                LoginStep::StartTls => {
                    self.start_tls(&shared.tls)?;
                    self.packet(login)?
                }
                LoginStep::Work(work) => {
                    shared.hashed.fetch_add(1, SeqCst);
                    login.worked(work.run())
                }
                LoginStep::Wait(delay) => {
                    shared.waits.lock().unwrap().push(delay);
                    login.waited()
                }
                LoginStep::Accepted(accepted) => {
                    if let Some(payload) = &accepted.before_ok {
                        self.write(payload)?;
                    }
                    self.ok(&accepted.start)?;
                    return Ok(Some(*accepted));
                }
                LoginStep::Refused(error) => {
                    self.write(&error.payload())?;
                    return Ok(None);
                }
            }
        }
    }

    fn packet(&mut self, login: &mut Login) -> io::Result<LoginStep> {
        let payload = self.read()?;
        Ok(login.packet(&payload, self.tls.as_ref().map(|(tls, _)| tls)))
    }

    fn start_tls(&mut self, tls: &ServerTls) -> io::Result<()> {
        let mut session = rustls::ServerConnection::new(tls.config()).unwrap();
        let mut stream = self.stream.take().unwrap();
        while session.is_handshaking() {
            session.complete_io(&mut stream)?;
        }
        let version = session.protocol_version().and_then(|version| version.as_str()).unwrap_or_default().to_owned();
        let peer = TlsPeer { has_certificate: session.peer_certificates().is_some() };
        self.tls = Some((peer, version));
        self.stream = Some(Box::new(rustls::StreamOwned::new(session, stream)));
        Ok(())
    }

    fn read(&mut self) -> io::Result<Vec<u8>> {
        let stream = self.stream.as_mut().unwrap();
        let mut header = [0; 4];
        stream.read_exact(&mut header)?;
        let [a, b, c, sequence] = header;
        self.sequence = sequence.wrapping_add(1);
        let mut payload = vec![0; u32::from_le_bytes([a, b, c, 0]) as usize];
        stream.read_exact(&mut payload)?;
        Ok(payload)
    }

    fn write(&mut self, payload: &[u8]) -> io::Result<()> {
        let mut out = Vec::new();
        wire::packet::write(&mut out, &mut self.sequence, payload);
        let stream = self.stream.as_mut().unwrap();
        stream.write_all(&out)?;
        stream.flush()
    }

    fn error(&mut self, number: u16, sqlstate: &str, text: &str) -> io::Result<()> {
        let mut out = Vec::new();
        server::put_err(&mut out, number, sqlstate, text);
        self.write(&out)
    }

    fn ok(&mut self, start: &SessionStart) -> io::Result<()> {
        let mut out = Vec::new();
        server::put_ok(&mut out, &ServerOk::default(), start.capabilities);
        self.write(&out)
    }

    /// One row: account, connection, schema.
    fn answer(&mut self, session: &Accepted) -> io::Result<()> {
        let how = self.tls.as_ref().map_or("plain", |(_, version)| version);
        let schema = session.start.schema.as_deref().unwrap_or("-");
        let text = format!("{} {how} {schema}", session.identity.account);
        let mut out = Vec::new();
        let rows = [vec![Some(text)]];
        server::put_text_rows(&mut out, &mut self.sequence, &["who".to_owned()], &rows, session.start.capabilities);
        let stream = self.stream.as_mut().unwrap();
        stream.write_all(&out)?;
        stream.flush()
    }
}
