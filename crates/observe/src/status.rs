//! Everything `slipstream status` shows, as one value: what the running replica sends over its socket, what
//! `--json` prints, what the text form is rendered from.

use serde::{Deserialize, Serialize};

use crate::lag::LagSummary;
use crate::ledger::LedgerSnapshot;
use crate::process::ThreadCpu;
use crate::rates::{RateSample, Work};

/// State of the connection to the source; MySQL's Replica_IO_Running.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum ConnectionState {
    /// Not connected and not trying.
    #[default]
    #[serde(rename = "stopped")]
    Stopped,
    /// Trying to connect, for the first time or again.
    #[serde(rename = "connecting")]
    Connecting,
    /// Receiving.
    #[serde(rename = "connected")]
    Connected,
    /// The source is a file or an index of files.
    #[serde(rename = "files")]
    Files,
}

impl ConnectionState {
    /// As SHOW REPLICA STATUS prints Replica_IO_Running.
    #[must_use]
    pub fn as_mysql(self) -> &'static str {
        match self {
            ConnectionState::Stopped => "No",
            ConnectionState::Connecting => "Connecting",
            ConnectionState::Connected | ConnectionState::Files => "Yes",
        }
    }
}

/// State of replay; MySQL's Replica_SQL_Running and Replica_SQL_Running_State.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum ReplayState {
    /// The program does not run.
    #[default]
    #[serde(rename = "stopped")]
    Stopped,
    /// Copying the source's tables into an empty store; the detail says how far.
    #[serde(rename = "copying")]
    Copying,
    /// Reading the kept relay log after a start.
    #[serde(rename = "recovering")]
    Recovering,
    /// Replaying.
    #[serde(rename = "running")]
    Running,
    /// Everything received is visible; waiting for the source.
    #[serde(rename = "caught_up")]
    CaughtUp,
    /// Paused by the operator; receiving goes on.
    #[serde(rename = "paused")]
    Paused,
    /// Finishing the running transactions to stop.
    #[serde(rename = "stopping")]
    Stopping,
    /// Stopped by an error; see the last error.
    #[serde(rename = "failed")]
    Failed,
}

impl ReplayState {
    /// As SHOW REPLICA STATUS prints Replica_SQL_Running.
    #[must_use]
    pub fn as_mysql(self) -> &'static str {
        match self {
            ReplayState::Recovering | ReplayState::Running | ReplayState::CaughtUp | ReplayState::Stopping => "Yes",
            ReplayState::Stopped | ReplayState::Copying | ReplayState::Paused | ReplayState::Failed => "No",
        }
    }

    /// One sentence for people.
    #[must_use]
    pub fn sentence(self) -> &'static str {
        match self {
            ReplayState::Stopped => "stopped",
            ReplayState::Copying => "copying the source's tables",
            ReplayState::Recovering => "reading the kept relay log",
            ReplayState::Running => "replaying",
            ReplayState::CaughtUp => "has read all relay log; waiting for more",
            ReplayState::Paused => "paused by operator",
            ReplayState::Stopping => "stopping at a transaction boundary",
            ReplayState::Failed => "stopped by an error",
        }
    }
}

/// The source and the connection to it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct SourceReport {
    /// As configured, without its password.
    #[serde(rename = "uri")]
    pub uri: String,
    /// State of the connection.
    #[serde(rename = "state")]
    pub state: ConnectionState,
    /// The source's `version`, empty before the first connection.
    #[serde(rename = "server_version")]
    pub server_version: String,
    /// The source's server_id.
    #[serde(rename = "server_id")]
    pub server_id: u32,
    /// The source's server_uuid.
    #[serde(rename = "server_uuid")]
    pub server_uuid: String,
    /// TLS version and cipher; none on an open connection.
    #[serde(rename = "tls")]
    pub tls: Option<String>,
    /// Whether the source waits for our acknowledgements.
    #[serde(rename = "semi_sync")]
    pub semi_sync: bool,
    /// Since when connected, or trying to; UTC.
    #[serde(rename = "since")]
    pub since: Option<String>,
    /// Connections made again since the start.
    #[serde(rename = "reconnects")]
    pub reconnects: u64,
    /// When the last event or heartbeat came; UTC.
    #[serde(rename = "last_received")]
    pub last_received: Option<String>,
}

