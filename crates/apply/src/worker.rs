//! An apply worker: applies the pieces' rows of its own lanes, in log order.
//!
//! In: sequenced pieces. Out: row versions in its lanes, counts of the events applied. Never here: a wait for another
//! lane, except at a barrier, and even there never for a worker that is gone; a row of a transaction that must not
//! become visible; a row in another lane than its key's, or of a transaction that its piece does not have
//! (invariant 29).

use std::cell::RefCell;
use std::sync::atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, PoisonError};
use std::time::Duration;

use base::SequenceNumber;
use catalog::{Identity, TableId};
use decode::{
    BEFORE_CHECKED, BEFORE_UNCHECKED, CASCADE_GONE, CASCADE_NEW, CASCADE_OLD, DecodedPiece, LAST_OF_EVENT,
    LOGGED_TWICE, OpKind, RowOp, RowView, SequencedPiece, Shape, Span, Stop, StopClass,
};
use observe::{Category, Ledger, LedgerBatch};
use store::{
    BeforeImage, CheckImages, Lane, LaneGuard, Layers, OwnedShape, RowChange, RowError, RowErrorKind, RowTarget, Store,
    TableShape, WARM_ROWS, WriteContext, merge_json,
};

use crate::cascade::Cascade;
use crate::in_flight::InFlight;
use crate::publish::Publisher;
use crate::shutdown::Shutdown;
use crate::statement_rows::{Own, StatementRows};
use crate::stop::class_of;

/// Interval at which a worker that waits at a barrier checks whether the others are still there.
const BARRIER_LOOK: Duration = Duration::from_millis(50);

/// Size of a cache line in bytes.
const CACHE_LINE: usize = 64;

/// Checks made while rows are applied.
#[derive(Clone, Debug, Default)]
pub struct ApplyOptions {
    /// Which stored rows are compared with the log's before images.
    pub check_images: CheckImages,
    /// While true, [`CheckImages::Sample`] is [`CheckImages::All`]. Looked at once a piece.
    pub checks_all: Arc<AtomicBool>,
}

impl ApplyOptions {
    fn check_now(&self) -> CheckImages {
        match self.check_images {
            CheckImages::Sample if self.checks_all.load(Ordering::Relaxed) => CheckImages::All,
            check => check,
        }
    }
}

/// One row change of a piece, and what it is carried out under.
#[derive(Clone, Copy)]
struct RowWork<'a> {
    decoded: &'a DecodedPiece,
    shape: &'a Shape,
    op: &'a RowOp,
    /// Number of its transaction.
    sequence: u64,
    oldest_needed: u64,
    layers: &'a Layers,
}

/// One apply worker, the only writer of its lanes.
pub struct Worker {
    store: Arc<Store>,
    publisher: Arc<Publisher>,
    ledger: Arc<Ledger>,
    options: ApplyOptions,
    /// Check in force for the piece in hand.
    check: CheckImages,
    /// Indexes of this worker's lanes.
    lanes: Vec<usize>,
    barriers: Arc<AtomicUsize>,
    shutdown: Arc<Shutdown>,
    /// Row changes taken by this worker, updated once per piece.
    rows: Arc<AtomicU64>,
    counts: LedgerBatch,
    /// Ops of the piece in hand that were carried out or refused.
    carried_out: u64,
    /// Index of the piece that comes next.
    next_piece: u64,
    tables: Vec<TableId>,
    /// Scratch images for rows that move between lanes at a barrier: the old one here, the merged one in `merged`.
    moved: Vec<u8>,
    merged: Vec<u8>,
    /// Old image of the row whose foreign keys are being followed.
    parent: Vec<u8>,
    /// True if foreign keys are followed for the piece in hand.
    follows: bool,
    /// Rows that this following changed.
    followed: RefCell<StatementRows>,
}

impl Worker {
    /// Creates the worker that owns these lanes.
    #[must_use]
    pub fn new(
        store: Arc<Store>,
        publisher: Arc<Publisher>,
        ledger: Arc<Ledger>,
        options: ApplyOptions,
        lanes: Vec<usize>,
        barriers: Arc<AtomicUsize>,
        shutdown: Arc<Shutdown>,
    ) -> Worker {
        Worker {
            store,
            publisher,
            ledger,
            check: options.check_images,
            options,
            lanes,
            barriers,
            shutdown,
            rows: Arc::default(),
            counts: LedgerBatch::new(),
            carried_out: 0,
            next_piece: 0,
            tables: Vec::new(),
            moved: Vec::new(),
            merged: Vec::new(),
            parent: Vec::new(),
            follows: true,
            followed: RefCell::default(),
        }
    }

