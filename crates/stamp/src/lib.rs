//! Stamps a log for stock replicas: the same transactions with other logical clocks, in files of their own.
//!
//! In: chunks of a log, and the definitions where it begins. Out: [`Part`]s of the served log: files with CRC32
//! checksums, dense sequence numbers, and last_committed by the locks that the transactions take. [`ServedFolder`],
//! which keeps them, is the only one to do I/O. Never here: threads; a GTID, a row or a statement changed; a part of a
//! transaction without the rest; a byte that depends on anything but the log and the definitions where its file begins.
//!
//! Everything that a tracker remembers is forgotten where a file begins, because replicas wait for all earlier
//! transactions there. So a file can be made again from the log's bytes and the definitions at its beginning
//! ([`FileStart`]).
#![forbid(unsafe_code)]
#![warn(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
#![cfg_attr(
    test,
    allow(clippy::unwrap_used, clippy::expect_used, clippy::cast_possible_truncation, clippy::cast_sign_loss)
)]

mod error;
mod file;
mod folder;
mod reader;
mod stamper;
mod touched;

use base::{GtidSet, LogPosition};
use catalog::Catalog;
use decode::trackers::TrackerKind;

pub use error::StampError;
pub use folder::{FolderError, ServedFolder};
pub use stamper::{PutPart, Stamper};
pub use touched::{DdlScan, Touched};

/// Largest configurable size of a served file, in bytes: positions in events have 32 bits.
pub const FILE_BYTES_MAX: u64 = u32::MAX as u64;
/// Default size of a served file, in bytes (max_binlog_size).
pub const FILE_BYTES: u64 = 1 << 30;

/// Settings of a stamper.
#[derive(Clone, Debug)]
pub struct StampOptions {
    /// Method of finding dependencies.
    pub tracking: TrackerKind,
    /// Claims that the tracker remembers.
    pub history_size: usize,
    /// A file ends before a transaction that would make it longer than this, in bytes; at most [`FILE_BYTES_MAX`]. May
    /// differ from run to run: it holds from the next file on.
    pub file_bytes: u64,
    /// Server id of the events that no source wrote: format descriptions, Previous_gtids, Rotate.
    pub server_id: u32,
}

/// Where a file of the served log begins, and all that it follows from together with the log.
#[derive(Clone, Debug)]
pub struct FileStart {
    /// Number in the file's name, from 1.
    pub number: u64,
    /// Place in the log of its first transaction's Gtid event.
    pub at: LogPosition,
    /// GTIDs of all transactions before it.
    pub executed: GtidSet,
    pub catalog: Catalog,
    /// [`StampOptions::file_bytes`] of this file. A file that is made again has that of its first time.
    pub file_bytes: u64,
}

/// A piece of the served log, in order.
#[derive(Debug)]
pub enum Part<'a> {
    Begin(&'a FileStart),
    /// Bytes of the file: its head, a whole transaction, or its last event.
    Bytes(&'a [u8]),
    /// The file is complete; another one follows.
    End,
}

/// Name of a file of the served log.
#[must_use]
pub fn file_name(number: u64) -> String {
    format!("binlog.{number:06}")
}

/// What a stamper did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct StampCounts {
    pub transactions: u64,
    /// Transactions among them whose source's clock was kept, because they change tables of unknown definition.
    pub kept: u64,
    /// Transactions among them that wait for all before them, without a reason in their rows.
    pub drains: u64,
    /// Sum of the distances between transactions and their parents, each counted up to 64.
    pub distance: u64,
}
