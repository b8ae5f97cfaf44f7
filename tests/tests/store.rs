//! The store on disk as a whole: an initial copy of a source whose log is gone, kills at any time, a small memory, a
//! huge transaction, a full disk.

use std::time::{Duration, Instant};

use whole_program_tests::{
    Ran, Random, Replica, Server, SmallDisk, assert_equal, folder, length, shop, slipstream, under_load, wait_for,
};

/// A server whose log does not reach back: rows in every kind of table, binary logs purged.
fn old_server(name: &str) -> Server {
    let server = Server::start_unsynced(name, &[]);
    server.sql(&shop::schema("old"));
    server.sql(&shop::schema("live"));
    for n in 0..4 {
        server.sql(&shop::load("old", n, n * 50, 50));
    }
    server.sql(
        "CREATE DATABASE more; CREATE TABLE more.wide (a VARCHAR(50) COLLATE utf8mb4_0900_ai_ci, b INT, v BLOB, \
         j JSON, f FLOAT, PRIMARY KEY (a, b)); \
         CREATE TABLE more.bag (f FLOAT, j JSON, t TEXT); CREATE TABLE more.empty (id INT PRIMARY KEY); \
         INSERT INTO more.wide VALUES ('a', 1, 'x', '{\"k\": 1.10}', 16777217), ('Ä', 2, NULL, '[1, \"2\"]', 0.1); \
         INSERT INTO more.bag VALUES (16777217, '[1]', 'x'), (16777217, '[1]', 'x'), (NULL, NULL, NULL); \
         INSERT INTO more.wide SELECT CONCAT('n', n), n, REPEAT(CHAR(n % 256), n % 500), JSON_OBJECT('n', n), n / 7 FROM \
         (WITH RECURSIVE s (n) AS (SELECT 10 UNION ALL SELECT n + 1 FROM s WHERE n < 1000) SELECT n FROM s) x; \
         CREATE VIEW more.seen AS SELECT a FROM more.wide; \
         GRANT RELOAD, LOCK TABLES, XA_RECOVER_ADMIN, BACKUP_ADMIN, PROCESS ON *.* TO repl; \
         SET GLOBAL sync_binlog = 1, innodb_flush_log_at_trx_commit = 1",
    );
    server.purge_binary_logs();
    server
}

const ALL: [&str; 3] = ["old", "live", "more"];

#[test]
fn an_old_source_is_copied_and_followed() {
    let server = old_server("copied");
    let data = folder("copied");
    let url = server.url("repl");
    slipstream(&["check", "--source", &url]).expect(0, &["initial copy of", "can be followed"]);
    let mut replica = None;
    under_load(&server, "live", || {
        let mut started = Replica::follow(&server, &data, &["--copy-connections=2"]);
        started.wait_until("the copy's end", |status| status["replay"]["state"] != "copying");
        replica = Some(started);
    });
    let mut replica = replica.unwrap();
    assert_equal(&server, &mut replica, &ALL);
    replica.waits_for_log(&["the source was locked for"]);
    // It had no log before, neither here nor received.
    let log = replica.log();
    assert!(!log.contains("recovered in") && !log.contains("from :"), "{log}");
    // Changes of copied rows: JSON that was copied as text, duplicates without a key, a key that folds.
    server.sql(
        "UPDATE more.wide SET j = JSON_SET(j, '$.n', 5), v = 'new' WHERE b < 40; DELETE FROM more.wide WHERE b > 900; \
         UPDATE more.bag SET f = 1 WHERE t = 'x' LIMIT 1; DELETE FROM more.bag WHERE f IS NULL; \
         INSERT INTO more.bag VALUES (16777217, '[1]', 'x'); INSERT INTO more.empty VALUES (1); \
         ALTER TABLE more.empty RENAME TO more.full; TRUNCATE TABLE old.swap",
    );
    assert_equal(&server, &mut replica, &ALL);
    replica.kill();
    let mut replica = Replica::follow(&server, &data, &[]);
    assert_equal(&server, &mut replica, &ALL);
    replica.stop();
    let mut replica = Replica::follow(&server, &data, &[]);
    assert_equal(&server, &mut replica, &ALL);
    replica.stop();
}

