//! Text of every Unicode collation is compared here as at the source: characters beyond U+FFFF, ideographs and those
//! compatible with one, marks, under LIKE, `=` and ORDER BY.

use testkit::raw_client::{CAPABILITIES, RawClient};
use whole_program_tests::{Replica, Server, folder};
use wire::handshake::capability::SESSION_TRACK;

/// Values that collations compare in different ways. LIKE and `=` do not agree on all of them.
const VALUES: &[&str] = &[
    "a",
    "A",
    "ä",
    "a\u{308}",
    "ß",
    "ss",
    "b ",
    "b",
    "\u{ad}",
    "各",
    "豈",
    "\u{f900}",
    "厂",
    "\u{2e81}",
    "가",
    "\u{fffd}",
    "😀",
    "😁",
    "😀x",
    "😁X",
    "a😀",
    "𠀀",
    "丽",
    "\u{2f800}",
    "𝔸",
    "𐐀",
    "𐐨",
    "\u{10ffff}",
    "\u{e0100}",
    "🇩🇪",
    "𗀀",
];
/// Those of `LIKE`, besides the values themselves: of two, one after the other.
const PATTERNS: &[&str] = &["😀%", "%😁", "%😀_", "_😀%", "%豈%", "%a%😀%", "😀😁", "%\\😁%", "__", "_"];
/// Collations of Unicode character sets that are compared here; LIKE of others is refused.
const COLLATIONS: usize = 29;

fn is_refusal(answer: &[Vec<u8>]) -> bool {
    answer.last().is_some_and(|packet| packet.starts_with(&[0xff, 1235u16.to_le_bytes()[0], 1235u16.to_le_bytes()[1]]))
}

/// True for a character set that ends at U+FFFF.
fn is_narrow(charset: &str) -> bool {
    matches!(charset, "utf8mb3" | "ucs2")
}

/// A session at the source, and one at the replica.
struct Pair {
    ours: RawClient,
    theirs: RawClient,
    compared: usize,
    different: Vec<String>,
}

impl Pair {
    /// Compares all packets but the last one, which tells of indexes; false if ours refused.
    fn query(&mut self, sql: &str) -> bool {
        let (ours, theirs) = (self.ours.query(sql), self.theirs.query(sql));
        if is_refusal(&ours) {
            return false;
        }
        self.compared += 1;
        if ours.split_last().map(|(_, rows)| rows) != theirs.split_last().map(|(_, rows)| rows) {
            let ids = |answer: &[Vec<u8>]| answer.iter().map(|row| row.escape_ascii().to_string()).collect::<Vec<_>>();
            self.different.push(format!("{sql}\n ours {:?}\n theirs {:?}", ids(&ours), ids(&theirs)));
        }
        true
    }
}

