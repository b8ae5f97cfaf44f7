//! Tables that an ALTER TABLE writes anew (RULES 4): a barrier in the order of pieces.
//!
//! In: the statement's piece, just sequenced. Out: the table's rows as inserts under its new id, in slices of the
//! statement's own transaction, the piece itself last. Never here: a change of stored rows: the lanes apply the slices
//! as they apply the log's, so memory is bounded by cuts and spills as for any large transaction, and after a crash
//! the statement is replayed from the cut in front of it.

use std::ops::ControlFlow;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use base::{GtidSet, SequenceNumber};
use catalog::Catalog;
use schedule::{Rewriter, SequencedPiece, StopClass};
use store::PinnedLayers;

use crate::cutter::class_of;
use crate::pipeline::Sequencing;

/// A slice is handed on when it has grown to this size.
const SLICE_BYTES: usize = 1 << 20;
/// How long the wait for the lanes lasts before it is looked whether replay ends.
const LOOK: Duration = Duration::from_millis(50);

/// The transaction boundary in front of a piece, where a generation can be sealed.
pub(crate) struct Boundary {
    pub sequence: SequenceNumber,
    pub executed: GtidSet,
    pub catalog: Catalog,
}

/// A table that is being written anew.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RewriteProgress {
    /// Its name.
    pub table: String,
    /// Rows written so far.
    pub rows: u64,
}

/// Shared with status.
#[derive(Default)]
pub(crate) struct RewriteState {
    table: Mutex<Option<String>>,
    rows: AtomicU64,
    /// Tables written anew since start.
    done: AtomicU64,
}

impl RewriteState {
    pub(crate) fn progress(&self) -> Option<RewriteProgress> {
        let table = self.table.lock().unwrap_or_else(PoisonError::into_inner).clone()?;
        Some(RewriteProgress { table, rows: self.rows.load(Ordering::Relaxed) })
    }

    pub(crate) fn done(&self) -> u64 {
        self.done.load(Ordering::Relaxed)
    }

    fn begin(&self, table: String) {
        self.rows.store(0, Ordering::Relaxed);
        *self.table.lock().unwrap_or_else(PoisonError::into_inner) = Some(table);
    }

    fn end(&self) {
        *self.table.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
}

/// Why no further row is taken.
enum Break {
    /// Replay ends.
    Ending,
    /// A value is not known.
    Unknown(String),
}

impl Sequencing {
    /// Hands on a piece whose statement writes tables anew, the rows in front of it. False when replay ends here.
    pub(crate) fn rewrite(
        &mut self,
        mut piece: SequencedPiece,
        boundary: Option<&Boundary>,
        catalog: &Catalog,
    ) -> bool {
        let rewrites = std::mem::take(&mut piece.rewrites);
        let Some(boundary) = boundary.filter(|_| piece.can_rewrite()) else {
            let reason = "a statement that writes a table anew, not alone in its transaction".to_owned();
            self.hand_on(piece.refused(StopClass::NotSupported, reason));
            return false;
        };
        while !self.publisher.wait_applied(LOOK) {
            if self.control.ending.stops_handing_on() || self.publisher.failure().is_some() {
                return false;
            }
        }
        let layers = PinnedLayers::pin(&self.store);
        let store = std::sync::Arc::clone(&self.store);
        let mut continues = false;
        let mut rewriter = Rewriter::new(store.lane_count());
        for rewrite in &rewrites {
            self.rewrites.begin(rewrite.to.full_name());
            rewriter.begin(rewrite, catalog);
            let scanned = store.scan_applied(&layers, boundary.sequence.0, &rewrite.from, |row| {
                for _ in 0..row.count {
                    if let Err(what) = rewriter.row(row.image) {
                        return ControlFlow::Break(Break::Unknown(what));
                    }
                    if rewriter.bytes() >= SLICE_BYTES {
                        self.rewrites.rows.store(rewriter.rows(), Ordering::Relaxed);
                        if !self.hand_on_slice(&mut rewriter, &piece, &mut continues, boundary, catalog) {
                            return ControlFlow::Break(Break::Ending);
                        }
                    }
                }
                ControlFlow::Continue(())
            });
            self.rewrites.end();
            let (class, reason) = match scanned {
                Ok(ControlFlow::Continue(())) => {
                    self.rewrites.done.fetch_add(1, Ordering::Relaxed);
                    continue;
                }
                Ok(ControlFlow::Break(Break::Ending)) => return false,
                Ok(ControlFlow::Break(Break::Unknown(what))) => {
                    let (table, statement) = (rewrite.from.full_name(), &rewrite.statement);
                    let reason =
                        format!("{what}; what becomes of the rows of {table} is not known; statement: {statement}");
                    (StopClass::NotSupported, reason)
                }
                Err(error) => (class_of(&error), error.to_string()),
            };
            let mut refused = piece.refused(class, reason);
            refused.decoded.piece.continues = continues;
            self.hand_on(refused);
            return false;
        }
        rewriter.finish(&mut piece);
        piece.decoded.piece.continues = continues;
        self.hand_on(piece);
        true
    }

    /// False when replay ends.
    fn hand_on_slice(
        &mut self,
        rewriter: &mut Rewriter,
        piece: &SequencedPiece,
        continues: &mut bool,
        boundary: &Boundary,
        catalog: &Catalog,
    ) -> bool {
        if let Some(sealer) = &mut self.sealer {
            if *continues {
                sealer.before_slice(piece.first.0, catalog);
            } else {
                sealer.before_large(boundary);
            }
        }
        if self.control.ending.stops_handing_on() || self.publisher.failure().is_some() {
            return false;
        }
        let slice = rewriter.slice(piece, *continues);
        *continues = true;
        self.hand_on(slice);
        true
    }
}
