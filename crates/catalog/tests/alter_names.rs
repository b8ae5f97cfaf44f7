//! Names that change places within one ALTER TABLE. `tests/ddl/alter_names.sql` shows the same on a server.

use catalog::sql_mode::STRICT_TRANS_TABLES;
use catalog::{Catalog, DdlOutcome, StatementContext};

fn context() -> StatementContext {
    let sql_mode = STRICT_TRANS_TABLES;
    StatementContext { default_db: "d".to_owned(), sql_mode, ..StatementContext::default() }
}

fn applied(catalog: &Catalog, sql: &str) -> DdlOutcome {
    let outcome = catalog.apply(&context(), sql.as_bytes()).unwrap_or_else(|error| panic!("{sql}: {error}"));
    assert_eq!(catalog.check(&outcome), Ok(()), "{sql}");
    outcome
}

fn with_table(table: &str) -> Catalog {
    let catalog = applied(&Catalog::new(0), "create database d character set utf8mb4").catalog;
    applied(&catalog, table).catalog
}

/// Keys as `name(columns)`.
fn keys(catalog: &Catalog) -> Vec<String> {
    let table = catalog.table("d", "t").unwrap();
    let part = |part: &catalog::KeyPart| {
        let prefix = part.prefix_len.map(|len| format!("({len})")).unwrap_or_default();
        format!("{}{prefix}", table.columns[part.column].name)
    };
    let shown =
        |key: &catalog::Key| format!("{}({})", key.name, key.parts.iter().map(part).collect::<Vec<_>>().join(","));
    table.keys.iter().map(shown).collect()
}

#[test]
fn a_key_goes_over_to_the_column_that_is_added_under_its_columns_name() {
    let (stays, goes) = (false, true);
    for (table, change, wanted, renewed) in [
        ("a int, b int, key k (a, b)", "drop a, add a int", "k(a,b)", goes),
        ("a int, b int, key k (a, b)", "rename column a to b, rename column b to a", "k(b,a)", stays),
        ("a int, b int, key k (a), key l (b)", "drop a, rename column b to a", "l(a)", stays),
        ("a int, b int, key k (a)", "rename column a to c, add a int first", "k(a)", goes),
        ("a int, b int, key k (a)", "rename column a to c, add a int", "k(c)", stays),
        ("a int, b int, key k (b)", "change b c int first, add b int first", "k(b)", goes),
        ("a int, b int, primary key (a)", "drop a, add a int auto_increment", "PRIMARY(a)", goes),
        ("a varchar(20), key k (a)", "drop a, add a varchar(30)", "k(a(20))", goes),
        ("a varchar(20), key k (a(5))", "drop a, add a varchar(5)", "k(a)", goes),
        ("a varchar(20), key k (a)", "drop a, add a text", "k(a(20))", goes),
        ("a int, key k (a)", "drop a, add a varchar(30)", "k(a(4))", goes),
        ("a int, key k (a)", "drop a, add a float", "k(a)", goes),
    ] {
        let catalog = with_table(&format!("create table t ({table}, z int)"));
        let after = applied(&catalog, &format!("alter table t {change}")).catalog;
        assert_eq!(keys(&after), [wanted], "{table}: {change}");
        let id = |catalog: &Catalog| catalog.table("d", "t").unwrap().keys.last().unwrap().id;
        assert_eq!(id(&catalog) != id(&after), renewed, "{table}: {change}");
    }
    let catalog = with_table("create table t (id int, b int, primary key (id))");
    let after = applied(&catalog, "alter table t drop id, add id int").catalog;
    assert!(!after.table("d", "t").unwrap().columns[1].nullable);
}

#[test]
fn keys_exchange_their_names() {
    let catalog = with_table("create table t (a int, b int, key x (a), key y (b), key z (a, b))");
    for (change, wanted) in [
        ("rename key x to y, rename key y to x", ["y(a)", "x(b)", "z(a,b)"]),
        ("rename key x to y, rename key y to z, rename key z to x", ["y(a)", "z(b)", "x(a,b)"]),
        ("drop key z, rename key x to z, add key x (b, a)", ["z(a)", "y(b)", "x(b,a)"]),
        ("rename key x to X, alter index y invisible", ["X(a)", "y(b)", "z(a,b)"]),
    ] {
        let after = applied(&catalog, &format!("alter table t {change}")).catalog;
        assert_eq!(keys(&after), wanted, "{change}");
    }
    assert!(catalog.apply(&context(), b"alter table t rename key x to w, alter index w invisible").is_err());
}
