//! Split: finds transaction boundaries by event headers and cuts the log into pieces of whole transactions.
//!
//! In: chunks of a relay log, cut anywhere, without the files' magic numbers. Out: pieces cut at transaction
//! boundaries, before and after every statement that may change the catalog, and in slices inside a transaction above
//! 16 MiB. Never here: the body of an event other than Query, Format_description, Gtid, XA_prepare and the heads of
//! table maps, rows events and Transaction_payload; a piece with bytes after one that cannot be read (everything before
//! it is handed on).

use std::sync::Arc;

use base::limits::{EVENT_LEN_MAX, LARGE_SLICE_BYTES, PIECE_BYTES, TRANSACTION_SLICE_BYTES};
use base::{Buffer, BufferPool, LogPosition};
use binlog::{
    BinlogError, ChecksumAlgorithm, EventHeader, FormatDescription, GtidEvent, QueryEvent, QueryKind,
    TransactionPayload, event_body, event_type, row_flags,
};

use crate::memory::MemoryGate;
use crate::piece::{Begun, Piece, PieceKind, part, rest};
use crate::stop::{Stop, StopClass};

/// Bytes of a chunk that are first joined to the remainder of the last one. The amount doubles as long as no
/// transaction ends in it.
const JOIN_BYTES: usize = 64 << 10;
/// Capacity of a join buffer; enough unless a transaction is larger.
const JOINED_BYTES: usize = 512 << 10;
/// Join buffers kept for reuse.
const SPARE_JOINED: usize = 4;

/// Slices' worth of bytes up to which a statement that may log rows twice is not cut, since decode settles it within
/// one slice: some 500,000 rows by default, for the memory of four slices.
const WHOLE_STATEMENT_SLICES: usize = 4;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SplitOptions {
    /// Bytes at which a piece of whole transactions is handed on. The expanded size of payloads counts.
    pub piece_bytes: usize,
    /// Bytes at which an open transaction is handed on in slices. At most `LARGE_SLICE_BYTES` where its Gtid event
    /// says that it is larger than this.
    pub slice_bytes: usize,
}

impl Default for SplitOptions {
    fn default() -> SplitOptions {
        SplitOptions { piece_bytes: PIECE_BYTES, slice_bytes: TRANSACTION_SLICE_BYTES }
    }
}

/// Position of the walk within a transaction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Outside,
    /// After the Gtid event, before its first event.
    Begun,
    Open,
}

/// Splits a relay log. Pieces share the buffer of their chunk; only bytes around the end of a chunk are copied.
pub struct Splitter {
    gate: Arc<MemoryGate>,
    options: SplitOptions,
    number: u64,
    epoch: u64,
    checksum: ChecksumAlgorithm,
    file: Arc<str>,
    /// Bytes after the last cut, if a chunk ended inside a transaction or an event.
    carry: Vec<u8>,
    carry_verified: bool,
    spare: Arc<BufferPool>,
    /// File offset of the first byte of the buffer being walked: `carry`, or a chunk.
    base: u64,
    /// True inside a file: the next chunk must start where the last one ended.
    in_file: bool,
    walk: Walk,
}

/// State of the walk; offsets are relative to the buffer being walked.
struct Walk {
    /// Start of the next piece.
    from: usize,
    /// Start of the next event.
    next: usize,
    /// End of the last whole transaction; at least `from`.
    whole: usize,
    phase: Phase,
    /// Contents of the open transaction's Gtid event.
    begun: Begun,
    /// True if the open transaction holds a statement.
    statement: bool,
    /// True if the open transaction began in an earlier piece.
    sliced: bool,
    /// True if the open transaction began with XA START.
    xa: bool,
    /// True if *sequence* must decode the open transaction.
    ordered: bool,
    rows: StatementRows,
    /// True if the next slice begins inside a statement that may log rows twice.
    cut_statement: bool,
    /// Memory needed beyond the bytes since `from`: the expanded size of payloads.
    extra: u64,
    /// Table map events of the open transaction that lie in earlier pieces; the latest one per table id.
    context: Vec<(u64, Vec<u8>)>,
    /// Table map events (start, end) of the open transaction after the last cut.
    table_maps: Vec<(usize, usize)>,
    /// Checksum algorithm at the last cut.
    checksum_at_cut: ChecksumAlgorithm,
}

