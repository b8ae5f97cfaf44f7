//! LOCK TABLES, UNLOCK TABLES, FLUSH, and the locking clauses of SELECT, where nobody but replay writes.
//!
//! In: the statements. Out: a state that the session reads until it unlocks, which is what MySQL's locks give a reader:
//! its replica's applier would wait for them. Never here: a wait of replay, but for FLUSH TABLES WITH READ LOCK, which
//! keeps everything as it is for all sessions; a lock on a row.

use std::borrow::Cow;
use std::collections::HashSet;
use std::sync::Arc;
use std::time::Instant;

use sql::table::{TableName, in_text};
use sql::{Flush, FlushOption, LockedTable, Select, SqlError, Statement, Warning};
use store::Snapshot;

use super::Session;
use super::execute::needs;
use crate::world::{ReadLock, World};

/// What the session has locked.
#[derive(Debug, Default)]
pub(super) struct Locks {
    tables: Option<LockedTables>,
    /// FLUSH TABLES WITH READ LOCK.
    all: Option<ReadLock>,
}

struct LockedTables {
    /// Each with the name by which statements must use it.
    names: Vec<(TableName<'static>, String)>,
    /// What they hold: since when, or why it was given up.
    view: Result<(Arc<Snapshot>, Instant), SqlError>,
}

impl std::fmt::Debug for LockedTables {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "LockedTables({:?})", self.names)
    }
}

impl Locks {
    /// Bytes of the names of locked tables.
    pub(super) fn bytes(&self) -> usize {
        let names = self.tables.iter().flat_map(|tables| &tables.names);
        names.map(|one| size_of_val(one) + one.0.schema.len() + one.0.table.len() + one.1.len()).sum()
    }

    /// Schema, table and the name by which statements use it, of locked tables.
    pub(super) fn names(&self) -> Vec<(String, String, String)> {
        let names = self.tables.iter().flat_map(|tables| &tables.names);
        names.map(|(name, alias)| (name.schema.to_string(), name.table.to_string(), alias.clone())).collect()
    }

    /// What locked tables hold; None without some.
    ///
    /// # Errors
    /// It was given up.
    pub(super) fn view(&self) -> Result<Option<Arc<Snapshot>>, SqlError> {
        match self.tables.as_ref().map(|tables| &tables.view) {
            None => Ok(None),
            Some(Ok((snapshot, _))) => Ok(Some(Arc::clone(snapshot))),
            Some(Err(why)) => Err(why.clone()),
        }
    }

    /// Lets go of the snapshot, if it was pinned before this time.
    pub(super) fn give_up(&mut self, pinned_before: Option<Instant>, why: &SqlError) {
        if let Some(LockedTables { view, .. }) = &mut self.tables
            && view.as_ref().is_ok_and(|(_, since)| pinned_before.is_none_or(|before| *since < before))
        {
            *view = Err(why.clone());
        }
    }

    /// A transaction is begun, which unlocks tables.
    pub(super) fn transaction_begins(&mut self) {
        self.tables = None;
    }

    /// A statement reads a table under this name.
    ///
    /// # Errors
    /// 1100: tables are locked, and not this one.
    pub(super) fn check(&self, name: &TableName<'_>, alias: &str) -> Result<(), SqlError> {
        let Some(LockedTables { names, .. }) = &self.tables else { return Ok(()) };
        if names.iter().any(|(locked, under)| locked == name && under == alias) {
            return Ok(());
        }
        Err(SqlError::new(1100, "HY000", format!("Table '{alias}' was not locked with LOCK TABLES")))
    }

