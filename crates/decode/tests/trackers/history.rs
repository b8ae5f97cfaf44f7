//! Random histories over tables with unique keys, foreign keys, collations and DDL, as a source would write them,
//! with the things that every transaction really touches. [`testkit::history`] draws other ones: it knows the state after
//! each transaction, and of each table one key.
//!
//! In: a seed. Out: log files, and for every transaction its [`Touches`]. Never here: the code under test.

use std::collections::{BTreeMap, BTreeSet};

use base::{Random, Uuid};
use binlog::{XaPrepare, XaXid};
use testkit::log::{self, Author, VARCHAR, inserts, varchar};

#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Value {
    Null,
    Int(i32),
    Text(String),
}

impl Value {
    fn stored(&self) -> log::Stored {
        match self {
            Value::Null => log::NULL,
            Value::Int(n) => log::int(*n),
            Value::Text(text) => varchar(text),
        }
    }
}

/// Comparison of a column in a key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Compare {
    /// By its bytes.
    Exact,
    /// Ignores case; trailing spaces count (utf8mb4_0900_ai_ci).
    NoCase,
    /// Ignores case and trailing spaces (utf8mb4_general_ci).
    NoCasePad,
    /// Ignores case and trailing spaces, in a collation whose weights are not implemented (utf8mb4_hungarian_ci).
    Unknown,
}

#[derive(Clone, Debug)]
pub(crate) struct Column {
    pub name: &'static str,
    /// VARCHAR(20) with this comparison; None for INT.
    pub text: Option<Compare>,
    pub nullable: bool,
}

#[derive(Clone, Debug)]
pub(crate) struct Unique {
    pub name: &'static str,
    pub columns: Vec<usize>,
    /// Prefix length of its only column, in characters.
    pub prefix: Option<usize>,
    /// True if its part is the expression (`v` + 0) of the INT column, which is in `columns`.
    pub expression: bool,
}

#[derive(Clone, Debug)]
pub(crate) struct Foreign {
    pub column: usize,
    pub parent: usize,
    pub parent_column: usize,
    /// True for ON DELETE CASCADE done by the engine, unlogged.
    pub cascades: bool,
}

#[derive(Clone, Debug)]
pub(crate) struct Table {
    pub name: &'static str,
    pub columns: Vec<Column>,
    /// The first one is the primary key; empty for a keyless table.
    pub keys: Vec<Unique>,
    pub foreign: Vec<Foreign>,
}

fn int(name: &'static str, nullable: bool) -> Column {
    Column { name, text: None, nullable }
}

fn text(name: &'static str, compare: Compare, nullable: bool) -> Column {
    Column { name, text: Some(compare), nullable }
}

fn key(name: &'static str, columns: &[usize]) -> Unique {
    Unique { name, columns: columns.to_vec(), prefix: None, expression: false }
}

/// Returns tables with every kind of key that has a rule.
pub(crate) fn tables() -> Vec<Table> {
    use Compare::{Exact, NoCase, NoCasePad, Unknown};
    let table = |name, columns: Vec<Column>, keys: Vec<Unique>| Table { name, columns, keys, foreign: Vec::new() };
    let mut all = vec![
        table(
            "users",
            vec![int("id", false), text("email", NoCase, true), int("v", true)],
            vec![key("PRIMARY", &[0]), key("email", &[1])],
        ),
        table("codes", vec![text("code", NoCasePad, false), int("n", true)], vec![key("PRIMARY", &[0])]),
        table(
            "pairs",
            vec![int("id", false), int("a", true), text("b", NoCasePad, true), int("x", true)],
            vec![key("PRIMARY", &[0]), key("ab", &[1, 2])],
        ),
        table(
            "heads",
            vec![int("id", false), text("name", NoCase, false), int("v", true)],
            vec![key("PRIMARY", &[0]), Unique { prefix: Some(1), ..key("head", &[1]) }],
        ),
        table("plain", vec![int("a", true), int("b", true)], vec![]),
        table(
            "odd",
            vec![int("id", false), text("t", Unknown, true), int("v", true)],
            vec![key("PRIMARY", &[0]), key("t", &[1])],
        ),
        table("odd_key", vec![text("k", Unknown, false), int("v", true)], vec![key("PRIMARY", &[0])]),
        table(
            "computed",
            vec![int("id", false), int("v", true), text("t", Exact, true)],
            vec![key("PRIMARY", &[0]), Unique { expression: true, ..key("sum", &[1]) }],
        ),
        table(
            "parents",
            vec![int("id", false), text("code", NoCase, false), int("v", true)],
            vec![key("PRIMARY", &[0]), key("code", &[1])],
        ),
        table(
            "children",
            vec![int("id", false), int("pid", true), text("pcode", NoCase, true), int("v", true)],
            vec![key("PRIMARY", &[0])],
        ),
        table("owned", vec![int("id", false), int("pid", true), int("v", true)], vec![key("PRIMARY", &[0])]),
    ];
    let foreign = |column, parent_column, cascades| Foreign { column, parent: 8, parent_column, cascades };
    all[9].foreign = vec![foreign(1, 0, false), foreign(2, 1, false)];
    all[10].foreign = vec![foreign(1, 0, true)];
    all
}

