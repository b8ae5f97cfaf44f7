//! Decides when tables in quarantine, and tables that differ from the source's, are copied.
//!
//! In: the time, these tables, how often statements wrote to them, results of copies. Out: the tables whose copies are
//! due. Never here: the copy itself; more copies at a time than may run; a copy between statements that follow each
//! other closely (invariant 19).

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use base::periods::{COPY_AGAIN_AFTER, QUIET_BEFORE_COPY};
use catalog::Catalog;
use decode::StatementWrites;

/// Interval at which the catalog is searched for quarantined tables.
const LOOK_EVERY: Duration = Duration::from_millis(500);
/// Maximum number of doublings of [`COPY_AGAIN_AFTER`] and [`QUIET_BEFORE_COPY`]: up to some ten minutes.
const DOUBLED_MAX: u32 = 5;

/// The quarantined tables and the results of their copies.
pub(crate) struct DueCopies {
    next_look: Instant,
    /// Names of tables that are being copied.
    copying: BTreeSet<String>,
    /// By name: failed copies.
    failed: BTreeMap<String, Failed>,
    /// By name: tables that statements write to.
    written: BTreeMap<String, Writes>,
}

/// A table that is to be copied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DueCopy {
    /// Database and table, quoted.
    pub name: String,
    /// Tells it from another table of the same name.
    pub which: u64,
    /// Reason of its quarantine; None: its rows differ from the source's.
    pub why: Option<String>,
}

struct Failed {
    which: u64,
    /// Number of consecutive failed copies.
    count: u32,
    /// Time of the next one.
    next: Instant,
}

struct Writes {
    count: u64,
    /// When the last write was seen.
    at: Instant,
    /// Number of copies because of such writes.
    copies: u32,
}

impl DueCopies {
    /// State before the first attempt.
    #[must_use]
    pub(crate) fn new(now: Instant) -> DueCopies {
        DueCopies { next_look: now, copying: BTreeSet::new(), failed: BTreeMap::new(), written: BTreeMap::new() }
    }

    /// Tables whose copies are due, quarantined ones before those of `drifted` (names with what tells each from another
    /// of its name): as many as may begin where `most` may run at once. They count as being copied until `copied` is
    /// called for each.
    pub(crate) fn look(
        &mut self,
        now: Instant,
        catalog: &Catalog,
        writes: &StatementWrites,
        drifted: &[(String, u64)],
        most: usize,
    ) -> Vec<DueCopy> {
        if self.copying.len() >= most || now < self.next_look {
            return Vec::new();
        }
        let mut found = Vec::new();
        for (db, table, why) in catalog.quarantined() {
            let name = format!("`{db}`.`{table}`");
            let quiet = self.is_quiet(now, &name, writes.of(db, table));
            let which = catalog.quarantined_since(db, table).unwrap_or_default();
            if quiet && self.copying.len() < most && self.may_begin(now, &name, which) {
                self.copying.insert(name.clone());
                found.push(DueCopy { name, which, why: Some(why.to_owned()) });
            }
        }
        for (name, which) in drifted {
            if self.copying.len() < most && self.may_begin(now, name, *which) {
                self.copying.insert(name.clone());
                found.push(DueCopy { name: name.clone(), which: *which, why: None });
            }
        }
        if found.is_empty() {
            self.next_look = now + LOOK_EVERY;
        }
        found
    }

    fn may_begin(&self, now: Instant, name: &str, which: u64) -> bool {
        let waits = |failed: &Failed| failed.which == which && failed.next > now;
        !self.copying.contains(name) && !self.failed.get(name).is_some_and(waits)
    }

    /// Records the result of a copy: a failed one is due again after a growing delay.
    pub(crate) fn copied(&mut self, now: Instant, copy: &DueCopy, copied: bool) {
        self.copying.remove(&copy.name);
        if copied {
            self.failed.remove(&copy.name);
            if let Some(writes) = self.written.get_mut(&copy.name) {
                writes.copies += 1;
            }
            return;
        }
        let before = self.failed.get(&copy.name).filter(|failed| failed.which == copy.which);
        let count = before.map_or(0, |failed| failed.count);
        let next = now + COPY_AGAIN_AFTER.get().saturating_mul(1 << count.min(DOUBLED_MAX));
        self.failed.insert(copy.name.clone(), Failed { which: copy.which, count: count + 1, next });
    }

    fn is_quiet(&mut self, now: Instant, name: &str, count: u64) -> bool {
        // Counted from the start again: another table has taken the name.
        if self.written.get(name).is_some_and(|writes| count < writes.count) {
            self.written.remove(name);
        }
        if count == 0 {
            return true;
        }
        let writes = self.written.entry(name.to_owned()).or_insert(Writes { count: 0, at: now, copies: 0 });
        if writes.count != count {
            (writes.count, writes.at) = (count, now);
        }
        now.duration_since(writes.at) >= QUIET_BEFORE_COPY.get().saturating_mul(1 << writes.copies.min(DOUBLED_MAX + 1))
    }
}

#[cfg(test)]
mod tests {
    use catalog::StatementContext;

    use super::*;

    fn context() -> StatementContext {
        StatementContext { default_db: "d".into(), ..StatementContext::default() }
    }

    fn in_quarantine(names: &[&str]) -> Catalog {
        let catalog = Catalog::new(0).apply(&context(), b"CREATE TABLE other (i INT)").unwrap().catalog;
        names.iter().fold(catalog, |catalog, name| catalog.with_quarantined(&("d".into(), (*name).into()), "why").0)
    }

