//! Random statements that change rows.
//!
//! In: the known tables. Out: consecutive statements, of one transaction or of none. Never here: a look at the server.

use super::schema::{Column, Name, Schema, Table};
use super::types::Kind;
use super::{Chance as _, Statement};
use crate::Random;

/// A table that statements are written for.
struct Target {
    name: String,
    table: Table,
}

/// The name as a statement in `database` has it.
#[must_use]
pub fn named(name: &Name, database: &str) -> String {
    if name.0 == database { format!("`{}`", name.1) } else { format!("`{}`.`{}`", name.0, name.1) }
}

/// A statement, or a few that belong together.
pub fn any(random: &mut Random, schema: &Schema, database: &str) -> Vec<Statement> {
    let Some((name, table)) = schema.any(random) else { return Vec::new() };
    let target = Target { name: named(&name, database), table };
    let t = &target;
    let one = |kind, sql| vec![Statement::new(kind, sql)];
    match random.below(40) {
        0..=5 => one("INSERT", insert(random, t, "INSERT", 1)),
        6..=8 => {
            let rows = 2 + random.below(30);
            one("INSERT of several rows", insert(random, t, "INSERT", rows))
        }
        9..=11 => {
            let rows = 2 + random.below(8);
            one("INSERT IGNORE", insert(random, t, "INSERT IGNORE", rows))
        }
        12 | 13 => insert_select(random, schema, t, database),
        14 | 15 => {
            let rows = 1 + random.below(4);
            let sql = insert(random, t, "INSERT", rows);
            let set = assignments(random, t, "");
            one("INSERT … ON DUPLICATE KEY UPDATE", format!("{sql} ON DUPLICATE KEY UPDATE {set}"))
        }
        16 | 17 => {
            let rows = 1 + random.below(4);
            one("REPLACE", insert(random, t, "REPLACE", rows))
        }
        18..=22 => {
            let (set, condition) = (assignments(random, t, ""), condition(random, t, "", true));
            one("UPDATE", format!("UPDATE {}{} SET {set}{condition}", ignore(random), t.name))
        }
        23..=26 => update_key(random, t),
        27 | 28 => swap(random, t),
        29 | 30 => several_tables(random, schema, t, database),
        31..=34 => {
            let condition = condition(random, t, "", true);
            one("DELETE", format!("DELETE {}FROM {}{condition}", ignore(random), t.name))
        }
        35..=37 => json_part(random, t),
        38 => one("INSERT … SET", {
            let set = assignments(random, t, "");
            format!("INSERT INTO {} SET {set}", t.name)
        }),
        // One row: with MINIMAL images 9.7.4 cannot log a second one without columns (1534), and a table that is not
        // transactional keeps it. INSERTs of defaults into InnoDB: tests/regressions/insert_of_defaults_alone.sql.
        _ => one("INSERT of defaults", format!("INSERT INTO {} () VALUES ()", t.name)),
    }
}

fn ignore(random: &mut Random) -> &'static str {
    if random.chance(30) { "IGNORE " } else { "" }
}

fn insert(random: &mut Random, t: &Target, verb: &str, rows: u64) -> String {
    let mut columns = t.table.writable();
    if random.chance(25) {
        columns.retain(|column| random.chance(80) || column.name == "c0");
    }
    let names: Vec<String> = columns.iter().map(|column| format!("`{}`", column.name)).collect();
    let row = |random: &mut Random| {
        let values: Vec<String> = columns.iter().map(|column| column.value(random)).collect();
        format!("({})", values.join(","))
    };
    let rows: Vec<String> = (0..rows).map(|_| row(random)).collect();
    format!("{verb} INTO {} ({}) VALUES {}", t.name, names.join(","), rows.join(","))
}

