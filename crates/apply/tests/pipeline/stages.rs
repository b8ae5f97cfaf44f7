//! Split, decode and sequence, stepped in one thread, find the same transactions however the log is cut into chunks.

use std::sync::Arc;

use base::{Gtid, Random};
use catalog::Catalog;
use decode::{
    DecodeOptions, Decoder, MemoryGate, Piece, PieceKind, Sequencer, SharedCatalog, SkipReason, SplitOptions, Splitter,
    Stop,
};
use testkit::history::{Flavour, History};
use testkit::seeds;

/// A transaction as sequenced, with its slices joined.
#[derive(Debug, PartialEq, Eq, Clone)]
struct Seen {
    sequence: u64,
    gtid: Option<Gtid>,
    skipped: Option<SkipReason>,
    rows: u64,
    bytes: Vec<u8>,
}

struct Stepped {
    transactions: Vec<Seen>,
    pieces: usize,
    largest: usize,
    /// Bytes handed on, per file.
    bytes: Vec<Vec<u8>>,
}

fn step(files: &[(String, Vec<u8>)], sizes: SplitOptions, mut cut: impl FnMut() -> usize) -> Stepped {
    let shared = SharedCatalog::new(Catalog::new(0));
    let options = DecodeOptions { lanes: 4, ..DecodeOptions::default() };
    let mut splitter = Splitter::with_options(MemoryGate::new(1 << 40), sizes);
    let mut decoder = Decoder::new(options.clone());
    let mut sequencer = Sequencer::new(options, Catalog::new(0), base::GtidSet::new(), base::SequenceNumber::ZERO);
    let mut out = Stepped { transactions: Vec::new(), pieces: 0, largest: 0, bytes: Vec::new() };
    for (name, bytes) in files {
        let name: Arc<str> = name.as_str().into();
        let mut handed_on = Vec::new();
        let mut at = 0;
        while at < bytes.len() {
            let len = cut().clamp(1, bytes.len() - at);
            let data = Arc::new(bytes[at..at + len].to_vec().into());
            let mut pieces: Vec<Piece> = Vec::new();
            let mut emit = |piece| {
                pieces.push(piece);
                true
            };
            splitter.step(&name, 4 + at as u64, &data, false, &mut emit).unwrap();
            at += len;
            for piece in pieces {
                assert_eq!(piece.offset, 4 + handed_on.len() as u64, "a piece is not where it says");
                assert!(!piece.continues || piece.begun.gtid.is_some());
                handed_on.extend_from_slice(piece.bytes());
                out.pieces += 1;
                out.largest = out.largest.max(piece.bytes().len());
                let epoch = if piece.kind == PieceKind::Serial { 0 } else { piece.epoch };
                let (catalog, version) = shared.wait(epoch).unwrap();
                let decoded = decoder.decode(piece, &catalog, version);
                let mut emitted = 0;
                sequencer.step(decoded, &shared, |sequenced| {
                    emitted += 1;
                    take(&sequenced, &mut out.transactions);
                });
                assert_eq!(emitted, 1);
            }
        }
        splitter.end_of_file().unwrap();
        out.bytes.push(handed_on);
    }
    out
}

fn take(sequenced: &decode::SequencedPiece, out: &mut Vec<Seen>) {
    let decoded = &sequenced.decoded;
    assert!(decoded.stop.is_none(), "{:?}", decoded.stop);
    for (index, transaction) in decoded.transactions.iter().enumerate() {
        let sequence = sequenced.sequence_of(index as u32).0;
        let bytes = &decoded.piece.data[transaction.start..transaction.end];
        match out.last_mut() {
            Some(open) if index == 0 && decoded.piece.continues => {
                assert_eq!((open.sequence, open.gtid, open.skipped), (sequence, transaction.gtid, transaction.skipped));
                open.rows += u64::from(transaction.rows);
                open.bytes.extend_from_slice(bytes);
            }
            _ => out.push(Seen {
                sequence,
                gtid: transaction.gtid,
                skipped: transaction.skipped,
                rows: transaction.rows.into(),
                bytes: bytes.to_vec(),
            }),
        }
    }
}

