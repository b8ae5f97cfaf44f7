//! How long the product waits before it looks or tries again, where a person would notice the wait.
//!
//! In: the fail point `periods=N`, for tests that would wait too. Out: a duration, as shipped or its Nth part. Never
//! here: a limit after which something fails, or what a peer's protocol or clock asks for.

use std::sync::OnceLock;
use std::time::Duration;

use crate::fail_points;

/// A wait of the product.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Period(Duration);

impl Period {
    const fn seconds(seconds: u64) -> Period {
        Period(Duration::from_secs(seconds))
    }

    #[must_use]
    pub fn get(self) -> Duration {
        static PART: OnceLock<u32> = OnceLock::new();
        let part = || fail_points::value("periods").and_then(|part| part.parse().ok());
        self.0 / (*PART.get_or_init(|| part().unwrap_or(1))).max(1)
    }
}

/// After the first failed copy of a table; it doubles with each further failure.
pub const COPY_AGAIN_AFTER: Period = Period::seconds(20);
/// Without a statement that writes to a table in quarantine, before it is copied. It doubles with each copy for that
/// reason, because such a writer usually returns.
pub const QUIET_BEFORE_COPY: Period = Period::seconds(10);
/// Between two questions to the server that a relay keeps files for.
pub const ASK_HELD_SERVERS: Period = Period::seconds(5);
/// Between two looks for transactions that the source does not have.
pub const LOOK_FOR_ERRANT: Period = Period::seconds(10);
/// Between two comparisons of the clocks, with a look whether the source still has what was received.
pub const WATCH_SOURCE: Period = Period::seconds(30);
/// The shortest time after which a source that sends nothing while it is read is silent: longer than a short pause of
/// it or of the network.
pub const SILENT_AFTER: Period = Period::seconds(5);
/// Before a write of the store is tried again that found the disk full. It doubles, up to the longest: not every limit
/// shows in the number of free bytes (quotas, inodes).
pub const WRITE_AGAIN_AFTER: Period = Period::seconds(5);
/// The longest of these.
pub const WRITE_AGAIN_AFTER_MAX: Period = Period::seconds(60);
/// Before an engine is started again that the disk stopped. It doubles, up to the longest.
pub const START_AGAIN_AFTER: Period = Period::seconds(1);
/// The longest of these.
pub const START_AGAIN_AFTER_MAX: Period = Period::seconds(60);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn periods_are_as_shipped_without_the_fail_point() {
        let of = |period: Period| u64::try_from(period.get().as_millis()).unwrap();
        assert_eq!(of(COPY_AGAIN_AFTER), 20_000);
        assert_eq!(of(QUIET_BEFORE_COPY), 10_000);
        assert_eq!(of(ASK_HELD_SERVERS), 5_000);
        assert_eq!((of(LOOK_FOR_ERRANT), of(WATCH_SOURCE), of(SILENT_AFTER)), (10_000, 30_000, 5_000));
        assert_eq!((of(WRITE_AGAIN_AFTER), of(WRITE_AGAIN_AFTER_MAX)), (5_000, 60_000));
        assert_eq!((of(START_AGAIN_AFTER), of(START_AGAIN_AFTER_MAX)), (1_000, 60_000));
    }
}
