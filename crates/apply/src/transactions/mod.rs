//! The grain of whole transactions: a scheduler hands each transaction to one worker, as MySQL's multi-threaded
//! applier does.
//!
//! In: sequenced pieces of one transaction (or a slice of one) each. Out: rows in the store, committed through the
//! publisher. A [`Scheduler`] determines, by a dependency tracker, what each transaction must wait for; a
//! [`LowWaterMark`] tracks the end of the finished prefix; each worker takes transactions from its own queue. Never
//! here: the rows grain, which shares only the stages around it.
//!
//! # Invariants
//! - Per key, versions are appended in the order of their sequence numbers. A transaction's rows are applied only
//!   after the low-water mark has reached its `last_committed`, and the tracker never stamps that below a transaction
//!   that touches one of its rows. For rows without a key the store demands more than any tracker gives: equal images
//!   of one table are one key with a count, and a tracker lets transactions that insert them overlap. The scheduler
//!   therefore keeps transactions of one such image in order itself. Rows of different keys may be written in any
//!   order, in any lane: a lane is locked for one row.
//! - Readers see a prefix of the log, whether commits are ordered or not: the publisher moves the watermark over
//!   finished transactions only. With the order preserved, a worker also keeps its transaction until all before it
//!   are committed, like `replica_preserve_commit_order`.
//! - Progress: the unfinished transaction with the lowest number never waits. All its dependencies are done, its
//!   turn to commit has come, and it is at the head of its worker's queue, because transactions are handed out in
//!   order.

pub(crate) mod driver;
#[cfg(test)]
pub(crate) mod lost_op_tests;
mod low_water_mark;
mod queue;
mod scheduler;
mod worker;

use std::sync::atomic::{AtomicU64, Ordering};

use decode::trackers::{TrackerCounts, TrackerOptions};

pub use low_water_mark::LowWaterMark;
pub use scheduler::{Placed, Scheduler};

/// Which thread waits for a transaction's dependencies.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum WaitAt {
    /// The worker that holds the transaction; the scheduler continues.
    #[default]
    Worker,
    /// The scheduler, and with it everything after the transaction
    /// (`Mts_submode_logical_clock::wait_for_last_committed_trx`). It hands transactions only to idle workers, and
    /// polls for one in a loop, like stock MySQL.
    Scheduler,
}

/// Whether workers commit in log order.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum CommitOrder {
    /// A worker commits its transaction only after all before it (`replica_preserve_commit_order=ON`).
    #[default]
    Preserved,
    /// A worker is done with a transaction once its rows are written. Readers see whole prefixes all the same.
    Free,
}

/// How transactions are handed to workers.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum HandOff {
    /// Whole: one queue entry per transaction.
    #[default]
    Batch,
    /// Event by event; each takes a latch shared by all workers, twice (`append_item_to_jobs`,
    /// `remove_item_from_jobs`, `Relay_log_info::pending_jobs_lock`).
    Event,
}

/// `mts_slave_worker_queue_len_max` of MySQL 8.0 to 9.7.
pub const WORKER_QUEUE_EVENTS_STOCK: usize = 16_384;
/// 64 times as many, like the patched server of chapter 10.3.2.
pub const WORKER_QUEUE_EVENTS: usize = 1_048_576;

/// How transactions are scheduled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct TransactionOptions {
    /// Dependency tracker: determines what a transaction must wait for.
    pub tracker: TrackerOptions,
    /// Thread that waits for dependencies.
    pub wait: WaitAt,
    /// Order of commits.
    pub commit_order: CommitOrder,
    /// Granularity of the hand-over to workers.
    pub hand_off: HandOff,
    /// Capacity of a worker's queue in events, at least 1. A larger transaction, handed over whole, waits for an
    /// empty queue.
    pub worker_queue_events: usize,
}

impl Default for TransactionOptions {
    fn default() -> TransactionOptions {
        TransactionOptions {
            tracker: TrackerOptions::default(),
            wait: WaitAt::default(),
            commit_order: CommitOrder::default(),
            hand_off: HandOff::default(),
            worker_queue_events: WORKER_QUEUE_EVENTS,
        }
    }
}

/// Counters of the grain of transactions, shared by its threads.
#[derive(Debug, Default)]
pub struct TransactionCounters {
    pub(crate) transactions: AtomicU64,
    pub(crate) scheduler_waits: AtomicU64,
    pub(crate) worker_waits: AtomicU64,
    pub(crate) commit_waits: AtomicU64,
    pub(crate) queue_waits: AtomicU64,
    pub(crate) idle_waits: AtomicU64,
    pub(crate) jobs: AtomicU64,
    pub(crate) latches: AtomicU64,
    pub(crate) latches_contended: AtomicU64,
    pub(crate) decoded_by_scheduler: AtomicU64,
    pub(crate) keyless_raised: AtomicU64,
    pub(crate) at_once_max: AtomicU64,
    pub(crate) drains: AtomicU64,
    pub(crate) forgotten: AtomicU64,
    pub(crate) coarse: AtomicU64,
    pub(crate) distance: AtomicU64,
}

/// Snapshot of [`TransactionCounters`].
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TransactionCounts {
    pub transactions: u64,
    /// Times the scheduler waited for a transaction's dependencies ("Waiting for dependent transaction to commit").
    pub scheduler_waits: u64,
    /// Times a worker waited for a transaction's dependencies.
    pub worker_waits: u64,
    /// Times a worker waited for its turn to commit ("Waiting for preceding transaction to commit").
    pub commit_waits: u64,
    /// Times the scheduler waited for room in a worker's queue ("Waiting for Replica Worker queue").
    pub queue_waits: u64,
    /// Times the scheduler found no idle worker at the first look.
    pub idle_waits: u64,
    /// Entries of the workers' queues: transactions, slices of one, or events.
    pub jobs: u64,
    /// Times the shared latch was taken.
    pub latches: u64,
    /// Times the shared latch was held by another thread.
    pub latches_contended: u64,
    /// Pieces that the scheduling thread decoded itself.
    pub decoded_by_scheduler: u64,
    /// Transactions that wait for an earlier one because of a row without a key, although the tracker did not demand
    /// it.
    pub keyless_raised: u64,
    /// Largest number of transactions in workers' hands at once.
    pub at_once_max: u64,
    /// Counters of the tracker.
    pub tracker: TrackerCounts,
}

impl TransactionCounters {
    /// Returns the current counts.
    #[must_use]
    pub fn snapshot(&self) -> TransactionCounts {
        let of = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        TransactionCounts {
            transactions: of(&self.transactions),
            scheduler_waits: of(&self.scheduler_waits),
            worker_waits: of(&self.worker_waits),
            commit_waits: of(&self.commit_waits),
            queue_waits: of(&self.queue_waits),
            idle_waits: of(&self.idle_waits),
            jobs: of(&self.jobs),
            latches: of(&self.latches),
            latches_contended: of(&self.latches_contended),
            decoded_by_scheduler: of(&self.decoded_by_scheduler),
            keyless_raised: of(&self.keyless_raised),
            at_once_max: of(&self.at_once_max),
            tracker: TrackerCounts {
                drains: of(&self.drains),
                forgotten: of(&self.forgotten),
                coarse: of(&self.coarse),
                distance: of(&self.distance),
            },
        }
    }

    fn note(&self, tracker: TrackerCounts) {
        self.drains.store(tracker.drains, Ordering::Relaxed);
        self.forgotten.store(tracker.forgotten, Ordering::Relaxed);
        self.coarse.store(tracker.coarse, Ordering::Relaxed);
        self.distance.store(tracker.distance, Ordering::Relaxed);
    }
}

fn add(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}
