//! The store over its tree against a model of whole histories: cuts, spills, compaction, crashes, dropped tables.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};

use base::{Gtid, GtidSet, Random, SequenceNumber, key_hash};
use catalog::{Catalog, KeyOrder, StatementContext, TableDef};
use proptest::prelude::*;
use store::{
    BeforeImage, CheckImages, CopyWriter, CutPoint, Disk, DiskOptions, KeyRange, OwnedShape, ReadOrder, RowBatch,
    RowChange, RowTarget, Snapshot, Store, TableReader, WriteContext,
};
use values::RowView;

/// Changes of some columns may be stored as deltas.
const LATER: bool = true;
const LANES: usize = 2;

fn context() -> StatementContext {
    StatementContext { default_db: "d".into(), ..StatementContext::default() }
}

fn catalog() -> Catalog {
    let mut catalog = Catalog::new(0);
    for sql in ["CREATE TABLE k (id INT PRIMARY KEY, v VARBINARY(2000))", "CREATE TABLE n (a INT, v VARBINARY(2000))"] {
        catalog = catalog.apply(&context(), sql.as_bytes()).unwrap().catalog;
    }
    catalog
}

fn image(key: u8, fill: u8, len: usize) -> Vec<u8> {
    let mut image = vec![0u8];
    image.extend_from_slice(&u32::from(key).to_le_bytes());
    image.extend_from_slice(&(len as u16).to_le_bytes());
    image.extend(std::iter::repeat_n(fill, len));
    image
}

