//! Seeded simulation: source, relay log, pipeline, store and readers, stepped in one thread over a disk that fails and
//! loses its power.
//!
//! In: a seed. Out: whether every visible state was a prefix of the source's history, through crashes, power cuts and
//! failing calls, and the command that runs a failing seed again. Never here: stages of its own, time as an input, a
//! wait. The steps are those of `relay_log`'s intake, writer, syncer and reader, and of the stages in `apply::stages`
//! that ship; only the driver that gives them threads is left out.
//!
//! One *life* of the replica is one process (`simulation life`), because the power-cut shim follows a process: a crash
//! is SIGKILL between two steps or between two system calls, so nothing ends cleanly by accident. The shim
//! (`power_cut`) records every change and sync, and makes calls fail by plan. Its model builds the folder that a power
//! cut would have left. [`seed::run`] leads a seed through its lives.
#![allow(clippy::unwrap_used, clippy::expect_used)]

pub mod life;
pub mod replica;
pub mod seed;
pub mod source;
