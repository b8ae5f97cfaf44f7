//! A column's metadata in a result, as MySQL derives it from the table's definition.

use catalog::{Column, ColumnDefault, TableDef};
use values::collation::{self, BINARY};
use values::{ColumnType, type_code as t};
use wire::response::column_flag as flag;
use wire::row::type_code as w;

use crate::Result;
use crate::bind::{Field, NOT_FIXED, binary_flag, is_text};
use crate::charsets::bytes_a_character;
use crate::error::SqlError;

/// Length of a GEOMETRY or JSON, in bytes.
const LONGEST: u32 = u32::MAX;

/// Digits of an integer that MySQL keeps in four bytes there, at most.
const INT_DIGITS: u32 = 9;
/// Characters of a text that is no BLOB there, at most (`CONVERT_IF_BIGGER_TO_BLOB`).
const VARCHAR_CHARACTERS: u32 = 512;
/// Characters of a TIME without fractions.
const TIME_LENGTH: u32 = 10;
/// Flags that the column of a table keeps: those of its type, NOT NULL, and that it has no default.
const OF_TYPE: u16 = flag::NOT_NULL
    | flag::BLOB
    | flag::UNSIGNED
    | flag::ZEROFILL
    | flag::BINARY
    | flag::ENUM
    | flag::SET
    | flag::NO_DEFAULT_VALUE;

/// Where a column of a result comes from, besides its own name.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Origin {
    pub schema: Vec<u8>,
    /// The table's alias, or its name.
    pub table: Vec<u8>,
    pub org_table: Vec<u8>,
}

/// A column of a result.
#[derive(Debug, Clone, PartialEq)]
pub struct ResultColumn {
    /// Its name, as UTF-8.
    pub name: Vec<u8>,
    /// The table column's name; None for a constant.
    pub org_name: Option<Vec<u8>>,
    /// Where it comes from, if that is not where the others come from.
    pub origin: Option<Box<Origin>>,
    pub field: Field,
}

/// The metadata of a table's column.
///
/// # Errors
/// 1235 for a column of which the catalog of an earlier version does not tell all.
pub(crate) fn field_of(table: &TableDef, position: usize) -> Result<Field> {
    let Some(column) = table.columns.get(position) else {
        return Err(SqlError::defect("a column beyond the table's last one"));
    };
    let field = of_type(column)?;
    Ok(Field { flags: field.flags | flags_of(table, column, position), ..field })
}

/// Flags that do not follow from the type.
fn flags_of(table: &TableDef, column: &Column, position: usize) -> u16 {
    let bit = |on: bool, bit: u16| if on { bit } else { 0 };
    let now = column.default == ColumnDefault::CurrentTimestamp;
    let is_timestamp = matches!(column.ty.code, t::TIMESTAMP | t::TIMESTAMP2);
    let has_default = !matches!(column.default, ColumnDefault::None | ColumnDefault::Null);
    bit(!column.nullable, flag::NOT_NULL)
        | bit(!column.nullable && !has_default && !column.auto_increment, flag::NO_DEFAULT_VALUE)
        | bit(column.auto_increment, flag::AUTO_INCREMENT)
        | bit(is_timestamp && (now || column.on_update_now), flag::TIMESTAMP)
        | bit(is_timestamp && column.on_update_now, flag::ON_UPDATE_NOW)
        | key_flags(table, position)
}

/// PRI_KEY, UNIQUE_KEY, MULTIPLE_KEY, PART_KEY (sql/table.cc). The first unique key without NULL stands for a missing
/// primary key.
fn key_flags(table: &TableDef, position: usize) -> u16 {
    let identity = table.identity_key().map(|key| key.name.as_str());
    let mut flags = 0;
    for key in &table.keys {
        let Some(place) = key.parts.iter().position(|part| part.column == position) else { continue };
        flags |= flag::PART_KEY;
        let is_primary = key.primary || identity == Some(key.name.as_str());
        // Parts that are expressions count too.
        let is_first = place == 0 && key.expressions.iter().all(|(at, _)| *at > 0);
        let parts = key.parts.len() + key.expressions.len();
        flags |= match is_primary {
            true => flag::PRI_KEY,
            false if is_first && key.unique && parts == 1 => flag::UNIQUE_KEY,
            false if is_first => flag::MULTIPLE_KEY,
            false => 0,
        };
    }
    flags
}