    /// Counter of row changes taken so far, those at barriers included.
    #[must_use]
    pub fn rows(&self) -> Arc<AtomicU64> {
        Arc::clone(&self.rows)
    }

    /// Processes one piece, including the wait at its barrier. The last worker to finish the piece tells the
    /// publisher.
    pub fn step(&mut self, flight: &InFlight) {
        // If replay ends inside a piece, no worker that saw it calls `finish`. The piece then keeps an unfinished
        // worker, so the publisher never makes it visible, and the next start replays it from the last cut.
        if self.begin(flight) && self.wait(flight) {
            self.finish(flight);
        }
    }

    /// Applies the piece's rows in this worker's lanes, then arrives at its barrier. The last worker to arrive
    /// applies the ops that need several lanes. False when replay ended: not all workers finish the piece, so it
    /// never becomes visible.
    pub fn begin(&mut self, flight: &InFlight) -> bool {
        if self.shutdown.stops_applying() {
            return false;
        }
        self.follows = flight.copied.is_none();
        self.check = if flight.not_yet_consistent { CheckImages::NotYetConsistent } else { self.options.check_now() };
        self.carried_out = 0;
        if flight.index != self.next_piece {
            let what = format!("a worker got piece {} before piece {}", flight.index, self.next_piece);
            fail(&self.publisher, flight, &what);
        }
        self.next_piece = flight.index + 1;
        self.apply_lanes(flight);
        if let Some((state, passed)) = &flight.barrier {
            let mut guard = state.lock().unwrap_or_else(PoisonError::into_inner);
            guard.0 += 1;
            if guard.0 == flight.workers {
                // All other workers have applied their lanes and wait in `wait`, so this one may write to every lane.
                self.barriers.fetch_add(1, Ordering::Relaxed);
                self.apply_barrier(flight);
                guard.1 = true;
                passed.notify_all();
            }
        }
        true
    }

    /// Reports that this worker's part is done, after the barrier. The last worker completes the piece.
    pub fn finish(&mut self, flight: &InFlight) {
        // Replay counts the log's events. A table copy reads the same events a second time.
        if flight.copied.is_some() {
            self.counts = LedgerBatch::new();
        }
        if !self.counts.is_empty() {
            self.ledger.merge(flight.page, &mut self.counts);
        }
        if observe::WATCHES && self.carried_out > 0 {
            // Relaxed suffices: `remaining.done()` below publishes the sum to the last worker.
            flight.carried_out.fetch_add(self.carried_out, Ordering::Relaxed);
        }
        if flight.remaining.done() {
            flight.complete(&self.publisher);
            if let Some(track) = &flight.copied {
                track.done();
            }
        }
    }

    /// Waits until the barrier's ops are applied. False when replay ends, as the other workers may never arrive.
    fn wait(&self, flight: &InFlight) -> bool {
        let Some((state, passed)) = &flight.barrier else { return true };
        let mut guard = state.lock().unwrap_or_else(PoisonError::into_inner);
        while !guard.1 {
            if self.shutdown.stops_applying() {
                return false;
            }
            guard = passed.wait_timeout(guard, BARRIER_LOOK).unwrap_or_else(PoisonError::into_inner).0;
        }
        true
    }

