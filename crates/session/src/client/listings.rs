//! Tables that are kept nowhere, and SHOW of what they list: `information_schema`, `performance_schema`.
//!
//! In: the statement, the snapshot that the session reads, facts about the server. Out: columns as a 9.7 describes them,
//! the rows that the statement chooses. Never here: what the account may not read; a table of `information_schema`
//! shown as empty that MySQL would fill: those end with 1235.

use std::sync::Arc;

use catalog::{Catalog, TableDef};
use sql::listing::{
    Choice, Listing, Part, SYSTEM_SCHEMA, Seen, VIRTUAL_SCHEMAS, chosen, listing, listing_prepared, may_choose,
    recorded_rows, show_columns, show_columns_of_virtual, show_index, show_index_of_virtual, status_variables,
    tables_of, virtual_schema,
};
use sql::table::{NoTable, Plan, TableName, find, in_text, plan_listing};
use sql::{Bind, Column, Event, Select, Show, SqlError, Statement, Value, Variable, Wait, gtid_text, variables};
use store::Snapshot;

use super::results::{Listed, Rows};
use super::shows::text;
use super::{Own, Parameters, PreparedUnder, Session};
use crate::world::Encryption;
use crate::world::World;

/// Status variables of what is counted by MySQL only: shown with no value, they would seem to be counted here.
const NOT_COUNTED: &[&str] = &[
    "Aborted_",
    "Acl_",
    "Bytes_",
    "Com_",
    "Connection_errors_",
    "Count_",
    "Created_tmp_",
    "Deprecated_",
    "Error_log_",
    "Global_connection_",
    "Handler_",
    "Last_query_",
    "Max_execution_time_",
    "Open_",
    "Opened_",
    "Prepared_stmt_",
    "Select_",
    "Slow_",
    "Sort_",
    "Ssl_",
    "Table_",
    "Threads_",
    "Tls_",
    "Current_tls_",
    "Caching_sha2_password_rsa_public_key",
    "Compression",
    "Max_used_connections",
    "Queries",
    "Rsa_public_key",
];

/// Tables of `information_schema` about what there is none of here.
const EMPTY: &[&str] = &["FILES", "OPTIMIZER_TRACE", "PROFILING", "RESOURCE_GROUPS", "TABLESPACES_EXTENSIONS"];

/// A SELECT from a table that is kept nowhere, bound.
#[derive(Debug)]
pub(super) struct PlannedListing {
    listing: &'static Listing,
    plan: Plan,
    /// Its rows are made and chosen by another thread.
    is_beside: bool,
}

/// True for a SHOW that MySQL turns into a SELECT.
pub(super) fn is_select(show: &Show) -> bool {
    matches!(
        show,
        Show::Variables { .. }
            | Show::Status { .. }
            | Show::Databases { .. }
            | Show::Tables { .. }
            | Show::Columns { .. }
            | Show::Index { .. }
            | Show::TableStatus { .. }
            | Show::Collation { .. }
            | Show::CharacterSet { .. }
            | Show::Objects { .. }
    )
}

/// 1109, 1146.
fn unknown_table(schema: &str, table: &str) -> SqlError {
    match schema {
        "information_schema" => {
            let text = format!("Unknown table '{}' in information_schema", table.to_uppercase());
            SqlError::new(1109, "42S02", text)
        }
        _ => SqlError::new(1146, "42S02", format!("Table '{schema}.{table}' doesn't exist")),
    }
}

