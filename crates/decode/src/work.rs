//! A piece being decoded: its open transaction, the events counted, the changes sorted into lanes.
//!
//! Never here: parsing of events (`decode`, `rows`).

use std::sync::Arc;

use base::{Gtid, GtidSet, key_hash, lane_of};
use binlog::{ChecksumAlgorithm, EventHeader, RowsEvent};
use catalog::{Catalog, NamedTable, TableDef};
use observe::Category;

use crate::decode::{Fault, StatementSink, unsupported};
use crate::piece::{
    Begun, CASCADE_GONE, CASCADE_NEW, CASCADE_OLD, DecodedPiece, LAST_OF_EVENT, OpKind, RowOp, SPACE_BYTES, Shape,
    SkipReason, Span, Transaction, TransactionKind, part, rest, short,
};
use crate::plan::TablePlan;
use crate::skip::LeftOutEvents;
use crate::stop::Stop;
use crate::twice::Statements;

/// How many recent shapes are searched for an equal one: single-row statements often alternate between a few tables.
const SHAPES_BACK: usize = 8;

/// Meaning of a table id in the open transaction.
#[derive(Clone)]
pub(crate) struct TableMapEntry {
    pub table_id: u64,
    /// None for a table whose rows are left out. A fault counts only if rows follow: sources also map tables that a
    /// foreign key merely references.
    pub plan: Result<Option<Arc<TablePlan>>, Fault>,
    /// How its rows are handled if they are left out.
    pub left_out: LeftOut,
    /// Set for a MERGE table.
    pub merged: Option<Arc<Merged>>,
    /// Its name, if the catalog does not hold it and its copy is to bring its rows.
    pub missing: Option<Arc<NamedTable>>,
    /// Its name; None unless decoding is for stamps.
    pub name: Option<Arc<NamedTable>>,
}

/// A MERGE table, whose rows events change its members.
pub(crate) struct Merged {
    pub def: Arc<TableDef>,
    /// Its members, those that the catalog does not hold aside.
    pub members: Vec<NamedTable>,
    /// True if an INSERT of whole rows goes where the table map's entry says.
    pub inserts: bool,
}

/// Handling of rows that are left out.
#[derive(Clone, Copy)]
pub(crate) struct LeftOut {
    /// Category under which they are counted.
    pub category: Category,
    /// True if they make foreign keys change rows of tables that are not left out.
    pub cascades: bool,
}

pub(crate) struct Open {
    pub begun: Begun,
    pub start: usize,
    pub rows: u32,
    pub kind: TransactionKind,
    pub skipped: Option<SkipReason>,
    /// True if it has a BEGIN, so that a statement does not end it.
    pub bracketed: bool,
    /// True if earlier slices of it were handed on.
    pub sliced: bool,
    pub savepoints: Vec<Savepoint>,
}

/// Lengths of the piece's op lists at a savepoint.
pub(crate) struct Savepoint {
    name: Vec<u8>,
    lanes: Vec<usize>,
    barrier: usize,
}

pub(crate) struct Work<'s> {
    pub out: DecodedPiece,
    pub open: Option<Open>,
    pub tables: Vec<TableMapEntry>,
    pub skip: Arc<GtidSet>,
    /// Summaries of transactions that the operator wants left out; the last one is of the open transaction.
    pub held: Vec<(Gtid, LeftOutEvents)>,
    /// Events since the last transaction ended, each with its category (`Seen`: a worker counts its outcome).
    pub counts: Vec<(u8, Category)>,
    pub checksum: ChecksumAlgorithm,
    /// Offset in the data of the current top-level event, for messages.
    pub at: usize,
    pub sink: Option<&'s mut dyn StatementSink>,
    pub catalog: Catalog,
    pub statements: Statements,
}

/// Unlogged foreign key actions that follow from the row being decoded.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Cascade {
    No,
    OnUpdate,
    OnDelete,
}

#[derive(Clone, Copy)]
pub(crate) enum Place {
    Lane(usize),
    Barrier,
}

