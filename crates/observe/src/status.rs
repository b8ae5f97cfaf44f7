//! Status report: everything that `slipstream status` shows, in one value. The running replica sends it over its
//! socket, `--json` prints it, and the text form is rendered from it.
//!
//! In: values that the replica collects. Out: JSON, exchanged with older and newer programs: names are pinned, unknown
//! keys are ignored, unknown states are `unknown`, and absent keys have defaults, except those whose default would be a
//! false statement. Never here: measuring.

use serde::{Deserialize, Serialize};

use crate::by_part::LagPartsReport;
use crate::group_report::GroupReport;
use crate::lag::LagSummary;
use crate::ledger::LedgerSnapshot;
use crate::parts::{ClientsReport, DiskReport, MemoryReport, StoreReport};
use crate::process::ThreadCpu;
use crate::rates::{RateSample, Work};
use crate::render::count_text;

/// State of the connection to the source; MySQL's Replica_IO_Running.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum ConnectionState {
    /// Neither connected nor trying to connect.
    #[default]
    #[serde(rename = "stopped")]
    Stopped,
    /// Trying to connect, for the first time or again.
    #[serde(rename = "connecting")]
    Connecting,
    #[serde(rename = "connected")]
    Connected,
    /// The source is a log file or an index of log files.
    #[serde(rename = "files")]
    Files,
    /// A state of a newer program, read from its report.
    #[serde(rename = "unknown", other)]
    Unknown,
}

impl ConnectionState {
    /// Value that SHOW REPLICA STATUS prints for Replica_IO_Running.
    #[must_use]
    pub fn as_mysql(self) -> &'static str {
        match self {
            ConnectionState::Stopped => "No",
            ConnectionState::Connecting => "Connecting",
            ConnectionState::Connected | ConnectionState::Files => "Yes",
            ConnectionState::Unknown => "Unknown",
        }
    }
}

/// State of replay; MySQL's Replica_SQL_Running and Replica_SQL_Running_State.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum ReplayState {
    /// The program is not running.
    #[default]
    #[serde(rename = "stopped")]
    Stopped,
    /// Copying the source's tables into an empty store; the detail shows the progress.
    #[serde(rename = "copying")]
    Copying,
    /// Reading the existing relay log after a start.
    #[serde(rename = "recovering")]
    Recovering,
    #[serde(rename = "running")]
    Running,
    /// Everything received is visible; waiting for the source.
    #[serde(rename = "caught_up")]
    CaughtUp,
    /// Paused by the operator; receiving continues.
    #[serde(rename = "paused")]
    Paused,
    /// Finishing transactions in progress in order to stop.
    #[serde(rename = "stopping")]
    Stopping,
    /// Stopped by an error; see the last error.
    #[serde(rename = "failed")]
    Failed,
    /// A state of a newer program, read from its report.
    #[serde(rename = "unknown", other)]
    Unknown,
}

impl ReplayState {
    /// Value that SHOW REPLICA STATUS prints for Replica_SQL_Running.
    #[must_use]
    pub fn as_mysql(self) -> &'static str {
        match self {
            ReplayState::Recovering | ReplayState::Running | ReplayState::CaughtUp | ReplayState::Stopping => "Yes",
            ReplayState::Stopped | ReplayState::Copying | ReplayState::Paused | ReplayState::Failed => "No",
            ReplayState::Unknown => "Unknown",
        }
    }

    /// Short description for people.
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
            ReplayState::Unknown => "in a state that only a newer release knows",
        }
    }
}

