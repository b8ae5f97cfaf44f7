//! `lab replay` and `lab ablation`: replays recorded binlogs through the whole pipeline into a fresh store, and times
//! it.
//!
//! In: binlog files; those of a load phase are timed separately. Out: wall time, rates, CPU and waits by stage, peak
//! memory, lag if paced, read rates, a hash of the result. The relay log is written and synced by the given policy. A
//! phase's clock stops when everything is visible and synced. Never here: a server.

#![cfg_attr(test, allow(clippy::unwrap_used, clippy::expect_used))]

pub mod ablation;
pub mod cli;
pub mod command;
pub mod conditions;
pub mod feed;
pub mod grain;
pub mod pace;
mod readers;
mod reads;
mod report;
mod samples;
pub mod table;
pub mod turns;

use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use apply::{ApplyOptions, CutOptions, Pipeline, PipelineOptions};
use base::ThreadAffinity;
use base::limits::TRANSACTION_SLICE_BYTES;
use compare::TableHash;
use observe::{LagDivision, ProcessFacts, ThreadCpu, Work};
use relay_log::{RelayLog, RelayOptions, RelaySync, SyncPolicy};
use store::{CheckImages, Disk, DiskOptions, Snapshot, Store};
use xxhash_rust::xxh3::xxh3_128;

pub use crate::pace::Pace;
pub use feed::feed;
pub use grain::Grain;
pub use report::{PacedLag, Phase, ReadRates, ReplayReport, StageCost, TransactionReport};
pub use samples::Sample;

use conditions::Conditions;
use feed::{Fed, Feeder};
use readers::Readers;
use samples::Sampler;

/// What to replay, and how.
#[derive(Clone, Debug)]
pub struct ReplayOptions {
    /// Binlog files, or index files that list them, in order.
    pub logs: Vec<PathBuf>,
    /// Logs replayed first, timed separately: the state that the measured ones start from.
    pub load: Vec<PathBuf>,
    /// Folder for relay log and store; must be empty or absent. Removed afterwards.
    pub folder: PathBuf,
    pub workers: usize,
    /// Number of decoders; 0 (under the grain of transactions only) means that the scheduling thread decodes.
    pub decoders: usize,
    /// CPUs that threads run on.
    pub affinity: ThreadAffinity,
    /// Division of work among the workers.
    pub grain: Grain,
    /// Maximum bytes in flight between split and publish.
    pub memory_bytes: u64,
    /// Maximum received bytes kept in memory until replay takes them; None for the relay log's default.
    pub hot_bytes_max: Option<usize>,
    /// Keeps the store on disk; None keeps everything in memory.
    pub on_disk: Option<OnDisk>,
    /// Extent to which stored rows are compared with before images.
    pub check_images: CheckImages,
    /// When the relay log is synced.
    pub relay_sync: SyncPolicy,
    /// Speed at which the measured logs are fed; None for full speed.
    pub pace: Option<Pace>,
    /// True to sample memory and progress of the measured phase for the report.
    pub samples: bool,
    /// Number of reads by key to measure, together with a full read, before and after a full compaction (outside the
    /// timed part); 0 for none and no compaction.
    pub reads: u64,
    /// Number of threads that read beside the measured phase.
    pub readers: usize,
    /// True to hash the result (outside the timed part).
    pub hash: bool,
}

/// Memory of a store on disk, and the limit that it is a share of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct OnDisk {
    /// Memory limit of the whole process, for the report.
    pub memory_bytes: u64,
    /// Size in bytes at which a generation is cut.
    pub generation_bytes: u64,
    /// Bytes of the tree's block cache.
    pub cache_bytes: u64,
}

/// How long the counts of what is visible are waited for.
const COUNTED_WITHIN: Duration = Duration::from_millis(100);
/// Lag is reported separately for transactions of at least this many rows.
const LARGE_ROWS: u64 = 1000;

/// Interval between checks of a wait.
const LOOK: Duration = Duration::from_micros(500);

