//! `lab hash`: a server's rows as one number, the same that `lab replay --hash` prints for the same rows.

use std::fmt;

use client::ConnectOptions;
use compare::TableHash;
use serde::Serialize;
use source::TableFilter;
use xxhash_rust::xxh3::xxh3_128;

/// Hashes of a server's tables.
#[derive(Clone, Debug, Serialize)]
pub struct HashReport {
    /// Sorted by database and name.
    pub tables: Vec<TableHash>,
    /// Hash over all tables.
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

/// Hashes every table that `patterns` name (`SCHEMA.TABLE`, `SCHEMA.*`, `TABLE`; none: all) in one consistent snapshot.
/// Takes no locks: if the server is written to meanwhile, the hash is that of one moment.
///
/// # Errors
/// The server cannot be read.
pub fn hash(server: &ConnectOptions, patterns: &[String]) -> anyhow::Result<HashReport> {
    let tables = compare::hash_server(server, &TableFilter::parse(patterns))?;
    Ok(HashReport { hash: total(&tables), tables })
}

/// Hash over all tables; depends on their names, not on their order.
#[must_use]
pub fn total(tables: &[TableHash]) -> String {
    let of = |table: &TableHash| {
        xxh3_128(format!("{}.{}\0{}\0{}", table.db, table.table, table.rows, table.hash).as_bytes())
    };
    format!("{:032x}", tables.iter().map(of).fold(0u128, u128::wrapping_add))
}
