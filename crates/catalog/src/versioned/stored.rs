//! A catalog as text: whole, or in parts of which a cut writes those that changed.
//!
//! In: a snapshot, and the one that is stored already. Out: JSON. Never here: where it is kept.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use base::SharedMap;
use serde::de::Error as _;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Catalog, Database, Inner};
use crate::engine::EngineRows;
use crate::index_set;
use crate::stored_objects::{Definition, Kept, StoredAnswer, Unsettled};
use crate::table::TableDef;

/// A catalog as the store keeps it, in JSON.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct Stored {
    #[serde(rename = "lower_case_table_names")]
    lower_case_table_names: u8,
    #[serde(rename = "epoch")]
    epoch: u64,
    #[serde(rename = "next_table_id")]
    next_table_id: u32,
    #[serde(rename = "databases")]
    databases: Vec<StoredDatabase>,
    /// Folded database name, folded table name, reason.
    // Absent if empty.
    #[serde(rename = "quarantined", default, skip_serializing_if = "Vec::is_empty")]
    quarantined: Vec<(String, String, String)>,
    /// Views, routines, triggers, events, users and grants.
    // Absent if empty.
    #[serde(rename = "definitions", default, skip_serializing_if = "Vec::is_empty")]
    definitions: Vec<Definition>,
    /// Those about which the source must be asked.
    // Absent if empty.
    #[serde(rename = "unsettled", default, skip_serializing_if = "Vec::is_empty")]
    unsettled: Vec<Unsettled>,
    /// When the source was asked, where the log is not past it.
    // Absent if empty.
    #[serde(rename = "answered", default, skip_serializing_if = "Vec::is_empty")]
    answered: Vec<StoredAnswer>,
    /// True if a copy has read the source's definitions.
    // Absent if false.
    #[serde(rename = "definitions_known", default, skip_serializing_if = "std::ops::Not::not")]
    definitions_known: bool,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct StoredDatabase {
    #[serde(rename = "name")]
    name: String,
    #[serde(rename = "collation", deserialize_with = "Option::deserialize")]
    collation: Option<u16>,
    #[serde(rename = "tables")]
    tables: Vec<Arc<TableDef>>,
    #[serde(rename = "views")]
    views: BTreeSet<String>,
}

/// Upgrades a catalog of store format 1, which had no layouts, index ids or partitions, by adding the values they stood
/// for. None if this is no such catalog. A table that lacks only some of these keys is left alone: it lost them, and
/// the caller's error stands.
fn without_layouts(text: &[u8]) -> Option<Value> {
    let mut stored: Value = serde_json::from_slice(text).ok()?;
    let mut any = false;
    for database in stored.get_mut("databases")?.as_array_mut()? {
        for table in database.get_mut("tables")?.as_array_mut()? {
            let table = table.as_object_mut()?;
            if TABLE_KEYS_SINCE_FORMAT_2.iter().any(|(key, _)| table.contains_key(*key)) {
                continue;
            }
            any = true;
            for (key, value) in TABLE_KEYS_SINCE_FORMAT_2 {
                table.insert(key.to_owned(), serde_json::from_str(value).ok()?);
            }
            for key in table.get_mut("keys")?.as_array_mut()? {
                key.as_object_mut()?.insert("id".to_owned(), Value::from(0));
            }
        }
    }
    any.then_some(stored)
}

/// Keys of a table that format 1 lacks, each with its implied value as JSON.
const TABLE_KEYS_SINCE_FORMAT_2: [(&str, &str); 4] =
    [("partitioning", "null"), ("layout_since", "0"), ("older_layouts", "[]"), ("index_ids_given", "0")];

/// What a catalog in parts says of itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct CatalogHead {
    #[serde(rename = "lower_case_table_names")]
    lower_case_table_names: u8,
    #[serde(rename = "epoch")]
    epoch: u64,
    #[serde(rename = "next_table_id")]
    next_table_id: u32,
    /// Number of tables, so that a part that is lost is noticed.
    #[serde(rename = "tables")]
    tables: usize,
    /// True if a copy has read the source's definitions.
    // Absent if false.
    #[serde(rename = "definitions_known", default, skip_serializing_if = "std::ops::Not::not")]
    definitions_known: bool,
}

