//! Compares the copy with the source by the mysql client's own text of every row, independently of `slipstream verify`,
//! and by `slipstream verify` too.

use std::collections::{BTreeMap, BTreeSet};

use crate::{Replica, Server, slipstream, slipstream_with};

/// Lines of each table (sorted), by `db.table`.
type Tables = BTreeMap<String, Vec<String>>;
/// Column names of each table with rows, by `db.table`.
type Headers = BTreeMap<String, Vec<String>>;

/// Waits until the replica is current, then compares all tables of these databases in both ways. No row may have
/// contradicted the log on the way.
#[track_caller]
pub fn assert_equal(server: &Server, replica: &mut Replica, dbs: &[&str]) {
    replica.catch_up(server);
    let log = replica.log();
    let drift: Vec<&str> = log.lines().filter(|line| line.contains("[SLIP-000060]")).collect();
    assert!(drift.is_empty(), "rows are said to contradict the log: {drift:#?}");
    assert_equal_after_drift(server, replica, dbs);
}

/// As [`assert_equal`], for tests that plant differences.
#[track_caller]
pub fn assert_equal_after_drift(server: &Server, replica: &mut Replica, dbs: &[&str]) {
    replica.catch_up(server);
    assert_equal_at_rest(server, replica.data(), dbs);
    verify_equal(server, replica.data(), dbs);
}

/// Compares dumped text with the mysql client's output. Nothing may write to these databases meanwhile.
#[track_caller]
pub fn assert_equal_at_rest(server: &Server, data: &str, dbs: &[&str]) {
    let (here, headers) = dumped_tables(data, dbs, &table_names(server, dbs));
    let there = source_tables(server, dbs, &headers);
    let names = |tables: &Tables| tables.keys().cloned().collect::<BTreeSet<_>>();
    assert_eq!(names(&there), names(&here), "tables");
    for (name, rows) in &there {
        let copy = &here[name];
        let has_none = headers.get(name).is_some_and(|header| header.iter().all(String::is_empty));
        if rows != copy && !(has_none && rows.is_empty()) {
            let (missing, extra) = (only_in(rows, copy), only_in(copy, rows));
            panic!(
                "{name} differs: {} lines at the source, {} here\nonly at the source: {missing:#?}\nonly here: {extra:#?}",
                rows.len(),
                copy.len()
            );
        }
    }
}

/// The first lines of `these` that `others` lack, or have less often, shortened. Both are sorted.
fn only_in(these: &[String], others: &[String]) -> Vec<String> {
    let mut rest = others.iter().peekable();
    let lines = these.iter().filter(|line| {
        while rest.next_if(|other| other < line).is_some() {}
        rest.next_if_eq(line).is_none()
    });
    lines.take(5).map(|line| line.chars().take(300).collect()).collect()
}

/// Tries of `verify`, each of which waits a minute for a statement at the source to end.
const MOMENTS: u32 = 10;

/// `slipstream verify` must find every table of these databases equal.
#[track_caller]
pub fn verify_equal(server: &Server, data: &str, dbs: &[&str]) {
    // As root: without RELOAD a snapshot has to wait for a moment without commits.
    let mut arguments = vec!["verify".to_owned(), "--data".into(), data.into(), "--source".into(), server.url("root")];
    arguments.extend(table_names(server, dbs));
    let with = |command: &mut std::process::Command| {
        command.env_remove("MYSQL_PWD");
    };
    for left in (0..MOMENTS).rev() {
        let ran = slipstream_with(&arguments.iter().map(String::as_str).collect::<Vec<_>>(), with);
        let said = format!("{}{}", ran.out, ran.err);
        if !said.contains("no moment for a consistent snapshot") {
            ran.expect(0, &["EQUAL"]);
            return;
        }
        // A random UPDATE of two tables may change ten million rows.
        assert!(left > 0, "{said}{}", what_runs(server));
    }
}

/// Everything that holds locks at a server: its sessions and transactions, as it shows them at this moment.
fn what_runs(server: &Server) -> String {
    let ask = |sql: &str| format!("-- {sql}\n{}\n", server.sql(sql).trim_end());
    [
        "SHOW FULL PROCESSLIST",
        "SELECT * FROM information_schema.innodb_trx",
        "XA RECOVER",
        "SHOW OPEN TABLES WHERE In_use > 0",
        "SHOW GLOBAL STATUS LIKE 'Innodb_row_lock%'",
        // Empty if the server runs without performance_schema.
        "SELECT * FROM performance_schema.metadata_locks",
    ]
    .map(ask)
    .concat()
}

/// Tables of these databases as `db.table`.
#[must_use]
pub fn table_names(server: &Server, dbs: &[&str]) -> Vec<String> {
    let list = dbs.iter().map(|db| format!("'{db}'")).collect::<Vec<_>>().join(",");
    let sql = format!(
        "SELECT CONCAT(table_schema, '.', table_name) FROM information_schema.tables WHERE table_schema IN ({list}) \
         AND table_type = 'BASE TABLE'"
    );
    server.sql(&sql).lines().map(str::to_owned).collect()
}

