//! The watermark, and snapshots pinned at it.
//!
//! In: "everything up to here is applied" from the publisher. Out: snapshots, and the oldest sequence number anyone
//! can still look at. Invariant: the watermark only grows; a pinned snapshot's versions stay until it is dropped.

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use base::{GtidSet, SequenceNumber, Waiters};
use catalog::Catalog;

use crate::index_state::IndexStates;
use crate::layers::{Generation, Layer, Layers, Spill};
use crate::marks::{Marks, Pins};

/// What is visible now.
#[derive(Clone)]
pub struct WatermarkState {
    /// Highest visible sequence number.
    pub sequence: SequenceNumber,
    /// GTIDs of everything visible.
    pub executed: GtidSet,
    /// Table definitions as they are at the watermark.
    pub catalog: Catalog,
}

struct State {
    watermark: WatermarkState,
    /// Catalogs of transactions that are not visible yet.
    coming: VecDeque<(SequenceNumber, Catalog)>,
    /// Sequence numbers that snapshots were taken at.
    pins: Pins,
    /// Changed under this lock only: a snapshot's watermark and layers belong together.
    layers: Arc<Layers>,
    /// Tree numbers that snapshots read at.
    read_pins: Pins,
    /// Snapshots that can still be read, oldest first.
    held: BTreeMap<u64, HeldSnapshot>,
    snapshots: u64,
    limits: SnapshotLimits,
}

/// How much snapshots may hold on to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SnapshotLimits {
    /// Bytes of generations that are in the tree already and stay in memory for snapshots alone. Above it the oldest
    /// snapshots are given up.
    pub bytes: u64,
    /// Snapshots older than this are given up when a cut ends or another one is taken. None: they may be of any age.
    pub age: Option<Duration>,
}

impl Default for SnapshotLimits {
    /// None.
    fn default() -> SnapshotLimits {
        SnapshotLimits { bytes: u64::MAX, age: None }
    }
}

/// What a snapshot reads; None once it was given up.
type SharedLayers = Arc<Mutex<Option<Arc<Layers>>>>;

struct HeldSnapshot {
    since: Instant,
    sequence: u64,
    read_at: Option<u64>,
    layers: SharedLayers,
}

/// See the module.
pub struct Visibility {
    state: Mutex<State>,
    moved: Waiters,
    marks: Marks,
    held_bytes: AtomicU64,
}

/// A reader's view. While it lives, nothing it can see is dropped, unless it is given up to stay within
/// [`SnapshotLimits`]: then reading it is an error.
pub struct Snapshot {
    state: WatermarkState,
    number: u64,
    layers: SharedLayers,
    store: Arc<crate::Store>,
    /// Why its rows are not exact ([`crate::StoreError::Settling`]).
    settling: Option<(String, u64)>,
}

/// The store's parts for a piece on its way through the workers. While it lives, the tree can be read as it was.
pub struct PinnedLayers {
    layers: Arc<Layers>,
    store: Arc<crate::Store>,
}

impl PinnedLayers {
    /// The parts as they are now.
    #[must_use]
    pub fn pin(store: &Arc<crate::Store>) -> PinnedLayers {
        let mut state = store.visibility().lock();
        let layers = Arc::clone(&state.layers);
        if let Some((_, at)) = &layers.base {
            state.read_pins.pin(*at);
        }
        drop(state);
        PinnedLayers { layers, store: Arc::clone(store) }
    }
}

impl std::ops::Deref for PinnedLayers {
    type Target = Layers;
    fn deref(&self) -> &Layers {
        &self.layers
    }
}

impl Drop for PinnedLayers {
    fn drop(&mut self) {
        if let Some((_, at)) = &self.layers.base {
            self.store.visibility().lock().read_pins.unpin(*at);
        }
    }
}

impl Visibility {
    pub(crate) fn new(watermark: WatermarkState, layers: Layers) -> Visibility {
        let sequence = watermark.sequence.0;
        Visibility {
            state: Mutex::new(State {
                watermark,
                coming: VecDeque::new(),
                pins: Pins::default(),
                layers: Arc::new(layers),
                read_pins: Pins::default(),
                held: BTreeMap::new(),
                snapshots: 0,
                limits: SnapshotLimits::default(),
            }),
            moved: Waiters::new(),
            marks: Marks::new(sequence),
            held_bytes: AtomicU64::new(0),
        }
    }

    /// Bytes of generations that are in the tree already and stay in memory for snapshots alone.
    #[must_use]
    pub fn held_bytes(&self) -> u64 {
        self.held_bytes.load(Ordering::Relaxed)
    }

    /// From now on snapshots are given up above these.
    pub fn limit_snapshots(&self, limits: SnapshotLimits) {
        self.lock().limits = limits;
    }

    /// The store's parts as they are now.
    #[must_use]
    pub fn layers(&self) -> Arc<Layers> {
        Arc::clone(&self.lock().layers)
    }

