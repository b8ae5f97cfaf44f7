//! Snapshots of all databases and tables, and the step from one to the next.
//!
//! In: one statement with its context. Out: the next snapshot and the effect. Never here: text (`statement`), types
//! (`column_type`). Snapshots are immutable: `apply` copies the maps of pointers, so a clone costs one reference count,
//! and readers of an older epoch keep their snapshot.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::alter_effect::{self, PartitionsEffect, RowsEffect};
use crate::charset::{self, Collation};
use crate::column_type;
use crate::context::StatementContext;
use crate::define::{self, Scope};
use crate::definition::{Definition, Definitions};
use crate::error::{DdlError, Problem};
use crate::index_set;
use crate::layout::ColumnSource;
use crate::partition::PartitionChoice;
use crate::statement;
use crate::syntax::{AlterAction, CharsetSpec, CreateBody, CreateTable, Statement, TableName};
use crate::table::{ForeignKey, TableDef, TableId, same_name};

mod filtered;
mod quarantine;
mod recorded;
mod written;

pub use filtered::Filtered;
pub use quarantine::Quarantined;
pub use written::Written;

/// All tables at one epoch. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Catalog {
    inner: Arc<Inner>,
}

#[derive(Debug, Clone)]
struct Inner {
    lower_case_table_names: u8,
    epoch: u64,
    next_table_id: u32,
    /// Keyed by folded name (see `Inner::folded`).
    databases: BTreeMap<String, Arc<Database>>,
    by_id: BTreeMap<TableId, Arc<TableDef>>,
    /// Why a table's definition is unknown, by folded database and table name.
    quarantined: BTreeMap<(String, String), String>,
    definitions: Arc<Definitions>,
}

#[derive(Debug, Clone)]
struct Database {
    name: String,
    /// Default collation; `None` if the log never stated it because the database is older than the log.
    collation: Option<u16>,
    /// Keyed by folded name.
    tables: BTreeMap<String, Arc<TableDef>>,
    /// Folded names of views. Views share the tables' name space and can be renamed like tables.
    views: BTreeSet<String>,
}

/// A catalog as the store keeps it, in JSON.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Stored {
    #[serde(rename = "lower_case_table_names")]
    lower_case_table_names: u8,
    #[serde(rename = "epoch")]
    epoch: u64,
    #[serde(rename = "next_table_id")]
    next_table_id: u32,
    #[serde(rename = "databases")]
    databases: Vec<StoredDatabase>,
    /// Folded database name, folded table name, reason.
    // Absent if empty.
    #[serde(rename = "quarantined", default, skip_serializing_if = "Vec::is_empty")]
    quarantined: Vec<(String, String, String)>,
    /// Views, routines, triggers, events, users and grants.
    // Absent if empty.
    #[serde(rename = "definitions", default, skip_serializing_if = "Vec::is_empty")]
    definitions: Vec<Definition>,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct StoredDatabase {
    #[serde(rename = "name")]
    name: String,
    #[serde(rename = "collation", deserialize_with = "Option::deserialize")]
    collation: Option<u16>,
    #[serde(rename = "tables")]
    tables: Vec<Arc<TableDef>>,
    #[serde(rename = "views")]
    views: BTreeSet<String>,
}

/// Upgrades a catalog of store format 1, which had no layouts, index ids or partitions, by adding the values they stood
/// for. None if this is no such catalog. A table that lacks only some of these keys is left alone: it lost them, and
/// the caller's error stands.
fn without_layouts(text: &[u8]) -> Option<Value> {
    let mut stored: Value = serde_json::from_slice(text).ok()?;
    let mut any = false;
    for database in stored.get_mut("databases")?.as_array_mut()? {
        for table in database.get_mut("tables")?.as_array_mut()? {
            let table = table.as_object_mut()?;
            if TABLE_KEYS_SINCE_FORMAT_2.iter().any(|(key, _)| table.contains_key(*key)) {
                continue;
            }
            any = true;
            for (key, value) in TABLE_KEYS_SINCE_FORMAT_2 {
                table.insert(key.to_owned(), serde_json::from_str(value).ok()?);
            }
            for key in table.get_mut("keys")?.as_array_mut()? {
                key.as_object_mut()?.insert("id".to_owned(), Value::from(0));
            }
        }
    }
    any.then_some(stored)
}

/// Adds to an error about an unknown name what to do about it.
fn with_advice(error: serde_json::Error) -> serde_json::Error {
    let text = error.to_string();
    if text.starts_with("unknown ") {
        serde::de::Error::custom(format!("{text}; if a newer release wrote this folder, use that release"))
    } else {
        error
    }
}

/// Keys of a table that format 1 lacks, each with its implied value as JSON.
const TABLE_KEYS_SINCE_FORMAT_2: [(&str, &str); 4] =
    [("partitioning", "null"), ("layout_since", "0"), ("older_layouts", "[]"), ("index_ids_given", "0")];

