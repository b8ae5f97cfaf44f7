//! What clients send that is unusual, and what they are told without asking, packet by packet as at the source:
//! malformed commands, texts that are empty or no text, long names of columns, metadata without a character set.

use std::cell::Cell;
use std::fmt::Write as _;

use testkit::raw_client::{CAPABILITIES, RawClient};
use whole_program_tests::{Replica, Server, folder};
use wire::handshake::capability::SESSION_TRACK;

const PING: &[u8] = b"\x0e";
const QUIT: &[u8] = b"\x01";

/// A source and its replica.
struct Pair {
    server: Server,
    ours: std::path::PathBuf,
    _replica: Replica,
    compared: usize,
    different: Vec<String>,
}

fn shown(packets: &[Vec<u8>]) -> String {
    let mut text = String::new();
    for packet in packets {
        let shown = packet.escape_ascii().to_string();
        writeln!(text, "  {}", shown.get(..400).unwrap_or(&shown)).unwrap();
    }
    text
}

impl Pair {
    fn start(name: &str, sql: &str) -> Option<Pair> {
        let server = Server::or_skip(name, &[])?;
        server.sql(sql);
        let (replica, ours) = Replica::with_socket(&server, &folder(name), &[]);
        Some(Pair { server, ours, _replica: replica, compared: 0, different: Vec::new() })
    }

    /// What both sides give for this, in sessions of their own.
    fn compare(&mut self, what: &str, of: impl Fn(&mut RawClient) -> Vec<Vec<u8>>) {
        let capabilities = CAPABILITIES & !SESSION_TRACK;
        let ours = of(&mut RawClient::over_socket(&self.ours, "admin", capabilities));
        let theirs = of(&mut RawClient::over_socket(&self.server.socket(), "root", capabilities));
        self.compared += 1;
        if ours != theirs {
            self.different.push(format!("{what}\n ours\n{} MySQL's\n{}", shown(&ours), shown(&theirs)));
        }
    }

    /// As [`compare`](Self::compare), of the definitions of columns alone: rows and flags are those of a server.
    fn compare_definitions(&mut self, what: &str, of: impl Fn(&mut RawClient) -> Vec<Vec<u8>>) {
        let refused = Cell::new(false);
        self.compare(what, |client| {
            let mut answer = of(client);
            refused.set(refused.get() || answer.iter().any(|packet| packet.starts_with(b"\xff\xd3\x04")));
            answer.retain(|packet| packet.starts_with(b"\x03def"));
            answer
        });
        if refused.get() && self.different.last().is_some_and(|last| last.starts_with(what)) {
            self.different.pop();
            self.compared -= 1;
        }
    }

    /// As [`compare`](Self::compare); statements that are refused by name (1235) are printed.
    fn compare_unless_refused(&mut self, what: &str, of: impl Fn(&mut RawClient) -> Vec<Vec<u8>>) {
        let mut clients = self.clients();
        self.compare_in(&mut clients, what, of);
    }

    /// A session here and one at the source.
    fn clients(&self) -> [RawClient; 2] {
        let capabilities = CAPABILITIES & !SESSION_TRACK;
        [(self.ours.clone(), "admin"), (self.server.socket(), "root")]
            .map(|(socket, user)| RawClient::over_socket(&socket, user, capabilities))
    }

    /// As [`compare_unless_refused`](Self::compare_unless_refused), in these sessions.
    fn compare_in(&mut self, clients: &mut [RawClient; 2], what: &str, of: impl Fn(&mut RawClient) -> Vec<Vec<u8>>) {
        let [ours, theirs] = clients;
        let (ours, theirs) = (of(ours), of(theirs));
        if ours != theirs && ours.iter().any(|packet| packet.starts_with(b"\xff\xd3\x04")) {
            println!("refused: {what}");
            return;
        }
        self.compared += 1;
        if ours != theirs {
            self.different.push(format!("{what}\n ours\n{} MySQL's\n{}", shown(&ours), shown(&theirs)));
        }
    }

    fn assert_same(&self, least: usize) {
        let shown: String = self.different.iter().map(|one| format!("{one}\n")).collect();
        assert!(self.different.is_empty(), "{} of {} differ\n{shown}", self.different.len(), self.compared);
        assert!(self.compared >= least, "{} compared", self.compared);
    }
}

/// Answers to all of these, each as one text.
fn queries(client: &mut RawClient, all: &[&[u8]]) -> Vec<Vec<u8>> {
    all.iter().flat_map(|sql| client.query(sql)).collect()
}

/// A statement is prepared with number 1 and executed, then come these packets; all that the server says to them.
fn said_to(client: &mut RawClient, packets: &[&[u8]]) -> Vec<Vec<u8>> {
    client.prepare("SELECT ?, ?");
    packets.iter().chain(&[PING, QUIT]).for_each(|packet| client.write(packet, 0));
    std::iter::from_fn(|| client.read_or_end()).collect()
}

