//! What each transaction must wait for, and which worker gets it.
//!
//! In: sequenced pieces in log order with what their events say. Out: [`Placed`]. Stepped by one thread. Never here: a wait.

use std::collections::HashMap;

use base::SequenceNumber;
use catalog::{Catalog, Identity};
use decode::trackers::{Extractor, Facts, Rules, Tracker, TrackerCounts, TrackerOptions};
use decode::{CASCADE_GONE, CASCADE_NEW, CASCADE_OLD, OpKind, SequencedPiece};

/// Images of rows without a key that are remembered; when there are more, all not remembered count as changed by the newest.
const KEYLESS_MAX: usize = 1 << 18;

const CASCADES: u8 = CASCADE_OLD | CASCADE_NEW | CASCADE_GONE;

/// A piece's place among the transactions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Placed {
    /// Its transaction's number.
    pub number: u64,
    /// Every transaction up to this one must be done before its rows are applied.
    pub last_committed: u64,
    /// Its events, those of a payload counted as one.
    pub events: u32,
    /// It begins its transaction: a slice that goes on does not.
    pub begins: bool,
    /// It ends its transaction.
    pub ends: bool,
}

/// What a decoder found out about a piece before it was in its place.
pub(crate) struct Found {
    pub facts: Facts,
    /// Under which catalog; None: the piece was not decoded.
    pub catalog_version: Option<u64>,
}

/// See the module.
pub struct Scheduler {
    tracker: Tracker,
    needs_claims: bool,
    extractor: Extractor,
    /// The source began a file, and no transaction came since.
    new_file: bool,
    /// The catalog behind the last piece.
    catalog: Catalog,
    /// Who changed the copies of a row without a key last, by the image's hash.
    keyless: HashMap<u64, u64>,
    keyless_floor: u64,
    keyless_raised: u64,
    /// The tracker claims the tables that unlogged cascades reach.
    claims_cascades: bool,
    /// The open transaction's worker.
    open: Option<usize>,
}

impl Scheduler {
    /// A scheduler behind transaction `start`, whose catalog is `catalog`.
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

    /// Takes the next piece of the log, which holds one transaction, a slice of one, or none (None then). `found` is what
    /// was found out about it where it was decoded; what is missing or was decoded again is found out here.
    pub(crate) fn place(&mut self, piece: &SequencedPiece, found: Option<Found>) -> Option<Placed> {
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

    fn place_facts(&mut self, piece: &SequencedPiece, mut facts: Facts) -> Option<Placed> {
        self.new_file |= facts.new_file;
        let last = piece.last()?.0;
        let continues = piece.decoded.piece.continues;
        if !continues {
            facts.new_file = std::mem::take(&mut self.new_file);
        }
        let stamp = if continues { self.tracker.go_on(&facts) } else { self.tracker.begin(&facts) };
        assert_eq!(stamp.sequence_number, last, "a piece of one transaction, in its place");
        let by_keyless = self.keyless_before(piece, last);
        if by_keyless > stamp.last_committed {
            self.keyless_raised += 1;
        }
        Some(Placed {
            number: last,
            last_committed: stamp.last_committed.max(by_keyless),
            events: facts.events,
            begins: !continues,
            ends: !piece.decoded.piece.unfinished,
        })
    }

    /// The last transaction that changed the copies of a row without a key that this one changes.
    fn keyless_before(&mut self, piece: &SequencedPiece, number: u64) -> u64 {
        let decoded = &piece.decoded;
        let ops = decoded.lanes.iter().flatten().chain(&decoded.barrier);
        if !self.claims_cascades && decoded.barrier.iter().any(|op| op.flags & CASCADES != 0) {
            // The rows that foreign keys change with it are in no log, and may be such rows.
            self.keyless.clear();
            self.keyless_floor = number;
            return number - 1;
        }
        if decoded.shapes.iter().all(|shape| shape.plan.def.identity != Identity::WholeImage) {
            return 0;
        }
        let mut before = 0;
        for op in ops {
            if !matches!(op.kind, OpKind::AddCopy | OpKind::RemoveCopy) {
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

    /// What the tracker met, and how many transactions of rows without a key were kept in order beyond it.
    #[must_use]
    pub fn counts(&self) -> (TrackerCounts, u64) {
        (self.tracker.counts(), self.keyless_raised)
    }

    /// The worker for a piece: that of the open transaction, else the first idle one, else the one with the fewest
    /// transactions; None where only an idle one will do. `busy`: transactions of each.
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
}