/// Effect of one statement.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum DdlEffect {
    /// No effect, for this reason.
    NoEffect(&'static str),
    /// The statement concerns an object of this kind, neither table nor row. It is recorded but not executed.
    Recorded(&'static str),
    /// Tables or databases changed, and the catalog's epoch grew by one.
    Changed {
        /// New tables, including those that TRUNCATE creates.
        created: Vec<Arc<TableDef>>,
        /// Ids whose rows are dead.
        dropped: Vec<TableId>,
        /// Tables that keep id and rows but have a new name, other columns or other keys.
        altered: Vec<Arc<TableDef>>,
        /// How stored rows are to be rewritten, in this order. Each reads the rows as they were before the statement.
        rewritten: Vec<Rewrite>,
    },
}

/// Rows that an ALTER TABLE moves into another table, or deletes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rewrite {
    /// The table before the statement.
    pub from: Arc<TableDef>,
    /// The table after the statement.
    pub to: Arc<TableDef>,
    /// Origin of the values of each column of `to`.
    pub sources: Vec<ColumnSource>,
    /// Restricts the rewrite to rows of these partitions of `from`; None for all rows.
    pub only: Option<PartitionChoice>,
    /// True if the rows are deleted from `to`, which is the same table, instead of inserted into it.
    pub removes: bool,
    /// The statement, with secrets masked, truncated to a printable length.
    pub statement: String,
}

/// Result of [`Catalog::apply`].
#[derive(Debug, Clone)]
pub struct DdlOutcome {
    /// The next snapshot, to be used from here on whatever the effect. Its epoch grew only if `effect` is `Changed`.
    pub catalog: Catalog,
    /// Effect of the statement.
    pub effect: DdlEffect,
    /// True for `CREATE TABLE … START TRANSACTION`: row events of the same transaction follow.
    pub rows_follow: bool,
}

/// Databases that the server itself maintains; changes to their tables are not in the log.
const SYSTEM_DATABASES: [&str; 4] = ["mysql", "sys", "information_schema", "performance_schema"];

impl Catalog {
    /// Creates an empty catalog for a source with this `lower_case_table_names`.
    pub fn new(lower_case_table_names: u8) -> Catalog {
        Catalog {
            inner: Arc::new(Inner {
                lower_case_table_names,
                epoch: 0,
                next_table_id: 1,
                databases: BTreeMap::new(),
                by_id: BTreeMap::new(),
                quarantined: BTreeMap::new(),
                definitions: Arc::default(),
            }),
        }
    }

    /// Serialises the whole catalog as JSON, for the store's cut.
    ///
    /// # Errors
    /// Those of `serde_json`; none occurs for a catalog built here.
    pub fn to_json(&self) -> Result<Vec<u8>, serde_json::Error> {
        serde_json::to_vec(&Stored {
            lower_case_table_names: self.inner.lower_case_table_names,
            epoch: self.inner.epoch,
            next_table_id: self.inner.next_table_id,
            definitions: self.definitions().map(|one| Definition::clone(one)).collect(),
            quarantined: self.quarantined().map(|(db, name, why)| (db.into(), name.into(), why.into())).collect(),
            databases: (self.inner.databases.values())
                .map(|database| StoredDatabase {
                    name: database.name.clone(),
                    collation: database.collation,
                    tables: database.tables.values().cloned().collect(),
                    views: database.views.clone(),
                })
                .collect(),
        })
    }

    /// Deserialises what [`Catalog::to_json`] wrote.
    ///
    /// # Errors
    /// If the text is not such a catalog. A name that this program does not know may be a newer one's; what it means is
    /// unknown, so it is refused with advice.
    pub fn from_json(text: &[u8]) -> Result<Catalog, serde_json::Error> {
        let stored: Stored = match serde_json::from_slice(text) {
            Ok(stored) => stored,
            Err(error) => match without_layouts(text) {
                Some(older) => serde_json::from_value(older).map_err(with_advice)?,
                None => return Err(with_advice(error)),
            },
        };
        let mut inner = Inner {
            lower_case_table_names: stored.lower_case_table_names,
            epoch: stored.epoch,
            next_table_id: stored.next_table_id,
            databases: BTreeMap::new(),
            by_id: BTreeMap::new(),
            quarantined: BTreeMap::new(),
            definitions: Arc::default(),
        };
        inner.keep_definitions(stored.definitions);
        for (db, name, why) in stored.quarantined {
            inner.quarantined.insert((db, name), why);
        }
        for database in stored.databases {
            let mut tables = BTreeMap::new();
            for mut table in database.tables {
                // Catalogs written before indexes were stored have no index ids.
                if table.keys.iter().any(|key| key.id == 0) {
                    index_set::give_ids(Arc::make_mut(&mut table));
                }
                inner.by_id.insert(table.id, Arc::clone(&table));
                tables.insert(inner.folded(&table.name), table);
            }
            let key = inner.folded(&database.name);
            let database =
                Database { name: database.name, collation: database.collation, tables, views: database.views };
            inner.databases.insert(key, Arc::new(database));
        }
        Ok(Catalog { inner: Arc::new(inner) })
    }

