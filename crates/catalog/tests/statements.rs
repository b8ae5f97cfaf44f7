//! Sequences of statements as in a log: the effect of each on the catalog, and which are refused.

use catalog::{
    Catalog, ColumnDefault, ColumnSource, DdlEffect, DdlError, Found, Identity, Named, OmittedValue, Quarantined,
    ReferenceAction, StatementContext, TableDef, TableId,
};
use values::sort_key::SortKeyPlan;

fn context() -> StatementContext {
    StatementContext { default_db: "d".to_owned(), ..StatementContext::default() }
}

fn effect(catalog: &mut Catalog, sql: &str) -> DdlEffect {
    let outcome = catalog.apply(&context(), sql.as_bytes()).unwrap_or_else(|error| panic!("{error}"));
    assert_eq!(catalog.check(&outcome), Ok(()), "{sql}");
    *catalog = outcome.catalog;
    outcome.effect
}

fn refusal(catalog: &Catalog, sql: &str) -> DdlError {
    catalog.apply(&context(), sql.as_bytes()).expect_err(sql)
}

fn with(statements: &[&str]) -> Catalog {
    let mut catalog = Catalog::new(0);
    for sql in statements {
        effect(&mut catalog, sql);
    }
    catalog
}

fn id(catalog: &Catalog, name: &str) -> Option<TableId> {
    catalog.table("d", name).map(|table| table.id)
}

fn key_names(table: &TableDef) -> Vec<&str> {
    table.keys.iter().map(|key| key.name.as_str()).collect()
}

fn ids(tables: &[std::sync::Arc<TableDef>]) -> Vec<u32> {
    tables.iter().map(|table| table.id.0).collect()
}

/// Ids of created, dropped and altered tables.
fn changed(effect: &DdlEffect) -> (Vec<u32>, Vec<u32>, Vec<u32>) {
    match effect {
        DdlEffect::Changed { created, dropped, altered, .. } => {
            (ids(created), dropped.iter().map(|id| id.0).collect(), ids(altered))
        }
        other => panic!("{other:?}"),
    }
}

/// NULL in an ENUM that becomes NOT NULL turns into the error value, not the first member (seen on 9.7).
#[test]
fn null_in_an_enum_that_is_not_null_any_more() {
    let catalog = with(&["create database d", "create table t (id int primary key, e enum('a', 'b'), s set('a'))"]);
    let sql = b"alter table t modify e enum('a', 'b', 'c') not null, modify s set('a') not null";
    let DdlEffect::Changed { rewritten, .. } = catalog.apply(&context(), sql).unwrap().effect else { panic!() };
    for source in &rewritten[0].sources[1..] {
        assert!(matches!(source, ColumnSource::Converted { null: Some(zero), .. } if *zero == [0]), "{source:?}");
    }
}

/// Types that a 9.7 server gave to columns that CHANGE makes TEXT next to CONVERT TO: another class than the one named.
#[test]
fn text_beside_convert_to_has_the_class_of_the_old_column() {
    let (a61, a62, a63, a64, a190, a192) =
        ("a".repeat(61), "a".repeat(62), "a".repeat(63), "a".repeat(64), "a".repeat(190), "a".repeat(192));
    let cases = [
        ("varchar(6)", "text", 1, 1),
        ("varchar(63)", "text", 1, 1),
        ("varchar(64)", "text", 2, 1),
        ("varchar(191) character set utf8mb3", "text", 1, 1),
        ("varchar(192) character set utf8mb3", "mediumtext", 2, 1),
        ("varchar(193) character set utf8mb3", "tinytext", 2, 1),
        ("varchar(255) character set utf8mb4", "text", 1, 1),
        ("varchar(256) character set utf8mb4", "text", 2, 1),
        ("varchar(20000)", "text", 3, 2),
        ("tinytext", "mediumtext", 2, 1),
        ("text", "tinytext", 3, 2),
        ("mediumtext", "text", 4, 3),
        ("tinytext character set utf8mb3", "text", 2, 1),
        ("text character set utf8mb3", "text", 3, 2),
        ("text character set utf8mb4", "text", 2, 2),
        ("blob", "text", 3, 2),
        ("tinyblob", "text", 2, 1),
        ("varbinary(64)", "text", 2, 1),
        ("binary(64)", "text", 2, 1),
        ("char(64) character set utf8mb3", "text", 1, 1),
        ("json", "text", 4, 4),
        ("geometry", "text", 4, 4),
        ("decimal(65,30)", "text", 2, 1),
        ("decimal(62,0)", "text", 1, 1),
        ("bit(64)", "text", 2, 1),
        ("bit(63)", "text", 1, 1),
        ("datetime(6)", "text", 1, 1),
        ("int", "mediumtext", 1, 1),
        ("int", "longtext", 4, 4),
        ("mediumtext", "text(10)", 1, 1),
        ("varchar(6)", "text(300)", 2, 2),
        (&format!("enum('{a63}')"), "text", 1, 1),
        (&format!("enum('{a64}')"), "text", 2, 1),
        (&format!("enum('{a190}') character set utf8mb3"), "text", 1, 1),
        (&format!("enum('{a192}') character set utf8mb3"), "text", 2, 1),
        (&format!("set('{a61}','b')"), "text", 1, 1),
        (&format!("set('{a62}','b')"), "text", 2, 1),
    ];
    for (old, new, utf8mb4, latin1) in cases {
        let table = format!("create table t (id int, b {old}) character set latin1");
        for (charset, class) in [("utf8mb4", utf8mb4), ("latin1", latin1)] {
            let mut catalog = with(&["create database d", &table]);
            effect(&mut catalog, &format!("alter table t change b c {new}, convert to character set {charset}"));
            let column = &catalog.table("d", "t").unwrap().columns[1];
            assert_eq!(column.ty.meta, class, "{old} to {new} in {charset}");
        }
    }
    let mut catalog = with(&["create database d", "create table t (id int, b varchar(6)) character set latin1"]);
    effect(&mut catalog, "alter table t modify b blob, convert to character set utf8mb4");
    assert_eq!(catalog.table("d", "t").unwrap().columns[1].ty.meta, 1);
    effect(&mut catalog, "alter table t modify b text, add x text, default character set latin1");
    assert_eq!(catalog.table("d", "t").unwrap().columns[1].ty.meta, 2);
}

#[test]
fn ids_are_fresh_and_never_reused() {
    let mut catalog = with(&["create database d", "create table t (a int)"]);
    assert_eq!(id(&catalog, "t"), Some(TableId(1)));
    assert_eq!(changed(&effect(&mut catalog, "truncate t")), (vec![2], vec![1], vec![]));
    assert_eq!(changed(&effect(&mut catalog, "drop table t")), (vec![], vec![2], vec![]));
    assert_eq!(changed(&effect(&mut catalog, "create table t (a int, b int)")), (vec![3], vec![], vec![]));
    assert_eq!(changed(&effect(&mut catalog, "create table u like t")), (vec![4], vec![], vec![]));
    assert_eq!(changed(&effect(&mut catalog, "drop database d")), (vec![], vec![3, 4], vec![]));
    assert_eq!(catalog.tables().count(), 0);
    assert!(catalog.table_by_id(TableId(4)).is_none());
    effect(&mut catalog, "create database d");
    assert_eq!(changed(&effect(&mut catalog, "create table t (a int)")), (vec![5], vec![], vec![]));
}

