//! What became of clients' statements.
//!
//! In: the end of each statement. Out: counts since the start. Never here: a text of a statement, a lock for one that
//! did not fail.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use session::{Failed, OTHERS};
use sql::Command;

/// Upper bounds of the classes of statements by duration, µs; above the last one there is one more class.
pub const DURATION_BOUNDS_US: [u64; 16] = [
    100, 250, 500, 1_000, 2_500, 5_000, 10_000, 25_000, 50_000, 100_000, 250_000, 500_000, 1_000_000, 2_500_000,
    5_000_000, 10_000_000,
];

/// Constructs that are counted by name; the others together. A name may be a client's word, and each is a time series
/// of who watches.
const CONSTRUCTS_MAX: usize = 64;

/// What became of the statements since the start.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Statements {
    /// Those, and preparations, that ended with an error.
    pub failed: u64,
    /// Those of them that ended with 1235, by construct.
    pub refused: BTreeMap<String, u64>,
    /// Those that ended because their snapshot was too old.
    pub too_old: u64,
    /// All statements by duration: a count for each of [`DURATION_BOUNDS_US`], then those above all.
    pub by_duration: [u64; DURATION_BOUNDS_US.len() + 1],
    /// Sum of their durations, µs.
    pub duration_us: u64,
}

#[derive(Debug)]
pub(crate) struct Tally {
    failed: AtomicU64,
    refused: Mutex<BTreeMap<String, u64>>,
    too_old: AtomicU64,
    by_duration: [AtomicU64; DURATION_BOUNDS_US.len() + 1],
    duration_us: AtomicU64,
    commands: [AtomicU64; Command::ALL.len()],
}

impl Default for Tally {
    fn default() -> Tally {
        Tally {
            failed: AtomicU64::default(),
            refused: Mutex::default(),
            too_old: AtomicU64::default(),
            by_duration: Default::default(),
            duration_us: AtomicU64::default(),
            commands: [const { AtomicU64::new(0) }; Command::ALL.len()],
        }
    }
}

impl Tally {
    pub(crate) fn note_command(&self, command: Command) {
        if let Some(count) = self.commands.get(command as usize) {
            count.fetch_add(1, Relaxed);
        }
    }

    /// Status variables of the commands.
    pub(crate) fn commands(&self) -> impl Iterator<Item = (&'static str, String)> {
        let counted = Command::ALL.iter().zip(&self.commands);
        counted.map(|(command, count)| (command.variable(), count.load(Relaxed).to_string()))
    }

    /// A statement has ended.
    pub(crate) fn note(&self, took: Duration) {
        let took_us = u64::try_from(took.as_micros()).unwrap_or(u64::MAX);
        let class = DURATION_BOUNDS_US.partition_point(|bound| *bound < took_us);
        if let Some(count) = self.by_duration.get(class) {
            count.fetch_add(1, Relaxed);
        }
        self.duration_us.fetch_add(took_us, Relaxed);
    }

    /// A statement or a preparation has failed.
    pub(crate) fn note_failure(&self, failed: Failed) {
        self.failed.fetch_add(1, Relaxed);
        match failed {
            Failed::Refused(construct) => self.note_refused(construct),
            Failed::TooOld => _ = self.too_old.fetch_add(1, Relaxed),
            Failed::Otherwise => {}
        }
    }

    fn note_refused(&self, construct: String) {
        let mut refused = self.refused.lock().unwrap_or_else(PoisonError::into_inner);
        let has_place = refused.len() < CONSTRUCTS_MAX || refused.contains_key(&construct);
        *refused.entry(if has_place { construct } else { OTHERS.to_owned() }).or_default() += 1;
    }

    pub(crate) fn report(&self) -> Statements {
        Statements {
            failed: self.failed.load(Relaxed),
            refused: self.refused.lock().unwrap_or_else(PoisonError::into_inner).clone(),
            too_old: self.too_old.load(Relaxed),
            by_duration: self.by_duration.each_ref().map(|count| count.load(Relaxed)),
            duration_us: self.duration_us.load(Relaxed),
        }
    }
}

#[cfg(test)]
mod tests {
    use sql::SqlError;

    use super::*;

    #[test]
    fn statements_are_counted_by_duration_and_failure() {
        let tally = Tally::default();
        [0, 100, 101, 60_000_000].into_iter().for_each(|us| tally.note(Duration::from_micros(us)));
        tally.note_failure(Failed::of(&SqlError::read_only()));
        tally.note_failure(Failed::of(&sql::passing::snapshot_too_old("it was given up")));
        tally.note_failure(Failed::of(&SqlError::not_supported("GROUP BY")));
        let report = tally.report();
        assert_eq!((report.failed, report.too_old, report.duration_us), (3, 1, 60_000_201));
        assert_eq!(report.refused, BTreeMap::from([("GROUP BY".to_owned(), 1)]));
        assert_eq!((report.by_duration[0], report.by_duration[1], report.by_duration[16]), (2, 1, 1));
    }

    #[test]
    fn names_of_constructs_are_few_and_short() {
        let tally = Tally::default();
        for number in 0..1_000 {
            let error = SqlError::not_supported(&format!("{number}\n{}", "é".repeat(100)));
            tally.note_failure(Failed::of(&error));
        }
        let refused = tally.report().refused;
        assert_eq!(refused.len(), CONSTRUCTS_MAX + 1);
        assert_eq!(refused[OTHERS], 1_000 - CONSTRUCTS_MAX as u64);
        assert!(refused.keys().all(|name| name.chars().count() <= 40 && !name.contains('\n')));
    }
}
