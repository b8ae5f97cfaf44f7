//! The source's catalog at exactly the snapshot's moment, G.
//!
//! In: a connection inside the snapshot, and one outside. Out: databases, views, tables and their definitions at G.
//! Never here: rows.
//!
//! Invariant: an accepted definition is the one at G. Inside a snapshot, information_schema shows the dictionary as of
//! the snapshot (its tables are InnoDB's), but SHOW CREATE TABLE shows the current definition. Every DDL statement on a
//! table sets its CREATE_TIME, and a rename keeps it. So if a table's CREATE_TIME outside the snapshot equals the one
//! inside, no DDL came in between, nor was another table renamed to its name.
//!
//! CREATE_TIME has a resolution of one second. A snapshot taken in the same second as a table's last DDL is therefore
//! useless and is retaken (`Listed::fresh`). The value is the second in which the statement started (seen on 9.7); on a
//! source that is itself a replica, the second in which it started on the first server. The lock may also have delayed
//! a statement that started in the same second as the one before it. Column names are therefore compared, too, so that
//! no value can end up under another column's name.
//!
//! Two cases could still slip through. One is a change of keys or defaults; replay stops where the log has it. The
//! other is a RENAME TABLE under the snapshot that swaps two tables with the same columns and created in the same
//! second. Nothing that an account without PROCESS may query distinguishes them; replay stops at the first missing row,
//! and `verify` shows it.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::sync::Arc;

use catalog::{Catalog, SourceNames, StatementContext, TableDef};
use client::session::{self, quoted, quoted_text};
use client::{ClientError, Connection, ResultSet};
use source::{NOT_SYSTEM, TableFilter};
use values::collation;

use crate::error::{CopyError, at_table};
use crate::members::spell_members;
use crate::preparing::Preparing;

const SCHEMATA: &str = "information_schema.SCHEMATA";
const TABLES: &str = "information_schema.TABLES";

/// Database and table, by their names on the source.
pub(crate) type Name = (String, String);

/// Facts about a base table from information_schema.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Listed {
    pub engine: String,
    /// CREATE_TIME; see the module. None if the server does not tell it.
    pub created: Option<String>,
    /// True if its last DDL was in the second for which the list was made, or later.
    pub fresh: bool,
}

/// All databases, tables and views as one connection sees them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Listing {
    /// With the name of the default collation.
    pub databases: Vec<(String, String)>,
    pub tables: BTreeMap<Name, Listed>,
    pub views: Vec<Name>,
}

/// The name of the only table, if it is only one.
pub(crate) fn only_name(names: &[Name]) -> Option<&str> {
    if let [(_, name)] = names { Some(name) } else { None }
}

/// Condition for tables outside the server's own schemas; with `only`, for those of this name.
fn condition(only: Option<&str>) -> String {
    only.map_or_else(|| NOT_SYSTEM.to_owned(), |name| format!("{NOT_SYSTEM} AND TABLE_NAME = {}", quoted_text(name)))
}

fn text(result: &ResultSet, row: usize, column: usize) -> String {
    result.text(row, column).unwrap_or_default()
}

impl Listing {
    /// Queries information_schema. Tables whose last DDL was at `moment` or later are fresh; `moment` is a server's
    /// `NOW()`, None for the current time. With `only`, of tables and databases only those of this table's name: a list
    /// of all takes seconds where there are many.
    pub(crate) fn read(
        connection: &mut Connection,
        moment: Option<&str>,
        only: Option<&str>,
    ) -> client::Result<Listing> {
        let mut listing = Listing::default();
        let moment = moment.map_or_else(|| "NOW()".to_owned(), quoted_text);
        let databases = connection.query(&format!(
            "SELECT SCHEMA_NAME, DEFAULT_COLLATION_NAME FROM {SCHEMATA} WHERE {} ORDER BY 1",
            NOT_SYSTEM.replace("TABLE_SCHEMA", "SCHEMA_NAME")
        ))?;
        for row in 0..databases.rows.len() {
            listing.databases.push((databases.told(row, 0, SCHEMATA)?, databases.told(row, 1, SCHEMATA)?));
        }
        let tables = connection.query_list(&format!(
            "SELECT TABLE_SCHEMA, TABLE_NAME, TABLE_TYPE, ENGINE, CREATE_TIME, CREATE_TIME >= {moment} \
             FROM {TABLES} WHERE {}",
            condition(only)
        ))?;
        listing.add_tables(&tables)?;
        if only.is_some() {
            let names: BTreeSet<&str> =
                listing.tables.keys().chain(&listing.views).map(|(db, _)| db.as_str()).collect();
            listing.databases.retain(|(db, _)| names.contains(db.as_str()));
        }
        Ok(listing)
    }

