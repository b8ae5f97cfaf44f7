//! Split and decode without a store, as started by a relay, an inspection or another target.

use std::time::Duration;

use apply::{Front, FrontOptions, LogSource, Threads};
use base::queue::Received;
use base::{GtidSet, Random, SequenceNumber, ThreadAffinity};
use catalog::Catalog;
use decode::{DecodeOptions, Sequencer, SplitOptions};
use testkit::history::History;
use testkit::seeds;

use crate::run::{chunks, closing, quiet};

fn decode_options() -> DecodeOptions {
    DecodeOptions { lanes: 4, ..DecodeOptions::default() }
}

fn start(source: LogSource, random: &mut Random, threads: &std::sync::Arc<Threads>) -> Front {
    let options = FrontOptions {
        decoders: 1 + random.below(3),
        memory_bytes: 1 << 10 << random.below(12),
        sizes: SplitOptions { piece_bytes: 1_000, slice_bytes: 600 },
        decode: decode_options(),
        catalog: Catalog::new(0),
    };
    Front::start(source, options, threads)
}

#[test]
fn the_front_half_brings_every_transaction_without_a_store() {
    for seed in seeds(10) {
        let (history, mut random) = (History::generate(seed), Random::new(seed));
        let threads = Threads::new(ThreadAffinity::default());
        let front = start(closing(chunks(history.files(), &mut random)), &mut random, &threads);
        let mut sequencer = Sequencer::new(decode_options(), Catalog::new(0), GtidSet::new(), SequenceNumber::ZERO);
        let mut gtids = Vec::new();
        loop {
            let decoded = match front.pieces.recv_timeout(Duration::from_secs(60)) {
                Received::Item(decoded) => decoded,
                Received::Ended => break,
                Received::Nothing => panic!("seed {seed}: hangs after {} transactions", gtids.len()),
            };
            sequencer.step(decoded, &front.feed.catalogs, |piece| {
                assert!(piece.decoded.stop.is_none(), "seed {seed}: {:?}", piece.decoded.stop);
                let begun = piece.decoded.transactions.iter().skip(usize::from(piece.decoded.piece.continues));
                gtids.extend(begun.map(|transaction| transaction.gtid));
                let _ = front.spare.try_send(piece.decoded.into());
            });
        }
        drop(front);
        threads.join();
        assert!(threads.fault().is_none(), "seed {seed}: {:?}", threads.fault());
        let written: Vec<_> = history.transactions.iter().map(|transaction| transaction.gtid).collect();
        assert_eq!(gtids, written, "seed {seed}");
    }
}

#[test]
fn a_front_half_nobody_takes_from_any_more_ends_its_threads() {
    let (history, mut random) = (History::generate(1), Random::new(1));
    let threads = Threads::new(ThreadAffinity::default());
    let front = start(quiet(chunks(history.files(), &mut random)), &mut random, &threads);
    assert!(matches!(front.pieces.recv_timeout(Duration::from_secs(60)), Received::Item(_)));
    drop(front);
    assert!(!threads.join().is_empty());
}
