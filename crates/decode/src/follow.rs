//! Following one table: the log's changes to a copied table, decoded beside replay.
//!
//! In: chunks of the relay log, starting before the copy's GTID set, and the table's definition at the copy. Out:
//! pieces with the changes of this table alone, under the id of the copy, in log order. Never here: a change of a
//! transaction that the copy already holds; a row after a statement that changes the table (following ends there, and
//! the table must be copied again); another table's rows.

use std::sync::Arc;

use base::{Buffer, Gtid, GtidSet, Prepared, PreparedSet};
use catalog::{Catalog, DdlEffect, NamedTable, ReplicationFilters, StatementContext, TableDef, Written};

use crate::decode::{DecodeOptions, Decoder, Statement, StatementOutcome, StatementSink};
use crate::memory::MemoryGate;
use crate::piece::{DecodedPiece, SkipReason};
use crate::sequence::{context_of, hold_prepared};
use crate::skip::SkipList;
use crate::split::Splitter;
use crate::stop::{Stop, StopClass};

/// Why following a table ended.
#[derive(Debug)]
pub enum FollowEnd {
    /// A statement changed the table; the text quotes it.
    Changed(String),
    /// A statement changed its rows as text, and more such statements may follow.
    Written(String),
    /// The log cannot be read any further.
    Stop(Box<Stop>),
}

/// Decodes the changes of one table from the log.
pub struct TableFollower {
    splitter: Splitter,
    decoder: Decoder,
    state: FollowState,
}

struct FollowState {
    /// Holds this table, and the MERGE tables through which it is written.
    catalog: Catalog,
    def: Arc<TableDef>,
    /// GTIDs that the copy holds, and those followed since.
    executed: GtidSet,
    skip: SkipList,
    /// Why the open (sliced) transaction is left out, if it is.
    continued: Option<SkipReason>,
    changed: Option<String>,
    /// True if `changed` is a statement that changed rows as text.
    written: bool,
    filters: Arc<ReplicationFilters>,
    prepared: PreparedSet,
    /// Events kept of the XA transaction being read.
    aside: Option<Vec<u8>>,
}

impl TableFollower {
    /// Creates a follower of `def`, whose rows were copied at `copied`. `catalog` may be any catalog of the source;
    /// only its rule for comparing names is used. Pieces reserve memory in `gate`.
    #[must_use]
    pub fn new(
        mut options: DecodeOptions,
        gate: Arc<MemoryGate>,
        catalog: &Catalog,
        def: Arc<TableDef>,
        copied: GtidSet,
    ) -> TableFollower {
        options.known_only = true;
        let state = FollowState {
            catalog: catalog.alone(&def),
            def,
            executed: copied,
            skip: options.skip.clone(),
            continued: None,
            changed: None,
            written: false,
            filters: Arc::clone(&options.filters),
            prepared: PreparedSet::default(),
            aside: None,
        };
        TableFollower { splitter: Splitter::new(gate), decoder: Decoder::new(options), state }
    }

    /// True if only whole images tell the table's rows apart although the source's images may hold less.
    #[must_use]
    pub fn needs_whole_images(&self) -> bool {
        self.state.def.misplaced_rows
    }

    /// Takes the next bytes of the log and passes every piece that changes the table to `emit`, which returns false
    /// to stop.
    ///
    /// # Errors
    /// [`FollowEnd`] when the table cannot be followed any further.
    pub fn step(
        &mut self,
        file: &Arc<str>,
        offset: u64,
        data: &Arc<Buffer>,
        emit: &mut dyn FnMut(DecodedPiece) -> bool,
    ) -> Result<(), FollowEnd> {
        let TableFollower { splitter, decoder, state } = self;
        let mut failed = None;
        let split = splitter.step(file, offset, data, false, &mut |piece| {
            let unfinished = piece.unfinished;
            let mut decoded = decoder.decode_ordered(piece, state);
            state.continued = decoded.transactions.last().filter(|_| unfinished).and_then(|last| last.skipped);
            if let Some(stop) = decoded.stop.take() {
                failed = Some(stop);
                return false;
            }
            if decoded.lanes.iter().all(Vec::is_empty) && decoded.barrier.is_empty() {
                decoder.recycle(decoded.into());
                return true;
            }
            emit(decoded)
        });
        if let Some(changed) = self.state.changed.take() {
            return Err(if self.state.written { FollowEnd::Written(changed) } else { FollowEnd::Changed(changed) });
        }
        match (failed, split) {
            (Some(stop), _) => Err(FollowEnd::Stop(Box::new(stop))),
            (None, Err(stop)) => Err(FollowEnd::Stop(stop)),
            (None, Ok(())) => Ok(()),
        }
    }

