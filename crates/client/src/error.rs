//! Errors of a connection to a server.

use std::path::PathBuf;
use std::time::Duration;

use wire::WireError;

use crate::login_gate::{HELD_FOR, is_refusal};

/// An error of a connection. Its text never contains a password.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// A URL, option or option file that is invalid.
    #[error("{message}")]
    Usage {
        /// What is invalid and how to correct it.
        message: String,
    },
    /// The host name does not resolve to an address.
    #[error("no such host: {host}: {error}")]
    Resolve {
        /// The host name.
        host: String,
        /// Error of the resolver.
        error: std::io::Error,
    },
    /// No server accepts connections at the address.
    #[error("cannot connect to {address}: {error}")]
    Connect {
        /// host:port or socket path.
        address: String,
        /// Error of the operating system.
        error: std::io::Error,
    },
    /// The connection failed.
    #[error("connection to the source failed: {error}")]
    Io {
        /// Error of the operating system.
        error: std::io::Error,
    },
    /// Nothing arrived within the read timeout. The connection can still be read.
    #[error("nothing received from the source within the read timeout")]
    ReadTimeout,
    /// The server closed the connection.
    #[error("the source closed the connection")]
    Closed,
    /// An [`crate::Interrupter`] shut the connection down.
    #[error("the connection was interrupted")]
    Interrupted,
    /// The connection failed earlier and must not be used again.
    #[error("the connection failed earlier")]
    Broken,
    /// TLS failed or is unavailable.
    #[error("TLS: {message}")]
    Tls {
        /// Reason of the failure.
        message: String,
    },
    /// A certificate, key or option file could not be read.
    #[error("{path}: {error}")]
    File {
        /// Path of the file.
        path: PathBuf,
        /// Error of the operating system.
        error: std::io::Error,
    },
    /// The server answered with an error.
    #[error("error {code}{}: {message}", sqlstate_text(.sqlstate))]
    Server {
        /// MySQL's error number (1045 access denied, 1236 dump refused, …).
        code: u16,
        /// SQLSTATE of five characters, or empty.
        sqlstate: String,
        /// Message of the server.
        message: String,
    },
    /// The server refused this login earlier, and it is not tried again yet.
    #[error("error {code}{}: {message} (the same password is not tried again for {} min)", sqlstate_text(.sqlstate), .wait.as_secs().div_ceil(60))]
    LoginHeld {
        /// MySQL's error number of the refusal.
        code: u16,
        /// SQLSTATE of the refusal.
        sqlstate: String,
        /// Message of the server.
        message: String,
        /// Time until the next try is allowed.
        wait: Duration,
    },
    /// The server sent something that violates the protocol, or requests something that we do not support.
    #[error(transparent)]
    Wire(#[from] WireError),
    /// A packet before the end of the login is longer than any of MySQL's.
    #[error(
        "the server sent a packet of more than 64 KiB before the login's end, as MySQL does not: look at host and port"
    )]
    LoginTooLarge,
    /// An answer that is kept as a whole takes too much memory.
    #[error("the answer to {to} is larger than {limit_mib} MiB, the most that is kept: is this the right server?")]
    AnswerTooLarge {
        /// The beginning of the statement.
        to: String,
        /// The limit in MiB.
        limit_mib: usize,
    },
    /// An answer does not have the expected shape.
    #[error("unexpected answer to {what}")]
    UnexpectedAnswer {
        /// The request that was answered.
        what: &'static str,
    },
    /// A value that an answer must have is missing, or cannot be read.
    #[error("unexpected answer to {what}: {value} is {found}")]
    UnexpectedValue {
        /// The request that was answered.
        what: &'static str,
        /// The column, or the variable.
        value: String,
        /// What is there instead.
        found: String,
    },
}

/// Characters of a server's text that an error about a value shows.
const SHOWN_CHARS_MAX: usize = 60;

/// Reason why a dump was refused or ended (error 1236), recognised from the server's text, because the code is always
/// the same.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DumpRefusal {
    /// The source has purged transactions that we need.
    Purged,
    /// We have transactions with the source's own uuid that it lacks.
    MoreGtidsThanSource,
    /// Another dump with our uuid or server id replaced ours.
    SameUuid,
    /// The length of an event in its log is above 1 GiB, the most that a source sends, or wrong.
    EventTooLarge,
    /// Another reason; see the message.
    Other,
}

/// A server's text, in one short line.
fn shown(text: &str) -> String {
    let cut = if text.chars().nth(SHOWN_CHARS_MAX).is_some() { "…" } else { "" };
    let start: String = text.chars().take(SHOWN_CHARS_MAX).collect();
    format!("{}{cut}", start.escape_debug())
}

fn sqlstate_text(sqlstate: &str) -> String {
    if sqlstate.is_empty() { String::new() } else { format!(" ({sqlstate})") }
}

impl ClientError {
    /// MySQL's error number, if a server sent one.
    pub fn server_code(&self) -> Option<u16> {
        match self {
            ClientError::Server { code, .. } | ClientError::LoginHeld { code, .. } => Some(*code),
            _ => None,
        }
    }

    /// Reason why a source refused or ended a dump with error 1236, a code it uses for every reason.
    pub fn dump_refusal(&self) -> Option<DumpRefusal> {
        let ClientError::Server { code: 1236, message, .. } = self else { return None };
        let message = message.to_ascii_lowercase();
        Some(if message.contains("purged") {
            DumpRefusal::Purged
        } else if message.contains("more gtids than") {
            DumpRefusal::MoreGtidsThanSource
        } else if message.contains("same server_uuid") || message.contains("same server_id") {
            DumpRefusal::SameUuid
        } else if message.contains("max_allowed_packet") {
            DumpRefusal::EventTooLarge
        } else {
            DumpRefusal::Other
        })
    }

    /// Time until the login may be tried again, if the server refused it.
    pub fn login_held_for(&self) -> Option<Duration> {
        match self {
            ClientError::LoginHeld { wait, .. } => Some(*wait),
            ClientError::Server { code, .. } if is_refusal(*code) => Some(HELD_FOR),
            _ => None,
        }
    }

    /// True for a read timeout, after which reading may continue.
    pub fn is_timeout(&self) -> bool {
        matches!(self, ClientError::ReadTimeout)
    }

    /// True if connecting again may help: network failure, a restarting or overloaded source.
    pub fn is_transient(&self) -> bool {
        match self {
            ClientError::Resolve { .. }
            | ClientError::Connect { .. }
            | ClientError::Io { .. }
            | ClientError::ReadTimeout
            | ClientError::Closed
            // A proxy that has no server answers in words of its own.
            | ClientError::LoginTooLarge
            | ClientError::Broken => true,
            // 1040 too many connections, 1053 shutdown in progress, 1077/1079 shutdown, 1152-1161 network, 1203/1226 user
            // limits, 1317/3169/4031 killed or idle too long, 3032 offline mode.
            ClientError::Server { code, .. } => {
                matches!(code, 1040 | 1053 | 1077 | 1079 | 1152..=1161 | 1203 | 1226 | 1317 | 3032 | 3169 | 4031)
            }
            _ => false,
        }
    }

    /// Builds an error about a value that an answer must have; `found` is what it has there, None for nothing.
    pub fn unexpected_value(what: &'static str, value: &str, found: Option<&str>) -> Self {
        let found = found.map_or_else(|| "NULL or missing".to_owned(), |text| format!("'{}'", shown(text)));
        ClientError::UnexpectedValue { what, value: shown(value), found }
    }

    /// Builds an error about how the client is called.
    pub fn usage(message: impl Into<String>) -> Self {
        ClientError::Usage { message: message.into() }
    }
}