    /// Adds base tables and views, each with schema, name, type, engine, CREATE_TIME, and whether it is fresh.
    fn add_tables(&mut self, tables: &ResultSet) -> client::Result<()> {
        for row in 0..tables.rows.len() {
            let name = (tables.told(row, 0, TABLES)?, tables.told(row, 1, TABLES)?);
            if tables.told::<String>(row, 2, TABLES)? == "VIEW" {
                self.views.push(name);
            } else {
                // A table without an engine's name counts as one of an unknown engine: it is read under the lock.
                let engine = text(tables, row, 3);
                let created = tables.text(row, 4);
                let fresh = created.is_some() && tables.told::<u8>(row, 5, TABLES)? != 0;
                self.tables.insert(name, Listed { engine, created, fresh });
            }
        }
        Ok(())
    }

    /// Without its CREATE_TIME nobody can know whether a table has changed.
    ///
    /// # Errors
    /// The first of `names` whose CREATE_TIME the server does not tell.
    pub(crate) fn check_times(&self, names: &[Name]) -> Result<(), CopyError> {
        let untold = |name: &&Name| self.tables.get(*name).is_some_and(|table| table.created.is_none());
        let Some((db, table)) = names.iter().find(untold) else { return Ok(()) };
        Err(at_table(db, table, ClientError::unexpected_value(TABLES, "CREATE_TIME", None)))
    }

    /// Names of the tables that the filter selects.
    pub(crate) fn wanted(&self, filter: &TableFilter, lower_case_table_names: u8) -> Result<Vec<Name>, CopyError> {
        let place = |(db, table): &Name| {
            let here = filter.filters.place_of(db, table, lower_case_table_names)?;
            Some((here.to_owned(), table.clone()))
        };
        let here: Vec<Name> = self.tables.keys().filter_map(place).collect();
        let names = here.iter().map(|(db, table)| (db.as_str(), table.as_str()));
        if let Some(missing) = filter.unmatched(names, lower_case_table_names) {
            return Err(CopyError::NoSuchTable(missing));
        }
        let wanted = |name: &&Name| filter.place_of(&name.0, &name.1, lower_case_table_names).is_some();
        Ok(self.tables.keys().filter(wanted).cloned().collect())
    }

    /// Those of `names` that are missing from `later`, or may have changed.
    pub(crate) fn changed(&self, later: &Listing, names: &[Name]) -> Vec<Name> {
        let same = |name: &Name| self.created(name).is_some_and(|created| later.created(name) == Some(created));
        names.iter().filter(|name| !same(name)).cloned().collect()
    }

    pub(crate) fn created(&self, name: &Name) -> Option<&str> {
        self.tables.get(name)?.created.as_deref()
    }
}

/// Column names as GROUP_CONCAT of information_schema.COLUMNS, in hexadecimal so that commas can only be separators.
const COLUMN_NAMES: &str = "GROUP_CONCAT(HEX(COLUMN_NAME) ORDER BY ORDINAL_POSITION)";

/// Column names of a definition in the form of `COLUMN_NAMES`.
fn column_names(table: &TableDef) -> String {
    let hex = |name: &str| name.bytes().fold(String::new(), |text, byte| text + &format!("{byte:02X}"));
    table.columns.iter().map(|column| hex(&column.name)).collect::<Vec<_>>().join(",")
}

/// A table whose rows were read, as it was at the snapshot.
pub(crate) struct Read<'a> {
    pub table: &'a str,
    pub def: &'a TableDef,
    /// Its CREATE_TIME.
    pub created: Option<&'a str>,
}

