//! Cost of compaction per distinct entry at each level, and in total per row change. Prints machine, load and a result
//! hash.
//!
//! `cargo run --release -p store --example compaction_cost [CUTS [ROWS_PER_CUT]]`
//!
//! Writes cuts of 300-byte rows into a tree; after each cut it takes every step that is due, as replay does while cuts
//! arrive. A share of each cut's keys occurred in earlier cuts. Each case runs twice: over a tree whose last level is
//! three times the size of all the cuts (no merge into it comes due; the rest is merged into it once at the end), and
//! over an empty tree, whose last level is rewritten each time that is due. It runs on one thread, so CPU ns are the
//! whole cost; wall-clock ns include the disk's syncs.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use std::time::Instant;

use base::{Random, SequenceNumber, key_hash};
use catalog::{Catalog, StatementContext, TableDef};
use store::{
    BeforeImage, CheckImages, CutPoint, Disk, DiskOptions, LevelStats, OwnedShape, RowChange, RowTarget, Snapshot,
    Store, WriteContext,
};
use xxhash_rust::xxh3::xxh3_64;

const LANES: usize = 16;
const DATA_BYTES: usize = 282;
/// Size of a large tree's last level, in multiples of all cuts together.
const LARGE: u64 = 3;
/// Not a divisor of any row count used here: multiplying by it scatters the keys.
const PRIME: u64 = 2_654_435_761;

struct Tree {
    store: Arc<Store>,
    catalog: Catalog,
    def: Arc<TableDef>,
    sequence: u64,
    _folder: tempfile::TempDir,
}

/// CPU time and wall-clock time, in ns.
#[derive(Clone, Copy, Default)]
struct Spent {
    cpu: u64,
    wall: u64,
}

fn spend(work: impl FnOnce()) -> Spent {
    let cpu = || {
        let now = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
        now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
    };
    let (begun, before) = (Instant::now(), cpu());
    work();
    Spent { cpu: cpu() - before, wall: begun.elapsed().as_nanos() as u64 }
}

impl std::ops::AddAssign for Spent {
    fn add_assign(&mut self, more: Spent) {
        self.cpu += more.cpu;
        self.wall += more.wall;
    }
}

impl Tree {
    fn new() -> Tree {
        let folder = tempfile::tempdir().unwrap();
        let sql = "CREATE TABLE c (w INT, id BIGINT, data VARBINARY(300), PRIMARY KEY (w, id))";
        let context = StatementContext { default_db: "d".into(), ..StatementContext::default() };
        let catalog = Catalog::new(0).apply(&context, sql.as_bytes()).unwrap().catalog;
        let (disk, _) = Disk::open(&folder.path().join("store"), DiskOptions { cache_bytes: 8 << 20 }).unwrap();
        let store = Store::over(LANES, disk, folder.path().join("scratch"), None, catalog.clone()).unwrap();
        let def = Arc::clone(catalog.table("d", "c").unwrap());
        Tree { store: Arc::new(store), catalog, def, sequence: 0, _folder: folder }
    }

    /// Writes a cut of these keys. `is_there`: whether the row existed before.
    fn cut(&mut self, keys: &[u64], is_there: impl Fn(u64) -> bool) -> (Spent, Spent) {
        let shape = OwnedShape::of(&self.def);
        let layers = self.store.visibility().layers();
        self.sequence += 1;
        let sequence = self.sequence;
        let apply = spend(|| {
            let mut image = vec![0];
            for number in keys {
                let key = [&((number % 10) as u32).to_le_bytes()[..], &number.to_le_bytes()].concat();
                image.truncate(1);
                image.extend_from_slice(&key);
                image.extend_from_slice(&(DATA_BYTES as u16).to_le_bytes());
                image.extend((0..DATA_BYTES as u64 / 8 + 1).flat_map(|n| (sequence ^ number ^ n).to_le_bytes()));
                image.truncate(1 + key.len() + 2 + DATA_BYTES);
                let hash = key_hash(self.def.id.0, &key);
                let lane_index = self.store.lane_of(hash);
                let mut lane = layers.active.lane_mut(lane_index).unwrap();
                let image = image.as_slice();
                let change = match is_there(*number) {
                    true => RowChange::Update { before: BeforeImage::Full(image), image },
                    false => RowChange::Insert { image },
                };
                let shape = shape.lend();
                let target = RowTarget { lane: lane_index, shape: &shape, hash, key: &key };
                let context = WriteContext { sequence, oldest_needed: 0, check: CheckImages::Off, layers: &layers };
                lane.apply(&target, change, &context).unwrap();
            }
        });
        self.store.visibility().advance(SequenceNumber(sequence), |_| {});
        drop(layers);
        let sealed = self.store.seal(Some(CutPoint::at(sequence, self.catalog.clone())));
        let cut = spend(|| assert!(self.store.cut(&sealed).unwrap().entries >= keys.len() as u64));
        (apply, cut)
    }

