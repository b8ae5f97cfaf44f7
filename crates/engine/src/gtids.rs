//! The engine's GTIDs for clients: what is visible, who waits for more, and whether it may be shown.
//!
//! In: sets and positions that clients wait for; the engine's phases. Out: sets, wake-ups, the reason why nothing may be
//! shown yet. Never here: a wait; a store kept open by one who waits.

use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Instant;

use base::GtidSet;
use door::{Gtids, Position, Readable, Registration, SourceSet, SqlError, Waker};
use replica::{Received, Replica};
use store::Snapshot;

use crate::engine::{Engine, MayHaveRead};

/// Clients that wait for what the engine alone can tell, and what they have been shown.
#[derive(Default)]
pub struct Parked {
    /// Woken when the engine starts or fails to.
    engine: Mutex<Vec<Waker>>,
    /// Those who wait to read, each also registered with what becomes visible.
    readers: Mutex<Vec<Weak<Shared>>>,
    /// Those who wait for a position that has not been received, each with the one received when they looked.
    positions: Mutex<Vec<(Waker, Option<String>)>>,
    /// What an engine of this process has shown before it was taken down.
    shown: Mutex<GtidSet>,
    /// What must be visible besides, since an earlier process may have shown it.
    gate: Mutex<Gate>,
    /// The attempt to start an engine whose engine shows all that it must.
    passed: AtomicU64,
}

/// What an earlier process may have shown and lost.
#[derive(Default)]
enum Gate {
    /// Nothing.
    #[default]
    Open,
    /// Whatever rows are there may be read.
    AtOnce,
    /// At most what the source had executed at first contact, after this time.
    Source(Instant),
    /// At most this.
    Set(Arc<GtidSet>),
}

fn locked<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Parked {
    /// The engine has started, or could not be.
    pub(crate) fn look_again(&self) {
        let all = std::mem::take(&mut *locked(&self.engine));
        all.into_iter().for_each(Waker::wake);
    }

    /// Looks whether more has been received, or replay has stopped, if someone waits for that.
    pub fn look(&self, replica: &Replica) {
        if !locked(&self.readers).is_empty() && stopped(replica).is_some() {
            let all = std::mem::take(&mut *locked(&self.readers));
            all.iter().filter_map(Weak::upgrade).for_each(|shared| shared.wake());
        }
        if !locked(&self.positions).is_empty() {
            let stopped = replica.pipeline().is_paused() || replica.pipeline().failure().is_some();
            self.received(replica.received().source_position.as_deref().filter(|_| !stopped));
        }
    }

    /// Wakes those who have not seen this position yet.
    fn received(&self, position: Option<&str>) {
        let mut waiting = locked(&self.positions);
        let moved: Vec<_> = waiting.extract_if(.., |(_, seen)| seen.as_deref() != position).collect();
        drop(waiting);
        moved.into_iter().for_each(|(waker, _)| waker.wake());
    }

    /// Nothing is waited for before rows are shown.
    pub fn serve_at_once(&self) {
        *locked(&self.gate) = Gate::AtOnce;
    }

    /// An earlier process may have shown what its relay log lacks now: the source is asked what that can be.
    pub fn may_have_lost(&self) {
        let mut gate = locked(&self.gate);
        if matches!(*gate, Gate::Open) {
            *gate = Gate::Source(Instant::now());
        }
    }

    /// True while rows are held back for what an earlier process may have shown.
    pub fn is_gated(&self) -> bool {
        matches!(*locked(&self.gate), Gate::Source(_) | Gate::Set(_))
    }

    /// What must be visible besides what is known to have been shown; None if all may be read.
    fn lost(&self, engine: &Arc<Engine>, visible: &GtidSet) -> Result<Option<Arc<GtidSet>>, SqlError> {
        let mut gate = locked(&self.gate);
        if let Gate::Source(since) = *gate {
            if engine.login().is_none() {
                // Files are all there.
                *gate = Gate::Open;
                return Ok(Some(Arc::default()));
            }
            match engine.asker.set(engine, false, (since, Instant::now()), Waker::new(|| ()).0) {
                SourceSet::Known(set) => *gate = Gate::Set(set),
                SourceSet::Awaited(_) => {
                    let why = engine.asker.last_failure().unwrap_or_else(|| "the source is being asked".to_owned());
                    return Err(sql::passing::may_have_shown_more(&why));
                }
                SourceSet::Failed(error) => return Err(error),
            }
        }
        if let Gate::Set(set) = &*gate {
            let set = Arc::clone(set);
            if set.is_subset_of(visible) {
                *gate = Gate::Open;
            }
            return Ok(Some(set));
        }
        Ok(if matches!(*gate, Gate::AtOnce) { None } else { Some(Arc::default()) })
    }

    /// The engine that is taken down has shown this.
    pub(crate) fn was_shown(&self, set: GtidSet) {
        locked(&self.shown).union_with(&set);
    }
}

/// The GTIDs of the engine of this process, while there is one.
pub(crate) struct EngineGtids(pub(crate) Weak<Engine>);

