//! Preflight: one clear message per problem, with the statement that fixes it and the exit code.

use std::sync::{Arc, Mutex, Weak};

use whole_program_tests::{Ran, Replica, Server, assert_equal, copy_folder, folder, slipstream, wait_for};

static SERVER: Mutex<Weak<Server>> = Mutex::new(Weak::new());

/// One server whose settings change: all changes of global settings are in one test.
fn server() -> Arc<Server> {
    Server::shared(&SERVER, "preflight", &[])
}

fn check(server: &Server, user: &str, options: &[&str]) -> Ran {
    let url = server.url(user);
    slipstream(&[&["check", "--source", &url], options].concat())
}

/// `replica` must refuse in the same words, and leave the source unchanged.
fn replica_refuses(server: &Server, code: i32, texts: &[&str]) {
    let (url, data) = (server.url("repl"), folder("refused"));
    slipstream(&["replica", "--source", &url, "--data", data.to_str().unwrap()]).expect(code, texts);
}

#[test]
fn settings_privileges_and_server_ids() {
    let server = server();
    let before = server.gtid_executed();
    check(&server, "repl", &[]).expect(0, &["can be followed", "9."]);

    server.sql("SET GLOBAL binlog_format = STATEMENT");
    let texts = ["binlog_format is STATEMENT", "SET PERSIST binlog_format = ROW"];
    check(&server, "repl", &[]).expect(4, &texts);
    replica_refuses(&server, 4, &texts);
    // Two problems give two messages.
    server.sql("SET GLOBAL gtid_mode = ON_PERMISSIVE");
    check(&server, "repl", &[])
        .expect(4, &["binlog_format is STATEMENT", "gtid_mode is ON_PERMISSIVE", "SET PERSIST gtid_mode = ON"]);
    server.sql("SET GLOBAL gtid_mode = ON; SET GLOBAL binlog_format = ROW");
    check(&server, "repl", &[]).expect(0, &[]);

    server.sql(
        "SET sql_log_bin = 0; CREATE USER nothing@'%' IDENTIFIED BY 'repl'; CREATE USER part@'127.0.0.1' IDENTIFIED BY 'repl';
         GRANT REPLICATION SLAVE, SELECT ON *.* TO part@'127.0.0.1'; CREATE USER byrole@'%' IDENTIFIED BY 'repl'; CREATE ROLE follows;
         GRANT REPLICATION SLAVE, REPLICATION CLIENT, SELECT ON *.* TO follows; GRANT follows TO byrole@'%'; SET DEFAULT ROLE follows TO byrole@'%';",
    );
    check(&server, "nothing", &[])
        .expect(4, &["GRANT REPLICATION SLAVE, REPLICATION CLIENT, SELECT ON *.* TO 'nothing'@'%'"]);
    check(&server, "part", &[]).expect(4, &["GRANT REPLICATION CLIENT ON *.* TO 'part'@'127.0.0.1'"]);
    check(&server, "byrole", &[]).expect(0, &[]);

    let own = server.sql("SELECT @@server_id");
    check(&server, "repl", &["--server-id", own.trim()]).expect(4, &["source's own", "--server-id"]);
    let mut first =
        Replica::follow(&server, &folder("first"), &["--server-id=4711", "--report-host=berlin", "--report-port=3999"]);
    first.catch_up(&server);
    let seen = server.sql("SHOW REPLICAS");
    assert!(seen.contains("4711\tberlin\t3999"), "{seen}");
    check(&server, "repl", &["--server-id", "4711"]).expect(4, &["another replica", "4711", "berlin"]);
    // Its own folder is not a clash: the same replica, restarted.
    let data = first.data.clone();
    first.stop();
    Replica::follow(&server, &data, &["--server-id=4711"]).stop();
    assert_eq!(server.gtid_executed(), before, "preflight changes nothing");
    // A copy of a folder has the same identity: the source disconnects whoever came first, and says why.
    let copy = folder("copy");
    copy_folder(&data, &copy);
    let first = Replica::follow(&server, &data, &[]);
    let mut second = Replica::follow(&server, &copy, &[]);
    second.catch_up(&server);
    first.expect_exit(4, &["same server_uuid", "its own data folder"]);
    second.stop();
}