#[test]
fn a_snapshot_keeps_its_tables() {
    let mut catalog = with(&["create database d", "create table t (a int)"]);
    let before = catalog.clone();
    let epoch = before.epoch();
    effect(&mut catalog, "drop table t");
    assert_eq!(catalog.epoch(), epoch + 1);
    assert!(before.table("d", "t").is_some() && catalog.table("d", "t").is_none());
    for sql in ["analyze table x", "create view v as select 1", "drop table if exists x", "grant all on *.* to x"] {
        effect(&mut catalog, sql);
    }
    assert_eq!(catalog.epoch(), epoch + 1);
}

#[test]
fn rename_swaps_and_follows_foreign_keys() {
    let mut catalog = with(&[
        "create database d",
        "create table a (id int primary key)",
        "create table b (id int primary key, up int, foreign key (up) references a (id) on delete cascade)",
    ]);
    let (a, b) = (id(&catalog, "a"), id(&catalog, "b"));
    effect(&mut catalog, "rename table a to t, b to a, t to b");
    assert_eq!((id(&catalog, "a"), id(&catalog, "b")), (b, a));
    let child = catalog.table("d", "a").unwrap();
    assert_eq!(child.foreign_keys[0].parent_table, "b");
    assert_eq!(child.foreign_keys[0].name, "a_ibfk_1");
    assert_eq!(child.foreign_keys[0].on_delete, ReferenceAction::Cascade);
    assert_eq!(catalog.children("d", "b").map(|(table, _)| table.name.as_str()).collect::<Vec<_>>(), ["a"]);
    effect(&mut catalog, "create database e");
    assert_eq!(changed(&effect(&mut catalog, "alter table b rename to e.b, comment='x'")).2.len(), 2);
    assert_eq!(catalog.table("e", "b").unwrap().comment, "x");
    assert_eq!(catalog.table("d", "a").unwrap().foreign_keys[0].parent_db, "e");
    assert!(matches!(refusal(&catalog, "rename table a to e.b"), DdlError::Disagrees { .. }));
}

#[test]
fn keys_have_the_servers_names_and_order() {
    let mut catalog = with(&[
        "create table keys1(a int, b int not null, c varchar(10), key(a), key(a), unique(a), unique(b), key k(c(3)), \
         key((a+1)), key((b+1)), key x((a+1),c desc), fulltext(c), unique u2 (c(2),b), unique u3(b,a))",
        "create table s1(a int, b int not null, c varchar(10) not null, d char(5) null, unique np(d(2)), unique n(a), \
         unique p(c(2)), unique pn(b,a), unique g(b), key z(c(3)), key y(a), fulltext ff(c), key w(d), key (d, (a+1)), \
         key((a+2),b), key `PRIMARY2`(a))",
        "create table s2(`primary` int, key(`primary`))",
        "create table p(id int primary key, u int not null, unique(u))",
        "create table fk1(id int primary key, pid int references p(id), q int, r int, key(q), foreign key (q) \
         references p(id), constraint cc foreign key fkidx(r) references p(u), foreign key zz (r) references p(id))",
        "create table fk2(a int, b int, constraint x foreign key y (a) references p(id), foreign key z (b) references \
         p(id), key(b,a), key (a), foreign key (a) references p(u))",
        "create table fk3(a int references p, b int references p(id) on delete set null on update cascade)",
    ]);
    let keys = |catalog: &Catalog, name: &str| key_names(catalog.table("d", name).unwrap()).join(" ");
    assert_eq!(keys(&catalog, "keys1"), "b a_3 u3 u2 a a_2 k functional_index functional_index_2 x c");
    assert_eq!(keys(&catalog, "s1"), "g p n pn np z y w PRIMARY2 functional_index functional_index_2 ff");
    assert_eq!(keys(&catalog, "s2"), "primary_2");
    assert_eq!(keys(&catalog, "fk1"), "PRIMARY pid q zz");
    assert_eq!(keys(&catalog, "fk2"), "b a");
    assert_eq!(keys(&catalog, "fk3"), "a b");
    let foreign = |catalog: &Catalog, name: &str| {
        let table = catalog.table("d", name).unwrap();
        table.foreign_keys.iter().map(|key| key.name.clone()).collect::<Vec<_>>().join(" ")
    };
    assert_eq!(foreign(&catalog, "fk1"), "fk1_ibfk_1 fk1_ibfk_2 cc fk1_ibfk_3");
    assert_eq!(foreign(&catalog, "fk2"), "x fk2_ibfk_1 fk2_ibfk_2");
    assert_eq!(catalog.table("d", "fk3").unwrap().foreign_keys[0].parent_columns, ["id"]);
    assert_eq!(catalog.table("d", "keys1").unwrap().hidden_columns, 3);
    // A new key that starts with the same columns replaces one generated for a foreign key.
    effect(&mut catalog, "create index b2 on fk3(b, a)");
    assert_eq!(keys(&catalog, "fk3"), "a b2");
    effect(&mut catalog, "alter table fk2 add foreign key (b) references p(u), drop foreign key x");
    assert_eq!(foreign(&catalog, "fk2"), "fk2_ibfk_1 fk2_ibfk_2 fk2_ibfk_3");
}

#[test]
fn inline_references_count_from_9_0_on() {
    let context = StatementContext { server_version: Some(80_040), ..context() };
    let sql = b"create table t (a int, b int references p (id))";
    let catalog = Catalog::new(0).apply(&context, sql).unwrap().catalog;
    let table = catalog.table("d", "t").unwrap();
    assert!(table.foreign_keys.is_empty() && table.keys.is_empty());
}

#[test]
fn index_changes_keep_the_rows_or_rewrite_them() {
    let mut catalog = with(&[
        "create table t (a int not null, b int, c varchar(10) not null, d int not null)",
        "create table p (a int primary key, b int not null)",
    ]);
    let before = id(&catalog, "t");
    assert_eq!(changed(&effect(&mut catalog, "create index i on t (b)")), (vec![], vec![], vec![1]));
    effect(&mut catalog, "create unique index u on t (b)");
    effect(&mut catalog, "create unique index pre on t (c(3))");
    effect(&mut catalog, "alter table t rename index i to j, alter index u invisible");
    assert_eq!(key_names(catalog.table("d", "t").unwrap()), ["pre", "u", "j"]);
    assert_eq!(id(&catalog, "t"), before);
    assert_eq!(catalog.table("d", "t").unwrap().version, 5);
    let (created, dropped, altered) = changed(&effect(&mut catalog, "create unique index k on t (a)"));
    assert_eq!((created, dropped, altered), (vec![3], vec![1], vec![]), "a key identifies the rows from here on");
    // With a PRIMARY KEY, or an earlier qualifying key, the rows keep their identity.
    effect(&mut catalog, "create unique index k on p (b)");
    effect(&mut catalog, "drop index k on p");
    assert_eq!(changed(&effect(&mut catalog, "drop index `primary` on p")), (vec![4], vec![2], vec![]));
    effect(&mut catalog, "create table q (a int not null, b int not null, unique (a), unique (b))");
    effect(&mut catalog, "drop index b on q");
    assert_eq!(changed(&effect(&mut catalog, "drop index a on q")), (vec![6], vec![5], vec![]));
    assert!(matches!(refusal(&catalog, "drop index x on q"), DdlError::Disagrees { .. }));
    effect(&mut catalog, "create index a on q (b)");
    assert!(matches!(refusal(&catalog, "create index a on q (b)"), DdlError::Disagrees { .. }));
    assert!(matches!(effect(&mut catalog, "alter table q engine=InnoDB, row_format=default"), DdlEffect::NoEffect(_)));
    assert!(matches!(effect(&mut catalog, "alter table q disable keys"), DdlEffect::NoEffect(_)));
    // Drops are executed first, whatever the order in the text.
    effect(&mut catalog, "alter table t add index j (d), drop index j");
}

