//! The initial copy of a MySQL primary, the source's side of it.
//!
//! In: how to reach the source, which tables. Out: the source's catalog at one GTID set G, and every row of every table
//! as a binlog row image (null bitmap over all columns, stored values: what a full-image rows event would carry at G)
//! with its identifying key, handed to a sink. Never here: a file, a lock held for longer than it takes to open the
//! snapshots, a row that is not of G, a table left out in silence.
//!
//! One difference to rows events: a JSON value is the server's text in the document's place (invariant 21), see
//! `values::json::is_text`. Identity of rows with JSON values is by their text, see [`catalog::RowKey`].
//!
//! # How
//!
//! [`SourceCopy::prepare`] opens its connections, takes FLUSH TABLES WITH READ LOCK for the milliseconds it takes to
//! open a consistent snapshot on each and to read `gtid_executed` and XA RECOVER, and lets go (`lock`). Definitions are
//! read afterwards, and checked to be those of G (`definitions`). [`SourceCopy::run`] reads all tables from the
//! snapshots, large ones by several connections in ranges of their key (`run`, `chunk`).
//!
//! DDL during the copy is noticed, never waited for: MySQL's error 1412 where it gives one, else the table's
//! CREATE_TIME, looked at while the metadata lock of the reading is held (a column renamed in place, or another table
//! renamed into the place of this one, is no error of the server's). The copy then ends with
//! [`CopyError::TableChanged`] or [`CopyError::TableVanished`] and is to be made anew, or, with
//! [`Unsettled::LeaveOut`], goes on without that table: as with tables left when the snapshots are too old (below), the
//! caller copies it at a GTID set of its own.
//!
//! Tables in engines without snapshots (MyISAM, MEMORY, ARCHIVE, CSV) are read whole while the lock is held, into
//! memory, if they are small (`CopyOptions::locked_bytes_max`); with larger ones the copy is refused, naming them: an
//! operator who has a large MyISAM table can change it or leave it out, one whose writers hang for a minute cannot help
//! himself.
//!
//! # Snapshots that are too old
//!
//! No snapshot outlives `CopyOptions::snapshot_max`. When time is over [`CopyError::SnapshotTooOld`] says which tables
//! are done as of G and which remain. Going on is a matter of the caller's catalog, not of reading: the remaining
//! tables can be copied by another `SourceCopy` whose filter names them, at its own G2. A table copied at G2 has the
//! definition of G2, its row events and its DDL with a GTID in G2 are "superseded by copy", and the store opens when
//! the watermark covers G2 (invariant 23). What cannot be done this way is a single table that takes longer than the
//! limit: its ranges are of one snapshot. It takes a higher limit, or the way without a lock, which has no such limit.
//!
//! # Without the privilege for the lock ([`CopyLock::None`])
//!
//! `gtid_executed` is read first (L, the plan's set), then definitions, then each range in a short transaction of its
//! own, and at last, when commits that a range may have seen must have arrived in it, `gtid_executed` again (H,
//! [`CopyReport::settled_at`]). Whatever is in L is in the rows; whatever is in the rows is in H. The log from L on is
//! then replayed over the rows by key and without questions up to H: a row change puts its after image whatever is
//! there, a delete removes what may not be there, a key change does both. For each key the last event in (L, H]
//! decides, and a key without one was the same all the time, so from H on the rows are exact; readers may look from
//! then on. It must not be MySQL's MINIMAL images or partial JSON (an after image would lack columns), nor a keyless
//! table (a multiset cannot absorb a repeated insert): such tables are refused. DDL on a table before its last range is
//! read is found as above; later DDL is replayed in its place. What the caller must add is the replay without questions
//! between L and H (`--check-images` off, neither 1032 nor 1062).
#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used))]

mod batch;
mod chunk;
mod definitions;
mod ending;
mod error;
mod lock;
mod members;
mod options;
mod plan;
mod prepare;
mod progress;
mod rate;
mod recorded;
mod run;
mod sync;
mod table_reader;

use std::sync::Arc;
use std::time::Duration;

use base::GtidSet;
use catalog::TableDef;

pub use batch::RowBatch;
pub use error::CopyError;
pub use options::{CopyLock, CopyOptions, Unsettled};
pub use plan::{CopyPlan, PlannedTable, SourceFacts};
pub use prepare::SourceCopy;
pub use progress::{Progress, TableProgress, TableState, Totals};

/// The savepoint each reading connection goes back to after a range.
const SAVEPOINT: &str = "slipstream_copy";

/// Where the rows go. Called from several threads, also for the same table at a time.
pub trait CopySink: Sync {
    /// Takes rows of a table, in no order. What is taken counts only once `table_done` was called.
    ///
    /// # Errors
    /// Why the rows cannot be kept; the copy ends with it.
    fn rows(&self, table: &Arc<TableDef>, rows: &RowBatch) -> Result<(), String>;

    /// All rows of the table were handed over, `rows` in number; called once for each table, also for an empty one.
    ///
    /// # Errors
    /// As `rows`.
    fn table_done(&self, table: &Arc<TableDef>, rows: u64) -> Result<(), String>;
}

/// A table of the plan, or of its moment, that was not copied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct UnsettledTable {
    /// Database, by its name here.
    pub db: String,
    /// Table, as it is called at the plan's GTID set; there may be none of the name then, when it was made later.
    pub table: String,
    /// What stood in the way.
    pub why: String,
}

/// What was copied.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CopyReport {
    /// Tables.
    pub tables: usize,
    /// Rows.
    pub rows: u64,
    /// Bytes of their images.
    pub bytes: u64,
    /// Ranges of keys, whole tables counting as one, that were read.
    pub ranges: u64,
    /// How long reading took.
    pub elapsed: Duration,
    /// Without a lock: the GTIDs up to which replay makes the rows exact. None: they are exact as they are.
    pub settled_at: Option<GtidSet>,
    /// Tables that were not copied ([`Unsettled::LeaveOut`]): the sink was told of none that they are done, whatever rows
    /// of them it was given.
    pub unsettled: Vec<UnsettledTable>,
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
