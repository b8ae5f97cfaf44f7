use proptest::prelude::*;

use super::*;

fn text(document: &[u8]) -> Result<String, ValueError> {
    let mut out = Vec::new();
    write_text(document, &mut out)?;
    Ok(String::from_utf8(out).unwrap())
}

#[test]
fn scalars() {
    assert_eq!(text(&[]).unwrap(), "null");
    assert_eq!(text(&[4, 1]).unwrap(), "true");
    assert_eq!(text(&[5, 0xff, 0xff]).unwrap(), "-1");
    assert_eq!(text(&[0x0a, 255, 255, 255, 255, 255, 255, 255, 255]).unwrap(), "18446744073709551615");
    let double = |value: f64| text(&[&[0x0b][..], &value.to_le_bytes()].concat()).unwrap();
    // As printed by a server.
    assert_eq!([1.0, -0.0, 1.5, 1e20, 1e15, 1e-7].map(double), ["1.0", "-0.0", "1.5", "1e20", "1e15", "0.0000001"]);
    let string = |value: &str| text(&[&[0x0c, value.len() as u8], value.as_bytes()].concat()).unwrap();
    assert_eq!(
        string("a\"b\\c/\u{1}\u{1f}\u{8}\u{c}\n\r\té\u{7f}"),
        "\"a\\\"b\\\\c/\\u0001\\u001f\\b\\f\\n\\r\\té\u{7f}\""
    );
    let opaque = |kind: u8, data: &[u8]| text(&[&[0x0f, kind, data.len() as u8], data].concat()).unwrap();
    assert_eq!(opaque(15, b"abc"), "\"base64:type15:YWJj\"");
    assert_eq!(opaque(15, &[0, 255]), "\"base64:type15:AP8=\"");
    assert_eq!(opaque(16, &[5]), "\"base64:type16:BQ==\"");
    let long = opaque(15, "abc".repeat(20).as_bytes());
    assert_eq!(long, format!("\"base64:type15:{}\\n{}\"", "YWJj".repeat(19), "YWJj"));
    assert_eq!(opaque(246, &[10, 2, 0x80, 0, 0, 1, 50]), "1.50");
    let packed = (2020i64 * 13 + 1) << 46 | 2 << 41 | 3 << 36 | 4 << 30 | 5 << 24 | 123_456;
    assert_eq!(opaque(12, &packed.to_le_bytes()), "\"2020-01-02 03:04:05.123456\"");
    assert_eq!(opaque(7, &packed.to_le_bytes()), "\"2020-01-02 03:04:05.123456\"");
    assert_eq!(opaque(10, &packed.to_le_bytes()), "\"2020-01-02\"");
    let time = -(10i64 << 36 | 11 << 30 | 12 << 24 | 500_000);
    assert_eq!(opaque(11, &time.to_le_bytes()), "\"-10:11:12.500000\"");
}

#[test]
fn text_stays_as_it_is() {
    for value in ["{\"a\": 1.50}", "[]", "\"x\"", "-1", "null", "16777217.0"] {
        assert!(is_text(value.as_bytes()));
        assert_eq!(text(value.as_bytes()).unwrap(), value);
    }
    assert!(!is_text(NESTED) && !is_text(&[]) && !is_text(&[0x0f]));
    assert!(text(b"\"\xff\"").is_err());
}

/// `{"a": "x", "bb": [1, true]}` as the server stores it.
const NESTED: &[u8] = &[
    0, 2, 0, 34, 0, 18, 0, 1, 0, 19, 0, 2, 0, 0x0c, 21, 0, 2, 23, 0, b'a', b'b', b'b', 1, b'x', 2, 0, 10, 0, 5, 1, 0,
    4, 1, 0, 0,
];

#[test]
fn containers() {
    // The second value follows the first: offset 23 from the object's count.
    assert_eq!(text(NESTED).unwrap(), r#"{"a": "x", "bb": [1, true]}"#);
    assert_eq!(text(&[2, 0, 0, 4, 0]).unwrap(), "[]");
    assert_eq!(text(&[0, 0, 0, 4, 0]).unwrap(), "{}");
    assert_eq!(text(&[3, 1, 0, 0, 0, 13, 0, 0, 0, 7, 0x70, 0x11, 1, 0]).unwrap(), "[70000]");
}

#[test]
fn overlapping_offsets_do_not_explode() {
    // Nested arrays of 250 elements, all of which refer to the same next array.
    let mut document = vec![2];
    for _ in 0..60 {
        let size = 4 + 250 * 3;
        document.extend([250, 0, 0xff, 0xff]);
        for _ in 0..250 {
            document.push(2);
            document.extend(u16::try_from(size).unwrap().to_le_bytes());
        }
    }
    document.resize(70_000, 0);
    assert_eq!(text(&document), Err(INVALID));
}

#[test]
fn deep_nesting_is_refused() {
    let nested = |depth: usize| {
        let mut document = Vec::new();
        for level in 0..depth {
            let left = ((depth - level - 1) * 7 + 4) as u16;
            document.extend(if level + 1 < depth { [1, 0] } else { [0, 0] });
            document.extend(left.to_le_bytes());
            if level + 1 < depth {
                document.extend([2, 7, 0]);
            }
        }
        document.insert(0, 2);
        document
    };
    assert_eq!(text(&nested(3)).unwrap(), "[[[]]]");
    assert!(text(&nested(100)).is_ok());
    assert!(text(&nested(101)).is_err());
}

#[test]
fn text_that_is_not_utf8_is_no_document() {
    assert!(write_text(b"\x0c\x02a\xff", &mut Vec::new()).is_err());
    assert!(write_text("\x0c\x02\u{e9}".as_bytes(), &mut Vec::new()).is_ok());
}

proptest! {
    #[test]
    fn never_panics_on_mutations(at in 0usize..40, byte: u8, cut in 0usize..40) {
        let mut document = NESTED.to_vec();
        if let Some(slot) = document.get_mut(at) {
            *slot = byte;
        }
        document.truncate(document.len().min(cut.max(1)));
        let mut out = Vec::new();
        let _ = write_text(&document, &mut out);
        prop_assert!(out.len() < 64 + 16 * document.len());
    }

    #[test]
    fn never_panics(kind in 0u8..17, document: Vec<u8>) {
        let mut whole = vec![kind];
        whole.extend(&document);
        let _ = write_text(&whole, &mut Vec::new());
    }
}
