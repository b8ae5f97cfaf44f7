//! Copies other than the plain one: without a lock, and of a single table.

use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

use base::GtidSet;
use whole_program_tests::replica::{executed, stopped_executed};
use whole_program_tests::{
    Proxy, Ran, Random, Replica, Server, SetAtEnd, assert_equal, copy_folder, folder, length, slipstream,
    slipstream_with, wait_for,
};

/// Tables that a copy with one connection reads one after another, each at another moment.
const TABLES: u64 = 6;
const ROWS: u64 = 1500;

/// A server whose log does not reach back.
fn bank(name: &str) -> Server {
    let server = Server::start(name, &[]);
    server.sql("CREATE DATABASE bank; GRANT XA_RECOVER_ADMIN ON *.* TO repl");
    for table in 0..TABLES {
        server.sql(&format!(
            "SET SESSION cte_max_recursion_depth = 100000; \
             CREATE TABLE bank.t{table} (id INT PRIMARY KEY, n INT, pad VARCHAR(300)); \
             INSERT INTO bank.t{table} SELECT n, 0, REPEAT('p', 200) FROM (WITH RECURSIVE s (n) AS (SELECT 1 UNION ALL \
             SELECT n + 1 FROM s WHERE n < {ROWS}) SELECT n FROM s) x"
        ));
    }
    server.purge_binary_logs();
    server
}

/// Inserts, deletes, changes and key changes in all tables, and DDL; `round` keeps new keys apart.
fn busy(server: &Server, round: u64) {
    let mut random = Random::new(round + 1);
    let mut sql =
        format!("USE bank; CREATE TABLE fresh{round} (id INT PRIMARY KEY); INSERT INTO fresh{round} VALUES (1);");
    for n in 0..60 {
        let (table, id) = (random.below(TABLES), 1 + random.below(ROWS));
        let new = 100_000 + round * 1000 + n;
        sql += &match random.below(4) {
            0 => format!("DELETE FROM t{table} WHERE id = {id};"),
            1 => format!("INSERT INTO t{table} VALUES ({new}, 1, 'new');"),
            2 => format!("UPDATE t{table} SET id = {new} WHERE id = {id};"),
            _ => format!("UPDATE t{table} SET n = n + 1, pad = CONCAT('q', n) WHERE id BETWEEN {id} AND {id} + 3;"),
        };
    }
    sql += &format!("TRUNCATE fresh{round}; DROP TABLE fresh{round};");
    server.sql(&sql);
}

/// From the log, what must be replayed before a copy without a lock is exact.
fn consistent_at(log: &str) -> Option<GtidSet> {
    let (_, rest) = log.rsplit_once("rows can be read once GTIDs ")?;
    rest.split_once(" are replayed")?.0.parse().ok()
}

