//! What is said of a statement when it is parsed, compared with a real 9.7 packet by packet: variables that will go,
//! version comments, comments alone, and what of it stands beside an error.

use crate::support;

use support::{CAPABILITIES, RawClient, different, open, queries};
use testkit::Server;
use wire::handshake::capability;

/// Statements that are each followed by SHOW WARNINGS.
const STATEMENTS: &[&str] = &[
    // Each place at which a variable is read counts, in the order of the text.
    "select @@profiling",
    "select @@binlog_format, @@profiling, @@profiling, @@global.profiling, @@session.profiling, @@local.profiling",
    "select @@PROFILING as p, @@Global.Binlog_Format as b, @@slave_net_timeout, @@init_slave, @@have_profiling",
    "select @@profiling limit 0",
    "select @@profiling is null, -@@profiling, concat(@@binlog_format, 'x'), ifnull(@@init_slave, ''), @@profiling & 1",
    "select @@profiling or 0, cast(@@profiling as char), @@profiling + 1",
    "select count(*) from information_schema.collations where id = @@profiling",
    "do @@profiling, @@binlog_format",
    "show variables like 'profiling'",
    "kill query @@profiling",
    "select '@@profiling', @profiling",
    // Up to a variable that cannot be read, and beside later errors.
    "select @@profiling, @@nonsense, @@profiling",
    "select @@nonsense, @@profiling",
    "select @@profiling, @@session.slave_net_timeout",
    "select @@profiling, nope",
    "select nope, @@profiling",
    "select @@profiling foo bar",
    // After what is said of words.
    "select @@profiling, 1 as full, @@binlog_format",
    "select sql_no_cache @@profiling",
    "select sql_no_cache sql_no_cache 1",
    "select sql_no_cache nope",
    "select 1 && foo bar baz",
    "select @@warning_count, @@profiling, @@error_count, @@binlog_format",
    "set @x = @@warning_count, @y = @@profiling",
    "select @x, @y",
    // What is set is named before values are checked.
    "set profiling = 0",
    "set session profiling = 0, @@profiling = 0, @@session.profiling = default, local binlog_format = 'ROW'",
    "set profiling = @@profiling, @x = @@binlog_format",
    "set @x = @@binlog_format, profiling = 0, @y = @@profiling",
    "set @x = @@profiling, @x = @@profiling",
    "set profiling = 0, sql_mode = 'NO_ZERO_DATE'",
    "set sql_mode = 'NO_ZERO_DATE', profiling = 0",
    "set sql_mode = default",
    "set net_write_timeout = 0, @x = @@profiling, net_read_timeout = 0, profiling = 0",
    "set net_write_timeout = default, net_read_timeout = default",
    "set pseudo_slave_mode = 0",
    "set pseudo_replica_mode = 0",
    "set profiling = 0, max_connections = 1, profiling = 0",
    "set max_connections = 1, profiling = 0",
    "set slave_net_timeout = 1",
    "set profiling = 0, nonsense = 1",
    "set @x = @@profiling, nonsense = 1",
    "set nonsense = 1, @x = @@profiling",
    "set nonsense = @@profiling",
    "set @x = @@profiling, wait_timeout = 'a'",
    "set wait_timeout = 'a', profiling = 0",
    "set wait_timeout = 'a', max_connections = 1",
    "set net_write_timeout = 0, sql_mode = 'NO_ZERO_DATE', autocommit = 7",
    "set @left = 1, max_connections = 1",
    "select @left",
    "set names utf8",
    "set names utf8mb3 collate utf8mb3_bin, profiling = 0",
    "set names utf8, nonsense = 1",
    "set names utf8 collate utf8mb4_bin",
    "set names utf8 foo",
    "set character_set_results = utf8, profiling = 0",
    "set collation_connection = utf8_bin",
    "set names utf8mb4",
    // Version comments.
    "select 1 /*!40101, 2*/",
    "select 1 /*!40101 , 2*/",
    "select 1 /*!40101\t, 2*/ /*!40101\n, 3*/ /*!40101\r, 4*/",
    "select 1 /*!, 2*/ /*!40101, 3*/ /*!40101, 4*/",
    "/*!40101select 1*/",
    "/*!40101SELECT*/ 1",
    "select /*!401011*/",
    "select /*!4010112*/",
    "select /*!040101 1*/",
    "select /*!0401012*/",
    "select 1 /*!99999, 2*/",
    "select 1 /*!99999 , 2*/",
    "select 1 /*!999999, 2*/",
    "select 1 /*!999999 , 2*/",
    "select 1 /*!100000 , 2*/",
    "select 1 /*!100000, 2*/",
    "select 1 /*!401010, 2*/",
    "select 1 /*!4010, 2*/",
    "select 1 /*!40101*/",
    "select '/*!40101, 2*/', 1 /* /*!40101, 2*/ -- /*!40101, 3*/",
    "select 1 # /*!40101, 2*/",
    "select 1 /*!40101, 2",
    "select 1 /*!40101",
    "select 1 /*!99999,",
    "select 1 /*! , 2 /* x */ , 3 */",
    "select 1 /*!99999 , 2 /* x */ , 3 */ , 4",
    "select 1 /*! , 2 /*!40101, 3 */",
    "select 1 /*! , 2 /*!99999, 3 */ , 4 */",
    "select 1 /*! , 2 /*! , 3 */ */",
    "select 1 foo bar /*!40101, 2*/",
    "select 1 /*!40101, 2*/ foo bar baz",
    "select 1 /*!40101, nope*/",
    "select 1 /*!40101 + 1*/, 2 /*!40101-1*/, /*! 3 */ + 1, 4 /* x */ + 1, 5 /*!99999 x */ + 1, 'a' /*!40101'b'*/",
    "set @x = 1 /*!40101, @y = 2*/",
    "SET /*!40101SQL_QUOTE_SHOW_CREATE*/ = 1",
    "/*!40101SET SQL_QUOTE_SHOW_CREATE = 1*/",
    "begin /*!40101work*/",
    "commit/*!40101work*/",
    "show /*!40101variables*/ like 'autocommit'",
    "do /*!40101(1)*/",
    "select @@profiling /*!40101as full*/",
    "select /*!40101sql_no_cache*/ 1 as full",
    "use /*!40101information_schema*/",
    // Comments alone are a statement.
    "/*!40101*/",
    "/*!99999x*/",
    "/* x */",
    "-- x",
    "# x",
    "/* x */ ; ",
    "/* x */ ; -- y",
    "/*!40101foo*/",
    "/* x",
    // What stands at the end of the text.
    "foo ; ",
    "select 1 from ;",
    ";",
    " ; ;\n",
    ";select 1",
    "select 1;;",
];

