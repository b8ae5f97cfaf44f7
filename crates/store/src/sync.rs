//! Synchronisation primitives of this crate's lock-free parts. `tests/interleavings` compiles the same files against
//! loom's types, under the same path.

pub(crate) use std::sync::{Arc, atomic};

use arc_swap::ArcSwap;

/// An `Arc` that one thread replaces while others load it; neither waits for the other.
pub(crate) struct SwappedArc<T>(ArcSwap<T>);

impl<T> SwappedArc<T> {
    pub(crate) fn new(first: Arc<T>) -> SwappedArc<T> {
        SwappedArc(ArcSwap::new(first))
    }

    pub(crate) fn load(&self) -> Arc<T> {
        self.0.load_full()
    }

    /// Returns the old value. It can no longer be loaded, so its reference count is that of its holders.
    pub(crate) fn swap(&self, next: Arc<T>) -> Arc<T> {
        self.0.swap(next)
    }
}
