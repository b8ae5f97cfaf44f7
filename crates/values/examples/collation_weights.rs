//! Asks a server for the weights of every character and writes the files of `src/weights/` and
//! `tests/collation_weights.txt`.
//!
//! Run `cargo run -p values --example collation_weights -- mysql://root@127.0.0.1:PORT` against a throw-away server
//! (`testbed/mysql`) of MySQL 9.7 or later. The program creates a database of its own and drops it afterwards.
#![allow(clippy::unwrap_used, clippy::expect_used)]

use std::collections::{HashMap, HashSet};
use std::fmt::Write as _;
use std::fs;
use std::path::PathBuf;

use client::{ConnectOptions, Connection};
use flate2::Crc;

#[path = "../src/weight_table.rs"]
#[allow(dead_code)]
mod weight_table;

use weight_table::{COMPUTED, INDEX_LEN, POOLED, Rule, hangul_letters};

/// Collations whose weights come from tables of characters, with the rule and the file.
const TABLES: &[(&str, Rule, &str)] = &[
    ("utf8mb4_general_ci", Rule::Identity, "general"),
    ("utf8mb3_general_mysql500_ci", Rule::Identity, "general_mysql500"),
    ("utf8mb3_tolower_ci", Rule::Identity, "tolower"),
    ("utf8mb4_unicode_ci", Rule::Uca400, "uca_400"),
    ("utf8mb4_unicode_520_ci", Rule::Uca520, "uca_520"),
    ("utf8mb4_0900_ai_ci", Rule::Uca900, "uca_900"),
];

/// Single-byte collations whose weight strings are not one byte a character.
const NOT_BYTE_BY_BYTE: &[&str] = &["latin1_german2_ci", "latin2_czech_cs", "cp1250_czech_cs", "tis620_thai_ci"];

/// Collations with frozen answers. Every other one shares its table with one of these.
const FROZEN: &[&str] = &[
    "utf8mb4_0900_ai_ci",
    "utf8mb4_0900_as_ci",
    "utf8mb4_0900_as_cs",
    "utf8mb4_0900_bin",
    "utf8mb4_bin",
    "utf8mb4_general_ci",
    "utf8mb4_unicode_ci",
    "utf8mb4_unicode_520_ci",
    "utf8mb3_general_ci",
    "utf8mb3_general_mysql500_ci",
    "utf8mb3_tolower_ci",
    "utf16_general_ci",
    "utf16_bin",
    "utf32_unicode_ci",
    "latin1_swedish_ci",
    "ascii_general_ci",
    "cp1251_general_ci",
];

type Weights = Vec<u16>;

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

fn main() {
    let url = std::env::args().nth(1).expect("the server's URL: mysql://root@127.0.0.1:PORT");
    let mut connection = Connection::connect(&ConnectOptions::from_url(&url).unwrap()).unwrap();
    for sql in [
        "SET NAMES utf8mb4",
        "SET SESSION cte_max_recursion_depth = 2000000",
        "CREATE DATABASE collation_weights",
        "USE collation_weights",
        "CREATE TABLE characters (code INT PRIMARY KEY, c VARCHAR(1) CHARACTER SET utf8mb4 COLLATE utf8mb4_bin)",
        "INSERT INTO characters WITH RECURSIVE n AS (SELECT 0 AS i UNION ALL SELECT i + 1 FROM n WHERE i < 0x10ffff)
         SELECT i, CONVERT(CONVERT(UNHEX(LPAD(HEX(i), 8, '0')) USING utf32) USING utf8mb4)
         FROM n WHERE i NOT BETWEEN 0xd800 AND 0xdfff",
    ] {
        connection.exec(sql).unwrap();
    }
    for (collation, rule, file) in TABLES {
        let weights = characters(&mut connection, collation).into_iter().map(|(code, bytes)| (code, units(&bytes)));
        write(file, &primary_table(*rule, &weights.collect()));
    }
    let weights = characters(&mut connection, "utf8mb4_0900_as_cs").into_iter();
    write("uca_900_lower", &lower_table(&weights.map(|(code, bytes)| (code, units(&bytes))).collect()));
    single_bytes(&mut connection);
    freeze(&mut connection);
    connection.exec("DROP DATABASE collation_weights").unwrap();
}

fn charset(collation: &str) -> &str {
    collation.split('_').next().unwrap()
}

