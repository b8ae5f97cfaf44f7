//! Figures of Group Replication: TPC-C at members of a stock group, and how late the others have them.
//!
//! In: a folder that TPC-C was loaded into, which every member begins with. Out: tpmC and transactions a second, queues
//! by second, whether members keep up; whether Slipstream followed. Never here: a member with rows that differ, a queue
//! that flow control kept short.

use std::collections::BTreeMap;
use std::fs;
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use anyhow::{Context as _, Result, anyhow, ensure};
use replay::turns::turns;

use super::context::Context;
use super::entry::{Entry, How, Kind, Plan};
use super::following;
use super::primaries::{add_ratios, gains};
use super::recording::{Size, options};
use super::result::{Found, Side};
use super::verdict::{Claim, NOISE, of_rounds};
use crate::balance::series::{Look, Shown, Verdict, Window, rate};
use crate::group::{self, Group, Wanted};
use crate::servers::{Server, UNSYNCED, check_stop};
use crate::tpcc::{self, Limit, Style, TpccOptions, TpccReport};

const LOAD: &str = "TPC-C at a group of three stock members on one machine, by terminals, no think time";
/// Six databases, because six is the least number that two and three writers share evenly.
const SIX: &str = "TPC-C in six databases at a group of stock members on one machine; who writes to which is the only \
                   thing that differs between writers";
const DATABASES: usize = 6;
/// Lag that a member may have, as in lab balance.
const LAG_MAX_S: f64 = 1.0;
/// How long the members of a way take a byte to each other in figure 11-26.
const DELAY: Duration = Duration::from_millis(10);

/// The entries of this family.
pub(super) const ENTRIES: &[Entry] = &[
    Entry {
        numbers: &["10-25"],
        seed: "000",
        sentence: "At 150 concurrency, throughput is high with nearly zero delay, whereas at 200 concurrency, throughput \
                   is slightly reduced with a 2-second delay.",
        number: None,
        question: "From how many terminals on do a group's secondaries no longer follow?",
        how: How::Measured(Plan {
            load: "TPC-C by procedures, row images MINIMAL, nothing synced, at the primary of three stock members",
            factor: "the number of terminals",
            measure: "tpmC; followed if the backlog of the slowest member does not grow, p99 of its lag is at most 1 s, \
                      and it drains within 2 s",
            kind: Kind::Crossing,
            rule: "in every round the members follow at the fewest terminals, and not at the most",
            run: by_terminals,
        }),
    },
    Entry {
        numbers: &["11-20", "11-22"],
        seed: "004",
        sentence: "The replay queue size in Group Replication increases after enabling the Performance Schema. (11-22: \
                   does not increase after disabling it.)",
        number: None,
        question: "Does a member's queue grow with the Performance Schema, and stay short without it?",
        how: How::Measured(Plan {
            load: "TPC-C at the primary of three stock members, with the same terminals",
            factor: "performance_schema of all members, ON against OFF",
            measure: "transactions behind, by second of the load: the primary's gtid_executed without the slowest \
                      member's, and the longest queue that an applier tells of",
            kind: Kind::Trend,
            rule: "in every round the backlog grows by more than 0.5 % of the rate with it, and does not without it",
            run: performance_schema,
        }),
    },
    Entry {
        numbers: &["11-25"],
        seed: "004",
        sentence: "Binlog compression may negatively impact performance in LAN environments.",
        number: None,
        question: "Does a group lose by compression?",
        how: How::Measured(Plan {
            load: LOAD,
            factor: "binlog_transaction_compression of the sessions that write, OFF against ON",
            measure: "tpmC",
            kind: Kind::Ratio(Claim::Below),
            rule: "with compression there are fewer transactions, over all terminals, by the sign test over pairs",
            run: |context| compression(context, None),
        }),
    },
    Entry {
        numbers: &["11-26"],
        seed: "004",
        sentence: "Binlog compression does not affect performance in WAN environments.",
        number: None,
        question: "Does a group lose by compression at 10 ms?",
        how: How::Measured(Plan {
            load: "TPC-C at a group of three stock members, every byte between two of them 10 ms late in each direction",
            factor: "binlog_transaction_compression of the sessions that write, OFF against ON",
            measure: "tpmC",
            kind: Kind::Flat,
            rule: "in every round compression changes the throughput over all terminals by 3 % at most",
            run: |context| compression(context, Some(DELAY)),
        }),
    },
    Entry {
        numbers: &["mts-2"],
        seed: "002",
        sentence: "With a single-master configuration, 4 threads are enough to keep up with the master.",
        number: None,
        question: "How many appliers keep up with one writer?",
        how: How::Measured(Plan {
            load: LOAD,
            factor: "replica_parallel_workers of all members",
            measure: "transactions a second: peak, while the load runs; sustained, until every member has them all",
            kind: Kind::Crossing,
            rule: "in every round one applier does not keep up with the writer, and four do, by lab balance's rules",
            run: by_appliers,
        }),
    },
    Entry {
        numbers: &["mts-3"],
        seed: "002",
        sentence: "In the configurations tested the peak in sustained throughput was achieved with two masters.",
        number: None,
        question: "How many writers give the most that is sustained?",
        how: How::Measured(Plan {
            load: SIX,
            factor: "the number of members that are written to, of three",
            measure: "transactions a second: peak, while the load runs; sustained, until every member has them all",
            kind: Kind::InnerOptimum,
            rule: "in every round two writers sustain more than one and more than three",
            run: by_writers,
        }),
    },
    Entry {
        numbers: &["FRW"],
        seed: "002",
        sentence: "The peak throughput grows with the group size in multi-master configurations but the same does no hold \
                   for the sustained throughput.",
        number: None,
        question: "Does a group's peak grow with its members, if all are written to?",
        how: How::Measured(Plan {
            load: SIX,
            factor: "the number of members",
            measure: "transactions a second: peak, while the load runs; sustained, until every member has them all",
            kind: Kind::Trend,
            rule: "in every round the peak of the largest group is above that of the smallest, and what it sustains is not",
            run: by_members,
        }),
    },
];

