//! Statements that a ROW source still writes as text (invariant 19): pt-table-checksum's, and others like them.

use std::process::Command;

use whole_program_tests::replica::ledger;
use whole_program_tests::{Replica, Server, assert_equal, assert_equal_at_rest, folder, slipstream, verify_equal};

const CHECKSUMS: &str = "CREATE DATABASE percona; CREATE TABLE percona.checksums (db CHAR(64) NOT NULL, tbl CHAR(64) NOT NULL, chunk INT NOT NULL, \
    this_crc CHAR(40) NOT NULL, this_cnt INT NOT NULL, master_crc CHAR(40), master_cnt INT, ts TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP ON UPDATE CURRENT_TIMESTAMP, \
    PRIMARY KEY (db, tbl, chunk)) ENGINE=InnoDB;";

/// A server whose account may copy a table.
fn server(name: &str) -> Server {
    let server = Server::start_unsynced(name, &[]);
    server.sql(
        "GRANT XA_RECOVER_ADMIN, LOCK TABLES ON *.* TO repl; CREATE DATABASE d; USE d; CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(50));
         INSERT INTO t VALUES (1,'a'),(2,'b'),(3,'c'),(4,'d'); CREATE TABLE u (a INT, b VARCHAR(50)); INSERT INTO u VALUES (1,'x'),(1,'x')",
    );
    server
}

fn quarantined(status: &serde_json::Value) -> String {
    status["replay"]["quarantined"].to_string()
}

/// The statements of pt-table-checksum 3 for a table in chunks.
fn checksum(server: &Server, chunks: u32) {
    for chunk in 1..=chunks {
        server.sql(&format!(
            "SET SESSION binlog_format = STATEMENT; SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ; USE d;
             REPLACE INTO `percona`.`checksums` (db, tbl, chunk, this_cnt, this_crc) SELECT 'd', 't', '{chunk}', COUNT(*) AS cnt,
             COALESCE(LOWER(CONV(BIT_XOR(CAST(CRC32(CONCAT_WS('#', `id`, `v`, CONCAT(ISNULL(`v`)))) AS UNSIGNED)), 10, 16)), 0) AS crc FROM `d`.`t` /*checksum table*/;
             UPDATE `percona`.`checksums` SET master_crc = this_crc, master_cnt = this_cnt WHERE db = 'd' AND tbl = 't' AND chunk = '{chunk}';"
        ));
    }
}

#[test]
fn checksum_statements_in_a_row_log() {
    let server = server("checksum");
    server.sql(CHECKSUMS);
    let mut replica = Replica::follow(&server, &folder("checksum"), &["--cut-interval=200ms"]);
    checksum(&server, 20);
    server.sql("USE d; INSERT INTO t VALUES (5, 'after')");
    let status = replica.catch_up(&server);
    assert!(quarantined(&status).contains("`percona`.`checksums`"), "{status}");
    assert_eq!(status["replay"]["tables_copied_by_itself"], 0, "not while they come: {status}");
    assert!(ledger(&status, "superseded_by_copy").contains(&("Query".into(), 40)), "{status}");
    // Only the table they write to is unreadable meanwhile.
    verify_equal(&server, replica.data(), &["d"]);
    slipstream(&["dump", "--data", replica.data(), "percona.checksums"]).expect(1, &["checksums", "copied again"]);
    replica.wait_until("its copy", |status| status["replay"]["tables_copied_by_itself"] == 1);
    server.sql(
        "UPDATE percona.checksums SET master_cnt = 7 WHERE chunk = 3; DELETE FROM percona.checksums WHERE chunk = 4",
    );
    assert_equal(&server, &mut replica, &["d", "percona"]);
    // A second run, across a restart.
    checksum(&server, 3);
    replica.catch_up(&server);
    let data = replica.data.clone();
    replica.kill();
    let mut replica = Replica::follow(&server, &data, &[]);
    replica.catch_up(&server);
    replica.copied();
    assert_equal(&server, &mut replica, &["d", "percona"]);
    let copies = replica.log().matches("copying `percona`.`checksums` again").count();
    assert!(copies <= 3, "{copies} copies of two runs\n{}", replica.log());
    replica.stop();
}

