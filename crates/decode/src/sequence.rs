//! Sequence: the one ordered CPU stage. Assigns sequence numbers, tracks executed GTIDs, keeps the catalog.
//!
//! In: decoded pieces, in any order. Out: pieces in log order with their sequence numbers. Never here: work per row
//! (except in serial pieces), a wait for a dependency.

use std::collections::BTreeMap;
use std::ops::Deref;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

use base::limits::PREPARED_BYTES_MAX;
use base::{Gtid, GtidSet, Prepared, PreparedSet, SequenceNumber};
use catalog::sql_mode;
use catalog::{
    Catalog, DdlEffect, Filtered, MISSING, Named, NamedTable, Quarantined, ReplicationFilters, Rewrite, SourceNames,
    StatementContext, TableDef, TableId, Written,
};
use values::collation::UTF8MB4_0900_AI_CI;

use crate::decode::{DecodeOptions, Decoder, Statement, StatementOutcome, StatementSink};
use crate::piece::{DecodedPiece, Piece, PieceKind, SkipReason, Transaction};
use crate::skip::{Sequenced, SkipList};
use crate::stop::{StopClass, defect_reason};
use crate::writes::StatementWrites;

mod beside_log;

/// Number of no piece: nothing is sequenced any more.
const NEVER: u64 = u64::MAX;
/// Longest excerpt of a statement in a message, in characters.
const STATEMENT_CHARS_MAX: usize = 300;

/// The catalog after the last serial transaction, for decoders that wait for its epoch.
pub struct SharedCatalog {
    state: Mutex<CatalogState>,
    changed: Condvar,
}

struct CatalogState {
    epoch: u64,
    version: u64,
    catalog: Catalog,
    closed: bool,
}

impl SharedCatalog {
    /// Creates it at epoch 0.
    #[must_use]
    pub fn new(catalog: Catalog) -> SharedCatalog {
        SharedCatalog {
            state: Mutex::new(CatalogState { epoch: 0, version: 0, catalog, closed: false }),
            changed: Condvar::new(),
        }
    }

    fn lock(&self) -> MutexGuard<'_, CatalogState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until `epoch` is published; returns its catalog and version. None if replay ends first.
    #[must_use]
    pub fn wait(&self, epoch: u64) -> Option<(Catalog, u64)> {
        let mut state = self.lock();
        while state.epoch < epoch && !state.closed {
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        (state.epoch >= epoch).then(|| (state.catalog.clone(), state.version))
    }

    /// Like [`wait`](Self::wait), without waiting: None if it is not published yet.
    #[must_use]
    pub fn get(&self, epoch: u64) -> Option<(Catalog, u64)> {
        let state = self.lock();
        (state.epoch >= epoch).then(|| (state.catalog.clone(), state.version))
    }

    /// Releases every waiter: no further epoch will be published.
    pub fn close(&self) {
        self.lock().closed = true;
        self.changed.notify_all();
    }

    fn publish(&self, epoch: u64, version: u64, catalog: &Catalog) {
        let mut state = self.lock();
        if state.epoch == epoch && state.version == version {
            return;
        }
        state.epoch = epoch;
        if state.version != version {
            state.version = version;
            state.catalog = catalog.clone();
        }
        drop(state);
        self.changed.notify_all();
    }
}

/// A piece in log order, with its sequence numbers.
pub struct SequencedPiece {
    pub decoded: DecodedPiece,
    /// Sequence number of its first transaction; the others follow densely.
    pub first: SequenceNumber,
    /// Catalogs that its statements leave, each with the sequence number of its transaction.
    pub catalogs: Vec<(SequenceNumber, Catalog)>,
    /// Tables that its statements removed, each with the sequence number of its transaction.
    pub dropped: Vec<(SequenceNumber, TableId)>,
    /// Tables whose definitions its statements change, as defined before the piece.
    pub altered: Vec<Arc<TableDef>>,
    /// Tables whose rows its statement rewrites, which must be done before the piece is handed on.
    pub rewrites: Vec<Rewrite>,
    /// XA transactions in prepared state after its last transaction.
    pub prepared: PreparedSet,
}

impl SequencedPiece {
    /// Sequence number of the transaction at `index`.
    #[must_use]
    pub fn sequence_of(&self, index: u32) -> SequenceNumber {
        SequenceNumber(self.first.0 + u64::from(index))
    }

