//! Deltas represent their rows until a whole row is needed.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;

use base::{SequenceNumber, key_hash};
use catalog::{Catalog, StatementContext, TableDef};
use store::{
    BeforeImage, CheckImages, CutPoint, Disk, DiskOptions, IndexCheck, KeyRange, OwnedShape, ReadOrder, RowBatch,
    RowChange, RowError, RowErrorKind, RowTarget, Snapshot, Store, StoreError, TableReader, TableShape, WriteContext,
};

const LANES: usize = 2;
/// Bit of each column.
const A: u8 = 2;
const B: u8 = 4;

struct World {
    store: Arc<Store>,
    catalog: Catalog,
    sequence: u64,
}

fn context() -> StatementContext {
    StatementContext { default_db: "d".into(), ..StatementContext::default() }
}

fn image(id: u32, a: u32, b: u32) -> Vec<u8> {
    [&[0][..], &id.to_le_bytes(), &a.to_le_bytes(), &b.to_le_bytes()].concat()
}

fn full(image: &[u8]) -> BeforeImage<'_> {
    BeforeImage::Full(image)
}

impl World {
    /// Rows 0 to 99 are on disk: `(id, 10 * id, id)`.
    fn new(folder: &Path) -> World {
        let sql = b"CREATE TABLE t (id INT PRIMARY KEY, a INT NOT NULL, b INT NOT NULL, KEY b (b))";
        let catalog = Catalog::new(0).apply(&context(), sql).unwrap().catalog;
        let mut world = World::open(folder, catalog);
        for id in 0..100 {
            world.change(id, RowChange::Insert { image: &image(id, 10 * id, id) }).unwrap();
        }
        world.cut().unwrap();
        world
    }

    fn open(folder: &Path, catalog: Catalog) -> World {
        let (disk, recovered) = Disk::open(&folder.join("store"), DiskOptions { cache_bytes: 1 << 20 }).unwrap();
        let store = Store::over(LANES, disk, folder.join("scratch"), recovered, catalog).unwrap();
        let visible = store.visibility().current();
        World { store: Arc::new(store), catalog: visible.catalog, sequence: visible.sequence.0 }
    }

    fn def(&self) -> Arc<TableDef> {
        Arc::clone(self.catalog.table("d", "t").unwrap())
    }