fn wanted(members: usize, is_single_primary: bool, options: &[&str]) -> Wanted {
    let options = options.iter().map(|&option| option.to_owned()).collect();
    Wanted { members, is_single_primary, delay: None, options }
}

fn size(context: &Context<'_>, databases: usize) -> Size {
    let (one, scale) = if context.quick { (2, 0.02) } else { (8, 0.1) };
    Size { warehouses: if databases == 1 { one } else { 1 }, scale, terminals: 1, transactions: 0 }
}

fn database(number: usize) -> String {
    format!("tpcc{number}")
}

/// Terminals at which one writer is tried.
fn terminals(context: &Context<'_>) -> Vec<usize> {
    if context.quick { vec![1, 8] } else { vec![1, 4, 16] }
}

/// Loads TPC-C into one folder, which every member begins with.
fn prepare(context: &Context<'_>, databases: usize) -> Result<()> {
    context.tell("loading TPC-C into a stock server, for every member to begin with");
    let (data, programs) = (context.folder.join("loaded"), context.programs()?);
    programs.initialise(&data, context.stop)?;
    let mut given = group::options_of_the_first();
    // A group refuses writes to a table without a key, such as HISTORY.
    given.extend(UNSYNCED.into_iter().chain(["--sql-generate-invisible-primary-key=ON"]).map(str::to_owned));
    let server = Server::start(programs, &data, &given, context.stop)?;
    for number in 0..databases {
        check_stop(context.stop)?;
        let options = options(&server, size(context, databases), &[]);
        tpcc::prepare(&TpccOptions { database: database(number), ..options }, &mut std::io::sink())?;
    }
    group::make_ready(&server)?;
    server.shut_down(context.stop)
}

