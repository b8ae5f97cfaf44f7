//! Conditions of WHERE over a table's columns.
//!
//! In: a parsed condition. Out: filters that all must hold, each over one column; or the knowledge that none can. Never
//! here: OR, a function of a column, two columns compared; they are refused by name.

use std::cmp::Ordering;
use std::collections::HashMap;
use std::collections::hash_map::Entry;

use catalog::sql_mode::PIPES_AS_CONCAT;
use values::collation::BINARY;
use values::{ValueError, type_code as t};

use super::cut::{Cut, Measure, Scale, Use, cannot, cuts};
use super::like::Pattern;
use super::parameter::Parameters;
use super::plan::Scope;
use crate::Result;
use crate::ast::{Comparison, Expression};
use crate::bind::{Bound, Field, Value, integer};
use crate::charsets::charset_of;
use crate::error::SqlError;
use crate::functions;
use crate::literals::binary_text;

/// Lists of conditions between OR, at most: each row is compared with all of them.
const ALTERNATIVES_MAX: usize = 256;

/// A condition over one column. NULL fulfils none but IS NULL and `<=> NULL`.
#[derive(Debug, Clone)]
pub struct Filter {
    pub(crate) column: usize,
    measure: Option<Measure>,
    pub(crate) test: Test,
}

#[derive(Debug, Clone)]
pub(crate) enum Test {
    /// Equal to one of these.
    Among(Vec<Cut>),
    /// Equal to none of these.
    NotAmong(Vec<Cut>),
    Within(Limits),
    /// Below the one or above the other.
    Outside(Option<Cut>, Option<Cut>),
    /// NULL.
    Null,
    /// Not NULL.
    NotNull,
    /// LIKE, or NOT LIKE.
    Like(Pattern, bool),
}

/// Bounds, each with whether it is within.
#[derive(Debug, Clone, Default)]
pub(crate) struct Limits {
    pub(crate) low: Option<(Cut, bool)>,
    pub(crate) high: Option<(Cut, bool)>,
}

/// Sort keys of the values of a row, one at a time: filters over one column stand together and weigh its value once.
#[derive(Debug, Default)]
pub struct Weighed {
    /// The column whose key is held.
    column: Option<usize>,
    key: Vec<u8>,
}

impl Weighed {
    /// Bytes that it keeps.
    #[must_use]
    pub fn memory(&self) -> usize {
        self.key.capacity()
    }

    /// Forgets the key: another row is looked at.
    pub fn next_row(&mut self) {
        self.column = None;
    }
}

impl Filter {
    /// The column, by its place in the table.
    #[must_use]
    pub fn column(&self) -> usize {
        self.column
    }

    /// Bytes of the column's stored value that it weighs or searches, each as often as it does that.
    #[must_use]
    pub fn work(&self, stored: Option<&[u8]>, weighed: &Weighed) -> u64 {
        let times = match &self.test {
            Test::Null | Test::NotNull => 0,
            Test::Like(pattern, _) => pattern.passes(),
            _ => u64::from(weighed.column != Some(self.column)),
        };
        stored.map_or(0, |stored| stored.len() as u64 * times)
    }

    /// True if it leaves single values only.
    pub(crate) fn holds_to_values(&self) -> bool {
        matches!(self.test, Test::Among(_) | Test::Null)
    }

    /// Whether the stored bytes of the column fulfil it; None is NULL. `weighed` is of their row.
    ///
    /// # Errors
    /// They are no value of the column.
    pub fn holds(&self, stored: Option<&[u8]>, weighed: &mut Weighed) -> std::result::Result<bool, ValueError> {
        let Some(stored) = stored else { return Ok(matches!(self.test, Test::Null)) };
        if let Test::Like(pattern, negated) = &self.test {
            return Ok(pattern.matches(stored)? != *negated);
        }
        let Some(measure) = &self.measure else { return Ok(matches!(self.test, Test::NotNull)) };
        if weighed.column != Some(self.column) {
            weighed.column = None;
            weighed.key.clear();
            measure.append(stored, &mut weighed.key)?;
            weighed.column = Some(self.column);
        }
        let key = &weighed.key;
        let is = |cut: &Cut, wanted: &[Ordering]| wanted.contains(&cut.compare(key));
        Ok(match &self.test {
            Test::Among(cuts) => is_among(cuts, key),
            Test::NotAmong(cuts) => !is_among(cuts, key),
            Test::Within(Limits { low, high }) => {
                let above = |(cut, including): &(Cut, bool)| match cut.compare(key) {
                    Ordering::Equal => *including,
                    other => other == Ordering::Greater,
                };
                let below = |(cut, including): &(Cut, bool)| match cut.compare(key) {
                    Ordering::Equal => *including,
                    other => other == Ordering::Less,
                };
                low.as_ref().is_none_or(above) && high.as_ref().is_none_or(below)
            }
            Test::Outside(low, high) => {
                low.as_ref().is_some_and(|cut| is(cut, &[Ordering::Less]))
                    || high.as_ref().is_some_and(|cut| is(cut, &[Ordering::Greater]))
            }
            Test::NotNull => true,
            Test::Null | Test::Like(..) => false,
        })
    }
}

