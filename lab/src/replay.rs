//! `lab replay`: recorded binlogs through the whole pipeline into a fresh store, timed.
//!
//! In: binlog files. Out: wall time, rates, CPU per row by stage, peak memory, a hash of the result. The relay log is
//! written and synced by the default policy on the way; the clock stops when everything is visible and synced.

use std::fmt;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use apply::{ApplyOptions, CutOptions, Pipeline, PipelineOptions, StageTime};
use base::LogPosition;
use binlog::reader::BinlogFile;
use relay_log::{Intake, RelayLog, RelayOptions, SyncPolicy};
use serde::Serialize;
use store::{CheckImages, Disk, DiskOptions, Snapshot, Store};

/// What to replay, and how.
#[derive(Clone, Debug)]
pub struct ReplayOptions {
    /// Binlog files, or index files that list them, in order.
    pub logs: Vec<PathBuf>,
    /// Folder for relay log and store; must be empty or absent. Removed afterwards.
    pub folder: PathBuf,
    /// Apply workers.
    pub workers: usize,
    /// Decoders.
    pub decoders: usize,
    /// Bytes in flight between split and publish.
    pub memory_bytes: u64,
    /// Bytes of a generation: the store lies on disk and is cut at this size. None: everything stays in memory.
    pub generation_bytes: Option<u64>,
    /// How far stored rows are compared with before images.
    pub check_images: CheckImages,
    /// When the relay log is synced.
    pub relay_sync: SyncPolicy,
    /// Whether to hash the result (outside the timed part).
    pub hash: bool,
}

/// One stage's cost.
#[derive(Clone, Debug, Serialize)]
pub struct StageCost {
    /// Thread name.
    pub stage: String,
    /// CPU seconds.
    pub cpu_s: f64,
    /// CPU nanoseconds per row change.
    pub ns_per_row: f64,
}

/// What came out.
#[derive(Clone, Debug, Serialize)]
pub struct ReplayReport {
    /// Wall seconds from the first byte read to everything visible and the relay log synced.
    pub wall_s: f64,
    /// Transactions, those without rows included.
    pub transactions: u64,
    /// Transactions that change rows.
    pub write_transactions: u64,
    /// Row changes.
    pub rows: u64,
    /// Bytes of binlog read.
    pub bytes: u64,
    /// Write transactions a second.
    pub write_transactions_per_s: f64,
    /// Row changes a second.
    pub rows_per_s: f64,
    /// Megabytes (10^6) of binlog a second.
    pub mb_per_s: f64,
    /// CPU by stage.
    pub stages: Vec<StageCost>,
    /// Peak resident memory of the process, bytes.
    pub peak_rss_bytes: u64,
    /// Times that split waited for memory.
    pub memory_waits: u64,
    /// Pieces that were barriers.
    pub barriers: u64,
    /// Rows in the store at the end.
    pub rows_stored: u64,
    /// Bytes the store takes.
    pub store_bytes: u64,
    /// Cuts inside the run.
    pub cuts: u64,
    /// Bytes of rows that cuts wrote.
    pub written_bytes: u64,
    /// Bytes that compaction had yet to merge at the end.
    pub compaction_debt_bytes: u64,
    /// Sum of 64-bit hashes of table name, key and image of every row; None when not asked for.
    pub hash: Option<String>,
    /// What ran it.
    pub machine: String,
    /// Load average of the last minute at the start.
    pub load: String,
}

impl fmt::Display for ReplayReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "replayed {} transactions ({} write transactions), {} row changes, {:.1} MB in {:.3} s",
            self.transactions,
            self.write_transactions,
            self.rows,
            self.bytes as f64 / 1e6,
            self.wall_s
        )?;
        writeln!(
            f,
            "  {:.0} write transactions/s   {:.0} row changes/s   {:.1} MB/s",
            self.write_transactions_per_s, self.rows_per_s, self.mb_per_s
        )?;
        let total: f64 = self.stages.iter().map(|s| s.cpu_s).sum();
        let per_row: f64 = self.stages.iter().map(|s| s.ns_per_row).sum();
        writeln!(f, "  CPU {total:.3} s, {per_row:.0} ns a row change:")?;
        for stage in &self.stages {
            writeln!(f, "    {:<12} {:>8.3} s {:>8.0} ns/row", stage.stage, stage.cpu_s, stage.ns_per_row)?;
        }
        writeln!(
            f,
            "  peak memory {:.0} MB   store {} rows, {:.0} MB   waits for memory {}   barriers {}",
            self.peak_rss_bytes as f64 / 1e6,
            self.rows_stored,
            self.store_bytes as f64 / 1e6,
            self.memory_waits,
            self.barriers
        )?;
        if self.cuts > 0 {
            writeln!(
                f,
                "  {} cuts, {:.0} MB written by them   compaction debt {:.0} MB",
                self.cuts,
                self.written_bytes as f64 / 1e6,
                self.compaction_debt_bytes as f64 / 1e6
            )?;
        }
        if let Some(hash) = &self.hash {
            writeln!(f, "  result hash {hash}")?;
        }
        write!(f, "  {}, load {}", self.machine, self.load)
    }
}

