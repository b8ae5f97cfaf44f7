//! A replica as an operator controls it by SQL and by commands, beside a replica of MySQL's that gets the same orders.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

use whole_program_tests::replica::{executed, retrieved};
use whole_program_tests::{Ran, Replica, Server, folder, repository, slipstream, wait_for};

/// MySQL's client at the replica's socket, as its operator.
fn ask(socket: &Path, options: &[&str], sql: &str) -> Ran {
    let mut command = Command::new(repository().join("testbed/mysql"));
    command.args(["run", "mysql", "--no-defaults", "--user=admin", "--batch", "--protocol=SOCKET"]);
    command.arg(format!("--socket={}", socket.display())).args(options).args(["-e", sql]);
    Ran::from(command.output().unwrap())
}

fn rows(socket: &Path, sql: &str) -> String {
    let ran = ask(socket, &["--skip-column-names"], sql);
    ran.expect(0, &[]);
    ran.out
}

/// A replica of MySQL's.
fn replica_of_mysql(source: &Server, name: &str) -> Server {
    let replica = Server::start(name, &["--skip-replica-start"]);
    replica.sql(&format!(
        "CHANGE REPLICATION SOURCE TO SOURCE_HOST='127.0.0.1', SOURCE_PORT={}, SOURCE_USER='repl', SOURCE_PASSWORD='repl',
         SOURCE_AUTO_POSITION=1, SOURCE_SSL=1; START REPLICA",
        source.port()
    ));
    replica
}

/// Columns of SHOW REPLICA STATUS, by name.
fn columns(text: &str, names: &[&str]) -> Vec<String> {
    let value = |name: &&str| {
        let line = text.lines().find_map(|line| line.trim_start().strip_prefix(&format!("{name}:")));
        line.map(|value| format!("{name}: {}", value.trim())).unwrap_or_default()
    };
    names.iter().map(value).collect()
}