    /// Sequence number of its last transaction; None if it holds none.
    #[must_use]
    pub fn last(&self) -> Option<SequenceNumber> {
        let count = self.decoded.transactions.len() as u64;
        (count > 0).then(|| SequenceNumber(self.first.0 + count - 1))
    }
}

/// Puts decoded pieces into log order and assigns sequence numbers.
pub struct Sequencer {
    waiting: BTreeMap<u64, DecodedPiece>,
    next_piece: u64,
    /// What was cut off the next piece, which follows it.
    rest: Option<DecodedPiece>,
    /// Number of a piece that was taken twice: one of the two, and its transactions, would be lost.
    twice: Option<u64>,
    state: State,
    decoder: Decoder,
    epoch: u64,
}

struct State {
    last: SequenceNumber,
    /// First sequence number of the piece being sequenced.
    first: SequenceNumber,
    executed: Sequenced,
    skip: SkipList,
    catalog: Catalog,
    version: u64,
    catalogs: Vec<(SequenceNumber, Catalog)>,
    dropped: Vec<(SequenceNumber, TableId)>,
    altered: Vec<Arc<TableDef>>,
    rewrites: Vec<Rewrite>,
    /// Why the open (sliced) transaction is left out, if it is.
    continued: Option<SkipReason>,
    /// See [`DecodeOptions::quarantine`].
    quarantine: bool,
    /// See [`DecodeOptions::copies_missing`].
    copies_missing: bool,
    /// See [`DecodeOptions::for_stamps`].
    for_stamps: bool,
    /// See [`DecodeOptions::filters`].
    filters: Arc<ReplicationFilters>,
    writes: StatementWrites,
    /// With `for_stamps`: what each statement since the last look named.
    named: Vec<NamedStatement>,
    prepared: PreparedSet,
    /// Events of the XA transaction being read, possibly over several pieces; None outside one.
    aside: Option<Vec<u8>>,
}

/// Which tables a statement of the log named.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NamedStatement {
    /// The tables, and what it does to them.
    pub named: Named,
    /// True for TRUNCATE, which changes no definition.
    pub truncates: bool,
    /// True for CREATE DATABASE, which names no table.
    pub makes_database: bool,
    /// False if it could not be carried out on the catalog.
    pub understood: bool,
}

fn makes_database(sql: &[u8]) -> bool {
    let mut words = sql.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
    let is = |word: Option<&[u8]>, wanted: &[&str]| {
        word.is_some_and(|word| wanted.iter().any(|wanted| word.eq_ignore_ascii_case(wanted.as_bytes())))
    };
    is(words.next(), &["CREATE"]) && is(words.next(), &["DATABASE", "SCHEMA"])
}

fn is_truncate(sql: &[u8]) -> bool {
    sql.trim_ascii_start().get(..8).is_some_and(|word| word.eq_ignore_ascii_case(b"TRUNCATE"))
}

impl Sequencer {
    /// What the statements since the last call named; only with
    /// [`DecodeOptions::for_stamps`](crate::DecodeOptions::for_stamps).
    pub fn take_named(&mut self) -> Vec<NamedStatement> {
        std::mem::take(&mut self.state.named)
    }

    /// Creates a sequencer at the start of replay. `executed` is the GTID set that the store holds, `last` the
    /// sequence number of its last transaction.
    #[must_use]
    pub fn new(options: DecodeOptions, catalog: Catalog, executed: GtidSet, last: SequenceNumber) -> Sequencer {
        Sequencer {
            waiting: BTreeMap::new(),
            next_piece: 0,
            rest: None,
            twice: None,
            state: State {
                last,
                first: last,
                executed: options.skip.sequence_from(executed),
                skip: options.skip.clone(),
                catalog,
                version: 0,
                catalogs: Vec::new(),
                dropped: Vec::new(),
                altered: Vec::new(),
                rewrites: Vec::new(),
                continued: None,
                quarantine: options.quarantine,
                copies_missing: options.quarantine && options.copies_missing,
                for_stamps: options.for_stamps,
                filters: Arc::clone(&options.filters),
                writes: options.writes.clone(),
                named: Vec::new(),
                prepared: PreparedSet::default(),
                aside: None,
            },
            decoder: Decoder::new(options),
            epoch: 0,
        }
    }

    /// Sets the XA transactions that are in prepared state at the start.
    #[must_use]
    pub fn with_prepared(mut self, prepared: &PreparedSet) -> Sequencer {
        self.state.prepared = Arc::clone(prepared);
        self
    }

    /// XA transactions in prepared state after everything sequenced.
    #[must_use]
    pub fn prepared(&self) -> &PreparedSet {
        &self.state.prepared
    }

