//! What clients that wait for GTID sets cost publishing: `cargo run --release -p stage_benches --bin waiters [TURNS]`.
//!
//! The executed set has 1,000 uuids with ten intervals each. 500 waiters wait, each on a set of as many intervals that
//! also holds transactions that are not there yet. A hundred thousand transactions become visible, one by one, with and
//! without waiters by turns. In between each waiter that was met is registered again, for a later transaction, as a
//! client does that reads its own writes; registering is in the figure, because it takes the publisher's lock.
//!
//! Out: nanoseconds a transaction of each turn, and the ratio of the medians. Never here: a time compared with a limit.

use std::hint::black_box;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Instant;

use base::{Gtid, GtidSet, SequenceNumber, Tag, Uuid};
use catalog::Catalog;
use store::Store;

const UUIDS: u32 = 1_000;
const INTERVALS: u64 = 10;
const WAITERS: u64 = 500;
const TRANSACTIONS: u64 = 100_000;
/// Turns with waiters, and as many without, if no number is given; ten seconds each.
const TURNS: usize = 9;

/// The source that is followed.
fn own(gno: u64) -> Gtid {
    Gtid { uuid: Uuid([0xff; 16]), tag: Tag::EMPTY, gno }
}

/// What was executed before: all uuids but the source's.
fn executed() -> GtidSet {
    let mut set = GtidSet::new();
    for number in 0..UUIDS {
        let mut bytes = [7; 16];
        bytes[..4].copy_from_slice(&number.to_be_bytes());
        for at in 0..INTERVALS {
            set.add_range(Uuid(bytes), Tag::EMPTY, 100 * at + 1, 100 * at + 50);
        }
    }
    set
}

/// Nanoseconds that a copy of a waiter's set takes, which its own thread makes before it takes the lock.
fn copy_ns(set: &GtidSet) -> f64 {
    let copy = |_| {
        let begun = Instant::now();
        let copy = black_box(set.clone());
        let ns = begun.elapsed().as_nanos() as f64;
        drop(copy);
        ns
    };
    median((0..101).map(copy).collect())
}

/// Nanoseconds a transaction. Each waiter waits for a transaction up to twice `ahead` from the newest, and when it was
/// met for the one `ahead` of the newest then.
fn turn(waiters: u64, ahead: u64) -> f64 {
    let store = Store::new(1, Catalog::new(0));
    let before = executed();
    let visibility = store.visibility();
    visibility.advance(SequenceNumber(1), |new| {
        for (uuid, tag, run) in before.intervals() {
            (run.first..=run.last).for_each(|gno| new.add(Gtid { uuid, tag, gno }));
        }
    });
    let copy_ns = copy_ns(&before);
    let met = Arc::new(AtomicU64::new(0));
    let register = |upto: u64| {
        let mut set = before.clone();
        set.add_range(own(1).uuid, Tag::EMPTY, 1, upto);
        let met = Arc::clone(&met);
        let begun = Instant::now();
        let wait = visibility.when_executed(&set, move || {
            met.fetch_add(1, Ordering::Relaxed);
        });
        let ns = begun.elapsed().as_nanos() as f64;
        assert!(wait.is_some(), "it was executed before");
        (ns - copy_ns).max(0.0)
    };
    let mut spent = 0.0;
    for waiter in 0..waiters {
        spent += register(ahead + waiter * ahead / WAITERS);
    }
    let mut told = 0;
    for gno in 1..=TRANSACTIONS {
        let begun = Instant::now();
        visibility.advance(SequenceNumber(gno + 1), |new| new.add(own(gno)));
        spent += begun.elapsed().as_nanos() as f64;
        let now = met.load(Ordering::Relaxed);
        for _ in told..now {
            spent += register(gno + ahead);
        }
        told = now;
    }
    assert_eq!(told > 0, waiters > 0 && ahead < TRANSACTIONS);
    spent / TRANSACTIONS as f64
}

fn median(mut figures: Vec<f64>) -> f64 {
    figures.sort_by(f64::total_cmp);
    figures.get(figures.len() / 2).copied().unwrap_or_default()
}

fn main() {
    let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let turns = std::env::args().nth(1).and_then(|text| text.parse().ok()).unwrap_or(TURNS);
    println!("{turns} turns each, load {}", load.trim());
    for (what, ahead) in
        [("for what does not come", 10 * TRANSACTIONS), ("met once each", 50_000), ("met 100 times each", 1_000)]
    {
        let (mut without, mut with) = (Vec::new(), Vec::new());
        for _ in 0..turns {
            without.push(turn(0, ahead));
            with.push(turn(WAITERS, ahead));
        }
        let (without, with) = (median(without), median(with));
        println!(
            "{WAITERS} waiters {what}: {with:.0} ns a transaction, {without:.0} without, {:.3} times",
            with / without
        );
    }
}