#[test]
fn identity_is_the_first_unique_key_without_null_or_prefix() {
    let catalog = with(&[
        "create table a (x int, y int not null, z int not null, unique (x), unique (z, y), unique (y))",
        "create table b (x int not null, unique ((x+1)))",
        "create table c (x char(4) not null, unique (x(4)))",
        "create table e (x char(4) not null, unique (x(3)))",
        "create table f (v int as (1) virtual not null, s int as (2) stored not null, unique (v), unique (s))",
        "create table g (x blob not null, y int, primary key (y, x(10)))",
    ]);
    let identity = |name: &str| catalog.table("d", name).unwrap().identity.clone();
    assert_eq!(identity("a"), Identity::Columns(vec![2, 1]));
    assert_eq!(identity("b"), Identity::WholeImage);
    assert_eq!(identity("c"), Identity::Columns(vec![0]));
    assert_eq!(identity("e"), Identity::WholeImage);
    assert_eq!(identity("f"), Identity::Columns(vec![1]));
    assert_eq!(identity("g"), Identity::Columns(vec![1, 0]));
    assert!(!catalog.table("d", "g").unwrap().columns[1].nullable);
}

#[test]
fn sort_keys_follow_the_parts_of_a_key() {
    let catalog = with(&[
        "create table a (x int not null, t text character set latin1, b varbinary(9) not null, primary key (x desc, b), \
         key t (t(5), x), key e ((x+1)), fulltext key f (t))",
        "create table b (x int, key (x))",
    ]);
    let table = catalog.table("d", "a").unwrap();
    let parts = |name: &str| {
        let columns = table.sort_key_columns(table.key(name).unwrap())?;
        Some(columns.iter().map(|c| (c.ty.name(), c.nullable, c.descending, c.prefix_len)).collect::<Vec<_>>())
    };
    assert_eq!(parts("PRIMARY").unwrap(), [("INT", false, true, None), ("VARBINARY", false, false, None)]);
    assert_eq!(parts("t").unwrap(), [("TEXT", true, false, Some(5)), ("INT", false, false, None)]);
    assert_eq!(parts("e"), None);
    assert_eq!(parts("f"), None);
    let plan = SortKeyPlan::new(&table.sort_key_columns(table.key("t").unwrap()).unwrap()).unwrap();
    assert!(plan.is_ordered());
    assert_eq!(table.identity_key().unwrap().name, "PRIMARY");
    assert_eq!(catalog.table("d", "b").unwrap().identity_key(), None);
}

#[test]
fn if_exists_and_if_not_exists() {
    let mut catalog = with(&["create database d", "create table t (a int)"]);
    for sql in [
        "create table if not exists t (b int)",
        "create table if not exists t like t",
        "create database if not exists d",
        "drop table if exists nope",
        "drop database if exists nope",
        "drop temporary table t",
        "create temporary table u (a int)",
    ] {
        assert!(matches!(effect(&mut catalog, sql), DdlEffect::NoEffect(_)), "{sql}");
    }
    for sql in [
        "create table t (b int)",
        "create database d",
        "drop table nope",
        "drop database nope",
        "truncate nope",
        "rename table nope to x",
        "create table x like nope",
        "create index i on nope (a)",
        "create table x (a int, A int)",
        "create table x (a int, key (b))",
    ] {
        assert!(matches!(refusal(&catalog, sql), DdlError::Disagrees { .. }), "{sql}");
    }
    assert_eq!(changed(&effect(&mut catalog, "drop table if exists nope, t")).1.len(), 1);
    assert!(matches!(effect(&mut catalog, "truncate mysql.general_log"), DdlEffect::Recorded(_)));
}

#[test]
fn lower_case_table_names() {
    for (mode, stored, found) in [(0, "Tab", false), (1, "tab", true), (2, "Tab", true)] {
        let mut catalog = Catalog::new(mode);
        effect(&mut catalog, "create database D");
        effect(&mut catalog, "create table D.Tab (a int)");
        assert_eq!(catalog.tables().next().unwrap().name, stored);
        assert_eq!(catalog.table("d", "TAB").is_some(), found);
        assert!(catalog.table_bytes(b"D", b"Tab").is_some());
        let again = catalog.apply(&context(), b"create table D.TAB (a int)");
        assert_eq!(again.is_err(), found);
        if found {
            effect(&mut catalog, "drop table d.tAB");
            assert_eq!(catalog.tables().count(), 0);
        }
    }
}

#[test]
fn rows_follow_create_table_select() {
    let mut catalog = Catalog::new(0);
    for (name, sql, rows) in [
        ("a", "CREATE TABLE `a` (\n  `id` int NOT NULL,\n  PRIMARY KEY (`id`)\n) START TRANSACTION", true),
        (
            "b",
            "CREATE TABLE `b` (\n  `a` int NOT NULL\n) START TRANSACTION COMMENT='x'\n/*!50100 PARTITION BY HASH (`a`)\nPARTITIONS 2 */",
            true,
        ),
        ("c", "create table c (a int) comment 'START TRANSACTION'", false),
    ] {
        // The statement in front of the rows has no transaction number, though the table is of InnoDB.
        let outcome = catalog.apply(&StatementContext { atomic: Some(!rows), ..context() }, sql.as_bytes()).unwrap();
        assert_eq!(outcome.rows_follow, rows, "{name}");
        assert_eq!(outcome.catalog.table("d", name).unwrap().engine, "InnoDB");
        catalog = outcome.catalog;
    }
    assert_eq!(catalog.table("d", "b").unwrap().partition_by.as_deref(), Some("HASH (`a`)\nPARTITIONS 2"));
    for sql in [
        "create table x select 1 as a",
        "create table x as select 1",
        "create table x (a int) select 1",
        "create table x (a int) partition by hash (a) select 1",
        "create table x (select 1)",
    ] {
        assert!(matches!(refusal(&catalog, sql), DdlError::NotSupported { .. }), "{sql}");
    }
}