    /// Takes a decoded piece, and emits all pieces that are next in order.
    pub fn step(&mut self, piece: DecodedPiece, shared: &SharedCatalog, mut emit: impl FnMut(SequencedPiece)) {
        self.take(piece);
        while let Some(sequenced) = self.next(shared) {
            emit(sequenced);
        }
    }

    /// Takes a decoded piece; pieces may come in any order.
    pub fn take(&mut self, piece: DecodedPiece) {
        let number = piece.piece.number;
        let is_over = self.next_piece == NEVER;
        if self.waiting.insert(number, piece).is_some() || number < self.next_piece && !is_over {
            self.twice = Some(number);
        }
    }

    /// Returns the piece to be sequenced next; None if it was not taken yet.
    #[must_use]
    pub fn coming(&self) -> Option<&DecodedPiece> {
        self.waiting.get(&self.next_piece)
    }

    /// The pieces that were taken and not sequenced, in log order; between them some may be missing.
    pub fn taken(&self) -> impl Iterator<Item = &DecodedPiece> {
        self.waiting.range(self.next_piece..).map(|(_, piece)| piece)
    }

    /// Cuts the piece to be sequenced next in two, before the transaction that begins at `at` in its data. Both parts
    /// are decoded by *sequence*, as their turn comes.
    pub fn cut_coming(&mut self, at: usize) {
        let Some(decoded) = self.waiting.remove(&self.next_piece) else { return };
        let (first, rest) = self.recycled(decoded).cut_at(at);
        self.waiting.insert(self.next_piece, DecodedPiece::undecoded(first));
        self.rest = Some(DecodedPiece::undecoded(rest));
    }

    /// Sequences the next piece. Returns None after a piece with a stop, and while the next one was not taken yet.
    pub fn next(&mut self, shared: &SharedCatalog) -> Option<SequencedPiece> {
        let piece = self.waiting.remove(&self.next_piece)?;
        match self.rest.take() {
            Some(rest) => _ = self.waiting.insert(self.next_piece, rest),
            None => self.next_piece += 1,
        }
        let sequenced = match self.twice {
            Some(number) => self.broken(piece, &format!("piece {number} was decoded twice")),
            None => self.sequence(piece, shared),
        };
        if sequenced.decoded.stop.is_some() {
            self.waiting.clear();
            self.rest = None;
            self.next_piece = NEVER;
        }
        Some(sequenced)
    }

    /// A stop before this piece.
    #[cold]
    #[track_caller]
    fn broken(&self, decoded: DecodedPiece, what: &str) -> SequencedPiece {
        let last = self.state.last;
        self.bare(if decoded.piece.continues { last } else { last.next() }, decoded).broken(what)
    }

    /// A piece that changes no definition.
    fn bare(&self, first: SequenceNumber, decoded: DecodedPiece) -> SequencedPiece {
        SequencedPiece {
            first,
            catalogs: Vec::new(),
            dropped: Vec::new(),
            altered: Vec::new(),
            rewrites: Vec::new(),
            prepared: Arc::clone(&self.state.prepared),
            decoded,
        }
    }

    /// Sequence number of the last transaction sequenced.
    #[must_use]
    pub fn last(&self) -> SequenceNumber {
        self.state.last
    }