    fn apply_lanes(&mut self, flight: &InFlight) {
        let (piece, decoded) = (&flight.piece, &flight.piece.decoded);
        let (lanes, own) = (decoded.lanes.len(), self.store.lane_count());
        if lanes != own {
            fail(&self.publisher, flight, &format!("a piece of {lanes} lanes for a store of {own}"));
            return;
        }
        self.tables.clear();
        for shape in &decoded.shapes {
            let id = shape.plan.def.id;
            if !self.tables.contains(&id) {
                self.tables.push(id);
            }
        }
        // Rows from `limit` on can never become visible. They are refused without being applied, but still counted,
        // so that the piece completes and the ledger balances. No row of the piece is of a transaction after its last.
        let mut limit = self.publisher.limit().min(end_of(piece));
        let oldest_needed = self.store.visibility().oldest_needed();
        let lanes = std::mem::take(&mut self.lanes);
        for &lane_index in &lanes {
            let ops = decoded.lanes.get(lane_index).map_or(&[][..], Vec::as_slice);
            if ops.is_empty() && piece.dropped.is_empty() && piece.altered.is_empty() {
                continue;
            }
            match lane_of(&flight.layers, lane_index) {
                Ok(mut lane) => limit = self.apply_lane(flight, lane_index, &mut lane, ops, limit, oldest_needed),
                Err(error) => limit = limit.min(fail(&self.publisher, flight, &error.to_string())),
            }
        }
        self.lanes = lanes;
    }

    /// Applies the ops of one lane below `limit`. Returns the limit for the next lane.
    fn apply_lane(
        &mut self,
        flight: &InFlight,
        lane_index: usize,
        lane: &mut Lane,
        ops: &[RowOp],
        mut limit: u64,
        oldest_needed: u64,
    ) -> u64 {
        let (piece, layers): (_, &Layers) = (&flight.piece, &flight.layers);
        let decoded = &piece.decoded;
        if piece.first.0 < limit {
            for (at, table) in &piece.dropped {
                lane.drop_table(*table, at.0);
            }
        }
        if !piece.altered.is_empty() {
            self.complete_deltas(flight, lane_index, lane, oldest_needed);
            limit = limit.min(self.publisher.limit());
        }
        for some in ops.chunks(WARM_ROWS) {
            if !warm(lane, lane_index, layers, decoded, some) {
                let what = format!("a row change of another lane among those of lane {lane_index}");
                limit = limit.min(fail(&self.publisher, flight, &what));
            }
            for op in some {
                limit = self.carry_out(flight, op, limit, oldest_needed, |worker, work| {
                    let later = worker.may_stand_as_part(piece, work.shape);
                    worker.put(lane, lane_index, work, change(decoded, work.shape, op, later))
                });
            }
        }
        self.carried_out += ops.len() as u64;
        self.rows.fetch_add(ops.len() as u64, Ordering::Relaxed);
        lane.tidy(self.tables.iter().copied(), oldest_needed);
        limit
    }

