//! Figures of a replica that follows: 10-16, a primary under TPC-C by terminals, and 10-13, the threads of ours.
//!
//! In: `lab balance`'s tries. Out: tpmC by terminals, and whether each was followed; CPU by thread. Never here: a rule
//! of following other than `lab balance`'s.

use std::collections::BTreeMap;

use anyhow::{Context as _, Result};
use replay::turns::turns;

use super::context::Context;
use super::entry::{Entry, How, Kind, Plan};
use super::replays::recorded;
use super::result::{Found, Side};
use super::verdict::of_rounds;
use crate::balance::series::Verdict;
use crate::balance::{self, BalanceArgs, Balanced, Length};
use crate::servers::check_stop;

/// The entries of this family.
pub(super) const ENTRIES: &[Entry] = &[
    Entry {
        numbers: &["10-16"],
        seed: "000",
        sentence: "If the processing speed of the MySQL primary exceeds the balanced replay speed, the secondaries may \
                   not keep up.",
        number: Some(("70 terminals, 245,439 tpmC", 308)),
        question: "From how many terminals on does a secondary no longer follow?",
        how: How::Measured(Plan {
            load: "TPC-C at a stock primary by terminals, with a replica on the same cores; then its log by lab source",
            factor: "who follows: MySQL as it ships, or Slipstream",
            measure: "tpmC",
            kind: Kind::Crossing,
            rule: "in every round MySQL follows at the fewest terminals, and not at the most",
            run: by_terminals,
        }),
    },
    Entry {
        numbers: &["10-13"],
        seed: "000",
        sentence: "SQL thread appears as six separate threads in 'top' display.",
        number: None,
        question: "Which threads does the SQL thread become?",
        how: How::Measured(Plan {
            load: "TPC-C recorded at a stock primary with four terminals, served by lab source as fast as it is taken",
            factor: "the thread, of one replica of ours",
            measure: "CPU seconds",
            kind: Kind::Rank,
            rule: "in every round receiving, splitting, decoding, sequencing and applying have threads of their own",
            run: threads,
        }),
    },
];

fn arguments(context: &Context<'_>, name: &str) -> BalanceArgs {
    BalanceArgs {
        logs: Vec::new(),
        load: Vec::new(),
        primary: false,
        terminals: Vec::new(),
        warehouses: if context.quick { 2 } else { 4 },
        scale: if context.quick { 0.02 } else { 0.2 },
        contender: Vec::new(),
        length: if context.quick { Length::Quick } else { Length::Standard },
        lag_max: 1.0,
        from: None,
        searches: 1,
        within: None,
        buffer_pool: if context.quick { "256M" } else { "1G" }.into(),
        mysqld_bin: context.mysqld_bin.clone(),
        folder: Some(context.folder.join(name)),
        json: false,
    }
}

/// Contenders and the numbers of terminals at which each is tried: MySQL where it may stop following, ours at the most.
fn tried(context: &Context<'_>) -> [(&'static str, Vec<usize>); 2] {
    match context.quick {
        true => [("mysql", vec![1, 8]), ("slipstream", vec![8])],
        false => [("mysql", vec![1, 4, 16]), ("slipstream", vec![16])],
    }
}

fn by_terminals(context: &Context<'_>) -> Result<Found> {
    let mut found = Found {
        unit: "tpmC",
        axis: Some("terminals"),
        mysql_version: context.programs()?.version()?,
        notes: vec![
            "The primary shares the cores with the replica: a statement about this machine.".into(),
            "A hollow point was not followed in at least one round, by the rules of lab balance.".into(),
        ],
        ..Found::default()
    };
    let mut signs = Vec::new();
    for round in 0..context.rounds {
        for (name, terminals) in turns(tried(context), round) {
            let args = BalanceArgs {
                primary: true,
                terminals,
                contender: vec![name.parse().map_err(anyhow::Error::msg)?],
                ..arguments(context, &format!("{name}-{round}"))
            };
            let report = balance::balance(&args, context.stop, context.told)?;
            let one = report.contenders.first().context("no contender")?;
            add(&mut found, one, name);
            if name == "mysql" {
                let follows: Vec<bool> = tries(one).map(|one| one.verdict == Verdict::Follows).collect();
                let place = tries(one).find(|one| one.verdict != Verdict::Follows).and_then(|one| one.terminals);
                found.shown.push(place.map_or("MySQL follows at every number of terminals".to_owned(), |terminals| {
                    format!("MySQL does not follow {terminals} terminals")
                }));
                signs.push(match (follows.first(), follows.last()) {
                    (Some(true), Some(false)) => 1,
                    (Some(true), Some(true)) => -1,
                    _ => 0,
                });
            }
        }
    }
    found.judged = of_rounds(&1, Some(&-1), &signs);
    beside_a_log(context, &mut found)?;
    Ok(found)
}