    /// The GTID set executed once everything sequenced is applied; at a transaction boundary an exact prefix of the
    /// log.
    #[must_use]
    pub fn executed(&self) -> impl Deref<Target = GtidSet> + '_ {
        self.state.executed.lock()
    }

    /// Table definitions after everything sequenced.
    #[must_use]
    pub fn catalog(&self) -> &Catalog {
        &self.state.catalog
    }

    /// Number of pieces that wait for an earlier one.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.waiting.len()
    }

    fn sequence(&mut self, mut decoded: DecodedPiece, shared: &SharedCatalog) -> SequencedPiece {
        // Decoders run ahead, out of order, on three assumptions: the catalog of the piece's epoch, that no transaction
        // is executed already, and that the skip list does not change. All nearly always hold. Where one does not, the
        // piece is decoded again here, in order, at the cost of this one thread's time.
        let (continues, unfinished) = (decoded.piece.continues, decoded.piece.unfinished);
        let serial = decoded.piece.kind == PieceKind::Serial;
        self.state.first = if continues { self.state.last } else { self.state.last.next() };
        if !decoded.needs_serial && decoded.catalog_version != self.state.version {
            // A statement inside a payload, which the splitter cannot see, changed the catalog after this piece was
            // decoded.
            let (catalog, version) = (self.state.catalog.clone(), self.state.version);
            let piece = self.recycled(decoded);
            decoded = self.decoder.decode(piece, &catalog, version);
        }
        if decoded.needs_serial || !self.state.admit_all(&decoded) {
            let piece = self.recycled(decoded);
            decoded = self.decoder.decode_ordered(piece, &mut self.state);
        }
        if serial && !unfinished {
            self.epoch += 1;
        }
        // Decoders that wait for this epoch may start. A statement inside a payload may still change the catalog
        // within the epoch; the version shows it.
        shared.publish(self.epoch, self.state.version, &self.state.catalog);
        self.state.continued = match decoded.transactions.last() {
            Some(last) if unfinished => last.skipped,
            _ => None,
        };
        let sequenced = SequencedPiece {
            first: self.state.first,
            catalogs: std::mem::take(&mut self.state.catalogs),
            dropped: std::mem::take(&mut self.state.dropped),
            altered: std::mem::take(&mut self.state.altered),
            rewrites: std::mem::take(&mut self.state.rewrites),
            prepared: Arc::clone(&self.state.prepared),
            decoded,
        };
        if let Some(last) = sequenced.last() {
            self.state.last = last;
        }
        sequenced
    }

    /// Gives the changes of a copied table, decoded beside replay, the next sequence number, as one transaction
    /// without a GTID. Call only at a transaction boundary.
    #[must_use]
    pub fn copied(&mut self, mut decoded: DecodedPiece) -> SequencedPiece {
        decoded.make_one_transaction();
        self.state.last = self.state.last.next();
        self.bare(self.state.last, decoded)
    }

    /// Puts a copied table in the place of the one of its name, as a transaction without a GTID. `decoded` is any
    /// piece without changes. Call only at a transaction boundary. The piece has a stop if the table may not stand
    /// there.
    #[must_use]
    pub fn switch_table(
        &mut self,
        def: &Arc<TableDef>,
        decoded: DecodedPiece,
        shared: &SharedCatalog,
    ) -> SequencedPiece {
        let mut switch = self.copied(decoded);
        let (catalog, gone) = self.state.catalog.with_copied(def);
        let before = &self.state.catalog;
        if let Err(what) = before.check_copied(def).and_then(|()| before.check_dropped(&catalog, &gone)) {
            return switch.broken(&what);
        }
        self.state.catalog = catalog;
        self.state.version += 1;
        shared.publish(self.epoch, self.state.version, &self.state.catalog);
        switch.catalogs.push((switch.first, self.state.catalog.clone()));
        switch.dropped.extend(gone.into_iter().map(|id| (switch.first, id)));
        switch
    }

    /// Quarantines these tables until they are copied, because the statement of the last sequenced piece demands a
    /// rewrite of their rows that cannot be computed. Replay continues then. False, with nothing done, if quarantine
    /// is not enabled.
    pub fn quarantine(
        &mut self,
        piece: &mut SequencedPiece,
        tables: &[NamedTable],
        why: &str,
        shared: &SharedCatalog,
    ) -> bool {
        if !self.state.quarantine {
            return false;
        }
        for table in tables {
            let (catalog, gone) = self.state.catalog.with_quarantined(table, why);
            self.state.catalog = catalog;
            piece.dropped.extend(gone.map(|id| (piece.first, id)));
        }
        self.state.version += 1;
        piece.catalogs = vec![(piece.first, self.state.catalog.clone())];
        // Pieces decoded under the catalog before are decoded again.
        shared.publish(self.epoch, self.state.version, &self.state.catalog);
        true
    }

    /// Reserves an id for a table that is being copied; None when ids are exhausted.
    pub fn reserve_table_id(&mut self) -> Option<TableId> {
        let (catalog, id) = self.state.catalog.reserve_id()?;
        self.state.catalog = catalog;
        Some(id)
    }

    /// Takes a decoded piece apart, so that it can be decoded again.
    fn recycled(&mut self, decoded: DecodedPiece) -> Piece {
        let (piece, spare) = decoded.into_parts();
        self.decoder.recycle(spare);
        piece
    }
}

/// Stops replay in front of a statement whose effect on the catalog breaks a rule (invariant 29).
fn broken_effect(what: &str, sql: &[u8]) -> (StopClass, String) {
    let text: String = catalog::masked(&String::from_utf8_lossy(sql)).chars().take(STATEMENT_CHARS_MAX).collect();
    (StopClass::Defect, defect_reason(&format!("the catalog after a statement is broken: {what}; statement: {text}")))
}