/// Commands that are cut short, name something that is not there, or do not exist.
#[test]
fn malformed_commands_are_answered_as_by_mysql() {
    let Some(mut pair) = Pair::start("door-malformed", "CREATE DATABASE d; CREATE TABLE d.t (a INT PRIMARY KEY)")
    else {
        return;
    };
    let execute = |rest: &[u8]| [&b"\x17\x01\0\0\0"[..], rest].concat();
    let bound = |types: &[u8], values: &[u8]| execute(&[b"\0\x01\0\0\0\0\x01", types, values].concat());
    let mut cases: Vec<Vec<u8>> = vec![
        b"".to_vec(),
        b"\x02".to_vec(),
        b"\x02nothing".to_vec(),
        b"\x02d".to_vec(),
        b"\x03".to_vec(),
        b"\x16".to_vec(),
        b"\x17".to_vec(),
        b"\x17\x01\0".to_vec(),
        b"\x17\x09\0\0\0\0\x01\0\0\0".to_vec(),
        execute(b""),
        execute(b"\0"),
        execute(b"\0\x01\0\0"),
        execute(b"\0\x01\0\0\0"),
        execute(b"\0\x01\0\0\0\0"),
        execute(b"\0\x01\0\0\0\0\0"),
        execute(b"\0\x01\0\0\0\0\x01"),
        bound(b"\x08\0", b""),
        bound(b"\x08\0\x08\0", b"1234"),
        bound(b"\x08\0\x08\0", b"1234567812345678"),
        bound(b"\xfe\0\xfe\0", b"\x03ab"),
        bound(b"\xfe\0\xfe\0", b"\x01a\xfc\xff\xff"),
        bound(b"\xfe\0\xfe\0", b"\x01a\xfb"),
        bound(b"\xfe\0\xfe\0", b"\x01a\xff"),
        bound(b"\x63\0\x08\0", b"1234567812345678"),
        bound(b"\x0c\0\x08\0", b"\x0312345678"),
        bound(b"\x0c\0\x08\0", b"\x0b1234567890123456789"),
        bound(b"\x0c\0\x08\0", b"\x04\xff\xff\x63\x6312345678"),
        bound(b"\x08\0\x08\0", b"1234567812345678 and more"),
        bound(b"\xfe\0\xfe\0", b"\xfbab"),
        bound(b"\xfe\0\xfe\0", b"\x01a\x05bc"),
        bound(b"\xfe\0\xfe\0", b"\x01a\xfc\xff"),
        b"\x17\x01\0\0\0\0\x02\0\0\0\x03\x01\x06\0\x06\0".to_vec(),
        execute(b"\x08\x01\0\0\0\x03\x01\x06\0\x06\0"),
        b"\x18".to_vec(),
        b"\x18\x01\0\0\0".to_vec(),
        b"\x18\x01\0\0\0\0\0".to_vec(),
        b"\x18\x01\0\0\0\x09\0abc".to_vec(),
        b"\x18\x09\0\0\0\0\0abc".to_vec(),
        b"\x19".to_vec(),
        b"\x19\x09\0\0\0".to_vec(),
        b"\x19\x01\0".to_vec(),
        b"\x1a".to_vec(),
        b"\x1a\x01\0".to_vec(),
        b"\x1a\x09\0\0\0".to_vec(),
        b"\x1a\x01\0\0\0".to_vec(),
        b"\x1b".to_vec(),
        b"\x1b\0".to_vec(),
        b"\x1b\x09\0".to_vec(),
        b"\x1b\0\0".to_vec(),
        b"\x1b\x01\0".to_vec(),
        b"\x1c".to_vec(),
        b"\x1c\x01\0\0\0".to_vec(),
        b"\x1c\x01\0\0\0\x01\0\0\0".to_vec(),
        b"\x1c\x09\0\0\0\x01\0\0\0".to_vec(),
        b"\x0c".to_vec(),
        b"\x0c\0\0\0\0".to_vec(),
        b"\x08".to_vec(),
        b"\x08\0".to_vec(),
        b"\x07".to_vec(),
        b"\x11".to_vec(),
        b"\x1e".to_vec(),
        b"\x12".to_vec(),
        b"\x15".to_vec(),
        b"\x14".to_vec(),
        b"\x1f".to_vec(),
    ];
    cases.extend([0x00, 0x05, 0x06, 0x0b, 0x0f, 0x10, 0x13, 0x1d, 0x20, 0x21, 0x22, 0x7f, 0xff].map(|code| vec![code]));
    // Of every type but DECIMAL, whose texts are numbers, NULL, BLOBs, which are described as texts here, and those
    // that are never sent.
    let codes = (0u8..=255).filter(|code| !matches!(code, 0 | 6 | 242 | 244 | 246 | 249..=252));
    cases.extend(codes.map(|code| bound(&[code, 0, 8, 0], b"\x04\x05\x07\x01\x02345678123456789")));
    for case in &cases {
        pair.compare(&case.escape_ascii().to_string(), |client| said_to(client, &[case]));
    }
    // Data for a parameter that is not there fails each execution until the statement is reset.
    let nulls = execute(b"\0\x01\0\0\0\x03\x01\x06\0\x06\0");
    let texts = bound(b"\xfe\0\xfe\0", b"\x01a\x01b");
    let one_null = execute(b"\0\x01\0\0\0\x02\x01\xfe\0\xfe\0\x01a");
    let (reset, other) = (&b"\x1a\x01\0\0\0"[..], &b"\x18\x01\0\0\0\x01\0de"[..]);
    for long in [&b"\x18\x01\0\0\0\x09\0abc"[..], b"\x18\x01\0\0\0", b"\x18\x01\0\0\0\x01\0abc"] {
        for then in [&nulls, &texts, &one_null] {
            let what = format!("{} and {}", long.escape_ascii(), then.escape_ascii());
            pair.compare(&what, |client| said_to(client, &[long, then, then]));
            pair.compare(&format!("{what}, reset"), |client| said_to(client, &[long, reset, then]));
            pair.compare(&format!("{what}, more"), |client| said_to(client, &[long, other, then]));
        }
    }
    pair.assert_same(300);
}

