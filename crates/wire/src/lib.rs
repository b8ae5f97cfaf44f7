//! The MySQL client/server protocol as bytes.
//!
//! In: bytes from a peer, and the values of a command. Out: packets to send, and typed views of received packets. Never
//! here: sockets, TLS, clocks, randomness (the caller passes the OAEP seed), or an allocation sized by a length that
//! the peer only claimed.
#![forbid(unsafe_code)]
#![warn(missing_docs)]
#![warn(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
#![cfg_attr(
    test,
    allow(clippy::unwrap_used, clippy::expect_used, clippy::cast_possible_truncation, clippy::cast_sign_loss)
)]

pub mod auth;
pub mod command;
pub mod compress;
pub mod handshake;
pub mod packet;
pub mod read;
pub mod response;
pub mod row;
pub mod rsa;
pub mod server;

/// Errors in bytes from a peer, or in values to send.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum WireError {
    /// A packet ended inside a field.
    #[error("malformed packet: {what} is cut short")]
    Truncated {
        /// The field being read.
        what: &'static str,
    },
    /// A field has a value that the protocol does not allow.
    #[error("malformed packet: {what}")]
    Malformed {
        /// Description of the error.
        what: &'static str,
    },
    /// A value to send cannot be represented in the protocol.
    #[error("cannot be sent: {what}")]
    Unwritable {
        /// Description of the error.
        what: &'static str,
    },
    /// The peer skipped or repeated a packet.
    #[error("packets out of order: expected sequence id {expected}, got {got}")]
    OutOfOrder {
        /// Expected sequence id.
        expected: u8,
        /// Received sequence id.
        got: u8,
    },
    /// A packet is larger than the configured limit.
    #[error("packet larger than the limit of {limit} bytes")]
    TooLarge {
        /// The limit in bytes.
        limit: usize,
    },
    /// The protocol version is not 10.
    #[error("protocol version {version} is not supported (10 is)")]
    ProtocolVersion {
        /// The version byte of the greeting.
        version: u8,
    },
    /// The server requests an authentication plugin that we do not support.
    #[error(
        "authentication plugin '{plugin}' is not supported (caching_sha2_password, mysql_native_password, sha256_password and auth_socket are)"
    )]
    AuthPlugin {
        /// Name of the plugin.
        plugin: String,
    },
    /// The password itself is asked for, and only its hash is known.
    #[error("authentication plugin '{plugin}' asks for the password itself, of which only a hash is known")]
    NoPassword {
        /// Name of the plugin.
        plugin: &'static str,
    },
    /// The password must not be sent over this connection.
    #[error(
        "authentication plugin '{plugin}' needs a secure connection: use TLS (ssl-mode=REQUIRED), a unix socket, server-public-key-path, or get-server-public-key"
    )]
    InsecureTransport {
        /// Name of the plugin.
        plugin: &'static str,
    },
    /// The server's RSA public key is invalid.
    #[error("the server's RSA public key cannot be used: {what}")]
    PublicKey {
        /// Description of the error.
        what: &'static str,
    },
    /// The peer lacks a feature that we need.
    #[error("the server does not support {what}")]
    Capability {
        /// The missing feature.
        what: &'static str,
    },
}

/// Result with this crate's error.
pub type Result<T> = std::result::Result<T, WireError>;
