//! Values of partitioning expressions, as the server computes them.
//!
//! In: an expression, the column values of a row. Out: a whole number or NULL. Never here: a result that the server
//! would refuse or that was not compared with a server (`expressions.txt` beside this file); these are errors.

use values::{ColumnType, DateTimeValue, DateValue, TimeValue, TypedValue, UtcMoment, Zone};

use crate::default_value;
use crate::table::{TableDef, code};

use super::expression::{Expression, Function, Operator, Unit};
use super::find::position;

/// Seconds in a day.
const DAY_SECONDS: i128 = 86_400;

/// A whole number. `unsigned` is that of the expression's type, which rules out results below zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Whole {
    number: i128,
    unsigned: bool,
}

/// Value of an expression or of an argument.
#[derive(Debug, Clone, Copy)]
enum Value {
    Null,
    Whole(Whole),
    /// A number in millionths, from DECIMAL and UNIX_TIMESTAMP; only CEILING and FLOOR take it.
    Millionths(i128),
    Date(DateValue),
    DateTime(DateTimeValue),
    /// A TIMESTAMP, in UTC.
    Timestamp(DateTimeValue),
    Time(TimeValue),
}

/// An expression whose columns were found.
#[derive(Debug, Clone)]
pub(super) struct Evaluator {
    expression: Expression,
    /// Columns by name, position and type.
    columns: Vec<(String, usize, ColumnType)>,
}

impl Evaluator {
    /// Positions of the columns that the expression reads.
    pub(super) fn columns(&self) -> impl Iterator<Item = usize> {
        self.columns.iter().map(|(_, at, _)| *at)
    }

    /// Prepares an expression for rows of a table.
    pub(super) fn new(table: &TableDef, expression: Expression) -> Result<Evaluator, String> {
        let mut columns = Vec::new();
        collect(table, &expression, &mut columns)?;
        Ok(Evaluator { expression, columns })
    }

    /// Computes the expression. `stored` returns the stored bytes of a column, None for NULL.
    pub(super) fn of<'a>(&self, stored: &dyn Fn(usize) -> Option<&'a [u8]>) -> Result<Option<i128>, String> {
        let column = |name: &str| -> Result<Value, String> {
            let Some((_, at, ty)) = self.columns.iter().find(|(column, ..)| column == name) else {
                return Err(format!("the partitioning column `{name}`"));
            };
            stored(*at).map_or(Ok(Value::Null), |bytes| of_column(ty, bytes))
        };
        number(&self.expression, &Scope { column: &column, zone: None })
    }
}

/// Computes a constant, such as a partition's bound, in the session's time zone.
pub(super) fn constant(expression: &Expression, zone: Option<&Zone>) -> Result<Option<i128>, String> {
    let column = |name: &str| Err(format!("the column `{name}` in a constant"));
    number(expression, &Scope { column: &column, zone })
}

fn collect(
    table: &TableDef,
    expression: &Expression,
    columns: &mut Vec<(String, usize, ColumnType)>,
) -> Result<(), String> {
    match expression {
        Expression::Column(name) => {
            let (at, ty) = position(table, name)?;
            columns.push((name.clone(), at, ty));
            Ok(())
        }
        Expression::Number(_) | Expression::Text(_) => Ok(()),
        Expression::Negated(of) | Expression::Extract(_, of) => collect(table, of, columns),
        Expression::Operation(first, rest) => {
            collect(table, first, columns)?;
            rest.iter().try_for_each(|(_, operand)| collect(table, operand, columns))
        }
        Expression::Call(_, arguments) => arguments.iter().try_for_each(|argument| collect(table, argument, columns)),
    }
}

fn of_column(ty: &ColumnType, stored: &[u8]) -> Result<Value, String> {
    let whole = |number: i128, unsigned| Value::Whole(Whole { number, unsigned });
    Ok(match TypedValue::of(ty, stored).map_err(|error| error.to_string())? {
        TypedValue::Null => Value::Null,
        TypedValue::Int(number) => whole(number.into(), false),
        TypedValue::Unsigned(number) => whole(number.into(), true),
        TypedValue::Year(year) => whole(year.into(), true),
        TypedValue::Date(date) => Value::Date(date),
        TypedValue::DateTime(at) if ty.code == code::TIMESTAMP2 => Value::Timestamp(at),
        TypedValue::DateTime(at) => Value::DateTime(at),
        TypedValue::Time(time) => Value::Time(time),
        TypedValue::Decimal(value) if value.precision_and_scale().1 <= 6 => {
            let scale = value.precision_and_scale().1;
            let unscaled = value.unscaled(&mut Vec::new()).map_err(|error| error.to_string())?;
            let millionths = unscaled.and_then(|number| number.checked_mul(10i128.pow(u32::from(6 - scale))));
            Value::Millionths(millionths.ok_or("a DECIMAL of that many digits")?)
        }
        _ => return Err(format!("the partitions of rows placed by a column of type {}", ty.name())),
    })
}

