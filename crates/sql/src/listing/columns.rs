//! Columns as `information_schema` describes them.
//!
//! In: a column's definition. Out: its type, default and attributes in MySQL's words. Never here: what the log does not
//! tell of a column.

use catalog::{
    Column, ColumnDefault, GeneratedKind, ShownDefault, TableDef, column_type, data_type, fraction, members,
    shown_default, shown_now,
};
use values::collation::{self, BINARY};
use values::{ColumnType, Zone, type_code as t};

use super::text;
use crate::bind::Value;

/// Privileges of who may read and change a table: MySQL's words for one who may do all.
const PRIVILEGES: &str = "select,insert,update,references";

fn or_null<T>(value: Option<T>, of: impl FnOnce(T) -> Value) -> Value {
    value.map_or(Value::Null, of)
}

fn characters(ty: &ColumnType, bytes: u64) -> u64 {
    bytes / collation::by_id(ty.collation).map_or(1, |found| u64::from(found.mbmaxlen)).max(1)
}

/// Largest length in characters, and in bytes; None for what is no text.
fn lengths(column: &Column) -> Option<(u64, u64)> {
    let ty = &column.ty;
    let in_bytes = |chars: u64| chars * collation::by_id(ty.collation).map_or(1, |found| u64::from(found.mbmaxlen));
    let count = |name: String| name.chars().count() as u64;
    if ty.collation == BINARY && matches!(ty.code, t::ENUM | t::SET) {
        let bytes = ty.members.iter().map(|name| name.len() as u64);
        let bytes =
            if ty.code == t::ENUM { bytes.max()? } else { bytes.map(|len| len + 1).sum::<u64>().saturating_sub(1) };
        return Some((bytes, bytes));
    }
    match ty.code {
        t::CHAR | t::VARCHAR => Some((characters(ty, ty.meta.into()), ty.meta.into())),
        t::ENUM => members(ty).map(count).max().map(|chars| (chars, in_bytes(chars))),
        t::SET => {
            let chars = (members(ty).map(|name| count(name) + 1).sum::<u64>()).saturating_sub(1);
            Some((chars, in_bytes(chars)))
        }
        t::VECTOR => column.vector_entries.map(|entries| (entries * 4, entries * 4)),
        t::BLOB => {
            let bytes = (1u64 << (8 * ty.meta.clamp(1, 4))) - 1;
            let narrowest = match collation::by_id(ty.collation).map(|found| found.charset) {
                Some("ucs2" | "utf16" | "utf16le") => 2,
                Some("utf32") => 4,
                _ => 1,
            };
            Some((bytes / narrowest, bytes))
        }
        _ => None,
    }
}

/// Digits, and those after the point; None for what is no number.
fn precision(column: &Column) -> Option<(u64, Option<u64>)> {
    let ty = &column.ty;
    let display = &column.display;
    let fixed = display.digits.zip(display.decimals).map(|(digits, decimals)| (digits.into(), Some(decimals.into())));
    match ty.code {
        t::TINY => Some((3, Some(0))),
        t::SHORT => Some((5, Some(0))),
        t::INT24 => Some((7, Some(0))),
        t::LONG => Some((10, Some(0))),
        t::LONGLONG => Some((if ty.unsigned { 20 } else { 19 }, Some(0))),
        t::FLOAT => Some(fixed.unwrap_or((12, None))),
        t::DOUBLE => Some(fixed.unwrap_or((22, None))),
        t::DECIMAL => {
            let (precision, scale) = ty.precision_and_scale();
            Some((precision.into(), Some(scale.into())))
        }
        t::BIT => Some((ty.meta.into(), None)),
        _ => None,
    }
}

/// `COLUMN_DEFAULT`; None is NULL, and what is not known.
fn default(column: &Column) -> Option<String> {
    match shown_default(column, &Zone::UTC) {
        ShownDefault::None | ShownDefault::Unknown | ShownDefault::Expression(None) => None,
        ShownDefault::Now(text) | ShownDefault::Bits(text) | ShownDefault::Text(text) => Some(text),
        ShownDefault::Expression(Some(text)) => Some(escaped(&text)),
        ShownDefault::Bytes(bytes) => {
            let hex: String = bytes.iter().map(|byte| format!("{byte:02X}")).collect();
            Some(format!("0x{hex}"))
        }
    }
}

/// An expression as the dictionary shows it, with quotes and backslashes escaped once more.
pub(super) fn escaped(spelled: &str) -> String {
    spelled.replace('\\', "\\\\").replace('\'', "\\'")
}