/// What the open statement has shown so far of whether the log may name a row of it twice: see `twice`.
#[derive(Default)]
struct StatementRows {
    /// Table that was mapped first.
    mapped: Option<u64>,
    /// Table whose rows were changed or deleted first.
    changed: Option<u64>,
    /// True if other tables were mapped too.
    several_mapped: bool,
    /// True if rows were changed or deleted and the source does not log cascades: then it maps no table that a foreign
    /// key merely refers to.
    unlogged: bool,
    /// True if rows of several tables were changed or deleted, or a cascade is among the changes.
    cascades: bool,
}

/// Pieces without their bytes, and the memory that each takes.
type Planned = Vec<(Piece, u64)>;

impl StatementRows {
    /// Takes a table map or rows event: after the header come the table id, six bytes, and two bytes of flags.
    fn see(&mut self, kind: u8, event: &[u8]) {
        let Some(&[a, b, c, d, e, f, low, high]) = event.get(EventHeader::LEN..EventHeader::LEN + 8) else { return };
        let (table_id, flags) = (u64::from_le_bytes([a, b, c, d, e, f, 0, 0]), u16::from_le_bytes([low, high]));
        if kind == event_type::TABLE_MAP {
            self.several_mapped |= *self.mapped.get_or_insert(table_id) != table_id;
        } else if flags & row_flags::STMT_END != 0 {
            *self = StatementRows::default();
        } else if kind != event_type::WRITE_ROWS {
            let cascade = row_flags::NO_FOREIGN_KEY_CHECKS | row_flags::USE_SQL_FOREIGN_KEY;
            let another = *self.changed.get_or_insert(table_id) != table_id;
            self.cascades |= another || flags & cascade == cascade;
            self.unlogged |= flags & row_flags::USE_SQL_FOREIGN_KEY == 0;
        }
    }

    /// True if the statement should not be cut.
    fn stays_whole(&self) -> bool {
        self.cascades || self.several_mapped && self.unlogged
    }
}

impl Splitter {
    /// Creates a splitter at the start of a relay log.
    #[must_use]
    pub fn new(gate: Arc<MemoryGate>) -> Splitter {
        Splitter::with_options(gate, SplitOptions::default())
    }

    /// Like [`Splitter::new`], with other piece sizes.
    #[must_use]
    pub fn with_options(gate: Arc<MemoryGate>, options: SplitOptions) -> Splitter {
        Splitter {
            gate,
            options,
            number: 0,
            epoch: 0,
            checksum: ChecksumAlgorithm::None,
            file: Arc::from(""),
            carry: Vec::new(),
            carry_verified: true,
            spare: BufferPool::new(SPARE_JOINED, JOINED_BYTES),
            base: 0,
            in_file: false,
            walk: Walk {
                from: 0,
                next: 0,
                whole: 0,
                phase: Phase::Outside,
                begun: Begun::default(),
                statement: false,
                sliced: false,
                xa: false,
                ordered: false,
                rows: StatementRows::default(),
                cut_statement: false,
                extra: 0,
                context: Vec::new(),
                table_maps: Vec::new(),
                checksum_at_cut: ChecksumAlgorithm::None,
            },
        }
    }

