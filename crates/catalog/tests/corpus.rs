//! Compares every table of a recorded run of a real MySQL 9.7 with what the catalog makes of its statements: type
//! codes, metadata, NULL bitmap, signs, collations, names, members, keys, defaults and row identity.
//!
//! The recording, `corpus_mysql_9.7.txt`, was made by executing `corpus_statements.txt`.

use std::fmt::Write as _;

use catalog::{Catalog, Identity, OmittedValue, StatementContext, TableDef};
use values::{ColumnType, RowLayout, type_code};

const CORPUS: &str = include_str!("corpus_mysql_9.7.txt");

#[test]
fn catalog_agrees_with_the_recorded_server() {
    let mut catalog = Catalog::new(0);
    let mut table: Option<std::sync::Arc<TableDef>> = None;
    let mut wrong = String::new();
    let mut seen = Seen::default();
    for line in CORPUS.lines().filter(|line| !line.starts_with('#')) {
        let fields: Vec<&str> = line.split('\t').collect();
        match fields[0] {
            "Q" => {
                let sql = unescape(fields[3]);
                match catalog.apply(&context(fields[1], fields[2]), &sql) {
                    Ok(outcome) => {
                        if let Err(broken) = catalog.check(&outcome) {
                            writeln!(wrong, "{broken}: {}", String::from_utf8_lossy(&sql)).unwrap();
                        }
                        catalog = outcome.catalog;
                    }
                    Err(error) => writeln!(wrong, "{error}").unwrap(),
                }
                seen.statements += 1;
            }
            "T" => {
                let name = String::from_utf8(unescape(fields[2])).unwrap();
                table = catalog.table(fields[1], &name).cloned();
                seen.table_maps += 1;
                match &table {
                    None => writeln!(wrong, "no table {}.{name}", fields[1]).unwrap(),
                    Some(table) => check_table_map(table, &fields[3..], &mut wrong),
                }
            }
            "I" => {
                if let Some(table) = &table {
                    check_defaults(table, &hex(fields[1]), &mut wrong, &mut seen);
                }
            }
            "D" => {
                if let Some(table) = &table {
                    check_identity(table, &hex(fields[1]), &mut wrong);
                }
            }
            other => panic!("{other}"),
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
    assert!(seen.statements > 150 && seen.table_maps > 250 && seen.defaults > 900, "{seen:?}");
    // Defaults without an image in the catalog: expressions, clocks, counters, generated columns, named time zones.
    assert!(seen.open_defaults < 50, "{seen:?}");
}

#[derive(Debug, Default)]
struct Seen {
    statements: usize,
    table_maps: usize,
    defaults: usize,
    open_defaults: usize,
}

fn context(db: &str, fields: &str) -> StatementContext {
    let mut context = StatementContext { default_db: db.to_owned(), ..StatementContext::default() };
    for (name, value) in fields.split(' ').filter_map(|field| field.split_once('=')) {
        let number = || value.parse::<u64>().unwrap();
        let id = || Some(u16::try_from(number()).unwrap());
        match name {
            "sql_mode" => context.sql_mode = number(),
            "client" => context.collation_client = id(),
            "conn" => context.collation_connection = id(),
            "server" => context.collation_server = id(),
            "database" => context.collation_database = id(),
            "utf8mb4" => context.default_collation_for_utf8mb4 = id(),
            "explicit_ts" => context.explicit_defaults_for_timestamp = Some(number() != 0),
            "tz" => context.time_zone = Some(value.to_owned()),
            other => panic!("{other}"),
        }
    }
    context
}

/// `fields` are types, metadata, NULL bitmap and optional metadata.
fn check_table_map(table: &TableDef, fields: &[&str], wrong: &mut String) {
    let name = table.full_name();
    let mut differ = |what: &str, ours: &dyn std::fmt::Debug, logged: &dyn std::fmt::Debug| {
        writeln!(wrong, "{name} {what}: catalog {ours:x?}, log {logged:x?}").unwrap();
    };
    let types = hex(fields[0]);
    let metadata = if fields[1] == "-" { Vec::new() } else { hex(fields[1]) };
    let expected = table.expected_table_map();
    if expected != (types.clone(), metadata.clone()) {
        differ("types and metadata", &expected, &(&types, &metadata));
        return;
    }
    let logged = logged_types(&types, &metadata);
    if let Err(text) = table.matches(&types, &logged) {
        differ("matches", &text, &"");
    }
    let nullable: Vec<bool> = table.columns.iter().map(|column| column.nullable).collect();
    let null_bits = low_bits(&hex(fields[2]), types.len());
    if nullable != null_bits {
        differ("nullable", &nullable, &null_bits);
    }
    let optional: Vec<(u8, Vec<u8>)> = fields[3]
        .split(' ')
        .filter_map(|field| field.split_once('='))
        .map(|(kind, bytes)| (kind.parse().unwrap(), hex(bytes)))
        .collect();
    for (kind, bytes) in optional {
        let (ours, logged) = optional_metadata(table, kind, &bytes);
        if ours != logged {
            differ(&format!("optional metadata {kind}"), &ours, &logged);
        }
    }
}

/// One piece of optional metadata as text, according to the catalog and according to the log.
fn optional_metadata(table: &TableDef, kind: u8, bytes: &[u8]) -> (String, String) {
    let columns = &table.columns;
    let is_numeric = |ty: &ColumnType| matches!(ty.code, 1 | 2 | 3 | 4 | 5 | 8 | 9 | 13 | 246);
    let is_text =
        |ty: &ColumnType| matches!(ty.code, type_code::CHAR | type_code::VARCHAR | type_code::BLOB | type_code::VECTOR);
    let is_choice = |ty: &ColumnType| matches!(ty.code, type_code::ENUM | type_code::SET);
    let of = |code: u8| columns.iter().filter(move |column| column.ty.code == code);
    let collations = |chosen: &dyn Fn(&ColumnType) -> bool| {
        columns.iter().filter(|c| chosen(&c.ty)).map(|c| u64::from(c.ty.collation)).collect::<Vec<_>>()
    };
    let mut cursor = bytes;
    match kind {
        1 => {
            let ours: Vec<bool> = columns
                .iter()
                .filter(|column| is_numeric(&column.ty))
                .map(|column| column.ty.unsigned || column.ty.code == type_code::YEAR)
                .collect();
            (format!("{ours:?}"), format!("{:?}", high_bits(bytes, ours.len())))
        }
        2 | 10 => {
            // A default, then pairs (index among such columns, collation) for the others.
            let ours = if kind == 2 { collations(&is_text) } else { collations(&is_choice) };
            let mut logged = vec![packed(&mut cursor); ours.len()];
            while !cursor.is_empty() {
                let index = packed(&mut cursor) as usize;
                logged[index] = packed(&mut cursor);
            }
            (format!("{ours:?}"), format!("{logged:?}"))
        }
        3 | 11 => {
            let ours = if kind == 3 { collations(&is_text) } else { collations(&is_choice) };
            (format!("{ours:?}"), format!("{:?}", all_packed(cursor)))
        }
        4 => {
            let mut logged = Vec::new();
            while !cursor.is_empty() {
                logged.push(String::from_utf8(counted(&mut cursor)).unwrap());
            }
            let ours: Vec<&str> = columns.iter().map(|column| column.name.as_str()).collect();
            (format!("{ours:?}"), format!("{logged:?}"))
        }
        5 | 6 => {
            let mut logged: Vec<Vec<Vec<u8>>> = Vec::new();
            while !cursor.is_empty() {
                let count = packed(&mut cursor);
                logged.push((0..count).map(|_| counted(&mut cursor)).collect());
            }
            let code = if kind == 5 { type_code::SET } else { type_code::ENUM };
            let ours: Vec<Vec<Vec<u8>>> =
                of(code).map(|column| column.ty.members.iter().map(|name| name.to_vec()).collect()).collect();
            (format!("{ours:?}"), format!("{logged:?}"))
        }
        8 | 9 => {
            // The log also marks a promoted UNIQUE key.
            let ours: Vec<u64> = match &table.identity {
                Identity::Columns(columns) => columns.iter().map(|column| *column as u64).collect(),
                Identity::WholeImage => Vec::new(),
            };
            let logged = all_packed(cursor);
            let logged = if kind == 8 { logged } else { logged.chunks(2).map(|pair| pair[0]).collect() };
            (format!("{ours:?}"), format!("{logged:?}"))
        }
        12 => {
            let ours: Vec<bool> = columns.iter().map(|column| !column.invisible).collect();
            (format!("{ours:?}"), format!("{:?}", high_bits(bytes, ours.len())))
        }
        _ => (String::new(), String::new()),
    }
}

/// For a row written by `INSERT … () VALUES ()`, every value that the catalog knows must equal the logged one.
fn check_defaults(table: &TableDef, image: &[u8], wrong: &mut String, seen: &mut Seen) {
    let layout = RowLayout::new(&table.column_types());
    let mut offsets = Vec::new();
    if let Err(error) = layout.walk_offsets(image, &mut offsets) {
        writeln!(wrong, "{} row: {error}", table.full_name()).unwrap();
        return;
    }
    for (column, (start, len)) in table.columns.iter().zip(offsets) {
        let logged = if start == u32::MAX {
            OmittedValue::Null
        } else {
            OmittedValue::Image(image[start as usize..(start + len) as usize].to_vec())
        };
        let ours = column.omitted_value();
        seen.defaults += 1;
        if ours == OmittedValue::Unknown {
            seen.open_defaults += 1;
        } else if ours != logged && !column.auto_increment && !filled_by_select(table) {
            writeln!(wrong, "{} `{}` default: catalog {ours:x?}, log {logged:x?}", table.full_name(), column.name)
                .unwrap();
        }
    }
}

/// Rows of CREATE TABLE … SELECT contain the selected values instead.
fn filled_by_select(table: &TableDef) -> bool {
    matches!(table.name.as_str(), "ctas" | "gipk2")
}

/// The before columns that a source logs with `binlog_row_image=MINIMAL` are those of its identifying key.
fn check_identity(table: &TableDef, bitmap: &[u8], wrong: &mut String) {
    let logged: Vec<usize> = low_bits(bitmap, table.columns.len())
        .iter()
        .enumerate()
        .filter_map(|(position, used)| used.then_some(position))
        .collect();
    let mut ours = match &table.identity {
        Identity::Columns(columns) => columns.clone(),
        Identity::WholeImage => (0..table.columns.len()).collect(),
    };
    ours.sort_unstable();
    if ours != logged {
        writeln!(wrong, "{} identity: catalog {ours:?}, log {logged:?}", table.full_name()).unwrap();
    }
}

fn logged_types(types: &[u8], mut metadata: &[u8]) -> Vec<ColumnType> {
    types
        .iter()
        .map(|ty| {
            let len = match ty {
                4 | 5 | 17 | 18 | 19 | 242 | 245 | 252 | 255 => 1,
                15 | 16 | 246 | 254 => 2,
                _ => 0,
            };
            let (raw, rest) = metadata.split_at(len);
            metadata = rest;
            ColumnType::from_table_map(*ty, raw).unwrap()
        })
        .collect()
}

fn hex(text: &str) -> Vec<u8> {
    (0..text.len()).step_by(2).map(|at| u8::from_str_radix(&text[at..at + 2], 16).unwrap()).collect()
}

fn unescape(text: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes();
    while let Some((first, tail)) = rest.split_first() {
        (bytes, rest) = match (first, tail) {
            (b'\\', [b'\\', tail @ ..]) => ([bytes, vec![b'\\']].concat(), tail),
            (b'\\', [b'x', tail @ ..]) => ([bytes, hex(std::str::from_utf8(&tail[..2]).unwrap())].concat(), &tail[2..]),
            _ => {
                bytes.push(*first);
                (bytes, tail)
            }
        };
    }
    bytes
}

fn low_bits(bytes: &[u8], count: usize) -> Vec<bool> {
    (0..count).map(|bit| bytes[bit / 8] >> (bit % 8) & 1 == 1).collect()
}

fn high_bits(bytes: &[u8], count: usize) -> Vec<bool> {
    (0..count).map(|bit| bytes[bit / 8] >> (7 - bit % 8) & 1 == 1).collect()
}

fn packed(cursor: &mut &[u8]) -> u64 {
    let (first, rest) = cursor.split_first().unwrap();
    let len = match first {
        252 => 2,
        253 => 3,
        254 => 8,
        small => {
            *cursor = rest;
            return u64::from(*small);
        }
    };
    let (bytes, rest) = rest.split_at(len);
    *cursor = rest;
    bytes.iter().rev().fold(0, |value, byte| value << 8 | u64::from(*byte))
}

fn all_packed(mut cursor: &[u8]) -> Vec<u64> {
    let mut values = Vec::new();
    while !cursor.is_empty() {
        values.push(packed(&mut cursor));
    }
    values
}

fn counted(cursor: &mut &[u8]) -> Vec<u8> {
    let len = packed(cursor) as usize;
    let (bytes, rest) = cursor.split_at(len);
    *cursor = rest;
    bytes.to_vec()
}
