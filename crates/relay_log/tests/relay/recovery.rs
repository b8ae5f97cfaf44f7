//! Torn, flipped, zeroed, deleted, listed wrongly: each folder is repaired with a report or refused with a reason.

use std::fs::{self, OpenOptions};
use std::os::unix::fs::FileExt;
use std::path::Path;

use base::GtidSet;
use relay_log::{Recovery, RelayError, RelayLog, RelayOptions, SyncPolicy};
use tempfile::TempDir;

use crate::common::*;

/// A log after a crash: `ends` are the ends of the transactions in its only file.
struct Crashed {
    dir: TempDir,
    ends: Vec<u64>,
    bytes: Vec<u8>,
}

/// Writes transactions of these sizes, syncs after the first `synced` of them, and crashes.
fn crashed(source: &mut Source, sizes: &[usize], synced: usize) -> Crashed {
    let dir = folder();
    let (mut writer, _) = connected(options(dir.path()), source);
    let mut ends = vec![writer.position().offset];
    for (i, rows) in sizes.iter().enumerate() {
        ends.push(source.feed(&mut writer, *rows).offset);
        if i + 1 == synced {
            writer.sync().request_sync();
            assert!(writer.sync().wait_synced(writer.position(), LONG).unwrap());
            wait_for_state(dir.path(), ends[synced]);
        }
    }
    drop(writer);
    let bytes = fs::read(file_path(dir.path(), 1)).unwrap();
    Crashed { dir, ends, bytes }
}

fn wait_for_state(dir: &Path, synced: u64) {
    let deadline = std::time::Instant::now() + LONG;
    loop {
        let text = fs::read_to_string(dir.join("relay-log.state")).unwrap();
        if text.contains(&format!("synced {synced}\n")) {
            return;
        }
        assert!(std::time::Instant::now() < deadline, "{text}");
        std::thread::yield_now();
    }
}

fn open(dir: &Path) -> Result<Recovery, RelayError> {
    // A scan that changes nothing must give the same result as the repair.
    let looked = read_only(dir).map(|(seen, recovery)| (seen.files, recovery));
    let opened = RelayLog::open(options(dir)).map(|(_, recovery)| recovery);
    match (&looked, &opened) {
        (Ok((files, looked)), Ok(opened)) => {
            assert_eq!(
                (&looked.retrieved, &looked.files, &looked.truncated),
                (&opened.retrieved, &opened.files, &opened.truncated)
            );
            let mended = on_disk(dir);
            assert_eq!(*files, mended);
            for (number, len) in &opened.files {
                assert_eq!(mended[number].len() as u64 + 4, *len);
            }
        }
        (Err(looked), Err(opened)) => assert_eq!(looked.to_string(), opened.to_string()),
        other => panic!("{other:?}"),
    }
    opened
}

fn cut_at(dir: &Path, len: u64) {
    OpenOptions::new().write(true).open(file_path(dir, 1)).unwrap().set_len(len).unwrap();
}

fn overwrite(dir: &Path, number: u64, offset: u64, bytes: &[u8]) {
    let file = OpenOptions::new().write(true).open(file_path(dir, number)).unwrap();
    file.write_all_at(bytes, offset).unwrap();
}

/// Number of whole transactions kept; checks that they are a prefix.
fn kept(set: &GtidSet) -> u64 {
    let count = set.count();
    assert_eq!(*set, if count == 0 { GtidSet::new() } else { gtids(count) });
    count
}

#[test]
fn torn_at_every_byte_of_a_transaction() {
    let crash = crashed(&mut Source::new(CRC), &[50, 80, 60], 0);
    let (before, end) = (crash.ends[2], crash.ends[3]);
    for len in before..=end {
        let dir = copy_folder(crash.dir.path());
        cut_at(dir.path(), len);
        let found = open(dir.path()).unwrap();
        assert!(!found.clean);
        if len == end || len == before {
            assert_eq!(found.truncated, None, "{len}");
            assert_eq!(kept(&found.retrieved), if len == end { 3 } else { 2 });
            continue;
        }
        let cut = found.truncated.unwrap();
        assert_eq!((cut.file.as_str(), cut.from_len, cut.to_len), ("relay-bin.000001", len, before));
        assert!(cut.reason.contains("ends inside"), "{}", cut.reason);
        assert_eq!(kept(&found.retrieved), 2);
        assert_eq!(found.files, [(1, before)]);
        assert_eq!(fs::metadata(file_path(dir.path(), 1)).unwrap().len(), before);
        // Repaired: the next start finds nothing to do.
        assert_eq!(open(dir.path()).unwrap().truncated, None);
    }
}

