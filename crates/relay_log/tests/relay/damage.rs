//! Damage in durable bytes: harmless if the store has passed it, otherwise fetched again or refused.

use std::fs::{self, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use base::LogPosition;
use binlog::event_type;
use relay_log::{
    DiskWatch, OnDamage, ReaderOptions, Recovery, RelayError, RelayFiles, RelayLog, RelayOptions, RelayPosition,
    RelayReader, RelayWriter, StartKind, TailItem,
};

use crate::common::*;

fn fetching(dir: &Path, cut: u64, hint: Option<&LogPosition>) -> RelayOptions {
    RelayOptions {
        executed: executed(cut),
        resume_at: hint.cloned(),
        on_damage: OnDamage::FetchAgain,
        max_file_bytes: 2500,
        ..options(dir)
    }
}

/// The source sends everything that is not retrieved, up to transaction `last`.
fn fetch_again(writer: &mut RelayWriter, last: u64) {
    let mut source = Source::new(CRC);
    source.author.last = writer.retrieved().count();
    assert_eq!(*writer.retrieved(), executed(source.author.last), "a prefix");
    let (rotate, fde) = source.headers();
    writer.note_source_headers(&rotate, &fde).unwrap();
    while source.author.last < last {
        source.feed(writer, 120);
    }
}

/// Opens the log for a store at a cut, fetches missing transactions again, and replays.
fn recover(options: RelayOptions, cut: u64) -> Recovery {
    let dir = options.dir.clone();
    let (mut writer, found) = RelayLog::open(options).unwrap();

    let index = fs::read_to_string(dir.join("relay-bin.index")).unwrap_or_default();
    let listed = relay_log::parse_index(index.as_bytes()).unwrap();
    assert_eq!(listed, on_disk(&dir).into_keys().collect::<Vec<_>>());
    fetch_again(&mut writer, 21);
    let mut tail = RelayReader::open_at(writer.shared(), &found.start, ReaderOptions::REPLAY);
    assert_eq!(transactions(&mut tail), expected(cut + 1, 21));
    writer.close().unwrap();
    // Repaired, for every later scan.
    let (files, again) = RelayFiles::open_read_only_for(&dir, &executed(cut), None).unwrap();
    assert_eq!((&again.truncated, &again.dropped, &again.retrieved), (&None, &None, &gtids(21)));
    assert_eq!(transactions(&mut files.reader_at(&again.start)), expected(cut + 1, 21));
    found
}

fn flip(path: &Path, at: u64) {
    let file = OpenOptions::new().read(true).write(true).open(path).unwrap();
    let mut byte = [0];
    file.read_exact_at(&mut byte, at).unwrap();
    file.write_all_at(&[byte[0] ^ (1 << (at % 8))], at).unwrap();
}

#[test]
fn any_flipped_bit_after_the_cut_is_fetched_again() {
    let (from, ends) = twenty(CRC);
    let mut counts = [0; 3];
    for cut in [0u64, 6, 15, 20] {
        for (number, bytes) in on_disk(from.path()) {
            for at in (0..bytes.len() as u64 + 4).step_by(37) {
                let dir = copy_folder(from.path());
                flip(&file_path(dir.path(), number), at);
                let found = recover(fetching(dir.path(), cut, Some(&ends[cut as usize])), cut);
                let hint = RelayPosition::of(&ends[cut as usize]).unwrap();
                let behind = RelayPosition { file_number: number, offset: at } >= hint;
                if let Some(report) = &found.truncated {
                    assert_eq!(report.file, relay_log::file_name(number));
                    counts[0] += 1;
                } else if let Some(dropped) = &found.dropped {
                    let missed =
                        ends.iter().skip(cut as usize + 1).any(|end| *end.file == *relay_log::file_name(number));
                    assert!(!missed && dropped.reasons[0].starts_with(&relay_log::file_name(number)), "{dropped:?}");
                    counts[1] += 1;
                } else {
                    // Bodies that the store passed are not parsed; the in-use flag is not part of the checksum.
                    let in_use = at % 8 == 0 && bytes[at as usize - 17] == event_type::FORMAT_DESCRIPTION;
                    assert!(!behind || in_use, "{number}:{at} behind {hint:?} went unnoticed");
                    counts[2] += 1;
                }
            }
        }
    }
    assert!(counts.iter().all(|count| *count > 20), "{counts:?}");
}

/// Found by the simulation: 9.7.4 with one bit cleared is 1.7.4, a version without checksums, so nothing after it was
/// verified.
#[test]
fn a_version_that_knew_no_checksums_is_noticed_in_front_of_the_cut() {
    let (from, ends) = twenty(CRC);
    let mut tried = 0;
    for (number, bytes) in on_disk(from.path()) {
        // The magic is not part of the bytes.
        let mut at = 0;
        while let Some(event) = bytes.get(at..).filter(|event| !event.is_empty()) {
            let is_format = event[4] == event_type::FORMAT_DESCRIPTION;
            // Binlog version and the first bytes of the server version; the in-use flag is not part of the checksum.
            for bit in if is_format { 19 * 8..26 * 8 } else { 0..0 } {
                let dir = copy_folder(from.path());
                let file = OpenOptions::new().write(true).open(file_path(dir.path(), number)).unwrap();
                file.write_all_at(&[event[bit / 8] ^ 1 << (bit % 8)], (at + 4 + bit / 8) as u64).unwrap();
                let found = recover(fetching(dir.path(), 6, Some(&ends[6])), 6);
                assert!(
                    found.truncated.is_some() || found.dropped.is_some(),
                    "{number}:{at}, bit {bit} went unnoticed"
                );
                tried += 1;
            }
            at += u32::from_le_bytes(event[9..13].try_into().unwrap()) as usize;
        }
    }
    assert!(tried > 300, "{tried}");
}

#[test]
fn a_missing_file_is_fetched_again_or_not_missed() {
    let (from, ends) = twenty(CRC);
    let last = *on_disk(from.path()).keys().last().unwrap();
    for cut in 0..=20u64 {
        for with_hint in [true, false] {
            for number in 1..=last {
                for index in ["kept", "lost", "garbage"] {
                    let dir = copy_folder(from.path());
                    fs::remove_file(file_path(dir.path(), number)).unwrap();
                    match index {
                        "lost" => fs::remove_file(dir.path().join("relay-bin.index")).unwrap(),
                        "garbage" => fs::write(dir.path().join("relay-bin.index"), b"\0\0garbage").unwrap(),
                        _ => {}
                    }
                    let hint = with_hint.then(|| &ends[cut as usize]);
                    let found = recover(fetching(dir.path(), cut, hint), cut);
                    let passed = ends
                        .iter()
                        .skip(cut as usize + 1)
                        .all(|end| RelayPosition::of(end).unwrap().file_number > number);
                    if passed && number < last {
                        assert_eq!(found.truncated, None, "{cut} {number} {index}");
                    } else {
                        let cut = found.truncated.unwrap();
                        assert!(cut.reason.contains("missing") || cut.reason.contains("follows"), "{cut:?}");
                    }
                }
            }
        }
    }
}

#[test]
fn a_store_older_than_the_log_starts_a_new_one() {
    let (from, _) = twenty(CRC);
    // Purged up to its last file; the store is set back to 3.
    let (writer, _) = RelayLog::open(fetching(from.path(), 20, None)).unwrap();
    let end = writer.position();
    let at = LogPosition { file: relay_log::file_name(end.file_number).into(), offset: end.offset };
    writer.shared().purge(&at, &gtids(20), ZERO, std::time::SystemTime::now()).unwrap();
    drop(writer);
    let kept = *on_disk(from.path()).keys().next().unwrap();
    assert!(matches!(
        RelayLog::open(RelayOptions { executed: gtids(3), ..options(from.path()) }),
        Err(RelayError::Gap { .. })
    ));
    let found = recover(fetching(from.path(), 3, None), 3);
    assert!(found.files.is_empty() && found.truncated.is_some_and(|cut| cut.reason.contains("follows transactions")));
    assert!(*on_disk(from.path()).keys().next().unwrap() > kept, "numbers do not come again");
}

#[test]
fn refused_damage_touches_nothing_and_passed_damage_is_dropped() {
    let (from, ends) = twenty(CRC);
    let refusing = |dir: &Path, cut: u64| RelayOptions {
        on_damage: OnDamage::Refuse,
        ..fetching(dir, cut, Some(&ends[cut as usize]))
    };
    let hint_file = |cut: usize| RelayPosition::of(&ends[cut]).unwrap().file_number;
    for missing in [false, true] {
        for (cut, end) in ends.iter().enumerate() {
            let dir = copy_folder(from.path());
            let path = file_path(dir.path(), 2);
            if missing {
                fs::remove_file(&path).unwrap();
            } else {
                // A length field.
                let at = fs::metadata(&path).unwrap().len() - 100;
                OpenOptions::new().write(true).open(&path).unwrap().write_all_at(&[0xff; 60], at).unwrap();
            }
            let before = on_disk(dir.path());
            match RelayLog::open(refusing(dir.path(), cut as u64)) {
                Err(error) => {
                    assert!(matches!(error, RelayError::Corrupt { .. } | RelayError::Missing { .. }), "{error}");
                    assert_eq!(on_disk(dir.path()), before);
                    assert!(hint_file(cut) <= 2, "{cut}");
                }
                Ok((_, found)) => {
                    assert!(hint_file(cut) > 2, "{cut}");
                    let dropped = found.dropped.unwrap();
                    assert_eq!(dropped.files, ["relay-bin.000001", "relay-bin.000002"]);
                    assert_eq!((found.truncated, found.retrieved), (None, gtids(20)));
                    assert_eq!(found.start.log_position(), *end);
                    assert_eq!(*on_disk(dir.path()).keys().next().unwrap(), 3);
                }
            }
        }
    }
}

/// Reads until the reader fails.
fn read_until_error(tail: &mut RelayReader) -> RelayError {
    loop {
        match tail.next(ZERO) {
            Ok(TailItem::Idle) => panic!("read to the end"),
            Ok(_) => {}
            Err(error) => return error,
        }
    }
}

#[test]
fn damage_under_a_running_log_is_cut_off_and_fetched_again() {
    let (from, ends) = twenty(CRC);
    for cut in [0u64, 6, 15] {
        for hurt in cut..20 {
            let dir = copy_folder(from.path());
            let (mut writer, found) = RelayLog::open(fetching(dir.path(), cut, Some(&ends[cut as usize]))).unwrap();
            fetch_again(&mut writer, 20);
            let shared = writer.shared();
            assert_eq!(shared.find_damage(found.start.position).unwrap(), None);
            // In the middle of transaction `hurt + 1`.
            let end = RelayPosition::of(&ends[hurt as usize + 1]).unwrap();
            flip(&file_path(dir.path(), end.file_number), end.offset - 60);
            let mut tail = RelayReader::open_at(Arc::clone(&shared), &found.start, ReaderOptions::REPLAY);
            while !matches!(tail.next(ZERO).unwrap(), TailItem::Idle) {} // no event is parsed here
            let damage = shared.find_damage(found.start.position).unwrap().unwrap();
            assert_eq!(damage.file, relay_log::file_name(end.file_number));
            assert!(damage.offset < end.offset && damage.reason.contains("checksum"), "{damage}");
            assert_eq!(damage.retrieved_before, executed(hurt));
            // Damage that is only found after `end` is not the damage.
            assert_eq!(shared.find_damage(end).unwrap(), None);

            let report = writer.truncate_to(&damage, &executed(cut)).unwrap();
            assert_eq!((report.file, report.to_len), (damage.file, damage.whole_up_to.offset));
            assert!(matches!(read_until_error(&mut tail), RelayError::Truncated));
            assert_eq!(*writer.retrieved(), executed(hurt));
            assert_eq!(writer.sync().written(), damage.whole_up_to);
            fetch_again(&mut writer, 22);
            let start = shared.start_point(&executed(cut), Some(&ends[cut as usize])).unwrap();
            let mut tail = RelayReader::open_at(Arc::clone(&shared), &start, ReaderOptions::REPLAY);
            assert_eq!(transactions(&mut tail), expected(cut + 1, 22));
            let position = writer.position();
            writer.sync().request_sync();
            assert!(writer.sync().wait_synced(position, LONG).unwrap());
            writer.close().unwrap();
            let again = RelayFiles::open_read_only_for(dir.path(), &executed(cut), None).unwrap().1;
            assert_eq!((again.retrieved, again.truncated), (gtids(22), None));
        }
    }
}

#[test]
fn a_file_cut_or_deleted_under_a_running_log_is_fetched_again() {
    let (from, ends) = twenty(CRC);
    for delete in [true, false] {
        let dir = copy_folder(from.path());
        let (mut writer, found) = RelayLog::open(fetching(dir.path(), 6, Some(&ends[6]))).unwrap();
        fetch_again(&mut writer, 20);
        let number = found.start.position.file_number + 1;
        let path = file_path(dir.path(), number);
        if delete {
            fs::remove_file(&path).unwrap();
        } else {
            OpenOptions::new().write(true).open(&path).unwrap().set_len(600).unwrap();
        }
        let mut tail = RelayReader::open_at(writer.shared(), &found.start, ReaderOptions::REPLAY);
        let error = read_until_error(&mut tail);
        assert!(matches!(error, RelayError::Missing { .. } | RelayError::Corrupt { .. }), "{error}");
        let damage = writer.shared().find_damage(tail.position()).unwrap().unwrap();
        assert_eq!(damage.file, relay_log::file_name(number));
        assert!(damage.whole_up_to.file_number < number || !delete);
        // A reader before the cut continues.
        let mut early = RelayReader::open_at(writer.shared(), &found.start, ReaderOptions::REPLAY);
        writer.truncate_to(&damage, &gtids(6)).unwrap();
        fetch_again(&mut writer, 23);
        assert_eq!(transactions(&mut early), expected(7, 23));
    }
}

#[test]
fn damage_at_the_very_beginning_leaves_an_empty_log_with_new_names() {
    let (from, _) = twenty(CRC);
    let dir = copy_folder(from.path());
    let (mut writer, found) = RelayLog::open(fetching(dir.path(), 0, None)).unwrap();
    flip(&file_path(dir.path(), 1), 20);
    let before = *on_disk(dir.path()).keys().last().unwrap();
    let damage = writer.shared().find_damage(found.start.position).unwrap().unwrap();
    assert_eq!((damage.whole_up_to, damage.retrieved_before.is_empty()), (RelayPosition::default(), true));
    writer.truncate_to(&damage, &executed(0)).unwrap();
    assert!(on_disk(dir.path()).is_empty() && writer.retrieved().is_empty());
    fetch_again(&mut writer, 21);
    assert_eq!(*on_disk(dir.path()).keys().next().unwrap(), before + 1);
    let start = writer.shared().start_point(&executed(0), None).unwrap();
    assert_eq!(start.kind, StartKind::Beginning);
    assert_eq!(
        transactions(&mut RelayReader::open_at(writer.shared(), &start, ReaderOptions::REPLAY)),
        expected(1, 21)
    );
    writer.close().unwrap();
}

#[test]
fn a_purge_by_an_old_position_spares_what_was_fetched_again() {
    // The cut's position names a file number that is used again, for other transactions, after a truncation.
    let (from, ends) = twenty(CRC);
    let dir = copy_folder(from.path());
    flip(&file_path(dir.path(), 2), 500);
    let (mut writer, _) = RelayLog::open(fetching(dir.path(), 6, None)).unwrap();
    fetch_again(&mut writer, 40);
    assert!(writer.position().file_number > RelayPosition::of(&ends[20]).unwrap().file_number);
    writer.shared().purge(&ends[20], &gtids(6), ZERO, std::time::SystemTime::now()).unwrap();
    let start = writer.shared().start_point(&gtids(6), None).unwrap();
    assert_eq!(
        transactions(&mut RelayReader::open_at(writer.shared(), &start, ReaderOptions::REPLAY)),
        expected(7, 40)
    );
}

#[test]
fn a_crash_at_every_step_of_a_cut_back_loses_nothing() {
    let (from, ends) = twenty(CRC);
    for at_open in [true, false] {
        let mut n = 0;
        loop {
            let dir = copy_folder(from.path());
            let count = Arc::new(AtomicU64::new(0));
            let (counted, armed) = (Arc::clone(&count), Arc::new(AtomicU64::new(u64::from(at_open))));
            let arm = Arc::clone(&armed);
            let watch = DiskWatch::new(move |_, _| {
                if armed.load(Ordering::SeqCst) == 1 && counted.fetch_add(1, Ordering::SeqCst) >= n {
                    return Err(io::Error::other("no disk"));
                }
                Ok(())
            });
            let options = || fetching(dir.path(), 6, Some(&ends[6]));
            let watched = RelayOptions { disk_watch: Some(watch), ..options() };
            let hurt = || flip(&file_path(dir.path(), 3), 700);
            if at_open {
                hurt();
                let _ = RelayLog::open(watched);
            } else {
                let (mut writer, found) = RelayLog::open(watched).unwrap();
                hurt();
                let damage = writer.shared().find_damage(found.start.position).unwrap().unwrap();
                arm.store(1, Ordering::SeqCst);
                let cut = writer.truncate_to(&damage, &gtids(6));
                assert_eq!(cut.is_err(), writer.sync().poison().is_some());
            }
            let done = count.load(Ordering::SeqCst);
            recover(options(), 6);
            if done <= n {
                break;
            }
            n += 1;
        }
        assert!(n > 10, "{n} operations");
    }
}

/// Damages a folder in one random way.
fn hurt(dir: &Path, roll: &mut impl FnMut(u64) -> u64) -> String {
    let files: Vec<u64> = on_disk(dir).into_keys().collect();
    if files.is_empty() {
        return "nothing left".into();
    }
    let number = files[roll(files.len() as u64) as usize];
    let path = file_path(dir, number);
    let len = fs::metadata(&path).unwrap().len();
    let at = roll(len + 1);
    let open = || OpenOptions::new().write(true).open(&path).unwrap();
    match roll(9) {
        0 if at < len => flip(&path, at),
        1 => open().write_all_at(&vec![0; roll(300) as usize], at).unwrap(),
        2 => open().set_len(at).unwrap(),
        3 => fs::remove_file(&path).unwrap(),
        4 => {
            let other = files[roll(files.len() as u64) as usize];
            let bytes = fs::read(file_path(dir, other)).unwrap();
            fs::write(&path, bytes).unwrap();
            return format!("{other} over {number}");
        }
        5 => open().write_all_at(&vec![0xa5; 1 + roll(40) as usize], len).unwrap(),
        6 => fs::write(dir.join("relay-log.state"), b"slipstream relay log state 1\nfile").unwrap(),
        7 => fs::write(dir.join("relay-bin.index"), vec![b'.'; roll(20) as usize]).unwrap(),
        _ => {
            // Bytes of another place: whole, but wrong here.
            let bytes = fs::read(&path).unwrap();
            let from = roll(len) as usize;
            open().write_all_at(&bytes[from..(from + 200).min(bytes.len())], at).unwrap();
        }
    }
    format!("{number} at {at}")
}

#[test]
fn whatever_happens_to_the_folder_a_server_makes_good() {
    let (from, ends) = twenty(CRC);
    for seed in (0..600u64).chain([5551, 27_315]) {
        // A generator of its own: the last two seeds failed once, and must stay what they were.
        let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
        let mut roll = |below: u64| {
            state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            (state >> 33) % below.max(1)
        };
        let dir = copy_folder(from.path());
        let cut = roll(21);
        let hint = (roll(4) > 0).then(|| &ends[cut as usize]);
        let done: Vec<String> = (0..=roll(3)).map(|_| hurt(dir.path(), &mut roll)).collect();
        println!("seed {seed}, cut {cut}: {done:?}");
        recover(fetching(dir.path(), cut, hint), cut);
    }
}

#[test]
fn damage_under_the_receiver_is_cut_off_through_the_intake() {
    let dir = folder();
    let mut source = Source::new(CRC);
    let (writer, _) = RelayLog::open(fetching(dir.path(), 0, None)).unwrap();
    let shared = writer.shared();
    let start = LogPosition { file: "binlog.000042".into(), offset: 4 };
    let mut intake = relay_log::Intake::new(writer, start);
    let feed = |intake: &mut relay_log::Intake, bytes: &[u8]| {
        let mut rest = bytes;
        while let Ok(header) = binlog::EventHeader::parse(rest) {
            let (event, behind) = rest.split_at(header.event_len as usize);
            intake.event(event).unwrap();
            rest = behind;
        }
    };
    let (rotate, fde) = source.headers();
    feed(&mut intake, &[rotate.clone(), fde.clone()].concat());
    for _ in 0..10 {
        feed(&mut intake, &source.transaction(300));
    }
    let end = intake.flush().unwrap().unwrap();
    // A transaction is open, in memory and (its first part) in the file, when the damage is found.
    let open = source.transaction(4 << 20);
    feed(&mut intake, &open[..150]);
    flip(&file_path(dir.path(), end.file_number), end.offset - 3000);
    let damage = shared.find_damage(RelayPosition { file_number: 1, offset: 4 }).unwrap().unwrap();
    let report = intake.truncate_to(&damage, &executed(0)).unwrap();
    assert!(report.to_len > 0 && report.from_len > report.to_len, "{report:?}");
    assert!(!intake.in_transaction());
    let kept = intake.writer().retrieved().count();
    assert!(kept > 0 && kept < 10, "{kept}");
    assert_eq!(Some(intake.source_position()), intake.writer().source_position());
    source.author.last = kept;
    feed(&mut intake, &[rotate, fde].concat());
    for _ in kept..12 {
        feed(&mut intake, &source.transaction(100));
    }
    intake.finish().unwrap().close().unwrap();
    let (files, found) = RelayFiles::open_read_only_for(dir.path(), &executed(0), None).unwrap();
    assert_eq!(transactions(&mut files.reader_at(&found.start)), expected(1, 12));
}

/// A source without checksums clears `created` for a replica that has transactions, but not the checksum over it.
#[test]
fn a_format_description_whose_checksum_is_stale_is_accepted() {
    let dir = folder();
    let source = Source::new(binlog::ChecksumAlgorithm::None);
    let (rotate, mut fde) = source.headers();
    fde[71..75].copy_from_slice(&[0; 4]);
    let len = fde.len();
    fde[len - 1] ^= 0x55;
    assert!(!binlog::verify_checksum(&fde));
    let take = |rotate: Option<&[u8]>, fde: &[u8], name: &str| {
        let (writer, _) = RelayLog::open(fetching(&dir.path().join(name), 0, None)).unwrap();
        let mut intake = relay_log::Intake::new(writer, LogPosition { file: "binlog.000042".into(), offset: 4 });
        if let Some(rotate) = rotate {
            intake.event(rotate).unwrap();
        }
        intake.event(fde).map(|_| ())
    };
    for name in ["sent", "file", "damaged"] {
        std::fs::create_dir(dir.path().join(name)).unwrap();
    }
    take(Some(&rotate), &fde, "sent").unwrap();
    // Bytes of a file, and an event that announces checksums, must be unchanged.
    assert!(take(None, &fde, "file").is_err());
    fde[len - 5] = 1;
    assert!(take(Some(&rotate), &fde, "damaged").is_err());
}
