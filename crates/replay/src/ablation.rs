//! `lab ablation`: measures the worth of each mechanism by replaying the same log alternately with and without it.
//!
//! In: logs. Out: for each mechanism the medians of both sides, their ratio, the counter that shows it at work, and
//! whether all replays ended the same. Never here: a verdict. On two cores some mechanisms have no effect.

use std::fmt;
use std::path::PathBuf;

use anyhow::bail;
use apply::transactions::{CommitOrder, HandOff, TransactionOptions, WORKER_QUEUE_EVENTS_STOCK, WaitAt};
use clap::{Args, ValueEnum};
use decode::trackers::{Rules, TrackerKind};
use relay_log::SyncPolicy;
use serde::Serialize;
use store::CheckImages;

use crate::conditions::Conditions;
use crate::table::Table;
use crate::turns::{self, Interval, median, ratios, turns};
use crate::{Grain, ReplayOptions, ReplayReport, grain, replay};

/// MySQL's default history size before 9.5.
const HISTORY_SIZE_OLD: usize = 25_000;

/// Starting point from which mechanisms are removed, or to which they are added.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum, Serialize)]
pub enum Base {
    /// The grain of transactions with all of ours: one of them is removed at a time
    #[default]
    Own,
    /// As close to stock as it gets: one of ours is added at a time
    Stock,
}

/// Options of `lab ablation`.
#[derive(Debug, Clone, Args)]
pub struct AblationArgs {
    /// Binlog files, or index files that list them, in order
    #[arg(required = true, value_name = "LOG")]
    pub logs: Vec<PathBuf>,
    /// Binlog or index file to replay before the measured ones, timed separately; may be repeated
    #[arg(long, value_name = "LOG")]
    pub load: Vec<PathBuf>,
    /// What mechanisms are removed from, or added to
    #[arg(long, value_enum, default_value = "own")]
    pub from: Base,
    /// Only mechanisms whose names contain this; may be repeated
    #[arg(long, value_name = "TEXT")]
    pub only: Vec<String>,
    /// Replays of each side, by turns; medians are taken, and of six or more the ratio's interval by the sign test
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=99))]
    pub rounds: u32,
    /// Apply workers [default: by the machine's cores]
    #[arg(long, value_name = "N")]
    pub workers: Option<usize>,
    /// Decoding threads, for contenders that have any [default: by the machine's cores]
    #[arg(long, value_name = "N")]
    pub decoders: Option<usize>,
    /// Folder for the replays' relay logs, used one after another [default: a temporary one in TMPDIR]
    #[arg(long, value_name = "DIR")]
    pub folder: Option<PathBuf>,
    /// Print the result as JSON
    #[arg(long)]
    pub json: bool,
}

/// One side of a comparison.
#[derive(Clone, Debug, Default, Serialize)]
pub struct Side {
    /// Name for the report.
    pub name: String,
    /// Wall seconds of each replay.
    pub wall_s: Vec<f64>,
    /// Median of write transactions a second.
    pub write_transactions_per_s: f64,
    /// Value, in the last replay, of the counter that shows the mechanism.
    pub counter: f64,
}

/// Result for one mechanism.
#[derive(Clone, Debug, Serialize)]
pub struct Row {
    /// Name of the mechanism.
    pub mechanism: &'static str,
    /// The MySQL variable that it mirrors, or a section of "How to Make MySQL Better" or of a post on group replication
    /// (GR).
    pub mirrors: &'static str,
    /// Meaning of the counter.
    pub counter: &'static str,
    /// Figures of the base.
    pub base: Side,
    /// Figures of the base with this one mechanism changed.
    pub changed: Side,
    /// Median speed of the changed side divided by that of the base.
    pub ratio: f64,
    /// Interval of the ratio, turn by turn; None for fewer than six.
    pub interval: Option<Interval>,
    /// True if all replays of both sides ended with the same rows.
    pub equal: bool,
}

/// Result of an ablation.
#[derive(Clone, Debug, Serialize)]
pub struct AblationReport {
    /// One row per mechanism.
    pub rows: Vec<Row>,
    /// Hash of the result.
    pub hash: String,
    /// Settings that all replays had in common.
    pub settings: String,
    #[serde(flatten)]
    pub conditions: Conditions,
}

/// A mechanism, as a change to how a log is replayed.
struct Mechanism {
    name: &'static str,
    mirrors: &'static str,
    counter: &'static str,
    count: fn(&ReplayReport) -> f64,
    /// Name of the changed side, given the base.
    label: String,
    change: Box<dyn Fn(&mut ReplayOptions)>,
}

