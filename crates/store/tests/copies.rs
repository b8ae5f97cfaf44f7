//! Copies of keyless rows, counted as differences from the layers below, against a model. Random walks over changes,
//! generations, cuts, spills, added and dropped indexes, restarts; snapshots of any age, read through every access
//! path.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use base::{Random, SequenceNumber, key_hash};
use catalog::{Catalog, StatementContext, TableDef};
use store::{
    CheckImages, CutPoint, Disk, DiskOptions, IndexCheck, KeyRange, OwnedShape, ReadOrder, RowChange, RowError,
    RowErrorKind, RowTarget, Snapshot, Store, StoreError, TableReader, WriteContext,
};

const LANES: usize = 2;

/// Number of copies by image.
type Rows = BTreeMap<Vec<u8>, u64>;

struct World {
    store: Arc<Store>,
    catalog: Catalog,
    sequence: u64,
    rows: Rows,
}

fn context() -> StatementContext {
    StatementContext { default_db: "d".into(), ..StatementContext::default() }
}

fn image(a: u32) -> Vec<u8> {
    [&[0][..], &a.to_le_bytes()].concat()
}

impl World {
    fn open(folder: &Path) -> World {
        let catalog = Catalog::new(0).apply(&context(), b"CREATE TABLE t (a INT NOT NULL)").unwrap().catalog;
        let (disk, recovered) = Disk::open(&folder.join("store"), DiskOptions { cache_bytes: 1 << 20 }).unwrap();
        let store = Store::over(LANES, disk, folder.join("scratch"), recovered, catalog).unwrap();
        let visible = store.visibility().current();
        World { store: Arc::new(store), catalog: visible.catalog, sequence: visible.sequence.0, rows: Rows::new() }
    }

    fn def(&self) -> Arc<TableDef> {
        Arc::clone(self.catalog.table("d", "t").unwrap())
    }

    /// Applies one change of the open transaction.
    fn change(&mut self, a: u32, more: bool, check: CheckImages) -> Result<(), RowError> {
        let oldest = self.store.visibility().oldest_needed();
        let (layers, def, key) = (self.store.visibility().layers(), self.def(), image(a));
        let shape = OwnedShape::of(&def);
        let hash = key_hash(def.id.0, &key);
        let lane = self.store.lane_of(hash);
        let mut held = layers.active.lane_mut(lane).unwrap();
        let change = if more { RowChange::AddOne { later: true } } else { RowChange::RemoveOne { later: true } };
        let target = RowTarget { lane, shape: &shape.lend(), hash, key: &key };
        let context = WriteContext { sequence: self.sequence + 1, oldest_needed: oldest, check, layers: &layers };
        held.apply(&target, change, &context)?;
        held.tidy([def.id].into_iter(), oldest);
        let count = self.rows.entry(key.clone()).or_default();
        *count = if more { *count + 1 } else { count.saturating_sub(1) };
        if *count == 0 {
            self.rows.remove(&key);
        }
        Ok(())
    }

    fn commit(&mut self) {
        self.sequence += 1;
        self.store.visibility().advance(SequenceNumber(self.sequence), |_| {});
    }

    fn point(&self) -> CutPoint {
        CutPoint::at(self.sequence, self.catalog.clone())
    }

    fn cut(&self) -> Result<(), StoreError> {
        self.store.cut(&self.store.seal(Some(self.point()))).map(drop)
    }

    fn alter(&mut self, sql: &str) {
        let oldest = self.store.visibility().oldest_needed();
        let layers = self.store.visibility().layers();
        let def = self.def();
        for lane in 0..LANES {
            let mut held = layers.active.lane_mut(lane).unwrap();
            held.complete_deltas(lane, &OwnedShape::of(&def).lend(), self.sequence + 1, oldest, &layers).unwrap();
        }
        self.sequence += 1;
        self.catalog = self.catalog.apply(&context(), sql.as_bytes()).unwrap().catalog;
        self.store.visibility().announce_catalog(SequenceNumber(self.sequence), self.catalog.clone());
        self.store.visibility().advance(SequenceNumber(self.sequence), |_| {});
    }
}

