//! What an operator is told: of a replica that hangs, is paused, copies, or has stopped. It must be true, and come at
//! once.

use std::path::Path;
use std::time::{Duration, Instant};

use rustix::process::{Resource, Signal};
use serde_json::Value;
use whole_program_tests::replica::{executed, stopped_executed};
use whole_program_tests::{Replica, Server, folder, slipstream, slipstream_with, wait_for};

/// Found by an operator: a process stopped by a signal left `status --max-lag` silent for 32 s, and `stop` for ever.
#[test]
fn a_replica_that_hangs_is_named_at_once() {
    let server = Server::start("hangs", &[]);
    server.sql("CREATE DATABASE h; CREATE TABLE h.t (id INT PRIMARY KEY); INSERT INTO h.t VALUES (1)");
    let mut replica = Replica::follow(&server, &folder("hangs"), &[]);
    replica.catch_up(&server);
    replica.signal(Signal::STOP);
    let silent = format!("process {} does not answer", replica.pid());
    let status = |options: &[&str]| {
        let began = Instant::now();
        let ran = slipstream(&[&["status", "--data", replica.data()], options].concat());
        // 1.5 s, and what a busy machine adds.
        assert!(began.elapsed() < Duration::from_secs(20), "{:?}", began.elapsed());
        ran
    };
    let ran = status(&["--max-lag", "10s"]);
    ran.expect(1, &[&silent, "what follows was saved", "Executed_Gtid_Set"]);
    assert!(ran.err.contains(&silent), "{}", ran.err);
    let json: Value = serde_json::from_str(&status(&["--json"]).expect(1, &[]).out).unwrap();
    assert_eq!(json["unanswered"]["pid"], replica.pid());
    assert!(json["unanswered"]["status_age_us"].is_u64(), "{json}");
    status(&["--watch", "--count", "1"]).expect(0, &[&silent]);
    let began = Instant::now();
    slipstream(&["stop", "--data", replica.data()]).expect(1, &[&silent]);
    assert!(began.elapsed() < Duration::from_secs(20), "{:?}", began.elapsed());
    replica.signal(Signal::CONT);
    assert_eq!(replica.wait_exit(), 0, "it still carries out the stop: {}", replica.log());
}

/// Found by an operator: caught up, then paused, `status` said "Lag 3 min 24 s, Backlog 0"; with a backlog `verify`
/// said nothing for a minute.
#[test]
fn a_paused_replica_tells_lag_and_backlog_as_they_are() {
    let server = Server::start("paused", &[]);
    server.sql("CREATE DATABASE p; CREATE TABLE p.t (id INT PRIMARY KEY); INSERT INTO p.t VALUES (1)");
    let old = Instant::now();
    wait_for("a log that is seconds old", || (old.elapsed() > Duration::from_secs(3)).then_some(()), String::new);
    let mut replica = Replica::follow(&server, &folder("paused"), &[]);
    let status = replica.catch_up(&server);
    assert!(status["lag"]["overall"]["max_us"].as_u64() > Some(3_000_000), "{}", status["lag"]);
    let data = replica.data().to_owned();
    let source = server.url("repl");
    let verify = || {
        let began = Instant::now();
        let ran = slipstream(&["verify", "--data", &data, "--source", &source]);
        assert!(began.elapsed() < Duration::from_secs(30), "{:?}", began.elapsed());
        ran
    };
    slipstream(&["pause", "--data", &data]).expect(0, &[]);
    let status = replica.wait_until("the pause", |status| status["replay"]["state"] == "paused");
    assert_eq!((&status["lag"]["current_us"], &status["backlog"]["transactions"]), (&0.into(), &0.into()));
    slipstream(&["status", "--data", &data, "--max-lag", "1s"]).expect(0, &["Backlog              0 transactions\n"]);
    verify().expect(0, &[]);
    server.sql("INSERT INTO p.t VALUES (2)");
    replica.wait_until("a backlog and its lag", |status| {
        status["backlog"]["transactions"] == 1 && status["lag"]["current_us"].as_u64() > Some(0)
    });
    let resume = format!("slipstream resume --data {data}");
    verify().expect(1, &["replay is paused, 1 received transactions behind", &resume]);
    slipstream(&["resume", "--data", &data]).expect(0, &[]);
    replica.catch_up(&server);
    verify().expect(0, &[]);
    replica.stop();
}

