//! START, STOP, CHANGE and RESET REPLICA.
//!
//! In: the statement, how the order ended. Out: a wait for it, then OK with MySQL's note if there was nothing to do, or
//! its error. Never here: the threads themselves; a loop that waits for them.

use sql::{Ended, Event, ReplicaOrder, SqlError, UntilText, Wait, Warning};

use super::Session;
use super::execute::needs;
use super::shows::check_channel;
use crate::world::Ordered;

/// How orders end, as numbers of [`Ended::Met`].
const DONE: u64 = Ordered::Done as u64;
const DONE_WITHOUT_UNTIL: u64 = Ordered::DoneWithoutUntil as u64;

impl Session {
    /// Has an order to the replica carried out, for which the statement waits. Ends the transaction, as MySQL does.
    ///
    /// # Errors
    /// A right is missing (1227), no such channel (3074), no GTID set (1772), conditions that contradict each other
    /// (1277).
    pub(super) fn order(
        &mut self,
        order: &ReplicaOrder,
        until: Option<&UntilText>,
        channel: Option<&[u8]>,
    ) -> Result<Wait, SqlError> {
        self.transaction.end();
        if !self.login.identity.rights.admin {
            return Err(needs("SUPER or REPLICATION_SLAVE_ADMIN"));
        }
        check_channel(channel)?;
        let until = until.map(sql::until).transpose()?;
        let mut order = order.clone();
        if let ReplicaOrder::Threads(threads) = &mut order {
            // Without replay there is nothing that stops.
            threads.until = until.filter(|_| threads.sql);
        }
        Ok(Wait { event: Event::Replica(order), timeout: None })
    }

    /// The warning after an order was carried out.
    ///
    /// # Errors
    /// Why it could not be.
    pub(super) fn ordered(&self, order: &ReplicaOrder, has_until: bool) -> Result<Option<Warning>, SqlError> {
        self.has_ended()?;
        let threads = match order {
            ReplicaOrder::Threads(threads) => Some(threads),
            _ => None,
        };
        let ignored = has_until && threads.is_some_and(|threads| !threads.sql);
        match self.place.ended {
            Some(Ended::Met(DONE)) => Ok(ignored.then(until_ignored)),
            Some(Ended::Met(DONE_WITHOUT_UNTIL)) => Ok(Some(until_ignored())),
            // The spelling is MySQL's.
            _ => Ok(threads.map(|threads| match threads.start {
                true => note(3083, "Replication thread(s) for channel '' are already runnning."),
                false => note(3084, "Replication thread(s) for channel '' are already stopped."),
            })),
        }
    }
}

fn until_ignored() -> Warning {
    note(1279, "SQL thread is not to be started so UNTIL options are ignored")
}

fn note(code: u16, text: &str) -> Warning {
    Warning { level: "Note", code, message: text.to_owned() }
}
