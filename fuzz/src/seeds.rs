//! First inputs: logs and events of our own, recorded logs, and those of old servers. When a target starts, they are
//! written to the folder that `FUZZ_SEEDS` names, beside the build.

use std::fs;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::path::PathBuf;

use binlog::reader::{BinlogFile, MAGIC};
use binlog::writer::BinlogWriter;
use binlog::{
    ChecksumAlgorithm, EventHeader, FormatDescription, GtidEvent, RowsEvent, RowsKind, TableMapEvent,
    TransactionPayload, event_type,
};
use catalog::{Catalog, StatementContext, TableDef};
use testkit::log;

use crate::{chunk, join};

/// Writes the seeds of one target if the runner asks for them.
pub fn write(seeds: impl FnOnce() -> Vec<Vec<u8>>) {
    let Some(folder) = std::env::var_os("FUZZ_SEEDS").map(PathBuf::from) else { return };
    for seed in seeds() {
        let mut hash = DefaultHasher::new();
        seed.hash(&mut hash);
        fs::write(folder.join(format!("{:016x}", hash.finish())), seed).expect("a folder for seeds");
    }
}

/// Text seeds.
pub fn texts(texts: &[&str]) -> Vec<Vec<u8>> {
    texts.iter().map(|text| text.as_bytes().to_vec()).collect()
}

/// Whole files.
pub fn logs() -> Vec<Vec<u8>> {
    let own = [ChecksumAlgorithm::None, ChecksumAlgorithm::Crc32].map(log::sample_log);
    let recorded = log::recorded_logs().into_iter().filter_map(|file| fs::read(file).ok());
    let old = log::old_logs().into_iter().map(|(_, log, _)| log);
    own.into_iter().chain(recorded).chain(old).chain([shop_log()]).collect()
}

/// Events with their bodies, including those inside payloads.
pub fn events() -> Vec<(EventHeader, Vec<u8>)> {
    let mut events = Vec::new();
    for log in logs() {
        let Ok(file) = BinlogFile::new("seed", &log[..]) else { continue };
        let mut file = file.without_verification();
        while let Ok(Some(event)) = file.next_event() {
            let Ok(body) = event.body() else { continue };
            events.push((event.header, body.to_vec()));
            if event.header.event_type != event_type::TRANSACTION_PAYLOAD {
                continue;
            }
            let Ok(mut inner) = TransactionPayload::parse(body).and_then(|payload| payload.events(1 << 20)) else {
                continue;
            };
            while let Ok(Some((header, bytes))) = inner.next() {
                events.push((header, bytes[EventHeader::LEN..].to_vec()));
            }
        }
    }
    events
}

/// Bodies of all events of one type.
pub fn bodies(event_type: u8) -> Vec<Vec<u8>> {
    events().into_iter().filter(|(header, _)| header.event_type == event_type).map(|(_, body)| body).collect()
}

/// Rows events as (table map body, event type, rows body).
pub fn rows() -> Vec<(Vec<u8>, u8, Vec<u8>)> {
    let mut map = Vec::new();
    let mut rows = Vec::new();
    for (header, body) in events() {
        if header.event_type == event_type::TABLE_MAP {
            map = body;
        } else if event_type::is_rows(header.event_type) {
            rows.push((map.clone(), header.event_type, body));
        }
    }
    rows
}

/// Each row image with all columns, as an input of targets that read (table map, image).
pub fn images() -> Vec<Vec<u8>> {
    let of_event = |(map, event_type, body): &(Vec<u8>, u8, Vec<u8>)| {
        let rows = RowsEvent::parse(*event_type, body).ok()?;
        Some(join(&[&chunk(map), rows.rows]))
    };
    rows().iter().filter_map(of_event).collect()
}

/// DDL: the catalog's own corpus, then everything in the logs.
pub fn statements() -> Vec<Vec<u8>> {
    let corpus = include_str!("../../crates/catalog/tests/corpus_statements.txt").lines().filter_map(|line| match line
        .split_at_checked(
        2,
    )? {
        ("S ", sql) => Some(sql.as_bytes().to_vec()),
        ("T ", rest) => rest.split_once(' ').map(|(_, sql)| sql.as_bytes().to_vec()),
        _ => None,
    });
    let logged = bodies(event_type::QUERY);
    let logged = logged.iter().filter_map(|body| binlog::QueryEvent::parse(body).ok().map(|query| query.sql.to_vec()));
    corpus.chain(logged).collect()
}

