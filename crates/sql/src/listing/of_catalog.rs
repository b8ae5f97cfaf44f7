//! Rows of `information_schema` that follow from the catalog.
//!
//! In: a catalog, which schemas may be seen. Out: rows in the order of the recorded columns. What the log does not
//! tell, such as sizes, times and numbers of rows, is NULL. Never here: a schema that may not be seen.

use catalog::{Catalog, ForeignKey, IndexKind, Key, PartitionRule, ShownPartition, ShownPartitions, TableDef};
use values::collation;

use super::recorded::tables_of;
use super::{SYSTEM_SCHEMA, columns, of_virtual, text};
use crate::bind::Value;

/// A catalog, as far as an account may see it.
pub struct Seen<'a> {
    pub catalog: &'a Catalog,
    /// True for schemas that may be seen.
    pub may_see: &'a dyn Fn(&str) -> bool,
    /// False for tables, by schema and name, whose rows nobody asks for; without a name, for a schema of such tables
    /// only, which are not looked at then.
    pub wanted: &'a dyn Fn(&str, Option<&str>) -> bool,
    /// Whose rows are listed now.
    pub part: Part<'a>,
}

/// A part of a listing's rows: together they may be too many to be held before they are chosen from.
#[derive(Clone, Copy)]
pub enum Part<'a> {
    All,
    /// Those of these tables.
    Tables(&'a [&'a TableDef]),
    /// Those of no table that is kept.
    Others,
}

/// True for a table of `information_schema` that has rows of each table that is kept.
#[must_use]
pub fn is_by_table(table: &str) -> bool {
    const THESE: &[&str] = &[
        "CHECK_CONSTRAINTS",
        "COLUMNS",
        "KEY_COLUMN_USAGE",
        "PARTITIONS",
        "REFERENTIAL_CONSTRAINTS",
        "STATISTICS",
        "TABLES",
        "TABLE_CONSTRAINTS",
    ];
    THESE.contains(&table)
}

fn number(number: usize) -> Value {
    Value::UInt(number as u64)
}

fn collation_name(id: Option<u16>) -> Value {
    id.and_then(collation::by_id).map_or(Value::Null, |found| text(found.name))
}

fn charset_name(id: Option<u16>) -> Value {
    id.and_then(collation::by_id).map_or(Value::Null, |found| text(found.charset))
}

/// utf8mb3_general_ci, utf8mb4_0900_ai_ci: of the virtual schemas.
const VIRTUAL: &[(&str, u16)] = &[("information_schema", 33), ("performance_schema", 255)];

