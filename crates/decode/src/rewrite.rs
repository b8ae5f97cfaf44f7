//! Table rewrites: the rows that an ALTER TABLE rewrites, moves or removes, as row changes of the resulting table.
//!
//! In: stored rows as they were before the statement. Out: slices of the statement's own transaction, with changes in
//! lanes as if they came from the log. Never here: reading stored rows (the caller passes them in); a guessed value; a
//! rewrite that was not checked (invariant 29).

use std::sync::Arc;

use base::{key_hash, lane_of};
use catalog::{
    Catalog, KeyPlace, PartitionChoice, PartitionFinder, Rewrite, RowConversion, RowKey, RowNumbers, TableDef,
};
use observe::LedgerBatch;

use crate::piece::{DecodedPiece, OpKind, Piece, RowOp, SPACE_BYTES, Shape, Span, rest, short};
use crate::plan::TablePlan;
use crate::sequence::SequencedPiece;
use crate::stop::{Stop, StopClass, defect_reason};

/// Why a row, or a table, cannot be rewritten.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NotRewritten {
    /// The partition of a row, or a value of it under the new definition, cannot be determined; the reason.
    Unknown(String),
    /// The rewrite itself, or this rewriter, is broken; the reason of the stop.
    Defect(String),
}

impl NotRewritten {
    #[cold]
    #[track_caller]
    fn defect(what: &str) -> NotRewritten {
        NotRewritten::Defect(defect_reason(what))
    }
}

impl From<String> for NotRewritten {
    fn from(reason: String) -> NotRewritten {
        NotRewritten::Unknown(reason)
    }
}

/// Collects the row changes of one statement.
pub struct Rewriter {
    task: Option<Task>,
    shapes: Vec<Shape>,
    lanes: Vec<Vec<RowOp>>,
    side: Vec<u8>,
    rows: u64,
    /// Number of changes since the last slice.
    ops: u64,
    offsets: Vec<(u32, u32)>,
    built: Vec<u8>,
}

/// What to do with the rows passed in.
struct Task {
    plan: Arc<TablePlan>,
    conversion: RowConversion,
    numbers: Option<RowNumbers>,
    key: RowKey,
    /// Restricts the rewrite to rows of these partitions; the error says why a row's partition cannot be determined.
    only: Option<InPartitions>,
    /// Where every row must belong.
    within: Option<InPartitions>,
    kind: OpKind,
}

/// Some partitions, and how a row's partition is found; the error says why it cannot be.
struct InPartitions {
    finder: Result<PartitionFinder, String>,
    chosen: Vec<usize>,
}

impl InPartitions {
    fn new(table: &TableDef, choice: &PartitionChoice) -> InPartitions {
        InPartitions { finder: PartitionFinder::new(table, &choice.partitioning), chosen: choice.chosen.clone() }
    }

    /// True if the row belongs there; None if it belongs to no partition.
    fn hold(&self, image: &[u8], offsets: &mut Vec<(u32, u32)>) -> Result<Option<bool>, String> {
        let partition = self.finder.as_ref().map_err(Clone::clone)?.rightful(image, offsets)?;
        Ok(partition.map(|partition| self.chosen.contains(&partition)))
    }
}

impl Rewriter {
    /// Creates a rewriter with no changes.
    #[must_use]
    pub fn new(lanes: usize) -> Rewriter {
        Rewriter {
            task: None,
            shapes: Vec::new(),
            lanes: std::iter::repeat_with(Vec::new).take(lanes).collect(),
            side: Vec::new(),
            rows: 0,
            ops: 0,
            offsets: Vec::new(),
            built: Vec::new(),
        }
    }

    /// Starts a table: the following rows are for `rewrite`. `before` and `catalog` are the ones before and after the
    /// statement.
    ///
    /// # Errors
    /// A defect, if the rewrite is not one of these catalogs, or leaves columns without values.
    pub fn begin(&mut self, rewrite: &Rewrite, before: &Catalog, catalog: &Catalog) -> Result<(), NotRewritten> {
        self.task = None;
        let checked = rewrite.check().and_then(|()| rewrite.check_tables(before, catalog));
        checked.map_err(|what| NotRewritten::defect(&what))?;
        let plan = Arc::new(TablePlan::new(&rewrite.to, catalog));
        let key = RowKey::new(&rewrite.to);
        let kind = match (rewrite.removes, key.is_whole_image()) {
            (true, true) => OpKind::RemoveOne,
            (true, false) => OpKind::Delete,
            (false, true) => OpKind::AddOne,
            (false, false) => OpKind::Insert,
        };
        let (before_present, after_present) = (Span::default(), Span::default());
        let event_type = binlog::event_type::QUERY;
        self.shapes.push(Shape { plan: Arc::clone(&plan), event_type, before_present, after_present });
        let only = rewrite.only.as_ref().map(|choice| InPartitions::new(&rewrite.from, choice));
        let within = rewrite.within.as_ref().map(|choice| InPartitions::new(&rewrite.to, choice));
        let (from, to) = (rewrite.from.column_types(), rewrite.to.column_types());
        let conversion = RowConversion::new(&from, &to, &rewrite.sources);
        let numbers = rewrite.numbering.as_ref().map(|rule| RowNumbers::new(rule, &rewrite.from, &rewrite.to));
        self.task = Some(Task { plan, conversion, numbers, key, only, within, kind });
        Ok(())
    }

