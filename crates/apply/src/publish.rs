//! Publish: moves the one watermark.
//!
//! In: pieces in log order as they are sequenced, and a notification when all lanes have finished one. Out: the
//! store's watermark, moved over the finished prefix. Invariants: it only grows, from each number to the next; it never
//! passes a transaction that is held, unfinished, or at or after a failure. Where pieces or their numbers break that
//! (invariant 29), replay fails before the first transaction in question.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use base::{CountedCondvar, Gtid, GtidSet, LogPosition, SequenceNumber};
use decode::{SequencedPiece, Stop, StopClass};
use observe::{LagByPart, LagMeter, LagSample, PieceTimes, RateMeter, SourceClock, Work, steady_us};
use relay_log::RelayPosition;
use store::WatermarkHold;

use crate::logged_twice::LoggedTwice;
use crate::watermark::Watermark;

struct Member {
    gtid: Option<Gtid>,
    commit_us: u64,
    rows: u64,
    bytes: u64,
    /// Offset of its end in the relay log file.
    end: u64,
    /// True for changes of a copied table, which are no transaction of the source.
    copied: bool,
}

impl Member {
    fn is_in(&self, set: &GtidSet) -> bool {
        self.copied || self.gtid.is_some_and(|gtid| set.contains(&gtid))
    }
}

struct Entry {
    file: Arc<str>,
    /// Its number; None if it is no file of a relay log.
    file_number: Option<u64>,
    first: SequenceNumber,
    members: Vec<Member>,
    /// Number of members that are visible.
    published: usize,
    done: bool,
    /// When that was, µs since 1970.
    done_us: u64,
}

/// The newest visible transaction.
#[derive(Default)]
struct Shown {
    sequence: u64,
    last_gtid: Option<Gtid>,
    position: Option<LogPosition>,
    /// Scratch buffer, kept for its allocation.
    lags: Vec<LagSample>,
}

/// Most transactions about which the source is asked at once: later ones are in the next question.
const ASKED_MAX: usize = 100_000;

enum Hold {
    None,
    /// No further transaction becomes visible.
    All,
    /// Only transactions of this set, in order, up to the first that is not in it.
    UpTo(GtidSet),
}

struct State {
    queue: VecDeque<Entry>,
    /// Index of the front entry.
    front: u64,
    /// Number that the next transaction must have; while one is open, its number.
    next: u64,
    hold: Hold,
    /// If set, only transactions of this set become visible: those that the source is known to have executed.
    acknowledged: Option<GtidSet>,
    /// Number of clients that keep everything as it is (FLUSH TABLES WITH READ LOCK).
    read_locks: usize,
    /// Number of the first transaction that must never become visible, and why.
    failed: Option<(SequenceNumber, Stop)>,
    /// The transaction whose last slice has not been sequenced; sums up its slices so far.
    open: Option<Member>,
    /// True if replay stopped inside a transaction of which earlier slices are applied.
    torn: bool,
    shown: Shown,
    /// True if somebody waits for all lanes to finish every piece, visible or not.
    applied_awaited: bool,
    /// Index of the earliest piece whose publication somebody waits for.
    passed_awaited: Option<u64>,
}

/// Publishing, as shown by status.
#[derive(Clone, Debug, Default)]
pub struct PublisherStatus {
    /// The source's transactions that are sequenced and not visible.
    pub pending_transactions: u64,
    /// True if anything is sequenced and not visible: a transaction, or what a copy or an answer of the source brought.
    pub pending: bool,
    /// GTID of the newest visible transaction.
    pub last_gtid: Option<Gtid>,
    /// End of the newest visible transaction in the relay log.
    pub position: Option<LogPosition>,
    /// True if publishing is held.
    pub held: bool,
}

