//! Secondary indexes against a model: random schemas, changes, DDL, cuts, spills, crashes, pinned snapshots.

use std::collections::BTreeMap;
use std::ops::ControlFlow;
use std::path::Path;
use std::sync::Arc;

use base::{Gtid, SequenceNumber, key_hash};
use catalog::{Catalog, RowKey, StatementContext, TableDef};
use proptest::prelude::*;
use store::{
    BeforeImage, CheckImages, CopyWriter, CutPoint, Disk, DiskOptions, IndexCheck, KeyRange, OwnedRow, OwnedShape,
    ReadOrder, RowChange, RowTarget, Snapshot, Store, StoreError, TableReader, WriteContext,
};
use values::sort_key::SortKeyPlan;
use values::{OFFSET_NULL, RowLayout};

/// Changes of some columns may be stored as deltas.
const LATER: bool = true;
const LANES: usize = 4;
const COLLATIONS: [&str; 5] =
    ["utf8mb4_0900_ai_ci", "utf8mb4_bin", "utf8mb4_general_ci", "latin1_swedish_ci", "utf8mb4_czech_ci"];
const TEXTS: [&str; 9] = ["", "a", "A", "a ", "ab", "b", "a\u{e9}", "a much longer text", "a much longer one"];
const IDENTITIES: [&str; 4] =
    [", PRIMARY KEY (id)", ", PRIMARY KEY (b, id DESC)", ", PRIMARY KEY (s, id)", ", UNIQUE KEY ident (b, id)"];
const INDEXES: [&str; 9] = [
    "KEY NAME (a)",
    "KEY NAME (a DESC, s)",
    "KEY NAME (s(2))",
    "KEY NAME (s)",
    "KEY NAME (b, s(3), a)",
    "UNIQUE KEY NAME (s, id, b)",
    "KEY NAME (id)",
    "KEY NAME (s DESC, b DESC, a)",
    "KEY NAME (e)",
];

#[derive(Clone, Debug)]
struct Values {
    id: i32,
    a: Option<i32>,
    s: Option<usize>,
    b: i16,
    e: u8,
    fill: usize,
}

fn values() -> impl Strategy<Value = Values> {
    (
        0..7i32,
        proptest::option::weighted(0.8, -2..2i32),
        proptest::option::weighted(0.9, 0..TEXTS.len()),
        0..3i16,
        1..4u8,
        0..80usize,
    )
        .prop_map(|(id, a, s, b, e, fill)| Values { id, a, s, b, e, fill })
}

#[derive(Clone, Debug)]
enum Step {
    /// Inserts the row, or gives it these values.
    Put(Values, u8),
    /// Changes some columns of the n-th row.
    Some(usize, Values, u8),
    Remove(usize, u8),
    Commit,
    /// Seals a generation, to be cut later.
    Seal,
    Cut,
    Crash,
    Compact,
    CompactFully,
    /// Spills a part of a huge transaction.
    Spill,
    Pin,
    Unpin,
    CreateIndex(usize),
    DropIndex(usize),
    RenameIndex(usize),
    Truncate,
    Check(u64),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        24 => (values(), 0..4u8).prop_map(|(row, how)| Step::Put(row, how)),
        12 => (any::<usize>(), values(), 1..32u8).prop_map(|(at, row, which)| Step::Some(at, row, which)),
        8 => (any::<usize>(), 0..4u8).prop_map(|(at, how)| Step::Remove(at, how)),
        12 => Just(Step::Commit),
        6 => Just(Step::Cut),
        3 => Just(Step::Seal),
        2 => Just(Step::Crash),
        2 => Just(Step::Compact),
        1 => Just(Step::CompactFully),
        8 => Just(Step::Spill),
        3 => Just(Step::Pin),
        2 => Just(Step::Unpin),
        2 => (0..INDEXES.len()).prop_map(Step::CreateIndex),
        1 => any::<usize>().prop_map(Step::DropIndex),
        1 => any::<usize>().prop_map(Step::RenameIndex),
        1 => Just(Step::Truncate),
        6 => any::<u64>().prop_map(Step::Check),
    ]
}

#[derive(Clone, Debug)]
struct Schema {
    collation: usize,
    /// An index past the last one means no key.
    identity: usize,
    indexes: Vec<usize>,
}

