//! Origins of the log: a MySQL source over its protocol, or binlog files.
//!
//! In: a connection, or files.
//! Out: binlog events (borrowed, never copied one by one), the preflight report.
//! Never here: interpretation of events, the relay log, retries (the caller decides when to reconnect).
#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used))]

pub mod alive;
mod before_log;
pub mod clock;
pub mod copy_check;
pub mod files;
mod filter;
pub mod group;
pub mod history;
pub mod polite_lock;
pub mod preflight;
pub mod replication;
pub mod zones;

pub use before_log::{KEEPS_NO_TABLES, TablesBeforeLog, tables_before_log};
pub use files::{FileError, FileSource};
pub use filter::TableFilter;
pub use replication::{DumpRequest, DumpStream, start_dump};
pub use wire::command::DumpEvent;

/// SQL condition that excludes the server's own schemas.
pub const NOT_SYSTEM: &str = "TABLE_SCHEMA NOT IN ('mysql', 'sys', 'information_schema', 'performance_schema')";
