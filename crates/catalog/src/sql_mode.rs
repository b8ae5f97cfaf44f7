//! Bits of `sql_mode` that change how text is read, what a type means or how values are converted (sql/system_variables.h).

/// REAL is FLOAT.
pub const REAL_AS_FLOAT: u64 = 1;
/// Double quotes enclose names.
pub const ANSI_QUOTES: u64 = 4;
/// A backslash in a string is a character like others.
pub const NO_BACKSLASH_ESCAPES: u64 = 1 << 20;
/// What does not fit a column is an error, in tables with transactions.
pub const STRICT_TRANS_TABLES: u64 = 1 << 21;
/// What does not fit a column is an error, in all tables.
pub const STRICT_ALL_TABLES: u64 = 1 << 22;
/// No month or day 0 in dates.
pub const NO_ZERO_IN_DATE: u64 = 1 << 23;
/// Days to 31 in every month.
pub const ALLOW_INVALID_DATES: u64 = 1 << 25;
/// CHAR is read with the blanks at its end.
pub const PAD_CHAR_TO_FULL_LENGTH: u64 = 1 << 31;
/// Fractions of a second are cut instead of rounded.
pub const TIME_TRUNCATE_FRACTIONAL: u64 = 1 << 32;
