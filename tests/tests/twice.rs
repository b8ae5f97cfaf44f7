//! Rows that the source logs twice around its cascades: where the log proves the source's end, replay reaches it; where
//! it does not, replay stops and says whose fault it is.

use whole_program_tests::{Replica, Server, assert_equal, folder};

/// DELETE of several tables, of two and three levels; triggers that delete or change a parent of their row.
const JOINS_AND_TRIGGERS: &str = "
    CREATE TABLE d (a INT PRIMARY KEY);
    CREATE TABLE s (a INT PRIMARY KEY, p INT, FOREIGN KEY (p) REFERENCES d (a) ON DELETE CASCADE);
    CREATE TABLE x (a INT PRIMARY KEY, p INT, FOREIGN KEY (p) REFERENCES s (a) ON DELETE CASCADE);
    CREATE TABLE u (a INT, p INT NOT NULL, UNIQUE KEY (a), UNIQUE KEY (p, a), FOREIGN KEY (p) REFERENCES d (a) ON DELETE CASCADE);
    CREATE TABLE sn (a INT PRIMARY KEY, p INT, v INT, FOREIGN KEY (p) REFERENCES d (a) ON DELETE SET NULL ON UPDATE CASCADE);
    INSERT INTO d VALUES (10),(20),(30),(40),(50),(60),(70),(80),(90);
    INSERT INTO s VALUES (10,10),(11,10),(20,20),(30,30),(40,40),(41,40),(50,50),(60,60),(70,70);
    INSERT INTO x VALUES (100,10),(101,11),(200,20),(400,41),(500,50); INSERT INTO u VALUES (1,10),(2,80);
    INSERT INTO sn VALUES (1,70,1),(2,80,1),(3,90,1);
    DELETE d, s FROM d STRAIGHT_JOIN s ON d.a = s.p WHERE d.a = 10;
    DELETE x, s, d FROM d STRAIGHT_JOIN s ON d.a = s.p STRAIGHT_JOIN x ON x.p = s.a WHERE d.a IN (20, 40);
    DELETE d, u FROM d STRAIGHT_JOIN u ON d.a = u.p WHERE d.a = 80;
    DELETE d, sn FROM d STRAIGHT_JOIN sn ON d.a = sn.p WHERE d.a = 70;
    CREATE TRIGGER g BEFORE DELETE ON s FOR EACH ROW DELETE FROM d WHERE a = OLD.p;
    DELETE FROM s WHERE a IN (30, 50, 60) ORDER BY a;
    BEGIN; INSERT INTO d VALUES (30); INSERT INTO s VALUES (30,30),(31,30); DELETE FROM s WHERE a = 30; INSERT INTO d VALUES (30);
    INSERT INTO s VALUES (30,30); UPDATE sn SET v = 9; COMMIT;
    UPDATE d, sn SET d.a = 91, sn.v = 5 WHERE d.a = sn.p; UPDATE sn, d SET d.a = 92, sn.v = 6 WHERE d.a = sn.p;
    CREATE TRIGGER gs BEFORE UPDATE ON sn FOR EACH ROW UPDATE d SET a = OLD.p + 1 WHERE a = OLD.p;
    UPDATE sn SET v = 2; UPDATE sn SET a = a + 10, v = 3; DROP TRIGGER gs;
    CREATE TRIGGER gn BEFORE UPDATE ON sn FOR EACH ROW DELETE FROM d WHERE a = OLD.p; UPDATE sn SET v = 4;";