/// Runs it.
///
/// # Errors
/// When a log cannot be read or replay stops before its end.
pub fn replay(options: &ReplayOptions) -> anyhow::Result<ReplayReport> {
    let logs = expand(&options.logs)?;
    std::fs::create_dir_all(&options.folder)
        .with_context(|| format!("cannot make folder {}", options.folder.display()))?;
    if std::fs::read_dir(&options.folder)?.next().is_some() {
        bail!("folder {} is not empty", options.folder.display());
    }
    let report = run(&logs, options);
    let removed = std::fs::remove_dir_all(&options.folder);
    let report = report?;
    removed.with_context(|| format!("cannot remove folder {}", options.folder.display()))?;
    Ok(report)
}

fn run(logs: &[PathBuf], options: &ReplayOptions) -> anyhow::Result<ReplayReport> {
    let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let started = Instant::now();
    let mut relay = RelayOptions::new(options.folder.join("relay-log"));
    relay.sync = options.relay_sync;
    let (writer, _) = RelayLog::open(relay)?;
    let mut tail = writer.tail();
    let (store, cuts, taken) = make_store(options)?;
    let pipeline = Pipeline::start(
        Box::new(move |timeout| tail.next(timeout)),
        PipelineOptions {
            quarantine: false,
            decoders: options.decoders,
            workers: options.workers,
            memory_bytes: options.memory_bytes,
            apply: ApplyOptions { check_images: options.check_images },
            skip: schedule::SkipList::default(),
            store,
            cuts,
            clock_difference_us: Arc::new(AtomicI64::new(0)),
        },
    );
    let paths = logs.to_vec();
    let receive = std::thread::Builder::new()
        .name("receive".into())
        .spawn(move || -> anyhow::Result<(u64, u64, f64)> {
            let mut intake = Intake::new(writer, LogPosition { file: Arc::from(""), offset: 4 });
            for path in &paths {
                feed(&mut intake, path)?;
            }
            let (transactions, bytes) = intake.taken();
            intake.finish()?.close()?;
            Ok((transactions, bytes, thread_cpu_s()))
        })
        .context("cannot start a thread")?;
    let received = receive.join().map_err(|_| anyhow::anyhow!("the receiver failed"))??;
    let (store, publisher, rates, gate, barriers) = (
        Arc::clone(&pipeline.store),
        Arc::clone(&pipeline.publisher),
        Arc::clone(&pipeline.rates),
        Arc::clone(&pipeline.gate),
        Arc::clone(&pipeline.barriers),
    );
    let finished = pipeline.join();
    let wall_s = started.elapsed().as_secs_f64();
    if let Some(stop) = finished.stop {
        return Err(stop.into());
    }
    let work = rates.total();
    let write_transactions = publisher.write_transactions();
    let rows = work.rows.max(1) as f64;
    let mut stages =
        vec![StageCost { stage: "receive".into(), cpu_s: received.2, ns_per_row: received.2 * 1e9 / rows }];
    stages.extend(merge_stages(&finished.stages).into_iter().map(|(stage, cpu_ns)| StageCost {
        stage,
        cpu_s: cpu_ns as f64 / 1e9,
        ns_per_row: cpu_ns as f64 / rows,
    }));
    let stats = store.stats();
    let process = observe::ProcessFacts::read();
    Ok(ReplayReport {
        wall_s,
        transactions: work.transactions,
        write_transactions,
        rows: work.rows,
        bytes: received.1,
        write_transactions_per_s: write_transactions as f64 / wall_s,
        rows_per_s: work.rows as f64 / wall_s,
        mb_per_s: received.1 as f64 / 1e6 / wall_s,
        stages,
        peak_rss_bytes: process.rss_peak_bytes,
        memory_waits: gate.waits(),
        barriers: barriers.load(std::sync::atomic::Ordering::Relaxed) as u64,
        cuts: taken.load(Ordering::Relaxed),
        written_bytes: stats.disk.map_or(0, |disk| disk.written_bytes),
        compaction_debt_bytes: stats.disk.map_or(0, |disk| disk.l0_bytes),
        rows_stored: stats.memory.rows,
        store_bytes: stats.memory.bytes + stats.disk.map_or(0, |disk| disk.bytes),
        hash: if options.hash { Some(hash(&store)?) } else { None },
        machine: machine(),
        load: load.split_whitespace().next().unwrap_or("?").to_string(),
    })
}

