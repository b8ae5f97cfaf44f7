//! Values of fail points, for tests only.
//!
//! In: the variable SLIPSTREAM_FAILPOINT, `name=value` separated by `;`. Out: the value of one name. Never here: what a
//! fail point does; a call per row.

use std::sync::OnceLock;

/// Environment variable with fail points.
const VARIABLE: &str = "SLIPSTREAM_FAILPOINT";

/// The value of a fail point in the environment; None if it is not set. Looks at the environment, so callers keep it.
#[must_use]
pub fn value(name: &str) -> Option<String> {
    value_in(&std::env::var(VARIABLE).ok()?, name).map(str::to_owned)
}

/// True if this fault is planted (`plant=FAULT`), for a checker to find. The environment is looked at once.
#[must_use]
pub fn is_planted(fault: &str) -> bool {
    static PLANTED: OnceLock<Option<String>> = OnceLock::new();
    PLANTED.get_or_init(|| value("plant")).as_deref() == Some(fault)
}

fn value_in<'a>(points: &'a str, name: &str) -> Option<&'a str> {
    points.split(';').find_map(|point| point.trim().strip_prefix(name)?.strip_prefix('='))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_found_among_others() {
        let points = "relay_sync_delay_ms=5; die_at=purge:2+300;die=3";
        assert_eq!(value_in(points, "relay_sync_delay_ms"), Some("5"));
        assert_eq!(value_in(points, "die_at"), Some("purge:2+300"));
        assert_eq!(value_in(points, "die"), Some("3"));
        assert_eq!(value_in(points, "purge"), None);
        assert_eq!(value_in("", "die"), None);
    }
}
