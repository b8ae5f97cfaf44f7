//! Figures of stacks: what replay's threads of a stock server spend their CPU on, as `perf` samples it; and the speed
//! without the Performance Schema, whose share is among them.
//!
//! In: a recorded log, `perf`. Out: shares of samples by function; the folded stacks, and their picture where inferno's
//! program is installed. Never here: a share of time that a thread waited: the software clock counts what runs.

use anyhow::Result;

use super::context::Context;
use super::entry::{Entry, How, Kind, Plan};
use super::replays::{LOAD, One, SPEED, field, pair, recorded, run};
use super::result::{Found, Point, Series, Side};
use super::verdict::{Claim, Verdict, of_rounds};
use crate::ourselves;
use crate::stacks::{self, Stack};

const SHARE: &str = "% of samples without yields";

/// The entries of this family.
pub(super) const ENTRIES: &[Entry] = &[
    Entry {
        numbers: &["10-24"],
        seed: "000",
        sentence: "The overhead associated with my_malloc calling PFS-related functions is substantial.",
        number: None,
        question: "How much faster is replay without the Performance Schema?",
        how: How::Measured(Plan {
            load: LOAD,
            factor: "performance_schema, ON against OFF",
            measure: SPEED,
            kind: Kind::Ratio(Claim::Above),
            rule: "MySQL without it is faster, by the sign test over pairs; the share of its functions is a note",
            run: performance_schema,
        }),
    },
    Entry {
        numbers: &["10-8"],
        seed: "000",
        sentence: "Bottlenecks identified in the flame graph for the SQL thread.",
        number: None,
        question: "Are event parsing and memory what the coordinator spends most on?",
        how: How::Measured(Plan {
            load: LOAD,
            factor: "the function, of one server's coordinator",
            measure: SHARE,
            kind: Kind::Rank,
            rule: "in every round event parsing and memory are the two largest of its parts",
            run: coordinator,
        }),
    },
    Entry {
        numbers: &["10-10"],
        seed: "000",
        sentence: "binlog_event_deserialize constitutes approximately 45% of the workload.",
        number: Some(("approximately 45 %", 177)),
        question: "Which share of the coordinator's time does it take to parse events?",
        how: How::Measured(Plan {
            load: LOAD,
            factor: "the function, of one server's coordinator",
            measure: SHARE,
            kind: Kind::Rank,
            rule: "in every round binlog_event_deserialize has at least half of the seed's share; smaller, if in none",
            run: parsing,
        }),
    },
    Entry {
        numbers: &["11-21"],
        seed: "004",
        sentence: "Significant bottlenecks related to the Performance Schema.",
        number: None,
        question: "What does replay spend on the Performance Schema?",
        how: How::Measured(Plan {
            load: LOAD,
            factor: "the function, of the replay threads of one server with performance_schema=ON",
            measure: SHARE,
            kind: Kind::Rank,
            rule: "in every round functions of the Performance Schema have at least 5 % of their samples",
            run: schema,
        }),
    },
];

/// A part of the work, and the functions that show that it is done.
struct Part {
    name: &'static str,
    functions: &'static [&'static str],
}

const PARSING: Part = Part { name: "binlog_event_deserialize", functions: &["binlog_event_deserialize"] };
const MEMORY: Part = Part {
    name: "memory: malloc, free and what calls them",
    functions: &[
        "malloc",
        "my_malloc",
        "tc_malloc",
        "tc_free",
        "my_free",
        "free",
        "operator new",
        "operator delete",
        "tc_new",
        "tc_delete",
        "calloc",
        "realloc",
    ],
};
const READING: Part = Part {
    name: "reading the relay log",
    functions: &["read_log_event", "Basic_istream", "read_event_data", "my_b_read"],
};
const HANDING: Part = Part { name: "handing events to workers", functions: &["append_item_to_jobs"] };
const SCHEMA: Part = Part { name: "the Performance Schema", functions: &["pfs_", "PFS_", "_pfs", "psi_"] };
/// The coordinator runs while it waits for a worker without work: it yields. That is not counted as work.
const YIELD: Part = Part { name: "yielding", functions: &["sched_yield"] };
const PARTS: [Part; 5] = [PARSING, MEMORY, READING, HANDING, SCHEMA];

