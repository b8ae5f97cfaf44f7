//! Candidate structures for a generation: row changes and range reads of them, together.
//!
//! In: the row changes of a TPC-C log from a seed, in log order. Each structure maps a key to a number that refers to
//! the row's newest version. Out: for each structure the CPU ns per change, look-up, range, and change with ranges in
//! between, and bytes per row; also a hash of what was read, which is the same for all. Never here: a figure that is
//! compared with a limit.
//!
//! ```text
//! cargo run --release -p stage_benches --bin structures
//! ```
//!
//! A generation is above a tree on disk, so a deleted row remains as "gone", and ranges skip it. There is one map per
//! table, in one thread; no lanes except where the name says so. Everything referred to is already appended in all
//! cases: the record with its stored key, and the ordered key of the B-tree over an arena, although its bytes per row
//! leave that key out. The hash of a change is the decoder's, that of a look-up is computed. Structures that keep keys
//! in order compute the ordered key with each change and look-up, the slices when they are sorted. Ranges are of the
//! table of an earlier change, picked at random, and begin at its key.
#![allow(clippy::expect_used)]

mod ours;
mod real;
mod trees;

use std::fmt::Write as _;

use anyhow::Context;
use base::Random;
use clap::Parser;
use lab::synthesize::{SynthesizeOptions, synthesize};
use stage_benches::pass::changes::{Change, Changes};
use xxhash_rust::xxh3::xxh3_64;

const LOOK_UPS: usize = 200_000;
const RANGES: usize = 20_000;
const ROWS: [usize; 2] = [10, 100];
/// Changes between two ranges.
const APART: [usize; 5] = [10, 100, 1_000, 10_000, 100_000];
/// Interval of changes at which the store itself is compared row by row with another structure.
const CHECKED_APART: usize = 997;
const CHECKED_ROWS: usize = 50;
const GONE: u64 = 1 << 63;
const NUMBER_BITS: u32 = 24;
/// Changes warmed together, as in a lane.
const WARM: usize = 16;

#[derive(Debug, Parser)]
#[command(about = "What a generation could be made of: changes and range reads together")]
struct Arguments {
    /// Transactions of the run, about 19 changes each
    #[arg(long, default_value_t = 20_000)]
    transactions: u64,
    /// Warehouses
    #[arg(long, default_value_t = 4)]
    warehouses: u32,
    /// Rounds, each of which runs all structures in turn; figures are medians
    #[arg(long, default_value_t = 3, value_parser = clap::value_parser!(u32).range(1..=99))]
    rounds: u32,
}

/// Maps a key to its row's newest version.
trait Structure<'c> {
    /// Creates an empty structure.
    fn new(changes: &'c Changes) -> Self;
    /// Applies the change of this number.
    fn change(&mut self, number: usize);
    /// Brings the data for these changes into the cache.
    fn warm(&self, _numbers: std::ops::Range<usize>) {}
    /// The newest version of the row of this change.
    fn get(&mut self, number: usize) -> Option<u64>;
    /// Reads rows in order, from the key of this change on.
    fn range(&mut self, number: usize, fold: &mut Fold);
    /// Checks the versions in a range of this many rows, for structures that return no references.
    fn check(&mut self, _number: usize, _rows: usize, _expected: &[u64]) {}
}

/// Refers to a version, as a place in an arena does. From the highest bit: whether the row is gone, the position of its
/// stored key, the key's length, the number of the change.
fn reference(change: &Change, number: usize) -> u64 {
    let gone = if change.gone { GONE } else { 0 };
    gone | u64::from(change.stored.0) << 32 | u64::from(change.stored.1) << NUMBER_BITS | number as u64
}

/// Number of the change that made it.
fn number_of(reference: u64) -> usize {
    (reference & ((1 << NUMBER_BITS) - 1)) as usize
}

/// Stored key of its row.
fn stored_key(changes: &Changes, reference: u64) -> &[u8] {
    changes.stored_at((reference >> 32) as u32 & !(1 << 31), (reference >> NUMBER_BITS) as u32 & 0xff)
}

/// Rows left in a range, counted down, and a hash of all.
struct Fold {
    left: usize,
    hash: u64,
    seen: Option<Vec<u64>>,
}

impl Fold {
    /// Takes a row; false once there are enough.
    #[inline]
    fn take(&mut self, newest: u64) -> bool {
        if newest & GONE != 0 {
            return true;
        }
        self.hash = (self.hash.rotate_left(5) ^ newest).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        if let Some(seen) = &mut self.seen {
            seen.push(newest);
        }
        self.left -= 1;
        self.left > 0
    }
}

/// Result of one round of one structure.
#[derive(Clone, Default)]
struct Round {
    change: f64,
    get: f64,
    /// The first range of each table in milliseconds, which includes sorting what is unsorted.
    first: f64,
    range: [f64; ROWS.len()],
    mixed: [[f64; APART.len()]; ROWS.len()],
    /// Resident bytes per row of the structure: before and after ranges of each table.
    bytes: [f64; 2],
    hash: u64,
}

