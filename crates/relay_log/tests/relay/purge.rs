//! Purged and kept files; the space limit; a crash or an error at every step.

use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant, SystemTime};

use base::LogPosition;
use binlog::{EventHeader, event_type};
use relay_log::{
    AppendMeta, DiskOperation, DiskWatch, Purged, ReaderOptions, RelayError, RelayFiles, RelayLog, RelayOptions,
    RelayPosition, RelayReader, RelayShared, SyncPolicy,
};

use crate::common::*;

fn purge(shared: &RelayShared, durable: RelayPosition) -> Result<Purged, RelayError> {
    // As if the store had executed everything.
    shared.purge(&named(durable), &gtids(1000), Duration::ZERO, SystemTime::now())
}

fn numbers(dir: &Path) -> Vec<u64> {
    on_disk(dir).into_keys().collect()
}

#[test]
fn files_before_the_cut_are_purged_and_the_set_stays() {
    let dir = folder();
    let mut source = Source::new(CRC);
    let (mut writer, _) = connected(RelayOptions { max_file_bytes: 900, ..options(dir.path()) }, &source);
    let shared = writer.shared();
    let mut ends = vec![writer.position()];
    for _ in 0..14 {
        ends.push(source.feed(&mut writer, 400));
    }
    let total = shared.total_bytes();
    let all = numbers(dir.path());
    let mut bytes = 0;
    for (n, end) in ends.iter().enumerate() {
        let before = numbers(dir.path());
        let purged = purge(&shared, *end).unwrap();
        bytes += purged.bytes;
        // The file of the transaction after the cut is the first one kept.
        let first = ends.get(n + 1).map_or(*all.last().unwrap(), |next| next.file_number);
        assert_eq!(numbers(dir.path())[0], first, "cut at {n}");
        assert_eq!(before.len() - numbers(dir.path()).len(), purged.files.len());
        assert_eq!(purge(&shared, *end).unwrap(), Purged::default());
        // A store at this cut, or at a later one that the purge does not know, finds its position.
        for (m, later) in ends.iter().enumerate().skip(n) {
            let copy = copy_folder(dir.path());
            let executed = if m == 0 { base::GtidSet::new() } else { gtids(m as u64) };
            let hint = named(*later);
            let opened = RelayOptions { executed, resume_at: Some(hint), ..options(copy.path()) };
            let (writer, found) = RelayLog::open(opened).unwrap();
            assert_eq!(found.retrieved, gtids(14));
            assert_eq!(found.start.next_gtid, (m < 14).then(|| gtid(m as u64 + 1)));
            drop(writer);
        }
        assert_eq!(RelayFiles::open_read_only(dir.path()).unwrap().1.retrieved, gtids(14));
    }
    assert_eq!(bytes + shared.total_bytes(), total);
    assert_eq!(numbers(dir.path()).len(), 1);
    writer.close().unwrap();
    assert!(matches!(purge(&shared, ends[14]), Err(RelayError::Closed)));
}

#[test]
fn what_a_reader_or_the_clock_still_wants_is_kept() {
    let dir = folder();
    let mut source = Source::new(CRC);
    let (mut writer, _) = connected(RelayOptions { max_file_bytes: 500, ..options(dir.path()) }, &source);
    for _ in 0..10 {
        source.feed(&mut writer, 400);
    }
    let (shared, end, all) = (writer.shared(), writer.position(), numbers(dir.path()));
    let mut tail = writer.reader();
    assert_eq!(purge(&shared, end).unwrap(), Purged::default(), "the reader is at the start");
    let mut seen = Seen::default();
    while seen.ended.len() < 3 {
        seen.take(tail.next(ZERO).unwrap());
    }
    assert_eq!(
        purge(&shared, RelayPosition { file_number: 3, offset: 4 }).unwrap().files,
        ["relay-bin.000001", "relay-bin.000002"]
    );
    assert_eq!(purge(&shared, end).unwrap().files, ["relay-bin.000003"]);
    assert_eq!(numbers(dir.path()), all[3..]);
    drop(tail);
    let day = Duration::from_secs(86_400);
    let now = SystemTime::now();
    let at = named(end);
    assert_eq!(shared.purge(&at, &gtids(10), day, now).unwrap(), Purged::default());
    assert_eq!(shared.purge(&at, &gtids(10), day, now + day / 2).unwrap(), Purged::default());
    // With a clock that was set back, files are kept too.
    assert_eq!(shared.purge(&at, &gtids(10), day, SystemTime::UNIX_EPOCH).unwrap(), Purged::default());
    assert_eq!(shared.purge(&at, &gtids(10), day, now + day * 2).unwrap().files.len(), all.len() - 4);
    assert_eq!(numbers(dir.path()).len(), 1);
    for odd in ["binlog.000001", "relay-bin.1", ""] {
        let odd = LogPosition { file: odd.into(), offset: 4 };
        assert!(matches!(shared.purge(&odd, &gtids(10), Duration::ZERO, now), Err(RelayError::Misuse(_))));
    }
}

