//! Where the log comes from: a MySQL source over its protocol, or binlog files.
//!
//! In: a URL, an option file, bytes from a server or from files. Out: result sets, rows, binlog events (borrowed, never
//! copied one by one), the preflight report. Never here: interpretation of events, the relay log, retries (the caller
//! decides when to connect again).
#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used))]

pub mod clock;
pub mod connection;
pub mod copy_check;
mod error;
pub mod files;
mod filter;
pub mod option_file;
pub mod options;
pub mod polite_lock;
pub mod preflight;
pub mod replication;
pub mod session;
mod stream;
mod tls;

pub use connection::{Column, Connection, ResultSet, Rows, Statement};
pub use error::{DumpRefusal, SourceError};
pub use files::FileSource;
pub use filter::TableFilter;
pub use options::{ConnectOptions, SslMode};
pub use replication::{DumpRequest, DumpStream, start_dump};
pub use stream::Interrupter;
pub use wire::command::DumpEvent;
pub use wire::response::OkPacket;
pub use wire::row::{BinaryRow, Param, Value};

/// Shorthand.
pub type Result<T> = std::result::Result<T, SourceError>;