struct Scope<'a> {
    column: &'a dyn Fn(&str) -> Result<Value, String>,
    /// The session's, where its rules are known.
    zone: Option<&'a Zone>,
}

/// Computes an expression that is a whole number.
fn number(expression: &Expression, scope: &Scope<'_>) -> Result<Option<i128>, String> {
    Ok(whole(expression, scope)?.map(|whole| whole.number))
}

fn whole(expression: &Expression, scope: &Scope<'_>) -> Result<Option<Whole>, String> {
    match value(expression, scope)? {
        Value::Null => Ok(None),
        Value::Whole(whole) => Ok(Some(whole)),
        _ => Err(format!("the number of {expression}")),
    }
}

fn value(expression: &Expression, scope: &Scope<'_>) -> Result<Value, String> {
    match expression {
        Expression::Column(name) => (scope.column)(name),
        Expression::Number(number) => {
            Ok(Value::Whole(Whole { number: i128::from(*number), unsigned: i64::try_from(*number).is_err() }))
        }
        Expression::Text(text) => of_text(text),
        Expression::Negated(of) => {
            let Some(of) = whole(of, scope)? else { return Ok(Value::Null) };
            Ok(Value::Whole(in_range(Some(-of.number), false, expression)?))
        }
        Expression::Operation(first, rest) => {
            let mut left = whole(first, scope)?;
            for (operator, operand) in rest {
                left = match (left, whole(operand, scope)?) {
                    (Some(left), Some(right)) => operation(*operator, left, right, expression)?,
                    _ => None,
                };
            }
            Ok(left.map_or(Value::Null, Value::Whole))
        }
        Expression::Call(function, arguments) => {
            let [first, rest @ ..] = arguments.as_slice() else { return Err(format!("the number of {expression}")) };
            let second = rest.first().map(|argument| value(argument, scope)).transpose()?;
            call(*function, value(first, scope)?, second, scope)
                .unwrap_or_else(|| Err(format!("the number of {expression}")))
        }
        Expression::Extract(unit, of) => {
            let of = value(of, scope)?;
            extract(*unit, of).ok_or_else(|| format!("the number of {expression}"))
        }
    }
}

/// One operation of `expression`; None is NULL.
fn operation(operator: Operator, left: Whole, right: Whole, expression: &Expression) -> Result<Option<Whole>, String> {
    let (a, b) = (left.number, right.number);
    let unsigned = left.unsigned || right.unsigned;
    let (number, unsigned) = match operator {
        Operator::Plus => (a.checked_add(b), unsigned),
        Operator::Minus => (a.checked_sub(b), unsigned),
        Operator::Times => (a.checked_mul(b), unsigned),
        Operator::Div | Operator::Mod if b == 0 => return Ok(None),
        Operator::Div => (Some(a / b), unsigned),
        // The sign is that of the dividend, and so is the type.
        Operator::Mod => (Some(a % b), left.unsigned),
    };
    in_range(number, unsigned, expression).map(Some)
}

/// A result of arithmetic. One beyond BIGINT, or below zero where it is unsigned, is an error at the source.
fn in_range(number: Option<i128>, unsigned: bool, expression: &Expression) -> Result<Whole, String> {
    let fits = |number: &i128| if unsigned { u64::try_from(*number).is_ok() } else { i64::try_from(*number).is_ok() };
    match number.filter(fits) {
        Some(number) => Ok(Whole { number, unsigned }),
        None => Err(format!("a number out of range, of {expression}")),
    }
}

fn signed(number: impl Into<i128>) -> Value {
    Value::Whole(Whole { number: number.into(), unsigned: false })
}

