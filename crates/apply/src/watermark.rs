//! The watermark: what the publisher moves and others query.
//!
//! In: the last visible transaction, with the GTIDs up to it. Out: the executed GTID set, and a wait for one. Never
//! here: the decision to move it, which is the publisher's.

use std::sync::Arc;
use std::time::Instant;

use base::{GtidSet, SequenceNumber};
use catalog::{Catalog, TableId};
use store::{ExecutedWait, NewGtids, Store};

/// Handle to a store's watermark; clones share it.
#[derive(Clone)]
pub struct Watermark(Arc<Store>);

impl Watermark {
    /// Returns the watermark of a store.
    #[must_use]
    pub fn of(store: &Arc<Store>) -> Watermark {
        Watermark(Arc::clone(store))
    }

    /// Returns the number of the newest visible transaction.
    pub(crate) fn sequence(&self) -> SequenceNumber {
        self.0.visibility().watermark()
    }

    /// Announces the catalog that is valid from this transaction on. Must be called before the transaction is
    /// visible.
    pub(crate) fn announce_catalog(&self, at: SequenceNumber, catalog: Catalog) {
        self.0.visibility().announce_catalog(at, catalog);
    }

    /// Tells which tables transactions up to this number change. Must be called before they are visible.
    pub(crate) fn note_changes(&self, tables: impl Iterator<Item = TableId>, last: SequenceNumber) {
        self.0.changes().note(tables, last.0);
    }

    /// Makes everything up to `to` visible; `add_gtids` adds the GTIDs of that step to the executed set.
    pub(crate) fn advance(&self, to: SequenceNumber, add_gtids: impl FnOnce(&mut NewGtids<'_>)) {
        self.0.visibility().advance(to, add_gtids);
    }

    /// Returns the GTIDs of everything visible.
    #[must_use]
    pub fn executed(&self) -> GtidSet {
        self.0.visibility().executed()
    }

    /// Runs `action` once all of `set` is visible: now if it is, else in the publisher's thread, which waits for it.
    /// Returns the wait that [`cancel`](Self::cancel) ends.
    pub fn when(&self, set: &GtidSet, action: impl FnOnce() + Send + 'static) -> Option<ExecutedWait> {
        self.0.visibility().when_executed(set, action)
    }

    /// Ends a wait; false if its action has run or is about to.
    #[must_use]
    pub fn cancel(&self, wait: ExecutedWait) -> bool {
        self.0.visibility().cancel(wait)
    }

    /// Waits until all of `set` is visible; false if `deadline` passes first.
    #[must_use]
    pub fn wait_for(&self, set: &GtidSet, deadline: Instant) -> bool {
        self.0.visibility().wait_executed(set, deadline)
    }
}
