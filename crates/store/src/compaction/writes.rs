//! Writes of the tree's files that are in progress.
//!
//! In: each write's beginning and end, on whatever thread. Out: a moment in which there is none. Never here: the files.

use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};

/// Counts writes; one may ask to be alone. A lock would have to be released by the thread that took it.
#[derive(Debug, Default)]
pub(crate) struct Writes {
    state: Mutex<State>,
    no_longer_alone: Condvar,
}

#[derive(Debug, Default)]
struct State {
    in_progress: usize,
    is_alone: bool,
}

/// A write in progress.
pub(crate) struct Writing<'a>(&'a Writes);

/// Nothing writes while this exists.
pub(crate) struct Alone<'a>(&'a Writes);

impl Writes {
    /// Begins a write; waits as long as another one is to be alone.
    pub(crate) fn begin(&self) -> Writing<'_> {
        let mut state = self.lock();
        while state.is_alone {
            state = self.no_longer_alone.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
        state.in_progress += 1;
        Writing(self)
    }

    /// None if something writes.
    pub(crate) fn alone(&self) -> Option<Alone<'_>> {
        let mut state = self.lock();
        if state.in_progress > 0 || state.is_alone {
            return None;
        }
        state.is_alone = true;
        Some(Alone(self))
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Writing<'_> {
    fn drop(&mut self) {
        self.0.lock().in_progress -= 1;
    }
}

impl Drop for Alone<'_> {
    fn drop(&mut self) {
        self.0.lock().is_alone = false;
        self.0.no_longer_alone.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc;

    #[test]
    fn nothing_writes_beside_one_who_is_alone() {
        let writes = Writes::default();
        let first = writes.begin();
        assert!(writes.alone().is_none());
        // It may end on another thread.
        std::thread::scope(|scope| scope.spawn(move || drop(first)).join().unwrap());
        let alone = writes.alone().unwrap();
        assert!(writes.alone().is_none());
        let (said, begun) = mpsc::channel();
        std::thread::scope(|scope| {
            let writes = &writes;
            scope.spawn(move || {
                let _writing = writes.begin();
                said.send(()).unwrap();
            });
            assert_eq!(begun.try_recv(), Err(mpsc::TryRecvError::Empty));
            drop(alone);
            begun.recv().unwrap();
        });
        assert!(writes.alone().is_some());
    }
}
