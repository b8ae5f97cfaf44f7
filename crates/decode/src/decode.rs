//! Decode: the work that needs no order. Checksums, payloads, table maps, row boundaries, keys and their hashes.
//!
//! In: a piece and the catalog of its epoch. Out: row changes by lane, as byte ranges of the piece. Never here: a
//! column unpacked; the order between pieces; a row read under a definition that disagrees with its table map; an
//! event that is not counted exactly once as seen and once by its outcome.

use std::collections::HashMap;
use std::sync::Arc;

use base::limits::PREPARED_BYTES_MAX;
use base::{Gtid, LogPosition, Prepared, to_usize};
use binlog::{
    BeginLoadQuery, ChecksumAlgorithm, EventHeader, ExecuteLoadQuery, FormatDescription, GtidEvent,
    PayloadDecompressor, QueryEvent, QueryKind, TransactionPayload, XaPrepare, check_event_type, event_body,
    event_type, verify_checksum,
};
use catalog::{Catalog, NamedTable, ReplicationFilters, TableId};
use observe::Category;

use crate::piece::{
    Begun, DecodedPiece, Piece, PieceKind, RowOp, SPACE_BYTES, SkipReason, Span, SpareBuffers, TransactionKind, part,
    rest,
};
use crate::plan::TablePlan;
use crate::skip::SkipList;
use crate::stop::StopClass;
use crate::twice::{self, Statements};
use crate::work::{TableMapEntry, Work};
use crate::writes::StatementWrites;

mod table_maps;
mod xa;

use table_maps::CachedMap;

const _: () = assert!(PREPARED_BYTES_MAX <= SPACE_BYTES, "the bytes kept for XA COMMIT fit into the side buffer");

/// Emptied buffers that a decoder keeps.
const SPARE_MAX: usize = 8;

/// Settings of a decoder.
#[derive(Clone, Default)]
pub struct DecodeOptions {
    /// Number of lanes, a power of two.
    pub lanes: usize,
    pub skip: SkipList,
    /// Leave out rows of tables that the catalog does not hold; set when a single table is followed.
    pub known_only: bool,
    /// Quarantine a table, until it is copied, because of a statement about it that cannot be interpreted. If false,
    /// such a statement stops replay.
    pub quarantine: bool,
    /// Quarantine, with `quarantine`, also a table that the log writes to though the catalog does not hold it, and pass
    /// over a DROP or RENAME of one: the log does not hold all tables of the source. If false, these stop replay.
    pub copies_missing: bool,
    /// Which databases and tables are replicated, under which names. Consulted once per new table map, never per row.
    pub filters: Arc<ReplicationFilters>,
    /// Counts the statements that change rows of quarantined tables. Clones share the counts.
    pub writes: StatementWrites,
    /// Read for a tracker of [`Rules::InnoDb`](crate::trackers::Rules::InnoDb) alone, never to apply rows: those of an
    /// XA transaction are decoded where they stand, and a table that cannot be read is noted in
    /// [`DecodedPiece::unknown`]. A statement that cannot be interpreted makes every table that it may concern unknown.
    /// The sequencer needs `quarantine` with it.
    pub for_stamps: bool,
}

/// A statement, as handed to the ordered stage.
pub(crate) struct Statement<'a> {
    pub query: QueryEvent<'a>,
    /// Index of its transaction in the piece.
    pub transaction: usize,
    /// Version of the server that ran it, if the Gtid event has it.
    pub server_version: Option<u32>,
    /// When it began at the source, in µs since 1970.
    pub timestamp_us: u64,
    pub gtid: Option<Gtid>,
    /// Relay log position of its event, or of the transaction if it is inside a compressed payload.
    pub position: LogPosition,
}

/// Outcome of a statement.
pub(crate) enum StatementOutcome {
    Applied,
    Recorded,
    NoEffect,
    /// The copy of its table will bring its effect.
    Superseded,
    /// Left out by the operator's filters.
    Filtered,
}

