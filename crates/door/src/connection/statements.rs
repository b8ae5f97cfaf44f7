//! Prepared statements of a session that is asked first: here, at the source, or at both.
//!
//! In: commands that name a statement. Out: whether the session here takes them; executions as the source needs them.
//! Never here: parameters of a statement that runs here; a statement of a session that is not asked.

use session::Output;
use tier::statement_of;
use wire::command;
use wire::packet::PayloadRange;

use super::{Connection, Turn};

/// An execution for the source, and the long data that must come before it, by parameters.
type ForSource = (Vec<u8>, Vec<(u16, Vec<u8>)>);

impl Connection {
    /// Whether the session here takes a command that names a statement; None if that is decided as of any command.
    pub(super) fn takes_statement(&mut self, range: PayloadRange, turn: &mut Turn<'_>) -> Option<bool> {
        let payload = self.input.payload(range);
        let number = statement_of(payload)?;
        let (Some(forwarding), Some(session)) = (&mut self.forwarding, &mut self.session) else { return None };
        let here = forwarding.here.as_mut()?;
        if payload.first() == Some(&command::STMT_CLOSE) {
            here.numbers_mut().closes(number);
        }
        let numbers = here.numbers();
        if payload.first() == Some(&command::STMT_EXECUTE) {
            session.prepares_late(payload, turn.server);
        }
        if session.prepared_text(number).is_none() {
            // One that nobody has ends as the session says.
            return Some(!numbers.has(number) && self.answers_alone(range, turn));
        }
        match *payload.first()? {
            command::STMT_EXECUTE => None,
            command::STMT_FETCH if numbers.ran_last(number) => Some(false),
            command::STMT_CLOSE | command::STMT_RESET if numbers.has(number) => {
                // Both have it. The client gets the source's answer.
                session.command(payload, turn.server, &mut Output::default());
                Some(false)
            }
            // Long data is kept until the statement is executed.
            _ => Some(self.answers_alone(range, turn)),
        }
    }

    /// The session answers a command that is nobody else's.
    fn answers_alone(&mut self, range: PayloadRange, turn: &mut Turn<'_>) -> bool {
        let Some(session) = &mut self.session else { return false };
        let after = session.command(self.input.payload(range), turn.server, &mut self.output);
        self.settle(after, turn);
        true
    }

    /// What the source must get of an execution of a statement that was prepared here.
    pub(super) fn execution_for_source(&mut self, payload: Vec<u8>) -> ForSource {
        let asks = self.forwarding.as_ref().is_some_and(|forwarding| forwarding.here.is_some());
        let is_execution = payload.first() == Some(&command::STMT_EXECUTE);
        match self.session.as_mut().filter(|_| asks && is_execution) {
            Some(session) => session.execution_elsewhere(payload),
            None => (payload, Vec::new()),
        }
    }
}
