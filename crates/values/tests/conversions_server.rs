//! Conversions of ALTER TABLE … MODIFY against a real server: every type in every other, value by value, under several
//! sql_modes. A value that is not known here must be an error; their share is printed. Run with SLIPSTREAM_TEST_SERVER=1;
//! all types and modes with SLIPSTREAM_TEST_LENGTH=soak, chosen ones with SLIPSTREAM_FROM, SLIPSTREAM_TO (names divided by
//! semicolons) and SLIPSTREAM_MODE, unknown values with SLIPSTREAM_VERBOSE.

use crate::common;

use std::collections::BTreeMap;
use std::fmt::Write as _;

use client::Connection;
use common::{DESCRIBED, Logged, connect, logged_tables, stored};
use testkit::Server;
use values::convert::{Conversion, ConvertOptions, DateRules};
use values::text::{TextOptions, write_text};
use values::{ColumnType, RowLayout};

/// A type with values that its columns hold.
struct Source {
    name: &'static str,
    values: Vec<String>,
}

fn source(name: &'static str, values: &[&str]) -> Source {
    Source { name, values: values.iter().map(|value| (*value).to_owned()).collect() }
}

/// Text of numbers, dates and neither.
const TEXTS: &[&str] = &[
    "",
    " ",
    "0",
    "00",
    "-0",
    "+0",
    "1",
    " 1",
    "1 ",
    "\\t1",
    "1\\t",
    "-1",
    "+1",
    "--1",
    "- 1",
    "1-",
    "12",
    "012",
    "69",
    "70",
    "99",
    "100",
    "127",
    "128",
    "255",
    "256",
    "-128",
    "-129",
    "1901",
    "1900",
    "1970",
    "2155",
    "2156",
    "9999",
    "32767",
    "65535",
    "65536",
    "8388607",
    "16777216",
    "2147483647",
    "2147483648",
    "-2147483649",
    "4294967295",
    "4294967296",
    "9223372036854775807",
    "9223372036854775808",
    "-9223372036854775808",
    "-9223372036854775809",
    "18446744073709551615",
    "18446744073709551616",
    "99999999999999999999999999999",
    "0.4",
    "0.5",
    "-0.5",
    "1.5",
    "2.5",
    "-1.5",
    "1.",
    ".5",
    "-.5",
    ".",
    "-",
    "+",
    "1..5",
    "1.5.5",
    "1e2",
    "1E2",
    "1e+2",
    "1e-2",
    "15e-1",
    "1e",
    "1e+",
    "e2",
    "1e2.5",
    "1e400",
    "-1e400",
    "1e-400",
    "1e19",
    "1e20",
    "123456789e-3",
    "1.0000000000000000000000000000000000000000000000000001",
    "0.000000000000000000000000000000000000000000001",
    "12abc",
    "abc",
    "1,5",
    "0x10",
    "1_0",
    "99.995",
    "99.994",
    "1234567.891",
    "inf",
    "nan",
    "1 2",
    "3.4e38",
    "3.5e38",
    "16777217",
    "0.1",
    "1.7976931348623157e308",
    "2024-02-29",
    "2024-2-3",
    "24-02-29",
    "69-1-1",
    "70-1-1",
    "2024-02-30",
    "2024-02-00",
    "2024-00-10",
    "0000-00-00",
    "2023-02-29",
    "2024-13-01",
    "2024-02-29 ",
    " 2024-02-29",
    "2024-02-29 10:20:30",
    "2024-02-29 10:20:30.5",
    "2024-02-29 10:20:30.123456",
    "2024-02-29 10:20:30.1234567",
    "2024-02-29 10:20:30.4999996",
    "2024-02-29 10:20:30.4999994",
    "10:20:30.49999961",
    "10:20:30.49999919",
    "a ,b",
    "2024-02-29 10:20:30.9999995",
    "2024-02-29 23:59:59.9999999",
    "2024-02-29T10:20:30",
    "2024-02-29 10:20",
    "2024-02-29 10",
    "2024-02-29 24:00:00",
    "2024-02-29 10:60:00",
    "2024-02-29 10:20:30x",
    "2024-02-29x",
    "2024/02/29",
    "2024.02.29",
    "2024.02.29 10.20.30",
    "2024-02-29  10:20:30",
    "2024-02-29 10:20:30+05:30",
    "2024-02-29 10:20:30-03:00",
    "2024-02-29 10:20:30.5+01:00",
    "2024-02-29 10:20:30+5",
    "20240229",
    "240229",
    "20240229102030",
    "240229102030",
    "20240229T102030",
    "20240229102030.5",
    "240229.5",
    "2024022910",
    "202402",
    "20240230",
    "1-1-1",
    "2024-02",
    "2024",
    "9999-12-31 23:59:59",
    "9999-12-31 23:59:59.9999999",
    "1970-01-01 00:00:00",
    "1970-01-01 00:00:01",
    "1969-12-31 23:59:59",
    "2038-01-19 03:14:07",
    "2038-01-19 03:14:08",
    "2038-01-19 03:14:07.9",
    "0000-00-00 00:00:00",
    "0000-00-00 00:00:01",
    "0000-01-01",
    "10:20:30",
    "-10:20:30",
    "10:20",
    "-10:20",
    "10:20:30.5",
    "10:20:30.1234567",
    "10:20:30.999999",
    "10:20:30.9999995",
    "1:2:3",
    "838:59:59",
    "838:59:59.5",
    "839:00:00",
    "-839:00:00",
    "10:60:00",
    "10:20:60",
    "1 10:20:30",
    "34 22:59:59",
    "35 00:00:00",
    "-1 10",
    "1 10:20",
    "102030",
    "1020",
    "102030.5",
    "8385959",
    "8395959",
    "106000",
    "10:20:30 ",
    "10:20:30x",
    "10:20x",
    "10:20:30.",
    "a10:20:30",
    "10:20:30e5",
    "1e5:00",
    "99999999999",
    "a",
    "b",
    "A",
    "b ",
    "a,b",
    "b,a",
    "a,a",
    "a,x",
    "A,B",
    ",",
    "a,",
    "3",
    "4",
    "7",
    "8",
    "é",
    "ß",
    "日本",
    "😀",
    "a😀b",
    "日",
    "longer text than short columns",
    "true",
    "null",
    "[1]",
    "{}",
    "\\\"x\\\"",
    "\\\"2024-02-29\\\"",
];

