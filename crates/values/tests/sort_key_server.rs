//! Weights and the order of rows against a real server; run with SLIPSTREAM_TEST_SERVER=1.

use crate::common;

use std::fmt::Write as _;

use client::Connection;
use common::{DESCRIBED, logged_rows, stored};
use testkit::{Random, Server};
use values::sort_key::{SortKeyColumn, SortKeyPlan, implemented_collations, weight_string};
use values::{Collation, ColumnType, RowLayout, type_code};
use wire::row::text_value;

fn connect(server: &Server) -> Connection {
    let mut connection = common::connect(server);
    for sql in [
        "CREATE DATABASE IF NOT EXISTS v",
        "USE v",
        "SET SESSION max_sort_length = 10000",
        "SET SESSION sort_buffer_size = 64000000",
    ] {
        connection.exec(sql).unwrap();
    }
    connection
}

/// Weights of strings: text as the character set has it, and the server's WEIGHT_STRING.
fn check_weights(connection: &mut Connection, collation: Collation, sql: &str) -> usize {
    let mut ours = Vec::new();
    let mut rows = 0;
    let end = connection.query_each(sql, |row| {
        let (text, theirs) = (text_value(row)?.unwrap(), text_value(row)?.unwrap());
        ours.clear();
        weight_string(collation.id, text, &mut ours).unwrap();
        assert_eq!(ours, theirs, "{} {text:02x?}", collation.name);
        rows += 1;
        Ok(())
    });
    end.unwrap();
    rows
}

#[test]
fn every_character() {
    let Some(server) = Server::or_skip("characters", DESCRIBED) else { return };
    let mut connection = connect(&server);
    for sql in [
        "SET SESSION sql_log_bin = 0",
        "SET SESSION cte_max_recursion_depth = 2000000",
        "CREATE TABLE characters (code INT PRIMARY KEY, c VARCHAR(1) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin)",
        "INSERT INTO characters WITH RECURSIVE n AS (SELECT 0 AS i UNION ALL SELECT i + 1 FROM n WHERE i < 0x10ffff)
         SELECT i, CONVERT(CONVERT(UNHEX(LPAD(HEX(i), 8, '0')) USING utf32) USING utf8mb4)
         FROM n WHERE i NOT BETWEEN 0xd800 AND 0xdfff",
    ] {
        connection.exec(sql).unwrap();
    }
    for collation in implemented_collations() {
        let expected = match collation.charset {
            "utf8mb4" | "utf16" | "utf16le" | "utf32" => 0x11_0000 - 0x800,
            "utf8mb3" | "ucs2" => 0x1_0000 - 0x800,
            // One byte a character: all are in the table; `_bin` of the multi-byte sets has the bytes for weights.
            _ => continue,
        };
        let text = format!("CONVERT(c USING {})", collation.charset);
        let sql = format!(
            "SELECT CAST({text} AS BINARY), WEIGHT_STRING({text} COLLATE {}) FROM characters WHERE code < {}",
            collation.name,
            expected + 0x800
        );
        assert_eq!(check_weights(&mut connection, collation, &sql), expected, "{}", collation.name);
    }
}

/// A string of characters that lie near one another in some collation, or of any.
fn random_text(random: &mut Random, charset: &str, single_byte: bool) -> String {
    let alike = ["a", "A", "b", "á", "ß", " ", " ", "  ", "\t", "\u{1}", "!", "z", "0", "_", "s", "ss"];
    let marks =
        ["\u{301}", "\u{308}", "\u{327}", "e", "E", "é", "ch", "ll", "\u{ad}", "\u{200d}", "\u{34f}", "Æ", "ae"];
    let far = [
        "각",
        "\u{1100}\u{1161}",
        "か",
        "カ",
        "ｶ",
        "が",
        "か\u{3099}",
        "日",
        "豈",
        "한글",
        "ཀྵ",
        "แก",
        "க்ஷ",
        "ﷺ",
        "ﬀ",
        "Ⅷ",
    ];
    let beyond =
        ["😀", "👩\u{200d}👩", "𠀀", "𗀀", "\u{10ffff}", "\u{e000}", "\u{fffd}", "𝔸", "🇩🇪", "\u{e0100}", "\u{378}"];
    let three_bytes = !charset.starts_with("utf") || charset == "utf8mb3";
    (0..random.below(7))
        .map(|_| match random.below(if single_byte { 2 } else { 7 }) {
            1 | 2 if !single_byte => random.pick(&marks),
            3 => random.pick(&far),
            4 if !three_bytes => random.pick(&beyond),
            _ => random.pick(&alike),
        })
        .collect()
}

