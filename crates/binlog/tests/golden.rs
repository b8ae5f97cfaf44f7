//! The golden logs, read in place: good values, or the right error in the right place.
#![allow(clippy::unwrap_used, clippy::expect_used, missing_docs)]

mod common;

use std::collections::BTreeMap;

use binlog::reader::BinlogFile;
use binlog::{
    BinlogError, ChecksumAlgorithm, ErrorClass, FormatDescription, GtidEvent, ParsedEvent, PartialUpdateImage,
    QueryKind, RowsKind, TransactionPayload, event_type,
};
use common::{golden, golden_names};

/// Parses a whole log; gives how often each event occurs, and the error that ended it.
fn walk(
    name: &str,
    mut each: impl FnMut(u64, ParsedEvent<'_>),
) -> (BTreeMap<&'static str, usize>, Option<BinlogError>) {
    let mut counts = BTreeMap::new();
    let mut file = match BinlogFile::open(golden(name).unwrap()) {
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

#[test]
fn every_log_gives_values_or_a_clear_error() {
    for name in golden_names() {
        let (_, error) = walk(&name, |_, _| {});
        let expected = match name.as_str() {
            "binlog_truncated_event.000001" => {
                Some((ErrorClass::Corrupt, ":4 (Format_desc): the log ends inside an event: 10 of 19"))
            }
            "binlog_truncated_prev_gtid_event.000001" => {
                Some((ErrorClass::Corrupt, ":120 (event header): the log ends inside an event: 9 of 19"))
            }
            "corrupt-relay-bin.000624" => Some((ErrorClass::Corrupt, "Query event is cut off inside status")),
            "mariadb-bin.000001" => Some((ErrorClass::NotSupported, "MariaDB log (server version \"10.5.15-MariaDB")),
            "ver_5_1-wl2325_r.001" | "ver_5_1-wl2325_s.001" => {
                Some((ErrorClass::NotSupported, "development versions of MySQL 5.1"))
            }
            "ver_5_1_23.001" => Some((ErrorClass::NotSupported, ":469 (Write_rows_v1): ")),
            "update-full-row.binlog"
            | "update-partial-row.binlog"
            | "write-full-row.binlog"
            | "write-partial-row.binlog" => Some((ErrorClass::NotSupported, ":275 (Write_rows_v1): ")),
            _ => None,
        };
        match (expected, error) {
            (None, None) => {}
            (Some((class, text)), Some(error)) => {
                assert!(error.to_string().contains(text), "{name}: {error}");
                assert_eq!(error.class(), class, "{name}: {error}");
            }
            (expected, error) => panic!("{name}: expected {expected:?}, got {error:?}"),
        }
    }
}

#[test]
fn tagged_gtid() {
    let name = "binlog_transaction_with_GTID_TAG.000001";
    if golden(name).is_none() {
        return;
    }
    let mut gtids: Vec<GtidEvent> = Vec::new();
    let mut previous = String::new();
    let (counts, error) = walk(name, |_, event| match event {
        ParsedEvent::Gtid(event) => gtids.push(*event),
        ParsedEvent::PreviousGtids(event) => previous = event.set.to_string(),
        _ => {}
    });
    assert!(error.is_none());
    assert_eq!(counts["Gtid_tagged"], 1);
    let uuid = "55778904-0299-11f1-b1b8-4ef0c4956feb";
    assert_eq!(previous, format!("{uuid}:1-13:mytag:1-2"));
    assert_eq!(gtids[0].gtid.unwrap().to_string(), format!("{uuid}:mytag:3"));
    assert_eq!((gtids[0].sequence_number, gtids[0].transaction_length), (1, Some(296)));
    assert_eq!(gtids[0].immediate_server_version, Some(90600));
}

#[test]
fn our_format_description_is_the_servers() {
    let Some(path) = golden("binlog_transaction_with_GTID_TAG.000001") else {
        return;
    };
    let file = BinlogFile::open(path).unwrap();
    let ours = FormatDescription::new("9.6.0", ChecksumAlgorithm::Crc32);
    assert_eq!(file.format().post_header_lens, ours.post_header_lens);
}

#[test]
fn compressed_transaction() {
    let Some(path) = golden("transaction_compression.000001") else {
        return;
    };
    let mut file = BinlogFile::open(path).unwrap();
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
        assert_eq!(names, ["Query", "Table_map", "Write_rows", "Xid"]);
        assert_eq!(streamed, whole);
        seen += 1;
    }
    assert_eq!(seen, 1);
}

#[test]
fn partial_json_update() {
    if golden("json.binlog.000001").is_none() {
        return;
    }
    let mut seen = 0;
    walk("json.binlog.000001", |_, event| {
        if let ParsedEvent::Rows(rows) = event
            && rows.kind == RowsKind::PartialUpdate
        {
            assert!(rows.ends_statement());
            assert!(!rows.before_columns.is_empty() && !rows.after_columns.is_empty());
            // Some place in the rows must read as the front of an after image with one JSON column.
            let fronts = (0..rows.rows.len())
                .filter(|&at| PartialUpdateImage::parse(&rows.rows[at..], 1).is_ok_and(|front| front.is_partial(0)));
            assert!(fronts.count() > 0);
            seen += 1;
        }
    });
    assert_eq!(seen, 1);
}

#[test]
fn savepoints_of_an_old_log() {
    if golden("binlog_savepoint.000001").is_none() {
        return;
    }
    let mut kinds = Vec::new();
    walk("binlog_savepoint.000001", |_, event| {
        if let ParsedEvent::Query(query) = event {
            kinds.push(QueryKind::of(query.sql));
        }
    });
    kinds.retain(|kind| *kind != QueryKind::Other);
    assert_eq!(kinds, [QueryKind::Begin, QueryKind::Savepoint, QueryKind::RollbackTo]);
}

#[test]
fn opening_in_the_middle_gives_the_same_events() {
    let Some(path) = golden("json-opaque.binlog") else {
        return;
    };
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
