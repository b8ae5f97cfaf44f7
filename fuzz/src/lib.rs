//! Shared parts of the fuzz targets: taking an input apart, column types from a table map, the first inputs.
//!
//! In: bytes from libFuzzer. Out: the parts a target asks for, so that one input holds several packets, or a table with
//! its rows. Never here: a parser under test. A target fails by panicking: the parsers must not, and the targets'
//! assertions must hold for every input.

mod input;
pub mod replay;
pub mod seeds;

pub use input::{Input, chunk, join, long};
pub use libfuzzer_sys::fuzz_target;

use binlog::TableMapEvent;
use values::ColumnType;

/// Columns as a reader of the log sees them: types combined with the optional metadata.
pub fn column_types(map: &TableMapEvent<'_>) -> Option<Vec<ColumnType>> {
    let details = map.optional_metadata().ok()?.details(map).ok()?;
    let types = map.columns().zip(details).map(|((code, metadata), column)| {
        let mut ty = ColumnType::from_table_map(code, metadata).ok()?;
        ty.unsigned = column.unsigned.unwrap_or(false);
        ty.collation = column.collation.unwrap_or(63);
        if let Some(members) = column.members {
            ty.members = members.map(Box::from).collect();
        }
        Some(ty)
    });
    types.collect()
}