    /// Carries out an op by `apply`, unless its transaction is not below `limit`, and counts the last one of an event.
    /// Returns the limit for the next op.
    #[inline]
    fn carry_out(
        &mut self,
        flight: &InFlight,
        op: &RowOp,
        mut limit: u64,
        oldest_needed: u64,
        apply: impl FnOnce(&mut Worker, &RowWork<'_>) -> Result<(), RowError>,
    ) -> u64 {
        let piece = &flight.piece;
        let sequence = piece.sequence_of(op.transaction).0;
        let Some(shape) = piece.decoded.find_shape(op) else {
            return limit.min(fail(&self.publisher, flight, "a row change without a shape"));
        };
        let category = if sequence >= limit {
            if sequence >= end_of(piece) {
                limit = limit.min(self.beyond_piece(flight, sequence));
            }
            Category::Refused
        } else {
            let (decoded, layers): (_, &Layers) = (&piece.decoded, &flight.layers);
            match apply(self, &RowWork { decoded, shape, op, sequence, oldest_needed, layers }) {
                Ok(()) => {
                    if op.flags & LOGGED_TWICE != 0 {
                        self.pass_over(&piece.decoded, shape, op);
                    }
                    Category::Applied
                }
                Err(error) => {
                    report(&self.publisher, flight, op, &error);
                    limit = limit.min(sequence);
                    Category::Refused
                }
            }
        };
        if op.flags & LAST_OF_EVENT != 0 {
            self.counts.add(shape.event_type, category, 1);
        }
        limit
    }

    /// Counts a change that the source logged twice. Of the two halves of an update, the first counts.
    #[cold]
    fn pass_over(&self, decoded: &DecodedPiece, shape: &Shape, op: &RowOp) {
        if self.follows && op.kind != OpKind::AddOne {
            let gtid = decoded.transactions.get(op.transaction as usize).and_then(|transaction| transaction.gtid);
            self.publisher.logged_twice().note(&shape.plan.def, gtid);
        }
    }

    /// Fails replay because of a row of a transaction that its piece does not have. Returns the number from which on
    /// rows are not applied.
    #[cold]
    fn beyond_piece(&self, flight: &InFlight, sequence: u64) -> u64 {
        let end = end_of(&flight.piece);
        let what = format!("a row change of transaction {sequence} in a piece that ends before transaction {end}");
        fail(&self.publisher, flight, &what)
    }

    /// True if a partial update may be stored as a delta, without a look at the row. False for a table being copied,
    /// whose row may not be there yet, and for a piece that alters the table.
    #[inline]
    fn may_stand_as_part(&self, piece: &SequencedPiece, shape: &Shape) -> bool {
        let id = shape.plan.def.id;
        self.follows && piece.altered.iter().all(|table| table.id != id)
    }

    /// Completes the deltas of a table's rows in a lane before its definition changes: see [`Lane::complete_deltas`].
    pub(crate) fn complete_deltas(&self, flight: &InFlight, lane_index: usize, lane: &mut Lane, oldest_needed: u64) {
        let (piece, layers): (_, &Layers) = (&flight.piece, &flight.layers);
        let sequence = piece.first.0;
        for table in piece.altered.iter().filter(|_| piece.first.0 < self.publisher.limit()) {
            let shape = OwnedShape::of(table);
            if let Err(error) = lane.complete_deltas(lane_index, &shape.lend(), sequence, oldest_needed, layers) {
                let decoded = &piece.decoded;
                let transaction = decoded.transactions.first();
                let reason = format!("{error}; table {}, in front of a statement that alters it", table.full_name());
                let position = decoded.piece.position(transaction.map_or(decoded.piece.start, |t| t.start));
                let gtid = transaction.and_then(|transaction| transaction.gtid);
                self.publisher.fail(piece.first, Stop { class: class_of_row(&error), position, gtid, reason });
            }
        }
    }

    /// Applies a change; None is one whose bytes are not in the piece.
    #[inline]
    fn put(
        &self,
        lane: &mut Lane,
        lane_index: usize,
        work: &RowWork<'_>,
        change: Option<RowChange<'_>>,
    ) -> Result<(), RowError> {
        let RowWork { decoded, shape, op, sequence, oldest_needed, layers } = *work;
        let (Some(key), Some(change)) = (decoded.find_bytes(op.key), change) else { return Err(beyond()) };
        let Some(check) = self.check_of(op) else { return Ok(()) };
        let target = RowTarget { lane: lane_index, shape: &table_shape(shape), hash: op.hash, key };
        lane.apply(&target, change, &WriteContext { sequence, oldest_needed, check, layers })
    }

    /// The check of an op's row; None for an op that is not carried out, since the source logged its row twice.
    #[inline]
    fn check_of(&self, op: &RowOp) -> Option<CheckImages> {
        if op.flags & (LOGGED_TWICE | BEFORE_CHECKED) == 0 {
            return Some(self.check);
        }
        if op.flags & LOGGED_TWICE != 0 && matches!(op.kind, OpKind::Delete | OpKind::RemoveOne | OpKind::AddOne) {
            return None;
        }
        let is_raised = op.flags & BEFORE_CHECKED != 0 && self.check == CheckImages::Sample;
        Some(if is_raised { CheckImages::All } else { self.check })
    }

    /// Applies the first op that needs several lanes and all after it, in log order, while the other workers wait.
    fn apply_barrier(&mut self, flight: &InFlight) {
        self.apply_in_log_order(flight, &flight.piece.decoded.barrier);
    }

    /// Prepares for a piece that this worker applies alone (`transactions`). False when replay ended.
    pub(crate) fn begin_alone(&mut self, flight: &InFlight) -> bool {
        self.follows = flight.copied.is_none();
        self.check = if flight.not_yet_consistent { CheckImages::NotYetConsistent } else { self.options.check_now() };
        self.carried_out = 0;
        !self.shutdown.stops_applying()
    }

    /// Applies ops of a piece in order, in whatever lanes they are, locking one lane at a time. No other thread may
    /// work on the rows they touch.
    pub(crate) fn apply_in_log_order(&mut self, flight: &InFlight, ops: &[RowOp]) {
        let piece = &flight.piece;
        let oldest_needed = self.store.visibility().oldest_needed();
        // Everything before the barrier is applied by now, so its failures are known.
        let mut limit = self.publisher.limit().min(end_of(piece));
        for op in ops {
            let apply = |worker: &mut Worker, work: &RowWork<'_>| worker.apply_and_follow(piece, work);
            limit = self.carry_out(flight, op, limit, oldest_needed, apply);
        }
        self.carried_out += ops.len() as u64;
        self.rows.fetch_add(ops.len() as u64, Ordering::Relaxed);
    }

    /// Applies one op, and the foreign key actions that follow from it.
    fn apply_and_follow(&mut self, piece: &SequencedPiece, work: &RowWork<'_>) -> Result<(), RowError> {
        let RowWork { decoded, shape, op, sequence, oldest_needed, layers } = *work;
        let own = self.own_change(work)?;
        if own == Own::Nothing {
            self.pass_over(decoded, shape, op);
            return Ok(());
        }
        if self.follows && op.flags & CASCADE_OLD != 0 {
            self.parent = self.image_of(work)?;
        }
        let instead = match &own {
            Own::AsLogged | Own::Nothing => None,
            Own::Unchecked => Some(RowChange::Delete { before: BeforeImage::None }),
            Own::Columns(present, image) => {
                Some(RowChange::Merge { before: BeforeImage::None, present, image, later: false })
            }
            Own::Image(image) => Some(RowChange::Insert { image }),
        };
        if instead.is_some() {
            let lane_index = self.store.lane_of(op.hash);
            let mut lane = lane_of(layers, lane_index)?;
            self.put(&mut lane, lane_index, work, instead)?;
        } else {
            self.apply_across(piece, work)?;
        }
        if matches!(own, Own::Columns(..) | Own::Image(_)) {
            self.pass_over(decoded, shape, op);
        }
        // Replay follows them already, for all tables; the pieces of a table copy must not repeat that.
        let follows = self.follows && op.flags & (CASCADE_NEW | CASCADE_GONE) != 0;
        let Some(catalog) = shape.plan.cascades.as_ref().filter(|_| follows) else {
            return Ok(());
        };
        let new = if op.flags & CASCADE_NEW != 0 { Some(self.image_of(work)?) } else { None };
        let (check, rows) = (self.check, &self.followed);
        let cascade = Cascade { store: &self.store, layers, catalog, sequence, oldest_needed, check, rows };
        cascade.follow(&shape.plan.def, &self.parent, new.as_deref())
    }

    /// Says what becomes of a change whose row a cascade of the same statement, carried out here, may have changed.
    fn own_change(&self, work: &RowWork<'_>) -> Result<Own, RowError> {
        let RowWork { decoded, shape, op, .. } = *work;
        let mut followed = self.followed.borrow_mut();
        followed.enter((decoded.piece.number, op.transaction, op.statement));
        if !followed.holds(shape.plan.def.id) {
            return Ok(Own::AsLogged);
        }
        let view = |present: Span, image: Span| {
            let present = if present.len == 0 { None } else { Some(decoded.find_bytes(present)?) };
            RowView::of(&shape.plan.layout, present, decoded.find_bytes(image)?)
        };
        let before = view(shape.before_present, op.before);
        let after = match op.kind {
            OpKind::Update | OpKind::Insert => view(Span::default(), op.after),
            OpKind::Merge => view(shape.after_present, op.after),
            _ => None,
        };
        let key = decoded.find_bytes(op.key).ok_or_else(beyond)?;
        let own = followed.own((op, shape), key, (before, after), || self.image_of(work))?;
        own.map_err(|why| RowError { kind: RowErrorKind::LoggedTwice(why.reason(&shape.plan.def)) })
    }

    /// Returns the newest full image of the row that an op names.
    fn image_of(&self, work: &RowWork<'_>) -> Result<Vec<u8>, RowError> {
        let RowWork { decoded, shape, op, layers, .. } = *work;
        let key = decoded.find_bytes(op.key).ok_or_else(beyond)?;
        if shape.plan.def.identity == Identity::WholeImage {
            return Ok(key.to_vec());
        }
        let mut image = Vec::new();
        let lane_index = self.store.lane_of(op.hash);
        let target = RowTarget { lane: lane_index, shape: &table_shape(shape), hash: op.hash, key };
        if lane_of(layers, lane_index)?.newest(&target, layers, &mut image)? {
            Ok(image)
        } else {
            Err(RowError { kind: RowErrorKind::NotFound })
        }
    }

    fn apply_across(&mut self, piece: &SequencedPiece, work: &RowWork<'_>) -> Result<(), RowError> {
        let RowWork { decoded, shape, op, layers, .. } = *work;
        let lane_index = self.store.lane_of(op.hash);
        let mut lane = lane_of(layers, lane_index)?;
        let change = match op.kind {
            OpKind::MoveFrom => {
                if self.check == CheckImages::NotYetConsistent {
                    // The stored row may be newer than the log here, in columns that were not logged.
                    return Err(RowError { kind: RowErrorKind::NotYetConsistent });
                }
                let key = decoded.find_bytes(op.key).ok_or_else(beyond)?;
                let target = RowTarget { lane: lane_index, shape: &table_shape(shape), hash: op.hash, key };
                if !lane.newest(&target, layers, &mut self.moved)? {
                    return Err(RowError { kind: RowErrorKind::NotFound });
                }
                before(decoded, shape, op).map(|before| RowChange::Delete { before })
            }
            OpKind::MoveToJson => {
                self.merged.clear();
                let (partial, image) = decoded.find_partial_image(shape, op).ok_or_else(beyond)?;
                let present = after_present(decoded, shape).ok_or_else(beyond)?;
                merge_json(&table_shape(shape), &self.moved, present, partial, image, &mut self.merged)?;
                Some(RowChange::Insert { image: &self.merged })
            }
            OpKind::MoveTo => {
                self.merged.clear();
                let present = decoded.find_bytes(shape.after_present).ok_or_else(beyond)?;
                let (image, out) = (decoded.find_bytes(op.after).ok_or_else(beyond)?, &mut self.merged);
                if shape.plan.layout.merge(&self.moved, present, image, out).is_err() {
                    return Err(RowError { kind: RowErrorKind::Damaged });
                }
                Some(RowChange::Insert { image: &self.merged })
            }
            _ => change(decoded, shape, op, self.may_stand_as_part(piece, shape)),
        };
        self.put(&mut lane, lane_index, work, change)
    }
}

/// The first number that is none of the piece's transactions.
fn end_of(piece: &SequencedPiece) -> u64 {
    piece.first.0 + piece.decoded.transactions.len() as u64
}

/// Fails replay before a piece that is broken. Returns its first number: nothing from there on is applied.
#[cold]
#[track_caller]
pub(crate) fn fail(publisher: &Publisher, flight: &InFlight, what: &str) -> u64 {
    let first = flight.piece.first;
    publisher.fail(first, flight.piece.decoded.defect(0, what));
    first.0
}

/// The fault of a row change that points outside its piece.
#[cold]
fn beyond() -> RowError {
    RowError { kind: RowErrorKind::Defect("a row change whose bytes are not in its piece") }
}

/// Locks a lane for its one writer.
///
/// # Errors
/// When the store has no such lane.
#[inline]
pub(crate) fn lane_of(layers: &Layers, index: usize) -> Result<LaneGuard<'_>, RowError> {
    let none = || RowError { kind: RowErrorKind::Defect("a lane that the store does not have") };
    layers.active.lane_mut(index).ok_or_else(none)
}

