//! The rows of a table that an ALTER TABLE writes anew, as changes of the table they go to.
//!
//! In: stored rows of the table as it was. Out: slices of one transaction, the ALTER TABLE's: inserts in lanes, as if the
//! log had brought them. Never here: stored rows read (the caller hands them in), a value that is not known.

use std::sync::Arc;

use base::{key_hash, lane_of};
use catalog::{Catalog, KeyPlace, Rewrite, RowConversion, RowKey};
use observe::LedgerBatch;

use crate::piece::{DecodedPiece, OpKind, Piece, RowOp, Shape, Span};
use crate::plan::TablePlan;
use crate::sequence::SequencedPiece;
use crate::stop::{Stop, StopClass};

/// Gathers rows of one table.
pub struct Rewriter {
    plan: Arc<TablePlan>,
    conversion: RowConversion,
    key: RowKey,
    lanes: Vec<Vec<RowOp>>,
    side: Vec<u8>,
    rows: u64,
    offsets: Vec<(u32, u32)>,
    built: Vec<u8>,
}

impl Rewriter {
    /// For one table, under the catalog that holds it as it is now.
    #[must_use]
    pub fn new(rewrite: &Rewrite, catalog: &Catalog, lanes: usize) -> Rewriter {
        let (from, to) = (rewrite.from.column_types(), rewrite.to.column_types());
        Rewriter {
            plan: Arc::new(TablePlan::new(&rewrite.to, catalog)),
            conversion: RowConversion::new(&from, &to, &rewrite.sources),
            key: RowKey::new(&rewrite.to),
            lanes: std::iter::repeat_with(Vec::new).take(lanes).collect(),
            side: Vec::new(),
            rows: 0,
            offsets: Vec::new(),
            built: Vec::new(),
        }
    }

    /// Takes one row of the old table, one copy of it.
    ///
    /// # Errors
    /// The reason, when a value of it is not known under the new definition.
    pub fn row(&mut self, image: &[u8]) -> Result<(), String> {
        let from = self.side.len();
        let converted = self.conversion.append(image, &mut self.offsets, &mut self.side);
        converted.map_err(|error| error.to_string())?;
        let len = self.side.len() - from;
        self.built.clear();
        let new = self.side.get(from..).unwrap_or_default();
        let place = self.key.find(new, &mut self.offsets, &mut self.built).map_err(|error| error.to_string())?;
        let key = match place {
            KeyPlace::Image { start, len } => side_span(from + start, len),
            KeyPlace::Built => {
                let at = self.side.len();
                self.side.extend_from_slice(&self.built);
                side_span(at, self.built.len())
            }
        };
        let at = (key.offset & !Span::SIDE) as usize;
        let key_bytes = self.side.get(at..at + key.len as usize).unwrap_or_default();
        let hash = key_hash(self.plan.def.id.0, key_bytes);
        let kind = if self.key.is_whole_image() { OpKind::AddCopy } else { OpKind::Insert };
        let op = RowOp {
            hash,
            key,
            before: Span::default(),
            after: side_span(from, len),
            transaction: 0,
            shape: 0,
            kind,
            flags: 0,
        };
        let lane = lane_of(hash, self.lanes.len());
        if let Some(ops) = self.lanes.get_mut(lane) {
            ops.push(op);
        }
        self.rows += 1;
        Ok(())
    }

    /// Bytes gathered since the last slice.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.side.len() + self.lanes.iter().map(Vec::len).sum::<usize>() * size_of::<RowOp>()
    }

    /// Rows taken so far, in all.
    #[must_use]
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// What was gathered, as a slice of the transaction of `of` with more to come. `continues`: it is not the first.
    #[must_use]
    pub fn slice(&mut self, of: &SequencedPiece, continues: bool) -> SequencedPiece {
        let lanes = self.lanes.iter_mut().map(std::mem::take).collect();
        let side = std::mem::take(&mut self.side);
        let whole = &of.decoded;
        let piece = Piece {
            data: Arc::clone(&whole.piece.data),
            file: Arc::clone(&whole.piece.file),
            end: whole.piece.start,
            continues,
            unfinished: true,
            context: Vec::new(),
            reservation: None,
            ..whole.piece
        };
        let mut transactions = whole.transactions.clone();
        for transaction in &mut transactions {
            (transaction.start, transaction.end, transaction.rows) = (piece.start, piece.start, 0);
        }
        let decoded = DecodedPiece {
            piece,
            side,
            payload: Vec::new(),
            shapes: self.shapes(),
            transactions,
            lanes,
            barrier: Vec::new(),
            ledger: Box::new(LedgerBatch::new()),
            stop: None,
            needs_serial: false,
            catalog_version: whole.catalog_version,
        };
        SequencedPiece { decoded, first: of.first, catalogs: Vec::new(), dropped: Vec::new(), rewrites: Vec::new() }
    }

    /// Puts what is left into the piece that holds the statement.
    pub fn finish(self, into: &mut SequencedPiece) {
        into.decoded.shapes = self.shapes();
        into.decoded.side = self.side;
        into.decoded.lanes = self.lanes;
    }

    fn shapes(&self) -> Vec<Shape> {
        let plan = Arc::clone(&self.plan);
        let (before_present, after_present) = (Span::default(), Span::default());
        vec![Shape { plan, event_type: binlog::event_type::QUERY, before_present, after_present }]
    }
}

fn side_span(at: usize, len: usize) -> Span {
    Span { offset: Span::SIDE | at as u32, len: len as u32 }
}

impl SequencedPiece {
    /// Whether its rows to be written anew can be: the statement's transaction is all the piece holds.
    #[must_use]
    pub fn can_rewrite(&self) -> bool {
        let decoded = &self.decoded;
        decoded.transactions.len() == 1
            && !decoded.piece.continues
            && !decoded.piece.unfinished
            && decoded.lanes.iter().all(Vec::is_empty)
            && decoded.barrier.is_empty()
    }

    /// The piece with nothing done, and replay stopped in front of it.
    #[must_use]
    pub fn refused(mut self, class: StopClass, reason: String) -> SequencedPiece {
        let decoded = &mut self.decoded;
        let transaction = decoded.transactions.first();
        let (start, gtid) = (transaction.map_or(decoded.piece.start, |t| t.start), transaction.and_then(|t| t.gtid));
        decoded.stop = Some(Stop { class, position: decoded.piece.position(start), gtid, reason });
        decoded.transactions.clear();
        decoded.lanes.iter_mut().for_each(Vec::clear);
        decoded.barrier.clear();
        let seen = std::mem::take(&mut decoded.ledger);
        decoded.ledger.add_all_as(&seen, observe::Category::Seen, observe::Category::Seen);
        decoded.ledger.add_all_as(&seen, observe::Category::Seen, observe::Category::Refused);
        self.catalogs.clear();
        self.dropped.clear();
        self.rewrites.clear();
        self
    }
}
