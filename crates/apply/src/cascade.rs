//! Foreign key actions that the log does not contain: ON DELETE and ON UPDATE, CASCADE and SET NULL.
//!
//! In: the old and new image of a parent row. Out: the changes of its child rows, and of their children. Runs at a
//! barrier, while all workers wait: everything before it in the log is applied and nothing after it, so the newest
//! versions are the state that the source had. Never here: a guess; where the source's rule cannot be followed
//! exactly, replay stops. Mirrors InnoDB's row_ins_foreign_check_on_constraint (row0ins.cc).

use std::cell::RefCell;
use std::collections::HashMap;
use std::ops::ControlFlow;
use std::sync::Arc;

use base::key_hash;
use catalog::{Catalog, ForeignKey, IndexKind, Key, ReferenceAction, RowKey, TableDef, TableId};
use store::{
    BeforeImage, CheckImages, KeyRange, Layers, ReadOrder, RowChange, RowError, RowErrorKind, RowTarget, Store,
    StoreError, TableReader, WriteContext,
};
use values::sort_key::{SortKeyColumn, SortKeyPlan};
use values::{ColumnType, OFFSET_ABSENT, OFFSET_NULL, type_code};

use crate::statement_rows::{StatementRows, Touched};
use crate::worker::lane_of;

/// InnoDB's FK_MAX_CASCADE_DEL: the source cascades no deeper.
const DEPTH_MAX: u32 = 15;

/// A table with what is needed to read and change its rows.
struct Table {
    def: Arc<TableDef>,
    key: RowKey,
    reader: TableReader,
}

impl Table {
    fn new(def: &Arc<TableDef>) -> Table {
        Table { key: RowKey::new(def), reader: TableReader::new(def), def: Arc::clone(def) }
    }

    fn types(&self) -> &[ColumnType] {
        self.reader.column_types()
    }

    /// Returns the stored bytes of some columns of a full image; None for NULL.
    fn values(&self, image: &[u8], columns: &[usize]) -> Result<Vec<Option<Vec<u8>>>, RowError> {
        let mut offsets = Vec::new();
        self.reader.layout().walk_offsets(image, &mut offsets).map_err(|_| damaged())?;
        let of = |column: &usize| match offsets.get(*column) {
            Some(&(start, len)) if start < OFFSET_ABSENT => {
                image.get(start as usize..(start + len) as usize).map(|bytes| Some(bytes.to_vec())).ok_or_else(damaged)
            }
            Some(&(OFFSET_NULL, _)) => Ok(None),
            _ => Err(damaged()),
        };
        columns.iter().map(of).collect()
    }

    /// Returns the image with these columns replaced.
    fn with(&self, image: &[u8], columns: &[usize], values: &[Option<Vec<u8>>]) -> Result<Vec<u8>, RowError> {
        let all: Vec<usize> = (0..self.types().len()).collect();
        let mut row = self.values(image, &all)?;
        for (column, value) in columns.iter().zip(values) {
            if let Some(place) = row.get_mut(*column) {
                place.clone_from(value);
            }
        }
        let mut out = vec![0; self.types().len().div_ceil(8)];
        for (column, value) in row.into_iter().enumerate() {
            match value {
                Some(bytes) => out.extend_from_slice(&bytes),
                None => {
                    if let Some(byte) = out.get_mut(column / 8) {
                        *byte |= 1 << (column % 8);
                    }
                }
            }
        }
        Ok(out)
    }
}

/// A child row that references the parent row.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct ChildRow {
    key: Vec<u8>,
    image: Vec<u8>,
    copies: u64,
}

/// The search for child rows that reference a parent's values.
struct Wanted<'a> {
    child: &'a Table,
    foreign: &'a ForeignKey,
    plan: SortKeyPlan,
    /// Sort key of the referencing columns in every row searched for.
    sort_key: Vec<u8>,
    /// The values in the child's storage format; None when the formats differ.
    stored: Option<Vec<Option<Vec<u8>>>>,
}

