//! SHOW DATABASES and SHOW TABLES: names of the snapshot that the session reads.
//!
//! In: the statement, the catalog. Out: names in MySQL's order. Never here: a name that the account may not read; a
//! table left out because it cannot be read now.

use sql::listing::{Choice, SYSTEM_SCHEMA, VIRTUAL_SCHEMAS, tables_of};
use sql::table::{NamePattern, in_text, plan_listing};
use sql::{Bind, SqlError, Value, named_after_text};

use super::Session;
use super::listings::shown_in;
use super::results::Rows;
use super::shows::text;
use crate::world::World;

/// What LIKE leaves of names, and what it adds to the column's name.
struct LikePattern {
    pattern: Option<NamePattern>,
    shown: Vec<u8>,
}

impl LikePattern {
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
    /// Rows under the recorded columns of a SHOW, the first of which has this name here, with what LIKE adds to it.
    /// WHERE chooses among them.
    fn choose_named(
        &self,
        show: &str,
        first: (&str, &[u8]),
        choice: &Choice,
        bind: &Bind<'_>,
        rows: Vec<Vec<Value>>,
    ) -> Result<Rows, SqlError> {
        let first = named_after_text(&[first.0.as_bytes(), first.1].concat());
        let first = first.as_str();
        let listing = shown_in(show, bind)?.with_first_named(first);
        let without_like = Choice { like: None, filter: choice.filter.clone() };
        let plan = plan_listing(bind, &without_like.select(&listing, first), &listing)?;
        self.listed_rows(plan, bind, |_| Ok(rows))
    }

    fn pattern(&self, like: Option<&[u8]>, lower: u8) -> Result<LikePattern, SqlError> {
        let Some(like) = like else { return Ok(LikePattern { pattern: None, shown: Vec::new() }) };
        let text = self.settings.charsets().text_of_names(like)?;
        let pattern = Some(NamePattern::new(&in_text(&text), lower, self.settings.typed().sql_mode)?);
        // The column is named after the client's bytes, whatever its character set is.
        Ok(LikePattern { pattern, shown: [b" (", like, b")"].concat() })
    }

    pub(super) fn show_databases(&self, chosen: &Choice, bind: &Bind<'_>, world: &dyn World) -> Result<Rows, SqlError> {
        let snapshot = self.snapshot(world)?;
        let catalog = snapshot.catalog();
        let lower = catalog.lower_case_table_names();
        let choice = self.pattern(chosen.like.as_deref(), lower)?;
        let own = catalog.databases().map(|(name, _)| name).filter(|name| self.may_read().schema(name));
        let system = self.may_read().schema(SYSTEM_SCHEMA).then_some(SYSTEM_SCHEMA);
        let all = own.chain(system).chain(VIRTUAL_SCHEMAS.iter().copied()).filter(|name| choice.has(name));
        let mut names: Vec<(String, &'static str)> = all.map(|name| (name.to_owned(), "")).collect();
        sort(&mut names, lower);
        let rows = names.into_iter().map(|(name, _)| vec![text(&name)]).collect();
        self.choose_named("SHOW DATABASES", ("Database", &choice.shown), chosen, bind, rows)
    }

    pub(super) fn show_tables(
        &self,
        full: bool,
        schema: Option<&[u8]>,
        chosen: &Choice,
        bind: &Bind<'_>,
        world: &dyn World,
    ) -> Result<Rows, SqlError> {
        let (snapshot, schema) = self.schema_to_show(schema, world)?;
        let catalog = snapshot.catalog();
        let lower = catalog.lower_case_table_names();
        let choice = self.pattern(chosen.like.as_deref(), lower)?;
        let is_here = |db: &str| if lower == 0 { db == schema } else { db.to_lowercase() == schema.to_lowercase() };
        let tables = catalog.tables_of(&schema).map(|table| table.name.as_str());
        // They are there, though they cannot be read now.
        let waiting = catalog.quarantined().filter(|(db, ..)| is_here(db)).map(|(_, name, _)| name);
        let views = catalog.definitions().filter(|one| one.kind.name() == "VIEW" && is_here(&one.db));
        let views = views.map(|view| (view.name.clone(), "VIEW"));
        let tables = tables.chain(waiting).map(|name| (name.to_owned(), "BASE TABLE"));
        let of_schema = VIRTUAL_SCHEMAS.iter().find(|own| **own == schema).copied();
        let kind = if of_schema == Some("information_schema") { "SYSTEM VIEW" } else { "BASE TABLE" };
        let virtual_ones = of_schema.into_iter().flat_map(tables_of).map(|name| (name.to_owned(), kind));
        let all = tables.chain(views).chain(virtual_ones);
        let mut names: Vec<(String, &'static str)> = all.filter(|(name, _)| choice.has(name)).collect();
        sort(&mut names, lower);
        names.dedup();
        let row = |(name, kind): (String, &str)| {
            let kind = full.then(|| text(kind));
            std::iter::once(text(&name)).chain(kind).collect()
        };
        let rows = names.into_iter().map(row).collect();
        let listing = if full { "SHOW FULL TABLES" } else { "SHOW TABLES" };
        self.choose_named(listing, (&format!("Tables_in_{schema}"), &choice.shown), chosen, bind, rows)
    }
}
