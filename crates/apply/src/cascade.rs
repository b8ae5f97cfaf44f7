//! What foreign keys do to other tables and the log does not hold: ON DELETE and ON UPDATE, CASCADE and SET NULL.
//!
//! In: a row of a parent table as it was and as it is. Out: the changes of its child rows, and of theirs. Runs while all
//! workers wait (a barrier), after everything before it in the log and before everything behind it, so the newest versions
//! are the state the source had. Never here: a guess: where the source's rule cannot be followed exactly replay stops.
//! Mirrors InnoDB's row_ins_foreign_check_on_constraint (row0ins.cc).

use std::collections::HashMap;
use std::ops::ControlFlow;
use std::sync::Arc;

use base::key_hash;
use catalog::{Catalog, ForeignKey, KeyOrder, ReferenceAction, RowKey, RowVersions, TableDef, TableId};
use store::{BeforeImage, CheckImages, Layers, RowChange, RowError, RowErrorKind, Store, TableShape};
use values::sort_key::{SortKeyColumn, SortKeyPlan};
use values::{ColumnType, OFFSET_ABSENT, OFFSET_NULL, RowLayout};

/// FK_MAX_CASCADE_DEL: the source does not go deeper either.
const DEPTH_MAX: u32 = 15;

/// A child table made ready.
struct Table {
    def: Arc<TableDef>,
    types: Vec<ColumnType>,
    layout: RowLayout,
    order: KeyOrder,
    versions: RowVersions,
    key: RowKey,
}

impl Table {
    fn new(def: &Arc<TableDef>) -> Table {
        let types = def.column_types();
        Table {
            layout: RowLayout::new(&types),
            types,
            order: KeyOrder::of(def),
            versions: RowVersions::of(def),
            key: RowKey::new(def),
            def: Arc::clone(def),
        }
    }