    /// FLUSH of tables, of all if none is named.
    ///
    /// # Errors
    /// While tables are locked: 1100 for another one, else 1099.
    fn check_flush(&self, flushed: &[TableName<'_>]) -> Result<(), SqlError> {
        let Some(LockedTables { names, .. }) = &self.tables else { return Ok(()) };
        flushed.iter().try_for_each(|name| self.check(name, &name.table))?;
        let first = flushed.first().or(names.first().map(|(name, _)| name));
        let text = first.map_or("", |name| &*name.table);
        let text = format!("Table '{text}' was locked with a READ lock and can't be updated");
        Err(SqlError::new(1099, "HY000", text))
    }
}

/// True for statements that begin to hold one state, which must be as fresh as the session asks.
pub(super) fn pins(statement: &Statement) -> bool {
    matches!(statement, Statement::LockTables(_) | Statement::Flush(Flush::ReadLock | Flush::TablesWithReadLock(_)))
}

impl Session {
    /// LOCK TABLES.
    ///
    /// # Errors
    /// 1290 for WRITE, 1044 and 1142 without rights, 1046, 1049, 1066 and 1146 for names. Tables locked before are
    /// unlocked then too, as by MySQL.
    pub(super) fn lock_tables(&mut self, tables: &[LockedTable], world: &dyn World) -> Result<(), SqlError> {
        self.differ(tables, world)?;
        self.transaction.end();
        self.locks.tables = None;
        self.locks.tables = Some(self.locked(tables, world)?);
        Ok(())
    }

    /// Checks that no name stands twice, which MySQL does before it unlocks anything.
    fn differ(&self, tables: &[LockedTable], world: &dyn World) -> Result<(), SqlError> {
        let lower = world.pin()?.catalog().lower_case_table_names();
        let mut names = HashSet::with_capacity(tables.len());
        for table in tables {
            let (_, alias) = self.locked_name(table, lower)?;
            if names.contains(&alias) {
                return Err(SqlError::new(1066, "42000", format!("Not unique table/alias: '{alias}'")));
            }
            names.insert(alias);
        }
        Ok(())
    }

