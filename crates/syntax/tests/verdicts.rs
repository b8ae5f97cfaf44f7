//! Whether a text is a statement, compared with MySQL 9.7's verdict.
//!
//! `statements.txt` has statements with the server's verdict: each one was put to a 9.7.4. With a server, they are put
//! to it again, and so are drawn and mutated statements: by thousands in the gate, a hundred thousand at night.

use std::fmt::Write as _;

use syntax::{Settings, parse_select};
use testkit::raw_client::{CAPABILITIES, RawClient};
use testkit::{Random, Server, all_cases};

use crate::grammar;

const SYNTAX: u16 = 1064;
/// What the server's grammar refuses while it reads, before it comes to the place where the text is wrong as well:
/// no statement at all, two tables of one name, an unknown character set, variable or collation, a table without an
/// alias, a variable of a stored program, a wrong literal.
const EARLIER: &[u16] = &[1065, 1066, 1115, 1193, 1210, 1221, 1231, 1248, 1253, 1273, 1327, 1525, 3667];

const EXPLAIN: [&str; 3] = ["DESC", "DESCRIBE", "EXPLAIN"];

fn recorded() -> impl Iterator<Item = (bool, &'static str)> {
    include_str!("statements.txt").lines().filter(|line| !line.starts_with('#')).map(|line| {
        let (verdict, text) = line.split_once('\t').unwrap();
        (verdict == "1064", text)
    })
}

fn is_wrong(text: &str) -> bool {
    parse_select(text.as_bytes(), Settings::default()).is_err()
}

#[test]
fn recorded_statements_have_the_recorded_verdict() {
    assert!(recorded().count() > 800);
    let different: Vec<_> = recorded().filter(|(wrong, text)| is_wrong(text) != *wrong).collect();
    assert!(different.is_empty(), "{different:#?}");
}

/// The number of the error that preparing the text gives, 0 for none.
fn prepared(client: &mut RawClient, text: &str) -> u16 {
    let packets = client.prepare(text);
    match packets.first().unwrap().as_slice() {
        [0xff, low, high, ..] => u16::from_le_bytes([*low, *high]),
        [0, a, b, c, d, ..] => {
            client.close(u32::from_le_bytes([*a, *b, *c, *d]));
            0
        }
        other => panic!("{other:?}"),
    }
}

fn compare(client: &mut RawClient, texts: impl Iterator<Item = String>) {
    let mut different = String::new();
    for text in texts {
        let theirs = prepared(client, &text);
        let ours = is_wrong(&text);
        // A query that became another statement.
        let explains = text.split_whitespace().next().is_some_and(|word| EXPLAIN.contains(&word));
        if !explains && ours != (theirs == SYNTAX) && !(ours && EARLIER.contains(&theirs)) {
            writeln!(different, "{theirs}, ours {}: {text}", if ours { "1064" } else { "none" }).unwrap();
        }
    }
    assert!(different.is_empty(), "{different}");
}

#[test]
fn verdicts_are_the_servers() {
    let Some(server) = Server::or_skip("syntax-verdicts", &[]) else { return };
    server.sql("CREATE DATABASE d");
    let mut client = RawClient::over_socket(&server.socket(), "root", CAPABILITIES);
    client.query("USE d");
    client.query("SET NAMES utf8mb4, sql_mode = ''");
    for (wrong, text) in recorded() {
        assert_eq!(prepared(&mut client, text) == SYNTAX, wrong, "{text}");
    }
    let (drawn, mutated) = if all_cases() { (100_000, 20_000) } else { (3_000, 1_000) };
    compare(&mut client, (0..drawn).map(|seed| grammar::statement(&mut Random::new(seed)).join(" ")));
    compare(
        &mut client,
        (0..mutated).map(|seed| {
            let mut random = Random::new(1 << 32 | seed);
            let drawn = grammar::statement(&mut random);
            grammar::mutated(&mut random, &drawn).join(" ")
        }),
    );
}

/// MySQL takes 20,000 ORs and 5,000 brackets.
#[test]
fn long_statements_are_taken_as_the_server_takes_them() {
    let Some(server) = Server::or_skip("syntax-long", &[]) else { return };
    let mut client = RawClient::over_socket(&server.socket(), "root", CAPABILITIES);
    for text in
        [format!("SELECT 1{}", " OR 1".repeat(20_000)), format!("SELECT {}1{}", "(".repeat(5_000), ")".repeat(5_000))]
    {
        assert_ne!(prepared(&mut client, &text), SYNTAX);
        assert!(!is_wrong(&text));
    }
}
