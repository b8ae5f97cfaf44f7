//! Table rewrites by ALTER TABLE (invariant 4): a barrier in the order of pieces.
//!
//! In: the statement's piece, just sequenced. Out: the table's rows as inserts under its new id, in slices of the
//! statement's own transaction, followed by the piece itself. Never here: a change of stored rows. The lanes apply
//! the slices like those of the log, so cuts and spills bound memory as for any large transaction, and after a crash
//! the statement is replayed from the cut before it.

use std::ops::ControlFlow;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use base::{GtidSet, PreparedSet, SequenceNumber};
use catalog::Catalog;
use decode::{Rewriter, SequencedPiece, StopClass};

use crate::in_flight::InFlight;
use crate::stages::SequenceStage;
use crate::stop::class_of;

/// Size in bytes at which a slice is handed on.
const SLICE_BYTES: usize = 1 << 20;
/// Interval at which the wait for the lanes checks whether replay ends.
const LOOK: Duration = Duration::from_millis(50);

/// The transaction boundary before a piece, where a generation can be sealed.
pub(crate) struct RewriteBoundary {
    pub sequence: SequenceNumber,
    pub executed: GtidSet,
    pub catalog: Catalog,
    pub prepared: PreparedSet,
}

/// Progress of a table rewrite.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RewriteProgress {
    /// Full name of the table.
    pub table: String,
    /// Rows written so far.
    pub rows: u64,
}

/// Progress, shared with status.
#[derive(Default)]
pub(crate) struct RewriteState {
    table: Mutex<Option<String>>,
    rows: AtomicU64,
    /// Number of tables rewritten since start.
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

/// Why a scan ends early.
enum Break {
    /// Replay ends.
    Shutdown,
    /// A value cannot be computed; the text says why.
    Unknown(String),
}

/// Hands on the rows that a statement rewrites, then the statement's piece. False when replay ends here.
pub(crate) fn carry_out(
    stage: &mut SequenceStage,
    mut piece: SequencedPiece,
    boundary: &RewriteBoundary,
    ended: &dyn Fn() -> bool,
    emit: &mut dyn FnMut(&Arc<InFlight>),
) -> bool {
    let rewrites = std::mem::take(&mut piece.rewrites);
    if !piece.can_rewrite() {
        let reason = "a statement that rewrites a table but is not alone in its transaction".to_owned();
        emit(&stage.hand_on(piece.refused(StopClass::NotSupported, reason)));
        return false;
    }
    let (target, publisher, sequencer) = stage.parts();
    let (store, publisher) = (Arc::clone(target.store()), Arc::clone(publisher));
    let catalog = sequencer.catalog().clone();
    let ended = || ended() || publisher.failure().is_some();
    // The scan below reads what the lanes hold, so everything before the statement must be applied, though not yet
    // visible.
    while !publisher.wait_applied(LOOK) {
        if ended() {
            return false;
        }
    }
    let state = Arc::clone(&stage.rewrites);
    let layers = stage.parts().0.pin();
    let mut continues = false;
    let mut rewriter = Rewriter::new(store.lane_count());
    for rewrite in &rewrites {
        state.begin(rewrite.to.full_name());
        rewriter.begin(rewrite, &catalog);
        let scanned = store.scan_applied(&layers, boundary.sequence.0, &rewrite.from, |row| {
            for _ in 0..row.count {
                if let Err(what) = rewriter.row(row.image) {
                    return ControlFlow::Break(Break::Unknown(what));
                }
                if rewriter.bytes() >= SLICE_BYTES {
                    state.rows.store(rewriter.rows(), Ordering::Relaxed);
                    make_room(stage, &piece, continues, boundary, &catalog);
                    if ended() {
                        return ControlFlow::Break(Break::Shutdown);
                    }
                    let slice = rewriter.slice(&piece, continues);
                    continues = true;
                    emit(&stage.hand_on(slice));
                }
            }
            ControlFlow::Continue(())
        });
        state.end();
        let (class, reason) = match scanned {
            Ok(ControlFlow::Continue(())) => {
                state.done.fetch_add(1, Ordering::Relaxed);
                continue;
            }
            Ok(ControlFlow::Break(Break::Shutdown)) => return false,
            Ok(ControlFlow::Break(Break::Unknown(what))) => {
                let (table, statement) = (rewrite.from.full_name(), &rewrite.statement);
                let reason =
                    format!("{what}; what becomes of the rows of {table} is not known; statement: {statement}");
                (StopClass::NotSupported, reason)
            }
            Err(error) => (class_of(&error), error.to_string()),
        };
        let tables: Vec<_> = rewrites.iter().map(|rewrite| (rewrite.to.db.clone(), rewrite.to.name.clone())).collect();
        if class == StopClass::NotSupported && stage.quarantine(&mut piece, &tables, &reason) {
            piece.decoded.piece.continues = continues;
            emit(&stage.hand_on(piece));
            return true;
        }
        let mut refused = piece.refused(class, reason);
        refused.decoded.piece.continues = continues;
        emit(&stage.hand_on(refused));
        return false;
    }
    rewriter.finish(&mut piece);
    piece.decoded.piece.continues = continues;
    emit(&stage.hand_on(piece));
    true
}

/// Seals before the first slice and spills before later ones, as for any large transaction.
fn make_room(
    stage: &mut SequenceStage,
    piece: &SequencedPiece,
    continues: bool,
    boundary: &RewriteBoundary,
    catalog: &Catalog,
) {
    if let Some(sealer) = stage.sealer() {
        if continues {
            sealer.before_slice(piece.first.0, catalog);
        } else {
            sealer.before_large(boundary);
        }
    }
}
