//! Appended bytes equal the bytes on disk, are readable by MySQL's tools, and are found again.

use std::fs;

use base::LogPosition;
use binlog::writer::BinlogWriter;
use binlog::{EventHeader, event_type, flags};
use relay_log::boundary::{BoundaryError, BoundaryTracker};
use relay_log::{AppendMeta, Intake, RelayError, RelayFiles, RelayLog, RelayOptions, TailItem, Taken};

use crate::common::*;

/// Writes at least three files and closes cleanly; returns the number of transactions.
fn write_some(dir: &std::path::Path, source: &mut Source) -> u64 {
    let options = RelayOptions { max_file_bytes: 4000, ..options(dir) };
    let (mut writer, recovery) = connected(options, source);
    assert!(recovery.clean && recovery.files.is_empty() && recovery.truncated.is_none());
    let mut tail = writer.reader();
    let mut seen = Seen::default();
    for i in 0..30 {
        source.feed(&mut writer, 100 + i * 20);
        if i % 3 == 0 {
            seen.drain(&mut tail);
        }
    }
    assert_eq!(*writer.retrieved(), gtids(30));
    assert_eq!(writer.source_position(), Some(&source.position()));
    seen.drain(&mut tail);
    assert_eq!(seen.cold, 1, "a reader that keeps up reads only what was there before it");
    assert_eq!(seen.files, on_disk(dir));
    writer.close().unwrap();
    assert!(matches!(tail.next(LONG).unwrap(), TailItem::Closed));
    30
}

#[test]
fn appended_events_come_back_from_memory_file_and_restart() {
    for checksum in [CRC, NONE] {
        let dir = folder();
        let mut source = Source::new(checksum);
        let last = write_some(dir.path(), &mut source);
        let files = on_disk(dir.path());
        assert!(files.len() > 3, "{}", files.len());
        let index = fs::read_to_string(dir.path().join("relay-bin.index")).unwrap();
        let expected: String = files.keys().map(|n| format!("./relay-bin.{n:06}\n")).collect();
        assert_eq!(index, expected);

        let (seen, found) = read_only(dir.path()).unwrap();
        assert_eq!(seen.files, files);
        assert_eq!(seen.hot, 0);
        assert_eq!(seen.ended.len(), files.len() - 1);
        assert!(found.clean && found.truncated.is_none());
        assert_eq!(found.retrieved, gtids(last));
        assert_eq!(found.last_source_position, Some(source.position()));
        assert_eq!(found.files.len(), files.len());

        // Restart: the source's headers begin the first file of the new run.
        let (mut writer, again) = RelayLog::open(options(dir.path())).unwrap();
        assert_eq!(again.retrieved, found.retrieved);
        assert_eq!(writer.retrieved(), &gtids(last));
        assert_eq!(on_disk(dir.path()), files);
        let (rotate, fde) = source.headers();
        writer.note_source_headers(&rotate, &fde).unwrap();
        source.feed(&mut writer, 10);
        assert_eq!(on_disk(dir.path()).len(), files.len() + 1);
        assert!(writer.total_bytes() > files.values().map(|f| f.len() as u64 + 4).sum::<u64>());
        writer.close().unwrap();
        assert_eq!(read_only(dir.path()).unwrap().1.retrieved, gtids(last + 1));
    }
}

#[test]
fn every_file_begins_with_what_its_reader_needs() {
    let dir = folder();
    write_some(dir.path(), &mut Source::new(CRC));
    let events = parse_all(dir.path());
    let numbers: Vec<u64> = on_disk(dir.path()).into_keys().collect();
    for number in &numbers {
        let of_file: Vec<_> = events.iter().filter(|(n, _)| n == number).map(|(_, header)| *header).collect();
        let types: Vec<u8> = of_file.iter().map(|header| header.event_type).collect();
        let head = [event_type::FORMAT_DESCRIPTION, event_type::PREVIOUS_GTIDS, event_type::ROTATE];
        assert_eq!(types[..3], head);
        assert_eq!(types[3], event_type::FORMAT_DESCRIPTION);
        assert!(of_file[..2].iter().all(|h| h.flags & flags::RELAY_LOG != 0 && h.server_id == 77));
        assert_eq!((of_file[2].flags, of_file[2].log_pos, of_file[2].server_id), (flags::ARTIFICIAL, 0, 1));
        // The first one is the source's own; a repeated one announces only the format.
        let expected = if number == &numbers[0] { 0 } else { flags::ARTIFICIAL };
        assert_eq!(of_file[3].flags, expected);
        let last = of_file.last().unwrap();
        let closed = last.event_type == event_type::ROTATE && last.flags & flags::RELAY_LOG != 0;
        assert_eq!(closed, number != numbers.last().unwrap());
    }
}

