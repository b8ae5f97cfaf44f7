//! Transactions of every kind, each followed from a real primary to an equal end: XA prepared, committed, rolled back
//! across restarts and cuts; savepoints, engines, statements over several tables, LOAD DATA, triggers, temporary
//! tables,
//! CREATE TABLE … SELECT, transactions without rows, GTIDs of all kinds.

use std::sync::{Arc, Mutex, Weak};

use whole_program_tests::{Replica, Server, assert_equal, folder, slipstream};

static SERVER: Mutex<Weak<Server>> = Mutex::new(Weak::new());

fn server() -> Arc<Server> {
    Server::shared(&SERVER, "transactions", &["--max-binlog-size=1M", "--local-infile=1"])
}

/// Runs statements in a database of their own while a replica follows; the copy must be equal in the end.
#[track_caller]
fn case(name: &str, statements: &str) {
    let server = server();
    let mut replica = Replica::follow(&server, &folder(name), &[]);
    for image in ["FULL", "MINIMAL"] {
        let db = format!("{name}_{}", image.to_lowercase());
        server.sql(&format!("CREATE DATABASE {db}; USE {db}; SET SESSION binlog_row_image = {image};\n{statements}"));
        assert_equal(&server, &mut replica, &[&db]);
    }
    replica.stop();
}

const TABLES: &str = "CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(50)); CREATE TABLE u (a INT, b VARCHAR(50));
    INSERT INTO t VALUES (1,'a'),(2,'b'),(3,'c'),(4,'d'); INSERT INTO u VALUES (1,'x'),(1,'x'),(2,'y');";

#[test]
fn savepoints() {
    case(
        "savepoints",
        &format!(
            "{TABLES} BEGIN; INSERT INTO t VALUES (10,'kept'); SAVEPOINT one; INSERT INTO t VALUES (11,'gone'); DELETE FROM u;
             SAVEPOINT `two 2`; UPDATE t SET v = 'gone'; ROLLBACK TO `two 2`; ROLLBACK TO one; INSERT INTO u VALUES (9,'kept');
             SAVEPOINT three; UPDATE t SET v = 'kept' WHERE id = 1; RELEASE SAVEPOINT three; COMMIT;
             BEGIN; UPDATE t SET v = 'rolled back'; ROLLBACK; BEGIN; SAVEPOINT a; UPDATE t SET v = 'x'; ROLLBACK TO a; COMMIT;"
        ),
    );
}

#[test]
fn engines_mixed() {
    case(
        "engines",
        &format!(
            "{TABLES} CREATE TABLE m (id INT PRIMARY KEY, v VARCHAR(9)) ENGINE=MyISAM; CREATE TABLE h (id INT) ENGINE=MEMORY;
             CREATE TABLE ar (id INT) ENGINE=ARCHIVE; CREATE TABLE cs (id INT NOT NULL, v VARCHAR(5) NOT NULL) ENGINE=CSV;
             BEGIN; INSERT INTO t VALUES (20,'inno'); COMMIT; INSERT INTO m SELECT id, LEFT(v, 9) FROM t; INSERT INTO h SELECT id FROM t;
             INSERT INTO ar VALUES (1),(1),(2); INSERT INTO cs VALUES (1,'a'),(1,'a');
             UPDATE m SET id = id + 100 ORDER BY id DESC; DELETE FROM h WHERE id > 2; DELETE FROM cs LIMIT 1;"
        ),
    );
}

#[test]
fn statements_over_several_tables() {
    case(
        "several",
        &format!(
            "{TABLES} UPDATE t JOIN u ON t.id = u.a SET t.v = CONCAT(t.v, u.b), u.b = 'joined'; DELETE t, u FROM t JOIN u ON t.id = u.a WHERE u.a = 2;
             INSERT INTO u SELECT id, v FROM t; REPLACE INTO t VALUES (1,'replaced'),(99,'new'); INSERT INTO t VALUES (1,'dup') ON DUPLICATE KEY UPDATE v = 'updated';
             INSERT INTO t (id, v) SELECT a + 1000, b FROM u ON DUPLICATE KEY UPDATE v = VALUES(v);"
        ),
    );
}