impl<'a> Seen<'a> {
    /// Tables, each schema's by name.
    #[must_use]
    pub fn tables(&self) -> Vec<&'a TableDef> {
        match self.part {
            Part::All => {}
            Part::Tables(tables) => return tables.to_vec(),
            Part::Others => return Vec::new(),
        }
        let schemas = self.catalog.databases().map(|(db, _)| db);
        let schemas = schemas.filter(|db| (self.may_see)(db) && (self.wanted)(db, None));
        let tables = schemas.flat_map(|db| self.catalog.tables_of(db)).map(AsRef::as_ref);
        let mut all: Vec<&TableDef> =
            tables.filter(|table: &&TableDef| self.is_wanted(&table.db, &table.name)).collect();
        all.sort_by(|one: &&TableDef, other| (&one.db, &one.name).cmp(&(&other.db, &other.name)));
        all
    }

    fn is_wanted(&self, db: &str, table: &str) -> bool {
        (self.wanted)(db, Some(table))
    }

    /// The rows of a table of `information_schema`; None if the catalog does not tell them.
    #[must_use]
    pub fn rows(&self, table: &str) -> Option<Vec<Vec<Value>>> {
        if matches!(self.part, Part::Tables(_)) && !is_by_table(table) {
            return Some(Vec::new());
        }
        Some(match table {
            "SCHEMATA" => self.schemata(),
            "TABLES" => self.tables_rows(),
            "COLUMNS" => {
                let of = |table: &&'a TableDef| {
                    let table = *table;
                    table.columns.iter().enumerate().map(move |(at, column)| columns::row(table, at, column))
                };
                let own = self.tables();
                own.iter()
                    .flat_map(of)
                    .chain(self.of_virtual(|| of_virtual::columns(&|db, table| self.is_wanted(db, table))))
                    .collect()
            }
            "PARTITIONS" => self.partitions()?,
            "STATISTICS" => self.and_virtual(self.tables().into_iter().flat_map(statistics), table),
            "TABLE_CONSTRAINTS" => self.and_virtual(self.tables().into_iter().flat_map(constraints), table),
            "CHECK_CONSTRAINTS" => self.tables().into_iter().flat_map(checks).collect(),
            "KEY_COLUMN_USAGE" => {
                self.and_virtual(self.tables().into_iter().flat_map(|table| self.key_columns(table)), table)
            }
            "REFERENTIAL_CONSTRAINTS" => self.tables().into_iter().flat_map(|table| self.references(table)).collect(),
            "VIEWS" | "TRIGGERS" | "EVENTS" | "ROUTINES" | "PARAMETERS" => {
                let kinds: &[&str] = match table {
                    "VIEWS" => &["VIEW"],
                    "TRIGGERS" => &["TRIGGER"],
                    "EVENTS" => &["EVENT"],
                    _ => &["FUNCTION", "PROCEDURE"],
                };
                if self.has_objects(kinds, None) {
                    return None;
                }
                Vec::new()
            }
            _ => return None,
        })
    }

    /// These rows of a table of `information_schema`, and those about virtual tables.
    fn and_virtual(&self, own: impl Iterator<Item = Vec<Value>>, table: &str) -> Vec<Vec<Value>> {
        own.chain(self.of_virtual(|| of_virtual::rows(table))).collect()
    }

    /// Rows about virtual tables, which are of no part of the kept ones.
    fn of_virtual(&self, rows: impl FnOnce() -> Vec<Vec<Value>>) -> Vec<Vec<Value>> {
        if matches!(self.part, Part::Tables(_)) { Vec::new() } else { rows() }
    }

    /// True if there are stored objects of these kinds, in this schema or any.
    #[must_use]
    pub fn has_objects(&self, kinds: &[&str], schema: Option<&str>) -> bool {
        self.catalog.definitions().any(|one| {
            let is_meant = schema.is_none_or(|schema| one.db.eq_ignore_ascii_case(schema));
            kinds.contains(&one.kind.name()) && is_meant && (self.may_see)(&one.db)
        })
    }

    fn schemata(&self) -> Vec<Vec<Value>> {
        let own = self.catalog.databases().filter(|(name, _)| (self.may_see)(name));
        let system = (self.may_see)(SYSTEM_SCHEMA).then_some((SYSTEM_SCHEMA, Some(collation::UTF8MB4_0900_AI_CI)));
        let all = own.chain(system).chain(VIRTUAL.iter().map(|(name, id)| (*name, Some(*id))));
        let row = |(name, id): (&str, Option<u16>)| {
            vec![text("def"), text(name), charset_name(id), collation_name(id), Value::Null, text("NO")]
        };
        all.map(row).collect()
    }

    fn tables_rows(&self) -> Vec<Vec<Value>> {
        let base = self.tables().into_iter().map(|table| {
            // The source ends it at the first zero.
            let comment = table.comment.split('\0').next().unwrap_or_default();
            table_row(&table.db, &table.name, &table.engine, table.default_collation, &options(table), comment)
        });
        if matches!(self.part, Part::Tables(_)) {
            return base.collect();
        }
        let waiting = self.catalog.quarantined().filter(|(db, ..)| (self.may_see)(db)).map(|(db, name, why)| {
            let mut row = unknown_row(db, name, "BASE TABLE");
            row.push(text(&format!("cannot be read now: {why}")));
            row
        });
        let views = self.catalog.definitions().filter(|one| one.kind.name() == "VIEW" && (self.may_see)(&one.db));
        let views = views.map(|view| {
            let mut row = unknown_row(&view.db, &view.name, "VIEW");
            row.push(text("VIEW"));
            row
        });
        let system_views = tables_of("information_schema").map(system_view_row);
        let counters = tables_of("performance_schema").map(performance_row);
        base.chain(waiting).chain(views).chain(system_views).chain(counters).collect()
    }

    /// Rows of `information_schema.PARTITIONS`, one for a table without; None if the catalog does not tell them.
    fn partitions(&self) -> Option<Vec<Vec<Value>>> {
        let mut rows = Vec::new();
        for table in self.tables() {
            match catalog::shown_partitions(table).ok()? {
                None => rows.push(partition_row(&table.db, &table.name, None)),
                Some(all) => {
                    let of = |part| partition_row(&table.db, &table.name, Some((&all, part)));
                    rows.extend(all.parts.iter().map(of));
                }
            }
        }
        if matches!(self.part, Part::Tables(_)) {
            return Some(rows);
        }
        let is_asked = |db: &str, name: &str| (self.may_see)(db) && self.is_wanted(db, name);
        let waiting = self.catalog.quarantined().map(|(db, name, _)| (db, name));
        let views = self.catalog.definitions().filter(|one| one.kind.name() == "VIEW");
        let named = waiting.chain(views.map(|view| (view.db.as_str(), view.name.as_str())));
        rows.extend(named.filter(|(db, name)| is_asked(db, name)).map(|(db, name)| partition_row(db, name, None)));
        for schema in VIRTUAL.iter().map(|(schema, _)| *schema) {
            let tables = tables_of(schema).filter(|table| self.is_wanted(schema, table));
            rows.extend(tables.map(|table| partition_row(schema, table, None)));
        }
        Some(rows)
    }

    /// The rows of SHOW TABLE STATUS of a schema, by name.
    #[must_use]
    pub fn table_status(&self, schema: &str) -> Vec<Vec<Value>> {
        let of_schema = |row: &Vec<Value>| matches!(row.get(1), Some(Value::Text(db)) if db.eq_ignore_ascii_case(schema.as_bytes()));
        let mut rows: Vec<Vec<Value>> = self.tables_rows().into_iter().filter(of_schema).collect();
        // Without catalog, schema and type.
        rows.iter_mut().for_each(|row| {
            let name = row.get(2).cloned().unwrap_or(Value::Null);
            row.drain(..4.min(row.len()));
            row.insert(0, name);
        });
        rows.sort_by_key(|row| match row.first() {
            Some(Value::Text(name)) => name.clone(),
            _ => Vec::new(),
        });
        rows
    }

    /// The key of a parent that a foreign key refers to.
    fn parent_key(&self, key: &ForeignKey) -> Option<&'a Key> {
        let parent = self.catalog.table(&key.parent_db, &key.parent_table)?;
        let names = |parent: &TableDef, own: &Key| -> Vec<String> {
            let name =
                |part: &catalog::KeyPart| parent.columns.get(part.column).map(|column| column.name.to_lowercase());
            own.parts.iter().filter_map(name).collect()
        };
        let wanted: Vec<String> = key.parent_columns.iter().map(|name| name.to_lowercase()).collect();
        parent.keys.iter().find(|own| own.unique && names(parent, own) == wanted)
    }

    fn key_columns(&self, table: &'a TableDef) -> Vec<Vec<Value>> {
        let name = |position: usize| table.columns.get(position).map_or(Value::Null, |column| text(&column.name));
        let row = |key: &str, column: Value, place: usize, parent: [Value; 4]| {
            let mut row =
                vec![text("def"), text(&table.db), text(key), text("def"), text(&table.db), text(&table.name)];
            row.extend([column, number(place + 1)]);
            row.extend(parent);
            row
        };
        let none = || [Value::Null, Value::Null, Value::Null, Value::Null];
        let unique = table.keys.iter().filter(|key| key.unique).flat_map(|key| {
            let parts = key.parts.iter().enumerate();
            parts.map(|(place, part)| row(&key.name, name(part.column), place, none())).collect::<Vec<_>>()
        });
        let foreign = table.foreign_keys.iter().flat_map(|key| {
            let parts = key.columns.iter().enumerate().map(|(place, column)| {
                let parent = key.parent_columns.get(place).map_or(Value::Null, |name| text(name));
                let parent = [number(place + 1), text(&key.parent_db), text(&key.parent_table), parent];
                row(&key.name, name(*column), place, parent)
            });
            parts.collect::<Vec<_>>()
        });
        unique.chain(foreign).collect()
    }

    fn references(&self, table: &TableDef) -> Vec<Vec<Value>> {
        let row = |key: &ForeignKey| {
            vec![
                text("def"),
                text(&table.db),
                text(&key.name),
                text("def"),
                text(&key.parent_db),
                self.parent_key(key).map_or(Value::Null, |parent| text(&parent.name)),
                text("NONE"),
                text(key.on_update.name()),
                text(key.on_delete.name()),
                text(&table.name),
                text(&key.parent_table),
            ]
        };
        table.foreign_keys.iter().map(row).collect()
    }
}

