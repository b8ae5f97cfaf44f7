//! Literals that are bytes: hexadecimal, bits, and texts with the introducer `_binary`.
//!
//! In: bytes as the parser found them. Out: typed values. Never here: numbers and texts (`bind.rs`).

use values::collation::BINARY;
use wire::response::column_flag;

use crate::Result;
use crate::bind::{Bind, Bound, Field, Value};
use crate::error::SqlError;
use crate::invalid::said_of_literal;

/// A hexadecimal or bit literal; with an introducer it is text.
pub(crate) fn bytes(bind: &Bind<'_>, bytes: &[u8], is_bits: bool, introducer: Option<&str>) -> Result<Bound> {
    if introducer.is_some_and(|name| name != "binary") {
        let said = introducer.and_then(|charset| said_of_literal(charset, bytes));
        return said.map_or_else(|| bind.text(bytes, introducer), |said| Err(SqlError::new(1300, "HY000", said)));
    }
    // Hexadecimal ones are unsigned as numbers, bits are not.
    let unsigned = if is_bits || introducer.is_some() { 0 } else { column_flag::UNSIGNED };
    let decimals = if introducer.is_some() { crate::bind::NOT_FIXED } else { 0 };
    Ok(Bound { field: Field { decimals, ..binary(bytes, unsigned) }, value: Value::Text(bytes.to_vec()) })
}

/// A text with the introducer `_binary`.
pub(crate) fn binary_text(bytes: &[u8]) -> Bound {
    Bound { field: binary(bytes, 0), value: Value::Text(bytes.to_vec()) }
}

fn binary(bytes: &[u8], flags: u16) -> Field {
    let length = u32::try_from(bytes.len()).unwrap_or(u32::MAX);
    Field::text(column_flag::NOT_NULL | column_flag::BINARY | flags, length, BINARY)
}
