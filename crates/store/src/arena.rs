//! Append-only segments of versions, with a count of dead bytes per segment.
//!
//! In: records. Out: references that stay valid until the record is marked dead and its segment is emptied. Never here:
//! the decision which record is dead (the table makes it).

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use crate::expectation::Expected;

/// Location of a record: segment in the high half, offset in the low half. Zero is no record.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(crate) struct RecordRef(u64);

impl RecordRef {
    pub(crate) const NONE: RecordRef = RecordRef(0);

    fn new(segment: usize, offset: usize) -> RecordRef {
        RecordRef(((segment as u64 + 1) << 32) | offset as u64)
    }

    pub(crate) fn as_u64(self) -> u64 {
        self.0
    }

    /// Restores a reference from `as_u64`.
    pub(crate) fn from_u64(place: u64) -> RecordRef {
        RecordRef(place)
    }

    pub(crate) fn is_none(self) -> bool {
        self.0 == 0
    }

    pub(crate) fn segment(self) -> usize {
        (self.0 >> 32) as usize - 1
    }

    fn offset(self) -> usize {
        (self.0 & 0xffff_ffff) as usize
    }
}

/// Fixed header of a record; key and image follow.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Header {
    /// The next older version.
    pub prev: RecordRef,
    /// Sequence number of the transaction that wrote it.
    pub sequence: u64,
    /// Slot of its row.
    pub slot: u32,
    pub key_len: u32,
    pub image_len: u32,
    /// The row is deleted.
    pub deleted: bool,
    /// The image holds only some columns: see `delta`.
    pub delta: bool,
    /// What the log says of the row below this generation.
    pub expected: Expected,
    /// Version of the table's definition that the image was written under; below 2^28.
    pub definition: u32,
    /// No reader can see it any more, and no chain leads to it.
    pub dead: bool,
}

/// Highest bit of the key's length: the record is dead. Keys are far shorter.
const DEAD: u32 = 1 << 31;
/// Offset of the key's length.
const KEY_LEN_AT: usize = 20;

/// Lowest bits of the last field: the row is deleted; the image holds some columns; two bits of what is expected. The
/// other bits are the definition's version.
const DELETED: u32 = 1;
const DELTA: u32 = 2;
const EXPECTED_SHIFT: u32 = 2;
const DEFINITION_SHIFT: u32 = 4;

const HEADER_LEN: usize = 32;
const SEGMENT_BYTES_MIN: usize = 4 << 10;

impl Header {
    #[inline]
    fn read(bytes: &[u8; HEADER_LEN]) -> Header {
        let u64_at = |i: usize| u64::from_le_bytes(std::array::from_fn(|k| bytes[i + k]));
        let u32_at = |i: usize| u32::from_le_bytes(std::array::from_fn(|k| bytes[i + k]));
        Header {
            prev: RecordRef(u64_at(0)),
            sequence: u64_at(8),
            slot: u32_at(16),
            key_len: u32_at(KEY_LEN_AT) & !DEAD,
            image_len: u32_at(24),
            deleted: u32_at(28) & DELETED != 0,
            delta: u32_at(28) & DELTA != 0,
            expected: Expected::of_bits(u32_at(28) >> EXPECTED_SHIFT),
            definition: u32_at(28) >> DEFINITION_SHIFT,
            dead: u32_at(KEY_LEN_AT) & DEAD != 0,
        }
    }

    fn write(&self) -> [u8; HEADER_LEN] {
        let mut out = [0; HEADER_LEN];
        out[0..8].copy_from_slice(&self.prev.0.to_le_bytes());
        out[8..16].copy_from_slice(&self.sequence.to_le_bytes());
        out[16..20].copy_from_slice(&self.slot.to_le_bytes());
        let dead = if self.dead { DEAD } else { 0 };
        out[KEY_LEN_AT..KEY_LEN_AT + 4].copy_from_slice(&(self.key_len | dead).to_le_bytes());
        out[24..28].copy_from_slice(&self.image_len.to_le_bytes());
        let flags = if self.deleted { DELETED } else { 0 } | if self.delta { DELTA } else { 0 };
        let flags = flags | self.expected.bits() << EXPECTED_SHIFT;
        out[28..32].copy_from_slice(&(self.definition << DEFINITION_SHIFT | flags).to_le_bytes());
        out
    }

