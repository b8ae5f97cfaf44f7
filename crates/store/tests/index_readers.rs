//! Index readers during replay: versions are added and removed, segments are emptied, generations are cut.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use base::{Random, SequenceNumber, key_hash};
use catalog::{Catalog, KeyOrder, StatementContext, TableDef};
use store::{
    BeforeImage, CheckImages, CutPoint, Disk, DiskOptions, DiskSpace, KeyRange, ReadOrder, RowChange, RowTarget,
    Snapshot, SnapshotLimits, Store, StoreError, TableReader, TableShape, WriteContext,
};
use values::RowLayout;

const ROWS: u32 = 300;

fn catalog() -> Catalog {
    let context = StatementContext { default_db: "d".into(), ..StatementContext::default() };
    let sql = b"CREATE TABLE t (id INT PRIMARY KEY, a INT, x VARBINARY(2000), KEY a (a))";
    Catalog::new(0).apply(&context, sql).unwrap().catalog
}

fn image(id: u32, a: u32, fill: u16) -> Vec<u8> {
    let mut image = [&[0][..], &id.to_le_bytes(), &a.to_le_bytes(), &fill.to_le_bytes()].concat();
    image.resize(image.len() + usize::from(fill), b'x');
    image
}

struct Writer<'a> {
    store: &'a Arc<Store>,
    def: Arc<TableDef>,
    now: Vec<u32>,
    sequence: u64,
    fill: u16,
}

impl Writer<'_> {
    fn set(&mut self, id: u32, a: u32) {
        let types = self.def.column_types();
        let (layout, order) = (RowLayout::new(&types), KeyOrder::of(&self.def));
        let versions = catalog::RowVersions::of(&self.def);
        let (table, definition) = (self.def.id, self.def.version);
        let shape =
            TableShape { id: table, layout: &layout, types: &types, order: &order, definition, versions: &versions };
        let (key, new) = (id.to_le_bytes(), image(id, a, self.fill));
        let hash = key_hash(self.def.id.0, &key);
        let old = self.now.get(id as usize).map(|a| image(id, *a, self.fill));
        let change = match &old {
            Some(old) => RowChange::Update { before: BeforeImage::Full(old), image: &new },
            None => RowChange::Insert { image: &new },
        };
        let oldest = self.store.visibility().oldest_needed();
        let (layers, lane_index) = (self.store.visibility().layers(), self.store.lane_of(hash));
        let mut lane = layers.active.lane_mut(lane_index).unwrap();
        let sequence = self.sequence + 1;
        let target = RowTarget { lane: lane_index, shape: &shape, hash, key: &key };
        let context = WriteContext { sequence, oldest_needed: oldest, check: CheckImages::All, layers: &layers };
        lane.apply(&target, change, &context).unwrap();
        lane.tidy([self.def.id].into_iter(), oldest);
        match self.now.get_mut(id as usize) {
            Some(slot) => *slot = a,
            None => self.now.push(a),
        }
    }

    fn commit(&mut self) {
        self.sequence += 1;
        self.store.visibility().advance(SequenceNumber(self.sequence), |_| {});
    }

    fn cut(&self) {
        let point = CutPoint::at(self.sequence, self.store.visibility().current().catalog);
        self.store.cut(&self.store.seal(Some(point))).unwrap();
    }
}