/// The source and the connection to it.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SourceReport {
    /// Options that CHANGE REPLICATION SOURCE TO changed, and that are in force instead of those of the start.
    #[serde(rename = "changed_by_sql", default)]
    pub changed_by_sql: Vec<String>,
    /// URI as configured, without the password.
    #[serde(rename = "uri", default)]
    pub uri: String,
    /// State of the connection.
    #[serde(rename = "state")]
    pub state: ConnectionState,
    /// Server version of the source; empty before the first connection.
    #[serde(rename = "server_version", default)]
    pub server_version: String,
    /// server_id of the source.
    #[serde(rename = "server_id", default)]
    pub server_id: u32,
    /// server_uuid of the source.
    #[serde(rename = "server_uuid", default)]
    pub server_uuid: String,
    /// TLS version and cipher; None on an unencrypted connection.
    #[serde(rename = "tls", default)]
    pub tls: Option<String>,
    /// True if the source waits for our acknowledgements.
    #[serde(rename = "semi_sync", default)]
    pub semi_sync: bool,
    /// Since when it has been connected, or trying to connect; UTC.
    #[serde(rename = "since", default)]
    pub since: Option<String>,
    /// When a login that the source refused is tried again; UTC.
    #[serde(rename = "next_try", default)]
    pub next_try: Option<String>,
    /// What receiving waits for on our side, in words; empty if nothing.
    #[serde(rename = "waits", default)]
    pub waits: String,
    /// The server that was the source before; None if it was always the same.
    #[serde(rename = "before", default)]
    pub before: Option<BeforeReport>,
    /// Number of reconnects since the start.
    #[serde(rename = "reconnects", default)]
    pub reconnects: u64,
    #[serde(flatten)]
    pub heard: HeardReport,
    /// Time until the source purges, by its binlog_expire_logs_seconds, what has not been received, µs; 0 if it may have
    /// been. None if the source never purges by itself, or that is not known since the start.
    #[serde(rename = "purges_in_us", default)]
    pub purges_in_us: Option<u64>,
    /// Host and port of the server that is followed or tried; empty and 0 for files.
    #[serde(rename = "host", default)]
    pub host: String,
    #[serde(rename = "port", default)]
    pub port: u16,
    #[serde(flatten)]
    pub several: SeveralReport,
}

/// Several servers, of which one is followed.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct SeveralReport {
    /// Since when the server of now is followed; UTC. None while none is.
    #[serde(rename = "followed_since", default)]
    pub followed_since: Option<String>,
    /// The server that was followed before, of several.
    #[serde(rename = "left", default)]
    pub left: Option<LeftReport>,
    /// The servers of which one is followed, in the order in which they are tried; none if there is only one.
    #[serde(rename = "candidates", default)]
    pub candidates: Vec<CandidateReport>,
    /// Members of the source's group whose addresses are not dialled, with the reason.
    #[serde(rename = "members_not_followed", default)]
    pub members_not_followed: Vec<String>,
    /// The group that the source belongs to; None if it belongs to none, or only one server may be followed.
    #[serde(rename = "group", default)]
    pub group: Option<GroupReport>,
}

/// The server that was the source before another one answered in its place.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct BeforeReport {
    #[serde(rename = "server_uuid")]
    pub server_uuid: String,
    /// When the other one was first followed; UTC.
    #[serde(rename = "until")]
    pub until: String,
}

/// The server that was followed before the one of now.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct LeftReport {
    #[serde(rename = "uri")]
    pub uri: String,
    #[serde(rename = "why")]
    pub why: String,
    /// When it was left; UTC.
    #[serde(rename = "at")]
    pub at: String,
    /// When its last event or heartbeat arrived; UTC. None if none did.
    #[serde(rename = "last_received")]
    pub last_received: Option<String>,
}

/// One of several servers, any of which may be followed.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct CandidateReport {
    /// Its URI, without the password.
    #[serde(rename = "uri")]
    pub uri: String,
    #[serde(rename = "followed")]
    pub followed: bool,
    /// Why it could not be followed when it was last tried; empty if that was not since another one is.
    #[serde(rename = "why_not")]
    pub why_not: String,
    /// When that was; UTC.
    #[serde(rename = "tried")]
    pub tried: Option<String>,
    /// server_uuid, MEMBER_STATE and MEMBER_ROLE of a member of a group, as the followed one sees it; empty if unknown.
    #[serde(rename = "server_uuid")]
    pub server_uuid: String,
    #[serde(rename = "member_state")]
    pub member_state: String,
    #[serde(rename = "member_role")]
    pub member_role: String,
    /// Transactions that this member has neither certified nor applied, as it last told its group.
    #[serde(rename = "queued")]
    pub queued: u64,
    /// The heaviest is tried first, 1 to 100.
    #[serde(rename = "weight")]
    pub weight: u8,
}

/// What was last heard from the source.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HeardReport {
    /// When the last event or heartbeat arrived; UTC.
    #[serde(rename = "last_received", default)]
    pub last_received: Option<String>,
    /// The same in µs since 1970.
    #[serde(rename = "last_received_us", default)]
    pub last_received_us: Option<u64>,
    /// Time for which nothing has come from it.
    #[serde(rename = "silence", default)]
    pub silence: SilenceReport,
}

/// Time for which nothing has come from the source.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct SilenceReport {
    /// Since the last byte, while the source is read, µs; None while it is not connected.
    #[serde(rename = "us")]
    pub us: Option<u64>,
    /// True if that is longer than its heartbeats allow: nobody knows what it has committed since.
    #[serde(rename = "too_long")]
    pub too_long: bool,
}

