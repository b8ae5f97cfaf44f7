//! Which transaction each one of a log must wait for, according to a tracker.
//!
//! In: files of a log. Out: pieces as sequenced, or a tracker's stamps. Never here: threads, a store.

use std::sync::Arc;

use base::{GtidSet, SequenceNumber};
use catalog::Catalog;
use decode::trackers::{Extractor, Facts, Rules, Stamp, Tracker, TrackerCounts, TrackerKind, TrackerOptions};
use decode::{
    DecodeOptions, DecodedPiece, Decoder, MemoryGate, SequencedPiece, Sequencer, SharedCatalog, SplitOptions, Splitter,
    Stop,
};

/// Every kind of tracker.
pub const KINDS: [TrackerKind; 5] = [
    TrackerKind::Source,
    TrackerKind::CommitOrder,
    TrackerKind::Writeset,
    TrackerKind::WritesetSession,
    TrackerKind::Database,
];

/// Calls `each` with every sequenced piece, a transaction in each, and the catalog before it. Returns why the log could
/// not be read to its end, if so. The pieces are for a tracker of these rules.
pub fn pieces(files: &[Vec<u8>], rules: Rules, mut each: impl FnMut(&SequencedPiece, &Catalog)) -> Option<Stop> {
    let for_stamps = rules == Rules::InnoDb;
    let options = DecodeOptions { lanes: 1, for_stamps, quarantine: for_stamps, ..DecodeOptions::default() };
    let catalog = Catalog::new(0);
    let shared = SharedCatalog::new(catalog.clone());
    let mut decoder = Decoder::new(options.clone());
    let mut sequencer = Sequencer::new(options, catalog, GtidSet::new(), SequenceNumber::ZERO);
    let sizes = SplitOptions { piece_bytes: 1, slice_bytes: usize::MAX };
    let mut splitter = Splitter::with_options(MemoryGate::new(1 << 30), sizes);
    for (number, bytes) in files.iter().enumerate() {
        let mut split = Vec::new();
        let name: Arc<str> = format!("log.{number:06}").into();
        let done = splitter
            .step(&name, 4, &Arc::new(bytes.clone().into()), false, &mut |piece| {
                split.push(piece);
                true
            })
            .and_then(|()| splitter.end_of_file());
        for piece in split {
            let (catalog, version) = shared.get(piece.epoch).unwrap();
            let decoded: DecodedPiece = decoder.decode(piece, &catalog, version);
            let before = sequencer.catalog().clone();
            let mut stop = None;
            sequencer.step(decoded, &shared, |sequenced| {
                each(&sequenced, &before);
                stop.clone_from(&sequenced.decoded.stop);
            });
            if stop.is_some() {
                return stop;
            }
        }
        if let Err(stop) = done {
            return Some(*stop);
        }
    }
    None
}

/// Returns the stamps of all transactions; `tamper` may change the tracker's input.
pub fn stamps(
    files: &[Vec<u8>],
    options: TrackerOptions,
    mut tamper: impl FnMut(&mut Facts),
) -> (Vec<Stamp>, TrackerCounts) {
    let mut tracker = Tracker::new(options, SequenceNumber::ZERO);
    let mut extractor = Extractor::new(options.rules);
    let mut stamps: Vec<Stamp> = Vec::new();
    let mut new_file = false;
    let stopped = pieces(files, options.rules, |piece, before| {
        let after = piece.catalogs.last().map(|(_, catalog)| catalog);
        let mut facts = Facts::with_claims(&piece.decoded, &mut extractor, before, after);
        new_file |= facts.new_file;
        if piece.decoded.transactions.is_empty() {
            return;
        }
        facts.new_file = std::mem::take(&mut new_file);
        tamper(&mut facts);
        let stamp = tracker.begin(&facts);
        assert_eq!(stamp.sequence_number, piece.first.0);
        assert!(stamp.last_committed < stamp.sequence_number, "{stamp:?}");
        stamps.push(stamp);
    });
    assert!(stopped.is_none(), "{stopped:?}");
    (stamps, tracker.counts())
}
