//! Orders to a relay: receiving is stopped and started, stamping started after an error.
//!
//! In: requests and statements. Out: what is carried out, or why not. Never here: parsing; threads.

use door::Ordered;
use engine::{ReplicaThread, not_now, orders};
use replica::{Failure, Relay};
use sql::{ReplicaOrder, SqlError, ThreadOrder};

/// Starts receiving, stamping, or both; false if all of it runs.
///
/// # Errors
/// It cannot be started.
pub(crate) fn start(relay: &Relay, thread: Option<ReplicaThread>) -> Result<bool, Failure> {
    let stamps = thread != Some(ReplicaThread::Io) && relay.start_stamping()?;
    let receives = thread != Some(ReplicaThread::Sql) && relay.start_io()?;
    Ok(stamps || receives)
}

/// Stops receiving.
///
/// # Errors
/// It does not end in time; or stamping is meant, which only ends with the process.
pub(crate) fn stop(relay: &Relay, thread: ReplicaThread) -> Result<(), Failure> {
    match thread {
        ReplicaThread::Io => relay.stop_io().map(drop),
        ReplicaThread::Sql => Err(Failure::usage("a relay replays nothing: only receiving (io) can be stopped")),
    }
}

/// A condition is of replay.
pub(crate) fn no_until() -> Failure {
    Failure::usage("a relay replays nothing that could stop at a condition")
}

/// Carries out an order in SQL. STOP REPLICA stops receiving; what was received is stamped and served.
///
/// # Errors
/// 1235 for what a relay does not do, 1105 with the reason for what failed.
pub(crate) fn carry_out(relay: &Relay, order: &ReplicaOrder) -> Result<Ordered, SqlError> {
    let refused = |what: &str| Err(SqlError::not_supported(&format!("{what} on a relay")));
    let thread = match order {
        ReplicaOrder::Threads(ThreadOrder { until: Some(_), .. }) => return refused("START REPLICA UNTIL"),
        ReplicaOrder::Threads(ThreadOrder { start: true, io: true, sql: true, .. }) => None,
        ReplicaOrder::Threads(ThreadOrder { start: true, io: true, .. }) => Some(ReplicaThread::Io),
        ReplicaOrder::Threads(ThreadOrder { start: true, .. }) => Some(ReplicaThread::Sql),
        ReplicaOrder::Threads(ThreadOrder { io: true, .. }) => {
            let done = relay.stop_io().map_err(|failure| not_now(&failure.text))?;
            return Ok(if done { Ordered::Done } else { Ordered::Already });
        }
        ReplicaOrder::Threads(_) => return refused("STOP REPLICA SQL_THREAD"),
        ReplicaOrder::ChangeSource(_) => return refused("CHANGE REPLICATION SOURCE TO"),
        ReplicaOrder::ChangeFilter(_) => return refused("CHANGE REPLICATION FILTER"),
        ReplicaOrder::Reset { .. } => return refused("RESET REPLICA"),
        ReplicaOrder::Failover(order) => return refused(order.function()),
    };
    let done = start(relay, thread).map_err(|failure| not_now(&failure.text))?;
    Ok(if done { Ordered::Done } else { Ordered::Already })
}

/// Carries out a statement; returns what there is to say.
///
/// # Errors
/// Code 2 for a statement that is no order; else as [`carry_out`].
pub(crate) fn execute(relay: &Relay, statement: &str) -> Result<&'static str, Failure> {
    let order = orders::parse(statement).map_err(|error| Failure::usage(orders::error_text(&error)))?;
    orders::log_operators(&order);
    match carry_out(relay, &order).map_err(|error| Failure::error(orders::error_text(&error)))? {
        Ordered::Already => Ok("there was nothing to do"),
        Ordered::Done | Ordered::DoneWithoutUntil => Ok("done"),
    }
}
