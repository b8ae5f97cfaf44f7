//! Copies of real servers (`testbed/mysql`); run with SLIPSTREAM_TEST_SERVER=1.
#![allow(clippy::unwrap_used, clippy::expect_used)]

mod support;

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use catalog::TableDef;
use copy::{CopyError, CopyLock, CopyOptions, CopySink, Progress, RowBatch, SourceCopy, TableState};
use source::TableFilter;
use source::copy_check::{CopyCheckInput, LockWanted, LogKept, check_copy, oldest_log_age};
use support::{Copied, Kept, Replay, assert_equals_log, copy_all};
use testkit::Server;

const TYPES: &str = include_str!("../../compare/tests/types.sql");

/// Small ranges and batches, so that even small tables have several of each.
fn small_pieces() -> CopyOptions {
    CopyOptions { chunk_bytes: 1, chunk_rows_min: 3, batch_bytes: 100, ..CopyOptions::default() }
}

#[test]
fn every_type_is_copied_as_the_log_has_it() {
    let Some(server) = Server::or_skip("copy-types", &[]) else { return };
    server.sql(TYPES);
    let copied = copy_all(&server.login("root"), &CopyOptions::default()).unwrap();
    assert_equals_log(&server, &copied);
    assert!(copied.plan.lock_us > 0 && copied.plan.backup_lock_us.is_some());
    let totals = copied.progress.totals();
    assert_eq!((totals.tables_done, totals.rows), (copied.report.tables, copied.report.rows));
    assert_eq!(totals.fraction, 1.0);

    server.sql("ANALYZE TABLE types.many");
    let copied = copy_all(&server.login("root"), &small_pieces()).unwrap();
    assert_equals_log(&server, &copied);
    assert!(copied.report.ranges > 1000, "{}", copied.report.ranges);
}

/// Rows 1 to `count` as a derived table `seq(x)`.
fn numbers(count: u32) -> String {
    format!("WITH RECURSIVE seq AS (SELECT 1 AS x UNION ALL SELECT x + 1 FROM seq WHERE x < {count}) ")
}

/// Rows of the tables that are read in ranges of 1, 2 and 7 rows.
const ROWS: u32 = 120;

#[test]
fn ranges_of_any_key_hold_every_row_once() {
    let Some(server) = Server::or_skip("copy-keys", &[]) else { return };
    let keys = [
        ("k BIGINT UNSIGNED PRIMARY KEY", "18446744073709551615 - x * 1000003"),
        ("k BIGINT PRIMARY KEY", "CAST(x AS SIGNED) * 7919 - 400000"),
        ("k DECIMAL(20,5) PRIMARY KEY", "x / 7 - 10"),
        ("k DATE PRIMARY KEY", "DATE'2020-01-01' + INTERVAL x DAY"),
        ("k DATETIME(6) PRIMARY KEY", "TIMESTAMP'2020-01-01 00:00:00' + INTERVAL x * 1001 MICROSECOND"),
        ("k TIMESTAMP(3) PRIMARY KEY", "TIMESTAMP'2020-03-29 00:00:00' + INTERVAL x * 13 MINUTE"),
        ("k TIME(2) PRIMARY KEY", "SEC_TO_TIME(CAST(x AS SIGNED) * 61.25 - 5000)"),
        ("k YEAR PRIMARY KEY", "1901 + x % 255"),
        ("k VARCHAR(40) PRIMARY KEY", "CONCAT(ELT(1 + x % 7, 'a', 'B', 'ä', 'Z', '日', '', 'ß'), x)"),
        (
            "k VARCHAR(40) COLLATE utf8mb4_general_ci PRIMARY KEY",
            "CONCAT(ELT(1 + x % 5, 'É', 'e', 'F', 'z', ' '), x, ' ')",
        ),
        ("k VARCHAR(40) COLLATE utf8mb4_bin PRIMARY KEY", "CONCAT(CHAR(65 + x % 60), '\\'\\\\', x)"),
        ("k VARCHAR(40) CHARACTER SET latin1 PRIMARY KEY", "CONCAT(ELT(1 + x % 5, 'É', 'ü', 'F', 'z', '€'), x)"),
        ("k VARCHAR(40) CHARACTER SET utf16 PRIMARY KEY", "CONCAT(ELT(1 + x % 3, '😀', 'ü', 'F'), x)"),
        ("k VARCHAR(40) CHARACTER SET sjis PRIMARY KEY", "CONCAT(ELT(1 + x % 3, 'ソ', '能', 'F'), x)"),
        ("k CHAR(12) PRIMARY KEY", "CONCAT(ELT(1 + x % 3, 'x ', 'Y', '!'), x)"),
        ("k BINARY(6) PRIMARY KEY", "UNHEX(LPAD(HEX(x * 4099), 12, '0'))"),
        ("k VARBINARY(40) PRIMARY KEY", "CONCAT(UNHEX(SHA2(x, 256)), IF(x % 2, 0x00, ''))"),
        ("k INT, e ENUM('x', 'y'), PRIMARY KEY (e, k)", "x, 1 + x % 2"),
        ("k INT, e SET('x', 'y'), PRIMARY KEY (k, e)", "x DIV 3, x % 3"),
        ("k DOUBLE PRIMARY KEY", "x / 3"),
        ("k BIT(20) PRIMARY KEY", "x * 5"),
        (
            "k INT, b VARCHAR(9), c DATE, PRIMARY KEY (b DESC, k, c DESC)",
            "x % 10, CONCAT('g', x % 4), '2020-01-01' + INTERVAL x DAY",
        ),
        ("k INT NOT NULL, b BINARY(2) NOT NULL, n INT, UNIQUE (n), UNIQUE kb (b, k)", "x, UNHEX(HEX(x % 9)), NULL"),
        ("k INT NOT NULL, n INT, UNIQUE (k), KEY (n)", "x, 1"),
        ("k INT, p INT, PRIMARY KEY (k, p)) PARTITION BY HASH (p) PARTITIONS 3", "x, x % 11"),
        ("k TEXT, PRIMARY KEY (k(20))", "CONCAT(x, 'text')"),
        ("k VARCHAR(40), PRIMARY KEY (k(5))", "CONCAT(LPAD(x, 5, '0'), 'text')"),
    ];
    let mut sql =
        String::from("SET NAMES utf8mb4; SET sql_mode = '', time_zone = '+00:00'; CREATE DATABASE k; USE k;\n");
    for (number, (columns, values)) in keys.iter().enumerate() {
        let close = if columns.contains("PARTITION") { "" } else { ")" };
        sql.push_str(&format!(
            "CREATE TABLE t{number} ({columns}{close};\nINSERT INTO t{number} {}SELECT {values} FROM seq;\n",
            numbers(ROWS)
        ));
    }
    // Written by hand: values that are equal although their bytes differ, and range ends that differ only in case or
    // padding.
    sql.push_str(
        "CREATE TABLE pad (a VARCHAR(9) COLLATE utf8mb4_general_ci, b VARCHAR(9) COLLATE utf8mb4_0900_as_cs, PRIMARY KEY (a, b));
         INSERT INTO pad VALUES ('a', 'a'), ('A', 'A'), ('a ', ' '), ('á', 'á'), ('A  ', 'a '), ('b', ''), ('B', ' '), ('b ', '\\t');
         SET sql_generate_invisible_primary_key = ON; CREATE TABLE gipk (v VARCHAR(20));
         SET sql_generate_invisible_primary_key = OFF;
         CREATE TABLE zero (k DATETIME PRIMARY KEY);
         INSERT INTO zero VALUES ('0000-00-00 00:00:00'), ('2026-00-00 00:00:00'), ('2026-01-00 00:00:00'), ('2026-01-01 00:00:00'), ('9999-12-31 23:59:59');",
    );
    sql.push_str(&format!("INSERT INTO gipk {}SELECT CONCAT('v', x) FROM seq;\n", numbers(ROWS)));
    server.sql(&sql);
    let tables: Vec<String> = (0..keys.len()).map(|number| format!("t{number}")).collect();
    server.sql(&format!("USE k; ANALYZE TABLE pad, gipk, zero, {}", tables.join(", ")));
    for rows in [1, 2, 7] {
        let options = CopyOptions { chunk_rows_min: rows, ..small_pieces() };
        let copied = copy_all(&server.login("root"), &options).unwrap();
        assert_equals_log(&server, &copied);
        // Four of the tables above cannot be divided; ranges of an integer key have up to twice as many rows.
        assert!(copied.report.ranges > 15 * u64::from(ROWS) / rows, "{} ranges of {rows} rows", copied.report.ranges);
    }
}