/// A rows event being decoded.
pub(crate) struct RowsWork<'a> {
    pub shape: u32,
    pub plan: &'a TablePlan,
    /// The images of all its rows.
    pub all: &'a [u8],
    /// Span offset of `all[0]`.
    pub base: u32,
    pub before_present: &'a [u8],
    pub after_present: &'a [u8],
    pub before_full: bool,
    pub after_full: bool,
    /// Flags of its ops about cascades that the log holds.
    pub flags: u8,
    /// True if the ops must keep log order with those at barriers, which change the same rows.
    pub in_log_order: bool,
    /// Whether the row's change affects rows of other tables that the log does not contain.
    pub cascade: Cascade,
    /// Place of the event's last op.
    pub last: Option<(Place, usize)>,
}

impl RowsWork<'_> {
    /// Returns the span of a range in `all`.
    pub(crate) fn span(&self, at: usize, len: usize) -> Span {
        Span { offset: self.base + short(at), len: short(len) }
    }
}

pub(crate) fn all_present(bitmap: &[u8], columns: usize) -> bool {
    let (whole, rest) = (columns / 8, columns % 8);
    // Bits after the last column belong to hidden columns of functional indexes.
    bitmap.len() >= columns.div_ceil(8)
        && bitmap.iter().take(whole).all(|b| *b == 0xff)
        && (rest == 0 || bitmap.get(whole).is_some_and(|b| b | (0xffu8 << rest) == 0xff))
}

