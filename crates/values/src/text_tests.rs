use std::sync::Arc;

use proptest::prelude::*;

use super::*;

fn ty(code: u8, meta: u16, collation: u16) -> ColumnType {
    ColumnType { collation, ..ColumnType::new(code, meta) }
}

fn with_members(code: u8, meta: u16, collation: u16, members: &[&[u8]]) -> ColumnType {
    let members: Arc<[Box<[u8]>]> = members.iter().map(|name| Box::from(*name)).collect();
    ColumnType { members, ..ty(code, meta, collation) }
}

fn show(ty: &ColumnType, stored: &[u8], binary: BinaryForm) -> String {
    let mut out = Vec::new();
    write_text(ty, stored, TextOptions { binary, ..TextOptions::default() }, &mut out).unwrap();
    String::from_utf8(out).unwrap()
}

fn raw(ty: &ColumnType, stored: &[u8]) -> String {
    show(ty, stored, BinaryForm::Raw)
}

fn sql(ty: &ColumnType, stored: &[u8]) -> String {
    let mut out = Vec::new();
    write_sql(ty, stored, TextOptions::default(), &mut out).unwrap();
    String::from_utf8(out).unwrap()
}

#[test]
fn integers() {
    let int = |code, unsigned, stored: &[u8]| raw(&ColumnType { unsigned, ..ty(code, 0, 63) }, stored);
    assert_eq!(int(t::TINY, false, &[0xff]), "-1");
    assert_eq!(int(t::TINY, true, &[0xff]), "255");
    assert_eq!(int(t::INT24, false, &[0, 0, 0x80]), "-8388608");
    assert_eq!(int(t::INT24, true, &[0, 0, 0x80]), "8388608");
    assert_eq!(int(t::LONGLONG, false, &[0, 0, 0, 0, 0, 0, 0, 0x80]), "-9223372036854775808");
    assert_eq!(int(t::LONGLONG, true, &[0xff; 8]), "18446744073709551615");
    assert_eq!(int(t::YEAR, false, &[0]), "0000");
    assert_eq!(int(t::YEAR, false, &[1]), "1901");
    assert!(write_text(&ty(t::LONG, 0, 63), &[1, 2, 3], TextOptions::default(), &mut Vec::new()).is_err());
}

#[test]
fn text_and_bytes() {
    assert_eq!(raw(&ty(t::VARCHAR, 20, 8), b"\x02\xe9\x80"), "é€");
    assert_eq!(raw(&ty(t::VARCHAR, 300, 255), b"\x03\0a\t\n"), "a\t\n");
    assert_eq!(sql(&ty(t::VARCHAR, 20, 255), b"\x07a'\\\n\r\0\x1a"), r"'a\'\\\n\r\0\Z'");
    assert_eq!(sql(&ty(t::VARCHAR, 20, 45), b"\0"), "''");
    assert_eq!(sql(&ty(t::VARCHAR, 20, 8), b"\x01\xe9"), "'é'");
    // swe7 has letters instead of some ASCII signs.
    assert_eq!(sql(&ty(t::VARCHAR, 20, 10), b"\x01\x40"), "'É'");
    assert_eq!(raw(&ty(t::VARCHAR, 20, 10), b"\x01a"), "a");
    // Bytes that do not survive a round trip through utf8mb4: one without a character (cp1250, latin2_czech_cs), two
    // that share one (tis620).
    assert_eq!(sql(&ty(t::VARCHAR, 20, 26), b"\x02a\x81"), "_cp1250 0x6181");
    assert_eq!(sql(&ty(t::VARCHAR, 20, 2), b"\x02a\x81"), "_latin2 0x6181");
    assert_eq!(sql(&ty(t::VARCHAR, 20, 2), b"\x01\x7f"), "_latin2 0x7F");
    assert_eq!(sql(&ty(t::VARCHAR, 20, 9), b"\x01\x81"), "'\u{81}'");
    assert_eq!(sql(&ty(t::VARCHAR, 20, 18), b"\x01\xa0"), "_tis620 0xA0");
    assert!(write_text(&ty(t::VARCHAR, 20, 0), b"\x01a", TextOptions::default(), &mut Vec::new()).is_err());
    assert!(write_text(&ty(t::VARCHAR, 20, 255), b"\x02a", TextOptions::default(), &mut Vec::new()).is_err());

    let binary = ty(t::CHAR, 5, 63);
    assert_eq!(raw(&binary, b"\x01a"), "a\0\0\0\0");
    assert_eq!(show(&binary, b"\x01a", BinaryForm::Hex), "0x6100000000");
    assert_eq!(sql(&binary, b"\0"), "0x0000000000");
    assert_eq!(show(&ty(t::BLOB, 2, 63), b"\0\0", BinaryForm::Hex), "0x");
    assert_eq!(sql(&ty(t::BLOB, 2, 63), b"\0\0"), "''");
    assert_eq!(show(&ty(t::BIT, 9, 63), &[0, 5], BinaryForm::Hex), "0x0005");
    assert_eq!(sql(&ty(t::BIT, 9, 63), &[0, 5]), "0x0005");
    assert_eq!(show(&ty(t::VECTOR, 4, 63), &[4, 0, 0, 0, 0, 0, 0x80, 0x3f], BinaryForm::Hex), "0x0000803F");
}

