//! Statements and what they are parsed as.

use proptest::prelude::*;

use super::*;
use crate::ast::{AccessMode, Completion, Expression, Limit, NewValue, Scope, Show, Target};
use crate::listing::Choice;
use crate::orders::{ReplicaOrder, ThreadOrder, UntilText};

fn charsets() -> Charsets {
    Charsets::of_login(255).unwrap()
}

fn parsed(sql: &str) -> Parsed {
    parse(sql.as_bytes(), 0, &charsets()).unwrap_or_else(|error| panic!("{sql}: {error}"))
}

fn refused(sql: &str) -> SqlError {
    parse(sql.as_bytes(), 0, &charsets()).unwrap_err()
}

fn items(sql: &str) -> Vec<crate::Item> {
    match parsed(sql).statement {
        Statement::Select(select) => select.items,
        other => panic!("{sql}: {other:?}"),
    }
}

#[test]
fn items_have_aliases_and_places() {
    let sql = "select  1 /* x */ , 'a' 'b' AS c, @@Session.autocommit d, version() 'e f' from dual";
    let items = items(sql);
    assert_eq!(&sql[items[0].span.clone()], "1");
    assert_eq!(items[1].expression, Expression::Text { bytes: b"ab".to_vec(), first_len: 1, introducer: None });
    assert_eq!(items[1].alias.as_deref(), Some(&b"c"[..]));
    assert_eq!(
        items[2].expression,
        Expression::Variable { scope: Some(Scope::Session), name: "autocommit".to_owned() }
    );
    assert_eq!(items[3].alias.as_deref(), Some(&b"e f"[..]));
}

#[test]
fn transactions() {
    let begin = |consistent, access| Statement::Begin { consistent, access };
    for (sql, wanted) in [
        ("BEGIN", begin(false, None)),
        ("begin work;", begin(false, None)),
        ("START TRANSACTION", begin(false, None)),
        ("START TRANSACTION READ ONLY", begin(false, Some(AccessMode::ReadOnly))),
        ("start transaction with consistent snapshot, read only", begin(true, Some(AccessMode::ReadOnly))),
        ("start transaction read write", begin(false, Some(AccessMode::ReadWrite))),
        ("COMMIT AND CHAIN", Statement::Commit(Completion { chain: true, release: false })),
        ("rollback and no chain no release", Statement::Rollback(Completion::default())),
        ("ROLLBACK WORK TO SAVEPOINT a", Statement::RollbackTo(b"a".to_vec())),
        ("rollback to `b c`", Statement::RollbackTo(b"b c".to_vec())),
        ("RELEASE SAVEPOINT a", Statement::Release(b"a".to_vec())),
    ] {
        assert_eq!(parsed(sql).statement, wanted, "{sql}");
    }
    for sql in ["commit and chain release", "start transaction read only, read write", "begin x", "commit to a"] {
        assert_eq!(refused(sql).code, 1064, "{sql}");
    }
}

#[test]
fn assignments() {
    let Statement::Set(set) = parsed("SET NAMES 'utf8mb4' COLLATE utf8mb4_bin, @@session.autocommit := ON").statement
    else {
        panic!()
    };
    assert_eq!(set[0].target, Target::Names { collation: Some("utf8mb4_bin".to_owned()) });
    assert_eq!(set[1].value, NewValue::Word("ON".to_owned()));
    let Statement::Set(set) = parsed("set global x = DEFAULT, y = 1, character_set_results = NULL").statement else {
        panic!()
    };
    assert_eq!(set[0].target, Target::Variable { scope: Some(Scope::Global), name: "x".to_owned() });
    assert_eq!(set[2].value, NewValue::Expression(Expression::Null));
    assert!(matches!(
        parsed("set session transaction isolation level read committed, read only").statement,
        Statement::SetTransaction { scope: Some(Scope::Session), .. }
    ));
}

