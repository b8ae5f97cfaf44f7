//! Fills an index added by a later DDL statement, step by step, while replay runs (invariant 18).
//!
//! In: the tree's rows, and the indexes that its newest cut knows but does not hold completely. Out: one run per step,
//! with the index entries and the key that the fill has reached. Never here: a cut at the same time, so the rows read
//! match the entries written; a reader of the index before the fill's last step. After a restart, the fill continues
//! where its last step ended.

use std::sync::Arc;

use catalog::{ConversionBuffers, IndexSet, KeyOrder, RowVersions, TableDef, TableId};

use crate::Store;
use crate::cut_record::TableRecord;
use crate::disk::Disk;
use crate::error::StoreError;
use crate::index_entries::Sorter;
use crate::index_state::Filling;
use crate::key_codec;
use crate::layers::TreeAt;

/// Entries written in one step, in bytes: a cut waits while a step runs.
const STEP_BYTES: usize = 16 << 20;

impl Store {
    /// Writes the next entries of an incomplete index; false if all indexes are complete.
    pub(crate) fn fill_step(&self, disk: &Arc<Disk>) -> Result<bool, StoreError> {
        self.fill_some(disk, STEP_BYTES)
    }

    fn fill_some(&self, disk: &Arc<Disk>, bytes: usize) -> Result<bool, StoreError> {
        let state = self.cut_state();
        let states = Arc::clone(&self.visibility().layers().indexes);
        // Until the copy without a lock has settled, changes do not know which entries the old rows had.
        let Some(catalog) = state.catalog.as_ref().filter(|_| state.is_consistent) else { return Ok(false) };
        let Some(filling) = states.to_fill() else { return Ok(false) };
        // `IndexStates::at_cut` keeps a fill only while the catalog of the cut has its index.
        let unknown = || StoreError::defect("an index is being filled that the newest cut does not know");
        let table = catalog.table_by_id(TableId(filling.table)).ok_or_else(unknown)?;
        let indexes = IndexSet::of(table).ok_or_else(unknown)?;
        let mut run = disk.begin()?;
        let (entries, filling, is_last) = step(disk, table, &indexes, filling, bytes)?;
        entries.finish(|key, own_len| match own_len {
            Some(len) => run.put(key, &key_codec::index_value(len)),
            None => Err(StoreError::defect("a fill removes an entry")),
        })?;
        let filled = states.filled(filling, is_last);
        run.index_states(&filled, state.parts)?;
        // A store of before has no records of tables until its next cut.
        if let Some(parts) = state.parts.filter(|_| is_last) {
            run.table_record(parts, table.id.0, &TableRecord::of(table.id, &state.rows, &filled))?;
        }
        let version_lock = disk.version_lock();
        run.finish(&version_lock)?;
        let tree = TreeAt { disk: Arc::clone(disk), view: disk.take_over(&version_lock) };
        self.visibility().move_base(tree, Some(Arc::new(filled)));
        drop(version_lock);
        drop(state);
        Ok(true)
    }
}