#[test]
fn what_is_no_table_does_not_disturb() {
    let Some(server) = Server::or_skip("copy-schema", &[]) else { return };
    let mut sql = String::from(
        "CREATE DATABASE shop DEFAULT COLLATE latin1_german1_ci; USE shop;
         CREATE TABLE customers (id INT PRIMARY KEY, name VARCHAR(40), KEY (name));
         CREATE TABLE Customers (id INT PRIMARY KEY, other BLOB);
         CREATE TABLE orders (id INT PRIMARY KEY, customer INT, twice INT AS (customer * 2) VIRTUAL,
            thrice INT AS (customer * 3) STORED, hidden VARCHAR(9) INVISIBLE DEFAULT 'h',
            CONSTRAINT who FOREIGN KEY (customer) REFERENCES customers (id), CHECK (id > 0));
         INSERT INTO customers VALUES (1, 'Ä'), (2, 'b'); INSERT INTO Customers VALUES (7, 'x');
         INSERT INTO orders (id, customer) VALUES (1, 1), (2, 1), (3, NULL);
         CREATE VIEW busy AS SELECT customer FROM orders; CREATE VIEW broken AS SELECT 1 AS one FROM customers;
         CREATE PROCEDURE p() SELECT 1; CREATE FUNCTION f() RETURNS INT DETERMINISTIC RETURN 1;
         CREATE TRIGGER t BEFORE INSERT ON customers FOR EACH ROW SET NEW.name = TRIM(NEW.name);
         CREATE EVENT e ON SCHEDULE EVERY 1 DAY DO SELECT 1;
         CREATE TABLE nothing (v INT); CREATE DATABASE empty_db;
         CREATE TEMPORARY TABLE passing (v INT); INSERT INTO passing VALUES (1);\n",
    );
    for db in 0..60 {
        sql.push_str(&format!(
            "CREATE DATABASE many{db}; CREATE TABLE many{db}.t (id INT PRIMARY KEY) COMMENT 'it''s';\n"
        ));
        sql.push_str(&format!("INSERT INTO many{db}.t VALUES ({db});\n"));
    }
    server.sql(&sql);
    // A view whose table is missing must not make the listing fail.
    server.sql(
        "CREATE TABLE shop.gone (a INT); CREATE VIEW shop.of_gone AS SELECT a FROM shop.gone; DROP TABLE shop.gone",
    );
    let copied = copy_all(&server.login("root"), &CopyOptions::default()).unwrap();
    assert_equals_log(&server, &copied);
    let catalog = &copied.plan.catalog;
    let databases: Vec<_> = catalog.databases().collect();
    assert_eq!(databases.len(), 62);
    assert!(databases.contains(&("shop", Some(5))) && databases.contains(&("empty_db", Some(255))), "{databases:?}");
    assert_eq!(copied.plan.tables.len(), 64);
    assert!(copied.plan.left_out.is_empty());
    // The catalog knows the views' names: it refuses a table of the same name and accepts DROP VIEW.
    let context = catalog::StatementContext { default_db: "shop".into(), ..Default::default() };
    assert!(catalog.apply(&context, b"DROP VIEW busy").is_ok());
    assert!(catalog.apply(&context, b"RENAME TABLE of_gone TO elsewhere").is_ok());
    assert_eq!(copied.kept.table("shop", "nothing").done, Some(0));

    let only = |names: &[&str]| CopyOptions { tables: TableFilter::parse(names), ..CopyOptions::default() };
    let copied = copy_all(&server.login("root"), &only(&["shop.*", "many7.t"])).unwrap();
    assert_eq!(copied.kept.tables().len(), 5);
    assert_eq!((copied.plan.tables.len(), copied.plan.left_out.len()), (5, 59));
    let missing = copy_all(&server.login("root"), &only(&["shop.nix"]));
    assert!(matches!(missing, Err(CopyError::NoSuchTable(name)) if name == "`shop`.`nix`"));
}

