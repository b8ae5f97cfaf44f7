//! Many readers: each sees the same log, purges wait for them as agreed, a lost place is reported with its file.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, SystemTime};

use base::{GtidSet, Random};
use relay_log::{
    AppendMeta, Hold, Memory, OnDamage, ReadLimit, ReaderOptions, RelayError, RelayLog, RelayOptions, RelayPosition,
    RelayReader, RelayShared, SyncPolicy, TailItem,
};

use crate::common::*;

const NO_AGE: Duration = Duration::MAX;

fn limited(bytes: u64, age: Duration) -> ReaderOptions {
    ReaderOptions::limited(bytes, age, ReadLimit::Visible)
}

/// As if the store had executed everything up to `durable`, `later` from now.
fn purge(shared: &RelayShared, durable: RelayPosition, later: Duration) -> usize {
    shared.purge(&named(durable), &gtids(1000), ZERO, SystemTime::now() + later).unwrap().files.len()
}

#[test]
fn readers_at_different_places_see_the_same_log() {
    let dir = folder();
    let mut source = Source::new(CRC);
    let options = RelayOptions { max_file_bytes: 60_000, hot_bytes_max: 20_000, ..options(dir.path()) };
    let (mut writer, _) = connected(options, &source);
    let kinds = [
        ReaderOptions::REPLAY,
        ReaderOptions::REPLAY,
        ReaderOptions::TABLE_COPY,
        ReaderOptions::limited(u64::MAX, NO_AGE, ReadLimit::Synced),
        ReaderOptions { memory: Memory::Kept, ..limited(u64::MAX, NO_AGE) },
    ];
    let mut readers: Vec<(RelayReader, Seen)> =
        kinds.iter().map(|kind| (RelayReader::open(writer.shared(), *kind), Seen::default())).collect();
    let mut random = Random::new(7);
    let mut next = |bound: u64| random.below(bound);
    for _ in 0..400 {
        source.feed(&mut writer, next(3000) as usize);
        if next(20) == 0 {
            let end = writer.position();
            writer.sync().request_sync();
            assert!(writer.sync().wait_synced(end, LONG).unwrap());
        }
        let (reader, seen) = &mut readers[next(5) as usize];
        for _ in 0..next(8) {
            seen.take(reader.next(ZERO).unwrap());
        }
    }
    writer.close().unwrap();
    for (reader, seen) in &mut readers {
        seen.drain(reader);
        assert_eq!(seen.files, on_disk(dir.path()));
    }
    assert!(readers[0].1.hot > 20 && readers[0].1.cold > 20, "{} {}", readers[0].1.hot, readers[0].1.cold);
}

#[test]
fn readers_share_the_buffer_that_was_received() {
    let dir = folder();
    let mut source = Source::new(CRC);
    let (mut writer, _) = connected(options(dir.path()), &source);
    let mut replay = writer.reader();
    let mut served = RelayReader::open(writer.shared(), limited(u64::MAX, NO_AGE));
    for reader in [&mut replay, &mut served] {
        Seen::default().drain(reader);
    }
    source.feed(&mut writer, 5000);
    // The reader without kept memory must read first, or it reads the file.
    let (TailItem::Chunk(one), TailItem::Chunk(other)) = (served.next(ZERO).unwrap(), replay.next(ZERO).unwrap())
    else {
        panic!("no chunks");
    };
    assert!(one.hot && other.hot && Arc::ptr_eq(&one.data, &other.data));
    source.feed(&mut writer, 5000);
    let (TailItem::Chunk(one), TailItem::Chunk(other)) = (replay.next(ZERO).unwrap(), served.next(ZERO).unwrap())
    else {
        panic!("no chunks");
    };
    assert!(one.hot && !other.hot && one.data.iter().eq(other.data.iter()));
}

#[test]
fn a_slow_reader_that_memory_is_not_kept_for_leaves_replay_in_memory() {
    let dir = folder();
    let mut source = Source::new(CRC);
    let options = RelayOptions { hot_bytes_max: 10_000, ..options(dir.path()) };
    let (mut writer, _) = connected(options, &source);
    let mut replay = writer.reader();
    let mut copy = RelayReader::open(writer.shared(), ReaderOptions::TABLE_COPY);
    let mut seen = Seen::default();
    seen.drain(&mut replay);
    let cold = seen.cold;
    for _ in 0..50 {
        source.feed(&mut writer, 3000);
        seen.drain(&mut replay);
    }
    assert_eq!((seen.hot, seen.cold - cold), (50, 0));
    assert_eq!(writer.shared().unread_bytes(None), 0, "a table copy is not what replay has still to read");
    let read = replay.position();
    source.feed(&mut writer, 3000);
    let behind = writer.shared().unread_bytes(Some(RelayPosition::default()));
    drop(replay);
    assert_eq!(writer.shared().unread_bytes(Some(read)), behind, "an earlier reader came so far");
    assert_eq!(writer.shared().unread_bytes(None), writer.shared().total_bytes(), "nobody has read");
    let mut late = Seen::default();
    late.drain(&mut copy);
    assert_eq!(late.files, on_disk(dir.path()));
}