#[test]
fn torn_at_every_byte_of_the_head() {
    let crash = crashed(&mut Source::new(CRC), &[50], 0);
    let head = crash.ends[0];
    for len in 0..head {
        let dir = copy_folder(crash.dir.path());
        cut_at(dir.path(), len);
        let found = open(dir.path()).unwrap();
        assert_eq!(kept(&found.retrieved), 0);
        assert!(found.truncated.is_some_and(|cut| cut.from_len == len) || found.files == [(1, len)]);
        // The log can be continued.
        let mut source = Source::new(CRC);
        let (mut writer, _) = connected(options(dir.path()), &source);
        source.feed(&mut writer, 10);
        writer.close().unwrap();
        assert_eq!(kept(&open(dir.path()).unwrap().retrieved), 1);
    }
}

#[test]
fn any_flipped_bit_in_unsynced_bytes_is_found_and_cut_off() {
    let crash = crashed(&mut Source::new(CRC), &[30, 40, 30], 0);
    let dir = copy_folder(crash.dir.path());
    for at in 0..crash.bytes.len() {
        let mut bytes = crash.bytes.clone();
        bytes[at] ^= 1 << (at % 8);
        fs::write(file_path(dir.path(), 1), &bytes).unwrap();
        let (seen, found) = read_only(dir.path()).unwrap();
        let whole = crash.ends.iter().skip(1).filter(|end| **end <= at as u64).count() as u64;
        // The in-use flag is not part of the checksum.
        if let Some(cut) = &found.truncated {
            assert_eq!(kept(&found.retrieved), whole, "flip at {at}: {cut:?}");
        } else {
            assert_eq!(kept(&found.retrieved), 3, "flip at {at}");
            assert_eq!(bytes[at] ^ 1, crash.bytes[at], "only the in-use flag may flip, not at {at}");
        }
        let len = found.files.last().map_or(4, |(_, len)| *len as usize);
        assert_eq!(seen.files.get(&1).map_or(&[][..], |data| &data[..]), &bytes[4..len]);
    }
}

#[test]
fn a_flipped_bit_in_synced_bytes_is_never_cut_off() {
    let mut source = Source::new(CRC);
    let crash = crashed(&mut source, &[30, 40, 30], 2);
    let dir = copy_folder(crash.dir.path());
    let (mut refused, mut passed) = (0, 0);
    for at in 0..crash.ends[2] as usize {
        let mut bytes = crash.bytes.clone();
        bytes[at] ^= 0x80;
        fs::write(file_path(dir.path(), 1), &bytes).unwrap();
        match read_only(dir.path()) {
            Err(RelayError::Corrupt { file, .. }) => {
                assert_eq!(file, "relay-bin.000001");
                refused += 1;
            }
            // Bodies are verified when they are decoded.
            Ok((_, found)) => {
                assert_eq!(found.truncated, None);
                passed += 1;
            }
            Err(other) => panic!("{other}"),
        }
    }
    assert!(refused > 50 && passed > 50, "{refused} {passed}");
    let message = {
        overwrite(dir.path(), 1, 0, b"junk");
        RelayLog::open(options(dir.path())).unwrap_err().to_string()
    };
    assert!(
        message.contains("relay-bin.000001 is damaged at offset 0") && message.contains("To continue"),
        "{message}"
    );
}

#[test]
fn a_synced_part_of_an_unfinished_transaction_is_cut_off() {
    let dir = folder();
    let mut source = Source::new(CRC);
    let (mut writer, _) = connected(options(dir.path()), &source);
    let whole = source.feed(&mut writer, 30).offset;
    let data = source.transaction(3000);
    // GTID and BEGIN: appends contain whole events.
    let event_len = |at: usize| binlog::EventHeader::parse(&data[at..]).unwrap().event_len as usize;
    let len = event_len(0) + event_len(event_len(0));
    let end = writer.append(data[..len].to_vec(), part(&source)).unwrap();
    writer.sync().request_sync();
    assert!(writer.sync().wait_synced(end, LONG).unwrap());
    wait_for_state(dir.path(), end.offset);
    drop(writer);
    let found = open(dir.path()).unwrap();
    assert_eq!(found.truncated.unwrap().to_len, whole);
    assert_eq!(kept(&found.retrieved), 1);
}