/// Prefetches into the cache what the next ops need: their images, and the store's entries for their rows. False if one
/// of them is not of this lane.
#[inline]
fn warm(lane: &Lane, lane_index: usize, layers: &Layers, decoded: &DecodedPiece, ops: &[RowOp]) -> bool {
    let (mut touched, mut strays, lanes) = (0, 0, decoded.lanes.len());
    let rows = ops.iter().map(|op| {
        for line in decoded.find_bytes(op.after).unwrap_or_default().chunks(CACHE_LINE) {
            touched ^= line.first().copied().unwrap_or(0);
        }
        // Here the hash is at hand, and no row needs a branch of its own.
        strays |= base::lane_of(op.hash, lanes) ^ lane_index;
        (decoded.find_shape(op).map_or(TableId(0), |shape| shape.plan.def.id), op.hash)
    });
    lane.warm(lane_index, layers, rows);
    std::hint::black_box(touched);
    strays == 0
}

#[inline]
fn table_shape(shape: &Shape) -> TableShape<'_> {
    let plan = &shape.plan;
    TableShape {
        id: plan.def.id,
        layout: &plan.layout,
        types: &plan.types,
        order: &plan.order,
        definition: plan.def.version,
        versions: &plan.versions,
    }
}

#[inline]
fn before<'a>(decoded: &'a DecodedPiece, shape: &Shape, op: &RowOp) -> Option<BeforeImage<'a>> {
    if op.before.len == 0 || op.flags & BEFORE_UNCHECKED != 0 {
        return Some(BeforeImage::None);
    }
    let image = decoded.find_bytes(op.before)?;
    if shape.before_present.len == 0 {
        return Some(BeforeImage::Full(image));
    }
    Some(BeforeImage::Partial { present: decoded.find_bytes(shape.before_present)?, image })
}

