//! Names under which a catalog is stored: none may disappear or change, and none may be lost silently.

use std::collections::BTreeSet;
use std::fmt::Write as _;

use catalog::{Answer, Catalog, Definition, DefinitionKind, Older, StatementContext};
use serde_json::Value;

const STATEMENTS: &[&str] = &[
    "CREATE DATABASE d DEFAULT CHARACTER SET utf8mb4",
    "CREATE TABLE d.parent (id INT PRIMARY KEY, v VARCHAR(9) UNIQUE, e ENUM('a','b'), j JSON, KEY k (v(3) DESC), KEY x ((id + 1)))",
    "ALTER TABLE d.parent ADD COLUMN n INT, MODIFY v TEXT CHARACTER SET latin1, ADD COLUMN c INT NOT NULL DEFAULT 7",
    "CREATE TABLE d.layouts (id INT PRIMARY KEY, a SMALLINT NOT NULL)",
    "ALTER TABLE d.layouts ADD COLUMN b INT NOT NULL DEFAULT 3",
    "ALTER TABLE d.layouts MODIFY a BIGINT, ADD COLUMN c INT",
    "CREATE TABLE d.child (id INT PRIMARY KEY, g INT AS (id + 1) STORED, p POINT SRID 4326, n VECTOR(3), b BOOL, FOREIGN KEY (id) REFERENCES parent (id))",
    "CREATE TABLE d.parts (id INT PRIMARY KEY) PARTITION BY RANGE (id) (PARTITION a VALUES LESS THAN (5), PARTITION b VALUES LESS THAN MAXVALUE)",
    "CREATE TABLE d.keyed (id INT PRIMARY KEY) PARTITION BY LINEAR KEY (id) PARTITIONS 2",
    "CREATE TABLE d.keyless (a INT ZEROFILL)",
    "CREATE TABLE d.rounded (id INT PRIMARY KEY, f FLOAT(7,2), g DOUBLE(9,3))",
    "ALTER TABLE d.rounded MODIFY f DOUBLE",
    "CREATE TABLE d.computed (a INT, v INT AS (a))",
    "CREATE TABLE d.merged (a INT) ENGINE=MERGE UNION=(keyless) INSERT_METHOD=LAST",
    "CREATE TABLE d.long (id INT PRIMARY KEY, v VARCHAR(15) CHARACTER SET utf8mb3)",
    "ALTER TABLE d.long MODIFY v VARCHAR(12) CHARACTER SET utf8mb4",
    "CREATE TABLE d.told (id INT PRIMARY KEY, v VARCHAR(9) COLLATE utf8mb4_bin STORAGE DISK DEFAULT ('x'), n INT NOT SECONDARY, CHECK (id > 0), KEY k ((id + 1)) USING BTREE COMMENT 'c') STATS_PERSISTENT=1",
    "ALTER TABLE d.told ALTER v DROP DEFAULT",
    "CREATE TABLE d.each (id INT PRIMARY KEY) PARTITION BY HASH (id) (PARTITION a COMMENT 'c')",
    "CREATE VIEW d.seen AS SELECT 1",
    "CREATE TRIGGER d.runs BEFORE INSERT ON d.parent FOR EACH ROW SET NEW.v = 1",
    "CREATE EVENT e ON SCHEDULE EVERY 1 DAY DO SELECT 1",
    "CREATE USER u@h",
];

/// Fields that are absent if empty, so their loss cannot be detected.
const OPTIONAL: &[&str] = &[
    "quarantined",
    "definitions",
    "unsettled",
    "answered",
    "definitions_known",
    "order",
    "timestamp_us",
    "expression",
    "geometry",
    "vector_entries",
    "overlong",
    "dates",
    "without_virtual",
    "misplaced_rows",
    "virtual_unknown",
    "merge",
    "digits",
    "width",
    "from_decimals",
    "declared",
    "clauses",
    "checks",
    "spelled",
    "collated",
    "no_default",
    "not_secondary",
    "key_comment",
    "expression_parts",
    "given",
];

fn stored() -> Value {
    let mut catalog = Catalog::new(0);
    for sql in STATEMENTS {
        let context = StatementContext { default_db: "d".into(), timestamp_us: Some(1), ..StatementContext::default() };
        catalog = catalog.apply(&context, sql.as_bytes()).unwrap_or_else(|error| panic!("{sql}: {error}")).catalog;
    }
    let misplaced = catalog.table("d", "parts").unwrap().with_misplaced_rows();
    catalog = catalog.with_copied(&std::sync::Arc::new(misplaced)).0;
    let catalog = catalog.with_virtual_unknown(&[("d".into(), "layouts".into())]);
    let seen = catalog.definitions().find(|one| one.kind == DefinitionKind::View).unwrap();
    let older = Definition { name: "older".into(), ..Definition::clone(seen) };
    let catalog = catalog.with_answer(&Answer { older: Older::All, definitions: vec![older], ..Answer::default() });
    serde_json::from_slice(&catalog.to_json().unwrap()).unwrap()
}