/// Replays the log with and without each mechanism. `told` receives a line for each replay.
///
/// # Errors
/// A log cannot be read, or a replay stops.
pub fn ablation(args: &AblationArgs, told: &mut dyn FnMut(&str)) -> anyhow::Result<AblationReport> {
    let base = base_options(args);
    let decoders = decoders(args);
    let mechanisms: Vec<Mechanism> = mechanisms(args.from, decoders, base.workers)
        .into_iter()
        .filter(|mechanism| args.only.is_empty() || args.only.iter().any(|text| mechanism.name.contains(text.as_str())))
        .collect();
    if mechanisms.is_empty() {
        bail!("no mechanism has such a name");
    }
    let mut report = AblationReport {
        rows: Vec::new(),
        hash: String::new(),
        settings: String::new(),
        conditions: Conditions::begin(),
    };
    for mechanism in mechanisms {
        compare(args.rounds, &base, &mechanism, &mut report, told)?;
    }
    report.conditions.end();
    Ok(report)
}

fn cores() -> usize {
    std::thread::available_parallelism().map_or(1, usize::from)
}

/// Decoders of the side that has any.
fn decoders(args: &AblationArgs) -> usize {
    args.decoders.unwrap_or(cores() / 2).max(1)
}

fn base_options(args: &AblationArgs) -> ReplayOptions {
    let scratch = std::env::temp_dir().join(format!("slipstream-lab-ablation-{}", std::process::id()));
    let (transactions, decoders) = match args.from {
        Base::Own => (grain::own(), decoders(args)),
        Base::Stock => (grain::stock(), 0),
    };
    ReplayOptions {
        logs: args.logs.clone(),
        load: args.load.clone(),
        folder: args.folder.clone().unwrap_or(scratch),
        workers: args.workers.unwrap_or_else(cores),
        decoders,
        affinity: base::ThreadAffinity::default(),
        grain: Grain::Transactions(transactions),
        memory_bytes: 256 << 20,
        hot_bytes_max: None,
        on_disk: None,
        check_images: CheckImages::Sample,
        relay_sync: SyncPolicy::default(),
        pace: None,
        samples: false,
        reads: 0,
        readers: 0,
        hash: true,
    }
}

fn compare(
    rounds: u32,
    base: &ReplayOptions,
    mechanism: &Mechanism,
    report: &mut AblationReport,
    told: &mut dyn FnMut(&str),
) -> anyhow::Result<()> {
    let mut changed = base.clone();
    (mechanism.change)(&mut changed);
    let mut sides =
        [Side { name: "base".into(), ..Side::default() }, Side { name: mechanism.label.clone(), ..Side::default() }];
    let mut speeds = [Vec::new(), Vec::new()];
    let mut equal = true;
    for round in 0..rounds {
        let both = [base, &changed].into_iter().zip(&mut sides).zip(&mut speeds);
        for ((options, side), speeds) in turns(both, round) {
            let one = replay(options)?;
            side.wall_s.push(one.measured.wall_s);
            speeds.push(one.write_transactions_per_s);
            side.counter = (mechanism.count)(&one);
            let hash = one.hash.clone().unwrap_or_default();
            if report.hash.is_empty() {
                report.hash.clone_from(&hash);
                report.settings.clone_from(&one.settings);
            }
            equal &= hash == report.hash;
            told(&format!(
                "{} {}/{rounds} {}: {:.3} s, {:.0} write transactions/s",
                mechanism.name,
                round + 1,
                side.name,
                one.measured.wall_s,
                one.write_transactions_per_s
            ));
        }
    }
    for (side, speeds) in sides.iter_mut().zip(&speeds) {
        side.write_transactions_per_s = median(speeds);
    }
    let [base, changed] = sides;
    let interval = Interval::of(&ratios(&speeds[1], &speeds[0]));
    let ratio = changed.write_transactions_per_s / base.write_transactions_per_s.max(f64::MIN_POSITIVE);
    let Mechanism { name, mirrors, counter, .. } = mechanism;
    report.rows.push(Row { mechanism: name, mirrors, counter, base, changed, ratio, interval, equal });
    Ok(())
}

fn count(of: impl Fn(&crate::TransactionReport) -> f64, report: &ReplayReport) -> f64 {
    report.transactions.as_ref().map_or(0.0, of)
}

/// A change to how transactions are scheduled.
fn scheduled(change: impl Fn(&mut TransactionOptions) + 'static) -> Box<dyn Fn(&mut ReplayOptions)> {
    Box::new(move |options| {
        if let Grain::Transactions(transactions) = &mut options.grain {
            change(transactions);
        }
    })
}

fn tracked(kind: TrackerKind, rules: Rules) -> Box<dyn Fn(&mut ReplayOptions)> {
    scheduled(move |options| (options.tracker.kind, options.tracker.rules) = (kind, rules))
}

