//! Every column type with its extreme values, and the statements that write them.
//! `SLIPSTREAM_ALL_TYPES_SQL=FILE` makes the test write its statements to that file.

use std::fmt::Write as _;

/// Whether a column of the type may be a key.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Keys {
    /// The whole column.
    Whole,
    /// No key, or only its first bytes.
    No,
    /// Only in a table with a key of its own: the same type is tried in every position elsewhere.
    Plain,
}

/// A column type with values for it.
pub struct Type {
    /// Short name, for table names.
    pub name: String,
    /// Type as in CREATE TABLE.
    pub sql: String,
    /// SQL expressions, to which NULL is added.
    pub values: Vec<String>,
    /// Use of the type in keys.
    pub keys: Keys,
}

/// Row image that the log is written with, and whether transactions are compressed.
pub const FORMATS: &[(&str, bool)] =
    &[("FULL", false), ("MINIMAL", false), ("NOBLOB", false), ("FULL", true), ("MINIMAL", true), ("NOBLOB", true)];

/// Expressions that update a JSON column in place.
const JSON_UPDATES: &[&str] = &[
    "JSON_SET(v, '$.a', 5)",
    "JSON_SET(v, '$.a', 'a longer text than there was')",
    "JSON_REPLACE(v, '$.list[1]', CAST(1.5 AS DECIMAL(5,3)))",
    "JSON_REMOVE(v, '$.list[0]')",
    "JSON_SET(v, '$.list[0]', JSON_OBJECT('k', NULL, 'x y', TRUE), '$.new', CAST('2024-02-29' AS DATE))",
    "JSON_REMOVE(JSON_SET(v, '$.list[1].\"x y\"', JSON_ARRAY(1, 'zwei', 3.5)), '$.a')",
    "JSON_ARRAY_INSERT(v, '$.list[0]', 'first')",
    "JSON_ARRAY_APPEND(v, '$.list', 'last')",
    "JSON_SET(v, '$[0].a', 70000, '$.\"日本\"', '\\\"quoted\\\\')",
];

fn strings(values: &[&str]) -> Vec<String> {
    values.iter().map(|value| format!("'{value}'")).collect()
}

fn raw(values: &[&str]) -> Vec<String> {
    values.iter().map(|value| (*value).to_owned()).collect()
}

struct Types(Vec<Type>);

impl Types {
    fn add(&mut self, name: &str, sql: &str, values: Vec<String>, keys: Keys) {
        self.0.push(Type { name: name.to_lowercase(), sql: sql.to_owned(), values, keys });
    }
}

/// All types. `charsets` are the server's character sets.
#[must_use]
pub fn types(charsets: &[&str]) -> Vec<Type> {
    let mut types = Types(Vec::new());
    numbers(&mut types);
    temporal(&mut types);
    texts(&mut types, charsets);
    bytes(&mut types);
    others(&mut types);
    types.0
}

