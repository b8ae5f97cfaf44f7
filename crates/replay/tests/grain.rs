//! Options of the grain of transactions: each shows in a counter, and none changes the resulting rows.

use std::path::{Path, PathBuf};

use apply::transactions::{CommitOrder, HandOff, TransactionOptions, WaitAt};
use base::Uuid;
use decode::trackers::{Rules, TrackerKind, TrackerOptions};
use relay_log::SyncPolicy;
use replay::ablation::{AblationArgs, Base, ablation};
use replay::{Grain, Pace, ReplayOptions, ReplayReport, TransactionReport, grain, replay};
use testkit::log::{Author, INT, Row, insert, inserts, int, update};

use crate::setup::{self, alone};

const ROWS: usize = 40;
const UPDATES: usize = 400;
/// Events in the large transaction.
const LARGE: usize = 1_500;

/// Writes transactions with the numbers of a source that uses writesets.
struct Writer {
    author: Author,
    /// Last writer and value of each row of each table.
    rows: Vec<Vec<(u64, i32)>>,
}

const TABLES: [&str; 2] = ["d.t", "e.t"];

fn row(id: usize, v: i32) -> Row {
    vec![int(id as i32), int(v)]
}

impl Writer {
    /// Updates rows of a table, one event each, and inserts equal rows into the table without a key.
    fn update(&mut self, session: u32, table: usize, ids: &[usize], copies: usize) {
        let parent = ids.iter().map(|id| self.rows[table][*id].0).max().unwrap_or(0);
        let parent = if copies > 0 { self.author.last } else { parent };
        let mut changes = Vec::new();
        for id in ids {
            let (last, v) = &mut self.rows[table][*id];
            changes.push(update(TABLES[table], &row(*id, *v), &row(*id, *v + 1)));
            (*last, *v) = (self.author.last + 1, *v + 1);
        }
        changes.extend((0..copies).map(|_| insert("d.k", &row(1, 1))));
        self.author.session = session;
        self.author.rows_after(parent, &changes);
    }
}

/// Writes a load, and a run in two files.
fn write_logs(folder: &Path) -> (PathBuf, Vec<PathBuf>) {
    let mut author = Author::new(Uuid([3; 16]));
    author.sql("CREATE DATABASE d");
    author.sql("CREATE DATABASE e");
    for table in TABLES {
        author.table(table, &[INT; 2], "id INT PRIMARY KEY, v INT");
    }
    author.table("d.k", &[INT; 2], "a INT, b INT");
    author.rows(&TABLES.map(|table| inserts(table, (0..ROWS).map(|id| row(id, 0)))));
    let mut files = vec![author.end_file()];
    let mut writer = Writer { author, rows: vec![vec![(0, 0); ROWS]; 2] };
    for at in 0..UPDATES {
        let (table, id) = (at % 2, (at * 7) % (ROWS - 2));
        // Every third one depends on the one two before it.
        let id = if at % 3 == 0 { 1 } else { id };
        writer.update(at as u32 % 5 + 1, table, &[id], usize::from(at % 20 == 0));
        if at == UPDATES / 4 {
            // No other transaction changes the last two rows.
            let ids: Vec<usize> = (0..LARGE).map(|n| ROWS - 1 - n % 2).collect();
            writer.update(9, 0, &ids, 0);
        }
        if at == UPDATES / 2 {
            files.push(writer.author.end_file());
        }
    }
    files.push(writer.author.end_file());
    let paths = files.into_iter().enumerate().map(|(number, bytes)| {
        let path = folder.join(format!("binlog.{:06}", number + 1));
        std::fs::write(&path, bytes).unwrap();
        path
    });
    let mut paths: Vec<PathBuf> = paths.collect();
    (paths.remove(0), paths)
}

/// Options for the rows grain over logs written into a folder.
fn options(folder: &Path) -> ReplayOptions {
    let (load, logs) = write_logs(folder);
    setup::options(folder, load, logs)
}

fn run(change: impl FnOnce(&mut ReplayOptions)) -> ReplayReport {
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    let mut options = options(folder.path());
    change(&mut options);
    replay(&options).unwrap()
}

fn transactions(change: impl FnOnce(&mut TransactionOptions)) -> (ReplayReport, TransactionReport) {
    let mut options = TransactionOptions::default();
    options.tracker.kind = TrackerKind::Writeset;
    change(&mut options);
    let report = run(|replay| replay.grain = Grain::Transactions(options));
    let counts = report.transactions.unwrap();
    (report, counts)
}

/// All transactions: five definitions, the load, the updates, the large one.
const ALL: u64 = 6 + UPDATES as u64 + 1;