#[test]
fn a_reader_of_what_is_synced_waits_for_the_sync() {
    let dir = folder();
    let mut source = Source::new(CRC);
    let (mut writer, _) = connected(RelayOptions { max_file_bytes: 4000, ..options(dir.path()) }, &source);
    // Memory has more than the reader may get.
    let _replay = writer.reader();
    let options = ReaderOptions::limited(u64::MAX, NO_AGE, ReadLimit::Synced);
    let mut reader = RelayReader::open(writer.shared(), options);
    let mut seen = Seen::default();
    for round in 0..10 {
        for _ in 0..3 {
            source.feed(&mut writer, 700);
        }
        // The header of a file is synced on creation, and the bytes before it with the next sync.
        seen.drain(&mut reader);
        let before = seen.files.clone();
        let (at, synced) = (reader.position(), writer.sync().synced());
        assert!(at <= synced || at.offset == 4, "{at:?} {synced:?}");
        // A transaction that is open when its bytes are synced is not visible.
        let open = Source::new(CRC).transaction(900);
        writer.append(open[..500].to_vec(), part(&source)).unwrap();
        let sync = writer.sync();
        std::thread::scope(|scope| {
            let waiting = scope.spawn(|| reader.next(LONG).unwrap());
            sync.request_sync();
            if let item @ (TailItem::Chunk(_) | TailItem::EndOfFile { .. }) = waiting.join().unwrap() {
                seen.take(item);
            }
        });
        assert!(sync.wait_synced(writer.position(), LONG).unwrap());
        seen.drain(&mut reader);
        writer.abort_partial().unwrap();
        assert_ne!(seen.files, before, "{round}");
        assert_eq!(seen.files, on_disk(dir.path()), "{round}");
    }
    source.feed(&mut writer, 100);
    writer.close().unwrap();
    seen.drain(&mut reader);
    assert_eq!(seen.files, on_disk(dir.path()));
    assert!(matches!(reader.next(ZERO).unwrap(), TailItem::Closed));
}

#[test]
fn a_reader_stops_at_the_place_it_was_given() {
    let dir = folder();
    let mut source = Source::new(CRC);
    let (mut writer, _) = connected(RelayOptions { max_file_bytes: 2000, ..options(dir.path()) }, &source);
    let _replay = writer.reader();
    let ends: Vec<RelayPosition> = (0..12).map(|n| source.feed(&mut writer, 300 + n * 50)).collect();
    for kind in [ReaderOptions::REPLAY, ReaderOptions::TABLE_COPY] {
        let mut reader = RelayReader::open(writer.shared(), kind);
        let mut seen = Seen::default();
        for end in &ends {
            reader.set_limit(ReadLimit::Position(*end));
            seen.drain(&mut reader);
            assert_eq!(reader.position(), *end);
            assert!(matches!(reader.next(LONG).unwrap(), TailItem::Idle), "at once: nothing will come");
        }
        reader.set_limit(ReadLimit::Visible);
        seen.drain(&mut reader);
        assert_eq!(seen.files, on_disk(dir.path()));
    }
}

#[test]
fn a_place_inside_a_received_buffer_is_kept_to() {
    let dir = folder();
    let mut source = Source::new(CRC);
    let (mut writer, _) = connected(options(dir.path()), &source);
    let mut replay = writer.reader();
    Seen::default().drain(&mut replay);
    let begin = writer.position();
    let mut data = source.transaction(500);
    let first = RelayPosition { offset: begin.offset + data.len() as u64, ..begin };
    data.extend(source.transaction(600));
    let meta = AppendMeta { ends_transaction: true, gtids: &[gtid(1), gtid(2)], source_position: source.position() };
    let second = writer.append(data, meta).unwrap();
    for (limit, hot) in [(first, false), (second, false)] {
        replay.set_limit(ReadLimit::Position(limit));
        assert!(matches!(replay.next(ZERO).unwrap(), TailItem::Chunk(chunk) if chunk.hot == hot));
        assert_eq!(replay.position(), limit);
    }
    source.feed(&mut writer, 500);
    replay.set_limit(ReadLimit::Visible);
    assert!(matches!(replay.next(ZERO).unwrap(), TailItem::Chunk(chunk) if chunk.hot), "in memory again");
}

