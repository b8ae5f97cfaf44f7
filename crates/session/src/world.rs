//! What sessions know of the server around them.

use std::borrow::Cow;
use std::sync::Arc;
use std::time::{Duration, Instant};

use catalog::TableId;
use serve::{GrowingLog, ListedFile};
use sql::{Command, OwnValues, SqlError};
use store::Snapshot;

use crate::gtids::{Gtids, NoGtids};
use crate::replica_status::ReplicaStatus;

/// A session, as SHOW PROCESSLIST shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SessionLine {
    pub id: u64,
    /// Its account, `name@host`.
    pub account: String,
    /// User name, as sent.
    pub user: String,
    pub host: String,
    pub schema: Option<String>,
    /// `Sleep`, `Query` or `Execute`.
    pub command: &'static str,
    /// Seconds since its last command arrived.
    pub time_s: u64,
    /// What its statement does.
    pub state: Cow<'static, str>,
    /// The statement's text, if it is known.
    pub info: Option<Vec<u8>>,
}

/// How a connection is encrypted.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Encryption {
    /// `Ssl_version`.
    pub version: &'static str,
    /// `Ssl_cipher`, under OpenSSL's name.
    pub cipher: String,
}

/// What became of an order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ordered {
    /// It was carried out.
    Done = 0,
    /// There was nothing to do.
    Already = 1,
    /// It was carried out, but replay ran before, so that its UNTIL does not count.
    DoneWithoutUntil = 2,
}

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

    fn gtids(&self) -> &dyn Gtids {
        &NoGtids
    }

    /// The log that is served; None: none is.
    fn log(&self) -> Option<&Arc<GrowingLog>> {
        None
    }

    /// Whether rows of this table were long that others have read.
    fn has_long_rows(&self, _table: TableId) -> bool {
        false
    }

    /// A row of this table was long.
    fn note_long_rows(&self, _table: TableId) {}

    fn now(&self) -> Instant {
        Instant::now()
    }

    /// How long one statement may work, without the time that others had and the client took; None: no limit.
    fn statement_cpu_time(&self) -> Option<Duration> {
        None
    }

    /// Bytes that a statement may hold at once, besides what it is sent as.
    fn connection_memory_limit(&self) -> u64 {
        u64::MAX
    }

    /// Pins what is visible, for reading tables.
    ///
    /// # Errors
    /// Nothing can be read now; the text says why.
    fn pin(&self) -> Result<Arc<Snapshot>, SqlError>;

    /// Keeps everything as it is, for all readers, as long as the lock is kept.
    ///
    /// # Errors
    /// Nothing can be held now; the text says why.
    fn take_read_lock(&self) -> Result<ReadLock, SqlError> {
        Err(SqlError::not_supported("FLUSH TABLES WITH READ LOCK"))
    }

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

    /// The files of the relay log, in order.
    ///
    /// # Errors
    /// There is none now; the text says why.
    fn relay_log(&self) -> Result<Vec<ListedFile>, SqlError> {
        Err(SqlError::not_supported("SHOW RELAYLOG EVENTS"))
    }

    fn statistics(&self) -> Statistics;

    /// Counts a statement, or a command of the protocol.
    fn note_command(&self, _command: Command) {}

    /// Takes one of the server's prepared statements; false if there are too many.
    fn take_statement(&self) -> bool;

    /// Gives prepared statements back.
    fn give_statements(&self, count: usize);
}

/// FLUSH TABLES WITH READ LOCK, until it is dropped.
pub struct ReadLock(Option<Box<dyn FnOnce() + Send>>);

impl ReadLock {
    /// A lock that `release` ends.
    pub fn new(release: impl FnOnce() + Send + 'static) -> ReadLock {
        ReadLock(Some(Box::new(release)))
    }
}

impl std::fmt::Debug for ReadLock {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("ReadLock")
    }
}

impl Drop for ReadLock {
    fn drop(&mut self) {
        if let Some(release) = self.0.take() {
            release();
        }
    }
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Statistics {
    /// Seconds since the start.
    pub uptime_s: u64,
    /// Connections that are logged in.
    pub threads: u64,
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
