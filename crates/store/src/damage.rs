//! Files of the tree that do not contain what was written.
//!
//! In: faults that readers, cuts, merges and checks meet. Out: a list in the store's folder, with the tables whose rows
//! a file may hold; which files no merge may read, and which may go. Never here: a file dropped that a recoverable
//! state needs (invariant 2); a guess at what a damaged block contained.
//!
//! A damaged file is not repaired. All tables between its first and its last key are put in quarantine and copied again
//! under fresh ids, and the newest cut writes its records again if the file may hold some. Then nothing needs the file.

use std::collections::BTreeMap;
use std::fs;
use std::io::{self, ErrorKind};
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use lsm_tree::{AbstractTree, AnyTree, Slice, Table};
use serde::{Deserialize, Serialize};

use crate::compaction::filter::{DeadRows, Known};
use crate::disk::StillOpen;
use crate::error::{StoreError, file_name};
use crate::key_codec;
use crate::synced_list;
use crate::tree_view::TreeFault;

/// Name of the list in the store's folder.
pub(crate) const FILE: &str = "damage.json";
const FORMAT: u32 = 1;
/// Removed files that are remembered; older ones are forgotten first.
const REMOVED_MAX: usize = 100;

/// What becomes of the records (catalog, cut, prepared transactions) in a damaged file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum DamagedRecords {
    /// The file holds none.
    #[serde(rename = "none")]
    None,
    /// The newest ones may be in the file.
    #[serde(rename = "held")]
    Held,
    /// A later cut has written all of them again.
    #[serde(rename = "rewritten")]
    Rewritten,
}

/// A file of the tree that does not contain what was written.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct DamagedFile {
    /// Number of the file.
    #[serde(rename = "file")]
    pub file: u64,
    #[serde(rename = "what")]
    pub what: String,
    /// When it was found, in µs since 1970.
    #[serde(rename = "found_us")]
    pub found_us: u64,
    /// First and last id of the tables whose rows it may hold; None if it holds records only.
    #[serde(rename = "ids", deserialize_with = "Option::deserialize")]
    pub ids: Option<(u32, u32)>,
    /// What becomes of the records in it.
    #[serde(rename = "records")]
    pub records: DamagedRecords,
    /// Names of the tables that were put in quarantine because of it, quoted.
    #[serde(rename = "tables")]
    pub tables: Vec<String>,
    /// Whether the file is gone: nothing needs it any more.
    #[serde(rename = "removed")]
    pub removed: bool,
}

impl DamagedFile {
    /// Whether it may hold rows of a table.
    #[must_use]
    pub fn concerns(&self, table: u32) -> bool {
        !self.removed && self.ids.is_some_and(|(first, last)| (first..=last).contains(&table))
    }

    /// Name of the file in the store's folder.
    #[must_use]
    pub fn name(&self) -> String {
        file_name(self.file)
    }
}

#[derive(Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
struct ListRecord {
    #[serde(rename = "format")]
    format: u32,
    #[serde(rename = "files")]
    files: Vec<DamagedFile>,
}

/// The damaged files of one tree.
pub(crate) struct DamageList {
    folder: Arc<Path>,
    /// Set once the tree is open. Before that, and in scratch trees, nothing is listed.
    tree: OnceLock<(AnyTree, Arc<DeadRows>, StillOpen)>,
    files: Mutex<BTreeMap<u64, DamagedFile>>,
    /// Grows with each change of the list.
    changes: AtomicU64,
}

impl DamageList {
    /// Reads the list in a store's folder; a missing one is empty.
    ///
    /// # Errors
    /// When it cannot be read, or is not one of ours.
    pub(crate) fn open(folder: &Path) -> Result<DamageList, StoreError> {
        let files = match fs::read(folder.join(FILE)) {
            Ok(text) => {
                let record: ListRecord = synced_list::read(folder, FILE, &text, FORMAT)?;
                record.files.into_iter().map(|file| (file.file, file)).collect()
            }
            Err(error) if error.kind() == ErrorKind::NotFound => BTreeMap::new(),
            Err(error) => return Err(StoreError::io(folder, &error)),
        };
        let (tree, files) = (OnceLock::new(), Mutex::new(files));
        Ok(DamageList { folder: folder.into(), tree, files, changes: AtomicU64::new(0) })
    }

