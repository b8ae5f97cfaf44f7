//! Visibility, and snapshots of it.
//!
//! In: "everything up to here is applied" from the publisher; new layers from seals, cuts and merges. Out: snapshots,
//! and the oldest sequence number that any reader can still see. Invariant: the watermark only grows; a snapshot's
//! watermark, catalog and layers belong to one view, and everything that view can see is kept until no one holds it or
//! it is given up.

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use arc_swap::ArcSwapOption;
use base::{GtidSet, SequenceNumber, Waiters};
use catalog::{Catalog, TableDef};

use crate::executed::{Executed, NewGtids};
use crate::index_state::IndexStates;
use crate::layers::{Generation, Layer, Layers, Spill, TreeAt};
use crate::published::{Published, Replaced, View};
use crate::reader::TableReader;

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

/// What a view shows beside its sequence number.
struct Content {
    catalog: Catalog,
    /// None once the view was given up: what only it held is free at once, whoever still holds the view.
    layers: ArcSwapOption<Layers>,
    /// Number of the move of the watermark that led here: which GTIDs are executed.
    moves: u64,
    /// Made for who asks.
    executed: OnceLock<GtidSet>,
    /// When a newer view took its place while somebody held it.
    replaced_at: OnceLock<Instant>,
}

/// What writers change, one at a time; readers do not come here.
struct State {
    /// As in the newest view.
    sequence: u64,
    catalog: Catalog,
    layers: Arc<Layers>,
    replaced: Replaced<Content>,
    executed: Executed,
    /// Catalogs of transactions that are not visible yet.
    coming: VecDeque<(SequenceNumber, Catalog)>,
    limits: SnapshotLimits,
    /// Views that nobody holds, whose layers may be the last to hold gigabytes: freed by who has time for it.
    gone: Vec<Arc<View<Content>>>,
}

/// How much snapshots may hold on to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SnapshotLimits {
    /// Bytes of generations that are in the tree already and stay in memory for snapshots alone. Above it the oldest
    /// snapshots are given up.
    pub bytes: u64,
    /// Snapshots of a state that was replaced longer ago than this are given up, when a cut ends and once a second.
    /// None: they may be of any age.
    pub age: Option<Duration>,
}

impl Default for SnapshotLimits {
    /// No limits.
    fn default() -> SnapshotLimits {
        SnapshotLimits { bytes: u64::MAX, age: None }
    }
}

/// See the module.
pub struct Visibility {
    published: Published<Content>,
    state: Mutex<State>,
    moved: Waiters,
    held_bytes: AtomicU64,
}

/// A reader's view. While it lives, nothing it can see is dropped, unless it is given up to stay within
/// [`SnapshotLimits`]: then reading it is an error.
pub struct Snapshot {
    view: Arc<View<Content>>,
    store: Arc<crate::Store>,
    /// Why its rows are not exact ([`crate::StoreError::Settling`]).
    settling: Option<(String, u64)>,
}

/// The store's parts for a piece on its way through the workers. While it lives, the tree can be read as it was.
#[derive(Clone)]
pub struct PinnedLayers(Arc<Layers>);

impl PinnedLayers {
    /// The parts as they are now.
    #[must_use]
    pub fn pin(store: &Arc<crate::Store>) -> PinnedLayers {
        PinnedLayers(store.visibility().layers())
    }
}

impl std::ops::Deref for PinnedLayers {
    type Target = Layers;
    fn deref(&self) -> &Layers {
        &self.0
    }
}

impl State {
    fn view(&self) -> View<Content> {
        let content = Content {
            catalog: self.catalog.clone(),
            layers: ArcSwapOption::new(Some(Arc::clone(&self.layers))),
            moves: self.executed.moves(),
            executed: OnceLock::new(),
            replaced_at: OnceLock::new(),
        };
        View::new(self.sequence, content)
    }
}

