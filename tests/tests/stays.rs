//! After a successful start only a defect or a lost folder ends the process: everything else stops receiving or replay,
//! and `slipstream start` goes on.

use std::path::Path;

use serde_json::Value;
use whole_program_tests::replica::{executed, retrieved};
use whole_program_tests::{Replica, Server, assert_equal, copy_folder, folder, slipstream, wait_for};

const STAY: &str = "--on-stop=stay";

fn run(command: &[&str], data: &Path) -> whole_program_tests::Ran {
    slipstream(&[command, &["--data", data.to_str().unwrap()]].concat())
}

/// Ends all dumps, so that every replica must connect again.
fn end_dumps(server: &Server) {
    let list = server.sql("SHOW PROCESSLIST");
    let dumps = list.lines().filter(|line| line.contains("Binlog Dump"));
    dumps.filter_map(|line| line.split('\t').next()).for_each(|id| drop(server.sql(&format!("KILL {id}"))));
}

/// True if receiving stopped with an error.
fn io_stopped(status: &Value) -> bool {
    status["source"]["state"] == "stopped" && status["last_io_error"].is_object()
}

#[test]
fn replay_stops_with_an_error_and_goes_on_in_the_same_process() {
    let server = Server::start("stays", &[]);
    server.sql(
        "CREATE DATABASE s; CREATE TABLE s.t (id INT PRIMARY KEY, v INT); INSERT INTO s.t VALUES (1, 1);
         CREATE TABLE s.u LIKE s.t; CREATE VIEW s.v AS SELECT * FROM s.u",
    );
    let data = folder("stays");
    let mut replica = Replica::follow(&server, &data, &[STAY]);
    replica.catch_up(&server);
    let pid = replica.pid();

    // A row that the log inserts and that is there already, made on the source without its log: 1062.
    server.sql("INSERT INTO s.t VALUES (2, 2)");
    let before = server.gtid_executed();
    replica.catch_up(&server);
    server.sql("SET sql_log_bin = 0; DELETE FROM s.t WHERE id = 2");
    server.sql("INSERT INTO s.t VALUES (2, 22)");
    let gtid = server.gtid_executed().subtract(&before).to_string();
    server.sql("SET sql_log_bin = 0; UPDATE s.t SET v = 2 WHERE id = 2");
    let stopped = replica.wait_until("replay's stop", |status| status["replay"]["state"] == "failed");
    let error = &stopped["last_sql_error"];
    assert_eq!((&error["number"], &error["exit"]), (&1062.into(), &9.into()), "{error}");
    assert!(error["text"].as_str().unwrap().contains(&gtid), "{error}");
    assert!(error["way_on"].as_str().unwrap().contains("slipstream start sql --data"), "{error}");
    assert!(stopped["last_io_error"].is_null(), "{stopped}");
    // The time is that of the stop, not of the question.
    assert_eq!(replica.status().unwrap()["last_sql_error"]["at"], error["at"]);
    run(&["status"], &data).expect(0, &["Replica_IO_Running   Yes", "Last_SQL_Error", "[1062]"]);

    // Receiving goes on, and what stands can be read and compared.
    server.sql("INSERT INTO s.t VALUES (3, 3)");
    let goal = server.gtid_executed();
    let status = replica.wait_until("receiving", |status| goal.is_subset_of(&retrieved(status)));
    assert_eq!(status["source"]["state"], "connected");
    assert_eq!(executed(&status), executed(&stopped));
    // Only the log after the last visible transaction waits, not all of it.
    let offset = |key: &str| {
        let (_, offset) = status["position"][key].as_str().unwrap().rsplit_once(':').unwrap();
        offset.parse::<u64>().unwrap()
    };
    assert_eq!(status["backlog"]["bytes"], offset("relay_received") - offset("relay_executed"), "{status}");
    assert_eq!(run(&["dump", "--format=tab", "s.t"], &data).expect(0, &[]).out, "id\tv\n1\t1\n2\t2\n");
    run(&["verify", "--source", &server.url("repl"), "s.t"], &data).expect(1, &["1062"]);
    run(&["copy", "s.t"], &data).expect(9, &["1062"]);
    // Nothing was done about it: it stops at the same place.
    run(&["start", "sql"], &data).expect(0, &[]);
    replica.wait_until("the same stop", |status| {
        status["replay"]["state"] == "failed" && status["last_sql_error"]["at"] != error["at"]
    });
    run(&["skip", &gtid], &data).expect(0, &[]);
    run(&["start", "sql"], &data).expect(0, &[]);
    assert_equal(&server, &mut replica, &["s"]);

    // A statement that is not supported, once with receiving stopped: starting replay leaves it stopped.
    let before = server.gtid_executed();
    server.sql("SET SESSION binlog_format = STATEMENT; INSERT INTO s.v VALUES (50, 1)");
    let gtid = server.gtid_executed().subtract(&before).to_string();
    replica.wait_until("replay's stop", |status| status["last_sql_error"]["exit"] == 6);
    run(&["stop", "io"], &data).expect(0, &[]);
    server.sql("INSERT INTO s.t VALUES (4, 4)");
    run(&["skip", &gtid], &data).expect(0, &[]);
    run(&["start", "sql"], &data).expect(0, &[]);
    let status = replica.wait_until("replay", |status| executed(status).contains(&gtid.parse().unwrap()));
    assert_eq!(status["source"]["state"], "stopped", "{status}");
    assert!(status["last_sql_error"].is_null() && status["last_io_error"].is_null(), "{status}");
    run(&["start"], &data).expect(0, &[]);
    server.sql("SET sql_log_bin = 0; DELETE FROM s.u");
    assert_equal(&server, &mut replica, &["s"]);
    assert_eq!(replica.status().unwrap()["pid"], pid, "{}", replica.log_end());
    assert_eq!(replica.log().matches("replay stopped; receiving is not affected").count(), 3, "{}", replica.log());
    replica.stop();
}