/// Planted faults: parts that the log's definitions leave out.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Blind {
    /// All text compares by its bytes.
    pub collations: bool,
    /// No foreign keys.
    pub foreign_keys: bool,
}

impl Table {
    fn sql(&self, all: &[Table], blind: Blind) -> String {
        let mut parts = Vec::new();
        for column in &self.columns {
            let null = if column.nullable { "" } else { " NOT NULL" };
            let ty = match column.text {
                None => "INT".to_owned(),
                Some(compare) => {
                    let collation = match compare {
                        _ if blind.collations => "utf8mb4_0900_bin",
                        Compare::Exact => "utf8mb4_0900_bin",
                        Compare::NoCase => "utf8mb4_0900_ai_ci",
                        Compare::NoCasePad => "utf8mb4_general_ci",
                        Compare::Unknown => "utf8mb4_hungarian_ci",
                    };
                    format!("VARCHAR(20) CHARACTER SET utf8mb4 COLLATE {collation}")
                }
            };
            parts.push(format!("`{}` {ty}{null}", column.name));
        }
        for unique in &self.keys {
            let columns: Vec<String> = unique.columns.iter().map(|c| format!("`{}`", self.columns[*c].name)).collect();
            let mut columns = columns.join(", ");
            if let Some(prefix) = unique.prefix {
                columns.push_str(&format!("({prefix})"));
            }
            if unique.expression {
                columns = format!("(({columns} + 0))");
            }
            let word =
                if unique.name == "PRIMARY" { "PRIMARY KEY".into() } else { format!("UNIQUE KEY `{}`", unique.name) };
            parts.push(format!("{word} ({columns})"));
        }
        for (at, foreign) in self.foreign.iter().enumerate().filter(|_| !blind.foreign_keys) {
            let parent = &all[foreign.parent];
            parts.push(format!(
                "CONSTRAINT `{}_{at}` FOREIGN KEY (`{}`) REFERENCES `{}` (`{}`){}",
                self.name,
                self.columns[foreign.column].name,
                parent.name,
                parent.columns[foreign.parent_column].name,
                if foreign.cascades { " ON DELETE CASCADE" } else { "" }
            ));
        }
        format!("CREATE TABLE `{}` ({})", self.name, parts.join(", "))
    }

    fn types(&self) -> Vec<log::Type> {
        self.columns.iter().map(|column| if column.text.is_some() { VARCHAR } else { log::INT }).collect()
    }

    /// Returns a change as the log has it, with FULL, MINIMAL or NOBLOB images.
    fn logged(&self, change: &Change, image: usize) -> log::Change {
        let row = |row: &Option<Vec<Value>>| Some(row.as_ref()?.iter().map(Value::stored).collect());
        let change = log::Change { rows: vec![(row(&change.0), row(&change.1))], ..inserts(self.name, []) };
        let all: Vec<usize> = (0..self.columns.len()).collect();
        // No column is a BLOB.
        if image == 1 { change.minimal(self.keys.first().map_or(&all, |key| &key.columns)) } else { change }
    }