fn start(context: &Context<'_>, wanted: &Wanted) -> Result<Group> {
    let folder = |name: &str| context.folder.join(name);
    Group::start(context.programs()?, &folder("loaded"), &folder("group"), wanted, context.stop)
}

/// A load on a group.
#[derive(Clone, Copy)]
struct Load<'a> {
    /// All of them are written to, whatever the number of writers.
    databases: usize,
    /// Members that are written to, of which each has its part of the databases.
    writers: usize,
    /// Of all databases together.
    terminals: usize,
    style: Style,
    /// What every session sets.
    variables: &'a [(&'a str, &'a str)],
    seconds: u64,
}

impl Load<'_> {
    /// Terminals at one database, by the statements style.
    fn new(terminals: usize, seconds: u64) -> Load<'static> {
        Load { databases: 1, writers: 1, terminals, style: Style::Statements, variables: &[], seconds }
    }

    /// All databases, from a number of members.
    fn from(writers: usize, context: &Context<'_>) -> Load<'static> {
        Load { databases: DATABASES, writers, ..Load::new(2 * DATABASES, seconds(context)) }
    }

    fn begin(&self, context: &Context<'_>, group: &Group) -> Result<Vec<JoinHandle<Result<TpccReport>>>> {
        let begin = |number: usize| {
            let server = group.server(number % self.writers)?;
            let options = TpccOptions {
                database: database(number),
                terminals: (self.terminals / self.databases).max(1),
                style: self.style,
                limit: Limit::Duration(Duration::from_secs(self.seconds)),
                ..options(server, size(context, self.databases), self.variables)
            };
            Ok(std::thread::spawn(move || tpcc::run(&options, &mut std::io::sink())))
        };
        (0..self.databases).map(begin).collect()
    }
}

/// Seconds of a load of which only rates are asked.
const fn seconds(context: &Context<'_>) -> u64 {
    if context.quick { 6 } else { 20 }
}

/// What a load showed.
#[derive(Default)]
struct Ran {
    tpmc: f64,
    /// Of the group and its slowest member.
    looks: Vec<Look>,
    /// Seconds from the load's begin to its end.
    ended_s: f64,
    /// Seconds since the load's begin, and the longest queue that an applier told of.
    queues: Vec<(f64, u64)>,
}

impl Ran {
    /// After a fifth of it, by which all terminals have their statements.
    fn window(&self) -> Window {
        Window { from_s: self.ended_s / 5.0, to_s: self.ended_s }
    }

    fn shown(&self) -> Shown {
        Shown::of(&self.looks, self.window())
    }

    fn follows(&self) -> bool {
        self.shown().verdict(None, LAG_MAX_S) == Verdict::Follows
    }

    /// Transactions a second, while the load ran.
    fn peak(&self) -> f64 {
        rate(&self.looks, Window { from_s: 0.0, to_s: self.ended_s })
    }

    /// Transactions a second that the slowest member had, until it had all.
    fn sustained(&self) -> f64 {
        match (self.looks.first(), self.looks.last()) {
            (Some(first), Some(last)) if last.at_s > 0.0 => last.shown.saturating_sub(first.shown) as f64 / last.at_s,
            _ => 0.0,
        }
    }

    /// Transactions that the slowest member lacked at a moment.
    fn behind(&self, at_s: f64) -> u64 {
        let look = self.looks.iter().take_while(|look| look.at_s <= at_s).last();
        look.map_or(0, |look| look.committed.saturating_sub(look.shown))
    }

    /// The longest queue of an applier at a moment.
    fn queue(&self, at_s: f64) -> Option<u64> {
        self.queues.iter().take_while(|(told_s, _)| *told_s <= at_s).last().map(|&(_, queue)| queue)
    }