/// Each order to both replicas: the same answer, the same notes, the same columns, the same transactions.
#[test]
fn until_stops_where_mysql_stops() {
    let Some(server) = Server::or_skip("until", &[]) else { return };
    server.sql("CREATE DATABASE shop; CREATE TABLE shop.t (a INT PRIMARY KEY)");
    let data = folder("until");
    let (mut replica, socket) = Replica::with_socket(&server, &data, &["--on-stop=stay"]);
    let theirs = replica_of_mysql(&server, "until-beside");
    let uuid = server.sql("SELECT @@server_uuid").trim().to_owned();
    let first = server.gtid_executed();
    wait_for("MySQL's replica", || first.is_subset_of(&theirs.gtid_executed()).then_some(()), String::new);
    for stop in [&|sql: &str| drop(theirs.sql(sql)) as (), &|sql: &str| drop(rows(&socket, sql))] as [&dyn Fn(&str); 2]
    {
        stop("STOP REPLICA SQL_THREAD");
    }
    let next = first.count() + 1;
    for a in 1..=12 {
        server.sql(&format!("INSERT INTO shop.t VALUES ({a})"));
    }
    for a in 13..=16 {
        server.sql(&format!("SET gtid_next='AUTOMATIC:tagged'; INSERT INTO shop.t VALUES ({a})"));
    }
    server.sql("INSERT INTO shop.t VALUES (17), (18)");
    let all = server.gtid_executed();
    replica.wait_until("all received", |status| all.is_subset_of(&retrieved(status)));
    let gtid = |n: u64| format!("{uuid}:{}", next + n - 1);
    let set = |condition: &str, set: &str| format!("START REPLICA SQL_THREAD UNTIL {condition} = '{set}'");
    let (before, after) = ("SQL_BEFORE_GTIDS", "SQL_AFTER_GTIDS");
    let names = ["Until_Condition", "Until_Log_File", "Until_Log_Pos", "Replica_SQL_Running", "Executed_Gtid_Set"];
    let show = "SHOW REPLICA STATUS";
    // Here 9.7.4 goes on to the end of its relay log before it stops.
    let past_tag = set(after, &format!("{uuid}:tagged:2-3"));
    for (order, stops) in [
        (set(after, &format!("{}-{}", gtid(1), next + 2)), true),
        (set(before, &gtid(6)), true),
        // Executed, in part, and not at all.
        (set(after, &gtid(2)), true),
        (set(before, &gtid(1)), true),
        (set(before, &format!("{}:{}", gtid(1), next + 8)), true),
        (set(after, ""), true),
        (set(after, &format!("{}:{}", gtid(2), next + 6)), true),
        // Not a set, no thread that stops, conditions that contradict each other.
        (set(after, "nonsense"), true),
        (format!("START REPLICA SQL_THREAD UNTIL SQL_AFTER_GTIDS = '{}', SOURCE_LOG_POS = 4", gtid(9)), true),
        (format!("START REPLICA IO_THREAD UNTIL SQL_AFTER_GTIDS = '{}'", gtid(9)), true),
        ("START REPLICA UNTIL SQL_AFTER_GTIDS = 'x' FOR CHANNEL 'none'".to_owned(), true),
        // A tag.
        (set(before, &format!("{uuid}:tagged:2")), true),
        (past_tag.clone(), true),
        // One that does not come: replay goes on to the end, and beside it the order does not count.
        (set(before, ""), false),
        (set(after, &gtid(1)), false),
        ("STOP REPLICA".to_owned(), true),
        (format!("START REPLICA SQL_THREAD UNTIL SQL_AFTER_GTIDS = '{}'", gtid(400)), false),
        (format!("START REPLICA UNTIL SQL_AFTER_GTIDS = '{}'", gtid(500)), false),
        ("STOP REPLICA SQL_THREAD".to_owned(), true),
        ("START REPLICA SQL_THREAD".to_owned(), false),
    ] {
        let sql = format!("{order}; SHOW WARNINGS");
        let ours = ask(&socket, &["--vertical"], &sql);
        match theirs.client(&["--vertical", "--column-names"], &sql) {
            Ok(rows) => assert_eq!((ours.code, ours.out), (0, rows), "{order}: {}", ours.err),
            Err(error) => {
                let text = error.to_string();
                let from = text.find("ERROR").unwrap();
                assert!(ours.code == 1 && ours.err.contains(text[from..].trim_end()), "{order}: {ours:?} {text}");
                continue;
            }
        }
        let both = || {
            let ours = columns(&ask(&socket, &["--vertical"], show).out, &names);
            (ours, columns(&theirs.client(&["--vertical", "--column-names"], show).unwrap(), &names))
        };
        let settled = || {
            let (mut ours, mut real) = both();
            if order == past_tag {
                assert!(
                    ours.pop() == Some(format!("Executed_Gtid_Set: {uuid}:1-{}:tagged:1-3", next + 11))
                        || ours[3].ends_with("Yes")
                );
                real.pop();
            }
            let is = if stops { "Replica_SQL_Running: No" } else { "Replica_SQL_Running: Yes" };
            (ours == real && ours[3] == is).then_some(())
        };
        wait_for("the same state", settled, || format!("{order}: {:?}", both()));
        if order != past_tag {
            assert_eq!(rows(&socket, "SELECT a FROM shop.t"), theirs.sql("SELECT a FROM shop.t"), "{order}");
        }
    }
    replica.catch_up(&server);
    replica.waits_for_log(&["is met"]);
    replica.stop();
}

