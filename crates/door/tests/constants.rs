//! Literals, user variables, operators, functions and parameters: their answers are those of a real 9.7.

use crate::support;

use std::time::SystemTime;

use support::{CAPABILITIES, RawClient, differences, open, queries};
use testkit::Server;
use wire::handshake::capability;
use wire::row::type_code;

const STATEMENTS: &[&str] = &[
    "select x'41', X'4142', 0x4142, 0x4, b'01000001', B'1', 0b1, x'', b'', 0x00ff",
    "select _latin1 x'e9', _utf8mb4 0xc3a9, _latin1 b'01000001', _binary'abc', _binary 'a' 'b', x'41' as hex",
    "select 'a' like 'A', 'abc' like 'a%', 'abc' like 'a_c', 'abc' not like 'b%', '' like '', '' like '%', 'é' like 'E'",
    "select null like 'a', 'a' like null, null not like null, 'a' like 'b' is null",
    r"select 'a%' like 'a\%', 'ab' like 'a\%', 'a_' like 'a\_', 'ab' like 'a\b', 'a\\b' like 'a\\\\b', 'a' like 'a\\'",
    "select version() like '%nothing%', version() not like '%nothing%' as n, user() like '%@%', database() like 'x'",
    "select current_user() like '%', concat('a') like 'a', @@version like '9%', @@init_connect like ''",
    "select coalesce('a', null) like 'a', session_user() is null, 'a' like current_role(), 'x' like system_user()",
    "set time_zone='+01:00'",
    "set @s='12', sql_mode=concat(@@sql_mode, ',NO_BACKSLASH_ESCAPES')",
    r"select 'a\%' like 'a\%', 'a%' like 'a\%', 'a\b' like 'a\b', @s like '1%', @s like @s",
    "set sql_mode=default",
    "select 1 is null, null is null, null is not null, 'a' is not null, @@init_connect is null, database() is null",
    "select @s is null, 'a' is null is null, nope is null",
    "select now(), now(0), now(3), NOW( 6 ), current_timestamp, current_timestamp(), current_timestamp(6) limit 0",
    "select localtime, localtime(), localtimestamp(1), sysdate(), sysdate(2), curdate(), current_date limit 0",
    "select current_date(), curtime(), curtime(4), current_time, current_time(1), unix_timestamp() limit 0",
    "select utc_date, utc_date(), utc_time, utc_time(5), utc_timestamp, utc_timestamp(6), now() is null limit 0",
    "select convert_tz('2001-01-01 01:00:00','UTC','UTC'), convert_tz('2001-01-01 01:00:00','utc','+00:00') is not null",
    "select convert_tz('2001-01-01 01:00:00','+00:00','+02:30'), convert_tz('2001-01-01 01:00:00.25','-13:59','+14:00')",
    "select convert_tz(null,'+00:00','+02:30'), convert_tz('2001-01-01 01:00:00.500','+00:00',null)",
    "select convert_tz('1970-01-01 02:00:00','+02:00','+00:00'), convert_tz('1970-01-01 02:00:01','+02:00','+00:00')",
    "select convert_tz('3001-01-18 23:59:59','+00:00','+02:00'), convert_tz('3001-01-19 00:00:00','+00:00','+02:00')",
    "select convert_tz('1960-02-29 01:00:00','+00:00','+02:00'), convert_tz('2024-02-28 23:00:00','+00:00','+02:00')",
    "select convert_tz('2001-01-01 01:00:00','SYSTEM','+01:00'), convert_tz('1000-01-01 01:00:00','+01:00','SYSTEM')",
    "select convert_tz(now(),'+00:00','+02:30'), convert_tz(now(3), @@session.time_zone,'+00:00') limit 0",
    "select convert_tz(curdate(),'+00:00','+02:30'), convert_tz(convert_tz(now(2),'+00:00','UTC'),'UTC','UTC') limit 0",
    "select convert_tz('2001-01-01 01:00:00','+00:00')",
    "select timediff(now(), now()), timediff(now(3), utc_timestamp(3)), timediff(now(), null), timediff(null, null)",
    "select timediff(convert_tz(now(),'+00:00','-05:30'), now()), timediff(now(), convert_tz(now(),'+00:00','-13:59'))",
    "select timediff(convert_tz('2001-01-02 01:00:00.25','+00:00','+00:00'), convert_tz('2001-01-31 01:00:00','+00:00',\
     '+00:00')), timediff(convert_tz('2001-02-02 01:00:00.25','+00:00','+00:00'), convert_tz('2001-01-31 01:00:01.5',\
     '+00:00','+00:00'))",
    "select time_format(timediff(now(), convert_tz(now(), @@session.time_zone, '+00:00')), '%H:%i') as `offset`",
    "select time_format(timediff(now(), convert_tz(now(),'+00:00','-05:30')), '%H|%k|%h|%I|%l|%i|%s|%S|%f|%p|%r|%T|%%|x%')",
    "select time_format(timediff(convert_tz(now(3),'+00:00','-05:30'), now(3)), '%H|%k|%h|%l|%i|%s|%f|%p|%r|%T')",
    "select time_format(timediff(convert_tz('2001-02-02 01:00:00','+00:00','+00:00'), convert_tz('2001-01-31 02:03:04', \
     '+00:00','+00:00')), '%H|%k|%h|%l|%p|%r|%T'), time_format(null, '%H'), time_format(now(), '')",
    "select date_format(convert_tz('2024-02-29 13:04:05.678','+00:00','+00:00'), \
     '%a|%b|%c|%D|%d|%e|%f|%H|%h|%I|%i|%j|%k|%l|%M|%m|%p|%r|%S|%s|%T|%W|%w|%Y|%y|%%')",
    "select date_format(convert_tz('1999-12-01 00:04:05','+00:00','+00:00'), '%a %b %D %h %j %l %p %r %W %w %y'), \
     date_format(convert_tz('2023-11-12 12:00:00','+00:00','+00:00'), '%D %h %p %w'), \
     date_format(convert_tz('2023-05-22 12:00:00','+00:00','+00:00'), '%D %W %w'), \
     date_format(convert_tz('0001-03-23 23:00:00','+00:00','+00:00'), '%D %Y %y %l %j')",
    "select date_format(null, '%H'), date_format(now(), ''), concat(date_format(current_timestamp, '%' ), ' ', 'x')",
    "select concat(date_format(current_timestamp, '%H:%i:%s' ), ' ', @@system_time_zone) limit 0",
    "select date_format(curdate(), '%H:%i'), date_format(now(6), '%f')  limit 0",
    "select left('abc', 2), left('abc', -1), left('abc', null), left('abc', 0), left('abc', 9), left('äöü', 2)",
    "select left(user(), 3) is null, left(database(), 3), left(concat('a', 'bc'), 2), left('abc', 18446744073709551615)",
    "select left(current_role(), 2), left(version(), 1), left(schema(), 1)",
    "select concat(date_format(now(), '%H'), user()), concat(@@version, time_format(now(), '%i')) limit 0",
    "select concat('x', time_format(timediff(now(), null), '%H'), database()), concat(time_format(null, '%i'), 'x')",
    "select instr('abc', 'B'), instr(null, 'a'), instr('abc', null), instr('abc', ''), instr('', ''), instr('', 'a')",
    "select instr('a_b@c.d-e:f%', '@C.'), instr('a-b', 'ab'), instr('a.b', 'ab'), instr('a:b_', 'b_'), instr('a%b', 'ab')",
    "select instr(user(), '@') is null, instr(database(), 'x'), instr(concat(user(), '@'), '@') is null limit 0",
    "select instr(user(), 'zzz'), instr('zzz', concat('z')), instr(@@version, 'x')",
    "select 1-1, 5-7, instr('abc', 'c')-1, 18446744073709551615-1, 1+1, 1 + 2 - 3, 5-@@autocommit, 100+1, -5 - -7",
    "select 9223372036854775807 - 1, 18446744073709551614 + 1, 0 - 9223372036854775807, true + true, 1 - row_count()",
    "select database(), schema(), left(user(),instr(concat(user(),'@'),'@')-1) limit 0",
    "set names latin1",
    "select date_format(now(), '%H'), left('abc', 2), instr('abc', 'c'), convert_tz(now(), 'UTC', 'UTC') limit 0",
    "set names utf8mb4 collate utf8mb4_bin",
    "select date_format(now(), '%H'), left('abc', 2), left(user(), 2), time_format(now(), '%H:%i') limit 0",
    "set names default",
    "select now(7)",
    "select CURRENT_TIMESTAMP(9)",
    "select localtime(10)",
    "select curtime(8), 1",
    "select utc_time(7)",
    "select utc_timestamp(255)",
    "select sysdate(7)",
    "select unix_timestamp(1, 2)",
    "select now",
    "set @t=now(), @d=curdate(), @c=curtime(2), @u=unix_timestamp()",
    "select @t, @d, @c, @u limit 0",
    "select x'zz'",
    "select  x'4'",
    "select b'2'",
    "select 0x",
    "select 0x4G",
    "select _utf8mb4 x'ff'",
    "select -(-1), - -5, - - - 5, -(1), -(+5), -true, -false, -null, -(-1.5), - -1e0, -(-9223372036854775808)",
    "select -@@autocommit, -@@max_execution_time, -@@long_query_time, -row_count(), -last_insert_id()",
    "select -'5', -'-5', -'5.25', -x'41', -x'ff', -b'11', -0x0102",
    "select @nope, @`x y`, @",
    "set @i=5, @u=18446744073709551615, @n=-3, @d=1.50, @f=1e3, @s='12', @z=-null, @y=null, @h=x'41', @b=true",
    "select @i, @u, @n, @d, @f, @s, @z, @y, @h, @b",
    "select -@i, -@n, -@d, -@f, -@s, -@nope, -@y, -@z",
    "set @k=-1.5, @l=-'5', @m=(1), @p=.5, @q=-0.0, @w=-18446744073709551615",
    "select @k, @l, @m, @p, @q, @w",
    "set @v = version(), @db = database(), @c = 1 & 1, @cu = 'a', @names = concat('a', 'b')",
    "select @db, @c, @cu, @names, @V = 1 and @@nonsense",
    "set @a=1",
    "set @a=2, @b=@a",
    "select @a, @b, @A, @'a', @\"a\", @`a`",
    "set @a = nope",
    "set @a = default",
    "set @a = on",
    "set @a = all",
    "set @ = 1",
    "set @`` = 1",
    "set session @a = 1",
    "set @aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa = 1",
    "set @a.b = 1, @c$d := 2",
    "select @a.b, @c$d",
    "set @bad=1, nonsense=2",
    "select @bad",
    "set @left=1, autocommit=7",
    "select @left",
    "set sql_mode='', @o=@@sql_mode",
    "select @o, @@sql_mode",
    "set sql_mode=concat(@@sql_mode, ',ANSI_QUOTES'), @o=@@sql_mode",
    "select @o, @@sql_mode",
    "set sql_mode=default",
    "set names latin1",
    "set @l='a'",
    "select @l, @s, concat(@l, 'x'), concat(@s, 'x')",
    "set names utf8mb4",
    "select @l, @s, concat(@s, 'x'), @s as x",
    "set character_set_results = NULL",
    "select @s, concat(@@license, ' ', @@license), @@license, 'abc', concat('a', 'b'), x'41'",
    "set names utf8mb4",
    "set wait_timeout = 0x10",
    "set @t = 7",
    "set wait_timeout = @t",
    "select @@wait_timeout",
    "set wait_timeout = default",
    "select 1&1, 1|2, 5&null, 1|-1, @@autocommit&1, 18446744073709551615&-1, 1 or 0, 0 or null, 1 or null, 0 or 0",
    "select @@autocommit or 0, null or null, @@global.read_only&@@global.innodb_read_only read_only",
    "select @@innodb_file_per_table = 1 AND @@innodb_file_format = 'Barracuda'",
    "select cast('abc' as char), cast(12 as char), cast(null as char), cast(1.5 as char(10)), cast('é' as char(60))",
    "select cast(@@license as char), cast(@@autocommit as char(3)), cast('test plain returns' AS CHAR(60)) AS anon_1",
    "select find_in_set('a', 'b,a'), find_in_set('a', @@sql_mode), find_in_set(null, 'a'), find_in_set('', '')",
    "select find_in_set('A', 'a'), find_in_set('a,b', 'a,b'), find_in_set('', 'a,'), find_in_set('a')",
    "select FIND_IN_SET('ANSI', @@SQL_MODE) OR FIND_IN_SET('ANSI_QUOTES', @@SQL_MODE)",
    "select ifnull('a', 'b'), ifnull(null, 'b'), ifnull(@@init_connect, ''), ifnull('a', null), ifnull(@@init_file, 'e')",
    "select coalesce(null, 'a'), coalesce('a'), coalesce('a', 'bcd'), coalesce(@@license, ''), ifnull(@@license, 'abc')",
    "select ifnull('a')",
    "select concat(@@license, ',X'), concat(1, 2), concat(null, 'a'), concat(1e3, 'x'), concat(true, 'x'), concat(1.5, 'a')",
    "select concat(@@autocommit, '-', @@license)",
];