    /// Takes the next bytes of the log and passes every finished piece to `emit`, which returns false to stop.
    ///
    /// # Errors
    /// When the bytes are not a valid binary log (everything before them is handed on), or `emit` returned false.
    pub fn step(
        &mut self,
        file: &Arc<str>,
        offset: u64,
        data: &Arc<Buffer>,
        verified: bool,
        emit: &mut dyn FnMut(Piece) -> bool,
    ) -> Result<(), Box<Stop>> {
        if self.in_file && (**file != *self.file || offset != self.base + self.carry.len() as u64) {
            return Err(self.corrupt(self.carry.len(), format!("the log continues at {file}:{offset} instead")));
        }
        if !self.in_file {
            self.file = Arc::clone(file);
            self.in_file = true;
            self.base = offset;
        }
        let Some(from) = self.join(data, verified, emit)? else { return Ok(()) };
        // From here on the chunk itself is walked. Bytes already walked as part of the join lie before `from`, or are
        // the beginning of an unfinished transaction after it.
        self.base = offset;
        self.move_walk(|at| at + from);
        self.walk_over(data, verified, emit)?;
        let used = self.walk.from;
        self.carry_over(rest(data, used));
        self.carry_verified = verified;
        self.forget(used);
        Ok(())
    }

    fn carry_over(&mut self, left: &[u8]) {
        if left.is_empty() {
            return;
        }
        // The room for the next join is taken now, so that `join` need not reallocate.
        self.carry = self.spare.take((left.len() + JOIN_BYTES).max(JOINED_BYTES));
        self.carry.clear();
        self.carry.extend_from_slice(left);
    }

    /// Appends to the last chunk's remainder as much of `data` as it takes to cut a piece. Returns where in `data`
    /// the rest begins, or None if all of it is in `carry`.
    fn join(
        &mut self,
        data: &Arc<Buffer>,
        verified: bool,
        emit: &mut dyn FnMut(Piece) -> bool,
    ) -> Result<Option<usize>, Box<Stop>> {
        let mut taken = 0;
        // Only the transaction that the chunk boundary cut in two is copied; the rest of the chunk is walked in
        // place. Where the first bytes do not complete it, the amount doubles, so that a large transaction costs a
        // logarithmic number of joins.
        while !self.carry.is_empty() {
            if taken == data.len() {
                return Ok(None);
            }
            let more = self.carry.len().max(JOIN_BYTES).min(data.len() - taken);
            self.carry.extend_from_slice(part(data, taken..taken + more));
            taken += more;
            self.carry_verified &= verified;
            let joined = self.spare.share(std::mem::take(&mut self.carry));
            let walked = self.walk_over(&joined, self.carry_verified, emit);
            let used = self.walk.from;
            self.forget(used);
            walked?;
            if used > 0 {
                // The events of the remainder were walked before, so a cut lies in `data` or at its start.
                let Some(from) = taken.checked_sub(joined.len() - used) else {
                    let position = LogPosition { file: Arc::clone(&self.file), offset: self.base };
                    let what = "split cut a piece in bytes that it had walked before";
                    return Err(Box::new(Stop::of_defect(position, self.walk.begun.gtid, what)));
                };
                return Ok(Some(from));
            }
            // Nothing was handed on, so this is the only reference, and the buffer is taken back without a copy.
            self.carry = Arc::try_unwrap(joined).map_or_else(|shared| shared.to_vec(), Buffer::into_vec);
        }
        Ok(Some(taken))
    }

    /// Ends the relay file, which must not end inside a transaction.
    ///
    /// # Errors
    /// When the file ends inside a transaction.
    pub fn end_of_file(&mut self) -> Result<(), Box<Stop>> {
        if !self.carry.is_empty() || self.walk.phase != Phase::Outside {
            return Err(self.corrupt(self.carry.len(), "the file ends inside a transaction".into()));
        }
        self.in_file = false;
        Ok(())
    }

