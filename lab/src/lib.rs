//! The laboratory: workloads, recordings and experiments around the pipeline.
//!
//! In: a server's address, or recorded logs. Out: load, files, measured figures. Never here: anything a replica needs
//! to do its work.
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used))]

pub mod balance;
pub mod cli;
pub mod clocks;
pub mod compare;
pub mod contenders;
mod delay;
mod duration;
pub mod figures;
pub mod generate;
mod group;
pub mod hash;
mod log_files;
pub mod log_source;
mod ourselves;
pub mod read;
pub mod receive;
pub mod record;
mod reported;
pub mod restamp;
pub mod serve_bench;
pub mod servers;
pub mod shapes;
mod stacks;
pub mod synthesize;
pub mod tpcc;