    /// Ends the relay file.
    ///
    /// # Errors
    /// When the file ends inside a transaction.
    pub fn end_of_file(&mut self) -> Result<(), FollowEnd> {
        self.splitter.end_of_file().map_err(FollowEnd::Stop)
    }
}

impl FollowState {
    /// True for a MERGE table through which the table is written.
    fn merges(&self, other: &TableDef) -> bool {
        other.members().any(|(db, name)| self.catalog.table(&db, &name).is_some_and(|member| member.id == self.def.id))
    }
}

impl StatementSink for FollowState {
    fn catalog(&self) -> (Catalog, u64) {
        (self.catalog.clone(), 0)
    }

    fn continued(&self) -> Option<SkipReason> {
        self.continued
    }

    fn admit(&mut self, gtid: Gtid) -> Option<SkipReason> {
        if !self.executed.add(gtid) {
            return Some(SkipReason::AlreadyExecuted);
        }
        self.skip.current().contains(&gtid).then_some(SkipReason::Operator)
    }

    fn aside(&mut self) -> &mut Option<Vec<u8>> {
        &mut self.aside
    }

    fn prepare(&mut self, xid: String, gtid: Option<Gtid>, _: usize) -> Result<(), String> {
        let events = self.aside.take().unwrap_or_default();
        hold_prepared(&mut self.prepared, xid, Prepared { number: 0, gtid, events })
    }

    /// A transaction prepared before the copy has no rows of this table: its lock would have blocked the copy.
    fn resolve(&mut self, xid: &str) -> Option<Arc<Prepared>> {
        let none = || Arc::new(Prepared { number: 0, gtid: None, events: Vec::new() });
        Some(Arc::make_mut(&mut self.prepared).remove(xid).unwrap_or_else(none))
    }

    /// Refuses: the changes followed here are the copy's own.
    fn leave_to_copy(&mut self, _: &NamedTable, _: usize, _: &str) -> bool {
        false
    }

    /// Refuses: of another table no rows are decoded here.
    fn leave_missing(&mut self, _: &NamedTable, _: usize) -> bool {
        false
    }

    fn written_through(&mut self, _: &NamedTable, _: usize, why: &str) -> bool {
        self.written = true;
        self.changed = Some(why.to_owned());
        false
    }

    fn apply(&mut self, statement: Statement<'_>) -> Result<StatementOutcome, (StopClass, String)> {
        let (context, sql) = (context_of(&statement, &self.filters, &self.catalog), statement.query.sql);
        let written = self.catalog.written(&context, sql);
        self.written = matches!(&written, Some(Written::Tables(tables)) if !tables.is_empty());
        let changes = match self.catalog.apply(&context, sql) {
            _ if written.is_some() => self.written,
            Ok(outcome) => match outcome.effect {
                DdlEffect::Changed { created, dropped, altered, .. } => {
                    let concerned =
                        |id| id == self.def.id || self.catalog.table_by_id(id).is_some_and(|t| self.merges(t));
                    dropped.iter().any(|id| concerned(*id))
                        || altered.iter().chain(&created).any(|table| concerned(table.id) || self.merges(table))
                }
                DdlEffect::NoEffect(_) | DdlEffect::Recorded(_) => false,
            },
            // Most such statements name tables that this catalog does not hold. One that cannot be interpreted may
            // concern this table.
            Err(_) => names(&context, sql, &self.def.name),
        };
        if !changes {
            return Ok(StatementOutcome::NoEffect);
        }
        let text = catalog::masked(&String::from_utf8_lossy(statement.query.sql));
        self.changed = Some(text.chars().take(200).collect());
        Err((StopClass::NotSupported, String::new()))
    }
}

/// True if the name occurs anywhere in the statement.
fn names(context: &StatementContext, sql: &[u8], name: &str) -> bool {
    catalog::statement_text(context, sql).to_lowercase().contains(&name.to_lowercase())
}