impl SilenceReport {
    /// That nothing comes from the source, if it should.
    #[must_use]
    pub fn text(&self) -> Option<String> {
        let silence_us = self.us.filter(|_| self.too_long)?;
        Some(format!("nothing has come from the source for {}", crate::duration_text(silence_us)))
    }
}

/// GTID sets in MySQL's text form.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct GtidReport {
    /// GTIDs in the relay log; MySQL's Retrieved_Gtid_Set.
    #[serde(rename = "retrieved")]
    pub retrieved: String,
    /// GTIDs visible to readers; MySQL's Executed_Gtid_Set.
    #[serde(rename = "executed")]
    pub executed: String,
    /// GTIDs named in `slipstream skip` that have not occurred yet.
    #[serde(rename = "to_skip", default)]
    pub to_skip: String,
    /// Number of transactions that the source had when it was last asked, or sent since, and that are not visible; None
    /// if it has not been asked, is silent or not connected to. It is asked every 30 s.
    #[serde(rename = "lacks", default)]
    pub lacks: Option<u64>,
}

/// Positions in the logs, as `file:offset`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct PositionReport {
    /// Received up to here, in the source's log; Source_Log_File and Read_Source_Log_Pos.
    #[serde(rename = "source_received")]
    pub source_received: Option<String>,
    /// Visible up to here, in the source's log; Relay_Source_Log_File and Exec_Source_Log_Pos.
    #[serde(rename = "source_executed")]
    pub source_executed: Option<String>,
    /// End of the relay log.
    #[serde(rename = "relay_received")]
    pub relay_received: Option<String>,
    /// Visible up to here, in the relay log; Relay_Log_File and Relay_Log_Pos.
    #[serde(rename = "relay_executed")]
    pub relay_executed: Option<String>,
    /// Watermark: sequence number of the last visible transaction.
    #[serde(rename = "watermark")]
    pub watermark: u64,
}

/// Lag relative to the source's commit timestamps, corrected for the clock difference.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct LagReport {
    /// Current lag, µs. 0 if everything that the source committed is visible; otherwise the age of the oldest commit
    /// not yet visible, as far as it is known. None if not connected or not replaying (MySQL's NULL).
    #[serde(rename = "current_us")]
    pub current_us: Option<u64>,
    /// Lag over all transactions since the start.
    #[serde(rename = "overall")]
    pub overall: LagSummary,
    /// Lag in the last complete second.
    #[serde(rename = "last_1s")]
    pub last_1s: LagSummary,
    /// Lag in the last ten complete seconds.
    #[serde(rename = "last_10s")]
    pub last_10s: LagSummary,
    #[serde(rename = "parts")]
    pub parts: LagPartsReport,
    /// Source's clock minus ours, µs; all figures above are already corrected for it.
    #[serde(rename = "clock_difference_us")]
    pub clock_difference_us: Option<i64>,
    /// Maximum error of that difference, µs: half the round trip of its measurement.
    #[serde(rename = "clock_error_us")]
    pub clock_error_us: Option<u64>,
    /// When the difference was measured; UTC.
    #[serde(rename = "clock_measured")]
    pub clock_measured: Option<String>,
}

/// Work that has been received but is not yet visible.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct Backlog {
    #[serde(rename = "transactions")]
    pub transactions: u64,
    /// Bytes of relay log.
    #[serde(rename = "bytes")]
    pub bytes: u64,
    /// Time until all of it is visible, including what arrives meanwhile, µs, at the speeds of the last five seconds.
    /// None if replay lags by less than a second or does not catch up.
    #[serde(rename = "catch_up_us")]
    pub catch_up_us: Option<u64>,
}

impl Backlog {
    /// Computes [`Backlog::catch_up_us`] from bytes of backlog, bytes replayed per second and bytes received per
    /// second.
    #[must_use]
    pub fn catch_up_us_of(bytes: u64, replayed_per_s: f64, received_per_s: f64) -> Option<u64> {
        let nearer_per_s = replayed_per_s - received_per_s;
        // More than a year is noise.
        let seconds = Some(bytes as f64 / nearer_per_s).filter(|_| nearer_per_s > 0.0)?;
        (seconds < 3.2e7).then_some((seconds * 1e6) as u64)
    }
}

/// Work per second, and in total.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct RatesReport {
    /// Rate in the last complete second.
    #[serde(rename = "last_1s")]
    pub last_1s: RateSample,
    /// Mean rate over the last ten complete seconds.
    #[serde(rename = "last_10s")]
    pub last_10s: RateSample,
    /// Total since the start.
    #[serde(rename = "total")]
    pub total: Work,
}

