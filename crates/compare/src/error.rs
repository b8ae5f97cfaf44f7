//! Why a dump or a comparison cannot be made. Differences are no errors: they are in the report.

use base::GtidSet;
use client::ClientError;
use values::ValueError;

/// See the module.
#[derive(Debug, thiserror::Error)]
pub enum CompareError {
    /// A server could not be reached or refused.
    #[error("{server}: {error}")]
    Server {
        /// Which one.
        server: String,
        /// What happened.
        error: ClientError,
    },
    /// The read lock could not be had.
    #[error(
        "{server}: no moment for a consistent snapshot within {seconds} s ({reason}); nothing was compared. Grant RELOAD \
         for a short FLUSH TABLES WITH READ LOCK, or run verify when no long statement holds it off"
    )]
    NoLock {
        /// Which server.
        server: String,
        /// How long it was tried.
        seconds: u64,
        /// What stood in the way.
        reason: String,
    },
    /// The two sides are not at the same set of transactions.
    #[error(
        "the two sides are not at the same point, nothing was compared ({reason})\n  source: {source_set}\n  here:   \
         {here_set}\n  only in source: {missing}\n  only here:      {extra}",
        missing = source_set.subtract(here_set), extra = here_set.subtract(source_set)
    )]
    SetsDiffer {
        /// Why they could not be brought together.
        reason: String,
        /// The source's set.
        source_set: GtidSet,
        /// The other side's.
        here_set: GtidSet,
    },
    /// A value that cannot be printed or compared.
    #[error("`{db}`.`{table}`, column `{column}`: {error}")]
    Value {
        /// Database.
        db: String,
        /// Table.
        table: String,
        /// Column.
        column: String,
        /// What is wrong with it.
        error: ValueError,
    },
    /// A table of a server with a column that has no row image here.
    #[error("`{db}`.`{table}`: {reason}")]
    NoShape {
        /// Database.
        db: String,
        /// Table.
        table: String,
        /// Which column, and why.
        reason: String,
    },
    /// A stored row that does not fit its table's definition.
    #[error("`{db}`.`{table}`: a stored row does not fit its table's definition: {error}")]
    Row {
        /// Database.
        db: String,
        /// Table.
        table: String,
        /// What is wrong with it.
        error: ValueError,
    },
    /// Our store cannot be read.
    #[error("{0}")]
    Store(store::StoreError),
    /// A table was asked for that is not there.
    #[error("no table {0}")]
    NoSuchTable(String),
    /// An answer of a server that makes no sense.
    #[error("{server}: unexpected answer to {question}")]
    Answer {
        /// Which server.
        server: String,
        /// What was asked.
        question: &'static str,
    },
    /// The output cannot be written.
    #[error("cannot write the output: {0}")]
    Output(#[from] std::io::Error),
}

/// What kind of error it is; the program maps each to its exit code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ErrorClass {
    /// Any other.
    Error,
    /// A value or type that is not supported.
    NotSupported,
    /// Stored bytes that are no row.
    Corrupt,
    /// Output that cannot be written.
    Io,
}

impl CompareError {
    /// See [`ErrorClass`].
    #[must_use]
    pub fn class(&self) -> ErrorClass {
        match self {
            CompareError::Value { .. } | CompareError::NoShape { .. } => ErrorClass::NotSupported,
            CompareError::Row { .. } => ErrorClass::Corrupt,
            CompareError::Output(_) => ErrorClass::Io,
            _ => ErrorClass::Error,
        }
    }

    /// MySQL's error number, where a server answered with one.
    pub(crate) fn server_code(&self) -> Option<u16> {
        match self {
            CompareError::Server { error, .. } => error.server_code(),
            _ => None,
        }
    }
}

/// Says which server an error came from.
pub(crate) fn at_server<T>(server: &str, result: client::Result<T>) -> Result<T, CompareError> {
    result.map_err(|error| CompareError::Server { server: server.to_string(), error })
}
