//! The record of a cut: what the tree says about itself.
//!
//! In: the state at a transaction boundary. Out: the records that a cut writes after its rows, and what a start reads
//! from them. Never here: rows.

use std::collections::BTreeMap;
use std::sync::{Arc, PoisonError};

use base::{GtidSet, Prepared, PreparedSet};
use catalog::{Catalog, TableId};
use serde::{Deserialize, Serialize};

use crate::disk::{Disk, Run};
use crate::error::StoreError;
use crate::index_state::IndexStates;
use crate::key_codec;
use crate::tree_view::TreeView;

/// Format version of everything in the store's folder.
const FORMAT: u32 = 4;
/// Oldest readable format: it has no secondary indexes, which are then filled.
const FORMAT_OLDEST: u32 = 1;
/// Formats without expectations (see `expectation`): 3 is 2 with a copy that has not settled.
const FORMAT_NOT_YET_CONSISTENT: u32 = 3;

const _: () = assert!(FORMAT_OLDEST < FORMAT_NOT_YET_CONSISTENT && FORMAT_NOT_YET_CONSISTENT < FORMAT);

const CUT_RECORD: &str = "cut";
const CATALOG_RECORD: &str = "catalog";
const INDEXES_RECORD: &str = "indexes";

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
    #[serde(rename = "rows")]
    rows: BTreeMap<u32, i64>,
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
            if format < FORMAT {
                fields.entry("expected_since").or_insert(serde_json::Value::Null);
            }
        }
        let record: CutRecord = serde_json::from_value(record)?;
        if record.format == FORMAT_NOT_YET_CONSISTENT && record.consistent_at.is_none() {
            return Err(serde::de::Error::missing_field("settles_at"));
        }
        if record.format == FORMAT && record.expected_since.is_none() {
            return Err(serde::de::Error::missing_field("expected_since"));
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

/// What a backup tells of a cut.
#[derive(Debug)]
pub(crate) struct CutSummary {
    pub executed: GtidSet,
    pub position: Option<(String, u64)>,
    pub rows: i64,
}

/// Content of a cut's record.
pub(crate) struct CutFacts<'a> {
    pub sequence: u64,
    pub executed: &'a GtidSet,
    pub position: Option<(&'a str, u64)>,
    pub rows: BTreeMap<u32, i64>,
    pub ledger: &'a str,
    pub consistent_at: Option<&'a GtidSet>,
    /// Written only if it differs from the last cut's.
    pub catalog: Option<&'a Catalog>,
    pub prepared: &'a PreparedSet,
    /// XA transactions prepared at the last cut.
    pub prepared_before: &'a PreparedSet,
    /// Whether records are written that did not change: a damaged file may hold the earlier ones.
    pub all: bool,
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
        let catalog = self.get_in(&view, &key_codec::record_key(CATALOG_RECORD))?;
        let catalog = catalog.ok_or_else(|| damaged("catalog", &"missing"))?;
        let catalog = Catalog::from_json(&catalog)
            .map_err(|error| StoreError::record(self.folder(), "the catalog record of the newest cut", &error))?;
        // What a damaged file may hold is judged by it.
        self.dead().set_alive(&catalog);
        let indexes = self.index_states(&catalog)?;
        *self.recovered_indexes.lock().unwrap_or_else(PoisonError::into_inner) = Some(indexes);
        Ok(Some(Recovered {
            sequence: record.sequence,
            executed: record.gtid_executed.parse().map_err(|error| damaged("cut", &error))?,
            catalog: self.past_copies(catalog)?,
            position: record.relay_file.map(|file| (file, record.relay_offset)),
            rows: record.rows,
            ledger: record.ledger,
            consistent_at: match record.consistent_at {
                Some(set) => Some(set.parse().map_err(|error| damaged("cut", &error))?),
                None => None,
            },
            prepared: self.prepared(record.prepared)?,
        }))
    }

    /// GTIDs, relay log position and rows of the cut in a view; None if there is no cut.
    pub(crate) fn cut_in(&self, view: &TreeView) -> Result<Option<CutSummary>, StoreError> {
        let Some(record) = self.cut_record_in(view)? else { return Ok(None) };
        Ok(Some(CutSummary {
            executed: record.gtid_executed.parse().map_err(|error| self.record_damaged("cut", &error))?,
            position: record.relay_file.map(|file| (file, record.relay_offset)),
            rows: record.rows.values().sum(),
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
        *self.recovered_indexes.lock().unwrap_or_else(PoisonError::into_inner) = Some(IndexStates::default());
    }

    /// Index states that `recover` found; it must have run before.
    pub(crate) fn recovered_indexes(&self) -> IndexStates {
        let found = self.recovered_indexes.lock().unwrap_or_else(PoisonError::into_inner).take();
        match found {
            Some(indexes) => indexes,
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

    /// What the tree holds of each secondary index of this catalog.
    pub(crate) fn index_states(&self, catalog: &Catalog) -> Result<IndexStates, StoreError> {
        let text = self.get_in(&self.newest(), &key_codec::record_key(INDEXES_RECORD))?;
        IndexStates::from_json(text.as_deref(), catalog)
            .map_err(|error| StoreError::record(self.folder(), "the record of indexes", &error))
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
    /// Appends the cut's records, whose keys sort after all rows.
    pub(crate) fn records(&mut self, facts: CutFacts<'_>) -> Result<(), StoreError> {
        if let Some(catalog) = facts.catalog {
            let text = catalog.to_json().map_err(|error| self.disk.damaged(error.to_string()))?;
            self.put(&key_codec::record_key(CATALOG_RECORD), &text)?;
        }
        let record = CutRecord {
            format: FORMAT,
            sequence: facts.sequence,
            gtid_executed: facts.executed.to_string(),
            relay_file: facts.position.map(|(file, _)| file.to_owned()),
            relay_offset: facts.position.map_or(0, |(_, offset)| offset),
            rows: facts.rows,
            ledger: facts.ledger.to_owned(),
            consistent_at: facts.consistent_at.map(ToString::to_string),
            expected_since: Some(self.disk.dead().expected_since()),
            prepared: prepared_records(facts.prepared),
        };
        let text = serde_json::to_vec(&record).map_err(|error| self.disk.damaged(error.to_string()))?;
        self.put(&key_codec::record_key(CUT_RECORD), &text)?;
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

    /// Appends the record of indexes, whose key sorts after all other records.
    pub(crate) fn index_states(&mut self, states: &IndexStates) -> Result<(), StoreError> {
        let text = states.to_json().map_err(|error| self.disk.damaged(error.to_string()))?;
        self.put(&key_codec::record_key(INDEXES_RECORD), &text)
    }
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
        json!({"format": 4, "sequence": 7, "gtid_executed": "", "relay_file": null, "relay_offset": 0, "rows": {"1": 2},
            "ledger": "{}", "settles_at": "", "expected_since": 8,
            "prepared": [{"xid": "x", "gtid": null, "number": 5, "bytes": 9}]})
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
        let catalog: Value = serde_json::from_slice(&Catalog::new(0).to_json().unwrap()).unwrap();
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
        assert!(error.contains("format version 5, this program reads 4: use the release that wrote it"), "{error}");
    }

    #[test]
    fn a_cut_record_of_format_1_has_no_prepared_transactions() {
        let old = without(without(not_yet_consistent(), "", "prepared"), "", "settles_at");
        let mut old = without(old, "", "expected_since");
        old["format"] = json!(FORMAT_OLDEST);
        assert!(CutRecord::from_json(old.clone(), FORMAT_OLDEST).unwrap().prepared.is_empty());
        old["format"] = json!(FORMAT);
        assert!(CutRecord::from_json(old, FORMAT).is_err());
    }

    #[test]
    fn a_cut_record_before_format_4_expects_nothing() {
        let mut old = without(not_yet_consistent(), "", "expected_since");
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
        let catalog = Catalog::new(0);
        let read = |value: &Value| IndexStates::from_json(Some(&serde_json::to_vec(value).unwrap()), &catalog);
        let states = read(&whole).unwrap();
        let written: Value = serde_json::from_slice(&states.to_json().unwrap()).unwrap();
        assert_eq!(written, whole, "stored names changed");
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
}
