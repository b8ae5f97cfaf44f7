//! Result of `lab clocks`, as values and as a table.

use std::fmt;

use serde::Serialize;

use super::logs::Log;
use super::runs::Sample;
use super::{ClocksArgs, ITS_SOURCE};
use crate::figures::result::{Found, Side};
use replay::conditions::Conditions;
use replay::table::Table;
use replay::turns::{self, Interval, median, ratios};

/// Measure over the number of clients.
pub(crate) const SPEED: &str = "transactions a second";

/// One log, applied in one way.
#[derive(Clone, Debug, Serialize)]
pub struct Line {
    /// Milliseconds that each sync took longer.
    pub sync_delay_ms: f64,
    /// replica_parallel_workers.
    pub workers: u32,
    /// Clients of the recording.
    pub clients: u32,
    /// Who stamped the log.
    pub stamped_by: String,
    /// Seconds of each round.
    pub seconds: Vec<f64>,
    /// Transactions begun again, over all rounds.
    pub retries: u64,
}

impl Line {
    /// True if another log is applied with as many workers, to a disk that syncs as fast.
    fn is_applied_as(&self, other: &Line) -> bool {
        (self.workers, self.sync_delay_ms.to_bits()) == (other.workers, other.sync_delay_ms.to_bits())
    }

    /// Median of the rounds, in seconds.
    #[must_use]
    pub fn median_s(&self) -> f64 {
        median(&self.seconds)
    }
}

/// How long a source took to write its log.
#[derive(Clone, Debug, Serialize)]
pub struct Recorded {
    /// Clients that wrote it.
    pub clients: u32,
    /// True for the log with WRITESET.
    pub is_reference: bool,
    pub seconds: f64,
}

/// Result of a run.
#[derive(Clone, Debug, Serialize)]
pub struct ClocksReport {
    /// The recordings, in order.
    pub recorded: Vec<Recorded>,
    /// One a log and way, in the order of the first round.
    pub lines: Vec<Line>,
    pub workload: String,
    /// Transactions of each recording.
    pub transactions: u64,
    /// Hash over the rows of all sources, which all replicas had too.
    pub hash: String,
    /// True if the clock ran from before the relay's start, and while the log was received.
    pub put_in_between: bool,
    /// innodb_flush_log_at_trx_commit of the replicas.
    pub flush_log: u8,
    /// A sync of this disk, in microseconds, median.
    pub disk_sync_us: f64,
    /// Version of the stock servers.
    pub mysql_version: String,
    #[serde(flatten)]
    pub conditions: Conditions,
}

impl ClocksReport {
    pub(super) fn new(args: &ClocksArgs, mysql_version: String, disk_sync_us: f64) -> ClocksReport {
        let workload = if args.workload == "tpcc" {
            format!("tpcc, {} warehouses, foreign keys", args.tables)
        } else {
            format!("{}, {} tables of {} rows, uniform, seed {}", args.workload, args.tables, args.rows, args.seed)
        };
        ClocksReport {
            recorded: Vec::new(),
            lines: Vec::new(),
            workload,
            transactions: args.transactions,
            hash: String::new(),
            put_in_between: args.put_in_between,
            flush_log: args.flush_log,
            disk_sync_us,
            mysql_version,
            conditions: Conditions::begin(),
        }
    }

    pub(super) fn add(&mut self, log: &Log, sync_delay_ms: f64, workers: u32, sample: &Sample) {
        let (clients, stamped_by) = (log.clients, log.stamps.name());
        let same = |line: &Line| {
            line.sync_delay_ms.to_bits() == sync_delay_ms.to_bits()
                && (line.workers, line.clients, &line.stamped_by) == (workers, clients, &stamped_by)
        };
        let at = self.lines.iter().position(same).unwrap_or_else(|| {
            let (seconds, retries) = (Vec::new(), 0);
            self.lines.push(Line { sync_delay_ms, workers, clients, stamped_by, seconds, retries });
            self.lines.len() - 1
        });
        if let Some(line) = self.lines.get_mut(at) {
            line.seconds.push(sample.wall_s);
            line.retries += sample.retries;
        }
    }
}