fn of_type(column: &Column) -> Result<Field> {
    let ty = &column.ty;
    let unsigned = if ty.unsigned { flag::UNSIGNED } else { 0 };
    let zerofill = if column.display.zerofill_width > 0 { flag::ZEROFILL } else { 0 };
    let number = |type_code, length: u32, decimals| Field {
        type_code,
        flags: unsigned | zerofill,
        length: if zerofill == 0 { length } else { column.display.zerofill_width.into() },
        decimals,
        collation: BINARY,
    };
    let bytes = |type_code, length, flags, decimals| Field {
        type_code,
        flags: flags | flag::BINARY,
        length,
        decimals,
        collation: BINARY,
    };
    Ok(match ty.code {
        t::TINY | t::SHORT | t::INT24 | t::LONG | t::LONGLONG => number(wire_code(ty), integer_length(column), 0),
        t::FLOAT | t::DOUBLE => {
            let decimals = column.display.decimals.unwrap_or(NOT_FIXED);
            let length = match (column.display.decimals, column.display.digits) {
                (Some(_), Some(digits)) => digits.into(),
                (Some(_), None) => return Err(not_known(column, "FLOAT(M,D)")),
                (None, _) if ty.code == t::FLOAT => 12,
                (None, _) => 22,
            };
            number(wire_code(ty), length, decimals)
        }
        t::DECIMAL => {
            let (precision, scale) = ty.precision_and_scale();
            let length = u32::from(precision) + u32::from(scale > 0) + u32::from(!ty.unsigned);
            Field { length, ..number(w::NEWDECIMAL, length, scale) }
        }
        t::BIT => Field { flags: flag::UNSIGNED, ..number(w::BIT, ty.meta.into(), 0) },
        t::YEAR => Field { flags: flag::UNSIGNED | flag::ZEROFILL, length: 4, ..number(w::YEAR, 4, 0) },
        t::DATE => bytes(w::DATE, 10, 0, 0),
        t::TIME | t::TIME2 => bytes(w::TIME, 10 + fraction(ty), 0, decimals(ty)),
        t::DATETIME | t::DATETIME2 => bytes(w::DATETIME, 19 + fraction(ty), 0, decimals(ty)),
        t::TIMESTAMP | t::TIMESTAMP2 => bytes(w::TIMESTAMP, 19 + fraction(ty), 0, decimals(ty)),
        t::JSON => bytes(w::JSON, LONGEST, flag::BLOB, 0),
        t::GEOMETRY => bytes(w::GEOMETRY, LONGEST, flag::BLOB, 0),
        t::VECTOR => {
            let entries = column.vector_entries.ok_or_else(|| not_known(column, "VECTOR"))?;
            let length = u32::try_from(entries.saturating_mul(4)).unwrap_or(u32::MAX);
            bytes(w::VECTOR, length, flag::BLOB, NOT_FIXED)
        }
        _ => text(ty),
    })
}

fn not_known(column: &Column, what: &str) -> SqlError {
    SqlError::not_supported(&format!("reading the column {} of {what}: its length is not known here", column.name))
}

fn wire_code(ty: &ColumnType) -> u8 {
    match ty.code {
        t::TINY => w::TINY,
        t::SHORT => w::SHORT,
        t::INT24 => w::INT24,
        t::LONG => w::LONG,
        t::LONGLONG => w::LONGLONG,
        t::FLOAT => w::FLOAT,
        _ => w::DOUBLE,
    }
}

/// The width given, or digits with a sign.
fn integer_length(column: &Column) -> u32 {
    if let Some(width) = column.display.width {
        return width.into();
    }
    match (column.ty.code, column.ty.unsigned) {
        (t::TINY, unsigned) => 4 - u32::from(unsigned),
        (t::SHORT, unsigned) => 6 - u32::from(unsigned),
        (t::INT24, unsigned) => 9 - u32::from(unsigned),
        (t::LONG, unsigned) => 11 - u32::from(unsigned),
        _ => 20,
    }
}

/// Characters of fractional seconds, with the point.
fn fraction(ty: &ColumnType) -> u32 {
    let digits = u32::from(decimals(ty));
    digits + u32::from(digits > 0)
}

