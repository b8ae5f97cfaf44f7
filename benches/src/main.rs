//! Benchmarks of the stages, one behind the other in one thread, with instruction counts.
//!
//! In: a log from a seed (`lab::synthesize`). Out: for each stage instructions and nanoseconds a row, and a hash of what
//! it made; instructions beside those of `baseline.json`. Never here: time compared with anything, since the next run's
//! machine is another.
//!
//! Instructions are counted by valgrind's callgrind, which needs no performance counters of the kernel and counts the
//! same on a loaded machine. Without valgrind times are all there is, and the table says so.
//!
//! ```text
//! cargo run --release -p stage_benches                     the table, compared with benches/baseline.json
//! cargo run --release -p stage_benches -- --write-baseline the baseline anew
//! ```

mod callgrind;
mod pass;
mod report;
mod stages;

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use anyhow::Context;
use clap::Parser;
use lab::synthesize::{SynthesizeOptions, synthesize};

use report::{Baseline, Report};

/// Row changes enough that what a stage does once does not show, few enough for callgrind, which is 50 times slower.
const INPUT: SynthesizeOptions =
    SynthesizeOptions { seed: 20_260_101, warehouses: 1, items: 1000, customers: 60, transactions: 2000 };

#[derive(Debug, Parser)]
#[command(about = "Benchmarks of the stages: instructions and nanoseconds a row")]
struct Arguments {
    /// Instructions of an earlier run to compare with
    #[arg(long, value_name = "FILE", default_value = concat!(env!("CARGO_MANIFEST_DIR"), "/baseline.json"))]
    baseline: PathBuf,
    /// Write the baseline instead of comparing with it
    #[arg(long)]
    write_baseline: bool,
    /// Times are the smallest of so many passes
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=1000))]
    passes: u32,
    /// One pass over the logs in this folder, as JSON: what is run under callgrind
    #[arg(long, value_name = "DIR", hide = true)]
    pass: Option<PathBuf>,
    /// The result as JSON
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
    Ok(Report::new(figures, instructions))
}