    /// True if both are the same snapshot. False for equal snapshots built separately.
    pub fn is_same(&self, other: &Catalog) -> bool {
        Arc::ptr_eq(&self.inner, &other.inner)
    }

    /// Id of the next new table.
    pub fn next_table_id(&self) -> TableId {
        TableId(self.inner.next_table_id)
    }

    /// Number of changes since the empty catalog, which has epoch 0.
    pub fn epoch(&self) -> u64 {
        self.inner.epoch
    }

    /// The source's `lower_case_table_names`.
    pub fn lower_case_table_names(&self) -> u8 {
        self.inner.lower_case_table_names
    }

    /// Finds a table by database and name, compared as the source compares them.
    pub fn table(&self, db: &str, name: &str) -> Option<&Arc<TableDef>> {
        self.inner.table(db, name)
    }

    /// [`Catalog::table`] for the bytes in a Table_map event; None if they are not UTF-8.
    pub fn table_bytes(&self, db: &[u8], name: &[u8]) -> Option<&Arc<TableDef>> {
        self.table(std::str::from_utf8(db).ok()?, std::str::from_utf8(name).ok()?)
    }

    /// Finds a table by its id.
    pub fn table_by_id(&self, id: TableId) -> Option<&Arc<TableDef>> {
        self.inner.by_id.get(&id)
    }

    /// All tables, sorted by folded database and table name.
    pub fn tables(&self) -> impl Iterator<Item = &Arc<TableDef>> {
        self.inner.databases.values().flat_map(|database| database.tables.values())
    }

    /// Names of all databases with their default collations, where known.
    pub fn databases(&self) -> impl Iterator<Item = (&str, Option<u16>)> {
        self.inner.databases.values().map(|database| (database.name.as_str(), database.collation))
    }

    /// Foreign keys that reference this table, including its own.
    pub fn children<'a>(
        &'a self,
        db: &'a str,
        name: &'a str,
    ) -> impl Iterator<Item = (&'a Arc<TableDef>, &'a ForeignKey)> {
        let (db, name) = (self.inner.folded(db), self.inner.folded(name));
        self.tables().flat_map(|table| table.foreign_keys.iter().map(move |key| (table, key))).filter(
            move |(_, key)| self.inner.folded(&key.parent_db) == db && self.inner.folded(&key.parent_table) == name,
        )
    }

    /// Reserves an id for a table that is being copied, so that no statement assigns it. None if all ids are used up.
    pub fn reserve_id(&self) -> Option<(Catalog, TableId)> {
        let id = TableId(self.inner.next_table_id);
        let mut inner = Inner::clone(&self.inner);
        inner.next_table_id = id.0.checked_add(1)?;
        Some((Catalog { inner: Arc::new(inner) }, id))
    }

    /// The same catalog with a next id of at least `next`, because lower ids have been assigned.
    #[must_use]
    pub fn with_ids_from(&self, next: TableId) -> Catalog {
        if self.inner.next_table_id >= next.0 {
            return self.clone();
        }
        let mut inner = Inner::clone(&self.inner);
        inner.next_table_id = next.0;
        Catalog { inner: Arc::new(inner) }
    }

    /// The next snapshot, in which a copied table replaces the one of the same name; also returns the id of the
    /// replaced table.
    #[must_use]
    pub fn with_copied(&self, table: &Arc<TableDef>) -> (Catalog, Option<TableId>) {
        let mut inner = Inner::clone(&self.inner);
        inner.epoch += 1;
        let old = inner.table(&table.db, &table.name).map(|old| old.id);
        if let Some(old) = old {
            inner.by_id.remove(&old);
        }
        let key = inner.name_key(&table.db, &table.name);
        inner.quarantined.remove(&key);
        inner.put_table(table);
        (Catalog { inner: Arc::new(inner) }, old)
    }

    /// A catalog of the same source that contains only this table.
    #[must_use]
    pub fn alone(&self, table: &Arc<TableDef>) -> Catalog {
        let mut inner = Inner {
            lower_case_table_names: self.inner.lower_case_table_names,
            epoch: 0,
            next_table_id: table.id.0.saturating_add(1),
            databases: BTreeMap::new(),
            by_id: BTreeMap::new(),
            quarantined: BTreeMap::new(),
            definitions: Arc::default(),
        };
        inner.put_table(table);
        Catalog { inner: Arc::new(inner) }
    }

    /// Applies one statement of the log.
    ///
    /// # Errors
    /// [`DdlError`] if the statement is unsupported, unreadable or contradicts this snapshot. This snapshot remains
    /// valid.
    pub fn apply(&self, context: &StatementContext, sql: &[u8]) -> Result<DdlOutcome, DdlError> {
        let mut outcome = self.try_apply(context, sql).map_err(|problem| problem.with_statement(sql))?;
        if let DdlEffect::Changed { rewritten, .. } = &mut outcome.effect {
            rewritten.iter_mut().for_each(|rewrite| rewrite.statement = crate::mask::printable(sql));
        }
        Ok(outcome)
    }

    fn try_apply(&self, context: &StatementContext, sql: &[u8]) -> Result<DdlOutcome, Problem> {
        let statement = statement::parse(context, sql)?;
        let rows_follow = matches!(&statement, Statement::CreateTable(create) if create.rows_follow);
        let unchanged = |effect| DdlOutcome { catalog: self.clone(), effect, rows_follow: false };
        // Most statements that do not concern tables return here, before anything is copied.
        match statement {
            Statement::NoEffect(reason) => return Ok(unchanged(DdlEffect::NoEffect(reason))),
            Statement::Recorded(kind) => {
                let outcome = unchanged(DdlEffect::Recorded(kind));
                let catalog = self.recorded(context, sql).unwrap_or(outcome.catalog);
                return Ok(DdlOutcome { catalog, ..outcome });
            }
            _ => {}
        }
        let mut change = Change::new(context, &self.inner);
        let effect = match change.carry_out(&statement)? {
            Done::Nothing(effect) => return Ok(unchanged(effect)),
            Done::Views => DdlEffect::Recorded("view"),
            Done::Changed => {
                change.inner.epoch += 1;
                DdlEffect::Changed {
                    created: change.created,
                    dropped: change.dropped,
                    altered: change.altered,
                    rewritten: change.rewritten,
                }
            }
        };
        change.inner.follow(context, sql, &statement);
        Ok(DdlOutcome { catalog: Catalog { inner: Arc::new(change.inner) }, effect, rows_follow })
    }
}

