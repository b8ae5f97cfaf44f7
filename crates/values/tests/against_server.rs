//! Every stored value against what a real server says it is: its text, its SQL loaded again, its row in the binary
//! protocol.

use crate::common;

use std::fmt::Write as _;

use client::Connection;
use common::{DESCRIBED, connect, logged_rows, stored};
use testkit::{Random, Server};
use values::binary_protocol::{ResultColumn, RowEncoder, comparable_image, select_expression};
use values::text::{FloatForm, TextOptions, write_sql, write_text};
use values::{ColumnType, RowLayout, type_code};

/// Compares `table`, whose first column counts its rows, in every way.
fn compare(server: &Server, connection: &mut Connection, table: &str) {
    let (types, images) = logged_rows(server, table);
    let layout = RowLayout::new(&types);
    let result = connection.query(&format!("SELECT * FROM {table} ORDER BY 1")).unwrap();
    let names: Vec<String> = result.columns.iter().map(|column| format!("`{}`", column.name)).collect();
    assert_eq!(names.len(), types.len());
    assert_eq!(result.rows.len(), images.len());

    // Text, and SQL for the reload.
    let mut offsets = Vec::new();
    let mut inserts = Vec::new();
    for (image, shown) in images.iter().zip(&result.rows) {
        layout.walk_offsets(image, &mut offsets).unwrap();
        let mut insert = b"(".to_vec();
        for (column, (ty, offset)) in types.iter().zip(&offsets).enumerate() {
            if column > 0 {
                insert.push(b',');
            }
            let Some(stored) = stored(image, *offset) else {
                assert_eq!(shown[column], None, "{}", names[column]);
                insert.extend(b"NULL");
                continue;
            };
            let mut text = Vec::new();
            write_text(ty, stored, TextOptions::default(), &mut text).unwrap();
            let expected = shown[column].as_deref().expect("not NULL");
            let lossy = [&text, expected].map(String::from_utf8_lossy);
            assert_eq!(lossy[0], lossy[1], "{} {} {stored:02x?}", names[column], ty.name());
            assert_eq!(text, expected, "{} {} {stored:02x?}", names[column], ty.name());
            let exact = TextOptions { float: FloatForm::Exact, ..TextOptions::default() };
            write_sql(ty, stored, exact, &mut insert).unwrap();
        }
        insert.push(b')');
        inserts.push(String::from_utf8(insert).unwrap());
    }

    compare_binary(connection, table, &types, &names, &images);

    // What was loaded from our SQL is logged as the same bytes; JSON loses the types that text does not show.
    connection.exec(&format!("CREATE TABLE {table}_again LIKE {table}")).unwrap();
    for rows in inserts.chunks(100) {
        let insert = format!("INSERT INTO {table}_again VALUES {}", rows.join(","));
        connection.exec(&insert).unwrap_or_else(|error| panic!("{error}: {insert}"));
    }
    let (_, again) = logged_rows(server, &format!("{table}_again"));
    assert_eq!(images.len(), again.len());
    if !types.iter().any(|ty| ty.code == type_code::JSON) {
        for (number, (first, second)) in images.iter().zip(&again).enumerate() {
            assert_eq!(first, second, "row {number} of {table}, loaded again");
        }
    }
}

fn compare_binary(
    connection: &mut Connection,
    table: &str,
    types: &[ColumnType],
    names: &[String],
    images: &[Vec<u8>],
) {
    let layout = RowLayout::new(types);
    let expressions: Vec<String> = types.iter().zip(names).map(|(ty, name)| select_expression(ty, name)).collect();
    connection.exec("SET character_set_results = NULL").unwrap();
    // Shows the padding of CHAR, which the image does not have.
    connection.exec("SET sql_mode = 'PAD_CHAR_TO_FULL_LENGTH'").unwrap();
    let sql = format!("SELECT {} FROM {table} ORDER BY 1", expressions.join(","));
    let statement = connection.prepare(&sql).unwrap();
    let mut rows = connection.execute(&statement, &[]).unwrap();
    let result: Vec<ResultColumn> =
        rows.types().iter().map(|ty| ResultColumn { code: ty.code, unsigned: ty.unsigned }).collect();
    let encoder = RowEncoder::new(types, &result).unwrap();
    let mut number = 0;
    let mut offsets = [Vec::new(), Vec::new()];
    while let Some(row) = rows.next_row().unwrap() {
        let (nulls, values) = row.raw();
        let (mut from_row, mut from_log) = (Vec::new(), Vec::new());
        encoder.encode(nulls, values, &mut from_row).unwrap();
        comparable_image(types, &layout, &[], &images[number], &mut offsets[0], &mut from_log).unwrap();
        layout.walk_offsets(&from_row, &mut offsets[0]).unwrap();
        layout.walk_offsets(&from_log, &mut offsets[1]).unwrap();
        for (column, name) in names.iter().enumerate() {
            let (row, log) = (stored(&from_row, offsets[0][column]), stored(&from_log, offsets[1][column]));
            assert_eq!(row, log, "{name} of row {number} of {table}");
        }
        assert_eq!(from_row, from_log);
        number += 1;
    }
    rows.finish().unwrap();
    assert_eq!(number, images.len());
    connection.exec("SET character_set_results = utf8mb4, sql_mode = ''").unwrap();
}

fn insert_floating(connection: &mut Connection) {
    connection.exec("CREATE TABLE floating (i INT PRIMARY KEY, d DOUBLE, f FLOAT)").unwrap();
    let mut random = Random::new(1);
    let mut number = 0;
    for _ in 0..40 {
        let mut sql = "INSERT INTO floating VALUES ".to_owned();
        for _ in 0..100 {
            number += 1;
            let whole = (random.any() >> 11) as f64;
            let scaled =
                whole / 10f64.powi((random.any() % 19) as i32) * if random.any() & 1 == 0 { 1.0 } else { -1.0 };
            let any = f64::from_bits(random.any());
            let double = if random.any() & 1 == 0 && any.is_finite() { any } else { scaled };
            let any = f32::from_bits(random.any() as u32);
            let tie = (random.any() % 16_000_000) as f32 / (1 << (random.any() % 11)) as f32;
            let float = if random.any() & 1 == 0 && any.is_finite() && any.abs() < 3e38 { any } else { tie };
            write!(sql, "({number},{double:e},{:e}),", f64::from(float)).unwrap();
        }
        sql.pop();
        connection.exec(&sql).unwrap();
    }
}

#[test]
fn all_types() {
    let Some(server) = Server::or_skip("types", DESCRIBED) else { return };
    let mut connection = connect(&server);
    connection.exec("CREATE DATABASE v").unwrap();
    connection.exec("USE v").unwrap();
    for statement in include_str!("against_server.sql").split(";\n").map(str::trim).filter(|sql| !sql.is_empty()) {
        connection.exec(statement).unwrap_or_else(|error| panic!("{error}: {statement}"));
    }
    insert_floating(&mut connection);
    for table in ["numbers", "temporal", "strings", "charsets", "members", "documents", "others", "floating"] {
        compare(&server, &mut connection, table);
    }
}
