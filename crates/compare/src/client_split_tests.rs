//! What counts as a hazard, and the strings of all other texts beside those that the server's lexer finds.

use base::Random;
use catalog::lexer::{Lexer, Tok};

use super::*;

fn of(text: &str, sql_mode: &str) -> Option<&'static str> {
    hazard(text, Reading::of_definition(sql_mode))
}

#[test]
fn texts_that_every_client_sends_whole() {
    for (text, sql_mode) in [
        ("CREATE PROCEDURE p() BEGIN SELECT 1; SELECT ';;', '$$', \"a;\", `b;\\`; END", ""),
        ("CREATE PROCEDURE p() SELECT 'it''s', 'it\\'s', 'a\\\\', \"b\\\"c\" -- it's \\! a comment", ""),
        ("CREATE PROCEDURE p() SELECT 1 # it's\n, 2 /* it's \\! ; -- */, 5--3", ""),
        ("CREATE PROCEDURE p() SELECT \"a\" FROM \"t\"\"u\", \"c\\\\\"", "ANSI_QUOTES"),
        ("CREATE PROCEDURE p() SELECT 'a\\n', 'b\\\\'", "NO_BACKSLASH_ESCAPES"),
        (
            "/*!50003 CREATE*/ /*!50017 DEFINER=`a`@`%`*/ /*!50003 TRIGGER t BEFORE INSERT ON t FOR EACH ROW SET @a = '*/' */",
            "",
        ),
        ("CREATE VIEW v AS SELECT /*+ NO_MERGE(`t`@`select#1`) */ 1 FROM t\nUSE INDEX (a, b)", ""),
        ("CREATE VIEW v AS SELECT id,\n  status,\n  source,\n status\nFROM t", ""),
        ("CREATE VIEW v AS SELECT 'a\nsystem touch x\ndelimiter x\n', `b\nsource x\n` /*\nsystem x\n*/", ""),
        ("CREATE PROCEDURE p() SELECT a$$b, $1, $a b, a$b$, 'x' AS c$", ""),
        ("CREATE FUNCTION f() RETURNS INT LANGUAGE JAVASCRIPT AS $js$ return 'a' + \"b\"; $js$", ""),
        ("-- a comment\nCREATE PROCEDURE p() SELECT 1\n-- the end", ""),
    ] {
        assert_eq!(of(text, sql_mode), None, "{text}");
    }
}

#[test]
fn texts_that_some_client_splits() {
    for (text, sql_mode, wanted) in [
        ("SELECT 1 AS \"a\\\" -- \" ;; CREATE USER pwned;; -- ", "ANSI_QUOTES", "before a quote"),
        ("SELECT 1 AS \"a\\\"", "ANSI_QUOTES,NO_BACKSLASH_ESCAPES", "before a quote"),
        ("SELECT 'a\\', '", "NO_BACKSLASH_ESCAPES", "before a quote"),
        ("SELECT \"a\\\" -- \"", "NO_BACKSLASH_ESCAPES", "before a quote"),
        ("SELECT 1 \\! touch x", "", "backslash outside"),
        ("SELECT \\N", "", "backslash outside"),
        ("SELECT 1 --\u{1} it's", "", "control character"),
        ("--1", "", "at the beginning"),
        ("/* a */ --1", "", "at the beginning"),
        ("SELECT 1 /*!99999 ; CREATE USER pwned; */", "", "some versions"),
        ("SELECT 1 /*!080001 + 1 */", "", "some versions"),
        ("SELECT 1 /*!123 + 1 */", "", "some versions"),
        ("SELECT 1 /*M!100100 + 1 */", "", "some versions"),
        ("SELECT 1 /*!50000 /* a */ + 1 */", "", "inside a version comment"),
        ("SELECT /*+ QB_NAME(`a*/ '`) */ 1", "", "without its end"),
        ("SELECT /*+ it's */ 1", "", "hint"),
        ("SELECT /*+ a # */ 1", "", "hint"),
        ("SELECT /*+ a -- */ 1", "", "hint"),
        ("SELECT 1 /* a", "", "without its end"),
        ("SELECT 'a", "", "without its end"),
        ("SELECT `a", "", "without its end"),
        ("SELECT 1 AS `a\\\nb`", "", "end of a line in a name"),
        ("SELECT 1 AS `a\\\r\nb`", "", "end of a line in a name"),
        ("SELECT 1 /* /*+ */ + 1", "", "inside a comment"),
        ("SELECT /*!50000 1 */*/ 2", "", "after a comment"),
        ("SELECT 1 /* a /*/ + 1", "", "inside a comment"),
        ("SELECT /*+ a /*/ 1", "", "hint"),
        ("SELECT 'a\0'", "", "NUL"),
        ("SELECT $a$ it's", "", "dollar quote"),
        ("SELECT $a$ it's $a$", "", "without its end"),
        ("SELECT $$ // it's \\! a comment\n $$", "", "without its end"),
        ("SELECT $$ a /* b */ $$", "", "dollar quotes"),
        ("SELECT $$ a $$$$ b $$", "", "dollar quote"),
        ("SELECT .$$", "", "dollar quote"),
        ("SELECT 1 AS delimiter\n, 2", "", "DELIMITER"),
        ("SELECT 1 AS\nsystem touch x\n", "", "begins as a command"),
        ("SELECT 1 AS\n\t SOURCE x", "", "begins as a command"),
        ("SELECT 1 AS\nclear\r\n, 2", "", "begins as a command"),
        ("SELECT 1 FROM t\nUSE INDEX (`a`)", "", "begins as a command"),
    ] {
        let found = of(text, sql_mode).unwrap_or_else(|| panic!("not found: {text}"));
        assert!(found.contains(wanted), "{text}: {found}");
    }
    assert_eq!(hazard("SELECT ';'", Reading::of_own()), None);
    assert_eq!(hazard("SELECT 1; SELECT 2", Reading::of_own()), Some("the delimiter"));
}