/// Computes a function. None: not of this argument.
fn call(function: Function, of: Value, second: Option<Value>, scope: &Scope<'_>) -> Option<Result<Value, String>> {
    if matches!(of, Value::Null) || matches!(second, Some(Value::Null)) {
        return Some(Ok(Value::Null));
    }
    if matches!(function, Function::Abs | Function::Ceiling | Function::Floor) {
        return Some(match (function, of) {
            (Function::Abs, Value::Whole(of)) => {
                let abs = of.number.abs();
                let fits = of.unsigned || i64::try_from(abs).is_ok();
                if fits {
                    Ok(Value::Whole(Whole { number: abs, unsigned: of.unsigned }))
                } else {
                    Err("a number out of range, of ABS".to_owned())
                }
            }
            (Function::Abs, _) => return None,
            (_, Value::Whole(of)) => Ok(Value::Whole(of)),
            (Function::Floor, Value::Millionths(of)) => Ok(signed(of.div_euclid(1_000_000))),
            (_, Value::Millionths(of)) => Ok(signed(-(-of).div_euclid(1_000_000))),
            _ => return None,
        });
    }
    if function == Function::UnixTimestamp {
        return unix_timestamp(of, scope.zone).map(Ok);
    }
    if matches!(function, Function::Hour | Function::Minute | Function::Second | Function::Microsecond) {
        let time = time_of(of)?;
        return Some(Ok(signed(match function {
            Function::Hour => time.hour,
            Function::Minute => time.minute,
            Function::Second => time.second,
            _ => time.micros,
        })));
    }
    if function == Function::TimeToSec {
        let time = time_of(of)?;
        let seconds = i128::from(time.hour * 3600 + time.minute * 60 + time.second);
        return Some(Ok(signed(if time.negative { -seconds } else { seconds })));
    }
    let of = match of {
        // 20200131 as a date.
        Value::Whole(digits) => of_text(&digits.number.to_string()).ok()?,
        other => other,
    };
    let (date, time) = date_of(of)?;
    let days = day_number(date);
    Some(Ok(match function {
        Function::Year => signed(date.year),
        Function::Month => signed(date.month),
        Function::Quarter => signed(date.month.div_ceil(3)),
        Function::Day => signed(date.day),
        Function::ToDays => days.map_or(Value::Null, signed),
        Function::ToSeconds => {
            let of_day = time.map_or(0, |at| at.hour * 3600 + at.minute * 60 + at.second);
            days.map_or(Value::Null, |days| signed(i128::from(days) * DAY_SECONDS + i128::from(of_day)))
        }
        Function::DateDiff => {
            let (other, _) = date_of(second?)?;
            match (days, day_number(other)) {
                (Some(days), Some(other)) => signed(days - other),
                _ => Value::Null,
            }
        }
        // A day that its month does not have counts in a DATETIME only (seen on 9.7).
        _ if days.is_none() || time.is_none() && !is_calendar_day(date) => Value::Null,
        // Day 2 was a Monday.
        Function::Weekday => signed((days? + 5) % 7),
        Function::DayOfWeek => signed((days? + 6) % 7 + 1),
        Function::DayOfYear => signed(days? - day_number(DateValue { month: 1, day: 1, ..date })? + 1),
        Function::YearWeek => {
            let mode = match second {
                None => 0,
                Some(Value::Whole(mode)) if mode.number >= 0 => mode.number,
                Some(_) => return None,
            };
            signed(year_week(date, mode)?)
        }
        _ => return None,
    }))
}

/// The week of a date together with the year that it belongs to, as YYYYWW. Bit 0 of the mode: weeks begin on Monday.
/// Bit 2: a year's first week has four or more of its days, or, without it, begins in it; where weeks begin on Monday
/// the meaning is reversed. None for the year 0, whose results are odd.
fn year_week(date: DateValue, mode: i128) -> Option<i64> {
    let monday_first = mode & 1 != 0;
    let four_days = (mode & 4 != 0) != monday_first;
    let first_of = |year: u32| {
        let day = day_number(DateValue { year, month: 1, day: 1 })?;
        let weekday = (day + if monday_first { 5 } else { 6 }) % 7;
        // The week that holds 1 January, or the one after it.
        let belongs = if four_days { weekday <= 3 } else { weekday == 0 };
        Some(day - weekday + if belongs { 0 } else { 7 })
    };
    if date.year == 0 {
        return None;
    }
    let day = day_number(date)?;
    let mut year = date.year;
    if day < first_of(year)? {
        year = year.checked_sub(1).filter(|year| *year > 0)?;
    } else if day >= first_of(year + 1)? {
        year += 1;
    }
    Some(i64::from(year) * 100 + (day - first_of(year)?) / 7 + 1)
}

