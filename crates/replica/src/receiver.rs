//! Receiver: feeds the relay log, and reconnects to the source as often as necessary.
//!
//! In: a source's dump stream, or binlog files. Out: appends to the relay log, acknowledgements after our sync, the
//! state of the connection. Never here: replay; an acknowledgement before the sync; a transaction split by a reconnect.

mod acknowledge;
mod choice;
mod connect;
mod files;
mod inquiry;
mod lagging;
pub(crate) mod link;
mod log_end;
mod receive;
mod retry;
mod view;
mod watch;

use std::sync::Arc;
use std::sync::atomic::Ordering;

use base::LogPosition;
use client::ConnectOptions;
use observe::{ConnectionState, now_us};
use relay_log::{Intake, RelayWriter};
use store::DiskSpace;

use crate::after_replicas::AfterReplicas;
use crate::config::{OnStop, ReplicaConfig, ServerOptions};
use crate::exit::Failure;
use crate::failure::{SourceTrouble as Trouble, relay_failure};
use crate::folder::Folder;
use crate::log::{self, Code};
use crate::room::Room;

use acknowledge::Acknowledger;
use choice::Try;
pub(crate) use choice::{LogSource, SourceChoice};
pub use connect::SOURCE_WAS_RESET;
pub(crate) use connect::not_verified;
use connect::{Connected, Connector};
pub(crate) use files::list_files;
pub(crate) use inquiry::watch_source;
use link::Link;
use log_end::LogEnd;
use receive::Session;

#[derive(Clone, Debug, Default)]
pub enum Receive {
    /// The first start of this process: a source that refuses us is an error of the start.
    #[default]
    First,
    /// The engine is started again, and receiving goes on.
    Again,
    /// The engine is started again, and receiving stays stopped, for this reason if it was not asked for.
    Stopped(Option<Failure>),
}

/// Receives from one source into one relay log.
pub(crate) struct Receiver {
    source: LogSource,
    session: Session,
    /// A connection made by the start.
    first: Option<Box<Connected>>,
}

impl Receiver {
    /// Prepares to receive. Connects to and checks the source here only if nothing was ever received from it. Otherwise
    /// `run` does that, so that replay of the kept log need not wait. A source that cannot be reached is an error only
    /// the first time.
    ///
    /// # Errors
    /// Problems found by preflight, or the source cannot be reached.
    pub(crate) fn prepare(
        config: &ReplicaConfig,
        folder: &Folder,
        link: &Arc<Link>,
        writer: RelayWriter,
        receive: &Receive,
        source: LogSource,
    ) -> Result<Receiver, Failure> {
        let start = writer.source_position().cloned();
        let start = start.unwrap_or(LogPosition { file: Arc::from(""), offset: 4 });
        let connector = Connector::new(config, folder, link, writer.shared());
        let mut intake = Intake::new(writer, start).with_source_clock(Arc::clone(&link.source_clock));
        if let LogSource::Server(_) = &source {
            intake = intake.with_only_gtids();
        }
        let session = Session {
            config: config.clone(),
            link: Arc::clone(link),
            connector,
            end: LogEnd::new(intake, link),
            acknowledger: Acknowledger::default(),
            ended_because: None,
        };
        let mut receiver = Receiver { source, session, first: None };
        if let LogSource::Server(choice) = &mut receiver.source {
            receiver.first = connect_first(&mut receiver.session, choice, receive)?;
        }
        Ok(receiver)
    }

    /// Waits before a transaction for which this file system has no room.
    #[must_use]
    pub(crate) fn within(mut self, space: &Arc<DiskSpace>) -> Receiver {
        self.session.end.room = Some(Room::new(Arc::clone(space)));
        self
    }

    /// Acknowledges the source only after replicas have.
    #[must_use]
    pub(crate) fn acknowledging(mut self, after_replicas: Option<AfterReplicas>) -> Receiver {
        self.session.acknowledger = Acknowledger::new(after_replicas);
        self
    }

    /// The source's `lower_case_table_names`.
    #[must_use]
    pub(crate) fn lower_case_table_names(&self) -> u8 {
        self.session.link.lock().source.facts.lower_case_table_names
    }

