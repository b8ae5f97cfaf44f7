//! Statements that wait: what for, and where their evaluation has come to.
//!
//! The calls of an expression that wait are carried out before it, inner ones first; what they have given is kept, and
//! the expression around them is then evaluated once. Never here: a clock, a thread, a value that is computed twice.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use base::GtidSet;

use crate::Result;
use crate::ast::{Expression, Select};
use crate::bind::{self, Bind, Bound, Column, Field, Value};
use crate::error::{SqlError, Warning};
use crate::functions;
use crate::orders::ReplicaOrder;

/// What a statement waits for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Wait {
    pub event: Event,
    /// How long at most; None is no limit.
    pub timeout: Option<Duration>,
}

/// What ends a wait.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// Only the timeout: SLEEP().
    Time,
    /// All of a set is visible: WAIT_FOR_EXECUTED_GTID_SET().
    Executed(Arc<GtidSet>),
    /// As `Executed`, unless replay has stopped before it: a table is to be read.
    Readable(Arc<GtidSet>),
    /// The source was asked for its executed set: a table is to be read as fresh as that.
    Source {
        /// When, at the earliest.
        since: Instant,
        /// When the statement arrived: earlier failures do not count.
        arrived: Instant,
    },
    /// All sessions were listed: SHOW PROCESSLIST.
    Sessions,
    /// Rows of a listing over many tables were made beside the loop.
    Listing,
    /// A connection was killed: KILL.
    Kill {
        /// Its number.
        id: u64,
        /// Only its statement.
        query: bool,
    },
    /// An order to the replica was carried out.
    Replica(ReplicaOrder),
    /// The log that is served has changed after this version: a dump.
    LogChanged(u64),
    /// The source's log is visible up to a place: SOURCE_POS_WAIT().
    Position {
        /// File of the source.
        file: String,
        offset: u64,
    },
}

/// How a wait ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ended {
    /// By its event; of a position, after so many moves of it; of an order, what became of it.
    Met(u64),
    TimedOut,
    /// What it waits for cannot come, because replay does not run: of a position only.
    NotRunning,
    /// The statement was interrupted.
    Interrupted(Interrupt),
    Failed(SqlError),
}

/// What interrupts a statement.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Interrupt {
    Killed,
    /// `max_execution_time`.
    Time,
    Shutdown,
}

impl Interrupt {
    /// The error that ends an interrupted statement.
    #[must_use]
    pub fn error(self) -> SqlError {
        match self {
            Interrupt::Killed => SqlError::new(1317, "70100", "Query execution was interrupted"),
            Interrupt::Time => {
                let text = "Query execution was interrupted, maximum statement execution time exceeded";
                SqlError::new(3024, "HY000", text)
            }
            Interrupt::Shutdown => SqlError::new(1053, "08S01", "Server shutdown in progress"),
        }
    }
}

/// What a call makes of a wait that has ended.
#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Made {
    /// 0, or 1 if it timed out: WAIT_FOR_EXECUTED_GTID_SET().
    Executed,
    /// How often the position moved, or -1 if it timed out: SOURCE_POS_WAIT().
    Moves,
    /// 0, or 1 if it was interrupted: SLEEP().
    Slept,
    /// This, once an order was carried out.
    Ordered(Value),
}

impl Made {
    fn value(self, ended: Ended) -> Result<Value> {
        match (self, ended) {
            (_, Ended::Failed(error)) => Err(error.of_execution()),
            (Made::Slept, Ended::Interrupted(by)) if by != Interrupt::Shutdown => Ok(Value::Int(1)),
            (_, Ended::Interrupted(by)) => Err(by.error().of_execution()),
            (Made::Ordered(value), _) => Ok(value),
            (Made::Slept, _) | (Made::Executed, Ended::Met(_)) => Ok(Value::Int(0)),
            (Made::Executed, Ended::TimedOut) => Ok(Value::Int(1)),
            (Made::Moves, Ended::Met(moves)) => Ok(Value::Int(i64::try_from(moves).unwrap_or(i64::MAX))),
            (Made::Moves, Ended::TimedOut) => Ok(Value::Int(-1)),
            (_, Ended::NotRunning) => Ok(Value::Null),
        }
    }
}

/// What a call of a function that waits begins with.
pub(crate) enum Called {
    /// It has no need to wait.
    Value(Bound),
    Waits(Wait, Field, Made),
}

/// Where the evaluation of a statement's expressions has come to.
#[derive(Debug, Default)]
pub struct Evaluation {
    /// Columns of the select list that are done.
    columns: Vec<Column>,
    /// Calls of the next expression that have waited.
    calls: usize,
    /// What they have given, but for those in arguments of others.
    given: VecDeque<Bound>,
    /// The call that waits now.
    waits: Option<(Field, Made)>,
    ended: Option<Ended>,
    interrupted: Option<Interrupt>,
    /// Whether LIMIT leaves the row in.
    has_row: Option<bool>,
}

/// How far a step has come.
#[derive(Debug)]
pub enum Evaluated<T> {
    Done(T),
    /// [`Evaluation::ended`], then step again.
    Waits(Wait),
}

