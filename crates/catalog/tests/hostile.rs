//! Hostile text must not cause a panic, a hang or excessive memory use.

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
        assert_eq!(catalog.check(&outcome), Ok(()), "{}", String::from_utf8_lossy(sql));
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

/// Definitions with `terms` terms of each operator, and lists as long.
fn of_many_terms(terms: usize) -> Vec<String> {
    let mut all = Vec::new();
    let operators = [
        " + a",
        " - 1",
        " * 1",
        " / 1",
        " % a",
        " DIV 1",
        " MOD 1",
        " | 1",
        " & 1",
        " ^ 1",
        " << 1",
        " >> 1",
        " || a",
        " OR a = 1",
        " XOR a",
        " AND a",
        " && 1",
        " = 1",
        " <=> 1",
        " <> 1",
        " < 1",
        " IS NULL",
        " IS NOT TRUE",
        " IN (1, 2)",
        " NOT IN (1)",
        " LIKE 'a'",
        " BETWEEN 1 AND 2",
        " REGEXP 'a'",
        " COLLATE utf8mb4_bin",
        " + INTERVAL 1 DAY",
        " MEMBER OF (1)",
        " SOUNDS LIKE a",
        "->'$'",
    ];
    for operator in operators {
        let (whole, chain) = (format!("a{}", operator.repeat(terms)), format!("a{}", operator.repeat(terms / 10)));
        all.push(format!("create table shop.t (a int, b int as ({whole}))"));
        for definition in [
            "create table shop.t (a int, b int default ({}))",
            "create table shop.t (a int, check ({}))",
            "create table shop.t (a int, key (({})))",
            "create table shop.t (a int) partition by range ({}) (partition p values less than ({}))",
            "create table shop.t (a int) partition by hash ({})",
            "create view shop.v as select {} from shop.t where {}",
            "create trigger shop.r before insert on shop.t for each row set new.a = {}",
            "insert into shop.t select {} from shop.t",
            "update shop.t set a = {} where {}",
        ] {
            all.push(definition.replace("{}", &chain));
        }
    }
    for before in ["- ", "+ ", "~ ", "! ", "NOT ", "(", "abs(", "BINARY ", "INTERVAL (", "CASE WHEN "] {
        all.push(format!("create table shop.t (a int, b int as ({}a{}))", before.repeat(terms), ")".repeat(terms)));
        all.push(format!(
            "create table shop.t (a int) partition by hash ({}a{})",
            before.repeat(terms),
            ")".repeat(terms)
        ));
    }
    let numbered = |head: &str, of: &dyn Fn(usize) -> String, tail: &str| {
        format!("{head}{}{tail}", (0..terms).map(of).collect::<Vec<_>>().join(", "))
    };
    all.extend([
        numbered("create table shop.t (", &|n| format!("c{n} int"), ")"),
        numbered("create table shop.t (", &|n| format!("c{n} int, key k{n} (c{n})"), ")"),
        numbered("create table shop.t (a int, ", &|n| format!("check (a > {n})"), ")"),
        numbered("create table shop.t (a int, ", &|n| format!("key k{n} (a)"), ")"),
        numbered("create table shop.t (a enum(", &|n| format!("'{n}'"), "))"),
        numbered(
            "create table shop.t (a int) partition by list (a) (",
            &|n| format!("partition p{n} values in ({n})"),
            ")",
        ),
        numbered("alter table shop.s ", &|n| format!("add c{n} int"), ""),
        numbered("alter table shop.s ", &|n| format!("add key k{n} (a)"), ""),
        numbered("alter table shop.s ", &|n| format!("rename column a{n} to b{n}"), ""),
        numbered("drop table if exists ", &|n| format!("t{n}"), ""),
        numbered("rename table ", &|n| format!("t{n} to t{}", n + 1), ""),
        numbered("create user ", &|n| format!("u{n}"), ""),
    ]);
    for (head, again, tail) in [
        ("rename table a to b", ", a to b", ""),
        ("drop table if exists a", ", a", ""),
        ("alter table shop.t add c int", ", add c int", ""),
        ("create table shop.t (a enum('x'", ", 'x'", "))"),
        ("create table shop.t (a int, key (a", ", a", "))"),
        ("create table shop.t (a int comment 'x'", " 'x'", ")"),
        ("create table shop.t (a int) partition by list (a) (partition p values in (1", ", 1", "))"),
        ("delete a from a", " join a", " where 1"),
        ("insert into a values (1)", ", (1)", ""),
        ("insert into a select 1", " union select 1", ""),
        ("grant select on a to b", ", b", ""),
        ("set password = 'a'", ", password = 'a'", ""),
        ("select 1", " /*!", ""),
        ("/*! create table a (a int)", " /*!90000 */", " */"),
    ] {
        all.push(format!("{head}{}{tail}", again.repeat(terms)));
    }
    all
}

