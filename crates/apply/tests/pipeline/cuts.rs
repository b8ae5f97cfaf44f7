//! Replay into a store on disk, cut anywhere, broken off anywhere and restarted from the newest cut, equals the
//! serial model at every watermark.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

use apply::{ApplyOptions, CutOptions, Pipeline, PipelineOptions, lanes_for};
use base::{GtidSet, LogPosition, Random};
use binlog::EventHeader;
use catalog::Catalog;
use decode::{SkipList, SplitOptions};
use relay_log::{Intake, RelayFiles, RelayLog, RelayOptions, TailItem};
use store::{Disk, DiskOptions, Snapshot, Store};
use testkit::history::{Flavour, History};
use testkit::seeds;

use crate::run::{Setup, check_watermark, follow};

fn write_relay_log(history: &History, folder: &Path) {
    let mut options = RelayOptions::new(folder);
    options.max_file_bytes = 16 << 10;
    let (writer, _) = RelayLog::open(options).unwrap();
    let mut intake = Intake::new(writer, LogPosition { file: Arc::from(""), offset: 4 });
    for (name, bytes) in history.files() {
        intake.begin_file(&name);
        let mut rest = bytes.as_slice();
        while !rest.is_empty() {
            let len = EventHeader::parse(rest).unwrap().event_len as usize;
            intake.event(&rest[..len]).unwrap();
            intake.flush().unwrap();
            rest = &rest[len..];
        }
    }
    intake.finish().unwrap().close().unwrap();
}

