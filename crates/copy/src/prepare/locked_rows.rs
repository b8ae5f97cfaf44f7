//! Tables whose rows no snapshot shows: they are read while the source is locked.
//!
//! In: the tables' engines and estimated sizes. Out: their rows, in memory and within a limit. Never here: a lock.

use catalog::{Engine, TableDef};
use client::Connection;
use client::session::quoted;
use source::replication::version_number;

use crate::batch::RowBatch;
use crate::definitions::{self, Listing, Name, definition_here, show_create};
use crate::error::CopyError;
use crate::lock::Sessions;
use crate::options::CopyOptions;
use crate::plan::SourceFacts;
use crate::run::TakenRows;
use crate::table_reader::{Range, TableReader};

use super::names_of;

/// True for an engine whose rows a consistent snapshot does not see. Of an engine that keeps no rows nothing is read.
pub(super) fn needs_lock(engine: &str) -> bool {
    let engine = Engine::of(engine);
    engine.keeps_rows() && !engine.snapshots
}

/// Tables that must be read under the lock.
pub(super) fn without_snapshots(
    sessions: &mut Sessions,
    listing: &Listing,
    wanted: &[Name],
    options: &CopyOptions,
) -> Result<Vec<Name>, CopyError> {
    let engine = |name: &Name| listing.tables.get(name).map_or("", |table| table.engine.as_str());
    let full_name = |name: &Name| format!("{}.{}", quoted(&name.0), quoted(&name.1));
    let names: Vec<Name> = wanted.iter().filter(|name| needs_lock(engine(name))).cloned().collect();
    if names.is_empty() {
        return Ok(names);
    }
    let estimates = definitions::estimates(&mut sessions.control, options.tables.only_table());
    let estimates = sessions.at(estimates)?;
    let bytes = names.iter().filter_map(|name| estimates.get(name)).map(|(_, bytes)| *bytes).sum();
    if bytes > options.locked_bytes_max {
        let tables = names.iter().map(|name| format!("{} ({})", full_name(name), engine(name))).collect();
        return Err(CopyError::NoSnapshot { tables, bytes, limit: options.locked_bytes_max });
    }
    Ok(names)
}

/// A table read under the lock, with its definition then.
pub(super) type TakenTable = ((Name, TakenRows), TableDef);

/// Reads tables without snapshots into memory while writers wait; fails beyond `limit` bytes.
pub(super) fn take_rows(
    control: &mut Connection,
    names: &[Name],
    facts: &SourceFacts,
    options: &CopyOptions,
    limit: u64,
) -> Result<Vec<TakenTable>, CopyError> {
    let mut taken = Vec::new();
    let mut bytes = 0;
    for name in names {
        let vanished = || CopyError::TableVanished { db: name.0.clone(), table: name.1.clone() };
        let sql = show_create(control, name)?.ok_or_else(vanished)?;
        let alone = catalog::Catalog::new(facts.lower_case_table_names);
        let source_names = names_of(facts, options);
        let catalog = definitions::define(&alone, &source_names, name, &sql, version_number(&facts.version))?;
        let Some(def) = definition_here(&catalog, &source_names, name) else { return Err(vanished()) };
        let reader = TableReader::new(def, name, options.batch_bytes);
        let mut batches = Vec::new();
        reader.read(control, &Range::default(), &mut RowBatch::default(), &mut |batch| {
            bytes += batch.image_bytes() as u64;
            if bytes > limit {
                let tables = vec![format!("{}.{}", quoted(&name.0), quoted(&name.1))];
                return Err(CopyError::NoSnapshot { tables, bytes, limit });
            }
            batches.push(batch.clone());
            Ok(())
        })?;
        let rows = TakenRows { batches, without_virtual: reader.is_without_virtual() };
        taken.push(((name.clone(), rows), TableDef::clone(def)));
    }
    Ok(taken)
}
