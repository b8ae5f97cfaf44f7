//! What this crate offers, tested from outside: one program, a module each topic.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod against_server;
mod both_decoders;
mod collation_weights;
mod common;
mod conversions_server;
mod dates;
mod oracle;
mod single_byte_charsets;
mod sort_key_server;
