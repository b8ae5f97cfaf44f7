//! A REPEATABLE READ transaction whose plain reads are answered here, from one state, until it does something else.
//!
//! In: plain reads answered here, statements for another server. Out: whether a plain read there sees what one server
//! would have shown: the state of here, or that of the view there, for all reads. Never here: a plain read after the
//! first statement there, which may have written any table by triggers, views and cascades that are not known yet; a
//! doubt that is decided for a read there.

use std::sync::Arc;
use std::time::Duration;

use base::fail_points::is_planted;
use catalog::{Catalog, TableDef};
use sql::table::Plan;
use sql::{Ended, SqlError};
use store::{ReadState, Snapshot};
use syntax::{Classified, StatementKind, TableUse, classify};

use super::Session;
use super::freshness::Needs;
use crate::world::World;

/// Tables that a transaction reads here and are told apart.
const READ_MAX: usize = 1_000;
/// How long it is waited for that replay has passed the view there. Reads here were in time a moment ago; a replica
/// that is later by now will not catch up soon.
const PROVED_WITHIN: Duration = Duration::from_secs(2);

/// What a transaction has read here, and done elsewhere.
#[derive(Debug, Default)]
pub(super) struct Split {
    /// The state that its plain reads here are of, once there was one.
    seen: Option<ReadState>,
    /// Tables that were read here; None: too many.
    read: Option<Vec<(String, String)>>,
    /// It was begun elsewhere too, and nothing more of it is read here.
    is_elsewhere: bool,
    /// All that it reads elsewhere is of the view there, and so is what it has read here.
    holds: bool,
}

/// Whether a plain read elsewhere sees what one server would have shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Proof {
    Holds,
    /// It may not, as far as is known.
    Fails,
    /// It will be known after [`Session::waiting`].
    Waits,
}

/// Tables that are the same in the state of here and in the view there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Unchanged {
    /// All that were read here: what was is of the view there, too.
    ReadHere,
    /// All of the read there: it is of the state of here.
    ReadThere,
    Neither,
}

impl Split {
    /// A plain read here is of this state.
    pub(super) fn sees(&mut self, snapshot: &Snapshot) {
        if self.seen.is_none() {
            self.seen = Some(snapshot.read_state());
            self.read = Some(Vec::new());
        }
    }

    pub(super) fn has_seen(&self) -> bool {
        self.seen.is_some()
    }

    /// A table was read here.
    fn reads(&mut self, db: &str, name: &str) {
        let Some(read) = &mut self.read else { return };
        if read.iter().any(|(own_db, own_name)| own_db == db && own_name == name) {
            return;
        }
        match read.len() {
            READ_MAX => self.read = None,
            _ => read.push((db.to_owned(), name.to_owned())),
        }
    }

    /// Bytes that it holds.
    pub(super) fn bytes(&self) -> usize {
        let names = |(db, name): &(String, String)| size_of::<(String, String)>() + db.len() + name.len();
        self.read.iter().flatten().map(names).sum()
    }

    /// True for a locking read of a name that may be a view's: within one, subqueries lock nothing.
    fn locks_no_table(&self, one: &Classified, schema: Option<&str>) -> bool {
        let Some(seen) = &self.seen else { return false };
        let is_table = |table: &TableUse| table_of(seen.catalog(), table, schema).is_some();
        one.kind == StatementKind::Select && !one.tables.iter().all(is_table)
    }
}

/// The table of a name in ASCII: others are in the client's character set.
fn table_of<'a>(catalog: &'a Catalog, table: &TableUse, schema: Option<&str>) -> Option<&'a Arc<TableDef>> {
    if !table.table.is_ascii() || table.schema.as_ref().is_some_and(|db| !db.is_ascii()) {
        return None;
    }
    let db = match &table.schema {
        Some(db) => std::str::from_utf8(db).ok()?,
        None => schema?,
    };
    catalog.table(db, std::str::from_utf8(&table.table).ok()?)
}

impl Session {
    /// True if plain reads of the open transaction were answered here, and must be of the same view as all others.
    #[must_use]
    pub fn is_split(&self) -> bool {
        self.transaction.split().is_some_and(Split::has_seen)
    }

    /// True if the next plain read would be the first one of a transaction that keeps one state.
    #[must_use]
    pub fn begins_split(&self) -> bool {
        let is_in_one = self.transaction.is_open() || !self.settings.typed().autocommit;
        is_in_one && self.transaction.keeps_one_state(&self.settings) && !self.is_split()
    }

    /// True if it is at another server, too.
    #[must_use]
    pub fn is_split_elsewhere(&self) -> bool {
        self.transaction.split().is_some_and(|split| split.is_elsewhere)
    }

    /// True if newer rows are visible than those that the transaction reads.
    #[must_use]
    pub fn reads_behind(&self, world: &dyn World) -> bool {
        let seen = self.transaction.split().and_then(|split| split.seen.as_ref());
        seen.is_some_and(|seen| world.pin().is_ok_and(|now| now.sequence() != seen.sequence()))
    }

