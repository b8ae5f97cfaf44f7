//! Statements as text: what a run did, what a regression repeats.
//!
//! In: units of a run, or a file. Out: the other one. A line `-- session N` names the session of the statements after
//! it. A statement is one line with its semicolon. Other lines that begin with `--` are comments; `-- unit` begins
//! another unit. Bytes that are no UTF-8, or not visible, are written in hexadecimal: `DROP TABLE ⟨815c⟩⟨00⟩`.
//! Never here: a choice at random.

use std::fmt::Write as _;

use client::{ConnectOptions, Connection};

/// COM_QUERY: runs the statement that follows.
const COM_QUERY: u8 = 0x03;

/// Statements of one session that belong together, mostly a transaction.
#[derive(Debug, Clone)]
pub struct Unit {
    /// Number of the session.
    pub session: usize,
    /// The statements in order.
    pub statements: Vec<Line>,
}

/// A statement that was run.
#[derive(Debug, Clone)]
pub struct Line {
    /// Text of the statement.
    pub sql: String,
    /// Number of the server's error, 0 if the connection broke; `None` if it was accepted.
    pub refused: Option<u16>,
}

/// Begins a refused statement, followed by the number of its error.
const REFUSED: &str = "/* refused ";

/// Text of these units.
#[must_use]
pub fn text(units: &[Unit]) -> String {
    let mut text = String::new();
    let mut session = None;
    for unit in units.iter().filter(|unit| !unit.statements.is_empty()) {
        if session != Some(unit.session) {
            session = Some(unit.session);
            writeln!(text, "-- session {}", unit.session).unwrap();
        } else {
            text.push_str("-- unit\n");
        }
        for line in &unit.statements {
            let refused = line.refused.map(|error| format!("{REFUSED}{error} */ ")).unwrap_or_default();
            writeln!(text, "{refused}{};", line.sql).unwrap();
        }
    }
    text
}

/// Parses units; refused statements are marked in the text.
#[must_use]
pub fn units(text: &str) -> Vec<Unit> {
    let mut units: Vec<Unit> = Vec::new();
    let mut session = 1;
    for line in text.lines().filter(|line| !line.trim().is_empty()) {
        if let Some(number) = line.strip_prefix("-- session ") {
            session = number.trim().parse().unwrap_or_else(|_| panic!("no session: {line}"));
            units.push(Unit { session, statements: Vec::new() });
        } else if line == "-- unit" {
            units.push(Unit { session, statements: Vec::new() });
        } else if !line.starts_with("--") {
            if units.is_empty() {
                units.push(Unit { session, statements: Vec::new() });
            }
            let marked = line.strip_prefix(REFUSED).and_then(|rest| rest.split_once("*/ "));
            let sql = marked.map_or(line, |(_, sql)| sql).trim_end().trim_end_matches(';').to_owned();
            let refused = marked.map(|(error, _)| error.trim().parse().unwrap_or(0));
            units.last_mut().expect("one").statements.push(Line { sql, refused });
        }
    }
    units
}

/// Connections of a script's sessions.
pub struct Sessions {
    url: String,
    database: String,
    open: std::collections::BTreeMap<usize, Connection>,
}

impl Sessions {
    /// Starts with none open. They use this database.
    #[must_use]
    pub fn new(url: String, database: String) -> Sessions {
        Sessions { url, database, open: std::collections::BTreeMap::new() }
    }

    /// Runs a statement in a session, which is opened on first use.
    ///
    /// # Errors
    /// Number and text of the server's error.
    pub fn run(&mut self, session: usize, sql: &str) -> Result<(), (u16, String)> {
        let connection = self.open.entry(session).or_insert_with(|| connect(&self.url, &self.database));
        let result = execute(connection, sql);
        if connection.is_broken() {
            self.open.remove(&session);
        }
        result.map(|_| ()).map_err(|error| (error.server_code().unwrap_or(0), error.to_string()))
    }

    /// Runs units in order; returns how many statements were refused without being marked so.
    pub fn run_all(&mut self, units: &[Unit]) -> usize {
        let lines = units.iter().flat_map(|unit| unit.statements.iter().map(move |line| (unit.session, line)));
        lines.filter(|(session, line)| self.run(*session, &line.sql).is_err() && line.refused.is_none()).count()
    }
}

/// The bytes of a statement as the server gets them.
#[must_use]
pub fn bytes(sql: &str) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(sql.len());
    let mut rest = sql;
    while let Some((before, hex)) = rest.split_once('⟨') {
        let (hex, after) = hex.split_once('⟩').unwrap_or_else(|| panic!("no end of the bytes: {sql}"));
        bytes.extend_from_slice(before.as_bytes());
        for pair in hex.as_bytes().chunks(2) {
            let pair = std::str::from_utf8(pair).expect("ASCII");
            bytes.push(u8::from_str_radix(pair, 16).unwrap_or_else(|_| panic!("no byte: {sql}")));
        }
        rest = after;
    }
    bytes.extend_from_slice(rest.as_bytes());
    bytes
}

/// These bytes as they stand in a statement's text.
#[must_use]
pub fn as_hex(bytes: &[u8]) -> String {
    bytes.iter().fold(String::from("⟨"), |text, byte| text + &format!("{byte:02x}")) + "⟩"
}

/// Runs one statement.
///
/// # Errors
/// Those of the server and of the connection.
pub fn execute(connection: &mut Connection, sql: &str) -> Result<(), client::ClientError> {
    let command = |out: &mut Vec<u8>| {
        out.push(COM_QUERY);
        out.extend(bytes(sql));
    };
    connection.command_ok(command).map(drop)
}

/// Opens a session as a script expects it: one that never waits long.
#[must_use]
pub fn connect(url: &str, database: &str) -> Connection {
    let mut options = ConnectOptions::from_url(url).expect("a URL");
    options.read_timeout = Some(crate::DEADLINE);
    let mut connection = Connection::connect(&options).expect("the server answers");
    // An UPDATE of two tables whose rows all match would change millions of pairs, for minutes.
    let fixed = "SET SESSION lock_wait_timeout = 1, innodb_lock_wait_timeout = 1, group_concat_max_len = 1000000, \
        max_join_size = 1000000";
    // Waits for another session's statement that alters the database.
    connection.exec(&format!("USE `{database}`")).expect("the database");
    connection.exec(fixed).expect("settings");
    connection.exec("SET NAMES utf8mb4").expect("names");
    connection
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_in_hexadecimal() {
        assert_eq!(bytes("a⟨815c⟩é⟨⟩⟨00⟩"), b"a\x81\x5c\xc3\xa9\x00");
        assert_eq!(bytes(&as_hex(&[0, 0xff])), [0, 0xff]);
    }
}
