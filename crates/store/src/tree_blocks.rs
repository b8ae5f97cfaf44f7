//! Blocks of lsm-tree's files, read in place.
//!
//! In: the bytes of a data block or an index block as lsm-tree 3.1.10 writes them (that version is pinned). Out: where an
//! entry, its key and its value lie. Never here: a copy of a key or value, an allocation; an index out of bounds, whatever
//! the bytes are.
//!
//! A block is a sequence of entries ordered by key and, for one key, from the newest number to the oldest. Every
//! `restart_interval`-th entry is a head, which holds its whole key; the others share a prefix with the head before them.
//! After the entries come a marker byte, the offsets of the heads, and a trailer of fixed size. lsm-tree's own readers box
//! iterators, join the two parts of each key they return, and take 6,000 instructions to find a row.

use std::cmp::Ordering;
use std::ops::Range;

use lsm_tree::table::{BlockHandle, BlockOffset};

/// The bytes are no block.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Malformed;

type Parsed<T> = Result<T, Malformed>;

/// First byte after the last entry; no entry begins with it.
const END_MARKER: u8 = 255;
/// Restart interval, step of the binary index, its length and offset, those of the hash index, flags, number of entries.
const TRAILER_LEN: usize = 31;

const VALUE: u8 = 0;
const TOMBSTONE: u8 = 1;
const WEAK_TOMBSTONE: u8 = 2;

/// An entry of a data block, as offsets into the block.
#[derive(Clone, Debug, Default)]
pub(crate) struct Entry {
    /// Number of the write, relative to the file's own.
    pub number: u64,
    pub is_tombstone: bool,
    /// Bytes that its key shares with the head's.
    shared: usize,
    /// The rest of its key.
    rest: Range<usize>,
    pub value: Range<usize>,
    /// Offset of the next entry.
    next: usize,
}

/// An entry and what is needed to read on from it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Place {
    pub entry: Entry,
    /// The key of the head before it, or its own.
    head: Range<usize>,
    /// Entries from here to the next head.
    until_head: usize,
}

/// A block whose trailer was read.
#[derive(Clone, Copy)]
pub(crate) struct BlockView<'a> {
    bytes: &'a [u8],
    /// Offsets of the heads, `step` bytes each.
    heads: &'a [u8],
    step: usize,
    restart_interval: usize,
}

impl<'a> BlockView<'a> {
    pub(crate) fn of(bytes: &'a [u8]) -> Parsed<BlockView<'a>> {
        let trailer = bytes.len().checked_sub(TRAILER_LEN).and_then(|at| bytes.get(at..)).ok_or(Malformed)?;
        let [interval, step, len @ ..] = trailer else { return Err(Malformed) };
        let (len, offset) = (u32_at(len, 0)?, u32_at(len, 4)?);
        let step = usize::from(*step);
        if *interval == 0 || !matches!(step, 2 | 4) || len == 0 {
            return Err(Malformed);
        }
        let end = len.checked_mul(step).and_then(|size| offset.checked_add(size)).ok_or(Malformed)?;
        let heads = bytes.get(offset..end).ok_or(Malformed)?;
        Ok(BlockView { bytes, heads, step, restart_interval: usize::from(*interval) })
    }

    fn head_count(&self) -> usize {
        self.heads.len() / self.step
    }

    #[inline]
    fn head(&self, at: usize) -> Parsed<usize> {
        let offset = self.heads.get(at * self.step..(at + 1) * self.step).ok_or(Malformed)?;
        match offset {
            [low, high] => Ok(usize::from(u16::from_le_bytes([*low, *high]))),
            _ => u32_at(offset, 0),
        }
    }

    /// Number of heads for which `precedes` holds; it holds for those at the front.
    #[inline]
    fn partition(&self, mut precedes: impl FnMut(usize) -> Parsed<bool>) -> Parsed<usize> {
        let (mut low, mut high) = (0, self.head_count());
        while low < high {
            let middle = low.midpoint(high);
            if precedes(self.head(middle)?)? {
                low = middle + 1;
            } else {
                high = middle;
            }
        }
        Ok(low)
    }

    /// The entry of a data block at an offset; None at the end of the block.
    #[inline]
    fn entry(&self, at: usize, is_head: bool) -> Parsed<Option<Entry>> {
        let mut at = at;
        let kind = *self.bytes.get(at).ok_or(Malformed)?;
        if kind == END_MARKER {
            return Ok(None);
        }
        at += 1;
        let number = varint(self.bytes, &mut at)?;
        let shared = if is_head { 0 } else { length(self.bytes, &mut at)? };
        let rest = span(self.bytes, &mut at)?;
        let is_tombstone = match kind {
            VALUE => false,
            TOMBSTONE | WEAK_TOMBSTONE => true,
            _ => return Err(Malformed),
        };
        let value = if is_tombstone { at..at } else { span(self.bytes, &mut at)? };
        Ok(Some(Entry { number, is_tombstone, shared, rest, value, next: at }))
    }

    #[inline]
    fn bytes_of(&self, range: &Range<usize>) -> Parsed<&'a [u8]> {
        self.bytes.get(range.clone()).ok_or(Malformed)
    }

