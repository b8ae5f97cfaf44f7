//! Errors of the accounts file and of TLS.

use std::io;
use std::path::PathBuf;

/// Errors of accounts.
#[derive(Debug, thiserror::Error)]
pub enum AccountsError {
    /// The file could not be read or written; after a failed write the old content is unchanged.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// The file is not one that this program wrote.
    #[error("{}: {reason}", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// An account with this name and host exists already.
    #[error("account {name} exists already")]
    Exists {
        /// The account as `name@host`.
        name: String,
    },
    /// No account has this name and host.
    #[error("there is no account {name}")]
    Unknown {
        /// The account as `name@host`.
        name: String,
    },
    /// A name, host, right or password that is not possible.
    #[error("{0}")]
    Invalid(String),
    /// The system gives no random bytes.
    #[error("no randomness from the system")]
    NoRandomness,
}

/// Errors of the TLS configuration.
#[derive(Debug, thiserror::Error)]
pub enum TlsError {
    /// A file could not be read or written.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// A file's content cannot be used.
    #[error("{}: {reason}", path.display())]
    Unusable {
        /// The file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// Only one of certificate and key is given.
    #[error("ssl-cert and ssl-key must be given together")]
    HalfAPair,
    /// The TLS library refused the configuration, or could not make a certificate.
    #[error("TLS: {0}")]
    Library(String),
}
