//! Sort keys against comparison of the values. `tests/sort_key_server.rs` compares them with a server.

use std::cmp::Ordering;

use proptest::collection::vec;
use proptest::prelude::*;

use super::*;
use crate::decimal;
use crate::temporal::{DateTime, Time};

fn column(ty: ColumnType) -> SortKeyColumn {
    SortKeyColumn { ty, nullable: false, descending: false, prefix_len: None }
}

fn text_type(code: u8, meta: u16, collation: &str) -> ColumnType {
    let collation = collation::by_name(collation).unwrap().id;
    ColumnType { collation, ..ColumnType::new(code, meta) }
}

fn key(column: &SortKeyColumn, stored: Option<&[u8]>) -> Vec<u8> {
    let plan = SortKeyPlan::new(std::slice::from_ref(column)).unwrap();
    let mut out = Vec::new();
    plan.append([stored], &mut out).unwrap();
    out
}

/// Order of two values' sort keys.
fn compare(ty: &ColumnType, left: &[u8], right: &[u8]) -> Ordering {
    let column = column(ty.clone());
    key(&column, Some(left)).cmp(&key(&column, Some(right)))
}

fn prefixed(length: usize, bytes: &[u8]) -> Vec<u8> {
    let mut stored = bytes.len().to_le_bytes()[..length].to_vec();
    stored.extend(bytes);
    stored
}

fn varchar(collation: &str, bytes: &[u8]) -> Vec<u8> {
    key(&column(text_type(t::VARCHAR, 1000, collation)), Some(&prefixed(2, bytes)))
}

#[test]
fn known_bytes() {
    let int = column(ColumnType::new(t::LONG, 0));
    assert_eq!(key(&int, Some(&[1, 0, 0, 0])), [0x80, 0, 0, 1]);
    assert_eq!(key(&int, Some(&[0xff; 4])), [0x7f, 0xff, 0xff, 0xff]);
    let nullable = SortKeyColumn { nullable: true, ..int.clone() };
    assert_eq!(key(&nullable, None), [0]);
    assert_eq!(key(&nullable, Some(&[1, 0, 0, 0])), [1, 0x80, 0, 0, 1]);
    let descending = SortKeyColumn { descending: true, ..nullable };
    assert_eq!(key(&descending, None), [0xff]);
    assert_eq!(key(&descending, Some(&[1, 0, 0, 0])), [0xfe, 0x7f, 0xff, 0xff, 0xfe]);

    assert_eq!(varchar("utf8mb4_0900_ai_ci", b"aA"), [0x1c, 0x47, 0x1c, 0x47, 0, 0]);
    assert_eq!(varchar("utf8mb4_0900_as_cs", b"a"), [0x1c, 0x47, 0, 0, 0, 0x20, 0, 0, 0, 2, 0, 0]);
    assert_eq!(varchar("latin1_swedish_ci", b"a b  "), [b'A', b' ', 0xfe, b'B', b' ', 0x80]);
    assert_eq!(varchar("utf8mb4_bin", b"a  \t"), [b'a', b' ', 2, b'\t', b' ', 0x80]);
    assert_eq!(varchar("utf8mb4_general_ci", b"a"), [0, b'A', 0, b' ', 0x80]);
    assert_eq!(varchar("binary", b"a\0b"), [b'a', 0, 0xff, b'b', 0, 0]);
    let binary = column(text_type(t::CHAR, 4, "binary"));
    assert_eq!(key(&binary, Some(&[1, b'a'])), [b'a', 0, 0, 0]);
}

#[test]
fn zeros_have_no_sign() {
    for ty in [ColumnType::new(t::FLOAT, 4), ColumnType::new(t::DOUBLE, 8)] {
        let zero = vec![0; usize::from(ty.meta)];
        let mut negative = zero.clone();
        *negative.last_mut().unwrap() = 0x80;
        assert_eq!(compare(&ty, &zero, &negative), Ordering::Equal);
    }
    let ty = ColumnType::new(t::DECIMAL, 5 << 8 | 2);
    assert_eq!(compare(&ty, &[0x80, 0, 0], &[0x7f, 0xff, 0xff]), Ordering::Equal);
}

