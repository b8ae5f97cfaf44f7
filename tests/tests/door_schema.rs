//! What a replica says of its schemas, tables, columns and keys is what the source says, packet by packet but for what
//! the log does not tell: sizes, times, numbers of rows.

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
SET time_zone = '+00:00';
CREATE TABLE told (
  id INT NOT NULL COMMENT 'it''s', s VARCHAR(9) DEFAULT ('it''s'), g VARCHAR(20) AS (CONCAT(s, '\\\\x')), i INT DEFAULT (id + 1),
  d TIMESTAMP DEFAULT '2020-01-02 03:04:05', CHECK (id > 0), CONSTRAINT nn CHECK (s <> 'q') NOT ENFORCED,
  KEY k ((id + 1)) COMMENT 'kc', PRIMARY KEY (id) USING BTREE
) COMMENT 'c' STATS_PERSISTENT=1 ROW_FORMAT=COMPACT MAX_ROWS=5 COMPRESSION='' CHECKSUM=1;
CREATE TABLE two_engines (a INT PRIMARY KEY SECONDARY_ENGINE_ATTRIBUTE '{}')
  SECONDARY_ENGINE=rapid SECONDARY_ENGINE_ATTRIBUTE '[]' COMPRESSION='zlib' PACK_KEYS=1 STATS_AUTO_RECALC=1
  PARTITION BY HASH (a);
CREATE DATABASE parts; USE parts;
CREATE TABLE a1 (id INT, d DATE, PRIMARY KEY (id, d)) PARTITION BY RANGE (YEAR(d)) SUBPARTITION BY KEY (id) SUBPARTITIONS 2
  (PARTITION p0 VALUES LESS THAN (1990) COMMENT = 'it''s COMMENT = ''y', PARTITION `p 1` VALUES LESS THAN MAXVALUE);
CREATE TABLE a2 (id INT, d DATE, PRIMARY KEY (id, d)) PARTITION BY RANGE COLUMNS (d, id)
  (PARTITION p0 VALUES LESS THAN ('2020-01-01', 5) MAX_ROWS = 5 COMMENT = 'c',
  PARTITION p1 VALUES LESS THAN (MAXVALUE, MAXVALUE));
CREATE TABLE a3 (id INT, v VARCHAR(5), PRIMARY KEY (id)) PARTITION BY KEY (id) PARTITIONS 2;
CREATE TABLE a4 (id INT) PARTITION BY LINEAR HASH (id + 1) PARTITIONS 2;
CREATE TABLE a5 (id INT) PARTITION BY LINEAR KEY (id);
CREATE TABLE a6 (id INT) PARTITION BY LIST (id) (PARTITION x VALUES IN (NULL, 3, 1), PARTITION y VALUES IN (5));
CREATE TABLE a7 (id INT, v VARCHAR(5)) PARTITION BY LIST COLUMNS (v)
  (PARTITION x VALUES IN ('a', NULL, 'b'), PARTITION y VALUES IN ('c'));
CREATE TABLE a8 (id INT, t TIMESTAMP NOT NULL) PARTITION BY RANGE (UNIX_TIMESTAMP(t))
  (PARTITION x VALUES LESS THAN (UNIX_TIMESTAMP('2020-01-01')), PARTITION y VALUES LESS THAN MAXVALUE);
CREATE TABLE a9 (id INT, b VARBINARY(5)) PARTITION BY RANGE COLUMNS (b)
  (PARTITION x VALUES LESS THAN ('m'), PARTITION y VALUES LESS THAN (MAXVALUE));
CREATE TABLE a10 (id INT UNSIGNED) PARTITION BY RANGE (id DIV 2) (PARTITION x VALUES LESS THAN (18446744073709551614));
CREATE TABLE a11 (a INT, b VARCHAR(10), PRIMARY KEY (a, b)) PARTITION BY LIST COLUMNS (a, b)
  (PARTITION q VALUES IN ((1, 'x'), (2, 'y''z')));
CREATE TABLE a12 (`a``b` INT) PARTITION BY HASH (`a``b`);
CREATE TABLE a13 (id INT, y INT) PARTITION BY LIST (id) SUBPARTITION BY LINEAR HASH (y)
  (PARTITION a VALUES IN (1) (SUBPARTITION s0 COMMENT = 'c0', SUBPARTITION s1),
  PARTITION b VALUES IN (2) (SUBPARTITION s2, SUBPARTITION s3));