/// The change that an op makes; None if its bytes are not in the piece.
#[inline]
fn change<'a>(decoded: &'a DecodedPiece, shape: &Shape, op: &RowOp, later: bool) -> Option<RowChange<'a>> {
    Some(match op.kind {
        // For `MoveToJson` this is a placeholder: its image is merged in `apply_across`.
        OpKind::Insert | OpKind::MoveTo | OpKind::MoveToJson => {
            RowChange::Insert { image: decoded.find_bytes(op.after)? }
        }
        OpKind::Update => {
            RowChange::Update { before: before(decoded, shape, op)?, image: decoded.find_bytes(op.after)? }
        }
        OpKind::Merge => RowChange::Merge {
            before: before(decoded, shape, op)?,
            present: decoded.find_bytes(shape.after_present)?,
            image: decoded.find_bytes(op.after)?,
            later,
        },
        OpKind::MergeJson => {
            let (partial, image) = decoded.find_partial_image(shape, op)?;
            RowChange::MergeJson {
                before: before(decoded, shape, op)?,
                present: after_present(decoded, shape)?,
                partial,
                image,
            }
        }
        OpKind::Delete | OpKind::MoveFrom => RowChange::Delete { before: before(decoded, shape, op)? },
        OpKind::AddOne => RowChange::AddOne { later },
        OpKind::RemoveOne => RowChange::RemoveOne { later },
    })
}

