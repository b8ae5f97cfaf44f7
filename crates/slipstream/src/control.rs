//! The control socket `DIR/slipstream.sock`: how commands reach a running replica.
//!
//! Each connection carries one request: a JSON line. The answer is a JSON line (`Reply`). For `dump`, `verify`, `copy`
//! and `backup` it announces a stream of frames `[kind: u8][length: u32, little-endian][bytes]`: kind `D` is output for
//! the client's stdout, kind `E` is the final `Reply` and the last frame. Never here: the implementation of a command;
//! a connection that outlives `stop`; a request above `REQUEST_BYTES_MAX`. The socket's mode is 0600: whoever may
//! connect may read all data.

use std::collections::HashMap;
use std::fs::File;
use std::io::{self, BufRead as _, BufReader, Read as _, Write};
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::PermissionsExt as _;
use std::os::unix::net::{UnixListener, UnixStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use base::UntilGtids;
use compare::{Compression, DumpFormat};
use engine::ReplicaThread;
use replica::{Exit, Failure, FolderLock, config::ServerOptions, folder_owner};
use serde::{Deserialize, Serialize};

use crate::account::AccountRequest;
use crate::relay_hold::HoldRequest;

/// Name of the socket in the data folder.
pub(crate) const SOCKET_FILE: &str = "slipstream.sock";

/// Largest request in bytes: a GTID set may be long, nothing else is.
const REQUEST_BYTES_MAX: u64 = 16 << 20;

/// Largest answer line in bytes: it contains a status report with its GTID sets.
const REPLY_BYTES_MAX: u64 = 256 << 20;

/// Largest frame of output in bytes, and the bytes of its kind and length before it.
const FRAME_BYTES_MAX: usize = 64 << 10;
const FRAME_HEAD: usize = 5;

/// How long a backup's write waits for its reader before it looks at the disk again.
const BACKUP_WRITE_TIMEOUT: Duration = Duration::from_millis(200);

/// Maximum number of clients at a time; further ones are told to retry.
const CONNECTIONS_MAX: usize = 32;

/// A client that sends no complete request within this time is disconnected.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(10);

/// Time limit of a status report: monitoring must not hang if the replica hangs.
const STATUS_WITHIN: Duration = Duration::from_millis(1500);

/// Time limit of other answers, and of the first answer to a request that streams.
const REPLY_WITHIN: Duration = Duration::from_secs(10);

/// Time limit of an answer to `slipstream start` and `stop io|sql`: a start may have to open the store again.
const THREAD_WITHIN: Duration = Duration::from_secs(30);

/// How long an ending process waits for the answers that are being given: of a client that sends no request, no longer.
const ANSWERED_WITHIN: Duration = Duration::from_secs(1);

/// Interval at which a client tries to connect while the socket's queue is full.
const CONNECT_EVERY: Duration = Duration::from_millis(50);

/// Longest socket path in bytes: `sun_path` has 108 bytes including its terminator.
const SOCKET_PATH_MAX: usize = 100;

/// Content of a `slipstream dump`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct DumpRequest {
    /// `schema.table`; empty = all.
    pub tables: Vec<String>,
    /// `schema.table` of tables to leave out.
    // Absent if empty: earlier versions do not know it.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub ignored: Vec<String>,
    /// Output format of the rows.
    pub format: DumpFormat,
    /// Whether to include invisible columns.
    pub all_columns: bool,
    /// Whether to write BINARY, VARBINARY, BLOB and BIT as 0x...
    pub binary_as_hex: bool,
    /// Whether to leave out the statements that make databases and tables.
    pub no_create_info: bool,
    /// Compression of the output, or of each part.
    pub compression: Option<Compression>,
    /// Number of threads that write a dump in parts; 0 = one stream.
    pub threads: u32,
    /// Whether to write views, routines, triggers, events, users and grants instead of rows.
    pub definitions: bool,
}

/// Tables and options of `slipstream verify`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub(crate) struct VerifyRequest {
    /// The server to compare with; None = the replica's own source.
    pub source: Option<ServerOptions>,
    /// `schema.table`; empty = all.
    pub tables: Vec<String>,
    /// Maximum number of differing rows printed per table.
    pub differences_max: u64,
    /// Whether to print the result as one JSON document instead of a table.
    pub json: bool,
}

impl Default for VerifyRequest {
    fn default() -> Self {
        VerifyRequest { source: None, tables: Vec::new(), differences_max: 10, json: false }
    }
}

/// Options of `slipstream backup`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct BackupRequest {
    /// Whether it contains who may log in.
    pub accounts: bool,
    /// Milliseconds without a byte read after which it is given up.
    pub stalled_after_ms: u64,
}

/// A condition at which replay stops, as its name and set.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(try_from = "(String, String)", into = "(String, String)")]
pub(crate) struct Until(pub UntilGtids);

impl From<Until> for (String, String) {
    fn from(Until(until): Until) -> (String, String) {
        (until.name().to_owned(), until.set().to_string())
    }
}

impl TryFrom<(String, String)> for Until {
    type Error = String;

    fn try_from((name, set): (String, String)) -> Result<Until, String> {
        let set = set.parse().map_err(|error: base::GtidError| error.to_string())?;
        match name.as_str() {
            "SQL_BEFORE_GTIDS" => Ok(Until(UntilGtids::Before(set))),
            "SQL_AFTER_GTIDS" => Ok(Until(UntilGtids::After(set))),
            _ => Err(format!("{name} is no condition")),
        }
    }
}

