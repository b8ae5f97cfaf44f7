//! Cutting: writes sealed generations to disk while replay continues, and runs compaction beside both.
//!
//! In: boundaries and memory use from the sequencing thread, sealed generations from a queue. Out: durable cuts,
//! oldest first. Invariants: a generation is cut only after all of it is applied and visible, and after the relay log
//! is durable up to it (invariant 11); sequencing waits when a second generation would have to be sealed.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::time::{Duration, Instant};

use base::{GtidSet, LogPosition, PreparedSet};
use catalog::Catalog;
use crossbeam_channel::{Receiver, RecvTimeoutError, Sender, bounded};
use decode::{DecodedPiece, SequencedPiece, Sequencer, Stop, StopClass};
use observe::fail_point::{self, Phase};
use observe::{Ledger, LedgerRow, LedgerSnapshot, Page};
use store::{CutPoint, CutReport, Generation, MERGE_RUNS, Store, StoreError};

use crate::publish::Publisher;
use crate::rewrite::RewriteBoundary;
use crate::shutdown::Shutdown;
use crate::space_wait::SpaceWait;
use crate::stop::class_of;

/// Makes the relay log durable up to a position.
pub type SyncRelay = Box<dyn Fn(&CutPoint) -> Result<(), String> + Send>;
/// Called after every durable cut.
pub type AfterCut = Box<dyn Fn(&CutPoint, &CutReport) + Send>;

/// When and how cuts are taken.
pub struct CutOptions {
    /// Bytes at which a generation is sealed and cut. Memory use peaks at two and a half times this: one generation
    /// grows while another is cut, and a cut needs sorted references to all its keys. Memory that only snapshots pin
    /// counts towards that total, so generations are smaller meanwhile.
    pub generation_bytes: u64,
    /// Maximum age of changes that no cut holds, whatever the generation's size.
    pub interval: Duration,
    /// Called before every cut.
    pub sync_relay: SyncRelay,
    /// Called after every cut.
    pub after_cut: AfterCut,
    /// Whether the store's writes wait while the disk is full; otherwise replay stops.
    pub waits_for_space: bool,
}

/// What replay waits for, as shown by status.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CutWait {
    /// Nothing.
    None,
    /// A generation is being cut and the next one is full.
    Cut,
    /// The tree has too many runs for one more cut.
    Compaction,
    /// As `Compaction`, and a damaged file keeps them from being merged.
    Damage,
    /// A cut, or the merge it waits for, needs more free disk space.
    Space,
}

/// Largest generation, in bytes, that is still cut when replay ends, so that the next start has nothing to replay.
const LAST_CUT_BYTES_MAX: u64 = 64 << 20;
/// Interval at which a wait checks whether replay ends.
const LOOK: Duration = Duration::from_millis(50);

/// Seconds without a cut after which compaction also does the work it defers while cuts keep coming.
const IDLE_AFTER_S: u32 = 3;

/// Divisor of `CutOptions::generation_bytes`: the lower bound of a generation's size, however much memory snapshots
/// pin.
const SMALLEST_GENERATION: u64 = 8;

/// A sealed generation on its way to disk.
struct Sealed {
    generation: Arc<Generation>,
    /// The publisher's index of the last piece applied to it; None if it has none.
    last_piece: Option<u64>,
    /// Set if it holds part of an unfinished transaction: that transaction's sequence number, and the catalog for its
    /// tables.
    unfinished: Option<(u64, Catalog)>,
    /// Ledger page that counts its events.
    page: Page,
    /// Counts that the page must show once the whole generation is applied.
    events: LedgerSnapshot,
}

/// Shared by the sequencing thread, the cutter and status.
#[derive(Default)]
pub struct CutState {
    /// Generations sealed and not yet on disk.
    pending: Mutex<usize>,
    less: Condvar,
    waits_for_cut: AtomicBool,
    waits_for_compaction: AtomicBool,
    /// Why compaction does not come.
    waits_for_damage: AtomicBool,
    waits_for_space: AtomicBool,
    /// Memory that the write has which waits for space; on disk it is at most about as large.
    waiting_bytes: AtomicU64,
    asked: AtomicBool,
    /// XA transactions in prepared state after the last piece sequenced.
    prepared: Mutex<PreparedSet>,
}

