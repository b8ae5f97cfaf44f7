//! Text of statements: how its bytes are read.
//!
//! In: names of character sets, bits of `sql_mode`. Out: what they mean for a lexer. Never here: tables, values, I/O.
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used))]

pub mod client_text;
pub mod sql_mode;
