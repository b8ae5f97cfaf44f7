//! The watermark, and snapshots pinned at it.
//!
//! In: "everything up to here is applied" from the publisher. Out: snapshots, and the oldest sequence number anyone
//! can still look at. Invariant: the watermark only grows; a pinned snapshot's versions stay until it is dropped.

use std::collections::{BTreeMap, VecDeque};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use base::{GtidSet, SequenceNumber};
use catalog::Catalog;

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
    pins: BTreeMap<u64, usize>,
}

/// See the module.
pub struct Visibility {
    state: Mutex<State>,
    moved: Condvar,
    watermark: AtomicU64,
    oldest_needed: AtomicU64,
}

/// A reader's view. While it lives, nothing it can see is dropped.
pub struct Snapshot {
    state: WatermarkState,
    store: Arc<crate::Store>,
}

impl Visibility {
    pub(crate) fn new(catalog: Catalog) -> Visibility {
        let watermark = WatermarkState { sequence: SequenceNumber::ZERO, executed: GtidSet::new(), catalog };
        Visibility {
            state: Mutex::new(State { watermark, coming: VecDeque::new(), pins: BTreeMap::new() }),
            moved: Condvar::new(),
            watermark: AtomicU64::new(0),
            oldest_needed: AtomicU64::new(0),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Highest visible sequence number.
    #[must_use]
    pub fn watermark(&self) -> SequenceNumber {
        SequenceNumber(self.watermark.load(Ordering::Acquire))
    }

    /// Versions older than the newest one at or below this are seen by nobody. May lag behind the truth, never ahead.
    #[must_use]
    pub fn oldest_needed(&self) -> u64 {
        self.oldest_needed.load(Ordering::Acquire)
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
        self.watermark.store(to.0, Ordering::Release);
        self.oldest_needed.store(oldest(&state), Ordering::Release);
        drop(state);
        self.moved.notify_all();
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
            state = self.moved.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

fn oldest(state: &State) -> u64 {
    let mark = state.watermark.sequence.0;
    state.pins.keys().next().map_or(mark, |pin| mark.min(*pin))
}

impl Snapshot {
    /// Pins the watermark as it is.
    #[must_use]
    pub fn pin(store: &Arc<crate::Store>) -> Snapshot {
        let visibility = store.visibility();
        let mut state = visibility.lock();
        let watermark = state.watermark.clone();
        *state.pins.entry(watermark.sequence.0).or_insert(0) += 1;
        visibility.oldest_needed.store(oldest(&state), Ordering::Release);
        drop(state);
        Snapshot { state: watermark, store: Arc::clone(store) }
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
        let at = self.state.sequence.0;
        if let Some(count) = state.pins.get_mut(&at) {
            *count -= 1;
            if *count == 0 {
                state.pins.remove(&at);
            }
        }
        visibility.oldest_needed.store(oldest(&state), Ordering::Release);
    }
}
