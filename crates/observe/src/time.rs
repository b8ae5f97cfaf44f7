//! Wall-clock times as microseconds since 1970 and in the text form of mysqld's log.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicI64, Ordering};
use std::time::{SystemTime, UNIX_EPOCH};

use rustix::time::{ClockId, clock_gettime};

/// Current time, µs since 1970-01-01 UTC; 0 if the clock is set before that.
#[must_use]
pub fn now_us() -> u64 {
    let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since_epoch.as_micros()).unwrap_or(u64::MAX)
}

/// The source's clock, as last measured. From one measurement to the next it goes by the time since: steps of our own
/// clock do not move it.
#[derive(Debug)]
pub struct SourceClock {
    /// Source clock minus ours, µs.
    difference_us: AtomicI64,
    /// Source clock minus the time since this machine was started, µs.
    since_boot_us: AtomicI64,
}

impl Default for SourceClock {
    /// A source whose clock is ours.
    fn default() -> Self {
        let clock = SourceClock { difference_us: AtomicI64::new(0), since_boot_us: AtomicI64::new(0) };
        clock.set(0);
        clock
    }
}

impl SourceClock {
    /// Takes over a measurement that was just made: source clock minus ours, µs.
    pub fn set(&self, difference_us: i64) {
        self.set_at(difference_us, now_us(), boot_us());
    }

    fn set_at(&self, difference_us: i64, wall_us: u64, boot_us: u64) {
        let source_us = wall_us.saturating_add_signed(difference_us);
        self.difference_us.store(difference_us, Ordering::Relaxed);
        self.since_boot_us.store(source_us.wrapping_sub(boot_us).cast_signed(), Ordering::Relaxed);
    }

    /// Source clock minus ours when it was measured, µs.
    #[must_use]
    pub fn difference_us(&self) -> i64 {
        self.difference_us.load(Ordering::Relaxed)
    }

    /// The source's time, µs since 1970.
    #[must_use]
    pub fn now_us(&self) -> u64 {
        self.at(boot_us())
    }

    fn at(&self, boot_us: u64) -> u64 {
        boot_us.saturating_add_signed(self.since_boot_us.load(Ordering::Relaxed))
    }
}

/// As [`now_us`] when the program first asked, and from then on by the time since: steps of the clock do not
/// enter differences of such times.
#[must_use]
pub fn steady_us() -> u64 {
    static SINCE_BOOT_US: OnceLock<u64> = OnceLock::new();
    boot_us().wrapping_add(*SINCE_BOOT_US.get_or_init(|| now_us().wrapping_sub(boot_us())))
}

/// Time since the machine was started, with the time it slept, in µs.
fn boot_us() -> u64 {
    let time = clock_gettime(ClockId::Boottime);
    time.tv_sec.cast_unsigned() * 1_000_000 + time.tv_nsec.cast_unsigned() / 1000
}

/// Formats a time, µs since 1970, as `2026-11-21T08:00:00.123456Z`. A time beyond the calendar is printed as a number.
#[must_use]
pub fn utc_text(moment_us: u64) -> String {
    let stamp = i64::try_from(moment_us).ok().and_then(|us| jiff::Timestamp::from_microsecond(us).ok());
    match stamp {
        Some(stamp) => stamp.strftime("%Y-%m-%dT%H:%M:%S%.6fZ").to_string(),
        None => format!("{moment_us} us"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_of_our_clock_do_not_move_the_source_s() {
        let clock = SourceClock::default();
        clock.set_at(500, 10_000, 0);
        assert_eq!((clock.at(0), clock.at(7), clock.at(20)), (10_500, 10_507, 10_520));
        // Measured again after a step of ours back by 5,000.
        clock.set_at(5_500, 5_040, 40);
        assert_eq!((clock.difference_us(), clock.at(40), clock.at(50)), (5_500, 10_540, 10_550));
        let before = now_us();
        clock.set(0);
        assert!(clock.now_us() >= before);
    }

    #[test]
    fn text_has_six_digits_always() {
        assert_eq!(utc_text(0), "1970-01-01T00:00:00.000000Z");
        assert_eq!(utc_text(1_795_248_000_123_456), "2026-11-21T08:00:00.123456Z");
        assert_eq!(utc_text(u64::MAX), "18446744073709551615 us");
    }
}
