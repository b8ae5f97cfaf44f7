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
use base::{GtidSet, SequenceNumber};
use catalog::{Catalog, TableDef, TableId};

use crate::executed::{Executed, NewGtids};
use crate::gtid_waiters::{Action, GtidWaiters};
use crate::index_state::IndexStates;
use crate::layers::{Generation, Layer, Layers, Spill, TreeAt};
use crate::published::{Published, Replaced, View};
use crate::reader::TableReader;

/// Intervals of a waiter's set that are compared with the newest set while the publisher waits.
const FEW_INTERVALS: usize = 64;

/// State of the store at the watermark.
#[derive(Clone)]
pub struct WatermarkState {
    /// Highest visible sequence number.
    pub sequence: SequenceNumber,
    /// GTIDs of all visible transactions.
    pub executed: GtidSet,
    /// Table definitions at the watermark.
    pub catalog: Catalog,
}

/// Contents of a view besides its sequence number.
struct Content {
    catalog: Catalog,
    /// None once the view was given up: layers that only this view held are freed at once, even if the view is still
    /// held.
    layers: ArcSwapOption<Layers>,
    /// Number of the watermark move that led here, which determines the executed GTIDs.
    moves: u64,
    /// Computed on first request.
    executed: OnceLock<GtidSet>,
    /// Time at which a newer view replaced it, if it was in use then.
    replaced_at: OnceLock<Instant>,
}

/// State changed by writers, one at a time. Readers never lock it to pin or read a view.
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
    /// Views no longer in use. Their layers may be the last reference to gigabytes, so a thread with time to spare
    /// frees them.
    gone: Vec<Arc<View<Content>>>,
    waiters: GtidWaiters,
}

/// Limits on what snapshots may keep alive.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SnapshotLimits {
    /// Bytes of generations that are already in the tree and stay in memory only for snapshots. Above this limit, the
    /// oldest snapshots are given up.
    pub bytes: u64,
    /// Snapshots of a state that was replaced longer ago than this are given up, at the end of a cut and once a second.
    /// None: no limit on age.
    pub age: Option<Duration>,
}

impl Default for SnapshotLimits {
    fn default() -> SnapshotLimits {
        SnapshotLimits { bytes: u64::MAX, age: None }
    }
}

/// The watermark, the newest view and the views still in use.
pub struct Visibility {
    published: Published<Content>,
    state: Mutex<State>,
    held_bytes: AtomicU64,
}

/// A snapshot's layers, for one step of a reader. It is short: while many are lent, lending counts references after all.
pub(crate) struct LentLayers(arc_swap::Guard<Option<Arc<Layers>>>);

impl LentLayers {
    fn of(guard: arc_swap::Guard<Option<Arc<Layers>>>) -> Result<LentLayers, crate::StoreError> {
        if guard.is_none() {
            return Err(crate::StoreError::SnapshotTooOld);
        }
        Ok(LentLayers(guard))
    }
}

impl std::ops::Deref for LentLayers {
    type Target = Layers;
    fn deref(&self) -> &Layers {
        match &*self.0 {
            Some(layers) => layers,
            None => unreachable!("checked when they were lent"),
        }
    }
}

/// A wait for GTIDs to become visible.
#[derive(Debug)]
pub struct ExecutedWait(u64);

/// A reader's view. Nothing it can see is dropped while it lives, unless it is given up to stay within
/// [`SnapshotLimits`]; reading it then fails.
pub struct Snapshot {
    view: Arc<View<Content>>,
    store: Arc<crate::Store>,
    /// Set if its rows are not exact ([`crate::StoreError::NotYetConsistent`]).
    not_yet_consistent: Option<(String, u64)>,
}

/// The store's layers, pinned for a piece on its way through the workers. While it lives, the tree can be read as of
/// then.
#[derive(Clone)]
pub struct PinnedLayers(Arc<Layers>);

