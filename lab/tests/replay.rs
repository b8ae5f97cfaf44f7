//! `lab replay` over a small log written here.
#![allow(clippy::unwrap_used)]

use std::path::{Path, PathBuf};

use base::{Gtid, Tag, Uuid};
use binlog::writer::BinlogWriter;
use binlog::{ChecksumAlgorithm, FormatDescription, GtidEvent, RowsEvent, RowsKind, TableMapEvent};
use lab::replay::{OnDisk, Pace, ReplayOptions, ReplayReport, replay};
use relay_log::SyncPolicy;
use store::CheckImages;

const ROWS: i32 = 200;
const UPDATES: i32 = 300;
/// Microseconds between two commits of the recorded source.
const APART_US: u64 = 1_000;

fn gtid(gno: i64) -> GtidEvent {
    let mut event = GtidEvent::new(Some(Gtid { uuid: Uuid([3; 16]), tag: Tag::EMPTY, gno: gno as u64 }), gno - 1, gno);
    event.immediate_commit_timestamp_us = 1_763_000_000_000_000 + gno as u64 * APART_US;
    event.original_commit_timestamp_us = event.immediate_commit_timestamp_us;
    event.immediate_server_version = Some(90_704);
    event
}

fn image(id: i32, v: i32) -> Vec<u8> {
    [&[0xfc][..], &id.to_le_bytes(), &v.to_le_bytes()].concat()
}

fn rows(writer: &mut BinlogWriter, kind: RowsKind, rows: &[u8]) {
    writer.statement(b"d", b"BEGIN");
    writer.table_map(&TableMapEvent {
        table_id: 90,
        flags: 1,
        db: b"d",
        table: b"t",
        column_types: &[3, 3],
        metadata: &[],
        null_bitmap: &[2],
        optional: &[],
    });
    writer.rows(&RowsEvent {
        kind,
        table_id: 90,
        flags: 1,
        partition: None,
        column_count: 2,
        before_columns: if kind == RowsKind::Write { &[] } else { &[3] },
        after_columns: &[3],
        rows,
    });
    writer.xid(1);
}

/// Writes `load`, a table and its rows, and `run`, updates of them.
fn write_logs(folder: &Path) -> (PathBuf, PathBuf) {
    let format = FormatDescription::new("9.7.4", ChecksumAlgorithm::Crc32);
    let mut load = BinlogWriter::start_file(1, 1_763_000_000, &format);
    load.transaction(&gtid(1), |w| w.statement(b"d", b"CREATE DATABASE d"));
    load.transaction(&gtid(2), |w| w.statement(b"d", b"CREATE TABLE t (id INT PRIMARY KEY, v INT)"));
    let all: Vec<u8> = (0..ROWS).flat_map(|id| image(id, 0)).collect();
    load.transaction(&gtid(3), |w| rows(w, RowsKind::Write, &all));
    let mut run = BinlogWriter::start_file(1, 1_763_000_000, &format);
    for update in 0..UPDATES {
        let (id, v) = (update % ROWS, update / ROWS);
        let change = [image(id, v), image(id, v + 1)].concat();
        run.transaction(&gtid(i64::from(update) + 4), |w| rows(w, RowsKind::Update, &change));
    }
    let (load_path, run_path) = (folder.join("binlog.000001"), folder.join("binlog.000002"));
    std::fs::write(&load_path, load.take()).unwrap();
    std::fs::write(&run_path, run.take()).unwrap();
    (load_path, run_path)
}

fn run(folder: &Path, change: impl FnOnce(&mut ReplayOptions)) -> ReplayReport {
    let (load, logs) = write_logs(folder);
    let mut options = ReplayOptions {
        logs: vec![logs],
        load: vec![load],
        folder: folder.join("replay"),
        workers: 2,
        decoders: 1,
        affinity: base::ThreadAffinity::default(),
        grain: lab::replay::Grain::Rows,
        memory_bytes: 64 << 20,
        hot_bytes_max: None,
        on_disk: None,
        check_images: CheckImages::All,
        relay_sync: SyncPolicy::default(),
        pace: None,
        samples: false,
        reads: 2000,
        hash: true,
    };
    change(&mut options);
    replay(&options).unwrap()
}

#[test]
fn load_and_measured_logs_are_counted_apart_and_end_the_same_everywhere() {
    let folder = tempfile::tempdir().unwrap();
    let memory = run(folder.path(), |_| {});
    let disk = run(folder.path(), |options| {
        options.on_disk = Some(OnDisk { memory_bytes: 4 << 20, generation_bytes: 1 << 20, cache_bytes: 1 << 19 });
    });
    for report in [&memory, &disk] {
        let load = report.load.as_ref().unwrap();
        assert_eq!((load.transactions, load.write_transactions, load.rows), (3, 1, ROWS as u64));
        let measured = &report.measured;
        assert_eq!((measured.transactions, measured.write_transactions), (UPDATES as u64, UPDATES as u64));
        assert_eq!((measured.rows, report.rows_stored), (UPDATES as u64, ROWS as u64));
        assert!(report.lag.is_none() && report.tpmc_equivalent.is_none());
        assert!(report.stages.iter().any(|stage| stage.stage == "apply" && stage.threads >= 2));
    }
    assert_eq!(memory.hash, disk.hash);
    assert_eq!((memory.reads.len(), disk.reads.len()), (1, 2));
    assert!(disk.reads.iter().all(|reads| reads.hash == memory.reads[0].hash));
    assert!(memory.measured.to_durable_cut_s.is_none());
    assert!(disk.measured.to_durable_cut_s.is_some(), "{disk}");
}

#[test]
fn a_paced_log_takes_the_source_s_time_and_has_a_lag() {
    let folder = tempfile::tempdir().unwrap();
    let report = run(folder.path(), |options| options.pace = Some(Pace::Factor(2.0)));
    let recorded_s = (UPDATES - 1) as f64 * APART_US as f64 / 1e6;
    assert!(report.measured.wall_s >= recorded_s / 2.0, "{report}");
    let lag = report.lag.unwrap();
    // Recorded commit times are a year old; fed ones are current.
    assert!(lag.all.transactions == UPDATES as u64 && lag.all.p50_us < 60_000_000, "{lag:?}");
}

#[test]
fn a_rate_is_kept_and_the_lag_told_by_thirds() {
    let folder = tempfile::tempdir().unwrap();
    let report =
        run(folder.path(), |options| (options.pace, options.samples) = (Some(Pace::Transactions(3_000.0)), true));
    assert!(report.measured.wall_s >= (UPDATES - 1) as f64 / 3_000.0, "{report}");
    let lag = report.lag.unwrap();
    let third = UPDATES as u64 / 3;
    let parts = &lag.parts;
    assert_eq!((parts.small_first_third.transactions, parts.small_last_third.transactions), (third, third));
    assert_eq!((parts.small.transactions, parts.large.transactions), (UPDATES as u64, 0));
    assert_eq!(report.rows_by_worker.iter().sum::<u64>(), UPDATES as u64);
    let last = report.samples.last().unwrap();
    assert_eq!((last.transactions, last.rows_applied), (UPDATES as u64 + 3, (UPDATES + ROWS) as u64));
    assert!(report.samples.iter().all(|sample| sample.rss_bytes > 0));
}
