use proptest::prelude::*;

use super::*;

fn ty(code: u8, meta: u16) -> ColumnType {
    ColumnType {
        collation: if matches!(code, t::CHAR | t::VARCHAR | t::BLOB) { 255 } else { 63 },
        ..ColumnType::new(code, meta)
    }
}

fn encode(ty: &ColumnType, wire: u8, value: &[u8]) -> Result<Vec<u8>, ValueError> {
    let encoder = RowEncoder::new(std::slice::from_ref(ty), &[ResultColumn { code: wire, unsigned: ty.unsigned }])?;
    let mut out = Vec::new();
    encoder.encode_packet(&[&[0, 0][..], value].concat(), &mut out)?;
    assert_eq!(out.remove(0), 0);
    Ok(out)
}

#[test]
fn numbers() {
    assert_eq!(encode(&ty(t::INT24, 0), t::INT24, &[0xff, 0xff, 0xff, 0xff]).unwrap(), [0xff, 0xff, 0xff]);
    assert!(encode(&ty(t::INT24, 0), t::LONG, &[0, 0, 0, 1]).is_err());
    assert_eq!(encode(&ty(t::YEAR, 0), t::YEAR, &2020u16.to_le_bytes()).unwrap(), [120]);
    assert_eq!(encode(&ty(t::YEAR, 0), t::YEAR, &[0, 0]).unwrap(), [0]);
    assert_eq!(encode(&ty(t::ENUM, 2), t::LONGLONG, &300u64.to_le_bytes()).unwrap(), [44, 1]);
    assert_eq!(encode(&ty(t::ENUM, 1), t::DOUBLE, &3f64.to_le_bytes()).unwrap(), [3]);
    assert!(encode(&ty(t::ENUM, 1), t::DOUBLE, &3.5f64.to_le_bytes()).is_err());
    assert_eq!(encode(&ty(t::BIT, 9), t::BIT, &[2, 1, 2]).unwrap(), [1, 2]);
    assert_eq!(encode(&ty(t::BIT, 9), t::LONGLONG, &258u64.to_le_bytes()).unwrap(), [1, 2]);
    assert!(encode(&ty(t::BIT, 9), t::LONGLONG, &512u64.to_le_bytes()).is_err());
    assert_eq!(encode(&ty(t::DECIMAL, 5 << 8 | 2), t::DECIMAL, b"\x05-1.20").unwrap(), [0x7f, 0xfe, 0xeb]);
    assert!(encode(&ty(t::LONG, 0), t::DOUBLE, &[0; 8]).is_err());
    let set = ColumnType { unsigned: true, ..ty(t::SET, 8) };
    assert_eq!(encode(&set, t::LONGLONG, &[0xff; 8]).unwrap(), [0xff; 8]);
}

#[test]
fn a_column_of_nothing_but_null_has_no_bytes() {
    for code in [t::LONG, t::TIME2, t::VARCHAR, 11] {
        let column = ty(code, 0);
        assert!(encode(&column, t::NULL, &[]).is_err());
        assert!(encode(&column, t::NULL, &[0]).is_err());
        let encoder = RowEncoder::new(&[column], &[ResultColumn { code: t::NULL, unsigned: false }]).unwrap();
        let mut image = Vec::new();
        encoder.encode_packet(&[0, 0b100], &mut image).unwrap();
        assert_eq!(image, [1]);
    }
}

#[test]
fn temporal() {
    assert_eq!(encode(&ty(t::DATE, 0), t::DATE, &[4, 0xe4, 7, 1, 2]).unwrap(), [0x22, 0xc8, 0x0f]);
    assert_eq!(encode(&ty(t::DATE, 0), t::DATE, &[0]).unwrap(), [0, 0, 0]);
    assert_eq!(
        encode(&ty(t::DATETIME2, 6), t::DATETIME, &[11, 0xe4, 7, 1, 2, 3, 4, 5, 0x40, 0xe2, 1, 0]).unwrap(),
        [0x99, 0xa5, 0x44, 0x31, 0x05, 0x01, 0xe2, 0x40]
    );
    assert_eq!(encode(&ty(t::TIMESTAMP2, 0), t::TIMESTAMP, &[7, 0xb2, 7, 1, 1, 0, 0, 1]).unwrap(), [0, 0, 0, 1]);
    assert_eq!(encode(&ty(t::TIMESTAMP2, 2), t::TIMESTAMP, &[0]).unwrap(), [0, 0, 0, 0, 0]);
    // -34:22:59.5
    let time = [12, 1, 1, 0, 0, 0, 10, 22, 59, 0x20, 0xa1, 7, 0];
    assert_eq!(encode(&ty(t::TIME2, 2), t::TIME, &time).unwrap(), [0x7d, 0xda, 0x44, 0xce]);
    assert!(encode(&ty(t::TIME2, 0), t::TIME, &[8, 0, 99, 0, 0, 0, 0, 0, 0]).is_err());
    assert!(encode(&ty(t::DATE, 0), t::DATE, &[5, 0xe4, 7, 1, 2, 3]).is_err());
}

