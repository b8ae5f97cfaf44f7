//! Server that sends a log as a MySQL source does.
//!
//! In: a log, recorded or being received; connections of replicas (ours, stock MySQL's, mysqlbinlog). Out: the
//! handshake, answers to the queries that a replica sends before it requests the log, the dump with heartbeats, figures
//! per dump; which replicas of a log that grows have acknowledged it; the events of a relay log's file, one by one.
//! Never here: a table, a change, an answer to any other query; TLS.
#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used))]

mod acks;
mod dump;
mod error;
mod events;
mod files;
mod listing;
mod questions;
mod relay;
mod served;
mod session;
mod stepped;

use std::collections::BTreeSet;
use std::net::{TcpListener, TcpStream};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

pub use acks::AckWanted;
use binlog::ChecksumAlgorithm;
pub use dump::Start;
use error::Result;
pub use error::ServeError;
pub use files::{LogFiles, RecordedLog};
pub use listing::{EventList, ListError, ListStep, ListedEvent, ListedFile};
pub use relay::{Identity, RelaySource};
pub use served::{GrowingFile, GrowingLog, Listed, OnChange, ReplicaLine};
use session::Session;
pub use stepped::{DumpEnds, DumpOptions, LogDump, PutEvent, STEP_BYTES, Step};

/// Interval at which the listener checks for connections and for `stop`.
const LOOK: Duration = Duration::from_millis(5);
/// Maximum number of connections; a replica needs one, and occasionally a second one.
const SESSIONS_MAX: usize = 64;

/// A part of the log that is sent at its own pace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// The load phase, sent first at full speed.
    Load,
    Log,
}

/// Sleeps for at most the given time.
pub type Waiting<'w> = &'w mut dyn FnMut(Duration) -> std::result::Result<(), ServeError>;

/// Delays a transaction until its time, and returns the event to send in place of its first one, with the same length.
/// In: that event, the checksum algorithm of its log, the number of bytes of the part sent with it.
pub type Hold = Box<dyn FnMut(&[u8], ChecksumAlgorithm, u64, Waiting<'_>) -> std::result::Result<Vec<u8>, ServeError>>;

/// Options of a log server.
pub struct ServeOptions<'a> {
    /// Address and port to listen on; port 0: a free port, which is reported.
    pub listen: &'a str,
    /// Password of a login; None: anyone who reaches the address may log in with any name.
    pub password: Option<String>,
    /// Times at which the transactions of a part of a recorded log are sent; None: at once, as recorded.
    pub hold: Option<&'a (dyn Fn(Part) -> Hold + Sync)>,
}

/// State shared by all sessions.
struct Shared<'a> {
    log: &'a LogFiles,
    options: &'a ServeOptions<'a>,
    stop: &'a AtomicBool,
    connections: AtomicU32,
    replicas: Mutex<BTreeSet<u32>>,
    told: &'a (dyn Fn(&str) + Sync),
}

/// Serves the log until `stop` is set; `told` gets a line for the address, and for each part of each dump.
///
/// # Errors
/// The server cannot listen on the address.
pub fn serve(
    log: &LogFiles,
    options: &ServeOptions<'_>,
    stop: &AtomicBool,
    told: &(dyn Fn(&str) + Sync),
) -> Result<(), ServeError> {
    let listen = || {
        let listener = TcpListener::bind(options.listen)?;
        listener.set_nonblocking(true)?;
        let address = listener.local_addr()?;
        Ok((listener, address))
    };
    let (listener, address) = listen().map_err(ServeError::io(format!("listen on {}", options.listen)))?;
    told(&format!("listening on {address}: {}", log.about()));
    let shared = Shared { log, options, stop, connections: AtomicU32::new(0), replicas: Mutex::default(), told };
    std::thread::scope(|scope| {
        let mut sessions = Vec::new();
        while !stop.load(Ordering::Relaxed) {
            let stream = match listener.accept() {
                Ok((stream, _)) => stream,
                Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {
                    std::thread::sleep(LOOK);
                    continue;
                }
                // The connection was closed before it was accepted.
                Err(error) if error.kind() == std::io::ErrorKind::ConnectionAborted => continue,
                Err(error) => {
                    // The scope waits for the sessions, which end when the flag is set.
                    stop.store(true, Ordering::Relaxed);
                    return Err(ServeError::io("accept connections")(error));
                }
            };
            sessions.retain(|session: &std::thread::ScopedJoinHandle<'_, ()>| !session.is_finished());
            if sessions.len() < SESSIONS_MAX {
                sessions.push(scope.spawn(|| one(&shared, stream)));
            }
        }
        Ok(())
    })
}

/// Serves one connection to its end.
fn one(shared: &Shared<'_>, stream: TcpStream) {
    let number = shared.connections.fetch_add(1, Ordering::Relaxed) + 1;
    if let Err(error) = Session::new(shared, stream, number).and_then(|mut session| session.serve()) {
        (shared.told)(&format!("connection {number}: {error}"));
    }
}
