//! What holds replay back: a pause, an UNTIL condition, SOURCE_DELAY. Each transaction is let through before it is
//! sequenced; receiving continues.
//!
//! In: orders of operators, the next piece of the log. Out: how much of that piece may be sequenced now. Invariants:
//! what is let through ends at a transaction boundary; nothing is let through during a pause but the rest of a
//! transaction that has begun. Never here: what is visible; rows.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Duration;

use base::{GtidSet, UntilGtids, UntilStep};
use decode::{Beginning, DecodedPiece, Piece};
use observe::SourceClock;

use crate::shutdown::Shutdown;

/// How much of a piece may be sequenced now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Let {
    All,
    /// What is before the transaction that begins at this place of its data.
    Before(usize),
    /// Nothing.
    Nothing,
}

/// What holds replay back, and what waits meanwhile.
pub(crate) struct Pause {
    shutdown: Arc<Shutdown>,
    state: Mutex<State>,
    /// True if there is anything in `state` that may hold back a transaction.
    may_hold: AtomicBool,
    changed: Condvar,
    /// Wakes the sequencing thread.
    wake: OnceLock<Box<dyn Fn() + Send + Sync>>,
    /// Source commit time of the first transaction that waits, in µs; 0 if none waits.
    held_commit_us: AtomicU64,
}

struct State {
    paused: bool,
    /// The sequencing thread has seen the pause, and hands nothing on.
    rests: bool,
    /// The sequencing thread has ended.
    ended: bool,
    until: Option<UntilStep>,
    delay: Duration,
    clock: Arc<SourceClock>,
    /// When the transaction that waits for the delay may be applied, by the source's clock, in µs.
    due_us: Option<u64>,
}