/// Runs a replay.
///
/// # Errors
/// A log cannot be read, or replay stops before its end.
pub fn replay(options: &ReplayOptions) -> anyhow::Result<ReplayReport> {
    let (load, logs) = (expand(&options.load)?, expand(&options.logs)?);
    if logs.is_empty() {
        bail!("no binlog file to replay");
    }
    if options.decoders == 0 && options.grain == Grain::Rows {
        bail!(
            "without decoders the scheduler decodes, and rows have none: --decoders 0 goes with --grain transactions"
        );
    }
    std::fs::create_dir_all(&options.folder)
        .with_context(|| format!("cannot make folder {}", options.folder.display()))?;
    if std::fs::read_dir(&options.folder)?.next().is_some() {
        bail!("folder {} is not empty", options.folder.display());
    }
    let report = run(&load, &logs, options);
    let removed = std::fs::remove_dir_all(&options.folder);
    let report = report?;
    removed.with_context(|| format!("cannot remove folder {}", options.folder.display()))?;
    Ok(report)
}

struct Run {
    pipeline: Pipeline,
    feeder: Feeder,
    sync: Arc<RelaySync>,
    /// Number of cuts taken.
    cuts: Arc<AtomicU64>,
    fed: Fed,
}

/// Counters at one moment.
struct Mark {
    work: Work,
    write_transactions: u64,
    threads: Vec<ThreadCpu>,
    cuts: u64,
    written_bytes: u64,
    fed: Fed,
}

fn run(load: &[PathBuf], logs: &[PathBuf], options: &ReplayOptions) -> anyhow::Result<ReplayReport> {
    let mut run = Run::start(options)?;
    let Conditions { machine, load_average: [load_average, _] } = Conditions::begin();
    let mut report = ReplayReport { settings: settings(options), machine, load_average, ..ReplayReport::default() };
    if !load.is_empty() {
        let (mut loaded, _) = run.phase(load, None)?;
        if run.pipeline.store.disk().is_some() {
            // Compaction left over from the load is not part of the measurement.
            let started = Instant::now();
            run.pipeline.store.compact_until_idle()?;
            loaded.to_settled_s = Some(started.elapsed().as_secs_f64());
        }
        report.load = Some(loaded);
    }
    let orders_before = count_orders(&run.pipeline.store)?;
    if options.pace.is_some() {
        let transactions = feed::count_transactions(logs)?;
        run.pipeline.lag.divide(LagDivision { large_rows: LARGE_ROWS, transactions });
    }
    let rows_before = run.rows_by_worker();
    let sampler = if options.samples { Some(Sampler::start(&run.pipeline)?) } else { None };
    let readers = match options.readers {
        0 => None,
        threads => Some(Readers::start(&run.pipeline.store, reads::sample(&run.pipeline.store)?, threads)?),
    };
    let (measured, stages) = run.phase(logs, options.pace)?;
    report.readers = readers.map(Readers::finish).transpose()?;
    report.samples = sampler.map(Sampler::finish).unwrap_or_default();
    report.rows_by_worker = run.rows_by_worker().iter().zip(rows_before).map(|(now, before)| now - before).collect();
    report.compaction_debt_bytes = run.pipeline.store.stats().disk.map_or(0, |disk| disk.debt_bytes);
    report.peak_rss_bytes = ProcessFacts::read().rss_peak_bytes;
    report.lag = options.pace.map(|pace| PacedLag {
        pace: pace.to_string(),
        transactions_per_s: measured.transactions as f64 / measured.wall_s,
        fed_late_us_max: run.fed.late_us_max,
        large_rows: LARGE_ROWS,
        all: run.pipeline.lag.overall(),
        parts: run.pipeline.lag.parts().unwrap_or_default(),
    });
    report.write_transactions_per_s = measured.write_transactions_per_s();
    report.rows_per_s = measured.rows as f64 / measured.wall_s;
    report.mb_per_s = measured.bytes as f64 / 1e6 / measured.wall_s;
    report.stages = stages;
    let store = Arc::clone(&run.pipeline.store);
    report.memory_waits = run.pipeline.gate.waits();
    report.barriers = run.pipeline.barriers.load(Ordering::Relaxed) as u64;
    report.relay_syncs = run.sync.syncs();
    report.transactions = run.pipeline.transaction_counters().map(|counters| counters.snapshot().into());
    run.finish()?;
    let orders = count_orders(&store)?.zip(orders_before).map(|(after, before)| after.saturating_sub(before));
    report.tpmc_equivalent = orders.filter(|n| *n > 0).map(|orders| orders as f64 * 60.0 / measured.wall_s);
    report.measured = measured;
    let stats = store.stats();
    report.rows_stored = stats.memory.rows;
    report.store_bytes = stats.memory.bytes + stats.disk.map_or(0, |disk| disk.bytes);
    if options.reads > 0 {
        let sample = reads::sample(&store)?;
        report.reads.push(reads::measure(&store, &sample, options.reads, "after replay")?);
        if store.disk().is_some() {
            store.compact_fully()?;
            report.reads.push(reads::measure(&store, &sample, options.reads, "after full compaction")?);
        }
    }
    if options.hash {
        report.tables = compare::hash_store(&store, &Snapshot::pin(&store))?;
        report.hash = Some(total(&report.tables));
    }
    Ok(report)
}

