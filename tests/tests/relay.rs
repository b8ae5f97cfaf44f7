//! `slipstream relay` between a stock source and stock replicas.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::indexing_slicing)]

use testkit::raw_client::{CAPABILITIES, RawClient};
use testkit::run_with_input;
use testkit::server::mysql_client;
use whole_program_tests::compare::assert_equal;
use whole_program_tests::relay::{
    Relay, Releases, account, acknowledged, acknowledges, assert_same_rows, replica, replica_status, semi_synchronous,
    source, wait_until_equal, with_next,
};
use whole_program_tests::replica::executed;
use whole_program_tests::{Load, Replica, Server, SmallDisk, folder, length, slipstream, wait_for};

#[test]
fn a_stock_replica_runs_behind_a_relay_that_is_killed() {
    let source = source("relaysource");
    source.sql("CREATE USER `load` IDENTIFIED BY 'repl'; GRANT ALL ON *.* TO `load`; CREATE DATABASE d");
    let url = source.url("load");
    let arguments = ["--server", &url, "--database", "tpcc", "--warehouses=1", "--scale=0.02"];
    slipstream(&[&["lab", "tpcc", "prepare"][..], &arguments].concat()).expect(0, &[]);
    let options = ["--max-binlog-size=512K"];
    let mut relay = Relay::start(&source, "relay", &options);
    let replica = replica("relayreplica");
    relay.feeds(&replica);
    let load = Load::start(&source);
    for round in 0..length(5, 30) {
        source.sql(&format!(
            "CREATE TABLE d.t{round} (a INT PRIMARY KEY, b INT); INSERT INTO d.t{round} VALUES (1, 2), (3, 4);
             ALTER TABLE d.t{round} ADD COLUMN c INT DEFAULT 5, ADD UNIQUE KEY (b); UPDATE d.t{round} SET c = 7, b = b + 1;
             RENAME TABLE d.t{round} TO d.r{round}; ALTER TABLE d.r{round} DROP PRIMARY KEY; INSERT INTO d.r{round} VALUES (1, 9, 9)"
        ));
        let goal = source.gtid_executed().count() + length(150, 1000);
        let written = || (source.gtid_executed().count() > goal).then_some(());
        wait_for("load", written, || source.gtid_executed().to_string());
        wait_until_equal(&source, &replica);
        let before = relay.served();
        relay = relay.kill_and_start(&source, &options);
        wait_until_equal(&source, &replica);
        let now = relay.served();
        for (name, bytes) in &before {
            let (_, again) = now.iter().find(|(other, _)| other == name).unwrap();
            assert!(again.starts_with(bytes), "round {round}: {name} has other bytes after a kill");
        }
    }
    drop(load);
    wait_until_equal(&source, &replica);
    assert_same_rows(&source, &replica, &["tpcc", "d"]);
    let files = relay.served();
    assert!(files.len() > 3, "{} files", files.len());
    let retries = "SELECT COUNT_TRANSACTIONS_RETRIES FROM performance_schema.replication_applier_status";
    let shown = replica_status(&replica);
    eprintln!("{} served files; retries {}\n{shown}", files.len(), replica.sql(retries).trim());
    eprintln!("{}", slipstream(&["status", "--data", relay.data()]).out);
    for wanted in ["Replica_IO_Running: Yes", "Replica_SQL_Running: Yes", "Last_Errno: 0", "Last_IO_Errno: 0"] {
        assert!(shown.contains(wanted), "{wanted}: {shown}");
    }
    // All transactions are stamped by their rows, since the log began with the first statement.
    let status = relay.process.status().unwrap();
    assert_eq!(status["served"]["source_clock"], 0, "{}", status["served"]);
    relay.process.stop();
}

#[test]
fn what_replicas_mysqlbinlog_and_monitors_ask_is_answered() {
    let source = source("relayasked");
    source.sql("CREATE DATABASE d; CREATE TABLE d.t (id INT PRIMARY KEY); INSERT INTO d.t VALUES (1)");
    let mut relay = Relay::start(&source, "relayasked", &["--max-binlog-size=4K"]);
    let uuid = source.sql("SELECT @@server_uuid").trim().to_owned();
    source.sql(&format!("SET GTID_NEXT='{uuid}:tag:1'; INSERT INTO d.t VALUES (2); SET GTID_NEXT='AUTOMATIC'"));
    for id in 10..40 {
        source.sql(&format!("INSERT INTO d.t VALUES ({id})"));
    }
    let status = relay.catches_up(&source);
    let executed = executed(&status).to_string();
    relay
        .sql("SELECT @@gtid_executed, @@gtid_purged, @@log_bin, @@gtid_mode, @@read_only, @@binlog_checksum")
        .expect(0, &[&format!("{executed}\t\t1\tON\t1\tCRC32")]);
    let logs = relay.sql("SHOW BINARY LOGS").out;
    let files = relay.served();
    assert!(files.len() > 2);
    let wanted: Vec<String> = files.iter().map(|(name, bytes)| format!("{name}\t{}\tNo", bytes.len())).collect();
    assert_eq!(logs.lines().collect::<Vec<_>>(), wanted);
    let (last, bytes) = files.last().unwrap();
    relay.sql("SHOW BINARY LOG STATUS").expect(0, &[&format!("{last}\t{}\t\t\t{executed}", bytes.len())]);
    relay.sql("SHOW REPLICAS").expect(0, &[]);
    relay.sql("SELECT WAIT_FOR_EXECUTED_GTID_SET(@@gtid_executed, 1)").expect(0, &["0"]);
    relay.sql("SELECT * FROM d.t").expect(1, &["1235", "relay", "no replica is connected"]);
    let replica = replica("relayasked2");
    relay.feeds(&replica);
    wait_until_equal(&source, &replica);
    relay.sql("SHOW REPLICAS").expect(0, &[replica.sql("SELECT @@server_uuid").trim()]);
    relay.sql("SHOW PROCESSLIST").expect(0, &["Binlog Dump GTID", "Source has sent all binlog to replica"]);
    relay
        .sql("SELECT * FROM d.t")
        .expect(1, &["1235", &format!("server id {}", replica.sql("SELECT @@server_id").trim())]);

    // Byte for byte what is in the files, over TLS, through another dump.
    let out = relay.data.with_extension("raw");
    std::fs::create_dir_all(&out).unwrap();
    let result = format!("--result-file={}/", out.display());
    let arguments =
        ["--read-from-remote-server", "--raw", "--to-last-log", "--ssl-mode=REQUIRED", &result, "binlog.000001"];
    relay.client("mysqlbinlog", "repl", &arguments).expect(0, &[]);
    for (name, bytes) in &files {
        assert!(std::fs::read(out.join(name)).unwrap() == *bytes, "{name}");
    }
    // Without the right, nothing.
    relay.client("mysqlbinlog", "reader", &["-R", "binlog.000001"]).expect(1, &["REPLICATION SLAVE"]);
    relay.client("mysqlbinlog", "repl", &["-R", "binlog.000099"]).expect(1, &["Could not find first log file name"]);

    // A heartbeat each second keeps an idle replica connected, one too that came back to more than it had.
    replica.sql("STOP REPLICA; CHANGE REPLICATION SOURCE TO SOURCE_HEARTBEAT_PERIOD=0.5");
    source.sql("INSERT INTO d.t VALUES (49)");
    replica.sql("START REPLICA");
    wait_until_equal(&source, &replica);
    let beats = || {
        let count = "SELECT COUNT_RECEIVED_HEARTBEATS FROM performance_schema.replication_connection_status";
        (replica.sql(count).trim().parse::<u64>().unwrap() > 2).then_some(())
    };
    wait_for("heartbeats", beats, || replica_status(&replica));
    assert!(replica_status(&replica).contains("Replica_IO_Running: Yes"), "{}", replica_status(&replica));
    source.sql("INSERT INTO d.t VALUES (50)");
    wait_until_equal(&source, &replica);

    let data = relay.data().to_owned();
    slipstream(&["replica", "--source", &source.url("repl"), "--data", &data]).expect(3, &[]);
    relay.process.stop();
    slipstream(&["replica", "--source", &source.url("repl"), "--data", &data]).expect(2, &["relay's data folder"]);
    slipstream(&["status", "--data", &data]).expect(0, &["Served log", "not running"]);
    let other = folder("relayother");
    Replica::follow(&source, &other, &[]).stop();
    let other = other.to_str().unwrap().to_owned();
    slipstream(&["relay", "--source", &source.url("repl"), "--data", &other]).expect(2, &["replica's data folder"]);
    slipstream(&["relay", "--source", &source.url("repl"), "--data", &data, "--dependency-tracking=commit-order"])
        .expect(2, &["stamped with other settings"]);
}

