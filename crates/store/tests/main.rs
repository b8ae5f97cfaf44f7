//! What this crate offers, tested from outside: one program, a module each topic.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod copies;
mod deltas;
mod disk;
mod drift;
mod index_readers;
mod indexes;
mod snapshots;
mod tree_faults;
mod tree_patch;