/// Rows of random text: of any bytes where every byte (in ucs2 every two, surrogates too) is a character, else converted,
/// with `?` for what is not in the set.
fn fill_with_text(connection: &mut Connection, random: &mut Random, charset: &str, single_byte: bool) {
    let create = format!("CREATE TABLE t_{charset} (i INT PRIMARY KEY, c VARCHAR(100) CHARACTER SET {charset})");
    connection.exec(&create).unwrap();
    let any_bytes = match charset {
        "ucs2" => 2,
        "ascii" => 0,
        _ => usize::from(single_byte),
    };
    let mut sql = format!("INSERT IGNORE INTO t_{charset} VALUES ");
    for row in 0..500 {
        let literal = if any_bytes > 0 && row % 2 == 0 {
            let count = any_bytes * random.below(6);
            let any: String = (0..count).map(|_| format!("{:02x}", random.below(256))).collect();
            format!("_{charset} X'{any}'")
        } else {
            let text = random_text(random, charset, single_byte);
            let text: String = text.bytes().map(|byte| format!("{byte:02x}")).collect();
            format!("_utf8mb4 X'{text}'")
        };
        write!(sql, "({row}, {literal}),").unwrap();
    }
    sql.pop();
    connection.exec(&sql).unwrap();
}

#[test]
fn random_strings_of_every_collation() {
    let Some(server) = Server::or_skip("strings", DESCRIBED) else { return };
    let mut connection = connect(&server);
    let mut random = Random::new(1);
    let mut charsets: Vec<&str> = Vec::new();
    for collation in implemented_collations() {
        let charset = collation.charset;
        if !charsets.contains(&charset) {
            charsets.push(charset);
            connection.exec("SET character_set_results = utf8mb4").unwrap();
            fill_with_text(&mut connection, &mut random, charset, collation.mbmaxlen == 1);
            connection.exec("SET character_set_results = NULL").unwrap();
        }
        let sql = format!(
            "SELECT CAST(c AS BINARY), WEIGHT_STRING(c COLLATE `{}`) FROM t_{charset} ORDER BY i",
            collation.name
        );
        assert_eq!(check_weights(&mut connection, collation, &sql), 500);

        let ty = ColumnType { collation: collation.id, ..ColumnType::new(type_code::VARCHAR, 65_000) };
        let column = SortKeyColumn { ty, nullable: false, descending: false, prefix_len: None };
        let plan = SortKeyPlan::new(&[column]).unwrap();
        assert!(plan.is_ordered());
        let rows = connection.query(&format!("SELECT i, CAST(c AS BINARY) FROM t_{charset} ORDER BY i")).unwrap().rows;
        let mut ours: Vec<(Vec<u8>, usize)> = rows
            .iter()
            .enumerate()
            .map(|(at, row)| {
                let text = row[1].as_deref().unwrap();
                let stored = [&(text.len() as u16).to_le_bytes(), text].concat();
                let mut key = Vec::new();
                plan.append([Some(&stored[..])], &mut key).unwrap();
                (key, at)
            })
            .collect();
        ours.sort();
        let ours: Vec<usize> = ours.into_iter().map(|(_, at)| at).collect();
        let name = collation.name;
        for sql in [
            format!("CREATE TABLE o_{name} (i INT PRIMARY KEY, c VARCHAR(100) COLLATE `{name}`, KEY (c))"),
            format!("INSERT INTO o_{name} SELECT i, c FROM t_{charset}"),
        ] {
            connection.exec(&sql).unwrap();
        }
        let order = format!("SELECT i FROM o_{name} FORCE INDEX (c) ORDER BY c, i");
        assert_eq!(ours, numbers(&mut connection, &order), "{order}");
        if !SORTED_UNLIKE_INDEX.contains(&name) {
            let order = format!("SELECT i FROM o_{name} IGNORE INDEX (c) ORDER BY c, i");
            assert_eq!(ours, numbers(&mut connection, &order), "{order}");
        }
    }
}

