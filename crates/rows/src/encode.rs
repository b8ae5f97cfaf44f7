//! A row's values as they are sent.
//!
//! In: a plan's columns, a row. Out: the payload of a row packet. Never here: a value that is sent in another form than
//! its column's definition says.

use std::sync::Arc;

use catalog::TableDef;
use sql::table::{Output, Plan, ResultColumn};
use sql::{Charsets, OUT_OF_MEMORY, SqlError, Value, to_protocol};
use values::{ColumnType, DateTimeValue, RowView, TimeValue, TypedValue, ValueError, type_code as t};
use wire::read::put_lenenc_bytes;
use wire::row::type_code::LONG;
use wire::row::{self, Time};
use wire::server::{ColumnForm, put_binary_row, put_date_time, put_text_row, put_time};

use crate::encode_text::TextEncoder;

/// Whether a row goes in text or binary form.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    Text,
    Binary,
}

/// NULL in a row of text.
const TEXT_NULL: u8 = 0xfb;

/// How the values of one result are written.
#[derive(Debug)]
pub(crate) struct Encoder {
    form: Form,
    columns: Vec<Source>,
    /// For the names of columns in errors.
    table: Arc<TableDef>,
    scratch: Vec<u8>,
}

/// Where a value comes from.
#[derive(Debug)]
enum Source {
    Column(ColumnEncoder),
    /// Already written; None is NULL.
    Constant(Option<Vec<u8>>),
    Count,
}

#[derive(Debug)]
struct ColumnEncoder {
    position: usize,
    ty: ColumnType,
    text: TextEncoder,
}

impl Encoder {
    /// # Errors
    /// A constant that cannot be sent in the client's character set.
    pub(crate) fn new(plan: &Plan, charsets: &Charsets, form: Form) -> Result<Encoder, SqlError> {
        let columns = plan.outputs.iter().zip(&plan.columns).map(|(output, column)| match output {
            Output::Count => Ok(Source::Count),
            Output::Constant(value) => constant(value, column, charsets, form).map(Source::Constant),
            Output::Column(position) => {
                let missing = || SqlError::defect("a column beyond the table's last one");
                let found = plan.table.columns.get(*position).ok_or_else(missing)?;
                let text = TextEncoder::new(found, charsets, plan.zone.clone());
                Ok(Source::Column(ColumnEncoder { position: *position, ty: found.ty.clone(), text }))
            }
        });
        let columns = columns.collect::<Result<_, SqlError>>()?;
        Ok(Encoder { form, columns, table: Arc::clone(&plan.table), scratch: Vec::new() })
    }

    /// Appends the payload of a row; without a row only constants and the count are sent.
    ///
    /// # Errors
    /// A value that is none of its column's type; 1041 for more than so many bytes. `out` then holds a part of the row.
    pub(crate) fn put(
        &mut self,
        row: Option<&RowView<'_>>,
        count: u64,
        most: u64,
        out: &mut Vec<u8>,
    ) -> Result<(), SqlError> {
        let begun = out.len();
        let bitmap = out.len() + 1;
        if self.form == Form::Binary {
            out.push(0);
            // Column 0 is bit 2.
            out.resize(bitmap + (self.columns.len() + 2).div_ceil(8), 0);
        }
        let Encoder { form, columns, table, scratch } = self;
        for (index, column) in columns.iter().enumerate() {
            // A column may stand in a row thousands of times.
            if (out.len() - begun) as u64 > most {
                let text = format!(
                    "Out of memory: a row of more than the {most} bytes that one session may hold; ask for fewer columns, or \
                     raise --memory"
                );
                return Err(SqlError::new(OUT_OF_MEMORY, "HY000", text));
            }
            let is_there = match column {
                Source::Constant(bytes) => {
                    out.extend_from_slice(bytes.as_deref().unwrap_or_default());
                    bytes.is_some()
                }
                Source::Count => {
                    put_count(count, *form, out);
                    true
                }
                Source::Column(column) => {
                    column.put(row, *form, scratch, out).map_err(|error| column.error(table, &error))?
                }
            };
            match (is_there, *form) {
                (true, _) => {}
                (false, Form::Text) => out.push(TEXT_NULL),
                (false, Form::Binary) => {
                    let bit = index + 2;
                    if let Some(byte) = out.get_mut(bitmap + bit / 8) {
                        *byte |= 1 << (bit % 8);
                    }
                }
            }
        }
        Ok(())
    }
}

