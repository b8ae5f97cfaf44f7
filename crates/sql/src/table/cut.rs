//! Where a constant stands among the values of a column.
//!
//! In: a column, a constant with its type. Out: [`Cut`]s, against which a value's sort key is compared, and the stored
//! bytes of a constant that the column can hold, for bounds of an index. Never here: a constant that MySQL would compare
//! in another way than by the column's own order; it is refused by name.

use std::cmp::Ordering;
use std::collections::HashMap;
use std::sync::Arc;

use catalog::Column;
use values::collation::BINARY;
use values::sort_key::{SortKeyColumn, SortKeyPlan, implemented};
use values::{ColumnType, ValueError, constant, type_code as t};

use super::cut_temporal;
use crate::Result;
use crate::bind::{Bind, Bound, Value};
use crate::charsets::charset_of;
use crate::error::SqlError;

/// Where the constant stands beside the value nearest to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Side {
    /// It is this value.
    At,
    Before,
    After,
}

/// A constant's place in the order of a column's values.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Cut {
    /// Below all values.
    Least,
    /// Above all values.
    Most,
    Near {
        key: Vec<u8>,
        /// Its stored bytes; None if an index cannot be asked for it.
        stored: Option<Vec<u8>>,
        /// Where the constant stands beside it.
        side: Side,
    },
}

impl Cut {
    /// How a value of this sort key compares with the constant.
    pub(crate) fn compare(&self, key: &[u8]) -> Ordering {
        match self {
            Cut::Least => Ordering::Greater,
            Cut::Most => Ordering::Less,
            Cut::Near { key: near, side, .. } => key.cmp(near).then(match side {
                Side::At => Ordering::Equal,
                Side::Before => Ordering::Greater,
                Side::After => Ordering::Less,
            }),
        }
    }

    /// The order of constants, in which [`compare`](Self::compare) finds one.
    pub(crate) fn order(&self, other: &Cut) -> Ordering {
        match (self, other) {
            (Cut::Near { key, side, .. }, Cut::Near { key: other, side: other_side, .. }) => {
                let rank = |side: &Side| match side {
                    Side::Before => 0,
                    Side::At => 1,
                    Side::After => 2,
                };
                key.cmp(other).then(rank(side).cmp(&rank(other_side)))
            }
            _ => {
                let rank = |cut: &Cut| match cut {
                    Cut::Least => 0,
                    Cut::Near { .. } => 1,
                    Cut::Most => 2,
                };
                rank(self).cmp(&rank(other))
            }
        }
    }

    fn near(measure: &Measure, stored: Vec<u8>, side: Side) -> Result<Cut> {
        let mut key = Vec::new();
        measure.append(&stored, &mut key).map_err(|error| SqlError::unreadable(&error))?;
        Ok(Cut::Near { key, stored: Some(stored), side })
    }
}

/// What a comparison asks of a constant's place.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Use {
    /// Whether values are equal to it.
    Equality,
    /// Whether they are below or above it.
    Order,
}

/// Sort keys of one column's values, for comparisons.
#[derive(Debug, Clone)]
pub(crate) struct Measure(Arc<SortKeyPlan>);

impl Measure {
    /// # Errors
    /// 1235 for a column whose values are not ordered here as MySQL orders them.
    pub(crate) fn of(column: &Column) -> Result<Measure> {
        let ty = &column.ty;
        match ty.code {
            t::JSON | t::GEOMETRY | t::VECTOR => return Err(cannot(column, "a constant")),
            t::TIME | t::DATETIME | t::TIMESTAMP => {
                return Err(SqlError::not_supported(&format!("conditions on {} of MySQL 5.5", ty.name())));
            }
            t::CHAR | t::VARCHAR | t::BLOB | t::ENUM | t::SET
                if ty.collation != BINARY && !implemented(ty.collation) =>
            {
                let name = values::collation::by_id(ty.collation).map_or("unknown", |found| found.name);
                return Err(SqlError::not_supported(&format!("comparisons in collation {name}")));
            }
            _ => {}
        }
        Measure::of_type(ty)
    }

