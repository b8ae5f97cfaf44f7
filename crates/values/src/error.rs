//! Errors in bytes that claim to be values.

/// Why a value or its type cannot be used.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ValueError {
    /// The bytes end inside a column of a row image.
    #[error("the row image of {available} bytes ends inside column {column}")]
    ImageCutOff {
        /// Column number, from 0.
        column: usize,
        /// Bytes available.
        available: usize,
    },
    /// The bytes of one value are too few or too many.
    #[error("{what}: a stored value of {len} bytes has the wrong length")]
    WrongLength {
        /// Kind of value.
        what: &'static str,
        /// Bytes available.
        len: usize,
    },
    /// The bytes are not a value of their type.
    #[error("not a valid {what}")]
    Invalid {
        /// What was expected.
        what: &'static str,
    },
    /// NULL in a NOT NULL column of a key.
    #[error("NULL in a key without NULL")]
    NullInKey,
    /// A literal that the column's type cannot hold.
    #[error("{literal} is no value for a {what} column")]
    BadLiteral {
        /// Type of the column.
        what: &'static str,
        /// The literal, lossily printed.
        literal: Box<str>,
    },
    /// A type, character set or combination that is not implemented.
    #[error("not supported yet: {what}")]
    Unsupported {
        /// Name of the unsupported type or combination.
        what: Box<str>,
    },
    /// More columns than a MySQL table can have, or an image too long for 32-bit offsets.
    #[error("{what} is beyond MySQL's limits")]
    BeyondLimits {
        /// Name of the limit.
        what: &'static str,
    },
}

impl ValueError {
    pub(crate) fn unsupported(what: impl Into<String>) -> ValueError {
        ValueError::Unsupported { what: what.into().into_boxed_str() }
    }
}
