//! Rows that are not as the log says are found, wherever they lie, and nothing else is. Random walks over changes of
//! the log, planted differences, cuts, spills, merges, pinned snapshots and restarts, against a model.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::Arc;

use base::{Random, SequenceNumber, key_hash};
use catalog::{Catalog, StatementContext, TableDef};
use store::{
    BeforeImage, CheckImages, CutPoint, Disk, DiskOptions, DriftKind, OwnedShape, RowChange, RowError, RowErrorKind,
    RowTarget, Snapshot, Store, WriteContext,
};

const LANES: usize = 2;
const KEYED: &str = "CREATE TABLE t (id INT PRIMARY KEY, a INT NOT NULL)";
const KEYLESS: &str = "CREATE TABLE t (id INT NOT NULL)";

struct World {
    store: Arc<Store>,
    catalog: Catalog,
    sequence: u64,
}

fn context() -> StatementContext {
    StatementContext { default_db: "d".into(), ..StatementContext::default() }
}

fn image(id: u32) -> Vec<u8> {
    [&[0][..], &id.to_le_bytes(), &7u32.to_le_bytes()].concat()
}

impl World {
    fn open(folder: &Path, sql: &str) -> World {
        let catalog = Catalog::new(0).apply(&context(), sql.as_bytes()).unwrap().catalog;
        let (disk, recovered) = Disk::open(&folder.join("store"), DiskOptions { cache_bytes: 1 << 20 }).unwrap();
        let store = Store::over(LANES, disk, folder.join("scratch"), recovered, catalog).unwrap();
        let visible = store.visibility().current();
        World { store: Arc::new(store), catalog: visible.catalog, sequence: visible.sequence.0 }
    }

    fn def(&self) -> Arc<TableDef> {
        Arc::clone(self.catalog.table("d", "t").unwrap())
    }

    /// Applies one change of the open transaction.
    fn change(&self, key: &[u8], change: RowChange<'_>, check: CheckImages) -> Result<(), RowError> {
        let oldest = self.store.visibility().oldest_needed();
        let (layers, def) = (self.store.visibility().layers(), self.def());
        let shape = OwnedShape::of(&def);
        let hash = key_hash(def.id.0, key);
        let lane = self.store.lane_of(hash);
        let mut held = layers.active.lane_mut(lane).unwrap();
        let target = RowTarget { lane, shape: &shape.lend(), hash, key };
        let context = WriteContext { sequence: self.sequence + 1, oldest_needed: oldest, check, layers: &layers };
        held.apply(&target, change, &context)?;
        held.tidy([def.id].into_iter(), oldest);
        Ok(())
    }

    fn commit(&mut self) {
        self.sequence += 1;
        self.store.visibility().advance(SequenceNumber(self.sequence), |_| {});
    }

    fn cut(&self) {
        self.store.cut(&self.store.seal(Some(CutPoint::at(self.sequence, self.catalog.clone())))).unwrap();
    }

    /// Moves the open transaction's rows out of memory.
    fn spill(&self) {
        let sealed = self.store.seal(None);
        self.store.spill(&sealed, self.sequence + 1, &self.catalog).unwrap();
    }

    /// Ids of the rows on the list, with what is wrong.
    fn drift(&self) -> BTreeSet<(u32, DriftKind)> {
        let mut all = BTreeSet::new();
        for table in self.store.disk().unwrap().drift() {
            assert_eq!((table.table, table.more), (self.def().id.0, 0));
            for row in table.rows {
                let own = row.key.get(row.key.len() - 8..).unwrap();
                all.insert((u32::from_str_radix(own, 16).unwrap().swap_bytes(), row.kind));
            }
        }
        all
    }
}

#[derive(Clone, Copy, Debug)]
enum Op {
    Insert,
    Update,
    Merge,
    Delete,
}

const OPS: [Op; 4] = [Op::Insert, Op::Update, Op::Merge, Op::Delete];

impl Op {
    fn apply(self, world: &World, id: u32, check: CheckImages) -> Result<(), RowError> {
        let whole = image(id);
        let some = [&[0][..], &8u32.to_le_bytes()].concat();
        let before = BeforeImage::None;
        let change = match self {
            Op::Insert => RowChange::Insert { image: &whole },
            Op::Update => RowChange::Update { before, image: &whole },
            Op::Merge => RowChange::Merge { before, present: &[2], image: &some, later: true },
            Op::Delete => RowChange::Delete { before },
        };
        world.change(&id.to_le_bytes(), change, check)
    }

    fn needs_row(self) -> bool {
        !matches!(self, Op::Insert)
    }
}