/// Of several in one text.
const SEVERAL: &[&str] = &[
    "select 1 /*!40101, 2*/; select 3 /*!40101, 4*/",
    "select @@profiling; select 1; select @@binlog_format",
    "select 1; /*!40101select 3*/",
    "select 1; /*!99999,*/",
    "select 1; -- x",
    "select 1; /* x */ select 2;",
    "select 1; ; select 2",
    "select 1; foo;",
    "select 1; 'abc",
    "select 1; /* abc",
    "select 1 /*!40101; select 2*/",
    "set profiling = 0; select @@warning_count; select 1",
];

/// Where only one statement is allowed in a text.
const ONE: &[&str] =
    &["select 1; /* x */", "select 1; -- x", "select 1; /* x */ select 2; ", "select 1; 'abc", "select 1;;"];

/// Statements that are prepared, executed twice and asked for their warnings each time.
const PREPARED: &[&str] = &[
    "select @@profiling, @@binlog_format",
    "select sql_no_cache @@profiling as full",
    "select 1 /*!40101, 2*/",
    "set @x = @@profiling, profiling = 0",
    "set profiling = 0",
    "set sql_mode = 'NO_ZERO_DATE'",
    "set names utf8",
    "set names utf8mb4",
    "do @@profiling",
    "kill query @@profiling",
    "commit /*!40101work*/",
    "select 1; /* x */",
    "select 1 ;; ",
];

/// Statements that are not.
const NOT_PREPARED: &[&str] = &[
    "select @@profiling, @@nonsense, @@binlog_format",
    "select @@profiling, nope",
    "select 1 /*!40101, 2*/ foo bar baz",
    "set profiling = 0, max_connections = 1",
    "set @x = @@profiling, nonsense = 1",
    "use /*!40101information_schema*/",
    "/*!40101*/",
    "/* x */ ; ",
    "foo ;",
    "; ",
    "",
    "select 1; select 2;",
    "select 1; /* x */ select 2",
];

