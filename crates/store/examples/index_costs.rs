//! Cost of secondary indexes in replay and in cuts, and the speed of reading them. Prints machine, load and a result
//! hash.
//!
//! `cargo run --release -p store --example index_costs [ROWS]`
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::sync::Arc;
use std::time::Instant;

use base::{SequenceNumber, key_hash};
use catalog::{Catalog, KeyOrder, StatementContext, TableDef};
use store::{
    BeforeImage, CheckImages, CutPoint, Disk, DiskOptions, KeyRange, ReadOrder, RowChange, RowTarget, Snapshot, Store,
    TableReader, TableShape, WriteContext,
};
use values::RowLayout;
use xxhash_rust::xxh3::xxh3_64;

const LANES: usize = 16;
const ROWS_PER_TRANSACTION: u64 = 50;
const READS: u32 = 5000;

struct Bench {
    store: Arc<Store>,
    catalog: Catalog,
    def: Arc<TableDef>,
    sequence: u64,
    _folder: tempfile::TempDir,
}

/// A row like those of TPC-C's customer table: the indexed columns are in the middle, most bytes after them.
fn image(id: u32, name: u32, balance: u32) -> Vec<u8> {
    let mut out = vec![0];
    out.extend(id.to_le_bytes());
    out.extend((id % 97).to_le_bytes());
    let first = format!("first name {}", id % 1000);
    let last = format!("last name {name:07}");
    for text in [&first, &last] {
        out.push(text.len() as u8);
        out.extend(text.as_bytes());
    }
    out.extend(balance.to_le_bytes());
    out.extend(300u16.to_le_bytes());
    out.extend([b'x'; 300]);
    out
}

/// The same row with other data that is in no index.
fn other_data(mut image: Vec<u8>) -> Vec<u8> {
    if let Some(last) = image.last_mut() {
        *last = b'y';
    }
    image
}

type Change = (Option<Vec<u8>>, Option<Vec<u8>>);

impl Bench {
    fn new(indexes: &str) -> Bench {
        let folder = tempfile::tempdir().unwrap();
        let sql = format!(
            "CREATE TABLE c (id INT PRIMARY KEY, w INT NOT NULL, first VARCHAR(30) CHARACTER SET latin1, \
             last VARCHAR(30) CHARACTER SET utf8mb4 COLLATE utf8mb4_0900_ai_ci, balance INT, data VARBINARY(400){indexes})"
        );
        let context = StatementContext { default_db: "d".into(), ..StatementContext::default() };
        let catalog = Catalog::new(0).apply(&context, sql.as_bytes()).unwrap().catalog;
        let (disk, _) = Disk::open(&folder.path().join("store"), DiskOptions { cache_bytes: 64 << 20 }).unwrap();
        let store = Store::over(LANES, disk, folder.path().join("scratch"), None, catalog.clone()).unwrap();
        let def = Arc::clone(catalog.table("d", "c").unwrap());
        Bench { store: Arc::new(store), catalog, def, sequence: 0, _folder: folder }
    }

    /// Applies one change to each row; returns ns per row.
    fn apply(&mut self, rows: u32, change: impl FnMut(u32) -> Change) -> f64 {
        let types = self.def.column_types();
        let (layout, order) = (RowLayout::new(&types), KeyOrder::of(&self.def));
        let versions = catalog::RowVersions::of(&self.def);
        let shape = TableShape {
            id: self.def.id,
            layout: &layout,
            types: &types,
            order: &order,
            definition: self.def.version,
            versions: &versions,
        };
        // The images come from the log, so they are built before the clock starts.
        let changes: Vec<Change> = (0..rows).map(change).collect();
        let layers = self.store.visibility().layers();
        let begun = Instant::now();
        for (at, (before, after)) in (0u32..).zip(&changes) {
            let key = at.to_le_bytes();
            let hash = key_hash(self.def.id.0, &key);
            let lane_index = self.store.lane_of(hash);
            let mut lane = layers.active.lane_mut(lane_index).unwrap();
            let before = before.as_deref().map_or(BeforeImage::None, BeforeImage::Full);
            let change = match (before, after) {
                (BeforeImage::None, Some(image)) => RowChange::Insert { image },
                (before, Some(image)) => RowChange::Update { before, image },
                (before, None) => RowChange::Delete { before },
            };
            let sequence = self.sequence + 1 + u64::from(at) / ROWS_PER_TRANSACTION;
            let oldest = self.store.visibility().oldest_needed();
            let target = RowTarget { lane: lane_index, shape: &shape, hash, key: &key };
            let context = WriteContext { sequence, oldest_needed: oldest, check: CheckImages::Off, layers: &layers };
            lane.apply(&target, change, &context).unwrap();
        }
        let took = begun.elapsed();
        for lane in 0..LANES {
            layers.active.lane_mut(lane).unwrap().tidy([self.def.id].into_iter(), 0);
        }
        self.sequence += 1 + u64::from(rows) / ROWS_PER_TRANSACTION;
        self.store.visibility().advance(SequenceNumber(self.sequence), |_| {});
        took.as_nanos() as f64 / f64::from(rows)
    }

