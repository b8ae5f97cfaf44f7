//! `dump --definitions`: views, routines, triggers, events, users and grants, from the log and from the initial copy.
//! Its output recreates them on a stock server.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use whole_program_tests::replica::ledger;
use whole_program_tests::{Replica, Server, folder, slipstream};

const MADE: &str = r#"
CREATE DATABASE d COLLATE utf8mb4_general_ci; CREATE DATABASE e; USE d; CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(20)); CREATE TABLE u LIKE t;
CREATE DEFINER=`root`@`localhost` VIEW v AS SELECT id, CONCAT(v, 'é') AS w FROM t; CREATE VIEW e.w AS SELECT * FROM d.v; CREATE VIEW gone AS SELECT 1;
CREATE OR REPLACE VIEW v2 AS SELECT 1 AS one; ALTER VIEW v2 AS SELECT 2 AS two; RENAME TABLE v2 TO v3; DROP VIEW gone;
DELIMITER $$
CREATE PROCEDURE p(IN a INT) BEGIN SELECT a; SELECT 'ß;;'; END $$
CREATE FUNCTION f(a INT) RETURNS INT DETERMINISTIC BEGIN RETURN a + 1; END $$
SET sql_mode = 'ANSI_QUOTES,PIPES_AS_CONCAT' $$
CREATE PROCEDURE quoted() SELECT 'a' || 'b' AS "x" FROM "t" $$
SET sql_mode = DEFAULT $$
CREATE TRIGGER tr BEFORE INSERT ON t FOR EACH ROW BEGIN SET NEW.v = CONCAT(NEW.v, '!'); END $$
CREATE TRIGGER tu AFTER DELETE ON u FOR EACH ROW SET @x = 1 $$
CREATE EVENT ev ON SCHEDULE EVERY 1 DAY STARTS '2035-01-01 00:00:00' DISABLE DO DELETE FROM t WHERE id < 0 $$
CREATE PROCEDURE away() SELECT 1 $$
CREATE EVENT old ON SCHEDULE EVERY 1 HOUR DISABLE DO SELECT 1 $$
DELIMITER ;
ALTER PROCEDURE p COMMENT 'changed' SQL SECURITY INVOKER; ALTER EVENT ev RENAME TO e.ev2; ALTER EVENT e.ev2 COMMENT 'moved'; DROP PROCEDURE away; DROP EVENT old;
DROP TABLE u; CREATE USER app@'%' IDENTIFIED BY 'Geheim-1', other@localhost; CREATE ROLE r; GRANT SELECT, INSERT ON d.* TO app@'%'; GRANT r TO app@'%';
REVOKE INSERT ON d.* FROM app@'%'; RENAME USER other@localhost TO another@localhost; CREATE USER away; DROP USER away;"#;

/// All definitions as SHOW CREATE shows them, on any server.
fn shown(server: &Server) -> String {
    let mut all = String::new();
    for what in [
        "VIEW d.v",
        "VIEW d.v3",
        "VIEW e.w",
        "PROCEDURE d.p",
        "PROCEDURE d.quoted",
        "FUNCTION d.f",
        "TRIGGER d.tr",
        "EVENT e.ev2",
        "USER app@'%'",
        "USER another@localhost",
        "USER r",
    ] {
        all += &server
            .sql(&format!("SHOW CREATE {what}"))
            .lines()
            .filter(|line| !line.is_empty())
            .map(without_moment)
            .collect::<String>();
    }
    for user in ["app@'%'", "another@localhost"] {
        all += &server.sql(&format!("SHOW GRANTS FOR {user}"));
    }
    let count = "SELECT COUNT(*) FROM information_schema.ROUTINES WHERE ROUTINE_SCHEMA IN ('d', 'e'); SELECT COUNT(*) FROM information_schema.VIEWS
                 WHERE TABLE_SCHEMA IN ('d', 'e'); SELECT COUNT(*) FROM information_schema.TRIGGERS WHERE TRIGGER_SCHEMA = 'd'; SELECT COUNT(*) FROM
                 information_schema.EVENTS WHERE EVENT_SCHEMA IN ('d', 'e'); SELECT COUNT(*) FROM mysql.user";
    all + &server.sql(count)
}

