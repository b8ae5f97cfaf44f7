//! The relay log on real files: what is written is read, a damaged folder is mended or refused.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing)]

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
