//! What other filters let in that was left out until now.
//!
//! In: a login, the filters before and from now on. Out: names of tables and views, and definitions, as the source has
//! them now. Never here: rows (each table is copied by itself); a lock.

use std::collections::BTreeSet;
use std::sync::Arc;

use catalog::{LetIn, ReplicationFilters, SourceNames};
use client::session::reading_session;
use client::{ClientError, ConnectOptions};

use crate::definitions::{Listing, Name};
use crate::error::CopyError;

/// Asks the source; returns also what could not be read of definitions, in words. The filters rename alike.
///
/// # Errors
/// The source cannot be reached or read.
pub fn let_in(
    options: &ConnectOptions,
    before: &ReplicationFilters,
    now: &Arc<ReplicationFilters>,
    lower_case_table_names: u8,
) -> Result<(LetIn, Vec<String>), CopyError> {
    let server = format!("{}:{}", options.host, options.port);
    let at = |error: ClientError| CopyError::Source { server: server.clone(), error };
    let mut reader = reading_session(options).map_err(at)?;
    let listing = Listing::read(&mut reader, None, None).map_err(at)?;
    let names = SourceNames { filters: Arc::clone(now), lower_case_table_names };
    let found = crate::recorded::read(&mut reader, &names).map_err(at)?;
    let new = |name: &Name| -> Option<Name> {
        let (db, table) = name;
        let here = now.place_of(db, table, lower_case_table_names)?;
        before.place_of(db, table, lower_case_table_names).is_none().then(|| (here.to_owned(), table.clone()))
    };
    let views: BTreeSet<Name> = listing.views.iter().filter_map(new).collect();
    let definitions = found.all.into_iter().filter(|one| !one.passes(before, lower_case_table_names)).collect();
    let tables = listing.tables.keys().filter_map(new).collect();
    Ok((LetIn { tables, views: views.into_iter().collect(), definitions }, found.notes))
}