#[test]
fn views_share_the_tables_names() {
    let mut catalog = with(&["create database d", "create table t (a int)"]);
    let epoch = catalog.epoch();
    assert_eq!(effect(&mut catalog, "create view v as select 1"), DdlEffect::Recorded("view"));
    assert_eq!(effect(&mut catalog, "rename table v to w"), DdlEffect::Recorded("view"));
    assert!(matches!(effect(&mut catalog, "create table if not exists w (a int)"), DdlEffect::NoEffect(_)));
    assert!(matches!(refusal(&catalog, "create table w (a int)"), DdlError::Disagrees { .. }));
    assert_eq!(catalog.epoch(), epoch);
    assert_eq!(changed(&effect(&mut catalog, "rename table w to x, t to w, x to t")).2, [1]);
    assert!(catalog.table("d", "w").is_some() && catalog.table("d", "t").is_none());
    assert_eq!(effect(&mut catalog, "drop view t"), DdlEffect::Recorded("view"));
    effect(&mut catalog, "create table t (a int)");
}

#[test]
fn what_is_refused_says_so_without_secrets() {
    let catalog = with(&["create table t (a int)"]);
    for sql in [
        "insert into t values (1)",
        "update t set a=1",
        "delete from t",
        "replace into t values (1)",
        "call p('x')",
        "load data infile 'x' into table t",
        "alter table t add a int",
        "create table u (a int) , (b int)",
        "create table u (a nonsense)",
        "create table u (a char(1) charset nonsense)",
        "nonsense",
        "create table u (a int",
    ] {
        let error = refusal(&catalog, sql);
        assert!(error.to_string().contains(sql), "{error}");
    }
    let error =
        refusal(&catalog, "create table u (a int) engine=federated connection='mysql://u:secret@h/d/t' nonsense");
    assert!(!error.to_string().contains("secret"), "{error}");
}

#[test]
fn text_of_other_clients() {
    let latin1 = StatementContext { collation_client: Some(8), ..context() };
    let catalog =
        Catalog::new(0).apply(&latin1, b"create table `\xf1` (a enum('\xe9') charset utf8mb4)").unwrap().catalog;
    assert_eq!(&*catalog.table("d", "ñ").unwrap().columns[0].ty.members[0], "é".as_bytes());
    let sjis = StatementContext { collation_client: Some(13), ..context() };
    // The second bytes are a backslash and a backtick.
    let mut catalog = Catalog::new(0);
    for sql in [
        &b"create table `\x95\x5c\x83\x60` (\x83\x5c varchar(9) charset utf8mb4 default '\x95\x5c' comment '\x83\x5c')"[..],
        b"CREATE ALGORITHM=UNDEFINED DEFINER=`root`@`localhost` SQL SECURITY DEFINER VIEW `v\xe8\xa1\xa8` AS select '\x95\x5c'",
        b"rename table `\x95\x5c\x83\x60` to d.\x95\x5c, `v\x95\x5c` to w",
        b"drop view w",
    ] {
        catalog = catalog.apply(&sjis, sql).unwrap().catalog;
    }
    let column = &catalog.table("d", "表").unwrap().columns[0];
    assert_eq!((&*column.name, &*column.comment), ("ソ", "ソ"));
    let dropped = catalog.apply(&sjis, b"DROP TABLE IF EXISTS `\x95\x5c`,`no` /* generated by server */").unwrap();
    assert!(dropped.catalog.table("d", "表").is_none());
    // A partition's value, and an expression, of which another one differs beyond ASCII only.
    let sql = b"create table p (a varchar(9) charset utf8mb4, g varchar(9) as (concat(a, '\xe9')) stored)
        partition by list columns (a) (partition `\xe9` values in ('\xe9'))";
    let catalog = Catalog::new(0).apply(&latin1, sql).unwrap().catalog;
    let table = catalog.table("d", "p").unwrap();
    assert!(format!("{:?}", table.partitioning).contains("Text(\"é\")"), "{:?}", table.partitioning);
    let other = b"alter table p modify g varchar(9) as (concat(a, '\xe8')) stored";
    let same = b"alter table p modify g varchar(9) as (concat(a, '\xe9')) stored";
    assert!(matches!(catalog.apply(&latin1, same).unwrap().effect, DdlEffect::NoEffect(_)));
    assert!(!matches!(catalog.apply(&latin1, other).map(|done| done.effect), Ok(DdlEffect::NoEffect(_))));
    // An identifier that is not UTF-8 is refused; a comment never is.
    assert!(Catalog::new(0).apply(&context(), b"create table `\xff` (a int)").is_err());
    assert!(Catalog::new(0).apply(&context(), b"create table t (a int comment '\xff') comment '\xfe'").is_ok());
}

#[test]
fn defaults_that_are_not_known_are_never_guessed() {
    let catalog = with(&["create table t (a timestamp default '2020-01-01 00:00:00', b int default (1+1), \
        c varchar(9) default 123456789e10, d datetime default '20-01-01 1', e int default null, f int default 7, \
        g datetime default now(), h char(3) charset cp1251 default 'я')"]);
    let defaults: Vec<_> =
        catalog.table("d", "t").unwrap().columns.iter().map(|column| column.default.clone()).collect();
    let open = |text: &str| ColumnDefault::Expression(text.to_owned());
    assert_eq!(
        defaults,
        [
            open("'2020-01-01 00:00:00'"),
            open("1+1"),
            open("123456789e10"),
            ColumnDefault::Image(vec![153, 165, 66, 16, 0]),
            ColumnDefault::Null,
            ColumnDefault::Image(vec![7, 0, 0, 0]),
            ColumnDefault::CurrentTimestamp,
            ColumnDefault::Image(vec![1, 0xff]),
        ]
    );
}

#[test]
fn a_table_map_that_disagrees_shows_both_sides() {
    let catalog = with(&["create table t (a int, b varchar(10))"]);
    let table = catalog.table("d", "t").unwrap();
    let (types, metadata) = table.expected_table_map();
    assert_eq!((types.as_slice(), metadata.as_slice()), (&[3, 15][..], &[40, 0][..]));
    let logged = |meta: &[u8]| {
        vec![values::ColumnType::from_table_map(3, &[]).unwrap(), values::ColumnType::from_table_map(15, meta).unwrap()]
    };
    assert_eq!(table.matches(&types, &logged(&[40, 0])), Ok(()));
    let text = table.matches(&types, &logged(&[80, 0])).unwrap_err();
    assert!(text.contains("column 2 `b`") && text.contains("0x0050") && text.contains("0x0028"), "{text}");
    assert!(table.matches(&[3], &logged(&[40, 0])[..1]).is_err());
    let mut collated = logged(&[40, 0]);
    collated[1].collation = 8;
    assert!(table.matches(&types, &collated).is_err());
}

