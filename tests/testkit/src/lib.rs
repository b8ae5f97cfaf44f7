//! What tests of several crates need: real servers, a scratch folder, programs run to their end, repeatable numbers,
//! logs written by hand or at random.
//!
//! In: names, options, seeds. Out: servers that end when their value is dropped, or when this process ends, however it
//! ends; logs, and what they mean. Never here: an assertion about the product, a dependency of the product on this crate.
#![allow(clippy::unwrap_used, clippy::expect_used)]

pub mod group;
pub mod history;
pub mod log;
pub mod process;
pub mod raw_client;
pub mod scratch;
pub mod server;
#[cfg(feature = "decode")]
pub mod stamps;
#[cfg(feature = "store")]
pub mod visible;

use std::io::Write as _;
use std::path::Path;

pub use base::Random;
pub use group::Group;
pub use process::{Ran, run_with_input};
pub use raw_client::RawClient;
pub use scratch::scratch;
pub use server::{Server, servers};

/// The repository's root.
#[must_use]
pub fn repository() -> &'static Path {
    Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap()
}

/// Says that the test that runs proves nothing here, and why; `make test` counts it.
///
/// # Panics
/// The file that SLIPSTREAM_TESTS_SKIPPED names cannot be written.
pub fn skipped(why: &str) {
    eprintln!("skipped: {why}");
    if let Some(file) = std::env::var_os("SLIPSTREAM_TESTS_SKIPPED") {
        let mut file = std::fs::File::options().create(true).append(true).open(file).unwrap();
        file.write_all(format!("{}\n", why.replace('\n', " ")).as_bytes()).unwrap();
    }
}

/// True in `make night` and `make soak`, which try every case (SLIPSTREAM_TEST_LENGTH=night, =soak); false in the gate.
#[must_use]
pub fn all_cases() -> bool {
    matches!(std::env::var("SLIPSTREAM_TEST_LENGTH").as_deref(), Ok("night" | "soak"))
}

/// Cases of one kind: each n-th of them in the gate, always the same, and all where [`all_cases`] run.
pub fn share<T>(cases: impl IntoIterator<Item = T>, one_in: usize) -> impl Iterator<Item = T> {
    cases.into_iter().step_by(if all_cases() { 1 } else { one_in })
}

/// Seeds that a test tries; `SLIPSTREAM_SEEDS` multiplies their number for a long run.
#[must_use]
pub fn seeds(few: u64) -> std::ops::Range<u64> {
    let times = std::env::var("SLIPSTREAM_SEEDS").ok().and_then(|text| text.parse::<u64>().ok()).unwrap_or(1);
    0..few * times
}