/// A request to a running replica.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "command", rename_all = "snake_case", deny_unknown_fields)]
#[allow(clippy::large_enum_variant, reason = "there is one a connection")]
pub(crate) enum Request {
    /// Returns the status report as the reply's body.
    Status {},
    /// Compares with a source; streams text.
    Verify(VerifyRequest),
    /// Writes rows; streams them.
    Dump(DumpRequest),
    /// Writes a backup of the data folder; streams it.
    Backup(BackupRequest),
    /// Copies one table again; streams progress.
    Copy {
        /// The table as `SCHEMA.TABLE`.
        table: String,
    },
    /// Stops at a transaction boundary and ends the process, or stops one thread.
    Stop {
        /// The thread to stop; the process stays then.
        #[serde(default)]
        thread: Option<ReplicaThread>,
    },
    /// Starts a thread that stopped; both if none is named.
    Start {
        /// The thread to start.
        #[serde(default)]
        thread: Option<ReplicaThread>,
        /// Where replay stops by itself.
        #[serde(default)]
        until: Option<Until>,
    },
    /// Carries out an order in SQL; the reply's body says what became of it.
    Execute {
        /// START, STOP, CHANGE or RESET REPLICA.
        statement: String,
    },
    /// Reads the option files again; the reply's body says what became of it.
    Reload {},
    /// Pauses replay; receiving continues.
    Pause {},
    Resume {},
    /// Lists the tables that differ from the source as the reply's body, or takes one off the list.
    Drift {
        /// The table to accept as it is, as `SCHEMA.TABLE`.
        accept: Option<String>,
    },
    /// Compares what the log says of rows with the rows on disk; streams text.
    CheckStore {},
    /// Commits these GTIDs empty; the reply's body is a warning, if there is one.
    Skip {
        /// GTID set in MySQL's text form.
        gtid_set: String,
    },
    /// Takes GTIDs off the list of transactions to skip.
    UndoSkip {
        /// GTID set in MySQL's text form.
        gtid_set: String,
    },
    /// Returns the list of transactions to skip as the reply's body.
    SkipList {},
    /// Lists or changes for which replicas a relay keeps served files; the reply's body is the list, or says what was
    /// done.
    Hold {
        hold: HoldRequest,
    },
    /// Lists or changes the accounts; the reply's body is the list, or says what was done.
    Account {
        account: AccountRequest,
    },
}

impl Request {
    fn streams(&self) -> bool {
        matches!(
            self,
            Request::Verify(_) | Request::Dump(_) | Request::Backup(_) | Request::Copy { .. } | Request::CheckStore {}
        )
    }
}

/// The outcome of a request.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub(crate) struct Reply {
    /// True if the request succeeded.
    pub ok: bool,
    /// Exit code for the client.
    pub exit: u8,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
    /// The command that continues.
    #[serde(default, rename = "way_on", skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
    /// The answer, for requests that have one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub body: Option<serde_json::Value>,
    /// True if frames follow; the last one has the outcome.
    #[serde(default, skip_serializing_if = "is_false")]
    pub stream: bool,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde passes a reference")]
fn is_false(value: &bool) -> bool {
    !*value
}

impl Reply {
    /// Success without an answer.
    #[must_use]
    pub(crate) fn done() -> Reply {
        Reply { ok: true, ..Reply::default() }
    }

    /// Success with an answer.
    #[must_use]
    pub(crate) fn with_body(body: serde_json::Value) -> Reply {
        Reply { ok: true, body: Some(body), ..Reply::default() }
    }

    /// From the result of a command.
    #[must_use]
    pub(crate) fn from_result(result: Result<(), Failure>) -> Reply {
        result.map_or_else(|failure| Reply::failed(&failure), |()| Reply::done())
    }

    #[must_use]
    pub(crate) fn failed(failure: &Failure) -> Reply {
        Reply {
            exit: failure.exit.code(),
            error: Some(failure.text.clone()),
            hint: failure.hint.clone(),
            ..Reply::default()
        }
    }

    /// Converts back to a command's result, with the body.
    ///
    /// # Errors
    /// The failure in the reply.
    pub(crate) fn into_result(self) -> Result<Option<serde_json::Value>, Failure> {
        if self.ok {
            return Ok(self.body);
        }
        let text = self.error.unwrap_or_else(|| "the replica did not say why".to_owned());
        let mut failure = Failure::new(Exit::from_code(self.exit), text);
        if failure.exit == Exit::Done {
            failure.exit = Exit::Error;
        }
        failure.hint = self.hint;
        Err(failure)
    }
}

/// Executes a request. Output of `dump`, `verify` and `copy` is written to the writer; other commands must not write to
/// it. A failed write means that the client disconnected.
pub(crate) type Handler = Arc<dyn Fn(Request, &mut dyn Write) -> Reply + Send + Sync>;

