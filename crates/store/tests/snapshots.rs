//! The store against a `BTreeMap` of whole histories: every pinned snapshot sees its prefix, whatever is applied later.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::sync::Arc;
use std::time::{Duration, Instant};

use base::{SequenceNumber, key_hash};
use catalog::{Catalog, KeyOrder, RowVersions, StatementContext, TableDef, TableId};
use proptest::prelude::*;
use store::{BeforeImage, CheckImages, RowChange, RowErrorKind, RowTarget, Snapshot, Store, TableShape, WriteContext};
use values::{ColumnType, RowLayout, type_code};

const TABLE: TableId = TableId(1);

fn catalog() -> Catalog {
    let context = StatementContext { default_db: "d".into(), ..StatementContext::default() };
    let sql = "CREATE TABLE t (id INT PRIMARY KEY, v VARBINARY(2000))";
    Catalog::new(0).apply(&context, sql.as_bytes()).unwrap().catalog
}

fn types() -> Vec<ColumnType> {
    vec![ColumnType::new(type_code::LONG, 0), ColumnType::new(type_code::VARCHAR, 2000)]
}

fn image(key: u8, fill: u8, len: usize) -> Vec<u8> {
    let mut image = vec![0u8];
    image.extend_from_slice(&u32::from(key).to_le_bytes());
    image.extend_from_slice(&(len as u16).to_le_bytes());
    image.extend(std::iter::repeat_n(fill, len));
    image
}

struct World {
    store: Arc<Store>,
    def: Arc<TableDef>,
    layout: RowLayout,
    types: Vec<ColumnType>,
    now: BTreeMap<u8, Vec<u8>>,
    sequence: u64,
}

impl World {
    fn new(lanes: usize) -> World {
        let types = types();
        World {
            store: Arc::new(Store::new(lanes, catalog())),
            def: Arc::clone(catalog().table("d", "t").unwrap()),
            layout: RowLayout::new(&types),
            types,
            now: BTreeMap::new(),
            sequence: 0,
        }
    }

    fn apply(&mut self, key: u8, change: RowChange<'_>) -> Result<(), RowErrorKind> {
        let bytes = u32::from(key).to_le_bytes();
        let hash = key_hash(TABLE.0, &bytes);
        let oldest = self.store.visibility().oldest_needed();
        let (layers, lane_index) = (self.store.visibility().layers(), self.store.lane_of(hash));
        let mut lane = layers.active.lane_mut(lane_index).unwrap();
        let (order, versions) = (KeyOrder::of(&self.def), RowVersions::of(&self.def));
        let shape = TableShape {
            id: TABLE,
            layout: &self.layout,
            types: &self.types,
            order: &order,
            definition: 1,
            versions: &versions,
        };
        let target = RowTarget { lane: lane_index, shape: &shape, hash, key: &bytes };
        let context = WriteContext {
            sequence: self.sequence + 1,
            oldest_needed: oldest,
            check: CheckImages::All,
            layers: &layers,
        };
        let result = lane.apply(&target, change, &context);
        lane.tidy([TABLE].into_iter(), oldest);
        result.map_err(|e| e.kind)
    }

    fn commit(&mut self) {
        self.sequence += 1;
        self.store.visibility().advance(SequenceNumber(self.sequence), |_| {});
    }

    fn seen(&self, snapshot: &Snapshot) -> BTreeMap<u8, Vec<u8>> {
        let mut rows = BTreeMap::new();
        let flow = self.store.scan::<()>(snapshot, &self.def, |row| {
            assert_eq!(row.count, 1);
            assert!(rows.insert(row.key[0], row.image.to_vec()).is_none(), "a row seen twice");
            ControlFlow::Continue(())
        });
        let _ = flow.unwrap();
        rows
    }
}

/// A reader's slices keep entries of rows that are gone, and their places are given to other rows.
#[test]
fn a_place_taken_by_another_row_is_not_read_under_the_old_key() {
    let mut world = World::new(1);
    let table = store::TableReader::new(&world.def);
    for key in 0..100 {
        let row = image(key, key, 20);
        world.apply(key, RowChange::Insert { image: &row }).unwrap();
        world.commit();
        let snapshot = Snapshot::pin(&world.store);
        let range = snapshot.range(&table, store::ReadOrder::Identity, &store::KeyRange::all()).unwrap();
        let rows: Vec<Vec<u8>> = range.map(|row| row.unwrap().image).collect();
        assert_eq!(rows, std::slice::from_ref(&row), "key {key}");
        drop(snapshot);
        world.apply(key, RowChange::Delete { before: BeforeImage::Full(&row) }).unwrap();
        world.commit();
        // Frees the place: nobody sees the row any more.
        world.commit();
    }
}

