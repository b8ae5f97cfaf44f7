//! Every `slipstream skip` that a stop advises is given, and replay goes on from there: changes of rows, plain,
//! compressed and in slices; XA in each phase; DDL; statements. In the end the replica equals the source but for what
//! was skipped.

use std::path::Path;

use whole_program_tests::{Replica, Server, assert_equal, assert_equal_at_rest, folder, share, slipstream};

/// One kind of transaction that stops replay.
struct Case {
    /// Its table.
    name: &'static str,
    /// Statements that both take, with those of UNSEEN between them.
    before: &'static str,
    /// Statements whose transactions are skipped before the replica has seen them.
    ahead: &'static str,
    /// Statements at which the replica stops, and others, which arrive.
    then: &'static str,
    /// Exit codes of the stops.
    stops: &'static [i32],
    /// Makes the source equal to a replica without the skipped transactions, unseen.
    undo: &'static str,
}

const CASE: Case = Case { name: "", before: "", ahead: "", then: "", stops: &[9], undo: "" };
/// A table, and a row of it that is not in the log: changing it stops replay with 1032.
const TABLE: &str = "CREATE TABLE {t} (id INT PRIMARY KEY, v LONGTEXT); INSERT INTO {t} VALUES (1, 'both');
    SET sql_log_bin = 0; INSERT INTO {t} VALUES (2, 'source'); SET sql_log_bin = 1;";
const BACK: &str = "DELETE FROM {t} WHERE id BETWEEN 2 AND 999";
/// More than a slice: 24 MB.
const LARGE: &str = "INSERT INTO {t} WITH RECURSIVE n (i) AS (SELECT 100 UNION ALL SELECT i + 1 FROM n WHERE i < 139)
    SELECT i, REPEAT(i, 200000) FROM n;";
/// The same xid later, which must be itself then.
const SAME_AGAIN: &str = "XA START '{t}'; INSERT INTO {t} VALUES (1000, 'again'); XA END '{t}'; XA PREPARE '{t}';
    XA COMMIT '{t}';";

