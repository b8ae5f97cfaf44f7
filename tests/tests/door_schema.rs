//! What a replica says of its schemas, tables, columns and keys is what the source says, packet by packet but for what
//! the log does not tell: sizes, times, numbers of rows, texts of expressions.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::collections::BTreeSet;

use testkit::raw_client::{CAPABILITIES, RawClient};
use whole_program_tests::all_types::{create, types};
use whole_program_tests::{Replica, Server, folder};
use wire::read::Reader;
use wire::response::ColumnDefinition;

const TABLES: &str = "
CREATE DATABASE d COLLATE utf8mb4_bin;
USE d;
CREATE TABLE p (id INT PRIMARY KEY, u VARCHAR(20) UNIQUE, UNIQUE two (u, id));
CREATE TABLE c (
  a TINYINT(1) NOT NULL DEFAULT 1, b BOOL, c INT UNSIGNED ZEROFILL, d DECIMAL(10,2) DEFAULT '1.5',
  e ENUM('a','b''c','é') NOT NULL DEFAULT 'a', f SET('x','y') DEFAULT 'x,y',
  g DATETIME(3) DEFAULT CURRENT_TIMESTAMP(3) ON UPDATE CURRENT_TIMESTAMP(3), h TIMESTAMP NULL COMMENT 'it''s',
  i BIT(5) DEFAULT b'101', j JSON, k VARBINARY(10) DEFAULT 0x6162, l TEXT CHARACTER SET latin1,
  m POINT NOT NULL SRID 4326, n INT GENERATED ALWAYS AS (a+1) VIRTUAL, o INT AS (a+2) STORED INVISIBLE,
  p FLOAT(7,2) UNSIGNED, q DOUBLE DEFAULT 1e10, r YEAR DEFAULT 2024, s TIME(2) DEFAULT '10:11:12', t CHAR(5) DEFAULT '',
  v INT DEFAULT 7 INVISIBLE, w BIGINT AUTO_INCREMENT, x BLOB, y DATE DEFAULT '2020-01-02', z VECTOR(3), zz VECTOR,
  a1 INT, b1 MEDIUMINT UNSIGNED DEFAULT 5, c1 TINYINT(1) UNSIGNED, d1 BINARY(4) DEFAULT 'ab', e1 LONGTEXT, f1 TINYBLOB,
  g1 VARCHAR(300) CHARACTER SET utf16 DEFAULT 'é', h1 CHAR(0), i1 GEOMETRYCOLLECTION, j1 TIMESTAMP(6) DEFAULT NOW(6),
  k1 DOUBLE(9,3), l1 BIGINT UNSIGNED, m1 SMALLINT(5), n1 TINYINT(2) NULL, o1 INT(4) ZEROFILL, p1 INT1(1) NOT NULL,
  PRIMARY KEY (w, e), UNIQUE KEY uk (d, c DESC), KEY lk (l(5)), SPATIAL KEY sk (m), FULLTEXT KEY ft (l),
  KEY inv (r) INVISIBLE, UNIQUE (y), UNIQUE (t, y),
  CONSTRAINT fk1 FOREIGN KEY (a1) REFERENCES p (id) ON DELETE CASCADE ON UPDATE SET NULL) COMMENT 'tc';
CREATE TABLE self (id INT, b INT NOT NULL, PRIMARY KEY (b), UNIQUE nn (id, b), FOREIGN KEY (id) REFERENCES self (b));
CREATE TABLE unique_only (x INT, id INT NOT NULL, UNIQUE (x), UNIQUE (id)) ENGINE=MyISAM;
CREATE TABLE no_key (a INT, b INT, KEY (b), KEY (b, a)) PARTITION BY HASH (a) PARTITIONS 3;
CREATE TABLE later (a INT);
ALTER TABLE later ADD b BOOL NOT NULL FIRST, ADD c VARCHAR(7) CHARACTER SET ascii DEFAULT 'q' AFTER b, ADD PRIMARY KEY (a);
ALTER TABLE later MODIFY c VARCHAR(9) CHARACTER SET ascii COMMENT 'c', RENAME COLUMN b TO bb, ADD KEY (c, bb);
";

/// A source, its replica, and a session at each.
struct Pair {
    ours: RawClient,
    theirs: RawClient,
    different: Vec<String>,
    rows: usize,
}

type Cells = Vec<Option<Vec<u8>>>;

/// Packets of the columns, their names, and rows as cells; or the error.
type Answer = Result<(Vec<Vec<u8>>, Vec<String>, Vec<Cells>), String>;