/// Bitmap of the columns present in after images, which is None inside if all are.
fn after_present<'a>(decoded: &'a DecodedPiece, shape: &Shape) -> Option<Option<&'a [u8]>> {
    match shape.after_present.len {
        0 => Some(None),
        _ => decoded.find_bytes(shape.after_present).map(Some),
    }
}

fn class_of_row(error: &RowError) -> StopClass {
    match &error.kind {
        RowErrorKind::Store(error) => class_of(error),
        RowErrorKind::NotSupported(_) | RowErrorKind::NotYetConsistent => StopClass::NotSupported,
        RowErrorKind::Defect(_) => StopClass::Defect,
        _ => StopClass::DataDiffers,
    }
}

#[cold]
fn report(publisher: &Publisher, flight: &InFlight, op: &RowOp, error: &RowError) {
    let piece = &flight.piece;
    let decoded = &piece.decoded;
    let transaction = decoded.transactions.get(op.transaction as usize);
    // The entry of a later slice carries the GTID too.
    let gtid = transaction.and_then(|t| t.gtid);
    let table = decoded.find_shape(op).map(|shape| &shape.plan.def);
    let key = decoded.find_bytes(op.key).unwrap_or_default();
    let row = table.and_then(|table| store::row_text(table, key)).unwrap_or_else(|| {
        let shown: String = key.iter().take(32).map(|byte| format!("{byte:02x}")).collect();
        format!("key bytes 0x{shown}{}", if key.len() > 32 { "…" } else { "" })
    });
    let name = table.map_or_else(|| "not known".to_owned(), |table| table.full_name());
    let class = class_of_row(error);
    let reason = format!("{error}; table {name}, {row}");
    if let Some(fault) = &flight.copied {
        fault.fail(reason);
        return;
    }
    let position = decoded.piece.position(transaction.map_or(decoded.piece.start, |t| t.start));
    publisher.fail(SequenceNumber(piece.sequence_of(op.transaction).0), Stop { class, position, gtid, reason });
}

