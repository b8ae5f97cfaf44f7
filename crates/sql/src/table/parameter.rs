//! Parameters of a prepared statement that stand beside a column: MySQL types them by it.

use catalog::Column;
use values::collation::BINARY;
use values::type_code as t;
use wire::response::column_flag as flag;
use wire::row::type_code as w;

use crate::bind::{Bind, Field, NOT_FIXED, binary_flag};
use crate::charsets::bytes_a_character;

/// Bytes of text that a parameter may have, as MySQL announces them.
const TEXT_BYTES: u32 = 65_535;
/// LONG_BLOB: the type of a parameter beside a BLOB.
const LONG_BLOB: u8 = 251;

/// The parameters with their metadata, by number.
#[derive(Debug, Clone, Default)]
pub(crate) struct Parameters(pub(crate) Vec<(usize, Field)>);

impl Parameters {
    /// Takes note of a parameter beside a column.
    pub(crate) fn note(&mut self, number: usize, column: &Column) {
        if let Some(field) = field_of(column) {
            self.0.push((number, field));
        }
    }

    /// Takes note of a pattern beside a column: a string, whatever the column is.
    pub(crate) fn note_pattern(&mut self, number: usize, column: &Column, bind: &Bind<'_>) {
        let ty = &column.ty;
        let is_text = matches!(ty.code, t::CHAR | t::VARCHAR | t::ENUM | t::SET | t::BLOB);
        let collation = match ty.code {
            t::BIT => BINARY,
            _ if is_text => ty.collation,
            _ => bind.settings.charsets().connection,
        };
        self.0.push((number, text(collation)));
    }
}

fn field_of(column: &Column) -> Option<Field> {
    let ty = &column.ty;
    let unsigned = if ty.unsigned { flag::UNSIGNED } else { 0 };
    let number = |type_code, length, decimals, flags| Field { type_code, flags, length, decimals, collation: BINARY };
    let binary = flag::BINARY;
    Some(match ty.code {
        t::TINY | t::SHORT | t::INT24 | t::LONG | t::LONGLONG => number(w::LONGLONG, 21, 0, binary | unsigned),
        t::FLOAT | t::DOUBLE => number(w::DOUBLE, 23, NOT_FIXED, binary),
        t::DECIMAL => number(w::NEWDECIMAL, 67, 30, binary),
        t::BIT => number(w::BIT, 64, 0, flag::UNSIGNED),
        t::YEAR => number(w::YEAR, 4, 0, binary | flag::UNSIGNED),
        t::DATE => number(w::DATE, 10, 0, binary),
        t::TIME2 => number(w::TIME, 17, 6, binary),
        t::DATETIME2 | t::TIMESTAMP2 => number(w::DATETIME, 26, 6, binary),
        t::BLOB if ty.collation == BINARY => number(LONG_BLOB, u32::MAX, NOT_FIXED, binary),
        t::BLOB => {
            // MySQL takes the longest length for a number of characters, and makes bytes of it.
            let length = bytes_a_character(ty.collation).wrapping_neg();
            Field { type_code: LONG_BLOB, length, ..text(ty.collation) }
        }
        t::CHAR | t::VARCHAR | t::ENUM | t::SET => text(ty.collation),
        _ => return None,
    })
}

fn text(collation: u16) -> Field {
    let flags = if collation == BINARY { flag::BINARY } else { binary_flag(collation) };
    Field::text(flags, TEXT_BYTES / bytes_a_character(collation), collation)
}
