//! Binding: types and values of expressions as MySQL gives them.
//!
//! In: parsed expressions, the session's settings, values of parameters. Out: a column for each item, with the metadata
//! that MySQL sends, and its value: without tables every expression is a constant. Never here: a construct that is not
//! in [`crate::functions`] or below; it is refused by name.

use values::collation::BINARY;
use wire::response::column_flag;
use wire::row::type_code;

use crate::ast::{Expression, Item, Limit, Scope, Select};
use crate::charsets::{bytes_a_character, decoded};
use crate::error::SqlError;
use crate::settings::Settings;
use crate::variables::{self, OwnValues};
use crate::{Charsets, Result, functions};

/// Decimals of a value whose number of them is not fixed (`DECIMAL_NOT_SPECIFIED`).
pub(crate) const NOT_FIXED: u8 = 31;
/// Columns of a result, at most.
const COLUMNS_MAX: usize = 4096;
/// Characters of a column's name that are sent.
const NAME_MAX: usize = 256;

/// Characters of text that a function may give; longer text has a BLOB's type.
const LONG_TEXT: u32 = 16_383;

/// What a statement is bound against.
pub struct Bind<'a> {
    /// The statement's text, which names columns.
    pub sql: &'a [u8],
    /// The session's variables.
    pub settings: &'a Settings,
    /// Values of variables that are ours.
    pub own: &'a dyn OwnValues,
    /// The default schema.
    pub schema: Option<&'a str>,
    /// `USER()`.
    pub user: &'a str,
    /// `CURRENT_USER()`.
    pub current_user: &'a str,
    /// `CONNECTION_ID()`.
    pub connection_id: u64,
    /// `ROW_COUNT()`.
    pub row_count: i64,
    /// Values of placeholders; None while a statement is prepared.
    pub parameters: Option<&'a [Value]>,
}

/// A column's metadata.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Field {
    /// Type code of the protocol.
    pub type_code: u8,
    /// Flags of the protocol.
    pub flags: u16,
    /// Largest length, in characters.
    pub length: u32,
    /// Digits after the decimal point, or 31.
    pub decimals: u8,
    /// Collation; 63 for what is not text.
    pub collation: u16,
}

impl Field {
    pub(crate) fn number(type_code: u8, flags: u16, length: u32) -> Field {
        Field { type_code, flags: flags | column_flag::BINARY, length, decimals: 0, collation: BINARY }
    }

    pub(crate) fn text(flags: u16, length: u32, collation: u16) -> Field {
        Field { type_code: type_code::VAR_STRING, flags, length, decimals: NOT_FIXED, collation }
    }

    /// Collation and length in bytes as they are sent to a client of these character sets.
    #[must_use]
    pub fn announced(&self, charsets: &Charsets) -> (u16, u32) {
        if self.collation == BINARY {
            return (BINARY, self.length);
        }
        let collation = charsets.announced(self.collation);
        (collation, self.length.saturating_mul(bytes_a_character(collation)))
    }
}

/// A value.
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// NULL.
    Null,
    /// A signed integer.
    Int(i64),
    /// An unsigned integer.
    UInt(u64),
    /// A double.
    Double(f64),
    /// A decimal number, as MySQL prints it.
    Decimal(String),
    /// Text as UTF-8, or bytes of a binary string.
    Text(Vec<u8>),
}

impl Value {
    /// The value as text, as a client and SET see it; None is NULL.
    #[must_use]
    pub fn text(&self) -> Option<Vec<u8>> {
        Some(match self {
            Value::Null => return None,
            Value::Int(value) => value.to_string().into_bytes(),
            Value::UInt(value) => value.to_string().into_bytes(),
            Value::Double(value) => values::text_of_f64(*value).into_bytes(),
            Value::Decimal(text) => text.clone().into_bytes(),
            Value::Text(text) => text.clone(),
        })
    }
}

