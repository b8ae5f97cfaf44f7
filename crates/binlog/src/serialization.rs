//! Variable-length integers of MySQL's serialization library (libs/mysql/serialization/readme.md), which the
//! Gtid_tagged event consists of.
//!
//! A number takes 1 to 9 bytes. The count of trailing one bits in the first byte says how many bytes follow; the value
//! is above those marker bits, little endian. If the first byte is all ones, the raw 64 bits follow.

use crate::BinlogError;
use crate::cursor::Cursor;

#[inline]
pub(crate) fn unsigned(from: &mut Cursor<'_>, field: &'static str) -> Result<u64, BinlogError> {
    let first = from.u8(field)?;
    let following = first.trailing_ones();
    if following >= 8 {
        return from.u64(field);
    }
    let mut bytes = [0; 8];
    for (to, byte) in bytes.iter_mut().zip(from.bytes(following as usize, field)?) {
        *to = *byte;
    }
    let high = u64::from_le_bytes(bytes);
    let low_bits = 7 - following;
    let low = u64::from(first >> (following + 1).min(7)) & ((1 << low_bits) - 1);
    Ok(low | (high << low_bits))
}

#[inline]
pub(crate) fn signed(from: &mut Cursor<'_>, field: &'static str) -> Result<i64, BinlogError> {
    let raw = unsigned(from, field)?;
    let magnitude = (raw >> 1) as i64;
    Ok(if raw & 1 == 0 { magnitude } else { -magnitude - 1 })
}

pub(crate) fn write_unsigned(out: &mut Vec<u8>, value: u64) {
    let bits = 64 - value.leading_zeros();
    let following = bits.saturating_sub(1) / 7;
    if following >= 8 {
        out.push(0xff);
        out.extend(value.to_le_bytes());
        return;
    }
    // Shifted by up to 8 bits, the value needs at most 64 bits: 7 for each byte.
    let marked = (value << (following + 1)) | ((1 << following) - 1);
    out.extend(marked.to_le_bytes().iter().take(following as usize + 1));
}

pub(crate) fn write_signed(out: &mut Vec<u8>, value: i64) {
    let raw = if value >= 0 { value.cast_unsigned() << 1 } else { ((-(value + 1)).cast_unsigned() << 1) | 1 };
    write_unsigned(out, raw);
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn encode(value: u64) -> Vec<u8> {
        let mut out = Vec::new();
        write_unsigned(&mut out, value);
        out
    }

    fn encode_signed(value: i64) -> Vec<u8> {
        let mut out = Vec::new();
        write_signed(&mut out, value);
        out
    }

    #[test]
    fn vectors_of_the_reference() {
        assert_eq!(encode(65535), [0xfb, 0xff, 0x07]);
        assert_eq!(encode(127), [0xfe]);
        assert_eq!(encode(128), [0x01, 0x02]);
        assert_eq!(encode(1), [0x02]);
        assert_eq!(encode(u64::MAX).len(), 9);
        assert_eq!(encode_signed(65535), [0xf3, 0xff, 0x0f]);
        assert_eq!(encode_signed(-65535), [0xeb, 0xff, 0x0f]);
        assert_eq!(encode_signed(-65536), [0xfb, 0xff, 0x0f]);
    }

    proptest! {
        #[test]
        fn round_trip(value: u64, shift in 0u32..64) {
            let value = value >> shift;
            let bytes = encode(value);
            let mut cursor = Cursor::new("test", &bytes);
            prop_assert_eq!(unsigned(&mut cursor, "value").unwrap(), value);
            prop_assert!(cursor.is_empty());
            let bytes = encode_signed(value as i64);
            let mut cursor = Cursor::new("test", &bytes);
            prop_assert_eq!(signed(&mut cursor, "value").unwrap(), value as i64);
            prop_assert!(cursor.is_empty());
        }
    }
}
