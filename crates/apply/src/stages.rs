//! The pipeline's stages as structs that are stepped: what [`Pipeline`](crate::Pipeline) gives threads and queues, and
//! what the simulation (`tests/simulation`) steps in one thread.
//!
//! In: relay log items, pieces. Out: pieces on their way to the workers. Never here: threads, queues, waiting but for
//! the cutter ([`SequenceStage::would_wait`] tells).

use std::sync::Arc;

use base::LogPosition;
use catalog::{TableDef, TableId};
use decode::{DecodedPiece, Piece, PieceKind, SequencedPiece, Sequencer, SharedCatalog, Splitter, Stop, StopClass};
use observe::Ledger;
use observe::fail_point::{self, Phase};
use relay_log::{RelayError, TailItem};

use crate::beside::Boundary;
use crate::copy_track::CopyTrack;
pub use crate::cutter::{CutState, Cutter, CutterStep, Sealer, pair};
pub use crate::ending::Ending;
pub use crate::in_flight::InFlight;
pub use crate::publish::Publisher;
use crate::rewrite::{RewriteBoundary, RewriteState};
pub use crate::stop::class_of;
pub use crate::target::{LanesTarget, Target};
pub use crate::watermark::Watermark;
pub use crate::worker::Worker;

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
    target: Target,
    publisher: Arc<Publisher>,
    ledger: Arc<Ledger>,
    workers: usize,
    /// End in the relay log of what was sequenced, at the last transaction boundary.
    end: Option<LogPosition>,
    /// The last piece's transaction goes on.
    unfinished: bool,
    pub(crate) rewrites: Arc<RewriteState>,
    /// A piece whose statement writes rows anew, which must be done first.
    rewriting: Option<(SequencedPiece, RewriteBoundary)>,
    /// Of the piece that was sequenced last.
    settling: bool,
}

impl SequenceStage {
    /// For so many workers of the target.
    #[must_use]
    pub fn new(
        sequencer: Sequencer,
        shared: &Arc<SharedCatalog>,
        publisher: &Arc<Publisher>,
        target: Target,
        ledger: &Arc<Ledger>,
        workers: usize,
    ) -> SequenceStage {
        SequenceStage {
            sequencer,
            shared: Arc::clone(shared),
            target,
            publisher: Arc::clone(publisher),
            ledger: Arc::clone(ledger),
            workers,
            end: None,
            unfinished: false,
            rewrites: Arc::default(),
            rewriting: None,
            settling: false,
        }
    }

    /// Tells its progress with tables that are written anew here.
    pub(crate) fn with_rewrites(mut self, state: &Arc<RewriteState>) -> SequenceStage {
        self.rewrites = Arc::clone(state);
        self
    }

    /// Takes a decoded piece, in any order.
    pub fn take(&mut self, piece: DecodedPiece) {
        self.sequencer.take(piece);
    }

    /// Nothing comes just now.
    pub fn idle(&mut self) {
        self.target.idle(&self.sequencer);
    }

    /// Whether `next`, or `idle` where nothing comes, would wait for the cutter.
    #[must_use]
    pub fn would_wait(&self) -> bool {
        self.target.would_wait(self.sequencer.coming())
    }

    /// Sequences the piece that comes next and puts it into the publisher's queue, for every worker to take. None when
    /// it was not taken yet, or when `ended` says so behind a wait.
    /// Nothing comes while rows are to be written anew ([`SequenceStage::rewrite`]).
    pub fn next(&mut self, ended: impl FnOnce() -> bool) -> Option<Arc<InFlight>> {
        if self.rewriting.is_some() {
            return None;
        }
        let coming = self.sequencer.coming()?;
        if self.target.before(coming, &self.sequencer) && ended() {
            return None;
        }
        self.settling = self.target.settles_after(self.sequencer.executed());
        let sequencer = &self.sequencer;
        let serial = coming.piece.kind == PieceKind::Serial || coming.needs_serial;
        let boundary = serial.then(|| RewriteBoundary {
            sequence: sequencer.last(),
            executed: sequencer.executed().clone(),
            catalog: sequencer.catalog().clone(),
            prepared: Arc::clone(sequencer.prepared()),
        });
        let sequenced = self.sequencer.next(&self.shared)?;
        match boundary {
            Some(boundary) if !sequenced.rewrites.is_empty() => {
                self.rewriting = Some((sequenced, boundary));
                None
            }
            _ => Some(self.hand_on(sequenced)),
        }
    }