#[test]
fn a_reader_beside_a_purge_reads_on() {
    let dir = folder();
    let mut source = Source::new(CRC);
    let (mut writer, found) = connected(RelayOptions { max_file_bytes: 700, ..options(dir.path()) }, &source);
    let shared = writer.shared();
    let mut tail = RelayReader::open_at(writer.shared(), &found.start, ReaderOptions::REPLAY);
    let mut seen = Seen::default();
    for _ in 0..50 {
        source.feed(&mut writer, 300);
        seen.drain(&mut tail);
        purge(&shared, tail.position()).unwrap();
        assert!(numbers(dir.path()).len() <= 2);
    }
    let rows = seen.files.values().flat_map(|bytes| events(bytes)).filter(|t| *t == event_type::WRITE_ROWS).count();
    assert_eq!((rows, seen.cold), (50, 1), "all of it from memory, but for the first head");
    writer.close().unwrap();
    assert_eq!(RelayFiles::open_read_only(dir.path()).unwrap().1.retrieved, gtids(50));
}

fn events(bytes: &[u8]) -> Vec<u8> {
    let (mut at, mut types) = (0, Vec::new());
    while let Ok(header) = EventHeader::parse(bytes.get(at..).unwrap_or_default()) {
        types.push(header.event_type);
        at += header.event_len as usize;
    }
    types
}

/// Fails every operation from the n-th on, like a lost disk; counts them.
fn failing_from(n: u64) -> (DiskWatch, Arc<AtomicU64>) {
    let count = Arc::new(AtomicU64::new(0));
    let counted = Arc::clone(&count);
    let watch = DiskWatch::new(move |_, path| {
        if counted.fetch_add(1, Ordering::SeqCst) >= n {
            return Err(io::Error::other(format!("no disk: {}", path.display())));
        }
        Ok(())
    });
    (watch, count)
}

/// Appends, rotates, purges, truncates an open transaction; stops at the first error. Returns how much was acknowledged
/// (synced) and the last durable cut.
fn a_run(options: RelayOptions) -> (u64, u64) {
    let (mut synced, mut cut) = (0, 0);
    let mut source = Source::new(CRC);
    let run = || -> Result<(), RelayError> {
        let (mut writer, _) = RelayLog::open(options)?;
        let (rotate, fde) = source.headers();
        writer.note_source_headers(&rotate, &fde)?;
        for i in 0..12u64 {
            let data = source.transaction(300);
            let meta = AppendMeta {
                ends_transaction: true,
                gtids: &[gtid(source.author.last)],
                source_position: source.position(),
            };
            let end = writer.append(data, meta)?;
            if i % 4 == 1 {
                writer.append(vec![0; 40], part(&source))?;
                writer.abort_partial()?;
            }
            if i % 3 == 2 {
                writer.sync().request_sync();
                writer.sync().wait_synced(end, LONG)?;
                synced = source.author.last;
                cut = source.author.last;
                purge(&writer.shared(), end)?;
            }
        }
        writer.close()
    };
    let _ = run();
    (synced, cut)
}

#[test]
fn a_crash_before_any_operation_leaves_a_log_that_continues() {
    let mut n = 0;
    loop {
        let dir = folder();
        let (watch, count) = failing_from(n);
        let options = |dir: &Path| RelayOptions { max_file_bytes: 700, ..options(dir) };
        let (synced, cut) = a_run(RelayOptions { disk_watch: Some(watch), ..options(dir.path()) });
        let done = count.load(Ordering::SeqCst);
        // The folder is now as a kill leaves it. The store is at its last cut.
        let executed = if cut == 0 { base::GtidSet::new() } else { gtids(cut) };
        let (mut writer, found) = RelayLog::open(RelayOptions { executed, ..options(dir.path()) }).unwrap();
        let kept = found.retrieved.count();
        assert!(kept >= synced, "operation {n}: {kept} of {synced}");
        assert_eq!(found.retrieved, if kept == 0 { base::GtidSet::new() } else { gtids(kept) });
        let index = std::fs::read_to_string(dir.path().join("relay-bin.index")).unwrap_or_default();
        let listed: Vec<u64> = relay_log::parse_index(index.as_bytes()).unwrap();
        assert_eq!(listed, numbers(dir.path()), "operation {n}: the index and the folder agree");
        assert_eq!(found.start.next_gtid, (kept > cut).then(|| gtid(cut + 1)));
        let mut source = Source::new(CRC);
        source.author.last = kept;
        let (rotate, fde) = source.headers();
        writer.note_source_headers(&rotate, &fde).unwrap();
        source.feed(&mut writer, 10);
        writer.close().unwrap();
        let again = RelayFiles::open_read_only(dir.path()).unwrap().1;
        assert_eq!((again.retrieved, again.clean), (gtids(kept + 1), true));
        if done <= n {
            break; // nothing failed any more
        }
        n += 1;
    }
    assert!(n > 100, "{n} operations");
}

