//! Which ALTER TABLE statements the source executed by copying the table (`alter_copies.txt`). A session that rejects
//! invalid dates then makes them zero in every column, so these columns must not keep their bytes.

use catalog::sql_mode::{ALLOW_INVALID_DATES, STRICT_TRANS_TABLES};
use catalog::{Catalog, ColumnSource, DdlEffect, StatementContext};

fn context(sql_mode: u64) -> StatementContext {
    StatementContext { default_db: "d".to_owned(), sql_mode, ..StatementContext::default() }
}

fn with_table(table: &str) -> Catalog {
    let parent = "create table p (id int primary key)";
    ["create database d character set utf8mb4", parent, table].iter().fold(Catalog::new(0), |catalog, sql| {
        catalog.apply(&context(0), sql.as_bytes()).unwrap_or_else(|error| panic!("{sql}: {error}")).catalog
    })
}

/// True if the values of column `d` are converted.
fn looks_at_dates(catalog: &Catalog, sql_mode: u64, sql: &str) -> bool {
    let before = catalog.table("d", "t").unwrap().clone();
    let d = before.column_index("d").unwrap();
    let outcome = catalog.apply(&context(sql_mode), sql.as_bytes()).unwrap_or_else(|error| panic!("{sql}: {error}"));
    assert_eq!(catalog.check(&outcome), Ok(()), "{sql}");
    let converts = |source: &ColumnSource| matches!(source, ColumnSource::Converted { column, .. } if *column == d);
    match outcome.effect {
        DdlEffect::Changed { rewritten, altered, .. } => {
            let read_anew = altered.iter().filter(|table| table.layout_since > before.layout_since);
            let sources = read_anew.filter_map(|table| table.older_layouts.last()).map(|layout| &layout.to_next);
            rewritten.iter().map(|rewrite| &rewrite.sources).chain(sources).flatten().any(converts)
        }
        _ => false,
    }
}

#[test]
fn as_the_server_decides() {
    let (mut columns, mut compared, mut wrong) = ("", 0, Vec::new());
    for line in include_str!("alter_copies.txt").lines().filter(|line| !line.is_empty() && !line.starts_with('#')) {
        let fields: Vec<&str> = line.split('\t').collect();
        let field = |at: usize| fields.get(at).copied().unwrap_or_default();
        if field(0) == "columns" {
            columns = field(1);
            continue;
        }
        let catalog = with_table(&format!("create table t ({columns}, {}) {}", field(2), field(3)));
        let sql_mode = if field(4) == "STRICT_TRANS_TABLES" { STRICT_TRANS_TABLES } else { 0 };
        let looks = looks_at_dates(&catalog, sql_mode, &format!("alter table t {}", field(1)));
        if looks != (field(0) == "COPY") {
            wrong.push(line);
        }
        compared += 1;
    }
    assert!(wrong.is_empty(), "{} of {compared} decided otherwise:\n{}", wrong.len(), wrong.join("\n"));
    assert!(compared > 250, "{compared} forms");
}

#[test]
fn dates_that_the_session_takes_are_not_looked_at() {
    let catalog = with_table("create table t (id int primary key, a int, d date, dt datetime, key (d), key (a))");
    let copy = "alter table t modify a bigint";
    assert!(looks_at_dates(&catalog, 0, copy));
    assert!(!looks_at_dates(&catalog, ALLOW_INVALID_DATES, copy));
    assert!(!looks_at_dates(&catalog, STRICT_TRANS_TABLES, copy));
    assert!(!looks_at_dates(&catalog, 0, "alter table t force"));
    assert!(looks_at_dates(&catalog, 0, "create index i on t (a) algorithm=copy"));
    assert!(!looks_at_dates(&catalog, 0, "create index i on t (a) algorithm=inplace"));
    let unchecked = StatementContext { no_foreign_key_checks: true, ..context(0) };
    let key = "alter table t add foreign key (a) references p (id)";
    assert!(looks_at_dates(&catalog, 0, key));
    let after = catalog.apply(&unchecked, key.as_bytes()).unwrap().catalog;
    assert!(after.table("d", "t").unwrap().older_layouts.is_empty());
}

/// A value computed from a date stays the same unless the date became zero; only then must the table be copied again.
#[test]
fn a_generated_column_over_a_date() {
    let table =
        "create table t (id int primary key, a int, d date, g int as (month(d)) stored, h int as (a + 1) stored)";
    let catalog = with_table(table);
    let outcome = catalog.apply(&context(0), b"alter table t add b int, algorithm=copy").unwrap();
    let DdlEffect::Changed { rewritten, .. } = outcome.effect else { panic!("{:?}", outcome.effect) };
    let sources = &rewritten[0].sources;
    assert!(matches!(&sources[3], ColumnSource::KeptWhile { column: 3, same, .. } if same[0].0 == 2), "{sources:?}");
    assert_eq!(sources[4], ColumnSource::Kept(4));
}

/// Outside strict mode, an integer that does not fit becomes the largest or smallest one, which changes values computed
/// from it. In strict mode the statement fails.
#[test]
fn a_generated_column_over_an_integer_that_may_be_cut() {
    let catalog = with_table("create table t (a int unsigned not null primary key, g double as (a / 2) stored)");
    let unknown = |mode: u64, ty: &str| {
        let sql = format!("alter table t modify a {ty} not null");
        let outcome = catalog.apply(&context(mode), sql.as_bytes()).unwrap();
        let DdlEffect::Changed { rewritten, .. } = outcome.effect else { panic!("{:?}", outcome.effect) };
        rewritten.iter().any(|table| matches!(table.sources[1], ColumnSource::Unknown { .. }))
    };
    for (ty, may_be_cut) in
        [("mediumint unsigned", true), ("int", true), ("tinyint", true), ("bigint", false), ("bigint unsigned", false)]
    {
        assert_eq!(unknown(0, ty), may_be_cut, "{ty}");
        assert!(!unknown(STRICT_TRANS_TABLES, ty), "{ty}");
    }
}

/// Rows are converted when they are read. Only an index on such a column is rebuilt, and a table whose key contains one
/// is rewritten.
#[test]
fn what_dates_cost() {
    let catalog = with_table("create table t (id int primary key, a int, d date, key d (d), key a (a))");
    let of = |catalog: &Catalog| catalog.table("d", "t").unwrap().clone();
    let sql = b"alter table t add b int, algorithm=copy";
    let (before, after) = (of(&catalog), of(&catalog.apply(&context(0), sql).unwrap().catalog));
    assert_eq!((after.id, after.older_layouts.len()), (before.id, 1));
    let key = |table: &catalog::TableDef, name: &str| table.keys.iter().find(|key| key.name == name).unwrap().id;
    assert_eq!(key(&before, "a"), key(&after, "a"));
    assert_ne!(key(&before, "d"), key(&after, "d"));
    for table in ["create table t (id int, d date, primary key (id, d))", "create table t (id int, d date)"] {
        let catalog = with_table(table);
        let after = catalog.apply(&context(0), sql).unwrap();
        assert_ne!(of(&after.catalog).id, of(&catalog).id, "{table}");
    }
}