/// What was visible when replay was stopped is visible after every restart, and nothing more, until it is started.
#[test]
fn what_was_visible_before_a_stop_is_visible_after_a_kill() {
    let server = Server::start("shown-again", &[]);
    server.sql("CREATE DATABASE shop; CREATE TABLE shop.t (a INT PRIMARY KEY)");
    let data = folder("shown-again");
    let path = data.to_str().unwrap();
    // No cut but those of a clean stop.
    let start = || Replica::with_socket_unawaited(&server, &data, &["--on-stop=stay", "--cut-interval=1h"]);
    let (mut replica, socket) = start();
    let mut next = 0;
    let mut insert = |count: u64| {
        for _ in 0..count {
            next += 1;
            server.sql(&format!("INSERT INTO shop.t VALUES ({next})"));
        }
    };
    let paused = |status: &serde_json::Value| status["replay"]["state"] == "paused";
    insert(5);
    replica.catch_up(&server);
    for round in 0..3 {
        slipstream(&["stop", "sql", "--data", path]).expect(0, &[]);
        let shown = executed(&replica.status().unwrap());
        let seen = rows(&socket, "SELECT a FROM shop.t");
        insert(3);
        let goal = server.gtid_executed();
        replica.wait_until("all received", |status| goal.is_subset_of(&retrieved(status)));
        for _ in 0..2 {
            replica.kill();
            replica = start().0;
            let status = replica.wait_until("the stop", paused);
            assert_eq!(executed(&status), shown, "round {round}");
            assert_eq!(rows(&socket, "SELECT a FROM shop.t"), seen, "round {round}");
        }
        // What a stopped folder shows after a kill.
        replica.kill();
        let dumped = slipstream(&["dump", "--data", path, "--format=tab", "shop.t"]);
        dumped.expect(0, &[]);
        assert_eq!(dumped.out, format!("a\n{seen}"), "round {round}");
        replica = start().0;
        replica.wait_until("the stop", paused);
        if round == 0 {
            // A condition that is met is a stop that lasts; one that is not is forgotten.
            let until = format!("--sql-after-gtids={}", last_but(&goal, 1));
            slipstream(&["start", "sql", &until, "--data", path]).expect(0, &[]);
            let status = replica.wait_until("the condition", |status| paused(status) && executed(status) != shown);
            let met = executed(&status);
            assert_eq!(goal.subtract(&met).count(), 1, "{status}");
            assert_eq!(status["replay"]["until_condition"], "SQL_AFTER_GTIDS");
            replica.kill();
            replica = start().0;
            let status = replica.wait_until("the stop", paused);
            assert_eq!((executed(&status), &status["replay"]["until_condition"]), (met, &"".into()));
            slipstream(&["start", "--sql-before-gtids=aaaaaaaa-0000-0000-0000-000000000001:1", "--data", path])
                .expect(0, &[]);
            replica.catch_up(&server);
            slipstream(&["start", "sql", &until, "--data", path]).expect(1, &["replay is running", "stop sql"]);
            replica.kill();
            replica = start().0;
        }
        slipstream(&["start", "--data", path]).expect(0, &[]);
        replica.catch_up(&server);
    }
    slipstream(&["start", "io", "--sql-after-gtids=", "--data", path]).expect(2, &["only replay"]);
    replica.stop();
}

/// The last transaction of a set but so many.
fn last_but(set: &base::GtidSet, less: u64) -> String {
    let (uuid, _, run) = set.intervals().last().unwrap();
    format!("{uuid}:{}", run.last - less)
}

const DELAY: Duration = Duration::from_secs(4);

#[test]
fn nothing_is_visible_before_its_delay() {
    let Some(server) = Server::or_skip("until", &[]) else { return };
    server.sql("CREATE DATABASE late; CREATE TABLE late.t (a INT PRIMARY KEY)");
    let data = folder("late");
    let path = data.to_str().unwrap();
    let options = ["--on-stop=stay", &format!("--source-delay={}s", DELAY.as_secs())];
    let (mut replica, socket): (Replica, PathBuf) = Replica::with_socket(&server, &data, &options);
    let status = || ask(&socket, &["--vertical"], "SHOW REPLICA STATUS").out;
    assert_eq!(
        columns(&status(), &["SQL_Delay", "SQL_Remaining_Delay"]),
        ["SQL_Delay: 4", "SQL_Remaining_Delay: NULL"]
    );
    let inserted = Instant::now();
    server.sql("INSERT INTO late.t VALUES (1)");
    let goal = server.gtid_executed();
    let is_seen = || !rows(&socket, "SELECT a FROM late.t").is_empty();
    // Received meanwhile, lag grows, and who wants fresh rows is told.
    let waiting = replica.wait_until("a transaction that waits", |status| {
        goal.is_subset_of(&retrieved(status)) && status["replay"]["remaining_delay_us"].is_u64()
    });
    assert!(!goal.is_subset_of(&executed(&waiting)), "{waiting}");
    let state = "Replica_SQL_Running_State";
    let text = status();
    if columns(&text, &["SQL_Remaining_Delay"]) != ["SQL_Remaining_Delay: NULL"] {
        let words = "Waiting until SOURCE_DELAY seconds after source executed event";
        assert_eq!(columns(&text, &[state]), [format!("{state}: {words}")]);
    }
    let fresh =
        "SET slipstream_read_consistency = BOUNDED, slipstream_read_staleness = 100, slipstream_read_timeout = 200";
    let read = ask(&socket, &["--skip-column-names"], &format!("{fresh}; SELECT a FROM late.t"));
    assert!(read.code == 1 || inserted.elapsed() >= DELAY, "{read:?}");
    replica.wait_until("a lag that grows", |status| status["lag"]["current_us"].as_u64() > Some(1_500_000));
    // Stopped and started while it waits.
    slipstream(&["stop", "sql", "--data", path]).expect(0, &[]);
    assert_eq!(columns(&status(), &["SQL_Remaining_Delay", "Replica_SQL_Running"])[0], "SQL_Remaining_Delay: NULL");
    slipstream(&["start", "sql", "--data", path]).expect(0, &[]);
    wait_for("the row", || is_seen().then_some(()), status);
    // As far as the source's clock is known here.
    assert!(inserted.elapsed() + Duration::from_millis(100) >= DELAY, "{:?}", inserted.elapsed());
    // verify would wait with the source's snapshot open.
    server.sql("INSERT INTO late.t VALUES (2)");
    let verified = slipstream(&["verify", "--data", path, "--source", &server.url("repl"), "late.t"]);
    assert!(verified.code == 1 && verified.err.contains("SOURCE_DELAY"), "{verified:?}");
    // A restart waits as long.
    replica.kill();
    let (mut replica, _) = Replica::with_socket_unawaited(&server, &data, &options);
    replica.catch_up(&server);
    assert_eq!(rows(&socket, "SELECT COUNT(*) FROM late.t").trim(), "2");
    replica.stop();
}

