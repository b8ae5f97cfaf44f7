//! Tables of the serial model, and their rows.

use std::collections::BTreeMap;

use crate::log::{self, Stored};

#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Kind {
    Int,
    Big,
    /// VARCHAR(20) in utf8mb4.
    Varchar,
    Text,
}

impl Kind {
    pub(super) fn in_log(self) -> log::Type {
        match self {
            Kind::Int => log::INT,
            Kind::Big => log::BIG,
            Kind::Varchar => log::VARCHAR,
            Kind::Text => log::TEXT,
        }
    }
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

    pub(super) fn omitted(&self, column: usize) -> Value {
        let column = &self.columns[column];
        match (&column.default, column.nullable, column.kind) {
            (Some(value), ..) => value.clone(),
            (None, true, _) => Value::Null,
            (None, false, Kind::Int | Kind::Big) => Value::Number(0),
            (None, false, _) => Value::Bytes(Vec::new()),
        }
    }
}

/// A value as a row image stores it.
fn stored(kind: Kind, value: &Value) -> Stored {
    match (kind, value) {
        (_, Value::Null) => log::NULL,
        (Kind::Int, Value::Number(n)) => log::int(*n as i32),
        (Kind::Big, Value::Number(n)) => log::big(*n),
        (Kind::Varchar, Value::Bytes(b)) => Some([&[b.len() as u8][..], b].concat()),
        (Kind::Text, Value::Bytes(b)) => Some([&(b.len() as u16).to_le_bytes()[..], b].concat()),
        other => panic!("{other:?}"),
    }
}

/// A row image over the present columns; `unused` sets the null bits after them.
pub fn image(shape: &Shape, row: &[Value], present: &[bool], unused: bool) -> Vec<u8> {
    let stored: Vec<Stored> =
        row.iter().zip(&shape.columns).map(|(value, column)| stored(column.kind, value)).collect();
    let mut image = log::image(&stored, present);
    let count = present.iter().filter(|present| **present).count();
    if unused && count % 8 != 0 {
        image[count / 8] |= 0xff << (count % 8);
    }
    image
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
    pub(super) fn key_of(&self, row: &[Value]) -> Vec<u8> {
        if self.shape.key.is_empty() {
            return image(&self.shape, row, &vec![true; row.len()], false);
        }
        let mut key = Vec::new();
        let mut columns = self.shape.key.clone();
        columns.sort_unstable();
        for column in columns {
            key.extend(stored(self.shape.columns[column].kind, &row[column]).unwrap_or_default());
        }
        key
    }

    pub(super) fn full_name(&self) -> String {
        format!("{}.{}", self.db, self.name)
    }

    pub(super) fn row_digest(&self, row: &[Value], copies: u64) -> u64 {
        let full = image(&self.shape, row, &vec![true; row.len()], false);
        row_digest(&self.full_name(), &full, copies)
    }

    pub(super) fn digest(&self) -> u64 {
        self.rows.values().fold(0, |sum, (row, copies)| sum.wrapping_add(self.row_digest(row, *copies)))
    }
}

/// Contribution of one row to a state's digest.
pub fn row_digest(table: &str, full_image: &[u8], copies: u64) -> u64 {
    let seed = base::key_hash(7, table.as_bytes()) as u32;
    base::key_hash(seed, full_image).wrapping_mul(copies.wrapping_mul(2).wrapping_add(1))
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
