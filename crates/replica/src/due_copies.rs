//! Decides when tables in quarantine, and tables that differ from the source's, are copied.
//!
//! In: the time, these tables, how often statements wrote to them, results of copies. Out: the one table
//! whose copy is due. Never here: the copy itself; two copies at a time; a copy between statements that follow each
//! other closely (invariant 19).

use std::collections::BTreeMap;
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
    copying: bool,
    /// By name: the number of consecutive failed copies, and the time of the next one.
    failed: BTreeMap<String, (u32, Instant)>,
    /// By name: tables that statements write to.
    written: BTreeMap<String, Writes>,
}

/// A table that is to be copied.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct DueCopy {
    /// Database and table, quoted.
    pub name: String,
    /// Reason of its quarantine; None: its rows differ from the source's.
    pub why: Option<String>,
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
        DueCopies { next_look: now, copying: false, failed: BTreeMap::new(), written: BTreeMap::new() }
    }

    /// A table whose copy is due, quarantined ones before those of `drifted`. It counts as being copied until `copied`
    /// is called.
    pub(crate) fn look(
        &mut self,
        now: Instant,
        catalog: &Catalog,
        writes: &StatementWrites,
        drifted: &[String],
    ) -> Option<DueCopy> {
        if self.copying || now < self.next_look {
            return None;
        }
        self.next_look = now + LOOK_EVERY;
        let mut found = None;
        for (db, table, why) in catalog.quarantined() {
            let name = format!("`{db}`.`{table}`");
            let quiet = self.is_quiet(now, &name, writes.of(db, table));
            let tried = self.failed.get(&name).is_none_or(|(_, next)| *next <= now);
            if quiet && tried && found.is_none() {
                found = Some(DueCopy { name, why: Some(why.to_owned()) });
            }
        }
        let is_due = |name: &&String| self.failed.get(*name).is_none_or(|(_, next)| *next <= now);
        let found = found.or_else(|| Some(DueCopy { name: drifted.iter().find(is_due)?.clone(), why: None }));
        self.copying = found.is_some();
        found
    }

    /// Records the result of a copy: a failed one is due again after a growing delay.
    pub(crate) fn copied(&mut self, now: Instant, name: &str, copied: bool) {
        self.copying = false;
        if copied {
            self.failed.remove(name);
            if let Some(writes) = self.written.get_mut(name) {
                writes.copies += 1;
            }
            return;
        }
        let failures = self.failed.get(name).map_or(0, |(failures, _)| *failures);
        let pause = COPY_AGAIN_AFTER.get().saturating_mul(1 << failures.min(DOUBLED_MAX));
        self.failed.insert(name.to_owned(), (failures + 1, now + pause));
    }

    fn is_quiet(&mut self, now: Instant, name: &str, count: u64) -> bool {
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

    fn in_quarantine(name: &str) -> Catalog {
        let context = StatementContext { default_db: "d".into(), ..StatementContext::default() };
        let catalog = Catalog::new(0).apply(&context, b"CREATE TABLE other (i INT)").unwrap().catalog;
        catalog.with_quarantined(&("d".into(), name.into()), "why").0
    }

    #[test]
    fn a_table_that_statements_write_to_is_copied_when_they_have_ended() {
        let (catalog, writes) = (in_quarantine("t"), StatementWrites::default());
        let begin = Instant::now();
        let mut due = DueCopies::new(begin);
        let at = |seconds| begin + Duration::from_secs(seconds);
        let wrote = || writes.count(&("d".into(), "t".into()));
        wrote();
        assert!(due.look(at(0), &catalog, &writes, &[]).is_none());
        for second in 1..60 {
            wrote();
            assert!(due.look(at(second * 5), &catalog, &writes, &[]).is_none(), "at {second}");
        }
        assert!(due.look(at(304), &catalog, &writes, &[]).is_none());
        assert_eq!(
            due.look(at(306), &catalog, &writes, &[]),
            Some(DueCopy { name: "`d`.`t`".into(), why: Some("why".into()) })
        );
        assert!(due.look(at(330), &catalog, &writes, &[]).is_none(), "one at a time");
        due.copied(at(331), "`d`.`t`", true);
        // Writes return: the delay is now longer.
        wrote();
        assert!(due.look(at(340), &catalog, &writes, &[]).is_none());
        assert!(due.look(at(355), &catalog, &writes, &[]).is_none());
        assert!(due.look(at(361), &catalog, &writes, &[]).is_some());
    }

    #[test]
    fn a_definition_nobody_knows_is_copied_at_once_and_a_failed_copy_waits() {
        let (catalog, writes) = (in_quarantine("t"), StatementWrites::default());
        let begin = Instant::now();
        let mut due = DueCopies::new(begin);
        for (from, pause) in [(0, 20), (20, 40), (60, 80)] {
            let at = |seconds| begin + Duration::from_secs(seconds);
            assert!(due.look(at(from), &catalog, &writes, &[]).is_some(), "at {from}");
            due.copied(at(from), "`d`.`t`", false);
            assert!(due.look(at(from + pause - 1), &catalog, &writes, &[]).is_none(), "at {from}");
        }
    }
}
