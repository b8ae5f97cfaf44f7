//! The one kind of table that all shapes use, and its events.
//!
//! In: numbers of rows and their versions. Out: Table_map and rows events. Never here: state. Every column is a
//! function of the row's number and version, so that before images need no memory.

use std::ops::Range;

use binlog::writer::BinlogWriter;
use binlog::{RowsEvent, RowsKind, TableMapEvent};

/// Database of all shapes.
pub(crate) const DB: &str = "shapes";
/// As binlog_row_event_max_size: a statement's rows are split into events of about this many bytes.
const EVENT_BYTES: usize = 8192;
/// Length of column `pad` in bytes.
const PAD: u8 = 60;
/// Null bits, id, k, v, length of pad, pad.
const IMAGE_BYTES: usize = 1 + 4 + 4 + 8 + 1 + PAD as usize;
/// LONG, LONG, LONGLONG, VARCHAR.
const COLUMN_TYPES: [u8; 4] = [3, 3, 8, 15];
/// As from a server with binlog_row_metadata=MINIMAL: numbers are signed, the text's collation is binary, all columns
/// are visible (log_event.h, `Optional_metadata_field_type`).
const OPTIONAL: [u8; 9] = [1, 1, 0, 2, 1, 63, 12, 1, 0b1111_0000];
const ALL: [u8; 1] = [0b1111];

/// A table: `id INT, k INT, v BIGINT, pad VARBINARY(60)`.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Table {
    /// Table number in Table_map events.
    pub id: u64,
    pub name: &'static str,
    /// True for a table without keys, in which rows start as pairs of equal ones.
    pub keyless: bool,
}

impl Table {
    /// The CREATE TABLE statement.
    pub(crate) fn definition(&self) -> String {
        let keys = if self.keyless { "" } else { ", PRIMARY KEY (id), KEY k (k)" };
        format!(
            "CREATE TABLE `{}` (id INT NOT NULL, k INT NOT NULL, v BIGINT NOT NULL, pad VARBINARY({PAD}) NOT NULL{keys}) \
             ENGINE=InnoDB",
            self.name
        )
    }

    /// Writes the table map of the rows that follow.
    pub(crate) fn map(&self, writer: &mut BinlogWriter) {
        writer.table_map(&TableMapEvent {
            table_id: self.id,
            flags: 1,
            db: DB.as_bytes(),
            table: self.name.as_bytes(),
            column_types: &COLUMN_TYPES,
            metadata: &[PAD, 0],
            null_bitmap: &[0],
            optional: &OPTIONAL,
        });
    }

    /// Number of rows in a full rows event.
    pub(crate) fn rows_per_event(kind: RowsKind) -> usize {
        let images = usize::from(kind.has_before()) + usize::from(kind.has_after());
        EVENT_BYTES.div_ceil(images * IMAGE_BYTES)
    }

    /// Writes one rows event: insert of a version, update to it from the previous one, or its delete.
    pub(crate) fn rows(
        &self,
        writer: &mut BinlogWriter,
        kind: RowsKind,
        ends_statement: bool,
        rows: impl Iterator<Item = (u64, u64)>,
    ) {
        let mut images = Vec::new();
        for (row, version) in rows {
            match kind {
                RowsKind::Update => {
                    self.push_image(&mut images, row, version.saturating_sub(1));
                    self.push_image(&mut images, row, version);
                }
                _ => self.push_image(&mut images, row, version),
            }
        }
        writer.rows(&RowsEvent {
            kind,
            table_id: self.id,
            flags: u16::from(ends_statement),
            partition: None,
            column_count: COLUMN_TYPES.len(),
            before_columns: if kind.has_before() { &ALL } else { &[] },
            after_columns: if kind.has_after() { &ALL } else { &[] },
            rows: &images,
        });
    }

    /// Writes a statement whose rows fit into a few events: table map and rows.
    pub(crate) fn statement(&self, writer: &mut BinlogWriter, kind: RowsKind, rows: &[(u64, u64)]) {
        self.map(writer);
        let mut events = rows.chunks(Table::rows_per_event(kind)).peekable();
        while let Some(event) = events.next() {
            self.rows(writer, kind, events.peek().is_none(), event.iter().copied());
        }
    }

    /// Row ranges of the events of a statement that changes the first `rows` rows.
    pub(crate) fn events(kind: RowsKind, rows: u64) -> impl Iterator<Item = Range<u64>> {
        let step = Table::rows_per_event(kind) as u64;
        (0..rows.div_ceil(step)).map(move |event| event * step..((event + 1) * step).min(rows))
    }

    fn push_image(&self, out: &mut Vec<u8>, row: u64, version: u64) {
        let id = if self.keyless { row / 2 } else { row };
        // The index on k changes with every eighth version.
        let k = (id + version / 8) % 997;
        out.push(0xf0);
        out.extend((id as u32).to_le_bytes());
        out.extend((k as u32).to_le_bytes());
        out.extend(version.to_le_bytes());
        out.push(PAD);
        let first = id.wrapping_mul(7).wrapping_add(version);
        out.extend((0..u64::from(PAD)).map(|at| b'a' + (first.wrapping_add(at * at) % 26) as u8));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_cover_the_rows_once() {
        for rows in [0, 1, 52, 53, 105, 1000] {
            for kind in [RowsKind::Write, RowsKind::Update, RowsKind::Delete] {
                let all: Vec<u64> = Table::events(kind, rows).flatten().collect();
                assert_eq!(all, (0..rows).collect::<Vec<_>>());
            }
        }
    }
}