#[test]
fn purged_and_errant() {
    let server = Server::start_unsynced("purged", &[]);
    let mut early = Replica::follow(&server, &folder("early"), &[]);
    server.sql("CREATE DATABASE p; CREATE TABLE p.t (id INT PRIMARY KEY); INSERT INTO p.t VALUES (1)");
    early.catch_up(&server);
    let data = early.data.clone();
    early.stop();
    // The source has purged what the stopped one already has: it continues; a new one needs a copy.
    server.sql("INSERT INTO p.t VALUES (2); FLUSH BINARY LOGS");
    let mut early = Replica::follow(&server, &data, &[]);
    early.catch_up(&server);
    early.stop();
    server.purge_binary_logs();
    server.sql("INSERT INTO p.t VALUES (3)");
    let mut early = Replica::follow(&server, &data, &[]);
    assert_equal(&server, &mut early, &["p"]);
    early.stop();
    let purged = server.sql("SELECT @@gtid_purged");
    assert!(!purged.trim().is_empty());
    // An empty folder needs an initial copy, and this account may not make one.
    check(&server, "repl", &[]).expect(4, &["initial copy of", "RELOAD", "GRANT"]);
    replica_refuses(&server, 4, &["RELOAD", "GRANT"]);
    // None of this leaves a replica behind, once the source has noticed that the earlier one is gone.
    wait_for("no replica", || server.sql("SHOW REPLICAS").is_empty().then_some(()), || server.sql("SHOW REPLICAS"));
    // Purged while it was away.
    server.sql("INSERT INTO p.t VALUES (4)");
    server.purge_binary_logs();
    server.sql("INSERT INTO p.t VALUES (5)");
    let url = server.url("repl");
    let path = data.to_str().unwrap();
    slipstream(&["replica", "--source", &url, "--data", path]).expect(5, &["purged and needed", "purge"]);
    slipstream(&["check", "--source", &url, "--data", path]).expect(5, &["purged and needed"]);

    // A source that lost its history: it lacks what we have.
    let executed = server.gtid_executed();
    server.sql("RESET BINARY LOGS AND GTIDS; CREATE DATABASE other");
    let late = folder("late");
    let mut running = Replica::follow(&server, &late, &[]);
    running.catch_up(&server);
    let uuid = executed.to_string().split(':').next().unwrap().to_owned();
    slipstream(&["replica", "--source", &url, "--data", path])
        .expect(4, &["the source's history is not the one", &uuid, "not on the source", "1236", "--start-anew"]);
    // The same under a running one.
    server.sql(
        "CREATE TABLE other.t (id INT); INSERT INTO other.t VALUES (1); DROP DATABASE other; CREATE DATABASE more",
    );
    running.catch_up(&server);
    server.sql("RESET BINARY LOGS AND GTIDS; CREATE DATABASE another");
    server.restart(&[]);
    let code = running.wait_exit();
    assert_eq!(code, 4, "{}", running.log());
    slipstream(&["replica", "--source", &url, "--data", late.to_str().unwrap()])
        .expect(4, &["the source's history is not the one"]);
}

#[test]
fn no_binary_log() {
    let server = Server::start("nolog", &["--skip-log-bin", "--gtid-mode=OFF", "--enforce-gtid-consistency=OFF"]);
    let texts = [
        "log_bin is OFF",
        "log_bin=binlog",
        "gtid_mode is OFF",
        "SET PERSIST enforce_gtid_consistency = ON",
        "SET PERSIST gtid_mode = OFF_PERMISSIVE",
    ];
    check(&server, "repl", &[]).expect(4, &texts);
    replica_refuses(&server, 4, &texts);
}

#[test]
fn mariadb_is_refused_after_its_native_password_login() {
    let Some(server) = Server::mariadb("maria", &[]) else { return };
    server.sql("CREATE USER native@'%' IDENTIFIED VIA mysql_native_password USING PASSWORD('repl'); GRANT ALL ON *.* TO native@'%'");
    for mode in ["--ssl-mode=DISABLED", "--ssl-mode=PREFERRED"] {
        check(&server, "native", &[mode]).expect(4, &["MariaDB", "8.0 to 9.7"]);
    }
    let ran = check(&server, "native", &["--password-file-that-is-not"]);
    ran.expect(2, &[]);
    let (url, data) = (server.url("native"), folder("maria"));
    slipstream(&["replica", "--source", &url, "--data", data.to_str().unwrap()]).expect(4, &["MariaDB"]);
}
