//! Stored values as the text and SQL that a client sees.
//!
//! In: a column's type and its stored bytes as in a row image, length prefix included (from `RowLayout::walk_offsets`).
//! Out: what `mysql --batch --raw` prints for the value over a utf8mb4 connection with time_zone '+00:00', or a literal
//! for INSERT. Never here: NULL (it has no stored bytes); ZEROFILL and FLOAT(M,D), which are not part of the stored
//! type.

use std::io::Write as _;

use crate::charset;
use crate::collation;
use crate::column_type::{ColumnType, type_code as t};
use crate::error::ValueError;
use crate::temporal::{DateTime, Time};
use crate::{decimal, float, json};

/// NULL as text and as SQL.
pub const NULL: &[u8] = b"NULL";

/// Form in which binary values are shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum BinaryForm {
    /// The bytes themselves.
    #[default]
    Raw,
    /// `0x` and upper-case digits, as with `--binary-as-hex`. Applies to BIT, BINARY, VARBINARY, BLOB, GEOMETRY,
    /// VECTOR, and ENUM or SET in character set binary.
    Hex,
}

/// Form in which FLOAT is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum FloatForm {
    /// Six significant digits as the server prints them, which loses bits.
    #[default]
    AsServer,
    /// With as many digits as loading the same value again takes.
    Exact,
}

/// How to write values.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct TextOptions {
    /// Applies to text only; SQL always has hexadecimal literals.
    pub binary: BinaryForm,
    /// Applies to text and SQL. With `Exact`, text that is not whole in its character set is an error; else it is
    /// written as the server sends it.
    pub float: FloatForm,
}

/// Appends the value as the mysql client prints it.
///
/// # Errors
/// The bytes are not a value of the type, or its character set or members are unknown.
pub fn write_text(ty: &ColumnType, stored: &[u8], options: TextOptions, out: &mut Vec<u8>) -> Result<(), ValueError> {
    match Value::of(ty, stored)? {
        Value::Number | Value::Temporal | Value::Year => write_plain(ty, stored, options, out),
        Value::Bytes(bytes, zeros) => {
            let hex = options.binary == BinaryForm::Hex;
            if hex {
                write_hex(bytes, zeros, out)
            } else {
                extend_padded(bytes, zeros, out)
            }
            Ok(())
        }
        Value::Text(text) if options.float == FloatForm::Exact => {
            out.extend_from_slice(&charset::to_utf8mb4(ty.collation, text)?);
            Ok(())
        }
        Value::Text(text) => write_utf8mb4(ty.collation, text, out),
        Value::Member(names) if ty.collation == collation::BINARY && options.binary == BinaryForm::Hex => {
            write_hex(&names, 0, out);
            Ok(())
        }
        Value::Member(names) => write_utf8mb4(ty.collation, &names, out),
        Value::Json(document) => json::write_text(document, out),
    }
}

/// Appends the value as a literal for INSERT. Numbers are bare. Text is quoted with backslash escapes, so the reader's
/// sql_mode must not have NO_BACKSLASH_ESCAPES and its character set must be utf8mb4. Bytes, and text that cannot be
/// converted, are hexadecimal.
///
/// # Errors
/// As `write_text`.
pub fn write_sql(ty: &ColumnType, stored: &[u8], options: TextOptions, out: &mut Vec<u8>) -> Result<(), ValueError> {
    match Value::of(ty, stored)? {
        Value::Number | Value::Year => {
            let start = out.len();
            write_plain(ty, stored, options, out)?;
            if out.get(start..) == Some(b"-0") {
                // An integer literal would lose the sign.
                out.extend_from_slice(b"e0");
            }
        }
        Value::Temporal => {
            out.push(b'\'');
            write_plain(ty, stored, options, out)?;
            out.push(b'\'');
        }
        Value::Bytes([], 0) => out.extend_from_slice(b"''"),
        Value::Bytes(bytes, zeros) => write_hex(bytes, zeros, out),
        Value::Text(text) => write_sql_text(ty.collation, text, out)?,
        Value::Member(names) => write_sql_text(ty.collation, &names, out)?,
        Value::Json(document) => {
            let mut text = Vec::new();
            json::write_text(document, &mut text)?;
            write_quoted(&text, out);
        }
    }
    Ok(())
}

