//! Mapping of rows to lanes: one rule for the decoder, which sorts rows, and the store, which finds them.

/// Hash of a row's identifying key. Seeded with the table id, so that equal keys of different tables spread.
#[inline]
#[must_use]
pub fn key_hash(table: u32, key: &[u8]) -> u64 {
    xxhash_rust::xxh3::xxh3_64_with_seed(key, u64::from(table))
}

/// Lane of a key hash; `lanes` is a power of two. Uses bits from the middle, because the hash table of a lane uses both
/// ends.
#[inline]
#[must_use]
pub fn lane_of(hash: u64, lanes: usize) -> usize {
    (hash >> 36) as usize & (lanes - 1)
}