/// Whether a value is equal to one of these, which are in order.
fn is_among(cuts: &[Cut], key: &[u8]) -> bool {
    cuts.binary_search_by(|cut| cut.compare(key).reverse()).is_ok()
}

/// The conditions of one WHERE.
#[derive(Debug, Default)]
pub(crate) struct Conditions {
    pub(crate) filters: Vec<Filter>,
    /// No row can fulfil them.
    pub(crate) never: bool,
    pub(crate) parameters: Parameters,
    /// Comparisons of dates with strings: the column, and whether by `<=>`.
    dates: Vec<(usize, bool)>,
    /// Constants beside ENUMs: the column, and whether a string.
    members: Vec<(usize, bool)>,
    /// Of each column that stands beside a constant: one statement may have 100,000 of them.
    scales: HashMap<usize, Scale>,
}

/// An operand of a condition.
enum Operand {
    Column(usize),
    /// None: a parameter of a statement that is being prepared.
    Constant(Option<Bound>),
}

/// Binds WHERE.
///
/// # Errors
/// With MySQL's number, or 1235.
pub(crate) fn bind(scope: &Scope<'_>, condition: &Expression) -> Result<Conditions> {
    bind_all(scope, &[condition])
}

/// As [`bind`], of a table that is kept nowhere: lists of conditions, of which one must be fulfilled.
///
/// # Errors
/// As [`bind`], of each list.
pub(crate) fn bind_any(scope: &Scope<'_>, condition: &Expression) -> Result<Vec<Conditions>> {
    alternatives(scope, condition)?.iter().map(|all| bind_all(scope, all)).collect()
}

/// The lists of conditions that OR separates.
fn alternatives<'e>(scope: &Scope<'_>, condition: &'e Expression) -> Result<Vec<Vec<&'e Expression>>> {
    let is_or =
        |sign: &str| sign == "OR" || sign == "||" && scope.bind.settings.typed().sql_mode & PIPES_AS_CONCAT == 0;
    let found = match condition {
        Expression::Chain { first, rest } if rest.iter().all(|(sign, _)| is_or(sign)) => {
            let all = std::iter::once(&**first).chain(rest.iter().map(|(_, one)| one));
            all.map(|one| alternatives(scope, one)).collect::<Result<Vec<_>>>()?.concat()
        }
        Expression::And(list) => {
            let mut found = vec![Vec::new()];
            for one in list {
                let of_one = alternatives(scope, one)?;
                if found.len() * of_one.len() > ALTERNATIVES_MAX {
                    return Err(SqlError::not_supported("WHERE with more than 256 alternatives"));
                }
                let both =
                    |before: &Vec<&'e Expression>| of_one.iter().map(|one| [&before[..], one].concat()).collect();
                found = found.iter().flat_map(|before| -> Vec<_> { both(before) }).collect();
            }
            found
        }
        other => vec![vec![other]],
    };
    match found.len() {
        0..=ALTERNATIVES_MAX => Ok(found),
        _ => Err(SqlError::not_supported("WHERE with more than 256 alternatives")),
    }
}

/// Conditions that must all be fulfilled.
fn bind_all(scope: &Scope<'_>, all: &[&Expression]) -> Result<Conditions> {
    let mut conditions = Conditions::default();
    all.iter().try_for_each(|condition| conditions.add(scope, condition))?;
    conditions.check_dates()?;
    conditions.check_members()?;
    conditions.scales = HashMap::new();
    // Those over one column together; what may be long, last.
    let filters = &mut conditions.filters;
    if filters.len() > 1 {
        let is_long = |column: usize| scope.column(column).is_ok_and(|column| column.ty.code == t::BLOB);
        filters.sort_by_key(|filter| (is_long(filter.column), filter.column));
    }
    Ok(conditions)
}