/// Access to the state of the ordered stage, for a piece that is decoded there.
pub(crate) trait StatementSink {
    /// Returns the current catalog and its version.
    fn catalog(&self) -> (Catalog, u64);
    /// Returns why the piece's first transaction, begun in an earlier piece, is left out, if it is.
    fn continued(&self) -> Option<SkipReason>;
    /// Adds a transaction to the executed set; returns why it is left out, if it is.
    fn admit(&mut self, gtid: Gtid) -> Option<SkipReason>;
    /// Events kept of the XA transaction being read; None outside one.
    fn aside(&mut self) -> &mut Option<Vec<u8>>;
    /// Turns the kept events into a prepared transaction.
    fn prepare(&mut self, xid: String, gtid: Option<Gtid>, transaction: usize) -> Result<(), String>;
    /// Removes a prepared transaction and returns it; None if there is none of this name.
    fn resolve(&mut self, xid: &str) -> Option<Arc<Prepared>>;
    /// Quarantines a table from the open transaction on, for this reason: its copy will bring its rows. False, with
    /// nothing done, if quarantine is not enabled.
    fn leave_to_copy(&mut self, table: &NamedTable, transaction: usize, why: &str) -> bool;
    /// Quarantines a table that the catalog does not hold from the open transaction on: its copy will bring its rows.
    /// False, with nothing done, if that is not enabled.
    fn leave_missing(&mut self, table: &NamedTable, transaction: usize) -> bool;
    /// Called when rows were written through a MERGE table, of which this is a member: its copy will bring them. Else
    /// like `leave_to_copy`.
    fn written_through(&mut self, member: &NamedTable, transaction: usize, why: &str) -> bool;
    fn apply(&mut self, statement: Statement<'_>) -> Result<StatementOutcome, (StopClass, String)>;
}

/// Decodes pieces. One per thread; keeps its buffers, and the tables seen under the current catalog.
pub struct Decoder {
    pub(crate) options: DecodeOptions,
    catalog_version: u64,
    plans: HashMap<TableId, Arc<TablePlan>>,
    /// Table map bodies seen under this catalog, by table id.
    maps: HashMap<u64, CachedMap>,
    pub(crate) offsets_before: Vec<(u32, u32)>,
    pub(crate) offsets_after: Vec<(u32, u32)>,
    decompressor: Option<PayloadDecompressor>,
    unpacked: Vec<u8>,
    spare: Vec<SpareBuffers>,
    /// Scratch buffer, kept between pieces.
    counts: Vec<(u8, Category)>,
    tables: Vec<TableMapEntry>,
}

/// Buffer that holds the bytes being decoded.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Space {
    Data,
    Payload,
    /// Events kept for XA COMMIT, copied to the side buffer.
    Side,
}

/// Why replay must stop at the event being decoded.
pub(crate) type Fault = (StopClass, String);

pub(crate) fn corrupt(e: impl std::fmt::Display) -> Fault {
    (StopClass::Corrupt, e.to_string())
}

pub(crate) fn unsupported(reason: impl Into<String>) -> Fault {
    (StopClass::NotSupported, reason.into())
}

pub(crate) fn binlog_fault(e: binlog::BinlogError) -> Fault {
    let class = match e.class() {
        binlog::ErrorClass::NotSupported => StopClass::NotSupported,
        binlog::ErrorClass::Io => StopClass::Io,
        binlog::ErrorClass::Corrupt => StopClass::Corrupt,
    };
    (class, e.to_string())
}

impl Decoder {
    #[must_use]
    pub fn new(options: DecodeOptions) -> Decoder {
        Decoder {
            options,
            catalog_version: u64::MAX,
            plans: HashMap::new(),
            maps: HashMap::new(),
            offsets_before: Vec::new(),
            offsets_after: Vec::new(),
            decompressor: PayloadDecompressor::new().ok(),
            unpacked: Vec::new(),
            spare: Vec::new(),
            counts: Vec::new(),
            tables: Vec::new(),
        }
    }

    /// Takes the buffers of a completed piece for reuse.
    pub fn recycle(&mut self, spare: SpareBuffers) {
        if self.spare.len() < SPARE_MAX {
            self.spare.push(spare);
        }
    }

    /// Decodes a piece of rows. A serial piece is returned undecoded: *sequence* decodes it.
    #[must_use]
    pub fn decode(&mut self, piece: Piece, catalog: &Catalog, version: u64) -> DecodedPiece {
        let serial = piece.kind != PieceKind::Rows;
        let mut work = self.begin(piece, catalog, version, None);
        if serial {
            work.out.needs_serial = true;
        } else {
            self.run(&mut work);
        }
        self.end(work)
    }

