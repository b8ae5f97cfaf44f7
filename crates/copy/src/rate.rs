//! Limit on bytes per second, shared by all connections.
//!
//! In: bytes read, and the time. Out: how long to pause. Never here: a sleep.

use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

/// How far reading may run ahead of the limit after a pause.
const BURST: Duration = Duration::from_millis(100);

/// Token bucket that stores the time by which everything admitted so far is paid for.
#[derive(Debug)]
pub(crate) struct Rate {
    bytes_per_second: u64,
    /// When everything admitted so far is paid for.
    paid: Mutex<Instant>,
}

impl Rate {
    pub(crate) fn new(bytes_per_second: u64, now: Instant) -> Rate {
        Rate { bytes_per_second: bytes_per_second.max(1), paid: Mutex::new(now) }
    }

    /// How long a thread that has read `bytes` must pause.
    pub(crate) fn pause(&self, bytes: u64, now: Instant) -> Duration {
        let cost = Duration::from_secs_f64(bytes as f64 / self.bytes_per_second as f64);
        let mut paid = self.paid.lock().unwrap_or_else(PoisonError::into_inner);
        let earliest = now.checked_sub(BURST).unwrap_or(now);
        *paid = (*paid).max(earliest) + cost;
        paid.saturating_duration_since(now)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_cost_time() {
        let start = Instant::now();
        let rate = Rate::new(1000, start);
        assert_eq!(rate.pause(500, start), Duration::from_millis(500));
        assert_eq!(rate.pause(500, start), Duration::from_secs(1));
        let later = start + Duration::from_secs(1);
        assert_eq!(rate.pause(100, later), Duration::from_millis(100));
        // A long pause earns no more than the burst.
        let much_later = start + Duration::from_secs(60);
        assert_eq!(rate.pause(100, much_later), Duration::ZERO);
        assert_eq!(rate.pause(1000, much_later), Duration::from_secs(1));
    }
}
