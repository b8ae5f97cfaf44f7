//! `lab synthesize`: writes a TPC-C-like log from a seed, without a server. Benchmarks and `make dist` replay it.
//!
//! In: sizes and a seed. Out: two binlog files as a source would write them, the load and the run, with the same bytes
//! for the same input on every machine. Never here: a server, a clock, figures that may be called TPC-C.
//!
//! The tables are those of `lab tpcc` without ITEM, which nothing changes. The run is New-Order (ten order lines),
//! Payment and Delivery in the specification's proportions, with FULL images and one event per row, as the statements
//! of an OLTP program produce them. The load has many rows in an event.
//!
//! This is part of the program, so it writes events by itself: the author of logs in `tests/testkit` is for tests only.

use std::collections::VecDeque;
use std::fmt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use anyhow::{Context, bail};
use base::{Gtid, GtidSet, Random, Tag, Uuid};
use binlog::writer::BinlogWriter;
use binlog::{ChecksumAlgorithm, FormatDescription, GtidEvent, RowsEvent, RowsKind, TableMapEvent};
use catalog::{Catalog, StatementContext, TableDef};
use values::{ColumnType, type_code};

use crate::tpcc::schema;

const DB: &str = "tpcc";
/// Commit time of the first transaction, µs since 1970.
const START_US: u64 = 1_763_000_000_000_000;
/// Microseconds between two commits.
const APART_US: u64 = 500;
const DISTRICTS: i64 = 10;
const LINES: i64 = 10;
/// Undelivered orders of a district when the run begins.
const OPEN_ORDERS: i64 = 10;
const ROWS_PER_EVENT: usize = 40;
/// Bytes gathered before a write.
const WRITE_BYTES: usize = 1 << 20;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SynthesizeOptions {
    /// The same seed gives the same log.
    pub seed: u64,
    /// Number of warehouses, at least 1.
    pub warehouses: u32,
    /// Rows of STOCK per warehouse, at least 1.
    pub items: u32,
    /// Customers in each of a warehouse's ten districts, at least 1.
    pub customers: u32,
    /// Transactions in the run.
    pub transactions: u64,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SynthesizeReport {
    /// Log of the load: definitions, then rows.
    pub load: PathBuf,
    /// Log of the run.
    pub run: PathBuf,
    /// Row changes in the load.
    pub load_rows: u64,
    /// Row changes in the run.
    pub run_rows: u64,
    /// Bytes of both logs.
    pub bytes: u64,
}

impl fmt::Display for SynthesizeReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let SynthesizeReport { load, run, load_rows, run_rows, bytes } = self;
        writeln!(f, "{load_rows} row changes in {}, {run_rows} in {}, {bytes} bytes", load.display(), run.display())?;
        write!(f, "slipstream lab replay --load {} {}", load.display(), run.display())
    }
}

/// Writes `binlog.000001` (load) and `binlog.000002` (run) into a folder, which is created if absent.
///
/// # Errors
/// The folder cannot be written or already holds such files.
pub fn synthesize(folder: &Path, options: SynthesizeOptions) -> anyhow::Result<SynthesizeReport> {
    if options.warehouses == 0 || options.items == 0 || options.customers == 0 {
        bail!("warehouses, items and customers must be above 0");
    }
    std::fs::create_dir_all(folder).with_context(|| format!("cannot make folder {}", folder.display()))?;
    let (load, run) = (folder.join("binlog.000001"), folder.join("binlog.000002"));
    let mut source = Source::new(options)?;
    source.begin(&load)?;
    source.load()?;
    let load_rows = source.rows;
    let load_bytes = source.end(Some(&run))?;
    source.begin(&run)?;
    source.run()?;
    let run_rows = source.rows - load_rows;
    let bytes = load_bytes + source.end(None)?;
    Ok(SynthesizeReport { load, run, load_rows, run_rows, bytes })
}

/// One value of a row.
enum Value {
    Null,
    Number(i64),
    Text(String),
}

impl From<i64> for Value {
    fn from(number: i64) -> Value {
        Value::Number(number)
    }
}