/// One run of the process: starts from the newest cut, and ends at the log's end or, as `random` decides, before.
/// Returns whether it reached the end, and the watermark.
fn live(folder: &Path, history: &History, random: &mut Random) -> Result<(bool, usize), String> {
    let mut setup = Setup::random(random);
    // Unless all rows are looked up on disk, partial updates are stored as deltas.
    setup.check = [store::CheckImages::All, store::CheckImages::Sample][random.below(2)];
    let options = DiskOptions { cache_bytes: 1 << 20 };
    let (disk, recovered) = Disk::open(&folder.join("store"), options).map_err(|error| error.to_string())?;
    let executed = recovered.as_ref().map_or_else(GtidSet::new, |recovered| recovered.executed.clone());
    let position = recovered.as_ref().and_then(|recovered| recovered.position.clone());
    let position = position.map(|(file, offset)| LogPosition { file: Arc::from(file.as_str()), offset });
    let store = Store::over(lanes_for(setup.workers), disk, folder.join("scratch"), recovered, Catalog::new(0));
    let store = Arc::new(store.map_err(|error| error.to_string())?);
    check_watermark(&store, &history.states).map_err(|error| format!("recovered: {error}"))?;
    let (files, recovery) = RelayFiles::open_read_only_for(folder.join("relay"), &executed, position.as_ref())
        .map_err(|error| error.to_string())?;
    if let Some(why) = recovery.start.hint_refused {
        return Err(format!("the cut's position does not hold: {why}"));
    }
    let mut tail = files.reader_at(&recovery.start);
    // Breaks off at a cut, ends early like a stop, or runs to the end.
    let (fate, at) = (random.below(3), 1 + random.below(12) as u64);
    let (cuts, items) = (Arc::new(AtomicU64::new(0)), AtomicU64::new(0));
    let counted = Arc::clone(&cuts);
    let pipeline = Pipeline::start_with(
        Box::new(move |timeout| {
            if fate == 1 && items.fetch_add(1, Ordering::Relaxed) > at {
                return Ok(TailItem::Closed);
            }
            tail.next(timeout)
        }),
        PipelineOptions {
            quarantine: false,
            copies_missing: false,
            filters: Arc::default(),
            decoders: setup.decoders,
            workers: setup.workers,
            memory_bytes: setup.memory_bytes,
            apply: ApplyOptions { check_images: setup.check, ..ApplyOptions::default() },
            skip: SkipList::new(GtidSet::new()),
            store: Arc::clone(&store),
            cuts: Some(CutOptions {
                generation_bytes: [1, 20_000, 200_000, 1 << 30][random.below(4)],
                interval: [Duration::ZERO, Duration::from_millis(5), Duration::from_secs(60)][random.below(3)],
                sync_relay: Box::new(move |_| {
                    let number = counted.fetch_add(1, Ordering::Relaxed);
                    if fate == 0 && number == at { Err("planted".into()) } else { Ok(()) }
                }),
                waits_for_space: false,
                after_cut: Box::new(|_, _| {}),
            }),
            source_clock: Arc::default(),
            lag_by_part: Arc::default(),
            affinity: base::ThreadAffinity::default(),
        },
        setup.sizes,
    );
    let (finished, at, _) = follow(pipeline, &history.states)?;
    match finished.stop {
        Some(stop) if stop.reason.contains("planted") => {}
        Some(stop) => return Err(format!("stopped: {stop}")),
        None => {}
    }
    // The compaction thread releases the store in its own time.
    let deadline = Instant::now() + Duration::from_secs(30);
    while Arc::strong_count(&store) > 1 {
        if Instant::now() > deadline {
            return Err("a thread stays".into());
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    Ok((at + 1 == history.states.len(), at))
}

#[test]
fn every_life_goes_on_from_a_cut_and_the_last_ends_equal() {
    let mut cuts_seen = 0;
    for seed in seeds(12) {
        let flavour = Flavour {
            transactions: 150,
            compressed: seed % 2 == 0,
            partial_images: true,
            ddl: true,
            huge: true,
            ..Flavour::PLAIN
        };
        let mut history = History::with(Random::new(seed), flavour);
        // Without checksums nothing is known about a log that was not closed cleanly.
        history.always_checksums = true;
        let mut random = Random::new(seed ^ 0x5151);
        let folder = tempfile::tempdir().unwrap();
        write_relay_log(&history, &folder.path().join("relay"));
        let mut lives = 0;
        loop {
            lives += 1;
            let (done, at) = live(folder.path(), &history, &mut random)
                .unwrap_or_else(|error| panic!("seed {seed}, life {lives}: {error}"));
            cuts_seen += usize::from(at > 0);
            eprintln!("life {lives}: {done} {at} of {}", history.states.len());
            if done && lives > 4 || lives > 40 {
                break;
            }
        }
        assert!(lives <= 40, "seed {seed}: no end in {lives} lives");
    }
    assert!(cuts_seen > 0);
}

/// Replays a log of many row changes and counts the cuts, with or without a snapshot of the empty store held
/// throughout.
fn cuts_of(history: &History, hold: bool) -> u64 {
    let folder = tempfile::tempdir().unwrap();
    write_relay_log(history, &folder.path().join("relay"));
    let (disk, recovered) = Disk::open(&folder.path().join("store"), DiskOptions { cache_bytes: 1 << 20 }).unwrap();
    let store = Store::over(lanes_for(1), disk, folder.path().join("scratch"), recovered, Catalog::new(0)).unwrap();
    let store = Arc::new(store);
    let held = hold.then(|| Snapshot::pin(&store));
    let (files, recovery) = RelayFiles::open_read_only_for(folder.path().join("relay"), &GtidSet::new(), None).unwrap();
    let mut tail = files.reader_at(&recovery.start);
    let cuts = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&cuts);
    let setup = Setup::random(&mut Random::new(1));
    let pipeline = Pipeline::start_with(
        Box::new(move |timeout| tail.next(timeout)),
        PipelineOptions {
            filters: Arc::default(),
            quarantine: false,
            copies_missing: false,
            decoders: 1,
            workers: 1,
            // One piece in flight, so that the size of a generation does not depend on scheduling.
            memory_bytes: 1,
            apply: ApplyOptions { check_images: setup.check, ..ApplyOptions::default() },
            skip: SkipList::new(GtidSet::new()),
            store: Arc::clone(&store),
            cuts: Some(CutOptions {
                generation_bytes: GENERATION,
                interval: Duration::from_secs(3600),
                sync_relay: Box::new(|_| Ok(())),
                waits_for_space: false,
                after_cut: Box::new(move |_, _| {
                    counted.fetch_add(1, Ordering::Relaxed);
                }),
            }),
            source_clock: Arc::default(),
            lag_by_part: Arc::default(),
            affinity: base::ThreadAffinity::default(),
        },
        SplitOptions { piece_bytes: 300, slice_bytes: 16 << 20 },
    );
    // Nobody reads meanwhile, since memory that a reader pins makes generations smaller, too.
    let deadline = Instant::now() + Duration::from_secs(60);
    while !pipeline.is_finished() {
        assert!(Instant::now() < deadline, "hangs; visible {:?}", store.visibility().watermark());
        std::thread::sleep(Duration::from_millis(1));
    }
    assert!(pipeline.join().stop.is_none());
    assert_eq!(check_watermark(&store, &history.states).unwrap() + 1, history.states.len());
    if hold {
        assert!(store.visibility().held_bytes() > GENERATION / 2, "{}", store.visibility().held_bytes());
    }
    drop(held);
    store.visibility().tidy();
    assert_eq!(store.visibility().held_bytes(), 0);
    cuts.load(Ordering::Relaxed)
}

const GENERATION: u64 = 500_000;

/// Memory pinned by a snapshot is taken from the generations' share, not added to it.
#[test]
fn generations_are_smaller_while_a_snapshot_holds_one() {
    let flavour = Flavour { transactions: 2000, ..Flavour::PLAIN };
    let mut history = History::with(Random::new(7), flavour);
    history.always_checksums = true;
    let (free, beside) = (cuts_of(&history, false), cuts_of(&history, true));
    println!("{free} cuts, {beside} beside a snapshot");
    assert!(free >= 2 && beside > free, "{free} cuts, {beside} beside a snapshot");
}
