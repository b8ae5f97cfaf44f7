//! The record of a cut: what the tree says about itself.
//!
//! In: the state at a transaction boundary, and at the cut before. Out: the records that a cut writes after its rows,
//! and what a start reads from them. Never here: rows; a record of a table or a definition that did not change, but for
//! the cuts that write all.
//!
//! The catalog is in parts, and each table has a record of its own, so that a cut costs what changed. Both are kept
//! under the number of the cut that wrote all of them, which the cut's record names: whatever a damaged file brings to
//! light again is of another number.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError};

use base::{GtidSet, Prepared, PreparedSet, SharedMap};
use catalog::{Catalog, CatalogHead, Part, TableId};
use serde::{Deserialize, Serialize};

use crate::disk::{Disk, Run};
use crate::error::StoreError;
use crate::index_state::IndexStates;
use crate::key_codec;
use crate::tree_view::TreeView;

/// Format version of everything in the store's folder.
const FORMAT: u32 = 5;
/// First format whose catalog is in parts, with a record for each table.
const FORMAT_PARTS: u32 = 5;
/// First format with expectations (see `expectation`).
const FORMAT_EXPECTATIONS: u32 = 4;
/// Oldest readable format: it has no secondary indexes, which are then filled.
const FORMAT_OLDEST: u32 = 1;
/// This is 2 with a copy that has not settled.
const FORMAT_NOT_YET_CONSISTENT: u32 = 3;

const _: () = assert!(FORMAT_OLDEST < FORMAT_NOT_YET_CONSISTENT && FORMAT_NOT_YET_CONSISTENT < FORMAT_EXPECTATIONS);
const _: () = assert!(FORMAT_EXPECTATIONS < FORMAT_PARTS && FORMAT_PARTS <= FORMAT);

const CUT_RECORD: &str = "cut";
const CATALOG_RECORD: &str = "catalog";
const INDEXES_RECORD: &str = "indexes";
/// Its key sorts after those of the other records.
const TABLE_RECORD: &str = "tables";

/// Table ids left out where the highest one in the tree cannot be read: far more than copies can have begun between two
/// cuts, and few of four billion.
const IDS_SKIPPED: u32 = 1 << 16;

/// Size of the values that hold the events of a prepared XA transaction.
const PREPARED_PART_BYTES: usize = 4 << 20;

/// State at the newest cut, from which replay continues.
#[derive(Clone)]
pub struct Recovered {
    /// Sequence number of the cut.
    pub sequence: u64,
    /// GTIDs of all transactions in the store.
    pub executed: GtidSet,
    /// Table definitions at the cut.
    pub catalog: Catalog,
    /// End of the last transaction in the relay log: file and offset; only a hint (invariant 11). None after a copy.
    pub position: Option<(String, u64)>,
    /// Row count by table id.
    pub rows: BTreeMap<u32, i64>,
    /// The ledger, as [`CutPoint::ledger`](crate::CutPoint::ledger) had it.
    pub ledger: String,
    /// After a copy without a lock: GTIDs that replay must reach before the rows are exact.
    pub consistent_at: Option<GtidSet>,
    /// XA transactions prepared at the cut.
    pub prepared: PreparedSet,
}

impl Recovered {
    /// The state before the first transaction.
    #[must_use]
    pub fn nothing(catalog: Catalog) -> Recovered {
        Recovered {
            sequence: 0,
            executed: GtidSet::new(),
            catalog,
            position: None,
            rows: BTreeMap::new(),
            ledger: String::new(),
            consistent_at: None,
            prepared: PreparedSet::default(),
        }
    }
}

/// The cut's record in the tree, as JSON.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct CutRecord {
    #[serde(rename = "format")]
    format: u32,
    #[serde(rename = "sequence")]
    sequence: u64,
    #[serde(rename = "gtid_executed")]
    gtid_executed: String,
    #[serde(rename = "relay_file", deserialize_with = "Option::deserialize")]
    relay_file: Option<String>,
    #[serde(rename = "relay_offset")]
    relay_offset: u64,
    /// Row count by table id. Absent since format 5, in which each table has a record.
    #[serde(rename = "rows", deserialize_with = "Option::deserialize", skip_serializing_if = "Option::is_none")]
    rows: Option<BTreeMap<u32, i64>>,
    /// Number of the cut that wrote all parts of the catalog and records of tables. Absent in formats before 5.
    #[serde(rename = "parts", deserialize_with = "Option::deserialize")]
    parts: Option<u64>,
    #[serde(rename = "ledger")]
    ledger: String,
    // Absent in formats 1 and 2, where rows are always exact.
    #[serde(rename = "settles_at", deserialize_with = "Option::deserialize")]
    consistent_at: Option<String>,
    /// Tree number from which entries say what is expected below them. Absent in formats before 4: no entry does.
    #[serde(rename = "expected_since", deserialize_with = "Option::deserialize")]
    expected_since: Option<u64>,
    #[serde(rename = "prepared")]
    prepared: Vec<PreparedRecord>,
}

