//! `lab compare`: replays the same log alternately, on the same machine and in the same run, with ours, with MySQL's
//! own applier in three settings, with `mysqlbinlog | mysql`, and with the copy limit.
//!
//! In: logs, and the location of MySQL's programs. Out: one row per contender with medians, ratios and properties (what
//! is synced, who can read); whether all ended with the same rows. Never here: a figure of a contender whose result was
//! not compared.
//!
//! Ours runs in a process of its own (`lab replay`), as the others do. MySQL's applier gets the log's files as its
//! relay log: that is how it replays a file.

mod contenders;
pub(crate) mod logs;
mod report;
mod runs;

use std::path::PathBuf;
use std::sync::atomic::AtomicBool;

use anyhow::{Context, Result, bail, ensure};
use clap::Args;

pub use contenders::Traits;
pub use report::{CompareReport, LogFacts, Row};

use crate::contenders::Contender as Who;
use crate::servers::{NO_MYSQLD, Programs};
pub(crate) use contenders::Contender;
use contenders::{How, contenders};
use replay::conditions::Conditions;
use replay::turns::{Interval, median, ratios, turns};
use runs::Synced;
pub(crate) use runs::{Bench, Sample};

/// Options of `lab compare`.
#[derive(Debug, Clone, Args)]
pub struct CompareArgs {
    /// Binlog files, or index files that list them, in order
    #[arg(required = true, value_name = "LOG")]
    pub logs: Vec<PathBuf>,
    /// Binlog or index file to replay before the measured ones, untimed (a load phase); may be repeated
    #[arg(long, value_name = "LOG")]
    pub load: Vec<PathBuf>,
    /// Rounds; each runs every contender once, every second one in the other order; medians are taken, from six on also
    /// the intervals of ratios by the sign test
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=99))]
    pub rounds: u32,
    /// A contender in place of the usual ones: a name that begins with mysql or slipstream, and the options of MySQL's
    /// applier or of lab replay, CPUS=LIST and (of MySQL) LD_PRELOAD=FILE among them; may be repeated
    #[arg(long, value_name = "NAME:OPTIONS")]
    pub contender: Vec<Who>,
    /// Only contenders whose names contain this; may be repeated
    #[arg(long, value_name = "TEXT")]
    pub only: Vec<String>,
    /// MySQL's appliers replay only the first N transactions, `mysqlbinlog | mysql` too [default: all; a tenth for the
    /// latter]; their seconds are scaled, and marked
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub first: Option<u64>,
    /// Also run ours on disk with this much memory (as lab replay --memory)
    #[arg(long, value_name = "SIZE")]
    pub memory: Option<String>,
    /// Folder with mysqld [default: SLIPSTREAM_TEST_MYSQLD, PATH, the testbed's]; clients are expected beside it
    #[arg(long, value_name = "DIR")]
    pub mysqld_bin: Option<PathBuf>,
    /// innodb_buffer_pool_size of every stock server; warm when the clock starts [default: 1G]
    #[arg(long, value_name = "SIZE", default_value = "1G")]
    pub buffer_pool: String,
    /// replica_parallel_workers of the contender that differs from MySQL's defaults in nothing else
    #[arg(long, alias = "durable-workers", value_name = "N", default_value_t = 16,
          value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub workers: u32,
    /// replica_parallel_workers of the relaxed setting
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub relaxed_workers: u32,
    /// Another mysqld option for every stock server, as --mysqld-option=--innodb-io-capacity=2000; may be repeated
    #[arg(long, value_name = "OPTION", allow_hyphen_values = true)]
    pub mysqld_option: Vec<String>,
    /// New folder for servers and logs, removed afterwards [default: a temporary one in TMPDIR]
    #[arg(long, value_name = "DIR")]
    pub folder: Option<PathBuf>,
    /// Print the result as JSON
    #[arg(long)]
    pub json: bool,
}

impl CompareArgs {
    /// The defaults, over these logs.
    pub(crate) fn over(logs: Vec<PathBuf>) -> CompareArgs {
        CompareArgs {
            logs,
            load: Vec::new(),
            rounds: 1,
            contender: Vec::new(),
            only: Vec::new(),
            first: None,
            memory: None,
            mysqld_bin: None,
            buffer_pool: "1G".into(),
            workers: 16,
            relaxed_workers: 4,
            mysqld_option: Vec::new(),
            folder: None,
            json: false,
        }
    }
}

/// `mysqlbinlog | mysql` replays one part in this many of the log: all of it takes minutes.
const PART: u64 = 10;