/// Every transaction swaps the values of two rows, so each snapshot has each value once.
fn swap_beside_readers(store: &Arc<Store>, transactions: u64, cut_every: Option<u64>) {
    let def = Arc::clone(store.visibility().current().catalog.table("d", "t").unwrap());
    let mut writer = Writer { store, def: Arc::clone(&def), now: Vec::new(), sequence: 0, fill: 800 };
    (0..ROWS).for_each(|id| writer.set(id, id));
    writer.commit();
    let done = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let readers: Vec<_> = (0..2)
            .map(|reader| {
                let (done, store, def) = (&done, Arc::clone(store), &def);
                scope.spawn(move || {
                    let table = TableReader::new(def);
                    let order = ReadOrder::Index(def.key("a").unwrap().id);
                    let mut reads = 0;
                    while !done.load(Ordering::Acquire) || reads == 0 {
                        let snapshot = Snapshot::pin(&store);
                        // One of the readers holds its snapshot for a while.
                        for _ in 0..=reader * 5 {
                            let rows = store.range(&snapshot, &table, order, &KeyRange::all()).unwrap();
                            let value = |image: &[u8]| u32::from_le_bytes(image[5..9].try_into().unwrap());
                            let values: Vec<u32> = rows.map(|row| value(&row.unwrap().image)).collect();
                            assert!(values.iter().copied().eq(0..ROWS), "at {}: {values:?}", snapshot.sequence());
                            let rows = store.range(&snapshot, &table, ReadOrder::Identity, &KeyRange::all()).unwrap();
                            assert_eq!(rows.map(Result::unwrap).count(), ROWS as usize);
                        }
                        reads += 1;
                    }
                    reads
                })
            })
            .collect();
        let mut random = Random::new(7);
        for transaction in 0..transactions {
            let (left, right) = (random.below(ROWS), random.below(ROWS));
            if left != right {
                let (a, b) = (writer.now[left as usize], writer.now[right as usize]);
                writer.set(left, b);
                writer.set(right, a);
            }
            writer.commit();
            if cut_every.is_some_and(|every| transaction % every == every - 1) {
                writer.cut();
            }
        }
        done.store(true, Ordering::Release);
        for reader in readers {
            assert!(reader.join().unwrap() > 0);
        }
    });
}

#[test]
fn readers_see_each_value_once_while_versions_come_and_go() {
    let store = Arc::new(Store::new(4, catalog()));
    swap_beside_readers(&store, 8000, None);
}

/// Limits on memory and age: once given up, the oldest snapshot returns an error and its memory is free.
#[test]
fn a_snapshot_that_holds_too_much_is_given_up() {
    let folder = tempfile::tempdir().unwrap();
    let (disk, _) = Disk::open(&folder.path().join("store"), DiskOptions { cache_bytes: 4 << 20 }).unwrap();
    let store = Arc::new(Store::over(4, disk, folder.path().join("scratch"), None, catalog()).unwrap());
    let def = Arc::clone(store.visibility().current().catalog.table("d", "t").unwrap());
    let (table, order) = (TableReader::new(&def), ReadOrder::Index(def.key("a").unwrap().id));
    let mut writer = Writer { store: &store, def: Arc::clone(&def), now: Vec::new(), sequence: 0, fill: 800 };
    let mut round = |add: u32| {
        (0..ROWS).for_each(|id| writer.set(id, id + add));
        writer.commit();
        let snapshot = Snapshot::pin(&store);
        writer.cut();
        snapshot
    };
    // Each snapshot alone keeps a generation of about 300 KB.
    store.visibility().limit_snapshots(SnapshotLimits { bytes: 1 << 20, age: None });
    let first = round(0);
    let mut open = store.range(&first, &table, order, &KeyRange::all()).unwrap();
    assert!(open.next().unwrap().is_ok());
    let others: Vec<Snapshot> = (1..8).map(&mut round).collect();
    let old = Some(StoreError::SnapshotTooOld);
    assert_eq!(open.next().unwrap().err(), old, "a range that is open");
    assert_eq!(store.range(&first, &table, order, &KeyRange::all()).err(), old);
    assert_eq!(store.get(&first, &def, &1u32.to_le_bytes()).err(), old);
    assert_eq!(store.scan::<()>(&first, &def, |_| std::ops::ControlFlow::Continue(())).err(), old);
    // The newest snapshots are intact.
    let last = others.last().unwrap();
    let rows = store.range(last, &table, order, &KeyRange::all()).unwrap();
    assert!(rows.map(|row| row.unwrap().image[5]).eq((0..ROWS).map(|id| (id + 7) as u8)));
    let given_up = others.iter().filter(|other| store.get(other, &def, &1u32.to_le_bytes()).is_err()).count();
    assert!((1..others.len()).contains(&given_up), "{given_up}");
    // By age, which is checked once a second.
    store.visibility().limit_snapshots(SnapshotLimits { bytes: u64::MAX, age: Some(Duration::ZERO) });
    let newest = Snapshot::pin(&store);
    store.visibility().tidy();
    assert_eq!(store.get(last, &def, &1u32.to_le_bytes()).err(), old);
    assert!(store.get(&newest, &def, &1u32.to_le_bytes()).unwrap().is_some());
    drop((first, others, newest));
    store.visibility().tidy();
    assert_eq!(store.visibility().oldest_needed(), store.visibility().watermark().0, "nothing stays pinned");
}

