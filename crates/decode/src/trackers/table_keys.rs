//! The claimable objects of a table, computed once per definition: its keys, its foreign keys, and those that
//! reference it.
//!
//! In: a definition and the catalog around it. Out: objects (hashes that name a table, a key of it, the values a
//! foreign key references), and plans that turn a value into bytes that are equal where the collation says equal.
//! Never here: rows.

use std::collections::HashSet;

use base::key_hash;
use catalog::{Catalog, ForeignKey, Identity, Key, TableDef};
use values::sort_key::{SortKeyColumn, SortKeyPlan};

/// Kinds of objects; part of an object's hash.
const TABLE: u32 = 1;
const KEY: u32 = 2;
const REFERRED: u32 = 3;
const DATABASE: u32 = 4;
const XID: u32 = 5;

/// A unique key other than the identifying one.
pub(super) struct UniqueKey {
    /// Object of the key as a whole.
    pub object: u64,
    pub columns: Vec<usize>,
    /// None if values cannot be compared here (an expression, a collation without weights).
    pub plan: Option<SortKeyPlan>,
}

/// Values that a foreign key references, seen from the child or from the parent.
pub(super) struct Referred {
    /// Object of the parent's columns as a whole.
    pub object: u64,
    /// Indexes of the columns in this table.
    pub columns: Vec<usize>,
    /// Like that of `UniqueKey`; also None if child and parent store values differently.
    pub plan: Option<SortKeyPlan>,
    /// In a child: columns whose change makes InnoDB look the parent up again, because it writes a new entry into an
    /// index that the foreign key may use (`row_ins_check_foreign_constraints`, storage/innobase/row/row0ins.cc).
    pub looked_up_by: Vec<usize>,
}

/// The claimable objects of one table.
pub(super) struct TableKeys {
    pub table: u64,
    /// Object of the identifying key as a whole; without a key, of all rows.
    pub identity: u64,
    /// True if the table has no usable key.
    pub keyless: bool,
    /// Unique keys other than the identifying one.
    pub uniques: Vec<UniqueKey>,
    /// Foreign keys of this table.
    pub parents: Vec<Referred>,
    /// Foreign keys that reference this table.
    pub children: Vec<Referred>,
    pub databases: Vec<u64>,
    /// True if it refers to a table that the catalog does not hold, so that what changes its rows is not known.
    pub of_unknown_parent: bool,
}

impl TableKeys {
    pub(super) fn new(def: &TableDef, catalog: &Catalog) -> TableKeys {
        let identity = def.identity_key().map(|key| key.name.clone());
        let uniques = def.keys.iter().filter(|key| key.unique && Some(&key.name) != identity.as_ref());
        let uniques = uniques.map(|key| UniqueKey {
            object: object(KEY, &[&def.db, &def.name, &key.name]),
            // An expression may use any column.
            columns: if key.expressions.is_empty() { parts(key) } else { Vec::new() },
            plan: def
                .sort_key_columns(key)
                .and_then(|columns| SortKeyPlan::new(&columns).ok())
                .filter(SortKeyPlan::is_ordered),
        });
        let mut databases = vec![database(&def.db)];
        databases.extend(def.foreign_keys.iter().map(|key| database(&key.parent_db)));
        databases.extend(catalog.children(&def.db, &def.name).map(|(child, _)| database(&child.db)));
        databases.sort_unstable();
        databases.dedup();
        TableKeys {
            table: table(&def.db, &def.name),
            identity: object(KEY, &[&def.db, &def.name, "\0identity"]),
            keyless: def.identity == Identity::WholeImage,
            uniques: uniques.collect(),
            parents: def.foreign_keys.iter().map(|key| as_child(def, key, catalog)).collect(),
            children: as_parent(def, catalog),
            of_unknown_parent: def
                .foreign_keys
                .iter()
                .any(|key| catalog.table(&key.parent_db, &key.parent_table).is_none()),
            databases,
        }
    }
}

fn parts(key: &Key) -> Vec<usize> {
    key.parts.iter().map(|part| part.column).collect()
}

