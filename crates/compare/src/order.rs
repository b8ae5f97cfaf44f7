//! Sort keys in MySQL's order of values: exact for integers, temporal and binary values; by bytes for text.
//!
//! In: stored bytes of columns. Out: sort keys that are compared with memcmp and can be concatenated. Never here:
//! collations.

use values::{ColumnType, type_code as t};

/// Appends a column's sort key; NULL sorts first.
pub(crate) fn push_sort_key(ty: &ColumnType, stored: Option<&[u8]>, out: &mut Vec<u8>) {
    let Some(stored) = stored else {
        out.push(0);
        return;
    };
    out.push(1);
    let start = out.len();
    match ty.code {
        t::TINY | t::SHORT | t::INT24 | t::LONG | t::LONGLONG => {
            out.extend(stored.iter().rev());
            if !ty.unsigned {
                flip_sign(out, start);
            }
        }
        t::FLOAT | t::DOUBLE => {
            out.extend(stored.iter().rev());
            if out.get(start).is_some_and(|byte| byte & 0x80 != 0) {
                out.iter_mut().skip(start).for_each(|byte| *byte = !*byte);
            } else {
                flip_sign(out, start);
            }
        }
        // The stored form already sorts by memcmp.
        t::DECIMAL | t::DATETIME2 | t::TIMESTAMP2 | t::TIME2 | t::BIT | t::YEAR => out.extend_from_slice(stored),
        t::DATE | t::ENUM | t::SET | t::TIMESTAMP | t::TIME | t::DATETIME => out.extend(stored.iter().rev()),
        _ => {
            // 00 ends a value, so that a prefix sorts first; a 00 inside becomes 00 ff.
            for byte in stored.get(ty.prefix_len()..).unwrap_or(&[]) {
                out.push(*byte);
                if *byte == 0 {
                    out.push(0xff);
                }
            }
            out.extend_from_slice(&[0, 0]);
        }
    }
}

fn flip_sign(out: &mut [u8], start: usize) {
    if let Some(byte) = out.get_mut(start) {
        *byte ^= 0x80;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn key(ty: &ColumnType, stored: &[u8]) -> Vec<u8> {
        let mut out = Vec::new();
        push_sort_key(ty, Some(stored), &mut out);
        out
    }

    #[test]
    fn numbers_and_strings_sort() {
        let int = ColumnType::new(t::LONG, 0);
        let ints = [i32::MIN, -70000, -1, 0, 1, 255, 256, i32::MAX].map(|v| key(&int, &v.to_le_bytes()));
        assert!(ints.is_sorted());
        let mut unsigned = int.clone();
        unsigned.unsigned = true;
        assert!([0u32, 1, 256, u32::MAX].map(|v| key(&unsigned, &v.to_le_bytes())).is_sorted());
        let double = ColumnType::new(t::DOUBLE, 8);
        let doubles = [-1e300, -1.5, -0.1, 0.0, 1e-9, 2.0, 1e300].map(|v: f64| key(&double, &v.to_le_bytes()));
        assert!(doubles.is_sorted());
        let text = ColumnType::new(t::VARCHAR, 20);
        let texts = [&b"\x00"[..], b"\x01\x00", b"\x02\x00a", b"\x01a", b"\x02a\x00", b"\x02aa", b"\x01b"]
            .map(|v| key(&text, v));
        assert!(texts.is_sorted(), "{texts:?}");
        let mut null = Vec::new();
        push_sort_key(&int, None, &mut null);
        assert!(null < ints[0]);
    }
}