/// GTID sets in MySQL's text form.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct GtidReport {
    /// In the relay log; MySQL's Retrieved_Gtid_Set.
    #[serde(rename = "retrieved")]
    pub retrieved: String,
    /// Visible to readers; MySQL's Executed_Gtid_Set.
    #[serde(rename = "executed")]
    pub executed: String,
    /// Named by `slipstream skip` and not yet met.
    #[serde(rename = "to_skip")]
    pub to_skip: String,
}

/// Places in the logs, `file:offset`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct PositionReport {
    /// End of what was received, in the source's log; Source_Log_File and Read_Source_Log_Pos.
    #[serde(rename = "source_received")]
    pub source_received: Option<String>,
    /// End of what is visible, in the source's log; Relay_Source_Log_File and Exec_Source_Log_Pos.
    #[serde(rename = "source_executed")]
    pub source_executed: Option<String>,
    /// End of the relay log.
    #[serde(rename = "relay_received")]
    pub relay_received: Option<String>,
    /// End of what is visible, in the relay log; Relay_Log_File and Relay_Log_Pos.
    #[serde(rename = "relay_executed")]
    pub relay_executed: Option<String>,
    /// The watermark: sequence number of the last visible transaction.
    #[serde(rename = "watermark")]
    pub watermark: u64,
}

/// Lag by the source's commit timestamps, the clock difference taken off.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct LagReport {
    /// Now: 0 when all the source has committed is visible, else the age of the oldest commit not yet visible, as far
    /// as it is known; none when not connected or not replaying (MySQL's NULL).
    #[serde(rename = "current_us")]
    pub current_us: Option<u64>,
    /// Of every transaction since the start.
    #[serde(rename = "overall")]
    pub overall: LagSummary,
    /// Of the last complete second.
    #[serde(rename = "last_1s")]
    pub last_1s: LagSummary,
    /// Of the last ten.
    #[serde(rename = "last_10s")]
    pub last_10s: LagSummary,
    /// The source's clock minus ours, already taken off all figures above.
    #[serde(rename = "clock_difference_us")]
    pub clock_difference_us: Option<i64>,
    /// Half the round trip of that measurement: its error at most.
    #[serde(rename = "clock_error_us")]
    pub clock_error_us: Option<u64>,
    /// When it was measured; UTC.
    #[serde(rename = "clock_measured")]
    pub clock_measured: Option<String>,
}

/// Received and not yet visible.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Backlog {
    /// Transactions.
    #[serde(rename = "transactions")]
    pub transactions: u64,
    /// Bytes of relay log.
    #[serde(rename = "bytes")]
    pub bytes: u64,
    /// How long until all of it and what comes meanwhile is visible, at the speeds of the last five seconds, microseconds;
    /// none when replay is less than a second behind or does not get nearer.
    #[serde(rename = "catch_up_us")]
    pub catch_up_us: Option<u64>,
}

impl Backlog {
    /// See [`Backlog::catch_up_us`]: for so many bytes of backlog, bytes replayed and bytes received a second.
    #[must_use]
    pub fn catch_up_us_of(bytes: u64, replayed_per_s: f64, received_per_s: f64) -> Option<u64> {
        let nearer_per_s = replayed_per_s - received_per_s;
        // Beyond a year it is noise.
        let seconds = Some(bytes as f64 / nearer_per_s).filter(|_| nearer_per_s > 0.0)?;
        (seconds < 3.2e7).then_some((seconds * 1e6) as u64)
    }
}

/// Work per second, and in all.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct RatesReport {
    /// In the last complete second.
    #[serde(rename = "last_1s")]
    pub last_1s: RateSample,
    /// Mean of the last ten.
    #[serde(rename = "last_10s")]
    pub last_10s: RateSample,
    /// Since the start.
    #[serde(rename = "total")]
    pub total: Work,
}

/// The error that stopped replay or the connection last.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ErrorReport {
    /// When; UTC.
    #[serde(rename = "at")]
    pub at: String,
    /// The exit code it stands for.
    #[serde(rename = "exit")]
    pub exit: u8,
    /// MySQL's error number where it has one (1236, 1032, ...).
    #[serde(rename = "number")]
    pub number: Option<u32>,
    /// What happened, with position and GTID.
    #[serde(rename = "text")]
    pub text: String,
    /// The command that leads on.
    #[serde(rename = "way_on")]
    pub way_on: Option<String>,
}

