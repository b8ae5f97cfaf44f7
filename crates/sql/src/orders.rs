//! Orders to the replica: what is started, stopped, changed or reset.
//!
//! In: the parser's finds. Out: orders that are carried out elsewhere. Never here: a password in a text; whether an
//! order can be carried out.

use std::fmt;

use base::UntilGtids;

use crate::Result;
use crate::error::SqlError;
use crate::gtid_text::gtid_set;

/// An order to the replica.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReplicaOrder {
    /// START or STOP REPLICA.
    Threads(ThreadOrder),
    /// CHANGE REPLICATION SOURCE TO.
    ChangeSource(Vec<SourceOption>),
    ChangeFilter(Vec<FilterRules>),
    Reset {
        /// What was changed by SQL is forgotten too.
        all: bool,
    },
    Failover(FailoverOrder),
}

/// What a function `asynchronous_connection_failover_…` does to the lists of servers to follow.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FailoverOrder {
    AddSource {
        host: String,
        port: u16,
        /// 1 to 100.
        weight: u8,
    },
    DeleteSource {
        host: String,
        port: u16,
    },
    AddManaged {
        /// group_replication_group_name.
        name: String,
        host: String,
        port: u16,
        /// Weight of a member that is PRIMARY.
        primary_weight: u8,
        secondary_weight: u8,
    },
    DeleteManaged {
        name: String,
    },
    Reset,
}

impl FailoverOrder {
    #[must_use]
    pub fn function(&self) -> &'static str {
        match self {
            FailoverOrder::AddSource { .. } => "asynchronous_connection_failover_add_source",
            FailoverOrder::DeleteSource { .. } => "asynchronous_connection_failover_delete_source",
            FailoverOrder::AddManaged { .. } => "asynchronous_connection_failover_add_managed",
            FailoverOrder::DeleteManaged { .. } => "asynchronous_connection_failover_delete_managed",
            FailoverOrder::Reset => "asynchronous_connection_failover_reset",
        }
    }

    /// MySQL's error where there is nothing to delete, or the new one is there already.
    #[must_use]
    pub fn refused(&self) -> SqlError {
        let why = match self {
            FailoverOrder::AddSource { .. } | FailoverOrder::AddManaged { .. } => "Error inserting row to the table.",
            _ => "Error no matching row was found to be deleted.",
        };
        SqlError::new(3200, "HY000", format!("{} UDF failed; {why}", self.function()))
    }
}

/// Starts or stops threads of the replica.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ThreadOrder {
    /// START, not STOP.
    pub start: bool,
    /// Receiving (IO_THREAD).
    pub io: bool,
    /// Replay (SQL_THREAD).
    pub sql: bool,
    /// Where replay stops by itself.
    pub until: Option<UntilGtids>,
}

/// UNTIL of START REPLICA.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum UntilText {
    /// SQL_BEFORE_GTIDS, the text of the set.
    Before(Vec<u8>),
    /// SQL_AFTER_GTIDS, the text of the set.
    After(Vec<u8>),
    /// Conditions that contradict each other (1277).
    Contradiction,
}

/// An option of CHANGE REPLICATION SOURCE TO.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SourceOption {
    /// Its name, in upper case.
    pub name: &'static str,
    pub value: OptionValue,
}

/// Value of an option.
#[derive(Clone, PartialEq, Eq)]
pub enum OptionValue {
    Text(Vec<u8>),
    /// A number, as it is written.
    Number(String),
}

impl fmt::Debug for OptionValue {
    /// A string may be a password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            OptionValue::Text(_) => f.write_str("'***'"),
            OptionValue::Number(number) => f.write_str(number),
        }
    }
}

/// The rules of one option of CHANGE REPLICATION FILTER, which replace those that it had.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FilterRules {
    /// The option's name as a program's option.
    pub option: &'static str,
    /// Rules in that option's syntax.
    pub rules: Vec<Vec<u8>>,
}

/// The condition that is meant.
///
/// # Errors
/// 1277 for conditions that contradict each other, 1772 for what is no GTID set.
pub fn until(until: &UntilText) -> Result<UntilGtids> {
    let set = |text: &[u8]| gtid_set(&String::from_utf8_lossy(text));
    match until {
        UntilText::Before(text) => set(text).map(UntilGtids::Before),
        UntilText::After(text) => set(text).map(UntilGtids::After),
        UntilText::Contradiction => {
            let text = "Incorrect parameter or combination of parameters for START REPLICA UNTIL";
            Err(SqlError::new(1277, "HY000", text))
        }
    }
}