    fn of_type(ty: &ColumnType) -> Result<Measure> {
        let column = SortKeyColumn { ty: ty.clone(), nullable: false, descending: false, prefix_len: None };
        SortKeyPlan::new(&[column]).map(|plan| Measure(Arc::new(plan))).map_err(|error| SqlError::unreadable(&error))
    }

    /// Appends the sort key of a stored value.
    pub(crate) fn append(&self, stored: &[u8], out: &mut Vec<u8>) -> std::result::Result<(), ValueError> {
        self.0.append_column(0, Some(stored), out)
    }
}

/// What the constants beside one column are compared by.
#[derive(Debug)]
pub(crate) struct Scale {
    pub(crate) measure: Measure,
    /// Of an ENUM, once a text stood beside it.
    names: Option<Names>,
}

impl Scale {
    /// # Errors
    /// As [`Measure::of`].
    pub(crate) fn of(column: &Column) -> Result<Scale> {
        Ok(Scale { measure: Measure::of(column)?, names: None })
    }
}

/// The places of a constant other than NULL. There are several where several values are equal to it.
///
/// # Errors
/// 1235 for a constant that is not compared by the column's own order, or that cannot be converted exactly.
pub(crate) fn cuts(
    bind: &Bind<'_>,
    column: &Column,
    constant: &Bound,
    used: Use,
    scale: &mut Scale,
) -> Result<Vec<Cut>> {
    if column.ty.code == t::ENUM {
        return members(scale, column, constant, used);
    }
    let measure = &scale.measure;
    let ty = &column.ty;
    let one = match ty.code {
        t::TINY | t::SHORT | t::INT24 | t::LONG | t::LONGLONG => integer(measure, column, constant)?,
        t::YEAR => year(measure, column, constant)?,
        t::BIT => bit(measure, column, constant)?,
        t::DECIMAL => decimal(measure, column, constant)?,
        t::FLOAT | t::DOUBLE => real(measure, column, constant)?,
        t::DATE | t::DATETIME2 | t::TIMESTAMP2 | t::TIME2 => {
            let (stored, side) = match cut_temporal::place(bind, column, constant)? {
                cut_temporal::Place::Most => return Ok(vec![Cut::Most]),
                cut_temporal::Place::Near(stored, side) => (stored, side),
            };
            // MySQL rounds it to the column's digits or compares it as it is: a TIME's always, others' where an index
            // is used (seen on 9.7).
            if side != Side::At && (ty.code == t::TIME2 || (used == Use::Equality && ty.code != t::DATE)) {
                return Err(cannot(column, "a constant of more fractional digits than its own"));
            }
            Cut::near(measure, stored, side)?
        }
        t::SET => return Err(cannot(column, "a constant")),
        _ => text(measure, column, constant)?,
    };
    Ok(vec![one])
}

/// 1235: this kind of constant is not compared with the column.
pub(crate) fn cannot(column: &Column, with: &str) -> SqlError {
    SqlError::not_supported(&format!("comparing {} with {with}", column.ty.name()))
}

/// A number as digits.
struct Digits {
    negative: bool,
    /// Without leading zeros; empty for 0.
    whole: String,
    /// Without zeros at the end.
    fraction: String,
}

impl Digits {
    fn of(text: &str) -> Digits {
        let (negative, digits) = text.strip_prefix('-').map_or((false, text), |rest| (true, rest));
        let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
        let whole = whole.trim_start_matches('0').to_owned();
        let fraction = fraction.trim_end_matches('0').to_owned();
        let is_zero = whole.is_empty() && fraction.is_empty();
        Digits { negative: negative && !is_zero, whole, fraction }
    }