#[test]
fn rows_are_those_of_the_snapshot_while_writers_continue() {
    // The writers' conditions are indexed, because writers that wait for each other's rows block the lock for minutes.
    let Some(server) = Server::or_skip("copy-live", &[]) else { return };
    server.sql(&format!(
        "CREATE DATABASE live; USE live;
         CREATE TABLE keyed (id INT AUTO_INCREMENT PRIMARY KEY, v INT, f FLOAT, j JSON, KEY (v));
         CREATE TABLE pairs (a VARCHAR(20), b INT, v VARCHAR(200), PRIMARY KEY (a, b), KEY (b));
         CREATE TABLE keyless (what INT, who VARCHAR(20), f FLOAT, j JSON, KEY (what));
         INSERT INTO keyed (v, f, j) {0}SELECT x, x / 3, JSON_OBJECT('x', x) FROM seq;
         INSERT INTO pairs {0}SELECT CONCAT('p', x % 17), x, REPEAT('v', 100) FROM seq;
         INSERT INTO keyless {0}SELECT x % 5, 'w', 16777217, '[1, 2.50]' FROM seq; ANALYZE TABLE keyed, pairs, keyless",
        numbers(900)
    ));
    let source = server.login("root");
    let stop = AtomicBool::new(false);
    let committed = Mutex::new(0u64);
    let copies: Vec<Copied> = std::thread::scope(|scope| {
        for writer in 0..3u64 {
            let (server, stop, committed) = (&server, &stop, &committed);
            scope.spawn(move || {
                let mut connection = server.connect();
                let mut n = 0u64;
                while !stop.load(Ordering::Relaxed) {
                    n += 1;
                    let mut change = || {
                        connection.exec("BEGIN")?;
                        connection
                            .exec(&format!("INSERT INTO live.keyed (v, j) VALUES ({n}, '{{}}'), ({writer}, NULL)"))?;
                        connection.exec(&format!("UPDATE live.keyed SET v = v + 1 WHERE id = {}", n * 7 % 900))?;
                        connection.exec(&format!("UPDATE live.pairs SET b = b + 100000 WHERE b = {}", n * 11 % 900))?;
                        connection
                            .exec(&format!("INSERT INTO live.keyless VALUES ({}, 'w{writer}', 0.1, '[]')", n % 5))?;
                        connection.exec("DELETE FROM live.keyless WHERE what = 4 LIMIT 1")?;
                        connection.exec("COMMIT")
                    };
                    match change() {
                        Ok(_) => *committed.lock().unwrap() += 1,
                        // ER_LOCK_DEADLOCK
                        Err(error) => assert_eq!(error.server_code(), Some(1213), "{error}"),
                    }
                }
            });
        }
        let copies = (0..3)
            .map(|_| {
                let before = *committed.lock().unwrap();
                let copied = copy_all(&source, &CopyOptions { chunk_rows_min: 50, ..small_pieces() });
                let during = *committed.lock().unwrap() - before;
                (copied, during)
            })
            .collect::<Vec<_>>();
        stop.store(true, Ordering::Relaxed);
        copies
            .into_iter()
            .map(|(copied, during)| {
                assert!(during > 10, "only {during} transactions beside the copy");
                copied.unwrap()
            })
            .collect()
    });
    for copied in &copies {
        assert!(copied.report.ranges > 20);
        assert_equals_log(&server, copied);
    }
    // Replay from the first copy to the last finds every before image, even of keyless FLOAT and JSON.
    let (first, last) = (&copies[0], &copies[2]);
    assert!(first.plan.executed.count() < last.plan.executed.count());
    let changed = support::replay_over(&server, first, &last.plan.executed, Replay::Exact);
    for (name, kept) in last.kept.tables() {
        assert!(changed[&name] == kept.rows, "{name:?}");
    }
}

/// Creates an account with these privileges.
fn account(server: &Server, name: &str, privileges: &str) -> client::ConnectOptions {
    server.sql(&format!("CREATE USER '{name}'@'%' IDENTIFIED BY '{name}'; GRANT {privileges} ON *.* TO '{name}'@'%'"));
    server.login(name)
}

#[test]
fn locks_are_asked_for_politely_and_privileges_named() {
    let Some(server) = Server::or_skip("copy-locks", &[]) else { return };
    server.sql("CREATE DATABASE d; CREATE TABLE d.t (id INT PRIMARY KEY); INSERT INTO d.t VALUES (1), (2)");
    let root = server.login("root");
    let long_statement = |seconds: u32| {
        let mut connection = server.connect();
        let id = connection.connection_id();
        let thread = std::thread::spawn(move || {
            connection.query(&format!("SELECT SLEEP({seconds}) FROM d.t LIMIT 1")).map(|_| ())
        });
        let deadline = Instant::now() + Duration::from_secs(20);
        let mut watcher = server.connect();
        let mut runs = || {
            let sql = format!("SELECT COUNT(*) FROM information_schema.PROCESSLIST WHERE ID = {id} AND TIME > 1");
            watcher.query_value(&sql).unwrap().as_deref() == Some("1")
        };
        while !runs() {
            assert!(Instant::now() < deadline);
            std::thread::yield_now();
        }
        (thread, id)
    };

    // The statement is visible, so the lock is not requested until it is over: one attempt.
    let (thread, _) = long_statement(6);
    let copied = copy_all(&root, &CopyOptions::default()).unwrap();
    assert_eq!(copied.plan.lock_tries, 1);
    thread.join().unwrap().unwrap();

    // Without PROCESS the statement is invisible: attempts of a second each.
    let blind = account(&server, "blind", "SELECT, FLUSH_TABLES, XA_RECOVER_ADMIN");
    let (thread, _) = long_statement(6);
    let copied = copy_all(&blind, &CopyOptions::default()).unwrap();
    assert!(copied.plan.lock_tries > 1, "{}", copied.plan.lock_tries);
    assert!(copied.plan.lock_us >= 1_000_000, "{}", copied.plan.lock_us);
    assert!(copied.plan.backup_lock_us.is_none() && copied.plan.notes.iter().any(|note| note.contains("BACKUP_ADMIN")));
    thread.join().unwrap().unwrap();

    // The statement outlasts the time allowed: the copy names it and proceeds without a lock; writers continue.
    let (thread, id) = long_statement(60);
    let impatient = CopyOptions { lock_timeout: Duration::from_secs(2), ..CopyOptions::default() };
    let copied = copy_all(&root, &impatient).unwrap();
    assert_eq!((copied.plan.lock, copied.plan.lock_us), (CopyLock::None, 0));
    assert!(copied.plan.notes.iter().any(|note| note.contains(&format!("(connection {id})"))), "{}", copied.plan);
    server.sql("INSERT INTO d.t VALUES (3)");
    // The stop flag ends the wait.
    let stop = AtomicBool::new(true);
    let stopped = SourceCopy::prepare(&root, &CopyOptions::default(), &stop).map(|_| ());
    assert!(matches!(stopped, Err(CopyError::Stopped)), "{stopped:?}");
    server.sql(&format!("KILL {id}"));
    let _ = thread.join().unwrap();

    // Each missing privilege is named, together with the statement that grants it.
    let refused = copy_all(&server.login("repl"), &CopyOptions::default()).map(|_| ()).unwrap_err();
    let text = refused.to_string();
    assert!(
        matches!(&refused, CopyError::Privileges { missing, .. } if missing == &["RELOAD", "XA_RECOVER_ADMIN"]),
        "{text}"
    );
    assert!(text.ends_with("GRANT RELOAD, XA_RECOVER_ADMIN ON *.* TO 'repl'@'%';"), "{text}");
    server.sql(text.rsplit_once("fix: ").unwrap().1);
    copy_all(&server.login("repl"), &CopyOptions::default()).unwrap();

    prepared_xa_is_waited_for(&server, &root);
}