#[test]
fn every_mode_ends_with_the_same_rows() {
    let rows = run(|_| {});
    assert!(rows.transactions.is_none() && rows.hash.is_some());
    let kinds = [
        TrackerKind::Source,
        TrackerKind::CommitOrder,
        TrackerKind::Writeset,
        TrackerKind::WritesetSession,
        TrackerKind::Database,
    ];
    for (at, kind) in kinds.into_iter().enumerate() {
        for workers in [1, 3, 16] {
            let rules = if at % 2 == 0 { Rules::Own } else { Rules::Stock };
            let odd = (at + workers) % 2 == 1;
            let options = TransactionOptions {
                tracker: TrackerOptions { kind, rules, history_size: if odd { 30 } else { 1_000_000 } },
                wait: if odd { WaitAt::Scheduler } else { WaitAt::Worker },
                commit_order: if workers == 3 { CommitOrder::Free } else { CommitOrder::Preserved },
                hand_off: if at == 2 { HandOff::Batch } else { HandOff::Event },
                worker_queue_events: [1, 16_384, 1_048_576][workers % 3],
            };
            let report = run(|replay| {
                (replay.grain, replay.workers) = (Grain::Transactions(options), workers);
                replay.decoders = at % 3;
            });
            assert_eq!(report.hash, rows.hash, "{workers} workers, {options:?}");
            assert_eq!(report.tables.len(), 3);
            let apply = report.stages.iter().find(|stage| stage.stage == "apply").unwrap();
            assert_eq!(apply.threads as usize, workers);
            assert_eq!(report.transactions.unwrap().transactions, ALL);
        }
    }
}

#[test]
fn trackers_differ_in_how_far_a_parent_is_and_in_drains() {
    let of = |kind, rules| transactions(|o| (o.tracker.kind, o.tracker.rules) = (kind, rules)).1;
    let source = of(TrackerKind::Source, Rules::Own);
    let carried = of(TrackerKind::CommitOrder, Rules::Own);
    let writeset = of(TrackerKind::Writeset, Rules::Own);
    let session = of(TrackerKind::WritesetSession, Rules::Own);
    let database = of(TrackerKind::Database, Rules::Own);
    // The first of each file, and those whose rows no earlier one in the file changed.
    assert!(source.drains > 3 && carried.drains == 0, "{source:?} {carried:?}");
    assert!(carried.parent_distance > source.parent_distance, "{source:?} {carried:?}");
    assert!(writeset.parent_distance > session.parent_distance, "{writeset:?} {session:?}");
    assert!(session.parent_distance > database.parent_distance, "{session:?} {database:?}");
    assert!(database.parent_distance > 1.5, "two databases take turns: {database:?}");
    assert!(writeset.coarse > 0, "tables without a key: {writeset:?}");
}

#[test]
fn stock_rules_forget_at_file_ends_and_ours_when_the_history_is_full() {
    let own = transactions(|_| {}).1;
    let stock = transactions(|o| o.tracker.rules = Rules::Stock).1;
    // Three files, five definitions.
    assert!(own.forgotten == 0 && stock.forgotten >= 8, "{own:?} {stock:?}");
    let small = transactions(|o| o.tracker.history_size = 20).1;
    assert!(small.forgotten > 5, "{small:?}");
    assert!(small.parent_distance < own.parent_distance, "{small:?} {own:?}");
}

/// Repeats until one has waited: on a busy machine, workers may finish before they are observed.
fn until(waited: impl Fn(&TransactionReport) -> bool, change: impl Fn(&mut TransactionOptions)) -> TransactionReport {
    let mut reports = (0..200).map(|_| transactions(&change).1);
    reports.find(waited).expect("one of 200 runs waits")
}

#[test]
fn who_waits() {
    let scheduler = until(|report| report.scheduler_waits > 0, |o| o.wait = WaitAt::Scheduler);
    assert!(scheduler.worker_waits == 0, "{scheduler:?}");
    let worker = until(
        |report| report.worker_waits > 0 && report.at_once_max > scheduler.at_once_max,
        |o| o.wait = WaitAt::Worker,
    );
    assert!(worker.scheduler_waits == 0 && worker.idle_waits == 0, "{worker:?}");
}

#[test]
fn the_order_of_commits_is_waited_for() {
    until(|report| report.commit_waits > 0, |_| {});
    let off = transactions(|o| o.commit_order = CommitOrder::Free).1;
    assert!(off.commit_waits == 0, "{off:?}");
}

#[test]
fn the_scheduler_decodes() {
    let options = TransactionOptions::default();
    let with = |decoders| {
        let report = run(|o| (o.grain, o.decoders) = (Grain::Transactions(options), decoders));
        (report.stages.iter().any(|stage| stage.stage == "decode"), report.transactions.unwrap().decoded_by_scheduler)
    };
    let (threads, decoded) = with(0);
    assert!(!threads && decoded >= ALL, "{decoded}");
    assert_eq!(with(2), (true, 0));
}