    /// From here on damage that is met in this tree is listed.
    pub(crate) fn list_from(&self, tree: &AnyTree, dead: &Arc<DeadRows>, open: &StillOpen) {
        let _ = self.tree.set((tree.clone(), Arc::clone(dead), open.clone()));
    }

    fn files(&self) -> MutexGuard<'_, BTreeMap<u64, DamagedFile>> {
        self.files.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Converts a fault of the tree; a damaged file is listed.
    pub(crate) fn fault(&self, error: &lsm_tree::Error) -> StoreError {
        self.listed(StoreError::tree(&self.folder, error))
    }

    /// As `fault`, for a fault met in a view.
    pub(crate) fn view_fault(&self, fault: &TreeFault) -> StoreError {
        self.listed(StoreError::tree_fault(&self.folder, fault))
    }

    fn listed(&self, error: StoreError) -> StoreError {
        if let StoreError::DamagedFile { file, text, .. } = &error {
            self.found(*file, text);
        }
        error
    }

    /// Lists a damaged file of the newest version. A file that only an older view reads is gone soon.
    pub(crate) fn found(&self, file: u64, what: &str) {
        let Some((tree, dead, _)) = self.tree.get() else { return };
        let version = tree.current_version();
        let Some(table) = version.iter_tables().find(|table| table.id() == file) else { return };
        let (ids, records) = contents(table, &dead.known());
        let mut held = self.files();
        if held.get(&file).is_some_and(|known| !known.removed) {
            return;
        }
        let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let found_us = u64::try_from(since.as_micros()).unwrap_or(u64::MAX);
        let (what, tables) = (what.to_owned(), Vec::new());
        held.insert(file, DamagedFile { file, what, found_us, ids, records, tables, removed: false });
        self.changed(&held);
    }

    /// A number that grows with each change of the list.
    pub(crate) fn changes(&self) -> u64 {
        self.changes.load(Ordering::Acquire)
    }

    /// All files on the list.
    pub(crate) fn all(&self) -> Vec<DamagedFile> {
        self.files().values().cloned().collect()
    }

    /// Whether the file is on the list and still part of the tree.
    pub(crate) fn is_damaged(&self, file: u64) -> bool {
        self.files().get(&file).is_some_and(|known| !known.removed)
    }

    /// Whether a damaged file is part of the tree.
    pub(crate) fn any(&self) -> bool {
        self.files().values().any(|file| !file.removed)
    }

    /// Files whose records a cut must write again.
    pub(crate) fn records_due(&self) -> Vec<u64> {
        let files = self.files();
        let due = files.values().filter(|file| !file.removed && file.records == DamagedRecords::Held);
        due.map(|file| file.file).collect()
    }

    /// A durable cut has written all records again, after `due` was asked for.
    pub(crate) fn records_rewritten(&self, due: &[u64]) {
        self.change(due, |file| file.records = DamagedRecords::Rewritten);
    }

    /// Notes which tables were put in quarantine because of a file.
    pub(crate) fn quarantined(&self, file: u64, tables: &[String]) {
        self.change(&[file], |file| {
            for table in tables.iter().filter(|table| !file.tables.contains(table)).cloned().collect::<Vec<_>>() {
                file.tables.push(table);
            }
        });
    }

    /// Files that nothing needs any more: their tables are dead, and their records were written again.
    pub(crate) fn not_needed(&self, known: &Known) -> Vec<u64> {
        let files = self.files();
        let is_dead = |file: &&DamagedFile| {
            !file.removed
                && file.records != DamagedRecords::Held
                && file.ids.is_none_or(|(first, last)| known.is_dead_range(first, last))
        };
        files.values().filter(is_dead).map(|file| file.file).collect()
    }

    /// Notes which files are not part of the tree any more.
    pub(crate) fn note_removed(&self) {
        let Some((tree, ..)) = self.tree.get() else { return };
        let version = tree.current_version();
        let is_there = |file: u64| version.iter_tables().any(|table| table.id() == file);
        let gone: Vec<u64> = self.files().values().filter(|file| !file.removed).map(|file| file.file).collect();
        let gone: Vec<u64> = gone.into_iter().filter(|file| !is_there(*file)).collect();
        self.change(&gone, |file| file.removed = true);
    }

