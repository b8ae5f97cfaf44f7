//! The relay log on disk: append, sync, rotate, recover, purge, read.
//!
//! In: bytes of whole binlog events from the receiver ([`RelayWriter::append`]). Out: files `relay-bin.000001`… and
//! `relay-bin.index` in MySQL's formats, positions, and chunks for any number of readers ([`RelayReader`]). Never here:
//! a changed event (except the source's ROTATE and FORMAT_DESCRIPTION at the start of a file), bytes acknowledged
//! before they are synced, bytes after the last whole transaction handed to a reader, synced bytes dropped without a
//! report, decoded row events.
//!
//! A store passes its last durable cut when it opens the log ([`RelayOptions::executed`], [`RelayOptions::resume_at`]);
//! its reader begins at [`Recovery::start`] ([`RelayReader::open_at`]).
#![forbid(unsafe_code)]
#![warn(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
#![cfg_attr(
    test,
    allow(clippy::unwrap_used, clippy::expect_used, clippy::cast_possible_truncation, clippy::cast_sign_loss)
)]

mod backup;
pub mod boundary;
mod cut_back;
mod damage;
mod disk;
mod error;
mod file_header;
mod hot;
mod intake;
mod names;
mod purge;
mod reader;
mod readers;
mod recover;
mod shared;
mod space;
mod start;
mod state;
mod sync;
mod walk;
mod writer;

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use base::{Buffer, Gtid, GtidSet, LogPosition, ThreadAffinity};

pub use backup::{LogHold, LogPart, completed_copy};
pub use damage::Damage;
pub use disk::{DiskOperation, DiskWatch};
pub use error::RelayError;
pub use intake::{FirstEvent, Intake, Taken};
pub use names::{file_name, parse_index};
pub use reader::{Hold, Memory, ReadLimit, ReaderOptions, RelayFiles, RelayReader};
pub use shared::RelayShared;
pub use start::{StartKind, StartPoint};
pub use sync::{RelaySync, SyncStep};
pub use writer::{RelayLog, RelayWriter};

/// First bytes of every binlog and relay log file.
const MAGIC: &[u8; 4] = b"\xfebin";

/// When written bytes are made durable.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SyncPolicy {
    /// After the end of each transaction is written; transactions that arrive during a sync share the next one.
    EveryTransaction,
    /// After `ms` milliseconds since the last sync, or after `bytes` written bytes since then.
    Interval {
        /// Interval in milliseconds.
        ms: u64,
        /// Written bytes that trigger a sync.
        bytes: u64,
    },
    /// Only on [`RelaySync::request_sync`] and on a clean close.
    Never,
}

impl Default for SyncPolicy {
    /// An interval of 10 ms or 16 MiB.
    fn default() -> SyncPolicy {
        SyncPolicy::Interval { ms: 10, bytes: 16 << 20 }
    }
}

/// Options of a relay log. `RelayOptions::new(dir)` fills in the defaults.
#[derive(Clone, Debug)]
pub struct RelayOptions {
    /// Folder of the log; created if absent.
    pub dir: PathBuf,
    /// File size in bytes above which a new file begins at the next transaction boundary (default 1 GiB).
    pub max_file_bytes: u64,
    /// When written bytes are made durable (default 10 ms or 16 MiB).
    pub sync: SyncPolicy,
    /// Bytes kept in memory for readers that keep up (default 64 MiB); above that, readers read the file.
    pub hot_bytes_max: usize,
    /// Server id in our own events (default 0).
    pub server_id: u32,
    /// `gtid_executed` at the store's last durable cut (default: empty store). Counts as retrieved; files that begin
    /// after transactions it lacks are useless.
    pub executed: GtidSet,
    /// Relay position at that cut, the end of a whole transaction (default: none).
    pub resume_at: Option<LogPosition>,
    /// After a failed sync: end of the last whole transaction that was durable, see [`RelaySync::synced_whole`]; what
    /// is behind it is removed (default: none).
    pub keep_up_to: Option<RelayPosition>,
    /// Policy for damaged or missing files that the store still needs (default: refuse).
    pub on_damage: OnDamage,
    /// Total bytes of all files above which the writer waits, before the next transaction, for a purge; 0 (default): no
    /// limit. MySQL's relay_log_space_limit.
    pub space_limit_bytes: u64,
    /// CPUs of the thread `relay-sync` (default: all allowed CPUs).
    pub affinity: ThreadAffinity,
    /// Called before each change on disk (default: none). For tests.
    pub disk_watch: Option<DiskWatch>,
}