/// Rows by table name and key: the stored image, and the number of copies.
type Rows = BTreeMap<(&'static str, Vec<u8>), (Vec<u8>, u64)>;

struct World {
    folder: tempfile::TempDir,
    store: Arc<Store>,
    catalog: Catalog,
    now: Rows,
    /// State of the newest cut.
    durable: Rows,
    durable_sequence: u64,
    sequence: u64,
    prepared: base::PreparedSet,
}

fn open(folder: &Path) -> Arc<Store> {
    let (disk, recovered) = Disk::open(&folder.join("store"), DiskOptions { cache_bytes: 1 << 20 }).unwrap();
    Arc::new(Store::over(LANES, disk, folder.join("scratch"), recovered, catalog()).unwrap())
}

impl World {
    fn new() -> World {
        let folder = tempfile::tempdir().unwrap();
        World {
            store: open(folder.path()),
            folder,
            catalog: catalog(),
            now: Rows::new(),
            durable: Rows::new(),
            durable_sequence: 0,
            sequence: 0,
            prepared: base::PreparedSet::default(),
        }
    }

    fn def(&self, table: &str) -> Arc<TableDef> {
        Arc::clone(self.catalog.table("d", table).unwrap())
    }

    fn apply(&self, table: &str, key: &[u8], change: RowChange<'_>) {
        let def = self.def(table);
        let shape = OwnedShape::of(&def);
        let hash = key_hash(def.id.0, key);
        let oldest = self.store.visibility().oldest_needed();
        let (layers, lane_index) = (self.store.visibility().layers(), self.store.lane_of(hash));
        let mut lane = layers.active.lane_mut(lane_index).unwrap();
        let sequence = self.sequence + 1;
        // Every second time, rows that are not in memory are not looked up.
        let check = if sequence.is_multiple_of(2) { CheckImages::All } else { CheckImages::Off };
        let target = RowTarget { lane: lane_index, shape: &shape.lend(), hash, key };
        let context = WriteContext { sequence, oldest_needed: oldest, check, layers: &layers };
        lane.apply(&target, change, &context).unwrap();
        lane.tidy([def.id].into_iter(), oldest);
    }

    /// Inserts, changes or removes a row of the keyed table.
    fn keyed(&mut self, key: u8, new: Option<Vec<u8>>) {
        let bytes = u32::from(key).to_le_bytes().to_vec();
        let old = self.now.get(&("k", bytes.clone())).map(|row| row.0.clone());
        match (&old, &new) {
            (None, Some(new)) => self.apply("k", &bytes, RowChange::Insert { image: new }),
            (Some(old), Some(new)) => {
                self.apply("k", &bytes, RowChange::Update { before: BeforeImage::Full(old), image: new });
            }
            (Some(old), None) => self.apply("k", &bytes, RowChange::Delete { before: BeforeImage::Full(old) }),
            (None, None) => {}
        }
        match new {
            Some(new) => self.now.insert(("k", bytes), (new, 1)),
            None => self.now.remove(&("k", bytes)),
        };
    }

    /// Changes one column of a row of the keyed table.
    fn merged(&mut self, key: u8, fill: u8, len: usize) {
        let bytes = u32::from(key).to_le_bytes().to_vec();
        if !self.now.contains_key(&("k", bytes.clone())) {
            return;
        }
        let new = image(key, fill, len);
        let partial = [&[0u8], &new[5..]].concat();
        let change = RowChange::Merge { before: BeforeImage::None, present: &[0b10], image: &partial, later: LATER };
        self.apply("k", &bytes, change);
        self.now.insert(("k", bytes), (new, 1));
    }

    fn copies(&mut self, row: Vec<u8>, more: bool) {
        let entry = self.now.get(&("n", row.clone())).map_or(0, |row| row.1);
        if !more && entry == 0 {
            return;
        }
        self.apply(
            "n",
            &row,
            if more { RowChange::AddOne { later: LATER } } else { RowChange::RemoveOne { later: LATER } },
        );
        let now = if more { entry + 1 } else { entry - 1 };
        if now == 0 {
            self.now.remove(&("n", row));
        } else {
            self.now.insert(("n", row.clone()), (row, now));
        }
    }

    fn commit(&mut self) {
        self.sequence += 1;
        let gtid: Gtid = format!("3e11fa47-71ca-11e1-9e33-c80aa9429562:{}", self.sequence).parse().unwrap();
        self.store.visibility().advance(SequenceNumber(self.sequence), |set| {
            set.add(gtid);
        });
    }

    fn point(&self) -> CutPoint {
        CutPoint {
            sequence: self.sequence,
            executed: self.store.visibility().executed(),
            catalog: self.catalog.clone(),
            position: Some(("relay-bin.000001".into(), self.sequence * 10)),
            ledger: format!("ledger {}", self.sequence),
            prepared: Arc::clone(&self.prepared),
        }
    }

    fn cut(&mut self) {
        if self.sequence == self.store.last_cut() {
            return;
        }
        let sealed = self.store.seal(Some(self.point()));
        self.store.cut(&sealed).unwrap();
        (self.durable, self.durable_sequence) = (self.now.clone(), self.sequence);
    }

    /// The process dies and starts again.
    fn crash(&mut self) {
        self.store = Arc::new(Store::new(1, Catalog::new(0)));
        self.store = open(self.folder.path());
        let visible = self.store.visibility().current();
        assert_eq!(visible.sequence.0, self.durable_sequence);
        assert_eq!(visible.executed.count(), self.durable_sequence);
        if self.durable_sequence > 0 {
            assert_eq!(self.store.recovered_ledger(), format!("ledger {}", self.durable_sequence));
        }
        (self.now, self.sequence) = (self.durable.clone(), self.durable_sequence);
        if self.durable_sequence > 0 {
            self.catalog = visible.catalog;
        }
    }

    fn seen(&self, snapshot: &Snapshot) -> Rows {
        let mut rows = Rows::new();
        for name in ["k", "n"] {
            let def = self.def(name);
            let flow = self.store.scan::<()>(snapshot, &def, |row| {
                let seen = rows.insert((name, row.key.to_vec()), (row.image.to_vec(), row.count));
                assert!(seen.is_none(), "a row of {name} seen twice");
                ControlFlow::Continue(())
            });
            let _ = flow.unwrap();
        }
        rows
    }

    /// Ranges of the keyed table match the rows in key order, from both ends; a full range of each table returns all
    /// its rows.
    fn check_ranges(&self, snapshot: &Snapshot, expected: &Rows, from: u8, to: u8) {
        let keyed = self.def("k");
        let order = KeyOrder::of(&keyed);
        assert!(order.is_ordered());
        let bound = |key: u8| {
            let mut out = Vec::new();
            order.append(&u32::from(key).to_le_bytes(), &mut out);
            out
        };
        let inside: Vec<Vec<u8>> = (from..to)
            .filter_map(|key| expected.get(&("k", u32::from(key).to_le_bytes().to_vec())))
            .map(|row| row.0.clone())
            .collect();
        let reader = TableReader::new(&keyed);
        let open = |range: &KeyRange| self.store.range(snapshot, &reader, ReadOrder::Identity, range).unwrap();
        let range = || open(&KeyRange::all().from_including(&bound(from)).to_before(&bound(to)));
        let forward: Vec<_> = range().map(|row| row.unwrap().image).collect();
        assert_eq!(forward, inside);
        let backward: Vec<_> = range().rev().map(|row| row.unwrap().image).collect();
        assert!(backward.iter().rev().eq(&inside));
        // From both ends at once, until they meet.
        let (mut both, mut front, mut back) = (range(), Vec::new(), Vec::new());
        while let Some(row) = both.next() {
            front.push(row.unwrap().image);
            match both.next_back() {
                Some(row) => back.push(row.unwrap().image),
                None => break,
            }
        }
        front.extend(back.into_iter().rev());
        assert_eq!(front, inside);
        let rows: Vec<_> = open(&KeyRange::prefix(&bound(from))).map(|row| row.unwrap().image).collect();
        let there = expected.get(&("k", u32::from(from).to_le_bytes().to_vec())).map(|row| row.0.clone());
        assert_eq!(rows, there.into_iter().collect::<Vec<_>>());
        let mut all = Rows::new();
        for name in ["k", "n"] {
            let reader = TableReader::new(&self.def(name));
            for row in self.store.range(snapshot, &reader, ReadOrder::Identity, &KeyRange::all()).unwrap() {
                let row = row.unwrap();
                assert!(all.insert((name, row.key), (row.image, row.count)).is_none(), "a row of {name} seen twice");
            }
        }
        assert_eq!(&all, expected);
        // Parts, however small, have the rows of the whole, each once and in its order.
        let parts = snapshot.split(&reader, 1).unwrap();
        let of_parts: Vec<_> = parts.iter().flat_map(&open).map(|row| row.unwrap().image).collect();
        assert!(of_parts.iter().eq(open(&KeyRange::all()).map(|row| row.unwrap().image).collect::<Vec<_>>().iter()));
        self.check_batches(snapshot, expected);
    }

    /// A scan in batches returns every row's columns once.
    fn check_batches(&self, snapshot: &Snapshot, expected: &Rows) {
        type Columns = (Vec<Option<Vec<u8>>>, u64);
        for name in ["k", "n"] {
            let def = self.def(name);
            let reader = snapshot.reader(&def);
            assert!(Arc::ptr_eq(&reader, &snapshot.reader(&def)), "made once");
            // Not all columns, and not in the table's order.
            let columns: Vec<usize> = (0..reader.layout().column_count()).rev().take(2).collect();
            let (mut scan, mut batch, mut scanned) =
                (snapshot.scan(&reader, &columns), RowBatch::default(), Vec::new());
            while scan.next_batch(&mut batch).unwrap() {
                scanned.extend((0..batch.len()).map(|row| -> Columns {
                    let stored = |column| batch.stored(row, column).map(<[u8]>::to_vec);
                    ((0..columns.len()).map(stored).collect(), batch.count(row))
                }));
            }
            let mut wanted: Vec<Columns> = Vec::new();
            let mut offsets = Vec::new();
            for (_, (image, count)) in expected.iter().filter(|((of, _), _)| *of == name) {
                let view = RowView::new(reader.layout(), reader.column_types(), image, &mut offsets).unwrap();
                let stored = |column: &usize| view.stored(*column).unwrap().map(<[u8]>::to_vec);
                wanted.push((columns.iter().map(stored).collect(), *count));
            }
            scanned.sort();
            wanted.sort();
            assert_eq!(scanned, wanted, "{name}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]
    #[test]
    fn every_snapshot_sees_its_prefix_over_cuts_and_crashes(
        steps in proptest::collection::vec((0u8..12, any::<u8>(), 0usize..400, 0u8..16), 1..200),
    ) {
        let mut world = World::new();
        let mut pinned: Vec<(Snapshot, Rows)> = Vec::new();
        for (key, fill, len, action) in steps {
            match action {
                0 | 1 => world.keyed(key, None),
                2 | 3 => world.merged(key, fill, len),
                4 | 5 => world.copies(image(key % 3, 0, len % 2), true),
                6 => world.copies(image(key % 3, 0, len % 2), false),
                7 => world.cut(),
                13 => drop(world.store.seal(Some(world.point()))),
                8 if fill % 4 == 0 => {
                    pinned.clear();
                    world.crash();
                }
                9 => while world.store.compact().unwrap() {},
                10 if fill % 3 == 0 => world.store.compact_fully().unwrap(),
                _ => world.keyed(key, Some(image(key, fill, len))),
            }
            world.commit();
            if action == 11 && pinned.len() < 4 {
                pinned.push((Snapshot::pin(&world.store), world.now.clone()));
            }
            if action == 12 && !pinned.is_empty() {
                let (snapshot, expected) = pinned.remove(0);
                prop_assert_eq!(world.seen(&snapshot), expected);
            }
        }
        for (snapshot, expected) in &pinned {
            prop_assert_eq!(&world.seen(snapshot), expected);
            for key in 0..12u8 {
                let bytes = u32::from(key).to_le_bytes();
                let row = world.store.get(snapshot, &world.def("k"), &bytes).unwrap();
                prop_assert_eq!(row, expected.get(&("k", bytes.to_vec())).map(|row| row.0.clone()));
            }
        }
        for (snapshot, expected) in &pinned {
            world.check_ranges(snapshot, expected, 2, 9);
        }
        drop(pinned);
        world.check_ranges(&Snapshot::pin(&world.store), &world.now, 0, 5);
        world.check_ranges(&Snapshot::pin(&world.store), &world.now, 7, 7);
        prop_assert_eq!(world.seen(&Snapshot::pin(&world.store)), world.now.clone());
        let rows: u64 = world.now.values().map(|row| row.1).sum();
        prop_assert_eq!(world.store.stats().memory.rows, rows);
        world.cut();
        world.crash();
        prop_assert_eq!(world.seen(&Snapshot::pin(&world.store)), world.now.clone());
        prop_assert_eq!(world.store.stats().memory.rows, rows);
    }

    /// A transaction that exceeds memory: its generations go to the scratch folder, and into the next cut.
    #[test]
    fn a_spilled_transaction_is_seen_whole_or_not_at_all(
        before in proptest::collection::vec((0u8..20, any::<u8>()), 0..20),
        parts in proptest::collection::vec(proptest::collection::vec((0u8..20, any::<u8>(), 0u8..5), 1..15), 1..4),
        crash in any::<bool>(),
    ) {
        let mut world = World::new();
        for (key, fill) in before {
            world.keyed(key, Some(image(key, fill, 9)));
            world.copies(image(key % 3, 0, 1), true);
            world.commit();
        }
        world.cut();
        let (was, sequence) = (world.now.clone(), world.sequence);
        let old = Snapshot::pin(&world.store);
        for part in parts {
            for (key, fill, action) in part {
                match action {
                    0 => world.keyed(key, None),
                    1 => world.merged(key, fill, 5),
                    2 => world.copies(image(key % 3, 0, 1), fill % 2 == 0),
                    _ => world.keyed(key, Some(image(key, fill, 20))),
                }
            }
            let sealed = world.store.seal(None);
            world.store.spill(&sealed, sequence + 1, &world.catalog).unwrap();
            prop_assert_eq!(&world.seen(&Snapshot::pin(&world.store)), &was);
            world.check_ranges(&Snapshot::pin(&world.store), &was, 3, 15);
        }
        if crash {
            drop(old);
            world.crash();
            prop_assert_eq!(&world.seen(&Snapshot::pin(&world.store)), &was);
            return Ok(());
        }
        world.commit();
        prop_assert_eq!(&world.seen(&Snapshot::pin(&world.store)), &world.now);
        world.check_ranges(&Snapshot::pin(&world.store), &world.now, 3, 15);
        prop_assert_eq!(&world.seen(&old), &was);
        world.cut();
        prop_assert_eq!(&world.seen(&Snapshot::pin(&world.store)), &world.now);
        prop_assert_eq!(&world.seen(&old), &was);
        let rows: u64 = world.now.values().map(|row| row.1).sum();
        prop_assert_eq!(world.store.stats().memory.rows, rows);
        drop(old);
        prop_assert_eq!(std::fs::read_dir(world.folder.path().join("scratch")).unwrap().count(), 0);
        world.crash();
        prop_assert_eq!(&world.seen(&Snapshot::pin(&world.store)), &world.now);
    }
}

#[test]
fn a_dropped_tables_space_comes_back_but_not_before_the_drop_is_durable() {
    let mut world = World::new();
    for key in 0..200u8 {
        world.keyed(key, Some(image(key, 7, 400)));
        world.copies(image(key, 9, 300), true);
    }
    world.commit();
    world.cut();
    let full = world.store.stats().disk.unwrap().bytes;
    let before = world.now.clone();
    world.catalog = world.catalog.apply(&context(), b"TRUNCATE TABLE k").unwrap().catalog;
    world.store.visibility().announce_catalog(SequenceNumber(world.sequence + 1), world.catalog.clone());
    world.now.retain(|(table, _), _| *table != "k");
    world.commit();
    while world.store.compact().unwrap() {}
    world.store.compact_fully().unwrap();
    assert!(
        world.store.stats().disk.unwrap().bytes >= full / 2,
        "rows of a table went before its TRUNCATE was durable"
    );
    world.crash();
    assert_eq!(world.seen(&Snapshot::pin(&world.store)), before);
    // Again, but durable this time.
    world.catalog = world.catalog.apply(&context(), b"TRUNCATE TABLE k").unwrap().catalog;
    world.store.visibility().announce_catalog(SequenceNumber(world.sequence + 1), world.catalog.clone());
    world.now.retain(|(table, _), _| *table != "k");
    world.commit();
    world.cut();
    world.store.compact_fully().unwrap();
    let after = world.store.stats().disk.unwrap().bytes;
    assert!(after < full * 2 / 3, "{after} of {full} bytes");
    assert_eq!(world.seen(&Snapshot::pin(&world.store)), world.now);
    world.crash();
    assert_eq!(world.seen(&Snapshot::pin(&world.store)), world.now);
}

#[test]
fn an_interrupted_copy_is_gone_and_a_finished_one_is_the_store() {
    let folder = tempfile::tempdir().unwrap();
    let catalog = catalog();
    let (keyed, keyless) = (catalog.table("d", "k").unwrap(), catalog.table("d", "n").unwrap());
    let copy = |finish: bool| {
        let (disk, recovered) = Disk::open(&folder.path().join("store"), DiskOptions { cache_bytes: 1 << 20 }).unwrap();
        assert!(recovered.is_none());
        let writer = CopyWriter::new(&disk, 4096);
        for key in (0..=255u8).rev() {
            let image = image(key, 3, 30);
            writer.rows(keyed, [(u32::from(key).to_le_bytes().as_slice(), image.as_slice())].into_iter()).unwrap();
        }
        for round in 0..300u32 {
            let row = image((round % 3) as u8, 1, 20);
            writer.rows(keyless, [(row.as_slice(), row.as_slice())].into_iter()).unwrap();
        }
        writer.table_done(keyed).unwrap();
        let executed = "3e11fa47-71ca-11e1-9e33-c80aa9429562:1-77".parse().unwrap();
        if finish {
            writer.finish(&executed, None, &catalog).unwrap();
        }
    };
    copy(false);
    copy(true);
    let store = open(folder.path());
    let snapshot = Snapshot::pin(&store);
    assert_eq!(snapshot.executed().count(), 77);
    let (mut rows, mut copies) = (0, Vec::new());
    let flow = store.scan::<()>(&snapshot, keyed, |_| {
        rows += 1;
        ControlFlow::Continue(())
    });
    let _ = flow.unwrap();
    let flow = store.scan::<()>(&snapshot, keyless, |row| {
        copies.push(row.count);
        ControlFlow::Continue(())
    });
    let _ = flow.unwrap();
    assert_eq!(rows, 256);
    assert_eq!(copies, [100, 100, 100]);
    assert_eq!(store.stats().memory.rows, 556);
}

/// Ranges of tables from several threads, as a copy reads them: a run of each thread takes what ascends.
#[test]
fn a_copy_from_several_threads_makes_few_runs() {
    const THREADS: u64 = 3;
    let folder = tempfile::tempdir().unwrap();
    let mut catalog = Catalog::new(0);
    for table in ["a", "b", "c"] {
        let sql = format!("CREATE TABLE {table} (id INT UNSIGNED PRIMARY KEY, v INT UNSIGNED)");
        catalog = catalog.apply(&context(), sql.as_bytes()).unwrap().catalog;
    }
    let tables = ["a", "b", "c"].map(|name| Arc::clone(catalog.table("d", name).unwrap()));
    let (ranges, each) = (30, 1000);
    let (disk, _) = Disk::open(&folder.path().join("store"), DiskOptions { cache_bytes: 1 << 20 }).unwrap();
    let writer = CopyWriter::new(&disk, 64 << 10);
    let next = AtomicU64::new(0);
    let image = |id: u32| [&[0][..], &id.to_le_bytes(), &(!id).to_le_bytes()].concat();
    std::thread::scope(|scope| {
        for _ in 0..THREADS {
            scope.spawn(|| {
                loop {
                    let nth = next.fetch_add(1, Ordering::Relaxed);
                    let Some(table) = tables.get((nth / ranges) as usize) else { return };
                    let first = (nth % ranges * each) as u32;
                    let images: Vec<Vec<u8>> = (first..first + each as u32).map(image).collect();
                    for some in images.chunks(300) {
                        writer.rows(table, some.iter().map(|image| (&image[1..5], image.as_slice()))).unwrap();
                    }
                }
            });
        }
    });
    for table in &tables {
        writer.table_done(table).unwrap();
    }
    let executed = "3e11fa47-71ca-11e1-9e33-c80aa9429562:1-77".parse().unwrap();
    writer.finish(&executed, None, &catalog).unwrap();
    // One of each thread and table at most, what each one collected before, and the record's.
    let runs = disk.l0_runs();
    assert!(runs as u64 <= 2 * 3 * THREADS + 1, "{runs} runs");
    drop(disk);
    let store = open(folder.path());
    let snapshot = Snapshot::pin(&store);
    for table in &tables {
        let mut ids = BTreeSet::new();
        let flow = store.scan::<()>(&snapshot, table, |row| {
            let id = u32::from_le_bytes(row.image[1..5].try_into().unwrap());
            assert_eq!(row.image, image(id));
            assert!(ids.insert(id), "{id} twice");
            ControlFlow::Continue(())
        });
        let _ = flow.unwrap();
        assert_eq!(ids.len() as u64, ranges * each);
    }
}

#[test]
fn a_row_that_a_copy_brings_twice_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let catalog = catalog();
    let keyed = catalog.table("d", "k").unwrap();
    for buffer_bytes in [1, 4096] {
        let path = folder.path().join(buffer_bytes.to_string());
        let (disk, _) = Disk::open(&path, DiskOptions { cache_bytes: 1 << 20 }).unwrap();
        let writer = CopyWriter::new(&disk, buffer_bytes);
        let row = |key: u8| {
            writer.rows(keyed, [(u32::from(key).to_le_bytes().as_slice(), image(key, 3, 30).as_slice())].into_iter())
        };
        row(1).unwrap();
        let again = row(2).and_then(|()| row(2)).and_then(|()| writer.table_done(keyed));
        // At the latest before the rows become the store's content.
        let again = again.and_then(|()| writer.finish(&GtidSet::new(), None, &catalog));
        assert!(again.unwrap_err().to_string().contains("the same key"));
    }
}

/// Prepared XA transactions are in every cut, large ones in several parts, and disappear with the first cut that no
/// longer has them.
#[test]
fn prepared_transactions_are_part_of_every_cut() {
    let mut world = World::new();
    let held = |number: u64, bytes: usize| {
        let gtid =
            number.is_multiple_of(2).then(|| format!("3e11fa47-71ca-11e1-9e33-c80aa9429562:{number}").parse().unwrap());
        let events = (0..bytes).map(|at| (at as u64 * number % 251) as u8).collect();
        Arc::new(base::Prepared { number, gtid, events })
    };
    let steps: [&[(&str, u64, usize)]; 5] = [
        &[("X'61',X'',1", 1, 9 << 20), ("X'62',X'',1", 2, 10)],
        &[("X'62',X'',1", 2, 10), ("X'61',X'',1", 3, 4 << 20), ("X'00',X'ff',7", 4, 0)],
        &[("X'61',X'',1", 3, 4 << 20)],
        &[],
        &[("X'62',X'',1", 5, (4 << 20) + 1)],
    ];
    for (at, step) in steps.iter().enumerate() {
        world.prepared =
            Arc::new(step.iter().map(|(xid, number, bytes)| ((*xid).to_owned(), held(*number, *bytes))).collect());
        world.keyed(at as u8, Some(image(at as u8, 1, 3)));
        world.commit();
        world.cut();
        world.crash();
        assert_eq!(world.store.recovered_prepared(), &world.prepared, "{at}");
    }
}

#[test]
fn a_merge_that_is_broken_off_leaves_all_as_it_was() {
    let mut world = World::new();
    for round in 0..5u8 {
        (0..100).for_each(|key| world.keyed(key, Some(image(key, round, 100))));
        world.commit();
        world.cut();
    }
    let runs = world.store.disk().unwrap().l0_runs();
    world.store.break_off_merges(true);
    world.store.compact().unwrap();
    assert_eq!(world.store.disk().unwrap().l0_runs(), runs);
    assert_eq!(world.seen(&Snapshot::pin(&world.store)), world.now);
    world.store.break_off_merges(false);
    while world.store.compact().unwrap() {}
    assert!(world.store.disk().unwrap().l0_runs() < runs);
    assert_eq!(world.seen(&Snapshot::pin(&world.store)), world.now);
}

/// Stops other threads, even if a check fails.
struct Ends<'a>(&'a AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Release);
    }
}