/// A comment alone is a statement that does nothing; semicolons alone are none.
#[test]
fn texts_that_are_empty_or_no_text_are_answered_as_by_mysql() {
    let Some(mut pair) = Pair::start(
        "door-texts",
        "CREATE DATABASE d; CREATE TABLE d.t (u BINARY(4) PRIMARY KEY, s VARCHAR(9)); \
         INSERT INTO d.t VALUES (x'd2e4a6b8', 'a'), (x'61626364', 'b')",
    ) else {
        return;
    };
    let empty: &[&[u8]] = &[
        b"",
        b" ",
        b";",
        b" ; ",
        b";;",
        b"-- alive",
        b"/* alive */",
        b"# alive",
        b"/* a */;",
        b"-- a\n;",
        b"\0",
        b"\n",
        b"/*!99999 a */",
        b"/*!50000 */",
        b"/* not closed",
        b"--",
        b"--\n",
        b"/**/ -- x",
        b"SELECT 1;",
        b"SELECT 1;;",
        b"SELECT 1; ",
        b"SELECT 1; -- x",
        b"; SELECT 1",
        b"/* a */ SELECT 1",
        b"SELECT 1; SELECT 2",
        b"SELECT 1;;SELECT 2",
    ];
    for sql in empty {
        pair.compare(&format!("query {}", sql.escape_ascii()), |client| client.query(sql));
        pair.compare(&format!("prepare {}", sql.escape_ascii()), |client| client.command(&[b"\x16", *sql].concat()));
    }
    let no_text: &[&[u8]] = &[
        b"SELECT '\xff'",
        b"SELECT 'a\xd2\xe4'",
        b"SELECT '\xe4' AS \"x\"",
        b"SELECT 1 AS `\xff`",
        b"SELECT 1 AS '\xff'",
        b"SELECT _binary'\xff\xfe'",
        b"SELECT _utf8mb4'\xff'",
        b"SELECT _latin1'\xff'",
        b"SELECT '\xf0\x9f'",
        b"SELECT '\xed\xa0\x80'",
        b"SELECT '\xc0\x80'",
        b"SELECT '\xf4\x90\x80\x80'",
        b"SELECT u FROM d.t WHERE u = '\xd2\xe4\xa6\xb8'",
        b"SELECT u FROM d.t WHERE u IN ('\xd2\xe4\xa6\xb8', 'abcd')",
        b"SELECT u FROM d.t WHERE u > '\xd2\xe4\xa6'",
        b"SELECT s FROM d.t WHERE s = 'a' -- \xff",
        b"SELECT /* \xff */ 1",
        b"SELECT '\xff\xfe\xfd', '\xfe'",
        b"DO '\xff'",
    ];
    for sql in no_text {
        let warned = |client: &mut RawClient| queries(client, &[*sql, b"SHOW WARNINGS", b"SELECT @a"]);
        pair.compare(&sql.escape_ascii().to_string(), warned);
        if !sql.starts_with(b"SELECT _utf8mb4") {
            let in_latin1 = |client: &mut RawClient| queries(client, &[b"SET NAMES latin1", *sql, b"SHOW WARNINGS"]);
            pair.compare(&format!("latin1: {}", sql.escape_ascii()), in_latin1);
        }
        pair.compare(&format!("prepare {}", sql.escape_ascii()), |client| {
            let mut packets = client.command(&[b"\x16", *sql].concat());
            packets.extend(client.query("SHOW WARNINGS"));
            packets
        });
    }
    pair.assert_same(90);
}

/// The server cuts the name that an expression gives its column.
#[test]
fn columns_are_named_after_their_expressions_as_by_mysql() {
    let Some(mut pair) = Pair::start("door-names", "CREATE DATABASE d; CREATE TABLE d.t (a INT PRIMARY KEY)") else {
        return;
    };
    let mut texts = Vec::new();
    for len in [62, 63, 64, 65, 254, 255, 256, 257, 300, 1000] {
        texts.push(format!("'{}'", "x".repeat(len)));
        texts.push(format!("'{}'", "ä".repeat(len)));
        texts.push(format!("'x{}'", "ä".repeat(len)));
        texts.push(format!("'{}'", "😀".repeat(len)));
        texts.push(format!("'  {}'", "x".repeat(len)));
        texts.push(format!("'{}  y'", " ".repeat(len)));
        texts.push(format!("{}1", "1 + ".repeat(len / 4)));
        texts.push(format!("1{}", " ".repeat(len)));
        texts.push(format!("x'{}'", "61".repeat(len)));
        texts.push(format!("\"{}\"", "y".repeat(len)));
        texts.push(format!("'{}' 'z'", "y".repeat(len)));
        texts.push(format!("_utf8mb4'{}'", "y".repeat(len)));
        texts.push(format!("concat('{}', '{}')", "y".repeat(len / 2), "z".repeat(len / 2)));
        texts.push(format!("/* {} */ 1", "y".repeat(len)));
        texts.push(format!("1 AS `{}`", "y".repeat(len)));
        texts.push(format!("1 AS '{}'", "ä".repeat(len)));
        texts.push(format!("@{}", "v".repeat(len)));
    }
    for text in [
        "'a\\'b'", "'a''b'", "'a\\nb'", "'\\t x'", "''", "' '", "NULL", "-1", "+1", "1.50", "0x41", "b'01'", "TRUE",
        "(1)", "'a' 'b'", "'\x01x'", "'\x01'", "\\N",
    ] {
        texts.push(text.to_owned());
    }
    for text in &texts {
        let sql = format!("SELECT {text}");
        for before in ["SET NAMES utf8mb4", "SET NAMES latin1", "SET character_set_results = NULL"] {
            let both = |client: &mut RawClient| queries(client, &[before.as_bytes(), sql.as_bytes()]);
            pair.compare(&format!("{before}; {sql}"), both);
        }
        pair.compare(&format!("prepare {sql}"), |client| client.prepare(&sql));
    }
    pair.assert_same(500);
}

