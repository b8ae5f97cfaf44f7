//! The generator's knowledge of the tables: enough that most of its statements are accepted.
//!
//! In: changes that the server has accepted. Out: tables, columns and keys to write statements about. Never here: a
//! promise that all of it is true. Another session may have been faster.

use std::collections::BTreeMap;

use super::Chance as _;
use super::types::{KeyPart, Kind};
use crate::Random;

/// The databases. The names are unlikely elsewhere in a script, so that it can be moved to other databases.
pub const DATABASES: &[&str] = &["diffa", "diffb"];

/// `(database, table)`.
pub type Name = (String, String);

/// A column.
#[derive(Debug, Clone)]
pub struct Column {
    /// Name.
    pub name: String,
    /// Type.
    pub kind: Kind,
    /// True if NULL is allowed.
    pub nullable: bool,
    /// DEFAULT, as SQL.
    pub default: Option<String>,
    /// Expression of a generated column, and whether it is stored.
    pub generated: Option<(String, bool)>,
    /// INVISIBLE.
    pub invisible: bool,
    /// AUTO_INCREMENT.
    pub auto_increment: bool,
}

/// A key.
#[derive(Debug, Clone)]
pub struct Key {
    /// Name; `PRIMARY` for the primary key.
    pub name: String,
    /// Unique.
    pub unique: bool,
    /// Columns with prefix length and whether descending.
    pub parts: Vec<(String, Option<u32>, bool)>,
}

/// A table.
#[derive(Debug, Clone, Default)]
pub struct Table {
    /// Columns in order.
    pub columns: Vec<Column>,
    /// Keys.
    pub keys: Vec<Key>,
    /// Names of the partitions; they can be dropped if by range.
    pub partitions: Vec<String>,
    /// True if partitions are by RANGE.
    pub by_range: bool,
    /// Names of the table's foreign keys.
    pub foreign_keys: Vec<String>,
    /// True if a trigger runs before its INSERTs: it gets no generated columns.
    pub has_before_trigger: bool,
    /// In the engine CSV, whose files hold six digits of a FLOAT.
    pub in_csv: bool,
}

/// A table's definition after a change, or its removal.
#[derive(Debug, Clone)]
pub enum Change {
    /// The table now has this definition.
    Put(Name, Table),
    /// The table no longer exists.
    Gone(Name),
}

/// All tables.
#[derive(Debug, Default)]
pub struct Schema {
    /// By name.
    pub tables: BTreeMap<Name, Table>,
    numbers: u64,
}

impl Schema {
    /// A number never returned before.
    pub fn number(&mut self) -> u64 {
        self.numbers += 1;
        self.numbers
    }

    /// Any table.
    pub fn any(&self, random: &mut Random) -> Option<(Name, Table)> {
        let at = random.below(self.tables.len().max(1) as u64) as usize;
        self.tables.iter().nth(at).map(|(name, table)| (name.clone(), table.clone()))
    }

    /// Applies the changes of an accepted statement.
    pub fn take(&mut self, changes: &[Change]) {
        for change in changes {
            match change {
                Change::Put(name, table) => drop(self.tables.insert(name.clone(), table.clone())),
                Change::Gone(name) => drop(self.tables.remove(name)),
            }
        }
    }
}

impl Column {
    /// A column of any type.
    pub fn any(random: &mut Random, name: String) -> Column {
        let kind = Kind::any(random);
        let default = (kind.has_default() && random.chance(40)).then(|| kind.literal(random));
        let default = default.filter(|text| !text.contains(['(', '/']) && !text.starts_with("b'"));
        Column {
            name,
            nullable: random.chance(60),
            default,
            generated: None,
            invisible: random.chance(6),
            auto_increment: false,
            kind,
        }
    }

    /// The column's definition in SQL.
    #[must_use]
    pub fn sql(&self) -> String {
        let mut sql = format!("`{}` {}", self.name, self.kind.sql());
        if let Some((expression, stored)) = &self.generated {
            sql += &format!(" AS ({expression}) {}", if *stored { "STORED" } else { "VIRTUAL" });
        }
        sql += if self.nullable { " NULL" } else { " NOT NULL" };
        if let Some(default) = self.default.as_ref().filter(|default| !self.kind.is_two_in_sjis(default)) {
            sql += &format!(" DEFAULT {default}");
        }
        if self.auto_increment {
            sql += " AUTO_INCREMENT";
        }
        sql + if self.invisible { " INVISIBLE" } else { "" }
    }