#[test]
fn rows_stay_as_they_are_while_three_threads_merge_beside_cuts() {
    let mut world = World::new();
    // Large compared with what a cut changes, so merges go through every level.
    (0..=255).for_each(|key| world.keyed(key, Some(image(key, 0, 2_000))));
    world.commit();
    world.cut();
    world.store.compact_fully().unwrap();
    let (done, steps) = (AtomicBool::new(false), [const { AtomicU64::new(0) }; 3]);
    let store = Arc::clone(&world.store);
    let mergers: [fn(&Store) -> bool; 3] = [
        |store| store.compact_near(false).unwrap(),
        |store| store.compact_middle(false).unwrap(),
        |store| store.compact_deep(false).unwrap(),
    ];
    std::thread::scope(|scope| {
        for (merge, steps) in mergers.iter().zip(&steps) {
            let (done, store) = (&done, &store);
            scope.spawn(move || {
                while !done.load(Ordering::Acquire) {
                    match merge(store) {
                        true => _ = steps.fetch_add(1, Ordering::Relaxed),
                        false => std::thread::yield_now(),
                    }
                }
            });
        }
        let ends = Ends(&done);
        let mut random = Random::new(7);
        for cut in 0..2_000u32 {
            for _ in 0..8 {
                let (key, len) = (random.any() as u8, random.below(300));
                match random.below(4) {
                    0 => world.keyed(key, None),
                    1 => world.merged(key, cut as u8, len),
                    _ => world.keyed(key, Some(image(key, cut as u8, len))),
                }
            }
            world.commit();
            while store.disk().unwrap().is_full() {
                std::thread::yield_now();
            }
            world.cut();
            assert_eq!(world.seen(&Snapshot::pin(&store)), world.now, "after cut {cut}");
            let enough = [40, 10, 3].iter().zip(&steps).all(|(enough, steps)| steps.load(Ordering::Relaxed) >= *enough);
            if enough && cut >= 100 {
                break;
            }
            assert!(cut < 1_999, "not merged often enough: {steps:?}");
        }
        drop(ends);
    });
    drop(store);
    world.crash();
    assert_eq!(world.seen(&Snapshot::pin(&world.store)), world.now);
}