const CASES: &[Case] = &[
    Case {
        name: "plain",
        before: TABLE,
        then: "BEGIN; INSERT INTO {t} VALUES (3, 'x'); SAVEPOINT s; UPDATE {t} SET v = 'y' WHERE id = 2; ROLLBACK TO s;
            DELETE FROM {t} WHERE id = 2; COMMIT;",
        undo: BACK,
        ..CASE
    },
    Case {
        name: "compressed",
        before: TABLE,
        then: "SET binlog_transaction_compression = ON; BEGIN; INSERT INTO {t} VALUES (3, 'x');
            UPDATE {t} SET v = 'y' WHERE id = 2; COMMIT;",
        undo: BACK,
        ..CASE
    },
    Case {
        name: "first_slice",
        before: TABLE,
        then: "BEGIN; UPDATE {t} SET v = 'y' WHERE id = 2; {large} COMMIT;",
        undo: BACK,
        ..CASE
    },
    Case {
        name: "last_slice",
        before: TABLE,
        then: "BEGIN; {large} UPDATE {t} SET v = 'y' WHERE id = 2; COMMIT;",
        undo: BACK,
        ..CASE
    },
    Case {
        name: "large_compressed",
        before: TABLE,
        then: "SET binlog_transaction_compression = ON; BEGIN; {large} UPDATE {t} SET v = 'y' WHERE id = 2; COMMIT;",
        undo: BACK,
        ..CASE
    },
    Case {
        name: "xa_commit",
        before: TABLE,
        then: "XA START '{t}'; DELETE FROM {t} WHERE id = 2; XA END '{t}'; XA PREPARE '{t}'; XA COMMIT '{t}'; {again}",
        undo: BACK,
        ..CASE
    },
    Case {
        name: "xa_commit_large",
        before: TABLE,
        then: "XA START '{t}'; {large} DELETE FROM {t} WHERE id = 2; XA END '{t}'; XA PREPARE '{t}'; XA COMMIT '{t}';
            {again}",
        undo: BACK,
        ..CASE
    },
    Case {
        name: "xa_one_phase",
        before: TABLE,
        then: "XA START '{t}'; UPDATE {t} SET v = 'y' WHERE id = 2; XA END '{t}'; XA COMMIT '{t}' ONE PHASE; {again}",
        undo: BACK,
        ..CASE
    },
    Case {
        name: "xa_one_phase_large",
        before: TABLE,
        then: "XA START '{t}'; {large} UPDATE {t} SET v = 'y' WHERE id = 2; XA END '{t}'; XA COMMIT '{t}' ONE PHASE; {again}",
        undo: BACK,
        ..CASE
    },
    Case {
        name: "xa_one_phase_compressed",
        before: TABLE,
        then: "SET binlog_transaction_compression = ON; XA START '{t}'; UPDATE {t} SET v = 'y' WHERE id = 2; XA END '{t}';
            XA COMMIT '{t}' ONE PHASE; {again}",
        undo: BACK,
        ..CASE
    },
    // The PREPARE is left out: its COMMIT or ROLLBACK must not pass for one that is known.
    Case {
        name: "xa_prepare_then_commit",
        before: TABLE,
        ahead: "XA START '{t}'; INSERT INTO {t} VALUES (3, 'x'); XA END '{t}'; XA PREPARE '{t}';",
        then: "XA COMMIT '{t}'; {again}",
        undo: BACK,
        ..CASE
    },
    Case {
        name: "xa_prepare_then_rollback",
        before: TABLE,
        ahead: "XA START '{t}'; INSERT INTO {t} VALUES (3, 'x'); XA END '{t}'; XA PREPARE '{t}';",
        then: "XA ROLLBACK '{t}'; {again}",
        undo: BACK,
        ..CASE
    },
    Case {
        name: "xa_prepare_large",
        before: TABLE,
        ahead: "XA START '{t}'; {large} XA END '{t}'; XA PREPARE '{t}';",
        then: "XA COMMIT '{t}'; {again}",
        undo: BACK,
        ..CASE
    },
    Case {
        name: "xa_prepare_compressed",
        before: TABLE,
        ahead: "SET binlog_transaction_compression = ON; XA START '{t}'; INSERT INTO {t} VALUES (3, 'x'); XA END '{t}';
            XA PREPARE '{t}';",
        then: "XA COMMIT '{t}'; {again}",
        undo: BACK,
        ..CASE
    },
    // The end is left out: what was prepared must not wait for the next one of this xid.
    Case {
        name: "xa_only_commit",
        before: "{table} XA START '{t}'; INSERT INTO {t} VALUES (3, 'x'); XA END '{t}'; XA PREPARE '{t}';",
        ahead: "XA COMMIT '{t}';",
        then: "{again}",
        stops: &[],
        undo: BACK,
    },
    Case {
        name: "xa_only_rollback",
        before: "{table} XA START '{t}'; INSERT INTO {t} VALUES (3, 'x'); XA END '{t}'; XA PREPARE '{t}';",
        ahead: "XA ROLLBACK '{t}';",
        then: "{again}",
        stops: &[],
        undo: BACK,
    },
    // What it names is not there, or is there already.
    Case {
        name: "drop_table",
        before: "SET sql_log_bin = 0; CREATE TABLE {t} (id INT PRIMARY KEY); SET sql_log_bin = 1;",
        then: "DROP TABLE {t};",
        stops: &[6],
        ..CASE
    },
    Case {
        name: "rename_table",
        before: "SET sql_log_bin = 0; CREATE TABLE {t} (id INT PRIMARY KEY); SET sql_log_bin = 1;",
        then: "RENAME TABLE {t} TO {t}_2;",
        undo: "DROP TABLE {t}_2",
        stops: &[6],
        ..CASE
    },
    Case {
        name: "drop_database",
        before: "SET sql_log_bin = 0; CREATE DATABASE {t}_db; SET sql_log_bin = 1;",
        then: "DROP DATABASE {t}_db;",
        stops: &[6],
        ..CASE
    },
    Case {
        name: "create_database",
        before: "CREATE DATABASE {t}_db; SET sql_log_bin = 0; DROP DATABASE {t}_db; SET sql_log_bin = 1;",
        then: "CREATE DATABASE {t}_db; DROP DATABASE {t}_db;",
        stops: &[6],
        ..CASE
    },
    Case {
        name: "statement",
        before: "{table} CREATE VIEW {t}_v AS SELECT * FROM {t};",
        then: "SET binlog_format = STATEMENT; INSERT INTO {t}_v VALUES (3, 'x');",
        stops: &[6],
        undo: BACK,
        ..CASE
    },
    Case {
        name: "statements_in_a_transaction",
        before: "{table} CREATE VIEW {t}_v AS SELECT * FROM {t};",
        then: "SET binlog_format = STATEMENT, binlog_transaction_compression = ON; BEGIN; UPDATE {t}_v SET v = 'y' WHERE id = 2;
            SAVEPOINT a; INSERT INTO {t}_v VALUES (3, 'x'); COMMIT;",
        stops: &[6],
        undo: BACK,
        ..CASE
    },
    Case {
        name: "statements_of_xa",
        before: "{table} CREATE VIEW {t}_v AS SELECT * FROM {t};",
        then: "SET binlog_format = STATEMENT; XA START '{t}'; INSERT INTO {t}_v VALUES (3, 'x'); XA END '{t}'; XA PREPARE '{t}';
            XA COMMIT '{t}'; SET binlog_format = ROW; {again}",
        stops: &[6],
        undo: BACK,
        ..CASE
    },
];