#[test]
fn zeros_in_the_middle_of_unsynced_bytes() {
    // After a power loss: the length is there, a page in the middle is not.
    let crash = crashed(&mut Source::new(CRC), &[500, 9000, 9000, 9000, 500], 1);
    for page in [crash.ends[2] + 2000, crash.ends[3] - 100, crash.ends[1], crash.ends[5] - 200] {
        let dir = copy_folder(crash.dir.path());
        overwrite(dir.path(), 1, page, &[0; 150]);
        let found = open(dir.path()).unwrap();
        let whole = crash.ends.iter().skip(1).filter(|end| **end <= page).count() as u64;
        assert_eq!(kept(&found.retrieved), whole);
        assert_eq!(found.truncated.unwrap().to_len, crash.ends[whole as usize]);
    }
    // A file that was extended but never written.
    let dir = copy_folder(crash.dir.path());
    cut_at(dir.path(), crash.ends[5] + 5000);
    assert_eq!(kept(&open(dir.path()).unwrap().retrieved), 5);
    // Without a state file nothing is known to be synced, and everything is verified.
    let dir = copy_folder(crash.dir.path());
    fs::remove_file(dir.path().join("relay-log.state")).unwrap();
    overwrite(dir.path(), 1, crash.ends[0] + 300, &[0; 50]);
    assert_eq!(kept(&open(dir.path()).unwrap().retrieved), 0);
}

#[test]
fn unsynced_bytes_without_checksums_are_thrown_away() {
    for synced in [0, 2] {
        let crash = crashed(&mut Source::new(NONE), &[50, 60, 70, 80], synced);
        let found = open(crash.dir.path()).unwrap();
        assert_eq!(kept(&found.retrieved), synced as u64);
        let cut = found.truncated.unwrap();
        assert!(cut.reason.contains("without checksums"), "{}", cut.reason);
        assert_eq!(cut.to_len, if synced == 0 { 0 } else { crash.ends[synced] });
    }
}

#[test]
fn acknowledged_bytes_without_checksums_are_kept() {
    let dir = folder();
    let mut source = Source::new(NONE);
    let (mut writer, _) = connected(options(dir.path()), &source);
    for count in 1..6 {
        let end = source.feed(&mut writer, 100);
        writer.sync().request_sync();
        assert!(writer.sync().wait_synced(end, LONG).unwrap());
        // At this moment the source may get an acknowledgement, and the power may be cut.
        let after = copy_folder(dir.path());
        assert_eq!(kept(&open(after.path()).unwrap().retrieved), count);
    }
}

/// Several files, closed cleanly.
fn several(seed: usize) -> TempDir {
    let dir = folder();
    let mut source = Source::new(CRC);
    let (mut writer, _) = connected(RelayOptions { max_file_bytes: 1500, ..options(dir.path()) }, &source);
    for _ in 0..12 {
        source.feed(&mut writer, 300 + seed);
    }
    writer.close().unwrap();
    assert!(on_disk(dir.path()).len() >= 4);
    dir
}

#[test]
fn a_damaged_middle_file_is_refused() {
    let from = several(0);
    let len = fs::metadata(file_path(from.path(), 2)).unwrap().len();
    for shorter in [0, 3, 100, len / 2, len - 1] {
        let dir = copy_folder(from.path());
        OpenOptions::new().write(true).open(file_path(dir.path(), 2)).unwrap().set_len(shorter).unwrap();
        let error = open(dir.path()).unwrap_err();
        assert!(matches!(&error, RelayError::Corrupt { file, .. } if file == "relay-bin.000002"), "{error}");
        assert_eq!(on_disk(dir.path()).len(), on_disk(from.path()).len(), "nothing was touched");
    }
    // Truncated between two events: only the closing ROTATE is missing.
    let dir = copy_folder(from.path());
    let closing = parse_all(dir.path()).iter().rfind(|(n, _)| *n == 2).unwrap().1.event_len;
    let file = OpenOptions::new().write(true).open(file_path(dir.path(), 2)).unwrap();
    file.set_len(len - u64::from(closing)).unwrap();
    assert!(matches!(open(dir.path()), Err(RelayError::Corrupt { .. })));
    // Another log's file in its place.
    let dir = copy_folder(from.path());
    fs::copy(file_path(from.path(), 1), file_path(dir.path(), 2)).unwrap();
    assert!(matches!(open(dir.path()), Err(RelayError::Corrupt { .. })));
}