const CAPABILITIES_HERE: u32 = CAPABILITIES & !capability::SESSION_TRACK;

/// Which statements use an index is MySQL's own affair here.
fn without_index_flag(packet: &mut Vec<u8>) {
    if let [0xfe, _, _, status, _, ..] = packet.as_mut_slice() {
        *status &= !0x20;
    }
}

fn with_warnings<'a>(statements: impl IntoIterator<Item = &'a str>) -> Vec<(String, Vec<u8>)> {
    let asked = |sql: &str| {
        let [statement, warnings] = [sql, "show warnings"].map(|sql| [b"\x03", sql.as_bytes()].concat());
        [(sql.to_owned(), statement), (format!("warnings of {sql}"), warnings)]
    };
    statements.into_iter().flat_map(asked).collect()
}

fn prepared() -> Vec<(String, Vec<u8>)> {
    let mut all = Vec::new();
    let warnings = |all: &mut Vec<_>, of: &str| all.push((format!("warnings of {of}"), b"\x03show warnings".to_vec()));
    for (number, sql) in (1u32..).zip(PREPARED.iter().chain(NOT_PREPARED)) {
        let what = format!("prepare {sql}");
        all.push((what.clone(), [b"\x16", sql.as_bytes()].concat()));
        warnings(&mut all, &what);
        for _ in (0..2).filter(|_| PREPARED.contains(sql)) {
            let what = format!("execute {sql}");
            all.push((what.clone(), [&b"\x17"[..], &number.to_le_bytes(), &[0, 1, 0, 0, 0]].concat()));
            warnings(&mut all, &what);
        }
    }
    all
}

#[test]
fn what_parsing_warns_of_is_mysqls() {
    let Some(server) = Server::or_skip("warnings", &[]) else { return };
    let door = open(|_| ());
    for capabilities in [CAPABILITIES_HERE, CAPABILITIES_HERE & !capability::DEPRECATE_EOF] {
        let mut ours = RawClient::over_socket(&door.socket, "admin", capabilities);
        let mut theirs = RawClient::over_socket(&server.socket(), "root", capabilities);
        let mut commands = with_warnings(STATEMENTS.iter().chain(SEVERAL).copied());
        commands.extend(prepared());
        let found = different(&mut ours, &mut theirs, &commands, without_index_flag);
        assert!(found.is_empty(), "capabilities {capabilities:#x}\n{found}");
    }
    let capabilities = CAPABILITIES_HERE & !capability::MULTI_STATEMENTS;
    let mut ours = RawClient::over_socket(&door.socket, "admin", capabilities);
    let mut theirs = RawClient::over_socket(&server.socket(), "root", capabilities);
    let found = different(&mut ours, &mut theirs, &with_warnings(ONE.iter().copied()), without_index_flag);
    assert!(found.is_empty(), "one statement\n{found}");
}

#[test]
fn every_deprecated_variable_is_warned_of() {
    let Some(server) = Server::or_skip("warnings", &[]) else { return };
    let door = open(|_| ());
    let mut statements = Vec::new();
    for variable in sql::variables().iter().filter(|variable| sql::deprecated_variable(variable.name).is_some()) {
        let name = variable.name;
        // Values are those of a machine.
        statements.extend([format!("select @@{name} limit 0"), format!("set @x = @@{name}")]);
        if variable.global {
            statements.push(format!("select @@global.{name} limit 0"));
        }
        if variable.session {
            statements.extend([format!("select @@session.{name} limit 0"), format!("set {name} = default")]);
        }
    }
    assert!(statements.len() > 120, "{}", statements.len());
    let mut ours = RawClient::over_socket(&door.socket, "admin", CAPABILITIES_HERE);
    let mut theirs = RawClient::over_socket(&server.socket(), "root", CAPABILITIES_HERE);
    let commands = with_warnings(statements.iter().map(String::as_str));
    let found = different(&mut ours, &mut theirs, &commands, |_| ());
    assert!(found.is_empty(), "{found}");
}