/// Queue of sequenced pieces, and the rules by which they become visible.
pub struct Publisher {
    watermark: Watermark,
    state: Mutex<State>,
    moved: CountedCondvar,
    /// Separate from `moved`, because the cutter waits for one particular piece: waking it for every piece before
    /// that one would cost a system call each.
    passed: CountedCondvar,
    /// For the one who asks the source what it has executed.
    unacknowledged: CountedCondvar,
    lag: Arc<LagMeter>,
    lag_by_part: Arc<LagByPart>,
    rates: Arc<RateMeter>,
    logged_twice: LoggedTwice,
    /// Source clock minus ours, in µs; added to our clock when lag is measured.
    source_clock: Arc<SourceClock>,
    write_transactions: AtomicU64,
    /// Sequence number of the first transaction that must never become visible; a copy of the one in `State::failed`
    /// that workers read without the lock.
    limit: AtomicU64,
}

impl State {
    /// What is wrong with the numbers of a piece that is to be enqueued; None if it continues what is there, without a
    /// gap, and its catalogs and drops belong to its transactions.
    fn misfit(&self, piece: &SequencedPiece) -> Option<String> {
        let (first, decoded) = (piece.first.0, &piece.decoded);
        let (count, stops) = (decoded.transactions.len() as u64, decoded.stop.is_some());
        if first != self.next {
            return Some(format!("transaction {first} was sequenced in the place of transaction {}", self.next));
        }
        if decoded.piece.continues != self.open.is_some() {
            let open = if self.open.is_some() { "" } else { "not " };
            return Some(format!("a piece at transaction {first}, which is {open}open"));
        }
        if decoded.piece.unfinished && count == 0 && !stops {
            return Some(format!("a slice without a transaction, after transaction {}", first.saturating_sub(1)));
        }
        // A statement of the transaction that replay stops at may have left a catalog.
        let numbers = first..first + count + u64::from(stops);
        let outside = |at: &SequenceNumber| !numbers.contains(&at.0);
        let changes = piece.catalogs.iter().map(|(at, _)| at).chain(piece.dropped.iter().map(|(at, _)| at));
        if let Some(at) = changes.copied().find(outside) {
            return Some(format!("a catalog of transaction {} in a piece of {}..{}", at.0, numbers.start, numbers.end));
        }
        let sorted = piece.catalogs.is_sorted_by_key(|(at, _)| *at);
        (!sorted).then(|| format!("catalogs out of order at transaction {first}"))
    }

    /// The next transaction, if it is applied and the source is not known to have executed it.
    fn unacknowledged(&self) -> Option<Gtid> {
        let set = self.acknowledged.as_ref()?;
        let entry = self.queue.front().filter(|entry| entry.done)?;
        let member = entry.members.get(entry.published).filter(|member| !member.is_in(set))?;
        member.gtid
    }

    /// True if nothing more can become visible: replay failed, and everything before the failure is visible.
    fn out_of_reach(&self) -> bool {
        let Some((limit, _)) = &self.failed else { return false };
        let next = self.queue.front().map(|entry| entry.first.0 + entry.published as u64);
        next.is_none_or(|next| next >= limit.0)
    }
}

impl Shown {
    /// The stop for a broken invariant behind the newest visible transaction.
    #[track_caller]
    fn defect(&self, gtid: Option<Gtid>, what: &str) -> Stop {
        let begin = || LogPosition { file: Arc::from(""), offset: 0 };
        Stop::of_defect(self.position.clone().unwrap_or_else(begin), gtid.or(self.last_gtid), what)
    }
}

impl Publisher {
    /// Creates a publisher that moves this watermark.
    #[must_use]
    pub fn new(
        watermark: Watermark,
        lag: Arc<LagMeter>,
        rates: Arc<RateMeter>,
        source_clock: Arc<SourceClock>,
    ) -> Publisher {
        let sequence = watermark.sequence().0;
        Publisher {
            watermark,
            state: Mutex::new(State {
                queue: VecDeque::new(),
                front: 0,
                next: sequence + 1,
                hold: Hold::None,
                acknowledged: None,
                read_locks: 0,
                failed: None,
                open: None,
                torn: false,
                shown: Shown { sequence, ..Shown::default() },
                applied_awaited: false,
                passed_awaited: None,
            }),
            moved: CountedCondvar::new(),
            passed: CountedCondvar::new(),
            unacknowledged: CountedCondvar::new(),
            lag,
            lag_by_part: Arc::default(),
            rates,
            source_clock,
            logged_twice: LoggedTwice::default(),
            write_transactions: AtomicU64::new(0),
            limit: AtomicU64::new(u64::MAX),
        }
    }

