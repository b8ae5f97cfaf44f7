//! Columns as the source prints them.

use std::borrow::Cow;
use std::fmt::Write as _;

use values::collation::{self, BINARY};
use values::text::{TextOptions, write_text};
use values::{ColumnType, Zone, type_code as t};

use super::{NotKnown, SourceZones, not_known, quoted};
use crate::charset;
use crate::declared::{DEFAULT_ZONE, LISTED_DEFAULT};
use crate::default_value;
use crate::parser::backticked;
use crate::table::{Column, ColumnDefault, GeneratedKind, TableDef};

/// `DATA_TYPE` of a column.
#[must_use]
pub fn data_type(column: &Column) -> &str {
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
        t::CHAR if is_bytes => "binary",
        t::CHAR => "char",
        t::VARCHAR if is_bytes => "varbinary",
        t::VARCHAR => "varchar",
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

/// `COLUMN_TYPE` of a column.
#[must_use]
pub fn column_type(column: &Column) -> String {
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
        t::CHAR | t::VARCHAR => {
            let width = collation::by_id(ty.collation).map_or(1, |found| u64::from(found.mbmaxlen)).max(1);
            format!("{name}({})", u64::from(ty.meta) / width)
        }
        t::VECTOR => column.vector_entries.map_or_else(|| name.to_owned(), |entries| format!("vector({entries})")),
        t::ENUM | t::SET => {
            let all = ty.members.iter().zip(members(ty)).map(|(bytes, text)| match ty.collation {
                BINARY if std::str::from_utf8(bytes).is_err() => format!("x'{}'", hex(bytes).to_lowercase()),
                _ => quoted(&text),
            });
            format!("{name}({})", all.collect::<Vec<_>>().join(","))
        }
        _ => name.to_owned(),
    }
}

/// Bytes as capital hexadecimal digits.
pub(crate) fn hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::with_capacity(2 * bytes.len()), |text, byte| text + &format!("{byte:02X}"))
}

/// Names of the members of ENUM and SET, as UTF-8.
pub fn members(ty: &ColumnType) -> impl Iterator<Item = String> {
    ty.members.iter().map(|name| {
        let utf8 = values::charset::to_utf8mb4(ty.collation, name);
        String::from_utf8_lossy(&utf8.unwrap_or(Cow::Borrowed(name))).into_owned()
    })
}

/// Digits of a time's fraction; None for what has none.
#[must_use]
pub fn fraction(ty: &ColumnType) -> Option<u64> {
    match ty.code {
        t::TIME2 | t::DATETIME2 | t::TIMESTAMP2 => Some(ty.meta.into()),
        t::TIME | t::DATETIME | t::TIMESTAMP => Some(0),
        _ => None,
    }
}

/// CURRENT_TIMESTAMP with a type's digits.
#[must_use]
pub fn now(ty: &ColumnType) -> String {
    match fraction(ty) {
        Some(digits) if digits > 0 => format!("CURRENT_TIMESTAMP({digits})"),
        _ => "CURRENT_TIMESTAMP".to_owned(),
    }
}

/// A column's DEFAULT, to be shown.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ShownDefault {
    /// No DEFAULT, or DEFAULT NULL.
    None,
    Now(String),
    /// An expression in the source's spelling; None if it is not known.
    Expression(Option<String>),
    /// `b'101'`.
    Bits(String),
    /// Bytes of BINARY and VARBINARY.
    Bytes(Vec<u8>),
    /// A constant as text.
    Text(String),
    /// A constant that cannot be shown.
    Unknown,
}

/// A column's DEFAULT as information_schema lists it; of a TIMESTAMP as it reads in the zone, if the column did not
/// keep its text in that of the statement which gave it.
#[must_use]
pub fn shown_default(column: &Column, zone: &Zone) -> ShownDefault {
    let options = &column.declared.options;
    if let Some(listed) = options.get(LISTED_DEFAULT) {
        return ShownDefault::Text(listed.to_owned());
    }
    if let (Some(_), ColumnDefault::Expression(text)) = (options.get(DEFAULT_ZONE), &column.default)
        && let Some(text) = text.strip_prefix('\'').and_then(|text| text.strip_suffix('\''))
    {
        return ShownDefault::Text(text.to_owned());
    }
    match default_in(column, zone, &SourceZones::default()) {
        // The source's dictionary has utf8mb3, and ends bytes at the first zero.
        ShownDefault::Text(text) => ShownDefault::Text(charset::in_utf8mb3(&text)),
        ShownDefault::Bytes(bytes) if bytes.is_empty() && column.ty.code != t::CHAR => {
            ShownDefault::Text(String::new())
        }
        ShownDefault::Bytes(mut bytes) => {
            bytes.truncate(bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len()));
            ShownDefault::Bytes(bytes)
        }
        other => other,
    }
}

