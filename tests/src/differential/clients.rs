//! Text as clients of every character set send it, identifiers of XA transactions, statements with odd bytes.
//!
//! In: random choices. Out: parts of statements, with bytes in hexadecimal (see `script`). Never here: text in a
//! character set other than the session's own.

use super::script::as_hex;
use super::{Chance as _, Statement};
use crate::Random;

/// The character sets that a client may have, each with letters of it. In some, the second byte of a letter is a quote, a
/// backslash or a bracket elsewhere.
pub const CLIENTS: &[(&str, &[&[u8]])] = &[
    ("utf8mb4", &[b"\xc3\xa9", b"\xe8\xa1\xa8"]),
    ("latin1", &[b"\xe9", b"\x80", b"\xa0"]),
    ("gbk", &[b"\x81\x5c", b"\x81\x60", b"\x81\x7c", b"\x81\x40", b"\x81\x5b"]),
    ("sjis", &[b"\x95\x5c", b"\x83\x60", b"\x83\x7c", b"\xb1"]),
    ("cp932", &[b"\x95\x5c", b"\x83\x60", b"\x83\x7c", b"\xb1"]),
    ("big5", &[b"\xa5\x5c", b"\xb3\x5c", b"\xa4\x40", b"\xa4\x7d"]),
    ("gb18030", &[b"\x81\x5c", b"\x81\x60", b"\x81\x30\x84\x36"]),
    ("utf8mb3", &[b"\xc3\xa9", b"\xe8\xa1\xa8"]),
    ("armscii8", &[b"\xb2", b"\xb3"]),
    ("binary", &[b"\xc3\xa9", b"\xe8\xa1\xa8"]),
    ("cp1250", &[b"\x9e"]),
    ("cp1251", &[b"\xe6"]),
    ("cp1256", &[b"\xda"]),
    ("cp1257", &[b"\xfe"]),
    ("cp850", &[b"\x82"]),
    ("cp852", &[b"\xa7"]),
    ("cp866", &[b"\xa6"]),
    ("dec8", &[b"\xe9"]),
    ("eucjpms", &[b"\xc9\xbd", b"\x8e\xb1"]),
    ("euckr", &[b"\xc7\xd1"]),
    ("gb2312", &[b"\xb1\xed"]),
    ("geostd8", &[b"\xc0"]),
    ("greek", &[b"\xeb"]),
    ("hebrew", &[b"\xe0"]),
    ("hp8", &[b"\xc5"]),
    ("keybcs2", &[b"\x87"]),
    ("koi8r", &[b"\xd6"]),
    ("koi8u", &[b"\xd6", b"\xa4"]),
    ("latin2", &[b"\xbe"]),
    ("latin5", &[b"\xfd"]),
    ("latin7", &[b"\xfe"]),
    ("macce", &[b"\x8e"]),
    ("macroman", &[b"\x8e"]),
    ("swe7", &[b"{", b"}", b"~"]),
    ("tis620", &[b"\xa1"]),
    ("ujis", &[b"\xc9\xbd", b"\x8f\xb0\xa1"]),
];

/// Letters for a session of another character set.
const ASCII: &[&[u8]] = &[b"x"];

/// A character set for SET NAMES.
pub fn any(random: &mut Random) -> &'static str {
    // Half of them are those that are hard to read.
    let among = if random.chance(50) { 7 } else { CLIENTS.len() };
    CLIENTS[random.below(among as u64) as usize].0
}

/// A word of a few letters of this character set.
fn word(random: &mut Random, client: &str) -> String {
    let letters = CLIENTS.iter().find(|(name, _)| *name == client).map_or(ASCII, |(_, letters)| *letters);
    let mut bytes = Vec::new();
    for _ in 0..1 + random.below(3) {
        bytes.extend_from_slice(random.pick(letters));
        if random.chance(30) {
            bytes.extend(b"a1");
        }
    }
    as_hex(&bytes)
}