/// The most parameters are 65,535; columns are as many as a statement has.
#[test]
fn as_many_parameters_are_prepared_as_by_mysql() {
    let Some(mut pair) = Pair::start("door-many", "CREATE DATABASE d; CREATE TABLE d.t (a INT PRIMARY KEY)") else {
        return;
    };
    for count in [4_096, 65_533, 65_534, 65_535, 65_536, 70_000] {
        let list = vec!["?"; count].join(",");
        for sql in [format!("SELECT {list}"), format!("SELECT a FROM d.t WHERE a IN ({list})"), format!("DO {list}")] {
            pair.compare(&format!("{count}: {}", &sql[..30]), |client| client.prepare(&sql));
        }
    }
    for count in [4_097, 65_535] {
        let list = vec!["1"; count].join(",");
        pair.compare(&format!("{count} columns"), |client| client.query(format!("SELECT {list}")));
    }
    pair.assert_same(20);
}

/// Without a character set of results a column of text says its own.
#[test]
fn metadata_without_a_character_set_of_results_is_mysqls() {
    let Some(mut pair) = Pair::start(
        "door-null-results",
        "CREATE DATABASE d; CREATE TABLE d.t (a INT PRIMARY KEY, v VARCHAR(9) CHARACTER SET latin1, e ENUM('a'), j JSON, \
         b BLOB, s VARCHAR(3) COLLATE utf8mb4_bin, n DECIMAL(5,2), d DATETIME(3), x TEXT CHARACTER SET ucs2); \
         INSERT INTO d.t VALUES (1, 'ä', 'a', '{}', 'b', 's', 1, '2020-01-01', 'x'); CREATE VIEW d.w AS SELECT a FROM d.t",
    ) else {
        return;
    };
    let mut texts: Vec<String> = [
        "SHOW DATABASES",
        "SHOW TABLES FROM d",
        "SHOW FULL TABLES FROM d",
        "SHOW COLUMNS FROM d.t",
        "SHOW FULL COLUMNS FROM d.t",
        "SHOW CREATE TABLE d.t",
        "SHOW CREATE DATABASE d",
        "SHOW VARIABLES LIKE 'version_comment'",
        "SHOW WARNINGS",
        "SHOW CHARACTER SET LIKE 'latin1'",
        "SHOW COLLATION LIKE 'latin1_bin'",
        "SHOW ENGINES",
        "SHOW TRIGGERS FROM d",
        "SHOW EVENTS FROM d",
        "SHOW PROCEDURE STATUS WHERE Db = 'nothing'",
        "SHOW TABLE STATUS FROM d LIKE 'nothing'",
        "SHOW STATUS LIKE 'nothing'",
        "SHOW PRIVILEGES",
        "SHOW OPEN TABLES FROM d LIKE 'nothing'",
        "SELECT WORD FROM information_schema.KEYWORDS WHERE RESERVED = 1 ORDER BY WORD",
        "SELECT 'a', 1, NULL, 1.5, x'41', _latin1'a', DATABASE(), @a, @@version_comment",
        "SELECT * FROM d.t",
        "SELECT v, e, j, b, s, x FROM d.t WHERE a = 1",
    ]
    .map(str::to_owned)
    .to_vec();
    let views = pair.server.sql(
        "SELECT CONCAT(TABLE_SCHEMA, '.', TABLE_NAME) FROM information_schema.TABLES \
         WHERE TABLE_SCHEMA IN ('information_schema', 'performance_schema') \
         AND TABLE_NAME <> 'TABLESPACES_EXTENSIONS' ORDER BY 1",
    );
    texts.extend(views.lines().map(|view| format!("SELECT * FROM {view} WHERE 0")));
    for sql in &texts {
        for setting in ["SET character_set_results = NULL", "SET NAMES latin1", "SET NAMES utf8mb4"] {
            pair.compare_definitions(&format!("{setting}; {sql}"), |client| {
                queries(client, &[setting.as_bytes(), sql.as_bytes()])
            });
        }
    }
    pair.assert_same(500);
}

