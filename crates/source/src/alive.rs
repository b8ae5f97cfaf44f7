//! Questions without a time limit: a list of 50,000 tables, or a lock, takes as long as it takes. A server that owes an
//! answer for long is therefore asked over another connection whether it still answers anybody.
//!
//! In: the connections that ask, how to log in. Out: the end of their reads once the server is lost. Never here: a
//! limit on an answer of a server that lives.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use client::{ClientError, ConnectOptions, Connection, Interrupter, Result};

/// Time without a byte of an answer after which a server is asked, and between two such questions: three heartbeats of
/// one that is followed.
pub const SILENT_FOR: Duration = Duration::from_secs(3);
/// How long a login may take there. A server whose machine does other things answers later than a frozen one never.
const ANSWERS_WITHIN: Duration = Duration::from_secs(5);
/// Interval of the looks.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// Connections whose reads end once their server is lost.
pub struct Asking {
    /// None once all questions are answered.
    connections: Mutex<Option<Vec<Interrupter>>>,
    ended: Condvar,
    lost: AtomicBool,
}

/// Ends the watch, on panic too.
struct EndAtDrop<'a>(&'a Asking);

impl Drop for EndAtDrop<'_> {
    fn drop(&mut self) {
        self.0.lock().take();
        self.0.ended.notify_all();
    }
}

impl Asking {
    /// Asks `questions` of a server over connections that are [added](Self::add). The second value is true if their
    /// reads were ended because the server is lost. A raised `stop` ends them, too.
    pub fn run<T>(server: &ConnectOptions, stop: &AtomicBool, questions: impl FnOnce(&Asking) -> T) -> (T, bool) {
        let asking =
            Asking { connections: Mutex::new(Some(Vec::new())), ended: Condvar::new(), lost: AtomicBool::new(false) };
        let answers = std::thread::scope(|scope| {
            let _ended = EndAtDrop(&asking);
            scope.spawn(|| asking.watch(server, stop));
            questions(&asking)
        });
        (answers, asking.lost.into_inner())
    }

    /// Connects for questions: the login has a time limit, later answers have that of the options.
    ///
    /// # Errors
    /// The server cannot be reached or refuses.
    pub fn connect(
        &self,
        server: &ConnectOptions,
        connect: impl FnOnce(&ConnectOptions) -> Result<Connection>,
    ) -> Result<Connection> {
        let quick = ConnectOptions { read_timeout: Some(server.connect_timeout), ..server.clone() };
        let mut connection = connect(&quick)?;
        connection.set_read_timeout(server.read_timeout)?;
        if let Some(connections) = self.lock().as_mut() {
            connections.push(connection.interrupter()?);
        }
        Ok(connection)
    }

    fn lock(&self) -> MutexGuard<'_, Option<Vec<Interrupter>>> {
        self.connections.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn watch(&self, server: &ConnectOptions, stop: &AtomicBool) {
        let is_silent = || self.lock().iter().flatten().any(is_silent);
        let pause = || {
            let waited = self.ended.wait_timeout(self.lock(), LOOK_EVERY);
            let (connections, _) = waited.unwrap_or_else(PoisonError::into_inner);
            connections.is_none() || stop.load(Ordering::Relaxed)
        };
        let is_lost = is_lost(server, is_silent, pause);
        // Those of questions that have been answered stay.
        if let Some(connections) = self.lock().as_ref() {
            self.lost.store(is_lost, Ordering::Relaxed);
            connections.iter().for_each(Interrupter::shutdown);
        }
    }
}

/// True if the server has sent nothing for a while although an answer is waited for.
#[must_use]
pub fn is_silent(connection: &Interrupter) -> bool {
    connection.read_waits() >= SILENT_FOR
}

/// Returns true once the server is silent and answers no login either; false once `pause`, which waits for a moment,
/// says that nothing is asked any more.
pub fn is_lost(server: &ConnectOptions, is_silent: impl Fn() -> bool, mut pause: impl FnMut() -> bool) -> bool {
    let limit = server.connect_timeout.min(ANSWERS_WITHIN);
    let options = ConnectOptions { connect_timeout: limit, read_timeout: Some(limit), ..server.clone() };
    let looks = SILENT_FOR.as_millis() / LOOK_EVERY.as_millis();
    loop {
        if pause() {
            return false;
        }
        if !is_silent() {
            continue;
        }
        match Connection::connect(&options) {
            Err(error) if is_no_answer(&error) => {
                if is_silent() {
                    return true;
                }
            }
            _ => {
                if (0..looks).any(|_| pause()) {
                    return false;
                }
            }
        }
    }
}

/// A refusal is an answer.
fn is_no_answer(error: &ClientError) -> bool {
    use ClientError as E;
    matches!(error, E::Resolve { .. } | E::Connect { .. } | E::Io { .. } | E::ReadTimeout | E::Closed)
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;
    use std::net::{TcpListener, TcpStream};
    use std::sync::atomic::AtomicU32;

    use super::*;

    /// A server that does this with each connection.
    fn server(each: impl Fn(&mut TcpStream) + Send + 'static) -> ConnectOptions {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        std::thread::spawn(move || {
            let mut kept = Vec::new();
            for connection in listener.incoming() {
                let mut connection = connection.unwrap();
                each(&mut connection);
                kept.push(connection);
            }
        });
        let connect_timeout = Duration::from_millis(50);
        ConnectOptions { host: "127.0.0.1".into(), port, connect_timeout, ..ConnectOptions::default() }
    }

    /// Looks a few times at a server that is silent from the second look on.
    fn looks(server: &ConnectOptions, looks: u32) -> bool {
        let count = AtomicU32::new(0);
        let silent = || count.load(Ordering::Relaxed) >= 2;
        is_lost(server, silent, || count.fetch_add(1, Ordering::Relaxed) >= looks)
    }

    #[test]
    fn a_server_is_lost_that_is_silent_and_answers_nobody() {
        let mute = server(|_| ());
        assert!(looks(&mute, 5));
        assert!(!looks(&mute, 1), "nobody asks");
        let mut left = 5;
        let pause = || {
            left -= 1;
            left == 0
        };
        assert!(!is_lost(&mute, || false, pause), "not silent");
        let gone =
            ConnectOptions { port: TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port(), ..mute };
        assert!(looks(&gone, 5));
        // ER_CON_COUNT_ERROR: busy, but alive.
        let full = server(|connection| {
            let message = b"\xff\x10\x04Too many connections";
            let mut packet = vec![message.len() as u8, 0, 0, 0];
            packet.extend_from_slice(message);
            connection.write_all(&packet).unwrap();
        });
        assert!(!looks(&full, 5));
    }
}
