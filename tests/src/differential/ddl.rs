//! Random statements that change definitions.
//!
//! In: the known tables. Out: a statement, and the tables as they are once the server accepts it. Never here: a look at
//! the server.

use super::dml::named;
use super::schema::{Change, Column, DATABASES, Key, Name, Schema, Table};
use super::types::{self, Kind};
use super::{Chance as _, Statement};
use crate::Random;

/// What the source does in a way that a replica cannot know, and what is left out because of it.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// Cascades are not in the log: children have no generated columns.
    pub native_foreign_keys: bool,
    /// Other sessions run in parallel: one may have put another table under a name since this one looked.
    pub beside_others: bool,
    /// Maximum number of tables.
    pub tables: usize,
    /// Share of the tables that are partitioned, if their first column is a number.
    pub partitioned_percent: u64,
    /// Allows forms after which tables may be copied again: generated and AUTO_INCREMENT columns, expressions as
    /// defaults.
    pub copies: bool,
}

/// One change of a definition.
struct Alter {
    kind: &'static str,
    /// Text after ALTER TABLE name.
    actions: String,
    table: Table,
}

/// A statement, or a few that belong together.
pub fn any(random: &mut Random, schema: &mut Schema, database: &str, limits: Limits) -> Vec<Statement> {
    if schema.tables.is_empty() || schema.tables.len() < limits.tables / 2 || random.chance(6) {
        return create(random, schema, database, limits);
    }
    let Some((name, table)) = schema.any(random) else { return Vec::new() };
    if !table.partitions.is_empty() && random.chance(limits.partitioned_percent) {
        if random.chance(50) {
            return exchange(random, schema, database, &name, &table, limits);
        }
        let number = schema.number();
        let Some(Alter { kind, actions, table }) = alter_partitions(random, &table, number, limits) else {
            return Vec::new();
        };
        let sql = format!("ALTER TABLE {} {actions}", named(&name, database));
        return vec![Statement { sql, kind, changes: vec![Change::Put(name, table)] }];
    }
    if random.chance(25) {
        return whole_tables(random, schema, database, &name, &table, limits);
    }
    let number = schema.number();
    let mut altered = alter(random, &table, number, limits);
    if random.chance(12) {
        // Several actions in one statement.
        let number = schema.number();
        let second = altered.as_ref().and_then(|first| alter(random, &first.table, number, limits));
        if let (Some(first), Some(second)) = (&mut altered, second)
            && !first.kind.starts_with("CREATE")
            && !second.kind.starts_with("CREATE")
        {
            first.kind = "ALTER TABLE, several actions";
            first.actions = format!("{}, {}", first.actions, second.actions);
            first.table = second.table;
        }
    }
    let Some(altered) = altered else { return Vec::new() };
    // With innodb_native_foreign_keys=ON on 9.7.4, a column that others refer to must not be renamed together with
    // another action: the table disappears for its session, or the children are left alone from then on, and no log
    // says so.
    // CREATE TABLE p (a INT PRIMARY KEY); CREATE TABLE c (a INT, FOREIGN KEY (a) REFERENCES p (a) ON DELETE CASCADE);
    // INSERT INTO p VALUES (1); INSERT INTO c VALUES (1); ALTER TABLE p RENAME COLUMN a TO b, ENGINE=InnoDB; DELETE
    // FROM p;
    let does = |action: &str| altered.actions.contains(action);
    let with_more = altered.kind == "ALTER TABLE, several actions" || does(" AFTER ") || does(" FIRST");
    if limits.native_foreign_keys && with_more && (does("RENAME COLUMN") || does("CHANGE COLUMN")) {
        return Vec::new();
    }
    let how = match random.below(8) {
        0 => ", ALGORITHM=COPY",
        1 => ", ALGORITHM=INPLACE",
        // After a column was added or dropped without a rewrite of the rows, InnoDB (seen on 9.7.4) cuts a value to the
        // primary key's prefix when an UPDATE of it is rolled back: rows then change at the source, and no log says so.
        // CREATE TABLE a (c TEXT NOT NULL, n INT, PRIMARY KEY (c(3))); INSERT INTO a VALUES (REPEAT('é', 20), 1);
        // ALTER TABLE a ADD x INT; BEGIN; UPDATE a SET c = UPPER(c); ROLLBACK; SELECT c FROM a;
        _ if table.is_keyed_by_prefix() || altered.table.is_keyed_by_prefix() => ", ALGORITHM=INPLACE",
        2 => ", LOCK=DEFAULT",
        _ => "",
    };
    // An online ALTER that reorders rows (another primary key or one that loses a column, or NOT NULL for a unique one)
    // keeps, on 9.7.4, rows that a ROLLBACK TO SAVEPOINT or a refused INSERT of another session undoes meanwhile: the
    // source then has rows that its log lacks. (UPDATE t SET id = 39 WHERE id = 10 is enough; of INSERT INTO t (a) VALUES
    // (1),(2),(2), refused, the row 1 stayed in 8 of 888 tries beside DROP COLUMN b with PRIMARY KEY (a, b).) With
    // LOCK=SHARED the server has crashed.
    let not_null = ["MODIFY", "CHANGE"].iter().any(|action| altered.actions.contains(action));
    let orders_anew = altered.actions.contains("PRIMARY KEY")
        || not_null && altered.actions.contains("NOT NULL")
        || table.clustered_by() != altered.table.clustered_by();
    let how = if orders_anew { ", ALGORITHM=COPY" } else { how };
    let how = if altered.kind.contains("PARTITION") || altered.actions.contains("CREATE") { "" } else { how };
    let sql = format!("ALTER TABLE {} {}{how}", named(&name, database), altered.actions);
    vec![Statement { sql, kind: altered.kind, changes: vec![Change::Put(name, altered.table)] }]
}

