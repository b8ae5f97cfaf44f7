//! Limit on the disk space of all files together (relay_log_space_limit).
//!
//! In: the size of the next append. Out: a wait before a transaction until purges have freed space. Never here: a wait
//! inside a transaction, or a wait that no purge could end.

use std::time::Instant;

use crate::shared::{RelayShared, Shared};
use crate::sync::wait;
use crate::{RelayError, SpaceStatus};

impl RelayShared {
    /// Disk space that the files take, and how long the writer has waited for some.
    #[must_use]
    pub fn space(&self) -> SpaceStatus {
        let state = self.lock();
        SpaceStatus {
            used_bytes: state.total_bytes(),
            limit_bytes: self.space_limit_bytes,
            waiting: state.space.since.map(|since| since.elapsed()),
        }
    }

    /// Ends the writer's wait for space, now and later: bytes at hand are stored above the limit, so that the writer
    /// can be stopped.
    pub fn end_space_wait(&self) {
        self.lock().space.ended = true;
        self.space_condvar.notify_all();
    }

    /// Lets the writer wait for space again, after [`end_space_wait`](Self::end_space_wait) and before it is used again.
    pub fn allow_space_wait(&self) {
        self.lock().space.ended = false;
    }

    /// True if `more` bytes would exceed the limit while a purge could still free space: an older file, or the
    /// transactions of the last file once it is closed. Otherwise one transaction passes whatever its size, as in
    /// MySQL, which ignores the limit if keeping it would be a deadlock.
    pub(crate) fn must_wait(&self, more: u64) -> bool {
        if self.space_limit_bytes == 0 {
            return false;
        }
        let state = self.lock();
        self.is_too_much(&state, more) && (state.files.len() > 1 || last_holds_transactions(&state))
    }

    /// True if the last file has transactions that a purge could free once the file is closed.
    pub(crate) fn last_holds_transactions(&self) -> bool {
        last_holds_transactions(&self.lock())
    }

    fn is_too_much(&self, state: &Shared, more: u64) -> bool {
        !state.space.ended && state.total_bytes().saturating_add(more) > self.space_limit_bytes
    }

    /// Waits until purges have freed space for `more` bytes, only the last file is left, or the wait is ended.
    pub(crate) fn wait_for_space(&self, more: u64) -> Result<(), RelayError> {
        // Unread bytes are never purged, so let the reader run.
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
