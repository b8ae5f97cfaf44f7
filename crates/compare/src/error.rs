//! Errors of a dump or a comparison. Differences are not errors; they are in the report.

use base::GtidSet;
use client::ClientError;
use values::ValueError;

/// Why a dump or a comparison cannot be made.
#[derive(Debug, thiserror::Error)]
pub enum CompareError {
    /// A part of a table's definition is not known, so that it cannot be written.
    #[error(
        "the definition of `{db}`.`{table}` cannot be written: {what} is not known; --no-create-info writes the rows alone"
    )]
    Definition { db: String, table: String, what: String },
    /// The mysql client would not send a statement about a table as it is.
    #[error(
        "a statement about `{db}`.`{table}` cannot be written: the mysql client would split or change it at {what}"
    )]
    Split {
        db: String,
        table: String,
        /// What of the text.
        what: &'static str,
    },
    /// A server was unreachable, or refused the connection or a query.
    #[error("{server}: {error}")]
    Server {
        /// Address of the server.
        server: String,
        /// Error from the server.
        error: ClientError,
    },
    /// The read lock could not be acquired.
    #[error(
        "{server}: no moment for a consistent snapshot within {seconds} s ({reason}); nothing was compared. Grant RELOAD \
         for a short FLUSH TABLES WITH READ LOCK, or run verify when no long statement holds it off"
    )]
    NoLock {
        /// Address of the server.
        server: String,
        /// How long it was tried, s.
        seconds: u64,
        reason: String,
    },
    /// The two sides are not at the same GTID set.
    #[error(
        "the two sides are not at the same point, nothing was compared ({reason})\n  source: {source_set}\n  here:   \
         {here_set}\n  only in source: {missing}\n  only here:      {extra}",
        missing = source_set.subtract(here_set), extra = here_set.subtract(source_set)
    )]
    SetsDiffer {
        /// Why they could not be brought to the same set.
        reason: String,
        /// GTID set of the source.
        source_set: GtidSet,
        /// GTID set of the other side.
        here_set: GtidSet,
    },
    /// The table asked for has its rows elsewhere.
    #[error("{what}; there are none of its own to print")]
    NoRows {
        /// The table, its engine, and where the rows are.
        what: String,
    },
    /// A value cannot be printed or compared.
    #[error("`{db}`.`{table}`, column `{column}`: {error}")]
    Value {
        /// Database of the table.
        db: String,
        /// Name of the table.
        table: String,
        /// Name of the column.
        column: String,
        /// What is wrong with the value.
        error: ValueError,
    },
    /// A server's table has a column whose type has no row image here.
    #[error("`{db}`.`{table}`: {reason}")]
    NoShape {
        /// Database of the table.
        db: String,
        /// Name of the table.
        table: String,
        /// Name of the column, and the reason.
        reason: String,
    },
    /// A stored row does not fit its table's definition.
    #[error("`{db}`.`{table}`: a stored row does not fit its table's definition: {error}")]
    Row {
        /// Database of the table.
        db: String,
        /// Name of the table.
        table: String,
        /// What is wrong with the row.
        error: ValueError,
    },
    /// Our store cannot be read.
    #[error("{0}")]
    Store(store::StoreError),
    /// A requested table does not exist.
    #[error("no table {0}")]
    NoSuchTable(String),
    /// A server gave an invalid answer.
    #[error("{server}: unexpected answer to {question}")]
    Answer {
        /// Address of the server.
        server: String,
        question: &'static str,
    },
    /// The output cannot be written.
    #[error("cannot write the output: {0}")]
    Output(#[from] std::io::Error),
}

/// Class of an error; the program maps each to its exit code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorClass {
    Error,
    /// An unsupported value or type.
    NotSupported,
    /// Stored bytes that are not a row.
    Corrupt,
    /// Output that cannot be written.
    Io,
}

impl CompareError {
    /// Class of this error, for the exit code.
    #[must_use]
    pub fn class(&self) -> ErrorClass {
        match self {
            CompareError::Value { .. }
            | CompareError::NoShape { .. }
            | CompareError::NoRows { .. }
            | CompareError::Definition { .. }
            | CompareError::Split { .. } => ErrorClass::NotSupported,
            CompareError::Row { .. }
            | CompareError::Store(store::StoreError::Damaged { .. } | store::StoreError::DamagedFile { .. }) => {
                ErrorClass::Corrupt
            }
            CompareError::Output(_) => ErrorClass::Io,
            _ => ErrorClass::Error,
        }
    }

    /// MySQL's error number, if a server returned one.
    pub(crate) fn server_code(&self) -> Option<u16> {
        match self {
            CompareError::Server { error, .. } => error.server_code(),
            _ => None,
        }
    }
}

/// Adds the server's address to an error.
pub(crate) fn at_server<T>(server: &str, result: client::Result<T>) -> Result<T, CompareError> {
    result.map_err(|error| CompareError::Server { server: server.to_string(), error })
}
