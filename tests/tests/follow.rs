//! Follows a real primary: every row image, compression, checksum and metadata setting, DDL in between, real loads. The
//! copy must be equal by the mysql client's own text and by `slipstream verify`.

use std::process::Command;
use std::sync::{Arc, Mutex, Weak};

use whole_program_tests::{
    Ran, Replica, Server, allowed_cpus, assert_equal, cpus_of_thread, folder, length, share, shop, slipstream,
    slipstream_with,
};

static SERVER: Mutex<Weak<Server>> = Mutex::new(Weak::new());

fn server() -> Arc<Server> {
    Server::shared(&SERVER, "follow", &["--max-binlog-size=1M"])
}

/// Settings under which the log can be written; each may change at any point in it.
const FORMATS: &[(&str, &str, &str, &str)] = &[
    ("FULL", "OFF", "CRC32", "MINIMAL"),
    ("MINIMAL", "OFF", "NONE", "FULL"),
    ("NOBLOB", "OFF", "CRC32", "FULL"),
    ("FULL", "ON", "NONE", "MINIMAL"),
    ("MINIMAL", "ON", "CRC32", "MINIMAL"),
    ("NOBLOB", "ON", "NONE", "FULL"),
];

fn set_format(server: &Server, (image, compression, checksum, metadata): (&str, &str, &str, &str)) {
    server.sql(&format!(
        "SET GLOBAL binlog_row_image = {image}; SET GLOBAL binlog_transaction_compression = {compression}; \
         SET GLOBAL binlog_row_metadata = {metadata}; SET GLOBAL binlog_checksum = {checksum};"
    ));
}

fn sysbench(server: &Server, verb: &str, options: &[&str]) -> Option<()> {
    let mut command = Command::new("sysbench");
    command.arg("oltp_read_write").args(["--db-driver=mysql", "--mysql-user=root", "--mysql-db=sbtest"]);
    command.arg(format!("--mysql-socket={}", server.socket().display()));
    command.args(["--tables=3", "--table-size=500", "--threads=4", "--rand-type=uniform"]).args(options).arg(verb);
    match command.output() {
        Err(error) => {
            testkit::skipped(&format!("no sysbench ({error}); apt-get install sysbench"));
            None
        }
        Ok(output) => {
            let ran = Ran::from(output);
            assert_eq!(ran.code, 0, "sysbench {verb}: {}{}", ran.out, ran.err);
            Some(())
        }
    }
}

#[test]
fn every_format_under_sysbench_and_the_shop() {
    let server = server();
    server.sql("CREATE DATABASE sbtest");
    server.sql(&shop::schema("shop"));
    // More threads than cores and little memory, so that pieces meet in every order.
    let (last, list) = allowed_cpus();
    let affinity = format!("--thread-affinity=apply={list},cut={last},compact={last},relay-sync={last}");
    let options = ["--replica-parallel-workers=5", "--decoders=3", "--queue-memory=32M", &affinity];
    let mut replica = Replica::follow(&server, &folder("formats"), &options);
    let threads = [("apply-0", &list), ("apply-4", &list), ("cut", &last), ("compact-0", &last), ("relay-sync", &last)];
    for (thread, cpus) in threads.into_iter().chain([("receive", &list), ("decode-2", &list), ("sequence", &list)]) {
        assert_eq!(cpus_of_thread(replica.pid(), thread).as_ref(), Some(cpus), "{thread}");
    }
    let with_sysbench = sysbench(&server, "prepare", &[]).is_some();
    for round in 0..length(1, 8) {
        for (n, format) in FORMATS.iter().enumerate() {
            set_format(&server, *format);
            let n = (round * FORMATS.len() + n) as u64;
            let events = format!("--events={}", length(150, 1500));
            let transactions = length(120, 400);
            std::thread::scope(|scope| {
                scope.spawn(|| server.sql(&shop::load("shop", n, n * transactions, transactions)));
                if with_sysbench {
                    // Not in a loop: two loads that meet cause deadlocks, which sysbench retries itself.
                    scope.spawn(|| sysbench(&server, "run", &[&events, "--time=0"]));
                }
            });
            eprintln!("compared under {format:?}");
            assert_equal(&server, &mut replica, &["shop", "sbtest"]);
        }
    }
    set_format(&server, FORMATS[0]);
    replica.stop();
}

