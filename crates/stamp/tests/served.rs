//! What every served log is: the given log's transactions, with clocks, checksums and positions of its own.

use std::sync::Arc;

use base::{GtidSet, Uuid};
use binlog::reader::{BinlogFile, MAGIC};
use binlog::{ChecksumAlgorithm, FormatDescription, GtidEvent, PreviousGtids, Rotate, XaPrepare, XaXid, event_type};
use catalog::Catalog;
use decode::trackers::{HISTORY_SIZE_MAX, TrackerKind};
use stamp::{FILE_BYTES, FileStart, Part, StampOptions, Stamper, file_name};
use testkit::log::{Author, INT, delete, insert, int, recorded_logs, update};

fn options() -> StampOptions {
    StampOptions {
        tracking: TrackerKind::Writeset,
        history_size: HISTORY_SIZE_MAX,
        file_bytes: FILE_BYTES,
        server_id: 77,
    }
}

/// The served files, each with where it began.
#[derive(Default)]
struct Served {
    files: Vec<(FileStart, Vec<u8>)>,
    ended: usize,
}

impl Served {
    fn put(&mut self, part: Part<'_>) -> Result<(), String> {
        match part {
            Part::Begin(start) => self.files.push((start.clone(), Vec::new())),
            Part::Bytes(bytes) => self.files.last_mut().unwrap().1.extend_from_slice(bytes),
            Part::End => self.ended += 1,
        }
        Ok(())
    }
}

/// Stamps files given without their magic numbers, in chunks of `chunk` bytes.
fn served(options: &StampOptions, files: &[Vec<u8>], chunk: usize) -> Result<Served, stamp::StampError> {
    let mut served = Served::default();
    let mut stamper = Stamper::new(options.clone(), 1, GtidSet::new(), Catalog::new(0));
    for (at, bytes) in files.iter().enumerate() {
        let name: Arc<str> = format!("log.{at}").into();
        let mut offset = 4;
        for bytes in bytes.chunks(chunk) {
            stamper.step(&name, offset, &Arc::new(bytes.to_vec().into()), false, &mut |part| served.put(part))?;
            offset += bytes.len() as u64;
        }
        stamper.end_of_file()?;
    }
    assert_eq!(served.ended + usize::from(!served.files.is_empty()), served.files.len());
    Ok(served)
}

/// An event as far as it is the same in both logs: Gtid events without clock and length.
fn same(event_type: u8, body: &[u8]) -> (u8, Vec<u8>, Option<GtidEvent>) {
    if !matches!(event_type, event_type::GTID | event_type::ANONYMOUS_GTID | event_type::GTID_TAGGED) {
        return (event_type, body.to_vec(), None);
    }
    let gtid = GtidEvent::parse(event_type, body).unwrap();
    let transaction_length = gtid.transaction_length.map(|_| 0);
    (event_type, Vec::new(), Some(GtidEvent { last_committed: 0, sequence_number: 0, transaction_length, ..gtid }))
}

/// Events inside transactions, with their timestamps, server ids and flags.
type Events = Vec<(u32, u32, u16, (u8, Vec<u8>, Option<GtidEvent>))>;

fn events(bytes: &[u8]) -> Events {
    let mut file = BinlogFile::new("log", bytes).unwrap();
    let mut events = Events::new();
    while let Some(event) = file.next_event().unwrap() {
        if !matches!(
            event.header.event_type,
            event_type::FORMAT_DESCRIPTION | event_type::PREVIOUS_GTIDS | event_type::ROTATE | event_type::STOP
        ) {
            let header = event.header;
            let same = same(header.event_type, event.body().unwrap());
            events.push((header.timestamp, header.server_id, header.flags, same));
        }
    }
    events
}

fn with_magic(bytes: &[u8]) -> Vec<u8> {
    [&MAGIC[..], bytes].concat()
}