impl EngineGtids {
    /// The engine that runs, and the number of the attempt to start it.
    fn running(&self) -> Result<(Arc<Engine>, Arc<Replica>, u64), SqlError> {
        let engine = self.0.upgrade().ok_or_else(|| not_now("the replica is stopping"))?;
        let (replica, attempt) = engine.running().map_err(|failure| not_now(&failure.text))?;
        Ok((engine, replica, attempt))
    }

    /// Pins what is visible, if it may be shown.
    ///
    /// # Errors
    /// 1105 with the reason.
    pub(crate) fn pin(&self) -> Result<Arc<Snapshot>, SqlError> {
        let (engine, replica, attempt) = self.running()?;
        let store = &replica.pipeline().store;
        store.readable().map_err(|error| not_now(&error.to_string()))?;
        if engine.parked.passed.load(SeqCst) != attempt {
            shown_by(&engine, &replica)?;
            engine.parked.passed.store(attempt, SeqCst);
        }
        Ok(Arc::new(Snapshot::pin(store)))
    }

    /// GTID of the last visible statement about accounts; None while nothing is replayed.
    pub(crate) fn account_statements(&self) -> Option<Arc<str>> {
        let (_, replica, _) = self.running().ok()?;
        let catalog = replica.pipeline().store.visibility().catalog();
        Some(Arc::clone(catalog.last_account_statement()))
    }

    /// The waker waits for the engine.
    fn park(&self, waker: Waker) {
        if let Some(engine) = self.0.upgrade() {
            let mut wakers = locked(&engine.parked.engine);
            wakers.retain(Waker::is_live);
            wakers.push(waker);
        }
    }
}

/// A waker that several may wake.
struct Shared(Mutex<Option<Waker>>);

impl Shared {
    fn wake(&self) {
        let waker = locked(&self.0).take();
        drop(waker);
    }
}

/// Runs the action once all of this is visible, unless the registration goes before; then `at_end` runs. None if it is
/// visible. The registration does not keep the store open.
fn when_executed(
    replica: &Replica,
    set: &GtidSet,
    action: impl FnOnce() + Send + 'static,
    at_end: impl FnOnce() + Send + 'static,
) -> Option<Registration> {
    let store = Arc::downgrade(&replica.pipeline().store);
    let wait = replica.pipeline().store.visibility().when_executed(set, action)?;
    Some(Registration::new(move || {
        if let Some(store) = store.upgrade() {
            let _ = store.visibility().cancel(wait);
        }
        at_end();
    }))
}

/// Why replay brings nothing more now.
fn stopped(replica: &Replica) -> Option<String> {
    if let Some(failure) = replica.pipeline().failure() {
        return Some(format!("replay has stopped: {failure}"));
    }
    replica.pipeline().is_paused().then(|| "replay is stopped".to_owned())
}

impl Gtids for EngineGtids {
    fn when_readable(&self, set: &GtidSet, waker: Waker) -> Readable {
        let (engine, replica, _) = match self.running() {
            Ok(running) => running,
            Err(error) => return Readable::Not(error),
        };
        let shared = Arc::new(Shared(Mutex::new(Some(waker))));
        let action = Arc::clone(&shared);
        let own = Arc::clone(&shared);
        let Some(registration) = when_executed(&replica, set, move || action.wake(), || drop(own)) else {
            return Readable::Reached;
        };
        if let Some(why) = stopped(&replica) {
            return Readable::Not(not_now(&format!("{why}; slipstream start continues")));
        }
        let mut readers = locked(&engine.parked.readers);
        readers.retain(|reader| reader.strong_count() > 0);
        readers.push(Arc::downgrade(&shared));
        Readable::Awaited(registration)
    }

    fn source_set(&self, since: Instant, arrived: Instant, waker: Waker) -> SourceSet {
        match self.0.upgrade() {
            Some(engine) => engine.asker.set(&engine, true, (since, arrived), waker),
            None => SourceSet::Failed(not_now("the replica is stopping")),
        }
    }

    fn executed_at_source(&self, after: Instant) -> Option<Arc<GtidSet>> {
        let engine = self.0.upgrade()?;
        engine.asker.executed(&engine, after)
    }

    fn source_time_us(&self, after: Instant) -> Option<u64> {
        let engine = self.0.upgrade()?;
        engine.asker.time_us(&engine, after)
    }

    fn readable(&self) -> Result<(), SqlError> {
        self.visible().map(|_| ())
    }

    fn visible(&self) -> Result<GtidSet, SqlError> {
        let (engine, replica, _) = self.running()?;
        shown_by(&engine, &replica)
    }

    fn may_have_shown(&self) -> Result<GtidSet, SqlError> {
        let engine = self.0.upgrade().ok_or_else(|| not_now("the replica is stopping"))?;
        let mut shown = locked(&engine.parked.shown).clone();
        match engine.may_have_read() {
            MayHaveRead::Unknown => return Err(not_now(sql::passing::STARTING)),
            MayHaveRead::Nothing => {}
            MayHaveRead::In(replica) => {
                shown.union_with(&replica.pipeline().store.visibility().executed());
                // An earlier process received it, and may have shown it.
                if replica.is_recovering() {
                    shown.union_with(replica.recovers_to());
                }
            }
        }
        Ok(shown)
    }

