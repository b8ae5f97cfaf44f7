//! Answers are those of a real 9.7, packet by packet.

use crate::support;

use support::{CAPABILITIES, RawClient, differences, open, queries};
use testkit::Server;
use wire::handshake::capability;

/// Statements whose answers do not depend on the server's version, name or time.
const STATEMENTS: &[&str] = &[
    "SELECT 1",
    "select 1, -1, 007, -0, 9223372036854775807, 9223372036854775808, 18446744073709551615, -9223372036854775808",
    "select -9223372036854775809, -18446744073709551615, 123456789012345678901234567890",
    "select 1.10, .5, 0.5, -0.5, -0.0, 1., +5, (7), ((8)) as eight",
    "select 1e3, -1e3, 1.5e-7, 1.e2",
    "select 'abc', 'a' 'b', '', _latin1'abc', 'é', null, true, False, NULL as n",
    "select  1  /* x */ , 2 as `a``b`, 3 'c d' from dual limit 1",
    "select 1 limit 0",
    "select 1 limit 1, 1",
    "select 1 limit 5 offset 0",
    "select 'a' as é, 'x' as `1`",
    "select $$",
    "select $x$ 1 $x$",
    "select @@autocommit, @@session.autocommit, @@global.autocommit, @@sql_mode",
    "select @@character_set_client, @@character_set_connection, @@character_set_results, @@collation_connection",
    "select @@transaction_isolation, @@session.transaction_read_only, @@tx_isolation",
    "select @@wait_timeout, @@net_write_timeout, @@max_execution_time, @@long_query_time, @@init_connect",
    "select @@session.auto_increment_increment AS auto_increment_increment, @@license AS license, @@sql_select_limit",
    "select @@lower_case_table_names, @@performance_schema, @@sql_auto_is_null",
    "select database(), schema(), last_insert_id()",
    "select current_role()",
    "select concat('a', 'b', 'é'), concat('x') as c",
    "select concat('a', null)",
    "select *",
    "select a",
    "select a.b",
    "select version(1)",
    "select @@nonsense",
    "select @@session.max_connections",
    "select @@global.pseudo_thread_id",
    "select 1 from",
    "select 1,\n 2,\n from dual",
    "foo bar",
    "",
    "   ",
    "select 1; select 2; select 'x'",
    "select 1; foo; select 2",
    "select 1;",
    "set names latin1",
    "select 'abc', @@character_set_results, 'é' as c, 1, null",
    "set names utf8mb4 collate utf8mb4_bin",
    "select 'abc' as collated, @@collation_connection",
    "set names utf8mb4",
    "set names utf8mb4 collate latin1_swedish_ci",
    "set names utf8",
    "show warnings",
    "set names utf8mb3 collate utf8mb3_bin",
    "show warnings",
    "set character_set_results = UTF8MB3",
    "show warnings",
    "set collation_connection = macce_bin, character_set_connection = hp8",
    "show warnings",
    "set character set utf8",
    "show warnings",
    "set names utf8mb4",
    "set sql_mode = 'STRICT_TRANS_TABLES'",
    "show warnings",
    "set sql_mode = 'NO_ZERO_DATE,PAD_CHAR_TO_FULL_LENGTH'",
    "show warnings",
    "set sql_mode = 'TRADITIONAL'",
    "set sql_mode = default",
    "select sql_no_cache 1",
    "show warnings",
    "set names klingon",
    "set names ucs2",
    "set character_set_results = NULL",
    "select 'abc', @@character_set_results, @@sql_mode",
    "set names default",
    "set character set latin1",
    "select 'abc', @@character_set_client, @@collation_connection",
    "set names utf8mb4",
    "set autocommit=0",
    "set autocommit = ON",
    "set @@session.autocommit = 'off'",
    "set autocommit=1",
    "set autocommit=2",
    "set nonsense=1",
    "set max_connections=1",
    "set wait_timeout='a'",
    "set wait_timeout=0",
    "show warnings",
    "show count(*) warnings",
    "show errors",
    "show warnings limit 0",
    "set wait_timeout=default",
    "set time_zone='+02:00'",
    "select @@time_zone",
    "set time_zone='Europe/Nowhere'",
    "show warnings",
    "set time_zone=default",
    "set sql_mode=''",
    "select @@sql_mode",
    "set sql_mode='ansi'",
    "select @@sql_mode, 'a'",
    "set sql_mode=concat(@@sql_mode, ',NO_BACKSLASH_ESCAPES')",
    "set sql_mode=default",
    "set sql_mode='nonsense'",
    "set net_write_timeout=600, sql_select_limit=10",
    "select @@net_write_timeout, @@sql_select_limit",
    "set net_write_timeout=default, sql_select_limit=default",
    "show all slaves status",
    "show authors",
    "show innodb status",
    "show",
    "set session_track_transaction_info='CHARACTERISTICS'",
    "start transaction",
    "select 1",
    "select 2",
    "commit",
    "start transaction read only",
    "commit and chain",
    "rollback",
    "start transaction with consistent snapshot, read only",
    "rollback and no chain",
    "set transaction isolation level serializable",
    "set transaction read only",
    "begin",
    "set transaction read only",
    "commit",
    "set @@transaction_isolation='serializable', @@transaction_read_only=1",
    "select @@transaction_isolation, @@session.transaction_read_only",
    "begin",
    "set @@transaction_isolation='read-committed'",
    "set @@transaction_read_only=default",
    "set @@transaction_isolation='nonsense'",
    "set sql_select_limit=7, @@transaction_read_only=0",
    "commit",
    "select @@sql_select_limit",
    "begin",
    "commit",
    "set @@transaction_isolation='nonsense'",
    "set @@transaction_isolation=2, @x=1",
    "select @x",
    "begin",
    "commit",
    "set @@transaction_read_only='on', nonsense=1",
    "set @@transaction_read_only=null",
    "begin",
    "commit",
    "set @@transaction_isolation=default, @@transaction_read_only=default",
    "begin",
    "commit",
    "set transaction read only",
    "set @@transaction_read_only=off",
    "begin",
    "commit",
    "set session transaction isolation level read committed",
    "set @@transaction_isolation=default",
    "begin",
    "commit",
    "start transaction with consistent snapshot",
    "show warnings",
    "commit",
    "set session transaction isolation level repeatable read",
    "begin work",
    "savepoint a",
    "savepoint B",
    "rollback to b",
    "release savepoint a",
    "rollback to savepoint a",
    "release savepoint zzz",
    "rollback",
    "set session_track_transaction_info=default",
    "set session_track_state_change=on",
    "set names utf8mb4",
    "use information_schema",
    "select database()",
    "set session_track_state_change=off",
    "use nope",
    "commit and chain release",
    "start transaction read only, read write",
];

