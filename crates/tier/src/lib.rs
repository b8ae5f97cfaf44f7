//! Statements that the source answers: which they are, and their answers on the way to the client.
//!
//! In: commands of a client, bytes of the source. Out: where a command is answered ([`Decision`]), bytes for the client
//! ([`Answer`]), and what its session has at the source meanwhile ([`AtSource`]). Never here: sockets, clocks, logins;
//! a row that is decoded, or held as a whole.
#![forbid(unsafe_code)]
#![warn(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used))]

mod answer;
mod at_source;
mod avoided;
mod decision;
mod not_served;
mod numbers;
mod ok;
mod sees;
mod user_locks;

use std::fmt;
use std::str::FromStr;

pub use answer::{Answer, Step, Told};
pub use at_source::AtSource;
pub use avoided::Avoided;
pub use decision::{Decision, Leaves, Sent, decide};
pub use not_served::{DigestCount, NotServed};
pub use numbers::{Numbers, statement_of};
pub use ok::Shown;
pub use sees::Sees;
pub use user_locks::UserLock;

/// Which statements of accounts with the right `forward` go to the source.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Forward {
    /// None of them does.
    #[default]
    Off,
    /// Those that are proved not to write.
    Reads,
    All,
}

impl FromStr for Forward {
    type Err = String;

    fn from_str(text: &str) -> Result<Forward, String> {
        match text.to_ascii_lowercase().as_str() {
            "off" => Ok(Forward::Off),
            "reads" => Ok(Forward::Reads),
            "all" => Ok(Forward::All),
            _ => Err(format!("'{text}' is neither off, reads nor all")),
        }
    }
}

impl fmt::Display for Forward {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Forward::Off => "off",
            Forward::Reads => "reads",
            Forward::All => "all",
        })
    }
}