#[test]
fn what_follows_a_semicolon_is_the_next_statement() {
    for (sql, token) in [
        ("select 1; select 2", Some(10)),
        ("select 1; ; -- x\n;", Some(10)),
        ("select 1; /* x */ 'y", Some(18)),
        ("select 1; /* x */ ;", None),
        ("select 1;\0", None),
    ] {
        assert_eq!(parsed(sql).next, Some(Next { at: 9, token }), "{sql}");
    }
    for sql in ["select 1;", "select 1; ;\n;", "select 1", "select 1 -- ; select 2"] {
        assert_eq!(parsed(sql).next, None, "{sql}");
    }
    for sql in [" /* x */ ", "# x", "-- x;", "/*!99999 x */ ;", "/* x */\0"] {
        assert_eq!(parsed(sql).statement, Statement::Empty, "{sql}");
    }
    for sql in ["", " ;", "; ;\n", "\0", " \0"] {
        assert_eq!(refused(sql).code, 1065, "{sql}");
    }
    for (sql, near) in [("foo ; ", "'foo'"), (" ;select 1; ", "';select 1'"), ("/* x */ ;-- y", "';-- y'")] {
        let text = refused(sql).message;
        assert!(text.ends_with(&format!("near {near} at line 1")), "{text}");
    }
}

/// Numbers of the warnings that a text gets when it is parsed, whether it can be parsed or not.
fn warned(sql: &str) -> Vec<u16> {
    let warnings = match parse_within(sql.as_bytes(), 0, &charsets(), &Purse::default()) {
        Ok(parsed) => parsed.warnings,
        Err(unparsed) => unparsed.warnings,
    };
    warnings.iter().map(|warning| warning.code).collect()
}

#[test]
fn version_comments_are_read_as_by_a_9_7() {
    let numbers = |sql: &str| -> Vec<Expression> { items(sql).into_iter().map(|item| item.expression).collect() };
    let is = |numbers: &[&str]| -> Vec<Expression> {
        numbers.iter().map(|number| Expression::Number((*number).to_owned())).collect()
    };
    for (sql, wanted, codes) in [
        ("select 1 /*!40101, 2*/", &["1", "2"][..], &[4164][..]),
        ("select 1 /*!40101 , 2*/, 3", &["1", "2", "3"], &[]),
        ("select /*!401012*/", &["2"], &[4164]),
        ("select /*!0401012*/", &["12"], &[4164]),
        ("select /*!040101 2*/", &["2"], &[]),
        ("select 1 /*!99999, 2*/", &["1"], &[4164]),
        ("select 1 /*!90704 , 2*/", &["1", "2"], &[]),
        ("select 1 /*!90705 , 2*/", &["1"], &[]),
        ("select 1 /*!999999 , 2*/", &["1"], &[]),
        ("select 1 /*!100000 , 2*/", &["1"], &[]),
        ("select 1 /*! , 2 /*! , 3 */", &["1", "2", "3"], &[]),
        ("select 1 /*! , 2 /*!99999, 3 */ , 4 */", &["1", "2", "4"], &[4164]),
        ("select 1 /*! , 2 /* a */ /* b */ , 3 */", &["1", "2", "3"], &[1681, 1681]),
        ("select 1 /*!99999 , 2 /* a */ , /* b */ , 3 */", &["1"], &[1681, 1681]),
        ("select 1 /*!99999 , 2 /*/ a */ , 3 */", &["1"], &[1681]),
        ("select 1 /*! , 2 # */\n-- */\n*/", &["1", "2"], &[]),
        ("select 1 /* /*!40101, 2*/ -- /*!40101, 3*/\n# /*!40101, 4*/", &["1"], &[]),
        ("select 1 /*!40101\u{a0}, 2*/", &[], &[4164]),
    ] {
        assert_eq!(warned(sql), codes, "{sql}");
        if !wanted.is_empty() {
            assert_eq!(numbers(sql), is(wanted), "{sql}");
        }
    }
    for (sql, near) in [
        ("select 1 /*!401010, 2*/", "0, 2*/"),
        ("select 1 /*!100000, 2*/", "0, 2*/"),
        ("select 1 /*!40101, 2", ""),
        ("select 1 /*!40101", ""),
        ("select 1 /*!99999,", "/*!99999,"),
        ("select 1 /*!99999 /* x */", "/*!99999 /* x */"),
        ("select 1 /*! , 2 /*! , 3 */ */", "/"),
        ("select 1 /*!4010, 2*/", "4010, 2*/"),
        ("select 1 /*!40101; select 2*/", " select 2*/"),
    ] {
        let text = refused(sql).message;
        assert!(text.ends_with(&format!("near '{near}' at line 1")), "{text}");
    }
    let names: Vec<_> = ["select 1 /*!40101 + 1*/", "select 1 /*!99999 x */ + /* y */ 2", "select 1 /* y */ + 2"]
        .map(|sql| String::from_utf8_lossy(items(sql)[0].text(sql.as_bytes())).into_owned())
        .into();
    assert_eq!(names, ["1  + 1", "1  + /* y */ 2", "1 /* y */ + 2"]);
    // The byte is a blank in latin1.
    let latin1 = Charsets::of_login(8).unwrap();
    assert_eq!(parse(b"select 1 /*!40101\xa0, 2*/", 0, &latin1).unwrap().warnings, []);
}

