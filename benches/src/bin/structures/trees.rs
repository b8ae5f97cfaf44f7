//! Maps that keep keys in order, one per table.

use std::collections::BTreeMap;
use std::ops::Bound::{Included, Unbounded};
use std::sync::atomic::{AtomicU64, Ordering};

use blart::TreeMap;
use crossbeam_skiplist::SkipMap;
use stage_benches::pass::changes::{Change, Changes};

use crate::{Fold, Structure, reference};

/// The standard library's B-tree, with each key in a block of its own.
pub(crate) struct BoxedBTree<'c> {
    changes: &'c Changes,
    key: Vec<u8>,
    tables: Vec<BTreeMap<Box<[u8]>, u64>>,
}

impl<'c> Structure<'c> for BoxedBTree<'c> {
    fn new(changes: &'c Changes) -> Self {
        BoxedBTree { changes, key: Vec::new(), tables: changes.tables.iter().map(|_| BTreeMap::new()).collect() }
    }

    fn change(&mut self, number: usize) {
        let change = &self.changes.list[number];
        self.changes.make_key(change, &mut self.key);
        let (table, key) = (&mut self.tables[usize::from(change.table)], self.key.as_slice());
        match table.get_mut(key) {
            Some(newest) => *newest = reference(change, number),
            None => drop(table.insert(key.into(), reference(change, number))),
        }
    }

    fn get(&mut self, number: usize) -> Option<u64> {
        let change = &self.changes.list[number];
        self.changes.make_key(change, &mut self.key);
        self.tables[usize::from(change.table)].get(self.key.as_slice()).copied()
    }

    fn range(&mut self, number: usize, fold: &mut Fold) {
        let change = &self.changes.list[number];
        let range = (Included(self.changes.key(change)), Unbounded);
        for (_, newest) in self.tables[usize::from(change.table)].range::<[u8], _>(range) {
            if !fold.take(*newest) {
                return;
            }
        }
    }
}

/// A key in an arena: the first bytes beside the pointer to all of it nearly always decide.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct ArenaKey<'c> {
    head: u128,
    all: &'c [u8],
}

impl<'c> ArenaKey<'c> {
    fn new(all: &'c [u8]) -> ArenaKey<'c> {
        let mut head = [0; 16];
        let len = all.len().min(16);
        head[..len].copy_from_slice(&all[..len]);
        ArenaKey { head: u128::from_be_bytes(head), all }
    }
}

/// The same B-tree over keys in an arena, one for each table and lane: a lane's rows have one writer.
pub(crate) struct ArenaBTree<'c, const LANES: usize> {
    changes: &'c Changes,
    key: Vec<u8>,
    tables: Vec<BTreeMap<ArenaKey<'c>, u64>>,
}

impl<const LANES: usize> ArenaBTree<'_, LANES> {
    fn place_of(change: &Change) -> usize {
        usize::from(change.table) * LANES + base::lane_of(change.hash, LANES)
    }
}

impl<'c, const LANES: usize> Structure<'c> for ArenaBTree<'c, LANES> {
    fn new(changes: &'c Changes) -> Self {
        let tables = (0..changes.tables.len() * LANES).map(|_| BTreeMap::new()).collect();
        ArenaBTree { changes, key: Vec::new(), tables }
    }

    fn change(&mut self, number: usize) {
        let change = &self.changes.list[number];
        // As if it were appended to the arena, where it already is.
        self.changes.make_key(change, std::hint::black_box(&mut self.key));
        let key = ArenaKey::new(self.changes.key(change));
        *self.tables[Self::place_of(change)].entry(key).or_default() = reference(change, number);
    }

    fn get(&mut self, number: usize) -> Option<u64> {
        let change = &self.changes.list[number];
        self.changes.make_key(change, &mut self.key);
        // A look-up does not know the lane yet; with only one lane, no hash is computed.
        let lane = if LANES == 1 {
            0
        } else {
            let id = self.changes.tables[usize::from(change.table)].id.0;
            base::lane_of(base::key_hash(id, self.changes.stored_key(change)), LANES)
        };
        self.tables[usize::from(change.table) * LANES + lane].get(&ArenaKey::new(&self.key)).copied()
    }

    fn range(&mut self, number: usize, fold: &mut Fold) {
        let change = &self.changes.list[number];
        let from = ArenaKey::new(self.changes.key(change));
        let lanes = &self.tables[usize::from(change.table) * LANES..][..LANES];
        if let [one] = lanes {
            for (_, newest) in one.range(from..) {
                if !fold.take(*newest) {
                    return;
                }
            }
            return;
        }
        let mut lanes: Vec<_> = lanes.iter().map(|lane| lane.range(from..).peekable()).collect();
        loop {
            let mut first: Option<(usize, ArenaKey<'_>)> = None;
            for (at, lane) in lanes.iter_mut().enumerate() {
                if let Some((key, _)) = lane.peek()
                    && first.is_none_or(|(_, than)| **key < than)
                {
                    first = Some((at, **key));
                }
            }
            let next = first.and_then(|(at, _)| lanes.get_mut(at)?.next());
            if !next.is_some_and(|(_, newest)| fold.take(*newest)) {
                return;
            }
        }
    }
}