/// A generated invisible key makes the source log the definition it shows, with six digits of such a default, and keep
/// the default as it was given.
fn drop_defaults_that_are_logged_rounded(table: &mut Table) {
    if !table.keys.iter().any(|key| key.name == "PRIMARY") {
        table.columns.iter_mut().filter(|column| has_default_of_many_digits(column)).for_each(|c| c.default = None);
    }
}

/// Rows of CREATE TABLE … SELECT get the default as it was given; the logged statement shows six digits of it.
fn has_default_of_many_digits(column: &Column) -> bool {
    matches!(column.kind, Kind::Float) && column.default.as_ref().is_some_and(|default| default.len() > 6)
}

/// A new table.
pub fn create(random: &mut Random, schema: &mut Schema, database: &str, limits: Limits) -> Vec<Statement> {
    if schema.tables.len() >= limits.tables {
        return Vec::new();
    }
    let number = schema.number();
    let name = (if random.chance(70) { database } else { random.pick(DATABASES) }.to_owned(), format!("t{number}"));
    let to = named(&name, database);
    let from = schema.any(random);
    let of = |sql, kind, table| vec![Statement { sql, kind, changes: vec![Change::Put(name.clone(), table)] }];
    match (random.below(10), from) {
        (0, Some((from, table))) if table.foreign_keys.is_empty() => {
            let sql = format!("CREATE TABLE {to} LIKE {}", named(&from, database));
            of(sql, "CREATE TABLE … LIKE", table)
        }
        (1, Some((from, table))) if !table.columns.iter().any(has_default_of_many_digits) => {
            let mut table = Table { columns: table.columns, ..Table::default() };
            for column in &mut table.columns {
                (column.generated, column.auto_increment) = (None, false);
            }
            table.columns.retain(|column| !column.invisible);
            let sql = format!("CREATE TABLE {to} SELECT * FROM {} LIMIT 50", named(&from, database));
            of(sql, "CREATE TABLE … SELECT", table)
        }
        (2, Some((from, other))) => {
            let mut table = Table::any(random, number);
            table.columns.retain(|column| column.generated.is_none());
            table.columns.iter_mut().filter(|c| has_default_of_many_digits(c)).for_each(|c| c.default = None);
            let gone: Vec<String> = table.keys.iter().flat_map(|key| &key.parts).map(|part| part.0.clone()).collect();
            if gone.iter().any(|part| !table.columns.iter().any(|column| column.name == *part)) {
                table.keys.clear();
            }
            let Some(column) = other.columns.first() else { return Vec::new() };
            let sql = format!(
                "CREATE TABLE {to} ({}) IGNORE SELECT `{}` AS c0, {} AS extra FROM {}",
                table.body(),
                column.name,
                random.below(9),
                named(&from, database)
            );
            let extra =
                Column { kind: Kind::Int("INT", 32, false), nullable: false, ..Column::any(random, "extra".into()) };
            table.columns.push(Column { default: None, ..extra });
            of(sql, "CREATE TABLE (…) SELECT", table)
        }
        (3 | 4, Some((parent, table))) => child(random, &name, &to, &parent, &table, database, limits),
        _ => {
            let mut table = Table::any(random, number);
            if random.chance(limits.partitioned_percent)
                && let Some(first) = table.columns.first_mut().filter(|first| first.generated.is_none())
            {
                (first.kind, first.default) = (Kind::Int("INT", 32, false), None);
            }
            drop_defaults_that_are_logged_rounded(&mut table);
            let partitions = partitions(random, &mut table, limits);
            let options = options(random);
            // Only InnoDB has partitions.
            let other_engine = partitions.is_empty() && random.chance(30);
            if other_engine {
                // Nor has another engine descending keys.
                table.keys.iter_mut().flat_map(|key| &mut key.parts).for_each(|part| part.2 = false);
            }
            let named = if other_engine { engine(random, &table) } else { "" };
            table.in_csv = named == "CSV";
            let engine = if other_engine { format!(" ENGINE={named}") } else { String::new() };
            let sql = format!("CREATE TABLE {to} ({}){options}{engine}{partitions}", table.body());
            of(sql, if other_engine { "CREATE TABLE … ENGINE" } else { "CREATE TABLE" }, table)
        }
    }
}