impl ClocksReport {
    /// The report as a figure: transactions a second over the clients that wrote the log, a line for each way of
    /// stamping and of applying, and one for the sources themselves.
    #[must_use]
    pub fn found(&self) -> Found {
        let transactions = self.transactions as f64;
        let rate = |seconds: &f64| transactions / seconds.max(1e-9);
        let mut found = Found {
            unit: SPEED,
            axis: Some("clients"),
            mysql_version: self.mysql_version.clone(),
            hash: Some(self.hash.clone()),
            notes: vec![format!("{}; {} transactions", self.workload, self.transactions)],
            ..Found::default()
        };
        let is_one_way =
            self.lines.iter().all(|line| self.lines.first().is_some_and(|first| line.is_applied_as(first)));
        for line in &self.lines {
            let own = line.stamped_by == ITS_SOURCE;
            let stamps = if own { "COMMIT_ORDER" } else { line.stamped_by.as_str() };
            let name = match is_one_way {
                true => stamps.to_owned(),
                false => format!("{stamps}, {} workers, sync + {} ms", line.workers, line.sync_delay_ms),
            };
            let side = if own { Side::Base } else { Side::Slipstream };
            let options = format!("replica_parallel_workers={}", line.workers);
            for seconds in &line.seconds {
                found.add((&name, side), &line.clients.to_string(), rate(seconds), &options);
            }
        }
        for one in self.recorded.iter().filter(|one| !one.is_reference) {
            let (who, at) = (("the source, writing it", Side::Base), one.clients.to_string());
            found.add(who, &at, rate(&one.seconds), "it syncs every commit");
        }
        found
    }
}

impl fmt::Display for ClocksReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut table = Table::new([
            "sync +ms",
            "workers",
            "clients",
            "stamped by",
            "seconds",
            "min to max",
            "times",
            "times, round by round",
            "WRITESET",
            "retries",
        ]);
        for line in &self.lines {
            let of = |clients: Option<u32>, by: &str| {
                let same = |other: &&Line| {
                    other.sync_delay_ms.to_bits() == line.sync_delay_ms.to_bits()
                        && other.workers == line.workers
                        && clients.is_none_or(|clients| other.clients == clients)
                        && other.stamped_by == by
                };
                self.lines.iter().find(same)
            };
            let seconds = line.median_s();
            let (least, most) = line.seconds.iter().fold((f64::MAX, 0.0f64), |(a, b), &s| (a.min(s), b.max(s)));
            let ratio = |value: Option<f64>| value.map_or_else(|| "-".into(), |value| format!("{value:.2}"));
            let own = of(Some(line.clients), &super::Stamps::Source.name());
            let times = own.map(|own| own.median_s() / seconds);
            let part = of(None, &super::Stamps::Reference.name()).map(|reference| seconds / reference.median_s());
            let interval = own.and_then(|own| Interval::of(&ratios(&own.seconds, &line.seconds)));
            table.row([
                line.sync_delay_ms.to_string(),
                line.workers.to_string(),
                line.clients.to_string(),
                line.stamped_by.clone(),
                format!("{seconds:.2}"),
                format!("{least:.2} to {most:.2}"),
                ratio(times),
                turns::text(interval),
                ratio(part),
                line.retries.to_string(),
            ]);
        }
        write!(f, "{table}")?;
        writeln!(f, "times: how many times as fast as with the source's own clocks; WRITESET: of that log's time")?;
        if self.put_in_between {
            writeln!(f, "the clock ran from before the relay's first start, and while the log was received")?;
        }
        let recorded = |one: &Recorded| format!("{} in {:.2} s", one.clients, one.seconds);
        let recorded: Vec<String> = self.recorded.iter().map(recorded).collect();
        writeln!(f, "clients that wrote a log, and the time it took at the source: {}", recorded.join(", "))?;
        writeln!(f, "{} transactions of {}; result hash {}", self.transactions, self.workload, self.hash)?;
        let rounds = self.lines.first().map_or(0, |line| line.seconds.len());
        writeln!(
            f,
            "mysql {}, innodb_flush_log_at_trx_commit={}, a sync of this disk {:.0} µs; medians of {rounds}; {}",
            self.mysql_version, self.flush_log, self.disk_sync_us, self.conditions
        )
    }
}