impl From<String> for Value {
    fn from(text: String) -> Value {
        Value::Text(text)
    }
}

macro_rules! row {
    ($($value:expr),* $(,)?) => { vec![$(Value::from($value)),*] };
}

/// A table, in the log's terms.
struct Table {
    def: Arc<TableDef>,
    types: Vec<ColumnType>,
    map_id: u64,
    type_bytes: Vec<u8>,
    metadata: Vec<u8>,
    nullable: Vec<u8>,
    all: Vec<u8>,
}

impl Table {
    fn new(def: &Arc<TableDef>, map_id: u64) -> Table {
        let types: Vec<ColumnType> = def.column_types();
        let (type_bytes, metadata) = def.expected_table_map();
        let mut nullable = vec![0; types.len().div_ceil(8)];
        let mut all = nullable.clone();
        for (n, column) in def.columns.iter().enumerate() {
            if let (Some(nullable), Some(all)) = (nullable.get_mut(n / 8), all.get_mut(n / 8)) {
                *nullable |= u8::from(column.nullable) << (n % 8);
                *all |= 1 << (n % 8);
            }
        }
        Table { def: Arc::clone(def), types, map_id, type_bytes, metadata, nullable, all }
    }

    /// Image of the row with all columns present.
    fn image(&self, row: &[Value]) -> Vec<u8> {
        assert_eq!(row.len(), self.types.len(), "{}", self.def.name);
        let mut out = vec![0; row.len().div_ceil(8)];
        for (n, (value, ty)) in row.iter().zip(&self.types).enumerate() {
            match value {
                Value::Null => {
                    if let Some(byte) = out.get_mut(n / 8) {
                        *byte |= 1 << (n % 8);
                    }
                }
                Value::Number(number) => put_number(ty, *number, &mut out),
                Value::Text(text) => {
                    if ty.meta > 255 {
                        out.extend((text.len() as u16).to_le_bytes());
                    } else {
                        out.push(text.len() as u8);
                    }
                    out.extend(text.as_bytes());
                }
            }
        }
        out
    }
}

/// Appends a number: integers as they are, DECIMAL in units of its last digit and not negative, DATETIME in seconds
/// since a fixed day.
fn put_number(ty: &ColumnType, number: i64, out: &mut Vec<u8>) {
    match ty.code {
        type_code::TINY => out.push(number as u8),
        type_code::SHORT => out.extend((number as i16).to_le_bytes()),
        type_code::DATETIME2 => {
            let (day, second) = (number / 86_400 % 28 + 1, number % 86_400);
            let time = ((second / 3600) << 12) | ((second / 60 % 60) << 6) | (second % 60);
            let packed = ((((2026 * 13 + 1) << 5) | day) << 17) | time;
            out.extend((packed + 0x80_0000_0000).to_be_bytes().into_iter().skip(3));
        }
        type_code::DECIMAL => put_decimal(ty.meta, number as u64, out),
        _ => out.extend((number as i32).to_le_bytes()),
    }
}

/// Appends groups of nine digits, counted from the decimal point outwards, big-endian, sign bit inverted
/// (strings/decimal.cc).
fn put_decimal(meta: u16, units: u64, out: &mut Vec<u8>) {
    const BYTES: [usize; 10] = [0, 1, 1, 2, 2, 3, 3, 4, 4, 4];
    let (precision, scale) = (u32::from(meta >> 8), u32::from(meta & 0xff));
    let split = 10u64.pow(scale);
    let (whole, fraction) = (units / split, units % split);
    let at = out.len();
    let mut put = |number: u64, digits: u32| {
        let len = BYTES.get(digits as usize).copied().unwrap_or(4);
        out.extend(number.to_be_bytes().into_iter().skip(8 - len));
    };
    let digits = precision - scale;
    put(whole / 1_000_000_000, digits.saturating_sub(9));
    put(whole % 1_000_000_000, digits.min(9));
    put(fraction, scale);
    if let Some(first) = out.get_mut(at) {
        *first ^= 0x80;
    }
}

