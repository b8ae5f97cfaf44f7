//! What can go wrong with a connection to a server.

use std::path::PathBuf;

use wire::WireError;

/// What went wrong with a connection. Texts never hold a password.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// A URL, option or option file that cannot be used.
    #[error("{message}")]
    Usage {
        /// What to change.
        message: String,
    },
    /// The host name has no address.
    #[error("no such host: {host}: {error}")]
    Resolve {
        /// The name.
        host: String,
        /// The resolver's answer.
        error: std::io::Error,
    },
    /// Nobody answers there.
    #[error("cannot connect to {address}: {error}")]
    Connect {
        /// host:port or socket path.
        address: String,
        /// The system's answer.
        error: std::io::Error,
    },
    /// The connection failed.
    #[error("connection to the source failed: {error}")]
    Io {
        /// The system's answer.
        error: std::io::Error,
    },
    /// Nothing came within the read timeout. The connection can go on being read.
    #[error("nothing received from the source within the read timeout")]
    ReadTimeout,
    /// The server closed the connection.
    #[error("the source closed the connection")]
    Closed,
    /// An [`crate::Interrupter`] shut the connection.
    #[error("the connection was interrupted")]
    Interrupted,
    /// The connection failed earlier and must not be used again.
    #[error("the connection failed earlier")]
    Broken,
    /// TLS failed or is not to be had.
    #[error("TLS: {message}")]
    Tls {
        /// Why.
        message: String,
    },
    /// A file of a certificate, key or option could not be read.
    #[error("{path}: {error}")]
    File {
        /// The file.
        path: PathBuf,
        /// The system's answer.
        error: std::io::Error,
    },
    /// The server answered with an error.
    #[error("error {code}{}: {message}", sqlstate_text(.sqlstate))]
    Server {
        /// MySQL's error number (1045 access denied, 1236 dump refused, …).
        code: u16,
        /// Five characters, or empty.
        sqlstate: String,
        /// The server's text.
        message: String,
    },
    /// The server sent what the protocol does not allow, or asks for what we do not do.
    #[error(transparent)]
    Wire(#[from] WireError),
    /// An answer does not have the expected shape.
    #[error("unexpected answer to {what}")]
    UnexpectedAnswer {
        /// The question.
        what: &'static str,
    },
}

/// Why a dump was refused or ended (error 1236). Recognised by the server's text, which is all it gives.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DumpRefusal {
    /// The source has purged transactions we need.
    Purged,
    /// We have transactions of the source's own uuid that it lacks.
    MoreGtidsThanSource,
    /// Another dump under our uuid or server id took our place.
    SameUuid,
    /// Read the message.
    Other,
}

fn sqlstate_text(sqlstate: &str) -> String {
    if sqlstate.is_empty() { String::new() } else { format!(" ({sqlstate})") }
}

impl ClientError {
    /// MySQL's error number, where a server answered with one.
    pub fn server_code(&self) -> Option<u16> {
        match self {
            ClientError::Server { code, .. } => Some(*code),
            _ => None,
        }
    }

    /// Why a source refused or ended a dump with error 1236, which it uses for everything.
    pub fn dump_refusal(&self) -> Option<DumpRefusal> {
        let ClientError::Server { code: 1236, message, .. } = self else { return None };
        let message = message.to_ascii_lowercase();
        Some(if message.contains("purged") {
            DumpRefusal::Purged
        } else if message.contains("more gtids than") {
            DumpRefusal::MoreGtidsThanSource
        } else if message.contains("same server_uuid") || message.contains("same server_id") {
            DumpRefusal::SameUuid
        } else {
            DumpRefusal::Other
        })
    }

    /// True for a read timeout, after which reading may go on.
    pub fn is_timeout(&self) -> bool {
        matches!(self, ClientError::ReadTimeout)
    }

    /// True when connecting again may help: network trouble, a restarting or overloaded source.
    pub fn is_transient(&self) -> bool {
        match self {
            ClientError::Resolve { .. }
            | ClientError::Connect { .. }
            | ClientError::Io { .. }
            | ClientError::ReadTimeout
            | ClientError::Closed
            | ClientError::Broken => true,
            // 1040 too many connections, 1053 shutdown in progress, 1077/1079 shutdown, 1152-1161 network, 1203/1226 user
            // limits, 1317/3169/4031 killed or idle too long, 3032 offline mode.
            ClientError::Server { code, .. } => {
                matches!(code, 1040 | 1053 | 1077 | 1079 | 1152..=1161 | 1203 | 1226 | 1317 | 3032 | 3169 | 4031)
            }
            _ => false,
        }
    }

    /// Something to change in how the client is called.
    pub fn usage(message: impl Into<String>) -> Self {
        ClientError::Usage { message: message.into() }
    }
}