/// Threads that wait for GTIDs, in any order, are told when theirs are visible and never before; one that waits for a
/// GTID that does not come is told at its deadline.
#[test]
fn waiters_see_their_gtids() {
    let world = World::new(2);
    let gtid = |number: u64| base::Gtid { uuid: base::Uuid([7; 16]), tag: base::Tag::default(), gno: number };
    let set = |first: u64, last: u64| {
        let mut set = base::GtidSet::new();
        set.add_range(gtid(1).uuid, gtid(1).tag, first, last);
        set
    };
    let late = Instant::now() + Duration::from_secs(60);
    std::thread::scope(|scope| {
        let waiters: Vec<_> = (1..=40)
            .map(|number| {
                let (store, wanted) = (&world.store, set(number.max(5) - 4, number * 7 % 41));
                scope.spawn(move || {
                    assert!(store.visibility().wait_executed(&wanted, late), "{wanted}");
                    assert!(wanted.is_subset_of(Snapshot::pin(store).executed()), "{wanted} is not visible");
                })
            })
            .collect();
        // Out of order, as commits of a source without order come.
        for number in 1..=40u64 {
            let number = (number * 3 - 1) % 41 + 1;
            world.store.visibility().advance(
                SequenceNumber(number.max(world.store.visibility().watermark().0)),
                |new| {
                    new.add(gtid(number.min(40)));
                },
            );
        }
        world.store.visibility().advance(SequenceNumber(50), |new| (1..=40).for_each(|number| new.add(gtid(number))));
        waiters.into_iter().for_each(|waiter| waiter.join().unwrap());
    });
    let soon = Instant::now() + Duration::from_millis(20);
    assert!(!world.store.visibility().wait_executed(&set(40, 41), soon) && Instant::now() >= soon);
    assert!(world.store.visibility().wait_executed(&set(40, 40), soon), "it is visible, whatever the time");
}

/// Sets with many gaps, which are compared with a copy of what was executed: no waiter is told too early or not at all
/// because the copy is old.
#[test]
fn waiters_with_many_intervals_see_theirs() {
    let world = World::new(1);
    let visibility = world.store.visibility();
    let gtid = |source: u8, gno: u64| base::Gtid { uuid: base::Uuid([source; 16]), tag: base::Tag::default(), gno };
    // Every other number, then the ones between.
    let gnos = || (1..400u64).step_by(2).chain((2..400).step_by(2));
    let order: Vec<base::Gtid> = gnos().flat_map(|gno| [7, 8, 9].map(|source| gtid(source, gno))).collect();
    let (mut executed, mut told, mut sequence) = (base::GtidSet::new(), Vec::new(), 1);
    for (at, gtid) in order.iter().enumerate() {
        // Everything up to some transactions later: little of it is missing, or much, as at the start.
        let mut wanted = executed.clone();
        order[at..].iter().take(1 + at % 50 * 20).for_each(|later| {
            wanted.add(*later);
        });
        let (tell, hears) = std::sync::mpsc::channel();
        assert!(visibility.when_executed(&wanted, move || tell.send(()).unwrap_or_default()).is_some());
        told.push((wanted, hears));
        sequence += 1;
        visibility.advance(SequenceNumber(sequence), |new| new.add(*gtid));
        executed.add(*gtid);
        told.retain(|(wanted, hears)| {
            let is_told = hears.try_recv().is_ok();
            assert_eq!(is_told, wanted.is_subset_of(&executed), "{wanted}");
            !is_told
        });
        assert!(visibility.when_executed(&executed, || ()).is_none(), "all of it is visible");
    }
    assert!(told.is_empty());
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn every_snapshot_sees_its_prefix(
        steps in proptest::collection::vec((0u8..12, any::<u8>(), 0usize..900, 0u8..8), 1..400),
        lanes in 1usize..5,
    ) {
        let mut world = World::new(lanes);
        let mut pinned: Vec<(Snapshot, BTreeMap<u8, Vec<u8>>)> = Vec::new();
        for (key, fill, len, action) in steps {
            let new = image(key, fill, len);
            let old = world.now.get(&key).cloned();
            match (&old, action) {
                (None, _) => {
                    prop_assert_eq!(world.apply(key, RowChange::Delete { before: BeforeImage::None }), Err(RowErrorKind::NotFound));
                    world.apply(key, RowChange::Insert { image: &new }).unwrap();
                    world.now.insert(key, new);
                }
                (Some(old), 0 | 1) => {
                    world.apply(key, RowChange::Delete { before: BeforeImage::Full(old) }).unwrap();
                    world.now.remove(&key);
                }
                (Some(old), _) => {
                    prop_assert_eq!(world.apply(key, RowChange::Insert { image: &new }), Err(RowErrorKind::Duplicate));
                    if *old != new {
                        prop_assert_eq!(
                            world.apply(key, RowChange::Update { before: BeforeImage::Full(&new), image: &new }),
                            Err(RowErrorKind::Differs)
                        );
                    }
                    world.apply(key, RowChange::Update { before: BeforeImage::Full(old), image: &new }).unwrap();
                    world.now.insert(key, new);
                }
            }
            world.commit();
            if action == 3 && pinned.len() < 6 {
                pinned.push((Snapshot::pin(&world.store), world.now.clone()));
            }
            if action == 4 && !pinned.is_empty() {
                let (snapshot, expected) = pinned.remove(0);
                prop_assert_eq!(world.seen(&snapshot), expected);
            }
        }
        for (snapshot, expected) in &pinned {
            prop_assert_eq!(&world.seen(snapshot), expected);
            for key in 0..12u8 {
                let bytes = u32::from(key).to_le_bytes();
                prop_assert_eq!(world.store.get(snapshot, &world.def, &bytes).unwrap(), expected.get(&key).cloned());
            }
        }
        drop(pinned);
        prop_assert_eq!(world.seen(&Snapshot::pin(&world.store)), world.now.clone());
    }
}