/// A stored value, by how it is written.
enum Value<'a> {
    /// Written by `write_plain`, bare in SQL.
    Number,
    Year,
    /// Written by `write_plain`, quoted in SQL.
    Temporal,
    /// Bytes, and the number of zero bytes the server pads them with.
    Bytes(&'a [u8], usize),
    /// Text in the column's character set.
    Text(&'a [u8]),
    /// Names of ENUM or SET, in the column's character set.
    Member(Vec<u8>),
    Json(&'a [u8]),
}

impl<'a> Value<'a> {
    fn of(ty: &ColumnType, stored: &'a [u8]) -> Result<Value<'a>, ValueError> {
        Ok(match ty.code {
            t::TINY | t::SHORT | t::INT24 | t::LONG | t::LONGLONG | t::FLOAT | t::DOUBLE | t::DECIMAL => Value::Number,
            t::YEAR => Value::Year,
            t::DATE | t::TIME | t::TIME2 | t::DATETIME | t::DATETIME2 | t::TIMESTAMP | t::TIMESTAMP2 => Value::Temporal,
            t::BIT => Value::Bytes(stored, 0),
            t::GEOMETRY | t::VECTOR => Value::Bytes(content(ty, stored)?, 0),
            t::JSON => Value::Json(content(ty, stored)?),
            t::ENUM => Value::Member(enum_name(ty, stored)?.to_vec()),
            t::SET => Value::Member(set_names(ty, stored)?),
            t::CHAR | t::VARCHAR | t::BLOB => {
                let content = content(ty, stored)?;
                match ty.collation {
                    0 => return Err(ValueError::unsupported(format!("{} of unknown collation", ty.name()))),
                    collation::BINARY if ty.code == t::CHAR => {
                        Value::Bytes(content, usize::from(ty.meta).saturating_sub(content.len()))
                    }
                    collation::BINARY => Value::Bytes(content, 0),
                    _ => Value::Text(content),
                }
            }
            _ => return Err(ValueError::unsupported(format!("column type {}", ty.code))),
        })
    }
}

/// Bytes after a length prefix.
///
/// # Errors
/// The prefix states another length.
pub(crate) fn content<'a>(ty: &ColumnType, stored: &'a [u8]) -> Result<&'a [u8], ValueError> {
    let wrong = ValueError::WrongLength { what: ty.name(), len: stored.len() };
    let Some((prefix, content)) = stored.split_at_checked(ty.prefix_len()) else { return Err(wrong) };
    let len = prefix.iter().rev().fold(0usize, |len, byte| len << 8 | usize::from(*byte));
    if len == content.len() { Ok(content) } else { Err(wrong) }
}

fn unsigned(stored: &[u8]) -> u64 {
    stored.iter().rev().fold(0, |value, byte| value << 8 | u64::from(*byte))
}

fn fixed<const N: usize>(ty: &ColumnType, stored: &[u8]) -> Result<[u8; N], ValueError> {
    stored.try_into().map_err(|_| ValueError::WrongLength { what: ty.name(), len: stored.len() })
}

fn write_plain(ty: &ColumnType, stored: &[u8], options: TextOptions, out: &mut Vec<u8>) -> Result<(), ValueError> {
    match ty.code {
        t::TINY | t::SHORT | t::INT24 | t::LONG | t::LONGLONG => {
            if ty.fixed_len() != Some(stored.len()) {
                return Err(ValueError::WrongLength { what: ty.name(), len: stored.len() });
            }
            let value = unsigned(stored);
            // Writing to a Vec cannot fail.
            let _ = if ty.unsigned {
                write!(out, "{value}")
            } else {
                let unused = 64 - 8 * stored.len();
                write!(out, "{}", (value << unused) as i64 >> unused)
            };
        }
        t::FLOAT => {
            let value = f32::from_le_bytes(fixed(ty, stored)?);
            match options.float {
                FloatForm::AsServer => float::write_f32(value, out),
                FloatForm::Exact => float::write_f32_exact(value, out),
            }
        }
        t::DOUBLE => float::write_f64(f64::from_le_bytes(fixed(ty, stored)?), out),
        t::DECIMAL => {
            let (precision, scale) = ty.precision_and_scale();
            decimal::write_text(precision, scale, stored, out)?;
        }
        t::YEAR => {
            let [year] = fixed(ty, stored)?;
            let _ = if year == 0 { write!(out, "0000") } else { write!(out, "{}", 1900 + u16::from(year)) };
        }
        t::DATE => DateTime::from_date(stored)?.write_date(out),
        t::TIME2 => Time::from_time(ty.meta, stored)?.write(ty.meta, out),
        t::TIME => Time::from_old_time(stored)?.write(0, out),
        t::DATETIME2 => DateTime::from_datetime(ty.meta, stored)?.write(ty.meta, out),
        t::DATETIME => DateTime::from_old_datetime(stored)?.write(0, out),
        t::TIMESTAMP2 => DateTime::from_timestamp(ty.meta, stored)?.write(ty.meta, out),
        t::TIMESTAMP => DateTime::from_seconds(u32::from_le_bytes(fixed(ty, stored)?), 0).write(0, out),
        _ => return Err(ValueError::unsupported(format!("column type {}", ty.code))),
    }
    Ok(())
}

fn names_known(ty: &ColumnType) -> Result<(), ValueError> {
    if ty.members.is_empty() {
        return Err(ValueError::unsupported(format!("{} whose members are not known", ty.name())));
    }
    if ty.collation == 0 {
        return Err(ValueError::unsupported(format!("{} of unknown collation", ty.name())));
    }
    Ok(())
}

/// Name of a stored ENUM; number 0 is the empty error value.
fn enum_name<'a>(ty: &'a ColumnType, stored: &[u8]) -> Result<&'a [u8], ValueError> {
    names_known(ty)?;
    if ty.fixed_len() != Some(stored.len()) {
        return Err(ValueError::WrongLength { what: "ENUM", len: stored.len() });
    }
    match usize::try_from(unsigned(stored)).ok().map(|number| number.checked_sub(1)) {
        Some(None) => Ok(&[]),
        Some(Some(index)) => ty.members.get(index).map(|name| &**name).ok_or(ValueError::Invalid { what: "ENUM" }),
        None => Err(ValueError::Invalid { what: "ENUM" }),
    }
}