const NUMBERS: &[&str] = &[
    "0",
    "1",
    "-1",
    "5",
    "12",
    "69",
    "70",
    "99",
    "100",
    "101",
    "127",
    "128",
    "-128",
    "229",
    "255",
    "256",
    "1130",
    "1231",
    "1900",
    "1901",
    "1999",
    "2024",
    "2155",
    "2156",
    "9999",
    "10101",
    "10000",
    "102030",
    "106000",
    "235959",
    "240000",
    "240229",
    "240230",
    "691231",
    "700101",
    "991231",
    "32767",
    "-32768",
    "65535",
    "838595",
    "991232",
    "1000101",
    "8385959",
    "8385960",
    "-8385959",
    "8388607",
    "16777215",
    "20240229",
    "20240230",
    "20240200",
    "99991231",
    "99991232",
    "2147483647",
    "-2147483648",
    "4294967295",
    "10203040506",
    "240229102030",
    "20240229102030",
    "20240229102060",
    "99991231235959",
    "9223372036854775807",
    "-9223372036854775808",
    "18446744073709551615",
    "0.5",
    "-0.5",
    "1.5",
    "2.5",
    "-2.5",
    "0.05",
    "99.995",
    "1234567.891",
    "102030.5",
    "102030.999999",
    "102030.9999995",
    "20240229102030.5",
    "1e10",
    "1e19",
    "-1e19",
    "1e25",
    "3e38",
    "1e-5",
    "1e-20",
    "0.00000012345678901234",
    "-0.00001234567890123456",
    "-1.2345678901234e-11",
    "1e-10",
    "-1e-10",
    "123456789012",
    "-123456789012",
    "0.1",
    "123456.789",
    "16777217",
    "99999999.99",
    "-99999999.99",
    "12345678901234567890.123456789",
    "99999999999999999999999999999999999",
];

