//! Dump of a snapshot's rows as SQL, or as the text that `mysql --batch --raw` prints for `SELECT *`.
//!
//! In: a pinned snapshot. Out: the statements that make its databases and tables, and rows in key order
//! (`rows_in_order`), as one stream. Never here: a definition that is not known in all of its parts, whose table is
//! left out and named; files (`dump_parts`).

use std::io::Write;
use std::sync::Arc;

use catalog::{Catalog, EngineRows, SourceZones, TableDef, show_create_database, show_create_table_in};
use source::TableFilter;
use store::{Snapshot, Store};
use values::text::{self, BinaryForm, FloatForm, TextOptions};
use values::{ValueError, Zone, type_code};

use crate::client_split::{READ_AS_UTF8, Reading, comment_safe, hazard, use_statement};
use crate::error::CompareError;
use crate::row_source::EachRow;
use crate::rows_in_order::{Part, each_in_order};
use crate::shape::{Shape, column_bytes, quoted};

/// Length at which a statement is ended, bytes. Far below the mysql client's limit of 16 MiB, which leaves room for the
/// row that exceeds it.
const STATEMENT_BYTES: usize = 1 << 20;
/// Approximate size of writes to the output, bytes.
const OUTPUT_BYTES: usize = 64 << 10;

/// Format of the rows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum DumpFormat {
    #[default]
    Sql,
    /// Tab-separated, with a header line of column names.
    Tab,
}

/// Compression of a dump.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum Compression {
    /// zstd at its default level, with a checksum of the content.
    Zstd,
}

/// Options of a dump.
#[derive(Clone, Debug, Default)]
pub struct DumpOptions {
    /// Which tables to dump.
    pub tables: TableFilter,
    /// Which of them to leave out; with no name, none.
    pub ignored: TableFilter,
    /// Format of the rows.
    pub format: DumpFormat,
    /// Tab format: print non-text bytes as `0x…`, like the mysql client's option of this name. SQL format always does.
    pub binary_as_hex: bool,
    /// Tab format: include invisible columns, which `SELECT *` omits. SQL format always does.
    pub all_columns: bool,
    /// SQL format: rows only, for tables that are there.
    pub no_create_info: bool,
    /// Compression of the output, or of each file.
    pub compression: Option<Compression>,
    /// Time zones of the source, for what was defined in them.
    pub zones: SourceZones,
}

/// Result of a dump.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DumpReport {
    pub tables: u64,
    /// Number of rows, duplicates included.
    pub rows: u64,
    /// Number of bytes written.
    pub bytes: u64,
    /// Tables whose statements cannot be written, each with the reason.
    pub left_out: Vec<String>,
}

/// The tables of a dump.
pub(crate) struct Chosen<'a> {
    pub(crate) tables: Vec<&'a Arc<TableDef>>,
    /// As in [`DumpReport`].
    pub(crate) left_out: Vec<String>,
}

/// What a head says that the statements behind it are.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Holds {
    All,
    Rows,
    Tables,
}

/// Writes the rows of a snapshot.
///
/// # Errors
/// If a table does not exist, a value cannot be printed (the error names its column), or the output cannot be written.
pub fn dump(
    snapshot: &Snapshot,
    store: &Arc<Store>,
    options: &DumpOptions,
    out: &mut dyn Write,
) -> Result<DumpReport, CompareError> {
    compressed(options.compression, out, |out| dump_plain(snapshot, store, options, out))
}

/// Calls `write` with a writer that compresses into `out`, and completes what it wrote.
pub(crate) fn compressed<T>(
    compression: Option<Compression>,
    out: &mut dyn Write,
    write: impl FnOnce(&mut dyn Write) -> Result<T, CompareError>,
) -> Result<T, CompareError> {
    let Some(Compression::Zstd) = compression else { return write(out) };
    let mut encoder = zstd::stream::write::Encoder::new(&mut *out, zstd::DEFAULT_COMPRESSION_LEVEL)?;
    encoder.include_checksum(true)?;
    let written = write(&mut encoder)?;
    // Without its end, what was written is seen to be incomplete.
    encoder.finish()?;
    out.flush()?;
    Ok(written)
}