impl Evaluation {
    /// Bytes of the columns that are done.
    #[must_use]
    pub fn bytes(&self) -> usize {
        let text = |value: &Value| value.text().map_or(0, |text| text.len());
        let columns = self.columns.iter().map(|column| size_of_val(column) + column.name.len() + text(&column.value));
        columns.chain(self.given.iter().map(|bound| size_of_val(bound) + text(&bound.value))).sum()
    }

    /// Whether a call waits.
    #[must_use]
    pub fn is_waiting(&self) -> bool {
        self.waits.is_some()
    }

    /// Notes how that wait ended.
    pub fn ended(&mut self, how: Ended) {
        if let Ended::Interrupted(by) = &how {
            self.interrupted = Some(*by);
        }
        self.ended = Some(how);
    }

    /// The columns of a SELECT without a table, and whether LIMIT leaves its row in.
    ///
    /// # Errors
    /// With MySQL's number, or 1235; one of binding comes before the first wait.
    pub fn select(&mut self, bind: &Bind<'_>, select: &Select) -> Result<Evaluated<(Vec<Column>, bool)>> {
        let has_row = match self.has_row {
            Some(has_row) => has_row,
            None => {
                let has_row = bind::checked_row(bind, select)?;
                if has_row && select.items.iter().any(|item| functions::waits_in(&item.expression)) {
                    bind.waits.describe(true);
                    let warned = bind.waits.warned();
                    select.items.iter().try_for_each(|item| bind::column(bind, item).map(drop))?;
                    bind.waits.forget_after(warned);
                    bind.waits.describe(false);
                }
                *self.has_row.insert(has_row)
            }
        };
        // A statement without a row evaluates nothing.
        bind.waits.describe(!has_row);
        for item in select.items.iter().skip(self.columns.len()) {
            if let Some(wait) = self.wait_in(bind, &[&item.expression])? {
                return Ok(Evaluated::Waits(wait));
            }
            bind.waits.give(std::mem::take(&mut self.given));
            self.calls = 0;
            self.columns.push(bind::column(bind, item)?);
        }
        Ok(Evaluated::Done((std::mem::take(&mut self.columns), has_row)))
    }

    /// What calls in these expressions wait for next. Once there is nothing, [`lend`](Self::lend) it to each of them.
    ///
    /// # Errors
    /// Those of arguments, and of waits.
    pub fn wait_in(&mut self, bind: &Bind<'_>, expressions: &[&Expression]) -> Result<Option<Wait>> {
        if bind.waits.describes() {
            return Ok(None);
        }
        loop {
            if let (Some((field, made)), Some(ended)) = (self.waits.take(), self.ended.take()) {
                self.given.push_back(Bound { field, value: made.value(ended)? });
                self.calls += 1;
            }
            let mut left = self.calls;
            let next = expressions.iter().find_map(|expression| nth_call(expression, &mut left));
            let Some((name, arguments)) = next else { return Ok(None) };
            let inside = arguments.iter().map(functions::waits_number).sum::<usize>();
            bind.waits.give(self.given.split_off(self.given.len().saturating_sub(inside)));
            match functions::begin(bind, name, arguments)? {
                Called::Value(bound) => {
                    self.given.push_back(bound);
                    self.calls += 1;
                }
                Called::Waits(wait, field, made) => {
                    self.waits = Some((field, made));
                    match self.interrupted {
                        // An interrupt is of the whole statement.
                        Some(by) => self.ended = Some(Ended::Interrupted(by)),
                        None => return Ok(Some(wait)),
                    }
                }
            }
        }
    }

    /// Evaluates the next of the expressions that were [waited for](Self::wait_in).
    pub fn lend<T>(&mut self, bind: &Bind<'_>, evaluate: impl FnOnce(&Bind<'_>) -> T) -> T {
        bind.waits.give(std::mem::take(&mut self.given));
        let result = evaluate(bind);
        self.given = bind.waits.given.take();
        result
    }
}

/// The call that waits after this number of others, in the order of evaluation.
fn nth_call<'a>(expression: &'a Expression, left: &mut usize) -> Option<(&'a str, &'a [Expression])> {
    if let Some(found) = expression.operands().into_iter().find_map(|inner| nth_call(inner, left)) {
        return Some(found);
    }
    let Expression::Call { name, arguments } = expression else { return None };
    if !functions::waits(name) {
        return None;
    }
    if *left == 0 {
        return Some((name, arguments));
    }
    *left -= 1;
    None
}

/// What the evaluation of an expression has of its statement.
#[derive(Debug, Default)]
pub struct Waits<'a> {
    /// What calls that have waited gave, in the order in which they are evaluated.
    given: RefCell<VecDeque<Bound>>,
    /// Takes the statement's warnings.
    warnings: Option<&'a RefCell<Vec<Warning>>>,
    /// Types are wanted, not values.
    describes: Cell<bool>,
}