fn result(packets: &[Vec<u8>]) -> Answer {
    if matches!(packets[0][0], 0 | 0xff) {
        return Err(packets[0].escape_ascii().to_string());
    }
    let count = usize::from(packets[0][0]);
    let definitions = packets[1..=count].to_vec();
    let names =
        definitions.iter().map(|one| String::from_utf8_lossy(ColumnDefinition::parse(one).unwrap().name).into_owned());
    let names: Vec<String> = names.collect();
    let cells = |packet: &Vec<u8>| {
        let mut rest = packet.as_slice();
        (0..count)
            .map(|_| {
                if rest[0] == 0xfb {
                    rest = &rest[1..];
                    return None;
                }
                let mut reader = Reader::new(rest);
                let bytes = reader.lenenc_bytes("cell").unwrap().to_vec();
                rest = &rest[rest.len() - reader.rest().len()..];
                Some(bytes)
            })
            .collect()
    };
    Ok((definitions, names, packets[count + 1..packets.len() - 1].iter().map(cells).collect()))
}

impl Pair {
    /// Compares all but these columns; rows in any order.
    fn query(&mut self, sql: &str, but: &[&str]) {
        let (ours, theirs) = (result(&self.ours.query(sql)), result(&self.theirs.query(sql)));
        let shown = |side: &Answer| match side {
            Err(error) => (Vec::new(), BTreeSet::from([error.clone()])),
            Ok((definitions, names, rows)) => {
                let cell = |cell: &Option<Vec<u8>>| match cell {
                    Some(bytes) => format!("'{}'", bytes.escape_ascii()),
                    None => "NULL".to_owned(),
                };
                let row = |row: &Cells| {
                    let kept = names.iter().zip(row).filter(|(name, _)| !but.contains(&name.as_str()));
                    kept.map(|(name, one)| format!("{}={}", name.to_lowercase(), cell(one)))
                        .collect::<Vec<_>>()
                        .join(" ")
                };
                (definitions.clone(), rows.iter().map(row).collect())
            }
        };
        let (mine, real) = (shown(&ours), shown(&theirs));
        self.rows += real.1.len();
        // A sort describes columns of views by its temporary table, and a condition on the name of SHOW DATABASES does
        // something like it.
        if mine.1 != real.1 || mine.0 != real.0 && !sql.contains("ORDER BY") && !sql.contains("WHERE `Database`") {
            let only = |one: &BTreeSet<String>, other: &BTreeSet<String>| -> String {
                one.difference(other).take(5).map(|row| format!("  {row}\n")).collect()
            };
            let columns = mine.0.iter().zip(&real.0).filter(|(one, other)| one != other).take(3);
            let columns: String =
                columns.map(|(one, other)| format!("  {}\n  {}\n", one.escape_ascii(), other.escape_ascii())).collect();
            let (mine, real) = (only(&mine.1, &real.1), only(&real.1, &mine.1));
            self.different.push(format!("{sql}\ncolumns\n{columns}ours\n{mine}MySQL's\n{real}"));
        }
    }
}