#[test]
fn events_pass_the_latch_one_by_one() {
    let event = transactions(|o| o.hand_off = HandOff::Event).1;
    // At least Gtid, BEGIN, table map, rows and Xid for each update.
    assert!(event.jobs > ALL + 4 * UPDATES as u64 + 2 * LARGE as u64, "{event:?}");
    assert_eq!(event.latches, 2 * event.jobs);
    let batch = transactions(|_| {}).1;
    assert_eq!((batch.jobs, batch.latches), (ALL, 0));
}

#[test]
fn a_full_queue_is_waited_for() {
    let small = transactions(|o| (o.worker_queue_events, o.hand_off) = (100, HandOff::Event)).1;
    assert!(small.queue_waits > 0, "{small:?}");
    let large = transactions(|o| o.hand_off = HandOff::Event).1;
    assert_eq!(large.queue_waits, 0);
}

#[test]
fn the_relay_log_is_synced_as_told() {
    let with = |policy| {
        let report = run(|o| {
            (o.relay_sync, o.pace) = (policy, Some(Pace::Factor(4.0)));
            o.grain = Grain::Transactions(TransactionOptions::default());
        });
        report.relay_syncs
    };
    let (each, never) = (with(SyncPolicy::EveryTransaction), with(SyncPolicy::Never));
    // Never: one after each phase. How many transactions a sync covers is up to the machine's scheduler.
    assert!(never == 2 && each > never, "{each} {never}");
}

#[test]
fn rows_need_decoders() {
    let folder = tempfile::tempdir().unwrap();
    let options = ReplayOptions { workers: 1, decoders: 0, hash: false, ..options(folder.path()) };
    assert!(replay(&options).unwrap_err().to_string().contains("--grain transactions"));
}

#[test]
fn an_ablation_compares_by_turns_and_ends_equal() {
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    let (load, logs) = write_logs(folder.path());
    for (from, only) in [(Base::Own, ["wait", "grain"]), (Base::Stock, ["hand-off", "decoders"])] {
        let args = AblationArgs {
            logs: logs.clone(),
            load: vec![load.clone()],
            from,
            only: only.map(str::to_owned).to_vec(),
            rounds: 3,
            workers: Some(3),
            decoders: Some(1),
            folder: Some(folder.path().join("ablation")),
            json: false,
        };
        let mut lines = Vec::new();
        let report = ablation(&args, &mut |line| lines.push(line.to_owned())).unwrap();
        assert_eq!((report.rows.len(), lines.len()), (2, 12), "{lines:?}");
        assert!(report.is_equal(), "{report}");
        assert!(lines[0].contains("base") && !lines[1].contains("base"), "{lines:?}");
        for row in &report.rows {
            assert_eq!((row.base.wall_s.len(), row.changed.wall_s.len()), (3, 3));
            assert!(row.ratio > 0.0);
        }
        if from == Base::Stock {
            let of = |name| report.rows.iter().find(|row| row.mechanism == name).unwrap();
            assert!(of("hand-off").base.counter > 0.0 && of("hand-off").changed.counter == 0.0, "{report}");
            assert!(of("decoders").base.counter > 0.0 && of("decoders").changed.counter == 0.0, "{report}");
        }
        let text = report.to_string();
        assert!(text.contains("ratio") && text.contains("of all"), "{text}");
        assert!(serde_json::to_string(&report).unwrap().contains("\"ratio\""));
    }
    assert_eq!(grain::stock().wait, WaitAt::Scheduler);
}

/// A log with more rows than the history of 25,000 remembers, and with a transaction of more events than a queue of
/// MySQL's holds, which comes while others keep all workers busy.
fn write_large_log(folder: &Path) -> PathBuf {
    let mut author = Author::new(Uuid([4; 16]));
    author.sql("CREATE DATABASE f");
    author.table("f.b", &[INT; 2], "id INT PRIMARY KEY, v INT");
    for chunk in 0..27 {
        author.rows(&[inserts("f.b", (0..1000).map(|n| row(chunk * 1000 + n, 0)))]);
    }
    // The second one waits for the first, so two workers are busy.
    let long: Vec<_> = (0..24_000).map(|v| update("f.b", &row(0, v), &row(0, v + 1))).collect();
    let first = author.rows(&long);
    author.rows_after(first, &[update("f.b", &row(0, 24_000), &row(0, 24_001))]);
    let large: Vec<_> = (1..17_000).map(|n| update("f.b", &row(n, 0), &row(n, 1))).collect();
    author.rows_after(first, &large);
    for n in 17_000..17_040 {
        author.rows_after(first, &[update("f.b", &row(n, 0), &row(n, 1))]);
    }
    let path = folder.join("binlog.000009");
    std::fs::write(&path, author.end_file()).unwrap();
    path
}

