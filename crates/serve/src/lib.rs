//! A log served as a source serves it.
//!
//! In: a log, recorded or being received; connections of replicas (ours, stock MySQL's, mysqlbinlog). Out: the
//! handshake, answers to what a replica asks before it asks for the log, the dump with heartbeats; figures of each
//! dump. Never here: a table, a change, an answer to any other question; TLS; semi-synchronous acknowledgements.
#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used))]

mod dump;
mod error;
mod files;
mod questions;
mod relay;
mod session;

use std::collections::BTreeSet;
use std::net::{TcpListener, TcpStream};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use binlog::ChecksumAlgorithm;
use error::Result;
pub use error::ServeError;
pub use files::{LogFiles, RecordedLog};
pub use relay::{Identity, RelaySource};
use session::Session;

/// How often the listener looks for connections and at `stop`.
const LOOK: Duration = Duration::from_millis(5);
/// Connections at once; a replica needs one, and one more now and then.
const SESSIONS_MAX: usize = 64;

/// A part of the log that is sent at a pace of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Part {
    /// What is sent before, at full speed.
    Load,
    /// The log.
    Log,
}

/// Sleeps for the time given, or for less.
pub type Waiting<'w> = &'w mut dyn FnMut(Duration) -> std::result::Result<(), ServeError>;

/// Holds a transaction back until its moment and gives the event to send in place of its first one, of the same
/// length. In: that event, the checksum of its log, the bytes of the part sent with it.
pub type Hold = Box<dyn FnMut(&[u8], ChecksumAlgorithm, u64, Waiting<'_>) -> std::result::Result<Vec<u8>, ServeError>>;

/// How a log is served.
pub struct ServeOptions<'a> {
    /// Address and port to listen on; port 0: a free one, which is told.
    pub listen: &'a str,
    /// What a login must know; None: whoever reaches the address may log in, under any name.
    pub password: Option<String>,
    /// When each transaction of a part of a recorded log is sent; None: at once, as it was recorded.
    pub hold: Option<&'a (dyn Fn(Part) -> Hold + Sync)>,
}

/// What all sessions share.
struct Shared<'a> {
    log: &'a LogFiles,
    options: &'a ServeOptions<'a>,
    stop: &'a AtomicBool,
    connections: AtomicU32,
    replicas: Mutex<BTreeSet<u32>>,
    told: &'a (dyn Fn(&str) + Sync),
}

/// Serves the log until `stop` is raised; `told` gets a line for the address, and for each part of each dump.
///
/// # Errors
/// When the address cannot be listened on.
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
                // A connection that was gone before it was taken.
                Err(error) if error.kind() == std::io::ErrorKind::ConnectionAborted => continue,
                Err(error) => {
                    // The scope waits for the sessions, which end at the flag.
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

/// One connection to its end.
fn one(shared: &Shared<'_>, stream: TcpStream) {
    let number = shared.connections.fetch_add(1, Ordering::Relaxed) + 1;
    if let Err(error) = Session::new(shared, stream, number).and_then(|mut session| session.serve()) {
        (shared.told)(&format!("connection {number}: {error}"));
    }
}
