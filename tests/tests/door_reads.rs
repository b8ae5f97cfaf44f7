//! Rows that a client reads from a replica's tables are those of the source, packet by packet: definitions, values in
//! both formats, errors.

use std::fmt::Write as _;

use testkit::raw_client::{CAPABILITIES, RawClient};
use whole_program_tests::all_types::{Counts, Type, changes, create, settings, types};
use whole_program_tests::{Replica, Server, folder, wait_for};
use wire::row::Param;

/// A source, its replica, and a session at each.
struct Pair {
    ours: RawClient,
    theirs: RawClient,
    /// Whether SERVER_QUERY_NO_INDEX_USED may differ: MySQL folds conditions that no row can fulfil, or does not.
    any_index: bool,
    compared: usize,
    refused: Vec<String>,
    different: Vec<String>,
}

fn shown(packets: &[Vec<u8>]) -> String {
    let mut text = String::new();
    for packet in packets {
        let shown = packet.escape_ascii().to_string();
        writeln!(text, "  {}", shown.get(..300).unwrap_or(&shown)).unwrap();
    }
    text
}

impl Pair {
    fn of(server: &Server, socket: &std::path::Path, capabilities: u32) -> Pair {
        let ours = RawClient::over_socket(socket, "admin", capabilities);
        let theirs = RawClient::over_socket(&server.socket(), "root", capabilities);
        Pair { ours, theirs, any_index: false, compared: 0, refused: Vec::new(), different: Vec::new() }
    }

    fn note(&mut self, what: &str, ours: &[Vec<u8>], theirs: &[Vec<u8>]) {
        self.compared += 1;
        if ours.first().is_some_and(|first| first.starts_with(b"\xff\xd3\x04")) {
            let text = String::from_utf8_lossy(ours[0].get(9..).unwrap_or_default()).into_owned();
            self.refused.push(format!("{what}: {text}"));
        } else if ours != theirs {
            self.different.push(format!("{what}\n ours\n{} MySQL's\n{}", shown(ours), shown(theirs)));
        }
    }

    fn query(&mut self, sql: &str) {
        let (mut ours, mut theirs) = (self.ours.query(sql), self.theirs.query(sql));
        [&mut ours, &mut theirs].into_iter().for_each(|answer| without_empty_change(answer));
        if self.any_index {
            [&mut ours, &mut theirs].into_iter().for_each(|answer| without_index_flag(answer));
        }
        self.note(sql, &ours, &theirs);
    }

