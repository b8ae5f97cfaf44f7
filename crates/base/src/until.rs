//! Where replay stops by itself: START REPLICA UNTIL.
//!
//! In: a GTID set, then each transaction in log order. Out: whether replay stops before it. Never here: a wait.

use crate::{Gtid, GtidSet};

/// A condition of START REPLICA UNTIL, with MySQL's meaning.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum UntilGtids {
    /// SQL_BEFORE_GTIDS: up to the first transaction of the set. Met from the start if one of them is executed.
    Before(GtidSet),
    /// SQL_AFTER_GTIDS: until all transactions of the set are executed. Met from the start if they are.
    After(GtidSet),
}

impl UntilGtids {
    /// The condition's name, as SHOW REPLICA STATUS has it.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            UntilGtids::Before(_) => "SQL_BEFORE_GTIDS",
            UntilGtids::After(_) => "SQL_AFTER_GTIDS",
        }
    }

    #[must_use]
    pub fn set(&self) -> &GtidSet {
        match self {
            UntilGtids::Before(set) | UntilGtids::After(set) => set,
        }
    }

    /// True if replay that has executed this must stop here, before any other transaction.
    #[must_use]
    pub fn is_met_by(&self, executed: &GtidSet) -> bool {
        match self {
            UntilGtids::Before(set) => !set.intersection(executed).is_empty(),
            UntilGtids::After(set) => set.is_subset_of(executed),
        }
    }
}

/// A condition on its way to be met.
#[derive(Clone, Debug)]
pub struct UntilStep {
    condition: UntilGtids,
    /// Of SQL_AFTER_GTIDS, what was not executed at the beginning, what of that has come since, and how many have not.
    missing: GtidSet,
    come: GtidSet,
    left: u64,
    met: bool,
}

impl UntilStep {
    /// Begins where `executed` is executed.
    #[must_use]
    pub fn new(condition: UntilGtids, executed: &GtidSet) -> UntilStep {
        let missing = match &condition {
            UntilGtids::Before(_) => GtidSet::new(),
            UntilGtids::After(set) => set.subtract(executed),
        };
        let (met, left) = (condition.is_met_by(executed), missing.count());
        UntilStep { condition, missing, come: GtidSet::new(), left, met }
    }

    #[must_use]
    pub fn condition(&self) -> &UntilGtids {
        &self.condition
    }

    /// True once nothing more may be executed.
    #[must_use]
    pub fn is_met(&self) -> bool {
        self.met
    }

    /// True if replay stops before this transaction of the log.
    pub fn stops_before(&mut self, gtid: Option<&Gtid>) -> bool {
        if let (UntilGtids::Before(set), Some(gtid)) = (&self.condition, gtid) {
            self.met |= set.contains(gtid);
        }
        self.met
    }

    /// Takes note that this transaction is executed.
    pub fn takes(&mut self, gtid: Option<&Gtid>) {
        if let Some(gtid) = gtid
            && self.missing.contains(gtid)
            // One may come twice.
            && self.come.add(*gtid)
        {
            self.left -= 1;
            self.met |= self.left == 0;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(text: &str) -> GtidSet {
        text.replace('A', "aaaaaaaa-0000-0000-0000-000000000001").parse().unwrap()
    }

    fn gtid(gno: u64) -> Gtid {
        let (uuid, tag, _) = set("A:1").intervals().next().unwrap();
        Gtid { uuid, tag, gno }
    }

    /// Numbers taken of a log of 1 to 9 behind `executed`.
    fn taken(condition: UntilGtids, executed: &str) -> Vec<u64> {
        let executed = set(executed);
        let mut step = UntilStep::new(condition, &executed);
        let mut taken = Vec::new();
        for gtid in (1..10).map(gtid).filter(|gtid| !executed.contains(gtid)) {
            if step.stops_before(Some(&gtid)) {
                break;
            }
            step.takes(Some(&gtid));
            taken.push(gtid.gno);
        }
        taken
    }

    #[test]
    fn stops_where_mysql_stops() {
        let before = |text| UntilGtids::Before(set(text));
        let after = |text| UntilGtids::After(set(text));
        assert_eq!(taken(before("A:4:6"), "A:1"), [2, 3]);
        assert_eq!(taken(after("A:4:6"), "A:1"), [2, 3, 4, 5, 6]);
        // Executed in part.
        assert_eq!(taken(before("A:1:6"), "A:1"), [0; 0]);
        assert_eq!(taken(after("A:1:4"), "A:1-2"), [3, 4]);
        // Executed.
        assert_eq!(taken(before("A:1-2"), "A:1-2"), [0; 0]);
        assert_eq!(taken(after("A:1-2"), "A:1-2"), [0; 0]);
        // Nothing is never before, and always after.
        assert_eq!(taken(before(""), "A:1-7"), [8, 9]);
        assert_eq!(taken(after(""), "A:1-7"), [0; 0]);
        // One that never comes.
        assert_eq!(taken(after("A:5,bbbbbbbb-0000-0000-0000-000000000001:1"), "A:1-7"), [8, 9]);
        // A tag makes another GTID.
        assert_eq!(taken(before("A:tag:3"), "A:1-7"), [8, 9]);
    }

    #[test]
    fn transactions_without_a_gtid_pass_until_it_is_met() {
        let mut step = UntilStep::new(UntilGtids::After(set("A:1")), &GtidSet::new());
        assert!(!step.stops_before(None));
        step.takes(None);
        step.takes(Some(&gtid(1)));
        assert!(step.is_met() && step.stops_before(None));
    }
}