impl State {
    /// Like `put_catalog`, for the next snapshot of another effect than a statement's own.
    fn check_and_put(
        &mut self,
        at: SequenceNumber,
        catalog: Catalog,
        dropped: Vec<TableId>,
    ) -> Result<(), (StopClass, String)> {
        let checked = self.catalog.check_dropped(&catalog, &dropped);
        checked.map_err(|what| (StopClass::Defect, defect_reason(&format!("the next catalog is broken: {what}"))))?;
        self.put_catalog(at, catalog, dropped);
        Ok(())
    }

    fn put_catalog(&mut self, at: SequenceNumber, catalog: Catalog, dropped: Vec<TableId>) {
        for change in catalog.changes_since(&self.catalog) {
            // Keep the definition from before the first statement: rows before this piece were written under it.
            if let (Some(old), Some(_)) = (change.before, change.after)
                && self.altered.iter().all(|earlier| earlier.id != old.id)
            {
                self.altered.push(Arc::clone(old));
            }
        }
        self.version += 1;
        self.catalog = catalog;
        let now = &self.catalog;
        self.writes.keep(|(db, name)| now.table(db, name).is_some() || now.is_quarantined(db, name));
        self.catalogs.push((at, self.catalog.clone()));
        self.dropped.extend(dropped.into_iter().map(|id| (at, id)));
    }

    /// Handles a statement that changed rows as text. The resulting rows are unknown here, so its tables are copied
    /// again (invariant 19).
    fn write_as_text(
        &mut self,
        at: SequenceNumber,
        written: Written,
        statement: &Statement<'_>,
    ) -> Result<StatementOutcome, (StopClass, String)> {
        let text: String =
            catalog::masked(&String::from_utf8_lossy(statement.query.sql)).chars().take(STATEMENT_CHARS_MAX).collect();
        let refused = |why: &str| {
            let what = "a statement changes rows as text (the session used binlog_format=STATEMENT or MIXED)";
            Err((StopClass::NotSupported, format!("{what}{why}: {text}")))
        };
        let tables = match written {
            Written::Tables(tables) => tables,
            Written::Absent(tables) => {
                let lower = self.catalog.lower_case_table_names();
                let wanted = tables.iter().find(|(db, name)| self.filters.replicates(db, name, lower));
                match wanted {
                    // The log may begin after the table's CREATE.
                    Some((db, name)) if !self.quarantine => {
                        return refused(&format!(
                            "; its table `{db}`.`{name}` does not exist at this place in the log, nor can it be copied"
                        ));
                    }
                    _ => Vec::new(),
                }
            }
            Written::Unknown(why) => return refused(&format!(" and {why}")),
        };
        let tables: Vec<NamedTable> = (tables.into_iter())
            .filter(|(db, name)| self.filters.replicates(db, name, self.catalog.lower_case_table_names()))
            .collect();
        if tables.is_empty() {
            let filtered = !self.filters.is_empty();
            return Ok(if filtered { StatementOutcome::Filtered } else { StatementOutcome::NoEffect });
        }
        if !self.quarantine {
            return refused("; its tables would have to be copied");
        }
        for table in tables {
            self.writes.count(&table);
            if !self.catalog.is_quarantined(&table.0, &table.1) {
                let gtid = statement.gtid.map(|gtid| format!(", GTID {gtid}")).unwrap_or_default();
                let place = format!("relay log {}{gtid}", statement.position);
                let why = format!("a statement in STATEMENT format changed it ({place}): {text}");
                let (catalog, gone) = self.catalog.with_quarantined(&table, &why);
                self.put_catalog(at, catalog, gone.into_iter().collect());
            }
        }
        Ok(StatementOutcome::Superseded)
    }

