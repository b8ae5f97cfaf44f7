//! Replication filters: the same log through Slipstream and through MySQL's own replica with the same rules; the
//! initial copy under them; tables that move in or out of them; a folder that keeps its rules.

use whole_program_tests::replica::{executed, ledger};
use whole_program_tests::{Replica, Server, assert_equal_at_rest, folder, slipstream, slipstream_with, wait_for};

/// Option without `replicate-`, and its value. Then what MySQL's replica needs beforehand, since its rules drop the
/// CREATE DATABASE.
type Case = (&'static str, &'static [(&'static str, &'static str)], &'static str);

const CASES: &[Case] = &[
    ("do_db", &[("do-db", "a"), ("do-db", "c")], ""),
    ("ignore_db", &[("ignore-db", "a"), ("ignore-db", "c")], ""),
    ("do_table", &[("do-table", "a.t"), ("do-table", "b.t"), ("ignore-table", "b.t")], ""),
    ("ignore_table", &[("ignore-table", "a.t"), ("ignore-table", "b.u2"), ("ignore-table", "b.u_new")], ""),
    (
        "wild_do",
        &[
            ("wild-do-table", r"a.t\_%"),
            ("wild-do-table", "%.u%"),
            ("ignore-table", "b.u"),
            ("ignore-table", "b.u_old"),
        ],
        "CREATE DATABASE a COLLATE latin1_swedish_ci; CREATE DATABASE b",
    ),
    (
        "wild_ignore",
        &[("wild-ignore-table", r"a.t\_%"), ("wild-ignore-table", "b.%"), ("do-table", "b.t")],
        "CREATE DATABASE b",
    ),
    (
        "rewrite",
        &[("rewrite-db", "a->x"), ("do-db", "x"), ("do-db", "b"), ("ignore-table", "x.u")],
        "CREATE DATABASE x COLLATE latin1_swedish_ci",
    ),
];

/// Statements about tables have the table's own default database; row changes have any.
const LOG: &str = r"
CREATE DATABASE a COLLATE latin1_swedish_ci; CREATE DATABASE b; CREATE DATABASE c; CREATE DATABASE gone;
USE a; CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(20)); CREATE TABLE t_1 (id INT PRIMARY KEY, v VARCHAR(20)); CREATE TABLE tx1 (id INT, v CHAR(3));
CREATE TABLE u (id INT PRIMARY KEY, v TEXT);
USE b; CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(20)); CREATE TABLE u (id INT, v INT); CREATE TABLE u2 (id INT PRIMARY KEY);
USE c; CREATE TABLE t (id INT PRIMARY KEY); CREATE TABLE U (id INT PRIMARY KEY);
USE gone; CREATE TABLE t (id INT PRIMARY KEY); INSERT INTO t VALUES (1);
USE c; INSERT INTO a.t VALUES (1,'a'),(2,'b'),(3,'c'); INSERT INTO a.t_1 VALUES (1,'a'); INSERT INTO a.tx1 VALUES (1,'x'),(1,'x');
INSERT INTO a.u VALUES (1,'long'); INSERT INTO b.t VALUES (1,'b1'),(2,'b2'); INSERT INTO b.u VALUES (5,5); INSERT INTO c.t VALUES (7);
USE a; BEGIN; UPDATE a.t SET v = 'both' WHERE id < 3; UPDATE b.t SET v = 'both'; DELETE FROM b.u; INSERT INTO b.u VALUES (6,6),(6,6); COMMIT;
UPDATE a.t JOIN b.t ON a.t.id = b.t.id SET a.t.v = 'join', b.t.v = 'join' WHERE a.t.id = 2;
USE a; ALTER TABLE t ADD COLUMN w INT DEFAULT 4 AFTER id; INSERT INTO t VALUES (9, 9, 'nine'); ALTER TABLE t_1 MODIFY v VARCHAR(90);
INSERT INTO t_1 VALUES (2, REPEAT('z', 80)); CREATE INDEX i ON u (id); RENAME TABLE t_1 TO t_2; INSERT INTO t_2 VALUES (3,'named');
USE b; RENAME TABLE u TO u_old; RENAME TABLE u2 TO u_new; INSERT INTO u_new VALUES (1); RENAME TABLE u_old TO u; CREATE TABLE t3 SELECT * FROM t; TRUNCATE u; INSERT INTO u VALUES (8, 8);
USE c; CREATE VIEW v AS SELECT * FROM t; CREATE USER nobody; GRANT SELECT ON a.* TO nobody;
SET SESSION binlog_transaction_compression = ON; BEGIN; INSERT INTO a.t VALUES (30, 1, 'zstd'); INSERT INTO b.t VALUES (30, 'zstd'); INSERT INTO c.t VALUES (30); COMMIT;
SET SESSION binlog_transaction_compression = OFF; SET SESSION binlog_row_image = MINIMAL; UPDATE a.t SET v = 'minimal' WHERE id = 3; DELETE FROM b.t WHERE id = 1;
USE gone; DROP TABLE t; DROP DATABASE gone; USE c; DROP USER IF EXISTS nobody;";

