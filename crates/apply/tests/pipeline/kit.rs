//! Random histories: a log as a source would write it, and its meaning to a serial reader.
//!
//! In: a seed. Out: relay files, and the state after every transaction. Never here: the code under test.

use std::collections::BTreeMap;

use base::{Gtid, GtidSet, Tag, Uuid};
use binlog::writer::BinlogWriter;
use binlog::{ChecksumAlgorithm, FormatDescription, GtidEvent, RowsEvent, RowsKind, TableMapEvent, row_flags};

/// splitmix64, the same on every machine.
#[derive(Clone)]
pub struct Random(pub u64);

impl Random {
    pub fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    pub fn below(&mut self, n: usize) -> usize {
        (self.next() % n.max(1) as u64) as usize
    }

    pub fn one_in(&mut self, n: usize) -> bool {
        self.below(n) == 0
    }
}

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    Int,
    Big,
    /// VARCHAR(20) in utf8mb4.
    Varchar,
    Text,
}

#[derive(Clone, PartialEq, Eq, Debug, PartialOrd, Ord)]
pub enum Value {
    Null,
    Number(i64),
    Bytes(Vec<u8>),
}

#[derive(Clone, Debug)]
pub struct Column {
    pub name: &'static str,
    pub kind: Kind,
    pub nullable: bool,
    /// Value of the definition's DEFAULT clause.
    pub default: Option<Value>,
}

/// A definition from which tables are made.
#[derive(Clone, Debug)]
pub struct Shape {
    pub columns: Vec<Column>,
    /// Columns of the key; empty for none.
    pub key: Vec<usize>,
    /// PRIMARY KEY or UNIQUE.
    pub unique_only: bool,
}

impl Shape {
    pub fn sql(&self, db: &str, name: &str) -> String {
        format!("CREATE TABLE `{db}`.`{name}` ({})", self.body())
    }

    fn body(&self) -> String {
        let mut parts: Vec<String> = Vec::new();
        for column in &self.columns {
            let ty = match column.kind {
                Kind::Int => "INT",
                Kind::Big => "BIGINT",
                Kind::Varchar => "VARCHAR(20)",
                Kind::Text => "TEXT",
            };
            let null = if column.nullable { "" } else { " NOT NULL" };
            let default = match &column.default {
                Some(Value::Number(n)) => format!(" DEFAULT {n}"),
                Some(Value::Bytes(b)) => format!(" DEFAULT '{}'", String::from_utf8_lossy(b)),
                _ => String::new(),
            };
            parts.push(format!("`{}` {ty}{null}{default}", column.name));
        }
        if !self.key.is_empty() {
            let columns: Vec<String> = self.key.iter().map(|c| format!("`{}`", self.columns[*c].name)).collect();
            let word = if self.unique_only { "UNIQUE KEY u" } else { "PRIMARY KEY" };
            parts.push(format!("{word} ({})", columns.join(", ")));
        }
        parts.join(", ")
    }

    fn omitted(&self, column: usize) -> Value {
        let column = &self.columns[column];
        match (&column.default, column.nullable, column.kind) {
            (Some(value), ..) => value.clone(),
            (None, true, _) => Value::Null,
            (None, false, Kind::Int | Kind::Big) => Value::Number(0),
            (None, false, _) => Value::Bytes(Vec::new()),
        }
    }
}

pub fn stored(kind: Kind, value: &Value, out: &mut Vec<u8>) {
    match (kind, value) {
        (_, Value::Null) => {}
        (Kind::Int, Value::Number(n)) => out.extend((*n as i32).to_le_bytes()),
        (Kind::Big, Value::Number(n)) => out.extend(n.to_le_bytes()),
        (Kind::Varchar, Value::Bytes(b)) => {
            out.push(b.len() as u8);
            out.extend(b);
        }
        (Kind::Text, Value::Bytes(b)) => {
            out.extend((b.len() as u16).to_le_bytes());
            out.extend(b);
        }
        other => panic!("{other:?}"),
    }
}

