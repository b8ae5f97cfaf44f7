//! Sessions that read rows exactly, and what is asked on them.
//!
//! In: how to reach a server. Out: a session whose values come as they are stored (invariant 21), names in backticks,
//! the server's GTID set. Never here: a lock, a transaction.

use base::GtidSet;

use crate::{ConnectOptions, Connection, Result, SourceError};

/// ER_UNKNOWN_SYSTEM_VARIABLE: the server has no GTIDs as MySQL has them.
const UNKNOWN_VARIABLE: u16 = 1193;

/// A session that gives values as they are stored: UTC, no conversion of character sets, no sql_mode; its transactions
/// are REPEATABLE READ, begin and end only where said, and it may wait long while the other side is busy. What the
/// server's own settings would change is set back: a limit on rows would lose them in silence, autocommit=0 would
/// show an old state for ever, a server that ignores the handshake's character set would misread names.
///
/// # Errors
/// The server cannot be reached or refuses.
pub fn reading_session(options: &ConnectOptions) -> Result<Connection> {
    let mut connection = Connection::connect(options)?;
    for statement in [
        "SET NAMES utf8mb4",
        "SET SESSION autocommit = 1, completion_type = 0",
        "SET SESSION sql_select_limit = 18446744073709551615, sql_big_selects = 1",
        "SET SESSION time_zone = '+00:00', character_set_results = NULL, sql_mode = ''",
        "SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ",
    ] {
        connection.exec(statement)?;
    }
    // Rows may wait while the other side is read. Not every server has all of these.
    for statement in [
        "SET SESSION net_write_timeout = 3600",
        "SET SESSION wait_timeout = 86400",
        "SET SESSION max_execution_time = 0",
    ] {
        match connection.exec(statement) {
            Err(error) if error.server_code().is_none() => return Err(error),
            _ => {}
        }
    }
    Ok(connection)
}

/// The server's `gtid_executed`; None where it has none.
///
/// # Errors
/// The connection fails; the answer is no GTID set.
pub fn gtid_executed(connection: &mut Connection) -> Result<Option<GtidSet>> {
    let what = "SELECT @@GLOBAL.gtid_executed";
    match connection.query_value(what) {
        Ok(text) => {
            let text: String = text.unwrap_or_default().split_whitespace().collect();
            text.parse().map(Some).map_err(|_| SourceError::UnexpectedAnswer { what })
        }
        Err(error) if error.server_code() == Some(UNKNOWN_VARIABLE) => Ok(None),
        Err(error) => Err(error),
    }
}

/// A name in backticks.
#[must_use]
pub fn quoted(name: &str) -> String {
    format!("`{}`", name.replace('`', "``"))
}

/// A text in single quotes, for a session with NO_BACKSLASH_ESCAPES off.
#[must_use]
pub fn quoted_text(text: &str) -> String {
    format!("'{}'", text.replace('\\', "\\\\").replace('\'', "''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_and_texts_are_quoted() {
        assert_eq!(quoted("a`b"), "`a``b`");
        assert_eq!(quoted_text("it's a \\"), "'it''s a \\\\'");
    }
}