    /// The side of the whole or shortened number on which the number itself stands.
    fn side(&self, is_exact: bool) -> Side {
        match (is_exact, self.negative) {
            (true, _) => Side::At,
            (false, true) => Side::Before,
            (false, false) => Side::After,
        }
    }
}

/// Doubles below this are exact integers, and so are the integers that are compared with them.
const EXACT_DOUBLE: f64 = 9_007_199_254_740_992.0;
/// Digits of an integer text that is compared as an integer.
const INTEGER_DIGITS: usize = 18;

/// The whole or shortened number of a constant, for columns of integers, and the side of it on which the constant is.
fn whole_number(column: &Column, constant: &Bound) -> Result<(i128, Side)> {
    let digits = match &constant.value {
        Value::Int(value) => return Ok(((*value).into(), Side::At)),
        Value::UInt(value) => return Ok(((*value).into(), Side::At)),
        Value::Decimal(text) => Digits::of(text),
        Value::Double(value) if value.abs() < EXACT_DOUBLE => Digits::of(&format!("{value}")),
        Value::Double(_) => return Err(cannot(column, "a DOUBLE of more than 15 digits")),
        // Hexadecimal digits would be a number.
        Value::Text(_) if constant.field.collation == BINARY => return Err(cannot(column, "a binary string")),
        Value::Text(text) => match integer_text(text) {
            Some(text) => Digits::of(text),
            None => return Err(cannot(column, "a string that is no plain integer")),
        },
        Value::Null => return Err(cannot(column, "NULL")),
        Value::DateTime(..) | Value::Time(_) => return Err(cannot(column, "dates and times")),
    };
    let whole = match digits.whole.as_str() {
        "" => 0,
        // A DECIMAL of more digits is as far beyond every integer column.
        whole => whole.parse().unwrap_or(i128::MAX),
    };
    Ok((if digits.negative { -whole } else { whole }, digits.side(digits.fraction.is_empty())))
}

/// Text that is an integer as it would be printed.
fn integer_text(text: &[u8]) -> Option<&str> {
    let digits = text.strip_prefix(b"-").unwrap_or(text);
    let is_plain = !digits.is_empty()
        && digits.len() <= INTEGER_DIGITS
        && digits.iter().all(u8::is_ascii_digit)
        && (digits.len() == 1 || digits.first() != Some(&b'0'));
    if is_plain && text != b"-0" { std::str::from_utf8(text).ok() } else { None }
}

fn integer(measure: &Measure, column: &Column, constant: &Bound) -> Result<Cut> {
    let (whole, side) = whole_number(column, constant)?;
    match constant::integer(&column.ty, whole) {
        Ok(stored) => Cut::near(measure, stored, side),
        Err(_) => Ok(if whole < 0 { Cut::Least } else { Cut::Most }),
    }
}

/// Numbers that are no year of a YEAR are compared in other ways.
fn year(measure: &Measure, column: &Column, constant: &Bound) -> Result<Cut> {
    match constant.value {
        Value::Int(value @ 1901..=2155) => {
            let stored = constant::integer(&column.ty, value.into()).map_err(|error| SqlError::unreadable(&error))?;
            Cut::near(measure, stored, Side::At)
        }
        _ => Err(cannot(column, "anything but the years 1901 to 2155")),
    }
}

fn bit(measure: &Measure, column: &Column, constant: &Bound) -> Result<Cut> {
    let value = match constant.value {
        // With an index over the column MySQL finds the bits of -1, without one none.
        Value::Int(value) if value < 0 => return Err(cannot(column, "a negative number")),
        Value::Int(value) => value.unsigned_abs(),
        Value::UInt(value) => value,
        _ => return Err(cannot(column, "anything but integers")),
    };
    constant::bits(&column.ty, value).map_or(Ok(Cut::Most), |stored| Cut::near(measure, stored, Side::At))
}