/// Every key with the path of keys above it, without array indexes.
fn names(value: &Value, path: &str, into: &mut BTreeSet<String>) {
    match value {
        Value::Object(fields) => {
            for (key, value) in fields {
                let path = format!("{path}.{key}");
                into.insert(path.clone());
                names(value, &path, into);
            }
        }
        Value::Array(values) => values.iter().for_each(|value| names(value, path, into)),
        _ => {}
    }
}

/// JSON pointers to all objects.
fn objects(value: &Value, at: &str, into: &mut Vec<String>) {
    match value {
        Value::Object(fields) => {
            into.push(at.to_owned());
            fields.iter().for_each(|(key, value)| objects(value, &format!("{at}/{key}"), into));
        }
        Value::Array(values) => {
            values.iter().enumerate().for_each(|(n, value)| objects(value, &format!("{at}/{n}"), into));
        }
        _ => {}
    }
}

#[test]
fn the_stored_names_are_those_of_the_list() {
    let mut found = BTreeSet::new();
    names(&stored(), "", &mut found);
    let found = found.iter().fold(String::new(), |mut text, name| {
        let _ = writeln!(text, "{name}");
        text
    });
    let listed = include_str!("stored_names.txt");
    assert_eq!(found, listed, "stored names changed: folders that exist have the old ones");
}

#[test]
fn a_catalog_that_lost_a_key_is_refused_by_its_name() {
    let whole = stored();
    let mut places = Vec::new();
    objects(&whole, "", &mut places);
    let mut tried = 0;
    for place in places {
        let keys: Vec<String> = whole.pointer(&place).unwrap().as_object().unwrap().keys().cloned().collect();
        for key in keys.iter().filter(|key| !OPTIONAL.contains(&key.as_str())) {
            let mut lossy = whole.clone();
            lossy.pointer_mut(&place).unwrap().as_object_mut().unwrap().remove(key);
            let error = Catalog::from_json(&serde_json::to_vec(&lossy).unwrap());
            let error = error.expect_err(&format!("{place} without {key}")).to_string();
            // A variant of an enum without its name has no other key.
            let is_variant = keys.len() == 1 && key.starts_with(|first: char| first.is_ascii_uppercase());
            assert!(is_variant || error.contains(&format!("`{key}`")), "{place} without {key}: {error}");
            tried += 1;
        }
    }
    assert!(tried > 300, "{tried} keys tried");
}

#[test]
fn a_name_that_is_not_known_is_refused() {
    let whole = stored();
    let mut places = Vec::new();
    objects(&whole, "", &mut places);
    let mut tried = 0;
    for place in places {
        let mut newer = whole.clone();
        let fields = newer.pointer_mut(&place).unwrap().as_object_mut().unwrap();
        // A variant of an enum is an object with one key, its name.
        let is_variant =
            fields.len() == 1 && fields.keys().all(|key| key.starts_with(|c: char| c.is_ascii_uppercase()));
        if is_variant {
            let (name, value) = fields.iter().next().map(|(name, value)| (name.clone(), value.clone())).unwrap();
            fields.remove(&name);
            fields.insert("Newer".to_owned(), value);
        } else {
            fields.insert("newer".to_owned(), Value::Null);
        }
        let error = Catalog::from_json(&serde_json::to_vec(&newer).unwrap());
        let error = error.expect_err(&format!("{place} with a name of a newer program")).to_string();
        let name = if is_variant { "`Newer`" } else { "`newer`" };
        assert!(error.contains(name), "{place}: {error}");
        tried += 1;
    }
    assert!(tried > 80, "{tried} places tried");
}

/// An earlier version did not keep what a MERGE table consists of: it must be copied before anything is made of its rows.
#[test]
fn a_merge_table_of_unknown_members_is_quarantined() {
    let mut older = stored();
    let tables = older.pointer_mut("/databases/0/tables").unwrap().as_array_mut().unwrap();
    let merged = tables.iter_mut().find(|table| table["name"] == "merged").unwrap().as_object_mut().unwrap();
    merged.remove("merge").unwrap();
    let catalog = Catalog::from_json(&serde_json::to_vec(&older).unwrap()).unwrap();
    assert!(catalog.is_quarantined("d", "merged") && catalog.table("d", "merged").is_none());
    let again = Catalog::from_json(&catalog.to_json().unwrap()).unwrap();
    assert!(again.is_quarantined("d", "merged"));
}
