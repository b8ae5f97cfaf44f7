//! `lab figure`: the figures of the documents that this project goes back to, by their numbers, with a verdict.
//!
//! In: numbers. Out: a JSON document and a page for each, and an index of all. Never here: a verdict from fewer than
//! six rounds, a rule that is chosen after the run, a figure's text or options anywhere but in its family's file.

mod allocators;
mod balanced;
mod binaries;
mod context;
pub mod entry;
mod flames;
mod following;
mod groups;
mod others;
mod page;
pub(crate) mod picture;
mod primaries;
mod recording;
mod replays;
pub mod result;
mod stamps;
pub mod verdict;

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::time::Instant;

use anyhow::{Context as _, Result};
use clap::Args;
use replay::conditions::Conditions;
use replay::turns::Interval;

use crate::servers::{Programs, Scratch, check_stop};
use context::Context;
use entry::{Entry, How, Kind, Plan};
use result::{Declared, Stored, short};
use verdict::of_ratios;

/// Options of `lab figure`.
#[derive(Debug, Clone, Args)]
pub struct FigureArgs {
    /// Numbers of figures, as 10-22 or mts-1
    #[arg(value_name = "NUMBER", required_unless_present_any = ["all", "list"])]
    pub numbers: Vec<String>,
    /// Every figure that can be measured, but for those of two builds; continues a run that was cut short
    #[arg(long, conflicts_with_all = ["numbers", "list"])]
    pub all: bool,
    /// Show every figure and how it is measured, or why not
    #[arg(long, conflicts_with = "numbers")]
    pub list: bool,
    /// At most three minutes a figure on two cores: numbers, and no verdict
    #[arg(long)]
    pub quick: bool,
    /// Rounds of each contender; fewer than six give no verdict [default: 6, quick: 2]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=99))]
    pub rounds: Option<u32>,
    /// Two builds of slipstream, for the figures that compare them: PGO and watching
    #[arg(long, value_name = "BASE,CHANGED", value_delimiter = ',')]
    pub binaries: Vec<PathBuf>,
    /// Folder for pages, JSON documents and the index
    #[arg(long, value_name = "DIR", default_value = "figures")]
    pub out: PathBuf,
    /// Folder with mysqld [default: SLIPSTREAM_TEST_MYSQLD, PATH, the testbed's]
    #[arg(long, value_name = "DIR")]
    pub mysqld_bin: Option<PathBuf>,
    /// New folder for servers and logs, removed afterwards [default: a temporary one in TMPDIR]
    #[arg(long, value_name = "DIR")]
    pub folder: Option<PathBuf>,
}

/// All figures, in the documents' order.
#[must_use]
pub fn registry() -> Vec<&'static Entry> {
    let families = [
        replays::ENTRIES,
        allocators::ENTRIES,
        flames::ENTRIES,
        balanced::ENTRIES,
        binaries::ENTRIES,
        primaries::ENTRIES,
        stamps::ENTRIES,
        groups::ENTRIES,
        others::ENTRIES,
    ];
    let mut all: Vec<&Entry> = families.into_iter().flatten().collect();
    all.sort_by_key(|entry| order(entry.name()));
    all
}

/// Chapters first, by number; then what has a name.
fn order(number: &str) -> (u32, u32, String) {
    let parts = number.split_once('-').and_then(|(chapter, rest)| Some((chapter.parse().ok()?, rest)));
    match parts {
        Some((chapter, rest)) => (chapter, rest.parse().unwrap_or(u32::MAX), rest.to_owned()),
        None => (u32::MAX, 0, number.to_owned()),
    }
}