fn decimal(measure: &Measure, column: &Column, constant: &Bound) -> Result<Cut> {
    let digits = match &constant.value {
        Value::Int(value) => Digits::of(&value.to_string()),
        Value::UInt(value) => Digits::of(&value.to_string()),
        Value::Decimal(text) => Digits::of(text),
        _ => return Err(cannot(column, "anything but integers and decimal numbers")),
    };
    if digits.negative && column.ty.unsigned {
        return Ok(Cut::Least);
    }
    let (precision, scale) = column.ty.precision_and_scale();
    if digits.whole.len() > usize::from(precision - scale) {
        return Ok(if digits.negative { Cut::Least } else { Cut::Most });
    }
    let kept = digits.fraction.get(..usize::from(scale)).unwrap_or(&digits.fraction);
    let sign = if digits.negative { "-" } else { "" };
    let text = format!("{sign}{}.{kept}", if digits.whole.is_empty() { "0" } else { &digits.whole });
    let text = text.trim_end_matches('.');
    let stored = constant::decimal(&column.ty, text.as_bytes()).map_err(|error| SqlError::unreadable(&error))?;
    Cut::near(measure, stored, digits.side(kept.len() == digits.fraction.len()))
}

fn real(measure: &Measure, column: &Column, constant: &Bound) -> Result<Cut> {
    if column.display.decimals.is_some() {
        return Err(SqlError::not_supported("comparisons of FLOAT(M,D) and DOUBLE(M,D)"));
    }
    #[allow(clippy::cast_precision_loss, reason = "as the server converts an integer that it compares with a double")]
    let value = match &constant.value {
        Value::Int(value) => *value as f64,
        Value::UInt(value) => *value as f64,
        Value::Double(value) => *value,
        Value::Decimal(text) => text.parse().map_err(|_| cannot(column, "this number"))?,
        _ => return Err(cannot(column, "anything but numbers")),
    };
    if column.ty.code == t::DOUBLE {
        return Cut::near(measure, value.to_le_bytes().to_vec(), Side::At);
    }
    if value.abs() > f64::from(f32::MAX) {
        return Ok(if value < 0.0 { Cut::Least } else { Cut::Most });
    }
    #[allow(clippy::cast_possible_truncation, reason = "the nearest FLOAT; the side tells on which side of it")]
    let near = value as f32;
    let side = match f64::from(near).partial_cmp(&value) {
        Some(Ordering::Less) => Side::After,
        Some(Ordering::Greater) => Side::Before,
        _ => Side::At,
    };
    Cut::near(measure, near.to_le_bytes().to_vec(), side)
}

/// An ENUM's members by the sort keys of their names.
#[derive(Debug)]
struct Names {
    /// Of the names as texts.
    ty: ColumnType,
    measure: Measure,
    places: HashMap<Vec<u8>, Vec<u16>>,
}

impl Names {
    /// # Errors
    /// 1235 for a collation whose order is not known here.
    fn of(column: &Column) -> Result<Names> {
        let ty = ColumnType { code: t::BLOB, meta: 4, ..column.ty.clone() };
        let mut names = Names { measure: Measure::of_type(&ty)?, ty, places: HashMap::new() };
        // The error value 0 is shown as ''.
        for (place, name) in (0_u16..).zip(std::iter::once(&[][..]).chain(column.ty.members.iter().map(AsRef::as_ref)))
        {
            let key = names.key(name)?;
            names.places.entry(key).or_default().push(place);
        }
        Ok(names)
    }

    fn key(&self, name: &[u8]) -> Result<Vec<u8>> {
        let stored = constant::content(&self.ty, name).unwrap_or_default();
        let mut key = Vec::new();
        self.measure.append(&stored, &mut key).map_err(|error| SqlError::unreadable(&error))?;
        Ok(key)
    }
}

