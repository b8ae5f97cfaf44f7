//! Compaction: which runs are merged when, how, and what is left out of them.

pub(crate) mod filter;
pub(crate) mod policy;
pub(crate) mod room;
mod step;
pub(crate) mod writes;