/// Runs what the arguments ask for. `told` receives a line for each step. False if a figure could not be measured.
///
/// # Errors
/// A number is unknown, the folder cannot be written, or `stop` is raised; what was measured is kept.
pub fn figure(args: &FigureArgs, stop: &AtomicBool, told: &dyn Fn(&str)) -> Result<bool> {
    let all = registry();
    let mut chosen: Vec<&Entry> = Vec::new();
    for number in &args.numbers {
        let entry = all.iter().find(|entry| entry.is(number));
        chosen.push(entry.with_context(|| format!("no figure {number}; --list shows all"))?);
    }
    if args.all {
        // Where an earlier run was cut short, it continues.
        let is_there = |entry: &Entry| is_stored(&args.out, entry.name(), args.quick);
        // Each of two builds has a pair of its own.
        let of_builds = |entry: &Entry| binaries::ENTRIES.iter().any(|one| one.name() == entry.name());
        chosen = all.iter().copied().filter(|one| matches!(one.how, How::Measured(_)) && !of_builds(one)).collect();
        let all_of_them = chosen.len();
        chosen.retain(|one| !is_there(one));
        let builds: Vec<&str> = binaries::ENTRIES.iter().map(Entry::name).collect();
        told(&format!(
            "{} figures to measure; {} are in {}; left out: {}, which compare two builds each (--binaries)",
            chosen.len(),
            all_of_them - chosen.len(),
            args.out.display(),
            builds.join(" and ")
        ));
    }
    let programs = Programs::find(args.mysqld_bin.as_deref())?;
    fs::create_dir_all(&args.out).with_context(|| format!("cannot make {}", args.out.display()))?;
    let (begun, mut failed) = (Instant::now(), Vec::new());
    for (at, entry) in chosen.iter().enumerate() {
        check_stop(stop).with_context(|| kept(&args.out))?;
        let plan = match &entry.how {
            How::Measured(plan) => plan,
            How::Diagram(place) => {
                told(&format!("{}: a diagram: {place}", entry.title()));
                continue;
            }
            How::NotHere(why) => {
                told(&format!("{}: {}: {why}", entry.title(), entry.state()));
                continue;
            }
        };
        let left = match at {
            0 => String::new(),
            _ => {
                let s = begun.elapsed().as_secs_f64() / at as f64 * (chosen.len() - at) as f64;
                format!(", about {:.0} min left", (s / 60.0).ceil())
            }
        };
        told(&format!("{} ({} of {}{left}): {}", entry.title(), at + 1, chosen.len(), entry.question));
        match measure(args, entry, plan, programs.as_ref(), stop, told) {
            Ok(stored) => {
                store(&args.out, &stored)?;
                // Whoever interrupts the next one finds this one in it.
                page::write_index(&args.out, &all)?;
                summary(&stored).lines().for_each(told);
            }
            Err(error) => {
                check_stop(stop).with_context(|| kept(&args.out))?;
                told(&format!("{}: not measured: {error:#}", entry.title()));
                failed.push(entry.title());
            }
        }
    }
    page::write_index(&args.out, &all)?;
    if !failed.is_empty() {
        told(&format!("not measured, each for the reason above: {}", failed.join(", ")));
    }
    told(&format!("{}", args.out.join("index.html").display()));
    Ok(failed.is_empty())
}

/// Where what was measured is, for whoever interrupts.
fn kept(out: &Path) -> String {
    format!("what was measured is in {}; --all continues there", out.display())
}

/// True if the folder has this figure, in a form that is at least as long.
fn is_stored(out: &Path, number: &str, quick: bool) -> bool {
    let bytes = fs::read(out.join(format!("{number}.json"))).unwrap_or_default();
    let stored: serde_json::Value = serde_json::from_slice(&bytes).unwrap_or_default();
    stored["quick"].as_bool().is_some_and(|stored| quick || !stored)
}

