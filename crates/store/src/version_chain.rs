//! One table's rows in one lane: newest version by key, older versions chained after it.
//!
//! In: versions in log order. Out: the version of a key at a sequence number. Never here: dropping a version that a
//! pinned snapshot or a future watermark can see.

use std::collections::VecDeque;
use std::sync::Arc;

use hashbrown::HashTable;

use crate::arena::{Arena, Cursor, Header, RecordRef, SegmentPool};
use crate::expectation::Expected;
use crate::row_state::RowState;

#[derive(Clone, Copy)]
struct Slot {
    hash: u64,
    newest: RecordRef,
    /// Versions appended since the chain was last scanned, and the count at which to scan again: a hot row under an old
    /// snapshot must not cost a walk over all its versions with every change.
    since_trim: u32,
    trim_at: u32,
}

const TRIM_AT_MIN: u32 = 8;
/// Limit on the versions of a row that `liveness` looks through.
const LIVE_LOOKS_MAX: usize = 10;

/// Number of records read at once, so that their cache misses overlap.
pub(crate) const WARM_AT_ONCE: usize = 16;

/// Tables with fewer slots in a lane are not prefetched.
const WARM_SLOTS_MIN: usize = 256;

/// Whether a record is still a version of its row.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Liveness {
    Live,
    Dead,
    /// Not found within the limit; it may be further down a long chain.
    Unknown,
}

/// One table's rows in one lane: an index from key to the newest version, and the records.
#[derive(Default)]
pub(crate) struct LaneTable {
    index: HashTable<u32>,
    slots: Vec<Slot>,
    free_slots: Vec<u32>,
    arena: Arena,
    /// Deleted rows whose slot is freed once no reader can see them: (sequence number of the deletion, slot).
    graves: VecDeque<(u64, u32)>,
}

/// A version of a row, as it is stored.
#[derive(Clone, Copy)]
pub(crate) struct RowVersion<'a> {
    pub key: &'a [u8],
    /// Image or delta. For a table without a key: number of copies, or its difference.
    pub state: RowState<&'a [u8]>,
    /// What the log says of the row below this generation.
    pub expected: Expected,
    /// Version of the definition that it was written under.
    pub definition: u32,
}

/// The newest version of a key.
#[derive(Clone, Copy)]
pub(crate) struct Found {
    pub slot: u32,
    at: RecordRef,
    header: Header,
}

impl Found {
    /// Version of the definition that its image was written under.
    pub(crate) fn definition(&self) -> u32 {
        self.header.definition
    }

    /// Number of the transaction that wrote it.
    pub(crate) fn sequence(&self) -> u64 {
        self.header.sequence
    }

    pub(crate) fn is_deleted(&self) -> bool {
        self.header.deleted
    }

    pub(crate) fn is_delta(&self) -> bool {
        self.header.delta
    }
}

impl LaneTable {
    /// With room for this many rows.
    pub(crate) fn with_capacity(rows: usize, segments: &Arc<SegmentPool>) -> LaneTable {
        LaneTable {
            index: HashTable::with_capacity(rows),
            slots: Vec::with_capacity(rows),
            arena: Arena::of(segments),
            ..LaneTable::default()
        }
    }

    /// The newest version of a key, which may be a deletion.
    pub(crate) fn find(&self, hash: u64, key: &[u8]) -> Option<Found> {
        let slot = *self.index.find(hash, |&slot| {
            let slot = &self.slots[slot as usize];
            slot.hash == hash && {
                let header = self.arena.header(slot.newest);
                self.arena.body(slot.newest, &header).0 == key
            }
        })?;
        let at = self.slots[slot as usize].newest;
        Some(Found { slot, at, header: self.arena.header(at) })
    }

    /// Probable location of a key's newest version, by its hash alone. The first of two steps that prefetch what `find`
    /// reads: run for many keys in a row, their cache misses overlap.
    #[inline]
    pub(crate) fn warm_slot(&self, hash: u64) -> RecordRef {
        // A small table stays in the cache by itself.
        if self.slots.len() < WARM_SLOTS_MIN {
            return RecordRef::NONE;
        }
        let slot = self.index.find(hash, |&slot| self.slots[slot as usize].hash == hash);
        slot.map_or(RecordRef::NONE, |&slot| self.slots[slot as usize].newest)
    }

    /// The second step. The result has no meaning; returning it forces the read.
    #[inline]
    pub(crate) fn warm_record(&self, at: RecordRef) -> u8 {
        self.arena.touch(at)
    }

    /// The image of a found version.
    pub(crate) fn image(&self, found: &Found) -> &[u8] {
        self.arena.body(found.at, &found.header).1
    }