/// The last error that stopped replay or the connection.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ErrorReport {
    /// When it occurred; UTC.
    #[serde(rename = "at")]
    pub at: String,
    /// Exit code for it.
    #[serde(rename = "exit")]
    pub exit: u8,
    /// MySQL's error number, if it has one (1236, 1032, ...).
    #[serde(rename = "number")]
    pub number: Option<u32>,
    /// What happened, with position and GTID.
    #[serde(rename = "text")]
    pub text: String,
    /// GTID of the transaction at which replay stopped, if it is known.
    #[serde(rename = "gtid")]
    pub gtid: Option<String>,
    /// Table that it is about, in backticks, if it is one.
    #[serde(rename = "table")]
    pub table: Option<String>,
    /// Command that resolves it.
    #[serde(rename = "way_on")]
    pub way_on: Option<String>,
}

/// Up to where replay was started.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct UntilReport {
    /// Condition of the last order to start replay, as SHOW REPLICA STATUS names it; empty without one.
    #[serde(rename = "until_condition", default)]
    pub condition: String,
    #[serde(rename = "until_gtids", default)]
    pub gtids: String,
}

/// Consequences of moves to another source.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct MovesReport {
    /// Tables that transactions which a source lacked had changed, until they are verified or copied.
    #[serde(rename = "to_verify", default)]
    pub to_verify: Vec<String>,
    /// The move to another source that nothing proves complete, while every change is checked for it; else empty.
    #[serde(rename = "unproven_move", default)]
    pub unproven: String,
}

/// Whether everything is here that the source has.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ComparedReport {
    /// Why not every table of the source is here, or is not known to be, without names; empty if every table is.
    #[serde(rename = "comparison", default)]
    pub comparison: String,
    /// Tables of the source that are not here.
    #[serde(rename = "missing", default)]
    pub missing: Vec<String>,
    /// Definitions that may be otherwise at the source, until it is asked.
    #[serde(rename = "definitions_unsettled", default)]
    pub definitions_unsettled: u64,
    /// Definitions about which the source was asked since the engine started.
    #[serde(rename = "definitions_asked", default)]
    pub definitions_asked: u64,
    /// True if definitions that are older than the log have been read, as far as the account sees them.
    #[serde(rename = "definitions_read", default)]
    pub definitions_read: bool,
}

/// Replay and the tables it maintains.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ReplayReport {
    #[serde(rename = "state")]
    pub state: ReplayState,
    /// What replay waits for, if anything.
    #[serde(rename = "detail", default)]
    pub detail: String,
    /// Number of transactions that one thread applied because they need rows of several lanes.
    #[serde(rename = "barriers", default)]
    pub barriers: u64,
    /// Number of row changes passed over since the start, because the source logs them twice around its cascades.
    #[serde(rename = "rows_logged_twice", default)]
    pub rows_logged_twice: u64,
    /// Table and GTID of the newest one; empty if there is none.
    #[serde(rename = "logged_twice_last", default)]
    pub logged_twice_last: String,
    /// Number of tables in the store.
    #[serde(rename = "tables", default)]
    pub tables: u64,
    /// Number of rows in the store.
    #[serde(rename = "rows", default)]
    pub rows: u64,
    /// Progress of the table copy that runs next to replay; empty if there is none.
    #[serde(rename = "table_copy", default)]
    pub table_copy: String,
    /// Number of tables copied again since the start.
    #[serde(rename = "tables_copied", default)]
    pub tables_copied: u64,
    /// How many of those because a statement could not be interpreted.
    #[serde(rename = "tables_copied_by_itself", default)]
    pub tables_copied_by_itself: u64,
    /// Replication filters in force, each rule as an option is given; empty without filters.
    #[serde(rename = "filters", default)]
    pub filters: Vec<String>,
    /// Tables that cannot be read until they are copied, each with the reason.
    #[serde(rename = "quarantined", default)]
    pub quarantined: Vec<String>,
    /// Tables with rows that contradict the log, each with the number of such rows and one of them.
    #[serde(rename = "drifted", default)]
    pub drifted: Vec<String>,
    #[serde(flatten)]
    pub moves: MovesReport,
    #[serde(flatten)]
    pub compared: ComparedReport,
    /// `--copy` of this replica; empty if not known. A stopped folder is read with it.
    #[serde(rename = "copy", default)]
    pub copy: String,
    /// `--check-images` of this replica; empty if not known. A stopped folder is read with it.
    #[serde(rename = "check_images", default)]
    pub check_images: String,
    /// True if replay had ended when the report was made: exactly the executed GTIDs are visible on the stopped folder.
    #[serde(rename = "ended", default)]
    pub ended: bool,
    /// Damaged files of the store, each with what is wrong, when it was found, its state and its tables; also those
    /// that are gone.
    #[serde(rename = "damaged", default)]
    pub damaged: Vec<String>,
    /// What the slow check of all files does, or found last; empty before its first round.
    #[serde(rename = "scrub", default)]
    pub scrub: String,
    #[serde(flatten)]
    pub until: UntilReport,
    /// How long after its commit at the source a transaction is applied, at the earliest, in seconds.
    #[serde(rename = "delay_s", default)]
    pub delay_s: u64,
    /// How long the next transaction still waits for that, in µs; None if none does.
    #[serde(rename = "remaining_delay_us", default)]
    pub remaining_delay_us: Option<u64>,
}

