//! The program: command line, configuration, the data folder and its socket, wiring of the stages.
//!
//! In: arguments, option files, signals, requests on the control socket. Out: a running replica, text for people, JSON
//! for scripts, an exit code. Never here: anything of the log's format, of rows, or of the wire.
#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used))]

pub mod access;
pub mod cli;
pub mod config;
pub mod control;
mod due_copies;
pub mod exit;
mod failure;
pub mod folder;
mod initial_copy;
mod lab_replay;
pub mod lock;
pub mod log;
mod log_code;
mod memory;
mod open;
pub mod option_file;
mod password;
mod read_only;
mod reading;
mod receiver;
mod receiver_status;
mod relay_purge;
pub mod replica;
mod requests;
pub mod run;
pub mod settings;
pub mod signals;
pub mod skip;
mod status;
pub mod table_copy;
pub mod units;
pub mod watch;