fn numbers(types: &mut Types) {
    for (name, bits) in [("TINYINT", 8), ("SMALLINT", 16), ("MEDIUMINT", 24), ("INT", 32), ("BIGINT", 64)] {
        let (min, max) = (-(1i128 << (bits - 1)), (1i128 << (bits - 1)) - 1);
        types.add(name, name, [min, max, 0, -1, 1].map(|v| v.to_string()).to_vec(), Keys::Whole);
        let top = (1i128 << bits) - 1;
        let values = [0, top, 1, max, max + 1].map(|v| v.to_string()).to_vec();
        types.add(&format!("{name}_u"), &format!("{name} UNSIGNED"), values, Keys::Whole);
    }
    for (precision, scale) in [(65, 30), (65, 0), (1, 0), (30, 30), (10, 5), (18, 9), (19, 1)] {
        let whole = "9".repeat((precision - scale).max(1) as usize);
        let whole = if precision == scale { "0" } else { whole.as_str() };
        let largest = if scale > 0 { format!("{whole}.{}", "9".repeat(scale as usize)) } else { whole.to_owned() };
        let smallest = if scale > 0 { format!("0.{}1", "0".repeat(scale as usize - 1)) } else { "1".into() };
        let values = vec![largest.clone(), format!("-{largest}"), "0".into(), smallest.clone(), format!("-{smallest}")];
        types.add(
            &format!("decimal_{precision}_{scale}"),
            &format!("DECIMAL({precision},{scale})"),
            values.clone(),
            Keys::Whole,
        );
        if precision == 10 {
            let positive = values.into_iter().filter(|value| !value.starts_with('-')).collect();
            types.add("decimal_u", "DECIMAL(10,5) UNSIGNED", positive, Keys::Whole);
        }
    }
    let floats = raw(&["0", "-0e0", "3.402823466e38", "-3.402823466e38", "1.175494351e-38", "16777217", "0.1", "-1.5"]);
    types.add("float", "FLOAT", floats, Keys::Whole);
    types.add("float_u", "FLOAT UNSIGNED", raw(&["0", "0.1", "3e38"]), Keys::Whole);
    types.add("float_7_3", "FLOAT(7,3)", raw(&["0", "-9999.999", "9999.999", "0.001"]), Keys::Whole);
    let doubles = raw(&[
        "0",
        "-0e0",
        "1.7976931348623157e308",
        "-1.7976931348623157e308",
        "2.2250738585072014e-308",
        "0.1",
        "1e15",
    ]);
    types.add("double", "DOUBLE", doubles, Keys::Whole);
    types.add("double_20_2", "DOUBLE(20,2) UNSIGNED ZEROFILL", raw(&["0", "3.13", "999999999999999.98"]), Keys::Whole);
    for bits in [1u32, 7, 8, 9, 31, 33, 63, 64] {
        let top = (1u128 << bits) - 1;
        let values = vec!["0".into(), top.to_string(), "1".into(), (top / 2).to_string()];
        types.add(&format!("bit_{bits}"), &format!("BIT({bits})"), values, Keys::Whole);
    }
    types.add("year", "YEAR", raw(&["0", "1901", "2155", "2000"]), Keys::Whole);
}

fn temporal(types: &mut Types) {
    let dates =
        strings(&["0000-00-00", "1000-01-01", "9999-12-31", "2024-02-31", "2024-00-00", "2024-02-29", "0001-01-01"]);
    types.add("date", "DATE", dates, Keys::Whole);
    for fraction in 0..=6usize {
        let f = |digits: &str| if fraction == 0 { String::new() } else { format!(".{}", &digits[..fraction]) };
        let (nines, one) = (f("999999"), f("000001"));
        // Only the last digit.
        let least = if fraction == 0 { String::new() } else { format!(".{}1", "0".repeat(fraction - 1)) };
        let of = |values: Vec<String>| values.into_iter().map(|value| format!("'{value}'")).collect::<Vec<_>>();
        let times = vec![
            "838:59:59".into(),
            "-838:59:59".into(),
            "00:00:00".into(),
            format!("-00:00:00{least}"),
            format!("837:59:59{nines}"),
            format!("-12:34:56{nines}"),
            format!("00:00:00{least}"),
            format!("-00:00:01{one}"),
        ];
        types.add(&format!("time_{fraction}"), &format!("TIME({fraction})"), of(times), Keys::Whole);
        let datetimes = vec![
            "0000-00-00 00:00:00".into(),
            "1000-01-01 00:00:00".into(),
            format!("9999-12-31 23:59:59{nines}"),
            format!("2024-02-31 12:00:00{least}"),
            format!("2024-02-00 01:02:03{nines}"),
        ];
        types.add(&format!("datetime_{fraction}"), &format!("DATETIME({fraction})"), of(datetimes), Keys::Whole);
        let timestamps = vec![
            "0000-00-00 00:00:00".into(),
            "1970-01-01 00:00:01".into(),
            format!("2038-01-19 03:14:07{nines}"),
            format!("2001-09-09 01:46:40{least}"),
        ];
        types.add(
            &format!("timestamp_{fraction}"),
            &format!("TIMESTAMP({fraction}) NULL"),
            of(timestamps),
            Keys::Whole,
        );
    }
}