fn table_row(db: &str, name: &str, engine: &str, collation: u16, options: &str, comment: &str) -> Vec<Value> {
    let mut row = vec![text("def"), text(db), text(name), text("BASE TABLE"), text(engine), Value::UInt(10)];
    // Row format to check time.
    row.extend(std::iter::repeat_n(Value::Null, 11));
    row.extend([collation_name(Some(collation)), Value::Null, text(options), text(comment)]);
    row
}

/// A row of `information_schema.PARTITIONS`; None: of a table without partitions.
fn partition_row(db: &str, name: &str, part: Option<(&ShownPartitions, &ShownPartition)>) -> Vec<Value> {
    let optional = |one: Option<&String>| one.map_or(Value::Null, |one| text(one));
    let of_all = |of: fn(&ShownPartitions) -> Option<&String>| optional(part.and_then(|(all, _)| of(all)));
    let of_part = |of: fn(&ShownPartition) -> Option<&String>| optional(part.and_then(|(_, part)| of(part)));
    let place =
        |of: fn(&ShownPartition) -> Option<usize>| part.and_then(|(_, part)| of(part)).map_or(Value::Null, number);
    let mut row = vec![
        text("def"),
        text(db),
        text(name),
        of_part(|part| Some(&part.name)),
        of_part(|part| part.sub_name.as_ref()),
        place(|part| Some(part.place)),
        place(|part| part.sub_place),
        // SECONDARY_LOAD
        if part.is_some() { text("0") } else { Value::Null },
        of_all(|all| Some(&all.method)),
        of_all(|all| all.sub_method.as_ref()),
        of_all(|all| all.expression.as_ref()),
        of_all(|all| all.sub_expression.as_ref()),
        of_part(|part| part.description.as_ref()),
    ];
    // Number of rows to checksum.
    row.extend(std::iter::repeat_n(Value::Null, 10));
    let comment = part.map_or("", |(_, part)| part.comment.as_str());
    let node_group = part.map_or("", |(_, part)| part.node_group.as_str());
    row.extend([text(comment), text(node_group), Value::Null]);
    row
}

