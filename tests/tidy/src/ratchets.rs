//! The list of what is above a goal: it becomes shorter, and its numbers smaller.
//!
//! In: sizes as they are, and `tests/tidy/ratchets.txt`. Out: what is new or has grown, and what may be lowered. Never
//! here: a number that rises.

use std::collections::BTreeMap;

use crate::Fault;
use crate::code::Size;

/// The list, from the repository's root: `MEASURE WHERE NUMBER` a line.
pub const LIST: &str = "tests/tidy/ratchets.txt";

/// What has grown beyond the list, and what the list allows beyond what is.
#[must_use]
pub fn compared(sizes: &[Size], list: &str) -> Vec<Fault> {
    let mut listed: BTreeMap<&str, usize> = BTreeMap::new();
    for line in list.lines() {
        let parsed = line.rsplit_once(' ').and_then(|(what, most)| Some((what, most.parse::<usize>().ok()?)));
        match parsed {
            Some((what, most)) => drop(listed.insert(what, most)),
            None => return vec![format!("{LIST}: '{line}' is not MEASURE WHERE NUMBER")],
        }
    }
    let mut faults = Vec::new();
    for (measure, place, size) in sizes {
        let what = format!("{} {place}", measure.name());
        match listed.remove(what.as_str()) {
            None => faults.push(format!("{what} {size}: above the goal, and not in {LIST}: make it smaller")),
            Some(most) if *size > most => faults.push(format!("{what} {size}: it was {most}: make it smaller")),
            Some(most) if *size < most => faults.push(format!("{what} {size}: lower {most} in {LIST}")),
            Some(_) => {}
        }
    }
    faults.extend(listed.into_iter().map(|(what, most)| format!("{what} {most}: take the line out of {LIST}")));
    faults
}

/// The list with what has become smaller, without what is gone. What has grown stays as it was.
#[must_use]
pub fn lowered(sizes: &[Size], list: &str) -> String {
    let now: BTreeMap<String, usize> =
        sizes.iter().map(|(measure, place, size)| (format!("{} {place}", measure.name()), *size)).collect();
    let kept = list.lines().filter_map(|line| {
        let (what, most) = line.rsplit_once(' ')?;
        let size = now.get(what)?;
        Some(format!("{what} {}\n", (*size).min(most.parse().ok()?)))
    });
    kept.collect()
}
