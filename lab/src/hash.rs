//! `lab hash`: a server's rows as one number, the same that `lab replay --hash` prints for the same rows.

use std::fmt;

use client::ConnectOptions;
use compare::TableHash;
use serde::Serialize;
use source::TableFilter;

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
    Ok(HashReport { hash: replay::total(&tables), tables })
}
