//! Parts of the status report: clients, store, memory, disk; and what the last 24 hours were like.
//!
//! In: values that the replica collects. Out: JSON, as in the whole report. Never here: measuring.

use serde::{Deserialize, Serialize};

/// The port for clients.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ClientsReport {
    /// Address and port that are listened on; None without one.
    #[serde(rename = "address")]
    pub address: Option<String>,
    /// Path of the unix socket.
    #[serde(rename = "socket")]
    pub socket: Option<String>,
    /// Number of connections that are logged in; MySQL's Threads_connected.
    #[serde(rename = "connections")]
    pub connections: u64,
    /// Number of connections that are not logged in yet.
    #[serde(rename = "logging_in")]
    pub logging_in: u64,
    /// Number of connections accepted since the start; MySQL's Connections.
    #[serde(rename = "accepted")]
    pub accepted: u64,
    /// Number of statements since the start; MySQL's Questions.
    #[serde(rename = "questions")]
    pub questions: u64,
    /// When the certificate ends; UTC.
    #[serde(rename = "certificate_expires")]
    pub certificate_expires: Option<String>,
    #[serde(rename = "statements")]
    pub statements: StatementsReport,
    /// None: nothing is forwarded to the source.
    #[serde(rename = "forwarded")]
    pub forwarded: Option<ForwardedReport>,
}

/// Commands of accounts whose statements are forwarded, since the start.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ForwardedReport {
    /// Number of those that went to the source.
    #[serde(rename = "commands")]
    pub commands: u64,
    /// Number of those that were answered here.
    #[serde(rename = "served_here")]
    pub served_here: u64,
    /// Number of those that are not forwarded.
    #[serde(rename = "refused")]
    pub refused: u64,
    #[serde(rename = "splits")]
    pub splits: SplitsReport,
    /// Number of connections to the source that are open now.
    #[serde(rename = "connections")]
    pub connections: u64,
    /// Number of sessions that wait for one.
    #[serde(rename = "waiting")]
    pub waiting: u64,
    /// Those that went to the source, by the construct that is not answered here; the most frequent first.
    #[serde(rename = "by_construct")]
    pub by_construct: Vec<RefusedReport>,
    /// Those of them that only read, by digest: the ten that would move most if their construct were answered here.
    #[serde(rename = "by_digest")]
    pub by_digest: Vec<DigestReport>,
    /// Users that the source does not let in: unknown there, or with another password.
    #[serde(rename = "refused_logins")]
    pub refused_logins: Vec<String>,
}

/// REPEATABLE READ transactions that had read here when they went to the source, since the start.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct SplitsReport {
    #[serde(rename = "begun")]
    pub begun: u64,
    /// Number of those whose rows here were not the newest any more by then.
    #[serde(rename = "older")]
    pub older: u64,
    /// Number of their plain reads at the source, each of which had to fit what was read here.
    #[serde(rename = "proofs")]
    pub proofs: u64,
    /// Number of those that ended with 1213 because one did not.
    #[serde(rename = "conflicts")]
    pub conflicts: u64,
}

/// Statements of one kind, without their literals.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct DigestReport {
    #[serde(rename = "text")]
    pub text: String,
    /// Why the last one was not answered here.
    #[serde(rename = "construct")]
    pub construct: String,
    /// Number of them, at least.
    #[serde(rename = "count")]
    pub count: u64,
}

/// What became of clients' statements since the start.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct StatementsReport {
    /// Number of those, and of preparations, that ended with an error.
    #[serde(rename = "failed")]
    pub failed: u64,
    /// Number of those that ended with 1235, because they are not supported.
    #[serde(rename = "refused")]
    pub refused: u64,
    /// The same by construct; the most frequent first.
    #[serde(rename = "refused_by_construct")]
    pub refused_by_construct: Vec<RefusedReport>,
    /// Number of those that ended because their snapshot was too old.
    #[serde(rename = "snapshots_too_old")]
    pub snapshots_too_old: u64,
    #[serde(rename = "duration")]
    pub duration: DurationReport,
}

/// Statements refused with 1235 because of one construct.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct RefusedReport {
    #[serde(rename = "construct")]
    pub construct: String,
    #[serde(rename = "count")]
    pub count: u64,
}

/// Statements by their duration.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct DurationReport {
    /// Upper bounds of the classes, µs; above the last one there is one more class.
    #[serde(rename = "bounds_us")]
    pub bounds_us: Vec<u64>,
    /// Number of statements in each class.
    #[serde(rename = "counts")]
    pub counts: Vec<u64>,
    /// Sum of all durations, µs.
    #[serde(rename = "sum_us")]
    pub sum_us: u64,
}

