//! HTTP for those who watch a replica: `/metrics`, `/health`, and a page for people.
//!
//! In: status reports, accounts, a token. Out: text over HTTP/1.1, over TLS where the address is not loopback. Never
//! here: a key value, a statement's text, a change of anything; work on a thread of replay's.
#![forbid(unsafe_code)]
#![warn(clippy::cast_possible_truncation, clippy::cast_sign_loss)]
#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used))]

mod answer;
mod metrics;
mod places;
mod server;
mod shown;
mod token;

use observe::{ErrorReport, HistoryReport, LagHistograms, StatusReport};

pub use server::{Web, WebConfig};
pub use token::Token;

pub trait Watched: Send + Sync + 'static {
    /// Its report now; may take a moment.
    fn report(&self) -> StatusReport;

    /// Lag of all transactions since the engine's start; None without an engine.
    fn lags(&self) -> Option<LagHistograms>;

    /// What the last 24 hours were like.
    fn history(&self) -> HistoryReport;

    /// What kind of error it is, in words, without anything of its text.
    fn error_words(&self, error: &ErrorReport) -> String;
}
