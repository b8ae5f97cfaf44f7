//! `lab make`: writes binlogs of shapes that are hard to replay, without a server.
//!
//! In: a shape and its sizes. Out: binlog files as a source would write them (GTIDs, commit times, logical clocks,
//! checksums), `load.index` for tables and first rows, `run.index` for what is to be measured. Never here: a server; a
//! large transaction held in memory as a whole.

mod clock;
mod table;
mod zipf;

use std::fmt;
use std::path::PathBuf;

use anyhow::bail;
use base::{Gtid, Tag, Uuid};
use binlog::writer::BinlogWriter;
use binlog::{ChecksumAlgorithm, FormatDescription, GtidEvent, RowsKind};
use clap::{Subcommand, ValueEnum};
use serde::Serialize;

use crate::log_files::LogFiles;
use crate::tpcc::random::Random;

pub use clock::Tracking;
use clock::{Clock, Touched};
use table::{DB, Table};
use zipf::Zipf;

/// Commit time of the first transaction, µs since 1970 (2025-11-13).
const FIRST_COMMIT_US: u64 = 1_763_000_000_000_000;
const SERVER_ID: u32 = 1;
const SERVER_UUID: Uuid = Uuid([0x5a; 16]);
const SERVER_VERSION: (&str, u32) = ("9.7.4", 90_704);
/// Rows per transaction of the load.
const LOAD_ROWS: u64 = 1000;
/// Maximum rows of a table: `id` is an INT.
const ROWS_MAX: u64 = i32::MAX as u64;

/// Shape of the transactions.
#[derive(Clone, Debug, Subcommand)]
pub enum Shape {
    /// Every transaction updates the same row
    Counter,
    /// Every transaction updates one row; a few rows get most updates
    Zipf {
        /// Rows in the table
        #[arg(long, default_value_t = 100_000, value_parser = clap::value_parser!(u32).range(1..=50_000_000))]
        rows: u32,
        /// Row n is hit with a weight of 1 / (n + 1)^THETA
        #[arg(long, default_value_t = 0.99)]
        theta: f64,
    },
    /// Every transaction inserts rows of its own and updates one row shared by all
    PrivateShared {
        /// Rows inserted by each transaction
        #[arg(long, default_value_t = 16, value_parser = clap::value_parser!(u32).range(0..=100_000))]
        inserts: u32,
    },
    /// Single-row transactions with one huge transaction on another table in the middle
    Huge {
        /// What the huge transaction does
        #[arg(long, value_enum, default_value = "insert")]
        change: Change,
        /// Rows that the huge transaction changes
        #[arg(long, default_value_t = 1_000_000, value_parser = clap::value_parser!(u64).range(1..=ROWS_MAX))]
        huge_rows: u64,
        /// Rows in the table that the others update
        #[arg(long, default_value_t = 100_000, value_parser = clap::value_parser!(u32).range(1..=50_000_000))]
        rows: u32,
    },
    /// Every transaction updates one row of a table without keys that holds every row twice
    Keyless {
        /// Rows in the table
        #[arg(long, default_value_t = 100_000, value_parser = clap::value_parser!(u32).range(1..=50_000_000))]
        rows: u32,
    },
}

/// Kind of change in a huge transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum Change {
    /// Inserts all its rows
    Insert,
    /// Updates rows of the load
    Update,
    /// Deletes rows of the load
    Delete,
}

impl Change {
    fn kind(self) -> RowsKind {
        match self {
            Change::Insert => RowsKind::Write,
            Change::Update => RowsKind::Update,
            Change::Delete => RowsKind::Delete,
        }
    }
}