/// Foreign keys that refer to each other, in two and three tables, of two columns of one table, of a table to itself.
const CYCLES: &str = "
    SET foreign_key_checks = 0;
    CREATE TABLE p (a INT UNIQUE, v INT, FOREIGN KEY (a) REFERENCES q (a) ON DELETE CASCADE ON UPDATE CASCADE);
    CREATE TABLE q (a INT UNIQUE, FOREIGN KEY (a) REFERENCES p (a) ON DELETE CASCADE ON UPDATE CASCADE);
    CREATE TABLE u (id INT PRIMARY KEY, a INT, UNIQUE (a), FOREIGN KEY (a) REFERENCES w (a) ON UPDATE CASCADE);
    CREATE TABLE w (id INT PRIMARY KEY, a INT, UNIQUE (a), FOREIGN KEY (a) REFERENCES u (a) ON UPDATE CASCADE);
    CREATE TABLE s (id INT PRIMARY KEY, a INT, b INT, UNIQUE (a), UNIQUE (b), FOREIGN KEY (a) REFERENCES s (b) ON DELETE CASCADE,
        FOREIGN KEY (b) REFERENCES s (a) ON DELETE CASCADE);
    CREATE TABLE c1 (id INT PRIMARY KEY, a INT UNIQUE, FOREIGN KEY (a) REFERENCES c2 (a) ON UPDATE CASCADE ON DELETE CASCADE);
    CREATE TABLE c2 (id INT PRIMARY KEY, a INT UNIQUE, FOREIGN KEY (a) REFERENCES c3 (a) ON UPDATE CASCADE ON DELETE CASCADE);
    CREATE TABLE c3 (a INT UNIQUE, v INT, FOREIGN KEY (a) REFERENCES c1 (a) ON UPDATE CASCADE ON DELETE CASCADE);
    CREATE TABLE t (a INT PRIMARY KEY, p INT, FOREIGN KEY (p) REFERENCES t (a) ON DELETE CASCADE);
    CREATE TABLE tn (a INT PRIMARY KEY, p INT, FOREIGN KEY (p) REFERENCES tn (a) ON DELETE SET NULL ON UPDATE CASCADE);
    INSERT INTO p VALUES (1,1),(2,2),(3,3),(4,4),(5,5); INSERT INTO q VALUES (1),(2),(3),(4),(5);
    INSERT INTO u VALUES (1,1),(2,2); INSERT INTO w VALUES (1,1),(2,2); INSERT INTO s VALUES (3,5,6),(4,6,5);
    INSERT INTO c1 VALUES (1,1),(2,2),(3,3); INSERT INTO c2 VALUES (1,1),(2,2),(3,3); INSERT INTO c3 VALUES (1,1),(2,2),(3,3);
    SET foreign_key_checks = 1;
    DELETE FROM p WHERE a = 1; UPDATE p SET a = 13 WHERE a = 2; UPDATE p SET a = 14, v = 40 WHERE a = 3;
    INSERT INTO p VALUES (4, 0) ON DUPLICATE KEY UPDATE a = 15, v = 50; UPDATE p SET v = v + 1; UPDATE p SET a = a + 100 ORDER BY a DESC;
    UPDATE u SET a = a + 8 ORDER BY id; DELETE FROM s WHERE id = 3;
    UPDATE c1 SET a = a + 10 WHERE id IN (1, 2) ORDER BY id; UPDATE c3 SET a = a + 20, v = 7 WHERE v < 3 ORDER BY v; DELETE FROM c1 WHERE id = 1; DELETE FROM c3;
    INSERT INTO t VALUES (1,NULL),(2,1),(3,2),(4,NULL),(5,4),(6,6); DELETE FROM t WHERE a IN (1, 2) ORDER BY a DESC;
    DELETE l, r FROM t l STRAIGHT_JOIN t r ON r.p = l.a WHERE l.a = 4; DELETE FROM t;
    INSERT INTO tn VALUES (1,NULL),(2,1),(3,2),(4,4); DELETE FROM tn WHERE a IN (1, 2, 4);";

/// Replays the statements under every kind of row image; returns how many changes were passed over.
fn follow(server: &Server, name: &str) -> u64 {
    let mut replica = Replica::follow(server, &folder(name), &["--cut-interval=100ms", "--check-images=all"]);
    for image in ["FULL", "MINIMAL", "NOBLOB"] {
        for (kind, statements) in [("joins", JOINS_AND_TRIGGERS), ("cycles", CYCLES)] {
            let db = format!("{name}_{kind}_{}", image.to_lowercase());
            server
                .sql(&format!("CREATE DATABASE {db}; USE {db}; SET SESSION binlog_row_image = {image};\n{statements}"));
            assert_equal(server, &mut replica, &[&db]);
        }
    }
    let status = replica.catch_up(server);
    let passed = status["replay"]["rows_logged_twice"].as_u64().unwrap();
    assert!(status["replay"]["logged_twice_last"].as_str().unwrap().contains(", GTID "), "{status}");
    replica.waits_for_log(&["SLIP-000088", "logs them twice; table `"]);
    replica.stop();
    passed
}

#[test]
fn cascades_in_the_log() {
    let passed = follow(&Server::start_unsynced("twice_logged", &[]), "twice");
    assert!(passed > 40, "{passed}");
}