/// A path to the socket that fits into a `sun_path`, however deep the folder is: through an open folder and
/// /proc/self/fd. The file must stay open while the path is used.
fn short_path(folder: &Path, name: &str) -> io::Result<(PathBuf, Option<File>)> {
    let path = folder.join(name);
    if path.as_os_str().len() <= SOCKET_PATH_MAX {
        return Ok((path, None));
    }
    let opened = File::open(folder)?;
    let path = Path::new("/proc/self/fd").join(opened.as_raw_fd().to_string()).join(name);
    Ok((path, Some(opened)))
}

/// Server of the control socket: one accepting thread, and one thread per connection.
#[derive(Debug)]
pub(crate) struct ControlServer {
    listener: UnixListener,
    accepting: Option<JoinHandle<()>>,
    connections: Arc<Connections>,
    socket: PathBuf,
}

#[derive(Debug, Default)]
struct Connections {
    stopping: AtomicBool,
    accepted: AtomicU64,
    open: Mutex<HashMap<u64, Open>>,
}

#[derive(Debug)]
struct Open {
    stream: UnixStream,
    /// True once its request streams output.
    streams: bool,
}

impl Connections {
    fn open(&self) -> MutexGuard<'_, HashMap<u64, Open>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl ControlServer {
    /// Opens the socket of a folder whose exclusive lock is ours: only then an existing socket file is a stale one.
    ///
    /// # Errors
    /// The lock is a reader's, or the socket cannot be created.
    pub(crate) fn start(folder: &Path, lock: &FolderLock, handler: Handler) -> Result<ControlServer, Failure> {
        let socket = folder.join(SOCKET_FILE);
        let failed = |error: io::Error| Failure::io(socket.display(), &error);
        if !lock.is_exclusive() {
            return Err(Failure::error(format!(
                "{}: only the owner of the folder may open its socket",
                socket.display()
            )));
        }
        // Created under another name and renamed: nobody can connect before its mode is set, and a stale socket is
        // replaced.
        let temporary = folder.join("slipstream.sock.tmp");
        match std::fs::remove_file(&temporary) {
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(failed(error)),
            _ => {}
        }
        let (path, _open_folder) = short_path(folder, "slipstream.sock.tmp").map_err(failed)?;
        let listener = UnixListener::bind(path).map_err(failed)?;
        std::fs::set_permissions(&temporary, std::fs::Permissions::from_mode(0o600)).map_err(failed)?;
        std::fs::rename(&temporary, &socket).map_err(failed)?;
        let connections = Arc::new(Connections::default());
        let accepting = {
            let listener = listener.try_clone().map_err(failed)?;
            let connections = Arc::clone(&connections);
            let thread = std::thread::Builder::new().name("control".to_owned());
            thread.spawn(move || accept(&listener, &connections, &handler)).map_err(failed)?
        };
        Ok(ControlServer { listener, accepting: Some(accepting), connections, socket })
    }

    /// Number of connections accepted since the start.
    #[cfg(test)]
    #[must_use]
    pub(crate) fn served(&self) -> u64 {
        self.connections.accepted.load(SeqCst)
    }

    /// The answers to its requests.
    pub(crate) fn answers(&self) -> Answers {
        Answers(Arc::clone(&self.connections))
    }

    /// Accepts no more requests, closes the connections and removes the socket. Also called by drop.
    pub(crate) fn stop(&mut self) {
        // Remove the socket first: a client then sees "not running" instead of a hang.
        if self.accepting.is_some() {
            let _ = std::fs::remove_file(&self.socket);
        }
        self.abandon();
    }

    /// As [`stop`](Self::stop), but leaves the socket's name alone: the folder is not ours any more.
    pub(crate) fn abandon(&mut self) {
        let Some(accepting) = self.accepting.take() else { return };
        self.connections.stopping.store(true, SeqCst);
        let _ = rustix::net::shutdown(&self.listener, rustix::net::Shutdown::Both);
        let _ = accepting.join();
        // `stop` itself may still be answered: its order ends the process while its thread waits for a core.
        let answers = self.answers();
        answers.cut_streams();
        answers.are_given();
        for open in self.connections.open().values() {
            let _ = open.stream.shutdown(std::net::Shutdown::Both);
        }
    }
}

/// What a server's clients are being answered.
#[derive(Clone, Debug)]
pub(crate) struct Answers(Arc<Connections>);

impl Answers {
    /// Closes the connections whose requests stream output: what they read is about to be closed.
    pub(crate) fn cut_streams(&self) {
        for open in self.0.open().values().filter(|open| open.streams) {
            let _ = open.stream.shutdown(std::net::Shutdown::Both);
        }
    }

    /// Waits until no request has an answer to come, for a moment: the process is about to end.
    pub(crate) fn are_given(&self) {
        let _ = self.are_given_within(ANSWERED_WITHIN);
    }

    fn are_given_within(&self, limit: Duration) -> bool {
        let until = Instant::now() + limit;
        while !self.0.open().is_empty() {
            if Instant::now() > until {
                return false;
            }
            std::thread::sleep(Duration::from_millis(1));
        }
        true
    }
}

impl Drop for ControlServer {
    fn drop(&mut self) {
        self.stop();
    }
}