fn unix_timestamp(of: Value, zone: Option<&Zone>) -> Option<Value> {
    let of_date = |date| DateTimeValue { date, hour: 0, minute: 0, second: 0, micros: 0 };
    let (at, zone, fraction) = match of {
        Value::Timestamp(at) => (at, &Zone::UTC, at.micros),
        Value::DateTime(at) if at.micros == 0 => (at, zone?, 0),
        Value::Date(date) => (of_date(date), zone?, 0),
        // Digits of a date, with or without a time.
        Value::Whole(Whole { number, .. }) if number > 0 => {
            let ((year, month, day), (hour, minute, second, _)) = default_value::date_time(&number.to_string())?;
            let small = |number: u64| u32::try_from(number).ok();
            let date = DateValue { year: small(year)?, month: small(month)?, day: small(day)? };
            let (hour, minute, second) = (small(hour)?, small(minute)?, small(second)?);
            (DateTimeValue { hour, minute, second, ..of_date(date) }, zone?, 0)
        }
        _ => return None,
    };
    if at.date == (DateValue { year: 0, month: 0, day: 0 }) {
        return Some(signed(0));
    }
    if !is_calendar_day(at.date) {
        return None;
    }
    let of_day = i64::from(at.hour * 3600 + at.minute * 60 + at.second);
    let seconds = (day_number(at.date)? - day_number(DateValue { year: 1970, month: 1, day: 1 })?) * 86_400 + of_day;
    let UtcMoment::At(seconds) = zone.moment(seconds) else { return None };
    // What lies outside counts as 0, or stays a number, depending on the server's version.
    if !(1..=i64::from(i32::MAX)).contains(&seconds) {
        return None;
    }
    if fraction > 0 {
        return Some(Value::Millionths(i128::from(seconds) * 1_000_000 + i128::from(fraction)));
    }
    Some(signed(seconds))
}

fn extract(unit: Unit, of: Value) -> Option<Value> {
    if matches!(of, Value::Null) {
        return Some(Value::Null);
    }
    if let Unit::Year | Unit::YearMonth | Unit::Quarter | Unit::Month | Unit::Day = unit {
        let (date, _) = date_of(of)?;
        return Some(signed(match unit {
            Unit::Year => date.year,
            Unit::YearMonth => date.year * 100 + date.month,
            Unit::Quarter => date.month.div_ceil(3),
            Unit::Month => date.month,
            _ => date.day,
        }));
    }
    let time = time_of(of)?;
    let day = match of {
        Value::DateTime(at) => Some(i128::from(at.date.day)),
        _ => None,
    };
    let [hour, minute, second, micros] = [time.hour, time.minute, time.second, time.micros].map(i128::from);
    let number = match unit {
        Unit::DayHour => day? * 100 + hour,
        Unit::DayMinute => day? * 10_000 + hour * 100 + minute,
        Unit::DaySecond => day? * 1_000_000 + hour * 10_000 + minute * 100 + second,
        Unit::DayMicrosecond => (day? * 1_000_000 + hour * 10_000 + minute * 100 + second) * 1_000_000 + micros,
        Unit::Hour => hour,
        Unit::HourMinute => hour * 100 + minute,
        Unit::HourSecond => hour * 10_000 + minute * 100 + second,
        Unit::HourMicrosecond => (hour * 10_000 + minute * 100 + second) * 1_000_000 + micros,
        Unit::Minute => minute,
        Unit::MinuteSecond => minute * 100 + second,
        Unit::MinuteMicrosecond => (minute * 100 + second) * 1_000_000 + micros,
        Unit::Second => second,
        Unit::SecondMicrosecond => second * 1_000_000 + micros,
        _ => micros,
    };
    Some(signed(if time.negative { -number } else { number }))
}

/// The time of day, or the duration; None if there is none.
fn time_of(value: Value) -> Option<TimeValue> {
    match value {
        Value::Time(time) => Some(time),
        Value::DateTime(DateTimeValue { hour, minute, second, micros, .. }) => {
            Some(TimeValue { negative: false, hour, minute, second, micros })
        }
        _ => None,
    }
}

/// The date with its time; None if there is none, and for TIMESTAMP, whose date depends on the time zone.
fn date_of(value: Value) -> Option<(DateValue, Option<DateTimeValue>)> {
    match value {
        Value::Date(date) => Some((date, None)),
        Value::DateTime(at) => Some((at.date, Some(at))),
        _ => None,
    }
}

