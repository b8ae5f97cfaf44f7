//! Random column types, and values for them.
//!
//! In: a random number generator. Out: type declarations and literals in SQL. Never here: a guess whether the server
//! accepts a value. Refused statements are counted.

use super::Chance as _;
use crate::Random;

/// A character set and one of its collations.
pub type Charset = (&'static str, &'static str);

/// Character sets and collations of columns: with and without case, accents or trailing spaces.
pub const CHARSETS: &[Charset] = &[
    ("utf8mb4", "utf8mb4_0900_ai_ci"),
    ("utf8mb4", "utf8mb4_general_ci"),
    ("utf8mb4", "utf8mb4_bin"),
    ("utf8mb4", "utf8mb4_0900_as_cs"),
    ("utf8mb4", "utf8mb4_0900_bin"),
    ("utf8mb4", "utf8mb4_unicode_ci"),
    ("utf8mb4", "utf8mb4_tr_0900_ai_ci"),
    ("utf8mb4", "utf8mb4_ja_0900_as_cs"),
    ("utf8mb3", "utf8mb3_general_ci"),
    ("latin1", "latin1_swedish_ci"),
    ("latin1", "latin1_german2_ci"),
    ("latin1", "latin1_bin"),
    ("latin2", "latin2_czech_cs"),
    ("cp1251", "cp1251_general_ci"),
    ("ascii", "ascii_general_ci"),
    ("ucs2", "ucs2_general_ci"),
    ("utf16", "utf16_unicode_ci"),
    ("utf16le", "utf16le_bin"),
    ("utf32", "utf32_general_ci"),
    ("gbk", "gbk_chinese_ci"),
    ("sjis", "sjis_japanese_ci"),
    ("big5", "big5_bin"),
    ("gb18030", "gb18030_chinese_ci"),
    ("koi8r", "koi8r_general_ci"),
];