    fn levels(&self) -> Vec<LevelStats> {
        self.store.disk().unwrap().level_stats()
    }

    /// Takes the nearest step that is due.
    fn step(&self) -> bool {
        self.store.compact_near(false).unwrap()
            || self.store.compact_middle(false).unwrap()
            || self.store.compact_deep(false).unwrap()
    }
}

/// Merges from one level into another.
#[derive(Clone, Copy, Default)]
struct Merges {
    count: u64,
    read: u64,
    written: u64,
    bytes: u64,
    spent: Spent,
}

/// Costs of the steps, by levels; moves of a run count only towards the time.
#[derive(Default)]
struct Costs {
    merges: BTreeMap<(usize, usize), Merges>,
    moves: Spent,
}

impl Costs {
    /// Accounts for a step, which is recognised by how the levels differ before and after it.
    fn take(&mut self, before: &[LevelStats], after: &[LevelStats], spent: Spent) {
        let changed: Vec<usize> = (0..before.len()).filter(|n| before[*n] != after[*n]).collect();
        let (&from, &to) = (changed.first().unwrap(), changed.last().unwrap());
        if matches!(from, 1 | 3) {
            assert_eq!(before[from].entries + before[to].entries, after[to].entries, "a run was moved");
            self.moves += spent;
            return;
        }
        assert_eq!(after[to].runs, 1, "a merge makes one run: {before:?} {after:?}");
        let merges = self.merges.entry((from, to)).or_default();
        merges.count += 1;
        merges.read += changed
            .iter()
            .map(|level| before[*level].entries - after[*level].entries * u64::from(*level != to))
            .sum::<u64>();
        merges.written += after[to].entries;
        merges.bytes += after[to].bytes;
        merges.spent += spent;
    }

    fn print(&self, changes: u64, distinct: u64) {
        println!(
            "  levels  merges  entries read   written  |  ns CPU/read  /written  |  ns wall/read  /written  |  MB/s written"
        );
        let mut spent = self.moves;
        let mut written = 0;
        for ((from, to), merges) in &self.merges {
            let Merges { count, read, written: entries, bytes, spent: took } = *merges;
            let per = |ns: u64, of: u64| ns as f64 / of.max(1) as f64;
            println!(
                "  {from} > {to}   {count:>6}  {read:>12}  {entries:>8}  |  {:>11.0}  {:>8.0}  |  {:>12.0}  {:>8.0}  |  {:>12.0}",
                per(took.cpu, read),
                per(took.cpu, entries),
                per(took.wall, read),
                per(took.wall, entries),
                bytes as f64 * 1e3 / took.wall as f64,
            );
            spent += took;
            written += entries;
        }
        println!(
            "  in all: {changes} row changes of {distinct} rows; written {:.2} times a distinct row, {:.2} times a change; \
             {:.0} ns CPU and {:.0} wall a change, moves of runs {:.0} and {:.0} of them",
            written as f64 / distinct as f64,
            written as f64 / changes as f64,
            spent.cpu as f64 / changes as f64,
            spent.wall as f64 / changes as f64,
            self.moves.cpu as f64 / changes as f64,
            self.moves.wall as f64 / changes as f64,
        );
    }
}

/// Keys of a cut, of which a percentage occurred in earlier cuts.
struct Keys {
    random: Random,
    fresh: u64,
    domain: u64,
    repeated_percent: u64,
}