/// A row image over the present columns; `unused` sets the null bits after them.
pub fn image(shape: &Shape, row: &[Value], present: &[bool], unused: bool) -> Vec<u8> {
    let count = present.iter().filter(|p| **p).count();
    let mut nulls = vec![0u8; count.div_ceil(8)];
    let mut values = Vec::new();
    let mut bit = 0;
    for (column, value) in row.iter().enumerate().filter(|(c, _)| present[*c]) {
        if *value == Value::Null {
            nulls[bit / 8] |= 1 << (bit % 8);
        }
        stored(shape.columns[column].kind, value, &mut values);
        bit += 1;
    }
    if unused && bit % 8 != 0 {
        nulls[bit / 8] |= 0xff << (bit % 8);
    }
    nulls.extend(values);
    nulls
}

pub fn bitmap(present: &[bool]) -> Vec<u8> {
    let mut bits = vec![0u8; present.len().div_ceil(8)];
    for (column, _) in present.iter().enumerate().filter(|(_, p)| **p) {
        bits[column / 8] |= 1 << (column % 8);
    }
    bits
}

/// A table of the serial model.
#[derive(Clone, Debug)]
pub struct Table {
    pub db: String,
    pub name: String,
    pub shape: Shape,
    pub map_id: u64,
    /// Rows by key bytes; for a keyless table by image, with the number of copies.
    pub rows: BTreeMap<Vec<u8>, (Vec<Value>, u64)>,
}

impl Table {
    fn key_of(&self, row: &[Value]) -> Vec<u8> {
        if self.shape.key.is_empty() {
            return image(&self.shape, row, &vec![true; row.len()], false);
        }
        let mut key = Vec::new();
        let mut columns = self.shape.key.clone();
        columns.sort_unstable();
        for column in columns {
            stored(self.shape.columns[column].kind, &row[column], &mut key);
        }
        key
    }

    fn full_name(&self) -> String {
        format!("{}.{}", self.db, self.name)
    }

    fn row_digest(&self, row: &[Value], copies: u64) -> u64 {
        let full = image(&self.shape, row, &vec![true; row.len()], false);
        row_digest(&self.full_name(), &full, copies)
    }
}

/// Contribution of one row to a state's digest.
pub fn row_digest(table: &str, full_image: &[u8], copies: u64) -> u64 {
    let seed = base::key_hash(7, table.as_bytes()) as u32;
    base::key_hash(seed, full_image).wrapping_mul(copies.wrapping_mul(2).wrapping_add(1))
}

/// One event, owned.
#[derive(Clone, Debug)]
pub enum Event {
    Map {
        id: u64,
        db: String,
        table: String,
        shape: Shape,
    },
    Rows {
        kind: RowsKind,
        id: u64,
        columns: usize,
        before: Vec<u8>,
        after: Vec<u8>,
        rows: Vec<u8>,
        flags: u16,
    },
    Query {
        db: String,
        sql: String,
    },
    RowsQuery(String),
    Xid,
    /// An event of any type with these flags; the body is written as is.
    Raw(u8, u16, Vec<u8>),
}

impl Event {
    pub fn write(&self, writer: &mut BinlogWriter) {
        match self {
            Event::Map { id, db, table, shape } => {
                let (mut types, mut metadata) = (Vec::new(), Vec::new());
                for column in &shape.columns {
                    types.push(match column.kind {
                        Kind::Int => 3,
                        Kind::Big => 8,
                        Kind::Varchar => 15,
                        Kind::Text => 252,
                    });
                    match column.kind {
                        Kind::Varchar => metadata.extend([80, 0]),
                        Kind::Text => metadata.push(2),
                        _ => {}
                    }
                }
                let nullable: Vec<bool> = shape.columns.iter().map(|c| c.nullable).collect();
                writer.table_map(&TableMapEvent {
                    table_id: *id,
                    flags: 1,
                    db: db.as_bytes(),
                    table: table.as_bytes(),
                    column_types: &types,
                    metadata: &metadata,
                    null_bitmap: &bitmap(&nullable),
                    optional: &[],
                });
            }
            Event::Rows { kind, id, columns, before, after, rows, flags } => writer.rows(&RowsEvent {
                kind: *kind,
                table_id: *id,
                flags: *flags,
                partition: None,
                column_count: *columns,
                before_columns: before,
                after_columns: after,
                rows,
            }),
            Event::Query { db, sql } => writer.statement(db.as_bytes(), sql.as_bytes()),
            Event::RowsQuery(sql) => writer.rows_query(sql.as_bytes()),
            Event::Xid => writer.xid(77),
            Event::Raw(event_type, flags, body) => writer.event(*event_type, *flags, |out| out.extend_from_slice(body)),
        }
    }
}