    /// Appends a version of a key and returns its slot; `found` is the result of `find` just before. `bury`: the slot
    /// of a deleted row is freed once no reader can see it; otherwise the deletion stays, because it hides rows in
    /// layers below.
    pub(crate) fn append(
        &mut self,
        found: Option<Found>,
        hash: u64,
        key: &[u8],
        version: Version<'_>,
        oldest_needed: u64,
        bury: bool,
    ) -> u32 {
        let (slot, prev) = match found {
            Some(found) => (found.slot, found.at),
            None => (self.new_slot(hash), RecordRef::NONE),
        };
        let (image, deleted, delta) = match version.state {
            RowState::Row(image) => (image, false, false),
            RowState::Delta(image) => (image, false, true),
            RowState::Deleted => (&[][..], true, false),
        };
        let header = Header {
            prev,
            sequence: version.sequence,
            slot,
            key_len: crate::short(key.len()),
            image_len: crate::short(image.len()),
            deleted,
            delta,
            // Of the first change of the row in this generation.
            expected: found.map_or(version.expected, |found| found.header.expected),
            definition: version.definition,
            dead: false,
        };
        let at = self.arena.push(&header, key, image);
        self.slots[slot as usize].newest = at;
        if deleted && bury {
            self.graves.push_back((version.sequence, slot));
        }
        if !prev.is_none() {
            self.trim(slot, at, oldest_needed);
        }
        slot
    }

    fn new_slot(&mut self, hash: u64) -> u32 {
        let entry = Slot { hash, newest: RecordRef::NONE, since_trim: 0, trim_at: TRIM_AT_MIN };
        let slot = match self.free_slots.pop() {
            Some(slot) => {
                self.slots[slot as usize] = entry;
                slot
            }
            None => {
                self.slots.push(entry);
                crate::short(self.slots.len() - 1)
            }
        };
        let slots = &self.slots;
        self.index.insert_unique(hash, slot, |&s| slots[s as usize].hash);
        slot
    }

    /// Unlinks versions that no reader can see any more: all those older than the newest version at or below
    /// `oldest_needed`.
    fn trim(&mut self, slot: u32, newest: RecordRef, oldest_needed: u64) {
        let entry = &mut self.slots[slot as usize];
        entry.since_trim += 1;
        let before = self.arena.header(self.arena.header(newest).prev);
        // While the previous version is still needed, a walk passes every needed version first. It is put off until as
        // many versions were appended as the last walk passed.
        if before.sequence > oldest_needed && entry.since_trim < entry.trim_at {
            return;
        }
        let mut kept = 0;
        let mut at = newest;
        loop {
            let header = self.arena.header(at);
            if header.sequence <= oldest_needed {
                self.arena.set_prev(at, RecordRef::NONE);
                self.drop_chain(header.prev);
                break;
            }
            if header.prev.is_none() {
                break;
            }
            kept += 1;
            at = header.prev;
        }
        let entry = &mut self.slots[slot as usize];
        entry.since_trim = 0;
        entry.trim_at = TRIM_AT_MIN.max(kept);
    }

    fn drop_chain(&mut self, mut at: RecordRef) {
        while !at.is_none() {
            let header = self.arena.header(at);
            self.arena.mark_dead(at, &header);
            at = header.prev;
        }
    }

    /// Frees rows whose deletion is visible to everyone, and empties one segment that is mostly dead.
    pub(crate) fn tidy(&mut self, oldest_needed: u64) {
        while let Some(&(sequence, slot)) = self.graves.front() {
            if sequence > oldest_needed {
                break;
            }
            self.graves.pop_front();
            let entry = self.slots[slot as usize];
            if entry.newest.is_none() {
                continue;
            }
            let header = self.arena.header(entry.newest);
            if header.sequence == sequence && header.deleted {
                self.drop_chain(entry.newest);
                if let Ok(found) = self.index.find_entry(entry.hash, |&s| s == slot) {
                    found.remove();
                }
                self.slots[slot as usize].newest = RecordRef::NONE;
                self.free_slots.push(slot);
            }
        }
        if let Some(victim) = self.arena.victim() {
            self.empty_segment(victim);
        }
    }

    /// Moves the live records of a segment to the end and releases the segment. Each row's chain is walked once for all
    /// its versions in the segment, and not at all for dead ones: a hot row has thousands of both.
    fn empty_segment(&mut self, victim: usize) {
        let mut offset = 0;
        while let Some((_, header, next)) = self.arena.next_live(victim, offset) {
            offset = next;
            let slot = header.slot as usize;
            let (mut newer, mut at) = (RecordRef::NONE, self.slots[slot].newest);
            while !at.is_none() {
                if at.segment() == victim {
                    at = self.arena.relocate(at);
                    if newer.is_none() {
                        self.slots[slot].newest = at;
                    } else {
                        self.arena.set_prev(newer, at);
                    }
                }
                newer = at;
                at = self.arena.header(at).prev;
            }
        }
        self.arena.release(victim);
    }

