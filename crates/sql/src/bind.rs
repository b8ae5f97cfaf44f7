//! Binding: types and values of expressions as MySQL gives them.
//!
//! In: parsed expressions, the session's settings, values of parameters. Out: a column for each item, with the metadata
//! that MySQL sends, and its value: without tables every expression is a constant. Never here: a construct that is not
//! in [`crate::functions`] or below; it is refused by name.

use std::cell::Cell;

use values::collation::BINARY;
use wire::response::column_flag;
use wire::row::{DateTime, Time, type_code};

use crate::ast::{Expression, Item, Limit, Scope, Select};
use crate::charsets::{bytes_a_character, charset_of, decoded, is_in_unicode};
use crate::error::SqlError;
use crate::invalid::{utf8mb3_by_bytes, valid_up_to};
use crate::memory::Purse;
use crate::settings::Settings;
use crate::table::least_bytes;
use crate::variables::{self, OwnValues};
use crate::waits::Waits;
use crate::{Charsets, ParameterType, Result, UserVariables, column_names, functions, literals, minus, operators};

/// Decimals of a value whose number of them is not fixed (`DECIMAL_NOT_SPECIFIED`).
pub(crate) const NOT_FIXED: u8 = 31;
/// Columns of a result, at most: MySQL has no such limit, but no more parameters.
pub(crate) const COLUMNS_MAX: usize = 65_535;

/// Copies of a text that was computed: the value, the row's, the one in the character set of the result.
const COPIES: usize = 3;
/// Bytes of texts that a statement computes, at most.
const COMPUTED_BYTES_MAX: usize = 64 << 20;
/// Bytes of text that have no BLOB's type.
const VARCHAR_BYTES: u32 = 65_535;
/// Bytes of a MEDIUMBLOB.
const MEDIUM_BYTES: u32 = 16_777_215;

/// What a statement is bound against.
pub struct Bind<'a> {
    /// The statement's text, which names columns.
    pub sql: &'a [u8],
    pub settings: &'a Settings,
    /// The session's user variables.
    pub user_variables: &'a UserVariables,
    /// Values of variables that are ours.
    pub own: &'a dyn OwnValues,
    pub schema: Option<&'a str>,
    /// The schema of tables that are named without one: of a prepared statement, the default schema when it was
    /// prepared.
    pub tables_in: Option<&'a str>,
    /// `USER()`, in its two parts: the name, and where the client is.
    pub user: (&'a str, &'a str),
    /// `CURRENT_USER()`.
    pub current_user: &'a str,
    /// `CONNECTION_ID()`.
    pub connection_id: u64,
    /// `ROW_COUNT()`.
    pub row_count: i64,
    /// `FOUND_ROWS()`, if it is known.
    pub found_rows: Option<u64>,
    /// Values of placeholders; None while a statement is prepared.
    pub parameters: Option<&'a [Value]>,
    /// Types of the placeholders.
    pub parameter_fields: &'a [Field],
    /// Whether and how it may wait.
    pub waits: Waits<'a>,
    /// Bytes of texts that were computed so far.
    pub computed: Cell<usize>,
    /// Steps in which texts were looked for in others so far, at most.
    pub compared: Cell<usize>,
    /// What the session may hold.
    pub memory: &'a Purse,
}