    /// Returns a key's value as its collation compares it; None if it contains NULL.
    fn key_value(&self, unique: &Unique, row: &[Value]) -> Option<Vec<Value>> {
        unique.columns.iter().map(|column| self.compared(*column, &row[*column], unique.prefix)).collect()
    }

    fn compared(&self, column: usize, value: &Value, prefix: Option<usize>) -> Option<Value> {
        match (value, self.columns[column].text) {
            (Value::Null, _) => None,
            (Value::Text(text), Some(compare)) => {
                let text: String = text.chars().take(prefix.unwrap_or(usize::MAX)).collect();
                Some(Value::Text(match compare {
                    Compare::Exact => text,
                    Compare::NoCase => text.to_lowercase(),
                    Compare::NoCasePad | Compare::Unknown => text.to_lowercase().trim_end().to_owned(),
                }))
            }
            (value, _) => Some(value.clone()),
        }
    }
}

/// A thing that transactions can conflict over.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Thing {
    /// A value of a unique key.
    Key(usize, &'static str, Vec<Value>),
    /// A value that foreign keys reference: table and column.
    Referred(usize, usize, Value),
    /// A table.
    Table(usize),
    /// An XA transaction.
    Xa(usize),
}

/// Things that a transaction touches; `false` if it shares the thing with others that do so too.
#[derive(Clone, Debug, Default)]
pub(crate) struct Touches {
    pub things: BTreeMap<Thing, bool>,
    /// True if it may affect anything.
    pub all: bool,
}

impl Touches {
    fn add(&mut self, thing: Thing, alone: bool) {
        *self.things.entry(thing).or_default() |= alone;
    }

    /// Returns the thing over which two transactions conflict.
    pub(crate) fn conflict(&self, other: &Touches) -> Option<String> {
        if self.all || other.all {
            return Some("a statement".into());
        }
        self.things.iter().find_map(|(thing, alone)| {
            let theirs = other.things.get(thing)?;
            (*alone || *theirs).then(|| format!("{thing:?}"))
        })
    }
}

/// A row before and after a change.
type Change = (Option<Vec<Value>>, Option<Vec<Value>>);

#[derive(Clone, Debug)]
enum Body {
    /// Creates a table.
    Create(usize),
    Statement(String),
    /// Changes rows of these tables.
    Rows(Vec<(usize, Change)>),
    /// XA PREPARE of such changes.
    Prepare(usize, Vec<(usize, Change)>),
    /// XA COMMIT, or XA ROLLBACK of what changed nothing.
    EndXa(usize, &'static str),
}

/// One transaction.
pub(crate) struct Transaction {
    body: Body,
    pub touches: Touches,
    pub session: u32,
    /// FULL, MINIMAL or NOBLOB.
    image: usize,
    /// Number of the earlier transaction that it must wait for according to the source; 0 if none.
    pub commit_parent: usize,
    /// True for the first transaction of a file.
    pub new_file: bool,
    pub compressed: bool,
}

/// A history; transactions are numbered from 1.
pub(crate) struct History {
    tables: Vec<Table>,
    pub transactions: Vec<Transaction>,
    rows: Vec<Vec<Vec<Value>>>,
    random: Random,
    /// True if some images lack columns.
    partial: bool,
    /// True if transactions touch what a stock replica's InnoDB locks, and some are XA transactions.
    innodb: bool,
    /// Prepared XA transactions, with what they touch.
    prepared: Vec<(usize, Touches)>,
}

impl History {
    /// A history for a stock replica.
    pub(crate) fn for_innodb(seed: u64, transactions: usize) -> History {
        History::of(seed, transactions, true)
    }

    pub(crate) fn generate(seed: u64, transactions: usize) -> History {
        History::of(seed, transactions, false)
    }

