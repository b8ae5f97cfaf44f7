//! Reads rows of one table in a connection's snapshot and converts them to images.
//!
//! In: a connection, a table's definition, the end of the SELECT. Out: batches of images with keys. Never here: more
//! than one batch in memory.

use std::sync::Arc;

use catalog::{RowKey, TableDef};
use client::session::quoted;
use client::{ClientError, Connection};
use values::ColumnType;
use values::binary_protocol::{ResultColumn, RowEncoder, SELECT_NULL, select_expression};

use crate::batch::RowBatch;
use crate::definitions::Name;
use crate::error::{CopyError, at_table};

/// Most rows in a batch, because each takes list space besides its bytes.
const BATCH_ROWS_MAX: usize = 32_768;

/// Reader of one table.
#[derive(Debug)]
pub(crate) struct TableReader {
    pub def: Arc<TableDef>,
    /// Name on the source.
    pub name: Name,
    key: RowKey,
    types: Vec<ColumnType>,
    /// SELECT of all columns by name, including invisible and generated ones.
    select: String,
    batch_bytes: usize,
}

/// Receives a full batch, which is cleared afterwards.
pub(crate) type EachBatch<'a> = &'a mut dyn FnMut(&RowBatch) -> Result<(), CopyError>;

impl TableReader {
    pub(crate) fn new(def: &Arc<TableDef>, name: &Name, batch_bytes: usize) -> TableReader {
        let types = def.column_types();
        let left_out = def.left_out();
        let columns: Vec<String> = (def.columns.iter().enumerate())
            .map(|(at, column)| match left_out.contains(&at) {
                true => SELECT_NULL.to_owned(),
                false => select_expression(&column.ty, &quoted(&column.name)),
            })
            .collect();
        let select = format!("SELECT {} FROM {}.{}", columns.join(", "), quoted(&name.0), quoted(&name.1));
        TableReader { key: RowKey::new(def), types, select, def: Arc::clone(def), name: name.clone(), batch_bytes }
    }

    pub(crate) fn failed(&self, error: ClientError) -> CopyError {
        at_table(&self.name.0, &self.name.1, error)
    }

    fn damaged(&self, error: values::ValueError) -> CopyError {
        CopyError::Row { db: self.name.0.clone(), table: self.name.1.clone(), error }
    }

    /// Reads the rows that `rest` (an index hint, a condition) selects and returns their number. The last batch may be
    /// small; an empty one is never passed on.
    pub(crate) fn read(
        &self,
        connection: &mut Connection,
        rest: &str,
        batch: &mut RowBatch,
        each: EachBatch<'_>,
    ) -> Result<u64, CopyError> {
        let statement = connection.prepare(&format!("{}{rest}", self.select)).map_err(|error| self.failed(error))?;
        let mut rows = connection.execute(&statement, &[]).map_err(|error| self.failed(error))?;
        let result: Vec<ResultColumn> =
            rows.types().iter().map(|ty| ResultColumn { code: ty.code, unsigned: ty.unsigned }).collect();
        let encoder = RowEncoder::new(&self.types, &result).map_err(|error| self.damaged(error))?;
        let mut count = 0;
        batch.clear();
        while let Some(row) = rows.next_row().map_err(|error| self.failed(error))? {
            let (nulls, values) = row.raw();
            batch.push(&self.key, |image| encoder.encode(nulls, values, image)).map_err(|error| self.damaged(error))?;
            count += 1;
            if batch.image_bytes() >= self.batch_bytes || batch.len() >= BATCH_ROWS_MAX {
                each(batch)?;
                batch.clear();
            }
        }
        if !batch.is_empty() {
            each(batch)?;
            batch.clear();
        }
        connection.close_statement(statement).map_err(|error| self.failed(error))?;
        Ok(count)
    }
}