/// Their space has another weight than 0x20. The server's indexes and `=` fill up with that weight, its sorting with 0x20.
const SORTED_UNLIKE_INDEX: &[&str] = &["latin7_estonian_cs", "latin7_general_ci", "latin7_general_cs"];

fn numbers(connection: &mut Connection, sql: &str) -> Vec<usize> {
    let result = connection.query(sql).unwrap_or_else(|error| panic!("{error}: {sql}"));
    (0..result.rows.len()).map(|row| result.text(row, 0).unwrap().parse().unwrap()).collect()
}

/// A column: its definition, the length of its index's prefix, and a random value as SQL.
struct Column {
    definition: String,
    prefix: Option<u32>,
    value: Box<dyn Fn(&mut Random) -> String>,
}

fn column(definition: &str, value: impl Fn(&mut Random) -> String + 'static) -> Column {
    Column { definition: definition.to_owned(), prefix: None, value: Box::new(value) }
}

/// A random number near zero, near a limit, or anywhere below 2 to the power of `bits`.
fn integer(bits: u32, signed: bool) -> impl Fn(&mut Random) -> String {
    move |random| {
        let max = u64::MAX >> (64 - bits);
        let value = match random.below(3) {
            0 => random.any() % 4,
            1 => max - random.any() % 4,
            _ => random.any() & max,
        };
        if signed { ((value << (64 - bits)) as i64 >> (64 - bits)).to_string() } else { value.to_string() }
    }
}

fn decimal(whole: usize, scale: usize) -> impl Fn(&mut Random) -> String {
    move |random| {
        let sign = random.pick(&["", "-"]);
        let digits = |random: &mut Random, count: usize| -> String {
            let small = random.below(2) == 0;
            (0..count)
                .map(|at| if small && at + 1 < count { '0' } else { char::from(b'0' + random.below(10) as u8) })
                .collect()
        };
        format!("{sign}{}.{}", digits(random, whole), digits(random, scale))
    }
}

fn fraction(random: &mut Random, digits: usize) -> String {
    let mut text = format!("{:06}", random.pick(&[0, 1, 10_000, 500_000, 999_999, 990_000, 123_456]));
    text.truncate(digits);
    if digits > 0 { format!(".{text}") } else { text }
}

fn time(digits: usize) -> impl Fn(&mut Random) -> String {
    move |random| {
        let hour = random.pick(&[0, 0, 0, 1, 23, 100, 837]);
        let (minute, second) = (random.pick(&[0, 0, 59]), random.pick(&[0, 1, 59]));
        format!("'{}{hour}:{minute}:{second}{}'", random.pick(&["", "-"]), fraction(random, digits))
    }
}

fn datetime(digits: usize, timestamp: bool) -> impl Fn(&mut Random) -> String {
    move |random| {
        let date = match (random.below(5), timestamp) {
            (0, _) => return "'0000-00-00 00:00:00'".to_owned(),
            (_, true) => format!("{}-{:02}-{:02}", 1971 + random.below(66), 1 + random.below(12), 1 + random.below(28)),
            (1, false) => random.pick(&["2020-00-00", "2020-01-00", "0001-01-01", "9999-12-31"]).to_owned(),
            _ => format!("{:04}-{:02}-{:02}", random.below(9999), 1 + random.below(12), 1 + random.below(28)),
        };
        let (hour, second) = (random.below(24), random.pick(&[0, 30, 59]));
        format!("'{date} {hour:02}:00:{second:02}{}'", fraction(random, digits))
    }
}

fn bytes(max: usize) -> impl Fn(&mut Random) -> String {
    move |random| {
        let few = [0x00, 0x00, 0x01, 0x20, 0x61, 0xff];
        let value: String = (0..random.below(max + 1)).map(|_| format!("{:02x}", random.pick(&few))).collect();
        format!("X'{value}'")
    }
}