fn prepared_xa_is_waited_for(server: &Server, root: &client::ConnectOptions) {
    let prepare = |id: u32| {
        let mut xa = server.connect();
        for sql in [
            format!("XA START 'trx','b\\'{id}',{id}"),
            format!("INSERT INTO d.t VALUES ({id})"),
            format!("XA END 'trx','b\\'{id}',{id}"),
            format!("XA PREPARE 'trx','b\\'{id}',{id}"),
        ] {
            xa.exec(&sql).unwrap();
        }
    };
    prepare(77);
    let impatient = CopyOptions { lock_timeout: Duration::from_secs(1), ..CopyOptions::default() };
    let refused = copy_all(root, &impatient).map(|_| ()).unwrap_err();
    let CopyError::PreparedXa { xids } = &refused else { panic!("{refused}") };
    assert_eq!(xids, &["X'747278',X'62273737',77"]);
    // XA COMMIT accepts the identifier as printed; the copy that waits meanwhile then continues.
    let commit = format!("XA COMMIT {}", xids[0]);
    let copied = std::thread::scope(|scope| {
        let waiting = scope.spawn(|| copy_all(root, &CopyOptions::default()));
        server.sql(&commit);
        waiting.join().unwrap().unwrap()
    });
    // Ids 1, 2, 3 and 77.
    assert_eq!(copied.kept.table("d", "t").done, Some(4));
    // A transaction prepared after the snapshot does not matter.
    let stop = AtomicBool::new(false);
    let prepared = SourceCopy::prepare(root, &CopyOptions::default(), &stop).unwrap();
    prepare(78);
    let (kept, progress) = (Kept::default(), Progress::new(prepared.plan()));
    prepared.run(&kept, &progress, &stop).unwrap();
    server.sql("XA COMMIT X'747278',X'62273738',78");
    assert_eq!(kept.table("d", "t").done, Some(4));
}

/// Prepares a copy, executes `ddl`, then reads.
fn copy_after(server: &Server, options: &CopyOptions, ddl: &str) -> Result<Copied, CopyError> {
    let stop = AtomicBool::new(false);
    let prepared = SourceCopy::prepare(&server.login("root"), options, &stop).unwrap();
    // CREATE_TIME has a resolution of one second; the copy has waited for the end of the current one.
    server.sql(ddl);
    let (kept, progress) = (Kept::default(), Progress::new(prepared.plan()));
    let plan = prepared.plan().clone();
    let report = prepared.run(&kept, &progress, &stop)?;
    Ok(Copied { plan, report, kept, progress })
}

#[test]
fn ddl_under_the_snapshot_is_never_missed() {
    let Some(server) = Server::or_skip("copy-ddl", &[]) else { return };
    let reset = "DROP DATABASE IF EXISTS d; CREATE DATABASE d; USE d;
        CREATE TABLE t (id INT PRIMARY KEY, a INT, b INT); INSERT INTO t VALUES (1, 10, 20);
        CREATE TABLE like_t LIKE t; INSERT INTO like_t VALUES (1, 11, 21); CREATE TABLE bystander (id INT PRIMARY KEY)";
    let changes = [
        "ALTER TABLE d.t ADD COLUMN c INT DEFAULT 5",
        "ALTER TABLE d.t DROP COLUMN b",
        "TRUNCATE TABLE d.t",
        "ALTER TABLE d.t ENGINE=InnoDB",
        // Raises no error when reading, but would exchange the values of the columns.
        "ALTER TABLE d.t RENAME COLUMN a TO b, RENAME COLUMN b TO a",
        "ALTER TABLE d.t RENAME COLUMN a TO z",
        "DROP TABLE d.t; CREATE TABLE d.t (id INT PRIMARY KEY, a INT, b INT)",
    ];
    for change in changes {
        server.sql(reset);
        let error = copy_after(&server, &CopyOptions::default(), change).map(|_| ()).unwrap_err();
        assert!(
            matches!(&error, CopyError::TableChanged { db, table, .. } if db == "d" && table == "t"),
            "{change}: {error}"
        );
        assert!(error.is_transient());
    }
    // The same with an unchanged CREATE_TIME, as of a statement that started in the same second as the previous one and
    // was then blocked.
    server.sql(reset);
    let created = "SELECT UNIX_TIMESTAMP(CREATE_TIME) FROM information_schema.TABLES WHERE TABLE_SCHEMA = 'd' AND TABLE_NAME = 't'";
    let created = server.connect().query_value(created).unwrap().unwrap();
    let change = format!("SET TIMESTAMP = {created}; ALTER TABLE d.t RENAME COLUMN a TO b, RENAME COLUMN b TO a");
    let error = copy_after(&server, &CopyOptions::default(), &change).map(|_| ()).unwrap_err();
    assert!(matches!(&error, CopyError::TableChanged { table, .. } if table == "t"), "{error}");
    for change in ["DROP TABLE d.t", "RENAME TABLE d.t TO d.s", "DROP DATABASE d"] {
        server.sql(reset);
        let error = copy_after(&server, &CopyOptions::default(), change).map(|_| ()).unwrap_err();
        assert!(matches!(&error, CopyError::TableVanished { db, .. } if db == "d"), "{change}: {error}");
    }
    // Another table with the same definition takes its name, as schema tools do; it was created in another second.
    server.sql(reset);
    let second = |table: &str| {
        let sql = format!(
            "SELECT CREATE_TIME FROM information_schema.TABLES WHERE TABLE_SCHEMA = 'd' AND TABLE_NAME = '{table}'"
        );
        server.connect().query_value(&sql).unwrap()
    };
    let deadline = Instant::now() + Duration::from_secs(20);
    while second("t") == second("like_t") {
        assert!(Instant::now() < deadline);
        server.sql("ALTER TABLE d.like_t COMMENT = 'later'; ALTER TABLE d.like_t COMMENT = ''");
    }
    let error = copy_after(&server, &CopyOptions::default(), "RENAME TABLE d.t TO d.old, d.like_t TO d.t")
        .map(|_| ())
        .unwrap_err();
    assert!(
        matches!(&error, CopyError::TableChanged { table, .. } if table == "t" || table == "like_t")
            || matches!(&error, CopyError::TableVanished { table, .. } if table == "like_t"),
        "{error}"
    );

    // DDL on other tables, or on tables already copied, is harmless.
    server.sql(reset);
    let options = CopyOptions { tables: TableFilter::parse(&["d.t"]), ..CopyOptions::default() };
    let copied =
        copy_after(&server, &options, "DROP TABLE d.bystander; CREATE TABLE d.new (id INT PRIMARY KEY)").unwrap();
    assert_eq!(copied.kept.table("d", "t").count, 1);
}

