//! Options of the grain of transactions: each shows in a counter, and none changes the resulting rows.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};

use apply::transactions::{CommitOrder, HandOff, TransactionOptions, WaitAt};
use base::{Gtid, Tag, Uuid};
use binlog::writer::BinlogWriter;
use binlog::{ChecksumAlgorithm, FormatDescription, GtidEvent, QueryEvent, RowsEvent, RowsKind, TableMapEvent};
use decode::trackers::{Rules, TrackerKind, TrackerOptions};
use lab::ablation::{AblationArgs, Base, ablation};
use lab::replay::{Grain, Pace, ReplayOptions, ReplayReport, TransactionReport, grain, replay};
use relay_log::SyncPolicy;
use store::CheckImages;

const ROWS: usize = 40;
const UPDATES: usize = 400;
/// Events in the large transaction.
const LARGE: usize = 1_500;

/// Writes transactions with the numbers of a source that uses writesets.
struct Author {
    writer: BinlogWriter,
    /// Transactions so far, and those in earlier files.
    number: i64,
    before: i64,
    /// Last writer and value of each row of each table.
    rows: Vec<Vec<(i64, i32)>>,
}

fn format() -> FormatDescription {
    FormatDescription::new("9.7.4", ChecksumAlgorithm::Crc32)
}

fn image(id: usize, v: i32) -> Vec<u8> {
    [&[0xfc][..], &(id as i32).to_le_bytes(), &v.to_le_bytes()].concat()
}

fn query(writer: &mut BinlogWriter, session: u32, sql: &str) {
    let status = binlog::QueryStatus::default();
    writer.query(&QueryEvent {
        thread_id: session,
        exec_time: 0,
        error_code: 0,
        db: b"d",
        status,
        sql: sql.as_bytes(),
    });
}

/// Tables 0 and 1: `d.t`, `e.t`; 2: `d.k`, which has no key.
fn rows(writer: &mut BinlogWriter, table: usize, kind: RowsKind, rows: &[u8]) {
    let (db, name): (&[u8], &[u8]) = [(b"d", b"t"), (b"e", b"t"), (b"d", b"k")].map(|(d, t)| (&d[..], &t[..]))[table];
    writer.table_map(&TableMapEvent {
        table_id: 90 + table as u64,
        flags: 1,
        db,
        table: name,
        column_types: &[3, 3],
        metadata: &[],
        null_bitmap: if table == 2 { &[3] } else { &[2] },
        optional: &[],
    });
    writer.rows(&RowsEvent {
        kind,
        table_id: 90 + table as u64,
        flags: 1,
        partition: None,
        column_count: 2,
        before_columns: if kind == RowsKind::Write { &[] } else { &[3] },
        after_columns: &[3],
        rows,
    });
}

impl Author {
    fn gtid(&mut self, parent: i64) -> GtidEvent {
        self.number += 1;
        let gtid = Gtid { uuid: Uuid([3; 16]), tag: Tag::EMPTY, gno: self.number as u64 };
        let mut event = GtidEvent::new(Some(gtid), (parent - self.before).max(0), self.number - self.before);
        event.immediate_commit_timestamp_us = 1_763_000_000_000_000 + self.number as u64 * 1_000;
        event.original_commit_timestamp_us = event.immediate_commit_timestamp_us;
        event
    }

    fn statement(&mut self, sql: &str) {
        let gtid = self.gtid(self.number);
        self.writer.transaction(&gtid, |w| query(w, 1, sql));
    }

    /// Updates rows of a table, one event each; the keyless table holds `copies` equal rows.
    fn update(&mut self, session: u32, table: usize, ids: &[usize], copies: usize) {
        let parent = ids.iter().map(|id| self.rows[table][*id].0).max().unwrap_or(0);
        let parent = if copies > 0 { self.number } else { parent };
        let gtid = self.gtid(parent);
        let Author { writer, rows: all, number, .. } = self;
        writer.transaction(&gtid, |w| {
            query(w, session, "BEGIN");
            for id in ids {
                let (last, v) = &mut all[table][*id];
                rows(w, table, RowsKind::Update, &[image(*id, *v), image(*id, *v + 1)].concat());
                (*last, *v) = (*number, *v + 1);
            }
            for _ in 0..copies {
                rows(w, 2, RowsKind::Write, &image(1, 1));
            }
            w.xid(1);
        });
    }

    fn next_file(&mut self) -> Vec<u8> {
        self.before = self.number;
        std::mem::replace(&mut self.writer, BinlogWriter::start_file(1, 1_763_000_000, &format())).take()
    }
}

/// Writes a load, and a run in two files.
fn write_logs(folder: &Path) -> (PathBuf, Vec<PathBuf>) {
    let writer = BinlogWriter::start_file(1, 1_763_000_000, &format());
    let mut author = Author { writer, number: 0, before: 0, rows: vec![vec![(0, 0); ROWS]; 2] };
    for sql in [
        "CREATE DATABASE d",
        "CREATE DATABASE e",
        "CREATE TABLE d.t (id INT PRIMARY KEY, v INT)",
        "CREATE TABLE e.t (id INT PRIMARY KEY, v INT)",
        "CREATE TABLE d.k (a INT, b INT)",
    ] {
        author.statement(sql);
    }
    let gtid = author.gtid(5);
    let all: Vec<u8> = (0..ROWS).flat_map(|id| image(id, 0)).collect();
    author.writer.transaction(&gtid, |w| {
        query(w, 1, "BEGIN");
        rows(w, 0, RowsKind::Write, &all);
        rows(w, 1, RowsKind::Write, &all);
        w.xid(1);
    });
    let mut files = vec![author.next_file()];
    for at in 0..UPDATES {
        let (table, id) = (at % 2, (at * 7) % (ROWS - 2));
        // Every third one depends on the one two before it.
        let id = if at % 3 == 0 { 1 } else { id };
        author.update(at as u32 % 5 + 1, table, &[id], usize::from(at % 20 == 0));
        if at == UPDATES / 4 {
            // No other transaction changes the last two rows.
            let ids: Vec<usize> = (0..LARGE).map(|n| ROWS - 1 - n % 2).collect();
            author.update(9, 0, &ids, 0);
        }
        if at == UPDATES / 2 {
            files.push(author.next_file());
        }
    }
    files.push(author.next_file());
    let paths = files.into_iter().enumerate().map(|(number, bytes)| {
        let path = folder.join(format!("binlog.{:06}", number + 1));
        std::fs::write(&path, bytes).unwrap();
        path
    });
    let mut paths: Vec<PathBuf> = paths.collect();
    (paths.remove(0), paths)
}

/// Threads are counted by name over the whole process, so replays run one at a time.
static ALONE: Mutex<()> = Mutex::new(());

fn alone() -> MutexGuard<'static, ()> {
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Options for the rows grain over logs written into a folder.
fn options(folder: &Path) -> ReplayOptions {
    let (load, logs) = write_logs(folder);
    ReplayOptions {
        logs,
        load: vec![load],
        folder: folder.join("replay"),
        workers: 4,
        decoders: 1,
        affinity: base::ThreadAffinity::default(),
        grain: Grain::Rows,
        memory_bytes: 64 << 20,
        hot_bytes_max: None,
        on_disk: None,
        check_images: CheckImages::All,
        relay_sync: SyncPolicy::default(),
        pace: None,
        samples: false,
        reads: 0,
        hash: true,
    }
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
    // Never: one after each phase.
    assert!(never == 2 && each > 20, "{each} {never}");
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