    fn with_shape<T>(&self, work: impl FnOnce(&TableShape<'_>) -> T) -> T {
        let def = self.def();
        work(&OwnedShape::of(&def).lend())
    }

    /// A transaction of one change.
    fn change(&mut self, id: u32, change: RowChange<'_>) -> Result<(), RowError> {
        self.change_with(CheckImages::Off, id, change)
    }

    fn change_with(&mut self, check: CheckImages, id: u32, change: RowChange<'_>) -> Result<(), RowError> {
        let oldest = self.store.visibility().oldest_needed();
        let layers = self.store.visibility().layers();
        self.with_shape(|shape| {
            let hash = key_hash(shape.id.0, &id.to_le_bytes());
            let lane = self.store.lane_of(hash);
            let mut held = layers.active.lane_mut(lane).unwrap();
            let (key, sequence) = (id.to_le_bytes(), self.sequence + 1);
            let target = RowTarget { lane, shape, hash, key: &key };
            let context = WriteContext { sequence, oldest_needed: oldest, check, layers: &layers };
            held.apply(&target, change, &context)?;
            held.tidy([shape.id].into_iter(), oldest);
            Ok(())
        })?;
        self.sequence += 1;
        self.store.visibility().advance(SequenceNumber(self.sequence), |_| {});
        Ok(())
    }

    /// Sets new values in some columns, given by the bits of `A` and `B`.
    fn merge(&mut self, id: u32, columns: u8, a: u32, b: u32) -> Result<(), RowError> {
        let values = [(A, a), (B, b)].into_iter().filter(|(bit, _)| columns & bit != 0);
        let image: Vec<u8> = std::iter::once(0).chain(values.flat_map(|(_, value)| value.to_le_bytes())).collect();
        let change = RowChange::Merge { before: BeforeImage::None, present: &[columns], image: &image, later: true };
        self.change(id, change)
    }

    fn point(&self) -> CutPoint {
        CutPoint::at(self.sequence, self.catalog.clone())
    }

    fn seal(&self) {
        drop(self.store.seal(Some(self.point())));
    }

    fn cut(&self) -> Result<(), StoreError> {
        self.store.cut(&self.store.seal(Some(self.point()))).map(drop)
    }

    fn alter(&mut self, sql: &str) {
        let oldest = self.store.visibility().oldest_needed();
        let layers = self.store.visibility().layers();
        for lane in 0..LANES {
            let mut held = layers.active.lane_mut(lane).unwrap();
            self.with_shape(|shape| held.complete_deltas(lane, shape, self.sequence + 1, oldest, &layers)).unwrap();
        }
        self.sequence += 1;
        self.catalog = self.catalog.apply(&context(), sql.as_bytes()).unwrap().catalog;
        self.store.visibility().announce_catalog(SequenceNumber(self.sequence), self.catalog.clone());
        self.store.visibility().advance(SequenceNumber(self.sequence), |_| {});
    }
}

/// All rows at a snapshot, through every access path; the results must agree.
fn read(store: &Store, snapshot: &Snapshot) -> Result<BTreeMap<u32, Vec<u8>>, StoreError> {
    let def = snapshot.catalog().table("d", "t").unwrap();
    let id_of = |key: &[u8]| u32::from_le_bytes(key.try_into().unwrap());
    let mut rows = BTreeMap::new();
    let _ = store.scan::<()>(snapshot, def, |row| {
        assert!(rows.insert(id_of(row.key), row.image.to_vec()).is_none(), "seen twice");
        ControlFlow::Continue(())
    })?;
    let reader = TableReader::new(def);
    let orders = std::iter::once(ReadOrder::Identity).chain(reader.indexes().iter().map(|i| ReadOrder::Index(i.id())));
    for order in orders {
        if !store.is_ready(snapshot, &reader, order)? {
            continue;
        }
        let ranged = store.range(snapshot, &reader, order, &KeyRange::all())?;
        let ranged = ranged.map(|row| row.map(|row| (id_of(&row.key), row.image))).collect::<Result<_, _>>()?;
        assert_eq!(rows, ranged, "{order:?}");
    }
    for (id, image) in &rows {
        assert_eq!(store.get(snapshot, def, &id.to_le_bytes())?.as_ref(), Some(image));
    }
    Ok(rows)
}

fn now(world: &World) -> BTreeMap<u32, Vec<u8>> {
    read(&world.store, &Snapshot::pin(&world.store)).unwrap()
}

#[test]
fn a_reader_misses_no_row_whose_deltas_become_whole_beside_it() {
    let folder = tempfile::tempdir().unwrap();
    let mut world = World::new(folder.path());
    for id in 0..40 {
        world.merge(id, A, 1, 0).unwrap();
    }
    // In the lane that is read last: once it is in a batch, the generation in memory is read.
    let last = |id: &u32| world.store.lane_of(key_hash(world.def().id.0, &id.to_le_bytes())) == LANES - 1;
    let whole = (200..).find(last).unwrap();
    world.change(whole, RowChange::Insert { image: &image(whole, 2, 2) }).unwrap();
    let snapshot = Snapshot::pin(&world.store);
    let reader = TableReader::new(&world.def());
    let mut scan = snapshot.scan(&reader, &[0]);
    let (mut batch, mut seen) = (RowBatch::default(), Vec::new());
    while scan.next_batch(&mut batch).unwrap() {
        seen.extend((0..batch.len()).map(|row| batch.stored(row, 0).unwrap().to_vec()));
        if seen.len() == 1 {
            world.alter("ALTER TABLE t ADD COLUMN c INT");
        }
    }
    seen.sort_unstable();
    let mut expected: Vec<_> = (0..100).chain([whole]).map(|id: u32| id.to_le_bytes().to_vec()).collect();
    expected.sort_unstable();
    assert_eq!(seen.len(), expected.len());
    assert_eq!(seen, expected);
}

#[test]
fn deltas_of_several_generations_make_one_row() {
    let folder = tempfile::tempdir().unwrap();
    let mut world = World::new(folder.path());
    let mut expected = now(&world);
    assert_eq!(expected.len(), 100);
    let mut seen = Vec::new();
    for round in 1..4u32 {
        for id in 0..40 {
            world.merge(id, A, 1_000 * round + id, 0).unwrap();
            expected.insert(id, image(id, 1_000 * round + id, if round > 1 && id < 10 { id + 500 } else { id }));
        }
        if round == 1 {
            // An indexed column: the whole row is needed, and assembled from disk and delta.
            for id in 0..10 {
                world.merge(id, A | B, 7, id + 500).unwrap();
                expected.insert(id, image(id, 7, id + 500));
            }
        }
        seen.push((Snapshot::pin(&world.store), expected.clone()));
        world.seal();
    }
    // Whole-row changes above deltas.
    for id in 20..30 {
        let (before, after) = (image(id, 3_000 + id, id), image(id, 1, 2 * id));
        world.change(id, RowChange::Update { before: full(&before), image: &after }).unwrap();
        expected.insert(id, after);
    }
    for id in 30..40 {
        let before = image(id, 3_000 + id, id);
        world.change(id, RowChange::Delete { before: full(&before) }).unwrap();
        expected.remove(&id);
    }
    world.change(35, RowChange::Insert { image: &image(35, 5, 6) }).unwrap();
    expected.insert(35, image(35, 5, 6));
    let duplicate = world.change_with(CheckImages::All, 50, RowChange::Insert { image: &image(50, 0, 0) });
    assert_eq!(duplicate.unwrap_err().kind, RowErrorKind::Duplicate);
    world.merge(51, A, 51, 0).unwrap();
    expected.insert(51, image(51, 51, 51));
    let duplicate = world.change_with(CheckImages::All, 51, RowChange::Insert { image: &image(51, 0, 0) });
    assert_eq!(duplicate.unwrap_err().kind, RowErrorKind::Duplicate, "what has deltas is there");
    seen.push((Snapshot::pin(&world.store), expected.clone()));
    assert_eq!(now(&world), expected);
    world.cut().unwrap();
    for (at, (snapshot, expected)) in seen.iter().enumerate() {
        assert_eq!(&read(&world.store, snapshot).unwrap(), expected, "snapshot {at}");
    }
    seen.clear();
    let snapshot = Snapshot::pin(&world.store);
    let index = world.def().key("b").unwrap().id;
    let check = world.store.check_index(&snapshot, &TableReader::new(&world.def()), index).unwrap();
    assert_eq!(check, IndexCheck { entries: 91, missing: 0, stale: 0 });
    drop(snapshot);
    drop(world);
    let world = World::open(folder.path(), Catalog::new(0));
    assert_eq!(now(&world), expected);
}

/// Deltas in the active and in a sealed generation; then the table gets another layout and another index.
#[test]
fn a_statement_that_alters_the_table_makes_whole_rows() {
    let folder = tempfile::tempdir().unwrap();
    let mut world = World::new(folder.path());
    for id in 0..30 {
        world.merge(id, A, 7_000 + id, 0).unwrap();
    }
    world.seal();
    for id in 20..50 {
        world.merge(id, A, 8_000 + id, 0).unwrap();
    }
    let (before, old) = (Snapshot::pin(&world.store), now(&world));
    world.alter("ALTER TABLE t ADD COLUMN z SMALLINT NOT NULL DEFAULT 7 FIRST, ADD KEY a (a)");
    assert_eq!(world.def().older_layouts.len(), 1, "rows are written anew");
    let a = |id: u32| match id {
        0..20 => 7_000 + id,
        20..50 => 8_000 + id,
        _ => 10 * id,
    };
    let image = |id: u32, a: u32| [&[0, 7, 0][..], &id.to_le_bytes(), &a.to_le_bytes(), &id.to_le_bytes()].concat();
    let mut expected: BTreeMap<u32, Vec<u8>> = (0..100).map(|id| (id, image(id, a(id)))).collect();
    assert_eq!(now(&world), expected);
    // Under the new layout `a` has another bit; `a` is indexed now, `z` is not.
    world.seal();
    for id in 40..60 {
        let change = RowChange::Merge { before: BeforeImage::None, present: &[1], image: &[0, 9, 0], later: true };
        world.change(id, change).unwrap();
        expected.get_mut(&id).unwrap()[1] = 9;
    }
    assert_eq!(now(&world), expected);
    assert_eq!(read(&world.store, &before).unwrap(), old, "under the definition of its time");
    world.cut().unwrap();
    while world.store.compact().unwrap() {}
    assert_eq!(world.store.stats().indexes_to_fill, 0);
    assert_eq!(now(&world), expected);
    assert_eq!(read(&world.store, &before).unwrap(), old);
    drop(before);
    drop(world);
    assert_eq!(now(&World::open(folder.path(), Catalog::new(0))), expected);
}

#[test]
fn a_delta_of_a_row_that_is_not_there_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let mut world = World::new(folder.path());
    let looked = |world: &mut World, check| {
        let image = [&[0][..], &1u32.to_le_bytes()].concat();
        let change = RowChange::Merge { before: BeforeImage::None, present: &[A], image: &image, later: true };
        world.change_with(check, 100, change)
    };
    assert_eq!(looked(&mut world, CheckImages::All).unwrap_err().kind, RowErrorKind::NotFound);
    // Known to be deleted without a disk read.
    world.change(99, RowChange::Delete { before: full(&image(99, 990, 99)) }).unwrap();
    assert_eq!(world.merge(99, A, 1, 0).unwrap_err().kind, RowErrorKind::NotFound);
    looked(&mut world, CheckImages::Off).unwrap();
    let snapshot = Snapshot::pin(&world.store);
    let missing = world.store.get(&snapshot, &world.def(), &100u32.to_le_bytes()).unwrap_err();
    assert!(missing.to_string().contains("`d`.`t` were changed, and the row, key 0x64000000,"), "{missing}");
    let moved = world.merge(100, B, 0, 5).unwrap_err();
    assert_eq!(moved.kind, RowErrorKind::NotFound);
    drop(snapshot);
    // What is visible already is not taken back: the cut goes on, and lists the row.
    world.cut().unwrap();
    let drift = world.store.disk().unwrap().drift();
    assert_eq!(drift.iter().map(|table| (table.table, table.rows.len())).collect::<Vec<_>>(), [(world.def().id.0, 1)]);
    drop(world);
    assert_eq!(now(&World::open(folder.path(), Catalog::new(0))).len(), 99, "row 99 was deleted");
}
