//! Statements that a ROW source still writes as text (RULES 19): pt-table-checksum's, and others like them.
#![allow(clippy::unwrap_used, clippy::expect_used)]

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

/// What pt-table-checksum 3 sends for a table in chunks.
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
    // Only the table they write to cannot be read meanwhile.
    verify_equal(&server, replica.data(), &["d"]);
    slipstream(&["dump", "--data", replica.data(), "percona.checksums"]).expect(1, &["checksums", "copied again"]);
    replica.wait_until("its copy", |status| status["replay"]["tables_copied_by_itself"] == 1);
    server.sql(
        "UPDATE percona.checksums SET master_cnt = 7 WHERE chunk = 3; DELETE FROM percona.checksums WHERE chunk = 4",
    );
    assert_equal(&server, &mut replica, &["d", "percona"]);
    // A second run, over a restart.
    checksum(&server, 3);
    replica.catch_up(&server);
    let data = replica.data.clone();
    replica.kill();
    let mut replica = Replica::follow(&server, &data, &[]);
    replica.wait_until("its copy", |status| status["replay"]["tables_copied_by_itself"] == 1);
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
    // What may write anything stops replay, as before.
    server.sql("CREATE VIEW d.v AS SELECT * FROM d.t; USE d; SET SESSION binlog_format = STATEMENT; INSERT INTO v VALUES (100, 'through')");
    replica.expect_exit(6, &["view `d`.`v`", "INSERT INTO v", "slipstream skip"]);
}

/// The real thing, where it is installed (Debian's percona-toolkit).
#[test]
fn pt_table_checksum() {
    if Command::new("pt-table-checksum").arg("--version").output().is_err() {
        eprintln!("skipped: no pt-table-checksum on PATH");
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
