//! Binding to a table, whatever bytes a client sends.

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::Arc;

use catalog::{Catalog, StatementContext, TableDef};
use values::collation;

use super::plan;
use crate::ast::Statement;
use crate::bind::{Bind, Value};
use crate::waits::Waits;
use crate::{Charsets, ParameterType, Purse, Result, Settings, UserVariables, describe, parse};

/// Character sets, each with its default collation.
fn charsets() -> BTreeMap<&'static str, u16> {
    let all = (1..=330).filter_map(collation::by_id).filter_map(|one| collation::charset_default(one.charset));
    all.map(|one| (one.charset, one.id)).collect()
}

/// A table with a column of each kind, and of each character set.
fn table() -> Arc<TableDef> {
    let mut columns: Vec<String> = charsets()
        .keys()
        .filter(|charset| **charset != "binary")
        .map(|charset| format!("VARCHAR(20) CHARACTER SET {charset}"))
        .collect();
    let others = "CHAR(9) CHARACTER SET sjis;TEXT CHARACTER SET gbk;ENUM('a', 'é') CHARACTER SET latin1;\
        ENUM('a', 'é');SET('a', 'é');VARBINARY(20);BINARY(4);BLOB;INT;DECIMAL(9, 2);DOUBLE;DATE;TIME;DATETIME(3);\
        TIMESTAMP;YEAR;BIT(9);JSON";
    columns.extend(others.split(';').map(str::to_owned));
    let columns = columns.iter().enumerate().map(|(place, ty)| format!(", c{place} {ty}"));
    let sql = format!("CREATE TABLE t (id INT PRIMARY KEY{})", columns.collect::<String>());
    let context = StatementContext { default_db: "d".to_owned(), ..StatementContext::default() };
    let catalog = ["CREATE DATABASE d", &sql].iter().fold(Catalog::new(0), |catalog, sql| {
        catalog.apply(&context, sql.as_bytes()).unwrap_or_else(|error| panic!("{sql}: {error:?}")).catalog
    });
    Arc::clone(catalog.table("d", "t").unwrap())
}

/// Binds a statement as far as it comes.
fn bound(sql: &[u8], parameter: &[u8], settings: &Settings, table: &Arc<TableDef>) -> Result<()> {
    let charsets = settings.charsets();
    let parsed = parse(sql, settings.typed().sql_mode, charsets)?;
    let Statement::Select(select) = &parsed.statement else { return Ok(()) };
    let value = if charsets.client_charset() == "utf8mb4" {
        parameter.to_vec()
    } else {
        charsets.from_client(parameter)?.into_owned()
    };
    let (parameters, fields) = ([Value::Text(value)], [ParameterType::Text.field(charsets.connection)]);
    let (warnings, user_variables, memory) = (RefCell::default(), UserVariables::default(), Purse::default());
    let bind = Bind {
        parameters: Some(&parameters),
        parameter_fields: &fields,
        ..Bind::of_nobody(sql, settings, &user_variables, Waits::warning(&warnings), &memory)
    };
    let columns = match &select.from {
        Some(_) => plan(&bind, select, table, 0, None)?.columns.iter().map(|one| one.name.clone()).collect(),
        None => describe(&bind, select)?.into_iter().map(|one| one.name).collect::<Vec<_>>(),
    };
    // Names are sent in the client's character set.
    columns.iter().try_for_each(|name| charsets.encoded(name, charsets.results.unwrap_or(33)).map(drop))
}

#[test]
fn no_bytes_of_a_client_are_a_defect() {
    let table = table();
    let mut random = base::Random::new(17);
    let mut bytes: Vec<Vec<u8>> = [
        &b"\xff"[..],
        b"\xe9",
        b"\xc3",
        b"\xc3\xa9",
        b"\xf0\x9f\x98\x80",
        b"\xf0\x9f",
        b"\x81",
        b"\x81\x30",
        b"\xd6\xd0",
        b"\xed\xa0\x80",
        b"\x80",
        b"\xa0",
        b"a\xffb",
        b"\x81\x5c",
        b"\x98",
        b"\0",
    ]
    .iter()
    .map(|bytes| bytes.to_vec())
    .collect();
    for _ in 0..10 {
        let len = 1 + random.below(5_usize);
        bytes.push((0..len).map(|_| 0x70 + random.below(0x90_u8)).collect());
    }
    let (mut answered, mut refused, mut failed) = (0, 0, 0);
    for (charset, collation) in charsets() {
        let Some(login) = Charsets::of_login(collation) else { continue };
        for (number, bytes) in bytes.iter().enumerate() {
            // As SET NAMES has it, and with a connection of another character set.
            let connection = if number % 2 == 0 { login.connection } else { 255 };
            let settings = Settings::new(Charsets { connection, ..login });
            let quoted = |before: &str, after: &str| [before.as_bytes(), bytes, after.as_bytes()].concat();
            let mut statements = vec![
                quoted("SELECT '", "'"),
                quoted("SELECT _sjis'", "'"),
                quoted("SELECT 1 AS `", "`"),
                quoted("SELECT '", "' LIKE 'a%'"),
                b"SELECT ?".to_vec(),
            ];
            for column in &table.columns {
                let name = &column.name;
                statements.push(match random.below(6_u32) {
                    0 => quoted(&format!("SELECT {name} FROM t WHERE {name} = '"), "'"),
                    1 => quoted(&format!("SELECT id FROM t WHERE {name} LIKE '"), "%'"),
                    2 => quoted(&format!("SELECT id FROM t WHERE {name} IN ('a', '"), "')"),
                    3 => quoted(&format!("SELECT id FROM t WHERE {name} BETWEEN 'a' AND '"), "'"),
                    4 => format!("SELECT id FROM t WHERE {name} >= ?").into_bytes(),
                    _ => format!("SELECT id FROM t WHERE {name} LIKE ?").into_bytes(),
                });
            }
            for sql in statements {
                match bound(&sql, bytes, &settings, &table) {
                    Ok(()) => answered += 1,
                    Err(error) if error.is_defect() => panic!("{charset}: {}: {error}", sql.escape_ascii()),
                    Err(error) if error.is_not_supported() => refused += 1,
                    Err(_) => failed += 1,
                }
            }
        }
    }
    assert!(answered > 1_000 && refused > 1_000 && failed > 100, "{answered} {refused} {failed}");
}

#[test]
fn an_order_that_is_not_answered_has_a_place() {
    let (table, settings) = (table(), Settings::new(Charsets::of_login(255).unwrap()));
    for rest in ["ORDER BY id, upper(c1) desc", "ORDER BY c1 desc, c2 LIMIT 3", "WHERE id > 3 ORDER BY 1, 1 + 1"] {
        let sql = format!("SELECT id FROM t {rest}");
        let error = bound(sql.as_bytes(), b"", &settings, &table).unwrap_err();
        assert_eq!((error.code, &sql[error.span().unwrap()]), (1235, rest), "{sql}");
    }
}