/// Our options.
fn options(rules: &[(&str, &str)]) -> Vec<String> {
    rules.iter().map(|(option, value)| format!("--replicate-{option}={value}")).collect()
}

fn strs(texts: &[String]) -> Vec<&str> {
    texts.iter().map(String::as_str).collect()
}

/// The same rules in CHANGE REPLICATION FILTER's syntax.
fn stock_filter(rules: &[(&str, &str)]) -> String {
    let all = ["do-db", "ignore-db", "do-table", "ignore-table", "wild-do-table", "wild-ignore-table", "rewrite-db"];
    let of = |option: &str| {
        let values = rules.iter().filter(|(of, _)| *of == option).map(|(_, value)| match option {
            "rewrite-db" => format!("({})", value.replace("->", ",")),
            wild if wild.starts_with("wild") => format!("'{}'", value.replace('\\', "\\\\")),
            _ => (*value).to_owned(),
        });
        let name = option.replace('-', "_").to_uppercase();
        format!("REPLICATE_{name} = ({})", values.collect::<Vec<_>>().join(","))
    };
    format!("CHANGE REPLICATION FILTER {}", all.map(of).join(", "))
}

/// Makes a stock replica replay the whole log under these rules.
fn replay_on_stock(stock: &Server, source: &Server, case: &Case) {
    stock.sql(
        "STOP REPLICA; RESET REPLICA ALL; RESET BINARY LOGS AND GTIDS; SET sql_log_bin = 0; DROP DATABASE IF EXISTS a;
         DROP DATABASE IF EXISTS b; DROP DATABASE IF EXISTS c; DROP DATABASE IF EXISTS x; DROP USER IF EXISTS nobody",
    );
    stock.sql(&format!("SET sql_log_bin = 0; {}", case.2));
    stock.sql(&format!(
        "CHANGE REPLICATION SOURCE TO SOURCE_HOST='127.0.0.1', SOURCE_PORT={}, SOURCE_USER='repl', SOURCE_PASSWORD='repl',
         SOURCE_AUTO_POSITION=1, GET_SOURCE_PUBLIC_KEY=1; {}; START REPLICA",
        source.port(),
        stock_filter(case.1)
    ));
    let goal = source.gtid_executed();
    let look = || {
        let error = stock.sql(
            "SELECT LAST_ERROR_MESSAGE FROM performance_schema.replication_applier_status_by_worker WHERE LAST_ERROR_NUMBER > 0",
        );
        assert_eq!(error.trim(), "", "{}: MySQL's replica", case.0);
        goal.is_subset_of(&stock.gtid_executed()).then_some(())
    };
    wait_for("MySQL's replica", look, || stock.sql("SHOW REPLICA STATUS"));
}

/// Checks that every table of the folder equals the source's, under the names it has here.
fn verify_all(server: &Server, data: &str) -> String {
    let arguments = ["verify", "--data", data, "--source", &server.url("root")];
    slipstream_with(&arguments, unset_password).expect(0, &["EQUAL"]).out.clone()
}