fn accept(listener: &UnixListener, connections: &Arc<Connections>, handler: &Handler) {
    for id in 0u64.. {
        let accepted = listener.accept();
        if connections.stopping.load(SeqCst) {
            return;
        }
        let mut stream = match accepted {
            Ok((stream, _)) => stream,
            Err(_) => {
                // Usually out of file descriptors: wait until others close some.
                std::thread::sleep(Duration::from_millis(50));
                continue;
            }
        };
        connections.accepted.fetch_add(1, SeqCst);
        let Ok(kept) = stream.try_clone() else { continue };
        {
            let mut open = connections.open();
            if open.len() >= CONNECTIONS_MAX {
                drop(open);
                let failure =
                    Failure::error(format!("{CONNECTIONS_MAX} commands are already running; try again later"));
                let _ = stream.set_write_timeout(Some(Duration::from_millis(100)));
                let _ = write_line(&mut stream, &Reply::failed(&failure));
                continue;
            }
            open.insert(id, Open { stream: kept, streams: false });
        }
        let (of_thread, handler) = (Arc::clone(connections), Arc::clone(handler));
        let thread = std::thread::Builder::new().name(format!("control-{id}"));
        let spawned = thread.spawn(move || {
            let guard = Registered { connections: of_thread, id };
            let _ = serve(stream, &handler, &guard);
            drop(guard);
        });
        if spawned.is_err() {
            connections.open().remove(&id);
        }
    }
}

/// Removes the connection from the list when its thread ends, also after a panic.
struct Registered {
    connections: Arc<Connections>,
    id: u64,
}

impl Drop for Registered {
    fn drop(&mut self) {
        self.connections.open().remove(&self.id);
    }
}

fn serve(mut stream: UnixStream, handler: &Handler, registered: &Registered) -> io::Result<()> {
    stream.set_read_timeout(Some(REQUEST_TIMEOUT))?;
    let request = match read_line(&mut BufReader::new(&stream), REQUEST_BYTES_MAX) {
        Ok(line) => serde_json::from_slice::<Request>(&line).map_err(|error| error.to_string()),
        Err(error) => Err(error.to_string()),
    };
    let request = match request {
        Ok(request) => request,
        // serde's message may quote the request, which may contain a password.
        Err(error) => {
            let text = format!("not a request: {}", replica::config::mask_passwords(&error));
            return write_line(&mut stream, &Reply::failed(&Failure::usage(text)));
        }
    };
    if !request.streams() {
        let reply = handler(request, &mut io::sink());
        return write_line(&mut stream, &reply);
    }
    if let Some(open) = registered.connections.open().get_mut(&registered.id) {
        open.streams = true;
    }
    write_line(&mut stream, &Reply { stream: true, ..Reply::done() })?;
    if let Request::Backup(_) = request {
        // Between the writes it looks at the disk, however slow its reader is.
        stream.set_write_timeout(Some(BACKUP_WRITE_TIMEOUT))?;
    }
    let mut frames = FrameWriter { stream, frame: Vec::with_capacity(FRAME_HEAD + FRAME_BYTES_MAX), sent: None };
    let reply = handler(request, &mut frames);
    frames.flush()?;
    let last = serde_json::to_vec(&reply)?;
    write_frame(&mut frames.stream, b'E', &last)
}

/// Splits output into frames. With a write timeout a write or flush may return `WouldBlock`: repeated, it goes on where
/// it was.
struct FrameWriter {
    stream: UnixStream,
    /// The frame being filled or sent, with room for its head.
    frame: Vec<u8>,
    /// Bytes sent of the frame; None while it is filled.
    sent: Option<usize>,
}

impl FrameWriter {
    /// Sends what is left of the frame.
    fn send(&mut self) -> io::Result<()> {
        while let Some(sent) = self.sent {
            let rest = self.frame.get(sent..).unwrap_or_default();
            if rest.is_empty() {
                self.frame.clear();
                self.sent = None;
                break;
            }
            match self.stream.write(rest) {
                Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
                Ok(more) => self.sent = Some(sent + more),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }

    /// Closes the frame that is being filled.
    fn seal(&mut self) -> io::Result<()> {
        let length = u32::try_from(self.frame.len().saturating_sub(FRAME_HEAD)).map_err(io::Error::other)?;
        if let Some(head) = self.frame.first_chunk_mut::<FRAME_HEAD>() {
            *head = frame_head(b'D', length);
        }
        self.sent = Some(0);
        Ok(())
    }
}

impl Write for FrameWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.send()?;
        if self.frame.is_empty() {
            self.frame.resize(FRAME_HEAD, 0);
        }
        let room = (FRAME_HEAD + FRAME_BYTES_MAX).saturating_sub(self.frame.len()).min(bytes.len());
        let (taken, _) = bytes.split_at(room);
        self.frame.extend_from_slice(taken);
        if self.frame.len() >= FRAME_HEAD + FRAME_BYTES_MAX {
            self.seal()?;
            match self.send() {
                // The bytes are taken; the next write goes on.
                Err(error) if is_timeout(&error) => {}
                result => result?,
            }
        }
        Ok(room)
    }

    fn flush(&mut self) -> io::Result<()> {
        if self.sent.is_none() && !self.frame.is_empty() {
            self.seal()?;
        }
        self.send()
    }
}

fn is_timeout(error: &io::Error) -> bool {
    matches!(error.kind(), io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut)
}

fn frame_head(kind: u8, length: u32) -> [u8; FRAME_HEAD] {
    let [a, b, c, d] = length.to_le_bytes();
    [kind, a, b, c, d]
}