#[test]
fn columns_change_and_rows_are_converted_or_rewritten() {
    let mut catalog = with(&["create table t (id int primary key, a int, b varchar(10))"]);
    let first = id(&catalog, "t");
    assert_eq!(changed(&effect(&mut catalog, "alter table t add c int default 7 after id, drop b")).2, [1]);
    let table = catalog.table("d", "t").unwrap();
    assert_eq!((Some(table.id), table.version, table.layout_since), (first, 2, 2));
    let sources = &table.older_layouts[0].to_next;
    let expected = [ColumnSource::Kept(0), ColumnSource::Constant(vec![7, 0, 0, 0]), ColumnSource::Kept(1)];
    assert_eq!((sources.as_slice(), table.older_layouts[0].since), (&expected[..], 0));
    // Names and defaults are not part of a layout.
    effect(&mut catalog, "alter table t rename column a to aa, alter c set default 8");
    assert_eq!(catalog.table("d", "t").unwrap().older_layouts.len(), 1);
    effect(&mut catalog, "alter table t modify aa bigint");
    let table = catalog.table("d", "t").unwrap();
    assert_eq!((table.version, table.layout_since, table.older_layouts[1].since), (4, 4, 2));
    // A stored catalog is read back unchanged.
    let kept = Catalog::from_json(&catalog.to_json().unwrap()).unwrap();
    assert_eq!(kept.table("d", "t").unwrap(), table);
    for sql in ["alter table t modify aa tinyint", "alter table t modify id bigint", "alter table t drop primary key"] {
        let mut catalog = kept.clone();
        let DdlEffect::Changed { rewritten, dropped, .. } = effect(&mut catalog, sql) else { panic!("{sql}") };
        assert_eq!((rewritten.len(), dropped.len(), rewritten[0].statement.as_str()), (1, 1, sql));
        let table = catalog.table("d", "t").unwrap();
        assert_eq!((table.version, table.layout_since, table.older_layouts.len()), (1, 0, 0), "{sql}");
    }
}

#[test]
fn too_many_layouts_cause_a_rewrite() {
    let mut catalog = with(&["create table t (id int primary key)"]);
    let first = id(&catalog, "t");
    for n in 0..32 {
        effect(&mut catalog, &format!("alter table t add c{n} int"));
        assert_eq!(id(&catalog, "t"), first);
    }
    effect(&mut catalog, "alter table t add c32 int");
    assert!(id(&catalog, "t") != first && catalog.table("d", "t").unwrap().older_layouts.is_empty());
}

/// Defaults as 9.7.4 stored them under these values of `collation_connection`.
#[test]
fn defaults_go_through_the_character_set_of_the_connection() {
    let sql = "CREATE TABLE t (a VARCHAR(20) CHARACTER SET utf8mb4 DEFAULT 'Яaß', b VARBINARY(20) DEFAULT 'Яa', \
               c VARCHAR(20) CHARACTER SET utf8mb4 DEFAULT _utf8mb4'Яaß', d VARCHAR(20) CHARACTER SET utf8mb4 DEFAULT N'Яaß', \
               e ENUM('Я','ß') CHARACTER SET utf8mb4 DEFAULT 'ß', f INT DEFAULT '12', g VARCHAR(9) CHARACTER SET utf8mb4 DEFAULT 'Я' 'ß')";
    let (latin2, latin1, utf16, binary, utf8mb3) = (2, 47, 54, 63, 33);
    for (connection, a, b, g) in [
        (None, "Яaß", [0xd0, 0xaf, b'a'].as_slice(), "Яß"),
        (Some(latin2), "?aß", b"?a", "?ß"),
        (Some(latin1), "?aß", b"?a", "?ß"),
        (Some(utf16), "Яaß", &[0x04, 0x2f, 0, b'a'], "Яß"),
        (Some(binary), "Яaß", &[0xd0, 0xaf, b'a'], "Яß"),
        (Some(utf8mb3), "Яaß", &[0xd0, 0xaf, b'a'], "Яß"),
    ] {
        let context = StatementContext { collation_connection: connection, ..context() };
        let catalog = with(&["CREATE DATABASE d"]);
        let catalog = catalog.apply(&context, sql.as_bytes()).unwrap().catalog;
        let table = catalog.table("d", "t").unwrap();
        let shown = |column: usize| match table.columns[column].omitted_value() {
            OmittedValue::Image(bytes) => bytes,
            other => panic!("{connection:?}, column {column}: {other:?}"),
        };
        assert_eq!((&shown(0)[1..], &shown(1)[1..], &shown(6)[1..]), (a.as_bytes(), b, g.as_bytes()), "{connection:?}");
        assert_eq!((&shown(2)[1..], &shown(3)[1..]), ("Яaß".as_bytes(), "Яaß".as_bytes()), "{connection:?}");
        assert_eq!((shown(4), shown(5)), (vec![2], vec![12, 0, 0, 0]), "{connection:?}");
    }
}

/// 9.7.4 shows `a` as FLOAT NOT NULL without a default, and writes 0 if an INSERT omits it.
#[test]
fn a_primary_key_takes_default_null_away() {
    let mut catalog =
        with(&["CREATE DATABASE d", "CREATE TABLE t (id INT NOT NULL PRIMARY KEY, a FLOAT DEFAULT NULL)"]);
    let omitted = |catalog: &Catalog| catalog.table("d", "t").unwrap().columns[1].omitted_value();
    assert_eq!(omitted(&catalog), OmittedValue::Null);
    for sql in ["ALTER TABLE t DROP PRIMARY KEY, ADD PRIMARY KEY (id, a)", "ALTER TABLE t DROP PRIMARY KEY"] {
        effect(&mut catalog, sql);
        assert_eq!(omitted(&catalog), OmittedValue::Image(vec![0; 4]), "{sql}");
    }
    effect(&mut catalog, "ALTER TABLE t MODIFY a FLOAT DEFAULT NULL");
    assert_eq!(omitted(&catalog), OmittedValue::Null);
}

/// Rows that nobody keeps come and go with the engine.
#[test]
fn engines_that_keep_no_rows() {
    let mut catalog =
        with(&["create table b (a int primary key) engine=blackhole", "create table i (a int primary key)"]);
    // No row is rewritten, and none of an earlier version of this program stays under the old id.
    assert_eq!(changed(&effect(&mut catalog, "alter table b add column v int")), (vec![3], vec![1], vec![]));
    let kept = effect(&mut catalog, "alter table b engine=innodb, add column g int as (a) stored");
    assert!(matches!(&kept, DdlEffect::Changed { rewritten, .. } if rewritten.is_empty()), "{kept:?}");
    assert_eq!(changed(&kept), (vec![4], vec![3], vec![]));
    assert_eq!(changed(&effect(&mut catalog, "alter table i engine=blackhole")), (vec![5], vec![2], vec![]));
    let gone = effect(&mut catalog, "alter table b discard tablespace");
    assert!(matches!(&gone, DdlEffect::Changed { rewritten, .. } if rewritten.is_empty()), "{gone:?}");
    effect(&mut catalog, "create table c (a int, foreign key (a) references b (a)) engine=blackhole");
    assert!(catalog.table("d", "c").unwrap().foreign_keys.is_empty());
}

