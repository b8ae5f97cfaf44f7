//! Wall-clock times as microseconds since 1970 and in the text form of mysqld's log.

use std::time::{SystemTime, UNIX_EPOCH};

/// Current time, µs since 1970-01-01 UTC; 0 if the clock is set before that.
#[must_use]
pub fn now_us() -> u64 {
    let since_epoch = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since_epoch.as_micros()).unwrap_or(u64::MAX)
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
    fn text_has_six_digits_always() {
        assert_eq!(utc_text(0), "1970-01-01T00:00:00.000000Z");
        assert_eq!(utc_text(1_795_248_000_123_456), "2026-11-21T08:00:00.123456Z");
        assert_eq!(utc_text(u64::MAX), "18446744073709551615 us");
    }
}