/// Numbers of the members that are equal to a text, or the number itself.
fn members(scale: &mut Scale, column: &Column, constant: &Bound, used: Use) -> Result<Vec<Cut>> {
    let Scale { measure, names } = scale;
    let number = |value: i128| match constant::integer(&column.ty, value) {
        Ok(stored) => Cut::near(measure, stored, Side::At),
        Err(_) => Ok(if value < 0 { Cut::Least } else { Cut::Most }),
    };
    let text = match &constant.value {
        Value::Int(value) => return Ok(vec![number((*value).into())?]),
        Value::UInt(value) => return Ok(vec![number((*value).into())?]),
        Value::Text(_) if used == Use::Order => return Err(SqlError::not_supported("an ENUM's order by its names")),
        Value::Text(text) => in_charset(column, constant, text)?,
        _ => return Err(cannot(column, "anything but strings and integers")),
    };
    let names = match names {
        Some(names) => names,
        None => names.insert(Names::of(column)?),
    };
    let found = names.places.get(&names.key(&text)?).map_or(&[][..], Vec::as_slice);
    if found.len() > 1 {
        // With an index over the column MySQL finds the member alone, without one the error value too.
        return Err(cannot(column, "'', which is one of its members"));
    }
    found.iter().map(|place| number((*place).into())).collect()
}

/// Text in the column's character set.
///
/// # Errors
/// 1235 for bytes that are no text, and for characters that the set lacks.
pub(super) fn in_charset(column: &Column, constant: &Bound, text: &[u8]) -> Result<Vec<u8>> {
    let ty = &column.ty;
    if ty.collation == BINARY {
        let from = constant.field.collation;
        let lacking = |_| {
            let charset = charset_of(from);
            SqlError::not_supported(&format!("comparing bytes with text of {charset} that it lacks characters of"))
        };
        let bytes = if from == BINARY { Ok(text.into()) } else { values::charset::from_utf8mb4(from, text) };
        return bytes.map(|bytes| bytes.into_owned()).map_err(lacking);
    }
    if constant.field.collation == BINARY {
        return Err(cannot(column, "a binary string"));
    }
    let converted = values::charset::from_utf8mb4(ty.collation, text);
    converted.map(|text| text.into_owned()).map_err(|_| {
        let charset = charset_of(ty.collation);
        SqlError::not_supported(&format!("comparing text of {charset} with characters that it lacks"))
    })
}

fn text(measure: &Measure, column: &Column, constant: &Bound) -> Result<Cut> {
    let Value::Text(text) = &constant.value else { return Err(cannot(column, "anything but strings")) };
    let ty = &column.ty;
    let text = in_charset(column, constant, text)?;
    if ty.code == t::CHAR && ty.collation == BINARY {
        return fixed_bytes(measure, column, &text);
    }
    // Of any length, and with its spaces, which a CHAR does not keep.
    let any = ColumnType { code: t::BLOB, meta: 4, ..ty.clone() };
    let mut key = Vec::new();
    let whole = constant::content(&any, &text).ok_or_else(|| cannot(column, "a string of this length"))?;
    Measure::of_type(&any)?.append(&whole, &mut key).map_err(|error| SqlError::unreadable(&error))?;
    let kept = if ty.code == t::CHAR { constant::without_padding(ty.collation, &text) } else { &text };
    let stored = constant::content(ty, kept).filter(|stored| {
        let mut own = Vec::new();
        measure.append(stored, &mut own).is_ok() && own == key
    });
    Ok(Cut::Near { key, stored, side: Side::At })
}

/// BINARY(n) holds n bytes, filled up with zeros; the constant is compared as it is.
fn fixed_bytes(measure: &Measure, column: &Column, bytes: &[u8]) -> Result<Cut> {
    let len = usize::from(column.ty.meta);
    let side = match bytes.len().cmp(&len) {
        Ordering::Less => Side::Before,
        Ordering::Equal => Side::At,
        Ordering::Greater => Side::After,
    };
    let kept = constant::without_padding(BINARY, bytes.get(..len).unwrap_or(bytes));
    let stored = constant::content(&column.ty, kept).ok_or_else(|| cannot(column, "a string of this length"))?;
    Cut::near(measure, stored, side)
}