/// One transaction of the log.
#[derive(Clone, Debug)]
pub struct Transaction {
    pub gtid: Option<Gtid>,
    pub events: Vec<Event>,
    pub compressed: bool,
    /// Its GTID occurs earlier in the log: it must have no effect.
    pub duplicate: bool,
    /// last_committed and sequence_number of its Gtid event.
    pub clock: (i64, i64),
}

/// Clock of a source that lets nothing run concurrently.
const SERIAL_CLOCK: (i64, i64) = (0, 1);

/// State after a transaction.
#[derive(Clone, Debug)]
pub struct State {
    pub digest: u64,
    pub executed: GtidSet,
    pub tables: Vec<String>,
}

/// Features that a history may contain.
#[derive(Clone, Copy, Debug)]
pub struct Flavour {
    pub transactions: usize,
    pub compressed: bool,
    pub partial_images: bool,
    pub ddl: bool,
    pub duplicates: bool,
    pub huge: bool,
}

impl Flavour {
    pub fn of(random: &mut Random) -> Flavour {
        Flavour {
            transactions: 40 + random.below(160),
            compressed: random.one_in(2),
            partial_images: random.one_in(2),
            ddl: !random.one_in(4),
            duplicates: random.one_in(2),
            huge: random.one_in(3),
        }
    }
}

/// A log and its meaning.
pub struct History {
    pub transactions: Vec<Transaction>,
    /// `states[n]` is the state after the n-th transaction; `states[0]` is empty.
    pub states: Vec<State>,
    pub random: Random,
    /// Every event carries a checksum.
    pub always_checksums: bool,
}

/// A row before and after a change.
type Images = (Option<Vec<Value>>, Option<Vec<Value>>);

struct Author {
    random: Random,
    flavour: Flavour,
    tables: Vec<Table>,
    digest: u64,
    executed: GtidSet,
    gnos: Vec<u64>,
    next_name: usize,
    next_map_id: u64,
}

pub fn shapes() -> Vec<Shape> {
    let column = |name, kind, nullable| Column { name, kind, nullable, default: None };
    let with = |name, kind, nullable, default| Column { name, kind, nullable, default: Some(default) };
    let wide = ["w0", "w1", "w2", "w3", "w4", "w5", "w6", "w7", "w8", "w9"];
    vec![
        // A leading key of fixed size.
        Shape {
            columns: vec![
                column("id", Kind::Int, false),
                with("v", Kind::Varchar, true, Value::Bytes(b"dv".to_vec())),
                with("n", Kind::Big, false, Value::Number(7)),
                column("t", Kind::Text, true),
            ],
            key: vec![0],
            unique_only: false,
        },
        // A key after other columns.
        Shape {
            columns: vec![
                column("x", Kind::Int, true),
                column("k", Kind::Varchar, false),
                column("t", Kind::Text, true),
            ],
            key: vec![1],
            unique_only: false,
        },
        // A key whose parts are not adjacent, nor in table order.
        Shape {
            columns: vec![
                column("p", Kind::Int, false),
                column("f", Kind::Varchar, true),
                column("q", Kind::Varchar, false),
                with("z", Kind::Int, true, Value::Number(-1)),
            ],
            key: vec![2, 0],
            unique_only: false,
        },
        // No key.
        Shape {
            columns: vec![
                column("x", Kind::Int, true),
                with("s", Kind::Varchar, true, Value::Bytes(b"s".to_vec())),
                column("t", Kind::Text, true),
            ],
            key: vec![],
            unique_only: false,
        },
        // A leading key of variable size, from a UNIQUE key.
        Shape {
            columns: vec![
                column("k", Kind::Varchar, false),
                column("n", Kind::Int, false),
                column("v", Kind::Int, true),
            ],
            key: vec![0, 1],
            unique_only: true,
        },
        // No key; two bytes of null bits, six bits of them unused.
        Shape {
            columns: wide.iter().map(|name| column(name, Kind::Int, true)).collect(),
            key: vec![],
            unique_only: false,
        },
    ]
}

