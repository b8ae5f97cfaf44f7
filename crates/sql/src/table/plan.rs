//! A SELECT bound to a table.

use std::borrow::Cow;
use std::sync::Arc;

use catalog::{Column, TableDef, sql_mode};
use values::{Zone, type_code as t};

use super::condition::{self, Conditions, Filter};
use super::field::{Origin, ResultColumn, field_of, in_cursor};
use super::name::in_text;
use super::order::By;
use super::parameter::Parameters;
use super::path::{Path, paths};
use super::zone::session_zone;
use super::{condition::is_constant, order};
use crate::Result;
use crate::ast::{Expression, Item, Select};
use crate::bind::{self, Bind, COLUMNS_MAX, Field, Value};
use crate::column_names;
use crate::error::SqlError;
use crate::listing::{Listing, ListingColumn, members_of};

/// What a SELECT puts out: its columns and where their values come from.
#[derive(Debug, Clone)]
pub struct Selected {
    pub table: Arc<TableDef>,
    /// Its names in this statement.
    pub origin: Origin,
    /// The columns of the result.
    pub columns: Vec<ResultColumn>,
    /// Their values, in the same order.
    pub outputs: Vec<Output>,
    /// The result is the number of rows.
    pub counts: bool,
}

impl Selected {
    /// True if every execution under the same definition and variables puts out the same: no constant is in it, which
    /// may be a parameter or a function of the time.
    #[must_use]
    pub fn stays(&self) -> bool {
        !self.outputs.iter().any(|output| matches!(output, Output::Constant(_)))
    }
}

/// What a SELECT reads, and in which way.
#[derive(Debug, Clone)]
pub struct Plan {
    /// What it puts out.
    pub selected: Arc<Selected>,
    /// Conditions that all must hold.
    pub filters: Vec<Filter>,
    /// Lists of others that may hold in their place, of a table that is kept nowhere.
    pub(crate) others: Vec<Vec<Filter>>,
    /// Ways to the rows, the best first. None is left out that could be read if the first is not ready.
    pub paths: Vec<Path>,
    /// The order asked for, for rows that no path gives.
    pub(crate) sorted_by: Vec<By>,
    /// No row can fulfil the conditions.
    pub never: bool,
    /// Rows that are left out first.
    pub offset: u64,
    /// Largest number of rows.
    pub rows_max: u64,
    /// Of TIMESTAMP, which is stored in UTC.
    pub zone: Zone,
    /// Parameters that stand beside a column, by number, with their metadata.
    pub parameters: Vec<(usize, Field)>,
}

impl Plan {
    /// Lists of conditions; all of one must hold.
    pub(crate) fn alternatives(&self) -> impl Iterator<Item = &[Filter]> {
        std::iter::once(self.filters.as_slice()).chain(self.others.iter().map(Vec::as_slice))
    }

    /// How many conditions there are.
    #[must_use]
    pub fn conditions(&self) -> usize {
        self.filters.len() + self.others.iter().map(Vec::len).sum::<usize>()
    }

    /// Describes the columns as those of a cursor.
    pub fn open_cursor(&mut self) {
        let columns = self.columns.iter().map(in_cursor).collect();
        self.selected = Arc::new(Selected { columns, ..Selected::clone(&self.selected) });
    }
}

impl std::ops::Deref for Plan {
    type Target = Selected;
    fn deref(&self) -> &Selected {
        &self.selected
    }
}

/// Where a value of a result comes from.
#[derive(Debug, Clone, PartialEq)]
pub enum Output {
    /// The column at this position.
    Column(usize),
    Constant(Value),
    /// `COUNT(*)`.
    Count,
}

/// The table as the names of one statement see it.
pub(crate) struct Scope<'a> {
    pub(crate) bind: &'a Bind<'a>,
    pub(crate) table: &'a TableDef,
    /// What was recorded of it, if it is kept nowhere.
    listing: Option<&'a Listing>,
    schema: &'a str,
    /// The table's alias, or its name.
    alias: Cow<'a, str>,
    /// Names are compared as the source compares them.
    folds: bool,
}

