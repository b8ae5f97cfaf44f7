//! `lab clocks`: one load, recorded with few clients and poor clocks, at stock replicas: as its source stamped it, as
//! a relay between them stamps it, and beside the same load recorded with many clients and WRITESET.
//!
//! In: the location of MySQL's programs; sysbench and a C compiler on PATH. Out: for every log, time to apply it, by
//! number of workers and by what a sync costs; retries. Never here: a figure of a replica whose rows were not compared
//! with its source's, time in which the log was still being received (but for `--put-in-between`).

mod logs;
mod report;
mod runs;

use std::path::PathBuf;
use std::sync::atomic::AtomicBool;

use anyhow::{Context, Result, ensure};
use clap::Args;
use replay::turns::turns;

pub(crate) use report::SPEED;
pub use report::{ClocksReport, Line, Recorded};

use crate::ourselves;
use crate::restamp::RestampTracking;
use crate::serve_bench::word;
use crate::servers::{NO_MYSQLD, Programs};
use logs::Bench;

/// Options of `lab clocks`.
#[derive(Debug, Clone, Args)]
pub struct ClocksArgs {
    /// sysbench's test that is recorded, or tpcc
    #[arg(long, value_name = "NAME", default_value = "oltp_write_only")]
    pub workload: String,
    /// Tables of sysbench's test; warehouses of tpcc
    #[arg(long, default_value_t = 8, value_parser = clap::value_parser!(u32).range(1..=1_000))]
    pub tables: u32,
    /// Rows of each of sysbench's tables
    #[arg(long, default_value_t = 20_000, value_parser = clap::value_parser!(u32).range(100..=100_000_000))]
    pub rows: u32,
    /// Transactions of each recording
    #[arg(long, default_value_t = 5_000, value_parser = clap::value_parser!(u64).range(10..))]
    pub transactions: u64,
    /// Numbers of clients to record with, the source remembering no writesets
    #[arg(long, value_delimiter = ',', default_values_t = [1, 4], value_parser = clap::value_parser!(u32).range(1..=256))]
    pub clients: Vec<u32>,
    /// Number of clients of the recording with WRITESET; 0: there is none
    #[arg(long, default_value_t = 16, value_parser = clap::value_parser!(u32).range(0..=256))]
    pub reference_clients: u32,
    /// What the relays stamp by
    #[arg(long, value_delimiter = ',', value_enum, default_value = "writeset")]
    pub dependency_tracking: Vec<RestampTracking>,
    /// Values of replica_parallel_workers
    #[arg(long, value_delimiter = ',', default_values_t = [1, 4, 16], value_parser = clap::value_parser!(u32).range(1..=1024))]
    pub workers: Vec<u32>,
    /// Milliseconds that each sync of a replica takes longer
    #[arg(long, value_name = "MS", value_delimiter = ',', default_values_t = [0.0, 2.0, 10.0])]
    pub sync_delays: Vec<f64>,
    /// Rounds; each applies every log once in every way, and medians are taken
    #[arg(long, default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=99))]
    pub rounds: u32,
    /// innodb_flush_log_at_trx_commit of the replicas
    #[arg(long, default_value_t = 1, value_parser = clap::value_parser!(u8).range(0..=2))]
    pub flush_log: u8,
    /// A backlog, cured: the clock runs from before the relay's first start, and the replica receives meanwhile
    #[arg(long)]
    pub put_in_between: bool,
    /// Seed of the load
    #[arg(long, default_value_t = 1)]
    pub seed: u32,
    /// innodb_buffer_pool_size
    #[arg(long, value_name = "SIZE", default_value = "512M")]
    pub buffer_pool: String,
    /// Also draw it: transactions a second over the number of clients, as SVG
    #[arg(long, value_name = "FILE")]
    pub picture: Option<PathBuf>,
    /// Folder with mysqld [default: SLIPSTREAM_TEST_MYSQLD, PATH, the testbed's]
    #[arg(long, value_name = "DIR")]
    pub mysqld_bin: Option<PathBuf>,
    /// New folder for servers, removed afterwards [default: a temporary one in TMPDIR]
    #[arg(long, value_name = "DIR")]
    pub folder: Option<PathBuf>,
    /// Print the result as JSON
    #[arg(long)]
    pub json: bool,
}

/// The source's own clock.
pub(crate) const ITS_SOURCE: &str = "its source";

/// Who stamped a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stamps {
    /// Its source, which remembers no writesets.
    Source,
    /// A relay, by this method.
    Relay(RestampTracking),
    /// Its source, with all of MySQL's writesets.
    Reference,
}

impl Stamps {
    fn name(self) -> String {
        match self {
            Stamps::Source => ITS_SOURCE.into(),
            Stamps::Relay(how) => format!("relay, {}", word(how)),
            Stamps::Reference => "its source, WRITESET".into(),
        }
    }
}

/// Records the load and applies every log in every way. `told` receives a line for each.
///
/// # Errors
/// A server does not start, a replica stops, rows differ, or `stop` is raised.
pub fn clocks(args: &ClocksArgs, stop: &AtomicBool, told: &mut dyn FnMut(&str)) -> Result<ClocksReport> {
    let programs = Programs::find(args.mysqld_bin.as_deref())?.context(NO_MYSQLD)?;
    if args.workload != "tpcc" {
        ourselves::look_for("sysbench", "sysbench")?;
    }
    ensure!(args.sync_delays.iter().all(|ms| (0.0..=10_000.0).contains(ms)), "--sync-delays: 0 to 10000");
    let mut bench = Bench::new(args, &programs, stop)?;
    let mut report = ClocksReport::new(args, programs.version()?, bench.sync_us()?);
    told("a server with the load's tables");
    bench.prepare()?;
    for &clients in &args.clients {
        told(&format!("recording {} transactions of {clients} clients", args.transactions));
        report.recorded.push(bench.record(clients, false)?);
    }
    if args.reference_clients > 0 {
        told(&format!("recording {} transactions of {} clients, WRITESET", args.transactions, args.reference_clients));
        report.recorded.push(bench.record(args.reference_clients, true)?);
    }
    let ways: Vec<(f64, u32)> =
        args.sync_delays.iter().flat_map(|&delay| args.workers.iter().map(move |&workers| (delay, workers))).collect();
    for round in 0..args.rounds {
        for &(delay, workers) in &ways {
            for log in turns(bench.logs(), round) {
                let sample = bench.apply(&log, delay, workers).with_context(|| log.name())?;
                told(&format!(
                    "round {}: sync + {delay} ms, {workers} workers, {}: {:.2} s, {} retries",
                    round + 1,
                    log.name(),
                    sample.wall_s,
                    sample.retries
                ));
                report.add(&log, delay, workers, &sample);
            }
        }
    }
    report.hash = bench.hash();
    report.conditions.end();
    if let Some(file) = &args.picture {
        let svg = crate::figures::picture::svg(&report.found(), None)?;
        std::fs::write(file, svg).with_context(|| format!("cannot write {}", file.display()))?;
    }
    bench.remove()?;
    Ok(report)
}
