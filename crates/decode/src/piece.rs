//! What the stages hand on: pieces of whole transactions (or slices of a huge one), first as bytes, then as row
//! changes.

use std::ops::Range;
use std::sync::Arc;

use base::{Buffer, Gtid, LogPosition};
use binlog::{ChecksumAlgorithm, GtidEvent, PartialUpdateImage, RowsKind};
use catalog::NamedTable;
use observe::LedgerBatch;

use crate::memory::Reservation;
use crate::plan::TablePlan;
use crate::stop::Stop;

/// How a piece is decoded.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PieceKind {
    /// Whole transactions of row changes, decoded by any decoder in any order.
    Rows,
    /// One transaction (or a slice of it) with a statement that may change the catalog. *Sequence* decodes it itself,
    /// in order, because everything after a statement must be decoded under its result.
    Serial,
    /// One transaction (or a slice of it) that *sequence* decodes too, although it leaves the catalog alone: XA,
    /// which is kept from XA PREPARE to XA COMMIT.
    Ordered,
}

/// Contents of a transaction's Gtid event.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Begun {
    /// Its GTID; None if the source runs without.
    pub gtid: Option<Gtid>,
    /// Source commit time, in µs since 1970; 0 if unknown.
    pub commit_us: u64,
    /// Version of the server that ran it, if the event has it.
    pub server_version: Option<u32>,
    /// Bytes of its events, if the event has them, else 0. A hint only: nothing may rely on it.
    pub bytes: u64,
}

impl Begun {
    pub(crate) fn of(event: &GtidEvent) -> Begun {
        Begun {
            gtid: event.gtid,
            commit_us: event.immediate_commit_timestamp_us,
            server_version: event.original_server_version.or(event.immediate_server_version),
            bytes: event.transaction_length.unwrap_or(0),
        }
    }
}

/// A run of whole events, cut at transaction boundaries (or between slices).
pub struct Piece {
    /// Dense number in log order.
    pub number: u64,
    /// How to decode it.
    pub kind: PieceKind,
    /// The bytes, shared with the neighbours and perhaps with the receiver.
    pub data: Arc<Buffer>,
    /// First byte of the piece in `data`.
    pub start: usize,
    /// End of the piece in `data`.
    pub end: usize,
    pub file: Arc<str>,
    /// Offset of `data[start]` in that file.
    pub offset: u64,
    /// Checksum algorithm in force at its start.
    pub checksum: ChecksumAlgorithm,
    /// True if this process verified the checksums on receipt.
    pub verified: bool,
    /// Number of serial transactions before this piece. It is decoded under the catalog that they leave.
    pub epoch: u64,
    /// True if the piece begins inside a transaction of an earlier piece.
    pub continues: bool,
    /// True if the last transaction continues in the next piece.
    pub unfinished: bool,
    /// True if the piece begins inside a statement whose cascades may have changed rows that it changes too.
    pub cut_statement: bool,
    /// Gtid event of the transaction that this piece continues, if it continues one.
    pub begun: Begun,
    /// Table map events of the transaction so far, if the piece continues one.
    pub context: Vec<u8>,
    /// Memory reserved for the piece.
    pub reservation: Option<Reservation>,
}

impl Piece {
    /// The piece's bytes.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        part(&self.data, self.start..self.end)
    }

    /// The epoch that a decoder must wait for; 0 for a serial piece, since *sequence* decodes it and has its catalog.
    #[must_use]
    pub fn epoch_to_decode(&self) -> u64 {
        if self.kind == PieceKind::Serial { 0 } else { self.epoch }
    }

    /// Relay log position of a byte of `data`.
    #[must_use]
    pub fn position(&self, at: usize) -> LogPosition {
        LogPosition { file: Arc::clone(&self.file), offset: self.offset_of(at) }
    }

    /// Like [`position`](Self::position): the offset within the file.
    #[must_use]
    pub fn offset_of(&self, at: usize) -> u64 {
        self.offset + at.saturating_sub(self.start) as u64
    }
}