impl Scope<'_> {
    pub(crate) fn column(&self, position: usize) -> Result<&Column> {
        let missing = || SqlError::defect("a column beyond the table's last one");
        self.table.columns.get(position).ok_or_else(missing)
    }

    /// Whether its rows are kept nowhere.
    pub(crate) fn is_listing(&self) -> bool {
        self.listing.is_some()
    }

    /// The position of a named column.
    ///
    /// # Errors
    /// 1054, naming the clause.
    pub(crate) fn resolve(&self, parts: &[Vec<u8>], clause: &str) -> Result<usize> {
        // Most names have no qualifier.
        if let [part] = parts
            && let Ok(name) = std::str::from_utf8(part)
            && let Some(position) = self.table.column_index(name)
        {
            return Ok(position);
        }
        let parts: Vec<Cow<'_, str>> = parts.iter().map(|part| in_text(part)).collect();
        let found = match parts.split_last() {
            Some((name, qualifier)) if self.is_meant(qualifier) => self.table.column_index(name),
            _ => None,
        };
        found.ok_or_else(|| {
            let text = format!("Unknown column '{}' in '{clause}'", parts.join("."));
            SqlError::new(1054, "42S22", text)
        })
    }

    /// That an index has this name, or one alone begins with it.
    ///
    /// # Errors
    /// 1176: none, or several.
    fn index(&self, hint: &str) -> Result<()> {
        if self.listing.is_some() {
            return Err(SqlError::not_supported("an index of a table that is kept nowhere"));
        }
        let hinted = hint.to_lowercase();
        let names = self.table.keys.iter().filter(|key| !key.invisible).map(|key| key.name.to_lowercase());
        let begun: Vec<String> = names.filter(|name| name.starts_with(&hinted)).collect();
        match begun.as_slice() {
            [_] => Ok(()),
            several if several.contains(&hinted) => Ok(()),
            _ => {
                let text = format!("Key '{hint}' doesn't exist in table '{}'", self.alias);
                Err(SqlError::new(1176, "42000", text))
            }
        }
    }

    /// The column at this position of a view over MySQL's own dictionary.
    fn view_column(&self, position: usize) -> Option<&ListingColumn> {
        self.listing.filter(|listing| listing.names_in_capitals())?.columns.get(position)
    }

    fn is_meant(&self, qualifier: &[Cow<'_, str>]) -> bool {
        let same =
            |one: &str, other: &str| if self.folds { one.to_lowercase() == other.to_lowercase() } else { one == other };
        match qualifier {
            [] => true,
            [table] => same(table, &self.alias),
            [schema, table] => same(schema, self.schema) && same(table, &self.alias),
            _ => false,
        }
    }
}

/// Binds a SELECT from `table` to its definition; `lower_case_table_names` is the source's. `known` is what an earlier
/// execution of the same statement under the same variables put out, if that [stays](Selected::stays).
///
/// # Errors
/// With MySQL's number, or 1235.
pub fn plan(
    bind: &Bind<'_>,
    select: &Select,
    table: &Arc<TableDef>,
    lower_case_table_names: u8,
    known: Option<&Arc<Selected>>,
) -> Result<Plan> {
    bound(bind, select, table, lower_case_table_names, None, known.filter(|known| Arc::ptr_eq(&known.table, table)))
}

/// Binds a SELECT from a table that is kept nowhere; its rows are chosen by [`chosen`](crate::listing::chosen).
///
/// # Errors
/// As [`plan`].
pub fn plan_listing(bind: &Bind<'_>, select: &Select, listing: &Listing) -> Result<Plan> {
    // Its names are the same in any case.
    bound(bind, select, &listing.table, 1, Some(listing), None)
}

