//! What can go wrong with a relay log.

use std::io;
use std::path::{Path, PathBuf};

use base::{GtidSet, LogPosition};

/// A relay log's failure. Cheap to clone: after an I/O failure the log is poisoned and every later call fails with it.
#[derive(Debug, Clone, thiserror::Error)]
pub enum RelayError {
    /// An operation of the operating system failed.
    #[error("relay log: cannot {action} {path}: {error}", path = path.display())]
    Io {
        /// What was tried.
        action: &'static str,
        /// On which file or folder.
        path: PathBuf,
        /// Its kind.
        kind: io::ErrorKind,
        /// The system's words.
        error: String,
    },
    /// No space is left; the last file was truncated to its last whole transaction and is valid.
    #[error("relay log: disk full: cannot {action} {path}: free space there, then start again", path = path.display())]
    DiskFull {
        /// What was tried.
        action: &'static str,
        /// On which file or folder.
        path: PathBuf,
    },
    /// Bytes that were safely stored have changed or are gone.
    #[error(
        "relay log file {file} is damaged at offset {offset}: {reason}. To go on: stop the replica, delete every \
         relay-bin.* file and relay-log.state from its relay log folder, start again; the source sends the log again"
    )]
    Corrupt {
        /// File name.
        file: String,
        /// Where in it.
        offset: u64,
        /// What is wrong.
        reason: String,
    },
    /// A file the index (or the state file) names is not there.
    #[error(
        "relay log file {file} is missing ({named_by} names it). Put it back, or stop the replica, delete every \
         relay-bin.* file and relay-log.state from its relay log folder and start again; the source sends the log again"
    )]
    Missing {
        /// File name.
        file: String,
        /// Who names it.
        named_by: &'static str,
    },
    /// The index is not one of ours.
    #[error(
        "relay log index, line {line}: {reason}. If the relay-bin.* files are all there, delete relay-bin.index and \
         start again: it is rebuilt from them"
    )]
    Index {
        /// Line number, from 1.
        line: usize,
        /// What is wrong.
        reason: String,
    },
    /// An event that cannot stand where it stands.
    #[error(transparent)]
    Boundary(#[from] crate::boundary::BoundaryError),
    /// The caller broke this crate's contract.
    #[error("relay log: {0}")]
    Misuse(&'static str),
    /// The reader was further behind than it holds the log, and its file was purged.
    #[error("relay log file {file} was purged before it was read from offset {offset}: the reader was too far behind")]
    PlaceLost {
        /// Name of the file it needs.
        file: String,
        /// Where in it.
        offset: u64,
    },
    /// What the reader was given is not in the log any more: it was damaged, or the log ends in front of it now.
    #[error("the relay log was truncated to a place in front of what was read last")]
    Truncated,
    /// The log begins behind transactions that the store lacks.
    #[error(
        "relay log file {file} follows transactions that the store lacks: {missing}. To go on: stop the replica, delete \
         every relay-bin.* file and relay-log.state from its relay log folder, start again; the source sends the log \
         again"
    )]
    Gap {
        /// The first file's name.
        file: String,
        /// What is neither in the store nor in the log.
        missing: GtidSet,
    },
    /// The store's place in the log is gone, and nothing else tells which transactions it holds.
    #[error(
        "the store's position {hint} cannot be found in the relay log: {reason}. To go on: start with an empty data \
         folder"
    )]
    StartLost {
        /// The position.
        hint: LogPosition,
        /// Why it does not hold, and why nothing else can.
        reason: String,
    },
    /// The writer or the sync thread is gone.
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

    pub(crate) fn corrupt(file: &str, offset: u64, reason: impl Into<String>) -> RelayError {
        RelayError::Corrupt { file: file.to_string(), offset, reason: reason.into() }
    }
}