    /// Decodes a piece in order: `sink` executes statements, and leaves out transactions that are executed already.
    pub(crate) fn decode_ordered(&mut self, piece: Piece, sink: &mut dyn StatementSink) -> DecodedPiece {
        let (catalog, version) = sink.catalog();
        let mut work = self.begin(piece, &catalog, version, Some(sink));
        self.run(&mut work);
        self.end(work)
    }

    fn begin<'s>(
        &mut self,
        piece: Piece,
        catalog: &Catalog,
        version: u64,
        sink: Option<&'s mut dyn StatementSink>,
    ) -> Work<'s> {
        self.learn(version);
        let spare = self.spare.pop().unwrap_or_default();
        let mut lanes = spare.lanes;
        lanes.resize_with(self.options.lanes, Vec::new);
        Work {
            checksum: piece.checksum,
            at: piece.start,
            out: DecodedPiece {
                piece,
                side: spare.side,
                payload: spare.payload,
                shapes: spare.shapes,
                transactions: spare.transactions,
                lanes,
                barrier: spare.barrier,
                ops: 0,
                ledger: spare.ledger,
                stop: None,
                needs_serial: false,
                catalog_version: version,
                unknown: Vec::new(),
            },
            open: None,
            tables: std::mem::take(&mut self.tables),
            skip: self.options.skip.current(),
            held: Vec::new(),
            counts: std::mem::take(&mut self.counts),
            sink,
            catalog: catalog.clone(),
            statements: Statements::default(),
        }
    }

    fn end(&mut self, work: Work<'_>) -> DecodedPiece {
        let Work { mut out, mut tables, mut counts, held, .. } = work;
        // A follower of one table reads events that replay reads too, and must not note them twice.
        if !held.is_empty() && !self.options.known_only {
            self.options.skip.note(out.piece.number, held);
        }
        tables.clear();
        counts.clear();
        (self.tables, self.counts) = (tables, counts);
        out.ops = out.count_ops();
        let made = out.side.len() + out.payload.len() + to_usize(out.ops) * size_of::<RowOp>();
        if let Some(reservation) = &mut out.piece.reservation {
            let asked = reservation.bytes().saturating_sub((out.piece.end - out.piece.start) as u64);
            reservation.grow((made as u64).saturating_sub(asked));
        }
        out
    }

    /// Forgets everything learned under another catalog version.
    fn learn(&mut self, version: u64) {
        if self.catalog_version != version {
            self.catalog_version = version;
            self.plans.clear();
            self.maps.clear();
        }
    }

    fn run(&mut self, work: &mut Work<'_>) {
        let data = Arc::clone(&work.out.piece.data);
        let (start, end) = (work.out.piece.start, work.out.piece.end);
        if work.out.piece.continues
            && let Err(fault) = self.resume(work, start)
        {
            work.fail(fault, None);
            return;
        }
        let mut at = start;
        while at < end && work.out.stop.is_none() && !work.out.needs_serial {
            work.at = at;
            match self.top_level_event(work, part(&data, 0..end), at) {
                Ok(len) => at += len,
                Err(fault) => {
                    let event_type = data.get(at + 4).copied();
                    work.fail(fault, event_type);
                }
            }
        }
        if work.out.stop.is_none()
            && let Err(fault) = self.settle(work)
        {
            work.fail(fault, None);
        }
        if work.out.stop.is_none() {
            // Counts the events outside transactions. A slice also closes its part of the transaction here.
            work.close_transaction(end);
        }
    }

    /// Reopens the transaction that an earlier piece began, with its table maps.
    fn resume(&mut self, work: &mut Work<'_>, start: usize) -> Result<(), Fault> {
        let begun = work.out.piece.begun;
        work.open_transaction(begun, start);
        let skipped = match &work.sink {
            Some(sink) => sink.continued(),
            None => begun.gtid.is_some_and(|gtid| work.skip.contains(&gtid)).then_some(SkipReason::Operator),
        };
        if let Some(open) = &mut work.open {
            // Only transactions with a BEGIN are cut into slices.
            (open.bracketed, open.sliced) = (true, true);
            open.skipped = skipped;
        }
        if skipped.is_some() {
            return Ok(());
        }
        let context = std::mem::take(&mut work.out.piece.context);
        let read = self.read_context(work, &context);
        // Put the context back: the piece may be decoded again, in order.
        work.out.piece.context = context;
        read
    }

    fn read_context(&mut self, work: &mut Work<'_>, mut rest: &[u8]) -> Result<(), Fault> {
        while !rest.is_empty() {
            let header = EventHeader::parse(rest).map_err(binlog_fault)?;
            let (event, tail) = rest.split_at_checked(header.event_len as usize).ok_or_else(|| corrupt("cut off"))?;
            let body = event_body(event, work.checksum).map_err(binlog_fault)?;
            self.table_map(work, body)?;
            rest = tail;
        }
        Ok(())
    }

    fn top_level_event(&mut self, work: &mut Work<'_>, data: &[u8], at: usize) -> Result<usize, Fault> {
        let ahead = rest(data, at);
        let header = EventHeader::parse(ahead).map_err(binlog_fault)?;
        let len = header.event_len as usize;
        let event = ahead.get(..len).ok_or_else(|| corrupt("an event goes beyond its piece"))?;
        if header.event_type == event_type::FORMAT_DESCRIPTION {
            work.checksum = FormatDescription::parse(event).map_err(binlog_fault)?.checksum;
            work.count(header.event_type, Category::Control);
            return Ok(len);
        }
        if work.checksum == ChecksumAlgorithm::Crc32 && !work.out.piece.verified && !verify_checksum(event) {
            return Err(corrupt(format!("checksum of a {} event does not match its bytes", header.name())));
        }
        let body = event_body(event, work.checksum).map_err(binlog_fault)?;
        if matches!(header.event_type, event_type::GTID | event_type::ANONYMOUS_GTID | event_type::GTID_TAGGED) {
            let gtid = GtidEvent::parse(header.event_type, body).map_err(binlog_fault)?;
            // The events before it belong to no transaction.
            work.close_transaction(at);
            begin_transaction(work, Begun::of(&gtid), at);
            let skipped = work.open.as_ref().and_then(|open| open.skipped);
            work.count(header.event_type, skipped.map_or(Category::Control, category_of));
            return Ok(len);
        }
        if self.event(work, &header, body, at + EventHeader::LEN, Space::Data)? {
            self.settle(work)?;
            work.close_transaction(at + len);
        }
        Ok(len)
    }

    /// Settles what the open transaction's statements log twice, before its changes are handed on.
    fn settle(&self, work: &mut Work<'_>) -> Result<(), Fault> {
        if self.options.for_stamps || work.out.needs_serial {
            work.statements.forget();
            return Ok(());
        }
        twice::settle(work)
    }

    /// Decodes one event, from the log or from a payload; true if its transaction ends with it.
    fn event(
        &mut self,
        work: &mut Work<'_>,
        header: &EventHeader,
        body: &[u8],
        body_at: usize,
        space: Space,
    ) -> Result<bool, Fault> {
        if let Some(reason) = work.open.as_ref().and_then(|open| open.skipped) {
            return left_out(work, header, body, reason);
        }
        if let Some(ended) = self.put_aside(work, header, body)? {
            return Ok(ended);
        }
        match header.event_type {
            event_type::TABLE_MAP => self.table_map(work, body)?,
            event_type::WRITE_ROWS
            | event_type::UPDATE_ROWS
            | event_type::DELETE_ROWS
            | event_type::PARTIAL_UPDATE_ROWS => {
                let tag = match space {
                    Space::Data => 0,
                    Space::Payload => Span::PAYLOAD,
                    Space::Side => Span::SIDE,
                };
                self.rows(work, header, body, body_at, tag)?;
                return Ok(false);
            }
            event_type::QUERY => return self.query(work, header, body),
            event_type::XID => {
                work.count(header.event_type, Category::Control);
                return Ok(true);
            }
            event_type::XA_PREPARE => {
                let prepare = XaPrepare::parse(body).map_err(binlog_fault)?;
                if !prepare.one_phase && !self.options.for_stamps {
                    if work.sink.is_none() {
                        work.out.needs_serial = true;
                        return Ok(true);
                    }
                    return Err(corrupt(format!("XA PREPARE {} without an XA START", prepare.xid)));
                }
                work.count(header.event_type, Category::Control);
                return Ok(true);
            }
            event_type::TRANSACTION_PAYLOAD => {
                if space != Space::Data {
                    return Err(corrupt("a Transaction_payload event inside another one"));
                }
                self.payload(work, body)?;
                work.count(header.event_type, Category::Control);
                return Ok(true);
            }
            event_type::INCIDENT => {
                return Err(unsupported("the source reports lost events (Incident); its log is incomplete here"));
            }
            // The file of a LOAD DATA in statement format. The copy of its table will bring the rows.
            event_type::BEGIN_LOAD_QUERY | event_type::APPEND_BLOCK | event_type::DELETE_FILE => {
                BeginLoadQuery::parse(body).map_err(binlog_fault)?;
            }
            event_type::EXECUTE_LOAD_QUERY => {
                let query = ExecuteLoadQuery::parse(body).map_err(binlog_fault)?.query;
                return self.statement(work, header, query);
            }
            _ => check_event_type(header).map_err(binlog_fault)?,
        }
        work.count(header.event_type, Category::Control);
        Ok(false)
    }

    fn payload(&mut self, work: &mut Work<'_>, body: &[u8]) -> Result<(), Fault> {
        let payload = TransactionPayload::parse(body).map_err(binlog_fault)?;
        let mut bytes = std::mem::take(&mut work.out.payload);
        let from = bytes.len();
        let limit = SPACE_BYTES.saturating_sub(from) as u64;
        if payload.uncompressed_size.is_some_and(|size| size > limit) {
            return Err(unsupported("a compressed transaction of more than 1 GiB when expanded"));
        }
        // The decompressor clears its output, so later payloads of the piece are expanded elsewhere and appended.
        let out = if from == 0 { &mut bytes } else { &mut self.unpacked };
        let unpacked = match &mut self.decompressor {
            Some(decompressor) => decompressor.decompress_into(&payload, out, limit),
            None => payload.decompress_into(out, limit),
        };
        if from > 0 {
            bytes.extend_from_slice(&self.unpacked);
        }
        let result = match unpacked {
            Ok(()) => self.inner_events(work, rest(&bytes, from), from, Space::Payload),
            Err(error) => Err(binlog_fault(error)),
        };
        work.out.payload = bytes;
        result
    }

    /// Decodes consecutive events without checksums, which begin at `from` of a space.
    fn inner_events(&mut self, work: &mut Work<'_>, bytes: &[u8], from: usize, space: Space) -> Result<(), Fault> {
        let mut at = 0;
        while at < bytes.len() && !work.out.needs_serial {
            let ahead = rest(bytes, at);
            let header = EventHeader::parse(ahead).map_err(binlog_fault)?;
            let len = header.event_len as usize;
            let body = ahead.get(EventHeader::LEN..len).ok_or_else(|| corrupt("an event goes beyond what holds it"))?;
            self.event(work, &header, body, from + at + EventHeader::LEN, space)?;
            at += len;
        }
        Ok(())
    }

    fn query(&mut self, work: &mut Work<'_>, header: &EventHeader, body: &[u8]) -> Result<bool, Fault> {
        let query = QueryEvent::parse(body).map_err(binlog_fault)?;
        let ends = match QueryKind::of(query.sql) {
            kind @ (QueryKind::Begin | QueryKind::XaStart) => {
                open_without_gtid(work, header);
                if kind == QueryKind::XaStart
                    && !self.options.for_stamps
                    && let Some(sink) = &mut work.sink
                {
                    *sink.aside() = Some(Vec::new());
                }
                if let Some(open) = &mut work.open {
                    open.bracketed = true;
                }
                false
            }
            QueryKind::Savepoint => {
                work.savepoint(query.sql);
                work.open.as_ref().is_none_or(|open| !open.bracketed)
            }
            QueryKind::ReleaseSavepoint | QueryKind::XaEnd | QueryKind::XaPrepare => {
                work.open.as_ref().is_none_or(|open| !open.bracketed)
            }
            QueryKind::RollbackTo => {
                // Sources log it when the changes since the savepoint could not be removed from the log.
                work.roll_back(Some(query.sql))?;
                false
            }
            QueryKind::Commit => true,
            QueryKind::Rollback => {
                work.roll_back(None)?;
                true
            }
            QueryKind::XaCommit | QueryKind::XaRollback => return self.resolve_xa(work, header, query.sql),
            QueryKind::Other => return self.statement(work, header, query),
        };
        work.count(header.event_type, Category::Control);
        Ok(ends)
    }

    fn statement(&mut self, work: &mut Work<'_>, header: &EventHeader, query: QueryEvent<'_>) -> Result<bool, Fault> {
        let transaction = work.out.transactions.len();
        let server_version = work.open.as_ref().and_then(|open| open.begun.server_version);
        let gtid = work.open.as_ref().and_then(|open| open.begun.gtid);
        let position = work.out.piece.position(work.at);
        let error_code = query.error_code;
        let micros = query.status.microseconds.unwrap_or(0);
        let timestamp_us = u64::from(header.timestamp) * 1_000_000 + u64::from(micros);
        let Some(sink) = &mut work.sink else {
            work.out.needs_serial = true;
            return Ok(true);
        };
        let outcome = sink.apply(Statement { query, transaction, server_version, timestamp_us, gtid, position })?;
        let changed = sink.catalog();
        self.switch_catalog(work, changed);
        let category = match outcome {
            StatementOutcome::Applied if error_code != 0 && !self.options.for_stamps => {
                return Err(unsupported(format!(
                    "a statement that failed on the source with error {error_code} after a part of it was done"
                )));
            }
            StatementOutcome::Applied => Category::Applied,
            StatementOutcome::Recorded => Category::Recorded,
            StatementOutcome::NoEffect => Category::Control,
            StatementOutcome::Superseded => Category::SupersededByCopy,
            StatementOutcome::Filtered => Category::Filtered,
        };
        open_without_gtid(work, header);
        work.count(header.event_type, category);
        let Some(open) = &mut work.open else { return Ok(true) };
        open.kind = TransactionKind::Statement;
        // Inside BEGIN the transaction continues; a statement outside is a transaction of its own.
        Ok(!open.bracketed)
    }

    /// Decodes the rest of the piece under another catalog.
    pub(crate) fn switch_catalog(&mut self, work: &mut Work<'_>, (catalog, version): (Catalog, u64)) {
        work.catalog = catalog;
        work.out.catalog_version = version;
        self.learn(version);
    }
}