fn tries(one: &Balanced) -> impl Iterator<Item = &balance::Try> {
    one.searches.iter().flat_map(|search| &search.tries)
}

fn add(found: &mut Found, one: &Balanced, name: &str) {
    let side = if name == "mysql" { Side::Base } else { Side::Slipstream };
    let title = if name == "mysql" { "followed by MySQL" } else { "followed by Slipstream" };
    for tried in tries(one) {
        let at = tried.terminals.unwrap_or(0).to_string();
        found.add((title, side), &at, tried.tpmc.unwrap_or(0.0), &one.options);
        if tried.verdict != Verdict::Follows {
            found.mark((title, side), &at);
        }
    }
}

/// The same replica with a source that costs no CPU, for comparison.
fn beside_a_log(context: &Context<'_>, found: &mut Found) -> Result<()> {
    if context.quick {
        found.notes.push("The quick form leaves out what the same replica follows of lab source.".into());
        return Ok(());
    }
    let recording = recorded(context, "recording", 8, &[])?;
    let args = BalanceArgs {
        load: vec![recording.load],
        logs: vec![recording.run],
        contender: vec!["mysql".parse().map_err(anyhow::Error::msg)?],
        length: Length::Quick,
        ..arguments(context, "log")
    };
    let report = balance::balance(&args, context.stop, context.told)?;
    let answer = report.contenders.first().and_then(|one| one.searches.first()).and_then(|search| search.answer);
    let text = answer.map_or("nothing".to_owned(), |answer| answer.to_string());
    found
        .notes
        .push(format!("Of lab source MySQL alone on the cores follows, in transactions/s (windows of 15 s): {text}."));
    Ok(())
}

/// Names of threads without their numbers.
fn by_stage(threads: &[(u32, String, f64)]) -> BTreeMap<String, f64> {
    let mut stages = BTreeMap::new();
    for (_, name, seconds) in threads {
        let stage = name.trim_end_matches(|c: char| c.is_ascii_digit()).trim_end_matches('-');
        *stages.entry(stage.to_owned()).or_default() += seconds;
    }
    stages
}

const STAGES: [&str; 5] = ["receive", "split", "decode", "sequence", "apply"];

fn threads(context: &Context<'_>) -> Result<Found> {
    let recording = recorded(context, "recording", 4, &[])?;
    let mut found = Found { unit: "CPU s", mysql_version: context.programs()?.version()?, ..Found::default() };
    let mut all_there = Vec::new();
    for round in 0..context.rounds {
        let data = context.folder.join(format!("replica-{round}"));
        let seen = balance::threads_after(&recording.load, &recording.run, &data, context.stop)?;
        let stages = by_stage(&seen);
        let has = STAGES.iter().all(|stage| stages.contains_key(*stage));
        let names: Vec<&str> = STAGES.into_iter().filter(|stage| stages.contains_key(*stage)).collect();
        context.tell(&format!("round {}/{}: {}", round + 1, context.rounds, names.join(", ")));
        found.shown.push(format!("threads: {}", names.join(", ")));
        all_there.push(has);
        for stage in STAGES {
            let cpu_s = stages.get(stage).copied().unwrap_or(0.0);
            found.add((stage, Side::Slipstream), "", cpu_s, "all threads of this name");
        }
        check_stop(context.stop)?;
        std::fs::remove_dir_all(&data)?;
    }
    found.judged = of_rounds(&true, Some(&false), &all_there);
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn threads_of_one_stage_are_summed() {
        let thread = |name: &str, seconds| (1, name.to_owned(), seconds);
        let stages = by_stage(&[thread("apply-0", 1.0), thread("apply-11", 2.0), thread("relay-sync", 4.0)]);
        assert_eq!(stages.get("apply"), Some(&3.0));
        assert_eq!(stages.get("relay-sync"), Some(&4.0));
    }
}