    /// Adds the transactions of a piece that was decoded out of order to the executed set. False, with nothing added,
    /// if one of them should have been left out and was not (invariant 14); the piece is then decoded again, in
    /// order.
    fn admit_all(&mut self, decoded: &DecodedPiece) -> bool {
        let mut own = decoded.transactions.iter();
        if decoded.piece.continues {
            // All slices of a transaction share one decision, even if the skip list changes meanwhile.
            let skipped = own.next().and_then(|transaction| transaction.skipped);
            if skipped != self.continued {
                return false;
            }
        }
        let gtids = || own.clone().filter_map(|transaction| transaction.gtid);
        let mut executed = self.executed.lock();
        // Read under the lock, which changes of the list take too.
        let skip = self.skip.current();
        let decided_otherwise = |transaction: &Transaction| {
            let listed = transaction.gtid.is_some_and(|gtid| skip.contains(&gtid));
            listed != (transaction.skipped == Some(SkipReason::Operator))
        };
        if own.clone().any(decided_otherwise) {
            return false;
        }
        // A fault in a transaction that is already executed, or to be skipped by now, must not stop replay. The GTID of
        // one that an earlier piece began is in the set by its own first slice.
        let begun_here = !decoded.piece.continues || !decoded.transactions.is_empty();
        if let Some(failing) = decoded.stop.as_ref().and_then(|stop| stop.gtid)
            && begun_here
            && (executed.contains(&failing) || skip.contains(&failing) || gtids().any(|gtid| gtid == failing))
        {
            return false;
        }
        for (index, gtid) in gtids().enumerate() {
            if !executed.add(gtid) {
                let mut taken = GtidSet::new();
                for gtid in gtids().take(index) {
                    taken.add(gtid);
                }
                *executed = executed.subtract(&taken);
                return false;
            }
        }
        true
    }
}

impl StatementSink for State {
    fn catalog(&self) -> (Catalog, u64) {
        (self.catalog.clone(), self.version)
    }

    fn continued(&self) -> Option<SkipReason> {
        self.continued
    }

    fn admit(&mut self, gtid: Gtid) -> Option<SkipReason> {
        let mut executed = self.executed.lock();
        if !executed.add(gtid) {
            return Some(SkipReason::AlreadyExecuted);
        }
        self.skip.current().contains(&gtid).then_some(SkipReason::Operator)
    }

    fn aside(&mut self) -> &mut Option<Vec<u8>> {
        &mut self.aside
    }

    fn prepare(&mut self, xid: String, gtid: Option<Gtid>, transaction: usize) -> Result<(), String> {
        let events = self.aside.take().unwrap_or_default();
        if self.prepared.contains_key(&xid) {
            return Err(format!("XA PREPARE {xid}, which is prepared already"));
        }
        let number = self.first.0 + transaction as u64;
        hold_prepared(&mut self.prepared, xid, Prepared { number, gtid, events })
    }

    fn resolve(&mut self, xid: &str) -> Option<Arc<Prepared>> {
        Arc::make_mut(&mut self.prepared).remove(xid)
    }

    fn leave_to_copy(&mut self, table: &NamedTable, transaction: usize, why: &str) -> bool {
        if !self.quarantine {
            return false;
        }
        // Counted, so that a table which a copy does not cure is copied at growing intervals.
        self.writes.count(table);
        let (catalog, gone) = self.catalog.with_quarantined(table, why);
        let at = SequenceNumber(self.first.0 + transaction as u64);
        self.put_catalog(at, catalog, gone.into_iter().collect());
        true
    }

    fn leave_missing(&mut self, table: &NamedTable, transaction: usize) -> bool {
        if !self.copies_missing {
            return false;
        }
        let at = SequenceNumber(self.first.0 + transaction as u64);
        let (catalog, gone) = self.catalog.with_quarantined(table, MISSING);
        self.put_catalog(at, catalog, gone.into_iter().collect());
        true
    }

    fn written_through(&mut self, member: &NamedTable, transaction: usize, why: &str) -> bool {
        if self.catalog.is_quarantined(&member.0, &member.1) {
            self.writes.count(member);
            return true;
        }
        self.leave_to_copy(member, transaction, why)
    }

    fn apply(&mut self, statement: Statement<'_>) -> Result<StatementOutcome, (StopClass, String)> {
        let at = SequenceNumber(self.first.0 + statement.transaction as u64);
        let named = self.for_stamps.then(|| {
            let context = context_of(&statement, &self.filters, &self.catalog);
            (
                Named::of(&context, statement.query.sql),
                is_truncate(statement.query.sql),
                makes_database(statement.query.sql),
            )
        });
        let outcome = self.carry_out(statement);
        let named = named.map(|(named, truncates, makes_database)| {
            let understood = outcome.is_ok();
            self.named.push(NamedStatement { named: named.clone(), truncates, makes_database, understood });
            named
        });
        match (outcome, named) {
            (Err((class, why)), Some(named)) if !matches!(class, StopClass::Corrupt | StopClass::Defect) => {
                self.forget_definitions(at, &named, &why);
                Ok(StatementOutcome::Superseded)
            }
            (outcome, _) => outcome,
        }
    }
}