#[test]
fn constants_are_mysqls() {
    let Some(server) = Server::or_skip("constants", &[]) else { return };
    // As at the server: its system is in UTC, and it has no zones with names.
    let of_server = [("system_time_zone", "UTC"), (sql::KNOWS_UTC, "0")];
    let of_server = of_server.map(|(name, value)| (name.to_owned(), value.to_owned()));
    let door = open(|config| config.own_values.extend(of_server.clone()));
    for capabilities in [CAPABILITIES, CAPABILITIES & !capability::DEPRECATE_EOF & !capability::SESSION_TRACK] {
        let mut ours = RawClient::over_socket(&door.socket, "admin", capabilities);
        let mut theirs = RawClient::over_socket(&server.socket(), "root", capabilities);
        let found = differences(&mut ours, &mut theirs, &queries(STATEMENTS));
        assert!(found.is_empty(), "capabilities {capabilities:#x}\n{found}");
    }
}

/// A parameter: its type, whether it is unsigned, its bytes.
type Sent<'a> = (u8, bool, &'a [u8]);

/// COM_STMT_EXECUTE with one parameter.
fn execute(id: u32, (code, unsigned, bytes): Sent<'_>) -> Vec<u8> {
    let flag = if unsigned { 0x80 } else { 0 };
    let nulls = u8::from(code == type_code::NULL);
    [&b"\x17"[..], &id.to_le_bytes(), &[0, 1, 0, 0, 0, nulls, 1, code, flag], bytes].concat()
}