impl Part {
    /// True if a frame is one of its functions: begins with it, or has it as the last part of a path.
    fn has(&self, frame: &str) -> bool {
        let name = frame.split('(').next().unwrap_or(frame);
        self.functions.iter().any(|function| match *function {
            "free" | "malloc" | "calloc" | "realloc" => name == *function || name == format!("__libc_{function}"),
            function => name.contains(function),
        })
    }
}

fn is_coordinator(thread: &str) -> bool {
    thread.starts_with("rpl_rca_sql")
}

/// True of the coordinator and the workers.
fn replays(thread: &str) -> bool {
    thread.starts_with("rpl_rca")
}

/// What every round showed: shares in percent by part, and all stacks.
struct Rounds {
    found: Found,
    /// By round, in the order of [`PARTS`].
    shares: Vec<Vec<f64>>,
}

fn sampled(context: &Context<'_>, options: &[&str], thread: fn(&str) -> bool) -> Result<Rounds> {
    ourselves::look_for("perf", "linux-perf")?;
    let recording = recorded(context, "recording", 8, &[])?;
    let field = field(context, &recording, "field")?;
    let mut one = One::mysql("MySQL", Side::Base, options);
    one.contender.stacks = true;
    let mut found = Found { unit: SHARE, mysql_version: context.programs()?.version()?, ..Found::default() };
    let (mut shares, mut all): (Vec<Vec<f64>>, Vec<Stack>) = (Vec::new(), Vec::new());
    for round in 0..context.rounds {
        let sample = run(&field, &one)?;
        let yielding = 100.0 * stacks::share(&sample.stacks, thread, |frame| YIELD.has(frame));
        let yields = |stack: &&Stack| stack.frames.iter().any(|frame| YIELD.has(frame));
        let working: Vec<Stack> = sample.stacks.iter().filter(|stack| !yields(stack)).cloned().collect();
        let of = |part: &Part| 100.0 * stacks::share(&working, thread, |frame| part.has(frame));
        let of_round: Vec<f64> = PARTS.iter().map(of).collect();
        let words: Vec<String> =
            PARTS.iter().zip(&of_round).map(|(part, share)| format!("{} {share:.0} %", part.name)).collect();
        context.tell(&format!("round {}/{}: {}", round + 1, context.rounds, words.join(", ")));
        found.shown.push(format!("{}; of all samples {yielding:.0} % yield", words.join(", ")));
        found.notes = vec![format!("settings: {}", sample.options())];
        shares.push(of_round);
        all.extend(sample.stacks.into_iter().filter(|stack| replays(&stack.thread)));
    }
    for (at, part) in PARTS.iter().enumerate() {
        let values = shares.iter().filter_map(|round| round.get(at).copied()).collect();
        let points = vec![Point { values, ..Point::default() }];
        found.series.push(Series { name: part.name.into(), points, ..Series::default() });
    }
    found
        .notes
        .push("Samples of perf's software clock, but for those in which a thread yields because no worker is idle; a function \
             counts with all that it calls, so parts overlap.".into());
    found.folded = stacks::folded(&all);
    found.hash = Some(field.hash);
    Ok(Rounds { found, shares })
}

fn coordinator(context: &Context<'_>) -> Result<Found> {
    let Rounds { mut found, shares } = sampled(context, &[], is_coordinator)?;
    let largest: Vec<bool> = shares.iter().map(|round| are_the_largest(round)).collect();
    found.judged = of_rounds(&true, Some(&false), &largest);
    Ok(found)
}