/// A byte range in a piece's data, or (top bits of the offset) in its side or payload buffer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Span {
    /// Offset; [`Span::SIDE`] set for the side buffer.
    pub offset: u32,
    /// Length in bytes.
    pub len: u32,
}

impl Span {
    /// Marks an offset into the side buffer.
    pub const SIDE: u32 = 1 << 31;
    /// Marks an offset into the expanded payloads.
    pub const PAYLOAD: u32 = 1 << 30;
}

/// Size limit, in bytes, of each of the three buffers that a span can point into.
pub(crate) const SPACE_BYTES: usize = 1 << 30;

const _: () = assert!(SPACE_BYTES <= Span::PAYLOAD as usize, "an offset leaves the bits that name its buffer alone");

/// Narrows an offset or a length within one of a piece's buffers, or an index of things that take at least a byte
/// each there.
#[inline]
#[allow(clippy::cast_possible_truncation, reason = "at most SPACE_BYTES, which has fewer than 32 bits")]
pub(crate) fn short(at: usize) -> u32 {
    debug_assert!(at <= SPACE_BYTES, "{at} is beyond a piece's buffers");
    at as u32
}

/// Returns a range of bytes that was found by walking these very bytes, so that it exists is an invariant.
///
/// # Panics
/// When the range is out of bounds.
#[inline]
pub(crate) fn part(bytes: &[u8], range: Range<usize>) -> &[u8] {
    let (start, end) = (range.start, range.end);
    match bytes.get(range) {
        Some(part) => part,
        None => part_missing(start, end, bytes.len()),
    }
}

/// Like [`part`], up to the end.
#[inline]
pub(crate) fn rest(bytes: &[u8], start: usize) -> &[u8] {
    part(bytes, start..bytes.len())
}

#[cold]
#[inline(never)]
fn part_missing(start: usize, end: usize, len: usize) -> ! {
    panic!("bytes {start}..{end} of {len}");
}

/// Kind of a row change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub enum OpKind {
    /// New row, `after` has all columns.
    Insert,
    /// Same key, `after` has all columns.
    Update,
    /// Same key, `after` has some columns.
    Merge,
    /// The row is deleted.
    Delete,
    /// Adds one copy of a keyless row; the key is the image.
    AddOne,
    /// Removes one copy of a keyless row.
    RemoveOne,
    /// The key changes and `after` lacks columns: the old row is needed, which may be in another lane. `key` is the
    /// old key; the next op, a `MoveTo`, has the new one.
    MoveFrom,
    /// Second half of a `MoveFrom`.
    MoveTo,
    /// Like `Merge`, but `after` begins with a `binlog::PartialUpdateImage`: JSON documents as differences.
    MergeJson,
    /// Like `MoveTo`, with `after` like that of `MergeJson`.
    MoveToJson,
}

/// Flag: the last op of its rows event. The worker that applies it counts the event.
pub const LAST_OF_EVENT: u8 = 1;

/// Flag: foreign keys whose actions are not logged need the row as it is before this op.
pub const CASCADE_OLD: u8 = 2;
/// Flag: they act on an update after this op.
pub const CASCADE_NEW: u8 = 4;
/// Flag: they act on a deletion after this op.
pub const CASCADE_GONE: u8 = 8;

/// Flag: the source logs cascades, and a foreign key's action may change or delete rows of this table.
pub const CASCADES_LOGGED: u8 = 16;
/// Flag: the statement's events name the row twice (see `twice`). A `Delete`, `RemoveOne` or `AddOne` is not carried
/// out; any other change holds what the source made of it.
pub const LOGGED_TWICE: u8 = 32;
/// Flag: the before image may be older than a foreign key's change of the same row, and must not be compared.
pub const BEFORE_UNCHECKED: u8 = 64;
/// Flag: an earlier piece holds a part of the statement, so the before image must be compared.
pub const BEFORE_CHECKED: u8 = 128;