fn category_of(reason: SkipReason) -> Category {
    match reason {
        SkipReason::AlreadyExecuted => Category::AlreadyExecuted,
        SkipReason::Operator => Category::SkippedByOperator,
    }
}

/// Opens a transaction and determines whether it is left out.
fn begin_transaction(work: &mut Work<'_>, begun: Begun, at: usize) {
    work.open_transaction(begun, at);
    let Some(gtid) = begun.gtid else { return };
    let skipped = match &mut work.sink {
        Some(sink) => sink.admit(gtid),
        None => work.skip.contains(&gtid).then_some(SkipReason::Operator),
    };
    if let Some(open) = &mut work.open {
        open.skipped = skipped;
    }
}

fn open_without_gtid(work: &mut Work<'_>, header: &EventHeader) {
    if work.open.is_none() {
        let commit_us = u64::from(header.timestamp) * 1_000_000;
        work.open_transaction(Begun { commit_us, ..Begun::default() }, work.at);
    }
}

/// Counts an event of a transaction that is left out; true if the transaction ends with it. Parses no more than that
/// needs, because the event may be left out for being unreadable.
fn left_out(work: &mut Work<'_>, header: &EventHeader, body: &[u8], reason: SkipReason) -> Result<bool, Fault> {
    if reason == SkipReason::Operator && !xa::forget_skipped(work, header, body) {
        return Ok(true);
    }
    let category = category_of(reason);
    work.count(header.event_type, category);
    work.note_held(header, body);
    Ok(match header.event_type {
        event_type::XID | event_type::XA_PREPARE => true,
        event_type::TRANSACTION_PAYLOAD => {
            // Counted for the ledger. A payload that cannot be expanded cannot be counted.
            if let Ok(mut events) = TransactionPayload::parse(body).and_then(|payload| payload.events(u64::MAX)) {
                while let Ok(Some((inner, event))) = events.next() {
                    work.count(inner.event_type, category);
                    work.note_held(&inner, event.get(EventHeader::LEN..).unwrap_or_default());
                }
            }
            true
        }
        event_type::QUERY => {
            let query = QueryEvent::parse(body).map_err(binlog_fault)?;
            let bracketed = work.open.as_ref().is_some_and(|open| open.bracketed);
            match QueryKind::of(query.sql) {
                QueryKind::Begin | QueryKind::XaStart => {
                    if let Some(open) = &mut work.open {
                        open.bracketed = true;
                    }
                    false
                }
                QueryKind::Commit | QueryKind::Rollback | QueryKind::XaCommit | QueryKind::XaRollback => true,
                _ => !bracketed,
            }
        }
        _ => false,
    })
}
