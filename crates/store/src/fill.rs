//! Filling an index that came with a later DDL, step by step, beside replay (RULES 18).
//!
//! In: the tree's rows and the indexes that its newest cut knows and does not hold whole. Out: their entries, and how far
//! they go, in one run a step. Never here: a cut at the same time, so that the rows read are those the entries stand
//! for; a reader that uses an index before its last step. A restart goes on where the last step ended.

use std::sync::Arc;

use catalog::{IndexSet, KeyOrder, TableDef, TableId};

use crate::disk::Disk;
use crate::entries::Sorter;
use crate::entry;
use crate::error::StoreError;
use crate::index_state::Filling;
use crate::{Store, cut};

/// Entries made in one step: a cut waits as long as this takes.
const STEP_BYTES: usize = 32 << 20;

impl Store {
    /// Makes the next entries of an index that is not complete; false when all are.
    pub(crate) fn fill_step(&self, disk: &Arc<Disk>) -> Result<bool, StoreError> {
        let state = self.cut_state();
        let states = Arc::clone(&self.visibility().layers().indexes);
        let Some(catalog) = &state.catalog else { return Ok(false) };
        let Some(filling) = states.to_fill(catalog) else { return Ok(false) };
        let Some(table) = catalog.table_by_id(TableId(filling.table)) else { return Ok(false) };
        let Some(indexes) = IndexSet::of(table) else { return Ok(false) };
        let mut run = disk.begin()?;
        let (entries, filling, is_last) = step(disk, table, &indexes, filling)?;
        entries.finish(|key, own_len| run.put(key, &entry::index_value(own_len.unwrap_or(0))))?;
        let filled = states.filled(filling, is_last);
        run.index_states(&filled)?;
        let ending = disk.ending();
        run.finish(&ending)?;
        let at = disk.take_over(&ending);
        self.visibility().move_base(at, Some(Arc::new(filled)));
        drop(ending);
        drop(state);
        Ok(true)
    }
}

/// The entries of the next rows, up to where they go, and whether these are all.
fn step(
    disk: &Disk,
    table: &TableDef,
    indexes: &IndexSet,
    mut filling: Filling,
) -> Result<(Sorter, Filling, bool), StoreError> {
    let order = KeyOrder::of(table);
    let mut entries = Sorter::new(None);
    let Some(index) = indexes.index(filling.index) else { return Ok((entries, filling, true)) };
    let (mut from, to) = (cut::table_bounds(table.id).0.to_vec(), cut::table_bounds(table.id).1);
    if !filling.done.is_empty() {
        from.clone_from(&filling.done);
        from.push(0);
    }
    let (mut sort_key, mut key) = (Vec::new(), Vec::new());
    for item in disk.range(disk.read_at(), &from, &to) {
        let (row_key, value) = item?;
        let damaged = || disk.damaged(format!("a row of {} does not fit its definition", table.full_name()));
        let row = entry::parse_row(&row_key, &value).ok_or_else(damaged)?;
        let own_len = entry::own_len(order.is_keyless(), row.key);
        let own = row_key.get(row_key.len().saturating_sub(own_len)..).unwrap_or(&[]);
        sort_key.clear();
        indexes.append(index, row.image, &mut sort_key).map_err(|_| damaged())?;
        key.clear();
        entry::append_index_key(table.id, index.id(), &sort_key, own, &mut key);
        entries.push(&key, Some(own_len))?;
        if entries.held() >= STEP_BYTES {
            filling.done = row_key.to_vec();
            return Ok((entries, filling, false));
        }
    }
    Ok((entries, filling, true))
}