impl Pause {
    pub(crate) fn new(shutdown: &Arc<Shutdown>, source_clock: Arc<SourceClock>) -> Pause {
        Pause {
            shutdown: Arc::clone(shutdown),
            state: Mutex::new(State {
                paused: false,
                rests: false,
                ended: false,
                until: None,
                delay: Duration::ZERO,
                clock: source_clock,
                due_us: None,
            }),
            may_hold: AtomicBool::new(false),
            changed: Condvar::new(),
            wake: OnceLock::new(),
            held_commit_us: AtomicU64::new(0),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sets what wakes the sequencing thread from its wait for pieces.
    pub(crate) fn wakes(&self, wake: impl Fn() + Send + Sync + 'static) {
        let _ = self.wake.set(Box::new(wake));
    }

    fn change(&self, change: impl FnOnce(&mut State)) {
        let mut state = self.lock();
        change(&mut state);
        self.may_hold.store(state.may_hold(), Ordering::Release);
        drop(state);
        self.look_again();
    }

    /// Wakes whoever waits here.
    pub(crate) fn look_again(&self) {
        self.changed.notify_all();
        if let Some(wake) = self.wake.get() {
            wake();
        }
    }

    pub(crate) fn begin(&self) {
        self.change(|state| state.paused = true);
    }

    /// Ends a pause. Replay goes on up to this condition; without one it forgets an earlier one.
    pub(crate) fn end(&self, until: Option<UntilStep>) {
        self.change(|state| {
            state.until = until;
            state.paused = state.until.as_ref().is_some_and(UntilStep::is_met);
            state.rests = false;
        });
    }

    /// From now on a transaction is applied so long after its commit at the source, at the earliest.
    pub(crate) fn set_delay(&self, delay: Duration) {
        self.change(|state| {
            state.delay = delay;
            state.due_us = None;
        });
    }

    pub(crate) fn delay(&self) -> Duration {
        self.lock().delay
    }

    /// How long the next transaction still waits for the delay; None if none does.
    pub(crate) fn remaining_delay(&self) -> Option<Duration> {
        let state = self.lock();
        let due_us = state.due_us.filter(|_| !state.paused)?;
        Some(Duration::from_micros(due_us.saturating_sub(state.clock.now_us())))
    }

    /// The condition up to which replay goes, or went.
    pub(crate) fn until(&self) -> Option<UntilGtids> {
        self.lock().until.as_ref().map(|until| until.condition().clone())
    }

    /// True if the pause began because that condition is met.
    pub(crate) fn is_until_met(&self) -> bool {
        self.lock().until.as_ref().is_some_and(UntilStep::is_met)
    }

    pub(crate) fn is_on(&self) -> bool {
        self.may_hold.load(Ordering::Acquire) && self.lock().paused
    }

    /// True if replay is paused, and the sequencing thread hands nothing on.
    pub(crate) fn is_at_rest(&self) -> bool {
        let state = self.lock();
        state.paused && (state.rests || state.ended)
    }

    /// Called by the sequencing thread as it ends.
    pub(crate) fn note_end(&self) {
        self.lock().ended = true;
    }

    /// Called by the sequencing thread when it has handed on all that was let through.
    pub(crate) fn note_rest(&self, in_transaction: bool) {
        if self.may_hold.load(Ordering::Acquire) {
            let mut state = self.lock();
            state.rests = state.paused && !in_transaction;
        }
    }

    /// How much of the next piece in order may be sequenced. What is let through counts as executed.
    pub(crate) fn admit(&self, piece: &Piece, executed: impl FnOnce() -> GtidSet) -> Let {
        if !self.may_hold.load(Ordering::Acquire) {
            return Let::All;
        }
        let mut state = self.lock();
        let executed = if state.until.is_some() { executed() } else { GtidSet::new() };
        state.due_us = None;
        let (mut any, mut held) = (piece.continues, None);
        piece.each_beginning(|beginning| {
            if state.lets(beginning, &executed) {
                any = true;
            } else {
                held = Some(*beginning);
            }
            held.is_none()
        });
        self.held_commit_us.store(held.map_or(0, |held| held.commit_us), Ordering::Relaxed);
        match held {
            None if any || !state.paused => Let::All,
            // Nothing but control events.
            None => Let::Nothing,
            Some(held) if any => Let::Before(held.at),
            Some(_) => Let::Nothing,
        }
    }

    /// Notes the first transaction of these pieces as the one that waits, if none is noted.
    pub(crate) fn note_held<'a>(&self, mut pieces: impl Iterator<Item = &'a Piece>) {
        if self.held_commit_us().is_some() {
            return;
        }
        let first = pieces.find_map(|piece| {
            let mut first = None;
            piece.each_beginning(|beginning| {
                first = Some(beginning.commit_us);
                false
            });
            first
        });
        self.held_commit_us.store(first.unwrap_or(0), Ordering::Relaxed);
    }

    /// Waits until something changes, at most for this time, or until the next transaction is due.
    pub(crate) fn wait_for_change(&self, at_most: Duration) {
        let state = self.lock();
        let _ = self.changed.wait_timeout(state, at_most);
    }

    /// How long the sequencing thread may sleep: until a transaction is due.
    pub(crate) fn sleeps(&self, at_most: Duration) -> Duration {
        if !self.may_hold.load(Ordering::Acquire) {
            return at_most;
        }
        self.remaining_delay().map_or(at_most, |left| left.clamp(Duration::from_millis(1), at_most))
    }

    /// Blocks while replay is paused, for the grain of transactions, which knows neither conditions nor a delay. False
    /// if replay ends meanwhile: a pause keeps what comes after it from being seen, so the piece is not handed on.
    #[must_use]
    pub(crate) fn wait(&self, piece: &DecodedPiece) -> bool {
        let mut state = self.lock();
        let waits = state.paused;
        if waits {
            let first = piece.transactions.iter().map(|transaction| transaction.commit_us).find(|at| *at > 0);
            self.held_commit_us.store(first.unwrap_or(0), Ordering::Relaxed);
        }
        while state.paused && !self.shutdown.is_asked() {
            state = self.changed.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        drop(state);
        self.held_commit_us.store(0, Ordering::Relaxed);
        !waits || !self.shutdown.is_asked()
    }

    /// Source commit time of the transaction that is held back, in µs.
    pub(crate) fn held_commit_us(&self) -> Option<u64> {
        let held = self.held_commit_us.load(Ordering::Relaxed);
        (held > 0).then_some(held)
    }
}

impl State {
    fn may_hold(&self) -> bool {
        self.paused || self.until.is_some() || !self.delay.is_zero()
    }

    /// Whether this transaction may be applied now.
    fn lets(&mut self, beginning: &Beginning, executed: &GtidSet) -> bool {
        if self.paused {
            return false;
        }
        // One that is executed is left out, whatever holds the others back.
        if beginning.gtid.is_some_and(|gtid| executed.contains(&gtid)) {
            return true;
        }
        if let Some(until) = &mut self.until
            && until.stops_before(beginning.gtid.as_ref())
        {
            self.paused = true;
            return false;
        }
        if !self.delay.is_zero() {
            let delay_us = u64::try_from(self.delay.as_micros()).unwrap_or(u64::MAX);
            let due_us = beginning.commit_us.saturating_add(delay_us);
            if due_us > self.clock.now_us() {
                self.due_us = Some(due_us);
                return false;
            }
        }
        if let Some(until) = &mut self.until {
            until.takes(beginning.gtid.as_ref());
            self.paused = until.is_met();
        }
        true
    }
}
