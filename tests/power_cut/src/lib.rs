//! Power cuts for a real process: what would be on disk if the power had failed at any moment.
//!
//! In: a process started with the shim (`power_cut_shim`), which writes a journal of its changes and syncs; a seed.
//! Out: the traced folder as a power cut could have left it. Never here: bytes or names kept that were not durable,
//! unless the seed chose so; a change missing from the journal ([`PowerCut::cut`] compares it with the folder).
//!
//! kill -9 alone proves nothing about durability: the page cache survives it (invariant 13).
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod disk;
pub mod journal;
mod model;

pub use disk::{Cut, PowerCut, shim_library};