/// Checks everything that a served log must be; returns the stamps.
fn check(given: &[Vec<u8>], served: &Served, file_bytes: u64) -> Vec<(i64, i64)> {
    let before: Events = given.iter().flat_map(|bytes| events(&with_magic(bytes))).collect();
    let after: Events = served.files.iter().flat_map(|(_, bytes)| events(bytes)).collect();
    assert_eq!(after.len(), before.len());
    assert!(after == before, "an event changed");
    let (mut executed, mut stamps) = (GtidSet::new(), Vec::new());
    for (at, (start, bytes)) in served.files.iter().enumerate() {
        assert_eq!((start.number, &start.executed), (at as u64 + 1, &executed));
        let mut file = BinlogFile::new("served", &bytes[..]).unwrap();
        assert_eq!((file.format().checksum, file.format().created), (ChecksumAlgorithm::Crc32, 0));
        let (mut number, mut transactions, mut ends, mut previous) = (0, 0, None, None);
        let mut transaction_end = None;
        while let Some(event) = file.next_event().unwrap() {
            assert_eq!(u64::from(event.header.log_pos), event.end_offset(), "{:?}", event.header);
            assert!(ends.is_none(), "an event after the end");
            match event.header.event_type {
                event_type::PREVIOUS_GTIDS => previous = Some(PreviousGtids::parse(event.body().unwrap()).unwrap().set),
                event_type::ROTATE => ends = Some(Rotate::parse(event.body().unwrap()).unwrap().file.to_vec()),
                kind @ (event_type::GTID | event_type::ANONYMOUS_GTID | event_type::GTID_TAGGED) => {
                    assert!(transaction_end.is_none_or(|end| end == event.offset), "transaction_length");
                    let gtid = GtidEvent::parse(kind, event.body().unwrap()).unwrap();
                    number += 1;
                    assert_eq!(gtid.sequence_number, number);
                    assert!(gtid.last_committed < number);
                    assert_eq!(gtid.last_committed == 0, number == 1, "a parent of 0 is for a file's first one");
                    transaction_end = gtid.transaction_length.map(|length| event.offset + length);
                    stamps.push((gtid.last_committed, gtid.sequence_number));
                    if let Some(gtid) = gtid.gtid {
                        executed.add(gtid);
                    }
                    transactions += 1;
                }
                _ => {}
            }
        }
        assert_eq!(previous.as_ref(), Some(&start.executed));
        let last = at + 1 == served.files.len();
        assert_eq!(ends, (!last).then(|| file_name(at as u64 + 2).into_bytes()));
        assert!(bytes.len() as u64 <= file_bytes + 60 || transactions == 1, "{} bytes", bytes.len());
    }
    stamps
}

fn log(checksum: ChecksumAlgorithm) -> Vec<Vec<u8>> {
    let mut author = Author::at(Uuid([9; 16]), checksum, 4);
    author.writer.format_description(&FormatDescription::new("9.7.4", checksum), 0);
    author.sql("CREATE DATABASE d");
    author.table("t", &[INT; 2], "id INT PRIMARY KEY, v INT");
    let mut files = Vec::new();
    for id in 0..60 {
        author.compressed = id % 5 == 4;
        author.rows(&[insert("t", &[int(id), int(0)]), update("t", &[int(id), int(0)], &[int(id), int(1)])]);
        author.compressed = false;
        if id % 20 == 10 {
            author.transaction(|events| {
                events.sql("XA START X'61',X'',1");
                events.change(&insert("t", &[int(1000 + id), int(0)]));
                events.sql("XA END X'61',X'',1");
                let xid = XaXid::new(1, b"a", b"").unwrap();
                events.writer.xa_prepare(&XaPrepare { one_phase: false, xid });
            });
            author.rows(&[delete("t", &[int(id), int(1)])]);
            author.sql("XA COMMIT X'61',X'',1");
        }
        if id % 25 == 24 {
            author.writer.stop();
            let file = author.end_file();
            files.push(file.strip_prefix(&MAGIC).unwrap_or(&file).to_vec());
        }
    }
    files.push(author.events());
    files
}

#[test]
fn transactions_keep_everything_but_their_clocks() {
    for checksum in [ChecksumAlgorithm::Crc32, ChecksumAlgorithm::None] {
        let files = log(checksum);
        for file_bytes in [FILE_BYTES, 4000, 700, 1] {
            let options = StampOptions { file_bytes, ..options() };
            let whole = served(&options, &files, usize::MAX).unwrap();
            let stamps = check(&files, &whole, file_bytes);
            assert_eq!(stamps.len(), 2 + 60 + 3 * 3);
            assert_eq!(whole.files.len() > 1, file_bytes < FILE_BYTES);
            // However the log is cut.
            let cut = served(&options, &files, 37).unwrap();
            assert!(cut.files.iter().map(|(_, bytes)| bytes).eq(whole.files.iter().map(|(_, bytes)| bytes)));
        }
        let wide = check(&files, &served(&options(), &files, 1 << 20).unwrap(), FILE_BYTES);
        assert!(wide.iter().filter(|(parent, own)| own - parent > 5).count() > 40, "{wide:?}");
    }
}

