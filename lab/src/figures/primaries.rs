//! Figures of a primary: TPC-C at a stock server with and without one option, over numbers of terminals.
//!
//! In: a folder that TPC-C was loaded into once. Out: tpmC by terminals for both sides, by turns; whether TPC-C's
//! consistency conditions hold; whether Slipstream followed. Never here: a run on data that another run has changed.

use std::fs;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, ensure};
use replay::turns::{ratios, turns};

use super::allocators::{FACTOR, RULE, allocators};
use super::context::Context;
use super::entry::{Entry, How, Kind, Plan};
use super::following;
use super::recording::{Size, options};
use super::result::{Found, Side};
use super::verdict::{Claim, Verdict, of_rounds};
use crate::reported::{Reported, variable_of};
use crate::servers::{Server, UNSYNCED, check_stop, copy_folder};
use crate::tpcc::{self, Limit, Style, TpccOptions};

const LOAD: &str = "TPC-C at a stock primary that has the cores to itself, by terminals, no think time";
const TPMC: &str = "tpmC";

const fn ratio(factor: &'static str, rule: &'static str, run: fn(&Context<'_>) -> Result<Found>) -> How {
    How::Measured(Plan { load: LOAD, factor, measure: TPMC, kind: Kind::Ratio(Claim::Above), rule, run })
}

/// The entries of this family.
pub(super) const ENTRIES: &[Entry] = &[
    Entry {
        numbers: &["11-9"],
        seed: "004",
        sentence: "Disabling 'dual one' significantly improves throughput. However, this performance gain diminishes as \
                   concurrency increases.",
        number: None,
        question: "Does the gain without 'dual one' become less with more terminals?",
        how: How::Measured(Plan {
            load: LOAD,
            factor: "sync_binlog and innodb_flush_log_at_trx_commit, both 1 against both 0",
            measure: TPMC,
            kind: Kind::Trend,
            rule: "in every round there is a gain at the fewest terminals, and a smaller one at the most",
            run: dual_one,
        }),
    },
    Entry {
        numbers: &["11-19"],
        seed: "004",
        sentence: "Achieve better performance with performance_schema off.",
        number: None,
        question: "Does a primary gain without the Performance Schema?",
        how: ratio(
            "performance_schema, ON against OFF",
            "without it there are more transactions, over all terminals, by the sign test over pairs",
            performance_schema,
        ),
    },
    Entry {
        numbers: &["11-12"],
        seed: "004",
        sentence: "Achieve better performance with binlog disabled.",
        number: None,
        question: "Does a primary gain without a binary log?",
        how: ratio(
            "the binary log, on against off",
            "without it there are more transactions, over all terminals, by the sign test over pairs",
            binary_log,
        ),
    },
    Entry {
        numbers: &["11-13"],
        seed: "004",
        sentence: "Achieve better performance with spin delay 20 in MySQL 8.0.21.",
        number: None,
        question: "Does a primary gain by spinning longer?",
        how: ratio(
            "innodb_spin_wait_delay, 6 against 20",
            "with 20 there are more transactions, over all terminals, by the sign test over pairs",
            spin_delay,
        ),
    },
    Entry {
        numbers: &["11-17"],
        seed: "004",
        sentence: "Disabling binlog_order_commits results in a noticeable improvement in TPC-C throughput under \
                   different concurrency levels.",
        number: None,
        question: "Does a primary gain by commits out of order?",
        how: ratio(
            "binlog_order_commits, ON against OFF",
            "out of order there are more transactions, over all terminals, by the sign test over pairs",
            order_commits,
        ),
    },
    Entry {
        numbers: &["11-23"],
        seed: "004",
        sentence: "Achieve higher peak throughput with doublewrite disabled.",
        number: None,
        question: "Does a primary gain without the doublewrite buffer?",
        how: ratio(
            "innodb_doublewrite, ON against OFF",
            "without it there are more transactions, over all terminals, by the sign test over pairs",
            doublewrite,
        ),
    },
    Entry {
        numbers: &["11-24"],
        seed: "004",
        sentence: "Using binlog_row_image=minimal provides a moderate improvement in throughput for the MySQL primary.",
        number: None,
        question: "Does a primary gain by minimal row images?",
        how: ratio(
            "binlog_row_image, FULL against MINIMAL",
            "with MINIMAL there are more transactions, over all terminals, by the sign test over pairs",
            row_images,
        ),
    },
    Entry {
        numbers: &["11-27"],
        seed: "004",
        sentence: "Increasing the buffer pool size does not always lead to higher throughput.",
        number: None,
        question: "Is there a buffer pool that is better than a larger one?",
        how: How::Measured(Plan {
            load: LOAD,
            factor: "innodb_buffer_pool_size",
            measure: TPMC,
            kind: Kind::InnerOptimum,
            rule: "in every round a size between the ends is the best one",
            run: buffer_pool,
        }),
    },
    Entry {
        numbers: &["11-7"],
        seed: "004",
        sentence: "Jemalloc 4.5 outperforms jemalloc 3.6 in terms of performance.",
        number: None,
        question: "Does a primary gain by the memory allocator?",
        how: How::Measured(Plan {
            load: LOAD,
            factor: FACTOR,
            measure: TPMC,
            kind: Kind::Ratio(Claim::OfAnotherFactor),
            rule: RULE,
            run: by_allocator,
        }),
    },
    Entry {
        numbers: &["11-T"],
        seed: "004",
        sentence: "Reducing the number of network interactions with MySQL during application development can \
                   significantly improve performance.",
        number: Some(("1066021.000 TpmC, of a group on large machines", 103)),
        question: "How many more transactions are there with one round trip each?",
        how: ratio(
            "the round trips of a transaction: one for each statement against one",
            "with one there are more transactions, over all terminals, by the sign test over pairs",
            round_trips,
        ),
    },
];

/// One side of a figure.
struct Way {
    name: &'static str,
    side: Side,
    options: Vec<String>,
    style: Style,
    /// What every session sets.
    variables: Vec<(&'static str, &'static str)>,
    /// Libraries that the server loads first.
    preload: Option<PathBuf>,
}

impl Way {
    fn new(name: &'static str, side: Side, options: &[&str]) -> Way {
        let options = options.iter().map(|&option| option.to_owned()).collect();
        Way { name, side, options, style: Style::Statements, variables: Vec::new(), preload: None }
    }
}

/// Base, changed, and base again.
fn ways(base: (&'static str, &[&str]), changed: (&'static str, &[&str]), again: &'static str) -> Vec<Way> {
    vec![
        Way::new(base.0, Side::Base, base.1),
        Way::new(changed.0, Side::Changed, changed.1),
        Way::new(again, Side::Again, base.1),
    ]
}

/// Options of every primary here.
const COMMON: [&str; 4] = ["--gtid-mode=ON", "--enforce-gtid-consistency=ON", "--server-id=1", "--log-bin=binlog"];

const fn size(context: &Context<'_>) -> Size {
    match context.quick {
        true => Size { warehouses: 2, scale: 0.02, terminals: 1, transactions: 0 },
        false => Size { warehouses: 8, scale: 0.2, terminals: 1, transactions: 0 },
    }
}

/// Numbers of terminals, in the order in which one server sees them.
fn terminals(context: &Context<'_>) -> Vec<usize> {
    if context.quick { vec![1, 8] } else { vec![1, 4, 16, 32] }
}

/// Seconds of one measurement.
const fn seconds(context: &Context<'_>) -> u64 {
    if context.quick { 5 } else { 20 }
}

/// Loads TPC-C once; every run starts from a copy.
fn prepare(context: &Context<'_>) -> Result<()> {
    context.tell("loading TPC-C into a stock primary");
    let (data, programs) = (context.folder.join("loaded"), context.programs()?);
    programs.initialise(&data, context.stop)?;
    let mut given: Vec<String> = COMMON.map(str::to_owned).to_vec();
    given.extend(UNSYNCED.map(str::to_owned));
    let server = Server::start(programs, &data, &given, context.stop)?;
    tpcc::prepare(&options(&server, size(context), &[]), &mut std::io::sink())?;
    let mut connection = server.connect()?;
    connection.exec("FLUSH BINARY LOGS")?;
    connection.exec("PURGE BINARY LOGS BEFORE NOW() + INTERVAL 1 DAY")?;
    drop(connection);
    server.shut_down(context.stop)?;
    // Copies are servers of their own.
    let _ = fs::remove_file(data.join("auto.cnf"));
    Ok(())
}

fn driver(context: &Context<'_>, server: &Server, way: &Way, terminals: usize, length: Duration) -> TpccOptions {
    TpccOptions {
        terminals,
        style: way.style,
        limit: Limit::Duration(length),
        ..options(server, size(context), &way.variables)
    }
}

/// tpmC by terminals of one way, from the loaded folder to the check of its rows; and its options as reported.
fn run(context: &Context<'_>, way: &Way) -> Result<(Vec<f64>, String)> {
    let data = context.folder.join("primary");
    copy_folder(&context.folder.join("loaded"), &data, context.stop)?;
    let mut given: Vec<String> = COMMON.map(str::to_owned).to_vec();
    given.extend(way.options.iter().cloned());
    let programs = match &way.preload {
        Some(library) => &context.programs()?.preloading(library, &[]),
        None => context.programs()?,
    };
    let server = Server::start(programs, &data, &given, context.stop)?;
    // A log that is on is not listed, one that is off has to be.
    let common = COMMON.iter().map(|option| variable_of(option)).filter(|name| name != "log_bin");
    let common: Vec<String> = common.collect();
    let reported = Reported::read(&mut server.connect()?)?.text_without(&common);
    let reported = format!("{reported}, {}", server.allocator());
    let drive = |terminals, length| {
        check_stop(context.stop)?;
        tpcc::run(&driver(context, &server, way, terminals, length), &mut std::io::sink())
    };
    let all = terminals(context);
    // Rows that are read are then in memory.
    drive(all.last().copied().unwrap_or(1), Duration::from_secs(if context.quick { 2 } else { 10 }))?;
    let mut found = Vec::new();
    for &terminals in &all {
        found.push(drive(terminals, Duration::from_secs(seconds(context)))?.tpmc);
    }
    let check = tpcc::check(&options(&server, size(context), &[]))?;
    ensure!(check.is_consistent(), "{}: TPC-C's consistency conditions do not hold: {check}", way.name);
    server.shut_down(context.stop)?;
    fs::remove_dir_all(&data).with_context(|| format!("cannot remove {}", data.display()))?;
    Ok((found, reported))
}

/// Runs all ways by turns, every second round the other way round.
fn sweep(context: &Context<'_>, ways: &[Way]) -> Result<Found> {
    prepare(context)?;
    let mut found = Found {
        unit: TPMC,
        axis: Some("terminals"),
        mysql_version: context.programs()?.version()?,
        notes: vec![
            "Not a TPC-C result: no think time, a small population.".into(),
            "More terminals than cores show the machine's scheduling, too.".into(),
        ],
        ..Found::default()
    };
    for round in 0..context.rounds {
        for way in turns(ways, round) {
            let (tpmc, reported) = run(context, way)?;
            let words: Vec<String> = tpmc.iter().map(|value| format!("{value:.0}")).collect();
            context.tell(&format!("round {}/{} {}: {} tpmC", round + 1, context.rounds, way.name, words.join(", ")));
            let variables: Vec<String> = way.variables.iter().map(|(name, value)| format!("{name}={value}")).collect();
            let options = [vec![reported], variables].concat().join(" ");
            for (terminals, value) in terminals(context).iter().zip(tpmc) {
                found.add((way.name, way.side), &terminals.to_string(), value, &options);
            }
        }
    }
    Ok(found)
}

/// Values of a side in a round, by terminals.
fn values(found: &Found, side: Side, round: usize) -> Vec<f64> {
    let series = found.series.iter().find(|series| series.side == side);
    series.into_iter().flat_map(|one| &one.points).filter_map(|point| point.values.get(round).copied()).collect()
}

/// Gains of a side over the base in a round, by terminals.
pub(super) fn gains(found: &Found, side: Side, round: usize) -> Vec<f64> {
    ratios(&values(found, side, round), &values(found, Side::Base, round))
}

pub(super) fn geometric_mean(values: &[f64]) -> f64 {
    (values.iter().map(|value| value.max(f64::MIN_POSITIVE).ln()).sum::<f64>() / values.len().max(1) as f64).exp()
}

/// A figure whose verdict is on the ratio over all terminals.
fn over_all(context: &Context<'_>, ways: &[Way]) -> Result<Found> {
    let mut found = sweep(context, ways)?;
    add_ratios(&mut found, context.rounds);
    Ok(found)
}

/// Ratios of all rounds.
pub(super) fn add_ratios(found: &mut Found, rounds: u32) {
    for round in 0..rounds as usize {
        let mean = |side| geometric_mean(&gains(found, side, round));
        let (changed, again) = (mean(Side::Changed), mean(Side::Again));
        found.ratios.push(changed);
        found.again.push(again);
    }
    found.notes.push("The ratio of a pair is the geometric mean over all numbers of terminals.".into());
}

/// Starts a replica of a primary under the base's load and says whether it followed.
fn follow(context: &Context<'_>, way: &Way) -> Result<String> {
    context.tell(&format!("Slipstream follows a primary, {}", way.name));
    let data = context.folder.join("primary");
    copy_folder(&context.folder.join("loaded"), &data, context.stop)?;
    let mut given: Vec<String> = COMMON.map(str::to_owned).to_vec();
    given.extend(way.options.iter().cloned());
    let server = Server::start(context.programs()?, &data, &given, context.stop)?;
    let last = terminals(context).last().copied().unwrap_or(1);
    let length = Duration::from_secs(seconds(context));
    let told = following::follow(context, &server.url(), &server.address(), || {
        let report = tpcc::run(&driver(context, &server, way, last, length), &mut std::io::sink())?;
        Ok((format!("{last} terminals ({:.0} tpmC)", report.tpmc), Instant::now()))
    })?;
    drop(server);
    fs::remove_dir_all(&data).with_context(|| format!("cannot remove {}", data.display()))?;
    Ok(told)
}

/// Adds what became of a replica of the changed side. A failure of it is a note: the figure is MySQL's.
fn followed(context: &Context<'_>, ways: &[Way], found: Result<Found>) -> Result<Found> {
    let mut found = found?;
    if let Some(way) = ways.iter().find(|way| way.side == Side::Changed) {
        let line = follow(context, way);
        found.notes.push(line.unwrap_or_else(|error| format!("Slipstream did not follow that run: {error:#}")));
    }
    Ok(found)
}

fn dual_one(context: &Context<'_>) -> Result<Found> {
    let ways = ways(("both 1", &[]), ("both 0", &UNSYNCED), "both 1, again");
    let mut found = sweep(context, &ways)?;
    let mut falls = Vec::new();
    for round in 0..context.rounds as usize {
        let gains = gains(&found, Side::Changed, round);
        let (few, many) = (gains.first().copied().unwrap_or(1.0), gains.last().copied().unwrap_or(1.0));
        falls.push(if few > 1.0 && many < few {
            1
        } else if few > 1.0 && many > few {
            -1
        } else {
            0
        });
        found.shown.push(format!("{few:.2} times at the fewest terminals, {many:.2} at the most"));
    }
    found.judged = of_rounds(&1, Some(&-1), &falls);
    followed(context, &ways, Ok(found))
}

fn performance_schema(context: &Context<'_>) -> Result<Found> {
    let (on, off) = (["--performance-schema=ON"], ["--performance-schema=OFF"]);
    let ways = ways(("P_S on", &on), ("P_S off", &off), "P_S on, again");
    followed(context, &ways, over_all(context, &ways))
}

fn binary_log(context: &Context<'_>) -> Result<Found> {
    let ways = ways(("binary log", &[]), ("none", &["--skip-log-bin"]), "binary log, again");
    let mut found = over_all(context, &ways)?;
    found.notes.push("Without a binary log there is nothing that a replica could follow.".into());
    Ok(found)
}

fn spin_delay(context: &Context<'_>) -> Result<Found> {
    let ways = ways(
        ("delay 6", &["--innodb-spin-wait-delay=6"]),
        ("delay 20", &["--innodb-spin-wait-delay=20"]),
        "delay 6, again",
    );
    let mut found = followed(context, &ways, over_all(context, &ways))?;
    found.notes.push(
        "Spinning pays between cores that wait for one another's cache: on two cores little is to be seen.".into(),
    );
    Ok(found)
}

fn order_commits(context: &Context<'_>) -> Result<Found> {
    let ways = ways(("in order", &[]), ("out of order", &["--binlog-order-commits=OFF"]), "in order, again");
    followed(context, &ways, over_all(context, &ways))
}

fn doublewrite(context: &Context<'_>) -> Result<Found> {
    let ways = ways(("doublewrite", &[]), ("none", &["--innodb-doublewrite=OFF"]), "doublewrite, again");
    followed(context, &ways, over_all(context, &ways))
}

fn row_images(context: &Context<'_>) -> Result<Found> {
    let image = |name, side, image| Way { variables: vec![("binlog_row_image", image)], ..Way::new(name, side, &[]) };
    let ways = vec![
        image("FULL", Side::Base, "'FULL'"),
        image("MINIMAL", Side::Changed, "'MINIMAL'"),
        image("FULL, again", Side::Again, "'FULL'"),
    ];
    followed(context, &ways, over_all(context, &ways))
}

fn round_trips(context: &Context<'_>) -> Result<Found> {
    let style = |name, side, style| Way { style, ..Way::new(name, side, &[]) };
    let ways = vec![
        style("statements", Side::Base, Style::Statements),
        style("procedures", Side::Changed, Style::Procedures),
        style("statements, again", Side::Again, Style::Statements),
    ];
    let mut found = followed(context, &ways, over_all(context, &ways))?;
    found.notes.push("Client and server are on one machine: a round trip costs no network.".into());
    Ok(found)
}

fn by_allocator(context: &Context<'_>) -> Result<Found> {
    let (allocators, missing) = allocators(context.programs()?)?;
    let mut ways = vec![Way::new("as packaged", Side::Base, &[])];
    ways.extend(
        allocators.into_iter().map(|one| Way { preload: Some(one.preload), ..Way::new(one.name, one.side, &[]) }),
    );
    ways.push(Way::new("as packaged, again", Side::Again, &[]));
    let mut found = followed(context, &ways, over_all(context, &ways))?;
    found.notes.extend(missing);
    Ok(found)
}

fn buffer_pool(context: &Context<'_>) -> Result<Found> {
    let sizes: [(&'static str, &'static str); 4] = [("16M", "16M"), ("64M", "64M"), ("256M", "256M"), ("1G", "1G")];
    let ways: Vec<Way> = sizes
        .iter()
        .map(|&(name, size)| {
            let options = vec![format!("--innodb-buffer-pool-size={size}")];
            Way { options, ..Way::new(name, Side::Base, &[]) }
        })
        .collect();
    let mut found = sweep(context, &ways)?;
    let mut inner = Vec::new();
    for round in 0..context.rounds as usize {
        let means: Vec<f64> = found
            .series
            .iter()
            .map(|series| {
                let values: Vec<f64> =
                    series.points.iter().filter_map(|point| point.values.get(round).copied()).collect();
                geometric_mean(&values)
            })
            .collect();
        let best =
            (0..means.len()).max_by(|&a, &b| means.get(a).unwrap_or(&0.0).total_cmp(means.get(b).unwrap_or(&0.0)));
        let best = best.unwrap_or(0);
        inner.push(best > 0 && best + 1 < means.len());
        found.shown.push(format!("best with {}", sizes.get(best).map_or("?", |size| size.0)));
    }
    found.judged = of_rounds(&true, None, &inner).map(|verdict| match inner.iter().any(|&one| one) {
        // Never between the ends: the seed's claim is not seen, in any round.
        false => Verdict::Opposite,
        true => verdict,
    });
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::super::result::{Point, Series};
    use super::*;

    #[test]
    fn gains_are_by_terminals_and_their_mean_is_geometric() {
        let series = |side, values: [f64; 2]| Series {
            side,
            points: values.map(|value| Point { values: vec![value], ..Point::default() }).to_vec(),
            ..Series::default()
        };
        let found = Found {
            series: vec![series(Side::Base, [100.0, 200.0]), series(Side::Changed, [200.0, 100.0])],
            ..Found::default()
        };
        let gains = gains(&found, Side::Changed, 0);
        assert_eq!(gains, [2.0, 0.5]);
        assert!((geometric_mean(&gains) - 1.0).abs() < 1e-9);
    }
}
