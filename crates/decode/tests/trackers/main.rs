//! Dependency trackers against an oracle that knows what every transaction touches: never independent where conflicting in
//! truth. Faults are planted in what the tracker is told: the oracle must notice each.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod author;
mod oracle;
mod recorded;
mod rules;
mod stamps;
