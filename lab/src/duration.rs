//! Durations on the command line.
//!
//! In: text. Out: a duration. Never here: a part of a second.

use std::time::Duration;

use anyhow::{Context as _, bail};

/// Reads a number of seconds, or a number with s, m or h.
///
/// # Errors
/// The text is neither.
pub(crate) fn parse(text: &str) -> anyhow::Result<Duration> {
    let digits = text.trim_end_matches(|c: char| c.is_ascii_alphabetic());
    let unit = match text.get(digits.len()..) {
        Some("" | "s") => 1,
        Some("m") => 60,
        Some("h") => 3600,
        _ => bail!("'{text}': seconds, or a number with s, m or h"),
    };
    let seconds = digits.parse::<u64>().ok().and_then(|number| number.checked_mul(unit));
    seconds.map(Duration::from_secs).with_context(|| format!("'{text}': seconds, or a number with s, m or h"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations() {
        assert_eq!(parse("90").unwrap(), Duration::from_secs(90));
        assert_eq!(parse("10m").unwrap(), Duration::from_secs(600));
        assert_eq!(parse("2h").unwrap(), Duration::from_secs(7200));
        assert!(parse("5d").is_err() && parse("s").is_err() && parse("-1s").is_err());
    }
}
