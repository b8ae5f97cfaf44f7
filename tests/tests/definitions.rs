//! `dump --definitions`: accounts, libraries, programs, views, triggers and events, from the log and from a copy.
//! Its output recreates them on a stock server.

use client::Connection;
use whole_program_tests::replica::ledger;
use whole_program_tests::{Replica, Server, folder, scratch, slipstream};

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
    // The testbed's own GRANT ALL is asked about.
    let status = replica.settled(&server);
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
    replica.settled(&server);
    assert_eq!(dump(replica.data()), text);
    replica.stop();

    // The log is gone: from an initial copy, by an account that may see everything, and by one that may not.
    server.sql("CREATE USER copier@'%' IDENTIFIED BY 'repl'; GRANT ALL ON *.* TO copier@'%'; GRANT XA_RECOVER_ADMIN, RELOAD ON *.* TO repl");
    server.purge_binary_logs();
    let mut replica = Replica::start(&server.url("repl"), &folder("poor"), &[]);
    replica.catch_up(&server);
    replica.waits_for_log(&["it lacks SHOW VIEW, TRIGGER, EVENT"]);
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

/// Statements about objects that are older than the log come before the source's answer and after it.
#[test]
fn what_is_older_than_the_log_is_read_at_the_source() {
    let server = Server::start_unsynced("older", &[]);
    server.sql(MADE);
    server.sql(
        "CREATE USER copier@'%' IDENTIFIED BY 'repl'; GRANT ALL ON *.* TO copier@'%'; CREATE USER gone;
         CREATE VIEW d.gone AS SELECT 1; RESET BINARY LOGS AND GTIDS",
    );
    server.sql(
        "GRANT UPDATE ON d.* TO app@'%'; ALTER PROCEDURE d.p COMMENT 'before'; DROP VIEW d.gone; DROP USER gone;
         CREATE OR REPLACE VIEW d.v3 AS SELECT 3 AS three; ALTER USER another@localhost ACCOUNT LOCK",
    );
    let data = folder("older");
    let mut replica = Replica::start(&server.url("copier"), &data, &[]);
    replica.settled(&server);
    replica.waits_for_log(&["SLIP-000140", "for those that its log does not hold"]);
    server.sql(
        "REVOKE SELECT ON d.* FROM app@'%'; ALTER EVENT e.ev2 COMMENT 'after'; RENAME TABLE d.v TO d.x; RENAME TABLE d.x
         TO d.v; DROP FUNCTION d.f; CREATE FUNCTION d.f() RETURNS INT DETERMINISTIC RETURN 2; DROP ROLE r; CREATE ROLE r",
    );
    replica.settled(&server);
    let dump = |data: &str| slipstream(&["dump", "--definitions", "--data", data]).expect(0, &[]).out.clone();
    let text = dump(replica.data());
    made_again("older-again", &text, &shown(&server));
    replica.stop();
    assert_eq!(dump(data.to_str().unwrap()), text);
    // It is not read again.
    let mut replica = Replica::start(&server.url("copier"), &data, &[]);
    replica.settled(&server);
    assert_eq!(dump(replica.data()), text);
    assert_eq!(replica.log().matches("for those that its log does not hold").count(), 1, "{}", replica.log());
    replica.stop();
}