impl Conditions {
    fn add(&mut self, scope: &Scope<'_>, condition: &Expression) -> Result<()> {
        match condition {
            Expression::And(list) => list.iter().try_for_each(|one| self.add(scope, one)),
            Expression::Compare { operator, sides } => self.compare(scope, *operator, &sides.0, &sides.1),
            Expression::In { value, list, negated } => self.among(scope, value, list, *negated),
            Expression::Between { value, bounds, negated } => self.between(scope, value, bounds, *negated),
            Expression::IsNull { value, negated } => self.is_null(scope, value, *negated),
            Expression::Like { sides, negated } => self.like(scope, &sides[0], &sides[1], *negated),
            Expression::Bool(value) => {
                self.never |= !value;
                Ok(())
            }
            Expression::Number(_) => match scope.bind.expression(condition)?.value {
                Value::Int(value) => {
                    self.never |= value == 0;
                    Ok(())
                }
                _ => Err(SqlError::not_supported("WHERE of a number")),
            },
            // A number alone is true unless it is 0.
            Expression::Name(parts) if scope.is_listing() => {
                let column = scope.resolve(parts, "where clause")?;
                if !scope.column(column)?.ty.is_integer() {
                    return Err(SqlError::not_supported("WHERE with a column that is no integer"));
                }
                self.compare_column(scope, Comparison::NotEqual, column, &integer(0, 1))
            }
            other => Err(SqlError::not_supported(&format!("WHERE with {}", other.construct()))),
        }
    }

    /// A filter over a column, unless its constant is not known yet.
    fn push(&mut self, scope: &Scope<'_>, column: usize, test: Test) -> Result<()> {
        // No bound of a key can be NULL there.
        self.never |= matches!(test, Test::Null) && !scope.column(column)?.nullable;
        let mut test = test;
        if let Test::Among(cuts) | Test::NotAmong(cuts) = &mut test {
            cuts.sort_by(Cut::order);
        }
        let measure = match test {
            Test::Null | Test::NotNull | Test::Like(..) => None,
            _ => Some(self.scale(scope, column)?.measure.clone()),
        };
        self.filters.push(Filter { column, measure, test });
        Ok(())
    }

    fn scale(&mut self, scope: &Scope<'_>, column: usize) -> Result<&mut Scale> {
        match self.scales.entry(column) {
            Entry::Occupied(made) => Ok(made.into_mut()),
            Entry::Vacant(place) => Ok(place.insert(Scale::of(scope.column(column)?)?)),
        }
    }

    /// The places of a constant other than NULL among the column's values.
    fn cuts(&mut self, scope: &Scope<'_>, column: usize, constant: &Bound, used: Use) -> Result<Vec<Cut>> {
        cuts(scope.bind, scope.column(column)?, constant, used, self.scale(scope, column)?)
    }

    fn operand(&mut self, scope: &Scope<'_>, expression: &Expression, beside: Option<usize>) -> Result<Operand> {
        match expression {
            Expression::Name(parts) => scope.resolve(parts, "where clause").map(Operand::Column),
            Expression::Parameter(number) if scope.bind.parameters.is_none() => {
                if let Some(column) = beside {
                    self.parameters.note(*number, scope.column(column)?);
                }
                Ok(Operand::Constant(None))
            }
            other if reads_clock(other) => Err(SqlError::not_supported("WHERE with the current time")),
            other if waits(other) => Err(SqlError::not_supported("WHERE with a function that waits")),
            // Its collation is as strong as a column's, which may be an error.
            other if reads_user_variable(other) => Err(SqlError::not_supported("WHERE with a user variable")),
            other if is_constant(other) => scope.bind.expression(other).map(|bound| Operand::Constant(Some(bound))),
            other => Err(SqlError::not_supported(&format!("WHERE with {}", other.construct()))),
        }
    }

    fn column_operand(&mut self, scope: &Scope<'_>, expression: &Expression, what: &str) -> Result<usize> {
        match self.operand(scope, expression, None)? {
            Operand::Column(column) => Ok(column),
            Operand::Constant(_) => Err(SqlError::not_supported(&format!("{what} of a constant"))),
        }
    }