fn bound(
    bind: &Bind<'_>,
    select: &Select,
    table: &Arc<TableDef>,
    lower_case_table_names: u8,
    listing: Option<&Listing>,
    known: Option<&Arc<Selected>>,
) -> Result<Plan> {
    let Some(from) = &select.from else { return Err(SqlError::new(1096, "HY000", "No tables used")) };
    let alias = match (&from.alias, listing) {
        (Some(alias), _) => in_text(alias),
        // Their names are shown as they were written.
        (None, Some(_)) => in_text(&from.table),
        (None, None) => Cow::Borrowed(table.name.as_str()),
    };
    let folds = lower_case_table_names != 0;
    let scope = Scope { bind, table, listing, schema: &table.db, alias, folds };
    for hint in &from.hints {
        scope.index(&in_text(hint))?;
    }
    let selected = match known {
        Some(known) => Arc::clone(known),
        None => {
            let (columns, outputs) = outputs(&scope, &select.items)?;
            let name = |text: &str| text.as_bytes().to_vec();
            Arc::new(Selected {
                table: Arc::clone(table),
                origin: Origin { schema: name(&table.db), table: name(&scope.alias), org_table: name(&table.name) },
                counts: outputs.contains(&Output::Count),
                columns,
                outputs,
            })
        }
    };
    let at = |error: SqlError| error.at(from.filter_at..bind.sql.len());
    // One list of conditions, or several alternatives.
    let (first, lists) = match (&from.filter, listing) {
        (None, _) => (Conditions::default(), Vec::new()),
        (Some(filter), None) => (condition::bind(&scope, filter).map_err(at)?, Vec::new()),
        (Some(filter), Some(_)) => {
            let mut lists = condition::bind_any(&scope, filter).map_err(at)?;
            // What no row can fulfil is no alternative, unless there is no other.
            lists.sort_by_key(|one| one.never);
            let mut lists = lists.into_iter();
            (lists.next().unwrap_or_default(), lists.collect())
        }
    };
    let order = order::bind(&scope, &from.order, &select.items).map_err(at)?;
    let order = if selected.counts { Vec::new() } else { order };
    let Conditions { filters, never, parameters: Parameters(mut parameters), .. } = first;
    parameters.extend(lists.iter().flat_map(|one| one.parameters.0.iter().copied()));
    let others: Vec<Vec<Filter>> = lists.into_iter().filter(|one| !one.never).map(|one| one.filters).collect();
    let (offset, rows) = bind.limit(&select.limit)?;
    let sorted_by = if listing.is_some() { order.clone() } else { Vec::new() };
    let has_no_order = |by: &By| {
        let found = listing.and_then(|one| Some((one, one.columns.get(by.column)?)));
        found.is_some_and(|(one, column)| column.is_enumeration && members_of(&one.name, column.org_name()).is_none())
    };
    if sorted_by.iter().any(has_no_order) {
        return Err(at(SqlError::not_supported("ORDER BY a SET of a table that is kept nowhere")));
    }
    let paths = if listing.is_some() { Vec::new() } else { paths(table, &filters, &order) };
    if paths.is_empty() && listing.is_none() {
        return Err(at(SqlError::not_supported("ORDER BY that no index gives")));
    }
    let read = selected.outputs.iter().filter_map(|output| match output {
        Output::Column(position) => Some(*position),
        _ => None,
    });
    let zone = checked_columns(&scope, read.chain(filters.iter().map(|filter| filter.column)))?;
    Ok(Plan {
        selected,
        filters,
        others,
        paths,
        sorted_by,
        never,
        offset,
        rows_max: if select.limit.rows.is_some() { rows } else { bind.settings.typed().rows_max },
        zone,
        parameters,
    })
}

/// Refuses columns whose values are not known here; returns the session's zone if there is a TIMESTAMP, UTC if not.
fn checked_columns(scope: &Scope<'_>, positions: impl Iterator<Item = usize>) -> Result<Zone> {
    let not_known = scope.table.not_known();
    let pads = scope.bind.settings.typed().sql_mode & sql_mode::PAD_CHAR_TO_FULL_LENGTH != 0;
    let mut zone = Zone::UTC;
    for position in positions {
        let column = scope.column(position)?;
        if not_known.contains(&position) {
            let text = format!("reading the generated column {}: its values are not known here", column.name);
            return Err(SqlError::not_supported(&text));
        }
        match column.ty.code {
            t::TIMESTAMP | t::TIMESTAMP2 => zone = session_zone(scope.bind.settings, scope.bind.own)?,
            t::CHAR if pads => return Err(SqlError::not_supported("CHAR under PAD_CHAR_TO_FULL_LENGTH")),
            _ => {}
        }
    }
    Ok(zone)
}

