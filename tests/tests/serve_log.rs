//! `slipstream replica --serve-log`: stock replicas behind a replica of ours.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing)]

use std::path::Path;
use std::process::Command;

use base::GtidSet;
use rustix::process::Signal;
use whole_program_tests::relay::{
    Relay, Releases, acknowledged, acknowledges, assert_same_rows, replica, replica_status, semi_synchronous, source,
    wait_until_equal, with_next,
};
use whole_program_tests::replica::executed;
use whole_program_tests::{
    Load, Ran, Replica, Server, SmallDisk, assert_equal, folder, length, repository, slipstream, wait_for,
};

/// Small files, and cuts that would purge the relay log at once.
const SMALL: &[&str] = &["--max-binlog-size=256K", "--max-relay-log-size=64K", "--cut-interval=1"];

fn set(text: &str) -> GtidSet {
    text.split_whitespace().collect::<String>().parse().unwrap()
}

/// A stock replica that has what these databases of the source have now.
fn restored(source: &Server, name: &str, dbs: &[&str]) -> Server {
    let mut command = Command::new(repository().join("testbed/mysql"));
    command.args(["run", "mysqldump", "--no-defaults", "--user=root", "--single-transaction", "--set-gtid-purged=ON"]);
    command.arg("--socket").arg(source.socket()).arg("--databases").args(dbs);
    let dumped = Ran::from(command.output().unwrap());
    let dumped = &dumped.expect(0, &["GTID_PURGED"]).out;
    let replica = replica(name);
    replica.client(&[], format!("RESET BINARY LOGS AND GTIDS;\n{dumped}")).unwrap();
    replica
}

fn served_gtids(status: &serde_json::Value) -> GtidSet {
    set(status["served"]["executed"].as_str().unwrap())
}

/// Numbers of the relay log files of a replica.
fn relay_log_files(relay: &Relay) -> Vec<String> {
    let names = std::fs::read_dir(format!("{}/relay-log", relay.data())).unwrap();
    let mut names: Vec<String> = names.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
    names.retain(|name| name.strip_prefix("relay-bin.").is_some_and(|rest| rest.parse::<u64>().is_ok()));
    names.sort();
    names
}

#[test]
fn a_stock_replica_runs_behind_a_replica_that_is_killed() {
    // Several cuts fall into a served file, so that they would purge what it is made of.
    let options = ["--max-binlog-size=2M", "--max-relay-log-size=64K", "--cut-interval=0.3"];
    let source = source("servelog");
    source.sql("CREATE USER `load` IDENTIFIED BY 'repl'; GRANT ALL ON *.* TO `load`, `repl`; CREATE DATABASE d");
    let url = source.url("load");
    let arguments = ["--server", &url, "--database", "tpcc", "--warehouses=1", "--scale=0.02"];
    slipstream(&[&["lab", "tpcc", "prepare"][..], &arguments].concat()).expect(0, &[]);
    // What is there is copied, and no part of the served log.
    source.purge_binary_logs();
    let copied = source.gtid_executed();
    let behind = restored(&source, "servelog2", &["tpcc", "d"]);
    let mut relay = Relay::beside_replay(&source, "servelog", &options);
    relay.feeds(&behind);
    let load = Load::start(&source);
    for round in 0..length(4, 30) {
        source.sql(&format!(
            "CREATE TABLE d.t{round} (a INT PRIMARY KEY, b INT); INSERT INTO d.t{round} VALUES (1, 2), (3, 4);
             ALTER TABLE d.t{round} ADD COLUMN c INT DEFAULT 5, ADD UNIQUE KEY (b);
             UPDATE d.t{round} SET c = 7, b = b + 1"
        ));
        let goal = source.gtid_executed().count() + length(300, 1500);
        let written = || (source.gtid_executed().count() > goal).then_some(());
        wait_for("load", written, || source.gtid_executed().to_string());
        wait_until_equal(&source, &behind);
        let (before, files) = (relay.served(), relay_log_files(&relay));
        relay = relay.kill_and_start(&source, &options);
        wait_until_equal(&source, &behind);
        let now = relay.served();
        for (name, bytes) in &before {
            let again = now.iter().find(|(other, _)| other == name).map(|(_, again)| again.starts_with(bytes));
            assert_eq!(again, Some(true), "round {round}: {name} after a kill, {files:?}: {}", relay.process.log_end());
        }
    }
    drop(load);
    wait_until_equal(&source, &behind);
    assert_same_rows(&source, &behind, &["tpcc", "d"]);
    let status = relay.process.catch_up(&source);
    assert_equal(&source, &mut relay.process, &["tpcc", "d"]);
    assert_eq!(set(status["served"]["purged"].as_str().unwrap()), copied, "{}", status["served"]);
    assert_eq!((status["served"]["source_clock"].as_u64(), status["served"]["error"].is_null()), (Some(0), true));
    // Cuts purge the relay log once the last served file can do without it.
    assert!(relay.served().len() > 3, "{} files", relay.served().len());
    assert_ne!(relay_log_files(&relay)[0], "relay-bin.000001", "{:?}", relay_log_files(&relay));
    let shown = replica_status(&behind);
    for wanted in ["Replica_IO_Running: Yes", "Replica_SQL_Running: Yes", "Last_Errno: 0", "Last_IO_Errno: 0"] {
        assert!(shown.contains(wanted), "{wanted}: {shown}");
    }
    eprintln!("{}", slipstream(&["status", "--data", relay.data()]).out);
    relay.process.stop();
}

