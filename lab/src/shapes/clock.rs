//! Logical clocks as a source stamps them: `last_committed` and `sequence_number`.
//!
//! In: the rows a transaction changes, in commit order. Out: its two numbers. The rules are MySQL's: COMMIT_ORDER and
//! WRITESET of rpl_trx_tracking.cc. Numbers count from 1 in each file. Never here: a wall clock.

use std::collections::{HashMap, HashSet};

/// As binlog_transaction_dependency_history_size.
const HISTORY_ROWS: usize = 25_000;
/// Maximum transactions that commit together.
const GROUP: usize = 8;

/// How the source tracks dependencies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub enum Tracking {
    /// Transactions that committed together, up to 8, may run in parallel
    CommitOrder,
    /// Transactions without a common row, as far back as 25,000 rows, may run in parallel
    Writeset,
}

/// A transaction's changes, as far as they affect dependencies.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Touched<'a> {
    /// Rows with a key, by table and number.
    Rows(&'a [(u64, u64)]),
    /// Rows of one table without a key: no writeset, and never in parallel with each other.
    Keyless(u64),
    /// A statement, or more rows than a writeset holds: conflicts with everything.
    All,
}

/// State of a source's logical clock.
#[derive(Debug)]
pub(crate) struct Clock {
    tracking: Tracking,
    number: i64,
    /// The last transaction before the open group.
    group_parent: i64,
    /// Rows and keyless tables that the open group changes; None if nothing may join it.
    group: Option<HashSet<(u64, u64)>>,
    group_len: usize,
    history: HashMap<(u64, u64), i64>,
    history_start: i64,
}

impl Clock {
    pub(crate) fn new(tracking: Tracking) -> Clock {
        Clock {
            tracking,
            number: 0,
            group_parent: 0,
            group: None,
            group_len: 0,
            history: HashMap::new(),
            history_start: 0,
        }
    }

    pub(crate) fn begin_file(&mut self) {
        *self = Clock::new(self.tracking);
    }

    /// Returns `last_committed` and `sequence_number` of the next transaction.
    pub(crate) fn stamp(&mut self, touched: Touched<'_>) -> (i64, i64) {
        let commit_parent = self.join_group(touched);
        self.number += 1;
        if self.tracking == Tracking::CommitOrder {
            return (commit_parent, self.number);
        }
        let Touched::Rows(rows) = touched else {
            self.forget();
            return (commit_parent, self.number);
        };
        let full = self.history.len() + rows.len() > HISTORY_ROWS;
        let mut parent = self.history_start;
        for row in rows {
            if let Some(last) = self.history.get_mut(row) {
                parent = parent.max(std::mem::replace(last, self.number));
            } else if !full {
                self.history.insert(*row, self.number);
            }
        }
        if full {
            self.forget();
        }
        (parent.min(commit_parent), self.number)
    }

    fn forget(&mut self) {
        self.history.clear();
        self.history_start = self.number;
    }

    /// Row locks are held until the commit, so a transaction in conflict with the group was prepared after it.
    fn join_group(&mut self, touched: Touched<'_>) -> i64 {
        let keyless;
        let rows: Option<&[(u64, u64)]> = match touched {
            Touched::Rows(rows) => Some(rows),
            Touched::Keyless(table) => {
                keyless = [(table, u64::MAX)];
                Some(&keyless)
            }
            Touched::All => None,
        };
        let joins = self.group_len < GROUP
            && match (&self.group, rows) {
                (Some(group), Some(rows)) => !rows.iter().any(|row| group.contains(row)),
                _ => false,
            };
        if !joins {
            self.group_parent = self.number;
            self.group = rows.map(|_| HashSet::new());
            self.group_len = 0;
        }
        if let (Some(group), Some(rows)) = (&mut self.group, rows) {
            group.extend(rows);
        }
        self.group_len += 1;
        self.group_parent
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stamps(tracking: Tracking, rows: &[u64]) -> Vec<i64> {
        let mut clock = Clock::new(tracking);
        rows.iter().map(|row| clock.stamp(Touched::Rows(&[(1, *row)])).0).collect()
    }

    #[test]
    fn one_hot_row_is_a_chain() {
        for tracking in [Tracking::CommitOrder, Tracking::Writeset] {
            assert_eq!(stamps(tracking, &[5; 6]), [0, 1, 2, 3, 4, 5]);
        }
    }

    #[test]
    fn rows_apart_wait_for_the_group_or_for_nothing() {
        let rows: Vec<u64> = (0..17).collect();
        let groups = stamps(Tracking::CommitOrder, &rows);
        assert_eq!((groups[7], groups[8], groups[16]), (0, 8, 16));
        assert_eq!(stamps(Tracking::Writeset, &rows), [0; 17]);
    }

    #[test]
    fn a_row_waits_for_its_last_change() {
        assert_eq!(stamps(Tracking::Writeset, &[1, 2, 3, 1, 2, 1]), [0, 0, 0, 1, 2, 4]);
        // Row 1 again ends the first group; row 2 may join the second.
        assert_eq!(stamps(Tracking::CommitOrder, &[1, 2, 3, 1, 2, 1]), [0, 0, 0, 3, 3, 5]);
    }

    #[test]
    fn a_full_history_is_a_barrier_and_so_is_a_statement() {
        let mut clock = Clock::new(Tracking::Writeset);
        let many: Vec<(u64, u64)> = (0..HISTORY_ROWS as u64).map(|row| (1, row)).collect();
        assert_eq!(clock.stamp(Touched::Rows(&many)), (0, 1));
        assert_eq!(clock.stamp(Touched::Rows(&[(1, u64::MAX)])), (0, 2), "the one that fills it does not wait yet");
        assert_eq!(clock.stamp(Touched::Rows(&[(1, 0)])), (2, 3));
        assert_eq!(clock.stamp(Touched::All), (3, 4));
        assert_eq!(clock.stamp(Touched::Rows(&[(1, 7)])), (4, 5));
        assert_eq!(clock.stamp(Touched::Keyless(2)), (4, 6));
        assert_eq!(clock.stamp(Touched::Keyless(2)), (6, 7));
    }
}
