//! Rows of prepared statements: read value by value, and converted to row images.
#![no_main]

use binlog::TableMapEvent;
use fuzz::{Input, chunk, column_types, join, seeds};
use values::RowLayout;
use values::binary_protocol::{ResultColumn, RowEncoder, comparable_image};
use wire::row::{BinaryRow, ValueType};

/// Wire types of the columns in the logs' tables, in turn; the values are left to the fuzzer.
fn rows() -> Vec<Vec<u8>> {
    let of_map = |(map, _, _): (Vec<u8>, u8, Vec<u8>)| {
        let parsed = TableMapEvent::parse(&map).ok()?;
        let wire: Vec<u8> = parsed
            .columns()
            .map(|(code, _)| match code {
                17 => 7,
                18 => 12,
                19 => 11,
                10 => 10,
                code => code,
            })
            .collect();
        let nulls = vec![0; (wire.len() + 9) / 8];
        Some(join(&[&chunk(&map), &chunk(&wire), &[0], &nulls, &[1; 100]]))
    };
    seeds::rows().into_iter().filter_map(of_map).collect()
}

fuzz::fuzz_target!(init: seeds::write(rows), |data: &[u8]| {
    let mut input = Input::new(data);
    let (map, wire) = (input.chunk(), input.chunk());
    let packet = input.rest();
    let types: Vec<ValueType> = wire.iter().map(|code| ValueType { code: *code, unsigned: false }).collect();
    if let Ok(mut row) = BinaryRow::new(packet, &types) {
        while row.next_value().is_ok() {}
    }
    let Some(columns) = TableMapEvent::parse(map).ok().and_then(|map| column_types(&map)) else { return };
    let result: Vec<ResultColumn> = wire.iter().map(|code| ResultColumn { code: *code, unsigned: false }).collect();
    let Ok(encoder) = RowEncoder::new(&columns, &result) else { return };
    let mut image = Vec::new();
    if encoder.encode_packet(packet, &mut image).is_ok() {
        let layout = RowLayout::new(&columns);
        assert_eq!(layout.walk(&image), Ok(image.len()), "an image that was made is walked to its end");
        let _ = comparable_image(&columns, &layout, &[], &image, &mut Vec::new(), &mut Vec::new());
    }
});