    /// A value for the column: of its type, NULL or DEFAULT.
    pub fn value(&self, random: &mut Random) -> String {
        match random.below(20) {
            0 | 1 if self.nullable || self.auto_increment => "NULL".into(),
            2 if self.default.is_some() || self.nullable => "DEFAULT".into(),
            _ => self.kind.literal(random),
        }
    }
}

impl Key {
    /// The key's definition in SQL.
    #[must_use]
    pub fn sql(&self) -> String {
        let part = |(column, prefix, descending): &(String, Option<u32>, bool)| {
            let prefix = prefix.map_or(String::new(), |len| format!("({len})"));
            format!("`{column}`{prefix}{}", if *descending { " DESC" } else { "" })
        };
        let parts = self.parts.iter().map(part).collect::<Vec<_>>().join(",");
        match self.name.as_str() {
            "PRIMARY" => format!("PRIMARY KEY ({parts})"),
            name => format!("{}KEY `{name}` ({parts})", if self.unique { "UNIQUE " } else { "" }),
        }
    }
}

impl Table {
    /// A table with some columns and keys, sometimes partitioned.
    pub fn any(random: &mut Random, number: u64) -> Table {
        let mut table = Table::default();
        let count = 2 + random.below(7);
        for index in 0..count {
            let mut column = Column::any(random, format!("c{index}"));
            // Few values, so that keys and conditions meet.
            if index == 0 || index == 1 && random.chance(30) {
                column.kind = if random.chance(75) { Kind::integer(random) } else { Kind::text(random) };
                column.default = None;
                column.invisible = false;
            }
            table.columns.push(column);
        }
        if random.chance(30) {
            for index in 0..1 + random.below(3) {
                table.add_generated(random, &format!("g{index}"));
            }
        }
        match random.below(10) {
            0..=4 => drop(table.add_key(random, "PRIMARY", true)),
            5 | 6 => {
                table.add_key(random, "u", true);
                // An empty name matches no key, so nothing becomes NOT NULL.
                let key = if random.chance(60) { "u" } else { "" };
                table.make_not_null(key);
            }
            7 => table.auto_increment(),
            _ => {}
        }
        for index in 0..random.below(3) {
            let unique = random.chance(25);
            table.add_key(random, &format!("k{number}_{index}"), unique);
        }
        table
    }

    /// Makes the first column AUTO_INCREMENT and the primary key.
    fn auto_increment(&mut self) {
        let first = &mut self.columns[0];
        first.kind = Kind::Int("INT", 32, true);
        (first.nullable, first.default, first.auto_increment) = (false, None, true);
        self.keys.push(Key { name: "PRIMARY".into(), unique: true, parts: vec![(first.name.clone(), None, false)] });
    }

    /// Adds a generated column of any type over an existing one; None if none can be made.
    pub fn add_generated(&mut self, random: &mut Random, name: &str) -> Option<String> {
        if self.has_before_trigger {
            return None;
        }
        let plain: Vec<&Column> = self.columns.iter().filter(|c| c.generated.is_none() && !c.auto_increment).collect();
        let computed: Vec<&Column> = self.columns.iter().filter(|c| c.generated.is_some()).collect();
        let above = random.pick_or_none(&computed).copied().filter(|_| random.chance(40));
        let from = *random.pick_or_none(&plain)?;
        let has_default = from.default.is_some() || from.nullable && from.kind.has_default();
        let (expression, kind) = match &from.kind {
            _ if above.is_some() => above.map(|above| over_generated(random, above))?,
            kind if kind.is_number() && has_default && random.chance(40) => {
                (format!("`{0}` / 2 + DEFAULT(`{0}`) / 2", from.name), Kind::Double)
            }
            _ if random.chance(40) => of_a_truth(random, &format!("`{}` IS NULL", from.name)),
            // Of CHAR with its padding or without, as the session's sql_mode says.
            Kind::Varchar(..) | Kind::Text(..) | Kind::Blob(_) | Kind::Varbinary(_) if random.chance(60) => {
                (format!("CONCAT(`{}`)", from.name), Kind::Blob("LONGBLOB"))
            }
            Kind::Timestamp(_) => (format!("HOUR(`{}`)", from.name), Kind::Int("INT", 32, false)),
            // Nothing that a value could be too large for: the table would be unreadable from then on, at the source
            // too.
            kind if kind.is_number() => (format!("`{}` / 2", from.name), Kind::Double),
            Kind::Json => (format!("JSON_EXTRACT(`{}`,'$.a')", from.name), Kind::Json),
            // Beside text of a wide character set, the server sometimes reads a literal in another set (seen on 9.7:
            // the column's value changes with the session that reads it). CHAR includes its padding or not, depending
            // on that session's sql_mode.
            Kind::Varchar(_, ("utf8mb4", _)) => {
                (format!("CONCAT(`{}`,'-g')", from.name), Kind::Varchar(420, ("utf8mb4", "utf8mb4_general_ci")))
            }
            _ => (format!("`{}` IS NULL", from.name), Kind::Int("INT", 32, false)),
        };
        let column = Column {
            name: name.to_owned(),
            kind,
            nullable: true,
            default: None,
            generated: Some((expression, random.chance(40))),
            invisible: false,
            auto_increment: false,
        };
        let sql = column.sql();
        self.columns.push(column);
        Some(sql)
    }

