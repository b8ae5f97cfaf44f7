//! Identities and limits that every stage shares.
//!
//! In: text and bytes that name transactions, tables and places in a log. Out: small typed values (`Gtid`, `GtidSet`,
//! `LogPosition`, `SequenceNumber`, `ReplicationFilters`) and the project's limits. What threads hand each other things
//! and wake each other with ([`queue`], [`Waiters`]). Never here: I/O, MySQL event formats, threads (but for starting one on the
//! CPUs it may run on, [`ThreadAffinity`]).
// But for `allocator`.
#![deny(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used))]

pub mod affinity;
pub mod allocator;
mod buffer;
mod countdown;
pub mod filters;
mod gtid;
mod gtid_set;
mod integers;
mod lanes;
pub mod limits;
mod position;
mod prepared;
pub mod priority;
pub mod queue;
mod sync;
pub mod units;
mod waiters;

pub use affinity::ThreadAffinity;
pub use buffer::{Buffer, BufferPool};
pub use countdown::Countdown;
pub use filters::ReplicationFilters;
pub use gtid::{Gtid, GtidError, Tag, Uuid};
pub use gtid_set::{GtidSet, Interval};
pub use integers::to_usize;
pub use lanes::{key_hash, lane_of};
pub use position::{LogPosition, SequenceNumber};
pub use prepared::{Prepared, PreparedSet};
pub use waiters::Waiters;