    /// The newest version at or below `sequence`, which may be a deletion.
    fn newest_at(&self, slot: &Slot, sequence: u64) -> Option<(RecordRef, Header)> {
        let mut at = slot.newest;
        while !at.is_none() {
            let header = self.arena.header(at);
            if header.sequence <= sequence {
                return Some((at, header));
            }
            at = header.prev;
        }
        None
    }

    fn version_of(&self, at: RecordRef, header: &Header) -> RowVersion<'_> {
        let (key, image) = self.arena.body(at, header);
        let state = match (header.deleted, header.delta) {
            (true, _) => RowState::Deleted,
            (false, true) => RowState::Delta(image),
            (false, false) => RowState::Row(image),
        };
        RowVersion { key, state, expected: header.expected, definition: header.definition }
    }

    /// The version of a key at `sequence`.
    pub(crate) fn get(&self, hash: u64, key: &[u8], sequence: u64) -> Option<RowVersion<'_>> {
        let found = self.find(hash, key)?;
        let (at, header) = self.newest_at(self.slots.get(found.slot as usize)?, sequence)?;
        Some(self.version_of(at, &header))
    }

    pub(crate) fn version(&self, found: &Found) -> RowVersion<'_> {
        self.version_of(found.at, &found.header)
    }

    /// Slot of the version at a place that `each_newest` returned.
    pub(crate) fn slot_at(&self, place: u64) -> u32 {
        self.arena.header(RecordRef::from_u64(place)).slot
    }

    /// The version of a slot's row at `sequence`.
    pub(crate) fn visible(&self, slot: u32, sequence: u64) -> Option<RowVersion<'_>> {
        let (at, header) = self.newest_at(self.slots.get(slot as usize)?, sequence)?;
        Some(self.version_of(at, &header))
    }

    /// Calls `each` for records written since the cursor's last position. Skips deletions, invisible versions and,
    /// unless `with_deltas`, deltas. Stops after `records` records or about `bytes`; false if there are no more.
    pub(crate) fn written_since(
        &self,
        cursor: &mut Cursor,
        (records, bytes): (usize, usize),
        with_deltas: bool,
        mut each: impl FnMut(Written<'_>),
    ) -> bool {
        let is_asked_for = |header: &Header| !header.deleted && (with_deltas || !header.delta);
        let (mut left, mut left_bytes) = (records, bytes);
        while let Some(at) = self.arena.next_record(cursor) {
            let header = self.arena.header(at);
            let (key, image) = self.arena.body(at, &header);
            let liveness = self.liveness(at, &header);
            if is_asked_for(&header) && liveness != Liveness::Dead {
                // The older version of a dead record may be gone together with its segment.
                let before = Some(header.prev).filter(|prev| !prev.is_none() && liveness == Liveness::Live);
                let before = before.filter(|prev| self.arena.is_before(*prev, at));
                let before = before.map(|prev| (prev, self.arena.header(prev)));
                let before = before.filter(|(_, prev)| is_asked_for(prev) && prev.definition == header.definition);
                let before = before.map(|(prev, header)| self.arena.body(prev, &header).1);
                each(Written { slot: header.slot, key, image, definition: header.definition, before });
            }
            left -= 1;
            left_bytes = left_bytes.saturating_sub(key.len() + image.len());
            if left == 0 || left_bytes == 0 {
                return true;
            }
        }
        false
    }

    /// Whether a record is linked to its row's chain, as far as a short search can tell.
    fn liveness(&self, record: RecordRef, header: &Header) -> Liveness {
        if header.dead {
            return Liveness::Dead;
        }
        let mut at = self.slots.get(header.slot as usize).map_or(RecordRef::NONE, |slot| slot.newest);
        for _ in 0..LIVE_LOOKS_MAX {
            if at == record {
                return Liveness::Live;
            }
            if at.is_none() {
                return Liveness::Dead;
            }
            at = self.arena.header(at).prev;
        }
        Liveness::Unknown
    }

    /// Number of slots, free ones included.
    pub(crate) fn slot_count(&self) -> usize {
        self.slots.len()
    }

    /// Calls `each` with place and key of the newest version at or below `sequence`, for every key that has one.
    pub(crate) fn each_newest(&self, sequence: u64, mut each: impl FnMut(u64, &[u8])) {
        for slots in self.slots.chunks(WARM_AT_ONCE) {
            let newest = slots.iter().filter(|slot| !slot.newest.is_none());
            std::hint::black_box(newest.fold(0, |sum, slot| sum ^ self.arena.touch(slot.newest)));
            for slot in slots {
                if let Some((at, header)) = self.newest_at(slot, sequence) {
                    each(at.as_u64(), self.arena.body(at, &header).0);
                }
            }
        }
    }

    /// Calls `each` with hash and key of the rows whose newest version is a delta.
    pub(crate) fn each_delta(&self, mut each: impl FnMut(u64, &[u8])) {
        for slot in self.slots.iter().filter(|slot| !slot.newest.is_none()) {
            let header = self.arena.header(slot.newest);
            if header.delta {
                each(slot.hash, self.arena.body(slot.newest, &header).0);
            }
        }
    }

    /// Reads a place that `each_newest` returned. The result has no meaning; returning it forces the read.
    pub(crate) fn touch(&self, place: u64) -> u8 {
        self.arena.touch(RecordRef::from_u64(place))
    }

    /// The version at a place that `each_newest` returned.
    pub(crate) fn at(&self, place: u64) -> RowVersion<'_> {
        let at = RecordRef::from_u64(place);
        self.version_of(at, &self.arena.header(at))
    }

    /// Calls `each` with hash and version of the rows visible at `sequence` in up to `count` slots from `from` on,
    /// without deletions; returns the slot to continue at.
    pub(crate) fn slots(
        &self,
        sequence: u64,
        from: u32,
        count: u32,
        mut each: impl FnMut(u64, RowVersion<'_>),
    ) -> Option<u32> {
        let start = (from as usize).min(self.slots.len());
        let end = start.saturating_add(count as usize).min(self.slots.len());
        for slot in &self.slots[start..end] {
            if let Some((at, header)) = self.newest_at(slot, sequence)
                && !header.deleted
            {
                each(slot.hash, self.version_of(at, &header));
            }
        }
        (end < self.slots.len()).then_some(crate::short(end))
    }

    /// Bytes taken from the allocator, and how many of them are dead.
    pub(crate) fn bytes(&self) -> (usize, usize) {
        let (taken, dead) = self.arena.bytes();
        (taken + self.slots.capacity() * size_of::<Slot>() + self.index.capacity() * 5, dead)
    }
}

