//! Measurements of a replay, as values and as text.

use std::fmt;

use observe::{LagParts, LagSummary};
use serde::Serialize;

use super::samples::Sample;

/// Cost of one stage during a phase.
#[derive(Clone, Debug, Default, Serialize)]
pub struct StageCost {
    /// Thread name; threads of one stage are added up.
    pub stage: String,
    /// Number of threads of that name.
    pub threads: u32,
    /// CPU seconds.
    pub cpu_s: f64,
    /// CPU nanoseconds per row change.
    pub ns_per_row: f64,
    /// Seconds in which the threads were runnable and no core was free.
    pub core_wait_s: f64,
    /// Seconds in which the threads waited for work, for another stage or for the disk.
    pub blocked_s: f64,
}

/// One phase: from the first byte fed until everything is visible and the relay log synced.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Phase {
    /// Wall seconds from the first byte read to everything visible and the relay log synced.
    pub wall_s: f64,
    /// Wall seconds from then to a cut that holds all of it; None for a store in memory.
    pub to_durable_cut_s: Option<f64>,
    /// Wall seconds from then until no compaction was due, if the next phase is not to pay for it: after the load.
    pub to_settled_s: Option<f64>,
    /// Transactions, including those without rows.
    pub transactions: u64,
    /// Transactions that change rows.
    pub write_transactions: u64,
    pub rows: u64,
    /// Bytes of binlog read.
    pub bytes: u64,
    /// Cuts that ended in the phase.
    pub cuts: u64,
    /// Bytes written by cuts in the phase.
    pub written_bytes: u64,
}

impl Phase {
    fn per_second(&self, amount: u64) -> f64 {
        if self.wall_s > 0.0 { amount as f64 / self.wall_s } else { 0.0 }
    }

    /// Write transactions a second.
    #[must_use]
    pub fn write_transactions_per_s(&self) -> f64 {
        self.per_second(self.write_transactions)
    }
}

/// Read rates after a replay.
#[derive(Clone, Debug, Default, Serialize)]
pub struct ReadRates {
    /// `after replay` or `after full compaction`.
    pub when: String,
    /// Rows a second in a full read of every table.
    pub scanned_rows_per_s: f64,
    /// Reads a second of rows by key, picked at random from all tables, with one reader.
    pub key_reads_per_s: f64,
    /// Reads a second of ten rows in the order of a key or secondary index, from a random row on, with one reader.
    pub ranges_per_s: f64,
    /// Hash of everything that the random reads returned.
    pub hash: String,
}

/// What readers beside replay read, and how long both sides waited for lanes.
#[derive(Clone, Debug, Default, Serialize)]
pub struct ReadersReport {
    pub threads: usize,
    /// Reads a second of rows by key, of all readers together.
    pub key_reads_per_s: f64,
    /// Reads a second of ten rows in the order of a key or secondary index.
    pub ranges_per_s: f64,
    /// Batches a second of full reads: a thousand rows each where the table has as many.
    pub batches_per_s: f64,
    /// Snapshots that were given up to stay within the memory limit.
    pub snapshots_given_up: u64,
    /// Waits of readers for a lane that replay held.
    pub reader_waits: WaitReport,
    /// Waits of replay for a lane that a reader held.
    pub writer_waits: WaitReport,
}

/// Waits of one side, since the store was opened; a lock taken at once is none.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct WaitReport {
    pub count: u64,
    /// Median, in microseconds.
    pub p50_us: f64,
    /// 99th percentile, in microseconds.
    pub p99_us: f64,
    /// The longest, in microseconds.
    pub max_us: f64,
}

impl fmt::Display for WaitReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let WaitReport { count, p50_us, p99_us, max_us } = self;
        write!(f, "{count} times, p50 {p50_us:.1} us, p99 {p99_us:.1} us, max {max_us:.1} us")
    }
}