#[test]
fn tpcc_with_each_row_image() {
    let server = server();
    let mut replica = Replica::follow(&server, &folder("tpcc"), &[]);
    let (url, transactions) = (server.url("root"), length("300", "10000"));
    let tpcc = |verb: &str, options: &[&str]| {
        let arguments = ["lab", "tpcc", verb, "--server", &url, "--warehouses", "1"];
        let with = |command: &mut Command| {
            command.env_remove("MYSQL_PWD");
        };
        slipstream_with(&[&arguments, options].concat(), with).expect(0, &[]);
    };
    tpcc("prepare", &["--scale", length("0.02", "1")]);
    for style in ["statements", "procedures"] {
        for image in ["FULL", "MINIMAL", "NOBLOB"] {
            server.sql(&format!("SET GLOBAL binlog_row_image = {image}"));
            tpcc("run", &["--terminals", "4", "--transactions", transactions, "--style", style]);
            replica.catch_up(&server);
        }
    }
    tpcc("check", &[]);
    assert_equal(&server, &mut replica, &["tpcc"]);
    replica.stop();
}

/// DDL between rows, tables with the names of dropped ones, tagged GTIDs.
#[test]
fn ddl_between_rows() {
    let server = server();
    let mut replica = Replica::follow(&server, &folder("ddl"), &[]);
    server.sql("CREATE DATABASE ddl_a; CREATE DATABASE `ddl b` CHARACTER SET latin1");
    let steps = [
        "CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(20)); INSERT INTO t VALUES (1,'a'),(2,'b')",
        "DROP TABLE t; CREATE TABLE t (id BIGINT UNSIGNED NOT NULL, w CHAR(5), PRIMARY KEY (id)); INSERT INTO t VALUES (1,'x'),(9,'y')",
        "TRUNCATE TABLE t; INSERT INTO t VALUES (3,'z')",
        "RENAME TABLE t TO u; CREATE TABLE t LIKE u; INSERT INTO t SELECT id + 10, w FROM u; INSERT INTO u VALUES (4,'u')",
        "RENAME TABLE t TO tmp, u TO t, tmp TO u; UPDATE t SET w = 'wast'; UPDATE u SET w = 'wasu'",
        "RENAME TABLE t TO `ddl b`.moved; INSERT INTO `ddl b`.moved VALUES (5,'m')",
        "CREATE INDEX w ON u (w); INSERT INTO u VALUES (77,'idx'); DROP INDEX w ON u; UPDATE u SET w = 'no' WHERE id = 77",
        "CREATE TABLE s SELECT id AS k, w, id / 3 AS third, NOW(3) AS at FROM u; INSERT INTO s (k, at) VALUES (99, NOW(3))",
        "CREATE TABLE s2 (PRIMARY KEY (k)) SELECT k, w FROM s; DELETE FROM s2 WHERE k = 99",
        "CREATE TABLE IF NOT EXISTS s2 (never INT); INSERT INTO s2 VALUES (1000, 'old')",
        "CREATE TABLE uniq (a INT NOT NULL, b INT, UNIQUE KEY b (b), UNIQUE KEY a (a)); INSERT INTO uniq VALUES (1, NULL), (2, NULL), (3, 3); UPDATE uniq SET a = a + 10, b = a; DELETE FROM uniq WHERE a = 12",
        "CREATE TEMPORARY TABLE tt (id INT); INSERT INTO tt VALUES (1); INSERT INTO s (k, at) SELECT id, NOW(3) FROM tt; DROP TEMPORARY TABLE tt",
        "CREATE VIEW v AS SELECT * FROM u; DROP VIEW v; CREATE TABLE v (id INT PRIMARY KEY); INSERT INTO v VALUES (1)",
        "CREATE TABLE gone1 (id INT); CREATE TABLE gone2 (id INT); INSERT INTO gone1 VALUES (1); DROP TABLE gone1, gone2; DROP TABLE IF EXISTS gone3",
        "CREATE DATABASE ddl_c; CREATE TABLE ddl_c.x (id INT); INSERT INTO ddl_c.x VALUES (1),(1); DROP DATABASE ddl_c; CREATE DATABASE ddl_c; CREATE TABLE ddl_c.x (other CHAR(3)); INSERT INTO ddl_c.x VALUES ('new')",
        "SET SESSION gtid_next = 'AUTOMATIC:backfill'; INSERT INTO v VALUES (2); CREATE TABLE tagged (id INT); INSERT INTO tagged VALUES (5); SET SESSION gtid_next = AUTOMATIC",
        "SET SESSION gtid_next = '11111111-2222-3333-4444-555555555555:5'; INSERT INTO v VALUES (6); \
         SET SESSION gtid_next = '11111111-2222-3333-4444-555555555555:7'; BEGIN; COMMIT; SET SESSION gtid_next = AUTOMATIC",
        "CREATE USER ddl_u@localhost IDENTIFIED BY 'Secret-1'; GRANT SELECT ON ddl_a.* TO ddl_u@localhost; DROP USER ddl_u@localhost",
        "CREATE TRIGGER tr BEFORE INSERT ON v FOR EACH ROW SET NEW.id = NEW.id + 100; INSERT INTO v VALUES (3); DROP TRIGGER tr",
        "ANALYZE TABLE v; FLUSH TABLES; INSERT INTO v VALUES (4)",
        "XA START 'one'; INSERT INTO v VALUES (500); XA END 'one'; XA COMMIT 'one' ONE PHASE",
    ];
    for step in steps {
        server.sql(&format!("USE ddl_a; {step}"));
    }
    let dbs = ["ddl_a", "ddl b", "ddl_c"];
    let status = replica.catch_up(&server);
    assert!(status["gtid"]["executed"].as_str().unwrap().contains(":backfill:"), "{}", status["gtid"]);
    assert_equal(&server, &mut replica, &dbs);
    // The same again from the kept relay log.
    replica.stop();
    let mut replica = Replica::follow(&server, &folder("ddl-again"), &[]);
    assert_equal(&server, &mut replica, &dbs);
    replica.stop();
    assert!(!log_of_all().contains("Secret-1"));
}

