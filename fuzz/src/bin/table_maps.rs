//! Table maps and their optional metadata.
#![no_main]

use binlog::{TableMapEvent, event_type};
use fuzz::{column_types, seeds};
use values::RowLayout;

fuzz::fuzz_target!(init: seeds::write(|| seeds::bodies(event_type::TABLE_MAP)), |data: &[u8]| {
    let Ok(map) = TableMapEvent::parse(data) else { return };
    assert_eq!(TableMapEvent::table_id_of(data).ok(), Some(map.table_id));
    assert_eq!(map.columns().count(), map.column_count());
    assert_eq!(map.columns().map(|(_, raw)| raw.len()).sum::<usize>(), map.metadata.len());
    map.is_nullable(map.column_count());
    if let Ok(metadata) = map.optional_metadata() {
        for part in metadata.primary_key(map.column_count()).ok().flatten().unwrap_or_default() {
            assert!(part.column < map.column_count());
        }
    }
    if let Some(types) = column_types(&map) {
        for ty in &types {
            ty.check().expect("what a table map gave is a type");
            let _ = (ty.name(), ty.text_collation(), ty.fixed_len(), ty.prefix_len());
        }
        assert_eq!(RowLayout::new(&types).column_count(), types.len());
    }
});
