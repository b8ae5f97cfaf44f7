//! One attempt at snapshots of one moment, with the definitions at that moment.
//!
//! In: sessions on the source. Out: what a plan is made of, or the tables that DDL changed meanwhile. Never here: how
//! often it is tried.

use std::collections::HashSet;

use catalog::Identity;
use client::session::quoted;
use source::replication::version_number;

use crate::definitions::{Listing, Name, definition_here, same_definition};
use crate::error::{CopyError, DISCARDED};
use crate::lock::{Moment, Patience, ReadLock, Sessions, micros};
use crate::options::{CopyLock, CopyOptions, Unsettled};
use crate::plan::SourceFacts;

use super::define::{CHANGED, Defined, Defining, Undefined, define_all, read_catalog};
use super::locked_rows::{TakenTable, needs_lock, take_rows, without_snapshots};
use super::{FRESH, names_of};

/// Factor by which reading may exceed `locked_bytes_max`, because the check before it uses rough estimates.
const LOCKED_BYTES_FACTOR: u64 = 4;

/// Outcome of one attempt at the snapshots.
pub(super) enum Attempt {
    Ready(Box<FrozenTables>),
    /// DDL changed these tables in between.
    Changed(Vec<Name>),
}

pub(super) struct FrozenTables {
    pub(super) moment: Moment<Vec<TakenTable>>,
    pub(super) listing: Listing,
    pub(super) names: Vec<Name>,
    pub(super) catalog: catalog::Catalog,
    /// Tables without a definition, and why; not in the catalog.
    pub(super) unsettled: Vec<Undefined>,
    /// True if the only table had its tablespace discarded before the snapshot.
    pub(super) discarded: bool,
    pub(super) backup_lock_us: Option<u64>,
}

impl FrozenTables {
    /// Excludes tables that DDL changed.
    fn leave_out(&mut self, changed: Vec<Name>) {
        self.names.retain(|name| !changed.contains(name));
        self.unsettled.extend(changed.into_iter().map(|name| (name, CHANGED.to_owned())));
    }
}

/// Makes one attempt. With `Unsettled::LeaveOut`, tables that DDL changed are excluded instead of failing the attempt.
pub(super) fn try_once(
    sessions: &mut Sessions,
    facts: &SourceFacts,
    options: &CopyOptions,
    unsettled: Unsettled,
    patience: &mut Patience<'_>,
) -> Result<Attempt, CopyError> {
    patience.check_stop()?;
    let lower = facts.lower_case_table_names;
    options.preparing.begin("listing tables", 0);
    let before = Listing::read(&mut sessions.control, None, options.tables.only_table());
    let before = sessions.at(before)?;
    let wanted = before.wanted(&options.tables, lower)?;
    before.check_times(&wanted)?;
    if wanted.iter().any(|name| before.tables.get(name).is_some_and(|table| table.fresh)) {
        // A lock taken now would probably be useless.
        patience.sleep(FRESH)?;
    }
    if options.lock == CopyLock::None {
        return try_unlocked(sessions, facts, unsettled, patience, &before);
    }
    let discarded = match (options.lock, wanted.as_slice()) {
        (CopyLock::Table, [name]) => is_discarded(sessions, name)?,
        _ => false,
    };
    let without_snapshots = without_snapshots(sessions, &before, &wanted, options)?;
    let lock = match (options.lock, wanted.as_slice()) {
        (CopyLock::Table, [(db, table)]) => ReadLock::Table(db.clone(), table.clone()),
        _ => ReadLock::All,
    };
    options.preparing.begin("taking snapshots", 0);
    let moment = sessions.freeze(patience, &lock, |control| {
        let limit = options.locked_bytes_max.saturating_mul(LOCKED_BYTES_FACTOR);
        take_rows(control, &without_snapshots, facts, options, limit)
    })?;
    let outcome = read_catalog(sessions, facts, unsettled, patience, &moment);
    let backup_lock_us = moment.backup_since.map(micros);
    sessions.unlock_instance()?;
    let Defined { listing, names, catalog, unsettled: left_out } = match outcome? {
        Ok(defined) => defined,
        Err(changed) => return Ok(Attempt::Changed(changed)),
    };
    // Tables read under the lock must be the ones that were listed before it.
    let taken: HashSet<&Name> = moment.taken.iter().map(|((name, _), _)| name).collect();
    let not_taken = |name: &&Name| {
        let engine = listing.tables.get(*name).map_or("", |table| &table.engine);
        needs_lock(engine) && !taken.contains(name)
    };
    let mut changed: Vec<Name> = names.iter().filter(not_taken).cloned().collect();
    for ((name, _), def) in &moment.taken {
        let same =
            definition_here(&catalog, &names_of(facts, options), name).is_some_and(|now| same_definition(def, now));
        if !same && !left_out.iter().any(|(other, _)| other == name) {
            changed.push(name.clone());
        }
    }
    let mut found = FrozenTables { moment, listing, names, catalog, unsettled: left_out, discarded, backup_lock_us };
    if !changed.is_empty() {
        if unsettled == Unsettled::End {
            return Ok(Attempt::Changed(changed));
        }
        found.leave_out(changed);
    }
    Ok(Attempt::Ready(Box::new(found)))
}