/// A version that `written_since` returns.
pub(crate) struct Written<'a> {
    pub slot: u32,
    pub key: &'a [u8],
    pub image: &'a [u8],
    /// Version of the table's definition.
    pub definition: u32,
    /// The previous version of the row, if it was returned earlier and has the same definition.
    pub before: Option<&'a [u8]>,
}

/// A version to append.
#[derive(Clone, Copy)]
pub(crate) struct Version<'a> {
    pub sequence: u64,
    pub state: RowState<&'a [u8]>,
    /// What the log says of the row below; counts if it is the first version of the row in this generation.
    pub expected: Expected,
    /// Version of the table's definition.
    pub definition: u32,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn image_in(version: RowVersion<'_>) -> &[u8] {
        match version.state {
            RowState::Row(image) => image,
            _ => panic!("no row"),
        }
    }

    /// Reads a hot row among others at an old sequence number. Versions are moved out of emptied segments, several
    /// versions of one row out of the same segment, and every visible one is found through its row's chain.
    #[test]
    fn versions_of_a_hot_row_survive_that_their_segments_are_emptied() {
        const HOT: u64 = 7;
        let mut table = LaneTable::default();
        let image = |sequence: u64| vec![sequence as u8; 100];
        let put = |table: &mut LaneTable, row: u64, sequence: u64, needed: u64| {
            let (key, image) = (row.to_le_bytes(), image(sequence));
            let state = RowState::Row(image.as_slice());
            let version = Version { sequence, state, expected: Expected::Unknown, definition: 0 };
            let found = table.find(row, &key);
            table.append(found, row, &key, version, needed, true);
        };
        let mut last = [0u64; 500];
        let mut hot = Vec::new();
        let mut needed = 0;
        for sequence in 1..=120_000u64 {
            // Every second change is of the hot row; `needed` moves in steps and lags by a thousand versions.
            let row = if sequence % 2 == 0 { HOT } else { sequence * 2_654_435_761 % 500 };
            put(&mut table, row, sequence, needed);
            last[row as usize] = sequence;
            if row == HOT {
                hot.push(sequence);
            }
            if sequence % 700 == 0 {
                needed = sequence.saturating_sub(1_000);
                table.tidy(needed);
                let seen = |at: u64| hot[hot.partition_point(|own| *own <= at) - 1];
                for at in [needed.max(2), (needed + sequence) / 2, sequence] {
                    let got = table.get(HOT, &HOT.to_le_bytes(), at).unwrap();
                    assert_eq!(image_in(got), image(seen(at)), "at {at} of {sequence}");
                }
            }
        }
        for id in (0..500u64).filter(|id| last[*id as usize] > 0) {
            let got = table.get(id, &id.to_le_bytes(), u64::MAX).unwrap();
            assert_eq!(image_in(got), image(last[id as usize]), "row {id}");
        }
        // The 120,000 versions took 17 MB.
        let (taken, _) = table.bytes();
        assert!(taken < 6 << 20, "{taken} bytes are kept");
    }
}
