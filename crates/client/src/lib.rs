//! A MySQL client: login, TLS, text and prepared statements, the packets of a dump. Blocking; the protocol itself is
//! without I/O where another loop drives it too ([`steps`]).
//!
//! In: a URL or an option file, bytes from a server.
//! Out: result sets, rows, packets, borrowed from the read buffer when streamed.
//! Never here: retries (the caller decides when to reconnect), interpretation of a dump's events.
#![forbid(unsafe_code)]
#![warn(missing_docs)]
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used))]

pub mod connection;
mod error;
mod login_gate;
mod nonblocking;
pub mod option_file;
pub mod options;
pub mod records;
pub mod session;
pub mod steps;
mod stream;
mod tls;

pub use connection::{Column, Connection, DumpPacket, ResultSet, Rows, Statement};
pub use error::{ClientError, DumpRefusal};
pub use login_gate::{HELD_FOR, allow_login};
pub use nonblocking::NonBlocking;
pub use options::{ConnectOptions, OnBehalf, SslMode};
pub use records::Arrived;
pub use stream::Interrupter;
pub use wire::response::OkPacket;
pub use wire::row::{BinaryRow, Param, Value};

/// Result with this crate's error.
pub type Result<T> = std::result::Result<T, ClientError>;
