//! `--show`: what the source has executed, asked while transactions wait to become visible, if that is to be awaited.
//!
//! In: transactions that the source is not known to have executed. Out: those that it has, to the publisher. Never
//! here: an answer by a server other than the followed one, or one about other transactions: a source's gtid_executed
//! may be as long as it likes.
//!
//! A source sends its log before its engine commits. Under semi-synchronous AFTER_SYNC, and with sync_binlog other than
//! 1, seconds may pass between the two, and after a crash of the source such a transaction may be gone.

use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use apply::Publisher;
use base::{Gtid, GtidSet};
use client::{Connection, ResultSet};
use source::replication::semi_sync_state;

use crate::config::ShowWhen;
use crate::exit::Failure;
use crate::inbound::Inbound;
use crate::login::SourceLogin;
use crate::receiver::link::Link;

/// How long one look at what waits takes, and the pause after a question that failed.
const LOOK_EVERY: Duration = Duration::from_millis(200);
/// How often the source's settings are looked at, which may change.
const SETTINGS_EVERY: Duration = Duration::from_secs(5);
/// How long the source waits for the transaction before it answers, seconds.
const SOURCE_WAITS_S: u32 = 1;
/// Most bytes of an answer: every second transaction of a whole question, or as many of servers of their own.
const ANSWER_BYTES_MAX: usize = 8 << 20;

/// Starts the thread that asks, if it may be needed; it ends with receiving. Nothing is shown before its first answer.
///
/// # Errors
/// The source cannot be asked because it is files, or the system cannot start a thread.
pub(crate) fn watch(show: ShowWhen, inbound: &Inbound, publisher: &Arc<Publisher>) -> Result<(), Failure> {
    if show == ShowWhen::Received {
        return Ok(());
    }
    let Inbound { login: Some(login), link, .. } = inbound else {
        let text = "--show=acknowledged asks the source what it has executed: it needs a server, not files";
        return if show == ShowWhen::Auto { Ok(()) } else { Err(Failure::usage(text)) };
    };
    publisher.show_only_acknowledged();
    let asker = Asker {
        login: Arc::clone(login),
        link: Arc::downgrade(link),
        publisher: Arc::downgrade(publisher),
        connection: None,
        looked: None,
    };
    let thread = std::thread::Builder::new().name("acknowledged".into());
    let started = thread.spawn(move || asker.run(show == ShowWhen::Auto));
    started.map(drop).map_err(|error| Failure::error(format!("cannot start a thread: {error}")))
}

struct Asker {
    login: Arc<SourceLogin>,
    link: Weak<Link>,
    publisher: Weak<Publisher>,
    connection: Option<Connection>,
    /// When the source's settings were looked at, if they decide.
    looked: Option<Instant>,
}

impl Asker {
    fn run(mut self, settings_decide: bool) {
        let mut seen = self.login.requests();
        while let Some(followed) = self.followed() {
            let requests = self.login.requests();
            if std::mem::replace(&mut seen, requests) != requests {
                // The source may be another one now.
                (self.connection, self.looked) = (None, None);
            }
            let looks = settings_decide && self.looked.is_none_or(|at| at.elapsed() > SETTINGS_EVERY);
            let went = if looks { self.looks_at_settings(&followed) } else { self.acknowledges(&followed) };
            if went.is_none() {
                self.connection = None;
                std::thread::sleep(LOOK_EVERY);
            }
        }
    }

    /// The server_uuid of the followed source; None once receiving ends.
    fn followed(&self) -> Option<String> {
        let link = self.link.upgrade()?;
        let ends = link.stopping.load(Ordering::Acquire) || self.publisher.strong_count() == 0;
        (!ends).then(|| link.lock().source.facts.server_uuid.clone())
    }

    fn connection(&mut self) -> Option<&mut Connection> {
        if self.connection.is_none() {
            self.connection = Connection::connect(&self.login.for_question()).ok();
        }
        self.connection.as_mut()
    }

    /// Shows what the source's settings call for; None if it did not say.
    fn looks_at_settings(&mut self, followed: &str) -> Option<()> {
        let (server_uuid, commits_late) = commits_late(self.connection()?).ok()?;
        let publisher = self.publisher.upgrade().filter(|_| server_uuid == followed)?;
        if commits_late {
            publisher.show_only_acknowledged();
        } else {
            publisher.show_received();
        }
        self.looked = Some(Instant::now());
        Some(())
    }

    /// Has what the source has executed become visible, if something waits for that; None if it did not say.
    fn acknowledges(&mut self, followed: &str) -> Option<()> {
        // It has the store, which an engine that ends must be able to close while the source is asked.
        let waits = self.publisher.upgrade()?.wait_unacknowledged(LOOK_EVERY);
        let Some(gtid) = waits else { return Some(()) };
        wait_for(self.connection()?, &gtid).ok()?;
        let waiting = self.publisher.upgrade()?.waiting();
        let (server_uuid, set) = executed(self.connection()?, &waiting).ok()?;
        self.publisher.upgrade().filter(|_| server_uuid == followed)?.acknowledge(set);
        Some(())
    }
}

/// The server, and whether it may commit what it has sent long after that, or never.
fn commits_late(connection: &mut Connection) -> client::Result<(String, bool)> {
    let ask = "SELECT @@GLOBAL.server_uuid, @@GLOBAL.sync_binlog";
    let answer = connection.query(ask)?;
    let (server_uuid, syncs_every): (_, u64) = (answer.told(0, 0, ask)?, answer.told(0, 1, ask)?);
    Ok((server_uuid, syncs_every != 1 || semi_sync_state(connection)? == Some(true)))
}

/// Waits until the source has executed this transaction, or [`SOURCE_WAITS_S`].
fn wait_for(connection: &mut Connection, gtid: &Gtid) -> client::Result<()> {
    connection.query(&format!("SELECT WAIT_FOR_EXECUTED_GTID_SET('{gtid}', {SOURCE_WAITS_S})")).map(drop)
}

/// The server, and what it has executed of this set.
fn executed(connection: &mut Connection, waiting: &GtidSet) -> client::Result<(String, GtidSet)> {
    let ask = format!("SELECT @@GLOBAL.server_uuid, GTID_SUBTRACT('{waiting}', @@GLOBAL.gtid_executed)");
    let answer: ResultSet = connection.query_within(&ask, ANSWER_BYTES_MAX)?;
    const WHAT: &str = "what the source has not executed";
    let lacks: GtidSet = answer.told(0, 1, WHAT)?;
    Ok((answer.told(0, 0, WHAT)?, waiting.subtract(&lacks)))
}
