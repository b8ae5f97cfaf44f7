//! Resolution of a parsed type to the type that a Table_map event carries.
//!
//! In: a [`TypeSpec`] and the defaults that apply to it. Out: the [`ColumnType`] that the source's Table_map event has
//! for such a column, including collation and members. Never here: nullability and defaults (`table_build`).

use std::sync::Arc;

use values::ColumnType;

use crate::charset::{self, Collation};
use crate::error::Problem;
use crate::syntax::{BaseType, CharsetSpec, Text, TypeSpec};
use crate::table::{NumberDisplay, code, no_members};

/// Longest VARCHAR, bytes. A longer one becomes TEXT or BLOB if sql_mode is not strict (`prepare_blob_field`,
/// sql/sql_table.cc); if it is strict, the statement failed and is not in the log.
const VARCHAR_BYTES_MAX: u64 = 65_535;

/// Collation that CHARACTER SET and COLLATE clauses select; `default` applies if neither is given.
pub(crate) fn resolve_charset(
    spec: &CharsetSpec,
    default: Collation,
    utf8mb4_default: Collation,
) -> Result<Collation, Problem> {
    if let Some(name) = &spec.collation {
        return charset::by_name(name).ok_or_else(|| Problem::NotSupported(format!("collation {name}")));
    }
    let base = match &spec.charset {
        None => default,
        Some(name) if name.eq_ignore_ascii_case("utf8mb4") => utf8mb4_default,
        Some(name) => {
            charset::default_collation(name).ok_or_else(|| Problem::NotSupported(format!("character set {name}")))?
        }
    };
    if spec.binary {
        return charset::binary_collation(base.charset)
            .ok_or_else(|| Problem::NotSupported(format!("a binary collation of {}", base.charset)));
    }
    Ok(base)
}

/// Resolves the type of a column in a table with the default collation `default`.
pub(crate) fn resolve(
    column: &str,
    spec: &TypeSpec,
    default: Collation,
    utf8mb4_default: Collation,
) -> Result<ColumnType, Problem> {
    let mut base = spec.base;
    let collation = match base {
        BaseType::Char | BaseType::VarChar | BaseType::Text(_) | BaseType::Enum | BaseType::Set => {
            resolve_charset(&spec.charset, default, utf8mb4_default)?
        }
        _ => charset::by_id(charset::BINARY).unwrap_or(default),
    };
    // CHARACTER SET binary turns character types into the corresponding binary types, except ENUM and SET.
    if collation.id == charset::BINARY {
        base = match base {
            BaseType::Char => BaseType::Binary,
            BaseType::VarChar => BaseType::VarBinary,
            BaseType::Text(size) => BaseType::Blob(size),
            other => other,
        };
    }
    let plain =
        |code: u8, meta: u16| ColumnType { code, meta, unsigned: spec.unsigned, collation: 0, members: no_members() };
    let of_text = |code: u8, meta: u16| ColumnType { collation: collation.id, ..plain(code, meta) };
    let out_of_range = |what: &str| Problem::NotSupported(format!("{what} of column `{column}`"));
    let small = |value: Option<u64>, default: u16, max: u16| match value {
        None => Ok(default),
        Some(value) => {
            u16::try_from(value).ok().filter(|value| *value <= max).ok_or_else(|| out_of_range("the length"))
        }
    };
    Ok(match base {
        BaseType::TinyInt => plain(code::TINY, 0),
        BaseType::SmallInt => plain(code::SHORT, 0),
        BaseType::MediumInt => plain(code::INT24, 0),
        BaseType::Int => plain(code::LONG, 0),
        BaseType::BigInt => plain(code::LONGLONG, 0),
        BaseType::Decimal => {
            let scale = small(spec.scale, 0, 30)?;
            let precision = match small(spec.len, 10, 65)? {
                0 => 10,
                precision => precision,
            };
            if scale > precision {
                return Err(out_of_range("the scale"));
            }
            plain(code::DECIMAL, precision << 8 | scale)
        }
        BaseType::Float => match (spec.len, spec.scale) {
            (Some(25..=53), None) => plain(code::DOUBLE, 8),
            _ => plain(code::FLOAT, 4),
        },
        BaseType::Double => plain(code::DOUBLE, 8),
        BaseType::Bit => plain(code::BIT, small(spec.len, 1, 64)?.max(1)),
        BaseType::Char | BaseType::Binary => {
            let chars = small(spec.len, 1, 255)?;
            of_text(code::CHAR, chars.saturating_mul(u16::from(collation.mbmaxlen)))
        }
        BaseType::VarChar | BaseType::VarBinary => {
            let chars = spec.len.ok_or_else(|| out_of_range("the missing length"))?;
            let bytes = chars.saturating_mul(u64::from(collation.mbmaxlen));
            match u16::try_from(bytes) {
                Ok(bytes) if u64::from(bytes) <= VARCHAR_BYTES_MAX => of_text(code::VARCHAR, bytes),
                _ => of_text(code::BLOB, blob_length_bytes(bytes)),
            }
        }
        BaseType::Text(0) | BaseType::Blob(0) => {
            let length_bytes = match spec.len {
                None => 2,
                Some(chars) => blob_length_bytes(chars.saturating_mul(u64::from(collation.mbmaxlen))),
            };
            of_text(code::BLOB, length_bytes)
        }
        BaseType::Text(size) | BaseType::Blob(size) => of_text(code::BLOB, u16::from(size)),
        BaseType::Enum => {
            let pack = if spec.members.len() < 256 { 1 } else { 2 };
            ColumnType { members: members(&spec.members, collation)?, ..of_text(code::ENUM, pack) }
        }
        BaseType::Set => {
            let pack = match spec.members.len().div_ceil(8) {
                0 | 1 => 1,
                bytes @ 2..=4 => bytes as u16,
                // More than 64 have the same name as another one; a session that is not strict may declare them.
                _ => 8,
            };
            ColumnType { members: members(&spec.members, collation)?, ..of_text(code::SET, pack) }
        }
        BaseType::Json => plain(code::JSON, 4),
        BaseType::Geometry(_) => plain(code::GEOMETRY, 4),
        // Table_map events treat VECTOR as a binary string.
        BaseType::Vector => of_text(code::VECTOR, 4),
        BaseType::Date => plain(code::DATE, 0),
        BaseType::Time => plain(code::TIME2, small(spec.len, 0, 6)?),
        BaseType::DateTime => plain(code::DATETIME2, small(spec.len, 0, 6)?),
        BaseType::Timestamp => plain(code::TIMESTAMP2, small(spec.len, 0, 6)?),
        BaseType::Year => plain(code::YEAR, 0),
    })
}

