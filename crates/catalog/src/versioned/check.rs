//! Checks of what a statement did to the catalog, before anything is done with it (invariant 29).
//!
//! In: the snapshots before and after the statement, and its effect. Out: the first rule that is broken. Never here: a
//! walk over all tables; only those that the effect names are looked at.

use std::collections::BTreeSet;
use std::sync::Arc;

use super::{Catalog, DdlEffect, DdlOutcome, Rewrite};
use crate::layout::{ColumnSource, OlderLayout};
use crate::numbering::Numbering;
use crate::table::{Identity, TableDef, TableId};

impl Catalog {
    /// Checks the outcome of a statement that was applied to this snapshot. Only a defect of this program breaks a
    /// rule: rows would be read under a wrong definition, or those of two tables be mixed.
    ///
    /// # Errors
    /// The rule that is broken, with the table and the values.
    pub fn check(&self, outcome: &DdlOutcome) -> Result<(), String> {
        let (before, after) = (self, &outcome.catalog);
        let DdlEffect::Changed { created, dropped, altered, rewritten } = &outcome.effect else {
            let same = after.epoch() == before.epoch() && after.next_table_id() == before.next_table_id();
            return if same { Ok(()) } else { Err("a statement without an effect on tables changed them".to_owned()) };
        };
        if after.epoch() != before.epoch() + 1 {
            return Err(format!("epoch {} comes after epoch {}", after.epoch(), before.epoch()));
        }
        before.check_dropped(after, dropped)?;
        for (at, table) in created.iter().enumerate() {
            let again = created.iter().skip(at + 1).any(|other| other.id == table.id);
            check_created(before, after, table, again)?;
        }
        altered.iter().try_for_each(|table| check_altered(before, after, table))?;
        rewritten.iter().try_for_each(|rewrite| check_rewritten(before, after, dropped, rewrite))
    }

    /// Checks that `next` may come after this snapshot, in which the tables `dropped` have ceased to be.
    ///
    /// # Errors
    /// As [`Catalog::check`].
    pub fn check_dropped(&self, next: &Catalog, dropped: &[TableId]) -> Result<(), String> {
        if next.next_table_id() < self.next_table_id() {
            return Err(format!("table id {} is free again: {} was", next.next_table_id(), self.next_table_id()));
        }
        let mut seen = BTreeSet::new();
        for id in dropped {
            let what = match self.table_by_id(*id) {
                None => "was not there",
                Some(_) if next.table_by_id(*id).is_some() => "is still there",
                Some(_) if !seen.insert(*id) => "is dropped twice",
                Some(_) => continue,
            };
            return Err(format!("dropped table id {id} {what}"));
        }
        Ok(())
    }

    /// Checks that a copied table may take the place of the one of its name ([`Catalog::with_copied`]): its id was
    /// reserved, and no row was written under another definition of it.
    ///
    /// # Errors
    /// As [`Catalog::check`].
    pub fn check_copied(&self, table: &TableDef) -> Result<(), String> {
        let (id, name) = (table.id, table.full_name());
        if id >= self.next_table_id() || self.table_by_id(id).is_some() {
            return Err(format!("id {id} of the copied table {name} is not a reserved one"));
        }
        if !table.older_layouts.is_empty() {
            return Err(format!("the copied table {name} has layouts of rows written before it"));
        }
        check_columns(table)
    }
}

impl Rewrite {
    /// Checks that every column of the new rows has a source, and that the rows do not come to lie among those they are
    /// made from.
    ///
    /// # Errors
    /// As [`Catalog::check`].
    pub fn check(&self) -> Result<(), String> {
        let Rewrite { from, to, sources, numbering, removes, .. } = self;
        let name = from.full_name();
        if !fit(sources, to.columns.len(), from.columns.len()) {
            let (sources, to, from) = (sources.len(), to.columns.len(), from.columns.len());
            return Err(format!("{sources} sources for {to} columns out of {from} in the rewrite of {name}"));
        }
        let beyond = |rule: &Numbering| {
            rule.column >= to.columns.len() || rule.from.is_some_and(|column| column >= from.columns.len())
        };
        if numbering.as_ref().is_some_and(beyond) {
            return Err(format!("the rewrite of {name} numbers a column that is not there"));
        }
        match (*removes, from.id == to.id) {
            (true, false) => Err(format!("the rewrite of {name} removes rows from another table, id {}", to.id)),
            (false, true) => Err(format!("the rewrite of {name} keeps its id {}, and so its old rows", to.id)),
            _ => Ok(()),
        }
    }

    /// Checks that its tables are those of the snapshots before and after the statement.
    ///
    /// # Errors
    /// As [`Catalog::check`].
    pub fn check_tables(&self, before: &Catalog, after: &Catalog) -> Result<(), String> {
        for (table, catalog, when) in [(&self.from, before, "before"), (&self.to, after, "after")] {
            if catalog.table_by_id(table.id) != Some(table) {
                let (name, id) = (table.full_name(), table.id);
                return Err(format!("a rewrite of {name}, id {id}, which is not the table {when} the statement"));
            }
        }
        Ok(())
    }
}

