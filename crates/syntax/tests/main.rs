//! The crate's interface: statements compared with MySQL's verdicts, trees with their own text, and
//! the classification of statements.
#![allow(clippy::unwrap_used)]

mod classified;
mod grammar;
mod printed;
mod verdicts;