fn schema() -> impl Strategy<Value = Schema> {
    (0..COLLATIONS.len(), 0..=IDENTITIES.len(), proptest::collection::vec(0..INDEXES.len(), 0..4))
        .prop_map(|(collation, identity, indexes)| Schema { collation, identity, indexes })
}

fn context() -> StatementContext {
    StatementContext { default_db: "d".into(), ..StatementContext::default() }
}

impl Schema {
    fn catalog(&self) -> Catalog {
        let collation = COLLATIONS[self.collation];
        let charset = collation.split('_').next().unwrap();
        let null = if self.identity == 2 { " NOT NULL" } else { "" };
        let indexes = self.indexes.iter().enumerate().map(|(n, at)| INDEXES[*at].replace("NAME", &format!("i{n}")));
        let indexes: String = indexes.map(|index| format!(", {index}")).collect();
        let sql = format!(
            "CREATE TABLE t (id INT NOT NULL, a INT, s VARCHAR(30) CHARACTER SET {charset} COLLATE {collation}{null}, \
             b SMALLINT NOT NULL, x VARBINARY(400) NOT NULL, e ENUM('p','q','r') NOT NULL{}{indexes})",
            IDENTITIES.get(self.identity).unwrap_or(&"")
        );
        Catalog::new(0).apply(&context(), sql.as_bytes()).unwrap().catalog
    }

    fn column(&self, values: &Values, column: usize) -> Option<Vec<u8>> {
        let text = |s: usize| match self.collation {
            3 => TEXTS[s].chars().map(|c| c as u8).collect::<Vec<u8>>(),
            _ => TEXTS[s].as_bytes().to_vec(),
        };
        match column {
            0 => Some(values.id.to_le_bytes().to_vec()),
            1 => values.a.map(|a| a.to_le_bytes().to_vec()),
            2 => {
                let s = if self.identity == 2 { Some(values.s.unwrap_or(0)) } else { values.s };
                s.map(|s| [&[text(s).len() as u8][..], &text(s)].concat())
            }
            3 => Some(values.b.to_le_bytes().to_vec()),
            4 => Some([&(values.fill as u16).to_le_bytes()[..], &vec![b'x'; values.fill]].concat()),
            _ => Some(vec![values.e]),
        }
    }

    /// An image of the columns in `present`.
    fn image(&self, values: &Values, present: u8) -> Vec<u8> {
        let columns: Vec<_> = (0..6).filter(|c| present >> c & 1 != 0).map(|c| self.column(values, c)).collect();
        let nulls = columns.iter().enumerate().fold(0, |bits, (at, value)| bits | u8::from(value.is_none()) << at);
        std::iter::once(nulls).chain(columns.into_iter().flatten().flatten()).collect()
    }
}

const ALL: u8 = 0b11_1111;

/// Values, image and number of copies by key.
type Rows = BTreeMap<Vec<u8>, (Values, Vec<u8>, u64)>;

struct World {
    schema: Schema,
    folder: tempfile::TempDir,
    store: Arc<Store>,
    catalog: Catalog,
    now: Rows,
    durable: Rows,
    durable_sequence: u64,
    sequence: u64,
    open: bool,
    spilled: bool,
    names: usize,
}

fn open(folder: &Path, catalog: Catalog) -> Arc<Store> {
    let (disk, recovered) = Disk::open(&folder.join("store"), DiskOptions { cache_bytes: 1 << 20 }).unwrap();
    Arc::new(Store::over(LANES, disk, folder.join("scratch"), recovered, catalog).unwrap())
}

impl World {
    fn new(schema: Schema) -> World {
        let folder = tempfile::tempdir().unwrap();
        let catalog = schema.catalog();
        World {
            store: open(folder.path(), catalog.clone()),
            schema,
            folder,
            catalog,
            now: Rows::new(),
            durable: Rows::new(),
            durable_sequence: 0,
            sequence: 0,
            open: false,
            spilled: false,
            names: 0,
        }
    }

    fn def(&self) -> Arc<TableDef> {
        Arc::clone(self.catalog.table("d", "t").unwrap())
    }

    fn key(&self, image: &[u8]) -> Vec<u8> {
        RowKey::new(&self.def()).bytes(image, &mut Vec::new(), &mut Vec::new()).unwrap().to_vec()
    }

