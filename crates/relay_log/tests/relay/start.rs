//! Start at a store's cut: the reader returns exactly what the store lacks, whatever happened to the log.

use std::fs::{self, OpenOptions};
use std::path::Path;

use base::{GtidSet, LogPosition, Random, Tag, Uuid};
use binlog::reader::BinlogFile;
use binlog::writer::BinlogWriter;
use binlog::{GtidEvent, event_body, event_type};
use relay_log::{
    AppendMeta, ReaderOptions, RelayError, RelayFiles, RelayLog, RelayOptions, RelayPosition, RelayReader, RelayWriter,
    StartKind, StartPoint, SyncPolicy,
};

use crate::common::*;

fn start_of(
    dir: &Path,
    executed: &GtidSet,
    hint: Option<&LogPosition>,
) -> Result<(StartPoint, RelayFiles), RelayError> {
    let (files, found) = RelayFiles::open_read_only_for(dir, executed, hint)?;
    Ok((found.start, files))
}

#[test]
fn every_cut_is_found_by_its_position_and_without_it() {
    for checksum in [CRC, NONE] {
        let (dir, ends) = twenty(checksum);
        for (n, end) in ends.iter().enumerate() {
            let n = n as u64;
            let (start, files) = start_of(dir.path(), &executed(n), Some(end)).unwrap();
            assert_eq!((start.kind, &start.hint_refused), (StartKind::Hint, &None), "{n}");
            assert_eq!(start.log_position(), *end);
            assert_eq!(start.next_gtid, (n < 20).then(|| gtid(n + 1)));
            assert_eq!(transactions(&mut files.reader_at(&start)), expected(n + 1, 20), "{n}");
            let before: u64 =
                files.files().iter().take_while(|(number, _)| *number < start.position.file_number).map(|f| f.1).sum();
            assert_eq!(start.skipped_bytes, before + start.position.offset);

            let (start, files) = start_of(dir.path(), &executed(n), None).unwrap();
            assert_eq!(start.kind, if n == 0 { StartKind::Beginning } else { StartKind::Search });
            assert_eq!(start.next_gtid, (n < 20).then(|| gtid(n + 1)));
            assert_eq!(transactions(&mut files.reader_at(&start)), expected(n + 1, 20), "{n}");
        }
    }
}

#[test]
fn a_hint_that_does_not_hold_is_refused_and_the_right_place_found() {
    let (dir, ends) = twenty(CRC);
    let last = |n: usize, by: i64| LogPosition {
        offset: ends[n].offset.checked_add_signed(by).unwrap(),
        file: ends[n].file.clone(),
    };
    let cases = [
        (last(8, 1), "no transaction ends at"),
        (last(8, -1), "no transaction ends at"),
        (last(8, 75), "no transaction ends at"), // after the next Gtid event
        (last(7, 0), "is already executed"),
        (last(9, 0), "the store lacks transaction"),
        (ends[19].clone(), "follows transactions that the store lacks"),
        (last(20, 1), "has only"),
        (LogPosition { file: "relay-bin.000099".into(), offset: 4 }, "is not there"),
        (LogPosition { file: "binlog.000001".into(), offset: 4 }, "is not the name of a relay log file"),
        (LogPosition { offset: u64::MAX, ..last(8, 0) }, "has only"),
    ];
    for (hint, reason) in cases {
        let (start, files) = start_of(dir.path(), &gtids(8), Some(&hint)).unwrap();
        assert_eq!(start.kind, StartKind::Search, "{hint}");
        assert!(start.hint_refused.as_ref().is_some_and(|text| text.contains(reason)), "{hint}: {start:?}");
        assert_eq!(start.log_position(), ends[8]);
        assert_eq!(transactions(&mut files.reader_at(&start)), expected(9, 20));
    }
    // Every offset of a file is either refused or leads to the same transactions.
    let (mut held, mut refused) = (0, 0);
    for offset in 0..=fs::metadata(file_path(dir.path(), 2)).unwrap().len() {
        let hint = LogPosition { file: "relay-bin.000002".into(), offset };
        let (start, files) = start_of(dir.path(), &gtids(8), Some(&hint)).unwrap();
        assert_eq!(transactions(&mut files.reader_at(&start)), expected(9, 20), "{offset}");
        if start.kind == StartKind::Hint { held += 1 } else { refused += 1 }
    }
    assert!(held >= 1 && refused > 1000, "{held} {refused}");
}

