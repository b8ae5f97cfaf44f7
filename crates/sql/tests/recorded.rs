//! The recorded variables are those of a real server. `SLIPSTREAM_WRITE_EXPECTED=1` records them again.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::fmt::Write as _;
use std::path::PathBuf;

use client::Connection;
use testkit::Server;

/// Variables whose values are of one machine or of the testbed: recorded without them.
const OF_THE_MACHINE: &[&str] = &[
    "admin_port",
    "character_sets_dir",
    "hostname",
    "lc_messages_dir",
    "log_error_suppression_list",
    "port",
    "pseudo_thread_id",
    "server_id",
    "statement_id",
    "version_compile_machine",
    "version_compile_os",
    "version_compile_zlib",
];

/// What the testbed's options change, with the values of a plain server.
const OF_THE_TESTBED: &[(&str, &str)] = &[
    ("enforce_gtid_consistency", "OFF"),
    ("gtid_mode", "OFF"),
    ("innodb_buffer_pool_size", "134217728"),
    ("innodb_flush_log_at_trx_commit", "1"),
    ("sync_binlog", "1"),
];

fn rows(connection: &mut Connection, sql: &str) -> Vec<Vec<Option<String>>> {
    let result = connection.query(sql).unwrap();
    let text = |value: &Option<Vec<u8>>| value.as_ref().map(|value| String::from_utf8_lossy(value).into_owned());
    result.rows.iter().map(|row| row.iter().map(text).collect()).collect()
}

/// Whether a value depends on the machine: paths, uuids, random numbers.
fn is_of_the_machine(name: &str, value: &str) -> bool {
    OF_THE_MACHINE.contains(&name)
        || value.contains('/') && value.len() > 1
        || name.ends_with("uuid")
        || name.starts_with("rand_")
}

/// One line of the file; None for a variable that cannot be read.
fn line(
    connection: &mut Connection,
    name: &str,
    (global, session): (bool, bool),
    bounds: (String, String),
) -> Option<String> {
    let scope = if session { "session" } else { "global" };
    let result = connection.query(&format!("SELECT @@{scope}.{name}")).ok()?;
    let column = &result.columns[0];
    let global_value = global.then(|| connection.query_value(&format!("SELECT @@global.{name}")).unwrap());
    let value = global_value.unwrap_or_else(|| result.first_text());
    let value = match OF_THE_TESTBED.iter().find(|(own, _)| *own == name) {
        Some((_, plain)) => Some((*plain).to_owned()),
        None => value,
    };
    let number = column.type_code != wire::row::type_code::VAR_STRING;
    let value = match value {
        Some(value) if is_of_the_machine(name, &value) => Some(if number { "0".to_owned() } else { String::new() }),
        value => value,
    };
    let value = value.map_or_else(|| "\\N".to_owned(), |value| value.replace(['\n', '\t'], ""));
    let scopes = format!("{}{}", if global { "g" } else { "" }, if session { "s" } else { "" });
    let unsigned = if column.is_unsigned() { "u" } else { "-" };
    let length = if number { column.length } else { 0 };
    let (least, most) = bounds;
    Some(format!("{name}\t{scopes}\t{}\t{unsigned}\t{length}\t{least}\t{most}\t{value}", column.type_code))
}

fn recorded(server: &Server) -> String {
    let mut connection = server.connect();
    let version = connection.query_value("SELECT VERSION()").unwrap().unwrap();
    let version: String = version.chars().take_while(|c| c.is_ascii_digit() || *c == '.').collect();
    let names = |connection: &mut Connection, table: &str| -> Vec<String> {
        let sql = format!("SELECT LOWER(VARIABLE_NAME) FROM performance_schema.{table}");
        rows(connection, &sql).into_iter().map(|row| row[0].clone().unwrap()).collect()
    };
    let global = names(&mut connection, "global_variables");
    let session = names(&mut connection, "session_variables");
    let mut all = rows(
        &mut connection,
        "SELECT LOWER(VARIABLE_NAME), VARIABLE_SCOPE, MIN_VALUE, MAX_VALUE FROM performance_schema.variables_metadata",
    );
    all.sort();
    let mut text = format!(
        "# The system variables of MySQL {version}, recorded by tests/recorded.rs:\n\
         # name, scopes, type code, unsigned, length of a number, least and largest value, value.\n"
    );
    for row in all {
        let [Some(name), Some(kind), least, most] = &row[..] else { panic!("{row:?}") };
        let scopes = match kind.as_str() {
            "GLOBAL" => (true, false),
            "SESSION_ONLY" => (false, true),
            _ => (global.contains(name), session.contains(name)),
        };
        let bounds = (least.clone().unwrap_or_default(), most.clone().unwrap_or_default());
        if let Some(line) = line(&mut connection, name, scopes, bounds) {
            writeln!(text, "{line}").unwrap();
        }
    }
    text
}

#[test]
fn the_recorded_variables_are_those_of_the_server() {
    let Some(server) = Server::or_skip("recorded", &[]) else { return };
    let found = recorded(&server);
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("src/variables.tsv");
    if std::env::var("SLIPSTREAM_WRITE_EXPECTED").is_ok() {
        std::fs::write(&path, found).unwrap();
        return;
    }
    // Another patch release may have another default; names, scopes and types stay.
    let shape = |text: &str| -> Vec<String> {
        let cells = |line: &str| line.split('\t').take(4).collect::<Vec<_>>().join(" ");
        text.lines().filter(|line| !line.starts_with('#')).map(cells).collect()
    };
    assert_eq!(shape(&found), shape(&std::fs::read_to_string(&path).unwrap()));
}