    /// Seals and cuts; returns ns per row, and the number of index entries written.
    fn cut(&mut self, rows: u32) -> (f64, u64) {
        let point = CutPoint::at(self.sequence, self.catalog.clone());
        let sealed = self.store.seal(Some(point));
        let begun = Instant::now();
        let report = self.store.cut(&sealed).unwrap();
        (begun.elapsed().as_nanos() as f64 / f64::from(rows), report.index_entries)
    }

    /// Reads ranges of ten rows from random positions; returns ranges per second, and a hash of the rows.
    fn read(&self, order: ReadOrder, reads: u32, bound: impl Fn(u32) -> Vec<u8>) -> (f64, u64) {
        let snapshot = Snapshot::pin(&self.store);
        let reader = TableReader::new(&self.def);
        let (mut hash, mut random) = (0u64, 1u32);
        let begun = Instant::now();
        for _ in 0..reads {
            random = random.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            let value = bound(random >> 8);
            let bound = reader.bound(order, [Some(value.as_slice())]).unwrap();
            let range = KeyRange::all().from_including(&bound);
            for row in self.store.range(&snapshot, &reader, order, &range).unwrap().take(10) {
                hash = hash.rotate_left(5) ^ xxh3_64(&row.unwrap().image);
            }
        }
        (f64::from(reads) / begun.elapsed().as_secs_f64(), hash)
    }
}

fn writing(rows: u32, name: &str, indexes: &str) {
    let mut bench = Bench::new(indexes);
    let first = |id| image(id, id, 0);
    let insert = bench.apply(rows, |id| (None, Some(first(id))));
    let (cut_insert, came) = bench.cut(rows);
    let unchanged = bench.apply(rows, |id| (Some(first(id)), Some(other_data(first(id)))));
    let (cut_unchanged, none) = bench.cut(rows);
    assert_eq!(none, 0, "no index changed");
    let second = |id| image(id, id / 2, 1);
    let changed = bench.apply(rows, |id| (Some(other_data(first(id))), Some(second(id))));
    let (cut_changed, moved) = bench.cut(rows);
    let delete = bench.apply(rows, |id| (Some(second(id)), None));
    let (cut_delete, went) = bench.cut(rows);
    println!(
        "{name:<10} {insert:>7.0} {unchanged:>9.0} {changed:>8.0} {delete:>7.0} | {cut_insert:>7.0} {cut_unchanged:>9.0} \
         {cut_changed:>8.0} {cut_delete:>7.0}   index entries {came}, {none}, {moved}, {went}"
    );
}

fn reading(rows: u32, indexes: &str) {
    let mut bench = Bench::new(indexes);
    bench.apply(rows, |id| (None, Some(image(id, id, 0))));
    let last = ReadOrder::Index(bench.def.key("last").unwrap().id);
    let by_last = |n: u32| {
        let name = format!("last name {:07}", n % rows);
        [&[name.len() as u8][..], name.as_bytes()].concat()
    };
    println!("ranges of 10 rows, a second, one thread:");
    let mut hashes = Vec::new();
    let mut show = |bench: &Bench, state: &str| {
        let begun = Instant::now();
        bench.read(last, 1, by_last);
        let first_ms = begun.elapsed().as_secs_f64() * 1e3;
        let (secondary, hash) = bench.read(last, READS, by_last);
        let (primary, other) = bench.read(ReadOrder::Identity, READS, |n| (n % rows).to_le_bytes().to_vec());
        println!("{state:<30} secondary {secondary:>8.0}  primary {primary:>8.0}  (the first read {first_ms:.1} ms)");
        hashes.push((hash, other));
    };
    show(&bench, "all in memory");
    bench.cut(rows);
    show(&bench, "cut, one run");
    for round in 1..5u32 {
        bench.apply(rows / 4, |id| (Some(image(id, id, round - 1)), Some(image(id, id, round))));
        bench.cut(rows);
    }
    show(&bench, "five runs, before compaction");
    bench.store.compact_fully().unwrap();
    show(&bench, "after compaction");
    assert_eq!(hashes[0], hashes[1], "a cut changes nothing that is read");
    assert_eq!(hashes[2], hashes[3], "compaction changes nothing that is read");
    println!("result hash {:016x}", xxh3_64(format!("{hashes:?}").as_bytes()));
}

fn main() {
    let rows: u32 = std::env::args().nth(1).map_or(200_000, |rows| rows.parse().expect("a number of rows"));
    let cpu = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let cpu = cpu.lines().find_map(|line| line.strip_prefix("model name\t: ")).unwrap_or("unknown CPU");
    let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let cores = std::thread::available_parallelism().map_or(0, usize::from);
    println!("machine: {cpu}, {cores} cores; load {}", load.trim());
    println!("{rows} rows of about 360 bytes, {LANES} lanes, one thread; ns a row, each column all rows once");
    println!("           insert unchanged  changed  delete | cut: insert unchanged changed delete");
    let two = ", KEY last (last, first), KEY w (w, balance)";
    writing(rows, "no index", "");
    writing(rows, "1 index", ", KEY last (last, first)");
    writing(rows, "2 indexes", two);
    reading(rows, two);
}
