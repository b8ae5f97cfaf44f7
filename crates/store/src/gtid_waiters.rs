//! Who waits for which GTIDs to become visible.
//!
//! In: sets of GTIDs, each with an action; runs of GTIDs as they become visible. Out: the actions whose set is visible as a
//! whole. Never here: a look at a waiter whose last missing GTID did not become visible, however many wait; an action
//! run under a lock.
//!
//! GTIDs of a source become visible in their order, nearly always, and who waits for one mostly waits for all before it
//! too: by the first one that is missing, each transaction would move each of them.

use std::collections::BTreeMap;

use base::{Gtid, GtidSet, Tag, Uuid};

/// Runs once, in the thread that made the set visible.
pub(crate) type Action = Box<dyn FnOnce() + Send>;
type Key = (Uuid, Tag, u64);

/// Waiters by the last GTID that each of them misses.
#[derive(Default)]
pub(crate) struct GtidWaiters {
    by_last_missing: BTreeMap<Key, Vec<Waiter>>,
    /// Where each waiter is.
    keys: BTreeMap<u64, Key>,
    next: u64,
}

struct Waiter {
    id: u64,
    set: GtidSet,
    action: Action,
}

impl GtidWaiters {
    /// Registers a waiter for GTIDs that are not all in `executed`, and returns its number; gives the action back if they
    /// are.
    pub(crate) fn add(&mut self, set: GtidSet, executed: &GtidSet, action: Action) -> Result<u64, Action> {
        let Some(key) = last_missing(&set, executed, None) else { return Err(action) };
        self.next += 1;
        self.insert(key, Waiter { id: self.next, set, action });
        Ok(self.next)
    }

    fn insert(&mut self, key: Key, waiter: Waiter) {
        self.keys.insert(waiter.id, key);
        self.by_last_missing.entry(key).or_default().push(waiter);
    }

    /// Removes a waiter; false if its action was already taken.
    pub(crate) fn cancel(&mut self, id: u64) -> bool {
        let Some(key) = self.keys.remove(&id) else { return false };
        if let Some(waiters) = self.by_last_missing.get_mut(&key) {
            waiters.retain(|waiter| waiter.id != id);
            if waiters.is_empty() {
                self.by_last_missing.remove(&key);
            }
        }
        true
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    /// Adds to `ready` the actions of those who miss nothing more, now that the GTIDs from `first` to number `last` are in
    /// `executed`.
    pub(crate) fn take_ready(&mut self, first: &Gtid, last: u64, executed: &GtidSet, ready: &mut Vec<Action>) {
        let range = (first.uuid, first.tag, first.gno)..=(first.uuid, first.tag, last);
        let met = self.by_last_missing.extract_if(range, |_, _| true);
        let met: Vec<(Key, Waiter)> =
            met.flat_map(|(key, met)| met.into_iter().map(move |waiter| (key, waiter))).collect();
        for (upto, waiter) in met {
            // Nothing after it is missing: what is executed stays so.
            match last_missing(&waiter.set, executed, Some(upto)) {
                Some(key) => self.insert(key, waiter),
                None => {
                    self.keys.remove(&waiter.id);
                    ready.push(waiter.action);
                }
            }
        }
    }
}

fn last_missing(set: &GtidSet, executed: &GtidSet, upto: Option<Key>) -> Option<Key> {
    let upto = upto.map(|(uuid, tag, gno)| Gtid { uuid, tag, gno });
    set.last_missing_in(executed, upto).map(|Gtid { uuid, tag, gno }| (uuid, tag, gno))
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicU64, Ordering};
    use std::sync::{Arc, Mutex};

    use super::*;

    fn set(text: &str) -> GtidSet {
        text.replace('A', "aaaaaaaa-0000-0000-0000-000000000000")
            .replace('B', "bbbbbbbb-0000-0000-0000-000000000000")
            .parse()
            .unwrap()
    }