#[test]
fn readers_and_monitors_see_a_replica_with_a_binary_log() {
    let source = source("servelogasked");
    source.sql("CREATE DATABASE d; CREATE TABLE d.t (id INT PRIMARY KEY); INSERT INTO d.t VALUES (1)");
    let mut relay = Relay::beside_replay(&source, "servelogasked", &["--max-binlog-size=4K"]);
    let behind = restored(&source, "servelogasked2", &["d"]);
    relay.feeds(&behind);
    for id in 10..60 {
        source.sql(&format!("INSERT INTO d.t VALUES ({id})"));
    }
    let status = relay.process.catch_up(&source);
    wait_until_equal(&source, &behind);
    let all = executed(&status);
    wait_for("stamping", || relay.process.status().filter(|now| served_gtids(now) == all), || relay.process.log_end());
    let asked = relay.sql("SELECT @@gtid_executed, @@gtid_purged, @@log_bin, @@log_replica_updates, @@read_only");
    asked.expect(0, &[&format!("{all}\t\t1\t1\t1")]);
    let logs = relay.sql("SHOW BINARY LOGS").out;
    assert!(logs.starts_with("binlog.000001\t") && logs.lines().count() > 2, "{logs}");
    let last = logs.lines().last().unwrap().split('\t').next().unwrap().to_owned();
    assert!(relay.sql("SHOW BINARY LOG STATUS").out.starts_with(&last), "{logs}");
    let uuid = behind.sql("SELECT @@server_uuid").trim().to_owned();
    assert!(relay.sql("SHOW REPLICAS").out.contains(&uuid), "{}", relay.sql("SHOW REPLICAS").out);
    // It replays beside that, and rows are read from it.
    relay.client("mysql", "reader", &["-Ne", "SELECT id FROM d.t WHERE id = 42"]).expect(0, &["42"]);
    relay.client("mysql", "reader", &["-Ne", "SELECT @@replica_parallel_type"]);
    let text = slipstream(&["status", "--data", relay.data()]).out;
    for wanted in ["Rates", "Replayed", "Served log", "Served GTIDs", "Stamped"] {
        assert!(text.contains(wanted), "{wanted}: {text}");
    }
    slipstream(&["relay", "check", &behind.url("repl"), "--data", relay.data()]).expect(0, &[]);
    let other = "3e11fa47-71ca-11e1-9e33-c80aa9429562";
    for (name, uuid) in [("behind", uuid.as_str()), ("away", other)] {
        let hold = format!("{name}={uuid}");
        slipstream(&["relay", "hold", &hold, "--data", relay.data()]).expect(0, &["until"]);
    }
    let list = || slipstream(&["relay", "hold", "--list", "--data", relay.data()]).out;
    assert!(list().contains(&uuid) && list().contains(other), "{}", list());
    slipstream(&["relay", "hold", "--remove", "away", "--data", relay.data()]).expect(0, &[]);
    let data = relay.data().to_owned();
    relay.process.stop();
    // The list is the folder's.
    let stopped = slipstream(&["relay", "hold", "--list", "--data", &data]).out;
    assert!(stopped.contains(&uuid) && !stopped.contains(other), "{stopped}");
}