/// Under time_zone SYSTEM, which a source may have as UTC.
#[test]
fn defaults_of_timestamps_are_told_as_by_mysql() {
    let Some(mut pair) = Pair::start(
        "door-timestamps",
        "CREATE DATABASE d; USE d; SET time_zone = 'SYSTEM'; \
         CREATE TABLE s (x TIMESTAMP NULL DEFAULT '2009-04-05 12:00:00', y DATETIME DEFAULT '2001-01-01 00:00:00', \
         z TIMESTAMP(3) NOT NULL DEFAULT '2009-04-05 12:00:00.125'); CREATE TABLE l LIKE s; \
         SET time_zone = '+00:00'; CREATE TABLE u (x TIMESTAMP DEFAULT '2009-04-05 12:00:00', b INT); \
         CREATE TABLE v LIKE u; CREATE TABLE w LIKE u; CREATE TABLE q LIKE u; \
         SET time_zone = '+02:00'; CREATE TABLE o LIKE u; CREATE TABLE p (x TIMESTAMP DEFAULT '2009-04-05 12:00:00'); \
         ALTER TABLE v ADD c INT; ALTER TABLE w RENAME TO x; ALTER TABLE q COMMENT = 'q'",
    ) else {
        return;
    };
    for zone in ["SYSTEM", "+00:00", "+02:00", "-05:30"] {
        for table in ["s", "l", "o", "p", "q", "u", "v", "x"] {
            for sql in [
                format!("DESCRIBE d.{table}"),
                format!("SHOW CREATE TABLE d.{table}"),
                format!(
                    "SELECT COLUMN_NAME, COLUMN_DEFAULT FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = 'd' AND \
                     TABLE_NAME = '{table}' AND COLUMN_NAME = 'x'"
                ),
            ] {
                let zone = format!("SET time_zone = '{zone}'");
                pair.compare(&format!("{zone}; {sql}"), |client| queries(client, &[zone.as_bytes(), sql.as_bytes()]));
            }
        }
    }
    pair.assert_same(90);
}

/// Texts of a client that are no text in its character set, and national ones, wherever a statement may have them.
#[test]
fn texts_that_are_no_text_are_answered_as_by_mysql() {
    let Some(mut pair) = Pair::start(
        "door-odd-text",
        "CREATE DATABASE b; CREATE TABLE b.t (u BINARY(4) PRIMARY KEY, n INT, w VARCHAR(9), KEY w (w)); \
         INSERT INTO b.t VALUES (x'd2e4a6b8', 1, 'a'), (x'd2e4a6b9', 2, 'b')",
    ) else {
        return;
    };
    for charset in ["utf8mb4", "latin1", "gbk"] {
        let names = format!("SET NAMES {charset}");
        for sql in ODD_TEXTS {
            let what = format!("{names}; {}", sql.escape_ascii());
            pair.compare_unless_refused(&what, |client| {
                let said = queries(client, &[names.as_bytes(), sql, b"SHOW WARNINGS", b"SELECT @a, @n"]);
                said.into_iter().map(without_cardinality).map(without_index_bit).collect()
            });
        }
    }
    pair.assert_same(135);
}

/// The end of rows without the bit that no index was used, which follows from MySQL's own plan.
fn without_index_bit(mut packet: Vec<u8>) -> Vec<u8> {
    if let [0xfe, _, _, status, ..] = packet.as_mut_slice() {
        *status &= !0x20;
    }
    packet
}

/// A row of SHOW KEYS without its seventh cell: how many values there are is an estimate.
fn without_cardinality(packet: Vec<u8>) -> Vec<u8> {
    let (mut at, mut places) = (0, Vec::new());
    while let Some(len) = packet.get(at) {
        places.push(at);
        at += if *len == 0xfb { 1 } else { usize::from(*len) + 1 };
    }
    match places.get(6..8) {
        Some([start, end]) if places.len() == 15 && packet.starts_with(b"\x01t") => {
            [&packet[..*start], &packet[*end..]].concat()
        }
        _ => packet,
    }
}

/// Names that are no text, that no table can have, or that only other character sets have.
#[test]
fn names_that_are_no_names_are_answered_as_by_mysql() {
    let Some(mut pair) = Pair::start("door-odd-names", "CREATE DATABASE b; CREATE TABLE b.t (n INT PRIMARY KEY)")
    else {
        return;
    };
    let long = [b'x'; 65];
    let names: &[&[u8]] = &[
        b"\xff",
        b"a\xff",
        b"a\xffb",
        b"a\xffbcd",
        b"a\xffbcdefgh",
        b"\xffabcd",
        b"\x80",
        b"\x80a",
        b"a\xe4",
        b"a\xe4bc",
        b"a\xd2\xe4",
        b"a\xd2\xe4xyz",
        b"a\xf0\x9f\x98",
        b"a\xf0\x9f\x98\x80",
        b"\xed\xa0\x80",
        b"\xc0\x80",
        b"a\xf8bcd",
        b"\xc3\xa4",
        b"\xe4\xb8\xad\xc3\xa4",
        b"",
        b" ",
        b"t ",
        &long,
    ];
    let forms: &[(&[u8], &[u8])] = &[
        (b"SELECT 1 AS `", b"`"),
        (b"SELECT 1 AS '", b"'"),
        (b"SELECT n AS `", b"` FROM b.t"),
        (b"SELECT `", b"` FROM b.t"),
        (b"SELECT n FROM b.t AS `", b"`"),
        (b"SELECT n FROM b.t ORDER BY `", b"`"),
        (b"SELECT n FROM b.t WHERE `", b"` = 1"),
        (b"SELECT n FROM b.t USE INDEX (`", b"`)"),
        (b"SELECT n FROM b.`", b"`"),
        (b"SELECT n FROM `", b"`"),
        (b"SELECT n FROM `", b"`.t"),
        (b"USE `", b"`"),
        (b"SHOW TABLES FROM `", b"`"),
        (b"SHOW TABLES FROM b LIKE '", b"'"),
        (b"SHOW DATABASES LIKE '", b"'"),
        (b"SHOW VARIABLES LIKE '", b"'"),
        (b"SHOW COLUMNS FROM b.`", b"`"),
        (b"SHOW COLUMNS FROM b.t LIKE '", b"'"),
        (b"SHOW INDEX FROM t FROM `", b"`"),
        (b"SHOW CREATE TABLE b.`", b"`"),
        (b"SHOW CREATE DATABASE `", b"`"),
        (b"SHOW TRIGGERS FROM `", b"`"),
        (b"LOCK TABLES b.`", b"` READ"),
        (b"ROLLBACK TO `", b"`"),
        (b"SET NAMES '", b"'"),
        (b"SET `", b"` = 1"),
        (b"SELECT @@`", b"`"),
        (b"SET @`", b"` = 7"),
        (b"SELECT 1 FRUM `", b"` abcd"),
    ];
    for charset in ["utf8mb4", "utf8mb3", "latin1", "gbk"] {
        for name in names {
            let mut clients = pair.clients();
            for (before, after) in forms {
                let sql = [*before, *name, *after].concat();
                // A quote that half a character takes is met at another place of a variable.
                let is_open =
                    charset == "gbk" && before.contains(&b'@') && name.last().is_some_and(|last| *last >= 0x80);
                if is_open {
                    continue;
                }
                let set = format!("SET NAMES {charset}");
                pair.compare_in(&mut clients, &format!("{set}; {}", sql.escape_ascii()), |client| {
                    let said = queries(client, &[set.as_bytes(), &sql, b"SHOW WARNINGS"]);
                    said.into_iter().map(without_index_bit).collect()
                });
            }
        }
    }
    pair.assert_same(2_500);
}

