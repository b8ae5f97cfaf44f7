//! The session's time zone: an offset, UTC by its name, or one whose rules the source was asked for.

use std::cell::RefCell;

use values::Zone;

use crate::error::SqlError;
use crate::{KNOWS_UTC, OwnValues, Result, Settings};

/// What of the source's tells the rules of its zones: names, each with its [`Zone`] as text, as `SYSTEM 3600;…`. Known
/// are those that its sessions begin with, where they are not offsets: SYSTEM unless that is UTC, and its `time_zone`.
pub const ZONES: &str = "zones";

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
    let refused = || SqlError::not_supported(&format!("times in time_zone {name}, whose rules are not known,"));
    known(own, name).map(|(_, zone)| zone).ok_or_else(refused)
}

/// The name of a zone that a session may set besides SYSTEM and offsets, as the source shows it.
pub(crate) fn known_name(own: &dyn OwnValues, given: &str) -> Option<String> {
    known(own, given).map(|(name, _)| name)
}

/// True if the source has zones with names.
pub(crate) fn has_names(own: &dyn OwnValues) -> bool {
    own.own_value(KNOWS_UTC).as_deref() == Some("1")
}

/// UTC where the source knows it, or one of [`ZONES`], with its name there. MySQL compares names without regard to
/// case.
fn known(own: &dyn OwnValues, given: &str) -> Option<(String, Zone)> {
    if given.eq_ignore_ascii_case(UTC) && has_names(own) {
        return Some((UTC.to_owned(), Zone::UTC));
    }
    let all = own.own_value(ZONES)?;
    let mut all = all.split(';').filter_map(|zone| zone.split_once(' '));
    let (name, rules) = all.find(|(name, _)| name.eq_ignore_ascii_case(given))?;
    Some((name.to_owned(), read(rules)?))
}

/// The zone that a text describes, which is most often the one that was read last: of 2 KB, once for each statement.
fn read(rules: &str) -> Option<Zone> {
    thread_local! {
        static LAST: RefCell<Option<(String, Zone)>> = const { RefCell::new(None) };
    }
    LAST.with_borrow_mut(|last| {
        if let Some((text, zone)) = last
            && text == rules
        {
            return Some(zone.clone());
        }
        let zone = Zone::of_text(rules)?;
        *last = Some((rules.to_owned(), zone.clone()));
        Some(zone)
    })
}

/// Seconds east of UTC of `+02:00` and the like.
fn offset_s(name: &str) -> Option<i64> {
    let (hours, minutes) = name.split_once(':').filter(|_| name.starts_with(['+', '-']))?;
    let number = |text: &str| text.trim_start_matches(['+', '-']).parse::<i64>().ok();
    let seconds = number(hours)? * 3600 + number(minutes)? * 60;
    Some(if hours.starts_with('-') { -seconds } else { seconds })
}