fn text(max: usize) -> impl Fn(&mut Random) -> String {
    move |random| {
        // All are in latin1.
        let few = ["a", "A", "b", "é", "e", "ß", "ss", " ", " ", "\\t", "!", "\\0", "Ü"];
        let value: String = (0..random.below(max + 1)).map(|_| random.pick(&few)).collect();
        format!("'{value}'")
    }
}

fn columns() -> Vec<Column> {
    let mut all = Vec::new();
    for (name, bits) in [("TINYINT", 8), ("SMALLINT", 16), ("MEDIUMINT", 24), ("INT", 32), ("BIGINT", 64)] {
        all.push(column(name, integer(bits, true)));
        all.push(column(&format!("{name} UNSIGNED"), integer(bits, false)));
    }
    all.push(column("YEAR", |random| random.pick(&["0", "1901", "1970", "2020", "2155"]).to_owned()));
    let float = |random: &mut Random| {
        random.pick(&["0e0", "-0e0", "1.5e0", "-1.5e0", "1e-30", "-1e30", "3e38", "-2e0"]).to_owned()
    };
    all.extend([column("FLOAT", float), column("DOUBLE", float)]);
    all.push(column("DECIMAL(5,2)", decimal(3, 2)));
    all.push(column("DECIMAL(65,30)", decimal(35, 30)));
    all.push(column("DECIMAL(20,0)", decimal(20, 0)));
    all.push(column("DECIMAL(9,9)", decimal(0, 9)));
    all.push(column("DATE", datetime(0, false)));
    for digits in [0, 1, 2, 3, 4, 6] {
        all.push(column(&format!("TIME({digits})"), time(digits)));
        all.push(column(&format!("DATETIME({digits})"), datetime(digits, false)));
    }
    all.extend([column("TIMESTAMP", datetime(0, true)), column("TIMESTAMP(6)", datetime(6, true))]);
    all.push(column("BIT(1)", |random| random.below(2).to_string()));
    all.push(column("BIT(11)", |random| random.below(2048).to_string()));
    all.push(column("BIT(64)", integer(64, false)));
    // By number, not by name.
    all.push(column("ENUM('z','a','m','b')", |random| random.below(5).to_string()));
    all.push(column("SET('z','a','m','b','c','d','e','f','g')", |random| random.below(512).to_string()));
    all.push(column("BINARY(6)", bytes(6)));
    all.push(column("VARBINARY(8)", bytes(8)));
    all.push(Column { prefix: Some(30), ..column("BLOB", bytes(8)) });
    for collation in [
        "utf8mb4_0900_ai_ci",
        "utf8mb4_0900_as_cs",
        "utf8mb4_0900_bin",
        "utf8mb4_bin",
        "utf8mb4_general_ci",
        "utf8mb4_unicode_ci",
        "latin1_swedish_ci",
        "latin1_bin",
        "utf16_bin",
    ] {
        all.push(column(&format!("VARCHAR(12) COLLATE {collation}"), text(5)));
        all.push(column(&format!("CHAR(12) COLLATE {collation}"), text(5)));
    }
    all.push(Column { prefix: Some(30), ..column("TEXT COLLATE utf8mb4_0900_ai_ci", text(6)) });
    all.push(Column { prefix: Some(30), ..column("TEXT COLLATE latin1_swedish_ci", text(6)) });
    all
}

const ROWS: usize = 400;

/// The rows' numbers in the order of their sort keys, rows with equal keys in the order of their numbers.
fn sorted(plan: &SortKeyPlan, positions: &[usize], types: &[ColumnType], images: &[Vec<u8>]) -> Vec<usize> {
    let layout = RowLayout::new(types);
    let mut offsets = Vec::new();
    let mut keys: Vec<(Vec<u8>, usize)> = images
        .iter()
        .enumerate()
        .map(|(row, image)| {
            layout.walk_offsets(image, &mut offsets).unwrap();
            let mut key = Vec::new();
            plan.append(positions.iter().map(|at| stored(image, offsets[*at])), &mut key).unwrap();
            (key, row)
        })
        .collect();
    keys.sort();
    keys.into_iter().map(|(_, row)| row).collect()
}