fn write_frame(stream: &mut UnixStream, kind: u8, bytes: &[u8]) -> io::Result<()> {
    let length = u32::try_from(bytes.len()).map_err(io::Error::other)?;
    stream.write_all(&frame_head(kind, length))?;
    stream.write_all(bytes)
}

fn write_line(stream: &mut UnixStream, reply: &Reply) -> io::Result<()> {
    let mut line = serde_json::to_vec(reply)?;
    line.push(b'\n');
    stream.write_all(&line)
}

fn read_line(reader: &mut impl io::BufRead, bytes_max: u64) -> io::Result<Vec<u8>> {
    let mut line = Vec::new();
    reader.take(bytes_max).read_until(b'\n', &mut line)?;
    if line.pop() != Some(b'\n') {
        return Err(io::Error::new(io::ErrorKind::UnexpectedEof, "no whole line"));
    }
    Ok(line)
}

/// Why a request got no answer.
#[derive(Debug)]
pub(crate) enum AskError {
    /// The process lives and does not answer: it is stopped by a signal, or waits for something that does not come.
    Silent {
        /// Its id, if known.
        pid: Option<u32>,
        /// How long the client waited.
        waited: Duration,
    },
    /// Any other failure, or the replica's own.
    Failed(Failure),
}

impl From<AskError> for Failure {
    fn from(error: AskError) -> Failure {
        match error {
            AskError::Failed(failure) => failure,
            AskError::Silent { pid, waited } => {
                let who = pid.map_or("the replica".to_owned(), |pid| format!("process {pid}"));
                let failure = Failure::error(format!("{who} does not answer (waited {} s)", waited.as_secs_f64()));
                match pid {
                    Some(pid) => failure.with_hint(format!(
                        "ps -o pid,stat,wchan:20,cmd -p {pid} (T: stopped by a signal, kill -CONT {pid} continues it; D: \
                         waits for the disk)"
                    )),
                    None => failure,
                }
            }
        }
    }
}

/// Client of the control socket.
#[derive(Debug)]
pub(crate) struct Client {
    stream: UnixStream,
    folder: PathBuf,
    began: Instant,
}

impl Client {
    /// Connects to the replica that runs on a folder; None if no replica runs there.
    ///
    /// # Errors
    /// There is a socket but no permission to use it, or its process accepts no connections.
    pub(crate) fn connect(folder: &Path) -> Result<Option<Client>, Failure> {
        Client::connect_within(folder, REPLY_WITHIN).map_err(Failure::from)
    }

    /// Asks the replica that runs on a folder for its status; None if no replica runs there.
    ///
    /// # Errors
    /// No answer within [`STATUS_WITHIN`]; as [`Client::ask`].
    pub(crate) fn status(folder: &Path) -> Result<Option<serde_json::Value>, AskError> {
        let Some(client) = Client::connect_within(folder, STATUS_WITHIN)? else { return Ok(None) };
        client
            .ask_within(&Request::Status {}, STATUS_WITHIN, &mut io::sink())
            .map(|body| Some(body.unwrap_or_default()))
    }

    fn connect_within(folder: &Path, limit: Duration) -> Result<Option<Client>, AskError> {
        let began = Instant::now();
        loop {
            let opened = short_path(folder, SOCKET_FILE);
            match opened.and_then(|(path, _open_folder)| connect_at_once(&path)) {
                Ok(stream) => return Ok(Some(Client { stream, folder: folder.to_owned(), began })),
                Err(error)
                    if matches!(error.kind(), io::ErrorKind::NotFound | io::ErrorKind::ConnectionRefused)
                        || error.raw_os_error() == Some(rustix::io::Errno::NOTDIR.raw_os_error()) =>
                {
                    return Ok(None);
                }
                // The queue of clients that wait to be accepted is full.
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => {
                    if began.elapsed() >= limit {
                        return Err(AskError::Silent { pid: folder_owner(folder), waited: limit });
                    }
                    std::thread::sleep(CONNECT_EVERY);
                }
                Err(error) => return Err(AskError::Failed(Failure::io(folder.join(SOCKET_FILE).display(), &error))),
            }
        }
    }

    /// Sends a request, copies streamed output to `out`, and returns the body of the outcome.
    ///
    /// # Errors
    /// The replica's failure with its code; code 1 if the connection breaks or the replica does not answer; `out`'s I/O
    /// error.
    pub(crate) fn ask(self, request: &Request, out: &mut dyn Write) -> Result<Option<serde_json::Value>, Failure> {
        let of_a_thread =
            matches!(request, Request::Start { .. } | Request::Execute { .. } | Request::Stop { thread: Some(_) });
        let limit = if of_a_thread { THREAD_WITHIN } else { REPLY_WITHIN };
        self.ask_within(request, limit, out).map_err(Failure::from)
    }