/// Tables in the order of [`Tables::NAMES`].
struct Tables(Vec<Table>);

#[derive(Clone, Copy)]
enum Name {
    Warehouse,
    District,
    Stock,
    Customer,
    History,
    Orders,
    NewOrder,
    OrderLine,
}

impl Tables {
    const NAMES: [&str; 8] =
        ["warehouse", "district", "stock", "customer", "history", "orders", "new_order", "order_line"];
}

/// CREATE TABLE statement of `lab tpcc`.
fn create_table(name: &str) -> anyhow::Result<String> {
    let index = schema::TABLES.iter().position(|table| *table == name).with_context(|| format!("no table {name}"))?;
    Ok(schema::create_table(index, false))
}

struct Order {
    id: i64,
    customer: i64,
    entered: i64,
    items: Vec<i64>,
}

#[derive(Default)]
struct District {
    next_order: i64,
    ytd: i64,
    open: VecDeque<Order>,
}

/// Changing columns of a customer and of a STOCK row.
#[derive(Clone, Copy, Default)]
struct Counts {
    first: i64,
    second: i64,
    count: i64,
}

struct Source {
    options: SynthesizeOptions,
    random: Random,
    tables: Tables,
    writer: BinlogWriter,
    file: Option<std::fs::File>,
    bytes: u64,
    transactions: u64,
    executed: GtidSet,
    rows: u64,
    warehouses: Vec<i64>,
    districts: Vec<District>,
    customers: Vec<Counts>,
    stock: Vec<Counts>,
}

impl Source {
    fn new(options: SynthesizeOptions) -> anyhow::Result<Source> {
        let context = StatementContext { default_db: DB.into(), ..StatementContext::default() };
        let mut catalog = Catalog::new(0);
        catalog = catalog.apply(&context, b"CREATE DATABASE tpcc").context("the database")?.catalog;
        for name in Tables::NAMES {
            let sql = create_table(name)?;
            catalog = catalog.apply(&context, sql.as_bytes()).with_context(|| format!("table {name}"))?.catalog;
        }
        let mut tables = Vec::new();
        for (map_id, name) in (90..).zip(Tables::NAMES) {
            tables.push(Table::new(catalog.table(DB, name).with_context(|| format!("table {name}"))?, map_id));
        }
        let warehouses = options.warehouses as usize;
        let districts = warehouses * DISTRICTS as usize;
        Ok(Source {
            random: Random::new(options.seed),
            tables: Tables(tables),
            writer: BinlogWriter::new(1, ChecksumAlgorithm::Crc32, 0),
            file: None,
            bytes: 0,
            transactions: 0,
            executed: GtidSet::new(),
            rows: 0,
            warehouses: vec![0; warehouses],
            districts: (0..districts).map(|_| District { next_order: 1, ..District::default() }).collect(),
            customers: vec![Counts::default(); districts * options.customers as usize],
            stock: vec![Counts { first: 50, ..Counts::default() }; warehouses * options.items as usize],
            options,
        })
    }

    fn begin(&mut self, path: &Path) -> anyhow::Result<()> {
        let file = std::fs::File::create_new(path).with_context(|| format!("cannot make {}", path.display()))?;
        self.file = Some(file);
        let format = FormatDescription::new("9.7.4", ChecksumAlgorithm::Crc32);
        self.writer = BinlogWriter::start_file(1, (START_US / 1_000_000) as u32, &format);
        // A source refuses a file without it.
        self.writer.previous_gtids(&self.executed);
        Ok(())
    }

    fn write(&mut self) -> anyhow::Result<()> {
        let bytes = self.writer.take();
        self.bytes += bytes.len() as u64;
        if let Some(file) = &mut self.file {
            std::io::Write::write_all(file, &bytes).context("cannot write the log")?;
        }
        Ok(())
    }

