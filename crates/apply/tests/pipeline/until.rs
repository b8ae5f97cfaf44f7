//! Replay that stops by itself, that waits for a delay, and that is paused: always at a transaction boundary, and what
//! is visible equals the serial model there.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use apply::Pipeline;
use base::{GtidSet, Random, UntilGtids};
use decode::SplitOptions;
use relay_log::TailItem;
use testkit::history::History;
use testkit::seeds;

use crate::run::{Setup, check_watermark, chunks, closing, quiet};

const WITHIN: Duration = Duration::from_secs(30);

fn wait(what: &str, seed: u64, mut is: impl FnMut() -> bool) {
    let deadline = Instant::now() + WITHIN;
    while !is() {
        assert!(Instant::now() < deadline, "seed {seed}: {what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// What the transactions from one state to another executed.
fn between(history: &History, from: usize, to: usize) -> GtidSet {
    history.states[to].executed.subtract(&history.states[from].executed)
}

/// Number of the state before which a condition stops a replay that stands at `from`, in the model.
fn stops_at(history: &History, from: usize, until: &UntilGtids) -> Option<usize> {
    (from..history.states.len()).find(|at| match until {
        _ if *at == from && until.is_met_by(&history.states[from].executed) => true,
        UntilGtids::Before(set) => {
            let next = history.states.get(at + 1);
            next.is_some_and(|_| !between(history, *at, at + 1).intersection(set).is_empty())
        }
        UntilGtids::After(_) => until.is_met_by(&history.states[*at].executed),
    })
}

/// A set of the GTIDs of a few transactions.
fn some(history: &History, random: &mut Random) -> GtidSet {
    let mut set = GtidSet::new();
    for _ in 0..1 + random.below(3usize) {
        let at = 1 + random.below(history.states.len() - 1);
        set.union_with(&between(history, at - 1, at));
    }
    set
}

fn at_rest(pipeline: &Pipeline, history: &History, seed: u64) -> usize {
    wait("does not come to rest", seed, || pipeline.is_at_rest());
    check_watermark(&pipeline.store, &history.states).unwrap_or_else(|why| panic!("seed {seed}: {why}"))
}

#[test]
fn stops_exactly_where_the_condition_is_met() {
    let (mut stopped, mut in_part) = (0, 0);
    for seed in seeds(40) {
        let history = History::generate(seed);
        let mut random = Random::new(seed + 23);
        let setup = Setup::random(&mut random);
        let items = chunks(history.files(), &mut random);
        let pipeline = setup.start(if random.one_in(2) { quiet(items) } else { closing(items) });
        let mut at = if random.one_in(2) {
            pipeline.pause();
            at_rest(&pipeline, &history, seed)
        } else {
            pipeline.pause();
            wait("does not rest", seed, || pipeline.is_at_rest());
            pipeline.store.visibility().watermark().0 as usize
        };
        for _ in 0..3 {
            let set = some(&history, &mut random);
            let until = if random.one_in(2) { UntilGtids::Before(set) } else { UntilGtids::After(set) };
            let Some(wanted) = stops_at(&history, at, &until) else { continue };
            pipeline.resume(Some(until.clone()));
            let reached = at_rest(&pipeline, &history, seed);
            assert_eq!(reached, wanted, "seed {seed}: from {at} {until:?}");
            assert!(pipeline.is_until_met() && pipeline.is_paused());
            // Nothing moves any more.
            let pieces = pipeline.pieces.load(Ordering::Relaxed);
            std::thread::sleep(Duration::from_millis(3));
            assert_eq!(pipeline.pieces.load(Ordering::Relaxed), pieces, "seed {seed}");
            stopped += 1;
            in_part += usize::from(reached > at && reached + 1 < history.states.len());
            at = reached;
        }
        pipeline.resume(None);
        let all = &history.states.last().unwrap().executed;
        assert!(pipeline.store.visibility().wait_executed(all, Instant::now() + WITHIN), "seed {seed} ends");
        assert!(!pipeline.is_paused() && pipeline.until().is_none());
        pipeline.stop();
        let finished = pipeline.join();
        assert!(finished.stop.is_none(), "seed {seed}: {:?}", finished.stop);
    }
    assert!(stopped > 20 && in_part > 10, "{stopped} stops, {in_part} in the midst of the log");
}

#[test]
fn a_stop_at_a_condition_survives_the_end_of_replay() {
    for seed in seeds(10) {
        let history = History::generate(seed);
        let mut random = Random::new(seed + 5);
        let setup = Setup::random(&mut random);
        let pipeline = setup.start(quiet(chunks(history.files(), &mut random)));
        pipeline.pause();
        let at = at_rest(&pipeline, &history, seed);
        let until = UntilGtids::After(some(&history, &mut random));
        let Some(wanted) = stops_at(&history, at, &until) else { continue };
        pipeline.resume(Some(until));
        at_rest(&pipeline, &history, seed);
        let store = Arc::clone(&pipeline.store);
        pipeline.stop();
        assert!(pipeline.join().stop.is_none());
        assert_eq!(check_watermark(&store, &history.states), Ok(wanted), "seed {seed}");
    }
}

#[test]
fn nothing_is_applied_before_its_delay_and_no_delay_lets_it_go_on() {
    let history = History::generate(4);
    let mut random = Random::new(9);
    let setup = Setup::random(&mut random);
    let pipeline = setup.start(quiet(chunks(history.files(), &mut random)));
    pipeline.pause();
    let at = at_rest(&pipeline, &history, 4);
    // Longer than since the history's commits.
    pipeline.set_delay(Duration::from_secs(1 << 40));
    pipeline.resume(None);
    wait("does not wait", 4, || pipeline.remaining_delay().is_some());
    std::thread::sleep(Duration::from_millis(20));
    assert_eq!(check_watermark(&pipeline.store, &history.states), Ok(at));
    assert!(!pipeline.is_paused() && pipeline.oldest_pending_commit_us().is_some());
    // Paused while it waits.
    pipeline.pause();
    wait("does not rest", 4, || pipeline.is_at_rest());
    assert!(pipeline.remaining_delay().is_none());
    pipeline.resume(None);
    wait("does not wait again", 4, || pipeline.remaining_delay().is_some());
    pipeline.set_delay(Duration::ZERO);
    let all = &history.states.last().unwrap().executed;
    assert!(pipeline.store.visibility().wait_executed(all, Instant::now() + WITHIN));
    pipeline.stop();
    assert!(pipeline.join().stop.is_none());
}

/// Found by an operator: paused over a restart, the lag was unknown until something was received, because the first
/// piece then may be the head of a file.
#[test]
fn a_pause_from_the_start_has_its_lag() {
    for seed in seeds(10) {
        let history = History::generate(seed);
        let mut random = Random::new(seed);
        let mut setup = Setup::random(&mut random);
        setup.sizes = SplitOptions { piece_bytes: 1, slice_bytes: 16 << 20 };
        setup.memory_bytes = 64 << 20;
        let may_read = Arc::new(AtomicBool::new(false));
        let (gate, mut log) = (Arc::clone(&may_read), quiet(chunks(history.files(), &mut random)));
        let pipeline = setup.start(Box::new(move |timeout| {
            if !gate.load(Ordering::Acquire) {
                std::thread::yield_now();
                return Ok(TailItem::Idle);
            }
            log(timeout)
        }));
        pipeline.pause();
        may_read.store(true, Ordering::Release);
        wait("has no lag", seed, || pipeline.oldest_pending_commit_us().is_some());
        assert_eq!(at_rest(&pipeline, &history, seed), 0);
        pipeline.stop();
        assert!(pipeline.join().stop.is_none());
    }
}