/// An engine that every server has. ARCHIVE and CSV refuse most keys, so they get few tables.
fn engine(random: &mut Random, table: &Table) -> &'static str {
    let engine = random.pick(&["InnoDB", "MyISAM", "MyISAM", "MEMORY", "BLACKHOLE", "BLACKHOLE", "ARCHIVE", "CSV"]);
    // The source's own file loses digits of these, which no log tells.
    let loses = table.columns.iter().any(|column| column.kind == Kind::Float);
    if engine == "CSV" && loses { "MyISAM" } else { engine }
}

/// A new column for this table.
fn added_column(random: &mut Random, table: &Table, name: String) -> Column {
    let column = Column::any(random, name);
    Column { kind: fitting(column.kind.clone(), table), ..column }
}

/// This type, or one whose values the table's engine keeps.
fn fitting(kind: Kind, table: &Table) -> Kind {
    if table.in_csv && kind == Kind::Float { Kind::Double } else { kind }
}

fn options(random: &mut Random) -> String {
    match random.below(8) {
        0 => {
            let (charset, collation) = random.charset();
            format!(" CHARACTER SET {charset} COLLATE {collation}")
        }
        1 => " ROW_FORMAT=COMPRESSED COMMENT='it''s; a -- comment'".into(),
        2 => " AUTO_INCREMENT=7 STATS_PERSISTENT=0".into(),
        _ => String::new(),
    }
}

fn partitions(random: &mut Random, table: &mut Table, limits: Limits) -> String {
    let Some(Column { name, kind: Kind::Int(..), .. }) = table.columns.first() else { return String::new() };
    if !random.chance(limits.partitioned_percent) {
        return String::new();
    }
    if random.chance(60) {
        table.by_range = true;
        table.partitions = ["p0", "p1", "p2", "pm"].map(String::from).to_vec();
        return format!(
            " PARTITION BY RANGE (`{name}`) (PARTITION p0 VALUES LESS THAN (0), PARTITION p1 VALUES LESS THAN (10), \
             PARTITION p2 VALUES LESS THAN (25), PARTITION pm VALUES LESS THAN MAXVALUE)"
        );
    }
    let count = 2 + random.below(3);
    // Without names it gets PARTITION BY again.
    if random.chance(60) {
        table.partitions = (0..count).map(|number| format!("p{number}")).collect();
    }
    format!(" PARTITION BY {} (`{name}`) PARTITIONS {count}", if random.chance(70) { "HASH" } else { "KEY" })
}

