//! The program: command line, options, control socket, log lines, and the engine's life: start, stop, restart.
//!
//! In: arguments, option files, signals, requests on the control socket. Out: a running replica, text for the user,
//! JSON for scripts, an exit code. Never here: receiving, replay, rows.
#![forbid(unsafe_code)]
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used))]

mod account;
mod backup;
mod cli;
mod control;
mod dump_folder;
mod ended;
#[cfg(test)]
mod interface;
pub mod lab;
mod log_file;
mod manual;
pub mod option_file;
mod option_groups;
mod option_values;
mod options;
mod password;
mod reading;
#[cfg(test)]
mod reference;
mod relay;
mod relay_check;
mod relay_hold;
mod relay_orders;
mod requests;
pub mod run;
pub mod settings;
mod shadow;
mod signals;
mod watch;