    fn text(&self) -> String {
        let shown = self.shown();
        let queue = self.queue(self.ended_s).map_or(String::new(), |queue| format!(" (as told: {queue})"));
        let late = |seconds: Option<f64>| seconds.map_or("unknown".to_owned(), |seconds| format!("{seconds:.2} s"));
        format!(
            "{:.0} tpmC, {:.0} transactions/s, the slowest member {} behind at the end{queue}, p99 of its lag {}, drained \
             in {}: {}",
            self.tpmc,
            self.peak(),
            self.behind(self.ended_s),
            late(shown.lag_p99_s),
            late(shown.drain_s),
            shown.verdict(None, LAG_MAX_S)
        )
    }
}

/// Loads a group, and waits until every member has all.
fn drive(context: &Context<'_>, group: &mut Group, load: &Load<'_>) -> Result<Ran> {
    // Each look asks every member, on the cores that do the work.
    let (every, drain_max) = (Duration::from_millis(100), if context.quick { 20.0 } else { 120.0 });
    group.settle(context.stop)?;
    let (begun, drivers) = (Instant::now(), load.begin(context, group)?);
    let (mut ran, mut ended) = (Ran::default(), None);
    loop {
        check_stop(context.stop)?;
        let is_over = drivers.iter().all(JoinHandle::is_finished);
        let at_s = begun.elapsed().as_secs_f64();
        let (committed, shown) = group.committed()?;
        ran.looks.push(Look { at_s, committed, shown });
        let is_end = is_over && ended.is_none();
        if is_end || ran.queues.last().is_none_or(|(told_s, _)| at_s >= told_s + 1.0) {
            ran.queues.extend(group.queue()?.map(|queue| (at_s, queue)));
        }
        if is_end {
            ended = Some(at_s);
        }
        if ended.is_some_and(|ended| shown >= committed || at_s > ended + drain_max) {
            break;
        }
        std::thread::sleep(every);
    }
    ran.ended_s = ended.unwrap_or_default();
    for driver in drivers {
        ran.tpmc += driver.join().map_err(|_| anyhow!("TPC-C's driver panicked"))??.tpmc;
    }
    Ok(ran)
}

/// Checks TPC-C's conditions at the last member, and that every member has the same rows; ends the group.
fn finish(context: &Context<'_>, group: Group, wanted: &Wanted, databases: usize) -> Result<String> {
    let mut group = group;
    group.settle(context.stop)?;
    let server = group.server(wanted.members.saturating_sub(1))?;
    for number in 0..databases {
        let options = TpccOptions { database: database(number), ..options(server, size(context, databases), &[]) };
        let check = tpcc::check(&options)?;
        ensure!(check.is_consistent(), "TPC-C's consistency conditions do not hold at the last member: {check}");
    }
    group.finish(context.stop)
}

fn begun(context: &Context<'_>, unit: &'static str, axis: &'static str) -> Result<Found> {
    Ok(Found {
        unit,
        axis: Some(axis),
        mysql_version: context.programs()?.version()?,
        notes: vec![
            "All members and the load share the cores of one machine: what a writer takes, appliers lack.".into(),
            "Flow control is off (group_replication_flow_control_mode=DISABLED), so that queues show.".into(),
            "Members speak MySQL's own protocol (group_replication_communication_stack=MYSQL), and have their message \
             cache at its minimum."
                .into(),
            "Not a TPC-C result: no think time, a small population; HISTORY has a generated invisible key, which groups \
             demand. After every round the rows of all members were equal."
                .into(),
        ],
        ..Found::default()
    })
}

