//! Parser of column types.
//!
//! In: a parser at the type. Out: a [`TypeSpec`] as written, and whether it was SERIAL. Never here: the meaning of
//! lengths and character sets (`column_type`).

use crate::error::Problem;
use crate::lexer::Tok;
use crate::parser::Parser;
use crate::sql_mode;
use crate::syntax::{BaseType, CharsetSpec, TypeSpec};

impl TypeSpec {
    fn of(base: BaseType) -> TypeSpec {
        TypeSpec {
            base,
            len: None,
            scale: None,
            unsigned: false,
            zerofill: false,
            charset: CharsetSpec::default(),
            members: Vec::new(),
        }
    }
}

/// Parses a type with its length, sign and character set attributes.
pub(crate) fn column_type(parser: &mut Parser<'_>) -> Result<(TypeSpec, bool), Problem> {
    let word = parser.word_upper()?;
    if word.is_empty() {
        return parser.wrong("a column type expected");
    }
    parser.take()?;
    if word == "SERIAL" {
        let spec = TypeSpec { unsigned: true, ..TypeSpec::of(BaseType::BigInt) };
        return Ok((spec, true));
    }
    let national = matches!(word.as_str(), "NATIONAL" | "NCHAR" | "NVARCHAR");
    let base = match base_type(parser, &word)? {
        Some(base) => base,
        None => return Problem::unsupported(format!("column type {word}")),
    };
    let mut spec = TypeSpec::of(base);
    match base {
        BaseType::TinyInt if word.starts_with("BOOL") => spec.len = Some(1),
        BaseType::Enum | BaseType::Set => members(parser, &mut spec)?,
        _ => lengths(parser, &mut spec)?,
    }
    if base == BaseType::Float && word == "REAL" && !parser.has_mode(sql_mode::REAL_AS_FLOAT) {
        spec.base = BaseType::Double;
    }
    if is_text(base) {
        charset_attributes(parser, &mut spec.charset)?;
        if national && spec.charset.charset.is_none() {
            spec.charset.charset = Some("utf8mb3".to_owned());
        }
    } else {
        while let word @ ("SIGNED" | "UNSIGNED" | "ZEROFILL") = parser.word_upper()?.as_str() {
            spec.unsigned |= word != "SIGNED";
            spec.zerofill |= word == "ZEROFILL";
            parser.take()?;
        }
    }
    Ok((spec, false))
}

fn is_text(base: BaseType) -> bool {
    matches!(base, BaseType::Char | BaseType::VarChar | BaseType::Text(_) | BaseType::Enum | BaseType::Set)
}