/// A part of a catalog, under a name of its own.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub enum Part {
    #[serde(rename = "database")]
    Database {
        #[serde(rename = "name")]
        name: String,
        #[serde(rename = "collation", deserialize_with = "Option::deserialize")]
        collation: Option<u16>,
    },
    #[serde(rename = "table")]
    Table(Arc<TableDef>),
    /// Folded names of the database and the view.
    #[serde(rename = "view")]
    View(String, String),
    /// Folded database name, folded table name, reason.
    #[serde(rename = "quarantined")]
    Quarantined(String, String, String),
    #[serde(rename = "definition")]
    Definition(Arc<Definition>),
    /// A definition about which the source must be asked.
    #[serde(rename = "unsettled")]
    Unsettled(Arc<Unsettled>),
    /// When the source was asked about one.
    #[serde(rename = "answered")]
    Answered(StoredAnswer),
}

/// Parts that changed, by name; None if a part is gone.
type Parts = BTreeMap<String, Option<Part>>;

impl Catalog {
    /// Serialises the whole catalog as JSON.
    ///
    /// # Errors
    /// Those of `serde_json`; none occurs for a catalog built here.
    pub fn to_json(&self) -> Result<Vec<u8>, serde_json::Error> {
        serde_json::to_vec(&Stored {
            lower_case_table_names: self.inner.lower_case_table_names,
            epoch: self.inner.epoch,
            next_table_id: self.inner.next_table_id,
            definitions: self.definitions().map(|one| Definition::clone(one)).collect(),
            unsettled: self.unsettled_definitions().cloned().collect(),
            answered: self.inner.definitions.answers().collect(),
            definitions_known: self.inner.definitions.all_known(),
            quarantined: self.quarantined().map(|(db, name, why)| (db.into(), name.into(), why.into())).collect(),
            databases: (self.inner.databases.values())
                .map(|database| StoredDatabase {
                    name: database.name.clone(),
                    collation: database.collation,
                    tables: database.tables.values().cloned().collect(),
                    views: database.views.keys().map(ToString::to_string).collect(),
                })
                .collect(),
        })
    }

    /// Deserialises what [`Catalog::to_json`] wrote.
    ///
    /// # Errors
    /// If the text is not such a catalog. A name that this program does not know may be a newer one's; what it means is
    /// unknown, so it is refused.
    pub fn from_json(text: &[u8]) -> Result<Catalog, serde_json::Error> {
        let stored: Stored = match serde_json::from_slice(text) {
            Ok(stored) => stored,
            Err(error) => match without_layouts(text) {
                Some(older) => serde_json::from_value(older)?,
                None => return Err(error),
            },
        };
        let mut inner = Inner::empty(stored.lower_case_table_names);
        (inner.epoch, inner.next_table_id) = (stored.epoch, stored.next_table_id);
        inner.keep_definitions(stored.definitions, stored.unsettled);
        inner.keep_answers(stored.answered, stored.definitions_known);
        for (db, name, why) in stored.quarantined {
            inner.wait((db, name), &why);
        }
        for stored in stored.databases {
            inner.change_database(&stored.name, |database| {
                (database.name, database.collation) = (stored.name.clone(), stored.collation);
                database.views = stored.views.iter().map(|view| (Arc::from(view.as_str()), ())).collect();
            });
            stored.tables.into_iter().for_each(|table| inner.put_stored(table));
        }
        Ok(Catalog { inner: Arc::new(inner) })
    }

    /// What precedes the parts.
    #[must_use]
    pub fn head(&self) -> CatalogHead {
        let Inner { lower_case_table_names, epoch, next_table_id, .. } = *self.inner;
        let (tables, definitions_known) = (self.table_count(), self.inner.definitions.all_known());
        CatalogHead { lower_case_table_names, epoch, next_table_id, tables, definitions_known }
    }