    /// Prepares a statement and runs it with each list of parameters.
    fn prepared(&mut self, sql: &str, runs: &[Vec<Param<'_>>]) {
        let (mut ours, mut theirs) = (self.ours.prepare(sql), self.theirs.prepare(sql));
        // Refused statements take no number here.
        let (own, other) = (statement_id(&mut ours), statement_id(&mut theirs));
        self.note(&format!("prepare {sql}"), &ours, &theirs);
        if let (Some(own), Some(other)) = (own, other) {
            for params in runs {
                let (mut ours, mut theirs) = (self.ours.execute(own, 0, params), self.theirs.execute(other, 0, params));
                if self.any_index {
                    [&mut ours, &mut theirs].into_iter().for_each(|answer| without_index_flag(answer));
                }
                self.note(&format!("execute {sql} {params:?}"), &ours, &theirs);
            }
        }
        own.into_iter().for_each(|id| self.ours.close(id));
        other.into_iter().for_each(|id| self.theirs.close(id));
    }

    fn assert_same(&self, least: usize) {
        println!("{} compared, {} refused", self.compared, self.refused.len());
        self.refused.iter().for_each(|refused| println!("refused: {}", refused.get(..200).unwrap_or(refused)));
        let shown: String = self.different.iter().take(40).map(|one| format!("{one}\n")).collect();
        assert!(self.different.is_empty(), "{} differ\n{shown}", self.different.len());
        assert!(self.compared >= least, "{} compared", self.compared);
    }
}

/// MySQL says of some SETs that the session has changed, and then not what.
fn without_empty_change(answer: &mut [Vec<u8>]) {
    for packet in answer {
        if let [0, 0, 0, _, status, _, _, 0, 0] = packet.as_mut_slice() {
            *status &= !0x40;
            packet.truncate(7);
        }
    }
}

/// Clears the flag in packets that end rows.
fn without_index_flag(answer: &mut [Vec<u8>]) {
    for packet in answer {
        if let [0xfe, _, _, status, _, ..] = packet.as_mut_slice() {
            *status &= !0x20;
        }
    }
}

/// Takes the number of a prepared statement out of its answer; None for an error.
fn statement_id(answer: &mut [Vec<u8>]) -> Option<u32> {
    let [0, number @ ..] = answer[0].as_mut_slice() else { return None };
    let number: &mut [u8; 4] = number.get_mut(..4)?.try_into().ok()?;
    Some(u32::from_le_bytes(std::mem::take(number)))
}

/// Makes a table of each type, with rows that were changed and deleted.
fn fill(server: &Server, types: &[Type]) {
    let mut sql = String::from("USE types;\n");
    sql.extend(types.iter().map(create));
    sql.push_str(&settings(0));
    for ty in types {
        sql.push_str(&changes(ty, 0, &mut Counts::default()));
    }
    server.sql(&sql);
}

#[test]
fn every_type_is_read_as_mysql_sends_it() {
    let Some(server) = Server::or_skip("door-reads", &["--max-allowed-packet=1G"]) else { return };
    server.sql("CREATE DATABASE types CHARACTER SET utf8mb4");
    let names = server.sql("SELECT CHARACTER_SET_NAME FROM information_schema.character_sets ORDER BY 1");
    let types = types(&names.lines().collect::<Vec<_>>());
    fill(&server, &types);
    let (_replica, socket) = Replica::with_socket(&server, &folder("door-reads"), &[]);
    // Some of each table are there, some were deleted.
    let ids: Vec<i64> = (200..206).chain(498..506).collect();
    for (capabilities, before) in [
        (CAPABILITIES, vec![]),
        (
            CAPABILITIES & !wire::handshake::capability::DEPRECATE_EOF,
            vec!["SET NAMES latin1", "SET time_zone='+05:30'"],
        ),
        (CAPABILITIES, vec!["SET character_set_results=NULL", "SET time_zone='-13:59'"]),
    ] {
        let mut pair = Pair::of(&server, &socket, capabilities);
        pair.query("USE types");
        before.iter().for_each(|sql| pair.query(sql));
        for ty in &types {
            let table = format!("t_{}", ty.name);
            pair.query(&format!("SELECT * FROM {table} ORDER BY id"));
            for id in &ids {
                pair.query(&format!("SELECT v, x.id i FROM {table} AS x WHERE id = {id}"));
            }
            let runs: Vec<Vec<Param<'_>>> = ids.iter().map(|id| vec![Param::Int(*id)]).collect();
            pair.prepared(&format!("SELECT n, v, 1, 'é' FROM {table} WHERE id = ?"), &runs);
        }
        pair.assert_same(types.len() * 10);
    }
}

/// Constants of every kind that a condition may compare with.
const CONSTANTS: &[&str] = &[
    "0",
    "1",
    "-1",
    "7",
    "127",
    "255",
    "65536",
    "18446744073709551615",
    "-9223372036854775808",
    "1.5",
    "-0.0001",
    "99999999999.25",
    "1e3",
    "-1.5e-3",
    "''",
    "'a'",
    "'A'",
    "'abc '",
    "'é'",
    "'5'",
    "'-7'",
    "'1.5'",
    "'x5'",
    "'5x'",
    "'2024-02-29'",
    "'2024-02-29 12:30:45'",
    "'2024-02-29 12:30:45.654321'",
    "'1999-12-31 23:59:59.999999'",
    "'0000-00-00'",
    "'2024-02-31'",
    "'12:30:45'",
    "'-838:59:59'",
    "20240229",
    "20240229123045",
    "123045",
    "2024",
    "99",
    "x'61'",
    "x'00ff'",
    "b'101'",
    "TRUE",
    "FALSE",
    "NULL",
];

/// Conditions over `v` with one constant.
const ONE: &[&str] =
    &["v = {}", "v <=> {}", "v <> {}", "v < {}", "v <= {}", "v > {}", "v >= {}", "{} < v", "v LIKE {}"];

/// Conditions with two constants, or none.
const MORE: &[&str] = &[
    "v IN ({}, {})",
    "v NOT IN ({}, {})",
    "v BETWEEN {} AND {}",
    "v NOT BETWEEN {} AND {}",
    "v >= {} AND v < {}",
    "v IS NULL",
    "v IS NOT NULL",
    "v = {} AND n IS NOT NULL AND id > 3",
];

/// Every type under conditions with constants of every kind: what is answered is MySQL's, warnings counted, the rest is
/// refused by name.
#[test]
fn conditions_choose_the_rows_that_mysql_chooses() {
    let Some(server) = Server::or_skip("door-conditions", &["--max-allowed-packet=1G"]) else { return };
    server.sql("CREATE DATABASE types CHARACTER SET utf8mb4");
    let types = types(&["latin1", "sjis", "ucs2", "utf8mb4"]);
    fill(&server, &types);
    let (_replica, socket) = Replica::with_socket(&server, &folder("door-conditions"), &[]);
    let mut pair = Pair::of(&server, &socket, CAPABILITIES);
    pair.any_index = true;
    pair.query("USE types");
    let mut random = whole_program_tests::Random::new(21);
    for ty in &types {
        // Not all of 43 constants with all forms: a few of them, and the type's own values.
        let own: Vec<&str> = ty.values.iter().map(String::as_str).filter(|value| is_literal(value)).collect();
        let constant = |random: &mut whole_program_tests::Random| {
            let from: &[&str] = if own.is_empty() || random.below(100) < 60 { CONSTANTS } else { &own };
            random.pick(from).to_owned()
        };
        for form in ONE {
            for _ in 0..whole_program_tests::length(4, 43) {
                let condition = form.replace("{}", &constant(&mut random));
                pair.query(&format!("SELECT id, v FROM t_{} WHERE {condition} ORDER BY id", ty.name));
            }
        }
        pair.query(&format!("SELECT COUNT(*) FROM t_{}", ty.name));
        pair.query(&format!("SELECT v FROM t_{} LIMIT 3", ty.name));
        for form in MORE {
            for _ in 0..whole_program_tests::length(2, 20) {
                let mut condition = form.to_string();
                while condition.contains("{}") {
                    condition = condition.replacen("{}", &constant(&mut random), 1);
                }
                pair.query(&format!("SELECT COUNT(*) FROM t_{} WHERE {condition}", ty.name));
                pair.query(&format!("SELECT id FROM t_{} WHERE {condition} ORDER BY id DESC LIMIT 2, 5", ty.name));
            }
        }
        let parameters = [Param::Int(7), Param::Int(-1), Param::Double(1.5), Param::Bytes(b"a"), Param::Bytes(b"5")];
        for operator in ["=", "<", ">=", "LIKE", "NOT LIKE"] {
            let sql = format!("SELECT id FROM t_{} WHERE v {operator} ? ORDER BY id", ty.name);
            pair.prepared(&sql, &parameters.iter().map(|one| vec![*one]).collect::<Vec<_>>());
        }
        // How parameters are described depends on character sets.
        for names in ["SET NAMES latin1", "SET NAMES binary", "SET character_set_results = NULL", "SET NAMES utf8mb4"] {
            pair.query(names);
            pair.prepared(&format!("SELECT id FROM t_{} WHERE v = ?", ty.name), &[]);
            pair.prepared(&format!("SELECT id FROM t_{} WHERE v LIKE ? AND v > ? AND v IN (?)", ty.name), &[]);
        }
    }
    pair.assert_same(types.len() * 40);
}

/// A value that stands in a statement as one literal.
fn is_literal(value: &str) -> bool {
    let inner = value.trim_start_matches(['-', 'x', 'b']);
    let quoted = inner.len() > 1
        && inner.starts_with('\'')
        && inner.ends_with('\'')
        && !inner[1..inner.len() - 1].contains('\'');
    value.len() < 100 && (quoted || inner.parse::<f64>().is_ok())
}

/// Statements about the tables of `SHOP`; each is answered as MySQL answers it, or refused by name.
const STATEMENTS: &[&str] = &[
    "SELECT * FROM shop.o",
    "SELECT * FROM nope.o",
    "SELECT * FROM o",
    "USE shop",
    "SELECT * FROM o",
    "SELECT * FROM nothing",
    "SELECT nothing FROM o",
    "SELECT o.nothing, a FROM o",
    "SELECT x.a FROM o",
    "SELECT a FROM o AS x WHERE o.a = 1",
    "SELECT x.* FROM o AS x LIMIT 1",
    "SELECT o.*, a FROM shop.o",
    "SELECT *, a AS b FROM o WHERE a = 3",
    "SELECT a FROM o WHERE c = {d '2020-01-01'}",
    "SELECT a FROM o WHERE a = {fn 3}",
    "SELECT a FROM o WHERE a <= {} LIMIT 1",
    "SELECT a FROM o WHERE a <= {fn } LIMIT 1",
    "SELECT a FROM o WHERE a <= {fn 3 LIMIT 1",
    "SELECT a FROM o WHERE a <= {3} LIMIT 1",
    "SELECT a FROM o WHERE a <= } LIMIT 1",
    "SELECT A, `B` AS `c d`, 1, 'x', NULL, NOW() IS NULL FROM O LIMIT 1",
    "SELECT A, `B` AS `c d`, 1, 'x', NULL FROM o ORDER BY a LIMIT 1",
    "SELECT NOW(), a, NOW(2), CURDATE(), CURTIME(3), UNIX_TIMESTAMP(), UTC_TIMESTAMP(6) FROM o LIMIT 0",
    "SELECT a FROM o WHERE a < NOW()",
    "SELECT hidden, a FROM o WHERE hidden = 4",
    "SELECT a FROM o WHERE nothing = 1",
    "SELECT a FROM o ORDER BY nothing",
    "SELECT a FROM o ORDER BY a DESC",
    "SELECT a, b FROM o ORDER BY b, a",
    "SELECT a, b FROM o ORDER BY b DESC, a DESC LIMIT 5",
    "SELECT a, b FROM o WHERE b = 2 ORDER BY a",
    "SELECT b FROM o WHERE b IN (1, 3) ORDER BY b",
    "SELECT a, b FROM o WHERE b > 1 AND b <= 3 ORDER BY b, a LIMIT 3 OFFSET 2",
    "SELECT a, c FROM o WHERE c LIKE 'na%' ORDER BY c, a",
    "SELECT a, c FROM o WHERE c LIKE '%e_5' ORDER BY a",
    "SELECT a FROM o WHERE c = 'NAME 5' ORDER BY a",
    "SELECT COUNT(*) FROM o",
    "SELECT COUNT(*) AS n FROM o WHERE b = 1",
    "SELECT count(*), COUNT(*) FROM o LIMIT 1",
    "SELECT COUNT(*), a FROM o",
    "SELECT COUNT(a) FROM o",
    "SELECT a FROM o WHERE a = 1 OR b = 2",
    "SELECT a + 1 FROM o",
    "SELECT DISTINCT b FROM o",
    "SELECT b, COUNT(*) FROM o GROUP BY b",
    "SELECT a FROM o JOIN p USING (a)",
    "SELECT a FROM o, p",
    "SELECT a FROM (SELECT 1 AS a) AS x",
    "SELECT a FROM o WHERE a IN (SELECT 1)",
    "SELECT a FROM o LIMIT 0",
    "SELECT a FROM o WHERE 1 = 0",
    "SELECT a FROM o WHERE TRUE ORDER BY a LIMIT 2",
    "SELECT a FROM o WHERE b IS NULL",
    "SELECT b FROM o FORCE INDEX (b) WHERE b = 1 ORDER BY b, a LIMIT 3",
    "SELECT a FROM o AS x USE INDEX (primary, `b`) IGNORE KEY FOR ORDER BY (C) WHERE a = 3",
    "SELECT a FROM o USE INDEX () WHERE a = 3",
    "SELECT a FROM o FORCE INDEX (nothing) WHERE a = 3",
    "SELECT a FROM o FORCE INDEX (prim) WHERE a = 3",
    "SELECT a FROM o x FORCE INDEX FOR JOIN (z) WHERE a = 3",
    "SELECT a FROM o USE INDEX (b) FORCE INDEX (c) WHERE a = 3",
    "SELECT a FROM o FORCE INDEX () WHERE a = 3",
    "SELECT a FROM o USE (b) WHERE a = 3",
    "SELECT a FROM o WHERE a IS NULL",
    "SELECT a FROM o WHERE a <=> NULL AND b = 1 ORDER BY a",
    "SELECT COUNT(*) FROM p WHERE x IS NULL",
    "SELECT y FROM p WHERE x = 1 AND y IS NULL ORDER BY y LIMIT 1",
    "SELECT COUNT(*) FROM keyless WHERE a IS NOT NULL",
    "SELECT x, y FROM p WHERE x = 1 AND y = 'b'",
    "SELECT x, y FROM p WHERE x = 1 AND y > 'a' ORDER BY y",
    "SELECT x, y, z FROM p WHERE x >= 1 AND x < 3 ORDER BY x, y",
    "SELECT x, y FROM p ORDER BY x, y LIMIT 2",
    "SELECT * FROM keyless WHERE a = 1 LIMIT 1",
    "SELECT * FROM v",
    "SELECT 1 FROM o LIMIT 2; SELECT a FROM o WHERE a = 2; SELECT 'end'",
    "SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED",
    "BEGIN",
    "SELECT a FROM o WHERE a = 2",
    "COMMIT",
    "SET SESSION TRANSACTION ISOLATION LEVEL REPEATABLE READ",
    "BEGIN",
    "SELECT a FROM o WHERE a = 2",
    "ROLLBACK",
    "SET autocommit = 0",
    "SELECT a FROM o WHERE a = 2",
    "SET autocommit = 1",
    "SELECT a FROM o WHERE a = 2",
    "SELECT * FROM mysql.user",
    "SELECT * FROM mysql.user",
];

/// Columns of the table in the test below, with the keys over them. Those of `wide` have values beyond 63 bits.
const INTEGERS: &str = "CREATE TABLE integers (
    id INT PRIMARY KEY, tiny TINYINT, small SMALLINT UNSIGNED NOT NULL, medium MEDIUMINT, wide BIGINT UNSIGNED,
    word VARCHAR(8) COLLATE utf8mb4_0900_ai_ci,
    KEY (tiny, small), KEY (small DESC, id), KEY (medium DESC), KEY (wide, word), KEY (word, tiny))";

