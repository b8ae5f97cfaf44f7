//! Which lane a row belongs to: one rule for the decoder that sorts rows and the store that finds them.

/// Hash of a row's identifying key. The table is part of it, so that equal keys of different tables spread.
#[inline]
#[must_use]
pub fn key_hash(table: u32, key: &[u8]) -> u64 {
    xxhash_rust::xxh3::xxh3_64_with_seed(key, u64::from(table))
}

/// The lane of a key hash; `lanes` is a power of two. Bits from the middle: the hash table of a lane uses the ends.
#[inline]
#[must_use]
pub fn lane_of(hash: u64, lanes: usize) -> usize {
    (hash >> 36) as usize & (lanes - 1)
}