#[test]
fn a_purge_that_fails_forgets_nothing_and_can_be_repeated() {
    let fail = Arc::new(Mutex::new(None::<DiskOperation>));
    let asked = Arc::clone(&fail);
    let watch = DiskWatch::new(move |operation, _| match *asked.lock().unwrap() {
        Some(wanted) if wanted == operation => Err(io::Error::from(io::ErrorKind::StorageFull)),
        _ => Ok(()),
    });
    let dir = folder();
    let mut source = Source::new(CRC);
    let options = RelayOptions { max_file_bytes: 500, disk_watch: Some(watch), ..options(dir.path()) };
    let (mut writer, _) = connected(options, &source);
    for _ in 0..10 {
        source.feed(&mut writer, 400);
    }
    let (shared, end) = (writer.shared(), writer.position());
    let (files, bytes) = (shared.files(), shared.total_bytes());
    for operation in [DiskOperation::Create, DiskOperation::Write, DiskOperation::Sync, DiskOperation::Rename] {
        *fail.lock().unwrap() = Some(operation);
        let error = purge(&shared, end).unwrap_err();
        assert!(matches!(error, RelayError::DiskFull { .. }), "{error}");
        assert_eq!((shared.files(), shared.total_bytes()), (files.clone(), bytes));
        assert_eq!(numbers(dir.path()).len(), files.len());
    }
    // Deleting fails: the files are no longer in the index, so the next start deletes them.
    *fail.lock().unwrap() = Some(DiskOperation::Remove);
    purge(&shared, end).unwrap_err();
    assert_eq!((shared.files().len(), numbers(dir.path()).len()), (1, files.len()));
    *fail.lock().unwrap() = None;
    source.feed(&mut writer, 10);
    writer.close().unwrap();
    let (_, found) = RelayLog::open(RelayOptions { executed: gtids(10), ..RelayOptions::new(dir.path()) }).unwrap();
    assert_eq!(found.removed.len(), files.len() - 1);
    assert_eq!(found.retrieved, gtids(11));
}

#[test]
fn purges_and_rotations_at_the_same_time_agree_on_the_index() {
    let dir = folder();
    let mut source = Source::new(CRC);
    let (mut writer, found) = connected(RelayOptions { max_file_bytes: 500, ..options(dir.path()) }, &source);
    let shared = writer.shared();
    let mut tail = RelayReader::open_at(writer.shared(), &found.start, ReaderOptions::REPLAY);
    let done = AtomicU64::new(0);
    std::thread::scope(|scope| {
        let purger = scope.spawn(|| {
            let mut purged = 0;
            while done.load(Ordering::SeqCst) == 0 {
                while !matches!(tail.next(ZERO).unwrap(), relay_log::TailItem::Idle) {}
                purged += purge(&shared, tail.position()).unwrap().files.len();
            }
            purged
        });
        for _ in 0..300 {
            source.feed(&mut writer, 600);
        }
        done.store(1, Ordering::SeqCst);
        assert!(purger.join().unwrap() > 10);
    });
    let index = std::fs::read_to_string(dir.path().join("relay-bin.index")).unwrap();
    let listed = relay_log::parse_index(index.as_bytes()).unwrap();
    assert_eq!(listed, shared.files().iter().map(|f| f.0).collect::<Vec<_>>());
    assert_eq!(listed, numbers(dir.path()));
}

fn limited(dir: &Path, limit: u64) -> RelayOptions {
    RelayOptions { space_limit_bytes: limit, sync: SyncPolicy::Never, ..options(dir) }
}

/// Waits until the writer waits for space.
fn until_waiting(shared: &RelayShared) {
    let deadline = Instant::now() + LONG;
    while shared.space().waiting.is_none() {
        assert!(Instant::now() < deadline);
        std::thread::yield_now();
    }
}

