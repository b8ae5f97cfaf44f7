//! Rows whose state contradicts what the log says of them, found after the change became visible.
//!
//! In: what cuts and merges find when they compare expectations. Out: a list in the store's folder, synced before the
//! cut or merge that found it is installed, so that nothing found is forgotten. Never here: a row taken back; a table
//! that no cut knows any more.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, ErrorKind};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

use catalog::{Identity, KeyOrder, TableDef};
use serde::{Deserialize, Serialize};
use values::text::{TextOptions, write_sql};
use values::{ColumnType, OFFSET_NULL, RowLayout};

use crate::error::StoreError;
use crate::key_codec;
use crate::synced_list;

/// Name of the list in the store's folder.
pub(crate) const FILE: &str = "drift.json";
const FORMAT: u32 = 1;

/// Rows that are listed of a table; of further ones only the number is kept.
pub(crate) const ROWS_MAX: usize = 100;

/// How a row contradicts the log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum DriftKind {
    /// The log updates or deletes a row that was not there.
    #[serde(rename = "missing")]
    Missing,
    /// The log inserts a row that was there.
    #[serde(rename = "duplicate")]
    Duplicate,
    /// The log removes more copies of a row than there were, in a table without a key.
    #[serde(rename = "too_few_copies")]
    TooFewCopies,
}

/// A row that contradicts the log.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DriftedRow {
    /// Key in the tree, in hexadecimal: see docs/formats.md.
    #[serde(rename = "key")]
    pub key: String,
    #[serde(rename = "kind")]
    pub kind: DriftKind,
}

impl std::fmt::Display for DriftKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            DriftKind::Missing => "the log changes it, and it was not here",
            DriftKind::Duplicate => "the log inserts it, and it was here already",
            DriftKind::TooFewCopies => "the log removes more copies than were here",
        })
    }
}

impl DriftedRow {
    /// The row for messages: its key as `(id) = (5)`, and what is wrong.
    #[must_use]
    pub fn shown(&self, table: &TableDef) -> String {
        let key = match self.key_values(table) {
            Some((columns, values)) => format!("({columns}) = ({values})"),
            None => format!("key 0x{}", self.key.get(2 * key_codec::PREFIX_LEN..).unwrap_or_default()),
        };
        format!("{key}: {}", self.kind)
    }

    /// Names and values of the identifying columns; None for a table without a key, or if the key is of an earlier
    /// definition.
    fn key_values(&self, table: &TableDef) -> Option<(String, String)> {
        let Identity::Columns(columns) = &table.identity else { return None };
        let tree_key = bytes_of(&self.key)?;
        let order = KeyOrder::of(table);
        // The stored key follows its sort key, whose length depends on it. Shortest first: what is no stored key has an
        // empty sort key.
        let own = (key_codec::PREFIX_LEN..tree_key.len()).rev().filter_map(|at| tree_key.get(at..)).find(|own| {
            let mut key = Vec::new();
            key_codec::append_row_key(&order, table.id, own, &mut key);
            key == tree_key
        })?;
        key_values(table, columns, own)
    }
}

/// Longest value in a message, in characters.
const VALUE_CHARS_MAX: usize = 100;

/// A row for messages, from its stored key bytes: `(id) = (5)`; in a table without a key all its columns. None if the
/// bytes do not fit the definition.
#[must_use]
pub fn row_text(table: &TableDef, stored: &[u8]) -> Option<String> {
    let (columns, values) = match &table.identity {
        Identity::Columns(columns) => key_values(table, columns, stored)?,
        Identity::WholeImage => image_values(table, stored)?,
    };
    Some(format!("({columns}) = ({values})"))
}

fn key_values(table: &TableDef, columns: &[usize], stored: &[u8]) -> Option<(String, String)> {
    let layout = RowLayout::new(&table.column_types());
    let mut sorted = columns.to_vec();
    sorted.sort_unstable();
    let (mut rest, mut names, mut values) = (stored, Vec::new(), Vec::new());
    for column in sorted {
        let (value, tail) = rest.split_at_checked(layout.stored_len(column, rest).ok()?)?;
        let definition = table.columns.get(column)?;
        names.push(definition.name.clone());
        values.push(value_text(&definition.ty, value)?);
        rest = tail;
    }
    Some((names.join(", "), values.join(", ")))
}

fn image_values(table: &TableDef, image: &[u8]) -> Option<(String, String)> {
    let layout = RowLayout::new(&table.column_types());
    let mut offsets = Vec::new();
    layout.walk_offsets(image, &mut offsets).ok()?;
    let (mut names, mut values) = (Vec::new(), Vec::new());
    for (definition, (start, len)) in table.columns.iter().zip(offsets) {
        names.push(definition.name.clone());
        values.push(match start {
            OFFSET_NULL => "NULL".to_owned(),
            start => value_text(&definition.ty, image.get(start as usize..)?.get(..len as usize)?)?,
        });
    }
    Some((names.join(", "), values.join(", ")))
}

fn value_text(ty: &ColumnType, value: &[u8]) -> Option<String> {
    let mut text = Vec::new();
    write_sql(ty, value, TextOptions::default(), &mut text).ok()?;
    let text = String::from_utf8_lossy(&text);
    let shown: String = text.chars().take(VALUE_CHARS_MAX).collect();
    Some(if shown.len() < text.len() { shown + "…" } else { shown })
}

fn bytes_of(hexadecimal: &str) -> Option<Vec<u8>> {
    let digits = hexadecimal.as_bytes().chunks(2);
    digits.map(|pair| u8::from_str_radix(std::str::from_utf8(pair).ok()?, 16).ok()).collect()
}

