//! Stored values as text and as SQL: decimals, floats, temporals, character sets, ENUM, SET, BIT.
#![no_main]

use binlog::TableMapEvent;
use fuzz::{Input, column_types, seeds};
use values::text::{BinaryForm, FloatForm, TextOptions, write_sql, write_text};
use values::{OFFSET_NULL, RowLayout};

fuzz::fuzz_target!(init: seeds::write(seeds::images), |data: &[u8]| {
    let mut input = Input::new(data);
    let Ok(map) = TableMapEvent::parse(input.chunk()) else { return };
    let image = input.rest();
    let Some(mut types) = column_types(&map) else { return };
    // Collations are not always in the log; the table id replaces them.
    types.iter_mut().filter(|ty| ty.collation == 63).for_each(|ty| ty.collation = (map.table_id & 0x3ff) as u16);
    let mut offsets = Vec::new();
    let _ = RowLayout::new(&types).walk_offsets(image, &mut offsets);
    let mut out = Vec::new();
    for (ty, (at, len)) in types.iter().zip(offsets).filter(|(_, (at, _))| *at != OFFSET_NULL) {
        let stored = &image[at as usize..(at + len) as usize];
        for (binary, float) in [(BinaryForm::Raw, FloatForm::AsServer), (BinaryForm::Hex, FloatForm::Exact)] {
            out.clear();
            let _ = write_text(ty, stored, TextOptions { binary, float }, &mut out);
            out.clear();
            let _ = write_sql(ty, stored, TextOptions { binary, float }, &mut out);
        }
    }
    // Bytes of any length, which no walk would return.
    if let Some(ty) = types.first() {
        let _ = write_text(ty, image, TextOptions::default(), &mut out);
        let _ = write_sql(ty, image, TextOptions::default(), &mut out);
    }
});
