//! Figures of the logical clock: one load recorded by numbers of clients, applied by a stock replica with its source's
//! clock and with one computed from writesets, which a relay of ours stamps.
//!
//! In: `lab clocks`. Out: transactions a second by clients. Never here: a way of stamping that `lab clocks` lacks.

use anyhow::Result;

use super::context::Context;
use super::entry::{Entry, How, Kind, Plan};
use super::result::Found;
use super::verdict::of_rounds;
use crate::clocks::{ClocksArgs, ClocksReport, ITS_SOURCE, Line, SPEED, clocks};
use crate::restamp::RestampTracking;

const LOAD: &str = "sysbench's oltp_read_write, recorded by numbers of clients at a source without writesets";

/// The entries of this family.
pub(super) const ENTRIES: &[Entry] = &[
    Entry {
        numbers: &["mts-1"],
        seed: "002",
        sentence: "With writeset-based dependencies the applier throughput is almost constant as the number of server \
                   threads increases and it is always above […] commit-order-based dependencies.",
        number: None,
        question: "Is a replica with WRITESET above one with COMMIT_ORDER, whatever the number of clients?",
        how: How::Measured(Plan {
            load: LOAD,
            factor: "who stamped the log: its source's commit order, or a relay by writesets",
            measure: SPEED,
            kind: Kind::Trend,
            rule: "in every round WRITESET is above COMMIT_ORDER at every number of clients",
            run: mts_1,
        }),
    },
    Entry {
        numbers: &["003"],
        seed: "003",
        sentence: "COMMIT_ORDER is de langzaamste, vooral voor weinig verkeer, 2-8 threads.",
        number: None,
        question: "Is COMMIT_ORDER the slowest of the three, above all with few clients?",
        how: How::Measured(Plan {
            load: LOAD,
            factor: "who stamped the log: its source's commit order, a relay by WRITESET_SESSION, or by WRITESET",
            measure: SPEED,
            kind: Kind::Trend,
            rule: "in every round COMMIT_ORDER is below both others at every number of clients up to eight",
            run: seed_003,
        }),
    },
];

fn arguments(context: &Context<'_>) -> ClocksArgs {
    let clients: &[u32] = if context.quick { &[1, 4] } else { &[1, 2, 4, 8, 16, 32] };
    ClocksArgs {
        workload: "oltp_read_write".into(),
        tables: if context.quick { 4 } else { 8 },
        rows: if context.quick { 2_000 } else { 20_000 },
        transactions: if context.quick { 1_500 } else { 10_000 },
        clients: clients.to_vec(),
        reference_clients: 0,
        dependency_tracking: vec![RestampTracking::Writeset],
        workers: vec![if context.quick { 4 } else { 16 }],
        sync_delays: vec![0.0],
        rounds: context.rounds,
        flush_log: 1,
        put_in_between: false,
        seed: 1,
        buffer_pool: "256M".into(),
        picture: None,
        mysqld_bin: context.mysqld_bin.clone(),
        folder: Some(context.folder.join("clocks")),
        json: false,
    }
}

fn measure(context: &Context<'_>, arguments: &ClocksArgs) -> Result<(ClocksReport, Found)> {
    let report = clocks(arguments, context.stop, &mut |line| context.tell(line))?;
    let mut found = report.found();
    found.notes.insert(0, "The writesets are a relay's stamps: this is Slipstream in front of a stock replica.".into());
    Ok((report, found))
}

/// For each round, whether the source's clock is the slowest at every number of clients up to `most`; -1 if it is the
/// fastest at all of them.
fn slowest(report: &ClocksReport, most: u32, round: usize) -> i32 {
    let seconds = |line: &Line| line.seconds.get(round).copied().unwrap_or(0.0);
    let own = report.lines.iter().filter(|line| line.stamped_by == ITS_SOURCE && line.clients <= most);
    let signs: Vec<i32> = own
        .flat_map(|own| {
            let others =
                report.lines.iter().filter(|line| line.stamped_by != ITS_SOURCE && line.clients == own.clients);
            others.map(|other| if seconds(own) > seconds(other) { 1 } else { -1 })
        })
        .collect();
    match signs.iter().sum::<i32>() {
        sum if sum == signs.len() as i32 => 1,
        sum if sum == -(signs.len() as i32) => -1,
        _ => 0,
    }
}

fn judge(report: &ClocksReport, found: &mut Found, rounds: u32, most: u32) {
    let signs: Vec<i32> = (0..rounds as usize).map(|round| slowest(report, most, round)).collect();
    let words = |sign: &i32| match sign {
        1 => "COMMIT_ORDER is the slowest at every number of clients",
        -1 => "COMMIT_ORDER is the fastest at every number of clients",
        _ => "now one is slower, now another",
    };
    found.shown = signs.iter().map(|sign| words(sign).to_owned()).collect();
    found.judged = of_rounds(&1, Some(&-1), &signs);
}

fn mts_1(context: &Context<'_>) -> Result<Found> {
    let (report, mut found) = measure(context, &arguments(context))?;
    judge(&report, &mut found, context.rounds, u32::MAX);
    Ok(found)
}

fn seed_003(context: &Context<'_>) -> Result<Found> {
    let mut arguments = arguments(context);
    arguments.dependency_tracking = vec![RestampTracking::WritesetSession, RestampTracking::Writeset];
    arguments.tables = if context.quick { 8 } else { 32 };
    arguments.workers = vec![if context.quick { 4 } else { 8 }];
    arguments.flush_log = 2;
    let (report, mut found) = measure(context, &arguments)?;
    judge(&report, &mut found, context.rounds, 8);
    found.notes.push("The seed's replicas are of 5.7; these are of today.".into());
    Ok(found)
}