    /// The numbering of the rows, if they are numbered: they are surveyed first, and its order matters.
    #[must_use]
    pub fn numbers(&mut self) -> Option<&mut RowNumbers> {
        self.task.as_mut()?.numbers.as_mut()
    }

    /// Surveys a row of the old table before its number is given. False if no other row needs it.
    ///
    /// # Errors
    /// As [`row`](Self::row).
    pub fn survey(&mut self, image: &[u8]) -> Result<bool, NotRewritten> {
        let Some(Task { conversion, numbers: Some(numbers), .. }) = &mut self.task else { return Ok(false) };
        self.built.clear();
        let converted = conversion.append(image, &mut self.offsets, &mut self.built);
        converted.map_err(|error| error.to_string())?;
        Ok(numbers.survey(image, &self.built)?)
    }

    /// Takes one copy of a row of the old table.
    ///
    /// # Errors
    /// The reason, if its partition, or a value of it under the new definition, cannot be determined.
    pub fn row(&mut self, image: &[u8]) -> Result<(), NotRewritten> {
        let Some(task) = &mut self.task else { return Err(NotRewritten::defect("a row of no table to rewrite")) };
        if let Some(only) = &task.only
            && !only.hold(image, &mut self.offsets)?.ok_or_else(|| "a row that no partition takes".to_owned())?
        {
            return Ok(());
        }
        let from = self.side.len();
        let converted = task.conversion.append(image, &mut self.offsets, &mut self.side);
        converted.map_err(|error| error.to_string())?;
        if let Some(numbers) = &mut task.numbers {
            let Some(new) = self.side.get_mut(from..) else { return Err(NotRewritten::defect("a row without bytes")) };
            numbers.number(image, new)?;
        }
        let len = self.side.len() - from;
        self.built.clear();
        let new = rest(&self.side, from);
        if let Some(within) = &task.within
            && within.hold(new, &mut self.offsets)? != Some(true)
        {
            let why = "EXCHANGE PARTITION … WITHOUT VALIDATION brings rows outside the partition's rule";
            return Err(why.to_owned().into());
        }
        let place = task.key.find(new, &mut self.offsets, &mut self.built).map_err(|error| error.to_string())?;
        let key = match place {
            KeyPlace::Image { start, len } => side_span(from + start, len),
            KeyPlace::Built => {
                let at = self.side.len();
                self.side.extend_from_slice(&self.built);
                side_span(at, self.built.len())
            }
        };
        if self.side.len() > SPACE_BYTES {
            return Err("a row of more than 1 GiB".to_owned().into());
        }
        self.push(key, side_span(from, len))
    }

    /// Adds the change of the row with this key and image.
    fn push(&mut self, key: Span, image: Span) -> Result<(), NotRewritten> {
        let Some(task) = &self.task else { return Err(NotRewritten::defect("a row of no table to rewrite")) };
        let at = (key.offset & !Span::SIDE) as usize;
        let Some(key_bytes) = self.side.get(at..at + key.len as usize) else {
            let what = format!("a key at {at}, of {} bytes, in {} of rewritten rows", key.len, self.side.len());
            return Err(NotRewritten::defect(&what));
        };
        let hash = key_hash(task.plan.def.id.0, key_bytes);
        let none = Span::default();
        let (before, after) = match task.kind {
            OpKind::Delete | OpKind::RemoveOne => (image, none),
            _ => (none, image),
        };
        let shape = short(self.shapes.len() - 1);
        let op = RowOp { hash, key, before, after, transaction: 0, shape, statement: 0, kind: task.kind, flags: 0 };
        let (lane, lanes) = (lane_of(hash, self.lanes.len()), self.lanes.len());
        let Some(ops) = self.lanes.get_mut(lane) else {
            return Err(NotRewritten::defect(&format!("lane {lane} of {lanes}")));
        };
        ops.push(op);
        self.ops += 1;
        self.rows += 1;
        Ok(())
    }