/// A backup that is being made.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct BackupProgress {
    /// When it began; UTC.
    #[serde(rename = "begun_at")]
    pub begun_at: String,
    /// Time since then, µs.
    #[serde(rename = "elapsed_us")]
    pub elapsed_us: u64,
    /// Bytes that its reader has taken.
    #[serde(rename = "written_bytes")]
    pub written_bytes: u64,
    /// Bytes of rows and relay log in it, as far as they are known; None before the rows' files are linked.
    #[serde(rename = "total_bytes")]
    pub total_bytes: Option<u64>,
}

/// The log that a relay serves.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct ServedReport {
    #[serde(rename = "files")]
    pub files: u64,
    /// Bytes in them.
    #[serde(rename = "bytes")]
    pub bytes: u64,
    /// Its end, as `file:offset`; None before the first file.
    #[serde(rename = "position")]
    pub position: Option<String>,
    /// GTIDs that it can no longer serve; MySQL's gtid_purged.
    #[serde(rename = "purged")]
    pub purged: String,
    /// GTIDs of all transactions served, now or once.
    #[serde(rename = "executed")]
    pub executed: String,
    /// True if a replica serves it, beside its replay.
    #[serde(rename = "beside_replay")]
    pub beside_replay: bool,
    /// What stamping waits for, in words; empty if for the source only.
    #[serde(rename = "waits")]
    pub waits: String,
    /// Why stamping stopped; None if it runs.
    #[serde(rename = "error")]
    pub error: Option<ErrorReport>,
    /// Number of transactions stamped since the start.
    #[serde(rename = "transactions")]
    pub transactions: u64,
    /// Number of those that keep the source's clock, because they change tables whose definition is not known.
    #[serde(rename = "source_clock")]
    pub source_clock: u64,
    /// Number of those that wait for all before them, without a reason in their rows.
    #[serde(rename = "drains")]
    pub drains: u64,
    /// Mean distance to the transaction that each must wait for, counted up to 64.
    #[serde(rename = "mean_distance")]
    pub mean_distance: f64,
    /// Replicas that are connected, each in words.
    #[serde(rename = "replicas")]
    pub replicas: Vec<String>,
    /// How far those are that have asked for the log.
    #[serde(rename = "replicas_read", default)]
    pub replicas_read: Vec<ReplicaReadReport>,
    /// Number of those that have GTIDs which the source lacks.
    #[serde(rename = "errant_replicas")]
    pub errant_replicas: u64,
    /// After how many replicas the source is acknowledged, and whether it is, in words; empty: as soon as it is synced.
    #[serde(rename = "acknowledges")]
    pub acknowledges: String,
    /// Replicas for which files are kept until they have executed them.
    #[serde(rename = "holds")]
    pub holds: Vec<HeldReport>,
}

/// How far a connected replica is in the served log.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct ReplicaReadReport {
    #[serde(rename = "server_id")]
    pub server_id: u32,
    /// Empty if it did not say.
    #[serde(rename = "server_uuid")]
    pub server_uuid: String,
    /// Bytes of the log that it has not been sent.
    #[serde(rename = "unread_bytes")]
    pub unread_bytes: u64,
}

/// A replica for which served files are kept.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct HeldReport {
    #[serde(rename = "name")]
    pub name: String,
    #[serde(rename = "server_uuid")]
    pub server_uuid: String,
    /// Where it is asked what it has executed; None: only what it says when it asks for the log counts.
    #[serde(rename = "server")]
    pub server: Option<String>,
    /// GTIDs that it has executed; None: not known.
    #[serde(rename = "executed")]
    pub executed: Option<String>,
    /// Number of served transactions that it has not executed; None: not known.
    #[serde(rename = "lacks")]
    pub lacks: Option<u64>,
    /// Oldest file that it has not executed to its end.
    #[serde(rename = "keeps_from")]
    pub keeps_from: Option<String>,
    /// Why it cannot be asked.
    #[serde(rename = "error")]
    pub error: Option<String>,
}

