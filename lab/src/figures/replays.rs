//! Figures of replay: MySQL's applier with and without one option over a recorded log, and Slipstream over the same
//! log.
//!
//! In: a recording of TPC-C at a stock primary. Out: write transactions a second of each contender, by turns. Never
//! here: a figure of a contender whose rows were not compared with ours.

use std::path::PathBuf;

use anyhow::{Context as _, Result, ensure};
use replay::turns::{self, turns};

use super::context::Context;
use super::entry::{Entry, How, Kind, Plan};
use super::recording::{Recording, Size, record};
use super::result::{Found, Point, Series, Side, short};
use super::verdict::{Claim, of_rounds};
use crate::compare::{Bench, CompareArgs, Contender, Sample};
use crate::generate::{GenerateOptions, generate};
use crate::servers::UNSYNCED;

pub(super) const LOAD: &str =
    "TPC-C recorded at a stock primary with eight terminals, replayed with everything already received";
pub(super) const SPEED: &str = "write transactions a second";

/// The entries of this family.
pub(super) const ENTRIES: &[Entry] = &[
    Entry {
        numbers: &["10-22", "11-11"],
        seed: "000",
        sentence: "Disabling 'dual one' thus led to a 15.7% improvement in replay speed.",
        number: Some(("15.7 %, 810,000 against approximately 700,000 tpmC", 415)),
        question: "How much faster is replay when nothing is synced at a commit?",
        how: How::Measured(Plan {
            load: LOAD,
            factor: "sync_binlog and innodb_flush_log_at_trx_commit, both 1 against both 0",
            measure: SPEED,
            kind: Kind::Ratio(Claim::Times(1.157)),
            rule: "MySQL without 'dual one' is faster, by the sign test over pairs",
            run: dual_one,
        }),
    },
    Entry {
        numbers: &["10-23"],
        seed: "000",
        sentence: "Switching to minimal mode, however, increases this speed to over 890,000 tpmC, representing a \
                   significant 13% improvement.",
        number: Some(("13 %, over 890,000 against just over 790,000 tpmC", 429)),
        question: "How much faster is replay with minimal row images?",
        how: How::Measured(Plan {
            load: "the same transactions of one TPC-C terminal, recorded twice, stamped by their source's WRITESET",
            factor: "binlog_row_image, FULL against MINIMAL",
            measure: SPEED,
            kind: Kind::Ratio(Claim::Times(1.13)),
            rule: "MySQL with MINIMAL images is faster, by the sign test over pairs",
            run: row_images,
        }),
    },
    Entry {
        numbers: &["10-1"],
        seed: "000",
        sentence: "MySQL secondary replay consistently consumes significantly less CPU compared to MySQL primary.",
        number: None,
        question: "How much CPU does replaying transactions take, compared with running them?",
        how: How::Measured(Plan {
            load: "TPC-C at a stock primary with four terminals, recorded again in every round",
            factor: "who works: the primary, or a replica that replays its log",
            measure: "CPU seconds",
            kind: Kind::Ratio(Claim::Below),
            rule: "MySQL's applier takes less CPU than its primary, by the sign test over pairs",
            run: cpu_of_run,
        }),
    },
    Entry {
        numbers: &["10-2"],
        seed: "000",
        sentence: "CPU consumption on the MySQL primary is significantly higher than on the MySQL secondary.",
        number: None,
        question: "How much CPU does replaying a load take, compared with loading?",
        how: How::Measured(Plan {
            load: "TPC-C's load into a stock primary, recorded again in every round",
            factor: "who works: the primary, or a replica that replays its log",
            measure: "CPU seconds",
            kind: Kind::Ratio(Claim::Below),
            rule: "MySQL's applier takes less CPU than its primary, by the sign test over pairs",
            run: cpu_of_load,
        }),
    },
    Entry {
        numbers: &["10-7"],
        seed: "000",
        sentence: "Top two CPU-consuming threads in Group Replication secondary replay.",
        number: None,
        question: "Is the coordinator among the two threads that take most CPU?",
        how: How::Measured(Plan {
            load: LOAD,
            factor: "the thread, of one server",
            measure: "CPU seconds",
            kind: Kind::Rank,
            rule: "the coordinator is first or second in every round",
            run: busiest_threads,
        }),
    },
    Entry {
        numbers: &["10-19"],
        seed: "000",
        sentence: "The bottleneck of pending_jobs_lock has been exposed in the Performance Schema.",
        number: None,
        question: "Is pending_jobs_lock among the five latches that replay waits for most?",
        how: How::Measured(Plan {
            load: LOAD,
            factor: "the latch, of one server",
            measure: "seconds waited",
            kind: Kind::Rank,
            rule: "the lock is among the first five in every round, as its fifth place in the seed",
            run: latches,
        }),
    },
    Entry {
        numbers: &["10-14"],
        seed: "000",
        sentence: "The actual memory consumption of MySQL secondary is influenced both by the worker_queue_len_max and \
                   the number of workers.",
        number: None,
        question: "How much memory do larger queues and more workers take?",
        how: How::Measured(Plan {
            load: LOAD,
            factor: "queue size over numbers of workers: MySQL's replica_pending_jobs_size_max, ours in events",
            measure: "peak resident memory, MB",
            kind: Kind::Flat,
            rule: "ours is flat by design: in every round its largest peak is at most 1.1 times its smallest",
            run: memory,
        }),
    },
];