/// On the stack that threads of replay have.
#[test]
fn many_terms_cost_little() {
    let run = || {
        let catalog = Catalog::new(0);
        let context = StatementContext { default_db: "shop".to_owned(), ..StatementContext::default() };
        let catalog = catalog.apply(&context, b"create database shop").unwrap().catalog;
        let catalog = catalog.apply(&context, b"create table shop.s (a int)").unwrap().catalog;
        for sql in of_many_terms(100_000) {
            if let Ok(outcome) = catalog.apply(&context, sql.as_bytes()) {
                for table in outcome.catalog.tables() {
                    let _ = catalog::show_create_table(table, &values::Zone::UTC);
                    if let Some(partitioning) = &table.partitioning {
                        let finder = catalog::PartitionFinder::new(table, partitioning);
                        let _ = finder.map(|finder| finder.find(&[0, 1, 0, 0, 0], &mut Vec::new()));
                    }
                }
            }
        }
    };
    std::thread::Builder::new().stack_size(2 << 20).spawn(run).unwrap().join().unwrap();
}

/// However many terms a partition's expression has, rows are placed by it.
#[test]
fn a_partitions_expression_of_many_terms_is_computed() {
    let context = StatementContext { default_db: "d".to_owned(), ..StatementContext::default() };
    let sql = format!("create table t (a int) partition by hash (a{}) partitions 7", " + 1 - a + a".repeat(300));
    let catalog = Catalog::new(0).apply(&context, sql.as_bytes()).unwrap().catalog;
    let table = catalog.table("d", "t").unwrap();
    let finder = catalog::PartitionFinder::new(table, table.partitioning.as_ref().unwrap()).unwrap();
    // 5 + 300 is 4 modulo 7.
    assert_eq!(finder.find(&[0, 5, 0, 0, 0], &mut Vec::new()).unwrap(), 4);
}

/// A statement of many accounts is kept with each, up to a bound.
#[test]
fn accounts_of_one_statement_are_bounded() {
    let context = StatementContext { default_db: "d".to_owned(), ..StatementContext::default() };
    let create = |count: usize| (0..count).map(|n| format!("u{n}")).collect::<Vec<_>>().join(", ");
    let made = Catalog::new(0).apply(&context, format!("create user {}", create(1_000)).as_bytes()).unwrap();
    assert_eq!(made.catalog.definitions().count(), 1_000);
    let error = Catalog::new(0).apply(&context, format!("create user {}", create(100_000)).as_bytes()).unwrap_err();
    assert!(error.to_string().contains("too many accounts"), "{error}");
}