impl CutRecord {
    fn from_json(mut record: serde_json::Value, format: u32) -> Result<CutRecord, serde_json::Error> {
        // What a format did not have yet.
        if let Some(fields) = record.as_object_mut() {
            if format == FORMAT_OLDEST {
                fields.entry("prepared").or_insert_with(|| serde_json::Value::Array(Vec::new()));
            }
            if format < FORMAT_NOT_YET_CONSISTENT {
                fields.entry("settles_at").or_insert(serde_json::Value::Null);
            }
            if format < FORMAT_EXPECTATIONS {
                fields.entry("expected_since").or_insert(serde_json::Value::Null);
            }
            if format < FORMAT_PARTS {
                fields.entry("parts").or_insert(serde_json::Value::Null);
            } else {
                fields.entry("rows").or_insert(serde_json::Value::Null);
            }
        }
        let record: CutRecord = serde_json::from_value(record)?;
        if record.format == FORMAT_NOT_YET_CONSISTENT && record.consistent_at.is_none() {
            return Err(serde::de::Error::missing_field("settles_at"));
        }
        if record.format >= FORMAT_EXPECTATIONS && record.expected_since.is_none() {
            return Err(serde::de::Error::missing_field("expected_since"));
        }
        if record.format >= FORMAT_PARTS && record.parts.is_none() {
            return Err(serde::de::Error::missing_field("parts"));
        }
        if record.format < FORMAT_PARTS && record.rows.is_none() {
            return Err(serde::de::Error::missing_field("rows"));
        }
        Ok(record)
    }
}

/// A prepared XA transaction in the cut's record; its events are in records of their own.
#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct PreparedRecord {
    #[serde(rename = "xid")]
    xid: String,
    #[serde(rename = "gtid", deserialize_with = "Option::deserialize")]
    gtid: Option<String>,
    #[serde(rename = "number")]
    number: u64,
    #[serde(rename = "bytes")]
    bytes: usize,
}

/// What a cut knows of a table besides its definition, as JSON. A table without rows, all of whose indexes are
/// complete, has none.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct TableRecord {
    #[serde(rename = "rows")]
    rows: i64,
    /// Ids of its indexes that are not complete.
    #[serde(rename = "incomplete")]
    incomplete: Vec<u16>,
}

impl TableRecord {
    pub(crate) fn of(table: TableId, rows: &SharedMap<u32, i64>, indexes: &IndexStates) -> TableRecord {
        let rows = rows.get(&table.0).copied().unwrap_or(0);
        TableRecord { rows, incomplete: indexes.incomplete_of(table.0) }
    }
}

/// What a backup tells of a cut.
#[derive(Debug)]
pub(crate) struct CutSummary {
    pub executed: GtidSet,
    pub position: Option<(String, u64)>,
    pub rows: i64,
}

/// What the tree's records say of the catalog and its tables.
#[derive(Clone, Copy)]
pub(crate) struct TableFacts<'a> {
    pub catalog: &'a Catalog,
    /// Row count by table id.
    pub rows: &'a SharedMap<u32, i64>,
    pub indexes: &'a IndexStates,
}