#[test]
fn a_purge_waits_for_the_oldest_reader_that_holds_the_log() {
    let dir = folder();
    let mut source = Source::new(CRC);
    let (mut writer, _) = connected(RelayOptions { max_file_bytes: 900, ..options(dir.path()) }, &source);
    let mut readers: Vec<RelayReader> = Vec::new();
    for n in 0..6 {
        source.feed(&mut writer, 1000);
        let mut reader = RelayReader::open(writer.shared(), ReaderOptions::TABLE_COPY);
        for _ in 0..n {
            while !matches!(reader.next(ZERO).unwrap(), TailItem::EndOfFile { .. }) {}
        }
        readers.push(reader);
    }
    let (shared, end) = (writer.shared(), writer.position());
    for reader in readers {
        let file = reader.position().file_number;
        purge(&shared, end, ZERO);
        assert_eq!(shared.files()[0].0, file, "the oldest one is there");
        drop(reader);
    }
    purge(&shared, end, ZERO);
    assert_eq!(shared.files().len(), 1);
}

#[test]
fn a_reader_that_is_too_far_behind_loses_its_place_by_name() {
    let an_hour = Duration::from_secs(3600);
    // Within its limits, by bytes and by age.
    for (bytes, age, lost) in
        [(1 << 20, an_hour, false), (5000, an_hour, true), (1 << 20, Duration::from_secs(60), true)]
    {
        let dir = folder();
        let mut source = Source::new(CRC);
        let (mut writer, _) = connected(RelayOptions { max_file_bytes: 900, ..options(dir.path()) }, &source);
        source.feed(&mut writer, 1000);
        let mut reader = RelayReader::open(writer.shared(), limited(bytes, age));
        let mut seen = Seen::default();
        seen.take(reader.next(ZERO).unwrap());
        let place = reader.position();
        for _ in 0..9 {
            source.feed(&mut writer, 1000);
        }
        let purged = purge(&writer.shared(), writer.position(), Duration::from_secs(600));
        assert_eq!(purged > 0, lost);
        if lost {
            let error = reader.next(ZERO).unwrap_err();
            assert!(error.to_string().contains("relay-bin.000001"), "{error}");
            let RelayError::PlaceLost { file, offset } = error else { panic!("{error}") };
            assert_eq!((file.as_str(), offset), ("relay-bin.000001", place.offset));
            assert!(matches!(reader.next(ZERO), Err(RelayError::PlaceLost { .. })), "for ever");
            // The lost file holds nothing the reader needs; from another start it reads again.
            let start = writer.shared().start_point(&gtids(9), None).unwrap();
            reader.restart_at(&start);
            assert_eq!(transactions(&mut reader), expected(10, 10));
        } else {
            seen.drain(&mut reader);
            assert_eq!(seen.files, on_disk(dir.path()));
            assert!(purge(&writer.shared(), writer.position(), ZERO) > 0, "it went on");
        }
    }
}

#[test]
fn a_reader_with_a_limit_does_not_keep_a_writer_waiting_for_space() {
    let dir = folder();
    let mut source = Source::new(CRC);
    let options = RelayOptions { max_file_bytes: 900, space_limit_bytes: 6000, ..options(dir.path()) };
    let (mut writer, _) = connected(options, &source);
    let shared = writer.shared();
    let mut reader = RelayReader::open(Arc::clone(&shared), limited(u64::MAX, NO_AGE));
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            while !stop.load(Ordering::Relaxed) {
                let end = shared.files().last().map_or(RelayPosition::default(), |(file_number, offset)| {
                    RelayPosition { file_number: *file_number, offset: *offset }
                });
                if shared.space().waiting.is_some() {
                    purge(&shared, end, ZERO);
                }
                std::thread::yield_now();
            }
        });
        for _ in 0..20 {
            source.feed(&mut writer, 1000);
        }
        stop.store(true, Ordering::Relaxed);
    });
    assert!(matches!(reader.next(ZERO), Err(RelayError::PlaceLost { .. })));
}