#[derive(Clone, Debug)]
pub struct MakeOptions {
    pub shape: Shape,
    /// Transactions in the run, not counting a huge one.
    pub transactions: u64,
    /// Commits a second, according to their timestamps; above 0.
    pub rate: f64,
    /// How the logical clocks are stamped.
    pub tracking: Tracking,
    /// The same seed gives the same log.
    pub seed: u64,
    /// New folder for the files.
    pub out: PathBuf,
    /// Bytes after which the next transaction starts a new file.
    pub file_bytes: u64,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct MakeReport {
    /// Number of files with tables and first rows.
    pub load_files: usize,
    /// Number of files of the run.
    pub run_files: usize,
    /// Transactions, including those of the load.
    pub transactions: u64,
    /// Row changes, including those of the load.
    pub rows: u64,
    /// Bytes written.
    pub bytes: u64,
    /// GTID of the huge transaction; `without.index` lists the run without its file.
    pub huge: Option<String>,
}

impl fmt::Display for MakeReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} transactions, {} row changes, {:.1} MB: {} files of the load (load.index), {} of the run (run.index)",
            self.transactions,
            self.rows,
            self.bytes as f64 / 1e6,
            self.load_files,
            self.run_files
        )?;
        match &self.huge {
            Some(gtid) => write!(f, "; the huge transaction is {gtid}, without.index leaves it out"),
            None => Ok(()),
        }
    }
}

/// Writes the files and their indexes.
///
/// # Errors
/// The folder is not empty or cannot be written, or a number is out of range.
pub fn make(options: &MakeOptions) -> anyhow::Result<MakeReport> {
    if !(options.rate.is_finite() && options.rate > 0.0) {
        bail!("commits a second: a number above 0");
    }
    if let Shape::PrivateShared { inserts } = options.shape
        && options.transactions.saturating_mul(u64::from(inserts)) > ROWS_MAX
    {
        bail!("{} rows and more to insert: at most {ROWS_MAX}", options.transactions * u64::from(inserts));
    }
    if let Shape::Zipf { theta, .. } = options.shape
        && !(theta.is_finite() && theta >= 0.0)
    {
        bail!("theta: a number not below 0");
    }
    let format = FormatDescription::new(SERVER_VERSION.0, ChecksumAlgorithm::Crc32);
    let mut maker = Maker {
        files: LogFiles::create(&options.out, options.file_bytes, format)?,
        clock: Clock::new(options.tracking),
        apart_us: 1e6 / options.rate,
        random: Random::new(options.seed, 0),
        report: MakeReport::default(),
    };
    maker.shape(options)?;
    maker.report.bytes = maker.files.bytes();
    Ok(maker.report)
}

struct Maker {
    files: LogFiles,
    clock: Clock,
    /// Microseconds between two commits.
    apart_us: f64,
    random: Random,
    report: MakeReport,
}

/// A table whose rows are updated one at a time, with the version of each.
struct Updated {
    table: Table,
    versions: Vec<u32>,
}

impl Updated {
    fn new(table: Table, rows: u32) -> Updated {
        Updated { table, versions: vec![0; rows as usize] }
    }

    /// Advances the row to its next version.
    fn next(&mut self, row: u64) -> u64 {
        let Some(version) = usize::try_from(row).ok().and_then(|at| self.versions.get_mut(at)) else { return 0 };
        *version += 1;
        u64::from(*version)
    }

    fn len(&self) -> u64 {
        self.versions.len() as u64
    }
}

