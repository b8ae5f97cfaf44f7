//! The source's logical clock, which restarts in every file, translated to one that continues.
//!
//! In: the numbers of Gtid events, and where a new file begins. Out: commit parents in the numbers of this log. A
//! parent of 0 means "in an earlier file": the transaction follows everything before this file, and depends on
//! nothing in it. Never here: a parent that belongs to another file than its transaction; a transaction without a
//! clock that others are independent of.

/// last_committed and sequence_number of a Gtid event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SourceStamp {
    /// Parent in the logical clock; 0 if it has none in this file.
    pub last_committed: i64,
    /// Number counted from 1 in each file; 0 if the source keeps no clock.
    pub sequence_number: i64,
}

/// A transaction's place in the translated clock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CommitParent {
    /// Commit parent in the numbers of this log.
    pub parent: u64,
    /// True if MySQL's applier drains its workers here.
    pub drains: bool,
    /// True for the first transaction of a file.
    pub new_file: bool,
    /// True if the source gave it no parent: in an earlier file, or none at all.
    pub undefined: bool,
}

impl CommitParent {
    pub(super) fn known(parent: u64) -> CommitParent {
        CommitParent { parent, drains: false, new_file: false, undefined: false }
    }
}

/// A run of consecutive numbers of the source.
#[derive(Clone, Copy)]
struct Run {
    source: i64,
    own: u64,
    len: u64,
}

/// Limit of runs kept for one file. Every gap starts a run; beyond the limit the older ones count as before the file.
const RUNS_MAX: usize = 4096;

/// Translates the source's numbers.
pub(crate) struct SourceClock {
    /// Runs of the file being read.
    runs: Vec<Run>,
    /// Number of the last transaction before the file, or before the oldest run.
    before: u64,
    /// Last transaction that everything after it must wait for.
    floor: u64,
    /// True if the last transaction had no number.
    unknown: bool,
}

impl SourceClock {
    /// Creates a clock that continues after transaction `start`.
    pub(super) fn new(start: u64) -> SourceClock {
        SourceClock { runs: Vec::new(), before: start, floor: start, unknown: true }
    }

    /// Translates the next transaction, whose own number is `own`.
    pub(super) fn translate(&mut self, own: u64, stamp: Option<SourceStamp>, new_file: bool) -> CommitParent {
        let stamp = stamp.filter(|stamp| stamp.sequence_number > 0);
        let Some(SourceStamp { last_committed, sequence_number }) = stamp else {
            self.floor = own;
            self.unknown = true;
            self.begin_file(own);
            return CommitParent { parent: own - 1, drains: true, new_file, undefined: true };
        };
        let behind_unknown = std::mem::take(&mut self.unknown);
        let last = self.runs.last().map(|run| run.source + run.len as i64 - 1);
        // Numbers that do not increase belong to a new file, whether or not an event announced it.
        let new_file = new_file || last.is_some_and(|last| sequence_number <= last);
        if new_file {
            self.begin_file(own - 1);
        }
        let gap = self.runs.last().is_none_or(|run| run.source + run.len as i64 != sequence_number);
        let sane = (0..sequence_number).contains(&last_committed);
        let parent = if sane { self.find(last_committed) } else { own - 1 };
        match self.runs.last_mut() {
            Some(run) if !gap => run.len += 1,
            _ => self.push(Run { source: sequence_number, own, len: 1 }),
        }
        let drains = new_file || gap || last_committed == 0 || !sane || behind_unknown;
        let undefined = last_committed == 0 || !sane;
        CommitParent { parent: parent.max(self.floor).min(own - 1), drains, new_file, undefined }
    }

    fn begin_file(&mut self, before: u64) {
        self.runs.clear();
        self.before = before;
    }

    fn push(&mut self, run: Run) {
        if self.runs.len() >= RUNS_MAX {
            let older = RUNS_MAX / 2;
            self.before = self.runs.get(older - 1).map_or(self.before, |run| run.own + run.len - 1);
            self.runs.drain(..older);
        }
        self.runs.push(run);
    }

    /// Returns the newest transaction at or below a number of this file; the last one before the file if there is
    /// none.
    fn find(&self, source: i64) -> u64 {
        let at = self.runs.partition_point(|run| run.source <= source);
        let Some(run) = at.checked_sub(1).and_then(|at| self.runs.get(at)) else { return self.before };
        run.own + source.abs_diff(run.source).min(run.len - 1)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stamp(last_committed: i64, sequence_number: i64) -> Option<SourceStamp> {
        Some(SourceStamp { last_committed, sequence_number })
    }

    /// D1: parent 0 for several transactions after a rotation; numbers count from 1 again.
    #[test]
    fn d01_parents_of_a_new_file_are_in_it_or_before_it() {
        let mut clock = SourceClock::new(0);
        assert_eq!(clock.translate(1, stamp(0, 1), true).parent, 0);
        assert_eq!(clock.translate(2, stamp(1, 2), false), CommitParent::known(1));
        assert_eq!(clock.translate(3, stamp(1, 3), false), CommitParent::known(1));
        let first = clock.translate(4, stamp(0, 1), true);
        assert_eq!((first.parent, first.drains, first.new_file), (3, true, true));
        let second = clock.translate(5, stamp(0, 2), false);
        assert_eq!((second.parent, second.drains), (3, true), "not of 4, but of all before the file");
        assert_eq!(clock.translate(6, stamp(1, 3), false), CommitParent::known(4));
        // Numbers that restart at 1 reveal a file that nothing announced.
        assert_eq!(clock.translate(7, stamp(0, 1), false).parent, 6);
        assert_eq!(clock.translate(8, stamp(1, 2), false).parent, 7);
    }

    /// D3: gaps, as left by transactions that are executed already.
    #[test]
    fn d03_a_parent_in_a_gap_is_the_one_before_it() {
        let mut clock = SourceClock::new(10);
        // Begun in the middle of a file (D4).
        assert_eq!(clock.translate(11, stamp(4, 7), false).parent, 10);
        assert_eq!(clock.translate(12, stamp(7, 8), false), CommitParent::known(11));
        let behind = clock.translate(13, stamp(10, 12), false);
        assert_eq!((behind.parent, behind.drains), (12, true));
        assert_eq!(clock.translate(14, stamp(12, 13), false), CommitParent::known(13));
        assert_eq!(clock.translate(15, stamp(7, 14), false), CommitParent::known(11));
    }

    #[test]
    fn a_transaction_without_a_clock_is_between_all_others() {
        let mut clock = SourceClock::new(0);
        clock.translate(1, stamp(0, 1), true);
        for none in [None, stamp(0, 0)] {
            assert_eq!(clock.translate(2, none, false).parent, 1);
        }
        assert_eq!(clock.translate(3, stamp(0, 2), false).parent, 2);
        assert_eq!(clock.translate(4, stamp(0, 3), false).parent, 2);
        // Numbers that contradict themselves.
        assert_eq!(clock.translate(5, stamp(9, 4), false).parent, 4);
    }

    #[test]
    fn many_gaps_are_bounded() {
        let mut clock = SourceClock::new(0);
        for at in 1..3 * RUNS_MAX as u64 {
            let parent = clock.translate(at, stamp(1, 2 * at as i64), false).parent;
            assert!(parent < at);
            assert!(clock.runs.len() <= RUNS_MAX);
        }
    }
}