#[test]
fn definitions_are_those_of_the_snapshot() {
    let Some(server) = Server::or_skip("copy-moving", &[]) else { return };
    server.sql(
        "CREATE DATABASE d; CREATE TABLE d.t (id INT PRIMARY KEY, a INT, b INT); INSERT INTO d.t VALUES (1, 10, 20)",
    );
    let plain = account(&server, "plain", "SELECT, RELOAD, XA_RECOVER_ADMIN");
    let root = server.login("root");
    let changes = AtomicU64::new(0);
    let stop = AtomicBool::new(false);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut connection = server.connect();
            while !stop.load(Ordering::Relaxed) {
                let n = changes.fetch_add(1, Ordering::Relaxed);
                connection.exec(&format!("ALTER TABLE d.t ADD KEY k{n} (a)")).unwrap();
                connection.exec(&format!("ALTER TABLE d.t DROP KEY k{n}")).unwrap();
            }
        });
        // With BACKUP_ADMIN, incessant DDL is blocked for a moment. Without it, the copy cannot tell which definition
        // it has.
        let with_lock: Vec<_> = (0..3)
            .map(|_| {
                let before = changes.load(Ordering::Relaxed);
                let prepared = SourceCopy::prepare(&root, &CopyOptions::default(), &AtomicBool::new(false));
                let deadline = Instant::now() + Duration::from_secs(20);
                while changes.load(Ordering::Relaxed) <= before + 1 && Instant::now() < deadline {
                    std::thread::yield_now();
                }
                prepared.map(|prepared| prepared.plan().clone())
            })
            .collect();
        let without = SourceCopy::prepare(&plain, &CopyOptions::default(), &AtomicBool::new(false));
        stop.store(true, Ordering::Relaxed);
        // It may also find a moment between two statements, and must then have the table as of that moment.
        let lucky = match &without {
            Ok(prepared) => Some(Ok(prepared.plan().clone())),
            Err(CopyError::Changing { tables }) if tables == &["`d`.`t`"] => None,
            Err(other) => panic!("{other}"),
        };
        for plan in with_lock.into_iter().chain(lucky) {
            let plan = plan.unwrap();
            let logged = support::replayed(&server, &plan.executed);
            let (def, _) = &logged[&("d".to_owned(), "t".to_owned())];
            let names = |def: &TableDef| def.keys.iter().map(|key| key.name.clone()).collect::<Vec<_>>();
            assert_eq!(names(plan.catalog.table("d", "t").unwrap()), names(def));
        }
    });
}

#[test]
fn engines_without_snapshots() {
    let Some(server) = Server::or_skip("copy-engines", &[]) else { return };
    server.sql(&format!(
        "CREATE DATABASE e; USE e; CREATE TABLE i (id INT PRIMARY KEY); INSERT INTO i VALUES (1);
         CREATE TABLE m (id INT PRIMARY KEY, v VARCHAR(200)) ENGINE=MyISAM; CREATE TABLE h (id INT, v INT) ENGINE=MEMORY;
         INSERT INTO h VALUES (1, 2), (1, 2); INSERT INTO m {}SELECT x, REPEAT('m', 100) FROM seq",
        numbers(500)
    ));
    let root = server.login("root");
    let copied = copy_all(&root, &CopyOptions::default()).unwrap();
    assert_equals_log(&server, &copied);
    assert_eq!((copied.kept.table("e", "m").count, copied.kept.table("e", "h").count), (500, 2));
    assert!(copied.plan.notes.iter().any(|note| note.ends_with("`e`.`h`, `e`.`m`")), "{:?}", copied.plan.notes);
    // They are read while writers wait, not later.
    let copied = copy_after(
        &server,
        &CopyOptions::default(),
        "INSERT INTO e.m VALUES (1000, ''); DELETE FROM e.h; DELETE FROM e.i",
    )
    .unwrap();
    assert_eq!(
        (copied.kept.table("e", "m").count, copied.kept.table("e", "h").count, copied.kept.table("e", "i").count),
        (500, 2, 1)
    );

    let refused =
        copy_all(&root, &CopyOptions { locked_bytes_max: 20_000, ..CopyOptions::default() }).map(|_| ()).unwrap_err();
    assert!(
        matches!(&refused, CopyError::NoSnapshot { .. }) && refused.to_string().contains("`e`.`m` (MyISAM)"),
        "{refused}"
    );
    server.sql("CREATE TABLE e.merged (id INT PRIMARY KEY, v VARCHAR(200)) ENGINE=MERGE UNION=(e.m)");
    server.sql("CREATE TABLE e.b (id INT PRIMARY KEY) ENGINE=BLACKHOLE");
    let copied = copy_all(&root, &CopyOptions::default()).unwrap();
    assert_eq!((copied.kept.table("e", "merged").count, copied.kept.table("e", "b").count), (0, 0));
    assert_eq!(copied.plan.catalog.table("e", "merged").unwrap().members().last(), Some(("e".into(), "m".into())));
    let notes = copied.plan.notes.join("\n");
    assert!(
        notes.contains("`e`.`merged`: engine MRG_MyISAM") && notes.contains("`e`.`b`: engine BLACKHOLE"),
        "{notes}"
    );
}

/// Raises a flag, or fails, when it receives its first rows.
struct Saboteur<'a> {
    raise: Option<&'a AtomicBool>,
    kept: Kept,
}

impl CopySink for Saboteur<'_> {
    fn rows(&self, table: &Arc<TableDef>, rows: &RowBatch) -> Result<(), String> {
        match self.raise {
            Some(flag) => flag.store(true, Ordering::Relaxed),
            None => return Err("no room".into()),
        }
        self.kept.rows(table, rows)
    }

    fn table_done(&self, table: &Arc<TableDef>, rows: u64) -> Result<(), String> {
        self.kept.table_done(table, rows)
    }
}

