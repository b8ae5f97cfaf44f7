use proptest::prelude::*;

use super::*;
use crate::type_code as t;

fn layout(types: &[(u8, u16)]) -> RowLayout {
    RowLayout::new(&types.iter().map(|(code, meta)| ColumnType::new(*code, *meta)).collect::<Vec<_>>())
}

#[test]
fn fixed_and_variable_columns() {
    let layout = layout(&[(t::LONG, 0), (t::VARCHAR, 20), (t::SHORT, 0), (t::BLOB, 2)]);
    let image = [0xf0, 1, 0, 0, 0, 2, b'a', b'b', 7, 0, 1, 0, b'x', 0xee];
    assert_eq!(layout.walk(&image), Ok(13));
    let mut offsets = Vec::new();
    assert_eq!(layout.walk_offsets(&image, &mut offsets), Ok(13));
    assert_eq!(offsets, [(1, 4), (5, 3), (8, 2), (10, 3)]);
    assert_eq!(layout.walk(&[0xf5, 2, b'a', b'b', 0, 0]), Ok(6));
    assert_eq!(layout.walk(&[0xff]), Ok(1));
    assert_eq!(layout.walk(&[]), Err(ValueError::ImageCutOff { column: 0, available: 0 }));
    assert_eq!(layout.walk(&image[..7]), Err(ValueError::ImageCutOff { column: 1, available: 7 }));
    assert_eq!(layout.walk(&image[..12]), Err(ValueError::ImageCutOff { column: 3, available: 12 }));
}

#[test]
fn present_columns_and_merge() {
    let layout = layout(&[(t::LONG, 0), (t::VARCHAR, 20), (t::SHORT, 0)]);
    let mut offsets = Vec::new();
    assert_eq!(layout.walk_present(&[0b110], &[0xfc, 1, b'z', 9, 0], &mut offsets), Ok(5));
    assert_eq!(offsets, [(OFFSET_ABSENT, 0), (1, 2), (3, 2)]);
    assert_eq!(layout.walk_present(&[0b110], &[0xfd, 9, 0], &mut offsets), Ok(3));
    assert_eq!(offsets, [(OFFSET_ABSENT, 0), (OFFSET_NULL, 0), (1, 2)]);
    assert!(layout.walk_present(&[], &[0], &mut offsets).is_err());
    assert_eq!(layout.walk_present(&[0], &[], &mut offsets), Ok(0));

    let stored = [0xfc, 5, 0, 0, 0, 1, b'a'];
    let mut out = vec![0xaa];
    layout.merge(&stored, &[0b110], &[0xfc, 1, b'z', 9, 0], &mut out).unwrap();
    assert_eq!(out, [0xaa, 0x00, 5, 0, 0, 0, 1, b'z', 9, 0]);
    assert!(layout.images_equal(&stored, None, &[0x04, 5, 0, 0, 0, 1, b'a']));
    assert!(layout.images_equal(&stored, Some(&[0b010]), &[0xfe, 1, b'a']));
    assert!(!layout.images_equal(&stored, Some(&[0b010]), &[0xfe, 1, b'b']));
    assert!(!layout.images_equal(&stored, Some(&[0b010]), &[0xff]));
    assert!(!layout.images_equal(&stored, None, &stored[..3]));
}

fn column() -> impl Strategy<Value = ColumnType> {
    prop_oneof![
        prop::sample::select(vec![t::TINY, t::SHORT, t::INT24, t::LONG, t::LONGLONG, t::DATE, t::YEAR])
            .prop_map(|code| ColumnType::new(code, 0)),
        (prop::sample::select(vec![t::TIME2, t::DATETIME2, t::TIMESTAMP2]), 0u16..=6)
            .prop_map(|(code, meta)| ColumnType::new(code, meta)),
        (0u16..=600).prop_map(|meta| ColumnType::new(t::VARCHAR, meta)),
        (1u16..=4).prop_map(|meta| ColumnType::new(t::BLOB, meta)),
        (1u16..=64).prop_map(|meta| ColumnType::new(t::BIT, meta)),
        (1u16..=65).prop_map(|precision| ColumnType::new(t::DECIMAL, precision << 8)),
        Just(ColumnType::new(t::JSON, 4)),
    ]
}

