use super::*;
use crate::print::{print_expression, print_query};
use crate::sql_mode;

/// The expression with all its brackets: what the operators' operands are.
fn shape(text: &str, sql_mode: u64) -> String {
    let settings = Settings::new(sql_mode, 90_704, "utf8mb4");
    let (tree, expr) = parse_expression(text.as_bytes(), settings).unwrap_or_else(|error| panic!("{text}: {error:?}"));
    String::from_utf8(print_expression(&tree, expr, settings)).unwrap()
}

fn is_wrong(text: &str) -> bool {
    parse_select(text.as_bytes(), Settings::default()).is_err()
}

/// What a SELECT prints as, which parses to the same tree.
fn printed(text: &str) -> String {
    let settings = Settings::default();
    let (tree, query) = parse_select(text.as_bytes(), settings).unwrap_or_else(|error| panic!("{text}: {error:?}"));
    let printed = print_query(&tree, query, settings);
    let (again, _) = parse_select(&printed, settings)
        .unwrap_or_else(|error| panic!("{text}: {error:?} in {}", String::from_utf8_lossy(&printed)));
    assert!(tree == again, "{text} is {}", String::from_utf8_lossy(&printed));
    String::from_utf8(printed).unwrap()
}

#[test]
fn brackets_are_those_that_operators_need() {
    for (text, expected) in [
        ("((a)) + (b * c)", "a + b * c"),
        ("(a + b) * c", "(a + b) * c"),
        ("a - (b - c)", "a - (b - c)"),
        ("a or b and not c = d", "a OR b AND NOT c = d"),
        ("(a or b) and c", "(a OR b) AND c"),
        ("a = b = c", "a = b = c"),
        ("a = (b = c)", "a = (b = c)"),
        ("a between b and c and d", "a BETWEEN b AND c AND d"),
        ("a between b and c in (d)", "a BETWEEN b AND (c IN (d))"),
        ("- a ^ b", "- a ^ b"),
        ("-(a ^ b)", "- (a ^ b)"),
        ("not a is true", "NOT a IS TRUE"),
        ("(not a) is true", "(NOT a) IS TRUE"),
        ("@a := b or c", "@a := b OR c"),
        ("(@a := b) or c", "(@a := b) OR c"),
        ("a + interval 1 day * 2", "(a + INTERVAL 1 DAY) * 2"),
        ("interval 1 day + a and b", "(INTERVAL 1 DAY + a) AND b"),
        ("interval(1, 2) + 3", "INTERVAL(1, 2) + 3"),
        ("a like b escape 'c' or d", "a LIKE b ESCAPE 'c' OR d"),
        ("binary a collate x", "BINARY a COLLATE x"),
        ("binary (a collate x)", "BINARY (a COLLATE x)"),
        ("case a when 1 then 2 else 3 end", "CASE a WHEN 1 THEN 2 ELSE 3 END"),
        ("'a' 'b'", "'ab'"),
        ("a in ((select 1))", "a IN (SELECT 1)"),
        ("a in ((select 1), 2)", "a IN ((SELECT 1), 2)"),
        ("adddate(a, interval 1 day + b)", "ADDDATE(a, INTERVAL 1 DAY + b)"),
        ("adddate(a, interval 1 day)", "ADDDATE(a, INTERVAL 1 DAY)"),
        ("substring(a from 1 for 2)", "SUBSTRING(a, 1, 2)"),
        ("f(a as b, c 'd')", "`f`(a AS b, c AS d)"),
        ("count (a)", "`count`(a)"),
    ] {
        assert_eq!(shape(text, 0), expected, "{text}");
        assert_eq!(shape(expected, 0), expected);
    }
}

#[test]
fn modes_change_operators() {
    assert_eq!(shape("not a = b", sql_mode::HIGH_NOT_PRECEDENCE), "! a = b");
    assert_eq!(shape("not a = b", 0), "NOT a = b");
    assert_eq!(shape("a || b = c", 0), "a OR b = c");
    assert_eq!(shape("a || b = c", sql_mode::PIPES_AS_CONCAT), "a || b = c");
    assert_eq!(shape("a + (b || c)", sql_mode::PIPES_AS_CONCAT), "a + b || c");
    assert_eq!(shape("count (a)", sql_mode::IGNORE_SPACE), "COUNT(a)");
    assert_eq!(shape("\"a\"", sql_mode::ANSI_QUOTES), "a");
}

#[test]
fn queries_print_as_what_parses_again() {
    for (text, expected) in [
        ("select 1", "SELECT 1"),
        ("((select 1))", "SELECT 1"),
        ("(select 1 limit 1) limit 2", "(SELECT 1 LIMIT 1) LIMIT 2"),
        ("select 1 union select 2 intersect select 3", "SELECT 1 UNION (SELECT 2 INTERSECT SELECT 3)"),
        ("select 1 except select 2 union select 3", "(SELECT 1 EXCEPT SELECT 2) UNION SELECT 3"),
        ("(select 1) union (select 2) into @a", "SELECT 1 UNION (SELECT 2) INTO @a"),
        ("select a from t join u join v on 1", "SELECT a FROM t JOIN u JOIN v ON 1"),
        ("select a from t join u join v on 1 on 2 join w", "SELECT a FROM t JOIN (u JOIN v ON 1) ON 2 JOIN w"),
        ("select a from (t, u) natural left join v", "SELECT a FROM (t, u) NATURAL LEFT JOIN v"),
        ("select a from ((select 1) union (select 2)) x (b)", "SELECT a FROM (SELECT 1 UNION SELECT 2) AS x (b)"),
        ("select a from t limit ?, ?", "SELECT a FROM t LIMIT ?, ?"),
        ("select a from t limit ? offset ?", "SELECT a FROM t LIMIT ? OFFSET ?"),
        ("table t order by a desc", "TABLE t ORDER BY a DESC"),
        ("values row(1, default), row()", "VALUES ROW(1, DEFAULT), ROW()"),
        ("select /*+ x */ a", "SELECT a"),
        (
            "select sum(a) over (w order by b rows between 1 preceding and current row) from t window w as ()",
            "SELECT SUM(a) OVER (w ORDER BY b ROWS BETWEEN 1 PRECEDING AND CURRENT ROW) FROM t WINDOW w AS ()",
        ),
    ] {
        assert_eq!(printed(text), expected);
    }
}