#[test]
fn a_log_that_begins_later_gets_its_definitions_from_the_source() {
    let source = source("relaylater");
    source.sql(
        "CREATE DATABASE d; CREATE TABLE d.known (id INT PRIMARY KEY, v INT, UNIQUE KEY (v));
         CREATE TABLE d.altered (id INT PRIMARY KEY)",
    );
    source.purge_binary_logs();
    let purged = source.gtid_executed();
    source.sql("INSERT INTO d.known VALUES (1, 1); INSERT INTO d.altered VALUES (1)");
    let moved = source.gtid_executed();
    source.sql("ALTER TABLE d.altered ADD COLUMN w INT; TRUNCATE TABLE d.known");
    let mut relay = Relay::start(&source, "relaylater", &["--start=oldest"]);
    for id in 10..20 {
        source.sql(&format!("INSERT INTO d.known VALUES ({id}, {id}); INSERT INTO d.altered VALUES ({id}, 0)"));
    }
    let status = relay.catches_up(&source);
    assert_eq!(status["served"]["purged"], purged.to_string());
    // Those of the table that DDL touched before the definitions were read keep the source's clock.
    assert_eq!(status["served"]["source_clock"], 11, "{}", status["served"]);
    relay.process.waits_for_log(&["definitions of 1 tables were read"]);

    // A replica that has nothing is told what it lacks; one that has what is before the log follows.
    let replica = replica("relaylater2");
    relay.feeds(&replica);
    let told = || {
        let shown = replica_status(&replica);
        (shown.contains("1236") && shown.contains(&purged.to_string())).then_some(())
    };
    wait_for("1236", told, || replica_status(&replica));
    let check = |relay: &Relay| slipstream(&["relay", "check", &replica.url("repl"), "--data", relay.data()]);
    check(&relay).expect(5, &["cannot be moved", &purged.to_string()]);
    replica.sql(&format!(
        "STOP REPLICA; SET sql_log_bin = 0; CREATE DATABASE d; CREATE TABLE d.known (id INT PRIMARY KEY, v INT, UNIQUE KEY (v));
         CREATE TABLE d.altered (id INT PRIMARY KEY); SET sql_log_bin = 1; SET GLOBAL gtid_purged = '{purged}'"
    ));
    check(&relay).expect(0, &["SOURCE_AUTO_POSITION=1", &format!("SOURCE_PORT={}", relay.port), "can be moved"]);
    replica.sql("START REPLICA");
    wait_until_equal(&source, &replica);
    assert_same_rows(&source, &replica, &["d"]);

    // What it has beyond the relay does not keep it from following.
    replica.sql("CREATE DATABASE errant");
    check(&relay).expect(0, &["note: it has", "errant"]);
    replica.sql("STOP REPLICA; START REPLICA");
    let status = relay.process.wait_until("the warning", |status| {
        status["served"]["replicas"].as_array().unwrap().iter().any(|line| line.as_str().unwrap().contains("errant"))
    });
    assert_eq!(status["served"]["replicas"].as_array().unwrap().len(), 1, "{status}");
    assert_eq!(relay.process.log().matches("SLIP-000125").count(), 1, "{}", relay.process.log());
    source.sql("INSERT INTO d.known VALUES (98, 98)");
    wait_until_equal(&source, &replica);
    relay.process.stop();
    source.sql("INSERT INTO d.known VALUES (99, 99)");

    // Another relay begins after a set, or after what a server has executed.
    let text = format!("--start={moved}");
    let mut after = Relay::start(&source, "relayafter", &[&text]);
    let status = after.catches_up(&source);
    assert_eq!(status["served"]["purged"], moved.to_string());
    after.process.stop();
    let early: base::GtidSet = purged.to_string().replace("-3", "-2").parse().unwrap();
    assert_ne!(early, purged);
    let refused = folder("relayearly");
    let text = format!("--start={early}");
    slipstream(&["relay", "--source", &source.url("repl"), "--data", refused.to_str().unwrap(), &text])
        .expect(5, &["purged", "--start=oldest"]);
}