#[test]
fn what_is_said_of_tables_is_what_the_source_says() {
    let Some(server) = Server::or_skip("door-schema", &[]) else { return };
    server.sql(TABLES);
    server.sql("CREATE DATABASE types CHARACTER SET utf8mb4");
    let types = types(&["latin1", "utf8mb4", "binary", "sjis", "utf32"]);
    server.sql(&format!("USE types;\n{}", types.iter().map(create).collect::<String>()));
    let (mut replica, socket) = Replica::with_socket(&server, &folder("door-schema"), &[]);
    server.sql(
        "CREATE TABLE d.by_log (id INT(5) PRIMARY KEY, b BOOLEAN DEFAULT TRUE, v VARCHAR(5) DEFAULT 'x', KEY (v(2)))",
    );
    replica.catch_up(&server);
    let mut pair = Pair {
        ours: RawClient::over_socket(&socket, "admin", CAPABILITIES),
        theirs: RawClient::over_socket(&server.socket(), "root", CAPABILITIES),
        different: Vec::new(),
        rows: 0,
    };
    let tables = ["p", "c", "self", "unique_only", "no_key", "later", "by_log"];
    for table in tables {
        for sql in ["SHOW COLUMNS FROM d.{}", "SHOW FULL FIELDS FROM {} FROM d", "DESCRIBE d.{}", "EXPLAIN d.{}"] {
            pair.query(&sql.replace("{}", table), &[]);
        }
        pair.query(&format!("SHOW KEYS FROM {table} IN d"), &["Cardinality"]);
    }
    for ty in &types {
        pair.query(&format!("SHOW FULL COLUMNS FROM types.t_{}", ty.name), &[]);
    }
    pair.query("USE d", &[]);
    let in_d = "WHERE TABLE_SCHEMA = 'd'";
    for (sql, but) in [
        ("SHOW COLUMNS FROM c LIKE 'a%'", &[][..]),
        ("SHOW COLUMNS FROM c WHERE Field IN ('b', 'w') AND `Key` = 'PRI'", &[]),
        ("SHOW COLUMNS FROM c WHERE Extra LIKE '%on update CURRENT_TIMESTAMP%'", &[]),
        ("DESC c 'g_'", &[]),
        ("DESC c g", &[]),
        ("SHOW INDEX FROM c WHERE Key_name = 'uk'", &["Cardinality"]),
        ("SHOW COLUMNS FROM missing", &[]),
        ("SHOW COLUMNS FROM missing.t", &[]),
        ("SHOW INDEX FROM d.missing", &[]),
        ("SHOW TABLE STATUS FROM missing", &[]),
        ("SHOW TABLES FROM information_schema LIKE 'C%'", &[]),
        ("SHOW FULL TABLES FROM performance_schema LIKE 'r%'", &[]),
        ("SHOW TABLES", &[]),
        ("SHOW FULL TABLES FROM d LIKE '%e%'", &[]),
        ("SHOW DATABASES LIKE 'd'", &[]),
        ("SHOW DATABASES WHERE `Database` = 'types'", &[]),
        ("SHOW FULL TABLES WHERE Table_type = 'BASE TABLE' AND Tables_in_d LIKE 'n%'", &[]),
        ("SHOW FULL TABLES FROM types WHERE Table_type = 'VIEW'", &[]),
        ("SHOW TRIGGERS", &[]),
        ("SHOW TRIGGERS LIKE 'c'", &[]),
        ("SHOW EVENTS FROM d", &[]),
        ("SHOW FUNCTION STATUS WHERE Db = 'd'", &[]),
        ("SHOW PROCEDURE STATUS WHERE Db = 'd'", &[]),
        (
            "SELECT SCHEMA_NAME FROM information_schema.SCHEMATA WHERE SCHEMA_NAME NOT IN ('mysql', 'sys') ORDER BY 1",
            &[],
        ),
        (
            "SELECT SCHEMA_NAME, DEFAULT_COLLATION_NAME FROM information_schema.schemata WHERE SCHEMA_NAME = DATABASE()",
            &[],
        ),
        (
            "SELECT TABLE_NAME, COLUMN_NAME FROM information_schema.COLUMNS WHERE TABLE_NAME = 'c' AND TABLE_SCHEMA = 'd' AND DATA_TYPE = 'int' ORDER BY ORDINAL_POSITION DESC",
            &[],
        ),
        ("SELECT COUNT(*) FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = 'types'", &[]),
        (
            "SELECT table_name FROM information_schema.tables WHERE table_schema = 'd' AND table_type = 'BASE TABLE' ORDER BY table_name",
            &[],
        ),
        ("SELECT * FROM information_schema.VIEWS WHERE TABLE_SCHEMA = 'd'", &[]),
    ] {
        pair.query(sql, but);
    }
    pair.query(&format!("SELECT * FROM information_schema.COLUMNS {in_d}"), &["GENERATION_EXPRESSION"]);
    pair.query(&format!("SELECT * FROM information_schema.STATISTICS {in_d}"), &["CARDINALITY"]);
    for (columns, table) in [
        ("table_name, Engine, TABLE_COMMENT AS n", "tables"),
        ("column_name, data_type, t.extra, ordinal_position", "COLUMNS"),
        ("constraint_name, t.table_name, referenced_column_name", "key_column_usage"),
    ] {
        pair.query(&format!("SELECT {columns} FROM information_schema.{table} t {in_d} LIMIT 500"), &[]);
    }
    pair.query(&format!("SELECT * FROM information_schema.TABLE_CONSTRAINTS {in_d}"), &[]);
    pair.query(&format!("SELECT * FROM information_schema.KEY_COLUMN_USAGE {in_d}"), &[]);
    pair.query("SELECT * FROM information_schema.REFERENTIAL_CONSTRAINTS WHERE CONSTRAINT_SCHEMA = 'd'", &[]);
    let not_told = [
        "ROW_FORMAT",
        "TABLE_ROWS",
        "AVG_ROW_LENGTH",
        "DATA_LENGTH",
        "MAX_DATA_LENGTH",
        "INDEX_LENGTH",
        "DATA_FREE",
        "AUTO_INCREMENT",
        "CREATE_TIME",
        "UPDATE_TIME",
        "CHECK_TIME",
    ];
    pair.query(&format!("SELECT * FROM information_schema.TABLES {in_d}"), &not_told);
    let not_told = [
        "Row_format",
        "Rows",
        "Avg_row_length",
        "Data_length",
        "Max_data_length",
        "Index_length",
        "Data_free",
        "Auto_increment",
        "Create_time",
        "Update_time",
        "Check_time",
    ];
    pair.query("SHOW TABLE STATUS", &not_told);
    pair.query("SHOW TABLE STATUS FROM d LIKE 'c'", &not_told);
    let shown: String = pair.different.iter().take(20).map(|one| format!("{one}\n")).collect();
    assert!(pair.different.is_empty(), "{} differ\n{shown}", pair.different.len());
    assert!(pair.rows > 500, "{} rows", pair.rows);
}