    /// A constant beside a column.
    fn constant(&mut self, scope: &Scope<'_>, expression: &Expression, column: usize) -> Result<Option<Bound>> {
        let def = scope.column(column)?;
        compares(def)?;
        let is_bytes = def.ty.collation == BINARY && matches!(def.ty.code, t::CHAR | t::VARCHAR | t::BLOB);
        match scope.bind.no_text(expression) {
            Some(bytes) if is_bytes => return Ok(Some(binary_text(bytes))),
            Some(bytes) => return no_text(scope, def, bytes).map(Some),
            None => {}
        }
        match self.operand(scope, expression, Some(column))? {
            Operand::Constant(constant) => Ok(constant),
            Operand::Column(_) => Err(SqlError::not_supported("two columns compared")),
        }
    }

    fn compare(
        &mut self,
        scope: &Scope<'_>,
        operator: Comparison,
        left: &Expression,
        right: &Expression,
    ) -> Result<()> {
        if let (true, true) = (is_constant(left), is_constant(right)) {
            return self.constants(scope, operator, left, right);
        }
        // The column first, since it types a parameter beside it.
        let (operator, column, constant) = match (left, right) {
            (Expression::Name(_), _) => (operator, left, right),
            _ => (operator.exchanged(), right, left),
        };
        let column = self.column_operand(scope, column, "a comparison")?;
        match self.constant(scope, constant, column)? {
            Some(constant) => self.compare_column(scope, operator, column, &constant),
            None => Ok(()),
        }
    }

    /// `1 = 1` and the like.
    fn constants(
        &mut self,
        scope: &Scope<'_>,
        operator: Comparison,
        left: &Expression,
        right: &Expression,
    ) -> Result<()> {
        let (left, right) = (scope.bind.expression(left)?.value, scope.bind.expression(right)?.value);
        let (Value::Int(left), Value::Int(right)) = (left, right) else {
            return Err(SqlError::not_supported("two constants compared"));
        };
        let holds = match operator {
            Comparison::Equal | Comparison::NullSafeEqual => left == right,
            Comparison::NotEqual => left != right,
            Comparison::Less => left < right,
            Comparison::LessOrEqual => left <= right,
            Comparison::Greater => left > right,
            Comparison::GreaterOrEqual => left >= right,
        };
        self.never |= !holds;
        Ok(())
    }

    fn compare_column(
        &mut self,
        scope: &Scope<'_>,
        operator: Comparison,
        column: usize,
        constant: &Bound,
    ) -> Result<()> {
        if constant.value == Value::Null {
            if operator == Comparison::NullSafeEqual {
                return self.push(scope, column, Test::Null);
            }
            self.never = true;
            return Ok(());
        }
        let is_date = matches!(scope.column(column)?.ty.code, t::DATE | t::DATETIME2 | t::TIMESTAMP2);
        if is_date && matches!(constant.value, Value::Text(_)) {
            self.dates.push((column, operator == Comparison::NullSafeEqual));
        }
        self.note_member(scope, column, constant)?;
        let used = match operator {
            Comparison::Equal | Comparison::NullSafeEqual | Comparison::NotEqual => Use::Equality,
            _ => Use::Order,
        };
        let found = self.cuts(scope, column, constant, used)?;
        let first = || found.first().cloned().ok_or_else(|| SqlError::not_supported("an order without a place"));
        let low = |including| Ok(Limits { low: Some((first()?, including)), high: None });
        let high = |including| Ok(Limits { low: None, high: Some((first()?, including)) });
        let limits: Result<Limits> = match operator {
            Comparison::Equal | Comparison::NullSafeEqual => {
                return self.push(scope, column, Test::Among(found));
            }
            Comparison::NotEqual => return self.push(scope, column, Test::NotAmong(found)),
            Comparison::Less => high(false),
            Comparison::LessOrEqual => high(true),
            Comparison::Greater => low(false),
            Comparison::GreaterOrEqual => low(true),
        };
        self.push(scope, column, Test::Within(limits?))
    }

    /// Where a date is compared with a string by `<=>`, MySQL puts that string in its place in its other comparisons,
    /// and compares strings as such: `d <=> '2024-02-29' AND d < '2024-02-29 00:00:00'` gives rows (seen on 9.7; IN,
    /// BETWEEN and `=` are not changed so).
    fn check_dates(&self) -> Result<()> {
        let beside = |column: usize| self.dates.iter().filter(|(other, _)| *other == column).count() > 1;
        if self.dates.iter().any(|(column, null_safe)| *null_safe && beside(*column)) {
            return Err(SqlError::not_supported(
                "<=> of a date and a string together with another comparison of that \
                                                column",
            ));
        }
        Ok(())
    }