    /// The first entry of a data block that is not before `key` at a number: a greater key, or this one with a smaller
    /// number. Also returns whether it is this key. None if all entries are before it.
    pub(crate) fn find(&self, key: &[u8], number: u64) -> Parsed<Option<(Place, bool)>> {
        let is_before = |order: Ordering, of: u64| match order {
            Ordering::Less => true,
            Ordering::Equal => of >= number,
            Ordering::Greater => false,
        };
        let heads = self.partition(|at| {
            let (of, key_at) = self.front(at)?;
            let (head, _) = self.rest(key_at)?;
            Ok(is_before(self.bytes_of(&head)?.cmp(key), of))
        })?;
        // Read from the last head before it, entry by entry: a search looks at many, so only what decides is parsed.
        let mut at = self.head(heads.saturating_sub(1))?;
        let (mut head, mut head_shares, mut until_head) = (0..0, 0, 0);
        loop {
            let entry = at;
            let kind = *self.bytes.get(entry).ok_or(Malformed)?;
            if kind == END_MARKER {
                return Ok(None);
            }
            if kind > WEAK_TOMBSTONE {
                return Err(Malformed);
            }
            let (of, mut rest_at) = self.front(entry)?;
            let is_head = until_head == 0;
            let shared = if is_head { 0 } else { length(self.bytes, &mut rest_at)? };
            let (rest, end) = self.rest(rest_at)?;
            if is_head {
                head_shares = common_prefix(self.bytes_of(&rest)?, key);
                (head, until_head) = (rest.clone(), self.restart_interval);
            }
            until_head -= 1;
            // A key that shares more with its head than the wanted key does is on the same side of it as the head, which is
            // before it. Otherwise the wanted key has the same prefix.
            let order = match (shared > head_shares, self.bytes_of(&rest)?, key.get(shared..)) {
                (true, ..) => Ordering::Less,
                (_, [rest, ..], Some([wanted, ..])) if rest != wanted => rest.cmp(wanted),
                (_, rest, wanted) => rest.cmp(wanted.ok_or(Malformed)?),
            };
            if !is_before(order, of) {
                let entry = self.entry(entry, is_head)?.ok_or(Malformed)?;
                return Ok(Some((Place { entry, head, until_head }, order.is_eq())));
            }
            at = end;
            if kind == VALUE {
                at = span(self.bytes, &mut at)?.end;
            }
        }
    }

    /// Of an entry: its number, and the offset of what follows.
    #[inline]
    fn front(&self, at: usize) -> Parsed<(u64, usize)> {
        let mut at = at + 1;
        let number = varint(self.bytes, &mut at)?;
        Ok((number, at))
    }

    /// A key after its length, and its end.
    #[inline]
    fn rest(&self, at: usize) -> Parsed<(Range<usize>, usize)> {
        let mut at = at;
        let key = span(self.bytes, &mut at)?;
        Ok((key, at))
    }

    /// The first entry of a data block.
    pub(crate) fn first(&self) -> Parsed<Option<Place>> {
        self.place(self.head(0)?)
    }

    fn place(&self, head: usize) -> Parsed<Option<Place>> {
        let entry = self.entry(head, true)?;
        Ok(entry.map(|entry| Place { head: entry.rest.clone(), until_head: self.restart_interval - 1, entry }))
    }

    /// Moves to the next entry; false at the end of the block.
    pub(crate) fn step_on(&self, place: &mut Place) -> Parsed<bool> {
        let is_head = place.until_head == 0;
        let Some(entry) = self.entry(place.entry.next, is_head)? else { return Ok(false) };
        if is_head {
            place.head = entry.rest.clone();
            place.until_head = self.restart_interval;
        }
        place.until_head -= 1;
        place.entry = entry;
        Ok(true)
    }

