//! Errors that end a connection, or the server.

use std::io;

use binlog::BinlogError;
use relay_log::RelayError;
use wire::WireError;

/// An error that ends a connection, or the server.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServeError {
    /// An operation of the operating system failed.
    #[error("cannot {action}: {error}")]
    Io {
        action: String,
        /// Error of the operating system.
        error: io::Error,
    },
    /// A client violates the protocol.
    #[error(transparent)]
    Wire(#[from] WireError),
    /// A client sent an invalid GTID set.
    #[error("the replica's GTID set: {0}")]
    Gtids(#[from] base::GtidError),
    /// A log cannot be read.
    #[error(transparent)]
    Log(#[from] BinlogError),
    /// A log is readable but cannot be served.
    #[error("{0}")]
    Unfit(String),
    /// The relay log cannot be read.
    #[error(transparent)]
    Relay(#[from] RelayError),
    /// A client requests TLS.
    #[error("the client wants TLS, which was not offered")]
    Tls,
    /// The hook that delays transactions failed.
    #[error("{0}")]
    Hold(String),
    /// The server must stop.
    #[error("stopped")]
    Stopped,
}

impl ServeError {
    /// Converts an I/O error of an action.
    pub(crate) fn io(action: impl Into<String>) -> impl FnOnce(io::Error) -> ServeError {
        let action = action.into();
        move |error| ServeError::Io { action, error }
    }
}

/// Result with this crate's error.
pub(crate) type Result<T, E = ServeError> = std::result::Result<T, E>;
