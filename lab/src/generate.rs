//! `lab generate`: unrolls a recorded TPC-C log into a longer one.
//!
//! In: the log of a load and the log of a run, uncompressed or compressed. Out: binlog files as a source would write
//! them. Repetition k has its own warehouses and GTIDs; commit times and logical clocks continue. Never here: a
//! statement carried out twice, a row of a table without warehouses (ITEM) written twice, two repetitions that change
//! the same row.
//!
//! The loads of all repetitions come first, then their runs, so that a load phase can be timed separately.

use std::collections::HashMap;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, bail};
use base::{Gtid, Tag, Uuid};
use binlog::reader::BinlogFile;
use binlog::writer::BinlogWriter;
use binlog::{
    EventHeader, GtidEvent, QueryEvent, QueryKind, RowsEvent, RowsKind, TableMapEvent, TransactionPayload, event_type,
};
use catalog::{Catalog, DdlEffect, StatementContext, TableDef};
use serde::Serialize;
use values::{ColumnType, OFFSET_ABSENT, OFFSET_NULL, RowLayout};

use crate::log_files::LogFiles;

/// Suffix of columns that hold a warehouse number.
const WAREHOUSE_SUFFIX: &str = "w_id";
/// Maximum decompressed size of a transaction in the recorded log.
const PAYLOAD_BYTES_MAX: u64 = 1 << 30;

#[derive(Clone, Debug)]
pub struct GenerateOptions {
    /// Logs of the load, with the tables' definitions.
    pub load: Vec<PathBuf>,
    /// Logs of the run.
    pub logs: Vec<PathBuf>,
    /// Number of repetitions, at least 1.
    pub repeat: u32,
    /// New folder for the files.
    pub out: PathBuf,
    /// Bytes after which the next transaction starts a new file.
    pub file_bytes: u64,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct GenerateReport {
    /// Number of files with the loads.
    pub load_files: usize,
    /// Number of files with the runs.
    pub run_files: usize,
    pub transactions: u64,
    pub rows: u64,
    /// Bytes written.
    pub bytes: u64,
    /// Warehouses of one repetition.
    pub warehouses: i64,
}

impl fmt::Display for GenerateReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} transactions, {} row changes, {:.1} MB: {} files of loads (load.index), {} files of runs (run.index), {} \
             warehouses a repetition",
            self.transactions,
            self.rows,
            self.bytes as f64 / 1e6,
            self.load_files,
            self.run_files,
            self.warehouses
        )
    }
}

/// Writes the files, and `load.index` and `run.index` that list them.
///
/// # Errors
/// A log cannot be read or is not a TPC-C log, or the folder is not empty or cannot be written.
pub fn generate(options: &GenerateOptions) -> anyhow::Result<GenerateReport> {
    let (load, logs) = (replay::expand(&options.load)?, replay::expand(&options.logs)?);
    let (Some(first), false) = (load.first(), logs.is_empty()) else {
        bail!("one log of a load (--load) and one of a run at least");
    };
    let format = BinlogFile::open(first)?.format().clone();
    let mut generator = Generator {
        catalog: Catalog::new(0),
        plans: HashMap::new(),
        warehouses: 0,
        offsets: Vec::new(),
        report: GenerateReport::default(),
        output: Output::new(LogFiles::create(&options.out, options.file_bytes, format)?),
    };
    let load_span_us = generator.repeat(&load, options.repeat, Part::Load, 0)?;
    generator.output.files.end_file(true)?;
    generator.report.load_files = generator.output.files.index("load.index", 0)?;
    generator.repeat(&logs, options.repeat, Part::Run, load_span_us)?;
    generator.output.files.end_file(false)?;
    generator.report.run_files = generator.output.files.index("run.index", generator.report.load_files)?;
    generator.report.bytes = generator.output.files.bytes();
    generator.report.warehouses = generator.warehouses;
    Ok(generator.report)
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    Load,
    Run,
}

/// Position of warehouse numbers in a table's rows.
struct Plan {
    table: Arc<TableDef>,
    layout: RowLayout,
    /// Column of each number and its length in bytes. Tables without any are written once.
    warehouse_columns: Vec<(usize, usize)>,
    /// True for WAREHOUSE itself, whose numbers are counted.
    is_warehouse: bool,
}

struct Generator {
    catalog: Catalog,
    /// By the source's table number, from the open transaction's table maps.
    plans: HashMap<u64, Arc<Plan>>,
    warehouses: i64,
    offsets: Vec<(u32, u32)>,
    report: GenerateReport,
    output: Output,
}

