//! Parallel replay equals serial replay, at the end and at every watermark in between, and the checks notice when it
//! does not.

use base::Random;
use binlog::RowsKind;
use testkit::history::{Event, Flavour, History};
use testkit::seeds;

use crate::run::{Setup, check, check_ledger, chunks, closing, count_events, follow};

#[test]
fn equals_the_serial_model_at_every_watermark() {
    for seed in seeds(30) {
        let history = History::generate(seed);
        let mut random = Random::new(seed ^ 0xabcd);
        for _ in 0..2 {
            let setup = Setup::random(&mut random);
            if let Err(error) = check(&history, &setup, &mut random) {
                panic!(
                    "seed {seed}, {} workers, {} decoders, {:?}: {error}",
                    setup.workers, setup.decoders, setup.sizes
                );
            }
        }
    }
}

/// Duplicates are counted as executed already, with all their events.
#[test]
fn a_log_read_twice_is_applied_once() {
    for seed in seeds(4) {
        let mut history = History::generate(seed);
        let once = history.transactions.clone();
        let first = count_events(&history.files());
        let last = history.states.last().unwrap().clone();
        for transaction in &once {
            history.transactions.push(testkit::history::Transaction { duplicate: true, ..transaction.clone() });
            history.states.push(last.clone());
        }
        let mut random = Random::new(seed);
        let setup = Setup::random(&mut random);
        let outcome = check(&history, &setup, &mut random).unwrap_or_else(|e| panic!("seed {seed}: {e}"));
        let left_out = outcome.ledger.totals().already_executed;
        let control = |code: u8| first.get(&code).copied().unwrap_or(0);
        // All events but those outside transactions.
        let outside: u64 = [4, 15, 35].map(control).iter().sum();
        assert!(left_out >= first.values().sum::<u64>() - outside, "seed {seed}: {left_out}");
    }
}

/// Transactions that the store holds already are left out, wherever they are in the log.
#[test]
fn transactions_executed_before_are_left_out() {
    let history = History::generate(3);
    let mut random = Random::new(9);
    let mut setup = Setup::random(&mut random);
    setup.executed = history.states.last().unwrap().executed.clone();
    let files = history.files();
    let expected = count_events(&files);
    let pipeline = setup.start(closing(chunks(files, &mut random)));
    let ledger = std::sync::Arc::clone(&pipeline.ledger);
    let store = std::sync::Arc::clone(&pipeline.store);
    let finished = pipeline.join();
    assert!(finished.stop.is_none(), "{:?}", finished.stop);
    assert_eq!(store.stats().memory.rows, 0);
    let ledger = ledger.snapshot(binlog::event_type::name);
    check_ledger(&ledger, &expected).unwrap();
    assert_eq!(ledger.totals().applied, 0);
}

/// A log without GTIDs is replayed too.
#[test]
fn anonymous_transactions() {
    let flavour = Flavour { compressed: true, partial_images: true, ddl: true, huge: true, ..Flavour::PLAIN };
    let mut history = History::with(Random::new(5), flavour);
    for transaction in &mut history.transactions {
        transaction.gtid = None;
    }
    for state in &mut history.states {
        state.executed = base::GtidSet::new();
    }
    let mut random = Random::new(6);
    let setup = Setup::random(&mut random);
    check(&history, &setup, &mut random).unwrap();
}

fn plain(seed: u64) -> History {
    History::with(Random::new(seed), Flavour::PLAIN)
}

/// Finds a transaction with rows of this kind; returns its number and the event's.
fn find(history: &History, wanted: RowsKind) -> (usize, usize) {
    for (number, transaction) in history.transactions.iter().enumerate().rev() {
        let is = |event: &Event| matches!(event, Event::Rows { kind, id, .. } if *kind == wanted && *id > 100 && *id < 1 << 40);
        if let Some(event) = transaction.events.iter().position(is) {
            return (number, event);
        }
    }
    panic!("no such event");
}

/// Runs a history whose log was tampered with; the check must fail.
fn must_be_noticed(what: &str, history: &History) {
    let mut random = Random::new(1);
    let mut setup = Setup::random(&mut random);
    // Otherwise the row checks notice first.
    setup.check = store::CheckImages::Off;
    assert!(check(history, &setup, &mut random).is_err(), "{what} was not noticed");
}

#[test]
fn planted_faults_are_noticed() {
    let good = || plain(11);
    let mut random = Random::new(2);
    check(&good(), &Setup::random(&mut random), &mut random).unwrap();

    let mut lost = good();
    let (number, event) = find(&lost, RowsKind::Write);
    lost.transactions[number].events.remove(event);
    must_be_noticed("a lost insert", &lost);

    let mut flipped = good();
    let (number, event) = find(&flipped, RowsKind::Write);
    if let Event::Rows { rows, .. } = &mut flipped.transactions[number].events[event] {
        *rows.last_mut().unwrap() ^= 1;
    }
    must_be_noticed("a flipped byte", &flipped);

    let mut twice = good();
    let at = twice.transactions.iter().rposition(|t| {
        // A keyless table accepts another copy without complaint.
        t.events.iter().any(|e| matches!(e, Event::Map { shape, .. } if shape.key.is_empty()))
            && t.events
                .iter()
                .any(|e| matches!(e, Event::Rows { kind: RowsKind::Write, id, .. } if *id > 100 && *id < 1 << 40))
    });
    let again = twice.transactions[at.unwrap()].events.clone();
    twice.transactions[at.unwrap()].events.splice(1..1, again[1..again.len() - 1].to_vec());
    must_be_noticed("changes applied twice", &twice);

    let mut early = good();
    early.states.remove(20);
    must_be_noticed("a watermark that runs ahead of its rows", &early);
}

#[test]
fn an_event_lost_between_split_and_apply_is_noticed() {
    let history = plain(12);
    let files = history.files();
    let mut random = Random::new(4);
    let setup = Setup::random(&mut random);
    let (_, _, outcome) = follow(setup.start(closing(chunks(files.clone(), &mut random))), &history.states).unwrap();
    let mut expected = count_events(&files);
    check_ledger(&outcome.ledger, &expected).unwrap();
    *expected.get_mut(&30).unwrap() += 1;
    assert!(check_ledger(&outcome.ledger, &expected).is_err());
    let mut ledger = outcome.ledger.clone();
    let row = ledger.rows.iter_mut().find(|row| row.event_type == 30).unwrap();
    row.counts.applied -= 1;
    assert!(check_ledger(&ledger, &count_events(&files)).is_err());
}