/// For each of these tables of one database, whether it still has this definition; None if there is no such table.
pub(crate) fn are_unchanged(
    connection: &mut Connection,
    db: &str,
    tables: &[Read<'_>],
) -> client::Result<Vec<Option<bool>>> {
    let names: Vec<String> = tables.iter().map(|read| quoted_text(read.table)).collect();
    let schema = quoted_text(db);
    let result = connection.query(&format!(
        "SELECT TABLE_NAME, CREATE_TIME, (SELECT {COLUMN_NAMES} FROM information_schema.COLUMNS AS c \
         WHERE c.TABLE_SCHEMA = {schema} AND c.TABLE_NAME = t.TABLE_NAME) \
         FROM {TABLES} AS t WHERE t.TABLE_SCHEMA = {schema} AND t.TABLE_NAME IN ({})",
        names.join(",")
    ))?;
    let mut found = HashMap::new();
    for row in 0..result.rows.len() {
        let now: String = result.told(row, 1, TABLES)?;
        found.insert(text(&result, row, 0), (now, text(&result, row, 2)));
    }
    let same = |read: &Read<'_>| {
        let (now, columns) = found.get(read.table)?;
        Some(read.created == Some(now) && *columns == column_names(read.def))
    };
    Ok(tables.iter().map(same).collect())
}

/// Those of `names` whose definitions in the catalog have other columns than this connection's information_schema.
pub(crate) fn with_other_columns(
    connection: &mut Connection,
    catalog: &Catalog,
    source_names: &SourceNames,
    names: &[Name],
) -> client::Result<Vec<Name>> {
    let only = only_name(names);
    let result = connection.query_list(&format!(
        "SELECT TABLE_SCHEMA, TABLE_NAME, {COLUMN_NAMES} FROM information_schema.COLUMNS WHERE {} \
         GROUP BY TABLE_SCHEMA, TABLE_NAME",
        condition(only)
    ))?;
    let rows = 0..result.rows.len();
    let listed: HashMap<Name, String> =
        rows.map(|row| ((text(&result, row, 0), text(&result, row, 1)), text(&result, row, 2))).collect();
    let differs = |name: &&Name| {
        definition_here(catalog, source_names, name).map(|table| column_names(table)) != listed.get(*name).cloned()
    };
    Ok(names.iter().filter(differs).cloned().collect())
}

/// Rows and bytes of each table, as estimated by the source's statistics; with `only`, of the tables of this name. The
/// source opens each table for them.
pub(crate) fn estimates(connection: &mut Connection, only: Option<&str>) -> client::Result<HashMap<Name, (u64, u64)>> {
    // Otherwise the statistics may be up to a day old, from when the table was empty.
    connection.exec("SET SESSION information_schema_stats_expiry = 0")?;
    let result = connection.query_list(&format!(
        "SELECT TABLE_SCHEMA, TABLE_NAME, TABLE_ROWS, DATA_LENGTH FROM information_schema.TABLES \
         WHERE TABLE_TYPE = 'BASE TABLE' AND {}",
        condition(only)
    ))?;
    // NULL for a table that the source cannot open. They decide about order, ranges and progress, not about rows.
    let number = |row, column| text(&result, row, column).parse().unwrap_or(0);
    let rows = 0..result.rows.len();
    Ok(rows.map(|row| ((text(&result, row, 0), text(&result, row, 1)), (number(row, 2), number(row, 3)))).collect())
}

/// SHOW CREATE TABLE; None if the table does not exist (any more).
pub(crate) fn show_create(connection: &mut Connection, name: &Name) -> Result<Option<Vec<u8>>, CopyError> {
    let sql = format!("SHOW CREATE TABLE {}.{}", quoted(&name.0), quoted(&name.1));
    match connection.query(&sql) {
        Ok(mut result) => {
            let definition = result.rows.first_mut().and_then(|row| row.get_mut(1)).and_then(Option::take);
            let what = "SHOW CREATE TABLE";
            let definition = definition.ok_or(ClientError::UnexpectedAnswer { what }).and_then(|definition| {
                spell_members(definition, &mut |column, is_set, count| {
                    session::members(connection, (&name.0, &name.1, column), is_set, count)
                })
            });
            definition.map(Some).map_err(|error| at_table(&name.0, &name.1, error))
        }
        Err(error) => match at_table(&name.0, &name.1, error) {
            CopyError::TableVanished { .. } => Ok(None),
            error => Err(error),
        },
    }
}

