//! Result of a comparison, and its text.
//!
//! In: what `verify` and `rows` found. Out: lines for people. Never here: comparison of rows.

use std::fmt;

use base::GtidSet;
use observe::one_line;

/// Totals of one side of a table.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SideTotals {
    /// Number of rows, duplicates included.
    pub rows: u64,
    /// Bytes of their comparable images.
    pub bytes: u64,
    /// Number of chunks with rows.
    pub chunks: u64,
}

/// A column with different values, or of a row that exists on one side only.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ColumnDifference {
    /// Name of the column.
    pub column: String,
    /// Value on the source as text, truncated; None if the source has no such row.
    pub source: Option<String>,
    /// Value here as text, truncated; None if there is no such row here.
    pub here: Option<String>,
}

/// A row that differs between the sides.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RowDifference {
    /// Its key as text; empty for a table without a key.
    pub key: String,
    /// How many rows of this kind the source has more than we do.
    pub source_copies: u64,
    /// How many rows of this kind we have more than the source does.
    pub here_copies: u64,
    pub columns: Vec<ColumnDifference>,
}

/// Result for one table.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TableReport {
    /// Database of the table.
    pub db: String,
    /// Name of the table.
    pub table: String,
    /// Totals of the source.
    pub source: SideTotals,
    /// Totals of the other side.
    pub here: SideTotals,
    /// Number of chunks whose checksums differ.
    pub differing_chunks: u64,
    /// Why the table could not be compared, or that it exists on one side only. Counts as different.
    pub problem: Option<String>,
    /// Why the rows here are not known until the table is copied again. Such a table is neither equal nor different.
    pub quarantined: Option<String>,
    /// Notes for the operator.
    pub notes: Vec<String>,
    /// Number of rows that only the source has, among those examined.
    pub rows_only_source: u64,
    /// Number of rows that only we have.
    pub rows_only_here: u64,
    /// Number of rows on both sides with different values.
    pub rows_different: u64,
    /// True if some differing chunks were not examined row by row; the three counts are then lower bounds.
    pub chunks_left_out: bool,
    /// The first differing rows, in key order.
    pub shown: Vec<RowDifference>,
}

impl TableReport {
    /// Report of a table that was not compared.
    pub(crate) fn problem(db: &str, table: &str, problem: impl Into<String>) -> TableReport {
        TableReport { db: db.into(), table: table.into(), problem: Some(problem.into()), ..TableReport::default() }
    }

    /// Report of a table that waits for its copy.
    pub(crate) fn quarantined(db: &str, table: &str, why: &str) -> TableReport {
        TableReport { db: db.into(), table: table.into(), quarantined: Some(why.into()), ..TableReport::default() }
    }

    /// True if both sides have the same rows.
    #[must_use]
    pub fn equal(&self) -> bool {
        self.quarantined.is_none() && self.problem.is_none() && self.differing_chunks == 0
    }

    /// Number of rows known to differ.
    #[must_use]
    pub fn rows_differing(&self) -> u64 {
        self.rows_only_source + self.rows_only_here + self.rows_different
    }
}

impl fmt::Display for TableReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let verdict = match (self.equal(), &self.quarantined) {
            (true, _) => "OK",
            (false, Some(_)) => "UNKNOWN",
            (false, None) => "DIFFERENT",
        };
        // A name with a line end would write a verdict of its own.
        write!(f, "{verdict:<9} {}.{}", one_line(&self.db), one_line(&self.table))?;
        if let Some(why) = &self.quarantined {
            write!(f, "  is being copied again: {}", one_line(why))?;
        } else if let Some(problem) = &self.problem {
            write!(f, "  {}", one_line(problem))?;
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
            write!(f, "\n    note: {}", one_line(note))?;
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
            write!(f, "\n    {}", one_line(&row.to_string()))?;
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

/// Result of a whole comparison.
#[derive(Clone, Debug, Default)]
pub struct VerifyReport {
    /// GTID set at which both sides were compared, if the servers have GTIDs.
    pub executed: Option<GtidSet>,
    /// How long writers on the source were blocked, ms; None if no lock was taken.
    pub lock_ms: Option<u64>,
    /// One report per table, ordered by name.
    pub tables: Vec<TableReport>,
    /// Prepared XA transactions on the source, whose rows are on neither side.
    pub prepared_xa: Vec<String>,
    /// Notes for the operator.
    pub notes: Vec<String>,
}

impl VerifyReport {
    /// True if every table is equal on both sides.
    #[must_use]
    pub fn equal(&self) -> bool {
        self.tables.iter().all(TableReport::equal)
    }

    /// Number of tables that differ.
    #[must_use]
    pub fn different(&self) -> usize {
        self.tables.iter().filter(|table| !table.equal() && table.quarantined.is_none()).count()
    }

    /// Number of tables that were not compared, because they wait for their copy.
    #[must_use]
    pub fn unknown(&self) -> usize {
        self.tables.iter().filter(|table| table.quarantined.is_some()).count()
    }
}

/// Last line of the report.
impl fmt::Display for VerifyReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (mut rows, mut bytes) = (0, 0);
        for table in &self.tables {
            rows += table.source.rows;
            bytes += table.source.bytes;
        }
        let (tables, bytes) = (self.tables.len(), observe::bytes_text(bytes));
        match (self.different(), self.unknown()) {
            (0, 0) => write!(f, "EQUAL: {tables} tables, {rows} rows, {bytes}"),
            (0, unknown) => {
                let compared = tables - unknown;
                write!(f, "UNKNOWN: {unknown} of {tables} tables; {compared} are equal, {rows} rows, {bytes}")
            }
            (different, unknown) => {
                write!(f, "DIFFERENT: {different} of {tables} tables; {rows} rows, {bytes} in source")?;
                if unknown > 0 { write!(f, "; {unknown} unknown") } else { Ok(()) }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_write_no_verdict_of_their_own() {
        let report = TableReport {
            db: "d".into(),
            table: "t\nEQUAL: 1 tables".into(),
            problem: Some("a\nEQUAL".into()),
            notes: vec!["b\r\nEQUAL \u{1b}[2J".into()],
            ..TableReport::default()
        };
        let text = report.to_string();
        assert!(text.lines().all(|line| !line.starts_with("EQUAL")) && text.lines().count() == 2, "{text}");
        assert!(!text.contains('\u{1b}'), "{text:?}");
    }
}
