//! The session's time zone: an offset, UTC by its name, or one whose rules the source told.

use values::Zone;

use crate::error::SqlError;
use crate::{KNOWS_UTC, OwnValues, Result, Settings};

const SYSTEM: &str = "SYSTEM";
const UTC: &str = "UTC";

/// The zone of the session's `time_zone`.
///
/// # Errors
/// 1235 where its rules are not known.
pub fn session_zone(settings: &Settings, own: &dyn OwnValues) -> Result<Zone> {
    zone_named(own, settings.text("time_zone").unwrap_or(SYSTEM))
}

/// As [`session_zone`], of any value of `time_zone`.
///
/// # Errors
/// As [`session_zone`].
pub(crate) fn zone_named(own: &dyn OwnValues, name: &str) -> Result<Zone> {
    if let Some(offset_s) = offset_s(name) {
        return Ok(Zone::Fixed(offset_s));
    }
    if name == SYSTEM && own.own_value("system_time_zone").as_deref() == Some(UTC) {
        return Ok(Zone::UTC);
    }
    match by_name(own, name) {
        ByName::Known(_, zone) => Ok(zone),
        _ => Err(SqlError::not_supported(&format!("times in time_zone {name}, whose rules are not known,"))),
    }
}

/// What is known of a zone by its name.
pub(crate) enum ByName {
    /// Its name as the source shows it, and the zone.
    Known(String, Zone),
    /// The source may have it; its rules are not known.
    NoRules,
    /// The source has none of this name.
    Nowhere,
}

/// True if the source has zones with names.
pub(crate) fn has_names(own: &dyn OwnValues) -> bool {
    own.own_value(KNOWS_UTC).as_deref() == Some("1")
}

/// Looks up a name. MySQL compares names without regard to case.
pub(crate) fn by_name(own: &dyn OwnValues, given: &str) -> ByName {
    if given.eq_ignore_ascii_case(UTC) {
        return match own.own_value(KNOWS_UTC).as_deref() {
            Some("1") => ByName::Known(UTC.to_owned(), Zone::UTC),
            Some(_) => ByName::Nowhere,
            None => ByName::NoRules,
        };
    }
    let Some(zones) = own.zones() else { return ByName::NoRules };
    match zones.named(given) {
        Some((name, Some(zone))) => ByName::Known(name.to_owned(), zone.clone()),
        None if zones.is_complete() => ByName::Nowhere,
        _ => ByName::NoRules,
    }
}

/// Seconds east of UTC of `+02:00` and the like.
fn offset_s(name: &str) -> Option<i64> {
    let (hours, minutes) = name.split_once(':').filter(|_| name.starts_with(['+', '-']))?;
    let number = |text: &str| text.trim_start_matches(['+', '-']).parse::<i64>().ok();
    let seconds = number(hours)? * 3600 + number(minutes)? * 60;
    Some(if hours.starts_with('-') { -seconds } else { seconds })
}