#[cfg(test)]
impl<'a> Bind<'a> {
    /// Of a session without anything, for tests.
    pub(crate) fn of_nobody(
        sql: &'a [u8],
        settings: &'a Settings,
        user_variables: &'a UserVariables,
        waits: Waits<'a>,
        memory: &'a Purse,
    ) -> Bind<'a> {
        Bind {
            sql,
            settings,
            user_variables,
            own: &crate::settings::Nothing,
            schema: None,
            tables_in: None,
            user: ("", ""),
            current_user: "",
            connection_id: 1,
            row_count: 0,
            found_rows: None,
            parameters: Some(&[]),
            parameter_fields: &[],
            waits,
            computed: Cell::new(0),
            compared: Cell::new(0),
            memory,
        }
    }
}

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
    fn is_long(&self) -> bool {
        matches!(self.type_code, type_code::MEDIUM_BLOB | type_code::LONG_BLOB)
    }

    pub(crate) fn number(type_code: u8, flags: u16, length: u32) -> Field {
        Field { type_code, flags: flags | column_flag::BINARY, length, decimals: 0, collation: BINARY }
    }

    pub(crate) fn text(flags: u16, length: u32, collation: u16) -> Field {
        Field { type_code: type_code::VAR_STRING, flags, length, decimals: NOT_FIXED, collation }
    }

    /// A text that may be so long that MySQL gives it a BLOB's type; `length` is in characters.
    pub(crate) fn long_text(flags: u16, length: u32, collation: u16) -> Field {
        let bytes = length.saturating_mul(bytes_a_character(collation));
        match bytes {
            0..=VARCHAR_BYTES => Field::text(flags, length, collation),
            _ if bytes <= MEDIUM_BYTES => {
                Field { type_code: type_code::MEDIUM_BLOB, length: bytes, ..Field::text(flags, 0, collation) }
            }
            _ => Field { type_code: type_code::LONG_BLOB, length: bytes, ..Field::text(flags, 0, collation) },
        }
    }

    /// Largest length of a text in characters.
    pub(crate) fn characters(&self) -> u32 {
        match self.type_code {
            type_code::MEDIUM_BLOB | type_code::LONG_BLOB => self.length / bytes_a_character(self.collation).max(1),
            _ => self.length,
        }
    }

    /// Collation and length in bytes as they are sent to a client of these character sets.
    #[must_use]
    pub fn announced(&self, charsets: &Charsets) -> (u16, u32) {
        if self.collation == BINARY {
            return (BINARY, self.length);
        }
        let collation = charsets.announced(self.collation);
        // MySQL takes each byte of a BLOB for a character here, unless nothing is converted.
        if self.is_long() && charsets.results.is_none() {
            return (collation, self.length);
        }
        if self.type_code == type_code::BLOB && charsets.converts_not() {
            // The type's own length in bytes, which need not be a multiple of a character's.
            let least = least_bytes(self.collation);
            return (collation, self.length.saturating_mul(least) | (least - 1));
        }
        let characters = if self.is_long() { self.length / least_bytes(self.collation) } else { self.length };
        (collation, characters.saturating_mul(bytes_a_character(collation)))
    }
}

/// True for the type of a text or of bytes.
pub(crate) fn is_text(field: &Field) -> bool {
    field.type_code == type_code::VAR_STRING || field.is_long()
}

#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    /// NULL.
    Null,
    Int(i64),
    UInt(u64),
    Double(f64),
    /// A decimal number, as MySQL prints it.
    Decimal(String),
    /// Text as UTF-8, or bytes of a binary string.
    Text(Vec<u8>),
    /// A DATE if true, else a DATETIME with six decimals.
    DateTime(DateTime, bool),
    /// A TIME with six decimals.
    Time(Time),
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
            Value::DateTime(value, is_date) => text_of_date(*value, *is_date).into_bytes(),
            Value::Time(value) => text_of_time(*value).into_bytes(),
        })
    }
}

impl Value {
    /// As [`text`](Value::text), with so many digits of a second, six at most.
    pub(crate) fn text_with(&self, decimals: u8) -> Option<Vec<u8>> {
        let mut text = self.text()?;
        let left_out = 6usize.saturating_sub(usize::from(decimals));
        if matches!(self, Value::DateTime(_, false) | Value::Time(_)) {
            // Without digits there is no point either.
            let point = usize::from(left_out == 6);
            text.truncate(text.len().saturating_sub(left_out + point));
        }
        Some(text)
    }
}

fn text_of_date(value: DateTime, is_date: bool) -> String {
    let DateTime { year, month, day, hour, minute, second, micros } = value;
    if is_date {
        return format!("{year:04}-{month:02}-{day:02}");
    }
    format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02}.{micros:06}")
}

fn text_of_time(value: Time) -> String {
    let sign = if value.negative { "-" } else { "" };
    let hours = u64::from(value.days) * 24 + u64::from(value.hours);
    format!("{sign}{hours:02}:{:02}:{:02}.{:06}", value.minutes, value.seconds, value.micros)
}