/// The store on disk.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct StoreReport {
    /// Sequence number of the newest durable cut, after which a restart replays.
    #[serde(rename = "last_cut")]
    pub last_cut: u64,
    /// When this process made its last cut; UTC.
    #[serde(rename = "last_cut_at")]
    pub last_cut_at: Option<String>,
    /// Number of cuts since the start.
    #[serde(rename = "cuts")]
    pub cuts: u64,
    /// Number of sealed generations that wait for their cut.
    #[serde(rename = "sealed_generations")]
    pub sealed_generations: u64,
    /// Bytes in the tree's files.
    #[serde(rename = "tree_bytes")]
    pub tree_bytes: u64,
    /// Bytes of rows written by cuts since the start.
    #[serde(rename = "written_bytes")]
    pub written_bytes: u64,
    /// Bytes that compaction still has to merge.
    #[serde(rename = "compaction_debt_bytes")]
    pub compaction_debt_bytes: u64,
    /// Number of sorted runs that contain them; a range read looks into each.
    #[serde(rename = "compaction_debt_runs")]
    pub compaction_debt_runs: u64,
    /// Number of sorted runs in level 0.
    #[serde(rename = "l0_runs")]
    pub l0_runs: u64,
    /// When the last backup of the running replica was complete, µs since 1970; None if there was none.
    #[serde(rename = "last_backup_us")]
    pub last_backup_us: Option<u64>,
    /// Number of compaction steps since the start.
    #[serde(rename = "compactions")]
    pub compactions: u64,
    /// Waits of readers for rows that replay was changing, since the start.
    #[serde(rename = "reader_waits")]
    pub reader_waits: WaitReport,
    /// Waits of replay for rows that readers were reading, since the start.
    #[serde(rename = "replay_waits")]
    pub replay_waits: WaitReport,
}

/// Waits of one side for the other; a lock taken at once is none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct WaitReport {
    #[serde(rename = "count")]
    pub count: u64,
    /// Median, in microseconds.
    #[serde(rename = "p50_us")]
    pub p50_us: u64,
    /// 99th percentile, in microseconds.
    #[serde(rename = "p99_us")]
    pub p99_us: u64,
    /// The longest, in microseconds.
    #[serde(rename = "max_us")]
    pub max_us: u64,
}

/// Memory in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct MemoryReport {
    /// Resident memory of the process.
    #[serde(rename = "rss_bytes")]
    pub rss_bytes: u64,
    /// Highest resident memory so far.
    #[serde(rename = "rss_peak_bytes")]
    pub rss_peak_bytes: u64,
    /// Memory of the store's generations.
    #[serde(rename = "store_bytes")]
    pub store_bytes: u64,
    /// Memory of work in the queues.
    #[serde(rename = "queue_bytes")]
    pub queue_bytes: u64,
    /// Limit of the queues.
    #[serde(rename = "queue_limit_bytes")]
    pub queue_limit_bytes: u64,
    /// Limit of the whole process, `--memory`.
    #[serde(rename = "limit_bytes")]
    pub limit_bytes: u64,
}

/// Disk in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct DiskReport {
    /// All files in the data folder.
    #[serde(rename = "folder_bytes")]
    pub folder_bytes: u64,
    /// The relay log's share of them.
    #[serde(rename = "relay_log_bytes")]
    pub relay_log_bytes: u64,
    /// Free space in the file system of the data folder.
    #[serde(rename = "free_bytes")]
    pub free_bytes: Option<u64>,
    /// Part of it that only cuts, purges and merges of the newest runs may use.
    #[serde(rename = "reserve_bytes")]
    pub reserve_bytes: Option<u64>,
    /// Time until only the reserve is free, at the mean rate of the last hour, µs; None if space does not shrink.
    #[serde(rename = "full_in_us")]
    pub full_in_us: Option<u64>,
    /// True while receiving or replay waits for free space.
    #[serde(rename = "waits")]
    pub waits: bool,
}

/// Lag and rates of the last 24 hours, a value a minute in each list, oldest first. Minutes may be missing.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct HistoryReport {
    #[serde(rename = "step_s")]
    pub step_s: u64,
    /// When each minute began, seconds since 1970.
    #[serde(rename = "at_s")]
    pub at_s: Vec<u64>,
    /// The highest lag, µs; None if it was not known at any time of the minute.
    #[serde(rename = "lag_us")]
    pub lag_us: Vec<Option<u64>>,
    #[serde(rename = "transactions_per_s")]
    pub transactions_per_s: Vec<f64>,
    #[serde(rename = "rows_per_s")]
    pub rows_per_s: Vec<f64>,
    #[serde(rename = "bytes_per_s")]
    pub bytes_per_s: Vec<f64>,
    /// Commands of accounts that forward which were answered here, of a hundred; None without one.
    #[serde(rename = "served_here_percent")]
    pub served_here_percent: Vec<Option<f64>>,
}

impl HistoryReport {
    #[must_use]
    pub fn to_json(&self) -> String {
        serde_json::to_string(self).unwrap_or_default()
    }
}