/// Copies rows of another table, or of the same, into columns of a similar type.
fn insert_select(random: &mut Random, schema: &Schema, t: &Target, database: &str) -> Vec<Statement> {
    let Some((from, other)) = schema.any(random) else { return Vec::new() };
    let value = |random: &mut Random, column: &Column| {
        let like = |c: &&Column| std::mem::discriminant(&c.kind) == std::mem::discriminant(&column.kind);
        let likes: Vec<&Column> = other.columns.iter().filter(like).collect();
        match random.pick_or_none(&likes) {
            Some(other) if random.chance(80) => format!("s.`{}`", other.name),
            _ => column.value(random).replace("DEFAULT", "1"),
        }
    };
    let columns = t.table.writable();
    let values: Vec<String> = columns.iter().map(|column| value(random, column)).collect();
    let names: Vec<String> = columns.iter().map(|column| format!("`{}`", column.name)).collect();
    let verb = ["INSERT", "INSERT IGNORE", "REPLACE"][random.below(3) as usize];
    let from = named(&from, database);
    let limit = 1 + random.below(20);
    let sql =
        format!("{verb} INTO {} ({}) SELECT {} FROM {from} s LIMIT {limit}", t.name, names.join(","), values.join(","));
    vec![Statement::new("INSERT … SELECT", sql)]
}

/// One to three assignments; `alias` with its dot precedes the columns.
fn assignments(random: &mut Random, t: &Target, alias: &str) -> String {
    let columns = t.table.writable();
    let mut set: Vec<String> = Vec::new();
    for _ in 0..1 + random.below(3) {
        let Some(column) = random.pick_or_none(&columns) else { continue };
        let name = format!("{alias}`{}`", column.name);
        let value = match random.below(6) {
            0 | 1 if column.kind.is_number() => format!("{name} + {}", random.below(5)),
            0 if column.kind.is_text() => format!("CONCAT({name},'+')"),
            1 if column.kind.is_text() => format!("UPPER({name})"),
            0 if column.kind == Kind::Json => json_change(random, &name),
            // In MyISAM the DEFAULT of a BIT is written over the next column's first byte too, and the log does not say
            // so with MINIMAL images (docs/mysql-bugs.md). InnoDB: tests/regressions/bit_set_to_its_default.sql.
            _ if matches!(column.kind, Kind::Bit(_)) => column.kind.literal(random),
            _ => column.value(random),
        };
        set.push(format!("{name} = {value}"));
    }
    if set.is_empty() { "`c0` = `c0`".into() } else { set.join(", ") }
}

/// A WHERE condition that finds some rows, often by a key; with ORDER BY and LIMIT where allowed.
fn condition(random: &mut Random, t: &Target, alias: &str, limited: bool) -> String {
    let keys = t.table.key_columns();
    let all: Vec<&Column> = t.table.columns.iter().collect();
    let from = if keys.is_empty() || random.chance(30) { &all } else { &keys };
    let Some(column) = random.pick_or_none(from) else { return " LIMIT 1".into() };
    let name = format!("{alias}`{}`", column.name);
    let mut text = match random.below(8) {
        0..=2 => format!(" WHERE {name} = {}", column.kind.literal(random)),
        3 => format!(" WHERE {name} > {}", column.kind.literal(random)),
        4 if column.nullable => format!(" WHERE {name} IS NULL"),
        4 | 5 => format!(" WHERE {name} IN ({}, {})", column.kind.literal(random), column.kind.literal(random)),
        6 => format!(" WHERE {name} BETWEEN {} AND {}", column.kind.literal(random), column.kind.literal(random)),
        _ => String::new(),
    };
    if limited {
        if random.chance(30) {
            text += &format!(" ORDER BY {name}{}", if random.chance(50) { " DESC" } else { "" });
        }
        if random.chance(60) || !text.contains("WHERE") {
            text += &format!(" LIMIT {}", 1 + random.below(6));
        }
    }
    text
}

/// Gives the key's own columns other values.
fn update_key(random: &mut Random, t: &Target) -> Vec<Statement> {
    let keys = t.table.key_columns();
    let Some(column) = random.pick_or_none(&keys) else { return Vec::new() };
    let name = format!("`{}`", column.name);
    let value = match random.below(4) {
        0 if column.kind.is_number() => format!("{name} + {}", 1 + random.below(50)),
        1 if column.kind.is_text() => format!("UPPER({name})"),
        2 if column.kind.is_text() => format!("CONCAT({name},' ')"),
        _ => column.kind.literal(random),
    };
    let mut sql = format!("UPDATE {}{} SET {name} = {value}", ignore(random), t.name);
    if random.chance(25) {
        sql += &format!(", {}", assignments(random, t, ""));
    }
    sql += &match random.below(3) {
        0 => format!(" ORDER BY {name} DESC LIMIT {}", 1 + random.below(9)),
        _ => condition(random, t, "", true),
    };
    vec![Statement::new("UPDATE of a key", sql)]
}