/// Code point and WEIGHT_STRING of every character in the collation's character set, as the server answers.
fn characters(connection: &mut Connection, collation: &str) -> Vec<(u32, Vec<u8>)> {
    let charset = charset(collation);
    let last = if charset == "utf8mb3" { 0xffff } else { 0x10ffff };
    let sql = format!(
        "SELECT code, WEIGHT_STRING(CONVERT(c USING {charset}) COLLATE {collation}) FROM characters
         WHERE code <= {last} ORDER BY code"
    );
    let rows = connection.query(&sql).unwrap().rows;
    rows.into_iter()
        .map(|row| {
            let [code, weights] = <[_; 2]>::try_from(row).unwrap();
            (String::from_utf8(code.unwrap()).unwrap().parse().unwrap(), weights.unwrap())
        })
        .collect()
}

fn units(bytes: &[u8]) -> Weights {
    let (units, odd) = bytes.as_chunks::<2>();
    assert!(odd.is_empty());
    units.iter().map(|unit| u16::from_be_bytes(*unit)).collect()
}

/// A weight file being built.
#[derive(Default)]
struct Table {
    entries: HashMap<u32, u16>,
    pool: Vec<u16>,
    places: HashMap<Weights, u16>,
}

impl Table {
    fn pooled(&mut self, list: Weights) -> u16 {
        let next = self.pool.len();
        *self.places.entry(list).or_insert_with_key(|list| {
            self.pool.push(u16::try_from(list.len()).unwrap());
            self.pool.extend(list);
            let place = u16::try_from(next).unwrap() | POOLED;
            assert!(next < usize::from(POOLED) && place != COMPUTED);
            place
        })
    }

    fn file(&self) -> Vec<u8> {
        let mut index = vec![0u8; INDEX_LEN];
        let mut pages: Vec<Vec<u16>> = Vec::new();
        for (number, slot) in (0u32..).zip(&mut index) {
            let entry = |low: u32| self.entries.get(&(number << 8 | low)).copied().unwrap_or(COMPUTED);
            let page: Vec<u16> = (0..256).map(entry).collect();
            if page.iter().all(|entry| *entry == COMPUTED) {
                continue;
            }
            let at = pages.iter().position(|other| *other == page).unwrap_or_else(|| {
                pages.push(page);
                pages.len() - 1
            });
            *slot = u8::try_from(at + 1).unwrap();
        }
        let mut file = u16::try_from(pages.len()).unwrap().to_le_bytes().to_vec();
        file.extend(index);
        file.extend(pages.iter().flatten().chain(&self.pool).flat_map(|unit| unit.to_le_bytes()));
        file
    }
}

fn primary_table(rule: Rule, weights: &HashMap<u32, Weights>) -> Vec<u8> {
    let mut table = Table::default();
    let mut pages = HashSet::new();
    let mut codes: Vec<u32> = weights.keys().copied().collect();
    codes.sort_unstable();
    for code in codes {
        let list = &weights[&code];
        let by_rule: Weights = match hangul_letters(code) {
            Some(letters) if rule == Rule::Uca900 => letters.flat_map(|letter| weights[&letter].clone()).collect(),
            _ => {
                let computed = rule.compute(code);
                std::iter::once(computed.first).chain(computed.second).collect()
            }
        };
        if *list != by_rule {
            pages.insert(code >> 8);
        }
        let entry = match list[..] {
            // Stored, although the rule would do, where the page is needed anyway: the look-up is faster.
            [weight] if (1..POOLED).contains(&weight) => weight,
            _ if *list == by_rule => continue,
            [] => 0,
            _ => table.pooled(list.clone()),
        };
        table.entries.insert(code, entry);
    }
    table.entries.retain(|code, _| pages.contains(&(code >> 8)));
    table.file()
}

/// Weights of the second and third levels. A list holds the number of second-level weights, those weights, then the
/// third-level ones. A character without an entry has one weight on each level (a Hangul syllable one for each letter):
/// 0x20 and 2.
fn lower_table(weights: &HashMap<u32, Weights>) -> Vec<u8> {
    let mut table = Table::default();
    let mut codes: Vec<u32> = weights.keys().copied().collect();
    codes.sort_unstable();
    for code in codes {
        let levels: Vec<&[u16]> = weights[&code].split(|unit| *unit == 0).collect();
        let [_, second, third] = levels[..] else { panic!("{code:x}: not three levels") };
        let count = hangul_letters(code).map_or(1, Iterator::count);
        if second == vec![0x20; count] && third == vec![2; count] {
            continue;
        }
        let mut list = vec![u16::try_from(second.len()).unwrap()];
        list.extend(second.iter().chain(third));
        let entry = table.pooled(list);
        table.entries.insert(code, entry);
    }
    table.file()
}

