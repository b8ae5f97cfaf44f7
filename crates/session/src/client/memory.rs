//! What a session holds of the clients' memory.
//!
//! In: what it holds after each step. Out: 1041 in the place of an answer that would leave it with more than it may
//! hold. Never here: a part of an answer that the client has already.

use sql::{Purse, SqlError, Value};
use wire::command;

use super::{After, Session};
use crate::Output;
use crate::world::World;

/// Rows of a listing with what counts them, or why there are none.
pub type ListedRows = Result<(Vec<Vec<Value>>, Purse), SqlError>;
/// Makes them, as long as somebody waits for them.
pub(super) type ListingJob = Box<dyn FnOnce(&dyn Fn() -> bool) -> ListedRows + Send>;

/// 4082, after which the connection is closed, as MySQL does.
pub(super) const OVER_MEMORY: u16 = 4082;

/// 4082 for this number of bytes.
pub(super) fn over_memory(bytes: u64, limit: u64) -> SqlError {
    let text = format!("Connection closed. Connection memory limit {limit} bytes exceeded. Consumed {bytes} bytes.");
    SqlError::new(OVER_MEMORY, "HY000", text)
}

impl Session {
    /// Counts what it holds by this purse from now on.
    pub fn count_by(&mut self, memory: Purse) {
        self.memory = memory;
    }

    /// Another purse of the same session.
    pub fn purse_beside(&self) -> Purse {
        self.memory.beside()
    }

    /// Goes on with the rows, and then the statements, that wait.
    pub fn resume(&mut self, world: &dyn World, out: &mut Output) -> After {
        let begun = (out.len(), out.sequence());
        let after = self.go_on(world, out);
        let after = self.settled(after, begun, out);
        self.settle_elsewhere(after, None, out)
    }

    /// The wait has ended: the statement goes on.
    pub fn waited(&mut self, ended: sql::Ended, world: &dyn World, out: &mut Output) -> After {
        let begun = (out.len(), out.sequence());
        self.command_goes_on(out);
        let after = self.go_on_after(ended, world, out);
        let after = self.settled(after, begun, out);
        self.settle_elsewhere(after, None, out)
    }

    /// Answers a command that was not taken whole, by its beginning.
    pub fn refuse(&mut self, head: &[u8], error: &SqlError, out: &mut Output) -> After {
        let [command, a, b, c, d, ..] = head else { return After::Close };
        if *command == command::STMT_SEND_LONG_DATA {
            // It has no answer: the execution is refused.
            self.statements.refuse(u32::from_le_bytes([*a, *b, *c, *d]), error);
            return After::Next;
        }
        self.fail(error, out)
    }

    /// Bytes that outlast the step.
    fn lasting_bytes(&self) -> usize {
        let warnings = self.diagnostics.warnings.iter().map(|warning| size_of_val(warning) + warning.message.len());
        let waiting = self.suspended.as_ref().map_or(0, |one| one.bytes() + self.place.evaluation.bytes());
        self.statements.held_bytes()
            + self.user_variables.bytes()
            + self.settings.bytes()
            + self.texts.bytes()
            + self.transaction.bytes()
            + self.locks.bytes()
            + self.held_row_bytes()
            + self.results.rest.as_ref().map_or(0, super::Rest::bytes)
            + waiting
            + self.elsewhere.bytes()
            + warnings.sum::<usize>()
    }

    fn count(&self, after: After, out: &Output) -> Result<(), SqlError> {
        self.memory.keep_in_all(self.lasting_bytes() as u64)?;
        if after == After::More {
            self.memory.pause()?;
        }
        out.count()
    }

    /// A step has ended: what it put out from `begun` on is taken back where it is more than the session may hold.
    pub(super) fn settled(&mut self, after: After, begun: (usize, u8), out: &mut Output) -> After {
        // An event of the log is sent whole, whatever its size: only who may replicate gets it.
        if self.is_dumping() {
            return after;
        }
        if after != After::More {
            self.memory.end_work();
            if after != After::Wait {
                self.counted.take();
            }
        }
        let mut counted = self.count(after, out);
        if counted.is_err() && self.texts.clear() {
            counted = self.count(after, out);
        }
        match counted {
            Err(error) if after != After::Close => {
                out.truncate(begun.0, begun.1);
                self.suspended = None;
                self.statement_ends();
                self.ends_here();
                let after = self.fail(&error, out);
                self.memory.end_work();
                self.counted.take();
                // What is left was held before.
                let _ = self.count(after, out);
                after
            }
            _ => after,
        }
    }
}
