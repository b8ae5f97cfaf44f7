//! The protocol as steps, without I/O: what to send, and what a packet means for the exchange that it is part of.
//!
//! In: payloads of a server, in order. Out: payloads to send, and whether more are to come. Never here: a socket, a
//! clock, the framing of packets, a value of a row. [`Connection`](crate::Connection) drives both by blocking reads; a
//! caller with an event loop drives them itself.

mod answer;
mod login;
#[cfg(test)]
mod tests;

pub use answer::AnswerSteps;
pub use login::{LoginStep, LoginSteps};