    /// True if a generated column has this one's text: of CHAR with its padding or without, as the session says.
    #[must_use]
    pub fn concatenates(&self, name: &str) -> bool {
        let reads = format!("CONCAT(`{name}`");
        self.columns.iter().any(|column| column.generated.as_ref().is_some_and(|(text, _)| text.contains(&reads)))
    }

    /// Adds a key over one to three columns; false if none can be made.
    pub fn add_key(&mut self, random: &mut Random, name: &str, unique: bool) -> bool {
        let mut parts: Vec<(String, Option<u32>, bool)> = Vec::new();
        for index in 0..1 + random.below(3) {
            let at = if index == 0 && random.chance(60) { 0 } else { random.below(self.columns.len() as u64) as usize };
            let column = &self.columns[at];
            let part = match column.kind.key_part() {
                KeyPart::Never => continue,
                KeyPart::Prefix => Some(1 + random.below(20) as u32),
                KeyPart::Whole if column.kind.is_text() && random.chance(10) => Some(2),
                KeyPart::Whole => None,
            };
            let virtual_key = column.generated.as_ref().is_some_and(|(_, stored)| !stored) && name == "PRIMARY";
            if virtual_key || column.name.is_empty() || parts.iter().any(|(other, ..)| *other == column.name) {
                continue;
            }
            parts.push((column.name.clone(), part, random.chance(15)));
        }
        if parts.is_empty() || self.keys.iter().any(|key| key.name == name) {
            return false;
        }
        self.keys.push(Key { name: name.to_owned(), unique, parts });
        if name == "PRIMARY" {
            self.make_not_null(name);
        }
        true
    }

    /// Makes all parts of this key NOT NULL.
    pub fn make_not_null(&mut self, key: &str) {
        let Some(key) = self.keys.iter().find(|other| other.name == key).cloned() else { return };
        for column in self.columns.iter_mut().filter(|c| key.parts.iter().any(|(part, ..)| *part == c.name)) {
            column.nullable = false;
            if column.default.as_deref() == Some("NULL") {
                column.default = None;
            }
        }
    }

    /// Columns and keys as in CREATE TABLE.
    #[must_use]
    pub fn body(&self) -> String {
        let parts: Vec<String> = self.columns.iter().map(Column::sql).chain(self.keys.iter().map(Key::sql)).collect();
        parts.join(", ")
    }

    /// Columns that a statement can give values.
    #[must_use]
    pub fn writable(&self) -> Vec<&Column> {
        self.columns.iter().filter(|column| column.generated.is_none()).collect()
    }

    /// True if a generated column adds its own text to another column's.
    #[must_use]
    pub fn has_generated_text(&self) -> bool {
        self.columns.iter().any(|column| column.generated.as_ref().is_some_and(|(text, _)| text.contains("CONCAT")))
    }

    /// True if the primary key holds only the beginning of a column.
    #[must_use]
    pub fn is_keyed_by_prefix(&self) -> bool {
        self.keys.iter().any(|key| key.name == "PRIMARY" && key.parts.iter().any(|(_, prefix, _)| prefix.is_some()))
    }