/// All mechanisms. From ours, each switches one to stock; from stock, one to ours. Each changes one option, but for
/// "all of them"; a tracker's rules count as one where both sides have any ([`TrackerKind::Source`] has none).
fn mechanisms(from: Base, decoders: usize, workers: usize) -> Vec<Mechanism> {
    let own = from == Base::Own;
    let mut all = Vec::new();
    let mut add = |name, mirrors, counter, count: fn(&ReplayReport) -> f64, label: &str, change| {
        all.push(Mechanism { name, mirrors, counter, count, label: label.to_owned(), change });
    };
    // Rows need decoders, so from stock it would be two options.
    if own {
        add(
            "grain",
            "ours",
            "jobs of whole transactions",
            |report| count(|counts| counts.jobs as f64, report),
            "rows",
            Box::new(|options: &mut ReplayOptions| options.grain = Grain::Rows),
        );
    }
    add(
        "all of them",
        "chapter 10",
        "jobs",
        |report| count(|counts| counts.jobs as f64, report),
        if own { "stock" } else { "ours" },
        Box::new(move |options: &mut ReplayOptions| {
            let (transactions, decoders) = if own { (grain::stock(), 0) } else { (grain::own(), decoders) };
            (options.grain, options.decoders) = (Grain::Transactions(transactions), decoders);
        }),
    );
    let kinds: [(&'static str, &str, TrackerKind, Rules); 7] = [
        ("tracker source", "source", TrackerKind::Source, Rules::Own),
        ("tracker commit-order", "commit-order", TrackerKind::CommitOrder, Rules::Own),
        ("tracker writeset", "writeset, own rules", TrackerKind::Writeset, Rules::Own),
        ("tracker writeset stock", "writeset, stock rules", TrackerKind::Writeset, Rules::Stock),
        ("tracker writeset-session", "writeset-session, own rules", TrackerKind::WritesetSession, Rules::Own),
        ("tracker writeset-session stock", "writeset-session, stock rules", TrackerKind::WritesetSession, Rules::Stock),
        ("tracker database", "database", TrackerKind::Database, Rules::Own),
    ];
    let distance: fn(&ReplayReport) -> f64 = |report| count(|counts| counts.parent_distance, report);
    for (name, label, kind, rules) in kinds {
        let (base_kind, base_rules) =
            if own { (TrackerKind::Writeset, Rules::Own) } else { (TrackerKind::Source, Rules::Stock) };
        let (other_kind, other_rules) = (kind != base_kind, own && rules != base_rules);
        if other_kind != other_rules {
            let mirrors = "binlog_transaction_dependency_tracking; GR post 3.1";
            add(name, mirrors, "mean distance to the parent", distance, label, tracked(kind, rules));
        }
    }
    if own {
        let forgotten: fn(&ReplayReport) -> f64 = |report| count(|counts| counts.forgotten as f64, report);
        let change = scheduled(|options| options.tracker.history_size = HISTORY_SIZE_OLD);
        let mirrors = "binlog_transaction_dependency_history_size";
        add("history size", mirrors, "times it was forgotten", forgotten, "25,000", change);
    }
    let waits: fn(&ReplayReport) -> f64 = |report| count(|counts| counts.scheduler_waits as f64, report);
    let (label, to) = if own { ("scheduler", WaitAt::Scheduler) } else { ("worker", WaitAt::Worker) };
    add("wait", "10.3.3", "waits of the scheduler", waits, label, scheduled(move |options| options.wait = to));
    add(
        "commit order",
        "replica_preserve_commit_order; 10.1.2",
        "waits for the turn",
        |report| count(|counts| counts.commit_waits as f64, report),
        "off",
        scheduled(|options| options.commit_order = CommitOrder::Free),
    );
    let (label, to) = if own { ("the scheduler decodes", 0) } else { ("decoders", decoders) };
    let decoded: fn(&ReplayReport) -> f64 = |report| count(|counts| counts.decoded_by_scheduler as f64, report);
    let change = Box::new(move |options: &mut ReplayOptions| options.decoders = to);
    add("decoders", "10.3.1", "pieces decoded by the scheduler", decoded, label, change);
    let (label, to) = if own { ("event", HandOff::Event) } else { ("batch", HandOff::Batch) };
    let latches: fn(&ReplayReport) -> f64 = |report| count(|counts| counts.latches as f64, report);
    add("hand-off", "pending_jobs_lock; 10.3.5", "latch taken", latches, label, scheduled(move |o| o.hand_off = to));
    let to = if own { WORKER_QUEUE_EVENTS_STOCK } else { apply::transactions::WORKER_QUEUE_EVENTS };
    let queue_waits: fn(&ReplayReport) -> f64 = |report| count(|counts| counts.queue_waits as f64, report);
    let change = scheduled(move |options| options.worker_queue_events = to);
    let mirrors = "mts_slave_worker_queue_len_max; 10.3.2";
    add("worker queue", mirrors, "waits for room", queue_waits, &to.to_string(), change);
    let syncs: fn(&ReplayReport) -> f64 = |report| report.relay_syncs as f64;
    let policies = [
        ("relay sync each", "every transaction", SyncPolicy::EveryTransaction),
        ("relay sync never", "never", SyncPolicy::Never),
    ];
    for (name, label, policy) in policies {
        let change = Box::new(move |options: &mut ReplayOptions| options.relay_sync = policy);
        add(name, "sync_relay_log; 10.3.6", "syncs", syncs, label, change);
    }
    let at_once: fn(&ReplayReport) -> f64 = |report| count(|counts| counts.at_once_max as f64, report);
    for (name, number) in [("workers 1", 1), ("workers 4", 4), ("workers 16", 16)] {
        if number != workers {
            let change = Box::new(move |options: &mut ReplayOptions| options.workers = number);
            add(
                name,
                "replica_parallel_workers; GR post 3.2",
                "handed out at once",
                at_once,
                &number.to_string(),
                change,
            );
        }
    }
    all
}

impl AblationReport {
    /// True if all replays ended with the same rows.
    #[must_use]
    pub fn is_equal(&self) -> bool {
        self.rows.iter().all(|row| row.equal)
    }
}

impl fmt::Display for AblationReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut table = Table::new([
            "mechanism",
            "changed to",
            "base tx/s",
            "tx/s",
            "ratio",
            "ratio, turn by turn",
            "counter",
            "base",
            "changed",
            "",
        ]);
        for row in &self.rows {
            table.row([
                row.mechanism.to_owned(),
                row.changed.name.clone(),
                format!("{:.0}", row.base.write_transactions_per_s),
                format!("{:.0}", row.changed.write_transactions_per_s),
                format!("{:.2}", row.ratio),
                turns::text(row.interval),
                row.counter.to_owned(),
                format!("{:.1}", row.base.counter),
                format!("{:.1}", row.changed.counter),
                if row.equal { "" } else { "DIFFERENT ROWS" }.to_owned(),
            ]);
        }
        write!(f, "{table}")?;
        writeln!(f, "base: {}", self.settings)?;
        writeln!(f, "result hash {} of {}", self.hash, if self.is_equal() { "all" } else { "the first only" })?;
        writeln!(f, "{}", self.conditions)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Cli {
        #[command(flatten)]
        ablation: AblationArgs,
    }

    /// Options in which two replays differ. A kind of tracker without rules differs from one with rules in its kind.
    fn differing(base: &ReplayOptions, changed: &ReplayOptions) -> Vec<&'static str> {
        let mut found = Vec::new();
        let mut note = |name, differs: bool| found.extend(differs.then_some(name));
        note("workers", base.workers != changed.workers);
        note("decoders", base.decoders != changed.decoders);
        note("relay sync", base.relay_sync != changed.relay_sync);
        match (base.grain, changed.grain) {
            (Grain::Transactions(a), Grain::Transactions(b)) => {
                let ruled = a.tracker.kind != TrackerKind::Source && b.tracker.kind != TrackerKind::Source;
                note("kind", a.tracker.kind != b.tracker.kind);
                note("rules", ruled && a.tracker.rules != b.tracker.rules);
                note("history", a.tracker.history_size != b.tracker.history_size);
                note("wait", a.wait != b.wait);
                note("commit order", a.commit_order != b.commit_order);
                note("hand-off", a.hand_off != b.hand_off);
                note("queue", a.worker_queue_events != b.worker_queue_events);
            }
            (a, b) => note("grain", a != b),
        }
        found
    }

    #[test]
    fn the_bases_are_what_they_are_called_and_every_line_changes_one_option() {
        for (from, transactions) in [("own", grain::own()), ("stock", grain::stock())] {
            let args = Cli::try_parse_from(["ablation", "a.index", "--from", from, "--workers", "3"]).unwrap().ablation;
            let base = base_options(&args);
            assert_eq!(base.grain, Grain::Transactions(transactions));
            assert_eq!(base.decoders > 0, from == "own");
            let all = mechanisms(args.from, decoders(&args), base.workers);
            assert!(all.len() > 12, "{}", all.len());
            for mechanism in &all {
                let mut changed = base.clone();
                (mechanism.change)(&mut changed);
                let differing = differing(&base, &changed);
                match mechanism.name {
                    "all of them" => assert!(differing.len() > 4, "{differing:?}"),
                    name => assert_eq!(differing.len(), 1, "{from}, {name}: {differing:?}"),
                }
            }
        }
    }
}
