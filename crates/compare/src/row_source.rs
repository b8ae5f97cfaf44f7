//! Sources of one table's rows: a snapshot of our store, or a server's consistent snapshot.
//!
//! In: a snapshot, or a connection with an open transaction. Out: comparable images (`values::binary_protocol`) in any
//! order, with the same bytes for the same row wherever it is stored. Never here: comparison.

use std::ops::ControlFlow;
use std::sync::Arc;

use catalog::TableDef;
use client::{ClientError, Connection};
use store::{Snapshot, Store};
use values::binary_protocol::{ResultColumn, RowEncoder, SELECT_NULL, comparable_image, select_expression};

use crate::buckets::{Cell, Checksums};
use crate::error::{CompareError, at_server};
use crate::shape::{Shape, quoted};

/// Receives a comparable image and the number of equal rows that it represents.
pub(crate) type EachRow<'a> = &'a mut dyn FnMut(&[u8], u64) -> Result<(), CompareError>;

/// One side of a comparison. Each call yields the same rows.
pub trait RowSource {
    /// Passes every row to `each`.
    ///
    /// # Errors
    /// If the rows cannot be read, or `each` fails.
    fn rows(&mut self, each: EachRow<'_>) -> Result<(), CompareError>;
}

/// A table in a snapshot of our store.
pub struct StoreRows<'a> {
    pub store: &'a Arc<Store>,
    /// The snapshot to read.
    pub snapshot: &'a Snapshot,
    /// Definition of the table at that snapshot.
    pub table: &'a TableDef,
    /// Columns of the table.
    pub shape: &'a Shape,
}

impl RowSource for StoreRows<'_> {
    fn rows(&mut self, each: EachRow<'_>) -> Result<(), CompareError> {
        let shape = self.shape;
        let (mut offsets, mut image) = (Vec::new(), Vec::new());
        let flow = self.store.scan(self.snapshot, self.table, |row| {
            image.clear();
            let result =
                comparable_image(&shape.types, &shape.layout, &shape.not_known, row.image, &mut offsets, &mut image)
                    .map_err(|error| damaged(shape, error))
                    .and_then(|_| each(&image, row.count));
            match result {
                Ok(()) => ControlFlow::Continue(()),
                Err(error) => ControlFlow::Break(error),
            }
        });
        match flow.map_err(CompareError::Store)? {
            ControlFlow::Break(error) => Err(error),
            ControlFlow::Continue(()) => Ok(()),
        }
    }
}

/// A table on a server, as seen in a connection's open snapshot.
pub struct ServerRows<'a> {
    /// Connection with an open transaction.
    pub connection: &'a mut Connection,
    /// Address of the server, for messages.
    pub server: &'a str,
    /// Database and name of the table on the server.
    pub table: (&'a str, &'a str),
    pub shape: &'a Shape,
}

impl ServerRows<'_> {
    fn select(&self) -> String {
        let columns: Vec<String> = (self.shape.names.iter().zip(&self.shape.types).enumerate())
            .map(|(column, (name, ty))| match self.shape.not_known.contains(&column) {
                true => SELECT_NULL.to_owned(),
                false => select_expression(ty, &quoted(name)),
            })
            .collect();
        format!("SELECT {} FROM {}.{}", columns.join(", "), quoted(self.table.0), quoted(self.table.1))
    }
}

impl RowSource for ServerRows<'_> {
    fn rows(&mut self, each: EachRow<'_>) -> Result<(), CompareError> {
        let (server, shape) = (self.server, self.shape);
        let sql = self.select();
        let statement = at_server(server, self.connection.prepare(&sql))?;
        let mut rows = at_server(server, self.connection.execute(&statement, &[]))?;
        let result: Vec<ResultColumn> =
            rows.types().iter().map(|ty| ResultColumn { code: ty.code, unsigned: ty.unsigned }).collect();
        let encoder = RowEncoder::new(&shape.types, &result).map_err(|error| damaged(shape, error))?;
        let mut image = Vec::new();
        let outcome = loop {
            let row = match rows.next_row() {
                Ok(Some(row)) => row,
                Ok(None) => break Ok(()),
                Err(error) => break Err(CompareError::Server { server: server.to_string(), error }),
            };
            let (nulls, values) = row.raw();
            image.clear();
            let encoded = encoder.encode(nulls, values, &mut image).map_err(|error| damaged(shape, error));
            if let Err(error) = encoded.and_then(|()| each(&image, 1)) {
                break Err(error);
            }
        };
        match self.connection.close_statement(statement) {
            Ok(()) | Err(ClientError::Broken) => outcome,
            Err(error) => outcome.and(Err(CompareError::Server { server: server.to_string(), error })),
        }
    }
}

fn damaged(shape: &Shape, error: values::ValueError) -> CompareError {
    CompareError::Row { db: shape.db.clone(), table: shape.table.clone(), error }
}

/// Number of rows, bytes and sum of hashes of one of our tables, comparable with any other copy of it.
///
/// # Errors
/// If the store cannot be read, or a stored row does not fit the table.
pub fn table_checksum(
    store: &Arc<Store>,
    snapshot: &Snapshot,
    table: &catalog::TableDef,
) -> Result<Cell, CompareError> {
    let shape = Shape::of(table);
    total(&mut StoreRows { store, snapshot, table, shape: &shape })
}

/// Number of rows, bytes and sum of hashes of one side.
pub(crate) fn total(rows: &mut dyn RowSource) -> Result<Cell, CompareError> {
    let mut sums = Checksums::default();
    rows.rows(&mut |image, copies| {
        // The total does not depend on the rows' cells.
        sums.add(&[], image, copies);
        Ok(())
    })?;
    Ok(sums.total())
}