/// Creates a table with a foreign key.
fn child(
    random: &mut Random,
    name: &Name,
    to: &str,
    parent: &Name,
    table: &Table,
    database: &str,
    limits: Limits,
) -> Vec<Statement> {
    let Some(column) = table.key_columns().first().map(|column| (*column).clone()) else { return Vec::new() };
    if column.kind.is_text() && limits.native_foreign_keys || !table.partitions.is_empty() {
        return Vec::new();
    }
    let mut child = Table::any(random, 0);
    if limits.native_foreign_keys {
        child.columns.retain(|column| column.generated.is_none());
    }
    child.keys = if random.chance(60) {
        vec![Key { name: "PRIMARY".into(), unique: true, parts: vec![("c0".into(), None, false)] }]
    } else {
        Vec::new()
    };
    drop_defaults_that_are_logged_rounded(&mut child);
    child.columns[0].kind = Kind::Int("INT", 32, false);
    child.columns[0].default = None;
    child.columns[0].nullable = false;
    child.columns[0].auto_increment = false;
    let parent_column = Column {
        nullable: true,
        default: None,
        auto_increment: false,
        name: "parent".into(),
        generated: None,
        ..column.clone()
    };
    child.columns.push(parent_column);
    // Beside others the SQL layer's cascades of 9.7.4 leave rows at the source that its log deletes
    // (`a_source_that_contradicts_its_log`): there, they are tried by one session alone.
    let cascades = limits.native_foreign_keys || !limits.beside_others;
    let action = |random: &mut Random| match random.pick(&["CASCADE", "SET NULL", "RESTRICT", "CASCADE", "NO ACTION"]) {
        "CASCADE" | "SET NULL" if !cascades => "RESTRICT",
        action => action,
    };
    let key = format!("fk_{}", name.1);
    let sql = format!(
        "CREATE TABLE {to} ({}, CONSTRAINT {key} FOREIGN KEY (`parent`) REFERENCES {} (`{}`) ON DELETE {} ON UPDATE {})",
        child.body(),
        named(parent, database),
        column.name,
        action(random),
        action(random)
    );
    child.foreign_keys.push(key);
    vec![Statement { sql, kind: "CREATE TABLE … FOREIGN KEY", changes: vec![Change::Put(name.clone(), child)] }]
}

