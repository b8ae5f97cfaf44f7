//! How to copy.

use std::time::Duration;

use source::TableFilter;

/// How the rows come to belong to a GTID set (`--copy-lock`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CopyLock {
    /// FLUSH TABLES WITH READ LOCK for milliseconds: all rows are of one GTID set. Where it is not to be had within
    /// `lock_timeout`, as `None` if all tables can be copied so.
    #[default]
    Auto,
    /// LOCK TABLES … READ of the one table that the filter names, for milliseconds: all its rows, and they alone, are of
    /// one GTID set. What is copied must be one table.
    Table,
    /// No lock, for accounts without RELOAD: rows are of some moment while the copy ran, and replay from the plan's
    /// GTID set on makes them exact; see the crate's text.
    None,
}

/// How to copy.
#[derive(Clone, Debug)]
pub struct CopyOptions {
    /// See [`CopyLock`].
    pub lock: CopyLock,
    /// Which tables.
    pub tables: TableFilter,
    /// Connections that read at a time (`--copy-connections`); at least 1. One more asks questions beside them.
    pub connections: usize,
    /// Bytes of row images a second that all connections together read at most (`--copy-rate`); None: no limit.
    pub rate_bytes_per_second: Option<u64>,
    /// How long one try for the lock may keep writers waiting (`--lock-wait`); the first tries take 100 ms.
    pub lock_wait: Duration,
    /// How long to go on trying to find a moment for the snapshots; without a lock, and behind tries for one, the same
    /// once more.
    pub lock_timeout: Duration,
    /// How old the snapshots may become (`--snapshot-max`): the source keeps every old row version as long. Without a
    /// lock there is one for each range of a table, and no limit.
    pub snapshot_max: Duration,
    /// Bytes of row images handed to the sink at a time, about.
    pub batch_bytes: usize,
    /// Bytes of a table that one connection reads at a time, about; larger tables are shared among connections.
    pub chunk_bytes: u64,
    /// Rows that one connection reads at a time, at least.
    pub chunk_rows_min: u64,
    /// Bytes of all tables in engines without snapshots (MyISAM, MEMORY, …), as the source estimates them, that are
    /// read while writers wait. With more than this the copy is refused.
    pub locked_bytes_max: u64,
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
            batch_bytes: 1 << 20,
            chunk_bytes: 16 << 20,
            chunk_rows_min: 1000,
            // Read in less than 100 ms at 50 MB/s.
            locked_bytes_max: 4 << 20,
        }
    }
}