/// Content of a cut's record.
pub(crate) struct CutFacts<'a> {
    pub sequence: u64,
    pub executed: &'a GtidSet,
    pub position: Option<(&'a str, u64)>,
    pub ledger: &'a str,
    pub consistent_at: Option<&'a GtidSet>,
    pub tables: TableFacts<'a>,
    /// As the tree's records have it, and the number they are under; None if all of them are written.
    pub tables_before: Option<(TableFacts<'a>, u64)>,
    /// The number of records that are in the tree and replaced by those under a new number, and what they are of.
    pub replaced: Option<(TableFacts<'a>, u64)>,
    pub prepared: &'a PreparedSet,
    /// XA transactions prepared at the last cut.
    pub prepared_before: &'a PreparedSet,
    /// Whether records are written that did not change: a damaged file may hold the earlier ones.
    pub all: bool,
}

/// What `recover` found besides [`Recovered`].
#[derive(Default)]
pub(crate) struct RecoveredTables {
    pub indexes: IndexStates,
    /// See [`CutRecord::parts`].
    pub parts: Option<u64>,
}

impl Disk {
    /// Reads the newest cut's records; None if there is no cut.
    ///
    /// # Errors
    /// When the records are damaged, or have another format version.
    pub fn recover(&self) -> Result<Option<Recovered>, StoreError> {
        let view = self.newest();
        let damaged = |what: &str, error: &dyn std::fmt::Display| self.record_damaged(what, error);
        let Some(record) = self.cut_record_in(&view)? else { return Ok(None) };
        self.expect_since(record.expected_since);
        let head = self.get_in(&view, &key_codec::record_key(CATALOG_RECORD))?;
        let head = head.ok_or_else(|| damaged("catalog", &"missing"))?;
        let unread = |error| StoreError::record(self.folder(), "the catalog record of the newest cut", &error);
        let catalog = match record.parts {
            Some(parts) => {
                let head: CatalogHead = serde_json::from_slice(&head).map_err(unread)?;
                Catalog::from_parts(&head, self.catalog_parts(&view, parts)?).map_err(unread)?
            }
            None => Catalog::from_json(&head).map_err(unread)?,
        };
        // What a damaged file may hold is judged by it.
        self.dead().set_alive(&catalog);
        let (mut rows, mut incomplete) = (record.rows.unwrap_or_default(), None);
        if let Some(parts) = record.parts {
            let incomplete = incomplete.insert(Vec::new());
            for (id, table) in self.table_records(&view, parts)? {
                rows.insert(id, table.rows);
                incomplete.extend(table.incomplete.iter().map(|index| (id, *index)));
            }
            catalog.tables().for_each(|table| _ = rows.entry(table.id.0).or_insert(0));
        }
        let text = self.get_in(&view, &key_codec::record_key(INDEXES_RECORD))?;
        let indexes = IndexStates::from_json(text.as_deref(), &catalog, incomplete)
            .map_err(|error| StoreError::record(self.folder(), "the record of indexes", &error))?;
        let tables = RecoveredTables { indexes, parts: record.parts };
        *self.recovered_tables.lock().unwrap_or_else(PoisonError::into_inner) = Some(tables);
        Ok(Some(Recovered {
            sequence: record.sequence,
            executed: record.gtid_executed.parse().map_err(|error| damaged("cut", &error))?,
            catalog: self.past_copies(catalog)?,
            position: record.relay_file.map(|file| (file, record.relay_offset)),
            rows,
            ledger: record.ledger,
            consistent_at: match record.consistent_at {
                Some(set) => Some(set.parse().map_err(|error| damaged("cut", &error))?),
                None => None,
            },
            prepared: self.prepared(record.prepared)?,
        }))
    }

    /// The parts of the catalog under this number.
    fn catalog_parts(&self, view: &TreeView, parts: u64) -> Result<Vec<Part>, StoreError> {
        let failed = |error| StoreError::record(self.folder(), "a part of the catalog of the newest cut", &error);
        let (from, to) = records_under(CATALOG_RECORD, parts);
        let all = self.range_in(view, &from, &to);
        all.map(|entry| serde_json::from_slice(&entry?.1).map_err(failed)).collect()
    }

    /// The records of tables under this number, by table id.
    fn table_records(&self, view: &TreeView, parts: u64) -> Result<Vec<(u32, TableRecord)>, StoreError> {
        let failed = |error| StoreError::record(self.folder(), "a record of a table in the newest cut", &error);
        let (from, to) = records_under(TABLE_RECORD, parts);
        let all = self.range_in(view, &from, &to).map(|entry| {
            let (key, text) = entry?;
            let id = key.get(from.len()..).and_then(|id| std::str::from_utf8(id).ok()?.parse().ok());
            let id = id.ok_or_else(|| self.record_damaged("tables", &"a key that is not one of ours"))?;
            Ok((id, serde_json::from_slice(&text).map_err(failed)?))
        });
        all.collect()
    }

    /// GTIDs, relay log position and rows of the cut in a view; None if there is no cut.
    pub(crate) fn cut_in(&self, view: &TreeView) -> Result<Option<CutSummary>, StoreError> {
        let Some(record) = self.cut_record_in(view)? else { return Ok(None) };
        let rows = match record.parts {
            Some(parts) => self.table_records(view, parts)?.iter().map(|(_, table)| table.rows).sum(),
            None => record.rows.iter().flat_map(BTreeMap::values).sum(),
        };
        Ok(Some(CutSummary {
            executed: record.gtid_executed.parse().map_err(|error| self.record_damaged("cut", &error))?,
            position: record.relay_file.map(|file| (file, record.relay_offset)),
            rows,
        }))
    }

    fn cut_record_in(&self, view: &TreeView) -> Result<Option<CutRecord>, StoreError> {
        let Some(text) = self.get_in(view, &key_codec::record_key(CUT_RECORD))? else { return Ok(None) };
        let failed = |error| StoreError::record(self.folder(), "the cut record of the newest cut", &error);
        let record = serde_json::from_slice::<serde_json::Value>(&text).map_err(failed)?;
        let found = record.get("format").and_then(serde_json::Value::as_u64).unwrap_or(0);
        let found = u32::try_from(found).unwrap_or(u32::MAX);
        if !(FORMAT_OLDEST..=FORMAT).contains(&found) {
            return Err(StoreError::Version { folder: self.folder().to_path_buf(), found, expected: FORMAT });
        }
        CutRecord::from_json(record, found).map_err(failed).map(Some)
    }

    fn record_damaged(&self, what: &str, error: &dyn std::fmt::Display) -> StoreError {
        StoreError::damaged(self.folder(), format!("the {what} record of the newest cut: {error}"))
    }

    /// Lets a store be made over a tree without a cut.
    pub(crate) fn recover_nothing(&self) {
        *self.recovered_tables.lock().unwrap_or_else(PoisonError::into_inner) = Some(RecoveredTables::default());
    }

    /// What `recover` found of tables; it must have run before.
    pub(crate) fn recovered_tables(&self) -> RecoveredTables {
        let found = self.recovered_tables.lock().unwrap_or_else(PoisonError::into_inner).take();
        match found {
            Some(tables) => tables,
            None => panic!("a store is made over a tree that was not recovered, or a second one"),
        }
    }

    fn prepared(&self, records: Vec<PreparedRecord>) -> Result<PreparedSet, StoreError> {
        let damaged = |what: &str| self.damaged(format!("the prepared XA transaction in the newest cut: {what}"));
        let mut all = BTreeMap::new();
        for record in records {
            let mut events = Vec::new();
            for part in 0..prepared_parts(record.bytes) {
                let found = self.get_in(&self.newest(), &prepared_key(record.number, part))?;
                events.extend_from_slice(&found.ok_or_else(|| damaged("a part is missing"))?);
            }
            if events.len() != record.bytes {
                return Err(damaged("its length"));
            }
            let gtid = record.gtid.map(|gtid| gtid.parse()).transpose().map_err(|_| damaged("its GTID"))?;
            all.insert(record.xid, Arc::new(Prepared { number: record.number, gtid, events }));
        }
        Ok(Arc::new(all))
    }

    /// An interrupted table copy leaves rows under an id that no catalog has. Skips such ids, so that no later table
    /// gets one.
    fn past_copies(&self, catalog: Catalog) -> Result<Catalog, StoreError> {
        let records = key_codec::RECORDS.to_be_bytes();
        let highest = match self.range_in(&self.newest(), &[], &records).next_back().transpose() {
            Ok(highest) => highest,
            // A damaged file hides which ids its rows have. Copies took only a few since the cut.
            Err(StoreError::DamagedFile { .. }) => {
                let next = catalog.next_table_id().0.saturating_add(IDS_SKIPPED);
                return Ok(catalog.with_ids_from(TableId(next)));
            }
            Err(error) => return Err(error),
        };
        let id = highest.as_ref().and_then(|(key, _)| key_codec::table_of(key));
        Ok(id.map_or(catalog.clone(), |id| catalog.with_ids_from(TableId(id.saturating_add(1)))))
    }
}

impl Run<'_> {
    /// Appends the cut's records, whose keys sort after all rows. Returns the number that parts of the catalog and
    /// records of tables are under.
    pub(crate) fn records(&mut self, facts: &CutFacts<'_>) -> Result<u64, StoreError> {
        let before = facts.tables_before;
        let parts = before.map_or(facts.sequence, |(_, parts)| parts);
        if before.is_none_or(|(before, _)| !before.catalog.is_same(facts.tables.catalog)) {
            self.catalog(facts, parts)?;
        }
        let record = CutRecord {
            format: FORMAT,
            sequence: facts.sequence,
            gtid_executed: facts.executed.to_string(),
            relay_file: facts.position.map(|(file, _)| file.to_owned()),
            relay_offset: facts.position.map_or(0, |(_, offset)| offset),
            rows: None,
            parts: Some(parts),
            ledger: facts.ledger.to_owned(),
            consistent_at: facts.consistent_at.map(ToString::to_string),
            expected_since: Some(self.disk.dead().expected_since()),
            prepared: prepared_records(facts.prepared),
        };
        self.put_record(&key_codec::record_key(CUT_RECORD), &record)?;
        self.prepared(facts)?;
        let filling = |tables: TableFacts<'_>| tables.indexes.filling().cloned();
        if before.is_none_or(|(before, _)| filling(before) != filling(facts.tables)) {
            self.index_states(facts.tables.indexes, Some(parts))?;
        }
        self.table_records(facts, parts)?;
        Ok(parts)
    }

    fn put_record(&mut self, key: &[u8], record: &impl Serialize) -> Result<(), StoreError> {
        let text = serde_json::to_vec(record).map_err(|error| self.disk.damaged(error.to_string()))?;
        self.put(key, &text)
    }

    /// Appends the catalog: its head, and the parts that changed.
    fn catalog(&mut self, facts: &CutFacts<'_>, parts: u64) -> Result<(), StoreError> {
        self.put_record(&key_codec::record_key(CATALOG_RECORD), &facts.tables.catalog.head())?;
        let mut records = BTreeMap::new();
        if let Some((replaced, under)) = facts.replaced {
            let gone = replaced.catalog.parts_since(None).into_keys();
            records.extend(gone.map(|name| (record_under(CATALOG_RECORD, under, &name), None)));
        }
        let changed = facts.tables.catalog.parts_since(facts.tables_before.map(|(before, _)| before.catalog));
        records.extend(changed.into_iter().map(|(name, part)| (record_under(CATALOG_RECORD, parts, &name), part)));
        for (key, part) in records {
            match part {
                Some(part) => self.put_record(&key, &part)?,
                None => self.remove(&key)?,
            }
        }
        Ok(())
    }

    /// Appends the records of tables that changed.
    fn table_records(&mut self, facts: &CutFacts<'_>, parts: u64) -> Result<(), StoreError> {
        let TableFacts { catalog, rows, indexes } = facts.tables;
        let mut records = BTreeMap::new();
        if let Some((replaced, under)) = facts.replaced {
            let gone = replaced.catalog.tables().map(|table| table_record_key(under, table.id.0));
            records.extend(gone.map(|key| (key, None)));
        }
        let of = |facts: TableFacts<'_>, id: u32| {
            let table = facts.catalog.table_by_id(TableId(id))?;
            let record = TableRecord::of(table.id, facts.rows, facts.indexes);
            (record != TableRecord::default()).then_some(record)
        };
        let mut changed: Vec<u32> = Vec::new();
        match facts.tables_before {
            None => changed.extend(catalog.tables().map(|table| table.id.0)),
            Some((before, _)) => {
                changed.extend(catalog.changes_since(before.catalog).iter().map(|change| change.key.0));
                changed.extend(rows.differences(before.rows, i64::eq).iter().map(|change| *change.key));
                changed.extend(indexes.tables_changed(before.indexes));
            }
        }
        for id in changed {
            let before = facts.tables_before.and_then(|(before, _)| of(before, id));
            let now = of(facts.tables, id);
            if before != now {
                records.insert(table_record_key(parts, id), now);
            }
        }
        for (key, record) in records {
            match record {
                Some(record) => self.put_record(&key, &record)?,
                None => self.remove(&key)?,
            }
        }
        Ok(())
    }

    /// Appends the record of one table, whose key sorts after the record of indexes.
    pub(crate) fn table_record(&mut self, parts: u64, id: u32, record: &TableRecord) -> Result<(), StoreError> {
        self.put_record(&table_record_key(parts, id), record)
    }

    /// Appends the events of the XA transactions that were prepared since the last cut, and removes the others'.
    fn prepared(&mut self, facts: &CutFacts<'_>) -> Result<(), StoreError> {
        // In order of number, which is the order of their keys.
        let mut changed = BTreeMap::new();
        changed.extend(facts.prepared_before.values().map(|old| (old.number, (old, false))));
        for new in facts.prepared.values() {
            if changed.remove(&new.number).is_none() || facts.all {
                changed.insert(new.number, (new, true));
            }
        }
        for (number, (transaction, is_new)) in changed {
            for (part, bytes) in transaction.events.chunks(PREPARED_PART_BYTES).enumerate() {
                let key = prepared_key(number, part);
                if is_new { self.put(&key, bytes)? } else { self.remove(&key)? }
            }
        }
        Ok(())
    }

    /// Appends the record of indexes. `parts`: the number that records of tables are under, if there are some.
    pub(crate) fn index_states(&mut self, states: &IndexStates, parts: Option<u64>) -> Result<(), StoreError> {
        let text = states.to_json(parts.is_none()).map_err(|error| self.disk.damaged(error.to_string()))?;
        self.put(&key_codec::record_key(INDEXES_RECORD), &text)
    }
}

