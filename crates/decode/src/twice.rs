//! Rows that one statement's events name twice.
//!
//! A source that carries out cascades above InnoDB (9.6 and later) logs them beside the statement's own changes. Where
//! both meet in a row, the log names the row twice, the second time as the statement had read it before the cascade:
//! `DELETE d, s FROM d JOIN s`, a trigger that changes a parent of its row, foreign keys that refer to each other
//! (MySQL bugs 80821, 94991, 102586). A stock replica stops (1032), or overwrites what the cascade changed.
//!
//! In: the changes of a transaction, decoded. Out: the same, where such a change says what the source made of the row:
//! nothing of a row that is gone, else the columns in which its two images differ, since InnoDB writes no others. Never
//! here: a change of a row that the statement names once, or that only another statement named; a stored row; a guess:
//! replay stops where the log does not prove what the source has.

use std::collections::{BTreeMap, HashMap, HashSet};

use base::{key_hash, lane_of};
use binlog::{RowsEvent, RowsKind};
use catalog::{TableDef, TableId};

use crate::decode::{Fault, corrupt};
use crate::piece::{
    BEFORE_UNCHECKED, CASCADES_LOGGED, DecodedPiece, LAST_OF_EVENT, LOGGED_TWICE, OpKind, RowOp, Shape, Span, short,
};
use crate::plan::{KeyPlan, TablePlan};
use crate::row_view::RowView;
use crate::stop::StopClass;
use crate::work::Work;

/// Why a change of a row that a statement names twice cannot be replayed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unproved {
    /// It updates a row that is gone: the source keeps the row, or has two.
    Gone,
    /// The row has another key now.
    KeyChanged,
    /// The row is neither as the event says now, nor was it before the cascade.
    NotKnown,
}

impl Unproved {
    /// The reason to stop at a row of this table.
    #[must_use]
    pub fn reason(self, table: &TableDef) -> String {
        let why = match self {
            Unproved::Gone => "it updates a row that a cascade of the same statement deleted",
            Unproved::KeyChanged => "it names the row by a key that a cascade of the same statement changed",
            Unproved::NotKnown => "it does not tell which columns the source wrote after the cascade",
        };
        format!(
            "Can't find record (1032): the source's log names a row of {} twice in one statement, for a cascade and \
             for the statement itself, and does not tell what became of it: {why}; neither the relay log nor the rows \
             here are to blame (MySQL bugs 80821, 94991, 102586)",
            table.full_name()
        )
    }

    fn fault(self, plan: &TablePlan) -> Fault {
        (StopClass::DataDiffers, self.reason(&plan.def))
    }
}

/// When a row was as an event says that it was before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadAt {
    Now,
    /// Before the statement's cascades changed it.
    Then,
}

impl ReadAt {
    /// Compares an event's images with the row before (`then`) and after (`now`) cascades of the same statement.
    /// `after` is absent for a deletion.
    ///
    /// # Errors
    /// When it was neither, or both and what the source wrote depends on it.
    pub fn of(
        plan: &TablePlan,
        (before, after): (&RowView<'_>, Option<&RowView<'_>>),
        then: &RowView<'_>,
        now: &RowView<'_>,
    ) -> Result<ReadAt, Unproved> {
        let was = |row: &RowView<'_>| before.agrees(row, |column| plan.is_not_compared(column));
        let sets_back = |after: &RowView<'_>| {
            let mut columns =
                after.known().filter(|column| !before.is_known(*column) && plan.is_set_by_cascade(*column));
            columns.any(|column| after.sets_back(column, then, now))
        };
        match (was(now), was(then)) {
            (true, true) if after.is_some_and(sets_back) => Err(Unproved::NotKnown),
            (true, _) => Ok(ReadAt::Now),
            (false, true) => Ok(ReadAt::Then),
            (false, false) => Err(Unproved::NotKnown),
        }
    }
}

