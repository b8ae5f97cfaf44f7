//! What tests of several crates need: real servers, a scratch folder, programs run to their end, repeatable numbers.
//!
//! In: names and options. Out: servers that end when their value is dropped, or when this process ends, however it ends.
//! Never here: an assertion about the product, a dependency of the product on this crate.
#![allow(clippy::unwrap_used, clippy::expect_used)]

pub mod process;
pub mod scratch;
pub mod server;

use std::path::Path;

pub use base::Random;
pub use process::{Ran, run_with_input};
pub use scratch::scratch;
pub use server::{Server, servers};

/// The repository's root.
#[must_use]
pub fn repository() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap()
}
