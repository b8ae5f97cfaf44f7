//! Rows that cascades carried out here changed or deleted, until their statement ends.
//!
//! In: what a cascade did to a row. Out: what becomes of the statement's own change of that row, which it logs as it
//! had read the row before. Decode settles the same where the source logs its cascades. Never here: a stored row, a
//! change.

use std::collections::HashMap;

use catalog::{TableDef, TableId};
use decode::{OpKind, ReadAt, RowOp, RowView, Shape, TablePlan, Unproved, written};

/// Bytes of keys and images that are kept at most: enough for a million children of one statement. Where a statement
/// changes more, its own change of any other row must find the row as it says.
const KEPT_BYTES_MAX: usize = 64 << 20;

/// What cascades did to a row.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Touched {
    Deleted,
    /// It has another key.
    Moved,
    /// It has its key still; this is its image before.
    Changed(Vec<u8>),
}

/// A statement: the piece's index, and the numbers of transaction and statement in it.
pub(crate) type StatementId = (u64, u32, u32);

/// What becomes of a statement's own change.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Own {
    /// It is carried out as it is.
    AsLogged,
    /// The row is gone already.
    Nothing,
    /// The row is deleted; the before image is older than the cascade.
    Unchecked,
    /// These columns are set: bitmap and image.
    Columns(Vec<u8>, Vec<u8>),
    /// This is the row under its new key.
    Image(Vec<u8>),
}

/// A row between both halves of an update that gives it another key.
struct Moving {
    /// Bitmap and image of the event's before image.
    before: (Vec<u8>, Vec<u8>),
    /// The row as cascades left it.
    now: Vec<u8>,
}

/// The rows of the statement in hand.
#[derive(Default)]
pub(crate) struct StatementRows {
    statement: StatementId,
    rows: HashMap<TableId, HashMap<Vec<u8>, Touched>>,
    kept_bytes: usize,
    /// True if not all are kept.
    full: bool,
    moving: Option<Moving>,
}

impl StatementRows {
    /// Begins a statement, or goes on with it.
    pub(crate) fn enter(&mut self, statement: StatementId) {
        if self.statement != statement {
            (self.statement, self.kept_bytes) = (statement, 0);
            self.rows.clear();
            (self.full, self.moving) = (false, None);
        }
    }

    /// Notes what a cascade did to the row of this key.
    pub(crate) fn note(&mut self, table: &TableDef, key: &[u8], touched: Touched) {
        let image = if let Touched::Changed(image) = &touched { image.len() } else { 0 };
        if self.kept_bytes + key.len() + image > KEPT_BYTES_MAX {
            self.full = true;
            return;
        }
        self.kept_bytes += key.len() + image;
        let rows = self.rows.entry(table.id).or_default();
        // Of a row changed several times, the first image is what the statement had read.
        if !matches!((&touched, rows.get(key)), (Touched::Changed(_), Some(Touched::Changed(_)))) {
            rows.insert(key.to_vec(), touched);
        }
    }

    /// True if a cascade of the statement did something to a row of the table.
    pub(crate) fn holds(&self, table: TableId) -> bool {
        self.rows.contains_key(&table)
    }

    /// Says what becomes of the statement's own change of a row. `before` and `after` are views of the event's images,
    /// `now` reads the stored row, asked for only if a cascade changed it.
    ///
    /// # Errors
    /// When the log does not prove what the source has; outside when the row cannot be read.
    pub(crate) fn own<E>(
        &mut self,
        (op, shape): (&RowOp, &Shape),
        key: &[u8],
        (before, after): (Option<RowView<'_>>, Option<RowView<'_>>),
        now: impl FnOnce() -> Result<Vec<u8>, E>,
    ) -> Result<Result<Own, Unproved>, E> {
        let plan = &*shape.plan;
        let Some(rows) = self.rows.get_mut(&plan.def.id) else { return Ok(Ok(Own::AsLogged)) };
        if matches!(op.kind, OpKind::Insert | OpKind::AddOne | OpKind::MoveTo | OpKind::MoveToJson) {
            // From here on there is such a row.
            rows.remove(key);
            return Ok(match (self.moving.take(), after) {
                (Some(moving), Some(after)) => moved(plan, &moving, &after),
                _ => Ok(Own::AsLogged),
            });
        }
        let deletes = shape.deletes();
        let then = match rows.get(key) {
            None if !self.full || op.kind == OpKind::RemoveOne => return Ok(Ok(Own::AsLogged)),
            None => {
                let stored = now()?;
                let now = RowView::of(&plan.layout, None, &stored);
                let same = |before: RowView<'_>| {
                    now.is_some_and(|now| before.agrees(&now, |column| plan.is_not_compared(column)))
                };
                return Ok(if before.is_some_and(same) { Ok(Own::AsLogged) } else { Err(Unproved::NotKnown) });
            }
            Some(Touched::Deleted) if deletes && may_be_named_twice(plan, op, key) => return Ok(Ok(Own::Nothing)),
            // Of several equal rows nobody knows which one is meant: the store decides.
            Some(_) if op.kind == OpKind::RemoveOne => return Ok(Ok(Own::AsLogged)),
            Some(Touched::Deleted) if deletes => return Ok(Ok(Own::AsLogged)),
            Some(Touched::Deleted) => return Ok(Err(Unproved::Gone)),
            Some(Touched::Moved) => return Ok(Err(Unproved::KeyChanged)),
            Some(Touched::Changed(then)) => then,
        };
        let stored = now()?;
        let view = |image| RowView::of(&plan.layout, None, image);
        let (Some(then), Some(now), Some(before)) = (view(then), view(&stored), before) else {
            return Ok(Err(Unproved::NotKnown));
        };
        let read_at = match ReadAt::of(plan, (&before, after.as_ref()), &then, &now) {
            Ok(read_at) => read_at,
            Err(why) => return Ok(Err(why)),
        };
        Ok(match (read_at, op.kind, after) {
            (ReadAt::Now, ..) => Ok(Own::AsLogged),
            (ReadAt::Then, OpKind::Delete, _) => {
                if !deletes {
                    self.moving = Some(Moving { before: before.to_partial(), now: stored.clone() });
                }
                Ok(Own::Unchecked)
            }
            (ReadAt::Then, OpKind::Update | OpKind::Merge, Some(after)) => {
                written(plan, &before, &after).map(|written| {
                    let (present, image) = written.to_partial();
                    Own::Columns(present, image)
                })
            }
            (ReadAt::Then, ..) => Err(Unproved::NotKnown),
        })
    }
}

/// The second half of an update that gives a row another key.
fn moved(plan: &TablePlan, moving: &Moving, after: &RowView<'_>) -> Result<Own, Unproved> {
    let (present, image) = &moving.before;
    let before = RowView::of(&plan.layout, Some(present), image).ok_or(Unproved::NotKnown)?;
    let mut row = RowView::of(&plan.layout, None, &moving.now).ok_or(Unproved::NotKnown)?;
    row.put(&written(plan, &before, after)?);
    row.to_image().map(Own::Image).ok_or(Unproved::NotKnown)
}

/// True if a second deletion of the row that this key names proves that the row is gone.
fn may_be_named_twice(plan: &TablePlan, op: &RowOp, key: &[u8]) -> bool {
    let one_copy = || RowView::of(&plan.layout, None, key).is_some_and(|row| plan.has_one_copy(&row));
    plan.deleted_by_cascade && (op.kind == OpKind::Delete || op.kind == OpKind::RemoveOne && one_copy())
}
