//! Rows outside their partition's rule, as EXCHANGE PARTITION … WITHOUT VALIDATION leaves them.

use whole_program_tests::{Replica, Server, assert_equal, copy_folder, folder};

fn server(name: &str) -> Server {
    let server = Server::start(name, &[]);
    server.sql("GRANT LOCK TABLES, RELOAD, BACKUP_ADMIN, XA_RECOVER_ADMIN ON *.* TO 'repl'@'%'; CREATE DATABASE d");
    server
}

/// Waits until everything is replayed, this many tables are copied since the replica's start, and none waits for its
/// copy. Returns the number of copies.
fn settled(server: &Server, replica: &mut Replica, copies: u64) -> u64 {
    replica.catch_up(server);
    let copied = |status: &serde_json::Value| status["replay"]["tables_copied_by_itself"].as_u64().unwrap();
    let status = replica.wait_until("copies of single tables", |status| {
        status["replay"]["quarantined"].as_array().is_none_or(Vec::is_empty) && copied(status) >= copies
    });
    copied(&status)
}

/// Runs a statement, waits until the replica is at rest, compares, and checks how many tables were copied for it.
fn step(server: &Server, replica: &mut Replica, copies: u64, sql: &str) {
    let before = settled(server, replica, 0);
    server.sql(&format!("USE d; {sql}"));
    let after = settled(server, replica, before + copies);
    assert_equal(server, replica, &["d"]);
    assert_eq!(after - before, copies, "tables copied again for: {sql}\n{}", replica.log_end());
}

#[test]
fn misplaced_rows_stay_and_go_with_their_partition() {
    let server = server("misplaced");
    let data = folder("misplaced");
    let mut replica = Replica::hurried(&server, &data, &["--cut-interval=100ms", "--check-images=all"]);
    let mut step = |copies, sql| step(&server, &mut replica, copies, sql);
    step(
        0,
        "CREATE TABLE r (a INT PRIMARY KEY, v INT, KEY (v)) PARTITION BY RANGE (a) \
         (PARTITION p0 VALUES LESS THAN (10), PARTITION p1 VALUES LESS THAN MAXVALUE); \
         CREATE TABLE x (a INT PRIMARY KEY, v INT, KEY (v)); INSERT INTO r VALUES (3, 3), (30, 30); \
         INSERT INTO x VALUES (40, 1), (50, 2)",
    );
    step(0, "ALTER TABLE r EXCHANGE PARTITION p1 WITH TABLE x WITHOUT VALIDATION");
    step(0, "INSERT INTO x VALUES (1, 1), (2, 2)");
    step(2, "ALTER TABLE r EXCHANGE PARTITION p1 WITH TABLE x WITHOUT VALIDATION");
    // Equal keys in two partitions.
    step(0, "INSERT INTO r VALUES (1, 100), (4, 4); UPDATE r SET v = 101 WHERE a = 1; UPDATE r SET a = 5 WHERE a = 4");
    step(0, "DELETE FROM r WHERE a = 3; REPLACE INTO r VALUES (1, 102)");
    step(
        0,
        "ALTER TABLE r ADD COLUMN w INT DEFAULT 7, ADD KEY (w); ALTER TABLE r FORCE; OPTIMIZE TABLE r; CHECK TABLE r",
    );
    step(0, "RENAME TABLE r TO moved; CREATE TABLE alike LIKE moved; INSERT INTO alike VALUES (1, 1, 1), (20, 2, 2)");
    step(0, "ALTER TABLE alike TRUNCATE PARTITION p0; RENAME TABLE moved TO r");
    // The key alone does not tell which of the rows is meant.
    step(1, "SET SESSION binlog_row_image = MINIMAL; UPDATE r SET v = 103 WHERE a = 1");
    // By place: (1, 1), (2, 2) and (30, 30) go, what belongs to p0 stays.
    step(1, "ALTER TABLE r DROP PARTITION p1");
    step(0, "INSERT INTO r VALUES (2, 200, 2); UPDATE r SET v = v + 1");
    step(0, "SET SESSION binlog_row_image = MINIMAL; UPDATE r SET v = 9 WHERE a = 2; DELETE FROM r WHERE a = 1");
    // Rows that no partition takes, in a table without a key.
    step(
        2,
        "CREATE TABLE k (a INT, b INT) PARTITION BY LIST (a) (PARTITION p0 VALUES IN (1), PARTITION p1 VALUES IN (2)); \
         CREATE TABLE kx (a INT, b INT); INSERT INTO kx VALUES (1, 1), (1, 1), (9, 9); INSERT INTO k VALUES (1, 1); \
         ALTER TABLE k EXCHANGE PARTITION p1 WITH TABLE kx WITHOUT VALIDATION",
    );
    step(0, "INSERT INTO k VALUES (1, 1), (2, 2); DELETE FROM k PARTITION (p0) LIMIT 1");
    step(2, "ALTER TABLE k EXCHANGE PARTITION p1 WITH TABLE kx");
    step(0, "ALTER TABLE k TRUNCATE PARTITION p0");
    // What places all rows anew ends it.
    step(
        2,
        "CREATE TABLE h (a INT PRIMARY KEY) PARTITION BY HASH (a) PARTITIONS 3; CREATE TABLE hx (a INT PRIMARY KEY); \
         INSERT INTO hx VALUES (1), (2), (3), (4); ALTER TABLE h EXCHANGE PARTITION p0 WITH TABLE hx WITHOUT VALIDATION",
    );
    step(0, "ALTER TABLE h REMOVE PARTITIONING; SET SESSION binlog_row_image = MINIMAL; UPDATE h SET a = a + 10");
    step(0, "ALTER TABLE h PARTITION BY HASH (a) PARTITIONS 2; ALTER TABLE h TRUNCATE PARTITION p0");
    step(
        2,
        "CREATE TABLE s (a INT, b INT, PRIMARY KEY (a, b)) PARTITION BY RANGE (a) SUBPARTITION BY HASH (b) SUBPARTITIONS 2 \
         (PARTITION p0 VALUES LESS THAN (10), PARTITION p1 VALUES LESS THAN (20)); CREATE TABLE sx (a INT, b INT, \
         PRIMARY KEY (a, b)); INSERT INTO sx VALUES (1, 1), (1, 2); INSERT INTO s VALUES (1, 1), (11, 2); \
         ALTER TABLE s EXCHANGE PARTITION p0sp0 WITH TABLE sx WITHOUT VALIDATION",
    );
    step(0, "TRUNCATE TABLE s; SET SESSION binlog_row_image = MINIMAL; INSERT INTO s VALUES (1, 1), (1, 2), (11, 1)");
    step(0, "SET SESSION binlog_row_image = MINIMAL; UPDATE s SET b = 4 WHERE b = 2; ALTER TABLE s DROP PARTITION p1");
    replica.stop();
}

