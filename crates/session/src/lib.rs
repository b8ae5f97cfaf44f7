//! One client's session: its commands and their answers, without I/O.
//!
//! In: payloads of a client that is logged in, and what the [`World`] tells. Out: packets. Never here: sockets, TLS,
//! threads, a wait that blocks (crate `door` has them), the meaning of a text (crate `sql`).
#![forbid(unsafe_code)]
#![warn(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used))]

mod client;
mod failed;
mod gtids;
mod output;
mod replica_status;
mod world;

pub use client::{
    After, Change, Forwarding, ListedRows, Mark, Missed, NotHere, OkFacts, OpenTransaction, Proof, Session, Waiting,
    Why, conflict, is_question, needs, statements,
};
pub use failed::{Failed, OTHERS};
pub use gtids::{Gtids, NoGtids, Position, Readable, Registration, SourceSet, Switch, Waker};
pub use output::Output;
pub use replica_status::{
    FailoverLists, FailoverSource, FilterTexts, GroupFigures, GroupMember, ReplicaStatus, SourceTls, ThreadError,
};
pub use world::{Encryption, Ordered, ReadLock, SchemaState, SessionLine, Statistics, World};
