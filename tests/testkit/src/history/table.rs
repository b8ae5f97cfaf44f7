//! Tables of the serial model, and their rows.

use std::collections::BTreeMap;

use crate::log::{self, BIG, INT, NULL, Row, Stored, TEXT, Type, VARCHAR, big, int, text, varchar};

#[derive(Clone, Debug)]
pub struct Column {
    pub name: &'static str,
    pub ty: Type,
    pub nullable: bool,
    /// The definition's DEFAULT clause: its SQL and its value.
    pub default: Option<(&'static str, Stored)>,
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
            let ty = match column.ty {
                INT => "INT",
                BIG => "BIGINT",
                VARCHAR => "VARCHAR(20)",
                _ => "TEXT",
            };
            let null = if column.nullable { "" } else { " NOT NULL" };
            let default = column.default.as_ref().map_or_else(String::new, |(sql, _)| format!(" DEFAULT {sql}"));
            parts.push(format!("`{}` {ty}{null}{default}", column.name));
        }
        if !self.key.is_empty() {
            let columns: Vec<String> = self.key.iter().map(|c| format!("`{}`", self.columns[*c].name)).collect();
            let word = if self.unique_only { "UNIQUE KEY u" } else { "PRIMARY KEY" };
            parts.push(format!("{word} ({})", columns.join(", ")));
        }
        parts.join(", ")
    }

    pub(super) fn omitted(&self, column: usize) -> Stored {
        let column = &self.columns[column];
        match (&column.default, column.ty) {
            (Some((_, value)), _) => value.clone(),
            _ if column.nullable => NULL,
            (None, INT) => int(0),
            (None, BIG) => big(0),
            (None, VARCHAR) => varchar(""),
            (None, _) => text(""),
        }
    }
}

/// A table of the serial model.
#[derive(Clone, Debug)]
pub struct Table {
    pub db: String,
    pub name: String,
    pub shape: Shape,
    pub map_id: u64,
    /// Rows by key bytes; for a keyless table by image, with the number of copies.
    pub rows: BTreeMap<Vec<u8>, (Row, u64)>,
}

impl Table {
    pub(super) fn key_of(&self, row: &[Stored]) -> Vec<u8> {
        if self.shape.key.is_empty() {
            return log::full_image(row);
        }
        let mut key = Vec::new();
        let mut columns = self.shape.key.clone();
        columns.sort_unstable();
        columns.iter().for_each(|column| key.extend(row[*column].iter().flatten()));
        key
    }

    pub(super) fn full_name(&self) -> String {
        format!("{}.{}", self.db, self.name)
    }

    pub(super) fn row_digest(&self, row: &[Stored], copies: u64) -> u64 {
        row_digest(&self.full_name(), &log::full_image(row), copies)
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
    let column = |name, ty, nullable| Column { name, ty, nullable, default: None };
    let with = |name, ty, nullable, sql, value| Column { name, ty, nullable, default: Some((sql, value)) };
    let shape =
        |columns: &[Column], key: &[usize]| Shape { columns: columns.to_vec(), key: key.to_vec(), unique_only: false };
    let (k, t, x) = (column("k", VARCHAR, false), column("t", TEXT, true), column("x", INT, true));
    let (v, n) = (with("v", VARCHAR, true, "'dv'", varchar("dv")), with("n", BIG, false, "7", big(7)));
    let (f, z) = (column("f", VARCHAR, true), with("z", INT, true, "-1", int(-1)));
    let wide = ["w0", "w1", "w2", "w3", "w4", "w5", "w6", "w7", "w8", "w9"].map(|name| column(name, INT, true));
    vec![
        // A leading key of fixed size.
        shape(&[column("id", INT, false), v, n, t.clone()], &[0]),
        // A key after other columns.
        shape(&[x.clone(), k.clone(), t.clone()], &[1]),
        // A key whose parts are not adjacent, nor in table order.
        shape(&[column("p", INT, false), f, column("q", VARCHAR, false), z], &[2, 0]),
        // No key.
        shape(&[x, with("s", VARCHAR, true, "'s'", varchar("s")), t], &[]),
        // A leading key of variable size, from a UNIQUE key.
        Shape { unique_only: true, ..shape(&[k, column("n", INT, false), column("v", INT, true)], &[0, 1]) },
        // No key; two bytes of null bits, six bits of them unused.
        shape(&wide, &[]),
    ]
}