/// Each keeps the files of its tree. While the disk has room that is allowed, for as long as `--snapshot-age` says.
#[test]
fn snapshots_of_an_older_tree_are_given_up_while_the_disk_is_nearly_full() {
    for (reserve, kept) in [(0, 5), (u64::MAX, 0)] {
        let folder = tempfile::tempdir().unwrap();
        let (disk, _) = Disk::open(&folder.path().join("store"), DiskOptions { cache_bytes: 4 << 20 }).unwrap();
        disk.watch_space(Arc::new(DiskSpace::new(folder.path(), Some(reserve))));
        let store = Arc::new(Store::over(4, disk, folder.path().join("scratch"), None, catalog()).unwrap());
        let def = Arc::clone(store.visibility().current().catalog.table("d", "t").unwrap());
        let mut writer = Writer { store: &store, def: Arc::clone(&def), now: Vec::new(), sequence: 0, fill: 8 };
        let mut round = |add: u32| {
            (0..10).for_each(|id| writer.set(id, id + add));
            writer.commit();
            let snapshot = Snapshot::pin(&store);
            writer.cut();
            snapshot
        };
        let older: Vec<Snapshot> = (0..5).map(&mut round).collect();
        let reads = |snapshot: &Snapshot| store.get(snapshot, &def, &1u32.to_le_bytes()).is_ok();
        let mut steps = 0;
        while store.compact_near(false).unwrap() || steps < 4 {
            let now: Vec<bool> = older.iter().map(reads).collect();
            assert!(now.is_sorted(), "the oldest first: {now:?}");
            steps += 1;
        }
        assert_eq!(older.iter().filter(|snapshot| reads(snapshot)).count(), kept, "with a reserve of {reserve}");
        // One of the newest tree keeps no file.
        let newest = Snapshot::pin(&store);
        assert!(!store.compact_near(false).unwrap() && reads(&newest));
        drop((older, newest));
    }
}

#[test]
fn what_readers_sorted_of_versions_long_gone_is_given_back() {
    let store = Arc::new(Store::new(4, catalog()));
    let def = Arc::clone(store.visibility().current().catalog.table("d", "t").unwrap());
    let (table, order) = (TableReader::new(&def), ReadOrder::Index(def.key("a").unwrap().id));
    let mut writer = Writer { store: &store, def, now: Vec::new(), sequence: 0, fill: 0 };
    let mut most = 0;
    for round in 0..2500 {
        (0..100).for_each(|id| writer.set(id, round * 100 + id));
        writer.commit();
        if round % 20 == 0 {
            let snapshot = Snapshot::pin(&store);
            let mut rows = store.range(&snapshot, &table, order, &KeyRange::all()).unwrap();
            assert_eq!(rows.next_back().unwrap().unwrap().key, 99u32.to_le_bytes());
            assert_eq!(rows.count(), 99);
            most = most.max(store.stats().memory.bytes);
        }
    }
    // 250,000 entries of about 50 bytes were built, for 100 rows.
    assert!(most < 9 << 20, "{most}");
}

#[test]
fn readers_see_each_value_once_while_generations_are_cut() {
    let folder = tempfile::tempdir().unwrap();
    let (disk, _) = Disk::open(&folder.path().join("store"), DiskOptions { cache_bytes: 4 << 20 }).unwrap();
    let store = Arc::new(Store::over(4, disk, folder.path().join("scratch"), None, catalog()).unwrap());
    swap_beside_readers(&store, 5000, Some(700));
    while store.compact().unwrap() {}
    let snapshot = Snapshot::pin(&store);
    let def = snapshot.catalog().table("d", "t").unwrap();
    let check = store.check_index(&snapshot, &TableReader::new(def), def.key("a").unwrap().id).unwrap();
    assert_eq!((check.entries, check.missing, check.stale), (u64::from(ROWS), 0, 0));
}