#[test]
fn spaces_at_the_end() {
    for collation in ["latin1_swedish_ci", "utf8mb4_bin", "utf8mb4_general_ci", "utf8mb4_unicode_ci", "gbk_bin"] {
        assert_eq!(varchar(collation, b"a"), varchar(collation, b"a   "), "{collation}");
        assert!(varchar(collation, b"a\t") < varchar(collation, b"a"), "{collation}");
        assert!(varchar(collation, b"a") < varchar(collation, b"a!"), "{collation}");
    }
    for collation in ["binary", "utf8mb4_0900_ai_ci", "utf8mb4_0900_as_cs", "utf8mb4_0900_bin"] {
        assert!(varchar(collation, b"a") < varchar(collation, b"a\t"), "{collation}");
        assert!(varchar(collation, b"a") < varchar(collation, b"a "), "{collation}");
    }
    // In CHAR they are not part of the value, even when an image has them.
    let char = column(text_type(t::CHAR, 40, "utf8mb4_0900_ai_ci"));
    assert_eq!(key(&char, Some(b"\x03a  ")), key(&char, Some(b"\x01a")));
    let utf16 = column(text_type(t::CHAR, 40, "utf16_bin"));
    assert_eq!(key(&utf16, Some(b"\x04\0a\0 ")), key(&utf16, Some(b"\x02\0a")));
}

#[test]
fn only_the_prefix_counts() {
    let prefix = |ty, len| SortKeyColumn { prefix_len: Some(len), ..column(ty) };
    let text = prefix(text_type(t::BLOB, 2, "utf8mb4_0900_ai_ci"), 2);
    assert_eq!(key(&text, Some(&prefixed(2, "éa".as_bytes()))), key(&text, Some(&prefixed(2, "ÉAb".as_bytes()))));
    assert_ne!(key(&text, Some(&prefixed(2, "é".as_bytes()))), key(&text, Some(&prefixed(2, "ÉA".as_bytes()))));
    let bytes = prefix(text_type(t::BLOB, 2, "binary"), 2);
    assert_eq!(key(&bytes, Some(&prefixed(2, b"abc"))), key(&bytes, Some(&prefixed(2, b"abd"))));
    let binary = prefix(text_type(t::CHAR, 4, "binary"), 2);
    assert_eq!(key(&binary, Some(b"\x01a")), [b'a', 0]);
    assert_eq!(key(&binary, Some(b"\x03abc")), b"ab");
    // 'a b' cut to 'a ' equals 'a' in a CHAR column: the server reports a duplicate.
    let char = prefix(text_type(t::CHAR, 20, "utf8mb4_0900_ai_ci"), 2);
    assert_eq!(key(&char, Some(b"\x03a b")), key(&char, Some(b"\x01a")));
}

#[test]
fn which_plans_are_ordered() {
    let int = || column(ColumnType::new(t::LONG, 0));
    let ordered = |columns: &[SortKeyColumn]| {
        let plan = SortKeyPlan::new(columns).unwrap();
        (plan.is_ordered(), plan.ordered_columns())
    };
    let known = column(text_type(t::VARCHAR, 40, "utf8mb4_0900_ai_ci"));
    let unknown = column(text_type(t::VARCHAR, 40, "utf8mb4_ja_0900_as_cs"));
    assert_eq!(ordered(&[int(), known.clone()]), (true, 2));
    assert_eq!(ordered(&[int(), unknown, known]), (false, 1));
    assert_eq!(ordered(&[column(ColumnType::new(t::JSON, 4))]), (false, 0));
    assert_eq!(ordered(&[column(ColumnType::new(t::VARCHAR, 40))]), (false, 0), "collation not known");
    assert_eq!(ordered(&[column(text_type(t::ENUM, 1, "utf8mb4_ja_0900_as_cs"))]), (true, 1), "by number");
    assert!(SortKeyPlan::new(&[column(ColumnType::new(99, 0))]).is_err());
}

