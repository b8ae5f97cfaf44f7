//! `--show=acknowledged`: what the source has executed, asked while transactions wait to become visible.
//!
//! In: transactions that the source is not known to have executed. Out: those that it has, to the publisher. Never
//! here: an answer by a server other than the followed one, or one about other transactions: a source's gtid_executed
//! may be as long as it likes.
//!
//! A source sends its log before its engine commits. Under semi-synchronous AFTER_SYNC, and with sync_binlog other than
//! 1, seconds may pass between the two, and after a crash of the source such a transaction may be gone.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::Duration;

use apply::Publisher;
use base::{Gtid, GtidSet};
use client::{Connection, ResultSet};

use crate::exit::Failure;
use crate::inbound::Inbound;
use crate::login::SourceLogin;
use crate::receiver::link::Link;

/// How long one look at what waits takes, and the pause after a question that failed.
const LOOK_EVERY: Duration = Duration::from_millis(200);
/// How long the source waits for the transaction before it answers, seconds.
const SOURCE_WAITS_S: u32 = 1;
/// Most bytes of an answer: every second transaction of a whole question, or as many of servers of their own.
const ANSWER_BYTES_MAX: usize = 8 << 20;

/// Starts the thread that asks, if `wanted`; it ends with receiving. Nothing is shown before its first answer.
///
/// # Errors
/// The source cannot be asked because it is files, or the system cannot start a thread.
pub(crate) fn watch(wanted: bool, inbound: &Inbound, publisher: &Arc<Publisher>) -> Result<(), Failure> {
    if !wanted {
        return Ok(());
    }
    let Inbound { login: Some(login), link, .. } = inbound else {
        let text = "--show=acknowledged asks the source what it has executed: it needs a server, not files";
        return Err(Failure::usage(text));
    };
    publisher.show_only_acknowledged();
    let (login, link, publisher) = (Arc::clone(login), Arc::downgrade(link), Arc::downgrade(publisher));
    let thread = std::thread::Builder::new().name("acknowledged".into());
    let started = thread.spawn(move || ask_while_needed(&login, &link, &publisher));
    started.map(drop).map_err(|error| Failure::error(format!("cannot start a thread: {error}")))
}

fn ask_while_needed(login: &SourceLogin, link: &Weak<Link>, asking: &Weak<Publisher>) {
    let mut connection: Option<Connection> = None;
    let mut seen = login.requests();
    loop {
        let (Some(link), Some(publisher)) = (link.upgrade(), asking.upgrade()) else { return };
        if link.stopping.load(Ordering::Acquire) {
            return;
        }
        let requests = login.requests();
        if std::mem::replace(&mut seen, requests) != requests {
            // The source may be another one now.
            connection = None;
        }
        let waits = publisher.wait_unacknowledged(LOOK_EVERY).map(|gtid| (gtid, publisher.waiting()));
        // It has the store, which an engine that ends must be able to close while the source is asked.
        drop(publisher);
        let Some((gtid, waiting)) = waits else { continue };
        if connection.is_none() {
            connection = Connection::connect(&login.for_question()).ok();
        }
        let followed = link.lock().source.facts.server_uuid.clone();
        match connection.as_mut().and_then(|connection| executed(connection, &gtid, &waiting).ok()) {
            Some((server_uuid, set)) if server_uuid == followed => {
                let Some(publisher) = asking.upgrade() else { return };
                publisher.acknowledge(set);
            }
            _ => {
                connection = None;
                std::thread::sleep(LOOK_EVERY);
            }
        }
    }
}

/// The server, and what it has executed of this set once it has this transaction, or after [`SOURCE_WAITS_S`].
fn executed(connection: &mut Connection, gtid: &Gtid, waiting: &GtidSet) -> client::Result<(String, GtidSet)> {
    connection.query(&format!("SELECT WAIT_FOR_EXECUTED_GTID_SET('{gtid}', {SOURCE_WAITS_S})"))?;
    let ask = format!("SELECT @@GLOBAL.server_uuid, GTID_SUBTRACT('{waiting}', @@GLOBAL.gtid_executed)");
    let answer: ResultSet = connection.query_within(&ask, ANSWER_BYTES_MAX)?;
    const WHAT: &str = "what the source has not executed";
    let lacks: GtidSet = answer.told(0, 1, WHAT)?;
    Ok((answer.told(0, 0, WHAT)?, waiting.subtract(&lacks)))
}