/// Rows and columns that a SHOW with WHERE leaves; the status says whether MySQL's dictionary used an index.
#[test]
fn where_of_a_show_chooses_as_by_mysql() {
    let Some(mut pair) = Pair::start(
        "door-show-where",
        "CREATE DATABASE b; CREATE TABLE b.t (n INT PRIMARY KEY, w VARCHAR(9), KEY w (w), UNIQUE KEY nw (n, w)); \
         CREATE TABLE b.u (n INT)",
    ) else {
        return;
    };
    let texts = [
        "SHOW VARIABLES WHERE Variable_name = 'autocommit' OR Variable_name LIKE 'sql_sel%'",
        "SHOW VARIABLES WHERE Variable_name = 'autocommit' OR Variable_name = 'sql_mode' OR Variable_name = 'none'",
        "SHOW VARIABLES WHERE Variable_name LIKE 'sql\\_%' AND (Value = 'ON' OR Value = 'OFF')",
        "SHOW VARIABLES WHERE Variable_name = 'none' OR Value = 'none'",
        "SHOW VARIABLES WHERE (Variable_name = 'autocommit' OR 0) AND 1",
        "SHOW STATUS WHERE Variable_name = 'none' OR Variable_name = 'nothing'",
        "SHOW COLLATION WHERE Charset = 'latin1' AND (Id = 8 OR Id = 47)",
        "SHOW COLLATION WHERE `Default` = 'Yes' AND Charset IN ('latin1', 'gbk')",
        "SHOW COLLATION WHERE Sortlen > 1 AND Id BETWEEN 10 AND 20 OR Collation = 'binary'",
        "SHOW CHARACTER SET WHERE Maxlen = 3 OR Charset = 'latin1'",
        "SHOW CHARACTER SET WHERE Maxlen",
        "SHOW DATABASES WHERE `Database` = 'b' OR `Database` = 'none'",
        "SHOW TABLES FROM b WHERE Tables_in_b = 't' OR Tables_in_b = 'u'",
        "SHOW FULL TABLES FROM b WHERE Table_type = 'VIEW' OR Table_type = 'BASE TABLE' AND Tables_in_b <> 't'",
        "SHOW COLUMNS FROM b.t WHERE Field = 'w' OR `Null` = 'NO'",
        "SHOW FULL COLUMNS FROM b.t WHERE Collation IS NULL OR Field = 'w' AND `Key` <> ''",
        "SHOW KEYS FROM b.t WHERE Non_unique",
        "SHOW KEYS FROM b.t WHERE Non_unique = 0 AND Seq_in_index = 2 OR Key_name = 'w'",
        "SHOW INDEX FROM b.t WHERE Key_name = 'none' || Column_name = 'n'",
        "SHOW INDEX FROM b.t WHERE none = 1 OR Non_unique",
        "SHOW TABLE STATUS FROM b WHERE Name = 'none' OR Engine = 'none'",
        "SHOW OPEN TABLES FROM b WHERE In_use",
        "CHECK TABLE b.t",
        "CHECK TABLE b.t, b.nothing QUICK",
        "SELECT n FROM b.t",
        "SHOW OPEN TABLES FROM b LIKE 't'",
        "SELECT PLUGIN_NAME, PLUGIN_STATUS, PLUGIN_TYPE, PLUGIN_LIBRARY FROM information_schema.PLUGINS \
         WHERE PLUGIN_NAME IN ('InnoDB', 'caching_sha2_password') ORDER BY PLUGIN_NAME",
        "SHOW OPEN TABLES FROM b WHERE In_use > 0 OR Name_locked > 0",
        "SHOW TRIGGERS FROM b WHERE `Table` = 't' OR `Trigger` = 'none'",
        "SHOW EVENTS FROM b WHERE Name = 't' OR Status = 'none'",
        "SHOW PROCEDURE STATUS WHERE Db = 'b' OR Db = 'none'",
        "SHOW FUNCTION STATUS WHERE Db = 'b' AND (Name = 'a' OR Name = 'b')",
        "SHOW PLUGINS WHERE Name = 'x'",
        "SHOW ENGINES WHERE Engine = 'x'",
        "SELECT SCHEMA_NAME FROM information_schema.SCHEMATA WHERE SCHEMA_NAME = 'b' OR SCHEMA_NAME = 'none'",
        "SELECT COUNT(*) FROM information_schema.COLUMNS WHERE TABLE_SCHEMA = 'b' AND (TABLE_NAME = 'u' OR 0)",
        "SELECT COUNT(*) FROM information_schema.TABLES WHERE TABLE_SCHEMA = 'b' OR TABLE_SCHEMA = 'none'",
    ];
    for sql in texts {
        pair.compare(sql, |client| {
            let mut said = client.query(sql);
            said.retain(|packet| !packet.starts_with(b"\xfe"));
            said.into_iter().map(without_cardinality).collect()
        });
    }
    pair.assert_same(30);
}

