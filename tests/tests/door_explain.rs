//! EXPLAIN says how a table is read here, in MySQL's words: tools that look at a replica before they change its source
//! (pt-online-schema-change, pt-table-checksum) must not fail because of it.

use testkit::raw_client::{CAPABILITIES, RawClient};
use whole_program_tests::{Replica, Server, folder};

const TABLES: &str = "CREATE DATABASE e; USE e;
    CREATE TABLE t (id INT PRIMARY KEY, a INT NOT NULL, b VARCHAR(20), c BIGINT UNSIGNED, d DATETIME,
                    KEY a (a), UNIQUE u (c));
    INSERT INTO t SELECT n, n % 10, CONCAT('x', n), n, NOW()
        FROM (WITH RECURSIVE r AS (SELECT 1 n UNION ALL SELECT n + 1 FROM r WHERE n < 500) SELECT n FROM r) x;
    ANALYZE TABLE t";

/// Cells of the one row; None is NULL.
fn row(answer: &[Vec<u8>]) -> Vec<Option<String>> {
    let (mut rest, mut cells) = (&answer[answer.len() - 2][..], Vec::new());
    while let Some((len, after)) = rest.split_first() {
        rest = after;
        cells.push((*len != 0xfb).then(|| {
            let (text, after) = rest.split_at(usize::from(*len));
            rest = after;
            String::from_utf8(text.to_vec()).unwrap()
        }));
    }
    cells
}

#[test]
fn explain_names_the_way_to_the_rows() {
    let Some(server) = Server::or_skip("door-explain", &[]) else { return };
    server.sql(TABLES);
    let (mut replica, socket) = Replica::with_socket(&server, &folder("door-explain"), &[]);
    replica.catch_up(&server);
    let mut ours = RawClient::over_socket(&socket, "admin", CAPABILITIES);
    let mut theirs = RawClient::over_socket(&server.socket(), "root", CAPABILITIES);
    let traditional = "SET SESSION explain_format = 'TRADITIONAL'";
    assert_eq!(ours.query(traditional), theirs.query(traditional));
    for (sql, kind) in [
        ("SELECT * FROM e.t WHERE id = 5", Some("const")),
        ("SELECT * FROM e.t WHERE c = 5", Some("const")),
        ("SELECT * FROM e.t AS x WHERE x.a = 3", Some("ref")),
        ("SELECT * FROM e.t WHERE id > 5 AND id < 10", Some("range")),
        ("SELECT * FROM e.t WHERE id IN (5, 6)", Some("range")),
        ("SELECT * FROM e.t", Some("ALL")),
        ("SELECT * FROM e.t WHERE d IS NULL", Some("ALL")),
        ("SELECT * FROM e.t ORDER BY a LIMIT 3", Some("index")),
        ("SELECT 1", None),
        ("SELECT * FROM e.t WHERE 1 = 0", None),
    ] {
        let (mine, real) = (ours.query(format!("EXPLAIN {sql}")), theirs.query(format!("EXPLAIN {sql}")));
        // Definitions of columns, which tools take cells by.
        assert_eq!(mine[..13], real[..13], "{sql}");
        let (mine, real) = (row(&mine), row(&real));
        assert_eq!(mine[4].as_deref(), kind, "{sql}");
        // id, select_type, table, partitions, type; key; ref.
        assert_eq!((&mine[..5], &mine[6], &mine[8]), (&real[..5], &real[6], &real[8]), "{sql}");
        assert_eq!(mine[9].is_some(), kind.is_some(), "an estimate of rows: {sql}");
    }
    assert_eq!(row(&ours.query("EXPLAIN SELECT * FROM e.t"))[9].as_deref(), Some("500"));
    let tree = ours.query("EXPLAIN FORMAT = TREE SELECT * FROM e.t WHERE a = 3");
    assert_eq!(row(&tree)[0].as_deref(), Some("-> Index lookup on t using a  (rows=50)\n"));
    for sql in ["EXPLAIN FORMAT = XYZ SELECT 1", "EXPLAIN SELECT * FROM e.missing", "EXPLAIN SELECT x FROM e.t"] {
        assert_eq!(ours.query(sql), theirs.query(sql), "{sql}");
    }
    // Answered with 1235, as before.
    for sql in ["EXPLAIN FORMAT = JSON SELECT 1", "EXPLAIN UPDATE e.t SET a = 1", "EXPLAIN ANALYZE SELECT 1"] {
        assert!(ours.query(sql)[0].starts_with(b"\xff\xd3\x04"), "{sql}");
    }
    for sql in ["SET GLOBAL read_only = 1", "SET GLOBAL super_read_only = ON, GLOBAL read_only = TRUE", "FLUSH LOGS"] {
        assert_eq!(ours.query(sql), theirs.query(sql), "{sql}");
    }
    replica.stop();
}
