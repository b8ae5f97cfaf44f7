//! Acknowledgements of replicas: how far each one has the log durably, by its own word.
//!
//! In: dumps that are semi-synchronous, their acknowledgements, how far the log is served. Out: whether enough replicas
//! have a set of transactions. Never here: packets; an acknowledgement of what was not sent.
//!
//! A replica that asks for the log again names what it has, and gets none of it: that counts as acknowledged too.

use std::collections::BTreeMap;
use std::sync::PoisonError;
use std::time::{Duration, Instant};

use base::GtidSet;

use crate::served::GrowingLog;

/// A place in the log: number of the file, counted from the first file ever, and offset.
type Place = (u64, u64);

/// Semi-synchronous dumps that are under way.
#[derive(Debug, Default)]
pub(crate) struct Acks {
    dumps: BTreeMap<u64, Acked>,
}

#[derive(Debug)]
struct Acked {
    /// What it had when it asked.
    executed: GtidSet,
    /// How far it acknowledged.
    place: Place,
}

/// Transactions that replicas are to acknowledge.
#[derive(Clone, Debug)]
pub struct AckWanted {
    set: GtidSet,
    /// End of the log once all of them are served.
    place: Option<Place>,
}

impl AckWanted {
    #[must_use]
    pub fn of(set: GtidSet) -> AckWanted {
        AckWanted { set, place: None }
    }

    fn is_met(&mut self, acks: &Acks, executed: &GtidSet, end: Option<Place>, replicas: usize) -> bool {
        if self.place.is_none() && self.set.is_subset_of(executed) {
            self.place = end;
        }
        let Some(place) = self.place else { return false };
        let has = |acked: &&Acked| acked.place >= place || self.set.is_subset_of(&acked.executed);
        acks.dumps.values().filter(has).count() >= replicas
    }
}

impl Acks {
    pub(crate) fn forget(&mut self, dump: u64) -> bool {
        self.dumps.remove(&dump).is_some()
    }
}

impl GrowingLog {
    /// A semi-synchronous dump begins, of a replica that has these transactions.
    pub(crate) fn acks_begin(&self, dump: u64, executed: GtidSet) {
        self.lock().acks.dumps.insert(dump, Acked { executed, place: (0, 0) });
        self.acked.notify_all();
    }

    /// A replica has everything up to an offset of a file. More than it was `sent` counts for nothing.
    pub(crate) fn acknowledge(&self, dump: u64, file: &str, offset: u64, sent: Place) {
        let Some(number) = self.file_named(file) else { return };
        let place = (number, offset);
        if let Some(acked) = self.lock().acks.dumps.get_mut(&dump).filter(|acked| acked.place < place && place <= sent)
        {
            acked.place = place;
        }
        self.acked.notify_all();
    }

    /// Number of replicas that are connected and acknowledge.
    #[must_use]
    pub fn acknowledging(&self) -> usize {
        self.lock().acks.dumps.len()
    }

    /// Waits until so many of the replicas that are connected have acknowledged what is wanted; false on timeout.
    pub fn wait_acknowledged(&self, wanted: &mut AckWanted, replicas: usize, timeout: Duration) -> bool {
        let deadline = Instant::now() + timeout;
        let mut state = self.lock();
        loop {
            if wanted.is_met(&state.acks, state.executed(), state.end(), replicas) {
                return true;
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            state =
                self.acked.wait_timeout(state, left).map_or_else(|e| PoisonError::into_inner(e).0, |(state, _)| state);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::{Tag, Uuid};
    use std::path::Path;

    fn set(last: u64) -> GtidSet {
        let mut set = GtidSet::new();
        set.add_range(Uuid([7; 16]), Tag::EMPTY, 1, last);
        set
    }

    #[test]
    fn enough_replicas_have_it_once_they_said_so() {
        let log = GrowingLog::new(Path::new("/none"), 9, Vec::new(), 1, GtidSet::new(), GtidSet::new());
        log.begins("binlog.000001".into(), GtidSet::new());
        let mut wanted = AckWanted::of(set(2));
        let mut met = |replicas| log.wait_acknowledged(&mut wanted, replicas, Duration::ZERO);
        log.acks_begin(1, GtidSet::new());
        log.acks_begin(2, GtidSet::new());
        log.grows(100, &set(1));
        log.acknowledge(1, "binlog.000001", 100, (1, 100));
        assert!(!met(1), "it is not served yet");
        log.grows(200, &set(2));
        assert!(!met(1), "of its end nothing was said");
        log.grows(300, &set(3));
        log.acknowledge(1, "binlog.000001", 300, (1, 150));
        assert!(!met(1), "more than it was sent");
        log.acknowledge(1, "binlog.000009", 300, (1, 300));
        assert!(!met(1), "a file that is not there");
        log.acknowledge(1, "binlog.000001", 200, (1, 300));
        assert!(met(1) && !met(2));
        // The other one comes again, and has it from its earlier connection.
        assert!(log.lock().acks.forget(2) && log.acknowledging() == 1);
        log.acks_begin(3, set(2));
        assert!(met(2) && !met(3));
        assert!(!log.wait_acknowledged(&mut AckWanted::of(set(3)), 1, Duration::ZERO));
        log.begins("binlog.000002".into(), set(3));
        log.acknowledge(3, "binlog.000002", 4, (2, 4));
        assert!(log.wait_acknowledged(&mut AckWanted::of(set(3)), 1, Duration::ZERO), "a later file");
    }
}
