//! Initial copy of a MySQL primary: the source's side of it.
//!
//! In: how to reach the source, and which tables to copy. Out: the source's catalog at one GTID set G, and every row of
//! every table as a binlog row image (null bitmap over all columns, stored values: the contents of a full-image rows
//! event at G) with its identifying key, handed to a sink. Never here: files; a lock held for longer than it takes to
//! open the snapshots; a row that is not of G; a table silently left out.
//!
//! Images differ from those of rows events in one respect: a JSON value is the server's text instead of the binary
//! document (invariant 21), see `values::json::is_text`. Rows with JSON values are identified by this text, see
//! [`catalog::RowKey`].
//!
//! # How it works
//!
//! [`SourceCopy::prepare`] opens its connections and takes FLUSH TABLES WITH READ LOCK. It holds the lock for the
//! milliseconds it takes to open a consistent snapshot on each connection and to read `gtid_executed` and XA RECOVER
//! (`lock`). Definitions are read afterwards and checked to be those of G (`definitions`). [`SourceCopy::run`] reads
//! all tables from the snapshots, large ones over several connections in ranges of their key (`run`, `chunk`).
//!
//! DDL during the copy is detected, not waited for: by MySQL's error 1412 where it is raised, otherwise by the table's
//! CREATE_TIME, checked while the reader's metadata lock is held (a column renamed in place, or another table renamed
//! to this name, raises no error). The copy then fails with [`CopyError::TableChanged`] or [`CopyError::TableVanished`]
//! and should be retried. With [`Unsettled::LeaveOut`] it continues without that table, which the caller copies at a
//! GTID set of its own, like tables that remain when the snapshots are too old (below).
//!
//! Tables in engines without snapshots (MyISAM, MEMORY, ARCHIVE, CSV) are read into memory as a whole while the lock is
//! held, provided they are small (`CopyOptions::locked_bytes_max`). Larger ones make the copy fail and are named in the
//! error: an operator can convert or exclude a large MyISAM table, but can do nothing about writers that hang for a
//! minute.
//!
//! # Snapshots that are too old
//!
//! No snapshot outlives `CopyOptions::snapshot_max`. When it expires, [`CopyError::SnapshotTooOld`] lists the tables
//! that are done as of G and those that remain. Continuing is up to the caller's catalog, not to reading: another
//! `SourceCopy` whose filter names the remaining tables can copy them at its own G2. A table copied at G2 has the
//! definition of G2; its row events and DDL with a GTID in G2 are "superseded by copy"; and the store opens when the
//! watermark covers G2 (invariant 23). This does not help with a single table that takes longer than the limit, because
//! all its ranges come from one snapshot. Such a table needs a higher limit, or a copy without a lock, which has no
//! such limit.
//!
//! # Without the privilege for the lock ([`CopyLock::None`])
//!
//! First `gtid_executed` is read (L, the plan's set), then the definitions, then each range in a short transaction of
//! its own. Finally, once all commits that a range may have seen must be in it, `gtid_executed` is read again (H,
//! [`CopyReport::consistent_at`]). Everything in L is in the rows, and everything in the rows is in H.
//!
//! The log from L to H is then replayed over the rows by key and without checks: a row change puts its after image
//! whatever is there, a delete removes a row that may not exist, a key change does both. For each key the last event in
//! (L, H] decides, and a key without an event was constant all the time. So the rows are exact from H on, which is when
//! readers are admitted.
//!
//! This requires full images (an after image under MINIMAL or partial JSON would lack columns) and keys (a multiset
//! cannot absorb a repeated insert); other tables are refused. DDL on a table before its last range is read is detected
//! as above; later DDL is replayed in its place. The caller must replay without checks between L and H
//! (`--check-images` off, neither 1032 nor 1062).
#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used))]

mod batch;
mod chunk;
mod definitions;
mod definitions_asked;
mod definitions_now;
mod error;
mod let_in;
mod lock;
mod members;
mod options;
mod plan;
mod prepare;
mod preparing;
mod progress;
mod rate;
mod recorded;
mod run;
mod stop_signal;
mod sync;
mod table_reader;
mod tables_now;

use std::sync::Arc;
use std::time::Duration;

use base::GtidSet;
use catalog::TableDef;

pub use batch::RowBatch;
pub use definitions_asked::{Asked, Question, ask_definitions};
pub use definitions_now::DefinitionsNow;
pub use error::CopyError;
pub use let_in::let_in;
pub use options::{CopyLock, CopyOptions, Unsettled};
pub use plan::{CopyPlan, PlannedTable, SourceFacts};
pub use prepare::SourceCopy;
pub use preparing::Preparing;
pub use progress::{Progress, TableProgress, TableState, Totals};
pub use tables_now::TablesNow;

/// Savepoint to which each reading connection rolls back after a range.
const SAVEPOINT: &str = "slipstream_copy";

/// Destination of the rows. Called from several threads, even for the same table at the same time.
pub trait CopySink: Sync {
    /// Takes rows of a table, in any order. They count only once `table_done` was called.
    ///
    /// # Errors
    /// Why the rows cannot be stored; the copy then fails.
    fn rows(&self, table: &Arc<TableDef>, rows: &RowBatch) -> Result<(), String>;

    /// Called once for each table, even an empty one, after all its rows were handed over, `rows` in number.
    ///
    /// # Errors
    /// Why the table cannot be completed; the copy then fails.
    fn table_done(&self, table: &Arc<TableDef>, rows: u64) -> Result<(), String>;

    /// True once the source is left for another one: it is then lost as soon as it says nothing for three seconds.
    fn is_left(&self) -> bool {
        false
    }

    /// The source was lost, for this reason, after some tables were done, whose rows are of the plan's set: true if
    /// these are kept and all others left out. Never asked of a copy without a lock.
    fn keeps_done(&self, why: &CopyError) -> bool {
        let _ = why;
        false
    }
}

/// A table of the plan, or of its moment, that was not copied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnsettledTable {
    /// Database, by its name on this replica.
    pub db: String,
    /// Name of the table at the plan's GTID set. If the table was created later, it does not exist at that set.
    pub table: String,
    /// Why it was not copied.
    pub why: String,
}

/// Result of a copy.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CopyReport {
    /// Number of tables copied.
    pub tables: usize,
    /// Number of rows copied.
    pub rows: u64,
    /// Bytes of their images.
    pub bytes: u64,
    /// Number of key ranges read; a whole table counts as one.
    pub ranges: u64,
    pub elapsed: Duration,
    /// For a copy without a lock: the GTIDs up to which replay makes the rows exact. None if they are exact already.
    pub consistent_at: Option<GtidSet>,
    /// Tables that were not copied ([`Unsettled::LeaveOut`]). The sink was not told that they are done, whatever rows
    /// of them it was given.
    pub unsettled: Vec<UnsettledTable>,
    /// Tables whose virtual columns the source could not compute for every row; they are NULL in some or all rows. With
    /// their names on this replica.
    pub without_virtual: Vec<(String, String)>,
    /// Tables whose tablespace is discarded: the source has no rows of them.
    pub discarded: Vec<(String, String)>,
}

impl std::fmt::Display for CopyReport {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let seconds = self.elapsed.as_secs_f64();
        let megabytes = self.bytes as f64 / 1e6;
        write!(
            f,
            "copied {} tables, {} rows, {megabytes:.1} MB in {seconds:.1} s ({:.1} MB/s)",
            self.tables,
            self.rows,
            megabytes / seconds.max(0.001)
        )
    }
}