/// One change of one row.
#[derive(Clone, Copy, Debug)]
pub struct RowOp {
    /// Hash of the key.
    pub hash: u64,
    /// Identifying key bytes.
    pub key: Span,
    /// Before image (empty for none).
    pub before: Span,
    /// After image (empty for none).
    pub after: Span,
    /// Index in the piece's transactions.
    pub transaction: u32,
    /// Index in the piece's shapes.
    pub shape: u32,
    /// Number of the statement in the piece.
    pub statement: u32,
    /// Kind of the change.
    pub kind: OpKind,
    /// Combination of [`LAST_OF_EVENT`] and the flags after it.
    pub flags: u8,
}

const _: () = assert!(size_of::<RowOp>() == 48, "a change takes as much memory as ever");

/// Properties shared by the ops of one rows event.
#[derive(Clone)]
pub struct Shape {
    pub plan: Arc<TablePlan>,
    /// The event's type code.
    pub event_type: u8,
    /// Bitmap of the columns in before images; empty if all are present.
    pub before_present: Span,
    /// Bitmap of the columns in after images; empty if all are present.
    pub after_present: Span,
}

impl Shape {
    /// True for rows that were deleted.
    #[must_use]
    pub fn deletes(&self) -> bool {
        RowsKind::of(self.event_type) == Some(RowsKind::Delete)
    }
}

/// Why a transaction's changes are left out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SkipReason {
    /// Its GTID is already executed.
    AlreadyExecuted,
    /// The operator requested it.
    Operator,
}

/// Kind of a transaction, for display.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TransactionKind {
    /// Row changes, perhaps none.
    Rows,
    /// A statement that changed the catalog or was recorded.
    Statement,
}

/// One transaction of a piece.
#[derive(Clone, Debug)]
pub struct Transaction {
    /// Its GTID; None if the source runs without.
    pub gtid: Option<Gtid>,
    /// Source commit time, in µs since 1970; 0 if unknown.
    pub commit_us: u64,
    /// First byte in the piece's data.
    pub start: usize,
    /// End in the piece's data.
    pub end: usize,
    /// Row changes in this piece.
    pub rows: u32,
    /// Kind of the transaction.
    pub kind: TransactionKind,
    /// Why its changes are left out, if they are.
    pub skipped: Option<SkipReason>,
}

/// A piece as row changes.
pub struct DecodedPiece {
    /// The bytes the spans point into.
    pub piece: Piece,
    /// Side buffer: keys and images that decode put together.
    pub side: Vec<u8>,
    pub payload: Vec<u8>,
    /// Shared properties of each rows event's ops.
    pub shapes: Vec<Shape>,
    /// In log order.
    pub transactions: Vec<Transaction>,
    /// Ops of each lane, in log order.
    pub lanes: Vec<Vec<RowOp>>,
    /// Ops in log order, starting with the first one that needs rows of several lanes. One thread applies them after
    /// every lane has applied its own ops of this piece, while the lanes wait.
    pub barrier: Vec<RowOp>,
    /// Number of ops that decode put into `lanes` and `barrier`. As many must be carried out before the piece becomes
    /// visible.
    pub ops: u64,
    /// Counts every event as seen, and by outcome those that need no worker.
    pub ledger: Box<LedgerBatch>,
    /// Set if replay must stop before transaction `transactions.len()`.
    pub stop: Option<Stop>,
    /// True if a statement was found where the splitter cannot see it (inside a payload): *sequence* must decode this
    /// piece itself.
    pub needs_serial: bool,
    /// Version of the catalog that it was decoded under.
    pub catalog_version: u64,
    /// Tables whose rows could not be read; only with [`DecodeOptions::for_stamps`](crate::DecodeOptions::for_stamps).
    pub unknown: Vec<Arc<NamedTable>>,
}