#[test]
fn gtids_with_gaps_and_of_several_sources_are_told_apart() {
    let dir = folder();
    let mut source = Source::new(CRC);
    let (mut writer, _) = connected(RelayOptions { max_file_bytes: 1500, ..options(dir.path()) }, &source);
    for _ in 0..12 {
        source.feed(&mut writer, 300);
    }
    writer.close().unwrap();
    // The store has 1-3, 5 and others: 4 comes first, and 5 comes again.
    let mut held = gtids(3);
    held.add(gtid(5));
    held.add_range(Uuid([9; 16]), Tag::EMPTY, 1, 100);
    let (start, files) = start_of(dir.path(), &held, None).unwrap();
    assert_eq!(start.next_gtid, Some(gtid(4)));
    assert_eq!(transactions(&mut files.reader_at(&start)), expected(4, 12));
}

#[test]
fn a_store_ahead_of_the_log_begins_at_its_end_and_the_history_stays_exact() {
    // The store is at 30, the log has lost everything after 20 (unsynced bytes).
    let (dir, ends) = twenty(CRC);
    let hint = LogPosition { offset: ends[20].offset + 5000, ..ends[20].clone() };
    let options = || RelayOptions { executed: gtids(30), resume_at: Some(hint.clone()), ..options(dir.path()) };
    let (mut writer, found) = RelayLog::open(options()).unwrap();
    assert_eq!(found.retrieved, gtids(30));
    assert_eq!(*writer.retrieved(), gtids(30), "the source is asked for what follows");
    assert_eq!((found.start.kind, found.start.next_gtid), (StartKind::Search, None));
    let mut tail = RelayReader::open_at(writer.shared(), &found.start, ReaderOptions::REPLAY);
    assert_eq!(transactions(&mut tail), []);
    let mut source = Source::new(CRC);
    source.author.last = 30;
    let (rotate, fde) = source.headers();
    writer.note_source_headers(&rotate, &fde).unwrap();
    source.feed(&mut writer, 10);
    assert_eq!(
        transactions(&mut RelayReader::open_at(writer.shared(), &found.start, ReaderOptions::REPLAY)),
        expected(31, 31)
    );
    writer.close().unwrap();
    // Another open with the same or a newer cut finds nothing missing.
    for (cut, rest) in [(30, 31), (31, 32)] {
        let (files, found) = RelayFiles::open_read_only_for(dir.path(), &gtids(cut), None).unwrap();
        assert_eq!(found.retrieved, gtids(31));
        assert_eq!(transactions(&mut files.reader_at(&found.start)), expected(rest, 31));
    }
    // An older store lacks transactions that are neither in it nor in the log.
    let error = RelayFiles::open_read_only_for(dir.path(), &gtids(25), None).unwrap_err();
    assert!(matches!(&error, RelayError::Corrupt { reason, .. } if reason.contains("PREVIOUS_GTIDS")), "{error}");
}

#[test]
fn a_new_log_after_a_copy_begins_with_its_set() {
    let dir = folder();
    let options = || RelayOptions { executed: gtids(500), ..options(dir.path()) };
    let mut source = Source::new(CRC);
    source.author.last = 500;
    let (mut writer, found) = connected(options(), &source);
    assert_eq!((found.retrieved, found.start.position), (gtids(500), RelayPosition::default()));
    assert_eq!(*writer.retrieved(), gtids(500));
    let mut tail = RelayReader::open_at(writer.shared(), &found.start, ReaderOptions::REPLAY);
    source.feed(&mut writer, 10);
    assert_eq!(transactions(&mut tail), expected(501, 501));
    writer.close().unwrap();
    let mut file = BinlogFile::open(file_path(dir.path(), 1)).unwrap();
    let format = file.next_event().unwrap().unwrap();
    assert_eq!(format.header.event_type, event_type::FORMAT_DESCRIPTION);
    let previous = file.next_event().unwrap().unwrap();
    let body = event_body(previous.bytes, CRC).unwrap();
    assert_eq!(binlog::PreviousGtids::parse(body).unwrap().set, gtids(500));
    let (_, found) = RelayLog::open(options()).unwrap();
    assert_eq!((found.retrieved, found.start.kind), (gtids(501), StartKind::Beginning));
    // A store that is empty, or a different one, cannot use it.
    let error = RelayLog::open(RelayOptions { executed: gtids(400), ..options() }).unwrap_err();
    assert!(matches!(&error, RelayError::Gap { file, .. } if file == "relay-bin.000001"), "{error}");
    assert!(error.to_string().contains(":401-500. To continue:"), "{error}");
}