#[test]
fn files_of_merged_runs_stay_for_a_snapshot_and_no_longer() {
    let mut world = World::new();
    let files = |world: &World| std::fs::read_dir(world.folder.path().join("store/tables")).unwrap().count();
    let round = |world: &mut World, fill: u8| {
        for part in 0..5u8 {
            (0..100).for_each(|key| world.keyed(key, Some(image(key, fill + part, 100))));
            world.commit();
            world.cut();
        }
        while world.store.compact().unwrap() {}
    };
    round(&mut world, 0);
    let (snapshot, then, with_one) = (Snapshot::pin(&world.store), world.now.clone(), files(&world));
    (1..8).for_each(|n| round(&mut world, n * 10));
    assert_eq!(world.seen(&snapshot), then);
    let pinned = files(&world);
    drop(snapshot);
    (8..10).for_each(|n| round(&mut world, n * 10));
    assert!(files(&world) < pinned && files(&world) <= with_one + 3, "{with_one}, {pinned}, now {}", files(&world));
    assert_eq!(world.seen(&Snapshot::pin(&world.store)), world.now);
}

#[test]
fn a_store_is_closed_when_it_removes_no_more_files() {
    let mut world = World::new();
    let tables = world.folder.path().join("store/tables");
    let files = || std::fs::read_dir(&tables).unwrap().count();
    for round in 0..8u8 {
        let before = Snapshot::pin(&world.store);
        let mut merged = Vec::new();
        for part in 0..15u8 {
            (0..100).for_each(|key| world.keyed(key, Some(image(key, round * 15 + part, 100))));
            world.commit();
            world.cut();
            merged.push(Snapshot::pin(&world.store));
        }
        world.store.compact_fully().unwrap();
        let held = files();
        let World { folder, store, catalog, now, durable, durable_sequence, sequence, prepared } = world;
        let closing = store.disk().unwrap().closing();
        drop(store);
        assert!(!closing.is_closed(), "snapshots read it");
        let removed = std::thread::scope(|scope| {
            // The last reference goes there, and with it the files.
            let ends = scope.spawn(move || drop((before, merged)));
            while !closing.is_closed() {
                std::hint::spin_loop();
            }
            let removed = held - files();
            ends.join().unwrap();
            removed
        });
        assert_eq!(held - removed, files(), "files went after the store was said to be closed");
        assert!(removed > 10, "{removed} of {held}");
        let store = open(folder.path());
        world = World { folder, store, catalog, now, durable, durable_sequence, sequence, prepared };
        assert_eq!(world.seen(&Snapshot::pin(&world.store)), world.now);
    }
}