const DATES: &[&str] = &[
    "0000-00-00",
    "2024-02-29",
    "2024-02-30",
    "2024-02-00",
    "2024-00-10",
    "2024-00-00",
    "0000-01-01",
    "0000-00-05",
    "1000-01-01",
    "1969-12-31",
    "1970-01-01",
    "1999-12-31",
    "2000-01-01",
    "2038-01-19",
    "2038-01-20",
    "2155-01-01",
    "9999-12-31",
];

const DATETIMES: &[&str] = &[
    "0000-00-00 00:00:00",
    "2024-02-29 10:20:30",
    "2024-02-29 10:20:30.5",
    "2024-02-29 10:20:30.499999",
    "2024-02-29 23:59:59.999999",
    "2024-02-29 23:59:59.5",
    "2024-02-30 01:02:03.9",
    "2024-02-00 10:00:00",
    "2024-00-10 10:00:00.7",
    "0000-00-00 00:00:01",
    "1970-01-01 00:00:00",
    "1970-01-01 00:00:00.5",
    "1970-01-01 00:00:01",
    "2038-01-19 03:14:07",
    "2038-01-19 03:14:07.6",
    "2038-01-19 03:14:08",
    "9999-12-31 23:59:59",
    "9999-12-31 23:59:59.999999",
    "1999-12-31 23:59:59.05",
    "2000-01-01 00:00:00",
];

const TIMESTAMPS: &[&str] = &[
    "0000-00-00 00:00:00",
    "1970-01-01 12:00:01",
    "1970-01-01 12:00:01.5",
    "1999-12-31 23:59:59.9999",
    "2024-02-29 10:20:30",
    "2024-02-29 23:59:59.5",
    "2024-02-29 23:59:59.999999",
    "2037-12-31 23:59:59.4",
    "2000-01-01 00:00:00.000001",
];

const TIMES: &[&str] = &[
    "00:00:00",
    "00:00:00.000001",
    "00:00:00.5",
    "-00:00:00.5",
    "00:00:01",
    "-00:00:01",
    "00:00:59.5",
    "00:00:59.999999",
    "-00:59:59.5",
    "10:20:30",
    "-10:20:30.4",
    "10:20:30.5",
    "10:20:30.999999",
    "23:59:59.5",
    "24:00:00",
    "99:59:59.9",
    "100:00:00",
    "838:59:59",
    "-838:59:59",
    "838:59:58.999999",
    "20:24:00",
    "00:20:24",
];

/// The types that every run converts.
const OFTEN: &[&str] = &[
    "int",
    "bigint unsigned",
    "decimal(10,2)",
    "float",
    "double",
    "bit(11)",
    "year",
    "date",
    "datetime(6)",
    "timestamp(6) null",
    "time(6)",
    "varchar(80)",
    "varbinary(90)",
    "json",
];

fn is_long() -> bool {
    std::env::var("SLIPSTREAM_TEST_LENGTH").as_deref() == Ok("soak")
}