/// RENAME, swaps, TRUNCATE, DROP, and statements that are only recorded.
fn whole_tables(
    random: &mut Random,
    schema: &mut Schema,
    database: &str,
    name: &Name,
    table: &Table,
    limits: Limits,
) -> Vec<Statement> {
    let number = schema.number();
    let text = named(name, database);
    let one = |kind, sql, changes| vec![Statement { sql, kind, changes }];
    let moved = (random.pick(DATABASES).to_string(), format!("t{number}"));
    match random.below(14) {
        0 | 1 => one("TRUNCATE TABLE", format!("TRUNCATE TABLE {text}"), vec![]),
        2 => {
            let more = if random.chance(30) { ", `not_there`" } else { "" };
            one("DROP TABLE", format!("DROP TABLE IF EXISTS {text}{more}"), vec![Change::Gone(name.clone())])
        }
        3 | 4 => {
            let sql = format!("RENAME TABLE {text} TO {}", named(&moved, database));
            one("RENAME TABLE", sql, vec![Change::Gone(name.clone()), Change::Put(moved, table.clone())])
        }
        5 | 6 => {
            // Over two schemas a refused swap may keep its first steps on 9.7.4 without a word in the log.
            let Some((other, its)) = schema.any(random).filter(|(other, _)| other.0 == name.0) else {
                return Vec::new();
            };
            let (two, between) = (named(&other, database), format!("`{}`.`swap{number}`", name.0));
            let sql = format!("RENAME TABLE {text} TO {between}, {two} TO {text}, {between} TO {two}");
            one("RENAME TABLE, a swap", sql, vec![Change::Put(name.clone(), its), Change::Put(other, table.clone())])
        }
        7 => {
            let sql = format!("ALTER TABLE {text} RENAME TO {}", named(&moved, database));
            one("ALTER TABLE … RENAME", sql, vec![Change::Gone(name.clone()), Change::Put(moved, table.clone())])
        }
        8 if !table.partitions.is_empty() => exchange(random, schema, database, name, table, limits),
        8 => create(random, schema, database, limits),
        9 => one("CREATE VIEW", format!("CREATE OR REPLACE VIEW v{} AS SELECT * FROM {text}", number % 3), vec![]),
        10 => {
            // With a BEFORE trigger, 9.7.4 computes a stored generated column before NULL becomes 0 in a NOT NULL
            // column, and again while an ALTER copies the table: rows then change, and no log says so.
            let when = if table.columns.iter().any(|column| column.generated.is_some()) { "AFTER" } else { "BEFORE" };
            let column = table.columns.first().map_or("c0", |column| &column.name);
            let body = if when == "AFTER" { "@seen = 1".into() } else { format!("NEW.`{column}` = NEW.`{column}`") };
            let sql = format!("CREATE TRIGGER `{}`.tr{number} {when} INSERT ON {text} FOR EACH ROW SET {body}", name.0);
            let changed = Table { has_before_trigger: table.has_before_trigger || when == "BEFORE", ..table.clone() };
            one("CREATE TRIGGER", sql, vec![Change::Put(name.clone(), changed)])
        }
        11 => one(
            "CREATE PROCEDURE, EVENT, FUNCTION",
            format!("CREATE PROCEDURE IF NOT EXISTS p{} () DELETE FROM {text} LIMIT 1", number % 3),
            vec![],
        ),
        12 => {
            let (charset, collation) = random.charset();
            let sql = format!("ALTER DATABASE {} CHARACTER SET {charset} COLLATE {collation}", random.pick(DATABASES));
            one("ALTER DATABASE", sql, vec![])
        }
        _ => one(
            "ANALYZE, OPTIMIZE, FLUSH",
            format!("{} TABLE {text}", random.pick(&["ANALYZE", "OPTIMIZE", "CHECK"])),
            vec![],
        ),
    }
}

/// Creates a table like this one and exchanges it with one of this one's partitions.
fn exchange(
    random: &mut Random,
    schema: &mut Schema,
    database: &str,
    name: &Name,
    table: &Table,
    limits: Limits,
) -> Vec<Statement> {
    let Some(partition) = random.pick_or_none(&table.partitions).cloned() else { return Vec::new() };
    let other = (name.0.clone(), format!("t{}", schema.number()));
    let plain = Table { partitions: Vec::new(), by_range: false, ..table.clone() };
    let (text, to) = (named(name, database), named(&other, database));
    // Rows of the same partition, or of any.
    let same = random.chance(50);
    let of = if same { format!(" PARTITION (`{partition}`)") } else { String::new() };
    let validation = match random.below(4) {
        // Brings rows outside their partition's rule, and both tables are copied; unless all belong there.
        0 | 1 if limits.copies || same => " WITHOUT VALIDATION",
        2 => " WITH VALIDATION",
        _ => "",
    };
    let columns: Vec<String> = (table.columns.iter())
        .filter(|column| column.generated.is_none())
        .map(|column| format!("`{}`", column.name))
        .collect();
    let columns = columns.join(", ");
    let rows = format!("INSERT INTO {to} ({columns}) SELECT {columns} FROM {text}{of} LIMIT {}", random.below(9));
    let mut statements = vec![
        Statement {
            sql: format!("CREATE TABLE {to} LIKE {text}"),
            kind: "CREATE TABLE … LIKE",
            changes: vec![Change::Put(other.clone(), plain)],
        },
        Statement::new("ALTER TABLE REMOVE PARTITIONING", format!("ALTER TABLE {to} REMOVE PARTITIONING")),
        Statement::new("INSERT … SELECT, to be exchanged", rows),
        Statement::new(
            if validation.contains("OUT") { "EXCHANGE PARTITION WITHOUT VALIDATION" } else { "EXCHANGE PARTITION" },
            format!("ALTER TABLE {text} EXCHANGE PARTITION `{partition}` WITH TABLE {to}{validation}"),
        ),
    ];
    if schema.tables.len() >= limits.tables {
        statements.push(Statement {
            sql: format!("DROP TABLE {to}"),
            kind: "DROP TABLE",
            changes: vec![Change::Gone(other)],
        });
    }
    statements
}

