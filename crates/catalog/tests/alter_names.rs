//! Names that change places within one ALTER TABLE: what is computed from other columns than before is not known, what
//! is computed from the same ones stays. `tests/ddl/alter_names.sql` shows the same on a server.

use catalog::sql_mode::STRICT_TRANS_TABLES;
use catalog::{Catalog, ColumnSource, DdlEffect, DdlOutcome, StatementContext};

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

/// What the statement rewrites: None if it rewrites nothing, else the columns whose values are not known, with spaces.
fn rewritten(catalog: &Catalog, sql: &str) -> Option<String> {
    let DdlEffect::Changed { rewritten, altered, .. } = applied(catalog, sql).effect else { return None };
    let is_unknown = |source: &ColumnSource| matches!(source, ColumnSource::Unknown { .. });
    let layouts = altered.iter().flat_map(|table| &table.older_layouts);
    assert!(!layouts.flat_map(|layout| &layout.to_next).any(is_unknown), "{sql}");
    let rewrite = rewritten.first()?;
    let columns = rewrite.to.columns.iter().zip(&rewrite.sources);
    let unknown: Vec<&str> =
        columns.filter(|(_, source)| is_unknown(source)).map(|(column, _)| column.name.as_str()).collect();
    Some(unknown.join(" "))
}

#[test]
fn a_generated_column_over_a_name_of_another_column_is_computed_again() {
    let columns =
        "id int primary key, a int default 1, b int default 2, ab int, g int as (a + 10) {}, h int as (g * 2) {}";
    for kind in ["stored", "virtual"] {
        let catalog = with_table(&format!("create table t ({columns})").replace("{}", kind));
        for (change, unknown) in [
            ("drop a, add a int default 0, modify g int as (a + 10) {}", "g h"),
            ("drop a, add a int default 0 first, modify g int as (a + 10) {}", "g h"),
            ("drop a, rename column b to a, modify g int as (a + 10) {}", "g h"),
            ("rename column a to b, rename column b to a, modify g int as (a + 10) {}", "g h"),
            ("change a b int, change b a int, modify g int as (A + 10) {}", "g h"),
            ("rename column a to c, rename column b to a, modify g int as (`a` + 10) {}", "g h"),
            ("rename column a to b, rename column b to a, modify g int as (b + 11) {}", "g h"),
            ("drop ab, add ab int, drop h, add h int as (ab) {}", "h"),
        ] {
            let sql = format!("alter table t {}", change.replace("{}", kind));
            assert_eq!(rewritten(&catalog, &sql).as_deref(), Some(unknown), "{sql}");
        }
        let of_default = columns.replace("(a + 10)", "(default(a) + 10)").replace("{}", kind);
        let catalog = with_table(&format!("create table t ({of_default})"));
        for change in ["drop a, add a int default 5", "rename column a to b, rename column b to a"] {
            let sql = format!("alter table t {change}, modify g int as (default(a) + 10) {kind}");
            assert_eq!(rewritten(&catalog, &sql).as_deref(), Some("g h"), "{sql}");
        }
    }
}

/// A virtual column of a table without a key is in no row, but what is computed from it is.
#[test]
fn a_stored_column_over_a_virtual_one_that_is_computed_again() {
    let catalog = with_table("create table t (a int, b int, g int as (a + 10) virtual, h int as (g * 2) stored)");
    for change in [
        "modify g int as (b + 10) virtual",
        "rename column a to b, rename column b to a, modify g int as (a + 10) virtual, modify h int as (g * 2) stored",
    ] {
        assert_eq!(rewritten(&catalog, &format!("alter table t {change}")).as_deref(), Some("h"), "{change}");
    }
}

/// Every ALTER TABLE of these parts leaves all values as they are, each on a server too.
#[test]
fn alters_that_change_no_value_copy_nothing() {
    // Of the last ones the layout changes, so that rows without a key are rewritten.
    let columns = [
        "comment = 'x'",
        "rename column b to e",
        "rename column b to c, rename column c to b",
        "change b c int, change c b int default 3",
        "rename column a to e, modify g int as (e + 10) {}, modify h int as (g * 2) {}",
        "rename column a to b, rename column b to a, modify g int as (b + 10) {}, modify h int as (g * 2) {}",
        "change a b int, change b a int, change g g int as ((`B`) + 10) {}, modify h int as (g * 2) {}",
        "rename column g to e, modify h int as (e * 2) {}",
        "rename column g to k, rename column k to g, modify h int as (k * 2) {}",
        "change g h int as (a + 10) {}, change h g int as (h * 2) {}",
        "rename column aa to a, rename column a to aa, modify g int as (aa + 10) {}, modify k int as (a - 1) {}, \
         modify h int as (G * 2) {}",
        "rename column c to aa, rename column aa to c, modify k int as (c - 1) {}, modify g int as (A + 10) {}",
        "drop column c, modify g int as (a + 10) {}",
        "drop column c, add column e int, modify k int as (aa - 1) {}",
        "rename column c to a, rename column a to c, modify g int as (c + 10) {}, modify h int as (g * 2) {}, \
         modify b int first",
        "modify a bigint, rename column aa to b, rename column b to aa, modify k int as (b - 1) {}, \
         modify g int as (a + 10) {}",
    ];
    const OF_THE_LAYOUT: usize = 4;
    let others = [
        "",
        ", rename to u",
        ", add key x (id, d)",
        ", alter d set default '2020-01-01'",
        ", rename index i to j, rename index j to i",
        ", drop index i, add index i (d)",
        ", drop check o, add constraint o check (d > '2000-01-01')",
        ", drop index j",
    ];
    let (mut tried, mut wrong) = (0, Vec::new());
    for (key, engine, kind) in [
        ("primary key", "innodb", "stored"),
        ("primary key", "innodb", "virtual"),
        ("primary key", "myisam", "stored"),
        ("unique", "innodb", "stored"),
    ] {
        let table = format!(
            "create table t (id int {key}, a int, aa int, b int, c int default 3, d date, g int as (a + 10) {kind}, \
             h int as (g * 2) {kind}, k int as (aa - 1) {kind}, key i (g), key j (d), \
             constraint o check (d > '1999-01-01')) engine={engine}"
        );
        let catalog = with_table(&table);
        let least = if key == "unique" { columns.len() - OF_THE_LAYOUT } else { columns.len() };
        for (change, other) in columns.iter().take(least).flat_map(|change| others.iter().map(move |one| (change, one)))
        {
            let sql = format!("alter table t {}{other}", change.replace("{}", kind));
            tried += 1;
            if rewritten(&catalog, &sql).is_some() {
                wrong.push(format!("{table}; {sql}"));
            }
        }
    }
    assert!(wrong.is_empty(), "{} of {tried} rewrite:\n{}", wrong.len(), wrong.join("\n"));
    assert!(tried >= 480, "{tried}");
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