    /// Puts a new generation on top.
    pub(crate) fn put_on_top(&self, fresh: Generation) {
        let mut state = self.lock();
        let old = &state.layers;
        let mut below = vec![Layer::Memory(Arc::clone(&old.active))];
        below.extend(old.below.iter().cloned());
        state.layers = Arc::new(Layers { active: Arc::new(fresh), below, ..old.parts() });
    }

    /// The generation `number` lies in this tree of its own now.
    pub(crate) fn put_spill(&self, number: u64, spill: Spill) {
        let mut state = self.lock();
        debug_assert!(
            generations(&state.layers).any(|generation| generation.number() == number),
            "spilled what is gone"
        );
        let spill = Layer::Spill(Arc::new(spill));
        let replace = |layer: &Layer| match layer {
            Layer::Memory(generation) if generation.number() == number => spill.clone(),
            other => other.clone(),
        };
        let old = &state.layers;
        let below = old.below.iter().map(replace).collect();
        state.layers = Arc::new(Layers { below, ..old.parts() });
    }

    /// The generation `number` and all below it are in the tree, which is read at `at` from now on.
    pub(crate) fn put_base(&self, number: u64, disk: &Arc<crate::Disk>, at: u64, indexes: Arc<IndexStates>) {
        let mut state = self.lock();
        let old = &state.layers;
        let kept = old.below.iter().take_while(|layer| match layer {
            Layer::Memory(generation) => generation.number() != number,
            Layer::Spill(_) => true,
        });
        let below = kept.cloned().collect();
        let base = Some((Arc::clone(disk), at));
        state.layers = Arc::new(Layers { below, base, indexes, ..old.parts() });
        self.give_up(&mut state);
    }

    /// The tree is read at `at` from now on; it holds the rows it held, and of indexes what `filled` says where a fill
    /// added to them.
    pub(crate) fn move_base(&self, at: u64, filled: Option<Arc<IndexStates>>) {
        let mut state = self.lock();
        let old = &state.layers;
        let Some((disk, _)) = &old.base else { panic!("a store in memory has no tree to move") };
        let base = Some((Arc::clone(disk), at));
        let indexes = filled.unwrap_or_else(|| Arc::clone(&old.indexes));
        state.layers = Arc::new(Layers { base, indexes, ..old.parts() });
    }

    /// Other states of indexes over the same tree.
    pub(crate) fn set_indexes(&self, indexes: Arc<IndexStates>) {
        let mut state = self.lock();
        let parts = state.layers.parts();
        state.layers = Arc::new(Layers { indexes, ..parts });
    }