    /// The parts in which this catalog differs from an earlier one, or all of them, by name; None for a part that is
    /// gone. What the two share costs nothing.
    #[must_use]
    pub fn parts_since(&self, earlier: Option<&Catalog>) -> Parts {
        let empty = Inner::empty(self.inner.lower_case_table_names);
        let (now, before) = (&*self.inner, earlier.map_or(&empty, |earlier| &*earlier.inner));
        let mut parts = Parts::new();
        for change in now.by_id.differences(&before.by_id, Arc::ptr_eq) {
            // Of ten digits, so that the names are in the order of the ids.
            let name = format!("table/{:010}", change.key.0);
            parts.insert(name, change.after.map(|table| Part::Table(Arc::clone(table))));
        }
        for change in now.databases.differences(&before.databases, Arc::ptr_eq) {
            let collation = |database: &&Arc<Database>| (database.name.clone(), database.collation);
            let after = change.after.as_ref().map(collation);
            if after != change.before.as_ref().map(collation) {
                let part = after.map(|(name, collation)| Part::Database { name, collation });
                parts.insert(format!("database/{}", change.key), part);
            }
            let none = SharedMap::new();
            let views = |database: Option<&'_ Arc<Database>>| database.map_or(none.clone(), |one| one.views.clone());
            for view in views(change.after).differences(&views(change.before), |(), ()| true) {
                let part = view.after.map(|()| Part::View(change.key.to_string(), view.key.to_string()));
                parts.insert(format!("view/{}\0{}", change.key, view.key), part);
            }
        }
        for change in now.quarantined.differences(&before.quarantined, |one, other| one.why == other.why) {
            let (db, name) = &**change.key;
            let part = change.after.map(|waiting| Part::Quarantined(db.clone(), name.clone(), waiting.why.clone()));
            parts.insert(format!("quarantined/{db}\0{name}"), part);
        }
        for (name, kept) in now.definitions.changes_since(&before.definitions) {
            let part = kept.map(|kept| match kept {
                Kept::Definition(one) => Part::Definition(one),
                Kept::Unsettled(one) => Part::Unsettled(one),
                Kept::Answered(one) => Part::Answered(one),
            });
            parts.insert(name, part);
        }
        parts
    }

    /// The catalog of these parts, in any order.
    ///
    /// # Errors
    /// If they are not as many tables as the head says, or two of them have the same name or id.
    pub fn from_parts(head: &CatalogHead, parts: impl IntoIterator<Item = Part>) -> Result<Catalog, serde_json::Error> {
        let mut inner = Inner::empty(head.lower_case_table_names);
        (inner.epoch, inner.next_table_id) = (head.epoch, head.next_table_id);
        let (mut definitions, mut unsettled, mut answered) = (Vec::new(), Vec::new(), Vec::new());
        let mut tables = 0;
        for part in parts {
            match part {
                Part::Database { name, collation } => {
                    inner.change_database(&name, |database| {
                        (database.name, database.collation) = (name.clone(), collation)
                    });
                }
                Part::Table(table) => {
                    if inner.table(&table.db, &table.name).is_some() || inner.by_id.contains_key(&table.id) {
                        let what = format!("a second table {}, id {}", table.full_name(), table.id);
                        return Err(serde_json::Error::custom(what));
                    }
                    tables += 1;
                    inner.put_stored(table);
                }
                Part::View(db, name) => {
                    inner.change_database(&db, |database| _ = database.views.insert(name.into(), ()));
                }
                Part::Quarantined(db, name, why) => inner.wait((db, name), &why),
                Part::Definition(one) => definitions.push(Arc::unwrap_or_clone(one)),
                Part::Unsettled(one) => unsettled.push(Arc::unwrap_or_clone(one)),
                Part::Answered(one) => answered.push(one),
            }
        }
        inner.keep_definitions(definitions, unsettled);
        inner.keep_answers(answered, head.definitions_known);
        if tables != head.tables {
            let what = format!("{tables} tables in a catalog of {}", head.tables);
            return Err(serde_json::Error::custom(what));
        }
        Ok(Catalog { inner: Arc::new(inner) })
    }
}