/// What the walk knows of one state of the store.
#[derive(Clone, Default)]
struct Model {
    rows: BTreeSet<u32>,
    expected: BTreeSet<(u32, DriftKind)>,
}

const KEYS: u32 = 30;

/// Returns how many differences were found.
fn walk(seed: u64, contradicts: u64) -> usize {
    let folder = tempfile::tempdir().unwrap();
    let (mut random, mut world) = (Random::new(seed), World::open(folder.path(), KEYED));
    let (mut now, mut durable) = (Model::default(), Model::default());
    let mut pinned: Vec<Snapshot> = Vec::new();
    // Rows of which memory has some columns though the rest is missing: replay would stop at the next change of one.
    let mut parts = BTreeSet::new();
    for _ in 0..150 {
        for _ in 0..=random.below(6u64) {
            let id = random.below(KEYS);
            if parts.contains(&id) {
                continue;
            }
            if random.one_in(contradicts) {
                // Planted: a row goes or comes without the log.
                let planted = if now.rows.contains(&id) { Op::Delete } else { Op::Insert };
                planted.apply(&world, id, CheckImages::Off).unwrap();
                if !now.rows.remove(&id) {
                    now.rows.insert(id);
                }
                continue;
            }
            let there = now.rows.contains(&id);
            let lies = random.one_in(contradicts);
            let fitting: Vec<Op> = OPS.into_iter().filter(|op| op.needs_row() == (there != lies)).collect();
            let op = random.pick(&fitting);
            match op.apply(&world, id, CheckImages::Sample) {
                Ok(()) => {
                    if lies {
                        let kind = if op.needs_row() { DriftKind::Missing } else { DriftKind::Duplicate };
                        now.expected.insert((id, kind));
                    }
                    match op {
                        Op::Delete => now.rows.remove(&id),
                        // Some columns make no row.
                        Op::Merge if !there => parts.insert(id),
                        _ => now.rows.insert(id),
                    };
                }
                Err(error) => {
                    assert!(lies, "seed {seed}: {op:?} of {id}: {error}");
                    let kinds = [RowErrorKind::NotFound, RowErrorKind::Duplicate];
                    assert!(kinds.contains(&error.kind), "seed {seed}: {error}");
                }
            }
        }
        world.commit();
        match random.below(12u64) {
            0..3 => {
                world.cut();
                parts.clear();
                durable = now.clone();
            }
            3..6 => drop(world.store.compact().unwrap()),
            6 => pinned.push(Snapshot::pin(&world.store)),
            7 => pinned.clear(),
            8 if random.one_in(4) => {
                pinned.clear();
                drop(world);
                world = World::open(folder.path(), KEYED);
                parts.clear();
                now = durable.clone();
            }
            _ => {}
        }
        let missing: Vec<_> = world.drift().difference(&now.expected).copied().collect();
        assert!(missing.is_empty(), "seed {seed}: false alarms: {missing:?}");
    }
    pinned.clear();
    world.cut();
    world.store.compact_fully().unwrap();
    let found = world.drift();
    assert_eq!(found, now.expected, "seed {seed}");
    drop(world);
    assert_eq!(World::open(folder.path(), KEYED).drift(), found, "seed {seed}: after a restart");
    found.len()
}

#[test]
fn every_planted_difference_that_the_log_touches_is_found() {
    let found: usize = (1..=25).map(|seed| walk(seed, 12)).sum();
    assert!(found > 200, "only {found} differences were planted in all");
}

#[test]
fn there_are_no_false_alarms() {
    assert_eq!((1..=15).map(|seed| walk(seed, u64::MAX)).sum::<usize>(), 0);
}

/// Removed, doubled, and not touched by the log; in memory of another generation, in each level, in a spill.
#[test]
fn a_difference_is_found_in_whatever_level_it_lies() {
    for merges in 0..=2 {
        for spilled in [false, true] {
            let folder = tempfile::tempdir().unwrap();
            let mut world = World::open(folder.path(), KEYED);
            for id in 0..50 {
                Op::Insert.apply(&world, id, CheckImages::Sample).unwrap();
            }
            // Row 1 goes, row 60 comes, row 2 goes and is not touched again.
            Op::Delete.apply(&world, 1, CheckImages::Off).unwrap();
            Op::Delete.apply(&world, 2, CheckImages::Off).unwrap();
            Op::Insert.apply(&world, 60, CheckImages::Off).unwrap();
            world.commit();
            world.cut();
            for _ in 0..merges {
                world.store.compact_fully().unwrap();
                Op::Insert.apply(&world, 100 + merges, CheckImages::Off).unwrap();
                world.commit();
                world.cut();
            }
            Op::Update.apply(&world, 1, CheckImages::Sample).unwrap();
            if spilled {
                world.spill();
            }
            Op::Delete.apply(&world, 3, CheckImages::Sample).unwrap();
            Op::Insert.apply(&world, 60, CheckImages::Sample).unwrap();
            world.commit();
            world.cut();
            let pinned = Snapshot::pin(&world.store);
            world.store.compact_fully().unwrap();
            let expected = BTreeSet::from([(1, DriftKind::Missing), (60, DriftKind::Duplicate)]);
            assert_eq!(world.drift(), expected, "{merges} merges, spilled: {spilled}");
            drop(pinned);
        }
    }
}

