//! What this crate offers, tested from outside: one program, a module each topic.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod clients;
mod real_server;
mod source_grants;
mod support;