    fn note_member(&mut self, scope: &Scope<'_>, column: usize, constant: &Bound) -> Result<()> {
        if scope.column(column)?.ty.code == t::ENUM {
            let member = (column, matches!(constant.value, Value::Text(_)));
            // Each once: a list may have 100,000 constants.
            if !self.members.contains(&member) {
                self.members.push(member);
            }
        }
        Ok(())
    }

    /// Where an ENUM is equal to a string, MySQL puts that string in its place in lists and ranges of numbers:
    /// `e = 'a' AND e IN (1, 2)` gives no row there, and a warning (seen on 9.7).
    fn check_members(&self) -> Result<()> {
        let is_mixed = |(column, is_text): &(usize, bool)| self.members.contains(&(*column, !is_text));
        if self.members.iter().any(is_mixed) {
            return Err(SqlError::not_supported("an ENUM compared with strings and with numbers"));
        }
        Ok(())
    }

    fn among(&mut self, scope: &Scope<'_>, value: &Expression, list: &[Expression], negated: bool) -> Result<()> {
        let column = self.column_operand(scope, value, "IN")?;
        let (mut all, mut has_null, mut class, mut complete) = (Vec::new(), false, None, true);
        for item in list {
            let Some(constant) = self.constant(scope, item, column)? else {
                complete = false;
                continue;
            };
            if constant.value == Value::Null {
                has_null = true;
                continue;
            }
            // Constants of several types are compared one by one, or not, by rules of their own.
            let own = std::mem::discriminant(&constant.value);
            if *class.get_or_insert(own) != own {
                return Err(SqlError::not_supported("IN with constants of several types"));
            }
            if matches!((scope.column(column)?.ty.code, &constant.value), (t::DATE, Value::Text(text)) if text.len() > 10)
            {
                // The server cuts them to dates, and says so in a warning.
                return Err(cannot(scope.column(column)?, "a list of strings with times"));
            }
            self.note_member(scope, column, &constant)?;
            all.extend(self.cuts(scope, column, &constant, Use::Equality)?);
        }
        match (complete, negated) {
            (false, _) => Ok(()),
            (true, true) if has_null => {
                self.never = true;
                Ok(())
            }
            (true, true) => self.push(scope, column, Test::NotAmong(all)),
            (true, false) => self.push(scope, column, Test::Among(all)),
        }
    }

    fn between(
        &mut self,
        scope: &Scope<'_>,
        value: &Expression,
        bounds: &(Expression, Expression),
        negated: bool,
    ) -> Result<()> {
        let column = self.column_operand(scope, value, "BETWEEN")?;
        let (low, high) = (self.constant(scope, &bounds.0, column)?, self.constant(scope, &bounds.1, column)?);
        let is_null = |bound: &Bound| bound.value == Value::Null;
        let cut = |conditions: &mut Conditions, bound: &Bound| -> Result<Option<Cut>> {
            if is_null(bound) {
                return Ok(None);
            }
            Ok(conditions.cuts(scope, column, bound, Use::Order)?.into_iter().next())
        };
        let (low, high) = match (low, high) {
            (Some(low), Some(high)) => (low, high),
            // Beside a parameter too a bound is converted when the statement is prepared.
            (known, other) => return known.or(other).as_ref().map_or(Ok(()), |bound| cut(self, bound).map(drop)),
        };
        let same = std::mem::discriminant(&low.value) == std::mem::discriminant(&high.value);
        if !same && !is_null(&low) && !is_null(&high) {
            return Err(SqlError::not_supported("BETWEEN with bounds of several types"));
        }
        for bound in [&low, &high].into_iter().filter(|bound| !is_null(bound)) {
            self.note_member(scope, column, bound)?;
        }
        let (low, high) = (cut(self, &low)?, cut(self, &high)?);
        if negated {
            return self.push(scope, column, Test::Outside(low, high));
        }
        let (Some(low), Some(high)) = (low, high) else {
            self.never = true;
            return Ok(());
        };
        let limits = Limits { low: Some((low, true)), high: Some((high, true)) };
        self.push(scope, column, Test::Within(limits))
    }

