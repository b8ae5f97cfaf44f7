//! SHOW CREATE TABLE and SHOW CREATE DATABASE: definitions as the source prints them.
//!
//! In: a table's definition. Out: the statement that makes such a table, byte for byte the source's but for
//! AUTO_INCREMENT=N, which the rows decide; an error naming what is not known. Never here: rows, rights, a guess.
//!
//! Mirrors `store_create_info` (sql/sql_show.cc) and `generate_partition_syntax` (sql/sql_partition.cc); seen on 9.7.4.

mod columns;
mod partitions;
mod zones;

use std::fmt::Write as _;

use values::Zone;

use crate::charset;
use crate::parser::backticked;
use crate::table::{IndexKind, Key, ReferenceAction, TableDef};

pub use columns::{ShownDefault, column_type, data_type, fraction, members, now, shown_default};
pub(crate) use columns::{hex, timestamp_text};
pub(crate) use partitions::partition_text;
pub use partitions::{ShownPartition, ShownPartitions, shown_partitions};
pub use zones::SourceZones;

/// Why a table cannot be shown: what of it is not known.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NotKnown(pub String);

impl std::fmt::Display for NotKnown {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl std::error::Error for NotKnown {}

fn not_known<T>(what: impl Into<String>) -> Result<T, NotKnown> {
    Err(NotKnown(what.into()))
}

/// Text in quotes, with what the source escapes (`append_unescaped`).
#[must_use]
pub fn quoted(text: &str) -> String {
    let mut out = String::with_capacity(text.len() + 2);
    out.push('\'');
    for letter in text.chars() {
        match letter {
            '\\' => out.push_str("\\\\"),
            '\0' => out.push_str("\\0"),
            '\'' => out.push_str("''"),
            '\n' => out.push_str("\\n"),
            '\r' => out.push_str("\\r"),
            other => out.push(other),
        }
    }
    out.push('\'');
    out
}

/// ` COLLATE …`, where the source prints it beside a character set.
fn shown_collation(id: u16) -> Option<(&'static str, Option<&'static str>)> {
    let found = charset::by_id(id)?;
    let is_default = charset::default_collation(found.charset).is_some_and(|default| default.id == id);
    Some((found.charset, (!is_default || found.charset == "utf8mb4").then_some(found.name)))
}

/// The statement of SHOW CREATE DATABASE.
#[must_use]
pub fn show_create_database(name: &str, collation: Option<u16>, if_not_exists: bool) -> String {
    let exists = if if_not_exists { "/*!32312 IF NOT EXISTS*/ " } else { "" };
    let mut out = format!("CREATE DATABASE {exists}{}", backticked(name));
    if let Some((charset, collation)) = collation.and_then(shown_collation) {
        let _ = write!(out, " /*!40100 DEFAULT CHARACTER SET {charset}");
        if let Some(collation) = collation {
            let _ = write!(out, " COLLATE {collation}");
        }
        out.push_str(" */");
    }
    out.push_str(" /*!80016 DEFAULT ENCRYPTION='N' */");
    out
}

/// As [`show_create_table_in`], where nothing is known of the source's time zones.
///
/// # Errors
/// As [`show_create_table_in`].
pub fn show_create_table(table: &TableDef, zone: &Zone) -> Result<String, NotKnown> {
    show_create_table_in(table, zone, &SourceZones::default())
}

/// The statement of SHOW CREATE TABLE, without AUTO_INCREMENT=N. DEFAULTs of TIMESTAMP columns are shown in the
/// session's time zone; `source` tells those that were given in a zone of the source's.
///
/// # Errors
/// Names what of the definition is not known.
pub fn show_create_table_in(table: &TableDef, zone: &Zone, source: &SourceZones) -> Result<String, NotKnown> {
    let Some(declared) = &table.declared else {
        return not_known(
            "its comments, checks and options, which an earlier version of this program did not keep (copying the \
             table again gets them),",
        );
    };
    let mut elements: Vec<String> = Vec::new();
    for column in &table.columns {
        elements.push(columns::element(table, column, zone, source)?);
    }
    for key in &table.keys {
        elements.push(key_element(table, key)?);
    }
    let mut foreign: Vec<_> = table.foreign_keys.iter().collect();
    foreign.sort_by_key(|key| key.name.to_lowercase());
    for key in foreign {
        let own = |position: &usize| table.columns.get(*position).map_or("?", |column| column.name.as_str());
        let names = |list: Vec<&str>| list.into_iter().map(backticked).collect::<Vec<_>>().join(", ");
        let parent = match key.parent_db == table.db {
            true => backticked(&key.parent_table),
            false => format!("{}.{}", backticked(&key.parent_db), backticked(&key.parent_table)),
        };
        let mut element = format!(
            "CONSTRAINT {} FOREIGN KEY ({}) REFERENCES {parent} ({})",
            backticked(&key.name),
            names(key.columns.iter().map(own).collect()),
            names(key.parent_columns.iter().map(String::as_str).collect()),
        );
        for (event, action) in [("DELETE", key.on_delete), ("UPDATE", key.on_update)] {
            if action != ReferenceAction::NoAction {
                let _ = write!(element, " ON {event} {}", action.name());
            }
        }
        elements.push(element);
    }
    let mut checks: Vec<_> = declared.checks.iter().collect();
    checks.sort_by_key(|check| check.name.to_lowercase());
    for check in checks {
        let Some(condition) = &check.condition else {
            return not_known(format!("how the source spells the condition of CHECK {}", backticked(&check.name)));
        };
        let enforced = if check.enforced { "" } else { " /*!80016 NOT ENFORCED */" };
        elements.push(format!("CONSTRAINT {} CHECK ({condition}){enforced}", backticked(&check.name)));
    }
    let mut out = format!("CREATE TABLE {} (\n  {}\n)", backticked(&table.name), elements.join(",\n  "));
    options(table, &mut out)?;
    if table.partition_by.is_some() {
        partitions::print(table, source, &mut out)?;
    }
    Ok(out)
}

fn key_element(table: &TableDef, key: &Key) -> Result<String, NotKnown> {
    let mut out = match (key.primary, key.unique, key.kind) {
        (true, ..) => "PRIMARY KEY".to_owned(),
        (_, true, _) => format!("UNIQUE KEY {}", backticked(&key.name)),
        (.., IndexKind::FullText) => format!("FULLTEXT KEY {}", backticked(&key.name)),
        (.., IndexKind::Spatial) => format!("SPATIAL KEY {}", backticked(&key.name)),
        (.., IndexKind::Ordered) => format!("KEY {}", backticked(&key.name)),
    };
    let mut parts = Vec::new();
    let (mut columns, mut expressions) = (key.parts.iter(), key.declared.expressions.iter());
    for place in 0..key.parts.len() + key.expressions.len() {
        let descending = |descending: bool| if descending { " DESC" } else { "" };
        if key.expressions.iter().any(|(at, _)| *at == place) {
            let Some((Some(spelled), is_descending)) =
                expressions.next().map(|part| (part.spelled.as_ref(), part.descending))
            else {
                return not_known(format!(
                    "how the source spells an expression of the index {}",
                    backticked(&key.name)
                ));
            };
            parts.push(format!("({spelled}){}", descending(is_descending)));
        } else if let Some(part) = columns.next() {
            let name = table.columns.get(part.column).map_or("?", |column| column.name.as_str());
            let prefix = table.shown_prefix(key, part).map_or_else(String::new, |len| format!("({len})"));
            parts.push(format!("{}{prefix}{}", backticked(name), descending(part.descending)));
        }
    }
    let _ = write!(out, " ({})", parts.join(","));
    let option = |name: &str| key.declared.options.get(name);
    // InnoDB takes HASH for BTREE and does not say so.
    let in_innodb = table.engine.eq_ignore_ascii_case("InnoDB");
    if let Some(structure) = option("USING").filter(|structure| !(in_innodb && *structure == "HASH")) {
        let _ = write!(out, " USING {structure}");
    }
    let of_table = table.declared.as_ref().and_then(|declared| declared.options.get("KEY_BLOCK_SIZE"));
    if let Some(size) = option("KEY_BLOCK_SIZE").filter(|size| Some(*size) != of_table) {
        if !in_innodb {
            return not_known(format!("which KEY_BLOCK_SIZE the index {} got", backticked(&key.name)));
        }
        let _ = write!(out, " KEY_BLOCK_SIZE={size}");
    }
    if !key.declared.comment.is_empty() {
        let _ = write!(out, " COMMENT {}", quoted(&key.declared.comment));
    }
    for name in ["ENGINE_ATTRIBUTE", "SECONDARY_ENGINE_ATTRIBUTE"] {
        if let Some(value) = option(name).filter(|value| !value.is_empty()) {
            let _ = write!(out, " /*!80021 {name} {} */", quoted(value));
        }
    }
    if key.invisible {
        out.push_str(" /*!80000 INVISIBLE */");
    }
    if let Some(parser) = option("PARSER") {
        let _ = write!(out, " /*!50100 WITH PARSER {} */ ", backticked(parser));
    }
    Ok(out)
}

fn options(table: &TableDef, out: &mut String) -> Result<(), NotKnown> {
    let options = table.declared.as_ref().map(|declared| &declared.options);
    let option = |name: &str| options.and_then(|options| options.get(name));
    if let Some(name) = option("TABLESPACE") {
        let _ = write!(out, " /*!50100 TABLESPACE {} */", backticked(name));
    }
    if let Some(size) = option("AUTOEXTEND_SIZE") {
        let _ = write!(out, " /*!80023 AUTOEXTEND_SIZE={size} */");
    }
    let _ = write!(out, " ENGINE={}", table.engine_of().shown_name(&table.engine));
    let Some((charset, collation)) = shown_collation(table.default_collation) else {
        return not_known(format!("the collation {}", table.default_collation));
    };
    let _ = write!(out, " DEFAULT CHARSET={charset}");
    if let Some(collation) = collation {
        let _ = write!(out, " COLLATE={collation}");
    }
    for name in [
        "MIN_ROWS",
        "MAX_ROWS",
        "AVG_ROW_LENGTH",
        "PACK_KEYS",
        "STATS_PERSISTENT",
        "STATS_AUTO_RECALC",
        "STATS_SAMPLE_PAGES",
        "CHECKSUM",
        "DELAY_KEY_WRITE",
        "ROW_FORMAT",
        "KEY_BLOCK_SIZE",
    ] {
        if let Some(value) = option(name) {
            let _ = write!(out, " {name}={value}");
        }
    }
    if let Some(value) = option("COMPRESSION") {
        let _ = write!(out, " COMPRESSION={}", quoted(value));
    }
    if let Some(value) = option("ENCRYPTION") {
        let _ = write!(out, " /*!80016 ENCRYPTION={} */", quoted(value));
    }
    if !table.comment.is_empty() {
        let _ = write!(out, " COMMENT={}", quoted(&table.comment));
    }
    if let Some(value) = option("CONNECTION") {
        let _ = write!(out, " CONNECTION={}", quoted(value));
    }
    if let Some(engine) = option("SECONDARY_ENGINE") {
        let _ = write!(out, " SECONDARY_ENGINE={engine}");
    }
    for name in ["ENGINE_ATTRIBUTE", "SECONDARY_ENGINE_ATTRIBUTE"] {
        if let Some(value) = option(name) {
            let _ = write!(out, " /*!80021 {name}={} */", quoted(value));
        }
    }
    for name in ["DATA DIRECTORY", "INDEX DIRECTORY"] {
        if let Some(value) = option(name) {
            let _ = write!(out, " {name}={}", quoted(value));
        }
    }
    if let Some(merge) = &table.merge {
        let method = match merge.insert {
            crate::engine::InsertMethod::No => None,
            crate::engine::InsertMethod::First => Some("FIRST"),
            crate::engine::InsertMethod::Last => Some("LAST"),
        };
        if let Some(method) = method {
            let _ = write!(out, " INSERT_METHOD={method}");
        }
        let member = |(db, name): &(Option<String>, String)| match db {
            Some(db) => format!("{}.{}", backticked(db), backticked(name)),
            None => backticked(name),
        };
        let members = merge.members.iter().map(member).collect::<Vec<_>>().join(",");
        let _ = write!(out, " UNION=({members})");
    }
    Ok(())
}