#[cfg(test)]
mod tests {
    use std::sync::{Condvar, Mutex};

    use base::GtidSet;
    use catalog::Catalog;
    use decode::{DecodeOptions, Decoder, MemoryGate, Sequencer, SharedCatalog, Splitter};
    use observe::{LagMeter, RateMeter};

    use store::PinnedLayers;

    use super::*;
    use crate::watermark::Watermark;

    fn flight(workers: usize) -> InFlight {
        // An empty piece, made to look as if it needed all workers.
        let mut pieces = Vec::new();
        let mut writer = binlog::writer::BinlogWriter::new(1, binlog::ChecksumAlgorithm::None, 4);
        writer.stop();
        let mut splitter = Splitter::new(MemoryGate::new(1 << 20));
        let emit = &mut |piece| {
            pieces.push(piece);
            true
        };
        splitter.step(&Arc::from("f"), 4, &Arc::new(writer.take().into()), true, emit).unwrap();
        let (catalog, options) = (Catalog::new(0), DecodeOptions { lanes: 1, ..DecodeOptions::default() });
        let decoded = Decoder::new(options.clone()).decode(pieces.remove(0), &catalog, 0);
        let mut sequencer = Sequencer::new(options, catalog.clone(), GtidSet::new(), SequenceNumber::ZERO);
        let mut sequenced = None;
        sequencer.step(decoded, &SharedCatalog::new(catalog), |piece| sequenced = Some(piece));
        let mut flight =
            InFlight::new(sequenced.unwrap(), 0, workers, PinnedLayers::pin(&Arc::new(Store::new(1, Catalog::new(0)))));
        flight.barrier = Some((Mutex::new((0, false)), Condvar::new()));
        flight
    }

    fn worker(store: &Arc<Store>, shutdown: &Arc<Shutdown>) -> Worker {
        let (lag, rates) = (Arc::new(LagMeter::new()), Arc::new(RateMeter::new()));
        let publisher = Publisher::new(Watermark::of(store), lag, rates, Arc::default());
        Worker::new(
            Arc::clone(store),
            Arc::new(publisher),
            Arc::new(Ledger::new()),
            ApplyOptions::default(),
            vec![0],
            Arc::default(),
            Arc::clone(shutdown),
        )
    }

    #[test]
    fn nobody_waits_at_a_barrier_for_a_worker_that_is_gone() {
        let store = Arc::new(Store::new(1, Catalog::new(0)));
        let shutdown = Arc::new(Shutdown::default());
        let flight = Arc::new(flight(2));
        let waits = {
            let (mut worker, flight) = (worker(&store, &shutdown), Arc::clone(&flight));
            std::thread::spawn(move || worker.step(&flight))
        };
        while flight.barrier.as_ref().unwrap().0.lock().unwrap().0 == 0 {
            std::thread::yield_now();
        }
        assert!(!waits.is_finished());
        shutdown.break_off();
        waits.join().unwrap();
        assert_eq!(flight.remaining.open(), 2, "a piece that not all applied counts as done");
    }

    #[test]
    fn a_worker_gets_each_piece_in_its_turn() {
        for index in [1, 7] {
            let store = Arc::new(Store::new(1, Catalog::new(0)));
            let mut worker = worker(&store, &Arc::new(Shutdown::default()));
            let mut flight = flight(1);
            flight.index = index;
            worker.step(&flight);
            let stop = worker.publisher.failure().unwrap();
            assert_eq!(stop.class, StopClass::Defect);
            assert!(stop.reason.starts_with(&format!("a worker got piece {index} before piece 0 (")), "{stop}");
            assert_eq!(&*stop.position.file, "f");
        }
    }

    #[test]
    fn the_last_worker_at_a_barrier_lets_all_go() {
        let store = Arc::new(Store::new(1, Catalog::new(0)));
        let shutdown = Arc::new(Shutdown::default());
        let flight = Arc::new(flight(3));
        std::thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| worker(&store, &shutdown).step(&flight));
            }
        });
        assert_eq!(flight.remaining.open(), 0);
    }
}
