//! The relay log on real files: reads return what was written, a damaged folder is repaired or refused.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing)]

mod backup;
mod boundary;
mod common;
mod damage;
mod disk_full;
mod power;
mod power_cut;
mod purge;
mod readers;
mod recovery;
mod round_trip;
mod start;
mod sync;
mod tail;
