//! A generation's rows in index order, built when a reader first asks.
//!
//! In: versions that the lanes wrote since a reader last asked. Out: sorted slices of entries, each with its sort key
//! and a reference to its row. Never here: work for a writer (the reader walks the arenas itself, a bounded number of
//! records per hold of a lane's lock); what a row contains at a snapshot (the reader asks the lane and compares).
//!
//! An entry refers to a row's slot. Every version whose sort key differs from that of the previous version has an
//! entry, so the version that a snapshot sees is found under its own key; entries of other versions are skipped. New
//! entries are sorted into a slice of their own, and slices of similar size are merged, so there are few slices however
//! small the readers' steps.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use catalog::{ConversionBuffers, KeyOrder};

use crate::arena::Cursor;
use crate::error::StoreError;
use crate::key_codec;
use crate::layers::Generation;
use crate::reader::TableReader;

/// Records, and their bytes, that are read under one hold of a lane's lock: bounds how long replay of that lane can
/// wait for a reader (about 300 µs).
const HOLD_RECORDS: usize = 1024;
const HOLD_BYTES: usize = 512 << 10;
/// Memory limit for all orders of one generation, in addition to half the size of its rows.
const ORDERS_BYTES_MIN: u64 = 4 << 20;
/// An order is rebuilt once it has this many more entries than rows: most are then of dead versions.
const STALE_ENTRIES_MIN: usize = 64 << 10;
/// Limit on the key bytes of a slice, so that offsets fit 32 bits.
const SLICE_KEY_BYTES_MAX: usize = 1 << 30;

/// Appends the key that rows are ordered by: the identifying key (index id 0) or a secondary index. False if the row is
/// too old to be in that index (`IndexSet::append_if_it_can`).
pub(crate) fn append_key(
    order: &KeyOrder,
    index: u16,
    key: &[u8],
    image: &[u8],
    out: &mut Vec<u8>,
) -> Result<bool, values::ValueError> {
    if index == 0 {
        if !order.is_keyless() {
            order.append(key, out);
        }
    } else {
        let unknown = values::ValueError::Invalid { what: "an index that the table does not have" };
        let set = order.indexes().ok_or(unknown.clone())?;
        if !set.append_if_it_can(set.index(index).ok_or(unknown)?, image, out)? {
            return Ok(false);
        }
    }
    key_codec::append_own(order.is_keyless(), key, out);
    Ok(true)
}

/// Key and location of a row.
#[derive(Clone, Copy, Debug)]
struct Entry {
    /// First bytes of the key.
    head: u64,
    key_at: u32,
    key_len: u32,
    slot: u32,
    lane: u16,
    /// Length of the row's own key at the end of the key, if that key alone makes the key; 0: it does not.
    own_len: u16,
}

const _: () = assert!(crate::store::LANES_MAX <= u16::MAX as usize);

/// Entries in key order.
#[derive(Debug, Default)]
pub(crate) struct Slice {
    keys: Vec<u8>,
    entries: Vec<Entry>,
}

impl Slice {
    fn key_of(&self, entry: &Entry) -> &[u8] {
        &self.keys[entry.key_at as usize..][..entry.key_len as usize]
    }

    fn push(&mut self, key: &[u8], own_len: u16, lane: u16, slot: u32) {
        let (key_at, key_len) = (crate::short(self.keys.len()), crate::short(key.len()));
        self.keys.extend_from_slice(key);
        self.entries.push(Entry { head: key_codec::head_of(key), key_at, key_len, slot, lane, own_len });
    }

    fn sort(&mut self) {
        let mut entries = std::mem::take(&mut self.entries);
        entries.sort_unstable_by(|left, right| {
            left.head.cmp(&right.head).then_with(|| self.key_of(left).cmp(self.key_of(right)))
        });
        self.entries = entries;
    }

    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    pub(crate) fn key(&self, index: usize) -> Option<&[u8]> {
        self.entries.get(index).map(|entry| self.key_of(entry))
    }

    /// Lane and slot of an entry, and the length of the row's own key at the end of its key if that key alone makes the
    /// key, else 0.
    pub(crate) fn place(&self, index: usize) -> (usize, u32, usize) {
        let entry = &self.entries[index];
        (usize::from(entry.lane), entry.slot, usize::from(entry.own_len))
    }

    /// Number of entries below a key.
    pub(crate) fn below(&self, key: &[u8]) -> usize {
        let head = key_codec::head_of(key);
        self.entries.partition_point(|entry| entry.head < head || entry.head == head && self.key_of(entry) < key)
    }

    fn bytes(&self) -> usize {
        self.keys.capacity() + self.entries.capacity() * size_of::<Entry>()
    }