type Made = (Arc<Store>, Option<CutOptions>, Arc<AtomicU64>);

/// A store in memory, or one on disk with its cuts counted. The relay log is synced by its own policy only: the log
/// replayed is still there.
fn make_store(options: &ReplayOptions) -> anyhow::Result<Made> {
    let (lanes, catalog) = (apply::lanes_for(options.workers), catalog::Catalog::new(0));
    let taken = Arc::new(AtomicU64::new(0));
    let Some(generation_bytes) = options.generation_bytes else {
        return Ok((Arc::new(Store::new(lanes, catalog)), None, taken));
    };
    let cache_bytes = generation_bytes / 2;
    let (disk, recovered) = Disk::open(&options.folder.join("store"), DiskOptions { cache_bytes })?;
    let store = Store::over(lanes, disk, options.folder.join("scratch"), recovered, catalog)?;
    let counted = Arc::clone(&taken);
    let cuts = CutOptions {
        generation_bytes,
        interval: Duration::from_secs(3600),
        sync_relay: Box::new(|_| Ok(())),
        after_cut: Box::new(move |_, _| {
            counted.fetch_add(1, Ordering::Relaxed);
        }),
    };
    Ok((Arc::new(store), Some(cuts), taken))
}

/// Reads one binlog file into the relay log.
///
/// # Errors
/// When the file is not a good binlog or the relay log cannot be written.
pub fn feed(intake: &mut Intake, path: &Path) -> anyhow::Result<()> {
    let name = path.file_name().map(|n| n.to_string_lossy().into_owned()).unwrap_or_default();
    // The intake verifies checksums; once is enough.
    let mut file = BinlogFile::open(path)?.without_verification();
    intake.begin_file(&name);
    while let Some(event) = file.next_event()? {
        intake.event(event.bytes).with_context(|| format!("{name} at offset {}", event.offset))?;
    }
    if intake.in_transaction() {
        bail!("{name} ends inside a transaction");
    }
    intake.flush()?;
    Ok(())
}

/// Index files are replaced by the files they list.
fn expand(logs: &[PathBuf]) -> anyhow::Result<Vec<PathBuf>> {
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
    if files.is_empty() {
        bail!("no binlog file to replay");
    }
    Ok(files)
}

fn merge_stages(stages: &[StageTime]) -> Vec<(String, u64)> {
    let mut merged: Vec<(String, u64)> = Vec::new();
    for name in ["split", "decode", "sequence", "apply", "cut"] {
        let of: Vec<&StageTime> = stages.iter().filter(|s| s.stage.split('-').next() == Some(name)).collect();
        let label = if of.len() > 1 { format!("{name} ×{}", of.len()) } else { name.to_string() };
        merged.push((label, of.iter().map(|s| s.cpu_ns).sum()));
    }
    merged
}

fn thread_cpu_s() -> f64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    time.tv_sec as f64 + time.tv_nsec as f64 / 1e9
}

fn hash(store: &Arc<store::Store>) -> Result<String, store::StoreError> {
    let snapshot = Snapshot::pin(store);
    let mut sum = 0u128;
    for table in snapshot.catalog().tables() {
        let name = format!("{}.{}", table.db, table.name);
        let flow = store.scan::<()>(&snapshot, table, |row| {
            let mut bytes = name.clone().into_bytes();
            bytes.push(0);
            bytes.extend_from_slice(row.image);
            let one = xxhash_rust::xxh3::xxh3_128(&bytes);
            sum = sum.wrapping_add(one.wrapping_mul(u128::from(row.count)));
            ControlFlow::Continue(())
        });
        let _ = flow?;
    }
    Ok(format!("{sum:032x}"))
}

fn machine() -> String {
    let info = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = info
        .lines()
        .find_map(|l| l.strip_prefix("model name").and_then(|l| l.split(':').nth(1)))
        .map_or("unknown processor", str::trim);
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    format!("{model}, {cores} cores")
}