#[test]
fn old_files_go_and_what_is_read_stays() {
    let source = source("relaykeep");
    source.sql("CREATE DATABASE d; CREATE TABLE d.t (id INT PRIMARY KEY, v LONGBLOB)");
    let options = ["--max-binlog-size=256K", "--serve-space-limit=2M"];
    let mut relay = Relay::start(&source, "relaykeep", &options);
    let replica = replica("relaykeep2");
    relay.feeds(&replica);
    for id in 0..40 {
        source.sql(&format!("INSERT INTO d.t VALUES ({id}, REPEAT('x', 100000))"));
    }
    wait_until_equal(&source, &replica);
    let below = |status: &serde_json::Value| status["served"]["bytes"].as_u64().unwrap() <= 2 << 20;
    let status = relay.process.wait_until("the purge", below);
    let purged = status["served"]["purged"].as_str().unwrap().to_owned();
    assert_ne!(purged, "");
    relay.sql("SELECT @@gtid_purged").expect(0, &[&purged]);
    relay.process.waits_for_log(&["SLIP-000122", "SLIP-000124"]);
    let files: Vec<String> = relay.served().into_iter().map(|(name, _)| name).collect();
    assert!(files[0] != "binlog.000001" && files.len() > 4, "{files:?}");

    // The same after a kill; and for a replica that has nothing it is too late.
    let mut relay = relay.kill_and_start(&source, &options);
    assert_eq!(relay.catches_up(&source)["served"]["purged"], purged);
    let late = Server::start_unsynced("relaykeep3", &[]);
    relay.feeds(&late);
    let told = || replica_status(&late).contains("1236").then_some(());
    wait_for("1236", told, || replica_status(&late));
    assert!(replica_status(&late).contains("purged required binary logs"), "{}", replica_status(&late));
    relay.process.stop();

    // By age, but for the file that a stopped reader is in, which is larger than the buffers of its socket.
    let data = folder("relayage");
    let socket = data.with_extension("sock");
    let start = format!("--start={}", source.gtid_executed().to_string().replace('\n', ""));
    let socket_option = format!("--socket={}", socket.display());
    let mut relay = Relay::within(&source, data, &["--max-binlog-size=1M", "--serve-keep=1s", &start, &socket_option]);
    source.sql("INSERT INTO d.t VALUES (100, REPEAT('x', 200000))");
    relay.catches_up(&source);
    let mut reader = RawClient::over_socket(&socket, "admin", CAPABILITIES);
    reader.write(&[&[0x12, 4, 0, 0, 0, 0, 0, 9, 0, 0, 0][..], b"binlog.000001"].concat(), 0);
    assert_eq!(reader.read()[0], 0);
    for id in 101..113 {
        source.sql(&format!("INSERT INTO d.t VALUES ({id}, REPEAT('x', 200000))"));
    }
    relay.catches_up(&source);
    let since = relay.process.status().unwrap()["uptime_us"].as_u64().unwrap();
    relay.process.wait_until("a few rounds", |status| status["uptime_us"].as_u64().unwrap() > since + 4_000_000);
    let names = |relay: &Relay| relay.served().into_iter().map(|(name, _)| name).collect::<Vec<_>>();
    assert!(names(&relay).len() > 2 && names(&relay)[0] == "binlog.000001", "{:?}", names(&relay));
    drop(reader);
    let gone = || (names(&relay).len() == 1).then_some(());
    wait_for("the purge", gone, || relay.process.log_end());
    source.sql("INSERT INTO d.t VALUES (200, 'x')");
    relay.catches_up(&source);
    relay.process.stop();
}

#[test]
fn hostile_packets_and_broken_connections_cost_nobody_else() {
    let source = source("relayhostile");
    source.sql("CREATE DATABASE d; CREATE TABLE d.t (id INT PRIMARY KEY, v LONGBLOB)");
    let socket = folder("relayhostile").with_extension("sock");
    let mut relay = Relay::start(&source, "relayhostile", &[&format!("--socket={}", socket.display())]);
    let replica = replica("relayhostile2");
    relay.feeds(&replica);
    source.sql("INSERT INTO d.t VALUES (1, REPEAT('x', 10000000)), (2, 'y')");
    relay.catches_up(&source);
    let connect = || RawClient::over_socket(&socket, "admin", CAPABILITIES);
    let dump_gtid = |set: &[u8]| {
        let len = u32::try_from(set.len()).unwrap().to_le_bytes();
        [&[0x1e, 0, 0, 9, 0, 0, 0, 0, 0, 0, 0, 4, 0, 0, 0, 0, 0, 0, 0][..], &len, set].concat()
    };
    let dump = |file: &str, position: u32| {
        [&[0x12][..], &position.to_le_bytes(), &[0, 0, 9, 0, 0, 0], file.as_bytes()].concat()
    };
    let error = |packet: &[u8]| {
        assert_eq!(packet[0], 0xff, "{packet:?}");
        (u16::from_le_bytes([packet[1], packet[2]]), String::from_utf8_lossy(&packet[9..]).into_owned())
    };
    let mut random = whole_program_tests::Random::new(7);
    for round in 0..length(200, 5000) {
        // A set that says it has more than it sends, whatever follows.
        let mut client = connect();
        let mut set = (random.below(1u64 << 40) + 1).to_le_bytes().to_vec();
        set.extend((0..random.below(60)).map(|_| random.below(256u64) as u8));
        client.write(&dump_gtid(&set), 0);
        assert_eq!(error(&client.read()).0, 1835, "round {round}");
        // Lengths beyond the packet. Either ends the session, as MySQL has it.
        let mut client = connect();
        let mut cut = dump_gtid(&[0; 8]);
        cut.truncate(1 + random.below(cut.len() as u64 - 1) as usize);
        client.write(&cut, 0);
        assert_eq!(error(&client.read()).0, 1835, "round {round}: {cut:?}");
        let mut client = connect();
        let mut registration = vec![0x15];
        registration.extend((0..random.below(30)).map(|_| random.below(256u64) as u8));
        client.write(&registration, 0);
        client.read();
    }
    for position in [5, 100, 4_000_000_000] {
        let mut client = connect();
        client.write(&dump("binlog.000001", position), 0);
        let told = loop {
            let packet = client.read();
            if packet[0] == 0xff {
                break error(&packet);
            }
        };
        assert_eq!(told.0, 1236, "{told:?}");
        assert!(client.is_closed());
    }
    // Those that leave in the middle of an event, or never read.
    let stalled: Vec<RawClient> = (0..20)
        .map(|number| {
            let mut client = connect();
            client.write(&dump("binlog.000001", 4), 0);
            if number % 2 == 0 {
                client.read();
                client.read();
            }
            client
        })
        .collect();
    source.sql("INSERT INTO d.t VALUES (3, 'z')");
    wait_until_equal(&source, &replica);
    let during = relay.process.status().unwrap()["memory"]["rss_bytes"].as_u64().unwrap();
    assert!(during < 600 << 20, "{during}");
    drop(stalled);
    let gone = || (relay.process.status()?["clients"]["connections"].as_u64()? <= 1).then_some(());
    wait_for("their end", gone, || relay.process.log_end());
    source.sql("INSERT INTO d.t VALUES (4, 'z')");
    wait_until_equal(&source, &replica);
    assert_same_rows(&source, &replica, &["d"]);
    relay.process.stop();
}