fn sources() -> Vec<Source> {
    let json: &[&str] = &[
        "0",
        "1",
        "-1",
        "127",
        "128",
        "32768",
        "65536",
        "2147483648",
        "4294967296",
        "-9223372036854775808",
        "9223372036854775807",
        "18446744073709551615",
        "1.5",
        "-0.5",
        "2.5",
        "1e20",
        "1e-7",
        "0.1",
        "100.0",
        "true",
        "false",
        "null",
        "\\\"\\\"",
        "\\\"1\\\"",
        "\\\"abc\\\"",
        "\\\"2024-02-29\\\"",
        "\\\"é😀\\\"",
        "[]",
        "{}",
        "[1, 2]",
        "{\\\"a\\\": 1}",
        "20240229",
        "102030",
    ];
    let mut all = vec![
        source("tinyint", NUMBERS),
        source("tinyint unsigned", NUMBERS),
        source("smallint", NUMBERS),
        source("mediumint unsigned", NUMBERS),
        source("int", NUMBERS),
        source("int unsigned", NUMBERS),
        source("int(7) zerofill", NUMBERS),
        source("bigint", NUMBERS),
        source("bigint unsigned", NUMBERS),
        source("decimal(10,2)", NUMBERS),
        source("decimal(40,10)", NUMBERS),
        source("decimal(20,6) unsigned", NUMBERS),
        source("decimal(12,3) zerofill", NUMBERS),
        source("float", NUMBERS),
        source("double", NUMBERS),
        source("float unsigned", NUMBERS),
        source("double unsigned", NUMBERS),
        source("float(9,2)", NUMBERS),
        source("double(14,3)", NUMBERS),
        source("double zerofill", NUMBERS),
        source("bit(1)", NUMBERS),
        source("bit(11)", NUMBERS),
        source("bit(64)", NUMBERS),
        source("year", &["0", "1901", "1970", "2000", "2024", "2069", "2155"]),
        source("date", DATES),
        source("datetime", DATETIMES),
        source("datetime(3)", DATETIMES),
        source("datetime(6)", DATETIMES),
        source("timestamp null", TIMESTAMPS),
        source("timestamp(6) null", TIMESTAMPS),
        source("time", TIMES),
        source("time(2)", TIMES),
        source("time(6)", TIMES),
        source("varchar(80)", TEXTS),
        source("char(60)", TEXTS),
        source("text", TEXTS),
        source("varchar(80) character set latin1", TEXTS),
        source("varchar(80) character set ucs2", TEXTS),
        source("varchar(80) character set utf16", TEXTS),
        source("varchar(80) character set utf16le", TEXTS),
        source("varchar(80) character set utf32", TEXTS),
        source("varchar(80) character set sjis", TEXTS),
        source("varbinary(90)", TEXTS),
        source("blob", TEXTS),
        source("enum('a','b','c','1','3','2024-02-29','é')", &["a", "b", "c", "1", "3", "2024-02-29", "é", "nothing"]),
        source("set('a','b','c','1','2024','10:20:30')", &["", "a", "b", "a,b", "1", "2024", "10:20:30", "a,b,c,1"]),
        source("json", json),
    ];
    match std::env::var("SLIPSTREAM_FROM") {
        Ok(only) => all.retain(|source| only.split(';').any(|name| name == source.name)),
        Err(_) if is_long() => {}
        Err(_) => all.retain(|source| OFTEN.contains(&source.name)),
    }
    all
}

const TARGETS: &[&str] = &[
    "tinyint",
    "tinyint unsigned",
    "smallint unsigned",
    "mediumint",
    "int",
    "int unsigned",
    "bigint",
    "bigint unsigned",
    "decimal(10,2)",
    "decimal(40,10)",
    "decimal(5,0) unsigned",
    "float",
    "double",
    "float unsigned",
    "double unsigned",
    "float(9,2)",
    "double(14,3)",
    "bit(1)",
    "bit(12)",
    "bit(64)",
    "year",
    "date",
    "datetime",
    "datetime(2)",
    "datetime(6)",
    "timestamp null",
    "timestamp(6) null",
    "time",
    "time(3)",
    "time(6)",
    "char(5)",
    "char(40)",
    "varchar(3)",
    "varchar(90)",
    "varchar(90) character set latin1",
    "varchar(90) character set ucs2",
    "varchar(90) character set utf16",
    "varchar(90) character set utf16le",
    "varchar(90) character set utf32",
    "varchar(90) character set utf8mb3",
    "varchar(90) character set sjis",
    "binary(8)",
    "varbinary(4)",
    "varbinary(200)",
    "tinytext",
    "text",
    "text character set ucs2",
    "blob",
    "enum('b','a','1','x','2024-02-29')",
    "set('b','a','1','x','2024-02-29')",
    "json",
];

/// A session's settings and what they are here.
struct Mode {
    sql_mode: &'static str,
    offset_seconds: i32,
    zone: &'static str,
}

const MODES: &[Mode] = &[
    Mode { sql_mode: "", offset_seconds: 19_800, zone: "+05:30" },
    Mode { sql_mode: "STRICT_TRANS_TABLES", offset_seconds: 0, zone: "+00:00" },
    Mode { sql_mode: "ALLOW_INVALID_DATES,TIME_TRUNCATE_FRACTIONAL", offset_seconds: -10_800, zone: "-03:00" },
    Mode { sql_mode: "NO_ZERO_IN_DATE,NO_ZERO_DATE", offset_seconds: 0, zone: "+00:00" },
];

impl Mode {
    fn has(&self, name: &str) -> bool {
        self.sql_mode.split(',').any(|one| one == name)
    }

