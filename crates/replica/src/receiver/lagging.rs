//! Whether the followed server, one of several, lags after another one (`--max-source-lag`).
//!
//! In: GTID sets that servers have executed, the time. Out: which other one is to be followed, and why. Never here: a
//! connection.

use std::time::{Duration, Instant};

use base::GtidSet;

/// How long it lags before it is left: a pause of a group's flow control, or a large transaction, is no reason.
const FOR: Duration = Duration::from_secs(10);

/// The looks at one followed server.
pub(super) struct Lagging {
    limit: u64,
    since: Option<Instant>,
}

impl Lagging {
    pub(super) fn new(limit: u64) -> Lagging {
        Lagging { limit, since: None }
    }

    /// The place in `others` of the one to follow, and why: the followed one lacks more transactions of any of them
    /// than the limit, for long enough, and that one lacks less than half as many.
    pub(super) fn look(&mut self, own: &GtidSet, others: &[GtidSet], now: Instant) -> Option<(usize, String)> {
        let mut all = own.clone();
        others.iter().for_each(|set| all.union_with(set));
        let lacks = |set: &GtidSet| all.subtract(set).count();
        let behind = lacks(own);
        if behind <= self.limit {
            self.since = None;
            return None;
        }
        let since = *self.since.get_or_insert(now);
        if now.duration_since(since) < FOR {
            return None;
        }
        let (at, less) = others.iter().map(lacks).enumerate().min_by_key(|(_, less)| *less)?;
        let limit = self.limit;
        let text = format!(
            "it lacks {behind} transactions that others have, and the next one {less} (--max-source-lag={limit})"
        );
        (less.saturating_mul(2) < behind).then_some((at, text))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn up_to(last: u64) -> GtidSet {
        format!("3e11fa47-71ca-11e1-9e33-c80aa9429562:1-{last}").parse().unwrap()
    }

    #[test]
    fn it_is_left_once_it_is_far_behind_for_long_and_another_one_is_not() {
        let mut lagging = Lagging::new(100);
        let begin = Instant::now();
        let at = |s: u64| begin + Duration::from_secs(s);
        let mut look =
            |own: u64, others: [u64; 2], s: u64| lagging.look(&up_to(own), &others.map(up_to), at(s)).map(|(at, _)| at);
        assert_eq!(look(1000, [1100, 900], 0), None, "no more than the limit");
        assert_eq!(look(1000, [1101, 900], 1), None);
        assert_eq!(look(1000, [1101, 900], 10), None, "not for long");
        assert_eq!(look(1050, [1101, 900], 11), None, "it has caught up");
        assert_eq!(look(1000, [1101, 900], 12), None, "from then on");
        assert_eq!(look(1000, [1101, 900], 22), Some(0));
        assert_eq!(look(1000, [1010, 1200], 23), Some(1));
        // Nobody has what a third one told of in vain.
        assert_eq!(look(1000, [900, 900], 24), None);
        let mut alone = Lagging::new(0);
        let third = |alone: &mut Lagging, s| alone.look(&up_to(10), &[up_to(20), up_to(25)], at(s)).map(|(at, _)| at);
        assert_eq!((third(&mut alone, 0), third(&mut alone, 10)), (None, Some(1)));
    }
}