#[test]
fn a_copy_without_a_lock_is_exact_when_it_has_settled() {
    let server = bank("nolock");
    let proxy = Proxy::start(server.port());
    let data = folder("nolock");
    slipstream(&["check", "--source", &server.url("repl")]).expect(4, &["RELOAD", "GRANT", "--copy-lock=none"]);
    slipstream(&["check", "--source", &proxy.url(), "--copy-lock=none"]).expect(0, &["can be followed"]);

    let options = ["--copy-lock=none", "--copy-rate=300K", "--copy-connections=1", "--cut-interval=100ms"];
    let mut replica = Replica::spawn(&proxy.url(), &data, &options, |_| ());
    wait_for(
        "the copy's begin",
        || replica.log().contains("without a lock, starting at").then_some(()),
        || replica.log(),
    );
    // No more of the log arrives, so the copy cannot settle before it is released.
    proxy.hold_dumps(Some(0));
    let half_read = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for round in 0.. {
                busy(&server, round);
                if half_read.load(SeqCst) {
                    return;
                }
            }
        });
        let rows = |status: &serde_json::Value| status["replay"]["rows"].as_u64().unwrap_or(0);
        replica.wait_until("most rows", |status| rows(status) > (TABLES - 1) * ROWS);
        half_read.store(true, SeqCst);
    });
    let goal = wait_for("the copy's end", || consistent_at(&replica.log()), || replica.log());
    let refused = |data: &str| {
        slipstream(&["dump", "--data", data, "bank.t0"]).expect(1, &["without a lock", "are replayed"]);
        slipstream(&["verify", "--data", data, "--source", &server.url("repl")]).expect(1, &["without a lock"]);
    };
    replica.wait_until("an answer", |status| status["replay"]["detail"].as_str().unwrap().contains("without a lock"));
    refused(replica.data());
    replica.kill();
    refused(data.to_str().unwrap());
    let begun = stopped_executed(&data);
    assert!(goal.subtract(&begun).count() > 50, "{goal} follows {begun}: too little for a test");

    // A planted fault: transactions between the copy's start and end are not replayed.
    let faulty = folder("nolock-fault");
    copy_folder(&data, &faulty);

    // Killed again once part of it is replayed and cut.
    proxy.hold_dumps(Some(64 << 10));
    let mut replica = Replica::start(&proxy.url(), &data, &options);
    let some = |status: &serde_json::Value| status["store"]["last_cut"].as_u64() > Some(0);
    let status = replica.wait_until("a cut between the copy's ends", some);
    assert!(!goal.is_subset_of(&executed(&status)), "all came at once");
    refused(replica.data());
    replica.kill();
    refused(data.to_str().unwrap());
    proxy.hold_dumps(None);
    let mut replica = Replica::start(&proxy.url(), &data, &options);
    assert_equal(&server, &mut replica, &["bank"]);
    busy(&server, 5000);
    assert_equal(&server, &mut replica, &["bank"]);
    replica.waits_for_log(&["is consistent now"]);
    replica.stop();

    let skipped = goal.subtract(&begun).to_string();
    slipstream(&["skip", "--data", faulty.to_str().unwrap(), &skipped]).expect(0, &[]);
    let mut replica = Replica::spawn(&proxy.url(), &faulty, &[], |_| ());
    if !replica.reaches(&server.gtid_executed()) {
        // Transactions after the copy's end do not fit.
        replica.expect_exit(9, &["bank", "row"]);
        return;
    }
    let root = server.url("root");
    let ran = slipstream_with(&["verify", "--data", replica.data(), "--source", &root], |command| {
        command.env_remove("MYSQL_PWD");
    });
    ran.expect(16, &["bank.t"]);
}

#[test]
fn a_copy_without_a_lock_refuses_what_it_cannot_make_exact() {
    let server = bank("nokey");
    let data = folder("nokey");
    let start = |server: &Server| Replica::spawn(&server.url("repl"), &data, &["--copy-lock=none"], |_| ());
    server.sql("CREATE TABLE bank.bag (n INT); FLUSH BINARY LOGS");
    start(&server).expect_exit(4, &["tables without a key cannot be copied", "bag"]);
    server.sql("DROP TABLE bank.bag; SET GLOBAL binlog_row_image = MINIMAL");
    start(&server).expect_exit(4, &["whole rows", "SET PERSIST binlog_row_image"]);
}

/// A keyed table, one without a key and one with minimal images, and a replica that follows.
fn shelves(name: &str, options: &[&str]) -> (Server, Replica) {
    let server = Server::start(name, &["--binlog-row-image=MINIMAL"]);
    server.sql(
        "SET SESSION cte_max_recursion_depth = 100000; CREATE DATABASE again; USE again; \
         CREATE TABLE keyed (id INT PRIMARY KEY, n INT, pad VARCHAR(300)); CREATE TABLE bag (n INT, t VARCHAR(20)); \
         CREATE TABLE wide (name VARCHAR(20) PRIMARY KEY, a INT, b TEXT, c JSON); \
         INSERT INTO keyed SELECT n, 0, REPEAT('p', 200) FROM (WITH RECURSIVE s (n) AS (SELECT 1 UNION ALL SELECT n + 1 \
         FROM s WHERE n < 3000) SELECT n FROM s) x; INSERT INTO bag SELECT id % 40, 'x' FROM keyed; \
         INSERT INTO wide SELECT CONCAT('r', id), id, REPEAT('b', 100), JSON_OBJECT('n', id) FROM again.keyed; \
         GRANT LOCK TABLES, XA_RECOVER_ADMIN ON *.* TO repl",
    );
    let mut replica = Replica::follow(&server, &folder(name), options);
    replica.catch_up(&server);
    (server, replica)
}

