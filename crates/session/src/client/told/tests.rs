//! A session of a real server that is told what changed answers as the one in which it was set.

use std::fmt::Write as _;

use base::Random;
use testkit::raw_client::{CAPABILITIES, RawClient};
use testkit::{Server, seeds};

use super::super::tests::{admin, error, query};
use super::super::{After, Output};
use super::*;

const SETS: &[&str] = &[
    "set names latin1",
    "set names utf8mb4 collate utf8mb4_bin",
    "set names cp1251",
    "set names utf8mb3",
    "set character set latin2",
    "set character_set_results = NULL",
    "set character_set_client = utf8mb4, collation_connection = latin1_german2_ci",
    "set time_zone = '+03:00'",
    "set time_zone = '-11:30'",
    "set sql_mode = ''",
    "set sql_mode = 'ANSI_QUOTES,NO_BACKSLASH_ESCAPES'",
    "set sql_mode = 'STRICT_TRANS_TABLES,PIPES_AS_CONCAT,HIGH_NOT_PRECEDENCE'",
    "set group_concat_max_len = 77, sql_notes = 0",
    "set max_execution_time = 300000",
    "set sql_select_limit = 5000",
    "set max_join_size = 123456",
    "set sql_big_selects = 1",
    "set lock_wait_timeout = 3, net_read_timeout = 44, net_write_timeout = 55",
    "set foreign_key_checks = off, sql_warnings = on",
    "set sql_safe_updates = 1",
    "set autocommit = 0",
    "set autocommit = 1",
    "set session transaction isolation level read committed",
    "set session transaction read only",
    "set session transaction read write, isolation level repeatable read",
    "set transaction isolation level serializable",
    "set transaction read only",
    "begin",
    "start transaction read only",
    "savepoint a",
    "savepoint `b c`",
    "release savepoint a",
    "commit",
    "rollback",
    "use shop",
];

/// Values of user variables.
const VALUES: &[&str] = &[
    "1",
    "-5",
    "18446744073709551615",
    "-9223372036854775808",
    "true",
    "1.50",
    "-0.000",
    "12345678901234567890123456789.0123456789",
    "1e300",
    "-2.5e-7",
    "''",
    "'a''b'",
    "'\u{e9}'",
    "_latin1 X'E9'",
    "_utf8mb4'x' collate utf8mb4_bin",
    "_latin1'y' collate latin1_german1_ci",
    "NULL",
    "X'00FF'",
    "b'101'",
    "@a",
    "@b",
    "@@sql_mode",
    "@@wait_timeout",
    "cast(5 as char)",
    "concat('a', @c)",
];

/// What both sessions are asked in the end, without variables of one connection.
const QUESTIONS: &[&str] = &[
    "select database(), @@session.transaction_isolation, @@session.transaction_read_only, @@session.autocommit",
    "select @a, charset(@a), collation(@a), coercibility(@a)",
    "select @b, charset(@b), collation(@b), coercibility(@b)",
    "select @`c d`, charset(@`c d`), collation(@`c d`), coercibility(@`c d`)",
    "select @a is null, @b + 0, hex(@a), hex(@b), length(@`c d`)",
    "select @@session.sql_big_selects, @@session.max_join_size, @@session.sql_select_limit",
    "show session variables where variable_name not in ('pseudo_thread_id', 'timestamp', 'statement_id', \
     'rand_seed1', 'rand_seed2')",
];

const TRANSACTION: &str = "select isolation_level, access_mode, number_of_savepoints from \
                           performance_schema.events_transactions_current where state = 'ACTIVE' and thread_id = \
                           ps_current_thread_id()";

/// A statement of a sequence; user variables now and then.
fn drawn(random: &mut Random) -> String {
    if random.below(2usize) == 0 {
        return SETS[random.below(SETS.len())].to_owned();
    }
    let name = ["@a", "@b", "@`c d`"][random.below(3usize)];
    format!("set {name} = {}", VALUES[random.below(VALUES.len())])
}