/// SHOW CREATE TRIGGER ends with the creation time.
fn without_moment(line: &str) -> String {
    let mut columns: Vec<&str> = line.split('\t').collect();
    if columns.last().is_some_and(|last| last.starts_with("20") && last.contains(':')) {
        columns.pop();
    }
    columns.join("\t") + "\n"
}

/// Runs a replica's output on a fresh server and compares.
fn made_again(name: &str, text: &str, wanted: &str) {
    let other = Server::start_unsynced(name, &[]);
    other.sql("CREATE DATABASE d COLLATE utf8mb4_general_ci; CREATE DATABASE e; CREATE TABLE d.t (id INT PRIMARY KEY, v VARCHAR(20)); DROP USER repl");
    // Root already exists.
    let users: Vec<&str> = text
        .split("\n\n")
        .filter(|part| !part.starts_with("-- USER root@") && !part.starts_with("-- USER mysql."))
        .collect();
    if let Err(error) = other.try_sql(&users.join("\n\n")) {
        panic!("{error}\n{text}");
    }
    assert_eq!(shown(&other), wanted, "{text}");
}

#[test]
fn from_the_log_and_from_a_copy() {
    let server = Server::start_unsynced("definitions", &[]);
    let data = folder("definitions");
    let mut replica = Replica::follow(&server, &data, &[]);
    server.sql(MADE);
    let status = replica.catch_up(&server);
    let recorded: u64 = ledger(&status, "recorded").iter().map(|(_, count)| count).sum();
    assert!(recorded >= 28, "{status}");
    let dump = |data: &str| slipstream(&["dump", "--definitions", "--data", data]).expect(0, &[]).out.clone();
    let text = dump(replica.data());
    for gone in ["gone", "away", "EVENT `d`.`old`", "TRIGGER `d`.`tu`", "v2`\n"] {
        assert!(
            !text.contains(&format!("-- VIEW `d`.`{gone}"))
                && !text.contains(&format!("PROCEDURE `d`.`{gone}"))
                && !text.contains(&format!("-- {gone}")),
            "{gone}: {text}"
        );
    }
    let uuid = server.sql("SELECT @@server_uuid");
    assert!(text.matches(&format!("-- GTID {}:", uuid.trim())).count() >= 15, "{text}");
    // None of it reaches the log; a restart from a cut and a stopped folder say the same.
    assert!(!replica.log().contains("Geheim") && !text.contains("Geheim-1"), "{}", replica.log());
    replica.stop();
    assert_eq!(dump(data.to_str().unwrap()), text);
    let mut replica = Replica::follow(&server, &data, &[]);
    replica.catch_up(&server);
    assert_eq!(dump(replica.data()), text);
    replica.stop();

    // The log is gone: from an initial copy, by an account that may see everything, and by one that may not.
    server.sql("CREATE USER copier@'%' IDENTIFIED BY 'repl'; GRANT ALL ON *.* TO copier@'%'; GRANT XA_RECOVER_ADMIN, RELOAD ON *.* TO repl");
    server.purge_binary_logs();
    let mut replica = Replica::start(&server.url("repl"), &folder("poor"), &[]);
    replica.catch_up(&server);
    replica.waits_for_log(&["it misses SHOW VIEW, TRIGGER, EVENT"]);
    replica.stop();
    let mut replica = Replica::start(&server.url("copier"), &folder("copied"), &[]);
    replica.catch_up(&server);
    server.sql("DROP USER copier@'%', repl@'%'");
    server.sql("ALTER PROCEDURE d.p COMMENT 'after the copy'; GRANT DELETE ON d.* TO app@'%'");
    // The account is gone, the connection still exists.
    replica.catch_up(&server);
    let text = dump(replica.data());
    made_again("again", &text, &shown(&server));
    replica.kill();
}