#[test]
fn warnings_stand_in_mysqls_order() {
    for (sql, codes) in [
        ("select @@profiling, 1 as full", &[4119, 1287][..]),
        ("select @@profiling, @@nonsense, @@binlog_format", &[1287]),
        ("select @@nonsense, @@profiling", &[]),
        ("select @@session.slave_net_timeout, @@profiling", &[]),
        ("select @@profiling from t where @@binlog_format = 1 order by @@init_slave", &[1287, 1287, 1287]),
        ("select @@profiling foo bar", &[]),
        ("select sql_no_cache sql_no_cache 1 as full bar", &[1681, 1681, 4119]),
        ("set @x = @@profiling, nonsense = @@binlog_format, @y = @@profiling", &[1287, 1287]),
        ("set names utf8 collate utf8_bin, @x = @@profiling", &[3719, 3778, 1287]),
        ("set names utf8 foo", &[3719]),
        ("select 1 && 2 || !3, _macce'x' /*!40101, 1*/", &[1287, 1287, 1287, 1287, 4164]),
        ("select '&&', @a, profiling, @profiling", &[]),
        ("show variables where value = @@profiling", &[1287]),
        ("select found_rows(), `FOUND_ROWS`(), row_count()", &[1287, 1287]),
        ("kill @@profiling", &[1287]),
        ("do @@profiling", &[1287]),
        ("select 1 /*!40101, 2*/; select 3 /*!40101, 4*/", &[4164]),
    ] {
        assert_eq!(warned(sql), codes, "{sql}");
    }
    let many = |one: &str| warned(&format!("select {}1", one.repeat(3_000))).len();
    assert_eq!([many("@@profiling, "), many("1 as full, "), many("1 /*!40101,*/")], [1024; 3]);
}

/// What an expression is, with brackets around what belongs together.
fn shown(expression: &Expression) -> String {
    let all = |list: &[Expression]| list.iter().map(shown).collect::<Vec<_>>().join(",");
    match expression {
        Expression::Number(digits) => digits.clone(),
        Expression::Negative(inner) => format!("-{}", shown(inner)),
        Expression::Compare { operator, sides } => {
            format!("({}{}{})", shown(&sides.0), operator.sign(), shown(&sides.1))
        }
        Expression::And(list) => format!("(AND {})", all(list)),
        Expression::Chain { first, rest } => {
            rest.iter().fold(shown(first), |left, (operator, right)| format!("({left}{operator}{})", shown(right)))
        }
        Expression::In { value, list, negated } => {
            format!("({} {}IN {})", shown(value), if *negated { "NOT " } else { "" }, all(list))
        }
        Expression::Between { value, bounds, .. } => {
            format!("({} BETWEEN {} {})", shown(value), shown(&bounds.0), shown(&bounds.1))
        }
        Expression::Like { sides, .. } => format!("({} LIKE {})", shown(&sides[0]), shown(&sides[1])),
        Expression::IsNull { value, .. } => format!("({} IS NULL)", shown(value)),
        Expression::Other { construct, operands } => format!("({construct} {})", all(operands)),
        other => panic!("{other:?}"),
    }
}

