//! One table's rows in one lane: newest version by key, older versions chained after it.
//!
//! In: versions in log order. Out: the version of a key at a sequence number. Never here: dropping a version that a
//! pinned snapshot or a future watermark can see.

use std::collections::VecDeque;
use std::sync::Arc;

use hashbrown::HashTable;

use crate::arena::{Arena, Cursor, Header, RecordRef, SegmentPool};

#[derive(Clone, Copy)]
struct Slot {
    hash: u64,
    newest: RecordRef,
    /// Versions appended since the chain was last looked through, and at which count to look again: a hot row under
    /// an old snapshot must not cost a walk over all its versions with every change.
    since_trim: u32,
    trim_at: u32,
}

const TRIM_AT_MIN: u32 = 8;
/// Versions of a row that are looked through for one that may be unlinked.
const LIVE_LOOKS_MAX: usize = 10;

/// Records read at once so that their cache misses overlap.
pub(crate) const WARM_AT_ONCE: usize = 16;

/// Tables with fewer slots in a lane are not warmed.
const WARM_SLOTS_MIN: usize = 256;

/// Whether a record is one of its row's versions still.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Liveness {
    Live,
    Dead,
    /// It may be deep among many.
    Unknown,
}

/// See the module.
#[derive(Default)]
pub(crate) struct LaneTable {
    index: HashTable<u32>,
    slots: Vec<Slot>,
    free_slots: Vec<u32>,
    arena: Arena,
    /// Deleted rows whose slot goes once nobody can see them: (sequence number of the deletion, slot).
    graves: VecDeque<(u64, u32)>,
}