    fn record_len(&self) -> usize {
        HEADER_LEN + self.key_len as usize + self.image_len as usize
    }
}

#[derive(Default)]
struct Segment {
    bytes: Vec<u8>,
    dead: usize,
    /// Numbers the arena's segments from 1: a later segment has later records.
    serial: u64,
}

/// Position of a reader that walks the records in the order they were written.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Cursor {
    serial: u64,
    /// Index of that segment, if it still exists.
    index: usize,
    offset: usize,
}

/// The segments of one table in one lane.
pub(crate) struct Arena {
    segments: Vec<Segment>,
    free: Vec<usize>,
    active: Option<usize>,
    used: usize,
    dead: usize,
    capacity: usize,
    serials: u64,
    pool: Arc<SegmentPool>,
}

/// Unused segments, shared by the arenas of one store: their memory is already mapped, whereas a fresh segment costs a
/// page fault every 4 KiB.
#[derive(Debug)]
pub(crate) struct SegmentPool {
    spare: Mutex<Vec<Vec<u8>>>,
    /// Largest regular segment size of an arena; only segments of this size are kept.
    segment_bytes: usize,
    spare_bytes_max: AtomicUsize,
}

/// Largest segment of a long-lived arena: fewer segments to search for dead ones. Large enough that the allocator maps
/// each on its own and unmaps it on free.
const LASTING_SEGMENT_BYTES: usize = 1 << 20;
const _: () = assert!(PASSING_SEGMENT_BYTES <= LASTING_SEGMENT_BYTES && LASTING_SEGMENT_BYTES < DEAD as usize);
const _: () = assert!(SEGMENT_BYTES_MIN <= PASSING_SEGMENT_BYTES && SEGMENT_BYTES_MIN > HEADER_LEN);
const _: () = assert!(KEY_LEN_AT + 4 <= HEADER_LEN);

/// Largest segment of an arena that ends with a cut: 16 lanes of 30 tables reserve 15 MB that no record fills yet.
const PASSING_SEGMENT_BYTES: usize = 64 << 10;

impl SegmentPool {
    /// For the arenas of a store with cuts; [`SegmentPool::keep`] sets how much it keeps.
    pub(crate) fn passing() -> SegmentPool {
        SegmentPool { spare: Mutex::default(), segment_bytes: PASSING_SEGMENT_BYTES, spare_bytes_max: 0.into() }
    }