    /// Ends the file: with the next one's name, or as a server that stops does.
    fn end(&mut self, next: Option<&Path>) -> anyhow::Result<u64> {
        match next.and_then(Path::file_name) {
            Some(name) => self.writer.rotate(name.as_encoded_bytes(), 4),
            None => self.writer.stop(),
        }
        self.write()?;
        self.file = None;
        Ok(std::mem::take(&mut self.bytes))
    }

    fn transaction(&mut self, changes: &[Change]) -> anyhow::Result<()> {
        self.transactions += 1;
        let number = self.transactions;
        let at = START_US + number * APART_US;
        let gtid = Gtid { uuid: Uuid([0x51; 16]), tag: Tag::EMPTY, gno: number };
        self.executed.add(gtid);
        // As from a source that gives no information about what may run in parallel.
        let mut event = GtidEvent::new(Some(gtid), number as i64 - 1, number as i64);
        event.immediate_commit_timestamp_us = at;
        event.original_commit_timestamp_us = at;
        event.immediate_server_version = Some(90_704);
        self.writer.set_timestamp((at / 1_000_000) as u32);
        let (tables, rows) = (&self.tables.0, &mut self.rows);
        self.writer.transaction(&event, |writer| {
            if let [Change::Statement(sql)] = changes {
                writer.statement(DB.as_bytes(), sql.as_bytes());
                return;
            }
            writer.statement(DB.as_bytes(), b"BEGIN");
            for change in changes {
                if let Change::Rows(name, kind, images) = change
                    && let Some(table) = tables.get(*name as usize)
                {
                    *rows += images.len() as u64 / if *kind == RowsKind::Update { 2 } else { 1 };
                    put_rows(writer, table, *kind, images);
                }
            }
            writer.xid(number);
        });
        if self.writer.bytes().len() > WRITE_BYTES { self.write() } else { Ok(()) }
    }

    fn image(&self, name: Name, row: &[Value]) -> Vec<u8> {
        self.tables.0.get(name as usize).map(|table| table.image(row)).unwrap_or_default()
    }

    fn load(&mut self) -> anyhow::Result<()> {
        self.transaction(&[Change::Statement("CREATE DATABASE tpcc".into())])?;
        for name in Tables::NAMES {
            self.transaction(&[Change::Statement(create_table(name)?)])?;
        }
        for w in 0..self.warehouses.len() {
            let mut rows = vec![(Name::Warehouse, self.warehouse(w))];
            rows.extend((0..self.options.items as usize).map(|i| (Name::Stock, self.stock(w, i))));
            for d in 0..DISTRICTS as usize {
                rows.push((Name::District, self.district(w, d)));
                rows.extend((0..self.options.customers as usize).map(|c| (Name::Customer, self.customer(w, d, c))));
            }
            for chunk in rows.chunk_by(|a, b| a.0 as usize == b.0 as usize).flat_map(|run| run.chunks(ROWS_PER_EVENT)) {
                let Some((name, _)) = chunk.first() else { continue };
                let images = chunk.iter().map(|(name, row)| self.image(*name, row)).collect();
                self.transaction(&[Change::Rows(*name, RowsKind::Write, images)])?;
            }
            for d in 0..DISTRICTS as usize {
                for _ in 0..OPEN_ORDERS {
                    self.new_order(w, d)?;
                }
            }
        }
        Ok(())
    }

    /// The specification's mix of writing transactions: 45 New-Order, 43 Payment, 4 Delivery.
    fn run(&mut self) -> anyhow::Result<()> {
        for _ in 0..self.options.transactions {
            let w = self.random.below(self.warehouses.len());
            let d = self.random.below(DISTRICTS as u64) as usize;
            match self.random.below(92) {
                0..45 => self.new_order(w, d)?,
                45..88 => self.payment(w, d)?,
                _ => self.delivery(w)?,
            }
        }
        Ok(())
    }

