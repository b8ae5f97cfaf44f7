//! Claim histories: the last transaction to claim each thing.
//!
//! In: the claims of each transaction, in log order. Out: the newest earlier transaction that conflicts with it.
//! Bounded: forgetting raises a floor below which no parent goes. Never here: a claim forgotten without raising the
//! floor.

use std::collections::HashMap;
use std::hash::{BuildHasherDefault, Hasher};

use super::claims::{Claims, Mode};

/// Largest configurable history, in claims (Sys_binlog_transaction_dependency_history_size).
pub const HISTORY_SIZE_MAX: usize = 1_000_000;

/// Identity hasher, since claims are hashes already.
#[derive(Default)]
pub(crate) struct AsIs(u64);

impl Hasher for AsIs {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for byte in bytes {
            self.0 = self.0.rotate_left(8) ^ u64::from(*byte);
        }
    }

    fn write_u64(&mut self, value: u64) {
        self.0 = value;
    }
}

type Map<V> = HashMap<u64, V, BuildHasherDefault<AsIs>>;

/// Mirrors MySQL's `Writeset_trx_dependency_tracker`.
pub(crate) struct StockHistory {
    size: usize,
    map: Map<u64>,
    floor: u64,
    clears: u64,
}

impl StockHistory {
    pub(super) fn new(size: usize, start: u64) -> StockHistory {
        StockHistory { size, map: Map::default(), floor: start, clears: 0 }
    }

    /// Forgets everything: no later writeset gives a parent below transaction `number`.
    pub(super) fn clear(&mut self, number: u64) {
        self.map.clear();
        self.floor = number;
        self.clears += 1;
    }

    pub(super) fn clears(&self) -> u64 {
        self.clears
    }

    /// Returns the parent, and whether the writeset was of no use
    /// (`Writeset_trx_dependency_tracker::get_dependency`).
    pub(super) fn step(&mut self, number: u64, claims: &Claims, commit_parent: u64) -> (u64, bool) {
        let written = || claims.values().iter().map(|(hash, _)| *hash);
        let count = claims.values().len();
        let lacking = claims.has_missing_keys();
        let usable = !claims.is_statement()
            && !claims.changes_foreign_parent()
            && !claims.has_unknown_values()
            // MySQL drops a transaction's collected rows at this size (Rpl_transaction_write_set_ctx).
            && count < self.size;
        let exceeds = self.map.len() + count > self.size;
        let mut parent = commit_parent;
        if usable {
            let mut last = self.floor;
            for hash in written() {
                if let Some(earlier) = self.map.get_mut(&hash) {
                    // An entry may be of an earlier slice of this transaction.
                    if *earlier < number {
                        last = last.max(*earlier);
                    }
                    *earlier = number;
                } else if !exceeds {
                    self.map.insert(hash, number);
                }
            }
            if !lacking {
                parent = last.min(commit_parent);
            }
        }
        if exceeds || !usable {
            self.clear(number);
        }
        (parent, !usable || lacking)
    }
}

/// The last claims of one thing, as transaction numbers.
#[derive(Clone, Copy, Default)]
struct Claimed {
    exclusive: u64,
    shared: u64,
    /// The last other transaction before `shared`, because a later slice of that one may claim the thing exclusively.
    shared_before: u64,
}

impl Claimed {
    /// Returns the newest transaction before `number` that a claim must wait for.
    fn blocks(&self, mode: Mode, number: u64) -> u64 {
        let before = |at: u64| if at < number { at } else { 0 };
        match mode {
            Mode::Shared => before(self.exclusive),
            Mode::Exclusive if self.shared == number => before(self.exclusive).max(self.shared_before),
            Mode::Exclusive => before(self.exclusive).max(self.shared),
        }
    }

    fn take(&mut self, mode: Mode, number: u64) {
        match mode {
            Mode::Exclusive => self.exclusive = number,
            Mode::Shared if self.shared == number => {}
            Mode::Shared => (self.shared_before, self.shared) = (self.shared, number),
        }
    }
}

/// Our history: shared and exclusive claims in two halves. When the newer half is full, the older one is forgotten.
pub(crate) struct OwnHistory {
    half: usize,
    newer: Map<Claimed>,
    older: Map<Claimed>,
    /// Last transaction with a claim in the older half.
    older_until: u64,
    /// Claims of transactions up to this one may be forgotten.
    floor: u64,
    halves: u64,
}

impl OwnHistory {
    pub(super) fn new(size: usize, start: u64) -> OwnHistory {
        OwnHistory {
            half: (size / 2).max(1),
            newer: Map::default(),
            older: Map::default(),
            older_until: start,
            floor: start,
            halves: 0,
        }
    }

    pub(super) fn halves(&self) -> u64 {
        self.halves
    }

    /// Returns the parent of transaction `number`, and remembers its claims.
    pub(super) fn step(&mut self, number: u64, claims: &Claims) -> u64 {
        let mut parent = 0;
        // Look everything up before anything is forgotten.
        for (hash, mode) in claims.all() {
            let found = self.newer.get(hash).or_else(|| self.older.get(hash));
            parent = parent.max(found.map_or(0, |claimed| claimed.blocks(*mode, number)));
        }
        parent = parent.max(self.floor);
        if self.newer.len() + claims.all().len() > self.half {
            self.turn_over(number);
        }
        for (hash, mode) in claims.all() {
            let older = self.older.get(hash).copied().unwrap_or_default();
            self.newer.entry(*hash).or_insert(older).take(*mode, number);
        }
        parent
    }

    /// Like `step`. A transaction with more claims than half the history waits for everything, and everything waits
    /// for it, so that its claims need not be kept.
    pub(super) fn step_bounded(&mut self, number: u64, claims: &Claims) -> u64 {
        if !self.exceeds(claims.all().len()) {
            return self.step(number, claims);
        }
        self.halves += 1;
        (self.newer, self.older) = (Map::default(), Map::default());
        (self.older_until, self.floor) = (number, number);
        number - 1
    }

    /// True if a transaction has so many claims that `step_bounded` makes it wait for everything.
    pub(super) fn exceeds(&self, claims: usize) -> bool {
        claims > self.half
    }

    /// Forgets the older half.
    fn turn_over(&mut self, number: u64) {
        if self.newer.is_empty() {
            return;
        }
        self.halves += 1;
        self.floor = self.older_until;
        self.older = std::mem::take(&mut self.newer);
        // This half may hold an earlier slice of the same transaction.
        self.older_until = number;
    }
}