/// Logs of all this process's replicas.
fn log_of_all() -> String {
    let logs = std::fs::read_dir(whole_program_tests::scratch()).unwrap().flatten();
    let logs = logs.filter(|entry| entry.path().extension().is_some_and(|extension| extension == "log"));
    logs.map(|entry| std::fs::read_to_string(entry.path()).unwrap_or_default()).collect()
}

/// 100,000 rows in one transaction are never seen in part.
#[test]
fn a_huge_transaction_is_seen_at_once() {
    let server = server();
    server.sql("CREATE DATABASE huge; CREATE TABLE huge.t (id INT PRIMARY KEY, v VARCHAR(100)); CREATE TABLE huge.other (id INT)");
    let mut replica = Replica::follow(&server, &folder("huge"), &["--queue-memory=32M"]);
    replica.catch_up(&server);
    let rows = length(100_000, 2_000_000);
    let insert = format!(
        "SET SESSION binlog_row_image = FULL, cte_max_recursion_depth = 10000000; INSERT INTO huge.t \
         WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < {rows}) SELECT i, REPEAT('x', 60) FROM n;"
    );
    let count = |replica: &Replica| {
        let dump = slipstream(&["dump", "--data", replica.data(), "--format", "tab", "huge.t"]);
        dump.expect(0, &[]);
        dump.out.lines().count().saturating_sub(1)
    };
    std::thread::scope(|scope| {
        let load = scope.spawn(|| server.sql(&insert));
        loop {
            let before = count(&replica);
            assert!(before == 0 || before == rows, "{before} of {rows} rows are visible");
            if before == rows {
                break;
            }
            if load.is_finished() {
                replica.catch_up(&server);
            }
        }
        load.join().unwrap();
    });
    server.sql("SET SESSION binlog_transaction_compression = ON; UPDATE huge.t SET id = id + 10000000 WHERE id % 2 = 0; DELETE FROM huge.t WHERE id % 3 = 0");
    // Rows longer than one packet of the protocol.
    server.sql(
        "CREATE TABLE huge.long_row (id INT PRIMARY KEY, body LONGBLOB); INSERT INTO huge.long_row VALUES (1, REPEAT('a', 17000000)), (2, 'b');
         UPDATE huge.long_row SET body = CONCAT(body, 'z') WHERE id = 1;
         SET SESSION binlog_transaction_compression = ON; INSERT INTO huge.long_row VALUES (3, REPEAT('c', 17000000));",
    );
    assert_equal(&server, &mut replica, &["huge"]);
    replica.stop();
}

