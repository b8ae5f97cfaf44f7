//! Contenders of a comparison: how each is set up, and its properties.
//!
//! In: the options. Out: a list in the table's order, each entry with the settings to print. Never here: a run, or what
//! a stock server syncs: that is read from the server that ran.

use std::borrow::Cow;
use std::path::PathBuf;

use super::CompareArgs;

/// Something that replays the log, or copies it.
#[derive(Clone, Debug)]
pub(crate) struct Contender {
    pub name: String,
    pub how: How,
    /// Settings as text for the report; ours and MySQL's appliers report them themselves.
    pub settings: String,
    /// Of a stock server, what the server does not report.
    pub traits: Traits,
    /// True if it replays only the first part of the log.
    pub first_part: bool,
    /// A question to a stock server at its end: names and numbers.
    pub ask: Option<&'static str>,
    /// A library that a stock server loads first, or several, with colons between.
    pub preload: Option<PathBuf>,
    /// True if the stacks of a stock server's threads are sampled meanwhile.
    pub stacks: bool,
    /// Our program; None: the one of this build.
    pub program: Option<PathBuf>,
}

impl Contender {
    /// MySQL's applier with these options and nothing else that differs from how it ships.
    pub(crate) fn applier(name: &str, options: Vec<String>) -> Contender {
        Contender {
            name: name.to_owned(),
            settings: String::new(),
            how: How::Applier(options),
            traits: APPLIER,
            first_part: false,
            ask: None,
            preload: None,
            stacks: false,
            program: None,
        }
    }

    /// As [`applier`](Self::applier), with a library loaded first.
    pub(crate) fn preloaded(name: &str, library: PathBuf) -> Contender {
        Contender { preload: Some(library), ..Contender::applier(name, Vec::new()) }
    }

    /// `lab replay` with these arguments.
    pub(crate) fn ours(name: &str, arguments: &[&str]) -> Contender {
        ours(name, arguments, OURS)
    }
}

/// How a contender runs.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum How {
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
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Traits {
    /// When a log is synced within the measured time: of ours the relay log, of a stock server its binary log.
    pub log_synced: Cow<'static, str>,
    /// When the stored rows are synced within the measured time.
    pub store_synced: Cow<'static, str>,
    /// Whether secondary indexes are maintained.
    pub indexes: &'static str,
    /// Who can read consistently during replay.
    pub readers: &'static str,
    /// Whether commits become visible in the source's order.
    pub visible_in_order: &'static str,
}

const OURS: Traits = Traits {
    log_synced: Cow::Borrowed("10 ms or 16 MiB"),
    store_synced: Cow::Borrowed("no (memory)"),
    indexes: "yes",
    readers: "snapshots",
    visible_in_order: "yes",
};

/// MySQL's relay log is in place before the clock starts, so the figure includes neither writing nor syncing it.
const APPLIER: Traits = Traits {
    log_synced: Cow::Borrowed(""),
    store_synced: Cow::Borrowed(""),
    indexes: "yes",
    readers: "snapshots",
    visible_in_order: "yes",
};

/// Options of MySQL's applier "relaxed": nothing is durable, and five more settings that make it faster.
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
        let traits = Traits { store_synced: "each cut".into(), ..OURS };
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
        ask: None,
        preload: None,
        stacks: false,
        program: None,
    }
}

fn mysql(args: &CompareArgs) -> Vec<Contender> {
    let applier = |name: String, options: Vec<String>| Contender {
        first_part: args.first.is_some(),
        ..Contender::applier(&name, options)
    };
    let workers = args.workers;
    let relaxed = relaxed(args.relaxed_workers);
    vec![
        applier("mysql applier, defaults".into(), Vec::new()),
        applier(format!("mysql applier, {workers} workers"), vec![format!("--replica-parallel-workers={workers}")]),
        applier("mysql applier, relaxed".into(), relaxed.clone()),
        Contender {
            name: "mysqlbinlog | mysql".into(),
            settings: String::new(),
            how: How::Client(relaxed),
            traits: Traits { visible_in_order: "yes, serial", ..APPLIER },
            first_part: true,
            ask: None,
            preload: None,
            stacks: false,
            program: None,
        },
        Contender {
            name: "mysqlbinlog --raw".into(),
            settings: "copies only: reads the log from a server over TCP, writes files".into(),
            how: How::Copy,
            traits: Traits {
                log_synced: "no".into(),
                store_synced: "no store".into(),
                indexes: "no",
                readers: "none",
                visible_in_order: "-",
            },
            first_part: false,
            ask: None,
            preload: None,
            stacks: false,
            program: None,
        },
    ]
}
