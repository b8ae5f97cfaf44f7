//! Options of a copy.

use std::sync::Arc;
use std::time::Duration;

use source::TableFilter;

use crate::preparing::Preparing;

/// How the rows are assigned to a GTID set (`--copy-lock`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CopyLock {
    /// FLUSH TABLES WITH READ LOCK for milliseconds: all rows belong to one GTID set. If it cannot be acquired within
    /// `lock_timeout`, same as `None`, provided that all tables can be copied that way.
    #[default]
    Auto,
    /// LOCK TABLES … READ of one table for milliseconds: all rows of this table, and no others, belong to one GTID set.
    /// The filter must name exactly one table.
    Table,
    /// No lock, for accounts without RELOAD: each row is from some moment during the copy, and replay from the plan's
    /// GTID set makes them exact; see the crate's documentation.
    None,
}

/// Treatment of a table that DDL changes during the copy, that is not done when the snapshots are too old, or that holds
/// rows outside their partition's rule.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Unsettled {
    /// The copy fails with [`crate::CopyError::TableChanged`], [`crate::CopyError::TableVanished`],
    /// [`crate::CopyError::Changing`], [`crate::CopyError::SnapshotTooOld`] or [`crate::CopyError::MisplacedRows`].
    #[default]
    End,
    /// The table is skipped and listed in [`crate::CopyReport::unsettled`]; the caller copies it at another GTID set.
    LeaveOut,
}

/// Options of a copy.
#[derive(Clone, Debug)]
pub struct CopyOptions {
    /// How the rows are assigned to a GTID set.
    pub lock: CopyLock,
    /// Which tables to copy.
    pub tables: TableFilter,
    /// Number of connections that read in parallel (`--copy-connections`); at least 1. One more runs other queries.
    pub connections: usize,
    /// Limit in bytes of row images per second, over all connections (`--copy-rate`); None for no limit.
    pub rate_bytes_per_second: Option<u64>,
    /// How long one lock request may keep writers waiting (`--lock-wait`); the first attempts take 100 ms.
    pub lock_wait: Duration,
    /// How long to look for a moment for the snapshots. A copy without a lock that follows failed attempts gets the
    /// same time again.
    pub lock_timeout: Duration,
    /// Maximum age of the snapshots (`--snapshot-max`): the source must keep every old row version for this long.
    /// Without a lock, each range of a table has its own snapshot, and there is no limit.
    pub snapshot_max: Duration,
    /// Treatment of tables that cannot be copied at this GTID set.
    pub unsettled: Unsettled,
    /// The tables hold rows outside their partition's rule ([`crate::CopyError::MisplacedRows`]), and are defined so
    /// here. For tables that are copied alone.
    pub misplaced_rows: bool,
    /// Approximate bytes of row images per call of the sink.
    pub batch_bytes: usize,
    /// Approximate bytes of a table that one connection reads at a time; larger tables are shared among connections.
    pub chunk_bytes: u64,
    /// Minimum number of rows that one connection reads at a time.
    pub chunk_rows_min: u64,
    /// Limit in bytes, as estimated by the source, of all tables in engines without snapshots (MyISAM, MEMORY, …),
    /// which are read while writers wait. Beyond it the copy is refused.
    pub locked_bytes_max: u64,
    /// Is told what the preparation does.
    pub preparing: Arc<Preparing>,
}

impl Default for CopyOptions {
    fn default() -> CopyOptions {
        CopyOptions {
            lock: CopyLock::Auto,
            tables: TableFilter::default(),
            connections: 4,
            rate_bytes_per_second: None,
            lock_wait: Duration::from_secs(1),
            lock_timeout: Duration::from_secs(60),
            snapshot_max: Duration::from_secs(600),
            unsettled: Unsettled::End,
            misplaced_rows: false,
            batch_bytes: 1 << 20,
            chunk_bytes: 16 << 20,
            chunk_rows_min: 1000,
            // Takes less than 100 ms at 50 MB/s.
            locked_bytes_max: 4 << 20,
            preparing: Arc::default(),
        }
    }
}
