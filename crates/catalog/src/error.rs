//! What can be wrong with a statement.

use crate::lexer::LexError;

/// Why a statement could not be taken into the catalog. Every variant carries the statement with secrets masked and
/// cut to a printable length; the caller adds position and GTID.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DdlError {
    /// A statement, clause or value this version does not carry out (exit code 6).
    #[error("not supported: {what}; statement: {statement}")]
    NotSupported {
        /// The clause, by its words.
        what: String,
        /// The statement, masked.
        statement: String,
    },
    /// Text that does not read as the statement it begins as.
    #[error("cannot read the statement at byte {at}: {what}; statement: {statement}")]
    Syntax {
        /// What was expected or is wrong.
        what: String,
        /// Byte in the statement.
        at: usize,
        /// The statement, masked.
        statement: String,
    },
    /// The statement disagrees with the catalog: a table that should be there is not, or the reverse. The catalog
    /// does not hold the source's state at this place.
    #[error("the statement disagrees with the catalog: {what}; statement: {statement}")]
    Disagrees {
        /// What is missing or already there.
        what: String,
        /// The statement, masked.
        statement: String,
    },
}

/// [`DdlError`] before the statement is added.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Problem {
    NotSupported(String),
    Syntax { what: String, at: usize },
    Disagrees(String),
}

impl Problem {
    pub(crate) fn unsupported<T>(what: impl Into<String>) -> Result<T, Problem> {
        Err(Problem::NotSupported(what.into()))
    }

    pub(crate) fn disagrees<T>(what: impl Into<String>) -> Result<T, Problem> {
        Err(Problem::Disagrees(what.into()))
    }

    pub(crate) fn with_statement(self, sql: &[u8]) -> DdlError {
        let statement = crate::mask::printable(sql);
        match self {
            Problem::NotSupported(what) => DdlError::NotSupported { what, statement },
            Problem::Syntax { what, at } => DdlError::Syntax { what, at, statement },
            Problem::Disagrees(what) => DdlError::Disagrees { what, statement },
        }
    }
}

impl From<LexError> for Problem {
    fn from(error: LexError) -> Problem {
        Problem::Syntax { what: error.what.to_owned(), at: error.at }
    }
}
