//! Snapshots of all databases and tables, and the step from one to the next.
//!
//! In: one statement with its context. Out: the next snapshot and the effect. Never here: text (`statement`), types
//! (`column_type`); a walk over all tables for a statement. Snapshots are immutable and share what did not change: a
//! clone costs one reference count, a statement what it changes, and readers of an older epoch keep their snapshot.

use std::sync::Arc;

use base::SharedMap;
use base::shared_map::Difference;

use crate::context::StatementContext;
use crate::error::{DdlError, Problem};
use crate::layout::ColumnSource;
use crate::numbering::Numbering;
use crate::partition::PartitionChoice;
use crate::statement;
use crate::stored_objects::Definitions;
use crate::syntax::Statement;
use crate::table::{ForeignKey, TableDef, TableId};

mod check;
mod filtered;
mod quarantine;
mod recorded;
mod refiltered;
mod statement_effect;
mod stored;
mod tables;
mod written;

pub use filtered::Filtered;
use quarantine::Waiting;
pub use quarantine::{Found, MISSING, Quarantined};
pub use refiltered::LetIn;
pub use stored::{CatalogHead, Part};
use tables::{Dependent, FoldedName, Visits};
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
    databases: SharedMap<Arc<str>, Arc<Database>>,
    by_id: SharedMap<TableId, Arc<TableDef>>,
    dependents: SharedMap<Dependent, Arc<TableDef>>,
    /// Tables whose definition is unknown.
    quarantined: SharedMap<FoldedName, Arc<Waiting>>,
    definitions: Definitions,
    visits: Visits,
}

#[derive(Debug, Clone)]
struct Database {
    name: String,
    /// Default collation; `None` if the log never stated it because the database is older than the log.
    collation: Option<u16>,
    /// Keyed by folded name.
    tables: SharedMap<Arc<str>, Arc<TableDef>>,
    /// Folded names of views. Views share the tables' name space and can be renamed like tables.
    views: SharedMap<Arc<str>, ()>,
}

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
        Catalog { inner: Arc::new(Inner::empty(lower_case_table_names)) }
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
        self.inner.is_view(db, name)
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
        let tables = self.inner.databases.values().flat_map(|database| database.tables.values());
        tables.inspect(move |_| self.inner.visits.add(1))
    }

    /// The tables of a database, sorted by folded name.
    pub fn tables_of(&self, db: &str) -> impl Iterator<Item = &Arc<TableDef>> {
        let database = self.inner.databases.get(self.inner.folded(db).as_ref());
        database.into_iter().flat_map(|database| database.tables.values()).inspect(move |_| self.inner.visits.add(1))
    }

    /// Number of tables.
    #[must_use]
    pub fn table_count(&self) -> usize {
        self.inner.by_id.len()
    }

    /// The first table whose id is at least this one.
    #[must_use]
    pub fn first_from(&self, id: TableId) -> Option<&Arc<TableDef>> {
        self.inner.by_id.iter_from(&id).next().map(|(_, table)| table)
    }

    /// The ids under which this snapshot has another definition than an earlier one, or one of the two none, in order.
    /// What the two share costs nothing.
    #[must_use]
    pub fn changes_since<'a>(&'a self, earlier: &'a Catalog) -> Vec<Difference<'a, TableId, Arc<TableDef>>> {
        let changes = self.inner.by_id.differences(&earlier.inner.by_id, Arc::ptr_eq);
        self.inner.visits.add(changes.len());
        changes
    }

    /// How many tables were looked at one by one, in this snapshot and those it was made from. Counted with debug
    /// assertions only, for tests: a statement looks at as many whatever their number.
    #[must_use]
    pub fn visited(&self) -> u64 {
        self.inner.visits.sum()
    }

    /// Names of all databases with their default collations, where known.
    pub fn databases(&self) -> impl Iterator<Item = (&str, Option<u16>)> {
        self.inner.databases.values().map(|database| (database.name.as_str(), database.collation))
    }

    /// Foreign keys that reference this table, including its own.
    pub fn children(&self, db: &str, name: &str) -> impl Iterator<Item = (&Arc<TableDef>, &ForeignKey)> {
        let parent = Arc::new(self.inner.name_key(db, name));
        let children = self.inner.dependents_of(Arc::clone(&parent));
        children.flat_map(move |table| {
            let parent = Arc::clone(&parent);
            let keys = table.foreign_keys.iter().map(move |key| (table, key));
            keys.filter(move |(_, key)| self.inner.name_key(&key.parent_db, &key.parent_table) == *parent)
        })
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
        let mut gone: Vec<TableId> = inner.take_table(&table.db, &table.name).into_iter().collect();
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
        let mut inner = Inner::empty(self.inner.lower_case_table_names);
        inner.next_table_id = table.id.0.saturating_add(1);
        inner.put_table(table);
        let own = inner.name_key(&table.db, &table.name);
        for other in self.inner.dependents_of(Arc::new(own.clone())) {
            if other.members().any(|(db, name)| self.inner.name_key(&db, &name) == own) {
                inner.put_table(other);
            }
        }
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

fn is_system(db: &str) -> bool {
    SYSTEM_DATABASES.iter().any(|system| system.eq_ignore_ascii_case(db))
}