#[test]
fn a_new_checksum_algorithm_begins_a_new_file() {
    let dir = folder();
    let mut source = Source::new(CRC);
    let (mut writer, _) = connected(options(dir.path()), &source);
    source.feed(&mut writer, 10);
    source.checksum = NONE;
    let (rotate, fde) = source.headers();
    let mut plain = Source::new(NONE);
    plain.author.last = 1;
    writer.note_source_headers(&rotate, &fde).unwrap();
    plain.feed(&mut writer, 10);
    // The same headers again are written into the same file.
    writer.note_source_headers(&rotate, &fde).unwrap();
    plain.feed(&mut writer, 10);
    writer.close().unwrap();
    assert_eq!(on_disk(dir.path()).len(), 2);
    parse_all(dir.path());
    assert_eq!(read_only(dir.path()).unwrap().1.retrieved, gtids(3));
}

#[test]
fn the_contract_of_append_is_checked() {
    let dir = folder();
    let mut source = Source::new(CRC);
    let (mut writer, _) = RelayLog::open(options(dir.path())).unwrap();
    let data = source.transaction(10);
    let whole = |source: &Source| AppendMeta { ends_transaction: true, ..part(source) };
    assert!(matches!(writer.append(data.clone(), whole(&source)), Err(RelayError::Misuse(_))), "no headers yet");
    let (rotate, fde) = source.headers();
    assert!(writer.note_source_headers(&fde, &rotate).is_err());
    assert!(writer.note_source_headers(&rotate, &fde[..fde.len() - 1]).is_err());
    writer.note_source_headers(&rotate, &fde).unwrap();
    let meta = AppendMeta { gtids: &[gtid(1)], ..part(&source) };
    assert!(matches!(writer.append(data.clone(), meta), Err(RelayError::Misuse(_))));
    writer.append(data[..60].to_vec(), part(&source)).unwrap();
    assert!(matches!(writer.note_source_headers(&rotate, &fde), Err(RelayError::Misuse(_))));
    writer.abort_partial().unwrap().unwrap();
    assert!(writer.abort_partial().unwrap().is_none());
    writer.note_source_headers(&rotate, &fde).unwrap();
}

/// Output of the real tool for a file that it accepts without warnings.
fn mysqlbinlog(file: &std::path::Path) -> String {
    let ran = testkit::server::mysqlbinlog(&["--verify-binlog-checksum"], file);
    assert_eq!((ran.code, ran.err.as_str()), (0, ""), "{}", ran.out);
    ran.out
}

#[test]
fn mysqlbinlog_reads_every_file() {
    if !testkit::servers() {
        return;
    }
    for checksum in [CRC, NONE] {
        let dir = folder();
        let mut source = Source::new(checksum);
        let (mut writer, _) = connected(RelayOptions { max_file_bytes: 2000, ..options(dir.path()) }, &source);
        for _ in 0..20 {
            let data = source.plain_transaction();
            let meta = AppendMeta {
                ends_transaction: true,
                gtids: &[gtid(source.author.last)],
                source_position: source.position(),
            };
            writer.append(data, meta).unwrap();
        }
        let (rotate, fde) = source.headers();
        writer.note_source_headers(&rotate, &fde).unwrap();
        writer.close().unwrap();
        let files: Vec<_> = on_disk(dir.path()).into_keys().map(|n| file_path(dir.path(), n)).collect();
        assert!(files.len() > 2);
        let mut begins = 0;
        for file in &files {
            begins += mysqlbinlog(file).matches("SET @@SESSION.GTID_NEXT= '07070707").count();
        }
        assert_eq!(begins, 20);
        assert_eq!(RelayFiles::open_read_only(dir.path()).unwrap().1.retrieved, gtids(20));
    }
}