/// One action of ALTER TABLE.
fn alter(random: &mut Random, table: &Table, number: u64, limits: Limits) -> Option<Alter> {
    match random.below(20) {
        0..=9 => alter_columns(random, table, number, limits),
        10..=14 => alter_keys(random, table, number),
        15 | 16 => alter_partitions(random, table, number, limits),
        _ => alter_options(random, table, limits),
    }
}

fn place(random: &mut Random, table: &Table) -> (String, usize) {
    let count = table.columns.len();
    match random.below(4) {
        0 => (" FIRST".into(), 0),
        1 if count > 0 => {
            let at = random.below(count as u64) as usize;
            (format!(" AFTER `{}`", table.columns[at].name), at + 1)
        }
        _ => (String::new(), count),
    }
}

fn alter_columns(random: &mut Random, table: &Table, number: u64, limits: Limits) -> Option<Alter> {
    let mut changed = table.clone();
    let old = random.pick_or_none(&table.columns)?.clone();
    let name = format!("n{number}");
    let of = |kind, actions, table| Some(Alter { kind, actions, table });
    match random.below(16) {
        0..=3 => {
            let (text, at) = place(random, table);
            let column = added_column(random, table, name);
            changed.columns.insert(at, column.clone());
            of("ALTER TABLE ADD COLUMN", format!("ADD COLUMN {}{text}", column.sql()), changed)
        }
        4 => {
            let added: Vec<Column> =
                (0..2).map(|index| added_column(random, table, format!("{name}_{index}"))).collect();
            let sql = added.iter().map(Column::sql).collect::<Vec<_>>().join(", ");
            changed.columns.extend(added);
            of("ALTER TABLE ADD COLUMN (several)", format!("ADD COLUMN ({sql})"), changed)
        }
        5 if limits.copies && random.chance(25) => {
            let may_be_generated = !limits.native_foreign_keys || table.foreign_keys.is_empty();
            if matches!(old.kind, Kind::Int(..)) && old.generated.is_none() && random.chance(40) {
                let column = changed.columns.iter_mut().find(|column| column.name == old.name)?;
                (column.nullable, column.default, column.auto_increment) = (false, None, true);
                let (sql, keyed) = (column.sql(), table.keys.iter().any(|key| key.parts[0].0 == old.name));
                let key = if keyed { String::new() } else { format!(", ADD KEY (`{}`)", old.name) };
                return of("ALTER TABLE MODIFY to AUTO_INCREMENT", format!("MODIFY COLUMN {sql}{key}"), changed);
            }
            if may_be_generated && random.chance(60) {
                let sql = changed.add_generated(random, &name)?;
                return of("ALTER TABLE ADD generated column", format!("ADD COLUMN {sql}"), changed);
            }
            let column = Column {
                kind: Kind::Int("INT", 32, true),
                nullable: false,
                default: None,
                generated: None,
                invisible: false,
                auto_increment: true,
                name,
            };
            changed.columns.push(column.clone());
            let sql = format!("ADD COLUMN {}, ADD UNIQUE KEY (`{}`)", column.sql(), column.name);
            of("ALTER TABLE ADD AUTO_INCREMENT column", sql, changed)
        }
        5 | 6 if table.columns.len() > 2 => {
            changed.remove_column(&old.name);
            of("ALTER TABLE DROP COLUMN", format!("DROP COLUMN `{}`", old.name), changed)
        }
        7 | 8 => {
            changed.rename_column(&old.name, &name);
            of("ALTER TABLE RENAME COLUMN", format!("RENAME COLUMN `{}` TO `{name}`", old.name), changed)
        }
        9..=11 => {
            let mut column = old.clone();
            if column.generated.is_none() && random.chance(75) {
                column.kind = fitting(old.kind.relative(random), table);
                (column.default, column.auto_increment) = (None, false);
            }
            if random.chance(30) {
                column.nullable = !column.nullable;
            }
            // As in `Table::add_generated`.
            let may_generate = table.has_generated_text() || limits.beside_others;
            if may_generate && column.kind.charset().is_some_and(types::is_wide) {
                return None;
            }
            if matches!(column.kind, Kind::Char(..)) && table.concatenates(&old.name) {
                return None;
            }
            changed.columns.retain(|other| other.name != old.name);
            let (text, at) = if random.chance(30) {
                place(random, &changed)
            } else {
                (String::new(), table.columns.iter().position(|other| other.name == old.name)?)
            };
            let at = if text.is_empty() { table.columns.iter().position(|other| other.name == old.name)? } else { at };
            if random.chance(70) {
                changed.columns.insert(at, column.clone());
                return of("ALTER TABLE MODIFY COLUMN", format!("MODIFY COLUMN {}{text}", column.sql()), changed);
            }
            column.name.clone_from(&name);
            changed.columns.insert(at, column.clone());
            changed.rename_column(&old.name, &name);
            of("ALTER TABLE CHANGE COLUMN", format!("CHANGE COLUMN `{}` {}{text}", old.name, column.sql()), changed)
        }
        12 if old.generated.is_none() && old.kind.has_default() => {
            let literal = old.kind.literal(random);
            changed.columns.iter_mut().filter(|c| c.name == old.name).for_each(|c| c.default = Some(literal.clone()));
            let expression =
                literal.contains(['(', '/']) || literal.starts_with("b'") || old.kind.is_two_in_sjis(&literal);
            let literal = if expression { "NULL".into() } else { literal };
            of("ALTER TABLE ALTER COLUMN", format!("ALTER COLUMN `{}` SET DEFAULT {literal}", old.name), changed)
        }
        13 => {
            let word = if old.invisible { "VISIBLE" } else { "INVISIBLE" };
            changed.columns.iter_mut().filter(|c| c.name == old.name).for_each(|c| c.invisible = !old.invisible);
            of("ALTER TABLE ALTER COLUMN, visibility", format!("ALTER COLUMN `{}` SET {word}", old.name), changed)
        }
        _ => {
            // Two columns swap their names.
            let other = random.pick_or_none(&table.columns)?.clone();
            changed.rename_column(&old.name, "~");
            changed.rename_column(&other.name, &old.name);
            changed.rename_column("~", &other.name);
            let sql = format!("RENAME COLUMN `{0}` TO `{1}`, RENAME COLUMN `{1}` TO `{0}`", old.name, other.name);
            if other.name == old.name { None } else { of("ALTER TABLE RENAME COLUMN", sql, changed) }
        }
    }
}

