//! The relay log on disk: append, sync, rotate, recover, purge, read.
//!
//! In: bytes of whole binlog events from the receiver ([`RelayWriter::append`]). Out: files `relay-bin.000001`… and
//! `relay-bin.index` in MySQL's formats, positions, and chunks for any number of readers ([`RelayReader`]).
//! Never here: an event changed (the source's ROTATE and FORMAT_DESCRIPTION at a file's head excepted), a byte
//! acknowledged before it is synced, a byte handed to a reader beyond the last whole transaction, synced bytes thrown
//! away in silence, row events decoded.
//!
//! A store that is durable at a cut names it when the log is opened ([`RelayOptions::executed`],
//! [`RelayOptions::resume_at`]); [`Recovery::start`] is where its reader begins ([`RelayReader::open_at`]).
#![forbid(unsafe_code)]
#![warn(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
#![cfg_attr(
    test,
    allow(clippy::unwrap_used, clippy::expect_used, clippy::cast_possible_truncation, clippy::cast_sign_loss)
)]

pub mod boundary;
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

pub use damage::Damage;
pub use disk::{DiskOperation, DiskWatch};
pub use error::RelayError;
pub use intake::{Intake, Taken};
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
    /// As soon as a transaction's end is written (transactions that come while a sync runs share the next one).
    EveryTransaction,
    /// When `ms` milliseconds have passed since the last sync, or `bytes` bytes were written since.
    Interval {
        /// Milliseconds.
        ms: u64,
        /// Bytes.
        bytes: u64,
    },
    /// Only on [`RelaySync::request_sync`] and at a clean close.
    Never,
}

impl Default for SyncPolicy {
    /// 10 ms or 16 MiB.
    fn default() -> SyncPolicy {
        SyncPolicy::Interval { ms: 10, bytes: 16 << 20 }
    }
}

/// How a relay log is kept. `RelayOptions::new(dir)` fills in the defaults.
#[derive(Clone, Debug)]
pub struct RelayOptions {
    /// Its folder; made when absent.
    pub dir: PathBuf,
    /// A new file is begun at the first transaction boundary past this (default 1 GiB).
    pub max_file_bytes: u64,
    /// When written bytes are made durable.
    pub sync: SyncPolicy,
    /// Bytes kept in memory for a reader that keeps up (default 64 MiB); beyond it the reader reads the file.
    pub hot_bytes_max: usize,
    /// Our server id, stamped into our own events (default 0).
    pub server_id: u32,
    /// `gtid_executed` at the store's last durable cut (default: the store is empty). Counts as retrieved; files that
    /// begin behind transactions it lacks are of no use.
    pub executed: GtidSet,
    /// The relay position at that cut, the end of a whole transaction (default: none).
    pub resume_at: Option<LogPosition>,
    /// What to do about damaged or missing files the store has not passed (default: refuse).
    pub on_damage: OnDamage,
    /// Bytes of all kept files from which the writer waits before a transaction until a purge frees some; 0: no limit
    /// (default). MySQL's relay_log_space_limit.
    pub space_limit_bytes: u64,
    /// CPUs of the thread `relay-sync` (default: all that are allowed).
    pub affinity: ThreadAffinity,
    /// Asked before each change on disk (default: none). For tests.
    pub disk_watch: Option<DiskWatch>,
}

/// What opening does about damage in bytes that were durable and that the store lacks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OnDamage {
    /// It is an error: for a source that may not have the log any more and cannot be asked (files).
    Refuse,
    /// Everything from the damage on is cut off and reported, so that the source sends it again: for a server with
    /// GTIDs, which refuses to go on when it has purged what is asked for. All checksums behind `resume_at` are
    /// verified when the log is opened.
    FetchAgain,
}

impl RelayOptions {
    /// The defaults for a folder.
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
            on_damage: OnDamage::Refuse,
            space_limit_bytes: 0,
            affinity: ThreadAffinity::default(),
            disk_watch: None,
        }
    }
}

/// A place in the relay log. Ordered.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RelayPosition {
    /// The number in the file's name, from 1; 0 = before everything.
    pub file_number: u64,
    /// Offset in bytes in it.
    pub offset: u64,
}

/// What was truncated when the log was opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TruncateReport {
    /// File name.
    pub file: String,
    /// Its length before (files behind it were deleted).
    pub from_len: u64,
    /// Its length now: the end of its last whole transaction; 0 when the file was deleted.
    pub to_len: u64,
    /// Why.
    pub reason: String,
}

/// Damaged or missing files, and those in front of them, that were given up because the store holds all that was in
/// them.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DropReport {
    /// Names of the files that are gone.
    pub files: Vec<String>,
    /// What was wrong, with the file it was found in.
    pub reasons: Vec<String>,
}

/// What was found when the log was opened.
#[derive(Clone, Debug, Default)]
pub struct Recovery {
    /// GTIDs of all whole transactions ever retrieved into this log, purged files included, and of all the store holds.
    pub retrieved: GtidSet,
    /// Where a reader begins for the store that was named in the options.
    pub start: StartPoint,
    /// Number and length of each file, in order.
    pub files: Vec<(u64, u64)>,
    /// What had to be truncated.
    pub truncated: Option<TruncateReport>,
    /// What was damaged and is not missed.
    pub dropped: Option<DropReport>,
    /// Whether the last stop was a clean one (true for a new log).
    pub clean: bool,
    /// Where in the source's log the last whole transaction ends.
    pub last_source_position: Option<LogPosition>,
    /// The index was absent and made anew from the files.
    pub index_rebuilt: bool,
    /// Left-over files that no index named and that were deleted.
    pub removed: Vec<String>,
}

/// What a purge deleted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Purged {
    /// Names of the files, oldest first.
    pub files: Vec<String>,
    /// Their bytes.
    pub bytes: u64,
}

/// How much room the files take.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SpaceStatus {
    /// Bytes in all files.
    pub used_bytes: u64,
    /// [`RelayOptions::space_limit_bytes`].
    pub limit_bytes: u64,
    /// How long the writer has been waiting for a purge; None while it does not. Only a cut makes a purge possible:
    /// who takes cuts takes one when this is set.
    pub waiting: Option<Duration>,
}

/// What the caller of [`RelayWriter::append`] knows about the bytes.
#[derive(Clone, Debug)]
pub struct AppendMeta<'a> {
    /// The bytes end outside of any transaction. When false, no transaction may end inside them: the caller cuts its
    /// appends at transaction ends.
    pub ends_transaction: bool,
    /// The transactions completed in them.
    pub gtids: &'a [Gtid],
    /// Where in the source's log the bytes end.
    pub source_position: LogPosition,
}

/// A run of bytes of one relay file.
#[derive(Clone, Debug)]
pub struct Chunk {
    /// The number in the file's name.
    pub file_number: u64,
    /// The file's name.
    pub file: Arc<str>,
    /// Offset in the file of `data[0]`. The first chunk of a file starts at 4: the magic is never handed out.
    pub offset: u64,
    /// The bytes. From memory: whole events as appended. From the file: may begin and end inside events.
    pub data: Arc<Buffer>,
    /// Whether they came from memory.
    pub hot: bool,
}

/// What [`RelayReader::next`] found.
#[derive(Clone, Debug)]
pub enum TailItem {
    /// The next bytes.
    Chunk(Chunk),
    /// A file is read to its end; the next one follows from its offset 4.
    EndOfFile {
        /// The finished file's number.
        file_number: u64,
        /// Its length.
        len: u64,
    },
    /// Nothing new came in the given time.
    Idle,
    /// The log was closed and is read to its end.
    Closed,
}