/// Names of a stored ENUM or SET in the column's character set, a SET's joined by commas.
pub(crate) fn member_names(ty: &ColumnType, stored: &[u8]) -> Result<Vec<u8>, ValueError> {
    if ty.code == t::ENUM { enum_name(ty, stored).map(<[u8]>::to_vec) } else { set_names(ty, stored) }
}

fn set_names(ty: &ColumnType, stored: &[u8]) -> Result<Vec<u8>, ValueError> {
    names_known(ty)?;
    if ty.fixed_len() != Some(stored.len()) {
        return Err(ValueError::WrongLength { what: "SET", len: stored.len() });
    }
    // In character sets with units of several bytes, so is the comma.
    let comma = charset::from_utf8mb4(ty.collation, b",").unwrap_or(b",".into());
    let mut bits = unsigned(stored);
    let mut names = Vec::new();
    let mut first = true;
    while bits != 0 {
        let name = ty.members.get(bits.trailing_zeros() as usize).ok_or(ValueError::Invalid { what: "SET" })?;
        if !first {
            names.extend_from_slice(&comma);
        }
        first = false;
        names.extend_from_slice(name);
        bits &= bits - 1;
    }
    Ok(names)
}

fn write_utf8mb4(collation: u16, text: &[u8], out: &mut Vec<u8>) -> Result<(), ValueError> {
    out.extend_from_slice(&charset::sent_as_utf8mb4(collation, text)?);
    Ok(())
}

fn extend_padded(bytes: &[u8], zeros: usize, out: &mut Vec<u8>) {
    out.extend_from_slice(bytes);
    out.resize(out.len() + zeros, 0);
}

fn write_hex(bytes: &[u8], zeros: usize, out: &mut Vec<u8>) {
    const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
    out.extend_from_slice(b"0x");
    out.reserve(2 * (bytes.len() + zeros));
    for byte in bytes {
        for digit in [byte >> 4, byte & 15] {
            out.push(DIGITS.get(usize::from(digit)).copied().unwrap_or(b'0'));
        }
    }
    out.resize(out.len() + 2 * zeros, b'0');
}

fn write_sql_text(collation: u16, text: &[u8], out: &mut Vec<u8>) -> Result<(), ValueError> {
    if text.is_empty() {
        out.extend_from_slice(b"''");
    } else if collation == collation::BINARY {
        write_hex(text, 0, out);
    } else {
        if charset::is_supported(collation) {
            let unicode = charset::to_utf8mb4(collation, text)?;
            // Invalid bytes would not survive a round trip, nor would one of several codes of the same character.
            if charset::from_utf8mb4(collation, &unicode).is_ok_and(|bytes| bytes.as_ref() == text) {
                write_quoted(&unicode, out);
                return Ok(());
            }
        }
        let charset = collation::by_id(collation).map(|found| found.charset);
        let charset =
            charset.ok_or_else(|| ValueError::unsupported(format!("text with the collation id {collation}")))?;
        out.push(b'_');
        out.extend_from_slice(charset.as_bytes());
        out.push(b' ');
        write_hex(text, 0, out);
    }
    Ok(())
}

fn write_quoted(text: &[u8], out: &mut Vec<u8>) {
    out.reserve(text.len() + 2);
    out.push(b'\'');
    for byte in text {
        let escape = match byte {
            0 => b'0',
            b'\n' => b'n',
            b'\r' => b'r',
            0x1a => b'Z',
            b'\\' | b'\'' => *byte,
            _ => {
                out.push(*byte);
                continue;
            }
        };
        out.extend_from_slice(&[b'\\', escape]);
    }
    out.push(b'\'');
}

#[cfg(test)]
#[path = "text_tests.rs"]
mod tests;