/// A MERGE table finds its members by name. Seen on 9.7.4.
#[test]
fn merge_tables() {
    let mut catalog = with(&[
        "create table one (a int) engine=myisam",
        "create table two (a int) engine=myisam",
        "create table m (a int) engine=merge union=(one, `d`.two) insert_method=last",
        "create table e.like_m like m",
    ]);
    let members = |catalog: &Catalog, db: &str, name: &str| {
        let table = catalog.table(db, name).unwrap();
        let shown = table.members().map(|(db, name)| format!("{db}.{name}")).collect::<Vec<_>>().join(" ");
        format!("{shown}, {}", table.member_of_inserts().map_or("none".into(), |(_, name)| name))
    };
    assert_eq!(members(&catalog, "d", "m"), "d.one d.two, two");
    assert_eq!(members(&catalog, "e", "like_m"), "d.one d.two, two");
    assert_eq!(changed(&effect(&mut catalog, "truncate m")), (vec![5, 6], vec![1, 2], vec![]));
    effect(&mut catalog, "alter table m comment='x', insert_method=first");
    assert_eq!(members(&catalog, "d", "m"), "d.one d.two, one");
    effect(&mut catalog, "rename table m to e.m");
    assert_eq!(members(&catalog, "e", "m"), "e.one e.two, one");
    effect(&mut catalog, "alter table e.m union=(), insert_method=no");
    assert_eq!(members(&catalog, "e", "m"), ", none");
    assert!(matches!(effect(&mut catalog, "truncate e.m"), DdlEffect::NoEffect(_)));
    // Its rows are those of the members, wherever they are: they are copied.
    assert!(matches!(refusal(&catalog, "alter table e.like_m engine=myisam"), DdlError::NotSupported { .. }));
    effect(&mut catalog, "alter table one engine=mrg_myisam union=(two)");
    assert_eq!(members(&catalog, "d", "one"), "d.two, none");
}

/// OPTIMIZE is logged even for other engines, views and missing tables.
#[test]
fn optimize_rebuilds_definitions() {
    let table = |name: &str, engine: &str| format!("CREATE TABLE {name} (f FLOAT DEFAULT 16777217) ENGINE={engine}");
    let mut catalog = with(&["CREATE DATABASE d", &table("t", "InnoDB"), &table("m", "MyISAM"), &table("u", "InnoDB")]);
    let default = |catalog: &Catalog, table: &str| match catalog.table("d", table).unwrap().columns[0].omitted_value() {
        OmittedValue::Image(bytes) => f32::from_le_bytes(bytes.try_into().unwrap()),
        other => panic!("{other:?}"),
    };
    effect(&mut catalog, "OPTIMIZE TABLE v, t, elsewhere.x, m");
    assert_eq!(["t", "m", "u"].map(|name| default(&catalog, name)), [16_777_200.0, 16_777_216.0, 16_777_216.0]);
    assert!(matches!(effect(&mut catalog, "OPTIMIZE TABLE t"), DdlEffect::NoEffect(_)));
    assert!(matches!(effect(&mut catalog, "OPTIMIZE TABLE nothing one can read here !"), DdlEffect::NoEffect(_)));
    effect(&mut catalog, "optimize local table d.u");
    assert_eq!(default(&catalog, "u"), 16_777_200.0);
}

/// Results of 9.7.4 for each of these statements.
#[test]
fn a_rebuilt_definition_has_float_defaults_of_six_digits() {
    let default = |catalog: &Catalog, table: &str, column: usize| {
        let bytes = match catalog.table("d", table).unwrap().columns[column].omitted_value() {
            OmittedValue::Image(bytes) => bytes,
            other => panic!("{table}: {other:?}"),
        };
        match <[u8; 4]>::try_from(bytes.as_slice()) {
            Ok(float) => f64::from(f32::from_le_bytes(float)),
            Err(_) => f64::from_le_bytes(bytes.try_into().unwrap()),
        }
    };
    let columns = "a INT, f FLOAT DEFAULT 16777217, g FLOAT(12,3) DEFAULT 1234567.875, d DOUBLE DEFAULT 16777217";
    let by_key = "PARTITION BY KEY (a) PARTITIONS 2";
    let made = [
        ("", "ADD z INT, ALGORITHM=INSTANT", true),
        ("", "ADD KEY (a)", true),
        ("", "MODIFY a BIGINT", true),
        ("", "COMMENT 'x'", true),
        ("", "ALTER a SET DEFAULT 3", true),
        ("", "ALTER a SET INVISIBLE", true),
        ("", "FORCE", true),
        ("", "ORDER BY a", true),
        ("", "RENAME TO t2, COMMENT 'x'", true),
        (by_key, "REBUILD PARTITION p0", true),
        (by_key, "OPTIMIZE PARTITION p0", true),
        (by_key, "ADD PARTITION PARTITIONS 1", true),
        ("", "RENAME TO t2, LOCK=DEFAULT", false),
        ("", "DISABLE KEYS", false),
        ("", "MODIFY f FLOAT DEFAULT 16777217 AFTER a", false),
        (by_key, "TRUNCATE PARTITION p0", false),
        (by_key, "ANALYZE PARTITION p0", false),
    ];
    for (partitions, action, anew) in made {
        let mut catalog = with(&["CREATE DATABASE d", &format!("CREATE TABLE t ({columns}) {partitions}")]);
        effect(&mut catalog, &format!("ALTER TABLE t {action}"));
        let table = if action.contains("RENAME") { "t2" } else { "t" };
        assert_eq!(default(&catalog, table, 1), if anew { 16_777_200.0 } else { 16_777_216.0 }, "{action}");
        assert_eq!(
            (default(&catalog, table, 2), default(&catalog, table, 3)),
            (1_234_567.875, 16_777_217.0),
            "{action}"
        );
    }
    let mut catalog = with(&["CREATE DATABASE d", &format!("CREATE TABLE t ({columns})"), "CREATE TABLE l LIKE t"]);
    effect(&mut catalog, "RENAME TABLE t TO t2");
    assert_eq!((default(&catalog, "t2", 1), default(&catalog, "l", 1)), (16_777_216.0, 16_777_200.0));
}

/// The way in which schema tools replace a table: the quarantine follows the name, the other table keeps its id.
#[test]
fn a_rename_of_several_moves_what_is_quarantined_and_what_is_not() {
    let catalog = with(&["CREATE DATABASE d", "CREATE TABLE t (id INT PRIMARY KEY)", "CREATE TABLE t_new LIKE t"]);
    let fresh = id(&catalog, "t_new").unwrap();
    let (catalog, gone) = catalog.with_quarantined(&("d".into(), "t".into()), "planted");
    assert!(gone.is_some());
    let sql = b"RENAME TABLE t TO t_old, t_new TO t, t_old TO t_new, t_new TO `t``3`";
    let catalog = match catalog.apply_to_quarantined(&context(), sql) {
        Quarantined::Done(catalog, gone) if gone.is_empty() => catalog,
        other => panic!("{other:?}"),
    };
    assert_eq!((id(&catalog, "t"), id(&catalog, "t_new")), (Some(fresh), None));
    assert_eq!(catalog.quarantined().collect::<Vec<_>>(), [("d", "t`3", "planted")]);
    // If one rename is wrong, the whole statement is refused.
    let refused = catalog.apply_to_quarantined(&context(), b"RENAME TABLE `t``3` TO x, none TO y");
    assert!(matches!(refused, Quarantined::Refused(_)), "{refused:?}");
}