impl Work<'_> {
    pub(crate) fn open_transaction(&mut self, begun: Begun, start: usize) {
        self.tables.clear();
        self.open = Some(Open {
            begun,
            start,
            rows: 0,
            kind: TransactionKind::Rows,
            skipped: None,
            bracketed: false,
            sliced: false,
            savepoints: Vec::new(),
        });
    }

    /// Counts the events since the last call, and closes the open transaction, if any.
    pub(crate) fn close_transaction(&mut self, end: usize) {
        for (event_type, category) in self.counts.drain(..) {
            self.out.ledger.add(event_type, Category::Seen, 1);
            if category != Category::Seen {
                self.out.ledger.add(event_type, category, 1);
            }
        }
        let Some(open) = self.open.take() else { return };
        self.out.transactions.push(Transaction {
            gtid: open.begun.gtid,
            commit_us: open.begun.commit_us,
            start: open.start,
            end,
            rows: open.rows,
            kind: open.kind,
            skipped: open.skipped,
        });
        self.tables.clear();
    }

    /// Notes an event of the open transaction, to be counted as seen and as `category` (`Seen`: a worker counts its
    /// outcome).
    pub(crate) fn count(&mut self, event_type: u8, category: Category) {
        self.counts.push((event_type, category));
    }

    /// Adds an event to the summary of a transaction that the operator wants left out.
    pub(crate) fn note_held(&mut self, header: &EventHeader, body: &[u8]) {
        let Some(open) = self.open.as_ref().filter(|open| open.skipped == Some(SkipReason::Operator)) else { return };
        let Some(gtid) = open.begun.gtid else { return };
        if self.held.last().is_none_or(|(last, _)| *last != gtid) {
            self.held.push((gtid, LeftOutEvents::default()));
        }
        if let Some((_, held)) = self.held.last_mut() {
            held.event(header, body);
        }
    }

    /// Undoes the open transaction and stops replay before it.
    pub(crate) fn fail(&mut self, (class, reason): Fault, event_type: Option<u8>) {
        let index = short(self.out.transactions.len());
        for ops in self.out.lanes.iter_mut().chain(std::iter::once(&mut self.out.barrier)) {
            while ops.last().is_some_and(|op| op.transaction == index) {
                ops.pop();
            }
        }
        let refused = self.counts.drain(..).map(|(event_type, _)| event_type).chain(event_type);
        for event_type in refused {
            self.out.ledger.add(event_type, Category::Seen, 1);
            self.out.ledger.add(event_type, Category::Refused, 1);
        }
        self.out.stop = Some(Stop {
            class,
            position: self.out.piece.position(self.at),
            gtid: self.open.as_ref().and_then(|open| open.begun.gtid),
            reason,
        });
    }

    pub(crate) fn savepoint(&mut self, sql: &[u8]) {
        let mark = Savepoint {
            name: savepoint_name(sql),
            lanes: self.out.lanes.iter().map(Vec::len).collect(),
            barrier: self.out.barrier.len(),
        };
        if let Some(open) = &mut self.open {
            open.savepoints.push(mark);
        }
    }

    /// Handles ROLLBACK TO, or ROLLBACK of the whole transaction. Changes of tables that can roll back are undone, as
    /// on a MySQL replica; sources log a rollback if a table that cannot was changed too.
    pub(crate) fn roll_back(&mut self, to: Option<&[u8]>) -> Result<(), Fault> {
        let Some(open) = &mut self.open else { return Ok(()) };
        let index = short(self.out.transactions.len());
        let place = match to {
            Some(sql) => {
                let name = savepoint_name(sql);
                let at = open.savepoints.iter().rposition(|mark| mark.name.eq_ignore_ascii_case(&name));
                // The savepoint itself stays; later ones are released.
                open.savepoints.truncate(at.map_or(0, |at| at + 1));
                open.savepoints.last()
            }
            None => None,
        };
        if place.is_none() && (open.sliced || to.is_some()) {
            return Err(unsupported("a rollback in the log of changes that are already applied (more than 16 MiB)"));
        }
        let shapes = &self.out.shapes;
        let mut undone = Vec::new();
        let lanes = self.out.lanes.iter_mut().enumerate().map(|(at, ops)| (place.and_then(|p| p.lanes.get(at)), ops));
        for (from, ops) in lanes.chain(std::iter::once((place.map(|p| &p.barrier), &mut self.out.barrier))) {
            let first = ops.iter().rposition(|op| op.transaction != index).map_or(0, |last| last + 1);
            let mut at = from.copied().unwrap_or(first).max(first);
            while let Some(op) = ops.get(at) {
                let shape = shapes.get(op.shape as usize);
                if shape.is_some_and(|shape| shape.plan.rolls_back()) {
                    if op.flags & LAST_OF_EVENT != 0 {
                        undone.extend(shape.map(|shape| shape.event_type));
                    }
                    ops.remove(at);
                } else {
                    at += 1;
                }
            }
        }
        // No worker will count these.
        for event_type in undone {
            let waiting = |count: &&mut (u8, Category)| **count == (event_type, Category::Seen);
            if let Some(count) = self.counts.iter_mut().rev().find(waiting) {
                count.1 = Category::Control;
            }
        }
        Ok(())
    }

    /// Returns the index of the shape shared by this event's ops, reusing an equal recent one.
    pub(crate) fn shape(&mut self, event_type: u8, plan: &Arc<TablePlan>, event: &RowsEvent<'_>) -> Result<u32, Fault> {
        let columns = event.column_count;
        // An event has no bitmap for images that it does not hold.
        let full = |bits: &[u8]| bits.is_empty() || all_present(bits, columns);
        if full(event.before_columns) && full(event.after_columns) {
            let same = |shape: &Shape| {
                shape.event_type == event_type
                    && shape.before_present.len == 0
                    && shape.after_present.len == 0
                    && Arc::ptr_eq(&shape.plan, plan)
            };
            let back = self.out.shapes.len().saturating_sub(SHAPES_BACK);
            let recent = self.out.shapes.iter().skip(back);
            if let Some(found) = recent.into_iter().position(same) {
                return Ok(short(back + found));
            }
        }
        let mut bitmap = |bits: &[u8]| {
            if full(bits) {
                return Ok(Span::default());
            }
            let from = self.out.side.len();
            self.out.side.extend_from_slice(bits);
            side_span(&self.out.side, from)
        };
        let (before_present, after_present) = (bitmap(event.before_columns)?, bitmap(event.after_columns)?);
        self.out.shapes.push(Shape { plan: Arc::clone(plan), event_type, before_present, after_present });
        Ok(short(self.out.shapes.len() - 1))
    }

    pub(crate) fn side_span(&self, from: usize) -> Result<Span, Fault> {
        side_span(&self.out.side, from)
    }

    /// Returns the bytes of a span made while decoding the current event.
    pub(crate) fn bytes_of<'b>(&'b self, rows: &RowsWork<'b>, span: Span) -> &'b [u8] {
        let (of, from) = if span.offset & Span::SIDE != 0 {
            (self.out.side.as_slice(), (span.offset & !Span::SIDE) as usize)
        } else {
            (rows.all, (span.offset - rows.base) as usize)
        };
        part(of, from..from + span.len as usize)
    }

    /// Appends bytes `from..to` of a span to the side buffer.
    pub(crate) fn copy_to_side(&mut self, rows: &RowsWork<'_>, span: Span, from: usize, to: usize) {
        let at = span.offset as usize;
        if span.offset & Span::SIDE != 0 {
            let at = at & !(Span::SIDE as usize);
            self.out.side.extend_from_within(at + from..at + to);
        } else {
            let at = at - rows.base as usize;
            self.out.side.extend_from_slice(part(rows.all, at + from..at + to));
        }
    }

    fn op(&self, rows: &RowsWork<'_>, kind: OpKind, key: Span, before: Span, after: Span) -> RowOp {
        RowOp {
            hash: key_hash(rows.plan.def.id.0, self.bytes_of(rows, key)),
            key,
            before,
            after,
            transaction: short(self.out.transactions.len()),
            shape: rows.shape,
            statement: self.statements.number,
            kind,
            flags: rows.flags,
        }
    }

    pub(crate) fn push(&mut self, rows: &mut RowsWork<'_>, kind: OpKind, key: Span, before: Span, after: Span) {
        if !self.out.barrier.is_empty() || rows.cascade != Cascade::No || rows.in_log_order {
            // After a change that needs several lanes, everything keeps log order.
            self.push_barrier(rows, kind, key, before, after);
            return;
        }
        let op = self.op(rows, kind, key, before, after);
        let lane = lane_of(op.hash, self.out.lanes.len());
        let Some(ops) = self.out.lanes.get_mut(lane) else { panic!("lane {lane} of {}", self.out.lanes.len()) };
        rows.last = Some((Place::Lane(lane), ops.len()));
        ops.push(op);
    }

    pub(crate) fn push_barrier(&mut self, rows: &mut RowsWork<'_>, kind: OpKind, key: Span, before: Span, after: Span) {
        let mut op = self.op(rows, kind, key, before, after);
        op.flags |= cascade_flags(rows.cascade, kind);
        rows.last = Some((Place::Barrier, self.out.barrier.len()));
        self.out.barrier.push(op);
    }
}