    fn of(seed: u64, transactions: usize, innodb: bool) -> History {
        let tables = tables();
        let mut random = Random::new(seed);
        let partial = random.one_in(2);
        let rows = vec![Vec::new(); tables.len()];
        let (transactions_wanted, transactions, prepared) = (transactions, Vec::new(), Vec::new());
        let mut history = History { tables, transactions, rows, random, partial, innodb, prepared };
        let everything = Touches { all: true, ..Touches::default() };
        history.push(Body::Statement("CREATE DATABASE d".into()), everything);
        for at in 0..history.tables.len() {
            let mut touches = Touches::default();
            history.touch_definition(at, &mut touches);
            history.push(Body::Create(at), touches);
        }
        while history.transactions.len() < transactions_wanted {
            history.step();
        }
        history.stamp();
        history
    }

    fn push(&mut self, body: Body, touches: Touches) {
        let session = self.random.below(5) as u32 + 1;
        let image = if self.partial { self.random.below(3) } else { 0 };
        let compressed = self.random.one_in(4);
        let new_file = self.transactions.is_empty() || self.random.one_in(25);
        self.transactions.push(Transaction { body, touches, session, image, commit_parent: 0, new_file, compressed });
    }

    /// A statement claims its table, and for InnoDB those at the other end of its foreign keys.
    fn touch_definition(&self, at: usize, touches: &mut Touches) {
        touches.add(Thing::Table(at), true);
        if !self.innodb {
            return;
        }
        for foreign in &self.tables[at].foreign {
            touches.add(Thing::Table(foreign.parent), true);
        }
        for (child, table) in self.tables.iter().enumerate() {
            if table.foreign.iter().any(|foreign| foreign.parent == at) {
                touches.add(Thing::Table(child), true);
            }
        }
    }

    fn is_held(&self, touches: &Touches) -> bool {
        self.prepared.iter().any(|(_, held)| held.conflict(touches).is_some())
    }

    fn step(&mut self) {
        let mut touches = Touches::default();
        if !self.prepared.is_empty() && self.random.one_in(6) {
            let which = self.random.below(self.prepared.len());
            let (xid, touches) = self.prepared.remove(which);
            let only_itself = touches.things.len() == 1;
            let how = if only_itself && self.random.one_in(2) { "ROLLBACK" } else { "COMMIT" };
            self.push(Body::EndXa(xid, how), touches);
            return;
        }
        if self.random.one_in(30) {
            let at = self.random.below(self.tables.len());
            let name = self.tables[at].name;
            let count = self.transactions.len();
            let column = self.tables[at].columns[0].name;
            self.touch_definition(at, &mut touches);
            let sql = match self.random.below(4) {
                0 => {
                    touches = Touches { all: true, ..Touches::default() };
                    format!("CREATE USER u{count}")
                }
                1 => format!("ALTER TABLE `{name}` COMMENT = 'c{count}'"),
                _ => format!("CREATE INDEX i{count} ON `{name}` (`{column}`)"),
            };
            if !touches.all && self.is_held(&touches) {
                return;
            }
            self.push(Body::Statement(sql), touches);
            return;
        }
        let mut changes = Vec::new();
        let before = (!self.prepared.is_empty()).then(|| self.rows.clone());
        for _ in 0..1 + self.random.below(4) {
            let at = self.random.below(self.tables.len());
            if let Some(change) = self.change(at) {
                self.touch(at, &change, &mut touches);
                changes.push((at, change));
            }
        }
        if let Some(before) = before
            && self.is_held(&touches)
        {
            self.rows = before;
            return;
        }
        if self.innodb && self.prepared.len() < 3 && self.random.one_in(12) {
            let xid = self.random.below(4);
            touches.add(Thing::Xa(xid), true);
            if !self.is_held(&touches) {
                self.prepared.push((xid, touches.clone()));
                self.push(Body::Prepare(xid, changes), touches);
                return;
            }
            touches.things.remove(&Thing::Xa(xid));
        }
        self.push(Body::Rows(changes), touches);
    }