impl<'a> Wanted<'a> {
    /// `was` are the parent's values, none of them NULL.
    fn new(
        child: &'a Table,
        foreign: &'a ForeignKey,
        parent: &Table,
        parent_columns: &[usize],
        was: &[Option<Vec<u8>>],
    ) -> Result<Wanted<'a>, RowError> {
        let plan = |table: &Table, columns: &[usize]| {
            let of = |column: &usize| {
                let ty = table.types().get(*column)?.clone();
                Some(SortKeyColumn { ty, nullable: false, descending: false, prefix_len: None })
            };
            let columns: Option<Vec<SortKeyColumn>> = columns.iter().map(of).collect();
            columns.and_then(|columns| SortKeyPlan::new(&columns).ok()).ok_or_else(damaged)
        };
        let (of_parent, of_child) = (plan(parent, parent_columns)?, plan(child, &foreign.columns)?);
        if !of_parent.is_ordered() || !of_child.is_ordered() {
            return Err(refused(&child.def, foreign, "its collation is not known here"));
        }
        let mut sort_key = Vec::new();
        of_parent.append(was.iter().map(Option::as_deref), &mut sort_key).map_err(|_| damaged())?;
        let alike = parent_columns.iter().zip(&foreign.columns).all(|(of_parent, of_child)| {
            match (parent.types().get(*of_parent), child.types().get(*of_child)) {
                (Some(of_parent), Some(of_child)) => is_stored_alike(of_parent, of_child),
                _ => false,
            }
        });
        let stored = alike.then(|| converted(parent, parent_columns, child, foreign, was));
        Ok(Wanted { child, foreign, plan: of_child, sort_key, stored })
    }

    /// True if this image of a child row references the values.
    fn is(&self, image: &[u8], offsets: &mut Vec<(u32, u32)>, sort_key: &mut Vec<u8>) -> Result<bool, RowError> {
        self.child.reader.layout().walk_offsets(image, offsets).map_err(|_| damaged())?;
        sort_key.clear();
        for (position, column) in self.foreign.columns.iter().enumerate() {
            let place = offsets.get(*column).filter(|place| place.0 < OFFSET_ABSENT);
            let value = place.and_then(|&(start, len)| image.get(start as usize..(start + len) as usize));
            if value.is_none() || self.plan.append_column(position, value, sort_key).is_err() {
                return Ok(false);
            }
        }
        Ok(*sort_key == self.sort_key)
    }

    /// Finds an index whose first parts are the referencing columns, in any order, and returns it with the prefix
    /// that the sort keys of these rows have in it.
    fn in_index(&self) -> Result<Option<(ReadOrder, Vec<u8>)>, RowError> {
        let Some(stored) = &self.stored else { return Ok(None) };
        let columns = &self.foreign.columns;
        let places = |key: &Key| -> Option<Vec<usize>> {
            if key.kind != IndexKind::Ordered || !key.expressions.is_empty() {
                return None;
            }
            let mut places = Vec::with_capacity(columns.len());
            for part in key.parts.get(..columns.len())? {
                let place = columns.iter().position(|column| *column == part.column)?;
                if part.prefix_len.is_some() || places.contains(&place) {
                    return None;
                }
                places.push(place);
            }
            Some(places)
        };
        for key in &self.child.def.keys {
            let (Some(places), Ok(order)) = (places(key), TableReader::order_of(&self.child.def, key)) else {
                continue;
            };
            if self.child.reader.is_ordered(order) {
                let values = places.iter().map(|place| stored.get(*place).and_then(Option::as_deref));
                return self.child.reader.bound(order, values).map(|bound| Some((order, bound))).map_err(|_| damaged());
            }
        }
        Ok(None)
    }
}

/// True if both columns store a value as the same bytes, apart from the length prefix.
fn is_stored_alike(one: &ColumnType, other: &ColumnType) -> bool {
    let text = |ty: &ColumnType| matches!(ty.code, type_code::CHAR | type_code::VARCHAR | type_code::BLOB);
    if text(one) && text(other) {
        return one.collation == other.collation;
    }
    one.code == other.code && one.meta == other.meta && one.unsigned == other.unsigned && one.members == other.members
}

/// Executes foreign key actions for one transaction.
pub(crate) struct Cascade<'a> {
    pub store: &'a Store,
    pub layers: &'a Layers,
    pub catalog: &'a Catalog,
    pub sequence: u64,
    pub oldest_needed: u64,
    pub check: CheckImages,
    /// Told what becomes of each child row.
    pub rows: &'a RefCell<StatementRows>,
}