    fn options(&self, from: &str, to: &str) -> ConvertOptions {
        let digits = |name: &str| match name {
            "float(9,2)" => Some((9, 2)),
            "double(14,3)" => Some((14, 3)),
            _ => None,
        };
        let zerofill_width = match from {
            "int(7) zerofill" => 7,
            "decimal(12,3) zerofill" => 13,
            "double zerofill" => 22,
            _ => 0,
        };
        ConvertOptions {
            strict: self.has("STRICT_TRANS_TABLES"),
            truncate_fraction: self.has("TIME_TRUNCATE_FRACTIONAL"),
            offset_seconds: Some(self.offset_seconds),
            zerofill_width,
            from_decimals: digits(from).map(|(_, decimals)| decimals),
            to_decimals: digits(to),
            today: Some(20_240_229),
            dates: DateRules {
                day_must_exist: !self.has("ALLOW_INVALID_DATES"),
                no_zero_in_date: self.has("NO_ZERO_IN_DATE"),
            },
            ..ConvertOptions::default()
        }
    }
}

/// The column and row that an error or a warning of the server names, 1-based.
fn place(message: &str) -> (Option<usize>, Option<usize>) {
    let number = |rest: &str| rest.chars().take_while(char::is_ascii_digit).collect::<String>().parse().ok();
    let row = message.rsplit_once("at row ").and_then(|(_, rest)| number(rest));
    let column =
        message.rsplit_once("column 'v").or_else(|| message.rsplit_once(".v")).and_then(|(_, rest)| number(rest));
    (column, row)
}

/// One table of a source under a mode: a column a target.
fn alter(connection: &mut Connection, table: &str, source: &Source, targets: &[&str], mode: &Mode) {
    let columns: String = (1..=targets.len()).fold(String::new(), |mut all, at| {
        let _ = write!(all, ", v{at} {}", source.name);
        all
    });
    connection
        .exec(&format!(
            "CREATE TABLE {table} (id INT AUTO_INCREMENT PRIMARY KEY{columns}) CHARACTER SET utf8mb4 ROW_FORMAT=DYNAMIC"
        ))
        .unwrap();
    connection.exec("SET sql_mode = 'ALLOW_INVALID_DATES', time_zone = '+00:00'").unwrap();
    connection.exec(&format!("INSERT INTO {table} (v1) VALUES ('{}')", source.values.join("'),('"))).unwrap();
    let copies: Vec<String> = (2..=targets.len()).map(|at| format!("v{at} = v1")).collect();
    if !copies.is_empty() {
        connection.exec(&format!("UPDATE {table} SET {}", copies.join(", "))).unwrap();
    }
    let change = |at: usize| match targets[at] {
        target if target.ends_with("null") => format!("MODIFY v{} {target}", at + 1),
        target => format!("MODIFY v{} {target} NULL", at + 1),
    };
    let changes: Vec<String> = (0..targets.len()).map(change).collect();
    // Rows are numbered as the server reads them, which is by id.
    let ids = rows(connection, &format!("SELECT id FROM {table} ORDER BY id"));
    let forget = |connection: &mut Connection, table: &str, (column, row): (usize, usize)| {
        let id = &ids[row - 1];
        connection.exec(&format!("UPDATE {table} SET v{column} = NULL WHERE id = {id}")).unwrap();
    };
    // In strict mode, what a session without it warns of is left out.
    if mode.has("STRICT_TRANS_TABLES") {
        connection.exec(&format!("CREATE TABLE probe LIKE {table}")).unwrap();
        connection.exec(&format!("INSERT INTO probe SELECT * FROM {table}")).unwrap();
        connection.exec("SET sql_mode = '', time_zone = '+00:00', max_error_count = 65535").unwrap();
        while let Err(error) = connection.exec(&format!("ALTER TABLE probe {}", changes.join(", "))) {
            match place(&error.to_string()) {
                (Some(column), Some(row)) => forget(connection, "probe", (column, row)),
                _ => panic!("{error}: {} {changes:?}", source.name),
            }
        }
        let warned: Vec<(usize, usize)> = triples(connection, "SHOW WARNINGS")
            .iter()
            .filter(|[level, ..]| level != "Note")
            .filter_map(|[_, _, message]| place(message).0.zip(place(message).1))
            .collect();
        connection.exec("DROP TABLE probe").unwrap();
        connection.exec("SET sql_mode = 'ALLOW_INVALID_DATES'").unwrap();
        for cell in warned {
            forget(connection, table, cell);
        }
    }
    connection
        .exec(&format!("SET sql_mode = '{}', time_zone = '{}', timestamp = 1709202030.5", mode.sql_mode, mode.zone))
        .unwrap();
    // The whole statement first; where the server names no cell, column by column.
    let mut statements = vec![changes.join(", ")];
    while let Some(sql) = statements.pop() {
        let Err(error) = connection.exec(&format!("ALTER TABLE {table} {sql}")) else { continue };
        match place(&error.to_string()) {
            (Some(column), Some(row)) => {
                forget(connection, table, (column, row));
                statements.push(sql);
            }
            // A change of digits alone would leave the rows as they are: only a copy rounds them.
            _ if statements.is_empty() && sql.contains(", MODIFY") => {
                statements = changes.iter().map(|change| format!("{change}, ALGORITHM=COPY")).collect();
            }
            _ => println!("  {}: {sql}: {error}", source.name),
        }
    }
    connection.exec("SET sql_mode = 'ALLOW_INVALID_DATES'").unwrap();
    connection.exec(&format!("UPDATE {table} SET id = id + 1000000 ORDER BY id")).unwrap();
}

