//! The pipeline against a serial model: random histories, every number of threads, planted faults.
#![allow(clippy::unwrap_used, clippy::expect_used)]
// Files here are shared with other test crates by path, where their items are public.
#![allow(unreachable_pub)]

mod cuts;
mod failure;
mod front;
mod hold;
mod kit;
mod run;
mod serial;
mod shutdown;
mod stages;