#[test]
fn ends_when_told_or_when_time_is_over() {
    let Some(server) = Server::or_skip("copy-ends", &[]) else { return };
    server.sql(&format!(
        "CREATE DATABASE d; USE d; CREATE TABLE big (id INT PRIMARY KEY, v VARCHAR(500)); CREATE TABLE small (id INT PRIMARY KEY);
         INSERT INTO big {0}SELECT x, REPEAT('v', 400) FROM seq; INSERT INTO big SELECT id + 10000, v FROM big;
         INSERT INTO small VALUES (1); CREATE TABLE none (id INT); ANALYZE TABLE big, small, none",
        numbers(900)
    ));
    let root = server.login("root");
    let stop = AtomicBool::new(false);
    let prepare = |options: &CopyOptions| {
        let prepared = SourceCopy::prepare(&root, options, &stop).unwrap();
        let progress = Progress::new(prepared.plan());
        (prepared, progress)
    };

    let (prepared, progress) = prepare(&CopyOptions::default());
    let sink = Saboteur { raise: None, kept: Kept::default() };
    let error = prepared.run(&sink, &progress, &stop).unwrap_err();
    assert!(matches!(&error, CopyError::Sink { reason, .. } if reason == "no room"), "{error}");

    let (prepared, progress) = prepare(&small_pieces());
    let sink = Saboteur { raise: Some(&stop), kept: Kept::default() };
    let error = prepared.run(&sink, &progress, &stop).unwrap_err();
    assert!(matches!(error, CopyError::Stopped), "{error}");
    assert!(progress.totals().rows < 1800);
    stop.store(false, Ordering::Relaxed);

    // At 100 kB/s the large table takes 7 s, but the snapshots may live for 2 s only.
    let slow =
        CopyOptions { rate_bytes_per_second: Some(100_000), snapshot_max: Duration::from_secs(2), ..small_pieces() };
    let (prepared, progress) = prepare(&slow);
    let kept = Kept::default();
    let error = std::thread::scope(|scope| {
        let running = scope.spawn(|| prepared.run(&kept, &progress, &stop).unwrap_err());
        // Metadata locks are released, so DDL can run on a table that is done and on one between two ranges.
        let deadline = Instant::now() + Duration::from_secs(20);
        while progress.totals().tables_done < 2 {
            assert!(Instant::now() < deadline);
            std::thread::yield_now();
        }
        server.sql("SET lock_wait_timeout = 1; ALTER TABLE d.small COMMENT = 'x'; ALTER TABLE d.none COMMENT = 'x'");
        assert!(!running.is_finished());
        running.join().unwrap()
    });
    let CopyError::SnapshotTooOld { limit_s: 2, done, remaining } = &error else { panic!("{error}") };
    assert_eq!(remaining, &[("d".to_owned(), "big".to_owned())]);
    assert_eq!(done.len(), 2);
    assert!(done.iter().all(|(db, table)| kept.table(db, table).done.is_some()));
    assert_eq!(progress.tables[0].state(), TableState::Copying);
    assert!(progress.line().contains("tables 2/3") && progress.table_lines(5).contains("d.big"));
    // A lost connection: a retry is worthwhile.
    let (prepared, progress) = prepare(&CopyOptions { rate_bytes_per_second: Some(100_000), ..small_pieces() });
    let kept = Kept::default();
    let mut watcher = server.connect();
    let error = std::thread::scope(|scope| {
        let running = scope.spawn(|| prepared.run(&kept, &progress, &stop).unwrap_err());
        let deadline = Instant::now() + Duration::from_secs(20);
        while progress.totals().rows == 0 {
            assert!(Instant::now() < deadline);
            std::thread::yield_now();
        }
        let list = watcher.query("SHOW PROCESSLIST").unwrap();
        let own = watcher.connection_id().to_string();
        for id in (0..list.rows.len()).filter_map(|row| list.text(row, 0)).filter(|id| *id != own) {
            let _ = watcher.exec(&format!("KILL {id}"));
        }
        running.join().unwrap()
    });
    assert!(error.is_transient(), "{error:?}");

    // Nothing of ours is left on the source.
    server.wait_for_transactions("TRUE", |count| count == 0);
}

#[test]
fn pre_checks_name_what_is_missing() {
    let Some(server) = Server::or_skip("copy-checks", &["--binlog-expire-logs-seconds=7200"]) else { return };
    server.sql(&format!(
        "CREATE DATABASE d; USE d; CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(500), KEY (v)); CREATE TABLE other (id INT);
         INSERT INTO t {}SELECT x, REPEAT('v', 400) FROM seq; ANALYZE TABLE t, other",
        numbers(900)
    ));
    let filter = TableFilter::parse(&["d.t"]);
    let input = |free_bytes| CopyCheckInput {
        tables: &filter,
        free_bytes,
        rate_bytes_per_second: Some(1000),
        snapshot_max: Some(Duration::from_secs(60)),
        lock: LockWanted::Yes,
    };
    let age = |user: &str| oldest_log_age(client::Connection::connect(&server.login(user)).unwrap()).unwrap();
    let mut root = server.connect();
    let check = check_copy(&mut root, &input(Some(1 << 40)), age("root")).unwrap();
    assert!(check.accepted());
    assert_eq!(check.tables, 1);
    assert!(check.rows > 500 && check.data_bytes > 300_000 && check.index_bytes > 300_000, "{check:?}");
    assert_eq!(check.log_kept, LogKept { expire: Some(Duration::from_secs(7200)), oldest: None });
    // At 1000 bytes per second, reading takes longer than the snapshots may live.
    assert_eq!(check.problems.len(), 1, "{:?}", check.problems);
    assert!(check.problems[0].fix.starts_with("--snapshot-max="));

    // For a source that is purged by hand, the age of the oldest file tells how long the log is kept.
    assert_eq!(age("root"), None);
    server.purge_binary_logs();
    server.sql("INSERT INTO d.other VALUES (1)");
    let young = age("repl").unwrap();
    assert!(young < Duration::from_secs(3600), "{young:?}");

    let mut repl = client::Connection::connect(&server.login("repl")).unwrap();
    let check = check_copy(&mut repl, &input(Some(1000)), Some(young)).unwrap();
    assert!(!check.accepted());
    assert!(check.log_kept.purged_by_others() && check.log_kept.oldest == Some(young));
    let fixes: Vec<&str> = check.problems.iter().map(|problem| problem.fix.as_str()).collect();
    assert_eq!(fixes[0], "GRANT RELOAD, XA_RECOVER_ADMIN ON *.* TO 'repl'@'%';");
    assert!(fixes.contains(&"GRANT BACKUP_ADMIN, PROCESS ON *.* TO 'repl'@'%';"), "{fixes:?}");
    assert!(
        fixes.iter().any(|fix| fix.starts_with("use a folder"))
            && fixes.iter().any(|fix| fix.starts_with("do not purge"))
    );
    let unlocked = CopyCheckInput { snapshot_max: None, lock: LockWanted::No, ..input(None) };
    let check = check_copy(&mut repl, &unlocked, None).unwrap();
    assert_eq!(check.problems.len(), 1);
    assert_eq!(check.problems[0].fix, "GRANT XA_RECOVER_ADMIN ON *.* TO 'repl'@'%';");
}