/// The store on disk.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct StoreReport {
    /// Sequence number of the newest durable cut: a restart replays what follows it.
    #[serde(rename = "last_cut")]
    pub last_cut: u64,
    /// When this process took its last cut; UTC.
    #[serde(rename = "last_cut_at")]
    pub last_cut_at: Option<String>,
    /// Cuts since the start.
    #[serde(rename = "cuts")]
    pub cuts: u64,
    /// Generations that wait to be cut.
    #[serde(rename = "sealed_generations")]
    pub sealed_generations: u64,
    /// Bytes of the tree's files.
    #[serde(rename = "tree_bytes")]
    pub tree_bytes: u64,
    /// Bytes of rows that cuts wrote since the start.
    #[serde(rename = "written_bytes")]
    pub written_bytes: u64,
    /// Bytes that compaction has yet to merge.
    #[serde(rename = "compaction_debt_bytes")]
    pub compaction_debt_bytes: u64,
    /// Sorted runs that they stand in; a range read looks into each.
    #[serde(rename = "compaction_debt_runs")]
    pub compaction_debt_runs: u64,
    /// Sorted runs in level 0.
    #[serde(rename = "l0_runs")]
    pub l0_runs: u64,
    /// Steps of compaction since the start.
    #[serde(rename = "compactions")]
    pub compactions: u64,
}

/// Memory in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct MemoryReport {
    /// Resident memory of the process.
    #[serde(rename = "rss_bytes")]
    pub rss_bytes: u64,
    /// Its highest value so far.
    #[serde(rename = "rss_peak_bytes")]
    pub rss_peak_bytes: u64,
    /// Held by the store's generations.
    #[serde(rename = "store_bytes")]
    pub store_bytes: u64,
    /// Held by work in the queues.
    #[serde(rename = "queue_bytes")]
    pub queue_bytes: u64,
    /// Bound of the queues.
    #[serde(rename = "queue_limit_bytes")]
    pub queue_limit_bytes: u64,
    /// `--memory`: bound of the whole process.
    #[serde(rename = "limit_bytes")]
    pub limit_bytes: u64,
}

/// Disk in bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct DiskReport {
    /// All files of the data folder.
    #[serde(rename = "folder_bytes")]
    pub folder_bytes: u64,
    /// The relay log's part.
    #[serde(rename = "relay_log_bytes")]
    pub relay_log_bytes: u64,
    /// Free in that file system.
    #[serde(rename = "free_bytes")]
    pub free_bytes: Option<u64>,
}

/// Replay as a whole.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ReplayReport {
    /// State of replay.
    #[serde(rename = "state")]
    pub state: ReplayState,
    /// What it waits for, if anything.
    #[serde(rename = "detail")]
    pub detail: String,
    /// Transactions that one thread applied because they need rows of several lanes.
    #[serde(rename = "barriers")]
    pub barriers: u64,
    /// Tables held.
    #[serde(rename = "tables")]
    pub tables: u64,
    /// Rows held.
    #[serde(rename = "rows")]
    pub rows: u64,
    /// How far the copy of one table is that runs beside replay; empty when there is none.
    #[serde(rename = "table_copy")]
    pub table_copy: String,
    /// Tables copied again since the start.
    #[serde(rename = "tables_copied")]
    pub tables_copied: u64,
    /// Of them because a statement could not be interpreted.
    #[serde(rename = "tables_copied_by_itself")]
    pub tables_copied_by_itself: u64,
    /// Tables that cannot be read before they are copied, and why.
    #[serde(rename = "quarantined")]
    pub quarantined: Vec<String>,
}