impl Maker {
    fn shape(&mut self, options: &MakeOptions) -> anyhow::Result<()> {
        let table = |id, name| Table { id, name, keyless: false };
        let transactions = options.transactions;
        match options.shape {
            Shape::Counter => {
                let mut counter = Updated::new(table(90, "counter"), 1);
                self.load(&[(counter.table, 1)])?;
                for _ in 0..transactions {
                    self.update(&mut counter, 0)?;
                }
            }
            Shape::Zipf { rows, theta } => {
                let (mut zipf, law) = (Updated::new(table(90, "zipf"), rows), Zipf::new(rows, theta));
                self.load(&[(zipf.table, zipf.len())])?;
                for _ in 0..transactions {
                    let row = law.draw(&mut self.random);
                    self.update(&mut zipf, row)?;
                }
            }
            Shape::PrivateShared { inserts } => {
                let (private, shared) = (table(90, "private"), table(91, "shared"));
                self.load(&[(private, 0), (shared, 1)])?;
                for number in 0..transactions {
                    self.private_and_shared(private, shared, u64::from(inserts), number)?;
                }
            }
            Shape::Keyless { rows } => {
                let mut keyless = Updated::new(Table { id: 90, name: "keyless", keyless: true }, rows);
                self.load(&[(keyless.table, keyless.len())])?;
                for _ in 0..transactions {
                    let row = self.random.uniform(0, keyless.len() - 1);
                    self.update(&mut keyless, row)?;
                }
            }
            Shape::Huge { change, huge_rows, rows } => {
                let (mut small, big) = (Updated::new(table(90, "small"), rows), table(91, "big"));
                let loaded = if change == Change::Insert { 0 } else { huge_rows };
                self.load(&[(small.table, small.len()), (big, loaded)])?;
                self.small_ones(&mut small, transactions / 2)?;
                self.files.end_file(true)?;
                let at = self.files.count();
                self.huge(big, change.kind(), huge_rows)?;
                self.files.end_file(true)?;
                self.small_ones(&mut small, transactions - transactions / 2)?;
                self.files.index_without("without.index", self.report.load_files, Some(at))?;
            }
        }
        self.files.end_file(false)?;
        self.report.run_files = self.files.index("run.index", self.report.load_files)?;
        Ok(())
    }

    /// Writes tables and their first rows, in files of their own.
    fn load(&mut self, tables: &[(Table, u64)]) -> anyhow::Result<()> {
        // The default database does not exist yet when the statement is replayed.
        self.transaction(Touched::All, 0, |writer| {
            writer.statement(b"", format!("CREATE DATABASE {DB}").as_bytes());
        })?;
        for (table, rows) in tables {
            self.transaction(Touched::All, 0, |writer| {
                writer.statement(DB.as_bytes(), table.definition().as_bytes());
            })?;
            let mut first = 0;
            while first < *rows {
                let some: Vec<(u64, u64)> = (first..(first + LOAD_ROWS).min(*rows)).map(|row| (row, 0)).collect();
                let touched: Vec<(u64, u64)> = some.iter().map(|(row, _)| (table.id, *row)).collect();
                let touched = if table.keyless { Touched::Keyless(table.id) } else { Touched::Rows(&touched) };
                self.rows(touched, some.len() as u64, |writer| table.statement(writer, RowsKind::Write, &some))?;
                first += LOAD_ROWS;
            }
        }
        self.files.end_file(true)?;
        self.report.load_files = self.files.index("load.index", 0)?;
        Ok(())
    }

    /// Writes a transaction that updates one row.
    fn update(&mut self, updated: &mut Updated, row: u64) -> anyhow::Result<()> {
        let (table, version) = (updated.table, updated.next(row));
        let rows = [(table.id, row)];
        let touched = if table.keyless { Touched::Keyless(table.id) } else { Touched::Rows(&rows) };
        self.rows(touched, 1, |writer| table.statement(writer, RowsKind::Update, &[(row, version)]))
    }

    fn small_ones(&mut self, small: &mut Updated, transactions: u64) -> anyhow::Result<()> {
        for _ in 0..transactions {
            let row = self.random.uniform(0, small.len() - 1);
            self.update(small, row)?;
        }
        Ok(())
    }

    fn private_and_shared(&mut self, private: Table, shared: Table, inserts: u64, number: u64) -> anyhow::Result<()> {
        let own: Vec<(u64, u64)> = (number * inserts..(number + 1) * inserts).map(|row| (row, 0)).collect();
        let mut touched: Vec<(u64, u64)> = own.iter().map(|(row, _)| (private.id, *row)).collect();
        touched.push((shared.id, 0));
        self.rows(Touched::Rows(&touched), inserts + 1, |writer| {
            if !own.is_empty() {
                private.statement(writer, RowsKind::Write, &own);
            }
            shared.statement(writer, RowsKind::Update, &[(0, number + 1)]);
        })
    }

