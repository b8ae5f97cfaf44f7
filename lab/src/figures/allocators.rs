//! Figures of memory allocators: MySQL as packaged, which links tcmalloc, against glibc's and jemalloc's by LD_PRELOAD.
//!
//! In: a recorded log; libjemalloc.so.2, if it is installed. Out: speeds and the coordinator's CPU by allocator. Never
//! here: the seed's own factor, jemalloc 3.6 against 4.5, which MySQL 9.7 is not packaged with.

use std::path::PathBuf;

use anyhow::{Context as _, Result};

use super::context::Context;
use super::entry::{Entry, How, Kind, Plan};
use super::replays::{Field, LOAD, One, SPEED, by_turns, field, ratios, recorded};
use super::result::{Found, Side};
use super::verdict::Claim;
use crate::compare::{Contender, Sample};
use crate::servers::Programs;

pub(super) const FACTOR: &str = "the allocator: tcmalloc as packaged, against glibc's and jemalloc 5 by LD_PRELOAD; the seed's are jemalloc 3.6 and 4.5";
pub(super) const RULE: &str = "another factor than the seed's: numbers and intervals, and no judgement of its claim";

/// The entries of this family.
pub(super) const ENTRIES: &[Entry] = &[
    Entry {
        numbers: &["10-17", "11-8"],
        seed: "000",
        sentence: "Jemalloc 3.6 achieves a balanced replay speed of just over 710,000 tpmC, while jemalloc 4.5 reaches \
                   810,000 tpmC, representing a 14% improvement in performance.",
        number: Some(("14 %, 810,000 against just over 710,000 tpmC", 320)),
        question: "Does replay gain by the memory allocator?",
        how: How::Measured(Plan {
            load: LOAD,
            factor: FACTOR,
            measure: SPEED,
            kind: Kind::Ratio(Claim::OfAnotherFactor),
            rule: RULE,
            run: speeds,
        }),
    },
    Entry {
        numbers: &["10-9"],
        seed: "000",
        sentence: "Reduced CPU overhead for the SQL thread with improved jemalloc.",
        number: None,
        question: "Does the coordinator take less CPU with another allocator?",
        how: How::Measured(Plan {
            load: LOAD,
            factor: FACTOR,
            measure: "CPU seconds of the coordinator",
            kind: Kind::Ratio(Claim::OfAnotherFactor),
            rule: RULE,
            run: coordinator,
        }),
    },
];

/// An allocator to load first.
pub(super) struct Allocator {
    pub(super) name: &'static str,
    /// Libraries with colons between, as LD_PRELOAD takes them.
    pub(super) preload: PathBuf,
    /// The one that ratios are of.
    pub(super) side: Side,
}

/// The allocators other than the packaged one, the last of which is the changed side, and a line on a missing one.
pub(super) fn allocators(programs: &Programs) -> Result<(Vec<Allocator>, Option<String>)> {
    let library = |name: &str| programs.library(name);
    let (cxx, c) = (library("libstdc++.so.6"), library("libc.so.6"));
    // C++'s operators first: they would otherwise be those of the linked allocator.
    let glibc = cxx.zip(c).map(|(cxx, c)| PathBuf::from(format!("{}:{}", cxx.display(), c.display())));
    let glibc = glibc.context("libstdc++.so.6 and libc.so.6 of mysqld are not found")?;
    let mut found = vec![Allocator { name: "glibc", preload: glibc, side: Side::Base }];
    let missing = match library("libjemalloc.so.2") {
        Some(preload) => {
            found.push(Allocator { name: "jemalloc 5", preload, side: Side::Changed });
            None
        }
        None => Some("jemalloc 5 is missing: apt-get install libjemalloc2; the ratio is glibc's".to_owned()),
    };
    if let Some(last) = found.last_mut() {
        last.side = Side::Changed;
    }
    Ok((found, missing))
}

fn speeds(context: &Context<'_>) -> Result<Found> {
    let speed = |sample: &Sample, field: &Field<'_>| field.transactions as f64 / sample.wall_s.max(1e-9);
    measure(context, SPEED, &speed, true)
}

fn coordinator(context: &Context<'_>) -> Result<Found> {
    let cpu = |sample: &Sample, _: &Field<'_>| {
        let of_coordinator = sample.threads.iter().filter(|(name, _)| name.starts_with("rpl_rca_sql"));
        of_coordinator.map(|(_, seconds)| seconds).sum()
    };
    let mut found = measure(context, "CPU s", &cpu, false)?;
    found
        .notes
        .push("The coordinator's CPU holds the yields with which it waits for a worker: 10-8 has their share.".into());
    Ok(found)
}

fn measure(
    context: &Context<'_>,
    unit: &'static str,
    value: &dyn Fn(&Sample, &Field<'_>) -> f64,
    with_ours: bool,
) -> Result<Found> {
    let (allocators, missing) = allocators(context.programs()?)?;
    let recording = recorded(context, "recording", 8, &[])?;
    let field = field(context, &recording, "field")?;
    let mut contenders = vec![(One::mysql("MySQL, as packaged", Side::Base, &[]), &field)];
    for allocator in allocators {
        let name = format!("MySQL, {}", allocator.name);
        let mut one = One::mysql(&name, allocator.side, &[]);
        one.contender = Contender::preloaded(&name, allocator.preload);
        contenders.push((one, &field));
    }
    contenders.push((One::mysql("MySQL, as packaged, again", Side::Again, &[]), &field));
    if with_ours {
        contenders.push((One::ours("Slipstream", &[]), &field));
    }
    let mut found = by_turns(context, &contenders, unit, value)?;
    found.ratios = ratios(&found, Side::Changed);
    found.again = ratios(&found, Side::Again);
    found.notes.push("Allocators are those that /proc/PID/maps shows.".into());
    found.notes.extend(missing);
    Ok(found)
}
