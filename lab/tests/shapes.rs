//! `lab make`: logs as a source would write them, and a huge transaction watched by a reader during replay.
#![allow(clippy::unwrap_used)]

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

use apply::{ApplyOptions, CutOptions, Pipeline, PipelineOptions};
use base::LogPosition;
use binlog::reader::BinlogFile;
use binlog::{GtidEvent, event_type};
use decode::SplitOptions;
use lab::shapes::{Change, MakeOptions, MakeReport, Shape, Tracking, make};
use relay_log::{Intake, RelayLog, RelayOptions, SyncPolicy};
use replay::grain::{GrainFlags, GrainName, Switch, TrackingName};
use replay::{Grain, OnDisk, ReplayOptions, ReplayReport, feed, replay};
use store::{CheckImages, Disk, DiskOptions, Snapshot, Store};

const HUGE_ROWS: u64 = 20_000;
const SMALL_ROWS: u32 = 500;

fn shapes() -> Vec<(&'static str, Shape)> {
    let huge = |change| Shape::Huge { change, huge_rows: HUGE_ROWS, rows: SMALL_ROWS };
    vec![
        ("counter", Shape::Counter),
        ("zipf", Shape::Zipf { rows: 300, theta: 0.99 }),
        ("private-shared", Shape::PrivateShared { inserts: 16 }),
        ("private-shared-0", Shape::PrivateShared { inserts: 0 }),
        ("keyless", Shape::Keyless { rows: 300 }),
        ("huge-insert", huge(Change::Insert)),
        ("huge-update", huge(Change::Update)),
        ("huge-delete", huge(Change::Delete)),
    ]
}

fn made(out: &Path, shape: &Shape, tracking: Tracking, file_bytes: u64) -> MakeReport {
    make(&MakeOptions {
        shape: shape.clone(),
        transactions: 2_000,
        rate: 10_000.0,
        tracking,
        seed: 3,
        out: out.to_owned(),
        file_bytes,
    })
    .unwrap()
}

fn replayed(logs: &Path, folder: &Path, grain: Grain, on_disk: Option<OnDisk>) -> ReplayReport {
    replay(&ReplayOptions {
        logs: vec![logs.join("run.index")],
        load: vec![logs.join("load.index")],
        folder: folder.to_owned(),
        workers: 2,
        decoders: 1,
        grain,
        memory_bytes: 8 << 20,
        hot_bytes_max: None,
        on_disk,
        check_images: CheckImages::All,
        relay_sync: SyncPolicy::default(),
        pace: None,
        samples: false,
        affinity: base::ThreadAffinity::default(),
        reads: 0,
        readers: 0,
        hash: true,
    })
    .unwrap()
}

/// Compares every row's before image, in memory, over cuts on disk, and by the log's own clocks: a wrong clock or a
/// wrong version would stop replay.
#[test]
fn every_shape_replays_to_the_same_rows_in_every_way() {
    for (name, shape) in shapes() {
        let work = tempfile::tempdir().unwrap();
        let logs = work.path().join("logs");
        // Files end inside the run, so that clocks restart.
        let report = made(&logs, &shape, Tracking::Writeset, 100_000);
        assert!(report.run_files > 1, "{name}: {report}");
        let memory = replayed(&logs, &work.path().join("a"), Grain::Rows, None);
        let small = OnDisk { memory_bytes: 8 << 20, generation_bytes: 300_000, cache_bytes: 1 << 19 };
        let disk = replayed(&logs, &work.path().join("b"), Grain::Rows, Some(small));
        assert_eq!(memory.hash, disk.hash, "{name}");
        let load = memory.load.as_ref().unwrap();
        assert_eq!(load.rows + memory.measured.rows, report.rows, "{name}");
        assert_eq!(load.transactions + memory.measured.transactions, report.transactions, "{name}");
        if matches!(shape, Shape::Huge { .. }) {
            let (all, least) = (memory.rows_by_worker.clone(), HUGE_ROWS / 4);
            assert!(all.len() == 2 && all.iter().all(|rows| *rows > least), "all lanes share it: {all:?}");
        }
        let by_clocks = GrainFlags {
            grain: Some(GrainName::Transactions),
            dependency_tracking: Some(TrackingName::Source),
            preserve_commit_order: Some(Switch::Off),
            ..GrainFlags::default()
        };
        for (tracking, logs) in [(Tracking::Writeset, logs), (Tracking::CommitOrder, work.path().join("commit-order"))]
        {
            if tracking == Tracking::CommitOrder {
                made(&logs, &shape, tracking, 100_000);
            }
            let clocks = replayed(&logs, &work.path().join("c"), by_clocks.grain().unwrap(), None);
            assert_eq!(memory.hash, clocks.hash, "{name} {tracking:?}");
        }
    }
}

#[test]
fn lengths_positions_and_clocks_are_a_source_s() {
    for (name, shape) in shapes() {
        let work = tempfile::tempdir().unwrap();
        let report = made(work.path(), &shape, Tracking::Writeset, 100_000);
        let again = tempfile::tempdir().unwrap();
        assert_eq!(made(again.path(), &shape, Tracking::Writeset, 100_000), report);
        let (mut transactions, mut last_us) = (0, 0);
        for number in 1..=report.load_files + report.run_files {
            let file_name = format!("binlog.{number:06}");
            let path = work.path().join(&file_name);
            assert_eq!(std::fs::read(&path).unwrap(), std::fs::read(again.path().join(&file_name)).unwrap());
            let mut file = BinlogFile::open(&path).unwrap();
            let (mut in_file, mut left, mut end) = (0, 0, 0);
            while let Some(event) = file.next_event().unwrap() {
                assert_eq!(u64::from(event.header.log_pos), event.offset + event.bytes.len() as u64, "{name}");
                end = event.offset + event.bytes.len() as u64;
                if event.header.event_type == event_type::GTID {
                    assert_eq!(left, 0, "{name}: a transaction of another length than it says");
                    let gtid = GtidEvent::parse(event.header.event_type, event.body().unwrap()).unwrap();
                    in_file += 1;
                    transactions += 1;
                    assert_eq!((gtid.sequence_number, gtid.gtid.unwrap().gno), (in_file, transactions));
                    assert!(gtid.last_committed < gtid.sequence_number && gtid.immediate_commit_timestamp_us > last_us);
                    last_us = gtid.immediate_commit_timestamp_us;
                    left = gtid.transaction_length.unwrap();
                }
                left = left.saturating_sub(event.bytes.len() as u64);
            }
            assert_eq!(end, std::fs::metadata(&path).unwrap().len());
        }
        assert_eq!(transactions, report.transactions);
    }
}