/// A table of which only the name is known; its comment follows.
fn unknown_row(db: &str, name: &str, kind: &str) -> Vec<Value> {
    let mut row = vec![text("def"), text(db), text(name), text(kind)];
    row.extend(std::iter::repeat_n(Value::Null, 16));
    row
}

/// The row of a view of `information_schema`.
fn system_view_row(view: &str) -> Vec<Value> {
    let mut row = vec![text("def"), text("information_schema"), text(view), text("SYSTEM VIEW")];
    row.extend([Value::Null, Value::UInt(10), Value::Null]);
    // Rows to free bytes.
    row.extend(std::iter::repeat_n(Value::UInt(0), 6));
    // AUTO_INCREMENT to checksum.
    row.extend(std::iter::repeat_n(Value::Null, 6));
    row.extend([text(""), text("")]);
    row
}

const UTF8MB4_BIN: u16 = 46;

/// The row of a table of `performance_schema`. How many rows MySQL expects there is its own.
fn performance_row(table: &str) -> Vec<Value> {
    const FIXED: &[&str] = &[
        "accounts",
        "events_statements_histogram_global",
        "hosts",
        "performance_timers",
        "replication_applier_status",
        "replication_asynchronous_connection_failover",
        "replication_group_members",
        "setup_actors",
        "temporary_account_locks",
        "users",
    ];
    const BINARY: &[&str] = &["keyring_keys", "session_account_connect_attrs", "session_connect_attrs"];
    let format = if FIXED.contains(&table) { "Fixed" } else { "Dynamic" };
    let collation = if BINARY.contains(&table) { UTF8MB4_BIN } else { collation::UTF8MB4_0900_AI_CI };
    let mut row = vec![text("def"), text("performance_schema"), text(table), text("BASE TABLE")];
    row.extend([text("PERFORMANCE_SCHEMA"), Value::UInt(10), text(format), Value::Null]);
    // Length of a row to free bytes.
    row.extend(std::iter::repeat_n(Value::UInt(0), 5));
    // AUTO_INCREMENT to check time.
    row.extend(std::iter::repeat_n(Value::Null, 4));
    row.extend([collation_name(Some(collation)), Value::Null, text(""), text("")]);
    row
}