/// Counters of the grain of transactions over all phases; see `apply::transactions::TransactionCounts`.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct TransactionReport {
    pub transactions: u64,
    /// Times the scheduler waited for a transaction's dependencies.
    pub scheduler_waits: u64,
    /// Times a worker waited for a transaction's dependencies.
    pub worker_waits: u64,
    /// Times a worker waited for its turn to commit.
    pub commit_waits: u64,
    /// Times the scheduler waited for room in a worker's queue.
    pub queue_waits: u64,
    /// Times the scheduler found no idle worker at first.
    pub idle_waits: u64,
    /// Entries in the workers' queues: transactions, slices of one, or events.
    pub jobs: u64,
    /// Times the shared pending-jobs latch was taken.
    pub latches: u64,
    /// Times the latch was held by another thread.
    pub latches_contended: u64,
    /// Pieces that the scheduling thread decoded itself.
    pub decoded_by_scheduler: u64,
    /// Transactions that waited, beyond what the tracker asks, for an earlier one with the same row and no key.
    pub keyless_raised: u64,
    /// Maximum transactions handed out beyond the low-water mark.
    pub at_once_max: u64,
    /// Transactions that waited for everything before them.
    pub drains: u64,
    /// Times the tracker's history was cleared, or its older half dropped.
    pub forgotten: u64,
    /// Transactions with a coarser parent because their rows do not give enough information.
    pub coarse: u64,
    /// Mean distance from a transaction to the one it must wait for, with distances above 64 counted as 64. 1 means
    /// that everything is serial.
    pub parent_distance: f64,
}

impl From<apply::transactions::TransactionCounts> for TransactionReport {
    fn from(counts: apply::transactions::TransactionCounts) -> TransactionReport {
        TransactionReport {
            transactions: counts.transactions,
            scheduler_waits: counts.scheduler_waits,
            worker_waits: counts.worker_waits,
            commit_waits: counts.commit_waits,
            queue_waits: counts.queue_waits,
            idle_waits: counts.idle_waits,
            jobs: counts.jobs,
            latches: counts.latches,
            latches_contended: counts.latches_contended,
            decoded_by_scheduler: counts.decoded_by_scheduler,
            keyless_raised: counts.keyless_raised,
            at_once_max: counts.at_once_max,
            drains: counts.tracker.drains,
            forgotten: counts.tracker.forgotten,
            coarse: counts.tracker.coarse,
            parent_distance: counts.tracker.distance as f64 / counts.transactions.max(1) as f64,
        }
    }
}

impl fmt::Display for TransactionReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(
            f,
            "  waits: {} of the scheduler and {} of workers for dependencies, {} for the commit's turn, {} for room in a \
             queue, {} for an idle worker",
            self.scheduler_waits, self.worker_waits, self.commit_waits, self.queue_waits, self.idle_waits
        )?;
        writeln!(
            f,
            "  {} jobs, latch taken {} times ({} times not at once), decoded by the scheduler {}, at once {} at most",
            self.jobs, self.latches, self.latches_contended, self.decoded_by_scheduler, self.at_once_max
        )?;
        writeln!(
            f,
            "  parents {:.1} transactions away, {} drains, history forgotten {} times, {} coarse, {} kept in order for rows \
             without a key",
            self.parent_distance, self.drains, self.forgotten, self.coarse, self.keyless_raised
        )
    }
}

/// Lag of a log fed at a given pace.
#[derive(Clone, Debug, Default, Serialize)]
pub struct PacedLag {
    /// The pace, in words.
    pub pace: String,
    /// Transactions a second actually fed.
    pub transactions_per_s: f64,
    /// Maximum delay of a transaction after its due time, µs. Not part of the lag: a transaction's commit time is the
    /// moment it is fed. A growing delay means that the pace is above what the machine can do.
    pub fed_late_us_max: u64,
    /// Number of rows from which a transaction counts as large.
    pub large_rows: u64,
    /// Lag of all transactions.
    pub all: LagSummary,
    /// Lag of small transactions, by thirds of the log, and of large ones.
    pub parts: LagParts,
}