/// An adaptive radix tree (`blart`): keys of any length, ranges, a `BTreeMap`'s interface. `rart` takes keys of fixed
/// arrays, `congee` of 8 bytes only, `art-tree` is long unmaintained.
pub(crate) struct RadixTree<'c> {
    changes: &'c Changes,
    key: Vec<u8>,
    tables: Vec<TreeMap<Box<[u8]>, u64>>,
}

impl<'c> Structure<'c> for RadixTree<'c> {
    fn new(changes: &'c Changes) -> Self {
        RadixTree { changes, key: Vec::new(), tables: changes.tables.iter().map(|_| TreeMap::new()).collect() }
    }

    fn change(&mut self, number: usize) {
        let change = &self.changes.list[number];
        self.changes.make_key(change, &mut self.key);
        let (table, key) = (&mut self.tables[usize::from(change.table)], self.key.as_slice());
        match table.get_mut(key) {
            Some(newest) => *newest = reference(change, number),
            None => {
                let inserted = table.try_insert(key.into(), reference(change, number));
                assert!(inserted.is_ok(), "a key that another one begins with");
            }
        }
    }

    fn get(&mut self, number: usize) -> Option<u64> {
        let change = &self.changes.list[number];
        self.changes.make_key(change, &mut self.key);
        self.tables[usize::from(change.table)].get(self.key.as_slice()).copied()
    }

    fn range(&mut self, number: usize, fold: &mut Fold) {
        let change = &self.changes.list[number];
        let range = (Included(self.changes.key(change)), Unbounded);
        for (_, newest) in self.tables[usize::from(change.table)].range::<[u8], _>(range) {
            if !fold.take(*newest) {
                return;
            }
        }
    }
}

/// A skip list that many threads may change at once (`crossbeam-skiplist`), the usual structure of memtables.
pub(crate) struct SkipList<'c> {
    changes: &'c Changes,
    key: Vec<u8>,
    tables: Vec<SkipMap<Box<[u8]>, AtomicU64>>,
}

impl<'c> Structure<'c> for SkipList<'c> {
    fn new(changes: &'c Changes) -> Self {
        SkipList { changes, key: Vec::new(), tables: changes.tables.iter().map(|_| SkipMap::new()).collect() }
    }

    fn change(&mut self, number: usize) {
        let change = &self.changes.list[number];
        self.changes.make_key(change, &mut self.key);
        let (table, key) = (&self.tables[usize::from(change.table)], self.key.as_slice());
        match table.get(key) {
            Some(entry) => entry.value().store(reference(change, number), Ordering::Release),
            None => drop(table.insert(key.into(), reference(change, number).into())),
        }
    }

    fn get(&mut self, number: usize) -> Option<u64> {
        let change = &self.changes.list[number];
        self.changes.make_key(change, &mut self.key);
        let entry = self.tables[usize::from(change.table)].get(self.key.as_slice());
        entry.map(|entry| entry.value().load(Ordering::Acquire))
    }

    fn range(&mut self, number: usize, fold: &mut Fold) {
        let change = &self.changes.list[number];
        let key = self.changes.key(change);
        for entry in self.tables[usize::from(change.table)].range::<[u8], _>((Included(key), Unbounded)) {
            if !fold.take(entry.value().load(Ordering::Acquire)) {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_in_an_arena_are_in_the_order_of_their_bytes() {
        let keys: [&[u8]; 6] = [b"", b"\0", b"a", b"a\0", b"abcdefghijklmnopq", b"abcdefghijklmnopr"];
        assert!(keys.map(ArenaKey::new).is_sorted());
    }
}
