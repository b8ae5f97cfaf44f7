//! The target of replay: where sequenced pieces go.
//!
//! In: each piece, before and after it is sequenced. Out: the state that replay starts from, and the layers that a
//! piece is applied to. Never here: rows; the order of pieces.

use std::sync::Arc;

use base::GtidSet;
use decode::{DecodeOptions, DecodedPiece, SequencedPiece, Sequencer};
use observe::Page;
use store::{PinnedLayers, Store};

use crate::cutter::Sealer;

/// The target of replay. An enum rather than a trait object, because each piece asks it several times.
pub enum Target {
    /// Lanes of a store.
    Lanes(LanesTarget),
}

/// A store's rows, written by the workers of either grain.
pub struct LanesTarget {
    store: Arc<Store>,
    /// None if nothing is cut.
    sealer: Option<Sealer>,
    /// After a copy without a lock: the GTID set that replay must reach before stored rows are compared with the log.
    consistent_at: Option<GtidSet>,
}

impl Target {
    /// Creates a target over this store. Without a sealer nothing is cut.
    #[must_use]
    pub fn lanes(store: &Arc<Store>, sealer: Option<Sealer>) -> Target {
        let consistent_at = store.consistent_at().cloned();
        Target::Lanes(LanesTarget { store: Arc::clone(store), sealer, consistent_at })
    }

    /// Creates a sequencer that continues after the state of the store.
    #[must_use]
    pub fn sequencer(&self, options: DecodeOptions) -> Sequencer {
        let Target::Lanes(lanes) = self;
        let start = lanes.store.visibility().current();
        let sequencer = Sequencer::new(options, start.catalog, start.executed, start.sequence);
        sequencer.with_prepared(lanes.store.recovered_prepared())
    }

    pub(crate) fn store(&self) -> &Arc<Store> {
        let Target::Lanes(lanes) = self;
        &lanes.store
    }

    pub(crate) fn sealer(&mut self) -> Option<&mut Sealer> {
        let Target::Lanes(lanes) = self;
        lanes.sealer.as_mut()
    }

    /// Called when no piece is available.
    pub(crate) fn idle(&mut self, sequencer: &Sequencer) {
        if let Some(sealer) = self.sealer() {
            sealer.idle(sequencer);
        }
    }

    /// True if `before`, or `idle` when no piece is available, would wait.
    pub(crate) fn would_wait(&self, coming: Option<&DecodedPiece>) -> bool {
        let Target::Lanes(lanes) = self;
        lanes.sealer.as_ref().is_some_and(|sealer| sealer.would_wait(coming))
    }

    /// Called before a piece is sequenced. May wait; true if it may have waited.
    pub(crate) fn before(&mut self, coming: &DecodedPiece, sequencer: &Sequencer) -> bool {
        let Some(sealer) = self.sealer() else { return false };
        sealer.before(coming, sequencer);
        true
    }

    /// Called after a piece was handed on.
    pub(crate) fn after(&mut self, index: u64, piece: &SequencedPiece) {
        if let Some(sealer) = self.sealer() {
            sealer.after(index, piece);
        }
    }

    /// Like `before`, for changes of a copied table, which come only at a boundary.
    pub(crate) fn before_copied(&mut self, sequencer: &Sequencer) {
        if let Some(sealer) = self.sealer() {
            sealer.before_copied(sequencer);
        }
    }

    /// Like `after`, for a piece of a copied table, which has no position in the relay log.
    pub(crate) fn after_copied(&mut self, index: u64) {
        if let Some(sealer) = self.sealer() {
            sealer.after_copied(index);
        }
    }

    /// True if stored rows may still differ from the log after `executed`: see `consistent_at`.
    pub(crate) fn settles_after(&mut self, executed: &GtidSet) -> bool {
        let Target::Lanes(lanes) = self;
        let not_yet_consistent = lanes.consistent_at.as_ref().is_some_and(|until| !until.is_subset_of(executed));
        if !not_yet_consistent {
            lanes.consistent_at = None;
        }
        not_yet_consistent
    }

    /// Ledger page for pieces handed on now.
    pub(crate) fn page(&self) -> Page {
        let Target::Lanes(lanes) = self;
        lanes.sealer.as_ref().map(Sealer::page).unwrap_or_default()
    }

    /// Pins the layers that a piece handed on now is applied to.
    pub(crate) fn pin(&self) -> PinnedLayers {
        PinnedLayers::pin(self.store())
    }
}