/// Found by an operator: during the initial copy `status` said "IO No, 0 B of 0 B", and `--watch` no percentage.
#[test]
fn the_initial_copy_has_a_whole_status() {
    let server = Server::start("copying", &[]);
    server.sql(
        "CREATE DATABASE c; CREATE TABLE c.t (id INT PRIMARY KEY, v LONGTEXT); SET cte_max_recursion_depth = 10000; \
         INSERT INTO c.t WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 4000) \
         SELECT i, REPEAT('x', 1000) FROM n; GRANT RELOAD, XA_RECOVER_ADMIN ON *.* TO repl",
    );
    server.purge_binary_logs();
    let mut replica = Replica::follow(&server, &folder("copying"), &["--copy-rate=100K"]);
    let copying = |status: &Value| status["replay"]["state"] == "copying";
    replica.wait_until("the copy's connection", |status| copying(status) && status["source"]["state"] == "connected");
    server.sql("CREATE TABLE c.later (id INT PRIMARY KEY)");
    let status = replica
        .wait_until("what is received meanwhile", |status| copying(status) && status["backlog"]["transactions"] == 1);
    for number in ["/memory/rss_bytes", "/memory/limit_bytes", "/disk/folder_bytes", "/uptime_us", "/cpu_us"] {
        assert!(status.pointer(number).and_then(Value::as_u64) > Some(0), "{number} in {status}");
    }
    assert!(status["source"]["server_version"].as_str() > Some("8"), "{}", status["source"]);
    slipstream(&["status", "--data", replica.data()]).expect(0, &["Replica_IO_Running   Yes", "%  tables 0/1"]);
    let watch = slipstream(&["status", "--data", replica.data(), "--watch", "--count=1"]);
    watch.expect(0, &["%  tables 0/1", "log received "]);
    replica.stop();
}

/// Found by an operator: after a stop with 1062, `dump` stopped six transactions earlier, at a row that the running
/// replica had accepted: it compared all rows, the replica a sample.
#[test]
fn a_stopped_folder_shows_what_its_replica_showed() {
    // A cut lies below the accepted contradiction, or nothing does.
    for (table, with_cut) in [("plain", false), ("cut", true)] {
        let server = Server::start(&format!("stopped-{table}"), &[]);
        server.sql("CREATE DATABASE s");
        server.sql(&format!("CREATE TABLE s.{table} (id INT PRIMARY KEY, v INT); INSERT INTO s.{table} VALUES (1, 1)"));
        let data = folder(&format!("stopped-{table}"));
        let options = ["--check-images=sample", "--cut-interval=1h", "--on-drift=stop"];
        let mut replica = Replica::follow(&server, &data, &options);
        replica.catch_up(&server);
        if with_cut {
            slipstream(&["check-store", "--data", replica.data()]).expect(0, &[]);
        }
        server.sql(&format!(
            "SET sql_log_bin = 0; INSERT INTO s.{table} VALUES (2, 1); SET sql_log_bin = 1;
             UPDATE s.{table} SET v = 2 WHERE id = 2; INSERT INTO s.{table} VALUES (3, 1);
             CREATE TABLE s.{table}_later (id INT PRIMARY KEY); INSERT INTO s.{table}_later VALUES (7)"
        ));
        replica.catch_up(&server);
        let shown = server.gtid_executed();
        server.sql(&format!(
            "SET sql_log_bin = 0; DELETE FROM s.{table} WHERE id = 3; SET sql_log_bin = 1;
             INSERT INTO s.{table} VALUES (3, 2)"
        ));
        replica.expect_exit(9, &["1062", table]);
        assert_eq!(stopped_executed(&data), shown);
        let path = data.to_str().unwrap();
        let rows =
            |table: &str| slipstream(&["dump", "--format=tab", "--data", path, table]).expect(0, &["1062"]).out.clone();
        assert_eq!(rows(&format!("s.{table}")), "id\tv\n1\t1\n2\t2\n3\t1\n");
        assert_eq!(rows(&format!("s.{table}_later")), "id\n7\n");
        let verify = slipstream(&["verify", "--data", path, "--source", &server.url("repl")]);
        verify.expect(1, &["same set", &shown.to_string()]);
    }
}

