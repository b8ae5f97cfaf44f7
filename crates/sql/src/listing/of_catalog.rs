//! Rows of `information_schema` that follow from the catalog.
//!
//! In: a catalog, which schemas may be seen. Out: rows in the order of the recorded columns. What the log does not
//! tell, such as sizes, times and numbers of rows, is NULL. Never here: a schema that may not be seen.

use catalog::{Catalog, ForeignKey, IndexKind, Key, ReferenceAction, TableDef};
use values::collation;

use super::recorded::tables_of;
use super::{columns, text};
use crate::bind::Value;

/// A catalog, as far as an account may see it.
pub struct Seen<'a> {
    /// The catalog.
    pub catalog: &'a Catalog,
    /// True for schemas that may be seen.
    pub may_see: &'a dyn Fn(&str) -> bool,
    /// False for tables, by schema and name, whose rows nobody asks for.
    pub wanted: &'a dyn Fn(&str, &str) -> bool,
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
    fn tables(&self) -> Vec<&'a TableDef> {
        let is_seen = |table: &&TableDef| (self.may_see)(&table.db) && (self.wanted)(&table.db, &table.name);
        let mut all: Vec<_> = self.catalog.tables().map(AsRef::as_ref).filter(is_seen).collect();
        all.sort_by(|one: &&TableDef, other| (&one.db, &one.name).cmp(&(&other.db, &other.name)));
        all
    }

    /// The rows of a table of `information_schema`; None if the catalog does not tell them.
    #[must_use]
    pub fn rows(&self, table: &str) -> Option<Vec<Vec<Value>>> {
        Some(match table {
            "SCHEMATA" => self.schemata(),
            "TABLES" => self.tables_rows(),
            "COLUMNS" => {
                let of = |table: &&'a TableDef| {
                    let table = *table;
                    table.columns.iter().enumerate().map(move |(at, column)| columns::row(table, at, column))
                };
                self.tables().iter().flat_map(of).collect()
            }
            "STATISTICS" => self.tables().into_iter().flat_map(statistics).collect(),
            "TABLE_CONSTRAINTS" => self.tables().into_iter().flat_map(constraints).collect(),
            "KEY_COLUMN_USAGE" => self.tables().into_iter().flat_map(|table| self.key_columns(table)).collect(),
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
        let all = own.chain(VIRTUAL.iter().map(|(name, id)| (*name, Some(*id))));
        let row = |(name, id): (&str, Option<u16>)| {
            vec![text("def"), text(name), charset_name(id), collation_name(id), Value::Null, text("NO")]
        };
        all.map(row).collect()
    }

    fn tables_rows(&self) -> Vec<Vec<Value>> {
        let base = self.tables().into_iter().map(|table| {
            let options = if table.partition_by.is_some() { "partitioned" } else { "" };
            table_row(&table.db, &table.name, &table.engine, table.default_collation, options, &table.comment)
        });
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
        let of_schema = |schema: &'static str, kind: &'static str| {
            tables_of(schema).map(move |table| {
                let mut row = unknown_row(schema, table, kind);
                row.push(text(""));
                row
            })
        };
        let virtual_ones =
            of_schema("information_schema", "SYSTEM VIEW").chain(of_schema("performance_schema", "BASE TABLE"));
        base.chain(waiting).chain(views).chain(virtual_ones).collect()
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
                text(action(key.on_update)),
                text(action(key.on_delete)),
                text(&table.name),
                text(&key.parent_table),
            ]
        };
        table.foreign_keys.iter().map(row).collect()
    }
}

fn action(action: ReferenceAction) -> &'static str {
    match action {
        ReferenceAction::NoAction => "NO ACTION",
        ReferenceAction::Restrict => "RESTRICT",
        ReferenceAction::Cascade => "CASCADE",
        ReferenceAction::SetNull => "SET NULL",
        ReferenceAction::SetDefault => "SET DEFAULT",
    }
}

fn table_row(db: &str, name: &str, engine: &str, collation: u16, options: &str, comment: &str) -> Vec<Value> {
    let mut row = vec![text("def"), text(db), text(name), text("BASE TABLE"), text(engine), Value::UInt(10)];
    // Row format to check time.
    row.extend(std::iter::repeat_n(Value::Null, 11));
    row.extend([collation_name(Some(collation)), Value::Null, text(options), text(comment)]);
    row
}

/// A table of which only the name is known; its comment follows.
fn unknown_row(db: &str, name: &str, kind: &str) -> Vec<Value> {
    let mut row = vec![text("def"), text(db), text(name), text(kind)];
    row.extend(std::iter::repeat_n(Value::Null, 16));
    row
}

/// Rows of `information_schema.STATISTICS`.
fn statistics(table: &TableDef) -> Vec<Vec<Value>> {
    table.keys.iter().flat_map(|key| parts(table, key)).collect()
}

fn parts(table: &TableDef, key: &Key) -> Vec<Vec<Value>> {
    let count = key.parts.len() + key.expressions.len();
    let mut columns = key.parts.iter();
    let row = |place: usize| {
        let expression = key.expressions.iter().find(|(at, _)| *at == place).map(|(_, text)| text.as_str());
        let part = if expression.is_some() { None } else { columns.next() };
        let column = part.and_then(|part| table.columns.get(part.column));
        let direction = if part.is_some_and(|part| part.descending) { "D" } else { "A" };
        let prefix = match key.kind {
            IndexKind::Spatial => Some(32),
            IndexKind::FullText => None,
            IndexKind::Ordered => part.and_then(|part| part.prefix_len),
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
            text(if column.is_some_and(|column| column.nullable) { "YES" } else { "" }),
            text(match key.kind {
                IndexKind::Ordered => "BTREE",
                IndexKind::FullText => "FULLTEXT",
                IndexKind::Spatial => "SPATIAL",
            }),
            text(""),
            text(""),
            text(if key.invisible { "NO" } else { "YES" }),
            expression.map_or(Value::Null, text),
        ]
    };
    (0..count).map(row).collect()
}

/// The rows of SHOW INDEX.
#[must_use]
pub fn show_index(table: &TableDef) -> Vec<Vec<Value>> {
    let mut rows = statistics(table);
    // Without catalog and schemas.
    rows.iter_mut().for_each(|row| {
        row.remove(4);
        row.drain(..2);
    });
    rows
}

/// The rows of SHOW COLUMNS.
#[must_use]
pub fn show_columns(table: &TableDef, full: bool) -> Vec<Vec<Value>> {
    table.columns.iter().enumerate().map(|(at, column)| columns::shown(table, at, column, full)).collect()
}

fn constraints(table: &TableDef) -> Vec<Vec<Value>> {
    let row = |name: &str, kind: &str| {
        vec![text("def"), text(&table.db), text(name), text(&table.db), text(&table.name), text(kind), text("YES")]
    };
    let keys = table.keys.iter().filter(|key| key.unique);
    let keys = keys.map(|key| row(&key.name, if key.primary { "PRIMARY KEY" } else { "UNIQUE" }));
    let foreign = table.foreign_keys.iter().map(|key| row(&key.name, "FOREIGN KEY"));
    keys.chain(foreign).collect()
}
