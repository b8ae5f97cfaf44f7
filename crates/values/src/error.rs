//! What can be wrong with bytes that claim to be values.

/// A value or its type that cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ValueError {
    /// The bytes end inside a column (0-based) of a row image.
    #[error("the row image of {available} bytes ends inside column {column}")]
    ImageCutOff {
        /// The column, counted from 0.
        column: usize,
        /// Bytes that were there.
        available: usize,
    },
    /// The bytes of one value end too early or go on too long.
    #[error("{what}: a stored value of {len} bytes has the wrong length")]
    WrongLength {
        /// The kind of value.
        what: &'static str,
        /// Bytes that were there.
        len: usize,
    },
    /// The bytes are no value of their type.
    #[error("not a valid {what}")]
    Invalid {
        /// What it should have been.
        what: &'static str,
    },
    /// NULL in a column of a key that has none.
    #[error("NULL in a key without NULL")]
    NullInKey,
    /// A literal that the column's type cannot hold.
    #[error("{literal} is no value for a {what} column")]
    BadLiteral {
        /// The column's kind.
        what: &'static str,
        /// The literal, lossily printed.
        literal: Box<str>,
    },
    /// A type, character set or combination that is not implemented.
    #[error("not supported yet: {what}")]
    Unsupported {
        /// What it is.
        what: Box<str>,
    },
    /// More columns than a MySQL table can have, or an image too long for 32-bit offsets.
    #[error("{what} is beyond MySQL's limits")]
    BeyondLimits {
        /// What it is.
        what: &'static str,
    },
}

impl ValueError {
    pub(crate) fn unsupported(what: impl Into<String>) -> ValueError {
        ValueError::Unsupported { what: what.into().into_boxed_str() }
    }
}