impl History {
    pub fn generate(seed: u64) -> History {
        let mut random = Random(seed);
        let flavour = Flavour::of(&mut random);
        History::with(random, flavour)
    }

    pub fn with(random: Random, flavour: Flavour) -> History {
        let mut author = Author {
            random,
            flavour,
            tables: Vec::new(),
            digest: 0,
            executed: GtidSet::new(),
            gnos: vec![0; sources().len()],
            next_name: 0,
            next_map_id: 100,
        };
        let mut history = History {
            transactions: Vec::new(),
            states: vec![author.state()],
            random: Random(author.random.next()),
            always_checksums: false,
        };
        let opening = ["CREATE DATABASE d", "CREATE DATABASE e"];
        for sql in opening {
            history.push(&mut author, |_| vec![Event::Query { db: String::new(), sql: sql.into() }]);
        }
        for shape in shapes() {
            history.push(&mut author, |author| author.create(shape.clone()));
        }
        while history.transactions.len() < flavour.transactions {
            if author.flavour.duplicates && author.random.one_in(12) {
                // Repeats an earlier one, as after a reconnect.
                let at = author.random.below(history.transactions.len());
                let mut again = history.transactions[at].clone();
                again.duplicate = true;
                history.transactions.push(again);
                history.states.push(author.state());
                continue;
            }
            let dice = author.random.below(100);
            history.push(&mut author, |author| match dice {
                0..10 if author.flavour.ddl => author.ddl(),
                10..14 if author.flavour.ddl => author.create_select(),
                14..17 => vec![
                    Event::Query { db: String::new(), sql: "BEGIN".into() },
                    Event::Query { db: String::new(), sql: "COMMIT".into() },
                ],
                17..20 if author.flavour.huge => author.changes(120),
                _ => {
                    let statements = 1 + author.random.below(5);
                    author.changes(statements)
                }
            });
        }
        history
    }

    fn push(&mut self, author: &mut Author, write: impl FnOnce(&mut Author) -> Vec<Event>) {
        let gtid = author.next_gtid();
        let events = write(author);
        // Sources compress transactions of row changes, including CREATE … SELECT.
        let alone = matches!(events.as_slice(), [Event::Query { .. }]);
        let compressed = author.flavour.compressed && !alone && author.random.one_in(2);
        author.executed.add(gtid);
        self.transactions.push(Transaction {
            gtid: Some(gtid),
            events,
            compressed,
            duplicate: false,
            clock: SERIAL_CLOCK,
        });
        self.states.push(author.state());
    }

    /// Inserts a transaction of other events before number `at`, with a GTID of its own; `table` is what it creates.
    pub fn plant(&mut self, at: usize, events: Vec<Event>, table: Option<&str>) -> Gtid {
        let gno = 1 + self.transactions.iter().filter(|t| t.gtid.is_some_and(|g| g.uuid == PLANTED)).count() as u64;
        let gtid = Gtid { uuid: PLANTED, tag: Tag::EMPTY, gno };
        let compressed = self.random.one_in(3) && !matches!(events.as_slice(), [Event::Query { .. }]);
        self.transactions
            .insert(at, Transaction { gtid: Some(gtid), events, compressed, duplicate: false, clock: SERIAL_CLOCK });
        self.states.insert(at + 1, self.states[at].clone());
        for state in &mut self.states[at + 1..] {
            state.executed.add(gtid);
            state.tables.extend(table.map(str::to_string));
            state.tables.sort();
        }
        gtid
    }