/// All rows at a snapshot, through every access path; the results must agree.
fn read(store: &Store, snapshot: &Snapshot) -> Result<Rows, StoreError> {
    let def = snapshot.catalog().table("d", "t").unwrap();
    let mut rows = Rows::new();
    let _ = store.scan::<()>(snapshot, def, |row| {
        assert!(row.count > 0 && row.key == row.image);
        assert!(rows.insert(row.image.to_vec(), row.count).is_none(), "seen twice");
        ControlFlow::Continue(())
    })?;
    let reader = TableReader::new(def);
    let orders = std::iter::once(ReadOrder::Identity).chain(reader.indexes().iter().map(|i| ReadOrder::Index(i.id())));
    for order in orders {
        if !store.is_ready(snapshot, &reader, order)? {
            continue;
        }
        let mut ranged = Rows::new();
        for row in store.range(snapshot, &reader, order, &KeyRange::all())? {
            let row = row?;
            assert!(ranged.insert(row.image, row.count).is_none(), "seen twice in {order:?}");
        }
        assert_eq!(rows, ranged, "{order:?}");
    }
    for a in 0..VALUES {
        let got = store.get(snapshot, def, &image(a))?;
        assert_eq!(got.is_some(), rows.contains_key(&image(a)), "{a}");
    }
    Ok(rows)
}

const VALUES: u32 = 40;

#[test]
fn differences_add_up_whatever_happens_between_them() {
    for seed in 1..=25u64 {
        let folder = tempfile::tempdir().unwrap();
        let mut world = World::open(folder.path());
        let mut numbers = Random::new(seed);
        let mut random = |bound: u64| numbers.below(bound);
        let (mut pinned, mut with_index, mut durable): (Vec<(Snapshot, Rows)>, bool, Rows) = Default::default();
        for _ in 0..120 {
            let check = [CheckImages::Off, CheckImages::Off, CheckImages::Sample, CheckImages::All][random(4) as usize];
            for _ in 0..=random(6) {
                let a = random(u64::from(VALUES)) as u32;
                let more = random(5) < 3 || !world.rows.contains_key(&image(a));
                world.change(a, more, check).unwrap();
            }
            world.commit();
            match random(14) {
                0..3 => drop(world.store.seal(Some(world.point()))),
                3..6 => {
                    world.cut().unwrap();
                    durable = world.rows.clone();
                }
                6 => while world.store.compact().unwrap() {},
                7 | 8 if pinned.len() < 6 => pinned.push((Snapshot::pin(&world.store), world.rows.clone())),
                9 => pinned.truncate(random(3) as usize),
                10 => {
                    world.alter(if with_index { "DROP INDEX a ON t" } else { "CREATE INDEX a ON t (a)" });
                    with_index = !with_index;
                }
                11 => {
                    // A transaction that exceeds memory.
                    world.cut().unwrap();
                    durable = world.rows.clone();
                    for _ in 0..2 {
                        for a in (0..VALUES).step_by(3) {
                            let more = random(2) == 0 || !world.rows.contains_key(&image(a));
                            world.change(a, more, CheckImages::Off).unwrap();
                        }
                        let sealed = world.store.seal(None);
                        world.store.spill(&sealed, world.sequence + 1, &world.catalog).unwrap();
                    }
                    world.commit();
                    if random(2) == 0 {
                        world.cut().unwrap();
                        durable = world.rows.clone();
                    }
                }
                12 => {
                    pinned.clear();
                    world.cut().unwrap();
                    let rows = std::mem::take(&mut world.rows);
                    drop(world);
                    world = World::open(folder.path());
                    world.rows = rows.clone();
                    durable = rows;
                }
                _ => {}
            }
            let now = Snapshot::pin(&world.store);
            assert_eq!(read(&world.store, &now).unwrap(), world.rows, "seed {seed}");
            for (snapshot, rows) in &pinned {
                assert_eq!(&read(&world.store, snapshot).unwrap(), rows, "seed {seed}, a snapshot of before");
            }
            let count: u64 = world.rows.values().sum();
            assert_eq!(world.store.stats().memory.rows, count, "seed {seed}");
        }
        while world.store.compact().unwrap() {}
        if with_index && world.store.stats().indexes_to_fill == 0 {
            world.cut().unwrap();
            durable = world.rows.clone();
            let (snapshot, index) = (Snapshot::pin(&world.store), world.def().key("a").unwrap().id);
            let check = world.store.check_index(&snapshot, &TableReader::new(&world.def()), index).unwrap();
            assert_eq!(check, IndexCheck { entries: durable.len() as u64, missing: 0, stale: 0 }, "seed {seed}");
        }
        // The process dies: the state of the last cut comes back.
        drop(pinned);
        drop(world);
        let world = World::open(folder.path());
        assert_eq!(read(&world.store, &Snapshot::pin(&world.store)).unwrap(), durable, "seed {seed}");
    }
}