impl Case {
    fn sql(&self, text: &str) -> String {
        let text = text.replace("{table}", TABLE).replace("{large}", LARGE).replace("{again}", SAME_AGAIN);
        format!("USE skips; {}", text.replace("{t}", self.name))
    }
}

/// The GTID in the command that the last stop advises.
fn advised(log: &str) -> String {
    let command = log.rfind("slipstream skip ").unwrap_or_else(|| panic!("no skip is advised:\n{log}"));
    log[command..].split_whitespace().nth(2).unwrap().to_owned()
}

fn skip(data: &Path, gtids: &str) {
    slipstream(&["skip", gtids, "--data", data.to_str().unwrap()]).expect(0, &[]);
}

/// From files no table can be copied: DDL that is not interpreted stops replay, as do the rows that follow it.
#[test]
fn every_skip_leads_on_from_files() {
    let server = Server::start_unsynced("skipfiles", &[]);
    let data = folder("skipfiles");
    server.sql("CREATE DATABASE skips; USE skips; CREATE TABLE altered (id INT PRIMARY KEY); INSERT INTO altered VALUES (1);
        CREATE TABLE t LIKE altered; ALTER TABLE altered ADD g INT AS (id + 1) STORED; INSERT INTO altered (id) VALUES (2);
        INSERT INTO t VALUES (1); SET SESSION binlog_format = STATEMENT; INSERT INTO t VALUES (2); INSERT INTO t VALUES (3);
        XA START 'x'; DELETE FROM t; XA END 'x'; XA PREPARE 'x'; XA COMMIT 'x'; SET SESSION binlog_format = ROW;
        INSERT INTO t VALUES (4)");
    let (source, path) = (format!("file:{}", server.dir().join("binlog.000001").display()), data.to_str().unwrap());
    let mut stops = Vec::new();
    loop {
        let ran = slipstream(&["replica", "--source", &source, "--data", path, "--check-images=all"]);
        if ran.code == 0 || stops.len() > 9 {
            break;
        }
        stops.push(ran.code);
        skip(&data, &advised(&ran.err));
    }
    // The ALTER, the row after it, two INSERTs and XA COMMIT.
    assert_eq!(stops, [6, 9, 6, 6, 6]);
    server.sql(
        "ALTER TABLE skips.altered DROP g; DELETE FROM skips.altered WHERE id = 2; INSERT INTO skips.t VALUES (1)",
    );
    assert_equal_at_rest(&server, path, &["skips"]);
}

#[test]
fn every_skip_that_is_advised_leads_on() {
    let server = Server::start_unsynced("skips", &[]);
    let data = folder("skips");
    server.sql("GRANT XA_RECOVER_ADMIN, LOCK TABLES, RELOAD, BACKUP_ADMIN ON *.* TO repl; CREATE DATABASE skips");
    // What is not in the log stops replay.
    let options = ["--cut-interval=100ms", "--copy=never"];
    let mut replica = Replica::follow(&server, &data, &options);
    for case in share(CASES, 2) {
        server.sql(&case.sql(case.before));
        replica.catch_up(&server);
        if !case.ahead.is_empty() {
            replica.stop();
            let before = server.gtid_executed();
            server.sql(&case.sql(case.ahead));
            skip(&data, &server.gtid_executed().subtract(&before).to_string().replace('\n', ""));
            replica = Replica::follow(&server, &data, &options);
        }
        let before = server.gtid_executed();
        server.sql(&case.sql(case.then));
        server.sql(&format!("USE skips; CREATE TABLE after_{} (id INT); INSERT INTO after_{0} VALUES (1)", case.name));
        let goal = server.gtid_executed();
        for code in case.stops {
            let log = replica.expect_exit(*code, &["slipstream skip"]);
            let gtid = advised(&log);
            assert!(goal.subtract(&before).contains(&gtid.parse().unwrap()), "{}: {gtid}\n{log}", case.name);
            skip(&data, &gtid);
            replica = Replica::spawn(&server.url("repl"), &data, &options, |_| ());
        }
        assert!(replica.reaches(&goal), "{}:\n{}", case.name, replica.log_end());
        let status = replica.catch_up(&server);
        assert_eq!(status["replay"]["quarantined"].as_array().map_or(0, Vec::len), 0, "{}: {status}", case.name);
        if !case.undo.is_empty() {
            server.sql(&format!("SET sql_log_bin = 0; {}", case.sql(case.undo)));
        }
        assert_equal(&server, &mut replica, &["skips"]);
    }
    // The same from what is on disk.
    replica.kill();
    let mut replica = Replica::follow(&server, &data, &[]);
    assert_equal(&server, &mut replica, &["skips"]);
    replica.stop();
}