impl fmt::Display for PacedLag {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ms = |us: u64| us as f64 / 1e3;
        let line = |lag: &LagSummary| {
            format!(
                "p50 {:.2} ms, p99 {:.2} ms, p99.9 {:.2} ms, max {:.2} ms",
                ms(lag.p50_us),
                ms(lag.p99_us),
                ms(lag.p999_us),
                ms(lag.max_us)
            )
        };
        writeln!(
            f,
            "  {}: {:.0} transactions/s, fed {:.2} ms late at most; lag {}",
            self.pace,
            self.transactions_per_s,
            ms(self.fed_late_us_max),
            line(&self.all)
        )?;
        writeln!(f, "    first third  {}", line(&self.parts.small_first_third))?;
        writeln!(f, "    last third   {}", line(&self.parts.small_last_third))?;
        if self.parts.large.transactions > 0 {
            let (rows, large) = (self.large_rows, &self.parts.large);
            writeln!(
                f,
                "    below {rows} rows  {} transactions: {}",
                self.parts.small.transactions,
                line(&self.parts.small)
            )?;
            writeln!(f, "    {rows} rows or more  {} transactions: {}", large.transactions, line(large))?;
        }
        Ok(())
    }
}

/// Result of a replay.
#[derive(Clone, Debug, Default, Serialize)]
pub struct ReplayReport {
    /// The logs replayed first, timed separately; None if there were none.
    pub load: Option<Phase>,
    pub measured: Phase,
    /// Write transactions a second.
    pub write_transactions_per_s: f64,
    /// Row changes a second.
    pub rows_per_s: f64,
    /// Megabytes (10^6) of binlog a second.
    pub mb_per_s: f64,
    /// New-Order transactions a minute of wall time for a TPC-C log: the rows by which table `orders` grew.
    pub tpmc_equivalent: Option<f64>,
    /// CPU and waits by stage in the measured phase.
    pub stages: Vec<StageCost>,
    /// Lag of the measured phase's transactions if paced; None at full speed.
    pub lag: Option<PacedLag>,
    /// Row changes of each apply worker in the measured phase; empty under the grain of transactions.
    pub rows_by_worker: Vec<u64>,
    /// Memory and progress of the measured phase; empty unless asked for.
    pub samples: Vec<Sample>,
    /// Peak resident memory of the process, bytes.
    pub peak_rss_bytes: u64,
    /// Times split waited for memory.
    pub memory_waits: u64,
    /// Number of pieces that were barriers.
    pub barriers: u64,
    /// Syncs of the relay log over all phases.
    pub relay_syncs: u64,
    /// Counters of the grain of transactions; None under the rows grain.
    pub transactions: Option<TransactionReport>,
    /// Rows in the store at the end.
    pub rows_stored: u64,
    /// Size of the store in bytes.
    pub store_bytes: u64,
    /// Bytes still to be compacted when the measured phase ended.
    pub compaction_debt_bytes: u64,
    /// Read rates, before and after compaction; empty unless asked for.
    pub reads: Vec<ReadRates>,
    /// Readers beside the measured phase; None unless asked for.
    pub readers: Option<ReadersReport>,
    /// Hash over the tables' hashes, as `lab hash` computes it on any server; None unless asked for.
    pub hash: Option<String>,
    /// Rows and hash of each table; empty unless asked for.
    pub tables: Vec<compare::TableHash>,
    /// Settings of the whole run: sync policy, checks, threads, memory.
    pub settings: String,
    /// The machine that ran it.
    pub machine: String,
    /// Load average of the last minute, at the start.
    pub load_average: String,
}

impl fmt::Display for Phase {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} transactions ({} write transactions), {} row changes, {:.1} MB in {:.3} s",
            self.transactions,
            self.write_transactions,
            self.rows,
            self.bytes as f64 / 1e6,
            self.wall_s
        )
    }
}