#[test]
fn a_place_lost_while_a_reader_reads_is_no_damage() {
    let dir = folder();
    let mut source = Source::new(CRC);
    let options = RelayOptions { max_file_bytes: 20_000, hot_bytes_max: 0, ..options(dir.path()) };
    let (mut writer, _) = connected(options, &source);
    let shared = writer.shared();
    let mut lost = 0;
    for _ in 0..30 {
        for _ in 0..5 {
            source.feed(&mut writer, 6000);
        }
        let mut reader = RelayReader::open(Arc::clone(&shared), limited(0, ZERO));
        let end = writer.position();
        std::thread::scope(|scope| {
            let read = scope.spawn(move || {
                loop {
                    match reader.next(ZERO) {
                        Ok(TailItem::Chunk(chunk)) => assert!(!chunk.data.is_empty()),
                        Ok(TailItem::EndOfFile { .. }) => {}
                        Ok(TailItem::Idle | TailItem::Closed) => return false,
                        Err(RelayError::PlaceLost { .. }) => return true,
                        Err(error) => panic!("{error}"),
                    }
                }
            });
            std::thread::yield_now();
            purge(&shared, end, ZERO);
            lost += usize::from(read.join().unwrap());
        });
    }
    println!("{lost} of 30 lost their place");
}

#[test]
fn a_log_cut_back_under_readers_tells_those_who_read_too_far() {
    let (from, ends) = twenty(CRC);
    let dir = copy_folder(from.path());
    let options = RelayOptions { on_damage: OnDamage::FetchAgain, max_file_bytes: 2500, ..options(dir.path()) };
    let (mut writer, _) = RelayLog::open(options).unwrap();
    let shared = writer.shared();
    let mut source = Source::new(CRC);
    let (rotate, fde) = source.headers();
    writer.note_source_headers(&rotate, &fde).unwrap();
    let hurt = RelayPosition::of(&ends[12]).unwrap();
    let path = file_path(dir.path(), hurt.file_number);
    let mut bytes = std::fs::read(&path).unwrap();
    bytes[hurt.offset as usize - 60] ^= 1;
    std::fs::write(&path, bytes).unwrap();
    let damage = shared.find_damage(RelayPosition { file_number: 1, offset: 4 }).unwrap().unwrap();

    let kinds = [
        ReaderOptions::REPLAY,
        ReaderOptions::TABLE_COPY,
        ReaderOptions::limited(u64::MAX, NO_AGE, ReadLimit::Synced),
        limited(u64::MAX, NO_AGE),
    ];
    let mut ahead: Vec<RelayReader> = kinds.iter().map(|kind| RelayReader::open(Arc::clone(&shared), *kind)).collect();
    let mut behind: Vec<RelayReader> = kinds.iter().map(|kind| RelayReader::open(Arc::clone(&shared), *kind)).collect();
    for reader in &mut ahead {
        while !matches!(reader.next(ZERO).unwrap(), TailItem::Idle) {}
        assert!(reader.position() > damage.whole_up_to);
    }
    for reader in &mut behind {
        reader.set_limit(ReadLimit::Position(damage.whole_up_to));
        while !matches!(reader.next(ZERO).unwrap(), TailItem::Idle) {}
        reader.set_limit(ReadLimit::Visible);
    }
    writer.truncate_to(&damage, &GtidSet::new()).unwrap();
    source.author.last = 11;
    writer.note_source_headers(&rotate, &fde).unwrap();
    for _ in 0..5 {
        source.feed(&mut writer, 800);
    }
    for reader in &mut ahead {
        assert!(matches!(reader.next(ZERO), Err(RelayError::Truncated)));
        assert!(matches!(reader.next(ZERO), Err(RelayError::Truncated)), "until it begins again");
        let start = shared.start_point(&gtids(11), None).unwrap();
        reader.restart_at(&start);
        reader.set_limit(ReadLimit::Visible);
        assert_eq!(transactions(reader), expected(12, 16));
    }
    let end = writer.position();
    for reader in &mut behind {
        while !matches!(reader.next(ZERO).unwrap(), TailItem::Idle) {}
        assert_eq!(reader.position(), end);
    }
}

#[test]
fn readers_of_a_log_that_was_opened_again_begin_where_they_were() {
    let dir = folder();
    let mut source = Source::new(CRC);
    let open = || RelayOptions { max_file_bytes: 3000, sync: SyncPolicy::EveryTransaction, ..options(dir.path()) };
    let (mut writer, _) = connected(open(), &source);
    let places: Vec<RelayPosition> = (0..12).map(|_| source.feed(&mut writer, 700)).collect();
    assert!(writer.sync().wait_synced(writer.position(), LONG).unwrap());
    drop(writer); // like a crash
    let (writer, _) = connected(open(), &source);
    for (n, place) in places.iter().enumerate() {
        let last = n as u64 + 1;
        let start = writer.shared().start_point(&gtids(last), Some(&named(*place))).unwrap();
        for kind in [ReaderOptions::REPLAY, ReaderOptions { hold: Hold::Always, ..limited(0, ZERO) }] {
            let mut reader = RelayReader::open_at(writer.shared(), &start, kind);
            assert_eq!(transactions(&mut reader), expected(last + 1, 12));
        }
    }
}