    /// As [`Client::ask`]; the answer, or the head of a stream, must come within `limit` after the connection began.
    fn ask_within(
        mut self,
        request: &Request,
        limit: Duration,
        out: &mut dyn Write,
    ) -> Result<Option<serde_json::Value>, AskError> {
        let socket = self.folder.join(SOCKET_FILE);
        let failed = |error: io::Error| match error.kind() {
            io::ErrorKind::WouldBlock | io::ErrorKind::TimedOut => {
                AskError::Silent { pid: folder_owner(&self.folder), waited: limit }
            }
            _ => AskError::Failed(Failure::error(format!("{}: {error}", socket.display()))),
        };
        // Not zero, which would mean no limit.
        let left = limit.saturating_sub(self.began.elapsed()).max(Duration::from_millis(100));
        self.stream.set_read_timeout(Some(left)).map_err(failed)?;
        self.stream.set_write_timeout(Some(left)).map_err(failed)?;
        let mut line =
            serde_json::to_vec(request).map_err(|error| AskError::Failed(Failure::error(error.to_string())))?;
        line.push(b'\n');
        self.stream.write_all(&line).map_err(failed)?;
        let mut reader = BufReader::with_capacity(FRAME_BYTES_MAX, &self.stream);
        let head = read_line(&mut reader, REPLY_BYTES_MAX).map_err(failed)?;
        let header: Reply = parse_reply(&head).map_err(AskError::Failed)?;
        if !header.stream {
            return header.into_result().map_err(AskError::Failed);
        }
        // What follows may take as long as it takes: verify is silent while it compares a large table.
        self.stream.set_read_timeout(None).map_err(failed)?;
        let hint = match request {
            // The replica cannot tell a reader that takes nothing why it gave up.
            Request::Backup(_) => "the replica's log says why (SLIP-000111 if it abandoned the backup); run it again",
            _ => "run the command again; the replica's log says more",
        };
        read_frames(&mut reader, out, &socket, hint).map_err(AskError::Failed)
    }
}

/// Connects, or fails with `WouldBlock` where a blocking call would wait for a process that accepts nothing.
fn connect_at_once(path: &Path) -> io::Result<UnixStream> {
    use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with};
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = socket_with(AddressFamily::UNIX, SocketType::STREAM, flags, None)?;
    connect(&socket, &SocketAddrUnix::new(path)?)?;
    let stream = UnixStream::from(socket);
    stream.set_nonblocking(false)?;
    Ok(stream)
}

/// Copies the frames of a stream to `out`, and returns the body of the outcome. `hint` is for a stream that is cut.
fn read_frames(
    reader: &mut impl io::BufRead,
    out: &mut dyn Write,
    socket: &Path,
    hint: &str,
) -> Result<Option<serde_json::Value>, Failure> {
    let failed = |error: io::Error| match error.kind() {
        io::ErrorKind::UnexpectedEof | io::ErrorKind::ConnectionReset => {
            let text = format!("{}: the replica ended, or closed the store, before it had sent all", socket.display());
            Failure::error(text).with_hint(hint)
        }
        _ => Failure::error(format!("{}: {error}", socket.display())),
    };
    let mut frame = Vec::new();
    loop {
        let mut head = [0u8; 5];
        reader.read_exact(&mut head).map_err(failed)?;
        let [kind, a, b, c, d] = head;
        let length = u64::from(u32::from_le_bytes([a, b, c, d]));
        if length > REPLY_BYTES_MAX {
            return Err(Failure::error("the replica sent a frame that is too large"));
        }
        frame.clear();
        let read = reader.by_ref().take(length).read_to_end(&mut frame).map_err(failed)?;
        if read as u64 != length {
            return Err(failed(io::ErrorKind::UnexpectedEof.into()));
        }
        match kind {
            b'D' => out.write_all(&frame).map_err(|error| Failure::output(&error))?,
            b'E' => {
                out.flush().map_err(|error| Failure::output(&error))?;
                return parse_reply(&frame)?.into_result();
            }
            _ => return Err(Failure::error("the replica sent a frame of unknown kind")),
        }
    }
}

