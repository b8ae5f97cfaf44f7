//! Names of the source's databases and tables, as it has them now.
//!
//! In: a login, the filters. Out: what is replicated, by its names here, and a GTID set that holds all of it. Never
//! here: definitions, rows, a lock.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use base::GtidSet;
use catalog::ReplicationFilters;
use client::session::{gtid_executed, reading_session};
use client::{ClientError, ConnectOptions};
use source::KEEPS_NO_TABLES;
use values::collation;

use crate::definitions::Listing;
use crate::error::CopyError;

/// Names read at one moment.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TablesNow {
    /// Databases, each with its default collation, if it is known.
    pub databases: BTreeMap<String, Option<u16>>,
    /// Base tables, each with its CREATE_TIME, if the source tells it.
    pub tables: BTreeMap<(String, String), Option<String>>,
    /// What the source had executed afterwards.
    pub executed: GtidSet,
}

impl TablesNow {
    /// Reads them, and `gtid_executed` that much later: a table can be seen a moment before its transaction is in that
    /// set.
    ///
    /// # Errors
    /// The source cannot be reached or read, or has no GTIDs.
    pub fn read(
        options: &ConnectOptions,
        filters: &Arc<ReplicationFilters>,
        lower_case_table_names: u8,
        later: Duration,
    ) -> Result<TablesNow, CopyError> {
        let server = options.to_string();
        let at = |error: ClientError| CopyError::Source { server: server.clone(), error };
        let mut reader = reading_session(options).map_err(at)?;
        let listing = match Listing::read(&mut reader, None, None) {
            Err(error) if error.server_code() == Some(KEEPS_NO_TABLES) => Listing::default(),
            listing => listing.map_err(at)?,
        };
        std::thread::sleep(later);
        let executed = gtid_executed(&mut reader).map_err(at)?;
        let executed = executed.ok_or_else(|| CopyError::NoGtids { server: server.clone() })?;
        Ok(TablesNow { executed, ..replicated(listing, filters, lower_case_table_names) })
    }
}

/// What of a listing is replicated, by its names here.
fn replicated(listing: Listing, filters: &ReplicationFilters, lower_case_table_names: u8) -> TablesNow {
    let mut found = TablesNow::default();
    for ((db, table), listed) in listing.tables {
        if let Some(here) = filters.place_of(&db, &table, lower_case_table_names) {
            found.tables.insert((here.to_owned(), table), listed.created);
        }
    }
    let with_tables: BTreeSet<String> = found.tables.keys().map(|(db, _)| db.clone()).collect();
    for (db, default_collation) in listing.databases {
        let here = filters.rewritten(&db, lower_case_table_names);
        if filters.database_statement_passes(here, lower_case_table_names) || with_tables.contains(here) {
            let collation = collation::by_name(&default_collation).map(|collation| collation.id);
            found.databases.entry(here.to_owned()).or_insert(collation);
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::definitions::Listed;

    #[test]
    fn filters_choose_and_rename() {
        let mut filters = ReplicationFilters::default();
        for (option, value) in [("rewrite-db", "a->b"), ("ignore-table", "b.left"), ("ignore-db", "c")] {
            filters.add(&format!("replicate-{option}"), value).unwrap();
        }
        let named = |db: &str, table: &str| (db.to_owned(), table.to_owned());
        let listed = Listed { engine: "InnoDB".into(), created: Some("2026-01-02".into()), fresh: false };
        let tables = [named("a", "t"), named("a", "left"), named("c", "t")];
        let databases = ["a", "c", "empty"].map(|db| (db.to_owned(), "latin1_bin".to_owned()));
        let listing = Listing {
            databases: databases.to_vec(),
            tables: tables.into_iter().map(|name| (name, listed.clone())).collect(),
            views: Vec::new(),
        };
        let found = replicated(listing, &filters, 0);
        assert_eq!(found.tables.into_keys().collect::<Vec<_>>(), [named("b", "t")]);
        let databases: Vec<_> = found.databases.into_iter().collect();
        assert_eq!(databases, [("b".to_owned(), Some(47)), ("empty".to_owned(), Some(47))]);
    }
}