/// Rows of `information_schema.STATISTICS`.
fn statistics(table: &TableDef) -> Vec<Vec<Value>> {
    table.keys.iter().flat_map(|key| parts(table, key)).collect()
}

fn parts(table: &TableDef, key: &Key) -> Vec<Vec<Value>> {
    let count = key.parts.len() + key.expressions.len();
    let mut columns = key.parts.iter();
    let mut expressions = key.declared.expressions.iter();
    // As far as it can be told: what an expression makes NULL of other values is not looked for.
    let reads_nullable = |part: &catalog::DeclaredPart| {
        let mut nullable = table.columns.iter().filter(|column| column.nullable);
        nullable.any(|column| part.spelled.as_ref().is_some_and(|text| text.contains(&format!("`{}`", column.name))))
    };
    let mut row = |place: usize| {
        let expression = key.expressions.iter().find(|(at, _)| *at == place).map(|(_, text)| text.as_str());
        let part = if expression.is_some() { None } else { columns.next() };
        let column = part.and_then(|part| table.columns.get(part.column));
        let declared = if expression.is_some() { expressions.next() } else { None };
        let descending = part.map_or(declared.is_some_and(|one| one.descending), |part| part.descending);
        let direction = if descending { "D" } else { "A" };
        let spelled = declared.and_then(|one| one.spelled.as_deref()).map(columns::escaped);
        let prefix = match key.kind {
            IndexKind::Spatial => Some(32),
            IndexKind::FullText => None,
            IndexKind::Ordered => part.and_then(|part| table.shown_prefix(key, part)),
        };
        vec![
            text("def"),
            text(&table.db),
            text(&table.name),
            Value::Int(i64::from(!key.unique)),
            text(&table.db),
            text(&key.name),
            number(place + 1),
            column.map_or(Value::Null, |column| text(&column.name)),
            if key.kind == IndexKind::FullText { Value::Null } else { text(direction) },
            Value::Null,
            prefix.map_or(Value::Null, |prefix| Value::Int(prefix.into())),
            Value::Null,
            text(if column.is_some_and(|column| column.nullable) || declared.is_some_and(&reads_nullable) {
                "YES"
            } else {
                ""
            }),
            text(match key.kind {
                IndexKind::Ordered => "BTREE",
                IndexKind::FullText => "FULLTEXT",
                IndexKind::Spatial => "SPATIAL",
            }),
            text(""),
            text(&key.declared.comment),
            text(if key.invisible { "NO" } else { "YES" }),
            spelled.map_or(Value::Null, |spelled| text(&spelled)),
        ]
    };
    (0..count).map(&mut row).collect()
}

/// The rows of SHOW INDEX.
#[must_use]
pub fn show_index(table: &TableDef) -> Vec<Vec<Value>> {
    statistics(table).into_iter().map(index_shown).collect()
}

/// A row of `information_schema.STATISTICS` as SHOW INDEX shows it, without catalog and schemas.
fn index_shown(mut row: Vec<Value>) -> Vec<Value> {
    row.remove(4);
    row.drain(..2);
    row
}

/// The rows of SHOW INDEX of a virtual table.
#[must_use]
pub fn show_index_of_virtual(schema: &str, table: &str) -> Vec<Vec<Value>> {
    let of_table = [text(schema), text(table)];
    let rows = of_virtual::rows("STATISTICS").into_iter().filter(|row| row.get(1..3) == Some(&of_table));
    rows.map(index_shown).collect()
}