/// Rows that a path to them has chosen already are not asked again; several conditions on the columns of a key, with
/// bounds on both sides, one inside another, beyond the type and with fractions, leave the rows that MySQL's leave.
#[test]
fn conditions_on_the_integers_of_keys_choose_the_rows_that_mysql_chooses() {
    let Some(server) = Server::or_skip("door-integers", &[]) else { return };
    let values = |random: &mut whole_program_tests::Random| {
        let small = random.below(9) as i64 - 4;
        let of = |random: &mut whole_program_tests::Random, values: &[&str]| {
            if random.below(4) == 0 {
                random.pick(values).to_owned()
            } else {
                (small + random.below(3) as i64).to_string()
            }
        };
        let tiny = of(random, &["NULL", "-128", "127"]);
        let unsigned = random.pick(&["0", "1", "2", "3", "65535"]).to_owned();
        let medium = of(random, &["NULL", "-8388608", "8388607"]);
        let wide = random.pick(&["NULL", "0", "1", "2", "9223372036854775808", "18446744073709551615"]).to_owned();
        let word = random.pick(&["NULL", "'a'", "'A'", "'b'", "''"]).to_owned();
        format!("{tiny}, {unsigned}, {medium}, {wide}, {word}")
    };
    let mut random = whole_program_tests::Random::new(34);
    let rows: Vec<String> = (0..400).map(|id| format!("({}, {})", id - 200, values(&mut random))).collect();
    server.sql(&format!("CREATE DATABASE i; USE i; {INTEGERS}; INSERT INTO integers VALUES {}", rows.join(", ")));
    let (_replica, socket) = Replica::with_socket(&server, &folder("door-integers"), &[]);
    let mut pair = Pair::of(&server, &socket, CAPABILITIES);
    pair.any_index = true;
    pair.query("USE i");
    let constants = ["-4", "-1", "0", "1", "2", "3", "5", "300", "-300", "127", "1.5", "-0.5", "65535", "'2'", "NULL"];
    let wide = ["18446744073709551615", "9223372036854775807", "18446744073709551616", "-1", "1"];
    let forms = ["= {}", "<=> {}", "< {}", "<= {}", "> {}", ">= {}", "BETWEEN {} AND {}", "IN ({}, {})", "<> {}"];
    let columns = ["id", "tiny", "small", "medium", "wide"];
    for _ in 0..whole_program_tests::length(1_500, 60_000) {
        // Mostly several conditions on one column.
        let first = random.pick(&columns).to_owned();
        let conditions: Vec<String> = (0..=random.below(3))
            .map(|_| {
                let column = if random.below(3) > 0 { first.clone() } else { random.pick(&columns).to_owned() };
                let mut condition = format!("{column} {}", random.pick(&forms));
                while condition.contains("{}") {
                    let from: &[&str] = if random.below(5) == 0 { &wide } else { &constants };
                    condition = condition.replacen("{}", random.pick(from), 1);
                }
                match random.below(12) {
                    0 => format!("{column} IS NULL"),
                    1 => format!("{column} IS NOT NULL"),
                    2 => format!("word {}", random.pick(&["= 'a'", "> 'a'", "IN ('b', 'A', 'a')", "LIKE 'a%'"])),
                    _ => condition,
                }
            })
            .collect();
        let direction = random.pick(&["", " DESC"]).to_owned();
        // By the column itself, so that its key is a path; of equal values nothing else is asked, and id has none.
        let conditions = conditions.join(" AND ");
        pair.query(&format!("SELECT COUNT(*) FROM integers WHERE {conditions}"));
        pair.query(&format!("SELECT {first} FROM integers WHERE {conditions} ORDER BY {first}{direction}"));
        pair.query(&format!("SELECT * FROM integers WHERE {conditions} ORDER BY id{direction} LIMIT 7"));
    }
    pair.assert_same(2_000);
}

/// Types with a key each, ascending or not, and values of theirs, as they are inserted and as constants.
const KEYED: &[(&str, &[&str])] = &[
    ("DECIMAL(6,2)", &["-1.5", "0", "1", "1.10", "2.25", "9999.99", "'1.1'", "1.105"]),
    ("DOUBLE", &["-1.5", "0", "1", "1e3", "2.25", "-1e-3", "1000"]),
    ("DATE", &["'2024-02-29'", "'1999-12-31'", "'2024-03-01'", "'1000-01-01'", "'2024-02-29 00:00:00'", "20240229"]),
    ("DATETIME(3)", &["'2024-02-29 01:02:03.5'", "'2024-02-29'", "'1999-12-31 23:59:59.999'", "'2024-02-29 01:02:03'"]),
    ("TIME(1)", &["'-10:00:00'", "'00:00:00'", "'10:11:12.3'", "'838:59:59'", "'10:11:12'", "'-00:00:00.1'"]),
    ("YEAR", &["1901", "2024", "2155", "1999", "2000"]),
    (
        "VARCHAR(9) COLLATE utf8mb4_0900_ai_ci",
        &["'a'", "'A'", "'á'", "'b'", "''", "'a '", "'ab'", "'ß'", "'ss'", "'_'"],
    ),
    ("VARCHAR(9) COLLATE utf8mb4_general_ci", &["'a'", "'A'", "'á'", "'b'", "''", "'a '", "'ab'", "'ß'", "'ss'"]),
    ("CHAR(9) COLLATE utf8mb4_bin", &["'a'", "'A'", "'á'", "'b'", "''", "'a '", "'ab'", "'a\t'"]),
    ("VARBINARY(9)", &["'a'", "'A'", "'b'", "''", "'a '", "'ab'", "x'00'", "x'6100'"]),
    ("ENUM('b', 'a', 'c')", &["'a'", "'b'", "'c'", "'B'", "1", "3", "'no'", "0"]),
    ("ENUM('x', '')", &["'x'", "''", "1", "2", "'no'", "0"]),
    ("BIT(9)", &["b'0'", "b'1'", "b'101'", "b'111111111'", "5", "-1"]),
    ("BIT(64)", &["b'0'", "1", "18446744073709551615", "-1", "9223372036854775808"]),
];