fn rows(connection: &mut Connection, sql: &str) -> Vec<String> {
    let rows = connection.query(sql).unwrap().rows;
    rows.into_iter().map(|row| String::from_utf8(row[0].clone().unwrap()).unwrap()).collect()
}

fn triples(connection: &mut Connection, sql: &str) -> Vec<[String; 3]> {
    let rows = connection.query(sql).unwrap().rows;
    let text = |value: Option<Vec<u8>>| String::from_utf8_lossy(&value.unwrap()).into_owned();
    rows.into_iter().map(|row| <[_; 3]>::try_from(row).unwrap().map(text)).collect()
}

fn shown(ty: &ColumnType, stored: &[u8]) -> String {
    let mut out = Vec::new();
    match write_text(ty, stored, TextOptions::default(), &mut out) {
        Ok(()) => format!("{} ({stored:02x?})", String::from_utf8_lossy(&out)),
        Err(error) => format!("{error} ({stored:02x?})"),
    }
}

#[derive(Default)]
struct Tally {
    right: usize,
    unknown: BTreeMap<String, usize>,
}

/// True unless SLIPSTREAM_TO names other types.
fn is_target(target: &str) -> bool {
    std::env::var("SLIPSTREAM_TO").map_or(true, |only| only.split(';').any(|name| name == target))
}

/// True unless SLIPSTREAM_MODE names another sql_mode.
fn is_chosen(mode: &Mode) -> bool {
    match std::env::var("SLIPSTREAM_MODE") {
        Ok(only) => only == mode.sql_mode,
        Err(_) => {
            is_long() || mode.sql_mode == "STRICT_TRANS_TABLES" || (testkit::all_cases() && mode.sql_mode.is_empty())
        }
    }
}