impl std::fmt::Display for HeldReport {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} ({})", self.name, self.server_uuid)?;
        match self.lacks {
            None => write!(f, " has not reported its executed set")?,
            Some(0) => write!(f, " has executed all")?,
            Some(lacks) => write!(f, " lacks {} transactions", count_text(lacks))?,
        }
        if let Some(file) = &self.keeps_from {
            write!(f, "; kept for it: {file} and later")?;
        }
        match (&self.server, &self.error) {
            (Some(server), Some(error)) => write!(f, "; cannot be asked at {server}: {error}"),
            (Some(server), None) => write!(f, "; asked at {server}"),
            (None, _) => Ok(()),
        }
    }
}

/// A replica that runs and does not answer; the rest of the report is the last one that it saved.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(default)]
pub struct UnansweredReport {
    /// Process id, if known.
    #[serde(rename = "pid")]
    pub pid: Option<u32>,
    /// Age of the report, µs.
    #[serde(rename = "status_age_us")]
    pub status_age_us: u64,
}

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct StatusReport {
    #[serde(rename = "version")]
    pub version: String,
    /// When the report was made; UTC.
    #[serde(rename = "at")]
    pub at: String,
    /// True if a replica is running on the folder.
    #[serde(rename = "running")]
    pub running: bool,
    /// Present if the replica runs and does not answer.
    #[serde(rename = "unanswered", default)]
    pub unanswered: Option<UnansweredReport>,
    /// Process id of the replica.
    #[serde(rename = "pid", default)]
    pub pid: Option<u32>,
    /// Time since its start, µs.
    #[serde(rename = "uptime_us", default)]
    pub uptime_us: u64,
    /// Path of the data folder.
    #[serde(rename = "data", default)]
    pub data: String,
    /// server_id of this replica.
    #[serde(rename = "server_id", default)]
    pub server_id: u32,
    /// server_uuid of this replica.
    #[serde(rename = "server_uuid", default)]
    pub server_uuid: String,
    /// The source and the connection to it.
    #[serde(rename = "source")]
    pub source: SourceReport,
    /// Replay and the tables it maintains.
    #[serde(rename = "replay")]
    pub replay: ReplayReport,
    /// GTID sets received, executed and to be skipped.
    #[serde(rename = "gtid")]
    pub gtid: GtidReport,
    /// Positions in the logs.
    #[serde(rename = "position", default)]
    pub position: PositionReport,
    /// Lag, current and by percentiles.
    #[serde(rename = "lag", default)]
    pub lag: LagReport,
    /// Work that has been received but is not yet visible.
    #[serde(rename = "backlog", default)]
    pub backlog: Backlog,
    /// Work per second, and in total.
    #[serde(rename = "rates", default)]
    pub rates: RatesReport,
    /// The last error of replay, or else of receiving.
    #[serde(rename = "last_error", default)]
    pub last_error: Option<ErrorReport>,
    /// Why receiving stopped or does not connect; MySQL's Last_IO_Errno, Last_IO_Error and Last_IO_Error_Timestamp.
    #[serde(rename = "last_io_error", default)]
    pub last_io_error: Option<ErrorReport>,
    /// Why replay stopped; MySQL's Last_SQL_Errno, Last_SQL_Error and Last_SQL_Error_Timestamp.
    #[serde(rename = "last_sql_error", default)]
    pub last_sql_error: Option<ErrorReport>,
    /// Fate of every event.
    #[serde(rename = "ledger")]
    pub ledger: LedgerSnapshot,
    /// The port for clients; None without one.
    #[serde(rename = "clients", default)]
    pub clients: Option<ClientsReport>,
    /// URL of the page for those who watch; None without one.
    #[serde(rename = "http", default)]
    pub http: Option<String>,
    /// Backups that are being made.
    #[serde(rename = "backups", default)]
    pub backups: Vec<BackupProgress>,
    /// The log that a relay serves; None for a replica.
    #[serde(rename = "served", default)]
    pub served: Option<ServedReport>,
    /// The store on disk.
    #[serde(rename = "store", default)]
    pub store: StoreReport,
    /// Memory in bytes.
    #[serde(rename = "memory", default)]
    pub memory: MemoryReport,
    /// Disk space in bytes.
    #[serde(rename = "disk", default)]
    pub disk: DiskReport,
    /// CPU time of the process, including threads that have ended, µs.
    #[serde(rename = "cpu_us", default)]
    pub cpu_us: u64,
    /// CPU time per stage.
    #[serde(rename = "threads", default)]
    pub threads: Vec<ThreadCpu>,
}

