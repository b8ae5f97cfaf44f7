//! What clients that wait for GTID sets cost publishing: `cargo run --release -p stage_benches --bin waiters [TURNS]`.
//!
//! The executed set has 1,000 uuids with ten intervals each. 500 waiters wait, each on a set of as many intervals that
//! also holds transactions that are not there yet. A hundred thousand transactions become visible, one each 20 µs, with
//! and without waiters by turns. Meanwhile another thread registers each waiter that was met again, for a later
//! transaction, as a client does that reads its own writes: as fast as it can.
//!
//! Out: the publisher's time a transaction in nanoseconds, in it what it waited for the lock, and its part of 20 µs.
//! Never here: a time compared with a limit.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::mpsc::{Sender, channel};
use std::time::{Duration, Instant};

use base::{Gtid, GtidSet, SequenceNumber, Tag, Uuid};
use catalog::Catalog;
use store::Store;

const UUIDS: u32 = 1_000;
const INTERVALS: u64 = 10;
const WAITERS: u64 = 500;
const TRANSACTIONS: u64 = 100_000;
/// Time from one transaction to the next: about what one core replays.
const EACH: Duration = Duration::from_micros(20);
/// Turns with waiters, and as many without, if no number is given; twelve seconds each for all three.
const TURNS: usize = 9;

/// The source that is followed; its GTIDs sort `last` of all, or first.
fn own(gno: u64, last: bool) -> Gtid {
    Gtid { uuid: Uuid([if last { 0xff } else { 0 }; 16]), tag: Tag::EMPTY, gno }
}

/// What was executed before: all uuids but the source's.
fn executed() -> GtidSet {
    let mut set = GtidSet::new();
    for number in 0..UUIDS {
        let mut bytes = [7; 16];
        bytes[..4].copy_from_slice(&(number + 1).to_be_bytes());
        for at in 0..INTERVALS {
            set.add_range(Uuid(bytes), Tag::EMPTY, 100 * at + 1, 100 * at + 50);
        }
    }
    set
}

/// Nanoseconds a transaction, the 99th percentile of them, and how often a waiter was met. Each waiter waits for a
/// transaction up to twice `ahead` from the newest, and when it was met for the one `ahead` of the newest then.
fn turn(waiters: u64, ahead: u64, last: bool) -> (f64, f64, u64) {
    let store = Store::new(1, Catalog::new(0));
    let before = executed();
    let visibility = store.visibility();
    visibility.advance(SequenceNumber(1), |new| {
        for (uuid, tag, run) in before.intervals() {
            (run.first..=run.last).for_each(|gno| new.add(Gtid { uuid, tag, gno }));
        }
    });
    let (tell, told) = channel();
    let (newest, ended) = (AtomicU64::new(0), AtomicBool::new(false));
    let register = |tell: &Sender<u64>, waiter: u64, upto: u64| {
        let mut set = before.clone();
        set.add_range(own(1, last).uuid, Tag::EMPTY, 1, upto);
        let tell = tell.clone();
        // Nobody listens at the end. One that is visible already tells at once.
        let _ = visibility.when_executed(&set, move || tell.send(waiter).unwrap_or_default());
    };
    (0..waiters).for_each(|waiter| register(&tell, waiter, ahead + waiter * ahead / WAITERS));
    let mut spent = Vec::new();
    let met = std::thread::scope(|scope| {
        let (register, newest, ended) = (&register, &newest, &ended);
        let registers = scope.spawn(move || {
            let mut met = 0;
            while !ended.load(Relaxed) {
                if let Ok(waiter) = told.recv_timeout(Duration::from_millis(10)) {
                    met += 1;
                    register(&tell, waiter, newest.load(Relaxed) + ahead);
                }
            }
            met
        });
        let begun = Instant::now();
        for gno in 1..=TRANSACTIONS {
            let due = EACH * u32::try_from(gno).unwrap_or(u32::MAX);
            while begun.elapsed() < due {
                std::hint::spin_loop();
            }
            let now = Instant::now();
            visibility.advance(SequenceNumber(gno + 1), |new| new.add(own(gno, last)));
            spent.push(now.elapsed().as_nanos() as f64);
            newest.store(gno, Relaxed);
        }
        ended.store(true, Relaxed);
        registers.join().unwrap_or_default()
    });
    assert_eq!(met > 0, waiters > 0 && ahead < TRANSACTIONS);
    let mean = spent.iter().sum::<f64>() / spent.len() as f64;
    spent.sort_by(f64::total_cmp);
    (mean, spent.get(spent.len() / 100 * 99).copied().unwrap_or_default(), met)
}

fn median(mut figures: Vec<f64>) -> f64 {
    figures.sort_by(f64::total_cmp);
    figures.get(figures.len() / 2).copied().unwrap_or_default()
}

fn main() {
    let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let turns = std::env::args().nth(1).and_then(|text| text.parse().ok()).unwrap_or(TURNS);
    println!("{turns} turns each, load {}", load.trim());
    for (what, ahead, last) in [
        ("for what does not come", 10 * TRANSACTIONS, true),
        ("met once or twice", 50_000, true),
        ("met as often as can be", 1_000, true),
        ("the same, the source's uuid first", 1_000, false),
    ] {
        let (mut without, mut with, mut slow, mut often) = (Vec::new(), Vec::new(), Vec::new(), Vec::new());
        for _ in 0..turns {
            without.push(turn(0, ahead, last).0);
            let (mean, p99, met) = turn(WAITERS, ahead, last);
            with.push(mean);
            slow.push(p99);
            often.push(met as f64);
        }
        let (without, with) = (median(without), median(with));
        println!(
            "{WAITERS} waiters {what} ({:.0} times): {with:.0} ns a transaction, p99 {:.0}; {without:.0} without: \
             {:.2} % of {EACH:?} more",
            median(often),
            median(slow),
            (with - without) / EACH.as_nanos() as f64 * 100.0
        );
    }
}
