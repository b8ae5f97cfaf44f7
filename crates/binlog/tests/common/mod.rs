//! What several tests need: where the recorded logs lie, logs of old servers, and a log of our own with every event we
//! write.
#![allow(dead_code)] // Each test binary uses its part.

use std::path::{Path, PathBuf};

use base::{Gtid, GtidSet, Tag, Uuid};
use binlog::writer::BinlogWriter;
use binlog::{
    ChecksumAlgorithm, FormatDescription, GtidEvent, QueryEvent, QueryStatus, RowsEvent, RowsKind, TableMapEvent,
    UpdatedDatabases, XaPrepare, XaXid, event_type, row_flags,
};

/// The folder of the recorded logs, whichever crate of this repository includes this file.
fn recorded_folder() -> PathBuf {
    let folders = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().map(|folder| folder.join("tests/logs"));
    folders.into_iter().find(|folder| folder.join("record").is_file()).expect("tests/logs of this repository")
}

/// A recorded log.
pub(crate) fn recorded(name: &str) -> PathBuf {
    recorded_folder().join(format!("{name}.binlog"))
}

/// Names of all recorded logs.
pub(crate) fn recorded_names() -> Vec<String> {
    let files = std::fs::read_dir(recorded_folder()).unwrap().map(|entry| entry.unwrap().path());
    let logs = files.filter(|file| file.extension().is_some_and(|extension| extension == "binlog"));
    let mut names: Vec<String> = logs.map(|file| file.file_stem().unwrap().to_str().unwrap().to_owned()).collect();
    names.sort();
    assert!(names.len() > 10, "{names:?}");
    names
}

/// Logs as servers wrote them that are too old to record here: each with a name and what the reader says of it.
pub(crate) fn old_logs() -> Vec<(&'static str, Vec<u8>, Option<&'static str>)> {
    let none = ChecksumAlgorithm::None;
    let mut development = FormatDescription::new("5.1.15-alpha", none);
    development.post_header_lens[usize::from(event_type::TABLE_MAP) - 1] = 6;
    let mut before_56 = BinlogWriter::start_file(1, 1_200_000_000, &FormatDescription::new("5.1.23-rc-log", none));
    before_56.statement(b"shop", b"BEGIN");
    before_56.table_map(&item());
    before_56.event(event_type::WRITE_ROWS_V1, 0, |out| {
        out.extend_from_slice(b"\x6c\0\0\0\0\0\x01\0\x03\xff");
        out.extend_from_slice(ONE_ROW);
    });
    before_56.xid(3);
    // MySQL 5.6 and 5.7.5 or older: GTIDs without commit timestamps and lengths.
    let mut savepoints = BinlogWriter::start_file(1, 1_400_000_000, &FormatDescription::new("5.6.20-log", none));
    savepoints.gtid(&GtidEvent { transaction_length: None, ..GtidEvent::new(gtid(b"", 1), 0, 1) });
    for sql in [&b"BEGIN"[..], b"INSERT INTO t VALUES (1)", b"SAVEPOINT `a`", b"INSERT INTO n VALUES (1)"] {
        savepoints.statement(b"shop", sql);
    }
    savepoints.statement(b"shop", b"ROLLBACK TO `a`");
    savepoints.xid(4);
    vec![
        (
            "5.1 in development",
            BinlogWriter::start_file(1, 1_170_000_000, &development).take(),
            Some("development versions of MySQL 5.1"),
        ),
        ("rows of 5.1", before_56.take(), Some("(Write_rows_v1): ")),
        ("savepoints of 5.6", savepoints.take(), None),
    ]
}

pub(crate) const UUID: Uuid =
    Uuid([0x3e, 0x11, 0xfa, 0x47, 0x71, 0xca, 0x11, 0xe1, 0x9e, 0x33, 0xc8, 0x0a, 0xa9, 0x42, 0x95, 0x62]);

pub(crate) fn gtid(tag: &[u8], gno: u64) -> Option<Gtid> {
    let tag = if tag.is_empty() { Tag::EMPTY } else { Tag::new(tag).unwrap() };
    Some(Gtid { uuid: UUID, tag, gno })
}

/// `shop.item (id INT UNSIGNED, name VARCHAR(40), doc JSON)`
pub(crate) fn item() -> TableMapEvent<'static> {
    TableMapEvent {
        table_id: 108,
        flags: 1,
        db: b"shop",
        table: b"item",
        column_types: &[3, 15, 245],
        metadata: &[160, 0, 4],
        null_bitmap: &[0b110],
        optional: &[1, 1, 0x80, 2, 3, 252, 255, 0],
    }
}