/// Object of a table, by name.
pub(super) fn table(db: &str, name: &str) -> u64 {
    object(TABLE, &[db, name])
}

/// Object of a database, by name.
pub(super) fn database(name: &str) -> u64 {
    object(DATABASE, &[name])
}

/// Object of an XA transaction, by its identifier.
pub(super) fn xa_transaction(xid: &str) -> u64 {
    object(XID, &[xid])
}

/// Object of the values in a parent's columns as a whole.
pub(super) fn referred(key: &ForeignKey) -> u64 {
    let mut names = vec![key.parent_db.as_str(), key.parent_table.as_str()];
    names.extend(key.parent_columns.iter().map(String::as_str));
    object(REFERRED, &names)
}

/// Hash of one value of an object.
#[inline]
#[allow(clippy::cast_possible_truncation, reason = "the seed of a hash; the whole number goes in with it")]
pub(super) fn value(object: u64, bytes: &[u8]) -> u64 {
    key_hash(object as u32, bytes) ^ object.rotate_left(21)
}

/// Hashes names regardless of letter case. Names that differ only in case are one object, which is safe where they
/// are two.
fn object(kind: u32, names: &[&str]) -> u64 {
    let mut text = String::new();
    for name in names {
        text.push_str(&name.to_lowercase());
        text.push('\u{1}');
    }
    key_hash(kind, text.as_bytes())
}

fn as_child(def: &TableDef, key: &ForeignKey, catalog: &Catalog) -> Referred {
    let parent = catalog.table(&key.parent_db, &key.parent_table);
    let plan = parent.and_then(|parent| comparable(def, key, parent)).and_then(|()| plan(def, &key.columns));
    let clustered = def.identity_key().map(parts).unwrap_or_default();
    let indexed = def.keys.iter().map(parts).filter(|parts| key.columns.iter().all(|column| parts.contains(column)));
    let mut looked_up_by: Vec<usize> = indexed.flatten().chain(clustered).chain(key.columns.iter().copied()).collect();
    looked_up_by.sort_unstable();
    looked_up_by.dedup();
    Referred { object: referred(key), columns: key.columns.clone(), plan, looked_up_by }
}

/// Returns each list of columns that is referenced, once. Children that compare values differently need no entry
/// here: they claim the object as a whole.
fn as_parent(def: &TableDef, catalog: &Catalog) -> Vec<Referred> {
    let mut seen = HashSet::new();
    let mut lists = Vec::new();
    for (_, key) in catalog.children(&def.db, &def.name) {
        let object = referred(key);
        if !seen.insert(object) {
            continue;
        }
        let columns: Option<Vec<usize>> = key.parent_columns.iter().map(|name| def.column_index(name)).collect();
        let plan = columns.as_ref().and_then(|columns| plan(def, columns));
        lists.push(Referred { object, columns: columns.unwrap_or_default(), plan, looked_up_by: Vec::new() });
    }
    lists
}

/// Plan for comparing values regardless of NULL and direction, in which child and parent differ.
fn plan(def: &TableDef, columns: &[usize]) -> Option<SortKeyPlan> {
    let of = |column: &usize| {
        let ty = def.columns.get(*column)?.ty.clone();
        Some(SortKeyColumn { ty, nullable: false, descending: false, prefix_len: None })
    };
    let columns: Option<Vec<SortKeyColumn>> = columns.iter().map(of).collect();
    SortKeyPlan::new(&columns?).ok().filter(SortKeyPlan::is_ordered)
}

/// Some if equal values of child and parent give equal bytes.
fn comparable(def: &TableDef, key: &ForeignKey, parent: &TableDef) -> Option<()> {
    for (column, name) in key.columns.iter().zip(&key.parent_columns) {
        let (own, other) = (&def.columns.get(*column)?.ty, &parent.columns.get(parent.column_index(name)?)?.ty);
        let text = own.collation == other.collation && own.text_collation().is_some();
        if own != other && !text {
            return None;
        }
    }
    (key.columns.len() == key.parent_columns.len()).then_some(())
}