#[test]
fn our_replica_follows_a_relay() {
    let source = source("relayours");
    source
        .sql("CREATE DATABASE d; CREATE TABLE d.t (id INT PRIMARY KEY, v INT); INSERT INTO d.t VALUES (1, 1), (2, 2)");
    source.sql("SET GLOBAL time_zone = '+03:00'");
    let relay = Relay::start(&source, "relayours", &[]);
    account(&relay.data, &["add", "ours", "--may", "replicate,monitor,read"]);
    let data = folder("relayours2");
    let url = format!("mysql://ours:repl@127.0.0.1:{}", relay.port);
    let socket = format!("--socket={}", data.with_extension("sock").display());
    let mut replica = Replica::start(&url, &data, &[&socket]);
    source.sql(
        "UPDATE d.t SET v = 3 WHERE id = 1; ALTER TABLE d.t ADD w INT DEFAULT 5; INSERT INTO d.t VALUES (3, 3, 3)",
    );
    assert_equal(&source, &mut replica, &["d"]);
    // Sessions begin here as at the first source.
    let begins = "SELECT @@global.time_zone, @@time_zone, CONVERT_TZ('2001-01-01 01:00:00', 'UTC', 'UTC') IS NOT NULL";
    let options = [&socket, "--user=admin", "--batch", "--skip-column-names"];
    let ran = run_with_input(mysql_client().args(options), begins);
    assert_eq!(ran.out, "+03:00\t+03:00\t0\n", "{}", ran.err);
    replica.stop();
    relay.process.stop();
}

#[test]
fn tables_older_than_the_log_are_known() {
    let source = source("relayolder");
    source.sql(
        "CREATE DATABASE d; CREATE TABLE d.t (id INT PRIMARY KEY, v INT, UNIQUE KEY (v));
         CREATE TABLE d.altered (id INT PRIMARY KEY); RESET BINARY LOGS AND GTIDS",
    );
    for id in 0..20 {
        source.sql(&format!("INSERT INTO d.t VALUES ({id}, {id})"));
    }
    source.sql("INSERT INTO d.altered VALUES (1); ALTER TABLE d.altered ADD COLUMN w INT; CREATE TABLE d.made (a INT PRIMARY KEY); INSERT INTO d.made VALUES (1)");
    let mut relay = Relay::start(&source, "relayolder", &[]);
    let status = relay.catches_up(&source);
    // What the altered table had before is not known.
    assert_eq!(status["served"]["source_clock"], 1, "{}", status["served"]);
    relay.process.waits_for_log(&["definitions of 1 tables were read"]);
    relay.process.stop();
}

#[test]
fn a_source_that_was_reset_stops_receiving_and_what_is_there_is_served() {
    let source = source("relayreset");
    source.sql("CREATE DATABASE d; CREATE TABLE d.t (id INT PRIMARY KEY); INSERT INTO d.t VALUES (1), (2)");
    let had = source.gtid_executed();
    let mut relay = Relay::start(&source, "relayreset", &[]);
    relay.catches_up(&source);
    source.sql("RESET BINARY LOGS AND GTIDS; INSERT INTO d.t VALUES (3)");
    // The source's dump goes on with the file that is gone, until the connection ends.
    source.restart(&[]);
    let status = relay.process.wait_until("the stop", |status| status["source"]["state"] == "stopped");
    let text = status["last_io_error"]["text"].as_str().unwrap().to_owned();
    assert!(text.starts_with("the source's history is not the one that was received"), "{text}");
    assert!(text.contains("not on the source: ") && !text.contains("commit each empty"), "{text}");
    relay.process.waits_for_log(&["SLIP-000067", "received transactions are still served"]);
    let replica = replica("relayreset2");
    relay.feeds(&replica);
    let there = || had.is_subset_of(&replica.gtid_executed()).then_some(());
    wait_for("what was served before", there, || replica_status(&replica));
    assert_eq!(replica.sql("SELECT COUNT(*) FROM d.t").trim(), "2");

    // The process stays. Started too early, receiving stops again.
    let data = relay.data().to_owned();
    let stops = || relay.process.log().matches("SLIP-000067").count();
    assert_eq!(stops(), 1, "{}", relay.process.log());
    slipstream(&["start", "io", "--data", &data]).expect(0, &[]);
    wait_for("the second stop", || (stops() == 2).then_some(()), || relay.process.log());
    // Mended: the source knows of what it had, and its next files have numbers that were not used.
    source.sql("DELETE FROM d.t WHERE id = 3");
    source.sql(&format!("RESET BINARY LOGS AND GTIDS TO 50; SET GLOBAL gtid_purged = '{had}'"));
    slipstream(&["execute", "START REPLICA", "--data", &data]).expect(0, &["done"]);
    slipstream(&["execute", "START REPLICA", "--data", &data]).expect(0, &["there was nothing to do"]);
    source.sql("INSERT INTO d.t VALUES (4)");
    relay.catches_up(&source);
    assert_eq!(relay.process.status().unwrap()["last_io_error"], serde_json::Value::Null);
    wait_until_equal(&source, &replica);
    assert_same_rows(&source, &replica, &["d"]);

    // By a client, and from the shell.
    account(&relay.data, &["add", "boss", "--may", "monitor,admin"]);
    let boss = |relay: &Relay, sql: &str| relay.client("mysql", "boss", &["--batch", "--vertical", "-e", sql]);
    relay.sql("STOP REPLICA").expect(1, &["Access denied"]);
    boss(&relay, "STOP REPLICA IO_THREAD").expect(0, &[]);
    boss(&relay, "SHOW REPLICA STATUS").expect(0, &["Replica_IO_Running: No", "Replica_SQL_Running: Yes"]);
    source.sql("INSERT INTO d.t VALUES (5)");
    boss(&relay, "STOP REPLICA SQL_THREAD").expect(1, &["1235", "on a relay"]);
    boss(&relay, "RESET REPLICA").expect(1, &["1235", "on a relay"]);
    boss(&relay, "START REPLICA UNTIL SQL_AFTER_GTIDS = 'aaaaaaaa-0000-0000-0000-000000000001:1'").expect(1, &["1235"]);
    assert!(!source.gtid_executed().is_subset_of(&executed(&relay.process.status().unwrap())));
    boss(&relay, "START REPLICA").expect(0, &[]);
    wait_until_equal(&source, &replica);
    slipstream(&["stop", "io", "--data", &data]).expect(0, &[]);
    relay.process.wait_until("the stop", |status| status["source"]["state"] == "stopped");
    slipstream(&["stop", "sql", "--data", &data]).expect(2, &["replays nothing"]);
    // It stays stopped over a kill; what was received is served.
    let mut relay = relay.kill_and_start(&source, &[]);
    relay.process.wait_until("the stop", |status| status["source"]["state"] == "stopped");
    relay.process.waits_for_log(&["receiving stays stopped, as an operator left it"]);
    boss(&relay, "SHOW REPLICA STATUS").expect(0, &["Replica_IO_Running: No", "Replica_SQL_Running: Yes"]);
    slipstream(&["start", "--data", &data]).expect(0, &[]);
    source.sql("INSERT INTO d.t VALUES (6)");
    wait_until_equal(&source, &replica);
    assert_same_rows(&source, &replica, &["d"]);
    relay.process.stop();
}