    /// The relay files: name, and bytes after the magic number.
    pub fn files(&self) -> Vec<(String, Vec<u8>)> {
        let mut random = self.random.clone();
        let mut files = Vec::new();
        let mut next = 0;
        while next < self.transactions.len() || files.is_empty() {
            let checksum = |random: &mut Random| {
                let without = random.one_in(2) && !self.always_checksums;
                if without { ChecksumAlgorithm::None } else { ChecksumAlgorithm::Crc32 }
            };
            let format = FormatDescription::new("9.7.4", checksum(&mut random));
            let mut writer = BinlogWriter::start_file(1, 1_700_000_000, &format);
            writer.previous_gtids(&GtidSet::new());
            let end = (next + 1 + random.below(80)).min(self.transactions.len());
            for transaction in self.transactions.get(next..end).unwrap_or(&[]) {
                if random.one_in(25) {
                    // As in a relay log when the source's file changes.
                    writer.rotate(b"other-bin.000009", 4);
                    writer.format_description(&FormatDescription::new("9.7.4", checksum(&mut random)), 0);
                }
                let mut gtid = GtidEvent::new(transaction.gtid, transaction.clock.0, transaction.clock.1);
                gtid.immediate_commit_timestamp_us = 1_700_000_000_000_000;
                let events = |writer: &mut BinlogWriter| {
                    for event in &transaction.events {
                        event.write(writer);
                    }
                };
                if transaction.compressed {
                    writer.compressed_transaction(&gtid, events).unwrap();
                } else {
                    writer.transaction(&gtid, events);
                }
            }
            writer.rotate(b"next", 4);
            files.push((format!("relay-bin.{:06}", files.len() + 1), writer.take()[4..].to_vec()));
            next = end;
        }
        files
    }
}

/// Source of planted transactions.
const PLANTED: Uuid = Uuid([0xEE; 16]);

fn sources() -> Vec<(Uuid, Tag)> {
    vec![(Uuid([0x11; 16]), Tag::EMPTY), (Uuid([0x22; 16]), Tag::EMPTY), (Uuid([0x22; 16]), Tag::new(b"blue").unwrap())]
}

impl Author {
    fn state(&self) -> State {
        let mut tables: Vec<String> = self.tables.iter().map(Table::full_name).collect();
        tables.sort();
        State { digest: self.digest, executed: self.executed.clone(), tables }
    }

    fn next_gtid(&mut self) -> Gtid {
        let sources = sources();
        let source = self.random.below(sources.len());
        // GTIDs with gaps.
        self.gnos[source] += 1 + self.random.below(10) as u64 / 9;
        let (uuid, tag) = sources[source];
        Gtid { uuid, tag, gno: self.gnos[source] }
    }

    fn create(&mut self, shape: Shape) -> Vec<Event> {
        let (db, name) = self.fresh_name();
        let sql = shape.sql(&db, &name);
        self.add_table(db.clone(), name, shape);
        vec![Event::Query { db, sql }]
    }

    fn fresh_name(&mut self) -> (String, String) {
        self.next_name += 1;
        let db = if self.random.one_in(3) { "e" } else { "d" };
        (db.into(), format!("t{}", self.next_name))
    }

    fn add_table(&mut self, db: String, name: String, shape: Shape) {
        self.next_map_id += 1;
        self.tables.push(Table { db, name, shape, map_id: self.next_map_id, rows: BTreeMap::new() });
    }

    fn ddl(&mut self) -> Vec<Event> {
        if self.tables.len() < 4 {
            let shape = self.any_shape();
            return self.create(shape);
        }
        let at = self.random.below(self.tables.len());
        let table = &self.tables[at];
        let (db, name) = (table.db.clone(), table.name.clone());
        let query = |sql: String| vec![Event::Query { db: "d".into(), sql }];
        match self.random.below(8) {
            0 => {
                self.forget_rows(at);
                self.tables.remove(at);
                query(format!("DROP TABLE `{db}`.`{name}`"))
            }
            1 => {
                self.forget_rows(at);
                query(format!("TRUNCATE TABLE `{db}`.`{name}`"))
            }
            2 => {
                let (to_db, to_name) = self.fresh_name();
                self.rename(at, &to_db, &to_name);
                query(format!("RENAME TABLE `{db}`.`{name}` TO `{to_db}`.`{to_name}`"))
            }
            3 => {
                // A swap through a third name.
                let other = (at + 1) % self.tables.len();
                let (odb, oname) = (self.tables[other].db.clone(), self.tables[other].name.clone());
                self.rename(at, "d", "tmp_swap");
                self.rename(other, &db, &name);
                self.rename(at, &odb, &oname);
                query(format!(
                    "RENAME TABLE `{db}`.`{name}` TO d.tmp_swap, `{odb}`.`{oname}` TO `{db}`.`{name}`, \
                     d.tmp_swap TO `{odb}`.`{oname}`"
                ))
            }
            4 => query("CREATE USER 'someone'@'%' IDENTIFIED BY 'secret'".into()),
            5 => {
                self.next_name += 1;
                let column = self.tables[at].shape.columns[0].name;
                query(format!("CREATE INDEX i{} ON `{db}`.`{name}` (`{column}`)", self.next_name))
            }
            6 => {
                let shape = self.tables[at].shape.clone();
                let (to_db, to_name) = self.fresh_name();
                self.add_table(to_db.clone(), to_name.clone(), shape);
                query(format!("CREATE TABLE `{to_db}`.`{to_name}` LIKE `{db}`.`{name}`"))
            }
            _ => {
                let shape = self.any_shape();
                self.create(shape)
            }
        }
    }