    fn new_order(&mut self, w: usize, d: usize) -> anyhow::Result<()> {
        let customer = i64::from(self.random.below(self.options.customers));
        let mut changes = Vec::new();
        let before = self.district(w, d);
        let Some(district) = self.districts.get_mut(w * DISTRICTS as usize + d) else { return Ok(()) };
        let id = district.next_order;
        district.next_order += 1;
        changes.push(self.update(Name::District, &before, &self.district(w, d)));
        let entered = self.seconds();
        let mut order = Order { id, customer, entered, items: Vec::new() };
        for _ in 0..LINES {
            order.items.push(i64::from(self.random.below(self.options.items)));
        }
        changes.push(self.insert(Name::Orders, &orders_row(w, d, &order, Value::Null)));
        changes.push(self.insert(Name::NewOrder, &new_order_row(w, d, id)));
        for (number, item) in (0..).zip(&order.items) {
            let item = *item as usize;
            let before = self.stock(w, item);
            let quantity = (number + id) % 10 + 1;
            if let Some(stock) = self.stock.get_mut(w * self.options.items as usize + item) {
                stock.first = if stock.first > quantity + 10 { stock.first - quantity } else { stock.first + 91 };
                stock.second += quantity;
                stock.count += 1;
            }
            changes.push(self.update(Name::Stock, &before, &self.stock(w, item)));
            changes.push(self.insert(Name::OrderLine, &line_row(w, d, &order, number, Value::Null)));
        }
        if let Some(district) = self.districts.get_mut(w * DISTRICTS as usize + d) {
            district.open.push_back(order);
        }
        self.transaction(&changes)
    }

    fn payment(&mut self, w: usize, d: usize) -> anyhow::Result<()> {
        let c = self.random.below(self.options.customers) as usize;
        let amount = 100 + self.random.below(500_000) as i64;
        let before = (self.warehouse(w), self.district(w, d), self.customer(w, d, c));
        if let Some(ytd) = self.warehouses.get_mut(w) {
            *ytd += amount;
        }
        if let Some(district) = self.districts.get_mut(w * DISTRICTS as usize + d) {
            district.ytd += amount;
        }
        let at = self.customer_at(w, d, c);
        if let Some(customer) = self.customers.get_mut(at) {
            customer.second += amount;
            customer.count += 1;
        }
        let (w_id, d_id) = (w as i64 + 1, d as i64 + 1);
        let history =
            row![c as i64 + 1, d_id, w_id, d_id, w_id, self.seconds(), amount % 1_000_000, text(11, amount as u64, 24)];
        let changes = [
            self.update(Name::Warehouse, &before.0, &self.warehouse(w)),
            self.update(Name::District, &before.1, &self.district(w, d)),
            self.update(Name::Customer, &before.2, &self.customer(w, d, c)),
            self.insert(Name::History, &history),
        ];
        self.transaction(&changes)
    }

    fn delivery(&mut self, w: usize) -> anyhow::Result<()> {
        let (mut changes, now) = (Vec::new(), self.seconds());
        for d in 0..DISTRICTS as usize {
            let district = self.districts.get_mut(w * DISTRICTS as usize + d);
            let Some(order) = district.and_then(|district| district.open.pop_front()) else { continue };
            let gone = self.image(Name::NewOrder, &new_order_row(w, d, order.id));
            changes.push(Change::Rows(Name::NewOrder, RowsKind::Delete, vec![gone]));
            let order_row = |carrier| orders_row(w, d, &order, carrier);
            changes.push(self.update(Name::Orders, &order_row(Value::Null), &order_row(Value::Number(7))));
            let images = (0..LINES).flat_map(|n| {
                let row = |at| self.image(Name::OrderLine, &line_row(w, d, &order, n, at));
                [row(Value::Null), row(Value::Number(now))]
            });
            changes.push(Change::Rows(Name::OrderLine, RowsKind::Update, images.collect()));
            let c = order.customer as usize;
            let before = self.customer(w, d, c);
            let at = self.customer_at(w, d, c);
            if let Some(customer) = self.customers.get_mut(at) {
                customer.first += 1;
            }
            changes.push(self.update(Name::Customer, &before, &self.customer(w, d, c)));
        }
        self.transaction(&changes)
    }

    fn update(&self, name: Name, before: &[Value], after: &[Value]) -> Change {
        Change::Rows(name, RowsKind::Update, vec![self.image(name, before), self.image(name, after)])
    }

