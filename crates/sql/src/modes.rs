//! `sql_mode` as names and bits.

use crate::Result;
use crate::error::{SqlError, Warning};

/// Modes by name with their bit, in MySQL's order (sql/system_variables.h).
const MODES: &[(&str, u64)] = &[
    ("REAL_AS_FLOAT", 1),
    ("PIPES_AS_CONCAT", 1 << 1),
    ("ANSI_QUOTES", 1 << 2),
    ("IGNORE_SPACE", 1 << 3),
    ("ONLY_FULL_GROUP_BY", 1 << 5),
    ("NO_UNSIGNED_SUBTRACTION", NO_UNSIGNED_SUBTRACTION),
    ("NO_DIR_IN_CREATE", 1 << 7),
    ("ANSI", 1 << 18),
    ("NO_AUTO_VALUE_ON_ZERO", 1 << 19),
    ("NO_BACKSLASH_ESCAPES", 1 << 20),
    ("STRICT_TRANS_TABLES", 1 << 21),
    ("STRICT_ALL_TABLES", 1 << 22),
    ("NO_ZERO_IN_DATE", 1 << 23),
    ("NO_ZERO_DATE", 1 << 24),
    ("ALLOW_INVALID_DATES", 1 << 25),
    ("ERROR_FOR_DIVISION_BY_ZERO", 1 << 26),
    ("TRADITIONAL", 1 << 27),
    ("HIGH_NOT_PRECEDENCE", 1 << 29),
    ("NO_ENGINE_SUBSTITUTION", 1 << 30),
    ("PAD_CHAR_TO_FULL_LENGTH", 1 << 31),
    ("TIME_TRUNCATE_FRACTIONAL", 1 << 32),
    ("INTERPRET_UTF8_AS_UTF8MB4", 1 << 33),
];

/// Differences of unsigned integers are signed.
pub(crate) const NO_UNSIGNED_SUBTRACTION: u64 = 1 << 6;
const ANSI: u64 = 1 << 18;
const TRADITIONAL: u64 = 1 << 27;
/// What ANSI stands for: REAL_AS_FLOAT, PIPES_AS_CONCAT, ANSI_QUOTES, IGNORE_SPACE, ONLY_FULL_GROUP_BY.
const OF_ANSI: u64 = 1 | 1 << 1 | 1 << 2 | 1 << 3 | 1 << 5;
/// What TRADITIONAL stands for: both strict modes, the zero dates, division by zero, NO_ENGINE_SUBSTITUTION.
const OF_TRADITIONAL: u64 = 1 << 21 | 1 << 22 | 1 << 23 | 1 << 24 | 1 << 26 | 1 << 30;

/// The bits of a list of modes, with those that combinations stand for.
///
/// # Errors
/// 1231 for a name that is no mode.
pub fn bits(list: &str) -> Result<u64> {
    let mut bits = 0;
    for name in list.split(',').map(str::trim).filter(|name| !name.is_empty()) {
        let found = MODES.iter().find(|(mode, _)| mode.eq_ignore_ascii_case(name));
        bits |= found.ok_or_else(|| SqlError::wrong_value("sql_mode", name))?.1;
    }
    Ok(with_combinations(bits))
}

/// The bits of a number.
///
/// # Errors
/// 1231 for a bit that is no mode.
pub(crate) fn of_number(number: u64) -> Result<u64> {
    let known = MODES.iter().fold(0, |all, (_, bit)| all | bit);
    if number & !known != 0 {
        return Err(SqlError::wrong_value("sql_mode", &number.to_string()));
    }
    Ok(with_combinations(number))
}

fn with_combinations(bits: u64) -> u64 {
    let ansi = if bits & ANSI != 0 { OF_ANSI } else { 0 };
    let traditional = if bits & TRADITIONAL != 0 { OF_TRADITIONAL } else { 0 };
    bits | ansi | traditional
}

/// The modes as `@@sql_mode` shows them.
pub(crate) fn text(bits: u64) -> String {
    let names: Vec<_> = MODES.iter().filter(|(_, bit)| bits & bit != 0).map(|(name, _)| *name).collect();
    names.join(",")
}

const STRICT: u64 = 1 << 21 | 1 << 22;
/// NO_ZERO_IN_DATE, NO_ZERO_DATE, ERROR_FOR_DIVISION_BY_ZERO.
const WITH_STRICT: u64 = 1 << 23 | 1 << 24 | 1 << 26;
const PAD_CHAR_TO_FULL_LENGTH: u64 = 1 << 31;

/// What MySQL says of modes that a session sets.
pub(crate) fn warnings(bits: u64) -> Vec<Warning> {
    let mut warnings = Vec::new();
    let (is_strict, with) = (bits & STRICT != 0, bits & WITH_STRICT);
    if (is_strict && with != WITH_STRICT) || (!is_strict && with != 0) {
        let text = "'NO_ZERO_DATE', 'NO_ZERO_IN_DATE' and 'ERROR_FOR_DIVISION_BY_ZERO' sql modes should be used with \
                    strict mode. They will be merged with strict mode in a future release.";
        warnings.push(Warning::new(3135, text));
    }
    if bits & PAD_CHAR_TO_FULL_LENGTH != 0 {
        let text = "Changing sql mode 'PAD_CHAR_TO_FULL_LENGTH' is deprecated. It will be removed in a future release.";
        warnings.push(Warning::new(3090, text));
    }
    warnings
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn combinations_stand_for_their_modes() {
        let ansi = "REAL_AS_FLOAT,PIPES_AS_CONCAT,ANSI_QUOTES,IGNORE_SPACE,ONLY_FULL_GROUP_BY,ANSI";
        assert_eq!(text(bits("ansi").unwrap()), ansi);
        assert_eq!(text(bits(" ANSI_QUOTES , no_zero_date,").unwrap()), "ANSI_QUOTES,NO_ZERO_DATE");
        assert_eq!(bits("NONSENSE").unwrap_err().code, 1231);
        assert_eq!(of_number(1 << 4).unwrap_err().code, 1231);
        assert_eq!(of_number(4).unwrap(), catalog::sql_mode::ANSI_QUOTES);
    }
}