/// Two unique keys: a row swaps its values with another within one transaction.
#[test]
fn unique_values_swapped() {
    case(
        "swaps",
        "CREATE TABLE s (id INT NOT NULL UNIQUE, k INT UNIQUE, v INT); INSERT INTO s VALUES (1,10,1),(2,20,2),(3,NULL,3);
         BEGIN; UPDATE s SET id = -1 WHERE id = 1; UPDATE s SET id = 1 WHERE id = 2; UPDATE s SET id = 2 WHERE id = -1; COMMIT;
         BEGIN; UPDATE s SET k = NULL WHERE id = 1; UPDATE s SET k = k + 10 WHERE k IS NOT NULL; UPDATE s SET id = id + 1 ORDER BY id DESC; COMMIT;
         REPLACE INTO s VALUES (2, 20, 9);",
    );
}

/// Keys that are equal by collation and not by bytes, trailing spaces that count and that do not, unique keys with
/// NULLs and of prefixes, which identify nothing; a key that is dropped and added again in the next transaction.
#[test]
fn keys_of_every_kind() {
    let rows = "VALUES ('a', 1), ('B ', 2), ('ñ', 3), (' c', 4)";
    let mut statements = String::new();
    for (n, collation) in
        ["utf8mb4_0900_as_ci", "utf8mb4_general_ci", "utf8mb4_bin", "utf8mb4_0900_bin", "latin1_german1_ci"]
            .iter()
            .enumerate()
    {
        statements.push_str(&format!(
            "CREATE TABLE k{n} (k VARCHAR(20) COLLATE {collation} PRIMARY KEY, v INT); INSERT INTO k{n} {rows};
             UPDATE k{n} SET k = UPPER(k); UPDATE k{n} SET k = CONCAT(k, ' ') WHERE v IN (1, 3); UPDATE k{n} SET v = v + 10;
             DELETE FROM k{n} WHERE k = 'A '; INSERT INTO k{n} VALUES ('a', 21); UPDATE k{n} SET k = RTRIM(k); DELETE FROM k{n} WHERE v = 12;
             INSERT INTO k{n} VALUES ('b', 22);
             CREATE TABLE u{n} (k CHAR(9) COLLATE {collation}, v INT NOT NULL, UNIQUE (k), UNIQUE (v)); INSERT INTO u{n} {rows};
             INSERT INTO u{n} VALUES (NULL, 5), (NULL, 6); UPDATE u{n} SET k = NULL WHERE v < 3; UPDATE u{n} SET v = -v; DELETE FROM u{n} WHERE v = -5;
             CREATE TABLE n{n} (k VARCHAR(9) COLLATE {collation}, UNIQUE (k)); INSERT INTO n{n} VALUES ('x'), (NULL), (NULL), (NULL);
             DELETE FROM n{n} WHERE k IS NULL LIMIT 1; UPDATE n{n} SET k = 'Y' WHERE k IS NULL LIMIT 1; UPDATE n{n} SET k = 'X' WHERE k = 'x';
             CREATE TABLE q{n} (k VARCHAR(30) COLLATE {collation} NOT NULL, v INT, UNIQUE (k(3))); INSERT INTO q{n} VALUES ('abcde', 1), ('abdde', 2), ('', 3);
             UPDATE q{n} SET k = 'abczz' WHERE v = 1; UPDATE q{n} SET v = 9 WHERE k = ''; DELETE FROM q{n} WHERE v = 2; INSERT INTO q{n} VALUES ('abd', 2);
            "
        ));
    }
    case("keys", &statements);
}

/// The statements' texts among the rows, of two engines.
#[test]
fn statement_texts_among_the_rows() {
    let server = server();
    case(
        "texts",
        &format!(
            "{TABLES} CREATE TABLE m (id INT PRIMARY KEY, v VARCHAR(30)) ENGINE=MyISAM; SET SESSION binlog_rows_query_log_events = ON;
             INSERT INTO t VALUES (30, 'with its text'); UPDATE u SET b = 'DROP TABLE t; COMMIT' WHERE a = 1 /* BEGIN */;
             SET SESSION gtid_next = AUTOMATIC; SET SESSION binlog_transaction_compression = ON; DELETE FROM t WHERE id = 2; INSERT INTO t VALUES (31, REPEAT('x', 50));
             SET SESSION binlog_transaction_compression = OFF; BEGIN; SAVEPOINT a; INSERT INTO t VALUES (32, 'gone'); ROLLBACK TO a; INSERT INTO t VALUES (33, 'kept'); SAVEPOINT b; UPDATE t SET v = 'kept'; COMMIT;
             INSERT INTO m SELECT id, LEFT(v, 30) FROM t; UPDATE m SET v = 'all'; SET SESSION binlog_rows_query_log_events = OFF; DELETE FROM m WHERE id = 1;"
        ),
    );
    // Two groups in one transaction cannot occur: with GTIDs no statement may write to both engines in one.
    let error = server
        .try_sql("USE texts_full; BEGIN; INSERT INTO t VALUES (40, 'x'); INSERT INTO m VALUES (40, 'x'); COMMIT")
        .unwrap_err();
    assert!(error.contains("1785"), "{error}");
}

