//! Runs every interleaving, under loom, of the parts that the product's threads share without a lock or use to wake
//! each other.
//!
//! In: the product's own source files, compiled here against loom's types ([`sync`] replaces `crate::sync`, which is
//! `std` in their crates). Out: whether any order of threads, and any value that the memory model lets a load see,
//! breaks the part's promise. Never here: a copy of a part; a part that is ordered only by locks and channels, unless
//! our own channels and wake-ups are made of it.
//!
//! loom's timed waits never time out, so a lost wake-up is a deadlock and is reported. Every model must be able to
//! fail: the tests run it again with an ordering removed, a wake-up swallowed or the promise broken ([`Weakened`]), and
//! expect it to find that.
// For the included files: models use part of each, and what their crates export is private here.
#![allow(dead_code, unreachable_pub)]

mod models;
pub mod sync;

#[path = "../../../crates/copy/src/stop_signal.rs"]
mod copy_stop_signal;
#[path = "../../../crates/apply/src/copy_track.rs"]
mod copy_track;
#[path = "../../../crates/base/src/threads/countdown.rs"]
mod countdown;
#[path = "../../../crates/base/src/threads/counted_condvar.rs"]
mod counted_condvar;
#[path = "../../../crates/apply/src/transactions/low_water_mark.rs"]
mod low_water_mark;
#[path = "../../../crates/store/src/published.rs"]
mod published;
#[path = "../../../crates/base/src/threads/queue.rs"]
mod queue;
#[path = "../../../crates/apply/src/shutdown.rs"]
mod shutdown;

pub use models::{
    copy_that_expires, last_of_several, low_water_mark, low_water_mark_waiters, marks_after_raising, pins_in_two_steps,
    queue_for_two, queue_that_is_full, queue_with_an_answer, queue_without_flush, snapshots_and_writers,
    snapshots_given_up, tracked_changes, waiters_one_by_one,
};

use std::panic::{AssertUnwindSafe, catch_unwind};

/// What a part is deprived of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Weakened {
    /// Nothing.
    No,
    /// Stores and read-modify-writes release nothing.
    NoRelease,
    /// Loads and read-modify-writes acquire nothing.
    NoAcquire,
    /// No waiter is woken.
    NoWakeUp,
}

/// True if loom finds an interleaving that breaks `model` once it is weakened.
#[must_use]
pub fn is_caught(weakened: Weakened, model: fn()) -> bool {
    sync::weaken(weakened);
    let found = catch_unwind(AssertUnwindSafe(|| loom::model(model))).is_err();
    sync::weaken(Weakened::No);
    found
}