fn measure(
    args: &FigureArgs,
    entry: &'static Entry,
    plan: &Plan,
    programs: Option<&Programs>,
    stop: &AtomicBool,
    told: &dyn Fn(&str),
) -> Result<Stored> {
    let folder = crate::servers::empty_folder(args.folder.as_deref(), "figure")?;
    let scratch = Scratch(folder.clone());
    let rounds = args.rounds.unwrap_or(if args.quick { 2 } else { 6 });
    let context = Context {
        quick: args.quick,
        rounds,
        programs,
        mysqld_bin: args.mysqld_bin.clone(),
        binaries: &args.binaries,
        folder,
        stop,
        told,
    };
    let (started, mut conditions) = (Instant::now(), Conditions::begin());
    let found = (plan.run)(&context)?;
    conditions.end();
    drop(scratch);
    let verdict = match plan.kind {
        _ if args.quick => None,
        Kind::Ratio(claim) => of_ratios(claim, &found.ratios, &found.again),
        _ => found.judged,
    };
    let again = format!(
        "slipstream lab figure {}{}{}",
        entry.name(),
        if args.quick { " --quick" } else { "" },
        args.rounds.map_or(String::new(), |rounds| format!(" --rounds {rounds}"))
    );
    Ok(Stored {
        number: entry.name(),
        title: entry.title(),
        seed: entry.seed,
        sentence: entry.sentence,
        seeds_number: entry.number_text(),
        seeds_ratio: match plan.kind {
            Kind::Ratio(verdict::Claim::Times(times)) => Some(times),
            _ => None,
        },
        question: entry.question,
        plan: Declared {
            load: plan.load,
            factor: plan.factor,
            measure: plan.measure,
            kind: plan.kind.to_string(),
            rule: plan.rule,
        },
        quick: args.quick,
        rounds,
        interval: Interval::of(&found.ratios),
        interval_again: Interval::of(&found.again),
        verdict,
        found,
        conditions,
        build: programs::BUILD_ID,
        seconds: started.elapsed().as_secs_f64(),
        again,
    })
}

/// Writes the JSON document, the page, and the stacks if there are any: each whole, or not replaced.
fn store(out: &Path, stored: &Stored) -> Result<()> {
    let folded = stored.found.folded.clone();
    for (ending, text) in
        [("json", serde_json::to_string_pretty(stored)?), ("html", page::page(stored)?), ("folded", folded)]
    {
        if text.is_empty() {
            continue;
        }
        let path = out.join(format!("{}.{ending}", stored.number));
        let new = path.with_extension(format!("{ending}.new"));
        fs::write(&new, text).and_then(|()| fs::rename(&new, &path)).with_context(|| path.display().to_string())?;
    }
    Ok(())
}

/// Medians, ratio and verdict in a few lines.
fn summary(stored: &Stored) -> String {
    let mut out = String::new();
    for series in &stored.found.series {
        let points = series.points.iter().map(|point| match point.at.as_str() {
            "" => short(point.median()),
            at => format!("{at}: {}", short(point.median())),
        });
        out.push_str(&format!("  {:<44} {}\n", series.name, points.collect::<Vec<_>>().join("  ")));
    }
    for (name, values) in [("changed / base", &stored.found.ratios), ("base / base", &stored.found.again)] {
        if !values.is_empty() {
            let list: Vec<String> = values.iter().map(|value| format!("{value:.3}")).collect();
            out.push_str(&format!("  {name:<44} {}\n", list.join("  ")));
        }
    }
    for line in stored.found.shown.iter().chain(&stored.found.notes) {
        out.push_str(&format!("  {line}\n"));
    }
    out.push_str(&format!("  {}, {:.0} s", page::verdict_text(stored), stored.seconds));
    out
}

/// The list of all figures for a terminal.
#[must_use]
pub fn list() -> String {
    let mut out = String::new();
    for entry in registry() {
        let what = match &entry.how {
            How::Measured(plan) => format!("{}; {}", plan.kind, plan.factor),
            How::Diagram(why) | How::NotHere(why) => (*why).to_owned(),
        };
        out.push_str(&format!("{:<14} {:<9} {}\n{:<24} {what}\n", entry.title(), entry.state(), entry.question, ""));
    }
    out
}

/// `docs/figures.md`.
#[must_use]
pub fn document() -> String {
    let mut out = String::from(
        "# The documents' figures\n\nWritten from the registry, `lab/src/figures`, and checked against it by a test. \
         What each document is: 000 and 001 are\nchapter 10 of *How to Make MySQL Better*, 004 its chapter 11, 002 a post \
         on Group Replication, 003 one on WRITESET.\n\n```\nslipstream lab figure 10-22              six rounds by turns, a \
         verdict\nslipstream lab figure --all --quick      numbers of all that can be measured, no verdict\nslipstream lab \
         figure --list             how each is measured, or why not\n```\n",
    );
    for entry in registry() {
        out.push_str(&format!("\n## {}\n\n", entry.title()));
        let mut item = |name: &str, text: &str| out.push_str(&wrapped(&format!("- {name}: {text}")));
        item(&format!("Seed {}", entry.seed), &format!("\"{}\"", entry.sentence));
        item("Seed's number", &entry.number_text());
        item("Question", entry.question);
        match &entry.how {
            How::Measured(Plan { load, factor, measure, kind, rule, .. }) => {
                item("Load", load);
                item("Contenders differ in", factor);
                item("Measured", measure);
                item("Verdict", &format!("{kind}; {rule}"));
            }
            How::Diagram(place) => item("A diagram", place),
            How::NotHere(why) => item("Not here; it needs", why),
        }
    }
    out
}