impl CutState {
    /// What replay waits for.
    #[must_use]
    pub fn wait(&self) -> CutWait {
        if self.waits_for_space.load(Ordering::Relaxed) {
            CutWait::Space
        } else if self.waits_for_compaction.load(Ordering::Relaxed) {
            if self.waits_for_damage.load(Ordering::Relaxed) { CutWait::Damage } else { CutWait::Compaction }
        } else if self.waits_for_cut.load(Ordering::Relaxed) {
            CutWait::Cut
        } else {
            CutWait::None
        }
    }

    /// Bytes that a write which waits for space may need; 0 if none waits.
    #[must_use]
    pub fn waiting_bytes(&self) -> u64 {
        self.waiting_bytes.load(Ordering::Relaxed)
    }

    /// Asks for a cut at the next boundary.
    pub fn ask(&self) {
        self.asked.store(true, Ordering::Relaxed);
    }

    fn pending(&self) -> usize {
        *self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn one_less(&self) {
        *self.pending.lock().unwrap_or_else(PoisonError::into_inner) -= 1;
        self.less.notify_all();
    }
}

/// The sequencing thread's side: decides when to seal a generation.
pub struct Sealer {
    store: Arc<Store>,
    state: Arc<CutState>,
    shutdown: Arc<Shutdown>,
    publisher: Arc<Publisher>,
    to_cutter: Sender<Sealed>,
    generation_bytes: u64,
    interval: Duration,
    /// When the first change that no seal holds was handed on.
    since: Instant,
    sealed_at: u64,
    ledger: Arc<Ledger>,
    /// Ledger page of the growing generation. The sealed one uses the other page; two pages suffice because a
    /// generation is on disk before the next one is sealed.
    page: Page,
    last_piece: Option<u64>,
    last_end: Option<LogPosition>,
    /// True if the last piece's transaction continues in the next one.
    unfinished: bool,
}

/// The cutter's side: writes sealed generations to disk.
pub struct Cutter {
    store: Arc<Store>,
    state: Arc<CutState>,
    shutdown: Arc<Shutdown>,
    publisher: Arc<Publisher>,
    ledger: Arc<Ledger>,
    from_sealer: Receiver<Sealed>,
    sync_relay: SyncRelay,
    after_cut: AfterCut,
    waits_for_space: bool,
    kicks: [Sender<()>; 3],
    /// Taken from the queue by `step` and not yet on disk.
    in_hand: Option<Sealed>,
}

/// Result of a step of the cutter.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CutterStep {
    /// No generation is sealed.
    Idle,
    /// The sealed generation is not visible yet, or the tree has too many runs.
    Waits,
    /// A generation was written to disk.
    Done,
}

/// Creates both sides, and the channels that wake the compaction threads.
#[must_use]
pub fn sealer_and_cutter(
    store: &Arc<Store>,
    publisher: &Arc<Publisher>,
    ledger: &Arc<Ledger>,
    shutdown: &Arc<Shutdown>,
    state: &Arc<CutState>,
    options: CutOptions,
) -> (Sealer, Cutter, [(Compaction, Receiver<()>); 3]) {
    let (to_cutter, from_sealer) = bounded(4);
    let (near, near_kicked) = bounded(1);
    let (middle, middle_kicked) = bounded(1);
    let (deep, deep_kicked) = bounded(1);
    let sealer = Sealer {
        store: Arc::clone(store),
        state: Arc::clone(state),
        shutdown: Arc::clone(shutdown),
        publisher: Arc::clone(publisher),
        to_cutter,
        generation_bytes: options.generation_bytes,
        interval: options.interval,
        since: Instant::now(),
        sealed_at: store.last_cut(),
        ledger: Arc::clone(ledger),
        page: Page::default(),
        last_piece: None,
        last_end: None,
        unfinished: false,
    };
    let cutter = Cutter {
        store: Arc::clone(store),
        state: Arc::clone(state),
        shutdown: Arc::clone(shutdown),
        publisher: Arc::clone(publisher),
        ledger: Arc::clone(ledger),
        from_sealer,
        sync_relay: options.sync_relay,
        after_cut: options.after_cut,
        waits_for_space: options.waits_for_space,
        kicks: [near, middle, deep],
        in_hand: None,
    };
    let kicked =
        [(Compaction::Near, near_kicked), (Compaction::Middle, middle_kicked), (Compaction::Deep, deep_kicked)];
    (sealer, cutter, kicked)
}