/// An event without checksum.
struct Event {
    header: EventHeader,
    body: Vec<u8>,
}

/// The transaction being read.
struct Transaction {
    header: EventHeader,
    gtid: GtidEvent,
    events: Vec<Event>,
    compressed: bool,
    rows: u64,
    statement: bool,
}

/// One repetition of one file.
#[derive(Clone, Copy)]
struct Turn {
    part: Part,
    number: u32,
    shift_us: u64,
}

impl Generator {
    /// Writes the files of one part `times` times. Returns µs between the first and the last commit of all of it.
    fn repeat(&mut self, files: &[PathBuf], times: u32, part: Part, after_us: u64) -> anyhow::Result<u64> {
        let mut shift_us = after_us;
        for number in 0..times.max(1) {
            let (mut first_us, mut last_us) = (None, 0);
            for file in files {
                let (first, last) = self.file(file, Turn { part, number, shift_us })?;
                first_us = first_us.or(first);
                last_us = last.max(last_us);
            }
            // Events recorded after a load keep their distance; only repetitions move them later.
            let span_us = last_us.saturating_sub(first_us.unwrap_or(last_us)) + 1;
            if number + 1 < times || part == Part::Run {
                shift_us += span_us;
            }
        }
        if part == Part::Load && self.warehouses == 0 {
            bail!("no table `warehouse` with a column ending in {WAREHOUSE_SUFFIX} is loaded: not a TPC-C log");
        }
        Ok(shift_us)
    }

    /// Writes one file again. Returns its first and last recorded commit times.
    fn file(&mut self, path: &Path, turn: Turn) -> anyhow::Result<(Option<u64>, u64)> {
        let at = |offset: u64| format!("{} at offset {offset}", path.display());
        let mut file = BinlogFile::open(path)?;
        self.output.begin_input();
        let (mut open, mut first_us, mut last_us): (Option<Transaction>, _, _) = (None, None, 0);
        while let Some(event) = file.next_event()? {
            let body = event.body()?;
            match event.header.event_type {
                event_type::GTID | event_type::GTID_TAGGED => {
                    self.write(open.take(), turn).with_context(|| at(event.offset))?;
                    let gtid = GtidEvent::parse(event.header.event_type, body)?;
                    let commit_us = gtid.immediate_commit_timestamp_us;
                    first_us = first_us.or(Some(commit_us));
                    last_us = last_us.max(commit_us);
                    open = Some(Transaction::new(event.header, gtid));
                    self.plans.clear();
                }
                event_type::ANONYMOUS_GTID => bail!("{}: a transaction without GTID", at(event.offset)),
                event_type::FORMAT_DESCRIPTION
                | event_type::PREVIOUS_GTIDS
                | event_type::ROTATE
                | event_type::STOP
                | event_type::HEARTBEAT => {}
                event_type::TRANSACTION_PAYLOAD => {
                    let transaction = open.as_mut().with_context(|| at(event.offset))?;
                    transaction.compressed = true;
                    let mut inner = TransactionPayload::parse(body)?.events(PAYLOAD_BYTES_MAX)?;
                    while let Some((header, bytes)) = inner.next()? {
                        let body = bytes.get(EventHeader::LEN..).unwrap_or_default();
                        self.event(transaction, header, body, turn).with_context(|| at(event.offset))?;
                    }
                }
                _ => {
                    let transaction = open.as_mut().with_context(|| at(event.offset))?;
                    self.event(transaction, event.header, body, turn).with_context(|| at(event.offset))?;
                }
            }
        }
        self.write(open, turn)?;
        Ok((first_us, last_us))
    }

    fn event(
        &mut self,
        transaction: &mut Transaction,
        header: EventHeader,
        body: &[u8],
        turn: Turn,
    ) -> anyhow::Result<()> {
        let mut body = body.to_vec();
        match header.event_type {
            event_type::QUERY => {
                let query = QueryEvent::parse(&body)?;
                if QueryKind::of(query.sql) == QueryKind::Other {
                    transaction.statement = true;
                    if turn.number == 0 {
                        self.statement(&query, transaction.gtid.immediate_server_version, turn.part)?;
                    }
                }
            }
            event_type::TABLE_MAP => {
                let map = TableMapEvent::parse(&body)?;
                let plan = self.plan(&map)?;
                let leave_out = plan.warehouse_columns.is_empty() && turn.number > 0;
                self.plans.insert(map.table_id, plan);
                if leave_out {
                    return Ok(());
                }
            }
            code if RowsKind::of(code).is_some() => {
                let Some(rows) = self.rows(code, &mut body, turn)? else { return Ok(()) };
                transaction.rows += rows;
            }
            _ => {}
        }
        transaction.events.push(Event { header, body });
        Ok(())
    }