/// Result of SHOW CREATE TABLE; None if the table is gone, the error if the source cannot show it.
pub(crate) type Definition = (Name, Result<Option<Vec<u8>>, CopyError>);

/// Reads the definitions of `names`; each connection reads a share.
pub(crate) fn read_definitions(
    readers: &mut [Connection],
    names: &[Name],
    preparing: &Preparing,
) -> Result<Vec<Definition>, CopyError> {
    preparing.begin("reading definitions", names.len());
    let share = names.len().div_ceil(readers.len().max(1)).max(1);
    std::thread::scope(|scope| {
        let parts: Vec<_> = (readers.iter_mut().zip(names.chunks(share)))
            .map(|(reader, names)| {
                scope.spawn(move || {
                    let show = |name: &Name| {
                        let shown = show_create(reader, name);
                        preparing.table_done();
                        match shown {
                            Err(CopyError::Table { db, table, error }) if error.server_code().is_some() => {
                                Ok((name.clone(), Err(CopyError::Table { db, table, error })))
                            }
                            shown => Ok((name.clone(), Ok(shown?))),
                        }
                    };
                    names.iter().map(show).collect::<Result<Vec<_>, _>>()
                })
            })
            .collect();
        let mut all = Vec::with_capacity(names.len());
        for part in parts {
            let part = part.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic));
            all.extend(part?);
        }
        Ok(all)
    })
}

/// Context of the session that ran SHOW CREATE TABLE.
fn context(db: &str, names: &SourceNames, server_version: Option<u32>) -> StatementContext {
    StatementContext {
        default_db: names.database(db).to_owned(),
        names: names.clone(),
        collation_client: Some(collation::UTF8MB4_0900_AI_CI),
        collation_connection: Some(collation::UTF8MB4_0900_AI_CI),
        explicit_defaults_for_timestamp: Some(true),
        time_zone: Some("+00:00".to_owned()),
        server_version,
        of_the_source: true,
        ..StatementContext::default()
    }
}

/// Definition of a table, given its name on the source.
pub(crate) fn definition_here<'a>(catalog: &'a Catalog, names: &SourceNames, name: &Name) -> Option<&'a Arc<TableDef>> {
    catalog.table(names.database(&name.0), &name.1)
}

/// Adds the definition of one table to a catalog.
pub(crate) fn define(
    catalog: &Catalog,
    names: &SourceNames,
    name: &Name,
    sql: &[u8],
    server_version: Option<u32>,
) -> Result<Catalog, CopyError> {
    let outcome = catalog.apply(&context(&name.0, names, server_version), sql);
    match outcome {
        Ok(outcome) if definition_here(&outcome.catalog, names, name).is_some() => Ok(outcome.catalog),
        Ok(_) => Err(undefined(name, "its definition is that of another table".into())),
        Err(error) => Err(undefined(name, error.to_string())),
    }
}

fn undefined(name: &Name, reason: String) -> CopyError {
    CopyError::Definition { table: format!("{}.{}", quoted(&name.0), quoted(&name.1)), reason }
}

/// Builds the catalog from all databases, then the tables, then the views.
pub(crate) fn build_catalog(
    listing: &Listing,
    definitions: &[(Name, Vec<u8>)],
    names: &SourceNames,
    server_version: Option<u32>,
) -> Result<Catalog, CopyError> {
    let mut catalog = Catalog::new(names.lower_case_table_names);
    let apply = |catalog: &Catalog, sql: String, name: &Name| {
        let outcome = catalog.apply(&context("", names, server_version), sql.as_bytes());
        outcome.map(|outcome| outcome.catalog).map_err(|error| undefined(name, error.to_string()))
    };
    for (db, default_collation) in &listing.databases {
        let sql = format!("CREATE DATABASE {} DEFAULT COLLATE {default_collation}", quoted(db));
        catalog = apply(&catalog, sql, &(db.clone(), "*".into()))?;
    }
    for (name, sql) in definitions {
        catalog = define(&catalog, names, name, sql, server_version)?;
    }
    let replicated = |(db, view): &&Name| names.replicates(names.database(db), view);
    for name in listing.views.iter().filter(replicated) {
        let sql = format!("CREATE VIEW {}.{} AS SELECT 1", quoted(&name.0), quoted(&name.1));
        catalog = apply(&catalog, sql, name)?;
    }
    Ok(catalog)
}