impl Run {
    fn start(options: &ReplayOptions) -> anyhow::Result<Run> {
        let mut relay = RelayOptions::new(options.folder.join("relay-log"));
        relay.sync = options.relay_sync;
        relay.affinity = options.affinity.clone();
        relay.hot_bytes_max = options.hot_bytes_max.unwrap_or(relay.hot_bytes_max);
        let (writer, _) = RelayLog::open(relay)?;
        let (mut tail, sync) = (writer.reader(), writer.sync());
        let lag_by_part = Arc::clone(writer.shared().lag_by_part());
        let (store, cut_options, cuts) = make_store(options)?;
        let source: apply::LogSource = Box::new(move |timeout| tail.next(timeout));
        let pipeline_options = PipelineOptions {
            quarantine: false,
            copies_missing: false,
            filters: Arc::default(),
            decoders: options.decoders,
            workers: options.workers,
            memory_bytes: options.memory_bytes,
            apply: ApplyOptions { check_images: options.check_images, ..ApplyOptions::default() },
            skip: decode::SkipList::default(),
            store,
            cuts: cut_options,
            source_clock: Arc::default(),
            lag_by_part,
            affinity: options.affinity.clone(),
        };
        let pipeline = match options.grain {
            Grain::Rows => Pipeline::start(source, pipeline_options),
            Grain::Transactions(transactions) => {
                Pipeline::start_transactions(source, pipeline_options, transactions, TRANSACTION_SLICE_BYTES)
            }
        };
        Ok(Run { pipeline, feeder: Feeder::start(writer, &options.affinity)?, sync, cuts, fed: Fed::default() })
    }

