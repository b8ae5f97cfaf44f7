//! Time zones: how far their clocks are from UTC, and since when.
//!
//! In: the moments at which a zone's offset changes. Out: the local time of a moment, the moment of a local time. Never
//! here: where its changes come from; leap seconds.

use std::collections::{BTreeMap, HashMap};
use std::fmt;
use std::sync::Arc;

use crate::DateTimeValue;

/// An offset from UTC is below this, in seconds.
const OFFSET_BELOW: i64 = 24 * 3_600;

/// A time zone. Offsets are seconds east of UTC.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Zone {
    /// The same offset at all times.
    Fixed(i64),
    /// An offset that changes.
    Changing(Arc<Changes>),
}

/// How a zone's offset changes.
#[derive(Debug, PartialEq, Eq)]
pub struct Changes {
    /// Before the first change.
    first_s: i64,
    /// Seconds since 1970 in UTC, and the offset from then on; in order of time.
    later: Vec<(i64, i64)>,
}

/// The moment of a local time, in seconds since 1970 in UTC.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UtcMoment {
    /// This one.
    At(i64),
    /// None: clocks were put forward over it.
    Never,
    /// More than one: clocks were put back over it.
    Twice,
}

impl Zone {
    /// UTC.
    pub const UTC: Zone = Zone::Fixed(0);

    /// A zone by its first offset and its changes: seconds since 1970 in UTC, and the offset from then on. None if they
    /// are not in order of time, or an offset is a day or more.
    #[must_use]
    pub fn changing(first_s: i64, later: Vec<(i64, i64)>) -> Option<Zone> {
        let offsets = std::iter::once(first_s).chain(later.iter().map(|(_, offset_s)| *offset_s));
        let in_order = later.windows(2).all(|pair| matches!(pair, [(before, _), (after, _)] if before < after));
        if !in_order || offsets.into_iter().any(|offset_s| offset_s.abs() >= OFFSET_BELOW) {
            return None;
        }
        Some(if later.is_empty() { Zone::Fixed(first_s) } else { Zone::Changing(Arc::new(Changes { first_s, later })) })
    }

    /// Reads what `Display` writes: the first offset, then moment and offset of each change, all in seconds.
    #[must_use]
    pub fn of_text(text: &str) -> Option<Zone> {
        let mut numbers = text.split(' ').map(|number| number.parse::<i64>().ok());
        let first_s = numbers.next()??;
        let mut later = Vec::new();
        while let Some(at) = numbers.next() {
            later.push((at?, numbers.next()??));
        }
        Zone::changing(first_s, later)
    }

    /// True if local times are those of UTC.
    #[must_use]
    pub fn is_utc(&self) -> bool {
        *self == Zone::UTC
    }

    /// The offset at a moment, in seconds since 1970 in UTC.
    #[must_use]
    pub fn offset_s(&self, at: i64) -> i64 {
        match self {
            Zone::Fixed(offset_s) => *offset_s,
            Zone::Changing(changes) => {
                let later = changes.later.partition_point(|(from, _)| *from <= at);
                let found = later.checked_sub(1).and_then(|last| changes.later.get(last));
                found.map_or(changes.first_s, |(_, offset_s)| *offset_s)
            }
        }
    }

    /// The local time of a moment that is given as UTC's; None for a day that does not exist, and beyond the years 1 to
    /// 9999.
    #[must_use]
    pub fn local(&self, utc: DateTimeValue) -> Option<DateTimeValue> {
        match self {
            Zone::Fixed(offset_s) => utc.shifted(*offset_s),
            Zone::Changing(_) => utc.shifted(self.offset_s(utc.since_1970()?)),
        }
    }

    /// The moment of a local time, which is given as if it were UTC's: seconds since 1970.
    #[must_use]
    pub fn moment(&self, local_s: i64) -> UtcMoment {
        let changes = match self {
            Zone::Fixed(offset_s) => return UtcMoment::At(local_s - offset_s),
            Zone::Changing(changes) => changes,
        };
        let mut found = UtcMoment::Never;
        let (mut from, mut offset_s) = (i64::MIN, changes.first_s);
        let ends = changes.later.iter().copied().chain(std::iter::once((i64::MAX, 0)));
        for (until, next_s) in ends {
            let at = local_s - offset_s;
            if (from..until).contains(&at) {
                match found {
                    UtcMoment::Never => found = UtcMoment::At(at),
                    _ => return UtcMoment::Twice,
                }
            }
            (from, offset_s) = (until, next_s);
        }
        found
    }
}

/// The zones that a server has, by their names.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Zones {
    /// By name in lower case, since MySQL finds them without regard to case: the name, and the zone if it is known.
    by_name: BTreeMap<String, (String, Option<Zone>)>,
    /// True if the server has no others.
    complete: bool,
}

impl Zones {
    /// No zones. `complete`: the server has none but those that are added.
    #[must_use]
    pub fn new(complete: bool) -> Zones {
        Zones { by_name: BTreeMap::new(), complete }
    }

    /// Adds one, or replaces it. None: the server has it, but its rules are not known.
    pub fn add(&mut self, name: &str, zone: Option<Zone>) {
        self.by_name.insert(name.to_ascii_lowercase(), (name.to_owned(), zone));
    }

    /// A zone's name as the server writes it, and the zone if its rules are known.
    #[must_use]
    pub fn named(&self, given: &str) -> Option<(&str, Option<&Zone>)> {
        let (name, zone) = self.by_name.get(&given.to_ascii_lowercase())?;
        Some((name, zone.as_ref()))
    }

