//! Properties that hold in every interleaving; each model also finds what would break its property.

use interleavings::{
    Weakened, copy_that_expires, is_caught, last_of_several, low_water_mark, low_water_mark_waiters,
    marks_after_raising, pins_in_two_steps, queue_for_two, queue_that_is_full, queue_with_an_answer,
    queue_without_flush, snapshots_and_writers, snapshots_given_up, tracked_changes, waiters_one_by_one,
};

fn holds_and_needs(model: fn(), needed: &[Weakened]) {
    loom::model(model);
    for weakened in needed {
        assert!(is_caught(*weakened, model), "{weakened:?} was not noticed");
    }
}

const BOTH: [Weakened; 2] = [Weakened::NoRelease, Weakened::NoAcquire];

#[test]
fn the_last_to_be_done_sees_what_all_did() {
    holds_and_needs(last_of_several, &BOTH);
}

#[test]
fn a_copy_that_lacks_a_change_never_looks_whole() {
    holds_and_needs(tracked_changes, &BOTH);
}

#[test]
fn who_waited_for_the_low_water_mark_sees_what_was_done_below_it() {
    holds_and_needs(low_water_mark, &[Weakened::NoRelease, Weakened::NoAcquire, Weakened::NoWakeUp]);
}

#[test]
fn waiters_for_different_numbers_are_woken_in_every_order() {
    holds_and_needs(low_water_mark_waiters, &[Weakened::NoWakeUp]);
}

#[test]
fn a_snapshot_keeps_its_version_while_workers_drop_old_ones() {
    holds_and_needs(snapshots_and_writers, &[]);
    assert!(is_caught(Weakened::No, pins_in_two_steps), "a pin that comes too late was not noticed");
}

#[test]
fn a_batch_read_while_its_snapshot_is_given_up_is_not_used() {
    holds_and_needs(snapshots_given_up, &BOTH);
    assert!(is_caught(Weakened::No, marks_after_raising), "a mark that comes too late was not noticed");
}

#[test]
fn a_copy_that_is_too_old_is_told_so() {
    holds_and_needs(copy_that_expires, &BOTH);
}

#[test]
fn each_of_those_who_wait_is_woken_once() {
    holds_and_needs(waiters_one_by_one, &[Weakened::NoWakeUp]);
}

#[test]
fn what_is_flushed_is_received_before_its_sender_waits() {
    holds_and_needs(queue_with_an_answer, &[Weakened::NoWakeUp]);
    assert!(is_caught(Weakened::No, queue_without_flush), "a sender that does not flush was not noticed");
}

#[test]
fn batches_and_the_end_reach_all_receivers() {
    holds_and_needs(queue_for_two, &[Weakened::NoWakeUp]);
}

#[test]
fn a_sender_without_room_is_woken() {
    holds_and_needs(queue_that_is_full, &[Weakened::NoWakeUp]);
}