/// A replica is promoted: the relay goes on with it where it has all that was received; where the old source's last
/// transactions are lost, receiving stops by name, and goes on with a server that has them.
#[test]
fn a_source_that_fails_over_is_followed_at_its_successor() {
    let old = source("relayover");
    let successor = replica("relayover2");
    let feed = |successor: &Server| {
        let port = old.port();
        successor.sql(&format!(
            "CHANGE REPLICATION SOURCE TO SOURCE_HOST='127.0.0.1', SOURCE_PORT={port}, SOURCE_USER='repl',
                 SOURCE_PASSWORD='repl', SOURCE_AUTO_POSITION=1, GET_SOURCE_PUBLIC_KEY=1;
             START REPLICA"
        ));
    };
    feed(&successor);
    old.sql("CREATE DATABASE moved; CREATE TABLE moved.t (id INT PRIMARY KEY, v INT, UNIQUE KEY (v))");
    let mut relay = Relay::start(&old, "relayover", &[]);
    let behind = replica("relayover3");
    relay.feeds(&behind);
    // The relay is killed under load and comes back behind the successor, which has all of it.
    let load = |server: &Server, first: u32| {
        let pair =
            |n: u32| format!("INSERT INTO moved.t VALUES ({n}, {n}); UPDATE moved.t SET v = -{n} WHERE id = {n} - 2;");
        server.sql(&(first..first + 200).map(pair).collect::<String>());
    };
    load(&old, 1);
    wait_until_equal(&old, &successor);
    let mut relay = {
        relay.catches_up(&old);
        successor.sql("STOP REPLICA; RESET REPLICA ALL");
        relay.kill_and_start(&successor, &[])
    };
    load(&successor, 201);
    relay.catches_up(&successor);
    wait_until_equal(&successor, &behind);
    assert_same_rows(&successor, &behind, &["moved"]);

    // The old source comes back as a replica; the relay follows it again, behind a log of its own.
    old.sql(&format!(
        "CHANGE REPLICATION SOURCE TO SOURCE_HOST='127.0.0.1', SOURCE_PORT={}, SOURCE_USER='repl',
             SOURCE_PASSWORD='repl', SOURCE_AUTO_POSITION=1, GET_SOURCE_PUBLIC_KEY=1;
         START REPLICA",
        successor.port()
    ));
    wait_until_equal(&successor, &old);
    let mut relay = relay.kill_and_start(&old, &[]);
    old.sql("STOP REPLICA; RESET REPLICA ALL; CREATE TABLE moved.tail (a INT PRIMARY KEY)");
    relay.catches_up(&old);
    wait_until_equal(&old, &behind);

    // What the old source committed last reached the relay alone.
    let mut relay = relay.kill_and_start(&successor, &[]);
    let status = relay.process.wait_until("the stop", |status| status["source"]["state"] == "stopped");
    let text = status["last_io_error"]["text"].as_str().unwrap();
    assert!(text.contains("errant GTIDs"), "{text}");
    let missing = old.gtid_executed().subtract(&successor.gtid_executed()).to_string();
    assert!(text.contains(&missing), "{text}: {missing}");
    // It is served all the same; with a server that has it, receiving goes on.
    let goal = old.gtid_executed();
    relay.process.wait_until("what was received", |status| goal.is_subset_of(&executed(status)));
    let mut relay = relay.kill_and_start(&old, &[]);
    old.sql("INSERT INTO moved.tail VALUES (1)");
    relay.catches_up(&old);
    wait_until_equal(&old, &behind);
    assert_same_rows(&old, &behind, &["moved"]);
    relay.process.stop();
}