    fn value(&mut self, at: usize, column: usize) -> Value {
        let column = self.tables[at].columns[column].clone();
        if column.nullable && self.random.one_in(6) {
            return Value::Null;
        }
        let n = self.random.below(14);
        match column.text {
            None => Value::Int(n as i32 - 3),
            Some(_) => {
                let letter = ["a", "A", "b", "B", "c", "C", "d", "e", "f", "G", "g", "h", "i", "J"][n];
                let tail = ["", "", "x", "X", " "][self.random.below(5)];
                Value::Text(format!("{letter}{tail}"))
            }
        }
    }

    /// Returns a change that the source would accept.
    fn change(&mut self, at: usize) -> Option<Change> {
        let columns = self.tables[at].columns.len();
        match self.random.below(10) {
            0..5 => {
                let row: Vec<Value> = (0..columns).map(|column| self.value(at, column)).collect();
                self.fits(at, &row, None).then(|| {
                    self.rows[at].push(row.clone());
                    (None, Some(row))
                })
            }
            5..8 => {
                let which = self.random.below(self.rows[at].len());
                let old = self.rows[at].get(which)?.clone();
                let mut new = old.clone();
                let column = self.random.below(columns);
                new[column] = self.value(at, column);
                let free = self.is_free(at, &old, Some(&new));
                (new != old && free && self.fits(at, &new, Some(which))).then(|| {
                    self.rows[at][which] = new.clone();
                    (Some(old), Some(new))
                })
            }
            _ => {
                let which = self.random.below(self.rows[at].len());
                let old = self.rows[at].get(which)?.clone();
                if !self.is_free(at, &old, None) {
                    return None;
                }
                self.rows[at].remove(which);
                // Rows that the engine deletes with it are not in the log.
                for (child, table) in self.tables.iter().enumerate() {
                    for foreign in table.foreign.iter().filter(|foreign| foreign.parent == at && foreign.cascades) {
                        self.rows[child].retain(|row| row[foreign.column] != old[foreign.parent_column]);
                    }
                }
                Some((Some(old), None))
            }
        }
    }

    /// True if no other row has its keys and its parents exist.
    fn fits(&self, at: usize, row: &[Value], own: Option<usize>) -> bool {
        let table = &self.tables[at];
        let others = || self.rows[at].iter().enumerate().filter(|(place, _)| Some(*place) != own).map(|(_, row)| row);
        let unique = table.keys.iter().all(|unique| {
            let value = table.key_value(unique, row);
            value.is_none() || others().all(|other| table.key_value(unique, other) != value)
        });
        unique
            && table.foreign.iter().all(|foreign| {
                let value = table.compared(foreign.column, &row[foreign.column], None);
                value.is_none() || self.parent_has(foreign, &value)
            })
    }

    fn parent_has(&self, foreign: &Foreign, value: &Option<Value>) -> bool {
        let (parent, column) = (&self.tables[foreign.parent], foreign.parent_column);
        self.rows[foreign.parent].iter().any(|row| parent.compared(column, &row[column], None) == *value)
    }

    /// True if no child references the old value, except children that are deleted with it.
    fn is_free(&self, at: usize, old: &[Value], new: Option<&[Value]>) -> bool {
        self.tables.iter().enumerate().all(|(child, table)| {
            table.foreign.iter().filter(|foreign| foreign.parent == at).all(|foreign| {
                let column = foreign.parent_column;
                let of = |row: &[Value]| self.tables[at].compared(column, &row[column], None);
                let stays = new.is_some_and(|new| new[column] == old[column]);
                let own = foreign.column;
                stays
                    || foreign.cascades && new.is_none()
                    || self.rows[child].iter().all(|row| table.compared(own, &row[own], None) != of(old))
            })
        })
    }

