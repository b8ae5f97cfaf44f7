//! Acknowledgements to the source that wait for replicas behind us (`--ack-after-replicas`).
//!
//! In: places of the source's log that wait for an acknowledgement, with what was received up to there. Out: the last
//! of them that enough replicas have acknowledged. Never here: an acknowledgement of what fewer replicas have;
//! receiving that waits for them.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use base::{GtidSet, LogPosition};
use serve::{AckWanted, GrowingLog};

use crate::log::{self, Code};

/// Places that are remembered. With more, the newest one stands for several.
const PENDING_MAX: usize = 1024;
/// How long receiving waits for replicas before it looks for more events.
const WAIT: Duration = Duration::from_millis(5);

pub(crate) struct AfterReplicas {
    log: Arc<GrowingLog>,
    replicas: usize,
    pending: VecDeque<(LogPosition, AckWanted)>,
    /// True once the log says that too few replicas are connected.
    too_few_said: bool,
}

impl AfterReplicas {
    /// For so many replicas; None for 0.
    pub(crate) fn of(log: &Arc<GrowingLog>, replicas: usize) -> Option<AfterReplicas> {
        (replicas > 0).then(|| AfterReplicas::new(log, replicas))
    }

    fn new(log: &Arc<GrowingLog>, replicas: usize) -> AfterReplicas {
        AfterReplicas { log: Arc::clone(log), replicas, pending: VecDeque::new(), too_few_said: false }
    }

    /// True if nothing waits.
    pub(crate) fn is_empty(&self) -> bool {
        self.pending.is_empty()
    }

    /// Forgets what waits: the connection that asked has ended.
    pub(crate) fn clear(&mut self) {
        self.pending.clear();
    }

    /// Takes a place up to which these GTIDs were received, and are synced.
    pub(crate) fn add(&mut self, place: LogPosition, received: GtidSet) {
        if self.pending.len() >= PENDING_MAX {
            self.pending.pop_back();
        }
        self.pending.push_back((place, AckWanted::of(received)));
    }

    /// True if so few replicas are connected that nothing can be acknowledged.
    pub(crate) fn has_too_few(&self) -> bool {
        self.log.acknowledging() < self.replicas
    }

    /// The last place that enough replicas have acknowledged; waits a moment for them if they are connected.
    pub(crate) fn ready(&mut self) -> Option<LogPosition> {
        self.say_whether_enough();
        let mut wait = if self.has_too_few() { Duration::ZERO } else { WAIT };
        let mut found = None;
        while let Some((_, wanted)) = self.pending.front_mut()
            && self.log.wait_acknowledged(wanted, self.replicas, std::mem::take(&mut wait))
        {
            found = self.pending.pop_front().map(|(place, _)| place);
        }
        found
    }

    fn say_whether_enough(&mut self) {
        let too_few = self.has_too_few();
        if self.too_few_said == too_few {
            return;
        }
        self.too_few_said = too_few;
        let connected = self.log.acknowledging();
        match too_few {
            true => {
                let text = format!(
                    "the source waits for an acknowledgement and gets none: {} of the semi-synchronous replicas must have \
                     acknowledged first (--ack-after-replicas), and {connected} are connected",
                    self.replicas
                );
                log::write(Code::AcksStop, "Source", &text);
            }
            false => {
                let text =
                    format!("{connected} semi-synchronous replicas are connected: the source is acknowledged again");
                log::write(Code::AcksGoOn, "Source", &text);
            }
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

    fn place(offset: u64) -> LogPosition {
        LogPosition { file: "source.000001".into(), offset }
    }

    #[test]
    fn places_wait_in_order_and_their_number_is_bounded() {
        let log = GrowingLog::new(Path::new("/none"), 9, Vec::new(), 1, GtidSet::new(), GtidSet::new());
        log.begins("binlog.000001".into(), GtidSet::new());
        // None is needed, so what is served counts at once.
        let mut after = AfterReplicas::new(&log, 0);
        for number in 1..=PENDING_MAX as u64 + 9 {
            after.add(place(number), set(number));
        }
        assert_eq!(after.pending.len(), PENDING_MAX);
        assert_eq!(after.ready(), None);
        log.grows(50, &set(5));
        assert_eq!(after.ready(), Some(place(5)));
        assert_eq!(after.ready(), None);
        log.grows(60, &set(9999));
        assert_eq!(after.ready(), Some(place(PENDING_MAX as u64 + 9)), "the newest one stands for those left out");
        assert!(after.is_empty());
        let mut after = AfterReplicas::new(&log, 1);
        after.add(place(9), set(9));
        assert!(after.has_too_few() && after.ready().is_none() && !after.is_empty());
        after.clear();
        assert!(after.is_empty());
    }
}
