//! The limit on the room all files take together (relay_log_space_limit).
//!
//! In: what the writer is about to append. Out: it waits in front of a transaction until purges have made room. Never
//! here: a wait inside a transaction, or one that no purge could end.

use std::time::Instant;

use crate::shared::{RelayShared, Shared};
use crate::sync::wait;
use crate::{RelayError, SpaceStatus};

impl RelayShared {
    /// How much room the files take, and whether the writer waits for some.
    #[must_use]
    pub fn space(&self) -> SpaceStatus {
        let state = self.lock();
        SpaceStatus {
            used_bytes: state.total_bytes(),
            limit_bytes: self.space_limit_bytes,
            waiting: state.space.since.map(|since| since.elapsed()),
        }
    }

    /// Lets a writer that waits for space go on, now and from now on: what is at hand is stored above the limit, so
    /// that it can be stopped.
    pub fn end_space_wait(&self) {
        self.lock().space.ended = true;
        self.space_condvar.notify_all();
    }

    /// Whether `more` bytes would go above the limit while a purge could still free some: another file, or the
    /// transactions of the last one once it is closed. Else one transaction goes through whatever its size, as in
    /// MySQL, where the limit is ignored when keeping it would be a deadlock.
    pub(crate) fn must_wait(&self, more: u64) -> bool {
        if self.space_limit_bytes == 0 {
            return false;
        }
        let state = self.lock();
        self.is_too_much(&state, more) && (state.files.len() > 1 || last_holds_transactions(&state))
    }

    /// Whether the last file holds transactions that a purge could free if it were closed.
    pub(crate) fn last_holds_transactions(&self) -> bool {
        last_holds_transactions(&self.lock())
    }

    fn is_too_much(&self, state: &Shared, more: u64) -> bool {
        !state.space.ended && state.total_bytes().saturating_add(more) > self.space_limit_bytes
    }

    /// Waits until purges have made room for `more` bytes, only the last file is left, or the wait is ended.
    pub(crate) fn wait_for_space(&self, more: u64) -> Result<(), RelayError> {
        // Nothing is purged of what nobody reads.
        self.wake_reader();
        let mut state = self.lock();
        while self.is_too_much(&state, more) && state.files.len() > 1 {
            state.check()?;
            state.space.since.get_or_insert_with(Instant::now);
            state = wait(&self.space_condvar, state, None);
        }
        state.space.since = None;
        state.check()
    }
}

fn last_holds_transactions(state: &Shared) -> bool {
    state.files.back().is_some_and(|file| file.transactions_end > 0)
}
