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
mod gtids;
mod guarded;
mod helper;
mod listen;
mod output;
mod replica_status;
mod server;
pub mod session;
mod tally;
mod transport;
mod world;

pub use census::SessionLine;
pub use config::{DoorConfig, Facts, Note, OrderDone, Ordered};
pub use gtids::{Gtids, NoGtids, Position, Readable, Registration, SourceSet, Switch, Waker};
pub use output::Output;
pub use replica_status::{FilterTexts, ReplicaStatus, SourceTls, ThreadError};
pub use server::{Door, DoorError, DoorStatus};
pub use sql::SqlError;
pub use tally::{DURATION_BOUNDS_US, Statements};
pub use world::{ReadLock, SchemaState, Statistics, World};