/// The columns that the source wrote: InnoDB compares the two images.
///
/// # Errors
/// When a virtual column is among them, which the event has as it was before the cascade.
pub fn written<'a>(plan: &TablePlan, before: &RowView<'_>, after: &RowView<'a>) -> Result<RowView<'a>, Unproved> {
    let written = RowView::differing(before, after);
    if written.known().any(|column| plan.versions.is_virtual(column)) {
        return Err(Unproved::NotKnown);
    }
    Ok(written)
}

/// The statements of the open transaction.
#[derive(Default)]
pub(crate) struct Statements {
    /// Number of the open one in the piece.
    pub number: u32,
    /// First table whose rows it changes or deletes, by the table map's id.
    table_id: Option<u64>,
    /// True if there are several such tables.
    several: bool,
    /// True if one of them may be changed by a cascade that the log holds.
    cascades: bool,
    /// Those whose changes may name a row twice.
    unsettled: Vec<u32>,
    /// Keys of each update that gives a row of such a table another key: before and after.
    pairs: Vec<(Span, Span)>,
}

impl Statements {
    /// Takes a rows event of the open statement.
    pub(crate) fn see(&mut self, event: &RowsEvent<'_>) {
        if event.kind != RowsKind::Write {
            self.several |= *self.table_id.get_or_insert(event.table_id) != event.table_id;
        }
    }

    /// True if the open statement is the piece's first.
    pub(crate) fn is_first(&self) -> bool {
        self.number == 0
    }

    /// Notes that cascades may change a table whose rows the open statement changes or deletes.
    pub(crate) fn may_be_twice(&mut self, follows_itself: bool) {
        self.cascades = true;
        self.several |= follows_itself;
    }

    /// Notes an update that gives a row another key.
    pub(crate) fn pair(&mut self, old_key: Span, new_key: Span) {
        self.pairs.push((old_key, new_key));
    }

    /// Ends the open statement. One that changes a single table follows no foreign key into it.
    pub(crate) fn end(&mut self) {
        if self.cascades && self.several {
            self.unsettled.push(self.number);
        }
        self.number += 1;
        (self.table_id, self.several, self.cascades) = (None, false, false);
    }

    /// Ends the transaction without a look at its changes.
    pub(crate) fn forget(&mut self) {
        self.end();
        self.unsettled.clear();
        self.pairs.clear();
    }
}

/// Place of a change: its list (a lane, or after the lanes the barrier), and its index there.
type At = (usize, usize);

/// What becomes of a change.
enum Edit {
    /// Nothing, or what it already says.
    Twice,
    /// Its before image is older than a cascade.
    Unchecked,
    /// These columns only: bitmap and image.
    Columns(Vec<u8>, Vec<u8>),
    /// Another image of the new row.
    Image(Vec<u8>),
}

/// The row of one key, as the statement's changes so far leave it.
enum Row<'a> {
    /// No change yet, or a new row.
    Found,
    /// Changed: as the statement found it, and as it is now.
    Changed(RowView<'a>, RowView<'a>),
    Deleted,
    /// Its key is another one.
    Moved,
}

/// Settles the open transaction's changes of rows that a statement names twice.
///
/// # Errors
/// When the log does not prove what the source has.
pub(crate) fn settle(work: &mut Work<'_>) -> Result<(), Fault> {
    work.statements.end();
    let unsettled = std::mem::take(&mut work.statements.unsettled);
    let pairs = std::mem::take(&mut work.statements.pairs);
    let outcome = if unsettled.is_empty() { Ok(()) } else { settle_statements(work, &unsettled, &pairs) };
    (work.statements.unsettled, work.statements.pairs) = (unsettled, pairs);
    work.statements.unsettled.clear();
    work.statements.pairs.clear();
    if outcome.is_err()
        && let Some(open) = &work.open
    {
        work.at = open.start;
    }
    outcome
}

