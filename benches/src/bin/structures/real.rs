//! The store itself, over an empty tree: with versions, lanes, snapshots and images.

use std::sync::Arc;

use base::SequenceNumber;
use stage_benches::pass::changes::Changes;
use store::{
    BeforeImage, CheckImages, Disk, DiskOptions, KeyRange, Layers, OwnedShape, ReadOrder, RowChange, RowTarget,
    Snapshot, Store, TableReader, WriteContext,
};

use crate::{Fold, Structure};

/// As many as a program with two workers has.
const LANES: usize = 16;
/// Approximate changes per piece, after which a worker does its per-piece work.
const PIECE: usize = 1024;

/// A store in a temporary folder.
pub(crate) struct RealStore<'c> {
    changes: &'c Changes,
    store: Arc<Store>,
    /// Held as a piece holds them; nothing is sealed here.
    layers: Arc<Layers>,
    shapes: Vec<OwnedShape>,
    readers: Vec<TableReader>,
    oldest_needed: u64,
    done: u64,
    _folder: tempfile::TempDir,
}

impl RealStore<'_> {
    /// Makes everything done so far visible, each change as a transaction of its own.
    fn show(&mut self) {
        self.store.visibility().advance(SequenceNumber(self.done), |_| {});
    }

    fn end_piece(&mut self) {
        self.show();
        self.oldest_needed = self.store.visibility().oldest_needed();
        for lane in 0..LANES {
            let Some(mut lane) = self.layers.active.lane_mut(lane) else { continue };
            lane.tidy(self.changes.tables.iter().map(|table| table.id), self.oldest_needed);
        }
    }

    /// Calls `each` with the rows of a range as they are read.
    fn rows(&mut self, number: usize, rows: usize, mut each: impl FnMut(&[u8])) {
        self.show();
        let change = &self.changes.list[number];
        let reader = &self.readers[usize::from(change.table)];
        let snapshot = Snapshot::pin(&self.store);
        let range = KeyRange::all().from_including(self.changes.key(change));
        let found = self.store.range(&snapshot, reader, ReadOrder::Identity, &range);
        for row in found.expect("a range").take(rows) {
            each(&row.expect("a row").image);
        }
    }
}

impl<'c> Structure<'c> for RealStore<'c> {
    fn new(changes: &'c Changes) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let (disk, _) =
            Disk::open(&folder.path().join("store"), DiskOptions { cache_bytes: 1 << 20 }).expect("a tree on disk");
        let store = Store::over(LANES, disk, folder.path().join("scratch"), None, changes.catalog.clone());
        let store = Arc::new(store.expect("a store"));
        RealStore {
            changes,
            layers: store.visibility().layers(),
            store,
            shapes: changes.tables.iter().map(|table| OwnedShape::of(table)).collect(),
            readers: changes.tables.iter().map(|table| TableReader::new(table)).collect(),
            oldest_needed: 0,
            done: 0,
            _folder: folder,
        }
    }

    fn change(&mut self, number: usize) {
        let change = &self.changes.list[number];
        let image = self.changes.image(change);
        let row_change = match (change.was_there, change.gone) {
            (_, true) => RowChange::Delete { before: BeforeImage::Full(image) },
            (true, false) => RowChange::Update { before: BeforeImage::Full(image), image },
            (false, false) => RowChange::Insert { image },
        };
        self.done += 1;
        let lane_number = self.store.lane_of(change.hash);
        let shape = self.shapes[usize::from(change.table)].lend();
        let (key, sequence, oldest) = (self.changes.stored_key(change), self.done, self.oldest_needed);
        let (layers, check) = (&*self.layers, CheckImages::Off);
        let mut lane = layers.active.lane_mut(lane_number).expect("a lane");
        let target = RowTarget { lane: lane_number, shape: &shape, hash: change.hash, key };
        let context = WriteContext { sequence, oldest_needed: oldest, check, layers };
        lane.apply(&target, row_change, &context).expect("a change that fits");
        drop(lane);
        if (number + 1).is_multiple_of(PIECE) {
            self.end_piece();
        }
    }

    fn get(&mut self, number: usize) -> Option<u64> {
        let change = &self.changes.list[number];
        let snapshot = Snapshot::pin(&self.store);
        let table = &self.changes.tables[usize::from(change.table)];
        let image = self.store.get(&snapshot, table, self.changes.stored_key(change)).expect("a look-up");
        image.map(|image| image.len() as u64)
    }

    fn range(&mut self, number: usize, fold: &mut Fold) {
        let mut taken = 0;
        self.rows(number, fold.left, |image| taken += usize::from(!image.is_empty()));
        fold.left -= taken;
    }

    fn check(&mut self, number: usize, rows: usize, expected: &[u64]) {
        let mut at = 0;
        self.rows(number, rows, |image| {
            let newest = expected.get(at).expect("more rows than there are");
            assert_eq!(image, self.changes.image(&self.changes.list[crate::number_of(*newest)]), "another version");
            at += 1;
        });
        assert_eq!(at, expected.len(), "fewer rows than there are");
    }
}