    /// Sets the limit on kept bytes.
    pub(crate) fn keep(&self, bytes_max: usize) {
        self.spare_bytes_max.store(bytes_max, Ordering::Relaxed);
        let mut spare = self.lock();
        spare.truncate(bytes_max / self.segment_bytes);
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Vec<Vec<u8>>> {
        self.spare.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn take(&self, size: usize) -> Vec<u8> {
        let spare = if size == self.segment_bytes { self.lock().pop() } else { None };
        spare.unwrap_or_else(|| Vec::with_capacity(size))
    }

    fn put(&self, emptied: impl Iterator<Item = Vec<u8>>) {
        let mut spare = self.lock();
        for mut bytes in emptied.filter(|bytes| bytes.capacity() == self.segment_bytes) {
            if (spare.len() + 1) * self.segment_bytes > self.spare_bytes_max.load(Ordering::Relaxed) {
                return;
            }
            bytes.clear();
            spare.push(bytes);
        }
    }
}

impl Default for SegmentPool {
    /// For the arenas of an in-memory store.
    fn default() -> SegmentPool {
        let segment_bytes = LASTING_SEGMENT_BYTES;
        SegmentPool { spare: Mutex::default(), segment_bytes, spare_bytes_max: (16 * segment_bytes).into() }
    }
}

impl Default for Arena {
    fn default() -> Arena {
        Arena::of(&Arc::default())
    }
}

impl Drop for Arena {
    fn drop(&mut self) {
        self.pool.put(self.segments.drain(..).map(|segment| segment.bytes));
    }
}

impl Arena {
    /// Takes its segments from a pool and returns them to it.
    pub(crate) fn of(pool: &Arc<SegmentPool>) -> Arena {
        Arena {
            segments: Vec::new(),
            free: Vec::new(),
            active: None,
            used: 0,
            dead: 0,
            capacity: 0,
            serials: 0,
            pool: Arc::clone(pool),
        }
    }

    pub(crate) fn push(&mut self, header: &Header, key: &[u8], image: &[u8]) -> RecordRef {
        let len = header.record_len();
        debug_assert_eq!(len, HEADER_LEN + key.len() + image.len());
        debug_assert!(header.definition < 1 << 30, "the definition's version shares its field with two flags");
        assert!(len < DEAD as usize, "a record of {len} bytes: its lengths would not fit their fields");
        let index = self.room_for(len);
        let segment = &mut self.segments[index];
        let offset = segment.bytes.len();
        segment.bytes.extend_from_slice(&header.write());
        segment.bytes.extend_from_slice(key);
        segment.bytes.extend_from_slice(image);
        self.used += len;
        RecordRef::new(index, offset)
    }

    fn room_for(&mut self, len: usize) -> usize {
        if let Some(active) = self.active {
            let bytes = &self.segments[active].bytes;
            if bytes.capacity() - bytes.len() >= len {
                return active;
            }
        }
        let size = self.capacity.clamp(SEGMENT_BYTES_MIN, self.pool.segment_bytes).max(len);
        self.serials += 1;
        let bytes = self.pool.take(size);
        self.capacity += bytes.capacity();
        let segment = Segment { bytes, dead: 0, serial: self.serials };
        let index = match self.free.pop() {
            Some(index) => {
                self.segments[index] = segment;
                index
            }
            None => {
                self.segments.push(segment);
                self.segments.len() - 1
            }
        };
        self.active = Some(index);
        index
    }

    /// The header of a record.
    #[inline]
    pub(crate) fn header(&self, at: RecordRef) -> Header {
        let bytes = &self.segments[at.segment()].bytes[at.offset()..];
        match bytes.first_chunk::<HEADER_LEN>() {
            Some(chunk) => Header::read(chunk),
            // Only `push` creates references, and records are never truncated.
            None => unreachable!("record reference outside its segment"),
        }
    }

    /// Reads one byte of a record's header and one byte after it, to bring both into the cache.
    #[inline]
    pub(crate) fn touch(&self, at: RecordRef) -> u8 {
        let bytes = &self.segments[at.segment()].bytes[at.offset()..];
        let byte = |at: usize| bytes.get(at).copied().unwrap_or(0);
        byte(0) ^ byte(HEADER_LEN + 32)
    }

    /// Key and image of a record.
    #[inline]
    pub(crate) fn body(&self, at: RecordRef, header: &Header) -> (&[u8], &[u8]) {
        let start = at.offset() + HEADER_LEN;
        let bytes =
            &self.segments[at.segment()].bytes[start..start + header.key_len as usize + header.image_len as usize];
        bytes.split_at(header.key_len as usize)
    }

    /// Relinks a record to another older version.
    pub(crate) fn set_prev(&mut self, at: RecordRef, prev: RecordRef) {
        let offset = at.offset();
        self.segments[at.segment()].bytes[offset..offset + 8].copy_from_slice(&prev.0.to_le_bytes());
    }

    /// Marks a record as dead and counts its bytes.
    pub(crate) fn mark_dead(&mut self, at: RecordRef, header: &Header) {
        let len = header.record_len();
        let segment = &mut self.segments[at.segment()];
        // The field is little-endian, so its highest bit is in the last of its four bytes.
        segment.bytes[at.offset() + KEY_LEN_AT + 3] |= (DEAD >> 24) as u8;
        segment.dead += len;
        self.dead += len;
    }

    /// Bytes taken from the allocator, and how many of them are dead.
    pub(crate) fn bytes(&self) -> (usize, usize) {
        (self.capacity, self.dead)
    }

    /// The segment most worth emptying, once more than half of all used bytes are dead: the one with the largest dead
    /// share.
    pub(crate) fn victim(&self) -> Option<usize> {
        if self.dead < LASTING_SEGMENT_BYTES || self.dead * 2 < self.used {
            return None;
        }
        let mut best = None;
        for (index, segment) in self.segments.iter().enumerate() {
            if Some(index) == self.active || segment.bytes.is_empty() {
                continue;
            }
            let share = segment.dead as f64 / segment.bytes.len() as f64;
            if best.is_none_or(|(_, most)| share > most) {
                best = Some((index, share));
            }
        }
        best.map(|(index, _)| index)
    }

    /// The first live record of a segment from `offset` on, and the offset after it.
    pub(crate) fn next_live(&self, segment: usize, mut offset: usize) -> Option<(RecordRef, Header, usize)> {
        let Segment { bytes, dead, .. } = &self.segments[segment];
        if *dead == bytes.len() {
            return None;
        }
        while offset < bytes.len() {
            let at = RecordRef::new(segment, offset);
            let header = self.header(at);
            offset += header.record_len();
            if !header.dead {
                return Some((at, header, offset));
            }
        }
        None
    }

    /// The next record in the order they were written; moved records count from when they were moved.
    pub(crate) fn next_record(&self, cursor: &mut Cursor) -> Option<RecordRef> {
        let there = self.segments.get(cursor.index).filter(|segment| segment.serial == cursor.serial);
        if there.is_none_or(|segment| cursor.offset >= segment.bytes.len()) {
            // Only the segment with the highest number grows, so this one is finished.
            let later = self.segments.iter().enumerate().filter(|(_, segment)| segment.serial > cursor.serial);
            let (index, segment) = later.min_by_key(|(_, segment)| segment.serial)?;
            if segment.bytes.is_empty() {
                return None;
            }
            *cursor = Cursor { serial: segment.serial, index, offset: 0 };
        }
        let index = cursor.index;
        let at = RecordRef::new(index, cursor.offset);
        cursor.offset += self.header(at).record_len();
        Some(at)
    }

    /// Whether `next_record` returns `one` before `other`.
    pub(crate) fn is_before(&self, one: RecordRef, other: RecordRef) -> bool {
        let order = |at: RecordRef| (self.segments[at.segment()].serial, at.offset());
        order(one) < order(other)
    }

    /// Copies a record to the end of the active segment and marks the old one as dead.
    pub(crate) fn relocate(&mut self, at: RecordRef) -> RecordRef {
        let header = self.header(at);
        let (key, image) = self.body(at, &header);
        let (key, image) = (key.to_vec(), image.to_vec());
        let to = self.push(&header, &key, &image);
        self.mark_dead(at, &header);
        to
    }

    /// Releases an emptied segment.
    pub(crate) fn release(&mut self, segment: usize) {
        let old = std::mem::take(&mut self.segments[segment]);
        debug_assert_eq!(old.dead, old.bytes.len(), "a live version is in a segment given back");
        self.used -= old.bytes.len();
        self.dead -= old.dead;
        self.capacity -= old.bytes.capacity();
        self.pool.put(std::iter::once(old.bytes));
        self.free.push(segment);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fill(arena: &mut Arena, bytes: usize) {
        let image = [7; 1000];
        for sequence in 0..(bytes / 1000) as u64 {
            let header = Header {
                prev: RecordRef::NONE,
                sequence,
                slot: 0,
                key_len: 4,
                image_len: image.len() as u32,
                deleted: false,
                delta: false,
                expected: Expected::Unknown,
                definition: 0,
                dead: false,
            };
            let at = arena.push(&header, &[1, 2, 3, 4], &image);
            assert_eq!(arena.body(at, &arena.header(at)), (&[1, 2, 3, 4][..], &image[..]));
        }
    }

    #[test]
    fn segments_of_arenas_that_ended_are_used_again_as_far_as_they_may_be_kept() {
        let pool = Arc::new(SegmentPool::passing());
        let spare = |pool: &SegmentPool| pool.lock().len();
        let mut arena = Arena::of(&pool);
        fill(&mut arena, 1 << 20);
        drop(arena);
        assert_eq!(spare(&pool), 0, "nobody said that any may be kept");
        pool.keep(4 * PASSING_SEGMENT_BYTES + 1);
        let mut arena = Arena::of(&pool);
        fill(&mut arena, 1 << 20);
        drop(arena);
        assert_eq!(spare(&pool), 4);
        let mut arena = Arena::of(&pool);
        fill(&mut arena, 200_000);
        assert!(spare(&pool) < 4);
        pool.keep(PASSING_SEGMENT_BYTES);
        assert_eq!(spare(&pool), 1);
        drop(arena);
        assert_eq!(spare(&pool), 1);
    }
}