#[test]
fn operators_bind_as_mysqls() {
    for (sql, wanted) in [
        ("1|2&3|4", "((1|(2&3))|4)"),
        ("1&2<<3+4*5^6", "(1&(2<<(3+(4*(5^6)))))"),
        ("1 or 2 xor 3 and 4", "(1OR(2XOR(AND 3,4)))"),
        ("not 1 = 2 and 3", "(AND (operator NOT (1=2)),3)"),
        ("not not 1 in (2)", "(operator NOT (operator NOT (1 IN 2)))"),
        ("1 = 2 in (3) = 4", "((1=(2 IN 3))=4)"),
        ("1 = 2 is null is null", "(((1=2) IS NULL) IS NULL)"),
        ("1 between 2 and 3 between 4 and 5 = 6", "((1 BETWEEN 2 (3 BETWEEN 4 5))=6)"),
        ("1 + 2 not in (3, 4) is null", "(((1+2) NOT IN 3,4) IS NULL)"),
        ("1 like -2 <=> 3", "((1 LIKE -2)<=>3)"),
        ("1 regexp 2 + 3 = 4", "((1REGEXP(2+3))=4)"),
        ("1 not rlike 2 | 3", "(NOT REGEXP 1,(2|3))"),
        ("1 = 2 is not true or 3", "((IS NOT TRUE (1=2))OR3)"),
        ("1 = 2 member of (3) = 4", "((1=(MEMBER OF 2,3))=4)"),
        ("1 member (2)", "(MEMBER OF 1,2)"),
        ("1 sounds like 2 + 3", "(SOUNDS LIKE 1,(2+3))"),
        ("1 like 2 escape 3 = 4", "((LIKE … ESCAPE 1,2,3)=4)"),
    ] {
        assert_eq!(shown(&items(&format!("select {sql}"))[0].expression), wanted, "{sql}");
    }
    for (sql, near) in [
        ("1 in (1) in (2)", "in (2)"),
        ("1 in (1) member of (2)", "of (2)"),
        ("1 is null like 2", "like 2"),
        ("1 = 2 is null in (1)", "in (1)"),
        ("1 like 2 + 3", "+ 3"),
        ("1 is true = 2", "= 2"),
        ("1 in (1) | 2", "| 2"),
        ("1 = not 2", "not 2"),
        ("1 + not(2)", "not(2)"),
        ("- not 1", "not 1"),
        ("1 between 2 in (3) and 4", "in (3) and 4"),
        ("1 between not 2 and 3", "not 2 and 3"),
        ("1 not member of (2)", "member of (2)"),
        ("1 in (1) not", "not"),
    ] {
        let text = refused(&format!("select {sql}")).message;
        assert!(text.ends_with(&format!("near '{near}' at line 1")), "{sql}: {text}");
    }
    let with_mode = |sql: &str, mode| match parse(sql.as_bytes(), mode, &charsets()).unwrap().statement {
        Statement::Select(select) => shown(&select.items[0].expression),
        other => panic!("{other:?}"),
    };
    use catalog::sql_mode::{HIGH_NOT_PRECEDENCE, PIPES_AS_CONCAT};
    assert_eq!(with_mode("select 1 + not 2 = 3", HIGH_NOT_PRECEDENCE), "((1+(operator NOT 2))=3)");
    assert_eq!(with_mode("select 1 like 2 || 3 + 4", 0), "((1 LIKE 2)||(3+4))");
    assert_eq!(with_mode("select 1 + 2 || -3 like 4 || 5", PIPES_AS_CONCAT), "((1+(2||-3)) LIKE (4||5))");
}