    fn touch(&self, at: usize, (old, new): &Change, touches: &mut Touches) {
        let table = &self.tables[at];
        touches.add(Thing::Table(at), table.keys.is_empty() && old.is_some());
        for (place, unique) in table.keys.iter().enumerate() {
            let of = |row: &Vec<Value>| table.key_value(unique, row);
            let (old, new) = (old.as_ref().and_then(of), new.as_ref().and_then(of));
            if place == 0 || old != new {
                for value in [old, new].into_iter().flatten() {
                    touches.add(Thing::Key(at, unique.name, value), true);
                }
            }
        }
        for foreign in &table.foreign {
            let of = |row: &Vec<Value>| table.compared(foreign.column, &row[foreign.column], None);
            let moved = self.innodb && old.is_some() && new.is_some() && {
                let (old, new) = (old.as_ref().unwrap(), new.as_ref().unwrap());
                table.keys.first().is_some_and(|key| key.columns.iter().any(|column| old[*column] != new[*column]))
            };
            let (old, new) = (old.as_ref().and_then(of), new.as_ref().and_then(of));
            if old != new || moved {
                for value in [old, new].into_iter().flatten() {
                    let thing = Thing::Referred(foreign.parent, foreign.parent_column, value);
                    touches.add(thing, false);
                }
            }
        }
        let mut seen = BTreeSet::new();
        for (child, foreign) in self.tables.iter().enumerate().flat_map(|(c, t)| t.foreign.iter().map(move |f| (c, f)))
        {
            if foreign.parent != at {
                continue;
            }
            let of = |row: &Vec<Value>| table.compared(foreign.parent_column, &row[foreign.parent_column], None);
            let (old, new) = (old.as_ref().and_then(of), new.as_ref().and_then(of));
            if old == new && !self.innodb {
                continue;
            }
            if foreign.cascades && old.is_some() && new.is_none() {
                touches.add(Thing::Table(child), true);
            }
            if seen.insert(foreign.parent_column) {
                for value in [old, new].into_iter().flatten() {
                    touches.add(Thing::Referred(at, foreign.parent_column, value), true);
                }
            }
        }
    }

    /// Gives every transaction a commit parent that a source might have given it: at least the last transaction that
    /// it conflicts with.
    fn stamp(&mut self) {
        for at in 0..self.transactions.len() {
            let mine = &self.transactions[at].touches;
            let needed = (0..at).rev().find(|earlier| mine.conflict(&self.transactions[*earlier].touches).is_some());
            let needed = needed.map_or(0, |earlier| earlier + 1);
            let more = self.random.below(3).min(at - needed);
            self.transactions[at].commit_parent = needed + more;
        }
    }

    fn logged(&self, changes: &[(usize, Change)], image: usize) -> Vec<log::Change> {
        changes.iter().map(|(at, change)| self.tables[*at].logged(change, image)).collect()
    }

    /// Returns the files without their magic numbers. `left_out` selects transactions to omit.
    pub(crate) fn files(&self, blind: Blind, left_out: impl Fn(usize) -> bool) -> Vec<Vec<u8>> {
        let mut author = Author::new(Uuid([7; 16]));
        for table in &self.tables {
            author.know(table.name, &table.types());
        }
        let mut files = Vec::new();
        for (at, transaction) in self.transactions.iter().enumerate() {
            author.last = at as u64;
            if transaction.new_file && at > 0 {
                files.push(author.end_file().split_off(4));
            }
            if left_out(at) {
                continue;
            }
            (author.session, author.compressed) = (transaction.session, transaction.compressed);
            let parent = transaction.commit_parent as u64;
            match &transaction.body {
                Body::Create(at) => author.sql_after(parent, &self.tables[*at].sql(&self.tables, blind)),
                Body::Statement(sql) => author.sql_after(parent, sql),
                Body::Rows(changes) => author.rows_after(parent, &self.logged(changes, transaction.image)),
                Body::Prepare(xid, changes) => author.transaction_after(parent, |events| {
                    let id = format!("X'{xid:02x}',X'',1");
                    events.sql(&format!("XA START {id}"));
                    self.logged(changes, transaction.image).iter().for_each(|change| events.change(change));
                    events.sql(&format!("XA END {id}"));
                    let xid = XaXid::new(1, &[*xid as u8], b"").unwrap();
                    events.writer.xa_prepare(&XaPrepare { one_phase: false, xid });
                }),
                Body::EndXa(xid, how) => author.sql_after(parent, &format!("XA {how} X'{xid:02x}',X'',1")),
            };
        }
        files.push(author.events());
        files
    }
}