/// As for integers, of other types: several conditions, members of IN that are equal, an order by the key's column.
#[test]
fn conditions_on_keys_of_every_order_choose_the_rows_that_mysql_chooses() {
    let Some(server) = Server::or_skip("door-keyed", &[]) else { return };
    let mut random = whole_program_tests::Random::new(35);
    server.sql("CREATE DATABASE k CHARACTER SET utf8mb4");
    for (table, (ty, values)) in KEYED.iter().enumerate() {
        let rows: Vec<String> = (0..120)
            .map(|id| {
                let value = if random.below(9) == 0 { "NULL".to_owned() } else { random.pick(values).to_owned() };
                format!("({id}, {value}, {})", random.below(3))
            })
            .collect();
        server.sql(&format!(
            "SET NAMES utf8mb4; USE k; CREATE TABLE k{table} (id INT PRIMARY KEY, v {ty}, n INT NOT NULL,
             KEY ({}), KEY (n, {})); INSERT IGNORE INTO k{table} VALUES {}",
            ["v", "v DESC", "v DESC, n"][table % 3],
            ["v DESC", "v"][table % 2],
            rows.join(", ")
        ));
    }
    let (_replica, socket) = Replica::with_socket(&server, &folder("door-keyed"), &[]);
    let mut pair = Pair::of(&server, &socket, CAPABILITIES);
    pair.any_index = true;
    pair.query("USE k");
    let forms = [
        "v = {}",
        "v <=> {}",
        "v < {}",
        "v <= {}",
        "v > {}",
        "v >= {}",
        "v BETWEEN {} AND {}",
        "v IN ({}, {}, {})",
        "v IN ({}, {})",
        "v <> {}",
        "v NOT IN ({}, {})",
        "v IS NOT NULL",
        "v IS NULL",
        "n IN (2, 0)",
        "n = 1",
        "n < 2",
        "v LIKE {}",
    ];
    for _ in 0..whole_program_tests::length(200, 10_000) {
        for (table, (_, values)) in KEYED.iter().enumerate() {
            let conditions: Vec<String> = (0..=random.below(3))
                .map(|_| {
                    let mut condition = random.pick(&forms).to_owned();
                    while condition.contains("{}") {
                        condition = condition.replacen("{}", random.pick(values), 1);
                    }
                    condition
                })
                .collect();
            let conditions = conditions.join(" AND ");
            let order = random.pick(&["v", "v DESC", "n, v", "n, v DESC", "n DESC, v DESC", "n DESC, v"]).to_owned();
            pair.query(&format!("SELECT COUNT(*) FROM k{table} WHERE {conditions}"));
            // Equal texts may differ in their bytes; of equal values the order is nobody's.
            let is_text = KEYED.get(table).is_some_and(|(ty, _)| ty.contains("CHAR"));
            match (is_text, order.starts_with('n')) {
                (true, true) => pair.query(&format!("SELECT n FROM k{table} WHERE {conditions} ORDER BY {order}")),
                (true, false) => {}
                (false, true) => pair.query(&format!("SELECT n, v FROM k{table} WHERE {conditions} ORDER BY {order}")),
                (false, false) => pair.query(&format!("SELECT v FROM k{table} WHERE {conditions} ORDER BY {order}")),
            }
            pair.query(&format!("SELECT id, v, n FROM k{table} WHERE {conditions} ORDER BY id DESC LIMIT 9"));
        }
    }
    // MySQL compares the strings of these.
    let dates = "SELECT id FROM k2 WHERE v <=> '2024-02-29' AND v < '2024-02-29 00:00:00'";
    pair.query(dates);
    assert!(pair.refused.iter().any(|refused| refused.starts_with(dates)), "{:?}", pair.refused);
    pair.assert_same(3_000);
}

/// The statement as programs write it that save blanks.
fn without_blanks(sql: &str) -> String {
    let signs = [" = ", " >= ", " > ", " <= ", " < ", " + ", ", "];
    signs.iter().fold(sql.to_owned(), |sql, sign| sql.replace(sign, sign.trim()))
}

#[test]
fn statements_of_one_table_are_answered_or_refused() {
    let Some(server) = Server::or_skip("door-statements", &[]) else { return };
    server.sql(
        "CREATE DATABASE shop; USE shop;
         CREATE TABLE o (a INT PRIMARY KEY, b INT, c VARCHAR(40), hidden INT INVISIBLE DEFAULT 4, KEY (b), KEY (c));
         INSERT INTO o (a, b, c) SELECT n, n MOD 5, CONCAT('name ', n) FROM (WITH RECURSIVE s (n) AS (SELECT 1 UNION ALL
         SELECT n + 1 FROM s WHERE n < 300) SELECT n FROM s) x;
         CREATE TABLE p (x INT, y VARCHAR(5), z INT, PRIMARY KEY (x, y));
         INSERT INTO p VALUES (1, 'a', 1), (1, 'B', 2), (1, 'c', 3), (2, 'a', 4), (3, 'é', 5), (3, 'f', 6);
         CREATE TABLE keyless (a INT); INSERT INTO keyless VALUES (1), (1), (2);
         CREATE VIEW v AS SELECT a FROM o",
    );
    let (_replica, socket) = Replica::with_socket(&server, &folder("door-statements"), &[]);
    let mut pair = Pair::of(&server, &socket, CAPABILITIES & !wire::handshake::capability::SESSION_TRACK);
    pair.any_index = true;
    STATEMENTS.iter().for_each(|sql| pair.query(sql));
    for sql in STATEMENTS.iter().filter(|sql| sql.starts_with("SELECT")) {
        pair.prepared(sql, &[vec![], vec![]]);
        pair.query(&without_blanks(sql));
    }
    pair.prepared("SELECT c FROM o WHERE a=?", &[vec![Param::Int(7)]]);
    pair.prepared(
        "SELECT a, c FROM o WHERE b = ? AND a > ? ORDER BY a LIMIT ?",
        &[
            vec![Param::Int(1), Param::Int(20), Param::Int(3)],
            vec![Param::Int(2), Param::Int(-1), Param::Int(0)],
            vec![Param::Null, Param::Int(2), Param::Int(2)],
        ],
    );
    pair.assert_same(100);
}