/// Statements whose events have all types that a source without incidents writes, with what replay refuses among them.
const ALL_EVENTS: &str = r#"
SET NAMES utf8mb4; USE shop;
SET binlog_rows_query_log_events=ON;
CREATE TABLE t (a INT PRIMARY KEY, b TEXT, j JSON) COMMENT 'ä';
INSERT INTO t VALUES (1, 'x', '{"a": 1}');
INSERT INTO t VALUES (2, 'it''s', '{"a": "long long long long long long long long long value", "b": 2}');
/* c */ INSERT /* two
lines */ INTO t VALUES (3, 'üü', NULL);
SET binlog_row_value_options=PARTIAL_JSON;
UPDATE t SET j = JSON_SET(j, '$.b', 3) WHERE a = 2;
SET binlog_row_value_options='';
UPDATE t SET b = 'z';
DELETE FROM t WHERE a = 1;
SET binlog_transaction_compression=ON;
BEGIN; INSERT INTO t VALUES (11, 'x', NULL); INSERT INTO t VALUES (12, REPEAT('y', 20000), NULL); COMMIT;
CREATE TABLE made SELECT * FROM t;
SET binlog_transaction_compression=OFF;
SET gtid_next='AUTOMATIC:tagged'; INSERT INTO t VALUES (20, 't', NULL); SET gtid_next=AUTOMATIC;
XA START 'x', 'y', 7; INSERT INTO t VALUES (30, 'x', NULL); XA END 'x', 'y', 7; XA PREPARE 'x', 'y', 7;
XA COMMIT 'x', 'y', 7;
XA START 'one'; INSERT INTO t VALUES (31, 'x', NULL); XA END 'one'; XA COMMIT 'one' ONE PHASE;
XA START 'p'; INSERT INTO t VALUES (32, 'x', NULL); XA END 'p'; XA PREPARE 'p'; XA ROLLBACK 'p';
CREATE USER u@'%' IDENTIFIED BY 'geheim';
GRANT SELECT ON shop.* TO u@'%';
CREATE TABLE made_too AS SELECT * FROM t;
CREATE TABLE nt (a INT) ENGINE=MyISAM;
INSERT INTO nt VALUES (1);
BEGIN; INSERT INTO t VALUES (40, '', NULL); SAVEPOINT s; INSERT INTO t VALUES (41, '', NULL); ROLLBACK TO s; COMMIT;
SET foreign_key_checks=0, unique_checks=0;
INSERT INTO t VALUES (50, REPEAT('x', 9000), NULL), (51, REPEAT('x', 9000), NULL);
SET foreign_key_checks=1, unique_checks=1;
CREATE TABLE `we``ird` (`a b` INT PRIMARY KEY); INSERT INTO `we``ird` VALUES (1);
CREATE PROCEDURE p() INSERT INTO t VALUES (99, 'p', NULL);
CREATE VIEW v AS SELECT 1 a;
TRUNCATE made; ANALYZE TABLE t; DROP TABLE made, made_too;
SET binlog_format=STATEMENT;
CREATE TABLE st (a INT AUTO_INCREMENT PRIMARY KEY, b VARCHAR(90));
SET @x='v''1', @n=5, @d=-1234567890123456789012345678.12345, @f=1.2345678901234568e17, @bin=x'00ff', @nul=NULL,
    @u=18446744073709551615, @neg=-5, @empty='', @small=-0.000123e0, @latin=_latin1'a';