/// A column of a result, with its value.
#[derive(Debug, Clone, PartialEq)]
pub struct Column {
    /// Name, as UTF-8.
    pub name: Vec<u8>,
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

impl Bound {
    /// True for a text and for the literal NULL.
    pub(crate) fn is_text_or_null(&self) -> bool {
        is_text(&self.field) || self.field.type_code == type_code::NULL
    }
}

/// Whether LIMIT leaves the row of a SELECT without a table in.
pub(crate) fn checked_row(bind: &Bind<'_>, select: &Select) -> Result<bool> {
    if select.items.len() > COLUMNS_MAX {
        return Err(SqlError::new(1117, "HY000", "Too many columns"));
    }
    bind.memory.work_with(select.items.len().saturating_mul(size_of::<Column>()))?;
    Ok(bind.has_first_row(&select.limit)? && bind.settings.typed().rows_max > 0)
}

/// The columns of a SELECT without a table that is described only.
///
/// # Errors
/// With MySQL's number, or 1235.
pub fn describe(bind: &Bind<'_>, select: &Select) -> Result<Vec<Column>> {
    checked_row(bind, select)?;
    select.items.iter().map(|item| column(bind, item)).collect()
}

/// The value of an expression, and whether it is text.
///
/// # Errors
/// Those of [`describe`], as they are.
pub fn evaluate(bind: &Bind<'_>, expression: &Expression) -> Result<Value> {
    Ok(bind.as_it_is(expression)?.value)
}

/// Gives the variables of `bind`'s session a value for one of them, by its name as written.
///
/// # Errors
/// As [`describe`], and 3061 for a name that is not one.
pub fn assign(bind: &Bind<'_>, name: &[u8], expression: &Expression, to: &mut UserVariables) -> Result<()> {
    let charsets = bind.settings.charsets();
    if *expression == Expression::Null && to.set_null(name)? {
        return Ok(());
    }
    let bound = match expression {
        Expression::UserVariable(read) if !bind.user_variables.has(read)? => UserVariables::unset(charsets),
        expression => bind.as_it_is(expression)?,
    };
    // As MySQL has it, a NULL leaves a variable that is text its collation, and the word its type too.
    let bound = if bound.value == Value::Null { to.null_of(name, bound)? } else { bound };
    to.set(name, bound, charsets)
}

pub(crate) fn column(bind: &Bind<'_>, item: &Item) -> Result<Column> {
    let bound = bind.as_it_is(&item.expression).map_err(|error| error.at(item.span.clone()))?;
    let charsets = bind.settings.charsets();
    let own = match &item.expression {
        _ if item.alias.is_some() => Vec::new(),
        Expression::Null => b"NULL".to_vec(),
        Expression::Parameter(_) => b"?".to_vec(),
        // Brackets and a plus sign before a number are not part of its name.
        Expression::Number(digits) => digits.clone().into_bytes(),
        Expression::Text { bytes, first_len, introducer } => {
            let shown = bytes.get(..*first_len).unwrap_or_default();
            let collation = introducer.as_ref().map_or(Ok(charsets.client), |name| Ok(Charsets::by_name(name)?.id))?;
            match introducer.as_deref() {
                Some("binary") => utf8mb3_by_bytes(column_names::from_graph_of("binary", shown)),
                _ => charsets.in_column_name(shown, collation)?,
            }
        }
        _ => charsets.in_column_name(item.text(bind.sql), charsets.client)?,
    };
    let name = match &item.alias {
        Some(alias) => column_names::given(alias),
        None => column_names::own(&own),
    };
    Ok(Column { name, field: bound.field, value: bound.value })
}

/// Characters of a text, where each byte that is in none counts as one.
fn characters(mut text: &[u8]) -> usize {
    let mut count = 0;
    while let Err(error) = std::str::from_utf8(text) {
        let (valid, rest) = text.split_at_checked(error.valid_up_to()).unwrap_or_default();
        count += String::from_utf8_lossy(valid).chars().count() + 1;
        text = rest.get(1..).unwrap_or_default();
    }
    count + String::from_utf8_lossy(text).chars().count()
}

impl Bind<'_> {
    /// Counts the bytes of a text that was computed: a statement's length does not bound them.
    pub(crate) fn hold(&self, bytes: usize) -> Result<()> {
        let held = self.computed.get().saturating_add(bytes);
        self.computed.set(held);
        if held > COMPUTED_BYTES_MAX {
            return Err(SqlError::not_supported("computed texts of 64 MiB"));
        }
        self.memory.work_with(bytes.saturating_mul(COPIES))
    }

