//! Planted faults that verify must find.

use std::sync::Arc;

use values::{ColumnType, RowLayout, type_code as t};

use super::*;
use crate::row_source::EachRow;

/// Rows of (id INT, v VARCHAR(20)); v is NULL if None.
#[derive(Clone, Default)]
struct Fake(Vec<(Vec<u8>, u64)>);

fn image(id: i32, v: Option<&str>) -> Vec<u8> {
    let mut image = vec![if v.is_none() { 2 } else { 0 }];
    image.extend(id.to_le_bytes());
    if let Some(v) = v {
        image.push(v.len() as u8);
        image.extend(v.as_bytes());
    }
    image
}

impl Fake {
    fn of(rows: impl IntoIterator<Item = i32>) -> Fake {
        Fake(rows.into_iter().map(|id| (image(id, Some(&format!("value {id}"))), 1)).collect())
    }
}

impl RowSource for Fake {
    fn rows(&mut self, each: EachRow<'_>) -> Result<(), CompareError> {
        self.0.iter().try_for_each(|(image, copies)| each(image, *copies))
    }
}

fn shape(keyed: bool) -> Shape {
    let mut text = ColumnType::new(t::VARCHAR, 80);
    text.collation = 255;
    text.members = Arc::default();
    let types = vec![ColumnType::new(t::LONG, 0), text];
    Shape {
        db: "shop".into(),
        table: "items".into(),
        names: vec!["id".into(), "v".into()],
        layout: RowLayout::new(&types),
        types,
        key: if keyed { vec![0] } else { vec![] },
        not_known: Vec::new(),
    }
}

fn compare(keyed: bool, source: &Fake, here: &Fake) -> TableReport {
    compare_rows(&shape(keyed), &mut source.clone(), &mut here.clone(), 3).unwrap()
}

#[test]
fn equal_in_any_order() {
    let source = Fake::of(0..5000);
    let here = Fake::of((0..5000).rev());
    let report = compare(true, &source, &here);
    assert!(report.equal(), "{report}");
    assert_eq!((report.source.rows, report.source.chunks), (5000, 5));
    assert_eq!(report.source, report.here);
    assert_eq!(report.to_string().lines().count(), 1);
    assert!(compare(true, &Fake::default(), &Fake::default()).equal());
}

#[test]
fn a_flipped_byte_is_found_with_both_values() {
    let source = Fake::of(0..5000);
    let mut here = source.clone();
    let last = here.0[1234].0.len() - 1;
    here.0[1234].0[last] ^= 1;
    let report = compare(true, &source, &here);
    assert!(!report.equal());
    assert_eq!((report.differing_chunks, report.rows_different, report.rows_differing()), (1, 1, 1));
    let text = report.to_string();
    assert!(text.contains("different  id=1234: v source 'value 1234' here 'value 1235'"), "{text}");
    assert!(text.starts_with("DIFFERENT shop.items  rows 5000 / 5000"), "{text}");
}

#[test]
fn every_single_flipped_bit_is_found() {
    let source = Fake::of(0..2);
    for row in 0..1 {
        for bit in 0..source.0[row].0.len() * 8 {
            let mut here = source.clone();
            here.0[row].0[bit / 8] ^= 1 << (bit % 8);
            // Some flips make an image that cannot be walked: an error, but never "equal".
            if let Ok(report) = compare_rows(&shape(true), &mut source.clone(), &mut here, 3) {
                assert!(!report.equal(), "row {row} bit {bit}");
            }
        }
    }
}

#[test]
fn a_lost_row_and_one_too_many_are_found() {
    let source = Fake::of(0..5000);
    let mut here = source.clone();
    here.0.remove(77);
    let report = compare(true, &source, &here);
    assert_eq!((report.rows_only_source, report.rows_differing()), (1, 1));
    let text = report.to_string();
    assert!(text.contains("only in source: id=77, v='value 77'"), "{text}");
    let back = compare(true, &here, &source);
    assert_eq!((back.rows_only_here, back.rows_differing()), (1, 1));
    assert!(back.to_string().contains("only here: id=77"), "{back}");
}

#[test]
fn a_doubled_keyless_row_is_found() {
    let source = Fake::of((0..2000).chain([5, 5]));
    let mut here = Fake::of(0..2000);
    here.0[5].1 = 3;
    assert!(compare(false, &source, &here).equal());
    here.0[5].1 = 4;
    let report = compare(false, &source, &here);
    assert_eq!((report.rows_only_here, report.rows_differing()), (1, 1));
    assert!(report.to_string().contains("only here: id=5, v='value 5'"), "{report}");
    here.0[5].1 = 1;
    let report = compare(false, &source, &here);
    assert!(report.to_string().contains("only in source (2 copies): id=5"), "{report}");
}

#[test]
fn a_row_doubled_in_a_table_with_a_key_is_found() {
    let source = Fake::of(0..10);
    let mut here = source.clone();
    here.0.push(here.0[4].clone());
    assert_eq!(compare(true, &source, &here).rows_only_here, 1);
}

#[test]
fn null_is_not_empty() {
    let source = Fake(vec![(image(1, None), 1)]);
    let here = Fake(vec![(image(1, Some("")), 1)]);
    let report = compare(true, &source, &here);
    assert!(report.to_string().contains("v source NULL here ''"), "{report}");
}

#[test]
fn shown_rows_are_the_first_by_key() {
    let report = compare(true, &Fake::of(0..5000), &Fake::default());
    assert_eq!((report.rows_only_source, report.shown.len(), report.differing_chunks), (5000, 3, 5));
    let text = report.to_string();
    assert!(text.contains("only in source: id=0,") && text.contains("id=2,") && !text.contains("id=3,"), "{text}");
    assert!(text.contains("(the first 3 rows are shown)"), "{text}");
}

#[test]
fn too_many_differing_rows_are_not_all_held() {
    let report = compare(true, &Fake::of(0..300_000), &Fake::default());
    assert!(report.chunks_left_out);
    assert!(report.rows_only_source > 190_000 && report.rows_only_source <= EXAMINED_ROWS_MAX);
    assert!(report.to_string().contains("at least"));
}

/// A side that yields other rows when it is read a second time.
struct Unstable(bool);

impl RowSource for Unstable {
    fn rows(&mut self, each: EachRow<'_>) -> Result<(), CompareError> {
        let first = std::mem::replace(&mut self.0, false);
        each(&image(1, Some(if first { "old" } else { "new" })), 1)
    }
}

#[test]
fn a_difference_seen_once_still_counts() {
    let mut here = Fake(vec![(image(1, Some("new")), 1)]);
    let report = compare_rows(&shape(true), &mut Unstable(true), &mut here, 3).unwrap();
    assert!(!report.equal());
    assert!(report.to_string().contains("changed between two readings"), "{report}");
}

#[test]
fn what_is_shown_holds_the_first_difference() {
    let long = |end: &str| Fake(vec![(image(1, Some(&format!("{}{end}", "x".repeat(100)))), 1)]);
    let text = compare(true, &long("left"), &long("right")).to_string();
    assert!(text.contains("v source …xxxxxxxxxxxxxxxxxxxxleft' here …xxxxxxxxxxxxxxxxxxxxright'"), "{text}");
    let two = |byte: u8| {
        let mut row = image(1, Some("a?"));
        *row.last_mut().unwrap() = byte;
        Fake(vec![(row, 1)])
    };
    let text = compare(true, &two(0xfe), &two(0xff)).to_string();
    assert!(text.contains("[0x0261FE]") && text.contains("[0x0261FF]"), "{text}");
}