    fn change(&self, which: &[u64], change: impl Fn(&mut DamagedFile)) {
        if which.is_empty() {
            return;
        }
        let mut held = self.files();
        let before = held.clone();
        for file in which {
            held.get_mut(file).into_iter().for_each(&change);
        }
        let mut removed: Vec<(u64, u64)> =
            held.values().filter(|file| file.removed).map(|file| (file.found_us, file.file)).collect();
        removed.sort_unstable();
        let too_many = removed.len().saturating_sub(REMOVED_MAX);
        for (_, file) in removed.iter().take(too_many) {
            held.remove(file);
        }
        if *held != before {
            self.changed(&held);
        }
    }

    /// Writes the list. Without it a restart finds the damage again, so that a full disk is no reason to stop.
    fn changed(&self, held: &BTreeMap<u64, DamagedFile>) {
        let _ = self.write(held);
        self.changes.fetch_add(1, Ordering::AcqRel);
    }

    fn write(&self, held: &BTreeMap<u64, DamagedFile>) -> io::Result<()> {
        let record = ListRecord { format: FORMAT, files: held.values().cloned().collect() };
        synced_list::write(&self.folder, FILE, &serde_json::to_vec(&record)?)
    }
}

/// First and last id of the tables that a file may hold, and whether it may hold records.
fn contents(table: &Table, known: &Known) -> (Option<(u32, u32)>, DamagedRecords) {
    let range = &table.metadata.key_range;
    let id = |key: &[u8]| key_codec::table_of(key).unwrap_or(key_codec::RECORDS);
    let (first, last) = (id(range.min()), id(range.max()));
    if first == key_codec::RECORDS {
        return (None, DamagedRecords::Held);
    }
    if last != key_codec::RECORDS {
        return (Some((first, last)), DamagedRecords::None);
    }
    // The last row. If it cannot be read, the file may hold rows of every table that there was at the last cut: only
    // cuts and merges write records into a file of rows.
    let records = Slice::from(key_codec::RECORDS.to_be_bytes().as_slice());
    let row = table.range(..records).next_back().and_then(Result::ok);
    let last = row.map_or_else(|| known.highest().unwrap_or(first), |row| id(&row.key.user_key));
    (Some((first, last.max(first))), DamagedRecords::Held)
}

#[cfg(test)]
mod tests {
    use catalog::StatementContext;

    use super::*;
    use crate::compaction::policy;
    use crate::disk::{Disk, DiskOptions};

    const OPTIONS: DiskOptions = DiskOptions { cache_bytes: 1 << 20 };

    /// A run with a row of each of these tables, and a record if asked for.
    fn write(disk: &Disk, tables: &[u32], with_record: bool) {
        let mut run = disk.begin().unwrap();
        for table in tables {
            run.put(&key_codec::table_prefix(catalog::TableId(*table)), b"row").unwrap();
        }
        if with_record {
            run.put(&key_codec::record_key("cut"), b"{}").unwrap();
        }
        let version_lock = disk.version_lock();
        run.finish(&version_lock).unwrap();
        disk.take_over(&version_lock);
    }

    fn catalog_of(tables: u32) -> catalog::Catalog {
        let context = StatementContext { default_db: "d".into(), ..StatementContext::default() };
        (0..tables).fold(catalog::Catalog::new(0), |catalog, number| {
            catalog.apply(&context, format!("CREATE TABLE t{number} (i INT)").as_bytes()).unwrap().catalog
        })
    }

