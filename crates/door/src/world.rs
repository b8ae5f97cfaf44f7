//! What sessions know of the server around them.

use std::sync::Arc;
use std::time::{Duration, Instant};

use sql::{OwnValues, SqlError};
use store::Snapshot;

use crate::gtids::{Gtids, NoGtids};
use crate::replica_status::ReplicaStatus;

/// State of a schema.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SchemaState {
    /// It exists, with this default collation, if that is known.
    There(Option<u16>),
    /// There is none of this name.
    Missing,
    /// Whether it exists cannot be said now; the text says why.
    Unknown(String),
}

/// The server, as a session sees it.
pub trait World {
    /// Values of variables that are about this process.
    fn own_values(&self) -> &dyn OwnValues;

    /// Looks up a schema of the replica.
    fn schema(&self, name: &str) -> SchemaState;

    /// The replica's GTIDs.
    fn gtids(&self) -> &dyn Gtids {
        &NoGtids
    }

    /// The time.
    fn now(&self) -> Instant {
        Instant::now()
    }

    /// How long one statement may work, without the time that others had and the client took; None: no limit.
    fn statement_cpu_time(&self) -> Option<Duration> {
        None
    }

    /// Pins what is visible, for reading tables.
    ///
    /// # Errors
    /// Nothing can be read now; the text says why.
    fn pin(&self) -> Result<Arc<Snapshot>, SqlError>;

    /// Reads the files of TLS again.
    ///
    /// # Errors
    /// What is wrong with them; the old ones stay in use.
    fn reload_tls(&self) -> Result<(), String>;

    /// Facts for SHOW REPLICA STATUS.
    fn replica_status(&self) -> ReplicaStatus;

    /// Status variables whose values are counted here.
    fn status_values(&self) -> Vec<(&'static str, String)> {
        Vec::new()
    }

    /// Facts for COM_STATISTICS.
    fn statistics(&self) -> Statistics;

    /// Takes one of the server's prepared statements; false if there are too many.
    fn take_statement(&self) -> bool;

    /// Gives prepared statements back.
    fn give_statements(&self, count: usize);
}

/// Facts for COM_STATISTICS.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Statistics {
    /// Seconds since the start.
    pub uptime_s: u64,
    /// Connections that are logged in.
    pub threads: u64,
    /// Statements received.
    pub questions: u64,
}

impl Statistics {
    /// The line of COM_STATISTICS, in MySQL's form.
    #[must_use]
    pub fn line(&self) -> String {
        let rate = (self.questions * 1000).checked_div(self.uptime_s).unwrap_or_default();
        format!(
            "Uptime: {}  Threads: {}  Questions: {}  Slow queries: 0  Opens: 0  Flush tables: 0  Open tables: 0  \
             Queries per second avg: {}.{:03}",
            self.uptime_s,
            self.threads,
            self.questions,
            rate / 1000,
            rate % 1000
        )
    }
}
