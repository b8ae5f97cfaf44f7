//! Bits of `sql_mode` that affect parsing, types or conversion of values (sql/system_variables.h).

pub const REAL_AS_FLOAT: u64 = 1;
/// `||` concatenates; otherwise it is OR.
pub const PIPES_AS_CONCAT: u64 = 2;
/// Double quotes enclose identifiers.
pub const ANSI_QUOTES: u64 = 4;
/// Blanks may stand between a function's name and its bracket.
pub const IGNORE_SPACE: u64 = 8;
/// DATA DIRECTORY and INDEX DIRECTORY are ignored.
pub const NO_DIR_IN_CREATE: u64 = 128;
/// 0 in an AUTO_INCREMENT column is a value like any other.
pub const NO_AUTO_VALUE_ON_ZERO: u64 = 1 << 19;
/// A backslash in a string is an ordinary character.
pub const NO_BACKSLASH_ESCAPES: u64 = 1 << 20;
/// A value that does not fit a column is an error, in transactional tables.
pub const STRICT_TRANS_TABLES: u64 = 1 << 21;
/// A value that does not fit a column is an error, in all tables.
pub const STRICT_ALL_TABLES: u64 = 1 << 22;
/// Dates with month or day 0 are rejected.
pub const NO_ZERO_IN_DATE: u64 = 1 << 23;
/// The zero date is an error in strict mode.
pub const NO_ZERO_DATE: u64 = 1 << 24;
/// Days up to 31 are valid in every month.
pub const ALLOW_INVALID_DATES: u64 = 1 << 25;
/// NOT binds more tightly than BETWEEN.
pub const HIGH_NOT_PRECEDENCE: u64 = 1 << 29;
/// CHAR values are read with their trailing spaces.
pub const PAD_CHAR_TO_FULL_LENGTH: u64 = 1 << 31;
/// Fractions of a second are truncated instead of rounded.
pub const TIME_TRUNCATE_FRACTIONAL: u64 = 1 << 32;
/// A missing storage engine is an error; otherwise another one takes its place.
pub const NO_ENGINE_SUBSTITUTION: u64 = 1 << 30;
/// `utf8` and `utf8_…` mean utf8mb4, not utf8mb3 (since 9.7).
pub const INTERPRET_UTF8_AS_UTF8MB4: u64 = 1 << 33;

/// True if the mode makes a value that does not fit an error.
pub fn is_strict(mode: u64) -> bool {
    mode & (STRICT_TRANS_TABLES | STRICT_ALL_TABLES) != 0
}
