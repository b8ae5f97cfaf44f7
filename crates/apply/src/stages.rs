//! The pipeline's stages as structs that are stepped. [`Pipeline`](crate::Pipeline) gives them threads and queues;
//! the simulation (`tests/simulation`) steps them in one thread.
//!
//! In: relay log items, pieces. Out: pieces ready for the workers. Never here: threads, queues, or any wait except
//! for the cutter ([`SequenceStage::would_wait`] predicts it).

use std::sync::Arc;

use base::LogPosition;
use catalog::{Answer, Found, TableDef, TableId};
use decode::{DecodedPiece, Piece, PieceKind, SequencedPiece, Sequencer, SharedCatalog, Splitter, Stop, StopClass};
use observe::Ledger;
use observe::fail_point::{self, Phase};
use relay_log::{RelayError, TailItem};

use crate::beside::Boundary;
use crate::copy_track::CopyTrack;
pub use crate::cutter::{CutState, Cutter, CutterStep, Sealer, sealer_and_cutter};
pub use crate::in_flight::InFlight;
use crate::pause::{Let, Pause};
pub use crate::publish::Publisher;
use crate::rewrite::{RewriteBoundary, RewriteState};
pub use crate::shutdown::Shutdown;
pub use crate::stop::class_of;
pub use crate::target::{LanesTarget, Target};
pub use crate::watermark::Watermark;
pub use crate::worker::Worker;

/// Splits relay log items into pieces, and tracks the position reached.
pub struct SplitStage {
    splitter: Splitter,
    /// Relay log position up to which the log is split.
    position: LogPosition,
}

impl SplitStage {
    /// Creates the stage before any input.
    #[must_use]
    pub fn new(splitter: Splitter) -> SplitStage {
        SplitStage { splitter, position: LogPosition { file: Arc::from(""), offset: 0 } }
    }

    /// Splits one item. `emit` takes the pieces, and returns false when no more are wanted.
    ///
    /// # Errors
    /// When the bytes are not a valid log.
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

    /// Relay log position up to which the log is split.
    #[must_use]
    pub fn position(&self) -> &LogPosition {
        &self.position
    }

    /// Maps a fault of the relay log to a stop of replay.
    #[must_use]
    pub fn stop_of(&self, error: &RelayError) -> Stop {
        let class = match error {
            RelayError::Corrupt { .. }
            | RelayError::Missing { .. }
            | RelayError::Index { .. }
            | RelayError::Boundary(_) => StopClass::Corrupt,
            error if error.is_failed_sync() => StopClass::SyncFailed,
            RelayError::DiskFull { .. } => StopClass::DiskFull,
            _ => StopClass::Io,
        };
        Stop { class, position: self.position.clone(), gtid: None, reason: error.to_string() }
    }
}

/// Turns decoded pieces into pieces in flight: order, generations, the publisher's queue.
pub struct SequenceStage {
    sequencer: Sequencer,
    shared: Arc<SharedCatalog>,
    target: Target,
    publisher: Arc<Publisher>,
    ledger: Arc<Ledger>,
    workers: usize,
    /// Relay log position of the last transaction boundary that was sequenced.
    end: Option<LogPosition>,
    /// True if the last piece's transaction continues in the next one.
    unfinished: bool,
    pub(crate) rewrites: Arc<RewriteState>,
    /// A sequenced piece whose statement rewrites a table, which must be done before it is handed on.
    rewriting: Option<(SequencedPiece, RewriteBoundary)>,
    /// True if the last sequenced piece begins before the rows of a copy without a lock are exact.
    not_yet_consistent: bool,
}

