//! The catalog at the snapshots' moment.
//!
//! In: the tables to copy. Out: their definitions, if no DDL came in between, or the tables that it changed. Never
//! here: rows.

use catalog::{Engine, SourceNames};
use source::replication::version_number;

use crate::definitions::{self, Listing, Name, build_catalog, read_definitions};
use crate::error::CopyError;
use crate::lock::{Moment, Patience, Sessions};
use crate::options::Unsettled;
use crate::plan::SourceFacts;

use super::{FRESH, names_of};

pub(super) struct Defining {
    pub(super) listing: Listing,
    pub(super) names: Vec<Name>,
    pub(super) source_names: SourceNames,
    pub(super) version: Option<u32>,
    /// What becomes of a table whose definition the source cannot show, and which has no rows of its own.
    pub(super) unreadable: Unsettled,
}

/// A table without a definition, and why.
pub(super) type Undefined = (Name, String);

/// Why a table that DDL changed has no definition.
pub(super) const CHANGED: &str = "its definition was changed by DDL again and again while the copy began";

pub(super) struct Defined {
    pub(super) listing: Listing,
    pub(super) names: Vec<Name>,
    pub(super) catalog: catalog::Catalog,
    /// Tables that DDL changed, or whose definition cannot be read; in neither `names` nor `catalog`.
    pub(super) unsettled: Vec<Undefined>,
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
    sessions.preparing.begin("listing tables at the snapshot", 0);
    let listing = Listing::read(reader, Some(&moment.now), patience.options.tables.only_table());
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
    let unreadable = patience.options.unsettled;
    let defining = Defining { listing, names, source_names, version, unreadable };
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
    let Defining { listing, mut names, source_names, version, unreadable } = defining;
    let mut left_out = Vec::new();
    loop {
        // Terminates, because each iteration removes at least one name.
        names.retain(|name| !changed.contains(name));
        left_out.extend(changed.drain(..).map(|name| (name, CHANGED.to_owned())));
        let mut unread = Vec::new();
        let defined = define(sessions, &listing, &names, &source_names, version, &mut |name, error| {
            let engine = listing.tables.get(&name).map(|table| Engine::of(&table.engine));
            match engine.and_then(|engine| engine.why_without_rows()) {
                Some(why) if unreadable == Unsettled::LeaveOut => {
                    unread.push((name, format!("its engine {why}, and its definition cannot be read: {error}")));
                    Ok(())
                }
                _ => Err(error),
            }
        })?;
        names.retain(|name| unread.iter().all(|(other, _)| other != name));
        left_out.append(&mut unread);
        match defined {
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
    unread: &mut dyn FnMut(Name, CopyError) -> Result<(), CopyError>,
) -> Result<Result<catalog::Catalog, Vec<Name>>, CopyError> {
    let definitions = read_definitions(&mut sessions.readers, names, &sessions.preparing)?;
    sessions.preparing.begin("comparing definitions with the snapshot's", 0);
    let later = Listing::read(&mut sessions.control, None, definitions::only_name(names));
    let later = sessions.at(later)?;
    let mut changed = listing.changed(&later, names);
    let mut complete = Vec::with_capacity(definitions.len());
    for (name, sql) in definitions {
        match sql {
            Ok(Some(sql)) => complete.push((name, sql)),
            Ok(None) => changed.push(name),
            Err(error) => unread(name, error)?,
        }
    }
    if !changed.is_empty() {
        return Ok(Err(changed));
    }
    let catalog = build_catalog(listing, &complete, source_names, version)?;
    let Some(reader) = sessions.readers.first_mut() else { return Ok(Ok(catalog)) };
    let names: Vec<Name> = complete.into_iter().map(|(name, _)| name).collect();
    let others = definitions::with_other_columns(reader, &catalog, source_names, &names);
    let others = sessions.at(others)?;
    Ok(if others.is_empty() { Ok(catalog) } else { Err(others) })
}
