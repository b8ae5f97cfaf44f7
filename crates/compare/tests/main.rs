//! What this crate offers, tested from outside: one program, a module each topic.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod mysql_client;
mod real_server;
mod stored_folders;