#[test]
fn load_data() {
    let server = server();
    let file = folder("rows");
    std::fs::write(&file, (0..3000).map(|n| format!("{n}\trow {n} é\n")).collect::<String>()).unwrap();
    let mut replica = Replica::follow(&server, &folder("load"), &[]);
    let sql = format!(
        "CREATE DATABASE load_data; USE load_data; CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(50)); CREATE TABLE u (id INT, v VARCHAR(50));
         LOAD DATA LOCAL INFILE '{0}' INTO TABLE t CHARACTER SET utf8mb4; LOAD DATA LOCAL INFILE '{0}' INTO TABLE u CHARACTER SET utf8mb4 (id, @v) SET v = UPPER(@v);
         LOAD DATA LOCAL INFILE '{0}' REPLACE INTO TABLE t CHARACTER SET latin1;",
        file.display()
    );
    server.client(&["--local-infile=1"], &sql).unwrap();
    assert_equal(&server, &mut replica, &["load_data"]);
    assert!(server.sql("SELECT COUNT(*) FROM load_data.u").trim() == "3000");
    replica.stop();
}

#[test]
fn triggers_and_procedures() {
    case(
        "triggers",
        &format!(
            "{TABLES} CREATE TABLE audit (n INT AUTO_INCREMENT PRIMARY KEY, what VARCHAR(90), at TIMESTAMP(6) DEFAULT CURRENT_TIMESTAMP(6));
             CREATE TRIGGER ai AFTER INSERT ON t FOR EACH ROW INSERT INTO audit (what) VALUES (CONCAT('i', NEW.id));
             CREATE TRIGGER bu BEFORE UPDATE ON t FOR EACH ROW SET NEW.v = CONCAT(NEW.v, '!');
             CREATE TRIGGER ad AFTER DELETE ON t FOR EACH ROW DELETE FROM u WHERE a = OLD.id;
             CREATE PROCEDURE p() UPDATE t SET v = UUID();
             INSERT INTO t VALUES (30,'tr'); UPDATE t SET v = 'w' WHERE id < 3; DELETE FROM t WHERE id = 1; CALL p(); DROP PROCEDURE p; DROP TRIGGER ai; INSERT INTO t VALUES (31,'x');"
        ),
    );
}

#[test]
fn temporary_tables() {
    case(
        "temporary",
        &format!(
            "{TABLES} CREATE TEMPORARY TABLE tt (id INT); INSERT INTO tt VALUES (1),(2); BEGIN; INSERT INTO t SELECT id + 50, 'from' FROM tt; UPDATE tt SET id = 9;
             DELETE FROM u WHERE a IN (SELECT id FROM tt); COMMIT; CREATE TEMPORARY TABLE t (id INT); INSERT INTO t VALUES (77); DROP TEMPORARY TABLE t, tt; INSERT INTO t VALUES (78,'real');
             BEGIN; INSERT INTO t VALUES (79,'y'); CREATE TEMPORARY TABLE t2 SELECT * FROM u; DROP TEMPORARY TABLE t2; COMMIT;"
        ),
    );
}

#[test]
fn create_table_select() {
    case(
        "create_select",
        &format!(
            "{TABLES} CREATE TABLE c1 SELECT * FROM t; CREATE TABLE c2 (PRIMARY KEY (id)) SELECT id, v, id / 3 AS d, NOW(6) AS n FROM t; UPDATE c2 SET v = 'z';
             CREATE TABLE c3 (x INT DEFAULT 5, KEY (a)) IGNORE SELECT DISTINCT a FROM u;
             CREATE TABLE IF NOT EXISTS c1 SELECT 1 AS never; DELETE FROM c1 WHERE id = 1;"
        ),
    );
}

