//! Results with rows, in both formats.

pub(super) use rows::Form;
use sql::table::{Origin, ResultColumn, in_cursor};
use sql::{Column, Field, SqlError, Value};
use wire::handshake::capability;
use wire::read::put_lenenc;
use wire::response::{ColumnDefinition, status};
use wire::row;
use wire::server::{self, ColumnForm, ServerOk};

use super::Session;
use super::event_list::EventsLeft;
use crate::Output;

/// utf8mb3_general_ci: the collation of names.
const NAMES: u16 = 33;

/// A result: columns, and values of each row.
#[derive(Debug)]
pub(super) struct Rows {
    /// Columns; their values are those of the first row.
    pub columns: Vec<Column>,
    /// Values of the rows, in the order of the columns.
    pub rows: Vec<Vec<Value>>,
    /// What is said of the columns, where they come from tables.
    pub described: Option<Listed>,
    /// Makes the rows that follow.
    pub more: Option<EventsLeft>,
}

/// What is said of columns that come from tables that are kept nowhere.
#[derive(Debug)]
pub(super) struct Listed {
    pub columns: Vec<ResultColumn>,
    /// Parameters that stand beside one, by number.
    pub parameters: Vec<(usize, Field)>,
    /// Whether MySQL would say that no index was used.
    pub scans: bool,
}

impl Rows {
    /// Columns that come from no table.
    pub(super) fn new(columns: Vec<Column>, rows: Vec<Vec<Value>>) -> Rows {
        Rows { columns, rows, described: None, more: None }
    }

    /// The same as the rows of a cursor.
    pub(super) fn in_cursor(mut self) -> Rows {
        let column = |Column { name, field, .. }: &Column| {
            let (name, field) = (name.clone(), *field);
            in_cursor(&ResultColumn { name, org_name: None, origin: None, field })
        };
        let columns: Vec<ResultColumn> = match &self.described {
            Some(listed) => listed.columns.iter().map(in_cursor).collect(),
            None => self.columns.iter().map(column).collect(),
        };
        for (column, described) in self.columns.iter_mut().zip(&columns) {
            column.field = described.field;
        }
        let listed = self.described.unwrap_or(Listed { columns: Vec::new(), parameters: Vec::new(), scans: false });
        Rows { described: Some(Listed { columns, ..listed }), ..self }
    }

    /// Status bits of the packet that ends the rows, besides the session's.
    pub(super) fn status(&self) -> u16 {
        let scans = self.described.as_ref().is_some_and(|listed| listed.scans);
        if scans { status::NO_INDEX_USED } else { 0 }
    }
}

impl Session {
    /// Definitions and rows; the packet that ends them is the caller's.
    ///
    /// # Errors
    /// A value that cannot be sent in the client's character set. Nothing was put out then.
    pub(super) fn put_rows(&self, rows: &Rows, form: Form, status: u16, out: &mut Output) -> Result<(), SqlError> {
        let (len, sequence) = (out.len(), out.sequence());
        let put = self.put_head(rows, status, out).and_then(|()| self.put_values(rows, form, out));
        if put.is_err() {
            out.truncate(len, sequence);
        }
        put
    }

    /// Column count, definitions, and an EOF for clients that expect one.
    pub(super) fn put_head(&self, rows: &Rows, status: u16, out: &mut Output) -> Result<(), SqlError> {
        self.put_count(rows.columns.len(), out);
        match &rows.described {
            Some(listed) => listed.columns.iter().try_for_each(|one| self.put_table_definition(one, None, out))?,
            None => rows.columns.iter().try_for_each(|column| self.put_definition(column, out))?,
        }
        self.definitions_end(status, out);
        Ok(())
    }

    /// The packet with the number of columns.
    pub(super) fn put_count(&self, count: usize, out: &mut Output) {
        let optional = self.capabilities & capability::OPTIONAL_RESULTSET_METADATA != 0;
        out.send(|out| {
            put_lenenc(out, count as u64);
            if optional {
                out.push(1);
            }
        });
    }

    /// The EOF after definitions, for clients that expect one.
    pub(super) fn definitions_end(&self, status: u16, out: &mut Output) {
        if self.capabilities & capability::DEPRECATE_EOF == 0 {
            let ok = ServerOk { status, warnings: self.diagnostics.early, ..ServerOk::default() };
            out.send(|out| server::put_rows_end(out, &ok, self.capabilities));
        }
    }

