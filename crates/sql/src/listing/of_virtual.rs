//! What `information_schema` says of the tables of the virtual schemas: the same in every MySQL 9.7.
//!
//! In: `virtual_rows.tsv`, written by `tests/recorded.rs`. Out: rows. Never here: what an account may see.

use std::fmt::Write as _;
use std::sync::OnceLock;

use super::recorded::{NULL, Recorded, listing, sections, value_of};
use crate::bind::Value;

static ROWS: &str = include_str!("../virtual_rows.tsv");

fn all() -> &'static Recorded {
    static ALL: OnceLock<Recorded> = OnceLock::new();
    ALL.get_or_init(|| sections(ROWS))
}

/// Rows of `information_schema.COLUMNS` of the tables that are wanted, given schema and name.
pub(super) fn columns(wanted: &dyn Fn(&str, &str) -> bool) -> Vec<Vec<Value>> {
    let tables = all().values().filter_map(|(name, lines)| {
        let (schema, table) = name.strip_prefix("COLUMNS ")?.split_once('.')?;
        wanted(schema, table).then_some((schema, table, lines))
    });
    let rows = tables.flat_map(|(schema, table, lines)| {
        lines.iter().zip(1..).filter_map(move |(line, place)| column(schema, table, place, line))
    });
    rows.collect()
}

fn column(schema: &str, table: &str, place: usize, line: &str) -> Option<Vec<Value>> {
    let cells: Vec<&str> = line.split('\t').collect();
    let [name, default, nullable, ty, chars, octets, precision, scale, of_time, collation, key, comment] = cells[..]
    else {
        return None;
    };
    let place = place.to_string();
    let data_type = ty.split(['(', ' ']).next()?;
    let charset = collation.split('_').next()?;
    let row = [
        "def", schema, table, name, &place, default, nullable, data_type, chars, octets, precision, scale, of_time,
        charset, collation, ty, key, "", "select", comment, "", NULL,
    ];
    typed("information_schema.COLUMNS", row.into_iter())
}

/// Rows of another table of `information_schema`.
pub(super) fn rows(table: &str) -> Vec<Vec<Value>> {
    let lines = all().get(&table.to_lowercase()).map(|(_, lines)| lines.as_slice()).unwrap_or_default();
    let name = format!("information_schema.{table}");
    lines.iter().filter_map(|line| typed(&name, line.split('\t'))).collect()
}

/// Tables of `information_schema` that are no views, besides those of InnoDB.
const TEMPORARY: &[&str] = &[
    "COLUMN_PRIVILEGES",
    "ENGINES",
    "OPTIMIZER_TRACE",
    "PLUGINS",
    "PROCESSLIST",
    "PROFILING",
    "SCHEMA_PRIVILEGES",
    "TABLE_PRIVILEGES",
    "USER_PRIVILEGES",
];
/// InnoDB's that are views.
const INNODB_VIEWS: &[&str] =
    &["INNODB_DATAFILES", "INNODB_FIELDS", "INNODB_FOREIGN", "INNODB_FOREIGN_COLS", "INNODB_TABLESPACES_BRIEF"];
/// Tables of `performance_schema` with another collation than the others.
const IN_UTF8MB4_BIN: &[&str] = &["keyring_keys", "session_account_connect_attrs", "session_connect_attrs"];

/// The statement of SHOW CREATE TABLE of a table that is no view; None for a view, whose SELECT is MySQL's own.
#[must_use]
pub fn show_create_virtual(schema: &str, table: &str) -> Option<String> {
    let (_, lines) = all().get(&format!("columns {schema}.{table}").to_lowercase())?;
    if schema == "performance_schema" {
        let collation = if IN_UTF8MB4_BIN.contains(&table) { "utf8mb4_bin" } else { "utf8mb4_0900_ai_ci" };
        let columns = lines.iter().filter_map(|line| column_element(table, line, collation));
        let elements: Vec<String> = columns.chain(key_elements(table)).collect();
        return Some(format!(
            "CREATE TABLE `{table}` (\n  {}\n) ENGINE=PERFORMANCE_SCHEMA DEFAULT CHARSET=utf8mb4 COLLATE={collation}",
            elements.join(",\n  ")
        ));
    }
    let is_innodbs = table.starts_with("INNODB_") && !INNODB_VIEWS.contains(&table);
    if !is_innodbs && !TEMPORARY.contains(&table) {
        return None;
    }
    let columns: Vec<String> = lines.iter().filter_map(|line| temporary_element(line)).collect();
    let columns = columns.join(",\n  ");
    // The engine of a temporary table follows from its columns.
    let engine = if columns.contains(" long") { "InnoDB" } else { "MEMORY" };
    Some(format!("CREATE TEMPORARY TABLE `{table}` (\n  {columns}\n) ENGINE={engine} DEFAULT CHARSET=utf8mb3"))
}

