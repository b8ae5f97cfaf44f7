//! Hostile text must not cause a panic, a hang or excessive memory use.

#![allow(missing_docs, clippy::unwrap_used, clippy::expect_used)]

use catalog::{Catalog, StatementContext, masked};
use proptest::prelude::*;

const STATEMENTS: &str = include_str!("corpus_statements.txt");

fn statements() -> Vec<&'static str> {
    STATEMENTS
        .lines()
        .filter_map(|line| match line.split_at_checked(2)? {
            ("S ", sql) => Some(sql),
            ("T ", rest) => rest.split_once(' ').map(|(_, sql)| sql),
            _ => None,
        })
        .collect()
}

fn filled() -> Catalog {
    let context = StatementContext { default_db: "shop".to_owned(), ..StatementContext::default() };
    statements().into_iter().fold(Catalog::new(1), |catalog, sql| {
        catalog.apply(&context, sql.as_bytes()).map_or(catalog.clone(), |outcome| outcome.catalog)
    })
}

fn try_everywhere(catalog: &Catalog, sql: &[u8], sql_mode: u64, collation: u16) {
    let context = StatementContext {
        default_db: "shop".to_owned(),
        sql_mode,
        collation_client: Some(collation),
        explicit_defaults_for_timestamp: Some(sql_mode & 8 == 0),
        ..StatementContext::default()
    };
    if let Ok(outcome) = catalog.apply(&context, sql) {
        for table in outcome.catalog.tables() {
            table.expected_table_map();
            table.columns.iter().for_each(|column| drop(column.omitted_value()));
        }
    }
    masked(&String::from_utf8_lossy(sql));
}

/// Modes that affect parsing, and clients whose text is not UTF-8.
fn surroundings() -> impl Strategy<Value = (u64, u16)> {
    (
        prop::sample::select(vec![0u64, 1, 4, 8, 1 << 20, 4 | 1 << 20, u64::MAX]),
        prop::sample::select(vec![255u16, 8, 28, 63, 0]),
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, ..ProptestConfig::default() })]

    #[test]
    fn arbitrary_bytes(sql in prop::collection::vec(any::<u8>(), 0..200), (mode, collation) in surroundings()) {
        try_everywhere(&Catalog::new(0), &sql, mode, collation);
    }

    #[test]
    fn words_in_any_order(
        words in prop::collection::vec(prop::sample::select(vec![
            "create", "table", "alter", "drop", "index", "t", "(", ")", ",", "int", "varchar", "5", "'x'", "`a`", "primary",
            "key", "unique", "default", "null", "not", "enum", "references", "on", "update", "/*!", "*/", "/*", "--", "#",
            "partition", "by", "select", "charset", "collate", ".", "=", "1e", "0x", "_utf8mb4", "b'1'", "generated",
            "always", "as", "decimal", "(99,99)", "(18446744073709551615)", "rename", "to", "add", "timestamp", "definer",
        ]), 0..40),
        (mode, collation) in surroundings(),
    ) {
        try_everywhere(&Catalog::new(0), words.join(" ").as_bytes(), mode, collation);
    }

    #[test]
    fn mutated_statements(
        which in any::<prop::sample::Index>(),
        edits in prop::collection::vec((any::<prop::sample::Index>(), any::<u8>(), 0u8..4), 1..6),
        (mode, collation) in surroundings(),
    ) {
        thread_local!(static FILLED: Catalog = filled());
        let all = statements();
        let mut sql = which.get(&all).as_bytes().to_vec();
        for (at, byte, kind) in edits {
            if sql.is_empty() {
                break;
            }
            let at = at.index(sql.len());
            match kind {
                0 => sql[at] = byte,
                1 => sql.insert(at, byte),
                2 => drop(sql.remove(at)),
                _ => sql.truncate(at),
            }
        }
        FILLED.with(|catalog| try_everywhere(catalog, &sql, mode, collation));
    }
}

#[test]
fn every_statement_cut_at_every_byte() {
    let catalog = Catalog::new(0);
    for sql in statements().into_iter().filter(|sql| sql.len() < 300) {
        for end in 0..sql.len() {
            let _ = catalog.apply(&StatementContext::default(), &sql.as_bytes()[..end]);
        }
    }
}

#[test]
fn deep_nesting_costs_nothing() {
    let sql = format!("create table t (a int default {}1{})", "(".repeat(200_000), ")".repeat(200_000));
    let context = StatementContext { default_db: "d".to_owned(), ..StatementContext::default() };
    assert!(Catalog::new(0).apply(&context, sql.as_bytes()).is_ok());
    let sql = format!("create table t (a int default {}", "(".repeat(200_000));
    assert!(Catalog::new(0).apply(&context, sql.as_bytes()).is_err());
}