fn settle_statements(work: &mut Work<'_>, unsettled: &[u32], pairs: &[(Span, Span)]) -> Result<(), Fault> {
    let changes = Changes { out: &work.out, unsettled };
    let twice = changes.named_twice();
    if twice.is_empty() {
        return Ok(());
    }
    let index = Index::new(&changes, &twice, pairs);
    let (mut edits, mut more) = (Vec::new(), Vec::new());
    for ((statement, _, _), places) in &index.rows {
        let Some(shape) = places.first().and_then(|at| changes.shape(*at)) else { continue };
        match shape.plan.key {
            KeyPlan::WholeImage => changes.keyless(&index, *statement, places, &mut edits, &mut more)?,
            _ => changes.keyed(&index, places, &mut edits)?,
        }
    }
    for (at, edit) in edits {
        carry_out(work, at, edit)?;
    }
    for (model, key) in more {
        insert(work, model, &key)?;
    }
    Ok(())
}

/// Changes of the open transaction that may name a row twice.
struct Changes<'w> {
    out: &'w DecodedPiece,
    unsettled: &'w [u32],
}

/// What the changes of rows named twice need of each other.
#[derive(Default)]
struct Index {
    /// Places of each such row's changes in log order, by statement, table and key.
    rows: BTreeMap<(u32, TableId, Vec<u8>), Vec<At>>,
    /// Place of an update's new half, by its old key's span.
    new_halves: HashMap<(u32, u32), At>,
    /// Number of times that an image of a table without a key is taken away, by statement and hash.
    taken: HashMap<(u32, u64), u32>,
}

impl Index {
    fn new(changes: &Changes<'_>, twice: &HashSet<(u32, u64)>, pairs: &[(Span, Span)]) -> Index {
        let mut index = Index::default();
        let new_keys: HashMap<(u32, u32), Span> =
            pairs.iter().map(|(old, new)| ((new.offset, new.len), *old)).collect();
        for (at, op) in changes.each() {
            match op.kind {
                OpKind::Insert | OpKind::AddOne => {
                    if let Some(old) = new_keys.get(&(op.key.offset, op.key.len)) {
                        index.new_halves.insert((old.offset, old.len), at);
                    }
                }
                OpKind::RemoveOne => *index.taken.entry((op.statement, op.hash)).or_default() += 1,
                _ => {}
            }
            if twice.contains(&(op.statement, op.hash))
                && let (Some(shape), Some(key)) = (changes.shape(at), changes.out.find_bytes(op.key))
            {
                let row = (op.statement, shape.plan.def.id, key.to_vec());
                index.rows.entry(row).or_default().push(at);
            }
        }
        index.rows.retain(|_, places| places.len() > 1);
        index
    }
}

impl<'w> Changes<'w> {
    fn lists(&self) -> impl Iterator<Item = &'w Vec<RowOp>> + use<'w> {
        self.out.lanes.iter().chain(std::iter::once(&self.out.barrier))
    }

    /// The changes in question, per list in log order.
    fn each(&self) -> impl Iterator<Item = (At, &'w RowOp)> + use<'w> {
        let (transaction, unsettled) = (short(self.out.transactions.len()), self.unsettled);
        self.lists().enumerate().flat_map(move |(list, ops)| {
            let from = ops.iter().rposition(|op| op.transaction != transaction).map_or(0, |last| last + 1);
            let of = ops.iter().enumerate().skip(from);
            let in_question = of.filter(move |(_, op)| {
                op.flags & CASCADES_LOGGED != 0 && unsettled.binary_search(&op.statement).is_ok()
            });
            in_question.map(move |(index, op)| ((list, index), op))
        })
    }

    /// Statement and hash of rows that several changes name.
    fn named_twice(&self) -> HashSet<(u32, u64)> {
        let (mut once, mut twice) = (HashSet::new(), HashSet::new());
        for (_, op) in self.each() {
            if !once.insert((op.statement, op.hash)) {
                twice.insert((op.statement, op.hash));
            }
        }
        twice
    }

    fn op(&self, (list, index): At) -> Option<&'w RowOp> {
        self.lists().nth(list)?.get(index)
    }