/// (name, columns, statements): what is not replayed must stop replay with exit code 6 and must never be guessed.
const KINDS: &[(&str, &str, &str)] = &[
    (
        "bits",
        "id INT PRIMARY KEY, b BIT(9), c BIT(64)",
        "INSERT INTO t VALUES (1, b'101', 18446744073709551615), (2, NULL, 0); UPDATE t SET b = b'111111111'",
    ),
    (
        "sets",
        "id INT PRIMARY KEY, s SET('a','b','ü'), e ENUM('x','y')",
        "INSERT INTO t VALUES (1, 'a,ü', 'y'), (2, '', NULL); UPDATE t SET s = 'b' WHERE id = 2",
    ),
    (
        "bytes",
        "id BINARY(4) PRIMARY KEY, v VARBINARY(300), l LONGBLOB",
        "INSERT INTO t VALUES (UNHEX('00'), UNHEX('ff00'), REPEAT('x', 70000)), ('ab', '', NULL); UPDATE t SET v = id; DELETE FROM t WHERE id = UNHEX('61620000')",
    ),
    (
        "charsets",
        "id INT PRIMARY KEY, a VARCHAR(20) CHARACTER SET utf16, b CHAR(5) CHARACTER SET gbk, c TEXT CHARACTER SET cp1251, d VARCHAR(9) CHARACTER SET ascii, e CHAR(6) CHARACTER SET utf8mb3",
        "INSERT INTO t VALUES (1, 'aü椅', '椅子', 'стул', 'x', 'ü椅'), (2, '', '', '', '', '')",
    ),
    (
        "displayed",
        "id INT(4) ZEROFILL PRIMARY KEY, f FLOAT(7,3), g DOUBLE(20,2) UNSIGNED ZEROFILL, d DECIMAL(9,3) ZEROFILL, \
         t TINYINT ZEROFILL, b BIGINT(6) ZEROFILL, h FLOAT ZEROFILL, k FLOAT(9,0), z DOUBLE(9,4)",
        "INSERT INTO t VALUES (7, 181.5, 3.125, 1.5, 5, 1234567, 1.5, 2.5, -0.00004), \
         (12345, 0.0005, 0, 0, 0, 0, 16777216, 3.5, -1.00005), (3, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL), \
         (8, 9999.9995, 1e15, 99, 255, 1, 1e30, 1e8, 0.00005)",
    ),
    (
        "generated",
        "id INT PRIMARY KEY, a INT, b INT AS (a + 1) VIRTUAL, c INT AS (a * 2) STORED, KEY (b)",
        "INSERT INTO t (id, a) VALUES (1, 5), (2, NULL); UPDATE t SET a = a + 1; DELETE FROM t WHERE id = 2",
    ),
    (
        "generated_key",
        "a INT, c INT AS (a * 2) STORED NOT NULL PRIMARY KEY, v INT AS (a + 7) VIRTUAL UNIQUE",
        "INSERT INTO t (a) VALUES (1), (2); UPDATE t SET a = 10 WHERE a = 1; DELETE FROM t WHERE a = 2",
    ),
    (
        "invisible",
        "id INT PRIMARY KEY, shown INT, hidden INT INVISIBLE DEFAULT 7",
        "INSERT INTO t VALUES (1, 2), (2, 3); UPDATE t SET hidden = 8 WHERE id = 2",
    ),
    (
        "functional",
        "id INT PRIMARY KEY, v VARCHAR(20), KEY ((UPPER(v))), KEY p (v(3)), CHECK (id > 0)",
        "INSERT INTO t VALUES (1, 'abcdef'), (2, 'ABC'); UPDATE t SET v = CONCAT(v, 'x')",
    ),
    ("partitioned", "", ""),
    (
        "descending",
        "a INT, b VARCHAR(10), PRIMARY KEY (a DESC, b), UNIQUE KEY (b)",
        "INSERT INTO t VALUES (1, 'x'), (2, 'y'); UPDATE t SET a = a - 5; DELETE FROM t WHERE b = 'x'",
    ),
    (
        "fulltext",
        "id INT PRIMARY KEY, body TEXT, FULLTEXT KEY (body)",
        "INSERT INTO t VALUES (1, 'some words'), (2, NULL); UPDATE t SET body = 'others' WHERE id = 2; DELETE FROM t WHERE id = 1",
    ),
    (
        "geometry",
        "id INT PRIMARY KEY, g POINT NOT NULL SRID 0, SPATIAL KEY (g)",
        "INSERT INTO t VALUES (1, POINT(1, 2))",
    ),
    ("vectors", "id INT PRIMARY KEY, v VECTOR(3)", "INSERT INTO t VALUES (1, TO_VECTOR('[1,2,3]')), (2, NULL)"),
    (
        "defaults",
        "id INT PRIMARY KEY, u CHAR(36) DEFAULT (UUID()), d DECIMAL(4,2) DEFAULT 1.5, e ENUM('a','b') DEFAULT 'b', t TIMESTAMP DEFAULT CURRENT_TIMESTAMP ON UPDATE CURRENT_TIMESTAMP, n VARCHAR(5) NOT NULL DEFAULT ''",
        "INSERT INTO t (id) VALUES (1), (2); UPDATE t SET d = 2 WHERE id = 2",
    ),
    (
        "multivalued",
        "id INT PRIMARY KEY, j JSON, KEY ((CAST(j->'$.n' AS UNSIGNED ARRAY)))",
        "INSERT INTO t VALUES (1, '{\"n\": [1,2]}'), (2, NULL); UPDATE t SET j = '{\"n\": [3]}' WHERE id = 1",
    ),
    (
        "wide",
        "id INT PRIMARY KEY, a VARCHAR(16000), b VARCHAR(200) CHARACTER SET latin1, c VARCHAR(63) , d TINYTEXT",
        "INSERT INTO t VALUES (1, REPEAT('ü', 16000), REPEAT('é', 200), REPEAT('椅', 63), REPEAT('x', 255)), (2, '', '', '', '')",
    ),
    (
        "zerodates",
        "id INT PRIMARY KEY, d DATE, t DATETIME(2), s TIMESTAMP NULL, y YEAR",
        "SET sql_mode = ''; INSERT INTO t VALUES (1, '0000-00-00', '0000-00-00', 0, 0), (2, '2024-00-00', '2024-01-00 00:00:00', NULL, 1901)",
    ),
    (
        "enumzero",
        "id INT PRIMARY KEY, e ENUM('', 'a'), f ENUM('x') NOT NULL",
        "SET sql_mode = ''; INSERT INTO t VALUES (1, '', 'wrong'), (2, 'a', 'x'); INSERT INTO t (id) VALUES (3)",
    ),
    ("manycolumns", "", ""),
];