const fn size(context: &Context<'_>, terminals: usize) -> Size {
    match context.quick {
        true => Size { warehouses: 2, scale: 0.02, terminals, transactions: 1_500 },
        false => Size { warehouses: 4, scale: 0.2, terminals, transactions: 20_000 },
    }
}

/// A contender and its place in the picture.
pub(super) struct One {
    pub(super) name: String,
    pub(super) side: Side,
    pub(super) contender: Contender,
    pub(super) at: String,
}

impl One {
    pub(super) fn mysql(name: &str, side: Side, options: &[&str]) -> One {
        let options: Vec<String> = options.iter().map(|&option| option.to_owned()).collect();
        One { name: name.into(), side, contender: Contender::applier(name, options), at: String::new() }
    }

    pub(super) fn ours(name: &str, arguments: &[&str]) -> One {
        One {
            name: name.into(),
            side: Side::Slipstream,
            contender: Contender::ours(name, arguments),
            at: String::new(),
        }
    }

    fn at(self, at: impl Into<String>) -> One {
        One { at: at.into(), ..self }
    }

    fn named(self, name: &str) -> One {
        One { name: name.into(), ..self }
    }
}

/// A log that contenders replay.
pub(super) struct Field<'a> {
    bench: Bench<'a>,
    /// Write transactions of the measured part.
    pub(super) transactions: u64,
    pub(super) hash: String,
}

pub(super) fn field<'a>(context: &'a Context<'_>, recording: &Recording, name: &str) -> Result<Field<'a>> {
    field_over(context, vec![recording.load.clone()], recording.run.clone(), name, true)
}

/// `has_stock`: MySQL's servers are among the contenders.
fn field_over<'a>(
    context: &'a Context<'_>,
    load: Vec<PathBuf>,
    log: PathBuf,
    name: &str,
    has_stock: bool,
) -> Result<Field<'a>> {
    let args = CompareArgs {
        load,
        buffer_pool: if context.quick { "256M" } else { "1G" }.into(),
        folder: Some(context.folder.join(name)),
        ..CompareArgs::over(vec![log])
    };
    let mut bench = Bench::new(&args, Some(context.programs()?), context.stop)?;
    let facts = bench.reference(false)?;
    if has_stock {
        bench.load_stock()?;
    }
    Ok(Field { bench, transactions: facts.write_transactions, hash: facts.hash })
}

/// The same, unrolled into many times its warehouses: programs of ours replay a recording too fast to be told apart.
pub(super) fn unrolled<'a>(context: &'a Context<'_>, recording: &Recording) -> Result<Field<'a>> {
    let (out, repeat) = (context.folder.join("unrolled"), if context.quick { 20 } else { 8 });
    context.tell(&format!("unrolling it into {repeat} times as many warehouses"));
    let (load, logs) = (vec![recording.load.clone()], vec![recording.run.clone()]);
    generate(&GenerateOptions { load, logs, repeat, out: out.clone(), file_bytes: 1 << 30 })?;
    field_over(context, vec![out.join("load.index")], out.join("run.index"), "field", false)
}

pub(super) fn recorded(
    context: &Context<'_>,
    name: &str,
    terminals: usize,
    variables: &[(&str, &str)],
) -> Result<Recording> {
    context.tell(&format!("recording TPC-C at a stock primary ({terminals} terminals)"));
    record(context.programs()?, &context.folder.join(name), size(context, terminals), variables, context.stop)
}