#[test]
fn more_copies_than_there_are_cannot_go() {
    let folder = tempfile::tempdir().unwrap();
    let mut world = World::open(folder.path());
    for a in 0..10 {
        world.change(a, true, CheckImages::Off).unwrap();
    }
    world.commit();
    world.cut().unwrap();
    let gone = world.change(20, false, CheckImages::All).unwrap_err();
    assert_eq!(gone.kind, RowErrorKind::NotFound, "looked for at once");
    world.change(3, false, CheckImages::Off).unwrap();
    world.commit();
    assert_eq!(read(&world.store, &Snapshot::pin(&world.store)).unwrap(), world.rows);
    world.change(3, false, CheckImages::Off).unwrap();
    world.commit();
    let refused = read(&world.store, &Snapshot::pin(&world.store)).unwrap_err();
    assert!(matches!(refused, StoreError::RowMissing { .. }), "{refused}");
    // What is visible already is not taken back: the cut goes on, and lists the row.
    world.cut().unwrap();
    let drift = world.store.disk().unwrap().drift();
    assert_eq!(drift.iter().map(|table| (table.table, table.rows.len())).collect::<Vec<_>>(), [(world.def().id.0, 1)]);
    drop(world);
    let world = World::open(folder.path());
    assert_eq!(read(&world.store, &Snapshot::pin(&world.store)).unwrap().len(), 9);
    assert_eq!(world.store.disk().unwrap().drift(), drift);
}

/// Sets the flag when dropped, even by a panic.
struct Ended<'a>(&'a AtomicBool);

impl Drop for Ended<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Cuts and spills add to counts in the tree, while compaction replaces the tree's files.
#[test]
fn compaction_goes_on_beside_cuts_that_count() {
    const MANY: u32 = 20_000;
    let folder = tempfile::tempdir().unwrap();
    let mut world = World::open(folder.path());
    let ended = AtomicBool::new(false);
    let store = Arc::clone(&world.store);
    std::thread::scope(|scope| {
        let _ended = Ended(&ended);
        scope.spawn(|| {
            while !ended.load(Ordering::Relaxed) {
                store.compact_fully().unwrap();
                store.compact().unwrap();
            }
        });
        for round in 0..12 {
            for a in (0..MANY).filter(|a| a % 12 <= round) {
                let more = round % 3 != 2 || !world.rows.contains_key(&image(a));
                world.change(a, more, CheckImages::Off).unwrap();
            }
            if round % 4 == 3 {
                let sealed = world.store.seal(None);
                world.store.spill(&sealed, world.sequence + 1, &world.catalog).unwrap();
            }
            world.commit();
            world.cut().unwrap();
        }
    });
    let mut rows = Rows::new();
    let snapshot = Snapshot::pin(&world.store);
    let _ = world.store.scan::<()>(&snapshot, &world.def(), |row| {
        rows.insert(row.image.to_vec(), row.count);
        ControlFlow::Continue(())
    });
    assert!(rows == world.rows);
}