    fn when_visible(&self, set: &GtidSet, waker: Waker) -> Option<Registration> {
        let Ok((_, replica, _)) = self.running() else {
            self.park(waker);
            return Some(Registration::new(|| ()));
        };
        when_executed(&replica, set, || waker.wake(), || ())
    }

    fn when_position(&self, file: &str, offset: u64, waker: Waker) -> Position {
        let Ok((engine, replica, _)) = self.running() else { return Position::NotRunning };
        if replica.pipeline().is_paused() || replica.pipeline().failure().is_some() {
            return Position::NotRunning;
        }
        let received = replica.received();
        match is_received(&received, file, offset) {
            None => Position::NotRunning,
            Some(true) => match self.when_visible(&received.gtids, waker) {
                None => Position::Reached,
                Some(registration) => Position::Awaited(registration),
            },
            Some(false) => {
                let mut waiting = locked(&engine.parked.positions);
                waiting.retain(|(waker, _)| waker.is_live());
                waiting.push((waker, received.source_position));
                Position::Awaited(Registration::new(|| ()))
            }
        }
    }
}

/// Whether what is received reaches up to this position; None if the file is none of that source's.
pub(crate) fn is_received(received: &Received, file: &str, offset: u64) -> Option<bool> {
    let number = |file: &str| -> Option<(String, u64)> {
        let (name, number) = file.rsplit_once('.')?;
        Some((name.to_owned(), number.parse().ok()?))
    };
    let wanted = number(file)?;
    let Some((own_file, own_offset)) = received.source_position.as_deref().and_then(|text| text.rsplit_once(':'))
    else {
        return Some(false);
    };
    let own = number(own_file)?;
    (own.0 == wanted.0).then(|| (own.1, own_offset.parse().unwrap_or(0)) >= (wanted.1, offset))
}

/// What this engine shows.
fn shown_by(engine: &Arc<Engine>, replica: &Replica) -> Result<GtidSet, SqlError> {
    let visible = replica.pipeline().store.visibility().executed();
    let mut wanted = locked(&engine.parked.shown).clone();
    match engine.parked.lost(engine, &visible)? {
        None => return Ok(visible),
        Some(lost) => wanted.union_with(&lost),
    }
    if replica.is_recovering() {
        wanted.union_with(replica.recovers_to());
    }
    enough(visible, &wanted)
}

/// What is visible, if it is all that must be.
fn enough(visible: GtidSet, wanted: &GtidSet) -> Result<GtidSet, SqlError> {
    match wanted.subtract(&visible).count() {
        0 => Ok(visible),
        missing => Err(sql::passing::recovering(missing)),
    }
}

/// 1105, ER_UNKNOWN_ERROR.
pub fn not_now(why: &str) -> SqlError {
    SqlError::new(1105, "HY000", why.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn set(text: &str) -> GtidSet {
        text.replace('A', "aaaaaaaa-0000-0000-0000-000000000001").parse().unwrap()
    }

    #[test]
    fn less_than_was_shown_is_not_shown() {
        assert!(enough(set("A:1-7"), &set("A:2-7")).is_ok());
        assert_eq!(enough(set("A:1-7"), &set("A:1-9")).unwrap_err().message, "recovering, 2 transactions missing");
        assert_eq!(enough(set(""), &set("A:1")).unwrap_err().message, "recovering, 1 transaction missing");
    }

    #[test]
    fn positions_are_compared_by_file_number() {
        let received = Received { source_position: Some("binlog.000009:500".to_owned()), ..Received::default() };
        let is = |file, offset| is_received(&received, file, offset);
        assert_eq!((is("binlog.000009", 500), is("binlog.000009", 501)), (Some(true), Some(false)));
        assert_eq!((is("binlog.000008", 9999), is("binlog.000010", 4)), (Some(true), Some(false)));
        assert_eq!((is("other.000001", 4), is("binlog", 4), is("binlog.x", 4)), (None, None, None));
        assert_eq!(is_received(&Received::default(), "binlog.000001", 4), Some(false));
    }

    #[test]
    fn one_who_waits_for_an_engine_is_woken_when_it_starts() {
        let parked = Parked::default();
        let woken = Arc::new(std::sync::atomic::AtomicBool::new(false));
        let flag = Arc::clone(&woken);
        let (waker, _switch) = Waker::new(move || flag.store(true, std::sync::atomic::Ordering::SeqCst));
        locked(&parked.engine).push(waker);
        parked.received(Some("binlog.000001:4"));
        assert!(!woken.load(std::sync::atomic::Ordering::SeqCst));
        parked.look_again();
        assert!(woken.load(std::sync::atomic::Ordering::SeqCst));
    }
}