#[test]
fn transactions_without_rows_and_gtids_of_all_kinds() {
    case(
        "gtids",
        &format!(
            "{TABLES} UPDATE t SET v = v; DELETE FROM t WHERE id = 12345; FLUSH TABLES; ANALYZE TABLE t;
             SET @other = UUID(); SET @set = CONCAT(@other, ':5'); SET SESSION gtid_next = @set; INSERT INTO t VALUES (40,'uuid');
             SET @set = CONCAT(@other, ':9'); SET SESSION gtid_next = @set; BEGIN; COMMIT; SET @set = CONCAT(@other, ':2'); SET SESSION gtid_next = @set; UPDATE t SET v = 'gap' WHERE id = 1;
             SET @set = CONCAT(@other, ':tag:3'); SET SESSION gtid_next = @set; DELETE FROM u LIMIT 1; SET @set = CONCAT(@other, ':5'); SET SESSION gtid_next = @set; INSERT INTO t VALUES (41,'executed already');
             SET SESSION gtid_next = 'AUTOMATIC:auto'; INSERT INTO t VALUES (42,'tagged'); SET SESSION gtid_next = AUTOMATIC; INSERT INTO t VALUES (43,'end');"
        ),
    );
}

/// Prepared rows stay invisible here as at the source, across restarts of both, cuts and purges, and become visible
/// with XA COMMIT.
#[test]
fn xa_prepared_over_restarts_cuts_and_purges() {
    let server = Server::start("xa", &["--max-binlog-size=64K", "--transaction-isolation=READ-COMMITTED"]);
    let options = ["--cut-interval=100ms", "--max-relay-log-size=16K"];
    let data = folder("xa");
    server.sql(&format!(
        "CREATE DATABASE xa; USE xa; {TABLES} CREATE TABLE busy (id INT AUTO_INCREMENT PRIMARY KEY, v VARCHAR(200))"
    ));
    let busy = "INSERT INTO busy (v) WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 400) SELECT REPEAT('x', 190) FROM n;";
    let mut replica = Replica::follow(&server, &data, &options);
    server.sql(
        "USE xa; XA START 'kept'; INSERT INTO t VALUES (10,'xa'); SAVEPOINT s; DELETE FROM t WHERE id = 1; ROLLBACK TO s; UPDATE t SET v = 'xa' WHERE id = 1;
         DELETE FROM u WHERE a = 1 LIMIT 1; UPDATE t SET id = 22 WHERE id = 2; XA END 'kept'; XA PREPARE 'kept';",
    );
    server.sql("USE xa; SET SESSION binlog_transaction_compression = ON, binlog_row_image = MINIMAL; XA START 'packed'; UPDATE t SET v = 'packed' WHERE id = 3; INSERT INTO u VALUES (7, 'p'); XA END 'packed'; XA PREPARE 'packed';");
    server.sql("USE xa; XA START 'dropped'; UPDATE t SET v = 'never' WHERE id = 4; INSERT INTO t VALUES (44, 'never'); XA END 'dropped'; XA PREPARE 'dropped';");
    server.sql("USE xa; XA START 'g','b',7; INSERT INTO t VALUES (49, 'branch'); XA END 'g','b',7; XA PREPARE 'g','b',7; XA COMMIT 'g','b',7; XA START 'one'; INSERT INTO t VALUES (50, 'one phase'); XA END 'one'; XA COMMIT 'one' ONE PHASE; SET SESSION binlog_transaction_compression = ON; XA START 'two'; INSERT INTO t VALUES (51, 'one phase'); XA END 'two'; XA COMMIT 'two' ONE PHASE;");
    // More than a slice.
    let wide = "CREATE TABLE wide (id INT PRIMARY KEY, v LONGTEXT); XA START 'wide'; INSERT INTO wide WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 40) SELECT i, REPEAT('w', 600000) FROM n; UPDATE wide SET v = CONCAT(v, 'z') WHERE id % 2 = 0; XA END 'wide';";
    server.sql(&format!("USE xa; {wide} XA PREPARE 'wide';"));
    server.sql("USE xa; CREATE TABLE wide1 LIKE wide; XA START 'w1'; INSERT INTO wide1 WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 40) SELECT i, REPEAT('w', 600000) FROM n; XA END 'w1'; XA COMMIT 'w1' ONE PHASE;");
    server.sql(&format!("USE xa; {busy}"));
    assert_equal(&server, &mut replica, &["xa"]);
    // A prepared transaction locks its tables' definitions: they cannot change before it ends.
    let error =
        server.try_sql("USE xa; SET SESSION lock_wait_timeout = 1; ALTER TABLE t ADD COLUMN w INT").unwrap_err();
    assert!(error.contains("Lock wait timeout"), "{error}");

    // Restarts: clean, by kill, and of the source.
    replica.stop();
    let mut replica = Replica::follow(&server, &data, &options);
    server.sql(&format!("USE xa; {busy}"));
    replica.catch_up(&server);
    replica.kill();
    server.restart(&[]);
    assert_eq!(server.sql("XA RECOVER").lines().count(), 4);
    let error =
        server.try_sql("USE xa; SET SESSION lock_wait_timeout = 1; ALTER TABLE t ADD COLUMN w INT").unwrap_err();
    assert!(error.contains("Lock wait timeout"), "{error}");
    let mut replica = Replica::follow(&server, &data, &options);
    server.sql("FLUSH BINARY LOGS; USE xa; INSERT INTO u VALUES (8, 'between')");
    assert_equal(&server, &mut replica, &["xa"]);
    // A stopped one shows the same.
    replica.stop();
    whole_program_tests::assert_equal_at_rest(&server, data.to_str().unwrap(), &["xa"]);
    let mut replica = Replica::follow(&server, &data, &options);
    server.sql("USE xa; XA COMMIT 'kept'; XA ROLLBACK 'dropped';");
    assert_equal(&server, &mut replica, &["xa"]);
    server.sql("USE xa; XA COMMIT 'packed'; XA COMMIT 'wide'; UPDATE t SET v = CONCAT(v, ' then'); UPDATE wide SET id = id + 100;");
    assert_equal(&server, &mut replica, &["xa"]);
    replica.stop();
    let mut replica = Replica::follow(&server, &data, &options);
    server.sql("USE xa; CREATE INDEX v ON t (v); XA START 'kept'; INSERT INTO t VALUES (60, 'again'); XA END 'kept'; XA PREPARE 'kept'; XA COMMIT 'kept';");
    assert_equal(&server, &mut replica, &["xa"]);
    replica.stop();
}

