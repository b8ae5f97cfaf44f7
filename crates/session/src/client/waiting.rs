//! A statement that waits keeps its tree and its place: it has put nothing out, and continues from there.

use std::cell::RefCell;
use std::time::Instant;

use sql::{Ended, Evaluation, Event, Interrupt, Purse, Statement, TrackedGtids, Value, Wait, Warning, gtid_text};
use wire::command;

use super::beside::Beside;
use super::freshness::Needs;
use super::listings::PlannedListing;
use super::texts::{Begun, Rest};
use super::{After, Session};
use crate::Output;
use crate::world::{SessionLine, World};

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

/// Where the statement that runs has come to.
#[derive(Debug, Default)]
pub(super) struct Place {
    /// When it began to wait first.
    pub(super) began: Option<Instant>,
    /// What it waits for before it reads.
    pub(super) needs: Option<Needs>,
    /// What it reads is as fresh as it needs.
    pub(super) is_fresh: bool,
    pub(super) evaluation: Evaluation,
    /// The columns of a SELECT without a table, and whether it has a row, once they are computed.
    pub(super) selected: Option<(Vec<sql::Column>, bool)>,
    /// A listing that is bound.
    pub(super) listing: Option<PlannedListing>,
    /// How the wait for what the statement does has ended: an order, a kill, a list.
    pub(super) ended: Option<Ended>,
    /// Sessions for SHOW PROCESSLIST.
    pub(super) sessions: (Vec<SessionLine>, Option<Purse>),
    pub(super) beside: Beside,
    /// What its evaluation warns of.
    pub(super) noted: RefCell<Vec<Warning>>,
}

/// The statement that waits.
#[derive(Debug)]
pub(super) struct Suspended {
    waiting: Waiting,
    /// None where rows are awaited whose definitions were sent, and until the statement is known.
    pub(super) statement: Option<Waiter>,
}

/// A statement that continues after its wait.
#[derive(Debug)]
pub(super) enum Waiter {
    /// Of a COM_QUERY, with its text from this statement on.
    Text { begun: Box<Begun>, rest: Rest },
    /// An execution by COM_STMT_EXECUTE.
    Execute(Execution),
}

/// An execution of a prepared statement.
#[derive(Debug)]
pub(super) struct Execution {
    pub(super) statement_id: u32,
    pub(super) opens_cursor: bool,
    pub(super) parameters: Vec<Value>,
    /// Bytes of its parameters, once it waits.
    pub(super) bytes: usize,
}

impl Suspended {
    /// Bytes that it holds.
    pub(super) fn bytes(&self) -> usize {
        match &self.statement {
            Some(Waiter::Text { begun, rest }) => begun.bytes() + rest.bytes(),
            Some(Waiter::Execute(execution)) => execution.bytes,
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
        match self.suspended.as_ref().and_then(|suspended| suspended.statement.as_ref()) {
            Some(Waiter::Text { rest, .. }) => ("Query", Some(shown(rest.text()))),
            Some(Waiter::Execute(execution)) => {
                ("Execute", self.statements.text_by_id(execution.statement_id).map(shown))
            }
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

    /// The statement waits for what its evaluation, or it itself, asked for.
    pub(super) fn waits_on(&mut self, wait: Wait, statement: &Statement, world: &dyn World) -> After {
        let now = world.now();
        let began = *self.place.began.get_or_insert(now);
        let limit = match statement {
            Statement::Select(_) => self.settings.typed().execution_limit,
            _ => None,
        };
        self.suspend(Waiting {
            event: wait.event,
            until: wait.timeout.and_then(|timeout| now.checked_add(timeout)),
            limit: limit.and_then(|limit| began.checked_add(limit)),
        });
        After::Wait
    }

    pub(super) fn suspend(&mut self, waiting: Waiting) {
        self.suspended = Some(Suspended { waiting, statement: None });
    }

    /// The statement that waits is this one.
    pub(super) fn suspends(&mut self, statement: Waiter) -> After {
        if let Some(suspended) = &mut self.suspended {
            suspended.statement = Some(statement);
        }
        After::Wait
    }

    /// As [`waited`](Self::waited), before what it holds is counted.
    pub(super) fn go_on_after(&mut self, ended: Ended, world: &dyn World, out: &mut Output) -> After {
        let Some(Suspended { statement, .. }) = self.suspended.take() else { return After::Next };
        if self.is_dumping() {
            return self.dump_waited(&ended, world, out);
        }
        if self.results.sending.is_some() {
            return self.more_has_come(&ended, world, out);
        }
        if matches!(ended, Ended::Interrupted(Interrupt::Shutdown)) {
            self.statement_ends();
            return self.fail(&Interrupt::Shutdown.error(), out);
        }
        match &mut self.place {
            Place { needs: Some(needs), .. } => needs.ended(ended),
            Place { evaluation, .. } if evaluation.is_waiting() => evaluation.ended(ended),
            place => place.ended = Some(ended),
        }
        match statement {
            Some(Waiter::Text { begun, rest }) => self.go_on_with(*begun, rest, world, out),
            Some(Waiter::Execute(execution)) => self.run_execution(execution, world, out),
            None => After::Next,
        }
    }

    /// With `session_track_gtids` as it was before the statement: what the OK of a statement tells of visible GTIDs,
    /// which 9.7 tells outside transactions and at their COMMIT. OWN_GTID never tells anything: nothing is executed
    /// here under a GTID of its own.
    pub(super) fn track_gtids(&mut self, before: TrackedGtids, statement: &Statement, world: &dyn World) {
        let is_on = match self.settings.typed().tracks_gtids {
            _ if before == TrackedGtids::All => true,
            now => before == TrackedGtids::Off && now == TrackedGtids::All,
        };
        let tells = match statement {
            Statement::Rollback(_) => false,
            Statement::Commit(_) => true,
            _ => !self.transaction.is_open(),
        };
        let visible = if is_on && tells { world.gtids().visible().ok() } else { None };
        self.changes.gtids(visible.map(|set| gtid_text(&set)));
    }

    /// A statement begins: this is its moment.
    pub(super) fn statement_begins(&mut self, world: &dyn World) {
        self.statement_ends();
        self.settings.learn(world.own_values());
        self.settings.statement_begins();
    }

    /// Forgets where the statement was.
    pub(super) fn statement_ends(&mut self) {
        self.place = Place::default();
    }
}
