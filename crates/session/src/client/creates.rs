//! SHOW CREATE: the statements that make what there is.
//!
//! In: the statement, the snapshot that the session reads. Out: the source's statement, but for AUTO_INCREMENT=N. Never
//! here: its spelling (`catalog`); what is not known of a definition, which ends with 1235 naming it.

use std::sync::Arc;

use sql::listing::{SYSTEM_SCHEMA, show_create_virtual};
use sql::table::session_zone;
use sql::{Bind, Column, SqlError};
use values::{Zone, type_code};
use wire::response::column_flag;

use super::Session;
use super::execute::text_column;
use super::results::Rows;
use super::shows::text;
use crate::world::World;

/// Characters of names, and fewest of statements, as a 9.7 announces them.
const NAME_CHARS: u32 = 64;
const STATEMENT_CHARS: usize = 1_024;

/// utf8mb3_general_ci, of `information_schema`.
const UTF8MB3_GENERAL_CI: u16 = 33;

/// Settings under which MySQL writes another text, with the one under which it writes this.
const SETTINGS: &[(&str, &str)] = &[
    ("sql_quote_show_create", "ON"),
    ("show_create_table_verbosity", "OFF"),
    ("show_gipk_in_create_table_and_information_schema", "ON"),
];

const SKIP_ENGINE: &str = "show_create_table_skip_secondary_engine";

fn rows(what: &str, name: &str, statement: &str) -> Rows {
    let not_null = column_flag::NOT_NULL;
    let chars = u32::try_from(statement.len().max(STATEMENT_CHARS)).unwrap_or(u32::MAX);
    let columns: Vec<Column> =
        vec![text_column(what, not_null, NAME_CHARS), text_column(&format!("Create {what}"), not_null, chars)];
    Rows::new(columns, vec![vec![text(name), text(statement)]])
}

impl Session {
    /// SHOW CREATE TABLE.
    ///
    /// # Errors
    /// 1142 without the right, 1046 and 1146 as MySQL; 1235 for a view, for other settings, and where something of the
    /// definition is not known.
    pub(super) fn show_create_table(
        &self,
        schema: Option<&[u8]>,
        table: &[u8],
        bind: &Bind<'_>,
        world: &dyn World,
    ) -> Result<Rows, SqlError> {
        self.writes_plainly("TABLE")?;
        let is_on = |value: &str| matches!(value, "1" | "ON");
        for (name, wanted) in SETTINGS {
            if self.settings.text(name).is_some_and(|value| is_on(value) != is_on(wanted)) {
                return Err(SqlError::not_supported(&format!("SHOW CREATE TABLE unless {name} is {wanted}")));
            }
        }
        let name = self.name_of_table(schema, table)?;
        if let Some((schema, table)) = self.virtual_table_named(&name, world)? {
            return match show_create_virtual(schema, table) {
                Some(statement) => Ok(rows("Table", table, &statement)),
                None => Err(SqlError::not_supported(&format!("SHOW CREATE TABLE of a view of {schema}"))),
            };
        }
        let mut table = self.table_named("CREATE TABLE", name, world)?;
        if self.settings.text(SKIP_ENGINE).is_some_and(is_on)
            && let Some(declared) = &mut Arc::make_mut(&mut table).declared
        {
            declared.options.set("SECONDARY_ENGINE", "");
        }
        // The zone matters to times alone.
        let has_times = table.columns.iter().any(|column| {
            column.ty.code == type_code::TIMESTAMP2
                && matches!(column.default, catalog::ColumnDefault::Image(_) | catalog::ColumnDefault::Expression(_))
        });
        let zone = if has_times { session_zone(bind.settings, bind.own)? } else { Zone::UTC };
        let system = bind.own.own_value("system_time_zone").unwrap_or_default();
        let source = catalog::SourceZones::new(&system, bind.own.zones().unwrap_or_default());
        let statement = catalog::show_create_table_in(&table, &zone, &source).map_err(|what| {
            SqlError::not_supported(&format!("SHOW CREATE TABLE `{}`, of which is not known {what}", table.name))
        })?;
        Ok(rows("Table", &table.name, &statement))
    }

    /// SHOW CREATE DATABASE.
    ///
    /// # Errors
    /// 1044 without the right, 1049 for an unknown one.
    pub(super) fn show_create_database(
        &self,
        name: &[u8],
        if_not_exists: bool,
        world: &dyn World,
    ) -> Result<Rows, SqlError> {
        self.writes_plainly("DATABASE")?;
        let (snapshot, name) = self.schema_to_show(Some(name), world)?;
        let collation = match name.as_str() {
            "information_schema" => Some(UTF8MB3_GENERAL_CI),
            "performance_schema" | SYSTEM_SCHEMA => Some(values::collation::UTF8MB4_0900_AI_CI),
            _ => snapshot.catalog().database(&name).and_then(|(_, collation)| collation),
        };
        let statement = catalog::show_create_database(&name, collation, if_not_exists);
        Ok(rows("Database", &name, &statement))
    }

    /// # Errors
    /// 1235 under ANSI_QUOTES, which changes the quotes around names.
    fn writes_plainly(&self, what: &str) -> Result<(), SqlError> {
        match self.settings.typed().sql_mode & catalog::sql_mode::ANSI_QUOTES {
            0 => Ok(()),
            _ => Err(SqlError::not_supported(&format!("SHOW CREATE {what} under ANSI_QUOTES"))),
        }
    }
}
