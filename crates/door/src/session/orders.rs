//! START and STOP REPLICA.
//!
//! In: the statement, how the order ended. Out: a wait for it, then OK with MySQL's note if there was nothing to do, or
//! its error. Never here: the threads themselves; a loop that waits for them.

use sql::{Ended, Event, ReplicaOrder, SqlError, Wait, Warning};

use super::Session;
use super::execute::needs;
use super::shows::check_channel;

impl Session {
    /// Has threads started or stopped. Ends the transaction, as MySQL does.
    ///
    /// # Errors
    /// A right is missing (1227), no such channel (3074), or why the threads cannot be started or stopped. Before the
    /// order was carried out, one that is not sent.
    pub(super) fn order(&mut self, order: ReplicaOrder, channel: Option<&[u8]>) -> Result<Option<Warning>, SqlError> {
        if !self.identity.rights.admin {
            return Err(needs("SUPER or REPLICATION_SLAVE_ADMIN"));
        }
        check_channel(channel)?;
        self.transaction.end();
        match self.progress.get_mut().wait(Wait { event: Event::Replica(order), timeout: None }) {
            Some(Ended::Met(0)) => Ok(None),
            Some(Ended::Failed(error)) => Err(error),
            Some(Ended::Interrupted(by)) => Err(by.error()),
            // The spelling is MySQL's.
            Some(_) => Ok(Some(match order.start {
                true => note(3083, "Replication thread(s) for channel '' are already runnning."),
                false => note(3084, "Replication thread(s) for channel '' are already stopped."),
            })),
            None => Err(SqlError::new(1105, "HY000", "the order is being carried out")),
        }
    }
}

fn note(code: u16, text: &str) -> Warning {
    Warning { level: "Note", code, message: text.to_owned() }
}
