//! SHOW DATABASES and SHOW TABLES: names of the snapshot that the session reads.
//!
//! In: the statement, the catalog. Out: names in MySQL's order. Never here: a name that the account may not read; a
//! table left out because it cannot be read now.

use sql::listing::VIRTUAL_SCHEMAS;
use sql::table::NamePattern;
use sql::{Column, Field, SqlError};
use wire::response::column_flag;
use wire::row::type_code;

use super::Session;
use super::execute::text_column;
use super::results::Rows;
use super::shows::text;
use crate::world::World;

/// Characters of a name, at most.
const NAME_CHARS: u32 = 64;
/// Characters of a table's type, as a 9.7 announces them: of SYSTEM VIEW.
const TYPE_CHARS: u32 = 11;

/// What LIKE leaves of names, and what it adds to the column's name.
struct Choice {
    pattern: Option<NamePattern>,
    shown: String,
}

impl Choice {
    fn has(&self, name: &str) -> bool {
        self.pattern.as_ref().is_none_or(|pattern| pattern.matches(name))
    }
}

/// MySQL's order: by bytes, where names differ by case, else without regard to case.
fn sort(names: &mut [(String, &'static str)], lower_case_table_names: u8) {
    match lower_case_table_names {
        0 => names.sort_unstable(),
        _ => names.sort_unstable_by_key(|(name, _)| name.to_lowercase()),
    }
}

impl Session {
    fn choice(&self, like: Option<&[u8]>, lower: u8) -> Result<Choice, SqlError> {
        let Some(like) = like else { return Ok(Choice { pattern: None, shown: String::new() }) };
        let like = self.settings.charsets().from_client(like)?;
        let like = String::from_utf8_lossy(&like);
        let pattern = Some(NamePattern::new(&like, lower, self.settings.sql_mode())?);
        Ok(Choice { pattern, shown: format!(" ({like})") })
    }

    pub(super) fn show_databases(&self, like: Option<&[u8]>, world: &dyn World) -> Result<Rows, SqlError> {
        let snapshot = self.snapshot(world)?;
        let catalog = snapshot.catalog();
        let lower = catalog.lower_case_table_names();
        let choice = self.choice(like, lower)?;
        let own = catalog.databases().map(|(name, _)| name).filter(|name| self.identity.may_read(name));
        let all = own.chain(VIRTUAL_SCHEMAS.iter().copied()).filter(|name| choice.has(name));
        let mut names: Vec<(String, &'static str)> = all.map(|name| (name.to_owned(), "")).collect();
        sort(&mut names, lower);
        let columns = vec![name_column(&format!("Database{}", choice.shown))];
        Ok(Rows::new(columns, names.into_iter().map(|(name, _)| vec![text(&name)]).collect()))
    }

    pub(super) fn show_tables(
        &self,
        full: bool,
        schema: Option<&[u8]>,
        like: Option<&[u8]>,
        world: &dyn World,
    ) -> Result<Rows, SqlError> {
        let schema = match schema {
            None => self.schema.as_ref().map(|schema| schema.name.clone()),
            Some(name) => {
                let name = self.settings.charsets().from_client(name)?;
                Some(self.schema_of(&String::from_utf8_lossy(&name), world)?.name)
            }
        };
        let schema = schema.ok_or_else(|| SqlError::new(1046, "3D000", "No database selected"))?;
        if VIRTUAL_SCHEMAS.contains(&schema.as_str()) {
            return Err(SqlError::not_supported(&format!("SHOW TABLES FROM {schema}")));
        }
        let snapshot = self.snapshot(world)?;
        let catalog = snapshot.catalog();
        let lower = catalog.lower_case_table_names();
        let Some((schema, _)) = catalog.database(&schema) else {
            return Err(SqlError::new(1049, "42000", format!("Unknown database '{schema}'")));
        };
        let choice = self.choice(like, lower)?;
        let is_here = |db: &str| if lower == 0 { db == schema } else { db.to_lowercase() == schema.to_lowercase() };
        let tables = catalog.tables().filter(|table| is_here(&table.db)).map(|table| table.name.as_str());
        // They are there, though they cannot be read now.
        let waiting = catalog.quarantined().filter(|(db, ..)| is_here(db)).map(|(_, name, _)| name);
        let views = catalog.definitions().filter(|one| one.kind.name() == "VIEW" && is_here(&one.db));
        let views = views.map(|view| (view.name.clone(), "VIEW"));
        let tables = tables.chain(waiting).map(|name| (name.to_owned(), "BASE TABLE"));
        let mut names: Vec<(String, &'static str)> = tables.chain(views).filter(|(name, _)| choice.has(name)).collect();
        sort(&mut names, lower);
        names.dedup();
        let mut columns = vec![name_column(&format!("Tables_in_{schema}{}", choice.shown))];
        if full {
            columns.push(type_column());
        }
        let row = |(name, kind): (String, &str)| {
            let kind = full.then(|| text(kind));
            std::iter::once(text(&name)).chain(kind).collect()
        };
        Ok(Rows::new(columns, names.into_iter().map(row).collect()))
    }
}

fn name_column(name: &str) -> Column {
    text_column(name, column_flag::NOT_NULL | column_flag::BINARY | column_flag::NO_DEFAULT_VALUE, NAME_CHARS)
}

fn type_column() -> Column {
    let flags = column_flag::NOT_NULL | column_flag::BINARY | column_flag::ENUM | column_flag::NO_DEFAULT_VALUE;
    let column = text_column("Table_type", flags, TYPE_CHARS);
    Column { field: Field { type_code: type_code::STRING, ..column.field }, ..column }
}