    /// Whether a statement's rows are to be written anew before anything else.
    #[must_use]
    pub fn rewrite_waits(&self) -> bool {
        self.rewriting.is_some()
    }

    /// Writes them anew once all lanes have applied what came before; every piece of it goes to `emit`. False when
    /// replay ends here, by `ended` or because they cannot be written.
    pub fn rewrite(&mut self, ended: &dyn Fn() -> bool, emit: &mut dyn FnMut(&Arc<InFlight>)) -> bool {
        match self.rewriting.take() {
            Some((piece, boundary)) => crate::rewrite::carry_out(self, piece, &boundary, ended, emit),
            None => true,
        }
    }

    pub(crate) fn parts(&self) -> (&Target, &Arc<Publisher>, &Sequencer) {
        (&self.target, &self.publisher, &self.sequencer)
    }

    /// Puts tables in quarantine by the piece's statement; false where that is not wanted.
    pub(crate) fn quarantine(&mut self, piece: &mut SequencedPiece, tables: &[(String, String)], why: &str) -> bool {
        self.sequencer.quarantine(piece, tables, why, &self.shared)
    }

    pub(crate) fn sealer(&mut self) -> Option<&mut Sealer> {
        self.target.sealer()
    }

    /// Puts a sequenced piece into the publisher's queue.
    pub(crate) fn hand_on(&mut self, mut sequenced: SequencedPiece) -> Arc<InFlight> {
        let page = self.target.page();
        self.ledger.merge(page, &mut sequenced.decoded.ledger);
        if !sequenced.catalogs.is_empty() {
            fail_point::enter(Phase::Ddl);
        }
        let index = self.publisher.enqueue(&sequenced, false);
        self.target.after(index, &sequenced);
        let bytes = &sequenced.decoded.piece;
        self.unfinished = bytes.unfinished;
        if !bytes.unfinished {
            self.end = Some(bytes.position(bytes.end));
        }
        let mut flight = InFlight::new(sequenced, index, self.workers, self.target.pin());
        (flight.settling, flight.page) = (self.settling, page);
        Arc::new(flight)
    }

    /// Whether a transaction is open: nothing may come between its pieces.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.unfinished
    }

    /// Where replay is, at a transaction boundary.
    #[must_use]
    pub fn boundary(&self) -> Boundary {
        let sequencer = &self.sequencer;
        Boundary { executed: sequencer.executed().clone(), catalog: sequencer.catalog().clone(), end: self.end.clone() }
    }

    /// An id for a table that is being copied; None when there is none left.
    pub fn reserve_table_id(&mut self) -> Option<TableId> {
        self.sequencer.reserve_table_id()
    }

    /// Sequences changes of a copied table. At a transaction boundary.
    pub fn copied(&mut self, piece: DecodedPiece, track: Arc<CopyTrack>) -> Arc<InFlight> {
        self.target.before_copied(&self.sequencer);
        let sequenced = self.sequencer.copied(piece);
        self.hand_on_copied(sequenced, Some(track))
    }

    /// Puts a copied table in its place; the number of that goes with it. At a transaction boundary.
    pub fn switch(&mut self, table: &Arc<TableDef>) -> (Arc<InFlight>, u64) {
        self.target.before_copied(&self.sequencer);
        fail_point::enter(Phase::Recopy);
        let empty = DecodedPiece::empty(self.target.store().lane_count());
        let switch = self.sequencer.switch_table(table, empty, &self.shared);
        let number = switch.first.0;
        (self.hand_on_copied(switch, None), number)
    }

    fn hand_on_copied(&mut self, sequenced: SequencedPiece, track: Option<Arc<CopyTrack>>) -> Arc<InFlight> {
        let index = self.publisher.enqueue(&sequenced, true);
        self.target.after_copied(index);
        let mut flight = InFlight::new(sequenced, index, self.workers, self.target.pin());
        flight.copied = track;
        Arc::new(flight)
    }
}