    fn any_shape(&mut self) -> Shape {
        let shapes = shapes();
        shapes[self.random.below(shapes.len())].clone()
    }

    /// CREATE TABLE … SELECT: a statement, then rows, in one transaction.
    fn create_select(&mut self) -> Vec<Event> {
        let shape = self.any_shape();
        let create = self.create(shape);
        let mut events = vec![Event::Query { db: "d".into(), sql: "BEGIN".into() }];
        for event in create {
            let Event::Query { db, sql } = event else { continue };
            events.push(Event::Query { db, sql: format!("{sql} START TRANSACTION") });
        }
        let at = self.tables.len() - 1;
        let rows = 1 + self.random.below(20);
        self.statement(at, Some(RowsKind::Write), rows, &mut events);
        events.push(Event::Xid);
        events
    }

    fn changes(&mut self, statements: usize) -> Vec<Event> {
        let mut events = vec![Event::Query { db: "d".into(), sql: "BEGIN".into() }];
        for _ in 0..statements {
            if self.tables.is_empty() {
                break;
            }
            match self.random.below(30) {
                0 => events.push(Event::Query { db: "d".into(), sql: "SAVEPOINT `s`".into() }),
                1 => self.system_rows(&mut events),
                2 => {
                    // A table map without rows, as for a foreign key's parent; its definition need not be known.
                    let shape = self.any_shape();
                    events.push(Event::Map { id: 9, db: "d".into(), table: "no_such".into(), shape });
                }
                _ => {}
            }
            let at = self.random.below(self.tables.len());
            let rows = if self.random.one_in(6) { self.random.below(30) } else { 1 + self.random.below(3) };
            self.statement(at, None, rows, &mut events);
        }
        events.push(Event::Xid);
        events
    }

    fn system_rows(&mut self, events: &mut Vec<Event>) {
        let shape = shapes()[0].clone();
        let row = vec![Value::Number(1), Value::Null, Value::Number(2), Value::Null];
        let present = vec![true; 4];
        events.push(Event::Map { id: 8, db: "mysql".into(), table: "something".into(), shape: shape.clone() });
        events.push(Event::Rows {
            kind: RowsKind::Write,
            id: 8,
            columns: 4,
            before: vec![],
            after: bitmap(&present),
            rows: image(&shape, &row, &present, false),
            flags: row_flags::STMT_END,
        });
    }

