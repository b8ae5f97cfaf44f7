//! Rows events of version 2: rows of a table that were written, changed or deleted.

use base::limits::COLUMNS_MAX;

use crate::cursor::Cursor;
use crate::{BinlogError, encode, event_type};

/// Bits of a rows event's flags (rows_event.h).
pub mod row_flags {
    /// Last rows event of its statement.
    pub const STMT_END: u16 = 0x01;
    /// foreign_key_checks=0 in the session.
    pub const NO_FOREIGN_KEY_CHECKS: u16 = 0x02;
    /// unique_checks=0 in the session.
    pub const RELAXED_UNIQUE_CHECKS: u16 = 0x04;
    /// The images hold all columns.
    pub const COMPLETE_ROWS: u16 = 0x08;
    /// Cascades of foreign keys are in the log (9.6 and later).
    pub const USE_SQL_FOREIGN_KEY: u16 = 0x10;
}

/// Kind of change to the rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum RowsKind {
    /// Inserted: after images.
    Write,
    /// Updated: pairs of before and after images.
    Update,
    /// Deleted: before images.
    Delete,
    /// Updated, where an after image begins with [`PartialUpdateImage`].
    PartialUpdate,
}

impl RowsKind {
    /// Kind of an event type; `None` for types without rows in a supported format.
    #[inline]
    pub fn of(event_type: u8) -> Option<RowsKind> {
        match event_type {
            event_type::WRITE_ROWS => Some(RowsKind::Write),
            event_type::UPDATE_ROWS => Some(RowsKind::Update),
            event_type::DELETE_ROWS => Some(RowsKind::Delete),
            event_type::PARTIAL_UPDATE_ROWS => Some(RowsKind::PartialUpdate),
            _ => None,
        }
    }

    /// Event type for rows of this kind.
    pub fn event_type(self) -> u8 {
        match self {
            RowsKind::Write => event_type::WRITE_ROWS,
            RowsKind::Update => event_type::UPDATE_ROWS,
            RowsKind::Delete => event_type::DELETE_ROWS,
            RowsKind::PartialUpdate => event_type::PARTIAL_UPDATE_ROWS,
        }
    }

    /// True if each row has a before image.
    #[inline]
    pub fn has_before(self) -> bool {
        self != RowsKind::Write
    }

    /// True if each row has an after image.
    #[inline]
    pub fn has_after(self) -> bool {
        self != RowsKind::Delete
    }
}

/// A rows event. All its parts are borrowed; the rows stay encoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RowsEvent<'a> {
    /// Kind of change to the rows.
    pub kind: RowsKind,
    /// Refers to the Table_map event with this id in the same transaction, which names the table.
    pub table_id: u64,
    /// Bits of [`row_flags`].
    pub flags: u16,
    /// Partition of the rows, and for updates the partition they came from.
    pub partition: Option<(u16, Option<u16>)>,
    /// Number of columns in the table.
    pub column_count: usize,
    /// A bit for each column, lowest first: before images hold it. Empty for Write.
    pub before_columns: &'a [u8],
    /// A bit for each column, lowest first: after images hold it. Empty for Delete.
    pub after_columns: &'a [u8],
    /// The images: null bits of the present columns, then the values. Updates alternate before and after.
    pub rows: &'a [u8],
}

/// Code of NDB's extra information.
const EXTRA_NDB: u8 = 0;
/// Code of partition numbers.
const EXTRA_PARTITION: u8 = 1;

