//! What the port asks of the replica about GTIDs.
//!
//! In: sets and positions that statements wait for. Out: what is visible, and wake-ups. Never here: a wait; a waker that
//! is lost: one that is dropped wakes too, so that whoever waits looks again.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::AcqRel};
use std::time::Instant;

use base::GtidSet;
use sql::SqlError;

/// The replica's GTIDs. Called by the port's threads, so nothing here may wait.
pub trait Gtids: Send + Sync {
    /// Whether rows and GTIDs may be read now.
    ///
    /// # Errors
    /// 1105 with the reason, such as fewer transactions than an earlier life has shown.
    fn readable(&self) -> Result<(), SqlError>;

    /// GTIDs of all that is visible.
    ///
    /// # Errors
    /// As [`readable`](Self::readable).
    fn visible(&self) -> Result<GtidSet, SqlError>;

    /// GTIDs of all that someone may have read here, an earlier process among them.
    ///
    /// # Errors
    /// That is not known yet.
    fn may_have_shown(&self) -> Result<GtidSet, SqlError> {
        self.visible()
    }

    /// None if all of `set` is visible; else `waker` wakes once it is, or when it is better to look again.
    fn when_visible(&self, set: &GtidSet, waker: Waker) -> Option<Registration>;

    /// As [`when_visible`](Self::when_visible), with an error once replay does not bring it.
    fn when_readable(&self, set: &GtidSet, waker: Waker) -> Readable {
        self.when_visible(set, waker).map_or(Readable::Reached, Readable::Awaited)
    }

    /// What the source had executed when it was asked, at `since` or later. `waker` wakes when it has answered. Failures
    /// from before `arrived` do not count.
    fn source_set(&self, _since: Instant, _arrived: Instant, _waker: Waker) -> SourceSet {
        SourceSet::Failed(SqlError::new(1105, "HY000", "there is no source"))
    }

    /// What the source had executed when it was asked, at `after` or later; None if it was not asked since.
    fn executed_at_source(&self, _after: Instant) -> Option<Arc<GtidSet>> {
        None
    }

    /// The source's clock when it was asked, at `after` or later: microseconds since 1970. None if it was not asked
    /// since.
    fn source_time_us(&self, _after: Instant) -> Option<u64> {
        None
    }

    /// As [`when_visible`](Self::when_visible), for a position in the source's log.
    fn when_position(&self, file: &str, offset: u64, waker: Waker) -> Position;
}

/// Whether a set may be read.
pub enum Readable {
    /// All of it is visible.
    Reached,
    Awaited(Registration),
    /// It will not be, as things are.
    Not(SqlError),
}

/// What the source has executed.
pub enum SourceSet {
    /// At least this.
    Known(Arc<GtidSet>),
    /// It is being asked.
    Awaited(Registration),
    /// It cannot be known.
    Failed(SqlError),
}

/// Whether a position in the source's log is visible.
pub enum Position {
    Reached,
    Awaited(Registration),
    /// It will not be: replay or receiving does not run, or the name is none of the source's.
    NotRunning,
}

/// Wakes a waiting connection, once: when told to, or when dropped.
pub struct Waker {
    wake: Option<Box<dyn FnOnce() + Send>>,
    live: Arc<AtomicBool>,
}

impl Waker {
    /// A waker, and what switches it off.
    pub fn new(wake: impl FnOnce() + Send + 'static) -> (Waker, Switch) {
        let live = Arc::new(AtomicBool::new(true));
        (Waker { wake: Some(Box::new(wake)), live: Arc::clone(&live) }, Switch(live))
    }

    /// False once it is switched off.
    #[must_use]
    pub fn is_live(&self) -> bool {
        self.live.load(std::sync::atomic::Ordering::Acquire)
    }

    pub fn wake(self) {
        drop(self);
    }
}

impl Drop for Waker {
    fn drop(&mut self) {
        if let Some(wake) = self.wake.take()
            && self.live.swap(false, AcqRel)
        {
            wake();
        }
    }
}

/// Switches its waker off when dropped.
#[derive(Debug)]
pub struct Switch(Arc<AtomicBool>);

impl Switch {
    /// True if the waker has woken.
    #[must_use]
    pub fn has_woken(&self) -> bool {
        !self.0.load(std::sync::atomic::Ordering::Acquire)
    }
}

impl Drop for Switch {
    fn drop(&mut self) {
        self.0.store(false, std::sync::atomic::Ordering::Release);
    }
}

/// A waker's place among those who wait; dropped, it is given up.
pub struct Registration(Option<Box<dyn FnOnce() + Send>>);

impl Registration {
    /// Runs `cancel` when dropped.
    pub fn new(cancel: impl FnOnce() + Send + 'static) -> Registration {
        Registration(Some(Box::new(cancel)))
    }
}

impl Drop for Registration {
    fn drop(&mut self) {
        if let Some(cancel) = self.0.take() {
            cancel();
        }
    }
}

/// The GTIDs of a server without a source: none.
pub struct NoGtids;

impl Gtids for NoGtids {
    fn readable(&self) -> Result<(), SqlError> {
        Ok(())
    }

    fn visible(&self) -> Result<GtidSet, SqlError> {
        Ok(GtidSet::new())
    }

    fn when_visible(&self, set: &GtidSet, waker: Waker) -> Option<Registration> {
        // Nothing ever becomes visible: the registration holds the waker until it is given up.
        (!set.is_empty()).then(|| Registration::new(move || drop(waker)))
    }

    fn when_position(&self, _: &str, _: u64, _: Waker) -> Position {
        Position::NotRunning
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::AtomicU32;
    use std::sync::atomic::Ordering::Relaxed;

    use super::*;

    #[test]
    fn a_waker_wakes_once_unless_it_is_switched_off() {
        let woken = Arc::new(AtomicU32::new(0));
        let new = || {
            let woken = Arc::clone(&woken);
            Waker::new(move || {
                woken.fetch_add(1, Relaxed);
            })
        };
        let (waker, switch) = new();
        assert!(!switch.has_woken());
        waker.wake();
        assert!(switch.has_woken() && woken.load(Relaxed) == 1);
        drop(new().0);
        assert_eq!(woken.load(Relaxed), 2, "dropped by what it waited for");
        let (waker, switch) = new();
        assert!(waker.is_live());
        drop(switch);
        assert!(!waker.is_live());
        let registration = NoGtids.when_visible(&"aaaaaaaa-0000-0000-0000-000000000001:1".parse().unwrap(), waker);
        drop(registration);
        assert_eq!(woken.load(Relaxed), 2);
    }
}