pub(crate) fn rows(kind: RowsKind, rows: &'static [u8]) -> RowsEvent<'static> {
    RowsEvent {
        kind,
        table_id: 108,
        flags: row_flags::STMT_END,
        partition: None,
        column_count: 3,
        before_columns: if kind.has_before() { &[0b001] } else { &[] },
        after_columns: if kind.has_after() { &[0b111] } else { &[] },
        rows,
    }
}

pub(crate) fn ddl(sql: &'static [u8]) -> QueryEvent<'static> {
    let status = QueryStatus {
        flags2: Some(QueryStatus::NO_FOREIGN_KEY_CHECKS),
        sql_mode: Some(1_168_113_696),
        catalog: Some(b"std"),
        charset_client: Some(255),
        collation_connection: Some(255),
        collation_server: Some(255),
        updated_databases: Some(UpdatedDatabases::Names(b"shop\0")),
        explicit_defaults_for_timestamp: Some(true),
        ddl_xid: Some(77),
        default_collation_for_utf8mb4: Some(255),
        sql_require_primary_key: Some(false),
        default_table_encryption: Some(false),
        enable_cascade_triggers: Some(false),
        ..QueryStatus::default()
    };
    QueryEvent { thread_id: 9, exec_time: 1, error_code: 0, db: b"shop", status, sql }
}

const ONE_ROW: &[u8] = b"\x04\x01\0\0\0\x03abc";
const UPDATED: &[u8] = b"\0\x01\0\0\0\x04\x01\0\0\0\x03abd";
const DELETED: &[u8] = b"\0\x01\0\0\0";

/// A log with every event we write: DDL, rows of each kind, a tagged and an anonymous transaction, XA, compression.
pub(crate) fn sample_log(checksum: ChecksumAlgorithm) -> Vec<u8> {
    let format = FormatDescription::new("9.7.4", checksum);
    let mut writer = BinlogWriter::start_file(42, 1_763_700_000, &format);
    let mut previous = GtidSet::new();
    previous.add_range(UUID, Tag::EMPTY, 1, 4);
    writer.previous_gtids(&previous);

    let mut clock = 0;
    let mut next = |tag: &[u8], gno| {
        clock += 1;
        GtidEvent {
            immediate_commit_timestamp_us: 1_763_700_000_000_000,
            original_commit_timestamp_us: 1_763_700_000_000_000 - clock as u64 % 2,
            immediate_server_version: Some(90704),
            original_server_version: Some(80040),
            ..GtidEvent::new(if gno == 0 { None } else { gtid(tag, gno) }, clock - 1, clock)
        }
    };
    writer.transaction(&next(b"", 5), |w| w.query(&ddl(b"CREATE TABLE item (id INT UNSIGNED)")));
    writer.transaction(&next(b"", 6), |w| {
        w.statement(b"shop", b"BEGIN");
        w.rows_query(b"INSERT INTO item ...");
        w.table_map(&item());
        w.rows(&rows(RowsKind::Write, ONE_ROW));
        w.xid(5);
    });
    writer.transaction(&next(b"tag_1", 1), |w| {
        w.statement(b"shop", b"BEGIN");
        w.table_map(&item());
        w.rows(&rows(RowsKind::Update, UPDATED));
        w.xid(6);
    });
    writer
        .compressed_transaction(&next(b"", 7), |w| {
            w.statement(b"shop", b"BEGIN");
            for _ in 0..50 {
                w.table_map(&item());
                w.rows(&rows(RowsKind::Write, ONE_ROW));
            }
            w.xid(7);
        })
        .unwrap();
    let xid = XaXid::new(1, b"x", b"").unwrap();
    writer.transaction(&next(b"", 8), |w| {
        w.statement(b"", format!("XA START {xid}").as_bytes());
        w.table_map(&item());
        w.rows(&rows(RowsKind::Delete, DELETED));
        w.statement(b"", format!("XA END {xid}").as_bytes());
        w.xa_prepare(&XaPrepare { one_phase: false, xid });
    });
    writer.transaction(&next(b"", 9), |w| w.statement(b"", format!("XA COMMIT {xid}").as_bytes()));
    writer.transaction(&next(b"", 0), |w| w.query(&ddl(b"DROP TABLE item")));
    writer.rotate(b"binlog.000002", 4);
    writer.take()
}