/// True if two definitions are equal except for id and version.
pub(crate) fn same_definition(left: &TableDef, right: &TableDef) -> bool {
    TableDef { id: right.id, version: right.version, ..left.clone() } == *right
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table(created: &str) -> Listed {
        Listed { engine: "InnoDB".into(), created: Some(created.into()), fresh: false }
    }

    fn listing(tables: &[(&str, &str)]) -> Listing {
        let named = |(name, created): &(&str, &str)| (("d".to_owned(), (*name).to_owned()), table(created));
        Listing { tables: tables.iter().map(named).collect(), ..Listing::default() }
    }

    #[test]
    fn changed_tables_are_found() {
        let before = listing(&[("same", "1"), ("altered", "1"), ("dropped", "1"), ("other", "1")]);
        let after = listing(&[("same", "1"), ("altered", "2"), ("other", "2"), ("new", "2")]);
        let wanted: Vec<Name> =
            ["same", "altered", "dropped"].iter().map(|name| ("d".to_owned(), (*name).to_owned())).collect();
        assert_eq!(before.changed(&after, &wanted), wanted[1..]);
    }

    #[test]
    fn a_time_that_is_not_told_is_not_the_same_time() {
        let row = |values: [Option<&str>; 6]| values.map(|text| text.map(|text| text.into())).to_vec();
        let of = |name, created, fresh| row([Some("d"), Some(name), Some("BASE TABLE"), None, created, fresh]);
        let rows = vec![of("told", Some("2026-01-02"), Some("1")), of("untold", None, None)];
        let mut listing = Listing::default();
        listing.add_tables(&ResultSet { rows, ..ResultSet::default() }).unwrap();
        let names: Vec<Name> = listing.tables.keys().cloned().collect();
        assert!(listing.tables[&names[0]].fresh && !listing.tables[&names[1]].fresh);
        assert_eq!(listing.changed(&listing.clone(), &names), names[1..]);
        listing.check_times(&names[..1]).unwrap();
        let error = listing.check_times(&names).unwrap_err().to_string();
        assert!(error.contains("`d`.`untold`") && error.contains("CREATE_TIME is NULL"), "{error}");

        for wrong in [row([Some("d"), None, Some("BASE TABLE"), None, None, None]), of("t", Some("x"), None)] {
            let rows = ResultSet { rows: vec![wrong], ..ResultSet::default() };
            let error = Listing::default().add_tables(&rows).unwrap_err().to_string();
            assert!(error.contains("information_schema.TABLES: column"), "{error}");
        }
    }

    #[test]
    fn a_catalog_of_databases_tables_and_views() {
        let mut source = listing(&[("t", "1")]);
        source.databases = vec![("d".into(), "latin1_bin".into()), ("e`e".into(), "utf8mb4_0900_ai_ci".into())];
        source.views = vec![("d".into(), "v".into())];
        let (name, names): (Name, _) = (("d".into(), "t".into()), SourceNames::default());
        let sql = b"CREATE TABLE `t` (\n  `a` int NOT NULL,\n  `\xc3\xbc,` int DEFAULT NULL,\n  PRIMARY KEY (`a`)\n) ENGINE=InnoDB";
        let catalog = build_catalog(&source, &[(name.clone(), sql.to_vec())], &names, Some(90_704)).unwrap();
        assert_eq!(catalog.databases().collect::<Vec<_>>(), [("d", Some(47)), ("e`e", Some(255))]);
        let table = catalog.table("d", "t").unwrap();
        assert_eq!(column_names(table), "61,C3BC2C");
        let refused = define(&catalog, &names, &("d".into(), "u".into()), sql, None).unwrap_err();
        assert!(matches!(refused, CopyError::Definition { .. }), "{refused}");
        let refused =
            build_catalog(&source, &[(name, b"CREATE TABLE t (a NONSENSE)".to_vec())], &names, None).unwrap_err();
        assert!(matches!(&refused, CopyError::Definition { table, .. } if table == "`d`.`t`"), "{refused}");
    }
}
