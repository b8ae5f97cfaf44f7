//! Benchmarks of the stages, one after another in one thread, with instruction counts.
//!
//! In: a log from a seed (`lab::synthesize`). Out: for each stage instructions, nanoseconds and allocations per row,
//! and a hash of its result; instructions and allocations beside those of `baseline.json`. Never here: a time that is
//! compared with anything, because the next run's machine is another.
//!
//! valgrind's callgrind counts the instructions. It needs no performance counters of the kernel and counts the same on
//! a loaded machine. Allocations are counted over a longer log, whose first half only warms up (`pass/warm.rs`).
//! Without valgrind there are only times and allocations, and the table says so.
//!
//! ```text
//! cargo run --release -p stage_benches                     the table, compared with benches/baseline.json
//! cargo run --release -p stage_benches -- --write-baseline a new baseline
//! ```

mod callgrind;
mod report;

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Stdio};

use anyhow::Context;
use clap::Parser;
use lab::synthesize::synthesize;

use report::{Baseline, Report};
use stage_benches::{INPUT, pass};

#[derive(Debug, Parser)]
#[command(about = "Benchmarks of the stages: instructions and nanoseconds a row")]
struct Arguments {
    /// Instructions of an earlier run to compare with
    #[arg(long, value_name = "FILE", default_value = concat!(env!("CARGO_MANIFEST_DIR"), "/baseline.json"))]
    baseline: PathBuf,
    /// Write the baseline instead of comparing with it
    #[arg(long)]
    write_baseline: bool,
    /// Number of passes; times are their minimum
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=1000))]
    passes: u32,
    /// One pass over the logs in this folder, as JSON: what runs under callgrind
    #[arg(long, value_name = "DIR", hide = true)]
    pass: Option<PathBuf>,
    /// Print the result as JSON
    #[arg(long)]
    json: bool,
}

fn main() -> anyhow::Result<ExitCode> {
    let arguments = Arguments::parse();
    if let Some(folder) = &arguments.pass {
        println!("{}", serde_json::to_string(&pass::pass(folder)?)?);
        return Ok(ExitCode::SUCCESS);
    }
    let folder = tempfile::tempdir().context("a temporary folder")?;
    synthesize(folder.path(), INPUT)?;
    let report = measure(folder.path(), arguments.passes)?;
    if arguments.write_baseline {
        let text = serde_json::to_string_pretty(&report.baseline()?)?;
        std::fs::write(&arguments.baseline, text + "\n")
            .with_context(|| format!("cannot write {}", arguments.baseline.display()))?;
        println!("{report}");
        return Ok(ExitCode::SUCCESS);
    }
    let compared = report.compare(Baseline::read(&arguments.baseline)?.as_ref());
    if arguments.json {
        println!("{}", serde_json::to_string_pretty(&compared)?);
    } else {
        println!("{compared}");
    }
    Ok(if compared.is_worse() { ExitCode::FAILURE } else { ExitCode::SUCCESS })
}

fn measure(logs: &Path, passes: u32) -> anyhow::Result<Report> {
    let mut figures = pass::pass(logs)?;
    for _ in 1..passes {
        for (best, one) in figures.iter_mut().zip(pass::pass(logs)?) {
            anyhow::ensure!(best.hash == one.hash, "{}: two passes over one log, two results", best.stage);
            best.ns = best.ns.min(one.ns);
        }
    }
    let instructions = callgrind::count(logs, &figures)?;
    Ok(Report::new(figures, instructions, allocations()?))
}

/// Allocations per row by stage, from the program beside this one: counting must not add to the instructions counted
/// here. None if this one was not started by cargo, which builds the other one to match.
fn allocations() -> anyhow::Result<Option<BTreeMap<String, f64>>> {
    let Some(cargo) = std::env::var_os("CARGO") else { return Ok(None) };
    let profile: &[&str] = if cfg!(debug_assertions) { &[] } else { &["--release"] };
    let mut command = Command::new(cargo);
    // cargo's variables for this package would make dependencies' build scripts run again, and rebuild what follows.
    for (name, _) in std::env::vars_os() {
        if name.to_str().is_some_and(|name| name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_")) {
            command.env_remove(name);
        }
    }
    let output = command
        .args(["run", "--quiet", "--locked", "--package", env!("CARGO_PKG_NAME"), "--bin", "allocations"])
        .args(profile)
        .args(["--", "--json"])
        .current_dir(env!("CARGO_MANIFEST_DIR"))
        .stderr(Stdio::inherit())
        .output()
        .context("cannot start cargo")?;
    anyhow::ensure!(output.status.success(), "allocations could not be counted");
    serde_json::from_slice(&output.stdout).map(Some).context("what the program that counts allocations printed")
}