    /// A damaged file stays, and is merged with nothing, until the last cut knows none of its tables and its records
    /// were written again. A reopened list is the same.
    #[test]
    fn a_damaged_file_goes_once_nothing_needs_it() {
        let folder = tempfile::tempdir().unwrap();
        let (disk, _) = Disk::open(folder.path(), OPTIONS).unwrap();
        let catalog = catalog_of(6);
        let ids: Vec<u32> = catalog.tables().map(|table| table.id.0).collect();
        let [first, .., last] = ids[..] else { panic!("{ids:?}") };
        for _ in 0..4 {
            write(&disk, &ids[..4], true);
        }
        write(&disk, &[last], false);
        disk.dead().set_alive(&catalog);
        let files = disk.file_numbers();
        disk.damage_list().found(files[1], "it was hit");
        disk.damage_list().found(files[4], "it was hit");
        disk.damage_list().found(99, "no such file");
        let damage = disk.damage();
        assert_eq!(damage.len(), 2);
        assert_eq!((damage[0].ids, damage[0].records), (Some((first, ids[3])), DamagedRecords::Held));
        assert_eq!((damage[1].ids, damage[1].records), (Some((last, last)), DamagedRecords::None));
        assert!(damage[0].concerns(first) && !damage[0].concerns(last) && damage[1].concerns(last));
        let without = |gone: &[u32]| {
            let named = |id: &u32| catalog.tables().find(|table| table.id.0 == *id).unwrap().name.clone();
            gone.iter().fold(catalog.clone(), |catalog, id| catalog.with_quarantined(&("d".into(), named(id)), "why").0)
        };
        assert!(!disk.compact_near(0, true).unwrap() && disk.file_numbers() == files, "a merge of a damaged file");
        // The last cut knows no table of the second file any more, and one of the first.
        disk.dead().set_alive(&without(&[ids[0], ids[1], ids[2], last]));
        assert!(disk.compact_near(0, true).unwrap());
        assert_eq!(disk.file_numbers(), files[..4]);
        disk.dead().set_alive(&without(&ids));
        assert!(!disk.compact_near(0, true).unwrap(), "its records are needed");
        let due = disk.damage_list().records_due();
        assert_eq!(due, [files[1]]);
        disk.damage_list().records_rewritten(&due);
        disk.note_quarantined(files[1], &["`d`.`t0`".to_owned()]);
        assert!(disk.compact_near(0, true).unwrap());
        assert!(!disk.file_numbers().contains(&files[1]));
        let damage = disk.damage();
        assert!(damage.iter().all(|file| file.removed) && !disk.damage_list().any());
        drop(disk);
        assert_eq!(DamageList::open(folder.path()).unwrap().all(), damage);
    }

    /// While a damaged file keeps runs from being merged, cuts add some beyond the usual limit, and then wait; once
    /// nothing needs the file, merges make room again.
    #[test]
    fn runs_pile_up_behind_a_damaged_file_up_to_a_limit() {
        let folder = tempfile::tempdir().unwrap();
        let (disk, _) = Disk::open(folder.path(), OPTIONS).unwrap();
        let catalog = catalog_of(2);
        let ids: Vec<u32> = catalog.tables().map(|table| table.id.0).collect();
        disk.dead().set_alive(&catalog);
        write(&disk, &ids[..1], false);
        disk.damage_list().found(disk.file_numbers()[0], "it was hit");
        while !disk.is_full() {
            assert!(!disk.is_full_of_damage() && disk.l0_runs() < 200);
            write(&disk, &ids[1..], false);
            assert!(!disk.compact_near(0, true).unwrap(), "a merge of a damaged file");
        }
        assert!(disk.is_full_of_damage());
        assert_eq!(disk.l0_runs(), policy::L0_RUNS_MAX + policy::RUNS_BESIDE_DAMAGE);
        let gone = catalog.tables().find(|table| table.id.0 == ids[0]).unwrap().name.clone();
        disk.dead().set_alive(&catalog.with_quarantined(&("d".into(), gone), "why").0);
        while disk.compact_near(0, true).unwrap() {}
        assert!(!disk.is_full() && !disk.damage_list().any());
    }

    #[test]
    fn a_list_that_lost_a_key_or_has_a_new_one_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let file = serde_json::json!({"file": 1, "what": "w", "found_us": 2, "ids": null, "records": "held",
            "tables": ["t"], "removed": false});
        let open = |record: &serde_json::Value| {
            fs::write(folder.path().join(FILE), serde_json::to_vec(record).unwrap()).unwrap();
            DamageList::open(folder.path())
        };
        let whole = serde_json::json!({"format": 1, "files": [file]});
        let list = open(&whole).unwrap().all();
        assert_eq!(serde_json::to_value(&list).unwrap(), whole["files"], "stored names changed");
        for key in file.as_object().unwrap().keys() {
            let mut lossy = whole.clone();
            lossy["files"][0].as_object_mut().unwrap().remove(key).unwrap();
            let error = open(&lossy).err().expect(key).to_string();
            assert!(error.contains(&format!("`{key}`")), "{key}: {error}");
        }
        let mut newer = whole.clone();
        newer["files"][0]["later"] = 1.into();
        assert!(open(&newer).is_err());
        assert!(open(&serde_json::json!({"format": 2, "files": []})).is_err());
    }
}
