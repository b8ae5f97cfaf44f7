//! One hash per table, which is equal for equal contents wherever they are stored.
//!
//! In: a snapshot of our store, or a server. Out: per table the number of rows and the sum of the 128-bit hashes of
//! their comparable images without virtual columns. Never here: a lock on a server; two servers hashed while they are being written to are not
//! at a common GTID set.

use std::sync::Arc;

use client::ConnectOptions;
use client::session::reading_session;
use serde::Serialize;
use source::TableFilter;
use store::{Snapshot, Store};

use crate::buckets::Cell;
use crate::error::{CompareError, at_server};
use crate::row_source::{ServerRows, StoreRows, total};
use crate::schema::ServerSchema;
use crate::shape::Shape;

/// Contents of a table as one number.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub struct TableHash {
    /// Database of the table.
    pub db: String,
    /// Name of the table.
    pub table: String,
    pub rows: u64,
    /// Wrapping sum of the rows' 128-bit hashes, 32 hexadecimal digits.
    pub hash: String,
}

impl TableHash {
    fn of(db: &str, table: &str, cell: &Cell) -> TableHash {
        TableHash { db: db.into(), table: table.into(), rows: cell.rows, hash: format!("{:032x}", cell.hashes) }
    }
}

/// Hashes all tables of a snapshot, ordered by database and name.
///
/// # Errors
/// If the store cannot be read, or a stored row does not fit its table.
pub fn hash_store(store: &Arc<Store>, snapshot: &Snapshot) -> Result<Vec<TableHash>, CompareError> {
    let hash = |table: &Arc<catalog::TableDef>| {
        let is_virtual = |column: &catalog::Column| column.generated == Some(catalog::GeneratedKind::Virtual);
        let columns = table.columns.iter().enumerate();
        // Nor has the server's hash any of them.
        let not_known = columns.filter(|(_, column)| is_virtual(column)).map(|(at, _)| at).collect();
        let shape = Shape { not_known, ..Shape::of(table) };
        Ok(TableHash::of(&table.db, &table.name, &total(&mut StoreRows { store, snapshot, table, shape: &shape })?))
    };
    snapshot.catalog().tables().map(hash).collect()
}

/// Hashes all tables of a server that the filter selects, ordered by database and name, in one consistent snapshot.
///
/// # Errors
/// If the server cannot be reached or read, or has a column type without a row image here.
pub fn hash_server(server: &ConnectOptions, tables: &TableFilter) -> Result<Vec<TableHash>, CompareError> {
    let name = server.to_string();
    let mut connection = at_server(&name, reading_session(server))?;
    at_server(&name, connection.exec("START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY"))?;
    let mut schema = ServerSchema::read(&mut connection, &name, tables)?;
    schema.tables.sort_by(|(_, a), (_, b)| (&a.db, &a.name).cmp(&(&b.db, &b.name)));
    let mut hashes = Vec::new();
    for (_, table) in &schema.tables {
        let problem = |reason| CompareError::NoShape { db: table.db.clone(), table: table.name.clone(), reason };
        let columns = table.columns.iter().enumerate();
        let not_known = columns.filter(|(_, column)| column.is_virtual).map(|(at, _)| at).collect();
        let shape = Shape { not_known, ..table.shape().map_err(problem)? };
        let at = (table.db.as_str(), table.name.as_str());
        let mut rows = ServerRows { connection: &mut connection, server: &name, table: at, shape: &shape };
        hashes.push(TableHash::of(&table.db, &table.name, &total(&mut rows)?));
    }
    Ok(hashes)
}