    /// Applies a statement of the first repetition to the catalog.
    fn statement(&mut self, query: &QueryEvent<'_>, version: Option<u32>, part: Part) -> anyhow::Result<()> {
        let status = &query.status;
        let context = StatementContext {
            default_db: String::from_utf8_lossy(query.db).into_owned(),
            sql_mode: status.sql_mode.unwrap_or(0),
            collation_client: status.charset_client,
            collation_connection: status.collation_connection,
            collation_server: status.collation_server,
            default_collation_for_utf8mb4: status.default_collation_for_utf8mb4,
            server_version: version,
            ..StatementContext::default()
        };
        let outcome = self.catalog.apply(&context, query.sql)?;
        if part == Part::Run && matches!(outcome.effect, DdlEffect::Changed { .. }) {
            bail!("a statement that changes tables after the load: {}", String::from_utf8_lossy(query.sql));
        }
        self.catalog = outcome.catalog;
        Ok(())
    }

    fn plan(&mut self, map: &TableMapEvent<'_>) -> anyhow::Result<Arc<Plan>> {
        let table = self.catalog.table_bytes(map.db, map.table).with_context(|| {
            let (db, table) = (String::from_utf8_lossy(map.db), String::from_utf8_lossy(map.table));
            format!("rows of `{db}`.`{table}`, which the load does not make")
        })?;
        let types = table.column_types();
        let mut warehouse_columns = Vec::new();
        for (index, column) in table.columns.iter().enumerate() {
            if column.name.to_ascii_lowercase().ends_with(WAREHOUSE_SUFFIX) {
                warehouse_columns.push((index, integer_bytes(&types, index).with_context(|| column.name.clone())?));
            }
        }
        let is_warehouse = table.name.eq_ignore_ascii_case("warehouse");
        let layout = RowLayout::new(&types);
        Ok(Arc::new(Plan { table: Arc::clone(table), layout, warehouse_columns, is_warehouse }))
    }

    /// Shifts the warehouse numbers of a rows event. Returns the number of rows, None if the event is to be left out.
    fn rows(&mut self, code: u8, body: &mut [u8], turn: Turn) -> anyhow::Result<Option<u64>> {
        let event = RowsEvent::parse(code, body)?;
        let plan = self.plans.get(&event.table_id).context("rows without a table map")?.clone();
        let kind = event.kind;
        if kind == RowsKind::PartialUpdate {
            bail!("partial JSON updates: not a TPC-C log");
        }
        if plan.warehouse_columns.is_empty() && turn.number > 0 {
            return Ok(None);
        }
        let (before, after) = (event.before_columns.to_vec(), event.after_columns.to_vec());
        let start = body.len() - event.rows.len();
        let rows = body.get_mut(start..).unwrap_or_default();
        let shift = i64::from(turn.number) * self.warehouses;
        let (mut at, mut count) = (0, 0);
        while at < rows.len() {
            if kind.has_before() {
                at += self.image(&plan, &before, rows.get_mut(at..).unwrap_or_default(), shift)?;
            }
            if kind.has_after() {
                at += self.image(&plan, &after, rows.get_mut(at..).unwrap_or_default(), shift)?;
            }
            count += 1;
        }
        Ok(Some(count))
    }

    /// Shifts the warehouse numbers of the image at the front of `bytes`. Returns its length.
    fn image(&mut self, plan: &Plan, present: &[u8], bytes: &mut [u8], shift: i64) -> anyhow::Result<usize> {
        let len = plan.layout.walk_present(present, bytes, &mut self.offsets)?;
        for (column, width) in &plan.warehouse_columns {
            let Some((at, _)) = self.offsets.get(*column).filter(|(at, _)| !matches!(*at, OFFSET_ABSENT | OFFSET_NULL))
            else {
                continue;
            };
            let place = bytes.get_mut(*at as usize..*at as usize + width).context("a number cut off")?;
            let mut wide = [0; 8];
            if let Some(low) = wide.get_mut(..*width) {
                low.copy_from_slice(place);
            }
            let moved = i64::from_le_bytes(wide) + shift;
            // A positive number below the sign bit reads the same, signed or not.
            if moved >= 1 << (8 * width - 1).min(62) {
                bail!("warehouse {moved} is too large for `{}`; fewer repetitions", plan.table.name);
            }
            place.copy_from_slice(moved.to_le_bytes().get(..*width).unwrap_or_default());
            if plan.is_warehouse && shift == 0 {
                self.warehouses = self.warehouses.max(moved);
            }
        }
        Ok(len)
    }