/// A column's DEFAULT, of a TIMESTAMP as it reads in the zone.
fn default_in(column: &Column, zone: &Zone, source: &SourceZones) -> ShownDefault {
    let declared = &column.declared;
    let image = match &column.default {
        ColumnDefault::None | ColumnDefault::Null => return ShownDefault::None,
        ColumnDefault::CurrentTimestamp => return ShownDefault::Now(now(&column.ty)),
        ColumnDefault::Expression(text) => match declared.options.get(DEFAULT_ZONE) {
            Some(name) => {
                let image = source.zone(name).and_then(|zone| default_value::of_local_text(&column.ty, text, &zone));
                let text = image.and_then(|image| timestamp_text(&column.ty, &image, zone));
                return text.map_or(ShownDefault::Unknown, ShownDefault::Text);
            }
            None => {
                let spelled = &declared.spelled;
                return ShownDefault::Expression((!spelled.is_empty()).then(|| spelled.clone()));
            }
        },
        ColumnDefault::Image(image) => image,
    };
    let ty = &column.ty;
    let mut out = Vec::new();
    let written = match ty.code {
        t::BIT => {
            let bits = image.iter().fold(0u64, |bits, byte| bits << 8 | u64::from(*byte));
            return ShownDefault::Bits(format!("b'{bits:b}'"));
        }
        t::CHAR | t::VARCHAR if ty.collation == BINARY => {
            return ShownDefault::Bytes(image.get(ty.prefix_len()..).unwrap_or_default().to_vec());
        }
        t::ENUM | t::SET if ty.collation == BINARY => {
            let written = write_text(ty, image, TextOptions::default(), &mut out);
            return written.map_or(ShownDefault::Unknown, |()| ShownDefault::Bytes(out));
        }
        t::TIMESTAMP2 => {
            return timestamp_text(ty, image, zone).map_or(ShownDefault::Unknown, ShownDefault::Text);
        }
        _ => write_text(ty, image, TextOptions::default(), &mut out),
    };
    let text = written.ok().and_then(|()| String::from_utf8(out).ok());
    text.and_then(|text| displayed(column, image, text)).map_or(ShownDefault::Unknown, ShownDefault::Text)
}

/// A TIMESTAMP as it reads in a zone.
pub(crate) fn timestamp_text(ty: &ColumnType, image: &[u8], zone: &Zone) -> Option<String> {
    let mut out = Vec::new();
    write_text(ty, &in_zone(image, zone), TextOptions::default(), &mut out).ok()?;
    String::from_utf8(out).ok()
}

/// The image of a TIMESTAMP that shows the local time of a zone.
fn in_zone<'a>(image: &'a [u8], zone: &Zone) -> Cow<'a, [u8]> {
    let Some((seconds, rest)) = image.split_first_chunk::<4>() else { return Cow::Borrowed(image) };
    let utc = u32::from_be_bytes(*seconds);
    let local = i64::from(utc) + zone.offset_s(i64::from(utc));
    match u32::try_from(local) {
        // Zero is no time, and so the same everywhere.
        Ok(local) if utc != 0 && local != utc => {
            let mut shifted = local.to_be_bytes().to_vec();
            shifted.extend_from_slice(rest);
            Cow::Owned(shifted)
        }
        _ => Cow::Borrowed(image),
    }
}

/// A number with the digits of FLOAT(M,D), the zeros of ZEROFILL, and an exponent where it is wider than its column
/// (`Field_float::val_str`, `my_gcvt`); None if digits would be left out too.
fn displayed(column: &Column, image: &[u8], text: String) -> Option<String> {
    let widest = match column.ty.code {
        t::FLOAT => 12,
        t::DOUBLE => 22,
        _ => usize::MAX,
    };
    let exact = match image {
        [a, b, c, d] => f64::from(f32::from_le_bytes([*a, *b, *c, *d])),
        _ => f64::from_le_bytes(*image.first_chunk().unwrap_or(&[0; 8])),
    };
    let text = match (column.display.decimals, text.parse::<f64>()) {
        (Some(decimals), _) if widest < usize::MAX => format!("{exact:.*}", usize::from(decimals)),
        (None, Ok(number)) if text.len() > widest => {
            let short = format!("{number:e}");
            (short.len() <= widest).then_some(short)?
        }
        _ => text,
    };
    let width = usize::from(column.display.zerofill_width);
    Some(if text.len() < width { format!("{text:0>width$}") } else { text })
}

