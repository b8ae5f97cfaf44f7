//! A column's values as text, in the client's character set.

use std::borrow::Cow;
use std::io::Write as _;

use catalog::{Column, NumberDisplay};
use sql::Charsets;
use values::charset::{from_utf8mb4, from_utf8mb4_or_question_marks, sent_as_utf8mb4, whole_utf8};
use values::collation::{self, BINARY};
use values::text::{TextOptions, write_text};
use values::{ColumnType, DateTimeValue, TypedValue, ValueError, Zone, json, type_code as t};

/// utf8mb4_bin: of JSON's text.
const UTF8MB4: u16 = 46;

/// How a column's text is written.
#[derive(Debug)]
pub(crate) struct TextEncoder {
    display: NumberDisplay,
    /// Collation of the text as it is stored.
    from: u16,
    /// Collation to convert to; None sends the bytes as they are.
    to: Option<u16>,
    /// The zone of a TIMESTAMP's text.
    zone: Zone,
}

impl TextEncoder {
    pub(crate) fn new(column: &Column, charsets: &Charsets, zone: Zone) -> TextEncoder {
        let from = if column.ty.code == t::JSON { UTF8MB4 } else { column.ty.collation };
        let charset = |id| collation::by_id(id).map(|found| found.charset);
        let to = charsets
            .results
            .filter(|results| *results != BINARY && from != BINARY && from != 0 && charset(*results) != charset(from));
        TextEncoder { display: column.display, from, to, zone }
    }

    /// A TIMESTAMP in the session's zone; others are what they are.
    pub(crate) fn local(&self, ty: &ColumnType, value: DateTimeValue) -> DateTimeValue {
        let is_timestamp = matches!(ty.code, t::TIMESTAMP | t::TIMESTAMP2);
        // The zero date has no zone.
        if is_timestamp { self.zone.local(value).unwrap_or(value) } else { value }
    }

    /// The text of a value that is sent as it is stored; None for a value that is not.
    ///
    /// # Errors
    /// As [`write`](Self::write).
    pub(crate) fn as_stored<'a>(&self, ty: &ColumnType, stored: &'a [u8]) -> Result<Option<&'a [u8]>, ValueError> {
        if self.to.is_some() || !matches!(ty.code, t::CHAR | t::VARCHAR | t::BLOB) {
            return Ok(None);
        }
        Ok(match TypedValue::of(ty, stored)? {
            TypedValue::Text(text) => Some(text),
            // BINARY is stored without the zeros at its end.
            TypedValue::Bytes(bytes) if ty.code != t::CHAR => Some(bytes),
            _ => None,
        })
    }

    /// Appends a stored value.
    ///
    /// # Errors
    /// The bytes are no value of the type.
    pub(crate) fn write(&self, ty: &ColumnType, stored: &[u8], out: &mut Vec<u8>) -> Result<(), ValueError> {
        match ty.code {
            t::TIMESTAMP | t::TIMESTAMP2 if !self.zone.is_utc() => self.write_timestamp(ty, stored, out),
            t::ENUM | t::SET => self.convert(&names(ty, stored)?, out),
            t::JSON => {
                let TypedValue::Json(document) = TypedValue::of(ty, stored)? else {
                    return Err(ValueError::Invalid { what: "JSON" });
                };
                let mut text = Vec::new();
                json::write_text(document, &mut text)?;
                self.convert(&text, out)
            }
            t::CHAR | t::VARCHAR | t::BLOB => match TypedValue::of(ty, stored)? {
                TypedValue::Text(text) => self.convert(text, out),
                TypedValue::Bytes(bytes) => {
                    out.extend_from_slice(bytes);
                    if ty.code == t::CHAR {
                        out.resize(out.len() + usize::from(ty.meta).saturating_sub(bytes.len()), 0);
                    }
                    Ok(())
                }
                _ => Err(ValueError::Invalid { what: "text" }),
            },
            _ => self.write_number(ty, stored, out),
        }
    }

    fn write_number(&self, ty: &ColumnType, stored: &[u8], out: &mut Vec<u8>) -> Result<(), ValueError> {
        let start = out.len();
        let fixed = self.display.decimals.map(usize::from);
        match (fixed, TypedValue::of(ty, stored)?) {
            // Writing to a vector cannot fail.
            (Some(decimals), TypedValue::Float(value)) => drop(write!(out, "{:.decimals$}", f64::from(value))),
            (Some(decimals), TypedValue::Double(value)) => drop(write!(out, "{value:.decimals$}")),
            _ => write_text(ty, stored, TextOptions::default(), out)?,
        }
        let missing = usize::from(self.display.zerofill_width).saturating_sub(out.len() - start);
        out.splice(start..start, std::iter::repeat_n(b'0', missing));
        Ok(())
    }

    fn write_timestamp(&self, ty: &ColumnType, stored: &[u8], out: &mut Vec<u8>) -> Result<(), ValueError> {
        let TypedValue::DateTime(value) = TypedValue::of(ty, stored)? else {
            return Err(ValueError::Invalid { what: "TIMESTAMP" });
        };
        let DateTimeValue { date, hour, minute, second, micros } = self.local(ty, value);
        let (year, month, day) = (date.year, date.month, date.day);
        // Writing to a vector cannot fail.
        drop(write!(out, "{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02}"));
        let digits = usize::from(ty.meta.min(6));
        if digits > 0 {
            let fraction = format!("{micros:06}");
            out.push(b'.');
            out.extend_from_slice(fraction.as_bytes().get(..digits).unwrap_or_default());
        }
        Ok(())
    }

    /// Appends text as the client expects it.
    fn convert(&self, text: &[u8], out: &mut Vec<u8>) -> Result<(), ValueError> {
        let Some(to) = self.to else {
            out.extend_from_slice(text);
            return Ok(());
        };
        let utf8: Cow<'_, [u8]> = sent_as_utf8mb4(self.from, text)?;
        // What is in utf8mb4 itself can be cut too.
        out.extend_from_slice(&from_utf8mb4_or_question_marks(to, &whole_utf8(&utf8))?);
        Ok(())
    }
}

/// Names of an ENUM's or a SET's members, in the column's character set.
fn names(ty: &ColumnType, stored: &[u8]) -> Result<Vec<u8>, ValueError> {
    let unknown = || ValueError::Invalid { what: "the number of a member" };
    match TypedValue::of(ty, stored)? {
        // The error value.
        TypedValue::Enum(0) => Ok(Vec::new()),
        TypedValue::Enum(number) => {
            let place = usize::try_from(number - 1).map_err(|_| unknown())?;
            ty.members.get(place).map(|name| name.to_vec()).ok_or_else(unknown)
        }
        TypedValue::Set(bits) => {
            let comma = from_utf8mb4(ty.collation, b",")?;
            let members = ty.members.iter().take(64).enumerate().filter(|(place, _)| bits >> place & 1 == 1);
            Ok(members.map(|(_, name)| name.as_ref()).collect::<Vec<_>>().join(&*comma))
        }
        _ => Err(unknown()),
    }
}