impl Sealer {
    /// Decides, before `coming` is sequenced, whether to seal the generation. May wait for the cutter.
    pub fn before(&mut self, coming: &DecodedPiece, sequencer: &Sequencer) {
        if !self.wants(coming) {
            return;
        }
        if !self.unfinished {
            self.seal_here(sequencer);
        } else if self.make_room() {
            // The open transaction got its number with its first slice.
            let number = sequencer.last().0;
            self.hand_over(None, Some((number, sequencer.catalog().clone())));
        }
    }

    /// True if `before`, or `idle` when no piece is available, would wait for the cutter.
    #[must_use]
    pub fn would_wait(&self, coming: Option<&DecodedPiece>) -> bool {
        let wants = coming.map_or_else(|| !self.unfinished && self.is_due(), |coming| self.wants(coming));
        wants && self.state.pending() > 0
    }

    fn wants(&self, coming: &DecodedPiece) -> bool {
        let full = self.is_full();
        // A large transaction starts a generation of its own. A generation spilled in the middle of it then holds
        // nothing but that transaction, of which nothing is visible.
        full || !self.unfinished && (coming.piece.unfinished || self.is_due())
    }

    /// True if the growing generation has reached its size. Memory is five halves of a generation plus what snapshots
    /// pin, so each pinned byte takes two fifths of a byte from the limit.
    fn is_full(&self) -> bool {
        let visibility = self.store.visibility();
        let smallest = self.generation_bytes / SMALLEST_GENERATION;
        let limit = self.generation_bytes.saturating_sub(visibility.held_bytes() / 5 * 2).max(smallest);
        visibility.layers().active.bytes() >= limit
    }

    /// Like `before`, for changes of a copied table, which come only at a boundary.
    pub(crate) fn before_copied(&mut self, sequencer: &Sequencer) {
        if self.is_full() || self.is_due() {
            self.seal_here(sequencer);
        }
    }

    /// Decides, before another slice of transaction `number`, whether its slices so far must be spilled.
    pub(crate) fn before_slice(&mut self, number: u64, catalog: &Catalog) {
        if self.is_full() && self.make_room() {
            self.hand_over(None, Some((number, catalog.clone())));
        }
    }

    /// Seals before a large transaction that follows this boundary and whose slices are not in the log (a table
    /// rewrite).
    pub(crate) fn before_large(&mut self, boundary: &RewriteBoundary) {
        let RewriteBoundary { sequence, executed, catalog, prepared } = boundary;
        self.seal_at(sequence.0, executed, catalog, prepared);
    }

    /// Like `after`, for a piece of a copied table, which has no position in the relay log.
    pub(crate) fn after_copied(&mut self, index: u64) {
        if self.last_piece.is_none() {
            self.since = Instant::now();
        }
        self.last_piece = Some(index);
    }

    /// Ledger page for pieces handed on now.
    pub(crate) fn page(&self) -> Page {
        self.page
    }

    /// Called when no piece is available: seals if the generation is due.
    pub fn idle(&mut self, sequencer: &Sequencer) {
        if !self.unfinished && self.is_due() {
            self.seal_here(sequencer);
        }
    }

    /// Records a piece that was handed to the workers.
    pub fn after(&mut self, index: u64, piece: &SequencedPiece) {
        if self.last_piece.is_none() {
            self.since = Instant::now();
        }
        self.last_piece = Some(index);
        let bytes = &piece.decoded.piece;
        self.last_end = Some(bytes.position(bytes.end));
        self.unfinished = bytes.unfinished;
        *self.state.prepared.lock().unwrap_or_else(PoisonError::into_inner) = Arc::clone(&piece.prepared);
    }

    fn is_due(&self) -> bool {
        self.last_piece.is_some()
            && (self.state.asked.load(Ordering::Relaxed)
                || self.since.elapsed() >= self.interval && self.state.pending() == 0)
    }

    fn seal_here(&mut self, sequencer: &Sequencer) {
        // Not borrowed: that would lock it while this waits for the cutter.
        let executed = sequencer.executed().clone();
        self.seal_at(sequencer.last().0, &executed, sequencer.catalog(), sequencer.prepared());
    }