/// The columns of the result and where their values come from.
fn outputs(scope: &Scope<'_>, items: &[Item]) -> Result<(Vec<ResultColumn>, Vec<Output>)> {
    let (mut columns, mut outputs) = (Vec::new(), Vec::new());
    for item in items {
        match &item.expression {
            Expression::Star(names) => add_all(scope, names, &mut columns, &mut outputs)?,
            Expression::Name(parts) => {
                let position = scope.resolve(parts, "field list")?;
                let name = match (&item.alias, scope.view_column(position)) {
                    (Some(alias), _) => column_names::given(alias),
                    // Without an alias it has the name that its view gives it.
                    (None, Some(listed)) => listed.name.as_bytes().to_vec(),
                    (None, None) => parts.last().cloned().unwrap_or_default(),
                };
                columns.push(named_column(scope, position, name)?);
                outputs.push(Output::Column(position));
            }
            Expression::Call { name, arguments } if is_count(name, arguments) => {
                columns.push(count_column(scope, item)?);
                outputs.push(Output::Count);
            }
            other if is_constant(other) => {
                let bind::Column { name, field, value } = bind::column(scope.bind, item)?;
                columns.push(ResultColumn { name, org_name: None, origin: None, field });
                outputs.push(Output::Constant(value));
            }
            other => return Err(SqlError::not_supported(&other.construct()).at(item.span.clone())),
        }
        if columns.len() > COLUMNS_MAX {
            return Err(SqlError::new(1117, "HY000", "Too many columns"));
        }
    }
    let counts = outputs.contains(&Output::Count);
    if counts && outputs.iter().any(|output| matches!(output, Output::Column(_))) {
        return Err(SqlError::not_supported("COUNT(*) together with columns"));
    }
    Ok((columns, outputs))
}

/// `*` leaves out invisible columns.
fn add_all(
    scope: &Scope<'_>,
    names: &[Vec<u8>],
    columns: &mut Vec<ResultColumn>,
    outputs: &mut Vec<Output>,
) -> Result<()> {
    let names: Vec<Cow<'_, str>> = names.iter().map(|name| in_text(name)).collect();
    if !scope.is_meant(&names) {
        return Err(SqlError::new(1051, "42S02", format!("Unknown table '{}'", names.join("."))));
    }
    for (position, column) in scope.table.columns.iter().enumerate().filter(|(_, column)| !column.invisible) {
        columns.push(of_column(scope, position, column.name.clone().into_bytes())?);
        outputs.push(Output::Column(position));
    }
    Ok(())
}

/// A column that is named comes from a view of `information_schema` itself; `*` looks through it, as recorded.
fn named_column(scope: &Scope<'_>, position: usize, name: Vec<u8>) -> Result<ResultColumn> {
    let column = of_column(scope, position, name)?;
    let listing = scope.listing.filter(|_| scope.schema == "information_schema");
    let listed = listing.and_then(|listing| Some((listing, listing.columns.get(position)?)));
    let Some((listing, listed)) = listed else { return Ok(column) };
    let bytes = |text: &str| text.as_bytes().to_vec();
    // What the view computes comes from no schema.
    let schema = if listing.computes(listed) { Vec::new() } else { bytes(scope.schema) };
    let (table, org_table) = (bytes(&scope.alias), bytes(&scope.table.name));
    let origin = Some(Box::new(Origin { schema, table, org_table }));
    Ok(ResultColumn { org_name: Some(bytes(&listed.name)), origin, ..column })
}

fn of_column(scope: &Scope<'_>, position: usize, name: Vec<u8>) -> Result<ResultColumn> {
    if let Some(listing) = scope.listing
        && let Some(listed) = listing.columns.get(position)
    {
        let field = listing.field(listed, scope.bind.settings.typed().sql_mode);
        let org_name = Some(listed.org_name().as_bytes().to_vec());
        let origin = Some(Box::new(listed.origin(&scope.alias)));
        return Ok(ResultColumn { name, org_name, origin, field });
    }
    let org_name = Some(scope.column(position)?.name.clone().into_bytes());
    Ok(ResultColumn { name, org_name, origin: None, field: field_of(scope.table, position)? })
}

fn is_count(name: &str, arguments: &[Expression]) -> bool {
    name.eq_ignore_ascii_case("COUNT") && matches!(arguments, [Expression::Star(names)] if names.is_empty())
}

fn count_column(scope: &Scope<'_>, item: &Item) -> Result<ResultColumn> {
    let charsets = scope.bind.settings.charsets();
    let name = match item.alias.as_deref() {
        Some(alias) => column_names::given(alias),
        None => column_names::own(&charsets.in_column_name(item.text(scope.bind.sql), charsets.client)?),
    };
    Ok(ResultColumn { name, org_name: None, origin: None, field: bind::integer(0, 21).field })
}