/// Policy on open for damage in bytes that were durable and that the store lacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnDamage {
    /// Fails: for a source that may no longer have the log and cannot be asked (files).
    Refuse,
    /// Truncates the log at the damage and reports it, so that the source sends it again: for a server with GTIDs,
    /// which refuses if it has purged the requested transactions. All checksums after `resume_at` are verified on open.
    FetchAgain,
}

impl RelayOptions {
    /// The default options for a folder.
    #[must_use]
    pub fn new(dir: impl Into<PathBuf>) -> RelayOptions {
        RelayOptions {
            dir: dir.into(),
            max_file_bytes: 1 << 30,
            sync: SyncPolicy::default(),
            hot_bytes_max: 64 << 20,
            server_id: 0,
            executed: GtidSet::new(),
            resume_at: None,
            keep_up_to: None,
            on_damage: OnDamage::Refuse,
            space_limit_bytes: 0,
            affinity: ThreadAffinity::default(),
            disk_watch: None,
        }
    }
}

/// A position in the relay log; ordered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RelayPosition {
    /// Number in the file's name, from 1; 0 is before all files.
    pub file_number: u64,
    /// Offset in the file, in bytes.
    pub offset: u64,
}

/// A truncation made when the log was opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TruncateReport {
    /// Name of the truncated file.
    pub file: String,
    /// Length in bytes before (later files were deleted).
    pub from_len: u64,
    /// Length in bytes now: the end of its last whole transaction; 0 if the file was deleted.
    pub to_len: u64,
    /// Reason of the truncation.
    pub reason: String,
}

/// Damaged or missing files, and the files before them, that were dropped because the store has all their transactions.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DropReport {
    /// Names of the dropped files.
    pub files: Vec<String>,
    /// Descriptions of the damage, each with its file.
    pub reasons: Vec<String>,
}

/// Result of opening the log.
#[derive(Clone, Debug, Default)]
pub struct Recovery {
    /// GTIDs of all whole transactions ever retrieved into this log, purged files included, and of all that the store
    /// has.
    pub retrieved: GtidSet,
    /// Start of the reader for the store named in the options.
    pub start: StartPoint,
    /// Number and length of each file, in order.
    pub files: Vec<(u64, u64)>,
    /// The truncation, if one was needed.
    pub truncated: Option<TruncateReport>,
    /// Damaged files that were dropped because nobody needs them.
    pub dropped: Option<DropReport>,
    /// True if the last shutdown was clean (also for a new log).
    pub clean: bool,
    /// End of the last whole transaction, in the source's log.
    pub last_source_position: Option<LogPosition>,
    /// True if the index was absent and rebuilt from the files.
    pub index_rebuilt: bool,
    /// Names of deleted leftover files that no index named.
    pub removed: Vec<String>,
}

/// The files that a purge deleted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Purged {
    /// Names of the files, oldest first.
    pub files: Vec<String>,
    /// Sum of their lengths in bytes.
    pub bytes: u64,
}

/// Disk space of the files.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SpaceStatus {
    /// Bytes in all files.
    pub used_bytes: u64,
    /// The limit in bytes, see [`RelayOptions::space_limit_bytes`]; 0: none.
    pub limit_bytes: u64,
    /// How long the writer has waited for a purge; None if it does not wait. Only a cut makes a purge possible, so the
    /// component that takes cuts takes one if this is set.
    pub waiting: Option<Duration>,
}

/// What the caller of [`RelayWriter::append`] tells about the bytes.
#[derive(Clone, Debug)]
pub struct AppendMeta<'a> {
    /// True if the bytes end outside any transaction. If false, no transaction may end inside them: the caller splits
    /// its appends at transaction ends.
    pub ends_transaction: bool,
    /// GTIDs of the transactions completed in the bytes.
    pub gtids: &'a [Gtid],
    /// Position in the source's log at which the bytes end.
    pub source_position: LogPosition,
}

/// A contiguous range of bytes of one relay file.
#[derive(Clone, Debug)]
pub struct Chunk {
    /// Number in the file's name.
    pub file_number: u64,
    pub file: Arc<str>,
    /// Offset in the file of `data[0]`, in bytes. The first chunk of a file starts at 4: the magic is never handed out.
    pub offset: u64,
    /// The bytes. From memory: whole events as appended. From the file: may begin and end within events.
    pub data: Arc<Buffer>,
    /// True if the bytes came from memory.
    pub hot: bool,
}

/// Result of [`RelayReader::next`].
#[derive(Clone, Debug)]
pub enum TailItem {
    /// The next bytes of the log.
    Chunk(Chunk),
    /// End of a file; the next file follows from offset 4.
    EndOfFile {
        /// Number of the finished file.
        file_number: u64,
        /// Its length in bytes.
        len: u64,
    },
    /// Nothing new arrived within the timeout.
    Idle,
    /// The log was closed and has been read to its end.
    Closed,
}
