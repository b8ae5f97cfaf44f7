//! The crate's interface: statements beside MySQL's verdicts, trees beside their own text, what is said of
//! statements.
#![allow(clippy::unwrap_used)]

mod classified;
mod grammar;
mod printed;
mod verdicts;
