//! `lab hash`: what a server holds as one number, the same that `lab replay --hash` prints for the same rows.

use std::fmt;

use client::ConnectOptions;
use compare::TableHash;
use serde::Serialize;
use source::TableFilter;
use xxhash_rust::xxh3::xxh3_128;

/// A server's tables.
#[derive(Clone, Debug, Serialize)]
pub struct HashReport {
    /// By database and name.
    pub tables: Vec<TableHash>,
    /// Over all of them.
    pub hash: String,
}

impl fmt::Display for HashReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for table in &self.tables {
            writeln!(f, "{:<32} {:>12} rows   {}", format!("{}.{}", table.db, table.table), table.rows, table.hash)?;
        }
        write!(f, "result hash {}", self.hash)
    }
}

/// Hashes every table of a server that `patterns` name (`SCHEMA.TABLE`, `SCHEMA.*`, `TABLE`; none: all), as one
/// consistent snapshot shows them. Nothing is locked: write to the server meanwhile and you get the hash of a moment.
///
/// # Errors
/// When the server cannot be read.
pub fn hash(server: &ConnectOptions, patterns: &[String]) -> anyhow::Result<HashReport> {
    let tables = compare::hash_server(server, &TableFilter::parse(patterns))?;
    Ok(HashReport { hash: total(&tables), tables })
}

/// One number for all tables; names count, their order does not.
#[must_use]
pub fn total(tables: &[TableHash]) -> String {
    let of = |table: &TableHash| {
        xxh3_128(format!("{}.{}\0{}\0{}", table.db, table.table, table.rows, table.hash).as_bytes())
    };
    format!("{:032x}", tables.iter().map(of).fold(0u128, u128::wrapping_add))
}
