//! What this crate offers, tested from outside: one program, a module each topic.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod grain;
mod replay;
mod setup;
