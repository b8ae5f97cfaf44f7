//! Cost of updating one row in tables with and without a key, by the number of rows in the table.
//!
//! `cargo run --release -p store --example keyless_cost [ROWS…]`; default 1,000, 100,000 and 10,000,000. Every keyless
//! row is there twice. The rows are on disk, in one cut; 50,000 rows chosen at random are updated, each image checked
//! against the store. Prints the machine, then per table size the microseconds per update (wall clock, and this
//! thread's CPU time, which other load on the machine does not lengthen) and a hash of the remaining rows.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::Instant;

use base::{Random, SequenceNumber, key_hash};
use catalog::{Catalog, KeyOrder, StatementContext, TableDef};
use store::{
    BeforeImage, CheckImages, CutPoint, Disk, DiskOptions, RowChange, RowTarget, Snapshot, Store, TableShape,
    WriteContext,
};
use values::RowLayout;

const UPDATES: u64 = 50_000;
const ROWS_A_CUT: u64 = 2_000_000;

struct Bench {
    store: Arc<Store>,
    def: Arc<TableDef>,
    catalog: Catalog,
    sequence: u64,
}

/// Image like that of `id INT NOT NULL, v INT NOT NULL, pad BINARY(40)`: null bitmap, two integers, 40 bytes with their
/// length.
fn image(id: u32, v: u32) -> Vec<u8> {
    let mut out = vec![0u8];
    out.extend(id.to_le_bytes());
    out.extend(v.to_le_bytes());
    out.push(40);
    out.extend([id as u8; 40]);
    out
}

impl Bench {
    fn apply(&self, key: &[u8], change: RowChange<'_>) {
        let types = self.def.column_types();
        let (layout, order) = (RowLayout::new(&types), KeyOrder::of(&self.def));
        let versions = catalog::RowVersions::of(&self.def);
        let (id, definition) = (self.def.id, self.def.version);
        let shape = TableShape { id, layout: &layout, types: &types, order: &order, definition, versions: &versions };
        let hash = key_hash(self.def.id.0, key);
        let (layers, index) = (self.store.visibility().layers(), self.store.lane_of(hash));
        let oldest = self.store.visibility().oldest_needed();
        let mut lane = layers.active.lane_mut(index).unwrap();
        let sequence = self.sequence + 1;
        let target = RowTarget { lane: index, shape: &shape, hash, key };
        let context = WriteContext { sequence, oldest_needed: oldest, check: CheckImages::All, layers: &layers };
        lane.apply(&target, change, &context).unwrap();
    }

    fn commit(&mut self) {
        self.sequence += 1;
        self.store.visibility().advance(SequenceNumber(self.sequence), |_| ());
    }

    fn cut(&mut self) {
        self.commit();
        let point = CutPoint {
            executed: self.store.visibility().executed(),
            ..CutPoint::at(self.sequence, self.catalog.clone())
        };
        let sealed = self.store.seal(Some(point));
        self.store.cut(&sealed).unwrap();
    }
}

/// CPU time of this thread, in microseconds.
fn on_core() -> f64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").unwrap_or_default();
    text.split(' ').next().and_then(|nanos| nanos.parse::<f64>().ok()).unwrap_or(f64::NAN) / 1e3
}

/// Wall-clock and CPU time per update, in microseconds, and a hash of the remaining rows.
fn run(rows: u64, keyed: bool) -> (f64, f64, u64) {
    let folder = tempfile::tempdir().unwrap();
    let key = if keyed { ", PRIMARY KEY (id)" } else { "" };
    let sql = format!("CREATE TABLE d.t (id INT NOT NULL, v INT NOT NULL, pad VARBINARY(40) NOT NULL{key})");
    let mut catalog = Catalog::new(0);
    for statement in ["CREATE DATABASE d", &sql] {
        catalog = catalog.apply(&StatementContext::default(), statement.as_bytes()).unwrap().catalog;
    }
    let def = Arc::clone(catalog.table("d", "t").unwrap());
    let (disk, recovered) = Disk::open(&folder.path().join("tree"), DiskOptions { cache_bytes: 256 << 20 }).unwrap();
    let store = Store::over(16, disk, folder.path().join("scratch"), recovered, catalog.clone()).unwrap();
    let mut bench = Bench { store: Arc::new(store), def, catalog, sequence: 0 };
    let distinct = if keyed { rows } else { rows / 2 };
    for id in 0..distinct as u32 {
        let image = image(id, 0);
        if keyed {
            bench.apply(&id.to_le_bytes(), RowChange::Insert { image: &image });
        } else {
            bench.apply(&image, RowChange::AddOne { later: false });
            bench.apply(&image, RowChange::AddOne { later: false });
        }
        if u64::from(id) % ROWS_A_CUT == ROWS_A_CUT - 1 {
            bench.cut();
        }
    }
    bench.cut();
    bench.store.compact_fully().unwrap();
    let mut random = Random::new(1);
    let mut values = std::collections::HashMap::new();
    let (started, cpu) = (Instant::now(), on_core());
    for step in 1..=UPDATES as u32 {
        let id = random.below(distinct) as u32;
        // Of a keyless row's copies, the newer one is updated.
        let old = image(id, values.insert(id, step).unwrap_or(0));
        let new = image(id, step);
        if keyed {
            let before = BeforeImage::Full(&old);
            bench.apply(&id.to_le_bytes(), RowChange::Update { before, image: &new });
        } else {
            bench.apply(&old, RowChange::RemoveOne { later: false });
            bench.apply(&new, RowChange::AddOne { later: false });
        }
        bench.commit();
    }
    let micros = started.elapsed().as_secs_f64() * 1e6 / UPDATES as f64;
    let cpu = (on_core() - cpu) / UPDATES as f64;
    let snapshot = Snapshot::pin(&bench.store);
    let mut left = 0u64;
    let flow = bench.store.scan::<()>(&snapshot, &bench.def, |row| {
        left = left.wrapping_add(key_hash(1, row.image).wrapping_mul(row.count));
        ControlFlow::Continue(())
    });
    let _ = flow.unwrap();
    (micros, cpu, left)
}

fn main() {
    let asked: Vec<u64> = std::env::args().skip(1).map(|text| text.parse().expect("a number of rows")).collect();
    let sizes = if asked.is_empty() { vec![1_000, 100_000, 10_000_000] } else { asked };
    let cpu = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    let model = cpu.lines().find(|line| line.starts_with("model name")).unwrap_or("unknown machine");
    let load = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    println!("{model}; load {}", load.trim());
    let titles = ["rows", "keyless µs", "on a core", "keyed µs", "on a core"];
    println!("{}  rows left (hash, keyless; keyed)", titles.map(|title| format!("{title:>12}")).concat());
    for rows in sizes {
        let ((keyless, keyless_cpu, left), (keyed, keyed_cpu, kept)) = (run(rows, false), run(rows, true));
        println!("{rows:>12}{keyless:>12.2}{keyless_cpu:>12.2}{keyed:>12.2}{keyed_cpu:>12.2}  {left:016x} {kept:016x}");
    }
}
