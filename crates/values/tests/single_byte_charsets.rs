//! Every collation of one byte a character against a real server: what each byte is, and what is stored for each character of
//! the basic plane (no such character set has another). Run with SLIPSTREAM_TEST_SERVER=1; what no such set has, from U+3000 to
//! U+EFFF, is asked for with SLIPSTREAM_TEST_LENGTH=soak alone.

use crate::common;

use std::collections::HashMap;
use std::ops::RangeInclusive;

use client::Connection;
use common::{DESCRIBED, connect};
use testkit::Server;
use values::charset::{from_utf8mb4, to_utf8mb4};

fn rows(connection: &mut Connection, sql: &str) -> Vec<[String; 2]> {
    let rows = connection.query(sql).unwrap().rows;
    let text = |value: Option<Vec<u8>>| String::from_utf8(value.unwrap()).unwrap();
    rows.into_iter().map(|row| <[_; 2]>::try_from(row).unwrap().map(text)).collect()
}

#[test]
fn every_byte_and_character() {
    let Some(server) = Server::or_skip("single-byte", DESCRIBED) else { return };
    let all = std::env::var("SLIPSTREAM_TEST_LENGTH").as_deref() == Ok("soak");
    let mut connection = connect(&server);
    let left_out = if all { 0xd800..=0xdfff } else { 0x3000..=0xefff };
    for sql in [
        "SET SESSION sql_log_bin = 0, cte_max_recursion_depth = 100000",
        "CREATE DATABASE v",
        "USE v",
        "CREATE TABLE characters (code INT PRIMARY KEY, c VARCHAR(1) CHARACTER SET ucs2) ENGINE = MEMORY",
        &format!(
            "INSERT INTO characters WITH RECURSIVE n AS (SELECT 0 AS i UNION ALL SELECT i + 1 FROM n WHERE i < 0xffff)
             SELECT i, CONVERT(UNHEX(LPAD(HEX(i), 4, '0')) USING ucs2) FROM n WHERE i NOT BETWEEN {} AND {}",
            left_out.start(),
            left_out.end()
        ),
    ] {
        connection.exec(sql).unwrap();
    }
    let collations = rows(
        &mut connection,
        "SELECT collation_name, id FROM information_schema.collations JOIN information_schema.character_sets USING
         (character_set_name) WHERE maxlen = 1 AND collation_name <> 'binary' ORDER BY id",
    );
    assert!(collations.len() >= 60, "{collations:?}");
    for [name, id] in collations {
        // ascii stores no byte that is no character of it.
        let bytes = if name.starts_with("ascii") { 0x80 } else { 0x100 };
        for sql in [
            "DROP TABLE IF EXISTS kept",
            &format!("CREATE TABLE kept (code INT PRIMARY KEY, c VARCHAR(1) COLLATE {name}) ENGINE = MEMORY"),
            &format!(
                "INSERT INTO kept SELECT code, UNHEX(LPAD(HEX(code), 2, '0')) FROM characters WHERE code < {bytes}"
            ),
        ] {
            connection.exec(sql).unwrap();
        }
        compare(&mut connection, &name, id.parse().unwrap(), &left_out);
    }
}

fn compare(connection: &mut Connection, name: &str, id: u16, left_out: &RangeInclusive<u32>) {
    // Behind a byte that is not ASCII the server looks at its tables for each one.
    let lead = to_utf8mb4(id, b"\xe0").unwrap().into_owned();
    for [code, shown] in rows(connection, "SELECT code, HEX(CONVERT(c USING utf32)) FROM kept ORDER BY code") {
        let byte: u8 = code.parse().unwrap();
        let character = char::from_u32(u32::from_str_radix(&shown, 16).unwrap()).unwrap();
        let ours = to_utf8mb4(id, &[0xe0, byte]).unwrap().into_owned();
        assert_eq!(ours, [&lead[..], character.to_string().as_bytes()].concat(), "{name} {byte:#04x}");
    }
    connection.exec("DELETE FROM kept").unwrap();
    connection.exec("INSERT INTO kept SELECT code, c FROM characters").unwrap();
    let sql = "SELECT code, HEX(c) FROM kept WHERE HEX(c) <> '3F' OR code = 0x3f";
    let stored: HashMap<u32, u8> = rows(connection, sql)
        .into_iter()
        .map(|[code, hex]| (code.parse().unwrap(), u8::from_str_radix(&hex, 16).unwrap()))
        .collect();
    let asked = (0..=0xffff).filter(|code| !left_out.contains(code));
    for character in asked.filter_map(char::from_u32) {
        let ours = from_utf8mb4(id, character.encode_utf8(&mut [0; 4]).as_bytes()).ok().map(|bytes| bytes.into_owned());
        let theirs = stored.get(&u32::from(character)).map(|byte| vec![*byte]);
        assert_eq!(ours, theirs, "{name} U+{:04X}", u32::from(character));
    }
}