fn dump_plain(
    snapshot: &Snapshot,
    store: &Arc<Store>,
    options: &DumpOptions,
    out: &mut dyn Write,
) -> Result<DumpReport, CompareError> {
    let catalog = snapshot.catalog();
    let Chosen { tables, left_out } = chosen(catalog, options)?;
    let mut dumper = Dumper::new(out);
    if options.format == DumpFormat::Sql {
        dumper.sql_head(snapshot, if options.creates() { Holds::All } else { Holds::Rows });
        dumper.left_out(&left_out);
    }
    if options.creates() {
        dumper.creates(catalog, &tables, options)?;
    }
    for table in &tables {
        if let Some(what) = without_rows(table) {
            match options.format {
                DumpFormat::Tab if tables.len() == 1 && table.engine_of().rows != EngineRows::Nowhere => {
                    return Err(CompareError::NoRows { what });
                }
                DumpFormat::Tab if tables.len() == 1 => {}
                DumpFormat::Tab | DumpFormat::Sql => dumper.comment(&what),
            }
            dumper.report.tables += 1;
            continue;
        }
        if options.format == DumpFormat::Tab && tables.len() > 1 {
            dumper.comment(&format!("{}.{}", table.db, table.name));
        }
        dumper.table(snapshot, store, table, &Part::All, options)?;
        dumper.report.tables += 1;
    }
    dumper.complete(options.format)
}

impl DumpOptions {
    /// True if the tables are made, too.
    pub(crate) fn creates(&self) -> bool {
        self.format == DumpFormat::Sql && !self.no_create_info
    }
}

/// The tables to dump, by name. What of them cannot be written is known before anything is.
pub(crate) fn chosen<'a>(catalog: &'a Catalog, options: &DumpOptions) -> Result<Chosen<'a>, CompareError> {
    let lower = catalog.lower_case_table_names();
    let all = catalog.tables().map(|table| (table.db.as_str(), table.name.as_str()));
    if let Some(name) = options.tables.unmatched(all.collect::<Vec<_>>().iter().copied(), lower) {
        return Err(CompareError::NoSuchTable(name));
    }
    let ignored =
        |table: &TableDef| !options.ignored.is_all() && options.ignored.matches(&table.db, &table.name, lower);
    let mut tables: Vec<&Arc<TableDef>> = catalog
        .tables()
        .filter(|table| options.tables.matches(&table.db, &table.name, lower) && !ignored(table))
        .collect();
    tables.sort_by(|a, b| (&a.db, &a.name).cmp(&(&b.db, &b.name)));
    let mut left_out = Vec::new();
    tables.retain(|table| match statements(catalog, table, options) {
        Ok(()) => true,
        Err(error) => {
            left_out.push(error.to_string());
            false
        }
    });
    Ok(Chosen { tables, left_out })
}

/// Whether the statements about a table can be written.
fn statements(catalog: &Catalog, table: &TableDef, options: &DumpOptions) -> Result<(), CompareError> {
    if options.creates() {
        sent_whole(table, &create_database(catalog, table))?;
        sent_whole(table, &create_table(table, options)?)?;
    }
    match options.format {
        DumpFormat::Sql => sent_whole(table, &insert_of(table, &Shape::of(table))),
        DumpFormat::Tab => Ok(()),
    }
}

fn create_database(catalog: &Catalog, table: &TableDef) -> String {
    show_create_database(&table.db, catalog.database(&table.db).and_then(|(_, collation)| collation), true)
}

fn create_table(table: &TableDef, options: &DumpOptions) -> Result<String, CompareError> {
    show_create_table_in(table, &Zone::UTC, &options.zones).map_err(|what| CompareError::Definition {
        db: table.db.clone(),
        table: table.name.clone(),
        what: what.0,
    })
}

/// Columns that rows are loaded into: generated ones cannot be assigned.
fn assigned(table: &TableDef) -> Vec<usize> {
    positions(table, |column| column.generated.is_none())
}

/// The statement before the rows.
fn insert_of(table: &TableDef, shape: &Shape) -> String {
    let names: Vec<String> =
        assigned(table).iter().filter_map(|at| shape.names.get(*at)).map(|name| quoted(name)).collect();
    format!("INSERT INTO {} ({}) VALUES\n", shape.quoted_name(), names.join(","))
}

/// Why a table has no rows of its own, with its name; None if it has.
pub(crate) fn without_rows(table: &TableDef) -> Option<String> {
    let why = table.engine_of().why_without_rows()?;
    Some(format!("{}.{}: engine {} {why}", table.db, table.name, table.engine))
}

/// Passes the rows of a table to a callback, in order: image and number of equal rows.
type Rows<'a> = &'a dyn Fn(EachRow<'_>) -> Result<(), CompareError>;

/// Writes one stream of statements, or of text.
pub(crate) struct Dumper<'a> {
    out: &'a mut dyn Write,
    buffer: Vec<u8>,
    pub(crate) report: DumpReport,
}

/// Writes one value of the column at this position.
type WriteValue<'a> = &'a dyn Fn(usize, &values::ColumnType, &[u8], &mut Vec<u8>) -> Result<(), ValueError>;