#[test]
fn memory_of_overwritten_versions_comes_back() {
    let mut world = World::new(1);
    let mut old = image(1, 0, 800);
    world.apply(1, RowChange::Insert { image: &old }).unwrap();
    world.commit();
    for round in 0..200_000u32 {
        let new = image(1, round as u8, 800);
        world.apply(1, RowChange::Update { before: BeforeImage::Full(&old), image: &new }).unwrap();
        world.commit();
        old = new;
    }
    // 200,000 versions of 850 bytes are 170 MB; only a few segments remain.
    assert!(world.store.stats().memory.bytes < 8 << 20, "{:?}", world.store.stats());
}

#[test]
fn a_pinned_snapshot_keeps_a_hot_row_and_bounds_the_work() {
    let mut world = World::new(1);
    let mut old = image(1, 0, 10);
    world.apply(1, RowChange::Insert { image: &old }).unwrap();
    world.commit();
    let pinned = Snapshot::pin(&world.store);
    for round in 0..100_000u32 {
        let new = image(1, round as u8, 10);
        world.apply(1, RowChange::Update { before: BeforeImage::Full(&old), image: &new }).unwrap();
        world.commit();
        old = new;
    }
    assert_eq!(world.seen(&pinned).get(&1), Some(&image(1, 0, 10)));
}

#[test]
fn keyless_rows_are_counted() {
    let mut world = World::new(2);
    let row = image(7, 1, 3);
    let hash = key_hash(TABLE.0, &row);
    let step = |change: RowChange<'_>, sequence: u64, world: &mut World| {
        let (layers, lane_index) = (world.store.visibility().layers(), world.store.lane_of(hash));
        let mut lane = layers.active.lane_mut(lane_index).unwrap();
        let (order, versions) = (KeyOrder::of(&world.def), RowVersions::of(&world.def));
        let shape = TableShape {
            id: TABLE,
            layout: &world.layout,
            types: &world.types,
            order: &order,
            definition: 1,
            versions: &versions,
        };
        let target = RowTarget { lane: lane_index, shape: &shape, hash, key: &row };
        let context = WriteContext { sequence, oldest_needed: 0, check: CheckImages::All, layers: &layers };
        let result = lane.apply(&target, change, &context);
        result.map_err(|e| e.kind)
    };
    assert_eq!(step(RowChange::RemoveOne { later: false }, 1, &mut world), Err(RowErrorKind::NotFound));
    for sequence in 1..=3 {
        step(RowChange::AddOne { later: false }, sequence, &mut world).unwrap();
    }
    world.store.visibility().advance(SequenceNumber(3), |_| {});
    let three = Snapshot::pin(&world.store);
    step(RowChange::RemoveOne { later: false }, 4, &mut world).unwrap();
    world.store.visibility().advance(SequenceNumber(4), |_| {});
    let count = |snapshot: &Snapshot| {
        let mut counts = Vec::new();
        let flow = world.store.scan::<()>(snapshot, &world.def, |r| {
            assert_eq!(r.image, row.as_slice());
            counts.push(r.count);
            ControlFlow::Continue(())
        });
        let _ = flow.unwrap();
        counts
    };
    assert_eq!(count(&three), vec![3]);
    assert_eq!(count(&Snapshot::pin(&world.store)), vec![2]);
}