#[test]
fn statements_of_every_kind_cost_a_copy_of_their_tables() {
    let server = server("kinds");
    server.sql(
        "USE d; CREATE TABLE p (id INT PRIMARY KEY); CREATE TABLE c (id INT PRIMARY KEY, p INT, FOREIGN KEY (p) REFERENCES p (id) ON DELETE CASCADE);
         INSERT INTO p VALUES (1),(2); INSERT INTO c VALUES (1,1),(2,2); CREATE TABLE a (id INT AUTO_INCREMENT PRIMARY KEY, r DOUBLE, w VARCHAR(9))",
    );
    let mut replica = Replica::follow(&server, &folder("kinds"), &["--cut-interval=200ms"]);
    server.sql(
        "SET SESSION binlog_format = STATEMENT; USE d; SET @who = 'me'; INSERT INTO a (r, w) VALUES (RAND(), @who), (2, 'x'); DELETE FROM p WHERE id = 1;
         CREATE TEMPORARY TABLE tmp (id INT); INSERT INTO tmp VALUES (1); UPDATE tmp SET id = 2; DROP TEMPORARY TABLE tmp;
         BEGIN; UPDATE t JOIN u ON t.id = u.a SET t.v = 'joined'; COMMIT",
    );
    server.sql("BEGIN; INSERT INTO d.t VALUES (60, 'row'); INSERT INTO d.p VALUES (60); COMMIT");
    let status = replica.catch_up(&server);
    for table in ["`a`", "`p`", "`c`", "`t`", "`u`"] {
        assert!(quarantined(&status).contains(table), "{table} in {status}");
    }
    replica.wait_until("their copies", |status| status["replay"]["tables_copied_by_itself"] == 5);
    server
        .sql("USE d; UPDATE t SET v = 'later' WHERE id > 2; DELETE FROM p WHERE id = 2; INSERT INTO a (r) VALUES (4)");
    assert_equal(&server, &mut replica, &["d"]);
    // A statement that may write anything stops replay, as before.
    server.sql("CREATE VIEW d.v AS SELECT * FROM d.t; USE d; SET SESSION binlog_format = STATEMENT; INSERT INTO v VALUES (100, 'through')");
    replica.expect_exit(6, &["view `d`.`v`", "INSERT INTO v", "slipstream skip"]);
}

/// A table that waits for its copy does not keep `verify` from the others.
#[test]
fn verify_beside_a_quarantined_table() {
    let server = server("unknown");
    let mut replica = Replica::follow(&server, &folder("unknown"), &["--cut-interval=200ms"]);
    server.sql("SET SESSION binlog_format = STATEMENT; UPDATE d.u SET b = UUID()");
    let status = replica.catch_up(&server);
    assert!(quarantined(&status).contains("`u`"), "{status}");
    let data = replica.data().to_owned();
    // It is copied 10 s after the last such statement; a stopped replica does not copy.
    replica.stop();
    let url = server.url("repl");
    let verify = |options: &[&str]| slipstream(&[&["verify", "--data", &data, "--source", &url], options].concat());
    verify(&[]).expect(1, &["OK        d.t", "UNKNOWN   d.u", "UNKNOWN: 1 of 2 tables; 1 are equal"]);
    let json: serde_json::Value = serde_json::from_str(&verify(&["--json"]).expect(1, &[]).out).unwrap();
    assert_eq!(json["equal"], false, "{json}");
    assert!(json["tables"][0]["quarantined"].is_null() && json["tables"][1]["quarantined"].is_string(), "{json}");
    verify(&["d.t"]).expect(0, &["EQUAL: 1 tables"]);
    verify(&["d.u"]).expect(1, &["UNKNOWN: 1 of 1 tables"]);
    server.sql("SET sql_log_bin = 0; DELETE FROM d.t WHERE id = 1");
    verify(&[]).expect(16, &["DIFFERENT d.t", "UNKNOWN   d.u", "DIFFERENT: 1 of 2 tables", "1 unknown"]);
}