/// A column of a result, with its value.
#[derive(Debug, Clone, PartialEq)]
pub struct Column {
    /// Name, as UTF-8.
    pub name: Vec<u8>,
    /// Metadata.
    pub field: Field,
    /// Value in the only row.
    pub value: Value,
}

/// An expression with its type and value.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Bound {
    pub(crate) field: Field,
    pub(crate) value: Value,
}

/// The columns of a SELECT, and whether LIMIT leaves its row in.
///
/// # Errors
/// With MySQL's number, or 1235.
pub fn select(bind: &Bind<'_>, select: &Select) -> Result<(Vec<Column>, bool)> {
    if select.items.len() > COLUMNS_MAX {
        return Err(SqlError::new(1117, "HY000", "Too many columns"));
    }
    let columns = select.items.iter().map(|item| column(bind, item)).collect::<Result<Vec<_>>>()?;
    let rows_max = bind.settings.rows_max();
    Ok((columns, bind.has_first_row(&select.limit)? && rows_max > 0))
}

/// The value of an expression, and whether it is text.
///
/// # Errors
/// As [`select`].
pub fn evaluate(bind: &Bind<'_>, expression: &Expression) -> Result<Value> {
    Ok(bind.expression(expression)?.value)
}

fn column(bind: &Bind<'_>, item: &Item) -> Result<Column> {
    let bound = bind.expression(&item.expression)?;
    if bound.field.length > LONG_TEXT && matches!(item.expression, Expression::Call { .. }) {
        return Err(SqlError::not_supported("CONCAT() of long text"));
    }
    let charsets = bind.settings.charsets();
    let name = match (&item.alias, &item.expression) {
        (Some(alias), _) => charsets.from_client(alias)?.into_owned(),
        (None, Expression::Null) => b"NULL".to_vec(),
        // Brackets and a plus sign before a number are not part of its name.
        (None, Expression::Number(digits)) => digits.clone().into_bytes(),
        (None, Expression::Text { bytes, first_len, introducer }) => {
            let collation = introducer.as_ref().map_or(Ok(charsets.client), |name| Ok(Charsets::by_name(name)?.id));
            let shown = bytes.get(..*first_len).unwrap_or_default();
            decoded(collation?, shown)?.into_owned()
        }
        (None, _) => charsets.from_client(bind.sql.get(item.span.clone()).unwrap_or_default())?.into_owned(),
    };
    Ok(Column { name: shortened(name), field: bound.field, value: bound.value })
}

/// A name of at most [`NAME_MAX`] characters.
fn shortened(name: Vec<u8>) -> Vec<u8> {
    if name.len() <= NAME_MAX {
        return name;
    }
    String::from_utf8_lossy(&name).chars().take(NAME_MAX).collect::<String>().into_bytes()
}