    /// Copies the key of an entry.
    pub(crate) fn copy_key(&self, place: &Place, key: &mut Vec<u8>) -> Parsed<()> {
        key.clear();
        if place.entry.shared > 0 {
            let head = self.bytes_of(&place.head)?;
            key.extend_from_slice(head.get(..place.entry.shared).ok_or(Malformed)?);
        }
        key.extend_from_slice(self.bytes_of(&place.entry.rest)?);
        Ok(())
    }

    /// Of an index block: position of the first entry whose block can hold a key at a number; None if all blocks are
    /// before it.
    pub(crate) fn find_block(&self, key: &[u8], number: u64) -> Parsed<Option<usize>> {
        let found = self.partition(|at| {
            Ok(match self.last_key_at(at)?.cmp(key) {
                Ordering::Less => true,
                Ordering::Equal => self.last_number_at(at)? >= number,
                Ordering::Greater => false,
            })
        })?;
        Ok((found < self.head_count()).then_some(found))
    }

    /// Of an index block: the block at a position; None after the last one.
    pub(crate) fn block(&self, position: usize) -> Parsed<Option<BlockHandle>> {
        if position >= self.head_count() {
            return Ok(None);
        }
        let mut at = self.head(position)? + 1;
        let offset = varint(self.bytes, &mut at)?;
        let size = u32::try_from(varint(self.bytes, &mut at)?).map_err(|_| Malformed)?;
        Ok(Some(BlockHandle::new(BlockOffset(offset), size)))
    }

    /// Of an entry of an index block, all of which are heads: the number of the last key of the block it names. An entry is
    /// a marker byte, the block's offset and size, this number, and that key.
    fn last_number_at(&self, at: usize) -> Parsed<u64> {
        let mut at = at + 1;
        varint(self.bytes, &mut at)?;
        varint(self.bytes, &mut at)?;
        varint(self.bytes, &mut at)
    }

    /// Of the same entry: the key. A search looks at many, so the three numbers before it are skipped by the bits that mark
    /// their last bytes.
    #[inline]
    fn last_key_at(&self, at: usize) -> Parsed<&'a [u8]> {
        const IS_LAST: u64 = 0x8080_8080_8080_8080;
        let mut at = at + 1;
        let eight = self.bytes.get(at..).and_then(|bytes| bytes.first_chunk::<8>());
        let mut ends = eight.map_or(0, |eight| !u64::from_le_bytes(*eight) & IS_LAST);
        for _ in 0..2 {
            ends &= ends.wrapping_sub(1);
        }
        if ends == 0 {
            for _ in 0..3 {
                varint(self.bytes, &mut at)?;
            }
        } else {
            at += base::to_usize(u64::from(ends.trailing_zeros() / 8)) + 1;
        }
        let last = span(self.bytes, &mut at)?;
        self.bytes_of(&last)
    }
}

fn u32_at(bytes: &[u8], at: usize) -> Parsed<usize> {
    let bytes = bytes.get(at..).and_then(|bytes| bytes.first_chunk::<4>()).ok_or(Malformed)?;
    Ok(base::to_usize(u64::from(u32::from_le_bytes(*bytes))))
}

/// LEB128, as lsm-tree writes lengths and numbers; most have one byte.
#[inline(always)]
fn varint(bytes: &[u8], at: &mut usize) -> Parsed<u64> {
    match bytes.get(*at) {
        Some(byte) if *byte < 0x80 => {
            *at += 1;
            Ok(u64::from(*byte))
        }
        Some(byte) => match bytes.get(*at + 1) {
            Some(second) if *second < 0x80 => {
                *at += 2;
                Ok(u64::from(*second) << 7 | u64::from(byte & 0x7f))
            }
            _ => long_varint(bytes, at),
        },
        None => Err(Malformed),
    }
}

#[inline(never)]
fn long_varint(bytes: &[u8], at: &mut usize) -> Parsed<u64> {
    let (mut value, mut shift) = (0, 0);
    loop {
        let byte = *bytes.get(*at).ok_or(Malformed)?;
        *at += 1;
        value |= u64::from(byte & 0x7f) << shift;
        if byte < 0x80 {
            return Ok(value);
        }
        shift += 7;
        if shift > 63 {
            return Err(Malformed);
        }
    }
}

#[inline]
fn length(bytes: &[u8], at: &mut usize) -> Parsed<usize> {
    // A length beyond the block is found by whoever slices with it.
    varint(bytes, at).map(base::to_usize)
}