#[test]
fn where_the_relay_log_lacks_what_follows_the_served_log_begins_anew() {
    let source = source("serveloganew");
    source.sql("CREATE DATABASE d; CREATE TABLE d.t (id INT PRIMARY KEY AUTO_INCREMENT, v INT)");
    let options = SMALL;
    let mut relay = Relay::beside_replay(&source, "serveloganew", options);
    let behind = restored(&source, "serveloganew2", &["d"]);
    relay.feeds(&behind);
    let write = |rows: usize| {
        for _ in 0..rows {
            source.sql("INSERT INTO d.t (v) VALUES (RAND() * 1000), (RAND() * 1000); UPDATE d.t SET v = v + 1 LIMIT 9");
        }
    };
    write(30);
    relay.process.catch_up(&source);
    wait_until_equal(&source, &behind);
    // Receiving stopped at the source's end, the relay log gone: only a replica that has all of it can go on.
    let order = |statement: &str| {
        slipstream(&["execute", statement, "--data", relay.data()]).expect(0, &[]);
    };
    order("STOP REPLICA");
    order("RESET REPLICA");
    let all = source.gtid_executed();
    let status = relay.process.status().unwrap();
    assert_eq!((set(status["served"]["purged"].as_str().unwrap()), served_gtids(&status)), (all.clone(), all));
    assert!(relay.process.log().contains("SLIP-000130"), "{}", relay.process.log_end());
    order("START REPLICA");
    write(30);
    relay.process.catch_up(&source);
    wait_until_equal(&source, &behind);
    // Without the option cuts purge the relay log, of which nobody says how much.
    let mut relay = relay.stop_and_start_replica(&source, options);
    write(1);
    relay.process.catch_up(&source);
    // Files up to this one hold what the stock replica has, and at least one transaction that it lacks.
    let lacked = relay_log_files(&relay).pop().unwrap();
    let purged = || {
        write(10);
        relay_log_files(&relay).first().filter(|name| **name > lacked).cloned()
    };
    wait_for("a purge", purged, || format!("{lacked}: {:?}", relay_log_files(&relay)));
    relay.sql("SHOW BINARY LOGS").expect(1, &["1381"]);
    let mut relay = relay.stop_and_start_replica(&source, &[options, &["--serve-log"]].concat());
    relay.process.waits_for_log(&["SLIP-000130"]);
    let status = relay.process.catch_up(&source);
    let purged = set(status["served"]["purged"].as_str().unwrap());
    // The stock replica lacks what is purged, and is told so.
    let missing = purged.subtract(&behind.gtid_executed());
    assert!(!missing.is_empty());
    let told = || Some(replica_status(&behind)).filter(|shown| shown.contains("Last_IO_Errno: 13114"));
    wait_for("the refusal", told, || replica_status(&behind));
    let anew = restored(&source, "serveloganew3", &["d"]);
    relay.feeds(&anew);
    write(30);
    wait_until_equal(&source, &anew);
    assert_same_rows(&source, &anew, &["d"]);
    relay.process.catch_up(&source);
    assert_equal(&source, &mut relay.process, &["d"]);
    relay.process.stop();
    // The last file would not get the same bytes.
    let options = ["--serve-log", "--dependency-tracking=commit-order"];
    let other = Replica::spawn(&source.url("repl"), &relay.data, &options, |_| ());
    other.expect_exit(2, &["was stamped with other settings", "restore the options; or remove"]);
}

