//! A backup of the log beside appends, purges and a purge for space: what was held is a log that continues.

use std::fs;
use std::path::Path;
use std::time::{Duration, SystemTime};

use base::GtidSet;
use relay_log::{LogHold, RelayError, RelayLog, RelayOptions, RelayPosition, RelayShared, completed_copy};

use crate::common::*;

fn purge(shared: &RelayShared, durable: RelayPosition) -> Vec<String> {
    shared.purge(&named(durable), &gtids(1000), Duration::ZERO, SystemTime::now()).unwrap().files
}

/// Copies what is held up to `end`; returns the GTIDs that the copy claims to have.
fn copy(hold: &LogHold, end: RelayPosition, to: &Path) -> GtidSet {
    let mut retrieved = GtidSet::new();
    let parts = hold.parts(end).unwrap();
    for part in &parts {
        retrieved.union_with(&hold.check_part(part).unwrap());
        let bytes = fs::read(&part.path).unwrap();
        fs::write(to.join(&part.name), &bytes[..part.len as usize]).unwrap();
    }
    for (name, content) in completed_copy(&parts) {
        fs::write(to.join(name), content).unwrap();
    }
    retrieved
}

#[test]
fn a_copy_from_any_cut_continues_whatever_is_purged_and_appended() {
    for cut in 0..12u64 {
        let dir = folder();
        let mut source = Source::new(CRC);
        let (mut writer, _) = connected(RelayOptions { max_file_bytes: 700, ..options(dir.path()) }, &source);
        let (shared, sync) = (writer.shared(), writer.sync());
        let mut at = writer.position();
        for _ in 0..cut {
            at = source.feed(&mut writer, 300);
        }
        let executed = if cut == 0 { GtidSet::new() } else { gtids(cut) };
        let mut hold = shared.hold();
        purge(&shared, at);
        hold.begin_at(&executed, Some(&named(at))).unwrap();
        for _ in 0..5 {
            let more = source.feed(&mut writer, 300);
            purge(&shared, more);
        }
        // An open transaction is no part of it.
        writer.append(vec![0; 40], part(&source)).unwrap();
        sync.request_sync();
        assert!(sync.wait_synced(writer.position(), LONG).unwrap());
        let to = folder();
        let retrieved = copy(&hold, sync.synced_whole(), to.path());
        assert_eq!(retrieved, gtids(cut + 5));
        hold.check().unwrap();
        let held = shared.files()[0].0;
        assert!(held <= at.file_number, "cut at {cut}: {held} of {at:?}");
        drop(hold);
        purge(&shared, writer.position());
        assert_eq!(shared.files().len(), 1, "nothing holds it any more");

        let opened = RelayOptions { executed, resume_at: Some(named(at)), ..options(to.path()) };
        let (copied, found) = RelayLog::open(opened).unwrap();
        assert_eq!((&found.retrieved, found.clean, found.truncated), (&retrieved, true, None));
        assert_eq!(found.start.next_gtid, Some(gtid(cut + 1)));
        drop(copied);
    }
}

#[test]
fn a_writer_that_waits_for_space_takes_it() {
    let dir = folder();
    let mut source = Source::new(CRC);
    let limited = RelayOptions { max_file_bytes: 700, space_limit_bytes: 4000, ..options(dir.path()) };
    let (mut writer, _) = connected(limited, &source);
    let shared = writer.shared();
    let hold = shared.hold();
    let mut end = writer.position();
    while shared.total_bytes() < 3000 {
        end = source.feed(&mut writer, 300);
    }
    assert_eq!(purge(&shared, end), [] as [String; 0]);
    hold.check().unwrap();
    let waiting = std::thread::spawn(move || {
        for _ in 0..6 {
            source.feed(&mut writer, 300);
        }
    });
    while shared.space().waiting.is_none() {
        assert!(!waiting.is_finished(), "it never waits");
        std::thread::sleep(Duration::from_millis(1));
    }
    while !waiting.is_finished() {
        let last = shared.files().last().map(|(number, len)| RelayPosition { file_number: *number, offset: *len });
        purge(&shared, last.unwrap());
        std::thread::sleep(Duration::from_millis(1));
    }
    waiting.join().unwrap();
    assert!(matches!(hold.check(), Err(RelayError::PlaceLost { .. })), "{:?}", hold.check());
    assert!(matches!(hold.parts(end), Err(RelayError::PlaceLost { .. })));
}

#[test]
fn damage_is_found_before_it_is_copied() {
    let (dir, _) = twenty(CRC);
    let (files, _) = relay_log::RelayFiles::open_read_only(dir.path()).unwrap();
    let (hold, end) = files.hold();
    let part = hold.parts(end).unwrap().remove(0);
    let bytes = fs::read(&part.path).unwrap();
    assert!(hold.check_part(&part).is_ok());
    for at in [200, bytes.len() / 2, bytes.len() - 1] {
        let mut changed = bytes.clone();
        changed[at] ^= 1;
        fs::write(&part.path, changed).unwrap();
        assert!(matches!(hold.check_part(&part), Err(RelayError::Corrupt { .. })), "byte {at}");
    }
    fs::write(&part.path, &bytes[..bytes.len() - 5]).unwrap();
    assert!(matches!(hold.check_part(&part), Err(RelayError::Corrupt { .. })));
}

#[test]
fn a_cut_before_the_log_is_refused() {
    let dir = folder();
    let mut source = Source::new(CRC);
    let (mut writer, _) = connected(RelayOptions { max_file_bytes: 700, ..options(dir.path()) }, &source);
    for _ in 0..8 {
        source.feed(&mut writer, 300);
    }
    purge(&writer.shared(), writer.position());
    let mut hold = writer.shared().hold();
    assert!(matches!(hold.begin_at(&gtids(2), None), Err(RelayError::Gap { .. })));
    hold.begin_at(&gtids(8), None).unwrap();
}

#[test]
fn a_new_file_is_begun_when_asked_for() {
    let dir = folder();
    let mut source = Source::new(CRC);
    let (mut writer, _) = connected(options(dir.path()), &source);
    let shared = writer.shared();
    // A file without transactions is not left behind.
    shared.request_rotation();
    source.feed(&mut writer, 100);
    source.feed(&mut writer, 100);
    assert_eq!(shared.files().len(), 1);
    shared.request_rotation();
    let at = source.feed(&mut writer, 100);
    source.feed(&mut writer, 100);
    assert_eq!((shared.files().len(), at.file_number), (2, 2));
    let mut hold = shared.hold();
    hold.begin_at(&gtids(2), None).unwrap();
    assert_eq!(hold.parts(writer.position()).unwrap().iter().map(|part| part.number).collect::<Vec<_>>(), [2]);
    hold.begin_at(&gtids(1), None).unwrap();
    assert_eq!(hold.parts(writer.position()).unwrap().len(), 2);
    writer.close().unwrap();
    assert_eq!(relay_log::RelayFiles::open_read_only(dir.path()).unwrap().1.retrieved, gtids(4));
}
