//! Storage engines that keep no rows or other tables' rows, and tables that the source itself cannot read: what a copy,
//! replay, `dump` and `verify` make of them.

use whole_program_tests::replica::ledger;
use whole_program_tests::{Replica, Server, assert_equal, folder, slipstream, slipstream_with};

/// A server whose log does not reach back to `sql`, which runs in the database `d`.
fn server_with(name: &str, options: &[&str], sql: &str) -> Server {
    let server = Server::start_unsynced(name, options);
    server.sql(&format!(
        "GRANT XA_RECOVER_ADMIN, LOCK TABLES, RELOAD, BACKUP_ADMIN ON *.* TO repl; CREATE DATABASE d; USE d; {sql}"
    ));
    server.purge_binary_logs();
    server
}

fn quarantined(status: &serde_json::Value) -> String {
    status["replay"]["quarantined"].to_string()
}

/// Waits until this many tables were copied, and none waits for it.
fn wait_for_copies(replica: &mut Replica, count: u64) {
    replica.wait_until("the copies", |status| {
        let waiting = status["replay"]["quarantined"].as_array().map_or(0, Vec::len);
        status["replay"]["tables_copied_by_itself"] == count && waiting == 0
    });
}

fn ask(replica: &Replica, server: &Server, command: &str, table: &str) -> whole_program_tests::Ran {
    let url = server.url("root");
    let source = ["--source", url.as_str()];
    let of_command: &[&str] = if command == "verify" { &source } else { &["--format", "tab"] };
    // root has no password.
    let with = |command: &mut std::process::Command| {
        command.env_remove("MYSQL_PWD");
    };
    slipstream_with(&[&[command, "--data", replica.data()], of_command, &[table]].concat(), with)
}