impl<'a> Waits<'a> {
    /// Of a statement that is run.
    #[must_use]
    pub fn warning(warnings: &'a RefCell<Vec<Warning>>) -> Waits<'a> {
        Waits { warnings: Some(warnings), ..Waits::default() }
    }

    /// Of a statement that is prepared.
    #[must_use]
    pub fn described() -> Waits<'a> {
        Waits { describes: Cell::new(true), ..Waits::default() }
    }

    /// Whether only types are wanted from now on.
    pub(crate) fn describe(&self, only_types: bool) {
        self.describes.set(only_types);
    }

    /// True if only types are wanted.
    pub(crate) fn describes(&self) -> bool {
        self.describes.get()
    }

    pub(crate) fn warn(&self, warning: Warning) {
        if let Some(warnings) = self.warnings {
            warnings.borrow_mut().push(warning);
        }
    }

    fn warned(&self) -> usize {
        self.warnings.map_or(0, |warnings| warnings.borrow().len())
    }

    /// Forgets all but the first warnings: the expressions are evaluated once more.
    fn forget_after(&self, warned: usize) {
        if let Some(warnings) = self.warnings {
            warnings.borrow_mut().truncate(warned);
        }
    }

    fn give(&self, given: VecDeque<Bound>) {
        *self.given.borrow_mut() = given;
    }

    /// What the next call that has waited gave.
    pub(crate) fn take(&self) -> Option<Bound> {
        self.given.borrow_mut().pop_front()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ast::Statement;
    use crate::{Charsets, Purse, Settings, UserVariables, parse};

    /// Steps through a SELECT: what it waits for, with how each wait ends, and its values in the end.
    fn walk(sql: &str, ends: &[Ended]) -> (Vec<Option<Duration>>, Result<Vec<Value>>) {
        let charsets = Charsets::of_login(255).unwrap();
        let settings = Settings::new(charsets);
        let parsed = parse(sql.as_bytes(), settings.typed().sql_mode, settings.charsets()).unwrap();
        let Statement::Select(select) = &parsed.statement else { panic!("{sql}") };
        let (mut evaluation, mut waits, mut ends) = (Evaluation::default(), Vec::new(), ends.iter());
        loop {
            let warnings = RefCell::default();
            let (user_variables, memory) = (UserVariables::default(), Purse::default());
            let waits_of = Waits::warning(&warnings);
            let bind = Bind::of_nobody(sql.as_bytes(), &settings, &user_variables, waits_of, &memory);
            match evaluation.select(&bind, select) {
                Ok(Evaluated::Waits(wait)) => {
                    assert!(evaluation.is_waiting());
                    waits.push(wait.timeout);
                    evaluation.ended(ends.next().unwrap().clone());
                }
                Ok(Evaluated::Done((columns, _))) => {
                    return (waits, Ok(columns.into_iter().map(|column| column.value).collect()));
                }
                Err(error) => return (waits, Err(error)),
            }
        }
    }

    fn seconds(all: &[u64]) -> Vec<Option<Duration>> {
        all.iter().map(|s| Some(Duration::from_secs(*s))).collect()
    }

    #[test]
    fn each_call_waits_once_inner_ones_first() {
        let (slept, killed) = (Ended::TimedOut, Ended::Interrupted(Interrupt::Killed));
        let values = |all: &[i64]| Ok(all.iter().map(|value| Value::Int(*value)).collect());
        let all = [slept.clone(), slept.clone(), slept.clone(), slept.clone()];
        assert_eq!(walk("SELECT SLEEP(1), 7, SLEEP(2)", &all), (seconds(&[1, 2]), values(&[0, 7, 0])));
        assert_eq!(walk("SELECT SLEEP(1) + 5 + SLEEP(SLEEP(3)), SLEEP(4)", &all).0, seconds(&[1, 3, 0, 4]));
        assert_eq!(walk("SELECT SLEEP(1) + 5 + SLEEP(SLEEP(3)), 8", &all).1, values(&[5, 8]));
        let nested = "SELECT SLEEP(1) + SLEEP(SLEEP(SLEEP(2)))";
        assert_eq!(walk(nested, &all), (seconds(&[1, 2, 0, 0]), values(&[0])));
        // An interrupt is of the whole statement.
        assert_eq!(walk("SELECT SLEEP(1) + SLEEP(2), SLEEP(3)", &[killed]), (seconds(&[1]), values(&[2, 1])));
        assert_eq!(walk("SELECT SLEEP(1) LIMIT 0", &[]).0, []);
    }

    #[test]
    fn what_does_not_bind_is_known_before_a_wait() {
        let (waits, error) = walk("SELECT SLEEP(1), NO_SUCH_FUNCTION(2)", &[]);
        assert_eq!((waits.len(), error.unwrap_err().code), (0, 1235));
        let (_, error) = walk("SELECT SLEEP(-1)", &[]);
        assert!(error.unwrap_err().is_of_execution());
        let (_, error) = walk("SELECT SLEEP(1)", &[Ended::Interrupted(Interrupt::Shutdown)]);
        assert_eq!(error.unwrap_err().code, 1053);
    }
}