    fn insert(&self, name: Name, row: &[Value]) -> Change {
        Change::Rows(name, RowsKind::Write, vec![self.image(name, row)])
    }

    fn seconds(&self) -> i64 {
        (self.transactions * APART_US / 1_000_000) as i64
    }

    fn customer_at(&self, w: usize, d: usize, c: usize) -> usize {
        (w * DISTRICTS as usize + d) * self.options.customers as usize + c
    }

    fn warehouse(&self, w: usize) -> Vec<Value> {
        let ytd = self.warehouses.get(w).copied().unwrap_or(0);
        let t = |column: u64, len| text(column, w as u64, len);
        row![w as i64 + 1, t(1, 8), t(2, 15), t(3, 15), t(4, 15), t(5, 2), t(6, 9), 1000, ytd]
    }

    fn district(&self, w: usize, d: usize) -> Vec<Value> {
        let at = w * DISTRICTS as usize + d;
        let (ytd, next) = self.districts.get(at).map_or((0, 0), |district| (district.ytd, district.next_order));
        let t = |column: u64, len| text(20 + column, at as u64, len);
        let (d_id, w_id) = (d as i64 + 1, w as i64 + 1);
        row![d_id, w_id, t(1, 8), t(2, 15), t(3, 15), t(4, 15), t(5, 2), t(6, 9), 1500, ytd, next]
    }

    fn stock(&self, w: usize, item: usize) -> Vec<Value> {
        let at = w * self.options.items as usize + item;
        let counts = self.stock.get(at).copied().unwrap_or_default();
        let mut row = row![item as i64 + 1, w as i64 + 1, counts.first];
        row.extend((0..10).map(|n| Value::from(text(40 + n, at as u64, 24))));
        row.extend(row![counts.second, counts.count, 0, text(51, at as u64, 40)]);
        row
    }

    fn customer(&self, w: usize, d: usize, c: usize) -> Vec<Value> {
        let at = self.customer_at(w, d, c);
        let counts = self.customers.get(at).copied().unwrap_or_default();
        let t = |column: u64, len| text(60 + column, at as u64, len);
        // Last names repeat, as the specification's do.
        let last = text(80, at as u64 % 100, 12);
        row![
            c as i64 + 1,
            d as i64 + 1,
            w as i64 + 1,
            t(1, 12),
            "OE".to_owned(),
            last,
            t(2, 15),
            t(3, 15),
            t(4, 15),
            t(5, 2),
            t(6, 9),
            t(7, 16),
            at as i64,
            "GC".to_owned(),
            5_000_000,
            2500,
            counts.first * 1000,
            counts.second,
            counts.count,
            counts.first,
            t(8, 400),
        ]
    }
}

fn orders_row(w: usize, d: usize, order: &Order, carrier: Value) -> Vec<Value> {
    let mut row = row![order.id, d as i64 + 1, w as i64 + 1, order.customer + 1, order.entered];
    row.push(carrier);
    row.extend(row![LINES, 1]);
    row
}

fn new_order_row(w: usize, d: usize, order: i64) -> Vec<Value> {
    row![order, d as i64 + 1, w as i64 + 1]
}

fn line_row(w: usize, d: usize, order: &Order, number: i64, delivered: Value) -> Vec<Value> {
    let item = order.items.get(number as usize).copied().unwrap_or(0);
    let w_id = w as i64 + 1;
    let mut row = row![order.id, d as i64 + 1, w_id, number + 1, item + 1, w_id];
    row.push(delivered);
    row.extend(row![5, item * 37 % 1_000_000, text(40 + d as u64, item as u64, 24)]);
    row
}

/// A row change of a transaction.
enum Change {
    Statement(String),
    Rows(Name, RowsKind, Vec<Vec<u8>>),
}