#[test]
fn text_and_bytes() {
    assert_eq!(encode(&ty(t::CHAR, 20), t::CHAR, b"\x04ab  ").unwrap(), b"\x02ab");
    let binary = ColumnType { collation: 63, ..ty(t::CHAR, 5) };
    assert_eq!(encode(&binary, t::CHAR, b"\x05a\0b\0\0").unwrap(), b"\x03a\0b");
    let ucs2 = ColumnType { collation: 35, ..ty(t::CHAR, 8) };
    assert_eq!(encode(&ucs2, t::CHAR, b"\x06\0a\0 \0 ").unwrap(), b"\x02\0a");
    assert_eq!(encode(&ty(t::VARCHAR, 300), t::VAR_STRING, b"\x03a  ").unwrap(), b"\x03\0a  ");
    assert!(encode(&ty(t::VARCHAR, 2), t::VAR_STRING, b"\x03a  ").is_err());
    assert_eq!(encode(&ty(t::BLOB, 2), t::BLOB, b"\xfc\x03\0abc").unwrap(), b"\x03\0abc");
    assert_eq!(encode(&ty(t::JSON, 4), t::JSON, b"\x02{}").unwrap(), b"\x02\0\0\0{}");
    assert!(encode(&ty(t::BLOB, 1), t::BLOB, b"\xfb").is_err());
    assert!(encode(&ty(t::BLOB, 1), t::BLOB, b"\x01ab").is_err());
}

#[test]
fn rows_with_nulls_equal_images_from_the_log() {
    let columns = [ty(t::LONG, 0), ty(t::JSON, 4), ty(t::VARCHAR, 10)];
    let result = [t::LONG, t::JSON, t::VAR_STRING].map(|code| ResultColumn { code, unsigned: false });
    let encoder = RowEncoder::new(&columns, &result).unwrap();
    let layout = RowLayout::new(&columns);
    let mut from_row = Vec::new();
    encoder.encode_packet(b"\0\x10\x07\0\0\0\x05[\"a\"]", &mut from_row).unwrap();
    // This image has the bitmap's unused bits set.
    let image = [0xfc, 7, 0, 0, 0, 10, 0, 0, 0, 2, 1, 0, 9, 0, 0x0c, 7, 0, 1, b'a', b'm', b'o', b'r', b'e'];
    let mut from_log = Vec::new();
    let taken = comparable_image(&columns, &layout, &[], &image, &mut Vec::new(), &mut from_log).unwrap();
    assert_eq!(taken, image.len() - 4);
    assert_eq!(from_log, from_row);
    assert_eq!(from_row, b"\x04\x07\0\0\0\x05\0\0\0[\"a\"]");
}

proptest! {
    #[test]
    fn never_panics(packet: Vec<u8>, code in prop::sample::select(vec![t::TINY, t::LONGLONG, t::DECIMAL, t::DATE,
        t::DATETIME2, t::TIMESTAMP2, t::TIME2, t::BIT, t::SET, t::CHAR, t::BLOB, t::JSON]), wire: u8, meta: u16, collation in 0u16..330) {
        let ty = ColumnType { collation, ..ColumnType::new(code, meta) };
        if ty.check().is_ok() && let Ok(encoder) = RowEncoder::new(&[ty], &[ResultColumn { code: wire, unsigned: false }]) {
            let _ = encoder.encode_packet(&[&[0, 0][..], &packet].concat(), &mut Vec::new());
        }
    }
}