/// What a version says of its row.
#[derive(Clone, Copy)]
pub(crate) enum Content<'a> {
    /// Its image.
    Row(&'a [u8]),
    /// New values of some columns: see `parts`.
    Part(&'a [u8]),
    Gone,
}

/// Key, what the row is, and the version of the definition that the image was written under.
pub(crate) type KeyContent<'a> = (&'a [u8], Content<'a>, u32);

/// The newest version of a key.
#[derive(Clone, Copy)]
pub(crate) struct Found {
    pub slot: u32,
    at: RecordRef,
    header: Header,
}

impl Found {
    /// Version of the definition its image was written under.
    pub(crate) fn definition(&self) -> u32 {
        self.header.definition
    }

    pub(crate) fn is_deleted(&self) -> bool {
        self.header.deleted
    }

    pub(crate) fn is_part(&self) -> bool {
        self.header.part
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

    /// The newest version of a key, a deletion included.
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

    /// Where the newest version of a key is said to be, by its hash alone. The first of two steps that bring what
    /// `find` reads into the cache: taken for many keys in a row, their misses overlap.
    #[inline]
    pub(crate) fn warm_slot(&self, hash: u64) -> RecordRef {
        // Few rows stay in the cache by themselves.
        if self.slots.len() < WARM_SLOTS_MIN {
            return RecordRef::NONE;
        }
        let slot = self.index.find(hash, |&slot| self.slots[slot as usize].hash == hash);
        slot.map_or(RecordRef::NONE, |&slot| self.slots[slot as usize].newest)
    }

    /// The second step. What it gives only makes the reading be done.
    #[inline]
    pub(crate) fn warm_record(&self, at: RecordRef) -> u8 {
        self.arena.touch(at)
    }

    /// The image of a found version.
    pub(crate) fn image(&self, found: &Found) -> &[u8] {
        self.arena.body(found.at, &found.header).1
    }

    /// Appends a version of a key and tells its slot; `found` is what `find` said of it just before. `bury`: a deleted
    /// row's slot goes once nobody can see it; otherwise the deletion stays, for it hides what lies below.
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
        let (image, deleted, part) = match version.content {
            Content::Row(image) => (image, false, false),
            Content::Part(image) => (image, false, true),
            Content::Gone => (&[][..], true, false),
        };
        let header = Header {
            prev,
            sequence: version.sequence,
            slot,
            key_len: crate::short(key.len()),
            image_len: crate::short(image.len()),
            deleted,
            part,
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

    /// Unlinks what nobody can see any more: everything older than the newest version at or below `oldest_needed`.
    fn trim(&mut self, slot: u32, newest: RecordRef, oldest_needed: u64) {
        let entry = &mut self.slots[slot as usize];
        entry.since_trim += 1;
        let before = self.arena.header(self.arena.header(newest).prev);
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

    /// Frees rows whose deletion everybody sees, and empties one segment that is mostly dead.
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

    /// Moves what is live in a segment to the end and gives the segment back. A row's chain is walked once for all of
    /// its versions there, and not for dead ones: a hot row has thousands of both.
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

    /// The newest version at or below `sequence`, a deletion included.
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

    fn content_of(&self, at: RecordRef, header: &Header) -> KeyContent<'_> {
        let (key, image) = self.arena.body(at, header);
        let content = match (header.deleted, header.part) {
            (true, _) => Content::Gone,
            (false, true) => Content::Part(image),
            (false, false) => Content::Row(image),
        };
        (key, content, header.definition)
    }

    /// What a key is at `sequence`: None when there is no version.
    pub(crate) fn get(&self, hash: u64, key: &[u8], sequence: u64) -> Option<KeyContent<'_>> {
        let found = self.find(hash, key)?;
        let (at, header) = self.newest_at(self.slots.get(found.slot as usize)?, sequence)?;
        Some(self.content_of(at, &header))
    }

    /// What a found version says of its row.
    pub(crate) fn content(&self, found: &Found) -> Content<'_> {
        self.content_of(found.at, &found.header).1
    }

    /// The slot of the version at a place that `each_newest` gave.
    pub(crate) fn slot_at(&self, place: u64) -> u32 {
        self.arena.header(RecordRef::from_u64(place)).slot
    }

    /// What a slot's row is at `sequence`.
    pub(crate) fn visible(&self, slot: u32, sequence: u64) -> Option<KeyContent<'_>> {
        let (at, header) = self.newest_at(self.slots.get(slot as usize)?, sequence)?;
        Some(self.content_of(at, &header))
    }

    /// Hands rows that were written since `cursor` was here to `each`: deletions and what nobody can see left out, and
    /// parts unless `with_parts`. Stops after `records` of them or about `bytes`; false when there is nothing more.
    pub(crate) fn written_since(
        &self,
        cursor: &mut Cursor,
        (records, bytes): (usize, usize),
        with_parts: bool,
        mut each: impl FnMut(Written<'_>),
    ) -> bool {
        let is_asked_for = |header: &Header| !header.deleted && (with_parts || !header.part);
        let (mut left, mut left_bytes) = (records, bytes);
        while let Some(at) = self.arena.next_record(cursor) {
            let header = self.arena.header(at);
            let (key, image) = self.arena.body(at, &header);
            let liveness = self.liveness(at, &header);
            if is_asked_for(&header) && liveness != Liveness::Dead {
                // What a dead record leads to may be gone with its segment.
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

    /// Whether a record is linked to its row's versions, as far as a short look tells.
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

    /// How many slots there are.
    pub(crate) fn slot_count(&self) -> usize {
        self.slots.len()
    }

    /// Calls `each` with place and content of the newest version at or below `sequence` of every key that has one.
    pub(crate) fn each_newest(&self, sequence: u64, mut each: impl FnMut(u64, KeyContent<'_>)) {
        for slots in self.slots.chunks(WARM_AT_ONCE) {
            let newest = slots.iter().filter(|slot| !slot.newest.is_none());
            std::hint::black_box(newest.fold(0, |sum, slot| sum ^ self.arena.touch(slot.newest)));
            for slot in slots {
                if let Some((at, header)) = self.newest_at(slot, sequence) {
                    each(at.as_u64(), self.content_of(at, &header));
                }
            }
        }
    }

    /// Calls `each` with hash and key of the rows whose newest version is a part.
    pub(crate) fn each_part(&self, mut each: impl FnMut(u64, &[u8])) {
        for slot in self.slots.iter().filter(|slot| !slot.newest.is_none()) {
            let header = self.arena.header(slot.newest);
            if header.part {
                each(slot.hash, self.arena.body(slot.newest, &header).0);
            }
        }
    }

    /// Reads of a place that `each_newest` gave; what it gives only makes the reading be done.
    pub(crate) fn touch(&self, place: u64) -> u8 {
        self.arena.touch(RecordRef::from_u64(place))
    }

    /// What `each_newest` gave with this place.
    pub(crate) fn at(&self, place: u64) -> KeyContent<'_> {
        let at = RecordRef::from_u64(place);
        self.content_of(at, &self.arena.header(at))
    }

    /// Calls `each` with hash, key, content and its definition's version of the rows of up to `count` slots from `from`
    /// on that are visible at `sequence`, deletions left out; returns where to go on.
    pub(crate) fn slots(
        &self,
        sequence: u64,
        from: u32,
        count: u32,
        mut each: impl FnMut(u64, &[u8], Content<'_>, u32),
    ) -> Option<u32> {
        let start = (from as usize).min(self.slots.len());
        let end = start.saturating_add(count as usize).min(self.slots.len());
        for slot in &self.slots[start..end] {
            if let Some((at, header)) = self.newest_at(slot, sequence)
                && !header.deleted
            {
                let (key, content, definition) = self.content_of(at, &header);
                each(slot.hash, key, content, definition);
            }
        }
        (end < self.slots.len()).then_some(crate::short(end))
    }

    /// (bytes taken, of them dead)
    pub(crate) fn bytes(&self) -> (usize, usize) {
        let (taken, dead) = self.arena.bytes();
        (taken + self.slots.capacity() * size_of::<Slot>() + self.index.capacity() * 5, dead)
    }
}

/// A version that `written_since` hands out.
pub(crate) struct Written<'a> {
    pub slot: u32,
    pub key: &'a [u8],
    pub image: &'a [u8],
    /// Version of the table's definition.
    pub definition: u32,
    /// The row's version before it, where that was handed out earlier and is of the same definition.
    pub before: Option<&'a [u8]>,
}

/// What `append` writes.
#[derive(Clone, Copy)]
pub(crate) struct Version<'a> {
    pub sequence: u64,
    pub content: Content<'a>,
    /// Version of the table's definition.
    pub definition: u32,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn image_in(content: Content<'_>) -> &[u8] {
        match content {
            Content::Row(image) => image,
            _ => panic!("no row"),
        }
    }

    /// A hot row among others, read at an old sequence number: versions are moved out of emptied segments, several of
    /// one row out of the same segment, and every one that can be seen is found where its row's chain leads.
    #[test]
    fn versions_of_a_hot_row_survive_that_their_segments_are_emptied() {
        const HOT: u64 = 7;
        let mut table = LaneTable::default();
        let image = |sequence: u64| vec![sequence as u8; 100];
        let put = |table: &mut LaneTable, row: u64, sequence: u64, needed: u64| {
            let (key, image) = (row.to_le_bytes(), image(sequence));
            let version = Version { sequence, content: Content::Row(&image), definition: 0 };
            let found = table.find(row, &key);
            table.append(found, row, &key, version, needed, true);
        };
        let mut last = [0u64; 500];
        let mut hot = Vec::new();
        let mut needed = 0;
        for sequence in 1..=120_000u64 {
            // The hot row with every second change; what is needed moves in steps, a thousand versions behind.
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
                    assert_eq!(image_in(got.1), image(seen(at)), "at {at} of {sequence}");
                }
            }
        }
        for id in (0..500u64).filter(|id| last[*id as usize] > 0) {
            let got = table.get(id, &id.to_le_bytes(), u64::MAX).unwrap();
            assert_eq!(image_in(got.1), image(last[id as usize]), "row {id}");
        }
        // 120,000 versions were 17 MB.
        let (taken, _) = table.bytes();
        assert!(taken < 6 << 20, "{taken} bytes are kept");
    }
}
