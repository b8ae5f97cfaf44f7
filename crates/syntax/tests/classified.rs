//! The classification of statements.

use proptest::prelude::*;
use syntax::{Access, Classified, Function, Inexact, Keyword, Settings, State, StatementKind as S, classify, sql_mode};
use testkit::Random;

use crate::grammar;

fn one(text: &str) -> Classified {
    let mut all = classify(text.as_bytes(), Settings::default());
    assert_eq!(all.len(), 1, "{text}");
    all.remove(0)
}

/// `r` or `w` before each table.
fn tables(text: &str) -> Vec<String> {
    let name = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    let shown = |table: &syntax::TableUse| {
        let access = if table.access == Access::Write { "w" } else { "r" };
        let schema = table.schema.as_ref().map(|schema| name(schema) + ".").unwrap_or_default();
        format!("{access} {schema}{}", name(&table.table))
    };
    one(text).tables.iter().map(shown).collect()
}

#[test]
fn kinds_are_told_by_the_first_words() {
    for (text, kind) in [
        ("", S::Empty),
        ("/* nothing */ -- here", S::Empty),
        ("(((select 1)))", S::Select),
        ("table t", S::Select),
        ("values row(1)", S::Select),
        ("with a as (select 1) select 1", S::Select),
        ("with a as (select 1) update t set a = 1", S::Update),
        ("with a as (select 1 for update) delete from t", S::Delete),
        ("insert into t values (1)", S::Insert),
        ("replace t set a = 1", S::Replace),
        ("create table t (a int)", S::Ddl),
        ("drop view v", S::Ddl),
        ("create definer=`a`@`b` procedure p() begin end", S::StoredProgram),
        ("create or replace view v as select 1", S::Ddl),
        ("drop user u", S::Account),
        ("grant all on *.* to u", S::Account),
        ("set @a = 1", S::Set),
        ("set names utf8mb4", S::SetNames),
        ("set session transaction read only", S::SetTransaction),
        ("set password = 'x'", S::Account),
        ("set role all", S::SetRole),
        ("set default role all to u", S::Account),
        ("call p()", S::Call),
        ("start transaction read only", S::Begin),
        ("start replica", S::Administration),
        ("rollback work to savepoint a", S::RollbackTo),
        ("rollback", S::Rollback),
        ("xa start 'a'", S::Xa),
        ("drop prepare s", S::Deallocate),
        ("lock tables t read", S::LockTables),
        ("lock instance for backup", S::Administration),
        ("load data infile 'x' into table t", S::Load),
        ("load index into cache t", S::TableMaintenance),
        ("desc t", S::Explain),
        ("get diagnostics @a = number", S::Diagnostics),
        ("selec 1", S::Unknown),
    ] {
        assert_eq!(one(text).kind, kind, "{text}");
    }
}

#[test]
fn tables_are_those_that_are_named() {
    for (text, expected) in [
        ("select * from t join d.u on t.a = u.a where a in (select b from v)", &["r t", "r d.u", "r v"][..]),
        ("with c as (select * from t) select * from c", &["r t"]),
        ("select extract(year from a), trim(both 'x' from b) from t", &["r t"]),
        ("insert into d.t (a, b) select c, f(d) from u, v", &["w d.t", "r u", "r v"]),
        ("insert t values (1) on duplicate key update a = (select 1 from u)", &["w t", "r u"]),
        ("replace low_priority into t values (1)", &["w t"]),
        ("update t, d.u set a = 1 where b = (select 1 from v)", &["w t", "w d.u", "r v"]),
        ("update t join u on a = b set c = 1", &["w t", "w u"]),
        ("delete from t where a in (select b from u)", &["w t", "r u"]),
        ("delete t, u.* from t join u", &["w t", "w u"]),
        ("delete from t using t, u", &["w t", "w u"]),
        ("drop table if exists a, d.b", &["w a", "w d.b"]),
        ("rename table a to b, c to d", &["w a", "w b", "w c", "w d"]),
        ("create table t like u", &["w t", "r u"]),
        ("create table t (a int, foreign key (a) references p (a)) select * from s", &["w t", "r p", "r s"]),
        ("alter table t add column a int", &["w t"]),
        ("create index i on t (a)", &["w t"]),
        ("truncate table t", &["w t"]),
        ("truncate t", &["w t"]),
        ("lock tables a read, d.b as c write", &["w a", "w d.b"]),
        ("load data infile 'x' into table d.t (@a, b)", &["w d.t"]),
        ("show create table d.t", &["r d.t"]),
        ("show columns from t from d", &["r d.t"]),
        ("show tables from d", &[]),
        ("describe d.t", &["r d.t"]),
        ("explain select * from t", &["r t"]),
        ("handler t open", &["r t"]),
        ("optimize table a, b", &["w a", "w b"]),
        ("set @a = (select max(b) from t)", &["r t"]),
        ("call p((select 1 from t))", &["r t"]),
        ("do (select 1 from t)", &["r t"]),
    ] {
        assert_eq!(tables(text), expected, "{text}");
    }
}

