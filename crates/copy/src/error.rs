//! Why a copy cannot be made.

use client::ClientError;
use values::ValueError;

/// Why a copy cannot be made. Whatever the sink was given of a copy that ends with one of these is worth nothing, but
/// for the tables listed as done in [`CopyError::SnapshotTooOld`].
#[derive(Debug, thiserror::Error)]
pub enum CopyError {
    /// The source could not be reached or refused.
    #[error("{server}: {error}")]
    Source {
        /// Which server.
        server: String,
        /// What happened.
        error: ClientError,
    },
    /// The account may not do what a copy takes.
    #[error("the account {account} misses the privileges {} for the copy; fix: {}", .missing.join(", "), source::copy_check::grant_statement(.missing, .account))]
    Privileges {
        /// Quoted, as in GRANT.
        account: String,
        /// The privileges' names.
        missing: Vec<String>,
    },
    /// The source runs without GTIDs: there is no set that names the snapshot.
    #[error("{server} has no GTIDs (gtid_mode=ON is needed)")]
    NoGtids {
        /// Which server.
        server: String,
    },
    /// The read lock could not be had.
    #[error(
        "{server}: no moment for consistent snapshots within {seconds} s: {reason}; nothing was copied. Try when no long \
         statement runs, let writers wait longer (--lock-wait), or copy without a lock (--copy-lock=none)"
    )]
    NoLock {
        /// Which server.
        server: String,
        /// How long it was tried.
        seconds: u64,
        /// What stood in the way.
        reason: String,
    },
    /// Prepared XA transactions (invariant 22): the GTID set holds them, the snapshot does not see their rows.
    #[error(
        "prepared XA transactions stay open on the source: {}; their rows would be lost. End each with XA COMMIT or XA \
         ROLLBACK and its identifier, then copy again", .xids.join("; ")
    )]
    PreparedXa {
        /// As XA COMMIT takes them.
        xids: Vec<String>,
    },
    /// A table was asked for that is not there.
    #[error("no table {0} on the source")]
    NoSuchTable(String),
    /// A table whose definition is not understood.
    #[error("{table}: its definition is not supported: {reason}")]
    Definition {
        /// Quoted.
        table: String,
        /// What is not understood.
        reason: String,
    },
    /// Tables whose rows no snapshot holds, too large to be read while writers wait.
    #[error(
        "tables in engines without snapshots hold about {bytes} bytes, more than the {limit} that are read while writers \
         wait: {}; change them (ALTER TABLE … ENGINE=InnoDB) or leave them out", .tables.join(", ")
    )]
    NoSnapshot {
        /// Quoted, with the engine.
        tables: Vec<String>,
        /// As the source estimates them, or as read so far.
        bytes: u64,
        /// `CopyOptions::locked_bytes_max`.
        limit: u64,
    },
    /// Tables whose rows are not their own.
    #[error("{table}: engine {engine} holds no rows of its own; leave the table out or change it")]
    NoRowsOfItsOwn {
        /// Quoted.
        table: String,
        /// MRG_MYISAM or FEDERATED.
        engine: String,
    },
    /// Tables that a copy without a lock cannot make exact: their rows have no key.
    #[error(
        "without a lock (--copy-lock=none) tables without a key cannot be copied: {}; give each a PRIMARY KEY, leave them \
         out, or grant RELOAD", .tables.join(", ")
    )]
    NeedsKeys {
        /// Quoted.
        tables: Vec<String>,
    },
    /// A copy without a lock needs whole rows in the log.
    #[error("without a lock (--copy-lock=none) the source must log whole rows, but {what}; fix: {fix}")]
    NeedsFullImages {
        /// Which setting is in the way.
        what: String,
        /// The statement that helps.
        fix: String,
    },
    /// Definitions changed each time between the snapshot and the moment they were read.
    #[error("tables were changed by DDL again and again while the copy began: {}; copy when it is done", .tables.join(", "))]
    Changing {
        /// Quoted.
        tables: Vec<String>,
    },
    /// DDL changed a table before it was wholly read (MySQL's error 1412 and its like): copy again.
    #[error("`{db}`.`{table}` was changed by DDL while it was being copied ({reason}); the copy must be made anew")]
    TableChanged {
        /// Database.
        db: String,
        /// Table.
        table: String,
        /// The source's answer, or what differs.
        reason: String,
    },
    /// DDL dropped or renamed a table before it was wholly read: copy again.
    #[error("`{db}`.`{table}` was dropped or renamed while it was being copied; the copy must be made anew")]
    TableVanished {
        /// Database.
        db: String,
        /// Table.
        table: String,
    },
    /// A table that cannot be read.
    #[error("`{db}`.`{table}` cannot be read: {error}")]
    Table {
        /// Database.
        db: String,
        /// Table.
        table: String,
        /// The source's answer.
        error: ClientError,
    },
    /// A row of the source that does not fit its table's definition.
    #[error("`{db}`.`{table}`: a row does not fit its table's definition: {error}")]
    Row {
        /// Database.
        db: String,
        /// Table.
        table: String,
        /// What is wrong with it.
        error: ValueError,
    },
    /// The snapshots reached their greatest age before everything was copied.
    #[error(
        "the snapshots are {limit_s} s old, the limit (--snapshot-max), and {} of {} tables are not copied yet; raise the \
         limit or --copy-rate, or use more connections", .remaining.len(), .remaining.len() + .done.len()
    )]
    SnapshotTooOld {
        /// The limit in seconds.
        limit_s: u64,
        /// Tables whose `table_done` was called: their rows are whole, as of the plan's GTID set.
        done: Vec<(String, String)>,
        /// The other ones.
        remaining: Vec<(String, String)>,
    },
    /// The sink failed.
    #[error("`{db}`.`{table}`: its rows cannot be kept: {reason}")]
    Sink {
        /// Database.
        db: String,
        /// Table.
        table: String,
        /// The sink's words.
        reason: String,
    },
    /// The stop flag was raised.
    #[error("the copy was stopped")]
    Stopped,
}

impl CopyError {
    /// True when the same copy, made anew, may well succeed: DDL came in between, or the connection failed.
    #[must_use]
    pub fn is_transient(&self) -> bool {
        match self {
            CopyError::TableChanged { .. } | CopyError::TableVanished { .. } => true,
            CopyError::Source { error, .. } | CopyError::Table { error, .. } => error.is_transient(),
            _ => false,
        }
    }
}

/// ER_TABLE_DEF_CHANGED, ER_BAD_FIELD_ERROR, ER_KEY_DOES_NOT_EXITS: the table is another than it was.
const CHANGED: [u16; 3] = [1412, 1054, 1176];
/// ER_NO_SUCH_TABLE, ER_BAD_DB_ERROR.
const VANISHED: [u16; 2] = [1146, 1049];

/// What an error of reading a table means.
pub(crate) fn at_table(db: &str, table: &str, error: ClientError) -> CopyError {
    let (db, table) = (db.to_owned(), table.to_owned());
    match error.server_code() {
        Some(code) if CHANGED.contains(&code) => CopyError::TableChanged { db, table, reason: error.to_string() },
        Some(code) if VANISHED.contains(&code) => CopyError::TableVanished { db, table },
        _ => CopyError::Table { db, table, error },
    }
}
