//! Counts of statements that changed rows of tables as text (invariant 19).
//!
//! In: the tables of each such statement. Out: counts, so that whoever copies such a table can wait until no more
//! statements come. Never here: a clock.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use catalog::NamedTable;

/// Counts per table. Clones share the counts.
#[derive(Clone, Default)]
pub struct StatementWrites(Arc<Mutex<BTreeMap<NamedTable, u64>>>);

impl StatementWrites {
    /// Returns the number of statements since replay began that wrote to this table. Names must be in their compared
    /// form.
    #[must_use]
    pub fn of(&self, db: &str, name: &str) -> u64 {
        let counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        counts.get(&(db.to_owned(), name.to_owned())).copied().unwrap_or(0)
    }

    /// Forgets tables that are gone: one of the same name that is made later begins at 0.
    pub(crate) fn keep(&self, is_here: impl Fn(&NamedTable) -> bool) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).retain(|table, _| is_here(table));
    }

    pub fn count(&self, table: &NamedTable) {
        *self.0.lock().unwrap_or_else(PoisonError::into_inner).entry(table.clone()).or_default() += 1;
    }
}
