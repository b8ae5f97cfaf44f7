//! Contenders of a comparison: how each is set up, and its properties.
//!
//! In: the options. Out: a list in the table's order. Never here: a run, or what
//! a stock server syncs: that is read from the server that ran.

use std::borrow::Cow;
use std::path::PathBuf;

use super::CompareArgs;
use crate::contenders::{Contender as Who, Whose};

/// Something that replays the log, or copies it.
#[derive(Clone, Debug)]
pub(crate) struct Contender {
    pub who: Who,
    pub how: How,
    /// Of a stock server, what the server does not report.
    pub traits: Traits,
    /// True if it replays only the first part of the log.
    pub first_part: bool,
    /// A question to a stock server at its end: names and numbers.
    pub ask: Option<&'static str>,
    /// True if the stacks of a stock server's threads are sampled meanwhile.
    pub stacks: bool,
    /// Our program; None: the one of this build.
    pub program: Option<PathBuf>,
}

impl Contender {
    /// MySQL's applier with these options and nothing else that differs from how it ships.
    pub(crate) fn applier(name: &str, options: Vec<String>) -> Contender {
        Contender::of(Who::new(name, Whose::Mysql, options))
    }

    /// As [`applier`](Self::applier), with a library loaded first.
    pub(crate) fn preloaded(name: &str, library: PathBuf) -> Contender {
        Contender::of(Who { preload: Some(library), ..Who::new(name, Whose::Mysql, Vec::new()) })
    }

    /// `lab replay` with these arguments.
    pub(crate) fn ours(name: &str, arguments: &[&str]) -> Contender {
        let arguments = arguments.iter().map(|&text| text.to_owned()).collect();
        Contender::of(Who::new(name, Whose::Slipstream, arguments))
    }

    /// What the command line describes: MySQL's applier, or `lab replay`.
    fn of(who: Who) -> Contender {
        let (how, traits) = match who.whose {
            Whose::Mysql => (How::Applier, APPLIER),
            Whose::Slipstream if who.options.iter().any(|option| option.starts_with("--memory")) => {
                (How::Replay, Traits { store_synced: "each cut".into(), ..OURS })
            }
            Whose::Slipstream => (How::Replay, OURS),
        };
        Contender { who, how, traits, first_part: false, ask: None, stacks: false, program: None }
    }
}

/// How a contender runs; its options are for that program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum How {
    /// `lab replay`.
    Replay,
    /// MySQL's applier over relay logs that are already in place.
    Applier,
    /// `mysqlbinlog | mysql` into a server.
    Client,
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

/// All contenders in the table's order: those that the command line describes, or else ours and MySQL's means; those of
/// MySQL only if there is one.
pub(super) fn contenders(args: &CompareArgs, has_mysql: bool) -> Vec<Contender> {
    let mut all = match args.contender.is_empty() {
        true => usual(args),
        false => args.contender.iter().cloned().map(Contender::of).collect(),
    };
    all.retain(|one| has_mysql || one.who.whose == Whose::Slipstream);
    all.retain(|one| args.only.is_empty() || args.only.iter().any(|text| one.who.name.contains(text.as_str())));
    all
}

fn usual(args: &CompareArgs) -> Vec<Contender> {
    let applier = |name: &str, options: Vec<String>| Contender {
        first_part: args.first.is_some(),
        ..Contender::applier(name, options)
    };
    let mut all = vec![Contender::ours("slipstream", &[])];
    if let Some(memory) = &args.memory {
        all.push(Contender::ours(&format!("slipstream --memory {memory}"), &["--memory", memory]));
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
    let workers = args.workers;
    let relaxed = relaxed(args.relaxed_workers);
    all.extend([
        Contender::ours("slipstream, as stock", &stock),
        applier("mysql applier, defaults", Vec::new()),
        applier(&format!("mysql applier, {workers} workers"), vec![format!("--replica-parallel-workers={workers}")]),
        applier("mysql applier, relaxed", relaxed.clone()),
        Contender {
            how: How::Client,
            traits: Traits { visible_in_order: "yes, serial", ..APPLIER },
            first_part: true,
            ..Contender::applier("mysqlbinlog | mysql", relaxed)
        },
        Contender {
            how: How::Copy,
            traits: Traits {
                log_synced: "no".into(),
                store_synced: "no store".into(),
                indexes: "no",
                readers: "none",
                visible_in_order: "-",
            },
            ..Contender::applier("mysqlbinlog --raw", Vec::new())
        },
    ]);
    all
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contenders_of_the_command_line_stand_in_for_the_usual_ones() {
        let mut args = CompareArgs::over(Vec::new());
        let names = |args: &CompareArgs, has_mysql| {
            contenders(args, has_mysql).into_iter().map(|one| one.who.name).collect::<Vec<_>>().join("; ")
        };
        assert_eq!(names(&args, false), "slipstream; slipstream, as stock");
        assert_eq!(contenders(&args, true).len(), 7);
        let given = ["mysql, unsynced:--sync-binlog=0", "slipstream, small:--memory 64M"];
        args.contender = given.map(|text| text.parse().unwrap()).to_vec();
        assert_eq!(names(&args, true), "mysql, unsynced; slipstream, small");
        assert_eq!(names(&args, false), "slipstream, small");
        let all = contenders(&args, true);
        assert_eq!((all[0].how, all[0].who.options.join(" ")), (How::Applier, "--sync-binlog=0".into()));
        assert_eq!((all[1].how, all[1].traits.store_synced.as_ref()), (How::Replay, "each cut"));
        args.only = vec!["small".into()];
        assert_eq!(names(&args, true), "slipstream, small");
    }
}