#[test]
fn cascades_that_are_not_in_the_log() {
    let server = Server::start_unsynced("twice_native", &["--innodb-native-foreign-keys=ON"]);
    let passed = follow(&server, "twicen");
    assert!(passed > 10, "{passed}");
}

/// A transaction that travels in slices, its statement in one of them or over several.
#[test]
fn a_statement_larger_than_a_slice() {
    for (name, arguments) in [("logged", &[][..]), ("native", &["--innodb-native-foreign-keys=ON"][..])] {
        let server = Server::start_unsynced(&format!("twice_large_{name}"), arguments);
        let mut replica = Replica::follow(&server, &folder(&format!("twice_large_{name}")), &["--check-images=all"]);
        server.sql(
            "CREATE DATABASE large; USE large; SET SESSION cte_max_recursion_depth = 1000000;
             CREATE TABLE d (a INT PRIMARY KEY);
             CREATE TABLE s (a INT PRIMARY KEY, p INT, v VARCHAR(300), FOREIGN KEY (p) REFERENCES d (a) ON DELETE CASCADE);
             INSERT INTO d WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 20000) SELECT i FROM n;
             INSERT INTO s SELECT a, a, REPEAT('v', 300) FROM d; INSERT INTO s SELECT a + 100000, a, REPEAT('w', 300) FROM d;",
        );
        // A join of so many rows deletes each once: the trigger has them logged twice.
        server.sql(
            "USE large; CREATE TRIGGER g BEFORE DELETE ON s FOR EACH ROW DELETE FROM d WHERE a = OLD.p;
             BEGIN; UPDATE s SET v = REPEAT('x', 300); DELETE FROM s WHERE a > 10 AND a < 100000;
             INSERT INTO d VALUES (30); COMMIT",
        );
        assert_equal(&server, &mut replica, &["large"]);
        let status = replica.catch_up(&server);
        assert!(status["replay"]["rows_logged_twice"].as_u64().unwrap() > 1_000, "{status}");
        replica.stop();
    }
}

/// What the log does not prove: the source keeps a row that its own cascade deleted; one of equal rows without a key.
#[test]
fn what_the_log_does_not_prove() {
    let server = Server::start_unsynced("twice_unproved", &[]);
    let parent = "CREATE TABLE d (a INT PRIMARY KEY); INSERT INTO d VALUES (10);";
    let cases = [
        (
            "kept",
            "CREATE TABLE s (a INT PRIMARY KEY, p INT, v INT, FOREIGN KEY (p) REFERENCES d (a) ON DELETE CASCADE); INSERT INTO s VALUES (1,10,1);
             CREATE TRIGGER g BEFORE UPDATE ON s FOR EACH ROW DELETE FROM d WHERE a = OLD.p;",
            "UPDATE s SET v = 2",
            "updates a row that a cascade of the same statement deleted",
        ),
        (
            "equal",
            "CREATE TABLE k (a INT, p INT, KEY (p), FOREIGN KEY (p) REFERENCES d (a) ON DELETE CASCADE); INSERT INTO k VALUES (1,10),(1,10);",
            "DELETE d, k FROM d STRAIGHT_JOIN k ON d.a = k.p WHERE d.a = 10",
            "the row to change is not in the replica",
        ),
        (
            "moved",
            "CREATE TABLE m (a INT PRIMARY KEY, v INT, FOREIGN KEY (a) REFERENCES d (a) ON UPDATE CASCADE); INSERT INTO m VALUES (10,1);
             CREATE TRIGGER g BEFORE UPDATE ON m FOR EACH ROW UPDATE d SET a = 11 WHERE a = OLD.a;",
            "UPDATE m SET v = 2",
            "by a key that a cascade of the same statement changed",
        ),
    ];
    for (name, tables, statement, told) in cases {
        let db = format!("unproved_{name}");
        let replica = Replica::follow(&server, &folder(&db), &[]);
        server.sql(&format!("CREATE DATABASE {db}; USE {db}; {parent} {tables} {statement}"));
        replica.expect_exit(9, &["(1032)", told, &format!("`{db}`"), "GTID"]);
        // The next replica does not meet it.
        server.sql(&format!("DROP DATABASE {db}; RESET BINARY LOGS AND GTIDS"));
    }
}
