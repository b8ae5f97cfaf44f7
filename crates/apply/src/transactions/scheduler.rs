//! Scheduling: what each transaction must wait for, and which worker gets it.
//!
//! In: sequenced pieces in log order, with facts from their events. Out: [`Placed`]. Stepped by one thread. Never
//! here: a wait.

use std::collections::HashMap;

use base::SequenceNumber;
use catalog::{Catalog, Identity};
use decode::trackers::{Extractor, Facts, Rules, Tracker, TrackerCounts, TrackerOptions};
use decode::{CASCADE_GONE, CASCADE_NEW, CASCADE_OLD, OpKind, SequencedPiece};

/// Limit of remembered images of rows without a key. Beyond it, all forgotten ones count as changed by the newest
/// transaction.
const KEYLESS_MAX: usize = 1 << 18;

const CASCADES: u8 = CASCADE_OLD | CASCADE_NEW | CASCADE_GONE;

/// A piece's place among the transactions, and its dependency.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Placed {
    /// Sequence number of its transaction.
    pub number: u64,
    /// Sequence number up to which every transaction must be done before its rows are applied.
    pub last_committed: u64,
    /// Number of events; a payload counts as one.
    pub events: u32,
    /// True if its transaction begins with it; false for a later slice.
    pub begins: bool,
    /// True if its transaction ends with it.
    pub ends: bool,
}

/// The tracker's facts about a piece, found by a decoder before the piece was sequenced.
pub(crate) struct EarlyFacts {
    pub facts: Facts,
    /// Version of the catalog used; None if the piece was not decoded.
    pub catalog_version: Option<u64>,
}

/// Determines dependencies and chooses workers.
pub struct Scheduler {
    tracker: Tracker,
    needs_claims: bool,
    extractor: Extractor,
    /// True if the source began a file and no transaction followed yet.
    new_file: bool,
    /// Catalog after the last piece.
    catalog: Catalog,
    /// Last transaction that changed the copies of a row without a key, by the image's hash.
    keyless: HashMap<u64, u64>,
    keyless_floor: u64,
    keyless_raised: u64,
    /// True if the tracker claims the tables that unlogged cascades reach.
    claims_cascades: bool,
    /// Worker of the open transaction.
    open: Option<usize>,
}

impl Scheduler {
    /// Creates a scheduler that continues after transaction `start`, whose catalog is `catalog`.
    #[must_use]
    pub fn new(options: TrackerOptions, start: SequenceNumber, catalog: Catalog) -> Scheduler {
        Scheduler {
            tracker: Tracker::new(options, start),
            needs_claims: options.kind.needs_claims(),
            extractor: Extractor::default(),
            new_file: false,
            catalog,
            keyless: HashMap::new(),
            keyless_floor: start.0,
            keyless_raised: 0,
            claims_cascades: options.kind.has_history() && options.rules == Rules::Own,
            open: None,
        }
    }

    /// Places the next piece of the log, which holds one transaction or a slice of one; None if it holds neither.
    /// `found` has the decoder's facts; facts that are missing, or from another catalog version, are computed here.
    ///
    /// # Errors
    /// A defect: the piece is not of the transaction that comes next.
    pub(crate) fn place(
        &mut self,
        piece: &SequencedPiece,
        found: Option<EarlyFacts>,
    ) -> Result<Option<Placed>, String> {
        let decoded = &piece.decoded;
        let facts = match found {
            Some(found) if found.catalog_version == Some(decoded.catalog_version) => found.facts,
            _ if self.needs_claims => {
                let after = piece.catalogs.last().map(|(_, catalog)| catalog);
                Facts::with_claims(decoded, &mut self.extractor, &self.catalog, after)
            }
            _ => Facts::of(decoded),
        };
        if let Some((_, catalog)) = piece.catalogs.last() {
            self.catalog = catalog.clone();
        }
        self.place_facts(piece, facts)
    }

    fn place_facts(&mut self, piece: &SequencedPiece, mut facts: Facts) -> Result<Option<Placed>, String> {
        self.new_file |= facts.new_file;
        let Some(SequenceNumber(last)) = piece.last() else { return Ok(None) };
        let continues = piece.decoded.piece.continues;
        if !continues {
            facts.new_file = std::mem::take(&mut self.new_file);
        }
        let stamp = if continues { self.tracker.go_on(&facts) } else { self.tracker.begin(&facts) };
        if stamp.sequence_number != last {
            return Err(format!("transaction {last} is scheduled in the place of {}", stamp.sequence_number));
        }
        let by_keyless = self.keyless_before(piece, last);
        if by_keyless > stamp.last_committed {
            self.keyless_raised += 1;
        }
        Ok(Some(Placed {
            number: last,
            last_committed: stamp.last_committed.max(by_keyless),
            events: facts.events,
            begins: !continues,
            ends: !piece.decoded.piece.unfinished,
        }))
    }