/// Statements that a read-only server refuses, compared with one that has `super_read_only`.
const WRITES: &[&str] =
    &["insert into x.y values (1)", "create table x.y (a int)", "drop database x", "start transaction read write"];

#[test]
fn answers_to_text_are_mysqls() {
    let Some(server) = Server::or_skip("as-mysql", &[]) else { return };
    let door = open(|_| ());
    for capabilities in [
        CAPABILITIES,
        CAPABILITIES & !capability::DEPRECATE_EOF & !capability::SESSION_TRACK,
        CAPABILITIES & !capability::MULTI_STATEMENTS | capability::OPTIONAL_RESULTSET_METADATA,
    ] {
        let mut ours = RawClient::over_socket(&door.socket, "admin", capabilities);
        let mut theirs = RawClient::over_socket(&server.socket(), "root", capabilities);
        let found = differences(&mut ours, &mut theirs, &queries(STATEMENTS));
        assert!(found.is_empty(), "capabilities {capabilities:#x}\n{found}");
    }
}

#[test]
fn writes_are_refused_as_a_read_only_server_does() {
    let Some(server) = Server::or_skip("as-mysql", &["--super-read-only=ON"]) else { return };
    let door = open(|_| ());
    let mut ours = RawClient::over_socket(&door.socket, "admin", CAPABILITIES);
    let mut theirs = RawClient::over_socket(&server.socket(), "root", CAPABILITIES);
    let found = differences(&mut ours, &mut theirs, &queries(WRITES));
    assert!(found.is_empty(), "{found}");
}

/// Commands in order, by name; the first statement that is prepared has id 1 on both servers.
fn commands() -> Vec<(String, Vec<u8>)> {
    let mut all: Vec<(String, Vec<u8>)> = Vec::new();
    let mut add = |name: &str, payload: &[u8]| all.push((name.to_owned(), payload.to_vec()));
    add("ping", b"\x0e");
    add("init_db", b"\x02information_schema");
    add("init_db of none", b"\x02nope");
    add("set option", b"\x1b\x01\x00");
    add("two statements", b"\x03select 1; select 2");
    add("set option", b"\x1b\x00\x00");
    add("process kill", b"\x0c\x01\x00\x00\x00");
    add("unknown", b"\x64");
    let prepared = [
        "select 1, 'a', null, 1.5, 1e3, -1, 18446744073709551615, @@autocommit, @@sql_mode, database()",
        "select 1 limit 0",
        "commit",
        "show warnings",
        "set autocommit=1",
    ];
    for (number, sql) in (1u32..).zip(prepared) {
        add(&format!("prepare {sql}"), &[b"\x16", sql.as_bytes()].concat());
        for _ in 0..2 {
            let execute = [&b"\x17"[..], &number.to_le_bytes(), &[0, 1, 0, 0, 0]].concat();
            add(&format!("execute {sql}"), &execute);
        }
    }
    for sql in ["use information_schema", "begin", "rollback", "savepoint a", "select 1; select 2", "foo", ""] {
        add(&format!("prepare {sql}"), &[b"\x16", sql.as_bytes()].concat());
    }
    add("execute of none", b"\x17\x63\x00\x00\x00\x00\x01\x00\x00\x00");
    add("reset of none", b"\x1a\x63\x00\x00\x00");
    add("reset", b"\x1a\x01\x00\x00\x00");
    add("fetch of none", b"\x1c\x63\x00\x00\x00\x01\x00\x00\x00");
    add("fetch without a cursor", b"\x1c\x01\x00\x00\x00\x01\x00\x00\x00");
    add("reset connection", b"\x1f");
    add("after it", b"\x03select @@autocommit, database()");
    add("the statements are gone", b"\x17\x01\x00\x00\x00\x00\x01\x00\x00\x00");
    all
}

#[test]
fn answers_to_commands_are_mysqls() {
    let Some(server) = Server::or_skip("as-mysql", &[]) else { return };
    let door = open(|_| ());
    for capabilities in [CAPABILITIES, CAPABILITIES & !capability::DEPRECATE_EOF & !capability::SESSION_TRACK] {
        let mut ours = RawClient::over_socket(&door.socket, "admin", capabilities);
        let mut theirs = RawClient::over_socket(&server.socket(), "root", capabilities);
        let found = differences(&mut ours, &mut theirs, &commands());
        assert!(found.is_empty(), "capabilities {capabilities:#x}\n{found}");
    }
}