    /// The oldest number that a snapshot, or a coming one, reads the tree at.
    #[must_use]
    pub fn oldest_read(&self) -> u64 {
        let state = self.lock();
        let now = state.layers.base.as_ref().map_or(0, |(_, at)| *at);
        state.read_pins.oldest(now)
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Highest visible sequence number.
    #[must_use]
    pub fn watermark(&self) -> SequenceNumber {
        SequenceNumber(self.marks.watermark())
    }

    /// Versions older than the newest one at or below this are seen by nobody. May lag behind the truth, never ahead.
    #[must_use]
    pub fn oldest_needed(&self) -> u64 {
        self.marks.oldest_needed()
    }

    /// Announces the catalog as transaction `at` leaves it, before that transaction becomes visible.
    pub fn announce_catalog(&self, at: SequenceNumber, catalog: Catalog) {
        self.lock().coming.push_back((at, catalog));
    }

    /// Moves the watermark; `add_gtids` adds the GTIDs that become visible with it.
    ///
    /// # Panics
    /// When the watermark would go back: a fault of the publisher that must not reach readers.
    pub fn advance(&self, to: SequenceNumber, add_gtids: impl FnOnce(&mut GtidSet)) {
        let mut state = self.lock();
        assert!(to >= state.watermark.sequence, "the watermark may not go back");
        state.watermark.sequence = to;
        add_gtids(&mut state.watermark.executed);
        while state.coming.front().is_some_and(|(at, _)| *at <= to) {
            if let Some((_, catalog)) = state.coming.pop_front() {
                state.watermark.catalog = catalog;
            }
        }
        self.marks.advance(to.0, &state.pins);
        self.moved.wake_all(state);
    }

    /// A copy of what is visible now.
    #[must_use]
    pub fn current(&self) -> WatermarkState {
        self.lock().watermark.clone()
    }

    /// GTIDs of everything visible now.
    #[must_use]
    pub fn executed(&self) -> GtidSet {
        self.lock().watermark.executed.clone()
    }

    /// Waits until `done` holds of the visible GTIDs; false when `timeout` passes first.
    #[must_use]
    pub fn wait_executed(&self, timeout: Duration, done: impl Fn(&GtidSet) -> bool) -> bool {
        let deadline = Instant::now() + timeout;
        let mut state = self.lock();
        loop {
            if done(&state.watermark.executed) {
                return true;
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            state = self.moved.wait_timeout(state, left);
        }
    }
}

impl Visibility {
    /// Gives the oldest snapshots up while they hold too much.
    fn give_up(&self, state: &mut State) {
        let mut bytes = bytes_held(state);
        while let Some(oldest) = state.held.first_entry() {
            let is_old = state.limits.age.is_some_and(|age| oldest.get().since.elapsed() > age);
            if !is_old && bytes <= state.limits.bytes {
                break;
            }
            let Some((_, oldest)) = state.held.pop_first() else { break };
            *oldest.layers.lock().unwrap_or_else(PoisonError::into_inner) = None;
            release(state, &oldest);
            bytes = bytes_held(state);
        }
        self.held_bytes.store(bytes, Ordering::Relaxed);
        self.marks.released(state.watermark.sequence.0, &state.pins);
    }
}

/// Bytes of generations that only snapshots keep in memory.
fn bytes_held(state: &State) -> u64 {
    let in_use: Vec<u64> = generations(&state.layers).map(Generation::number).collect();
    let mut held = BTreeMap::new();
    for snapshot in state.held.values() {
        let layers = snapshot.layers.lock().unwrap_or_else(PoisonError::into_inner);
        for generation in layers.iter().flat_map(|layers| generations(layers)) {
            if !in_use.contains(&generation.number()) {
                held.insert(generation.number(), generation.bytes());
            }
        }
    }
    held.values().sum()
}

fn generations(layers: &Layers) -> impl Iterator<Item = &Generation> {
    let below = layers.below.iter().filter_map(|layer| match layer {
        Layer::Memory(generation) => Some(&**generation),
        Layer::Spill(_) => None,
    });
    std::iter::once(&*layers.active).chain(below)
}

/// What it pinned may go.
fn release(state: &mut State, snapshot: &HeldSnapshot) {
    state.pins.unpin(snapshot.sequence);
    if let Some(at) = snapshot.read_at {
        state.read_pins.unpin(at);
    }
}

impl Snapshot {
    /// Pins the watermark as it is. Where the store is not readable yet ([`crate::Store::readable`]) reading the snapshot
    /// is that error.
    #[must_use]
    pub fn pin(store: &Arc<crate::Store>) -> Snapshot {
        // Asked before: what is exact now is exact at any later watermark.
        let settling = match store.readable() {
            Err(crate::StoreError::Settling { until, missing }) => Some((until, missing)),
            _ => None,
        };
        let visibility = store.visibility();
        let mut state = visibility.lock();
        let watermark = state.watermark.clone();
        let layers = Arc::clone(&state.layers);
        let sequence = watermark.sequence.0;
        let read_at = layers.base.as_ref().map(|(_, at)| *at);
        state.pins.pin(sequence);
        if let Some(at) = read_at {
            state.read_pins.pin(at);
        }
        visibility.give_up(&mut state);
        state.snapshots += 1;
        let number = state.snapshots;
        let layers = Arc::new(Mutex::new(Some(layers)));
        let held = HeldSnapshot { since: Instant::now(), sequence, read_at, layers: Arc::clone(&layers) };
        state.held.insert(number, held);
        drop(state);
        Snapshot { state: watermark, number, layers, store: Arc::clone(store), settling }
    }

    /// What it reads. Not to be held on to: the snapshot may be given up to free it.
    pub(crate) fn layers(&self) -> Result<Arc<Layers>, crate::StoreError> {
        if let Some((until, missing)) = &self.settling {
            return Err(crate::StoreError::Settling { until: until.clone(), missing: *missing });
        }
        let layers = self.layers.lock().unwrap_or_else(PoisonError::into_inner);
        layers.clone().ok_or(crate::StoreError::SnapshotTooOld)
    }

    /// An error once it was given up: for whoever holds its layers for long.
    pub(crate) fn check(&self) -> Result<(), crate::StoreError> {
        match *self.layers.lock().unwrap_or_else(PoisonError::into_inner) {
            Some(_) => Ok(()),
            None => Err(crate::StoreError::SnapshotTooOld),
        }
    }

    /// A fault of the tree's content.
    pub(crate) fn damaged(&self, text: &str) -> crate::StoreError {
        let folder = self.store.disk().map(|disk| disk.folder().to_owned()).unwrap_or_default();
        crate::StoreError::Damaged { folder, text: text.to_owned() }
    }

    /// The sequence number it sees up to.
    #[must_use]
    pub fn sequence(&self) -> u64 {
        self.state.sequence.0
    }

    /// The GTIDs it holds exactly.
    #[must_use]
    pub fn executed(&self) -> &GtidSet {
        &self.state.executed
    }

    /// Table definitions at that point.
    #[must_use]
    pub fn catalog(&self) -> &Catalog {
        &self.state.catalog
    }
}

impl Drop for Snapshot {
    fn drop(&mut self) {
        let visibility = self.store.visibility();
        let mut state = visibility.lock();
        if let Some(held) = state.held.remove(&self.number) {
            release(&mut state, &held);
            visibility.held_bytes.store(bytes_held(&state), Ordering::Relaxed);
        }
        visibility.marks.released(state.watermark.sequence.0, &state.pins);
    }
}