    fn seal_at(&mut self, sequence: u64, executed: &GtidSet, catalog: &Catalog, prepared: &PreparedSet) {
        if sequence <= self.sealed_at || !self.make_room() {
            return;
        }
        self.state.asked.store(false, Ordering::Relaxed);
        self.sealed_at = sequence;
        let point = CutPoint {
            sequence,
            executed: executed.clone(),
            catalog: catalog.clone(),
            position: self.last_end.as_ref().map(|end| (end.file.to_string(), end.offset)),
            ledger: ledger_text(&as_applied(self.ledger.snapshot(binlog::event_type::name))),
            prepared: Arc::clone(prepared),
        };
        self.hand_over(Some(point), None);
    }

    fn hand_over(&mut self, point: Option<CutPoint>, unfinished: Option<(u64, Catalog)>) {
        let generation = self.store.seal(point);
        *self.state.pending.lock().unwrap_or_else(PoisonError::into_inner) += 1;
        let page = self.page;
        self.page = page.other();
        let events = as_applied(self.ledger.page(page, binlog::event_type::name));
        let last_piece = self.last_piece.take();
        // Fails only if the cutter is gone, which happens only when replay ends.
        let _ = self.to_cutter.send(Sealed { generation, last_piece, unfinished, page, events });
    }

    /// Waits until no sealed generation is pending; false when replay ends first.
    fn make_room(&self) -> bool {
        let mut pending = self.state.pending.lock().unwrap_or_else(PoisonError::into_inner);
        let waits = *pending > 0;
        self.state.waits_for_cut.store(waits, Ordering::Relaxed);
        while *pending > 0 {
            if self.shutdown.stops_handing_on() || self.publisher.failure().is_some() {
                self.state.waits_for_cut.store(false, Ordering::Relaxed);
                return false;
            }
            pending = self.state.less.wait_timeout(pending, LOOK).unwrap_or_else(PoisonError::into_inner).0;
        }
        self.state.waits_for_cut.store(false, Ordering::Relaxed);
        true
    }
}

