//! `lab compare`: the same log, on the same machine, in the same run, by turns: ours, MySQL's own applier in three
//! settings, `mysqlbinlog | mysql`, and the copy limit.
//!
//! In: logs, and where MySQL's programs are. Out: one row for each contender with medians, ratios and what is true of it
//! (what is synced, who can read); whether all ended with the same rows. Never here: a figure of a contender whose result
//! was not compared.
//!
//! Ours runs as a process of its own (`lab replay`), as the others do. MySQL's applier gets the log's files as its relay
//! log: that is how a file is replayed with it.

mod contenders;
mod logs;
mod report;
mod runs;
pub mod servers;

use std::path::PathBuf;
use std::sync::atomic::AtomicBool;

use anyhow::{Context, Result, bail, ensure};
use clap::Args;

pub use contenders::Traits;
pub use report::{CompareReport, LogFacts, Row};

use crate::ablation::median;
use contenders::{Contender, How, contenders};
use runs::{Bench, Sample};
use servers::Programs;

/// Options of `lab compare`.
#[derive(Debug, Clone, Args)]
pub struct CompareArgs {
    /// Binlog files, or index files that list them, in order
    #[arg(required = true, value_name = "LOG")]
    pub logs: Vec<PathBuf>,
    /// Binlog or index file to replay before the measured ones, untimed (a load phase); may be repeated
    #[arg(long, value_name = "LOG")]
    pub load: Vec<PathBuf>,
    /// Rounds, the contenders by turns in each; medians are taken
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=99))]
    pub rounds: u32,
    /// Only contenders whose names hold this; may be repeated
    #[arg(long, value_name = "TEXT")]
    pub only: Vec<String>,
    /// MySQL's appliers replay the first N transactions only, `mysqlbinlog | mysql` too [default: all of it; that one a
    /// tenth]; their seconds are scaled, and marked
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub first: Option<u64>,
    /// Ours on disk too, with this much memory (as lab replay --memory)
    #[arg(long, value_name = "SIZE")]
    pub memory: Option<String>,
    /// Folder with mysqld [default: SLIPSTREAM_TEST_MYSQLD, PATH, the testbed's]; clients are looked for beside it
    #[arg(long, value_name = "DIR")]
    pub mysqld_bin: Option<PathBuf>,
    /// innodb_buffer_pool_size of every stock server; it is warm when the clock starts [default: 1G]
    #[arg(long, value_name = "SIZE", default_value = "1G")]
    pub buffer_pool: String,
    /// replica_parallel_workers of the durable setting
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub durable_workers: u32,
    /// replica_parallel_workers of the relaxed setting
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub relaxed_workers: u32,
    /// One more mysqld option for every stock server, as --mysqld-option=--innodb-io-capacity=2000; may be repeated
    #[arg(long, value_name = "OPTION", allow_hyphen_values = true)]
    pub mysqld_option: Vec<String>,
    /// New folder for servers and logs, removed afterwards [default: a temporary one in TMPDIR]
    #[arg(long, value_name = "DIR")]
    pub folder: Option<PathBuf>,
    /// Print the result as JSON
    #[arg(long)]
    pub json: bool,
}

/// The tenth of the log that `mysqlbinlog | mysql` replays: it takes minutes for all of it.
const PART: u64 = 10;

