//! The watermark that the publisher moves, and what else may be asked of it.
//!
//! In: the last transaction that is visible, with its GTIDs. Out: what is executed, and a wait for it. Never here: who may
//! move it when: that is the publisher's.

use std::sync::Arc;
use std::time::Instant;

use base::{GtidSet, SequenceNumber};
use catalog::Catalog;
use store::{NewGtids, Store};

/// See the module. Clones are the same.
#[derive(Clone)]
pub struct Watermark(Arc<Store>);

impl Watermark {
    /// That of a store's rows.
    #[must_use]
    pub fn of(store: &Arc<Store>) -> Watermark {
        Watermark(Arc::clone(store))
    }

    /// A statement's catalog counts from this transaction on; told before the transaction is visible.
    pub(crate) fn announce_catalog(&self, at: SequenceNumber, catalog: Catalog) {
        self.0.visibility().announce_catalog(at, catalog);
    }

    /// Everything up to `to` is visible; `add_gtids` adds what that is to the executed set.
    pub(crate) fn advance(&self, to: SequenceNumber, add_gtids: impl FnOnce(&mut NewGtids<'_>)) {
        self.0.visibility().advance(to, add_gtids);
    }

    /// The GTIDs of everything visible.
    #[must_use]
    pub fn executed(&self) -> GtidSet {
        self.0.visibility().executed()
    }

    /// Waits until all of `set` is visible; false when that is not so at `deadline`.
    #[must_use]
    pub fn wait_for(&self, set: &GtidSet, deadline: Instant) -> bool {
        let timeout = deadline.saturating_duration_since(Instant::now());
        self.0.visibility().wait_executed(timeout, |executed| set.is_subset_of(executed))
    }
}