fn texts(types: &mut Types, charsets: &[&str]) {
    let of_len = |len: u32| format!("REPEAT('ü', {len})");
    let ends = |len: u32| vec!["''".into(), "'a'".into(), "'a \\t\\\\b'".into(), of_len(len), of_len(len - 1)];
    for len in [1u32, 63, 64, 255] {
        let values = if len == 1 { vec!["''".into(), "'ü'".into(), "'😀'".into()] } else { ends(len) };
        types.add(&format!("char_{len}"), &format!("CHAR({len})"), values.clone(), Keys::Whole);
        types.add(&format!("varchar_{len}"), &format!("VARCHAR({len})"), values, Keys::Whole);
    }
    types.add("char_0", "CHAR(0)", vec!["''".into()], Keys::No);
    types.add("varchar_16380", "VARCHAR(16380)", ends(16380), Keys::No);
    types.add("varchar_latin1", "VARCHAR(65500) CHARACTER SET latin1", ends(65500), Keys::No);
    for (kind, longest) in [("TINYTEXT", 127u32), ("TEXT", 32767), ("MEDIUMTEXT", 40_000), ("LONGTEXT", 70_000)] {
        types.add(kind, kind, ends(longest), Keys::No);
    }
    for charset in charsets {
        if *charset == "binary" {
            continue;
        }
        let values =
            raw(&["''", "'a b'", "'z  '", "'~|^'", "CONCAT('ä', 'ж', 'あ', '好', '한', 'ก', 'א')", "REPEAT('x', 40)"]);
        let with = format!("CHARACTER SET {charset}");
        // As keys in the long form: rows are found by their bytes, whatever the character set.
        let keys = if crate::soak() { Keys::Whole } else { Keys::Plain };
        types.add(&format!("cs_{charset}_varchar"), &format!("VARCHAR(40) {with}"), values.clone(), Keys::Whole);
        types.add(&format!("cs_{charset}_char"), &format!("CHAR(40) {with}"), values.clone(), keys);
        types.add(&format!("cs_{charset}_text"), &format!("TEXT {with}"), values, Keys::Plain);
        let members = format!("ENUM('a', 'b', 'c d') {with}");
        types.add(&format!("cs_{charset}_enum"), &members, raw(&["1", "2", "3"]), Keys::Plain);
    }
    // The server needs most of a minute to create an ENUM with the maximum number of members.
    for size in [1u32, 255, 256, if crate::soak() { 65_535 } else { 1000 }] {
        let members: Vec<String> = (1..=size).map(|n| format!("'{n:x}'")).collect();
        let values = [1, size.div_ceil(2), size].map(|n| n.to_string()).to_vec();
        types.add(&format!("enum_{size}"), &format!("ENUM({})", members.join(",")), values, Keys::Whole);
    }
    types.add("enum_error", "ENUM('', 'x')", raw(&["1", "2", "'no such'"]), Keys::Whole);
    for size in [1u32, 8, 9, 24, 25, 64] {
        let members: Vec<String> = (1..=size).map(|n| format!("'m{n}'")).collect();
        let top = (1u128 << size) - 1;
        let values = vec!["0".into(), "1".into(), top.to_string(), (1u128 << (size - 1)).to_string()];
        types.add(&format!("set_{size}"), &format!("SET({})", members.join(",")), values, Keys::Whole);
    }
}

fn bytes(types: &mut Types) {
    let ends =
        |len: u32| vec!["''".into(), "0x00".into(), "0xff00".into(), "0x2020".into(), format!("REPEAT(0xfe, {len})")];
    for len in [2u32, 255] {
        types.add(&format!("binary_{len}"), &format!("BINARY({len})"), ends(len), Keys::Whole);
    }
    for len in [2u32, 255, 256, 3000] {
        types.add(&format!("varbinary_{len}"), &format!("VARBINARY({len})"), ends(len), Keys::Whole);
    }
    types.add("varbinary_65000", "VARBINARY(65000)", ends(65_000), Keys::No);
    for (kind, longest) in [("TINYBLOB", 255u32), ("BLOB", 65_535), ("MEDIUMBLOB", 66_000), ("LONGBLOB", 140_000)] {
        types.add(kind, kind, ends(longest), Keys::No);
    }
}