impl Cutter {
    /// Cuts sealed generations until the sequencing thread is gone, then makes a last cut if that is quick.
    ///
    /// # Errors
    /// When the relay log or the store cannot be written.
    pub fn run(self, workers_done: &Receiver<()>) -> Result<(), Box<Stop>> {
        loop {
            match self.from_sealer.recv_timeout(LOOK) {
                Ok(sealed) => {
                    if !self.put_away(&sealed)? {
                        return Ok(());
                    }
                    // Apart from snapshots this was the last reference, so most of its memory is free now.
                    drop(sealed);
                    base::allocator::trim();
                    self.state.one_less();
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => {
                    // Closed by the last worker; nothing is ever sent.
                    let _ = workers_done.recv();
                    return self.last_cut();
                }
            }
        }
    }

    /// Writes one sealed generation to disk if that needs no waiting.
    ///
    /// # Errors
    /// As [`run`](Self::run).
    pub fn step(&mut self) -> Result<CutterStep, Box<Stop>> {
        if self.in_hand.is_none() {
            self.in_hand = self.from_sealer.try_recv().ok();
        }
        let Some(sealed) = &self.in_hand else { return Ok(CutterStep::Idle) };
        let visible = sealed.last_piece.is_none_or(|last| self.publisher.wait_passed(last, Duration::ZERO));
        let tree_full = self.store.disk().is_some_and(|disk| disk.is_full());
        if !visible || tree_full {
            return Ok(CutterStep::Waits);
        }
        self.put_away(sealed)?;
        self.in_hand = None;
        self.state.one_less();
        Ok(CutterStep::Done)
    }

    /// Waits until the generation is visible, then cuts or spills it. False when replay ends first.
    fn put_away(&self, sealed: &Sealed) -> Result<bool, Box<Stop>> {
        if let Some(last) = sealed.last_piece {
            while !self.publisher.wait_passed(last, LOOK) {
                if self.shutdown.stops_applying() || self.publisher.failure().is_some() && self.is_ended() {
                    return Ok(false);
                }
            }
        }
        self.check_events(sealed)?;
        match (&sealed.unfinished, sealed.generation.point()) {
            (Some((sequence, catalog)), _) => {
                let spilled = self.once_there_is_space(sealed.generation.bytes(), || {
                    self.store.spill(&sealed.generation, *sequence, catalog)
                })?;
                Ok(spilled.is_some())
            }
            (None, Some(point)) => self.cut(&sealed.generation, point),
            (None, None) => Ok(true),
        }
    }

    /// Checks that what the cut will record as applied was applied: nothing of this generation is in flight any more.
    fn check_events(&self, sealed: &Sealed) -> Result<(), Box<Stop>> {
        let now = self.ledger.page(sealed.page, binlog::event_type::name);
        if now == sealed.events {
            return Ok(());
        }
        let differs = now.rows.iter().find(|row| !sealed.events.rows.contains(row));
        let what = match differs {
            Some(row) => format!("the ledger of a generation about to be cut does not add up: {row:?}"),
            None => "the ledger of a generation about to be cut lacks events".to_owned(),
        };
        Err(self.defect(&what))
    }

    /// True if no more pieces come: a piece that is not visible by now never will be.
    fn is_ended(&self) -> bool {
        self.shutdown.stops_reading()
    }

    fn kick(&self) {
        for kick in &self.kicks {
            let _ = kick.try_send(());
        }
    }

    fn cut(&self, generation: &Generation, point: &CutPoint) -> Result<bool, Box<Stop>> {
        fail_point::enter(Phase::Cut);
        (self.sync_relay)(point).map_err(|text| self.stop_with(StopClass::Io, text))?;
        let Some(disk) = self.store.disk() else { return Ok(true) };
        while disk.is_full() {
            // A cut adds a run to the tree. Where there are too many already, it waits for compaction; sequencing in
            // turn waits for the cut.
            self.state.waits_for_damage.store(disk.is_full_of_damage(), Ordering::Relaxed);
            self.state.waits_for_space.store(disk.merge_wants_bytes() > 0, Ordering::Relaxed);
            self.state.waits_for_compaction.store(true, Ordering::Relaxed);
            self.kick();
            std::thread::sleep(LOOK);
            if self.shutdown.stops_applying() {
                return Ok(false);
            }
        }
        self.state.waits_for_compaction.store(false, Ordering::Relaxed);
        self.state.waits_for_space.store(false, Ordering::Relaxed);
        fail_point::enter(Phase::Ingest);
        let written = self.once_there_is_space(generation.bytes(), || self.store.cut(generation))?;
        let Some(report) = written else { return Ok(false) };
        self.kick();
        (self.after_cut)(point, &report);
        Ok(true)
    }

    /// Writes; where the disk is full, again from the same generation once there is space. None when replay ends first.
    fn once_there_is_space<T>(
        &self,
        bytes: u64,
        mut write: impl FnMut() -> Result<T, StoreError>,
    ) -> Result<Option<T>, Box<Stop>> {
        let disk = self.store.disk().filter(|_| self.waits_for_space);
        let mut wait = disk.map(SpaceWait::new);
        let written = loop {
            match (write(), &mut wait) {
                (Err(StoreError::DiskFull { .. }), Some(wait)) => {
                    let waits = || {
                        self.state.waiting_bytes.store(bytes, Ordering::Relaxed);
                        self.state.waits_for_space.store(true, Ordering::Relaxed);
                    };
                    match wait.until_next_try(&self.shutdown, waits) {
                        Ok(true) => {}
                        Ok(false) => break Ok(None),
                        Err(error) => break Err(self.stop(&error)),
                    }
                }
                (Err(error), _) => break Err(self.stop(&error)),
                (Ok(written), _) => break Ok(Some(written)),
            }
        };
        self.state.waits_for_space.store(false, Ordering::Relaxed);
        self.state.waiting_bytes.store(0, Ordering::Relaxed);
        written
    }

    /// Called when replay is over: cuts everything visible, unless something above the watermark was applied.
    ///
    /// # Errors
    /// As [`run`](Self::run).
    pub fn last_cut(&self) -> Result<(), Box<Stop>> {
        let store = &self.store;
        let visible = store.visibility().current();
        let bytes = store.visibility().layers().active.bytes();
        if self.shutdown.stops_applying()
            || !self.publisher.is_drained()
            || visible.sequence.0 <= store.last_cut()
            || bytes > LAST_CUT_BYTES_MAX
        {
            return Ok(());
        }
        let events = self.ledger.of_this_run(binlog::event_type::name);
        if let Some(row) = events.unbalanced().next() {
            return Err(self.defect(&unbalanced_text(row)));
        }
        let position = self.publisher.status().position;
        let point = CutPoint {
            sequence: visible.sequence.0,
            executed: visible.executed,
            catalog: visible.catalog,
            position: position.map(|end| (end.file.to_string(), end.offset)),
            ledger: ledger_text(&self.ledger.snapshot(binlog::event_type::name)),
            // Everything sequenced is visible, so this is also the set at the watermark.
            prepared: Arc::clone(&self.state.prepared.lock().unwrap_or_else(PoisonError::into_inner)),
        };
        let sealed = store.seal(Some(point.clone()));
        self.cut(&sealed, &point).map(|_| ())
    }

    fn stop(&self, error: &StoreError) -> Box<Stop> {
        self.stop_with(class_of(error), error.to_string())
    }

    fn stop_with(&self, class: StopClass, reason: String) -> Box<Stop> {
        let position = self.publisher.position();
        Box::new(Stop { class, position, gtid: None, reason })
    }

    #[track_caller]
    fn defect(&self, what: &str) -> Box<Stop> {
        Box::new(Stop::of_defect(self.publisher.position(), self.publisher.status().last_gtid, what))
    }
}

/// Returns the ledger as it will be once everything sequenced so far is applied. [`Cutter::check_events`] verifies
/// that before the cut that records it.
fn as_applied(mut snapshot: LedgerSnapshot) -> LedgerSnapshot {
    for row in &mut snapshot.rows {
        row.counts.applied += u64::try_from(row.counts.in_flight()).unwrap_or(0);
    }
    snapshot
}

fn ledger_text(snapshot: &LedgerSnapshot) -> String {
    snapshot.to_record().unwrap_or_default()
}

/// Text for a row that does not balance although nothing is in flight.
pub(crate) fn unbalanced_text(row: &LedgerRow) -> String {
    let (name, seen, accounted) = (&row.name, row.counts.seen, row.counts.accounted());
    format!("the ledger does not add up: {seen} {name} events were seen, and the fate of {accounted} is known")
}

/// Which runs a compaction thread merges.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Compaction {
    /// The newest runs: too many of them block cuts.
    Near,
    /// Runs that hold several cuts.
    Middle,
    Deep,
}