/// A source's tables: with a key, keyless, with a key after other columns, cascading, with a document.
pub fn shop() -> Catalog {
    let tables = [
        "CREATE DATABASE shop",
        "CREATE TABLE shop.item (id INT UNSIGNED PRIMARY KEY, name VARCHAR(10) DEFAULT 'x', price INT)",
        "CREATE TABLE shop.note (a INT, b VARCHAR(300))",
        "CREATE TABLE shop.pair (name VARCHAR(10), y SMALLINT, x BIGINT, doc JSON, PRIMARY KEY (x, y))",
        "CREATE TABLE shop.part (id CHAR(3) PRIMARY KEY, item INT UNSIGNED, \
         FOREIGN KEY (item) REFERENCES shop.item (id) ON DELETE CASCADE ON UPDATE CASCADE)",
    ];
    tables.iter().fold(Catalog::new(0), |catalog, sql| apply(&catalog, sql))
}

fn apply(catalog: &Catalog, sql: &str) -> Catalog {
    catalog.apply(&StatementContext::default(), sql.as_bytes()).expect("a statement of ours").catalog
}

/// A log that fits [`shop`]: every kind of transaction that replay knows.
pub fn shop_log() -> Vec<u8> {
    let catalog = shop();
    let mut log = BinlogWriter::start_file(7, 1, &FormatDescription::new("9.7.4", ChecksumAlgorithm::None));
    let mut gno = 0;
    let mut next = |tag: &[u8]| {
        gno += 1;
        GtidEvent::new(log::gtid(tag, gno), gno as i64 - 1, gno as i64)
    };
    for table in catalog.tables() {
        log.transaction(&next(b""), |w| changes(w, table, 0xff));
        log.transaction(&next(b"t"), |w| changes(w, table, 0b10));
    }
    let table = |catalog: &Catalog, name| catalog.table("shop", name).cloned().expect("a table of ours");
    let _ = log.compressed_transaction(&next(b""), |w| changes(w, &table(&catalog, "item"), 0xff));
    let rename = "RENAME TABLE shop.note TO shop.letter";
    log.transaction(&next(b""), |w| w.statement(b"shop", rename.as_bytes()));
    log.transaction(&next(b""), |w| changes(w, &table(&apply(&catalog, rename), "letter"), 0xff));
    log.transaction(&next(b""), |w| w.statement(b"shop", b"TRUNCATE TABLE letter"));
    log.transaction(&next(b""), |w| w.statement(b"shop", b"CREATE USER u IDENTIFIED BY 'x'"));
    log.rotate(b"binlog.000002", 4);
    log.take()
}

/// [`shop_log`] without its magic number, as replay reads it.
pub fn shop_events() -> Vec<u8> {
    shop_log().split_off(MAGIC.len())
}

fn changes(w: &mut BinlogWriter, table: &TableDef, after: u8) {
    let (column_types, metadata) = table.expected_table_map();
    w.statement(b"shop", b"BEGIN");
    w.table_map(&TableMapEvent {
        table_id: u64::from(table.id.0) + 100,
        flags: 1,
        db: table.db.as_bytes(),
        table: table.name.as_bytes(),
        column_types: &column_types,
        metadata: &metadata,
        null_bitmap: &[0xff],
        optional: &[],
    });
    let count = table.columns.len();
    let all = 0xff >> (8 - count);
    let some = after & all;
    let mut rows = |kind, before: u8, after: u8, rows: &[u8]| {
        w.rows(&RowsEvent {
            kind,
            table_id: u64::from(table.id.0) + 100,
            flags: 1,
            partition: None,
            column_count: count,
            before_columns: if kind == RowsKind::Write { &[] } else { std::slice::from_ref(&before) },
            after_columns: if kind == RowsKind::Delete { &[] } else { std::slice::from_ref(&after) },
            rows,
        });
    };
    rows(RowsKind::Write, 0, all, &join(&[&image(table, all, 1), &image(table, all, 2)]));
    rows(RowsKind::Update, all, some, &join(&[&image(table, all, 1), &image(table, some, 3)]));
    rows(RowsKind::Delete, all, 0, &image(table, all, 2));
    w.xid(1);
}

/// A row of small values.
fn image(table: &TableDef, present: u8, value: u8) -> Vec<u8> {
    let mut image = vec![0];
    for (index, column) in table.columns.iter().enumerate().filter(|(index, _)| present >> index & 1 != 0) {
        match column.ty.fixed_len() {
            Some(len) => image.extend((0..len).map(|byte| if byte == 0 { value + index as u8 } else { 0 })),
            None => {
                image.push(1);
                image.extend(vec![0; column.ty.prefix_len() - 1]);
                image.push(b'a' + value);
            }
        }
    }
    image
}
