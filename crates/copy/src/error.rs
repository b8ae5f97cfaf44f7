//! Errors of a copy.

use client::ClientError;
use values::ValueError;

/// Why a copy cannot be made. Everything given to the sink must then be discarded, except for the tables listed as done
/// in [`CopyError::SnapshotTooOld`].
#[derive(Debug, thiserror::Error)]
pub enum CopyError {
    /// The source was unreachable, or refused the connection or a query.
    #[error("{server}: {error}")]
    Source {
        /// Address of the server.
        server: String,
        /// Error from the source.
        error: ClientError,
    },
    /// The account lacks privileges that a copy needs.
    #[error("the account {account} lacks the privileges {} for the copy; fix: {}", .missing.join(", "),
             source::copy_check::grant_statement(.missing, .account))]
    Privileges {
        /// Account, quoted as in GRANT.
        account: String,
        /// Names of the missing privileges.
        missing: Vec<String>,
    },
    /// The source runs without GTIDs, so no GTID set identifies the snapshot.
    #[error("{server} has no GTIDs (gtid_mode=ON is needed)")]
    NoGtids {
        /// Address of the server.
        server: String,
    },
    /// The read lock could not be acquired.
    #[error(
        "{server}: no moment for consistent snapshots within {seconds} s: {reason}; nothing was copied. Try when no long \
         statement runs, let writers wait longer (--lock-wait), or copy without a lock (--copy-lock=none)"
    )]
    NoLock {
        /// Address of the server.
        server: String,
        /// How long it was tried, s.
        seconds: u64,
        reason: String,
    },
    /// Prepared XA transactions (invariant 22). The GTID set includes them, but the snapshot does not see their rows.
    #[error(
        "prepared XA transactions stay open on the source: {}; their rows would be lost. End each with XA COMMIT or XA \
         ROLLBACK and its identifier, then copy again", .xids.join("; ")
    )]
    PreparedXa {
        /// Their identifiers as XA COMMIT takes them.
        xids: Vec<String>,
    },
    /// A requested table does not exist.
    #[error("no table {0} on the source")]
    NoSuchTable(String),
    /// A table's definition is not supported.
    #[error("{table}: its definition is not supported: {reason}")]
    Definition {
        /// Name of the table, quoted.
        table: String,
        /// What is not supported.
        reason: String,
    },
    /// Tables in engines without snapshots are too large to be read while writers wait.
    #[error(
        "tables in engines without snapshots hold about {bytes} bytes, more than the {limit} that are read while writers \
         wait: {}; change them (ALTER TABLE … ENGINE=InnoDB) or leave them out", .tables.join(", ")
    )]
    NoSnapshot {
        /// Names of the tables, quoted, with their engines.
        tables: Vec<String>,
        /// Their bytes, as estimated by the source or as read so far.
        bytes: u64,
        /// The limit, bytes: `CopyOptions::locked_bytes_max`.
        limit: u64,
    },
    /// Tables that a copy without a lock cannot make exact because their rows have no key.
    #[error(
        "without a lock (--copy-lock=none) tables without a key cannot be copied: {}; give each a PRIMARY KEY, leave them \
         out, or grant RELOAD", .tables.join(", ")
    )]
    NeedsKeys {
        /// Names of the tables, quoted.
        tables: Vec<String>,
    },
    /// A copy without a lock needs full row images in the log.
    #[error("without a lock (--copy-lock=none) the source must log whole rows, but {what}; fix: {fix}")]
    NeedsFullImages {
        /// The setting that prevents them.
        what: String,
        /// Statement that changes the setting.
        fix: String,
    },
    /// Each time, DDL changed definitions between the snapshot and the moment they were read.
    #[error("tables were changed by DDL again and again while the copy began: {}; copy when it is done", .tables.join(", "))]
    Changing {
        /// Names of the tables, quoted.
        tables: Vec<String>,
    },
    /// DDL changed a table before it was read completely (MySQL's error 1412 and similar): retry the copy.
    #[error("`{db}`.`{table}` was changed by DDL while it was being copied ({reason}); the copy must be repeated")]
    TableChanged {
        /// Database of the table.
        db: String,
        /// Name of the table.
        table: String,
        /// The source's error, or the difference.
        reason: String,
    },
    /// DDL dropped or renamed a table before it was read completely: retry the copy.
    #[error("`{db}`.`{table}` was dropped or renamed while it was being copied; the copy must be repeated")]
    TableVanished {
        /// Database of the table.
        db: String,
        /// Name of the table.
        table: String,
    },
    /// A row lies in a partition to which the rule does not assign it, as EXCHANGE PARTITION … WITHOUT VALIDATION leaves
    /// them: copy the table with [`crate::CopyOptions::misplaced_rows`].
    #[error("`{db}`.`{table}` holds rows outside their partition's rule, in partition `{partition}` at least")]
    MisplacedRows {
        /// Database of the table.
        db: String,
        /// Name of the table.
        table: String,
        /// The partition, or subpartition, that holds it.
        partition: String,
    },
    /// A table cannot be read.
    #[error("`{db}`.`{table}` cannot be read: {error}")]
    Table {
        /// Database of the table.
        db: String,
        /// Name of the table.
        table: String,
        /// Error from the source.
        error: ClientError,
    },
    /// A row from the source does not fit its table's definition.
    #[error("`{db}`.`{table}`: a row does not fit its table's definition: {error}")]
    Row {
        /// Database of the table.
        db: String,
        /// Name of the table.
        table: String,
        /// What is wrong with the row.
        error: ValueError,
    },
    /// The snapshots reached their maximum age before everything was copied.
    #[error(
        "the snapshots are {limit_s} s old, the limit (--snapshot-max), and {} of {} tables are not copied yet; raise the \
         limit or --copy-rate, or use more connections", .remaining.len(), .remaining.len() + .done.len()
    )]
    SnapshotTooOld {
        /// Maximum age, s.
        limit_s: u64,
        /// Tables for which `table_done` was called: their rows are complete as of the plan's GTID set.
        done: Vec<(String, String)>,
        remaining: Vec<(String, String)>,
    },
    #[error("`{db}`.`{table}`: its rows cannot be kept: {reason}")]
    Sink {
        /// Database of the table.
        db: String,
        /// Name of the table.
        table: String,
        reason: String,
    },
    /// The copy was stopped on request.
    #[error("the copy was stopped")]
    Stopped,
}