/// Runs all contenders by turns; `told` gets a line for each run. Ends early, with an error, when `stop` is raised.
///
/// # Errors
/// When a log cannot be read, a replay stops or a server does not start. What differs at the end is in the report.
pub fn compare(args: &CompareArgs, stop: &AtomicBool, told: &mut dyn FnMut(&str)) -> Result<CompareReport> {
    let programs = Programs::find(args.mysqld_bin.as_deref())?;
    let contenders = contenders(args, programs.is_some());
    if contenders.is_empty() {
        bail!("no contender has such a name{}", if programs.is_some() { "" } else { ", and there is no mysqld" });
    }
    let mut left_out = Vec::new();
    if programs.is_none() {
        left_out.push(
            "everything of MySQL: no mysqld on PATH, in SLIPSTREAM_TEST_MYSQLD or in the testbed (--mysqld-bin DIR)"
                .into(),
        );
    }
    let load_before = load_average();
    let mut bench = Bench::new(args, programs.as_ref(), stop)?;
    // The same log through ours first: what must come out, and what is in it. Untimed; the log is in the page cache then.
    told("our replay of the log, for its hash");
    let log = bench.reference(false)?;
    let with_part = contenders.iter().any(|contender| contender.first_part);
    let first_part = match with_part {
        true => {
            bench.cut_first_part(args.first.unwrap_or(log.transactions / PART).clamp(1, log.transactions.max(1)))?;
            // A part that is all of it is no part.
            Some(bench.reference(true)?).filter(|part| part.bytes < log.bytes)
        }
        false => None,
    };
    if contenders.iter().any(|contender| matches!(contender.how, How::Applier(_) | How::Client(_))) {
        told("a stock server replays the load");
        bench.load_stock()?;
    }
    let mut samples: Vec<Vec<Sample>> = contenders.iter().map(|_| Vec::new()).collect();
    for round in 1..=args.rounds {
        for (contender, samples) in contenders.iter().zip(&mut samples) {
            let sample = bench.run(contender).with_context(|| contender.name.clone())?;
            told(&format!("{round}/{} {}: {:.3} s", args.rounds, contender.name, sample.wall_s));
            samples.push(sample);
        }
    }
    let mut report = CompareReport {
        rows: Vec::new(),
        log,
        first_part,
        left_out,
        rounds: args.rounds,
        mysql_version: programs.as_ref().map(Programs::version).transpose()?,
        mysql_common: bench.common_options().join(" "),
        machine: crate::replay::machine(),
        load_average: [load_before, load_average()],
    };
    for (contender, samples) in contenders.iter().zip(samples) {
        let row = row(contender, &samples, &report)?;
        report.rows.push(row);
    }
    let ours = report.rows.iter().zip(&contenders).find(|(_, one)| matches!(one.how, How::Slipstream(_)));
    let ours_s = ours.map(|(row, _)| row.median_s);
    for row in &mut report.rows {
        row.times_ours = ours_s.map(|ours_s| row.median_s / ours_s.max(f64::MIN_POSITIVE));
    }
    bench.remove()?;
    Ok(report)
}

fn row(contender: &Contender, samples: &[Sample], report: &CompareReport) -> Result<Row> {
    ensure!(!samples.is_empty(), "no run of {}", contender.name);
    let part = report.first_part.as_ref().filter(|_| contender.first_part);
    let facts = part.unwrap_or(&report.log);
    let wall_s: Vec<f64> = samples.iter().map(|sample| sample.wall_s).collect();
    let seconds = median(&mut wall_s.clone());
    let rate = |amount: u64| amount as f64 / seconds.max(f64::MIN_POSITIVE);
    Ok(Row {
        contender: contender.name.clone(),
        settings: samples.iter().find_map(|sample| sample.settings.clone()).unwrap_or(contender.settings.clone()),
        first_transactions: part.map(|part| part.transactions),
        median_s: seconds * report.log.bytes as f64 / facts.bytes.max(1) as f64,
        wall_s,
        write_transactions_per_s: rate(facts.write_transactions),
        rows_per_s: rate(facts.rows),
        mb_per_s: rate(facts.bytes) / 1e6,
        times_ours: None,
        cpu_s: median(&mut samples.iter().map(|sample| sample.cpu_s).collect::<Vec<_>>()),
        peak_rss_bytes: samples.iter().map(|sample| sample.peak_rss_bytes).max().unwrap_or(0),
        traits: contender.traits,
        difference: samples.iter().find_map(|sample| sample.difference.clone()),
    })
}

fn load_average() -> String {
    let text = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    text.split_whitespace().next().unwrap_or("?").to_owned()
}
