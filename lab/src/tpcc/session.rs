//! A connection with its prepared statements; rows as owned cells; errors that mean "retry".

use std::collections::HashMap;

use anyhow::{Context, Result};
use client::{ClientError, ConnectOptions, Connection, Param, Statement, Value};

/// A value as the transactions need it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Cell {
    Null,
    Int(i64),
    Text(Vec<u8>),
}

impl Cell {
    pub(crate) fn int(&self) -> Option<i64> {
        match self {
            Cell::Int(value) => Some(*value),
            Cell::Text(text) => std::str::from_utf8(text).ok()?.parse().ok(),
            Cell::Null => None,
        }
    }

    /// A DECIMAL with two digits after the point, in hundredths.
    pub(crate) fn cents(&self) -> Option<i64> {
        match self {
            Cell::Null => None,
            Cell::Int(value) => value.checked_mul(100),
            Cell::Text(text) => parse_cents(std::str::from_utf8(text).ok()?),
        }
    }

    pub(crate) fn text(&self) -> &[u8] {
        match self {
            Cell::Text(text) => text,
            _ => &[],
        }
    }
}

fn parse_cents(text: &str) -> Option<i64> {
    let (negative, digits) = match text.strip_prefix('-') {
        Some(rest) => (true, rest),
        None => (false, text),
    };
    let (whole, fraction) = digits.split_once('.').unwrap_or((digits, ""));
    let mut cents = whole.parse::<i64>().ok()?.checked_mul(100)?;
    let fraction = fraction.as_bytes();
    for (place, unit) in [(0, 10), (1, 1)] {
        if let Some(digit) = fraction.get(place) {
            cents = cents.checked_add(i64::from(digit.wrapping_sub(b'0')) * unit)?;
        }
    }
    Some(if negative { -cents } else { cents })
}

/// Hundredths as a DECIMAL literal.
pub(crate) fn cents_text(cents: i64) -> String {
    let sign = if cents < 0 { "-" } else { "" };
    format!("{sign}{}.{:02}", cents.abs() / 100, cents.abs() % 100)
}

/// What a terminal does after an error.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Remedy {
    /// Retry the transaction: deadlock, lock wait, certification conflict.
    Retry,
    Reconnect,
    Fail,
}

/// 1205 lock wait, 1213 deadlock, 3101 certification (groups), 8002 and 9007 write conflicts (TiDB).
pub(crate) fn remedy(error: &ClientError) -> Remedy {
    match error.server_code() {
        Some(1205 | 1213 | 3101 | 8002 | 9007) => Remedy::Retry,
        _ if error.is_transient() => Remedy::Reconnect,
        _ => Remedy::Fail,
    }
}

/// A connection and its statements, each prepared at first use.
pub(crate) struct Session {
    connection: Connection,
    statements: HashMap<&'static str, Statement>,
}

impl Session {
    /// Connects, to `database` if given. First sets the variables, given as names and literals.
    pub(crate) fn connect(
        options: &ConnectOptions,
        database: Option<&str>,
        variables: &[(String, String)],
    ) -> Result<Self, ClientError> {
        let mut options = options.clone();
        options.database = database.map(str::to_owned);
        let mut connection = Connection::connect(&options)?;
        if !variables.is_empty() {
            let list: Vec<String> = variables.iter().map(|(name, value)| format!("SESSION {name} = {value}")).collect();
            connection.exec(&format!("SET {}", list.join(", ")))?;
        }
        Ok(Session { connection, statements: HashMap::new() })
    }

    /// Runs a text statement that returns no rows.
    pub(crate) fn text(&mut self, sql: &str) -> Result<(), ClientError> {
        self.connection.exec(sql).map(drop)
    }

    /// Runs a prepared statement that returns no rows; returns the number of affected rows.
    pub(crate) fn execute(&mut self, sql: &'static str, params: &[Param<'_>]) -> Result<u64, ClientError> {
        self.prepare(sql)?;
        let Some(statement) = self.statements.get(sql) else { return Err(ClientError::Broken) };
        Ok(self.connection.execute_ok(statement, params)?.affected_rows)
    }

    /// Rows of a prepared statement.
    pub(crate) fn rows(&mut self, sql: &'static str, params: &[Param<'_>]) -> Result<Vec<Vec<Cell>>, ClientError> {
        self.prepare(sql)?;
        let Some(statement) = self.statements.get(sql) else { return Err(ClientError::Broken) };
        let columns = statement.columns.len();
        let mut rows = self.connection.execute(statement, params)?;
        let mut found = Vec::new();
        while let Some(mut row) = rows.next_row()? {
            let mut cells = Vec::with_capacity(columns);
            for _ in 0..columns {
                cells.push(match row.next_value()? {
                    Value::Int(value) => Cell::Int(value),
                    Value::UInt(value) => Cell::Int(i64::try_from(value).unwrap_or(i64::MAX)),
                    Value::Bytes(bytes) => Cell::Text(bytes.to_vec()),
                    // Dates are fetched because the specification shows them; nothing here computes with them.
                    _ => Cell::Null,
                });
            }
            found.push(cells);
        }
        Ok(found)
    }

    /// First row of a prepared statement.
    pub(crate) fn row(&mut self, sql: &'static str, params: &[Param<'_>]) -> Result<Option<Vec<Cell>>, ClientError> {
        Ok(self.rows(sql, params)?.into_iter().next())
    }

    /// The single number that a text query returns.
    pub(crate) fn number(&mut self, sql: &str) -> Result<u64> {
        let result = self.connection.query(sql).with_context(|| sql.to_owned())?;
        let text = result.first_text().unwrap_or_default();
        text.parse().with_context(|| format!("'{text}' is no number: {sql}"))
    }

    /// Rows of a text query as text, NULL as "NULL".
    pub(crate) fn table(&mut self, sql: &str) -> Result<Vec<Vec<String>>> {
        let result = self.connection.query(sql).with_context(|| sql.to_owned())?;
        let text = |value: Option<Vec<u8>>| {
            value.map_or_else(|| "NULL".to_owned(), |bytes| String::from_utf8_lossy(&bytes).into_owned())
        };
        Ok(result.rows.into_iter().map(|row| row.into_iter().map(text).collect()).collect())
    }

    fn prepare(&mut self, sql: &'static str) -> Result<(), ClientError> {
        if !self.statements.contains_key(sql) {
            let statement = self.connection.prepare(sql)?;
            self.statements.insert(sql, statement);
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cents_there_and_back() {
        for (text, cents) in [("0.00", 0), ("12.34", 1234), ("-10.00", -1000), ("-0.05", -5), ("300000.00", 30_000_000)]
        {
            assert_eq!(parse_cents(text), Some(cents), "{text}");
            assert_eq!(cents_text(cents), text);
        }
        assert_eq!(parse_cents("7"), Some(700));
        assert_eq!(parse_cents("7.5"), Some(750));
        assert_eq!(parse_cents("x"), None);
        assert_eq!(Cell::Null.cents(), None);
        assert_eq!(Cell::Text(b"41".to_vec()).int(), Some(41));
    }

    #[test]
    fn deadlocks_are_retried_lost_connections_reconnected() {
        let server = |code| ClientError::Server { code, sqlstate: "HY000".into(), message: "planted".into() };
        assert_eq!(remedy(&server(1213)), Remedy::Retry);
        assert_eq!(remedy(&server(1205)), Remedy::Retry);
        assert_eq!(remedy(&server(1053)), Remedy::Reconnect);
        assert_eq!(remedy(&ClientError::Closed), Remedy::Reconnect);
        assert_eq!(remedy(&server(1146)), Remedy::Fail);
    }
}