const PARAMETERS: &[Sent<'_>] = &[
    (type_code::TINY, false, b"\xfb"),
    (type_code::TINY, true, b"\xfb"),
    (type_code::SHORT, false, b"\xfb\xff"),
    (type_code::LONG, false, b"\xfb\xff\xff\xff"),
    (type_code::LONGLONG, false, b"\xfb\xff\xff\xff\xff\xff\xff\xff"),
    (type_code::LONGLONG, true, b"\xfb\xff\xff\xff\xff\xff\xff\xff"),
    (type_code::INT24, false, b"\xfb\xff\xff\xff"),
    (type_code::FLOAT, false, b"\0\0\xc0\x3f"),
    (type_code::FLOAT, false, b"\xcd\xcc\xcc\x3d"),
    (type_code::DOUBLE, false, b"\0\0\0\0\0\0\xf8\x3f"),
    (type_code::NEWDECIMAL, false, b"\x0412.5"),
    (type_code::DECIMAL, false, b"\x03007"),
    (type_code::NEWDECIMAL, false, b"\x05-0.00"),
    (type_code::VARCHAR, false, b"\x01a"),
    (type_code::BLOB, false, b"\x02\xc3\xa9"),
    (type_code::STRING, false, b"\x00"),
    (type_code::JSON, false, b"\x021 "),
    (type_code::BIT, false, b"\x011"),
    (type_code::ENUM, false, b"\x011"),
    (type_code::DATE, false, b"\x04\xea\x07\x0b\x19"),
    (type_code::DATE, false, b"\0"),
    (type_code::DATE, false, b"\x04\xea\x07\0\0"),
    (type_code::DATE, false, b"\x04\xea\x07\x0d\x19"),
    (type_code::DATE, false, b"\x07\xea\x07\x0b\x19\x01\x02\x03"),
    (type_code::DATETIME, false, b"\x07\xea\x07\x0b\x19\x01\x02\x03"),
    (type_code::DATETIME, false, b"\x0b\xea\x07\x0b\x19\x01\x02\x03\x01\0\0\0"),
    (type_code::DATETIME, false, b"\x04\xea\x07\x0b\x19"),
    (type_code::DATETIME, false, b"\0"),
    (type_code::DATETIME, false, b"\x0b\xea\x07\x0b\x19\x01\x02\x03\x40\x42\x0f\0"),
    (type_code::DATETIME, false, b"\x07\xea\x07\x02\x01\x19\x02\x03"),
    (type_code::TIMESTAMP, false, b"\x07\xea\x07\x0b\x19\x01\x02\x03"),
    (type_code::TIME, false, b"\x08\0\0\0\0\0\x01\x02\x03"),
    (type_code::TIME, false, b"\x0c\x01\x01\0\0\0\x01\x02\x03\x40\x42\x07\0"),
    (type_code::TIME, false, b"\0"),
    (type_code::TIME, false, b"\x08\0\x23\0\0\0\x01\x02\x03"),
    (type_code::TIME, false, b"\x08\0\0\0\0\0\x1a\x02\x03"),
    (type_code::TIME, false, b"\x08\0\0\0\0\0\x17\x3c\x03"),
];