INSERT INTO st(b) VALUES (@x), (@n), (@d), (@f), (HEX(@bin)), (@nul), (@u), (@neg), (@empty), (@small), (@`we ``x`), (@latin);
INSERT INTO st(b) VALUES (RAND());
INSERT INTO st(b) VALUES (LAST_INSERT_ID());
LOAD DATA LOCAL INFILE 'FILE' INTO TABLE t;
SET binlog_format=ROW, binlog_rows_query_log_events=OFF, cte_max_recursion_depth=25000;
CREATE TABLE many (a INT PRIMARY KEY, b CHAR(200));
INSERT INTO many WITH RECURSIVE n AS (SELECT 1 i UNION ALL SELECT i + 1 FROM n WHERE i < 25000) SELECT i, REPEAT('x', 200) FROM n;
FLUSH BINARY LOGS;
INSERT INTO t VALUES (60, 'after', NULL);
"#;

/// Events as SHOW … EVENTS lists them, raw: place, type, server, end at the source, what it says.
fn events(listed: &str) -> Vec<[String; 5]> {
    let mut lines: Vec<String> = Vec::new();
    for line in listed.lines() {
        match lines.last_mut().filter(|_| !line.starts_with("binlog.0") && !line.starts_with("relay-bin.0")) {
            Some(last) => *last += &format!("\n{line}"),
            None => lines.push(line.to_owned()),
        }
    }
    let row = |line: String| {
        let mut fields = line.splitn(6, '\t').skip(1).map(str::to_owned);
        std::array::from_fn(|_| fields.next().unwrap_or_default())
    };
    lines.into_iter().map(row).collect()
}

/// Names of a replica's relay log files.
fn replica_files(data: &Path) -> Vec<String> {
    let names = std::fs::read_dir(data.join("relay-log"))
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let mut names: Vec<String> = names.filter(|name| name.starts_with("relay-bin.0")).collect();
    names.sort();
    names
}