#[test]
fn members() {
    let members: &[&[u8]] = &[b"x", b"y", b"z"];
    assert_eq!(raw(&with_members(t::ENUM, 1, 255, members), &[2]), "y");
    assert_eq!(raw(&with_members(t::ENUM, 1, 255, members), &[0]), "");
    assert_eq!(raw(&with_members(t::SET, 1, 255, members), &[5]), "x,z");
    assert_eq!(raw(&with_members(t::SET, 1, 35, &[b"\0x", b"\0y"]), &[3]), "x,y");
    assert_eq!(sql(&with_members(t::SET, 1, 255, members), &[5]), "'x,z'");
    assert_eq!(show(&with_members(t::ENUM, 1, 63, members), &[1], BinaryForm::Hex), "0x78");
    for (ty, stored) in [
        (with_members(t::ENUM, 1, 255, members), 4),
        (with_members(t::SET, 1, 255, members), 8),
        (with_members(t::ENUM, 1, 255, &[]), 1),
        (with_members(t::ENUM, 1, 0, members), 1),
    ] {
        assert!(write_text(&ty, &[stored], TextOptions::default(), &mut Vec::new()).is_err());
    }
}

#[test]
fn others() {
    let float = ty(t::FLOAT, 4, 63);
    assert_eq!(raw(&float, &16777217f32.to_le_bytes()), "16777200");
    assert_eq!(sql(&float, &(-0f32).to_le_bytes()), "-0e0");
    let exact = |value: f32| {
        let mut out = Vec::new();
        let options = TextOptions { float: FloatForm::Exact, ..TextOptions::default() };
        write_text(&float, &value.to_le_bytes(), options, &mut out).unwrap();
        String::from_utf8(out).unwrap()
    };
    assert_eq!(exact(16777217f32), "16777216");
    assert_eq!(exact(0.1), "0.1");
    assert_eq!(exact(7.038531e-26).parse::<f64>().unwrap() as f32, 7.038531e-26);
    assert_eq!(sql(&ty(t::DATE, 0, 63), &[0x22, 0xc8, 0x0f]), "'2020-01-02'");
    assert_eq!(raw(&ty(t::TIMESTAMP2, 3, 63), &[0, 0, 0, 1, 19, 136]), "1970-01-01 00:00:01.500");
    assert_eq!(raw(&ty(t::TIMESTAMP2, 2, 63), &[0, 0, 0, 0, 0]), "0000-00-00 00:00:00.00");
    assert_eq!(raw(&ty(t::DATETIME, 0, 63), &20200102030405u64.to_le_bytes()), "2020-01-02 03:04:05");
    assert_eq!(raw(&ty(t::TIME, 0, 63), &(-10203i32).to_le_bytes()[..3]), "-01:02:03");
    assert_eq!(raw(&ty(t::TIMESTAMP, 0, 63), &1u32.to_le_bytes()), "1970-01-01 00:00:01");
    assert_eq!(raw(&ty(t::DECIMAL, 5 << 8 | 2, 63), &[0x7f, 0xfe, 0xeb]), "-1.20");
    assert_eq!(sql(&ty(t::JSON, 4, 63), &[4, 0, 0, 0, 0x0c, 2, b'\'', b'\n']), r#"'"\'\\n"'"#);
}

proptest! {
    #[test]
    fn never_panics(code: u8, meta: u16, collation in 0u16..330, stored: Vec<u8>, unsigned: bool) {
        let ty = ColumnType { unsigned, ..ty(code, meta, collation) };
        if ty.check().is_ok() {
            for binary in [BinaryForm::Raw, BinaryForm::Hex] {
                let options = TextOptions { binary, float: FloatForm::Exact };
                let _ = write_text(&ty, &stored, options, &mut Vec::new());
                let _ = write_sql(&ty, &stored, options, &mut Vec::new());
            }
        }
    }
}
