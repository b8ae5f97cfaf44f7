//! Progress of a copy: counters that reading threads update and anybody may read, and their text.
//!
//! In: rows and bytes handed to the sink. Out: totals, estimates, lines for people. Never here: a lock; values may be
//! slightly out of step with each other.

use std::fmt::Write as _;
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU8, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::plan::CopyPlan;

const BAR_CHARS: usize = 20;

/// State of a table's copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TableState {
    /// Not started.
    Waiting,
    Copying,
    /// The sink has all rows.
    Done,
    /// Not copied ([`crate::Unsettled::LeaveOut`]).
    LeftOut,
}

/// Counters of one table.
#[derive(Debug)]
pub struct TableProgress {
    /// Database of the table, by its name on this replica.
    pub db: String,
    /// Name of the table.
    pub table: String,
    /// Rows, as estimated by the source's statistics.
    pub rows_estimated: u64,
    /// Bytes, as estimated by the source's statistics.
    pub bytes_estimated: u64,
    rows: AtomicU64,
    bytes: AtomicU64,
    state: AtomicU8,
}

impl TableProgress {
    /// Number of rows handed to the sink.
    pub fn rows(&self) -> u64 {
        self.rows.load(Ordering::Relaxed)
    }

    /// Bytes of the images handed to the sink.
    pub fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// State of the table's copy.
    pub fn state(&self) -> TableState {
        match self.state.load(Ordering::Relaxed) {
            0 => TableState::Waiting,
            1 => TableState::Copying,
            2 => TableState::Done,
            _ => TableState::LeftOut,
        }
    }

    pub(crate) fn set(&self, state: TableState) {
        self.state.store(state as u8, Ordering::Relaxed);
    }

    pub(crate) fn add(&self, rows: u64, bytes: u64) {
        self.rows.fetch_add(rows, Ordering::Relaxed);
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Fraction done, 0 to 1. Estimates may be too low, so it stays below 1 until the table is done.
    pub fn fraction(&self) -> f64 {
        match self.state() {
            TableState::Waiting => 0.0,
            TableState::Done | TableState::LeftOut => 1.0,
            TableState::Copying => (self.rows() as f64 / self.rows_estimated.max(1) as f64).min(0.99),
        }
    }
}

/// Counters of all tables of a copy. Shared by reference or in an `Arc`.
#[derive(Debug)]
pub struct Progress {
    /// One per table, in the plan's order.
    pub tables: Vec<TableProgress>,
    begun: OnceLock<Instant>,
}

/// Sums over all tables at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Totals {
    /// Number of tables copied completely.
    pub tables_done: usize,
    pub tables: usize,
    /// Number of rows handed to the sink.
    pub rows: u64,
    /// Total number of rows: counted for tables that are done, estimated for others.
    pub rows_expected: u64,
    /// Bytes of images handed to the sink.
    pub bytes: u64,
    /// Fraction done, 0 to 1, with tables weighted by their estimated bytes.
    pub fraction: f64,
}

impl Progress {
    /// Creates the counters for the tables of a plan.
    #[must_use]
    pub fn new(plan: &CopyPlan) -> Progress {
        let tables = plan.tables.iter().map(|table| TableProgress {
            db: table.def.db.clone(),
            table: table.def.name.clone(),
            rows_estimated: table.rows_estimated,
            bytes_estimated: table.bytes_estimated,
            rows: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
            state: AtomicU8::new(0),
        });
        Progress { tables: tables.collect(), begun: OnceLock::new() }
    }

    pub(crate) fn begin(&self) {
        let _ = self.begun.set(Instant::now());
    }

    /// Time since reading started; zero before.
    pub fn elapsed(&self) -> Duration {
        self.begun.get().map_or(Duration::ZERO, Instant::elapsed)
    }

    pub fn totals(&self) -> Totals {
        let mut totals = Totals { tables: self.tables.len(), ..Totals::default() };
        let (mut weight, mut done) = (0.0, 0.0);
        for table in &self.tables {
            let rows = table.rows();
            totals.rows += rows;
            totals.bytes += table.bytes();
            let finished = table.state() == TableState::Done;
            totals.tables_done += usize::from(finished);
            totals.rows_expected += if finished { rows } else { table.rows_estimated.max(rows) };
            // An empty table takes some time, too.
            let bytes = table.bytes_estimated as f64 + 1024.0;
            weight += bytes;
            done += bytes * table.fraction();
        }
        totals.fraction = if weight > 0.0 { done / weight } else { 1.0 };
        totals
    }

    /// Remaining time at the average speed so far; None while it is too early for an estimate.
    pub fn eta(&self) -> Option<Duration> {
        eta(self.totals().fraction, self.elapsed())
    }

