//! Contenders of a comparison: how each is set up, and its properties.
//!
//! In: the options. Out: a list in the table's order, each entry with the settings to print. Never here: a run.

use super::CompareArgs;

/// Something that replays the log, or copies it.
#[derive(Clone, Debug)]
pub(super) struct Contender {
    pub name: String,
    pub how: How,
    /// Settings as text for the report; ours report them themselves.
    pub settings: String,
    pub traits: Traits,
    /// True if it replays only the first part of the log.
    pub first_part: bool,
}

/// How a contender runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum How {
    /// `lab replay` with these arguments.
    Slipstream(Vec<String>),
    /// MySQL's applier over relay logs that are already in place, with these server options.
    Applier(Vec<String>),
    /// `mysqlbinlog | mysql` into a server with these options.
    Client(Vec<String>),
    /// `mysqlbinlog --raw` from a server that has the log.
    Copy,
}

/// Properties of a contender, printed beside its figures.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Traits {
    /// When the received log is synced within the measured time.
    pub source_log_synced: &'static str,
    /// When the stored rows are synced within the measured time.
    pub store_synced: &'static str,
    /// Whether secondary indexes are maintained.
    pub indexes: &'static str,
    /// Who can read consistently during replay.
    pub readers: &'static str,
    /// Whether commits become visible in the source's order.
    pub visible_in_order: &'static str,
}

const OURS: Traits = Traits {
    source_log_synced: "10 ms or 16 MiB",
    store_synced: "no (memory)",
    indexes: "yes",
    readers: "snapshots",
    visible_in_order: "yes",
};

/// MySQL's relay log is in place before the clock starts, so the figure includes neither writing nor syncing it.
const APPLIER: Traits = Traits {
    source_log_synced: "before, untimed",
    store_synced: "each commit group",
    indexes: "yes",
    readers: "snapshots",
    visible_in_order: "yes",
};

/// Options of MySQL's applier "relaxed best": nothing is durable.
fn relaxed(workers: u32) -> Vec<String> {
    [
        "--skip-log-bin".to_owned(),
        "--log-replica-updates=OFF".to_owned(),
        "--innodb-flush-log-at-trx-commit=0".to_owned(),
        "--innodb-doublewrite=OFF".to_owned(),
        "--innodb-redo-log-capacity=2G".to_owned(),
        "--performance-schema=OFF".to_owned(),
        format!("--replica-parallel-workers={workers}"),
    ]
    .to_vec()
}

/// All contenders in the table's order; those that need a MySQL server only if there is one.
pub(super) fn contenders(args: &CompareArgs, has_mysql: bool) -> Vec<Contender> {
    let mut all = vec![ours("slipstream", &[], OURS)];
    if let Some(memory) = &args.memory {
        let traits = Traits { store_synced: "each cut", ..OURS };
        all.push(ours(&format!("slipstream --memory {memory}"), &["--memory", memory], traits));
    }
    let stock = [
        "--grain",
        "transactions",
        "--dependency-tracking",
        "source",
        "--wait",
        "scheduler",
        "--preserve-commit-order",
        "on",
        "--hand-off",
        "event",
        "--worker-queue-events",
        "16384",
        "--decoders",
        "0",
    ];
    all.push(ours("slipstream, as stock", &stock, OURS));
    if has_mysql {
        all.extend(mysql(args));
    }
    all.retain(|one| args.only.is_empty() || args.only.iter().any(|text| one.name.contains(text.as_str())));
    all
}

fn ours(name: &str, arguments: &[&str], traits: Traits) -> Contender {
    Contender {
        name: name.to_owned(),
        how: How::Slipstream(arguments.iter().map(|&text| text.to_owned()).collect()),
        settings: String::new(),
        traits,
        first_part: false,
    }
}

fn mysql(args: &CompareArgs) -> Vec<Contender> {
    let applier = |name: &str, options: Vec<String>, traits| Contender {
        name: name.to_owned(),
        settings: if options.is_empty() { "as it ships".to_owned() } else { options.join(" ") },
        how: How::Applier(options),
        traits,
        first_part: args.first.is_some(),
    };
    let durable = ["--sync-binlog=1", "--innodb-flush-log-at-trx-commit=1", "--sync-relay-log=1"];
    let durable =
        durable.into_iter().map(str::to_owned).chain([format!("--replica-parallel-workers={}", args.durable_workers)]);
    let not_durable = Traits { store_synced: "no (once a second)", ..APPLIER };
    let relaxed = relaxed(args.relaxed_workers);
    vec![
        applier("mysql applier, defaults", Vec::new(), APPLIER),
        applier("mysql applier, durable", durable.collect(), APPLIER),
        applier("mysql applier, relaxed", relaxed.clone(), not_durable),
        Contender {
            name: "mysqlbinlog | mysql".into(),
            settings: relaxed.join(" "),
            how: How::Client(relaxed),
            traits: Traits { source_log_synced: "before, untimed", visible_in_order: "yes, serial", ..not_durable },
            first_part: true,
        },
        Contender {
            name: "mysqlbinlog --raw".into(),
            settings: "copies only: reads the log from a server over TCP, writes files".into(),
            how: How::Copy,
            traits: Traits {
                source_log_synced: "no",
                store_synced: "no store",
                indexes: "no",
                readers: "none",
                visible_in_order: "-",
            },
            first_part: false,
        },
    ]
}