fn base_type(parser: &mut Parser<'_>, word: &str) -> Result<Option<BaseType>, Problem> {
    Ok(Some(match word {
        "TINYINT" | "INT1" | "BOOL" | "BOOLEAN" => BaseType::TinyInt,
        "SMALLINT" | "INT2" => BaseType::SmallInt,
        "MEDIUMINT" | "INT3" | "MIDDLEINT" => BaseType::MediumInt,
        "INT" | "INTEGER" | "INT4" => BaseType::Int,
        "BIGINT" | "INT8" => BaseType::BigInt,
        "DECIMAL" | "DEC" | "NUMERIC" | "FIXED" => BaseType::Decimal,
        // REAL means DOUBLE unless sql_mode has REAL_AS_FLOAT; the caller decides.
        "FLOAT" | "FLOAT4" | "REAL" => BaseType::Float,
        "DOUBLE" => {
            parser.eat_word("PRECISION")?;
            BaseType::Double
        }
        "FLOAT8" => BaseType::Double,
        "BIT" => BaseType::Bit,
        "CHAR" | "CHARACTER" => varying_or(parser, BaseType::Char)?,
        "VARCHAR" | "VARCHARACTER" | "NVARCHAR" => BaseType::VarChar,
        "NATIONAL" => {
            if parser.eat_word("VARCHAR")? || parser.eat_word("VARCHARACTER")? {
                BaseType::VarChar
            } else if parser.eat_word("CHAR")? || parser.eat_word("CHARACTER")? {
                varying_or(parser, BaseType::Char)?
            } else {
                return parser.wrong("CHAR or VARCHAR expected");
            }
        }
        "NCHAR" => {
            if parser.eat_word("VARCHAR")? || parser.eat_word("VARCHARACTER")? {
                BaseType::VarChar
            } else {
                varying_or(parser, BaseType::Char)?
            }
        }
        "BINARY" => BaseType::Binary,
        "VARBINARY" => BaseType::VarBinary,
        "TINYTEXT" => BaseType::Text(1),
        "TEXT" => BaseType::Text(0),
        "MEDIUMTEXT" => BaseType::Text(3),
        "LONGTEXT" => BaseType::Text(4),
        "TINYBLOB" => BaseType::Blob(1),
        "BLOB" => BaseType::Blob(0),
        "MEDIUMBLOB" => BaseType::Blob(3),
        "LONGBLOB" => BaseType::Blob(4),
        "LONG" => {
            if parser.eat_word("VARBINARY")? {
                BaseType::Blob(3)
            } else {
                let _ = parser.eat_word("VARCHAR")?
                    || parser.eat_word("VARCHARACTER")?
                    || parser.eat(&["CHAR", "VARYING"])?
                    || parser.eat(&["CHARACTER", "VARYING"])?;
                BaseType::Text(3)
            }
        }
        "ENUM" => BaseType::Enum,
        "SET" => BaseType::Set,
        "JSON" => BaseType::Json,
        "DATE" => BaseType::Date,
        "TIME" => BaseType::Time,
        "DATETIME" => BaseType::DateTime,
        "TIMESTAMP" => BaseType::Timestamp,
        "YEAR" => BaseType::Year,
        "GEOMETRY" => BaseType::Geometry("geometry"),
        "POINT" => BaseType::Geometry("point"),
        "LINESTRING" => BaseType::Geometry("linestring"),
        "POLYGON" => BaseType::Geometry("polygon"),
        "MULTIPOINT" => BaseType::Geometry("multipoint"),
        "MULTILINESTRING" => BaseType::Geometry("multilinestring"),
        "MULTIPOLYGON" => BaseType::Geometry("multipolygon"),
        "GEOMETRYCOLLECTION" | "GEOMCOLLECTION" => BaseType::Geometry("geomcollection"),
        "VECTOR" => BaseType::Vector,
        _ => return Ok(None),
    }))
}

fn varying_or(parser: &mut Parser<'_>, base: BaseType) -> Result<BaseType, Problem> {
    Ok(if parser.eat_word("VARYING")? { BaseType::VarChar } else { base })
}

/// Parses an optional `(n)` or `(n, m)`.
fn lengths(parser: &mut Parser<'_>, spec: &mut TypeSpec) -> Result<(), Problem> {
    if parser.eat_punct(b'(')? {
        spec.len = Some(length(parser)?);
        if parser.eat_punct(b',')? {
            spec.scale = Some(parser.unsigned()?);
        }
        parser.expect_punct(b')')?;
    }
    Ok(())
}

/// Parses a length. Of one with a point, such as `FLOAT(10.3)`, the server reads the whole part.
fn length(parser: &mut Parser<'_>) -> Result<u64, Problem> {
    let whole = match parser.peek()? {
        Tok::Number(text) => text.split_once('.').and_then(|(whole, _)| whole.parse().ok()),
        _ => None,
    };
    match whole {
        Some(whole) => parser.take().map(|_| whole),
        None => parser.unsigned(),
    }
}

fn members(parser: &mut Parser<'_>, spec: &mut TypeSpec) -> Result<(), Problem> {
    parser.expect_punct(b'(')?;
    loop {
        spec.members.push(parser.value()?);
        if !parser.eat_punct(b',')? {
            return parser.expect_punct(b')');
        }
    }
}

/// Parses CHARACTER SET x, ASCII, UNICODE, BYTE and BINARY, in any order.
fn charset_attributes(parser: &mut Parser<'_>, spec: &mut CharsetSpec) -> Result<(), Problem> {
    loop {
        if parser.eat_word("BINARY")? {
            spec.binary = true;
        } else if parser.eat_word("ASCII")? {
            spec.charset = Some("latin1".to_owned());
        } else if parser.eat_word("UNICODE")? {
            spec.charset = Some("ucs2".to_owned());
        } else if parser.eat_word("BYTE")? {
            spec.charset = Some("binary".to_owned());
        } else if parser.eat(&["CHARACTER", "SET"])? || parser.eat(&["CHAR", "SET"])? || parser.eat_word("CHARSET")? {
            spec.charset = Some(parser.charset_name()?);
        } else {
            return Ok(());
        }
    }
}