    fn shape(&self) -> TableShape<'_> {
        TableShape {
            id: self.def.id,
            layout: &self.layout,
            types: &self.types,
            order: &self.order,
            definition: self.def.version,
            versions: &self.versions,
        }
    }

    /// Stored bytes of some columns of a full image; None for NULL.
    fn values(&self, image: &[u8], columns: &[usize]) -> Result<Vec<Option<Vec<u8>>>, RowError> {
        let mut offsets = Vec::new();
        self.layout.walk_offsets(image, &mut offsets).map_err(|_| damaged())?;
        let of = |column: &usize| match offsets.get(*column) {
            Some(&(start, len)) if start < OFFSET_ABSENT => {
                image.get(start as usize..(start + len) as usize).map(|bytes| Some(bytes.to_vec())).ok_or_else(damaged)
            }
            Some(&(OFFSET_NULL, _)) => Ok(None),
            _ => Err(damaged()),
        };
        columns.iter().map(of).collect()
    }

    /// The image with other values in some columns.
    fn with(&self, image: &[u8], columns: &[usize], values: &[Option<Vec<u8>>]) -> Result<Vec<u8>, RowError> {
        let all: Vec<usize> = (0..self.types.len()).collect();
        let mut row = self.values(image, &all)?;
        for (column, value) in columns.iter().zip(values) {
            if let Some(place) = row.get_mut(*column) {
                place.clone_from(value);
            }
        }
        let mut out = vec![0; self.types.len().div_ceil(8)];
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

/// A child row that a foreign key finds.
struct Found {
    key: Vec<u8>,
    image: Vec<u8>,
    copies: u64,
}

/// Carries out what foreign keys do. One for a transaction's place in the log.
pub(crate) struct Cascade<'a> {
    pub store: &'a Store,
    pub layers: &'a Layers,
    pub catalog: &'a Catalog,
    pub sequence: u64,
    pub oldest_needed: u64,
    pub check: CheckImages,
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
    /// The parent row was `old` and is `new` now; None: it is gone. Both are full images.
    ///
    /// # Errors
    /// A child row cannot be changed as the source changed it, or the store cannot be read.
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
                // Nothing refers to NULL.
                continue;
            }
            let child_table = made_ready(tables, child);
            let found = self.children(&child_table, foreign, &parent_table, &columns, &was)?;
            for row in found {
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
                            // Its value may follow from what changes.
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

    /// The child's rows that refer to these values, as the collation compares them.
    fn children(
        &self,
        child: &Table,
        foreign: &ForeignKey,
        parent: &Table,
        parent_columns: &[usize],
        was: &[Option<Vec<u8>>],
    ) -> Result<Vec<Found>, RowError> {
        let plan = |table: &Table, columns: &[usize]| {
            let of = |column: &usize| {
                let ty = table.types.get(*column)?.clone();
                Some(SortKeyColumn { ty, nullable: false, descending: false, prefix_len: None })
            };
            let columns: Option<Vec<SortKeyColumn>> = columns.iter().map(of).collect();
            columns.and_then(|columns| SortKeyPlan::new(&columns).ok()).ok_or_else(damaged)
        };
        let (of_parent, of_child) = (plan(parent, parent_columns)?, plan(child, &foreign.columns)?);
        if !of_parent.is_ordered() || !of_child.is_ordered() {
            return Err(refused(&child.def, foreign, "its collation is not known here"));
        }
        let (mut wanted, mut sort_key) = (Vec::new(), Vec::new());
        of_parent.append(was.iter().map(Option::as_deref), &mut wanted).map_err(|_| damaged())?;
        let (mut found, mut offsets) = (Vec::new(), Vec::new());
        let scanned = self.store.scan_newest(self.layers, &child.def, |row| {
            if child.layout.walk_offsets(row.image, &mut offsets).is_err() {
                return ControlFlow::Break(());
            }
            sort_key.clear();
            for (position, column) in foreign.columns.iter().enumerate() {
                let place = offsets.get(*column).filter(|place| place.0 < OFFSET_ABSENT);
                let value = place.and_then(|&(start, len)| row.image.get(start as usize..(start + len) as usize));
                if value.is_none() || of_child.append_column(position, value, &mut sort_key).is_err() {
                    return ControlFlow::Continue(());
                }
            }
            if sort_key == wanted {
                found.push(Found { key: row.key.to_vec(), image: row.image.to_vec(), copies: row.count });
            }
            ControlFlow::Continue(())
        });
        match scanned {
            Ok(ControlFlow::Continue(())) => Ok(found),
            Ok(ControlFlow::Break(())) => Err(damaged()),
            Err(error) => Err(RowError { kind: RowErrorKind::Store(error) }),
        }
    }

    /// Deletes a child row, or gives it another image.
    fn change(&self, table: &Table, row: &Found, image: Option<&[u8]>) -> Result<(), RowError> {
        let before = BeforeImage::Full(&row.image);
        let Some(image) = image else {
            for _ in 0..row.copies {
                let gone =
                    if table.key.is_whole_image() { RowChange::RemoveCopy } else { RowChange::Delete { before } };
                self.put(table, &row.key, gone)?;
            }
            return Ok(());
        };
        let (mut offsets, mut built) = (Vec::new(), Vec::new());
        let key = table.key.bytes(image, &mut offsets, &mut built).map_err(|_| damaged())?;
        if table.key.is_whole_image() {
            for _ in 0..row.copies {
                self.put(table, &row.key, RowChange::RemoveCopy)?;
                self.put(table, key, RowChange::AddCopy)?;
            }
        } else if key == row.key {
            self.put(table, key, RowChange::Update { before, image })?;
        } else {
            self.put(table, &row.key, RowChange::Delete { before })?;
            self.put(table, key, RowChange::Insert { image })?;
        }
        Ok(())
    }

    fn put(&self, table: &Table, key: &[u8], change: RowChange<'_>) -> Result<(), RowError> {
        let hash = key_hash(table.def.id.0, key);
        let index = self.store.lane_of(hash);
        let Some(mut lane) = self.layers.active.lane_mut(index) else { return Ok(()) };
        let (shape, layers) = (table.shape(), self.layers);
        lane.apply(index, &shape, hash, key, change, self.sequence, self.oldest_needed, self.check, layers)
    }
}

fn made_ready(tables: &mut HashMap<TableId, Arc<Table>>, def: &Arc<TableDef>) -> Arc<Table> {
    Arc::clone(tables.entry(def.id).or_insert_with(|| Arc::new(Table::new(def))))
}

/// A parent's values as its child stores them: the lengths in front of text and bytes may differ in width.
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
            let (from, to) = (parent.types.get(*of_parent)?.prefix_len(), child.types.get(*of_child)?.prefix_len());
            let bytes = value.as_ref()?.get(from..)?;
            let mut stored: Vec<u8> = bytes.len().to_le_bytes().into_iter().take(to).collect();
            stored.extend_from_slice(bytes);
            Some(stored)
        })
        .collect()
}