/// A cursor's columns are those of the table that MySQL writes its rows into.
#[test]
fn columns_of_cursors_are_described_as_by_mysql() {
    let Some(mut pair) = Pair::start(
        "door-cursors",
        "CREATE DATABASE b; CREATE TABLE b.w (a INT UNSIGNED NOT NULL AUTO_INCREMENT PRIMARY KEY, \
         v VARCHAR(9) CHARACTER SET latin1 NOT NULL, e ENUM('a'), se SET('a'), j JSON, b BLOB, t TEXT, mt MEDIUMTEXT, \
         n DECIMAL(5,2), z INT ZEROFILL, d DATETIME(3), f FLOAT, bi BIT(3), y YEAR, tm TIME, da DATE, \
         ts TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP ON UPDATE CURRENT_TIMESTAMP, vb VARBINARY(3), c CHAR(3), \
         UNIQUE KEY (v), KEY (n)); INSERT INTO b.w SET v = 'x', n = 1, ts = '2020-01-01 00:00:00'",
    ) else {
        return;
    };
    let texts: &[&[u8]] = &[
        b"SELECT 1, 'a', NULL, 1.5, 1e0, x'41', b'1', 18446744073709551615, TRUE, _latin1'a' z, 1234567890, -5",
        b"SELECT DATABASE(), ROW_COUNT(), 'a' 'b', N'a'",
        b"SELECT @@autocommit, @@sql_mode, @@time_zone, @@max_allowed_packet",
        b"SELECT CONCAT('a', 'b'), 1 + 1, 'a' LIKE 'a', CAST(1 AS CHAR), COALESCE('a', NULL), NULL IS NULL",
        b"SELECT * FROM b.w",
        b"SELECT a AS x, v y FROM b.w AS q",
        b"SELECT COUNT(*) FROM b.w",
        b"SELECT 1, 'b', a FROM b.w",
        b"SELECT a FROM b.w WHERE a = 1",
        b"SELECT a FROM b.w WHERE a = 2",
        b"SELECT '\xff'",
        b"SELECT 'a\xff', 1",
        b"SHOW VARIABLES LIKE 'autocommit'",
        b"SHOW CREATE DATABASE b",
    ];
    let execute = |flags: u8| [&b"\x17\x01\0\0\0"[..], &[flags], b"\x01\0\0\0"].concat();
    for charset in ["utf8mb4", "latin1", "utf8mb4 COLLATE utf8mb4_bin"] {
        let set = format!("SET NAMES {charset}");
        for sql in texts {
            for flags in [1, 0] {
                let what = format!("{set}; {}, flags {flags}", sql.escape_ascii());
                pair.compare_unless_refused(&what, |client| {
                    client.query(set.as_bytes());
                    let mut said = client.command(&[b"\x16", *sql].concat());
                    let fetch = &b"\x1c\x01\0\0\0\x05\0\0\0"[..];
                    [&execute(flags), fetch, PING, QUIT].iter().for_each(|packet| client.write(packet, 0));
                    said.extend(std::iter::from_fn(|| client.read_or_end()));
                    said.into_iter().map(without_index_bit).collect()
                });
            }
        }
    }
    pair.assert_same(70);
}

/// Text of an error, in character sets that lack its letters.
#[test]
fn errors_are_told_in_the_character_set_of_results_as_by_mysql() {
    let Some(mut pair) = Pair::start("door-error-text", "CREATE DATABASE b; CREATE TABLE b.t (n INT PRIMARY KEY)")
    else {
        return;
    };
    let texts = [
        "SELECT n FROM b.`中ä`",
        "SELECT `中ä😀` FROM b.t",
        "USE `ä`",
        "SET sql_mode = 'ä中'",
        "SET time_zone = 'ä'",
        "SELECT 1 FRUM 'ä中😀'",
        "SET @`ä` = 5",
        "SELECT @`ä`, @a, @`Ä`, @`ß`, @s",
    ];
    for results in ["latin1", "gbk", "utf8mb3", "binary", "NULL", "koi8r"] {
        let set = format!("SET NAMES utf8mb4; SET character_set_results = {results}");
        for sql in texts {
            pair.compare(&format!("{set}; {sql}"), |client| {
                client.query("SET NAMES utf8mb4");
                let results = format!("SET character_set_results = {results}");
                queries(client, &[results.as_bytes(), sql.as_bytes(), b"SHOW WARNINGS", b"SELECT @`\xc3\x84`, @a"])
            });
        }
    }
    pair.assert_same(45);
}