impl Session {
    /// The virtual schema of a SELECT's table; None for tables that are kept.
    pub(super) fn virtual_schema(&self, select: &Select, under: Option<&PreparedUnder>) -> Option<&'static str> {
        virtual_schema(select, self.tables_in(under))
    }

    /// True for statements that read the catalog, which must be as fresh as the session asks.
    pub(super) fn shows_names(&self, statement: &Statement, under: Option<&PreparedUnder>) -> bool {
        match statement {
            Statement::Show(
                Show::Databases { .. }
                | Show::Tables { .. }
                | Show::Columns { .. }
                | Show::Index { .. }
                | Show::TableStatus { .. }
                | Show::CreateTable { .. }
                | Show::CreateDatabase { .. }
                | Show::Objects { .. },
            ) => true,
            Statement::Select(select) => self.virtual_schema(select, under) == Some("information_schema"),
            _ => false,
        }
    }

    /// Binds a SELECT from a table that is kept nowhere.
    ///
    /// # Errors
    /// 1109 and 1146 for an unknown table, those of binding.
    pub(super) fn plan_of_listing(&self, select: &Select, bind: &Bind<'_>) -> Result<PlannedListing, SqlError> {
        let (Some(schema), Some(from)) = (virtual_schema(select, bind.tables_in), &select.from) else {
            return Err(SqlError::new(1096, "HY000", "No tables used"));
        };
        let table = in_text(&from.table);
        let listing = listing(&format!("{schema}.{table}"))?.ok_or_else(|| unknown_table(schema, &table))?;
        let plan = plan_listing(bind, select, listing)?;
        if !self.may_read().everything() {
            return Err(self.may_not("SELECT", &table));
        }
        self.check_locking_of_listing(select, listing)?;
        Ok(PlannedListing { listing, plan, is_beside: false })
    }

    /// Begins with such a SELECT, and says what it waits for.
    ///
    /// # Errors
    /// Those of [`plan_of_listing`](Self::plan_of_listing), as they are.
    pub(super) fn list(
        &mut self,
        select: &Select,
        sql: &[u8],
        parameters: Parameters<'_>,
        world: &dyn World,
    ) -> Result<Option<Wait>, SqlError> {
        if self.place.listing.is_some() {
            return Ok(None);
        }
        let mut planned = self.bound(sql, parameters, world, |bind| self.plan_of_listing(select, bind))?;
        planned.is_beside = self.lists_beside(&planned.plan, planned.listing, world)?;
        let event = match planned.is_beside {
            true => Some(Event::Listing),
            false => super::threads::is_of_threads(planned.listing).then_some(Event::Sessions),
        };
        self.place.listing = Some(planned);
        Ok(event.map(|event| Wait { event, timeout: None }))
    }

    /// The rows of such a SELECT; none while it is prepared.
    ///
    /// # Errors
    /// 1235 for a table that is not filled here.
    pub(super) fn listed(&self, planned: PlannedListing, bind: &Bind<'_>, world: &dyn World) -> Result<Rows, SqlError> {
        let PlannedListing { listing, plan, is_beside } = planned;
        if is_beside {
            self.has_ended()?;
            let rows = self.take_listed()?;
            return Ok(Rows { rows, ..self.listed_rows(plan, bind, |_| Ok(Vec::new()))? });
        }
        self.listed_rows(plan, bind, |plan| {
            let wanted = |schema: &str, table: Option<&str>| may_choose(plan, schema, table).unwrap_or(true);
            self.rows_of(listing, &wanted, world)
        })
    }

    /// A SHOW of such a table's rows.
    ///
    /// # Errors
    /// Those of binding, of the names given, 1235 for what is not listed here.
    pub(super) fn show_listing(&self, show: &Show, bind: &Bind<'_>, world: &dyn World) -> Result<Rows, SqlError> {
        let none = Choice::default();
        let (name, like, choice) = match show {
            Show::Variables { global: true, choice } => ("SHOW GLOBAL VARIABLES", "Variable_name", choice),
            Show::Variables { choice, .. } => ("SHOW VARIABLES", "Variable_name", choice),
            Show::Status { global: true, choice } => ("SHOW GLOBAL STATUS", "Variable_name", choice),
            Show::Status { choice, .. } => ("SHOW STATUS", "Variable_name", choice),
            Show::Collation { choice } => ("SHOW COLLATION", "Collation", choice),
            Show::CharacterSet { choice } => ("SHOW CHARACTER SET", "Charset", choice),
            Show::Engines => ("SHOW ENGINES", "Engine", &none),
            Show::Plugins => ("SHOW PLUGINS", "Name", &none),
            Show::OpenTables { schema, choice } => {
                let rows = || Ok(self.open_tables(schema.as_deref(), world));
                return self.choose("SHOW OPEN TABLES", "Table", choice, bind, rows);
            }
            Show::Columns { full, schema, table, choice } => {
                let name = if *full { "SHOW FULL COLUMNS" } else { "SHOW COLUMNS" };
                let table = self.name_of_table(schema.as_deref(), table)?;
                if let Some((schema, table)) = self.virtual_table_named(&table, world)? {
                    let rows = || Ok(show_columns_of_virtual(schema, table, *full));
                    return self.choose(name, "Field", choice, bind, rows);
                }
                let table = self.table_named("COLUMNS", table, world)?;
                return self.choose(name, "Field", choice, bind, || Ok(show_columns(&table, *full)));
            }
            Show::Index { schema, table, choice } => {
                let table = self.name_of_table(schema.as_deref(), table)?;
                if let Some((schema, table)) = self.virtual_table_named(&table, world)? {
                    let rows = || Ok(show_index_of_virtual(schema, table));
                    return self.choose("SHOW INDEX", "Table", choice, bind, rows);
                }
                let table = self.table_named("INDEX", table, world)?;
                return self.choose("SHOW INDEX", "Table", choice, bind, || Ok(show_index(&table)));
            }
            Show::TableStatus { schema, choice } => {
                let (snapshot, schema) = self.schema_to_show(schema.as_deref(), world)?;
                let wanted = |db: &str, _: Option<&str>| db.eq_ignore_ascii_case(&schema);
                let rows = || Ok(self.seen_of(snapshot.catalog(), &wanted, |seen| seen.table_status(&schema)));
                return self.choose("SHOW TABLE STATUS", "Name", choice, bind, rows);
            }
            Show::Objects { kind, schema, choice } => {
                return self.show_objects(kind, schema.as_deref(), choice, bind, world);
            }
            _ => return Err(SqlError::not_supported("SHOW")),
        };
        self.choose(name, like, choice, bind, || self.rows_of(shown(name)?, &|_, _| true, world))
    }

    /// The rows that LIKE or WHERE of a SHOW leaves.
    fn choose(
        &self,
        name: &str,
        like: &str,
        choice: &Choice,
        bind: &Bind<'_>,
        rows: impl FnOnce() -> Result<Vec<Vec<Value>>, SqlError>,
    ) -> Result<Rows, SqlError> {
        let listing = shown_in(name, bind)?;
        let plan = plan_listing(bind, &choice.select(listing, like), listing)?;
        self.listed_rows(plan, bind, |_| rows())
    }

    /// What the account may see of a catalog.
    fn seen<T>(&self, catalog: &Catalog, of: impl FnOnce(&Seen<'_>) -> T) -> T {
        self.seen_of(catalog, &|_, _| true, of)
    }

    /// As [`seen`](Self::seen), for these tables only.
    fn seen_of<T>(
        &self,
        catalog: &Catalog,
        wanted: &dyn Fn(&str, Option<&str>) -> bool,
        of: impl FnOnce(&Seen<'_>) -> T,
    ) -> T {
        of(&Seen { catalog, may_see: &|schema| self.may_read().schema(schema), wanted, part: Part::All })
    }

    /// The schema that a SHOW names, or the default one, with the snapshot in which it is.
    pub(super) fn schema_to_show(
        &self,
        schema: Option<&[u8]>,
        world: &dyn World,
    ) -> Result<(Arc<Snapshot>, String), SqlError> {
        let schema = match schema {
            None => self.schema.as_ref().map(|schema| schema.name.clone()),
            Some(name) => Some(self.schema_of(&in_text(name), world)?.0),
        };
        let schema = schema.ok_or_else(|| SqlError::new(1046, "3D000", "No database selected"))?;
        let snapshot = self.snapshot(world)?;
        let found = snapshot.catalog().database(&schema).map(|(name, _)| name.to_owned());
        match found {
            Some(name) => Ok((snapshot, name)),
            None if schema == SYSTEM_SCHEMA || VIRTUAL_SCHEMAS.contains(&schema.as_str()) => Ok((snapshot, schema)),
            None => Err(SqlError::new(1049, "42000", format!("Unknown database '{schema}'"))),
        }
    }

    /// A table as a statement names it, in the default schema if it names none.
    pub(super) fn name_of_table(&self, schema: Option<&[u8]>, table: &[u8]) -> Result<TableName<'static>, SqlError> {
        let schema = match (schema, &self.schema) {
            (Some(schema), _) => in_text(schema).into_owned(),
            (None, Some(schema)) => schema.name.clone(),
            (None, None) => return Err(SqlError::new(1046, "3D000", "No database selected")),
        };
        Ok(TableName { schema: schema.into(), table: in_text(table).into_owned().into() })
    }

    /// The definition of a table that a SHOW names.
    pub(super) fn table_named(
        &self,
        what: &str,
        name: TableName<'_>,
        world: &dyn World,
    ) -> Result<Arc<TableDef>, SqlError> {
        if VIRTUAL_SCHEMAS.iter().any(|own| own.eq_ignore_ascii_case(&name.schema)) {
            return Err(SqlError::not_supported(&format!("SHOW {what} of a table of {}", name.schema)));
        }
        let snapshot = self.snapshot(world)?;
        let catalog = snapshot.catalog();
        let name = name.folded(catalog.lower_case_table_names());
        let schema = catalog.database(&name.schema).map(|(schema, _)| schema);
        if what == "CREATE TABLE" {
            self.locks.check(&name, &name.table)?;
        }
        if what == "CREATE TABLE" && !self.may_read().table(schema.unwrap_or(&name.schema), &name.table) {
            return Err(self.may_not("SHOW", &name.table));
        }
        self.may_select(&name, schema)?;
        find(catalog, &name).map_err(|why| match why {
            NoTable::View => SqlError::not_supported(&format!("SHOW {what} of a view")),
            why => why.error(&name),
        })
    }

    /// The virtual table that a SHOW names, and its schema; None if it names one that is kept.
    pub(super) fn virtual_table_named(
        &self,
        name: &TableName<'_>,
        world: &dyn World,
    ) -> Result<Option<(&'static str, &'static str)>, SqlError> {
        let TableName { schema: given, table } = name;
        let Some(schema) = VIRTUAL_SCHEMAS.iter().copied().find(|own| own.eq_ignore_ascii_case(given)) else {
            return Ok(None);
        };
        let is_view = schema == "information_schema";
        // Names of the other are compared as those of kept tables are.
        let by_case = !is_view && self.snapshot(world)?.catalog().lower_case_table_names() == 0;
        if by_case && given != schema {
            return Err(SqlError::new(1049, "42000", format!("Unknown database '{given}'")));
        }
        let is_meant = |own: &&str| if by_case { *own == table } else { own.eq_ignore_ascii_case(table) };
        let found = tables_of(schema).find(is_meant).ok_or_else(|| unknown_table(schema, table))?;
        Ok(Some((schema, found)))
    }

    /// Stored programs: none, or 1235.
    fn show_objects(
        &self,
        kind: &str,
        schema: Option<&[u8]>,
        choice: &Choice,
        bind: &Bind<'_>,
        world: &dyn World,
    ) -> Result<Rows, SqlError> {
        let (objects, like): (&[&str], _) = match kind {
            "TRIGGERS" => (&["TRIGGER"], "Table"),
            "EVENTS" => (&["EVENT"], "Name"),
            "FUNCTION STATUS" => (&["FUNCTION"], "Name"),
            _ => (&["PROCEDURE"], "Name"),
        };
        let of_schema = !kind.ends_with("STATUS");
        let (snapshot, schema) = match of_schema {
            true => self.schema_to_show(schema, world).map(|(snapshot, schema)| (snapshot, Some(schema)))?,
            false => (self.snapshot(world)?, None),
        };
        if self.seen(snapshot.catalog(), |seen| seen.has_objects(objects, schema.as_deref())) {
            return Err(SqlError::not_supported(&format!("SHOW {kind} where there are some")));
        }
        self.choose(&format!("SHOW {kind}"), like, choice, bind, || Ok(Vec::new()))
    }

    /// The rows that a plan chooses; none while its statement is prepared.
    pub(super) fn listed_rows(
        &self,
        plan: Plan,
        bind: &Bind<'_>,
        rows: impl FnOnce(&Plan) -> Result<Vec<Vec<Value>>, SqlError>,
    ) -> Result<Rows, SqlError> {
        let rows = if bind.parameters.is_some() { chosen(&plan, rows(&plan)?, bind.memory)? } else { Vec::new() };
        let column = |name: &[u8], field| Column { name: name.to_vec(), field, value: Value::Null };
        let columns = plan.columns.iter().map(|one| column(&one.name, one.field)).collect();
        // What MySQL says of the others follows from its own dictionary's indexes.
        let scans = plan.table.name.to_lowercase().ends_with("variables") && !plan.never && plan.rows_max > 0;
        let listed = plan.columns.clone();
        let described = Some(Listed { columns: listed, parameters: plan.parameters, scans });
        Ok(Rows { columns, rows, described, more: None })
    }

    /// All rows of a listing that the account may see, but for tables that are not wanted.
    fn rows_of(
        &self,
        listing: &Listing,
        wanted: &dyn Fn(&str, Option<&str>) -> bool,
        world: &dyn World,
    ) -> Result<Vec<Vec<Value>>, SqlError> {
        if let Some(rows) = recorded_rows(listing) {
            return Ok(rows);
        }
        if let Some(rows) = self.rows_of_threads(listing, world)? {
            return Ok(rows);
        }
        Ok(match listing.name.as_str() {
            "performance_schema.global_variables" | "SHOW GLOBAL VARIABLES" => self.variable_rows(true, world),
            "performance_schema.session_variables" | "SHOW VARIABLES" => self.variable_rows(false, world),
            "performance_schema.global_status" => status_rows(true, true, world.status_values()),
            "performance_schema.session_status" => status_rows(false, true, self.status_values(world)),
            "SHOW GLOBAL STATUS" => status_rows(true, false, world.status_values()),
            "SHOW STATUS" => status_rows(false, false, self.status_values(world)),
            "SHOW COLLATION" => recorded_rows(shown("information_schema.COLLATIONS")?).unwrap_or_default(),
            "SHOW CHARACTER SET" => character_sets()?,
            "SHOW ENGINES" | "information_schema.ENGINES" => vec![innodb()],
            "SHOW PLUGINS" => plugins(world).into_iter().map(Plugin::shown).collect(),
            "information_schema.PLUGINS" => plugins(world).into_iter().map(Plugin::listed).collect(),
            name => match name.split_once('.') {
                Some(("performance_schema", _)) => Vec::new(),
                Some((_, table)) if table.starts_with("INNODB_") || EMPTY.contains(&table) => Vec::new(),
                of => {
                    let snapshot = self.snapshot(world)?;
                    let rows =
                        of.and_then(|(_, table)| self.seen_of(snapshot.catalog(), wanted, |seen| seen.rows(table)));
                    rows.ok_or_else(|| SqlError::not_supported(&format!("SELECT … FROM {name}")))?
                }
            },
        })
    }

    /// Tables of one schema or all, whose definitions are all in memory, where anything can be read; else none is open.
    /// LOCK TABLES of clients is not counted.
    fn open_tables(&self, schema: Option<&[u8]>, world: &dyn World) -> Vec<Vec<Value>> {
        let Ok(snapshot) = self.snapshot(world) else { return Vec::new() };
        let catalog = snapshot.catalog();
        let wanted = schema.map(|name| catalog.database(&in_text(name)).map(|(db, _)| db));
        let is_wanted = |db: &str| wanted.is_none_or(|wanted| wanted == Some(db));
        let of_schema = |(db, _): (&str, _)| {
            let db = db.to_owned();
            let tables = catalog.tables_of(&db).map(|table| table.name.clone()).collect::<Vec<_>>();
            let readable = tables.into_iter().filter(|table| self.may_read().table(&db, table)).collect::<Vec<_>>();
            readable.into_iter().map(move |table| vec![text(&db), text(&table), Value::Int(0), Value::Int(0)])
        };
        catalog.databases().filter(|(db, _)| is_wanted(db)).flat_map(of_schema).collect()
    }

    /// What is counted of the server, what its transaction reads, and how its connection is encrypted.
    fn status_values(&self, world: &dyn World) -> Vec<(&'static str, String)> {
        let pinned = self.locks.view().ok().flatten().or_else(|| self.transaction.view(false).ok().flatten());
        let set = pinned.map(|snapshot| gtid_text(snapshot.executed())).unwrap_or_default();
        let mut values = world.status_values();
        values.push(("Slipstream_snapshot_gtids", set));
        let Encryption { version, cipher } = self.login.encryption.clone().unwrap_or_default();
        values.extend([("Ssl_cipher", cipher), ("Ssl_version", version.to_owned())]);
        values
    }

    fn variable_rows(&self, global: bool, world: &dyn World) -> Vec<Vec<Value>> {
        let own = Own { session: self, world };
        let is_there = |variable: &&Variable| variable.is_there(&own) && (variable.global || !global);
        let of_scope = variables().iter().filter(is_there);
        let row = |variable| {
            let value = self.settings.listed(variable, global, &own).as_deref().map_or(Value::Null, text);
            vec![text(variable.name), value]
        };
        of_scope.map(row).collect()
    }
}