#[test]
fn mysqlbinlog_reads_a_purged_and_truncated_log_after_a_copy() {
    if !testkit::servers() {
        return;
    }
    let dir = folder();
    let mut held = gtids(500);
    held.add_range(base::Uuid([9; 16]), base::Tag::new(b"copied").unwrap(), 1, 7);
    let mut source = Source::new(CRC);
    source.author.last = 500;
    let options = RelayOptions { max_file_bytes: 2000, executed: held.clone(), ..options(dir.path()) };
    let (mut writer, _) = connected(options, &source);
    let feed = |source: &mut Source, writer: &mut relay_log::RelayWriter| {
        let data = source.plain_transaction();
        let meta = AppendMeta {
            ends_transaction: true,
            gtids: &[gtid(source.author.last)],
            source_position: source.position(),
        };
        writer.append(data, meta).unwrap()
    };
    let ends: Vec<_> = (0..40).map(|_| feed(&mut source, &mut writer)).collect();
    let (cut, hurt) = (ends[15], ends[30]);
    held.union_with(&gtids(516));
    writer.shared().purge(&named(cut), &held, ZERO, std::time::SystemTime::now()).unwrap();
    // Without the last byte of a transaction.
    let path = file_path(dir.path(), hurt.file_number);
    fs::OpenOptions::new().write(true).open(&path).unwrap().set_len(hurt.offset - 1).unwrap();
    let damage = writer.shared().find_damage(cut).unwrap().unwrap();
    writer.truncate_to(&damage, &held).unwrap();
    source.author.last = 530;
    let (rotate, fde) = source.headers();
    writer.note_source_headers(&rotate, &fde).unwrap();
    while source.author.last < 545 {
        feed(&mut source, &mut writer);
    }
    writer.close().unwrap();
    let files: Vec<_> = on_disk(dir.path()).into_keys().map(|n| file_path(dir.path(), n)).collect();
    assert!(files.len() > 4);
    let text: String = files.iter().map(|file| mysqlbinlog(file)).collect();
    for gno in 517..=545 {
        let next = format!("SET @@SESSION.GTID_NEXT= '07070707-0707-0707-0707-070707070707:{gno}'");
        assert_eq!(text.matches(&next).count(), 1, "{gno}");
    }
    assert!(text.contains("# 07070707-0707-0707-0707-070707070707:1-") && text.contains(":copied:1-7"), "{text}");
}

/// Writes one recorded log into a relay log with small files; returns the types of its events.
fn relay_recorded(path: &std::path::Path, dir: &std::path::Path) -> Option<Vec<u8>> {
    let mut file = binlog::reader::BinlogFile::open(path).ok()?;
    let (fde, version, checksum) = {
        let version = file.format().server_version.clone();
        let checksum = file.format().checksum;
        let fde = file.next_event().ok()??.bytes.to_vec();
        (fde, version, checksum)
    };
    if !["5.7", "8.", "9."].iter().any(|known| version.starts_with(known)) {
        return None;
    }
    let mut rotate = binlog::writer::BinlogWriter::new(1, NONE, 0);
    rotate.rotate(b"source.000001", 4);
    let mut events = Vec::new();
    while let Ok(Some(event)) = file.next_event() {
        events.push(event.bytes.to_vec());
    }
    let (mut writer, _) = RelayLog::open(RelayOptions { max_file_bytes: 1000, ..options(dir) }).unwrap();
    writer.note_source_headers(&rotate.take(), &fde).unwrap();
    let mut tracker = BoundaryTracker::new(checksum);
    let (mut data, mut types, mut gtids) = (Vec::new(), Vec::new(), Vec::new());
    for event in &events {
        let step = tracker.step(event).ok()?;
        data.extend(event);
        types.push(step.header.event_type);
        if step.transaction_ends {
            gtids.extend(tracker.gtid());
        }
        let source_position = LogPosition { file: "source.000001".into(), offset: step.header.log_pos.into() };
        let meta = AppendMeta { ends_transaction: !tracker.in_transaction(), gtids: &gtids, source_position };
        writer.append(std::mem::take(&mut data), meta).unwrap();
        gtids.clear();
    }
    let retrieved = writer.retrieved().clone();
    writer.close().unwrap();
    assert_eq!(RelayFiles::open_read_only(dir).unwrap().1.retrieved, retrieved);
    Some(types)
}