fn put_rows(writer: &mut BinlogWriter, table: &Table, kind: RowsKind, images: &[Vec<u8>]) {
    writer.table_map(&TableMapEvent {
        table_id: table.map_id,
        flags: 1,
        db: DB.as_bytes(),
        table: table.def.name.as_bytes(),
        column_types: &table.type_bytes,
        metadata: &table.metadata,
        null_bitmap: &table.nullable,
        optional: &[],
    });
    writer.rows(&RowsEvent {
        kind,
        table_id: table.map_id,
        flags: 1,
        partition: None,
        column_count: table.types.len(),
        before_columns: if kind == RowsKind::Write { &[] } else { &table.all },
        after_columns: if kind == RowsKind::Delete { &[] } else { &table.all },
        rows: &images.concat(),
    });
}

/// Text that is always the same for a column and a row.
fn text(column: u64, row: u64, len: usize) -> String {
    let mut random = Random::new((column << 40) ^ row);
    (0..len).map(|_| char::from(b'a' + random.below(26) as u8)).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use replay::{Grain, ReplayOptions, replay};

    const SMALL: SynthesizeOptions =
        SynthesizeOptions { seed: 3, warehouses: 2, items: 50, customers: 5, transactions: 300 };

    #[test]
    fn the_same_seed_gives_the_same_bytes_and_another_others() {
        let folder = tempfile::tempdir().unwrap();
        let bytes = |name: &str, options| {
            let report = synthesize(&folder.path().join(name), options).unwrap();
            [std::fs::read(report.load).unwrap(), std::fs::read(report.run).unwrap()].concat()
        };
        let first = bytes("a", SMALL);
        assert_eq!(first, bytes("b", SMALL));
        assert_ne!(first, bytes("c", SynthesizeOptions { seed: 4, ..SMALL }));
        assert!(synthesize(&folder.path().join("a"), SMALL).is_err(), "nothing is overwritten");
    }

    /// Compares every before image with the stored row, and checks that sums over the rows agree.
    #[test]
    fn it_replays_with_every_image_checked() {
        let folder = tempfile::tempdir().unwrap();
        let report = synthesize(&folder.path().join("log"), SMALL).unwrap();
        let replayed = replay(&ReplayOptions {
            logs: vec![report.run],
            load: vec![report.load],
            folder: folder.path().join("replay"),
            workers: 2,
            decoders: 1,
            affinity: base::ThreadAffinity::default(),
            grain: Grain::Rows,
            memory_bytes: 64 << 20,
            hot_bytes_max: None,
            on_disk: None,
            check_images: store::CheckImages::All,
            relay_sync: relay_log::SyncPolicy::default(),
            pace: None,
            samples: false,
            reads: 0,
            readers: 0,
            hash: true,
        })
        .unwrap();
        assert_eq!((replayed.measured.rows, replayed.load.unwrap().rows), (report.run_rows, report.load_rows));
        let rows = |name: &str| {
            replayed.tables.iter().find(|table| table.table == name).unwrap_or_else(|| panic!("no {name}")).rows
        };
        assert_eq!((rows("stock"), rows("customer"), rows("district")), (100, 100, 20));
        assert_eq!(rows("order_line"), rows("orders") * LINES as u64);
        assert!(rows("orders") > rows("new_order") && rows("history") > 0);
    }

    #[test]
    fn decimals_and_dates_are_stored_as_the_server_does() {
        let stored = |ty: ColumnType, number| {
            let mut out = Vec::new();
            put_number(&ty, number, &mut out);
            out
        };
        // 1234567890.12 in DECIMAL(12,2), from the example of groups in strings/decimal.cc.
        assert_eq!(
            stored(ColumnType::new(type_code::DECIMAL, (12 << 8) | 2), 123_456_789_012),
            [0x81, 0x0d, 0xfb, 0x38, 0xd2, 0x0c]
        );
        assert_eq!(stored(ColumnType::new(type_code::DECIMAL, (4 << 8) | 4), 1000), [0x83, 0xe8]);
        // 2026-01-01 00:00:01.
        assert_eq!(stored(ColumnType::new(type_code::DATETIME2, 0), 1), [0x99, 0xb8, 0xc2, 0, 1]);
    }
}