    /// Type and value of an expression.
    ///
    /// # Errors
    /// With MySQL's number; 1235 also for a text that is invalid in its character set.
    pub(crate) fn expression(&self, expression: &Expression) -> Result<Bound> {
        let bound = self.as_it_is(expression)?;
        match (expression, &bound.value) {
            (
                Expression::Text { .. }
                | Expression::Parameter(_)
                | Expression::UserVariable(_)
                | Expression::Call { .. },
                Value::Text(text),
            ) if bound.field.collation != BINARY && std::str::from_utf8(text).is_err() => {
                Err(invalid_text(charset_of(bound.field.collation)))
            }
            _ => Ok(bound),
        }
    }

    /// As [`expression`](Self::expression), of one whose value is only shown or kept: as in MySQL, a text of utf8mb4
    /// that is invalid is taken unchanged.
    pub(crate) fn as_it_is(&self, expression: &Expression) -> Result<Bound> {
        match expression {
            Expression::Null => Ok(null()),
            Expression::Bool(value) => Ok(integer(i64::from(*value), 1)),
            Expression::Number(digits) => number(digits),
            Expression::Text { bytes, introducer, .. } => self.text(bytes, introducer.as_deref()),
            Expression::Bytes { bytes, is_bits, introducer } => {
                literals::bytes(self, bytes, *is_bits, introducer.as_deref())
            }
            Expression::Parameter(index) => self.parameter(*index),
            Expression::Variable { scope, name } => self.variable(*scope, name),
            Expression::UserVariable(name) => {
                let bound = self.user_variables.read(name, self.settings.charsets())?;
                self.hold(bound.value.text().map_or(0, |text| text.len()))?;
                Ok(bound)
            }
            Expression::Name(parts) => Err(unknown_column(parts)),
            Expression::Star(names) => Err(star_without_tables(names)),
            Expression::Call { name, arguments } => functions::call(self, name, arguments),
            Expression::Negative(inner) if is_parameter(inner) => Err(SqlError::not_supported("a minus sign before ?")),
            Expression::Negative(inner) => minus::negated(inner, self.expression(inner)?),
            Expression::Like { sides, negated } => operators::like(self, sides, *negated),
            Expression::IsNull { value, negated } => operators::is_null(self, value, *negated),
            Expression::Chain { first, rest } => operators::chain(self, first, rest),
            Expression::Other { construct, operands } => operators::bound(self, construct, operands),
            other => {
                // MySQL's errors of what is below come first, however deep, then what is not answered there.
                let mut not_supported = None;
                for operand in other.operands() {
                    match self.expression(operand) {
                        Err(error) if error.is_not_supported() => _ = not_supported.get_or_insert(error),
                        result => _ = result?,
                    }
                }
                Err(not_supported.unwrap_or_else(|| SqlError::not_supported(&other.construct())))
            }
        }
    }

    pub(crate) fn text(&self, bytes: &[u8], introducer: Option<&str>) -> Result<Bound> {
        let charsets = self.settings.charsets();
        let (from, to) = match introducer {
            Some("binary") => return Ok(literals::binary_text(bytes)),
            Some(name) => (Charsets::by_name(name)?.id, Charsets::by_name(name)?.id),
            None => (charsets.client, charsets.connection),
        };
        let text = match (charset_of(from), charset_of(to)) {
            ("utf8mb4", "utf8mb4") => bytes.to_vec(),
            (charset, _) => match decoded(from, bytes) {
                Ok(text) if is_in_unicode(from, bytes) => text.into_owned(),
                _ => return Err(invalid_text(charset)),
            },
        };
        let length = if to == BINARY { text.len() } else { characters(&text) };
        let length = u32::try_from(length).unwrap_or(u32::MAX);
        let flags = column_flag::NOT_NULL | binary_flag(to);
        Ok(Bound { field: Field::text(flags, length, to), value: Value::Text(text) })
    }

