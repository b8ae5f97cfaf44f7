//! Questions to the source from time to time, over a connection of their own: how far its clock is from ours, and
//! whether it still has all that was received.
//!
//! In: the login in force. Out: the difference of the clocks, its error and when it was measured, and the executed set
//! of the source, in [`Link`]; the end of a connection to a source that has lost something. Never here: the reason,
//! which the next connection says.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use base::GtidSet;
use base::periods::{LOOK_FOR_ERRANT, WATCH_SOURCE};
use client::{ClientError, Connection};
use observe::ConnectionState;
use source::preflight;

use super::link::Link;
use crate::failure::shown_set;
use crate::login::SourceLogin;

/// Round trips per comparison; the shortest counts.
const CLOCK_ROUNDS: u32 = 5;
/// Interval at which the thread looks whether it is still needed.
const LOOK: Duration = Duration::from_millis(200);

/// Asks the source as long as the link is there.
pub(crate) fn watch_source(login: &Arc<SourceLogin>, link: &Arc<Link>) {
    let login = Arc::clone(login);
    let link = Arc::downgrade(link);
    let work = move || {
        let mut asked: Option<Asked> = None;
        let mut next = Instant::now() + WATCH_SOURCE.get();
        let mut seen = login.requests();
        let mut suspected = GtidSet::new();
        loop {
            std::thread::sleep(LOOK);
            let Some(link) = link.upgrade() else { return };
            if link.stopping.load(Ordering::Acquire) {
                return;
            }
            if Instant::now() < next {
                continue;
            }
            let requests = login.requests();
            let has_changed = std::mem::replace(&mut seen, requests) != requests;
            if has_changed || asked.as_ref().is_some_and(|asked| !asked.is_followed(&link)) {
                // The source may be another one now.
                asked = None;
                suspected = GtidSet::new();
            }
            if asked.is_none() {
                asked = Asked::connect(&login).ok();
            }
            let lacks = asked.as_mut().filter(|asked| asked.is_followed(&link)).map(|asked| asked.ask(&link));
            let Some(Ok(lacks)) = lacks else {
                asked = None;
                next = Instant::now() + WATCH_SOURCE.get();
                continue;
            };
            // A transaction on its way to the source's engine or group may be missing once.
            let lost = suspected.intersection(&lacks);
            if !lost.is_empty() {
                let text = format!("the source no longer has {}", shown_set(&lost));
                link.doubt(&format!("{text}; connecting again to find out why"), || true);
            }
            let wait = if lacks.is_empty() || !lost.is_empty() { WATCH_SOURCE } else { LOOK_FOR_ERRANT };
            suspected = if lost.is_empty() { lacks } else { GtidSet::new() };
            next = Instant::now() + wait.get();
        }
    };
    // Without the thread, lag is shown with the difference measured at connect.
    let _ = std::thread::Builder::new().name("clock".into()).spawn(work);
}

/// A connection to a server, and which one it is.
struct Asked {
    connection: Connection,
    server_uuid: String,
}

impl Asked {
    fn connect(login: &SourceLogin) -> Result<Asked, ClientError> {
        let mut connection = Connection::connect(&login.for_question())?;
        let server_uuid = connection.query_value("SELECT @@GLOBAL.server_uuid")?.unwrap_or_default();
        Ok(Asked { connection, server_uuid })
    }

    /// True if it is the server whose log is received: of several, another one may be followed by now.
    fn is_followed(&self, link: &Link) -> bool {
        link.lock().source.facts.server_uuid == self.server_uuid
    }

    /// Measures the clock. Returns what was received and the server has not, as far as it can say.
    fn ask(&mut self, link: &Link) -> Result<GtidSet, ClientError> {
        link.note_clock(source::clock::measure(&mut self.connection, CLOCK_ROUNDS)?);
        let executed = preflight::executed(&mut self.connection)?;
        link.lock().source.executed = Some((self.server_uuid.clone(), executed));
        let received = {
            let state = link.lock();
            // Without a connection the next one looks.
            let connected = state.source.connection == ConnectionState::Connected;
            if connected { state.received.retrieved.clone() } else { GtidSet::new() }
        };
        if received.is_empty() {
            return Ok(received);
        }
        let lacks = preflight::errant(&mut self.connection, &received)?.unwrap_or_default();
        // It was left while it was asked.
        Ok(if self.is_followed(link) { lacks } else { GtidSet::new() })
    }
}