#[test]
fn as_mysqls_own_replica() {
    let server = Server::start_unsynced("filters", &[]);
    let stock = Server::start_unsynced("stock", &["--server-id=4711"]);
    server.sql(LOG);
    for case in CASES {
        let given = options(case.1);
        let mut replica = Replica::follow(&server, &folder(case.0), &strs(&given));
        replay_on_stock(&stock, &server, case);
        let status = replica.catch_up(&server);
        assert_eq!(executed(&status), server.gtid_executed(), "{}: what is filtered is executed all the same", case.0);
        assert_equal_at_rest(&stock, replica.data(), &["a", "b", "c", "x"]);
        verify_all(&server, replica.data());
        // Some rows and statements of each log are left out, and all are counted.
        let status = replica.wait_until("a ledger that adds up", |status| {
            let rows = status["ledger"]["rows"].as_array().unwrap();
            let count = |row: &serde_json::Value, name: &str| row[name].as_u64().unwrap_or(0);
            rows.iter().all(|row| {
                let others = row
                    .as_object()
                    .unwrap()
                    .iter()
                    .filter(|(name, _)| !["seen", "event_type", "name"].contains(&name.as_str()));
                count(row, "seen") == others.map(|(_, value)| value.as_u64().unwrap_or(0)).sum::<u64>()
            })
        });
        let filtered = ledger(&status, "filtered");
        for event in ["Query", "Write_rows"] {
            assert!(filtered.iter().any(|(name, _)| name == event), "{}: {filtered:?}", case.0);
        }
        assert!(
            ledger(&status, "refused").is_empty() && ledger(&status, "superseded_by_copy").is_empty(),
            "{}",
            case.0
        );
        replica.stop();
    }
    // The log is gone: the same through an initial copy, and the changes after it.
    server.sql("GRANT RELOAD, BACKUP_ADMIN, XA_RECOVER_ADMIN ON *.* TO repl");
    server.purge_binary_logs();
    for case in CASES {
        let given = options(case.1);
        let data = folder(&format!("copy_{}", case.0));
        let url = server.url("repl");
        let said = [&["check", "--source", &url, "--data", data.to_str().unwrap()], &strs(&given)[..]].concat();
        slipstream(&said).expect(0, &["initial copy of"]);
        let mut replica = Replica::follow(&server, &data, &strs(&given));
        replica.catch_up(&server);
        replay_tables(&server, &mut replica);
        verify_all(&server, replica.data());
        replica.stop();
    }
}

/// A few changes after the copy, in every database; also a prepared transaction, which MySQL's replica cannot filter.
fn replay_tables(server: &Server, replica: &mut Replica) {
    server.sql(
        "USE a; INSERT INTO t VALUES (1000, 1, 'later'); UPDATE t SET w = w + 1; DELETE FROM t WHERE id = 1000; UPDATE b.t SET v = CONCAT(LEFT(v, 3), '!');
         ALTER TABLE u ADD n INT; INSERT INTO u VALUES (50, 'n', 1); ALTER TABLE u DROP n; DELETE FROM u WHERE id = 50; REPLACE INTO c.t VALUES (8); USE b; TRUNCATE u_new;
         XA START 'x'; INSERT INTO a.t VALUES (20, 20, 'xa'); INSERT INTO b.t VALUES (20, 'xa'); XA END 'x'; XA PREPARE 'x'; XA COMMIT 'x';
         DELETE FROM a.t WHERE id = 20; DELETE FROM b.t WHERE id = 20",
    );
    replica.catch_up(server);
}