    /// Merges two slices; equal entries are kept once.
    fn merge(left: &Slice, right: &Slice) -> Slice {
        let mut merged = Slice {
            keys: Vec::with_capacity(left.keys.len() + right.keys.len()),
            entries: Vec::with_capacity(left.len() + right.len()),
        };
        let (mut a, mut b) = (0, 0);
        loop {
            let first = match (left.entries.get(a), right.entries.get(b)) {
                (None, None) => return merged,
                (Some(_), None) => true,
                (None, Some(_)) => false,
                (Some(one), Some(other)) => {
                    let order = one.head.cmp(&other.head);
                    order.then_with(|| left.key_of(one).cmp(right.key_of(other))).is_le()
                }
            };
            let (from, at) = if first { (left, &mut a) } else { (right, &mut b) };
            if let Some(entry) = from.entries.get(*at) {
                // A moved record is read again and yields the same entry, as does a row that changes back to an earlier
                // key.
                let key = from.key_of(entry);
                let last = merged.entries.last();
                let again = last.is_some_and(|last| {
                    (last.lane, last.slot) == (entry.lane, entry.slot) && merged.key_of(last) == key
                });
                if !again {
                    merged.push(key, entry.own_len, entry.lane, entry.slot);
                }
            }
            *at += 1;
        }
    }
}

/// The order of one table by one index in a generation.
#[derive(Default)]
struct Order {
    cursors: Vec<Cursor>,
    slices: Vec<Arc<Slice>>,
    /// Number of entries when it was last rebuilt.
    made_with: usize,
    /// Whether a lane holds more of the table than whole rows: see `Lane::hides`.
    hides: bool,
}

impl Order {
    fn len(&self) -> usize {
        self.slices.iter().map(|slice| slice.len()).sum()
    }

    fn bytes(&self) -> u64 {
        self.slices.iter().map(|slice| slice.bytes() as u64).sum()
    }

    /// Adds what was written since the last call. On return, the order covers everything visible to snapshots pinned
    /// before the call.
    fn catch_up(&mut self, generation: &Generation, table: &TableReader, index: u16) -> Result<(), StoreError> {
        let (id, order) = (table.id(), table.order());
        self.cursors.resize(generation.lane_count(), Cursor::default());
        let len = self.len();
        // Rows are counted only when the result may matter: it locks every lane.
        let rows = || generation.lanes().map(|lane| lane.slot_count(id)).sum::<usize>();
        let may_be_stale = len > 2 * self.made_with + STALE_ENTRIES_MIN;
        let anew = may_be_stale && len > 2 * self.made_with + 4 * rows() + STALE_ENTRIES_MIN;
        if anew {
            *self = Order::default();
            self.cursors.resize(generation.lane_count(), Cursor::default());
        }
        // The identifying key of a row makes its sort key; too long for 16 bits, it is compared as those of indexes
        // are.
        let own_len = |key: &[u8]| match index == 0 && !order.is_keyless() {
            true => u16::try_from(key.len()).unwrap_or(0),
            false => 0,
        };
        let mut fresh = Slice::default();
        let (mut key, mut failure, mut buffers) = (Vec::new(), None, ConversionBuffers::default());
        for (lane, cursor) in self.cursors.iter_mut().enumerate() {
            let Ok(lane_number) = u16::try_from(lane) else { return Err(StoreError::defect("a lane above the limit")) };
            loop {
                let guard = generation.lane(lane);
                self.hides |= guard.hides(id);
                let more = guard.written_since(id, cursor, (HOLD_RECORDS, HOLD_BYTES), |written| {
                    // A snapshot with this definition sees no rows of a later one.
                    if written.definition > table.definition() {
                        return;
                    }
                    let is_current = table.versions().is_current(written.definition);
                    if is_current && written.before.is_some_and(|before| is_same(order, index, before, written.image)) {
                        return;
                    }
                    key.clear();
                    let image = table.versions().read(written.definition, written.image, &mut buffers);
                    match image.and_then(|image| append_key(order, index, written.key, image, &mut key)) {
                        Ok(true) => fresh.push(&key, own_len(written.key), lane_number, written.slot),
                        // Deleted or changed before the statement that made the index what it is.
                        Ok(false) => {}
                        Err(error) => failure = Some(error),
                    }
                });
                drop(guard);
                if fresh.keys.len() > SLICE_KEY_BYTES_MAX {
                    fresh.sort();
                    self.slices.push(Arc::new(std::mem::take(&mut fresh)));
                }
                if !more {
                    break;
                }
            }
        }
        if failure.is_some() {
            // The next reader starts over.
            *self = Order::default();
            let text = format!("a row of table id {id} does not fit its definition");
            return Err(StoreError::Damaged { folder: Default::default(), text });
        }
        if fresh.len() > 0 {
            fresh.sort();
            self.slices.push(Arc::new(fresh));
            self.merge();
        }
        if anew {
            self.made_with = self.len();
        }
        Ok(())
    }