    fn shape(&self, at: At) -> Option<&'w Shape> {
        self.out.find_shape(self.op(at)?)
    }

    fn view(&self, plan: &TablePlan, present: Span, image: Span) -> Result<RowView<'w>, Fault> {
        let present = if present.len == 0 { None } else { self.out.find_bytes(present) };
        let view = self.out.find_bytes(image).and_then(|image| RowView::of(&plan.layout, present, image));
        view.ok_or_else(|| corrupt(format!("a row of {} that cannot be read", plan.def.full_name())))
    }

    fn before(&self, shape: &Shape, op: &RowOp) -> Result<RowView<'w>, Fault> {
        self.view(&shape.plan, shape.before_present, op.before)
    }

    fn after(&self, shape: &Shape, op: &RowOp) -> Result<RowView<'w>, Fault> {
        let plan = &shape.plan;
        if op.kind != OpKind::MergeJson {
            let present = if op.kind == OpKind::Merge { shape.after_present } else { Span::default() };
            return self.view(plan, present, op.after);
        }
        let unread = || corrupt(format!("a JSON difference of {} that cannot be read", plan.def.full_name()));
        let (_, image) = self.out.find_partial_image(shape, op).ok_or_else(unread)?;
        let present = if shape.after_present.len == 0 { None } else { self.out.find_bytes(shape.after_present) };
        let mut view = RowView::of(&plan.layout, present, image).ok_or_else(unread)?;
        let documents = plan.types.iter().enumerate().filter(|(_, ty)| ty.code == values::type_code::JSON);
        documents.for_each(|(column, _)| view.forget(column));
        Ok(view)
    }

    /// Settles the changes of one row that has a key.
    fn keyed(&self, index: &Index, places: &[At], edits: &mut Vec<(At, Edit)>) -> Result<(), Fault> {
        let mut row = Row::Found;
        for &at in places {
            let (Some(op), Some(shape)) = (self.op(at), self.shape(at)) else { continue };
            let deletes = shape.deletes();
            row = match (op.kind, row) {
                (OpKind::Insert | OpKind::MoveTo | OpKind::MoveToJson, _) => Row::Found,
                (OpKind::Delete, Row::Deleted) if deletes && shape.plan.deleted_by_cascade => {
                    edits.push((at, Edit::Twice));
                    Row::Deleted
                }
                // The store refuses it.
                (OpKind::Delete, Row::Deleted) if deletes => Row::Deleted,
                (_, Row::Deleted) => return Err(Unproved::Gone.fault(&shape.plan)),
                (_, Row::Moved) => return Err(Unproved::KeyChanged.fault(&shape.plan)),
                (OpKind::Delete | OpKind::MoveFrom, Row::Found) if deletes => Row::Deleted,
                (OpKind::Delete | OpKind::MoveFrom, Row::Found) => Row::Moved,
                (OpKind::Delete | OpKind::MoveFrom, Row::Changed(then, now)) => {
                    self.ends(index, at, (op, shape), &then, &now, edits)?;
                    if deletes { Row::Deleted } else { Row::Moved }
                }
                (_, Row::Found) => {
                    let then = self.before(shape, op)?;
                    let mut now = then.clone();
                    now.put(&self.after(shape, op)?);
                    Row::Changed(then, now)
                }
                (_, Row::Changed(then, now)) => {
                    let now = self.changes(at, (op, shape), &then, now, edits)?;
                    Row::Changed(then, now)
                }
            };
        }
        Ok(())
    }

    /// Settles a deletion, or the first half of an update that changes the key, of a row that the statement changed.
    fn ends(
        &self,
        index: &Index,
        at: At,
        (op, shape): (&RowOp, &Shape),
        then: &RowView<'w>,
        now: &RowView<'w>,
        edits: &mut Vec<(At, Edit)>,
    ) -> Result<(), Fault> {
        let plan = &shape.plan;
        let before = self.before(shape, op)?;
        let read_at = ReadAt::of(plan, (&before, None), then, now).map_err(|why| why.fault(plan))?;
        if read_at == ReadAt::Now {
            return Ok(());
        }
        edits.push((at, Edit::Unchecked));
        if shape.deletes() {
            return Ok(());
        }
        let new_half = index.new_halves.get(&(op.key.offset, op.key.len)).copied();
        let new = new_half.filter(|_| op.kind == OpKind::Delete).and_then(|at| Some((at, self.op(at)?)));
        let Some((new_at, new)) = new else { return Err(Unproved::NotKnown.fault(plan)) };
        let written =
            written(plan, &before, &self.view(plan, Span::default(), new.after)?).map_err(|why| why.fault(plan))?;
        let mut row = now.clone();
        row.put(&written);
        let image = row.to_image().ok_or_else(|| Unproved::NotKnown.fault(plan))?;
        edits.push((new_at, Edit::Image(image)));
        Ok(())
    }

    /// Settles an update, with the same key, of a row that the statement has changed. Returns the row after it.
    fn changes(
        &self,
        at: At,
        (op, shape): (&RowOp, &Shape),
        then: &RowView<'w>,
        mut now: RowView<'w>,
        edits: &mut Vec<(At, Edit)>,
    ) -> Result<RowView<'w>, Fault> {
        let plan = &shape.plan;
        let (before, after) = (self.before(shape, op)?, self.after(shape, op)?);
        let read_at = ReadAt::of(plan, (&before, Some(&after)), then, &now).map_err(|why| why.fault(plan))?;
        if read_at == ReadAt::Now {
            now.put(&after);
            return Ok(now);
        }
        if op.kind == OpKind::MergeJson {
            return Err(Unproved::NotKnown.fault(plan));
        }
        let written = written(plan, &before, &after).map_err(|why| why.fault(plan))?;
        let (present, image) = written.to_partial();
        edits.push((at, Edit::Columns(present, image)));
        now.put(&written);
        Ok(now)
    }

    /// Settles the changes of one row of a table without a key. Only a row that can have no equal is known to be the
    /// one that a cascade changed; for others the store decides.
    fn keyless(
        &self,
        index: &Index,
        statement: u32,
        places: &[At],
        edits: &mut Vec<(At, Edit)>,
        more: &mut Vec<(RowOp, (OpKind, Vec<u8>))>,
    ) -> Result<(), Fault> {
        let Some((shape, first)) = places.first().and_then(|at| Some((self.shape(*at)?, self.op(*at)?))) else {
            return Ok(());
        };
        let plan = &shape.plan;
        let then = self.view(plan, Span::default(), first.key)?;
        if !plan.has_one_copy(&then) {
            return Ok(());
        }
        let half = |op: &RowOp| index.new_halves.get(&(op.key.offset, op.key.len)).copied();
        // What the first change made of it: gone, or the place of its new image.
        let mut first: Option<Option<At>> = None;
        for &at in places {
            let (Some(op), Some(shape)) = (self.op(at), self.shape(at)) else { continue };
            let deletes = shape.deletes();
            first = match (op.kind, first) {
                (OpKind::RemoveOne, None) => Some(half(op)),
                (OpKind::RemoveOne, Some(None)) if deletes && plan.deleted_by_cascade => {
                    edits.push((at, Edit::Twice));
                    Some(None)
                }
                (OpKind::RemoveOne, Some(None)) => return Err(Unproved::Gone.fault(plan)),
                (OpKind::RemoveOne, Some(Some(changed))) => {
                    let Some((now, (own_at, own))) =
                        self.op(changed).zip(half(op).and_then(|at| Some((at, self.op(at)?))))
                    else {
                        return Err(Unproved::KeyChanged.fault(plan));
                    };
                    if index.taken.contains_key(&(statement, now.hash)) {
                        return Err(Unproved::NotKnown.fault(plan));
                    }
                    let written = written(plan, &then, &self.view(plan, Span::default(), own.key)?)
                        .map_err(|why| why.fault(plan))?;
                    let mut row = self.view(plan, Span::default(), now.key)?;
                    row.put(&written);
                    let (old, new) = (self.out.find_bytes(now.key).map(<[u8]>::to_vec), row.to_image());
                    let (Some(old), Some(new)) = (old, new) else { return Err(Unproved::NotKnown.fault(plan)) };
                    edits.extend([(at, Edit::Twice), (own_at, Edit::Twice)]);
                    if old != new {
                        more.push((*op, (OpKind::RemoveOne, old)));
                        more.push((*op, (OpKind::AddOne, new)));
                    }
                    // A third change is not proved.
                    return Ok(());
                }
                _ => return Ok(()),
            };
        }
        Ok(())
    }
}

