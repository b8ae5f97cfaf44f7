//! Why a statement failed, as far as it is counted.
//!
//! In: its error. Out: a class, with the construct of one that is not answered. Never here: a text of a statement.

use sql::SqlError;

/// Characters of a construct's name that are kept.
const CONSTRUCT_LEN: usize = 40;
/// The name of those that are not counted by their own.
pub const OTHERS: &str = "other";

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Failed {
    Refused(String),
    TooOld,
    Otherwise,
}

impl Failed {
    pub fn of(error: &SqlError) -> Failed {
        if error.is_not_supported() {
            let construct = SqlError::construct_in(&error.message).unwrap_or(OTHERS);
            let shown = construct.chars().map(|c| if c.is_control() { ' ' } else { c });
            return Failed::Refused(shown.take(CONSTRUCT_LEN).collect());
        }
        if sql::passing::is_snapshot_too_old(error) { Failed::TooOld } else { Failed::Otherwise }
    }
}