impl Keys {
    fn next_cut(&mut self, rows: u64) -> Vec<u64> {
        let repeated = if self.fresh >= rows { rows * self.repeated_percent / 100 } else { 0 };
        let mut chosen = HashSet::new();
        while (chosen.len() as u64) < repeated {
            chosen.insert(self.random.below(self.fresh));
        }
        let mut numbers: Vec<u64> = chosen.into_iter().collect();
        numbers.sort_unstable();
        numbers.extend(self.fresh..self.fresh + rows - repeated);
        self.fresh += rows - repeated;
        numbers.into_iter().map(|number| number * PRIME % self.domain).collect()
    }
}

/// Returns a hash of all rows at the end.
fn run(cuts: u64, rows: u64, repeated_percent: u64, large: bool) -> u64 {
    let changes = cuts * rows;
    let (base, domain) = if large { (LARGE * changes, LARGE * changes) } else { (0, 8 * changes) };
    let mut tree = Tree::new();
    let all: Vec<u64> = (0..base).collect();
    for some in all.chunks(200_000) {
        tree.cut(some, |_| false);
    }
    tree.store.compact_fully().unwrap();
    let mut keys = Keys { random: Random::new(1), fresh: 0, domain, repeated_percent };
    let (mut costs, mut apply, mut cut, mut seen) =
        (Costs::default(), Spent::default(), Spent::default(), HashSet::new());
    for _ in 0..cuts {
        let some = keys.next_cut(rows);
        let (applied, written) = tree.cut(&some, |key| key < base || seen.contains(&key));
        seen.extend(some);
        apply += applied;
        cut += written;
        loop {
            let before = tree.levels();
            let mut any = false;
            let spent = spend(|| any = tree.step());
            if !any {
                break;
            }
            costs.take(&before, &tree.levels(), spent);
        }
    }
    let kind = if large { "a large last level" } else { "at first nothing" };
    println!("{repeated_percent} % of each cut's keys were in earlier cuts; below them {kind}");
    let per_change = |ns: u64| ns as f64 / changes as f64;
    println!(
        "  apply {:.0}, cut {:.0} ns CPU a row change ({:.0} wall); levels at the end, runs/entries: {}",
        per_change(apply.cpu),
        per_change(cut.cpu),
        per_change(cut.wall),
        tree.levels().iter().map(|level| format!("{}/{}", level.runs, level.entries)).collect::<Vec<_>>().join(" "),
    );
    costs.print(changes, keys.fresh);
    if large {
        let before: u64 = tree.levels().iter().map(|level| level.entries).sum();
        let spent = spend(|| tree.store.compact_fully().unwrap());
        let after: u64 = tree.levels().iter().map(|level| level.entries).sum();
        println!(
            "  all into the last level at once: {before} read, {after} written; {:.0} ns CPU an entry read, {:.0} a distinct \
             row that came ({:.0} wall)",
            spent.cpu as f64 / before as f64,
            spent.cpu as f64 / keys.fresh as f64,
            spent.wall as f64 / keys.fresh as f64,
        );
    }
    let (mut hash, snapshot) = (0u64, Snapshot::pin(&tree.store));
    let _: std::ops::ControlFlow<()> = tree
        .store
        .scan(&snapshot, &tree.def, |row| {
            hash = hash.wrapping_add(xxh3_64(row.image));
            std::ops::ControlFlow::Continue(())
        })
        .unwrap();
    hash
}

fn main() {
    let mut arguments = std::env::args().skip(1).map(|number| number.parse::<u64>().expect("a number"));
    let cuts = arguments.next().unwrap_or(128);
    let rows = arguments.next().unwrap_or(4_000);
    let cpu = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let cpu = cpu.lines().find_map(|line| line.strip_prefix("model name\t: ")).unwrap_or("unknown CPU");
    let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    println!("machine: {cpu}, {cores} cores; load {}", load.trim());
    println!("{cuts} cuts of {rows} rows of 300 bytes, one thread");
    let mut hash = 0;
    for large in [true, false] {
        for repeated_percent in [0, 50, 90] {
            hash = xxh3_64(&[hash, run(cuts, rows, repeated_percent, large)].map(u64::to_le_bytes).concat());
        }
    }
    println!("result hash {hash:016x}");
}