    /// Feeds files, waits until everything is visible and the relay log synced, then for a cut that holds it.
    fn phase(&mut self, logs: &[PathBuf], pace: Option<Pace>) -> anyhow::Result<(Phase, Vec<StageCost>)> {
        let (before, started) = (self.mark(), Instant::now());
        let fed = match self.feeder.feed(logs, pace) {
            Ok(fed) => fed,
            Err(lost) => return Err(self.why().unwrap_or(lost)),
        };
        self.fed = fed;
        let visibility = self.pipeline.store.visibility();
        self.wait(|| visibility.watermark().0 >= fed.transactions)?;
        // What is visible is counted a moment later.
        let until = Instant::now() + COUNTED_WITHIN;
        while self.pipeline.rates.total().transactions < fed.transactions && Instant::now() < until {
            std::thread::yield_now();
        }
        let written = self.sync.written();
        self.sync.request_sync();
        self.wait(|| self.sync.synced() >= written)?;
        let wall_s = started.elapsed().as_secs_f64();
        let after = self.mark();
        let mut to_durable_cut_s = None;
        if self.pipeline.store.disk().is_some() {
            let started = Instant::now();
            self.pipeline.ask_for_cut();
            self.wait(|| self.pipeline.store.last_cut() >= fed.transactions)?;
            to_durable_cut_s = Some(started.elapsed().as_secs_f64());
        }
        let rows = after.work.rows - before.work.rows;
        let phase = Phase {
            wall_s,
            to_durable_cut_s,
            to_settled_s: None,
            transactions: after.work.transactions - before.work.transactions,
            write_transactions: after.write_transactions - before.write_transactions,
            rows,
            bytes: after.fed.bytes - before.fed.bytes,
            cuts: after.cuts - before.cuts,
            written_bytes: after.written_bytes - before.written_bytes,
        };
        Ok((phase, stage_costs(&before.threads, &after.threads, wall_s, rows)))
    }

    fn rows_by_worker(&self) -> Vec<u64> {
        self.pipeline.rows_by_worker.iter().map(|rows| rows.load(Ordering::Relaxed)).collect()
    }

    fn mark(&self) -> Mark {
        Mark {
            work: self.pipeline.rates.total(),
            write_transactions: self.pipeline.publisher.write_transactions(),
            threads: ProcessFacts::read().threads,
            cuts: self.cuts.load(Ordering::Relaxed),
            written_bytes: self.pipeline.store.stats().disk.map_or(0, |disk| disk.written_bytes),
            fed: self.fed,
        }
    }

    /// Polls until `done`; fails if replay has stopped.
    fn wait(&self, done: impl Fn() -> bool) -> anyhow::Result<()> {
        while !done() {
            if let Some(failure) = self.why() {
                return Err(failure);
            }
            std::thread::sleep(LOOK);
        }
        Ok(())
    }

    fn why(&self) -> Option<anyhow::Error> {
        if let Some(stop) = self.pipeline.failure() {
            return Some(stop.into());
        }
        self.sync.poison().map(Into::into)
    }

    fn finish(self) -> anyhow::Result<()> {
        self.feeder.finish()?;
        // The folder is about to be removed.
        match self.pipeline.join_all().stop {
            Some(stop) => Err(stop.into()),
            None => Ok(()),
        }
    }
}

/// Threads of the pipeline, in the order data flows.
const STAGES: [&str; 8] = ["receive", "relay-sync", "split", "decode", "sequence", "apply", "cut", "compact"];

fn stage_costs(before: &[ThreadCpu], after: &[ThreadCpu], wall_s: f64, rows: u64) -> Vec<StageCost> {
    let find = |threads: &[ThreadCpu], name: &str| threads.iter().find(|t| t.name == name).cloned().unwrap_or_default();
    let cost = |name: &&str| {
        let (before, after) = (find(before, name), find(after, name));
        if after.threads == 0 {
            return None;
        }
        let cpu_s = after.cpu_us.saturating_sub(before.cpu_us) as f64 / 1e6;
        let core_wait_s = after.core_wait_us.saturating_sub(before.core_wait_us) as f64 / 1e6;
        Some(StageCost {
            stage: (*name).into(),
            threads: after.threads,
            cpu_s,
            ns_per_row: cpu_s * 1e9 / rows.max(1) as f64,
            core_wait_s,
            blocked_s: (wall_s * f64::from(after.threads) - cpu_s - core_wait_s).max(0.0),
        })
    };
    STAGES.iter().filter_map(cost).collect()
}

type Made = (Arc<Store>, Option<CutOptions>, Arc<AtomicU64>);

