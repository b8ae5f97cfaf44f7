//! The store's structure: a hash table over appended records, and slices that are sorted when a reader asks.

use std::sync::Arc;

use hashbrown::HashTable;
use stage_benches::pass::changes::Changes;

use crate::{Fold, Structure, number_of, reference, stored_key};

/// A row.
#[derive(Clone, Copy)]
struct Slot {
    hash: u64,
    newest: u64,
}

/// An entry of a slice, as in `store`.
#[derive(Clone, Copy)]
struct Entry {
    head: u64,
    key_at: u32,
    key_len: u32,
    slot: u32,
    _lane: u32,
}

#[derive(Default)]
struct Slice {
    keys: Vec<u8>,
    entries: Vec<Entry>,
}

/// A table: `store`'s `LaneTable` and `Order` without versions, lanes and images.
#[derive(Default)]
struct Table {
    index: HashTable<u32>,
    slots: Vec<Slot>,
    /// Appended records: the slot of each, and whether it is its row's first.
    records: Vec<(u32, bool)>,
    caught_up: usize,
    slices: Vec<Arc<Slice>>,
}

/// One such table per table of the log. With `WARMED`, the data for 16 changes is brought into the cache together, as
/// lanes do.
pub(crate) struct HashAndSlices<'c, const WARMED: bool> {
    changes: &'c Changes,
    tables: Vec<Table>,
}

fn head_of(key: &[u8]) -> u64 {
    let mut head = [0; 8];
    let len = key.len().min(8);
    head[..len].copy_from_slice(&key[..len]);
    u64::from_be_bytes(head)
}

impl Slice {
    fn key_of(&self, entry: &Entry) -> &[u8] {
        &self.keys[entry.key_at as usize..][..entry.key_len as usize]
    }

    fn push(&mut self, key: &[u8], slot: u32) {
        let key_at = self.keys.len() as u32;
        self.keys.extend_from_slice(key);
        self.entries.push(Entry { head: head_of(key), key_at, key_len: key.len() as u32, slot, _lane: 0 });
    }

    fn sort(&mut self) {
        let mut entries = std::mem::take(&mut self.entries);
        entries.sort_unstable_by(|left, right| {
            left.head.cmp(&right.head).then_with(|| self.key_of(left).cmp(self.key_of(right)))
        });
        self.entries = entries;
    }

    fn below(&self, key: &[u8]) -> usize {
        let head = head_of(key);
        self.entries.partition_point(|entry| entry.head < head || entry.head == head && self.key_of(entry) < key)
    }

    fn merge(left: &Slice, right: &Slice) -> Slice {
        let mut merged = Slice {
            keys: Vec::with_capacity(left.keys.len() + right.keys.len()),
            entries: Vec::with_capacity(left.entries.len() + right.entries.len()),
        };
        let (mut a, mut b) = (0, 0);
        loop {
            let first = match (left.entries.get(a), right.entries.get(b)) {
                (None, None) => return merged,
                (Some(_), None) => true,
                (None, Some(_)) => false,
                (Some(one), Some(other)) => {
                    one.head.cmp(&other.head).then_with(|| left.key_of(one).cmp(right.key_of(other))).is_le()
                }
            };
            let (from, at) = if first { (left, &mut a) } else { (right, &mut b) };
            let entry = &from.entries[*at];
            merged.push(from.key_of(entry), entry.slot);
            *at += 1;
        }
    }
}

impl Table {
    fn catch_up(&mut self, changes: &Changes) {
        let (mut fresh, mut key) = (Slice::default(), Vec::new());
        for (slot, is_first) in &self.records[self.caught_up..] {
            if *is_first {
                let newest = &changes.list[number_of(self.slots[*slot as usize].newest)];
                changes.make_key(newest, &mut key);
                fresh.push(&key, *slot);
            }
        }
        self.caught_up = self.records.len();
        if fresh.entries.is_empty() {
            return;
        }
        fresh.sort();
        self.slices.push(Arc::new(fresh));
        while let [.., left, right] = self.slices.as_slice()
            && left.entries.len() <= 2 * right.entries.len()
        {
            let merged = Arc::new(Slice::merge(left, right));
            self.slices.truncate(self.slices.len() - 2);
            self.slices.push(merged);
        }
    }

    fn find(&self, changes: &Changes, hash: u64, key: &[u8]) -> Option<u32> {
        let same = |slot: &u32| {
            let slot = &self.slots[*slot as usize];
            slot.hash == hash && stored_key(changes, slot.newest) == key
        };
        self.index.find(hash, same).copied()
    }
}

impl<'c, const WARMED: bool> Structure<'c> for HashAndSlices<'c, WARMED> {
    fn new(changes: &'c Changes) -> Self {
        HashAndSlices { changes, tables: changes.tables.iter().map(|_| Table::default()).collect() }
    }

    fn change(&mut self, number: usize) {
        let change = &self.changes.list[number];
        let table = &mut self.tables[usize::from(change.table)];
        let newest = reference(change, number);
        match table.find(self.changes, change.hash, self.changes.stored_key(change)) {
            Some(slot) => {
                table.slots[slot as usize].newest = newest;
                table.records.push((slot, false));
            }
            None => {
                let slot = table.slots.len() as u32;
                table.slots.push(Slot { hash: change.hash, newest });
                let slots = &table.slots;
                table.index.insert_unique(change.hash, slot, |slot| slots[*slot as usize].hash);
                table.records.push((slot, true));
            }
        }
    }

    fn warm(&self, numbers: std::ops::Range<usize>) {
        if !WARMED {
            return;
        }
        let mut newest = [0; crate::WARM];
        for (at, change) in newest.iter_mut().zip(&self.changes.list[numbers]) {
            let table = &self.tables[usize::from(change.table)];
            let slot = table.index.find(change.hash, |slot| table.slots[*slot as usize].hash == change.hash);
            *at = slot.map_or(0, |slot| table.slots[*slot as usize].newest);
        }
        let touched = newest.iter().filter_map(|newest| stored_key(self.changes, *newest).first());
        std::hint::black_box(touched.fold(0, |sum, byte| sum ^ byte));
    }

    fn get(&mut self, number: usize) -> Option<u64> {
        let change = &self.changes.list[number];
        let key = self.changes.stored_key(change);
        // A look-up has no hash yet.
        let hash = base::key_hash(self.changes.tables[usize::from(change.table)].id.0, key);
        let table = &self.tables[usize::from(change.table)];
        Some(table.slots[table.find(self.changes, hash, key)? as usize].newest)
    }

    fn range(&mut self, number: usize, fold: &mut Fold) {
        let change = &self.changes.list[number];
        let table = &mut self.tables[usize::from(change.table)];
        table.catch_up(self.changes);
        let from = self.changes.key(change);
        let mut sources: Vec<(Arc<Slice>, usize)> =
            table.slices.iter().map(|slice| (Arc::clone(slice), slice.below(from))).collect();
        loop {
            let mut first: Option<(usize, &Entry)> = None;
            for (at, (slice, next)) in sources.iter().enumerate() {
                let Some(entry) = slice.entries.get(*next) else { continue };
                let is_first = first.is_none_or(|(other, than)| {
                    let order = entry.head.cmp(&than.head);
                    order.then_with(|| slice.key_of(entry).cmp(sources[other].0.key_of(than))).is_lt()
                });
                if is_first {
                    first = Some((at, entry));
                }
            }
            let Some((at, entry)) = first else { return };
            let newest = table.slots[entry.slot as usize].newest;
            sources[at].1 += 1;
            if !fold.take(newest) {
                return;
            }
        }
    }
}