#[test]
fn every_engine_copied_and_followed() {
    let server = server_with(
        "engines",
        &["--federated"],
        "CREATE TABLE i (a INT PRIMARY KEY, v VARCHAR(9)); INSERT INTO i VALUES (1, 'i');
         CREATE TABLE h (a INT PRIMARY KEY) ENGINE=HEAP; INSERT INTO h VALUES (1);
         CREATE TABLE ar (a INT AUTO_INCREMENT, v INT, KEY (a)) ENGINE=ARCHIVE; INSERT INTO ar (v) VALUES (1), (2);
         CREATE TABLE cs (a INT NOT NULL, v VARCHAR(9) NOT NULL) ENGINE=CSV; INSERT INTO cs VALUES (1, 'c');
         CREATE TABLE b (a INT PRIMARY KEY) ENGINE=BLACKHOLE; INSERT INTO b VALUES (1);
         CREATE TABLE m (a INT PRIMARY KEY) ENGINE=MyISAM; INSERT INTO m VALUES (1);
         CREATE TABLE mm (a INT PRIMARY KEY) ENGINE=MERGE UNION=(m) INSERT_METHOD=LAST;
         CREATE TABLE gone (a INT PRIMARY KEY) ENGINE=MyISAM;
         CREATE TABLE broken (a INT PRIMARY KEY) ENGINE=MERGE UNION=(m, gone) INSERT_METHOD=FIRST; DROP TABLE gone",
    );
    let remote = format!("mysql://root@127.0.0.1:{}/d/i", server.port());
    server.sql(&format!(
        "USE d; CREATE TABLE f (a INT PRIMARY KEY, v VARCHAR(9)) ENGINE=FEDERATED CONNECTION='{remote}'"
    ));
    let mut replica = Replica::follow(&server, &folder("engines"), &["--cut-interval=200ms"]);
    server.sql(
        "USE d; INSERT INTO b VALUES (1); INSERT INTO b VALUES (1); INSERT INTO f VALUES (2, 'f'), (3, 'f');
         UPDATE f SET v = 'new' WHERE a = 2; REPLACE INTO f VALUES (2, 'r'); DELETE FROM f WHERE a = 3; INSERT INTO mm VALUES (2);
         INSERT INTO h VALUES (2); UPDATE h SET a = 3 WHERE a = 1; INSERT INTO ar (v) VALUES (3); UPDATE cs SET v = 'd'; DELETE FROM m WHERE a = 1;
         ALTER TABLE h ENGINE=CSV, DROP PRIMARY KEY; INSERT INTO h VALUES (3); DELETE FROM h WHERE a = 3 LIMIT 1;
         ALTER TABLE ar ENGINE=InnoDB; UPDATE ar SET v = 9 WHERE a = 2; ALTER TABLE ar ENGINE=ARCHIVE; INSERT INTO ar (v) VALUES (4);
         ALTER TABLE cs ENGINE=BLACKHOLE; INSERT INTO cs VALUES (7, 'n'); ALTER TABLE cs ENGINE=MEMORY; INSERT INTO cs VALUES (8, 'y')",
    );
    let status = replica.catch_up(&server);
    assert_eq!(
        ledger(&status, "not_kept"),
        [("Delete_rows".into(), 1), ("Update_rows".into(), 1), ("Write_rows".into(), 5)]
    );
    replica.waits_for_log(&[
        "`d`.`b`: engine BLACKHOLE keeps no rows",
        "`d`.`mm`: engine MRG_MyISAM shows the rows of its member",
        "`d`.`f`: engine FEDERATED keeps its rows on another server",
        "`d`.`broken` is left out",
    ]);
    // The source cannot show it until its member is there again; what is written through it then is copied.
    assert!(quarantined(&status).contains("`broken`"), "{status}");
    server.sql("USE d; CREATE TABLE gone (a INT PRIMARY KEY) ENGINE=MyISAM; INSERT INTO broken VALUES (50)");
    // It, then m and gone.
    wait_for_copies(&mut replica, 3);
    ask(&replica, &server, "verify", "d.b").expect(0, &["engine BLACKHOLE keeps no rows: nothing to compare"]);
    ask(&replica, &server, "verify", "d.f").expect(0, &["engine FEDERATED keeps its rows on another server"]);
    assert_eq!(ask(&replica, &server, "dump", "d.b").expect(0, &[]).out, "");
    for table in ["d.f", "d.mm"] {
        ask(&replica, &server, "dump", table).expect(6, &[table, "none of its own to print"]);
    }
    assert_equal(&server, &mut replica, &["d"]);
    server.sql("USE d; INSERT INTO broken VALUES (51); DELETE FROM m WHERE a = 50; DROP TABLE broken, f; ALTER TABLE b ENGINE=InnoDB; INSERT INTO b VALUES (1)");
    assert_equal(&server, &mut replica, &["d"]);
    replica.stop();
}

/// While a member is copied, an INSERT through its MERGE table is followed, anything else ends the attempt.
#[test]
fn a_member_copied_while_it_is_written_through_its_merge_table() {
    let server = server_with(
        "merged",
        &[],
        "CREATE TABLE m (a INT PRIMARY KEY, v VARCHAR(200)) ENGINE=MyISAM; CREATE TABLE mm LIKE m; ALTER TABLE mm ENGINE=MERGE UNION=(m) INSERT_METHOD=LAST",
    );
    let mut replica = Replica::follow(&server, &folder("merged"), &["--cut-interval=200ms"]);
    replica.catch_up(&server);
    let insert = |from: u32, to: u32| {
        let rows = (from..to).map(|row| format!("({row}, REPEAT('m', 100))")).collect::<Vec<_>>().join(",");
        server.sql(&format!("INSERT INTO d.mm VALUES {rows}"));
    };
    insert(0, 500);
    std::thread::scope(|scope| {
        let writer = scope.spawn(|| (1..40).for_each(|round| insert(round * 500, round * 500 + 500)));
        slipstream(&["copy", "--data", replica.data(), "d.m"]).expect(0, &["copied `d`.`m`"]);
        writer.join().unwrap();
    });
    let status = replica.catch_up(&server);
    assert_eq!(status["replay"]["tables_copied_by_itself"], 0, "{status}");
    assert_equal(&server, &mut replica, &["d"]);
    server.sql("DELETE FROM d.mm WHERE a % 3 = 0");
    replica.catch_up(&server);
    wait_for_copies(&mut replica, 1);
    assert_equal(&server, &mut replica, &["d"]);
    replica.stop();
}