impl StatusReport {
    /// Why this replica does not meet `--max-lag`, given in µs, or lacks tables of its source; None if all is well.
    #[must_use]
    pub fn lag_above(&self, lag_us_max: u64) -> Option<String> {
        let delay_us = self.replay.delay_s.saturating_mul(1_000_000);
        match self.lag.current_us.map(|lag_us| lag_us.saturating_sub(delay_us)) {
            Some(lag_us) if lag_us <= lag_us_max => {
                Some(self.replay.compared.comparison.clone()).filter(|text| !text.is_empty())
            }
            Some(lag_us) => {
                let beyond = if delay_us > 0 { " beyond SQL_Delay" } else { "" };
                let (lag, most) = (crate::duration_text(lag_us), crate::duration_text(lag_us_max));
                Some(format!("lag {lag}{beyond} is above {most}"))
            }
            None if self.source.heard.silence.too_long => {
                Some(format!("lag is not known: {}", self.source.heard.silence.text().unwrap_or_default()))
            }
            None => {
                let why: Vec<String> =
                    [self.receiving_in_words(), self.replay_in_words()].into_iter().flatten().collect();
                let why = if why.is_empty() {
                    "no commit of the source has been seen yet".to_owned()
                } else {
                    why.join("; ")
                };
                Some(format!("lag is not known: {why}"))
            }
        }
    }

    /// What keeps receiving from going on, and why; None if nothing does.
    fn receiving_in_words(&self) -> Option<String> {
        let because = because(self.last_io_error.as_ref());
        Some(match self.source.state {
            ConnectionState::Connected | ConnectionState::Files => return None,
            ConnectionState::Stopped if because.is_empty() => "receiving is stopped (slipstream start io)".to_owned(),
            ConnectionState::Stopped => format!("receiving has stopped{because}"),
            ConnectionState::Connecting => format!("not connected to the source{because}"),
            ConnectionState::Unknown => "the connection is in a state that only a newer release knows".to_owned(),
        })
    }

    /// The same of replay.
    fn replay_in_words(&self) -> Option<String> {
        let replay = &self.replay;
        let detail = if replay.detail.is_empty() { String::new() } else { format!(" ({})", replay.detail) };
        Some(match replay.state {
            ReplayState::Running | ReplayState::CaughtUp => return None,
            ReplayState::Failed => format!("replay has stopped{}{detail}", because(self.last_sql_error.as_ref())),
            ReplayState::Stopped => format!("replay is stopped{detail}"),
            ReplayState::Paused => format!("replay is paused (slipstream start sql){detail}"),
            ReplayState::Recovering => format!("replay is reading the kept relay log{detail}"),
            ReplayState::Copying => format!("the source's tables are being copied{detail}"),
            ReplayState::Stopping => format!("replay is stopping{detail}"),
            ReplayState::Unknown => format!("replay is in a state that only a newer release knows{detail}"),
        })
    }

    /// The report as one indented JSON document.
    #[must_use]
    pub fn to_json(&self) -> String {
        serde_json::to_string_pretty(self).unwrap_or_default()
    }
}