#[test]
fn what_is_not_answered_is_named_with_its_place() {
    for (sql, construct, place) in [
        ("SHOW CREATE VIEW v", "SHOW CREATE VIEW", "VIEW"),
        ("show extended columns from t", "SHOW EXTENDED COLUMNS", "columns"),
        ("explain format=json select 1", "EXPLAIN", "explain"),
        ("explain update t set a = 1", "EXPLAIN", "explain"),
        ("select a from t join u", "SELECT … FROM … JOIN", "join"),
        ("select a from t, u", "SELECT … FROM several tables", ","),
        ("select a from t where b = 1 group by a", "SELECT … GROUP", "group"),
        ("select 1 union select 2", "SELECT … UNION", "union"),
        ("select 1 where 1", "SELECT … WHERE", "where"),
        ("select (select 1)", "subquery", "select"),
        ("select cast(1 as json)", "CAST(… AS JSON)", "json"),
        (
            "start replica sql_thread until sql_after_mts_gaps",
            "START REPLICA UNTIL SQL_AFTER_MTS_GAPS",
            "sql_after_mts_gaps",
        ),
        (
            "start replica until source_log_file = 'a', source_log_pos = 4",
            "START REPLICA UNTIL SOURCE_LOG_FILE",
            "source_log_file",
        ),
        ("start replica user = 'a' password = 'b'", "START REPLICA USER", "user"),
        ("stop group_replication", "STOP GROUP_REPLICATION", "group_replication"),
    ] {
        let error = match parse(sql.as_bytes(), 0, &charsets()) {
            Ok(Parsed { statement: Statement::Refused(error), .. }) | Err(error) => error,
            Ok(other) => panic!("{sql}: {other:?}"),
        };
        assert_eq!(error.message, SqlError::not_supported(construct).message, "{sql}");
        assert_eq!(error.span().map(|span| &sql[span]), Some(place), "{sql}");
    }
    for sql in ["insert into t values (1)", "update t set a=1", "alter table t add a int"] {
        assert_eq!(parsed(sql).statement, Statement::Write, "{sql}");
    }
    for sql in ["select a from t where b = 1", "select a from t where b=1", "select * from d.t order by a desc limit 2"]
    {
        assert!(matches!(parsed(sql).statement, Statement::Select(_)), "{sql}");
    }
    for sql in
        ["select case when 1 then 2 end", "select (select 1)", "select cast(1 as signed)", "select 1 in (select 2)"]
    {
        assert_eq!(refused(sql).code, 1235, "{sql}");
    }
}

#[test]
fn an_operator_near_the_end_of_a_text_is_one() {
    for operator in ["=", "<", ">", "<=", ">=", "<>", "!=", "<=>"] {
        let sql = format!("select a from t where b{operator}");
        for value in ["1", "?"] {
            assert!(matches!(parsed(&format!("{sql}{value}")).statement, Statement::Select(_)), "{sql}{value}");
        }
        assert_eq!(refused(&sql).code, 1064, "{sql}");
    }
    for operator in ["+", "-", "*", "/", "%", "|", "&", "^", "<<", ">>", "||", "&&"] {
        assert_eq!(items(&format!("select 2{operator}3")).len(), 1, "{operator}");
    }
}

#[test]
fn a_syntax_error_says_where() {
    let text = refused("select 1,\n 2 from").message;
    assert!(text.ends_with("near '' at line 2"), "{text}");
    let text = refused("foo bar").message;
    assert!(text.ends_with("near 'foo bar' at line 1"), "{text}");
}

