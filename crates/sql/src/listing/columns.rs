//! Columns as `information_schema` describes them.
//!
//! In: a column's definition. Out: its type, default and attributes in MySQL's words. Never here: what the log does not
//! tell of a column.

use catalog::{Column, ColumnDefault, GeneratedKind, TableDef};
use values::collation::{self, BINARY};
use values::text::{TextOptions, write_text};
use values::{ColumnType, type_code as t};

use super::text;
use crate::bind::Value;

/// Privileges of who may read and change a table: MySQL's words for one who may do all.
const PRIVILEGES: &str = "select,insert,update,references";

fn or_null<T>(value: Option<T>, of: impl FnOnce(T) -> Value) -> Value {
    value.map_or(Value::Null, of)
}

/// `DATA_TYPE`.
fn data_type(column: &Column) -> &str {
    let ty = &column.ty;
    let is_bytes = ty.collation == BINARY;
    match ty.code {
        t::TINY => "tinyint",
        t::SHORT => "smallint",
        t::INT24 => "mediumint",
        t::LONG => "int",
        t::LONGLONG => "bigint",
        t::FLOAT => "float",
        t::DOUBLE => "double",
        t::DECIMAL => "decimal",
        t::BIT => "bit",
        t::YEAR => "year",
        t::DATE => "date",
        t::TIME | t::TIME2 => "time",
        t::DATETIME | t::DATETIME2 => "datetime",
        t::TIMESTAMP | t::TIMESTAMP2 => "timestamp",
        t::JSON => "json",
        t::GEOMETRY => column.geometry.split(' ').next().filter(|name| !name.is_empty()).unwrap_or("geometry"),
        t::VECTOR => "vector",
        t::ENUM => "enum",
        t::SET => "set",
        t::CHAR => {
            if is_bytes {
                "binary"
            } else {
                "char"
            }
        }
        t::VARCHAR => {
            if is_bytes {
                "varbinary"
            } else {
                "varchar"
            }
        }
        _ => match (ty.meta, is_bytes) {
            (1, true) => "tinyblob",
            (1, false) => "tinytext",
            (2, true) => "blob",
            (2, false) => "text",
            (3, true) => "mediumblob",
            (3, false) => "mediumtext",
            (_, true) => "longblob",
            (_, false) => "longtext",
        },
    }
}

/// `COLUMN_TYPE`.
pub(super) fn column_type(column: &Column) -> String {
    let ty = &column.ty;
    let name = data_type(column);
    let display = &column.display;
    let sign = match (ty.unsigned, display.zerofill_width > 0) {
        (_, true) => " unsigned zerofill",
        (true, false) => " unsigned",
        (false, false) => "",
    };
    match ty.code {
        t::TINY | t::SHORT | t::INT24 | t::LONG | t::LONGLONG => match (display.zerofill_width, display.width) {
            (0, Some(1)) if ty.code == t::TINY && !ty.unsigned => "tinyint(1)".to_owned(),
            (0, _) => format!("{name}{sign}"),
            (width, _) => format!("{name}({width}){sign}"),
        },
        t::FLOAT | t::DOUBLE => match (display.digits, display.decimals) {
            (Some(digits), Some(decimals)) => format!("{name}({digits},{decimals}){sign}"),
            _ => format!("{name}{sign}"),
        },
        t::DECIMAL => {
            let (precision, scale) = ty.precision_and_scale();
            format!("{name}({precision},{scale}){sign}")
        }
        t::BIT => format!("bit({})", ty.meta),
        t::TIME2 | t::DATETIME2 | t::TIMESTAMP2 if ty.meta > 0 => format!("{name}({})", ty.meta),
        t::CHAR | t::VARCHAR => format!("{name}({})", characters(ty, ty.meta.into())),
        t::VECTOR => column.vector_entries.map_or_else(|| name.to_owned(), |entries| format!("vector({entries})")),
        t::ENUM | t::SET => {
            format!("{name}({})", members(ty).map(|member| quoted(&member)).collect::<Vec<_>>().join(","))
        }
        _ => name.to_owned(),
    }
}

fn quoted(member: &str) -> String {
    format!("'{}'", member.replace('\'', "''"))
}

