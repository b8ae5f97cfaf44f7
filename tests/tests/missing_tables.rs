//! Tables that the source has and its log does not hold: copied, or named; and a replica that is not healthy before.

use serde_json::Value;

use whole_program_tests::{Proxy, Replica, Server, assert_equal, folder, slipstream};

/// `repl` may copy.
const GRANT: &str = "GRANT LOCK TABLES, XA_RECOVER_ADMIN, RELOAD ON *.* TO repl;";

/// A server whose log begins after `before`, which ran in 2001 by its own clock.
fn reset(name: &str, before: &str) -> Server {
    let server = Server::start(name, &[]);
    server.sql(&format!(
        "{GRANT} SET timestamp = 1000000000; {before} SET timestamp = DEFAULT; RESET BINARY LOGS AND GTIDS"
    ));
    // Logged in once over TLS, the account may log in without it, as it does through the proxy.
    slipstream(&["check", "--source", &server.url("repl")]).expect(0, &[]);
    server
}

fn names(status: &Value) -> Vec<String> {
    let missing = status["replay"]["missing"].as_array().unwrap();
    missing.iter().map(|name| name.as_str().unwrap().to_owned()).collect()
}

/// Waits until every table of the source is here, and `status --max-lag` says so.
#[track_caller]
fn healthy(replica: &mut Replica) -> Value {
    let is_complete = |status: &Value| status["replay"]["comparison"] == "" && status["lag"]["current_us"].is_u64();
    replica.wait_until("all tables", is_complete);
    // One made LIKE a missing one waits too.
    let status = replica.copied();
    slipstream(&["status", "--data", replica.data(), "--max-lag=1d"]).expect(0, &[]);
    status
}

#[track_caller]
fn unhealthy(replica: &Replica, texts: &[&str]) {
    slipstream(&["status", "--data", replica.data(), "--max-lag=1d"]).expect(1, texts);
}

const OLD: &str = "CREATE DATABASE old; USE old; CREATE TABLE quiet (id INT PRIMARY KEY, v TEXT);
    CREATE TABLE written (id INT PRIMARY KEY, v TEXT); CREATE TABLE my (id INT) ENGINE=MyISAM;
    INSERT INTO quiet VALUES (1, 'a'), (2, 'b'); INSERT INTO written VALUES (1, 'a'); INSERT INTO my VALUES (1), (1);
    CREATE DATABASE nothing COLLATE latin1_bin;";

/// Found by an operator: lag 0, no error, and tables missing in silence; the first write to one stopped replay.
#[test]
fn a_source_that_was_reset() {
    let server = reset("reset", OLD);
    server.sql(
        "INSERT INTO old.written VALUES (3, 'c'); CREATE DATABASE new; CREATE TABLE new.t (id INT PRIMARY KEY);
         INSERT INTO new.t VALUES (1); SET sql_log_bin = 0; CREATE TABLE new.unlogged (id INT PRIMARY KEY);
         INSERT INTO new.unlogged VALUES (7);",
    );
    let proxy = Proxy::start(server.port());
    let warned =
        ["older than its first binary log file", "`old`.`my`, `old`.`quiet`, `old`.`written`", "--copy=always"];
    slipstream(&["check", "--source", &proxy.url()]).expect(0, &warned);
    // Nothing of the log arrives: lag 0.
    proxy.hold_dumps(Some(0));
    let data = folder("reset");
    let mut replica = Replica::start(&proxy.url(), &data, &[]);
    replica.waits_for_log(&warned);
    replica.waits_for_log(&["the source has 5 tables"]);
    let status = replica.wait_until("a connection", |status| status["source"]["state"] == "connected");
    assert_eq!(status["lag"]["current_us"], 0, "{status}");
    unhealthy(&replica, &["have not been compared with the source's", "Not healthy"]);
    // A restart in between has compared nothing either.
    replica.kill();
    let mut replica = Replica::start(&proxy.url(), &data, &[]);
    replica.wait_until("a connection", |status| status["source"]["state"] == "connected");
    unhealthy(&replica, &["have not been compared with the source's"]);
    proxy.hold_dumps(None);
    healthy(&mut replica);
    replica.waits_for_log(&["`new`.`unlogged`", "all tables of the source are here"]);
    server.sql("UPDATE old.quiet SET v = 'z' WHERE id = 2; INSERT INTO new.unlogged VALUES (8)");
    assert_equal(&server, &mut replica, &["old", "new"]);
    replica.kill();
    // Compared once, it is healthy from the start.
    proxy.hold_dumps(Some(0));
    let mut replica = Replica::start(&proxy.url(), &data, &[]);
    healthy(&mut replica);
    proxy.hold_dumps(None);
    replica.stop();
}