impl SequenceStage {
    /// Creates the stage for this many workers of the target.
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
            not_yet_consistent: false,
        }
    }

    /// Reports table rewrites to this state.
    pub(crate) fn with_rewrites(mut self, state: &Arc<RewriteState>) -> SequenceStage {
        self.rewrites = Arc::clone(state);
        self
    }

    /// Takes a decoded piece; pieces may come in any order.
    pub fn take(&mut self, piece: DecodedPiece) {
        self.sequencer.take(piece);
    }

    /// Called when no piece is available; may cut what has become due.
    pub fn idle(&mut self) {
        self.target.idle(&self.sequencer);
    }

    /// True if `next`, or `idle` when no piece is available, would wait for the cutter.
    #[must_use]
    pub fn would_wait(&self) -> bool {
        self.target.would_wait(self.sequencer.coming())
    }

    /// Asks what holds replay back about the next piece of the log, which is cut in two where a part of it may be
    /// sequenced. False if nothing of it may be.
    pub(crate) fn let_through(&mut self, pause: &Pause) -> bool {
        let Some(coming) = self.sequencer.coming() else { return true };
        match pause.admit(&coming.piece, || self.sequencer.executed().clone()) {
            Let::All => true,
            Let::Nothing => {
                // After a start the first piece may be the head of a file.
                pause.note_held(self.sequencer.taken().map(|taken| &taken.piece));
                false
            }
            Let::Before(at) => {
                self.sequencer.cut_coming(at);
                true
            }
        }
    }

    /// Sequences the next piece of the log and enqueues it with the publisher, for every worker to take. None if that
    /// piece was not taken yet, or if `ended` returns true after a wait.
    pub fn next(&mut self, ended: impl FnOnce() -> bool) -> Option<Arc<InFlight>> {
        // Nothing is sequenced before the rewrite is done, since its slices belong to the statement's own
        // transaction.
        if self.rewriting.is_some() {
            return None;
        }
        let coming = self.sequencer.coming()?;
        if self.target.before(coming, &self.sequencer) && ended() {
            return None;
        }
        self.not_yet_consistent = self.target.settles_after(&self.sequencer.executed());
        let sequencer = &self.sequencer;
        let serial = coming.piece.kind == PieceKind::Serial || coming.needs_serial;
        // Only a serial piece can hold a statement that rewrites a table, so other pieces are spared the clones.
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

    /// True if a table rewrite must be done before anything else is sequenced; see [`SequenceStage::rewrite`].
    #[must_use]
    pub fn rewrite_waits(&self) -> bool {
        self.rewriting.is_some()
    }

    /// Rewrites the table once all lanes have applied everything before it, and passes every piece of the rewrite to
    /// `emit`. False when replay ends here, because of `ended` or because the rows cannot be computed.
    pub fn rewrite(&mut self, ended: &dyn Fn() -> bool, emit: &mut dyn FnMut(&Arc<InFlight>)) -> bool {
        match self.rewriting.take() {
            Some((piece, boundary)) => crate::rewrite::carry_out(self, piece, &boundary, ended, emit),
            None => true,
        }
    }

    pub(crate) fn parts(&self) -> (&Target, &Arc<Publisher>, &Sequencer) {
        (&self.target, &self.publisher, &self.sequencer)
    }

    /// Quarantines tables because of the piece's statement; false if quarantine is not enabled.
    pub(crate) fn quarantine(&mut self, piece: &mut SequencedPiece, tables: &[(String, String)], why: &str) -> bool {
        self.sequencer.quarantine(piece, tables, why, &self.shared)
    }

    pub(crate) fn sealer(&mut self) -> Option<&mut Sealer> {
        self.target.sealer()
    }

    /// Enqueues a sequenced piece with the publisher and pins the layers that take its rows.
    pub(crate) fn hand_on(&mut self, mut sequenced: SequencedPiece) -> Arc<InFlight> {
        if let Some(rewrite) = sequenced.rewrites.first() {
            // Its table would come to be without its rows.
            let what = format!("a piece is handed on before the rewrite of {}", rewrite.from.full_name());
            sequenced = sequenced.broken(&what);
        }
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
        (flight.not_yet_consistent, flight.page) = (self.not_yet_consistent, page);
        Arc::new(flight)
    }

    /// True if a transaction is open: nothing may come between its pieces.
    #[must_use]
    pub fn is_open(&self) -> bool {
        self.unfinished
    }

    /// Returns replay's place. Call only at a transaction boundary.
    #[must_use]
    pub fn boundary(&self) -> Boundary {
        let sequencer = &self.sequencer;
        Boundary { executed: sequencer.executed().clone(), catalog: sequencer.catalog().clone(), end: self.end.clone() }
    }

    /// Reserves an id for a table that is being copied; None when ids are exhausted.
    pub fn reserve_table_id(&mut self) -> Option<TableId> {
        self.sequencer.reserve_table_id()
    }

    /// Sequences changes of a copied table. Call only at a transaction boundary.
    pub fn copied(&mut self, piece: DecodedPiece, track: Arc<CopyTrack>) -> Arc<InFlight> {
        self.target.before_copied(&self.sequencer);
        let sequenced = self.sequencer.copied(piece);
        self.hand_on_copied(sequenced, Some(track))
    }

    /// Puts a copied table in the place of the original. Returns the piece, and the sequence number of the switch.
    /// Call only at a transaction boundary.
    pub fn switch(&mut self, table: &Arc<TableDef>) -> (Arc<InFlight>, u64) {
        self.target.before_copied(&self.sequencer);
        fail_point::enter(Phase::Recopy);
        let empty = DecodedPiece::empty(self.target.store().lane_count());
        let switch = self.sequencer.switch_table(table, empty, &self.shared);
        let number = switch.first.0;
        (self.hand_on_copied(switch, None), number)
    }

    /// Puts tables in quarantine whose rows cannot be read, unless they are gone already. Returns the piece, and the
    /// sequence number from which on they are. Call only at a transaction boundary.
    pub fn quarantine_unreadable(&mut self, tables: &[(TableId, String)]) -> Option<(Arc<InFlight>, u64)> {
        let catalog = self.sequencer.catalog();
        let named = |(id, why): &(TableId, String)| {
            let table = catalog.table_by_id(*id)?;
            Some(((table.db.clone(), table.name.clone()), why.clone()))
        };
        let named: Vec<_> = tables.iter().filter_map(named).collect();
        if named.is_empty() {
            return None;
        }
        self.target.before_copied(&self.sequencer);
        let empty = DecodedPiece::empty(self.target.store().lane_count());
        let piece = self.sequencer.quarantine_unreadable(&named, empty, &self.shared);
        let number = piece.first.0;
        Some((self.hand_on_copied(piece, None), number))
    }

    /// Takes over what a comparison with the source found, if the catalog is still at this epoch; see
    /// [`Sequencer::add_found`]. Call only at a transaction boundary.
    pub fn add_found(&mut self, found: &Found, epoch: u64) -> Option<Arc<InFlight>> {
        if self.sequencer.catalog().epoch() != epoch {
            return None;
        }
        self.target.before_copied(&self.sequencer);
        let empty = DecodedPiece::empty(self.target.store().lane_count());
        let piece = self.sequencer.add_found(found, epoch, empty, &self.shared)?;
        Some(self.hand_on_copied(piece, None))
    }

    /// True if what the source says of definitions can be taken over as a whole.
    pub fn takes(&self, answer: &Answer) -> bool {
        self.sequencer.catalog().takes(answer)
    }

    /// Takes over what the source says of definitions. Call only at a transaction boundary.
    pub fn add_answer(&mut self, answer: &Answer) -> Arc<InFlight> {
        self.target.before_copied(&self.sequencer);
        let empty = DecodedPiece::empty(self.target.store().lane_count());
        let piece = self.sequencer.add_answer(answer, empty, &self.shared);
        self.hand_on_copied(piece, None)
    }

    fn hand_on_copied(&mut self, sequenced: SequencedPiece, track: Option<Arc<CopyTrack>>) -> Arc<InFlight> {
        let index = self.publisher.enqueue(&sequenced, true);
        self.target.after_copied(index);
        let mut flight = InFlight::new(sequenced, index, self.workers, self.target.pin());
        flight.copied = track;
        Arc::new(flight)
    }
}

#[cfg(test)]
mod tests;