/// Compacts whenever there is work, until replay ends. Each cut sends to `kicked`.
///
/// # Errors
/// When the store cannot be read or written.
pub(crate) fn compact(
    store: &Store,
    shutdown: &Shutdown,
    which: Compaction,
    waits_for_space: bool,
    kicked: &Receiver<()>,
) -> Result<(), StoreError> {
    let may_idle = base::fail_points::value("never_idle").is_none();
    let mut quiet = 0;
    while !shutdown.is_asked() {
        match kicked.recv_timeout(Duration::from_secs(1)) {
            Ok(()) => quiet = 0,
            Err(RecvTimeoutError::Timeout) => quiet += 1,
            Err(RecvTimeoutError::Disconnected) => return Ok(()),
        }
        let idle = may_idle && quiet >= IDLE_AFTER_S;
        loop {
            if shutdown.is_asked() {
                break;
            }
            let did = match which {
                Compaction::Near => {
                    if store.disk().is_some_and(|disk| disk.l0_runs() >= MERGE_RUNS) {
                        fail_point::enter(Phase::Compaction);
                    }
                    store.compact_near(idle)
                }
                Compaction::Middle => store.compact_middle(idle),
                Compaction::Deep => store.compact_deep(idle),
            };
            let did = match did {
                // An index could not be filled. The table is put in quarantine, which is not this thread's business.
                Err(StoreError::DamagedFile { .. }) => false,
                // What it wrote is of no use; the next try comes where there is room.
                Err(StoreError::DiskFull { .. }) if waits_for_space => {
                    store.disk().map_or(Ok(0), |disk| disk.remove_unnamed())?;
                    false
                }
                did => did?,
            };
            if !did {
                break;
            }
            base::allocator::trim();
        }
    }
    Ok(())
}