fn others(types: &mut Types) {
    let json = raw(&[
        "'null'",
        "'{}'",
        "'[]'",
        "'\"\"'",
        "'{\"a\": 1, \"list\": [1, 2, {\"b\": \"c\"}], \"t\": true}'",
        "JSON_OBJECT('a', CAST(-12.50 AS DECIMAL(10,4)), 'list', JSON_ARRAY(CAST('2024-01-02 03:04:05.678901' AS DATETIME(6)), CAST('-12:00:00' AS TIME), x'ff00'))",
        "JSON_ARRAY(-9223372036854775808, 18446744073709551615, 1e308, -0e0, 32767, -32769, 4294967295, 0.1)",
        "JSON_OBJECT('a', REPEAT('long', 20000), 'list', JSON_ARRAY(1, 2, 3))",
        "CAST('17' AS JSON)",
    ]);
    types.add("json", "JSON", json, Keys::No);
    let from_text = |texts: &[&str]| texts.iter().map(|text| format!("ST_GeomFromText('{text}')")).collect::<Vec<_>>();
    let all = [
        "POINT(1 2)",
        "LINESTRING(0 0,1 1,-1e300 5)",
        "POLYGON((0 0,10 0,10 10,0 10,0 0),(1 1,2 1,2 2,1 2,1 1))",
        "MULTIPOINT((0 0),(1 1))",
        "MULTILINESTRING((0 0,1 1),(2 2,3 3))",
        "MULTIPOLYGON(((0 0,1 0,1 1,0 0)))",
        "GEOMETRYCOLLECTION EMPTY",
        "GEOMETRYCOLLECTION(POINT(1 1),LINESTRING(0 0,1 1))",
    ];
    let mut geometries = from_text(&all);
    geometries.push("ST_GeomFromText('POINT(48.2 16.3)', 4326)".into());
    types.add("geometry", "GEOMETRY", geometries, Keys::No);
    types.add("point", "POINT", from_text(&all[..1]), Keys::No);
    types.add("polygon", "POLYGON SRID 0", from_text(&all[2..3]), Keys::No);
    types.add("geomcollection", "GEOMETRYCOLLECTION", from_text(&all[6..8]), Keys::No);
    let vector = |n: usize| format!("TO_VECTOR('[{}]')", vec!["-1.5"; n].join(","));
    types.add("vector_1", "VECTOR(1)", vec![vector(1), "TO_VECTOR('[3.4e38]')".into()], Keys::No);
    types.add("vector", "VECTOR(16383)", vec![vector(1), vector(3), vector(16_383)], Keys::No);
}

/// Number of rows of one type that each kind of change touched.
#[derive(Clone, Copy, Default)]
pub struct Counts {
    /// Distinct values, NULL included.
    pub values: usize,
    /// Rows inserted, over all tables and formats.
    pub inserts: usize,
    /// UPDATE statements.
    pub updates: usize,
    /// DELETE statements.
    pub deletes: usize,
    /// UPDATE statements that change an identifying key.
    pub key_changes: usize,
}

/// CREATE TABLE statements of a type: `t_` with a key of its own, `k_` without any, `p_` and `u_` with the type as
/// primary and as unique key, `g_` with columns generated from it, one of them invisible, and an invisible primary key.
#[must_use]
pub fn create(ty: &Type) -> String {
    let Type { name, sql, .. } = ty;
    let mut out = format!("CREATE TABLE t_{name} (id INT PRIMARY KEY, v {sql}, n INT DEFAULT 0);\n");
    if ty.keys != Keys::Plain {
        let _ = writeln!(out, "CREATE TABLE k_{name} (v {sql}, n INT);");
    }
    if ty.keys == Keys::Whole {
        let bare = sql.trim_end_matches(" NULL");
        // In a virtual column the reader's sql_mode decides what an invalid date reads as.
        let date = name.starts_with("date") || name.starts_with("timestamp");
        let same = if date { "INT AS (LENGTH(v))".to_owned() } else { format!("{bare} AS (v)") };
        let not_null = format!("{bare} NOT NULL");
        let _ = write!(
            out,
            "CREATE TABLE p_{name} (n INT, v {not_null} PRIMARY KEY); CREATE TABLE u_{name} (n INT, v {not_null}, UNIQUE KEY (v));
             SET SESSION sql_generate_invisible_primary_key = ON;
             CREATE TABLE g_{name} (v {sql}, n INT INVISIBLE, s VARCHAR(300) AS (LEFT(HEX(v), 300)) STORED, w {same} VIRTUAL);
             SET SESSION sql_generate_invisible_primary_key = OFF;\n"
        );
    }
    out
}

