//! Durability of written bytes: one thread that syncs by the policy or on request, and the waits for it.
//!
//! In: published bytes, requests. Out: the synced position, the state file. Never here: a position announced before its
//! bytes, its file's name and (for events without checksums) the state file are on disk.

use std::fs::File;
use std::num::NonZeroU64;
use std::sync::Arc;
use std::sync::MutexGuard;
use std::time::{Duration, Instant};

use rustix::fs::Advice;

use crate::shared::{RelayShared, Shared, SyncThread};
use crate::state::State;
use crate::{RelayError, RelayPosition, SyncPolicy};

/// Minimum interval between writes of the state file: each write costs a sync of its own.
const STATE_INTERVAL: Duration = Duration::from_millis(50);

/// Durability of the log, usable from any thread.
#[derive(Debug)]
pub struct RelaySync {
    shared: Arc<RelayShared>,
}

impl RelaySync {
    pub(crate) fn new(shared: Arc<RelayShared>) -> RelaySync {
        RelaySync { shared }
    }

    /// End of the written bytes.
    #[must_use]
    pub fn written(&self) -> RelayPosition {
        self.shared.lock().written()
    }

    /// End of the durable bytes.
    #[must_use]
    pub fn synced(&self) -> RelayPosition {
        self.shared.lock().sync.synced
    }

    /// End of the last whole transaction that is durable; kept when the log is poisoned.
    #[must_use]
    pub fn synced_whole(&self) -> RelayPosition {
        let state = self.shared.lock();
        RelayPosition { offset: state.sync.synced_whole, ..state.sync.synced }
    }

    /// Waits until everything before `position` is durable; false on timeout. Does not request a sync: under
    /// [`SyncPolicy::Never`] call [`request_sync`](Self::request_sync) first.
    ///
    /// # Errors
    /// The log is poisoned, or closed while `position` was not durable.
    pub fn wait_synced(&self, position: RelayPosition, timeout: Duration) -> Result<bool, RelayError> {
        let deadline = Instant::now() + timeout;
        let mut state = self.shared.lock();
        loop {
            state.check()?;
            if state.sync.synced >= position {
                return Ok(true);
            }
            if state.closed {
                return Err(RelayError::Closed);
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Ok(false);
            }
            state = self.shared.synced_waiters.wait_timeout(state, left);
        }
    }

    /// Requests a sync of all written bytes at once; requests share a sync. Works under every policy.
    pub fn request_sync(&self) {
        self.shared.lock().sync.requested = true;
        self.shared.sync_condvar.notify_all();
    }

    /// Number of syncs since the log was opened.
    #[must_use]
    pub fn syncs(&self) -> u64 {
        self.shared.lock().sync.syncs
    }

    /// The failure that poisoned the log, if any.
    #[must_use]
    pub fn poison(&self) -> Option<RelayError> {
        self.shared.lock().poison.clone()
    }
}

pub(crate) fn wait<'a>(
    condvar: &std::sync::Condvar,
    guard: MutexGuard<'a, Shared>,
    timeout: Option<Duration>,
) -> MutexGuard<'a, Shared> {
    match timeout {
        Some(timeout) => {
            condvar.wait_timeout(guard, timeout).map_or_else(|poisoned| poisoned.into_inner().0, |pair| pair.0)
        }
        None => condvar.wait(guard).unwrap_or_else(std::sync::PoisonError::into_inner),
    }
}

/// State of the sync thread.
pub(crate) struct Syncer {
    shared: Arc<RelayShared>,
    delay: Duration,
    last_sync: Instant,
    last_state_write: Instant,
    /// Longest time that the state file may lag.
    state_interval: Duration,
    /// True if the state file lags the synced position.
    state_is_behind: bool,
    /// Position up to which the page cache was told to drop the log.
    dropped: RelayPosition,
}

enum Work {
    Sync,
    WriteState,
    Stop,
}

impl Syncer {
    pub(crate) fn new(shared: Arc<RelayShared>) -> Syncer {
        let now = Instant::now();
        Syncer {
            shared,
            delay: fail_point_delay(),
            last_sync: now,
            last_state_write: now,
            state_interval: STATE_INTERVAL,
            state_is_behind: false,
            dropped: RelayPosition { file_number: 0, offset: 0 },
        }
    }

    /// Runs until the writer stops it or an I/O error poisons the log.
    pub(crate) fn run(mut self) {
        loop {
            let result = match self.next_work() {
                Work::Sync => self.sync(),
                Work::WriteState => self.write_state(),
                Work::Stop => return,
            };
            if let Err(error) = result {
                self.shared.poison(error);
                return;
            }
        }
    }

    fn next_work(&self) -> Work {
        let mut state = self.shared.lock();
        loop {
            if state.sync.stopping || state.poison.is_some() {
                return Work::Stop;
            }
            let now = Instant::now();
            let mut wait_for = None;
            if state.sync.requested {
                return Work::Sync;
            }
            if state.sync.unsynced_bytes > 0 {
                match self.shared.policy {
                    SyncPolicy::EveryTransaction => {
                        if state.sync.synced < (RelayPosition { offset: state.whole(), ..state.written() }) {
                            return Work::Sync;
                        }
                    }
                    SyncPolicy::Interval { ms, bytes } => {
                        let due = (self.last_sync + Duration::from_millis(ms)).saturating_duration_since(now);
                        if due.is_zero() || state.sync.unsynced_bytes >= bytes {
                            return Work::Sync;
                        }
                        wait_for = Some(due);
                    }
                    SyncPolicy::Never => {}
                }
            }
            if self.state_is_behind {
                let due = (self.last_state_write + self.state_interval).saturating_duration_since(now);
                if due.is_zero() {
                    return Work::WriteState;
                }
                wait_for = Some(wait_for.map_or(due, |other| other.min(due)));
            }
            // A thread that waits only for the state file must still wake for new bytes.
            let idle = wait_for.is_none() || state.sync.unsynced_bytes == 0;
            state.sync.thread = if idle { SyncThread::Idle } else { SyncThread::Timed };
            state = wait(&self.shared.sync_condvar, state, wait_for);
            state.sync.thread = SyncThread::Busy;
        }
    }

