//! What this crate offers, tested from outside: one program, a module each topic.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod as_mysql;
mod constants;
mod cost;
mod forward;
mod forward_login;
mod hostile;
mod hostile_rates;
mod listings;
mod memory;
mod sessions;
mod shows;
mod support;
mod waits;
mod warnings;
