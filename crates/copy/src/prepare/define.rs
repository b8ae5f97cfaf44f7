//! The catalog at the snapshots' moment.
//!
//! In: the tables to copy. Out: their definitions, if no DDL came in between, or the tables that it changed. Never
//! here: rows.

use catalog::SourceNames;
use source::replication::version_number;

use crate::definitions::{self, Listing, Name, build_catalog, read_definitions};
use crate::error::CopyError;
use crate::lock::{Moment, Patience, Sessions};
use crate::options::Unsettled;
use crate::plan::SourceFacts;

use super::{FRESH, names_of};

/// Definitions to read.
pub(super) struct Defining {
    pub(super) listing: Listing,
    pub(super) names: Vec<Name>,
    pub(super) source_names: SourceNames,
    pub(super) version: Option<u32>,
}

/// Definitions read.
pub(super) struct Defined {
    pub(super) listing: Listing,
    pub(super) names: Vec<Name>,
    pub(super) catalog: catalog::Catalog,
    /// Tables that DDL changed; in neither `names` nor `catalog`.
    pub(super) unsettled: Vec<Name>,
}

/// The catalog at the snapshot, or the tables that DDL has changed since.
pub(super) fn read_catalog<T>(
    sessions: &mut Sessions,
    facts: &SourceFacts,
    unsettled: Unsettled,
    patience: &Patience<'_>,
    moment: &Moment<T>,
) -> Result<Result<Defined, Vec<Name>>, CopyError> {
    let lower = facts.lower_case_table_names;
    let Some(reader) = sessions.readers.first_mut() else { return Ok(Err(Vec::new())) };
    let listing = Listing::read(reader, &moment.now);
    let listing = sessions.at(listing)?;
    let names = listing.wanted(&patience.options.tables, lower)?;
    let fresh = |name: &&Name| listing.tables.get(*name).is_some_and(|table| table.fresh);
    let mut fresh: Vec<Name> = names.iter().filter(fresh).cloned().collect();
    if !fresh.is_empty() {
        if moment.backup_since.is_some() {
            // DDL is blocked, so wait for the end of the second; the next DDL on these tables will then have a
            // different time.
            patience.sleep(FRESH)?;
            fresh.clear();
        } else if unsettled == Unsettled::End {
            return Ok(Err(fresh));
        }
    }
    let version = version_number(&facts.version);
    let source_names = names_of(facts, patience.options);
    let defining = Defining { listing, names, source_names, version };
    define_all(sessions, defining, fresh, unsettled)
}

/// The definitions of all tables in the listing, or those tables that have changed since. With `Unsettled::LeaveOut`,
/// changed tables, including `changed` from the start, are excluded instead.
pub(super) fn define_all(
    sessions: &mut Sessions,
    defining: Defining,
    mut changed: Vec<Name>,
    unsettled: Unsettled,
) -> Result<Result<Defined, Vec<Name>>, CopyError> {
    let Defining { listing, mut names, source_names, version } = defining;
    let mut left_out = Vec::new();
    loop {
        // Terminates, because each iteration removes at least one name.
        names.retain(|name| !changed.contains(name));
        left_out.append(&mut changed);
        match define(sessions, &listing, &names, &source_names, version)? {
            Ok(catalog) => return Ok(Ok(Defined { listing, names, catalog, unsettled: left_out })),
            Err(more) if unsettled == Unsettled::LeaveOut => changed = more,
            Err(more) => return Ok(Err(more)),
        }
    }
}

fn define(
    sessions: &mut Sessions,
    listing: &Listing,
    names: &[Name],
    source_names: &SourceNames,
    version: Option<u32>,
) -> Result<Result<catalog::Catalog, Vec<Name>>, CopyError> {
    let definitions = read_definitions(&mut sessions.readers, names)?;
    let later = Listing::read(&mut sessions.control, "");
    let later = sessions.at(later)?;
    let mut changed = listing.changed(&later, names);
    let mut complete = Vec::with_capacity(definitions.len());
    for (name, sql) in definitions {
        match sql {
            Some(sql) => complete.push((name, sql)),
            None => changed.push(name),
        }
    }
    if !changed.is_empty() {
        return Ok(Err(changed));
    }
    let catalog = build_catalog(listing, &complete, source_names, version)?;
    let Some(reader) = sessions.readers.first_mut() else { return Ok(Ok(catalog)) };
    let others = definitions::with_other_columns(reader, &catalog, source_names, names);
    let others = sessions.at(others)?;
    Ok(if others.is_empty() { Ok(catalog) } else { Err(others) })
}