#[test]
fn wrong_values() {
    let plan =
        SortKeyPlan::new(&[column(ColumnType::new(t::LONG, 0)), column(ColumnType::new(t::VARCHAR, 4))]).unwrap();
    let wrong = |values: &[Option<&[u8]>]| plan.append(values.iter().copied(), &mut Vec::new()).unwrap_err();
    assert_eq!(wrong(&[None]), ValueError::NullInKey);
    assert_eq!(wrong(&[Some(&[1, 2])]), ValueError::WrongLength { what: "INT", len: 2 });
    assert!(matches!(wrong(&[Some(&[1, 2, 3, 4]), Some(&[2, b'a'])]), ValueError::WrongLength { .. }));
    assert!(matches!(wrong(&[Some(&[0; 4]), Some(&[0]), Some(&[0])]), ValueError::BeyondLimits { .. }));
}

/// Collations of every kind of order.
const COLLATIONS: &[&str] = &[
    "binary",
    "utf8mb4_0900_bin",
    "utf8mb4_bin",
    "utf8mb4_0900_ai_ci",
    "utf8mb4_0900_as_ci",
    "utf8mb4_0900_as_cs",
    "utf8mb4_general_ci",
    "utf8mb4_unicode_ci",
    "utf8mb4_unicode_520_ci",
    "latin1_swedish_ci",
    "latin1_bin",
    "utf16_bin",
    "utf32_general_ci",
    "utf8mb4_ja_0900_as_cs",
];

fn is_padded(name: &str) -> bool {
    name != "binary" && !name.contains("_0900_")
}

/// Compares as MySQL does: weight by weight, the shorter text continued with spaces unless the collation is NO PAD.
fn compare_weights(name: &str, left: &str, right: &str) -> Ordering {
    let collation = collation::by_name(name).unwrap();
    let weights = |text: &str| {
        let text = charset::from_utf8mb4(collation.id, text.as_bytes()).unwrap();
        let mut out = Vec::new();
        weight_string(collation.id, &text, &mut out).unwrap();
        out
    };
    let (mut left, mut right, space) = (weights(left), weights(right), weights(" "));
    if is_padded(name) {
        while left.len() != right.len() {
            let shorter = if left.len() < right.len() { &mut left } else { &mut right };
            shorter.extend(&space);
        }
    }
    left.cmp(&right)
}

fn stored_text(name: &str, text: &str) -> Vec<u8> {
    let collation = collation::by_name(name).unwrap().id;
    charset::from_utf8mb4(collation, text.as_bytes()).unwrap().into_owned()
}

/// A small alphabet, so that strings resemble each other: characters below and above the space, without a weight, with
/// several weights.
fn text() -> impl Strategy<Value = String> {
    let one = prop::sample::select(vec!['a', 'A', 'b', ' ', ' ', '\t', '!', '\0', 'ß', 'é', '\u{1}', '\u{ad}']);
    vec(one, 0..6).prop_map(|chars| chars.into_iter().collect())
}

fn unsigned(ty: ColumnType) -> ColumnType {
    ColumnType { unsigned: true, ..ty }
}

fn decimal_stored(precision: u8, scale: u8, text: &str) -> Vec<u8> {
    let mut out = Vec::new();
    decimal::from_text(precision, scale, text.as_bytes(), &mut out).unwrap();
    out
}

