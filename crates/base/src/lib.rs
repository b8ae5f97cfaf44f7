//! Identities, limits and thread primitives that every stage shares.
//!
//! In: text and bytes that name transactions and places in a log. Out: small typed values (`Gtid`, `GtidSet`,
//! `LogPosition`, `SequenceNumber`), the project's limits, a map whose versions share what did not change
//! ([`SharedMap`]), and the means by which threads hand over work and wake each other ([`queue`],
//! [`CountedCondvar`]). Never here: I/O (except for opening files where other users may write, [`own_files`]), MySQL
//! event formats, threads (except for starting one on the CPUs allowed to it, [`ThreadAffinity`]).
// Denied, not forbidden, because `allocator` and `locked` call libc.
#![deny(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used))]

pub mod fail_points;
mod gtid;
mod gtid_set;
mod integers;
mod lanes;
pub mod limits;
pub mod locked;
pub mod own_files;
pub mod periods;
mod position;
mod prepared;
mod random;
pub mod shared_map;
mod sync;
mod threads;
pub mod units;
mod until;

pub use gtid::{Gtid, GtidError, Tag, Uuid};
pub use gtid_set::{GtidSet, Interval};
pub use integers::to_usize;
pub use lanes::{key_hash, lane_of};
pub use position::{LogPosition, SequenceNumber};
pub use prepared::{Prepared, PreparedSet};
pub use random::Random;
pub use shared_map::SharedMap;
pub use threads::{
    Buffer, BufferPool, Countdown, CountedCondvar, ThreadAffinity, affinity, allocator, priority, queue,
};
pub use until::{UntilGtids, UntilStep};