/// Digits of fractional seconds.
fn decimals(ty: &ColumnType) -> u8 {
    match ty.code {
        t::TIME2 | t::DATETIME2 | t::TIMESTAMP2 => u8::try_from(ty.meta).unwrap_or(6),
        _ => 0,
    }
}

fn text(ty: &ColumnType) -> Field {
    let characters = |bytes: u32| bytes / u32::from(collation::by_id(ty.collation).map_or(1, |found| found.mbmaxlen));
    let (type_code, flags, length) = match ty.code {
        t::CHAR => (w::STRING, 0, characters(ty.meta.into())),
        t::VARCHAR => (w::VAR_STRING, 0, characters(ty.meta.into())),
        t::ENUM => (w::STRING, flag::ENUM, members(ty).max().unwrap_or(0)),
        t::SET => (w::STRING, flag::SET, members(ty).map(|len| len + 1).sum::<u32>().saturating_sub(1)),
        _ => (w::BLOB, flag::BLOB, blob_bytes(ty) / least_bytes(ty.collation)),
    };
    let is_bytes = ty.collation == BINARY;
    let binary = if is_bytes { flag::BINARY } else { binary_flag(ty.collation) };
    Field { type_code, flags: flags | binary, length, decimals: 0, collation: ty.collation }
}

/// Largest length of a BLOB or TEXT in bytes.
fn blob_bytes(ty: &ColumnType) -> u32 {
    match ty.meta {
        1 => 0xff,
        2 => 0xffff,
        3 => 0xff_ffff,
        _ => LONGEST,
    }
}

/// Smallest length of a character in bytes.
pub(crate) fn least_bytes(collation: u16) -> u32 {
    match collation::by_id(collation).map(|found| found.charset) {
        Some("ucs2" | "utf16" | "utf16le") => 2,
        Some("utf32") => 4,
        _ => 1,
    }
}

/// Characters of each member's name.
fn members(ty: &ColumnType) -> impl Iterator<Item = u32> {
    ty.members.iter().map(|name| {
        let utf8 = values::charset::to_utf8mb4(ty.collation, name);
        let characters = utf8.map(|utf8| String::from_utf8_lossy(&utf8).chars().count());
        u32::try_from(characters.unwrap_or(name.len())).unwrap_or(u32::MAX)
    })
}

/// The column of a cursor in place of one of the statement: MySQL writes a cursor's rows into a table of its own, and
/// describes that one's columns.
#[must_use]
pub fn in_cursor(column: &ResultColumn) -> ResultColumn {
    let is_computed = column.org_name.is_none();
    let field = match is_computed {
        true => kept_as(column.field),
        false => Field { flags: column.field.flags & OF_TYPE, ..column.field },
    };
    let nowhere = || Box::new(Origin { schema: Vec::new(), table: Vec::new(), org_table: Vec::new() });
    let origin = if is_computed { Some(nowhere()) } else { column.origin.clone() };
    ResultColumn { name: column.name.clone(), org_name: Some(column.name.clone()), origin, field }
}

/// As what the value of an expression is kept.
fn kept_as(field: Field) -> Field {
    let flags = field.flags & (flag::NOT_NULL | flag::UNSIGNED);
    match field.type_code {
        w::NULL => Field { decimals: 0, ..Field::text(flag::BINARY, 0, BINARY) },
        w::LONGLONG if field.length <= INT_DIGITS => Field { type_code: w::LONG, flags, ..field },
        w::LONGLONG | w::DOUBLE | w::NEWDECIMAL => Field { flags, ..field },
        w::TIME => {
            let fraction = if field.decimals > 0 { u32::from(field.decimals) + 1 } else { 0 };
            Field { length: field.length.max(TIME_LENGTH + fraction), ..field }
        }
        _ if is_text(&field) => text_kept_as(field),
        _ => field,
    }
}

fn text_kept_as(field: Field) -> Field {
    let flags = field.flags & (flag::NOT_NULL | flag::BINARY);
    let (characters, bytes) = match field.type_code {
        w::VAR_STRING => (field.length, field.length.saturating_mul(bytes_a_character(field.collation))),
        _ => (u32::MAX, field.length),
    };
    if characters <= VARCHAR_CHARACTERS {
        return Field { flags, decimals: 0, ..field };
    }
    Field { type_code: w::BLOB, flags: flags | flag::BLOB, length: bytes, decimals: 0, ..field }
}