/// Rows of every table. Virtual columns that the dump does not print are left out, and no others.
fn source_tables(server: &Server, dbs: &[&str], headers: &Headers) -> Tables {
    let mut sql = "SET time_zone = '+00:00';\n".to_owned();
    let virtual_columns = virtual_columns(server, dbs);
    let borrowing: Vec<String> = server
        .sql(
            "SELECT CONCAT(table_schema, '.', table_name) FROM information_schema.tables \
             WHERE engine IN ('MRG_MYISAM', 'FEDERATED')",
        )
        .lines()
        .map(str::to_owned)
        .collect();
    for name in table_names(server, dbs) {
        let (db, table) = name.split_once('.').unwrap();
        let printed = |column: &String| headers.get(&name).is_none_or(|header| header.contains(column));
        let columns = match virtual_columns.get(&name) {
            Some((_, computed)) if computed.iter().all(printed) => "*".to_owned(),
            Some((visible, computed)) => {
                let kept = visible.iter().filter(|column| !computed.contains(column) || printed(column));
                kept.map(|column| format!("`{}`", column.replace('`', "``"))).collect::<Vec<_>>().join(",")
            }
            None => "*".to_owned(),
        };
        sql.push_str(&format!("SELECT '-- {name}';\n"));
        // Where the only visible columns are virtual ones that are not known, the dump prints none.
        if !borrowing.contains(&name) && !columns.is_empty() {
            sql.push_str(&format!("SELECT {columns} FROM `{db}`.`{table}`;\n"));
        }
    }
    tables_of(&server.client(&["--binary-as-hex"], &sql).unwrap(), None)
}

/// The visible columns of each table that has virtual ones, and the virtual ones among them.
fn virtual_columns(server: &Server, dbs: &[&str]) -> BTreeMap<String, (Vec<String>, Vec<String>)> {
    let list = dbs.iter().map(|db| format!("'{db}'")).collect::<Vec<_>>().join(",");
    let sql = format!(
        "SELECT CONCAT(table_schema, '.', table_name), column_name, extra FROM information_schema.columns \
         WHERE table_schema IN ({list}) AND extra NOT LIKE '%INVISIBLE%' ORDER BY 1, ordinal_position"
    );
    let mut found: BTreeMap<String, (Vec<String>, Vec<String>)> = BTreeMap::new();
    for line in server.sql(&sql).lines() {
        let mut fields = line.split('\t').map(str::to_owned);
        let (name, column) = (fields.next().unwrap(), fields.next().unwrap());
        let (visible, computed) = found.entry(name).or_default();
        visible.push(column.clone());
        if fields.next().is_some_and(|extra| extra.contains("VIRTUAL GENERATED")) {
            computed.push(column);
        }
    }
    found.retain(|_, (_, computed)| !computed.is_empty());
    found
}

/// What a command prints, once the replica is there: after a call that failed its engine may just be starting anew.
fn printed(arguments: &[&str]) -> String {
    let told = || {
        let done = slipstream(arguments);
        (!done.err.contains("the replica is starting")).then_some(done)
    };
    crate::wait_for("the replica's engine", told, String::new).expect(0, &[]).out.clone()
}

fn dumped_tables(data: &str, dbs: &[&str], names: &[String]) -> (Tables, Headers) {
    let mut arguments = vec!["dump", "--data", data, "--format", "tab", "--binary-as-hex"];
    let mut text = String::new();
    match names {
        [] => {}
        [one] => {
            // A dump of a single table does not name it.
            arguments.push(one);
            text = format!("-- {one}\n{}", printed(&arguments));
        }
        // A dump of everything would show a table that should not be there.
        _ => text = printed(&arguments),
    }
    let mut headers = Headers::new();
    let mut tables = tables_of(&text, Some(&mut headers));
    tables.retain(|name, _| dbs.contains(&name.split_once('.').unwrap().0));
    (tables, headers)
}

/// Groups text by the lines `-- db.table` before each table's rows. A row with a line break is several lines, on both
/// sides.
fn tables_of(text: &str, mut headers: Option<&mut Headers>) -> Tables {
    let mut tables = Tables::new();
    let (mut name, mut header) = (String::new(), false);
    for line in text.split_terminator('\n') {
        if let Some(next) = line.strip_prefix("-- ").filter(|next| next.contains('.')) {
            // A table without rows of its own is followed by its engine.
            name = next.split(": engine ").next().unwrap().to_owned();
            tables.insert(name.clone(), Vec::new());
            header = headers.is_some();
        } else if std::mem::take(&mut header) {
            headers.as_mut().unwrap().insert(name.clone(), line.split('\t').map(str::to_owned).collect());
        } else {
            tables.get_mut(&name).unwrap_or_else(|| panic!("rows before a table's name: {line}")).push(line.to_owned());
        }
    }
    tables.values_mut().for_each(|rows| rows.sort_unstable());
    tables
}