#[test]
fn a_shortened_last_file_is_cut_and_reported_even_after_a_clean_stop() {
    let from = several(0);
    let last = *on_disk(from.path()).keys().last().unwrap();
    let len = fs::metadata(file_path(from.path(), last)).unwrap().len();
    let dir = copy_folder(from.path());
    OpenOptions::new().write(true).open(file_path(dir.path(), last)).unwrap().set_len(len - 5).unwrap();
    let found = open(dir.path()).unwrap();
    assert_eq!(found.truncated.unwrap().from_len, len - 5);
    assert_eq!(kept(&found.retrieved), 11);
    // Whole transactions are gone, and only the state file shows it.
    let dir = copy_folder(from.path());
    let before = {
        let copy = copy_folder(dir.path());
        OpenOptions::new().write(true).open(file_path(copy.path(), last)).unwrap().set_len(len - 5).unwrap();
        open(copy.path()).unwrap().files.last().unwrap().1
    };
    OpenOptions::new().write(true).open(file_path(dir.path(), last)).unwrap().set_len(before).unwrap();
    let cut = open(dir.path()).unwrap().truncated.unwrap();
    assert_eq!((cut.from_len, cut.to_len), (len, before));
}

#[test]
fn missing_and_stray_files() {
    let from = several(0);
    let count = on_disk(from.path()).len() as u64;
    for number in [1, 2, count] {
        let dir = copy_folder(from.path());
        fs::remove_file(file_path(dir.path(), number)).unwrap();
        let error = open(dir.path()).unwrap_err();
        assert!(matches!(&error, RelayError::Missing { file, .. } if file.ends_with(&number.to_string())), "{error}");
        // Without the index the other files show that it is missing; a missing first file shows in the second one's
        // GTIDs.
        fs::remove_file(dir.path().join("relay-bin.index")).unwrap();
        if number == 1 {
            let error = RelayLog::open(options(dir.path())).unwrap_err();
            let text = error.to_string();
            assert!(matches!(error, RelayError::Gap { missing, .. } if missing == gtids(3)), "{text}");
            // A store that has its transactions does not need it.
            let found = RelayLog::open(RelayOptions { executed: gtids(3), ..options(dir.path()) }).unwrap().1;
            assert_eq!((kept(&found.retrieved), found.files.len() as u64), (12, count - 1));
            continue;
        }
        assert!(open(dir.path()).is_err());
    }
    // A file that is not listed is left over from an interrupted creation or purge.
    let dir = copy_folder(from.path());
    fs::write(file_path(dir.path(), count + 1), b"\xfebin").unwrap();
    let (seen, looked) = read_only(dir.path()).unwrap();
    assert_eq!((seen.files.len() as u64, looked.truncated), (count, None));
    let (_, found) = RelayLog::open(options(dir.path())).unwrap();
    assert_eq!(found.removed, [format!("relay-bin.{:06}", count + 1)]);
    assert_eq!(on_disk(dir.path()).len() as u64, count);
    // An index without the last file, which the state file names.
    let dir = copy_folder(from.path());
    let index = dir.path().join("relay-bin.index");
    let text = fs::read_to_string(&index).unwrap();
    let lines: Vec<&str> = text.lines().collect();
    fs::write(&index, lines[..lines.len() - 1].join("\n")).unwrap();
    assert!(matches!(open(dir.path()), Err(RelayError::Missing { named_by: "relay-log.state", .. })));
    // All relay files deleted on purpose, the rest left: a new log.
    let dir = copy_folder(from.path());
    for number in 1..=count {
        fs::remove_file(file_path(dir.path(), number)).unwrap();
    }
    assert!(matches!(open(dir.path()), Err(RelayError::Missing { .. })));
    fs::remove_file(dir.path().join("relay-bin.index")).unwrap();
    let found = open(dir.path()).unwrap();
    assert!(found.files.is_empty() && found.clean && found.retrieved.is_empty());
}