    /// Walks `data` and hands on the finished pieces, even if the walk then fails.
    fn walk_over(
        &mut self,
        data: &Arc<Buffer>,
        verified: bool,
        emit: &mut dyn FnMut(Piece) -> bool,
    ) -> Result<(), Box<Stop>> {
        // Plan first, then emit: the pieces before a fault are handed on either way, so replay stops exactly at the
        // fault.
        let mut planned = Planned::new();
        let outcome = self.cut(data, &mut planned);
        if self.walk.whole > self.walk.from {
            self.plan(&mut planned, self.walk.whole, PieceKind::Rows, false, false);
        }
        for (mut piece, memory) in planned {
            piece.data = Arc::clone(data);
            piece.verified = verified;
            piece.reservation = Some(self.gate.reserve(memory));
            let end = piece.end;
            if !emit(piece) {
                let stop = self.corrupt(end, "replay was stopped".into());
                return Err(Box::new(Stop { class: StopClass::Io, ..*stop }));
            }
        }
        outcome
    }

    /// Rebases all offsets to byte `used`, before which everything is handed on.
    fn forget(&mut self, used: usize) {
        self.move_walk(|at| at - used);
        self.base += used as u64;
    }

    fn move_walk(&mut self, to: impl Fn(usize) -> usize) {
        let walk = &mut self.walk;
        (walk.from, walk.next, walk.whole) = (to(walk.from), to(walk.next), to(walk.whole));
        for (start, end) in &mut walk.table_maps {
            (*start, *end) = (to(*start), to(*end));
        }
    }

    fn corrupt(&self, at: usize, reason: String) -> Box<Stop> {
        Box::new(Stop {
            class: StopClass::Corrupt,
            position: LogPosition { file: Arc::clone(&self.file), offset: self.base + at as u64 },
            gtid: if self.walk.phase == Phase::Outside { None } else { self.walk.begun.gtid },
            reason,
        })
    }

    fn fault(&self, at: usize, error: &BinlogError) -> Box<Stop> {
        let class = match error.class() {
            binlog::ErrorClass::NotSupported => StopClass::NotSupported,
            _ => StopClass::Corrupt,
        };
        Box::new(Stop { class, ..*self.corrupt(at, error.to_string()) })
    }

