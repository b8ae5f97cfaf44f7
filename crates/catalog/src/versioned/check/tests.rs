use super::*;
use crate::context::StatementContext;
use crate::table::KeyPart;

/// Table 1 has a layout of older rows, table 2 a foreign key to it.
const BEFORE: [&str; 4] = [
    "CREATE DATABASE d",
    "CREATE TABLE t (a INT PRIMARY KEY, b INT, KEY k (b))",
    "CREATE TABLE c (a INT PRIMARY KEY, b INT, FOREIGN KEY (b) REFERENCES t (a))",
    "ALTER TABLE t ADD z INT",
];

fn apply(catalog: &Catalog, sql: &str) -> DdlOutcome {
    let context = StatementContext { default_db: "d".into(), ..StatementContext::default() };
    catalog.apply(&context, sql.as_bytes()).unwrap_or_else(|error| panic!("{sql}: {error}"))
}

fn before() -> Catalog {
    BEFORE.iter().fold(Catalog::new(0), |catalog, sql| apply(&catalog, sql).catalog)
}

/// The lists of an effect on tables.
type Lists<'a> = (&'a mut Vec<Arc<TableDef>>, &'a mut Vec<TableId>, &'a mut Vec<Arc<TableDef>>, &'a mut Vec<Rewrite>);

fn lists(outcome: &mut DdlOutcome) -> Lists<'_> {
    match &mut outcome.effect {
        DdlEffect::Changed { created, dropped, altered, rewritten } => (created, dropped, altered, rewritten),
        other => panic!("{other:?}"),
    }
}

/// Changes the first new table, or else the first altered one, wherever the outcome has it.
fn change(outcome: &mut DdlOutcome, how: impl FnOnce(&mut TableDef)) {
    let (created, _, altered, rewritten) = lists(outcome);
    let place = created.first_mut().or(altered.first_mut()).unwrap();
    let old = Arc::clone(place);
    let mut new = TableDef::clone(&old);
    how(&mut new);
    let new = Arc::new(new);
    *place = Arc::clone(&new);
    rewritten.iter_mut().filter(|rewrite| rewrite.to == old).for_each(|rewrite| rewrite.to = Arc::clone(&new));
    let inner = Arc::make_mut(&mut outcome.catalog.inner);
    inner.by_id.remove(&old.id);
    inner.put_table(&new);
}

fn layout(outcome: &mut DdlOutcome, how: impl FnOnce(&mut OlderLayout)) {
    change(outcome, |table| how(table.older_layouts.last_mut().unwrap()));
}

/// What the check says of an outcome in which a fault was planted.
fn told(sql: &str, plant: impl FnOnce(&mut DdlOutcome)) -> String {
    let before = before();
    let mut outcome = apply(&before, sql);
    assert_eq!(before.check(&outcome), Ok(()), "{sql}");
    plant(&mut outcome);
    before.check(&outcome).expect_err(sql)
}

#[test]
fn a_new_table_has_a_fresh_id_and_no_layouts_of_older_rows() {
    let sql = "CREATE TABLE u (a INT)";
    let id = |id| move |outcome: &mut DdlOutcome| change(outcome, |table| table.id = TableId(id));
    assert_eq!(told(sql, id(2)), "id 2 of the new table `d`.`u` is not fresh: 3..4 are");
    assert_eq!(told(sql, id(4)), "id 4 of the new table `d`.`u` is not fresh: 3..4 are");
    let twice = told(sql, |outcome| {
        let created = lists(outcome).0;
        created.push(Arc::clone(&created[0]));
    });
    assert_eq!(twice, "id 3 of the new table `d`.`u` is not fresh: 3..4 are");
    let free_again = told(sql, |outcome| Arc::make_mut(&mut outcome.catalog.inner).next_table_id = 2);
    assert_eq!(free_again, "table id 2 is free again: 3 was");
    let layouts = before().table("d", "t").unwrap().older_layouts.clone();
    let older = told(sql, |outcome| change(outcome, |table| table.older_layouts = layouts));
    assert_eq!(older, "the new table `d`.`u` has layouts of rows written before it");
    let since = told("TRUNCATE t", |outcome| change(outcome, |table| table.layout_since = 2));
    assert_eq!(since, "the new table `d`.`t` has layouts of rows written before it");
}