#[test]
fn recorded_logs_pass_unchanged_and_mysqlbinlog_reads_them() {
    let there = testkit::servers();
    let mut logs = 0;
    for path in testkit::log::recorded_logs() {
        let dir = folder();
        let Some(types) = relay_recorded(&path, dir.path()) else { continue };
        if types.contains(&event_type::FORMAT_DESCRIPTION) {
            continue; // itself a relay log, with events like ours
        }
        logs += 1;
        let is_ours = |(_, header): &(u64, binlog::EventHeader)| {
            let head = matches!(header.event_type, event_type::FORMAT_DESCRIPTION | event_type::ROTATE);
            header.flags & flags::RELAY_LOG != 0
                || head && (header.flags & flags::ARTIFICIAL != 0 || header.log_pos < 200)
        };
        let stored: Vec<u8> =
            parse_all(dir.path()).into_iter().filter(|e| !is_ours(e)).map(|(_, header)| header.event_type).collect();
        assert_eq!(stored, types, "{}", path.display());
        for number in on_disk(dir.path()).into_keys().filter(|_| there) {
            mysqlbinlog(&file_path(dir.path(), number));
        }
    }
    assert!(logs >= 10, "{logs}");
}

/// Checks the example in docs/formats.md.
#[test]
fn the_documented_head_is_what_is_written() {
    let dir = folder();
    let mut source = Source::new(CRC);
    source.author.last = 500;
    let (mut writer, _) = connected(RelayOptions { executed: gtids(500), ..options(dir.path()) }, &source);
    source.feed(&mut writer, 10);
    let end = writer.position();
    writer.sync().request_sync();
    assert!(writer.sync().wait_synced(end, LONG).unwrap());
    let bytes = fs::read(file_path(dir.path(), 1)).unwrap();
    let hex: Vec<String> = bytes[..198]
        .chunks(16)
        .map(|line| line.iter().map(|byte| format!("{byte:02x}")).collect::<Vec<String>>().join(" "))
        .collect();
    let page = fs::read_to_string(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/formats.md")).unwrap();
    let shown = page.split("```hex\n").nth(1).unwrap().split("\n```").next().unwrap();
    assert_eq!(shown, hex.join("\n"));
    writer.close().unwrap();
    // The index and the state file must match the page.
    assert_eq!(fs::read_to_string(dir.path().join("relay-bin.index")).unwrap(), "./relay-bin.000001\n");
    let state = fs::read_to_string(dir.path().join("relay-log.state")).unwrap();
    let lines: Vec<&str> = state.lines().collect();
    assert_eq!(lines[..2], ["slipstream relay log state 1", "file relay-bin.000001"]);
    assert_eq!(lines[2..5], [&*format!("synced {}", end.offset), &*format!("whole {}", end.offset), "clean yes"]);
    let crc = crc32fast::hash(state.split("crc32").next().unwrap().as_bytes());
    assert_eq!(lines[5], format!("crc32 {crc:08x}"));
    assert_eq!(lines.len(), 6);
    // The page's example of a state file must be valid.
    let example = page.split("```text\n").nth(1).unwrap().split("```").next().unwrap();
    fs::write(dir.path().join("relay-log.state"), example).unwrap();
    assert!(matches!(
        RelayLog::open(options(dir.path())),
        Err(RelayError::Missing { named_by: "relay-log.state", .. })
    ));
    let closing = relay_log::file_name(2);
    assert_eq!(19 + 8 + closing.len() + 4, 47);
}

/// A heartbeat event with the given position in its header.
fn heartbeat(event_type: u8, log_pos: u32, body: &[u8]) -> Vec<u8> {
    let mut writer = BinlogWriter::new(1, NONE, 0);
    writer.event(event_type, 0, |out| out.extend(body));
    let mut event = writer.take();
    event[13..17].copy_from_slice(&log_pos.to_le_bytes());
    event
}

#[test]
fn a_heartbeat_says_how_far_the_source_left_out() {
    let dir = folder();
    let mut source = Source::new(NONE);
    let (writer, _) = RelayLog::open(options(dir.path())).unwrap();
    let mut intake = Intake::new(writer, LogPosition { file: "".into(), offset: 4 });
    let (rotate, fde) = source.headers();
    assert_eq!(intake.event(&rotate).unwrap(), Taken::Ignored);
    assert_eq!(intake.event(&fde).unwrap(), Taken::Stored);
    let beat = |intake: &mut Intake, event_type, log_pos, body: &[u8]| {
        let taken = intake.event(&heartbeat(event_type, log_pos, body)).unwrap();
        (taken == Taken::Heartbeat { moved: true }, intake.source_position().offset)
    };
    let old = event_type::HEARTBEAT;
    let here = intake.source_position().offset;
    assert_eq!(beat(&mut intake, old, 1000, b"binlog.000041"), (false, here), "of another file");
    assert_eq!(beat(&mut intake, old, 1000, b"binlog.000042"), (true, 1000));
    assert_eq!(beat(&mut intake, old, 1000, b"binlog.000042"), (false, 1000), "once is enough");
    assert_eq!(beat(&mut intake, old, 1000, b""), (false, 1000), "cut off");
    // Only the second form can report positions above 4 GiB; later positions count from there.
    let mut body = b"\x01\x0dbinlog.000042\x02\x09\xfe".to_vec();
    body.extend(((1u64 << 32) + 100).to_le_bytes());
    body.push(0);
    assert_eq!(beat(&mut intake, event_type::HEARTBEAT_V2, 0, &body), (true, (1 << 32) + 100));
    assert_eq!(beat(&mut intake, old, 200, b"binlog.000042"), (true, (1 << 32) + 200));
    // Within a transaction nothing is whole up to there.
    let transaction = source.transaction(10);
    let first = EventHeader::parse(&transaction).unwrap().event_len as usize;
    intake.event(&transaction[..first]).unwrap();
    let inside = intake.source_position().offset;
    assert_eq!(beat(&mut intake, old, u32::MAX, b"binlog.000042"), (false, inside));
}

#[test]
fn what_no_source_sends_is_refused_before_it_is_stored() {
    let dir = folder();
    let mut source = Source::new(CRC);
    let (writer, _) = RelayLog::open(options(dir.path())).unwrap();
    let mut intake = Intake::new(writer, LogPosition { file: "".into(), offset: 4 }).with_only_gtids();
    let (rotate, fde) = source.headers();
    let transaction = source.transaction(10);
    let len = |event: &[u8]| EventHeader::parse(event).unwrap().event_len as usize;
    let first = &transaction[..len(&transaction)];
    let second = &transaction[first.len()..first.len() + len(&transaction[first.len()..])];
    let refused = |intake: &mut Intake, event: &[u8], why: &str| {
        let error = intake.event(event).unwrap_err();
        assert!(error.to_string().contains(why), "{error}");
        matches!(error, RelayError::Boundary(BoundaryError::Malformed(_)))
    };
    assert!(refused(&mut intake, first, "a Gtid event comes before any format description"));
    intake.event(&rotate).unwrap();
    intake.event(&fde).unwrap();
    // Another length in the header, with a checksum that is right.
    for wrong in [0, 18, first.len() - 1, first.len() + 1, 1 << 20, u32::MAX as usize] {
        let mut event = first.to_vec();
        event[9..13].copy_from_slice(&u32::try_from(wrong).unwrap().to_le_bytes());
        let end = event.len() - 4;
        let checksum = crc32fast::hash(&event[..end]);
        event[end..].copy_from_slice(&checksum.to_le_bytes());
        assert!(intake.event(&event).is_err(), "{wrong}");
        if wrong > 18 {
            assert!(refused(&mut intake, &event, &format!("says {wrong} bytes, but it has {}", first.len())));
        }
    }
    // Without its GTID event: not an error of the network, so not one to retry.
    assert!(!refused(&mut intake, second, "a transaction without a GTID"));
    assert_eq!(intake.taken().0, 0);
    intake.abort_partial().unwrap();
    assert!(refused(&mut intake, first, "before any format description"), "of the next stream");
    let writer = intake.finish().unwrap();
    assert!(writer.retrieved().is_empty());
}