    fn sync(&mut self) -> Result<(), RelayError> {
        self.last_sync = Instant::now();
        let (truncations, target, bytes, files, state_first) = {
            let mut state = self.shared.lock();
            state.sync.requested = false;
            let target = State { synced: state.written(), whole: state.whole(), clean: false };
            let state_first = std::mem::take(&mut state.sync.state_owed) || state.sync.without_checksums;
            (state.truncations, target, state.sync.unsynced_bytes, state.sync.unsynced.clone(), state_first)
        };
        if !self.delay.is_zero() {
            std::thread::sleep(self.delay);
        }
        for (number, file) in &files {
            let path = self.shared.path(*number);
            self.shared.disk.sync_data(file, &path).map_err(|e| RelayError::io("sync", &path, &e))?;
        }
        if state_first {
            self.record(Some((target, truncations)))?;
        }
        let mut state = self.shared.lock();
        state.sync.syncs += 1;
        if state.truncations != truncations {
            // The synced end may have been truncated; the bytes now there are synced in the next round.
            state.sync.requested = true;
            state.sync.state_owed |= state_first;
            return Ok(());
        }
        (state.sync.synced, state.sync.synced_whole) = (target.synced, target.whole);
        state.sync.unsynced_bytes = state.sync.unsynced_bytes.saturating_sub(bytes);
        state.sync.unsynced.retain(|(number, _)| *number >= target.synced.file_number);
        let read = state.readers.floor();
        self.shared.synced_waiters.wake_all(state);
        self.shared.note_synced(target.synced);
        if let Some(read) = read {
            self.drop_read_pages(&files, target.synced.min(read));
        }
        self.state_is_behind = !state_first;
        if self.last_state_write.elapsed() >= self.state_interval { self.write_state() } else { Ok(()) }
    }

    /// Tells the page cache to drop bytes that are durable and were given to the reader: nobody reads them again during
    /// replay. The freed pages take the next bytes, and other programs keep theirs.
    fn drop_read_pages(&mut self, files: &[(u64, Arc<File>)], end: RelayPosition) {
        for (number, file) in files.iter().filter(|(number, _)| *number <= end.file_number) {
            let begin = if *number == self.dropped.file_number { self.dropped.offset } else { 0 };
            let len = (*number == end.file_number).then(|| end.offset.saturating_sub(begin));
            if len != Some(0) {
                // Only advice: a system that ignores it loses nothing.
                _ = rustix::fs::fadvise(file, begin, len.and_then(NonZeroU64::new), Advice::DontNeed);
            }
        }
        self.dropped = end;
    }

    fn write_state(&mut self) -> Result<(), RelayError> {
        if self.state_is_behind { self.record(None) } else { Ok(()) }
    }

    /// Writes the state file: with the announced state, or with the state synced at that count of truncations.
    fn record(&mut self, synced: Option<(State, u64)>) -> Result<(), RelayError> {
        self.last_state_write = Instant::now();
        self.state_is_behind = false;
        // Locked during the write: a truncation lowers the state file after us, never before.
        let mut guard = self.shared.lock_state_file();
        let state = {
            let state = self.shared.lock();
            match synced {
                Some((_, truncations)) if state.truncations != truncations => return Ok(()),
                Some((synced, _)) => synced,
                None => State { synced: state.sync.synced, whole: state.sync.synced_whole, clean: false },
            }
        };
        let Some(file) = guard.as_mut() else { return Ok(()) };
        // Bytes announced because of this write must not be lost again.
        if synced.is_some() { file.write_durably(state) } else { file.write(state) }
    }
}

/// The work of the sync thread, for a driver that runs it step by step: see
/// [`RelayLog::open_stepped`](crate::RelayLog::open_stepped). No clock decides what it does: the state file is written
/// on request.
pub struct SyncStep(Syncer);

impl SyncStep {
    pub(crate) fn new(shared: Arc<RelayShared>) -> SyncStep {
        SyncStep(Syncer { state_interval: Duration::MAX, delay: Duration::ZERO, ..Syncer::new(shared) })
    }

    /// Makes all written bytes durable.
    ///
    /// # Errors
    /// The log is poisoned, or the operating system fails, which poisons it.
    pub fn sync(&mut self) -> Result<(), RelayError> {
        self.0.shared.lock().check()?;
        self.0.sync().map_err(|error| self.0.shared.poison(error))
    }

    /// Writes the state file if it lags.
    ///
    /// # Errors
    /// As [`sync`](Self::sync).
    pub fn write_state(&mut self) -> Result<(), RelayError> {
        self.0.shared.lock().check()?;
        self.0.write_state().map_err(|error| self.0.shared.poison(error))
    }
}

/// The fail point `relay_sync_delay_ms`.
fn fail_point_delay() -> Duration {
    let ms = base::fail_points::value("relay_sync_delay_ms").and_then(|ms| ms.parse().ok());
    Duration::from_millis(ms.unwrap_or(0))
}