impl<'a> Dumper<'a> {
    pub(crate) fn new(out: &'a mut dyn Write) -> Dumper<'a> {
        Dumper { out, buffer: Vec::new(), report: DumpReport::default() }
    }

    pub(crate) fn line(&mut self, text: &str) {
        self.buffer.extend_from_slice(text.as_bytes());
        self.buffer.push(b'\n');
    }

    fn put(&mut self) -> Result<(), CompareError> {
        self.out.write_all(&self.buffer)?;
        self.report.bytes += self.buffer.len() as u64;
        self.buffer.clear();
        Ok(())
    }

    fn put_if_full(&mut self) -> Result<(), CompareError> {
        if self.buffer.len() >= OUTPUT_BYTES { self.put() } else { Ok(()) }
    }

    /// Writes what is left. Statements end with a line that a broken dump lacks.
    pub(crate) fn complete(mut self, format: DumpFormat) -> Result<DumpReport, CompareError> {
        if format == DumpFormat::Sql {
            let DumpReport { tables, rows, .. } = self.report;
            self.line(&format!("\n-- Dump completed: {tables} tables, {rows} rows"));
        }
        self.put()?;
        self.out.flush()?;
        Ok(self.report)
    }

    pub(crate) fn comment(&mut self, text: &str) {
        self.line(&format!("-- {}", comment_safe(text)));
    }

    /// Names the tables that are left out, in comments.
    pub(crate) fn left_out(&mut self, tables: &[String]) {
        for what in tables {
            self.comment(&format!("LEFT OUT: {what}"));
        }
        self.report.left_out = tables.to_vec();
    }

    /// Rows of a table in a part of its keys.
    pub(crate) fn table(
        &mut self,
        snapshot: &Snapshot,
        store: &Arc<Store>,
        table: &TableDef,
        part: &Part,
        options: &DumpOptions,
    ) -> Result<(), CompareError> {
        let shape = Shape::of(table);
        let rows: Rows<'_> = &|each| each_in_order(store, snapshot, table, &shape, part, each);
        match options.format {
            DumpFormat::Sql => self.sql(table, &shape, rows),
            DumpFormat::Tab => self.tab(table, &shape, rows, options),
        }
    }

    /// Databases and tables, each as the source would show it.
    pub(crate) fn creates(
        &mut self,
        catalog: &Catalog,
        tables: &[&Arc<TableDef>],
        options: &DumpOptions,
    ) -> Result<(), CompareError> {
        let mut db = "";
        for table in tables {
            if table.db != db {
                db = &table.db;
                self.statement(table, &create_database(catalog, table))?;
                self.line(&use_statement(db));
            }
            self.statement(table, &create_table(table, options)?)?;
            self.put_if_full()?;
        }
        Ok(())
    }

    /// A statement about a table, which every client must send whole.
    fn statement(&mut self, table: &TableDef, text: &str) -> Result<(), CompareError> {
        sent_whole(table, text)?;
        self.line(&format!("\n{text};"));
        Ok(())
    }

    pub(crate) fn sql_head(&mut self, snapshot: &Snapshot, holds: Holds) {
        let set = snapshot.executed().to_string().replace('\n', "");
        self.line(match holds {
            Holds::All => {
                "-- Slipstream dump: databases, tables and rows. Views, programs and accounts: dump --definitions."
            }
            Holds::Rows => "-- Slipstream dump: rows only. The tables must be there: this dump holds no CREATE TABLE.",
            Holds::Tables => "-- Slipstream dump: databases and tables. Their rows are in files of their own.",
        });
        self.line("-- JSON goes through text: its DATETIME, DECIMAL and BLOB scalars load as strings and doubles.");
        self.line(&format!("-- GTID set: {set}"));
        self.line(READ_AS_UTF8);
        self.line("SET time_zone = '+00:00';");
        // Load stored values unchanged: zeros, dates that are none, ENUM's error value, rows before their parents.
        let mode = "NO_AUTO_VALUE_ON_ZERO,ALLOW_INVALID_DATES";
        self.line(&format!("SET sql_mode = '{mode}', foreign_key_checks = 0, unique_checks = 0;"));
        if holds != Holds::Rows {
            // A generated primary key is a column like any other here.
            self.line("/*!80030 SET sql_generate_invisible_primary_key = 0 */;");
        }
    }

    fn sql(&mut self, table: &TableDef, shape: &Shape, rows: Rows<'_>) -> Result<(), CompareError> {
        self.line("");
        self.comment(&format!("{}.{}", table.db, table.name));
        let (columns, insert) = (assigned(table), insert_of(table, shape));
        sent_whole(table, &insert)?;
        let options = TextOptions { binary: BinaryForm::Hex, float: FloatForm::Exact };
        let write: WriteValue<'_> = &|_, ty, stored, out| match ty.code {
            // ENUM's error value, as a number because its name '' may also be a member's.
            type_code::ENUM if stored.iter().all(|byte| *byte == 0) => {
                out.push(b'0');
                Ok(())
            }
            _ => text::write_sql(ty, stored, options, out),
        };
        let mut statement_len = 0usize;
        let (mut offsets, mut line) = (Vec::new(), Vec::new());
        rows(&mut |image, copies| {
            line.clear();
            line.push(b'(');
            write_row(shape, &columns, image, &mut offsets, b',', write, &mut line)?;
            line.push(b')');
            for _ in 0..copies {
                let start = if statement_len == 0 { insert.as_bytes() } else { b",\n" };
                self.buffer.extend_from_slice(start);
                self.buffer.extend_from_slice(&line);
                statement_len += start.len() + line.len();
                if statement_len >= STATEMENT_BYTES {
                    self.line(";");
                    statement_len = 0;
                }
                self.report.rows += 1;
                self.put_if_full()?;
            }
            Ok(())
        })?;
        if statement_len > 0 {
            self.line(";");
        }
        Ok(())
    }