/// The source cannot read these tables, or a part of them. It never will, so that waiting for a copy is in vain.
#[test]
fn tables_that_the_source_cannot_read() {
    let server = server_with(
        "unreadable",
        &[],
        "CREATE TABLE v (a INT PRIMARY KEY, b VARCHAR(9), s INT AS (a + 1) STORED); INSERT INTO v (a, b) VALUES (1, 'x'), (2, '{}'), (3, '[1]');
         ALTER TABLE v ADD COLUMN g JSON AS (b) VIRTUAL;
         CREATE TABLE w LIKE v; ALTER TABLE w DROP COLUMN g; INSERT INTO w (a, b) VALUES (7, '(');
         CREATE TABLE fine (a INT PRIMARY KEY, g INT AS (a * 2) VIRTUAL NOT NULL); INSERT INTO fine (a) VALUES (1), (2);
         CREATE TABLE t LIKE w; INSERT INTO t (a, b) VALUES (1, 't'); ALTER TABLE t DISCARD TABLESPACE;
         CREATE TABLE later LIKE w; INSERT INTO later (a, b) VALUES (1, 'l'); CREATE TABLE back LIKE w; INSERT INTO back (a, b) VALUES (5, 'b')",
    );
    let mut replica = Replica::follow(&server, &folder("unreadable"), &["--cut-interval=200ms"]);
    replica.catch_up(&server);
    // t
    wait_for_copies(&mut replica, 1);
    // One that becomes so while it is followed.
    server.sql("USE d; ALTER TABLE w ADD COLUMN g TINYINT AS (REGEXP_LIKE(b, b)) VIRTUAL; INSERT INTO w (a, b) VALUES (8, 'x')");
    server.sql("USE d; ALTER TABLE later DISCARD TABLESPACE");
    let copy = server.dir().join("d");
    server.sql("USE d; FLUSH TABLES back FOR EXPORT");
    replica.catch_up(&server);
    // w
    wait_for_copies(&mut replica, 2);
    let log = replica.log();
    for table in ["`d`.`v`", "`d`.`w`"] {
        assert!(log.contains(&format!("SLIP-000061] [Copy] {table}")), "{table} in {log}");
    }
    assert!(log.contains("SLIP-000062] [Copy] `d`.`t`") && !log.contains("[Copy] `d`.`fine`"), "{log}");
    for (table, rows) in [("d.v", "a\tb\ts\n1\tx\t2\n2\t{}\t3\n3\t[1]\t4\n"), ("d.t", ""), ("d.later", "")] {
        assert_eq!(ask(&replica, &server, "dump", table).expect(0, &[]).out, rows, "{table}");
    }
    for table in ["d.v", "d.w"] {
        ask(&replica, &server, "verify", table)
            .expect(0, &["virtual columns whose values the log does not contain, not compared: g"]);
    }
    for table in ["d.t", "d.later"] {
        ask(&replica, &server, "verify", table).expect(0, &["tablespace is discarded in source"]);
    }
    // Rows that can be changed at the source are followed, whatever the others are.
    server.sql("USE d; UPDATE v SET b = '[2]' WHERE a = 2; DELETE FROM v WHERE a = 3; INSERT INTO fine (a) VALUES (9)");
    // Another table's file, whose export is its rows; only this costs a copy.
    for end in ["ibd", "cfg"] {
        let from = copy.join(format!("back.{end}"));
        if from.exists() {
            std::fs::copy(from, copy.join(format!("later.{end}"))).unwrap();
        }
    }
    server.sql("USE d; ALTER TABLE later IMPORT TABLESPACE");
    replica.catch_up(&server);
    // later
    wait_for_copies(&mut replica, 3);
    assert_eq!(ask(&replica, &server, "dump", "d.later").expect(0, &[]).out, "a\tb\ts\n5\tb\t6\n");
    for table in ["d.v", "d.fine", "d.later"] {
        ask(&replica, &server, "verify", table).expect(0, &["EQUAL"]);
    }
    replica.stop();
}