impl State {
    /// Makes unknown what a statement that cannot be carried out may have changed: the tables that it names, or all.
    fn forget_definitions(&mut self, at: SequenceNumber, named: &Named, why: &str) {
        let known = |table: &NamedTable| self.catalog.table(&table.0, &table.1).is_some();
        let tables: Vec<NamedTable> = match named {
            Named::Drops(tables) => tables.iter().filter(|table| known(table)).cloned().collect(),
            Named::Renames(pairs) => {
                let both = pairs.iter().flat_map(|(from, to)| [from, to]);
                both.filter(|table| known(table)).chain(pairs.iter().map(|(_, to)| to)).cloned().collect()
            }
            Named::DropsDatabase(db) => {
                self.catalog.tables_of(db).map(|def| (def.db.clone(), def.name.clone())).collect()
            }
            _ => self.catalog.tables().map(|def| (def.db.clone(), def.name.clone())).collect(),
        };
        for table in tables {
            let (catalog, gone) = self.catalog.with_quarantined(&table, why);
            self.put_catalog(at, catalog, gone.into_iter().collect());
        }
    }

    /// The catalog after a statement about tables of which some are not here, and the tables that are gone. None if it
    /// is about others, or missing tables are not copied.
    fn without_missing(&self, context: &StatementContext, sql: &[u8]) -> Option<(Catalog, Vec<TableId>)> {
        if !self.copies_missing {
            return None;
        }
        self.catalog.with_missing(context, &Named::of(context, sql))
    }

    fn carry_out(&mut self, statement: Statement<'_>) -> Result<StatementOutcome, (StopClass, String)> {
        let context = context_of(&statement, &self.filters, &self.catalog);
        let query = &statement.query;
        let at = SequenceNumber(self.first.0 + statement.transaction as u64);
        if let Some(written) = self.catalog.written(&context, query.sql) {
            return self.write_as_text(at, written, &statement);
        }
        match self.catalog.filter(&context, query.sql) {
            Filtered::Replicated => {}
            Filtered::LeftOut => return Ok(StatementOutcome::Filtered),
            Filtered::Instead { copies: Some(why), .. } if !self.quarantine => {
                return Err((StopClass::NotSupported, format!("{why}: a table that is replicated must be copied now")));
            }
            Filtered::Instead { catalog, dropped, copies } => {
                self.check_and_put(at, catalog, dropped)?;
                return Ok(if copies.is_some() { StatementOutcome::Superseded } else { StatementOutcome::Filtered });
            }
        }
        match self.catalog.apply_to_quarantined(&context, query.sql) {
            Quarantined::NotConcerned => {}
            Quarantined::Done(catalog, gone) => {
                self.check_and_put(at, catalog, gone)?;
                return Ok(StatementOutcome::Superseded);
            }
            Quarantined::Refused(reason) => {
                let Some((catalog, gone)) = self.without_missing(&context, query.sql) else {
                    return Err((StopClass::NotSupported, reason));
                };
                self.check_and_put(at, catalog, gone)?;
                return Ok(StatementOutcome::Superseded);
            }
        }
        let outcome = match self.catalog.apply(&context, query.sql) {
            Ok(outcome) => outcome,
            Err(error) => {
                // A statement that cannot be interpreted, but names its tables, affects only those: they are copied.
                let named = if self.quarantine { Named::of(&context, query.sql) } else { Named::Other };
                let next = self.without_missing(&context, query.sql);
                let next = next.or_else(|| self.catalog.with_unknown(&named, &error.to_string()));
                let Some((catalog, gone)) = next else {
                    return Err((StopClass::NotSupported, error.to_string()));
                };
                self.check_and_put(at, catalog, gone)?;
                return Ok(StatementOutcome::Superseded);
            }
        };
        self.catalog.check(&outcome).map_err(|what| broken_effect(&what, query.sql))?;
        Ok(match outcome.effect {
            DdlEffect::NoEffect(_) => StatementOutcome::NoEffect,
            DdlEffect::Recorded(_) => {
                // The catalog keeps what it names.
                if !outcome.catalog.is_same(&self.catalog) {
                    self.put_catalog(at, outcome.catalog, Vec::new());
                }
                StatementOutcome::Recorded
            }
            DdlEffect::Changed { dropped, rewritten, .. } => {
                self.put_catalog(at, outcome.catalog, dropped);
                self.rewrites.extend(rewritten);
                StatementOutcome::Applied
            }
        })
    }
}

