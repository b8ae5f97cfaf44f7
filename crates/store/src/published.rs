//! The newest view of the store, and the older views that are still being read.
//!
//! In: the next view, from the holder of the writers' mutex. Out: the newest view, and the oldest sequence number that
//! any reader can still see. Never here: reader registration; a reader's reference is its pin.
//!
//! Invariants (`tests/interleavings`): a loaded view that was not given up keeps every version it can see; the oldest
//! number needed is never above that of such a view, may lag, and never decreases.
//!
//! Loading takes the view and its pin in one step. Reading a number first and pinning it afterwards is a race: in
//! between the publisher advances and a lane unlinks the version. References to a view are counted only after the swap
//! has returned, so no new reader can acquire an unreferenced view.

use std::collections::VecDeque;

use crate::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use crate::sync::{Arc, SwappedArc};

/// State of the store up to a sequence number.
pub(crate) struct View<T> {
    sequence: u64,
    given_up: AtomicBool,
    pub content: T,
}

impl<T> View<T> {
    pub(crate) fn new(sequence: u64, content: T) -> View<T> {
        View { sequence, given_up: AtomicBool::new(false), content }
    }

    pub(crate) fn sequence(&self) -> u64 {
        self.sequence
    }

    /// True if versions that it sees may have been dropped. Readers check after each batch, before they use it.
    pub(crate) fn is_given_up(&self) -> bool {
        self.given_up.load(Ordering::Acquire)
    }

    /// Marks the view. The oldest number needed is raised afterwards ([`Published::raise`]), never before.
    pub(crate) fn give_up(&self) {
        self.given_up.store(true, Ordering::Release);
    }
}

/// Views that were in use when they were replaced, oldest first. Protected by the writers' mutex.
pub(crate) struct Replaced<T> {
    views: VecDeque<Arc<View<T>>>,
    /// Length at which views in the middle are checked too. It doubles with the number of views, so that the cost per
    /// move does not depend on how many are held.
    sweep_at: usize,
}

const SWEEP_AT_MIN: usize = 16;

impl<T> Default for Replaced<T> {
    fn default() -> Replaced<T> {
        Replaced { views: VecDeque::new(), sweep_at: SWEEP_AT_MIN }
    }
}

impl<T> Replaced<T> {
    pub(crate) fn iter(&self) -> impl Iterator<Item = &Arc<View<T>>> {
        self.views.iter()
    }

    pub(crate) fn oldest(&self) -> Option<&Arc<View<T>>> {
        self.views.front()
    }

    pub(crate) fn newest(&self) -> Option<&Arc<View<T>>> {
        self.views.back()
    }

    pub(crate) fn pop_oldest(&mut self) -> Option<Arc<View<T>>> {
        self.views.pop_front()
    }

    /// Moves every view that is no longer in use to `gone`, wherever it is in the list.
    pub(crate) fn sweep(&mut self, gone: &mut Vec<Arc<View<T>>>) {
        for _ in 0..self.views.len() {
            let Some(mut view) = self.views.pop_front() else { break };
            if is_held(&mut view) {
                self.views.push_back(view);
            } else {
                gone.push(view);
            }
        }
        self.sweep_at = SWEEP_AT_MIN.max(2 * self.views.len());
    }
}

/// Whether a view that can no longer be loaded is still in use.
fn is_held<T>(view: &mut Arc<View<T>>) -> bool {
    Arc::get_mut(view).is_none()
}

/// The newest view, and the oldest number needed by any view.
pub(crate) struct Published<T> {
    newest: SwappedArc<View<T>>,
    oldest_needed: AtomicU64,
}

impl<T> Published<T> {
    pub(crate) fn new(first: View<T>) -> Published<T> {
        let oldest_needed = AtomicU64::new(first.sequence);
        Published { newest: SwappedArc::new(Arc::new(first)), oldest_needed }
    }

    /// Pins and returns the newest view.
    pub(crate) fn load(&self) -> Arc<View<T>> {
        self.newest.load()
    }

    /// GC horizon: of the versions at or below it, readers need only the newest. A lower bound.
    pub(crate) fn oldest_needed(&self) -> u64 {
        self.oldest_needed.load(Ordering::Acquire)
    }

    /// Makes `next` the newest view. The caller holds the writers' mutex and no view of its own. Views no longer in use
    /// are moved to `gone`.
    pub(crate) fn publish(&self, next: View<T>, replaced: &mut Replaced<T>, gone: &mut Vec<Arc<View<T>>>) {
        let sequence = next.sequence;
        let mut old = self.newest.swap(Arc::new(next));
        debug_assert!(sequence >= old.sequence, "the watermark may not go back");
        if is_held(&mut old) {
            replaced.views.push_back(old);
            if replaced.views.len() >= replaced.sweep_at {
                replaced.sweep(gone);
            }
        } else {
            gone.push(old);
        }
        while let Some(front) = replaced.views.front_mut()
            && !is_held(front)
        {
            gone.extend(replaced.views.pop_front());
        }
        self.raise(sequence, replaced);
    }

    /// Raises the oldest number needed to that of the oldest remaining view; `newest` is the sequence number of the
    /// newest one.
    pub(crate) fn raise(&self, newest: u64, replaced: &Replaced<T>) {
        let oldest = replaced.views.front().map_or(newest, |view| view.sequence);
        self.oldest_needed.store(oldest, Ordering::Release);
    }
}