#[test]
fn columns_of_every_kind_are_equal_or_refused() {
    let server = Server::start_unsynced("kinds", &[]);
    let data = folder("kinds");
    let mut replica = Replica::follow(&server, &data, &[]);
    let mut refused = Vec::new();
    for (name, columns, statements) in share(KINDS, 2) {
        let db = format!("k_{name}");
        let (columns, statements) = match *name {
            "partitioned" => (
                "id INT PRIMARY KEY, v INT) PARTITION BY HASH (id) PARTITIONS (4".to_owned(),
                "INSERT INTO t VALUES (1, 1), (2, 2), (7, 7); UPDATE t SET id = id + 1 ORDER BY id DESC; TRUNCATE TABLE t; INSERT INTO t VALUES (3, 3)",
            ),
            "manycolumns" => (
                (0..300).map(|n| format!("c{n} INT")).collect::<Vec<_>>().join(", "),
                "INSERT INTO t (c0, c299) VALUES (1, 2), (1, 2), (3, NULL); UPDATE t SET c150 = 5 WHERE c0 = 3; DELETE FROM t WHERE c0 = 1 LIMIT 1",
            ),
            _ => ((*columns).to_owned(), *statements),
        };
        let create = format!("CREATE TABLE t ({columns})").replace("PARTITIONS (4)", "PARTITIONS 4");
        for image in ["FULL", "MINIMAL"] {
            let db = format!("{db}_{image}").to_lowercase();
            server.sql(&format!(
                "CREATE DATABASE {db}; USE {db}; SET SESSION binlog_row_image = {image}; {create}; {statements}"
            ));
            let goal = server.gtid_executed();
            if replica.reaches(&goal) {
                assert_equal(&server, &mut replica, &[&db]);
                continue;
            }
            let log = replica.expect_exit(6, &["not supported"]);
            let error = log.lines().rev().find(|line| line.contains("[ERROR]")).unwrap_or_default();
            refused.push(format!("{name} {image}: {error}"));
            // Skip it and continue.
            let left_out = goal.subtract(&whole_program_tests::replica::stopped_executed(&data));
            slipstream(&["skip", &left_out.to_string().replace('\n', ""), "--data", data.to_str().unwrap()])
                .expect(0, &[]);
            replica = Replica::follow(&server, &data, &[]);
        }
    }
    eprintln!("refused: {refused:#?}");
    replica.stop();
}