impl Inner {
    /// A name in the form in which this source compares it.
    fn folded(&self, name: &str) -> String {
        if self.lower_case_table_names == 0 { name.to_owned() } else { name.to_lowercase() }
    }

    /// Inserts a table under its name and creates its database if necessary.
    fn put_table(&mut self, table: &Arc<TableDef>) {
        let (db, key) = (self.folded(&table.db), self.folded(&table.name));
        let database = self.databases.entry(db).or_insert_with(|| {
            Arc::new(Database {
                name: table.db.clone(),
                collation: None,
                tables: BTreeMap::new(),
                views: BTreeSet::new(),
            })
        });
        Arc::make_mut(database).tables.insert(key, Arc::clone(table));
        self.by_id.insert(table.id, Arc::clone(table));
    }

    /// A name in the form in which this source stores it.
    fn stored(&self, name: &str) -> String {
        if self.lower_case_table_names == 1 { name.to_lowercase() } else { name.to_owned() }
    }

    fn table(&self, db: &str, name: &str) -> Option<&Arc<TableDef>> {
        if self.lower_case_table_names == 0 {
            return self.databases.get(db)?.tables.get(name);
        }
        self.databases.get(&self.folded(db))?.tables.get(&self.folded(name))
    }
}

/// Whether a statement produced a new snapshot.
enum Done {
    Changed,
    /// Only names of views changed: the epoch stays.
    Views,
    Nothing(DdlEffect),
}

/// The next snapshot while a statement is being executed.
struct Change<'a> {
    inner: Inner,
    context: &'a StatementContext,
    created: Vec<Arc<TableDef>>,
    dropped: Vec<TableId>,
    altered: Vec<Arc<TableDef>>,
    rewritten: Vec<Rewrite>,
}