#[test]
fn relay_log_events_are_those_that_the_source_shows() {
    let server = Server::start("events", &["--local-infile=ON", "--binlog-row-event-max-size=256"]);
    server.sql("CREATE DATABASE shop");
    let data = folder("events");
    let (mut replica, socket) = Replica::with_socket(
        &server,
        &data,
        &["--on-stop=stay", "--max-relay-log-size=16K", "--connection-memory-limit=4M"],
    );
    // Replay would stop at statements; what is received is shown all the same.
    rows(&socket, "STOP REPLICA SQL_THREAD");
    let file = data.with_extension("txt");
    std::fs::write(&file, "70\tl\t\\N\n").unwrap();
    let before = server.gtid_executed();
    server.client(&["--local-infile=1"], ALL_EVENTS.replace("'FILE'", &format!("'{}'", file.display()))).unwrap();
    let all = server.gtid_executed();
    replica.wait_until("all received", |status| all.is_subset_of(&retrieved(status)));
    let names = replica_files(&data);
    assert!(names.len() > 2, "{names:?}");
    let show = |options: &str| {
        let ran = ask(&socket, &["--skip-column-names", "--raw"], &format!("SHOW RELAYLOG EVENTS {options}"));
        ran.expect(0, &[]);
        ran.out
    };
    // Without what is about files, from the first transaction after the copy.
    let of_transactions = |listed: Vec<[String; 5]>| -> Vec<[String; 4]> {
        let kept = listed
            .into_iter()
            .filter(|event| !["Format_desc", "Previous_gtids", "Rotate", "Stop"].contains(&event[1].as_str()));
        kept.map(|[_, kind, server, end, info]| [kind, server, end, info]).collect()
    };
    let ours =
        names.iter().flat_map(|name| of_transactions(events(&show(&format!("IN '{name}'"))))).collect::<Vec<_>>();
    let logs = server.sql("SHOW BINARY LOGS");
    let logs = logs.lines().map(|line| line.split('\t').next().unwrap().to_owned());
    let theirs = logs
        .flat_map(|log| of_transactions(events(&server.sql(&format!("SHOW BINLOG EVENTS IN '{log}'")))))
        .collect::<Vec<_>>();
    let first = theirs.iter().position(|event| *event == ours[0]).unwrap();
    assert!(before.count() + 20 < all.count() && ours.len() > 25_000, "{}", ours.len());
    let mut hidden = 0;
    for (ours, theirs) in ours.iter().zip(&theirs[first..]) {
        match ours[3].split_once("'***' …") {
            Some((shown, rest)) => {
                hidden += 1;
                assert!(theirs[3].starts_with(shown) && theirs[3].ends_with(rest), "{ours:?} {theirs:?}");
                assert_eq!(ours[..3], theirs[..3]);
            }
            None => assert_eq!(ours, theirs),
        }
    }
    assert_eq!((hidden, ours.len()), (1, theirs.len() - first));
    assert!(!ours.iter().any(|event| event[3].contains("$A$")), "a hash is shown");
    for kind in [
        "Gtid_tagged_log_event",
        "Transaction_payload",
        "Update_rows_partial",
        "XA_prepare",
        "RAND",
        "User var",
        "Intvar",
        "Begin_load_query",
        "Execute_load_query",
        "Rows_query",
    ] {
        assert!(ours.iter().any(|event| event[0] == kind), "{kind}");
    }
    // The options, of a file with a compressed transaction.
    let payload = |name: &&String| show(&format!("IN '{name}'")).contains("Transaction_payload");
    let name = names.iter().find(payload).unwrap();
    let listed = show(&format!("IN '{name}'"));
    let lines: Vec<&str> = listed.lines().collect();
    let position = |line: usize| lines[line].split('\t').nth(1).unwrap().parse::<u64>().unwrap();
    let joined = |lines: &[&str]| lines.iter().map(|line| format!("{line}\n")).collect::<String>();
    assert_eq!(position(0), 4);
    assert_eq!(show(&format!("IN '{name}' LIMIT 0")), listed);
    assert_eq!(show(&format!("IN './{name}' LIMIT 2")), joined(&lines[..2]));
    assert_eq!(show(&format!("IN '{name}' LIMIT 3,4")), joined(&lines[3..7]));
    assert_eq!(show(&format!("IN '{name}' LIMIT 4 OFFSET 3 FOR CHANNEL ''")), joined(&lines[3..7]));
    assert_eq!(show(&format!("IN '{name}' FROM {}", position(5))), joined(&lines[5..]));
    assert_eq!(show(&format!("IN '{name}' FROM {} LIMIT 1,2", position(5) - 1)), joined(&lines[6..8]));
    assert_eq!(show(&format!("IN '{name}' FROM 4.5 LIMIT 1")), joined(&lines[..1]));
    assert_eq!(show(&format!("IN '{name}' FROM 99999999")), "");
    assert_eq!(show(&format!("IN '{name}' LIMIT 100000,1")), "");
    assert_eq!(show("LIMIT 5").lines().next().map(|line| line.starts_with("relay-bin.")), Some(true));
    // An event that would hold more than a statement may.
    server.sql(
        "SET binlog_rows_query_log_events=ON; INSERT INTO shop.t VALUES (80, REPEAT('x', 2), NULL) /* LONG */"
            .replace("LONG", &"x".repeat(2_000_000))
            .as_str(),
    );
    let all = server.gtid_executed();
    replica.wait_until("all received", |status| all.is_subset_of(&retrieved(status)));
    let refused = replica_files(&data)
        .iter()
        .map(|name| ask(&socket, &[], &format!("SHOW RELAYLOG EVENTS IN '{name}'")))
        .find(|ran| ran.code != 0);
    assert!(refused.as_ref().is_some_and(|ran| ran.err.contains("4082")), "{refused:?}");
    // Errors are those of a replica of MySQL's.
    let theirs = replica_of_mysql(&server, "events-beside");
    for options in [
        "IN 'x'",
        "IN ''",
        "FOR CHANNEL 'x'",
        "FROM -1",
        "FROM 'a'",
        "LIMIT 1 IN 'x'",
        "LIKE 'x'",
        "IN x",
        "FROM 4 IN 'x'",
    ] {
        let sql = format!("SHOW RELAYLOG EVENTS {options}");
        let text = theirs.client(&[], &sql).unwrap_err().to_string();
        let from = text.find("ERROR").unwrap();
        let ours = ask(&socket, &[], &sql);
        assert!(ours.err.contains(text[from..].trim_end()), "{options}: {ours:?} {text}");
    }
    replica.stop();
}