/// Length bytes of the smallest BLOB type that can hold `bytes`.
pub(crate) fn blob_length_bytes(bytes: u64) -> u16 {
    match bytes {
        0..=0xff => 1,
        0x100..=0xffff => 2,
        0x1_0000..=0xff_ffff => 3,
        _ => 4,
    }
}

/// Names of ENUM and SET in the column's character set, without trailing spaces.
fn members(names: &[Text], collation: Collation) -> Result<Arc<[Box<[u8]>]>, Problem> {
    names
        .iter()
        .map(|name| {
            if collation.id == charset::BINARY {
                return Ok(name.bytes.clone().into_boxed_slice());
            }
            // A binary literal counts as text in the column's own character set.
            let from = if name.charset == "binary" { collation.charset } else { name.charset.as_str() };
            let same = from == collation.charset;
            let decode = if same { charset::to_unicode } else { charset::name_to_unicode };
            match decode(&name.bytes, from) {
                Ok(text) => charset::from_unicode_or_question_marks(text.trim_end_matches(' '), collation.charset),
                Err(_) if same => Ok(name.bytes.trim_ascii_end().to_vec()),
                Err(problem) => Err(problem),
            }
            .map(Vec::into_boxed_slice)
        })
        .collect()
}

/// How the server pads a number's text. A type without a width gets that of its longest value.
pub(crate) fn number_display(spec: &TypeSpec, ty: &ColumnType) -> NumberDisplay {
    let small = |number: u64| u16::try_from(number).unwrap_or(0);
    let zerofill_width = match spec.base {
        _ if !spec.zerofill => 0,
        BaseType::TinyInt => small(spec.len.unwrap_or(3)),
        BaseType::SmallInt => small(spec.len.unwrap_or(5)),
        BaseType::MediumInt => small(spec.len.unwrap_or(8)),
        BaseType::Int => small(spec.len.unwrap_or(10)),
        BaseType::BigInt => small(spec.len.unwrap_or(20)),
        BaseType::Float if ty.code == code::FLOAT => small(spec.len.filter(|_| spec.scale.is_some()).unwrap_or(12)),
        BaseType::Float | BaseType::Double => small(spec.len.filter(|_| spec.scale.is_some()).unwrap_or(22)),
        BaseType::Decimal => (ty.meta >> 8) + u16::from(ty.meta & 0xff != 0),
        _ => 0,
    };
    let decimals = match spec.base {
        BaseType::Float | BaseType::Double => spec.scale.and_then(|scale| u8::try_from(scale).ok()).filter(|d| *d < 31),
        _ => None,
    };
    let digits = decimals.and(spec.len).and_then(|len| u8::try_from(len).ok());
    let is_integer = matches!(
        spec.base,
        BaseType::TinyInt | BaseType::SmallInt | BaseType::MediumInt | BaseType::Int | BaseType::BigInt
    );
    let width = spec.len.filter(|len| is_integer && !spec.zerofill && *len > 0).and_then(|len| u8::try_from(len).ok());
    NumberDisplay { zerofill_width, decimals, digits, width }
}
