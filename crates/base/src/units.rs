//! Sizes, spans of time and switches as people write them in flags and option files.

use std::time::Duration;

/// Bytes: `4096`, `16M`, `1G` (1024-based, as MySQL's), also `16MiB`.
///
/// # Errors
/// What is wrong, as a sentence's end.
pub fn parse_bytes(text: &str) -> Result<u64, String> {
    let (digits, unit) = number_and_unit(text);
    let wrong = || format!("'{text}' is not a size: digits, then K, M or G");
    let number: u64 = digits.parse().map_err(|_| wrong())?;
    let factor: u64 = match unit.to_ascii_lowercase().trim_end_matches("ib").trim_end_matches('b') {
        "" => 1,
        "k" => 1 << 10,
        "m" => 1 << 20,
        "g" => 1 << 30,
        "t" => 1 << 40,
        _ => return Err(wrong()),
    };
    number.checked_mul(factor).ok_or_else(|| format!("'{text}' is too large"))
}

/// A span of time: `10ms`, `1.5s`, `2m`, `1h`, `3d`; a bare number is in `bare_unit` ("s" or "ms").
///
/// # Errors
/// What is wrong, as a sentence's end.
pub fn parse_span(text: &str, bare_unit: &str) -> Result<Duration, String> {
    let (digits, unit) = number_and_unit(text);
    let wrong = || format!("'{text}' is not a time: digits, then ms, s, m, h or d (without: {bare_unit})");
    let number: f64 = digits.parse().map_err(|_| wrong())?;
    let unit = if unit.is_empty() { bare_unit } else { unit };
    let seconds = match unit.to_ascii_lowercase().as_str() {
        "us" => 1e-6,
        "ms" => 1e-3,
        "s" => 1.0,
        "m" | "min" => 60.0,
        "h" => 3600.0,
        "d" => 86_400.0,
        _ => return Err(wrong()),
    };
    Duration::try_from_secs_f64(number * seconds).map_err(|_| format!("'{text}' is too large"))
}

/// ON/OFF and MySQL's other spellings; no value at all is ON.
///
/// # Errors
/// What is wrong, as a sentence's end.
pub fn parse_switch(text: Option<&str>) -> Result<bool, String> {
    match text.map(str::to_ascii_lowercase).as_deref() {
        None | Some("on" | "1" | "true" | "yes") => Ok(true),
        Some("off" | "0" | "false" | "no") => Ok(false),
        Some(other) => Err(format!("'{other}' is not ON or OFF")),
    }
}

/// A whole number within bounds.
///
/// # Errors
/// What is wrong, as a sentence's end.
pub fn parse_number(text: &str, least: u64, most: u64) -> Result<u64, String> {
    let number: Option<u64> = text.parse().ok();
    number
        .filter(|number| (least..=most).contains(number))
        .ok_or_else(|| format!("'{text}' is not a number from {least} to {most}"))
}

fn number_and_unit(text: &str) -> (&str, &str) {
    let text = text.trim();
    let end = text.find(|c: char| !c.is_ascii_digit() && c != '.').unwrap_or(text.len());
    let (digits, unit) = text.split_at(end);
    (digits, unit.trim())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes() {
        for (text, bytes) in
            [("0", 0), ("4096", 4096), ("16M", 16 << 20), ("1g", 1 << 30), ("2 KiB", 2048), ("3MB", 3 << 20)]
        {
            assert_eq!(parse_bytes(text), Ok(bytes), "{text}");
        }
        for text in ["", "M", "-1", "1.5G", "1X", "99999999999999999999", "18446744073709551615K"] {
            assert!(parse_bytes(text).is_err(), "{text}");
        }
    }

    #[test]
    fn spans() {
        for (text, ms) in
            [("10ms", 10), ("2", 2000), ("1.5s", 1500), ("2m", 120_000), ("1h", 3_600_000), ("1d", 86_400_000)]
        {
            assert_eq!(parse_span(text, "s"), Ok(Duration::from_millis(ms)), "{text}");
        }
        assert_eq!(parse_span("7", "ms"), Ok(Duration::from_millis(7)));
        for text in ["", "s", "-1s", "1w", "1..2s", "9e99"] {
            assert!(parse_span(text, "s").is_err(), "{text}");
        }
    }

    #[test]
    fn switches_and_numbers() {
        assert_eq!(parse_switch(None), Ok(true));
        assert_eq!(parse_switch(Some("OFF")), Ok(false));
        assert!(parse_switch(Some("maybe")).is_err());
        assert_eq!(parse_number("3", 1, 3), Ok(3));
        for text in ["0", "4", "x", ""] {
            assert!(parse_number(text, 1, 3).is_err());
        }
    }
}
