//! Snapshots of all databases and tables, and the step from one to the next.
//!
//! In: one statement with its context. Out: the next snapshot and the effect. Never here: text (`statement`), types
//! (`column_type`). Snapshots are immutable: `apply` copies the maps of pointers, so a clone costs one reference count,
//! and readers of an older epoch keep their snapshot.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::context::StatementContext;
use crate::engine::EngineRows;
use crate::error::{DdlError, Problem};
use crate::index_set;
use crate::layout::ColumnSource;
use crate::numbering::Numbering;
use crate::partition::PartitionChoice;
use crate::statement;
use crate::stored_objects::{Definition, Definitions};
use crate::syntax::Statement;
use crate::table::{ForeignKey, TableDef, TableId};

mod check;
mod filtered;
mod quarantine;
mod recorded;
mod refiltered;
mod statement_effect;
mod written;

pub use filtered::Filtered;
use quarantine::Waiting;
pub use quarantine::{Found, MISSING, Quarantined};
pub use refiltered::LetIn;
pub use written::Written;

use statement_effect::{Change, Done};

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
    /// Tables whose definition is unknown, by folded database and table name.
    quarantined: BTreeMap<(String, String), Waiting>,
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
    /// The column whose rows get numbers after that, if any.
    pub numbering: Option<Numbering>,
    /// Restricts the rewrite to rows of these partitions of `from`; None for all rows.
    pub only: Option<PartitionChoice>,
    /// Partitions of `to` to which every row must belong: another row comes to lie outside its partition's rule. None if
    /// that needs no check.
    pub within: Option<PartitionChoice>,
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
    /// unknown, so it is refused.
    pub fn from_json(text: &[u8]) -> Result<Catalog, serde_json::Error> {
        let stored: Stored = match serde_json::from_slice(text) {
            Ok(stored) => stored,
            Err(error) => match without_layouts(text) {
                Some(older) => serde_json::from_value(older)?,
                None => return Err(error),
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
            inner.wait((db, name), &why);
        }
        for database in stored.databases {
            let mut tables = BTreeMap::new();
            for mut table in database.tables {
                // Catalogs written before indexes were stored have no index ids.
                if table.keys.iter().any(|key| key.id == 0) {
                    index_set::give_ids(Arc::make_mut(&mut table));
                }
                if table.engine_of().rows == EngineRows::OfMembers && table.merge.is_none() {
                    let why = "an earlier version of this program did not keep which tables it consists of";
                    inner.wait(inner.name_key(&table.db, &table.name), why);
                    continue;
                }
                inner.by_id.insert(table.id, Arc::clone(&table));
                tables.insert(inner.folded(&table.name).into_owned(), table);
            }
            let key = inner.folded(&database.name).into_owned();
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

    /// True if there is a view of this name.
    #[must_use]
    pub fn is_view(&self, db: &str, name: &str) -> bool {
        let database = self.inner.databases.get(self.inner.folded(db).as_ref());
        database.is_some_and(|database| database.views.contains(self.inner.folded(name).as_ref()))
    }

    /// A database as the source names it, with its default collation, where known.
    #[must_use]
    pub fn database(&self, db: &str) -> Option<(&str, Option<u16>)> {
        let database = self.inner.databases.get(self.inner.folded(db).as_ref())?;
        Some((&database.name, database.collation))
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

    /// The next snapshot, in which a copied table replaces the one of the same name; also returns the ids whose rows
    /// are dead.
    #[must_use]
    pub fn with_copied(&self, table: &Arc<TableDef>) -> (Catalog, Vec<TableId>) {
        let mut inner = Inner::clone(&self.inner);
        inner.epoch += 1;
        let mut gone: Vec<TableId> = inner.table(&table.db, &table.name).map(|old| old.id).into_iter().collect();
        for old in &gone {
            inner.by_id.remove(old);
        }
        let key = inner.name_key(&table.db, &table.name);
        if inner.quarantined.remove(&key).is_some() {
            // Rows written through a MERGE table while its members were not known are missing in these.
            let why =
                format!("rows may have been written through {}, whose definition was not known", table.full_name());
            for (db, name) in table.members() {
                if inner.table(&db, &name).is_some() {
                    gone.extend(inner.quarantine(&(db, name), &why));
                }
            }
        }
        inner.put_table(table);
        (Catalog { inner: Arc::new(inner) }, gone)
    }

    /// The same catalog, in which nobody knows the virtual columns of these tables ([`TableDef::virtual_unknown`]).
    #[must_use]
    pub fn with_virtual_unknown(&self, tables: &[(String, String)]) -> Catalog {
        let mut inner = Inner::clone(&self.inner);
        for (db, name) in tables {
            if let Some(table) = self.table(db, name) {
                inner.put_table(&Arc::new(TableDef { virtual_unknown: true, ..TableDef::clone(table) }));
            }
        }
        Catalog { inner: Arc::new(inner) }
    }

    /// A catalog of the same source that contains only this table, and the MERGE tables through which it is written.
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
        let own = inner.name_key(&table.db, &table.name);
        let merges = |other: &&Arc<TableDef>| other.members().any(|(db, name)| inner.name_key(&db, &name) == own);
        let merging: Vec<Arc<TableDef>> = self.tables().filter(merges).cloned().collect();
        merging.iter().for_each(|other| inner.put_table(other));
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
                let catalog = self.recorded(context, sql)?.unwrap_or(outcome.catalog);
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
    fn folded<'a>(&self, name: &'a str) -> Cow<'a, str> {
        if self.lower_case_table_names == 0 { Cow::Borrowed(name) } else { Cow::Owned(name.to_lowercase()) }
    }

    /// Inserts a table under its name and creates its database if necessary.
    fn put_table(&mut self, table: &Arc<TableDef>) {
        let (db, key) = (self.folded(&table.db), self.folded(&table.name));
        let database = self.databases.entry(db.into_owned()).or_insert_with(|| {
            Arc::new(Database {
                name: table.db.clone(),
                collation: None,
                tables: BTreeMap::new(),
                views: BTreeSet::new(),
            })
        });
        Arc::make_mut(database).tables.insert(key.into_owned(), Arc::clone(table));
        self.by_id.insert(table.id, Arc::clone(table));
    }

    /// The database of this name, made if it is not there.
    fn database_mut(&mut self, db: &str) -> &mut Database {
        let (key, name) = (self.folded(db).into_owned(), self.stored(db));
        let database = self.databases.entry(key).or_insert_with(|| {
            Arc::new(Database { name, collation: None, tables: BTreeMap::new(), views: BTreeSet::new() })
        });
        Arc::make_mut(database)
    }

    /// A name in the form in which this source stores it.
    fn stored(&self, name: &str) -> String {
        if self.lower_case_table_names == 1 { name.to_lowercase() } else { name.to_owned() }
    }

    fn table(&self, db: &str, name: &str) -> Option<&Arc<TableDef>> {
        self.databases.get(self.folded(db).as_ref())?.tables.get(self.folded(name).as_ref())
    }
}

fn is_system(db: &str) -> bool {
    SYSTEM_DATABASES.iter().any(|system| system.eq_ignore_ascii_case(db))
}