/// A column of a temporary table, whose type is not quite that which `COLUMNS` tells.
fn temporary_element(line: &str) -> Option<String> {
    let cells: Vec<&str> = line.split('\t').collect();
    let [name, _, nullable, told, ..] = cells[..] else { return None };
    let ty = match told {
        "varchar(65535)" => "longtext",
        "text" => "longblob",
        "float(12,0)" => "double",
        "tinyint(1)" => "tinyint",
        "decimal(905,0)" => "decimal(9,6)",
        told => told,
    };
    let default = match ty {
        _ if ty.starts_with("long") => String::new(),
        _ if nullable == "YES" => " DEFAULT NULL".to_owned(),
        _ if ty.starts_with("varchar") => " DEFAULT ''".to_owned(),
        "datetime" => " DEFAULT '0000-00-00 00:00:00'".to_owned(),
        "decimal(9,6)" => " DEFAULT '0.000000'".to_owned(),
        _ => " DEFAULT '0'".to_owned(),
    };
    let not_null = if nullable == "NO" { " NOT NULL" } else { "" };
    Some(format!("`{name}` {ty}{not_null}{default}"))
}

/// A column of a table of `performance_schema`, whose collation is `of_table`.
fn column_element(table: &str, line: &str, of_table: &str) -> Option<String> {
    let cells: Vec<&str> = line.split('\t').collect();
    let [name, default, nullable, ty, .., collation, _, comment] = cells[..] else { return None };
    let mut out = format!("`{name}` {ty}");
    // The only column that names its table's collation.
    let names_it = (table, name) == ("data_locks", "LOCK_DATA");
    if collation != NULL && (collation != of_table || names_it) {
        let _ = write!(out, " CHARACTER SET {} COLLATE {collation}", collation.split('_').next()?);
    } else if collation == "utf8mb4_bin" {
        let _ = write!(out, " COLLATE {collation}");
    }
    match nullable {
        "NO" => out.push_str(" NOT NULL"),
        _ if ty.starts_with("timestamp") => out.push_str(" NULL"),
        _ => {}
    }
    let has_no_default = ty.ends_with("text") || ty.ends_with("blob");
    match default {
        NULL if nullable == "NO" || has_no_default => {}
        NULL => out.push_str(" DEFAULT NULL"),
        value => {
            let _ = write!(out, " DEFAULT '{value}'");
        }
    }
    if !comment.is_empty() {
        let _ = write!(out, " COMMENT '{}'", comment.replace('\'', "''"));
    }
    Some(out)
}

/// The keys of a table, each by its line.
fn key_elements(table: &str) -> Vec<String> {
    let lines = all().get("statistics").map(|(_, lines)| lines.as_slice()).unwrap_or_default();
    let mut keys: Vec<(&str, String, Vec<&str>)> = Vec::new();
    for line in lines {
        let cells: Vec<&str> = line.split('\t').collect();
        let [_, _, of, not_unique, _, key, _, column, ..] = cells[..] else { continue };
        if of != table {
            continue;
        }
        match keys.last_mut().filter(|(last, ..)| *last == key) {
            Some((.., columns)) => columns.push(column),
            None => {
                let begin = match (key, not_unique) {
                    ("PRIMARY", _) => "PRIMARY KEY".to_owned(),
                    (_, "0") => format!("UNIQUE KEY `{key}`"),
                    _ => format!("KEY `{key}`"),
                };
                keys.push((key, begin, vec![column]));
            }
        }
    }
    keys.into_iter().map(|(_, begin, columns)| format!("{begin} (`{}`)", columns.join("`,`"))).collect()
}

fn typed<'a>(name: &str, cells: impl Iterator<Item = &'a str>) -> Option<Vec<Value>> {
    let listing = listing(name).ok().flatten()?;
    Some(listing.columns.iter().zip(cells).map(|(column, cell)| value_of(column, cell)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_row_has_all_columns() {
        let columns = columns(&|_, _| true);
        assert!(columns.len() > 2_000, "{}", columns.len());
        assert!(
            columns.iter().all(|row| row.len() == 22 && matches!(row.get(4), Some(Value::UInt(place)) if *place > 0))
        );
        let lines = ROWS.lines().filter(|line| !line.starts_with(['#', '>'])).count();
        let others: Vec<Vec<Value>> =
            ["STATISTICS", "TABLE_CONSTRAINTS", "KEY_COLUMN_USAGE"].iter().flat_map(|table| rows(table)).collect();
        assert_eq!(columns.len() + others.len(), lines);
        assert!(others.iter().all(|row| row.len() >= 7));
        assert_eq!(columns_of("information_schema", "COLUMNS"), 22);
    }

    fn columns_of(schema: &str, table: &str) -> usize {
        columns(&|own, name| own == schema && name == table).len()
    }
}