/// As after a crash: from the place and the definitions that were noted when it began.
#[test]
fn every_file_is_made_again_with_the_same_bytes() {
    let checksum = ChecksumAlgorithm::Crc32;
    let files = log(checksum);
    for tracking in [TrackerKind::Writeset, TrackerKind::WritesetSession, TrackerKind::CommitOrder, TrackerKind::Source]
    {
        let options = StampOptions { tracking, file_bytes: 900, ..options() };
        let whole = served(&options, &files, usize::MAX).unwrap();
        assert!(whole.files.len() > 10);
        for (at, (start, _)) in whole.files.iter().enumerate() {
            let mut again = Served::default();
            let mut stamper = Stamper::again(options.clone(), start);
            let from: usize = start.at.file.strip_prefix("log.").unwrap().parse().unwrap();
            for (number, bytes) in files.iter().enumerate().skip(from) {
                let name: Arc<str> = format!("log.{number}").into();
                let mut offset = if number == from { start.at.offset } else { 4 };
                if number == from {
                    // What a reader gives first: the format description in force.
                    let mut format = Author::at(Uuid([9; 16]), checksum, 0);
                    format.writer.format_description(&FormatDescription::new("9.7.4", checksum), 0);
                    let head = format.writer.take();
                    offset -= head.len() as u64;
                    stamper.step(&name, offset, &Arc::new(head.clone().into()), false, &mut |p| again.put(p)).unwrap();
                    offset += head.len() as u64;
                }
                let rest = bytes[usize::try_from(offset).unwrap() - 4..].to_vec();
                stamper.step(&name, offset, &Arc::new(rest.into()), false, &mut |part| again.put(part)).unwrap();
                stamper.end_of_file().unwrap();
            }
            let wanted = whole.files[at..].iter().map(|(_, bytes)| bytes);
            assert!(again.files.iter().map(|(_, bytes)| bytes).eq(wanted), "file {}", at + 1);
        }
    }
}

/// A file for each format description that differs.
#[test]
fn another_format_begins_another_file() {
    let mut files = log(ChecksumAlgorithm::Crc32);
    let count = served(&options(), &files, 1 << 20).unwrap().files.len();
    assert_eq!(count, 1, "a source's files alone begin none");
    let mut later = Author::at(Uuid([8; 16]), ChecksumAlgorithm::Crc32, 4);
    later.writer.format_description(&FormatDescription::new("9.9.1", ChecksumAlgorithm::Crc32), 0);
    later.sql("CREATE DATABASE e");
    files.push(later.writer.take());
    let whole = served(&options(), &files, 1 << 20).unwrap();
    assert_eq!(whole.files.len(), 2);
    let version = |bytes: &[u8]| BinlogFile::new("x", bytes).unwrap().format().server_version.clone();
    assert_eq!(version(&whole.files[1].1), "9.9.1");
    check(&files, &whole, FILE_BYTES);
}

#[test]
fn a_transaction_that_comes_twice_is_served_once() {
    let files = log(ChecksumAlgorithm::Crc32);
    let twice = [&files[..], &files[..]].concat();
    let (once, twice) = (served(&options(), &files, 1 << 20).unwrap(), served(&options(), &twice, 1 << 20).unwrap());
    assert!(once.files.iter().map(|(_, bytes)| bytes).eq(twice.files.iter().map(|(_, bytes)| bytes)));
}

/// Larger than a slice of the splitter.
#[test]
fn a_huge_transaction_is_whole_and_alone() {
    let mut author = Author::new(Uuid([9; 16]));
    author.sql("CREATE DATABASE d");
    author.table("t", &[INT; 2], "id INT PRIMARY KEY, v INT");
    author.rows(&[insert("t", &[int(-1), int(0)])]);
    author.rows(&[insert("t", &[int(-2), int(0)])]);
    author.transaction(|events| {
        events.sql("BEGIN");
        for _ in 0..40 {
            events.writer.rows_query(&[b'x'; 600_000]);
        }
        events.change(&insert("t", &[int(5), int(0)]));
        events.writer.xid(1);
    });
    let behind = author.rows(&[insert("t", &[int(6), int(0)])]);
    let files = [author.events()];
    for chunk in [1 << 16, usize::MAX] {
        let whole = served(&StampOptions { file_bytes: 1 << 20, ..options() }, &files, chunk).unwrap();
        check(&files, &whole, 1 << 20);
        assert_eq!(whole.files.len(), 3, "it has a file of its own");
        let whole = served(&options(), &files, chunk).unwrap();
        let stamps = check(&files, &whole, FILE_BYTES);
        let behind = i64::try_from(behind).unwrap();
        assert_eq!(stamps[behind as usize - 2..], [(behind - 2, behind - 1), (behind - 1, behind)]);
    }
}

/// Logs of every version and with everything that a server writes.
#[test]
fn recorded_logs_of_every_kind() {
    let mut stamped = 0;
    for path in recorded_logs() {
        let bytes = std::fs::read(&path).unwrap();
        let Some(bytes) = bytes.strip_prefix(&MAGIC) else { continue };
        let files = [bytes.to_vec()];
        match served(&options(), &files, 1 << 16) {
            Ok(served) if served.files.is_empty() => {}
            Ok(served) => {
                check(&files, &served, FILE_BYTES);
                stamped += 1;
            }
            Err(error) => eprintln!("{}: {error}", path.display()),
        }
    }
    assert!(stamped > 10, "{stamped}");
}