/// Changes of a type under one format, each an autocommitted statement or one of a transaction.
pub fn changes(ty: &Type, format: usize, counts: &mut Counts) -> String {
    let Type { name, keys, .. } = ty;
    let mut values = ty.values.clone();
    values.push("NULL".into());
    let (count, from) = (values.len(), format * 1000);
    counts.values = count;
    let mut out = String::new();
    let all: Vec<String> = values.iter().enumerate().map(|(n, v)| format!("({}, {v})", from + n)).collect();
    let all = all.join(", ");
    let _ = writeln!(out, "BEGIN; INSERT INTO t_{name} (id, v) VALUES {all};");
    counts.inserts += count;
    let keyless = ty.keys != Keys::Plain;
    if keyless {
        let _ = writeln!(out, "INSERT INTO k_{name} (n, v) VALUES {all}, {all};");
        counts.inserts += 2 * count;
    }
    for n in 0..count {
        let (id, next) = (from + n, &values[(n + 1) % count]);
        let _ = writeln!(out, "UPDATE t_{name} SET v = {next} WHERE id = {id};");
        counts.updates += 1;
        if keyless {
            let _ = writeln!(out, "UPDATE k_{name} SET v = {next} WHERE n = {id} LIMIT 1;");
            counts.updates += 1;
        }
    }
    let _ = writeln!(
        out,
        "UPDATE t_{name} SET id = id + 500 WHERE id BETWEEN {from} AND {from} + 499 AND id % 2 = 0;
         UPDATE t_{name} SET id = id + 200, v = {} WHERE id BETWEEN {from} AND {from} + 199;
         DELETE FROM t_{name} WHERE id DIV 1000 = {format} AND id % 3 = 0;",
        values[0]
    );
    counts.key_changes += 2;
    counts.deletes += 1;
    if keyless {
        let _ = writeln!(
            out,
            "UPDATE k_{name} SET n = n + 1 WHERE n % 2 = 0; DELETE FROM k_{name} WHERE n % 5 = 1 LIMIT 2;"
        );
        counts.key_changes += 1;
        counts.deletes += 1;
    }
    out.push_str("COMMIT;\n");
    if *keys == Keys::Whole {
        for table in ["p", "u"] {
            let _ = writeln!(out, "BEGIN; DELETE FROM {table}_{name};");
            let _ = writeln!(out, "INSERT IGNORE INTO {table}_{name} (n, v) VALUES {all};");
            for n in 0..count - 1 {
                let id = from + n;
                let next = &values[(n + 1) % (count - 1)];
                let _ = writeln!(out, "UPDATE {table}_{name} SET n = n + 300 WHERE n = {id};");
                let _ = writeln!(out, "UPDATE IGNORE {table}_{name} SET v = {next} WHERE n = {id} + 300;");
            }
            let _ = writeln!(out, "DELETE FROM {table}_{name} WHERE n % 2 = 0 LIMIT 1;");
            // Frees a value, which another row then takes: a key change that is sure to happen.
            let _ = writeln!(out, "UPDATE IGNORE {table}_{name} SET v = {} LIMIT 1; COMMIT;", values[0]);
            counts.inserts += count;
            counts.updates += count - 1;
            counts.key_changes += count;
            counts.deletes += 2;
        }
        let _ = writeln!(
            out,
            "INSERT INTO g_{name} (n, v) VALUES {all}; UPDATE g_{name} SET v = {} WHERE n % 1000 = 1; DELETE FROM g_{name} WHERE n % 3 = 0;",
            values[0]
        );
        counts.inserts += count;
        counts.updates += 1;
        counts.deletes += 1;
    }
    if name == "json" {
        for (n, update) in JSON_UPDATES.iter().enumerate() {
            for table in ["t", "k"] {
                let _ = writeln!(out, "UPDATE {table}_json SET v = {update} WHERE JSON_TYPE(v) = 'OBJECT';");
            }
            let _ = writeln!(
                out,
                "UPDATE t_json SET v = {update}, id = id + 100000 + {n} WHERE id = (SELECT m FROM (SELECT MAX(id) AS m FROM t_json WHERE JSON_TYPE(v) = 'OBJECT' AND id < 90000) AS x);"
            );
            counts.updates += 2;
            counts.key_changes += 1;
        }
    }
    out
}

/// Session settings to send before `changes`.
#[must_use]
pub fn settings(format: usize) -> String {
    let (image, compression) = FORMATS[format % FORMATS.len()];
    // Every other round of the formats logs whole documents.
    let partial = if format < FORMATS.len() { "PARTIAL_JSON" } else { "" };
    format!(
        "SET SESSION sql_mode = 'ALLOW_INVALID_DATES', time_zone = '+00:00', binlog_row_image = {image}, \
         binlog_transaction_compression = {}, binlog_row_value_options = '{partial}';\n",
        if compression { "ON" } else { "OFF" }
    )
}
