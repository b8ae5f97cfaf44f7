//! `lab replay` over a small log written here.

use std::path::{Path, PathBuf};

use base::Uuid;
use replay::{OnDisk, Pace, ReplayOptions, ReplayReport, replay};
use testkit::log::{APART_US, Author, INT, Row, inserts, int, update};

use crate::setup::{self, alone};

const ROWS: i32 = 200;
const UPDATES: i32 = 300;

fn row(id: i32, v: i32) -> Row {
    vec![int(id), int(v)]
}

/// Writes `load`, a table and its rows, and `run`, updates of them.
fn write_logs(folder: &Path) -> (PathBuf, PathBuf) {
    let mut author = Author::new(Uuid([3; 16]));
    author.sql("CREATE DATABASE d");
    author.table("t", &[INT; 2], "id INT PRIMARY KEY, v INT");
    author.rows(&[inserts("t", (0..ROWS).map(|id| row(id, 0)))]);
    let load = author.end_file();
    for at in 0..UPDATES {
        let (id, v) = (at % ROWS, at / ROWS);
        author.rows(&[update("t", &row(id, v), &row(id, v + 1))]);
    }
    let paths = (folder.join("binlog.000001"), folder.join("binlog.000002"));
    std::fs::write(&paths.0, load).unwrap();
    std::fs::write(&paths.1, author.end_file()).unwrap();
    paths
}

fn run(folder: &Path, change: impl FnOnce(&mut ReplayOptions)) -> ReplayReport {
    let _alone = alone();
    let (load, logs) = write_logs(folder);
    let mut options = ReplayOptions { workers: 2, reads: 2000, ..setup::options(folder, load, vec![logs]) };
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
fn readers_beside_a_replay_change_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let alone = run(folder.path(), |_| {});
    let read = run(folder.path(), |options| {
        (options.readers, options.pace) = (2, Some(Pace::Factor(2.0)));
        options.on_disk = Some(OnDisk { memory_bytes: 4 << 20, generation_bytes: 1 << 20, cache_bytes: 1 << 19 });
    });
    assert_eq!(read.hash, alone.hash);
    let readers = read.readers.as_ref().unwrap();
    assert!(readers.threads == 2 && readers.key_reads_per_s > 0.0 && readers.batches_per_s > 0.0, "{read}");
    assert!(read.to_string().contains("waited for lanes"), "{read}");
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