/// Changes of every kind in all three; `round` keeps new keys apart.
fn rearrange(server: &Server, round: u64) {
    let mut random = Random::new(round + 77);
    let mut sql = String::from("USE again;");
    for n in 0..60 {
        let (id, new) = (1 + random.below(3000), 100_000 + round * 1000 + n);
        sql += &match random.below(10) {
            0 => format!("DELETE FROM keyed WHERE id = {id};"),
            1 => format!("INSERT INTO keyed (id, n, pad) VALUES ({new}, 1, 'new');"),
            2 => format!("UPDATE keyed SET id = {new} WHERE id = {id};"),
            3 => format!("UPDATE keyed SET n = n + 1 WHERE id BETWEEN {id} AND {id} + 3;"),
            4 => format!("INSERT INTO bag (n, t) VALUES ({}, 'x'), ({}, 'x');", id % 40, id % 40),
            5 => format!("DELETE FROM bag WHERE n = {} LIMIT 3;", id % 40),
            6 => format!("UPDATE bag SET n = n + 1 WHERE n = {} LIMIT 2;", id % 40),
            7 => format!("UPDATE wide SET name = 'r{new}', a = a + 1 WHERE name = 'r{id}';"),
            8 => format!("UPDATE wide SET c = JSON_SET(c, '$.m', {n}) WHERE name = 'r{id}';"),
            _ => {
                format!("BEGIN; DELETE FROM wide WHERE name = 'r{id}'; UPDATE wide SET b = 'c' WHERE a = {id}; COMMIT;")
            }
        };
    }
    server.sql(&sql);
}

/// Adds rows at the source that this replica never receives.
fn damage(server: &Server, replica: &mut Replica) {
    replica.catch_up(server);
    // Decoders consult the list, possibly as soon as the transaction arrives.
    let next = server.gtid_executed().count() + 1;
    let lost = format!("{}:{next}", server.sql("SELECT @@server_uuid").trim());
    slipstream(&["skip", "--data", replica.data(), &lost]).expect(0, &[]);
    server.sql(
        "USE again; BEGIN; INSERT INTO keyed VALUES (900001, 1, 'lost'); INSERT INTO bag VALUES (900001, 'lost'); \
         INSERT INTO wide VALUES ('lost', 1, 'lost', NULL); COMMIT",
    );
    replica.catch_up(server);
    let root = server.url("root");
    let ran = slipstream_with(&["verify", "--data", replica.data(), "--source", &root], |command| {
        command.env_remove("MYSQL_PWD");
    });
    ran.expect(16, &["keyed", "bag", "wide"]);
}

#[test]
fn tables_copied_again_under_load_are_equal() {
    let (server, mut replica) = shelves("again", &["--cut-interval=200ms", "--copy-rate=1M"]);
    damage(&server, &mut replica);
    let ended = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            for round in 0.. {
                rearrange(&server, round);
                if ended.load(SeqCst) {
                    return;
                }
            }
        });
        let _ended = SetAtEnd(&ended);
        for table in ["again.keyed", "again.bag", "again.wide"] {
            let ran = slipstream(&["copy", "--data", replica.data(), table]);
            ran.expect(0, &["locked for", "rows", "B in", "replay", "attempts"]);
            eprintln!("{}", ran.out.lines().last().unwrap_or_default());
        }
    });
    assert_equal(&server, &mut replica, &["again"]);
    let status = replica.status().unwrap();
    assert_eq!(status["replay"]["tables_copied"], 3, "{status}");
    // A restart finds the switched rows and continues from them.
    rearrange(&server, 5000);
    replica.catch_up(&server);
    let data = replica.data.clone();
    replica.kill();
    let mut replica = Replica::follow(&server, &data, &[]);
    rearrange(&server, 6000);
    assert_equal(&server, &mut replica, &["again"]);
    replica.stop();
}