/// Runs all contenders in turn. `told` receives a line for each run. Ends early, with an error, once `stop` is raised.
///
/// # Errors
/// A log cannot be read, a replay stops or a server does not start. Differing results are in the report.
pub fn compare(args: &CompareArgs, stop: &AtomicBool, told: &mut dyn FnMut(&str)) -> Result<CompareReport> {
    let programs = Programs::find(args.mysqld_bin.as_deref())?;
    let contenders = contenders(args, programs.is_some());
    if contenders.is_empty() {
        bail!("no contender has such a name{}", if programs.is_some() { "" } else { ", and there is no mysqld" });
    }
    let mut left_out = Vec::new();
    if programs.is_none() {
        left_out.push(format!("everything of MySQL: {NO_MYSQLD}"));
    }
    let mut conditions = Conditions::begin();
    let mut bench = Bench::new(args, programs.as_ref(), stop)?;
    // Ours replays the log first, untimed: this gives the expected result and the log's content, and warms the page
    // cache.
    told("our replay of the log, for its hash");
    let log = bench.reference(false)?;
    let with_part = contenders.iter().any(|contender| contender.first_part);
    let first_part = match with_part {
        true => {
            bench.cut_first_part(args.first.unwrap_or(log.transactions / PART).clamp(1, log.transactions.max(1)))?;
            // A first part as large as the log is not used.
            Some(bench.reference(true)?).filter(|part| part.bytes < log.bytes)
        }
        false => None,
    };
    if contenders.iter().any(|contender| matches!(contender.how, How::Applier | How::Client)) {
        told("a stock server replays the load");
        bench.load_stock()?;
    }
    let mut samples: Vec<Vec<Sample>> = contenders.iter().map(|_| Vec::new()).collect();
    for round in 0..args.rounds {
        for (contender, samples) in turns(contenders.iter().zip(&mut samples), round) {
            let sample = bench.run(contender).with_context(|| contender.who.name.clone())?;
            told(&format!("{}/{} {}: {:.3} s", round + 1, args.rounds, contender.who.name, sample.wall_s));
            samples.push(sample);
        }
    }
    conditions.end();
    let mut report = CompareReport {
        rows: Vec::new(),
        log,
        first_part,
        left_out,
        rounds: args.rounds,
        mysql_version: programs.as_ref().map(Programs::version).transpose()?,
        mysql_common: bench.common_options().join(" "),
        conditions,
    };
    for (contender, samples) in contenders.iter().zip(samples) {
        let row = row(contender, &samples, &report)?;
        report.rows.push(row);
    }
    let ours = report.rows.iter().zip(&contenders).find(|(_, one)| one.how == How::Replay);
    if let Some((median_s, wall_s)) = ours.map(|(row, _)| (row.median_s, row.wall_s.clone())) {
        for row in &mut report.rows {
            row.times_ours = Some(row.median_s / median_s.max(f64::MIN_POSITIVE));
            // A part's seconds are scaled as their median is.
            let scale = row.median_s / median(&row.wall_s).max(f64::MIN_POSITIVE);
            let seconds: Vec<f64> = row.wall_s.iter().map(|seconds| seconds * scale).collect();
            row.times_ours_interval = Interval::of(&ratios(&seconds, &wall_s));
        }
    }
    bench.remove()?;
    Ok(report)
}

fn row(contender: &Contender, samples: &[Sample], report: &CompareReport) -> Result<Row> {
    ensure!(!samples.is_empty(), "no run of {}", contender.who.name);
    let part = report.first_part.as_ref().filter(|_| contender.first_part);
    let facts = part.unwrap_or(&report.log);
    let wall_s: Vec<f64> = samples.iter().map(|sample| sample.wall_s).collect();
    let seconds = median(&wall_s);
    let rate = |amount: u64| amount as f64 / seconds.max(f64::MIN_POSITIVE);
    Ok(Row {
        contender: contender.who.name.clone(),
        settings: samples.iter().find_map(|sample| sample.settings.clone()).unwrap_or_default(),
        first_transactions: part.map(|part| part.transactions),
        median_s: seconds * report.log.bytes as f64 / facts.bytes.max(1) as f64,
        wall_s,
        write_transactions_per_s: rate(facts.write_transactions),
        rows_per_s: rate(facts.rows),
        mb_per_s: rate(facts.bytes) / 1e6,
        times_ours: None,
        times_ours_interval: None,
        cpu_s: median(&samples.iter().map(|sample| sample.cpu_s).collect::<Vec<_>>()),
        peak_rss_bytes: samples.iter().map(|sample| sample.peak_rss_bytes).max().unwrap_or(0),
        traits: match samples.iter().find_map(|sample| sample.synced.clone()) {
            Some(Synced { log, store }) => {
                Traits { log_synced: log.into(), store_synced: store.into(), ..contender.traits.clone() }
            }
            None => contender.traits.clone(),
        },
        difference: samples.iter().find_map(|sample| sample.difference.clone()),
    })
}