/// Rows of one table that contradict the log.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TableDrift {
    /// Id of the table.
    #[serde(rename = "table")]
    pub table: u32,
    /// Some of the rows, in the order they were found.
    #[serde(rename = "rows")]
    pub rows: Vec<DriftedRow>,
    /// Number of findings that are not listed.
    #[serde(rename = "more")]
    pub more: u64,
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct ListRecord {
    #[serde(rename = "format")]
    format: u32,
    #[serde(rename = "tables")]
    tables: Vec<TableDrift>,
}

/// Something found by a cut or a merge.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Finding {
    pub table: u32,
    pub row: DriftedRow,
}

impl Finding {
    /// `key`: the row's key in the tree.
    #[cold]
    pub(crate) fn new(key: &[u8], kind: DriftKind) -> Finding {
        let table = key_codec::table_of(key).unwrap_or(key_codec::RECORDS);
        let key = key.iter().map(|byte| format!("{byte:02x}")).collect();
        Finding { table, row: DriftedRow { key, kind } }
    }
}

/// The list of drifted tables.
pub(crate) struct DriftList {
    folder: PathBuf,
    tables: Mutex<BTreeMap<u32, TableDrift>>,
    /// Grows with each change of the list.
    changes: AtomicU64,
}

impl DriftList {
    /// Reads the list in a store's folder; a missing one is empty.
    ///
    /// # Errors
    /// When it cannot be read, or is not one of ours.
    pub(crate) fn open(folder: &Path) -> Result<DriftList, StoreError> {
        let path = folder.join(FILE);
        let tables = match fs::read(&path) {
            Ok(text) => {
                let record: ListRecord = synced_list::read(folder, FILE, &text, FORMAT)?;
                record.tables.into_iter().map(|table| (table.table, table)).collect()
            }
            Err(error) if error.kind() == ErrorKind::NotFound => BTreeMap::new(),
            Err(error) => return Err(StoreError::io(folder, &error)),
        };
        Ok(DriftList { folder: folder.to_owned(), tables: Mutex::new(tables), changes: AtomicU64::new(0) })
    }

    fn tables(&self) -> MutexGuard<'_, BTreeMap<u32, TableDrift>> {
        self.tables.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A number that grows with each change of the list.
    pub(crate) fn changes(&self) -> u64 {
        self.changes.load(Ordering::Acquire)
    }

    /// All drifted tables, by id.
    pub(crate) fn all(&self) -> Vec<TableDrift> {
        self.tables().values().cloned().collect()
    }

    /// Adds findings durably; those in the list already are left out. `more`: findings that were not kept.
    ///
    /// # Errors
    /// When the list cannot be written. It is unchanged then.
    pub(crate) fn add(&self, findings: &[Finding], more: &BTreeMap<u32, u64>) -> io::Result<()> {
        let mut held = self.tables();
        let mut tables = held.clone();
        for Finding { table, row } in findings {
            let entry = tables.entry(*table).or_insert_with(|| TableDrift { table: *table, ..TableDrift::default() });
            if entry.rows.contains(row) {
                continue;
            }
            if entry.rows.len() < ROWS_MAX {
                entry.rows.push(row.clone());
            } else {
                entry.more += 1;
            }
        }
        for (table, more) in more {
            tables.entry(*table).or_insert_with(|| TableDrift { table: *table, ..TableDrift::default() }).more += more;
        }
        self.replace(&mut held, tables)
    }

    /// Removes tables from the list durably.
    ///
    /// # Errors
    /// When the list cannot be written. It is unchanged then.
    pub(crate) fn forget(&self, is_forgotten: impl Fn(u32) -> bool) -> io::Result<()> {
        let mut held = self.tables();
        if !held.keys().any(|table| is_forgotten(*table)) {
            return Ok(());
        }
        let tables = held.iter().filter(|(table, _)| !is_forgotten(**table));
        let tables = tables.map(|(id, table)| (*id, table.clone())).collect();
        self.replace(&mut held, tables)
    }

    fn replace(&self, held: &mut BTreeMap<u32, TableDrift>, tables: BTreeMap<u32, TableDrift>) -> io::Result<()> {
        if *held == tables {
            return Ok(());
        }
        let record = ListRecord { format: FORMAT, tables: tables.values().cloned().collect() };
        synced_list::write(&self.folder, FILE, &serde_json::to_vec(&record)?)?;
        *held = tables;
        self.changes.fetch_add(1, Ordering::AcqRel);
        Ok(())
    }
}

/// Findings of one cut or merge, bounded.
#[derive(Default)]
pub(crate) struct Findings {
    kept: Vec<Finding>,
    per_table: BTreeMap<u32, usize>,
    more: BTreeMap<u32, u64>,
}

impl Findings {
    pub(crate) fn push(&mut self, finding: Finding) {
        let count = self.per_table.entry(finding.table).or_default();
        *count += 1;
        if *count > ROWS_MAX {
            *self.more.entry(finding.table).or_default() += 1;
        } else {
            self.kept.push(finding);
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.kept.is_empty()
    }

    /// Key in the tree of the first finding, after the table's prefix.
    pub(crate) fn first_key(&self) -> Option<&str> {
        self.kept.first()?.row.key.get(2 * key_codec::PREFIX_LEN..)
    }

    /// Adds everything to the list.
    ///
    /// # Errors
    /// As [`DriftList::add`].
    pub(crate) fn save(&mut self, list: &DriftList) -> io::Result<()> {
        if !self.is_empty() {
            list.add(&self.kept, &self.more)?;
        }
        *self = Findings::default();
        Ok(())
    }
}
