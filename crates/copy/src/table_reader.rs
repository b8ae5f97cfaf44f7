//! Reads rows of one table in a connection's snapshot and converts them to images.
//!
//! In: a connection, a table's definition, the end of the SELECT. Out: batches of images with keys. Never here: more
//! than one batch in memory.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use catalog::{PartitionFinder, RowKey, TableDef};
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
    /// For a table with virtual columns.
    of_virtual: Option<VirtualColumns>,
    batch_bytes: usize,
    /// Names of the partitions, or subpartitions, and how those of rows are found; None if there are none, if their rule
    /// is not understood, or if it is known that rows lie elsewhere.
    partitions: Option<(Vec<String>, PartitionFinder)>,
}

/// What to read of a table.
#[derive(Debug, Default)]
pub(crate) struct Range {
    /// End of the SELECT: partition, index hint, condition.
    pub rest: String,
    /// The partition that is read, by position: rows are checked to belong there.
    pub partition: Option<usize>,
}

/// Virtual columns, which the source may be unable to compute for some row: an expression that fails is not noticed when
/// ALTER TABLE adds the column, and every SELECT of it fails from then on (seen on 9.7.4).
#[derive(Debug)]
struct VirtualColumns {
    /// SELECT that computes them and returns one row.
    probe: String,
    /// `select` with NULL in their place.
    select_stored: String,
    /// True once the source could not compute one.
    left_out: AtomicBool,
}

/// Receives a full batch, which is cleared afterwards.
pub(crate) type EachBatch<'a> = &'a mut dyn FnMut(&RowBatch) -> Result<(), CopyError>;

impl TableReader {
    pub(crate) fn new(def: &Arc<TableDef>, name: &Name, batch_bytes: usize) -> TableReader {
        let types = def.column_types();
        let left_out = def.left_out();
        let select = |left_out: &[usize]| {
            let columns: Vec<String> = (def.columns.iter().enumerate())
                .map(|(at, column)| match left_out.contains(&at) {
                    true => SELECT_NULL.to_owned(),
                    false => select_expression(&column.ty, &quoted(&column.name)),
                })
                .collect();
            format!("SELECT {} FROM {}.{}", columns.join(", "), quoted(&name.0), quoted(&name.1))
        };
        let mut computed = def.virtual_columns();
        computed.retain(|at| !left_out.contains(at));
        // Not COUNT, for which a column that is NOT NULL need not be computed.
        let probed = |at: &usize| Some(format!("MAX(LENGTH({}))", quoted(&def.columns.get(*at)?.name)));
        let probes: Vec<String> = computed.iter().filter_map(probed).collect();
        let of_virtual = (!computed.is_empty()).then(|| VirtualColumns {
            probe: format!("SELECT {} FROM {}.{}", probes.join(", "), quoted(&name.0), quoted(&name.1)),
            select_stored: select(&def.virtual_columns()),
            left_out: AtomicBool::new(false),
        });
        let select = select(&left_out);
        let (def, name) = (Arc::clone(def), name.clone());
        let known = def.partitioning.as_ref().filter(|_| !def.misplaced_rows);
        let partitions = known.and_then(|rule| Some((rule.leaves(), PartitionFinder::new(&def, rule).ok()?)));
        TableReader { key: RowKey::new(&def), types, select, of_virtual, def, name, batch_bytes, partitions }
    }

    /// True if virtual columns are NULL in rows, because the source could not compute them.
    pub(crate) fn is_without_virtual(&self) -> bool {
        self.of_virtual.as_ref().is_some_and(|of| of.left_out.load(Ordering::Relaxed))
    }

    pub(crate) fn leave_out_virtual(&self) {
        if let Some(of) = &self.of_virtual {
            of.left_out.store(true, Ordering::Relaxed);
        }
    }

    /// The SELECT for rows that `rest` selects: of the stored columns only, if the others cannot be computed.
    fn select_for(&self, connection: &mut Connection, rest: &str) -> Result<&str, CopyError> {
        let Some(of) = &self.of_virtual else { return Ok(&self.select) };
        if !of.left_out.load(Ordering::Relaxed) {
            match connection.query(&format!("{}{rest}", of.probe)) {
                Ok(_) => return Ok(&self.select),
                // Whatever else is wrong with the table shows again when its stored columns are read.
                Err(error) if error.server_code().is_some() && !error.is_transient() => self.leave_out_virtual(),
                Err(error) => return Err(self.failed(error)),
            }
        }
        Ok(&of.select_stored)
    }

    /// Number of partitions that must be read one by one, so that it shows which rows lie outside their rule; 0 if the
    /// table is not read so. A condition would make the source leave out the partitions where its rows should be.
    pub(crate) fn partition_count(&self) -> usize {
        self.partitions.as_ref().map_or(0, |(names, _)| names.len())
    }

    /// The clause that selects the partition of this position.
    pub(crate) fn partition(&self, at: usize) -> String {
        let name = self.partitions.as_ref().and_then(|(names, _)| names.get(at));
        name.map(|name| format!(" PARTITION ({})", quoted(name))).unwrap_or_default()
    }

    /// Positions of the columns that decide a row's partition; none if partitions are not read one by one.
    pub(crate) fn deciding(&self) -> Vec<usize> {
        self.partitions.as_ref().map(|(_, finder)| finder.columns()).unwrap_or_default()
    }

    /// Checks that the row belongs to the partition it lies in. A row whose partition cannot be computed passes.
    fn check_place(&self, image: &[u8], at: usize, offsets: &mut Vec<(u32, u32)>) -> Result<(), CopyError> {
        let Some((names, finder)) = &self.partitions else { return Ok(()) };
        // The rule may read a virtual column.
        if self.is_without_virtual() {
            return Ok(());
        }
        match finder.rightful(image, offsets) {
            Ok(rightful) if rightful != Some(at) => Err(CopyError::MisplacedRows {
                db: self.name.0.clone(),
                table: self.name.1.clone(),
                partition: names.get(at).cloned().unwrap_or_default(),
            }),
            _ => Ok(()),
        }
    }

    pub(crate) fn failed(&self, error: ClientError) -> CopyError {
        at_table(&self.name.0, &self.name.1, error)
    }

    fn damaged(&self, error: values::ValueError) -> CopyError {
        CopyError::Row { db: self.name.0.clone(), table: self.name.1.clone(), error }
    }

    /// Reads the rows of a range and returns their number. The last batch may be small; an empty one is never passed on.
    pub(crate) fn read(
        &self,
        connection: &mut Connection,
        range: &Range,
        batch: &mut RowBatch,
        each: EachBatch<'_>,
    ) -> Result<u64, CopyError> {
        let select = self.select_for(connection, &range.rest)?;
        let statement = connection.prepare(&format!("{select}{}", range.rest)).map_err(|error| self.failed(error))?;
        let mut rows = connection.execute(&statement, &[]).map_err(|error| self.failed(error))?;
        let result: Vec<ResultColumn> =
            rows.types().iter().map(|ty| ResultColumn { code: ty.code, unsigned: ty.unsigned }).collect();
        let encoder = RowEncoder::new(&self.types, &result).map_err(|error| self.damaged(error))?;
        let (mut count, mut offsets) = (0, Vec::new());
        batch.clear();
        while let Some(row) = rows.next_row().map_err(|error| self.failed(error))? {
            let (nulls, values) = row.raw();
            batch.push(&self.key, |image| encoder.encode(nulls, values, image)).map_err(|error| self.damaged(error))?;
            count += 1;
            if let (Some(at), Some(image)) = (range.partition, batch.last_image()) {
                self.check_place(image, at, &mut offsets)?;
            }
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
