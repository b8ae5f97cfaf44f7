//! Allocations per row of each stage once it is warm.
//!
//! In: a log from a seed. Out: a figure for each stage, the same in every run. Never here: time, because counting takes
//! some.
//!
//! ```text
//! cargo run --release -p stage_benches --bin allocations                     as `make bench` shows them
//! cargo run --release -p stage_benches --bin allocations -- --transactions N another length of the run
//! ```

use std::alloc::System;

use anyhow::Context;
use clap::Parser;
use lab::synthesize::{SynthesizeOptions, synthesize};
use stage_benches::{WARM_INPUT, pass};
use stats_alloc::{INSTRUMENTED_SYSTEM, StatsAlloc};

#[global_allocator]
static ALLOCATOR: &StatsAlloc<System> = &INSTRUMENTED_SYSTEM;

#[derive(Debug, Parser)]
#[command(about = "Allocations a row of each stage once it is warm")]
struct Arguments {
    /// Transactions of the run: the first half warms up
    #[arg(long, default_value_t = WARM_INPUT.transactions)]
    transactions: u64,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

fn main() -> anyhow::Result<()> {
    let Arguments { transactions, json } = Arguments::parse();
    let folder = tempfile::tempdir().context("a temporary folder")?;
    synthesize(folder.path(), SynthesizeOptions { transactions, ..WARM_INPUT })?;
    let allocations = pass::warm::allocations(folder.path(), || {
        let stats = ALLOCATOR.stats();
        (stats.allocations + stats.reallocations) as u64
    })?;
    if json {
        println!("{}", serde_json::to_string(&allocations)?);
        return Ok(());
    }
    for stage in stage_benches::stages::ALL {
        let per_row = allocations.get(stage.name).copied().unwrap_or_default();
        println!("{:<12} {per_row:>9.4} per {}", stage.name, stage.unit);
    }
    Ok(())
}