/// True if the first two are the largest.
fn are_the_largest(shares: &[f64]) -> bool {
    let (first, others) = shares.split_at(2.min(shares.len()));
    let least = first.iter().copied().fold(f64::MAX, f64::min);
    others.iter().all(|&other| other < least)
}

fn parsing(context: &Context<'_>) -> Result<Found> {
    const HALF: f64 = 45.0 / 2.0;
    let Rounds { mut found, shares } = sampled(context, &[], is_coordinator)?;
    let half: Vec<bool> = shares.iter().filter_map(|round| round.first()).map(|&share| share >= HALF).collect();
    found.judged = of_rounds(&true, Some(&false), &half).map(|verdict| match verdict {
        Verdict::Opposite => Verdict::Smaller,
        verdict => verdict,
    });
    Ok(found)
}

fn schema(context: &Context<'_>) -> Result<Found> {
    const LEAST: f64 = 5.0;
    let Rounds { mut found, shares } = sampled(context, &["--performance-schema=ON"], replays)?;
    let seen: Vec<bool> = shares.iter().filter_map(|round| round.last()).map(|&share| share >= LEAST).collect();
    found.judged = of_rounds(&true, Some(&false), &seen);
    Ok(found)
}

/// The Performance Schema's part of the samples of all replay threads, as a line; why not, if there is no perf.
fn schema_line(context: &Context<'_>) -> String {
    if context.quick {
        return "The quick form leaves out its share of samples.".to_owned();
    }
    let only = Context { rounds: 1, folder: context.folder.join("perf"), ..context.again() };
    let line = std::fs::create_dir_all(&only.folder).map_err(anyhow::Error::from).and_then(|()| {
        let Rounds { shares, .. } = sampled(&only, &["--performance-schema=ON"], replays)?;
        let share = shares.first().and_then(|round| round.last()).copied().unwrap_or(0.0);
        Ok(format!(
            "with it on, its functions have {share:.1} % of the samples of all replay threads (one run under perf)"
        ))
    });
    line.unwrap_or_else(|error| format!("its share of samples is not known: {error:#}"))
}

fn performance_schema(context: &Context<'_>) -> Result<Found> {
    let recording = recorded(context, "recording", 8, &[])?;
    let field = field(context, &recording, "field")?;
    let mut found = pair(
        context,
        &[
            (One::mysql("MySQL, ON", Side::Base, &["--performance-schema=ON"]), &field),
            (One::mysql("MySQL, OFF", Side::Changed, &["--performance-schema=OFF"]), &field),
            (One::mysql("MySQL, ON, again", Side::Again, &["--performance-schema=ON"]), &field),
            (One::ours("Slipstream", &[]), &field),
        ],
    )?;
    found.notes.push(schema_line(context));
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn functions_are_told_from_those_with_similar_names() {
        assert!(PARSING.has("binlog_event_deserialize(unsigned char const*, unsigned int, bool)"));
        assert!(
            MEMORY.has("malloc") && MEMORY.has("__libc_free") && MEMORY.has("my_malloc(unsigned int, unsigned long)")
        );
        assert!(MEMORY.has("operator new(unsigned long)") && !MEMORY.has("free_share(malloc_info)"));
        assert!(MEMORY.has("tc_malloc") && YIELD.has("__x64_sys_sched_yield"));
        assert!(SCHEMA.has("pfs_memory_alloc_vc") && !SCHEMA.has("exec_relay_log_event(THD*)"));
        assert!(is_coordinator("rpl_rca_sql-0") && !is_coordinator("rpl_rca_wkr-0") && replays("rpl_rca_wkr-0"));
    }

    #[test]
    fn the_two_largest_are_parsing_and_memory() {
        assert!(are_the_largest(&[40.0, 20.0, 10.0, 19.0, 0.0]));
        assert!(!are_the_largest(&[40.0, 20.0, 10.0, 21.0, 0.0]));
    }
}