/// Names of a load's peak rate and of its sustained one.
type Rates = [(&'static str, Side); 2];
const RATES: Rates = [("peak", Side::Base), ("sustained", Side::Changed)];
const ALL_WRITE: Rates = [("peak, all write", Side::Base), ("sustained, all write", Side::Changed)];
const ONE_WRITES: Rates = [("peak, one writes", Side::Base), ("sustained, one writes", Side::Changed)];

/// Adds what a load peaked at, and what was sustained.
fn add_rates(found: &mut Found, rates: Rates, at: &str, options: &str, ran: &Ran) {
    for (who, value) in rates.into_iter().zip([ran.peak(), ran.sustained()]) {
        found.add(who, at, value, options);
    }
}

fn tell(context: &Context<'_>, round: u32, what: &str, ran: &Ran) {
    context.tell(&format!("round {}/{} {what}: {}", round + 1, context.rounds, ran.text()));
}

/// Adds one line on a replica of ours that follows the group's first member under a load.
fn follow(context: &Context<'_>, found: &mut Found, wanted: &Wanted, load: &Load<'_>) {
    context.tell("Slipstream follows the first member of a group");
    let line = || {
        let mut group = start(context, wanted)?;
        let (url, address) = (group.server(0)?.url(), group.server(0)?.address());
        let told = following::follow(context, &url, &address, || {
            let begun = Instant::now();
            let ran = drive(context, &mut group, load)?;
            let text = format!("{} terminals ({})", load.terminals, ran.text());
            Ok((text, begun + Duration::from_secs_f64(ran.ended_s)))
        })?;
        finish(context, group, wanted, load.databases)?;
        anyhow::Ok(told)
    };
    let line: Result<String> = line();
    let _ = fs::remove_dir_all(context.folder.join("group"));
    found.notes.push(line.unwrap_or_else(|error| format!("Slipstream did not follow the group: {error:#}")));
}

/// 1 if the first place follows and the last does not, as claimed, -1 if both follow, else 0.
const fn crossing(first_follows: bool, last_follows: bool) -> i32 {
    match (first_follows, last_follows) {
        (true, false) => 1,
        (true, true) => -1,
        _ => 0,
    }
}

fn by_terminals(context: &Context<'_>) -> Result<Found> {
    prepare(context, 1)?;
    let wanted = wanted(3, true, &UNSYNCED);
    let load = |terminals| Load {
        style: Style::Procedures,
        variables: &[("binlog_row_image", "'MINIMAL'")],
        ..Load::new(terminals, if context.quick { 15 } else { 60 })
    };
    let (mut found, who) = (begun(context, "tpmC", "terminals")?, ("followed by members", Side::Base));
    found.notes.push("A hollow point was not followed in at least one round, by the rules of lab balance.".into());
    let (all, mut signs) = (terminals(context), Vec::new());
    for round in 0..context.rounds {
        let mut group = start(context, &wanted)?;
        let options = group.options()?;
        let mut follows = BTreeMap::new();
        // From the fewest on: a backlog of many terminals would be the next one's.
        for &terminals in &all {
            let ran = drive(context, &mut group, &load(terminals))?;
            tell(context, round, &format!("{terminals} terminals"), &ran);
            found.add(who, &terminals.to_string(), ran.tpmc, &options);
            if !ran.follows() {
                found.mark(who, &terminals.to_string());
            }
            follows.insert(terminals, ran.follows());
            found.shown.push(format!("{terminals} terminals: {}", ran.text()));
        }
        let of = |at: Option<&usize>| at.and_then(|at| follows.get(at)).copied().unwrap_or(false);
        signs.push(crossing(of(all.first()), of(all.last())));
        finish(context, group, &wanted, 1)?;
    }
    found.judged = of_rounds(&1, Some(&-1), &signs);
    follow(context, &mut found, &wanted, &load(all.last().copied().unwrap_or(1)));
    Ok(found)
}

fn performance_schema(context: &Context<'_>) -> Result<Found> {
    prepare(context, 1)?;
    let sides = [
        ("P_S on", "P_S on, as told", Side::Base, "--performance-schema=ON"),
        ("P_S off", "P_S off, as told", Side::Changed, "--performance-schema=OFF"),
    ];
    let load = Load::new(if context.quick { 8 } else { 16 }, if context.quick { 12 } else { 60 });
    let mut found = begun(context, "transactions behind", "seconds of the load")?;
    found.notes.push(
        "By GTIDs; \"as told\" is the longest COUNT_TRANSACTIONS_REMOTE_IN_APPLIER_QUEUE of the members, which 9.7 tells \
         with performance_schema=OFF, too."
            .into(),
    );
    let mut signs = Vec::new();
    for round in 0..context.rounds {
        let mut grows = [false; 2];
        for ((name, told, side, option), grows) in turns(sides.into_iter().zip(&mut grows), round) {
            let wanted = wanted(3, true, &[option]);
            let mut group = start(context, &wanted)?;
            let options = group.options()?;
            let ran = drive(context, &mut group, &load)?;
            tell(context, round, name, &ran);
            for second in 1..=load.seconds {
                let (at, second) = (second.to_string(), second as f64);
                found.add((name, side), &at, ran.behind(second) as f64, &options);
                if let Some(queue) = ran.queue(second) {
                    found.add((told, side), &at, queue as f64, &options);
                }
            }
            let shown = ran.shown();
            *grows = shown.verdict(None, f64::INFINITY) == Verdict::BacklogGrows;
            found.shown.push(format!("{name}: {:+.1} transactions/s of backlog; {}", shown.slope, ran.text()));
            finish(context, group, &wanted, 1)?;
        }
        signs.push(match grows {
            [true, false] => 1,
            [false, true] => -1,
            _ => 0,
        });
    }
    found.judged = of_rounds(&1, Some(&-1), &signs);
    follow(context, &mut found, &wanted(3, true, &[sides[0].3]), &load);
    Ok(found)
}

fn compression(context: &Context<'_>, delay: Option<Duration>) -> Result<Found> {
    prepare(context, 1)?;
    let wanted = Wanted { delay, ..wanted(3, true, &[]) };
    let ways = [("OFF", Side::Base, "OFF"), ("ON", Side::Changed, "ON"), ("OFF, again", Side::Again, "OFF")];
    let mut found = begun(context, "tpmC", "terminals")?;
    if let Some(delay) = delay {
        found.notes.push(format!(
            "A proxy at the members' addresses holds every byte for {} ms in each direction; clients are not behind it.",
            delay.as_millis()
        ));
    }
    let mut group = start(context, &wanted)?;
    let (all, of_server) = (terminals(context), group.options()?);
    let load = |terminals, value| {
        let load = Load::new(terminals, if context.quick { 5 } else { 20 });
        (load, [("binlog_transaction_compression", value)])
    };
    // Rows that are read are then in memory.
    drive(context, &mut group, &Load::new(all.last().copied().unwrap_or(1), 2))?;
    for round in 0..context.rounds {
        for (name, side, value) in turns(ways, round) {
            let options = format!("{of_server} binlog_transaction_compression={value}");
            for &terminals in &all {
                let (load, variables) = load(terminals, value);
                let ran = drive(context, &mut group, &Load { variables: &variables, ..load })?;
                tell(context, round, &format!("compression {name}, {terminals} terminals"), &ran);
                found.add((name, side), &terminals.to_string(), ran.tpmc, &options);
            }
        }
    }
    finish(context, group, &wanted, 1)?;
    add_ratios(&mut found, context.rounds);
    let changes: Vec<i32> = found.ratios.iter().map(|&ratio| change(ratio)).collect();
    found.judged = of_rounds(&0, Some(&-1), &changes);
    let means = (0..context.rounds as usize).map(|round| {
        let gains = gains(&found, Side::Changed, round);
        let gains: Vec<String> = gains.iter().map(|gain| format!("{gain:.3}")).collect();
        format!("{} times with compression, by terminals", gains.join(", "))
    });
    found.shown = means.collect();
    let (load, variables) = load(all.last().copied().unwrap_or(1), "ON");
    follow(context, &mut found, &wanted, &Load { variables: &variables, ..load });
    Ok(found)
}

/// -1 for a ratio that is lower than noise is, 1 for a higher one.
fn change(ratio: f64) -> i32 {
    match ratio {
        ratio if ratio < 1.0 - NOISE => -1,
        ratio if ratio > 1.0 + NOISE => 1,
        _ => 0,
    }
}

const SUSTAINED: &str = "Sustained: of the slowest member, from the load's begin until it has all; in the end writers are \
                         idle, so that it is the most that could be sustained.";

fn by_appliers(context: &Context<'_>) -> Result<Found> {
    prepare(context, 1)?;
    let appliers: &[u32] = if context.quick { &[1, 4] } else { &[1, 2, 4, 8] };
    let mut found = begun(context, "transactions/s", "appliers")?;
    found.notes.extend([SUSTAINED.to_owned(), "A hollow point: members did not keep up in at least one round.".into()]);
    let load = Load::new(if context.quick { 8 } else { 16 }, if context.quick { 5 } else { 20 });
    let of = |appliers: u32| wanted(3, false, &[&format!("--replica-parallel-workers={appliers}")]);
    let mut signs = Vec::new();
    for round in 0..context.rounds {
        let mut follows = BTreeMap::new();
        for &appliers in turns(appliers, round) {
            let wanted = of(appliers);
            let mut group = start(context, &wanted)?;
            let options = group.options()?;
            let ran = drive(context, &mut group, &load)?;
            tell(context, round, &format!("{appliers} appliers"), &ran);
            add_rates(&mut found, RATES, &appliers.to_string(), &options, &ran);
            if !ran.follows() {
                RATES.into_iter().for_each(|who| found.mark(who, &appliers.to_string()));
            }
            found.shown.push(format!("{appliers} appliers: {}", ran.text()));
            follows.insert(appliers, ran.follows());
            finish(context, group, &wanted, 1)?;
        }
        let of = |appliers| follows.get(&appliers).copied().unwrap_or(false);
        // Four are claimed to be enough, and one is not.
        signs.push(if of(4) { i32::from(!of(1)) } else { -1 });
    }
    found.judged = of_rounds(&1, Some(&-1), &signs);
    follow(context, &mut found, &of(4), &load);
    Ok(found)
}

fn by_writers(context: &Context<'_>) -> Result<Found> {
    prepare(context, DATABASES)?;
    let wanted = wanted(3, false, &[]);
    let mut found = begun(context, "transactions/s", "writers")?;
    found.notes.push(SUSTAINED.to_owned());
    let mut best = Vec::new();
    for round in 0..context.rounds {
        let mut group = start(context, &wanted)?;
        let options = group.options()?;
        let mut sustained = BTreeMap::new();
        for writers in turns([1, 2, 3], round) {
            let ran = drive(context, &mut group, &Load::from(writers, context))?;
            tell(context, round, &format!("{writers} writers"), &ran);
            add_rates(&mut found, RATES, &writers.to_string(), &options, &ran);
            sustained.insert(writers, ran.sustained());
        }
        let most = sustained.iter().max_by(|a, b| a.1.total_cmp(b.1)).map_or(0, |(&writers, _)| writers);
        found.shown.push(format!("{most} writers sustain the most"));
        best.push(if most == 2 { 1 } else { -1 });
        finish(context, group, &wanted, DATABASES)?;
    }
    found.judged = of_rounds(&1, Some(&-1), &best);
    follow(context, &mut found, &wanted, &Load::from(3, context));
    Ok(found)
}

fn by_members(context: &Context<'_>) -> Result<Found> {
    prepare(context, DATABASES)?;
    let sizes: &[usize] = if context.quick { &[2, 3] } else { &[2, 3, 6] };
    let mut found = begun(context, "transactions/s", "members")?;
    found.notes.push(SUSTAINED.to_owned());
    let mut signs = Vec::new();
    for round in 0..context.rounds {
        let mut all_write = BTreeMap::new();
        for &members in turns(sizes, round) {
            let wanted = wanted(members, false, &[]);
            let mut group = start(context, &wanted)?;
            let options = group.options()?;
            for (rates, writers) in turns([(ALL_WRITE, members), (ONE_WRITES, 1)], round) {
                let ran = drive(context, &mut group, &Load::from(writers, context))?;
                tell(context, round, &format!("{members} members, {writers} of them written to"), &ran);
                add_rates(&mut found, rates, &members.to_string(), &options, &ran);
                if writers == members {
                    all_write.insert(members, (ran.peak(), ran.sustained()));
                }
            }
            finish(context, group, &wanted, DATABASES)?;
        }
        let ends = all_write.first_key_value().zip(all_write.last_key_value());
        let ((_, small), (_, large)) = ends.context("no group")?;
        let (peak, sustained) = (large.0 / small.0, large.1 / small.1);
        found
            .shown
            .push(format!("the largest group's peak is {peak:.2} times the smallest's, sustained {sustained:.2}"));
        signs.push(growth(peak, sustained));
    }
    found.judged = of_rounds(&1, Some(&-1), &signs);
    follow(context, &mut found, &wanted(3, false, &[]), &Load::from(3, context));
    Ok(found)
}

/// 1 if the peak grows and the sustained rate does not, -1 if the peak does not grow.
fn growth(peak: f64, sustained: f64) -> i32 {
    match (peak > 1.0, sustained > 1.0) {
        (true, false) => 1,
        (false, _) => -1,
        (true, true) => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// 100 transactions a second for 4 s, of which the slowest member has half until it has all after 8 s.
    fn slow() -> Ran {
        let look = |tenth: u32| {
            let at_s = f64::from(tenth) / 10.0;
            let part = |rate: f64, most: f64| 1000 + (rate * at_s).min(most).round() as u64;
            Look { at_s, committed: part(100.0, 400.0), shown: part(50.0, 400.0) }
        };
        Ran { looks: (0..=80).map(look).collect(), ended_s: 4.0, ..Ran::default() }
    }

    #[test]
    fn a_peak_is_of_the_load_and_what_is_sustained_of_the_slowest_member() {
        let ran = slow();
        assert!((ran.peak() - 100.0).abs() < 1e-6 && (ran.sustained() - 50.0).abs() < 1e-6);
        assert_eq!((ran.behind(0.0), ran.behind(2.0), ran.behind(4.0), ran.behind(8.0)), (0, 100, 200, 0));
        assert!(!ran.follows() && (ran.shown().slope - 50.0).abs() < 1.0);
        let text = ran.text();
        assert!(text.contains("200 behind at the end") && text.contains("drained in 4.00 s: backlog grows"), "{text}");
        assert!(!text.contains("as told"), "nobody told of a queue: {text}");
        let told = Ran { queues: vec![(0.1, 3), (1.2, 9), (4.0, 200)], ..slow() };
        assert_eq!(
            (told.queue(0.0), told.queue(1.0), told.queue(2.0), told.queue(9.0)),
            (None, Some(3), Some(9), Some(200))
        );
        assert!(told.text().contains("(as told: 200)"), "{}", told.text());
        assert_eq!((Ran::default().peak(), Ran::default().sustained(), Ran::default().behind(1.0)), (0.0, 0.0, 0));
    }

    #[test]
    fn rounds_show_signs() {
        assert_eq!((crossing(true, false), crossing(true, true)), (1, -1));
        assert_eq!((crossing(false, false), crossing(false, true)), (0, 0));
        assert_eq!((change(0.96), change(0.98), change(1.02), change(1.04)), (-1, 0, 0, 1));
        assert_eq!((growth(1.2, 0.9), growth(1.2, 1.1), growth(0.9, 0.8), growth(0.9, 1.1)), (1, 0, -1, -1));
    }
}