/// The members' names, as UTF-8.
fn members(ty: &ColumnType) -> impl Iterator<Item = String> {
    ty.members.iter().map(|name| {
        let utf8 = values::charset::to_utf8mb4(ty.collation, name);
        String::from_utf8_lossy(&utf8.unwrap_or(std::borrow::Cow::Borrowed(name))).into_owned()
    })
}

fn characters(ty: &ColumnType, bytes: u64) -> u64 {
    bytes / collation::by_id(ty.collation).map_or(1, |found| u64::from(found.mbmaxlen)).max(1)
}

/// Largest length in characters, and in bytes; None for what is no text.
fn lengths(column: &Column) -> Option<(u64, u64)> {
    let ty = &column.ty;
    let in_bytes = |chars: u64| chars * collation::by_id(ty.collation).map_or(1, |found| u64::from(found.mbmaxlen));
    let count = |name: String| name.chars().count() as u64;
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
            Some((bytes, bytes))
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

/// Digits of a time's fraction; None for what has none.
fn fraction(ty: &ColumnType) -> Option<u64> {
    match ty.code {
        t::TIME2 | t::DATETIME2 | t::TIMESTAMP2 => Some(ty.meta.into()),
        t::TIME | t::DATETIME | t::TIMESTAMP => Some(0),
        _ => None,
    }
}

fn now(ty: &ColumnType) -> String {
    match fraction(ty) {
        Some(digits) if digits > 0 => format!("CURRENT_TIMESTAMP({digits})"),
        _ => "CURRENT_TIMESTAMP".to_owned(),
    }
}

/// `COLUMN_DEFAULT`; None is NULL.
fn default(column: &Column) -> Option<String> {
    let image = match &column.default {
        ColumnDefault::None | ColumnDefault::Null => return None,
        ColumnDefault::CurrentTimestamp => return Some(now(&column.ty)),
        ColumnDefault::Expression(text) => return Some(text.clone()),
        ColumnDefault::Image(image) => image,
    };
    let mut out = Vec::new();
    match column.ty.code {
        t::BIT => {
            let bits = image.iter().fold(0u64, |bits, byte| bits << 8 | u64::from(*byte));
            return Some(format!("b'{bits:b}'"));
        }
        t::CHAR | t::VARCHAR if column.ty.collation == BINARY => {
            let bytes = image.get(column.ty.prefix_len()..).unwrap_or_default();
            let hex: String = bytes.iter().map(|byte| format!("{byte:02X}")).collect();
            return Some(format!("0x{hex}"));
        }
        _ => write_text(&column.ty, image, TextOptions::default(), &mut out).ok()?,
    }
    Some(String::from_utf8_lossy(&out).into_owned())
}

/// `EXTRA`.
fn extra(column: &Column) -> String {
    let mut words = Vec::new();
    match column.generated {
        Some(GeneratedKind::Virtual) => words.push("VIRTUAL GENERATED".to_owned()),
        Some(GeneratedKind::Stored) => words.push("STORED GENERATED".to_owned()),
        None => {}
    }
    let is_computed = matches!(column.default, ColumnDefault::CurrentTimestamp | ColumnDefault::Expression(_));
    if is_computed && column.generated.is_none() {
        words.push("DEFAULT_GENERATED".to_owned());
    }
    if column.auto_increment {
        words.push("auto_increment".to_owned());
    }
    if column.on_update_now {
        words.push(format!("on update {}", now(&column.ty)));
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
        text(&column.expression),
        or_null(srid, number),
    ]
}

/// A row of SHOW COLUMNS, or of SHOW FULL COLUMNS.
pub(super) fn shown(table: &TableDef, position: usize, column: &Column, full: bool) -> Vec<Value> {
    let mut row = row(table, position, column);
    let mut take = |at: usize| row.get_mut(at).map_or(Value::Null, |value| std::mem::replace(value, Value::Null));
    let (name, kind, collation) = (take(3), take(15), take(14));
    let (nullable, key, default, extra) = (take(6), take(16), take(5), take(17));
    match full {
        true => vec![name, kind, collation, nullable, key, default, extra, take(18), take(19)],
        false => vec![name, kind, nullable, key, default, extra],
    }
}
