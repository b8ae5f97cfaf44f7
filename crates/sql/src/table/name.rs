//! The name of a table, and the table it means in a catalog.

use std::borrow::Cow;
use std::sync::Arc;

use catalog::{Catalog, TableDef};

use crate::Result;
use crate::ast::Select;
use crate::bind::Bind;
use crate::error::SqlError;
use crate::listing::SYSTEM_SCHEMA;

/// Schemas whose tables the source's log does not carry.
const WITHOUT_TABLES: &[&str] = &["information_schema", "performance_schema", "mysql", "sys"];

/// A table as a statement names it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TableName<'a> {
    /// The schema, as given or the default one.
    pub schema: Cow<'a, str>,
    pub table: Cow<'a, str>,
}

/// Why a name means no table that can be read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum NoTable {
    /// There is no such schema.
    NoSchema,
    /// There is no such table in the schema.
    Missing,
    /// It is a view.
    View,
    /// It cannot be read now, for this reason.
    NotReadable(String),
}

/// The table that a SELECT reads; None without one.
///
/// # Errors
/// 1046 without a default schema, 1235 for tables that are not kept here.
pub fn named<'a>(bind: &Bind<'a>, select: &'a Select) -> Result<Option<TableName<'a>>> {
    let Some(from) = &select.from else { return Ok(None) };
    let schema = match (&from.schema, bind.tables_in) {
        (Some(schema), _) => in_text(schema),
        (None, Some(schema)) => Cow::Borrowed(schema),
        (None, None) => return Err(SqlError::new(1046, "3D000", "No database selected")),
    };
    if let Some(own) = WITHOUT_TABLES.iter().find(|own| own.eq_ignore_ascii_case(&schema)) {
        return Err(SqlError::not_supported(&format!("SELECT … FROM {own}")));
    }
    Ok(Some(TableName { schema, table: in_text(&from.table) }))
}

/// A name of a statement, which is UTF-8.
#[must_use]
pub fn in_text(name: &[u8]) -> Cow<'_, str> {
    String::from_utf8_lossy(name)
}

impl TableName<'_> {
    /// The name as the source keeps it under this `lower_case_table_names`.
    #[must_use]
    pub fn folded(self, lower_case_table_names: u8) -> Self {
        if lower_case_table_names != 1 {
            return self;
        }
        TableName { schema: self.schema.to_lowercase().into(), table: self.table.to_lowercase().into() }
    }
}

/// The table of this name.
///
/// # Errors
/// There is none that can be read.
pub fn find(catalog: &Catalog, name: &TableName<'_>) -> std::result::Result<Arc<TableDef>, NoTable> {
    let (schema, table) = (&*name.schema, &*name.table);
    if let Some(why) = catalog.why_quarantined(schema, table) {
        return Err(NoTable::NotReadable(why.to_owned()));
    }
    if let Some(table) = catalog.table(schema, table) {
        return match table.engine_of().why_without_rows() {
            Some(why) => Err(NoTable::NotReadable(format!("engine {} {why}", table.engine))),
            None => Ok(Arc::clone(table)),
        };
    }
    if catalog.is_view(schema, table) {
        return Err(NoTable::View);
    }
    Err(if catalog.database(schema).is_some() { NoTable::Missing } else { NoTable::NoSchema })
}

impl NoTable {
    /// The error that a client gets.
    #[must_use]
    pub fn error(&self, name: &TableName<'_>) -> SqlError {
        let TableName { schema, table } = name;
        match self {
            // It is listed, but the log does not carry its tables.
            NoTable::NoSchema if schema == SYSTEM_SCHEMA => SqlError::not_supported("tables of schema mysql"),
            NoTable::NoSchema => SqlError::new(1049, "42000", format!("Unknown database '{schema}'")),
            NoTable::Missing => SqlError::new(1146, "42S02", format!("Table '{schema}.{table}' doesn't exist")),
            NoTable::View => SqlError::not_supported("SELECT from a view"),
            // What follows may quote another session's statement.
            NoTable::NotReadable(why) => {
                crate::passing::not_readable(schema, table, why.split_once(": ").map_or(why, |(why, _)| why))
            }
        }
    }
}