impl Bind<'_> {
    pub(crate) fn expression(&self, expression: &Expression) -> Result<Bound> {
        match expression {
            Expression::Null => Ok(null()),
            Expression::Bool(value) => Ok(integer(i64::from(*value), 1)),
            Expression::Number(digits) => number(digits),
            Expression::Text { bytes, introducer, .. } => self.text(bytes, introducer.as_deref()),
            Expression::Bytes => Err(SqlError::not_supported("hexadecimal and bit literals")),
            Expression::Parameter(index) => self.parameter(*index),
            Expression::Variable { scope, name } => self.variable(*scope, name),
            Expression::UserVariable => Err(SqlError::not_supported("user variables")),
            Expression::Name(parts) => Err(unknown_column(parts)),
            Expression::Star => Err(SqlError::new(1096, "HY000", "No tables used")),
            Expression::Call { name, arguments } => functions::call(self, name, arguments),
            Expression::Negative(inner) => negated(inner, self.expression(inner)?),
            Expression::Other { construct, .. } => Err(SqlError::not_supported(construct)),
        }
    }

    fn text(&self, bytes: &[u8], introducer: Option<&str>) -> Result<Bound> {
        let charsets = self.settings.charsets();
        let (from, to) = match introducer {
            Some(name @ ("binary" | "utf8mb3")) => return Err(SqlError::not_supported(&format!("strings of {name}"))),
            Some(name) => (Charsets::by_name(name)?.id, Charsets::by_name(name)?.id),
            None => (charsets.client, charsets.connection),
        };
        let text = decoded(from, bytes)?.into_owned();
        let length = u32::try_from(String::from_utf8_lossy(&text).chars().count()).unwrap_or(u32::MAX);
        let flags = column_flag::NOT_NULL | binary_flag(to);
        Ok(Bound { field: Field::text(flags, length, to), value: Value::Text(text) })
    }

    fn parameter(&self, index: usize) -> Result<Bound> {
        let connection = self.settings.charsets().connection;
        let Some(values) = self.parameters else {
            return Ok(Bound { field: Field::text(0, PARAMETER_LENGTH, connection), value: Value::Null });
        };
        let value = values.get(index).cloned().unwrap_or(Value::Null);
        let field = match &value {
            Value::Null => Field::text(0, PARAMETER_LENGTH, connection),
            Value::Int(_) => Field::number(type_code::LONGLONG, 0, 20),
            Value::UInt(_) => Field::number(type_code::LONGLONG, column_flag::UNSIGNED, 20),
            Value::Double(_) => Field { decimals: NOT_FIXED, ..Field::number(type_code::DOUBLE, 0, 23) },
            Value::Decimal(_) | Value::Text(_) => Field::text(0, PARAMETER_LENGTH, connection),
        };
        Ok(Bound { field, value })
    }

    fn variable(&self, scope: Option<Scope>, name: &str) -> Result<Bound> {
        let variable = variables::find(name).ok_or_else(|| SqlError::unknown_variable(name))?;
        let scope = variable.scope_to_read(scope)?;
        let (field, value) = self.settings.read(variable, scope, self.own)?;
        Ok(Bound { field, value })
    }

    /// Whether LIMIT leaves the first row in.
    fn has_first_row(&self, limit: &Limit) -> Result<bool> {
        let count = |expression: &Expression| -> Result<u64> {
            match self.expression(expression)?.value {
                Value::UInt(value) => Ok(value),
                Value::Int(value) if value >= 0 => Ok(value.unsigned_abs()),
                Value::Decimal(_) => Ok(u64::MAX),
                // A statement that is being prepared has no values yet.
                Value::Null if self.parameters.is_none() => Ok(0),
                _ => Err(SqlError::new(1210, "HY000", "Incorrect arguments to LIMIT")),
            }
        };
        let rows = limit.rows.as_ref().map_or(Ok(u64::MAX), count)?;
        Ok(rows > 0 && count(&limit.offset)? == 0)
    }
}

/// BINARY for text of a collation by code points, as MySQL flags it.
pub(crate) fn binary_flag(collation: u16) -> u16 {
    let is_bin = values::collation::by_id(collation).is_some_and(|found| found.name.ends_with("_bin"));
    if is_bin { column_flag::BINARY } else { 0 }
}

/// Length in characters that MySQL announces for a placeholder.
const PARAMETER_LENGTH: u32 = 16_383;

fn null() -> Bound {
    Bound { field: Field::number(type_code::NULL, 0, 0), value: Value::Null }
}

pub(crate) fn integer(value: i64, length: u32) -> Bound {
    Bound { field: Field::number(type_code::LONGLONG, column_flag::NOT_NULL, length), value: Value::Int(value) }
}

fn unknown_column(parts: &[Vec<u8>]) -> SqlError {
    let name = parts.iter().map(|part| String::from_utf8_lossy(part)).collect::<Vec<_>>().join(".");
    if let [table, .., _] = parts {
        let table = String::from_utf8_lossy(table);
        return SqlError::new(1109, "42S02", format!("Unknown table '{table}' in field list"));
    }
    SqlError::new(1054, "42S22", format!("Unknown column '{name}' in 'field list'"))
}