    fn apply(&mut self, key: &[u8], change: RowChange<'_>) {
        let def = self.def();
        let shape = OwnedShape::of(&def);
        let hash = key_hash(def.id.0, key);
        let oldest = self.store.visibility().oldest_needed();
        let (layers, lane_index) = (self.store.visibility().layers(), self.store.lane_of(hash));
        let mut lane = layers.active.lane_mut(lane_index).unwrap();
        let sequence = self.sequence + 1;
        // Every second time, the old row is looked up only if the change needs it.
        let check = if sequence.is_multiple_of(2) { CheckImages::All } else { CheckImages::Off };
        let target = RowTarget { lane: lane_index, shape: &shape.lend(), hash, key };
        let context = WriteContext { sequence, oldest_needed: oldest, check, layers: &layers };
        lane.apply(&target, change, &context).unwrap();
        lane.tidy([def.id].into_iter(), oldest);
        self.open = true;
    }

    fn is_keyless(&self) -> bool {
        self.schema.identity >= IDENTITIES.len()
    }

    fn put(&mut self, values: &Values, how: u8) {
        let image = self.schema.image(values, ALL);
        let key = self.key(&image);
        let old = self.now.get(&key).cloned();
        let copies = old.as_ref().map_or(0, |old| old.2);
        if self.is_keyless() {
            self.apply(&key, RowChange::AddOne { later: LATER });
            self.now.insert(key, (values.clone(), image, copies + 1));
            return;
        }
        match old {
            None => self.apply(&key, RowChange::Insert { image: &image }),
            Some((was, old, _)) => self.with_before(&was, &old, how, |world, before| {
                world.apply(&key, RowChange::Update { before, image: &image });
            }),
        }
        self.now.insert(key, (values.clone(), image, 1));
    }

