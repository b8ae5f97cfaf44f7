//! `lab hash`: a server's rows as one number, the same that `lab replay --hash` prints for the same rows, and that a
//! stopped replica's folder has here.

use std::fmt;
use std::path::Path;

use base::GtidSet;
use client::ConnectOptions;
use compare::TableHash;
use replica::{Folder, ReadOnly};
use serde::Serialize;
use source::TableFilter;
use store::Snapshot;

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

/// Hashes every table of a stopped replica's folder.
///
/// # Errors
/// The folder cannot be read, or its replay stopped early.
pub(crate) fn hash_stopped(data: &Path) -> anyhow::Result<HashReport> {
    let (folder, _lock) = Folder::open_stopped(data)?;
    let read = ReadOnly::open(&folder, GtidSet::new())?;
    if let Some(stop) = &read.stop {
        anyhow::bail!("the replica's folder is not whole: {stop}");
    }
    let store = &read.pipeline.store;
    let tables = compare::hash_store(store, &Snapshot::pin(store))?;
    Ok(HashReport { hash: replay::total(&tables), tables })
}
