//! The reader: the same bytes from memory and from files, at any pace, with truncations in between.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use relay_log::{AppendMeta, RelayOptions, RelayReader, SyncPolicy, TailItem};

use crate::common::*;

#[test]
fn a_slow_reader_goes_from_memory_to_file_and_back() {
    let dir = folder();
    let mut source = Source::new(CRC);
    let options = RelayOptions { max_file_bytes: 60_000, hot_bytes_max: 10_000, ..options(dir.path()) };
    let (mut writer, _) = connected(options, &source);
    let mut tail = writer.reader();
    let mut seen = Seen::default();
    let mut turns = Vec::new();
    for round in 0..40u64 {
        let (hot, cold) = (seen.hot, seen.cold);
        for i in 0..(round % 5) * 6 + 1 {
            source.feed(&mut writer, (i as usize * 531 + round as usize * 77) % 3000);
        }
        if round % 2 == 0 {
            // Only a few, so that it falls behind the kept memory.
            for _ in 0..3 {
                seen.take(tail.next(ZERO).unwrap());
            }
        } else {
            seen.drain(&mut tail);
        }
        turns.push((seen.hot > hot, seen.cold > cold));
    }
    seen.drain(&mut tail);
    assert_eq!(seen.files, on_disk(dir.path()));
    assert!(seen.hot > 20 && seen.cold > 20, "{} {}", seen.hot, seen.cold);
    assert!(turns.windows(2).any(|pair| pair[0].1 && pair[1].0));
    assert!(seen.ended.len() > 3);
}

#[test]
fn a_reader_opened_late_reads_from_the_start() {
    let dir = folder();
    let mut source = Source::new(CRC);
    let (mut writer, _) = connected(options(dir.path()), &source);
    for _ in 0..5 {
        source.feed(&mut writer, 700_000);
    }
    let mut tail = writer.reader();
    let mut seen = Seen::default();
    seen.drain(&mut tail);
    assert_eq!((seen.hot, seen.cold), (0, 7), "read in chunks of 512 KiB");
    source.feed(&mut writer, 10);
    seen.drain(&mut tail);
    assert_eq!(seen.hot, 1);
    assert_eq!(seen.files, on_disk(dir.path()));
}

#[test]
fn a_reader_that_comes_before_the_first_file_waits_for_it() {
    let dir = folder();
    let source = Source::new(CRC);
    let (mut writer, _) = relay_log::RelayLog::open(options(dir.path())).unwrap();
    let mut tail = writer.reader();
    assert!(matches!(tail.next(ZERO).unwrap(), TailItem::Idle));
    let (rotate, fde) = source.headers();
    writer.note_source_headers(&rotate, &fde).unwrap();
    let mut seen = Seen::default();
    seen.drain(&mut tail);
    assert_eq!(seen.files, on_disk(dir.path()));
    drop(writer);
    assert!(matches!(tail.next(LONG).unwrap(), TailItem::Closed));
}

#[test]
fn a_small_open_transaction_is_not_shown() {
    let dir = folder();
    let mut source = Source::new(CRC);
    let (mut writer, _) = connected(options(dir.path()), &source);
    let mut tail = writer.reader();
    let mut seen = Seen::default();
    source.feed(&mut writer, 100);
    seen.drain(&mut tail);
    let before = seen.files.clone();
    for cut in [60, 1000, 5000] {
        let mut again = Source::new(CRC);
        again.author.last = source.author.last;
        let data = again.transaction(100_000);
        writer.append(data[..cut].to_vec(), part(&source)).unwrap();
        writer.append(data[cut..50_000].to_vec(), part(&source)).unwrap();
        seen.drain(&mut tail);
        assert_eq!(seen.files, before);
        writer.abort_partial().unwrap().unwrap();
        assert_eq!(on_disk(dir.path()), before);
        seen.drain(&mut tail);
    }
    // Appended in two parts, it arrives as two chunks once it is whole.
    let data = source.transaction(100_000);
    let hot = seen.hot;
    writer.append(data[..70].to_vec(), part(&source)).unwrap();
    let meta =
        AppendMeta { ends_transaction: true, gtids: &[gtid(source.author.last)], source_position: source.position() };
    writer.append(data[70..].to_vec(), meta).unwrap();
    seen.drain(&mut tail);
    assert_eq!(seen.hot - hot, 2);
    assert_eq!(seen.files, on_disk(dir.path()));
}

#[test]
fn a_huge_open_transaction_is_not_shown_before_it_is_whole() {
    for hot_bytes_max in [64 << 20, 1 << 20, 0] {
        let dir = folder();
        let mut source = Source::new(CRC);
        let (mut writer, _) = connected(RelayOptions { hot_bytes_max, ..options(dir.path()) }, &source);
        let mut tail = writer.reader();
        let mut seen = Seen::default();
        source.feed(&mut writer, 100);
        seen.drain(&mut tail);
        let whole = seen.files[&1].len();
        let mut lost = Source::new(CRC);
        lost.author.last = 1;
        let huge = lost.transaction(20 << 20);
        for slice in huge[..18 << 20].chunks(1 << 20) {
            writer.append(slice.to_vec(), part(&source)).unwrap();
        }
        seen.drain(&mut tail);
        assert_eq!(seen.files[&1].len(), whole);
        writer.abort_partial().unwrap().unwrap();
        // The bytes after the truncation are longer than those removed: the reader must not take them for the rest.
        let data = source.transaction(19 << 20);
        let meta = AppendMeta {
            ends_transaction: true,
            gtids: &[gtid(source.author.last)],
            source_position: source.position(),
        };
        writer.append(data, meta).unwrap();
        seen.drain(&mut tail);
        assert_eq!(seen.files, on_disk(dir.path()));
        writer.close().unwrap();
        assert_eq!(read_only(dir.path()).unwrap().1.retrieved, gtids(2));
    }
}