#[test]
fn a_server_that_is_told_what_changed_answers_as_the_session_would() {
    let Some(server) = Server::or_skip("told", &[]) else { return };
    server.sql("create database shop collate utf8mb4_bin");
    let connect = || RawClient::over_socket(&server.socket(), "root", CAPABILITIES);
    let is_error = |packets: &[Vec<u8>]| packets.last().is_some_and(|last| last.first() == Some(&0xff));
    let mut different = String::new();
    for seed in seeds(200) {
        let mut random = Random::new(seed);
        let (mut ours, mut theirs) = (admin(0), connect());
        let mut sequence = vec!["set names utf8mb4".to_owned()];
        sequence.extend((0..1 + random.below(12usize)).map(|_| drawn(&mut random)));
        // A mark in the middle: what changed since is told to one that knows what changed before.
        let middle = random.below(sequence.len());
        let (mut mark, mut told) = (Mark::default(), Vec::new());
        for (number, sql) in sequence.iter().enumerate() {
            if number == middle {
                told = statements(&ours.what_changed(&mark));
                mark = ours.mark();
            }
            let answer = query(&mut ours, sql);
            if !is_error(&answer) {
                let real = theirs.query(sql);
                assert!(!is_error(&real), "seed {seed}: {sql}: {real:?}");
            }
        }
        told.extend(statements(&ours.what_changed(&mark)));
        let mut fresh = connect();
        for sql in &told {
            let answer = fresh.query(sql);
            assert!(!is_error(&answer), "seed {seed}: {sql}: {answer:?}");
        }
        let begin = (!ours.transaction.is_open()).then_some("begin");
        for sql in begin.into_iter().chain([TRANSACTION]).chain(QUESTIONS.iter().copied()) {
            let (real, answer) = (theirs.query(sql), fresh.query(sql));
            if real != answer {
                writeln!(different, "seed {seed}: {sql}\n {sequence:?}\n {told:?}\n {real:?}\n {answer:?}").unwrap();
            }
        }
    }
    assert!(different.is_empty(), "{different}");
}

#[test]
fn what_another_server_changed_is_taken_back() {
    let mut session = admin(0);
    let world = super::super::tests::Nowhere;
    query(&mut session, "set @a = 1");
    let facts = OkFacts {
        status: Some(status::AUTOCOMMIT | status::IN_TRANS),
        schema: Some("shop".to_owned()),
        variables: vec![("sql_mode".to_owned(), "ANSI_QUOTES".to_owned()), ("autocommit".to_owned(), "OFF".to_owned())],
        gtids: Some("00000000-0000-0000-0000-000000000001:1-3".to_owned()),
        opened_none: false,
    };
    session.took(&facts, &world);
    assert!(session.transaction.is_open() && !session.settings.typed().autocommit);
    assert_eq!(session.schema_name().as_deref(), Some("shop"));
    assert_eq!(session.settings.text("slipstream_read_gtids"), Some("00000000-0000-0000-0000-000000000001:1-3"));
    session.took(&OkFacts { status: Some(0), ..OkFacts::default() }, &world);
    assert!(!session.transaction.is_open());
    // Of the next transaction something is said until a statement opens a table.
    for (opened_none, is_said) in [(true, true), (false, false)] {
        query(&mut session, "set transaction read only");
        session.took(&OkFacts { status: Some(0), opened_none, ..OkFacts::default() }, &world);
        assert_eq!(session.transaction.next() != Characteristics::default(), is_said);
    }
    // What the last statement has left is asked for where it was answered.
    session.set_forwarding(super::super::Forwarding::All);
    for sql in ["select row_count()", "show warnings", "select @@warning_count", "select last_insert_id()"] {
        let mut out = Output::default();
        let after = session.command(&[b"\x03", sql.as_bytes()].concat(), &world, &mut out);
        assert_eq!((after, out.len()), (After::NotHere, 0), "{sql}");
        assert!(session.take_not_here().is_some_and(|not_here| !not_here.may_write), "{sql}");
    }
    assert_ne!(query(&mut session, "select @a")[0][0], 0xff);
    query(&mut session, "show warnings");
    // A variable by which nothing is answered here keeps the session there.
    session.took(
        &OkFacts { variables: vec![("div_precision_increment".to_owned(), "9".to_owned())], ..OkFacts::default() },
        &world,
    );
    let mut out = Output::default();
    assert_eq!(session.command(b"\x03select 1", &world, &mut out), After::NotHere);
    session.set_forwarding(super::super::Forwarding::Off);
    assert_eq!(error(&query(&mut session, "lock tables t write")).code, 1105);
}