/// Starts `slipstream copy`; returns once it has got this far.
fn begin_copy(replica: &mut Replica, table: &str, until: &str) -> std::thread::JoinHandle<whole_program_tests::Ran> {
    let (data, table) = (replica.data().to_owned(), table.to_owned());
    let begun = std::thread::spawn(move || slipstream(&["copy", "--data", &data, &table]));
    replica.wait_until(until, |status| status["replay"]["table_copy"].as_str().unwrap().contains(until));
    begun
}

#[test]
fn a_copy_of_a_table_that_was_killed_leaves_the_table_as_it_was() {
    let (server, mut replica) = shelves("killed", &["--copy-rate=100K", "--cut-interval=100ms"]);
    damage(&server, &mut replica);
    let data = replica.data.clone();
    for round in 0..length(2, 10) {
        let asked = begin_copy(&mut replica, "again.keyed", "locked for");
        rearrange(&server, round);
        replica.catch_up(&server);
        replica.kill();
        assert_ne!(asked.join().unwrap().code, 0);
        replica = Replica::follow(&server, &data, &["--copy-rate=100K", "--cut-interval=100ms"]);
        replica.catch_up(&server);
        replica.waits_for_log(&["again.keyed did not finish"]);
        // A table created now must not receive the copy's rows.
        server.sql(&format!("CREATE TABLE again.after{round} (id INT PRIMARY KEY, n INT, pad VARCHAR(300))"));
    }
    for table in ["again.keyed", "again.bag", "again.wide"] {
        slipstream(&["copy", "--data", replica.data(), table]).expect(0, &["copied"]);
    }
    rearrange(&server, 900);
    assert_equal(&server, &mut replica, &["again"]);
    replica.stop();
}

#[test]
fn ddl_in_the_middle_of_a_table_s_copy() {
    let (server, replica) = shelves("middle", &[]);
    let data = replica.data.clone();
    replica.stop();
    let proxy = Proxy::start(server.port());
    let mut replica = Replica::start(&proxy.url(), &data, &[]);
    damage(&server, &mut replica);
    // The copy has been read and waits for replay, which receives nothing of the log before it is released.
    let mut meanwhile = |table: &str, sql: &str| {
        replica.catch_up(&server);
        proxy.hold_dumps(Some(0));
        server.sql("INSERT INTO again.keyed SELECT MAX(id) + 1, 0, 'held' FROM again.keyed");
        let asked = begin_copy(&mut replica, table, "waiting for replay to pass");
        server.sql(sql);
        proxy.hold_dumps(None);
        asked.join().unwrap()
    };
    // Once released, replay may be between the copy's GTID set and the statement for long enough to switch. The copy is
    // then complete, and the statement finds it in the table's place.
    let ended = |ran: &Ran, texts: &[&str]| match ran.out.contains("attempts: 1") {
        true => drop(ran.expect(0, &["copied"])),
        false => drop(ran.expect(1, texts)),
    };
    let truncate = "USE again; TRUNCATE TABLE keyed; INSERT INTO keyed VALUES (1, 1, 'after'), (2, 2, 'after')";
    let ran = meanwhile("again.keyed", truncate);
    if !ran.out.contains("attempts: 1") {
        ran.expect(0, &["changed by: TRUNCATE", "starting over", "copied", "attempts: 2"]);
    }
    ran.expect(0, &["copied"]);
    let ran = meanwhile("again.wide", "RENAME TABLE again.wide TO again.broad");
    ended(&ran, &["changed by: RENAME", "no table"]);
    // Statements on other tables do not affect it.
    let other = "CREATE TABLE again.other LIKE again.keyed; INSERT INTO again.other VALUES (1, 1, 'o'); RENAME \
                 TABLE again.other TO again.others; ALTER TABLE again.others ADD INDEX (n)";
    meanwhile("again.broad", other).expect(0, &["copied", "attempts: 1"]);
    ended(&meanwhile("again.bag", "DROP TABLE again.bag"), &["changed by: DROP", "no table"]);
    assert_equal(&server, &mut replica, &["again"]);

    slipstream(&["copy", "--data", replica.data(), "again.none"]).expect(1, &["no table", "none"]);
    slipstream(&["copy", "--data", replica.data(), "none"]).expect(2, &["SCHEMA.TABLE"]);
    let data = replica.data().to_owned();
    replica.stop();
    slipstream(&["copy", "--data", &data, "again.broad"]).expect(1, &["no replica runs"]);
}