    fn locked(&self, tables: &[LockedTable], world: &dyn World) -> Result<LockedTables, SqlError> {
        let snapshot = world.pin()?;
        let catalog = snapshot.catalog();
        let mut names: Vec<(TableName<'static>, String)> = Vec::with_capacity(tables.len());
        for table in tables {
            let (name, alias) = self.locked_name(table, catalog.lower_case_table_names())?;
            if sql::listing::VIRTUAL_SCHEMAS.iter().any(|own| own.eq_ignore_ascii_case(&name.schema)) {
                return Err(match name.schema.eq_ignore_ascii_case("information_schema") {
                    true => self.no_access_to(&name.schema),
                    false => self.may_not("SELECT, LOCK TABLES", &name.table),
                });
            }
            let schema = catalog.database(&name.schema).map(|(schema, _)| schema);
            if !self.may_read().table(schema.unwrap_or(&name.schema), &name.table) {
                return Err(self.no_access_to(&name.schema));
            }
            if table.write {
                return Err(SqlError::read_only());
            }
            sql::table::find(catalog, &name).map_err(|why| why.error(&name))?;
            names.push((name, alias));
        }
        Ok(LockedTables { names, view: Ok((snapshot, world.now())) })
    }

    /// The table, and the name by which statements use it.
    fn locked_name(&self, table: &LockedTable, lower: u8) -> Result<(TableName<'static>, String), SqlError> {
        let name = self.name_of_table(table.schema.as_deref(), &table.table)?.folded(lower);
        let alias = table.alias.as_deref().map_or_else(|| name.table.to_string(), |alias| in_text(alias).into_owned());
        Ok((name, if lower == 1 { alias.to_lowercase() } else { alias }))
    }

    /// Whether locked tables let a SELECT read this one.
    ///
    /// # Errors
    /// 1100
    pub(super) fn may_read_locked(&self, name: &TableName<'_>, select: &Select, lower: u8) -> Result<(), SqlError> {
        let alias = select.from.as_ref().and_then(|from| from.alias.as_deref());
        let Some(alias) = alias else { return self.locks.check(name, &name.table) };
        let alias = in_text(alias);
        self.locks.check(name, &if lower == 1 { Cow::Owned(alias.to_lowercase()) } else { alias })
    }

    /// UNLOCK TABLES; ends the transaction only where LOCK TABLES has locked some, as MySQL does.
    pub(super) fn unlock_tables(&mut self) {
        if self.locks.tables.is_some() {
            self.transaction.end();
        }
        self.locks = Locks::default();
    }

    /// FLUSH.
    ///
    /// # Errors
    /// 1227 without the right `admin`, 1099 and 1192 while tables are locked, those of LOCK TABLES, 1105 where nothing
    /// can be held now.
    pub(super) fn flush(
        &mut self,
        flush: &Flush,
        world: &dyn World,
        warnings: &mut Vec<Warning>,
    ) -> Result<(), SqlError> {
        let admin = self.login.identity.rights.admin;
        let need = |privilege: &str| if admin { Ok(()) } else { Err(needs(privilege)) };
        match flush {
            Flush::Tables(tables) => {
                need("RELOAD or FLUSH_TABLES")?;
                let lower = world.pin().map_or(0, |snapshot| snapshot.catalog().lower_case_table_names());
                let names = tables.iter().map(|table| Ok(self.locked_name(table, lower)?.0));
                self.locks.check_flush(&names.collect::<Result<Vec<_>, SqlError>>()?)?;
                self.transaction.end();
            }
            Flush::TablesWithReadLock(tables) => {
                need("RELOAD or FLUSH_TABLES")?;
                self.has_no_locks()?;
                self.lock_tables(tables, world)?;
            }
            Flush::ReadLock => {
                need("RELOAD or FLUSH_TABLES")?;
                self.has_no_locks()?;
                self.transaction.end();
                if self.locks.all.is_none() {
                    self.locks.all = Some(world.take_read_lock()?);
                }
            }
            Flush::Others(options) => {
                for option in options {
                    need(match option {
                        FlushOption::Logs => "RELOAD",
                        FlushOption::Privileges => "RELOAD or FLUSH_PRIVILEGES",
                        FlushOption::UserResources => "RELOAD or FLUSH_USER_RESOURCES",
                        FlushOption::OptimizerCosts => "RELOAD or FLUSH_OPTIMIZER_COSTS",
                    })?;
                }
                self.transaction.end();
                if options.contains(&FlushOption::Privileges) {
                    let text = "'FLUSH PRIVILEGES' is deprecated and will be removed in a future release.";
                    warnings.push(Warning::new(1681, text));
                }
            }
        }
        Ok(())
    }

    fn has_no_locks(&self) -> Result<(), SqlError> {
        if self.locks.tables.is_none() {
            return Ok(());
        }
        let text = "Can't execute the given command because you have active locked tables or an active transaction";
        Err(SqlError::new(1192, "HY000", text))
    }

    /// The locking clauses of a SELECT from a table of this name, or from none.
    ///
    /// # Errors
    /// 3568 and 3569 for names; for FOR UPDATE 1792 in a transaction that is READ ONLY, else 1290.
    pub(super) fn check_locking(&self, select: &Select) -> Result<(), SqlError> {
        let from = select.from.as_ref();
        let own = from.map(|from| in_text(from.alias.as_deref().unwrap_or(&from.table)));
        let mut locked = false;
        for clause in &select.locking {
            let Some(own) = &own else {
                let Some((_, name)) = clause.of.first() else { continue };
                return Err(unresolved(&in_text(name)));
            };
            if clause.of.is_empty() && std::mem::replace(&mut locked, true) {
                let text = format!("Table {own} appears in multiple locking clauses.");
                return Err(SqlError::new(3569, "HY000", text));
            }
            for (_, name) in &clause.of {
                let name = in_text(name);
                if name != *own {
                    return Err(unresolved(&name));
                }
                if std::mem::replace(&mut locked, true) {
                    let text = format!("Table `{name}` appears in multiple locking clauses.");
                    return Err(SqlError::new(3569, "HY000", text));
                }
            }
        }
        if own.is_none() || !select.locking.iter().any(|clause| clause.update) {
            return Ok(());
        }
        if self.transaction.is_read_only() {
            return Err(SqlError::new(1792, "25006", "Cannot execute statement in a READ ONLY transaction."));
        }
        Err(SqlError::read_only())
    }

    /// The locking clauses of a SELECT from a table that is kept nowhere.
    ///
    /// # Errors
    /// 1142 for views and for tables of `performance_schema`.
    pub(super) fn check_locking_of_listing(
        &self,
        select: &Select,
        listing: &sql::listing::Listing,
    ) -> Result<(), SqlError> {
        if select.locking.is_empty() || !(listing.is_view() || listing.name.starts_with("performance_schema.")) {
            return Ok(());
        }
        let table = listing.name.split_once('.').map_or("", |(_, table)| table);
        Err(self.may_not("SELECT with locking clause", table))
    }
}

fn unresolved(name: &str) -> SqlError {
    SqlError::new(3568, "HY000", format!("Unresolved table name `{name}` in locking clause."))
}
