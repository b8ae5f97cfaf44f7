//! A sequenced piece while the workers apply it.
//!
//! In: the piece, the layers that take its rows, each worker's progress. Out: completion, told to the publisher by
//! the last worker. Invariants: a piece is published only if as many ops were carried out as decode counted, and ends
//! once (invariant 29). Never here: rows.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};

use base::Countdown;
use decode::{SequencedPiece, SpareBuffers};
use observe::Page;
use store::{Layers, PinnedLayers};

use crate::copy_track::CopyTrack;
use crate::publish::Publisher;

/// A sequenced piece, shared by all workers.
pub struct InFlight {
    pub(crate) piece: SequencedPiece,
    pub(crate) index: u64,
    /// Number of workers that have not finished it.
    pub(crate) remaining: Countdown,
    /// Number of workers that reached the barrier, and whether the barrier's ops are applied.
    pub(crate) barrier: Option<(Mutex<(usize, bool)>, Condvar)>,
    pub(crate) workers: usize,
    /// Layers of the store when the piece was sequenced; their active generation takes its rows.
    pub(crate) layers: PinnedLayers,
    /// True if the initial copy was taken without a lock and this piece begins before its rows are exact.
    pub(crate) not_yet_consistent: bool,
    /// Set for changes of a copied table: a fault fails the copy, and no event is counted.
    pub(crate) copied: Option<Arc<CopyTrack>>,
    /// Ledger page that counts its events.
    pub(crate) page: Page,
    /// Ops carried out or refused; each worker adds its own when it finishes the piece.
    pub(crate) carried_out: AtomicU64,
    /// True once the publisher was told.
    ended: AtomicBool,
}

impl InFlight {
    /// Wraps a sequenced piece for this many workers. `index` is its place in the publisher's queue.
    #[must_use]
    pub fn new(piece: SequencedPiece, index: u64, workers: usize, layers: PinnedLayers) -> InFlight {
        let barrier = (!piece.decoded.barrier.is_empty()).then(|| (Mutex::new((0, false)), Condvar::new()));
        InFlight {
            piece,
            index,
            remaining: Countdown::new(workers),
            barrier,
            workers,
            layers,
            not_yet_consistent: false,
            copied: None,
            page: Page::default(),
            carried_out: AtomicU64::new(0),
            ended: AtomicBool::new(false),
        }
    }

    /// True if the barrier's ops are applied, or the piece has no barrier.
    #[must_use]
    pub fn is_passed(&self) -> bool {
        let passed =
            |(state, _): &(Mutex<(usize, bool)>, Condvar)| state.lock().unwrap_or_else(PoisonError::into_inner).1;
        self.barrier.as_ref().is_none_or(passed)
    }

    /// Place in the publisher's queue.
    #[must_use]
    pub fn index(&self) -> u64 {
        self.index
    }

    /// Number of workers that have not finished it.
    #[must_use]
    pub fn open_workers(&self) -> usize {
        self.remaining.open()
    }

    /// Tells the publisher that all workers are done. If ops were lost, replay fails first and the piece never
    /// becomes visible.
    pub(crate) fn complete(&self, publisher: &Publisher) {
        if self.ended.swap(true, Ordering::Relaxed) {
            let what = format!("piece {} ended twice", self.index);
            publisher.fail(self.piece.first, self.piece.decoded.defect(0, &what));
            return;
        }
        let (decoded, carried_out) = (&self.piece.decoded, self.carried_out.load(Ordering::Relaxed));
        if observe::WATCHES && carried_out != decoded.ops {
            self.lose(publisher, carried_out);
        }
        publisher.complete(self.index);
    }

    #[cold]
    fn lose(&self, publisher: &Publisher, carried_out: u64) {
        let decoded = &self.piece.decoded;
        let what = format!("{carried_out} of {} row changes of a piece were carried out", decoded.ops);
        publisher.fail(self.piece.first, decoded.defect(0, &what));
    }

    pub(crate) fn piece(&self) -> &SequencedPiece {
        &self.piece
    }

    pub(crate) fn layers(&self) -> &Layers {
        &self.layers
    }

    /// Returns the buffers for reuse by a decoder, and frees the piece's memory.
    #[must_use]
    pub fn into_spare(self) -> SpareBuffers {
        self.piece.decoded.into()
    }
}