#[test]
fn a_row_is_shown_by_its_key() {
    let folder = tempfile::tempdir().unwrap();
    let sql = "CREATE TABLE t (a VARCHAR(20) CHARACTER SET utf8mb4 COLLATE utf8mb4_0900_ai_ci, b SMALLINT, n INT, \
               PRIMARY KEY (b, a))";
    let mut world = World::open(folder.path(), sql);
    let key = [&[4][..], b"it's", &1001u16.to_le_bytes()].concat();
    world.change(&key, RowChange::Delete { before: BeforeImage::None }, CheckImages::Sample).unwrap();
    world.commit();
    world.cut();
    world.store.compact_fully().unwrap();
    let [table] = world.store.disk().unwrap().drift().try_into().unwrap();
    let shown: Vec<String> = table.rows.iter().map(|row| row.shown(&world.def())).collect();
    assert_eq!(shown, [r"(a, b) = ('it\'s', 1001): the log changes it, and it was not here"]);
}

#[test]
fn a_table_that_is_dropped_leaves_the_list() {
    let folder = tempfile::tempdir().unwrap();
    let mut world = World::open(folder.path(), KEYED);
    Op::Update.apply(&world, 1, CheckImages::Sample).unwrap_or_else(|_| panic!("nothing is known of the row"));
    world.commit();
    world.cut();
    world.store.compact_fully().unwrap();
    assert_eq!(world.drift().len(), 1);
    world.sequence += 1;
    world.catalog = world.catalog.apply(&context(), b"DROP TABLE t").unwrap().catalog;
    world.store.visibility().announce_catalog(SequenceNumber(world.sequence), world.catalog.clone());
    world.store.visibility().advance(SequenceNumber(world.sequence), |_| {});
    world.cut();
    assert!(world.store.disk().unwrap().drift().is_empty());
}

/// Copies of rows without a key: changes of a generation add up, so a removal too many may be made good later.
#[test]
fn a_copy_removed_too_many_is_found_though_one_is_added_later() {
    for seed in 1..=40 {
        let folder = tempfile::tempdir().unwrap();
        let (mut random, mut world) = (Random::new(seed), World::open(folder.path(), KEYLESS));
        let mut base: BTreeMap<u32, i64> = BTreeMap::new();
        let mut expected = BTreeSet::new();
        for _ in 0..20 {
            // Sum and lowest sum of this generation.
            let mut sums: BTreeMap<u32, (i64, i64)> = BTreeMap::new();
            for _ in 0..random.below(12u64) {
                let id = random.below(8u32);
                let (sum, lowest) = sums.entry(id).or_default();
                let copies = base.get(&id).copied().unwrap_or(0) + *sum;
                let adds = copies <= 0 && !random.one_in(10) || copies > 0 && random.one_in(2);
                let change = match adds {
                    true => RowChange::AddOne { later: true },
                    false => RowChange::RemoveOne { later: true },
                };
                let key = [&[0][..], &id.to_le_bytes()].concat();
                if let Err(error) = world.change(&key, change, CheckImages::Sample) {
                    assert!(!adds && copies <= 0, "seed {seed}: {error}");
                    continue;
                }
                *sum += if adds { 1 } else { -1 };
                *lowest = (*lowest).min(*sum);
            }
            world.commit();
            world.cut();
            for (id, (sum, lowest)) in sums {
                let copies = base.entry(id).or_default();
                if *copies + lowest < 0 {
                    expected.insert(id);
                }
                *copies = (*copies + sum).max(0);
            }
            let rows: usize = world.store.disk().unwrap().drift().iter().map(|table| table.rows.len()).sum();
            assert_eq!(rows, expected.len(), "seed {seed}");
        }
        let kinds = world.store.disk().unwrap().drift();
        assert!(kinds.iter().flat_map(|table| &table.rows).all(|row| row.kind == DriftKind::TooFewCopies));
    }
}