/// Tables that wait for their copy, from `status`.
fn quarantined(status: &serde_json::Value) -> Vec<String> {
    let list = status["replay"]["quarantined"].as_array().cloned().unwrap_or_default();
    list.iter().filter_map(|text| text.as_str().map(str::to_owned)).collect()
}

#[test]
fn a_statement_that_cannot_be_interpreted_stops_no_other_table() {
    let (server, mut replica) = shelves("odd", &["--cut-interval=100ms"]);
    let data = replica.data.clone();
    // Its copy is not possible yet.
    server.sql("REVOKE LOCK TABLES ON *.* FROM repl");
    server.sql("ALTER TABLE again.wide ADD COLUMN g INT AS (a * 2) STORED; ALTER TABLE again.bag ADD COLUMN g INT AS (n) STORED");
    for round in 0..3 {
        rearrange(&server, round);
    }
    let status = replica.catch_up(&server);
    assert_eq!(quarantined(&status).len(), 2, "{status}");
    let superseded: u64 =
        whole_program_tests::replica::ledger(&status, "superseded_by_copy").iter().map(|of| of.1).sum();
    assert!(superseded > 10, "{status}");
    wait_for("a try", || replica.log().contains("LOCK TABLES").then_some(()), || replica.log());
    let refused = |data: &str| {
        for table in ["again.wide", "again.bag"] {
            slipstream(&["dump", "--data", data, table]).expect(1, &[table.split_once('.').unwrap().1, "copied again"]);
        }
        slipstream(&["dump", "--data", data]).expect(1, &["wide", "bag"]);
        slipstream(&["verify", "--data", data, "--source", &server.url("repl")]).expect(1, &["wide", "bag"]);
        slipstream(&["dump", "--data", data, "again.keyed"]).expect(0, &[]);
    };
    refused(replica.data());
    replica.kill();
    refused(data.to_str().unwrap());
    let mut replica = Replica::follow(&server, &data, &[]);
    server.sql(
        "RENAME TABLE again.wide TO again.broad; DROP TABLE again.bag; INSERT INTO again.keyed VALUES (800000, 1, 'x')",
    );
    let status = replica.catch_up(&server);
    assert!(matches!(quarantined(&status).as_slice(), [one] if one.contains("broad")), "{status}");
    replica.kill();
    server.sql("GRANT LOCK TABLES ON *.* TO repl");
    let mut replica = Replica::follow(&server, &data, &[]);
    let status = replica.wait_until("its copy", |status| status["replay"]["tables_copied_by_itself"] == 1);
    assert!(quarantined(&status).is_empty(), "{status}");
    server.sql("UPDATE again.broad SET a = a + 1 WHERE a < 500; DELETE FROM again.broad WHERE a > 2500");
    assert_equal(&server, &mut replica, &["again"]);
    // With the privilege it takes only a moment.
    server.sql(
        "ALTER TABLE again.keyed ADD COLUMN g INT AS (n) STORED; INSERT INTO again.keyed (id, n) VALUES (700000, 3)",
    );
    replica.wait_until("its copy", |status| status["replay"]["tables_copied_by_itself"] == 2);
    assert_equal(&server, &mut replica, &["again"]);
    replica.stop();
}
