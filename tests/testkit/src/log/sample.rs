//! A log with every event that the writer writes.

use base::{Gtid, GtidSet, Tag, Uuid};
use binlog::writer::BinlogWriter;
use binlog::{
    ChecksumAlgorithm, FormatDescription, GtidEvent, QueryEvent, QueryStatus, RowsEvent, RowsKind, TableMapEvent,
    UpdatedDatabases, XaPrepare, XaXid, row_flags,
};

const UUID: Uuid =
    Uuid([0x3e, 0x11, 0xfa, 0x47, 0x71, 0xca, 0x11, 0xe1, 0x9e, 0x33, 0xc8, 0x0a, 0xa9, 0x42, 0x95, 0x62]);

/// A GTID of the log's source.
pub fn gtid(tag: &[u8], gno: u64) -> Option<Gtid> {
    let tag = if tag.is_empty() { Tag::EMPTY } else { Tag::new(tag).unwrap() };
    Some(Gtid { uuid: UUID, tag, gno })
}

/// `shop.item (id INT UNSIGNED, name VARCHAR(40), doc JSON)`
pub fn item() -> TableMapEvent<'static> {
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

fn rows(kind: RowsKind, rows: &'static [u8]) -> RowsEvent<'static> {
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

/// A statement with all that a session may add to it.
pub fn ddl(sql: &'static [u8]) -> QueryEvent<'static> {
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

pub(super) const ONE_ROW: &[u8] = b"\x04\x01\0\0\0\x03abc";
const UPDATED: &[u8] = b"\0\x01\0\0\0\x04\x01\0\0\0\x03abd";
const DELETED: &[u8] = b"\0\x01\0\0\0";

/// A log with every event we write: DDL, rows of each kind, a tagged and an anonymous transaction, XA, compression.
pub fn sample_log(checksum: ChecksumAlgorithm) -> Vec<u8> {
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
