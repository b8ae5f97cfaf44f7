//! Options of `lab replay` for the grain and for MySQL's mechanisms under it.
//!
//! In: flags. Out: a [`Grain`]. Never here: an option without effect. One that means nothing under the chosen grain is
//! an error.

use anyhow::bail;
use apply::transactions::{
    CommitOrder, HandOff, TransactionOptions, WORKER_QUEUE_EVENTS, WORKER_QUEUE_EVENTS_STOCK, WaitAt,
};
use clap::{Args, ValueEnum};
use decode::trackers::{HISTORY_SIZE_MAX, Rules, TrackerKind, TrackerOptions};

/// Division of work among apply workers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Grain {
    /// Each worker applies the rows of its lanes.
    #[default]
    Rows,
    /// Each worker applies whole transactions.
    Transactions(TransactionOptions),
}

/// `--grain`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum GrainName {
    /// Each worker applies the rows of its lanes, in log order; nothing depends on anything
    Rows,
    /// Each worker applies whole transactions
    Transactions,
}

/// `--dependency-tracking`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum TrackingName {
    /// The log's numbers, as MySQL's applier reads them: workers are drained at file ends, gaps and parents of 0
    Source,
    /// The log's numbers, carried across file ends and gaps
    CommitOrder,
    /// Computed from the changed rows
    Writeset,
    /// As writeset, but never before the session's previous transaction
    WritesetSession,
    /// Computed from the changed databases
    Database,
}

/// `--tracker-rules`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum RulesName {
    /// Ours; continue where MySQL's would stop
    Own,
    /// MySQL's
    Stock,
}

/// `--wait`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum WaitName {
    /// The scheduler; everything after the transaction waits with it
    Scheduler,
    /// The worker that has the transaction
    Worker,
}

/// `--hand-off`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum HandOffName {
    /// Event by event, through one latch that all share
    Event,
    /// Whole transactions
    Batch,
}

/// ON or OFF.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Switch {
    /// Yes
    On,
    /// No
    Off,
}

/// Grain, and scheduling of transactions.
#[derive(Clone, Debug, Default, Args)]
pub struct GrainFlags {
    /// Who applies what [default: rows]. `transactions` is how MySQL's multi-threaded applier works
    /// (replica_parallel_workers; sections 10.1.4 and 10.2.1); with it --decoders 0 lets the scheduling thread decode,
    /// as stock (section 10.3.1)
    #[arg(long, value_name = "GRAIN", help_heading = "Grain", ignore_case = true)]
    pub grain: Option<GrainName>,
    /// What a transaction must wait for [default: writeset] (binlog_transaction_dependency_tracking,
    /// replica_parallel_type; section 3.1 of the Group Replication post)
    #[arg(long, value_name = "HOW", help_heading = "Grain", ignore_case = true)]
    pub dependency_tracking: Option<TrackingName>,
    /// Rules that a recomputing tracker follows [default: own]. stock: a history that is cleared by each file end, DDL,
    /// foreign key's parent and overflow, and commit parents as a bound (rpl_trx_tracking.cc)
    #[arg(long, value_name = "RULES", help_heading = "Grain", ignore_case = true)]
    pub tracker_rules: Option<RulesName>,
    /// Claims a writeset tracker remembers, 1 to 1000000 [default: 1000000; MySQL before 9.5: 25000]
    /// (binlog_transaction_dependency_history_size)
    #[arg(long, value_name = "N", help_heading = "Grain",
          value_parser = clap::builder::RangedU64ValueParser::<usize>::new().range(1..=HISTORY_SIZE_MAX as u64))]
    pub history_size: Option<usize>,
    /// Who waits for a transaction's dependencies [default: worker; stock: scheduler] (section 10.3.3)
    #[arg(long, value_name = "WHO", help_heading = "Grain", ignore_case = true)]
    pub wait: Option<WaitName>,
    /// Workers hold a transaction until all before it are committed [default: on] (replica_preserve_commit_order;
    /// section 10.1.2)
    #[arg(long, value_name = "ON|OFF", help_heading = "Grain", ignore_case = true)]
    pub preserve_commit_order: Option<Switch>,
    /// How transactions reach workers [default: batch; stock: event] (pending_jobs_lock; section 10.3.5)
    #[arg(long, value_name = "HOW", help_heading = "Grain", ignore_case = true)]
    pub hand_off: Option<HandOffName>,
    /// Events a worker's queue holds [default: 1048576; stock: 16384] (mts_slave_worker_queue_len_max; section 10.3.2)
    #[arg(long, value_name = "N", help_heading = "Grain",
          value_parser = clap::builder::RangedU64ValueParser::<usize>::new().range(1..=1 << 30))]
    pub worker_queue_events: Option<usize>,
}