impl Inner {
    /// Takes a table of a stored catalog, which an earlier version of this program may have written.
    fn put_stored(&mut self, mut table: Arc<TableDef>) {
        // Catalogs written before indexes were stored have no index ids.
        if table.keys.iter().any(|key| key.id == 0) {
            index_set::give_ids(Arc::make_mut(&mut table));
        }
        if table.engine_of().rows == EngineRows::OfMembers && table.merge.is_none() {
            let why = "an earlier version of this program did not keep which tables it consists of";
            self.wait(self.name_key(&table.db, &table.name), why);
            return;
        }
        self.put_table(&table);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::context::StatementContext;

    const STATEMENTS: [&str; 24] = [
        "CREATE DATABASE d COLLATE latin1_bin",
        "CREATE DATABASE e",
        "CREATE TABLE p (id INT PRIMARY KEY, a INT, KEY (a))",
        "CREATE TABLE c (id INT PRIMARY KEY, p INT, FOREIGN KEY (p) REFERENCES p (id) ON DELETE CASCADE)",
        "CREATE VIEW v AS SELECT * FROM p",
        "CREATE TRIGGER tr AFTER INSERT ON p FOR EACH ROW SET @a = 1",
        "CREATE FUNCTION e.f() RETURNS INT RETURN 1",
        "CREATE USER me",
        "ALTER TABLE p ADD b VARCHAR(10) DEFAULT 'x', RENAME COLUMN id TO number",
        "RENAME TABLE p TO e.q, v TO w",
        "CREATE TABLE one (i INT) ENGINE=MyISAM",
        "CREATE TABLE many (i INT) ENGINE=MERGE UNION=(one)",
        "TRUNCATE TABLE c",
        "ALTER DATABASE e COLLATE utf8mb4_bin",
        "DROP TABLE e.q",
        "CREATE TABLE e.x LIKE c",
        "CREATE VIEW e.y AS SELECT 1",
        "DROP VIEW w",
        "DROP USER me",
        "ALTER TABLE c RENAME TO e.c",
        "CREATE TABLE `a/b` (i INT)",
        "DROP DATABASE e",
        "DROP TABLE one, many",
        "CREATE TABLE one (i INT)",
    ];

    fn from(head: &CatalogHead, parts: &BTreeMap<String, Part>) -> Result<Catalog, serde_json::Error> {
        let text = serde_json::to_vec(&parts.values().collect::<Vec<_>>()).unwrap();
        Catalog::from_parts(head, serde_json::from_slice::<Vec<Part>>(&text).unwrap())
    }

    /// What a store holds after cuts that write what changed.
    #[test]
    fn the_parts_that_change_make_the_catalog() {
        let context = StatementContext { default_db: "d".into(), ..StatementContext::default() };
        let (mut catalog, mut kept) = (Catalog::new(0), BTreeMap::new());
        let mut names = Vec::new();
        for sql in STATEMENTS {
            let mut next = catalog.apply(&context, sql.as_bytes()).unwrap().catalog;
            match sql {
                "CREATE DATABASE e" => next = next.with_quarantined(&("d".into(), "w1".into()), "why").0,
                "TRUNCATE TABLE c" => next = next.with_quarantined(&("e".into(), "w2".into()), "also").0,
                _ => {}
            }
            for (name, part) in next.parts_since(Some(&catalog)) {
                match part {
                    Some(part) => drop(kept.insert(name, part)),
                    None => assert!(kept.remove(&name).is_some(), "{sql}: {name}"),
                }
            }
            catalog = next;
            let all = catalog.parts_since(None);
            assert!(all.iter().map(|(name, part)| (name, part.as_ref().unwrap())).eq(&kept), "{sql}");
            let read = from(&catalog.head(), &kept).unwrap();
            assert_eq!(read.to_json().unwrap(), catalog.to_json().unwrap(), "{sql}");
            assert_eq!(read.head(), catalog.head(), "{sql}");
            let children = |catalog: &Catalog| -> Vec<String> {
                let of = |(child, _): (&Arc<TableDef>, _)| child.full_name();
                ["p", "q"]
                    .iter()
                    .flat_map(|name| {
                        catalog.children("e", name).chain(catalog.children("d", name)).map(of).collect::<Vec<_>>()
                    })
                    .collect()
            };
            assert_eq!(children(&read), children(&catalog), "{sql}");
            names.push(children(&catalog).join(" "));
            assert!(catalog.parts_since(Some(&catalog)).is_empty());
        }
        assert_eq!(names.iter().filter(|names| *names == "`d`.`c`").count(), 16, "{names:?}");
        let lost: BTreeMap<_, _> = kept.iter().filter(|(name, _)| !name.starts_with("table/")).collect();
        let lost = lost.into_iter().map(|(name, part)| (name.clone(), part.clone())).collect();
        let error = from(&catalog.head(), &lost).unwrap_err().to_string();
        assert!(error.contains("0 tables in a catalog of 2"), "{error}");
        let table = kept.iter().find(|(name, _)| name.starts_with("table/")).unwrap().1.clone();
        kept.insert("table/again".into(), table);
        let error = from(&catalog.head(), &kept).unwrap_err().to_string();
        assert!(error.contains("a second table"), "{error}");
    }
}