    /// Takes another configuration of the connection to the source.
    pub(crate) fn configure(&mut self, config: &ReplicaConfig) {
        self.session.config.heartbeat = config.heartbeat;
        if let LogSource::Server(choice) = &mut self.source {
            choice.configure(config);
        }
    }

    /// Connects to another source and checks that it may be followed from here, without following it.
    ///
    /// # Errors
    /// Why it may not, or that it cannot be reached.
    pub(crate) fn try_source(&self, server: &ServerOptions) -> Result<(), Failure> {
        let read_timeout = Some(self.session.config.read_timeout);
        let mut result = Ok(());
        // One of several is enough.
        for server in server.each()? {
            let options = ConnectOptions { read_timeout, ..server.connect_options()? };
            let attempt = Try { options, has_others: false };
            result = self.session.connector.try_source(&attempt, self.session.end.retrieved());
            if result.is_ok() {
                break;
            }
        }
        result
    }

    /// Receives until stopped, or until a failure that a retry cannot fix. Returns the receiver if it may go on later:
    /// the relay log stays open, so that replay waits for more.
    pub(crate) fn run(mut self) -> Option<Receiver> {
        let link = Arc::clone(&self.session.link);
        let result = match &mut self.source {
            LogSource::Server(choice) => retry::follow(&mut self.session, choice, self.first.take()),
            LogSource::Files(files) => files::receive(&mut self.session.end, &link, files),
        };
        let result = result.and_then(|()| self.session.end.abort_partial());
        let failed = result.is_err();
        if let Err(failure) = result {
            link.note_error(&failure);
            link.lock().received.failure = Some(failure);
        }
        let files_done = {
            let mut state = link.lock();
            state.source.connection = ConnectionState::Stopped;
            state.source.since_us = now_us();
            state.received.files_done
        };
        let ends = files_done || failed && self.session.config.on_stop == OnStop::Exit;
        if ends || link.stopping.load(Ordering::Acquire) {
            self.close();
            return None;
        }
        Some(self)
    }

    /// Closes the relay log, so that replay ends after its last transaction.
    pub(crate) fn close(self) {
        let Session { end, link, .. } = self.session;
        let closed = end.close();
        let mut state = link.lock();
        if let Err(error) = closed
            && state.received.failure.is_none()
        {
            state.received.failure = Some(relay_failure(error));
        }
    }
}

/// Connects to the source, or to the first of several that can be followed.
fn connect_any(session: &Session, choice: &mut SourceChoice) -> Result<Connected, Trouble> {
    let (login, _) = choice.login();
    let _awaits = login.awaits();
    choice.forget_failures();
    loop {
        let trouble = match session.connector.connect(&choice.next(), session.end.retrieved()) {
            Ok(connected) => return Ok(connected),
            Err(trouble) => trouble,
        };
        if !choice.has_others() || matches!(trouble, Trouble::Fatal(_) | Trouble::NoRoom(_)) {
            return Err(trouble);
        }
        let (shown, failure) = (choice.shown(), Failure::from(trouble));
        log::write(Code::SourceLeft, "Source", &format!("{shown}: {}", failure.text));
        if choice.again(&failure).is_none_or(|attempt| attempt.all_failed) {
            return Err(Trouble::Again(choice.none_can_be_followed()));
        }
    }
}

/// The connection of a first start. None if the source's facts are known and either receiving began earlier or the
/// source cannot be reached.
fn connect_first(
    session: &mut Session,
    choice: &mut SourceChoice,
    receive: &Receive,
) -> Result<Option<Box<Connected>>, Failure> {
    let link = Arc::clone(&session.link);
    let began = !session.end.retrieved().is_empty() || !matches!(receive, Receive::First);
    let first = match session.connector.read_facts()? {
        Some(known) if began => {
            let mut state = link.lock();
            state.source.connection = ConnectionState::Connecting;
            state.source.facts = known;
            None
        }
        known => match connect_any(session, choice) {
            Ok(connected) => Some(Box::new(connected)),
            Err(Trouble::Again(failure)) => {
                let Some(known) = known else { return Err(failure) };
                link.note_error(&failure);
                log::write(Code::ConnectionLost, "Source", &format!("{}; trying again", failure.text));
                link.lock().source.facts = known;
                None
            }
            Err(trouble) => return Err(trouble.into()),
        },
    };
    session.connector.keep_facts()?;
    Ok(first)
}