    fn with_before(&mut self, was: &Values, old: &[u8], how: u8, work: impl FnOnce(&mut World, BeforeImage<'_>)) {
        // Only the identifying columns, as in a MINIMAL image.
        let partial = self.schema.image(was, 0b1101);
        match how {
            0 => work(self, BeforeImage::None),
            1 => work(self, BeforeImage::Partial { present: &[0b1101], image: &partial }),
            _ => work(self, BeforeImage::Full(old)),
        }
    }

    fn nth(&self, at: usize) -> Option<(Vec<u8>, Values, Vec<u8>, u64)> {
        let at = at % self.now.len().max(1);
        self.now
            .iter()
            .nth(at)
            .map(|(key, (values, image, copies))| (key.clone(), values.clone(), image.clone(), *copies))
    }

    fn change_some(&mut self, at: usize, values: &Values, which: u8) {
        let Some((key, was, _, _)) = self.nth(at) else { return };
        if self.is_keyless() {
            return;
        }
        let mut now = was;
        // Columns a, s, x and e, which are in no key here; s may be in one, and is then left out.
        let mut present = 0;
        for (bit, column) in [(1, 1), (2, 2), (4, 4), (8, 5)] {
            if which & bit != 0 && !(column == 2 && self.schema.identity == 2) {
                present |= 1 << column;
                match column {
                    1 => now.a = values.a,
                    2 => now.s = values.s,
                    4 => now.fill = values.fill,
                    _ => now.e = values.e,
                }
            }
        }
        let partial = self.schema.image(&now, present);
        let change = RowChange::Merge { before: BeforeImage::None, present: &[present], image: &partial, later: LATER };
        self.apply(&key, change);
        let image = self.schema.image(&now, ALL);
        self.now.insert(key, (now, image, 1));
    }

    fn remove(&mut self, at: usize, how: u8) {
        let Some((key, was, old, copies)) = self.nth(at) else { return };
        if self.is_keyless() {
            self.apply(&key, RowChange::RemoveOne { later: LATER });
            match copies {
                1 => self.now.remove(&key),
                _ => self.now.insert(key, (was, old, copies - 1)),
            };
            return;
        }
        self.with_before(&was, &old, how, |world, before| world.apply(&key, RowChange::Delete { before }));
        self.now.remove(&key);
    }

    fn commit(&mut self) {
        self.sequence += 1;
        let gtid: Gtid = format!("3e11fa47-71ca-11e1-9e33-c80aa9429562:{}", self.sequence).parse().unwrap();
        self.store.visibility().advance(SequenceNumber(self.sequence), |set| {
            set.add(gtid);
        });
        (self.open, self.spilled) = (false, false);
    }

    fn compact_until_idle(&mut self) {
        if self.open {
            self.commit();
        }
    }

    fn ddl(&mut self, sql: &str) {
        self.compact_until_idle();
        // Some DDL has no effect or is refused, for example for a duplicate name.
        let Ok(outcome) = self.catalog.apply(&context(), sql.as_bytes()) else { return };
        if outcome.catalog.is_same(&self.catalog) {
            return;
        }
        self.complete_deltas();
        self.catalog = outcome.catalog;
        self.store.visibility().announce_catalog(SequenceNumber(self.sequence + 1), self.catalog.clone());
        self.commit();
    }

    /// As workers do before a statement that alters the table.
    fn complete_deltas(&self) {
        let def = self.def();
        let shape = OwnedShape::of(&def);
        let (layers, oldest) = (self.store.visibility().layers(), self.store.visibility().oldest_needed());
        for lane in 0..LANES {
            let mut held = layers.active.lane_mut(lane).unwrap();
            held.complete_deltas(lane, &shape.lend(), self.sequence + 1, oldest, &layers).unwrap();
        }
    }

    fn a_key(&self, at: usize) -> Option<String> {
        let def = self.def();
        let named: Vec<_> = def.keys.iter().filter(|key| !key.primary && key.name != "ident").collect();
        named.get(at % named.len().max(1)).map(|key| key.name.clone())
    }

    fn seal(&mut self) -> Arc<store::Generation> {
        self.compact_until_idle();
        let point = CutPoint {
            executed: self.store.visibility().executed(),
            ..CutPoint::at(self.sequence, self.catalog.clone())
        };
        self.store.seal(Some(point))
    }

    fn cut(&mut self) {
        self.compact_until_idle();
        if self.sequence == self.store.last_cut() {
            return;
        }
        let sealed = self.seal();
        self.store.cut(&sealed).unwrap();
        (self.durable, self.durable_sequence) = (self.now.clone(), self.sequence);
    }

    fn spill(&mut self) {
        if !self.open {
            return;
        }
        if !self.spilled {
            // Earlier changes must be sealed at a boundary: a spilled generation holds one transaction only.
            return;
        }
        let sealed = self.store.seal(None);
        self.store.spill(&sealed, self.sequence + 1, &self.catalog).unwrap();
    }

    fn begin_huge(&mut self) {
        self.cut();
        self.spilled = true;
    }

    fn crash(&mut self) {
        self.store = Arc::new(Store::new(1, Catalog::new(0)));
        self.store = open(self.folder.path(), self.schema.catalog());
        let visible = self.store.visibility().current();
        assert_eq!(visible.sequence.0, self.durable_sequence);
        (self.now, self.sequence) = (self.durable.clone(), self.durable_sequence);
        self.catalog = visible.catalog;
        (self.open, self.spilled) = (false, false);
    }

    /// In every complete index, the entries on disk are exactly those of the rows on disk.
    fn check_entries(&self) {
        let snapshot = Snapshot::pin(&self.store);
        let def = snapshot.catalog().table("d", "t").unwrap();
        let reader = TableReader::new(def);
        for index in reader.indexes() {
            match self.store.check_index(&snapshot, &reader, index.id()) {
                Ok(IndexCheck { missing: 0, stale: 0, .. }) | Err(StoreError::IndexNotReady { .. }) => {}
                other => panic!("index {}: {other:?}", index.name()),
            }
        }
    }
}

/// The order of rows by a key of the table, computed row by row: sort key, the row's own key, image, copies.
fn expected(def: &TableDef, key: Option<&catalog::Key>, rows: &Rows) -> Vec<(Vec<u8>, Vec<u8>, OwnedRow)> {
    let layout = RowLayout::new(&def.column_types());
    let keyless = def.identity_key().is_none();
    let mut all: Vec<_> = rows
        .iter()
        .map(|(own, (_, image, count))| {
            let mut sort_key = Vec::new();
            if let Some(key) = key {
                let plan = SortKeyPlan::new(&def.sort_key_columns(key).unwrap()).unwrap();
                let mut offsets = Vec::new();
                layout.walk_offsets(image, &mut offsets).unwrap();
                let value = |column: usize| {
                    let (at, len) = offsets[column];
                    (at != OFFSET_NULL).then(|| &image[at as usize..(at + len) as usize])
                };
                plan.append(key.parts.iter().map(|part| value(part.column)), &mut sort_key).unwrap();
            }
            let name = if keyless { xxhash_rust::xxh3::xxh3_128(own).to_be_bytes().to_vec() } else { own.clone() };
            (sort_key, name, OwnedRow { key: own.clone(), image: image.clone(), count: *count })
        })
        .collect();
    all.sort_by(|left, right| (&left.0, &left.1).cmp(&(&right.0, &right.1)));
    all
}

/// Checks a scan of the table at a snapshot, and every order of it, from both ends and between bounds.
fn check_orders(store: &Store, snapshot: &Snapshot, rows: &Rows, seed: u64) {
    let def = snapshot.catalog().table("d", "t").unwrap();
    let reader = TableReader::new(def);
    let mut scanned = BTreeMap::new();
    let flow = store.scan::<()>(snapshot, def, |row| {
        assert!(scanned.insert(row.key.to_vec(), (row.image.to_vec(), row.count)).is_none(), "seen twice");
        ControlFlow::Continue(())
    });
    assert!(flow.unwrap().is_continue());
    let expected_rows = rows.iter().map(|(key, (_, image, copies))| (key.clone(), (image.clone(), *copies)));
    assert_eq!(scanned, expected_rows.collect());
    let mut keys: Vec<Option<&catalog::Key>> = def.keys.iter().map(Some).collect();
    if def.identity_key().is_none() {
        keys.push(None);
    }
    for key in keys {
        let order = match key.map_or(Ok(ReadOrder::Identity), |key| TableReader::order_of(def, key)) {
            Ok(order) => order,
            Err(why) => panic!("{why}"),
        };
        let name = key.map_or("none", |key| &key.name);
        if !store.is_ready(snapshot, &reader, order).unwrap() {
            let refused = store.range(snapshot, &reader, order, &KeyRange::all());
            assert!(matches!(refused, Err(StoreError::IndexNotReady { .. })));
            continue;
        }
        let all = expected(def, key, rows);
        let images = |rows: &[(Vec<u8>, Vec<u8>, OwnedRow)]| rows.iter().map(|row| row.2.clone()).collect::<Vec<_>>();
        check_range(store, snapshot, &reader, (order, name), &KeyRange::all(), &images(&all));
        // Bounds from the first columns of two rows.
        if all.is_empty() || key.is_none() {
            continue;
        }
        // A generator of its own: indexes.proptest-regressions holds seeds of it.
        let mut seed = seed;
        for _ in 0..4 {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
            let columns = 1 + (seed >> 40) as usize % key.unwrap().parts.len();
            let bound = |at: usize| {
                let image = &all[at % all.len()].2.image;
                let layout = RowLayout::new(&def.column_types());
                let mut offsets = Vec::new();
                layout.walk_offsets(image, &mut offsets).unwrap();
                let values = key.unwrap().parts[..columns].iter().map(|part| {
                    let (at, len) = offsets[part.column];
                    (at != OFFSET_NULL).then(|| &image[at as usize..(at + len) as usize])
                });
                reader.bound(order, values).unwrap()
            };
            let (low, high) = (bound((seed >> 8) as usize), bound((seed >> 20) as usize));
            let inside = |test: &dyn Fn(&[u8]) -> bool| {
                images(&all.iter().filter(|row| test(&row.0)).cloned().collect::<Vec<_>>())
            };
            let at_least = |key: &[u8], bound: &[u8]| key >= bound;
            let behind = |key: &[u8], bound: &[u8]| key > bound && !key.starts_with(bound);
            let (range, rows) = match seed >> 56 & 3 {
                0 => (KeyRange::prefix(&low), inside(&|key| key.starts_with(&low))),
                1 => (
                    KeyRange::all().from_including(&low).to_before(&high),
                    inside(&|key| at_least(key, &low) && !at_least(key, &high)),
                ),
                2 => (
                    KeyRange::all().from_behind(&low).to_including(&high),
                    inside(&|key| behind(key, &low) && !behind(key, &high)),
                ),
                _ => (KeyRange::all().from_behind(&low), inside(&|key| behind(key, &low))),
            };
            check_range(store, snapshot, &reader, (order, name), &range, &rows);
        }
    }
}

fn check_range(
    store: &Store,
    snapshot: &Snapshot,
    reader: &TableReader,
    (order, name): (ReadOrder, &str),
    range: &KeyRange,
    rows: &[OwnedRow],
) {
    let open = || store.range(snapshot, reader, order, range).unwrap().map(Result::unwrap);
    let forward: Vec<_> = open().collect();
    assert_eq!(forward, rows, "{name} from the front, {range:02x?}");
    let mut backward: Vec<_> = open().rev().collect();
    backward.reverse();
    assert_eq!(backward, rows, "{name} from the back, {range:02x?}");
    assert_eq!(open().take(3).collect::<Vec<_>>(), rows[..rows.len().min(3)]);
    let (mut both, mut front, mut back) = (open(), Vec::new(), Vec::new());
    while let Some(row) = both.next() {
        front.push(row);
        match both.next_back() {
            Some(row) => back.push(row),
            None => break,
        }
    }
    front.extend(back.into_iter().rev());
    assert_eq!(front, rows, "{name} from both ends");
}

fn cases(short: u32) -> ProptestConfig {
    let soak = std::env::var("SLIPSTREAM_TEST_LENGTH").is_ok_and(|length| length == "soak");
    ProptestConfig::with_cases(if soak { short * 40 } else { short })
}

proptest! {
    #![proptest_config(cases(48))]
    #[test]
    fn every_order_is_what_the_rows_say(schema in schema(), steps in proptest::collection::vec(step(), 1..160)) {
        let mut world = World::new(schema);
        let mut pinned: Vec<(Snapshot, Rows)> = Vec::new();
        for step in steps {
            match step {
                Step::Put(values, how) => world.put(&values, how),
                Step::Some(at, values, which) => world.change_some(at, &values, which),
                Step::Remove(at, how) => world.remove(at, how),
                Step::Commit => world.commit(),
                Step::Cut => {
                    world.cut();
                    world.check_entries();
                }
                Step::Seal => drop(world.seal()),
                Step::Crash if world.durable_sequence > 0 => {
                    pinned.clear();
                    world.crash();
                    world.check_entries();
                }
                Step::Compact => while world.store.compact().unwrap() {},
                Step::CompactFully => world.store.compact_fully().unwrap(),
                Step::Spill if world.spilled => world.spill(),
                Step::Spill => world.begin_huge(),
                Step::Pin if pinned.len() < 4 => {
                    world.compact_until_idle();
                    pinned.push((Snapshot::pin(&world.store), world.now.clone()));
                }
                Step::Unpin if !pinned.is_empty() => {
                    let (snapshot, rows) = pinned.remove(0);
                    check_orders(&world.store, &snapshot, &rows, 1);
                }
                Step::CreateIndex(at) => {
                    world.names += 1;
                    let index = INDEXES[at].replace("NAME", &format!("later{}", world.names));
                    world.ddl(&format!("ALTER TABLE t ADD {index}"));
                }
                Step::DropIndex(at) => {
                    if let Some(name) = world.a_key(at) {
                        world.ddl(&format!("ALTER TABLE t DROP KEY {name}"));
                    }
                }
                Step::RenameIndex(at) => {
                    world.names += 1;
                    if let Some(name) = world.a_key(at) {
                        world.ddl(&format!("ALTER TABLE t RENAME KEY {name} TO renamed{}", world.names));
                    }
                }
                Step::Truncate => {
                    world.compact_until_idle();
                    world.now.clear();
                    world.ddl("TRUNCATE TABLE t");
                }
                Step::Check(seed) => {
                    world.compact_until_idle();
                    check_orders(&world.store, &Snapshot::pin(&world.store), &world.now, seed);
                }
                Step::Crash | Step::Pin | Step::Unpin => {}
            }
        }
        world.compact_until_idle();
        check_orders(&world.store, &Snapshot::pin(&world.store), &world.now, 2);
        for (snapshot, rows) in pinned.drain(..) {
            check_orders(&world.store, &snapshot, &rows, 3);
        }
        world.cut();
        while world.store.compact().unwrap() {}
        world.check_entries();
        prop_assert_eq!(world.store.stats().indexes_to_fill, 0);
        world.store.compact_fully().unwrap();
        world.check_entries();
        if world.durable_sequence > 0 {
            world.crash();
        }
        world.check_entries();
        let snapshot = Snapshot::pin(&world.store);
        let reader = TableReader::new(&world.def());
        for index in reader.indexes() {
            prop_assert!(world.store.is_ready(&snapshot, &reader, ReadOrder::Index(index.id())).unwrap());
        }
        check_orders(&world.store, &snapshot, &world.now, 4);
    }

    /// An initial copy writes the entries of its rows, and later changes maintain them.
    #[test]
    fn a_copy_has_its_entries(
        schema in schema(),
        rows in proptest::collection::vec(values(), 0..60),
        changes in proptest::collection::vec((any::<usize>(), values(), 0..32u8), 0..30),
    ) {
        let mut world = World::new(schema);
        for values in &rows {
            let image = world.schema.image(values, ALL);
            let (key, keyless) = (world.key(&image), world.is_keyless());
            let entry = world.now.entry(key).or_insert_with(|| (values.clone(), image, 0));
            entry.2 = if keyless { entry.2 + 1 } else { 1 };
        }
        world.store = Arc::new(Store::new(1, Catalog::new(0)));
        let (disk, _) = Disk::open(&world.folder.path().join("store"), DiskOptions { cache_bytes: 1 << 20 }).unwrap();
        let writer = CopyWriter::new(&disk, 600);
        let def = world.def();
        for (key, (_, image, copies)) in &world.now {
            for _ in 0..*copies {
                writer.rows(&def, [(key.as_slice(), image.as_slice())].into_iter()).unwrap();
            }
        }
        writer.table_done(&def).unwrap();
        writer.finish(&"3e11fa47-71ca-11e1-9e33-c80aa9429562:1-77".parse().unwrap(), None, &world.catalog).unwrap();
        drop(disk);
        world.durable = world.now.clone();
        world.crash();
        world.check_entries();
        check_orders(&world.store, &Snapshot::pin(&world.store), &world.now, 5);
        for (at, values, which) in changes {
            match which {
                0..8 => world.remove(at, which % 4),
                8..16 => world.put(&values, which % 4),
                _ => world.change_some(at, &values, which),
            }
            world.commit();
        }
        check_orders(&world.store, &Snapshot::pin(&world.store), &world.now, 6);
        world.cut();
        world.check_entries();
        check_orders(&world.store, &Snapshot::pin(&world.store), &world.now, 7);
    }

    /// Table copy during replay. Its rows come without entries. Changes follow under its new id before any catalog
    /// knows it, with cuts in between. After the switch its indexes are filled, and nobody reads them before that.
    #[test]
    fn a_table_copied_again_gets_its_entries_behind_the_switch(
        schema in schema(),
        rows in proptest::collection::vec(values(), 1..60),
        changes in proptest::collection::vec((any::<usize>(), values(), 0..36u8), 1..40),
    ) {
        let mut world = World::new(schema);
        for values in &rows {
            world.put(values, 0);
        }
        world.cut();
        let (reserved, id) = world.catalog.reserve_id().unwrap();
        let copied = Arc::new(TableDef { id, ..TableDef::clone(&world.def()) });
        let (switched, _) = reserved.with_copied(&copied);
        world.store.begin_table_copy(&copied);
        let writer = CopyWriter::beside(&world.store, 600).unwrap();
        for (key, (_, image, copies)) in &world.now {
            for _ in 0..*copies {
                writer.rows(&copied, [(key.as_slice(), image.as_slice())].into_iter()).unwrap();
            }
        }
        let count = writer.finish_table(id).unwrap();
        world.store.table_copy_read(id, count);
        let mut is_switched = false;
        for (at, values, which) in changes {
            // From here on, everything concerns the copy.
            world.catalog = switched.clone();
            match which {
                0..8 => world.remove(at, which % 4),
                8..16 => world.put(&values, which % 4),
                16..32 => world.change_some(at, &values, which),
                32 | 33 if !is_switched => {
                    world.store.visibility().announce_catalog(SequenceNumber(world.sequence + 1), switched.clone());
                    is_switched = true;
                }
                _ => {
                    world.compact_until_idle();
                    world.catalog = if is_switched { switched.clone() } else { reserved.clone() };
                    world.cut();
                    if is_switched {
                        world.store.compact().unwrap();
                    }
                }
            }
            world.commit();
        }
        world.catalog = switched.clone();
        world.store.visibility().announce_catalog(SequenceNumber(world.sequence + 1), switched);
        world.commit();
        world.cut();
        world.store.end_table_copy(id);
        prop_assert!(world.store.stats().memory.rows as usize == world.now.values().map(|row| row.2 as usize).sum::<usize>());
        while world.store.compact().unwrap() {}
        prop_assert_eq!(world.store.stats().indexes_to_fill, 0);
        world.check_entries();
        check_orders(&world.store, &Snapshot::pin(&world.store), &world.now, 8);
        world.crash();
        world.check_entries();
        check_orders(&world.store, &Snapshot::pin(&world.store), &world.now, 9);
    }
}