/// What a statement gives its accounts counts, not its length: found by attack, a GRANT of 158 KB took 2 GiB.
#[test]
fn what_one_statement_gives_is_bounded() {
    let context = StatementContext { default_db: "d".to_owned(), ..StatementContext::default() };
    let names = |of: &str, count: usize| (0..count).map(|n| format!("{of}{n}")).collect::<Vec<_>>().join(",");
    let apply = |catalog: &Catalog, sql: &str| catalog.apply(&context, sql.as_bytes());
    let made = apply(&Catalog::new(0), &format!("create user {}", names("u", 3_000))).unwrap().catalog;
    let made = apply(&made, &format!("create role {}", names("r", 100))).unwrap().catalog;
    for (sql, is_taken) in [
        (format!("grant {} to {}", names("r", 100), names("u", 1_000)), true),
        (format!("grant {} to {}", names("r", 9_000), names("u", 900)), false),
        (format!("revoke {} from {}", names("r", 9_000), names("u", 900)), false),
        (format!("grant select ({}) on d.t to {}", names("c", 9_000), names("u", 900)), false),
        (format!("grant select on d.t to {}", names("u", 3_000)), true),
        (
            format!(
                "rename user {}",
                (0..3_000).map(|n| format!("u{n} to renamed_to_a_longer_name_{n}")).collect::<Vec<_>>().join(",")
            ),
            true,
        ),
    ] {
        let taken = apply(&made, &sql);
        assert_eq!(taken.is_ok(), is_taken, "{}", &sql[..60]);
    }
}

/// Statements that keep changing an event are kept up to a size: found by attack, 500 of 512 KB took 3 GiB.
#[test]
fn later_texts_of_an_object_are_bounded() {
    let context = StatementContext { default_db: "d".to_owned(), ..StatementContext::default() };
    let apply = |catalog: &Catalog, sql: &str| catalog.apply(&context, sql.as_bytes()).unwrap().catalog;
    let mut catalog = apply(&Catalog::new(0), "create database d");
    catalog = apply(&catalog, "create event e on schedule every 1 day do set @a = 1");
    for n in 0..100 {
        catalog = apply(&catalog, &format!("alter event e do set @a = '{}{n}'", "x".repeat(100_000)));
    }
    let bytes: usize = catalog.definitions().flat_map(|one| one.later.iter()).map(|recorded| recorded.text.len()).sum();
    assert!((100_000..=1 << 20).contains(&bytes), "{bytes}");
    assert_eq!(catalog.unsettled_definitions().count(), 1, "the source is asked how it is");
}

/// Each of 6,000 grants to one account copied and printed all earlier ones: 12 s.
#[test]
fn a_grant_leaves_the_other_grants_of_its_account_alone() {
    let apply = |catalog: &Catalog, sql: &str| {
        let context = StatementContext { default_db: "d".to_owned(), ..StatementContext::default() };
        catalog.apply(&context, sql.as_bytes()).unwrap().catalog
    };
    let statements = |catalog: &Catalog| -> std::collections::BTreeSet<*const catalog::Recorded> {
        catalog.definitions().flat_map(|one| one.later.iter()).map(std::ptr::from_ref).collect()
    };
    let mut catalog = apply(&Catalog::new(0), "create user u identified with 'caching_sha2_password' as 'x'");
    for n in 0..3_000 {
        let before = catalog.clone();
        for sql in [format!("grant select on d.t{n} to u"), format!("grant insert on d{n}.* to u")] {
            catalog = apply(&catalog, &sql);
        }
        if n % 500 == 499 {
            let (before, after) = (statements(&before), statements(&catalog));
            assert_eq!((before.difference(&after).count(), after.difference(&before).count()), (0, 2), "{n}");
        }
    }
    let last = apply(&catalog, "grant select (a), update on d.t7 to u");
    assert_eq!(statements(&last).difference(&statements(&catalog)).count(), 1);
    let one = last.definitions().next().unwrap();
    let texts: Vec<&str> = one.later.iter().map(|recorded| recorded.text.as_str()).collect();
    assert_eq!(texts.len(), 6_001);
    assert!(texts.contains(&"GRANT SELECT, UPDATE, SELECT (`a`) ON `d`.`t7` TO `u`@`%`"));
    assert_eq!(texts[1], "GRANT INSERT ON `d0`.* TO `u`@`%`");
}