#[test]
fn a_lost_index_is_rebuilt_and_a_foreign_one_is_refused() {
    let from = several(0);
    let index_of = |dir: &TempDir| dir.path().join("relay-bin.index");
    let original = fs::read_to_string(index_of(&from)).unwrap();
    for empty in [false, true] {
        let dir = copy_folder(from.path());
        if empty {
            fs::write(index_of(&dir), b"").unwrap();
        } else {
            fs::remove_file(index_of(&dir)).unwrap();
        }
        let (_, found) = RelayLog::open(options(dir.path())).unwrap();
        assert!(found.index_rebuilt && found.truncated.is_none());
        assert_eq!(kept(&found.retrieved), 12);
        assert_eq!(fs::read_to_string(index_of(&dir)).unwrap(), original);
    }
    for garbage in ["\0\0\0\0", "/etc/passwd\n", "./relay-bin.000001\n./relay-bin.0000", "../relay-bin.000001\n"] {
        let dir = copy_folder(from.path());
        fs::write(index_of(&dir), garbage).unwrap();
        let error = open(dir.path()).unwrap_err();
        assert!(matches!(error, RelayError::Index { .. }), "{error}");
    }
}

#[test]
fn garbage_files_and_state_never_panic() {
    let from = several(0);
    for garbage in [&b""[..], b"\xfe", b"\xfebin", b"\xfdbin then encrypted", &[0xff; 5000], &[0; 5000]] {
        for number in 1..=2 {
            let dir = copy_folder(from.path());
            fs::write(file_path(dir.path(), number), garbage).unwrap();
            assert!(matches!(open(dir.path()), Err(RelayError::Corrupt { .. })));
            fs::remove_file(dir.path().join("relay-log.state")).unwrap();
            let found = open(dir.path()).unwrap();
            assert!(found.truncated.is_some());
        }
        let dir = copy_folder(from.path());
        fs::write(dir.path().join("relay-log.state"), garbage).unwrap();
        let found = open(dir.path()).unwrap();
        assert!(!found.clean && found.truncated.is_none());
        assert_eq!(kept(&found.retrieved), 12);
    }
}

#[test]
fn unsynced_rotation_is_cut_back_over_several_files() {
    let dir = folder();
    let mut source = Source::new(CRC);
    let (mut writer, _) = connected(RelayOptions { max_file_bytes: 800, ..options(dir.path()) }, &source);
    for _ in 0..8 {
        source.feed(&mut writer, 400);
    }
    drop(writer);
    let files = on_disk(dir.path()).len();
    assert!(files > 3);
    let len = fs::metadata(file_path(dir.path(), 2)).unwrap().len();
    overwrite(dir.path(), 2, len - 300, &[0; 100]);
    let found = open_writer(dir.path());
    assert!(found.truncated.is_some_and(|cut| cut.file == "relay-bin.000002"));
    assert_eq!(found.files.len(), 2);
    assert_eq!(on_disk(dir.path()).len(), 2, "the later files are gone");
    assert_eq!(fs::read_to_string(dir.path().join("relay-bin.index")).unwrap().lines().count(), 2);
    // The log can be continued from there.
    let kept_before = kept(&found.retrieved);
    let mut again = Source::new(CRC);
    again.author.last = kept_before;
    let (mut writer, _) = connected(options(dir.path()), &again);
    again.feed(&mut writer, 10);
    writer.close().unwrap();
    assert_eq!(kept(&open(dir.path()).unwrap().retrieved), kept_before + 1);
}

fn open_writer(dir: &Path) -> Recovery {
    RelayLog::open(options(dir)).unwrap().1
}

#[test]
fn a_crash_at_every_moment_of_a_run_leaves_a_prefix() {
    let dir = folder();
    let mut source = Source::new(CRC);
    let policy = SyncPolicy::EveryTransaction;
    let options = RelayOptions { max_file_bytes: 1200, sync: policy, ..options(dir.path()) };
    let (mut writer, _) = connected(options, &source);
    for i in 0..25u64 {
        source.feed(&mut writer, 200);
        let mut lost = Source::new(CRC);
        lost.author.last = i + 1;
        let data = lost.transaction(500);
        writer.append(data[..100 + i as usize * 10].to_vec(), part(&source)).unwrap();
        let after = copy_folder(dir.path());
        assert_eq!(kept(&open(after.path()).unwrap().retrieved), i + 1);
        writer.abort_partial().unwrap();
        let after = copy_folder(dir.path());
        let found = open(after.path()).unwrap();
        assert_eq!((kept(&found.retrieved), found.truncated), (i + 1, None));
    }
}