#[test]
fn a_delimiter_that_no_text_holds() {
    let of = |texts: &[&str]| delimiter_for(texts.iter().copied());
    assert_eq!(of(&["a ;; $$ / /1/"]), "//");
    assert_eq!(of(&["//", "//1//2// //005//"]), "//3//");
    assert_eq!(of(&["// //2//", "//99999999999999999999999//"]), "//1//");
    for text in ["///1//", "////1//", "//1//1//", "//1///"] {
        assert_eq!(of(&[text]), "//2//", "{text}");
    }
}

#[test]
fn nothing_ends_a_comment() {
    let long = "x".repeat(COMMENT_LINE_BYTES_MAX + 1);
    let text = as_comments(&format!("a\r\n\n\u{1b}[31m\0 b\n{long}"));
    assert_eq!(text, format!("-- a \n-- \n-- ?[31m? b\n-- {}\n-- x\n", &long[1..]));
    assert_eq!(use_statement("a`b"), "USE `a``b`;");
    assert!(use_statement("a\nsystem x").starts_with("DO 0; "));
}

/// Pieces of which texts are made.
const PIECES: &[&str] = &[
    "a",
    " ",
    "\n",
    "'",
    "'",
    "\"",
    "\"",
    "`",
    "`",
    "\\",
    "--",
    "-- ",
    "#",
    "/*",
    "*/",
    "/*!50000 ",
    ";",
    "1",
    "é",
    "''",
    "\\'",
    "\\\"",
    "\\\\",
    "\"\"",
    "``",
    "$",
];

/// The quoted names and strings that our lexer, as a server, finds; None for a text that is an error there.
fn lexed(text: &str, mode: u64) -> Option<Vec<Range<usize>>> {
    let mut lexer = Lexer::new(text.as_bytes(), mode, OLDEST_SERVER);
    let mut found = Vec::new();
    loop {
        let token = lexer.next_token().ok()?;
        match token.tok {
            Tok::End => return Some(found),
            Tok::Quoted(_) | Tok::Str { .. } => found.push(token.start..token.end),
            // `@'a'` and the like.
            Tok::Variable => return None,
            _ => {}
        }
    }
}

#[test]
fn strings_are_where_the_server_sees_them() {
    let (mut safe, mut unsafe_to_the_client) = (0, 0);
    for seed in testkit::seeds(40_000) {
        let mut random = Random::new(seed);
        let text: String = (0..random.below(14usize) + 1).map(|_| random.pick(PIECES)).collect();
        let (bits, names) = random.pick(&[
            (0u64, ""),
            (4, "ANSI_QUOTES"),
            (1 << 20, "NO_BACKSLASH_ESCAPES"),
            (4 | 1 << 20, "ANSI_QUOTES,NO_BACKSLASH_ESCAPES"),
        ]);
        let Some(server) = lexed(&text, bits) else { continue };
        let Ok(here) = spans(&text, Reading::of_definition(names)) else {
            unsafe_to_the_client += 1;
            continue;
        };
        safe += 1;
        let is_quoted = |span: &&Range<usize>| matches!(text.as_bytes()[span.start], b'\'' | b'"' | b'`');
        // A doubled quote is one string to the server, two that touch here.
        let mut joined: Vec<Range<usize>> = Vec::new();
        for span in here.iter().filter(is_quoted) {
            match joined.last_mut() {
                Some(last) if last.end == span.start && text.as_bytes()[last.start] == text.as_bytes()[span.start] => {
                    last.end = span.end;
                }
                _ => joined.push(span.clone()),
            }
        }
        assert_eq!(joined, server, "seed {seed}, {names}: {text:?}");
    }
    assert!(safe > 1000 && unsafe_to_the_client > 1000, "{safe} {unsafe_to_the_client}");
}