#[test]
fn a_key_consists_of_columns_that_are_there() {
    let sql = "CREATE TABLE u (a INT PRIMARY KEY, b INT, KEY k (b), FOREIGN KEY (b) REFERENCES t (a))";
    let part = |part: KeyPart| KeyPart { column: 2, ..part };
    let key = told(sql, |outcome| change(outcome, |table| table.keys[1].parts[0] = part(table.keys[1].parts[0])));
    assert_eq!(key, "key `k` of `d`.`u` has column 2 of 2");
    let identity = told(sql, |outcome| change(outcome, |table| table.identity = Identity::Columns(vec![7])));
    assert_eq!(identity, "rows of `d`.`u` are told apart by columns [7] of 2");
    let empty = told(sql, |outcome| change(outcome, |table| table.identity = Identity::Columns(Vec::new())));
    assert_eq!(empty, "rows of `d`.`u` are told apart by columns [] of 2");
    let foreign = told(sql, |outcome| change(outcome, |table| table.foreign_keys[0].columns = vec![3]));
    assert_eq!(foreign, "foreign key `u_ibfk_1` of `d`.`u` has column 3 of 2");
    let index = told(sql, |outcome| change(outcome, |table| table.keys[0].id = table.keys[1].id));
    assert!(index.ends_with("of key `PRIMARY` of `d`.`u` is not its own"), "{index}");
    let not_given = told("ALTER TABLE t ADD KEY l (z)", |outcome| change(outcome, |table| table.index_ids_given = 2));
    assert!(not_given.ends_with("of key `l` of `d`.`t` is not its own"), "{not_given}");
}

#[test]
fn an_altered_table_keeps_its_id_and_its_layouts() {
    let sql = "ALTER TABLE t ADD y INT";
    let id = told(sql, |outcome| change(outcome, |table| table.id = TableId(9)));
    assert_eq!(id, "the altered table `d`.`t` does not keep its id: no table had id 9");
    let lost = told(sql, |outcome| change(outcome, |table| drop(table.older_layouts.remove(0))));
    assert_eq!(lost, "the altered table `d`.`t` loses layouts that its rows may have");
    let old = before().table("d", "t").cloned().unwrap();
    let unnoticed = told(sql, |outcome| {
        change(outcome, |table| {
            table.older_layouts.clone_from(&old.older_layouts);
            table.layout_since = old.layout_since;
        });
    });
    assert_eq!(unnoticed, "the altered table `d`.`t` has other columns, and no layout for its rows of before");
    let not_theirs = "the altered table `d`.`t` adds a layout that its rows did not have";
    assert_eq!(told(sql, |outcome| layout(outcome, |layout| layout.since += 1)), not_theirs);
    assert_eq!(told(sql, |outcome| layout(outcome, |layout| drop(layout.types.pop()))), not_theirs);
    assert_eq!(told(sql, |outcome| layout(outcome, |layout| drop(layout.to_next.pop()))), not_theirs);
    assert_eq!(told(sql, |outcome| layout(outcome, |layout| layout.to_next[0] = ColumnSource::Kept(3))), not_theirs);
    assert_eq!(told(sql, |outcome| change(outcome, |table| table.layout_since -= 1)), not_theirs);
    let identity = told(sql, |outcome| change(outcome, |table| table.identity = Identity::WholeImage));
    assert_eq!(identity, "the altered table `d`.`t` identifies its rows in another way than before");
    let version = told("RENAME TABLE c TO x", |outcome| change(outcome, |table| table.version = 1));
    assert_eq!(version, "version 1 of `d`.`x` comes after version 1");
}

#[test]
fn a_table_is_in_its_place() {
    let sql = "RENAME TABLE t TO x";
    let by_id = told(sql, |outcome| drop(Arc::make_mut(&mut outcome.catalog.inner).by_id.remove(&TableId(1))));
    assert_eq!(by_id, "`d`.`x` is not in its place");
    let by_name = told(sql, |outcome| {
        let other = outcome.catalog.table("d", "c").cloned().unwrap();
        let inner = Arc::make_mut(&mut outcome.catalog.inner);
        inner.change_database("d", |database| drop(database.tables.insert("x".into(), other)));
    });
    assert_eq!(by_name, "`d`.`x` is not in its place");
    assert_eq!(
        told(sql, |outcome| Arc::make_mut(&mut outcome.catalog.inner).epoch += 1),
        format!("epoch {} comes after epoch {}", BEFORE.len() + 2, BEFORE.len()),
    );
    let unsaid = told(sql, |outcome| outcome.effect = DdlEffect::NoEffect("planted"));
    assert_eq!(unsaid, "a statement without an effect on tables changed them");
}

#[test]
fn a_dropped_table_was_there_and_is_gone() {
    let drops = |id| move |outcome: &mut DdlOutcome| lists(outcome).1.push(TableId(id));
    assert_eq!(told("DROP TABLE c", drops(9)), "dropped table id 9 was not there");
    assert_eq!(told("DROP TABLE c", drops(1)), "dropped table id 1 is still there");
    assert_eq!(told("DROP TABLE c", drops(2)), "dropped table id 2 is dropped twice");
}