/// Returns the cascade flags of an op. An update may be two ops: the end of the old row and the start of the new one.
fn cascade_flags(cascade: Cascade, kind: OpKind) -> u8 {
    use OpKind::{AddOne, Delete, Insert, Merge, MergeJson, MoveFrom, MoveTo, MoveToJson, RemoveOne, Update};
    match (cascade, kind) {
        (Cascade::No, _) => 0,
        (Cascade::OnDelete, _) => CASCADE_OLD | CASCADE_GONE,
        (Cascade::OnUpdate, Delete | RemoveOne | MoveFrom) => CASCADE_OLD,
        (Cascade::OnUpdate, Insert | AddOne | MoveTo | MoveToJson) => CASCADE_NEW,
        (Cascade::OnUpdate, Update | Merge | MergeJson) => CASCADE_OLD | CASCADE_NEW,
    }
}

/// Returns the name in SAVEPOINT or ROLLBACK TO, with its quotes.
fn savepoint_name(sql: &[u8]) -> Vec<u8> {
    let sql = sql.trim_ascii();
    let start = sql.iter().position(|byte| *byte == b'`').or_else(|| sql.iter().rposition(u8::is_ascii_whitespace));
    rest(sql, start.unwrap_or(0)).trim_ascii().to_vec()
}

fn side_span(side: &[u8], from: usize) -> Result<Span, Fault> {
    if side.len() > SPACE_BYTES {
        return Err(unsupported("a transaction slice whose keys and images take more than 1 GiB"));
    }
    Ok(Span { offset: Span::SIDE | short(from), len: short(side.len() - from) })
}
