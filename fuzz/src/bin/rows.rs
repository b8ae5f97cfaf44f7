//! Rows events: images walked in every way, under the table in the input.
#![no_main]

use binlog::{PartialUpdateImage, RowsEvent, TableMapEvent};
use fuzz::{Input, chunk, column_types, join, seeds};
use values::{OFFSET_ABSENT, OFFSET_NULL, RowLayout};

fn events() -> Vec<Vec<u8>> {
    seeds::rows().into_iter().map(|(map, kind, rows)| join(&[&chunk(&map), &[kind], &rows])).collect()
}

/// Offsets follow one another within the image, `len` bytes in all.
fn check(offsets: &[(u32, u32)], image: &[u8], len: usize, present: usize) {
    assert!(len <= image.len());
    let mut end = present.div_ceil(8);
    for (at, value_len) in offsets.iter().filter(|(at, _)| *at != OFFSET_NULL && *at != OFFSET_ABSENT) {
        assert_eq!(*at as usize, end);
        end += *value_len as usize;
    }
    assert_eq!(end, len);
}

fuzz::fuzz_target!(init: seeds::write(events), |data: &[u8]| {
    let mut input = Input::new(data);
    let Ok(map) = TableMapEvent::parse(input.chunk()) else { return };
    let event_type = input.byte();
    let (Some(types), Ok(event)) = (column_types(&map), RowsEvent::parse(event_type, input.rest())) else { return };
    let layout = RowLayout::new(&types);
    let _ = PartialUpdateImage::parse(event.rows, types.len()).map(|image| image.is_partial(types.len()));
    let mut offsets = Vec::new();
    let walked = layout.walk_offsets(event.rows, &mut offsets);
    assert_eq!(layout.walk(event.rows), walked, "both walks agree");
    if let Ok(len) = walked {
        check(&offsets, event.rows, len, types.len());
    }
    for present in [event.before_columns, event.after_columns] {
        let mut rest = event.rows;
        while let Ok(len) = layout.walk_present(present, rest, &mut offsets) {
            check(&offsets, rest, len, offsets.iter().filter(|(at, _)| *at != OFFSET_ABSENT).count());
            if let Ok(full) = walked {
                let mut merged = Vec::new();
                layout.merge(event.rows, present, rest, &mut merged).expect("both images are whole");
                assert_eq!(layout.walk(&merged), Ok(merged.len()));
                assert!(layout.images_equal(&merged, Some(present), rest));
                assert!(layout.images_equal(&event.rows[..full], None, event.rows));
            }
            if len == 0 {
                break;
            }
            rest = &rest[len..];
        }
    }
});