fn alter_keys(random: &mut Random, table: &Table, number: u64) -> Option<Alter> {
    let mut changed = table.clone();
    let key = random.pick_or_none(&table.keys).cloned();
    let of = |kind, actions, table| Some(Alter { kind, actions, table });
    let drop_sql = |key: &Key| match key.name.as_str() {
        "PRIMARY" => "DROP PRIMARY KEY".to_owned(),
        name => format!("DROP KEY `{name}`"),
    };
    match (random.below(10), key) {
        (0..=2, _) | (_, None) => {
            let name = format!("k{number}");
            let unique = random.chance(30);
            changed.add_key(random, &name, unique).then_some(())?;
            let sql = changed.keys.last()?.sql();
            of("ALTER TABLE ADD KEY", format!("ADD {sql}"), changed)
        }
        (3 | 4, Some(key)) => {
            changed.keys.retain(|other| other.name != key.name);
            of("ALTER TABLE DROP KEY", drop_sql(&key), changed)
        }
        (5, Some(key)) if key.name != "PRIMARY" => {
            let name = format!("r{number}");
            changed.keys.iter_mut().filter(|other| other.name == key.name).for_each(|k| k.name.clone_from(&name));
            of("ALTER TABLE RENAME KEY", format!("RENAME KEY `{}` TO `{name}`", key.name), changed)
        }
        (6, Some(key)) if key.name != "PRIMARY" => {
            let word = random.pick(&["INVISIBLE", "VISIBLE"]);
            of("ALTER TABLE ALTER INDEX", format!("ALTER INDEX `{}` {word}", key.name), changed)
        }
        (_, Some(_)) => {
            let had = changed.keys.iter().any(|key| key.name == "PRIMARY");
            changed.keys.retain(|key| key.name != "PRIMARY");
            changed.add_key(random, "PRIMARY", true).then_some(())?;
            let sql = changed.keys.last()?.sql();
            let drop = if had { "DROP PRIMARY KEY, " } else { "" };
            of("ALTER TABLE, another PRIMARY KEY", format!("{drop}ADD {sql}"), changed)
        }
    }
}