    /// Measures the lag's parts too, of transactions of this relay log.
    #[must_use]
    pub fn with_parts(self, lag_by_part: Arc<LagByPart>) -> Publisher {
        Publisher { lag_by_part, ..self }
    }

    /// What the source logged twice.
    #[must_use]
    pub fn logged_twice(&self) -> &LoggedTwice {
        &self.logged_twice
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Enqueues a piece before any worker sees it; returns its index.
    pub fn enqueue(&self, piece: &SequencedPiece, copied: bool) -> u64 {
        let decoded = &piece.decoded;
        let changed = decoded.shapes.iter().map(|shape| shape.plan.def.id);
        self.watermark.note_changes(changed, piece.last().unwrap_or(piece.first));
        let mut state = self.lock();
        match state.misfit(piece) {
            None => {
                for (at, catalog) in &piece.catalogs {
                    self.watermark.announce_catalog(*at, catalog.clone());
                }
            }
            Some(what) => {
                let at = SequenceNumber(piece.first.0.min(state.next));
                self.limit_to(&mut state, at, decoded.defect(0, &what));
            }
        }
        let mut members: Vec<Member> = decoded
            .transactions
            .iter()
            .map(|t| Member {
                gtid: t.gtid,
                commit_us: t.commit_us,
                rows: u64::from(t.rows),
                bytes: (t.end - t.start) as u64,
                end: decoded.piece.offset_of(t.end),
                copied,
            })
            .collect();
        if decoded.piece.continues
            && let (Some(open), Some(first)) = (state.open.take(), members.first_mut())
        {
            first.gtid = open.gtid;
            first.commit_us = open.commit_us;
            first.rows += open.rows;
            first.bytes += open.bytes;
        }
        if decoded.piece.unfinished && decoded.stop.is_none() {
            // The transaction is incomplete, so this piece must not publish it: the piece with its last slice does.
            state.open = members.pop();
        }
        state.next = piece.first.0 + members.len() as u64;
        if let Some(stop) = &decoded.stop {
            let at = SequenceNumber(state.next);
            state.torn |= decoded.piece.continues && members.is_empty();
            self.limit_to(&mut state, at, stop.clone());
        }
        let begin = LogPosition { file: Arc::clone(&decoded.piece.file), offset: 0 };
        state.queue.push_back(Entry {
            file_number: RelayPosition::of(&begin).map(|position| position.file_number),
            file: begin.file,
            first: piece.first,
            members,
            published: 0,
            done: false,
            done_us: 0,
        });
        state.front + state.queue.len() as u64 - 1
    }

    /// Called when all lanes have finished the piece; [`InFlight::complete`](crate::stages::InFlight) sees that this
    /// happens once.
    pub fn complete(&self, index: u64) {
        let done_us = steady_us();
        let mut state = self.lock();
        if index >= state.front + state.queue.len() as u64 {
            return self.never_enqueued(state, index);
        }
        let at = index.checked_sub(state.front).and_then(|i| usize::try_from(i).ok());
        if let Some(entry) = at.and_then(|i| state.queue.get_mut(i)) {
            (entry.done, entry.done_us) = (true, done_us);
        }
        self.advance_and_wake(state);
    }

    #[cold]
    fn never_enqueued(&self, state: MutexGuard<'_, State>, index: u64) {
        let what = format!("piece {index} ended, and {} were enqueued", state.front + state.queue.len() as u64);
        let at = SequenceNumber(state.shown.sequence + 1);
        let stop = state.shown.defect(None, &what);
        self.fail_at(state, at, stop);
    }

    /// Waits until the piece at this index and all before it are applied and visible; false when `timeout` passes
    /// first, or earlier after a failure.
    #[must_use]
    pub fn wait_passed(&self, index: u64, timeout: Duration) -> bool {
        let mut state = self.lock();
        if state.front > index || timeout.is_zero() {
            return state.front > index;
        }
        let earliest = state.passed_awaited.map_or(index, |other| other.min(index));
        state.passed_awaited = Some(earliest);
        self.passed.wait_timeout(state, timeout).front > index
    }

    /// Waits until all lanes have applied every enqueued piece, visible or held; false when `timeout` passes first.
    pub(crate) fn wait_applied(&self, timeout: Duration) -> bool {
        let applied = |state: &State| state.queue.iter().all(|entry| entry.done);
        let mut state = self.lock();
        if applied(&state) {
            return true;
        }
        state.applied_awaited = true;
        let mut state = self.moved.wait_timeout(state, timeout);
        state.applied_awaited = false;
        applied(&state)
    }

    /// True if all lanes have applied every enqueued piece, visible or held.
    pub(crate) fn is_applied(&self) -> bool {
        self.lock().queue.iter().all(|entry| entry.done)
    }

    /// Relay log position after the newest visible transaction; an empty name before there is one.
    pub(crate) fn position(&self) -> LogPosition {
        let position = self.lock().shown.position.clone();
        position.unwrap_or_else(|| LogPosition { file: Arc::from(""), offset: 0 })
    }

    /// True if everything applied is visible: no transaction is open, and none failed, except where the log itself
    /// could not be read any further.
    #[must_use]
    pub fn is_drained(&self) -> bool {
        let state = self.lock();
        let log_ends = |stop: &Stop| stop.class == StopClass::Corrupt && !state.torn;
        state.queue.is_empty() && state.open.is_none() && state.failed.as_ref().is_none_or(|(_, stop)| log_ends(stop))
    }

    /// Fails replay: nothing from `at` on may become visible.
    pub fn fail(&self, at: SequenceNumber, stop: Stop) {
        self.fail_at(self.lock(), at, stop);
    }

    fn fail_at(&self, mut state: MutexGuard<'_, State>, at: SequenceNumber, stop: Stop) {
        self.limit_to(&mut state, at, stop);
        self.moved.wake_all(state);
        self.passed.wake_all(self.lock());
    }

    fn limit_to(&self, state: &mut State, at: SequenceNumber, stop: Stop) {
        // At the same transaction a defect replaces other reasons, since it causes them: rows do not fit after one
        // was lost.
        let explains = |of: &Stop| stop.class == StopClass::Defect && of.class != StopClass::Defect;
        if state.failed.as_ref().is_none_or(|(earlier, of)| at < *earlier || at == *earlier && explains(of)) {
            self.limit.store(at.0, Ordering::Release);
            state.failed = Some((at, stop));
        }
    }

    /// Sequence number of the first transaction that must never become visible; `u64::MAX` if none. Rows from it on
    /// need not be applied.
    pub(crate) fn limit(&self) -> u64 {
        self.limit.load(Ordering::Acquire)
    }

    /// Returns why replay cannot continue, if so. Everything before the failure becomes visible, unless it is held.
    #[must_use]
    pub fn failure(&self) -> Option<Stop> {
        self.lock().failed.as_ref().map(|(_, stop)| stop.clone())
    }

    /// Publishes what can be published, and wakes those who waited for it.
    fn advance_and_wake(&self, mut state: MutexGuard<'_, State>) {
        let moved = self.advance(&mut state);
        let front = state.front;
        let passed = state.passed_awaited.take_if(|index| *index < front).is_some();
        let unacknowledged = state.unacknowledged().is_some();
        if moved {
            self.moved.wake_all(state);
        } else {
            drop(state);
        }
        if unacknowledged {
            self.unacknowledged.wake_all(self.lock());
        }
        if passed {
            self.passed.wake_all(self.lock());
        }
    }

    /// Moves the watermark over finished pieces. True if anything moved, or a waiter must look at the queue again.
    fn advance(&self, state: &mut State) -> bool {
        let State { queue, front, hold, acknowledged, read_locks, failed, shown, .. } = &mut *state;
        let limit = failed.as_ref().map_or(u64::MAX, |(at, _)| at.0);
        let mut any = false;
        if *read_locks > 0 {
            return state.applied_awaited;
        }
        // Only the front entry is published, so workers may finish pieces in any order and readers still see a prefix
        // of the log.
        while let Some(entry) = queue.front_mut().filter(|entry| entry.done) {
            let from = entry.published;
            let mut to = from;
            while let Some(member) = entry.members.get(to) {
                let allowed = match hold {
                    Hold::None => true,
                    Hold::All => false,
                    Hold::UpTo(set) => member.is_in(set),
                };
                let executed = acknowledged.as_ref().is_none_or(|set| member.is_in(set));
                if !allowed || !executed || entry.first.0 + to as u64 >= limit {
                    break;
                }
                to += 1;
            }
            if to > from {
                if let Err(stop) = self.publish(entry, from, to, shown) {
                    let at = SequenceNumber(shown.sequence + 1);
                    self.limit_to(state, at, *stop);
                    return true;
                }
                any = true;
            }
            if to < entry.members.len() {
                break;
            }
            queue.pop_front();
            *front += 1;
            any = true;
        }
        any || state.applied_awaited
    }

    /// Makes members `from..to` visible, of which there is at least one.
    ///
    /// # Errors
    /// A defect, with nothing done, if the first of them is not the one after the newest visible transaction.
    fn publish(&self, entry: &mut Entry, from: usize, to: usize, shown: &mut Shown) -> Result<(), Box<Stop>> {
        let first = entry.first.0 + from as u64;
        let Some(members) = entry.members.get(from..to).filter(|_| first == shown.sequence + 1) else {
            let gtid = entry.members.get(from).and_then(|member| member.gtid);
            let what = format!("transaction {first} becomes visible after transaction {}", shown.sequence);
            return Err(Box::new(shown.defect(gtid, &what)));
        };
        let Shown { sequence, last_gtid, position, lags } = shown;
        let last = SequenceNumber(entry.first.0 + to as u64 - 1);
        self.watermark.advance(last, |executed| {
            for gtid in members.iter().filter_map(|member| member.gtid) {
                executed.add(gtid);
            }
        });
        let now = steady_us();
        let own = || members.iter().filter(|m| !m.copied);
        if observe::WATCHES {
            let source_now = self.source_clock.now_us();
            lags.clear();
            let timed = members.iter().filter(|m| m.commit_us > 0);
            lags.extend(timed.map(|m| LagSample { lag_us: source_now.saturating_sub(m.commit_us), rows: m.rows }));
            self.lag.record(lags, now);
            let piece = PieceTimes { file_number: entry.file_number, applied_us: entry.done_us, visible_us: now };
            self.lag_by_part.shown(piece, own().map(|m| m.end));
        }
        let work = Work {
            transactions: own().count() as u64,
            rows: own().map(|m| m.rows).sum(),
            bytes: own().map(|m| m.bytes).sum(),
        };
        self.rates.add(work, now);
        let writes = own().filter(|m| m.rows > 0).count() as u64;
        self.write_transactions.fetch_add(writes, Ordering::Relaxed);
        if let Some(gtid) = members.iter().rev().find_map(|member| member.gtid) {
            *last_gtid = Some(gtid);
        }
        if let Some(member) = members.last().filter(|member| !member.copied) {
            *position = Some(LogPosition { file: Arc::clone(&entry.file), offset: member.end });
        }
        (entry.published, *sequence) = (to, last.0);
        Ok(())
    }

    /// Source commit time of the oldest transaction that is sequenced and not visible, in µs.
    #[must_use]
    pub fn oldest_pending_commit_us(&self) -> Option<u64> {
        let state = self.lock();
        let pending = state.queue.iter().flat_map(|entry| entry.members.iter().skip(entry.published));
        pending.map(|member| member.commit_us).find(|commit_us| *commit_us > 0)
    }

    /// Number of visible transactions that changed rows.
    #[must_use]
    pub fn write_transactions(&self) -> u64 {
        self.write_transactions.load(Ordering::Relaxed)
    }

    /// Holds publishing; applying continues.
    pub fn hold(&self) {
        self.lock().hold = Hold::All;
    }

    /// Publishes exactly `set` and holds again. False if that was not reached within `timeout`, or more than `set` is
    /// visible already; publishing stays held in each case.
    #[must_use]
    pub fn advance_to(&self, set: &GtidSet, timeout: Duration) -> bool {
        let deadline = Instant::now() + timeout;
        let mut state = self.lock();
        state.hold = Hold::UpTo(set.clone());
        self.advance_and_wake(state);
        state = self.lock();
        loop {
            let visible = self.watermark.executed();
            if set.is_subset_of(&visible) || !visible.is_subset_of(set) {
                state.hold = Hold::All;
                return visible == *set;
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() || state.out_of_reach() || state.read_locks > 0 {
                state.hold = Hold::All;
                return false;
            }
            state = self.moved.wait_timeout(state, left);
        }
    }

    pub fn release(&self) {
        let mut state = self.lock();
        state.hold = Hold::None;
        self.advance_and_wake(state);
    }

    /// Up to [`ASKED_MAX`] transactions that are not visible, of which the source may not have executed some.
    #[must_use]
    pub fn waiting(&self) -> GtidSet {
        let state = self.lock();
        let members = state.queue.iter().flat_map(|entry| entry.members.get(entry.published..).unwrap_or_default());
        let mut waiting = GtidSet::new();
        for gtid in members.filter_map(|member| member.gtid).take(ASKED_MAX) {
            waiting.add(gtid);
        }
        waiting
    }

    /// From now on a transaction becomes visible only once it is in a set given to [`acknowledge`](Self::acknowledge).
    pub fn show_only_acknowledged(&self) {
        self.lock().acknowledged.get_or_insert_default();
    }

    /// Ends what [`show_only_acknowledged`](Self::show_only_acknowledged) began.
    pub fn show_received(&self) {
        let mut state = self.lock();
        state.acknowledged = None;
        self.advance_and_wake(state);
    }

    /// The source has executed this set, and nothing else of the [waiting](Self::waiting) transactions.
    pub fn acknowledge(&self, set: GtidSet) {
        let mut state = self.lock();
        if state.acknowledged.is_some() {
            state.acknowledged = Some(set);
            self.advance_and_wake(state);
        }
    }

    /// The applied transaction that would be visible if the source were known to have executed it.
    #[must_use]
    pub fn unacknowledged(&self) -> Option<Gtid> {
        self.lock().unacknowledged()
    }

    /// Waits for an applied transaction that would be visible if the source were known to have executed it; None when
    /// `timeout` passes first.
    #[must_use]
    pub fn wait_unacknowledged(&self, timeout: Duration) -> Option<Gtid> {
        let state = self.lock();
        match state.unacknowledged() {
            None => self.unacknowledged.wait_timeout(state, timeout).unacknowledged(),
            gtid => gtid,
        }
    }

    /// Keeps everything as it is, for a client, until as many calls of [`release_read_lock`](Self::release_read_lock).
    /// Applying continues. No hold of another kind moves anything meanwhile.
    pub fn take_read_lock(&self) {
        self.lock().read_locks += 1;
    }

    /// Ends what [`take_read_lock`](Self::take_read_lock) began.
    pub fn release_read_lock(&self) {
        let mut state = self.lock();
        state.read_locks = state.read_locks.saturating_sub(1);
        self.advance_and_wake(state);
    }

    /// True while a client keeps everything as it is.
    #[must_use]
    pub fn is_read_locked(&self) -> bool {
        self.lock().read_locks > 0
    }

    /// Returns the state of publishing.
    #[must_use]
    pub fn status(&self) -> PublisherStatus {
        let state = self.lock();
        let pending = |entry: &Entry| entry.members.len() - entry.published;
        // All members of an entry come from the same place.
        let transactions = state.queue.iter().filter(|entry| entry.members.first().is_some_and(|first| !first.copied));
        PublisherStatus {
            pending: state.queue.iter().any(|entry| pending(entry) > 0),
            pending_transactions: transactions.map(pending).sum::<usize>() as u64,
            last_gtid: state.shown.last_gtid,
            position: state.shown.position.clone(),
            held: !matches!(state.hold, Hold::None),
        }
    }
}

impl WatermarkHold for Publisher {
    fn hold(&self) {
        self.hold();
    }

    fn advance_to(&self, set: &GtidSet, timeout: Duration) -> bool {
        self.advance_to(set, timeout)
    }

    fn release(&self) {
        self.release();
    }

    fn stopped(&self) -> Option<String> {
        self.failure().map(|stop| stop.to_string())
    }
}

#[cfg(test)]
mod tests;