#[test]
fn every_type_in_every_other() {
    let Some(server) = Server::or_skip("conversions", DESCRIBED) else { return };
    let mut connection = connect(&server);
    connection.exec("CREATE DATABASE v CHARACTER SET utf8mb4").unwrap();
    connection.exec("USE v").unwrap();
    let sources = sources();
    let targets: Vec<&str> = TARGETS.iter().copied().filter(|target| is_target(target)).collect();
    let mut tables = Vec::new();
    for source in &sources {
        let targets: Vec<&str> = targets.iter().copied().filter(|target| *target != source.name).collect();
        for mode in MODES.iter().filter(|mode| is_chosen(mode)) {
            let (plain, json): (Vec<&str>, Vec<&str>) = targets.iter().partition(|target| **target != "json");
            if !plain.is_empty() {
                let table = format!("t{}", tables.len());
                alter(&mut connection, &table, source, &plain, mode);
                tables.push((table, source.name, plain, mode));
            }
            // What is no JSON fails the statement in every mode, and the error names no row.
            if json.is_empty() || mode.has("NO_ZERO_DATE") || mode.has("TIME_TRUNCATE_FRACTIONAL") {
                continue;
            }
            for value in &source.values {
                let table = format!("t{}", tables.len());
                let one = Source { name: source.name, values: vec![value.clone()] };
                alter_json(&mut connection, &table, &one, mode);
                tables.push((table, source.name, json.clone(), mode));
            }
        }
    }
    connection.exec("FLUSH BINARY LOGS").unwrap();
    let logged = logged_tables(&server);
    let mut tallies: BTreeMap<(String, String), Tally> = BTreeMap::new();
    let mut wrong = String::new();
    for (table, from, targets, mode) in &tables {
        let Some(logged) = logged.get(table) else { continue };
        compare(logged, from, targets, mode, &mut tallies, &mut wrong);
    }
    let (mut right, mut unknown) = (0, 0);
    for ((from, to), tally) in &tallies {
        right += tally.right;
        let count: usize = tally.unknown.values().sum();
        unknown += count;
        if count > 0 {
            println!("{from} to {to}: {} right, {count} unknown", tally.right);
            if std::env::var("SLIPSTREAM_VERBOSE").is_ok() {
                tally.unknown.iter().for_each(|(what, count)| println!("    {count} {what}"));
            }
        }
    }
    println!("{right} right, {unknown} unknown");
    assert!(wrong.is_empty(), "{} wrong:\n{wrong}", wrong.lines().count());
    let chosen = std::env::var("SLIPSTREAM_FROM").is_ok();
    assert!(chosen || right > 20_000 && unknown * 10 < right, "{right} right, {unknown} unknown");
}

fn alter_json(connection: &mut Connection, table: &str, source: &Source, mode: &Mode) {
    connection
        .exec(&format!("CREATE TABLE {table} (id INT PRIMARY KEY, v1 {}) CHARACTER SET utf8mb4", source.name))
        .unwrap();
    connection.exec("SET sql_mode = 'ALLOW_INVALID_DATES', time_zone = '+00:00'").unwrap();
    connection.exec(&format!("INSERT INTO {table} VALUES (1, '{}')", source.values[0])).unwrap();
    connection.exec(&format!("SET sql_mode = '{}', time_zone = '{}'", mode.sql_mode, mode.zone)).unwrap();
    if connection.exec(&format!("ALTER TABLE {table} MODIFY v1 JSON")).is_ok() {
        connection.exec(&format!("UPDATE {table} SET id = id + 1000000")).unwrap();
    }
}

fn compare(
    logged: &Logged,
    from: &str,
    targets: &[&str],
    mode: &Mode,
    tallies: &mut BTreeMap<(String, String), Tally>,
    wrong: &mut String,
) {
    let (old, new) = (RowLayout::new(&logged.before_types), RowLayout::new(&logged.after_types));
    let (mut before, mut after) = (Vec::new(), Vec::new());
    for (old_image, new_image) in logged.before.iter().zip(&logged.after) {
        old.walk_offsets(old_image, &mut before).unwrap();
        new.walk_offsets(new_image, &mut after).unwrap();
        for (at, to) in targets.iter().enumerate() {
            let (from_type, to_type) = (&logged.before_types[at + 1], &logged.after_types[at + 1]);
            let (Some(old), Some(new)) = (stored(old_image, before[at + 1]), stored(new_image, after[at + 1])) else {
                continue;
            };
            let tally = tallies.entry((from.to_owned(), (*to).to_owned())).or_default();
            let mut out = Vec::new();
            let done =
                Conversion::new(from_type, to_type, mode.options(from, to)).and_then(|c| c.append(old, &mut out));
            match done {
                Ok(()) if out == new => tally.right += 1,
                Ok(()) => {
                    let (old, new, ours) = (shown(from_type, old), shown(to_type, new), shown(to_type, &out));
                    let _ = writeln!(wrong, "{from} to {to}, '{}': {old}: server {new}, here {ours}", mode.sql_mode);
                }
                Err(error) => {
                    *tally
                        .unknown
                        .entry(format!(
                            "'{}' {}: server {}: {error}",
                            mode.sql_mode,
                            shown(from_type, old),
                            shown(to_type, new)
                        ))
                        .or_default() += 1;
                }
            }
        }
    }
}