    /// Returns the last transaction that changed a row without a key that this one changes too; 0 if none.
    fn keyless_before(&mut self, piece: &SequencedPiece, number: u64) -> u64 {
        let decoded = &piece.decoded;
        let ops = decoded.lanes.iter().flatten().chain(&decoded.barrier);
        if !self.claims_cascades && decoded.barrier.iter().any(|op| op.flags & CASCADES != 0) {
            // Foreign keys change rows that are not in the log, possibly rows without a key, so wait for everything
            // earlier.
            self.keyless.clear();
            self.keyless_floor = number;
            return number - 1;
        }
        if decoded.shapes.iter().all(|shape| shape.plan.def.identity != Identity::WholeImage) {
            return 0;
        }
        let mut before = 0;
        for op in ops {
            if !matches!(op.kind, OpKind::AddOne | OpKind::RemoveOne) {
                continue;
            }
            if self.keyless.len() >= KEYLESS_MAX && !self.keyless.contains_key(&op.hash) {
                self.keyless.clear();
                self.keyless_floor = number - 1;
            }
            let earlier = self.keyless.insert(op.hash, number).unwrap_or(self.keyless_floor);
            if earlier < number {
                before = before.max(earlier);
            }
        }
        before
    }

    /// Returns the tracker's counters, and the number of transactions held back only for rows without a key.
    #[must_use]
    pub fn counts(&self) -> (TrackerCounts, u64) {
        (self.tracker.counts(), self.keyless_raised)
    }

    /// Chooses the worker for a piece: that of the open transaction, else the first idle one, else the one with the
    /// fewest transactions; None if only an idle one will do and there is none. `busy` yields each worker's number of
    /// transactions.
    pub fn choose(&mut self, placed: &Placed, busy: impl Iterator<Item = usize>, only_idle: bool) -> Option<usize> {
        let chosen = match self.open {
            Some(open) if !placed.begins => Some(open),
            _ => {
                let least = busy.enumerate().min_by_key(|(_, busy)| *busy);
                least.filter(|(_, busy)| !only_idle || *busy == 0).map(|(at, _)| at)
            }
        };
        if chosen.is_some() {
            self.open = chosen.filter(|_| !placed.ends);
        }
        chosen
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slices_of_a_transaction_go_to_one_worker_and_others_to_the_least_busy() {
        let mut scheduler = Scheduler::new(TrackerOptions::default(), SequenceNumber::ZERO, Catalog::new(0));
        let placed = |begins, ends| Placed { number: 1, last_committed: 0, events: 1, begins, ends };
        let mut choose =
            |busy: &[usize], begins, ends, idle| scheduler.choose(&placed(begins, ends), busy.iter().copied(), idle);
        assert_eq!(choose(&[1, 0, 0], true, true, true), Some(1), "the first idle one");
        assert_eq!(choose(&[1, 3, 2], true, true, true), None);
        assert_eq!(choose(&[2, 3, 1], true, false, false), Some(2));
        assert_eq!(choose(&[0, 0, 9], false, false, false), Some(2));
        assert_eq!(choose(&[0, 0, 9], false, true, true), Some(2));
        assert_eq!(choose(&[0, 0, 9], true, true, false), Some(0));
    }

    #[test]
    fn a_piece_is_of_the_transaction_that_comes_next() {
        let mut scheduler = Scheduler::new(TrackerOptions::default(), SequenceNumber(6), Catalog::new(0));
        let piece = |number| {
            let mut decoded = decode::DecodedPiece::empty(1);
            decoded.transactions.push(decode::Transaction {
                gtid: None,
                commit_us: 0,
                start: 0,
                end: 0,
                rows: 0,
                kind: decode::TransactionKind::Rows,
                skipped: None,
            });
            SequencedPiece {
                decoded,
                first: SequenceNumber(number),
                catalogs: Vec::new(),
                dropped: Vec::new(),
                altered: Vec::new(),
                rewrites: Vec::new(),
                prepared: base::PreparedSet::default(),
            }
        };
        assert_eq!(scheduler.place(&piece(7), None).map(|placed| placed.map(|placed| placed.number)), Ok(Some(7)));
        let error = scheduler.place(&piece(9), None).unwrap_err();
        assert_eq!(error, "transaction 9 is scheduled in the place of 8");
    }
}