fn put_count(count: u64, form: Form, out: &mut Vec<u8>) {
    match form {
        Form::Text => put_lenenc_bytes(out, count.to_string().as_bytes()),
        Form::Binary => out.extend_from_slice(&count.to_le_bytes()),
    }
}

impl ColumnEncoder {
    /// Appends the value; false for NULL, of which nothing is appended.
    fn put(
        &self,
        row: Option<&RowView<'_>>,
        form: Form,
        scratch: &mut Vec<u8>,
        out: &mut Vec<u8>,
    ) -> Result<bool, ValueError> {
        let stored = match row {
            Some(row) => row.stored(self.position)?,
            None => None,
        };
        let Some(stored) = stored else { return Ok(false) };
        if form == Form::Binary && self.put_binary(stored, out)? {
            return Ok(true);
        }
        if let Some(text) = self.text.as_stored(&self.ty, stored)? {
            put_lenenc_bytes(out, text);
            return Ok(true);
        }
        scratch.clear();
        self.text.write(&self.ty, stored, scratch)?;
        put_lenenc_bytes(out, scratch);
        Ok(true)
    }

    /// Appends a value whose binary form is not its text; false for others.
    fn put_binary(&self, stored: &[u8], out: &mut Vec<u8>) -> Result<bool, ValueError> {
        match self.ty.code {
            t::TINY | t::SHORT | t::LONG | t::LONGLONG | t::FLOAT | t::DOUBLE => out.extend_from_slice(stored),
            t::INT24 => {
                let sign =
                    if !self.ty.unsigned && stored.last().is_some_and(|byte| byte & 0x80 != 0) { 0xff } else { 0 };
                out.extend_from_slice(stored);
                out.push(sign);
            }
            t::YEAR | t::DATE | t::TIME | t::TIME2 | t::DATETIME | t::DATETIME2 | t::TIMESTAMP | t::TIMESTAMP2 => {
                match TypedValue::of(&self.ty, stored)? {
                    TypedValue::Year(year) => out.extend_from_slice(&year.to_le_bytes()),
                    TypedValue::Date(date) => {
                        let midnight = DateTimeValue { date, hour: 0, minute: 0, second: 0, micros: 0 };
                        put_date_time(out, to_protocol(midnight));
                    }
                    TypedValue::DateTime(value) => put_date_time(out, to_protocol(self.text.local(&self.ty, value))),
                    TypedValue::Time(value) => put_time(out, time(value)),
                    _ => return Err(ValueError::Invalid { what: "a date or time" }),
                }
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    #[track_caller]
    fn error(&self, table: &TableDef, error: &ValueError) -> SqlError {
        let name = table.columns.get(self.position).map_or("", |column| column.name.as_str());
        SqlError::unreadable_of(format_args!("column {name}"), error)
    }
}

fn small(value: u32) -> u8 {
    u8::try_from(value).unwrap_or(u8::MAX)
}

fn time(value: TimeValue) -> Time {
    let TimeValue { negative, hour, minute, second, micros } = value;
    Time { negative, days: hour / 24, hours: small(hour % 24), minutes: small(minute), seconds: small(second), micros }
}

/// A constant as it is sent in every row.
fn constant(
    value: &Value,
    column: &ResultColumn,
    charsets: &Charsets,
    form: Form,
) -> Result<Option<Vec<u8>>, SqlError> {
    let mut out = Vec::new();
    match (value, form) {
        (Value::Null, _) => return Ok(None),
        (Value::Int(_) | Value::UInt(_), Form::Binary) if column.field.type_code == LONG => {
            let value = match value {
                Value::Int(value) => row::Value::Int(*value),
                Value::UInt(value) => row::Value::UInt(*value),
                _ => row::Value::Null,
            };
            put_alone(&mut out, column, value, form)?;
        }
        (Value::Int(value), Form::Binary) => out.extend_from_slice(&value.to_le_bytes()),
        (Value::UInt(value), Form::Binary) => out.extend_from_slice(&value.to_le_bytes()),
        (Value::Double(value), Form::Binary) => out.extend_from_slice(&value.to_le_bytes()),
        (Value::Double(value), Form::Text) if column.field.decimals < 31 => {
            let text = format!("{value:.*}", usize::from(column.field.decimals));
            put_lenenc_bytes(&mut out, text.as_bytes());
        }
        (Value::Text(text), _) => {
            let text = charsets.encoded(text, charsets.sent_in(column.field.collation))?;
            put_lenenc_bytes(&mut out, &text);
        }
        (Value::DateTime(value, _), form) => put_alone(&mut out, column, row::Value::DateTime(*value), form)?,
        (Value::Time(value), form) => put_alone(&mut out, column, row::Value::Time(*value), form)?,
        (other, _) => put_lenenc_bytes(&mut out, &other.text().unwrap_or_default()),
    }
    Ok(Some(out))
}

/// A value as a row of this column alone has it.
fn put_alone(out: &mut Vec<u8>, column: &ResultColumn, value: row::Value<'_>, form: Form) -> Result<(), SqlError> {
    let value_type = row::ValueType { code: column.field.type_code, unsigned: false };
    let columns = [ColumnForm { value: value_type, decimals: column.field.decimals }];
    let mut alone = Vec::new();
    let (put, header) = match form {
        Form::Text => (put_text_row(&mut alone, &columns, &[value]), 0),
        // The packet's first byte, and one for NULLs.
        Form::Binary => (put_binary_row(&mut alone, &columns, &[value]), 2),
    };
    put.map_err(SqlError::defect)?;
    out.extend_from_slice(alone.get(header..).unwrap_or_default());
    Ok(())
}

#[cfg(test)]
mod tests {
    use sql::Field;
    use wire::row::{DateTime, type_code};

    use super::*;

    /// As MySQL sends NOW(n), CURDATE() and CURTIME(n) beside a table's columns.
    #[test]
    fn moments_have_the_digits_of_their_column() {
        let charsets = Charsets::of_login(255).unwrap();
        let at = DateTime { year: 2026, month: 11, day: 28, hour: 12, minute: 3, second: 4, micros: 50_000 };
        let date = DateTime { hour: 0, minute: 0, second: 0, micros: 0, ..at };
        let time = Time { hours: 12, minutes: 3, seconds: 4, micros: 50_000, ..Time::default() };
        for (value, type_code, decimals, text, binary) in [
            (Value::DateTime(at, false), type_code::DATETIME, 2, "2026-11-28 12:03:04.05", 12),
            (Value::DateTime(date, true), type_code::DATE, 0, "2026-11-28", 5),
            (Value::Time(time), type_code::TIME, 6, "12:03:04.050000", 13),
            (Value::Time(Time { micros: 0, ..time }), type_code::TIME, 0, "12:03:04", 9),
        ] {
            let field = Field { type_code, flags: 0, length: 26, decimals, collation: 63 };
            let column = ResultColumn { name: b"x".to_vec(), org_name: None, origin: None, field };
            let of = |form| constant(&value, &column, &charsets, form).unwrap().unwrap();
            assert_eq!(String::from_utf8_lossy(&of(Form::Text)[1..]), text);
            let sent = of(Form::Binary);
            assert_eq!((sent.len(), usize::from(sent[0])), (binary, binary - 1), "{text}");
        }
    }
}