fn parse_reply(bytes: &[u8]) -> Result<Reply, Failure> {
    serde_json::from_slice(bytes).map_err(|error| Failure::error(format!("the replica's answer: {error}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// A process that accepts nothing: first its queue takes clients, then it is full, where a plain connect waits for
    /// ever.
    #[test]
    fn a_socket_that_nobody_serves_is_silence_within_the_limit() {
        use rustix::net::{AddressFamily, SocketAddrUnix, SocketType, bind, listen, socket};
        let dir = tempfile::tempdir().unwrap();
        let listener = socket(AddressFamily::UNIX, SocketType::STREAM, None).unwrap();
        bind(&listener, &SocketAddrUnix::new(dir.path().join(SOCKET_FILE)).unwrap()).unwrap();
        listen(&listener, 1).unwrap();
        let mut waiting = Vec::new();
        loop {
            let began = Instant::now();
            let error = Client::status(dir.path()).unwrap_err();
            assert!(matches!(error, AskError::Silent { pid: None, .. }), "{error:?}");
            assert!(began.elapsed() < STATUS_WITHIN * 3, "{:?}", began.elapsed());
            match connect_at_once(&dir.path().join(SOCKET_FILE)) {
                Ok(stream) => waiting.push(stream),
                Err(error) => break assert_eq!(error.kind(), io::ErrorKind::WouldBlock),
            }
            assert!(waiting.len() < 10);
        }
        let text = Failure::from(Client::status(dir.path()).unwrap_err()).text;
        assert_eq!(text, "the replica does not answer (waited 1.5 s)");
    }

    fn ask(folder: &Path, request: &Request, out: &mut dyn Write) -> Result<Option<serde_json::Value>, Failure> {
        Client::connect(folder)?.ok_or_else(|| Failure::error("not running"))?.ask(request, out)
    }

    fn handler() -> Handler {
        Arc::new(|request, out| match request {
            Request::Status {} => Reply::with_body(serde_json::json!({"running": true})),
            Request::Dump(options) => {
                for _ in 0..options.tables.len() {
                    if out.write_all(&[b'x'; 100_000]).is_err() {
                        return Reply::failed(&Failure::error("asker gone"));
                    }
                }
                Reply::done()
            }
            Request::Verify(_) => {
                let _ = out.write_all(b"differs\n");
                Reply::failed(&Failure::new(Exit::VerifyDifferences, "1 table differs").with_hint("look"))
            }
            Request::Skip { gtid_set } => Reply::failed(&Failure::usage(gtid_set)),
            Request::UndoSkip { .. }
            | Request::SkipList {}
            | Request::Account { .. }
            | Request::Hold { .. }
            | Request::Copy { .. }
            | Request::Backup(_)
            | Request::Stop { .. }
            | Request::Start { .. }
            | Request::Pause {}
            | Request::Reload {}
            | Request::Execute { .. }
            | Request::Resume {}
            | Request::Drift { .. }
            | Request::CheckStore {} => Reply::done(),
        })
    }

    fn start(folder: &Path) -> (ControlServer, FolderLock) {
        let lock = FolderLock::exclusive(folder).unwrap();
        (ControlServer::start(folder, &lock, handler()).unwrap(), lock)
    }

    #[test]
    fn round_trips() {
        let dir = tempfile::tempdir().unwrap();
        let (mut server, _lock) = start(dir.path());
        let mode = std::fs::metadata(dir.path().join(SOCKET_FILE)).unwrap().permissions().mode();
        assert_eq!(mode & 0o777, 0o600);
        let mut out = Vec::new();
        let body = ask(dir.path(), &Request::Status {}, &mut out).unwrap().unwrap();
        assert_eq!(body["running"], true);
        assert_eq!(ask(dir.path(), &Request::Pause {}, &mut out), Ok(None));
        let failure = ask(dir.path(), &Request::Skip { gtid_set: "abc".to_owned() }, &mut out).unwrap_err();
        assert_eq!((failure.exit, failure.text.as_str()), (Exit::Usage, "abc"));
        assert!(out.is_empty());

        let dump = DumpRequest { tables: vec!["a.b".to_owned(); 7], ..DumpRequest::default() };
        ask(dir.path(), &Request::Dump(dump), &mut out).unwrap();
        assert_eq!(out.len(), 700_000);
        out.clear();
        let failure = ask(dir.path(), &Request::Verify(VerifyRequest::default()), &mut out).unwrap_err();
        assert_eq!((failure.exit, failure.hint.as_deref()), (Exit::VerifyDifferences, Some("look")));
        assert_eq!(out, b"differs\n");

        server.stop();
        assert!(Client::connect(dir.path()).unwrap().is_none());
        assert!(!dir.path().join(SOCKET_FILE).exists());
    }

    #[test]
    fn folders_deeper_than_a_socket_path() {
        let dir = tempfile::tempdir().unwrap();
        let deep = dir.path().join("d".repeat(120)).join("e".repeat(120));
        std::fs::create_dir_all(&deep).unwrap();
        let (server, _lock) = start(&deep);
        assert!(ask(&deep, &Request::Status {}, &mut io::sink()).is_ok());
        drop(server);
        assert!(Client::connect(&deep).unwrap().is_none());
    }

    #[test]
    fn a_stream_that_is_cut_is_told_apart_for_a_backup() {
        let dir = tempfile::tempdir().unwrap();
        let lock = FolderLock::exclusive(dir.path()).unwrap();
        // As a handler that gave up on a reader that takes nothing: the flush after it fails, no outcome is sent.
        let cut: Handler = Arc::new(|_, out| {
            let _ = out.write_all(&[0; 2 * FRAME_BYTES_MAX]);
            panic!("the stream is closed");
        });
        let _server = ControlServer::start(dir.path(), &lock, cut).unwrap();
        let backup = Request::Backup(BackupRequest { accounts: false, stalled_after_ms: 1000 });
        for (request, hint) in
            [(backup, "SLIP-000111"), (Request::Dump(DumpRequest::default()), "run the command again")]
        {
            let failure = ask(dir.path(), &request, &mut io::sink()).unwrap_err();
            assert_eq!(failure.exit, Exit::Error);
            assert!(failure.hint.as_deref().is_some_and(|text| text.contains(hint)), "{failure:?}");
        }
    }

    #[test]
    fn a_dead_socket_means_not_running_and_is_replaced() {
        let dir = tempfile::tempdir().unwrap();
        drop(UnixListener::bind(dir.path().join(SOCKET_FILE)).unwrap());
        assert!(Client::connect(dir.path()).unwrap().is_none());
        let (_server, _lock) = start(dir.path());
        assert!(ask(dir.path(), &Request::Status {}, &mut io::sink()).is_ok());
        assert!(Client::connect(Path::new("/no/such/folder")).unwrap().is_none());
    }

    #[test]
    fn a_reader_never_opens_the_socket() {
        let dir = tempfile::tempdir().unwrap();
        drop(FolderLock::exclusive(dir.path()).unwrap());
        let lock = FolderLock::shared(dir.path()).unwrap();
        assert!(ControlServer::start(dir.path(), &lock, handler()).is_err());
    }

    /// Its process may end in the middle of an answer otherwise: `stop` during a start.
    #[test]
    fn an_answer_in_work_is_waited_for() {
        let dir = tempfile::tempdir().unwrap();
        let lock = FolderLock::exclusive(dir.path()).unwrap();
        let (asked, is_asked) = std::sync::mpsc::channel();
        let (go_on, may_go_on) = std::sync::mpsc::channel::<()>();
        let may_go_on = Mutex::new(may_go_on);
        let handler: Handler = Arc::new(move |_, _| {
            asked.send(()).unwrap();
            may_go_on.lock().unwrap().recv().unwrap();
            Reply::done()
        });
        let server = ControlServer::start(dir.path(), &lock, handler).unwrap();
        let folder = dir.path().to_owned();
        let client = std::thread::spawn(move || ask(&folder, &Request::Stop { thread: None }, &mut io::sink()));
        is_asked.recv().unwrap();
        assert!(!server.answers().are_given_within(Duration::ZERO));
        go_on.send(()).unwrap();
        assert!(server.answers().are_given_within(Duration::from_secs(60)));
        client.join().unwrap().unwrap();
    }

    #[test]
    fn the_order_that_ends_the_process_is_answered() {
        let dir = tempfile::tempdir().unwrap();
        let lock = FolderLock::exclusive(dir.path()).unwrap();
        let (asked, is_asked) = std::sync::mpsc::channel();
        let (go_on, may_go_on) = std::sync::mpsc::channel::<()>();
        let may_go_on = Mutex::new(may_go_on);
        let handler: Handler = Arc::new(move |_, _| {
            asked.send(()).unwrap();
            may_go_on.lock().unwrap().recv().unwrap();
            Reply::done()
        });
        let mut server = ControlServer::start(dir.path(), &lock, handler).unwrap();
        let folder = dir.path().to_owned();
        let client = std::thread::spawn(move || ask(&folder, &Request::Stop { thread: None }, &mut io::sink()));
        is_asked.recv().unwrap();
        let connections = Arc::clone(&server.connections);
        let stopping = std::thread::spawn(move || server.stop());
        while !connections.stopping.load(SeqCst) {
            std::thread::yield_now();
        }
        go_on.send(()).unwrap();
        client.join().unwrap().unwrap();
        stopping.join().unwrap();
    }

    #[test]
    fn nonsense_is_answered_without_its_password() {
        let dir = tempfile::tempdir().unwrap();
        let (_server, _lock) = start(dir.path());
        for line in
            ["\n", "{}\n", "{\"command\":\"fly\"}\n", "{\"command\":\"mysql://u:geheim@h\"}\n", "\u{0}\n", "[[[[\n"]
        {
            let mut stream = UnixStream::connect(dir.path().join(SOCKET_FILE)).unwrap();
            stream.write_all(line.as_bytes()).unwrap();
            let mut answer = String::new();
            stream.read_to_string(&mut answer).unwrap();
            let reply: Reply = serde_json::from_str(&answer).unwrap();
            assert_eq!((reply.ok, reply.exit), (false, 2), "{line}");
            assert!(!answer.contains("geheim"), "{answer}");
        }
    }

    #[test]
    fn the_33rd_asker_is_told_so_and_stop_cuts_them_all() {
        let dir = tempfile::tempdir().unwrap();
        let (mut server, _lock) = start(dir.path());
        let socket = dir.path().join(SOCKET_FILE);
        let mut idle: Vec<UnixStream> = (0..CONNECTIONS_MAX).map(|_| UnixStream::connect(&socket).unwrap()).collect();
        let failure = ask(dir.path(), &Request::Status {}, &mut io::sink()).unwrap_err();
        // A client that is still sending may see the refusal as a broken pipe; otherwise it sees the reason.
        assert_eq!(failure.exit, Exit::Error);
        server.stop();
        for stream in &mut idle {
            stream.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
            let mut rest = Vec::new();
            let ended = stream.read_to_end(&mut rest);
            assert!(ended.is_ok() || ended.unwrap_err().kind() == io::ErrorKind::ConnectionReset);
        }
    }

    #[test]
    fn an_asker_that_leaves_ends_the_dump() {
        let dir = tempfile::tempdir().unwrap();
        let (sender, receiver) = std::sync::mpsc::channel();
        let lock = FolderLock::exclusive(dir.path()).unwrap();
        let endless: Handler = Arc::new(move |_, out| {
            while out.write_all(&[0; 1000]).is_ok() {}
            let _ = sender.send(());
            Reply::done()
        });
        let _server = ControlServer::start(dir.path(), &lock, endless).unwrap();
        let mut stream = UnixStream::connect(dir.path().join(SOCKET_FILE)).unwrap();
        let mut line = serde_json::to_vec(&Request::Dump(DumpRequest::default())).unwrap();
        line.push(b'\n');
        stream.write_all(&line).unwrap();
        let mut header = [0; 1];
        stream.read_exact(&mut header).unwrap();
        drop(stream);
        receiver.recv_timeout(Duration::from_secs(10)).unwrap();
    }
}