/// Each parameter in a statement that is prepared anew; then sequences of types in one.
fn executions() -> Vec<(String, Vec<u8>)> {
    let mut all: Vec<(String, Vec<u8>)> = Vec::new();
    let mut id = 0;
    let mut prepare = |all: &mut Vec<(String, Vec<u8>)>, sql: &str| {
        id += 1;
        all.push((format!("prepare {sql}"), [b"\x16", sql.as_bytes()].concat()));
        id
    };
    for sent in PARAMETERS {
        let (select, set) = (prepare(&mut all, "select ?"), prepare(&mut all, "set @p = ?"));
        all.push((format!("select {sent:?}"), execute(select, *sent)));
        all.push((format!("again {sent:?}"), execute(select, *sent)));
        all.push((format!("set {sent:?}"), execute(set, *sent)));
        all.push(("its value".to_owned(), b"\x03select @p".to_vec()));
    }
    let int: Sent<'_> = (type_code::LONGLONG, false, b"\x05\0\0\0\0\0\0\0");
    let text: Sent<'_> = (type_code::VAR_STRING, false, b"\x0289");
    let double: Sent<'_> = (type_code::DOUBLE, false, b"\0\0\0\0\0\0\xf8\x3f");
    let decimal: Sent<'_> = (type_code::NEWDECIMAL, false, b"\x047.25");
    let date: Sent<'_> = (type_code::DATE, false, b"\x04\xea\x07\x0b\x19");
    let time: Sent<'_> = (type_code::DATETIME, false, b"\x04\xea\x07\x0b\x19");
    let null: Sent<'_> = (type_code::NULL, false, b"");
    for sequence in [
        &[int, text, null, double, text, decimal, int, null][..],
        &[decimal, int, decimal, double, decimal],
        &[null, int, null, date, time, date, null],
        &[text, null, date, date, time],
    ] {
        let id = prepare(&mut all, "select ?");
        all.extend(sequence.iter().map(|sent| (format!("{sequence:?}: {sent:?}"), execute(id, *sent))));
    }
    let limit = prepare(&mut all, "select 1 limit ?");
    for sent in [int, text, double, decimal, date] {
        all.push((format!("limit {sent:?}"), execute(limit, sent)));
    }
    for sql in ["select @unset, x'41'", "set @unset = ?, sql_mode = ?", "select ? as x, (?), +?", "set wait_timeout=?"]
    {
        prepare(&mut all, sql);
    }
    all.push(("set".to_owned(), b"\x03set @unset = 5".to_vec()));
    prepare(&mut all, "select @unset, -@unset");
    all.push(("names".to_owned(), b"\x03set names latin1".to_vec()));
    let latin1 = prepare(&mut all, "select ?");
    all.push(("latin1".to_owned(), execute(latin1, (type_code::VAR_STRING, false, b"\x01\xe9"))));
    all.push(("reset connection".to_owned(), b"\x1f".to_vec()));
    all.push(("after it".to_owned(), b"\x03select @p, @unset".to_vec()));
    all
}