impl PinnedLayers {
    /// Pins the current layers.
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
            waiters: GtidWaiters::default(),
        };
        Visibility { published: Published::new(state.view()), state: Mutex::new(state), held_bytes: AtomicU64::new(0) }
    }

    /// Bytes of generations that are already in the tree and stay in memory only for snapshots, as of the last cut or
    /// second.
    #[must_use]
    pub fn held_bytes(&self) -> u64 {
        self.held_bytes.load(Ordering::Relaxed)
    }

    /// Sets the limits above which snapshots are given up.
    pub fn limit_snapshots(&self, limits: SnapshotLimits) {
        self.lock().limits = limits;
    }

    #[must_use]
    pub fn layers(&self) -> Arc<Layers> {
        loop {
            // None: the view was replaced and given up between the two loads.
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

    /// Replaces the generation `number` by its spill.
    pub(crate) fn put_spill(&self, number: u64, spill: Spill) {
        let spill = Layer::Spill(Arc::new(spill));
        self.change_layers(false, |old| {
            debug_assert!(
                generations(old).any(|generation| generation.number() == number),
                "spilled a generation \
                that is gone"
            );
            let replace = |layer: &Layer| match layer {
                Layer::Memory(generation) if generation.number() == number => spill.clone(),
                other => other.clone(),
            };
            Layers { below: old.below.iter().map(replace).collect(), ..old.parts() }
        });
    }

    /// Removes the generation `number` and all layers below it: they are in the tree, which is read as `tree` from now
    /// on.
    pub(crate) fn put_base(&self, number: u64, tree: TreeAt, indexes: Arc<IndexStates>) {
        self.change_layers(true, |old| {
            let kept = old.below.iter().take_while(|layer| match layer {
                Layer::Memory(generation) => generation.number() != number,
                Layer::Spill(_) => true,
            });
            Layers { below: kept.cloned().collect(), base: Some(tree), indexes, ..old.parts() }
        });
    }

    /// Replaces the view of the tree. The tree holds the same rows; `filled` gives its index states if a fill added
    /// entries.
    pub(crate) fn move_base(&self, tree: TreeAt, filled: Option<Arc<IndexStates>>) {
        self.change_layers(false, |old| {
            assert!(old.base.is_some(), "a store in memory has no tree to move");
            let indexes = filled.unwrap_or_else(|| Arc::clone(&old.indexes));
            Layers { base: Some(tree), indexes, ..old.parts() }
        });
    }

    /// Replaces the index states over the same tree.
    pub(crate) fn set_indexes(&self, indexes: Arc<IndexStates>) {
        self.change_layers(false, |old| Layers { indexes, ..old.parts() });
    }

    /// Publishes other layers at the same watermark. `limit`: old views may now exceed the limits.
    fn change_layers(&self, limit: bool, next: impl FnOnce(&Layers) -> Layers) {
        let mut state = self.lock();
        let layers = Arc::new(next(&state.layers));
        let old = std::mem::replace(&mut state.layers, layers);
        self.publish(&mut state);
        let given_up = if limit { self.give_up(&mut state) } else { Vec::new() };
        let gone = std::mem::take(&mut state.gone);
        drop(state);
        // These may be gigabytes, so they are freed without the lock.
        drop((gone, given_up, old));
    }

    /// The caller holds the writers' mutex.
    fn publish(&self, state: &mut State) {
        self.published.publish(state.view(), &mut state.replaced, &mut state.gone);
        if let Some(newest) = state.replaced.newest() {
            newest.content.replaced_at.get_or_init(Instant::now);
        }
    }

    /// Frees views no longer in use, and gives up snapshots above the limits. Call it about once a second, from a
    /// thread that no other thread waits for.
    pub fn tidy(&self) {
        self.tidy_with(false);
    }

    /// As [`tidy`](Self::tidy) while disk space is short: gives up the older half of the snapshots of an older tree
    /// too, since they keep files that were merged away.
    pub(crate) fn tidy_for_space(&self) {
        self.tidy_with(true);
    }

    fn tidy_with(&self, is_short_of_space: bool) {
        let mut state = self.lock();
        let State { replaced, gone, .. } = &mut *state;
        replaced.sweep(gone);
        let mut given_up = self.give_up(&mut state);
        if is_short_of_space {
            given_up.extend(self.give_up_older_half(&mut state));
        }
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

    /// The visible catalog. It holds no rows, unlike a snapshot.
    #[must_use]
    pub fn catalog(&self) -> Catalog {
        self.published.load().content.catalog.clone()
    }

    /// GC horizon: of the versions at or below it, readers need only the newest. A lower bound.
    #[must_use]
    pub fn oldest_needed(&self) -> u64 {
        self.published.oldest_needed()
    }

    /// Registers the catalog as of transaction `at`, before that transaction becomes visible.
    pub fn announce_catalog(&self, at: SequenceNumber, catalog: Catalog) {
        self.lock().coming.push_back((at, catalog));
    }

    /// Moves the watermark; `add_gtids` adds the GTIDs that become visible with it.
    ///
    /// # Panics
    /// When the watermark would move back: a fault of the publisher that must not reach readers.
    pub fn advance(&self, to: SequenceNumber, add_gtids: impl FnOnce(&mut NewGtids<'_>)) {
        let mut state = self.lock();
        assert!(to.0 >= state.sequence, "the watermark may not go back");
        state.sequence = to.0;
        state.executed.advance(add_gtids);
        let ready = ready(&mut state);
        while state.coming.front().is_some_and(|(at, _)| *at <= to) {
            if let Some((_, catalog)) = state.coming.pop_front() {
                state.catalog = catalog;
            }
        }
        self.publish(&mut state);
        // The publisher has no time to free gigabytes: here it drops only views whose layers are still the current
        // ones, which frees no layers.
        let State { gone, layers, .. } = &mut *state;
        gone.retain(|view| view.content.layers.load().as_ref().is_some_and(|old| !Arc::ptr_eq(old, layers)));
        if let Some(upto) = state.executed.is_full() {
            forget(&mut state, upto);
        }
        drop(state);
        ready.into_iter().for_each(|action| action());
    }

    /// A copy of the visible state.
    #[must_use]
    pub fn current(&self) -> WatermarkState {
        let state = self.lock();
        WatermarkState {
            sequence: SequenceNumber(state.sequence),
            executed: state.executed.now().clone(),
            catalog: state.catalog.clone(),
        }
    }

    /// GTIDs of all visible transactions.
    #[must_use]
    pub fn executed(&self) -> GtidSet {
        self.lock().executed.now().clone()
    }

    /// Runs `action` once all of `set` is visible: now if it is, else in the publisher's thread, which waits for it.
    /// Returns the wait that [`cancel`](Self::cancel) ends.
    pub fn when_executed(&self, set: &GtidSet, action: impl FnOnce() + Send + 'static) -> Option<ExecutedWait> {
        let action = Box::new(action);
        // What is executed stays so: only the rest is waited for. A large set is compared while the publisher goes on.
        let missing_in = |copy: Option<Arc<GtidSet>>| copy.map_or_else(|| set.clone(), |copy| set.subtract(&copy));
        let copy = self.lock().executed.copy();
        let mut missing = missing_in(copy);
        if missing.intervals().nth(FEW_INTERVALS).is_some() {
            let newer = self.lock().executed.newer_copy();
            if newer.is_some() {
                missing = missing_in(newer);
            }
        }
        let mut state = self.lock();
        let State { waiters, executed, .. } = &mut *state;
        match waiters.add(missing, executed.now(), action) {
            Ok(wait) => Some(ExecutedWait(wait)),
            Err(action) => {
                drop(state);
                action();
                None
            }
        }
    }

    /// Ends a wait; false if its action has run or is about to.
    #[must_use]
    pub fn cancel(&self, wait: ExecutedWait) -> bool {
        self.lock().waiters.cancel(wait.0)
    }

    /// Waits until all of `set` is visible; false if `deadline` passes first.
    #[must_use]
    pub fn wait_executed(&self, set: &GtidSet, deadline: Instant) -> bool {
        let (tell, told) = std::sync::mpsc::sync_channel(1);
        let wait = self.when_executed(set, move || tell.send(()).unwrap_or_default());
        let left = deadline.saturating_duration_since(Instant::now());
        told.recv_timeout(left).is_ok() || !wait.is_some_and(|wait| self.cancel(wait))
    }

    /// Gives up the oldest views while the limits are exceeded, and returns their layers, to be freed without the lock.
    fn give_up(&self, state: &mut State) -> Vec<Arc<Layers>> {
        let mut freed = Vec::new();
        let mut bytes = bytes_held(&state.replaced, &state.layers);
        while let Some(oldest) = state.replaced.oldest() {
            let since = oldest.content.replaced_at.get();
            let is_old = state.limits.age.zip(since).is_some_and(|(age, since)| since.elapsed() > age);
            if !is_old && bytes <= state.limits.bytes {
                break;
            }
            freed.extend(give_up_oldest(state));
            bytes = bytes_held(&state.replaced, &state.layers);
        }
        self.held_bytes.store(bytes, Ordering::Relaxed);
        self.published.raise(state.sequence, &state.replaced);
        freed
    }

    /// Gives up the older half, rounded up, of the views of an older tree, and returns their layers.
    fn give_up_older_half(&self, state: &mut State) -> Vec<Arc<Layers>> {
        let newest = state.layers.base.as_ref().map(|base| Arc::clone(&base.view));
        let is_of_older_tree = |view: &Arc<View<Content>>| {
            let layers = view.content.layers.load();
            let base = layers.as_ref().and_then(|layers| layers.base.as_ref());
            base.zip(newest.as_ref()).is_some_and(|(base, newest)| !Arc::ptr_eq(&base.view, newest))
        };
        let count = state.replaced.iter().take_while(|view| is_of_older_tree(view)).count();
        let freed = (0..count.div_ceil(2)).filter_map(|_| give_up_oldest(state)).collect();
        self.published.raise(state.sequence, &state.replaced);
        freed
    }
}

/// Gives up the oldest view and returns its layers. The caller raises the oldest number needed afterwards.
fn give_up_oldest(state: &mut State) -> Option<Arc<Layers>> {
    let oldest = state.replaced.pop_oldest()?;
    // The view's holder may still ask for its GTID set.
    oldest.content.executed.get_or_init(|| state.executed.at(oldest.content.moves));
    // Marked first: a reader that misses a dropped version also sees the mark.
    oldest.give_up();
    let layers = oldest.content.layers.swap(None);
    state.gone.push(oldest);
    layers
}

/// What waited for the newest move.
fn ready(state: &mut State) -> Vec<Action> {
    let mut ready = Vec::new();
    if !state.waiters.is_empty() {
        let State { waiters, executed, .. } = state;
        for (first, last) in executed.newest() {
            waiters.take_ready(first, last, executed.now(), &mut ready);
        }
    }
    ready
}

/// Forgets the GTIDs of moves up to `upto`; older views in use get their sets first.
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
    /// Pins the visible state. If the store is not readable yet ([`crate::Store::readable`]), reading the snapshot
    /// returns that error.
    #[must_use]
    pub fn pin(store: &Arc<crate::Store>) -> Snapshot {
        // Checked before pinning: rows that are exact now are exact at any later watermark.
        let not_yet_consistent = match store.readable() {
            Err(crate::StoreError::NotYetConsistent { until, missing }) => Some((until, missing)),
            _ => None,
        };
        Snapshot { view: store.visibility().published.load(), store: Arc::clone(store), not_yet_consistent }
    }

    /// The layers it reads. Do not hold on to them: the snapshot may be given up to free them. Rows read through them
    /// are valid only if a later [`check`](Self::check) succeeds.
    pub(crate) fn layers(&self) -> Result<Arc<Layers>, crate::StoreError> {
        self.check_readable()?;
        self.view.content.layers.load_full().ok_or(crate::StoreError::SnapshotTooOld)
    }

    /// As `layers`, for one step: cheaper, because it counts no reference.
    pub(crate) fn lent_layers(&self) -> Result<LentLayers, crate::StoreError> {
        self.check_readable()?;
        LentLayers::of(self.view.content.layers.load())
    }

    /// Fails if its rows are not exact, or it was given up.
    #[inline]
    fn check_readable(&self) -> Result<(), crate::StoreError> {
        if let Some((until, missing)) = &self.not_yet_consistent {
            return Err(crate::StoreError::NotYetConsistent { until: until.clone(), missing: *missing });
        }
        self.check()
    }

    /// Fails once the snapshot was given up. Call it after each batch, before the batch is used.
    pub(crate) fn check(&self) -> Result<(), crate::StoreError> {
        if self.view.is_given_up() { Err(crate::StoreError::SnapshotTooOld) } else { Ok(()) }
    }

    /// Error for damaged content of the tree.
    pub(crate) fn damaged(&self, text: &str) -> crate::StoreError {
        let folder = self.store.disk().map(|disk| disk.folder().to_owned()).unwrap_or_default();
        crate::StoreError::Damaged { folder, text: text.to_owned() }
    }

    pub(crate) fn store(&self) -> &Arc<crate::Store> {
        &self.store
    }

    /// Highest sequence number that it sees.
    #[must_use]
    pub fn sequence(&self) -> u64 {
        self.view.sequence()
    }

    /// Its exact GTID set, computed on first request.
    #[must_use]
    pub fn executed(&self) -> &GtidSet {
        let Content { executed, moves, .. } = &self.view.content;
        if let Some(set) = executed.get() {
            return set;
        }
        // Under the lock, so that the moves are not forgotten in the meantime.
        let state = self.store.visibility().lock();
        executed.get_or_init(|| state.executed.at(*moves))
    }

    /// A table of its catalog, prepared for reading; shared by all readers of that definition.
    #[must_use]
    pub fn reader(&self, table: &Arc<TableDef>) -> Arc<TableReader> {
        self.store.readers().of(table)
    }

    /// About how many rows a table has now; 0 if nothing can be read.
    #[must_use]
    pub fn estimated_rows(&self, table: TableId) -> u64 {
        self.layers().map_or(0, |layers| self.store.rows_of(&layers, table))
    }

    /// Table definitions of this snapshot.
    #[must_use]
    pub fn catalog(&self) -> &Catalog {
        &self.view.content.catalog
    }
}