fn damaged() -> RowError {
    RowError { kind: RowErrorKind::Damaged }
}

fn refused(child: &TableDef, foreign: &ForeignKey, why: &str) -> RowError {
    let name = &foreign.name;
    let reason = format!("foreign key `{name}` of {} changes rows that are not in the log: {why}", child.full_name());
    RowError { kind: RowErrorKind::NotSupported(reason) }
}

impl Cascade<'_> {
    /// Follows the foreign keys after a parent row changed from `old` to `new`; None: it was deleted. Both are full
    /// images.
    ///
    /// # Errors
    /// When a child row cannot be changed as the source changed it, or the store cannot be read.
    pub(crate) fn follow(&self, parent: &Arc<TableDef>, old: &[u8], new: Option<&[u8]>) -> Result<(), RowError> {
        self.step(&mut HashMap::new(), parent, old, new, 0)
    }

    fn step(
        &self,
        tables: &mut HashMap<TableId, Arc<Table>>,
        parent: &Arc<TableDef>,
        old: &[u8],
        new: Option<&[u8]>,
        depth: u32,
    ) -> Result<(), RowError> {
        let parent_table = made_ready(tables, parent);
        for (child, foreign) in self.catalog.children(&parent.db, &parent.name) {
            let action = if new.is_some() { foreign.on_update } else { foreign.on_delete };
            if !action.changes_children() {
                continue;
            }
            if depth >= DEPTH_MAX {
                return Err(refused(child, foreign, "a cascade deeper than 15 tables"));
            }
            let columns: Option<Vec<usize>> =
                foreign.parent_columns.iter().map(|name| parent.column_index(name)).collect();
            let columns = columns.ok_or_else(|| refused(child, foreign, "a column it refers to does not exist"))?;
            let was = parent_table.values(old, &columns)?;
            let is = new.map(|new| parent_table.values(new, &columns)).transpose()?;
            if is.as_ref() == Some(&was) || was.iter().any(Option::is_none) {
                // The referenced columns did not change, or hold a NULL, which no row references.
                continue;
            }
            let child_table = made_ready(tables, child);
            let wanted = Wanted::new(&child_table, foreign, &parent_table, &columns, &was)?;
            for row in self.children(&wanted)? {
                let change = match action {
                    ReferenceAction::Cascade => {
                        is.as_ref().map(|values| converted(&parent_table, &columns, &child_table, foreign, values))
                    }
                    _ => Some(vec![None; foreign.columns.len()]),
                };
                let image = match change {
                    None => None,
                    Some(values) => {
                        if child.columns.iter().any(|column| column.generated.is_some()) {
                            // A generated column may depend on the column that changes, and its expression is not
                            // evaluated here.
                            return Err(refused(child, foreign, "the table has generated columns"));
                        }
                        Some(child_table.with(&row.image, &foreign.columns, &values)?)
                    }
                };
                self.change(&child_table, &row, image.as_deref())?;
                self.step(tables, child, &row.image, image.as_deref(), depth + 1)?;
            }
        }
        Ok(())
    }

    /// Finds the child rows that reference these values under the columns' collation. Uses the index that MySQL
    /// requires for a foreign key, or scans the table where that index cannot be read (yet).
    fn children(&self, wanted: &Wanted<'_>) -> Result<Vec<ChildRow>, RowError> {
        match self.by_index(wanted)? {
            Some(found) => Ok(found),
            None => self.by_scan(wanted),
        }
    }

    /// None if there is no usable index, or it is still being built.
    fn by_index(&self, wanted: &Wanted<'_>) -> Result<Option<Vec<ChildRow>>, RowError> {
        let Some((order, bound)) = wanted.in_index()? else { return Ok(None) };
        let rows = match self.store.range_newest(self.layers, &wanted.child.reader, order, &KeyRange::prefix(&bound)) {
            Ok(rows) => rows,
            Err(StoreError::IndexNotReady { .. }) => return Ok(None),
            Err(error) => return Err(RowError { kind: RowErrorKind::Store(error) }),
        };
        let (mut found, mut offsets, mut sort_key) = (Vec::new(), Vec::new(), Vec::new());
        for row in rows {
            let row = row.map_err(|error| RowError { kind: RowErrorKind::Store(error) })?;
            // Where one value is a prefix of another, both share the bound, so each row is compared.
            if wanted.is(&row.image, &mut offsets, &mut sort_key)? {
                found.push(ChildRow { key: row.key, image: row.image, copies: row.count });
            }
        }
        Ok(Some(found))
    }

    fn by_scan(&self, wanted: &Wanted<'_>) -> Result<Vec<ChildRow>, RowError> {
        let (mut found, mut offsets, mut sort_key) = (Vec::new(), Vec::new(), Vec::new());
        let scanned = self.store.scan_newest(self.layers, &wanted.child.def, |row| {
            match wanted.is(row.image, &mut offsets, &mut sort_key) {
                Ok(true) => {
                    found.push(ChildRow { key: row.key.to_vec(), image: row.image.to_vec(), copies: row.count })
                }
                Ok(false) => {}
                Err(error) => return ControlFlow::Break(error),
            }
            ControlFlow::Continue(())
        });
        match scanned {
            Ok(ControlFlow::Continue(())) => Ok(found),
            Ok(ControlFlow::Break(error)) => Err(error),
            Err(error) => Err(RowError { kind: RowErrorKind::Store(error) }),
        }
    }

    /// Deletes a child row, or replaces its image.
    fn change(&self, table: &Table, row: &ChildRow, image: Option<&[u8]>) -> Result<(), RowError> {
        let before = BeforeImage::Full(&row.image);
        let Some(image) = image else {
            for _ in 0..row.copies {
                let gone = if table.key.is_whole_image() {
                    RowChange::RemoveOne { later: false }
                } else {
                    RowChange::Delete { before }
                };
                self.put(table, &row.key, gone)?;
            }
            self.rows.borrow_mut().note(&table.def, &row.key, Touched::Deleted);
            return Ok(());
        };
        let (mut offsets, mut built) = (Vec::new(), Vec::new());
        let key = table.key.bytes(image, &mut offsets, &mut built).map_err(|_| damaged())?;
        if table.key.is_whole_image() {
            for _ in 0..row.copies {
                self.put(table, &row.key, RowChange::RemoveOne { later: false })?;
                self.put(table, key, RowChange::AddOne { later: false })?;
            }
        } else if key == row.key {
            self.put(table, key, RowChange::Update { before, image })?;
        } else {
            self.put(table, &row.key, RowChange::Delete { before })?;
            self.put(table, key, RowChange::Insert { image })?;
        }
        let touched = if key == row.key { Touched::Changed(row.image.clone()) } else { Touched::Moved };
        self.rows.borrow_mut().note(&table.def, &row.key, touched);
        Ok(())
    }

    fn put(&self, table: &Table, key: &[u8], change: RowChange<'_>) -> Result<(), RowError> {
        let hash = key_hash(table.def.id.0, key);
        let index = self.store.lane_of(hash);
        let mut lane = lane_of(self.layers, index)?;
        let (shape, layers) = (table.reader.shape(), self.layers);
        let target = RowTarget { lane: index, shape: &shape, hash, key };
        let context =
            WriteContext { sequence: self.sequence, oldest_needed: self.oldest_needed, check: self.check, layers };
        lane.apply(&target, change, &context)
    }
}

fn made_ready(tables: &mut HashMap<TableId, Arc<Table>>, def: &Arc<TableDef>) -> Arc<Table> {
    Arc::clone(tables.entry(def.id).or_insert_with(|| Arc::new(Table::new(def))))
}

/// Converts a parent's values to the child's storage format: length prefixes of text and bytes may differ in width.
fn converted(
    parent: &Table,
    parent_columns: &[usize],
    child: &Table,
    foreign: &ForeignKey,
    values: &[Option<Vec<u8>>],
) -> Vec<Option<Vec<u8>>> {
    let places = parent_columns.iter().zip(&foreign.columns).zip(values);
    places
        .map(|((of_parent, of_child), value)| {
            let (from, to) = (parent.types().get(*of_parent)?.prefix_len(), child.types().get(*of_child)?.prefix_len());
            let bytes = value.as_ref()?.get(from..)?;
            let mut stored: Vec<u8> = bytes.len().to_le_bytes().into_iter().take(to).collect();
            stored.extend_from_slice(bytes);
            Some(stored)
        })
        .collect()
}

#[cfg(test)]
mod tests;
