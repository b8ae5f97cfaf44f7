//! Sessions that read rows exactly, and queries on such sessions.
//!
//! In: connection options. Out: a session that returns values as they are stored (invariant 21), names in backticks,
//! the server's GTID set. Never here: a lock, a transaction.

use base::GtidSet;

use crate::{ConnectOptions, Connection, Result};

/// ER_UNKNOWN_SYSTEM_VARIABLE: the server does not have MySQL's GTIDs.
const UNKNOWN_VARIABLE: u16 = 1193;

/// Opens a session that returns values as they are stored: UTC, no character set conversion, no sql_mode. Its
/// transactions are REPEATABLE READ, begin and end only on request, and it may wait long while the other side is busy.
/// Server settings that would change results are reset: a limit on rows would silently drop some, autocommit=0 would
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
    // Rows may wait while the other side is read. Not every server has all of these variables.
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

/// The server's `gtid_executed`; None if the server has no such variable.
///
/// # Errors
/// The connection fails, or the answer is not a GTID set.
pub fn gtid_executed(connection: &mut Connection) -> Result<Option<GtidSet>> {
    let what = "SELECT @@GLOBAL.gtid_executed";
    match connection.query_gtids(what) {
        Ok(answer) => answer.told(0, 0, what).map(Some),
        Err(error) if error.server_code() == Some(UNKNOWN_VARIABLE) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Opens every MEMORY table that this account sees.
///
/// The rows of such a table are gone after a restart of the server, but the TRUNCATE TABLE that tells its replicas is
/// written only when the table is opened for the first time. It is in `gtid_executed` when this returns. Without it a
/// reader sees an empty table at a GTID set that says nothing of that. Statistics of `information_schema` must not be
/// asked for before: they open the table too, but 9.7 then leaves the TRUNCATE TABLE out for good.
///
/// # Errors
/// The connection fails. A table that cannot be opened is passed over: others use it, or it is gone.
pub fn open_memory_tables(connection: &mut Connection) -> Result<()> {
    const SECONDS: &str = "SET SESSION lock_wait_timeout =";
    let what = "SELECT TABLE_SCHEMA, TABLE_NAME FROM information_schema.TABLES \
                WHERE ENGINE = 'MEMORY' AND TABLE_TYPE = 'BASE TABLE'";
    let tables = connection.query(what)?;
    if tables.rows.is_empty() {
        return Ok(());
    }
    let before = connection.query_value("SELECT @@SESSION.lock_wait_timeout")?;
    connection.exec(&format!("{SECONDS} 1"))?;
    for row in 0..tables.rows.len() {
        let name = |column| tables.told::<String>(row, column, what).map(|name| quoted(&name));
        match connection.query(&format!("SELECT 1 FROM {}.{} LIMIT 0", name(0)?, name(1)?)) {
            Err(error) if error.server_code().is_none() => return Err(error),
            _ => {}
        }
    }
    connection.exec(&format!("{SECONDS} {}", before.as_deref().unwrap_or("DEFAULT")))?;
    Ok(())
}

/// Most members of an ENUM or SET column (`MAX_ENUM_VALUES` in sql/sql_const.h; a SET has 64).
const MEMBERS_MAX: usize = 65_535;

/// The `count` names of an ENUM or SET column as utf8mb4, or None if the server cannot return them.
///
/// The dictionary and SHOW CREATE TABLE print a character outside the basic plane as `?` (9.7; their text is utf8mb3).
/// Values keep it: the outer join makes one row whose column has the ENUM's type without reading the table, and the
/// recursion stores each number into that column. Servers before 8.0 do not support such a query.
///
/// # Errors
/// The connection fails.
pub fn members(
    connection: &mut Connection,
    (db, table, column): (&str, &str, &str),
    is_set: bool,
    count: usize,
) -> Result<Option<Vec<String>>> {
    let number = if is_set { "1 << n" } else { "n + 1" };
    let sql = format!(
        "WITH RECURSIVE member (n, name) AS (SELECT 0, t.{column} FROM (SELECT 1) one LEFT JOIN {db}.{table} t ON FALSE \
         UNION ALL SELECT n + 1, {number} FROM member WHERE n < {count}) \
         SELECT /*+ SET_VAR(cte_max_recursion_depth = {MEMBERS_MAX}) */ HEX(CONVERT(name USING utf8mb4)) FROM member \
         WHERE n > 0 ORDER BY n",
        db = quoted(db),
        table = quoted(table),
        column = quoted(column),
    );
    let result = match connection.query(&sql) {
        Ok(result) => result,
        Err(error) if error.server_code().is_some() => return Ok(None),
        Err(error) => return Err(error),
    };
    let names = (0..result.rows.len()).map(|row| from_hex(&result.text(row, 0)?)).collect::<Option<Vec<_>>>();
    Ok(names.filter(|names| names.len() == count))
}

fn from_hex(text: &str) -> Option<String> {
    let digits = text.as_bytes().chunks(2).map(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok());
    String::from_utf8(digits.collect::<Option<_>>()?).ok()
}

/// Quotes a name in backticks.
#[must_use]
pub fn quoted(name: &str) -> String {
    format!("`{}`", name.replace('`', "``"))
}

/// Quotes a text in single quotes, for a session with NO_BACKSLASH_ESCAPES off.
#[must_use]
pub fn quoted_text(text: &str) -> String {
    format!("'{}'", text.replace('\\', "\\\\").replace('\'', "''"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hexadecimal_digits_are_read_in_pairs() {
        assert_eq!(from_hex("F09F9880"), Some("😀".to_owned()));
        assert_eq!(from_hex(""), Some(String::new()));
        assert_eq!(from_hex("0g"), None);
    }

    #[test]
    fn names_and_texts_are_quoted() {
        assert_eq!(quoted("a`b"), "`a``b`");
        assert_eq!(quoted_text("it's a \\"), "'it''s a \\\\'");
    }
}