/// Builds an image of these columns. `picks` gives presence, NULL and payload length of each.
fn build(types: &[ColumnType], picks: &[(bool, bool, u8)]) -> (Vec<u8>, Vec<u8>, Vec<(u32, u32)>) {
    let mut present = vec![0u8; types.len().div_ceil(8)];
    let used = picks.iter().zip(types).filter(|(p, _)| p.0).count();
    let mut image = Vec::new();
    let mut nulls = NullBitmap::start(&mut image, used);
    let mut offsets = Vec::new();
    for (column, (ty, (here, null, len))) in types.iter().zip(picks).enumerate() {
        if !here {
            offsets.push((OFFSET_ABSENT, 0));
            continue;
        }
        present[column / 8] |= 1 << (column % 8);
        if *null {
            nulls.null(&mut image);
            offsets.push((OFFSET_NULL, 0));
            continue;
        }
        nulls.not_null();
        let start = image.len();
        match ty.fixed_len() {
            Some(fixed) => image.extend(std::iter::repeat_n(*len, fixed)),
            None => {
                image.extend(&u32::from(*len).to_le_bytes()[..ty.prefix_len()]);
                image.extend(std::iter::repeat_n(b'x', usize::from(*len)));
            }
        }
        offsets.push((start as u32, (image.len() - start) as u32));
    }
    (present, image, offsets)
}

fn rows() -> impl Strategy<Value = (Vec<ColumnType>, Vec<(bool, bool, u8)>)> {
    prop_oneof![3 => 1usize..12, 1 => 12usize..70].prop_flat_map(|count| {
        (
            prop::collection::vec(column(), count),
            prop::collection::vec((prop::bool::weighted(0.7), prop::bool::weighted(0.2), 0u8..40), count),
        )
    })
}

proptest! {
    #[test]
    fn walks_agree((types, picks) in rows(), tail: Vec<u8>) {
        let layout = RowLayout::new(&types);
        let full: Vec<_> = picks.iter().map(|p| (true, p.1, p.2)).collect();
        let (all, mut image, expected) = build(&types, &full);
        let len = image.len();
        image.extend(&tail);
        let mut offsets = Vec::new();
        prop_assert_eq!(layout.walk(&image), Ok(len));
        prop_assert_eq!(layout.walk(&image[..len]), Ok(len));
        prop_assert_eq!(layout.walk_offsets(&image, &mut offsets), Ok(len));
        prop_assert_eq!(&offsets, &expected);
        prop_assert_eq!(layout.walk_present(&all, &image, &mut offsets), Ok(len));
        prop_assert_eq!(&offsets, &expected);
        for (column, (at, len)) in expected.iter().enumerate().filter(|(_, o)| o.0 < OFFSET_ABSENT) {
            prop_assert_eq!(layout.stored_len(column, &image[*at as usize..]), Ok(*len as usize));
        }
        for cut in 0..len {
            prop_assert!(layout.walk(&image[..cut]).is_err());
            prop_assert!(layout.walk_offsets(&image[..cut], &mut offsets).is_err());
            prop_assert!(layout.walk_present(&all, &image[..cut], &mut offsets).is_err());
        }

        let (present, partial, expected) = build(&types, &picks);
        prop_assert_eq!(layout.walk_present(&present, &partial, &mut offsets), Ok(partial.len()));
        prop_assert_eq!(&offsets, &expected);
        prop_assert!(layout.images_equal(&image, Some(&present), &partial));
        let mut merged = Vec::new();
        layout.merge(&image, &present, &partial, &mut merged).unwrap();
        prop_assert_eq!(&merged[..], &image[..len]);
    }

    #[test]
    fn walks_agree_on_any_bytes(types in prop::collection::vec(column(), 0..70), image: Vec<u8>, present: Vec<u8>) {
        let layout = RowLayout::new(&types);
        let mut offsets = Vec::new();
        let walked = layout.walk(&image);
        prop_assert_eq!(&layout.walk_offsets(&image, &mut offsets), &walked);
        let all = vec![0xff; types.len().div_ceil(8)];
        prop_assert_eq!(&layout.walk_present(&all, &image, &mut offsets), &walked);
        prop_assert!(walked.is_err() || layout.images_equal(&image, None, &image));
        let _ = layout.walk_present(&present, &image, &mut offsets);
        let _ = layout.merge(&image, &present, &image, &mut Vec::new());
    }
}
