//! The session's time zone, where it is a fixed offset.

use crate::Result;
use crate::bind::Bind;
use crate::error::SqlError;

/// Seconds east of UTC of the session's `time_zone`.
///
/// # Errors
/// 1235 where `time_zone` is SYSTEM and the source's system is not in UTC, or a zone with a name: zones with rules are
/// not known here yet.
pub fn zone_offset_s(bind: &Bind<'_>) -> Result<i64> {
    offset_of_zone_s(bind, bind.settings.text("time_zone").unwrap_or("SYSTEM"))
}

/// As [`zone_offset_s`], of any value of `time_zone`.
///
/// # Errors
/// As [`zone_offset_s`].
pub(crate) fn offset_of_zone_s(bind: &Bind<'_>, zone: &str) -> Result<i64> {
    if zone == "SYSTEM" {
        return match bind.own.own_value("system_time_zone").as_deref() {
            Some("UTC") => Ok(0),
            _ => Err(SqlError::not_supported("TIMESTAMP where time_zone is SYSTEM and that is not UTC")),
        };
    }
    // Only the source can have begun the session with a zone of another form.
    let named = || SqlError::not_supported(&format!("times in time_zone {zone}"));
    let (hours, minutes) = zone.split_once(':').filter(|_| zone.starts_with(['+', '-'])).ok_or_else(named)?;
    let number = |text: &str| text.trim_start_matches(['+', '-']).parse::<i64>().unwrap_or_default();
    let seconds = number(hours) * 3600 + number(minutes) * 60;
    Ok(if hours.starts_with('-') { -seconds } else { seconds })
}