/// A pause keeps what comes after it from being shown, on the stopped folder too.
#[test]
fn a_folder_stopped_while_paused_shows_nothing_of_its_backlog() {
    let server = Server::start("paused-stop", &[]);
    server.sql("CREATE DATABASE p; CREATE TABLE p.t (id INT PRIMARY KEY); INSERT INTO p.t VALUES (1)");
    let data = folder("paused-stop");
    let mut replica = Replica::follow(&server, &data, &[]);
    replica.catch_up(&server);
    let shown = server.gtid_executed();
    let path = data.to_str().unwrap();
    slipstream(&["pause", "--data", path]).expect(0, &[]);
    server.sql("INSERT INTO p.t VALUES (2); DROP TABLE p.t");
    let waiting = |status: &Value| status["backlog"]["transactions"] == 2;
    assert_eq!(executed(&replica.wait_until("the backlog", waiting)), shown);
    replica.stop();
    assert_shows(path, &data, &shown, "id\n1\n");
    // Killed, it shows what a start would lead to.
    let mut replica = Replica::follow(&server, &data, &[]);
    slipstream(&["resume", "--data", path]).expect(0, &[]);
    replica.catch_up(&server);
    replica.kill();
    slipstream(&["dump", "--format=tab", "--data", path, "p.t"]).expect(1, &["no table `p`.`t`"]);
}

fn assert_shows(path: &str, data: &Path, shown: &base::GtidSet, rows: &str) {
    assert_eq!(stopped_executed(data), *shown);
    assert_eq!(slipstream(&["dump", "--format=tab", "--data", path, "p.t"]).expect(0, &[]).out, rows);
}

/// Found by an operator: `skip UUID:99999` of a transaction never seen was accepted, and could not be taken back.
#[test]
fn a_skip_is_listed_and_can_be_taken_back_until_it_is_met() {
    let server = Server::start("unskip", &[]);
    server.sql("CREATE DATABASE k; CREATE TABLE k.t (id INT PRIMARY KEY); INSERT INTO k.t VALUES (1)");
    let data = folder("unskip");
    let mut replica = Replica::follow(&server, &data, &["--cut-interval=1h"]);
    replica.catch_up(&server);
    let path = data.to_str().unwrap();
    let executed = server.gtid_executed().to_string();
    let (uuid, numbers) = executed.split_once(':').unwrap();
    let last: u64 = numbers.rsplit('-').next().unwrap().parse().unwrap();
    let gtid = |number: u64| format!("{uuid}:{number}");
    let skip = |arguments: &[&str]| slipstream(&[&["skip", "--data", path], arguments].concat());
    let list = || skip(&["--list"]).expect(0, &[]).out.clone();
    let rows = || slipstream(&["dump", "--format=tab", "--data", path, "k.t"]).expect(0, &[]).out.clone();
    let none = "no transaction is to be skipped\n";

    let far = gtid(99_999);
    skip(&[&far]).expect(0, &["when replay meets it", "warning", "the last one received", "skip --undo"]);
    assert_eq!(list(), format!("waiting\t{far}\n"));
    skip(&["--undo", &far]).expect(0, &["will not be skipped"]);
    assert_eq!(list(), none);
    skip(&["--undo", &far]).expect(1, &["not on the list"]);

    // Decoded before the list changes and sequenced after it: what counts is the list then.
    let paused = |replica: &mut Replica, sql: &str| {
        slipstream(&["pause", "--data", path]).expect(0, &[]);
        server.sql(sql);
        replica.wait_until("the transaction", |status| status["backlog"]["transactions"] == 1);
    };
    assert!(!skip(&[&gtid(last + 1)]).expect(0, &[]).err.contains("warning"));
    paused(&mut replica, "INSERT INTO k.t VALUES (2)");
    skip(&["--undo", &gtid(last + 1)]).expect(0, &[]);
    slipstream(&["resume", "--data", path]).expect(0, &[]);
    replica.catch_up(&server);
    assert_eq!(rows(), "id\n1\n2\n");
    paused(&mut replica, "INSERT INTO k.t VALUES (3)");
    let third = gtid(last + 2);
    skip(&[&third]).expect(0, &[]);
    slipstream(&["resume", "--data", path]).expect(0, &[]);
    replica.catch_up(&server);
    assert_eq!(rows(), "id\n1\n2\n");
    assert_eq!(list(), format!("met\t{third}\n"));
    skip(&["--undo", &third]).expect(1, &["too late, already committed empty", &third]);
    skip(&[&third]).expect(1, &["already executed"]);

    // It is met again after a crash, until a cut holds it.
    replica.kill();
    assert!(list().contains(&third), "{}", list());
    let mut replica = Replica::follow(&server, &data, &["--cut-interval=1h"]);
    replica.catch_up(&server);
    assert_eq!(rows(), "id\n1\n2\n");
    assert_eq!(list(), format!("met\t{third}\n"));
    slipstream(&["check-store", "--data", path]).expect(0, &[]);
    assert_eq!(list(), none);
    replica.stop();
    assert_eq!(list(), none);
    skip(&[&third]).expect(1, &["already executed"]);
    skip(&[&gtid(last + 3)]).expect(0, &["at the next start"]);
    assert_eq!(list(), format!("waiting\t{}\n", gtid(last + 3)));
    skip(&["--undo", &gtid(last + 3)]).expect(0, &[]);
    assert_eq!(list(), none);
}