/// Operators after an expression.
const OPERATORS: &[&str] = &[
    "in (1)",
    "not in (1)",
    "between 0 and 1",
    "not between 0 and 1",
    "like 1",
    "not like 1",
    "like 1 escape '|'",
    "is null",
    "is not null",
    "is true",
    "is not unknown",
    "= 1",
    "<=> 1",
    "<> 1",
    "< 1",
    "regexp 1",
    "not regexp 1",
    "rlike 1",
    "sounds like 1",
    "member of ('[1]')",
    "member ('[1]')",
    "not member of ('[1]')",
    "+ 1",
    "| 1",
    "div 1",
    "and 1",
    "xor 1",
    "|| 1",
    "not",
    "is",
];

/// Other chains, and NOT before an expression.
const CHAINS: &[&str] = &[
    "select 1|2&0, 1&0|2, 1|2&3|4, 6&3|8, 2+1&1, 1-1|2",
    "select 1 = 1 in (1) in (1)",
    "select 1 = 1 is null in (1)",
    "select 1 in (1) = 1 in (1)",
    "select 1 between 0 and 1 between 0 and 1 between 0 and 1",
    "select 1 between 0 = 1 and 1",
    "select 1 between 0 in (1) and 1",
    "select 1 between 0 and 1 in (1) in (1)",
    "select 'a' like 'a' + 1",
    "select 'a' like not 1",
    "select (1 in (1)) in (1)",
    "select 1 in (1) member",
    "select 1 in (1) member, 2 is null sounds",
    "select 1 member",
    "select 1 sounds",
    "select 1 in ()",
    "select 1 not 1",
    "select not not 1",
    "select not 1 = 2",
    "select not 1 in (2) and 1",
    "select 1 = not 1",
    "select 1 + not 1",
    "select 1 = not(1)",
    "select - not 1",
    "select 1 between not 0 and 1",
    "select 1 between 0 and not 1",
    "select 1 in (not 1)",
    "select 1 and not 1",
    "set @x = 1 in (1) in (1)",
    "set @x = 1 is null in (1)",
    "do 1 like 1 like 1",
    "show variables where 1 in (1) in (1)",
    "select 1 from information_schema.collations where 1 is null like 1 limit 1",
];

fn is_refused(answer: &[Vec<u8>]) -> bool {
    answer.last().is_some_and(|last| last.starts_with(&[0xff, 0xd3, 0x04]))
}

/// What cannot be parsed at MySQL cannot be parsed here, with its text; of the rest what is not answered is refused.
#[test]
fn operators_follow_each_other_as_mysqls() {
    let Some(server) = Server::or_skip("warnings", &[]) else { return };
    let door = open(|_| ());
    let mut ours = RawClient::over_socket(&door.socket, "admin", CAPABILITIES_HERE);
    let mut theirs = RawClient::over_socket(&server.socket(), "root", CAPABILITIES_HERE);
    let pairs =
        OPERATORS.iter().flat_map(|first| OPERATORS.iter().map(move |second| format!("select 1 {first} {second}")));
    let mut statements: Vec<String> = pairs.chain(CHAINS.iter().map(|sql| (*sql).to_owned())).collect();
    for mode in ["HIGH_NOT_PRECEDENCE", "PIPES_AS_CONCAT", ""] {
        statements.push(format!("set sql_mode = '{mode}'"));
        statements.extend(CHAINS.iter().map(|sql| (*sql).to_owned()));
        let others = ["select 1 in (1) || 1", "select 'a' like 'a' || 'b' in (1)", "select 1 in (1) not in (1)"];
        statements.extend(others.map(str::to_owned));
    }
    let (mut wrong, mut errors) = (String::new(), 0);
    for (sql, command) in queries(&statements.iter().map(String::as_str).collect::<Vec<_>>()) {
        let (mine, real) = (ours.command(&command), theirs.command(&command));
        let is_error = real.last().is_some_and(|last| last.starts_with(&[0xff, 0x28, 0x04]));
        errors += usize::from(is_error);
        if if is_refused(&mine) { is_error } else { mine != real } {
            let shown =
                |answer: &[Vec<u8>]| answer.iter().map(|one| one.escape_ascii().to_string()).collect::<Vec<_>>();
            wrong.push_str(&format!("{sql}\n  {:?}\n  {:?}\n", shown(&mine), shown(&real)));
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
    assert!(errors > 400, "{errors}");
}
