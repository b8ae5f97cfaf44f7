//! Publishing is held, advanced to exactly a GTID set, and released.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use apply::LogSource;
use base::{GtidSet, Random};
use relay_log::TailItem;
use testkit::history::History;
use testkit::seeds;

use crate::run::{Setup, check_watermark, chunks, follow};

/// A source that returns nothing until it is told to.
fn on_word(items: Vec<TailItem>) -> (LogSource, Arc<AtomicBool>) {
    let word = Arc::new(AtomicBool::new(false));
    let (told, mut items) = (Arc::clone(&word), items.into_iter());
    let source = move |_| {
        if !told.load(Ordering::Acquire) {
            std::thread::yield_now();
            return Ok(TailItem::Idle);
        }
        Ok(items.next().unwrap_or(TailItem::Closed))
    };
    (Box::new(source), word)
}

#[test]
fn held_advanced_exactly_released() {
    for seed in seeds(8) {
        let history = History::generate(seed);
        let mut random = Random::new(seed + 3);
        let setup = Setup::random(&mut random);
        let (source, word) = on_word(chunks(history.files(), &mut random));
        let pipeline = setup.start(source);
        let (store, publisher) = (Arc::clone(&pipeline.store), Arc::clone(&pipeline.publisher));
        publisher.hold();
        word.store(true, Ordering::Release);
        let long = Duration::from_secs(30);
        let mut at = 0;
        while at + 1 < history.states.len() {
            at += 1 + random.below(40);
            let Some(state) = history.states.get(at) else { break };
            assert!(publisher.advance_to(&state.executed, long), "seed {seed}: advance to {at}");
            assert!(publisher.status().held);
            assert_eq!(store.visibility().executed(), state.executed, "seed {seed}: not exactly");
            let visible = check_watermark(&store, &history.states).unwrap();
            // A duplicate changes nothing, so it may be visible or not.
            assert!(history.states[visible].executed == state.executed, "seed {seed}");
            // A set that is passed already, and one that is no prefix.
            assert!(!publisher.advance_to(&GtidSet::new(), long), "seed {seed}: back");
            if let Some(last) = history.states.get(at + 20) {
                let mut no_prefix = state.executed.clone();
                let far = last.executed.subtract(&state.executed);
                if far.count() > 3 {
                    let (uuid, tag, run) = far.intervals().last().unwrap();
                    no_prefix.add_range(uuid, tag, run.last, run.last);
                    let next = history.transactions[visible].gtid.unwrap();
                    if !no_prefix.contains(&next) {
                        assert!(!publisher.advance_to(&no_prefix, Duration::from_millis(20)), "seed {seed}");
                        assert_eq!(store.visibility().executed(), state.executed, "seed {seed}: beyond");
                    }
                }
            }
        }
        publisher.release();
        let (finished, end, _) = follow(pipeline, &history.states).unwrap_or_else(|e| panic!("seed {seed}: {e}"));
        assert!(finished.stop.is_none());
        assert_eq!(end + 1, history.states.len());
    }
}

/// A wait for a set after a failure ends with the failure, not with the timeout.
#[test]
fn advance_behind_a_failure_ends_early() {
    let mut history = History::generate(4);
    let events = vec![testkit::history::Event::Query { db: "d".into(), sql: "CALL planted()".into() }];
    history.plant(30, events, None);
    let mut random = Random::new(1);
    let setup = Setup::random(&mut random);
    let (source, word) = on_word(chunks(history.files(), &mut random));
    let pipeline = setup.start(source);
    pipeline.publisher.hold();
    word.store(true, Ordering::Release);
    let started = std::time::Instant::now();
    assert!(!pipeline.publisher.advance_to(&history.states.last().unwrap().executed, Duration::from_secs(60)));
    assert!(started.elapsed() < Duration::from_secs(30));
    pipeline.publisher.release();
    let (finished, at, _) = follow(pipeline, &history.states).unwrap();
    assert!(finished.stop.is_some());
    assert_eq!(at, 30);
}