/// A column type.
#[derive(Debug, Clone, PartialEq)]
pub enum Kind {
    /// Name of an integer type, its bits, whether unsigned.
    Int(&'static str, u32, bool),
    /// Digits; digits after the point.
    Decimal(u32, u32),
    /// FLOAT.
    Float,
    /// DOUBLE.
    Double,
    /// Number of bits.
    Bit(u32),
    /// YEAR.
    Year,
    /// DATE.
    Date,
    /// Digits of a second's fraction.
    Time(u32),
    /// Digits of a second's fraction.
    DateTime(u32),
    /// Digits of a second's fraction.
    Timestamp(u32),
    /// Maximum characters.
    Char(u32, Charset),
    /// Maximum characters.
    Varchar(u32, Charset),
    /// Length in bytes.
    Binary(u32),
    /// Maximum bytes.
    Varbinary(u32),
    /// TINYTEXT to LONGTEXT.
    Text(&'static str, Charset),
    /// TINYBLOB to LONGBLOB.
    Blob(&'static str),
    /// Number of members.
    Enum(u32, Charset),
    /// Number of members.
    Set(u32, Charset),
    /// JSON.
    Json,
    /// POINT or GEOMETRY.
    Geometry(&'static str),
    /// Number of dimensions.
    Vector(u32),
}

const INTEGERS: &[(&str, u32)] =
    &[("TINYINT", 8), ("SMALLINT", 16), ("MEDIUMINT", 24), ("INT", 32), ("BIGINT", 64), ("INT", 32)];
const TEXTS: &[&str] = &["TINYTEXT", "TEXT", "MEDIUMTEXT", "LONGTEXT"];
const BLOBS: &[&str] = &["TINYBLOB", "BLOB", "MEDIUMBLOB", "LONGBLOB"];
const WORDS: &[&str] =
    &["a", "A", "b", "B", "ä", "ss", "ß", "x y", "Я", "漢字", "I", "ı", "é", "z ", "", "か", "カ", "o''c"];
const LIST: &[&str] = &["one", "two", "Three", "vier", "five", "six", "7", "eight", "nine", "ten", "11"];

impl Kind {
    /// True for text in sjis with a backslash, which has two codes there: logs and SHOW CREATE TABLE do not say which of
    /// them a default has (docs/mysql-bugs.md).
    pub fn is_two_in_sjis(&self, literal: &str) -> bool {
        literal.contains('\\') && self.charset().is_some_and(|(charset, _)| charset == "sjis")
    }

    /// Character set of the type, if it has one.
    #[must_use]
    pub fn charset(&self) -> Option<Charset> {
        match self {
            Kind::Char(_, charset) | Kind::Varchar(_, charset) | Kind::Text(_, charset) => Some(*charset),
            Kind::Enum(_, charset) | Kind::Set(_, charset) => Some(*charset),
            _ => None,
        }
    }

    /// Any type.
    pub fn any(random: &mut Random) -> Kind {
        match random.below(32) {
            0..=6 => Kind::integer(random),
            7 | 8 => {
                let digits = 1 + random.below(30) as u32;
                Kind::Decimal(digits, random.below(u64::from(digits.min(12)) + 1) as u32)
            }
            9 => Kind::Float,
            10 => Kind::Double,
            11 => Kind::Bit(1 + random.below(64) as u32),
            12 => Kind::Year,
            13 => Kind::Date,
            14 => Kind::Time(random.below(7) as u32),
            15 => Kind::DateTime(random.below(7) as u32),
            16 => Kind::Timestamp(random.below(7) as u32),
            17..=23 => Kind::text(random),
            24 => Kind::Binary(1 + random.below(20) as u32),
            25 => Kind::Varbinary(1 + random.below(300) as u32),
            26 => Kind::Blob(random.pick(BLOBS)),
            27 => Kind::Enum(2 + random.below(9) as u32, narrow(random)),
            28 => Kind::Set(2 + random.below(9) as u32, narrow(random)),
            29 | 30 => Kind::Json,
            _ if random.chance(50) => Kind::Vector(1 + random.below(4) as u32),
            _ => Kind::Geometry(random.pick(&["POINT", "GEOMETRY"])),
        }
    }

    /// An integer type.
    pub fn integer(random: &mut Random) -> Kind {
        let (name, bits) = random.pick(INTEGERS);
        Kind::Int(name, bits, random.chance(30))
    }

    /// A text type.
    pub fn text(random: &mut Random) -> Kind {
        let charset = random.charset();
        match random.below(6) {
            0 => Kind::Char(1 + random.below(20) as u32, charset),
            1 => Kind::Text(random.pick(TEXTS), charset),
            2 => Kind::Varchar(200 + random.below(200) as u32, charset),
            _ => Kind::Varchar(3 + random.below(40) as u32, charset),
        }
    }

    /// A type that most values of this one can be converted to.
    pub fn relative(&self, random: &mut Random) -> Kind {
        match self {
            Kind::Int(..) | Kind::Decimal(..) | Kind::Float | Kind::Double | Kind::Bit(_) | Kind::Year => {
                match random.below(8) {
                    0..=3 => Kind::integer(random),
                    4 => Kind::Decimal(20, random.below(6) as u32),
                    5 => Kind::Double,
                    6 => Kind::Varchar(40, random.charset()),
                    _ => Kind::Float,
                }
            }
            Kind::Date | Kind::Time(_) | Kind::DateTime(_) | Kind::Timestamp(_) => match random.below(6) {
                0 => Kind::Date,
                1 => Kind::Varchar(40, random.charset()),
                2 => Kind::Timestamp(random.below(7) as u32),
                3 if matches!(self, Kind::Time(_)) => Kind::Time(random.below(7) as u32),
                _ => Kind::DateTime(random.below(7) as u32),
            },
            Kind::Char(..) | Kind::Varchar(..) | Kind::Text(..) => match random.below(8) {
                0 => Kind::Varbinary(300),
                1 => Kind::Blob(random.pick(BLOBS)),
                _ => Kind::text(random),
            },
            Kind::Binary(_) | Kind::Varbinary(_) | Kind::Blob(_) => match random.below(4) {
                0 => Kind::Binary(20),
                1 => Kind::Blob(random.pick(BLOBS)),
                2 => Kind::Varchar(100, ("latin1", "latin1_bin")),
                _ => Kind::Varbinary(20 + random.below(300) as u32),
            },
            Kind::Enum(words, charset) => match random.below(4) {
                0 => Kind::Varchar(20, random.charset()),
                1 => Kind::Set(10, *charset),
                2 => Kind::Enum((words + 1).min(11), narrow(random)),
                _ => Kind::Enum((words + random.below(3) as u32).min(11), *charset),
            },
            Kind::Set(words, charset) => match random.below(3) {
                0 => Kind::Varchar(80, random.charset()),
                _ => Kind::Set((words + 1).min(11), *charset),
            },
            Kind::Json if random.chance(20) => Kind::Text("LONGTEXT", ("utf8mb4", "utf8mb4_bin")),
            Kind::Vector(_) => Kind::Vector(4),
            Kind::Geometry(_) => Kind::Geometry("GEOMETRY"),
            Kind::Json => Kind::Json,
        }
    }

    /// Declaration in SQL.
    #[must_use]
    pub fn sql(&self) -> String {
        let fraction = |digits: &u32| if *digits == 0 { String::new() } else { format!("({digits})") };
        let of = |(charset, collation): &Charset| format!(" CHARACTER SET {charset} COLLATE {collation}");
        let words =
            |count: &u32| LIST[..*count as usize].iter().map(|word| format!("'{word}'")).collect::<Vec<_>>().join(",");
        match self {
            Kind::Int(name, _, unsigned) => format!("{name}{}", if *unsigned { " UNSIGNED" } else { "" }),
            Kind::Decimal(digits, scale) => format!("DECIMAL({digits},{scale})"),
            Kind::Float => "FLOAT".into(),
            Kind::Double => "DOUBLE".into(),
            Kind::Bit(bits) => format!("BIT({bits})"),
            Kind::Year => "YEAR".into(),
            Kind::Date => "DATE".into(),
            Kind::Time(digits) => format!("TIME{}", fraction(digits)),
            Kind::DateTime(digits) => format!("DATETIME{}", fraction(digits)),
            Kind::Timestamp(digits) => format!("TIMESTAMP{}", fraction(digits)),
            Kind::Char(len, charset) => format!("CHAR({len}){}", of(charset)),
            Kind::Varchar(len, charset) => format!("VARCHAR({len}){}", of(charset)),
            Kind::Binary(len) => format!("BINARY({len})"),
            Kind::Varbinary(len) => format!("VARBINARY({len})"),
            Kind::Text(name, charset) => format!("{name}{}", of(charset)),
            Kind::Blob(name) | Kind::Geometry(name) => (*name).into(),
            Kind::Enum(count, charset) => format!("ENUM({}){}", words(count), of(charset)),
            Kind::Set(count, charset) => format!("SET({}){}", words(count), of(charset)),
            Kind::Json => "JSON".into(),
            Kind::Vector(count) => format!("VECTOR({count})"),
        }
    }

    /// A value in SQL, mostly from a small set, so that keys meet.
    pub fn literal(&self, random: &mut Random) -> String {
        match self {
            Kind::Int(_, bits, unsigned) => integer(random, *bits, *unsigned),
            Kind::Decimal(digits, scale) => match random.below(6) {
                0 => format!("-{}.{:03}", random.below(40), random.below(1000)),
                1 if digits > scale => "9".repeat((digits - scale) as usize),
                2 => "0".into(),
                _ => format!("{}.{:02}", random.below(9), random.below(100)),
            },
            Kind::Float | Kind::Double => match random.below(6) {
                0 => "0".into(),
                1 => format!("-{}e{}", random.below(1000), random.below(30)),
                2 => format!("{}.25", random.below(100)),
                3 => "16777217".into(),
                _ => format!("{}/7", random.below(1000)),
            },
            Kind::Bit(bits) => format!("b'{:b}'", random.below(1 << (*bits).min(31))),
            Kind::Year => format!("{}", 1990 + random.below(60)),
            Kind::Date | Kind::DateTime(_) | Kind::Timestamp(_) => self.moment(random),
            Kind::Time(_) => match random.below(5) {
                0 => "'838:59:59'".into(),
                1 => format!("'-{:02}:{:02}:00.{:06}'", random.below(30), random.below(60), random.below(1_000_000)),
                _ => format!("'{:02}:00:{:02}.{}'", random.below(24), random.below(60), random.below(100)),
            },
            Kind::Char(len, _) | Kind::Varchar(len, _) => text(random, *len),
            Kind::Text(..) => text(random, 250),
            Kind::Binary(len) | Kind::Varbinary(len) => bytes(random, u64::from(*len)),
            Kind::Blob(_) => bytes(random, 200),
            Kind::Enum(count, _) => match random.below(6) {
                0 => format!("{}", 1 + random.below(u64::from(*count))),
                _ => format!("'{}'", LIST[random.below(u64::from(*count)) as usize]),
            },
            Kind::Set(count, _) => match random.below(4) {
                0 => "''".into(),
                1 => format!("{}", random.below(1 << count)),
                _ => {
                    let word = |random: &mut Random| LIST[random.below(u64::from(*count)) as usize];
                    format!("'{},{}'", word(random), word(random))
                }
            },
            Kind::Json => json(random, 2),
            Kind::Geometry("POINT") => format!("POINT({},{}.5)", random.below(90), random.below(90)),
            Kind::Geometry(_) => {
                let at = random.below(50);
                format!("ST_GeomFromText('LINESTRING(0 0,{at} 1,2 {at})')")
            }
            Kind::Vector(count) => {
                let numbers: Vec<String> = (0..*count).map(|_| format!("{}.5", random.below(20))).collect();
                format!("STRING_TO_VECTOR('[{}]')", numbers.join(","))
            }
        }
    }

    fn moment(&self, random: &mut Random) -> String {
        match random.below(8) {
            0 if !matches!(self, Kind::Timestamp(_)) => "'0000-00-00'".into(),
            1 => "NOW(6)".into(),
            2 => format!("'2024-0{}-30'", 1 + random.below(9)),
            3 => "'1999-12-31 23:59:59.999999'".into(),
            _ => format!("'2024-06-{:02} 0{}:00:00.5'", 1 + random.below(20), random.below(9)),
        }
    }

    /// True if values are text of a character set.
    #[must_use]
    pub fn is_text(&self) -> bool {
        matches!(self, Kind::Char(..) | Kind::Varchar(..) | Kind::Text(..))
    }

    /// True if values are numbers that one can be added to.
    #[must_use]
    pub fn is_number(&self) -> bool {
        matches!(self, Kind::Int(..) | Kind::Decimal(..) | Kind::Float | Kind::Double)
    }

    /// True if a default may be a literal.
    #[must_use]
    pub fn has_default(&self) -> bool {
        !matches!(self, Kind::Text(..) | Kind::Blob(_) | Kind::Json | Kind::Geometry(_) | Kind::Vector(_))
    }

    /// Whether it can be part of a key: not at all, whole, or by a prefix only.
    #[must_use]
    pub fn key_part(&self) -> KeyPart {
        match self {
            Kind::Json | Kind::Geometry(_) | Kind::Vector(_) => KeyPart::Never,
            Kind::Text(..) | Kind::Blob(_) => KeyPart::Prefix,
            Kind::Varchar(len, _) if *len > 100 => KeyPart::Prefix,
            Kind::Varbinary(len) if *len > 100 => KeyPart::Prefix,
            _ => KeyPart::Whole,
        }
    }
}

/// True if ASCII takes two or four bytes in it.
#[must_use]
pub fn is_wide((charset, _): Charset) -> bool {
    charset.starts_with("ucs2") || charset.starts_with("utf16") || charset == "utf32"
}

/// A character set in which ASCII is ASCII. For others the server itself misreads names of ENUM and SET after CONVERT
/// TO (seen on 9.7: their bytes do not change).
fn narrow(random: &mut Random) -> Charset {
    Some(random.charset()).filter(|charset| !is_wide(*charset)).unwrap_or(CHARSETS[0])
}

/// Whether a type can be part of a key.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyPart {
    /// Not at all.
    Never,
    /// By a prefix only.
    Prefix,
    /// Whole.
    Whole,
}

fn integer(random: &mut Random, bits: u32, unsigned: bool) -> String {
    let top = if unsigned { u64::MAX >> (64 - bits) } else { u64::MAX >> (65 - bits) };
    match random.below(20) {
        0 => top.to_string(),
        1 if !unsigned => format!("-{}", u128::from(top) + 1),
        2 if !unsigned => format!("-{}", 1 + random.below(20)),
        3 => random.below(1 << bits.min(31)).min(top).to_string(),
        _ => random.below(40).to_string(),
    }
}

/// A string literal of at most about this many characters.
fn text(random: &mut Random, len: u32) -> String {
    match random.below(12) {
        0 => format!("REPEAT('{}',{})", random.pick(WORDS), 1 + random.below(u64::from(len.min(60)))),
        1 => format!("'{}'", random.below(100)),
        2 if len > 8 => format!("'{}{}'", random.pick(WORDS), random.pick(WORDS)),
        3 => "'\\\\ %_\"'".into(),
        4..=7 => format!("'{}'", ["a", "b", "C", "d e", "f ", "G", "", "h1"][random.below(8) as usize]),
        _ => format!("'{}'", random.pick(WORDS)),
    }
}

fn bytes(random: &mut Random, len: u64) -> String {
    match random.below(5) {
        0 => "''".into(),
        1 => format!("'{}'", random.pick(&["a", "b ", "C"])),
        2 => format!("REPEAT(x'00ff',{})", 1 + random.below(len / 2 + 1)),
        _ => format!("x'{:02x}{}'", random.below(30), if len > 1 { "00" } else { "" }),
    }
}

/// A JSON document as a literal.
pub fn json(random: &mut Random, depth: u32) -> String {
    let mut text = String::new();
    json_into(random, depth, &mut text);
    match random.below(12) {
        0 => "JSON_OBJECT('d', CAST('2024-05-06 07:08:09.5' AS DATETIME(6)), 'n', 1.50, 'b', CAST(x'0102' AS JSON))"
            .replace("CAST(x'0102' AS JSON)", "CAST(1.25 AS JSON)"),
        _ => format!("'{text}'"),
    }
}

fn json_into(random: &mut Random, depth: u32, out: &mut String) {
    use std::fmt::Write as _;
    let _ = match random.below(if depth == 0 { 6 } else { 10 }) {
        0 => write!(out, "{}", random.below(100_000)),
        1 => write!(out, "-{}.{}", random.below(100), random.below(100)),
        2 => write!(out, "{}", random.pick(&["true", "false", "null"])),
        3 => write!(out, "{}", 1u64 << random.below(63)),
        4 | 5 => write!(out, "\"{}{}\"", random.pick(&["s", "ä", "漢", ""]), "x".repeat(random.below(70) as usize)),
        6 | 7 => {
            out.push('[');
            for index in 0..random.below(5) {
                out.push_str(if index == 0 { "" } else { "," });
                json_into(random, depth - 1, out);
            }
            out.write_char(']')
        }
        _ => {
            out.push('{');
            for (index, key) in ["a", "b", "longer key", "k"].iter().take(random.below(5) as usize).enumerate() {
                let _ = write!(out, "{}\"{key}\":", if index == 0 { "" } else { "," });
                json_into(random, depth - 1, out);
            }
            out.write_char('}')
        }
    };
}