/// Whether anything waits is up to the machine's scheduler, so the lines whose counters were the same on both sides
/// are tried again.
#[test]
fn every_line_of_an_ablation_reaches_the_scheduler() {
    let _alone = alone();
    let folder = tempfile::tempdir().unwrap();
    let (load, logs) = write_logs(folder.path());
    let large = write_large_log(folder.path());
    // These need the large log. The small one's numbers are those of MySQL's writesets.
    let from_own = ["history size", "worker queue"];
    let from_stock = ["tracker writeset stock", "worker queue"];
    for (from, of_large) in [(Base::Own, from_own), (Base::Stock, from_stock)] {
        let run = |logs: &[PathBuf], load: &[PathBuf], only: Vec<String>, workers| {
            let args = AblationArgs {
                logs: logs.to_vec(),
                load: load.to_vec(),
                from,
                only,
                rounds: 1,
                workers: Some(workers),
                decoders: Some(1),
                folder: Some(folder.path().join("ablation")),
                json: false,
            };
            let report = ablation(&args, &mut |_| {}).unwrap();
            assert!(report.is_equal(), "{report}");
            let same = |row: &&replay::ablation::Row| row.base.counter == row.changed.counter;
            report.rows.iter().filter(same).map(|row| row.mechanism.to_owned()).collect::<Vec<String>>()
        };
        let mut left = run(&logs, std::slice::from_ref(&load), Vec::new(), 3);
        left.retain(|name| !of_large.contains(&name.as_str()));
        for _ in 0..200 {
            if !left.is_empty() {
                let again = run(&logs, std::slice::from_ref(&load), left.clone(), 3);
                left.retain(|name| again.contains(name));
            }
        }
        for name in of_large {
            if (0..50).all(|_| !run(std::slice::from_ref(&large), &[], vec![name.to_owned()], 2).is_empty()) {
                left.push(name.to_owned());
            }
        }
        assert!(left.is_empty(), "from {from:?}: no difference at {left:?}");
    }
}

/// The transactions of chapter 10's figure 10-15: 12759 depends on 12757, which is long; all after it only on 12756.
fn write_figure_10_15(folder: &Path) -> PathBuf {
    let mut author = Author::new(Uuid([5; 16]));
    author.sql("CREATE DATABASE d");
    author.table("d.t", &[INT; 2], "id INT PRIMARY KEY, v INT");
    author.rows(&[inserts("d.t", (0..10).map(|id| row(id, 0)))]);
    author.last = 12_755;
    let one =
        |author: &mut Author, parent, id, v| author.rows_after(parent, &[update("d.t", &row(id, v), &row(id, v + 1))]);
    one(&mut author, 12_755, 0, 0);
    let long: Vec<_> = (0..6_000).map(|v| update("d.t", &row(1, v), &row(1, v + 1))).collect();
    author.rows_after(12_756, &long);
    one(&mut author, 12_756, 2, 0);
    assert_eq!(one(&mut author, 12_757, 1, 6_000), 12_759);
    for id in 3..8 {
        one(&mut author, 12_756, id, 0);
    }
    assert_eq!(author.last, 12_764);
    let path = folder.join("binlog.000001");
    std::fs::write(&path, author.end_file()).unwrap();
    path
}

/// What the figure shows: the scheduler that waits for 12757 hands out 12757 and 12758 only; where the worker waits,
/// all up to 12764 are handed out beyond the low-water mark, 12756.
#[test]
fn the_low_water_mark_of_figure_10_15_holds_back_the_scheduler_or_one_worker() {
    let folder = tempfile::tempdir().unwrap();
    let log = write_figure_10_15(folder.path());
    let with = |wait| {
        let mut transactions = TransactionOptions { wait, ..TransactionOptions::default() };
        transactions.tracker.kind = TrackerKind::Source;
        let report = run(|options| {
            (options.logs, options.load) = (vec![log.clone()], Vec::new());
            (options.grain, options.workers) = (Grain::Transactions(transactions), 8);
        });
        (report.transactions.unwrap(), report.hash)
    };
    // On a busy machine 12757 may end before the scheduler gets to 12759.
    let found = (0..200).map(|_| (with(WaitAt::Scheduler), with(WaitAt::Worker))).find(|(scheduler, worker)| {
        assert_eq!(scheduler.1, worker.1);
        assert_eq!((scheduler.0.worker_waits, worker.0.scheduler_waits), (0, 0));
        scheduler.0.scheduler_waits > 0 && worker.0.worker_waits > 0 && worker.0.at_once_max == 8
    });
    found.expect("one of 200 runs has 12757 run while the others are handed out");
}