/// CPU time of this thread: on a shared machine other processes take wall time. Nothing here waits.
fn cpu_ns() -> u64 {
    let now = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

fn each(begun: u64, count: usize) -> f64 {
    (cpu_ns() - begun) as f64 / count.max(1) as f64
}

fn round<'c, S: Structure<'c>>(changes: &'c Changes, rows: usize) -> Round {
    let mut round = Round::default();
    let count = changes.list.len();
    let mut random = Random::new(1);
    let picked: Vec<usize> = (0..LOOK_UPS).map(|_| random.below(count)).collect();
    // Memory freed earlier would be reused first and not show.
    base::allocator::trim();
    let before = resident_bytes();
    let begun = cpu_ns();
    let mut structure = S::new(changes);
    for number in 0..count {
        if number.is_multiple_of(WARM) {
            structure.warm(number..count.min(number + WARM));
        }
        structure.change(number);
    }
    round.change = each(begun, count);
    let per_row = || (resident_bytes() as f64 - before as f64) / rows as f64;
    round.bytes[0] = per_row();

    let begun = cpu_ns();
    let found = picked.iter().filter(|number| structure.get(**number).is_some_and(|newest| newest & GONE == 0));
    let found = std::hint::black_box(found.count());
    round.get = each(begun, LOOK_UPS);
    assert!(found > LOOK_UPS / 2, "rows are gone");

    let mut hash = 0;
    let begun = cpu_ns();
    for table in 0..changes.tables.len() {
        let number = changes.list.iter().position(|change| usize::from(change.table) == table);
        let mut fold = Fold { left: 1, hash, seen: None };
        structure.range(number.unwrap_or_default(), &mut fold);
        hash = fold.hash;
    }
    round.first = (cpu_ns() - begun) as f64 / 1e6;
    round.bytes[1] = per_row();
    for (at, rows) in ROWS.iter().enumerate() {
        let begun = cpu_ns();
        for number in picked.iter().take(RANGES) {
            let mut fold = Fold { left: *rows, hash, seen: None };
            structure.range(*number, &mut fold);
            hash = fold.hash;
        }
        round.range[at] = each(begun, RANGES);
    }
    drop(structure);
    for (at, rows) in ROWS.iter().enumerate() {
        for (nth, apart) in APART.iter().enumerate() {
            let (mut structure, mut random) = (S::new(changes), Random::new(*apart as u64 + 1));
            let begun = cpu_ns();
            for number in 0..count {
                if number.is_multiple_of(WARM) {
                    structure.warm(number..count.min(number + WARM));
                }
                structure.change(number);
                if (number + 1).is_multiple_of(*apart) {
                    let mut fold = Fold { left: *rows, hash, seen: None };
                    structure.range(random.below(number + 1), &mut fold);
                    hash = fold.hash;
                }
            }
            round.mixed[at][nth] = each(begun, count);
        }
    }
    round.hash = hash;
    round
}

/// The store returns rows, not references, so each row of some ranges is compared with the version that another
/// structure refers to.
fn check_store(changes: &Changes) {
    let (mut known, mut store) = (trees::BoxedBTree::new(changes), real::RealStore::new(changes));
    let mut random = Random::new(7);
    for number in 0..changes.list.len() {
        known.change(number);
        store.change(number);
        if (number + 1).is_multiple_of(CHECKED_APART) {
            let from = random.below(number + 1);
            let mut fold = Fold { left: CHECKED_ROWS, hash: 0, seen: Some(Vec::new()) };
            known.range(from, &mut fold);
            let expected = fold.seen.unwrap_or_default();
            store.check(from, CHECKED_ROWS, &expected);
        }
    }
}

type Run = for<'c> fn(&'c Changes, usize) -> Round;

fn ours_round(changes: &Changes, rows: usize) -> Round {
    round::<ours::HashAndSlices<'_, false>>(changes, rows)
}
fn warmed_round(changes: &Changes, rows: usize) -> Round {
    round::<ours::HashAndSlices<'_, true>>(changes, rows)
}
fn boxed_round(changes: &Changes, rows: usize) -> Round {
    round::<trees::BoxedBTree<'_>>(changes, rows)
}
fn arena_round(changes: &Changes, rows: usize) -> Round {
    round::<trees::ArenaBTree<'_, 1>>(changes, rows)
}
fn lanes_round(changes: &Changes, rows: usize) -> Round {
    round::<trees::ArenaBTree<'_, 16>>(changes, rows)
}
fn radix_round(changes: &Changes, rows: usize) -> Round {
    round::<trees::RadixTree<'_>>(changes, rows)
}
fn skip_round(changes: &Changes, rows: usize) -> Round {
    round::<trees::SkipList<'_>>(changes, rows)
}
fn store_round(changes: &Changes, rows: usize) -> Round {
    round::<real::RealStore<'_>>(changes, rows)
}