fn carry_out(work: &mut Work<'_>, at: At, edit: Edit) -> Result<(), Fault> {
    let side_from = work.out.side.len();
    let mut shape = None;
    let after = match &edit {
        Edit::Twice | Edit::Unchecked => None,
        Edit::Image(image) => {
            work.out.side.extend_from_slice(image);
            Some(work.side_span(side_from)?)
        }
        Edit::Columns(present, image) => {
            work.out.side.extend_from_slice(present);
            let present = work.side_span(side_from)?;
            let image_from = work.out.side.len();
            work.out.side.extend_from_slice(image);
            let after = work.side_span(image_from)?;
            let of = op_mut(&mut work.out, at).map_or(0, |op| op.shape);
            if let Some(model) = work.out.shapes.get(of as usize) {
                let changed = Shape { after_present: present, ..model.clone() };
                shape = Some(short(work.out.shapes.len()));
                work.out.shapes.push(changed);
            }
            Some(after)
        }
    };
    let Some(op) = op_mut(&mut work.out, at) else { return Ok(()) };
    op.flags |= if matches!(edit, Edit::Unchecked) { BEFORE_UNCHECKED } else { LOGGED_TWICE | BEFORE_UNCHECKED };
    if let Some(after) = after {
        op.after = after;
    }
    if let Some(shape) = shape {
        (op.shape, op.kind) = (shape, OpKind::Merge);
    }
    Ok(())
}

