//! Events of a history, which a test may change before they are written.

use binlog::writer::BinlogWriter;
use binlog::{RowsEvent, RowsKind};

use super::table::Shape;
use crate::log;

/// One event, owned.
#[derive(Clone, Debug)]
pub enum Event {
    Map {
        id: u64,
        db: String,
        table: String,
        shape: Shape,
    },
    Rows {
        kind: RowsKind,
        id: u64,
        columns: usize,
        before: Vec<u8>,
        after: Vec<u8>,
        rows: Vec<u8>,
        flags: u16,
    },
    Query {
        db: String,
        sql: String,
    },
    RowsQuery(String),
    Xid,
    /// An event of any type with these flags; the body is written as is.
    Raw(u8, u16, Vec<u8>),
}

impl Event {
    pub fn write(&self, writer: &mut BinlogWriter) {
        match self {
            Event::Map { id, db, table, shape } => log::Table {
                id: *id,
                db: db.clone(),
                name: table.clone(),
                types: shape.columns.iter().map(|column| column.ty).collect(),
                nullable: shape.columns.iter().map(|column| column.nullable).collect(),
            }
            .map(writer),
            Event::Rows { kind, id, columns, before, after, rows, flags } => writer.rows(&RowsEvent {
                kind: *kind,
                table_id: *id,
                flags: *flags,
                partition: None,
                column_count: *columns,
                before_columns: before,
                after_columns: after,
                rows,
            }),
            Event::Query { db, sql } => writer.statement(db.as_bytes(), sql.as_bytes()),
            Event::RowsQuery(sql) => writer.rows_query(sql.as_bytes()),
            Event::Xid => writer.xid(77),
            Event::Raw(event_type, flags, body) => writer.event(*event_type, *flags, |out| out.extend_from_slice(body)),
        }
    }
}
