//! A statement that waits: it has put nothing out, and is run again once its wait has ended.

use std::time::{Duration, Instant};

use sql::{Ended, Event, Interrupt, SqlError, Statement, gtid_text};
use wire::command;
use wire::server::ClientCommand;

use super::query::Rest;
use super::{After, Session};
use crate::Output;
use crate::world::World;

/// Bytes of a statement that SHOW FULL PROCESSLIST shows: the length that it announces.
const INFO_BYTES: usize = 65_535;

/// What a session waits for.
#[derive(Debug, Clone)]
pub struct Waiting {
    pub event: Event,
    /// When the wait ends without it.
    pub until: Option<Instant>,
    /// When the statement is interrupted (`max_execution_time`).
    pub limit: Option<Instant>,
}

/// The statement that waits.
#[derive(Debug)]
pub(super) struct Suspended {
    waiting: Waiting,
    /// None until the command that it is part of is known.
    again: Option<Again>,
}

#[derive(Debug)]
enum Again {
    /// A statement of a COM_QUERY, and those that follow it.
    Query(Rest),
    /// The payload of a COM_STMT_EXECUTE.
    Execute(Vec<u8>),
}

impl Suspended {
    /// Bytes that it holds.
    pub(super) fn bytes(&self) -> usize {
        match &self.again {
            Some(Again::Query(rest)) => rest.bytes(),
            Some(Again::Execute(payload)) => payload.len(),
            None => 0,
        }
    }
}

/// The part of a statement's text that is shown.
fn shown(text: &[u8]) -> Vec<u8> {
    text.get(..text.len().min(INFO_BYTES)).unwrap_or_default().to_vec()
}

impl Session {
    /// What it waits for after [`After::Wait`].
    #[must_use]
    pub fn waiting(&self) -> Option<&Waiting> {
        self.suspended.as_ref().map(|suspended| &suspended.waiting)
    }

    /// How the statement that works arrived, and its text, if that is known.
    pub fn statement_text(&self) -> (&'static str, Option<Vec<u8>>) {
        match self.suspended.as_ref().and_then(|suspended| suspended.again.as_ref()) {
            Some(Again::Query(rest)) => ("Query", Some(shown(rest.text()))),
            Some(Again::Execute(payload)) => ("Execute", self.statements.text_of(payload).map(shown)),
            None => ("Query", None),
        }
    }

    /// The text that a payload executes, if it executes a prepared statement.
    pub fn text_to_execute(&self, payload: &[u8]) -> Option<&[u8]> {
        if payload.first() != Some(&command::STMT_EXECUTE) {
            return None;
        }
        self.statements.text_of(payload)
    }

    /// If the evaluation that just ended waits, that is noted.
    pub(super) fn suspends(&mut self, statement: &Statement, world: &dyn World) -> bool {
        let Some(wait) = self.progress.get_mut().take_wait() else { return false };
        let now = world.now();
        let began = *self.began.get_or_insert(now);
        let limit = match statement {
            Statement::Select(_) => self.settings.number("max_execution_time").filter(|limit| *limit > 0),
            _ => None,
        };
        let waiting = Waiting {
            event: wait.event,
            until: wait.timeout.and_then(|timeout| now.checked_add(timeout)),
            limit: limit.and_then(|limit| began.checked_add(Duration::from_millis(limit))),
        };
        self.suspended = Some(Suspended { waiting, again: None });
        true
    }

    /// Before a statement reads, it waits for this.
    pub(super) fn suspend(&mut self, waiting: Waiting) {
        self.suspended = Some(Suspended { waiting, again: None });
    }

    /// The statement that waits is part of this text.
    pub(super) fn goes_on_with(&mut self, rest: Rest) -> After {
        if let Some(suspended) = &mut self.suspended {
            suspended.again = Some(Again::Query(rest));
        }
        After::Wait
    }

    /// The statement that waits is executed by this command, unless it is part of a text.
    pub(super) fn executes_again(&mut self, payload: &[u8]) {
        if let Some(suspended) = &mut self.suspended
            && suspended.again.is_none()
        {
            suspended.again = Some(Again::Execute(payload.to_vec()));
        }
    }

    /// As [`waited`](Self::waited), before what it holds is counted.
    pub(super) fn go_on_after(&mut self, ended: Ended, world: &dyn World, out: &mut Output) -> After {
        let Some(Suspended { again, .. }) = self.suspended.take() else { return After::Next };
        if self.is_dumping() {
            return self.dump_waited(&ended, world, out);
        }
        if self.sending.is_some() {
            return self.more_has_come(&ended, world, out);
        }
        let is_over = matches!(ended, Ended::Interrupted(Interrupt::Shutdown));
        match &mut self.needs {
            Some(needs) => needs.ended(ended),
            None => self.progress.get_mut().ended(ended),
        }
        if is_over {
            self.needs = None;
            self.statement_ends();
            return self.fail(&Interrupt::Shutdown.error(), out);
        }
        match again {
            Some(Again::Query(rest)) => {
                self.rest = Some(rest);
                self.go_on(world, out)
            }
            Some(Again::Execute(payload)) => match ClientCommand::parse(&payload, self.capabilities) {
                Ok(ClientCommand::Execute(execute)) => {
                    if let Err(error) = self.memory.work_with(payload.len() * super::PAYLOAD_COPIES) {
                        return self.fail(&error, out);
                    }
                    let after = self.execute(&execute, world, out);
                    self.executes_again(&payload);
                    after
                }
                _ => self.fail(&SqlError::new(1835, "HY000", "Malformed communication packet"), out),
            },
            None => After::Next,
        }
    }

    /// `session_track_gtids` before a statement.
    pub(super) fn tracks_gtids(&self) -> String {
        self.settings.text("session_track_gtids").unwrap_or_default().to_owned()
    }

    /// What the OK of a statement tells of visible GTIDs, which 9.7 tells outside transactions and at their COMMIT.
    /// OWN_GTID never tells anything: nothing is executed here under a GTID of its own.
    pub(super) fn track_gtids(&mut self, before: String, statement: &Statement, world: &dyn World) {
        let is_on = match self.settings.text("session_track_gtids") {
            _ if before == "ALL_GTIDS" => true,
            now => before == "OFF" && now == Some("ALL_GTIDS"),
        };
        let tells = match statement {
            Statement::Rollback(_) => false,
            Statement::Commit(_) => true,
            _ => !self.transaction.is_open(),
        };
        let visible = if is_on && tells { world.gtids().visible().ok() } else { None };
        self.changes.gtids(visible.map(|set| gtid_text(&set)));
    }

    /// A statement begins; one that goes on after a wait keeps its moment.
    pub(super) fn statement_begins(&mut self, world: &dyn World) {
        if self.began.is_none() {
            self.settings.learn(world.own_values());
            self.settings.statement_begins();
        }
    }

    /// Forgets how far the statement had come.
    pub(super) fn statement_ends(&mut self) {
        self.began = None;
        self.listed = (Vec::new(), None);
        self.beside = Default::default();
        *self.progress.get_mut() = Default::default();
    }
}