    /// True if the server has no other names.
    #[must_use]
    pub fn is_complete(&self) -> bool {
        self.complete
    }

    /// Reads lines of a zone each, as [`lines`](Self::lines) writes them. What is no such line is passed over.
    #[must_use]
    pub fn of_lines<'a>(complete: bool, lines: impl Iterator<Item = (&'a str, &'a str)>) -> Zones {
        // Many names have the same rules.
        let mut read: HashMap<&str, Option<Zone>> = HashMap::new();
        let mut zones = Zones::new(complete);
        for (name, rules) in lines {
            zones.add(name, read.entry(rules).or_insert_with(|| Zone::of_text(rules)).clone());
        }
        zones
    }

    /// Name and rules of each, the rules as `Display` of [`Zone`] writes them, or nothing.
    pub fn lines(&self) -> impl Iterator<Item = (&str, String)> {
        let rules = |zone: &Option<Zone>| zone.as_ref().map(ToString::to_string).unwrap_or_default();
        self.by_name.values().map(move |(name, zone)| (name.as_str(), rules(zone)))
    }
}

impl fmt::Display for Zone {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Zone::Fixed(offset_s) => write!(f, "{offset_s}"),
            Zone::Changing(changes) => {
                write!(f, "{}", changes.first_s)?;
                changes.later.iter().try_for_each(|(at, offset_s)| write!(f, " {at} {offset_s}"))
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::DateValue;

    /// Europe/Berlin from 2023 to 2024: summer from 2024-03-31 01:00 to 2024-10-27 01:00 UTC.
    const BERLIN: &str = "3600 1711846800 7200 1729990800 3600";

    #[test]
    fn texts_are_read_as_they_are_written() {
        for text in ["0", "-12600", BERLIN] {
            assert_eq!(Zone::of_text(text).unwrap().to_string(), text);
        }
        assert!(Zone::of_text("0").unwrap().is_utc());
        for wrong in ["", "x", "3600 ", "3600 5", "3600 5 7200 5 3600", "3600 9 7200 5 3600", "86400", "0 5 -86400"] {
            assert_eq!(Zone::of_text(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn zones_are_found_without_regard_to_case() {
        let lines = [("Europe/Berlin", BERLIN), ("Arctic/Longyearbyen", BERLIN), ("right/UTC", "")];
        let zones = Zones::of_lines(true, lines.into_iter());
        let berlin = Zone::of_text(BERLIN);
        assert_eq!(zones.named("europe/BERLIN"), Some(("Europe/Berlin", berlin.as_ref())));
        assert_eq!((zones.named("Right/UTC"), zones.named("Europe")), (Some(("right/UTC", None)), None));
        assert_eq!(zones.named("arctic/longyearbyen"), Some(("Arctic/Longyearbyen", berlin.as_ref())));
        assert!(zones.is_complete());
        let written: Vec<_> = zones.lines().collect();
        let read = Zones::of_lines(true, written.iter().map(|(name, rules)| (*name, rules.as_str())));
        assert_eq!(read, zones);
        assert_ne!(Zones::of_lines(false, lines.into_iter()), zones);
    }

    #[test]
    fn an_offset_holds_from_its_change_on() {
        let berlin = Zone::of_text(BERLIN).unwrap();
        for (at, offset_s) in [(0, 3600), (1_711_846_799, 3600), (1_711_846_800, 7200), (1_729_990_799, 7200)] {
            assert_eq!(berlin.offset_s(at), offset_s, "{at}");
        }
        assert_eq!([1_729_990_800, i64::MAX].map(|at| berlin.offset_s(at)), [3600, 3600]);
        let date = DateValue { year: 2024, month: 3, day: 31 };
        let utc = DateTimeValue { date, hour: 1, minute: 0, second: 0, micros: 7 };
        assert_eq!(berlin.local(utc), Some(DateTimeValue { hour: 3, ..utc }));
        assert_eq!(Zone::Fixed(-60).local(utc), Some(DateTimeValue { hour: 0, minute: 59, ..utc }));
    }

    #[test]
    fn a_local_time_may_be_never_once_or_twice() {
        let berlin = Zone::of_text(BERLIN).unwrap();
        let (spring, autumn) = (1_711_846_800 + 3600, 1_729_990_800 + 3600);
        assert_eq!(berlin.moment(spring - 1), UtcMoment::At(spring - 1 - 3600));
        assert_eq!([spring, spring + 3599].map(|local| berlin.moment(local)), [UtcMoment::Never; 2]);
        assert_eq!(berlin.moment(spring + 3600), UtcMoment::At(spring - 3600));
        assert_eq!(berlin.moment(autumn - 1), UtcMoment::At(autumn - 1 - 7200));
        assert_eq!([autumn, autumn + 3599].map(|local| berlin.moment(local)), [UtcMoment::Twice; 2]);
        assert_eq!(berlin.moment(autumn + 3600), UtcMoment::At(autumn));
        assert_eq!(Zone::Fixed(-60).moment(0), UtcMoment::At(60));
        // Each moment that is no part of an hour that is there twice is found again.
        for at in (1_700_000_000..1_740_000_000).step_by(977) {
            let found = berlin.moment(at + berlin.offset_s(at));
            assert!(
                found == UtcMoment::At(at) || (found == UtcMoment::Twice && at.abs_diff(1_729_990_800) <= 3600),
                "{at}"
            );
        }
    }
}