#[test]
fn only_what_is_proved_does_not_write() {
    for text in [
        "select 1",
        "select a, abs(b), count(*) from t where c = ?",
        "select @a := 1",
        "select 1 into @a",
        "select get_lock('a', 1)",
        "show tables",
        "use d",
        "begin",
        "commit",
        "set @a = 1",
        "set names utf8mb4",
        "set session sql_mode = ''",
        "explain update t set a = 1",
        "lock tables t read",
        "do sleep(1)",
        "",
    ] {
        assert!(!one(text).may_write, "{text}");
    }
    for text in [
        "select f(1)",
        "select d.f(1)",
        "select `abs2`(1)",
        "select md5(1)",
        "select count (a)",
        "select 1 into outfile 'x'",
        "select 1 from",
        "select 'a",
        "set global a = 1",
        "set persist a = 1",
        "set @@global.a = 1",
        "set @a = f(1)",
        "do f(1)",
        "insert into t values (1)",
        "call p()",
        "create table t (a int)",
        "execute s",
        "explain analyze select 1",
        "explain select f(1)",
        "lock tables t write",
        "kill 1",
        "flush tables",
        "something new",
        "xa commit 'a'",
    ] {
        assert!(one(text).may_write, "{text}");
    }
    let unknown = Settings::new(0, 90_704, "klingon");
    assert!(classify(b"select 1", unknown)[0].may_write);
    assert!(classify(b"select 1", unknown)[0].inexact.has(Inexact::CHARACTER_SET));
}

#[test]
fn functions_variables_and_state_are_told() {
    let found = one("select f(abs(@a)), d.g(), @b := last_insert_id(5), @@global.X, get_lock('l', 1) for update");
    assert_eq!(found.unknown_functions, [b"f".to_vec(), b"d.g".to_vec()]);
    assert_eq!(found.functions, [Function::Abs, Function::LastInsertId, Function::GetLock]);
    assert_eq!(found.user_variables_read, [b"a".to_vec()]);
    assert_eq!(found.user_variables_set, [b"b".to_vec()]);
    let system = &found.system_variables[0];
    assert_eq!((system.scope, system.name.as_slice(), system.set), (Some(Keyword::Global), &b"x"[..], false));
    assert!(found.locks_rows && found.state.has(State::NAMED_LOCKS) && found.state.has(State::LAST_INSERT_ID));
    assert!(found.state.has(State::STORED_CODE) && found.state.has(State::USER_VARIABLES));

    let found = one("set @a = @b, session sql_mode = concat(@@sql_mode, 'x'), global c = 1, @@d = 2, autocommit = 0");
    assert_eq!(found.user_variables_set, [b"a".to_vec()]);
    assert_eq!(found.user_variables_read, [b"b".to_vec()]);
    let set: Vec<_> = found.system_variables.iter().filter(|one| one.set).map(|one| one.name.as_slice()).collect();
    assert_eq!(set, [&b"sql_mode"[..], b"c", b"d", b"autocommit"]);
    assert!(
        found.state.has(State::SQL_MODE) && found.state.has(State::TRANSACTION) && found.state.has(State::VARIABLES)
    );

    let found = one("call d.p(@a, abs(1), @b)");
    assert_eq!(found.unknown_functions, [b"d.p".to_vec()]);
    assert_eq!(found.user_variables_set, [b"a".to_vec(), b"b".to_vec()]);

    let found = one("insert into t (a, b) values (abs(1), f(2), ?), ('x', now(), default(a))");
    assert_eq!(found.unknown_functions, [b"f".to_vec()]);
    assert_eq!((found.parameters, found.literals.len()), (1, 3));

    assert!(one("create temporary table t (a int)").state.has(State::TEMPORARY_TABLES));
    assert!(one("set transaction read only").state.has(State::NEXT_TRANSACTION));
    assert!(one("select sql_calc_found_rows a from t").state.has(State::FOUND_ROWS));
    assert!(one("update t set a = 1 where b in (select c from u for share)").locks_rows);
    assert_eq!(one("select /*+ MAX_EXECUTION_TIME(1) */ 1").hints.len(), 1);
    assert!(one("select 1 into @a").into_variables && one("select 1 into dumpfile 'x'").into_file);
}