#[test]
fn tables_that_change_sides_are_copied_or_go() {
    let server = Server::start_unsynced("sides", &[]);
    server.sql("CREATE DATABASE d; GRANT RELOAD, XA_RECOVER_ADMIN, LOCK TABLES ON *.* TO repl");
    let given = ["--replicate-wild-do-table=d.t%", "--replicate-rewrite-db=d->e", "--replicate-wild-do-table=e.t%"];
    let mut replica = Replica::follow(&server, &folder("sides"), &given);
    // As in online schema changes: the new table is not replicated before it has its final name.
    server.sql(
        "USE d; CREATE TABLE t (id INT PRIMARY KEY); INSERT INTO t VALUES (1),(2); CREATE TABLE _t_new (id INT PRIMARY KEY, n INT DEFAULT 3);
         INSERT INTO _t_new (id) SELECT id FROM t; RENAME TABLE t TO _t_old, _t_new TO t; INSERT INTO t VALUES (3, 4)",
    );
    replica.wait_until("its copy", |status| status["replay"]["tables_copied_by_itself"] == 1);
    replica.catch_up(&server);
    server.sql("INSERT INTO d.t VALUES (4, 5)");
    replica.catch_up(&server);
    let dumped = || slipstream(&["dump", "--data", replica.data(), "--format", "tab"]).expect(0, &[]).out.clone();
    assert_eq!(dumped().lines().count(), 5, "{}", dumped());
    verify_all(&server, replica.data());
    // One created by a session with another default database: MySQL's replica would stop at its first row.
    server.sql("USE mysql; CREATE TABLE d.t2 (id INT PRIMARY KEY); INSERT INTO d.t2 VALUES (1)");
    replica.catch_up(&server);
    assert!(verify_all(&server, replica.data()).contains("e.t2"));
    // It moves out: nothing of it remains to become stale.
    server.sql("USE d; RENAME TABLE t2 TO x2; INSERT INTO x2 VALUES (2)");
    replica.catch_up(&server);
    assert!(!verify_all(&server, replica.data()).contains("t2"));
    slipstream(&["copy", "--data", replica.data(), "e.t"]).expect(0, &["copied `e`.`t`"]);
    verify_all(&server, replica.data());

    // The folder keeps its rules.
    let data = replica.data.clone();
    replica.stop();
    let other = Replica::spawn(&server.url("repl"), &data, &["--replicate-wild-do-table=d.t%"], |_| ());
    other.expect_exit(2, &["other replication filters", "--replicate-rewrite-db='d->e'", "only given: none"]);
    let mut replica = Replica::follow(&server, &data, &[given[2], given[1], given[0], given[0]]);
    replica.catch_up(&server);
    verify_all(&server, replica.data());
    let offline = replica.data.clone();
    replica.stop();
    verify_all(&server, offline.to_str().unwrap());
}

#[test]
fn wrong_rules_are_told() {
    for (rule, texts) in [
        ("--replicate-do-table=t", &["replicate-do-table", "DATABASE.TABLE"]),
        ("--replicate-rewrite-db=a", &["replicate-rewrite-db", "FROM->TO"]),
    ] {
        slipstream(&["check", "--source", "mysql://u@127.0.0.1:1", rule]).expect(2, texts);
    }
}

#[test]
fn verify_names_tables_as_they_are_here() {
    let server = Server::start_unsynced("named", &[]);
    server.sql("CREATE DATABASE a; CREATE TABLE a.t (id INT PRIMARY KEY); USE a; INSERT INTO t VALUES (1)");
    let mut replica = Replica::follow(&server, &folder("named"), &["--replicate-rewrite-db=a->b"]);
    replica.catch_up(&server);
    let arguments = |table: &'static str| ["verify", "--data", "", "--source", "", table];
    let run = |table| {
        let mut given = arguments(table).map(str::to_owned);
        (given[2], given[4]) = (replica.data().to_owned(), server.url("root"));
        let given: Vec<&str> = given.iter().map(String::as_str).collect();
        slipstream_with(&given, unset_password)
    };
    run("b.t").expect(0, &["b.t"]);
    run("a.t").expect(1, &["a", "t"]);
    replica.stop();
}

/// For root, who has no password.
fn unset_password(command: &mut std::process::Command) {
    command.env_remove("MYSQL_PWD");
}
