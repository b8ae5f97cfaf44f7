//! The MySQL client/server protocol as bytes.
//!
//! In: bytes that came from a peer, and the values a command carries. Out: packets to send, and typed views of what was
//! received. Never here: sockets, TLS, clocks, randomness (the caller passes the OAEP seed), or an allocation sized by a
//! length that the peer merely claimed.
#![forbid(unsafe_code)]
#![warn(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
#![cfg_attr(
    test,
    allow(clippy::unwrap_used, clippy::expect_used, clippy::cast_possible_truncation, clippy::cast_sign_loss)
)]

pub mod auth;
pub mod command;
pub mod handshake;
pub mod packet;
pub mod read;
pub mod response;
pub mod row;
pub mod rsa;
pub mod server;

/// What can be wrong with bytes from a peer, or with what we were asked to send.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum WireError {
    /// A packet ended before the field did.
    #[error("malformed packet: {what} is cut short")]
    Truncated {
        /// The field being read.
        what: &'static str,
    },
    /// A field holds a value the protocol does not allow.
    #[error("malformed packet: {what}")]
    Malformed {
        /// What was wrong.
        what: &'static str,
    },
    /// What we were asked to send has no form in the protocol.
    #[error("cannot be sent: {what}")]
    Unwritable {
        /// What was wrong.
        what: &'static str,
    },
    /// The peer skipped or repeated a packet.
    #[error("packets out of order: expected sequence id {expected}, got {got}")]
    OutOfOrder {
        /// The id that had to come.
        expected: u8,
        /// The id that came.
        got: u8,
    },
    /// A packet larger than the configured limit.
    #[error("packet larger than the limit of {limit} bytes")]
    TooLarge {
        /// The limit in bytes.
        limit: usize,
    },
    /// Protocol version other than 10.
    #[error("protocol version {version} is not supported (10 is)")]
    ProtocolVersion {
        /// The version byte.
        version: u8,
    },
    /// The server asks for an authentication plugin we do not have.
    #[error(
        "authentication plugin '{plugin}' is not supported (caching_sha2_password, mysql_native_password, sha256_password and auth_socket are)"
    )]
    AuthPlugin {
        /// The plugin's name.
        plugin: String,
    },
    /// The password may not travel over this connection.
    #[error(
        "authentication plugin '{plugin}' needs a secure connection: use TLS (ssl-mode=REQUIRED), a unix socket, server-public-key-path, or get-server-public-key"
    )]
    InsecureTransport {
        /// The plugin's name.
        plugin: &'static str,
    },
    /// The server's RSA public key is unusable.
    #[error("the server's RSA public key cannot be used: {what}")]
    PublicKey {
        /// What was wrong.
        what: &'static str,
    },
    /// The peer does not have an ability that we rely on.
    #[error("the server does not support {what}")]
    Capability {
        /// The missing ability.
        what: &'static str,
    },
}

/// Shorthand.
pub type Result<T> = std::result::Result<T, WireError>;