impl GrainFlags {
    /// The requested grain.
    ///
    /// # Errors
    /// An option has no meaning with the others.
    pub fn grain(&self) -> anyhow::Result<Grain> {
        if self.grain != Some(GrainName::Transactions) {
            let given = [
                ("--dependency-tracking", self.dependency_tracking.is_some()),
                ("--tracker-rules", self.tracker_rules.is_some()),
                ("--history-size", self.history_size.is_some()),
                ("--wait", self.wait.is_some()),
                ("--preserve-commit-order", self.preserve_commit_order.is_some()),
                ("--hand-off", self.hand_off.is_some()),
                ("--worker-queue-events", self.worker_queue_events.is_some()),
            ];
            if let Some((name, _)) = given.iter().find(|(_, given)| *given) {
                bail!("{name} means nothing for lanes of rows; it goes with --grain transactions");
            }
            return Ok(Grain::Rows);
        }
        let kind = match self.dependency_tracking {
            Some(TrackingName::Source) => TrackerKind::Source,
            Some(TrackingName::CommitOrder) => TrackerKind::CommitOrder,
            None | Some(TrackingName::Writeset) => TrackerKind::Writeset,
            Some(TrackingName::WritesetSession) => TrackerKind::WritesetSession,
            Some(TrackingName::Database) => TrackerKind::Database,
        };
        if self.history_size.is_some() && !kind.has_history() {
            bail!("--history-size goes with --dependency-tracking writeset and writeset-session, which have a history");
        }
        if self.tracker_rules.is_some() && matches!(kind, TrackerKind::Source | TrackerKind::Database) {
            bail!(
                "--tracker-rules means nothing for --dependency-tracking source and database, which have one set of rules"
            );
        }
        let rules = if self.tracker_rules == Some(RulesName::Stock) { Rules::Stock } else { Rules::Own };
        Ok(Grain::Transactions(TransactionOptions {
            tracker: TrackerOptions { kind, rules, history_size: self.history_size.unwrap_or(HISTORY_SIZE_MAX) },
            wait: if self.wait == Some(WaitName::Scheduler) { WaitAt::Scheduler } else { WaitAt::Worker },
            commit_order: match self.preserve_commit_order {
                Some(Switch::Off) => CommitOrder::Free,
                _ => CommitOrder::Preserved,
            },
            hand_off: if self.hand_off == Some(HandOffName::Event) { HandOff::Event } else { HandOff::Batch },
            worker_queue_events: self.worker_queue_events.unwrap_or(WORKER_QUEUE_EVENTS),
        }))
    }
}

/// The grain of transactions with all of ours: what `--grain transactions` alone means.
#[must_use]
pub fn own() -> TransactionOptions {
    let tracker = TrackerOptions { kind: TrackerKind::Writeset, rules: Rules::Own, history_size: HISTORY_SIZE_MAX };
    TransactionOptions { tracker, ..TransactionOptions::default() }
}

/// MySQL's applier as shipped, as closely as this store allows: without decoders.
#[must_use]
pub fn stock() -> TransactionOptions {
    TransactionOptions {
        tracker: TrackerOptions { kind: TrackerKind::Source, rules: Rules::Stock, history_size: HISTORY_SIZE_MAX },
        wait: WaitAt::Scheduler,
        commit_order: CommitOrder::Preserved,
        hand_off: HandOff::Event,
        worker_queue_events: WORKER_QUEUE_EVENTS_STOCK,
    }
}

