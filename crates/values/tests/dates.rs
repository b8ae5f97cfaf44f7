//! Dates converted as ALTER TABLE converts them, against what a server made of them (`dates.txt`).

use values::convert::{Conversion, ConvertOptions, DateRules};
use values::text::{TextOptions, write_text};
use values::{ColumnType, ValueError, type_code as t};

/// `datetime(3)` and its like.
fn column_type(name: &str) -> ColumnType {
    let (name, number) = match name.split_once('(') {
        Some((name, rest)) => (name, rest.trim_end_matches(')').parse().unwrap()),
        None => (name, 0),
    };
    let text = |code: u8| ColumnType { collation: 255, ..ColumnType::new(code, 160) };
    match name {
        "date" => ColumnType::new(t::DATE, 0),
        "datetime" => ColumnType::new(t::DATETIME2, number),
        "timestamp" => ColumnType::new(t::TIMESTAMP2, number),
        "time" => ColumnType::new(t::TIME2, number),
        "varchar" => text(t::VARCHAR),
        "char" => text(t::CHAR),
        other => panic!("{other}"),
    }
}

fn options(mode: &str) -> ConvertOptions {
    let has = |name: &str| mode.split(',').any(|one| one == name);
    ConvertOptions {
        strict: has("STRICT_TRANS_TABLES"),
        truncate_fraction: has("TIME_TRUNCATE_FRACTIONAL"),
        offset_seconds: Some(0),
        dates: DateRules { day_must_exist: !has("ALLOW_INVALID_DATES"), no_zero_in_date: has("NO_ZERO_IN_DATE") },
        ..ConvertOptions::default()
    }
}

fn converted(
    from: &ColumnType,
    to: &ColumnType,
    options: ConvertOptions,
    stored: &[u8],
) -> Result<Vec<u8>, ValueError> {
    let mut out = Vec::new();
    Conversion::new(from, to, options)?.append(stored, &mut out).map(|()| out)
}

fn shown(ty: &ColumnType, stored: &[u8]) -> String {
    let mut out = Vec::new();
    write_text(ty, stored, TextOptions::default(), &mut out).unwrap();
    String::from_utf8(out).unwrap()
}

/// The stored bytes of a value as the server prints it.
fn stored(ty: &ColumnType, value: &str) -> Vec<u8> {
    let text = [&[value.len() as u8][..], value.as_bytes()].concat();
    if ty.code == t::VARCHAR {
        return text;
    }
    let anything = ConvertOptions { offset_seconds: Some(0), ..ConvertOptions::default() };
    let datetime = ColumnType::new(t::DATETIME2, 6);
    let as_datetime = converted(&column_type("varchar"), &datetime, anything, &text).unwrap();
    let bytes = converted(&datetime, ty, anything, &as_datetime).unwrap();
    assert_eq!(shown(ty, &bytes), value);
    bytes
}

#[test]
fn as_the_server_converts_them() {
    let mut from: Option<(ColumnType, Vec<&str>)> = None;
    let mut compared = 0;
    for line in include_str!("dates.txt").lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        let [first, second, third] = line.split('\t').collect::<Vec<_>>().try_into().unwrap();
        let values: Vec<&str> = third.split('|').collect();
        if first == "from" {
            from = Some((column_type(second), values));
            continue;
        }
        let ((from, before), to) = (from.as_ref().unwrap(), column_type(second));
        assert_eq!(before.len(), values.len(), "{line}");
        for (before, after) in before.iter().zip(values) {
            let bytes = converted(from, &to, options(first), &stored(from, before)).unwrap();
            assert_eq!(shown(&to, &bytes), after, "{before} as {second} under {first}");
            compared += 1;
        }
    }
    assert!(compared > 1000, "{compared} values");
}

/// What the server refuses is no value here: the rows would differ.
#[test]
fn strict_modes_refuse_what_others_make_zero() {
    let strict = options("STRICT_TRANS_TABLES");
    let (fine, coarse) = (column_type("datetime(6)"), column_type("datetime"));
    for value in ["2024-02-30 10:00:00.000000", "2024-00-10 10:00:00.500000", "9999-12-31 23:59:59.900000"] {
        converted(&fine, &coarse, strict, &stored(&fine, value)).unwrap_err();
    }
    converted(&fine, &column_type("timestamp"), strict, &stored(&fine, "2024-00-10 10:00:00.000000")).unwrap_err();
    let kept = converted(&fine, &coarse, strict, &stored(&fine, "2024-00-10 10:00:00.000000")).unwrap();
    assert_eq!(shown(&coarse, &kept), "2024-00-10 10:00:00");
}

/// A column that keeps its type costs nothing where no date can become another, and nothing can be lost but dates else.
#[test]
fn only_sessions_that_refuse_dates_look_at_them() {
    let (date, fine) = (column_type("date"), column_type("datetime(6)"));
    let conversion = |from: &ColumnType, to: &ColumnType, mode| Conversion::new(from, to, options(mode)).unwrap();
    for mode in ["STRICT_TRANS_TABLES", "ALLOW_INVALID_DATES", "STRICT_TRANS_TABLES,NO_ZERO_IN_DATE"] {
        assert!(conversion(&date, &date, mode).keeps_bytes(), "{mode}");
        assert!(conversion(&column_type("datetime"), &fine, mode).is_lossless(), "{mode}");
    }
    for mode in ["", "ALLOW_INVALID_DATES,NO_ZERO_IN_DATE"] {
        for (from, to) in [(&date, &date), (&column_type("datetime"), &fine)] {
            let conversion = conversion(from, to, mode);
            assert!(!conversion.keeps_bytes() && !conversion.is_lossless(), "{mode}");
            assert!(conversion.is_lossless_but_for_dates(), "{mode}");
        }
        assert!(!conversion(&fine, &date, mode).is_lossless_but_for_dates(), "{mode}");
        assert!(conversion(&column_type("timestamp"), &column_type("timestamp"), mode).keeps_bytes(), "{mode}");
    }
}
