//! The recorded logs of `tests/logs`, and logs of servers that are too old to record here.

use std::path::{Path, PathBuf};

use binlog::writer::BinlogWriter;
use binlog::{ChecksumAlgorithm, FormatDescription, GtidEvent, event_type};

use super::sample::{ONE_ROW, gtid, item};

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../logs")
}

/// A recorded log.
pub fn recorded(name: &str) -> PathBuf {
    folder().join(format!("{name}.binlog"))
}

/// All recorded logs, by name.
pub fn recorded_logs() -> Vec<PathBuf> {
    let mut logs: Vec<PathBuf> = std::fs::read_dir(folder()).unwrap().map(|entry| entry.unwrap().path()).collect();
    logs.retain(|log| log.extension().is_some_and(|extension| extension == "binlog"));
    logs.sort();
    assert!(logs.len() > 10, "{logs:?}");
    logs
}

/// Logs as servers wrote them that are too old to record here: each with a name and what the reader says of it.
pub fn old_logs() -> Vec<(&'static str, Vec<u8>, Option<&'static str>)> {
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