impl Visibility {
    pub(crate) fn new(watermark: WatermarkState, layers: Layers) -> Visibility {
        let state = State {
            sequence: watermark.sequence.0,
            catalog: watermark.catalog,
            layers: Arc::new(layers),
            replaced: Replaced::default(),
            executed: Executed::new(watermark.executed),
            coming: VecDeque::new(),
            limits: SnapshotLimits::default(),
            gone: Vec::new(),
        };
        Visibility {
            published: Published::new(state.view()),
            state: Mutex::new(state),
            moved: Waiters::new(),
            held_bytes: AtomicU64::new(0),
        }
    }

    /// Bytes of generations that are in the tree already and stay in memory for snapshots alone, as of the last cut or
    /// second.
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
        loop {
            // None: it was replaced and given up in between.
            if let Some(layers) = self.published.load().content.layers.load_full() {
                return layers;
            }
        }
    }

    /// Puts a new generation on top.
    pub(crate) fn put_on_top(&self, fresh: Generation) {
        self.change_layers(false, |old| {
            let mut below = vec![Layer::Memory(Arc::clone(&old.active))];
            below.extend(old.below.iter().cloned());
            Layers { active: Arc::new(fresh), below, ..old.parts() }
        });
    }

    /// The generation `number` lies in this tree of its own now.
    pub(crate) fn put_spill(&self, number: u64, spill: Spill) {
        let spill = Layer::Spill(Arc::new(spill));
        self.change_layers(false, |old| {
            debug_assert!(generations(old).any(|generation| generation.number() == number), "spilled what is gone");
            let replace = |layer: &Layer| match layer {
                Layer::Memory(generation) if generation.number() == number => spill.clone(),
                other => other.clone(),
            };
            Layers { below: old.below.iter().map(replace).collect(), ..old.parts() }
        });
    }

    /// The generation `number` and all below it are in the tree, which is read as `tree` from now on.
    pub(crate) fn put_base(&self, number: u64, tree: TreeAt, indexes: Arc<IndexStates>) {
        self.change_layers(true, |old| {
            let kept = old.below.iter().take_while(|layer| match layer {
                Layer::Memory(generation) => generation.number() != number,
                Layer::Spill(_) => true,
            });
            Layers { below: kept.cloned().collect(), base: Some(tree), indexes, ..old.parts() }
        });
    }

    /// The tree is read as `tree` from now on; it holds the rows it held, and of indexes what `filled` says where a
    /// fill added to them.
    pub(crate) fn move_base(&self, tree: TreeAt, filled: Option<Arc<IndexStates>>) {
        self.change_layers(false, |old| {
            assert!(old.base.is_some(), "a store in memory has no tree to move");
            let indexes = filled.unwrap_or_else(|| Arc::clone(&old.indexes));
            Layers { base: Some(tree), indexes, ..old.parts() }
        });
    }

    /// Other states of indexes over the same tree.
    pub(crate) fn set_indexes(&self, indexes: Arc<IndexStates>) {
        self.change_layers(false, |old| Layers { indexes, ..old.parts() });
    }

    /// Publishes other layers at the same watermark. `limit`: old views may hold too much now.
    fn change_layers(&self, limit: bool, next: impl FnOnce(&Layers) -> Layers) {
        let mut state = self.lock();
        let layers = Arc::new(next(&state.layers));
        let old = std::mem::replace(&mut state.layers, layers);
        self.publish(&mut state);
        let given_up = if limit { self.give_up(&mut state) } else { Vec::new() };
        let gone = std::mem::take(&mut state.gone);
        drop(state);
        // Maybe gigabytes: without the lock.
        drop((gone, given_up, old));
    }

    /// Under the writers' mutex.
    fn publish(&self, state: &mut State) {
        self.published.publish(state.view(), &mut state.replaced, &mut state.gone);
        if let Some(newest) = state.replaced.newest() {
            newest.content.replaced_at.get_or_init(Instant::now);
        }
    }

    /// Frees what nobody holds any more, and gives up snapshots that hold too much. To be called about once a second,
    /// from a thread that nobody waits for.
    pub fn tidy(&self) {
        let mut state = self.lock();
        let State { replaced, gone, .. } = &mut *state;
        replaced.sweep(gone);
        let given_up = self.give_up(&mut state);
        let gone = std::mem::take(&mut state.gone);
        drop(state);
        drop((gone, given_up));
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Highest visible sequence number.
    #[must_use]
    pub fn watermark(&self) -> SequenceNumber {
        SequenceNumber(self.published.load().sequence())
    }

    /// Of the versions at or below this, readers need only the newest. A lower bound.
    #[must_use]
    pub fn oldest_needed(&self) -> u64 {
        self.published.oldest_needed()
    }

    /// Announces the catalog as transaction `at` leaves it, before that transaction becomes visible.
    pub fn announce_catalog(&self, at: SequenceNumber, catalog: Catalog) {
        self.lock().coming.push_back((at, catalog));
    }

    /// Moves the watermark; `add_gtids` adds the GTIDs that become visible with it.
    ///
    /// # Panics
    /// When the watermark would go back: a fault of the publisher that must not reach readers.
    pub fn advance(&self, to: SequenceNumber, add_gtids: impl FnOnce(&mut NewGtids<'_>)) {
        let mut state = self.lock();
        assert!(to.0 >= state.sequence, "the watermark may not go back");
        state.sequence = to.0;
        state.executed.advance(add_gtids);
        while state.coming.front().is_some_and(|(at, _)| *at <= to) {
            if let Some((_, catalog)) = state.coming.pop_front() {
                state.catalog = catalog;
            }
        }
        self.publish(&mut state);
        // Whoever publishes has no time to free gigabytes: only what frees nothing goes at once.
        let State { gone, layers, .. } = &mut *state;
        gone.retain(|view| view.content.layers.load().as_ref().is_some_and(|old| !Arc::ptr_eq(old, layers)));
        if let Some(upto) = state.executed.is_full() {
            forget(&mut state, upto);
        }
        self.moved.wake_all(state);
    }

    /// A copy of what is visible now.
    #[must_use]
    pub fn current(&self) -> WatermarkState {
        let state = self.lock();
        WatermarkState {
            sequence: SequenceNumber(state.sequence),
            executed: state.executed.now().clone(),
            catalog: state.catalog.clone(),
        }
    }

    /// GTIDs of everything visible now.
    #[must_use]
    pub fn executed(&self) -> GtidSet {
        self.lock().executed.now().clone()
    }

    /// Waits until `done` holds of the visible GTIDs; false when `timeout` passes first.
    #[must_use]
    pub fn wait_executed(&self, timeout: Duration, done: impl Fn(&GtidSet) -> bool) -> bool {
        let deadline = Instant::now() + timeout;
        let mut state = self.lock();
        loop {
            if done(state.executed.now()) {
                return true;
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return false;
            }
            state = self.moved.wait_timeout(state, left);
        }
    }

    /// Gives the oldest views up while they hold too much, and returns the layers they held, to be freed without the
    /// lock.
    fn give_up(&self, state: &mut State) -> Vec<Arc<Layers>> {
        let mut freed = Vec::new();
        let mut bytes = bytes_held(&state.replaced, &state.layers);
        while let Some(oldest) = state.replaced.oldest() {
            let since = oldest.content.replaced_at.get();
            let is_old = state.limits.age.zip(since).is_some_and(|(age, since)| since.elapsed() > age);
            if !is_old && bytes <= state.limits.bytes {
                break;
            }
            // Its holder may ask for its set still.
            oldest.content.executed.get_or_init(|| state.executed.at(oldest.content.moves));
            // Marked first: whoever sees a version gone sees the mark.
            oldest.give_up();
            freed.extend(oldest.content.layers.swap(None));
            state.gone.extend(state.replaced.pop_oldest());
            bytes = bytes_held(&state.replaced, &state.layers);
        }
        self.held_bytes.store(bytes, Ordering::Relaxed);
        self.published.raise(state.sequence, &state.replaced);
        freed
    }
}

/// Forgets GTIDs of moves up to `upto`; held views of before get their sets.
fn forget(state: &mut State, upto: u64) {
    let State { replaced, executed, gone, .. } = state;
    replaced.sweep(gone);
    for view in replaced.iter().take_while(|view| view.content.moves < upto) {
        view.content.executed.get_or_init(|| executed.at(view.content.moves));
    }
    executed.forget(upto);
}

/// Bytes of generations that only old views keep in memory.
fn bytes_held(replaced: &Replaced<Content>, newest: &Layers) -> u64 {
    let in_use: Vec<u64> = generations(newest).map(Generation::number).collect();
    let mut held = BTreeMap::new();
    let mut last = None;
    for layers in replaced.iter().filter_map(|view| view.content.layers.load_full()) {
        if last.as_ref().is_some_and(|last| Arc::ptr_eq(last, &layers)) {
            continue;
        }
        for generation in generations(&layers).filter(|generation| !in_use.contains(&generation.number())) {
            held.insert(generation.number(), generation.bytes());
        }
        last = Some(layers);
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

impl Snapshot {
    /// Pins what is visible now. Where the store is not readable yet ([`crate::Store::readable`]) reading the snapshot
    /// is that error.
    #[must_use]
    pub fn pin(store: &Arc<crate::Store>) -> Snapshot {
        // Asked before: what is exact now is exact at any later watermark.
        let settling = match store.readable() {
            Err(crate::StoreError::Settling { until, missing }) => Some((until, missing)),
            _ => None,
        };
        Snapshot { view: store.visibility().published.load(), store: Arc::clone(store), settling }
    }

    /// What it reads. Not to be held on to: the snapshot may be given up to free it. What was read through it counts
    /// only if [`check`](Self::check) finds nothing afterwards.
    pub(crate) fn layers(&self) -> Result<Arc<Layers>, crate::StoreError> {
        if let Some((until, missing)) = &self.settling {
            return Err(crate::StoreError::Settling { until: until.clone(), missing: *missing });
        }
        self.check()?;
        self.view.content.layers.load_full().ok_or(crate::StoreError::SnapshotTooOld)
    }

    /// An error once it was given up: asked after each batch, before the batch is used.
    pub(crate) fn check(&self) -> Result<(), crate::StoreError> {
        if self.view.is_given_up() { Err(crate::StoreError::SnapshotTooOld) } else { Ok(()) }
    }

    /// A fault of the tree's content.
    pub(crate) fn damaged(&self, text: &str) -> crate::StoreError {
        let folder = self.store.disk().map(|disk| disk.folder().to_owned()).unwrap_or_default();
        crate::StoreError::Damaged { folder, text: text.to_owned() }
    }

    pub(crate) fn store(&self) -> &Arc<crate::Store> {
        &self.store
    }

    /// The sequence number it sees up to.
    #[must_use]
    pub fn sequence(&self) -> u64 {
        self.view.sequence()
    }

    /// The GTIDs it holds exactly; made when first asked for.
    #[must_use]
    pub fn executed(&self) -> &GtidSet {
        let Content { executed, moves, .. } = &self.view.content;
        if let Some(set) = executed.get() {
            return set;
        }
        // Under the lock, so that its moves are not forgotten meanwhile.
        let state = self.store.visibility().lock();
        executed.get_or_init(|| state.executed.at(*moves))
    }

    /// A table of its catalog, made ready for reading; the same for everybody who reads that definition.
    #[must_use]
    pub fn reader(&self, table: &Arc<TableDef>) -> Arc<TableReader> {
        self.store.readers().of(table)
    }

    /// Table definitions at that point.
    #[must_use]
    pub fn catalog(&self) -> &Catalog {
        &self.view.content.catalog
    }
}