#[test]
fn parameters_of_every_type_are_mysqls() {
    let Some(server) = Server::or_skip("constants", &[]) else { return };
    let door = open(|_| ());
    let mut ours = RawClient::over_socket(&door.socket, "admin", CAPABILITIES);
    let mut theirs = RawClient::over_socket(&server.socket(), "root", CAPABILITIES);
    let found = differences(&mut ours, &mut theirs, &executions());
    assert!(found.is_empty(), "{found}");
}

fn now_s() -> u64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap().as_secs()
}

/// The texts of a row, each shorter than 251 bytes.
fn texts(mut row: &[u8]) -> Vec<String> {
    let mut all = Vec::new();
    while let Some((len, rest)) = row.split_first() {
        let (text, rest) = rest.split_at(usize::from(*len));
        all.push(String::from_utf8(text.to_vec()).unwrap());
        row = rest;
    }
    all
}

/// The only row of an answer.
fn row(client: &mut RawClient, sql: &str) -> Vec<String> {
    let answer = client.query(sql);
    texts(&answer[answer.len() - 2])
}

/// Seconds of the day in `hh:mm:ss`.
fn of_day(text: &str) -> i64 {
    text.split(':').fold(0, |sum, part| sum * 60 + part.parse::<i64>().unwrap())
}