#[test]
fn without_a_lock_replay_makes_the_rows_exact() {
    let Some(server) = Server::or_skip("copy-unlocked", &[]) else { return };
    server.sql(&format!(
        "CREATE DATABASE live; USE live;
         CREATE TABLE keyed (id INT AUTO_INCREMENT PRIMARY KEY, v INT, f FLOAT, j JSON, KEY (v));
         CREATE TABLE pairs (a VARCHAR(20), b INT, v VARCHAR(200), n INT NULL, PRIMARY KEY (a, b));
         INSERT INTO keyed (v, f, j) {0}SELECT x, x / 3, JSON_OBJECT('x', x) FROM seq;
         INSERT INTO pairs {0}SELECT CONCAT('p', x % 17), x, REPEAT('v', 100), NULL FROM seq; ANALYZE TABLE keyed, pairs",
        numbers(900)
    ));
    let source = account(&server, "managed", "SELECT, XA_RECOVER_ADMIN");
    let options = CopyOptions { lock: CopyLock::None, chunk_rows_min: 50, ..small_pieces() };
    let stop = AtomicBool::new(false);
    let copied = std::thread::scope(|scope| {
        for writer in 0..3u64 {
            let (server, stop) = (&server, &stop);
            scope.spawn(move || {
                let mut connection = server.connect();
                let mut n = writer;
                while !stop.load(Ordering::Relaxed) {
                    n += 1;
                    let (row, group) = (n * 7919 % 950, n * 31 % 17);
                    for sql in [
                        format!("INSERT INTO live.keyed (v, j) VALUES ({n}, '[{n}, 1.50]'), ({writer}, NULL)"),
                        format!("UPDATE live.keyed SET v = v + 1, f = f * 1.1 WHERE id = {row}"),
                        format!("DELETE FROM live.keyed WHERE id = {}", n * 13 % 1900),
                        // Keys move between ranges, in both directions, and back.
                        format!("UPDATE IGNORE live.pairs SET a = 'p{group}', n = {n} WHERE b = {row}"),
                        format!("DELETE FROM live.pairs WHERE b = {}", n * 11 % 900),
                        format!("REPLACE INTO live.pairs VALUES ('p{group}', {row}, 'again', {n})"),
                    ] {
                        if let Err(error) = connection.exec(&sql) {
                            // ER_LOCK_DEADLOCK
                            assert_eq!(error.server_code(), Some(1213), "{error}");
                        }
                    }
                }
            });
        }
        let copied = copy_all(&source, &options);
        stop.store(true, Ordering::Relaxed);
        copied.unwrap()
    });
    let (low, high) = (&copied.plan.executed, copied.report.consistent_at.as_ref().unwrap());
    assert!(low.is_subset_of(high) && high.subtract(low).count() > 20, "{low} {high}");
    assert_eq!((copied.plan.lock_us, copied.plan.lock_tries), (0, 0));
    let replayed = support::replay_over(&server, &copied, high, Replay::Blind);
    for (name, (_, wanted)) in support::replayed(&server, high) {
        let missing: Vec<_> = wanted.keys().filter(|row| !replayed[&name].contains_key(row)).take(2).collect();
        let extra: Vec<_> = replayed[&name].keys().filter(|row| !wanted.contains_key(row)).take(2).collect();
        assert!(missing.is_empty() && extra.is_empty(), "{name:?}: missing {missing:02x?}, too many {extra:02x?}");
    }

    // The rows as copied are not of one moment. If they did not differ without the replay, this test would prove
    // nothing.
    let exact = support::replayed(&server, high);
    assert!(exact.iter().any(|(name, (_, rows))| copied.kept.tables()[name].rows != *rows));

    let refused = |sql: &str, undo: &str| {
        server.sql(sql);
        let refused = copy_all(&source, &options).map(|_| ()).unwrap_err();
        server.sql(undo);
        refused
    };
    let error = refused("CREATE TABLE live.heap (a INT)", "DROP TABLE live.heap");
    assert!(matches!(&error, CopyError::NeedsKeys { tables } if tables == &["`live`.`heap`"]), "{error}");
    let error = refused("SET GLOBAL binlog_row_image = MINIMAL", "SET GLOBAL binlog_row_image = FULL");
    assert!(matches!(&error, CopyError::NeedsFullImages { .. }), "{error}");
    let with_lock = copy_all(&source, &CopyOptions::default()).map(|_| ()).unwrap_err();
    assert!(matches!(&with_lock, CopyError::Privileges { missing, .. } if missing == &["RELOAD"]), "{with_lock}");
    // DDL is detected here, too.
    let error = copy_after(&server, &options, "ALTER TABLE live.keyed RENAME COLUMN v TO id2, ALGORITHM=INSTANT");
    assert!(matches!(error.map(|_| ()), Err(CopyError::TableChanged { table, .. }) if table == "keyed"));
}

#[test]
fn settings_of_the_source_change_nothing() {
    let Some(server) = Server::or_skip("copy-settings", &["--lower-case-table-names=1"]) else { return };
    server.sql(TYPES);
    server.sql(
        "CREATE DATABASE Größe; CREATE TABLE Größe.Über (`äöü` INT PRIMARY KEY); INSERT INTO größe.über VALUES (1)",
    );
    server.sql(
        "SET GLOBAL sql_select_limit = 3, GLOBAL autocommit = 0, GLOBAL completion_type = 'CHAIN', GLOBAL sql_big_selects = 0,
         GLOBAL max_join_size = 2, GLOBAL sql_mode = 'ANSI,PAD_CHAR_TO_FULL_LENGTH', GLOBAL time_zone = '+05:30',
         GLOBAL sql_quote_show_create = 0, GLOBAL show_gipk_in_create_table_and_information_schema = OFF,
         GLOBAL character_set_client = latin1, GLOBAL character_set_results = latin1, GLOBAL max_execution_time = 1,
         GLOBAL transaction_isolation = 'READ-UNCOMMITTED', GLOBAL default_collation_for_utf8mb4 = utf8mb4_general_ci",
    );
    let root = server.login("root");
    let with_lock = copy_all(&root, &small_pieces()).unwrap();
    let only = CopyOptions { tables: TableFilter::parse(&["types.many", "GRÖßE.*"]), ..small_pieces() };
    let unlocked = copy_all(&root, &CopyOptions { lock: CopyLock::None, ..only.clone() });
    let swapped = {
        let prepared = SourceCopy::prepare(&root, &only, &AtomicBool::new(false)).unwrap();
        let mut connection = server.connect();
        connection.exec("SET autocommit = 1").unwrap();
        connection.exec("ALTER TABLE types.many RENAME COLUMN v TO n, RENAME COLUMN n TO v").unwrap();
        let progress = Progress::new(prepared.plan());
        prepared.run(&Kept::default(), &progress, &AtomicBool::new(false))
    };
    assert!(matches!(&swapped, Err(CopyError::TableChanged { table, .. }) if table == "many"), "{swapped:?}");
    assert_eq!(unlocked.unwrap().kept.table("types", "many").count, 4800);
    assert_equals_log(&server, &with_lock);
}

#[test]
fn definitions_of_all_kinds_are_read() {
    let Some(server) = Server::or_skip("copy-defs", &[]) else { return };
    server.sql(include_str!("definitions.sql"));
    for options in [CopyOptions::default(), small_pieces()] {
        let copied = copy_all(&server.login("root"), &options).unwrap();
        assert_equals_log(&server, &copied);
    }
}