/// Found by an operator: the password of a URL stood in the process list as long as the replica ran.
#[test]
fn no_password_stands_in_the_process_list() {
    let server = Server::start("secrets", &[]);
    let data = folder("secrets");
    let source = server.url("repl").replace("repl@", "repl:repl@");
    assert!(source.contains(":repl@"), "{source}");
    // Even where core files are wanted.
    let limit = rustix::process::getrlimit(Resource::Core);
    let unlimited = rustix::process::Rlimit { current: limit.maximum, ..limit };
    rustix::process::setrlimit(Resource::Core, unlimited).unwrap();
    let mut replica = Replica::spawn(&source, &data, &[], |command| {
        command.env_remove("MYSQL_PWD");
    });
    rustix::process::setrlimit(Resource::Core, limit).unwrap();
    replica.wait_until("the connection", |status| status["source"]["state"] == "connected");
    let arguments = std::fs::read(format!("/proc/{}/cmdline", replica.pid())).unwrap();
    let environment = std::fs::read(format!("/proc/{}/environ", replica.pid())).unwrap();
    let (arguments, environment) = (String::from_utf8_lossy(&arguments), String::from_utf8_lossy(&environment));
    assert!(arguments.contains("mysql://repl:***@"), "{arguments}");
    assert!(!arguments.contains(":repl@") && !environment.contains(":repl@"), "{arguments}{environment}");
    let name = std::fs::read_to_string(format!("/proc/{}/comm", replica.pid())).unwrap();
    assert!(!name.starts_with("exe"), "{name}");
    let limits = std::fs::read_to_string(format!("/proc/{}/limits", replica.pid())).unwrap();
    let core = limits.lines().find_map(|line| line.strip_prefix("Max core file size")).unwrap();
    assert!(core.trim_start().starts_with("0 "), "a crash would leave all it knows in a file: {core}");
    assert!(!replica.log().contains("SLIP-000007"), "{}", replica.log());
    // The certificate of the server's own authority: encrypted, not verified, said once.
    assert_eq!(replica.log().matches("SLIP-000084").count(), 1, "{}", replica.log());
    replica.stop();
    let attached = |password: &str| {
        slipstream_with(
            &["check", "-h", "127.0.0.1", "-P", &server.port().to_string(), "-u", "repl", password],
            |command| {
                command.env_remove("MYSQL_PWD");
            },
        )
    };
    attached("-prepl").expect(0, &["the source can be followed", "certificate is not verified", "ssl-mode=PREFERRED"]);
    // Who has the source's certificate verified by nobody is told whether it has the password.
    server.sql("FLUSH PRIVILEGES");
    attached("-prepl").expect(0, &["certificate is not verified, and the login gave it the password itself"]);
    attached("-prepl").expect(0, &["every login gives the password itself to a server that asks for it"]);
    let wrong = attached("-pwrong");
    wrong.expect(1, &["error 1045"]);
    assert!(!wrong.err.contains("Error 1045: error 1045"), "{}", wrong.err);
}

