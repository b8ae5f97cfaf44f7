//! RESET BINARY LOGS AND GTIDS starts another history under the same server_uuid: the same GTIDs then name other
//! transactions, and a replica that was away must not take them for those that it has.

use std::path::Path;

use serde_json::Value;
use whole_program_tests::replica::executed;
use whole_program_tests::{Replica, Server, assert_equal, folder, slipstream, wait_for};

const STAY: &str = "--on-stop=stay";

fn fill(server: &Server, from: u64, count: u64) {
    (from..from + count).for_each(|n| drop(server.sql(&format!("INSERT INTO h.t VALUES ({n})"))));
}

fn io_stopped(status: &Value) -> bool {
    status["source"]["state"] == "stopped" && status["last_io_error"].is_object()
}

fn start_io(data: &Path) {
    slipstream(&["start", "io", "--data", data.to_str().unwrap()]).expect(0, &[]);
}

/// A replica of a source with 10 rows, stopped.
fn away(server: &Server, name: &str) -> std::path::PathBuf {
    server.sql("RESET BINARY LOGS AND GTIDS; DROP DATABASE IF EXISTS h; CREATE DATABASE h; CREATE TABLE h.t (id INT PRIMARY KEY)");
    fill(server, 0, 10);
    let data = folder(name);
    let mut replica = Replica::follow(server, &data, &[STAY]);
    replica.catch_up(server);
    replica.stop();
    data
}

#[test]
fn a_source_that_was_reset_meanwhile_is_noticed() {
    let server = Server::start_unsynced("history", &[]);
    // The same statements again, and then more: the source has all GTIDs that the replica has, at the same places.
    let data = away(&server, "reset");
    let before = server.gtid_executed();
    server
        .sql("RESET BINARY LOGS AND GTIDS; DROP DATABASE h; CREATE DATABASE h; CREATE TABLE h.t (id INT PRIMARY KEY)");
    fill(&server, 0, 20);
    assert!(before.is_subset_of(&server.gtid_executed()));
    let mut replica = Replica::follow(&server, &data, &[STAY]);
    let status = replica.wait_until("a stop", io_stopped);
    let error = &status["last_io_error"];
    assert_eq!((&error["exit"], &error["number"]), (&4.into(), &1236.into()), "{error}");
    for text in ["RESET", "received at binlog.000001:", "the source has there", "committed 20"] {
        assert!(error["text"].as_str().unwrap().contains(text), "no {text} in {error}");
    }
    assert_eq!(executed(&status), before);
    start_io(&data);
    replica.wait_until("the same stop", |now| io_stopped(now) && now["last_io_error"]["at"] != error["at"]);
    replica.stop();

    // With other statements, so that there is no event where it was, and after a kill.
    let data = away(&server, "reset-other");
    let mut replica = Replica::follow(&server, &data, &[STAY]);
    fill(&server, 10, 5);
    replica.catch_up(&server);
    let last = || std::fs::read_to_string(data.join("source-last")).unwrap_or_default();
    let old = last();
    wait_for("the file", || (last() != old).then_some(()), String::new);
    replica.kill();
    server.sql("RESET BINARY LOGS AND GTIDS; TRUNCATE h.t");
    (0..30).for_each(|n| drop(server.sql(&format!("INSERT INTO h.t VALUES ({n}), ({n} + 1000)"))));
    let mut replica = Replica::follow(&server, &data, &[STAY]);
    replica.wait_until("a stop", io_stopped);
    replica.stop();

    // In a file whose number the source no longer reaches.
    let data = away(&server, "reset-files");
    server.sql("FLUSH BINARY LOGS; FLUSH BINARY LOGS");
    fill(&server, 10, 3);
    let mut replica = Replica::follow(&server, &data, &[STAY]);
    replica.catch_up(&server);
    replica.stop();
    server.sql("RESET BINARY LOGS AND GTIDS; TRUNCATE h.t");
    fill(&server, 0, 40);
    let mut replica = Replica::follow(&server, &data, &[STAY]);
    let status = replica.wait_until("a stop", io_stopped);
    assert!(status["last_io_error"]["text"].as_str().unwrap().contains("newest binary log"), "{status}");
    replica.stop();
}

#[test]
fn the_same_history_goes_on_and_a_purged_one_is_said_to_be_unknown() {
    let server = Server::start_unsynced("history-same", &[]);
    let data = away(&server, "same");
    fill(&server, 10, 10);
    let mut replica = Replica::follow(&server, &data, &[STAY]);
    assert_equal(&server, &mut replica, &["h"]);
    // Another checksum on the way changes no transaction.
    server.sql("SET GLOBAL binlog_checksum = NONE");
    fill(&server, 20, 2);
    assert_equal(&server, &mut replica, &["h"]);
    replica.stop();
    server.sql("SET GLOBAL binlog_checksum = CRC32");
    fill(&server, 22, 2);
    let mut replica = Replica::follow(&server, &data, &[STAY]);
    assert_equal(&server, &mut replica, &["h"]);
    assert!(!replica.log().contains("SLIP-000072"), "{}", replica.log());
    replica.stop();
    // The check itself leaves nothing behind.
    let replicas = server.sql("SHOW REPLICAS");
    assert!(!replicas.lines().any(|line| line.starts_with("0\t")), "{replicas}");

    server.purge_binary_logs();
    fill(&server, 30, 2);
    let mut replica = Replica::follow(&server, &data, &[STAY]);
    assert_equal(&server, &mut replica, &["h"]);
    assert_eq!(replica.log().matches("SLIP-000072").count(), 1, "{}", replica.log());
    replica.stop();
}

#[test]
fn a_reset_while_connected_stops_receiving_and_says_so() {
    let server = Server::start_unsynced("history-live", &[]);
    let data = away(&server, "live");
    let mut replica = Replica::follow(&server, &data, &[STAY]);
    replica.wait_until("a connection", |status| status["source"]["state"] == "connected");
    server.sql("RESET BINARY LOGS AND GTIDS; TRUNCATE h.t");
    fill(&server, 0, 40);
    let status = replica.wait_until("a stop", io_stopped);
    assert!(status["last_io_error"]["text"].as_str().unwrap().contains("RESET"), "{status}");
    assert_ne!(status["replay"]["state"], "failed");
    replica.stop();
}