/// Keeps a prepared transaction, within the limit on the bytes of all of them together.
pub(crate) fn hold_prepared(held: &mut PreparedSet, xid: String, one: Prepared) -> Result<(), String> {
    let bytes: usize = held.values().map(|other| other.events.len()).sum();
    if bytes + one.events.len() > PREPARED_BYTES_MAX {
        return Err(format!("more than {} GiB of prepared XA transactions", PREPARED_BYTES_MAX >> 30));
    }
    Arc::make_mut(held).insert(xid, Arc::new(one));
    Ok(())
}

/// True for the definition as which CREATE TABLE … SELECT is logged, in the transaction of its rows.
fn is_of_select(sql: &[u8]) -> bool {
    sql.starts_with(b"CREATE TABLE ") && sql.trim_ascii_end().ends_with(b"START TRANSACTION")
}

/// True if the server itself wrote this text. It is UTF-8 with backslash escapes then, whatever the event says of the
/// session's character set and sql_mode: CREATE TABLE … SELECT is logged as a definition, and so is a CREATE TABLE that
/// was given a primary key (seen on 9.7; `store_create_info`, sql/sql_show.cc). A client may send the latter's
/// beginning itself, as a dump does, but hardly in another character set and with UTF-8 in it.
fn is_of_the_server(sql: &[u8]) -> bool {
    is_of_select(sql)
        || sql.starts_with(b"CREATE TABLE ") && begins_with_generated_key(sql) && std::str::from_utf8(sql).is_ok()
}

/// True if the first column is the key that `sql_generate_invisible_primary_key` gives a table, as the server writes it.
fn begins_with_generated_key(sql: &[u8]) -> bool {
    const NAMES: [&[u8]; 2] = [b"(\n  `my_row_id`", b"(\n  \"my_row_id\""];
    const TYPE: &[u8] = b" bigint unsigned NOT NULL AUTO_INCREMENT /*!80023 INVISIBLE */,\n";
    let at = |name: &[u8]| sql.windows(name.len()).position(|window| window == name).map(|at| at + name.len());
    let behind = NAMES.into_iter().filter_map(at).min();
    behind.and_then(|at| sql.get(at..)).is_some_and(|rest| rest.starts_with(TYPE))
}

fn lossy(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

/// Returns the context that the log gives for a statement, with databases under their local names.
pub(crate) fn context_of(
    statement: &Statement<'_>,
    filters: &Arc<ReplicationFilters>,
    catalog: &Catalog,
) -> StatementContext {
    let query = &statement.query;
    let status = &query.status;
    let by_the_server = is_of_the_server(query.sql);
    let of_the_server = by_the_server.then_some(UTF8MB4_0900_AI_CI);
    let misleading = if by_the_server { sql_mode::NO_BACKSLASH_ESCAPES } else { 0 };
    let names = SourceNames { filters: Arc::clone(filters), lower_case_table_names: catalog.lower_case_table_names() };
    StatementContext {
        of_the_source: false,
        default_db: names.database(&String::from_utf8_lossy(query.db)).to_owned(),
        sql_mode: status.sql_mode.unwrap_or(0) & !misleading,
        collation_client: of_the_server.or(status.charset_client),
        collation_connection: of_the_server.or(status.collation_connection),
        collation_server: status.collation_server,
        collation_database: status.charset_database,
        default_collation_for_utf8mb4: status.default_collation_for_utf8mb4,
        explicit_defaults_for_timestamp: status.explicit_defaults_for_timestamp,
        time_zone: status.time_zone.map(|zone| String::from_utf8_lossy(zone).into_owned()),
        server_version: statement.server_version,
        timestamp_us: Some(statement.timestamp_us),
        auto_increment: status.auto_increment.map(|of| (of.increment, of.offset)),
        no_foreign_key_checks: status
            .flags2
            .is_some_and(|flags| flags & binlog::QueryStatus::NO_FOREIGN_KEY_CHECKS != 0),
        gtid: statement.gtid.map(|gtid| gtid.to_string()).unwrap_or_default(),
        changed: status.ddl_xid.is_some(),
        invoker: status.invoker.map(|of| (lossy(of.user), lossy(of.host))),
        // Every server since 8.0.13 writes the former with CREATE and ALTER TABLE. Without it the latter says nothing.
        atomic: status.sql_require_primary_key.map(|_| is_of_select(query.sql) || status.ddl_xid.is_some()),
        names,
    }
}

#[cfg(test)]
mod tests;