/// Found by an operator: `check` said nothing of a source whose crash leaves rows here that it lost.
#[test]
fn a_source_that_can_lose_what_it_sent_is_warned_of() {
    let server = Server::start("loose", &[]);
    let check = || slipstream(&["check", "--source", &server.url("repl")]).expect(0, &[]).out.clone();
    server.sql("SET GLOBAL sync_binlog = 1; SET GLOBAL innodb_flush_log_at_trx_commit = 1");
    assert!(!check().contains("can lose"), "{}", check());
    server.sql("SET GLOBAL sync_binlog = 1000; SET GLOBAL innodb_flush_log_at_trx_commit = 2");
    let said = check();
    assert!(said.contains("sync_binlog is 1000 and innodb_flush_log_at_trx_commit is 2: a crash"), "{said}");
    assert!(said.contains("SET PERSIST sync_binlog = 1; SET PERSIST innodb_flush_log_at_trx_commit = 1;"), "{said}");
}

/// Found by an operator: a stop named `key bytes 0x78030000` for id 888, and its lines were divided by `?` and `\n`.
#[test]
fn messages_name_rows_and_have_lines() {
    let server = Server::start("messages", &[]);
    server.sql(
        "CREATE DATABASE m; CREATE TABLE m.t (id INT, name VARCHAR(9), v INT, PRIMARY KEY (name, id));
         CREATE TABLE m.bag (a INT, b VARCHAR(9))",
    );
    let data = folder("messages");
    for (table, row, change, shown) in [
        ("t", "(888, 'it''s', 1)", "UPDATE m.t SET v = 2", r"(id, name) = (888, 'it\'s')"),
        ("bag", "(7, NULL)", "DELETE FROM m.bag", "(a, b) = (7, NULL)"),
    ] {
        let mut replica = Replica::follow(&server, &data, &[]);
        replica.catch_up(&server);
        let before = server.gtid_executed();
        server.sql(&format!("SET sql_log_bin = 0; INSERT INTO m.{table} VALUES {row}; SET sql_log_bin = 1; {change}"));
        replica.expect_exit(9, &["1032", &format!("m`.`{table}`, {shown}")]);
        let gtid = server.gtid_executed().subtract(&before).to_string();
        slipstream(&["skip", "--data", data.to_str().unwrap(), &gtid]).expect(0, &[]);
    }
    // A refusal has lines.
    server.sql("SET GLOBAL server_id = 0");
    let data = folder("messages-refused");
    let replica = Replica::spawn(&server.url("repl"), &data, &[], |_| ());
    let log = replica.expect_exit(4, &["the source cannot be followed: | "]);
    assert!(!log.contains("\\n"), "{log}");
    let status = slipstream(&["status", "--data", data.to_str().unwrap()]).expect(0, &["fix: SET PERSIST"]).out.clone();
    assert!(!status.contains('?'), "{status}");
}

/// Found by an operator: without its store, a folder whose source has purged its log was advised to be filled by an
/// initial copy, which no start of it made.
#[test]
fn a_folder_without_its_store_is_told_what_to_remove() {
    let server = Server::start("storeless", &[]);
    server
        .sql("CREATE DATABASE d; CREATE TABLE d.t (id INT PRIMARY KEY); GRANT RELOAD, XA_RECOVER_ADMIN ON *.* TO repl");
    let data = folder("storeless");
    let options = ["--cut-interval=100ms", "--max-relay-log-size=4096"];
    let mut replica = Replica::follow(&server, &data, &options);
    // Until the relay log no longer reaches back.
    for id in 0.. {
        server.sql(&format!("INSERT INTO d.t VALUES ({id}); INSERT INTO d.t SELECT {id} + 1000000"));
        if replica.log().contains("purged: relay-bin.000001") {
            break;
        }
        assert!(id < 1000, "{}", replica.log());
    }
    replica.catch_up(&server);
    replica.stop();
    server.purge_binary_logs();
    std::fs::remove_dir_all(data.join("store")).unwrap();
    let path = data.to_str().unwrap();
    let remove = format!("rm -r {path}/relay-log {path}/store, then the same command");
    let log = Replica::spawn(&server.url("repl"), &data, &options, |_| ()).expect_exit(5, &["1789", &remove]);
    assert!(!log.contains("To continue: stop the replica"), "{log}");
    for folder in ["relay-log", "store"] {
        let _ = std::fs::remove_dir_all(data.join(folder));
    }
    let mut replica = Replica::follow(&server, &data, &options);
    replica.copied();
    replica.catch_up(&server);
    let count = slipstream(&["dump", "--format=tab", "--data", path, "d.t"]).expect(0, &[]).out.lines().count() - 1;
    assert_eq!(count.to_string(), server.sql("SELECT COUNT(*) FROM d.t").trim());
    replica.stop();
}
