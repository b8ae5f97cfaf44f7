//! State of rows below a generation, as far as secondary indexes need it: which of their entries the cut removes.
//!
//! In: the first change of an indexed column, the first insertion of a row. Out: per slot, what the layers below hold.
//! Never here: tables without secondary indexes; more of the row below than its sort keys.

use catalog::{IndexSet, remembered_sort_key};

use crate::error::StoreError;

/// Sort keys of a row in the layers below a generation: the entries that a change of the row removes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KeysBelow<'a> {
    /// A row with the same sort keys in all indexes, or a row that was never looked up.
    Same,
    Absent,
    /// A row with these sort keys, as `IndexSet::append_all` writes them.
    Keys(&'a [u8]),
}

/// As `KeysBelow`, with the keys in a separate buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum KeysBelowKind {
    Same,
    Absent,
    Keys,
}

impl KeysBelowKind {
    pub(crate) fn of(below: KeysBelow<'_>, keys: &mut Vec<u8>) -> KeysBelowKind {
        keys.clear();
        match below {
            KeysBelow::Same => KeysBelowKind::Same,
            KeysBelow::Absent => KeysBelowKind::Absent,
            KeysBelow::Keys(bytes) => {
                keys.extend_from_slice(bytes);
                KeysBelowKind::Keys
            }
        }
    }
}

const SAME: u64 = 0;
const ABSENT: u64 = 1;
const BLOCK_BYTES_MIN: usize = 4 << 10;
const BLOCK_BYTES_MAX: usize = 1 << 20;
/// Largest offset that a place can address: sort keys of 64 indexes are far shorter.
const KEYS_BYTES_MAX: usize = u32::MAX as usize;

const _: () = assert!(BLOCK_BYTES_MIN <= BLOCK_BYTES_MAX && BLOCK_BYTES_MAX <= KEYS_BYTES_MAX);

/// [`KeysBelow`] of one table's slots in one lane.
#[derive(Default)]
pub(crate) struct SlotKeysBelow {
    /// By slot: `SAME`, `ABSENT`, or block + 1 in the high half and offset in the low half.
    places: Vec<u64>,
    /// Each entry: length (4 bytes), bytes.
    blocks: Vec<Vec<u8>>,
    capacity: usize,
}

impl SlotKeysBelow {
    pub(crate) fn get(&self, slot: u32) -> KeysBelow<'_> {
        match self.places.get(slot as usize).copied().unwrap_or(SAME) {
            SAME => KeysBelow::Same,
            ABSENT => KeysBelow::Absent,
            place => {
                let (block, at) = ((place >> 32) as usize - 1, (place & 0xffff_ffff) as usize);
                match self.keys_at(block, at) {
                    Some(keys) => KeysBelow::Keys(keys),
                    None => panic!("slot {slot}: no sort keys at {at} of block {block}, where `keep` put them"),
                }
            }
        }
    }

    fn keys_at(&self, block: usize, at: usize) -> Option<&[u8]> {
        let (len, rest) = self.blocks.get(block)?.get(at..)?.split_first_chunk::<4>()?;
        rest.get(..u32::from_le_bytes(*len) as usize)
    }

    pub(crate) fn set(&mut self, slot: u32, below: KeysBelow<'_>) {
        let place = match below {
            KeysBelow::Same => SAME,
            KeysBelow::Absent => ABSENT,
            KeysBelow::Keys(keys) => self.keep(keys),
        };
        let slot = slot as usize;
        if self.places.len() <= slot {
            self.places.resize(slot + 1, SAME);
        }
        if let Some(entry) = self.places.get_mut(slot) {
            *entry = place;
        }
    }

    fn keep(&mut self, keys: &[u8]) -> u64 {
        let len = keys.len() + 4;
        assert!(len <= KEYS_BYTES_MAX, "{len} bytes of sort keys of one row");
        if self.blocks.last().is_none_or(|block| block.capacity() - block.len() < len) {
            let size = self.capacity.clamp(BLOCK_BYTES_MIN, BLOCK_BYTES_MAX).max(len);
            self.blocks.push(Vec::with_capacity(size));
            self.capacity += size;
        }
        let Some(block) = self.blocks.last_mut() else { panic!("a block was pushed where there was none") };
        let at = block.len();
        block.extend_from_slice(&crate::short(keys.len()).to_le_bytes());
        block.extend_from_slice(keys);
        (self.blocks.len() as u64) << 32 | at as u64
    }

    /// Bytes taken from the allocator.
    pub(crate) fn bytes(&self) -> usize {
        self.capacity + self.places.capacity() * size_of::<u64>()
    }
}

/// Sort keys of a row's entry to remove and to add in one index; both are None if nothing changes.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct EntryChange<'a> {
    pub goes: Option<&'a [u8]>,
    pub comes: Option<&'a [u8]>,
}

/// Change to a row's entry in one index: `below` is the row below, `image` the row now.
pub(crate) fn entry_change<'a>(
    indexes: &IndexSet,
    index: &catalog::Index,
    (below, keys): (KeysBelowKind, &'a [u8]),
    image: Option<&[u8]>,
    new: &'a mut Vec<u8>,
    damaged: &dyn Fn() -> StoreError,
) -> Result<EntryChange<'a>, StoreError> {
    let old = match below {
        KeysBelowKind::Same => return Ok(EntryChange::default()),
        KeysBelowKind::Absent => None,
        KeysBelowKind::Keys => Some(remembered_sort_key(keys, index.id()).ok_or_else(damaged)?),
    };
    let Some(image) = image else { return Ok(EntryChange { goes: old, comes: None }) };
    new.clear();
    indexes.append(index, image, new).map_err(|_| damaged())?;
    if old == Some(new.as_slice()) {
        return Ok(EntryChange::default());
    }
    Ok(EntryChange { goes: old, comes: Some(new) })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_below_are_kept_by_slot() {
        let mut kept = SlotKeysBelow::default();
        assert_eq!(kept.get(7), KeysBelow::Same);
        let long = vec![9; BLOCK_BYTES_MIN + 1];
        for slot in 0..3000u32 {
            match slot % 4 {
                0 => kept.set(slot, KeysBelow::Absent),
                1 => kept.set(slot, KeysBelow::Keys(&slot.to_le_bytes())),
                2 if slot % 1000 == 2 => kept.set(slot, KeysBelow::Keys(&long)),
                _ => {}
            }
        }
        for slot in 0..3000u32 {
            let expected = slot.to_le_bytes();
            let expected = match slot % 4 {
                0 => KeysBelow::Absent,
                1 => KeysBelow::Keys(&expected),
                2 if slot % 1000 == 2 => KeysBelow::Keys(&long),
                _ => KeysBelow::Same,
            };
            assert_eq!(kept.get(slot), expected);
        }
        assert!(kept.bytes() > 3000 * 8);
    }
}
