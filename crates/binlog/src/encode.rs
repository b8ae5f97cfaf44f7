//! Writes the integers that events consist of.

/// Appends MySQL's length-encoded integer.
pub(crate) fn packed(out: &mut Vec<u8>, value: u64) {
    match value {
        0..=250 => out.push((value & 0xff) as u8),
        251..=0xffff => {
            out.push(252);
            out.extend(((value & 0xffff) as u16).to_le_bytes());
        }
        0x1_0000..=0xff_ffff => {
            out.push(253);
            out.extend(value.to_le_bytes().into_iter().take(3));
        }
        _ => {
            out.push(254);
            out.extend(value.to_le_bytes());
        }
    }
}

/// Appends a length-encoded length, then the bytes.
pub(crate) fn packed_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    packed(out, bytes.len() as u64);
    out.extend(bytes);
}

/// Appends a length of one byte, then the bytes, cut to 255: no server writes a longer name.
pub(crate) fn short_bytes(out: &mut Vec<u8>, bytes: &[u8]) {
    let len = u8::try_from(bytes.len()).unwrap_or(u8::MAX);
    out.push(len);
    out.extend(bytes.iter().take(usize::from(len)));
}

/// Appends six bytes.
pub(crate) fn u48(out: &mut Vec<u8>, value: u64) {
    out.extend(value.to_le_bytes().into_iter().take(6));
}

/// Appends seven bytes.
pub(crate) fn u56(out: &mut Vec<u8>, value: u64) {
    out.extend(value.to_le_bytes().into_iter().take(7));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cursor::Cursor;
    use proptest::prelude::*;

    proptest! {
        #[test]
        fn packed_round_trip(value: u64, shift in 0u32..64) {
            let mut out = Vec::new();
            packed(&mut out, value >> shift);
            let mut cursor = Cursor::new("test", &out);
            prop_assert_eq!(cursor.packed("value").unwrap(), value >> shift);
            prop_assert!(cursor.is_empty());
        }
    }
}