/// A column's line in SHOW CREATE TABLE.
pub(super) fn element(
    table: &TableDef,
    column: &Column,
    zone: &Zone,
    source: &SourceZones,
) -> Result<String, NotKnown> {
    let ty = &column.ty;
    let declared = &column.declared;
    let mut out = format!("{} {}", backticked(&column.name), column_type(column));
    let is_text = match ty.code {
        t::CHAR | t::VARCHAR | t::BLOB => ty.collation != BINARY,
        t::ENUM | t::SET => true,
        _ => false,
    };
    if is_text {
        let Some(found) = collation::by_id(ty.collation) else {
            return not_known(format!("the collation {} of column {}", ty.collation, backticked(&column.name)));
        };
        let is_default = charset::default_collation(found.charset).is_some_and(|of| of.id == ty.collation);
        let differs = ty.collation != table.default_collation;
        if declared.collated || differs {
            let _ = write!(out, " CHARACTER SET {}", found.charset);
        }
        if !is_default || declared.collated || differs && found.name == "utf8mb4_0900_ai_ci" {
            let _ = write!(out, " COLLATE {}", found.name);
        }
    }
    if let Some(kind) = column.generated {
        if declared.spelled.is_empty() {
            return not_known(format!("how the source spells the expression of column {}", backticked(&column.name)));
        }
        let kind = if kind == GeneratedKind::Stored { "STORED" } else { "VIRTUAL" };
        let _ = write!(out, " GENERATED ALWAYS AS ({}) {kind}", declared.spelled);
    }
    let is_timestamp = ty.code == t::TIMESTAMP2;
    match column.nullable {
        false => out.push_str(" NOT NULL"),
        true if is_timestamp => out.push_str(" NULL"),
        true => {}
    }
    if let Some(srid) = column.geometry.split(" srid ").nth(1) {
        let _ = write!(out, " /*!80003 SRID {srid} */");
    }
    for name in ["STORAGE", "COLUMN_FORMAT"] {
        if let Some(value) = declared.options.get(name) {
            let _ = write!(out, " /*!50606 {name} {value} */");
        }
    }
    if declared.not_secondary {
        out.push_str(" NOT SECONDARY");
    }
    // ALTER TABLE may give a counted column a DEFAULT, which nothing shows.
    if column.generated.is_none() && !column.auto_increment {
        let Some(default) = printed_default(column, default_in(column, zone, source)) else {
            return not_known(format!("how the source spells the DEFAULT of column {}", backticked(&column.name)));
        };
        out.push_str(&default);
    }
    if column.on_update_now {
        let _ = write!(out, " ON UPDATE {}", now(ty));
    }
    if column.auto_increment {
        out.push_str(" AUTO_INCREMENT");
    }
    if column.invisible {
        out.push_str(" /*!80023 INVISIBLE */");
    }
    if !column.comment.is_empty() {
        let _ = write!(out, " COMMENT {}", quoted(&column.comment));
    }
    for name in ["ENGINE_ATTRIBUTE", "SECONDARY_ENGINE_ATTRIBUTE"] {
        if let Some(value) = declared.options.get(name).filter(|value| !value.is_empty()) {
            let _ = write!(out, " /*!80021 {name} {} */", quoted(value));
        }
    }
    Ok(out)
}

/// The DEFAULT clause with a blank in front; empty where the source prints none, None if it is not known.
fn printed_default(column: &Column, default: ShownDefault) -> Option<String> {
    let ty = &column.ty;
    Some(match default {
        // Nor has it one that nobody gave.
        ShownDefault::None if !column.nullable || ty.code == t::BLOB || column.declared.no_default => String::new(),
        ShownDefault::None => " DEFAULT NULL".to_owned(),
        ShownDefault::Now(text) | ShownDefault::Bits(text) => format!(" DEFAULT {text}"),
        ShownDefault::Expression(text) => format!(" DEFAULT ({})", text?),
        ShownDefault::Bytes(mut bytes) => {
            if ty.code == t::CHAR {
                bytes.resize(bytes.len().max(ty.meta.into()), 0);
            }
            match std::str::from_utf8(&bytes) {
                Ok(text) if charset::is_utf8mb3(text) => format!(" DEFAULT {}", quoted(text)),
                _ => format!(" DEFAULT 0x{}", hex(&bytes)),
            }
        }
        ShownDefault::Text(text) if charset::is_utf8mb3(&text) => format!(" DEFAULT {}", quoted(&text)),
        // What utf8mb3 lacks is printed as bytes of the column's character set.
        ShownDefault::Text(text) => {
            let found = charset::by_id(ty.collation)?;
            format!(" DEFAULT 0x{}", hex(&charset::from_unicode(&text, found.charset).ok()?))
        }
        ShownDefault::Unknown => return None,
    })
}
