//! Compares the replica's table definitions with the source's. SHOW CREATE TABLE of the real server is parsed here as a
//! statement of its own and compared with the replica's result of the logged statements: columns, keys, foreign keys,
//! partitions.

use std::path::Path;

use catalog::{
    Catalog, ColumnDefault, DdlEffect, PartitionExpression, PartitionRule, StatementContext, TableDef, TableId,
};
use store::{Disk, DiskOptions};

use crate::Server;
use crate::compare::table_names;

/// The catalog of the newest cut in a stopped replica's folder.
///
/// # Panics
/// There is none.
#[must_use]
pub fn stored_catalog(data: &Path) -> Catalog {
    let options = DiskOptions { cache_bytes: 1 << 20 };
    let (_disk, recovered) = Disk::open_existing(&data.join("store"), options).unwrap().expect("a cut in the store");
    recovered.catalog
}

/// Compares all tables of these databases with a stopped replica's definitions; returns their number.
///
/// # Panics
/// A definition differs; the message lists all that do.
#[track_caller]
pub fn assert_same_definitions(server: &Server, data: &Path, dbs: &[&str]) -> usize {
    let here = stored_catalog(data);
    let mut differences = String::new();
    let names = table_names(server, dbs);
    for name in &names {
        let (db, table) = name.split_once('.').unwrap();
        let shown = server.sql(&format!("SHOW CREATE TABLE `{db}`.`{}`", table.replace('`', "``")));
        let (_, sql) = shown.split_once('\t').unwrap_or_else(|| panic!("SHOW CREATE TABLE {name}: {shown}"));
        let there = read(db, sql);
        let difference = match here.table(db, table) {
            None => "not known here".to_owned(),
            Some(found) if essence(found) == essence(&there) => continue,
            Some(found) => only_on_one_side(&essence(&there), &essence(found)),
        };
        differences.push_str(&format!("{name}: {difference}\n{sql}\n"));
    }
    assert!(differences.is_empty(), "definitions differ:\n{differences}");
    names.len()
}

/// Differences at the same place of both definitions; both in full if their shapes differ.
fn only_on_one_side(there: &TableDef, here: &TableDef) -> String {
    let (there, here) = (format!("{there:#?}"), format!("{here:#?}"));
    if there.lines().count() != here.lines().count() {
        return format!("\nsource {there}\nhere   {here}");
    }
    let mut field = "";
    let mut text = String::new();
    for (left, right) in there.lines().zip(here.lines()) {
        if left.contains("name:") {
            field = left.trim();
        }
        if left != right {
            text.push_str(&format!("\n  {field} source {} here {}", left.trim(), right.trim()));
        }
    }
    text
}

/// Parses a definition from its statement alone.
fn read(db: &str, sql: &str) -> TableDef {
    let context = StatementContext {
        default_db: db.to_owned(),
        time_zone: Some("+00:00".to_owned()),
        ..StatementContext::default()
    };
    let outcome = Catalog::new(0).apply(&context, sql.as_bytes()).unwrap_or_else(|error| panic!("{error}"));
    match outcome.effect {
        DdlEffect::Changed { created, .. } => TableDef::clone(&created[0]),
        other => panic!("{sql}: {other:?}"),
    }
}

/// Removes from a definition what its text may express in two ways. SHOW CREATE TABLE spells out DEFAULT NULL, reprints
/// expressions and partition rules, prints value lists with NULL first, engines in capitals and foreign keys by name,
/// and omits widths of integers but TINYINT(1). Ids and older layouts depend on what existed before.
fn essence(def: &TableDef) -> TableDef {
    let mut def = TableDef {
        id: TableId(0),
        version: 0,
        partition_by: def.partition_by.as_ref().map(|_| String::new()),
        layout_since: 0,
        older_layouts: Vec::new(),
        index_ids_given: 0,
        ..def.clone()
    };
    for column in &mut def.columns {
        if column.default == ColumnDefault::None && column.nullable && column.generated.is_none() {
            column.default = ColumnDefault::Null;
        }
        if let ColumnDefault::Expression(text) = &mut column.default {
            text.clear();
        }
        column.expression.clear();
        let prints_width = column.ty.name() == "TINYINT" && !column.ty.unsigned;
        column.display.width = column.display.width.filter(|width| prints_width && *width == 1);
    }
    if let Some(partitioning) = &mut def.partitioning {
        let rule = &mut partitioning.rule;
        if let PartitionRule::Hash(expression)
        | PartitionRule::LinearHash(expression)
        | PartitionRule::Range(expression)
        | PartitionRule::List(expression) = rule
            && let PartitionExpression::Other(text) = expression
        {
            text.clear();
        }
        let is_list = matches!(rule, PartitionRule::List(_) | PartitionRule::ListColumns(_));
        for partition in partitioning.partitions.iter_mut().filter(|_| is_list) {
            partition.values.sort_by_key(|values| format!("{values:?}"));
        }
    }
    def.engine = def.engine.to_uppercase().replace("HEAP", "MEMORY").replace("MERGE", "MRG_MYISAM");
    def.foreign_keys.sort_by(|left, right| left.name.cmp(&right.name));
    for key in &mut def.keys {
        key.generated = false;
        key.id = 0;
        key.expressions.iter_mut().for_each(|(_, text)| text.clear());
    }
    def
}