#[test]
fn files_are_held_until_a_replica_has_executed_them() {
    let source = source("relayhold");
    source.sql("CREATE DATABASE d; CREATE TABLE d.t (id INT PRIMARY KEY, v LONGBLOB)");
    let options = ["--max-binlog-size=256K", "--serve-keep=1s"];
    let mut relay = Relay::start(&source, "relayhold", &options);
    let data = relay.data().to_owned();
    let hold = |arguments: &[&str]| slipstream(&[&["relay", "hold"], arguments, &["--data", &data]].concat());
    let (one, two) = (replica("relayhold2"), replica("relayhold3"));
    let uuid = |server: &Server| server.sql("SELECT @@server_uuid").trim().to_owned();
    let named = format!("one={}", uuid(&one));
    hold(&[&named]).expect(0, &["until one (", "has executed them"]);
    hold(&[&format!("other={}", uuid(&one))]).expect(1, &["already, as one"]);
    hold(&["one"]).expect(2, &["NAME=UUID"]);
    let fill = |from: u64| {
        for id in from..from + 12 {
            source.sql(&format!("INSERT INTO d.t VALUES ({id}, REPEAT('x', 100000))"));
        }
    };
    let first = |relay: &Relay| relay.served()[0].0.clone();
    let rounds = |relay: &mut Relay| {
        let since = relay.process.status().unwrap()["uptime_us"].as_u64().unwrap();
        relay.process.wait_until("a few rounds", |status| status["uptime_us"].as_u64().unwrap() > since + 3_500_000);
    };
    let goes = |relay: &Relay| {
        let gone = || (relay.served().len() == 1).then_some(());
        wait_for("the purge", gone, || relay.process.log_end());
    };
    fill(0);
    relay.catches_up(&source);
    rounds(&mut relay);
    assert_eq!((first(&relay).as_str(), relay.served().len() > 4), ("binlog.000001", true));
    hold(&["--list"]).expect(0, &["one (", "has not reported its executed set", "binlog.000001 and later"]);

    // What was sent to it is not what it has said to have.
    relay.feeds(&one);
    wait_until_equal(&source, &one);
    rounds(&mut relay);
    assert_eq!(first(&relay), "binlog.000001");
    one.sql("STOP REPLICA; START REPLICA");
    goes(&relay);
    hold(&["--list", "--json"]).expect(0, &["\"lacks\": 0", "\"keeps_from\": null"]);

    // Asked at its own port, it need not connect again; what it has received and not executed is kept.
    one.sql("STOP REPLICA");
    let mut relay = relay.kill_and_start(&source, &options);
    hold(&["--list"]).expect(0, &["has not reported"]);
    hold(&[&named, &two.url("repl")]).expect(0, &[]);
    let wrong = format!("has server_uuid {}", uuid(&two));
    relay.process.waits_for_log(&["SLIP-000127", &wrong]);
    hold(&["--list"]).expect(0, &["cannot be asked at", &wrong]);
    hold(&[&named, &one.url("repl")]).expect(0, &[]);
    let asked = || (!hold(&["--list"]).out.contains("cannot be asked")).then_some(());
    wait_for("its answer", asked, || relay.process.log());
    one.sql("START REPLICA");
    wait_until_equal(&source, &one);
    one.sql("STOP REPLICA SQL_THREAD");
    fill(100);
    relay.catches_up(&source);
    let goal = source.gtid_executed();
    let received = || {
        let sql = "SELECT RECEIVED_TRANSACTION_SET FROM performance_schema.replication_connection_status";
        let received: base::GtidSet =
            one.sql(sql).replace("\\n", "").split_whitespace().collect::<String>().parse().unwrap();
        goal.subtract(&one.gtid_executed()).is_subset_of(&received).then_some(())
    };
    wait_for("the receiver behind the relay", received, || replica_status(&one));
    let held = |status: &serde_json::Value| status["served"]["holds"][0]["lacks"] == 12;
    relay.process.wait_until("the answer", held);
    rounds(&mut relay);
    assert!(relay.served().len() > 4, "{}", relay.process.log_end());
    one.sql("START REPLICA SQL_THREAD");
    goes(&relay);
    assert_same_rows(&source, &one, &["d"]);

    // Kept over a stop, and changed while it is stopped.
    relay.process.stop();
    hold(&["--list"]).expect(0, &["one (", "asked at mysql://"]);
    hold(&["--remove", "one"]).expect(0, &["no longer kept for one"]);
    hold(&["--remove", "one"]).expect(1, &["no files are kept"]);
    hold(&[&format!("two={}", uuid(&two))]).expect(0, &[]);

    // Not above the limit: the oldest goes, and the log names who lacks it.
    let port = format!("--port={}", relay.port);
    let limited = ["--max-binlog-size=256K", "--serve-keep=1s", "--serve-space-limit=1M", &port];
    relay.process = Replica::relay(&source, &relay.data, &limited);
    fill(200);
    relay.catches_up(&source);
    let lacks = format!("two ({})", uuid(&two));
    relay.process.waits_for_log(&["SLIP-000124", "the oldest one is kept for", &lacks]);
    relay.process.waits_for_log(&["SLIP-000126", "is purged although these replicas have not executed it", &lacks]);
    let below = |status: &serde_json::Value| status["served"]["bytes"].as_u64().unwrap() <= 1 << 20;
    let status = relay.process.wait_until("the purge", below);
    assert_eq!(status["served"]["holds"][0]["keeps_from"], first(&relay).as_str(), "{}", status["served"]);
    rounds(&mut relay);
    assert!(relay.served().len() > 2, "within the limit they are kept");
    relay.process.stop();
    let replica = folder("relayholdreplica");
    Replica::follow(&source, &replica, &[]).stop();
    slipstream(&["relay", "hold", "--list", "--data", replica.to_str().unwrap()])
        .expect(2, &["neither a relay's data folder"]);
}

#[test]
fn a_semi_synchronous_source_is_acknowledged_after_the_relays_sync() {
    const DELAY_MS: u64 = 500;
    let source = source("relaysemi");
    semi_synchronous(&source);
    let _releases = Releases(&source);
    let data = folder("relaysemi");
    let process = Replica::relay_with(&source, &data, &["--semi-sync"], |command| {
        command.env("SLIPSTREAM_FAILPOINT", format!("relay_sync_delay_ms={DELAY_MS}"));
    });
    let mut relay = Relay::of(process, data);
    let replica = replica("relaysemi2");
    relay.feeds(&replica);
    relay.process.wait_until("the connection", |status| status["source"]["semi_sync"] == true);
    for id in 0..3 {
        let (before, since) = (acknowledged(&source), std::time::Instant::now());
        source.sql(&format!("INSERT INTO d.t VALUES ({id})"));
        assert!(since.elapsed().as_millis() >= u128::from(DELAY_MS), "committed after {:?}", since.elapsed());
        assert_eq!(acknowledged(&source), before + 1);
    }
    wait_until_equal(&source, &replica);
    // Replicas are not asked.
    relay.sql("SHOW VARIABLES LIKE 'rpl_semi_sync%'").expect(0, &[]);
    relay.sql("SELECT @@GLOBAL.rpl_semi_sync_source_enabled").expect(1, &["1193"]);
    relay.process.stop();
}