#[test]
fn a_version_does_not_come_after_a_newer_one() {
    let world = World::new(1);
    let layers = world.store.visibility().layers();
    let mut lane = layers.active.lane_mut(0).unwrap();
    let (order, versions) = (KeyOrder::of(&world.def), RowVersions::of(&world.def));
    let shape = TableShape {
        id: TABLE,
        layout: &world.layout,
        types: &world.types,
        order: &order,
        definition: 1,
        versions: &versions,
    };
    let key = 1u32.to_le_bytes();
    let row = image(1, 1, 3);
    let mut apply = |change: RowChange<'_>, sequence| {
        let target = RowTarget { lane: 0, shape: &shape, hash: 77, key: &key };
        let context = WriteContext { sequence, oldest_needed: 0, check: CheckImages::Off, layers: &layers };
        lane.apply(&target, change, &context).map_err(|error| error.kind)
    };
    apply(RowChange::Insert { image: &row }, 3).unwrap();
    let update = RowChange::Update { before: BeforeImage::None, image: &row };
    let older = Err(RowErrorKind::Defect("a row's version is older than the one before it"));
    assert_eq!(apply(update, 2), older);
    assert_eq!(apply(RowChange::Delete { before: BeforeImage::None }, 1), older);
    apply(update, 3).unwrap();
    apply(update, 4).unwrap();
    assert_eq!(apply(update, 3), older);
}

/// A source that updates a JSON document in place logs it with a layout that differs from the previous after image.
#[test]
fn the_same_json_document_laid_out_differently() {
    // {"a": 1} as a small and as a large object; {"a": 2}.
    let small = [0u8, 1, 0, 12, 0, 11, 0, 1, 0, 5, 1, 0, b'a'];
    let large = [1u8, 1, 0, 0, 0, 20, 0, 0, 0, 19, 0, 0, 0, 1, 0, 5, 1, 0, 0, 0, b'a'];
    let mut other = small;
    other[10] = 2;
    let types = vec![ColumnType::new(type_code::LONG, 0), ColumnType::new(type_code::JSON, 4)];
    let layout = RowLayout::new(&types);
    let image = |id: u32, document: &[u8]| {
        let mut image = vec![0u8];
        image.extend(id.to_le_bytes());
        image.extend((document.len() as u32).to_le_bytes());
        image.extend_from_slice(document);
        image
    };
    let store = Store::new(1, Catalog::new(0));
    let layers = store.visibility().layers();
    let mut lane = layers.active.lane_mut(0).unwrap();
    let order = KeyOrder::of(catalog().table("d", "t").unwrap());
    let versions = RowVersions::default();
    let shape =
        TableShape { id: TABLE, layout: &layout, types: &types, order: &order, definition: 1, versions: &versions };
    let key = 1u32.to_le_bytes();
    let mut sequence = 0;
    let mut apply = |change: RowChange<'_>| {
        sequence += 1;
        let target = RowTarget { lane: 0, shape: &shape, hash: 77, key: &key };
        let context = WriteContext { sequence, oldest_needed: 0, check: CheckImages::All, layers: &layers };
        lane.apply(&target, change, &context).map_err(|e| e.kind)
    };
    let (stored, logged) = (image(1, &small), image(1, &large));
    let (differs, wrong_id) = (image(1, &other), image(2, &large));
    let mut partial = vec![0u8];
    partial.extend_from_slice(&logged[5..]);
    apply(RowChange::Insert { image: &stored }).unwrap();
    apply(RowChange::Update { before: BeforeImage::Full(&logged), image: &stored }).unwrap();
    let before = BeforeImage::Partial { present: &[0b10], image: &partial };
    apply(RowChange::Update { before, image: &stored }).unwrap();
    let change = RowChange::Delete { before: BeforeImage::Full(&differs) };
    assert_eq!(apply(change), Err(RowErrorKind::Differs));
    let change = RowChange::Delete { before: BeforeImage::Full(&wrong_id) };
    assert_eq!(apply(change), Err(RowErrorKind::Differs));
    apply(RowChange::Delete { before: BeforeImage::Full(&logged) }).unwrap();
}

