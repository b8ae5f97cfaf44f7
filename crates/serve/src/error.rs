//! What ends a connection, or the server.

use std::io;

use binlog::BinlogError;
use relay_log::RelayError;
use wire::WireError;

/// See the module.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ServeError {
    /// The system refused.
    #[error("cannot {action}: {error}")]
    Io {
        /// What was tried.
        action: String,
        /// Its words.
        error: io::Error,
    },
    /// A client does not keep to the protocol.
    #[error(transparent)]
    Wire(#[from] WireError),
    /// A client sent a GTID set that is none.
    #[error("the replica's GTID set: {0}")]
    Gtids(#[from] base::GtidError),
    /// A log cannot be read.
    #[error(transparent)]
    Log(#[from] BinlogError),
    /// A log can be read, but not served.
    #[error("{0}")]
    Unfit(String),
    /// The relay log cannot be read.
    #[error(transparent)]
    Relay(#[from] RelayError),
    /// A client asks for TLS.
    #[error("the client wants TLS, which was not offered")]
    Tls,
    /// What holds transactions back failed.
    #[error("{0}")]
    Hold(String),
    /// The server is to stop.
    #[error("stopped")]
    Stopped,
}

impl ServeError {
    /// Turns the system's refusal of an action into one of these.
    pub(crate) fn io(action: impl Into<String>) -> impl FnOnce(io::Error) -> ServeError {
        let action = action.into();
        move |error| ServeError::Io { action, error }
    }
}

/// Shorthand.
pub(crate) type Result<T, E = ServeError> = std::result::Result<T, E>;