/// An item of a list in lines of at most 120 columns.
fn wrapped(text: &str) -> String {
    let (mut out, mut column) = (String::new(), 0);
    for word in text.split(' ') {
        let len = word.chars().count();
        if column > 0 && column + 1 + len > 120 {
            out.push_str("\n  ");
            column = 2;
        } else if column > 0 {
            out.push(' ');
            column += 1;
        }
        out.push_str(word);
        column += len;
    }
    out.push('\n');
    out
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    /// Chapters 10 and 11 whole, six that have names, and two of ours.
    #[test]
    fn every_figure_has_one_entry() {
        let mut numbers: Vec<&str> = registry().iter().flat_map(|entry| entry.numbers.iter().copied()).collect();
        let all = numbers.len();
        let chapters = (1..=25).map(|n| format!("10-{n}")).chain((1..=27).map(|n| format!("11-{n}")));
        // The last two are of our program alone.
        let named = ["11-T", "mts-1", "mts-2", "mts-3", "003", "FRW", "PGO", "watching"].map(str::to_owned);
        let wanted: BTreeSet<String> = chapters.chain(named).collect();
        numbers.sort_unstable();
        numbers.dedup();
        assert_eq!((numbers.len(), all), (60, 60), "twice");
        assert_eq!(numbers.iter().map(|&number| number.to_owned()).collect::<BTreeSet<_>>(), wanted);
    }

    #[test]
    fn the_documents_order_is_by_number() {
        let names: Vec<&str> = registry().iter().map(|entry| entry.name()).collect();
        let at = |name: &str| names.iter().position(|other| *other == name).unwrap();
        assert!(at("10-2") < at("10-10") && at("10-25") < at("11-1") && at("11-27") < at("mts-1"), "{names:?}");
    }

    #[test]
    fn a_seeds_number_is_given_with_a_ratio_that_says_the_same() {
        for entry in registry() {
            let How::Measured(plan) = &entry.how else { continue };
            if let Kind::Ratio(verdict::Claim::Times(times)) = plan.kind {
                let (text, _) = entry.number.unwrap();
                let percent = format!("{:.1}", (times - 1.0) * 100.0);
                assert!(text.starts_with(percent.trim_end_matches(".0")), "{}: {times} and {text}", entry.name());
            }
            assert!(entry.question.ends_with('?') && !plan.rule.is_empty(), "{}", entry.name());
        }
    }

    #[test]
    fn the_document_is_the_registry() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../docs/figures.md");
        if std::env::var_os("SLIPSTREAM_WRITE_EXPECTED").is_some() {
            fs::write(path, document()).unwrap();
        }
        let written = fs::read_to_string(path).unwrap_or_default();
        assert!(
            written == document(),
            "docs/figures.md is not what lab/src/figures says; renew it: SLIPSTREAM_WRITE_EXPECTED=1 cargo test -p lab \
             --lib figures"
        );
    }

    #[test]
    fn a_quick_figure_does_not_stand_for_a_full_one() {
        let folder = tempfile::tempdir().unwrap();
        let stored = |quick| is_stored(folder.path(), "10-22", quick);
        assert!(!stored(true) && !stored(false), "not there");
        for (text, found) in
            [("{\"quick\":true}", [true, false]), ("{\"quick\":false}", [true, true]), ("{\"q", [false; 2])]
        {
            fs::write(folder.path().join("10-22.json"), text).unwrap();
            assert_eq!([stored(true), stored(false)], found, "{text}");
        }
    }

    #[test]
    fn lines_are_wrapped_between_words() {
        let text = wrapped(&format!("- a: {}", "word ".repeat(40).trim()));
        assert!(text.lines().count() == 2 && text.lines().all(|line| line.chars().count() <= 120), "{text}");
        assert!(text.lines().nth(1).unwrap().starts_with("  word"));
    }
}