/// Under ANSI_QUOTES `"a\"` is a whole name for the server and an open string for the mysql client, so they disagree
/// where a comment begins. Whoever may make procedures in one schema tried to run SQL, and a shell command, by that.
#[test]
fn what_a_routines_author_planted_runs_nowhere() {
    let server = Server::start_unsynced("planted", &[]);
    let data = folder("planted");
    let mut replica = Replica::follow(&server, &data, &[]);
    server.sql(
        "CREATE DATABASE low; CREATE USER low IDENTIFIED BY 'low'; GRANT CREATE ROUTINE, ALTER ROUTINE ON low.* TO low",
    );
    let touched = scratch().join("planted-by-a-routine");
    // By a connection of our own, which sends each text whole.
    let mut low = Connection::connect(&server.login("low")).unwrap();
    low.exec("SET sql_mode = 'ANSI_QUOTES'").unwrap();
    let shell = format!("CREATE PROCEDURE low.q() SELECT 1 AS \"a\\\" -- \" \\! touch {}", touched.display());
    for text in [
        "CREATE PROCEDURE low.p() SELECT 1 AS \"a\\\" -- \" ;; CREATE USER pwned;; -- $$ //end of statement//",
        &shell,
        "CREATE PROCEDURE low.r() SELECT ';; CREATE USER pwned;; $$ CREATE USER pwned $$ //end of statement//'",
        "CREATE PROCEDURE low.s() SELECT 1 /*!99999 ; CREATE USER pwned; */",
    ] {
        low.exec(text).unwrap_or_else(|error| panic!("{text}: {error}"));
    }
    replica.settled(&server);
    let ran = slipstream(&["dump", "--definitions", "--data", replica.data()]);
    ran.expect(17, &["written as comments", "PROCEDURE `low`.`p` (", "PROCEDURE `low`.`q` ("]);
    assert!(!ran.err.contains("`low`.`r`"), "{}", ran.err);
    replica.stop();
    let stopped = slipstream(&["dump", "--definitions", "--data", data.to_str().unwrap()]);
    assert_eq!((stopped.code, &stopped.out), (17, &ran.out));

    let other = Server::start_unsynced("planted-elsewhere", &[]);
    let parts: Vec<&str> = ran.out.split("\n\n").filter(|part| !part.starts_with("-- USER ")).collect();
    for options in [&[][..], &["--commands", "--system-command=ON"], &["--commands", "--system-command=ON", "--force"]]
    {
        other.sql("DROP DATABASE IF EXISTS low; CREATE DATABASE low");
        let loaded = other.client(options, parts.join("\n\n"));
        assert!(loaded.is_ok(), "{options:?}: {loaded:?}\n{}", ran.out);
        assert_eq!(other.sql("SELECT User FROM mysql.user WHERE User = 'pwned'"), "", "{options:?}");
        assert!(!touched.exists(), "{options:?}");
        let made = other.sql("SELECT ROUTINE_NAME FROM information_schema.ROUTINES WHERE ROUTINE_SCHEMA = 'low'");
        assert!(made.contains("r\n") && !made.contains("p\n") && !made.contains("q\n"), "{made}");
    }
}

/// Names and rows that are harmless to a client of UTF-8. One of gbk takes the last byte of 名 and what is behind it for
/// one character, and a database's name with a line break reads as a command and the statement after it.
#[test]
fn what_is_in_names_and_rows_runs_nowhere() {
    let server = Server::start_unsynced("planted-rows", &[]);
    let data = folder("planted-rows");
    let mut replica = Replica::follow(&server, &data, &[]);
    server.sql(
        "CREATE DATABASE d; CREATE TABLE d.`名` (`列名` VARCHAR(99) COMMENT '名\\'; CREATE USER pwned; -- ');
         INSERT INTO d.`名` VALUES ('名\\'; CREATE USER pwned; -- '), ('名`; CREATE USER pwned; -- '), ('名\\\\');
         CREATE DATABASE `x\nCREATE USER pwned;#`; CREATE TABLE `x\nCREATE USER pwned;#`.t (a INT); CREATE VIEW
         `x\nCREATE USER pwned;#`.v AS SELECT 1 AS a; INSERT INTO `x\nCREATE USER pwned;#`.t VALUES (1)",
    );
    replica.settled(&server);
    let dump = |options: &[&str]| slipstream(&[&["dump", "--data", replica.data()], options].concat());
    let (rows, definitions) = (dump(&[]), dump(&["--definitions"]));
    rows.expect(0, &[]);
    definitions.expect(0, &[]);
    let views: Vec<&str> = definitions.out.split("\n\n").filter(|part| !part.starts_with("-- USER ")).collect();
    let other = Server::start_unsynced("planted-rows-elsewhere", &[]);
    let all = "SELECT `列名` FROM d.`名` ORDER BY HEX(`列名`); SELECT a FROM `x\nCREATE USER pwned;#`.t; \
               SELECT a FROM `x\nCREATE USER pwned;#`.v";
    for options in [&["--default-character-set=gbk"][..], &["--commands", "--named-commands", "--force"]] {
        other.sql("DROP DATABASE IF EXISTS d; DROP DATABASE IF EXISTS `x\nCREATE USER pwned;#`");
        for script in [&rows.out, &views.join("\n\n")] {
            let loaded = other.client(options, script);
            assert!(loaded.is_ok(), "{options:?}: {loaded:?}\n{script}");
        }
        assert_eq!(other.sql("SELECT User FROM mysql.user WHERE User = 'pwned'"), "", "{options:?}");
        assert_eq!(other.sql(all), server.sql(all), "{options:?}");
    }
    replica.stop();
}