/// Runs `copy` while `writers` writers change the same rows in transactions of several statements. A statement that
/// waits for a row blocks FLUSH TABLES WITH READ LOCK, which in turn blocks the next statement of the row's owner.
/// Reports the longest time for which a writer was blocked.
fn beside_row_waits<T>(server: &Server, writers: u64, copy: impl FnOnce() -> T) -> T {
    let stop = AtomicBool::new(false);
    let (committed, longest_us) = (AtomicU64::new(0), AtomicU64::new(0));
    let write = |writer: u64| {
        let mut connection = server.connect();
        // A writer that is blocked for longer fails.
        connection.exec("SET SESSION innodb_lock_wait_timeout = 10, lock_wait_timeout = 10").unwrap();
        for n in writer.. {
            let begun = Instant::now();
            for sql in [
                "BEGIN".to_owned(),
                // Without an index, every row is locked until the commit.
                format!("UPDATE w.t SET v = v + 1 WHERE note = 'x{n}' OR id = {}", 1 + n % 7),
                format!("INSERT INTO w.log (n) VALUES ({n})"),
                format!("UPDATE w.t SET v = v - 1 WHERE id = {}", 1 + n % 11),
                "COMMIT".to_owned(),
            ] {
                connection.exec(&sql).unwrap();
            }
            committed.fetch_add(1, Ordering::Relaxed);
            longest_us.fetch_max(begun.elapsed().as_micros() as u64, Ordering::Relaxed);
            if stop.load(Ordering::Relaxed) {
                return;
            }
        }
    };
    let waits = || {
        let result = server.connect().query("SHOW GLOBAL STATUS LIKE 'Innodb_row_lock_waits'").unwrap();
        result.text(0, 1).unwrap().parse::<u64>().unwrap()
    };
    std::thread::scope(|scope| {
        let _ends = Raised(&stop);
        let before = waits();
        for writer in 0..writers {
            let write = &write;
            scope.spawn(move || write(writer));
        }
        let deadline = Instant::now() + Duration::from_secs(20);
        while waits() < before + 50 {
            assert!(Instant::now() < deadline, "nobody waits for rows");
        }
        longest_us.store(0, Ordering::Relaxed);
        let copied = copy();
        println!(
            "{writers} writers: {} transactions, {} row waits; the longest transaction took {:.1} ms",
            committed.load(Ordering::Relaxed),
            waits() - before,
            longest_us.load(Ordering::Relaxed) as f64 / 1e3
        );
        copied
    })
}

/// Raises the flag when dropped, however that happens.
struct Raised<'a>(&'a AtomicBool);

impl Drop for Raised<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

#[test]
fn writers_that_wait_for_rows_all_the_time_do_not_prevent_a_copy() {
    // Commits that wait for the disk leave moments in which nobody waits for a row.
    let synced = ["--innodb-flush-log-at-trx-commit=1", "--sync-binlog=1"];
    let Some(server) = Server::or_skip("copy-row-waits", &synced) else { return };
    server.sql(&format!(
        "CREATE DATABASE w; CREATE TABLE w.t (id INT PRIMARY KEY, v INT, note VARCHAR(200));
         INSERT INTO w.t {}SELECT x, 0, REPEAT('n', 100) FROM seq; CREATE TABLE w.log (id INT AUTO_INCREMENT PRIMARY KEY, n INT)",
        numbers(500)
    ));
    let source = server.login("root");
    // The number of attempts is a matter of chance. Of two writers nobody waits after each commit, for a moment; of three
    // it was once not granted within 300 s.
    let patient = CopyOptions { lock_timeout: Duration::from_secs(300), ..CopyOptions::default() };
    let copied = beside_row_waits(&server, 2, || copy_all(&source, &patient)).unwrap();
    assert_eq!(copied.plan.lock, CopyLock::Auto, "{}", copied.plan);
    assert_equals_log(&server, &copied);

    // With this many writers, somebody always waits for a row: the lock cannot be acquired, and the copy proceeds
    // without it.
    let impatient = CopyOptions { lock_timeout: Duration::from_secs(3), ..CopyOptions::default() };
    let copied = beside_row_waits(&server, 8, || copy_all(&source, &impatient)).unwrap();
    assert_eq!((copied.plan.lock, copied.plan.lock_us), (CopyLock::None, 0), "{}", copied.plan);
    assert!(copied.plan.notes.iter().any(|note| note.contains("within 3 s")), "{}", copied.plan);
    let high = copied.report.consistent_at.as_ref().unwrap();
    let replayed = support::replay_over(&server, &copied, high, Replay::Blind);
    for (name, (_, wanted)) in support::replayed(&server, high) {
        assert!(replayed[&name] == wanted, "{name:?}");
    }

    // If a copy without a lock is impossible, too, both reasons are reported.
    server.sql("CREATE TABLE w.heap (v INT)");
    let refused = beside_row_waits(&server, 8, || copy_all(&source, &impatient)).map(|_| ()).unwrap_err();
    let text = refused.to_string();
    assert!(matches!(refused, CopyError::NoLock { .. }), "{text}");
    assert!(text.contains("each other's rows") && text.contains("`w`.`heap`"), "{text}");
}

#[test]
fn partitions_are_read_one_by_one() {
    let Some(server) = Server::or_skip("copy-partitions", &[]) else { return };
    let by = "PARTITION BY RANGE (TO_DAYS(d)) (PARTITION a VALUES LESS THAN (TO_DAYS('2020-01-01')), \
              PARTITION b VALUES LESS THAN MAXVALUE)";
    server.sql(&format!(
        "CREATE DATABASE p; USE p; CREATE TABLE t (id INT, d DATE, PRIMARY KEY (id, d)) {by}; \
         CREATE TABLE by_key (id INT PRIMARY KEY) PARTITION BY KEY () PARTITIONS 4; \
         INSERT INTO t {} SELECT x, '2019-01-01' + INTERVAL 2 * x DAY FROM seq; \
         INSERT INTO by_key SELECT id FROM t; ANALYZE TABLE t, by_key",
        numbers(400)
    ));
    let copied = copy_all(&server.login("root"), &small_pieces()).unwrap();
    assert_equals_log(&server, &copied);
    // The key of `by_key` decides the partition, so its four partitions are read as a whole.
    assert!((400 / 3..400).contains(&copied.report.ranges), "{} ranges", copied.report.ranges);

    server.sql(
        "USE p; CREATE TABLE x (id INT, d DATE, PRIMARY KEY (id, d)); INSERT INTO x VALUES (7, '2019-01-15'), \
         (900, '2024-01-01'); ALTER TABLE t EXCHANGE PARTITION a WITH TABLE x WITHOUT VALIDATION; ANALYZE TABLE t, x",
    );
    for options in [small_pieces(), CopyOptions::default()] {
        let error = copy_all(&server.login("root"), &options).map(|copied| copied.report).unwrap_err();
        assert!(matches!(&error, CopyError::MisplacedRows { partition, .. } if partition == "a"), "{error}");
        let options = CopyOptions { misplaced_rows: true, ..options };
        let report = copy_all(&server.login("root"), &options).unwrap().report;
        let rows = server.sql(
            "SELECT SUM(n) FROM (SELECT COUNT(*) n FROM p.t UNION ALL SELECT COUNT(*) FROM p.x \
                                 UNION ALL SELECT COUNT(*) FROM p.by_key) s",
        );
        assert_eq!(report.rows.to_string(), rows.trim());
    }
}