fn number(digits: &str) -> Result<Bound> {
    if digits.bytes().any(|byte| matches!(byte, b'e' | b'E')) {
        return double(digits);
    }
    if digits.contains('.') {
        return decimal(digits);
    }
    let length = u32::try_from(digits.len()).unwrap_or(u32::MAX);
    if let Ok(value) = digits.parse::<i64>() {
        // One more for a sign.
        return Ok(integer(value, length.saturating_add(1)));
    }
    match digits.parse::<u64>() {
        Ok(value) => {
            let flags = column_flag::NOT_NULL | column_flag::UNSIGNED;
            Ok(Bound { field: Field::number(type_code::LONGLONG, flags, length), value: Value::UInt(value) })
        }
        Err(_) => decimal(digits),
    }
}

fn double(digits: &str) -> Result<Bound> {
    let value: f64 = digits.parse().unwrap_or(f64::INFINITY);
    if !value.is_finite() {
        return Err(SqlError::new(1367, "22007", format!("Illegal double '{digits}' value found during parsing")));
    }
    let length = u32::try_from(digits.len()).unwrap_or(u32::MAX);
    let field = Field::number(type_code::DOUBLE, column_flag::NOT_NULL, length);
    Ok(Bound { field: Field { decimals: NOT_FIXED, ..field }, value: Value::Double(value) })
}

/// Digits of a DECIMAL, at most.
const PRECISION_MAX: usize = 65;
/// Digits of a DECIMAL after the point, at most.
const SCALE_MAX: usize = 30;

fn decimal(digits: &str) -> Result<Bound> {
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    if whole.len() + fraction.len() > PRECISION_MAX || fraction.len() > SCALE_MAX {
        return Err(SqlError::not_supported("decimal literals of more than 65 digits, or 30 after the point"));
    }
    if whole.len() > 1 && whole.starts_with('0') {
        return Err(SqlError::not_supported("decimal literals with leading zeros"));
    }
    let scale = fraction.len();
    let length = whole.len() + scale + usize::from(scale > 0) + 1;
    let shown = if whole.is_empty() { "0" } else { whole };
    let text = if scale > 0 { format!("{shown}.{fraction}") } else { shown.to_owned() };
    let field = Field::number(type_code::NEWDECIMAL, column_flag::NOT_NULL, u32::try_from(length).unwrap_or(u32::MAX));
    let field = Field { decimals: u8::try_from(scale).unwrap_or(u8::MAX), ..field };
    Ok(Bound { field, value: Value::Decimal(text) })
}

/// Length that MySQL announces for a double that is computed.
const DOUBLE_LENGTH: u32 = 23;

/// A minus sign before a literal.
fn negated(inner: &Expression, bound: Bound) -> Result<Bound> {
    let refused = || Err(SqlError::not_supported("a minus sign before what is no number"));
    let Bound { field, value } = bound;
    Ok(match (inner, value) {
        (Expression::Number(_), Value::Int(value)) => Bound { field, value: Value::Int(-value) },
        (Expression::Bool(_), Value::Int(value)) => integer(-value, field.length + 1),
        (Expression::Number(_), Value::UInt(value)) => negated_unsigned(value, field),
        (Expression::Number(_), Value::Decimal(text)) => {
            let is_zero = text.bytes().all(|byte| matches!(byte, b'0' | b'.'));
            Bound { field, value: Value::Decimal(if is_zero { text } else { format!("-{text}") }) }
        }
        (Expression::Number(_), Value::Double(value)) => {
            Bound { field: Field { length: DOUBLE_LENGTH, ..field }, value: Value::Double(-value) }
        }
        _ => return refused(),
    })
}

fn negated_unsigned(value: u64, field: Field) -> Bound {
    let length = field.length.saturating_add(1);
    match 0i64.checked_sub_unsigned(value) {
        Some(value) => integer(value, length),
        None => {
            let field = Field::number(type_code::NEWDECIMAL, column_flag::NOT_NULL, length);
            Bound { field, value: Value::Decimal(format!("-{value}")) }
        }
    }
}