/// The process ends between the two steps of beginning anew: what is kept says where the new log begins, and the files
/// are those of the old one.
#[test]
fn beginning_anew_is_begun_again_after_a_kill() {
    let source = source("servelogagain");
    source.sql("CREATE DATABASE d; CREATE TABLE d.t (id INT PRIMARY KEY AUTO_INCREMENT, v INT)");
    let options = &[&["--serve-log"], SMALL].concat()[..];
    let mut relay = Relay::beside_replay(&source, "servelogagain", SMALL);
    let write = |rows: usize| {
        for _ in 0..rows {
            source.sql("INSERT INTO d.t (v) VALUES (RAND() * 1000); UPDATE d.t SET v = v + 1");
        }
    };
    write(60);
    relay.process.catch_up(&source);
    let mut relay = relay.stop_and_start_replica(&source, SMALL);
    write(120);
    relay.process.catch_up(&source);
    let begun = || relay_log_files(&relay).first().filter(|name| *name != "relay-bin.000001").cloned();
    wait_for("a purge", begun, || format!("{:?}", relay_log_files(&relay)));
    let (served, old) = (relay.data.join("served-log"), relay.data.with_extension("old"));
    copy_files(&served, &old);
    let names = served_names(&relay);

    let mut relay = relay.stop_and_start_replica(&source, options);
    relay.process.waits_for_log(&["SLIP-000130"]);
    relay.process.signal(Signal::KILL);
    relay.process.wait_exit();
    std::fs::remove_dir_all(&served).unwrap();
    copy_files(&old, &served);
    let port = format!("--port={}", relay.port);
    relay.process = Replica::follow(&source, &relay.data, &[options, &[port.as_str()]].concat());
    let behind = restored(&source, "servelogagain2", &["d"]);
    relay.feeds(&behind);
    write(30);
    relay.process.catch_up(&source);
    wait_until_equal(&source, &behind);
    assert_same_rows(&source, &behind, &["d"]);
    let anew = served_names(&relay);
    assert!(names.last() < anew.first(), "{names:?}, then {anew:?}");
    assert_equal(&source, &mut relay.process, &["d"]);
    relay.process.stop();
}

fn served_names(relay: &Relay) -> Vec<String> {
    relay.served().into_iter().map(|(name, _)| name).collect()
}

fn copy_files(from: &Path, to: &Path) {
    std::fs::create_dir_all(to).unwrap();
    for entry in std::fs::read_dir(from).unwrap() {
        let path = entry.unwrap().path();
        std::fs::copy(&path, to.join(path.file_name().unwrap())).unwrap();
    }
}

#[test]
fn a_full_disk_under_the_served_log_stops_no_replay() {
    let Some(disk) = SmallDisk::new("servelogfull", 8) else { return };
    let source = source("servelogfull");
    source.sql("CREATE DATABASE d; CREATE TABLE d.t (id INT PRIMARY KEY, v LONGBLOB)");
    let data = folder("servelogfulldata");
    Replica::follow(&source, &data, &["--serve-log"]).stop();
    std::fs::remove_dir_all(data.join("served-log")).unwrap();
    std::os::unix::fs::symlink(disk.path(), data.join("served-log")).unwrap();
    let options = ["--max-binlog-size=3M", "--max-relay-log-size=1M", "--cut-interval=0.3"];
    let mut relay = Relay::beside_replay_within(&source, data, &options);
    let behind = replica("servelogfull2");
    relay.feeds(&behind);
    for id in 0..14 {
        source.sql(&format!("INSERT INTO d.t VALUES ({id}, REPEAT('x', 1000000))"));
    }
    let waits = |status: &serde_json::Value| status["served"]["waits"].as_str().unwrap().contains("free disk space");
    relay.process.wait_until("the wait", waits);
    relay.process.waits_for_log(&["SLIP-000063"]);
    // Rows are read here meanwhile, and what fits is served.
    let status = relay.process.catch_up(&source);
    assert!(waits(&status) && !executed(&status).is_subset_of(&served_gtids(&status)), "{status}");
    assert_equal(&source, &mut relay.process, &["d"]);
    let some = || (behind.sql("SELECT COUNT(*) FROM d.t").trim().parse::<u64>().unwrap() > 3).then_some(());
    wait_for("rows", some, || replica_status(&behind));
    // All is in a cut, which would purge the relay log but for what is not yet served.
    relay.process.wait_until("a cut", |status| status["store"]["last_cut"] == status["position"]["watermark"]);
    let kept = relay_log_files(&relay);
    assert!(kept.len() > 2, "{kept:?}");
    assert!(disk.resize(64));
    let all = source.gtid_executed();
    relay.process.wait_until("the served log's end", |status| all.is_subset_of(&served_gtids(status)));
    wait_until_equal(&source, &behind);
    assert_same_rows(&source, &behind, &["d"]);
    relay.process.waits_for_log(&["SLIP-000065"]);
    relay.process.stop();
}