#[test]
fn never_names_and_always_copies_first() {
    let server = reset("never", OLD);
    let (never, always) = (folder("never"), folder("always"));
    let warned = ["older than its first binary log file", "with --copy=never these are missing"];
    slipstream(&["check", "--source", &server.url("repl"), "--copy=never"]).expect(0, &warned);
    slipstream(&["check", "--source", &server.url("repl"), "--copy=always"])
        .expect(0, &["--copy=always: an initial copy of 3 tables"]);
    let mut replica = Replica::follow(&server, &never, &["--copy=never"]);
    let all = ["`old`.`my`", "`old`.`quiet`", "`old`.`written`"];
    replica.wait_until("names", |status| names(status) == all);
    replica.waits_for_log(&["--copy=never does not copy them: 3 (`old`.`my`, `old`.`quiet`, `old`.`written`)"]);
    unhealthy(&replica, &["tables of the source are missing here", "Missing table        `old`.`quiet`"]);
    slipstream(&["copy", "--data", replica.data(), "old.quiet"]).expect(0, &["copied"]);
    replica.wait_until("fewer names", |status| names(status) == [all[0], all[2]]);
    unhealthy(&replica, &["tables of the source are missing here"]);
    replica.kill();
    let mut replica = Replica::follow(&server, &never, &["--copy=never"]);
    replica.wait_until("names again", |status| names(status) == [all[0], all[2]]);
    replica.stop();
    let mut replica = Replica::follow(&server, &never, &[]);
    healthy(&mut replica);
    assert_equal(&server, &mut replica, &["old"]);
    replica.stop();

    let mut replica = Replica::follow(&server, &always, &["--copy=always"]);
    healthy(&mut replica);
    replica.waits_for_log(&["--copy=always: an initial copy of 3 tables", "copied 3 tables"]);
    assert_eq!(replica.status().unwrap()["replay"]["tables_copied"], 0);
    assert_equal(&server, &mut replica, &["old"]);
    replica.stop();

    server.sql("CREATE DATABASE later; FLUSH BINARY LOGS");
    server.purge_binary_logs();
    let refused = folder("refused");
    Replica::spawn(&server.url("repl"), &refused, &["--copy=never"], |_| ())
        .expect_exit(5, &["purged and needed", "--copy=never forbids"]);
}

#[test]
fn filters_choose_what_is_missing() {
    let before = "CREATE DATABASE a; CREATE TABLE a.t (id INT PRIMARY KEY); INSERT INTO a.t VALUES (1);
        CREATE TABLE a.left_out (id INT PRIMARY KEY); CREATE DATABASE c; CREATE TABLE c.t (id INT PRIMARY KEY);";
    let server = reset("missingfilters", before);
    let options = ["--replicate-rewrite-db=a->b", "--replicate-ignore-table=b.left_out", "--replicate-ignore-db=c"];
    let url = server.url("repl");
    slipstream(&[&["check", "--source", &url], &options[..]].concat()).expect(0, &["1 (`b`.`t`)"]);
    let data = folder("missingfilters");
    let mut replica = Replica::follow(&server, &data, &options);
    let status = healthy(&mut replica);
    assert_eq!((&status["replay"]["tables"], &status["replay"]["tables_copied"]), (&1.into(), &1.into()), "{status}");
    slipstream(&["dump", "--data", replica.data(), "--format=tab", "b.t"]).expect(0, &["1\n"]);
    replica.stop();
}

#[test]
fn statements_between_the_list_and_the_comparison() {
    let tables = ["altered", "dropped", "made_again", "renamed", "swapped_1", "swapped_2", "truncated", "untouched"];
    let make =
        |table: &&str| format!("CREATE TABLE old.{table} (id INT PRIMARY KEY); INSERT INTO old.{table} VALUES (1);");
    let before = tables.iter().map(make).collect::<String>();
    let server =
        reset("between", &format!("CREATE DATABASE old; CREATE DATABASE gone; CREATE TABLE gone.t (i INT); {before}"));
    server.sql("CREATE DATABASE new");
    let proxy = Proxy::start(server.port());
    proxy.hold_dumps(Some(0));
    let data = folder("between");
    let mut replica = Replica::start(&proxy.url(), &data, &[]);
    replica.waits_for_log(&["the source has 9 tables"]);
    server.sql(
        "USE old; ALTER TABLE altered ADD COLUMN v INT; INSERT INTO altered VALUES (2, 2); DROP TABLE dropped;
         DROP TABLE made_again; CREATE TABLE made_again (id INT PRIMARY KEY, w INT); INSERT INTO made_again VALUES (5, 5);
         RENAME TABLE renamed TO new.renamed; INSERT INTO new.renamed VALUES (2);
         RENAME TABLE swapped_1 TO s, swapped_2 TO swapped_1, s TO swapped_2; INSERT INTO swapped_1 VALUES (3);
         TRUNCATE truncated; DROP DATABASE gone; CREATE TABLE fresh (id INT PRIMARY KEY); INSERT INTO fresh VALUES (1);
         CREATE TABLE likewise LIKE untouched; INSERT INTO likewise VALUES (9)",
    );
    proxy.hold_dumps(None);
    healthy(&mut replica);
    assert_equal(&server, &mut replica, &["old", "new"]);
    server.sql("USE old; DROP TABLE untouched, altered; INSERT INTO swapped_2 VALUES (4); DROP TABLE new.renamed");
    assert_equal(&server, &mut replica, &["old", "new"]);
    // What waits for its copy over a restart is copied afterwards.
    replica.kill();
    let mut replica = Replica::start(&proxy.url(), &data, &[]);
    healthy(&mut replica);
    assert_equal(&server, &mut replica, &["old", "new"]);
    replica.stop();
}