    /// One statement: a table map and its rows, possibly in several events.
    fn statement(&mut self, at: usize, kind: Option<RowsKind>, rows: usize, events: &mut Vec<Event>) {
        let kind = kind.unwrap_or_else(|| match self.random.below(10) {
            0..4 => RowsKind::Write,
            4..8 => RowsKind::Update,
            _ => RowsKind::Delete,
        });
        if self.random.one_in(5) {
            events.push(Event::RowsQuery("UPDATE something".into()));
        }
        let table = &self.tables[at];
        let (id, shape) = (table.map_id, table.shape.clone());
        events.push(Event::Map { id, db: table.db.clone(), table: table.name.clone(), shape: shape.clone() });
        let mode = if self.flavour.partial_images { self.random.below(3) } else { 0 };
        let unused = self.random.one_in(4);
        // A functional index adds a hidden column, visible only in the bitmaps.
        let hidden = self.random.one_in(5);
        // Rows whose images have the same columns share an event; others start a new one.
        let mut open: Option<(Vec<u8>, Vec<u8>, Vec<u8>)> = None;
        for _ in 0..rows.max(1) {
            let Some((before_row, after_row)) = self.change_row(at, kind) else { continue };
            let (before, after) = self.present(&shape, kind, mode, before_row.as_deref(), after_row.as_deref());
            let columns = |present: &[bool]| {
                let mut bits = bitmap(present);
                if hidden && !present.len().is_multiple_of(8) {
                    bits[present.len() / 8] |= 1 << (present.len() % 8);
                }
                bits
            };
            let (before_bits, after_bits) = (
                if kind.has_before() { columns(&before) } else { vec![] },
                if kind.has_after() { columns(&after) } else { vec![] },
            );
            let mut bytes = Vec::new();
            if let Some(row) = &before_row {
                bytes.extend(image(&shape, row, &before, unused));
            }
            if let Some(row) = &after_row {
                bytes.extend(image(&shape, row, &after, unused));
            }
            let cut = self.random.one_in(8);
            match &mut open {
                Some((b, a, all)) if !cut && *b == before_bits && *a == after_bits => all.extend(bytes),
                _ => {
                    if let Some(full) = open.take() {
                        events.push(rows_event(kind, id, &shape, full, 0));
                    }
                    open = Some((before_bits, after_bits, bytes));
                }
            }
        }
        if let Some(full) = open.take() {
            events.push(rows_event(kind, id, &shape, full, row_flags::STMT_END));
        } else {
            // A statement that changed nothing in the end.
            events.push(Event::Rows {
                kind: RowsKind::Write,
                id: TableMapEvent::DUMMY_TABLE_ID,
                columns: 0,
                before: vec![],
                after: vec![],
                rows: vec![],
                flags: row_flags::STMT_END,
            });
        }
    }

    /// Returns which columns the images contain: 0 FULL, 1 MINIMAL, 2 NOBLOB.
    fn present(
        &mut self,
        shape: &Shape,
        kind: RowsKind,
        mode: usize,
        before: Option<&[Value]>,
        after: Option<&[Value]>,
    ) -> (Vec<bool>, Vec<bool>) {
        let columns = shape.columns.len();
        let all = vec![true; columns];
        let keyless = shape.key.is_empty();
        let changed = |c: usize| before.is_none_or(|b| after.is_none_or(|a| a[c] != b[c]));
        let mut before_present = all.clone();
        let mut after_present = all;
        for c in 0..columns {
            let in_key = shape.key.contains(&c);
            let blob = shape.columns[c].kind == Kind::Text;
            match mode {
                1 => {
                    before_present[c] = keyless || in_key;
                    after_present[c] = if kind == RowsKind::Write {
                        // Left out when it has its default.
                        in_key || after.is_some_and(|a| a[c] != shape.omitted(c)) || self.random.one_in(2)
                    } else {
                        changed(c)
                    };
                }
                2 => {
                    before_present[c] = keyless || in_key || !blob;
                    after_present[c] = in_key || !blob || changed(c);
                }
                _ => {}
            }
        }
        if kind == RowsKind::Update && !after_present.contains(&true) {
            // A source does not log an UPDATE that changes nothing; here it is logged, with one column.
            after_present[0] = true;
        }
        if kind == RowsKind::Write && !after_present.contains(&true) {
            after_present[0] = true;
        }
        (before_present, after_present)
    }

    /// Changes one row of the model and returns its images.
    fn change_row(&mut self, at: usize, kind: RowsKind) -> Option<Images> {
        match kind {
            RowsKind::Write => {
                let row = self.new_row(at)?;
                self.put(at, &row);
                Some((None, Some(row)))
            }
            RowsKind::Delete => {
                let row = self.pick(at)?;
                self.take(at, &row);
                Some((Some(row), None))
            }
            _ => {
                let old = self.pick(at)?;
                let mut new = old.clone();
                let columns = new.len();
                for _ in 0..1 + self.random.below(2) {
                    let column = self.random.below(columns);
                    if !self.tables[at].shape.key.contains(&column) || self.random.one_in(3) {
                        new[column] = self.value(at, column);
                    }
                }
                self.take(at, &old);
                let table = &self.tables[at];
                if !table.shape.key.is_empty() && table.rows.contains_key(&table.key_of(&new)) {
                    self.put(at, &old);
                    return None;
                }
                self.put(at, &new);
                Some((Some(old), Some(new)))
            }
        }
    }