fn plan(types: &[ColumnType], parts: &[(usize, bool, Option<u32>)]) -> SortKeyPlan {
    let columns: Vec<SortKeyColumn> = parts
        .iter()
        .map(|(at, descending, prefix_len)| SortKeyColumn {
            ty: types[*at].clone(),
            nullable: true,
            descending: *descending,
            prefix_len: *prefix_len,
        })
        .collect();
    let plan = SortKeyPlan::new(&columns).unwrap();
    assert!(plan.is_ordered());
    plan
}

#[test]
fn rows_of_every_type() {
    let Some(server) = Server::or_skip("rows", DESCRIBED) else { return };
    let mut connection = connect(&server);
    let columns = columns();
    let mut create = "CREATE TABLE rows_ (i INT PRIMARY KEY".to_owned();
    for (at, column) in (1..).zip(&columns) {
        write!(create, ", c{at} {} NULL", column.definition).unwrap();
    }
    // A table has 64 indexes at most; every column gets one, in one direction or the other.
    for (at, column) in (1..).zip(&columns) {
        let prefix = column.prefix.map_or(String::new(), |len| format!("({len})"));
        write!(create, ", KEY k{at} (c{at}{prefix}{})", if at % 2 == 0 { " DESC" } else { "" }).unwrap();
    }
    assert!(columns.len() < 64);
    connection.exec(&format!("{create})")).unwrap();
    let mut random = Random::new(2);
    for row in 0..ROWS {
        let mut insert = format!("INSERT INTO rows_ VALUES ({row}");
        for column in &columns {
            let value = if random.below(10) == 0 { "NULL".to_owned() } else { (column.value)(&mut random) };
            write!(insert, ", {value}").unwrap();
        }
        connection.exec(&format!("{insert})")).unwrap_or_else(|error| panic!("{error}: {insert}"));
    }
    let (types, images) = logged_rows(&server, "rows_");
    assert_eq!((types.len(), images.len()), (columns.len() + 1, ROWS));

    // One column, by sorting and by the source's own index, both ways.
    for (at, column) in (1..).zip(&columns) {
        for descending in [false, true] {
            let ours = sorted(&plan(&types, &[(at, descending, None)]), &[at], &types, &images);
            let way = if descending { "DESC" } else { "ASC" };
            let order = format!("SELECT i FROM rows_ IGNORE INDEX (k{at}) ORDER BY c{at} {way}, i");
            assert_eq!(ours, numbers(&mut connection, &order), "{order}: {}", column.definition);
            // An index is read forwards, so equal rows come by primary key.
            if descending == (at % 2 == 0) && column.prefix.is_none() {
                let order = format!("SELECT i FROM rows_ FORCE INDEX (k{at}) ORDER BY c{at} {way}, i");
                assert_eq!(ours, numbers(&mut connection, &order), "{order}: {}", column.definition);
            }
        }
    }

    // Three columns.
    for _ in 0..60 {
        let parts: Vec<(usize, bool, Option<u32>)> =
            (0..3).map(|_| (1 + random.below(columns.len()), random.below(2) == 0, None)).collect();
        let way = |descending: bool| if descending { "DESC" } else { "ASC" };
        let list: Vec<String> = parts.iter().map(|(at, descending, _)| format!("c{at} {}", way(*descending))).collect();
        let order = format!("SELECT i FROM rows_ ORDER BY {}, i", list.join(", "));
        let positions: Vec<usize> = parts.iter().map(|part| part.0).collect();
        assert_eq!(
            sorted(&plan(&types, &parts), &positions, &types, &images),
            numbers(&mut connection, &order),
            "{order}"
        );
    }

    // Prefixes, as LEFT gives them; CHAR and BINARY are compared filled up, which LEFT is not.
    for (at, column) in (1..).zip(&columns) {
        let definition = &column.definition;
        if !["VARCHAR", "TEXT", "VARBINARY", "BLOB"].iter().any(|name| definition.starts_with(name)) {
            continue;
        }
        let ours = sorted(&plan(&types, &[(at, false, Some(2))]), &[at], &types, &images);
        let order = format!("SELECT i FROM rows_ ORDER BY LEFT(c{at}, 2), i");
        assert_eq!(ours, numbers(&mut connection, &order), "{order}: {definition}");
    }
}