#[test]
fn receiving_stops_and_goes_on_in_the_same_process() {
    let server = Server::start_unsynced("stays-io", &[]);
    server.sql("CREATE DATABASE s; CREATE TABLE s.t (id INT PRIMARY KEY); CREATE VIEW s.v AS SELECT * FROM s.t");
    let data = folder("stays-io");
    let mut replica = Replica::follow(&server, &data, &[STAY]);
    replica.catch_up(&server);
    let pid = replica.pid();

    // As asked.
    run(&["stop", "io"], &data).expect(0, &[]);
    server.sql("INSERT INTO s.t VALUES (1)");
    let status = replica.status().unwrap();
    assert_eq!((&status["source"]["state"], &status["lag"]["current_us"]), (&"stopped".into(), &Value::Null));
    run(&["copy", "s.t"], &data).expect(1, &["slipstream start io"]);
    run(&["stop", "sql"], &data).expect(0, &[]);
    run(&["start", "io"], &data).expect(0, &[]);
    let goal = server.gtid_executed();
    let status = replica.wait_until("receiving", |status| goal.is_subset_of(&retrieved(status)));
    assert_eq!(status["replay"]["state"], "paused");
    run(&["start", "sql"], &data).expect(0, &[]);
    assert_equal(&server, &mut replica, &["s"]);

    // A source that preflight refuses, then does not.
    server.sql("SET GLOBAL binlog_format = STATEMENT");
    end_dumps(&server);
    let status = replica.wait_until("a refusal", io_stopped);
    assert_eq!(status["last_io_error"]["exit"], 4, "{status}");
    assert_ne!(status["replay"]["state"], "failed", "{status}");
    run(&["status"], &data).expect(0, &["Last_IO_Error", "binlog_format is STATEMENT", "slipstream start io"]);
    run(&["start", "io"], &data).expect(0, &[]);
    replica.wait_until("the same refusal", |now| {
        io_stopped(now) && now["last_io_error"]["at"] != status["last_io_error"]["at"]
    });
    server.sql("SET GLOBAL binlog_format = ROW");
    run(&["start", "io"], &data).expect(0, &[]);
    assert_equal(&server, &mut replica, &["s"]);
    let status = replica.wait_until("a connection", |status| status["source"]["state"] == "connected");
    assert!(status["last_io_error"].is_null(), "{status}");

    // What it needs is purged. Replay has stopped too: each has its error.
    let before = server.gtid_executed();
    server.sql("SET SESSION binlog_format = STATEMENT; INSERT INTO s.v VALUES (50)");
    replica.wait_until("replay's stop", |status| status["replay"]["state"] == "failed");
    run(&["stop", "io"], &data).expect(0, &[]);
    server.sql("INSERT INTO s.t VALUES (2)");
    server.purge_binary_logs();
    run(&["start", "io"], &data).expect(0, &[]);
    let status = replica.wait_until("the purged log", io_stopped);
    let (io, sql) = (&status["last_io_error"], &status["last_sql_error"]);
    assert_eq!((&io["exit"], &io["number"], &sql["exit"]), (&5.into(), &1236.into(), &6.into()), "{status}");
    // Replay goes on with what was received, and receiving stays as it is.
    let view = server.gtid_executed().subtract(&before).intersection(&retrieved(&status)).to_string();
    run(&["skip", &view], &data).expect(0, &[]);
    run(&["start", "sql"], &data).expect(0, &[]);
    let status = replica.wait_until("replay", |status| executed(status) == retrieved(status));
    assert_eq!(status["last_io_error"]["exit"], 5, "{status}");
    assert!(status["last_sql_error"].is_null(), "{status}");
    assert_eq!(status["pid"], pid, "{}", replica.log_end());
    // A stop as asked is no failure.
    replica.stop();
    run(&["status"], &data).expect(0, &["Last_IO_Error", "[1236]"]);
}