    /// Bytes collected since the last slice.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.side.len() + self.lanes.iter().map(Vec::len).sum::<usize>() * size_of::<RowOp>()
    }

    /// Total of rows taken so far.
    #[must_use]
    pub fn rows(&self) -> u64 {
        self.rows
    }

    /// Returns the changes collected so far as a slice of the transaction of `of`, with more to come. `continues`: it
    /// is not the first slice.
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
            cut_statement: false,
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
            shapes: self.shapes.clone(),
            transactions,
            lanes,
            barrier: Vec::new(),
            ops: std::mem::take(&mut self.ops),
            ledger: Box::new(LedgerBatch::new()),
            stop: None,
            needs_serial: false,
            catalog_version: whole.catalog_version,
            unknown: Vec::new(),
        };
        SequencedPiece {
            decoded,
            first: of.first,
            catalogs: Vec::new(),
            dropped: Vec::new(),
            altered: Vec::new(),
            rewrites: Vec::new(),
            prepared: Arc::clone(&of.prepared),
        }
    }

    /// Moves the remaining changes into the piece that holds the statement.
    pub fn finish(self, into: &mut SequencedPiece) {
        into.decoded.shapes = self.shapes;
        into.decoded.side = self.side;
        into.decoded.lanes = self.lanes;
        into.decoded.ops = self.ops;
    }
}

fn side_span(at: usize, len: usize) -> Span {
    Span { offset: Span::SIDE | short(at), len: short(len) }
}

impl SequencedPiece {
    /// True if its table rewrite can be done: the piece holds nothing but the statement's transaction.
    #[must_use]
    pub fn can_rewrite(&self) -> bool {
        let decoded = &self.decoded;
        decoded.transactions.len() == 1
            && !decoded.piece.continues
            && !decoded.piece.unfinished
            && decoded.lanes.iter().all(Vec::is_empty)
            && decoded.barrier.is_empty()
    }

    /// Returns the piece without its changes, stopping replay before it because of a broken invariant.
    #[must_use]
    #[track_caller]
    pub fn broken(self, what: &str) -> SequencedPiece {
        let reason = defect_reason(what);
        self.refused(StopClass::Defect, reason)
    }

    /// Returns the piece without its changes, stopping replay before it.
    #[must_use]
    pub fn refused(mut self, class: StopClass, reason: String) -> SequencedPiece {
        let decoded = &mut self.decoded;
        let transaction = decoded.transactions.first();
        let start = transaction.map_or(decoded.piece.start, |transaction| transaction.start);
        let gtid = transaction.and_then(|transaction| transaction.gtid).or(decoded.piece.begun.gtid);
        decoded.stop = Some(Stop { class, position: decoded.piece.position(start), gtid, reason });
        decoded.transactions.clear();
        decoded.lanes.iter_mut().for_each(Vec::clear);
        decoded.barrier.clear();
        decoded.ops = 0;
        let seen = std::mem::take(&mut decoded.ledger);
        decoded.ledger.add_all_as(&seen, observe::Category::Seen, observe::Category::Seen);
        decoded.ledger.add_all_as(&seen, observe::Category::Seen, observe::Category::Refused);
        self.catalogs.clear();
        self.dropped.clear();
        self.altered.clear();
        self.rewrites.clear();
        self
    }
}

#[cfg(test)]
mod tests {
    use catalog::{DdlEffect, StatementContext};

    use super::*;

    /// The rewrite of a table, between the snapshots before and after it.
    fn rewrite() -> (Rewrite, Catalog, Catalog) {
        let context = StatementContext { default_db: "d".into(), ..StatementContext::default() };
        let before = Catalog::new(0).apply(&context, b"CREATE TABLE t (i INT PRIMARY KEY, j INT)").unwrap().catalog;
        let outcome = before.apply(&context, b"ALTER TABLE t MODIFY i BIGINT").unwrap();
        let DdlEffect::Changed { mut rewritten, .. } = outcome.effect else { panic!("not a change") };
        (rewritten.remove(0), before, outcome.catalog)
    }

    fn told(begun: Result<(), NotRewritten>) -> String {
        match begun {
            Err(NotRewritten::Defect(what)) => what,
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn a_rewrite_is_checked_before_its_rows_come() {
        let (rewrite, before, after) = rewrite();
        let mut rewriter = Rewriter::new(1);
        rewriter.begin(&rewrite, &before, &after).unwrap();
        rewriter.row(&[0, 1, 0, 0, 0, 2, 0, 0, 0]).unwrap();
        assert_eq!(rewriter.rows(), 1);
        let fewer = Rewrite { sources: rewrite.sources.get(..1).unwrap().to_vec(), ..rewrite.clone() };
        let what = told(rewriter.begin(&fewer, &before, &after));
        assert!(
            what.starts_with("1 sources for 2 columns out of 2 in the rewrite of `d`.`t` (crates/decode/"),
            "{what}"
        );
        let what = told(rewriter.row(&[0, 1, 0, 0, 0, 2, 0, 0, 0]));
        assert!(what.starts_with("a row of no table to rewrite ("), "{what}");
        let what = told(rewriter.begin(&rewrite, &after, &after));
        assert!(what.contains("which is not the table before the statement"), "{what}");
        let what = told(rewriter.begin(&rewrite, &before, &before));
        assert!(what.contains("which is not the table after the statement"), "{what}");
        assert_eq!(rewriter.rows(), 1);
    }
}