#[test]
fn a_killed_copy_starts_over() {
    let server = old_server("half");
    let data = folder("half");
    let mut random = Random::new(7);
    for _ in 0..length(4, 30) {
        // Slow enough to be caught in the middle.
        let mut replica = Replica::spawn(&server.url("repl"), &data, &["--copy-rate=200K"], |_| ());
        let until = Instant::now() + Duration::from_millis(200 + random.below(1500));
        wait_for("a moment", || (Instant::now() >= until).then_some(()), String::new);
        server.sql("INSERT INTO more.bag VALUES (3, '{}', 'while it was copied')");
        assert!(replica.is_running(), "{}", replica.log());
        replica.kill();
    }
    let mut replica = Replica::follow(&server, &data, &[]);
    replica.wait_until("the copy's end", |status| status["replay"]["state"] != "copying");
    assert_equal(&server, &mut replica, &ALL);
    replica.waits_for_log(&["did not finish"]);
    replica.stop();
}

#[test]
fn ddl_in_the_middle_of_a_copy() {
    let server = old_server("ddl");
    let data = folder("ddl");
    let mut replica = Replica::spawn(&server.url("repl"), &data, &["--copy-rate=300K"], |_| ());
    wait_for("the snapshots", || replica.log().contains("snapshots taken").then_some(()), || replica.log());
    server.sql(
        "TRUNCATE TABLE more.bag; ALTER TABLE more.wide ADD INDEX (b); CREATE TABLE more.fresh (id INT PRIMARY KEY)",
    );
    server.sql("INSERT INTO more.fresh VALUES (1), (2)");
    replica.copied();
    assert_equal(&server, &mut replica, &ALL);
    assert!(!replica.log().contains("starting over"), "{}", replica.log());
    replica.stop();
}

/// Tables of 400 kB each, for copies that must take a while.
fn add_bulk(server: &Server) {
    for name in ["bulk", "heap"] {
        server.sql(&format!(
            "CREATE TABLE more.{name} (id INT PRIMARY KEY, v VARCHAR(2000)); INSERT INTO more.{name} SELECT b, REPEAT('x', 1600) \
             FROM more.wide WHERE b BETWEEN 10 AND 259"
        ));
    }
}

/// Endless DDL: the tables it affects are left to copies of their own, which end when it does; the others are copied
/// once. Without BACKUP_ADMIN, so that nothing holds the DDL back.
#[test]
fn ddl_all_the_time_does_not_keep_a_copy_from_its_end() {
    let server = old_server("ddls");
    // Tables created in the same second cannot be told apart.
    let later = "SELECT NOW() > CREATE_TIME FROM information_schema.TABLES WHERE TABLE_NAME = 'wide'";
    wait_for("another second", || (server.sql(later).trim() == "1").then_some(()), String::new);
    server.sql("REVOKE BACKUP_ADMIN ON *.* FROM repl; CREATE TABLE more.swap LIKE more.wide");
    add_bulk(&server);
    let mut replica = Replica::spawn(&server.url("repl"), &folder("ddls"), &["--copy-rate=200K"], |_| ());
    let (mut rounds, stop) = (0, std::sync::atomic::AtomicBool::new(false));
    std::thread::scope(|scope| {
        let ddl = scope.spawn(|| {
            let mut n = 0;
            while !stop.load(std::sync::atomic::Ordering::Relaxed) {
                n += 1;
                server.sql(&format!(
                    "TRUNCATE TABLE more.bag; INSERT INTO more.bag VALUES ({n}, '[{n}]', 'x'); \
                     ALTER TABLE more.empty ADD COLUMN c{n} INT; INSERT INTO more.empty (id) VALUES ({n}); \
                     RENAME TABLE more.wide TO more.away, more.swap TO more.wide, more.away TO more.swap; \
                     DROP TABLE IF EXISTS more.made; CREATE TABLE more.made (id INT PRIMARY KEY); \
                     INSERT INTO more.made VALUES ({n})"
                ));
            }
            n
        });
        replica.wait_until("the copy's end", |status| status["replay"]["state"] != "copying");
        stop.store(true, std::sync::atomic::Ordering::Relaxed);
        rounds = ddl.join().unwrap();
    });
    assert!(rounds >= 3, "{rounds} rounds of DDL only");
    replica.copied();
    let log = replica.log();
    assert_equal(&server, &mut replica, &ALL);
    assert!(log.contains("will be copied once replay runs") && !log.contains("starting over in"), "{log}");
    eprintln!("{rounds} rounds of DDL, {} tables left out", log.matches("will be copied once replay runs").count());
    replica.stop();
}