/// Two copies of a folder have one identity: the source disconnects whoever came first. They must not do that in turns.
#[test]
fn two_clones_do_not_throw_each_other_out_for_ever() {
    let server = Server::start_unsynced("clones", &[]);
    server.sql("CREATE DATABASE s; CREATE TABLE s.t (id INT PRIMARY KEY)");
    let (data, copy) = (folder("clones"), folder("clones-copy"));
    let mut first = Replica::follow(&server, &data, &[STAY]);
    first.catch_up(&server);
    first.stop();
    copy_folder(&data, &copy);
    let mut first = Replica::follow(&server, &data, &[STAY]);
    first.catch_up(&server);
    let mut second = Replica::follow(&server, &copy, &[STAY]);
    let status = first.wait_until("the other's connection", io_stopped);
    assert_eq!((&status["last_io_error"]["number"], &status["last_io_error"]["exit"]), (&1236.into(), &4.into()));
    server.sql("INSERT INTO s.t VALUES (1)");
    assert_equal(&server, &mut second, &["s"]);
    assert_eq!(second.status().unwrap()["source"]["reconnects"], 0, "{}", second.log_end());
    assert!(io_stopped(&first.status().unwrap()), "{}", first.log_end());
    // Once the other is gone, it goes on.
    second.stop();
    run(&["start", "io"], &data).expect(0, &[]);
    assert_equal(&server, &mut first, &["s"]);
    first.stop();
}

#[test]
fn a_lost_folder_ends_the_process() {
    let server = Server::start_unsynced("lost", &[]);
    let (data, moved) = (folder("lost"), folder("lost-moved"));
    let mut replica = Replica::follow(&server, &data, &[STAY]);
    replica.catch_up(&server);
    std::fs::rename(&data, &moved).unwrap();
    let mut other = Replica::follow(&server, &data, &[STAY]);
    assert_eq!(replica.wait_exit(), 8, "{}", replica.log_end());
    replica.waits_for_log(&["was removed or replaced"]);
    // The other one's socket and status are still its own.
    wait_for("an answer", || other.status(), || other.log_end());
    other.catch_up(&server);
    other.stop();
}
