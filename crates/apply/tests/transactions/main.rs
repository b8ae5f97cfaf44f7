//! The grain of transactions against the serial model: every tracker, every mode, 1 to 16 workers.
#![allow(clippy::unwrap_used, clippy::expect_used)]
// Files here are shared with other test crates by path, where their items are public.
#![allow(unreachable_pub)]

#[allow(dead_code, reason = "shared with the rows grain's tests")]
#[path = "../pipeline/kit.rs"]
mod kit;
#[allow(dead_code, reason = "shared with the rows grain's tests")]
#[path = "../pipeline/run.rs"]
mod run;
#[allow(dead_code, reason = "shared with the trackers' tests")]
#[path = "../../../decode/tests/trackers/stamps.rs"]
mod stamps;

mod equivalence;
mod transfers;