/// Key of a record under a number. Its 20 digits hold any.
fn record_under(kind: &str, parts: u64, name: &str) -> Vec<u8> {
    key_codec::record_key(&format!("{kind}/{parts:020}/{name}"))
}

/// Bounds of the keys under a number: the first (inclusive) and the last (exclusive).
fn records_under(kind: &str, parts: u64) -> (Vec<u8>, Vec<u8>) {
    // '0' follows '/'.
    (record_under(kind, parts, ""), key_codec::record_key(&format!("{kind}/{parts:020}0")))
}

/// Its 10 digits hold any table id.
fn table_record_key(parts: u64, id: u32) -> Vec<u8> {
    record_under(TABLE_RECORD, parts, &format!("{id:010}"))
}

fn prepared_records(prepared: &PreparedSet) -> Vec<PreparedRecord> {
    let record = |(xid, transaction): (&String, &Arc<Prepared>)| PreparedRecord {
        xid: xid.clone(),
        gtid: transaction.gtid.map(|gtid| gtid.to_string()),
        number: transaction.number,
        bytes: transaction.events.len(),
    };
    prepared.iter().map(record).collect()
}

fn prepared_parts(bytes: usize) -> usize {
    bytes.div_ceil(PREPARED_PART_BYTES)
}

/// These keys sort between the cut's record and that of indexes.
fn prepared_key(number: u64, part: usize) -> Vec<u8> {
    key_codec::record_key(&format!("held-xa/{number:020}/{part:06}"))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::disk::DiskOptions;

    fn not_yet_consistent() -> Value {
        json!({"format": 5, "sequence": 7, "gtid_executed": "", "relay_file": null, "relay_offset": 0, "parts": 3,
            "ledger": "{}", "settles_at": "", "expected_since": 8,
            "prepared": [{"xid": "x", "gtid": null, "number": 5, "bytes": 9}]})
    }

    /// The same as format 4 had it.
    fn with_rows() -> Value {
        let mut record = without(not_yet_consistent(), "", "parts");
        (record["format"], record["rows"]) = (json!(4), json!({"1": 2}));
        record
    }

    /// The record without `key` in the object at `place`.
    fn without(mut whole: Value, place: &str, key: &str) -> Value {
        whole.pointer_mut(place).unwrap().as_object_mut().unwrap().remove(key).unwrap();
        whole
    }

    fn keys(value: &Value) -> Vec<String> {
        value.as_object().unwrap().keys().cloned().collect()
    }

    #[test]
    fn a_cut_record_that_lost_a_key_is_refused_by_its_name() {
        let whole = not_yet_consistent();
        let record = CutRecord::from_json(whole.clone(), FORMAT).unwrap();
        assert_eq!(serde_json::to_value(&record).unwrap(), whole, "stored names changed");
        for place in ["", "/prepared/0"] {
            for key in keys(whole.pointer(place).unwrap()) {
                let lossy = without(whole.clone(), place, &key);
                let error = CutRecord::from_json(lossy, FORMAT).err().expect(&key).to_string();
                assert!(error.contains(&format!("`{key}`")), "{key}: {error}");
            }
        }
        let before = CutRecord::from_json(with_rows(), 4).unwrap();
        assert_eq!((before.rows, before.parts), (Some([(1, 2)].into()), None));
        for key in keys(&with_rows()).into_iter().filter(|key| key != "parts") {
            let error = CutRecord::from_json(without(with_rows(), "", &key), 4).err().expect(&key).to_string();
            assert!(error.contains(&format!("`{key}`")), "{key}: {error}");
        }
        let mut renamed = whole;
        renamed["settled_at"] = Value::Null;
        assert!(CutRecord::from_json(renamed, FORMAT).is_err(), "a name that is not known");
    }

    /// Opens a tree whose newest cut has these records; the error says nothing of damage.
    fn refused(cut: &Value, catalog: &Value) -> String {
        let folder = tempfile::tempdir().unwrap();
        let (disk, _) = Disk::open(folder.path(), DiskOptions { cache_bytes: 1 << 20 }).unwrap();
        let mut run = disk.begin().unwrap();
        run.put(&key_codec::record_key(CATALOG_RECORD), &serde_json::to_vec(catalog).unwrap()).unwrap();
        run.put(&key_codec::record_key(CUT_RECORD), &serde_json::to_vec(cut).unwrap()).unwrap();
        let version_lock = disk.version_lock();
        run.finish(&version_lock).unwrap();
        drop(version_lock);
        drop(disk);
        let files = || {
            let names = std::fs::read_dir(folder.path().join("tables")).unwrap();
            names.map(|entry| entry.unwrap().file_name()).collect::<Vec<_>>()
        };
        let before = files();
        let error = Disk::open(folder.path(), DiskOptions { cache_bytes: 1 << 20 }).err().unwrap();
        assert!(matches!(error, StoreError::OtherRelease { .. } | StoreError::Version { .. }), "{error}");
        assert_eq!(files(), before, "a refused tree was changed");
        error.to_string()
    }

    #[test]
    fn what_a_newer_release_wrote_is_not_called_damage() {
        let catalog = serde_json::to_value(Catalog::new(0).head()).unwrap();
        let mut cut = not_yet_consistent();
        cut["prepared"] = json!([]);
        let newer = |value: &Value| {
            let mut newer = value.clone();
            newer["from_a_newer_release"] = json!(1);
            newer
        };
        for (cut, catalog) in [(&newer(&cut), &catalog), (&cut, &newer(&catalog))] {
            let error = refused(cut, catalog);
            assert!(error.contains("unknown field `from_a_newer_release`"), "{error}");
            assert!(error.ends_with("use the release that wrote it"), "{error}");
        }
        let mut format = newer(&cut);
        format["format"] = json!(FORMAT + 1);
        let error = refused(&format, &newer(&catalog));
        assert!(error.contains("format version 6, this program reads 5: use the release that wrote it"), "{error}");
    }

    #[test]
    fn a_cut_record_of_format_1_has_no_prepared_transactions() {
        let old = without(without(with_rows(), "", "prepared"), "", "settles_at");
        let mut old = without(old, "", "expected_since");
        old["format"] = json!(FORMAT_OLDEST);
        assert!(CutRecord::from_json(old.clone(), FORMAT_OLDEST).unwrap().prepared.is_empty());
        old["format"] = json!(FORMAT);
        assert!(CutRecord::from_json(old, FORMAT).is_err());
    }

    #[test]
    fn a_cut_record_before_format_4_expects_nothing() {
        let mut old = without(with_rows(), "", "expected_since");
        old["format"] = json!(3);
        assert_eq!(CutRecord::from_json(old.clone(), 3).unwrap().expected_since, None);
        assert!(CutRecord::from_json(without(old.clone(), "", "settles_at"), 3).is_err());
        old["format"] = json!(2);
        assert!(CutRecord::from_json(without(old, "", "settles_at"), 2).unwrap().consistent_at.is_none());
        let mut newest = not_yet_consistent();
        newest["expected_since"] = Value::Null;
        assert!(CutRecord::from_json(newest, FORMAT).is_err());
    }

    #[test]
    fn an_index_record_that_lost_a_key_is_refused_by_its_name() {
        let whole = json!({"complete": [[3, 1]], "filling": {"table": 3, "index": 2, "done": [1, 2]}});
        let (catalog, context) = (Catalog::new(0).with_ids_from(TableId(3)), catalog::StatementContext::default());
        let sql = b"CREATE TABLE d.t (a INT, b INT, KEY (a), KEY (b))";
        let catalog = catalog.apply(&context, sql).unwrap().catalog;
        let read = |value: &Value| IndexStates::from_json(Some(&serde_json::to_vec(value).unwrap()), &catalog, None);
        let states = read(&whole).unwrap();
        assert_eq!(states.incomplete_of(3), [2]);
        let written = |all| -> Value { serde_json::from_slice(&states.to_json(all).unwrap()).unwrap() };
        assert_eq!(written(true), whole, "stored names changed");
        let since = without(whole.clone(), "", "complete");
        assert_eq!(written(false), since, "stored names changed");
        let text = serde_json::to_vec(&since).unwrap();
        let states = IndexStates::from_json(Some(&text), &catalog, Some(vec![(3, 1)])).unwrap();
        assert_eq!((states.incomplete_of(3), states.is_complete(3, 2)), (vec![1], true));
        assert!(IndexStates::from_json(Some(&text), &catalog, None).is_err(), "no list at all");
        for place in ["", "/filling"] {
            for key in keys(whole.pointer(place).unwrap()) {
                let error = read(&without(whole.clone(), place, &key)).expect_err(&key).to_string();
                assert!(error.contains(&format!("`{key}`")), "{key}: {error}");
            }
            let mut newer = whole.clone();
            newer.pointer_mut(place).unwrap()["from_a_newer_release"] = json!(1);
            let error = read(&newer).expect_err(place).to_string();
            assert!(error.contains("`from_a_newer_release`"), "{place}: {error}");
        }
    }

    struct Written {
        disk: Disk,
        /// As the records have it.
        state: Option<(Catalog, SharedMap<u32, i64>, IndexStates, u64)>,
        sequence: u64,
    }

    impl Written {
        /// One cut with these records; returns their bytes.
        fn cut(&mut self, catalog: &Catalog, rows: &SharedMap<u32, i64>, all: bool) -> u64 {
            self.sequence += 1;
            let none = PreparedSet::default();
            let before = self
                .state
                .as_ref()
                .map(|(catalog, rows, indexes, parts)| (TableFacts { catalog, rows, indexes }, *parts));
            let indexes = self.state.as_ref().map_or_else(IndexStates::default, |(_, _, indexes, _)| indexes.clone());
            let indexes = indexes.at_cut(catalog);
            let (tables_before, replaced) = if all { (None, before) } else { (before, None) };
            let mut run = self.disk.begin().unwrap();
            let executed = GtidSet::new();
            let parts = run.records(&CutFacts {
                sequence: self.sequence,
                executed: &executed,
                position: None,
                ledger: "",
                consistent_at: None,
                tables: TableFacts { catalog, rows, indexes: &indexes },
                tables_before,
                replaced,
                prepared: &none,
                prepared_before: &none,
                all,
            });
            let parts = parts.unwrap();
            let version_lock = self.disk.version_lock();
            let bytes = run.finish(&version_lock).unwrap();
            self.disk.take_over(&version_lock);
            self.state = Some((catalog.clone(), rows.clone(), indexes, parts));
            bytes
        }

        /// What a start reads.
        fn check(&self) {
            let (catalog, rows, indexes, parts) = self.state.as_ref().unwrap();
            let found = self.disk.recover().unwrap().unwrap();
            assert_eq!(found.catalog.to_json().unwrap(), catalog.to_json().unwrap());
            for table in catalog.tables() {
                assert_eq!(found.rows[&table.id.0], rows.get(&table.id.0).copied().unwrap_or(0));
            }
            let tables = self.disk.recovered_tables();
            assert_eq!(tables.parts, Some(*parts));
            assert!(tables.indexes.tables_changed(indexes).is_empty());
        }
    }

    #[test]
    fn a_cut_writes_what_changed() {
        let folder = tempfile::tempdir().unwrap();
        let (disk, _) = Disk::open(folder.path(), DiskOptions { cache_bytes: 1 << 20 }).unwrap();
        let context = catalog::StatementContext { default_db: "d".into(), ..catalog::StatementContext::default() };
        let apply = |catalog: &Catalog, sql: &str| catalog.apply(&context, sql.as_bytes()).unwrap().catalog;
        let mut catalog = Catalog::new(0);
        for number in 0..500 {
            catalog = apply(&catalog, &format!("CREATE TABLE t{number} (i INT PRIMARY KEY, j INT, KEY (j))"));
        }
        let mut rows: SharedMap<u32, i64> = catalog.tables().map(|table| (table.id.0, 3)).collect();
        let mut written = Written { disk, state: None, sequence: 0 };
        let all = written.cut(&catalog, &rows, false);
        written.check();
        let one = all / 500;
        // The head, the cut's record, a table and what its rows are.
        let few = 4 * one + 2_000;
        assert!(written.cut(&catalog, &rows, false) < few);
        for (sql, changed) in
            [("ALTER TABLE t7 ADD KEY k (j, i)", 1), ("DROP TABLE t8", 1), ("RENAME TABLE t9 TO t8", 1)]
        {
            catalog = apply(&catalog, sql);
            rows.insert(catalog.table("d", "t7").unwrap().id.0, 4 + changed);
            let bytes = written.cut(&catalog, &rows, false);
            assert!(bytes < few, "{sql}: {bytes} of {all}");
            written.check();
        }
        let (_, _, indexes, parts) = written.state.as_ref().unwrap();
        assert_eq!((indexes.incomplete(&catalog), *parts), (1, 1));
        // A file with removals is lost, and all is written again: what it removed stands there again, and does not
        // count.
        assert!(written.cut(&catalog, &rows, true) > all * 9 / 10);
        let mut run = written.disk.begin().unwrap();
        let gone = Catalog::new(0).with_ids_from(TableId(9));
        let gone = apply(&gone, "CREATE TABLE t8 (i INT)").parts_since(None);
        for (name, part) in &gone {
            run.put_record(&record_under(CATALOG_RECORD, 1, name), part).unwrap();
        }
        run.put_record(&table_record_key(1, 9), &TableRecord { rows: 9, incomplete: vec![1] }).unwrap();
        let version_lock = written.disk.version_lock();
        run.finish(&version_lock).unwrap();
        written.disk.take_over(&version_lock);
        drop(version_lock);
        written.check();
        assert_eq!(written.state.as_ref().unwrap().3, 6);
        catalog = apply(&catalog, "CREATE TABLE t8000 (i INT)");
        assert!(written.cut(&catalog, &rows, false) < few);
        written.check();
    }
}
