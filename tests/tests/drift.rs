//! Rows that the source has and the replica has not, or the other way round: found once the log touches them, listed,
//! and copied or left to the operator.

use std::collections::BTreeSet;

use serde_json::Value;
use whole_program_tests::{Replica, Server, assert_equal_after_drift, folder, slipstream};

const ROWS: u32 = 300;
/// As by default: other tests read every row before they change it.
const SAMPLE: &str = "--check-images=sample";

/// A source with rows in a keyed table, one with an index, and one without a key.
fn source(name: &str) -> Server {
    let server = Server::start(name, &[]);
    server.sql(&format!(
        "GRANT LOCK TABLES, XA_RECOVER_ADMIN ON *.* TO repl; CREATE DATABASE d; CREATE TABLE d.keyed (id INT PRIMARY KEY, n INT, pad VARCHAR(50)); \
         CREATE TABLE d.named (a VARCHAR(20), b SMALLINT, n INT, PRIMARY KEY (b, a), KEY (n)); \
         CREATE TABLE d.bag (id INT, n INT); \
         INSERT INTO d.keyed SELECT n, n, REPEAT('p', 40) FROM (WITH RECURSIVE s (n) AS (SELECT 1 UNION ALL \
         SELECT n + 1 FROM s WHERE n < {ROWS}) SELECT n FROM s) x; \
         INSERT INTO d.named SELECT CONCAT('name ', id), id, n FROM d.keyed; INSERT INTO d.bag SELECT id, n FROM d.keyed"
    ));
    server
}

/// The log does not tell the replica of this statement.
fn unlogged(server: &Server, sql: &str) {
    server.sql(&format!("SET SESSION sql_log_bin = 0; {sql}"));
}

/// Plants differences in all tables and touches each of them with the log.
fn drift_apart(server: &Server, with_key_change: bool) {
    unlogged(
        server,
        "INSERT INTO d.keyed VALUES (1001, 1, 'x'), (1002, 2, 'x'), (1003, 3, 'x'); DELETE FROM d.keyed WHERE id = 7; \
         INSERT INTO d.bag VALUES (1001, 1)",
    );
    server.sql(
        "UPDATE d.keyed SET n = n + 1 WHERE id = 1001; DELETE FROM d.keyed WHERE id = 1002; \
         INSERT INTO d.keyed VALUES (7, 7, 'y'); DELETE FROM d.bag WHERE id = 1001; INSERT INTO d.bag VALUES (1001, 1)",
    );
    if with_key_change {
        unlogged(server, "INSERT INTO d.named VALUES ('it''s', 1001, 1)");
        server.sql("UPDATE d.named SET a = 'its' WHERE b = 1001");
    }
}

fn drifted(status: &Value) -> BTreeSet<String> {
    let list = status["replay"]["drifted"].as_array().cloned().unwrap_or_default();
    list.iter().filter_map(|text| text.as_str()?.split(':').next().map(str::to_owned)).collect()
}

#[test]
fn a_table_that_differs_is_copied_again() {
    for row_image in ["FULL", "MINIMAL"] {
        let server = source("drift_copy");
        server.sql(&format!("SET GLOBAL binlog_row_image = {row_image}"));
        let data = folder("drift_copy");
        let mut replica = Replica::follow(&server, &data, &["--cut-interval=200ms", SAMPLE]);
        replica.catch_up(&server);
        slipstream(&["check-store", "--data", replica.data()]).expect(0, &["no row contradicts the log"]);
        // An image that lacks columns needs the row at once to give it another key: replay would stop there.
        let tables = if row_image == "FULL" { 3 } else { 2 };
        drift_apart(&server, tables == 3);
        replica.catch_up(&server);
        // It says so once, or the copies were faster.
        slipstream(&["check-store", "--data", replica.data()]);
        let status = replica.wait_until("the copies", |status| {
            drifted(status).is_empty() && status["replay"]["tables_copied_by_itself"] == tables
        });
        eprintln!("{row_image}: {status}");
        replica.waits_for_log(&["[SLIP-000060]", "`d`.`keyed`", "`d`.`bag`: 1 of the rows"]);
        assert_equal_after_drift(&server, &mut replica, &["d"]);
        slipstream(&["check-store", "--data", replica.data()]).expect(0, &["no row contradicts the log"]);
        slipstream(&["drift", "--data", replica.data()]).expect(0, &["no table is known to differ"]);
        replica.stop();
    }
}

#[test]
fn replay_pauses_at_a_difference_if_it_is_to_stop() {
    let server = source("drift_stop");
    let data = folder("drift_stop");
    // Only check-store cuts and merges: a merge of its own would pause replay before all is planted.
    let options = ["--cut-interval=1h", "--on-drift=stop", SAMPLE];
    let mut replica = Replica::follow(&server, &data, &options);
    replica.catch_up(&server);
    // Nothing is in memory any more.
    slipstream(&["check-store", "--data", replica.data()]).expect(0, &[]);
    drift_apart(&server, true);
    replica.catch_up(&server);
    slipstream(&["check-store", "--data", replica.data()]).expect(
        16,
        &[
            "(id) = (1001): the log changes it, and it was not here",
            "(id) = (1002): the log changes it, and it was not here",
            "(id) = (7): the log inserts it, and it was here already",
            "(a, b) = ('it\\'s', 1001): the log changes it",
            "the log removes more copies than were here",
        ],
    );
    let paused = |status: &Value| status["replay"]["state"] == "paused";
    let status = replica.wait_until("the pause", paused);
    assert_eq!(drifted(&status), ["`d`.`bag`", "`d`.`keyed`", "`d`.`named`"].map(str::to_owned).into());
    replica.waits_for_log(&["--on-drift=stop"]);
    // A restart forgets nothing.
    replica.kill();
    let mut replica = Replica::follow(&server, &data, &options);
    let status = replica.wait_until("the pause", paused);
    assert_eq!(drifted(&status).len(), 3);
    server.sql("INSERT INTO d.keyed VALUES (2000, 0, 'later')");
    slipstream(&["copy", "--data", replica.data(), "d.keyed"]).expect(1, &["paused"]);
    slipstream(&["drift", "--data", replica.data(), "--accept", "d.none"]).expect(1, &["d.none"]);
    slipstream(&["drift", "--data", replica.data(), "--accept", "d.bag"]).expect(0, &["accepted"]);
    slipstream(&["drift", "--data", replica.data(), "--accept", "d.named"]).expect(0, &["accepted"]);
    slipstream(&["resume", "--data", replica.data()]).expect(0, &[]);
    slipstream(&["copy", "--data", replica.data(), "d.keyed"]).expect(0, &["copied"]);
    let status = replica.catch_up(&server);
    assert!(drifted(&status).is_empty() && !paused(&status), "{status}");
    slipstream(&["copy", "--data", replica.data(), "d.bag"]).expect(0, &["copied"]);
    slipstream(&["copy", "--data", replica.data(), "d.named"]).expect(0, &["copied"]);
    assert_equal_after_drift(&server, &mut replica, &["d"]);
    replica.stop();
}