fn op_mut(out: &mut DecodedPiece, (list, index): At) -> Option<&mut RowOp> {
    let lanes = out.lanes.len();
    let ops = if list == lanes { &mut out.barrier } else { out.lanes.get_mut(list)? };
    ops.get_mut(index)
}

/// Adds a change of a table without a key, after those of `model`'s statement.
fn insert(work: &mut Work<'_>, model: RowOp, (kind, key): &(OpKind, Vec<u8>)) -> Result<(), Fault> {
    let side_from = work.out.side.len();
    work.out.side.extend_from_slice(key);
    let key_span = work.side_span(side_from)?;
    let Some(table) = work.out.find_shape(&model).map(|shape| shape.plan.def.id) else { return Ok(()) };
    let after = if *kind == OpKind::AddOne { key_span } else { Span::default() };
    let flags = model.flags & !(LAST_OF_EVENT | LOGGED_TWICE);
    let hash = key_hash(table.0, key);
    let op = RowOp { hash, key: key_span, before: Span::default(), after, kind: *kind, flags, ..model };
    let place = |ops: &[RowOp]| ops.partition_point(|other| other.statement <= model.statement);
    // Barriers come after all lanes, and from the first one on everything keeps log order.
    let barrier = place(&work.out.barrier);
    if barrier > 0 {
        work.out.barrier.insert(barrier, op);
    } else {
        let lane = lane_of(hash, work.out.lanes.len());
        if let Some(ops) = work.out.lanes.get_mut(lane) {
            let at = place(ops);
            ops.insert(at, op);
        }
    }
    Ok(())
}