/// A length and that many bytes.
#[inline]
fn span(bytes: &[u8], at: &mut usize) -> Parsed<Range<usize>> {
    let len = length(bytes, at)?;
    let end = at.checked_add(len).filter(|end| *end <= bytes.len()).ok_or(Malformed)?;
    let range = *at..end;
    *at = end;
    Ok(range)
}

fn common_prefix(one: &[u8], other: &[u8]) -> usize {
    one.iter().zip(other).take_while(|(one, other)| one == other).count()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    /// Reads all that can be read of a block; what matters is that it ends, and ends without a panic.
    fn read(bytes: &[u8], key: &[u8]) -> Parsed<usize> {
        let view = BlockView::of(bytes)?;
        let mut buffer = Vec::new();
        let mut entries = 0;
        let mut place = view.first()?;
        while let Some(mut at) = place.take() {
            view.copy_key(&at, &mut buffer)?;
            entries += 1;
            if view.step_on(&mut at)? {
                place = Some(at);
            }
        }
        view.find(key, 3)?;
        Ok(entries)
    }

    fn read_index(bytes: &[u8], key: &[u8]) -> Parsed<Option<usize>> {
        let view = BlockView::of(bytes)?;
        let position = view.find_block(key, 3)?;
        view.block(position.unwrap_or(0))?;
        Ok(position)
    }

    /// Two heads with one more entry each, as lsm-tree writes them: keys ab, abc, b (removed), c.
    fn block() -> Vec<u8> {
        let mut bytes = Vec::new();
        bytes.extend_from_slice(&[0, 5, 2, b'a', b'b', 1, b'1']);
        bytes.extend_from_slice(&[0, 4, 2, 1, b'c', 2, b'2', b'2']);
        let second = bytes.len() as u8;
        bytes.extend_from_slice(&[1, 3, 1, b'b']);
        bytes.extend_from_slice(&[0, 2, 0, 1, b'c', 0]);
        bytes.push(END_MARKER);
        let index = bytes.len() as u32;
        bytes.extend_from_slice(&[0, 0, second, 0]);
        bytes.extend_from_slice(&[2, 2]);
        for number in [2, index, 0, 0] {
            bytes.extend_from_slice(&number.to_le_bytes());
        }
        bytes.extend_from_slice(&[1, 0, 0, 0, 0, 0, 0, 0, 0]);
        bytes.extend_from_slice(&4u32.to_le_bytes());
        bytes
    }

    #[test]
    fn keys_are_found_at_their_numbers() {
        let bytes = block();
        let view = BlockView::of(&bytes).unwrap();
        let found = |key: &str, number| {
            let (place, is_this) = view.find(key.as_bytes(), number).unwrap()?;
            let mut key = Vec::new();
            view.copy_key(&place, &mut key).unwrap();
            let value = String::from_utf8_lossy(&bytes[place.entry.value.clone()]).into_owned();
            Some((String::from_utf8(key).unwrap(), value, is_this, place.entry.is_tombstone))
        };
        let is =
            |key: &str, value: &str, is_this, is_tombstone| Some((key.into(), value.into(), is_this, is_tombstone));
        assert_eq!(found("ab", 9), is("ab", "1", true, false));
        assert_eq!(found("ab", 5), is("abc", "22", false, false));
        assert_eq!(found("abc", 9), is("abc", "22", true, false));
        assert_eq!(found("a", 9), is("ab", "1", false, false));
        assert_eq!(found("abd", 9), is("b", "", false, true));
        assert_eq!(found("b", 9), is("b", "", true, true));
        assert_eq!(found("c", 9), is("c", "", true, false));
        assert_eq!(found("c", 2), None);
        assert_eq!(found("d", 9), None);
        assert_eq!(read(&bytes, b"b"), Ok(4));
    }

    proptest! {
        #[test]
        fn damaged_blocks_are_refused_or_read_to_an_end(
            changes in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>()), 0..6),
            keep in any::<prop::sample::Index>(),
            key in prop::collection::vec(97u8..101, 0..4),
        ) {
            let mut bytes = block();
            for (at, byte) in changes {
                let at = at.index(bytes.len());
                bytes[at] = byte;
            }
            let _ = read(&bytes, &key);
            let _ = read_index(&bytes, &key);
            bytes.truncate(keep.index(bytes.len()));
            let _ = read(&bytes, &key);
        }
    }
}