/// Parameters of each type, as a result of its own and as rows of a cursor.
#[test]
fn blobs_and_cursors_over_parameters_are_described_as_by_mysql() {
    let Some(mut pair) = Pair::start("door-blobs", "CREATE DATABASE d; CREATE TABLE d.t (a INT PRIMARY KEY)") else {
        return;
    };
    let numbers: &[(u8, &[u8])] = &[
        (1, b"\xff"),
        (2, b"\x01\x02"),
        (3, b"\x01\x02\x03\xff"),
        (4, b"\0\0\x80\x3f"),
        (5, b"\0\0\0\0\0\0\xf0\x3f"),
        (8, b"\x01\x02\x03\x04\x05\x06\x07\xff"),
    ];
    let texts = [15u8, 249, 250, 251, 252, 253, 254];
    let values: &[&[u8]] = &[b"\x04abcd", b"\0", b"\x02\xff\xfe", b"\x02\xc3\xa4"];
    let times: &[(u8, &[u8])] = &[
        (7, b"\x07\xe4\x07\x01\x02\x03\x04\x05"),
        (10, b"\x04\xe4\x07\x01\x02"),
        (11, b"\x08\0\x01\0\0\0\x02\x03\x04"),
        (12, b"\x0b\xe4\x07\x01\x02\x03\x04\x05\x10\0\0\0"),
    ];
    let of_texts = texts.iter().flat_map(|code| values.iter().map(move |value| (*code, *value)));
    let all: Vec<(u8, &[u8])> = numbers.iter().chain(times).copied().chain(of_texts).collect();
    for (code, value) in all {
        for flags in [0u8, 1] {
            let (head, types) = (&[0x17, 1, 0, 0, 0, flags, 1, 0, 0, 0, 0, 1][..], [code, 0, 8, 0]);
            let execute = [head, &types, value, b"\x07\0\0\0\0\0\0\0"].concat();
            let fetch = &b"\x1c\x01\0\0\0\x05\0\0\0"[..];
            let packets: &[&[u8]] = if flags == 0 { &[&execute] } else { &[&execute, fetch] };
            let what = format!("type {code}, flags {flags}: {}", value.escape_ascii());
            pair.compare(&what, |client| said_to(client, packets));
        }
    }
    pair.assert_same(60);
}

const ODD_TEXTS: &[&[u8]] = &[
    b"SELECT N'abc'",
    b"SELECT n'a' 'b'",
    b"SELECT N'a' AS b, N'', N'it''s'",
    b"SELECT N'\xc3\xa4'",
    b"SELECT N'\xf0\x9f\x98\x80'",
    b"SELECT N'\xff'",
    b"SELECT n FROM b.t WHERE w = N'a'",
    b"SELECT n FROM b.t WHERE w LIKE N'a%' ORDER BY n",
    b"SET @n = N'a'",
    b"SELECT @n",
    b"SELECT CHARSET(N'a'), COLLATION(N'a')",
    b"SELECT '\xff'",
    b"SELECT 'a\xffb' AS a",
    b"SELECT '\xc3\xa4', '\xe4'",
    b"SELECT _utf8mb4'\xff'",
    b"SELECT _latin1'\xff'",
    b"SELECT _binary'\xff'",
    b"SELECT _utf8mb4 x'ff'",
    b"SET @a = '\xff'",
    b"SELECT @a",
    b"SET @a = 'a\xffb', @b = 'x'",
    b"SELECT @a, @b",
    b"SET @`\xff` = 1",
    b"SELECT @`\xff`",
    b"SELECT 1 AS `\xff`",
    b"SELECT 1 AS '\xff'",
    b"SELECT 1 AS \xff",
    b"SELECT '\xff' LIKE 'a'",
    b"SELECT 'a' LIKE '\xff%'",
    b"SELECT 'a' = '\xff'",
    b"SELECT n FROM b.t WHERE w LIKE '\xff%'",
    b"SELECT n FROM b.t WHERE w = '\xff'",
    b"SELECT n FROM b.t WHERE w IN ('a', '\xff')",
    b"SELECT n FROM b.`\xff`",
    b"SELECT n FROM `\xff`.t",
    b"SELECT `\xff` FROM b.t",
    b"SELECT n AS `\xff` FROM b.t ORDER BY n",
    b"USE `\xff`",
    b"SHOW TABLES FROM b LIKE '\xff%'",
    b"SHOW TABLES FROM `\xff`",
    b"SHOW VARIABLES LIKE '\xff'",
    b"SHOW COLUMNS FROM b.t LIKE '\xff'",
    b"SHOW COLUMNS FROM b.t WHERE Field = '\xff'",
    b"SHOW COLUMNS FROM b.`\xff`",
    b"SHOW CREATE TABLE b.`\xff`",
    b"SHOW KEYS FROM b.t WHERE Key_name = 'PRIMARY'",
    b"SHOW INDEX FROM b.t WHERE Column_name = 'w'",
    b"SHOW INDEXES IN t FROM b WHERE Non_unique",
    b"SHOW KEYS FROM b.t WHERE Key_name LIKE 'p%' AND Seq_in_index = 1",
    b"SHOW KEYS FROM b.t WHERE nothing = 1",
    b"SHOW KEYS FROM b.t WHERE Key_name = '\xff'",
    b"SET NAMES '\xff'",
    b"SET time_zone = '\xff'",
    b"SET sql_mode = '\xff'",
    b"SELECT @@`\xff`",
    b"SELECT '\xff' COLLATE utf8mb4_bin",
    b"SELECT CONCAT('a', '\xff')",
    b"SELECT UPPER('\xff')",
    b"SELECT LENGTH('\xff')",
    b"SAVEPOINT `\xff`",
    b"PREPARE `\xff` FROM 'SELECT 1'",
    b"DO '\xff'",
    b"SELECT 1 -- \xff",
    b"SELECT /* \xff */ 1",
];