/// The rows of SHOW COLUMNS of a virtual table.
#[must_use]
pub fn show_columns_of_virtual(schema: &str, table: &str, full: bool) -> Vec<Vec<Value>> {
    let rows = of_virtual::columns(&|own, name| own == schema && name == table);
    rows.into_iter().map(|row| columns::picked(row, full)).collect()
}

/// The rows of SHOW COLUMNS.
#[must_use]
pub fn show_columns(table: &TableDef, full: bool) -> Vec<Vec<Value>> {
    table.columns.iter().enumerate().map(|(at, column)| columns::shown(table, at, column, full)).collect()
}

fn constraints(table: &TableDef) -> Vec<Vec<Value>> {
    let row = |name: &str, kind: &str, enforced: bool| {
        let enforced = if enforced { "YES" } else { "NO" };
        vec![text("def"), text(&table.db), text(name), text(&table.db), text(&table.name), text(kind), text(enforced)]
    };
    let keys = table.keys.iter().filter(|key| key.unique);
    let keys = keys.map(|key| row(&key.name, if key.primary { "PRIMARY KEY" } else { "UNIQUE" }, true));
    let foreign = table.foreign_keys.iter().map(|key| row(&key.name, "FOREIGN KEY", true));
    let checks = table.declared.iter().flat_map(|declared| &declared.checks);
    let checks = checks.map(|check| row(&check.name, "CHECK", check.enforced));
    keys.chain(foreign).chain(checks).collect()
}

/// Rows of `information_schema.CHECK_CONSTRAINTS`. A condition whose spelling is not known is NULL.
fn checks(table: &TableDef) -> Vec<Vec<Value>> {
    let clause = |condition: &Option<String>| match condition {
        Some(condition) => text(&columns::escaped(condition)),
        None => Value::Null,
    };
    let checks = table.declared.iter().flat_map(|declared| &declared.checks);
    checks.map(|check| vec![text("def"), text(&table.db), text(&check.name), clause(&check.condition)]).collect()
}

/// `CREATE_OPTIONS` of a table.
fn options(table: &TableDef) -> String {
    const SHOWN: &[(&str, &str)] = &[
        ("MAX_ROWS", "max_rows"),
        ("MIN_ROWS", "min_rows"),
        ("AVG_ROW_LENGTH", "avg_row_length"),
        ("ROW_FORMAT", "row_format"),
        ("STATS_SAMPLE_PAGES", "stats_sample_pages"),
        ("STATS_AUTO_RECALC", "stats_auto_recalc"),
        ("KEY_BLOCK_SIZE", "KEY_BLOCK_SIZE"),
        ("COMPRESSION", "COMPRESSION"),
        ("STATS_PERSISTENT", "stats_persistent"),
        ("PACK_KEYS", "pack_keys"),
        ("CHECKSUM", "checksum"),
        ("DELAY_KEY_WRITE", "delay_key_write"),
    ];
    let given = table.declared.as_ref().map(|declared| &declared.options);
    let option = |name: &str| given.and_then(|options| options.get(name));
    let shown = |name: &str, shown: &str| {
        let value = option(name)?;
        Some(if name == "COMPRESSION" { format!("{shown}=\"{value}\"") } else { format!("{shown}={value}") })
    };
    let mut all: Vec<String> = SHOWN.iter().filter_map(|(name, as_shown)| shown(name, as_shown)).collect();
    // KEY () names no column, by which the source tells.
    let by_nothing = |rule: &PartitionRule| matches!(rule, PartitionRule::Key { columns, .. } if columns.is_empty());
    if table.partition_by.is_some() && !table.partitioning.as_ref().is_some_and(|all| by_nothing(&all.rule)) {
        all.push("partitioned".to_owned());
    }
    if let Some(engine) = option("SECONDARY_ENGINE") {
        // Whether its rows are loaded there is the source's own.
        all.push(format!("SECONDARY_ENGINE=\"{engine}\" SECONDARY_LOAD=\"0\""));
    }
    all.join(" ")
}