    /// One line: bar, tables, rows, bytes, speed, remaining time.
    pub fn line(&self) -> String {
        let (totals, elapsed) = (self.totals(), self.elapsed());
        let filled = (totals.fraction * BAR_CHARS as f64) as usize;
        let bar: String = (0..BAR_CHARS).map(|at| if at < filled { '#' } else { '.' }).collect();
        let speed = totals.bytes as f64 / elapsed.as_secs_f64().max(0.001);
        format!(
            "copy [{bar}] {:3.0}%  tables {}/{}  rows {}/{}  {}  {}/s  ETA {}",
            (totals.fraction * 100.0).floor(),
            totals.tables_done,
            totals.tables,
            totals.rows,
            totals.rows_expected,
            bytes_text(totals.bytes as f64),
            bytes_text(speed),
            eta(totals.fraction, elapsed).map_or("?".into(), duration_text)
        )
    }

    /// One line for each table being copied, at most `lines_max`.
    pub fn table_lines(&self, lines_max: usize) -> String {
        let mut out = String::new();
        let copying = self.tables.iter().filter(|table| table.state() == TableState::Copying);
        for table in copying.take(lines_max) {
            let _ = writeln!(
                out,
                "  {}.{}  {:.0}%  rows {}/{}  {}",
                table.db,
                table.table,
                (table.fraction() * 100.0).floor(),
                table.rows(),
                table.rows_estimated.max(table.rows()),
                bytes_text(table.bytes() as f64)
            );
        }
        out
    }
}

fn eta(fraction: f64, elapsed: Duration) -> Option<Duration> {
    if fraction >= 1.0 {
        return Some(Duration::ZERO);
    }
    // Too early for an estimate.
    (fraction > 0.001).then(|| elapsed.mul_f64(((1.0 - fraction) / fraction).min(1e6)))
}

fn duration_text(duration: Duration) -> String {
    let seconds = duration.as_secs_f64().ceil() as u64;
    let (hours, minutes, seconds) = (seconds / 3600, seconds / 60 % 60, seconds % 60);
    if hours > 0 { format!("{hours}:{minutes:02}:{seconds:02}") } else { format!("{minutes}:{seconds:02}") }
}

/// One decimal, in powers of 1000, as sizes of disks and speeds of networks are given.
fn bytes_text(bytes: f64) -> String {
    let mut value = bytes;
    for unit in ["B", "kB", "MB", "GB"] {
        if value < 999.5 {
            return if unit == "B" { format!("{value:.0} B") } else { format!("{value:.1} {unit}") };
        }
        value /= 1000.0;
    }
    format!("{value:.1} TB")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(rows_estimated: u64, bytes_estimated: u64) -> TableProgress {
        TableProgress {
            db: "d".into(),
            table: format!("t{rows_estimated}"),
            rows_estimated,
            bytes_estimated,
            rows: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
            state: AtomicU8::new(0),
        }
    }

    #[test]
    fn totals_and_lines() {
        let progress = Progress { tables: vec![table(100, 9_000_000), table(50, 1_000_000)], begun: OnceLock::new() };
        assert_eq!(progress.totals().fraction, 0.0);
        assert_eq!(progress.eta(), None);
        assert!(progress.line().starts_with("copy [....................]   0%  tables 0/2  rows 0/150  0 B"));
        let first = &progress.tables[0];
        first.set(TableState::Copying);
        first.add(50, 5_000_000);
        assert_eq!(progress.table_lines(9), "  d.t100  50%  rows 50/100  5.0 MB\n");
        // More rows than the source estimated.
        first.add(150, 15_000_000);
        assert_eq!(first.fraction(), 0.99);
        assert_eq!(progress.totals().rows_expected, 250);
        for table in &progress.tables {
            table.set(TableState::Done);
        }
        let totals = progress.totals();
        assert_eq!((totals.tables_done, totals.rows, totals.rows_expected), (2, 200, 200));
        assert_eq!((totals.fraction, progress.eta()), (1.0, Some(Duration::ZERO)));
        assert!(progress.line().contains("[####################] 100%  tables 2/2  rows 200/200  20.0 MB"));
        assert_eq!(progress.table_lines(9), "");
    }

    #[test]
    fn texts() {
        assert_eq!(duration_text(Duration::from_millis(61_500)), "1:02");
        assert_eq!(duration_text(Duration::from_secs(3_700)), "1:01:40");
        assert_eq!(bytes_text(999.0), "999 B");
        assert_eq!(bytes_text(1_234_567.0), "1.2 MB");
        assert_eq!(bytes_text(5e15), "5000.0 TB");
        assert_eq!(eta(0.25, Duration::from_secs(10)), Some(Duration::from_secs(30)));
    }
}
