//! What a comparison found, and how it is printed.

use std::fmt;

use base::GtidSet;

/// One side of a table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SideTotals {
    /// Rows, copies counted.
    pub rows: u64,
    /// Bytes of their comparable images.
    pub bytes: u64,
    /// Chunks that hold rows.
    pub chunks: u64,
}

/// A column whose values differ, or of a row that is on one side only.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ColumnDifference {
    /// Its name.
    pub column: String,
    /// The source's value as text, cut; None where the source has no such row.
    pub source: Option<String>,
    /// The value here.
    pub here: Option<String>,
}

/// A row that is not the same on both sides.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RowDifference {
    /// Its key as text; empty in a table without one.
    pub key: String,
    /// How many rows the source has more than here of this kind.
    pub source_copies: u64,
    /// How many rows are here more than in the source.
    pub here_copies: u64,
    /// Values.
    pub columns: Vec<ColumnDifference>,
}

/// What was found of one table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TableReport {
    /// Database.
    pub db: String,
    /// Table.
    pub table: String,
    /// The source's side.
    pub source: SideTotals,
    /// The other side.
    pub here: SideTotals,
    /// Chunks whose checksums differ.
    pub differing_chunks: u64,
    /// Why the table could not be compared, or that it is on one side only: counts as different.
    pub problem: Option<String>,
    /// What else is worth knowing.
    pub notes: Vec<String>,
    /// Rows that only the source has (among those looked at).
    pub rows_only_source: u64,
    /// Rows that are only here.
    pub rows_only_here: u64,
    /// Rows that are on both sides with different values.
    pub rows_different: u64,
    /// Some differing chunks were not looked at row by row: the three counts are lower bounds.
    pub chunks_left_out: bool,
    /// The first differing rows by key.
    pub shown: Vec<RowDifference>,
}

impl TableReport {
    /// A table that was not compared.
    pub(crate) fn problem(db: &str, table: &str, problem: impl Into<String>) -> TableReport {
        TableReport { db: db.into(), table: table.into(), problem: Some(problem.into()), ..TableReport::default() }
    }

    /// Whether both sides hold the same rows.
    #[must_use]
    pub fn equal(&self) -> bool {
        self.problem.is_none() && self.differing_chunks == 0
    }

    /// Rows known to differ.
    #[must_use]
    pub fn rows_differing(&self) -> u64 {
        self.rows_only_source + self.rows_only_here + self.rows_different
    }
}

impl fmt::Display for TableReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let verdict = if self.equal() { "OK" } else { "DIFFERENT" };
        write!(f, "{verdict:<9} {}.{}", self.db, self.table)?;
        if let Some(problem) = &self.problem {
            write!(f, "  {problem}")?;
        } else {
            let (source, here) = (&self.source, &self.here);
            write!(
                f,
                "  rows {} / {}  bytes {} / {}  chunks {} / {}",
                source.rows, here.rows, source.bytes, here.bytes, source.chunks, here.chunks
            )?;
            if self.differing_chunks > 0 {
                write!(f, "  differing {}", self.differing_chunks)?;
            }
        }
        for note in &self.notes {
            write!(f, "\n    note: {note}")?;
        }
        if self.rows_differing() > 0 {
            let least = if self.chunks_left_out { "at least " } else { "" };
            write!(
                f,
                "\n    {least}{} rows only in source, {} only here, {} with different values",
                self.rows_only_source, self.rows_only_here, self.rows_different
            )?;
        }
        for row in &self.shown {
            write!(f, "\n    {row}")?;
        }
        if self.shown.len() < self.rows_differing() as usize && !self.shown.is_empty() {
            write!(f, "\n    (the first {} rows are shown)", self.shown.len())?;
        }
        Ok(())
    }
}

impl fmt::Display for RowDifference {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let copies = |count: u64| if count == 1 { String::new() } else { format!(" ({count} copies)") };
        match (self.source_copies, self.here_copies) {
            (_, 0) => write!(f, "only in source{}", copies(self.source_copies))?,
            (0, _) => write!(f, "only here{}", copies(self.here_copies))?,
            (1, 1) => write!(f, "different")?,
            (source, here) => write!(f, "different ({source} copies in source, {here} here)")?,
        }
        let both = self.source_copies > 0 && self.here_copies > 0;
        if both && !self.key.is_empty() {
            write!(f, "  {}", self.key)?;
        }
        f.write_str(":")?;
        for (index, column) in self.columns.iter().enumerate() {
            f.write_str(if index == 0 { " " } else { ", " })?;
            match (&column.source, &column.here) {
                (Some(source), Some(here)) => write!(f, "{} source {source} here {here}", column.column)?,
                (Some(one), None) | (None, Some(one)) => write!(f, "{}={one}", column.column)?,
                (None, None) => {}
            }
        }
        Ok(())
    }
}

/// What a whole comparison found.
#[derive(Clone, Debug, Default)]
pub struct VerifyReport {
    /// The set of transactions both sides were compared at, where servers have one.
    pub executed: Option<GtidSet>,
    /// How long writers were held off on the source, milliseconds; None where no lock was taken.
    pub lock_ms: Option<u64>,
    /// Every table, by name.
    pub tables: Vec<TableReport>,
    /// Prepared XA transactions on the source; their rows are on neither side.
    pub prepared_xa: Vec<String>,
    /// What else is worth knowing.
    pub notes: Vec<String>,
}

impl VerifyReport {
    /// Whether every table is the same on both sides.
    #[must_use]
    pub fn equal(&self) -> bool {
        self.tables.iter().all(TableReport::equal)
    }

    /// Tables that differ.
    #[must_use]
    pub fn different(&self) -> usize {
        self.tables.iter().filter(|table| !table.equal()).count()
    }
}

/// The last line.
impl fmt::Display for VerifyReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (mut rows, mut bytes) = (0, 0);
        for table in &self.tables {
            rows += table.source.rows;
            bytes += table.source.bytes;
        }
        let tables = self.tables.len();
        if self.equal() {
            write!(f, "EQUAL: {tables} tables, {rows} rows, {bytes} bytes")
        } else {
            write!(f, "DIFFERENT: {} of {tables} tables; {rows} rows, {bytes} bytes in source", self.different())
        }
    }
}