#[test]
fn a_copy_finds_misplaced_rows() {
    let server = server("misplaced_copy");
    server.sql(
        "USE d; CREATE TABLE r (a INT PRIMARY KEY, v VARCHAR(20)) PARTITION BY RANGE (a) \
         (PARTITION p0 VALUES LESS THAN (10), PARTITION p1 VALUES LESS THAN MAXVALUE); \
         CREATE TABLE x (a INT PRIMARY KEY, v VARCHAR(20)); INSERT INTO x VALUES (1, 'one'), (2, 'two'), (12, 'twelve'); \
         ALTER TABLE r EXCHANGE PARTITION p1 WITH TABLE x WITHOUT VALIDATION; INSERT INTO r VALUES (1, 'uno'), (3, 'tre'); \
         CREATE TABLE fine (a INT, b INT, KEY (b)) PARTITION BY KEY (b) PARTITIONS 5; \
         INSERT INTO fine VALUES (1, 1), (2, NULL), (2, NULL), (3, 3), (4, 4); \
         CREATE TABLE keyed (a INT PRIMARY KEY) PARTITION BY LINEAR HASH (a) PARTITIONS 6; \
         INSERT INTO keyed VALUES (1), (2), (3), (4), (5), (6), (7), (-8)",
    );
    server.purge_binary_logs();
    let data = folder("misplaced_copy");
    let mut replica = Replica::hurried(&server, &data, &["--cut-interval=100ms", "--check-images=all"]);
    assert_eq!(settled(&server, &mut replica, 1), 1, "only `r` is copied apart: {}", replica.log());
    replica.waits_for_log(&["SLIP-000064"]);
    assert_equal(&server, &mut replica, &["d"]);
    step(
        &server,
        &mut replica,
        0,
        "UPDATE r SET v = 'I' WHERE a = 1; DELETE FROM r WHERE a = 3; DELETE FROM fine LIMIT 2",
    );
    replica.kill();
    let kept = folder("misplaced_kept");
    copy_folder(&data, &kept);
    let mut replica = Replica::hurried(&server, &data, &["--cut-interval=100ms"]);
    step(&server, &mut replica, 1, "ALTER TABLE r TRUNCATE PARTITION p1");
    step(&server, &mut replica, 0, "SET SESSION binlog_row_image = MINIMAL; UPDATE r SET v = 'uno' WHERE a = 1");
    step(
        &server,
        &mut replica,
        0,
        "ALTER TABLE fine TRUNCATE PARTITION p1; ALTER TABLE keyed TRUNCATE PARTITION p0, p3",
    );
    replica.stop();
    // The same from the folder as it was, without the process that made the copy.
    let mut replica = Replica::hurried(&server, &kept, &["--cut-interval=100ms"]);
    settled(&server, &mut replica, 1);
    assert_equal(&server, &mut replica, &["d"]);
    replica.stop();
}