impl fmt::Display for ReplayReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let Some(load) = &self.load {
            write!(f, "load      {load}")?;
            match (load.to_durable_cut_s, load.to_settled_s) {
                (Some(cut), Some(is_consistent)) => {
                    writeln!(f, ", {cut:.3} s more to a cut, {is_consistent:.3} s to compaction's end")?
                }
                _ => writeln!(f)?,
            }
        }
        writeln!(f, "replayed  {}", self.measured)?;
        writeln!(
            f,
            "  {:.0} write transactions/s   {:.0} row changes/s   {:.1} MB/s",
            self.write_transactions_per_s, self.rows_per_s, self.mb_per_s
        )?;
        if let Some(tpmc) = self.tpmc_equivalent {
            writeln!(f, "  {tpmc:.0} tpmC-equivalent")?;
        }
        let total: f64 = self.stages.iter().map(|s| s.cpu_s).sum();
        let per_row: f64 = self.stages.iter().map(|s| s.ns_per_row).sum();
        writeln!(
            f,
            "  CPU {total:.3} s, {per_row:.0} ns a row change; by stage with waits for a core and for all else:"
        )?;
        for stage in &self.stages {
            let name =
                if stage.threads > 1 { format!("{} ×{}", stage.stage, stage.threads) } else { stage.stage.clone() };
            writeln!(
                f,
                "    {name:<12} {:>8.3} s {:>8.0} ns/row   core {:>7.3} s   else {:>7.3} s",
                stage.cpu_s, stage.ns_per_row, stage.core_wait_s, stage.blocked_s
            )?;
        }
        if let Some(lag) = &self.lag {
            write!(f, "{lag}")?;
        }
        if !self.rows_by_worker.is_empty() {
            writeln!(f, "  row changes by worker: {:?}", self.rows_by_worker)?;
        }
        writeln!(
            f,
            "  peak memory {:.0} MB   store {} rows, {:.0} MB   waits for memory {}   barriers {}   relay log syncs {}",
            self.peak_rss_bytes as f64 / 1e6,
            self.rows_stored,
            self.store_bytes as f64 / 1e6,
            self.memory_waits,
            self.barriers,
            self.relay_syncs
        )?;
        if let Some(transactions) = &self.transactions {
            write!(f, "{transactions}")?;
        }
        if let Some(durable) = self.measured.to_durable_cut_s {
            writeln!(
                f,
                "  {} cuts, {:.0} MB written by them   compaction debt {:.0} MB   {durable:.3} s more to a cut that holds all",
                self.measured.cuts,
                self.measured.written_bytes as f64 / 1e6,
                self.compaction_debt_bytes as f64 / 1e6,
            )?;
        }
        if let Some(readers) = &self.readers {
            writeln!(
                f,
                "  {} readers during replay: {:.0} by key/s, {:.0} ranges of ten/s, {:.0} batches/s, {} snapshots \
                 abandoned",
                readers.threads,
                readers.key_reads_per_s,
                readers.ranges_per_s,
                readers.batches_per_s,
                readers.snapshots_given_up
            )?;
            writeln!(f, "  waited for lanes: readers {}; replay {}", readers.reader_waits, readers.writer_waits)?;
        }
        for reads in &self.reads {
            writeln!(
                f,
                "  reads {}: {:.0} rows/s in full, {:.0} by key/s, {:.0} ranges of ten/s, hash {}",
                reads.when, reads.scanned_rows_per_s, reads.key_reads_per_s, reads.ranges_per_s, reads.hash
            )?;
        }
        if let Some(hash) = &self.hash {
            for table in &self.tables {
                writeln!(
                    f,
                    "    {:<32} {:>12} rows   {}",
                    format!("{}.{}", table.db, table.table),
                    table.rows,
                    table.hash
                )?;
            }
            writeln!(f, "  result hash {hash}")?;
        }
        writeln!(f, "  {}", self.settings)?;
        write!(f, "  {}, load {}", self.machine, self.load_average)
    }
}