/// `again`: another new table has the same id.
fn check_created(before: &Catalog, after: &Catalog, table: &Arc<TableDef>, again: bool) -> Result<(), String> {
    let (id, name) = (table.id, table.full_name());
    let free = before.next_table_id()..after.next_table_id();
    if again || !free.contains(&id) || before.table_by_id(id).is_some() {
        return Err(format!("id {id} of the new table {name} is not fresh: {}..{} are", free.start, free.end));
    }
    if (table.version, table.layout_since) != (1, 0) || !table.older_layouts.is_empty() {
        return Err(format!("the new table {name} has layouts of rows written before it"));
    }
    check_place(after, table)?;
    check_columns(table)
}

fn check_altered(before: &Catalog, after: &Catalog, table: &Arc<TableDef>) -> Result<(), String> {
    let (id, name) = (table.id, table.full_name());
    let Some(old) = before.table_by_id(id) else {
        return Err(format!("the altered table {name} does not keep its id: no table had id {id}"));
    };
    // Saturates (`Change::replace`).
    if table.version <= old.version && old.version < u32::MAX {
        return Err(format!("version {} of {name} comes after version {}", table.version, old.version));
    }
    check_layouts(old, table).map_err(|what| format!("the altered table {name} {what}"))?;
    check_place(after, table)?;
    check_columns(table)
}

/// The rows of a table that keeps its id stay as they are: each is read through all layouts that came after its own.
fn check_layouts(old: &TableDef, new: &TableDef) -> Result<(), &'static str> {
    let Some(added) = new.older_layouts.strip_prefix(old.older_layouts.as_slice()) else {
        return Err("loses layouts that its rows may have");
    };
    let types = |table: &TableDef| table.columns.iter().map(|column| column.ty.clone()).collect::<Vec<_>>();
    match added {
        [] if new.layout_since == old.layout_since && types(new) == types(old) => {}
        [] => return Err("has other columns, and no layout for its rows of before"),
        [OlderLayout { since, types: before, to_next }]
            if *since == old.layout_since
                && new.layout_since == new.version
                && *before == types(old)
                && fit(to_next, new.columns.len(), old.columns.len()) => {}
        _ => return Err("adds a layout that its rows did not have"),
    }
    match (&old.identity, &new.identity) {
        (Identity::WholeImage, Identity::WholeImage) => Ok(()),
        (Identity::Columns(before), Identity::Columns(now)) if before.len() == now.len() => Ok(()),
        _ => Err("identifies its rows in another way than before"),
    }
}

fn check_rewritten(before: &Catalog, after: &Catalog, dropped: &[TableId], rewrite: &Rewrite) -> Result<(), String> {
    let Rewrite { from, to, only, removes, .. } = rewrite;
    rewrite.check()?;
    rewrite.check_tables(before, after)?;
    if !*removes && only.is_none() && !dropped.contains(&from.id) {
        return Err(format!("the rewrite of {} into {} leaves its rows where they are, too", from.full_name(), to.id));
    }
    Ok(())
}

/// True if these give each of the `to` columns a value, out of `from` columns.
fn fit(sources: &[ColumnSource], to: usize, from: usize) -> bool {
    let exists = |column: &usize| *column < from;
    let fits = |source: &ColumnSource| match source {
        ColumnSource::Kept(column) | ColumnSource::Converted { column, .. } => exists(column),
        ColumnSource::KeptWhile { column, same, .. } => exists(column) && same.iter().all(|(at, _)| exists(at)),
        ColumnSource::Unknown { column, .. } => column.as_ref().is_none_or(exists),
        ColumnSource::Constant(_) | ColumnSource::Null => true,
    };
    sources.len() == to && sources.iter().all(fits)
}

/// A table is found by its id and by its name.
fn check_place(after: &Catalog, table: &Arc<TableDef>) -> Result<(), String> {
    let found = [after.table_by_id(table.id), after.table(&table.db, &table.name)];
    if found == [Some(table); 2] { Ok(()) } else { Err(format!("{} is not in its place", table.full_name())) }
}

/// Keys consist of columns that are there, and index ids are given once.
fn check_columns(table: &TableDef) -> Result<(), String> {
    let (columns, name) = (table.columns.len(), table.full_name());
    for (at, key) in table.keys.iter().enumerate() {
        if let Some(part) = key.parts.iter().find(|part| part.column >= columns) {
            return Err(format!("key `{}` of {name} has column {} of {columns}", key.name, part.column));
        }
        let again = table.keys.iter().skip(at + 1).any(|other| other.id == key.id);
        if key.id > table.index_ids_given || key.id != 0 && again {
            return Err(format!("index id {} of key `{}` of {name} is not its own", key.id, key.name));
        }
    }
    if let Identity::Columns(identity) = &table.identity
        && (identity.is_empty() || identity.iter().any(|column| *column >= columns))
    {
        return Err(format!("rows of {name} are told apart by columns {identity:?} of {columns}"));
    }
    for key in &table.foreign_keys {
        if let Some(column) = key.columns.iter().find(|column| **column >= columns) {
            return Err(format!("foreign key `{}` of {name} has column {column} of {columns}", key.name));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