/// Buffers of a completed piece, for decoding another one, so that a warm decoder allocates nothing.
#[derive(Default)]
pub struct SpareBuffers {
    pub(crate) side: Vec<u8>,
    pub(crate) payload: Vec<u8>,
    pub(crate) shapes: Vec<Shape>,
    pub(crate) transactions: Vec<Transaction>,
    pub(crate) lanes: Vec<Vec<RowOp>>,
    pub(crate) barrier: Vec<RowOp>,
    pub(crate) ledger: Box<LedgerBatch>,
}

/// Largest capacity, in bytes, that a spare buffer keeps: one huge piece must not pin its size for ever.
const SPARE_BYTES_MAX: usize = 1 << 20;

impl From<DecodedPiece> for SpareBuffers {
    fn from(used: DecodedPiece) -> SpareBuffers {
        used.into_parts().1
    }
}

impl DecodedPiece {
    /// Splits it into the undecoded piece and its buffers.
    #[must_use]
    pub fn into_parts(mut self) -> (Piece, SpareBuffers) {
        fn emptied<T>(mut buffer: Vec<T>) -> Vec<T> {
            buffer.clear();
            if buffer.capacity() * size_of::<T>() > SPARE_BYTES_MAX { Vec::new() } else { buffer }
        }
        for ops in &mut self.lanes {
            *ops = emptied(std::mem::take(ops));
        }
        if !self.ledger.is_empty() {
            // The counts of a piece decoded twice were never merged.
            *self.ledger = LedgerBatch::new();
        }
        let spare = SpareBuffers {
            side: emptied(self.side),
            payload: emptied(self.payload),
            shapes: emptied(self.shapes),
            transactions: emptied(self.transactions),
            lanes: self.lanes,
            barrier: emptied(self.barrier),
            ledger: self.ledger,
        };
        (self.piece, spare)
    }

    /// A piece that is still to be decoded, by *sequence* itself.
    pub(crate) fn undecoded(piece: Piece) -> DecodedPiece {
        DecodedPiece { piece, needs_serial: true, ..DecodedPiece::empty(0) }
    }

    /// Creates a piece without bytes or changes.
    #[must_use]
    pub fn empty(lanes: usize) -> DecodedPiece {
        let piece = Piece {
            number: 0,
            kind: PieceKind::Rows,
            data: Arc::default(),
            start: 0,
            end: 0,
            file: Arc::from(""),
            offset: 0,
            checksum: ChecksumAlgorithm::None,
            verified: true,
            epoch: 0,
            continues: false,
            unfinished: false,
            cut_statement: false,
            begun: Begun::default(),
            context: Vec::new(),
            reservation: None,
        };
        let SpareBuffers { side, payload, shapes, transactions, barrier, ledger, .. } = SpareBuffers::default();
        DecodedPiece {
            piece,
            side,
            payload,
            shapes,
            transactions,
            lanes: (0..lanes).map(|_| Vec::new()).collect(),
            barrier,
            ops: 0,
            ledger,
            stop: None,
            needs_serial: false,
            catalog_version: 0,
            unknown: Vec::new(),
        }
    }

    /// Turns all its changes into one transaction without a GTID, and drops its event counts, since replay counts
    /// these events.
    pub(crate) fn make_one_transaction(&mut self) {
        let rows = self.row_count();
        self.piece.continues = false;
        self.piece.unfinished = false;
        *self.ledger = LedgerBatch::new();
        for op in self.lanes.iter_mut().chain(std::iter::once(&mut self.barrier)).flatten() {
            op.transaction = 0;
        }
        self.transactions.clear();
        self.transactions.push(Transaction {
            gtid: None,
            commit_us: 0,
            start: self.piece.start,
            end: self.piece.end,
            rows: u32::try_from(rows).unwrap_or(u32::MAX),
            kind: TransactionKind::Rows,
            skipped: None,
        });
    }