impl Grain {
    /// Text for the report.
    #[must_use]
    pub fn text(&self) -> String {
        let Grain::Transactions(options) = self else { return "grain rows".into() };
        let TransactionOptions { tracker, wait, commit_order, hand_off, worker_queue_events } = options;
        let (kind, has_rules) = match tracker.kind {
            TrackerKind::Source => ("source", false),
            TrackerKind::CommitOrder => ("commit-order", true),
            TrackerKind::Writeset => ("writeset", true),
            TrackerKind::WritesetSession => ("writeset-session", true),
            TrackerKind::Database => ("database", false),
        };
        let rules = match (has_rules, tracker.rules) {
            (false, _) => "",
            (true, Rules::Own) => ", own rules",
            (true, Rules::Stock) => ", stock rules",
            (true, Rules::InnoDb) => ", InnoDB's rules",
        };
        let history = match tracker.kind.has_history() {
            true => format!(", {} claims", tracker.history_size),
            false => String::new(),
        };
        let wait = match wait {
            WaitAt::Scheduler => "scheduler",
            WaitAt::Worker => "worker",
        };
        let order = match commit_order {
            CommitOrder::Preserved => "preserved",
            CommitOrder::Free => "free",
        };
        let hand_off = match hand_off {
            HandOff::Event => "event",
            HandOff::Batch => "batch",
        };
        format!(
            "grain transactions, dependency tracking {kind}{rules}{history}, the {wait} waits, commit order {order}, \
             hand-off by {hand_off}, queues of {worker_queue_events} events"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Cli {
        #[command(flatten)]
        grain: GrainFlags,
    }

    fn grain(line: &str) -> Result<Grain, String> {
        let arguments = std::iter::once("lab").chain(line.split_whitespace());
        let cli = Cli::try_parse_from(arguments).map_err(|error| error.to_string())?;
        cli.grain.grain().map_err(|error| error.to_string())
    }

    #[test]
    fn flags_reach_the_options() {
        assert_eq!(grain(""), Ok(Grain::Rows));
        assert_eq!(grain("--grain transactions"), Ok(Grain::Transactions(own())));
        let line = "--grain transactions --dependency-tracking source --wait scheduler --preserve-commit-order ON \
                    --hand-off event --worker-queue-events 16384";
        let Ok(Grain::Transactions(options)) = grain(line) else { panic!("not taken") };
        assert_eq!(TransactionOptions { tracker: stock().tracker, ..options }, stock());
        let line = "--grain transactions --dependency-tracking writeset --tracker-rules stock --history-size 25000";
        let Ok(Grain::Transactions(options)) = grain(line) else { panic!("not taken") };
        assert_eq!((options.tracker.rules, options.tracker.history_size), (Rules::Stock, 25_000));
    }

    #[test]
    fn what_means_nothing_is_refused() {
        let options = [
            "--dependency-tracking source",
            "--tracker-rules own",
            "--history-size 5",
            "--wait worker",
            "--preserve-commit-order on",
            "--hand-off batch",
            "--worker-queue-events 7",
        ];
        for option in options {
            let name = option.split(' ').next().unwrap_or_default();
            for grain_of in ["", "--grain rows "] {
                let refused = grain(&format!("{grain_of}{option}")).expect_err(option);
                assert!(refused.contains(name) && refused.contains("--grain transactions"), "{refused}");
            }
        }
        let refused = [
            "--dependency-tracking source --history-size 5",
            "--dependency-tracking database --history-size 5",
            "--dependency-tracking database --tracker-rules stock",
            "--dependency-tracking source --tracker-rules own",
            "--history-size 0",
            "--history-size 1000001",
            "--worker-queue-events 0",
        ];
        for line in refused {
            assert!(grain(&format!("--grain transactions {line}")).is_err(), "{line}");
        }
    }
}