#[test]
fn close_in_a_huge_transaction_takes_it_back() {
    let dir = folder();
    let mut source = Source::new(CRC);
    let (mut writer, _) = connected(options(dir.path()), &source);
    let mut tail = writer.reader();
    let mut seen = Seen::default();
    let huge = source.transaction(20 << 20);
    writer.append(huge[..17 << 20].to_vec(), part(&source)).unwrap();
    seen.drain(&mut tail);
    writer.close().unwrap();
    while !matches!(tail.next(ZERO).map(|item| seen.take(item)), Ok(false)) {}
    assert_eq!(seen.files, on_disk(dir.path()));
    assert!(read_only(dir.path()).unwrap().1.clean);
}

fn follow(mut tail: RelayReader, pause: Duration) -> Seen {
    let mut seen = Seen::default();
    loop {
        let item = tail.next(LONG).unwrap();
        if matches!(item, TailItem::Closed) {
            return seen;
        }
        assert!(!matches!(item, TailItem::Idle), "the writer never stops that long");
        seen.take(item);
        if !pause.is_zero() && (seen.hot + seen.cold) % 50 == 0 {
            std::thread::sleep(pause);
        }
    }
}

#[test]
fn writer_and_reader_at_the_same_time() {
    for pause in [Duration::ZERO, Duration::from_millis(2)] {
        let dir = folder();
        let mut source = Source::new(CRC);
        let options = RelayOptions {
            max_file_bytes: 400_000,
            hot_bytes_max: 100_000,
            sync: SyncPolicy::Interval { ms: 1, bytes: 50_000 },
            ..options(dir.path())
        };
        let (mut writer, _) = connected(options, &source);
        let tail = writer.reader();
        let sync = writer.sync();
        let stop = AtomicBool::new(false);
        let seen = std::thread::scope(|scope| {
            let reader = scope.spawn(|| follow(tail, pause));
            let watcher = scope.spawn(|| {
                let mut last = sync.synced();
                while !stop.load(Ordering::Relaxed) {
                    let (synced, written) = (sync.synced(), sync.written());
                    assert!(synced <= written);
                    last = last.max(synced);
                    std::thread::yield_now();
                }
                last
            });
            for i in 0..2000usize {
                if i % 97 == 0 {
                    let mut lost = Source::new(CRC);
                    lost.author.last = source.author.last;
                    let data = lost.transaction(5000);
                    writer.append(data[..4000].to_vec(), part(&source)).unwrap();
                    writer.abort_partial().unwrap();
                }
                source.feed(&mut writer, i * 131 % 4000);
            }
            let end = writer.position();
            assert!(writer.sync().wait_synced(end, LONG).unwrap());
            writer.close().unwrap();
            stop.store(true, Ordering::Relaxed);
            assert!(watcher.join().unwrap() <= end);
            reader.join().unwrap()
        });
        assert_eq!(seen.files, on_disk(dir.path()));
        assert!(seen.ended.len() > 5);
        assert_eq!(read_only(dir.path()).unwrap().1.retrieved, gtids(2000));
    }
}

#[test]
fn idle_takes_its_time_and_new_bytes_end_it() {
    let dir = folder();
    let mut source = Source::new(CRC);
    let (mut writer, _) = connected(options(dir.path()), &source);
    let mut tail = writer.reader();
    Seen::default().drain(&mut tail);
    let start = Instant::now();
    assert!(matches!(tail.next(Duration::from_millis(30)).unwrap(), TailItem::Idle));
    assert!(start.elapsed() >= Duration::from_millis(30));
    std::thread::scope(|scope| {
        let reader = scope.spawn(|| tail.next(LONG).unwrap());
        source.feed(&mut writer, 10);
        assert!(matches!(reader.join().unwrap(), TailItem::Chunk(chunk) if chunk.hot));
    });
}

/// `cargo test -p relay_log --release speed -- --ignored --nocapture`
#[test]
#[ignore = "a measurement"]
fn speed_of_appends_and_of_a_reader_that_keeps_up() {
    let dir = tempfile::tempdir().unwrap();
    let mut source = Source::new(CRC);
    for hot_bytes_max in [64 << 20, 0] {
        let dir = dir.path().join(hot_bytes_max.to_string());
        let options = RelayOptions { hot_bytes_max, sync: SyncPolicy::Never, ..RelayOptions::new(&dir) };
        let (mut writer, _) = connected(options, &source);
        let tail = writer.reader();
        let data = source.transaction(256 << 10);
        let start = Instant::now();
        let total = std::thread::scope(|scope| {
            let reader = scope.spawn(|| {
                let mut tail = tail;
                let mut bytes = 0;
                loop {
                    match tail.next(LONG).unwrap() {
                        TailItem::Chunk(chunk) => bytes += chunk.data.len(),
                        TailItem::Closed => return bytes,
                        _ => {}
                    }
                }
            });
            for _ in 0..6000 {
                let meta = AppendMeta { ends_transaction: true, ..part(&source) };
                writer.append(data.clone(), meta).unwrap();
            }
            println!("appended at {:.0} MB/s", 6000.0 * 0.262 / start.elapsed().as_secs_f64());
            writer.abort_partial().unwrap();
            drop(writer);
            reader.join().unwrap()
        });
        println!("read at {:.0} MB/s (hot {hot_bytes_max})", total as f64 / 1e6 / start.elapsed().as_secs_f64());
    }
}