/// LOAD DATA in statement format: the log holds the file in blocks, then the statement.
#[test]
fn load_data_in_statement_format() {
    let server = Server::start_unsynced("load", &["--local-infile=ON"]);
    server.sql(
        "GRANT XA_RECOVER_ADMIN, LOCK TABLES ON *.* TO repl; CREATE DATABASE d; CREATE DATABASE e; USE d; CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(50));
         CREATE TABLE x (id INT PRIMARY KEY, v VARCHAR(50)); CREATE TABLE m (id INT PRIMARY KEY, v VARCHAR(50)) ENGINE=MyISAM;
         CREATE TABLE large (id INT PRIMARY KEY, v VARCHAR(2000)); CREATE TABLE e.other (id INT PRIMARY KEY); CREATE TABLE p (id INT PRIMARY KEY)",
    );
    let file = |name: &str, rows: std::ops::Range<u32>, len: usize| {
        let file = folder(name);
        let value = "v".repeat(len);
        std::fs::write(&file, rows.map(|n| format!("{n}\t{value}\n")).collect::<String>()).unwrap();
        file.display().to_string()
    };
    // Larger than a slice of a transaction.
    let (rows, large) = (file("rows", 1..2000, 10), file("large", 0..20_000, 1000));
    let xml = folder("xml").display().to_string();
    std::fs::write(&xml, "<row><id>5000</id><v>of XML</v></row>").unwrap();
    let load =
        |sql: &str| server.client(&["--local-infile=1"], format!("SET SESSION binlog_format = STATEMENT; {sql}"));
    let mut replica = Replica::follow(&server, &folder("load"), &["--cut-interval=200ms"]);
    load(&format!("USE d; LOAD DATA LOCAL INFILE '{rows}' INTO TABLE t (id, @v) SET v = CONCAT(@v, RAND())")).unwrap();
    // One that names its database, one in a payload, one of XA.
    load(&format!("LOAD DATA LOCAL INFILE '{large}' REPLACE INTO TABLE d.large")).unwrap();
    load(&format!("SET SESSION binlog_transaction_compression = ON; USE d; LOAD XML LOCAL INFILE '{xml}' INTO TABLE t ROWS IDENTIFIED BY '<row>'")).unwrap();
    load(&format!(
        "USE d; XA START 'x'; LOAD DATA LOCAL INFILE '{rows}' INTO TABLE x; XA END 'x'; XA PREPARE 'x'; XA COMMIT 'x'"
    ))
    .unwrap();
    // One into the session's own table, which affects nobody else.
    load(&format!("USE d; CREATE TEMPORARY TABLE own LIKE t; LOAD DATA LOCAL INFILE '{rows}' INTO TABLE own; DROP TEMPORARY TABLE own")).unwrap();
    load(&format!("USE d; LOAD DATA LOCAL INFILE '{rows}' INTO TABLE m")).unwrap();
    server.sql("INSERT INTO e.other VALUES (1), (2); INSERT INTO d.p VALUES (1); DELETE FROM d.t WHERE id = 7");
    let status = replica.catch_up(&server);
    for table in ["`t`", "`large`", "`x`", "`m`"] {
        assert!(quarantined(&status).contains(&format!("`d`.{table}")), "{table} in {status}");
    }
    assert!(!quarantined(&status).contains("`p`") && !quarantined(&status).contains("`other`"), "{status}");
    assert_eq!(status["replay"]["tables_copied_by_itself"], 0, "{status}");
    // Each names its position and transaction.
    let own = server.gtid_executed().to_string();
    let uuid = own.split(':').next().unwrap();
    for text in ["(relay log relay-bin.", &format!(", GTID {uuid}:"), "): LOAD DATA"] {
        assert!(quarantined(&status).contains(text), "{text} in {status}");
    }
    // XA's is seen again at its commit.
    assert!(ledger(&status, "superseded_by_copy").contains(&("Execute_load_query".into(), 5)), "{status}");
    for (event, count) in [("Execute_load_query", 7), ("Begin_load_query", 6)] {
        assert!(ledger(&status, "seen").contains(&(event.into(), count)), "{event}: {status}");
    }
    verify_equal(&server, replica.data(), &["e"]);
    replica.wait_until("their copies", |status| status["replay"]["tables_copied_by_itself"] == 4);
    server
        .sql("UPDATE d.t SET v = 'later' WHERE id < 5; DELETE FROM d.large WHERE id = 9; DELETE FROM d.x WHERE id = 9");
    assert_equal(&server, &mut replica, &["d", "e"]);
    replica.stop();
    // From files there is nothing to copy from: it stops as at any such statement, and can be skipped.
    server.stop();
    let (source, data) = (format!("file:{}", server.dir().join("binlog.000001").display()), folder("load-files"));
    let ran = slipstream(&["replica", "--source", &source, "--data", data.to_str().unwrap()]);
    ran.expect(6, &["would have to be copied", "LOAD DATA", "slipstream skip"]);
    let gtid = format!("{uuid}:");
    let at = ran.err.find("skip ").map(|at| &ran.err[at + 5..]).and_then(|text| text.split(' ').next()).unwrap();
    assert!(at.starts_with(&gtid), "{at}");
    slipstream(&["skip", at, "--data", data.to_str().unwrap()]).expect(0, &[]);
    slipstream(&["replica", "--source", &source, "--data", data.to_str().unwrap()])
        .expect(6, &["statement: LOAD DATA"]);
}

/// The real tool, where it is installed (Debian's percona-toolkit).
#[test]
fn pt_table_checksum() {
    if Command::new("pt-table-checksum").arg("--version").output().is_err() {
        testkit::skipped("no pt-table-checksum on PATH");
        return;
    }
    let server = server("percona");
    let mut replica = Replica::follow(&server, &folder("percona"), &["--cut-interval=200ms"]);
    server.sql("CREATE USER pt@'127.0.0.1' IDENTIFIED BY ''; GRANT ALL ON *.* TO pt@'127.0.0.1'");
    let run = || {
        let port = server.port().to_string();
        let mut command = Command::new("pt-table-checksum");
        command.args(["--host=127.0.0.1", "--user=pt", "--port", &port, "--databases=d", "--no-check-binlog-format"]);
        command.args(["--recursion-method=none", "--chunk-size=2", "--no-version-check"]);
        command.output().unwrap()
    };
    let ran = run();
    let said = format!("{}{}", String::from_utf8_lossy(&ran.stdout), String::from_utf8_lossy(&ran.stderr));
    assert!(said.contains("d.t"), "{said}");
    let status = replica.catch_up(&server);
    assert!(quarantined(&status).contains("checksums"), "{said}\n{status}");
    replica.wait_until("its copy", |status| status["replay"]["tables_copied_by_itself"] == 1);
    assert_equal(&server, &mut replica, &["d", "percona"]);
    assert_equal_at_rest(&server, replica.data(), &["percona"]);
    replica.stop();
}