    fn tab(
        &mut self,
        table: &TableDef,
        shape: &Shape,
        rows: Rows<'_>,
        options: &DumpOptions,
    ) -> Result<(), CompareError> {
        let mut columns = positions(table, |column| options.all_columns || !column.invisible);
        columns.retain(|column| !shape.not_known.contains(column));
        let names: Vec<&str> = columns.iter().filter_map(|c| shape.names.get(*c)).map(String::as_str).collect();
        let head = names.join("\t");
        // The mysql client prints nothing, not even a header, for an empty result.
        let mut any = false;
        let binary = if options.binary_as_hex { BinaryForm::Hex } else { BinaryForm::Raw };
        let options = TextOptions { binary, float: FloatForm::AsServer };
        let write: WriteValue<'_> = &|column, ty, stored, out| {
            let start = out.len();
            let display = table.columns.get(column).map(|column| column.display).unwrap_or_default();
            match display.decimals.zip(float_value(ty, stored)) {
                Some((decimals, value)) => out.extend_from_slice(format!("{value:.0$}", decimals.into()).as_bytes()),
                None => text::write_text(ty, stored, options, out)?,
            }
            let missing = usize::from(display.zerofill_width).saturating_sub(out.len().saturating_sub(start));
            out.splice(start..start, std::iter::repeat_n(b'0', missing));
            Ok(())
        };
        let (mut offsets, mut line) = (Vec::new(), Vec::new());
        rows(&mut |image, copies| {
            if !std::mem::replace(&mut any, true) {
                self.line(&head);
            }
            line.clear();
            write_row(shape, &columns, image, &mut offsets, b'\t', write, &mut line)?;
            line.push(b'\n');
            for _ in 0..copies {
                self.buffer.extend_from_slice(&line);
                self.report.rows += 1;
                self.put_if_full()?;
            }
            Ok(())
        })
    }
}

/// Value of a FLOAT or DOUBLE; None for other types.
fn float_value(ty: &values::ColumnType, stored: &[u8]) -> Option<f64> {
    match ty.code {
        type_code::FLOAT => stored.try_into().ok().map(|bytes| f64::from(f32::from_le_bytes(bytes))),
        type_code::DOUBLE => stored.try_into().ok().map(f64::from_le_bytes),
        _ => None,
    }
}

fn sent_whole(table: &TableDef, text: &str) -> Result<(), CompareError> {
    match hazard(text, Reading::of_own()) {
        None => Ok(()),
        Some(what) => Err(CompareError::Split { db: table.db.clone(), table: table.name.clone(), what }),
    }
}

fn positions(table: &TableDef, wanted: impl Fn(&catalog::Column) -> bool) -> Vec<usize> {
    table.columns.iter().enumerate().filter(|(_, column)| wanted(column)).map(|(position, _)| position).collect()
}

fn write_row(
    shape: &Shape,
    columns: &[usize],
    image: &[u8],
    offsets: &mut Vec<(u32, u32)>,
    separator: u8,
    write: WriteValue<'_>,
    out: &mut Vec<u8>,
) -> Result<(), CompareError> {
    shape.layout.walk_offsets(image, offsets).map_err(|error| shape.damaged(error))?;
    for (index, column) in columns.iter().enumerate() {
        if index > 0 {
            out.push(separator);
        }
        let Some(ty) = shape.types.get(*column) else { continue };
        match column_bytes(image, offsets, *column) {
            None => out.extend_from_slice(text::NULL),
            Some(stored) => write(*column, ty, stored, out).map_err(|error| CompareError::Value {
                db: shape.db.clone(),
                table: shape.table.clone(),
                column: shape.names.get(*column).cloned().unwrap_or_default(),
                error,
            })?,
        }
    }
    Ok(())
}

#[cfg(test)]
#[path = "dump_tests.rs"]
mod tests;