    fn is_null(&mut self, scope: &Scope<'_>, value: &Expression, negated: bool) -> Result<()> {
        let column = self.column_operand(scope, value, "IS NULL")?;
        let def = scope.column(column)?;
        if !negated && !def.nullable && matches!(def.ty.code, t::DATE | t::DATETIME | t::DATETIME2) {
            // For ODBC's sake the zero date is NULL there.
            return Err(SqlError::not_supported("IS NULL of a date that is NOT NULL"));
        }
        self.push(scope, column, if negated { Test::NotNull } else { Test::Null })
    }

    fn like(&mut self, scope: &Scope<'_>, value: &Expression, pattern: &Expression, negated: bool) -> Result<()> {
        let column = self.column_operand(scope, value, "LIKE")?;
        let def = scope.column(column)?;
        if let (Expression::Parameter(number), None) = (pattern, scope.bind.parameters) {
            self.parameters.note_pattern(*number, def, scope.bind);
            return compares(def);
        }
        let charset = charset_of(def.ty.collation);
        if charset == "utf8mb4"
            && charset == scope.bind.settings.charsets().client_charset()
            && scope.bind.no_text(pattern).is_some()
        {
            // Bytes that are no character are equal to none. The rows of a table that is kept nowhere are read all the
            // same.
            self.never |= !negated && !scope.is_listing();
            return self.push(scope, column, if negated { Test::NotNull } else { Test::Among(Vec::new()) });
        }
        let Some(constant) = self.constant(scope, pattern, column)? else { return Ok(()) };
        match &constant.value {
            Value::Null => self.never = true,
            Value::Text(text) => {
                let text = super::cut::in_charset(def, &constant, text)?;
                let pattern = Pattern::of(def, &text, scope.bind.settings.typed().sql_mode)?;
                self.push(scope, column, Test::Like(pattern, negated))?;
            }
            _ => return Err(cannot(def, "a pattern that is no string")),
        }
        Ok(())
    }
}

/// A constant that is invalid in the client's character set, next to a column of text. It is known of a Unicode
/// character set other than the client's, and of utf8mb3 where the table is kept nowhere.
fn no_text(scope: &Scope<'_>, column: &catalog::Column, bytes: &[u8]) -> Result<Bound> {
    let (charsets, collation) = (scope.bind.settings.charsets(), column.ty.collation);
    let charset = charset_of(collation);
    let is_converted = match charset {
        "utf8mb4" => charset != charsets.client_charset(),
        "utf8mb3" => scope.is_listing(),
        _ => false,
    };
    if !is_converted {
        return Err(cannot(column, "a string that is invalid in its character set"));
    }
    let text = charsets.text_beside(bytes, charset)?.into_owned();
    Ok(Bound { field: Field::text(0, 0, collation), value: Value::Text(text) })
}

/// Refuses columns that are compared by rules of their own, or not at all, even with NULL.
fn compares(column: &catalog::Column) -> Result<()> {
    match column.ty.code {
        t::JSON | t::GEOMETRY | t::VECTOR => Err(cannot(column, "a constant")),
        _ => Ok(()),
    }
}

/// True if no column is in it.
pub(crate) fn is_constant(expression: &Expression) -> bool {
    match expression {
        Expression::Null
        | Expression::Bool(_)
        | Expression::Number(_)
        | Expression::Text { .. }
        | Expression::Bytes { .. }
        | Expression::Parameter(_)
        | Expression::Variable { .. }
        | Expression::UserVariable(_) => true,
        Expression::Negative(inner) => is_constant(inner),
        Expression::Call { arguments, .. } => arguments.iter().all(is_constant),
        _ => false,
    }
}

/// What MySQL makes of the moment beside a column is not compared with it yet.
fn reads_clock(expression: &Expression) -> bool {
    expression.any(&|one| matches!(one, Expression::Call { name, .. } if functions::reads_clock(name)))
}

fn waits(expression: &Expression) -> bool {
    const WAITS: &[&str] =
        &["SLEEP", "WAIT_FOR_EXECUTED_GTID_SET", "SOURCE_POS_WAIT", "MASTER_POS_WAIT", "BENCHMARK", "GET_LOCK"];
    expression.any(
        &|one| matches!(one, Expression::Call { name, .. } if WAITS.iter().any(|wait| name.eq_ignore_ascii_case(wait))),
    )
}

fn reads_user_variable(expression: &Expression) -> bool {
    match expression {
        Expression::UserVariable(_) => true,
        Expression::Negative(inner) => reads_user_variable(inner),
        Expression::Call { arguments, .. } => arguments.iter().any(reads_user_variable),
        _ => false,
    }
}