#[test]
fn the_beginning_is_where_a_store_without_a_cut_begins() {
    let (dir, _) = twenty(CRC);
    let (_, found) = RelayLog::open(options(dir.path())).unwrap();
    assert_eq!(found.start.kind, StartKind::Beginning);
    assert_eq!(found.start.position, RelayPosition { file_number: 1, offset: 4 });
    assert_eq!(found.start.skipped_bytes, 4);
}

#[test]
fn a_reader_inside_a_file_continues_with_new_bytes() {
    let dir = folder();
    let mut source = Source::new(CRC);
    let (mut writer, _) = connected(options(dir.path()), &source);
    let ends: Vec<RelayPosition> = (0..6).map(|_| source.feed(&mut writer, 100)).collect();
    let shared = writer.shared();
    for (i, end) in ends.iter().enumerate() {
        let n = i as u64 + 1;
        let start = shared.start_point(&gtids(n), Some(&named(*end))).unwrap();
        assert_eq!((start.kind, start.position), (StartKind::Hint, *end));
        let mut tail = RelayReader::open_at(writer.shared(), &start, ReaderOptions::REPLAY);
        assert_eq!(tail.position(), *end);
        let last = source.author.last;
        source.feed(&mut writer, 50);
        assert_eq!(transactions(&mut tail), expected(n + 1, last + 1));
        assert_eq!(shared.unread_bytes(None), 0);
        drop(tail);
    }
}

/// Transactions without GTIDs, as in old log files.
fn feed_anonymous(source: &Source, writer: &mut RelayWriter, out: &mut BinlogWriter) -> RelayPosition {
    let event = GtidEvent::new(None, 0, 1);
    out.transaction(&event, |writer| {
        writer.statement(b"test", b"BEGIN");
        writer.statement(b"test", b"INSERT INTO t VALUES (1)");
        writer.xid(1);
    });
    writer.append(out.take(), AppendMeta { ends_transaction: true, ..part(source) }).unwrap()
}

#[test]
fn without_gtids_the_position_is_the_truth() {
    let dir = folder();
    let source = Source::new(CRC);
    let mut out = BinlogWriter::new(1, CRC, 4);
    let (mut writer, _) = connected(RelayOptions { max_file_bytes: 900, ..options(dir.path()) }, &source);
    let ends: Vec<_> = (0..10).map(|_| named(feed_anonymous(&source, &mut writer, &mut out))).collect();
    writer.close().unwrap();
    assert!(on_disk(dir.path()).len() > 2);
    let none = GtidSet::new();
    for (n, end) in ends.iter().enumerate() {
        let (start, files) = start_of(dir.path(), &none, Some(end)).unwrap();
        assert_eq!((start.kind, start.log_position()), (StartKind::Hint, end.clone()));
        assert_eq!(transactions(&mut files.reader_at(&start)).len(), 9 - n);
        for offset in [end.offset - 1, end.offset + 1, u64::MAX] {
            let hint = LogPosition { offset, ..end.clone() };
            let error = start_of(dir.path(), &none, Some(&hint)).err().unwrap();
            assert!(matches!(error, RelayError::StartLost { .. }), "{error}");
        }
    }
    let (start, files) = start_of(dir.path(), &none, None).unwrap();
    assert_eq!((start.kind, transactions(&mut files.reader_at(&start)).len()), (StartKind::Beginning, 10));
    // Executed GTIDs do not help to find a transaction without one.
    let mut executed = GtidSet::new();
    executed.add(gtid(1));
    let hint = LogPosition { offset: ends[3].offset + 1, ..ends[3].clone() };
    assert!(matches!(start_of(dir.path(), &executed, Some(&hint)), Err(RelayError::StartLost { .. })));
    // A deleted log does not reuse its file names: an old position stays unknown.
    for number in on_disk(dir.path()).into_keys() {
        fs::remove_file(file_path(dir.path(), number)).unwrap();
    }
    fs::remove_file(dir.path().join("relay-bin.index")).unwrap();
    fs::remove_file(dir.path().join("relay-log.state")).unwrap();
    let lost = RelayOptions { resume_at: Some(ends[9].clone()), ..options(dir.path()) };
    assert!(matches!(RelayLog::open(lost.clone()), Err(RelayError::StartLost { .. })));
    let (writer, _) = connected(RelayOptions { executed, ..lost }, &source);
    assert!(writer.position().file_number > RelayPosition::of(&ends[9]).unwrap().file_number);
}