    /// Writes a transaction of rows events.
    fn rows(&mut self, touched: Touched<'_>, rows: u64, events: impl FnOnce(&mut BinlogWriter)) -> anyhow::Result<()> {
        let xid = self.report.transactions + 1;
        self.transaction(touched, rows, |writer| {
            begin(writer);
            events(writer);
            writer.xid(xid);
        })
    }

    fn transaction(
        &mut self,
        touched: Touched<'_>,
        rows: u64,
        events: impl FnOnce(&mut BinlogWriter),
    ) -> anyhow::Result<()> {
        let gtid = self.next(touched, rows)?;
        self.files.writer()?.transaction(&gtid, events);
        self.files.write_gathered()
    }

    /// Gtid event of the next transaction.
    fn next(&mut self, touched: Touched<'_>, rows: u64) -> anyhow::Result<GtidEvent> {
        let commit_us = FIRST_COMMIT_US + (self.report.transactions as f64 * self.apart_us) as u64;
        let timestamp = (commit_us / 1_000_000) as u32;
        if self.files.open(SERVER_ID, timestamp)? {
            self.clock.begin_file();
        }
        self.files.writer()?.set_timestamp(timestamp);
        self.report.transactions += 1;
        self.report.rows += rows;
        let gtid = Gtid { uuid: SERVER_UUID, tag: Tag::EMPTY, gno: self.report.transactions };
        self.files.executed(gtid);
        let (last_committed, sequence_number) = self.clock.stamp(touched);
        let mut event = GtidEvent::new(Some(gtid), last_committed, sequence_number);
        event.immediate_commit_timestamp_us = commit_us;
        event.original_commit_timestamp_us = commit_us;
        event.immediate_server_version = Some(SERVER_VERSION.1);
        event.original_server_version = Some(SERVER_VERSION.1);
        Ok(event)
    }

    /// Writes one statement that changes the first `rows` rows of a table, event by event.
    fn huge(&mut self, table: Table, kind: RowsKind, rows: u64) -> anyhow::Result<()> {
        let version = u64::from(kind == RowsKind::Update);
        let gtid = self.next(Touched::All, rows)?;
        let xid = self.report.transactions;
        self.report.huge = gtid.gtid.map(|gtid| gtid.to_string());
        self.files.writer()?.open_transaction(&gtid, huge_bytes(table, kind, rows));
        begin(self.files.writer()?);
        table.map(self.files.writer()?);
        for event in Table::events(kind, rows) {
            let ends = event.end == rows;
            table.rows(self.files.writer()?, kind, ends, event.map(|row| (row, version)));
            self.files.write_gathered()?;
        }
        self.files.writer()?.xid(xid);
        self.files.write_gathered()
    }
}

fn begin(writer: &mut BinlogWriter) {
    writer.statement(DB.as_bytes(), b"BEGIN");
}

/// Bytes of a huge transaction's events after its Gtid event. All images have one length, so events have one of two.
fn huge_bytes(table: Table, kind: RowsKind, rows: u64) -> u64 {
    let per_event = Table::rows_per_event(kind) as u64;
    let bytes_of = |events: &dyn Fn(&mut BinlogWriter)| {
        let mut writer = BinlogWriter::new(SERVER_ID, ChecksumAlgorithm::Crc32, 0);
        events(&mut writer);
        writer.position()
    };
    let event = |rows: u64| bytes_of(&|writer| table.rows(writer, kind, true, (0..rows).map(|row| (row, 0))));
    let around = bytes_of(&|writer| {
        begin(writer);
        table.map(writer);
        writer.xid(0);
    });
    let rest = rows % per_event;
    around + rows / per_event * event(per_event) + if rest > 0 { event(rest) } else { 0 }
}
