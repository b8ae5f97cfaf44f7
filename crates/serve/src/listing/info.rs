//! What an event says, in the words of SHOW RELAYLOG EVENTS.
//!
//! In: a parsed event, or the head of one. Out: text. Never here: secrets of statements, which are masked as in
//! messages; bytes that are not UTF-8: the text of a statement is converted from its client's character set, which
//! MySQL sends as it is.

use std::fmt::Write as _;

use binlog::{
    BinlogError, Compression, EventHeader, IntvarKind, ParsedEvent, PayloadHead, QueryEvent, UserVar, UserVarValue,
    event_type, flags, row_flags,
};
use values::text::{TextOptions, write_text};
use values::{ColumnType, charset, type_code};

/// Result types of user variables.
const STRING: u8 = 0;
const REAL: u8 = 1;
const INTEGER: u8 = 2;
const DECIMAL: u8 = 4;

/// Bytes of a rows event's body before its columns: table id, flags.
const ROWS_HEAD: usize = 8;

const ROW_FLAGS: &[(u16, &str)] = &[
    (row_flags::STMT_END, "STMT_END_F"),
    (row_flags::NO_FOREIGN_KEY_CHECKS, "NO_FOREIGN_KEY_CHECKS_F"),
    (row_flags::RELAXED_UNIQUE_CHECKS, "RELAXED_UNIQUE_CHECKS_F"),
    (row_flags::COMPLETE_ROWS, "COMPLETE_ROWS_F"),
    (row_flags::USE_SQL_FOREIGN_KEY, "USE_SQL_FOREIGN_KEY_F"),
];

/// True for events that may be large, and of which the first bytes are shown alone.
pub(super) fn is_shown_by_head(code: u8) -> bool {
    event_type::is_rows(code)
        || matches!(code, event_type::TRANSACTION_PAYLOAD | event_type::BEGIN_LOAD_QUERY | event_type::APPEND_BLOCK)
}

/// What such an event says but for a payload; `head` may be cut off, `body_len` is not.
pub(super) fn of_head(header: &EventHeader, head: &[u8], body_len: usize) -> Result<String, BinlogError> {
    let short = |field| BinlogError::Short { event: header.name(), field };
    if event_type::is_rows(header.event_type) {
        let Some([a, b, c, d, e, f, low, high]) = head.first_chunk::<ROWS_HEAD>() else {
            return Err(short("flags"));
        };
        let table_id = u64::from_le_bytes([*a, *b, *c, *d, *e, *f, 0, 0]);
        return Ok(rows(table_id, u16::from_le_bytes([*low, *high])));
    }
    let file_id = head.first_chunk().map(|bytes| u32::from_le_bytes(*bytes)).ok_or_else(|| short("file id"))?;
    Ok(format!(";file_id={file_id};block_len={}", body_len.saturating_sub(size_of::<u32>())))
}

fn rows(table_id: u64, bits: u16) -> String {
    let mut text = format!("table_id: {table_id}");
    let set: Vec<&str> = ROW_FLAGS.iter().filter(|(bit, _)| bits & bit != 0).map(|(_, name)| *name).collect();
    if !set.is_empty() {
        let _ = write!(text, " flags: {}", set.join(" "));
    }
    text
}

/// What a compressed transaction says.
pub(super) fn of_payload(payload: &PayloadHead) -> String {
    let compression = match payload.compression {
        Compression::Zstd => "ZSTD",
        Compression::None => "NONE",
    };
    let size = payload.uncompressed_size.unwrap_or(payload.size as u64);
    format!("compression='{compression}', decompressed_size={size} bytes")
}

