//! When each table was changed last.
//!
//! In: the tables of each piece before anyone sees its rows. Out: whether a table is changed after a transaction. Never
//! here: rows, definitions.

use std::sync::{Mutex, MutexGuard, PoisonError};

use catalog::TableId;

/// Tables that are told apart, by number; those above share the last place. 512 KiB at most.
const TABLES_MAX: usize = 1 << 16;

/// The number of the last transaction that changes each table, perhaps not visible yet.
#[derive(Debug, Default)]
pub struct TableChanges(Mutex<Vec<u64>>);

fn place(table: TableId) -> usize {
    (table.0 as usize).min(TABLES_MAX - 1)
}

impl TableChanges {
    fn lock(&self) -> MutexGuard<'_, Vec<u64>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Transactions up to this number change these tables. To be told before they are visible.
    pub fn note(&self, tables: impl Iterator<Item = TableId>, last: u64) {
        let mut all = self.lock();
        for at in tables.map(place) {
            if all.len() <= at {
                all.resize(at + 1, 0);
            }
            if let Some(number) = all.get_mut(at) {
                *number = last.max(*number);
            }
        }
    }

    /// True if one after this number does.
    pub(crate) fn is_after(&self, table: TableId, number: u64) -> bool {
        self.lock().get(place(table)).is_some_and(|last| *last > number)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tables_beyond_those_told_apart_share_a_place() {
        let changes = TableChanges::default();
        changes.note([TableId(u32::MAX)].into_iter(), 7);
        assert!(changes.is_after(TableId(1 << 20), 6) && !changes.is_after(TableId(1 << 20), 7));
        assert!(!changes.is_after(TableId(3), 0));
    }
}