/// Types are compared with MySQL's above, values with the system's clock.
#[test]
fn the_time_is_that_of_the_statement_in_the_sessions_zone() {
    let door = open(|_| ());
    let mut client = RawClient::over_socket(&door.socket, "admin", CAPABILITIES);
    for (zone, offset_s) in [("+00:00", 0), ("+02:30", 9_000), ("-13:59", -50_340), ("+14:00", 50_400)] {
        client.query(format!("set time_zone = '{zone}'"));
        let before = now_s();
        let sql = "select unix_timestamp(), now(6), now(2), current_timestamp, curdate(), curtime(), utc_timestamp(), \
                   utc_date, utc_time(6)";
        let all = row(&mut client, sql);
        let seconds: u64 = all[0].parse().unwrap();
        assert!((before..=now_s()).contains(&seconds), "{all:?}");
        let now = &all[1];
        assert_eq!((now.len(), &all[2], &all[3]), (26, &now[..22].to_owned(), &now[..19].to_owned()));
        assert_eq!((&all[4], &all[5]), (&now[..10].to_owned(), &now[11..19].to_owned()));
        assert_eq!(all[6], format!("{} {}", all[7], &all[8][..8]));
        let day = 24 * 3600;
        assert_eq!(of_day(&all[8][..8]), i64::try_from(seconds).unwrap() % day, "{all:?}");
        assert_eq!((of_day(&all[5]) - of_day(&all[8][..8])).rem_euclid(day), i64::rem_euclid(offset_s, day), "{all:?}");
        // Kept as text with the digits that it has.
        client.query("set @a = now(), @b = now(4), @c = curdate(), @d = curtime(1)");
        let kept = row(&mut client, "select @a, @b, @c, @d");
        assert_eq!(kept.iter().map(String::len).collect::<Vec<_>>(), [19, 24, 10, 10], "{kept:?}");
        assert!(kept[1].starts_with(&kept[0]) && kept[0] >= all[3], "{kept:?}");
    }
    // A statement that waits has one moment; SYSDATE() is that of its evaluation.
    let all = row(&mut client, "select now(6), sleep(0.05), now(6), sysdate(6)");
    assert!(all[0] == all[2] && all[0] < all[3], "{all:?}");
    // Each statement has its own, also in one packet and prepared.
    let mut multi = RawClient::over_socket(&door.socket, "admin", CAPABILITIES | capability::MULTI_STATEMENTS);
    multi.query("set time_zone = '+00:00'");
    let answer = multi.query("select now(6); select sleep(0.05); select now(6)");
    let moments: Vec<_> = answer.iter().filter(|packet| packet.first() == Some(&26)).map(|row| texts(row)).collect();
    assert!(moments.len() == 2 && moments[0] < moments[1], "{answer:?}");
    client.prepare("select now(6), curdate(), curtime(6)");
    let mut execute = || {
        let answer = client.command(b"\x17\x01\0\0\0\0\x01\0\0\0");
        answer[answer.len() - 2].clone()
    };
    let (first, second) = (execute(), execute());
    // A header, the NULLs, then 11 bytes of DATETIME, 4 of DATE, 12 of TIME, with their lengths; none at midnight.
    assert_eq!((first.len(), first[2], first[14], first[19]), (32, 11, 4, 12), "{first:?}");
    assert_ne!(first, second);
}