/// What an event says. Those of group replication, and others that a log seldom has, say nothing.
pub(super) fn of(header: &EventHeader, event: &ParsedEvent<'_>) -> String {
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    match event {
        ParsedEvent::Query(query) => {
            let statement = of_query(header, query);
            match query.status.ddl_xid {
                Some(xid) => format!("{statement} /* xid={xid} */"),
                None => statement,
            }
        }
        ParsedEvent::ExecuteLoadQuery(load) => {
            format!("{} ;file_id={}", of_query(header, &load.query), load.file_id)
        }
        ParsedEvent::Rotate(rotate) => format!("{};pos={}", text(rotate.file), rotate.position),
        ParsedEvent::Intvar(intvar) => {
            let name = match intvar.kind {
                IntvarKind::LastInsertId => "LAST_INSERT_ID",
                IntvarKind::InsertId => "INSERT_ID",
            };
            format!("{name}={}", intvar.value)
        }
        ParsedEvent::Rand(rand) => format!("rand_seed1={},rand_seed2={}", rand.seed1, rand.seed2),
        ParsedEvent::UserVar(variable) => of_variable(variable),
        ParsedEvent::Xid(xid) => format!("COMMIT /* xid={} */", xid.xid),
        ParsedEvent::DeleteFile(file_id) => format!(";file_id={file_id}"),
        ParsedEvent::TableMap(map) => format!("table_id: {} ({}.{})", map.table_id, text(map.db), text(map.table)),
        ParsedEvent::RowsQuery(query) => format!("# {}", catalog::masked(&text(query.sql))),
        ParsedEvent::Gtid(gtid) => match gtid.gtid {
            Some(gtid) => format!("SET @@SESSION.GTID_NEXT= '{gtid}'"),
            None => "SET @@SESSION.GTID_NEXT= 'ANONYMOUS'".to_owned(),
        },
        ParsedEvent::PreviousGtids(previous) => previous.set.to_string().replace(',', ",\n"),
        ParsedEvent::XaPrepare(prepare) => match prepare.one_phase {
            true => format!("XA COMMIT {} ONE PHASE", prepare.xid),
            false => format!("XA PREPARE {}", prepare.xid),
        },
        ParsedEvent::Incident(incident) => format!("#{} ({})", incident.kind, text(incident.message)),
        ParsedEvent::FormatDescription
        | ParsedEvent::Stop
        | ParsedEvent::LoadBlock(_)
        | ParsedEvent::Rows(_)
        | ParsedEvent::Heartbeat(_)
        | ParsedEvent::HeartbeatV2(_)
        | ParsedEvent::TransactionPayload(_)
        | ParsedEvent::Opaque(_) => String::new(),
    }
}

/// A statement, with the schema that it ran in.
fn of_query(header: &EventHeader, query: &QueryEvent<'_>) -> String {
    let sql = match query.status.charset_client.map(|client| charset::to_utf8mb4(client, query.sql)) {
        Some(Ok(sql)) => String::from_utf8_lossy(&sql).into_owned(),
        _ => String::from_utf8_lossy(query.sql).into_owned(),
    };
    let sql = catalog::masked(&sql);
    match header.flags & flags::SUPPRESS_USE == 0 && !query.db.is_empty() {
        true => format!("use {}; {sql}", quoted(query.db)),
        false => sql,
    }
}

fn quoted(name: &[u8]) -> String {
    format!("`{}`", String::from_utf8_lossy(name).replace('`', "``"))
}

fn of_variable(variable: &UserVar<'_>) -> String {
    let value = variable.value.map_or_else(|| "NULL".to_owned(), |value| of_value(&value));
    format!("@{}={value}", quoted(variable.name))
}

/// A variable's value; "?" for one that is not as its type says.
fn of_value(value: &UserVarValue<'_>) -> String {
    let number = value.bytes.first_chunk().map(|bytes| i64::from_le_bytes(*bytes));
    let shown = match (value.result_type, number) {
        (REAL, Some(bits)) => Some(values::text_of_f64(f64::from_bits(bits.cast_unsigned()))),
        (INTEGER, Some(number)) if value.flags & 1 != 0 => Some(number.cast_unsigned().to_string()),
        (INTEGER, Some(number)) => Some(number.to_string()),
        (DECIMAL, _) => of_decimal(value.bytes),
        (STRING, _) => of_string(value),
        _ => None,
    };
    shown.unwrap_or_else(|| "?".to_owned())
}

fn of_decimal(bytes: &[u8]) -> Option<String> {
    let (&[precision, scale], digits) = bytes.split_first_chunk()?;
    let ty = ColumnType::new(type_code::DECIMAL, u16::from(precision) << 8 | u16::from(scale));
    let mut text = Vec::new();
    write_text(&ty, digits, TextOptions::default(), &mut text).ok()?;
    String::from_utf8(text).ok()
}

fn of_string(value: &UserVarValue<'_>) -> Option<String> {
    let collation = values::collation::by_id(u16::try_from(value.collation).ok()?)?;
    let mut text = format!("_{} ", collation.charset);
    if value.bytes.is_empty() {
        text.push_str("\"\"");
    } else {
        text.push_str("0x");
        for byte in value.bytes {
            let _ = write!(text, "{byte:02X}");
        }
    }
    let _ = write!(text, " COLLATE {}", collation.name);
    Some(text)
}
