//! The grain of transactions equals the serial model at every sampled watermark.

use apply::Pipeline;
use apply::transactions::{CommitOrder, HandOff, TransactionCounts, TransactionOptions, WaitAt};
use base::Random;
use decode::trackers::{Rules, TrackerKind, TrackerOptions};
use testkit::history::{Flavour, History};
use testkit::seeds;
use testkit::stamps::{KINDS, stamps};

use crate::run::{Setup, check_with, chunks, closing, follow};

/// Returns a random mode for a tracker.
fn mode(random: &mut Random, kind: TrackerKind) -> TransactionOptions {
    let either = |random: &mut Random| random.one_in(2);
    TransactionOptions {
        tracker: TrackerOptions {
            kind,
            rules: if either(random) { Rules::Own } else { Rules::Stock },
            history_size: [1, 20, 1_000_000][random.below(3)],
        },
        wait: if either(random) { WaitAt::Worker } else { WaitAt::Scheduler },
        commit_order: if either(random) { CommitOrder::Preserved } else { CommitOrder::Free },
        hand_off: if either(random) { HandOff::Batch } else { HandOff::Event },
        worker_queue_events: [1, 3, 100, 1_048_576][random.below(4)],
    }
}

/// Stamps the log like a source with writesets, so that its own numbers allow transactions to run concurrently.
fn stamp(history: &mut History) {
    let files: Vec<Vec<u8>> = history.files().into_iter().map(|(_, bytes)| bytes).collect();
    let options = TrackerOptions { kind: TrackerKind::Writeset, ..TrackerOptions::default() };
    let (stamps, _) = stamps(&files, options, |_| {});
    assert_eq!(stamps.len(), history.transactions.len());
    for (transaction, stamp) in history.transactions.iter_mut().zip(stamps) {
        transaction.clock = (stamp.last_committed as i64, stamp.sequence_number as i64);
    }
}

fn setup(random: &mut Random) -> Setup {
    let mut setup = Setup::random(random);
    setup.workers = 1 + random.below(16);
    setup.decoders = random.below(4);
    setup
}

#[test]
fn every_mode_equals_the_serial_model_at_every_watermark() {
    for seed in seeds(14) {
        let mut history = History::generate(seed);
        stamp(&mut history);
        let mut random = Random::new(seed ^ 0x5eed);
        for kind in KINDS {
            let (setup, mode) = (setup(&mut random), mode(&mut random, kind));
            let start = |source| Pipeline::start_transactions(source, setup.options(), mode, setup.sizes.slice_bytes);
            if let Err(error) = check_with(&history, &mut random, start) {
                panic!("seed {seed}, {} workers, {} decoders, {mode:?}: {error}", setup.workers, setup.decoders);
            }
        }
    }
}

/// A few hot rows: nearly everything conflicts, above all rows without a key.
#[test]
fn hot_rows_and_keyless_tables() {
    for seed in seeds(6) {
        let flavour =
            Flavour { transactions: 250, partial_images: seed % 2 == 0, huge: seed % 3 == 0, ..Flavour::PLAIN };
        let mut history = History::with(Random::new(seed + 900), flavour);
        stamp(&mut history);
        let mut random = Random::new(seed);
        for kind in KINDS {
            let (mut setup, mode) = (setup(&mut random), mode(&mut random, kind));
            setup.workers = 8 + random.below(9);
            let start = |source| Pipeline::start_transactions(source, setup.options(), mode, setup.sizes.slice_bytes);
            if let Err(error) = check_with(&history, &mut random, start) {
                panic!("seed {seed}, {} workers, {} decoders, {mode:?}: {error}", setup.workers, setup.decoders);
            }
        }
    }
}

fn counts(history: &History, workers: usize, mode: TransactionOptions) -> TransactionCounts {
    let mut random = Random::new(4);
    let mut setup = Setup::random(&mut random);
    (setup.workers, setup.decoders, setup.memory_bytes) = (workers, 2, 64 << 20);
    let source = closing(chunks(history.files(), &mut random));
    let pipeline = Pipeline::start_transactions(source, setup.options(), mode, 16 << 20);
    let counters = pipeline.transaction_counters().unwrap();
    let (finished, ..) = follow(pipeline, &history.states).unwrap();
    assert!(finished.stop.is_none(), "{:?}", finished.stop);
    counters.snapshot()
}

/// Sources let transactions overlap that insert the same row into a table without a key; the store needs them in
/// order.
#[test]
fn transactions_of_one_row_without_a_key_are_kept_in_order_whatever_the_source_says() {
    let flavour = Flavour { transactions: 200, ..Flavour::PLAIN };
    let mut history = History::with(Random::new(77), flavour);
    stamp(&mut history);
    for at in 12..history.transactions.len() {
        // As if all transactions that change nothing else had overlapped at the source.
        if is_keyless_only(&history, at) {
            history.transactions[at].clock.0 = history.transactions[at].clock.0.min(12);
        }
    }
    let mode = TransactionOptions {
        tracker: TrackerOptions { kind: TrackerKind::CommitOrder, ..TrackerOptions::default() },
        ..TransactionOptions::default()
    };
    let counts = counts(&history, 8, mode);
    assert!(counts.keyless_raised > 0, "{counts:?}");
}

fn is_keyless_only(history: &History, at: usize) -> bool {
    let mut any = false;
    let all = history.transactions[at].events.iter().all(|event| match event {
        testkit::history::Event::Map { shape, .. } => {
            any = true;
            shape.key.is_empty()
        }
        _ => true,
    });
    all && any
}

/// A tracker that ignores foreign keys, unique keys or tables would show here: a mode that lets everything run at
/// once fails.
#[test]
fn planted_a_log_that_calls_everything_independent_is_noticed() {
    let mut noticed = 0;
    for seed in 0..8 {
        let flavour = Flavour { transactions: 200, ..Flavour::PLAIN };
        let mut history = History::with(Random::new(seed + 40), flavour);
        stamp(&mut history);
        for transaction in &mut history.transactions[12..] {
            transaction.clock.0 = transaction.clock.0.min(12);
        }
        let mut random = Random::new(seed);
        let mut setup = setup(&mut random);
        (setup.workers, setup.decoders) = (8, 2);
        let tracker = TrackerOptions { kind: TrackerKind::CommitOrder, ..TrackerOptions::default() };
        let mode = TransactionOptions { tracker, ..TransactionOptions::default() };
        let start = |source| Pipeline::start_transactions(source, setup.options(), mode, 16 << 20);
        noticed += u64::from(check_with(&history, &mut random, start).is_err());
    }
    assert!(noticed > 0);
}