#[test]
fn a_copy_that_is_refused_and_a_restart_in_between() {
    let server = reset("refusedcopy", OLD);
    server.sql("REVOKE LOCK TABLES ON *.* FROM repl; CREATE DATABASE new");
    let data = folder("refusedcopy");
    let mut replica = Replica::follow(&server, &data, &["--cut-interval=100ms"]);
    replica.waits_for_log(&["the copy of `old`.`quiet` failed", "the copy of `old`.`my` failed"]);
    replica.wait_until("names", |status| names(status).len() == 3);
    unhealthy(&replica, &["tables that the source's log does not hold are not copied yet: 3"]);
    // Its log is replayed on over all that.
    server
        .sql("INSERT INTO old.quiet VALUES (9, 'i'); DROP TABLE old.written; CREATE TABLE new.t (id INT PRIMARY KEY)");
    replica.catch_up(&server);
    replica.wait_until("fewer names", |status| names(status) == ["`old`.`my`", "`old`.`quiet`"]);
    replica.kill();
    server.sql("GRANT LOCK TABLES ON *.* TO repl");
    let mut replica = Replica::follow(&server, &data, &[]);
    healthy(&mut replica);
    assert_equal(&server, &mut replica, &["old", "new"]);
    replica.stop();
}

/// The copy of a small table asks for that table alone: with many tables the source opened each of them for each copy.
#[test]
fn copies_of_many_small_tables_ask_for_little() {
    const TABLES: u64 = 40;
    let make = |n: u64| format!("CREATE TABLE many.t{n} (id INT) ENGINE=MyISAM; INSERT INTO many.t{n} VALUES ({n});");
    let before = (0..TABLES).map(make).collect::<String>();
    let server = reset("many", &format!("CREATE DATABASE many; {before}"));
    let count = |names: &str| -> u64 {
        let rows = server.sql(&format!("SHOW GLOBAL STATUS WHERE Variable_name IN ({names})"));
        rows.lines().map(|row| row.split('\t').nth(1).unwrap().parse::<u64>().unwrap()).sum()
    };
    let opens = "'Table_open_cache_hits', 'Table_open_cache_misses'";
    let (opened, connected) = (count(opens), count("'Connections'"));
    let mut replica = Replica::follow(&server, &folder("many"), &[]);
    let status = healthy(&mut replica);
    assert_eq!(status["replay"]["tables_copied"], TABLES, "{status}");
    let (opened, connected) = (count(opens) - opened, count("'Connections'") - connected);
    eprintln!("for each of {TABLES} tables: {} opened, {} connections", opened / TABLES, connected / TABLES);
    assert!(connected <= TABLES * 2 + 30, "{connected} connections for {TABLES} tables");
    assert!(opened <= TABLES * OPENS_EACH, "{opened} tables opened for {TABLES}");
    assert_equal(&server, &mut replica, &["many"]);
    replica.stop();
}

/// Tables that the source opens for the copy of one, those of its dictionary among them, with room for its connections
/// and the client's.
const OPENS_EACH: u64 = 150;

#[test]
fn a_table_made_again_does_not_wait_for_its_namesake() {
    let server = Server::start("namesake", &[]);
    server.sql("GRANT XA_RECOVER_ADMIN ON *.* TO repl; CREATE DATABASE d; USE d; CREATE TABLE t (n INT); CREATE TABLE a_waits (n INT);
         INSERT INTO t VALUES (1); INSERT INTO a_waits VALUES (1)");
    let mut replica = Replica::follow(&server, &folder("namesake"), &[]);
    replica.catch_up(&server);
    // Nobody can interpret it, and the copy is refused.
    let odd = "ADD COLUMN g INT AS (n) STORED";
    server.sql(&format!("ALTER TABLE d.a_waits {odd}; ALTER TABLE d.t {odd}"));
    replica.waits_for_log(&["the copy of `d`.`a_waits` failed", "the copy of `d`.`t` failed"]);
    server.sql(&format!(
        "GRANT LOCK TABLES ON *.* TO repl; USE d; DROP TABLE t; CREATE TABLE t (n INT); INSERT INTO t VALUES (1); ALTER TABLE t {odd}"
    ));
    replica.waits_for_log(&["copied `d`.`t`"]);
    let log = replica.log();
    let (before, _) = log.split_once("copied `d`.`t`").unwrap();
    assert!(!before.contains("copied `d`.`a_waits`"), "{log}");
    server.sql("DROP TABLE d.a_waits");
    assert_equal(&server, &mut replica, &["d"]);
    replica.stop();
}
