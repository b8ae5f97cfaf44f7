//! States of a replica that pass, and the texts of 1105 that tell of them.
//!
//! In: a state with its details. Out: the error; of a text whether it is one of these. Never here: a text that a name
//! or a value of a client could bring about otherwise. Each begins with words of ours, and of all texts of 1105 only
//! those of a value that a column does not take begin with a client's words: these end as none of ours does.

use crate::error::SqlError;

/// The engine is being started.
pub const STARTING: &str = "the replica is starting; try again in a moment";

const UNSYNCED: &str = "recovering, an earlier run may have shown unsynced transactions; ";
const RECOVERING: &str = "recovering, ";
const TOO_OLD: &str = "snapshot too old: ";
const TABLE: &str = "Table '";
const NOT_READABLE: &str = "' cannot be read now: ";
const ORDERED_TABLE: &str = "Table `";
const INDEX_IS_FILLED: &str = "`: the index that gives this order is being filled";
/// The store's words of an index.
const INDEX: &str = "index ";
const OF_TABLE: &str = " of table id ";
const NOT_YET: &str = " is being filled and cannot be read yet";
/// How the text of a value that a column does not take ends ([`values::ValueError::BadLiteral`]).
const OF_VALUES: &str = " column";

fn error(text: String) -> SqlError {
    SqlError::new(1105, "HY000", text)
}

/// An earlier run may have shown transactions that are not here; the source has to say which.
#[must_use]
pub fn may_have_shown_more(why: &str) -> SqlError {
    error(format!("{UNSYNCED}{why}"))
}

/// An earlier run has shown this many transactions that are not here yet.
#[must_use]
pub fn recovering(missing: u64) -> SqlError {
    error(format!("{RECOVERING}{missing} transaction{} missing", if missing == 1 { "" } else { "s" }))
}

/// The rows that a transaction sees are not kept any more.
#[must_use]
pub fn snapshot_too_old(why: &'static str) -> SqlError {
    error(format!("{TOO_OLD}{why}"))
}

/// Whether it is [`snapshot_too_old`].
#[must_use]
pub fn is_snapshot_too_old(error: &SqlError) -> bool {
    error.code == 1105 && error.message.starts_with(TOO_OLD)
}

/// A table has no rows to read.
#[must_use]
pub fn not_readable(schema: &str, table: &str, why: &str) -> SqlError {
    error(format!("{TABLE}{schema}.{table}{NOT_READABLE}{why}"))
}

/// The index that gives an order is not complete; `table` is its full name, in backticks.
#[must_use]
pub fn index_is_filled(table: &str) -> SqlError {
    error(format!("Table {table}: the index that gives this order is being filled"))
}

/// Whether a text of 1105 tells of a state that passes.
#[must_use]
pub fn is_passing(message: &str) -> bool {
    if message.ends_with(OF_VALUES) {
        return false;
    }
    let missing = || {
        let number = message.strip_prefix(RECOVERING)?.strip_suffix(" missing")?;
        number.strip_suffix(" transactions").or_else(|| number.strip_suffix(" transaction"))
    };
    let index = || message.strip_prefix(INDEX)?.strip_suffix(NOT_YET)?.split_once(OF_TABLE);
    message == STARTING
        || message.starts_with(UNSYNCED)
        || message.starts_with(TOO_OLD)
        || missing().is_some_and(is_number)
        || index().is_some_and(|(index, table)| is_number(index) && is_number(table))
        || (message.starts_with(TABLE) && message.contains(NOT_READABLE))
        || (message.starts_with(ORDERED_TABLE) && message.ends_with(INDEX_IS_FILLED))
}

fn is_number(text: &str) -> bool {
    !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn states_are_told_from_what_a_client_may_write() {
        for error in [
            recovering(1),
            recovering(17),
            may_have_shown_more("the source is being asked"),
            snapshot_too_old("it was given up"),
            not_readable("shop", "it's `o`", "engine MEMORY keeps none"),
            index_is_filled("`shop`.`o`"),
            SqlError::new(1105, "HY000", STARTING),
            SqlError::new(1105, "HY000", "index 2 of table id 17 is being filled and cannot be read yet"),
        ] {
            assert!(error.code == 1105 && is_passing(&error.message), "{error}");
        }
        assert_eq!(recovering(1).message, "recovering, 1 transaction missing");
        assert_eq!(recovering(2).message, "recovering, 2 transactions missing");
        let names = [
            STARTING,
            "is starting",
            "recovering, 3 transactions missing",
            "recovering, an earlier run may have shown unsynced transactions; ",
            "snapshot too old: it was given up",
            "Table 'a.b' cannot be read now: x",
            "Table `a`.`b`: the index that gives this order is being filled",
            "index 1 of table id 2 is being filled and cannot be read yet",
        ];
        // Other texts of 1105, with names and values of a client.
        for name in names {
            for text in [
                format!("column {name}: not a valid DATE"),
                format!("{name} is no value for a INT column"),
                format!("the recorded definition of {name} is not a table"),
                format!("not supported yet: {name}"),
                format!("the source must be asked what it has: {name}"),
            ] {
                assert!(!is_passing(&text), "{text}");
            }
        }
        for text in ["recovering, x transactions missing", "recovering, ", "Table 'a.b' doesn't exist", "is starting"] {
            assert!(!is_passing(text), "{text}");
        }
    }
}