/// True if the table cannot be read now because its tablespace is discarded.
fn is_discarded(sessions: &mut Sessions, (db, table): &Name) -> Result<bool, CopyError> {
    let probe = sessions.control.query(&format!("SELECT 1 FROM {}.{} LIMIT 1", quoted(db), quoted(table)));
    match probe {
        Err(error) if error.server_code().is_none() => sessions.at(Err(error)),
        // Whatever else is wrong with the table shows again when it is read.
        probe => Ok(probe.is_err_and(|error| error.server_code() == Some(DISCARDED))),
    }
}

/// Like `try_once`, but without a lock: takes a mark in the log, then definitions that are the same before and after
/// it.
fn try_unlocked(
    sessions: &mut Sessions,
    facts: &SourceFacts,
    unsettled: Unsettled,
    patience: &mut Patience<'_>,
    before: &Listing,
) -> Result<Attempt, CopyError> {
    check_full_images(sessions)?;
    let moment = sessions.mark(patience, Vec::new())?;
    let listing = Listing::read(&mut sessions.control, Some(&moment.now), patience.options.tables.only_table());
    let listing = sessions.at(listing)?;
    let names = listing.wanted(&patience.options.tables, facts.lower_case_table_names)?;
    let fresh = |name: &Name| listing.tables.get(name).is_some_and(|table| table.fresh);
    let mut changed = before.changed(&listing, &names);
    // Dropped meanwhile: the log will drop a table that replay does not know.
    let gone = |name: &&Name| !listing.tables.contains_key(*name);
    changed.extend(before.wanted(&patience.options.tables, facts.lower_case_table_names)?.iter().filter(gone).cloned());
    changed.extend(names.iter().filter(|name| fresh(name)).cloned());
    let other = |(db, _): &&(String, String)| !before.databases.iter().any(|(known, _)| known == db);
    let databases: Vec<Name> =
        listing.databases.iter().filter(other).map(|(db, _)| (db.clone(), "*".to_owned())).collect();
    if !databases.is_empty() || !changed.is_empty() && unsettled == Unsettled::End {
        changed.extend(databases);
        return Ok(Attempt::Changed(changed));
    }
    let version = version_number(&facts.version);
    let source_names = names_of(facts, patience.options);
    let unreadable = patience.options.unsettled;
    let defining = Defining { listing, names, source_names, version, unreadable };
    let Defined { listing, names, catalog, unsettled } = match define_all(sessions, defining, changed, unsettled)? {
        Ok(defined) => defined,
        Err(changed) => return Ok(Attempt::Changed(changed)),
    };
    let full_name = |name: &Name| format!("{}.{}", quoted(&name.0), quoted(&name.1));
    let source_names = names_of(facts, patience.options);
    let keyless = |name: &&Name| {
        let table = definition_here(&catalog, &source_names, name);
        table.is_some_and(|table| table.identity == Identity::WholeImage && table.engine_of().keeps_rows())
    };
    let tables: Vec<String> = names.iter().filter(keyless).map(full_name).collect();
    if !tables.is_empty() {
        return Err(CopyError::NeedsKeys { tables });
    }
    Ok(Attempt::Ready(Box::new(FrozenTables {
        moment,
        listing,
        names,
        catalog,
        unsettled,
        discarded: false,
        backup_lock_us: None,
    })))
}

fn check_full_images(sessions: &mut Sessions) -> Result<(), CopyError> {
    let what = "SELECT @@GLOBAL.binlog_row_image, @@GLOBAL.binlog_row_value_options";
    let answer = sessions.control.query(what);
    let result = sessions.at(answer)?;
    let text = |column| sessions.at(result.told::<String>(0, column, what));
    let (image, value_options) = (text(0)?, text(1)?);
    if image != "FULL" {
        let what = format!("binlog_row_image is {image}");
        return Err(CopyError::NeedsFullImages { what, fix: "SET PERSIST binlog_row_image = FULL;".into() });
    }
    if !value_options.is_empty() {
        let what = format!("binlog_row_value_options is {value_options}");
        return Err(CopyError::NeedsFullImages { what, fix: "SET PERSIST binlog_row_value_options = '';".into() });
    }
    Ok(())
}