    /// Returns the event at `at` if it is complete.
    #[inline]
    fn event_at<'d>(&self, data: &'d [u8], at: usize) -> Result<Option<&'d [u8]>, Box<Stop>> {
        let Some(rest) = data.get(at..) else { return Ok(None) };
        if rest.len() < EventHeader::LEN {
            return Ok(None);
        }
        let header = EventHeader::parse(rest).map_err(|e| self.fault(at, &e))?;
        let len = header.event_len as usize;
        if len > EVENT_LEN_MAX {
            return Err(self.corrupt(at, format!("an event of {len} bytes is longer than any source writes")));
        }
        Ok(rest.get(..len))
    }

    /// Walks `data` from the current event on, and plans pieces.
    fn cut(&mut self, data: &[u8], planned: &mut Planned) -> Result<(), Box<Stop>> {
        while let Some(event) = self.event_at(data, self.walk.next)? {
            let (at, len) = (self.walk.next, event.len());
            let ends = self.see(event, at)?;
            self.walk.next = at + len;
            if ends {
                self.end_transaction(planned);
            } else if self.walk.phase == Phase::Open && self.walk.next - self.walk.whole >= self.slice_bytes() {
                self.slice(data, planned);
            }
        }
        Ok(())
    }

    /// Bytes at which the open transaction is cut. If its Gtid event says that it will be cut in any case, slices are
    /// small, so that it is received, decoded and applied at the same time.
    fn slice_bytes(&self) -> usize {
        let slice_bytes = self.options.slice_bytes;
        if self.walk.rows.stays_whole() {
            return slice_bytes.saturating_mul(WHOLE_STATEMENT_SLICES);
        }
        if self.walk.begun.bytes > slice_bytes as u64 { slice_bytes.min(LARGE_SLICE_BYTES) } else { slice_bytes }
    }

    fn end_transaction(&mut self, planned: &mut Planned) {
        let statement = std::mem::take(&mut self.walk.statement);
        let (xa, ordered) = (std::mem::take(&mut self.walk.xa), std::mem::take(&mut self.walk.ordered));
        let sliced = std::mem::take(&mut self.walk.sliced);
        let next = self.walk.next;
        let batch = (next - self.walk.from) as u64 + self.walk.extra;
        if statement {
            // A statement is a piece of its own, because *sequence* decodes it in order. Everything before it goes into
            // a piece that any decoder may take. What follows must be decoded under the catalog that the statement
            // leaves: a new epoch begins.
            if self.walk.whole > self.walk.from {
                self.plan(planned, self.walk.whole, PieceKind::Rows, false, false);
            }
            self.plan(planned, next, PieceKind::Serial, sliced, false);
            self.epoch += 1;
        } else if ordered || (xa && sliced) {
            // XA: *sequence* keeps the events from XA PREPARE to XA COMMIT, so it decodes these pieces. The catalog
            // stays as it is: no new epoch.
            if self.walk.whole > self.walk.from {
                self.plan(planned, self.walk.whole, PieceKind::Rows, false, false);
            }
            self.plan(planned, next, PieceKind::Ordered, sliced, false);
        } else if sliced || batch >= self.options.piece_bytes as u64 {
            self.plan(planned, next, PieceKind::Rows, sliced, false);
        }
        let walk = &mut self.walk;
        walk.rows = StatementRows::default();
        walk.whole = next;
        walk.begun = Begun::default();
        walk.context.clear();
        walk.table_maps.clear();
    }

    /// Plans a piece with the events of the open transaction so far.
    fn slice(&mut self, data: &[u8], planned: &mut Planned) {
        if self.walk.whole > self.walk.from {
            self.plan(planned, self.walk.whole, PieceKind::Rows, false, false);
        }
        let kind = match (self.walk.statement, self.walk.xa) {
            (true, _) => PieceKind::Serial,
            (false, true) => PieceKind::Ordered,
            (false, false) => PieceKind::Rows,
        };
        self.plan(planned, self.walk.next, kind, self.walk.sliced, true);
        let walk = &mut self.walk;
        // Another decoder may take the next slice, and will not have seen these table maps: they travel with it.
        for (start, end) in walk.table_maps.drain(..) {
            let event = part(data, start..end);
            // The table id: six bytes after the header. Only one map per table is kept, as a transaction of many
            // statements repeats them.
            let id = event.iter().skip(EventHeader::LEN).take(6).rev().fold(0, |id, byte| id << 8 | u64::from(*byte));
            match walk.context.iter_mut().find(|(known, _)| *known == id) {
                Some((_, kept)) => {
                    kept.clear();
                    kept.extend_from_slice(event);
                }
                None => walk.context.push((id, event.to_vec())),
            }
        }
        walk.sliced = true;
        walk.cut_statement = walk.rows.cascades;
        walk.whole = walk.next;
    }

    fn plan(&mut self, planned: &mut Planned, end: usize, kind: PieceKind, continues: bool, unfinished: bool) {
        let start = std::mem::replace(&mut self.walk.from, end);
        let extra = std::mem::take(&mut self.walk.extra);
        let context = self.walk.context.iter().flat_map(|(_, event)| event);
        let piece = Piece {
            number: self.number,
            kind,
            data: Arc::default(),
            start,
            end,
            file: Arc::clone(&self.file),
            offset: self.base + start as u64,
            checksum: self.walk.checksum_at_cut,
            verified: false,
            epoch: self.epoch,
            continues,
            unfinished,
            cut_statement: continues && self.walk.cut_statement,
            begun: if continues { self.walk.begun } else { Begun::default() },
            context: if continues { context.copied().collect() } else { Vec::new() },
            reservation: None,
        };
        self.number += 1;
        // It changes only between transactions, so it holds from this cut on, however far the walk has come.
        self.walk.checksum_at_cut = self.checksum;
        planned.push((piece, (end - start) as u64 + extra));
    }

    /// Processes one whole event; true if a transaction ends with it, or it lies outside any.
    fn see(&mut self, event: &[u8], at: usize) -> Result<bool, Box<Stop>> {
        let header = EventHeader::parse(event).map_err(|e| self.fault(at, &e))?;
        let outside = self.walk.phase == Phase::Outside;
        match header.event_type {
            event_type::TABLE_MAP => {
                self.walk.table_maps.push((at, at + event.len()));
                self.walk.rows.see(header.event_type, event);
                Ok(false)
            }
            event_type::WRITE_ROWS
            | event_type::UPDATE_ROWS
            | event_type::DELETE_ROWS
            | event_type::PARTIAL_UPDATE_ROWS => {
                self.walk.rows.see(header.event_type, event);
                Ok(outside)
            }
            event_type::FORMAT_DESCRIPTION if outside => {
                self.checksum = FormatDescription::parse(event).map_err(|e| self.fault(at, &e))?.checksum;
                Ok(true)
            }
            event_type::GTID | event_type::ANONYMOUS_GTID | event_type::GTID_TAGGED if outside => {
                let body = event_body(event, self.checksum).map_err(|e| self.fault(at, &e))?;
                let gtid = GtidEvent::parse(header.event_type, body).map_err(|e| self.fault(at, &e))?;
                self.walk.phase = Phase::Begun;
                self.walk.begun = Begun::of(&gtid);
                Ok(false)
            }
            event_type::FORMAT_DESCRIPTION
            | event_type::ROTATE
            | event_type::STOP
            | event_type::PREVIOUS_GTIDS
            | event_type::GTID
            | event_type::ANONYMOUS_GTID
            | event_type::GTID_TAGGED => {
                if outside {
                    Ok(true)
                } else {
                    Err(self.corrupt(at, format!("{} inside a transaction", header.name())))
                }
            }
            event_type::QUERY => {
                let body = event_body(event, self.checksum).map_err(|e| self.fault(at, &e))?;
                let query = QueryEvent::parse(body).map_err(|e| self.fault(at, &e))?;
                Ok(self.see_query(QueryKind::of(query.sql)))
            }
            event_type::EXECUTE_LOAD_QUERY => {
                self.walk.statement = true;
                Ok(outside)
            }
            event_type::XA_PREPARE => {
                // The first byte is the ONE PHASE flag. Only a two-phase prepare is kept until its XA COMMIT.
                let body = event_body(event, self.checksum).unwrap_or(&[]);
                self.walk.ordered = body.first() == Some(&0);
                self.walk.phase = Phase::Outside;
                Ok(true)
            }
            event_type::XID => {
                self.walk.phase = Phase::Outside;
                Ok(true)
            }
            event_type::TRANSACTION_PAYLOAD => {
                // A damaged payload counts as empty here; the decoder reports it, in its place.
                let body = event_body(event, self.checksum).unwrap_or(&[]);
                let size = TransactionPayload::parse(body).ok().and_then(|payload| payload.uncompressed_size);
                self.walk.extra += size.unwrap_or(0).min(1 << 30);
                self.walk.phase = Phase::Outside;
                Ok(true)
            }
            event_type::INCIDENT if self.walk.phase == Phase::Begun => {
                self.walk.phase = Phase::Outside;
                Ok(true)
            }
            _ => Ok(outside),
        }
    }

    fn see_query(&mut self, kind: QueryKind) -> bool {
        let phase = &mut self.walk.phase;
        match kind {
            QueryKind::Begin | QueryKind::XaStart => {
                self.walk.xa = kind == QueryKind::XaStart;
                *phase = Phase::Open;
                return false;
            }
            QueryKind::Commit | QueryKind::Rollback => {}
            QueryKind::XaCommit | QueryKind::XaRollback => self.walk.ordered = true,
            QueryKind::Savepoint
            | QueryKind::RollbackTo
            | QueryKind::ReleaseSavepoint
            | QueryKind::XaEnd
            | QueryKind::XaPrepare => {
                if *phase == Phase::Open {
                    return false;
                }
            }
            QueryKind::Other => {
                self.walk.statement = true;
                if *phase == Phase::Open {
                    return false;
                }
            }
        }
        *phase = Phase::Outside;
        true
    }
}