#[test]
fn brackets_without_end_do_not_take_the_stack() {
    let deep = |n: usize| format!("select {}1{}", "(".repeat(n), ")".repeat(n));
    assert!(matches!(parsed(&deep(65_535)).statement, Statement::Select(_)));
    assert_eq!(refused(&format!("select {}1{}", "(".repeat(65_535), " = 1)".repeat(65_535))).code, 3950);
    let expression = |sql: &str| items(&format!("select {sql}")).remove(0).expression;
    for (more, less) in [
        ("(((1 + 2)) * 3)", "(1 + 2) * 3"),
        ("((1) + 2 * 3)", "1 + 2 * 3"),
        ("(((a)) = 1 or ((b) is null))", "a = 1 or b is null"),
        ("((((a in (1))) and b) like 'c')", "((a in (1)) and b) like 'c'"),
        ("((a) between 1 and ((2)))", "a between 1 and 2"),
    ] {
        assert_eq!(expression(more), expression(less), "{more}");
    }
    for wrong in ["((1)", "((1) 2)", "((1)))", "(())", "((1) + )"] {
        assert_eq!(refused(&format!("select {wrong}")).code, 1064, "{wrong}");
    }
    for rows in ["((1), 2)", "((1, 2))", "(((1)), (2))"] {
        assert_eq!(refused(&format!("select {rows}")).code, 1235, "{rows}");
    }
    assert_eq!(refused(&format!("select {}1", "- ".repeat(65_535))).code, 3950);
    assert_eq!(refused(&format!("select {}1", "f(".repeat(65_535))).code, 3950);
}

/// Texts of many terms, one for each operator and clause that repeats, with the error that ends each; None: it is
/// parsed.
fn chains(terms: usize) -> Vec<(String, Option<u16>)> {
    let mut all = Vec::new();
    let mut add = |head: &str, again: &str, tail: &str, code| {
        all.push((format!("{head}{}{tail}", again.repeat(terms)), code));
    };
    // Lists, however many.
    for operator in ["OR", "||", "XOR", "AND", "&&", "+", "-", "*", "/", "%", "DIV", "MOD", "|", "&", "^", "<<", ">>"] {
        add("select 1", &format!(" {operator} 1"), "", None);
        add("select a from t where a", &format!(" {operator} a"), "", None);
    }
    for operator in ["OR", "XOR", "AND"] {
        // Two expressions a term.
        add("select a from t where a = 1", &format!(" {operator} a = 1"), "", Some(3170));
    }
    add("select 1", " + 1 OR 2 * 3 AND 4", "", Some(3170));
    add("select a from t where a in (1", ", 1", ")", None);
    add("select concat(1", ", 1", ")", None);
    add("select a from t order by a", ", a", "", None);
    add("set @a = 1", ", @a = 1", "", Some(3170));
    add("select '1'", " '1'", "", None);
    add("set a", ".a", " = 1", Some(1064));
    add("select 1", ", 1", "", None);
    // Trees that would grow with each term.
    for condition in [
        " = 1",
        " <=> 1",
        " <> 1",
        " < 1",
        " = 1 IN (1)",
        " = 1 LIKE '1'",
        " BETWEEN 1 AND 2",
        " NOT BETWEEN 1 AND 2",
        " IS NULL",
        " IS NOT NULL",
    ] {
        add("select 1", condition, "", Some(3950));
        add("select a from t where a", condition, "", Some(3950));
    }
    // What may not stand behind itself.
    for predicate in [
        " IN (1)",
        " NOT IN (1)",
        " LIKE '1'",
        " NOT LIKE '1'",
        " REGEXP 1",
        " MEMBER OF (1)",
        " SOUNDS LIKE 1",
        " IS TRUE",
    ] {
        add("select 1", predicate, "", Some(1064));
        add("select a from t where a", predicate, "", Some(1064));
    }
    add("select ", "(", "1", Some(1064));
    for before in ["- ", "+ ", "~ ", "! ", "NOT ", "f(", "f(1, ", "1 + (", "1 IN (", "{d ", "CAST("] {
        add("select ", before, "1", Some(3950));
    }
    add("select a from t where 1 = 1", " AND (1 = 1", "", Some(3950));
    // What is refused at its first term.
    add("select 1", " COLLATE utf8mb4_bin", "", Some(1235));
    add("select a", "->'$'", " from t", None);
    add("select a from t", " union select a from t", "", None);
    add("select a from t", " join t", "", None);
    all
}