impl<'a> RowsEvent<'a> {
    /// Reads the body of a rows event. For types 20 to 25 (MySQL 5.1 to 5.5) the error says that they are unsupported.
    #[inline]
    pub fn parse(event_type: u8, body: &'a [u8]) -> Result<RowsEvent<'a>, BinlogError> {
        let Some(kind) = RowsKind::of(event_type) else {
            return Err(no_rows(event_type));
        };
        let mut body = Cursor::new(event_type::name(event_type), body);
        let table_id = body.u48("table id")?;
        let flags = body.u16("flags")?;
        let extra_len = body.u16("length of the extra information")?;
        let partition = match extra_len {
            2 => None,
            0 | 1 => return Err(body.value("length of the extra information", u64::from(extra_len))),
            len => {
                let extra = body.bytes(usize::from(len) - 2, "extra information")?;
                parse_extra(kind, Cursor::new(event_type::name(event_type), extra))?
            }
        };
        let column_count = body.packed_len("column count")?;
        if column_count > COLUMNS_MAX {
            return Err(body.value("column count", column_count as u64));
        }
        let bitmap_len = column_count.div_ceil(8);
        let first = body.bytes(bitmap_len, "column bitmap")?;
        let (before_columns, after_columns) = match kind {
            RowsKind::Write => (&[][..], first),
            RowsKind::Delete => (first, &[][..]),
            RowsKind::Update | RowsKind::PartialUpdate => (first, body.bytes(bitmap_len, "column bitmap")?),
        };
        let rows = body.take_rest();
        Ok(RowsEvent { kind, table_id, flags, partition, column_count, before_columns, after_columns, rows })
    }

    /// True for the last rows event of a statement.
    #[inline]
    pub fn ends_statement(&self) -> bool {
        self.flags & row_flags::STMT_END != 0
    }

    pub(crate) fn encode_into(&self, out: &mut Vec<u8>) {
        encode::u48(out, self.table_id);
        out.extend(self.flags.to_le_bytes());
        match self.partition {
            None => out.extend(2u16.to_le_bytes()),
            Some((partition, source)) => {
                let with_source = matches!(self.kind, RowsKind::Update | RowsKind::PartialUpdate);
                out.extend(if with_source { 7u16 } else { 5 }.to_le_bytes());
                out.push(EXTRA_PARTITION);
                out.extend(partition.to_le_bytes());
                if with_source {
                    out.extend(source.unwrap_or(partition).to_le_bytes());
                }
            }
        }
        encode::packed(out, self.column_count as u64);
        out.extend(self.before_columns);
        out.extend(self.after_columns);
        out.extend(self.rows);
    }
}

#[cold]
fn no_rows(event_type: u8) -> BinlogError {
    let event = event_type::name(event_type);
    if event_type::is_old_rows(event_type) {
        return BinlogError::UnsupportedEvent {
            event,
            code: event_type,
            reason: "row format of MySQL 5.1 to 5.5; only version 2 (MySQL 5.6 and later) is read",
        };
    }
    BinlogError::Value { event, field: "event type", value: u64::from(event_type) }
}

#[cold]
fn parse_extra(kind: RowsKind, mut extra: Cursor<'_>) -> Result<Option<(u16, Option<u16>)>, BinlogError> {
    let mut partition = None;
    while !extra.is_empty() {
        match extra.u8("kind of extra information")? {
            EXTRA_NDB => {
                // The length byte counts itself and the format byte.
                let len = extra.u8("length of NDB's information")?;
                let Some(left) = usize::from(len).checked_sub(1) else {
                    return Err(extra.value("length of NDB's information", u64::from(len)));
                };
                extra.bytes(left, "NDB's information")?;
            }
            EXTRA_PARTITION => {
                let target = extra.u16("partition")?;
                let source = match kind {
                    RowsKind::Update | RowsKind::PartialUpdate => Some(extra.u16("source partition")?),
                    RowsKind::Write | RowsKind::Delete => None,
                };
                partition = Some((target, source));
            }
            // Its length is unknown, so nothing after it can be read.
            other => return Err(extra.value("kind of extra information", u64::from(other))),
        }
    }
    Ok(partition)
}

/// Header of an after image in a partial update.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PartialUpdateImage<'a> {
    /// A bit for each JSON column of the table, lowest first: the image holds differences instead of the document.
    /// `None` if that is so for no column.
    pub partial_columns: Option<&'a [u8]>,
    /// Length in bytes of this header; the image's null bits follow.
    pub len: usize,
}

