//! The port for clients: listens, lets them log in, and runs their sessions.
//!
//! In: connections over TCP and a unix socket; accounts and TLS from crate `accounts`; facts of the replica through
//! [`Facts`]. Out: answers of the MySQL protocol. Never here: passwords, the meaning of a statement (crate `sql`), an
//! unbounded buffer, a thread a connection.
#![forbid(unsafe_code)]
#![warn(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used))]

mod census;
mod config;
mod connection;
mod event_loop;
mod gate;
mod guarded;
mod helper;
mod listen;
mod server;
mod source;
mod tally;
mod transport;

pub use config::{DoorConfig, Facts, Followed, Note, OrderDone};
pub use server::{Door, DoorError, DoorStatus};
pub use session::{
    FailoverLists, FailoverSource, FilterTexts, GroupFigures, GroupMember, Gtids, NoGtids, Ordered, Output, Position,
    ReadLock, Readable, Registration, ReplicaStatus, SchemaState, SessionLine, SourceSet, SourceTls, Statistics,
    Switch, ThreadError, Waker, World,
};
pub use source::{Forwarded, Splits};
pub use sql::SqlError;
pub use tally::{DURATION_BOUNDS_US, Statements};
pub use tier::DigestCount;
pub use tier::Forward;