/// Snapshots that are too old: tables not copied by then are copied at GTID sets of their own.
#[test]
fn a_copy_that_takes_longer_than_its_snapshots_may_live() {
    let server = old_server("aged");
    add_bulk(&server);
    let options = ["--copy-rate=300K", "--copy-connections=1", "--snapshot-max=2s"];
    let mut replica = Replica::spawn(&server.url("repl"), &folder("aged"), &options, |_| ());
    under_load(&server, "live", || {
        replica.copied();
    });
    assert_equal(&server, &mut replica, &ALL);
    let log = replica.log();
    let left = log.matches("when the snapshots were 2 s old (--snapshot-max)").count();
    let status = replica.status().unwrap();
    assert!(left > 0 && status["replay"]["tables_copied_by_itself"].as_u64() >= Some(left as u64 / 2), "{left}: {log}");
    eprintln!("{left} tables left for later");
    replica.kill();
}

#[test]
fn what_a_copy_needs_is_named() {
    let server = old_server("needs");
    server.sql(
        "CREATE USER poor IDENTIFIED BY 'repl'; GRANT SELECT, REPLICATION SLAVE, REPLICATION CLIENT ON *.* TO poor",
    );
    let url = server.url("poor");
    let data = folder("needs");
    for verb in ["check", "replica"] {
        let ran = slipstream(&[verb, "--source", &url, "--data", data.to_str().unwrap()]);
        ran.expect(4, &["RELOAD", "GRANT"]);
    }
}

/// Killed at random moments under load, with generations so small that cuts, compaction and purges are always in
/// progress.
#[test]
fn killed_under_load_again_and_again() {
    let server = Server::start("kills", &[]);
    server.sql(&shop::schema("kills"));
    let data = folder("kills");
    let options =
        ["--memory=128M", "--cut-interval=300ms", "--max-relay-log-size=256K", "--relay-sync=every-transaction"];
    let mut random = Random::new(11);
    let mut last = 0;
    under_load(&server, "kills", || {
        for _ in 0..length(10, 200) {
            let mut replica = Replica::follow(&server, &data, &options);
            let until = Instant::now() + Duration::from_millis(100 + random.below(1200));
            let status = replica.wait_until("a while", |_| Instant::now() >= until);
            let executed = whole_program_tests::replica::executed(&status).count();
            assert!(executed >= last, "gtid_executed went back: {executed} after {last}");
            last = executed;
            replica.kill();
        }
    });
    let mut replica = Replica::follow(&server, &data, &options);
    assert_equal(&server, &mut replica, &["kills"]);
    for line in replica.log().lines().filter(|line| line.contains("recovered in")) {
        eprintln!("{line}");
    }
    replica.waits_for_log(&["recovered in"]);
    let status = replica.status().unwrap();
    assert!(status["store"]["last_cut"].as_u64() > Some(0), "{}", status["store"]);
    replica.stop();
    // Starting from the last cut, everything in the stopped folder equals the source.
    let mut replica = Replica::follow(&server, &data, &options);
    assert_equal(&server, &mut replica, &["kills"]);
    replica.stop();
}

