//! Tables, their row images and their row changes.

use binlog::writer::BinlogWriter;
use binlog::{RowsEvent, RowsKind, TableMapEvent, row_flags};

/// Bytes of a value in a row image; None for NULL.
pub type Stored = Option<Vec<u8>>;
/// Values of all columns.
pub type Row = Vec<Stored>;
/// A column's type code, and its metadata in a table map.
pub type Type = (u8, &'static [u8]);

/// INT.
pub const INT: Type = (3, &[]);
/// BIGINT.
pub const BIG: Type = (8, &[]);
/// DOUBLE.
pub const DOUBLE: Type = (5, &[8]);
/// VARCHAR(20) in utf8mb4.
pub const VARCHAR: Type = (15, &[80, 0]);
/// TEXT.
pub const TEXT: Type = (252, &[2]);
/// JSON.
pub const JSON: Type = (245, &[4]);

/// NULL in any column.
pub const NULL: Stored = None;

/// A value of [`INT`].
pub fn int(n: i32) -> Stored {
    Some(n.to_le_bytes().to_vec())
}

/// A value of [`BIG`].
pub fn big(n: i64) -> Stored {
    Some(n.to_le_bytes().to_vec())
}

/// A value of [`DOUBLE`].
pub fn double(n: f64) -> Stored {
    Some(n.to_le_bytes().to_vec())
}

/// A value of [`VARCHAR`].
pub fn varchar(text: &str) -> Stored {
    Some([&[text.len() as u8], text.as_bytes()].concat())
}

/// A value of [`TEXT`].
pub fn text(text: &str) -> Stored {
    Some([&(text.len() as u16).to_le_bytes(), text.as_bytes()].concat())
}

/// A bitmap, lowest bit first.
pub fn bits(all: &[bool]) -> Vec<u8> {
    let mut bits = vec![0u8; all.len().div_ceil(8)];
    for at in (0..all.len()).filter(|at| all[*at]) {
        bits[at / 8] |= 1 << (at % 8);
    }
    bits
}

/// The image of a row's present columns: null bits, then values.
pub fn image(row: &[Stored], present: &[bool]) -> Vec<u8> {
    let there: Vec<&Stored> =
        row.iter().zip(present).filter(|(_, present)| **present).map(|(value, _)| value).collect();
    let mut image = bits(&there.iter().map(|value| value.is_none()).collect::<Vec<_>>());
    there.into_iter().flatten().for_each(|value| image.extend(value));
    image
}

/// The image of all columns.
pub fn full_image(row: &[Stored]) -> Vec<u8> {
    image(row, &vec![true; row.len()])
}

/// A table as its table maps describe it.
#[derive(Clone, Debug)]
pub struct Table {
    /// Number in table maps and rows events.
    pub id: u64,
    /// Database.
    pub db: String,
    /// Name in the database.
    pub name: String,
    /// Type of each column.
    pub types: Vec<Type>,
    /// Whether each column may be NULL.
    pub nullable: Vec<bool>,
}

impl Table {
    /// A table of database `d`, or of the one before a point in its name. No column may be NULL.
    pub fn new(id: u64, name: &str, types: &[Type]) -> Table {
        let (db, name) = name.split_once('.').unwrap_or(("d", name));
        let nullable = vec![false; types.len()];
        Table { id, db: db.into(), name: name.into(), types: types.to_vec(), nullable }
    }

    /// Writes the table map of the rows that follow.
    pub fn map(&self, writer: &mut BinlogWriter) {
        writer.table_map(&TableMapEvent {
            table_id: self.id,
            flags: 1,
            db: self.db.as_bytes(),
            table: self.name.as_bytes(),
            column_types: &self.types.iter().map(|(code, _)| *code).collect::<Vec<_>>(),
            metadata: &self.types.iter().flat_map(|(_, metadata)| metadata.to_vec()).collect::<Vec<_>>(),
            null_bitmap: &bits(&self.nullable),
            optional: &[],
        });
    }

    /// Writes the last rows event of a statement, with images of all columns.
    pub fn rows(&self, writer: &mut BinlogWriter, kind: RowsKind, images: &[u8]) {
        let all = vec![true; self.types.len()];
        self.rows_of(writer, kind, [&all, &all], row_flags::STMT_END, images);
    }

    /// Writes a rows event whose before and after images have these columns.
    pub fn rows_of(
        &self,
        writer: &mut BinlogWriter,
        kind: RowsKind,
        [before, after]: [&[bool]; 2],
        flags: u16,
        images: &[u8],
    ) {
        writer.rows(&RowsEvent {
            kind,
            table_id: self.id,
            flags,
            partition: None,
            column_count: self.types.len(),
            before_columns: &if kind.has_before() { bits(before) } else { Vec::new() },
            after_columns: &if kind.has_after() { bits(after) } else { Vec::new() },
            rows: images,
        });
    }
}

/// Row changes in one rows event.
#[derive(Clone, Debug)]
pub struct Change {
    /// The table's name, as given to [`super::Author::table`].
    pub table: &'static str,
    /// Each row before and after; all changes are of one kind.
    pub rows: Vec<(Option<Row>, Option<Row>)>,
    /// Columns of the before images; None for all.
    pub before: Option<Vec<bool>>,
    /// Columns of the after images; None for all.
    pub after: Option<Vec<bool>>,
    /// True if the only JSON column is logged as differences, of which there are none.
    pub partial: bool,
}

/// Inserts rows.
pub fn inserts(table: &'static str, rows: impl IntoIterator<Item = Row>) -> Change {
    let rows = rows.into_iter().map(|row| (None, Some(row))).collect();
    Change { table, rows, before: None, after: None, partial: false }
}

/// Inserts a row.
pub fn insert(table: &'static str, row: &[Stored]) -> Change {
    inserts(table, [row.to_vec()])
}

/// Updates a row.
pub fn update(table: &'static str, old: &[Stored], new: &[Stored]) -> Change {
    Change { rows: vec![(Some(old.to_vec()), Some(new.to_vec()))], ..inserts(table, []) }
}

/// Deletes a row.
pub fn delete(table: &'static str, row: &[Stored]) -> Change {
    Change { rows: vec![(Some(row.to_vec()), None)], ..inserts(table, []) }
}

impl Change {
    /// Reduces the images to binlog_row_image=MINIMAL: these key columns before, the changed columns after.
    pub fn minimal(mut self, key: &[usize]) -> Change {
        let changed = |at: usize| {
            self.rows
                .iter()
                .any(|(old, new)| old.as_ref().zip(new.as_ref()).is_none_or(|(old, new)| old[at] != new[at]))
        };
        let count = self.rows.iter().find_map(|(old, new)| Some(old.as_ref().or(new.as_ref())?.len())).unwrap_or(0);
        self.after = Some((0..count).map(changed).collect());
        self.before = Some((0..count).map(|at| key.contains(&at)).collect());
        self
    }

    /// Writes the change's table map and rows event.
    pub fn write(&self, writer: &mut BinlogWriter, table: &Table, flags: u16) {
        let all = vec![true; table.types.len()];
        let (before, after) = (self.before.as_ref().unwrap_or(&all), self.after.as_ref().unwrap_or(&all));
        let kind = match self.rows.first() {
            None | Some((None, _)) => RowsKind::Write,
            Some((_, None)) => RowsKind::Delete,
            Some(_) if self.partial => RowsKind::PartialUpdate,
            Some(_) => RowsKind::Update,
        };
        let mut images = Vec::new();
        for (old, new) in &self.rows {
            images.extend(old.as_ref().map_or_else(Vec::new, |old| image(old, before)));
            if self.partial {
                // The row has values in differences, and its JSON column is one.
                images.extend([1, 1]);
            }
            images.extend(new.as_ref().map_or_else(Vec::new, |new| image(new, after)));
        }
        table.map(writer);
        table.rows_of(writer, kind, [before, after], flags, &images);
    }
}