#[test]
fn text_of_every_unicode_collation_is_compared_as_at_the_source() {
    let Some(server) = Server::or_skip("door-text", &[]) else { return };
    let names = server.sql(
        "SELECT COLLATION_NAME, CHARACTER_SET_NAME FROM information_schema.collations \
         WHERE CHARACTER_SET_NAME RLIKE '^(utf|ucs)' ORDER BY 1",
    );
    let collations: Vec<(&str, &str)> = names.lines().filter_map(|line| line.split_once('\t')).collect();
    let quoted = |value: &str| format!("'{value}'");
    let mut sql = String::from("CREATE DATABASE text CHARACTER SET utf8mb4; USE text; SET NAMES utf8mb4;\n");
    for (collation, charset) in &collations {
        let fits = |value: &str| !is_narrow(charset) || value.chars().all(|letter| letter <= '\u{ffff}');
        let rows = VALUES.iter().enumerate().filter(|(_, value)| fits(value));
        let rows: Vec<String> = rows.map(|(id, value)| format!("({id}, '{value}', '{value}')")).collect();
        let ty = format!("VARCHAR(8) CHARACTER SET {charset} COLLATE {collation}");
        sql.push_str(&format!(
            "CREATE TABLE {collation} (id INT PRIMARY KEY, v {ty}, k {ty}, KEY (k, id)); \
             INSERT INTO {collation} VALUES {};\n",
            rows.join(", ")
        ));
    }
    server.sql(&sql);
    let (_replica, socket) = Replica::with_socket(&server, &folder("door-text"), &[]);
    let capabilities = CAPABILITIES & !SESSION_TRACK;
    let ours = RawClient::over_socket(&socket, "admin", capabilities);
    let theirs = RawClient::over_socket(&server.socket(), "root", capabilities);
    let mut pair = Pair { ours, theirs, compared: 0, different: Vec::new() };
    assert!(pair.query("SET NAMES utf8mb4"));
    let mut taken = 0;
    for (collation, charset) in &collations {
        let of = format!("SELECT id FROM text.{collation}");
        if !pair.query(&format!("{of} WHERE v LIKE 'a'")) {
            continue;
        }
        taken += 1;
        for column in ["v", "k"] {
            for value in VALUES.iter().map(|value| quoted(value)) {
                for condition in ["=", "<", "LIKE", "NOT LIKE"].map(|sign| format!("{column} {sign} {value}")) {
                    pair.query(&format!("{of} WHERE {condition} ORDER BY id"));
                }
            }
        }
        // By an index on utf16 and utf32, 9.7.4 finds no character beyond U+FFFF behind a % or _ at the beginning.
        for pattern in PATTERNS {
            assert!(pair.query(&format!("{of} WHERE v LIKE {} ORDER BY id", quoted(pattern))) || is_narrow(charset));
        }
        assert!(pair.query(&format!("{of} ORDER BY k, id")), "{collation}");
        if *charset == "utf8mb4" {
            assert!(pair.query(&format!("SET NAMES utf8mb4 COLLATE {collation}")));
            // MySQL's own name of the column would have ? for characters beyond U+FFFF.
            for (one, other) in VALUES.iter().flat_map(|one| VALUES.iter().map(move |other| (one, other))) {
                assert!(pair.query(&format!("SELECT '{one}' LIKE '{other}' AS alike")), "{collation}");
            }
        }
        // Not known here, so refused.
        for call in ["INSTR('x😀', '😁')", "LOCATE('😁', 'x😀')", "REPLACE('x😀', '😁', '')"] {
            assert!(!pair.query(&format!("SELECT {call}")), "{call}");
        }
    }
    println!("{} compared in {taken} collations", pair.compared);
    assert!(pair.different.is_empty(), "{} differ\n{}", pair.different.len(), pair.different.join("\n"));
    assert!(taken == COLLATIONS && pair.compared > COLLATIONS * 150, "{taken} collations, {} compared", pair.compared);
}

/// Clients that quote instead of binding send keys of bytes as they are, in a string of utf8mb4.
#[test]
fn bytes_that_are_no_text_are_compared_with_bytes() {
    let Some(server) = Server::or_skip("door-no-text", &[]) else { return };
    server.sql(
        "CREATE DATABASE b; CREATE TABLE b.t (u BINARY(4) PRIMARY KEY, v VARBINARY(9), n INT, w VARCHAR(9)); \
         INSERT INTO b.t VALUES (x'd2e4a6b8', x'ff41', 1, 'a'), (x'd2e4a6b9', x'41', 2, 'b')",
    );
    let (mut replica, socket) = Replica::with_socket(&server, &folder("door-no-text"), &[]);
    replica.catch_up(&server);
    let capabilities = CAPABILITIES & !SESSION_TRACK;
    let mut ours = RawClient::over_socket(&socket, "admin", capabilities);
    let mut theirs = RawClient::over_socket(&server.socket(), "root", capabilities);
    let mut same = |sql: &[u8]| {
        let (ours, theirs) = (ours.query(sql), theirs.query(sql));
        // The last packet's flags tell of indexes.
        let rows = |answer: &[Vec<u8>]| answer.split_last().map(|(_, rows)| rows.to_vec());
        assert_eq!(rows(&ours), rows(&theirs), "{}", sql.escape_ascii());
        ours
    };
    same(b"SET NAMES utf8mb4");
    for condition in [
        b"u = '\xd2\xe4\xa6\xb8'".as_slice(),
        b"u IN ('\xd2\xe4\xa6\xb8', '\xff', 'abc')",
        b"u > '\xd2\xe4\xa6\xb8'",
        b"u BETWEEN '\xd2' AND '\xd2\xe4\xa6\xb9'",
        b"v = '\xffA'",
        b"v LIKE '\xff%'",
        b"v LIKE '\xff_'",
        b"u <> _binary'\xd2\xe4\xa6\xb8'",
    ] {
        let answer = same(&[b"SELECT n FROM b.t WHERE ", condition, b" ORDER BY u"].concat());
        assert!(answer.len() > 3, "{}", condition.escape_ascii());
        same(b"SHOW WARNINGS");
    }
    // Next to a column of text MySQL's answer depends on its use of an index.
    let refused = ours_refuses(&socket, b"SELECT n FROM b.t WHERE w = '\xff'");
    assert!(refused.contains("invalid in its character set"), "{refused}");
    replica.stop();
}

fn ours_refuses(socket: &std::path::Path, sql: &[u8]) -> String {
    let answer = RawClient::over_socket(socket, "admin", CAPABILITIES).query(sql);
    answer[0].escape_ascii().to_string()
}