    /// Returns the bytes of a span; None if it is not of this piece.
    #[inline]
    #[must_use]
    pub fn find_bytes(&self, span: Span) -> Option<&[u8]> {
        let from = (span.offset & !(Span::SIDE | Span::PAYLOAD)) as usize;
        let of: &[u8] = if span.offset & Span::SIDE != 0 {
            &self.side
        } else if span.offset & Span::PAYLOAD != 0 {
            &self.payload
        } else {
            &self.piece.data
        };
        of.get(from..from + span.len as usize)
    }

    /// Like [`find_bytes`](Self::find_bytes), where a missing span may end the thread.
    ///
    /// # Panics
    /// When the span is not of this piece.
    #[inline]
    #[must_use]
    pub fn bytes(&self, span: Span) -> &[u8] {
        match self.find_bytes(span) {
            Some(bytes) => bytes,
            None => self.span_missing(span),
        }
    }

    /// Returns the properties that an op shares with the others of its event; None if the op is not of this piece.
    #[inline]
    #[must_use]
    pub fn find_shape(&self, op: &RowOp) -> Option<&Shape> {
        self.shapes.get(op.shape as usize)
    }

    /// Like [`find_shape`](Self::find_shape), where a missing shape may end the thread.
    ///
    /// # Panics
    /// When the op is not of this piece.
    #[inline]
    #[must_use]
    pub fn shape_of(&self, op: &RowOp) -> &Shape {
        match self.find_shape(op) {
            Some(shape) => shape,
            None => self.shape_missing(op),
        }
    }

    /// Returns, for a `MergeJson` or `MoveToJson`, the bitmap of the JSON columns logged as differences, and the
    /// image after it; None if the image cannot be parsed, which decode has checked.
    #[must_use]
    pub fn find_partial_image(&self, shape: &Shape, op: &RowOp) -> Option<(&[u8], &[u8])> {
        let after = self.find_bytes(op.after)?;
        let head = PartialUpdateImage::parse(after, shape.plan.json_columns).ok()?;
        Some((head.partial_columns.unwrap_or(&[]), after.get(head.len..)?))
    }

    /// Like [`find_partial_image`](Self::find_partial_image), where a missing image may end the thread.
    ///
    /// # Panics
    /// When the image cannot be parsed.
    #[must_use]
    pub fn partial_image(&self, shape: &Shape, op: &RowOp) -> (&[u8], &[u8]) {
        match self.find_partial_image(shape, op) {
            Some(found) => found,
            None => panic!("{}", self.defect(op.transaction as usize, "a JSON difference that cannot be read")),
        }
    }

    /// Builds the stop for a defect found at this piece's transaction at `index`, which is not its cause.
    #[must_use]
    #[track_caller]
    pub fn defect(&self, index: usize, what: &str) -> Stop {
        let transaction = self.transactions.get(index);
        let start = transaction.map_or(self.piece.start, |transaction| transaction.start);
        let gtid = transaction.and_then(|transaction| transaction.gtid).or(self.piece.begun.gtid);
        Stop::of_defect(self.piece.position(start), gtid, what)
    }

    #[cold]
    #[inline(never)]
    fn span_missing(&self, span: Span) -> ! {
        let (side, payload, data) = (self.side.len(), self.payload.len(), self.piece.data.len());
        let what = format!("{span:?} in buffers of {data}, {payload} and {side} bytes");
        panic!("{}", self.defect(0, &what));
    }

    #[cold]
    #[inline(never)]
    fn shape_missing(&self, op: &RowOp) -> ! {
        let what = format!("a row change of shape {} of {}", op.shape, self.shapes.len());
        panic!("{}", self.defect(op.transaction as usize, &what));
    }

    /// Counts the ops in its lists.
    pub(crate) fn count_ops(&self) -> u64 {
        self.lanes.iter().map(Vec::len).sum::<usize>() as u64 + self.barrier.len() as u64
    }

    /// Number of row changes.
    #[must_use]
    pub fn row_count(&self) -> u64 {
        self.transactions.iter().map(|t| u64::from(t.rows)).sum()
    }
}