    fn write(&mut self, transaction: Option<Transaction>, turn: Turn) -> anyhow::Result<()> {
        let Some(transaction) = transaction else { return Ok(()) };
        let clock = transaction.gtid.sequence_number;
        // Statements are carried out once, and a transaction without rows of its own has no place in a repetition.
        if turn.number > 0 && (transaction.rows == 0 || transaction.statement) {
            self.output.left_out(clock);
            return Ok(());
        }
        self.report.transactions += 1;
        self.report.rows += transaction.rows;
        self.output.transaction(transaction, turn.shift_us)
    }
}

/// Length in bytes of an integer column.
fn integer_bytes(types: &[ColumnType], index: usize) -> anyhow::Result<usize> {
    // MySQL's type codes: TINY, SHORT, INT24, LONG, LONGLONG.
    match types.get(index).map(|ty| ty.code) {
        Some(1) => Ok(1),
        Some(2) => Ok(2),
        Some(9) => Ok(3),
        Some(3) => Ok(4),
        Some(8) => Ok(8),
        _ => bail!("a warehouse number that is not an integer"),
    }
}

impl Transaction {
    fn new(header: EventHeader, gtid: GtidEvent) -> Transaction {
        Transaction { header, gtid, events: Vec::new(), compressed: false, rows: 0, statement: false }
    }
}

/// The output files, with clocks that continue.
struct Output {
    files: LogFiles,
    numbers: HashMap<(Uuid, Tag), u64>,
    /// Transactions written before the open file, and in all: clocks count from 1 in each file.
    before_file: i64,
    written: i64,
    /// Maps the input's clock to the output's, counted over all files: entry n belongs to the input's number n.
    clocks: Vec<i64>,
}

impl Output {
    fn new(files: LogFiles) -> Output {
        Output { files, numbers: HashMap::new(), before_file: 0, written: 0, clocks: Vec::new() }
    }

    /// Starts an input file: nothing in it may run before everything already written is done.
    fn begin_input(&mut self) {
        self.clocks = vec![self.written];
    }

    fn note_clock(&mut self, input: i64, output: i64) {
        let input = usize::try_from(input).unwrap_or(0);
        let last = self.clocks.last().copied().unwrap_or(0);
        if self.clocks.len() <= input {
            self.clocks.resize(input + 1, last);
        }
        if let Some(place) = self.clocks.get_mut(input) {
            *place = output;
        }
    }

    /// Skips a transaction: dependants of it depend on its predecessor.
    fn left_out(&mut self, clock: i64) {
        let output = self.written;
        self.note_clock(clock, output);
    }

    fn transaction(&mut self, transaction: Transaction, shift_us: u64) -> anyhow::Result<()> {
        let Transaction { header, mut gtid, events, compressed, .. } = transaction;
        let parent = usize::try_from(gtid.last_committed).unwrap_or(0);
        let parent = self.clocks.get(parent).or(self.clocks.last()).copied().unwrap_or(0);
        let shift_s = (shift_us / 1_000_000) as u32;
        let timestamp = header.timestamp.saturating_add(shift_s);
        if self.files.open(header.server_id, timestamp)? {
            self.before_file = self.written;
        }
        self.written += 1;
        self.note_clock(gtid.sequence_number, self.written);
        gtid.last_committed = (parent - self.before_file).max(0);
        gtid.sequence_number = self.written - self.before_file;
        gtid.immediate_commit_timestamp_us += shift_us;
        gtid.original_commit_timestamp_us += shift_us;
        if let Some(id) = &mut gtid.gtid {
            let number = self.numbers.entry((id.uuid, id.tag)).or_insert(0);
            *number += 1;
            *id = Gtid { gno: *number, ..*id };
            self.files.executed(*id);
        }
        let writer = self.files.writer()?;
        writer.set_server_id(header.server_id);
        writer.set_timestamp(timestamp);
        let write = |writer: &mut BinlogWriter| {
            for event in &events {
                writer.set_timestamp(event.header.timestamp.saturating_add(shift_s));
                writer.event(event.header.event_type, event.header.flags, |out| out.extend_from_slice(&event.body));
            }
        };
        if compressed {
            writer.compressed_transaction(&gtid, write)?;
        } else {
            writer.transaction(&gtid, write);
        }
        self.files.write_gathered()
    }
}
