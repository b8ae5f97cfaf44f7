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

use crate::definitions::{Definition, Listing, Name, build_catalog, define, read_definitions};
use crate::error::CopyError;
use crate::preparing::Preparing;

/// Definitions read, one after the other, while the source works.
pub struct DefinitionsNow {
    listing: Listing,
    definitions: Vec<(Name, Vec<u8>)>,
    /// Tables that the source cannot show, and why.
    unread: Vec<(Name, CopyError)>,
    names: SourceNames,
    version: Option<u32>,
    /// What the source had executed after all were read.
    pub executed: GtidSet,
}

impl DefinitionsNow {
    /// Reads them.
    ///
    /// # Errors
    /// The source cannot be reached, or has no GTIDs.
    pub fn read(options: &ConnectOptions, lower_case_table_names: u8) -> Result<DefinitionsNow, CopyError> {
        let server = format!("{}:{}", options.host, options.port);
        let at = |error: ClientError| CopyError::Source { server: server.clone(), error };
        let mut reader = reading_session(options).map_err(at)?;
        let version = version_number(reader.server_version());
        let names = SourceNames { filters: Arc::default(), lower_case_table_names };
        let listing = Listing::read(&mut reader, None, None).map_err(at)?;
        let wanted = listing.wanted(&TableFilter::default(), lower_case_table_names)?;
        let mut readers = [reader];
        let shown = read_definitions(&mut readers, &wanted, &Preparing::default())?;
        let [mut reader] = readers;
        let executed = gtid_executed(&mut reader).map_err(at)?;
        let executed = executed.ok_or_else(|| CopyError::NoGtids { server: server.clone() })?;
        let (definitions, unread) = divided(shown);
        Ok(DefinitionsNow { listing, definitions, unread, names, version, executed })
    }

    /// The catalog of those that are not left out, and what is not in it, in words: tables whose definition the source
    /// cannot show, or that is not understood.
    #[must_use]
    pub fn catalog(
        &self,
        leaves_out: &dyn Fn(&str, &str) -> bool,
        leaves_out_database: &dyn Fn(&str) -> bool,
    ) -> (Catalog, Vec<String>) {
        let databases = self.listing.databases.iter().filter(|(db, _)| !leaves_out_database(db)).cloned().collect();
        let listing = Listing { databases, ..Listing::default() };
        let is_asked = |name: &Name| !leaves_out_database(&name.0) && !leaves_out(&name.0, &name.1);
        let unread = self.unread.iter().filter(|(name, _)| is_asked(name));
        let mut refused: Vec<String> = unread.map(|(_, error)| error.to_string()).collect();
        let bare = build_catalog(&listing, &[], &self.names, self.version);
        let mut catalog = bare.unwrap_or_else(|error| {
            refused.push(error.to_string());
            Catalog::new(self.names.lower_case_table_names)
        });
        for (name, sql) in self.definitions.iter().filter(|(name, _)| is_asked(name)) {
            match define(&catalog, &self.names, name, sql, self.version) {
                Ok(with) => catalog = with,
                Err(error) => refused.push(error.to_string()),
            }
        }
        (catalog, refused)
    }
}

type Divided = (Vec<(Name, Vec<u8>)>, Vec<(Name, CopyError)>);

/// The definitions that were shown, and the tables that could not be. The log tells of those that are gone.
fn divided(shown: Vec<Definition>) -> Divided {
    let (mut definitions, mut unread) = Divided::default();
    for (name, sql) in shown {
        match sql {
            Ok(Some(sql)) => definitions.push((name, sql)),
            Ok(None) => {}
            Err(error) => unread.push((name, error)),
        }
    }
    (definitions, unread)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_that_cannot_be_shown_is_named() {
        let named = |table: &str| ("d".to_owned(), table.to_owned());
        let broken = |table: &str| {
            let error = ClientError::Server { code: 1017, sqlstate: String::new(), message: "no file".into() };
            (named(table), Err(CopyError::Table { db: "d".into(), table: table.to_owned(), error }))
        };
        let sql = b"CREATE TABLE `t` (\n  `a` int NOT NULL,\n  PRIMARY KEY (`a`)\n) ENGINE=InnoDB".to_vec();
        let shown = vec![(named("t"), Ok(Some(sql))), (named("gone"), Ok(None)), broken("broken"), broken("left_out")];
        let (definitions, unread) = divided(shown);
        let databases = vec![("d".to_owned(), "utf8mb4_0900_ai_ci".to_owned())];
        let now = DefinitionsNow {
            listing: Listing { databases, ..Listing::default() },
            definitions,
            unread,
            names: SourceNames::default(),
            version: Some(90_704),
            executed: GtidSet::new(),
        };
        let (catalog, refused) = now.catalog(&|_, table| table == "left_out", &|_| false);
        assert_eq!(catalog.tables().count(), 1);
        assert!(matches!(&refused[..], [one] if one.contains("`d`.`broken`") && one.contains("1017")), "{refused:?}");
    }
}
