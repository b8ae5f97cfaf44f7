//! Definitions as the source has them now, without a lock and without rows.
//!
//! In: a login. Out: each table's definition at some moment before a GTID set. Never here: a decision whether a
//! definition also held earlier.

use std::sync::Arc;

use base::GtidSet;
use catalog::{Catalog, SourceNames};
use client::session::{gtid_executed, reading_session};
use client::{ClientError, ConnectOptions};
use source::TableFilter;
use source::replication::version_number;

use crate::definitions::{Listing, Name, build_catalog, define, read_definitions};
use crate::error::CopyError;

/// Definitions read, one after the other, while the source works.
pub struct DefinitionsNow {
    listing: Listing,
    definitions: Vec<(Name, Vec<u8>)>,
    names: SourceNames,
    version: Option<u32>,
    /// What the source had executed after all were read.
    pub executed: GtidSet,
}

impl DefinitionsNow {
    /// Reads them. Tables that the source cannot show are left out.
    ///
    /// # Errors
    /// The source cannot be reached, or has no GTIDs.
    pub fn read(options: &ConnectOptions, lower_case_table_names: u8) -> Result<DefinitionsNow, CopyError> {
        let server = format!("{}:{}", options.host, options.port);
        let at = |error: ClientError| CopyError::Source { server: server.clone(), error };
        let mut reader = reading_session(options).map_err(at)?;
        let version = version_number(reader.server_version());
        let names = SourceNames { filters: Arc::default(), lower_case_table_names };
        let listing = Listing::read(&mut reader, "").map_err(at)?;
        let wanted = listing.wanted(&TableFilter::default(), lower_case_table_names)?;
        let mut readers = [reader];
        let shown = read_definitions(&mut readers, &wanted)?;
        let [mut reader] = readers;
        let executed = gtid_executed(&mut reader).map_err(at)?;
        let executed = executed.ok_or_else(|| CopyError::NoGtids { server: server.clone() })?;
        let definitions = shown.into_iter().filter_map(|(name, sql)| Some((name, sql.ok().flatten()?))).collect();
        Ok(DefinitionsNow { listing, definitions, names, version, executed })
    }

    /// The catalog of those that are not left out, and the tables whose definition is not understood.
    #[must_use]
    pub fn catalog(
        &self,
        leaves_out: &dyn Fn(&str, &str) -> bool,
        leaves_out_database: &dyn Fn(&str) -> bool,
    ) -> (Catalog, Vec<String>) {
        let databases = self.listing.databases.iter().filter(|(db, _)| !leaves_out_database(db)).cloned().collect();
        let listing = Listing { databases, ..Listing::default() };
        // Databases have no definitions that are not understood.
        let bare = build_catalog(&listing, &[], &self.names, self.version);
        let mut catalog = bare.unwrap_or_else(|_| Catalog::new(self.names.lower_case_table_names));
        let mut refused = Vec::new();
        for (name, sql) in &self.definitions {
            if leaves_out_database(&name.0) || leaves_out(&name.0, &name.1) {
                continue;
            }
            match define(&catalog, &self.names, name, sql, self.version) {
                Ok(with) => catalog = with,
                Err(_) => refused.push(format!("{}.{}", name.0, name.1)),
            }
        }
        (catalog, refused)
    }
}