#[test]
fn several_statements_are_split_as_the_server_splits_them() {
    let spans = |text: &str, settings: Settings| {
        let all = classify(text.as_bytes(), settings);
        all.iter().map(|one| String::from_utf8(one.span.of(text.as_bytes()).to_vec()).unwrap()).collect::<Vec<_>>()
    };
    let plain = Settings::default();
    assert_eq!(spans("select 1; select ';' ;; -- x;\n begin ; ", plain), ["select 1", "select ';'", "begin"]);
    assert_eq!(spans("", plain), [""]);
    assert_eq!(spans(";", plain), [""]);
    let backslash = r"select 'a\'; select 2; -- '";
    assert_eq!(spans(backslash, plain).len(), 1);
    assert_eq!(spans(backslash, Settings::new(sql_mode::NO_BACKSLASH_ESCAPES, 90_704, "utf8mb4")).len(), 2);
    assert_eq!(spans("select 1 /*!99999 ; select 2 */ ; select 3", plain).len(), 2);
    assert_eq!(spans("select 1 /*!50000 ; select 2 */", plain).len(), 2);

    let program = classify(b"create procedure p() begin select 1; select 2; end", plain);
    assert!(program.len() == 1 && program[0].inexact.has(Inexact::PROGRAM));
    let simple = classify(b"create procedure p() select 1;", plain);
    assert!(simple.len() == 1 && simple[0].inexact.is_empty());
    let created = classify(b"create table `trigger` (a int); select 1", plain);
    assert_eq!(created.len(), 2);

    let modes = classify(b"set sql_mode = 'ansi_quotes'; select \"a\"", plain);
    assert!(modes[0].inexact.is_empty() && modes[1].inexact.has(Inexact::MODE_CHANGES));
    assert!(classify(b"select /*!1*/", plain)[0].inexact.has(Inexact::VERSION_COMMENT));
    assert!(classify(b"select 'a", plain)[0].inexact.has(Inexact::NO_END));
    assert!(classify(b"select a from", plain)[0].inexact.has(Inexact::SYNTAX));
}

/// Whatever the bytes are: each statement within the text, after the one before it.
fn holds(text: &[u8], settings: Settings) {
    let all = classify(text, settings);
    assert!(!all.is_empty());
    let mut before = 0;
    for one in &all {
        assert!(one.span.start >= before && one.span.end >= one.span.start);
        before = one.span.end;
        assert!(usize::try_from(before).unwrap() <= text.len());
        assert!(one.may_write || one.unknown_functions.is_empty());
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn any_bytes_are_classified(text in prop::collection::vec(any::<u8>(), 0..200), mode in any::<u64>()) {
        for charset in ["utf8mb4", "gbk", "sjis", "latin1", "klingon"] {
            holds(&text, Settings::new(mode, 90_704, charset));
        }
    }

    #[test]
    fn mutated_statements_are_classified(seed in any::<u64>()) {
        let mut random = Random::new(seed);
        let drawn = grammar::statement(&mut random);
        let text = grammar::mutated(&mut random, &drawn).join(" ");
        holds(text.as_bytes(), Settings::default());
    }
}
