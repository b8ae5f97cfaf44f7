//! Difference between the source's clock and ours.

use std::time::{Instant, SystemTime, UNIX_EPOCH};

use client::{ClientError, Connection, Result};

/// Difference between the source's clock and ours.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ClockDifference {
    /// Source time minus our time, in microseconds.
    pub difference_us: i64,
    /// Round trip of the best measurement in microseconds: the difference is off by at most half of it.
    pub round_trip_us: u64,
}

/// Measures `rounds` times and keeps the fastest answer, because its error is the smallest.
pub fn measure(connection: &mut Connection, rounds: u32) -> Result<ClockDifference> {
    let unexpected = || ClientError::UnexpectedAnswer { what: "SELECT @@timestamp" };
    let mut best: Option<ClockDifference> = None;
    for _ in 0..rounds.max(1) {
        let (wall, sent) = (SystemTime::now(), Instant::now());
        // Unlike NOW(), @@timestamp is not converted to a time zone.
        let answer = connection.query_value("SELECT @@timestamp")?.ok_or_else(unexpected)?;
        let round_trip_us = u64::try_from(sent.elapsed().as_micros()).unwrap_or(u64::MAX);
        let source_us = parse_micros(&answer).ok_or_else(unexpected)?;
        let ours_us = wall.duration_since(UNIX_EPOCH).map_err(|_| unexpected())?.as_micros() as i64;
        let difference_us = source_us.saturating_sub(ours_us.saturating_add((round_trip_us / 2) as i64));
        if best.is_none_or(|best| round_trip_us < best.round_trip_us) {
            best = Some(ClockDifference { difference_us, round_trip_us });
        }
    }
    best.ok_or_else(unexpected)
}

/// Parses `1763712345.123456` as microseconds.
fn parse_micros(text: &str) -> Option<i64> {
    let (seconds, fraction) = text.trim().split_once('.').unwrap_or((text.trim(), ""));
    let fraction = format!("{:0<6}", fraction.get(..fraction.len().min(6))?);
    seconds.parse::<i64>().ok()?.checked_mul(1_000_000)?.checked_add(fraction.parse().ok()?)
}

#[cfg(test)]
mod tests {
    use super::parse_micros;

    #[test]
    fn timestamps_of_any_precision() {
        assert_eq!(parse_micros("1763712345.123456"), Some(1_763_712_345_123_456));
        assert_eq!(parse_micros("17.5"), Some(17_500_000));
        assert_eq!(parse_micros("17"), Some(17_000_000));
        assert_eq!(parse_micros("17.1234569"), Some(17_123_456));
        assert_eq!(parse_micros("x"), None);
    }
}