    /// # Errors
    /// 1235 where a plain read of the transaction is another server's: of a table without transactions, of one whose
    /// definition is another one now, or of no rows, which opens the table there and no view.
    pub(super) fn check_view(&self, plan: &Plan, world: &dyn World) -> Result<(), SqlError> {
        let is_in_one = self.transaction.is_open() || !self.settings.typed().autocommit;
        if !self.may_forward() || !is_in_one || !self.transaction.keeps_one_state(&self.settings) {
            return Ok(());
        }
        if !plan.table.engine.eq_ignore_ascii_case("InnoDB") {
            return Err(SqlError::not_supported("a table without transactions in a transaction"));
        }
        if !self.is_split() && (plan.never || plan.rows_max == 0) {
            return Err(SqlError::not_supported("a read of no rows in a transaction"));
        }
        let is_now = |now: Arc<Snapshot>| {
            now.catalog().table(&plan.table.db, &plan.table.name).is_some_and(|now| Arc::ptr_eq(now, &plan.table))
        };
        if self.is_split() && !world.pin().is_ok_and(is_now) {
            return Err(SqlError::not_supported("a table that was changed by a definition since"));
        }
        Ok(())
    }

    /// A plain read of the transaction is answered here.
    pub(super) fn reads_table(&mut self, plan: &Plan) {
        let (db, name) = (&plan.table.db, &plan.table.name);
        if let Some(split) = self.transaction.split_mut().filter(|split| split.has_seen()) {
            split.reads(db, name);
        }
    }

    /// A statement of the transaction is another server's. `sql`: its text, if that is known; `reads`: it may see the
    /// view there. Returns whether it may see the view after all.
    pub fn goes_elsewhere(&mut self, sql: Option<&[u8]>, reads: bool) -> bool {
        if !self.is_split() {
            return false;
        }
        let statements = sql.map(|sql| classify(sql, self.text_settings()));
        let schema = self.schema_name();
        let Some(split) = self.transaction.split_mut() else { return false };
        split.is_elsewhere = true;
        reads || statements.iter().flatten().any(|one| split.locks_no_table(one, schema.as_deref()))
    }

    /// A statement there has ended the transaction.
    pub fn ended_elsewhere(&mut self) {
        self.transaction.forget_view();
    }

    /// Whether a plain read there, which is the next statement, sees what one server would have shown. The view there
    /// was opened before. `sql`: its text, if it is one SELECT of the tables that it names.
    pub fn proves(&mut self, sql: Option<&[u8]>, world: &dyn World) -> Proof {
        let proof = self.proof(sql, world);
        if proof != Proof::Waits {
            self.statement_ends();
        }
        proof
    }

    fn proof(&mut self, sql: Option<&[u8]>, world: &dyn World) -> Proof {
        if is_planted("skipped_table_check") || self.transaction.split().is_none_or(|split| split.holds) {
            return Proof::Holds;
        }
        let tables = sql.and_then(|sql| self.tables_read(sql));
        if self.place.needs.is_none() && self.unchanged(tables.as_deref(), world) == Unchanged::Neither {
            return Proof::Fails;
        }
        let needs = self.place.needs.take().unwrap_or_else(|| Needs::of_now(world.now(), PROVED_WITHIN));
        // All that the source had when the view there was open must have been replayed, so that its changes are known.
        match self.looks(needs, world) {
            Ok(false) => return Proof::Waits,
            Ok(true) => {}
            Err(_) => return Proof::Fails,
        }
        match self.unchanged(tables.as_deref(), world) {
            Unchanged::Neither => Proof::Fails,
            Unchanged::ReadThere => Proof::Holds,
            Unchanged::ReadHere => {
                // Nothing more is read here.
                if let Some(split) = self.transaction.split_mut() {
                    split.holds = true;
                }
                Proof::Holds
            }
        }
    }

    /// The wait that [`proves`](Self::proves) asked for has ended.
    pub fn proof_waited(&mut self, ended: Ended) {
        self.suspended = None;
        if let Some(needs) = &mut self.place.needs {
            needs.ended(ended);
        }
    }

    /// The tables of a SELECT; None if there may be others.
    fn tables_read(&self, sql: &[u8]) -> Option<Vec<(String, String)>> {
        let [one] = &classify(sql, self.text_settings())[..] else { return None };
        if one.kind != StatementKind::Select || !one.inexact.is_empty() || !one.unknown_functions.is_empty() {
            return None;
        }
        // Others are in the client's character set.
        let text = |bytes: &[u8]| if bytes.is_ascii() { String::from_utf8(bytes.to_vec()).ok() } else { None };
        let name = |table: &TableUse| {
            let db = table.schema.as_deref().map_or_else(|| self.schema_name(), text);
            Some((db?, text(&table.table)?))
        };
        one.tables.iter().map(name).collect()
    }

    /// Which tables are the same in the state of here and the view there, as far as is known by now.
    fn unchanged(&self, tables: Option<&[(String, String)]>, world: &dyn World) -> Unchanged {
        let (Some(split), Ok(now)) = (self.transaction.split(), world.pin()) else { return Unchanged::Neither };
        let Some(seen) = &split.seen else { return Unchanged::Neither };
        let is_same = |all: &[(String, String)]| !all.iter().any(|(db, name)| now.may_have_changed(seen, db, name));
        match split.read.as_deref().is_some_and(is_same) {
            true => Unchanged::ReadHere,
            false if tables.is_some_and(is_same) => Unchanged::ReadThere,
            false => Unchanged::Neither,
        }
    }

    /// The transaction was in conflict: it is rolled back, there too.
    pub fn gives_up_transaction(&mut self) {
        self.transaction.conflicts();
    }
}

/// 1213, as of a deadlock, after which clients run the transaction again.
#[must_use]
pub fn conflict() -> SqlError {
    let text = "Deadlock found when trying to get lock; try restarting transaction (Slipstream: what it has read at \
                the replica was changed before the source's view)";
    SqlError::new(1213, "40001", text)
}

#[cfg(test)]
mod tests;
