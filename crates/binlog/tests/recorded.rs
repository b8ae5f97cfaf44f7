//! Recorded logs, and those of old servers: good values, or the right error in the right place.

use std::collections::BTreeMap;

use binlog::reader::BinlogFile;
use binlog::writer::BinlogWriter;
use binlog::{
    BinlogError, ChecksumAlgorithm, ErrorClass, EventHeader, FormatDescription, GtidEvent, ParsedEvent,
    PartialUpdateImage, QueryKind, RowsKind, TransactionPayload, event_type,
};
use testkit::log;

/// Parses a whole log; gives how often each event occurs, and the error that ended it.
fn walk(
    name: &str,
    bytes: &[u8],
    mut each: impl FnMut(u64, ParsedEvent<'_>),
) -> (BTreeMap<&'static str, usize>, Option<BinlogError>) {
    let mut counts = BTreeMap::new();
    let mut file = match BinlogFile::new(name, bytes) {
        Ok(file) => file,
        Err(error) => return (counts, Some(error)),
    };
    loop {
        let event = match file.next_event() {
            Ok(Some(event)) => event,
            Ok(None) => return (counts, None),
            Err(error) => return (counts, Some(error)),
        };
        let body = event.body().unwrap();
        match ParsedEvent::parse(&event.header, body) {
            Ok(parsed) => {
                if let ParsedEvent::TableMap(map) = &parsed {
                    let fields = map.optional_metadata().unwrap();
                    assert_eq!(fields.details(map).unwrap().len(), map.column_count());
                    fields.primary_key(map.column_count()).unwrap();
                    assert_eq!(fields.unknown_code, None);
                }
                if let ParsedEvent::Query(query) = &parsed {
                    assert_eq!(query.status.unknown_code(), None, "{name}");
                }
                each(event.offset, parsed);
            }
            Err(error) => return (counts, Some(error)),
        }
        *counts.entry(event.header.name()).or_insert(0) += 1;
    }
}

fn read(name: &str) -> Vec<u8> {
    std::fs::read(log::recorded(name)).unwrap()
}

fn expect(name: &str, bytes: &[u8], expected: Option<(ErrorClass, &str)>) {
    match (expected, walk(name, bytes, |_, _| {}).1) {
        (None, None) => {}
        (Some((class, text)), Some(error)) => {
            assert!(error.to_string().contains(text), "{name}: {error}");
            assert_eq!(error.class(), class, "{name}: {error}");
        }
        (expected, error) => panic!("{name}: expected {expected:?}, got {error:?}"),
    }
}

#[test]
fn every_log_gives_values_or_a_clear_error() {
    for log in log::recorded_logs() {
        let name = log.file_stem().unwrap().to_str().unwrap();
        let refused = (ErrorClass::NotSupported, "MariaDB log (server version \"10.");
        expect(name, &read(name), (name == "mariadb").then_some(refused));
    }
    for (name, bytes, error) in log::old_logs() {
        expect(name, &bytes, error.map(|text| (ErrorClass::NotSupported, text)));
    }
}

#[test]
fn a_damaged_log_names_event_and_place() {
    let whole = read("tagged");
    let first = BinlogFile::new("tagged", &whole[..]).unwrap().next_event().unwrap().unwrap().end_offset();
    let text = ":4 (Format_desc): the log ends inside an event: 10 of 19";
    expect("in the first event", &whole[..14], Some((ErrorClass::Corrupt, text)));
    let text = format!(":{first} (event header): the log ends inside an event: 9 of 19");
    expect("in a header", &whole[..first as usize + 9], Some((ErrorClass::Corrupt, &text)));
    // The status variables claim more bytes than the event has.
    let mut log = BinlogWriter::start_file(1, 2, &FormatDescription::new("9.7.4", ChecksumAlgorithm::None));
    let at = log.position() as usize + EventHeader::LEN + 11;
    log.query(&log::ddl(b"DROP TABLE item"));
    let mut bytes = log.take();
    bytes[at + 1] = 0x7f;
    expect("status", &bytes, Some((ErrorClass::Corrupt, "Query event is cut off inside status")));
}

#[test]
fn tagged_gtid() {
    let mut gtids: Vec<GtidEvent> = Vec::new();
    let mut previous = String::new();
    let (counts, error) = walk("tagged", &read("tagged"), |_, event| match event {
        ParsedEvent::Gtid(event) => gtids.push(*event),
        ParsedEvent::PreviousGtids(event) => previous = event.set.to_string(),
        _ => {}
    });
    assert!(error.is_none());
    assert_eq!((counts["Gtid"], counts["Gtid_tagged"]), (1, 1));
    // Its first log: three untagged ones, two and one tagged, and some of another server.
    assert!(previous.contains("11111111-2222-3333-4444-555555555555:7-8:mytag:9"), "{previous}");
    let own = gtids[0].gtid.unwrap().uuid;
    assert!(previous.contains(&format!("{own}:1-3:mytag:1-2:other:1")), "{previous}");
    assert_eq!(gtids[0].gtid.unwrap().to_string(), format!("{own}:4"));
    assert_eq!(gtids[1].gtid.unwrap().to_string(), format!("{own}:mytag:3"));
    assert_eq!((gtids[1].sequence_number, gtids[1].immediate_server_version), (2, Some(90704)));
    assert!(gtids.iter().all(|gtid| gtid.transaction_length.is_some_and(|len| (200..400).contains(&len))), "{gtids:?}");
}

#[test]
fn our_format_description_is_the_servers() {
    let file = BinlogFile::open(log::recorded("types")).unwrap();
    let ours = FormatDescription::new("9.7.4", ChecksumAlgorithm::Crc32);
    assert_eq!(file.format().post_header_lens, ours.post_header_lens);
}

#[test]
fn compressed_transaction() {
    let mut file = BinlogFile::open(log::recorded("compressed")).unwrap();
    let mut seen = 0;
    while let Some(event) = file.next_event().unwrap() {
        if event.header.event_type != event_type::TRANSACTION_PAYLOAD {
            continue;
        }
        let payload = TransactionPayload::parse(event.body().unwrap()).unwrap();
        let mut whole = Vec::new();
        payload.decompress_into(&mut whole, 1 << 20).unwrap();
        assert_eq!(Some(whole.len() as u64), payload.uncompressed_size);
        let mut events = payload.events(1 << 20).unwrap();
        let mut names = Vec::new();
        let mut streamed: Vec<u8> = Vec::new();
        while let Some((header, bytes)) = events.next().unwrap() {
            let body = binlog::event_body(bytes, ChecksumAlgorithm::None).unwrap();
            ParsedEvent::parse(&header, body).unwrap();
            names.push(header.name());
            streamed.extend(bytes);
        }
        if seen == 0 {
            assert_eq!(names, ["Query", "Table_map", "Write_rows", "Xid"]);
        }
        assert_eq!(streamed, whole);
        seen += 1;
    }
    assert_eq!(seen, 6);
}

#[test]
fn partial_json_update() {
    let (mut seen, mut partial) = (0, 0);
    walk("images", &read("images"), |_, event| {
        if let ParsedEvent::Rows(rows) = event
            && rows.kind == RowsKind::PartialUpdate
        {
            assert!(rows.ends_statement());
            assert!(!rows.before_columns.is_empty() && !rows.after_columns.is_empty());
            // Some place in the rows must read as the front of an after image with two JSON columns.
            let fronts = (0..rows.rows.len())
                .filter(|&at| PartialUpdateImage::parse(&rows.rows[at..], 2).is_ok_and(|front| front.is_partial(0)));
            partial += usize::from(fronts.count() > 0);
            seen += 1;
        }
    });
    // An event of this type may hold whole documents, or none.
    assert!(seen == 8 && partial >= 5, "{seen} {partial}");
}

#[test]
fn savepoints_of_an_old_log() {
    let (name, bytes, _) = log::old_logs().into_iter().find(|(name, ..)| name.contains("savepoints")).unwrap();
    for (name, bytes) in [(name, bytes), ("anonymous", read("anonymous"))] {
        let (mut kinds, mut lengths) = (Vec::new(), Vec::new());
        walk(name, &bytes, |_, event| match event {
            ParsedEvent::Query(query) => kinds.push(QueryKind::of(query.sql)),
            ParsedEvent::Gtid(gtid) => lengths.push(gtid.transaction_length),
            _ => {}
        });
        kinds.retain(|kind| !matches!(kind, QueryKind::Begin | QueryKind::Other | QueryKind::Commit));
        // Where changes are rows, the server leaves out what it rolled back.
        let expected = [QueryKind::Savepoint, QueryKind::RollbackTo];
        assert_eq!(kinds, expected[..if name == "anonymous" { 1 } else { 2 }], "{name}");
        assert!(lengths.iter().all(|len| len.is_none() == (name != "anonymous")), "{name}: {lengths:?}");
    }
}

#[test]
fn opening_in_the_middle_gives_the_same_events() {
    let path = log::recorded("types");
    let mut file = BinlogFile::open(&path).unwrap();
    let mut offsets = Vec::new();
    while let Some(event) = file.next_event().unwrap() {
        offsets.push((event.offset, event.header));
    }
    assert_eq!(file.position().offset, std::fs::metadata(&path).unwrap().len());
    for (offset, header) in &offsets {
        let mut file = BinlogFile::open_at(&path, *offset).unwrap();
        assert_eq!(file.next_event().unwrap().unwrap().header, *header);
    }
}