CREATE TABLE a14 (id INT PRIMARY KEY) PARTITION BY KEY () PARTITIONS 2;
CREATE TABLE a15 (id INT);
USE d;
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
    /// Compares rows in their order.
    fn query_in_order(&mut self, sql: &str) {
        let rows = |client: &mut RawClient| result(&client.query(sql)).map(|(.., rows)| rows);
        let (ours, theirs) = (rows(&mut self.ours), rows(&mut self.theirs));
        self.rows += theirs.as_ref().map_or(0, Vec::len);
        if ours != theirs {
            self.different.push(format!("{sql}\nours\n{ours:?}\nMySQL's\n{theirs:?}"));
        }
    }

    /// Compares what a preparation says.
    fn prepare(&mut self, sql: &str) {
        let said = |client: &mut RawClient| {
            let mut packets = client.prepare(sql);
            // Behind an OK stands the statement's number.
            if packets[0][0] == 0 {
                packets[0].drain(1..5);
            }
            packets.iter().map(|packet| packet.escape_ascii().to_string()).collect::<Vec<_>>()
        };
        let (ours, theirs) = (said(&mut self.ours), said(&mut self.theirs));
        if ours != theirs {
            let only = ours.iter().zip(&theirs).filter(|(one, other)| one != other).take(3);
            let only: String = only.map(|(one, other)| format!("  {one}\n  {other}\n")).collect();
            self.different.push(format!("prepare {sql}: {} packets, {} of MySQL\n{only}", ours.len(), theirs.len()));
        }
    }

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
        // A sort describes columns of views by its temporary table, and so do some plans of SHOW with a condition.
        let by_plan = ["ORDER BY", "WHERE `Database`", "TABLES WHERE Table_type", "types WHERE Table_type"];
        if mine.1 != real.1 || mine.0 != real.0 && !by_plan.iter().any(|words| sql.contains(words)) {
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

/// No word is taken for a name where MySQL takes it for none, or the other way round. Numbers of errors may differ: a
/// construct that begins with the word is refused before the statement's end is read.
fn words_are_reserved_as_at_the_source(server: &Server, pair: &mut Pair) {
    const FORMS: &[&str] = &[
        "SELECT {} FROM d.p",
        "SELECT p.{} FROM d.p",
        "SELECT 1 AS {}",
        "SELECT 1 {}",
        "SELECT {}()",
        "SELECT id FROM {}",
        "SELECT id FROM {}.p",
        "SELECT id FROM d.{}",
        "SELECT id FROM d.p AS {}",
        "SELECT id FROM d.p {}",
        "SELECT @@{}",
        "SAVEPOINT {}",
        "USE {}",
        "SHOW CREATE TABLE {}",
        "SET {} = 1",
    ];
    let words = server.sql("SELECT WORD FROM information_schema.KEYWORDS");
    for sql in words.lines().flat_map(|word| FORMS.iter().map(move |form| form.replace("{}", word))) {
        let said = |client: &mut RawClient| {
            let packets = client.prepare(&sql);
            match packets[0][0] {
                0 => client.close(u32::from_le_bytes(packets[0][1..5].try_into().unwrap())),
                _ => return Some(u16::from_le_bytes([packets[0][1], packets[0][2]])),
            }
            None
        };
        let (ours, theirs) = (said(&mut pair.ours), said(&mut pair.theirs));
        let is_refused = match ours {
            Some(1064) => theirs.is_some(),
            Some(1235) => true,
            Some(_) => theirs == Some(1064),
            None => false,
        };
        if ours != theirs && !is_refused {
            pair.different.push(format!("{sql}: {ours:?}, {theirs:?} of MySQL"));
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
        pair.query(&format!("SHOW CREATE TABLE d.{table}"), &[]);
    }
    for ty in &types {
        pair.query(&format!("SHOW FULL COLUMNS FROM types.t_{}", ty.name), &[]);
        pair.query(&format!("SHOW CREATE TABLE types.t_{}", ty.name), &[]);
    }
    pair.query("USE d", &[]);
    for skipped in ["ON", "OFF"] {
        pair.query(&format!("SET SESSION show_create_table_skip_secondary_engine = {skipped}"), &[]);
        pair.query("SHOW CREATE TABLE two_engines", &[]);
        pair.query("SHOW CREATE TABLE told", &[]);
    }
    let in_d = "WHERE TABLE_SCHEMA = 'd'";
    for (sql, but) in [
        ("SHOW COLUMNS FROM c LIKE 'a%'", &[][..]),
        ("SHOW COLUMNS FROM c WHERE Field IN ('b', 'w') AND `Key` = 'PRI'", &[]),
        ("SHOW COLUMNS FROM c WHERE Extra LIKE '%on update CURRENT_TIMESTAMP%'", &[]),
        ("DESC c 'g_'", &[]),
        ("DESC c g", &[]),
        ("SHOW INDEX FROM c WHERE Key_name = 'uk'", &["Cardinality"]),
        ("SHOW CREATE TABLE told", &[]),
        ("SHOW CREATE TABLE missing", &[]),
        ("SHOW CREATE TABLE missing.t", &[]),
        ("SHOW CREATE DATABASE d", &[]),
        ("SHOW CREATE SCHEMA IF NOT EXISTS types", &[]),
        ("SHOW CREATE DATABASE missing", &[]),
        ("SHOW CREATE DATABASE performance_schema", &[]),
        ("SHOW CREATE DATABASE information_schema", &[]),
        ("SHOW INDEX FROM told", &["Cardinality"]),
        ("SHOW FULL COLUMNS FROM told", &[]),
        ("SELECT * FROM information_schema.CHECK_CONSTRAINTS WHERE CONSTRAINT_SCHEMA = 'd'", &[]),
        ("SELECT * FROM information_schema.TABLE_CONSTRAINTS WHERE TABLE_NAME = 'told'", &[]),
        (
            "SELECT COLUMN_NAME, COLUMN_DEFAULT, GENERATION_EXPRESSION FROM information_schema.COLUMNS WHERE TABLE_NAME = 'told'",
            &[],
        ),
        ("SELECT TABLE_NAME, CREATE_OPTIONS FROM information_schema.TABLES WHERE TABLE_NAME = 'told'", &[]),
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
        ("SELECT SCHEMA_NAME FROM information_schema.SCHEMATA WHERE SCHEMA_NAME <> 'sys' ORDER BY 1", &[]),
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
    for sql in [
        "SHOW PROCEDURE STATUS WHERE Db = ?",
        "SHOW FUNCTION STATUS",
        "SHOW TRIGGERS",
        "SHOW TRIGGERS FROM d WHERE `Trigger` = ?",
        "SHOW EVENTS",
        "SHOW EVENTS WHERE Name = ?",
        "SHOW TABLES",
        "SHOW FULL TABLES FROM d",
        "SHOW TABLES FROM d LIKE 'a'",
        "SHOW FULL TABLES WHERE Table_type = ?",
        "SHOW TABLE STATUS",
        "SHOW TABLE STATUS WHERE Name = ?",
        "SHOW DATABASES",
        "SHOW DATABASES LIKE 'd'",
        "SHOW DATABASES WHERE `Database` = ?",
        "SHOW COLUMNS FROM c",
        "SHOW FULL COLUMNS FROM c WHERE Field = ?",
        "SHOW COLUMNS FROM c LIKE 'a'",
        "DESCRIBE c",
        "SHOW INDEX FROM c",
        "SHOW INDEX FROM c WHERE Key_name = ?",
        "SHOW CHARACTER SET",
        "SHOW CHARACTER SET WHERE Charset = ?",
        "SHOW COLLATION",
        "SHOW COLLATION LIKE 'utf8mb4%'",
        "SHOW COLLATION WHERE Charset = ?",
        "SHOW VARIABLES",
        "SHOW VARIABLES WHERE Variable_name = ?",
        "SHOW GLOBAL STATUS LIKE 'Uptime'",
        "SHOW STATUS WHERE Variable_name = ?",
        "SHOW PROCESSLIST",
        "SHOW FULL PROCESSLIST",
        "SHOW ENGINES",
        "SHOW PLUGINS",
        "SHOW WARNINGS",
        "SHOW COUNT(*) WARNINGS",
        "SHOW CREATE TABLE c",
        "SHOW CREATE DATABASE d",
        "SHOW GRANTS",
        "SHOW REPLICA STATUS",
        "SHOW REPLICAS",
        "SHOW BINARY LOG STATUS",
        "SELECT * FROM information_schema.STATISTICS WHERE TABLE_SCHEMA = ? ORDER BY INDEX_NAME",
        "SELECT TABLE_SCHEMA AS s, NON_UNIQUE, NULL AS q, 3 AS TYPE, CARDINALITY FROM information_schema.STATISTICS ORDER BY 1",
        "SELECT TABLE_SCHEMA AS s, NON_UNIQUE, NULL AS q, 3 AS TYPE, CARDINALITY FROM information_schema.STATISTICS",
        "SELECT * FROM information_schema.TABLES WHERE TABLE_SCHEMA = ? ORDER BY TABLE_NAME",
        "SELECT * FROM information_schema.ROUTINES ORDER BY ROUTINE_NAME",
        "SELECT * FROM information_schema.PARTITIONS ORDER BY PARTITION_NAME",
        "SELECT 3 AS TYPE, NULL AS n, 'a' AS t, TABLE_NAME FROM information_schema.TABLES",
        "SELECT 3 AS TYPE, NULL AS n, 'a' AS t, a FROM c",
    ] {
        pair.prepare(sql);
    }
    // Named, columns come from the view; by `*` from below it.
    let named = server.sql(
        "SET group_concat_max_len = 100000; SELECT CONCAT(GROUP_CONCAT(COLUMN_NAME ORDER BY ORDINAL_POSITION),
         ' FROM information_schema.', TABLE_NAME) FROM information_schema.COLUMNS
         WHERE TABLE_SCHEMA = 'information_schema' GROUP BY TABLE_NAME",
    );
    named.lines().for_each(|columns| pair.prepare(&format!("SELECT {columns}")));
    words_are_reserved_as_at_the_source(&server, &mut pair);
    pair.query(&format!("SELECT * FROM information_schema.COLUMNS {in_d}"), &["GENERATION_EXPRESSION"]);
    pair.query(&format!("SELECT * FROM information_schema.STATISTICS {in_d}"), &["CARDINALITY"]);
    for (columns, table) in [
        ("table_name, Engine, TABLE_COMMENT AS n", "tables"),
        ("column_name, data_type, t.extra, ordinal_position", "COLUMNS"),
        ("constraint_name, t.table_name, referenced_column_name", "key_column_usage"),
    ] {
        pair.query(&format!("SELECT {columns} FROM information_schema.{table} t {in_d} LIMIT 500"), &[]);
    }
    let sizes = [
        "TABLE_ROWS",
        "AVG_ROW_LENGTH",
        "DATA_LENGTH",
        "MAX_DATA_LENGTH",
        "INDEX_LENGTH",
        "DATA_FREE",
        "CREATE_TIME",
        "UPDATE_TIME",
    ];
    for schema in ["d", "parts", "performance_schema"] {
        pair.query(&format!("SELECT * FROM information_schema.PARTITIONS WHERE TABLE_SCHEMA = '{schema}'"), &sizes);
    }
    for (columns, rest) in [
        (
            "TABLE_NAME, COLUMN_NAME, COLUMN_KEY",
            "COLUMNS WHERE TABLE_SCHEMA = 'd' ORDER BY COLUMN_KEY DESC, TABLE_NAME, 2",
        ),
        ("TABLE_TYPE AS kind, TABLE_NAME", "TABLES WHERE TABLE_SCHEMA = 'd' ORDER BY kind, TABLE_NAME"),
        ("TABLE_NAME n", "TABLES t WHERE TABLE_SCHEMA = 'parts' ORDER BY t.TABLE_NAME DESC LIMIT 3"),
        (
            "constraint_name, delete_rule",
            "referential_constraints WHERE CONSTRAINT_SCHEMA = 'd' ORDER BY delete_rule, 1",
        ),
        ("COLLATION_NAME", "COLLATIONS WHERE CHARACTER_SET_NAME = 'utf8mb4' ORDER BY PAD_ATTRIBUTE, ID LIMIT 20"),
    ] {
        pair.query_in_order(&format!("SELECT {columns} FROM information_schema.{rest}"));
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
    for schema in ["information_schema", "performance_schema"] {
        let sql = format!("SELECT * FROM information_schema.TABLES WHERE TABLE_SCHEMA = '{schema}'");
        let not_told: &[&str] =
            if schema == "information_schema" { &["CREATE_TIME"] } else { &["TABLE_ROWS", "CREATE_TIME"] };
        pair.query(&sql, not_told);
        for (table, own) in [
            ("COLUMNS", "PRIVILEGES"),
            ("STATISTICS", "CARDINALITY"),
            ("TABLE_CONSTRAINTS", ""),
            ("KEY_COLUMN_USAGE", ""),
        ] {
            let sql = format!("SELECT * FROM information_schema.{table} WHERE TABLE_SCHEMA = '{schema}'");
            pair.query(&sql, &[own]);
        }
        let tables =
            server.sql(&format!("SELECT TABLE_NAME FROM information_schema.TABLES WHERE TABLE_SCHEMA = '{schema}'"));
        assert!(tables.lines().count() > 70, "{tables}");
        for table in tables.lines() {
            pair.query_in_order(&format!("SHOW COLUMNS FROM {schema}.{table}"));
            pair.query(&format!("SHOW FULL COLUMNS FROM {table} FROM {schema}"), &["Privileges"]);
            pair.query_in_order(&format!("SHOW INDEX FROM {table} IN {schema}"));
        }
        pair.query(&format!("USE {schema}"), &[]);
        for sql in [
            "DESCRIBE threads",
            "DESC THREADS",
            "DESC schemata",
            "SHOW COLUMNS FROM SCHEMATA WHERE `Null` = 'YES'",
            "SHOW COLUMNS FROM threads LIKE 'p%id'",
            "EXPLAIN processlist host",
            "SHOW INDEX FROM threads WHERE Key_name = 'NAME'",
            "SHOW INDEX FROM Information_Schema.nope",
            "SHOW COLUMNS FROM Performance_Schema.threads",
            "SHOW COLUMNS FROM nope",
        ] {
            pair.query(sql, &[]);
        }
        pair.query("USE d", &[]);
    }
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
    // Whether some columns can be NULL depends on the mode. Not of what LIMIT 0 describes by another plan.
    let views =
        server.sql("SELECT TABLE_NAME FROM information_schema.TABLES WHERE TABLE_SCHEMA = 'information_schema'");
    let none_of = |view: &str| format!("SELECT * FROM information_schema.{view} LIMIT 0");
    let same = |view: &&str| {
        let definitions = |client: &mut RawClient| result(&client.query(none_of(view))).map(|(one, ..)| one);
        definitions(&mut pair.ours) == definitions(&mut pair.theirs)
    };
    let views: Vec<&str> = views.lines().filter(same).collect();
    assert!(views.len() > 40, "{views:?}");
    for mode in ["''", "'STRICT_ALL_TABLES'", "'NO_ENGINE_SUBSTITUTION'", "DEFAULT"] {
        let set = format!("SET sql_mode = {mode}");
        pair.ours.query(&set);
        pair.theirs.query(&set);
        views.iter().for_each(|view| pair.query(&none_of(view), &[]));
        for show in ["COLUMNS", "FULL COLUMNS", "INDEX"] {
            pair.query(&format!("SHOW {show} FROM d.c"), &["Cardinality"]);
        }
    }
    // So many tables that they are listed beside the loop, and more rows than are sent in one turn.
    let table = |n: usize| {
        let columns: String = (0..9).map(|column| format!(", c{column} VARCHAR({}) DEFAULT 'x'", n + 1)).collect();
        format!("CREATE TABLE many.t{n} (id INT PRIMARY KEY{columns}, KEY (c1, c2));")
    };
    server.sql(&format!("CREATE DATABASE many; {}", (0..250).map(table).collect::<String>()));
    replica.catch_up(&server);
    let (before, in_many) = (pair.rows, "WHERE TABLE_SCHEMA = 'many'");
    pair.query(&format!("SELECT * FROM information_schema.COLUMNS {in_many}"), &[]);
    pair.query(&format!("SELECT * FROM information_schema.STATISTICS {in_many}"), &["CARDINALITY"]);
    pair.query(&format!("SELECT COUNT(*) FROM information_schema.TABLE_CONSTRAINTS {in_many}"), &[]);
    pair.query(
        "SELECT COUNT(*) FROM information_schema.TABLES WHERE TABLE_SCHEMA <> 'mysql' AND TABLE_SCHEMA <> 'sys'",
        &[],
    );
    for columns in ["TABLE_NAME, COLUMN_NAME, CHARACTER_MAXIMUM_LENGTH", "COLUMN_KEY"] {
        let by = "CHARACTER_MAXIMUM_LENGTH, COLUMN_KEY, TABLE_NAME, COLUMN_NAME";
        pair.query_in_order(&format!("SELECT {columns} FROM information_schema.COLUMNS {in_many} ORDER BY {by}"));
    }
    assert!(pair.rows - before > 8_000, "{} rows", pair.rows - before);
    let shown: String = pair.different.iter().take(20).map(|one| format!("{one}\n")).collect();
    assert!(pair.different.is_empty(), "{} differ\n{shown}", pair.different.len());
    assert!(pair.rows > 500, "{} rows", pair.rows);
}
