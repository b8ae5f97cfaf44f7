//! The watermark and the oldest number anybody needs, for those who do not take the lock of `Visibility`.
//!
//! In: the watermark and the pins, from whoever holds that lock. Out: two numbers. Invariants (`tests/interleavings`): who
//! sees a watermark sees all that was done before it moved there; the oldest number needed is never above a pin, may lag
//! behind, and never goes back.

use std::collections::BTreeMap;

use crate::sync::atomic::{AtomicU64, Ordering};

/// Numbers that are held on to, each as often as it was pinned.
#[derive(Default)]
pub(crate) struct Pins(BTreeMap<u64, usize>);

impl Pins {
    pub(crate) fn pin(&mut self, at: u64) {
        *self.0.entry(at).or_insert(0) += 1;
    }

    pub(crate) fn unpin(&mut self, at: u64) {
        if let Some(count) = self.0.get_mut(&at) {
            *count -= 1;
            if *count == 0 {
                self.0.remove(&at);
            }
        }
    }

    /// The oldest pin, or `now` where that is older: what comes next is pinned there.
    pub(crate) fn oldest(&self, now: u64) -> u64 {
        self.0.keys().next().map_or(now, |pin| now.min(*pin))
    }
}

/// See the module. Changed under the lock that guards the pins only.
pub(crate) struct Marks {
    watermark: AtomicU64,
    oldest_needed: AtomicU64,
}

impl Marks {
    pub(crate) fn new(watermark: u64) -> Marks {
        Marks { watermark: AtomicU64::new(watermark), oldest_needed: AtomicU64::new(watermark) }
    }

    pub(crate) fn watermark(&self) -> u64 {
        self.watermark.load(Ordering::Acquire)
    }

    pub(crate) fn oldest_needed(&self) -> u64 {
        self.oldest_needed.load(Ordering::Acquire)
    }

    /// The watermark moved, what it makes visible is in place.
    pub(crate) fn advance(&self, to: u64, pins: &Pins) {
        self.watermark.store(to, Ordering::Release);
        self.released(to, pins);
    }

    /// Pins may have gone.
    pub(crate) fn released(&self, watermark: u64, pins: &Pins) {
        self.oldest_needed.store(pins.oldest(watermark), Ordering::Release);
    }
}