#[test]
fn rewritten_rows_go_to_a_table_of_their_own_and_have_all_columns() {
    let sql = "ALTER TABLE c MODIFY a BIGINT";
    let rewrite = |how: fn(&mut Rewrite)| told(sql, |outcome| how(&mut lists(outcome).3[0]));
    let sources = |text| format!("{text} in the rewrite of `d`.`c`");
    assert_eq!(rewrite(|one| drop(one.sources.pop())), sources("1 sources for 2 columns out of 2"));
    assert_eq!(rewrite(|one| one.sources[1] = ColumnSource::Kept(2)), sources("2 sources for 2 columns out of 2"));
    assert_eq!(
        rewrite(|one| one.to = Arc::clone(&one.from)),
        "the rewrite of `d`.`c` keeps its id 2, and so its old rows"
    );
    assert_eq!(rewrite(|one| one.removes = true), "the rewrite of `d`.`c` removes rows from another table, id 3");
    let other = |table: &TableDef| Arc::new(TableDef { comment: "another".into(), ..table.clone() });
    let from = told(sql, |outcome| lists(outcome).3[0].from = other(&lists(outcome).3[0].from.clone()));
    assert_eq!(from, "a rewrite of `d`.`c`, id 2, which is not the table before the statement");
    let to = told(sql, |outcome| lists(outcome).3[0].to = other(&lists(outcome).3[0].to.clone()));
    assert_eq!(to, "a rewrite of `d`.`c`, id 3, which is not the table after the statement");
    let kept = told(sql, |outcome| lists(outcome).1.clear());
    assert_eq!(kept, "the rewrite of `d`.`c` into 3 leaves its rows where they are, too");
    let used = told(sql, |outcome| change(outcome, |table| table.id = TableId(1)));
    assert_eq!(used, "id 1 of the new table `d`.`c` is not fresh: 3..4 are");
    let layouts = before().table("d", "t").unwrap().older_layouts.clone();
    let older = told(sql, |outcome| change(outcome, |table| table.older_layouts = layouts));
    assert_eq!(older, "the new table `d`.`c` has layouts of rows written before it");
    let numbered = told("ALTER TABLE c ADD n INT AUTO_INCREMENT, ADD KEY (n)", |outcome| {
        lists(outcome).3[0].numbering.as_mut().unwrap().column = 4;
    });
    assert_eq!(numbered, "the rewrite of `d`.`c` numbers a column that is not there");
}

#[test]
fn a_copied_table_has_a_reserved_id() {
    let (reserved, id) = before().reserve_id().unwrap();
    let old = reserved.table("d", "t").unwrap();
    let fresh = TableDef { id, older_layouts: Vec::new(), ..TableDef::clone(old) };
    assert_eq!(reserved.check_copied(&fresh), Ok(()));
    let with = |table: TableDef| reserved.check_copied(&table).unwrap_err();
    let not_reserved = |id| format!("id {id} of the copied table `d`.`t` is not a reserved one");
    assert_eq!(with(TableDef { id: old.id, ..fresh.clone() }), not_reserved(1));
    assert_eq!(with(TableDef { id: TableId(9), ..fresh.clone() }), not_reserved(9));
    let older = with(TableDef { older_layouts: old.older_layouts.clone(), ..fresh.clone() });
    assert_eq!(older, "the copied table `d`.`t` has layouts of rows written before it");
    let beyond = with(TableDef { identity: Identity::Columns(vec![3]), ..fresh });
    assert_eq!(beyond, "rows of `d`.`t` are told apart by columns [3] of 3");
}

#[test]
fn statements_that_no_server_logs_are_refused() {
    let mut catalog = before();
    for sql in [
        "CREATE TABLE one (a INT) ENGINE=MyISAM",
        "CREATE TABLE m (a INT) ENGINE=MERGE UNION=(one, one)",
        "CREATE TABLE p (a INT) PARTITION BY RANGE (a) (PARTITION q VALUES LESS THAN (5))",
    ] {
        catalog = apply(&catalog, sql).catalog;
    }
    let mut emptied = apply(&catalog, "TRUNCATE m");
    assert_eq!(catalog.check(&emptied), Ok(()));
    assert_eq!(lists(&mut emptied).1.len(), 1);
    let context = StatementContext { default_db: "d".into(), ..StatementContext::default() };
    for sql in [
        "DROP TABLE t, t",
        "ALTER TABLE p EXCHANGE PARTITION q WITH TABLE p",
        "CREATE TABLE x (a INT, PRIMARY KEY ((a + 1)))",
    ] {
        assert!(catalog.apply(&context, sql.as_bytes()).is_err(), "{sql}");
    }
}