#[test]
fn a_start_in_unsynced_bytes_survives_their_loss() {
    // Random cuts: the store's cut is anywhere, and the crash leaves any part of the log after the synced part.
    let mut random = Random::new(20_261_121);
    let mut next = move |bound: u64| random.below(bound);
    for round in 0..120 {
        let dir = folder();
        let mut source = Source::new(CRC);
        let options = RelayOptions { max_file_bytes: 800 + next(3000), sync: SyncPolicy::Never, ..options(dir.path()) };
        let (mut writer, _) = connected(options.clone(), &source);
        let mut ends = vec![LogPosition { file: "relay-bin.000001".into(), offset: 4 }];
        let total = 1 + next(15);
        let synced = next(total + 1);
        for i in 1..=total {
            ends.push(named(source.feed(&mut writer, next(400) as usize)));
            if i == synced {
                writer.sync().request_sync();
                assert!(writer.sync().wait_synced(writer.position(), LONG).unwrap());
            }
        }
        drop(writer);
        let last = *on_disk(dir.path()).keys().last().unwrap();
        let synced_end = RelayPosition::of(&ends[synced as usize]).unwrap();
        let len = fs::metadata(file_path(dir.path(), last)).unwrap().len();
        let least = if synced_end.file_number == last { synced_end.offset } else { 4 };
        let file = OpenOptions::new().write(true).open(file_path(dir.path(), last)).unwrap();
        file.set_len(least + next(len - least + 1)).unwrap();
        let cut = next(total + 1);
        let hint = (next(3) > 0).then(|| ends[cut as usize].clone());
        let opened = RelayOptions { executed: executed(cut), resume_at: hint, ..options };
        let (mut writer, found) = RelayLog::open(opened).unwrap();
        let in_log = found.retrieved.count();
        assert!(in_log >= cut.max(synced), "round {round}");
        let mut again = Source::new(CRC);
        again.author.last = in_log;
        let (rotate, fde) = again.headers();
        writer.note_source_headers(&rotate, &fde).unwrap();
        while again.author.last < total + 2 {
            again.feed(&mut writer, 20);
        }
        let mut tail = RelayReader::open_at(writer.shared(), &found.start, ReaderOptions::REPLAY);
        assert_eq!(transactions(&mut tail), expected(cut + 1, total + 2), "round {round}");
    }
}

/// `cargo test -p relay_log --release speed_of_opening -- --ignored --nocapture`
#[test]
#[ignore = "a measurement"]
fn speed_of_opening_for_a_store_at_a_cut() {
    let dir = tempfile::tempdir().unwrap();
    let mut source = Source::new(CRC);
    let options = RelayOptions { max_file_bytes: 256 << 20, ..options(dir.path()) };
    let (mut writer, _) = connected(options.clone(), &source);
    let mut middle = None;
    for i in 0..80_000u64 {
        let end = source.feed(&mut writer, 6400);
        if i + 1 == 40_000 {
            middle = Some(named(end));
        }
    }
    let bytes = writer.total_bytes();
    writer.close().unwrap();
    for (what, cut, on_damage) in [
        ("beginning, not verified", 0, relay_log::OnDamage::Refuse),
        ("beginning, verified", 0, relay_log::OnDamage::FetchAgain),
        ("middle, not verified", 40_000, relay_log::OnDamage::Refuse),
        ("middle, verified", 40_000, relay_log::OnDamage::FetchAgain),
    ] {
        let resume_at = if cut > 0 { middle.clone() } else { None };
        let opened = RelayOptions { executed: executed(cut), resume_at, on_damage, ..options.clone() };
        let start = std::time::Instant::now();
        let (writer, found) = RelayLog::open(opened).unwrap();
        let ms = start.elapsed().as_millis();
        assert_eq!(found.start.next_gtid, Some(gtid(cut + 1)));
        println!("{} MB from the {what}: {ms} ms", bytes >> 20);
        writer.close().unwrap();
    }
}
