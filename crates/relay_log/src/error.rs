//! Errors of a relay log.

use std::io;
use std::path::{Path, PathBuf};

use base::{GtidSet, LogPosition};

/// An error of a relay log. Cheap to clone: after an I/O failure the log is poisoned and every later call returns it.
#[derive(Debug, Clone, thiserror::Error)]
pub enum RelayError {
    /// An operation of the operating system failed.
    #[error("relay log: cannot {action} {path}: {error}", path = path.display())]
    Io {
        /// The failed operation as a verb, e.g. `open`.
        action: &'static str,
        /// File or folder of the operation.
        path: PathBuf,
        /// Kind of the I/O error.
        kind: io::ErrorKind,
        /// Text of the I/O error.
        error: String,
    },
    /// The disk is full; the last file was truncated to its last whole transaction and is valid.
    #[error("relay log: disk full: cannot {action} {path}", path = path.display())]
    DiskFull {
        /// The failed operation as a verb, e.g. `write`.
        action: &'static str,
        /// File or folder of the operation.
        path: PathBuf,
    },
    /// Bytes that were durable have changed or are missing.
    #[error(
        "relay log file {file} is damaged at offset {offset}: {reason}. To continue: stop the replica, delete every \
         relay-bin.* file and relay-log.state from its relay log folder, start again; the source sends the log again"
    )]
    Corrupt {
        /// Name of the damaged file.
        file: String,
        /// Offset in the file, in bytes.
        offset: u64,
        /// Description of the damage.
        reason: String,
    },
    /// A file that the index (or the state file) names is missing.
    #[error(
        "relay log file {file} is missing ({named_by} names it). Put it back, or stop the replica, delete every \
         relay-bin.* file and relay-log.state from its relay log folder and start again; the source sends the log again"
    )]
    Missing {
        /// Name of the missing file.
        file: String,
        /// Source of the name: `relay-bin.index`, `relay-log.state` or the next file's number.
        named_by: &'static str,
    },
    /// The index was not written by us.
    #[error(
        "relay log index, line {line}: {reason}. If the relay-bin.* files are all there, delete relay-bin.index and \
         start again: it is rebuilt from them"
    )]
    Index {
        /// Line number, from 1.
        line: usize,
        /// Why the line is refused.
        reason: String,
    },
    /// An event that is not allowed at its place.
    #[error(transparent)]
    Boundary(#[from] crate::boundary::BoundaryError),
    /// The caller broke this crate's contract.
    #[error("relay log: {0}")]
    Misuse(&'static str),
    /// The reader lagged further than it may hold the log, and its file was purged.
    #[error("relay log file {file} was purged before it was read from offset {offset}: the reader was too far behind")]
    PlaceLost {
        /// Name of the file to read.
        file: String,
        /// Offset of the next read, in bytes.
        offset: u64,
    },
    /// The reader's position is no longer in the log: its bytes were damaged, or the log was truncated before it.
    #[error("the relay log was truncated before the position that was read up to")]
    Truncated,
    /// The log begins after transactions that the store lacks.
    #[error(
        "relay log file {file} follows transactions that the store lacks: {missing}. To continue: stop the replica, delete \
         every relay-bin.* file and relay-log.state from its relay log folder, start again; the source sends the log \
         again"
    )]
    Gap {
        /// Name of the first file.
        file: String,
        /// GTIDs that neither the store nor the log has.
        missing: GtidSet,
    },
    /// The store's position is no longer in the log, and nothing else tells which transactions the store has.
    #[error(
        "the store's position {hint} cannot be found in the relay log: {reason}. To continue: start with an empty data \
         folder"
    )]
    StartLost {
        /// The store's position, as named on open.
        hint: LogPosition,
        /// Why the position is invalid, and why nothing else can replace it.
        reason: String,
    },
    /// The writer or the sync thread has ended.
    #[error("relay log is closed")]
    Closed,
}

impl RelayError {
    pub(crate) fn io(action: &'static str, path: &Path, error: &io::Error) -> RelayError {
        if matches!(error.kind(), io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded) {
            return RelayError::DiskFull { action, path: path.to_path_buf() };
        }
        RelayError::Io { action, path: path.to_path_buf(), kind: error.kind(), error: error.to_string() }
    }

    /// Whether the disk did not take what was to be made durable: what the system shows of it may be gone after a
    /// crash.
    #[must_use]
    pub fn is_failed_sync(&self) -> bool {
        matches!(self, RelayError::Io { action, .. } | RelayError::DiskFull { action, .. } if action.contains("sync"))
    }

    pub(crate) fn corrupt(file: &str, offset: u64, reason: impl Into<String>) -> RelayError {
        RelayError::Corrupt { file: file.to_string(), offset, reason: reason.into() }
    }
}