/// What an error is, in its first line; empty without one.
fn because(error: Option<&ErrorReport>) -> String {
    let Some(error) = error else { return String::new() };
    let number = error.number.map(|number| format!(" ({number})")).unwrap_or_default();
    match error.text.lines().find(|line| !line.ends_with(':')).or(error.text.lines().next()) {
        Some(line) => format!(": {}{number}", line.trim()),
        None => number,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn an_unknown_lag_has_its_reason_in_words() {
        let why = |state, error: Option<(Option<u32>, &str)>, replay, sql_error: Option<(Option<u32>, &str)>| {
            let report =
                |(number, text): (Option<u32>, &str)| ErrorReport { number, text: text.into(), ..Default::default() };
            let mut status = StatusReport { last_io_error: error.map(report), ..StatusReport::default() };
            status.last_sql_error = sql_error.map(report);
            (status.source.state, status.replay.state) = (state, replay);
            status.lag_above(0).unwrap()
        };
        let reset = (Some(1236), "the source was reset\n    received at binlog.000001:4: …");
        assert_eq!(
            why(ConnectionState::Stopped, Some(reset), ReplayState::CaughtUp, None),
            "lag is not known: receiving has stopped: the source was reset (1236)"
        );
        assert_eq!(
            why(ConnectionState::Connected, None, ReplayState::Failed, Some((Some(1062), "a row exists already"))),
            "lag is not known: replay has stopped: a row exists already (1062)"
        );
        let refused = (None, "the source cannot be followed:\nits gtid_mode is OFF");
        assert_eq!(
            why(ConnectionState::Connecting, Some(refused), ReplayState::Paused, None),
            "lag is not known: not connected to the source: its gtid_mode is OFF; replay is paused (slipstream start sql)"
        );
        assert_eq!(
            why(ConnectionState::Stopped, None, ReplayState::Running, None),
            "lag is not known: receiving is stopped (slipstream start io)"
        );
    }

    #[test]
    fn unknown_lag_is_never_fresh() {
        let mut report = StatusReport::default();
        assert!(report.lag_above(u64::MAX).is_some());
        report.lag.current_us = Some(10_000_000);
        assert_eq!(report.lag_above(10_000_000), None);
        assert_eq!(report.lag_above(9_999_999).as_deref(), Some("lag 10.0 s is above 9.99 s"));
        report.replay.compared.comparison = "tables are missing".into();
        assert_eq!(report.lag_above(10_000_000).as_deref(), Some("tables are missing"));
    }

    #[test]
    fn json_round_trip_and_older_reports_still_read() {
        let mut report = StatusReport { running: true, pid: Some(7), ..StatusReport::default() };
        report.lag.clock_difference_us = Some(-12);
        let back: StatusReport = serde_json::from_str(&report.to_json()).unwrap();
        assert_eq!(back, report);
        let sparse = json!({"version": "0.1.0", "at": "now", "running": true, "source": {"state": "connected"},
            "replay": {"state": "running"}, "gtid": {"retrieved": "", "executed": ""}, "ledger": {"rows": []}});
        let older: StatusReport = serde_json::from_value(sparse.clone()).unwrap();
        assert!(older.running && older.pid.is_none());
        for (object, key) in REQUIRED {
            let mut lossy = sparse.clone();
            lossy.pointer_mut(object).unwrap().as_object_mut().unwrap().remove(*key);
            let error = serde_json::from_value::<StatusReport>(lossy).unwrap_err().to_string();
            assert!(error.contains(&format!("missing field `{key}`")), "{object}/{key}: {error}");
        }
    }

    /// Keys whose default would be a false statement, with the objects that have them.
    const REQUIRED: &[(&str, &str)] = &[
        ("", "version"),
        ("", "at"),
        ("", "running"),
        ("", "source"),
        ("", "replay"),
        ("", "gtid"),
        ("", "ledger"),
        ("/source", "state"),
        ("/replay", "state"),
        ("/gtid", "retrieved"),
        ("/gtid", "executed"),
        ("/ledger", "rows"),
    ];

    #[test]
    fn a_newer_report_is_read_as_far_as_it_is_known() {
        let mut newer = serde_json::to_value(StatusReport { running: true, ..StatusReport::default() }).unwrap();
        newer["newer"] = json!({"key": 1});
        newer["source"]["newer"] = json!(1);
        newer["source"]["state"] = json!("hibernating");
        newer["replay"]["state"] = json!("rewinding");
        newer["ledger"]["rows"] = json!([{"event_type": 2, "name": "Query", "seen": 1, "newer": 1}]);
        let report: StatusReport = serde_json::from_value(newer).unwrap();
        assert!(report.running);
        assert_eq!((report.source.state, report.replay.state), (ConnectionState::Unknown, ReplayState::Unknown));
        assert_eq!(report.ledger.totals().seen, 1);
        assert!(report.to_text().contains("in a state that only a newer release knows"), "{}", report.to_text());
    }

    #[test]
    fn a_backlog_that_shrinks_has_an_end() {
        assert_eq!(Backlog::catch_up_us_of(600, 50.0, 20.0), Some(20_000_000));
        for (replayed, received) in [(50.0, 50.0), (20.0, 50.0), (1e-9, 0.0)] {
            assert_eq!(Backlog::catch_up_us_of(600, replayed, received), None);
        }
        let mut backlog = Backlog { transactions: 7, bytes: 600, catch_up_us: None };
        assert!(!backlog.to_text().contains("caught up"), "{}", backlog.to_text());
        assert_eq!(backlog.to_text(), "7 transactions, 600 B");
        // Control events only; then most of a large transaction that is still being received.
        assert_eq!(Backlog { transactions: 0, bytes: 943, catch_up_us: None }.to_text(), "0 transactions");
        let part = Backlog { transactions: 0, bytes: 8 << 20, catch_up_us: None };
        assert_eq!(part.to_text(), "0 transactions, 8.00 MiB");
        backlog.catch_up_us = Some(20_000_000);
        assert!(backlog.to_text().contains(", caught up in about 20"), "{}", backlog.to_text());
    }
}