#[test]
fn the_writer_waits_at_the_limit_until_a_purge() {
    let dir = folder();
    let mut source = Source::new(CRC);
    let limit = 20_000;
    let (mut writer, _) = connected(limited(dir.path(), limit), &source);
    let shared = writer.shared();
    let mut last = writer.position();
    while shared.total_bytes() + 1200 <= limit {
        last = source.feed(&mut writer, 800);
    }
    assert_eq!((numbers(dir.path()).len(), shared.space().waiting), (1, None));
    assert_eq!(shared.space().limit_bytes, limit);
    std::thread::scope(|scope| {
        let feeding = scope.spawn(|| source.feed(&mut writer, 2000));
        until_waiting(&shared);
        assert_eq!(shared.files().len(), 2, "the full file is closed, so that it can go");
        assert!(!feeding.is_finished());
        // A cut that has not passed the file purges nothing, and the writer continues to wait.
        assert_eq!(purge(&shared, RelayPosition { offset: last.offset - 1, ..last }).unwrap(), Purged::default());
        assert!(shared.space().waiting.is_some());
        // The age does not matter: the space limit overrides it.
        let purged = shared.purge(&named(last), &gtids(100), Duration::from_secs(1 << 30), SystemTime::now()).unwrap();
        assert_eq!(purged.files, ["relay-bin.000001"]);
        assert_eq!(feeding.join().unwrap().file_number, 2);
    });
    assert_eq!(shared.space().waiting, None);
    assert!(shared.space().used_bytes < limit);
    writer.close().unwrap();
    let found = RelayFiles::open_read_only(dir.path()).unwrap().1;
    assert_eq!(found.retrieved, gtids(source.author.last));
}

#[test]
fn a_transaction_above_the_limit_goes_through_alone() {
    let dir = folder();
    let mut source = Source::new(CRC);
    let (mut writer, _) = connected(limited(dir.path(), 5000), &source);
    let shared = writer.shared();
    // In one piece, and in parts: nothing can be purged to free space.
    let first = source.feed(&mut writer, 50_000);
    std::thread::scope(|scope| {
        let feeding = scope.spawn(|| {
            let data = source.transaction(60_000);
            let (head, rest) = data.split_at(30_000);
            writer.append(head.to_vec(), part(&source)).unwrap();
            let meta = AppendMeta {
                ends_transaction: true,
                gtids: &[gtid(source.author.last)],
                source_position: source.position(),
            };
            writer.append(rest.to_vec(), meta).unwrap()
        });
        until_waiting(&shared);
        purge(&shared, first).unwrap();
        assert_eq!(feeding.join().unwrap().file_number, 2);
    });
    // A limit below any size still lets one transaction after another pass.
    let tiny = folder();
    let mut source = Source::new(CRC);
    let (mut writer, _) = connected(limited(tiny.path(), 1), &source);
    let shared = writer.shared();
    let mut end = source.feed(&mut writer, 100);
    for _ in 0..5 {
        end = std::thread::scope(|scope| {
            let feeding = scope.spawn(|| source.feed(&mut writer, 100));
            until_waiting(&shared);
            purge(&shared, end).unwrap();
            feeding.join().unwrap()
        });
    }
    assert_eq!(numbers(tiny.path()).len(), 1);
}

#[test]
fn a_writer_that_waits_can_be_stopped_and_poisoned() {
    let dir = folder();
    let mut source = Source::new(CRC);
    let (mut writer, _) = connected(limited(dir.path(), 4000), &source);
    let shared = writer.shared();
    source.feed(&mut writer, 3500);
    std::thread::scope(|scope| {
        let feeding = scope.spawn(|| source.feed(&mut writer, 2000));
        until_waiting(&shared);
        shared.end_space_wait();
        feeding.join().unwrap();
    });
    assert_eq!(shared.space().waiting, None);
    source.feed(&mut writer, 2000);
    writer.close().unwrap();
    assert_eq!(RelayFiles::open_read_only(dir.path()).unwrap().1.retrieved, gtids(3));

    // A failed sync wakes it with the error.
    let dir = folder();
    let broken = Arc::new(AtomicU64::new(0));
    let asked = Arc::clone(&broken);
    let watch = DiskWatch::new(move |operation, _| match (operation, asked.load(Ordering::SeqCst)) {
        (DiskOperation::Sync, 1) => Err(io::Error::other("no disk")),
        _ => Ok(()),
    });
    let mut source = Source::new(CRC);
    let options = RelayOptions { disk_watch: Some(watch), ..limited(dir.path(), 4000) };
    let (mut writer, _) = connected(options, &source);
    let (shared, sync) = (writer.shared(), writer.sync());
    source.feed(&mut writer, 3500);
    std::thread::scope(|scope| {
        let data = source.transaction(2000);
        let meta = AppendMeta { ends_transaction: true, ..part(&source) };
        let feeding = scope.spawn(|| writer.append(data, meta));
        until_waiting(&shared);
        broken.store(1, Ordering::SeqCst);
        sync.request_sync();
        assert!(matches!(feeding.join().unwrap(), Err(RelayError::Io { .. })));
    });
}