    /// Merges slices until each is more than twice as long as the next one.
    fn merge(&mut self) {
        while let [.., left, right] = self.slices.as_slice()
            && left.len() <= 2 * right.len()
            && left.keys.len() + right.keys.len() <= SLICE_KEY_BYTES_MAX
        {
            let merged = Arc::new(Slice::merge(left, right));
            self.slices.truncate(self.slices.len() - 2);
            self.slices.push(merged);
        }
    }
}

fn is_same(order: &KeyOrder, index: u16, before: &[u8], image: &[u8]) -> bool {
    // The identifying key and the hash belong to the slot and never change.
    index == 0 || order.is_keyless() || order.indexes().is_some_and(|set| set.is_same(before, image).unwrap_or(false))
}

/// All orders of one generation.
#[derive(Default)]
pub(crate) struct Orders {
    held: Mutex<Held>,
    bytes: AtomicU64,
}

#[derive(Default)]
struct Held {
    /// By table, index and version of the table's definition: readers of an older definition see rows as of then.
    by_name: BTreeMap<(u32, u16, u32), Named>,
    uses: u64,
}

struct Named {
    order: Arc<Mutex<Order>>,
    bytes: u64,
    last_use: u64,
}

impl Orders {
    fn held(&self) -> MutexGuard<'_, Held> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Memory they take, in bytes.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    /// Passes `each` the slices that cover everything in this generation that is visible to snapshots pinned before.
    pub(crate) fn slices(
        &self,
        generation: &Generation,
        table: &TableReader,
        index: u16,
        each: impl FnMut(&Arc<Slice>),
    ) -> Result<bool, StoreError> {
        let name = (table.id().0, index, table.definition());
        let shared = {
            let mut held = self.held();
            held.uses += 1;
            let last_use = held.uses;
            let named = held.by_name.entry(name).or_insert_with(|| Named { order: Arc::default(), bytes: 0, last_use });
            named.last_use = last_use;
            Arc::clone(&named.order)
        };
        // Each order has a lock of its own, so that readers of other orders do not wait while this one is sorted.
        let (bytes, hides) = {
            let mut made = shared.lock().unwrap_or_else(PoisonError::into_inner);
            made.catch_up(generation, table, index)?;
            made.slices.iter().for_each(each);
            (made.bytes(), made.hides)
        };
        let mut held = self.held();
        if let Some(named) = held.by_name.get_mut(&name) {
            named.bytes = bytes;
        }
        let limit = ORDERS_BYTES_MIN + generation.lane_bytes() / 2;
        let total = |held: &Held| held.by_name.values().map(|named| named.bytes).sum::<u64>();
        while total(&held) > limit {
            // Drops the least recently used; in the end even the one just built, which then lives as long as its
            // reader.
            let oldest = held.by_name.iter().min_by_key(|(_, named)| named.last_use).map(|(name, _)| *name);
            if oldest.and_then(|oldest| held.by_name.remove(&oldest)).is_none() {
                break;
            }
        }
        self.bytes.store(total(&held), Ordering::Relaxed);
        Ok(hides)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn slice(keys: &[(&str, u32)]) -> Slice {
        let mut slice = Slice::default();
        keys.iter().for_each(|(key, slot)| slice.push(key.as_bytes(), 0, 0, *slot));
        slice.sort();
        slice
    }

    #[test]
    fn merged_slices_are_in_order_and_hold_each_entry_once() {
        let left = slice(&[("b", 1), ("a", 0), ("long key, more than a head", 7)]);
        let right = slice(&[("b", 1), ("b", 2), ("long key, more than another", 7), ("", 9)]);
        let merged = Slice::merge(&left, &right);
        let all: Vec<_> = (0..merged.len()).map(|i| (merged.key(i).unwrap().to_vec(), merged.place(i).1)).collect();
        let expected = [("", 9), ("a", 0), ("b", 1), ("b", 2)].map(|(key, slot)| (key.as_bytes().to_vec(), slot));
        assert_eq!(all[..4], expected);
        assert_eq!(all.len(), 6);
        assert_eq!([merged.below(b""), merged.below(b"b"), merged.below(b"c"), merged.below(b"zz")], [0, 2, 4, 6]);
    }
}
