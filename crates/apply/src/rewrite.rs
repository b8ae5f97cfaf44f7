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
use catalog::{Catalog, TableDef};
use decode::{NotRewritten, Rewriter, SequencedPiece, StopClass};
use store::{KeyRange, PinnedLayers, ReadOrder, Row, RowBuf, Store, StoreError, TableReader};

use crate::in_flight::InFlight;
use crate::stages::SequenceStage;
use crate::stop::class_of;

/// Size in bytes at which a slice is handed on.
const SLICE_BYTES: usize = 1 << 20;
/// Rows after which a survey checks whether replay ends.
const LOOK_ROWS: u64 = 1 << 16;
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
    Shutdown,
    /// The rows cannot be rewritten.
    Fault(NotRewritten),
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
        let source = Source { store: &store, layers: &layers, sequence: boundary.sequence.0, table: &rewrite.from };
        let begun = rewriter.begin(rewrite, &boundary.catalog, &catalog);
        let ordered = match begun.map(|()| survey(&source, &mut rewriter, &ended)) {
            Ok(Ok(ControlFlow::Continue(ordered))) => Ok(ordered),
            Ok(Ok(ControlFlow::Break(end))) => Err(Ok(ControlFlow::Break(end))),
            Ok(Err(error)) => Err(Err(error)),
            Err(fault) => Err(Ok(ControlFlow::Break(Break::Fault(fault)))),
        };
        let mut convert = |row: Row<'_>| {
            for _ in 0..row.count {
                if let Err(fault) = rewriter.row(row.image) {
                    return ControlFlow::Break(Break::Fault(fault));
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
        };
        let scanned = match ordered {
            Ok(ordered) => source.rows(ordered, &mut convert),
            Err(end) => end,
        };
        state.end();
        let (class, reason) = match scanned {
            Ok(ControlFlow::Continue(())) => {
                state.done.fetch_add(1, Ordering::Relaxed);
                continue;
            }
            Ok(ControlFlow::Break(Break::Shutdown)) => return false,
            Ok(ControlFlow::Break(Break::Fault(NotRewritten::Unknown(what)))) => {
                let (table, statement) = (rewrite.from.full_name(), &rewrite.statement);
                let reason =
                    format!("{what}; what becomes of the rows of {table} is not known; statement: {statement}");
                (StopClass::NotSupported, reason)
            }
            Ok(ControlFlow::Break(Break::Fault(NotRewritten::Defect(what)))) => {
                (StopClass::Defect, format!("{what}; statement: {}", rewrite.statement))
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

/// The stored rows of a table before the statement.
struct Source<'a> {
    store: &'a Store,
    layers: &'a PinnedLayers,
    sequence: u64,
    table: &'a TableDef,
}

impl Source<'_> {
    /// Passes on all rows, if `ordered` in the order of their key.
    fn rows<B>(
        &self,
        ordered: bool,
        each: &mut dyn FnMut(Row<'_>) -> ControlFlow<B>,
    ) -> Result<ControlFlow<B>, StoreError> {
        if !ordered {
            return self.store.scan_applied(self.layers, self.sequence, self.table, each);
        }
        let reader = TableReader::new(self.table);
        let (all, order) = (KeyRange::all(), ReadOrder::Identity);
        let mut range = self.store.range_applied(self.layers, self.sequence, &reader, order, &all)?;
        let mut row = RowBuf::default();
        while range.next_into(&mut row)? {
            if let ControlFlow::Break(end) = each(row.row()) {
                return Ok(ControlFlow::Break(end));
            }
        }
        Ok(ControlFlow::Continue(()))
    }
}

/// Surveys the rows, if they are to be numbered. Returns whether they must be converted in the order of their key.
fn survey(
    source: &Source<'_>,
    rewriter: &mut Rewriter,
    ended: &dyn Fn() -> bool,
) -> Result<ControlFlow<Break, bool>, StoreError> {
    let Some(numbers) = rewriter.numbers() else { return Ok(ControlFlow::Continue(false)) };
    let ordered = numbers.surveys_in_order();
    let mut rows = 0u64;
    // Breaks with None when no other row needs to be looked at.
    let mut look = |row: Row<'_>| {
        rows += 1;
        if rows.is_multiple_of(LOOK_ROWS) && ended() {
            return ControlFlow::Break(Some(Break::Shutdown));
        }
        for _ in 0..row.count {
            match rewriter.survey(row.image) {
                Ok(true) => {}
                Ok(false) => return ControlFlow::Break(None),
                Err(fault) => return ControlFlow::Break(Some(Break::Fault(fault))),
            }
        }
        ControlFlow::Continue(())
    };
    if let ControlFlow::Break(Some(end)) = source.rows(ordered, &mut look)? {
        return Ok(ControlFlow::Break(end));
    }
    let Some(numbers) = rewriter.numbers() else { return Ok(ControlFlow::Continue(false)) };
    Ok(match numbers.surveyed() {
        Ok(()) => ControlFlow::Continue(numbers.numbers_in_order()),
        Err(what) => ControlFlow::Break(Break::Fault(what.into())),
    })
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
