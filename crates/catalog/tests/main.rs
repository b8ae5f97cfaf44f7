//! What this crate offers, tested from outside: one program, a module each topic.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod alter_copies;
mod alter_names;
mod corpus;
mod definitions;
mod hostile;
mod statements;
mod stored_names;