/// The disk fills while the relay log is written and the store is cut: code 8, nothing lost, and with space it
/// continues.
#[test]
fn a_full_disk() {
    let Some(disk) = SmallDisk::new("full", 16) else { return };
    let server = Server::start("full", &[]);
    server.sql("CREATE DATABASE full; CREATE TABLE full.t (id INT AUTO_INCREMENT PRIMARY KEY, v VARCHAR(4000))");
    // The mount itself: the log of its runs is beside it, where there is room.
    let data = disk.path().to_owned();
    let options = ["--memory=128M", "--cut-interval=200ms", "--max-relay-log-size=1M"];
    let fill = |rows: u32| {
        server.sql(&format!(
            "INSERT INTO full.t (v) SELECT REPEAT(CHAR(65 + n % 26), 3000) FROM (WITH RECURSIVE s (n) AS (SELECT 1 UNION \
             ALL SELECT n + 1 FROM s WHERE n < {rows}) SELECT n FROM s) x"
        ));
    };
    for round in 0..length(2, 10) {
        let mut replica = Replica::follow(&server, &data, &options);
        let size = 16 * (round + 1);
        let mut ended = false;
        for _ in 0..200 {
            fill(200);
            if !replica.is_running() {
                ended = true;
                break;
            }
        }
        assert!(ended, "{size} MiB hold 120 MB of rows: {}", replica.log());
        replica.expect_exit(8, &["space"]);
        assert!(disk.resize(size + 16));
    }
    assert!(disk.resize(2048));
    let mut replica = Replica::follow(&server, &data, &options);
    assert_equal(&server, &mut replica, &["full"]);
    replica.stop();
}

/// One transaction several times as large as its memory.
#[test]
fn a_transaction_larger_than_memory() {
    let server = Server::start("huge", &["--max-binlog-size=1G", "--innodb-buffer-pool-size=512M"]);
    server.sql(
        "CREATE DATABASE huge; CREATE TABLE huge.t (id INT PRIMARY KEY, v VARCHAR(1200), n INT); CREATE TABLE huge.other (id INT PRIMARY KEY); \
         INSERT INTO huge.t VALUES (1, 'before', 0), (2000001, 'before', 0)",
    );
    let mut replica = Replica::follow(&server, &folder("huge"), &["--memory=128M"]);
    replica.catch_up(&server);
    let rows = length(120_000, 1_000_000);
    server.sql(&format!(
        "SET SESSION cte_max_recursion_depth = 10000000; BEGIN; \
         INSERT INTO huge.t SELECT n, REPEAT('x', 1000), n FROM (WITH RECURSIVE s (n) AS (SELECT 10 UNION ALL SELECT n + 1 \
         FROM s WHERE n < {rows}) SELECT n FROM s) x; UPDATE huge.t SET n = n + 1 WHERE id % 3 = 0; \
         DELETE FROM huge.t WHERE id % 5 = 0; COMMIT; INSERT INTO huge.other VALUES (1)"
    ));
    assert_equal(&server, &mut replica, &["huge"]);
    let status = replica.status().unwrap();
    let peak = status["memory"]["rss_peak_bytes"].as_u64().unwrap();
    eprintln!("peak resident memory {} MiB of 128", peak >> 20);
    // `--memory` plus 20 %: however large the transaction and the verify that read all of it.
    assert!(peak <= (128 << 20) / 5 * 6, "{} MiB", peak >> 20);
    replica.stop();
}