/// On the stack of a thread that gets no other: the shadow's.
#[test]
fn many_terms_do_not_take_the_stack() {
    let run = || {
        let mut random = base::Random::new(7);
        let mut all = chains(100_000);
        // As high as it gets, where bounds are multiplied.
        for _ in 0..50 {
            let mut sql = "1".to_owned();
            while sql.len() < 4_000 {
                let condition =
                    random.pick(&[" IS NULL", " = 1", " = 1 IN (1)", " = 1 LIKE 1", " + 1", " AND 1", " OR 1"]);
                let opened = random.pick(&["(", "(", "f(", "- (", "1 = (", "1 OR ("]);
                let times = random.below(300usize);
                sql = format!("{opened}{sql}{})", condition.repeat(times));
            }
            all.push((format!("select {sql}"), Some(0)));
        }
        let mut wrong = Vec::new();
        for (sql, code) in all {
            let result = parse(sql.as_bytes(), 0, &charsets());
            match (&result, code) {
                (Ok(parsed), None | Some(0)) => {
                    // Whatever walks a tree.
                    assert_eq!(parsed.clone(), *parsed);
                    let _ = (parsed.statement.reads(), format!("{parsed:?}"));
                }
                (Err(error), Some(0)) if error.code == 3950 => {}
                (Err(error), Some(code)) if error.code == code => {}
                _ => {
                    let found = result.err().map(|error| error.code);
                    wrong.push(format!("{found:?}, not {code:?}: {}", &sql[..sql.len().min(60)]));
                }
            }
        }
        assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    };
    std::thread::Builder::new().stack_size(2 << 20).spawn(run).unwrap().join().unwrap();
}

proptest! {
    #[test]
    fn any_text_is_parsed_or_refused(sql in "([a-z@'(),;.*0-9 ]|select |set |begin|\\?){0,40}", modes: u64) {
        let _ = parse(sql.as_bytes(), modes, &charsets());
    }

    #[test]
    fn any_bytes_are_parsed_or_refused(sql in prop::collection::vec(any::<u8>(), 0..60)) {
        let _ = parse(&[&b"select "[..], &sql].concat(), 0, &charsets());
    }
}

#[test]
fn shows_of_replication() {
    let status = |old_names, channel: Option<&str>| {
        Statement::Show(Show::ReplicaStatus { old_names, channel: channel.map(|name| name.as_bytes().to_vec()) })
    };
    for (sql, wanted) in [
        ("show replica status", status(false, None)),
        ("SHOW SLAVE STATUS FOR CHANNEL 'a'", status(true, Some("a"))),
        ("show replicas", Statement::Show(Show::Replicas { old_names: false })),
        ("show slave hosts", Statement::Show(Show::Replicas { old_names: true })),
        ("show binary log status", Statement::Show(Show::BinaryLogStatus)),
        (
            "show relaylog events in 'f' from 4.5 limit 1 for channel ''",
            Statement::Show(Show::RelayLogEvents {
                file: Some(b"f".to_vec()),
                from: Some(4),
                limit: Limit { rows: Some(Expression::Number("1".into())), ..Limit::none() },
                channel: Some(Vec::new()),
            }),
        ),
        ("show master status", Statement::Show(Show::BinaryLogStatus)),
        ("show master logs", Statement::Show(Show::BinaryLogs)),
    ] {
        assert_eq!(parsed(sql).statement, wanted, "{sql}");
    }
    for sql in ["show replica hosts", "show master", "show binary status", "show replica status for channel a"] {
        assert_eq!(refused(sql).code, 1064, "{sql}");
    }
}