#[test]
fn the_source_is_acknowledged_after_replicas_behind_a_replica_have() {
    let source = source("servelogacks");
    semi_synchronous(&source);
    let _releases = Releases(&source);
    let options = ["--ack-after-replicas=1"];
    let mut relay = Relay::beside_replay(&source, "servelogacks", &options);
    relay.process.wait_until("the connection", |status| status["source"]["semi_sync"] == true);
    let behind = replica("servelogacks2");
    acknowledges(&behind);
    let state = || source.sql("SHOW STATUS LIKE 'Rpl_semi_sync%'; SHOW PROCESSLIST");
    let next = with_next(&source);
    let has_it =
        |status: &serde_json::Value| next.is_subset_of(&executed(status)) && next.is_subset_of(&served_gtids(status));
    std::thread::scope(|scope| {
        let _releases = Releases(&source);
        let insert = scope.spawn(|| source.sql("INSERT INTO d.t VALUES (1)"));
        // Its own replay waits for nobody.
        relay.process.wait_until("the transaction, replayed and served", has_it);
        relay.process.waits_for_log(&["SLIP-000128"]);
        assert!(!insert.is_finished(), "{}", state());
        relay.process.signal(Signal::KILL);
        relay.process.wait_exit();
        let port = format!("--port={}", relay.port);
        relay.process = Replica::follow(&source, &relay.data, &["--serve-log", &port, options[0]]);
        relay.process.wait_until("the transaction, replayed and served", has_it);
        assert!(!insert.is_finished(), "{}", state());
        relay.feeds(&behind);
        wait_for("the acknowledgement", || insert.is_finished().then_some(()), state);
    });
    for id in 10..20 {
        source.sql(&format!("INSERT INTO d.t VALUES ({id})"));
    }
    let state = state();
    assert!(acknowledged(&source) > 10 && state.contains("Rpl_semi_sync_source_no_tx\t0"), "{state}");
    wait_until_equal(&source, &behind);
    assert_same_rows(&source, &behind, &["d"]);
    relay.process.catch_up(&source);
    assert_equal(&source, &mut relay.process, &["d"]);
    relay.process.stop();
}

#[test]
fn what_cannot_be_served_is_refused() {
    let data = folder("servelogrefused");
    let data = data.to_str().unwrap();
    let server = ["replica", "--source", "mysql://r@127.0.0.1:1", "--data", data];
    for (options, wanted) in [
        (&["--serve-log", "--relay-sync=never"][..], "relay-sync=never"),
        (&["--serve-log", "--relay-log-space-limit=2G"], "relay-log-space-limit must be at least max-binlog-size"),
        (&["--ack-after-replicas=1"], "--ack-after-replicas is of a relay, or of a replica with --serve-log"),
        (&["--definitions-from=mysql://r@h"], "--definitions-from is of a relay, or of a replica with --serve-log"),
    ] {
        slipstream(&[&server, options].concat()).expect(2, &[wanted]);
    }
    slipstream(&["replica", "--source", "file:/none", "--data", data, "--serve-log"]).expect(2, &["needs a server"]);
}