impl<'a> Change<'a> {
    fn new(context: &'a StatementContext, inner: &Inner) -> Change<'a> {
        Change {
            inner: inner.clone(),
            context,
            created: Vec::new(),
            dropped: Vec::new(),
            altered: Vec::new(),
            rewritten: Vec::new(),
        }
    }

    fn carry_out(&mut self, statement: &Statement) -> Result<Done, Problem> {
        match statement {
            Statement::NoEffect(reason) => Ok(Done::Nothing(DdlEffect::NoEffect(reason))),
            Statement::Recorded(kind) => Ok(Done::Nothing(DdlEffect::Recorded(kind))),
            Statement::Optimize(names) => self.optimize(names),
            Statement::CreateView(name) => self.create_view(name),
            Statement::DropView(names) => self.drop_views(names),
            Statement::CreateTable(create) => self.create_table(create),
            Statement::DropTable { if_exists, names } => self.drop_tables(names, *if_exists),
            Statement::Truncate(name) => self.truncate(name),
            Statement::RenameTable(pairs) => self.rename_tables(pairs),
            Statement::CreateDatabase { name, if_not_exists, options } => {
                self.create_database(name, *if_not_exists, options)
            }
            Statement::AlterDatabase { name, options } => self.alter_database(name.as_deref(), options),
            Statement::DropDatabase { name, if_exists } => self.drop_database(name, *if_exists),
            Statement::AlterTable { name, actions } => self.alter_table(name, actions),
        }
    }

    fn db_of<'n>(&'n self, name: &'n TableName) -> Result<&'n str, Problem> {
        match name.db.as_deref().unwrap_or(&self.context.default_db) {
            "" => Problem::disagrees(format!("table `{}` without a database", name.name)),
            db => Ok(db),
        }
    }

    /// True if filters exclude the rows of the table; it is then not in the catalog.
    fn is_left_out(&self, name: &TableName) -> Result<bool, Problem> {
        Ok(!self.context.names.replicates(self.db_of(name)?, &name.name))
    }

    fn find(&self, name: &TableName) -> Result<Option<Arc<TableDef>>, Problem> {
        Ok(self.inner.table(self.db_of(name)?, &name.name).cloned())
    }

    /// The table, or `Err` with the outcome: tables of the server's own databases are not in the catalog.
    fn expect(&self, name: &TableName) -> Result<Result<Arc<TableDef>, Done>, Problem> {
        let db = self.db_of(name)?;
        match self.inner.table(db, &name.name) {
            Some(table) => Ok(Ok(table.clone())),
            None if is_system(db) => Ok(Err(Done::Nothing(DdlEffect::Recorded("system table")))),
            None => Problem::disagrees(format!("there is no table `{db}`.`{}`", name.name)),
        }
    }

    fn fresh_id(&mut self) -> Result<TableId, Problem> {
        let id = TableId(self.inner.next_table_id);
        match self.inner.next_table_id.checked_add(1) {
            Some(next) => self.inner.next_table_id = next,
            None => return Problem::unsupported("more than 2^32 tables in the life of one catalog"),
        }
        Ok(id)
    }

    fn database_mut(&mut self, db: &str) -> &mut Database {
        let key = self.inner.folded(db);
        let name = self.inner.stored(db);
        let database = self.inner.databases.entry(key).or_insert_with(|| {
            Arc::new(Database { name, collation: None, tables: BTreeMap::new(), views: BTreeSet::new() })
        });
        Arc::make_mut(database)
    }

    fn put(&mut self, table: Arc<TableDef>) {
        let key = self.inner.folded(&table.name);
        self.inner.by_id.insert(table.id, table.clone());
        let db = table.db.clone();
        self.database_mut(&db).tables.insert(key, table);
    }

    fn remove(&mut self, table: &TableDef) {
        let key = self.inner.folded(&table.name);
        self.inner.by_id.remove(&table.id);
        self.database_mut(&table.db).tables.remove(&key);
    }

    fn server_default(&self) -> Collation {
        let id = self.context.collation_server.unwrap_or(charset::UTF8MB4_0900_AI_CI);
        collation_or_default(id)
    }

    fn database_default(&self, db: &str) -> Collation {
        let known = self.inner.databases.get(&self.inner.folded(db)).and_then(|database| database.collation);
        let logged = if same_name(db, &self.context.default_db) { self.context.collation_database } else { None };
        known.or(logged).and_then(charset::by_id).unwrap_or_else(|| self.server_default())
    }

    fn utf8mb4_default(&self) -> Collation {
        collation_or_default(self.context.default_collation_for_utf8mb4.unwrap_or(charset::UTF8MB4_0900_AI_CI))
    }

    fn scoped<T>(&self, db: &str, work: impl FnOnce(&Scope<'_>) -> Result<T, Problem>) -> Result<T, Problem> {
        let parent_key = |parent_db: &str, name: &str| {
            let parent = self.inner.table(parent_db, name)?;
            let key = parent.keys.iter().find(|key| key.primary)?;
            Some(
                key.parts
                    .iter()
                    .filter_map(|part| parent.columns.get(part.column))
                    .map(|column| column.name.clone())
                    .collect(),
            )
        };
        work(&Scope {
            context: self.context,
            db,
            database_default: self.database_default(db),
            utf8mb4_default: self.utf8mb4_default(),
            parent_key: &parent_key,
        })
    }

    fn is_view(&self, name: &TableName) -> Result<bool, Problem> {
        let database = self.inner.databases.get(&self.inner.folded(self.db_of(name)?));
        Ok(database.is_some_and(|database| database.views.contains(&self.inner.folded(&name.name))))
    }

    fn create_view(&mut self, name: &TableName) -> Result<Done, Problem> {
        let db = self.db_of(name)?.to_owned();
        let key = self.inner.folded(&name.name);
        self.database_mut(&db).views.insert(key);
        Ok(Done::Views)
    }

    fn drop_views(&mut self, names: &[TableName]) -> Result<Done, Problem> {
        for name in names {
            let db = self.db_of(name)?.to_owned();
            let key = self.inner.folded(&name.name);
            self.database_mut(&db).views.remove(&key);
        }
        Ok(Done::Views)
    }

    fn create_table(&mut self, create: &CreateTable) -> Result<Done, Problem> {
        if self.find(&create.name)?.is_some() || self.is_view(&create.name)? {
            if create.if_not_exists {
                return Ok(Done::Nothing(DdlEffect::NoEffect("the table is already there")));
            }
            return Problem::disagrees(format!("table `{}` is already there", create.name.name));
        }
        let db = self.inner.stored(self.db_of(&create.name)?);
        let name = self.inner.stored(&create.name.name);
        let id = self.fresh_id()?;
        let table = match &create.body {
            CreateBody::Define(spec) => self.scoped(&db, |scope| define::table(id, &name, spec, scope))?,
            CreateBody::Like(source) => match self.expect(source)? {
                Err(_) => return Problem::unsupported("CREATE TABLE … LIKE a table of the server's own"),
                Ok(source) => like(&source, id, db, name),
            },
        };
        let table = Arc::new(table);
        self.created.push(table.clone());
        self.put(table);
        Ok(Done::Changed)
    }

    fn drop_tables(&mut self, names: &[TableName], if_exists: bool) -> Result<Done, Problem> {
        let mut found = Vec::new();
        for name in names {
            match self.find(name)? {
                Some(table) => found.push(table),
                None if if_exists || is_system(self.db_of(name)?) || self.is_left_out(name)? => {}
                None => return Problem::disagrees(format!("there is no table `{}`", name.name)),
            }
        }
        if found.is_empty() {
            return Ok(Done::Nothing(DdlEffect::NoEffect("no such table")));
        }
        for table in found {
            self.remove(&table);
            self.dropped.push(table.id);
        }
        Ok(Done::Changed)
    }

    fn truncate(&mut self, name: &TableName) -> Result<Done, Problem> {
        let old = match self.expect(name)? {
            Ok(table) => table,
            Err(done) => return Ok(done),
        };
        let fresh = Arc::new(fresh(&old, self.fresh_id()?));
        self.remove(&old);
        self.dropped.push(old.id);
        self.created.push(fresh.clone());
        self.put(fresh);
        Ok(Done::Changed)
    }

    fn rename_tables(&mut self, pairs: &[(TableName, TableName)]) -> Result<Done, Problem> {
        let mut done = Done::Views;
        for (from, to) in pairs {
            if self.is_view(from)? {
                self.drop_views(std::slice::from_ref(from))?;
                self.create_view(to)?;
                continue;
            }
            done = Done::Changed;
            let table = match self.expect(from)? {
                Ok(table) => table,
                Err(_) => return Problem::unsupported("RENAME of a table of the server's own"),
            };
            let renamed = self.renamed(&table, to)?;
            self.replace(&table, renamed);
        }
        Ok(done)
    }

    /// Gives a table its new name and updates the foreign keys that reference it. The swap `a→t, b→a, t→b` works
    /// because each step sees the previous one.
    fn renamed(&mut self, table: &Arc<TableDef>, to: &TableName) -> Result<TableDef, Problem> {
        // An unqualified new name belongs to the session's database, not the table's, in both ALTER TABLE … RENAME and
        // RENAME TABLE.
        let db = self.inner.stored(self.db_of(to)?);
        let name = self.inner.stored(&to.name);
        if let Some(other) = self.inner.table(&db, &name)
            && other.id != table.id
        {
            return Problem::disagrees(format!("table `{db}`.`{name}` is already there"));
        }
        let mut renamed = TableDef::clone(table);
        let old_name = std::mem::replace(&mut renamed.name, name);
        let old_db = std::mem::replace(&mut renamed.db, db);
        define::rename_generated_foreign_names(&mut renamed, &old_name);
        renamed.version = renamed.version.saturating_add(1);
        let (old_db, old_name) = (self.inner.folded(&old_db), self.inner.folded(&old_name));
        let follows = |inner: &Inner, key: &ForeignKey| {
            inner.folded(&key.parent_db) == old_db && inner.folded(&key.parent_table) == old_name
        };
        for key in renamed.foreign_keys.iter_mut().filter(|key| follows(&self.inner, key)) {
            key.parent_db.clone_from(&renamed.db);
            key.parent_table.clone_from(&renamed.name);
        }
        let children: Vec<Arc<TableDef>> = self
            .inner
            .by_id
            .values()
            .filter(|child| child.id != table.id && child.foreign_keys.iter().any(|key| follows(&self.inner, key)))
            .cloned()
            .collect();
        for child in children {
            let mut changed = TableDef::clone(&child);
            for key in changed.foreign_keys.iter_mut().filter(|key| follows(&self.inner, key)) {
                key.parent_db.clone_from(&renamed.db);
                key.parent_table.clone_from(&renamed.name);
            }
            changed.version = changed.version.saturating_add(1);
            self.replace(&child, changed);
        }
        Ok(renamed)
    }

    /// Replaces `old` by `new`, which has the same id, and reports the table as altered once.
    fn replace(&mut self, old: &TableDef, new: TableDef) {
        let new = Arc::new(new);
        self.remove(old);
        self.altered.retain(|table| table.id != new.id);
        self.altered.push(new.clone());
        self.put(new);
    }

    fn create_database(&mut self, name: &str, if_not_exists: bool, options: &CharsetSpec) -> Result<Done, Problem> {
        let known = self.inner.databases.get(&self.inner.folded(name));
        if known.is_some_and(|database| database.collation.is_some()) {
            if if_not_exists {
                return Ok(Done::Nothing(DdlEffect::NoEffect("the database is already there")));
            }
            // Under filters this may be another database of the source that is rewritten to this name, or one whose
            // DROP was filtered out.
            if self.context.names.filters.is_empty() {
                return Problem::disagrees(format!("database `{name}` is already there"));
            }
        }
        let collation = column_type::resolve_charset(options, self.server_default(), self.utf8mb4_default())?;
        self.database_mut(name).collation = Some(collation.id);
        Ok(Done::Changed)
    }

    fn alter_database(&mut self, name: Option<&str>, options: &CharsetSpec) -> Result<Done, Problem> {
        let name = name.unwrap_or(&self.context.default_db).to_owned();
        if name.is_empty() {
            return Problem::disagrees("ALTER DATABASE without a database");
        }
        if *options == CharsetSpec::default() {
            return Ok(Done::Nothing(DdlEffect::NoEffect("no default of the database changes")));
        }
        let collation = column_type::resolve_charset(options, self.server_default(), self.utf8mb4_default())?;
        self.database_mut(&name).collation = Some(collation.id);
        Ok(Done::Changed)
    }

    fn drop_database(&mut self, name: &str, if_exists: bool) -> Result<Done, Problem> {
        let Some(database) = self.inner.databases.remove(&self.inner.folded(name)) else {
            if if_exists {
                return Ok(Done::Nothing(DdlEffect::NoEffect("no such database")));
            }
            return Problem::disagrees(format!("there is no database `{name}`"));
        };
        for table in database.tables.values() {
            self.inner.by_id.remove(&table.id);
            self.dropped.push(table.id);
        }
        Ok(Done::Changed)
    }

    fn alter_table(&mut self, name: &TableName, actions: &[AlterAction]) -> Result<Done, Problem> {
        let old = match self.expect(name)? {
            Ok(table) => table,
            Err(_) => return Problem::unsupported("a change to a table of the server's own"),
        };
        let db = old.db.clone();
        let altered = self.scoped(&db, |scope| alter_effect::alter(&old, actions, scope))?;
        let mut new = altered.table;
        if !altered.renamed_columns.is_empty() {
            self.rename_in_children(&old, &altered.renamed_columns);
        }
        if let Some(to) = &altered.rename_to {
            // The rename also updates the children, so it must start from the table as changed so far.
            new = self.renamed(&Arc::new(new), to)?;
        }
        index_set::renew_changed(&old, &mut new, &altered.revalued);
        if new == *old && matches!(altered.rows, RowsEffect::Unchanged) && altered.partitions.is_none() {
            return Ok(Done::Nothing(DdlEffect::NoEffect("rows and definition stay as they are")));
        }
        new.version = old.version.saturating_add(1);
        if let Some(effect) = altered.partitions {
            return self.change_partitions(&old, new, effect);
        }
        match altered.rows {
            RowsEffect::Unchanged => self.replace(&old, new),
            RowsEffect::ReadAnew(layout) => {
                new.older_layouts.push(layout);
                new.layout_since = new.version;
                self.replace(&old, new);
            }
            RowsEffect::Rewritten(sources) => {
                // A fresh id (invariants 2 and 4), so that no row written under the old definition is read under this
                // one.
                new.id = self.fresh_id()?;
                new.version = 1;
                new.layout_since = 0;
                new.older_layouts.clear();
                let new = Arc::new(new);
                self.remove(&old);
                self.dropped.push(old.id);
                self.created.push(Arc::clone(&new));
                self.rewritten.push(rewrite(&old, &new, sources));
                self.put(new);
            }
        }
        Ok(Done::Changed)
    }

    /// OPTIMIZE TABLE. InnoDB rebuilds the table and its definition, as ALTER TABLE … FORCE does. As long as the table
    /// is not copied, this shows only in the column defaults.
    fn optimize(&mut self, names: &[TableName]) -> Result<Done, Problem> {
        let mut done = Done::Nothing(DdlEffect::NoEffect("OPTIMIZE"));
        for name in names {
            // A missing table was not optimized, but the statement was logged all the same.
            let Some(old) = self.find(name)?.filter(|table| table.engine.eq_ignore_ascii_case("InnoDB")) else {
                continue;
            };
            let mut new = TableDef::clone(&old);
            new.columns.iter_mut().for_each(define::read_default_anew);
            if new != *old {
                new.version = old.version.saturating_add(1);
                self.replace(&old, new);
                done = Done::Changed;
            }
        }
        Ok(done)
    }

    /// Deletes the rows of partitions, or exchanges them with those of another table, which gets a fresh id (invariant
    /// 2).
    fn change_partitions(
        &mut self,
        old: &Arc<TableDef>,
        new: TableDef,
        effect: PartitionsEffect,
    ) -> Result<Done, Problem> {
        if matches!(effect, PartitionsEffect::AllEmptied) {
            let fresh = Arc::new(fresh(&new, self.fresh_id()?));
            self.remove(old);
            self.dropped.push(old.id);
            self.created.push(Arc::clone(&fresh));
            self.put(fresh);
            return Ok(Done::Changed);
        }
        self.replace(old, new);
        let Some(new) = self.inner.by_id.get(&old.id).cloned() else { return Ok(Done::Changed) };
        let kept = |table: &TableDef| (0..table.columns.len()).map(ColumnSource::Kept).collect::<Vec<_>>();
        // The rows before the statement are the input of every rewrite, so an exchange is three of them: the
        // partition's rows go to the fresh table, leave this table, and the other table's rows come in.
        let (only, with) = match effect {
            PartitionsEffect::AllEmptied => (None, None),
            PartitionsEffect::Emptied(choice) => (Some(choice), None),
            PartitionsEffect::Exchanged(choice, with) => (Some(choice), Some(with)),
        };
        if let Some(with) = &with {
            let Some(other) = self.find(with)? else {
                return Problem::disagrees(format!("there is no table `{}`", with.name));
            };
            if other.column_types() != new.column_types() {
                return Problem::unsupported("EXCHANGE PARTITION with a table of other columns");
            }
            let fresh = Arc::new(fresh(&other, self.fresh_id()?));
            self.remove(&other);
            self.dropped.push(other.id);
            self.created.push(Arc::clone(&fresh));
            self.rewritten.push(Rewrite { only: only.clone(), ..rewrite(old, &fresh, kept(old)) });
            self.rewritten.push(Rewrite { only, removes: true, ..rewrite(old, &new, kept(old)) });
            self.rewritten.push(rewrite(&other, &new, kept(old)));
            self.put(fresh);
        } else {
            self.rewritten.push(Rewrite { only, removes: true, ..rewrite(old, &new, kept(old)) });
        }
        Ok(Done::Changed)
    }

    /// Renames this table's columns in the foreign keys of other tables.
    fn rename_in_children(&mut self, parent: &TableDef, renamed: &[(String, String)]) {
        let (db, name) = (self.inner.folded(&parent.db), self.inner.folded(&parent.name));
        let refers = |inner: &Inner, key: &ForeignKey| {
            inner.folded(&key.parent_db) == db && inner.folded(&key.parent_table) == name
        };
        let children: Vec<Arc<TableDef>> = (self.inner.by_id.values())
            .filter(|child| child.id != parent.id && child.foreign_keys.iter().any(|key| refers(&self.inner, key)))
            .cloned()
            .collect();
        for child in children {
            let mut changed = TableDef::clone(&child);
            for key in changed.foreign_keys.iter_mut().filter(|key| refers(&self.inner, key)) {
                alter_effect::rename_parents(&mut key.parent_columns, renamed);
            }
            changed.version = changed.version.saturating_add(1);
            self.replace(&child, changed);
        }
    }
}

/// A rewrite of all rows of one table into another.
fn rewrite(from: &Arc<TableDef>, to: &Arc<TableDef>, sources: Vec<ColumnSource>) -> Rewrite {
    let (from, to) = (Arc::clone(from), Arc::clone(to));
    Rewrite { from, to, sources, only: None, removes: false, statement: String::new() }
}

/// The same table under a new id and without rows.
fn fresh(table: &TableDef, id: TableId) -> TableDef {
    TableDef { id, version: 1, layout_since: 0, older_layouts: Vec::new(), ..table.clone() }
}

/// CREATE TABLE … LIKE: copies columns and keys, but no foreign keys.
fn like(source: &TableDef, id: TableId, db: String, name: String) -> TableDef {
    let mut table = TableDef { db, name, foreign_keys: Vec::new(), ..fresh(source, id) };
    table.keys.iter_mut().for_each(|key| key.generated = false);
    table.columns.iter_mut().for_each(define::read_default_anew);
    table
}

fn collation_or_default(id: u16) -> Collation {
    charset::by_id(id).or_else(|| charset::default_collation("utf8mb4")).unwrap_or(Collation {
        id,
        name: "unknown",
        charset: "utf8mb4",
        mbmaxlen: 4,
    })
}

fn is_system(db: &str) -> bool {
    SYSTEM_DATABASES.iter().any(|system| system.eq_ignore_ascii_case(db))
}