impl<'a> PartialUpdateImage<'a> {
    /// Reads the header at the start of `image`. `json_columns` counts the table's JSON columns, present in the image
    /// or not.
    #[inline]
    pub fn parse(image: &'a [u8], json_columns: usize) -> Result<PartialUpdateImage<'a>, BinlogError> {
        let mut rest = Cursor::new("Update_rows_partial", image);
        let partial_columns = match rest.packed("value options")? {
            0 => None,
            1 => Some(rest.bytes(json_columns.div_ceil(8), "partial columns")?),
            other => return Err(rest.value("value options", other)),
        };
        Ok(PartialUpdateImage { partial_columns, len: image.len() - rest.len() })
    }

    /// True if this column, counted among the table's JSON columns, holds differences.
    #[inline]
    pub fn is_partial(&self, json_column: usize) -> bool {
        self.partial_columns
            .and_then(|bits| bits.get(json_column / 8))
            .is_some_and(|byte| byte >> (json_column % 8) & 1 != 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn round_trip_of_each_kind() {
        for kind in [RowsKind::Write, RowsKind::Update, RowsKind::Delete, RowsKind::PartialUpdate] {
            for partition in [None, Some((7, None)), Some((7, Some(9)))] {
                let partition = match (kind, partition) {
                    (RowsKind::Update | RowsKind::PartialUpdate, Some((to, None))) => Some((to, Some(to))),
                    (RowsKind::Write | RowsKind::Delete, Some((to, _))) => Some((to, None)),
                    _ => partition,
                };
                let event = RowsEvent {
                    kind,
                    table_id: 0x0102_0304_0506,
                    flags: row_flags::STMT_END | row_flags::USE_SQL_FOREIGN_KEY,
                    partition,
                    column_count: 300,
                    before_columns: if kind.has_before() { &[0xff; 38] } else { &[] },
                    after_columns: if kind.has_after() { &[0x0f; 38] } else { &[] },
                    rows: b"rows",
                };
                let mut body = Vec::new();
                event.encode_into(&mut body);
                assert_eq!(RowsEvent::parse(kind.event_type(), &body).unwrap(), event);
                for len in 0..body.len() - 4 {
                    assert!(RowsEvent::parse(kind.event_type(), &body[..len]).is_err());
                }
            }
        }
    }

    #[test]
    fn old_formats_are_named() {
        for code in 20..=25 {
            let error = RowsEvent::parse(code, &[]).unwrap_err();
            assert!(matches!(error, BinlogError::UnsupportedEvent { .. }), "{error}");
        }
        assert!(matches!(RowsEvent::parse(2, &[]), Err(BinlogError::Value { .. })));
    }

    #[test]
    fn extra_information() {
        // Flags and empty extra information of a real 9.7 event.
        let body = [1, 0, 0, 0, 0, 0, 0x11, 0, 2, 0, 1, 0xff];
        let event = RowsEvent::parse(30, &body).unwrap();
        assert_eq!((event.flags, event.partition, event.rows), (0x11, None, &[][..]));
        let with = |extra: &[u8]| {
            let mut body = vec![1, 0, 0, 0, 0, 0, 1, 0, extra.len() as u8 + 2, 0];
            body.extend(extra);
            body.extend([1, 0xff]);
            RowsEvent::parse(30, &body).map(|event| event.partition)
        };
        assert_eq!(with(&[0, 4, 0, 9, 9, 1, 3, 0]).unwrap(), Some((3, None)));
        assert!(with(&[0, 0]).is_err());
        assert!(with(&[9]).is_err());
        assert!(with(&[1, 3]).is_err());
    }

    #[test]
    fn partial_update_header() {
        let header = PartialUpdateImage::parse(&[1, 0b10, 0, 5], 2).unwrap();
        assert_eq!(header.len, 2);
        assert!(header.is_partial(1) && !header.is_partial(0) && !header.is_partial(30));
        let header = PartialUpdateImage::parse(&[0, 5], 2).unwrap();
        assert_eq!((header.len, header.is_partial(0)), (1, false));
        assert!(PartialUpdateImage::parse(&[2, 0], 2).is_err());
        assert!(PartialUpdateImage::parse(&[1], 2).is_err());
    }
}