impl CopyError {
    /// True if a retry of the same copy may well succeed, because DDL interfered or the connection failed.
    #[must_use]
    pub fn is_transient(&self) -> bool {
        match self {
            CopyError::TableChanged { .. } | CopyError::TableVanished { .. } => true,
            CopyError::Source { error, .. } | CopyError::Table { error, .. } => error.is_transient(),
            _ => false,
        }
    }
}

/// ER_TABLE_DEF_CHANGED, ER_BAD_FIELD_ERROR, ER_KEY_DOES_NOT_EXITS: the table has changed. ER_TABLESPACE_DISCARDED: it
/// may have had rows at the snapshot's moment; the next copy finds it discarded before.
const CHANGED: [u16; 4] = [1412, 1054, 1176, DISCARDED];
/// ER_NO_SUCH_TABLE, ER_BAD_DB_ERROR.
const VANISHED: [u16; 2] = [1146, 1049];

/// ER_TABLESPACE_DISCARDED.
pub(crate) const DISCARDED: u16 = 1814;

/// Classifies an error of reading a table.
pub(crate) fn at_table(db: &str, table: &str, error: ClientError) -> CopyError {
    let (db, table) = (db.to_owned(), table.to_owned());
    match error.server_code() {
        Some(code) if CHANGED.contains(&code) => CopyError::TableChanged { db, table, reason: error.to_string() },
        Some(code) if VANISHED.contains(&code) => CopyError::TableVanished { db, table },
        _ => CopyError::Table { db, table, error },
    }
}