    #[test]
    fn each_waiter_is_told_once_and_only_when_nothing_is_missing() {
        let mut waiters = GtidWaiters::default();
        let told = Arc::new(Mutex::new(Vec::new()));
        let mut executed = set("A:1-3");
        let sets = ["A:5", "A:4-6", "A:9", "A:4,B:2", "B:1-2", "A:1-2,B:2:7", "A:10-20"];
        for text in sets {
            let told = Arc::clone(&told);
            let action: Action = Box::new(move || told.lock().unwrap().push(text));
            assert!(waiters.add(set(text), &executed, action).is_ok());
        }
        assert!(waiters.add(set("A:2"), &executed, Box::new(|| {})).is_err(), "it is visible");
        let mut see = |waiters: &mut GtidWaiters, text: &str| {
            let runs: Vec<_> = set(text).intervals().collect();
            let mut ready = Vec::new();
            executed.union_with(&set(text));
            for (uuid, tag, run) in runs {
                waiters.take_ready(&Gtid { uuid, tag, gno: run.first }, run.last, &executed, &mut ready);
            }
            ready.into_iter().for_each(|action| action());
            let mut now = std::mem::take(&mut *told.lock().unwrap());
            now.sort_unstable();
            now
        };
        assert_eq!(see(&mut waiters, "A:5"), ["A:5"]);
        assert_eq!(see(&mut waiters, "A:6-8"), [""; 0]);
        assert_eq!(see(&mut waiters, "B:1-2"), ["B:1-2"]);
        assert_eq!(see(&mut waiters, "A:4"), ["A:4,B:2", "A:4-6"]);
        assert_eq!(see(&mut waiters, "A:9-19"), ["A:9"]);
        assert_eq!(see(&mut waiters, "B:7"), ["A:1-2,B:2:7"]);
        assert_eq!(see(&mut waiters, "A:20"), ["A:10-20"]);
        assert!(waiters.is_empty() && waiters.by_last_missing.is_empty());
    }

    #[test]
    fn a_cancelled_waiter_is_not_told() {
        let mut waiters = GtidWaiters::default();
        let told = Arc::new(AtomicU64::new(0));
        let count = |told: &Arc<AtomicU64>| -> Action {
            let told = Arc::clone(told);
            Box::new(move || {
                told.fetch_add(1, Ordering::Relaxed);
            })
        };
        let executed = GtidSet::new();
        let one = waiters.add(set("A:1-2"), &executed, count(&told)).ok().unwrap();
        let other = waiters.add(set("A:1"), &executed, count(&told)).ok().unwrap();
        assert!(waiters.cancel(one) && !waiters.cancel(one));
        let (mut ready, first) = (Vec::new(), set("A:1"));
        let (uuid, tag, run) = first.intervals().next().unwrap();
        waiters.take_ready(&Gtid { uuid, tag, gno: 1 }, run.last, &first, &mut ready);
        ready.into_iter().for_each(|action| action());
        assert_eq!(told.load(Ordering::Relaxed), 1);
        assert!(!waiters.cancel(other) && waiters.is_empty());
    }

    /// The cost of a move does not grow with the number of those who wait for later GTIDs.
    #[test]
    fn those_who_wait_for_later_ones_are_not_looked_at() {
        let mut waiters = GtidWaiters::default();
        let executed = set("A:1");
        for number in 2..1_000 {
            // As who waits for what a source had executed then.
            assert!(waiters.add(set(&format!("A:1-{number}")), &executed, Box::new(|| {})).is_ok());
        }
        let before: Vec<_> = waiters.by_last_missing.values().map(|waiters| waiters.as_ptr()).collect();
        let (mut ready, executed) = (Vec::new(), set("A:1-2"));
        let (uuid, tag, _) = executed.intervals().next().unwrap();
        waiters.take_ready(&Gtid { uuid, tag, gno: 2 }, 2, &executed, &mut ready);
        assert_eq!(ready.len(), 1);
        // They were not taken out and put back.
        let after: Vec<_> = waiters.by_last_missing.values().map(|waiters| waiters.as_ptr()).collect();
        assert_eq!(before[1..], after[..]);
    }
}
