//! What was recorded is what a real server says: its variables, status variables, and the columns of the tables that
//! are kept nowhere. `SLIPSTREAM_WRITE_EXPECTED=1` records it again.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::fmt::Write as _;
use std::path::PathBuf;

use client::{ClientError, Connection};
use sql::listing::{show_create_virtual, tables_of};
use testkit::Server;
use testkit::raw_client::{CAPABILITIES, RawClient};
use wire::response::ColumnDefinition;

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

/// How MySQL refuses a SET of a session's variable, whatever the value: see the file's head.
fn settable(connection: &mut Connection, name: &str) -> &'static str {
    match connection.query(&format!("SET SESSION {name} = DEFAULT")) {
        Err(ClientError::Server { code: 1238, .. }) => "r",
        Err(ClientError::Server { code: 1621, .. }) => "l",
        Err(ClientError::Server { code: 1230, .. }) => "n",
        _ => "",
    }
}

/// One line of the file; None for a variable that cannot be read.
fn line(
    connection: &mut Connection,
    name: &str,
    (global, session): (bool, bool),
    is_switch: bool,
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
    let mark = |on: bool, mark: &'static str| if on { mark } else { "" };
    let scopes = format!("{}{}{}", mark(global, "g"), mark(session, "s"), mark(is_switch, "b"));
    let unsigned = if column.is_unsigned() { "u" } else { "-" };
    let length = if number { column.length } else { 0 };
    let (least, most) = bounds;
    let scopes = scopes + settable(connection, name);
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
        "SELECT LOWER(VARIABLE_NAME), VARIABLE_SCOPE, MIN_VALUE, MAX_VALUE, DATA_TYPE \
         FROM performance_schema.variables_metadata",
    );
    all.sort();
    let mut text = format!(
        "# The system variables of MySQL {version}, recorded by tests/recorded.rs:\n\
         # name, scopes (b: ON or OFF in SHOW), type code, unsigned, length of a number, least and largest value, value.\n\
         # SET fails where the scopes end with r: 1238, l: 1621, n: 1230 for DEFAULT.\n"
    );
    for row in all {
        let [Some(name), Some(kind), least, most, Some(data_type)] = &row[..] else { panic!("{row:?}") };
        let scopes = match kind.as_str() {
            "GLOBAL" => (true, false),
            "SESSION_ONLY" => (false, true),
            _ => (global.contains(name), session.contains(name)),
        };
        let bounds = (least.clone().unwrap_or_default(), most.clone().unwrap_or_default());
        if let Some(line) = line(&mut connection, name, scopes, data_type == "Boolean", bounds) {
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

#[test]
fn the_deprecated_variables_are_those_of_the_server() {
    let Some(server) = Server::or_skip("recorded-deprecated", &[]) else { return };
    let mut connection = server.connect();
    for variable in sql::variables() {
        let name = variable.name;
        // Not those of other servers, and of plugins.
        if connection.query(&format!("SELECT @@{name}")).is_err() {
            continue;
        }
        let found = rows(&mut connection, "SHOW WARNINGS");
        let expected = sql::deprecated_variable(name).map(|warning| {
            let sql::Warning { level, code, message } = warning;
            vec![Some(level.to_owned()), Some(code.to_string()), Some(message)]
        });
        assert_eq!(found, expected.into_iter().collect::<Vec<_>>(), "{name}");
    }
}

#[test]
fn what_the_server_says_of_defaults_is_said_of_them() {
    let Some(server) = Server::or_skip("recorded-defaults", &[]) else { return };
    let mut connection = server.connect();
    let mut said = 0;
    for variable in sql::variables().iter().filter(|variable| variable.session) {
        // Other servers' and plugins' are errors, and no warnings.
        if connection.query(&format!("SET SESSION {} = DEFAULT", variable.name)).is_err() {
            continue;
        }
        let found = rows(&mut connection, "SHOW WARNINGS");
        let expected = sql::deprecated_variable(variable.name).into_iter().chain(sql::set_to_default(variable.name));
        let expected: Vec<_> = expected
            .map(|sql::Warning { level, code, message }| {
                vec![Some(level.to_owned()), Some(code.to_string()), Some(message)]
            })
            .collect();
        assert_eq!(found, expected, "{}", variable.name);
        said += found.len();
    }
    assert!(said > 10, "{said}");
}

/// Compares with a recorded file, or writes it.
fn check(file: &str, found: &str) {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("src").join(file);
    if std::env::var("SLIPSTREAM_WRITE_EXPECTED").is_ok() {
        std::fs::write(&path, found).unwrap();
        return;
    }
    assert_eq!(found, std::fs::read_to_string(&path).unwrap(), "{file}");
}

#[test]
fn the_recorded_members_are_those_of_the_server() {
    let Some(server) = Server::or_skip("recorded-members", &[]) else { return };
    let sql = "SELECT CONCAT(TABLE_SCHEMA, '.', TABLE_NAME), COLUMN_NAME, COLUMN_TYPE FROM information_schema.COLUMNS \
        WHERE TABLE_SCHEMA IN ('information_schema', 'performance_schema') AND DATA_TYPE = 'enum' ORDER BY 1, 2";
    let mut text =
        "# The members of ENUM columns of MySQL 9.7.4's information_schema and performance_schema, recorded by\n\
        # tests/recorded.rs: table, column, members in the order of their numbers.\n"
            .to_owned();
    for row in rows(&mut server.connect(), sql) {
        let [Some(table), Some(column), Some(ty)] = &row[..] else { panic!("{row:?}") };
        let members = ty.strip_prefix("enum('").and_then(|rest| rest.strip_suffix("')")).unwrap();
        writeln!(text, "{table}\t{column}\t{}", members.replace("','", "|")).unwrap();
    }
    check("members.tsv", &text);
}

#[test]
fn the_recorded_status_variables_are_those_of_the_server() {
    let Some(server) = Server::or_skip("recorded-status", &[]) else { return };
    let mut connection = server.connect();
    let all = rows(&mut connection, "SHOW STATUS");
    let names = |connection: &mut Connection, sql: &str| -> Vec<String> {
        rows(connection, sql).into_iter().map(|row| row[0].clone().unwrap()).collect()
    };
    let global = names(&mut connection, "SHOW GLOBAL STATUS");
    let listed = names(&mut connection, "SELECT VARIABLE_NAME FROM performance_schema.session_status");
    let mut text = "# The status variables of MySQL 9.7, recorded by tests/recorded.rs: name, g for a value of the server, t for\n\
        # those of performance_schema, value where nothing has happened.\n"
        .to_owned();
    for row in &all {
        let (name, value) = (row[0].clone().unwrap(), row[1].clone().unwrap_or_default());
        let mark = |list: &[String], mark: &'static str| if list.contains(&name) { mark } else { "" };
        // Numbers count what happened in that server; texts are of its machine.
        let nothing = match value.as_str() {
            number if number.parse::<f64>().is_ok() => {
                if number.contains('.') {
                    "0.000000"
                } else {
                    "0"
                }
            }
            "ON" | "OFF" => "OFF",
            _ => "",
        };
        writeln!(text, "{name}\t{}{}\t{nothing}", mark(&global, "g"), mark(&listed, "t")).unwrap();
    }
    check("status.tsv", &text);
}

/// Tables of a fork that MySQL does not have.
const OF_A_FORK: &[&str] = &[
    "CLIENT_STATISTICS",
    "COMPRESSION_DICTIONARY",
    "COMPRESSION_DICTIONARY_TABLES",
    "GLOBAL_TEMPORARY_TABLES",
    "INDEX_STATISTICS",
    "INNODB_TABLESPACES_ENCRYPTION",
    "TABLE_STATISTICS",
    "TEMPORARY_TABLES",
    "THREAD_STATISTICS",
    "USER_STATISTICS",
    "XTRADB_INTERNAL_HASH_TABLES",
    "XTRADB_READ_VIEW",
    "XTRADB_RSEG",
    "XTRADB_ZIP_DICT",
    "XTRADB_ZIP_DICT_COLS",
];

/// SHOW statements whose columns are recorded, and the name of each.
const SHOWS: &[(&str, &str)] = &[
    ("SHOW VARIABLES", "SHOW VARIABLES"),
    ("SHOW GLOBAL VARIABLES", "SHOW GLOBAL VARIABLES"),
    ("SHOW STATUS", "SHOW STATUS"),
    ("SHOW GLOBAL STATUS", "SHOW GLOBAL STATUS"),
    ("SHOW DATABASES", "SHOW DATABASES"),
    ("SHOW TABLES", "SHOW TABLES FROM d"),
    ("SHOW FULL TABLES", "SHOW FULL TABLES FROM d"),
    ("SHOW COLUMNS", "SHOW COLUMNS FROM d.t"),
    ("SHOW FULL COLUMNS", "SHOW FULL COLUMNS FROM d.t"),
    ("SHOW INDEX", "SHOW INDEX FROM d.t"),
    ("SHOW TABLE STATUS", "SHOW TABLE STATUS FROM d"),
    ("SHOW COLLATION", "SHOW COLLATION"),
    ("SHOW CHARACTER SET", "SHOW CHARACTER SET"),
    ("SHOW ENGINES", "SHOW ENGINES"),
    ("SHOW PLUGINS", "SHOW PLUGINS"),
    ("SHOW OPEN TABLES", "SHOW OPEN TABLES"),
    ("SHOW TRIGGERS", "SHOW TRIGGERS FROM d"),
    ("SHOW EVENTS", "SHOW EVENTS FROM d"),
    ("SHOW FUNCTION STATUS", "SHOW FUNCTION STATUS"),
    ("SHOW PROCEDURE STATUS", "SHOW PROCEDURE STATUS"),
];

/// The collations in which a SHOW announces its columns, by name, to a client that nothing is converted for.
fn announced(client: &mut RawClient, sql: &str) -> Vec<(String, String)> {
    let packets = client.query(sql);
    let columns = packets[1..=usize::from(packets[0][0])].iter().map(|packet| ColumnDefinition::parse(packet).unwrap());
    let texts = columns.filter(|column| column.collation != 63);
    let name = |id: u16| values::collation::by_id(id).map_or("-", |found| found.name).to_owned();
    texts.map(|column| (String::from_utf8_lossy(column.name).into_owned(), name(column.collation))).collect()
}

/// The lines of a result's columns; None for an error. `collations` are of columns by name.
fn listed(client: &mut RawClient, name: &str, sql: &str, collations: &[(String, String)]) -> Option<String> {
    // A SELECT is described when it is prepared; a SHOW otherwise than when it runs.
    let runs = name.starts_with("SHOW");
    let packets = if runs { client.query(sql) } else { client.prepare(sql) };
    let first = &packets[0];
    if first[0] == 0xff {
        return None;
    }
    let count = if !runs { u16::from_le_bytes([first[5], first[6]]).into() } else { usize::from(first[0]) };
    let mut text = format!("> {name}\n");
    for packet in &packets[1..=count] {
        let column = ColumnDefinition::parse(packet).unwrap();
        let part = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
        let table = if column.table == b"x" { "=".to_owned() } else { part(column.table) };
        let is_text = column.collation != 63;
        // Four bytes a character, but for a length that is none of the type.
        let length = match column.length {
            u32::MAX => u32::MAX,
            length if is_text => length.div_ceil(4),
            length => length,
        };
        let collation = collations.iter().find(|(own, _)| own.as_bytes() == column.name);
        writeln!(
            text,
            "{}\t{}\t{table}\t{}\t{}\t{}\t{}\t{length}\t{}\t{}\t{}",
            part(column.name),
            part(column.schema),
            part(column.org_table),
            part(column.org_name),
            column.type_code,
            column.flags,
            column.decimals,
            if is_text { "text" } else { "-" },
            collation.map_or("-", |(_, collation)| collation),
        )
        .unwrap();
    }
    Some(text)
}

#[test]
fn the_recorded_listings_are_those_of_the_server() {
    let Some(server) = Server::or_skip("recorded-listings", &[]) else { return };
    server.sql("CREATE DATABASE d; CREATE TABLE d.t (id INT PRIMARY KEY)");
    let mut connection = server.connect();
    let mut client = RawClient::over_socket(&server.socket(), "root", CAPABILITIES);
    client.query("SET NAMES utf8mb4");
    let tables = rows(
        &mut connection,
        "SELECT TABLE_SCHEMA, TABLE_NAME FROM information_schema.TABLES \
         WHERE TABLE_SCHEMA IN ('information_schema', 'performance_schema') ORDER BY 1, 2",
    );
    let mut text = "# Columns of tables that are kept nowhere, of MySQL 9.7, recorded by tests/recorded.rs: name, schema, table\n\
        # (=: the alias), original table and name, type code, flags, length (text: in characters), decimals, whether it is\n\
        # text, collation.\n"
        .to_owned();
    for table in tables {
        let (schema, table) = (table[0].clone().unwrap(), table[1].clone().unwrap());
        if OF_A_FORK.contains(&table.as_str()) {
            continue;
        }
        let collations = rows(
            &mut connection,
            &format!(
                "SELECT COLUMN_NAME, IFNULL(COLLATION_NAME, '-') FROM information_schema.COLUMNS \
                 WHERE TABLE_SCHEMA = '{schema}' AND TABLE_NAME = '{table}'"
            ),
        );
        let collations: Vec<_> =
            collations.into_iter().map(|row| (row[0].clone().unwrap(), row[1].clone().unwrap())).collect();
        let sql = format!("SELECT * FROM {schema}.{table} x");
        text.extend(listed(&mut client, &format!("{schema}.{table}"), &sql, &collations));
    }
    let mut unconverted = RawClient::over_socket(&server.socket(), "root", CAPABILITIES);
    unconverted.query("SET character_set_results = NULL");
    for (name, sql) in SHOWS {
        let collations = &announced(&mut unconverted, sql);
        let as_run = listed(&mut client, name, sql, collations).unwrap();
        // Those that are no SELECT say nothing when they are prepared.
        let prepared = listed(&mut client, &format!("prepare {name}"), sql, collations).unwrap();
        let (head, columns) = prepared.split_once('\n').unwrap();
        text.push_str(&as_run);
        if !columns.is_empty() && as_run.split_once('\n').unwrap().1 != columns {
            writeln!(text, "{head}\n{}", columns.trim_end()).unwrap();
        }
    }
    check("listings.tsv", &text);
}

/// Tables whose rows are those of any server.
const SAME_EVERYWHERE: &[&str] = &["CHARACTER_SETS", "COLLATIONS", "COLLATION_CHARACTER_SET_APPLICABILITY", "KEYWORDS"];

#[test]
fn the_recorded_rows_are_those_of_the_server() {
    let Some(server) = Server::or_skip("recorded-rows", &[]) else { return };
    let mut connection = server.connect();
    let mut text = "# Rows of tables that are the same in every MySQL 9.7, recorded by tests/recorded.rs.\n".to_owned();
    for table in SAME_EVERYWHERE {
        writeln!(text, "> information_schema.{table}").unwrap();
        for row in rows(&mut connection, &format!("SELECT * FROM information_schema.{table} ORDER BY 1, 2")) {
            let cells: Vec<String> = row.into_iter().map(|cell| cell.unwrap_or_else(|| "\\N".to_owned())).collect();
            writeln!(text, "{}", cells.join("\t")).unwrap();
        }
    }
    check("listed_rows.tsv", &text);
}

/// What `information_schema` says of the virtual schemas' own tables. Of columns that is shortened: schema and table
/// stand above, and what follows from type and collation is left out.
#[test]
fn the_recorded_rows_of_virtual_tables_are_those_of_the_server() {
    let Some(server) = Server::or_skip("recorded-virtual", &[]) else { return };
    let mut connection = server.connect();
    let mut text =
        "# What information_schema of every MySQL 9.7 says of tables of information_schema and performance_schema,\n\
        # recorded by tests/recorded.rs.\n"
            .to_owned();
    let put = |text: &mut String, row: Vec<Option<String>>| {
        let cells: Vec<String> = row.into_iter().map(|cell| cell.unwrap_or_else(|| "\\N".to_owned())).collect();
        assert!(cells.iter().all(|cell| !cell.contains(['\t', '\n'])), "{cells:?}");
        writeln!(text, "{}", cells.join("\t")).unwrap();
    };
    let of_virtual = "TABLE_SCHEMA IN ('information_schema', 'performance_schema')";
    let columns = format!(
        "SELECT CONCAT(TABLE_SCHEMA, '.', TABLE_NAME), COLUMN_NAME, COLUMN_DEFAULT, IS_NULLABLE, COLUMN_TYPE,
         CHARACTER_MAXIMUM_LENGTH, CHARACTER_OCTET_LENGTH, NUMERIC_PRECISION, NUMERIC_SCALE, DATETIME_PRECISION,
         COLLATION_NAME, COLUMN_KEY, COLUMN_COMMENT FROM information_schema.COLUMNS WHERE {of_virtual}
         ORDER BY TABLE_SCHEMA, TABLE_NAME, ORDINAL_POSITION"
    );
    let mut above = String::new();
    for mut row in rows(&mut connection, &columns) {
        let table = row.remove(0).unwrap();
        if OF_A_FORK.contains(&table.rsplit('.').next().unwrap()) {
            continue;
        }
        if above != table {
            writeln!(text, "> COLUMNS {table}").unwrap();
            above = table;
        }
        put(&mut text, row);
    }
    writeln!(text, "> STATISTICS").unwrap();
    let with_keys = format!(
        "SELECT DISTINCT TABLE_SCHEMA, TABLE_NAME FROM information_schema.STATISTICS WHERE {of_virtual} ORDER BY 1, 2"
    );
    for table in rows(&mut connection, &with_keys) {
        let [schema, table] = [0, 1].map(|at| table[at].clone().unwrap());
        // In the order in which SHOW INDEX has the keys.
        let names = rows(&mut connection, &format!("SHOW INDEX FROM {schema}.{table}"));
        let of_table = format!("WHERE TABLE_SCHEMA = '{schema}' AND TABLE_NAME = '{table}'");
        let mut keys = rows(&mut connection, &format!("SELECT * FROM information_schema.STATISTICS {of_table}"));
        // Key_name and Seq_in_index.
        keys.sort_by_key(|key| names.iter().position(|name| name[2..4] == key[5..7]));
        keys.into_iter().for_each(|key| put(&mut text, key));
    }
    for (table, order) in [
        ("TABLE_CONSTRAINTS", "TABLE_NAME, CONSTRAINT_NAME"),
        ("KEY_COLUMN_USAGE", "TABLE_NAME, CONSTRAINT_NAME, ORDINAL_POSITION"),
    ] {
        writeln!(text, "> {table}").unwrap();
        let sql = format!("SELECT * FROM information_schema.{table} WHERE {of_virtual} ORDER BY {order}");
        rows(&mut connection, &sql).into_iter().for_each(|row| put(&mut text, row));
    }
    check("virtual_rows.tsv", &text);
}

#[test]
fn the_statements_of_virtual_tables_are_those_of_the_server() {
    let Some(server) = Server::or_skip("recorded-statements", &[]) else { return };
    let mut connection = server.connect();
    let (mut compared, mut different) = (0, Vec::new());
    for schema in ["information_schema", "performance_schema"] {
        for table in tables_of(schema) {
            let shown = rows(&mut connection, &format!("SHOW CREATE TABLE {schema}.{table}"));
            let theirs = shown[0][1].clone().unwrap();
            // Of a view there are more columns.
            assert_eq!(show_create_virtual(schema, table).is_none(), shown[0].len() == 4, "{schema}.{table}");
            let Some(ours) = show_create_virtual(schema, table) else { continue };
            compared += 1;
            if ours != theirs {
                different.push(format!("{ours}\n---\n{theirs}"));
            }
        }
    }
    assert!(different.is_empty(), "{} of {compared}:\n{}", different.len(), different.join("\n\n"));
    assert!(compared > 145, "{compared}");
}
