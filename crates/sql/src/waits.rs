//! Statements that wait: what for, and how far they have come.
//!
//! A statement is evaluated until it must wait; the evaluation is given up, the session puts nothing out, and once the
//! wait has ended the statement is run again. Results of items of the select list that were done, and of waits within
//! the next one, are kept in its [`Progress`], so that each is had once and in order. Never here: a clock, a thread.

use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::sync::Arc;
use std::time::{Duration, Instant};

use base::GtidSet;

use crate::Result;
use crate::bind::{Column, Value};
use crate::error::{SqlError, Warning};
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

/// How far a statement that waits has come.
#[derive(Debug, Default)]
pub struct Progress {
    /// Columns of the select list that are done.
    pub(crate) columns: Vec<Column>,
    /// How the waits within the next column ended, in order.
    ended: Vec<Ended>,
    /// Of these, how many this run of it has used.
    used: usize,
    /// What it waits for now.
    asked: Option<Wait>,
    interrupted: Option<Interrupt>,
    /// The evaluation failed with an error that MySQL finds only once it has described the columns.
    is_late: bool,
    /// Warnings, for the statement's end.
    warnings: VecDeque<Warning>,
}

impl Progress {
    /// Bytes of the columns that are done.
    #[must_use]
    pub fn bytes(&self) -> usize {
        let text = |value: &Value| value.text().map_or(0, |text| text.len());
        self.columns.iter().map(|column| size_of_val(column) + column.name.len() + text(&column.value)).sum()
    }

    /// What the evaluation that ended with an error waits for, if that is why it ended.
    pub fn take_wait(&mut self) -> Option<Wait> {
        self.used = 0;
        self.asked.take()
    }

    /// Notes how that wait ended.
    pub fn ended(&mut self, how: Ended) {
        if let Ended::Interrupted(by) = &how {
            self.interrupted = Some(*by);
        }
        self.ended.push(how);
    }

    /// Warnings of the statement.
    pub fn take_warnings(&mut self) -> Vec<Warning> {
        std::mem::take(&mut self.warnings).into()
    }

    /// True if the evaluation failed with an error that MySQL finds only once it has described the columns.
    #[must_use]
    pub fn is_late(&self) -> bool {
        self.is_late
    }

    /// A column of the select list is done.
    pub(crate) fn done(&mut self, column: Column) {
        self.columns.push(column);
        self.ended.clear();
        self.used = 0;
    }

    pub(crate) fn warn(&mut self, warning: Warning) {
        // A statement that is run again warns again.
        if self.ended.len() == self.used {
            self.warnings.push_back(warning);
        }
    }

    /// How the next wait ended; asks for it if it has not begun. The statement then ends with any error, and is run again.
    pub fn wait(&mut self, wait: Wait) -> Option<Ended> {
        if let Some(by) = self.interrupted {
            return Some(Ended::Interrupted(by));
        }
        let ended = self.ended.get(self.used).cloned();
        match ended {
            Some(_) => self.used += 1,
            // Other operands of an operator are evaluated although the first one waits.
            None => drop(self.asked.get_or_insert(wait)),
        }
        ended
    }
}

/// Whether and how a statement may wait.
#[derive(Debug, Default)]
pub struct Waits<'a> {
    progress: Option<&'a RefCell<Progress>>,
    /// Types are wanted, not values.
    describes: Cell<bool>,
}

impl<'a> Waits<'a> {
    /// The value of a wait that ended, for a function that an interrupt ends with an error.
    pub(crate) fn value(&self, ended: Ended, met: impl FnOnce(u64) -> Value, timed_out: Value) -> Result<Value> {
        match ended {
            Ended::Met(moves) => Ok(met(moves)),
            Ended::TimedOut => Ok(timed_out),
            Ended::NotRunning => Ok(Value::Null),
            Ended::Interrupted(by) => Err(self.late(by.error())),
            Ended::Failed(error) => Err(self.late(error)),
        }
    }

    /// Of a statement that waits with this progress.
    #[must_use]
    pub fn with(progress: &'a RefCell<Progress>) -> Waits<'a> {
        Waits { progress: Some(progress), describes: Cell::new(false) }
    }

    /// Of a statement that is prepared.
    #[must_use]
    pub fn described() -> Waits<'a> {
        Waits { progress: None, describes: Cell::new(true) }
    }

    /// From now on only types are wanted: the statement has no row.
    pub(crate) fn describe(&self) {
        self.describes.set(true);
    }

    /// True if only types are wanted.
    pub(crate) fn describes(&self) -> bool {
        self.describes.get()
    }

    pub(crate) fn progress(&self) -> Option<&'a RefCell<Progress>> {
        self.progress
    }

    /// Marks an error as one that MySQL finds only once it has described the columns.
    pub(crate) fn late(&self, error: SqlError) -> SqlError {
        if let Some(progress) = self.progress {
            progress.borrow_mut().is_late = true;
        }
        error
    }

    /// How a wait of `function` ended.
    ///
    /// # Errors
    /// 1235 where a statement cannot wait. Before it has waited, an error that ends this evaluation and is not sent.
    pub(crate) fn wait(&self, function: &str, wait: Wait) -> Result<Ended> {
        let Some(progress) = self.progress else {
            return Err(SqlError::not_supported(&format!("{function}() but in SELECT and DO")));
        };
        let ended = progress.borrow_mut().wait(wait);
        match ended {
            Some(Ended::Failed(error)) => Err(self.late(error)),
            Some(ended) => Ok(ended),
            None => Err(SqlError::new(1105, "HY000", format!("{function}() waits"))),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wait() -> Wait {
        Wait { event: Event::Time, timeout: None }
    }

    #[test]
    fn each_wait_is_asked_for_once_and_in_order() {
        let progress = RefCell::new(Progress::default());
        let waits = Waits::with(&progress);
        assert!(waits.wait("F", wait()).is_err());
        assert_eq!(progress.borrow_mut().take_wait(), Some(wait()));
        progress.borrow_mut().ended(Ended::Met(1));
        assert_eq!(waits.wait("F", wait()).unwrap(), Ended::Met(1));
        assert!(waits.wait("F", wait()).is_err());
        assert_eq!(progress.borrow_mut().take_wait(), Some(wait()));
        progress.borrow_mut().ended(Ended::TimedOut);
        let again = [waits.wait("F", wait()).unwrap(), waits.wait("F", wait()).unwrap()];
        assert_eq!(again, [Ended::Met(1), Ended::TimedOut]);
        assert_eq!(progress.borrow_mut().take_wait(), None);
    }

    #[test]
    fn an_interrupt_is_of_the_whole_statement() {
        let progress = RefCell::new(Progress::default());
        let waits = Waits::with(&progress);
        assert!(waits.wait("F", wait()).is_err());
        progress.borrow_mut().take_wait();
        progress.borrow_mut().ended(Ended::Interrupted(Interrupt::Time));
        for _ in 0..3 {
            assert_eq!(waits.wait("F", wait()).unwrap(), Ended::Interrupted(Interrupt::Time));
        }
        assert_eq!(Waits::default().wait("F", wait()).unwrap_err().code, 1235);
    }
}