/// The same statement with comments of odd bytes, other blanks, or a NUL byte at its end.
pub fn dressed(random: &mut Random, client: &str, statement: &mut Statement) {
    if !random.chance(25) {
        return;
    }
    let word = word(random, client);
    let sql = std::mem::take(&mut statement.sql);
    statement.sql = match random.below(6) {
        0 => format!("{sql}⟨00⟩"),
        1 => format!("/* ⟨00⟩{word} */ {sql}"),
        2 => format!("{sql} -- {word}"),
        3 => format!("{sql} # '{word}⟨00⟩"),
        4 => format!("⟨0b⟩{sql}⟨0c⟩/*{word}*/⟨00⟩"),
        _ => sql.replacen(' ', &format!("/*`{word}*/⟨090d⟩"), 1),
    };
}

/// Statements about a table of this session's own, whose names and text are of its character set.
pub fn own_table(random: &mut Random, client: &str, number: u64) -> Vec<Statement> {
    let mut word = || word(random, client);
    let (table, column, text, other) = (word(), word(), word(), word());
    let name = format!("`odd{number}_{table}`");
    let all = [
        (
            "CREATE TABLE, odd names",
            format!(
                "CREATE TABLE {name} (`{column}` INT PRIMARY KEY COMMENT '{text}', v VARCHAR(30) CHARACTER SET utf8mb4 DEFAULT '{text}', \
             e ENUM('{text}', 'x{text}') CHARACTER SET utf8mb4 DEFAULT 'x{text}', KEY `{text}` (v) COMMENT '{other}') COMMENT '{other}' /* {text} */"
            ),
        ),
        ("INSERT, odd names", format!("INSERT INTO {name} (`{column}`) VALUES (1), (2)")),
        (
            "ALTER TABLE, odd names",
            format!(
                "ALTER TABLE {name} ADD `x{other}` VARCHAR(30) CHARACTER SET utf8mb4 DEFAULT '{other}''{text}' AFTER v, \
             RENAME COLUMN `{column}` TO `c{column}`, ALTER v SET DEFAULT '{other}'"
            ),
        ),
        ("INSERT, odd names", format!("INSERT INTO {name} (`c{column}`) VALUES (3)")),
        ("CREATE INDEX, odd names", format!("CREATE INDEX `i{other}` ON {name} (e) COMMENT '{text}'")),
        ("RENAME TABLE, odd names", format!("RENAME TABLE {name} TO `odd{number}b_{other}` -- {text}")),
        (
            "CREATE TABLE … SELECT, odd names",
            format!("CREATE TABLE `odd{number}c_{text}` SELECT '{text}' AS `{column}`"),
        ),
        ("DROP TABLE, odd names", format!("DROP TABLE `odd{number}c_{text}`, `odd{number}b_{other}`")),
    ];
    // Some tables stay.
    let kept = 1 + random.below(all.len() as u64) as usize;
    all.into_iter().take(kept).map(|(kind, sql)| Statement::new(kind, sql)).collect()
}

/// An identifier of an XA transaction, as SQL: empty, binary, long, with quotes, with a large format id.
pub fn xid(random: &mut Random, session: usize, number: u64) -> String {
    let own = format!("x{session}_{number}");
    let hex = |bytes: &[u8]| bytes.iter().fold(String::new(), |text, byte| text + &format!("{byte:02x}"));
    let format = random.pick(&["0", "1", "7", "4294967295", "4294967296", "4294967303", "9223372036854775807"]);
    match random.below(12) {
        0 => "''".to_owned(),
        1 => format!("'', '{own}'"),
        2 => format!("X'{}', X'00ff275c60'", hex(format!("\0\u{1}'\"\\`{own}").as_bytes())),
        3 => format!("'{own:a<64}', '{own:b<64}', {format}"),
        4 => format!("'{own}''\"', \"it's `{own}`\""),
        5 => format!("'{own}', '', {format}"),
        6 => format!("0x{}, 0x00, 0x{session:02x}", hex(own.as_bytes())),
        _ => format!("'{own}'"),
    }
}