/// COMMIT of a transaction whose PREPARE was left out must not succeed.
#[test]
fn xa_commit_of_an_unknown_xid_stops_replay() {
    let server = Server::start("xaunknown", &[]);
    let data = folder("xaunknown");
    server.sql(&format!("CREATE DATABASE x; USE x; {TABLES}"));
    let mut replica = Replica::follow(&server, &data, &[]);
    replica.catch_up(&server);
    replica.stop();
    let before = server.gtid_executed();
    server.sql("USE x; XA START 'a'; DELETE FROM t; XA END 'a'; XA PREPARE 'a'");
    let prepare = server.gtid_executed().subtract(&before).to_string().replace('\n', "");
    slipstream(&["skip", &prepare, "--data", data.to_str().unwrap()]).expect(0, &[]);
    let replica = Replica::follow(&server, &data, &[]);
    server.sql("XA COMMIT 'a'");
    replica.expect_exit(9, &["XA COMMIT X'61',X'',1", "no such prepared transaction", "slipstream skip"]);
}

/// Statements whose foreign keys delete and change rows of other tables: nested, self-referencing, of several columns,
/// of text compared case-insensitively, in keyless tables.
const CASCADES: &str = "
    SET SESSION restrict_fk_on_non_standard_key = OFF;
    CREATE TABLE p (id INT PRIMARY KEY, name VARCHAR(20) COLLATE utf8mb4_0900_ai_ci, v INT, UNIQUE KEY (name), KEY (v, id));
    CREATE TABLE c (id INT PRIMARY KEY, pid INT, v TEXT, FOREIGN KEY (pid) REFERENCES p (id) ON DELETE CASCADE ON UPDATE CASCADE);
    CREATE TABLE cc (a INT, pid INT, FOREIGN KEY (a) REFERENCES c (id) ON DELETE CASCADE ON UPDATE SET NULL,
        FOREIGN KEY (pid) REFERENCES c (pid) ON DELETE SET NULL ON UPDATE CASCADE);
    CREATE TABLE n (id INT PRIMARY KEY, name VARCHAR(255) COLLATE utf8mb4_0900_ai_ci, FOREIGN KEY (name) REFERENCES p (name) ON DELETE SET NULL ON UPDATE CASCADE);
    CREATE TABLE pair (v INT, pid INT, x INT, PRIMARY KEY (v, pid), FOREIGN KEY (v, pid) REFERENCES p (v, id) ON DELETE CASCADE ON UPDATE CASCADE);
    CREATE TABLE tree (id INT PRIMARY KEY, parent INT, FOREIGN KEY (parent) REFERENCES tree (id) ON DELETE CASCADE);
    CREATE TABLE ring (id INT PRIMARY KEY, next INT, FOREIGN KEY (next) REFERENCES ring (id) ON DELETE SET NULL);
    CREATE TABLE r (pid INT, FOREIGN KEY (pid) REFERENCES p (id) ON DELETE RESTRICT);
    INSERT INTO p VALUES (1,'One',1),(2,'two',2),(3,'three',3),(4,'four',4),(5,NULL,5),(6,'six',6);
    INSERT INTO c VALUES (10,1,'a'),(11,1,'b'),(20,2,'c'),(30,3,'d'),(40,NULL,'e'),(60,6,'f');
    INSERT INTO cc VALUES (10,1),(10,1),(11,1),(20,2),(NULL,3),(30,NULL),(60,6);
    INSERT INTO n VALUES (1,'ONE'),(2,'one'),(3,'two'),(4,NULL),(5,'SIX');
    INSERT INTO pair VALUES (1,1,1),(2,2,2),(3,3,3),(6,6,6); INSERT INTO tree VALUES (1,NULL),(2,1),(3,2),(4,3),(5,1),(6,NULL),(7,6);
    INSERT INTO ring VALUES (1,1),(2,1),(3,2); INSERT INTO r VALUES (5);
    UPDATE p SET id = 100 WHERE id = 1; UPDATE p SET name = 'uno' WHERE id = 100; UPDATE p SET name = 'SIX' WHERE id = 6;
    UPDATE p SET v = 22, id = 200 WHERE id = 2; UPDATE c SET id = id + 1000 WHERE pid = 100;
    BEGIN; DELETE FROM p WHERE id = 3; INSERT INTO p VALUES (3,'again',3); INSERT INTO c VALUES (31,3,'new'); DELETE FROM c WHERE id = 20; COMMIT;
    DELETE FROM tree WHERE id = 2; DELETE FROM tree WHERE id IN (1, 6); DELETE FROM ring WHERE id = 2; DELETE FROM ring WHERE id = 1;
    DELETE FROM p WHERE id IN (6, 200); SET foreign_key_checks = 0; DELETE FROM p WHERE id = 3; SET foreign_key_checks = 1;
    SET SESSION binlog_transaction_compression = ON; REPLACE INTO p VALUES (100, 'replaced', 7); UPDATE p SET v = 8;";

fn cascades(server: &Server, name: &str, statements: &str) {
    let mut replica = Replica::follow(server, &folder(name), &["--cut-interval=100ms"]);
    for image in ["FULL", "MINIMAL", "NOBLOB"] {
        let db = format!("{name}_{}", image.to_lowercase());
        server.sql(&format!("CREATE DATABASE {db}; USE {db}; SET SESSION binlog_row_image = {image};\n{statements}"));
        assert_equal(server, &mut replica, &[&db]);
    }
    replica.stop();
}

#[test]
fn cascades_in_the_log() {
    // The server itself refuses to cascade into a non-unique key when it does not leave that to the engine.
    let standard = CASCADES.replace(
        "REFERENCES c (pid) ON DELETE SET NULL ON UPDATE CASCADE",
        "REFERENCES p (id) ON DELETE SET NULL ON UPDATE CASCADE",
    );
    assert_ne!(standard, CASCADES);
    cascades(&server(), "logged", &standard);
}

/// As before 9.6: the engine changes child rows, and the log does not contain it.
#[test]
fn cascades_that_are_not_in_the_log() {
    let server = Server::start_unsynced("native", &["--innodb-native-foreign-keys=ON"]);
    cascades(&server, "native", CASCADES);
}