/// All of it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct StatusReport {
    /// Version of Slipstream.
    #[serde(rename = "version")]
    pub version: String,
    /// When this was taken; UTC.
    #[serde(rename = "at")]
    pub at: String,
    /// Whether a replica runs on the folder.
    #[serde(rename = "running")]
    pub running: bool,
    /// Its process id.
    #[serde(rename = "pid")]
    pub pid: Option<u32>,
    /// For how long it runs, microseconds.
    #[serde(rename = "uptime_us")]
    pub uptime_us: u64,
    /// The data folder.
    #[serde(rename = "data")]
    pub data: String,
    /// This replica's server_id.
    #[serde(rename = "server_id")]
    pub server_id: u32,
    /// This replica's server_uuid.
    #[serde(rename = "server_uuid")]
    pub server_uuid: String,
    /// The source and the connection to it.
    #[serde(rename = "source")]
    pub source: SourceReport,
    /// Replay as a whole.
    #[serde(rename = "replay")]
    pub replay: ReplayReport,
    /// GTID sets.
    #[serde(rename = "gtid")]
    pub gtid: GtidReport,
    /// Places in the logs.
    #[serde(rename = "position")]
    pub position: PositionReport,
    /// Lag.
    #[serde(rename = "lag")]
    pub lag: LagReport,
    /// Received and not yet visible.
    #[serde(rename = "backlog")]
    pub backlog: Backlog,
    /// Work per second.
    #[serde(rename = "rates")]
    pub rates: RatesReport,
    /// The last error.
    #[serde(rename = "last_error")]
    pub last_error: Option<ErrorReport>,
    /// What became of every event.
    #[serde(rename = "ledger")]
    pub ledger: LedgerSnapshot,
    /// The store on disk.
    #[serde(rename = "store")]
    pub store: StoreReport,
    /// Memory.
    #[serde(rename = "memory")]
    pub memory: MemoryReport,
    /// Disk.
    #[serde(rename = "disk")]
    pub disk: DiskReport,
    /// CPU time of the process, ended threads included, microseconds.
    #[serde(rename = "cpu_us")]
    pub cpu_us: u64,
    /// CPU time by stage.
    #[serde(rename = "threads")]
    pub threads: Vec<ThreadCpu>,
}

impl StatusReport {
    /// Why this replica must not count as fresh enough for `--max-lag`; none if it is.
    #[must_use]
    pub fn lag_above(&self, lag_us_max: u64) -> Option<String> {
        match self.lag.current_us {
            Some(lag_us) if lag_us <= lag_us_max => None,
            Some(lag_us) => {
                Some(format!("lag {} is above {}", crate::duration_text(lag_us), crate::duration_text(lag_us_max)))
            }
            None => Some(format!(
                "lag is not known: connection {}, replay {}",
                self.source.state.as_mysql(),
                self.replay.state.sentence()
            )),
        }
    }

    /// One JSON document, indented.
    #[must_use]
    pub fn to_json(&self) -> String {
        serde_json::to_string_pretty(self).unwrap_or_default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_lag_is_never_fresh() {
        let mut report = StatusReport::default();
        assert!(report.lag_above(u64::MAX).is_some());
        report.lag.current_us = Some(10_000_000);
        assert_eq!(report.lag_above(10_000_000), None);
        assert_eq!(report.lag_above(9_999_999).as_deref(), Some("lag 10.0 s is above 9.99 s"));
    }

    #[test]
    fn json_round_trip_and_older_reports_still_read() {
        let mut report = StatusReport { running: true, pid: Some(7), ..StatusReport::default() };
        report.lag.clock_difference_us = Some(-12);
        let back: StatusReport = serde_json::from_str(&report.to_json()).unwrap();
        assert_eq!(back, report);
        let sparse: StatusReport = serde_json::from_str("{\"running\":true}").unwrap();
        assert!(sparse.running && sparse.pid.is_none());
    }

    #[test]
    fn a_backlog_that_shrinks_has_an_end() {
        assert_eq!(Backlog::catch_up_us_of(600, 50.0, 20.0), Some(20_000_000));
        for (replayed, received) in [(50.0, 50.0), (20.0, 50.0), (1e-9, 0.0)] {
            assert_eq!(Backlog::catch_up_us_of(600, replayed, received), None);
        }
        let mut backlog = Backlog { transactions: 7, bytes: 600, catch_up_us: None };
        assert!(!backlog.to_text().contains("caught up"), "{}", backlog.to_text());
        backlog.catch_up_us = Some(20_000_000);
        assert!(backlog.to_text().contains(", caught up in about 20"), "{}", backlog.to_text());
    }
}
