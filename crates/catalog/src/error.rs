//! Errors of the catalog.

use crate::lexer::LexError;

/// Why a statement could not be applied to the catalog. Every variant carries the statement, with secrets masked and
/// truncated to a printable length. The caller adds position and GTID.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum DdlError {
    /// A statement, clause or value that this version does not support (exit code 6).
    #[error("not supported: {what}; statement: {statement}")]
    NotSupported {
        /// The clause, by its words.
        what: String,
        statement: String,
    },
    /// The text cannot be parsed as the statement that its first words announce.
    #[error("cannot read the statement at byte {at}: {what}; statement: {statement}")]
    Syntax {
        /// What was expected or is wrong.
        what: String,
        /// Byte in the statement.
        at: usize,
        statement: String,
    },
    /// The statement contradicts the catalog: a table is missing that should exist, or the reverse. So the catalog does
    /// not match the source's state at this position.
    #[error("the statement disagrees with the catalog: {what}; statement: {statement}")]
    Disagrees {
        /// What is missing or already there.
        what: String,
        statement: String,
    },
}

/// A [`DdlError`] before the statement's text is added.
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
