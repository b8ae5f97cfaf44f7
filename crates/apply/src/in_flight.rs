//! A sequenced piece on its way through all workers.
//!
//! In: the piece, the layers its rows go into, what each worker did with it. Out: word to the publisher once nobody has
//! any more to do with it. Invariant: it is published only if as many ops were carried out as decode counted. Never here:
//! rows.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};

use base::Countdown;
use decode::{SequencedPiece, SpareBuffers};
use observe::Page;
use store::{Layers, PinnedLayers};

use crate::copy_track::CopyTrack;
use crate::publish::Publisher;

/// A piece on its way through all workers.
pub struct InFlight {
    pub(crate) piece: SequencedPiece,
    pub(crate) index: u64,
    /// Workers that have not finished it.
    pub(crate) remaining: Countdown,
    /// Workers that reached the barrier, and whether it is passed.
    pub(crate) barrier: Option<(Mutex<(usize, bool)>, Condvar)>,
    pub(crate) workers: usize,
    /// The store as it was when the piece was sequenced: the active generation takes its rows.
    pub(crate) layers: PinnedLayers,
    /// The copy below was taken without a lock, and this piece begins before its end.
    pub(crate) settling: bool,
    /// The piece is of a copied table: its faults end the copy, and nothing of it is counted.
    pub(crate) copied: Option<Arc<CopyTrack>>,
    /// Where its events are counted.
    pub(crate) page: Page,
    /// Ops that workers carried out or refused, told when each finishes the piece.
    pub(crate) carried_out: AtomicU64,
}

impl InFlight {
    /// A sequenced piece with its index in the publisher's queue, for so many workers, and the layers it is applied to.
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
            settling: false,
            copied: None,
            page: Page::default(),
            carried_out: AtomicU64::new(0),
        }
    }

    /// Whether nobody has to wait at its barrier any more; so too when it has none.
    #[must_use]
    pub fn is_passed(&self) -> bool {
        let passed =
            |(state, _): &(Mutex<(usize, bool)>, Condvar)| state.lock().unwrap_or_else(PoisonError::into_inner).1;
        self.barrier.as_ref().is_none_or(passed)
    }

    /// Its index in the publisher's queue.
    #[must_use]
    pub fn index(&self) -> u64 {
        self.index
    }

    /// Workers that have not finished it.
    #[must_use]
    pub fn open_workers(&self) -> usize {
        self.remaining.open()
    }

    /// Hands it to the publisher once nobody has any more to do with it: not visible, should an op of it be lost.
    pub(crate) fn complete(&self, publisher: &Publisher) {
        let (decoded, carried_out) = (&self.piece.decoded, self.carried_out.load(Ordering::Relaxed));
        if carried_out != decoded.ops {
            self.lose(publisher, carried_out);
        }
        publisher.complete(self.index);
    }

    #[cold]
    fn lose(&self, publisher: &Publisher, carried_out: u64) {
        let decoded = &self.piece.decoded;
        let what = format!("of {} row changes of a piece {carried_out} were carried out", decoded.ops);
        publisher.fail(self.piece.first, decoded.defect(0, &what));
    }

    pub(crate) fn piece(&self) -> &SequencedPiece {
        &self.piece
    }

    pub(crate) fn layers(&self) -> &Layers {
        &self.layers
    }

    /// The buffers, for the next piece to be decoded. Frees the piece's memory.
    #[must_use]
    pub fn into_spare(self) -> SpareBuffers {
        self.piece.decoded.into()
    }
}