/// `EXTRA`.
fn extra(column: &Column) -> String {
    let mut words = Vec::new();
    match column.generated {
        Some(GeneratedKind::Virtual) => words.push("VIRTUAL GENERATED".to_owned()),
        Some(GeneratedKind::Stored) => words.push("STORED GENERATED".to_owned()),
        None => {}
    }
    // A constant whose value is not known here is kept as it was written.
    let is_constant = |text: &str| column.declared.spelled.is_empty() && text.starts_with(['\'', '"']);
    let is_computed = match &column.default {
        ColumnDefault::CurrentTimestamp => true,
        ColumnDefault::Expression(text) => !is_constant(text),
        _ => false,
    };
    if is_computed && column.generated.is_none() {
        words.push("DEFAULT_GENERATED".to_owned());
    }
    if column.auto_increment {
        words.push("auto_increment".to_owned());
    }
    if column.on_update_now {
        words.push(format!("on update {}", shown_now(&column.ty)));
    }
    if column.invisible {
        words.push("INVISIBLE".to_owned());
    }
    words.join(" ")
}

/// `COLUMN_KEY`. The first unique key without NULL stands for a missing primary key.
fn column_key(table: &TableDef, position: usize) -> &'static str {
    let primary = table.keys.iter().find(|key| key.primary).or_else(|| table.identity_key());
    let is_in = |key: &catalog::Key| key.parts.iter().any(|part| part.column == position);
    if primary.is_some_and(is_in) {
        return "PRI";
    }
    let leads = |key: &&catalog::Key| {
        let is_first = key.parts.first().is_some_and(|part| part.column == position);
        is_first && key.expressions.iter().all(|(at, _)| *at > 0)
    };
    let mut leading = table.keys.iter().filter(leads).peekable();
    if leading.peek().is_none() {
        return "";
    }
    if leading.any(|key| key.unique && key.parts.len() + key.expressions.len() == 1) { "UNI" } else { "MUL" }
}

/// A row of `information_schema.COLUMNS`.
pub(super) fn row(table: &TableDef, position: usize, column: &Column) -> Vec<Value> {
    let number = Value::UInt;
    let ty = &column.ty;
    let has_collation = ty.collation != BINARY && matches!(ty.code, t::CHAR | t::VARCHAR | t::BLOB | t::ENUM | t::SET);
    let collation = collation::by_id(ty.collation).filter(|_| has_collation);
    let (chars, bytes) = lengths(column).unzip();
    let (digits, scale) = precision(column).unzip();
    let srid = column.geometry.split(" srid ").nth(1).and_then(|srid| srid.parse().ok());
    vec![
        text("def"),
        text(&table.db),
        text(&table.name),
        text(&column.name),
        number(position as u64 + 1),
        or_null(default(column), |default| text(&default)),
        text(if column.nullable { "YES" } else { "NO" }),
        text(data_type(column)),
        or_null(chars, |chars| Value::Int(i64::try_from(chars).unwrap_or(i64::MAX))),
        or_null(bytes, |bytes| Value::Int(i64::try_from(bytes).unwrap_or(i64::MAX))),
        or_null(digits, number),
        or_null(scale.flatten(), number),
        or_null(fraction(ty), number),
        or_null(collation, |found| text(found.charset)),
        or_null(collation, |found| text(found.name)),
        text(&column_type(column)),
        text(column_key(table, position)),
        text(&extra(column)),
        text(PRIVILEGES),
        text(&column.comment),
        match (&column.generated, column.declared.spelled.as_str()) {
            (None, _) => text(""),
            (Some(_), "") => Value::Null,
            (Some(_), spelled) => text(&escaped(spelled)),
        },
        or_null(srid, number),
    ]
}

/// A row of SHOW COLUMNS, or of SHOW FULL COLUMNS.
pub(super) fn shown(table: &TableDef, position: usize, column: &Column, full: bool) -> Vec<Value> {
    picked(row(table, position, column), full)
}

/// What SHOW COLUMNS shows of a row of `information_schema.COLUMNS`.
pub(super) fn picked(mut row: Vec<Value>, full: bool) -> Vec<Value> {
    let mut take = |at: usize| row.get_mut(at).map_or(Value::Null, |value| std::mem::replace(value, Value::Null));
    let (name, kind, collation) = (take(3), take(15), take(14));
    let (nullable, key, default, extra) = (take(6), take(16), take(5), take(17));
    match full {
        true => vec![name, kind, collation, nullable, key, default, extra, take(18), take(19)],
        false => vec![name, kind, nullable, key, default, extra],
    }
}
