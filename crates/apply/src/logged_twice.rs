//! Changes that the source logged twice and replay passed over: how many, and in which transactions.
//!
//! In: each such change, from the workers. Out: a count for status, notes for the log. Never here: why one is passed
//! over (decode's `twice`).

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use base::Gtid;
use catalog::TableDef;

/// Notes kept until the log takes them: some seconds of one transaction after another would only repeat the same.
const NOTES_MAX: usize = 16;

/// The changes of one table in one transaction.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TwiceNote {
    pub table: String,
    /// GTID of the transaction, if it has one.
    pub gtid: Option<Gtid>,
    pub rows: u64,
}

impl std::fmt::Display for TwiceNote {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}", self.table)?;
        self.gtid.as_ref().map_or(Ok(()), |gtid| write!(f, ", GTID {gtid}"))
    }
}

#[derive(Debug, Default)]
struct Notes {
    waiting: Vec<TwiceNote>,
    last: Option<TwiceNote>,
    more: u64,
}

/// Counts changes that the source logged twice.
#[derive(Debug, Default)]
pub struct LoggedTwice {
    rows: AtomicU64,
    notes: Mutex<Notes>,
}

impl LoggedTwice {
    fn notes(&self) -> MutexGuard<'_, Notes> {
        self.notes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn note(&self, table: &TableDef, gtid: Option<Gtid>) {
        self.rows.fetch_add(1, Ordering::Relaxed);
        let mut notes = self.notes();
        let note = TwiceNote { table: table.full_name(), gtid, rows: 1 };
        let is_same = |other: &&mut TwiceNote| other.table == note.table && other.gtid == note.gtid;
        if let Some(same) = notes.waiting.iter_mut().find(is_same) {
            same.rows += 1;
        } else if notes.waiting.len() < NOTES_MAX {
            notes.waiting.push(note.clone());
        } else {
            notes.more += 1;
        }
        notes.last = Some(note);
    }

    /// Number of changes since the start.
    #[must_use]
    pub fn rows(&self) -> u64 {
        self.rows.load(Ordering::Relaxed)
    }

    /// Table and GTID of the newest one.
    #[must_use]
    pub fn last(&self) -> Option<TwiceNote> {
        self.notes().last.clone()
    }

    /// Takes the notes for the log, and the number of changes that have none.
    #[must_use]
    pub fn take_notes(&self) -> (Vec<TwiceNote>, u64) {
        let mut notes = self.notes();
        (std::mem::take(&mut notes.waiting), std::mem::take(&mut notes.more))
    }
}