/// Rows of table `big` and the sum of their column v, in a snapshot.
fn look(store: &Arc<Store>) -> Option<(u64, u64)> {
    let snapshot = Snapshot::pin(store);
    let table = snapshot.catalog().tables().find(|table| table.name == "big")?;
    let (mut rows, mut sum) = (0, 0);
    let _ = store
        .scan::<()>(&snapshot, table, |row| {
            rows += row.count;
            sum += u64::from_le_bytes(row.image[9..17].try_into().unwrap());
            ControlFlow::Continue(())
        })
        .unwrap();
    Some((rows, sum))
}

/// Slices and generations are far smaller than the transaction, so that parts of it are applied and spilled long before
/// its end, while a reader keeps looking.
#[test]
fn nothing_of_a_huge_transaction_is_visible_before_all_of_it_is() {
    for (change, before, after) in [
        (Change::Insert, (0, 0), (HUGE_ROWS, 0)),
        (Change::Update, (HUGE_ROWS, 0), (HUGE_ROWS, HUGE_ROWS)),
        (Change::Delete, (HUGE_ROWS, 0), (0, 0)),
    ] {
        let work = tempfile::tempdir().unwrap();
        let logs = work.path().join("logs");
        let report =
            made(&logs, &Shape::Huge { change, huge_rows: HUGE_ROWS, rows: SMALL_ROWS }, Tracking::Writeset, 1 << 30);
        let (writer, _) = RelayLog::open(RelayOptions::new(work.path().join("relay-log"))).unwrap();
        let mut tail = writer.reader();
        let (disk, recovered) = Disk::open(&work.path().join("store"), DiskOptions { cache_bytes: 1 << 20 }).unwrap();
        let catalog = catalog::Catalog::new(0);
        let store =
            Arc::new(Store::over(apply::lanes_for(2), disk, work.path().join("scratch"), recovered, catalog).unwrap());
        let pipeline = Pipeline::start_with(
            Box::new(move |timeout| tail.next(timeout)),
            PipelineOptions {
                quarantine: false,
                copies_missing: false,
                filters: Arc::default(),
                affinity: base::ThreadAffinity::default(),
                decoders: 1,
                workers: 2,
                memory_bytes: 1 << 20,
                apply: ApplyOptions { check_images: CheckImages::All, ..ApplyOptions::default() },
                skip: decode::SkipList::default(),
                store: Arc::clone(&store),
                cuts: Some(CutOptions {
                    generation_bytes: 400_000,
                    interval: Duration::from_secs(3600),
                    sync_relay: Box::new(|_| Ok(())),
                    waits_for_space: false,
                    after_cut: Box::new(|_, _| {}),
                }),
                source_clock: Arc::default(),
                lag_by_part: Arc::default(),
            },
            SplitOptions { piece_bytes: 64 << 10, slice_bytes: 128 << 10 },
        );
        let (done, applied_unseen) = (AtomicBool::new(false), AtomicU64::new(0));
        let first_of_run = report.transactions - 2_001 + 1_000;
        std::thread::scope(|scope| {
            let reader = scope.spawn(|| {
                let mut seen: BTreeMap<(u64, u64), u64> = BTreeMap::new();
                while !done.load(Ordering::Acquire) {
                    let watermark = store.visibility().watermark().0;
                    let Some(found) = look(&store) else { continue };
                    if watermark >= first_of_run && found == before {
                        let applied: u64 =
                            pipeline.rows_by_worker.iter().map(|rows| rows.load(Ordering::Relaxed)).sum();
                        applied_unseen.fetch_max(applied, Ordering::Relaxed);
                    }
                    // The table fills during the replay of the load.
                    if watermark >= report.transactions - 2_001 {
                        *seen.entry(found).or_default() += 1;
                    }
                }
                seen
            });
            let mut intake = Intake::new(writer, LogPosition { file: Arc::from(""), offset: 4 });
            for number in 1..=report.load_files + report.run_files {
                feed(&mut intake, &logs.join(format!("binlog.{number:06}")), None).unwrap();
            }
            intake.finish().unwrap().close().unwrap();
            while store.visibility().watermark().0 < report.transactions {
                if let Some(stop) = pipeline.failure() {
                    done.store(true, Ordering::Release);
                    panic!("{stop:?}");
                }
                std::thread::yield_now();
            }
            assert_eq!(look(&store), Some(after));
            done.store(true, Ordering::Release);
            let seen = reader.join().unwrap();
            assert!(
                seen.keys().all(|found| *found == before || *found == after),
                "{change:?}: a part is visible: {seen:?}"
            );
        });
        assert!(pipeline.join_all().stop.is_none());
        // The reader was there while rows were applied and none was visible.
        let others = report.rows - HUGE_ROWS;
        assert!(applied_unseen.into_inner() > others - 1_000, "{change:?}: nobody looked meanwhile");
    }
}