    /// Columns of the primary key, otherwise of the first unique one.
    #[must_use]
    pub fn key_columns(&self) -> Vec<&Column> {
        let key = self.keys.iter().find(|key| key.name == "PRIMARY").or(self.keys.iter().find(|key| key.unique));
        let is_part = |column: &&Column| key.is_some_and(|key| key.parts.iter().any(|(part, ..)| *part == column.name));
        self.columns.iter().filter(is_part).collect()
    }

    /// Name and number of columns of the key that orders the rows.
    #[must_use]
    pub fn clustered_by(&self) -> Option<(&str, usize)> {
        let key = self.keys.iter().find(|key| key.name == "PRIMARY").or(self.keys.iter().find(|key| key.unique));
        key.map(|key| (&*key.name, key.parts.len()))
    }

    /// Removes a column, also from the keys.
    pub fn remove_column(&mut self, name: &str) {
        self.columns.retain(|column| column.name != name);
        for key in &mut self.keys {
            key.parts.retain(|(part, ..)| part != name);
        }
        self.keys.retain(|key| !key.parts.is_empty());
    }

    /// Renames a column, also in the keys.
    pub fn rename_column(&mut self, from: &str, to: &str) {
        for column in self.columns.iter_mut().filter(|column| column.name == from) {
            to.clone_into(&mut column.name);
        }
        for (part, ..) in self.keys.iter_mut().flat_map(|key| &mut key.parts).filter(|(part, ..)| part == from) {
            to.clone_into(part);
        }
    }

    /// Gives all text columns this character set.
    pub fn convert(&mut self, charset: super::types::Charset) {
        for column in &mut self.columns {
            match &mut column.kind {
                Kind::Char(_, of) | Kind::Varchar(_, of) | Kind::Text(_, of) | Kind::Enum(_, of) | Kind::Set(_, of) => {
                    *of = charset;
                }
                _ => {}
            }
        }
    }
}

/// An expression over a generated column, and the type of its values. The source logs the BLOBs that it reads wrongly.
fn over_generated(random: &mut Random, above: &Column) -> (String, Kind) {
    let name = &above.name;
    match above.kind {
        Kind::Blob(_) | Kind::Text(..) if random.chance(50) => {
            (format!("NULLIF(`{name}`,REVERSE(`{name}`))"), Kind::Blob("LONGBLOB"))
        }
        _ if above.kind.is_number() => (format!("`{name}` / 3"), Kind::Double),
        _ => (format!("LENGTH(`{name}`)"), Kind::Int("BIGINT", 64, false)),
    }
}

fn text_of(condition: &str) -> String {
    format!("CAST({condition} AS CHAR(6) CHARACTER SET latin1)")
}

/// A value of any type for a condition that is true or false, none of which its type could refuse.
fn of_a_truth(random: &mut Random, condition: &str) -> (String, Kind) {
    let of = |truth: &str, other: &str| format!("IF({condition},{truth},{other})");
    let ascii = ("latin1", "latin1_bin");
    match random.below(15) {
        0 => (condition.to_owned(), Kind::Int("TINYINT", 8, false)),
        1 => (condition.to_owned(), Kind::Decimal(5, 2)),
        2 => (condition.to_owned(), Kind::Float),
        3 => (of("5", "2"), Kind::Bit(3)),
        4 => (of("2000", "1999"), Kind::Year),
        5 => (of("1", "2"), Kind::Enum(3, ascii)),
        6 => (of("1", "6"), Kind::Set(3, ascii)),
        7 => (of("DATE'2024-01-02'", "DATE'2023-05-06'"), Kind::Date),
        8 => (of("DATE'2024-01-02'", "DATE'2023-05-06'"), Kind::DateTime(3)),
        9 => (of("DATE'2024-01-02'", "DATE'2023-05-06'"), Kind::Timestamp(0)),
        10 => (of("TIME'01:02:03'", "TIME'-04:05:06'"), Kind::Time(2)),
        11 => (format!("JSON_ARRAY({condition})"), Kind::Json),
        12 => (of("POINT(1,2)", "POINT(3,4.5)"), Kind::Geometry("POINT")),
        // A text of a number alone is of the session's character set. For CONCAT(a IS NULL) of latin1, a 9.7.4 logged
        // '??' for '0' in both images of an UPDATE of a session with collation_connection = big5_bin, once; by hand not.
        13 => (text_of(condition), Kind::Text("TINYTEXT", ascii)),
        _ => (text_of(condition), Kind::Binary(6)),
    }
}