proptest! {
    #[test]
    fn integers(left: i64, right: i64, near: bool) {
        let right = if near { left.wrapping_add(right % 3) } else { right };
        for (code, len) in [(t::TINY, 1), (t::SHORT, 2), (t::INT24, 3), (t::LONG, 4), (t::LONGLONG, 8)] {
            let bytes = |value: i64| value.to_le_bytes()[..len].to_vec();
            let signed = |value: i64| value << (64 - 8 * len) >> (64 - 8 * len);
            let positive = |value: i64| value as u64 & (u64::MAX >> (64 - 8 * len));
            let ty = ColumnType::new(code, 0);
            prop_assert_eq!(compare(&ty, &bytes(left), &bytes(right)), signed(left).cmp(&signed(right)));
            let ty = unsigned(ty);
            prop_assert_eq!(compare(&ty, &bytes(left), &bytes(right)), positive(left).cmp(&positive(right)));
            let set = ColumnType::new(t::SET, if len == 3 { 3 } else { len as u16 });
            prop_assert_eq!(compare(&set, &bytes(left), &bytes(right)), positive(left).cmp(&positive(right)));
        }
    }

    #[test]
    fn floats(left: f64, right: f64) {
        let ty = ColumnType::new(t::DOUBLE, 8);
        if let Some(expected) = left.partial_cmp(&right) {
            prop_assert_eq!(compare(&ty, &left.to_le_bytes(), &right.to_le_bytes()), expected);
        }
        let (left, right) = (left as f32, right as f32);
        let ty = ColumnType::new(t::FLOAT, 4);
        if let Some(expected) = left.partial_cmp(&right) {
            prop_assert_eq!(compare(&ty, &left.to_le_bytes(), &right.to_le_bytes()), expected);
        }
    }

    #[test]
    fn decimals(left in -999_999_999_999i64..1_000_000_000_000, right in -999_999_999_999i64..1_000_000_000_000, scale in 0u8..=12, small: bool) {
        let (left, right) = if small { (left % 20, right % 20) } else { (left, right) };
        let stored = |value: i64| {
            let text = format!("{}{:013}", if value < 0 { "-" } else { "" }, value.abs());
            let (whole, fraction) = text.split_at(text.len() - usize::from(scale));
            decimal_stored(13, scale, &format!("{whole}.{fraction}"))
        };
        let ty = ColumnType::new(t::DECIMAL, 13 << 8 | u16::from(scale));
        prop_assert_eq!(compare(&ty, &stored(left), &stored(right)), left.cmp(&right));
    }

    #[test]
    fn times(left in -3_020_399_999_999i64..=3_020_399_999_999, right in -3_020_399_999_999i64..=3_020_399_999_999, digits in 0u16..=6, near: bool) {
        let right = if near { left / 1_000_000 * 1_000_000 } else { right };
        let unit = 10i64.pow(6 - u32::from(digits));
        // Digits beyond the column's are not stored.
        let (left, right) = (left / unit * unit, right / unit * unit);
        let stored = |micros: i64| {
            let seconds = (micros.abs() / 1_000_000) as u32;
            let time = Time {
                negative: micros < 0,
                hour: seconds / 3600,
                minute: seconds / 60 % 60,
                second: seconds % 60,
                micros: (micros.abs() % 1_000_000) as u32,
            };
            let mut out = Vec::new();
            time.push(digits, &mut out).unwrap();
            out
        };
        let ty = ColumnType::new(t::TIME2, digits);
        prop_assert_eq!(compare(&ty, &stored(left), &stored(right)), left.cmp(&right));
    }

    #[test]
    fn dates(left in (0u32..=9999, 0u32..=12, 0u32..=31, 0u32..=23, 0u32..=59), right in (0u32..=9999, 0u32..=12, 0u32..=31, 0u32..=23, 0u32..=59), same_day: bool, digits in 0u16..=6) {
        let right = if same_day { (left.0, left.1, left.2, right.3, right.4) } else { right };
        let fields = |(year, month, day, hour, minute): (u32, u32, u32, u32, u32)| DateTime {
            year, month, day, hour, minute, second: minute, micros: hour * 10_000,
        };
        let datetime = |of| {
            let mut out = Vec::new();
            fields(of).push_datetime(digits, &mut out).unwrap();
            out
        };
        let ty = ColumnType::new(t::DATETIME2, digits);
        prop_assert_eq!(compare(&ty, &datetime(left), &datetime(right)), left.cmp(&right));
        let date = |of| {
            let mut out = Vec::new();
            fields(of).push_date(&mut out).unwrap();
            out
        };
        let ty = ColumnType::new(t::DATE, 0);
        let days = (left.0, left.1, left.2).cmp(&(right.0, right.1, right.2));
        prop_assert_eq!(compare(&ty, &date(left), &date(right)), days);
    }

    #[test]
    fn text_compares_by_weights(left in text(), right in text()) {
        for name in COLLATIONS.iter().filter(|name| !name.contains("_ja_") ) {
            let keys = [&left, &right].map(|text| varchar(name, &stored_text(name, text)));
            prop_assert_eq!(keys[0].cmp(&keys[1]), compare_weights(name, &left, &right), "{} {:?} {:?}", name, &left, &right);
        }
    }

    #[test]
    fn no_key_is_the_front_of_another(left in vec(any::<u8>(), 0..8), right in vec(any::<u8>(), 0..8), similar: bool) {
        let right = if similar { [&left[..], &right[..]].concat() } else { right };
        for name in COLLATIONS {
            let keys = [&left, &right].map(|bytes| varchar(name, bytes));
            prop_assert!(keys[0] == keys[1] || !keys[1].starts_with(&keys[0]), "{} {:02x?} {:02x?}", name, &left, &right);
            prop_assert!(keys[0] == keys[1] || !keys[0].starts_with(&keys[1]), "{} {:02x?} {:02x?}", name, &left, &right);
        }
    }

    #[test]
    fn runs_of_spaces(left in 0usize..600, right in 0usize..600, ends in prop::sample::select(vec!["\t", "", "!", "a"]), other in prop::sample::select(vec!["\t", "", "!", "a"])) {
        for name in ["utf8mb4_bin", "latin1_swedish_ci", "utf8mb4_general_ci"] {
            let (left, right) = (" ".repeat(left) + ends, " ".repeat(right) + other);
            let keys = [&left, &right].map(|text| varchar(name, text.as_bytes()));
            prop_assert_eq!(keys[0].cmp(&keys[1]), compare_weights(name, &left, &right));
            prop_assert!(keys[0] == keys[1] || !keys[1].starts_with(&keys[0]), "{} {:?} {:?}", name, &left, &right);
        }
    }

    #[test]
    fn columns_compare_one_after_the_other(
        left in (prop::option::of(text()), prop::option::of(-2i32..2), text()),
        right in (prop::option::of(text()), prop::option::of(-2i32..2), text()),
        descending: [bool; 3],
        first in prop::sample::select(COLLATIONS),
        last in prop::sample::select(COLLATIONS),
    ) {
        let varchar = |name: &str, at: usize, nullable| SortKeyColumn {
            nullable,
            descending: descending[at],
            ..column(text_type(t::VARCHAR, 1000, name))
        };
        let int = SortKeyColumn { nullable: true, descending: descending[1], ..column(ColumnType::new(t::LONG, 0)) };
        let columns = [varchar(first, 0, true), int, varchar(last, 2, false)];
        let plan = SortKeyPlan::new(&columns).unwrap();
        let key = |row: &(Option<String>, Option<i32>, String)| {
            let values = [
                row.0.as_ref().map(|text| prefixed(2, text.as_bytes())),
                row.1.map(|value| value.to_le_bytes().to_vec()),
                Some(prefixed(2, row.2.as_bytes())),
            ];
            let mut whole = Vec::new();
            plan.append(values.iter().map(Option::as_deref), &mut whole).unwrap();
            let parts = [0, 1, 2].map(|at| key(&columns[at], values[at].as_deref()));
            (whole, parts)
        };
        let ((left_key, left_parts), (right_key, right_parts)) = (key(&left), key(&right));
        prop_assert_eq!(left_key.cmp(&right_key), left_parts.cmp(&right_parts));
        prop_assert!(left_parts.concat() == left_key);
        // NULL sorts first, and last in descending order.
        if left.0.is_none() && right.0.is_some() {
            let expected = if descending[0] { Ordering::Greater } else { Ordering::Less };
            prop_assert_eq!(left_key.cmp(&right_key), expected);
        }
        if left.0 == right.0 && left.1 != right.1 {
            let expected = left.1.cmp(&right.1);
            prop_assert_eq!(left_key.cmp(&right_key), if descending[1] { expected.reverse() } else { expected });
        }
    }

    #[test]
    fn never_panics(code: u8, meta: u16, collation in 0u16..330, prefix_len: Option<u32>, small in prop::option::of(0u32..4), stored: Vec<u8>) {
        let ty = ColumnType { collation, ..ColumnType::new(code, meta) };
        let column = SortKeyColumn { ty, nullable: true, descending: true, prefix_len: small.or(prefix_len) };
        if let Ok(plan) = SortKeyPlan::new(&[column]) {
            let _ = plan.append([Some(&stored[..])], &mut Vec::new());
        }
        let plan = SortKeyPlan::new(&[SortKeyColumn {
            prefix_len: small,
            ..column_of(collation)
        }]).unwrap();
        let text = prefixed(2, &stored);
        plan.append([Some(&text[..])], &mut Vec::new()).unwrap();
        let _ = weight_string(collation, &stored, &mut Vec::new());
    }
}

fn column_of(collation: u16) -> SortKeyColumn {
    column(ColumnType { collation, ..ColumnType::new(t::BLOB, 2) })
}
