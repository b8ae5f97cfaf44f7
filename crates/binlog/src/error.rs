//! The error type of this crate: what is wrong with the bytes, and where, once a reader knows.

use base::{GtidError, LogPosition};

/// What a program does about an error. Each class has its own exit code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorClass {
    /// The bytes are sound but hold something unsupported (MariaDB, rows v1, encryption, ...).
    NotSupported,
    /// The bytes are not what MySQL writes: cut off, flipped, or not a binlog.
    Corrupt,
    /// The file could not be read.
    Io,
}

/// Everything that can be wrong with a binary log.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum BinlogError {
    /// A field does not fit into the rest of the event.
    #[error("{event} event is cut off inside {field}")]
    Short {
        /// Name of the event.
        event: &'static str,
        /// Name of the field.
        field: &'static str,
    },
    /// A field holds a value that MySQL never writes.
    #[error("{event} event: {field} has the impossible value {value}")]
    Value {
        /// Name of the event.
        event: &'static str,
        /// Name of the field.
        field: &'static str,
        /// Its value.
        value: u64,
    },
    /// Bytes are left where the event must end.
    #[error("{event} event has {left} bytes too many after {field}")]
    LeftOver {
        /// Name of the event.
        event: &'static str,
        /// Name of the last field.
        field: &'static str,
        /// Number of bytes left.
        left: usize,
    },
    /// The length in the header differs from the length of the bytes given.
    #[error("{event} event: its header says {stated} bytes, {actual} are at hand")]
    EventLength {
        /// Name of the event.
        event: &'static str,
        /// Length in the header.
        stated: u32,
        /// Length of the bytes.
        actual: usize,
    },
    /// An event type that is known but not supported.
    #[error("{event} event (type {code}) is not supported: {reason}")]
    UnsupportedEvent {
        /// Name of the event.
        event: &'static str,
        /// Its type code.
        code: u8,
        /// Why not, and what helps.
        reason: &'static str,
    },
    /// An unknown type code, without the flag that allows skipping it.
    #[error("unknown event type {code} that may not be ignored (written by a newer server, or a corrupt log)")]
    UnknownEvent {
        /// The code.
        code: u8,
    },
    /// The log was written by MariaDB.
    #[error("this is a MariaDB log ({evidence}); only MySQL's format is supported")]
    MariaDb {
        /// What showed it.
        evidence: String,
    },
    /// The log is from before MySQL 5.0.
    #[error("binlog format version {version} is not supported, only version 4 (server version {server_version:?})")]
    FormatVersion {
        /// The version found.
        version: u16,
        /// Server version in the same event, as far as it could be read.
        server_version: String,
    },
    /// An unknown checksum algorithm.
    #[error("unknown binlog checksum algorithm {code}")]
    ChecksumAlgorithm {
        /// The code in the format description.
        code: u8,
    },
    /// The event's bytes do not match its checksum.
    #[error("{event} event fails its checksum: corrupt log or transfer")]
    Checksum {
        /// Name of the event.
        event: &'static str,
    },
    /// A GTID or GTID set inside an event is malformed.
    #[error("{event} event: {source}")]
    Gtid {
        /// Name of the event.
        event: &'static str,
        /// The GTID parser's error.
        source: GtidError,
    },
    /// A payload exceeds the caller's limit or the size in its own header.
    #[error("Transaction_payload event unpacks to more than {limit} bytes")]
    PayloadTooLarge {
        /// The limit in bytes.
        limit: u64,
    },
    /// A payload cannot be decompressed.
    #[error("Transaction_payload event cannot be decompressed: {detail}")]
    Decompress {
        /// The decompressor's message.
        detail: String,
    },
    /// The file is encrypted (magic `fd 62 69 6e`).
    #[error(
        "encrypted binary log (binlog_encryption=ON on its server); decrypt it there, or stream it from the server"
    )]
    Encrypted,
    /// The file does not start with a binlog's magic.
    #[error("not a binary log: it starts with {found:02x?} instead of fe 62 69 6e")]
    NotABinlog {
        /// Its first bytes, at most four.
        found: Vec<u8>,
    },
    /// The first event is not a format description.
    #[error("the log starts with a {found} event instead of a format description")]
    NoFormatDescription {
        /// Name of the first event.
        found: &'static str,
    },
    /// The file ends inside an event.
    #[error("the log ends inside an event: {have} of {need} bytes are there")]
    Truncated {
        /// Bytes the event should have (19 if not even its header is complete).
        need: u64,
        /// Bytes present.
        have: u64,
    },
    /// Reading failed.
    #[error("reading failed: {0}")]
    Io(#[source] std::io::Error),
    /// One of the other errors, with its place.
    #[error("{position} ({event}): {source}")]
    At {
        /// File and offset of the event's first byte.
        position: LogPosition,
        /// Name of the event, "file header" or "event header".
        event: &'static str,
        /// What is wrong.
        source: Box<BinlogError>,
    },
}

impl BinlogError {
    /// Class of the error.
    pub fn class(&self) -> ErrorClass {
        match self {
            BinlogError::At { source, .. } => source.class(),
            BinlogError::Io(_) => ErrorClass::Io,
            BinlogError::UnsupportedEvent { .. }
            | BinlogError::UnknownEvent { .. }
            | BinlogError::MariaDb { .. }
            | BinlogError::FormatVersion { .. }
            | BinlogError::ChecksumAlgorithm { .. }
            | BinlogError::PayloadTooLarge { .. }
            | BinlogError::Encrypted => ErrorClass::NotSupported,
            _ => ErrorClass::Corrupt,
        }
    }

    /// The error without its place.
    pub fn root(&self) -> &BinlogError {
        match self {
            BinlogError::At { source, .. } => source.root(),
            other => other,
        }
    }

    /// True if the log merely ends inside an event: a torn tail, or a file still being written.
    pub fn is_truncated(&self) -> bool {
        matches!(self.root(), BinlogError::Truncated { .. })
    }

    /// Adds the place to the error, unless it already has one.
    pub fn at(self, position: LogPosition, event: &'static str) -> BinlogError {
        match self {
            placed @ BinlogError::At { .. } => placed,
            source => BinlogError::At { position, event, source: Box::new(source) },
        }
    }
}