/// A date, a time with a date, or a time of day, written in full.
fn of_text(text: &str) -> Result<Value, String> {
    let unknown = || format!("the date or time '{text}'");
    let clock: Vec<u32> = text.split(':').filter(|part| part.len() == 2).filter_map(|part| part.parse().ok()).collect();
    if let ([hour, minute @ ..=59, second @ ..=59], 8) = (clock.as_slice(), text.len()) {
        let (hour, minute, second) = (*hour, *minute, *second);
        return Ok(Value::Time(TimeValue { negative: false, hour, minute, second, micros: 0 }));
    }
    let (date, time) = default_value::date_time(text).filter(|_| text.is_ascii()).ok_or_else(unknown)?;
    let part = |number: u64| u32::try_from(number).map_err(|_| unknown());
    let date = DateValue { year: part(date.0)?, month: part(date.1)?, day: part(date.2)? };
    let (hour, minute, second, micros) = (part(time.0)?, part(time.1)?, part(time.2)?, part(time.3)?);
    if !is_calendar_day(date) {
        return Err(unknown());
    }
    Ok(Value::DateTime(DateTimeValue { date, hour, minute, second, micros }))
}

/// Days since the year 0; None if month or day is 0. A day beyond its month counts on into the next one.
fn day_number(date: DateValue) -> Option<i64> {
    if date.month == 0 || date.day == 0 {
        return None;
    }
    let (year, month) = (i64::from(date.year), i64::from(date.month));
    // Years start in March, so that the leap day is the last of its year. Year 0 is no leap year, and 0000-03-01 is
    // day 60.
    let (year, from_march) = if month > 2 { (year, month - 3) } else { (year - 1, month + 9) };
    let leap_days = if year < 0 { 0 } else { year / 4 - year / 100 + year / 400 };
    Some(365 * year + leap_days + (153 * from_march + 2) / 5 + i64::from(date.day) + 59)
}

fn is_calendar_day(DateValue { year, month, day }: DateValue) -> bool {
    let leap = year > 0 && year.is_multiple_of(4) && (!year.is_multiple_of(100) || year.is_multiple_of(400));
    let days = match month {
        4 | 6 | 9 | 11 => 30,
        2 => 28 + u32::from(leap),
        1..=12 => 31,
        _ => 0,
    };
    (1..=days).contains(&day)
}

#[cfg(test)]
mod tests {
    use super::super::find::PartitionFinder;
    use crate::Catalog;
    use crate::context::StatementContext;
    use crate::default_value::{self, LiteralScope};
    use crate::syntax::{Literal, Text};

    /// Each value with its partition of `HASH (expression) PARTITIONS 7`, as a 9.7.4 server placed it.
    #[test]
    fn rows_lie_where_the_server_put_them() {
        let context = StatementContext { default_db: "d".into(), ..StatementContext::default() };
        let scope = LiteralScope { decimals: None, time_zone: Some("+00:00"), truncate_fraction: false };
        let (mut compared, mut unknown, mut wrong) = (0, Vec::new(), Vec::new());
        for part in include_str!("expressions.txt").split("== ").skip(1) {
            let (head, rows) = part.split_once('\n').unwrap();
            let (expression, columns) = head.split_once(" | ").unwrap();
            let sql = format!("CREATE TABLE p ({columns}) PARTITION BY HASH ({expression}) PARTITIONS 7");
            let catalog = Catalog::new(0).apply(&context, sql.as_bytes()).unwrap().catalog;
            let table = catalog.table("d", "p").unwrap();
            let finder = PartitionFinder::new(table, table.partitioning.as_ref().unwrap())
                .unwrap_or_else(|error| panic!("{head}: {error}"));
            for row in rows.lines() {
                let [values, number, partition] = row.split('\t').collect::<Vec<_>>()[..] else { panic!("{row}") };
                let mut image = vec![0];
                for (at, (value, column)) in values.split(',').zip(&table.columns).enumerate() {
                    if value == "NULL" {
                        image[0] |= 1 << at;
                        continue;
                    }
                    let text = Literal::Text(Text { bytes: value.into(), charset: "utf8mb4".to_owned() });
                    let number = Literal::Number(value.to_owned());
                    let literal =
                        if column.ty.is_integer() || value.bytes().all(|b| b.is_ascii_digit()) { number } else { text };
                    image.extend(
                        default_value::image(&column.ty, &literal, scope).unwrap_or_else(|| panic!("{head}: {value}")),
                    );
                }
                compared += 1;
                match finder.find(&image, &mut Vec::new()) {
                    Ok(found) if found.to_string() == partition => {}
                    Ok(found) => wrong.push(format!("{expression} of {values}: {number} in {partition}, here {found}")),
                    Err(error) => unknown.push(format!("{expression} of {values}: {number}: {error}")),
                }
            }
        }
        assert!(wrong.is_empty(), "{} of {compared}:\n{}", wrong.len(), wrong.join("\n"));
        // Weeks of the year 0, and modes below zero.
        assert!(unknown.iter().all(|line| line.starts_with("yearweek(")), "{}", unknown.join("\n"));
        assert!(compared > 2500, "{compared}");
    }
}
