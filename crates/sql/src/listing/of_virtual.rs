//! What `information_schema` says of the tables of the virtual schemas: the same in every MySQL 9.7.
//!
//! In: `virtual_rows.tsv`, written by `tests/recorded.rs`. Out: rows. Never here: what an account may see.

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