/// Entries of the next rows, the state after them, and whether these are the last.
fn step(
    disk: &Disk,
    table: &TableDef,
    indexes: &IndexSet,
    mut filling: Filling,
    bytes: usize,
) -> Result<(Sorter, Filling, bool), StoreError> {
    let (order, versions, mut buffers) = (KeyOrder::of(table), RowVersions::of(table), ConversionBuffers::default());
    let mut entries = Sorter::new(None);
    let index = indexes.index(filling.index);
    let index = index.ok_or(StoreError::defect("an index is being filled that its table does not keep"))?;
    let (mut from, to) = (key_codec::table_bounds(table.id).0.to_vec(), key_codec::table_bounds(table.id).1);
    if !filling.done.is_empty() {
        from.clone_from(&filling.done);
        // The smallest key after the last row done.
        from.push(0);
    }
    let (mut sort_key, mut key) = (Vec::new(), Vec::new());
    for item in disk.range_in(&disk.newest(), &from, &to) {
        let (row_key, value) = item?;
        let damaged = || disk.damaged(format!("a row of {} does not fit its definition", table.full_name()));
        let row = key_codec::parse_row(&row_key, &value).ok_or_else(damaged)?;
        let own_len = key_codec::own_len(order.is_keyless(), row.key);
        let own = row_key.len().checked_sub(own_len).and_then(|at| row_key.get(at..)).ok_or_else(damaged)?;
        sort_key.clear();
        let image = versions.read(row.definition, row.image, &mut buffers).map_err(|_| damaged())?;
        indexes.append(index, image, &mut sort_key).map_err(|_| damaged())?;
        key.clear();
        key_codec::append_index_key(table.id, index.id(), &sort_key, own, &mut key);
        entries.push(&key, Some(own_len))?;
        if entries.held() >= bytes {
            filling.done = row_key.to_vec();
            return Ok((entries, filling, false));
        }
    }
    Ok((entries, filling, true))
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use base::{SequenceNumber, key_hash};
    use catalog::{Catalog, StatementContext};

    use super::*;
    use crate::{
        BeforeImage, CheckImages, CutPoint, DiskOptions, IndexCheck, KeyRange, OwnedShape, ReadOrder, RowChange,
        RowTarget, Snapshot, TableReader, WriteContext,
    };

    struct World {
        store: Arc<Store>,
        catalog: Catalog,
        sequence: u64,
    }

    fn context() -> StatementContext {
        StatementContext { default_db: "d".into(), ..StatementContext::default() }
    }

    fn image(id: u32, a: u32) -> Vec<u8> {
        [&[0][..], &id.to_le_bytes(), &a.to_le_bytes()].concat()
    }

    impl World {
        fn open(folder: &Path) -> World {
            let catalog = Catalog::new(0).apply(&context(), b"CREATE TABLE t (id INT PRIMARY KEY, a INT)");
            let catalog = catalog.unwrap().catalog;
            let (disk, recovered) = Disk::open(&folder.join("store"), DiskOptions { cache_bytes: 1 << 20 }).unwrap();
            let store = Store::over(2, disk, folder.join("scratch"), recovered, catalog).unwrap();
            let visible = store.visibility().current();
            World { store: Arc::new(store), catalog: visible.catalog, sequence: visible.sequence.0 }
        }

        fn set(&mut self, id: u32, before: Option<u32>, a: u32) {
            let def = self.catalog.table("d", "t").unwrap();
            let shape = OwnedShape::of(def);
            let (key, image, before) = (id.to_le_bytes(), image(id, a), before.map(|a| image(id, a)));
            let hash = key_hash(def.id.0, &key);
            let (layers, lane) = (self.store.visibility().layers(), self.store.lane_of(hash));
            let change = match &before {
                Some(before) => RowChange::Update { before: BeforeImage::Full(before), image: &image },
                None => RowChange::Insert { image: &image },
            };
            self.sequence += 1;
            let mut guard = layers.active.lane_mut(lane).unwrap();
            let target = RowTarget { lane, shape: &shape.lend(), hash, key: &key };
            let context =
                WriteContext { sequence: self.sequence, oldest_needed: 0, check: CheckImages::All, layers: &layers };
            guard.apply(&target, change, &context).unwrap();
            self.store.visibility().advance(SequenceNumber(self.sequence), |_| {});
        }

        fn ddl(&mut self, sql: &str) {
            self.sequence += 1;
            self.catalog = self.catalog.apply(&context(), sql.as_bytes()).unwrap().catalog;
            self.store.visibility().announce_catalog(SequenceNumber(self.sequence), self.catalog.clone());
            self.store.visibility().advance(SequenceNumber(self.sequence), |_| {});
        }

        fn cut(&self) {
            let point = CutPoint::at(self.sequence, self.catalog.clone());
            self.store.cut(&self.store.seal(Some(point))).unwrap();
        }

        fn fill_some(&self) -> bool {
            self.store.fill_some(self.store.disk().unwrap(), 1000).unwrap()
        }

        fn read(&self) -> Option<Vec<u32>> {
            let snapshot = Snapshot::pin(&self.store);
            let def = snapshot.catalog().table("d", "t").unwrap();
            let (reader, order) = (TableReader::new(def), ReadOrder::Index(def.key("a").unwrap().id));
            match self.store.range(&snapshot, &reader, order, &KeyRange::all()) {
                Ok(rows) => Some(rows.map(|row| u32::from_le_bytes(row.unwrap().key.try_into().unwrap())).collect()),
                Err(StoreError::IndexNotReady { .. }) => None,
                Err(error) => panic!("{error}"),
            }
        }
    }

    /// Cuts and restarts between the steps of a fill; rows on both sides of its position change.
    #[test]
    fn a_fill_goes_on_after_a_restart_and_sees_what_changes_meanwhile() {
        let folder = tempfile::tempdir().unwrap();
        let mut world = World::open(folder.path());
        (0..300).for_each(|id| world.set(id, None, 1000 - id));
        world.cut();
        world.ddl("CREATE INDEX a ON t (a)");
        assert!(!world.fill_some(), "no durable cut knows the index");
        world.cut();
        let mut steps = 0;
        loop {
            assert_eq!(world.read(), None);
            assert!(world.fill_some());
            steps += 1;
            if world.store.stats().indexes_to_fill == 0 {
                break;
            }
            for id in [steps * 5, 299 - steps * 5] {
                world.set(id, Some(1000 - id), 5000 + id);
            }
            if steps % 2 == 0 {
                world.cut();
                world = World::open(folder.path());
            }
        }
        assert!(steps > 8, "{steps} steps");
        let changed = |id: u32| (1..steps).any(|step| id == step * 5 || id == 299 - step * 5);
        let mut expected: Vec<u32> = (0..300).collect();
        expected.sort_by_key(|id| if changed(*id) { 5000 + id } else { 1000 - id });
        assert_eq!(world.read(), Some(expected.clone()));
        world.cut();
        let check = |world: &World| {
            let snapshot = Snapshot::pin(&world.store);
            let def = snapshot.catalog().table("d", "t").unwrap();
            world.store.check_index(&snapshot, &TableReader::new(def), def.key("a").unwrap().id).unwrap()
        };
        assert_eq!(check(&world), IndexCheck { entries: 300, missing: 0, stale: 0 });
        let sample = |every: usize| {
            let snapshot = Snapshot::pin(&world.store);
            let def = snapshot.catalog().table("d", "t").unwrap();
            world.store.sample_index(&snapshot, &TableReader::new(def), def.key("a").unwrap().id, every).unwrap()
        };
        assert_eq!(sample(1), IndexCheck { entries: 300, missing: 0, stale: 0 });
        assert_eq!(sample(7), IndexCheck { entries: 43, missing: 0, stale: 0 });
        let samples = |world: &World, skip: usize| -> Vec<(u32, IndexCheck)> {
            let snapshot = Snapshot::pin(&world.store);
            let files = world.store.disk().unwrap().file_numbers();
            files.iter().filter_map(|file| world.store.sample_file(&snapshot, *file, skip, 50).unwrap()).collect()
        };
        let id = world.catalog.table("d", "t").unwrap().id;
        world.store.compact_fully().unwrap();
        assert_eq!(samples(&world, 100), [(id.0, IndexCheck::default())], "one file, which begins with rows");
        drop(world);
        let world = World::open(folder.path());
        assert_eq!(world.read(), Some(expected));
        assert_eq!(check(&world), IndexCheck { entries: 300, missing: 0, stale: 0 });
        // Entries that are gone although their rows stand.
        let disk = world.store.disk().unwrap();
        let index = world.catalog.table("d", "t").unwrap().key("a").unwrap().id;
        let (from, to) = (key_codec::index_prefix(id, index), key_codec::index_end(id, index));
        let entries: Vec<_> = disk.range_in(&disk.newest(), &from, &to).map(|entry| entry.unwrap().0).collect();
        let mut run = disk.begin().unwrap();
        entries.iter().for_each(|entry| run.remove(entry).unwrap());
        let version_lock = disk.version_lock();
        run.finish(&version_lock).unwrap();
        disk.take_over(&version_lock);
        drop(version_lock);
        world.store.compact_fully().unwrap();
        assert_eq!(samples(&world, 100), [(id.0, IndexCheck { entries: 0, missing: 50, stale: 0 })]);
    }

    #[test]
    fn a_dropped_indexs_space_comes_back_once_that_is_durable() {
        let folder = tempfile::tempdir().unwrap();
        let mut world = World::open(folder.path());
        (0..5000).for_each(|id| world.set(id, None, id.wrapping_mul(2_654_435_761) >> 1));
        world.ddl("CREATE INDEX a ON t (a)");
        world.cut();
        while world.store.compact().unwrap() {}
        world.store.compact_fully().unwrap();
        let bytes = |world: &World| world.store.stats().disk.unwrap().bytes;
        let with = bytes(&world);
        world.ddl("DROP INDEX a ON t");
        world.store.compact_fully().unwrap();
        assert!(bytes(&world) > with * 9 / 10, "entries went before the DROP was durable");
        world.cut();
        world.store.compact_fully().unwrap();
        assert!(bytes(&world) < with * 4 / 5, "{} of {with}", bytes(&world));
    }

    /// ALTER TABLE leaves stored rows as they are: in memory, tree, cuts and fills they are converted when read.
    #[test]
    fn rows_of_older_layouts_stand_under_their_index() {
        let folder = tempfile::tempdir().unwrap();
        let mut world = World::open(folder.path());
        world.ddl("CREATE INDEX a ON t (a)");
        (0..40).for_each(|id| world.set(id, None, 1000 - id));
        world.cut();
        (40..60).for_each(|id| world.set(id, None, 1000 - id));
        let before = Snapshot::pin(&world.store);
        world.ddl("ALTER TABLE t ADD COLUMN z SMALLINT NOT NULL DEFAULT 7 AFTER id");
        assert!(!world.catalog.table("d", "t").unwrap().older_layouts.is_empty(), "rows are written anew");
        world.ddl("CREATE INDEX z ON t (z, a DESC)");
        let read = |world: &World, snapshot: &Snapshot, name: &str| -> Option<Vec<u32>> {
            let def = snapshot.catalog().table("d", "t").unwrap();
            let (reader, order) = (TableReader::new(def), ReadOrder::Index(def.key(name).unwrap().id));
            let rows = world.store.range(snapshot, &reader, order, &KeyRange::all()).ok()?;
            Some(rows.map(|row| u32::from_le_bytes(row.unwrap().key.try_into().unwrap())).collect())
        };
        let down: Vec<u32> = (0..60).rev().collect();
        let now = Snapshot::pin(&world.store);
        assert_eq!(read(&world, &now, "a"), Some(down.clone()));
        assert_eq!(read(&world, &before, "a"), Some(down.clone()), "under the definition of its time");
        drop((before, now));
        world.cut();
        while world.store.compact().unwrap() {}
        let check = |world: &World| {
            let snapshot = Snapshot::pin(&world.store);
            assert_eq!(read(world, &snapshot, "a"), Some(down.clone()));
            assert_eq!(read(world, &snapshot, "z"), Some((0..60).collect()));
            let def = snapshot.catalog().table("d", "t").unwrap();
            for name in ["a", "z"] {
                let check = world.store.check_index(&snapshot, &TableReader::new(def), def.key(name).unwrap().id);
                assert_eq!(check.unwrap(), IndexCheck { entries: 60, missing: 0, stale: 0 }, "{name}");
            }
        };
        check(&world);
        drop(world);
        check(&World::open(folder.path()));
    }
}
