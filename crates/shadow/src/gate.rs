//! Statements that may commit, and comparisons, take turns; none waits long for the other.
//!
//! In: who wants to run. Out: leave to run. Never here: a guarantee: a statement that has waited for long goes on, and
//! the comparison sees by the source's set that its state has moved.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How long a statement waits for a comparison.
const PATIENCE: Duration = Duration::from_secs(1);
/// How long a comparison waits for statements that run: some wait for rows that others have locked, and these may wait
/// for the comparison.
const LULL: Duration = Duration::from_millis(50);
/// How long a comparison waits for another.
const TURN: Duration = Duration::from_secs(5);

#[derive(Debug, Default)]
struct State {
    statements: usize,
    comparing: bool,
}

#[derive(Debug, Default)]
pub(crate) struct Gate {
    state: Mutex<State>,
    changed: Condvar,
}

/// A statement that may commit runs.
#[derive(Debug)]
pub(crate) struct Statement<'a>(&'a Gate);

#[derive(Debug)]
pub(crate) struct Comparison<'a>(&'a Gate);

impl Gate {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until `ready`, or for this long; whether it is ready.
    fn wait<'a>(
        &'a self,
        mut state: MutexGuard<'a, State>,
        span: Duration,
        ready: impl Fn(&State) -> bool,
    ) -> (MutexGuard<'a, State>, bool) {
        let until = Instant::now() + span;
        while !ready(&state) {
            let left = until.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return (state, false);
            }
            (state, _) = self.changed.wait_timeout(state, left).unwrap_or_else(PoisonError::into_inner);
        }
        (state, true)
    }

    /// A statement that may commit begins.
    pub(crate) fn statement(&self) -> Statement<'_> {
        let (mut state, _) = self.wait(self.lock(), PATIENCE, |state| !state.comparing);
        state.statements += 1;
        Statement(self)
    }

    /// A comparison begins; None if another takes too long.
    pub(crate) fn comparison(&self) -> Option<Comparison<'_>> {
        let (mut state, free) = self.wait(self.lock(), TURN, |state| !state.comparing);
        if !free {
            return None;
        }
        state.comparing = true;
        drop(self.wait(state, LULL, |state| state.statements == 0));
        Some(Comparison(self))
    }
}

impl Drop for Statement<'_> {
    fn drop(&mut self) {
        self.0.lock().statements -= 1;
        self.0.changed.notify_all();
    }
}

impl Drop for Comparison<'_> {
    fn drop(&mut self) {
        self.0.lock().comparing = false;
        self.0.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_waits_for_ever() {
        let gate = Gate::default();
        let statement = gate.statement();
        // A statement that runs for long holds a comparison up for a moment only, and the other way round.
        let comparison = gate.comparison().unwrap();
        let other = gate.statement();
        drop((statement, other, comparison));
        let state = gate.lock();
        assert!(state.statements == 0 && !state.comparing);
    }
}