/// File of the single-byte collations, ordered by id: the id in 2 bytes, then 256 weights.
fn single_bytes(connection: &mut Connection) {
    let names = connection
        .query(
            "SELECT id, collation_name FROM information_schema.collations JOIN information_schema.character_sets
             USING (character_set_name) WHERE maxlen = 1 AND collation_name NOT LIKE '%bin%' ORDER BY id",
        )
        .unwrap();
    let mut file = Vec::new();
    for row in 0..names.rows.len() {
        let (id, name) = (names.text(row, 0).unwrap(), names.text(row, 1).unwrap());
        if NOT_BYTE_BY_BYTE.contains(&name.as_str()) {
            continue;
        }
        let charset = charset(&name);
        file.extend(id.parse::<u16>().unwrap().to_le_bytes());
        for start in (0..256).step_by(64) {
            let one = |byte: i32| format!("WEIGHT_STRING(_{charset} X'{byte:02x}' COLLATE {name})");
            let list: Vec<String> = (start..start + 64).map(one).collect();
            let result = connection.query(&format!("SELECT {}", list.join(","))).unwrap();
            for weight in &result.rows[0] {
                let [weight] = weight.as_deref().unwrap() else { panic!("{name}: not one byte a character") };
                file.push(*weight);
            }
        }
    }
    write("single_byte", &file);
}

fn write(name: &str, bytes: &[u8]) {
    fs::write(folder().join(format!("src/weights/{name}.bin")), bytes).unwrap();
    println!("{name}.bin: {} bytes", bytes.len());
}

/// Freezes answers for tests that run without a server: a checksum for each 4096 characters, strings in full.
fn freeze(connection: &mut Connection) {
    let version = connection.query_value("SELECT VERSION()").unwrap().unwrap();
    let mut text = format!(
        "# Answers of a MySQL {version} server, written by examples/collation_weights.rs.\n\
         # characters COLLATION FIRST CRC: of WEIGHT_STRING of the characters from FIRST to FIRST + fff, a byte of length before each\n\
         # string COLLATION TEXT WEIGHTS: TEXT in the collation's character set, hexadecimal\n"
    );
    for collation in FROZEN.iter().filter(|name| name.starts_with("utf8")) {
        for block in characters(connection, collation).chunk_by(|a, b| a.0 >> 12 == b.0 >> 12) {
            let mut crc = Crc::new();
            for (_, weights) in block {
                crc.update(&[u8::try_from(weights.len()).unwrap()]);
                crc.update(weights);
            }
            writeln!(text, "characters {collation} {:x} {:08x}", block[0].0, crc.sum()).unwrap();
        }
    }
    let mut random = Random(0x9e37_79b9_7f4a_7c15);
    for collation in FROZEN {
        let charset = charset(collation);
        for _ in 0..60 {
            let string: String = (0..random.below(12)).map(|_| random.character(charset)).collect();
            let hex: String = string.bytes().map(|byte| format!("{byte:02X}")).collect();
            let sql = format!(
                "SELECT HEX(CONVERT(_utf8mb4 X'{hex}' USING {charset})),
                 HEX(WEIGHT_STRING(CONVERT(_utf8mb4 X'{hex}' USING {charset}) COLLATE {collation}))"
            );
            let result = connection.query(&sql).unwrap();
            let (stored, weights) = (result.text(0, 0).unwrap(), result.text(0, 1).unwrap());
            writeln!(text, "string {collation} '{stored}' '{weights}'").unwrap();
        }
    }
    fs::write(folder().join("tests/collation_weights.txt"), text).unwrap();
}

/// Small repeatable source of characters. A generator of its own, whose strings tests/collation_weights.txt holds.
struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound
    }

    /// Letters, spaces, marks, syllables, ideographs, unassigned code points: everything that has rules of its own.
    fn character(&mut self, charset: &str) -> char {
        let (first, count) = match charset {
            "ascii" => (0x20, 95),
            "latin1" => [(0x20, 95), (0xa0, 96)][self.below(2) as usize],
            "cp1251" => [(0x20, 95), (0x410, 64)][self.below(2) as usize],
            _ => {
                let ranges = [
                    (0x20, 95),
                    (0x20, 1),
                    (0, 32),
                    (0xc0, 0x100),
                    (0x300, 0x70),
                    (0x600, 0x100),
                    (0xe00, 0x60),
                    (0xf40, 0x80),
                    (0x1100, 0x100),
                    (0x3040, 0x60),
                    (0x4e00, 0x51ff),
                    (0xac00, 0x2ba4),
                    (0xf900, 0x600),
                    (0xff00, 0xf0),
                    (0x10000, 0x3000),
                    (0x17000, 0x1b00),
                    (0x1f300, 0x400),
                    (0x20000, 0x2fa20),
                    (0xe0000, 0x30000),
                ];
                let known = if charset == "utf8mb3" { 14 } else { ranges.len() as u64 };
                ranges[self.below(known) as usize]
            }
        };
        char::from_u32(first + self.below(count) as u32).unwrap_or('a')
    }
}