const STRUCTURES: [(&str, Run); 8] = [
    ("hash and slices", ours_round),
    ("the same, warmed", warmed_round),
    ("B-tree, boxed keys", boxed_round),
    ("B-tree over arena", arena_round),
    ("the same, 16 lanes", lanes_round),
    ("radix tree (blart)", radix_round),
    ("skip list", skip_round),
    ("the store itself", store_round),
];

fn main() -> anyhow::Result<()> {
    let Arguments { transactions, warehouses, rounds } = Arguments::parse();
    let folder = tempfile::tempdir().context("a temporary folder")?;
    let options = SynthesizeOptions { seed: 20_260_101, warehouses, items: 10_000, customers: 300, transactions };
    synthesize(folder.path(), options)?;
    let changes = Changes::read(folder.path())?;
    anyhow::ensure!(changes.list.len() < 1 << NUMBER_BITS, "too many changes for a reference");
    let rows = print_head(&changes);
    check_store(&changes);
    let mut all: Vec<Vec<Round>> = vec![Vec::new(); STRUCTURES.len()];
    for _ in 0..rounds {
        for (rounds, (_, run)) in all.iter_mut().zip(STRUCTURES) {
            rounds.push(run(&changes, rows));
        }
    }
    print(&all);
    // The last one returns no references: it was compared row by row.
    let hash = all.first().and_then(|rounds| rounds.first()).map_or(0, |round| round.hash);
    for (rounds, (name, _)) in all.iter().zip(STRUCTURES).take(STRUCTURES.len() - 1) {
        anyhow::ensure!(rounds.iter().all(|round| round.hash == hash), "{name} read something else");
    }
    println!("result hash {hash:016x}, the same for all; the store's rows were compared one by one");
    Ok(())
}

/// Prints the head of the table and returns the number of rows.
fn print_head(changes: &Changes) -> usize {
    let cpu = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let cpu = cpu.lines().find_map(|line| line.strip_prefix("model name\t: ")).unwrap_or("unknown processor");
    let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    println!("machine: {cpu}, {cores} cores; load {}", load.trim());
    let mut rows = 0;
    let mut text = String::new();
    for (at, table) in changes.tables.iter().enumerate() {
        let of_table = || changes.list.iter().filter(|change| usize::from(change.table) == at);
        let keys: std::collections::BTreeSet<&[u8]> = of_table().map(|change| changes.key(change)).collect();
        let _ = write!(text, ", {} {} of {}", table.name, of_table().count(), keys.len());
        rows += keys.len();
    }
    println!("{} changes of {rows} rows{text}", changes.list.len());
    println!(
        "an ordered key: {:.0} bytes, an image {:.0}; key hash {:016x}",
        changes.list.iter().map(|change| changes.key(change).len()).sum::<usize>() as f64 / changes.list.len() as f64,
        changes.list.iter().map(|change| changes.image(change).len()).sum::<usize>() as f64 / changes.list.len() as f64,
        changes.list.iter().fold(0, |hash: u64, change| hash.rotate_left(7) ^ xxh3_64(changes.key(change))),
    );
    rows
}

fn print(all: &[Vec<Round>]) {
    let median = |rounds: &[Round], of: &dyn Fn(&Round) -> f64| {
        let mut values: Vec<f64> = rounds.iter().map(of).collect();
        values.sort_by(f64::total_cmp);
        values.get(values.len() / 2).copied().unwrap_or_default()
    };
    println!("\nns of CPU, medians by turns; bytes: resident, a row, before and after all tables were read in order");
    println!(
        "{:<20} {:>7} {:>8} {:>9} {:>9} {:>10} {:>13}",
        "", "change", "look-up", "first ms", "10 rows", "100 rows", "bytes a row"
    );
    for (rounds, (name, _)) in all.iter().zip(STRUCTURES) {
        let of = |of: &dyn Fn(&Round) -> f64| median(rounds, of);
        println!(
            "{name:<20} {:>7.0} {:>8.0} {:>9.2} {:>9.0} {:>10.0} {:>6.0} {:>6.0}",
            of(&|round| round.change),
            of(&|round| round.get),
            of(&|round| round.first),
            of(&|round| round.range[0]),
            of(&|round| round.range[1]),
            of(&|round| round.bytes[0]),
            of(&|round| round.bytes[1]),
        );
    }
    for (at, rows) in ROWS.iter().enumerate() {
        println!("\nns of CPU a change, one range of {rows} rows behind every so many changes, its time in it");
        print!("{:<20}", "");
        APART.iter().for_each(|apart| print!(" {apart:>8}"));
        println!();
        for (rounds, (name, _)) in all.iter().zip(STRUCTURES) {
            print!("{name:<20}");
            (0..APART.len()).for_each(|nth| print!(" {:>8.0}", median(rounds, &|round| round.mixed[at][nth])));
            println!();
        }
    }
}

/// Resident bytes of this process.
fn resident_bytes() -> u64 {
    let text = std::fs::read_to_string("/proc/self/statm").unwrap_or_default();
    let pages = text.split_whitespace().nth(1).and_then(|pages| pages.parse::<u64>().ok()).unwrap_or(0);
    pages * 4096
}
