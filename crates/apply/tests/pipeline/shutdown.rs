//! Replay ends on request at any moment, paused or not, and with a source that fails or panics. No thread is left
//! over.

use std::time::{Duration, Instant};

use apply::LogSource;
use base::Random;
use decode::StopClass;
use relay_log::RelayError;
use testkit::history::History;
use testkit::seeds;

use crate::run::{Setup, check_watermark, chunks, closing, quiet};

/// The limit promised to the operator.
const STOP_MAX: Duration = Duration::from_secs(5);

#[test]
fn stops_at_a_transaction_boundary_at_any_moment() {
    for seed in seeds(25) {
        let history = History::generate(seed);
        let mut random = Random::new(seed + 11);
        let setup = Setup::random(&mut random);
        let items = chunks(history.files(), &mut random);
        let pipeline = setup.start(if random.one_in(2) { quiet(items) } else { closing(items) });
        let store = std::sync::Arc::clone(&pipeline.store);
        let until = random.below(history.states.len()) as u64;
        let paused = random.one_in(2);
        let deadline = Instant::now() + Duration::from_secs(30);
        while store.visibility().watermark().0 < until {
            assert!(Instant::now() < deadline, "seed {seed} hangs");
            std::thread::yield_now();
        }
        if paused {
            pipeline.pause();
            assert!(pipeline.is_paused());
        }
        let asked = Instant::now();
        pipeline.stop();
        if random.one_in(3) {
            // A pause this late must not keep replay from ending.
            pipeline.pause();
        }
        let finished = pipeline.join();
        assert!(asked.elapsed() < STOP_MAX, "seed {seed}: {:?}", asked.elapsed());
        assert!(finished.stop.is_none(), "seed {seed}: {:?}", finished.stop);
        check_watermark(&store, &history.states).unwrap_or_else(|e| panic!("seed {seed}: {e}"));
    }
}

#[test]
fn pause_holds_the_workers_and_resume_goes_on() {
    let history = History::generate(8);
    let mut random = Random::new(2);
    let setup = Setup::random(&mut random);
    let pipeline = setup.start(quiet(chunks(history.files(), &mut random)));
    pipeline.pause();
    let at = pipeline.store.visibility().watermark();
    // At most the pieces handed on before.
    let handed_on = pipeline.pieces.load(std::sync::atomic::Ordering::Relaxed);
    std::thread::sleep(Duration::from_millis(30));
    assert!(pipeline.pieces.load(std::sync::atomic::Ordering::Relaxed) <= handed_on + 1);
    assert!(pipeline.store.visibility().watermark() >= at);
    pipeline.resume(None);
    let all = &history.states.last().unwrap().executed;
    assert!(pipeline.store.visibility().wait_executed(all, Instant::now() + Duration::from_secs(30)));
    pipeline.stop();
    assert!(pipeline.join().stop.is_none());
}

#[test]
fn a_source_that_fails_or_panics_ends_replay() {
    for fails in [false, true] {
        let history = History::generate(6);
        let mut random = Random::new(3);
        let setup = Setup::random(&mut random);
        let mut items = chunks(history.files(), &mut random).into_iter();
        let mut left = items.len() / 2;
        let source: LogSource = Box::new(move |_| {
            left -= 1;
            match (left, fails) {
                (0, true) => Err(RelayError::Closed),
                (0, false) => panic!("planted"),
                _ => Ok(items.next().unwrap()),
            }
        });
        let pipeline = setup.start(source);
        let store = std::sync::Arc::clone(&pipeline.store);
        let asked = Instant::now();
        let stop = pipeline.join().stop.unwrap();
        assert!(asked.elapsed() < STOP_MAX);
        if fails {
            assert_eq!(stop.class, StopClass::Io, "{stop}");
        } else {
            assert!(stop.reason.contains("split failed: planted"), "{stop}");
            assert!(!stop.help().contains("damaged"));
        }
        check_watermark(&store, &history.states).unwrap();
    }
}

/// Without a join, the threads end with their owner, and memory is freed.
#[test]
fn replay_that_nobody_holds_ends() {
    let history = History::generate(7);
    let mut random = Random::new(5);
    let pipeline = Setup::random(&mut random).start(quiet(chunks(history.files(), &mut random)));
    let gate = std::sync::Arc::clone(&pipeline.gate);
    drop(pipeline);
    let deadline = Instant::now() + STOP_MAX;
    while std::sync::Arc::strong_count(&gate) > 1 {
        assert!(Instant::now() < deadline);
        std::thread::yield_now();
    }
    assert_eq!(gate.used(), 0);
}