#[test]
fn orders_to_the_replica() {
    let order = |start, io, sql, channel: Option<&str>| Statement::Replica {
        order: ReplicaOrder::Threads(ThreadOrder { start, io, sql, until: None }),
        until: None,
        channel: channel.map(|name| name.as_bytes().to_vec()),
    };
    let until = |io, until| Statement::Replica {
        order: ReplicaOrder::Threads(ThreadOrder { start: true, io, sql: true, until: None }),
        until: Some(until),
        channel: None,
    };
    for (sql, wanted) in [
        ("start replica", order(true, true, true, None)),
        ("STOP SLAVE", order(false, true, true, None)),
        ("start replica io_thread", order(true, true, false, None)),
        ("stop replica sql_thread, io_thread, sql_thread", order(false, true, true, None)),
        ("stop replica relay_thread for channel ''", order(false, true, false, Some(""))),
        ("start replica sql_thread until sql_after_gtids='A:1'", until(false, UntilText::After(b"A:1".to_vec()))),
        ("start slave until SQL_BEFORE_GTIDS = \"\" for channel ''", {
            let Statement::Replica { order, until, .. } = until(true, UntilText::Before(Vec::new())) else { panic!() };
            Statement::Replica { order, until, channel: Some(Vec::new()) }
        }),
    ] {
        assert_eq!(parsed(sql).statement, wanted, "{sql}");
    }
    for sql in [
        "start",
        "stop",
        "stop transaction",
        "start replica foo",
        "stop replica io_thread sql_thread",
        "stop replica io_thread,",
        "start replica for channel 'x' io_thread",
        "stop replica until sql_after_mts_gaps",
        "start replica until",
        "start replica until sql_after_gtids",
        "start replica until sql_after_gtids = 5",
        "start replica until sql_after_gtids = @a",
        "start replica until sql_after_gtids = 'A:1', sql_before_gtids = 'A:1'",
    ] {
        assert_eq!(refused(sql).code, 1064, "{sql}");
    }
}

#[test]
fn shows_of_names() {
    let bytes = |text: Option<&str>| text.map(|text| text.as_bytes().to_vec());
    let databases = |like| Statement::Show(Show::Databases { choice: Choice { like: bytes(like), filter: None } });
    let tables = |full, schema, like| {
        let choice = Choice { like: bytes(like), filter: None };
        Statement::Show(Show::Tables { full, schema: bytes(schema), choice })
    };
    for (sql, wanted) in [
        ("show databases", databases(None)),
        ("SHOW SCHEMAS LIKE 'a%'", databases(Some("a%"))),
        ("show tables", tables(false, None, None)),
        ("show extended full tables from `a b` like 'x'", tables(true, Some("a b"), Some("x"))),
        ("show tables in d", tables(false, Some("d"), None)),
        ("show processlist", Statement::Show(Show::Processlist { full: false })),
        ("show full processlist", Statement::Show(Show::Processlist { full: true })),
    ] {
        assert_eq!(parsed(sql).statement, wanted, "{sql}");
    }
    let grants = |sql: &str| match parsed(sql).statement {
        Statement::Show(Show::Grants { account }) => account,
        other => panic!("{sql}: {other:?}"),
    };
    assert_eq!(grants("show grants"), None);
    assert_eq!(grants("show grants for current_user()"), None);
    assert_eq!(grants("show grants for 'a b'@'%'"), Some((b"a b".to_vec(), b"%".to_vec())));
    assert_eq!(grants("show grants for a@`b`"), Some((b"a".to_vec(), b"b".to_vec())));
    assert_eq!(grants("show grants for a"), Some((b"a".to_vec(), b"%".to_vec())));
    let columns = |sql: &str| match parsed(sql).statement {
        Statement::Show(Show::Columns { full, schema, table, choice }) => (full, schema, table, choice.like),
        other => panic!("{sql}: {other:?}"),
    };
    assert_eq!(
        columns("show full fields from t in d like 'a%'"),
        (true, Some(b"d".to_vec()), b"t".to_vec(), Some(b"a%".to_vec()))
    );
    assert_eq!(columns("describe d.t"), (false, Some(b"d".to_vec()), b"t".to_vec(), None));
    assert_eq!(columns("desc t c"), (false, None, b"t".to_vec(), Some(b"c".to_vec())));
    for sql in
        ["show keys from t like 'a'", "show global databases", "show full keys from t", "show columns", "describe"]
    {
        assert_eq!(refused(sql).code, 1064, "{sql}");
    }
    for sql in ["show full", "show tables like 5", "show tables like 'a' limit 1", "show tables from", "show tables d"]
    {
        assert_eq!(refused(sql).code, 1064, "{sql}");
    }
}