    pub(super) fn put_definition(&self, column: &Column, out: &mut Output) -> Result<(), SqlError> {
        let column = ResultColumn { name: column.name.clone(), org_name: None, origin: None, field: column.field };
        self.put_table_definition(&column, None, out)
    }

    /// The definition of a column that may be a table's.
    pub(super) fn put_table_definition(
        &self,
        column: &ResultColumn,
        origin: Option<&Origin>,
        out: &mut Output,
    ) -> Result<(), SqlError> {
        let (len, sequence) = (out.len(), out.sequence());
        out.send(|out| self.table_definition(column, origin, out)).inspect_err(|_| out.truncate(len, sequence))
    }

    /// The payload of a definition.
    pub(super) fn table_definition(
        &self,
        column: &ResultColumn,
        origin: Option<&Origin>,
        out: &mut Vec<u8>,
    ) -> Result<(), SqlError> {
        let charsets = self.settings.charsets();
        let (collation, length) = column.field.announced(charsets);
        // Names are sent in the character set of results too.
        let results = charsets.results.unwrap_or(NAMES);
        let encoded = |name| charsets.encoded(name, results);
        // A constant comes from no table.
        let origin = column.origin.as_deref().or(origin).filter(|_| column.org_name.is_some());
        let of_origin = |name: fn(&Origin) -> &Vec<u8>| encoded(origin.map_or(&[][..], |origin| name(origin)));
        let definition = ColumnDefinition {
            schema: &of_origin(|origin| &origin.schema)?,
            table: &of_origin(|origin| &origin.table)?,
            org_table: &of_origin(|origin| &origin.org_table)?,
            name: &encoded(&column.name)?,
            org_name: &encoded(column.org_name.as_deref().unwrap_or_default())?,
            collation,
            length,
            type_code: column.field.type_code,
            flags: column.field.flags,
            decimals: column.field.decimals,
        };
        definition.write(out);
        Ok(())
    }

    pub(super) fn put_values(&self, rows: &Rows, form: Form, out: &mut Output) -> Result<(), SqlError> {
        rows.rows.iter().try_for_each(|values| {
            self.put_row(&rows.columns, values, form, out)?;
            out.count()
        })
    }

    pub(super) fn put_row(
        &self,
        columns: &[Column],
        values: &[Value],
        form: Form,
        out: &mut Output,
    ) -> Result<(), SqlError> {
        let forms: Vec<ColumnForm> = columns.iter().map(form_of).collect();
        let texts: Vec<Vec<u8>> = columns
            .iter()
            .zip(values)
            .map(|(column, value)| self.sent_text(column, value, form))
            .collect::<Result<_, _>>()?;
        let values: Vec<row::Value<'_>> =
            values.iter().zip(&texts).map(|(value, text)| wire_value(value, text, form)).collect();
        out.send(|out| match form {
            Form::Text => server::put_text_row(out, &forms, &values),
            Form::Binary => server::put_binary_row(out, &forms, &values),
        })
        .map_err(SqlError::defect)
    }

    /// A value's bytes, where it is sent as text.
    fn sent_text(&self, column: &Column, value: &Value, form: Form) -> Result<Vec<u8>, SqlError> {
        Ok(match value {
            Value::Text(text) => {
                let collation = self.settings.charsets().sent_in(column.field.collation);
                self.settings.charsets().encoded(text, collation)?.into_owned()
            }
            Value::Decimal(text) => text.clone().into_bytes(),
            Value::Double(value) if form == Form::Text && column.field.decimals < 31 => {
                format!("{value:.*}", usize::from(column.field.decimals)).into_bytes()
            }
            Value::Double(_) if form == Form::Text => value.text().unwrap_or_default(),
            _ => Vec::new(),
        })
    }
}

fn form_of(column: &Column) -> ColumnForm {
    let unsigned = column.field.flags & wire::response::column_flag::UNSIGNED != 0;
    ColumnForm { value: row::ValueType { code: column.field.type_code, unsigned }, decimals: column.field.decimals }
}

fn wire_value<'a>(value: &Value, text: &'a [u8], form: Form) -> row::Value<'a> {
    match value {
        Value::Null => row::Value::Null,
        Value::Int(value) => row::Value::Int(*value),
        Value::UInt(value) => row::Value::UInt(*value),
        Value::Double(value) if form == Form::Binary => row::Value::Double(*value),
        Value::DateTime(value, _) => row::Value::DateTime(*value),
        Value::Time(value) => row::Value::Time(*value),
        Value::Double(_) | Value::Decimal(_) | Value::Text(_) => row::Value::Bytes(text),
    }
}