/// Nothing is sent that a power cut could take from the relay.
#[test]
fn only_what_is_synced_is_served() {
    let source = source("relaysync");
    source.sql("CREATE DATABASE d; CREATE TABLE d.t (id INT PRIMARY KEY)");
    let data = folder("relaysync");
    let before = source.gtid_executed();
    let mut process = Replica::relay(&source, &data, &[]);
    process.catch_up(&source);
    process.stop();
    let mut process = Replica::relay_with(&source, &data, &[], |command| {
        command.env("SLIPSTREAM_FAILPOINT", "relay_sync_delay_ms=600000");
    });
    // The second one is there to give time for the first one to be stamped.
    for id in 0..2 {
        source.sql(&format!("INSERT INTO d.t VALUES ({id})"));
        let all = source.gtid_executed();
        let received = |status: &serde_json::Value| {
            all.is_subset_of(&whole_program_tests::replica::retrieved(status)) && before.is_subset_of(&executed(status))
        };
        let status = process.wait_until("the transaction", received);
        assert_eq!(executed(&status), before, "what is not synced is not served");
    }
    process.kill();
    let mut process = Replica::relay(&source, &data, &[]);
    process.catch_up(&source);
    process.stop();
    slipstream(&["relay", "--source", &source.url("repl"), "--data", data.to_str().unwrap(), "--relay-sync=never"])
        .expect(2, &["serves only synced transactions"]);
}

#[test]
fn the_source_is_acknowledged_after_replicas_have() {
    let source = source("relayacks");
    semi_synchronous(&source);
    let _releases = Releases(&source);
    let options = ["--ack-after-replicas=1"];
    let mut relay = Relay::start(&source, "relayacks", &options);
    relay.process.wait_until("the connection", |status| status["source"]["semi_sync"] == true);
    let stock = |name: &str| {
        let replica = replica(name);
        acknowledges(&replica);
        replica
    };
    let (one, two, plain) = (stock("relayacks2"), stock("relayacks3"), replica("relayacks4"));
    let served = |relay: &mut Relay, goal: &base::GtidSet| {
        relay.process.wait_until("it is served", |status| goal.is_subset_of(&executed(status)));
    };
    let state = || source.sql("SHOW STATUS LIKE 'Rpl_semi_sync%'; SHOW PROCESSLIST");
    // Without a replica, and with one that does not acknowledge, the commit waits; it is received and served.
    relay.feeds(&plain);
    let next = with_next(&source);
    std::thread::scope(|scope| {
        let _releases = Releases(&source);
        let insert = scope.spawn(|| source.sql("INSERT INTO d.t VALUES (1)"));
        served(&mut relay, &next);
        relay.process.waits_for_log(&["SLIP-000128", "1 of the semi-synchronous replicas must have acknowledged"]);
        let has_it = || next.is_subset_of(&plain.gtid_executed()).then_some(());
        wait_for("the plain replica", has_it, || replica_status(&plain));
        assert!(!insert.is_finished(), "{}", state());
        let status = relay.process.status().unwrap();
        assert_eq!(
            status["served"]["acknowledges"],
            "after 1 of the semi-synchronous replicas, of which 0 are connected: the source is not acknowledged"
        );
        relay.feeds(&one);
        wait_for("the acknowledgement", || insert.is_finished().then_some(()), state);
    });
    assert_eq!(acknowledged(&source), 1, "{}", state());
    relay.process.waits_for_log(&["SLIP-000129"]);
    let listed = relay.process.status().unwrap()["served"].to_string();
    assert!(listed.contains("), semi-synchronous") && listed.contains("of which 1 are connected\""), "{listed}");
    relay.sql("SHOW GLOBAL VARIABLES LIKE 'rpl_semi_sync_source_enabled'").expect(0, &["ON"]);
    assert!(one.sql("SHOW STATUS LIKE 'Rpl_semi_sync_replica_status'").contains("ON"), "{}", replica_status(&one));

    // One after the other, and many at once.
    for id in 10..20 {
        source.sql(&format!("INSERT INTO d.t VALUES ({id})"));
    }
    std::thread::scope(|scope| {
        for client in 0..4 {
            let source = &source;
            scope.spawn(move || {
                for id in 0..length(10, 200) {
                    source.sql(&format!("INSERT INTO d.t VALUES ({})", 1000 + client * 1000 + id));
                }
            });
        }
    });
    // Of those that commit together, one waits for all.
    assert!(acknowledged(&source) > 11 && state().contains("Rpl_semi_sync_source_no_tx\t0"), "{}", state());
    wait_until_equal(&source, &one);

    // It has the transaction from an earlier connection, and its acknowledgement was lost with the relay.
    one.sql("STOP REPLICA IO_THREAD");
    let next = with_next(&source);
    std::thread::scope(|scope| {
        let _releases = Releases(&source);
        let insert = scope.spawn(|| source.sql("INSERT INTO d.t VALUES (2)"));
        served(&mut relay, &next);
        assert!(!insert.is_finished(), "{}", state());
        relay.process.signal(rustix::process::Signal::KILL);
        relay.process.wait_exit();
        let port = format!("--port={}", relay.port);
        relay.process = Replica::relay(&source, &relay.data, &[&port, options[0]]);
        served(&mut relay, &next);
        one.sql("START REPLICA IO_THREAD");
        let all = || {
            let semi = one.sql("SHOW STATUS LIKE 'Rpl_semi_sync%'");
            format!("{}\n{}\n{semi}\n{}", state(), replica_status(&one), relay.process.log_end())
                + &relay.process.status().unwrap()["served"].to_string()
        };
        wait_for("the acknowledgement", || insert.is_finished().then_some(()), all);
    });
    relay.process.stop();

    // Two are needed, and one is not enough. It connects again by itself after a relay that was stopped.
    let port = format!("--port={}", relay.port);
    relay.process = Replica::relay(&source, &relay.data, &[&port, "--ack-after-replicas=2"]);
    let next = with_next(&source);
    std::thread::scope(|scope| {
        let _releases = Releases(&source);
        let insert = scope.spawn(|| source.sql("INSERT INTO d.t VALUES (3)"));
        let has_it = || next.is_subset_of(&one.gtid_executed()).then_some(());
        wait_for("the replica behind the relay", has_it, || replica_status(&one));
        assert!(!insert.is_finished(), "{}", state());
        relay.feeds(&two);
        wait_for("the acknowledgement", || insert.is_finished().then_some(()), state);
    });
    // A transaction larger than a packet of the protocol, over several steps.
    source.sql(
        "CREATE TABLE d.big (id INT PRIMARY KEY, v LONGBLOB); INSERT INTO d.big VALUES (1, REPEAT('x', 20000000))",
    );
    wait_until_equal(&source, &two);
    assert_same_rows(&source, &two, &["d"]);
    relay.process.stop();
}

