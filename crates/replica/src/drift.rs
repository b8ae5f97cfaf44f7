//! Tables with rows that contradict the log, and what is done about them.
//!
//! In: the store's list of such rows. Out: which tables they are, by name; a log message for each; whether replay is to
//! be paused. Never here: a row changed; a table taken off the list that nobody copied or accepted.

use base::to_usize;
use catalog::{Catalog, TableDef, TableId};
use store::{Store, TableDrift};

use crate::exit::Failure;
use crate::failure::store_failure;
use crate::log::{self, Code};
use crate::moved::{Moves, VERIFY_THEN_COPY};

/// What to do when a table differs from the source's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum OnDrift {
    /// Copy the table again while replay continues.
    #[default]
    Copy,
    /// Pause replay until the operator copies the table or accepts the difference.
    Stop,
}

/// A table with rows that contradict the log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DriftedTable {
    /// Name, quoted: `` `db`.`table` ``.
    pub name: String,
    /// Number of such rows that were found.
    pub rows: u64,
    /// Some of them, with what is wrong with each.
    pub shown: Vec<String>,
    /// Id of the table.
    pub(crate) id: u32,
}

impl std::fmt::Display for DriftedTable {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}: {} of the rows that the log changed", observe::one_line(&self.name), self.rows)?;
        write!(f, " differ from the source, the first found at {}", self.shown.first().map_or("", String::as_str))
    }
}

/// The drifted tables of a store that the catalog still has.
#[must_use]
pub(crate) fn drifted(store: &Store, catalog: &Catalog) -> Vec<DriftedTable> {
    let Some(disk) = store.disk() else { return Vec::new() };
    let named = |drift: TableDrift| {
        let table = catalog.table_by_id(TableId(drift.table))?;
        let shown = drift.rows.iter().map(|row| row.shown(table)).collect();
        let rows = drift.rows.len() as u64 + drift.more;
        Some(DriftedTable { name: table.full_name(), rows, shown, id: drift.table })
    };
    disk.drift().into_iter().filter_map(named).collect()
}

/// What was said of the list so far.
#[derive(Debug, Default)]
pub(crate) struct DriftWatch {
    /// State of the list that was looked at; None before the first look.
    seen: Option<u64>,
    /// Ids of the tables that were on it.
    told: Vec<u32>,
}

impl DriftWatch {
    /// Logs tables that are new on the list. True if there is one.
    pub(crate) fn look(&mut self, store: &Store, catalog: impl FnOnce() -> Catalog, on_drift: OnDrift) -> bool {
        let Some(disk) = store.disk() else { return false };
        let changes = disk.drift_changes();
        if self.seen == Some(changes) {
            return false;
        }
        self.seen = Some(changes);
        let now = drifted(store, &catalog());
        let new: Vec<&DriftedTable> = now.iter().filter(|table| !self.told.contains(&table.id)).collect();
        for table in &new {
            let then = match on_drift {
                OnDrift::Copy => "it is copied again",
                OnDrift::Stop => "replay is paused (--on-drift=stop): slipstream drift says what to do",
            };
            log::write(Code::TableDiffers, "Store", &format!("{table}; {then}"));
        }
        let is_new = !new.is_empty();
        self.told = now.iter().map(|table| table.id).collect();
        is_new
    }
}

/// Takes tables off the list, and those that `moves` marked: the operator accepts them as they are.
///
/// # Errors
/// No such table is on a list, or a list cannot be written.
pub(crate) fn accept(store: &Store, catalog: &Catalog, moves: &Moves, name: &str) -> Result<(), Failure> {
    let lower = catalog.lower_case_table_names();
    let filter = source::TableFilter::parse(&[name]);
    let matches = |def: &TableDef| filter.matches(&def.db, &def.name, lower);
    let is_meant =
        |table: &DriftedTable| catalog.table_by_id(TableId(table.id)).is_some_and(|def| matches(def.as_ref()));
    let all = drifted(store, catalog);
    let meant: Vec<&DriftedTable> = all.iter().filter(|table| is_meant(table)).collect();
    let unmarked = moves.accept(catalog, name == "*.*", matches)?;
    if meant.is_empty() {
        let none = || Failure::error(format!("no difference was found in {name}: slipstream drift lists the tables"));
        return if unmarked > 0 { Ok(()) } else { Err(none()) };
    }
    let disk = store.disk().ok_or_else(|| Failure::error("this replica has no store on disk"))?;
    for table in meant {
        disk.forget_drift(table.id).map_err(|error| store_failure(&error))?;
    }
    Ok(())
}

/// Text for the operator: the tables that differ and some rows of each, and those that are to be verified.
#[must_use]
pub(crate) fn report(tables: &[DriftedTable], to_verify: &[String]) -> String {
    let mut text = String::new();
    for line in to_verify {
        text.push_str(&format!("{}; {VERIFY_THEN_COPY}\n", observe::one_line(line)));
    }
    for table in tables {
        text.push_str(&format!("{}: {} rows\n", table.name, table.rows));
        for row in &table.shown {
            text.push_str(&format!("  {row}\n"));
        }
        let more = table.rows.saturating_sub(table.shown.len() as u64);
        if to_usize(more) > 0 {
            text.push_str(&format!("  and {more} more\n"));
        }
    }
    text
}
