//! Compares the replica's table definitions with the source's. SHOW CREATE TABLE of the real server is parsed here as a
//! statement of its own and compared with the replica's result of the logged statements: columns, keys, foreign keys,
//! partitions. So is its text with what the replica would show.

use std::path::Path;

use catalog::{
    BoundValue, Catalog, ColumnDefault, DdlEffect, PartitionExpression, PartitionRule, StatementContext, TableDef,
    TableId,
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
    assert_definitions(server, data, dbs, str::to_owned)
}

/// As `assert_same_definitions`, but a text may name a column's character set and collation where the other is silent.
/// CREATE TABLE … SELECT is logged as the text that shows the table, which names them if they are not the table's;
/// a CONVERT TO later makes them the table's, and the source, where nobody had named them, shows them no more. What
/// they are is compared.
///
/// # Panics
/// A definition differs; the message lists all that do.
#[track_caller]
pub fn assert_same_definitions_but_silence(server: &Server, data: &Path, dbs: &[&str]) -> usize {
    assert_definitions(server, data, dbs, without_character_sets)
}

#[track_caller]
fn assert_definitions(server: &Server, data: &Path, dbs: &[&str], compared: fn(&str) -> String) -> usize {
    let here = stored_catalog(data);
    let mut differences = String::new();
    let names = table_names(server, dbs);
    for name in &names {
        let (db, table) = name.split_once('.').unwrap();
        let shown =
            server.sql(&format!("SET time_zone = '+00:00'; SHOW CREATE TABLE `{db}`.`{}`", table.replace('`', "``")));
        let (_, sql) = shown
            .trim_end_matches('\n')
            .split_once('\t')
            .unwrap_or_else(|| panic!("SHOW CREATE TABLE {name}: {shown}"));
        if let Some(found) = here.table(db, table) {
            match catalog::show_create_table(found, &values::Zone::UTC) {
                Ok(text) if compared(&without_updates(&text)) == compared(&without_updates(&without_counter(sql))) => {}
                Ok(text) => differences.push_str(&format!("{name} is shown as\n{text}\ninstead of\n{sql}\n")),
                // Right, too: a client gets this as an error.
                Err(what) => eprintln!("{name} is not shown: {what}"),
            }
        }
        let mut there = read(db, sql);
        if here.table(db, table).is_some_and(|found| found.misplaced_rows) {
            // What EXCHANGE PARTITION left where is no part of a definition.
            there = there.with_misplaced_rows();
        }
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

/// Without ON UPDATE of TIMESTAMP columns that are NOT NULL without a DEFAULT. An ALTER TABLE that names none of them
/// gives it to the first under `explicit_defaults_for_timestamp=OFF`, and the log does not say that it was off.
fn without_updates(sql: &str) -> String {
    let line = |line: &str| match line.split_once(" NOT NULL ON UPDATE CURRENT_TIMESTAMP") {
        Some((head, rest)) if head.contains("` timestamp") => {
            let rest = rest.trim_start_matches(|letter: char| letter.is_ascii_digit() || matches!(letter, '(' | ')'));
            format!("{head} NOT NULL{rest}\n")
        }
        _ => format!("{line}\n"),
    };
    sql.lines().map(line).collect()
}

/// Without CHARACTER SET and COLLATE of columns.
fn without_character_sets(sql: &str) -> String {
    let line = |line: &str| {
        let mut words: Vec<&str> = line.split(' ').collect();
        for named in [["CHARACTER", "SET"].as_slice(), &["COLLATE"]] {
            if let Some(at) = words.windows(named.len()).position(|found| found == named) {
                words.drain(at..(at + named.len() + 1).min(words.len()));
            }
        }
        words.join(" ") + "\n"
    };
    sql.lines().map(|text| if text.starts_with("  `") { line(text) } else { format!("{text}\n") }).collect()
}

/// SHOW CREATE TABLE without AUTO_INCREMENT=N.
#[must_use]
pub fn without_counter(sql: &str) -> String {
    match sql.split_once(" AUTO_INCREMENT=") {
        Some((head, rest)) if head.lines().last().is_some_and(|line| line.starts_with(") ")) => {
            let rest = rest.trim_start_matches(|digit: char| digit.is_ascii_digit());
            format!("{head}{rest}")
        }
        _ => sql.to_owned(),
    }
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
        declared: None,
        // What is known of the rows.
        without_virtual: false,
        virtual_unknown: false,
        ..def.clone()
    };
    for column in &mut def.columns {
        if column.default == ColumnDefault::None && column.nullable && column.generated.is_none() {
            column.default = ColumnDefault::Null;
        }
        // ALTER COLUMN … SET DEFAULT gives one to a column that is numbered; nobody shows it.
        if column.auto_increment {
            column.default = ColumnDefault::None;
        }
        // A primary key made it NOT NULL later, and that voided its DEFAULT NULL.
        if column.default == ColumnDefault::Null && !column.nullable {
            column.default = ColumnDefault::None;
        }
        if let ColumnDefault::Expression(text) = &mut column.default {
            text.clear();
        }
        column.expression.clear();
        column.overlong = false;
        // The text has six digits of it, and is compared as it is.
        if let ColumnDefault::Image(image) = &mut column.default
            && column.ty.name() == "FLOAT"
        {
            image.clear();
        }
        column.on_update_now &= column.nullable || column.default != ColumnDefault::None;
        column.declared = Default::default();
        let prints_width = column.ty.name() == "TINYINT" && !column.ty.unsigned;
        column.display.width = column.display.width.filter(|width| prints_width && *width == 1);
    }
    if let Some(partitioning) = &mut def.partitioning {
        partitioning.given = None;
        partitioning.partitions.iter_mut().for_each(|partition| partition.options.clear());
        for bound in partitioning.partitions.iter_mut().flat_map(|partition| &mut partition.values).flatten() {
            if let BoundValue::Other(text) = bound {
                text.clear();
            }
        }
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
        key.declared = Default::default();
        key.expressions.iter_mut().for_each(|(_, text)| text.clear());
    }
    def
}