#[test]
fn what_a_primary_key_an_expression_and_a_rule_keep() {
    let mut catalog = with(&[
        "create table t (id int primary key, a int, s int as (a + 1) stored)",
        "alter table t modify id bigint, modify s int as (( `A`+1 )) stored comment 'x'",
        "create table h (a int primary key) partition by hash (a) partitions 3",
        "alter table h reorganize partition",
        "create table x (d decimal(10,3) default -1.5e2, i int default 1e1, j int default 5e-1, k int default 12345678901234567e-10)",
    ]);
    let table = catalog.table("d", "t").unwrap();
    assert!(!table.columns[0].nullable, "a primary key's column");
    let same = ColumnSource::Kept(2);
    let rewritten = |catalog: &mut Catalog, sql: &str| match effect(catalog, sql) {
        DdlEffect::Changed { rewritten, .. } => rewritten.first().map(|rewrite| rewrite.sources[2].clone()),
        other => panic!("{other:?}"),
    };
    // Rewritten because of the key, first with the same expression, then with another one.
    assert_eq!(rewritten(&mut catalog, "alter table t modify id int, modify s int as (A + 1) stored"), Some(same));
    let other = rewritten(&mut catalog, "alter table t modify s int as (a + 2) stored");
    assert!(matches!(other, Some(ColumnSource::Unknown { .. })), "{other:?}");
    let partitions = &catalog.table("d", "h").unwrap().partitioning.as_ref().unwrap().partitions;
    assert_eq!(partitions.iter().map(|partition| partition.name.as_str()).collect::<Vec<_>>(), ["p0"]);
    let defaults: Vec<_> = catalog.table("d", "x").unwrap().columns.iter().map(|column| &column.default).collect();
    let image = |bytes: &[u8]| ColumnDefault::Image(bytes.to_vec());
    // A double is rounded half to even.
    let wanted: [&[u8]; 4] =
        [&[0x7f, 0xff, 0xff, 0x69, 0xff, 0xff], &[10, 0, 0, 0], &[0; 4], &1_234_568i32.to_le_bytes()];
    assert_eq!(defaults, wanted.map(image).iter().collect::<Vec<_>>());
}

#[test]
fn several_tables_of_which_some_are_not_known() {
    let catalog = with(&["create table a (x int)", "create table b (y int)", "create table c (z int)"]);
    let (catalog, gone) = catalog.with_quarantined(&("d".into(), "a".into()), "for a test");
    assert_eq!(gone, Some(TableId(1)));
    let done = |catalog: &Catalog, sql: &str| match catalog.apply_to_quarantined(&context(), sql.as_bytes()) {
        catalog::Quarantined::Done(catalog, gone) => (catalog, gone),
        other => panic!("{sql}: {other:?}"),
    };
    let names = |catalog: &Catalog| catalog.quarantined().map(|(_, name, _)| name.to_owned()).collect::<Vec<_>>();
    let (swapped, gone) = done(&catalog, "rename table a to tmp, b to a, tmp to b");
    assert_eq!((names(&swapped), gone), (vec!["b".to_owned()], vec![]));
    assert_eq!(swapped.table("d", "a").unwrap().columns[0].name, "y");
    let (moved, _) = done(&catalog, "alter table a add q int, rename to e.f");
    assert_eq!(names(&moved), ["f"]);
    let (exchanged, gone) = done(&catalog, "alter table c exchange partition p with table a");
    assert_eq!((names(&exchanged), gone), (vec!["a".to_owned(), "c".to_owned()], vec![TableId(3)]));
    assert!(exchanged.table("d", "b").is_some());
    // If the target exists, the source would have failed; so the statement is refused.
    let refused = catalog.apply_to_quarantined(&context(), b"rename table a to tmp, b to c");
    assert!(matches!(refused, catalog::Quarantined::Refused(_)), "{refused:?}");
    // Without any known table, after a statement that is not understood.
    let named = catalog::Named::of(&context(), b"alter table b frobnicate, rename to g");
    let (unknown, gone) = catalog.with_unknown(&named, "for a test").unwrap();
    assert_eq!((names(&unknown), gone), (vec!["a".to_owned(), "g".to_owned()], vec![TableId(2)]));
    assert!(catalog.with_unknown(&catalog::Named::Other, "").is_none());
    // Only an ALTER TABLE that is not understood is refused for a name that it contains.
    let refused = catalog.apply_to_quarantined(&context(), b"/* x */ alter table c exchange partition p with a");
    assert!(matches!(refused, catalog::Quarantined::Refused(_)), "{refused:?}");
    for sql in [
        r"ALTER USER 'd'@'%' IDENTIFIED WITH 'caching_sha2_password' AS '$A$005$x=a\nb'",
        "ALTER DEFINER=`d`@`%` VIEW v AS SELECT x FROM a",
        "CREATE PROCEDURE p () ALTER TABLE a ADD y INT",
    ] {
        let outcome = catalog.apply_to_quarantined(&context(), sql.as_bytes());
        assert!(matches!(outcome, catalog::Quarantined::NotConcerned), "{sql}: {outcome:?}");
    }
}

#[test]
fn what_the_log_does_not_hold_is_passed_over_or_waits_for_its_copy() {
    let catalog = with(&["create database d", "create table a (x int)", "create table b (y int)"]);
    let found = Found {
        databases: vec![("e".into(), Some(8)), ("d".into(), Some(8))],
        tables: vec![("d".into(), "a".into()), ("e".into(), "old".into())],
        gone: Vec::new(),
    };
    let with_found = catalog.with_found(&found);
    assert_eq!(with_found.missing().collect::<Vec<_>>(), [("e", "old")]);
    // What is here stays.
    assert_eq!((id(&with_found, "a"), with_found.database("e")), (id(&catalog, "a"), Some(("e", Some(8)))));
    assert_eq!(with_found.database("d"), catalog.database("d"));
    assert!(with_found.epoch() > catalog.epoch());
    let gone = Found { gone: vec![("e".into(), "old".into())], ..Found::default() };
    assert_eq!(with_found.with_found(&gone).missing().count(), 0);
    let (other, _) = with_found.with_quarantined(&("e".into(), "old".into()), "another reason");
    assert!(other.with_found(&gone).is_quarantined("e", "old"));

    let after = |catalog: &Catalog, sql: &str| {
        let next = catalog.with_missing(&context(), &Named::of(&context(), sql.as_bytes()));
        next.map(|(next, gone)| {
            assert!(next.epoch() > catalog.epoch(), "{sql}");
            assert_eq!(catalog.check_dropped(&next, &gone), Ok(()), "{sql}");
            let tables: Vec<String> = next.tables().map(|table| table.name.clone()).collect();
            (tables.join(" "), next.quarantined().map(|(db, name, _)| format!("{db}.{name}")).collect::<String>())
        })
    };
    let is = |tables: &str, waiting: &str| Some((tables.to_owned(), waiting.to_owned()));
    assert_eq!(after(&with_found, "drop table a, nowhere"), is("b", "e.old"));
    assert_eq!(after(&with_found, "drop table e.old, nowhere"), is("a b", ""));
    assert_eq!(after(&with_found, "drop database nowhere"), is("a b", "e.old"));
    assert_eq!(after(&with_found, "rename table nowhere to e.here, a to c"), is("b c", "e.heree.old"));
    assert_eq!(after(&with_found, "rename table e.old to tmp, nowhere to e.old"), is("a b", "d.tmpe.old"));
    for sql in ["drop table a", "drop database e", "rename table a to c", "alter table nowhere add z int", "flush logs"]
    {
        assert_eq!(after(&with_found, sql), None, "{sql}");
    }
}