#[test]
fn a_snapshot_tells_its_own_gtids_however_much_came_since() {
    let world = World::new(1);
    let uuid = base::Uuid([3; 16]);
    let advance = |gno: u64| {
        // Every second number is missing, so the set has gaps.
        let gtid = base::Gtid { uuid, tag: base::Tag::EMPTY, gno: gno * 2 };
        world.store.visibility().advance(SequenceNumber(gno), |executed| executed.add(gtid));
    };
    let mut pinned = Vec::new();
    for gno in 1..=30_000 {
        advance(gno);
        if gno % 1_000 == 7 {
            pinned.push((Snapshot::pin(&world.store), world.store.visibility().executed()));
        }
        if gno % 5_000 == 0 {
            pinned.remove(0);
        }
    }
    world.store.visibility().tidy();
    assert_eq!(world.store.visibility().oldest_needed(), pinned[0].0.sequence());
    for (snapshot, executed) in &pinned {
        assert_eq!(snapshot.executed(), executed);
        assert_eq!(executed.count(), snapshot.sequence());
    }
    // Views dropped in the middle are no longer needed; only the oldest one counts.
    let first = pinned.remove(0);
    drop(pinned);
    world.store.visibility().tidy();
    assert_eq!(world.store.visibility().oldest_needed(), first.0.sequence());
    drop(first);
    world.store.visibility().tidy();
    assert_eq!(world.store.visibility().oldest_needed(), 30_000);
}

/// Deleted rows are kept for their readers, but are not counted.
#[test]
fn rows_are_counted_as_the_newest_versions_have_them() {
    let mut world = World::new(2);
    for key in 0..10 {
        world.apply(key, RowChange::Insert { image: &image(key, 1, 3) }).unwrap();
    }
    for key in 0..4 {
        world.apply(key, RowChange::Delete { before: BeforeImage::None }).unwrap();
    }
    world.apply(2, RowChange::Insert { image: &image(2, 9, 3) }).unwrap();
    world.apply(5, RowChange::Update { before: BeforeImage::None, image: &image(5, 9, 3) }).unwrap();
    assert_eq!(world.store.stats().memory.rows, 7);
}

/// Readers need no check of their own: before the rows are exact, reading a snapshot fails through every access path.
#[test]
fn a_snapshot_taken_before_the_rows_are_exact_cannot_be_read() {
    let goal: base::GtidSet = "01010101-0101-0101-0101-010101010101:1-3".parse().unwrap();
    let start = store::Recovered {
        sequence: 0,
        executed: base::GtidSet::new(),
        catalog: catalog(),
        position: None,
        rows: BTreeMap::new(),
        ledger: String::new(),
        consistent_at: Some(goal.clone()),
        prepared: base::PreparedSet::default(),
    };
    let store = Arc::new(Store::behind(2, start));
    let def = Arc::clone(catalog().table("d", "t").unwrap());
    let read = |snapshot: &Snapshot| store.scan::<()>(snapshot, &def, |_| ControlFlow::Continue(())).map(|_| ());
    let early = Snapshot::pin(&store);
    let error = read(&early).unwrap_err();
    assert!(matches!(error, store::StoreError::NotYetConsistent { missing: 3, .. }), "{error}");
    store.visibility().advance(SequenceNumber(3), |executed| {
        let (uuid, tag, run) = goal.intervals().next().unwrap();
        (run.first..=run.last).for_each(|gno| executed.add(base::Gtid { uuid, tag, gno }));
    });
    assert!(read(&Snapshot::pin(&store)).is_ok());
    assert!(read(&early).is_err());
}