/// Makes a store in memory, or one on disk that counts its cuts. Only the policy syncs the relay log: the replayed log
/// still exists.
fn make_store(options: &ReplayOptions) -> anyhow::Result<Made> {
    let (lanes, catalog) = (apply::lanes_for(options.workers), catalog::Catalog::new(0));
    let taken = Arc::new(AtomicU64::new(0));
    let Some(OnDisk { generation_bytes, cache_bytes, .. }) = options.on_disk else {
        return Ok((Arc::new(Store::new(lanes, catalog)), None, taken));
    };
    let (disk, recovered) = Disk::open(&options.folder.join("store"), DiskOptions { cache_bytes })?;
    let store = Store::over(lanes, disk, options.folder.join("scratch"), recovered, catalog)?;
    let counted = Arc::clone(&taken);
    let cuts = CutOptions {
        generation_bytes,
        interval: Duration::from_secs(3600),
        sync_relay: Box::new(|_| Ok(())),
        waits_for_space: false,
        after_cut: Box::new(move |_, _| {
            counted.fetch_add(1, Ordering::Relaxed);
        }),
    };
    Ok((Arc::new(store), Some(cuts), taken))
}

/// Hash over all tables; depends on their names, not on their order.
#[must_use]
pub fn total(tables: &[TableHash]) -> String {
    let of = |table: &TableHash| {
        xxh3_128(format!("{}.{}\0{}\0{}", table.db, table.table, table.rows, table.hash).as_bytes())
    };
    format!("{:032x}", tables.iter().map(of).fold(0u128, u128::wrapping_add))
}

/// Replaces index files by the files they list.
///
/// # Errors
/// An index file cannot be read.
pub fn expand(logs: &[PathBuf]) -> anyhow::Result<Vec<PathBuf>> {
    let mut files = Vec::new();
    for log in logs {
        if log.extension().is_some_and(|e| e == "index") {
            let text = std::fs::read_to_string(log).with_context(|| format!("cannot read {}", log.display()))?;
            let folder = log.parent().unwrap_or(Path::new("."));
            files.extend(text.lines().filter(|l| !l.trim().is_empty()).map(|l| folder.join(l.trim())));
        } else {
            files.push(log.clone());
        }
    }
    Ok(files)
}

/// Rows in TPC-C's ORDERS, which are never deleted: one for each New-Order. None if there is no such table.
fn count_orders(store: &Arc<Store>) -> Result<Option<u64>, store::StoreError> {
    let snapshot = Snapshot::pin(store);
    let is_orders = |table: &&Arc<catalog::TableDef>| {
        matches!(table.name.as_str(), "orders" | "oorder" | "bmsql_oorder")
            && table.columns.iter().any(|column| column.name == "o_ol_cnt")
    };
    let Some(table) = snapshot.catalog().tables().find(is_orders) else { return Ok(None) };
    let mut count = 0;
    let flow = store.scan::<()>(&snapshot, table, |row| {
        count += row.count;
        ControlFlow::Continue(())
    })?;
    Ok(flow.is_continue().then_some(count))
}

fn settings(options: &ReplayOptions) -> String {
    let store = options.on_disk.map_or("store in memory".to_owned(), |on_disk| {
        format!(
            "store on disk, memory limit {} MB, generations of {} MB, cuts and compaction synced",
            on_disk.memory_bytes / 1_000_000,
            on_disk.generation_bytes / 1_000_000
        )
    });
    let bound = if options.affinity.is_empty() { String::new() } else { format!("bound to {}, ", options.affinity) };
    let count = |number: usize, what: &str| format!("{number} {what}{}", if number == 1 { "" } else { "s" });
    let synced = match options.relay_sync {
        SyncPolicy::EveryTransaction => "after every transaction".to_owned(),
        SyncPolicy::Interval { ms, bytes } => format!("every {ms} ms or {} MiB", bytes >> 20),
        SyncPolicy::Never => "never".to_owned(),
    };
    format!(
        "{}, {}, {}, {bound}relay log synced {synced}, before images checked: {}, versions kept for snapshots, {store}",
        options.grain.text(),
        count(options.workers, "worker"),
        count(options.decoders, "decoder"),
        options.check_images.name(),
    )
}
