//! A worker's queue, bounded in events, and the latch that all queues share where events are handed over one by one.
//!
//! In: jobs from the scheduler. Out: jobs to one worker. Never here: a job that overtakes another.

use std::collections::VecDeque;
use std::ops::Range;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError, TryLockError};
use std::time::Duration;

use super::scheduler::Placed;
use super::{TransactionCounters, add};
use crate::in_flight::InFlight;
use crate::shutdown::Shutdown;

/// Interval at which a wait checks whether replay ends.
const LOOK: Duration = Duration::from_millis(50);

/// A piece handed to a worker.
pub(super) struct Task {
    pub flight: Arc<InFlight>,
    pub placed: Placed,
}

/// One entry of a worker's queue.
pub(super) struct Job {
    pub task: Arc<Task>,
    /// Range of ops to apply, counted over the piece's lists.
    pub ops: Range<usize>,
    /// True for the piece's first job.
    pub first: bool,
    /// True for the piece's last job.
    pub last: bool,
    /// Events it occupies in the queue.
    pub events: usize,
}

#[derive(Default)]
struct State {
    jobs: VecDeque<Job>,
    events: usize,
    closed: bool,
}

/// Bounded queue of one worker.
pub(super) struct WorkerQueue {
    state: Mutex<State>,
    filled: Condvar,
    drained: Condvar,
    capacity: usize,
    /// Number of transactions given to the worker and not done.
    busy: AtomicUsize,
}

impl WorkerQueue {
    pub(super) fn new(capacity: usize) -> WorkerQueue {
        WorkerQueue {
            state: Mutex::default(),
            filled: Condvar::new(),
            drained: Condvar::new(),
            capacity: capacity.max(1),
            busy: AtomicUsize::new(0),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Appends a job once there is room; true if that took a wait. A job larger than the capacity waits for an empty
    /// queue. When replay gives up the job is appended at once, since nobody will apply it.
    pub(super) fn push(&self, job: Job, shutdown: &Shutdown) -> bool {
        let mut state = self.lock();
        let mut waited = false;
        while state.events > 0 && state.events + job.events > self.capacity && !shutdown.stops_applying() {
            waited = true;
            state = self.drained.wait_timeout(state, LOOK).unwrap_or_else(PoisonError::into_inner).0;
        }
        state.events += job.events;
        state.jobs.push_back(job);
        drop(state);
        self.filled.notify_one();
        waited
    }

    /// Waits for the next job; None once the queue is closed and empty.
    pub(super) fn pop(&self) -> Option<Job> {
        let mut state = self.lock();
        loop {
            if let Some(job) = state.jobs.pop_front() {
                state.events -= job.events;
                drop(state);
                self.drained.notify_one();
                return Some(job);
            }
            if state.closed {
                return None;
            }
            state = self.filled.wait(state).unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Closes the queue: no job follows.
    pub(super) fn close(&self) {
        self.lock().closed = true;
        self.filled.notify_all();
    }

    pub(super) fn busy(&self) -> usize {
        self.busy.load(Ordering::Acquire)
    }

    pub(super) fn gets_one(&self) {
        self.busy.fetch_add(1, Ordering::AcqRel);
    }

    pub(super) fn is_done_with_one(&self) {
        self.busy.fetch_sub(1, Ordering::AcqRel);
    }
}

/// Count of queued events under one latch for all workers, like `Relay_log_info::pending_jobs_lock`. It exists to
/// measure the cost of that latch.
#[derive(Default)]
pub(super) struct PendingJobs {
    jobs: Mutex<u64>,
}

impl PendingJobs {
    pub(super) fn added(&self, counters: &TransactionCounters) {
        *self.lock(counters) += 1;
    }

    pub(super) fn removed(&self, counters: &TransactionCounters) {
        *self.lock(counters) -= 1;
    }

    fn lock(&self, counters: &TransactionCounters) -> MutexGuard<'_, u64> {
        add(&counters.latches);
        match self.jobs.try_lock() {
            Ok(guard) => guard,
            Err(TryLockError::Poisoned(poisoned)) => poisoned.into_inner(),
            Err(TryLockError::WouldBlock) => {
                add(&counters.latches_contended);
                self.jobs.lock().unwrap_or_else(PoisonError::into_inner)
            }
        }
    }
}
