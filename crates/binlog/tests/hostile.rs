//! Bytes from outside: cut anywhere, flipped anywhere, or random. Errors, never a panic, never a wrong place.

use binlog::reader::{BinlogFile, MAGIC};
use binlog::{BinlogError, ChecksumAlgorithm, EventHeader, FormatDescription, ParsedEvent, TransactionPayload};
use proptest::prelude::*;
use testkit::log;

/// Reads as far as it goes; everything that parses is looked into.
fn devour(bytes: &[u8]) -> Result<usize, BinlogError> {
    let mut file = BinlogFile::new("hostile", bytes)?.without_verification();
    let mut events = 0;
    while let Some(event) = file.next_event()? {
        if let Ok(parsed) = event.body().and_then(|body| ParsedEvent::parse(&event.header, body)) {
            look_into(&parsed);
        }
        events += 1;
    }
    Ok(events)
}

fn look_into(event: &ParsedEvent<'_>) {
    match event {
        ParsedEvent::TableMap(map) => {
            assert_eq!(map.columns().count(), map.column_count());
            if let Ok(fields) = map.optional_metadata() {
                let _ = fields.primary_key(map.column_count());
                if let Ok(details) = fields.details(map) {
                    for members in details.iter().filter_map(|column| column.members) {
                        members.count();
                    }
                }
            }
        }
        ParsedEvent::Query(query) => {
            binlog::QueryKind::with_xid(query.sql);
        }
        ParsedEvent::TransactionPayload(payload) => unpack(payload),
        _ => {}
    }
}

fn unpack(payload: &TransactionPayload<'_>) {
    let mut out = Vec::new();
    let _ = payload.decompress_into(&mut out, 1 << 20);
    assert!(out.len() <= (1 << 20) + (16 << 20));
    if let Ok(mut events) = payload.events(1 << 20) {
        while let Ok(Some((header, bytes))) = events.next() {
            let body = binlog::event_body(bytes, ChecksumAlgorithm::None).unwrap();
            let _ = ParsedEvent::parse(&header, body).map(|event| look_into(&event));
        }
    }
}

#[test]
fn every_cut_of_a_log_is_seen() {
    let log = log::sample_log(ChecksumAlgorithm::Crc32);
    let mut ends = vec![];
    let mut file = BinlogFile::new("whole", &log[..]).unwrap();
    while let Some(event) = file.next_event().unwrap() {
        ends.push(event.end_offset() as usize);
    }
    assert_eq!(*ends.last().unwrap(), log.len());
    for len in 0..log.len() {
        match devour(&log[..len]) {
            Ok(_) => assert!(ends.contains(&len), "{len}"),
            Err(error) => {
                assert!(error.is_truncated() && !ends.contains(&len), "{len}: {error}");
                let whole = ends.iter().rev().find(|&&end| end < len).copied().unwrap_or(4);
                let at = if len < 4 { "hostile:0 ".to_owned() } else { format!("hostile:{whole} ") };
                assert!(error.to_string().starts_with(&at), "{len}: {error}");
            }
        }
    }
}

#[test]
fn every_flipped_byte_is_seen() {
    let log = log::sample_log(ChecksumAlgorithm::Crc32);
    for at in 0..log.len() {
        let mut flipped = log.clone();
        flipped[at] ^= 0x10;
        let outcome = BinlogFile::new("flipped", &flipped[..]).and_then(|mut file| {
            while file.next_event()?.is_some() {}
            Ok(())
        });
        assert!(outcome.is_err(), "a flip at {at} passes");
    }
}

#[test]
fn a_log_that_grows_is_read_on() {
    struct Growing<'a>(std::cell::Cell<&'a [u8]>, usize);
    impl std::io::Read for Growing<'_> {
        /// Every other read finds the end of the file, as if it were still being written.
        fn read(&mut self, room: &mut [u8]) -> std::io::Result<usize> {
            self.1 += 1;
            if self.1.is_multiple_of(2) {
                return Ok(0);
            }
            let rest = self.0.get();
            let take = rest.len().min(room.len()).min(7);
            room[..take].copy_from_slice(&rest[..take]);
            self.0.set(&rest[take..]);
            Ok(take)
        }
    }
    let log = log::sample_log(ChecksumAlgorithm::Crc32);
    let (head, rest) = log.split_at(200);
    let input = std::io::Read::chain(head, Growing(std::cell::Cell::new(rest), 0));
    let mut file = BinlogFile::new("growing", input).unwrap();
    let mut end = 0;
    while end < log.len() as u64 {
        match file.next_event() {
            Ok(Some(event)) => end = event.end_offset(),
            Ok(None) => {}
            Err(error) => assert!(error.is_truncated(), "{error}"),
        }
    }
}

#[test]
fn files_that_are_no_logs() {
    let message = |bytes: &[u8]| BinlogFile::new("f", bytes).unwrap_err().to_string();
    assert!(message(b"\xfdbin rest").contains("encrypted"));
    assert!(message(b"PK\x03\x04 zip").contains("not a binary log"));
    assert!(message(b"").contains("ends inside"));
    assert!(message(b"\xfebin").contains("ends inside"));
    let error = BinlogFile::open("/nonexistent/binlog.000001").unwrap_err();
    assert_eq!(error.class(), binlog::ErrorClass::Io);
    // A header that claims a gigabyte reserves nothing of it.
    let mut log = log::sample_log(ChecksumAlgorithm::Crc32);
    let header = EventHeader { event_type: 2, event_len: 1 << 30, ..EventHeader::default() };
    log.extend(header.encode());
    let mut file = BinlogFile::new("huge", &log[..]).unwrap();
    let error = loop {
        match file.next_event() {
            Ok(event) => assert!(event.is_some()),
            Err(error) => break error,
        }
    };
    assert!(error.is_truncated());
    let header = EventHeader { event_len: u32::MAX, ..header };
    log.truncate(log.len() - 19);
    log.extend(header.encode());
    assert!(devour(&log).unwrap_err().to_string().contains("event length"));
}

#[test]
fn recorded_logs_cut_and_flipped() {
    let recorded = log::recorded_logs().into_iter().map(|log| std::fs::read(log).unwrap());
    for log in recorded.chain(log::old_logs().into_iter().map(|(_, log, _)| log)) {
        let log = &log[..log.len().min(4000)];
        for at in (0..log.len()).step_by(3) {
            let _ = devour(&log[..at]);
            let mut flipped = log.to_vec();
            flipped[at] ^= 1 << (at % 8);
            let _ = devour(&flipped);
        }
    }
}

proptest! {
    #[test]
    fn random_bodies(event_type in 0u8..45, flags: u16, body in proptest::collection::vec(any::<u8>(), 0..200)) {
        let header = EventHeader { event_type, flags, event_len: 19, ..EventHeader::default() };
        if let Ok(event) = ParsedEvent::parse(&header, &body) {
            look_into(&event);
        }
    }

    #[test]
    fn mutated_logs(changes in proptest::collection::vec((any::<usize>(), any::<u8>()), 1..8), cut: usize) {
        let mut log = log::sample_log(ChecksumAlgorithm::None);
        for (at, value) in changes {
            // Behind the format description, whose checksum would end the walk at once.
            let at = 130 + at % (log.len() - 130);
            log[at] = value;
        }
        log.truncate(130 + cut % (log.len() - 129));
        let _ = devour(&log);
    }

    #[test]
    fn random_files(body in proptest::collection::vec(any::<u8>(), 0..300)) {
        let _ = devour(&body);
        let _ = devour(&[&MAGIC[..], &body].concat());
        let _ = FormatDescription::parse(&body);
    }
}
