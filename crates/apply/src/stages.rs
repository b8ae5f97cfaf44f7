//! The pipeline's stages as structs that are stepped: what [`Pipeline`](crate::Pipeline) gives threads and queues, and
//! what the simulation (`tests/simulation`) steps in one thread.
//!
//! In: relay log items, pieces. Out: pieces on their way to the workers. Never here: threads, queues, waiting but for
//! the cutter ([`SequenceStage::would_wait`] tells).

use std::sync::Arc;

use base::LogPosition;
use observe::Ledger;
use observe::fail_point::{self, Phase};
use relay_log::{RelayError, TailItem};
use schedule::{DecodedPiece, Piece, Sequencer, SharedCatalog, Splitter, Stop, StopClass};
use store::{PinnedLayers, Store};

pub use crate::cutter::{CutState, Cutter, CutterStep, Sealer, class_of, pair};
pub use crate::ending::Ending;
pub use crate::publish::Publisher;
pub use crate::worker::{InFlight, Worker};

/// From relay log items to pieces, and how far that came.
pub struct SplitStage {
    splitter: Splitter,
    /// End of what was split.
    position: LogPosition,
}

impl SplitStage {
    /// Nothing is split yet.
    #[must_use]
    pub fn new(splitter: Splitter) -> SplitStage {
        SplitStage { splitter, position: LogPosition { file: Arc::from(""), offset: 0 } }
    }

    /// Splits one item; `emit` says whether pieces are still wanted.
    ///
    /// # Errors
    /// When the bytes are none that a source writes.
    pub fn step(&mut self, item: TailItem, emit: &mut dyn FnMut(Piece) -> bool) -> Result<(), Box<Stop>> {
        match item {
            TailItem::Chunk(chunk) => {
                let end = chunk.offset + chunk.data.len() as u64;
                let done =
                    self.splitter.step(&chunk.file, chunk.offset, &chunk.data, chunk.hot, &mut |piece| emit(piece));
                self.position = LogPosition { file: chunk.file, offset: end };
                done
            }
            TailItem::EndOfFile { .. } => self.splitter.end_of_file(),
            TailItem::Idle | TailItem::Closed => Ok(()),
        }
    }

    /// End of what was split.
    #[must_use]
    pub fn position(&self) -> &LogPosition {
        &self.position
    }

    /// What a fault of the relay log means for replay.
    #[must_use]
    pub fn stop_of(&self, error: &RelayError) -> Stop {
        let class = match error {
            RelayError::Corrupt { .. }
            | RelayError::Missing { .. }
            | RelayError::Index { .. }
            | RelayError::Boundary(_) => StopClass::Corrupt,
            _ => StopClass::Io,
        };
        Stop { class, position: self.position.clone(), gtid: None, reason: error.to_string() }
    }
}

/// From decoded pieces to pieces on their way: order, generations, the publisher's queue.
pub struct SequenceStage {
    sequencer: Sequencer,
    shared: Arc<SharedCatalog>,
    store: Arc<Store>,
    publisher: Arc<Publisher>,
    ledger: Arc<Ledger>,
    workers: usize,
    sealer: Option<Sealer>,
}

impl SequenceStage {
    /// For so many workers. Without a sealer nothing is cut.
    #[must_use]
    pub fn new(
        sequencer: Sequencer,
        shared: &Arc<SharedCatalog>,
        publisher: &Arc<Publisher>,
        store: &Arc<Store>,
        ledger: &Arc<Ledger>,
        workers: usize,
        sealer: Option<Sealer>,
    ) -> SequenceStage {
        SequenceStage {
            sequencer,
            shared: Arc::clone(shared),
            store: Arc::clone(store),
            publisher: Arc::clone(publisher),
            ledger: Arc::clone(ledger),
            workers,
            sealer,
        }
    }

    /// Takes a decoded piece, in any order.
    pub fn take(&mut self, piece: DecodedPiece) {
        self.sequencer.take(piece);
    }

    /// Nothing comes just now.
    pub fn idle(&mut self) {
        if let Some(sealer) = &mut self.sealer {
            sealer.idle(&self.sequencer);
        }
    }

    /// Whether `next`, or `idle` where nothing comes, would wait for the cutter.
    #[must_use]
    pub fn would_wait(&self) -> bool {
        self.sealer.as_ref().is_some_and(|sealer| sealer.would_wait(self.sequencer.coming()))
    }

    /// Sequences the piece that comes next and puts it into the publisher's queue, for every worker to take. None when
    /// it was not taken yet, or when `ended` says so behind a wait.
    pub fn next(&mut self, ended: impl FnOnce() -> bool) -> Option<Arc<InFlight>> {
        let coming = self.sequencer.coming()?;
        if let Some(sealer) = &mut self.sealer {
            sealer.before(coming, &self.sequencer);
            if ended() {
                return None;
            }
        }
        let mut sequenced = self.sequencer.next(&self.shared)?;
        self.ledger.merge(&mut sequenced.decoded.ledger);
        if !sequenced.catalogs.is_empty() {
            fail_point::enter(Phase::Ddl);
        }
        let index = self.publisher.enqueue(&sequenced);
        if let Some(sealer) = &mut self.sealer {
            sealer.after(index, &sequenced);
        }
        let layers = PinnedLayers::pin(&self.store);
        Some(Arc::new(InFlight::new(sequenced, index, self.workers, layers)))
    }
}
