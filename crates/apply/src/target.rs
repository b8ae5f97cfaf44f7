//! Where sequenced pieces go.
//!
//! In: each piece before and after it is sequenced. Out: what replay starts from, and what a piece is applied to. Never
//! here: rows; the order of pieces.

use std::sync::Arc;

use base::GtidSet;
use decode::{DecodeOptions, DecodedPiece, SequencedPiece, Sequencer};
use observe::Page;
use store::{PinnedLayers, Store};

use crate::cutter::Sealer;

/// See the module. An enum, since there are few and each piece asks it several times.
pub enum Target {
    /// Lanes of a store.
    Lanes(LanesTarget),
}

/// The store's rows, written by workers of both grains.
pub struct LanesTarget {
    store: Arc<Store>,
    /// None: nothing is cut.
    sealer: Option<Sealer>,
    /// What replay must reach before rows are compared with the log, after a copy without a lock.
    settles_at: Option<GtidSet>,
}

impl Target {
    /// Lanes of this store. Without a sealer nothing is cut.
    #[must_use]
    pub fn lanes(store: &Arc<Store>, sealer: Option<Sealer>) -> Target {
        let settles_at = store.settles_at().cloned();
        Target::Lanes(LanesTarget { store: Arc::clone(store), sealer, settles_at })
    }

    /// A sequencer that goes on after what the target holds.
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

    /// Nothing comes just now.
    pub(crate) fn idle(&mut self, sequencer: &Sequencer) {
        if let Some(sealer) = self.sealer() {
            sealer.idle(sequencer);
        }
    }

    /// Whether `before`, or `idle` where nothing comes, would wait.
    pub(crate) fn would_wait(&self, coming: Option<&DecodedPiece>) -> bool {
        let Target::Lanes(lanes) = self;
        lanes.sealer.as_ref().is_some_and(|sealer| sealer.would_wait(coming))
    }

    /// A piece is about to be sequenced. May wait; true if it can have waited.
    pub(crate) fn before(&mut self, coming: &DecodedPiece, sequencer: &Sequencer) -> bool {
        let Some(sealer) = self.sealer() else { return false };
        sealer.before(coming, sequencer);
        true
    }

    /// A piece was handed on.
    pub(crate) fn after(&mut self, index: u64, piece: &SequencedPiece) {
        if let Some(sealer) = self.sealer() {
            sealer.after(index, piece);
        }
    }

    /// As `before`, for changes of a copied table, which come at a boundary only.
    pub(crate) fn before_copied(&mut self, sequencer: &Sequencer) {
        if let Some(sealer) = self.sealer() {
            sealer.before_copied(sequencer);
        }
    }

    /// As `after`; such a piece has no place in the relay log.
    pub(crate) fn after_copied(&mut self, index: u64) {
        if let Some(sealer) = self.sealer() {
            sealer.after_copied(index);
        }
    }

    /// Whether what comes after `executed` may still differ from stored rows: see `settles_at`.
    pub(crate) fn settles_after(&mut self, executed: &GtidSet) -> bool {
        let Target::Lanes(lanes) = self;
        let settling = lanes.settles_at.as_ref().is_some_and(|until| !until.is_subset_of(executed));
        if !settling {
            lanes.settles_at = None;
        }
        settling
    }

    /// Where events of what is handed on now are counted.
    pub(crate) fn page(&self) -> Page {
        let Target::Lanes(lanes) = self;
        lanes.sealer.as_ref().map(Sealer::page).unwrap_or_default()
    }

    /// What a piece that is handed on now is applied to.
    pub(crate) fn pin(&self) -> PinnedLayers {
        PinnedLayers::pin(self.store())
    }
}