/// Swaps the key values of two rows.
fn swap(random: &mut Random, t: &Target) -> Vec<Statement> {
    let keys = t.table.key_columns();
    let Some(column) = random.pick_or_none(&keys) else { return Vec::new() };
    let (name, table) = (&column.name, &t.name);
    let (one, two) = (column.kind.literal(random), column.kind.literal(random));
    let between = match &column.kind {
        Kind::Int(..) => "111".to_owned(),
        kind if kind.is_text() => "'swap'".to_owned(),
        kind => kind.literal(random),
    };
    let step = |to: &str, from: &str| {
        Statement::new("swap of keys", format!("UPDATE {table} SET `{name}` = {to} WHERE `{name}` = {from}"))
    };
    vec![step(&between, &one), step(&one, &two), step(&two, &between)]
}

fn several_tables(random: &mut Random, schema: &Schema, t: &Target, database: &str) -> Vec<Statement> {
    let Some((name, table)) = schema.any(random) else { return Vec::new() };
    let other = Target { name: named(&name, database), table };
    let (Some(left), Some(right)) = (t.table.columns.first(), other.table.columns.first()) else { return Vec::new() };
    let join = format!("{} x JOIN {} y ON x.`{}` = y.`{}`", t.name, other.name, left.name, right.name);
    let condition = condition(random, t, "x.", false);
    let statement = if random.chance(40) {
        let gone = ["x", "y", "x, y"][random.below(3) as usize];
        Statement::new("DELETE from several tables", format!("DELETE {gone} FROM {join}{condition}"))
    } else {
        let set = format!("{}, {}", assignments(random, t, "x."), assignments(random, &other, "y."));
        Statement::new("UPDATE of several tables", format!("UPDATE {}{join} SET {set}{condition}", ignore(random)))
    };
    vec![statement]
}

/// A function that changes part of a document.
fn json_change(random: &mut Random, name: &str) -> String {
    let path = random.pick(&["$.a", "$.b", "$[0]", "$[1]", "$.a[0]", "$.b.a", "$.k", "$.\"longer key\"", "$"]);
    let value = match random.below(5) {
        0 => random.below(100).to_string(),
        1 => "NULL".into(),
        2 => format!("'{}'", "y".repeat(random.below(40) as usize)),
        3 => format!("CAST({} AS JSON)", super::types::json(random, 1)),
        _ => "'ü'".into(),
    };
    match random.below(6) {
        0 | 1 => format!("JSON_SET({name}, '{path}', {value})"),
        2 | 3 => format!("JSON_REPLACE({name}, '{path}', {value})"),
        4 => format!("JSON_REMOVE({name}, '{}')", if path == "$" { "$.a" } else { path }),
        _ => format!("JSON_SET(JSON_REPLACE({name}, '$.a', 1), '{path}', {value}, '$.b', 'z')"),
    }
}

fn json_part(random: &mut Random, t: &Target) -> Vec<Statement> {
    let is_json = |column: &&Column| column.kind == Kind::Json && column.generated.is_none();
    let columns: Vec<&Column> = t.table.columns.iter().filter(is_json).collect();
    let Some(column) = random.pick_or_none(&columns) else { return Vec::new() };
    let name = format!("`{}`", column.name);
    let sql =
        format!("UPDATE {} SET {name} = {}{}", t.name, json_change(random, &name), condition(random, t, "", true));
    vec![Statement::new("UPDATE of a part of JSON", sql)]
}

/// Loads a file of rows, which the server reads itself.
pub fn load_data(random: &mut Random, schema: &Schema, database: &str, folder: &str) -> Vec<Statement> {
    let Some((name, table)) = schema.any(random) else { return Vec::new() };
    let simple = |column: &&Column| column.kind.is_number() || column.kind.is_text();
    let columns: Vec<&Column> = table.writable().into_iter().filter(simple).take(2).collect();
    let names: Vec<String> = columns.iter().map(|column| format!("`{}`", column.name)).collect();
    let how = ["", "REPLACE ", "IGNORE "][random.below(3) as usize];
    let sql = format!(
        "LOAD DATA INFILE '{folder}/rows{}.txt' {how}INTO TABLE {} CHARACTER SET utf8mb4 ({})",
        random.below(3),
        named(&name, database),
        names.join(",")
    );
    if names.is_empty() { Vec::new() } else { vec![Statement::new("LOAD DATA", sql)] }
}
