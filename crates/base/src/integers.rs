//! Integer conversions that rely on the width of `usize`.

const _: () = assert!(usize::BITS == 64, "lengths and positions of 64 bits are used as indexes");

/// Converts a 64-bit length or position to an index. Exact, because this program builds for 64-bit targets only.
#[must_use]
#[inline]
#[allow(clippy::cast_possible_truncation, reason = "usize has 64 bits, asserted above")]
pub const fn to_usize(value: u64) -> usize {
    value as usize
}