/// Runs a contender and checks its rows.
pub(super) fn run(field: &Field<'_>, one: &One) -> Result<Sample> {
    let sample = field.bench.run(&one.contender).with_context(|| one.name.clone())?;
    ensure!(sample.difference.is_none(), "{}: rows differ: {}", one.name, sample.difference.unwrap_or_default());
    Ok(sample)
}

/// Runs all contenders, of which each has its log, by turns, every second round the other way round.
pub(super) fn by_turns(
    context: &Context<'_>,
    contenders: &[(One, &Field<'_>)],
    unit: &'static str,
    value: &dyn Fn(&Sample, &Field<'_>) -> f64,
) -> Result<Found> {
    let mut found = Found { unit, mysql_version: context.programs()?.version()?, ..Found::default() };
    for round in 0..context.rounds {
        for (one, field) in turns(contenders, round) {
            let sample = run(field, one)?;
            let value = value(&sample, field);
            let name = format!("{} {}", one.name, one.at);
            let (name, shown) = (name.trim_end(), short(value));
            context.tell(&format!("round {}/{} {name}: {shown} {unit}", round + 1, context.rounds));
            found.add((&one.name, one.side), &one.at, value, &sample.options());
        }
    }
    let mut hashes: Vec<&str> = contenders.iter().map(|(_, field)| field.hash.as_str()).collect();
    hashes.dedup();
    found.hash = Some(hashes.join(", "));
    Ok(found)
}

/// Speeds, and ratios of changed and base again to the base.
pub(super) fn pair(context: &Context<'_>, contenders: &[(One, &Field<'_>)]) -> Result<Found> {
    let speed = |sample: &Sample, field: &Field<'_>| field.transactions as f64 / sample.wall_s.max(1e-9);
    let mut found = by_turns(context, contenders, SPEED, &speed)?;
    found.ratios = ratios(&found, Side::Changed);
    found.again = ratios(&found, Side::Again);
    found.notes.push("MySQL's relay log is written and synced before the clock starts, ours while it runs.".into());
    Ok(found)
}

/// Values of a side over those of the base, round by round.
pub(super) fn ratios(found: &Found, side: Side) -> Vec<f64> {
    let values = |side| -> Vec<f64> {
        let series = found.series.iter().find(|series| series.side == side);
        series.into_iter().flat_map(|series| &series.points).flat_map(|point| point.values.iter().copied()).collect()
    };
    turns::ratios(&values(side), &values(Side::Base))
}

fn dual_one(context: &Context<'_>) -> Result<Found> {
    let recording = recorded(context, "recording", 8, &[])?;
    let field = field(context, &recording, "field")?;
    pair(
        context,
        &[
            (One::mysql("MySQL, both 1", Side::Base, &[]), &field),
            (One::mysql("MySQL, both 0", Side::Changed, &UNSYNCED), &field),
            (One::mysql("MySQL, both 1, again", Side::Again, &[]), &field),
            (One::ours("Slipstream, --relay-sync each transaction", &["--relay-sync", "every-transaction"]), &field),
            (One::ours("Slipstream, --relay-sync never", &["--relay-sync", "never"]), &field),
        ],
    )
}

fn row_images(context: &Context<'_>) -> Result<Found> {
    let images = |name: &str, image: &str| recorded(context, name, 1, &[("binlog_row_image", image)]);
    let (full, minimal) = (images("full", "'FULL'")?, images("minimal", "'MINIMAL'")?);
    let bytes = |path: &PathBuf| std::fs::metadata(path).map_or(0.0, |data| data.len() as f64 / 1e6);
    let note = format!(
        "log of the run: {:.1} MB with FULL, {:.1} MB with MINIMAL images",
        bytes(&full.run),
        bytes(&minimal.run)
    );
    let (full, minimal) = (field(context, &full, "field-full")?, field(context, &minimal, "field-minimal")?);
    ensure!(
        full.transactions == minimal.transactions,
        "{} and {} transactions: not the same ones",
        full.transactions,
        minimal.transactions
    );
    let mut found = pair(
        context,
        &[
            (One::mysql("MySQL, FULL", Side::Base, &[]), &full),
            (One::mysql("MySQL, MINIMAL", Side::Changed, &[]), &minimal),
            (One::mysql("MySQL, FULL, again", Side::Again, &[]), &full),
            (One::ours("Slipstream, FULL", &[]), &full),
            (One::ours("Slipstream, MINIMAL", &[]), &minimal),
        ],
    )?;
    found.notes.push(note);
    Ok(found)
}

fn cpu_of_run(context: &Context<'_>) -> Result<Found> {
    beside_the_primary(context, false)
}

fn cpu_of_load(context: &Context<'_>) -> Result<Found> {
    beside_the_primary(context, true)
}

/// CPU of primaries, which write the same load twice a round, and of those who replay the first log.
fn beside_the_primary(context: &Context<'_>, of_load: bool) -> Result<Found> {
    let names = [
        ("MySQL, the primary", Side::Base),
        ("MySQL, replaying", Side::Changed),
        ("MySQL, the primary, again", Side::Again),
        ("Slipstream, replaying", Side::Slipstream),
    ];
    let mut found = Found { unit: "CPU s", mysql_version: context.programs()?.version()?, ..Found::default() };
    let mut hashes = Vec::new();
    for round in 0..context.rounds {
        let recordings = [
            recorded(context, &format!("recording-{round}"), 4, &[])?,
            recorded(context, &format!("recording-{round}-again"), 4, &[])?,
        ];
        let cpu_s = recordings.each_ref().map(|one| if of_load { one.load_cpu_s } else { one.run_cpu_s });
        let [first, _] = &recordings;
        let (load, run_of) = match of_load {
            true => (Vec::new(), first.load.clone()),
            false => (vec![first.load.clone()], first.run.clone()),
        };
        let field = field_over(context, load, run_of, &format!("field-{round}"), true)?;
        let replaying = run(&field, &One::mysql("MySQL, replaying", Side::Changed, &[]))?;
        let ours = run(&field, &One::ours("Slipstream, replaying", &[]))?;
        let values = [cpu_s[0], replaying.cpu_s, cpu_s[1], ours.cpu_s];
        let words = values.map(|value| format!("{value:.2}"));
        context.tell(&format!("round {}/{}: CPU s {}", round + 1, context.rounds, words.join(", ")));
        let settings = [String::new(), replaying.options(), String::new(), ours.options()];
        for ((who, value), options) in names.into_iter().zip(values).zip(&settings) {
            found.add(who, "", value, options);
        }
        hashes.push(field.hash.clone());
    }
    found.ratios = ratios(&found, Side::Changed);
    found.again = ratios(&found, Side::Again);
    found.hash = Some(hashes.join(", "));
    found.notes.push("Replay has changes only; the primary reads too, and parses statements.".into());
    Ok(found)
}

/// Bars of one server's parts: values by name, of which the largest are kept.
fn parts(values: &mut Vec<(String, Vec<f64>)>, measured: &[(String, f64)], round: usize) {
    for (name, value) in measured {
        let at = match values.iter().position(|(known, _)| known == name) {
            Some(at) => at,
            None => {
                values.push((name.clone(), vec![0.0; round]));
                values.len() - 1
            }
        };
        if let Some((_, list)) = values.get_mut(at) {
            list.push(*value);
        }
    }
}

/// Place of a name among measured parts, from 1; 0 if it is not there.
fn place(measured: &[(String, f64)], is_it: impl Fn(&str) -> bool) -> usize {
    let mut sorted: Vec<&(String, f64)> = measured.iter().collect();
    sorted.sort_by(|a, b| b.1.total_cmp(&a.1));
    sorted.iter().position(|(name, _)| is_it(name)).map_or(0, |at| at + 1)
}

/// Runs one contender in every round and ranks what `of` reads from it.
fn ranked(
    context: &Context<'_>,
    one: &One,
    unit: &'static str,
    of: &dyn Fn(&Sample) -> Vec<(String, f64)>,
    is_it: &dyn Fn(&str) -> bool,
    places: usize,
) -> Result<Found> {
    let recording = recorded(context, "recording", 8, &[])?;
    let field = field(context, &recording, "field")?;
    let mut found = Found { unit, mysql_version: context.programs()?.version()?, ..Found::default() };
    let (mut values, mut shown) = (Vec::new(), Vec::new());
    for round in 0..context.rounds as usize {
        let sample = run(&field, one)?;
        let measured = of(&sample);
        let at = place(&measured, is_it);
        context.tell(&format!("round {}/{}: place {at} of {}", round + 1, context.rounds, measured.len()));
        parts(&mut values, &measured, round);
        shown.push((1..=places).contains(&at));
        found.shown.push(if at == 0 { "not there".into() } else { format!("place {at} of {}", measured.len()) });
        found.notes = vec![format!("settings: {}", sample.options())];
    }
    values.sort_by(|a, b| b.1.iter().sum::<f64>().total_cmp(&a.1.iter().sum()));
    values.retain(|(_, values)| values.iter().sum::<f64>() > 0.0);
    values.truncate(12);
    found.series = values
        .into_iter()
        .map(|(name, values)| Series { name, points: vec![Point { values, ..Point::default() }], ..Series::default() })
        .collect();
    found.judged = of_rounds(&true, Some(&false), &shown);
    found.hash = Some(field.hash);
    Ok(found)
}

fn busiest_threads(context: &Context<'_>) -> Result<Found> {
    let one = One::mysql("MySQL", Side::Base, &[]);
    ranked(context, &one, "CPU s", &|sample| sample.threads.clone(), &|name| name.starts_with("rpl_rca_sql"), 2)
}

fn latches(context: &Context<'_>) -> Result<Found> {
    let options = ["--performance-schema=ON", "--performance-schema-instrument=wait/synch/mutex/%=ON"];
    let asked =
        "SELECT EVENT_NAME, SUM_TIMER_WAIT / 1e12 FROM performance_schema.events_waits_summary_global_by_event_name
                 WHERE EVENT_NAME LIKE 'wait/synch/mutex/%' AND SUM_TIMER_WAIT > 0 ORDER BY 2 DESC LIMIT 40";
    let mut one = One::mysql("MySQL", Side::Base, &options);
    one.contender.ask = Some(asked);
    ranked(context, &one, "s waited", &|sample| sample.asked.clone(), &|name| name.ends_with("pending_jobs_lock"), 5)
}

fn memory(context: &Context<'_>) -> Result<Found> {
    let recording = recorded(context, "recording", 8, &[])?;
    let field = field(context, &recording, "field")?;
    let workers: &[&str] = if context.quick { &["2", "8"] } else { &["2", "8", "16", "32"] };
    let mut contenders = Vec::new();
    for &number in workers {
        let (of_workers, at) = (format!("--replica-parallel-workers={number}"), number);
        for (name, size) in [("MySQL, 128 MB", "128M"), ("MySQL, 1 GB", "1G")] {
            let size = format!("--replica-pending-jobs-size-max={size}");
            contenders.push((One::mysql(name, Side::Base, &[&of_workers, &size]).at(at), &field));
        }
        for (name, events) in [("Slipstream, 16,384 events", "16384"), ("Slipstream, 1,048,576 events", "1048576")] {
            let arguments = ["--grain", "transactions", "--workers", number, "--worker-queue-events", events];
            contenders.push((One::ours(name, &arguments).named(name).at(at), &field));
        }
    }
    let mut found = by_turns(context, &contenders, "MB", &|sample, _| sample.peak_rss_bytes as f64 / 1e6)?;
    found.axis = Some("workers");
    let mut flat = Vec::new();
    for round in 0..context.rounds as usize {
        let ours = found.series.iter().filter(|series| series.side == Side::Slipstream);
        let peaks: Vec<f64> =
            ours.flat_map(|series| &series.points).filter_map(|point| point.values.get(round).copied()).collect();
        let (least, most) = peaks.iter().fold((f64::MAX, 0.0f64), |(a, b), &peak| (a.min(peak), b.max(peak)));
        flat.push(most <= 1.1 * least);
        found.shown.push(format!("ours {least:.0} to {most:.0} MB"));
    }
    found.judged = of_rounds(&true, Some(&false), &flat);
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_counted_from_the_largest() {
        let measured = [("a".to_owned(), 1.0), ("b".to_owned(), 3.0), ("c".to_owned(), 2.0)];
        let place = |name: &str| super::place(&measured, |other| other == name);
        assert_eq!((place("b"), place("c"), place("a"), place("d")), (1, 2, 3, 0));
    }

    #[test]
    fn ratios_are_taken_round_by_round() {
        let series = |name: &str, side, values: &[f64]| Series {
            name: name.into(),
            side,
            points: vec![Point { values: values.to_vec(), ..Point::default() }],
        };
        let found = Found {
            series: vec![
                series("b", Side::Base, &[100.0, 50.0]),
                series("c", Side::Changed, &[110.0, 100.0]),
                series("a", Side::Again, &[100.0, 55.0]),
            ],
            ..Found::default()
        };
        assert_eq!(ratios(&found, Side::Changed), [1.1, 2.0]);
        assert_eq!(ratios(&found, Side::Again), [1.0, 1.1]);
    }
}