    /// A literal or parameter that is no text in the client's character set: its bytes.
    pub(crate) fn no_text<'e>(&'e self, expression: &'e Expression) -> Option<&'e [u8]> {
        let bytes = match expression {
            Expression::Text { bytes, introducer: None, .. } => bytes,
            Expression::Parameter(number) => match self.parameters?.get(*number)? {
                Value::Text(bytes) => bytes,
                _ => return None,
            },
            _ => return None,
        };
        // Of parameters only those in utf8mb4 are as they were sent.
        let charset = match expression {
            Expression::Parameter(_) => "utf8mb4",
            _ => self.settings.charsets().client_charset(),
        };
        let is_lost = |collation| matches!(expression, Expression::Text { .. }) && !is_in_unicode(collation, bytes);
        (valid_up_to(charset, bytes) < bytes.len() || is_lost(self.settings.charsets().client)).then_some(bytes)
    }

    fn parameter(&self, index: usize) -> Result<Bound> {
        let field = self.parameter_fields.get(index).copied();
        let text = || ParameterType::Text.field(self.settings.charsets().connection);
        let value = self.parameters.and_then(|values| values.get(index)).cloned().unwrap_or(Value::Null);
        Ok(Bound { field: field.unwrap_or_else(text), value })
    }

    fn variable(&self, scope: Option<Scope>, name: &str) -> Result<Bound> {
        let variable = variables::named(name, self.own)?;
        let scope = variable.scope_to_read(scope)?;
        if self.waits.describes() && variables::tells_of_gtids(variable.name) {
            // Whether it can be read is found out when it is.
            let (field, _) = variable.typed(Some(""));
            return Ok(Bound { field, value: Value::Null });
        }
        let (field, value) = self.settings.read(variable, scope, self.own)?;
        Ok(Bound { field, value })
    }

    /// Whether LIMIT leaves the first row in.
    fn has_first_row(&self, limit: &Limit) -> Result<bool> {
        let (offset, rows) = self.limit(limit)?;
        Ok(rows > 0 && offset == 0)
    }

    /// Rows that LIMIT leaves out first, and the largest number of rows after them.
    pub(crate) fn limit(&self, limit: &Limit) -> Result<(u64, u64)> {
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
        Ok((count(&limit.offset)?, rows))
    }
}

/// MySQL takes a placeholder's type from what it stands in; only where that is a column of its own is it known here.
pub(crate) fn is_parameter(expression: &Expression) -> bool {
    matches!(expression, Expression::Parameter(_))
}

/// BINARY for text of a collation by code points, as MySQL flags it.
pub(crate) fn binary_flag(collation: u16) -> u16 {
    let is_bin =
        values::collation::by_id(collation).is_some_and(|found| found.id == BINARY || found.name.ends_with("_bin"));
    if is_bin { column_flag::BINARY } else { 0 }
}

fn invalid_text(charset: &str) -> SqlError {
    SqlError::not_supported(&format!("text that is invalid in {charset}"))
}

fn null() -> Bound {
    Bound { field: Field::number(type_code::NULL, 0, 0), value: Value::Null }
}

pub(crate) fn integer(value: i64, length: u32) -> Bound {
    Bound { field: Field::number(type_code::LONGLONG, column_flag::NOT_NULL, length), value: Value::Int(value) }
}

fn star_without_tables(names: &[Vec<u8>]) -> SqlError {
    if names.is_empty() {
        return SqlError::new(1096, "HY000", "No tables used");
    }
    let name = names.iter().map(|part| String::from_utf8_lossy(part)).collect::<Vec<_>>().join(".");
    SqlError::new(1051, "42S02", format!("Unknown table '{name}'"))
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
