//! Asks a server for every character of the character sets that differ from the `encoding_rs` crate's encodings and
//! writes the differences to `src/charsets.bin`.
//!
//! Run `cargo run -p values --example charset_tables -- mysql://root@127.0.0.1:PORT` against a throw-away server
//! (`testbed/mysql`) of MySQL 9.7 or later. The example writes nothing to the server.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::collections::BTreeMap;
use std::path::PathBuf;

use client::{ConnectOptions, Connection};
use encoding_rs::{BIG5, EUC_JP, EUC_KR, Encoding, GB18030, GBK, SHIFT_JIS};

/// In the order of `charset_table::Set`.
const SETS: &[(&str, Option<&Encoding>)] = &[
    ("big5", Some(BIG5)),
    ("cp932", Some(SHIFT_JIS)),
    ("eucjpms", Some(EUC_JP)),
    ("euckr", Some(EUC_KR)),
    ("gb18030", Some(GB18030)),
    ("gb2312", Some(GBK)),
    ("gbk", Some(GBK)),
    ("sjis", Some(SHIFT_JIS)),
    ("swe7", None),
    ("ujis", Some(EUC_JP)),
];

fn main() {
    let url = std::env::args().nth(1).expect("the server's URL: mysql://root@127.0.0.1:PORT");
    let mut connection = Connection::connect(&ConnectOptions::from_url(&url).unwrap()).unwrap();
    connection.exec("SET NAMES utf8mb4").unwrap();
    connection.exec("SET SESSION cte_max_recursion_depth = 20000000").unwrap();
    let mut file = Vec::new();
    for (name, encoding) in SETS {
        let encoded = encoded(&mut connection, name);
        let mut decoded = decoded(&mut connection, name);
        // Four bytes: keep those that encode a character.
        for (char, code) in &encoded {
            decoded.entry(*code).or_insert(*char);
        }
        let from: Vec<(u32, u32)> = decoded
            .iter()
            .filter(|(code, char)| base_char(*encoding, **code) != Some(**char))
            .map(|(a, b)| (*a, *b))
            .collect();
        let mut into = Vec::new();
        for char in (0..=0x10ffff).filter_map(char::from_u32) {
            // The rule: the encoding's bytes, if they decode to the same character.
            let ruled = base_code(*encoding, char).filter(|code| {
                let back = decoded.get(code).copied().or_else(|| base_char(*encoding, *code));
                back == Some(u32::from(char))
            });
            let server = encoded.get(&u32::from(char)).copied();
            if ruled != server {
                into.push((u32::from(char), server.unwrap_or(0)));
            }
        }
        let start = file.len();
        file.extend([0; 4]);
        write(&mut file, &from);
        write(&mut file, &into);
        let len = u32::try_from(file.len() - start - 4).unwrap();
        file[start..start + 4].copy_from_slice(&len.to_le_bytes());
        println!(
            "{name}: {} characters, {} others to utf8mb4, {} others from it, {len} bytes",
            decoded.len(),
            from.len(),
            into.len()
        );
    }
    std::fs::write(PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("src/charsets.bin"), file).unwrap();
}

fn bytes_of(code: u32) -> Vec<u8> {
    let bytes = code.to_be_bytes();
    let from = bytes.iter().position(|byte| *byte != 0).unwrap_or(3);
    bytes[from..].to_vec()
}

fn code_of(bytes: &[u8]) -> u32 {
    bytes.iter().fold(0, |code, byte| code << 8 | u32::from(*byte))
}

fn base_char(encoding: Option<&'static Encoding>, code: u32) -> Option<u32> {
    let bytes = bytes_of(code);
    let Some(encoding) = encoding else { return (code < 0x80).then_some(code) };
    let text = encoding.decode_without_bom_handling_and_without_replacement(&bytes)?;
    let mut chars = text.chars();
    let first = chars.next()?;
    chars.next().is_none().then_some(u32::from(first))
}

fn base_code(encoding: Option<&'static Encoding>, char: char) -> Option<u32> {
    let Some(encoding) = encoding else { return char.is_ascii().then_some(u32::from(char)) };
    let text = char.to_string();
    let (bytes, _, unmappable) = encoding.encode(&text);
    (!unmappable && bytes.len() <= 4).then(|| code_of(&bytes))
}

/// Characters that the server decodes from the codes of one to three bytes which it accepts as a single character.
fn decoded(connection: &mut Connection, name: &str) -> BTreeMap<u32, u32> {
    let mut all = BTreeMap::new();
    for (from, to) in [(0x0000, 0x00ff), (0x8000, 0xffff), (0x8f_a000, 0x8f_ffff)] {
        let sql = format!(
            "WITH RECURSIVE n (i) AS (SELECT {from} UNION ALL SELECT i + 1 FROM n WHERE i < {to}),
             m AS (SELECT i, CONVERT(UNHEX(HEX(i)) USING {name}) AS t FROM n)
             SELECT i, HEX(CONVERT(CONVERT(t USING utf8mb4) USING utf32)) FROM m WHERE t IS NOT NULL AND CHAR_LENGTH(t) = 1
             AND LENGTH(CONVERT(t USING utf8mb4)) > 0"
        );
        all.extend(pairs(connection, &sql));
    }
    all
}

/// Code of every character in the set.
fn encoded(connection: &mut Connection, name: &str) -> BTreeMap<u32, u32> {
    let sql = format!(
        "WITH RECURSIVE n (i) AS (SELECT 0 UNION ALL SELECT i + 1 FROM n WHERE i < 0x10ffff),
         m AS (SELECT i, CONVERT(CONVERT(CONVERT(UNHEX(LPAD(HEX(i), 8, '0')) USING utf32) USING utf8mb4) USING {name}) AS t
               FROM n WHERE i NOT BETWEEN 0xd800 AND 0xdfff)
         SELECT i, HEX(t) FROM m WHERE t <> '?' OR i = 63"
    );
    pairs(connection, &sql)
}

fn pairs(connection: &mut Connection, sql: &str) -> BTreeMap<u32, u32> {
    let rows = connection.query(sql).unwrap().rows;
    let text = |value: Option<Vec<u8>>| String::from_utf8(value.unwrap()).unwrap();
    rows.into_iter()
        .map(|row| {
            let [left, right] = <[_; 2]>::try_from(row).unwrap();
            (text(left).parse().unwrap(), u32::from_str_radix(&text(right), 16).unwrap())
        })
        .collect()
}

/// A count, then each pair's difference from the previous pair: 7 bits a byte, low bits first.
fn write(file: &mut Vec<u8>, pairs: &[(u32, u32)]) {
    number(file, pairs.len() as u64);
    let (mut left, mut right) = (0, 0);
    for (next_left, next_right) in pairs {
        number(file, u64::from(next_left - left));
        let change = i64::from(*next_right) - i64::from(right);
        number(file, (change << 1 ^ change >> 63) as u64);
        (left, right) = (*next_left, *next_right);
    }
}

fn number(file: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        file.push(value as u8 | 0x80);
        value >>= 7;
    }
    file.push(value as u8);
}