    /// Names of the tables whose copies begin where two may run.
    fn begin(due: &mut DueCopies, now: Instant, catalog: &Catalog, writes: &StatementWrites) -> Vec<DueCopy> {
        due.look(now, catalog, writes, &[], 2)
    }

    #[test]
    fn a_table_that_statements_write_to_is_copied_when_they_have_ended() {
        let (catalog, writes) = (in_quarantine(&["t"]), StatementWrites::default());
        let begun = Instant::now();
        let mut due = DueCopies::new(begun);
        let at = |seconds| begun + Duration::from_secs(seconds);
        let wrote = || writes.count(&("d".into(), "t".into()));
        wrote();
        assert_eq!(begin(&mut due, at(0), &catalog, &writes), []);
        for second in 1..60 {
            wrote();
            assert_eq!(begin(&mut due, at(second * 5), &catalog, &writes), [], "at {second}");
        }
        assert_eq!(begin(&mut due, at(304), &catalog, &writes), []);
        let which = catalog.quarantined_since("d", "t").unwrap();
        let copy = DueCopy { name: "`d`.`t`".into(), which, why: Some("why".into()) };
        assert_eq!(begin(&mut due, at(306), &catalog, &writes), std::slice::from_ref(&copy));
        assert_eq!(begin(&mut due, at(330), &catalog, &writes), [], "it is being copied");
        due.copied(at(331), &copy, true);
        // Writes return: the delay is now longer.
        wrote();
        assert_eq!(begin(&mut due, at(340), &catalog, &writes), []);
        assert_eq!(begin(&mut due, at(355), &catalog, &writes), []);
        assert_eq!(begin(&mut due, at(361), &catalog, &writes).len(), 1);
        due.copied(at(362), &copy, true);
        // Another table of that name has another writer.
        let writes = StatementWrites::default();
        writes.count(&("d".into(), "t".into()));
        assert_eq!(begin(&mut due, at(400), &catalog, &writes), []);
        assert_eq!(begin(&mut due, at(411), &catalog, &writes).len(), 1);
    }

    #[test]
    fn a_definition_nobody_knows_is_copied_at_once_and_a_failed_copy_waits() {
        let (catalog, writes) = (in_quarantine(&["t"]), StatementWrites::default());
        let begun = Instant::now();
        let mut due = DueCopies::new(begun);
        for (from, pause) in [(0, 20), (20, 40), (60, 80)] {
            let at = |seconds| begun + Duration::from_secs(seconds);
            let copies = begin(&mut due, at(from), &catalog, &writes);
            assert_eq!(copies.len(), 1, "at {from}");
            due.copied(at(from), &copies[0], false);
            assert_eq!(begin(&mut due, at(from + pause - 1), &catalog, &writes), [], "at {from}");
        }
    }

    #[test]
    fn a_table_made_again_does_not_wait_for_its_namesake() {
        let (catalog, writes) = (in_quarantine(&["t"]), StatementWrites::default());
        let begun = Instant::now();
        let mut due = DueCopies::new(begun);
        let copies = begin(&mut due, begun, &catalog, &writes);
        due.copied(begun, &copies[0], false);
        let soon = begun + LOOK_EVERY;
        assert_eq!(begin(&mut due, soon, &catalog, &writes), []);
        let catalog::Quarantined::Done(gone, _) = catalog.apply_to_quarantined(&context(), b"DROP TABLE t") else {
            panic!("it is quarantined");
        };
        let again = gone.with_quarantined(&("d".into(), "t".into()), "why").0;
        let copies = begin(&mut due, soon + LOOK_EVERY, &again, &writes);
        assert_eq!(copies.len(), 1);
        // Nor does it count its failures.
        due.copied(soon, &copies[0], false);
        assert_eq!(begin(&mut due, soon + COPY_AGAIN_AFTER.get(), &again, &writes).len(), 1);
        // The same for tables with rows that contradict the log.
        let drifted = |which| vec![("`d`.`u`".to_owned(), which)];
        let mut due = DueCopies::new(begun);
        let copies = due.look(begun, &gone, &writes, &drifted(1), 2);
        due.copied(begun, &copies[0], false);
        assert_eq!(due.look(soon, &gone, &writes, &drifted(1), 2), []);
        assert_eq!(due.look(soon + LOOK_EVERY, &gone, &writes, &drifted(2), 2).len(), 1);
    }

    #[test]
    fn as_many_begin_as_may_run_at_once() {
        let (catalog, writes) = (in_quarantine(&["a", "b", "c", "e", "f"]), StatementWrites::default());
        let begun = Instant::now();
        let mut due = DueCopies::new(begun);
        let copies = due.look(begun, &catalog, &writes, &[("`d`.`g`".into(), 1)], 4);
        let names: Vec<&str> = copies.iter().map(|copy| copy.name.as_str()).collect();
        assert_eq!(names, ["`d`.`a`", "`d`.`b`", "`d`.`c`", "`d`.`e`"]);
        assert_eq!(due.look(begun, &catalog, &writes, &[], 4), []);
        due.copied(begun, &copies[1], false);
        // At once, and not the one that has just failed.
        let next = due.look(begun, &catalog, &writes, &[], 4);
        assert_eq!(next.iter().map(|copy| copy.name.as_str()).collect::<Vec<_>>(), ["`d`.`f`"]);
    }
}