/// A listing that must be there.
pub(super) fn shown(name: &str) -> Result<&'static Listing, SqlError> {
    listing(name)?.ok_or_else(|| SqlError::defect(format!("{name} was not recorded")))
}

/// The columns of a SHOW, which is prepared or runs.
pub(super) fn shown_in(show: &str, bind: &Bind<'_>) -> Result<&'static Listing, SqlError> {
    match bind.parameters {
        Some(_) => shown(show),
        None => listing_prepared(show)?.map_or_else(|| shown(show), Ok),
    }
}

fn status_rows(global: bool, in_tables: bool, counted: Vec<(&'static str, String)>) -> Vec<Vec<Value>> {
    let recorded = status_variables().iter().filter_map(|variable| {
        let value = counted.iter().find(|(name, _)| *name == variable.name).map(|(_, value)| value.as_str());
        let is_shown = (variable.global || !global) && (variable.in_tables || !in_tables);
        let is_counted = value.is_some() || !NOT_COUNTED.iter().any(|prefix| variable.name.starts_with(prefix));
        (is_shown && is_counted).then(|| (variable.name, value.unwrap_or(variable.nothing)))
    });
    let ours = counted.iter().filter(|(name, _)| name.starts_with("Slipstream_"));
    let mut all: Vec<(&str, &str)> = recorded.chain(ours.map(|(name, value)| (*name, value.as_str()))).collect();
    all.sort_by_key(|(name, _)| name.to_lowercase());
    all.into_iter().map(|(name, value)| vec![text(name), text(value)]).collect()
}

/// As SHOW orders the columns.
fn character_sets() -> Result<Vec<Vec<Value>>, SqlError> {
    let rows = recorded_rows(shown("information_schema.CHARACTER_SETS")?).unwrap_or_default();
    let reordered = |row: Vec<Value>| match <[Value; 4]>::try_from(row) {
        Ok([name, collation, description, length]) => vec![name, description, collation, length],
        Err(row) => row,
    };
    Ok(rows.into_iter().map(reordered).collect())
}

/// What a tool looks for as a plugin, and finds here.
#[derive(Debug, Clone, Copy)]
struct Plugin {
    name: &'static str,
    kind: &'static str,
    /// The file from which MySQL loads it; None if it is built in.
    library: Option<&'static str>,
}

fn plugins(world: &dyn World) -> Vec<Plugin> {
    let plugin = |name, kind, library| Plugin { name, kind, library };
    let mut plugins = vec![
        plugin("caching_sha2_password", "AUTHENTICATION", None),
        plugin("InnoDB", "STORAGE ENGINE", None),
        plugin("rpl_semi_sync_replica", "REPLICATION", Some("semisync_replica.so")),
    ];
    if world.own_values().own_value("rpl_semi_sync_source_enabled").is_some() {
        plugins.push(plugin("rpl_semi_sync_source", "REPLICATION", Some("semisync_source.so")));
    }
    plugins
}

impl Plugin {
    fn shown(self) -> Vec<Value> {
        vec![text(self.name), text("ACTIVE"), text(self.kind), self.library(), Value::Null]
    }

    fn library(self) -> Value {
        self.library.map_or(Value::Null, text)
    }

    /// Of MySQL's plugins these have no version, author, description or licence.
    fn listed(self) -> Vec<Value> {
        let load = if self.library.is_some() { "ON" } else { "FORCE" };
        let [name, kind] = [self.name, self.kind].map(text);
        let (none, version) = (Value::Null, text("1.0"));
        vec![
            name,
            version.clone(),
            text("ACTIVE"),
            kind,
            version,
            self.library(),
            none.clone(),
            none.clone(),
            none.clone(),
            none,
            text(load),
        ]
    }
}

/// The engine whose behaviour rows have here, whatever engine a table names.
fn innodb() -> Vec<Value> {
    let comment = "Supports transactions, row-level locking, and foreign keys";
    vec![text("InnoDB"), text("DEFAULT"), text(comment), text("YES"), text("YES"), text("YES")]
}