fn alter_partitions(random: &mut Random, table: &Table, number: u64, limits: Limits) -> Option<Alter> {
    let mut changed = table.clone();
    let of = |kind, actions, table| Some(Alter { kind, actions, table });
    let Some(partition) = random.pick_or_none(&table.partitions).cloned() else {
        let text = partitions(random, &mut changed, limits);
        return if text.is_empty() { None } else { of("ALTER TABLE PARTITION BY", text, changed) };
    };
    match random.below(5) {
        0 => of("ALTER TABLE TRUNCATE PARTITION", format!("TRUNCATE PARTITION `{partition}`"), changed),
        1 if !table.by_range => {
            changed.partitions.pop();
            of("ALTER TABLE COALESCE PARTITION", "COALESCE PARTITION 1".into(), changed)
        }
        1 => {
            changed.partitions.retain(|name| *name != partition);
            of("ALTER TABLE DROP PARTITION", format!("DROP PARTITION `{partition}`"), changed)
        }
        2 if partition == "pm" => {
            let name = format!("p{number}");
            changed.partitions.push(name.clone());
            let at = 30 + number;
            let sql = format!(
                "REORGANIZE PARTITION pm INTO (PARTITION `{name}` VALUES LESS THAN ({at}), PARTITION pm VALUES LESS THAN MAXVALUE)"
            );
            of("ALTER TABLE REORGANIZE PARTITION", sql, changed)
        }
        3 => {
            changed.partitions.clear();
            of("ALTER TABLE REMOVE PARTITIONING", "REMOVE PARTITIONING".into(), changed)
        }
        _ => of("ALTER TABLE REBUILD PARTITION", format!("REBUILD PARTITION `{partition}`"), changed),
    }
}

fn alter_options(random: &mut Random, table: &Table, limits: Limits) -> Option<Alter> {
    let mut changed = table.clone();
    let of = |kind, actions, table| Some(Alter { kind, actions, table });
    let (charset, collation) = random.charset();
    match random.below(7) {
        0 | 1 => {
            // As in `types::narrow`.
            let has_names = table.columns.iter().any(|c| matches!(c.kind, Kind::Enum(..) | Kind::Set(..)));
            let unfit = has_names || table.has_generated_text() || limits.beside_others;
            if unfit && types::is_wide((charset, collation)) {
                return None;
            }
            changed.convert((charset, collation));
            let sql = format!("CONVERT TO CHARACTER SET {charset} COLLATE {collation}");
            of("ALTER TABLE CONVERT TO", sql, changed)
        }
        2 => {
            of("ALTER TABLE, default charset", format!("DEFAULT CHARACTER SET {charset} COLLATE {collation}"), changed)
        }
        3 => {
            let engine = if random.chance(50) { "InnoDB" } else { engine(random, table) };
            changed.in_csv = engine == "CSV";
            of("ALTER TABLE ENGINE", format!("ENGINE={engine}"), changed)
        }
        4 => {
            let sql = format!("ORDER BY `{}`", table.columns.last()?.name);
            of("ALTER TABLE ORDER BY", sql, changed)
        }
        5 => of("ALTER TABLE, other options", "COMMENT='x', ROW_FORMAT=DYNAMIC, AUTO_INCREMENT=50".into(), changed),
        _ => {
            let key = table.foreign_keys.first()?;
            changed.foreign_keys.remove(0);
            of("ALTER TABLE DROP FOREIGN KEY", format!("DROP FOREIGN KEY `{key}`"), changed)
        }
    }
}