#[test]
fn the_same_transactions_whatever_the_chunks() {
    for seed in seeds(20) {
        let history = History::generate(seed);
        let files = history.files();
        let whole = step(&files, SplitOptions::default(), || usize::MAX);
        assert_eq!(whole.transactions.len(), history.transactions.len(), "seed {seed}");
        for (n, (seen, written)) in whole.transactions.iter().zip(&history.transactions).enumerate() {
            assert_eq!(seen.sequence, n as u64 + 1, "seed {seed}");
            assert_eq!(seen.gtid, written.gtid, "seed {seed}");
            let expected = written.duplicate.then_some(SkipReason::AlreadyExecuted);
            assert_eq!(seen.skipped, expected, "seed {seed}, transaction {n}");
        }
        let mut random = Random::new(seed);
        let small = SplitOptions { piece_bytes: 1_000, slice_bytes: 600 };
        for most in [1, 3, 50, 1_000, 100_000] {
            let sizes = if random.one_in(2) { small } else { SplitOptions::default() };
            let other = step(&files, sizes, || 1 + random.below(most));
            for (file, (name, bytes)) in files.iter().enumerate() {
                assert!(other.bytes[file] == *bytes, "seed {seed}, chunks to {most}: bytes of {name} changed");
            }
            assert!(other.transactions == whole.transactions, "seed {seed}, chunks to {most}, {sizes:?}");
        }
    }
}

#[test]
fn a_huge_transaction_travels_in_slices() {
    let flavour = Flavour { transactions: 40, ddl: true, huge: true, ..Flavour::PLAIN };
    let files = History::with(Random::new(3), flavour).files();
    let sizes = SplitOptions { piece_bytes: 500, slice_bytes: 1_000 };
    let stepped = step(&files, sizes, || 777);
    let whole = step(&files, SplitOptions::default(), || 777);
    assert!(stepped.transactions == whole.transactions);
    let longest = whole.transactions.iter().map(|t| t.bytes.len()).max().unwrap();
    assert!(longest > 10_000, "{longest}");
    assert!(stepped.largest < 1_000 + 8_000, "a slice of {}", stepped.largest);
}

fn feed(splitter: &mut Splitter, at: u64, bytes: &[u8]) -> Result<Vec<u8>, Box<Stop>> {
    let mut out = Vec::new();
    let data = Arc::new(bytes.to_vec().into());
    let mut emit = |piece: Piece| {
        out.extend_from_slice(piece.bytes());
        true
    };
    splitter.step(&Arc::from("f"), at, &data, true, &mut emit)?;
    Ok(out)
}

#[test]
fn a_gap_between_chunks_is_a_fault() {
    let history = History::generate(1);
    let (_, bytes) = &history.files()[0];
    let mut splitter = Splitter::new(MemoryGate::new(1 << 30));
    feed(&mut splitter, 4, &bytes[..100]).unwrap();
    assert!(feed(&mut splitter, 105, &bytes[101..200]).is_err());
    let mut splitter = Splitter::new(MemoryGate::new(1 << 30));
    feed(&mut splitter, 4, &bytes[..bytes.len() / 2]).unwrap();
    assert!(splitter.end_of_file().is_err() || feed(&mut splitter, 4, &bytes[..9]).is_ok());
}

/// Whole transactions before an unreadable event were once lost with it.
#[test]
fn what_stands_before_a_broken_event_is_handed_on() {
    let history = History::generate(2);
    let (_, mut bytes) = history.files().remove(0);
    let mut gtid_events = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        let header = binlog::EventHeader::parse(&bytes[at..]).unwrap();
        if matches!(header.event_type, 33 | 42) {
            gtid_events.push(at);
        }
        at += header.event_len as usize;
    }
    let broken = gtid_events[gtid_events.len() - 1];
    // A length smaller than the header.
    bytes[broken + 9..broken + 13].copy_from_slice(&5u32.to_le_bytes());
    for chunk in [bytes.len(), 1_000, 10] {
        let mut splitter = Splitter::new(MemoryGate::new(1 << 30));
        let mut out = Vec::new();
        let mut stop = None;
        for (number, part) in bytes.chunks(chunk).enumerate() {
            let data = Arc::new(part.to_vec().into());
            let mut emit = |piece: Piece| {
                out.extend_from_slice(piece.bytes());
                true
            };
            if let Err(found) = splitter.step(&Arc::from("f"), 4 + (number * chunk) as u64, &data, true, &mut emit) {
                stop = Some(found);
                break;
            }
        }
        assert_eq!(stop.unwrap().position.offset, 4 + broken as u64);
        assert!(out == bytes[..broken], "chunks of {chunk}: {} of {broken} bytes", out.len());
    }
}