#[test]
fn definitions_are_read_at_a_replica_that_lags() {
    let source = source("relaydefs");
    source.sql(
        "CREATE DATABASE d; CREATE TABLE d.altered (id INT PRIMARY KEY, v INT, UNIQUE KEY (v));
         CREATE TABLE d.dropped (id INT PRIMARY KEY); CREATE TABLE d.renamed (id INT PRIMARY KEY)",
    );
    let lags = replica("relaydefs2");
    lags.sql(&format!(
        "CHANGE REPLICATION SOURCE TO SOURCE_HOST='127.0.0.1', SOURCE_PORT={}, SOURCE_USER='repl',
             SOURCE_PASSWORD='repl', SOURCE_AUTO_POSITION=1, GET_SOURCE_PUBLIC_KEY=1, SOURCE_CONNECT_RETRY=1;
         START REPLICA",
        source.port()
    ));
    wait_until_equal(&source, &lags);
    lags.sql("STOP REPLICA");
    let begins = source.gtid_executed();
    for id in 0..5 {
        source.sql(&format!(
            "INSERT INTO d.altered VALUES ({id}, {id}); INSERT INTO d.dropped VALUES ({id}); INSERT INTO d.renamed VALUES ({id})"
        ));
    }
    source.sql(
        "ALTER TABLE d.altered DROP KEY v, ADD COLUMN w INT; DROP TABLE d.dropped; RENAME TABLE d.renamed TO d.other;
         INSERT INTO d.altered VALUES (9, 9, 9); INSERT INTO d.other VALUES (9)",
    );
    let start = format!("--start={}", lags.url("repl"));
    // Without: what DDL has touched since is not known, so that the source's clock is kept.
    let mut without = Relay::start(&source, "relaydefs0", &[&start]);
    let status = without.catches_up(&source);
    assert_eq!(status["served"]["source_clock"], 17, "{}", status["served"]);
    without.process.stop();
    let from = format!("--definitions-from={}", lags.url("repl"));
    let mut relay = Relay::start(&source, "relaydefs", &[&start, &from]);
    let status = relay.catches_up(&source);
    assert_eq!(status["served"]["purged"], begins.to_string());
    assert_eq!((&status["served"]["source_clock"], &status["served"]["transactions"]), (&0.into(), &20.into()));
    relay.process.waits_for_log(&["definitions of 3 tables were read at mysql://"]);
    relay.feeds(&lags);
    wait_until_equal(&source, &lags);
    assert_same_rows(&source, &lags, &["d"]);
    relay.process.stop();

    // It has executed some of it, has GTIDs of its own, and lacks the rest; DDL that it has executed counts.
    lags.sql("STOP REPLICA; CREATE DATABASE errant");
    source.sql("INSERT INTO d.altered VALUES (10, 1, 1); ALTER TABLE d.altered ADD COLUMN x INT; DROP TABLE d.other");
    let mut relay = Relay::start(&source, "relaydefs1", &[&format!("--start={begins}"), &from]);
    let status = relay.catches_up(&source);
    // 5 of each table before the DDL; the altered one's 2 and the renamed one's 1 after it.
    assert_eq!(status["served"]["source_clock"], 18, "{}", status["served"]);
    relay.process.stop();

    // One that lacks what the log begins after is waited for.
    let behind = replica("relaydefs3");
    let from = format!("--definitions-from={}", behind.url("repl"));
    let data = folder("relaydefs4");
    let mut process = Replica::relay(&source, &data, &[&format!("--start={begins}"), &from]);
    let says = |status: &serde_json::Value| {
        status["replay"]["detail"]
            .as_str()
            .unwrap()
            .contains("once it has executed all that the served log begins after")
    };
    process.wait_until("the wait", says);
    behind.sql(&format!(
        "SET sql_log_bin = 0; CREATE DATABASE d; CREATE TABLE d.altered (id INT PRIMARY KEY, v INT, UNIQUE KEY (v));
         SET sql_log_bin = 1; RESET BINARY LOGS AND GTIDS; SET GLOBAL gtid_purged = '{begins}'"
    ));
    let status = process.catch_up(&source);
    assert_eq!(status["served"]["source_clock"], 11, "{}", status["served"]);
    process.stop();
}

#[test]
fn a_full_disk_under_the_served_log_is_waited_for() {
    let Some(disk) = SmallDisk::new("relayfull", 8) else { return };
    let source = source("relayfull");
    source.sql("CREATE DATABASE d; CREATE TABLE d.t (id INT PRIMARY KEY, v LONGBLOB)");
    let data = folder("relayfulldata");
    Replica::relay(&source, &data, &[]).stop();
    std::fs::remove_dir_all(data.join("served-log")).unwrap();
    std::os::unix::fs::symlink(disk.path(), data.join("served-log")).unwrap();
    let mut relay = Relay::within(&source, data, &["--max-binlog-size=3M"]);
    let replica = replica("relayfull2");
    relay.feeds(&replica);
    for id in 0..14 {
        source.sql(&format!("INSERT INTO d.t VALUES ({id}, REPEAT('x', 1000000))"));
    }
    let waits = |status: &serde_json::Value| status["replay"]["detail"].as_str().unwrap().contains("free disk space");
    let status = relay.process.wait_until("the wait", waits);
    assert_eq!(status["source"]["state"], "connected", "{status}");
    relay.process.waits_for_log(&["SLIP-000063"]);
    // What fits is served.
    let some = || (replica.sql("SELECT COUNT(*) FROM d.t").trim().parse::<u64>().unwrap() > 3).then_some(());
    wait_for("rows", some, || replica_status(&replica));
    assert!(disk.resize(64));
    relay.catches_up(&source);
    wait_until_equal(&source, &replica);
    assert_same_rows(&source, &replica, &["d"]);
    relay.process.waits_for_log(&["SLIP-000065"]);
    relay.process.stop();
}