/// A reader that is too slow for the memory it may hold gets an error; replay, other readers and the next ones
/// continue.
#[test]
fn a_slow_reader_ends_with_snapshot_too_old() {
    let server = Server::start("tooold", &[]);
    server.sql(
        "SET SESSION cte_max_recursion_depth = 100000; CREATE DATABASE slow; CREATE TABLE slow.t (id INT PRIMARY KEY, \
         n INT, pad VARCHAR(300)); INSERT INTO slow.t SELECT n, 0, REPEAT('p', 200) FROM (WITH RECURSIVE s (n) AS \
         (SELECT 1 UNION ALL SELECT n + 1 FROM s WHERE n < 20000) SELECT n FROM s) x; CREATE TABLE slow.u LIKE slow.t",
    );
    let options = ["--memory=128M", "--snapshot-memory=1M", "--cut-interval=100ms"];
    let mut replica = Replica::follow(&server, &folder("tooold"), &options);
    // Definitions that were read have a cut of their own.
    let is_quiet = |status: &serde_json::Value| {
        status["replay"]["definitions_read"] == true && status["replay"]["comparison"] == ""
    };
    replica.wait_until("the definitions", is_quiet);
    server.sql("INSERT INTO slow.u VALUES (0, 0, '')");
    replica.catch_up(&server);
    // The reader's generation is then empty, and later changes enter it.
    let all_cut = |status: &serde_json::Value| status["store"]["last_cut"] == status["position"]["watermark"];
    replica.wait_until("a cut of all", all_cut);
    // More rows than pipes and sockets hold, and nobody reads them yet.
    let mut slow = replica.dump_unread("slow.t");
    let first = slow.first_line();
    let cut = |status: &serde_json::Value| status["store"]["last_cut"].as_u64().unwrap();
    let (mut round, before) = (0, cut(&replica.status().unwrap()));
    // By what they hold: there are cuts of definitions alone too.
    let status = replica.wait_until("cuts behind the reader's back", |status| {
        round += 1;
        server.sql(&format!("INSERT INTO slow.u SELECT id + {round} * 100000, n, pad FROM slow.t"));
        cut(status) >= before + 2
    });
    eprintln!("{round} rounds, {}", status["store"]);
    let ran = slow.end();
    ran.expect(1, &["snapshot too old", "--snapshot-memory", "--snapshot-age"]);
    let rows = |ran: &Ran| ran.out.lines().filter(|line| line.ends_with('p')).count();
    assert!(rows(&ran) < 20_000, "all {} rows came, behind {first:?}", rows(&ran));
    assert!(replica.is_running() && !replica.log().contains("[ERROR]"), "{}", replica.log());
    // A dump that began before the last rows' own cut would be too slow a reader too.
    replica.catch_up(&server);
    replica.wait_until("a cut of the last rows", all_cut);
    assert_equal(&server, &mut replica, &["slow"]);
    let again = slipstream(&["dump", "--data", replica.data(), "--format=tab", "slow.t"]);
    assert_eq!(rows(again.expect(0, &[])), 20_000);
    replica.stop();
}

/// Opening the tree removes what a killed process left in it: several openings at once must not interfere.
#[test]
fn readers_of_a_stopped_folder_do_not_disturb_each_other() {
    let server = Server::start("readers", &[]);
    server.sql("CREATE DATABASE r; CREATE TABLE r.t (id INT PRIMARY KEY); INSERT INTO r.t VALUES (1), (2), (3)");
    let data = folder("readers");
    let mut replica = Replica::follow(&server, &data, &["--cut-interval=50ms"]);
    replica.catch_up(&server);
    replica.wait_until("a cut", |status| status["store"]["last_cut"] == status["position"]["watermark"]);
    replica.kill();
    for round in 0..length(3, 20) {
        for number in 0..2000 {
            std::fs::write(data.join(format!("store/tables/{}", 1_000_000 + number)), "left by a killed process")
                .unwrap();
        }
        let dumps: Vec<_> = (0..6).map(|_| replica_dump(&data)).collect();
        for dump in dumps {
            let ran = dump.join().unwrap();
            let rows: Vec<&str> = ran.expect(0, &[]).out.lines().skip(1).collect();
            assert_eq!(rows, ["1", "2", "3"], "round {round}");
        }
        assert!(!data.join("store/tables/1000000").exists(), "nothing was tidied up: this shows nothing");
    }
    let mut replica = Replica::follow(&server, &data, &[]);
    assert_equal(&server, &mut replica, &["r"]);
    replica.stop();
}

fn replica_dump(data: &std::path::Path) -> std::thread::JoinHandle<Ran> {
    let data = data.to_str().unwrap().to_owned();
    std::thread::spawn(move || slipstream(&["dump", "--data", &data, "--format=tab", "r.t"]))
}
