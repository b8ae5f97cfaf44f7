//! The shadow: clients work at the source through it, and what they read is read at the replica too and compared.
//!
//! In: clients of the MySQL protocol, a source, a replica of it. Out: the source's answers, unchanged; counts of what
//! was equal, refused, different, and a report. Never here: a write at the replica, an answer that is not the source's,
//! a literal of a statement in the report.
#![forbid(unsafe_code)]
#![warn(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used))]

mod beside;
mod compared;
mod front;
mod gate;
mod judge;
mod kind;
mod masked;
mod nature;
mod pair;
mod report;
mod server;
mod session;
mod temporary;
mod unlimited;

pub use report::{Found, Report};
pub use server::{Shadow, ShadowConfig};

use client::ClientError;

/// Why the shadow, or one of its sessions, cannot go on.
#[derive(Debug, thiserror::Error)]
pub enum ShadowError {
    /// A server cannot be reached or has gone.
    #[error("{which}: {source}")]
    Server {
        /// The source or the replica.
        which: &'static str,
        source: ClientError,
    },
    #[error("a client: {0}")]
    Client(#[from] std::io::Error),
    /// A file or address of our own.
    #[error("{what}: {source}")]
    Own { what: String, source: std::io::Error },
    /// Accounts, certificates, or what is asked for.
    #[error("{0}")]
    Other(String),
}

/// Result with this crate's error.
pub(crate) type Result<T> = std::result::Result<T, ShadowError>;
