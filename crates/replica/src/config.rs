//! Configuration of a replica: its source, its folder, its limits.
//!
//! In: values that were read and checked. Out: the same values, typed. Never here: the spelling of options, a default
//! that depends on the machine (0 = automatic, resolved by the component that uses it), a password in a text.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use base::{GtidSet, ThreadAffinity};
use catalog::ReplicationFilters;
use relay_log::SyncPolicy;
use store::CheckImages;

use crate::damage::OnDamage;
use crate::drift::OnDrift;

use crate::access::Access;
use crate::relay::ServeConfig;

pub use crate::server_options::{
    Failover, FailoverSource, ManagedGroup, Prefer, Secret, ServerOptions, mask_passwords, parse_member_address,
    url_has_password,
};

/// Source of the log.
#[derive(Clone, Debug, PartialEq, Eq)]
#[allow(clippy::large_enum_variant, reason = "there is one in a process")]
pub enum SourceSpec {
    Server(ServerOptions),
    /// A binlog file, or an index file that lists them.
    Files(PathBuf),
}

impl SourceSpec {
    /// Text without a password, for messages.
    #[must_use]
    pub fn shown(&self) -> String {
        match self {
            SourceSpec::Server(server) => server.shown(),
            SourceSpec::Files(path) => format!("file:{}", path.display()),
        }
    }
}

/// Threads and memory of the pipeline, shared by `replica` and `lab replay`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct PipelineConfig {
    /// Number of apply workers (each has its lanes); 0 = by the machine's cores.
    pub workers: usize,
    /// Number of decoding threads; 0 = by the machine's cores.
    pub decoders: usize,
    /// Limit of all work between split and apply, in bytes.
    pub queue_memory: u64,
    /// How often old rows are compared with before images.
    pub check_images: CheckImages,
    /// When a transaction becomes visible.
    pub show: ShowWhen,
    /// CPUs of the stages' threads.
    pub affinity: ThreadAffinity,
}

/// When a transaction becomes visible.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ShowWhen {
    /// As [`Acknowledged`](Self::Acknowledged) while the source commits long after it has sent its log, or may never.
    #[default]
    Auto,
    /// Once it is replayed.
    Received,
    /// Once the source has executed it, too.
    Acknowledged,
}

/// Whether tables are copied that the source's log does not hold.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CopyWhen {
    /// All of them once, if the log does not reach back to the first statement; later those found missing.
    #[default]
    Auto,
    /// All of them once into an empty folder, whatever the log holds; later those found missing.
    Always,
    /// None; missing tables are named.
    Never,
}

impl CopyWhen {
    /// The value of `--copy`.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            CopyWhen::Auto => "auto",
            CopyWhen::Always => "always",
            CopyWhen::Never => "never",
        }
    }

    /// The value of this name.
    #[must_use]
    pub fn of_name(name: &str) -> Option<CopyWhen> {
        [CopyWhen::Auto, CopyWhen::Always, CopyWhen::Never].into_iter().find(|when| when.name() == name)
    }
}

/// How an empty store is filled from a source whose log does not reach back to its start.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CopyConfig {
    /// Whether tables are copied.
    pub when: CopyWhen,
    /// Whether the source's writers are blocked for a moment.
    pub lock: copy::CopyLock,
    /// Number of reading connections.
    pub connections: usize,
    /// Rate limit in bytes per second; None = no limit.
    pub rate: Option<u64>,
    /// How long one attempt for the read lock may keep writers waiting.
    pub lock_wait: Duration,
    /// Maximum age of snapshots.
    pub snapshot_max: Duration,
}

/// Complete and checked configuration of `slipstream replica`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ReplicaConfig {
    /// Source of the log.
    pub source: SourceSpec,
    /// Path of the data folder.
    pub data: PathBuf,
    /// Who may read the data folder.
    pub access: Access,
    /// Our server_id; None = the one stored in the data folder.
    pub server_id: Option<u32>,
    /// Our host in SHOW REPLICAS on the source.
    pub report_host: Option<String>,
    /// Our port in SHOW REPLICAS on the source.
    pub report_port: u16,
    /// When the relay log is synced.
    pub relay_sync: SyncPolicy,
    /// Size in bytes above which a relay log file is closed, at the next transaction boundary.
    pub max_relay_log_size: u64,
    /// Size of the relay log in bytes above which receiving waits; 0 = no limit.
    pub relay_log_space_limit: u64,
    /// How long relay log files are kept after a durable cut has passed them.
    pub relay_log_expire: Duration,
    /// Options of the initial copy.
    pub copy: CopyConfig,
    /// Limit of resident memory in bytes; 0 = a quarter of the machine's memory.
    pub memory: u64,
    /// Maximum age of replayed changes that are not durable in the store.
    pub cut_interval: Duration,
    /// Bytes of rows that are already on disk and stay in memory for readers; 0: half of the memory limit. Counted
    /// inside `memory` up to half of it.
    pub snapshot_memory: u64,
    /// Maximum age of the state that readers see; None: no maximum.
    pub snapshot_age: Option<Duration>,
    /// Heartbeat interval of an idle source.
    pub heartbeat: Duration,
    /// Silence of the source after which the connection counts as dead.
    pub read_timeout: Duration,
    /// Longest pause between two connection attempts; the first pauses are shorter.
    pub connect_retry: Duration,
    /// Number of attempts before giving up; 0 = never give up.
    pub retry_count: u64,
    /// Whether to acknowledge to a source with semi-synchronous replication.
    pub semi_sync: bool,
    /// How long after its commit at the source a transaction is applied, at the earliest.
    pub source_delay: Duration,
    /// Whether a start leaves receiving and replay stopped.
    pub skip_replica_start: bool,
    /// Which databases and tables are replicated, under which names.
    pub filters: Arc<ReplicationFilters>,
    /// GTIDs of transactions to commit empty, in addition to those stored in the folder.
    pub skip: GtidSet,
    /// What to do when a table differs from the source's.
    pub on_drift: OnDrift,
    /// Whether the process stays when receiving or replay stops.
    pub on_stop: OnStop,
    /// What to do when a file of the store is damaged; with files as the source it is `Stop`.
    pub on_damage: OnDamage,
    /// Time between two checks of all files of store and relay log; None: no checks.
    pub scrub_interval: Option<Duration>,
    /// Bytes of the data folder's file system that receiving and large merges leave free; None: 5 %, at most 10 GiB.
    pub disk_reserve: Option<u64>,
    /// Threads and memory of the pipeline.
    pub pipeline: PipelineConfig,
    /// How what is received is served to other replicas; None: it is not.
    pub serve_log: Option<ServeConfig>,
}

/// What the process does when receiving or replay stops with an error.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnStop {
    /// Stays, with everything that still works, until it is told to go on.
    #[default]
    Stay,
    /// Ends with the error's exit code.
    Exit,
}