#[test]
fn strings_and_names_are_quoted_as_they_must_be() {
    assert_eq!(printed(r"select 'a''b\\c\%', `x``y`, `select`, n'd'"), r"SELECT 'a''b\\c\%', `x``y`, `select`, N'd'");
    assert_eq!(printed("select @`a b`, @'c', @@global.x, @@y"), "SELECT @`a b`, @c, @@GLOBAL.x, @@y");
}

#[test]
fn common_tables_are_known_where_they_are_visible() {
    let common = |text: &str| {
        let (tree, _) = parse_select(text.as_bytes(), Settings::default()).unwrap();
        let names = tree.tables().iter().filter_map(|table| match table {
            Table::Named(named) => Some(named.common),
            _ => None,
        });
        names.collect::<Vec<_>>()
    };
    assert_eq!(common("with a as (select 1 from a) select 1 from a"), [false, true]);
    assert_eq!(common("with recursive a as (select 1 from a) select 1 from a"), [true, true]);
    assert_eq!(common("(with a as (select 1) select 1 from a) union select 1 from a"), [true, false]);
    assert_eq!(common("with a as (select 1) select 1 from d.a"), [false]);
}

#[test]
fn what_mysql_refuses_is_refused() {
    for text in [
        "select a, *",
        "select 1 from",
        "select a like b like c",
        "select a = not b",
        "select 1 from (t) x",
        "select 1 from ((select 1) x)",
        "select 1 from t left join u",
        "select 1 limit 1.5",
        "select 1 order by 1 union select 2",
        "select (select 1 from t into @a)",
        "select row_number()",
        "select count(a, b)",
        "select a between b or c and d",
        "select 1; select 2",
        "select interval 1 day",
        "select a -> b",
        "select _utf8mb4 from t",
        "",
    ] {
        assert!(is_wrong(text), "{text}");
    }
}

/// Brackets, operators, calls, CASE, joins: more than any stack of calls would bear. MySQL takes 20,000 ORs and 5,000
/// brackets.
#[test]
fn what_takes_no_depth_may_stand_in_itself_at_any_length() {
    let many = 50_000;
    let around =
        |before: &str, inner: &str, after: &str| format!("SELECT {}{inner}{}", before.repeat(many), after.repeat(many));
    for text in [
        around("a OR ", "a", ""),
        around("a + ", "a", ""),
        around("a * b + ", "a", ""),
        around("NOT ", "a", ""),
        around("- ", "a", ""),
        around("(", "a", ")"),
        around("(a OR ", "b", ")"),
        around("f(", "a", ")"),
        around("CASE WHEN a THEN ", "b", " END"),
        around("a IN (", "b", ")"),
        around("a BETWEEN b AND ", "c", ""),
        around("(", "(SELECT 1)", ")"),
        around("@a := ", "1", ""),
        format!("SELECT 1 FROM {}t{}", "(".repeat(many), ")".repeat(many)),
        format!("SELECT 1 FROM t{}", " JOIN u".repeat(many)),
        format!("SELECT 1 FROM t{}{}", " JOIN u".repeat(many), " ON 1".repeat(many)),
        format!("{}SELECT 1{}", "(".repeat(many), ")".repeat(many)),
        format!("SELECT 1{}", " UNION SELECT 1".repeat(many)),
    ] {
        let settings = Settings::default();
        let (tree, query) = parse_select(text.as_bytes(), settings)
            .unwrap_or_else(|error| panic!("{error:?}: {}", &text[..60.min(text.len())]));
        let printed = print_query(&tree, query, settings);
        let (again, _) = parse_select(&printed, settings).unwrap();
        assert!(tree == again, "{}", &text[..60]);
    }
}

#[test]
fn what_recurses_is_refused_by_depth_and_not_as_wrong() {
    for (before, after) in [("(SELECT ", ")"), ("CAST(", " AS CHAR)"), ("EXISTS (SELECT ", ")"), ("{d ", "}")] {
        let deep = |count: usize| format!("SELECT {}1{}", before.repeat(count), after.repeat(count));
        // As deep as MySQL takes subqueries.
        assert!(!is_wrong(&deep(63)), "{before}");
        let error = parse_select(deep(100_000).as_bytes(), Settings::default()).unwrap_err();
        assert!(error.too_deep, "{before}");
    }
}

#[test]
fn errors_say_where() {
    let at = |text: &str| parse_select(text.as_bytes(), Settings::default()).unwrap_err().at;
    assert_eq!(at("select a b c"), 11);
    assert_eq!(at("select 'a"), 7);
    assert_eq!(at("select a from t where"), 21);
}