/// A catalog with the table `r` by RANGE, which may hold rows outside their partition's rule.
fn with_misplaced_rows(columns: &str) -> Catalog {
    let by = "PARTITION BY RANGE (a) (PARTITION p VALUES LESS THAN (5), PARTITION q VALUES LESS THAN MAXVALUE)";
    let catalog = with(&["create database d", &format!("create table r ({columns}) {by}"), "create table x (a int)"]);
    let table = catalog.table("d", "r").unwrap().with_misplaced_rows();
    catalog.with_copied(&std::sync::Arc::new(table)).0
}

/// Equal keys may lie in two partitions, which only whole images tell apart.
#[test]
fn misplaced_rows_make_the_whole_image_the_identity() {
    let mut catalog = with_misplaced_rows("a int primary key, v int");
    let found = |catalog: &Catalog, name: &str| {
        let table = catalog.table("d", name).unwrap();
        assert_eq!(table.misplaced_rows, table.identity_key().is_none());
        (table.misplaced_rows, table.identity.clone())
    };
    assert_eq!(found(&catalog, "r"), (true, Identity::WholeImage));
    for sql in [
        "alter table r add column w int",
        "alter table r add key (v), force",
        "alter table r rename column v to n",
        "rename table r to s",
        "alter table s rename to r, modify n bigint",
        "alter table r add partition (partition z values less than maxvalue)",
        "alter table r reorganize partition p into (partition p values less than (3), partition o values less than (5))",
    ] {
        effect(&mut catalog, sql);
        let name = if sql.starts_with("rename") { "s" } else { "r" };
        assert_eq!(found(&catalog, name), (true, Identity::WholeImage), "{sql}");
    }
    let catalog = Catalog::from_json(&catalog.to_json().unwrap()).unwrap();
    assert_eq!(found(&catalog, "r"), (true, Identity::WholeImage), "stored and read");
    // What leaves no row, or places all of them.
    for sql in [
        "truncate table r",
        "alter table r truncate partition all",
        "alter table r remove partitioning",
        "alter table r partition by hash (a) partitions 3",
    ] {
        let next = catalog.apply(&context(), sql.as_bytes()).unwrap();
        assert_eq!(catalog.check(&next), Ok(()), "{sql}");
        assert_eq!(found(&next.catalog, "r"), (false, Identity::Columns(vec![0])), "{sql}");
        let DdlEffect::Changed { created, .. } = next.effect else { panic!("{sql}") };
        assert_ne!(created[0].id, catalog.table("d", "r").unwrap().id, "{sql}");
    }
    let next = catalog.apply(&context(), b"create table alike like r").unwrap().catalog;
    assert_eq!(found(&next, "alike"), (false, Identity::Columns(vec![0])));
}

/// Which rows lie in a partition is not known then: a copy brings what is left.
#[test]
fn changes_of_partitions_with_misplaced_rows_are_refused() {
    let mut catalog = with_misplaced_rows("a int primary key, v int");
    for sql in [
        "alter table r drop partition p",
        "alter table r truncate partition p",
        "alter table r exchange partition p with table x",
        "alter table r exchange partition p with table x without validation",
    ] {
        let error = refusal(&catalog, sql).to_string();
        assert!(error.contains("outside their partition's rule"), "{sql}: {error}");
    }
    // Without a key the identity stays.
    catalog = with_misplaced_rows("a int, v int");
    effect(&mut catalog, "alter table r remove partitioning");
    let table = catalog.table("d", "r").unwrap();
    assert_eq!((table.misplaced_rows, &table.identity), (false, &Identity::WholeImage));
}

#[test]
fn rows_exchanged_without_validation_are_checked() {
    let by = "PARTITION BY RANGE (a) (PARTITION p VALUES LESS THAN (5), PARTITION q VALUES LESS THAN MAXVALUE)";
    for (validation, checked) in [("", false), ("WITH VALIDATION", false), ("WITHOUT VALIDATION", true)] {
        let table = format!("create table r (a int primary key) {by}");
        let mut catalog = with(&["create database d", &table, "create table x (a int primary key)"]);
        let sql = format!("alter table r exchange partition q with table x {validation}");
        let DdlEffect::Changed { rewritten, .. } = effect(&mut catalog, &sql) else { panic!("{sql}") };
        let within: Vec<Option<&[usize]>> =
            rewritten.iter().map(|rewrite| rewrite.within.as_ref().map(|choice| &*choice.chosen)).collect();
        assert_eq!(within, [None, None, checked.then_some(&[1][..])], "{sql}");
    }
}

/// Whether an OPTIMIZE was carried out shows in the default of the FLOAT, as seen on a 9.7.4.
#[test]
fn optimize_is_refused_as_the_server_refuses_a_default() {
    use catalog::sql_mode::{
        ALLOW_INVALID_DATES, NO_ZERO_DATE, NO_ZERO_IN_DATE, STRICT_ALL_TABLES, STRICT_TRANS_TABLES,
    };
    let strict = STRICT_TRANS_TABLES;
    for (ty, default, mode, carried_out) in [
        ("DATE", "2024-02-30", 0, false),
        ("DATE", "2024-02-30", strict, false),
        ("DATE", "2024-02-29", strict, true),
        ("DATE", "0000-00-00", 0, true),
        ("DATE", "0000-00-00", NO_ZERO_DATE, true),
        ("DATE", "0000-00-00", NO_ZERO_DATE | strict, false),
        ("DATE", "0000-00-00", NO_ZERO_IN_DATE | strict, true),
        ("DATETIME", "0000-00-00", NO_ZERO_DATE | STRICT_ALL_TABLES, false),
        ("TIMESTAMP NULL", "0000-00-00", NO_ZERO_DATE | strict, false),
        ("DATETIME", "2024-00-10", NO_ZERO_IN_DATE, true),
        ("DATETIME", "2024-00-10", NO_ZERO_IN_DATE | strict, false),
        ("DATE", "2024-00-10", NO_ZERO_DATE | strict, true),
        ("DATETIME", "2024-00-10", STRICT_ALL_TABLES, true),
        ("DATE", "2024-02-00", 0, true),
        ("DATETIME(3)", "2024-04-31", ALLOW_INVALID_DATES | strict, true),
    ] {
        let apply = |catalog: &Catalog, sql_mode, sql: &str| {
            let context = StatementContext { default_db: "d".to_owned(), sql_mode, ..StatementContext::default() };
            catalog.apply(&context, sql.as_bytes()).unwrap_or_else(|error| panic!("{sql}: {error}")).catalog
        };
        let mut catalog = Catalog::new(0);
        for sql in [
            "CREATE DATABASE d",
            &format!("CREATE TABLE t (id INT, c FLOAT, d {ty} DEFAULT '{default}')"),
            "ALTER TABLE t ALTER c SET DEFAULT 16777217",
        ] {
            catalog = apply(&catalog, ALLOW_INVALID_DATES, sql);
        }
        let default_of = |catalog: &Catalog| catalog.table("d", "t").unwrap().columns[1].default.clone();
        let (before, after) = (default_of(&catalog), default_of(&apply(&catalog, mode, "OPTIMIZE TABLE t")));
        assert_eq!(before != after, carried_out, "{ty} {default} {mode:#x}");
    }
}
