//! Split, decode, sequence over one log in one thread: the result of every transaction.

use std::sync::Arc;

use base::GtidSet;
use catalog::Catalog;
use decode::{
    DecodeOptions, Decoder, MemoryGate, RowOp, SequencedPiece, Sequencer, SharedCatalog, SkipList, SplitOptions,
    Splitter,
};

/// Everything that must not depend on how the log was cut into chunks.
#[derive(Debug, Default, PartialEq, Eq)]
pub struct Replayed {
    /// Transactions in order, with their changes.
    pub transactions: Vec<Replay>,
    /// Where and why it stopped.
    pub stop: Option<String>,
}

/// One transaction.
#[derive(Debug, PartialEq, Eq)]
pub struct Replay {
    /// Number, GTID, kind, whether it was left out.
    pub head: String,
    /// Number of rows.
    pub rows: u64,
    /// Each change with its key's hash, in log order for each key. Whether a lane applies a change or it waits for all
    /// lanes depends on the piece: after a change that involves several lanes, the rest of the piece waits.
    pub changes: Vec<(u64, String)>,
}

/// Replays `log`, given in chunks of `chunk_len` bytes.
pub fn replay(log: &[u8], chunk_len: usize, split: SplitOptions, catalog: &Catalog) -> Replayed {
    let options = DecodeOptions { lanes: 2, skip: SkipList::new(GtidSet::new()), ..DecodeOptions::default() };
    let mut splitter = Splitter::with_options(MemoryGate::new(u64::MAX), split);
    let mut decoder = Decoder::new(options.clone());
    let mut sequencer = Sequencer::new(options, catalog.clone(), GtidSet::new(), base::SequenceNumber::ZERO);
    let shared = SharedCatalog::new(catalog.clone());
    let file = Arc::from("relay-bin.000001");
    let mut offset = 4;
    let mut replayed = Replayed::default();
    for bytes in log.chunks(chunk_len.max(1)) {
        let mut pieces = Vec::new();
        let split = splitter.step(&file, offset, &Arc::new(bytes.to_vec().into()), true, &mut |piece| {
            pieces.push(piece);
            true
        });
        offset += bytes.len() as u64;
        for piece in pieces {
            let Some((catalog, version)) = shared.wait(piece.epoch) else { break };
            let decoded = decoder.decode(piece, &catalog, version);
            sequencer.step(decoded, &shared, |sequenced| replayed.take(&sequenced));
            if replayed.stop.is_some() {
                return replayed;
            }
        }
        if let Err(stop) = split {
            replayed.stop = Some(format!("{stop:?}"));
            return replayed;
        }
    }
    assert_eq!(sequencer.waiting(), 0, "all pieces came in order");
    replayed.stop = splitter.end_of_file().err().map(|stop| format!("{stop:?}"));
    replayed
}

impl Replayed {
    fn take(&mut self, sequenced: &SequencedPiece) {
        let decoded = &sequenced.decoded;
        // The first transaction of a slice is the last one so far.
        let goes_on = decoded.piece.continues && !decoded.transactions.is_empty();
        let first = self.transactions.len() - usize::from(goes_on);
        for (index, transaction) in decoded.transactions.iter().enumerate() {
            let number = sequenced.sequence_of(index as u32);
            let head = format!("{number:?} {:?} {:?} {:?}", transaction.gtid, transaction.kind, transaction.skipped);
            let rows = u64::from(transaction.rows);
            match self.transactions.get_mut(first + index) {
                Some(begun) => (begun.head, begun.rows) = (head, begun.rows + rows),
                None => self.transactions.push(Replay { head, rows, changes: Vec::new() }),
            }
        }
        for op in decoded.lanes.iter().flatten().chain(&decoded.barrier) {
            let RowOp { hash, kind, shape, .. } = *op;
            let [key, before, after] = [op.key, op.before, op.after].map(|span| decoded.bytes(span));
            let table = decoded.shapes.get(shape as usize).map(|shape| shape.plan.def.full_name());
            let change = format!("{hash} {kind:?} {table:?} {key:?} {before:?} {after:?}");
            let transaction = self.transactions.get_mut(first + op.transaction as usize);
            transaction.expect("a change of a transaction").changes.push((hash, change));
        }
        for transaction in self.transactions.iter_mut().skip(first) {
            transaction.changes.sort_by_key(|(hash, _)| *hash);
        }
        self.stop = decoded.stop.as_ref().map(|stop| format!("{stop:?}"));
    }
}