    fn new_row(&mut self, at: usize) -> Option<Vec<Value>> {
        for _ in 0..8 {
            let shape = self.tables[at].shape.clone();
            let row: Vec<Value> = (0..shape.columns.len())
                .map(|c| {
                    if !shape.key.contains(&c) && self.random.one_in(3) { shape.omitted(c) } else { self.value(at, c) }
                })
                .collect();
            let table = &self.tables[at];
            if shape.key.is_empty() || !table.rows.contains_key(&table.key_of(&row)) {
                return Some(row);
            }
        }
        None
    }

    fn value(&mut self, at: usize, column: usize) -> Value {
        let shape = &self.tables[at].shape;
        let (kind, nullable) = (shape.columns[column].kind, shape.columns[column].nullable);
        let keyless = shape.key.is_empty();
        if nullable && self.random.one_in(5) {
            return Value::Null;
        }
        // Few values, so that keys recur and copies of a keyless row meet.
        let range = if keyless { 3 } else { 40 };
        let n = self.random.below(range) as i64;
        match kind {
            Kind::Int | Kind::Big => Value::Number(n - 5),
            Kind::Varchar => Value::Bytes(format!("k{n}").into_bytes()),
            Kind::Text => Value::Bytes(vec![b'a' + (n % 26) as u8; self.random.below(if keyless { 3 } else { 200 })]),
        }
    }

    fn pick(&mut self, at: usize) -> Option<Vec<Value>> {
        let count = self.tables[at].rows.len();
        if count == 0 {
            return None;
        }
        let nth = self.random.below(count);
        self.tables[at].rows.values().nth(nth).map(|(row, _)| row.clone())
    }

    fn put(&mut self, at: usize, row: &[Value]) {
        let table = &mut self.tables[at];
        let key = table.key_of(row);
        let copies = table.rows.get(&key).map_or(0, |(_, copies)| *copies);
        if copies > 0 {
            self.digest = self.digest.wrapping_sub(table.row_digest(row, copies));
        }
        self.digest = self.digest.wrapping_add(table.row_digest(row, copies + 1));
        table.rows.insert(key, (row.to_vec(), copies + 1));
    }

    fn take(&mut self, at: usize, row: &[Value]) {
        let table = &mut self.tables[at];
        let key = table.key_of(row);
        let copies = table.rows.get(&key).map(|(_, copies)| *copies).unwrap();
        self.digest = self.digest.wrapping_sub(table.row_digest(row, copies));
        if copies > 1 {
            self.digest = self.digest.wrapping_add(table.row_digest(row, copies - 1));
            table.rows.insert(key, (row.to_vec(), copies - 1));
        } else {
            table.rows.remove(&key);
        }
    }

    fn forget_rows(&mut self, at: usize) {
        let table = &mut self.tables[at];
        for (row, copies) in table.rows.values() {
            self.digest = self.digest.wrapping_sub(table.row_digest(row, *copies));
        }
        table.rows.clear();
    }

    fn rename(&mut self, at: usize, db: &str, name: &str) {
        let table = &mut self.tables[at];
        for (row, copies) in table.rows.values() {
            self.digest = self.digest.wrapping_sub(table.row_digest(row, *copies));
        }
        (table.db, table.name) = (db.into(), name.into());
        for (row, copies) in table.rows.values() {
            self.digest = self.digest.wrapping_add(table.row_digest(row, *copies));
        }
    }
}

fn rows_event(
    kind: RowsKind,
    id: u64,
    shape: &Shape,
    (before, after, rows): (Vec<u8>, Vec<u8>, Vec<u8>),
    flags: u16,
) -> Event {
    Event::Rows { kind, id, columns: shape.columns.len(), before, after, rows, flags }
}