/// A statement of a reader at both servers, or one that writes at the source.
enum Step {
    Read(&'static str),
    Write(&'static str),
}

use Step::{Read, Write};

/// What a transaction sees while the source goes on.
const TRANSACTIONS: &[Step] = &[
    Read("USE t"),
    Read("BEGIN"),
    Read("SELECT 1"),
    Write("INSERT INTO t.a VALUES (2, 20)"),
    // The first read of a table pins.
    Read("SELECT * FROM a ORDER BY id"),
    Write("UPDATE t.a SET n = n + 1; DELETE FROM t.a WHERE id = 1; INSERT INTO t.b VALUES (1)"),
    Read("SELECT * FROM a ORDER BY id"),
    Read("SELECT COUNT(*) FROM b"),
    Read("SAVEPOINT s"),
    Read("SELECT * FROM nothing"),
    Read("SELECT n FROM a WHERE id = 2"),
    Read("ROLLBACK TO s"),
    Read("SELECT n FROM a WHERE id = 2"),
    Read("COMMIT AND CHAIN"),
    Read("SELECT * FROM a ORDER BY id"),
    Write("UPDATE t.a SET n = n + 1"),
    Read("SELECT * FROM a ORDER BY id"),
    Read("ROLLBACK"),
    Read("SELECT * FROM a ORDER BY id"),
    // Pinned at once.
    Read("START TRANSACTION WITH CONSISTENT SNAPSHOT, READ ONLY"),
    Write("UPDATE t.a SET n = n + 1"),
    Read("SELECT * FROM a ORDER BY id"),
    Read("BEGIN"),
    Read("SELECT * FROM a ORDER BY id"),
    Read("COMMIT"),
    // Each statement anew.
    Read("SET TRANSACTION ISOLATION LEVEL READ COMMITTED"),
    Read("BEGIN"),
    Read("SELECT * FROM a ORDER BY id"),
    Write("UPDATE t.a SET n = n + 1"),
    Read("SELECT * FROM a ORDER BY id"),
    Read("COMMIT"),
    Read("START TRANSACTION READ ONLY"),
    Read("SELECT * FROM a ORDER BY id"),
    Write("UPDATE t.a SET n = n + 1"),
    Read("SELECT * FROM a ORDER BY id"),
    Read("SET TRANSACTION ISOLATION LEVEL READ COMMITTED"),
    Read("COMMIT"),
    // A session that does not commit by itself.
    Read("SET autocommit = 0"),
    Read("SELECT 1"),
    Read("SAVEPOINT early"),
    Read("SELECT nothing FROM a"),
    Read("SELECT * FROM a ORDER BY id LIMIT 0"),
    Read("ROLLBACK TO early"),
    Write("UPDATE t.a SET n = n + 1"),
    Read("SELECT * FROM a ORDER BY id"),
    Write("UPDATE t.a SET n = n + 1"),
    Read("SELECT * FROM a ORDER BY id"),
    Read("SET TRANSACTION READ ONLY"),
    Read("COMMIT"),
    Read("SET TRANSACTION READ ONLY"),
    Read("SELECT * FROM a ORDER BY id"),
    Write("UPDATE t.a SET n = n + 1"),
    Read("SELECT * FROM a WHERE id = 2"),
    Read("ROLLBACK"),
    Read("SELECT * FROM a WHERE id = 2"),
    Read("SET autocommit = 1"),
    Read("SELECT * FROM a WHERE id = 2"),
    Write("UPDATE t.a SET n = n + 1"),
    Read("SELECT * FROM a WHERE id = 2"),
    Read("SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED"),
    Read("SET autocommit = 0"),
    Read("SELECT * FROM a WHERE id = 2"),
    Write("UPDATE t.a SET n = n + 1"),
    Read("SELECT * FROM a WHERE id = 2"),
    Read("COMMIT"),
    Read("SET autocommit = 1, SESSION transaction_isolation = 'SERIALIZABLE'"),
    Read("BEGIN"),
    Read("SELECT * FROM b"),
    Read("COMMIT"),
    // What reads the dictionary's tables begins a transaction and pins; SHOW CREATE does neither.
    Read("SET SESSION transaction_isolation = 'REPEATABLE-READ'"),
    Read("SET autocommit = 0"),
    Read("SHOW CREATE TABLE b"),
    Read("SHOW CREATE DATABASE t"),
    Read("DO 0"),
    Write("UPDATE t.a SET n = n + 1"),
    Read("SHOW COLUMNS FROM b"),
    Read("DO 0"),
    Write("UPDATE t.a SET n = n + 1"),
    Read("SELECT * FROM a WHERE id = 2"),
    Read("COMMIT"),
    Read("SHOW TABLES LIKE 'b'"),
    Write("UPDATE t.a SET n = n + 1"),
    Read("SELECT * FROM a WHERE id = 2"),
    Read("COMMIT"),
    Read("SHOW CREATE TABLE b"),
    Write("UPDATE t.a SET n = n + 1"),
    Read("SELECT * FROM a WHERE id = 2"),
    Read("SET autocommit = 1"),
];

/// Levels that the session sets meanwhile; what tracking says of these is not compared.
const LEVELS: &[Step] = &[
    // What the session sets in a transaction holds from the next COMMIT on, not from the next BEGIN.
    Read("SET SESSION transaction_isolation = 'READ-COMMITTED'"),
    Read("BEGIN"),
    Read("SELECT * FROM a WHERE id = 2"),
    Read("SELECT * FROM a WHERE id = 2"),
    Read("SET SESSION transaction_isolation = 'REPEATABLE-READ'"),
    Write("UPDATE t.a SET n = n + 1"),
    Read("SELECT * FROM a WHERE id = 2"),
    Read("BEGIN"),
    Read("START TRANSACTION WITH CONSISTENT SNAPSHOT"),
    Read("SHOW WARNINGS"),
    Read("SELECT * FROM a WHERE id = 2"),
    Write("UPDATE t.a SET n = n + 1"),
    Read("SELECT * FROM a WHERE id = 2"),
    Read("COMMIT AND CHAIN"),
    Read("SELECT * FROM a WHERE id = 2"),
    Write("UPDATE t.a SET n = n + 1"),
    Read("SELECT * FROM a WHERE id = 2"),
    Read("COMMIT"),
    Read("BEGIN"),
    Read("SELECT * FROM a WHERE id = 2"),
    Write("UPDATE t.a SET n = n + 1"),
    Read("SELECT * FROM a WHERE id = 2"),
    Read("SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED"),
    Write("UPDATE t.a SET n = n + 1"),
    Read("SELECT * FROM a WHERE id = 2"),
    Read("BEGIN"),
    Read("SELECT * FROM a WHERE id = 2"),
    Write("UPDATE t.a SET n = n + 1"),
    Read("SELECT * FROM a WHERE id = 2"),
    Read("ROLLBACK"),
    // It takes the place of what was said of the next one.
    Read("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ"),
    Read("SET SESSION TRANSACTION ISOLATION LEVEL READ COMMITTED"),
    Read("BEGIN"),
    Read("SELECT * FROM a WHERE id = 2"),
    Write("UPDATE t.a SET n = n + 1"),
    Read("SELECT * FROM a WHERE id = 2"),
    Read("COMMIT"),
    Read("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ"),
    Read("SET @@session.transaction_isolation = 'READ-COMMITTED'"),
    Read("BEGIN"),
    Read("SELECT * FROM a WHERE id = 2"),
    Write("UPDATE t.a SET n = n + 1"),
    Read("SELECT * FROM a WHERE id = 2"),
    Read("COMMIT"),
    Read("SET TRANSACTION ISOLATION LEVEL REPEATABLE READ"),
    Read("COMMIT AND CHAIN"),
    Read("SELECT * FROM a WHERE id = 2"),
    Write("UPDATE t.a SET n = n + 1"),
    Read("SELECT * FROM a WHERE id = 2"),
    Read("ROLLBACK"),
    Read("SET transaction_isolation = 'REPEATABLE-READ'"),
    Read("SELECT @@transaction_isolation"),
    Read("BEGIN"),
    Read("SELECT * FROM a WHERE id = 2"),
    Write("UPDATE t.a SET n = n + 1"),
    Read("SELECT * FROM a WHERE id = 2"),
    Read("COMMIT"),
    Read("BEGIN"),
    Read("SELECT * FROM a WHERE id = 2"),
    Write("UPDATE t.a SET n = n + 1"),
    Read("SELECT * FROM a WHERE id = 2"),
    Read("COMMIT"),
];

#[test]
fn transactions_see_one_state_and_readers_of_it_the_same() {
    let Some(server) = Server::or_skip("door-transactions", &[]) else { return };
    server.sql(
        "CREATE DATABASE t; CREATE TABLE t.a (id INT PRIMARY KEY, n INT); CREATE TABLE t.b (id INT PRIMARY KEY); \
         INSERT INTO t.a VALUES (1, 10)",
    );
    let (mut replica, socket) = Replica::with_socket(&server, &folder("door-transactions"), &[]);
    let tracking = "SET SESSION session_track_transaction_info = 'STATE'";
    for (capabilities, before) in [
        (CAPABILITIES & !wire::handshake::capability::SESSION_TRACK, None),
        (CAPABILITIES, Some(tracking)),
        (
            CAPABILITIES & !wire::handshake::capability::DEPRECATE_EOF & !wire::handshake::capability::SESSION_TRACK,
            None,
        ),
    ] {
        server.sql("DELETE FROM t.a; DELETE FROM t.b; INSERT INTO t.a VALUES (1, 10)");
        replica.catch_up(&server);
        let mut pair = Pair::of(&server, &socket, capabilities);
        pair.any_index = true;
        before.into_iter().for_each(|sql| pair.query(sql));
        let levels = LEVELS.iter().filter(|_| before.is_none());
        for step in TRANSACTIONS.iter().chain(levels) {
            match step {
                Read(sql) => pair.query(sql),
                Write(sql) => {
                    server.sql(sql);
                    replica.catch_up(&server);
                }
            }
        }
        pair.assert_same(50);
        assert!(pair.refused.is_empty(), "{:?}", pair.refused);
    }
    replica.stop();
}

/// What is done between two executions of a statement.
const BETWEEN: &[Step] = &[
    Read("SELECT 1"),
    Read("SET NAMES latin1"),
    Read("SET NAMES utf8mb4"),
    Read("SET character_set_results = NULL"),
    Read("SET character_set_results = binary"),
    Read("SET character_set_results = utf8mb3"),
    Read("SET time_zone = '+05:30'"),
    Read("SET sql_select_limit = 1"),
    Read("SET sql_select_limit = DEFAULT"),
    Read("SET sql_mode = 'ANSI_QUOTES,NO_BACKSLASH_ESCAPES'"),
    Read("SET sql_mode = DEFAULT"),
    Read("SET collation_connection = latin1_german1_ci"),
    Read("SET NAMES utf8mb4"),
    Read("USE other"),
    Read("USE t"),
    Write("INSERT INTO t.a VALUES (3, '33', '2020-01-01 00:00:00')"),
    Write("ALTER TABLE t.a MODIFY c VARCHAR(30) CHARACTER SET latin1"),
    Write("ALTER TABLE t.a MODIFY c INT; UPDATE t.a SET c = NULL WHERE id = 1"),
    Write("ALTER TABLE t.a ADD x INT DEFAULT 7 FIRST"),
    Write("ALTER TABLE t.a DROP PRIMARY KEY"),
    Write("ALTER TABLE t.a ADD PRIMARY KEY (id, x)"),
    Write("ALTER TABLE t.a RENAME COLUMN c TO d"),
    Write("ALTER TABLE t.a RENAME COLUMN d TO c"),
    Write("DROP TABLE t.a"),
    Write("CREATE TABLE t.a (c TEXT, id BIGINT UNSIGNED PRIMARY KEY, at TIMESTAMP(3))"),
    Write("INSERT INTO t.a VALUES ('n', 1, '2020-02-02 02:02:02')"),
];

/// Prepared statements and texts that come again.
#[test]
fn statements_follow_variables_and_definitions() {
    let Some(server) = Server::or_skip("door-prepared", &[]) else { return };
    server.sql(
        "CREATE DATABASE other; CREATE TABLE other.a (at INT, c CHAR(3), id BIGINT PRIMARY KEY); INSERT INTO other.a \
         VALUES (6, 'o', 1); CREATE DATABASE t; CREATE TABLE t.a (id INT PRIMARY KEY, c VARCHAR(20), at TIMESTAMP \
         NULL); INSERT INTO t.a VALUES (1, '1', '2024-02-29 12:00:00'), (2, '2', NULL)",
    );
    let (mut replica, socket) = Replica::with_socket(&server, &folder("door-prepared"), &[]);
    let mut pair = Pair::of(&server, &socket, CAPABILITIES & !wire::handshake::capability::SESSION_TRACK);
    pair.any_index = true;
    pair.query("USE t");
    let statements = [
        "SELECT c, at FROM a WHERE id = ?",
        "SELECT id, c AS `é`, at FROM t.a AS x WHERE id IN (?, 2) ORDER BY id",
        "SELECT COUNT(*) FROM a WHERE id >= ?",
        "SELECT *, ? FROM a LIMIT 1",
    ];
    let prepared = statements.map(|sql| {
        let (mut ours, mut theirs) = (pair.ours.prepare(sql), pair.theirs.prepare(sql));
        let ids = (statement_id(&mut ours).unwrap(), statement_id(&mut theirs).unwrap());
        pair.note(&format!("prepare {sql}"), &ours, &theirs);
        (sql, ids)
    });
    for step in BETWEEN {
        let what = match step {
            Read(sql) => {
                pair.query(sql);
                sql
            }
            Write(sql) => {
                server.sql(sql);
                replica.catch_up(&server);
                sql
            }
        };
        for round in 0..2 {
            for (sql, (own, other)) in prepared {
                let parameters = [Param::Int(1)];
                let mut answers = [pair.ours.execute(own, 0, &parameters), pair.theirs.execute(other, 0, &parameters)];
                answers.iter_mut().for_each(|answer| without_index_flag(answer));
                let [ours, theirs] = answers;
                pair.note(&format!("execute {sql} after {what}, {round}"), &ours, &theirs);
            }
            // The third time a text is not parsed.
            for id in ["1", "2", "03", "-1", "'1'", "1.0", "99999999999999999999", "NULL"] {
                pair.query(&format!("SELECT c, at FROM a WHERE id = {id}"));
                pair.query(&format!("SELECT id, 'é', c AS `é`, at FROM t.a AS x WHERE id IN ({id}, {round}) LIMIT 7"));
                pair.query(&format!("SELECT COUNT(*) FROM a WHERE id >= {id}"));
            }
            for c in ["'1'", "''", "'x'", "'\\n'", "\"c\"", "'é'", "'2' ", "'a''b'", "'2020-01-01'"] {
                pair.query(&format!("SELECT c, c 'x' FROM a WHERE c = {c} AND id > {round}"));
            }
        }
    }
    pair.assert_same(1_000);
    let refused = |what: &str| pair.refused.iter().filter(|refused| refused.starts_with(what)).count();
    assert!(refused("execute") < 10 && refused("SELECT") * 4 < pair.compared, "{:?}", pair.refused);
    replica.stop();
}

#[test]
fn a_transaction_keeps_its_snapshot_as_long_as_the_option_says() {
    let Some(server) = Server::or_skip("door-age", &[]) else { return };
    server.sql("CREATE DATABASE t; CREATE TABLE t.a (id INT PRIMARY KEY); INSERT INTO t.a VALUES (1)");
    let (replica, socket) = Replica::with_socket(&server, &folder("door-age"), &["--snapshot-age=1s"]);
    let mut client = RawClient::over_socket(&socket, "admin", CAPABILITIES);
    client.query("BEGIN");
    let select = "SELECT COUNT(*) FROM t.a";
    assert_eq!(client.query(select)[2], b"\x011");
    let too_old = || {
        let answer = client.query(select).pop().unwrap();
        answer.starts_with(b"\xff").then(|| String::from_utf8_lossy(&answer).into_owned())
    };
    let error = whole_program_tests::wait_for("the snapshot's end", too_old, String::new);
    assert!(error.contains("snapshot too old") && error.contains("--snapshot-age"), "{error}");
    let error = client.query("SELECT id FROM t.a").pop().unwrap();
    assert!(error.starts_with(b"\xff\x51\x04#HY000"), "{}", error.escape_ascii());
    client.query("COMMIT");
    assert_eq!(client.query(select)[2], b"\x011");
    replica.stop();
}

#[test]
fn a_statement_that_takes_too_long_ends() {
    let Some(server) = Server::or_skip("door-time", &[]) else { return };
    server.sql(
        "SET SESSION cte_max_recursion_depth = 1000000; CREATE DATABASE t; CREATE TABLE t.a (id INT PRIMARY KEY, c \
         VARCHAR(100)); INSERT INTO t.a SELECT n, REPEAT('x', 90) FROM (WITH RECURSIVE s (n) AS (SELECT 1 UNION ALL \
         SELECT n + 1 FROM s WHERE n < 200000) SELECT n FROM s) x",
    );
    let (replica, socket) = Replica::with_socket(&server, &folder("door-time"), &["--statement-cpu-time=5ms"]);
    let mut account = std::process::Command::new(whole_program_tests::binary());
    account.args(["account", "add", "app", "--may", "read", "--no-defaults", "--data", replica.data()]);
    testkit::run_with_input(&mut account, "secret\n").expect(0, &["is added"]);
    let port = replica.status().unwrap()["clients"]["address"].as_str().unwrap().rsplit(':').next().unwrap().parse();
    let mut client = client::Connection::connect(&client::ConnectOptions {
        port: port.unwrap(),
        user: "app".into(),
        password: Some("secret".into()),
        ssl_mode: client::SslMode::Required,
        ..client::ConnectOptions::default()
    })
    .unwrap();
    let scan = "SELECT COUNT(*) FROM t.a WHERE c LIKE '%y%'";
    let error = client.query(scan).unwrap_err();
    assert_eq!(error.server_code(), Some(3024), "{error}");
    assert!(error.to_string().contains("--statement-cpu-time"), "{error}");
    // The session goes on, and short statements are none of it.
    assert_eq!(client.query_value("SELECT COUNT(*) FROM t.a WHERE id=7").unwrap().as_deref(), Some("1"));
    // An administrator's has no limit but the session's own.
    let mut admin = RawClient::over_socket(&socket, "admin", CAPABILITIES);
    assert_eq!(admin.query(scan)[2], b"\x010");
    admin.query("SET max_execution_time = 1");
    let error = admin.query(scan).pop().unwrap();
    assert!(error.starts_with(b"\xff\xd0\x0b#HY000"), "{}", error.escape_ascii());
    assert_eq!(admin.query("SELECT COUNT(*) FROM t.a WHERE id=7")[2], b"\x011");
    replica.stop();
}

/// Each condition looks at the whole of a long text: between two of them others get their turn, and KILL is heard.
#[test]
fn conditions_on_long_rows_are_tried_in_turns() {
    let Some(server) = Server::or_skip("door-long-rows", &["--max-allowed-packet=1G"]) else { return };
    server.sql(
        "CREATE DATABASE t; CREATE TABLE t.a (l LONGTEXT, id INT PRIMARY KEY, n INT, k VARCHAR(20)); \
         INSERT INTO t.a VALUES (REPEAT('long ', 1600000), 1, 3, 'b'), (REPEAT('Long ', 1600000), 2, 1, 'C'), \
         (CONCAT(REPEAT('long ', 1600000), 'end'), 3, 7, 'a'), (NULL, 4, 3, NULL), ('short', 5, NULL, 'B '); \
         CREATE TABLE t.s (id INT PRIMARY KEY, c TEXT); INSERT INTO t.s WITH RECURSIVE s (n) AS (SELECT 1 UNION ALL \
         SELECT n + 1 FROM s WHERE n < 900) SELECT n, REPEAT('a', 4000) FROM s",
    );
    let (replica, socket) = Replica::with_socket(&server, &folder("door-long-rows"), &["--memory=256M"]);
    let mut pair = Pair::of(&server, &socket, CAPABILITIES);
    pair.any_index = true;
    let others: String = (0..200).map(|n| format!("l <> 'x{n}' AND ")).collect();
    for condition in [
        format!("{others}n IN (9, 3, 7, 3)"),
        format!("n > 1 AND {others}n < 8 AND l LIKE '%G LON%' AND n <> 9"),
        format!("{others}l > 'a' AND k IN ('c', 'x', 'b', 'A') AND l NOT LIKE '%end' AND k <> 'x'"),
        format!("l NOT IN ('z', 'short', 'a') AND n NOT IN (7, 2, 5) AND {others}l <= 'longer'"),
        "n IN (1.5, 7.0, 2.5, -3.0) AND k NOT IN ('b', 'q', 'B', '')".to_owned(),
        "k BETWEEN 'a' AND 'b' AND l IS NOT NULL AND k >= 'B'".to_owned(),
    ] {
        pair.query(&format!("SELECT id FROM t.a WHERE {condition} ORDER BY id"));
        pair.query(&format!("SELECT COUNT(*) FROM t.a WHERE {condition}"));
        pair.query(&format!("SELECT id FROM t.a WHERE id IN (5, 3, 1) AND {condition} ORDER BY id DESC LIMIT 1"));
    }
    pair.assert_same(18);
    assert_eq!(pair.refused, Vec::<String>::new());

    // A cursor gives as many rows as are asked for.
    let sql = "SELECT id, n FROM t.a WHERE l > ? AND n < 9 ORDER BY id";
    let (mut ours, mut theirs) = (pair.ours.prepare(sql), pair.theirs.prepare(sql));
    let numbers = (statement_id(&mut ours).unwrap(), statement_id(&mut theirs).unwrap());
    let parameters = [Param::Bytes(b"a")];
    pair.ours.execute(numbers.0, 1, &parameters);
    pair.theirs.execute(numbers.1, 1, &parameters);
    for wanted in [0, 2, 1, 5, 1] {
        let (mut ours, mut theirs) = (pair.ours.fetch(numbers.0, wanted), pair.theirs.fetch(numbers.1, wanted));
        [&mut ours, &mut theirs].into_iter().for_each(|answer| without_index_flag(answer));
        assert_eq!(ours, theirs, "{wanted} rows");
    }
    // A count is one row, whoever asks for one more.
    let sql = "SELECT COUNT(*) FROM t.a WHERE n > 1";
    let (mut ours, mut theirs) = (pair.ours.prepare(sql), pair.theirs.prepare(sql));
    let numbers = (statement_id(&mut ours).unwrap(), statement_id(&mut theirs).unwrap());
    pair.ours.execute(numbers.0, 1, &[]);
    pair.theirs.execute(numbers.1, 1, &[]);
    for _ in 0..3 {
        let (mut ours, mut theirs) = (pair.ours.fetch(numbers.0, 1), pair.theirs.fetch(numbers.1, 1));
        [&mut ours, &mut theirs].into_iter().for_each(|answer| without_index_flag(answer));
        assert_eq!(ours, theirs);
    }
    // A row of gigabytes is not made.
    let wide = vec!["l"; 4_000].join(", ");
    let answer = pair.ours.query(format!("SELECT {wide} FROM t.a WHERE id = 1")).pop().unwrap();
    assert!(answer.starts_with(b"\xff\x11\x04"), "{}", answer.escape_ascii());

    let text = |answer: &[Vec<u8>]| answer.iter().flatten().map(|byte| char::from(*byte)).collect::<String>();
    let many: String = (0..4_000).map(|n| format!("l NOT LIKE '%q{n}%' AND ")).collect();
    let many = format!("SELECT id FROM t.a WHERE {many}id > 0");
    // 8 million comparisons in each short text.
    let places = format!("SELECT id FROM t.s WHERE c LIKE '%{}b%'", "_".repeat(2_000));
    for (many, by_cursor) in [(&many, false), (&many, true), (&places, false), (&places, true)] {
        let mut busy = RawClient::over_socket(&socket, "admin", CAPABILITIES);
        let own = text(&busy.query("SELECT CONNECTION_ID()")[2..3]).trim_start_matches(|c| c < '0').to_owned();
        let many = many.clone();
        let working = std::thread::spawn(move || {
            if !by_cursor {
                return (busy.query(&many), busy);
            }
            let number = statement_id(&mut busy.prepare(&many)).unwrap();
            busy.execute(number, 1, &[]);
            let answer = busy.fetch(number, 1);
            assert!(busy.fetch(number, 1)[0].starts_with(b"\xff\x8d\x05"), "the cursor is closed");
            (answer, busy)
        });
        let look = || text(&pair.ours.query("SHOW PROCESSLIST")).contains("Sending to client").then_some(());
        wait_for("the statement in the list", look, String::new);
        pair.ours.query(format!("KILL QUERY {own}"));
        let (answer, mut busy) = working.join().unwrap();
        assert!(text(&answer).contains("Query execution was interrupted"), "{answer:?}");
        assert_eq!(busy.query("SELECT 7")[2], b"\x017");
    }
    replica.stop();
}

/// MySQL's words that are not reserved name columns, tables and aliases without quotes, wherever they stand.
#[test]
fn words_that_are_not_reserved_are_names() {
    let Some(server) = Server::or_skip("door-words", &[]) else { return };
    let words = server.sql("SELECT LOWER(WORD) FROM information_schema.keywords WHERE RESERVED = 0 ORDER BY 1");
    let words: Vec<&str> = words.lines().collect();
    assert!(words.len() > 300, "{}", words.len());
    let columns: Vec<String> = words.iter().map(|word| format!("`{word}` INT DEFAULT 7")).collect();
    server.sql(&format!(
        "CREATE DATABASE words; USE words; CREATE TABLE t (id INT PRIMARY KEY, {}); INSERT INTO t (id) VALUES (1), (2)",
        columns.join(", ")
    ));
    let (mut replica, socket) = Replica::with_socket(&server, &folder("door-words"), &[]);
    replica.catch_up(&server);
    let mut pair = Pair::of(&server, &socket, CAPABILITIES);
    pair.query("USE words");
    for word in &words {
        pair.query(&format!("SELECT {word} FROM t WHERE {word} = 7 ORDER BY id"));
        pair.query(&format!("SELECT id FROM t WHERE id = 1 AND {word} IS NOT NULL AND t.{word} >= 1"));
        pair.query(&format!("SELECT id {word}, t.{word} AS x, {word}, {word} y FROM words.t LIMIT 1"));
        pair.query(&format!("SELECT id AS {word} FROM t {word} WHERE {word}.id = 1"));
        pair.query(&format!("SELECT id FROM {word}"));
    }
    pair.assert_same(words.len() * 5);
    // There it is no column.
    assert_eq!(pair.refused.len(), 1);
    assert!(pair.refused[0].starts_with("SELECT sql_buffer_result FROM t"), "{:?}", pair.refused);
    replica.stop();
}

/// Variables that change answers, and what they change.
const OF_SESSIONS: &[&str] = &[
    "SELECT @@collation_connection, @@character_set_client, @@character_set_results, 'a' LIKE 'A', 'a'",
    "SELECT @@global.collation_connection, @@global.character_set_client, @@global.character_set_results",
    "SHOW VARIABLES LIKE 'coll%'",
    "SELECT @@sql_mode, @@time_zone, @@transaction_isolation, @@group_concat_max_len, @@sql_select_limit",
    "SELECT @@global.sql_mode, @@global.time_zone, @@global.transaction_isolation, @@global.sql_select_limit",
    "SELECT @@system_time_zone, @@div_precision_increment, @@collation_server, @@character_set_server, @@autocommit",
    r"SELECT 'a\', 'b'",
    r#"SELECT "id" FROM t.a LIMIT 1"#,
    "SELECT id, at FROM t.a ORDER BY id",
    "SELECT id, at FROM t.a WHERE at > '2024-02-29 13:30:00'",
    "SHOW VARIABLES LIKE 'sql_mode'",
    "SHOW GLOBAL VARIABLES LIKE 'time_zone'",
    "SET time_zone = '+00:00', sql_mode = '', transaction_isolation = 'SERIALIZABLE', group_concat_max_len = 5",
    "SELECT @@sql_mode, @@time_zone, @@transaction_isolation, @@group_concat_max_len",
    "SELECT id, at FROM t.a ORDER BY id",
    "SET time_zone = DEFAULT, sql_mode = DEFAULT, transaction_isolation = DEFAULT, group_concat_max_len = DEFAULT",
    "SELECT @@sql_mode, @@time_zone, @@transaction_isolation, @@group_concat_max_len",
    "SELECT id, at FROM t.a ORDER BY id",
    "SELECT CONVERT_TZ('2001-01-01 01:00:00', 'UTC', 'UTC'), CONVERT_TZ('2001-01-01 01:00:00', 'utc', '-03:00')",
    "SELECT VERSION() IS NULL, @@sql_auto_is_null, CONVERT_TZ('2001-01-01 01:00:00', 'UTC', 'UTC') IS NOT NULL",
];

#[test]
fn sessions_begin_with_what_they_begin_with_at_the_source() {
    let options = [
        "--sql-mode=NO_BACKSLASH_ESCAPES,ANSI_QUOTES",
        "--default-time-zone=+03:00",
        "--transaction-isolation=READ-COMMITTED",
        "--group-concat-max-len=77",
        "--div-precision-increment=7",
        "--collation-server=utf8mb4_bin",
    ];
    let Some(server) = Server::or_skip("door-globals", &options) else { return };
    server.sql(
        "CREATE DATABASE t; CREATE TABLE t.a (id INT PRIMARY KEY, at TIMESTAMP NULL); INSERT INTO t.a VALUES \
         (1, '2024-02-29 12:00:00'), (2, NULL), (3, '2024-02-29 14:00:00'), (4, '2024-02-29 15:00:00')",
    );
    let data = folder("door-globals");
    let (mut replica, socket) = Replica::with_socket(&server, &data, &[]);
    replica.catch_up(&server);
    let capabilities = CAPABILITIES & !wire::handshake::capability::SESSION_TRACK;
    let asked = |socket: &std::path::Path| {
        let mut pair = Pair::of(&server, socket, capabilities);
        pair.any_index = true;
        OF_SESSIONS.iter().for_each(|sql| pair.query(sql));
        // As a new login.
        let reset = [&mut pair.ours, &mut pair.theirs].map(|client| client.command(b"\x1f"));
        pair.note("reset", &reset[0], &reset[1]);
        OF_SESSIONS.iter().for_each(|sql| pair.query(sql));
        assert!(pair.refused.is_empty(), "{:?}", pair.refused);
        pair
    };
    asked(&socket).assert_same(2 * OF_SESSIONS.len() + 1);
    // They are asked for at each connect, and kept.
    server.sql("SET GLOBAL sql_mode = 'STRICT_ALL_TABLES', GLOBAL time_zone = '-01:30', GLOBAL sql_select_limit = 2");
    // It has zones with names from now on.
    server.sql(
        "SET sql_log_bin = 0; INSERT INTO mysql.time_zone VALUES (1, 'N'); \
         INSERT INTO mysql.time_zone_name VALUES ('UTC', 1); \
         INSERT INTO mysql.time_zone_transition_type VALUES (1, 0, 0, 0, 'UTC')",
    );
    server.end_dumps();
    wait_for(
        "the new global variables",
        || {
            assert_eq!(replica.ended(), None, "{}", replica.log_end());
            let answer = RawClient::over_socket(&socket, "admin", capabilities).query("SELECT @@global.time_zone");
            answer.iter().any(|packet| packet.ends_with(b"-01:30")).then_some(())
        },
        String::new,
    );
    asked(&socket).assert_same(2 * OF_SESSIONS.len() + 1);
    // Also by a start that does not reach the source.
    replica.stop();
    let (replica, socket) = Replica::with_socket(&server, &data, &["--skip-replica-start"]);
    asked(&socket).assert_same(2 * OF_SESSIONS.len() + 1);
    replica.stop();
    // What an operator sets goes before what is known of the source.
    let set = ["--skip-replica-start", "--set=time_zone=+05:00", "--set", "SQL_MODE=ansi_quotes"];
    let (replica, socket) = Replica::with_socket(&server, &data, &set);
    server.sql("SET GLOBAL time_zone = '+05:00', GLOBAL sql_mode = 'ANSI_QUOTES'");
    asked(&socket).assert_same(2 * OF_SESSIONS.len() + 1);
    replica.stop();
}
