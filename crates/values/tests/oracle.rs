//! Stored values read by us and by `mysql_common`: the same bytes must give the same value. What the server prints is
//! checked in `against_server.rs`; here it is the breadth of random bytes.

use std::fmt::Write as _;

use mysql_common::binlog::value::BinlogValue;
use mysql_common::constants::ColumnType as TheirType;
use mysql_common::io::ParseBuf;
use mysql_common::value::Value;
use proptest::prelude::*;
use values::text::{FloatForm, TextOptions, write_text};
use values::{ColumnType, ValueError, type_code as t};

/// Type byte and raw metadata, as a table map has them.
fn column() -> impl Strategy<Value = (u8, Vec<u8>)> {
    let plain = vec![t::TINY, t::SHORT, t::INT24, t::LONG, t::LONGLONG, t::NEWDATE, t::YEAR];
    prop_oneof![
        prop::sample::select(plain).prop_map(|code| (code, vec![])),
        Just((t::FLOAT, vec![4])),
        Just((t::DOUBLE, vec![8])),
        (prop::sample::select(vec![t::TIME2, t::DATETIME2, t::TIMESTAMP2]), 0u8..=6)
            .prop_map(|(c, fsp)| (c, vec![fsp])),
        (1u8..=65, 0u8..=30).prop_map(|(p, s)| (t::DECIMAL, vec![p, s.min(p)])),
        (0u8..8, 0u8..8)
            .prop_map(|(bits, bytes)| (t::BIT, if bits + bytes == 0 { vec![1, 0] } else { vec![bits, bytes] })),
        (0u16..1000).prop_map(|len| (t::VARCHAR, len.to_le_bytes().to_vec())),
        (1u8..=4).prop_map(|len| (t::BLOB, vec![len])),
        (0u16..1024).prop_map(|len| {
            let high = ((len >> 8) as u8 & 3) << 4;
            (t::CHAR, vec![0xfe ^ high, len as u8])
        }),
    ]
}

/// Their value in the form of our text; None where theirs is known to be another notion.
fn shown(ty: &ColumnType, value: Value) -> Option<Vec<u8>> {
    let mut text = String::new();
    let fraction = |text: &mut String, micros: u32| {
        if ty.meta > 0 {
            let digits = format!("{micros:06}");
            write!(text, ".{}", &digits[..usize::from(ty.meta)]).unwrap();
        }
    };
    match value {
        // They do not extend the sign of three bytes (0.37.3).
        Value::Int(value) if ty.code == t::INT24 && !ty.unsigned && value >= 1 << 23 => {
            write!(text, "{}", value - (1 << 24)).unwrap();
        }
        Value::Int(value) => write!(text, "{value}").unwrap(),
        Value::UInt(value) => write!(text, "{value}").unwrap(),
        Value::Date(y, m, d, _, _, _, _) if ty.code == t::DATE => write!(text, "{y:04}-{m:02}-{d:02}").unwrap(),
        Value::Date(y, m, d, h, i, s, micros) => {
            write!(text, "{y:04}-{m:02}-{d:02} {h:02}:{i:02}:{s:02}").unwrap();
            fraction(&mut text, micros);
        }
        Value::Time(negative, d, h, i, s, micros) => {
            let sign = if negative { "-" } else { "" };
            write!(text, "{sign}{:02}:{i:02}:{s:02}", d * 24 + u32::from(h)).unwrap();
            fraction(&mut text, micros);
        }
        // They give seconds as text; year 0 is 1900 to them.
        Value::Bytes(_) if matches!(ty.code, t::TIMESTAMP2) => return None,
        Value::Bytes(year) if ty.code == t::YEAR && year == b"1900" => return None,
        Value::Bytes(bytes) => return Some(bytes),
        Value::Float(_) | Value::Double(_) | Value::NULL => return None,
    }
    Some(text.into_bytes())
}

fn ours(ty: &ColumnType, stored: &[u8]) -> Result<Vec<u8>, ValueError> {
    let mut out = Vec::new();
    write_text(ty, stored, TextOptions { float: FloatForm::Exact, ..TextOptions::default() }, &mut out)?;
    Ok(out)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(4000))]

    #[test]
    fn same_value((code, metadata) in column(), unsigned: bool, mut bytes in prop::collection::vec(any::<u8>(), 64), short: bool) {
        let mut ty = ColumnType::from_table_map(code, &metadata).unwrap();
        ty.unsigned = unsigned;
        ty.collation = 63;
        if code == t::DECIMAL && short {
            // Random groups of nine digits are mostly no digits.
            for byte in bytes.iter_mut().step_by(4) {
                *byte = 0x80;
            }
        }
        if ty.fixed_len().is_none() {
            bytes[1..ty.prefix_len()].fill(0);
            bytes[0] %= 60;
        }
        let len = ty.fixed_len().unwrap_or(ty.prefix_len() + usize::from(bytes[0]));
        let stored = &bytes[..len];
        let context = (TheirType::try_from(code).unwrap(), &metadata[..], unsigned, false);
        // They overflow on negative times (0.37.3); the server's are in `against_server.rs`.
        prop_assume!(code != t::TIME2 || bytes[0] >= 0x80);
        // They take many bytes that are no value; where we give one it must be theirs.
        let Ok(mut text) = ours(&ty, stored) else { return Ok(()) };
        let mut buffer = ParseBuf(stored);
        let theirs = buffer.parse::<BinlogValue>(context).unwrap();
        prop_assert!(buffer.is_empty());
        match theirs {
            BinlogValue::Value(Value::Float(value)) => {
                let text = String::from_utf8(text).unwrap();
                prop_assert!(!value.is_finite() || text.parse::<f32>().unwrap().to_bits() == value.to_bits(), "{}", text);
            }
            BinlogValue::Value(Value::Double(value)) => {
                let text = String::from_utf8(text).unwrap();
                prop_assert!(!value.is_finite() || text.parse::<f64>().unwrap().to_bits() == value.to_bits(), "{}", text);
            }
            BinlogValue::Value(value) => {
                if code == t::CHAR {
                    // We show the padding of BINARY.
                    text.truncate(len - ty.prefix_len());
                }
                if let Some(expected) = shown(&ty, value) {
                    prop_assert_eq!(String::from_utf8_lossy(&text), String::from_utf8_lossy(&expected));
                }
            }
            _ => prop_assert!(false),
        }
    }
}
