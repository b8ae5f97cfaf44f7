//! The tree on disk.
//!
//! In: sorted rows and the record of their cut, in one ingestion (invariant 1). Out: rows at a tree number, the newest
//! cut's record. Never here: a log, a row above the cut, per-row deletions for a DDL statement (invariant 2).
//!
//! Tree numbers count changes to the tree and are not source sequence numbers (invariant 5); the cut's record maps one
//! to the other. Reads are exclusive: a read at n sees entries below n.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::io::ErrorKind;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use base::{GtidSet, Prepared, PreparedSet};
use catalog::{Catalog, TableId};
use lsm_tree::compaction::{CompactionStrategy, MoveDown, PullDown};
use lsm_tree::config::{BlockSizePolicy, PinningPolicy};
use lsm_tree::{AbstractTree, AnyIngestion, AnyTree, Cache, Config, DescriptorTable, SequenceNumberCounter, Slice};
use serde::{Deserialize, Serialize};

use crate::compaction::DeadRows;
use crate::error::StoreError;
use crate::index_state::IndexStates;
use crate::key_codec;
use crate::tiers::{self, Level, Step};
use crate::tree_range::TreeRange;
use crate::tree_view::TreeView;

/// Format version of everything in the store's folder.
const FORMAT: u32 = 2;
/// Oldest readable format: it has no secondary indexes, which are then filled.
const FORMAT_OLDEST: u32 = 1;
/// As the newest format, with a copy that has not settled: a program that does not know about settling must refuse it.
const FORMAT_NOT_YET_CONSISTENT: u32 = 3;

/// Number of runs in level 0 at which cuts wait: the count is one byte on disk (invariant 6), and readers look into
/// every run.
pub const L0_RUNS_MAX: usize = 24;

const _: () = assert!(L0_RUNS_MAX <= u8::MAX as usize);
const _: () = assert!(FORMAT_OLDEST <= FORMAT && FORMAT < FORMAT_NOT_YET_CONSISTENT);

const FILE_BYTES: u64 = 64 << 20;
/// Dead bytes below this do not justify a rewrite.
const DEAD_BYTES_MIN: u64 = 32 << 20;

/// Approximate cost of a range read per run.
const RUN_NS_PER_RANGE: u64 = 4_000;
/// Approximate cost of merging: 250 MB/s (`examples/compaction_cost.rs`).
const MERGE_NS_PER_BYTE: u64 = 4;

const CUT_RECORD: &str = "cut";
const CATALOG_RECORD: &str = "catalog";
const INDEXES_RECORD: &str = "indexes";

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
    #[serde(rename = "settles_at", default, skip_serializing_if = "Option::is_none")]
    consistent_at: Option<String>,
    #[serde(rename = "prepared")]
    prepared: Vec<PreparedRecord>,
}

impl CutRecord {
    fn from_json(mut record: serde_json::Value, format: u32) -> Result<CutRecord, serde_json::Error> {
        if let (FORMAT_OLDEST, Some(fields)) = (format, record.as_object_mut()) {
            fields.entry("prepared").or_insert_with(|| serde_json::Value::Array(Vec::new()));
        }
        let record: CutRecord = serde_json::from_value(record)?;
        if record.format == FORMAT_NOT_YET_CONSISTENT && record.consistent_at.is_none() {
            return Err(serde::de::Error::missing_field("settles_at"));
        }
        Ok(record)
    }
}

/// A prepared XA transaction in the cut's record; its events are in records of their own.
#[derive(Serialize, Deserialize)]
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

/// Memory limits of the tree.
#[derive(Clone, Copy, Debug)]
pub struct DiskOptions {
    /// Size of the block cache, in bytes.
    pub cache_bytes: u64,
}

/// Caches shared by all trees: the store's tree, and those in the scratch folder, of which there may be hundreds while
/// a huge transaction is open. A limit per tree would limit nothing.
#[derive(Clone)]
pub(crate) struct Kept {
    blocks: Arc<Cache>,
    files: Arc<DescriptorTable>,
}

/// Limit on open files.
const FILES_OPEN_MAX: usize = 256;

impl Kept {
    pub(crate) fn new(options: DiskOptions) -> Kept {
        Kept {
            blocks: Arc::new(Cache::with_capacity_bytes(options.cache_bytes)),
            files: Arc::new(DescriptorTable::new(FILES_OPEN_MAX)),
        }
    }
}

/// The tree on disk and the views through which it is read.
pub struct Disk {
    folder: Arc<Path>,
    tree: AnyTree,
    kept: Kept,
    counter: SequenceNumberCounter,
    /// Views in ascending order of their numbers; new layers take the last one. Added to only under `version_lock`. Held here
    /// too, so that the last reference is dropped by the thread that can afford to remove files.
    views: Mutex<Vec<Arc<TreeView>>>,
    /// Serialises "finish ingestion" with "publish its number", so that nobody reads at a number in between.
    version_lock: Mutex<()>,
    dead: Arc<DeadRows>,
    recovered_indexes: Mutex<Option<IndexStates>>,
    written: AtomicU64,
    compacted: AtomicU64,
    /// Range reads since the last merge; each one looks into every run.
    ranges_read: AtomicU64,
    /// Each is held from reading the levels to the end of the resulting step. Lock `deep` before `middle`.
    near: Mutex<()>,
    middle: Mutex<()>,
    deep: Mutex<()>,
}

impl std::fmt::Debug for Disk {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Disk").field("folder", &self.folder).finish_non_exhaustive()
    }
}

/// Size and compaction debt of the tree.
#[derive(Clone, Copy, Debug, Default)]
pub struct DiskStats {
    /// Size of the tree's files, in bytes.
    pub bytes: u64,
    /// Sorted runs in level 0: each cut adds one, compaction merges them.
    pub l0_runs: u64,
    /// Bytes above the last level, which compaction has yet to merge.
    pub debt_bytes: u64,
    /// Sorted runs that hold `debt_bytes`; a range read looks into each.
    pub debt_runs: u64,
    /// Bytes of keys and values written by cuts since start.
    pub written_bytes: u64,
    /// Compaction steps since start.
    pub compactions: u64,
}

/// Contents of one level of the tree.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LevelStats {
    /// Number of sorted runs.
    pub runs: u64,
    /// Size of its files, in bytes.
    pub bytes: u64,
    /// Entries, removals included; a key counts once per run that contains it.
    pub entries: u64,
}

impl Disk {
    /// Opens the tree in `folder`, or creates it. Leftovers of an unfinished cut are invisible. A tree without any cut
    /// (from an interrupted copy) is discarded and created again.
    ///
    /// # Errors
    /// When its files are damaged, have another format version, or cannot be read.
    pub fn open(folder: &Path, options: DiskOptions) -> Result<(Disk, Option<Recovered>), StoreError> {
        let kept = Kept::new(options);
        let disk = Disk::open_tree(folder, &kept)?;
        let recovered = disk.recover()?;
        if recovered.is_none() && disk.tree.table_count() > 0 {
            drop(disk);
            fs::remove_dir_all(folder).map_err(|error| StoreError::io(folder, &error))?;
            return Ok((Disk::open_tree(folder, &kept)?, None));
        }
        if let Some(recovered) = &recovered {
            disk.dead.set_alive(&recovered.catalog);
        }
        Ok((disk, recovered))
    }

    /// Opens the tree of a stopped store for reading; None if it contains no cut.
    ///
    /// # Errors
    /// As `open`.
    pub fn open_existing(folder: &Path, options: DiskOptions) -> Result<Option<(Disk, Recovered)>, StoreError> {
        if !folder.is_dir() {
            return Ok(None);
        }
        let disk = Disk::open_tree(folder, &Kept::new(options))?;
        Ok(disk.recover()?.map(|recovered| (disk, recovered)))
    }

    /// Creates a tree for data that exceeds memory; removes whatever is in the folder.
    pub(crate) fn open_scratch(folder: &Path, kept: &Kept) -> Result<Disk, StoreError> {
        remove_folder(folder)?;
        Disk::open_tree(folder, kept)
    }

    /// Caches to share with another tree.
    pub(crate) fn kept(&self) -> &Kept {
        &self.kept
    }

    fn open_tree(folder: &Path, kept: &Kept) -> Result<Disk, StoreError> {
        fs::create_dir_all(folder).map_err(|error| StoreError::io(folder, &error))?;
        let counter = SequenceNumberCounter::default();
        let visible = SequenceNumberCounter::default();
        let dead = Arc::new(DeadRows::default());
        let config = Config::new(folder, counter.clone(), visible.clone())
            .use_cache(Arc::clone(&kept.blocks))
            .use_descriptor_table(Some(Arc::clone(&kept.files)))
            .data_block_size_policy(BlockSizePolicy::all(8 * 1024))
            .filter_block_pinning_policy(PinningPolicy::all(false))
            .index_block_pinning_policy(PinningPolicy::all(false))
            .with_compaction_filter_factory(Some(Arc::clone(&dead) as _));
        // Opening removes every version but the current one. A killed process may have left `current` renamed but not
        // durable: after a power cut, `current` would again name a version that no longer exists.
        let synced = fs::File::open(folder).and_then(|folder| folder.sync_all());
        synced.map_err(|error| StoreError::io(folder, &error))?;
        let tree = config.open().map_err(|error| StoreError::tree(folder, &error))?;
        // The tree does not restore its counter (invariant 5).
        let next = tree.get_highest_persisted_seqno().map_or(0, |highest| highest + 1);
        counter.fetch_max(next + 1);
        visible.fetch_max(next + 1);
        Ok(Disk {
            folder: folder.into(),
            kept: kept.clone(),
            views: Mutex::new(vec![Arc::new(TreeView::of(&tree, counter.get()))]),
            tree,
            counter,
            version_lock: Mutex::new(()),
            dead,
            recovered_indexes: Mutex::new(None),
            written: AtomicU64::new(0),
            compacted: AtomicU64::new(0),
            ranges_read: AtomicU64::new(0),
            near: Mutex::new(()),
            middle: Mutex::new(()),
            deep: Mutex::new(()),
        })
    }

    /// Reads the newest cut's records; None if there is no cut.
    ///
    /// # Errors
    /// When the records are damaged, or have another format version.
    pub fn recover(&self) -> Result<Option<Recovered>, StoreError> {
        let view = self.newest();
        let Some(text) = self.get_in(&view, &key_codec::record_key(CUT_RECORD))? else { return Ok(None) };
        let damaged = |what: &str, error: &dyn std::fmt::Display| {
            StoreError::damaged(&self.folder, format!("the {what} record of the newest cut: {error}"))
        };
        let record = serde_json::from_slice::<serde_json::Value>(&text).map_err(|error| damaged("cut", &error))?;
        let found = record.get("format").and_then(serde_json::Value::as_u64).unwrap_or(0);
        let found = u32::try_from(found).unwrap_or(u32::MAX);
        if !(FORMAT_OLDEST..=FORMAT_NOT_YET_CONSISTENT).contains(&found) {
            return Err(StoreError::Version { folder: self.folder.to_path_buf(), found, expected: FORMAT });
        }
        let record = CutRecord::from_json(record, found).map_err(|error| damaged("cut", &error))?;
        let catalog = self.get_in(&view, &key_codec::record_key(CATALOG_RECORD))?;
        let catalog = catalog.ok_or_else(|| damaged("catalog", &"missing"))?;
        let catalog = Catalog::from_json(&catalog).map_err(|error| damaged("catalog", &error))?;
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
            .map_err(|error| self.damaged(format!("the record of indexes: {error}")))
    }

    /// An interrupted table copy leaves rows under an id that no catalog has. Skips such ids, so that no later table
    /// gets one.
    fn past_copies(&self, catalog: Catalog) -> Result<Catalog, StoreError> {
        let records = key_codec::RECORDS.to_be_bytes();
        let highest = self.range_in(&self.newest(), &[], &records).next_back().transpose()?;
        let id = highest.as_ref().and_then(|(key, _)| key_codec::table_of(key));
        Ok(id.map_or(catalog.clone(), |id| catalog.with_ids_from(TableId(id.saturating_add(1)))))
    }

    /// Folder of the store.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    fn views(&self) -> MutexGuard<'_, Vec<Arc<TreeView>>> {
        self.views.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The newest published view, independent of later ones.
    pub(crate) fn newest(&self) -> Arc<TreeView> {
        Arc::clone(newest_of(&self.views()))
    }

    /// The value of a key in a view.
    pub(crate) fn get_in(&self, view: &TreeView, key: &[u8]) -> Result<Option<Slice>, StoreError> {
        view.get(key).map_err(|error| self.fault(&error))
    }

    /// Entries of a view from `from` (inclusive) to `to` (exclusive), in order.
    pub(crate) fn range_in(
        &self,
        view: &TreeView,
        from: &[u8],
        to: &[u8],
    ) -> impl DoubleEndedIterator<Item = Result<(Slice, Slice), StoreError>> + use<> {
        self.ranges_read.fetch_add(1, Ordering::Relaxed);
        let folder = Arc::clone(&self.folder);
        view.entries(from, to).map(move |entry| entry.map_err(|error| StoreError::tree(&folder, &error)))
    }

    fn fault(&self, error: &lsm_tree::Error) -> StoreError {
        StoreError::tree(&self.folder, error)
    }

    pub(crate) fn damaged(&self, text: impl Into<String>) -> StoreError {
        StoreError::damaged(&self.folder, text)
    }

    /// As `range_in`, for ranges that are abandoned early or read from the back.
    pub(crate) fn tree_range(&self, view: &Arc<TreeView>, from: &[u8], to: &[u8]) -> TreeRange {
        self.ranges_read.fetch_add(1, Ordering::Relaxed);
        TreeRange::new(Arc::clone(view), Arc::clone(&self.folder), from, to)
    }

    /// Starts writing a sorted run.
    pub(crate) fn begin(&self) -> Result<Run<'_>, StoreError> {
        let ingestion = self.tree.ingestion().map_err(|error| self.fault(&error))?;
        Ok(Run { disk: self, ingestion, bytes: 0 })
    }

    /// Lock for finishing a run or publishing a new number; `Visibility` changes its layers while it is held.
    pub(crate) fn version_lock(&self) -> MutexGuard<'_, ()> {
        self.version_lock.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Publishes a view of the tree's current content as the newest one.
    pub(crate) fn take_over(&self, _ending: &MutexGuard<'_, ()>) -> Arc<TreeView> {
        let at = self.counter.get();
        let newest = self.newest();
        if newest.number() >= at {
            return newest;
        }
        let view = Arc::new(TreeView::of(&self.tree, at));
        self.views().push(Arc::clone(&view));
        view
    }

    /// Number of the oldest view in use, or of the newest one if none is in use.
    pub(crate) fn oldest_read(&self) -> u64 {
        let mut views = self.views();
        let held = views.iter_mut().find_map(|view| Arc::get_mut(view).is_none().then(|| view.number()));
        held.unwrap_or_else(|| newest_of(&views).number())
    }

    /// Drops views that are no longer in use, and with them the files that only they reference: removing gigabytes
    /// takes the better part of a second, and only this thread waits for it. Versions still held by the tree itself are
    /// kept, because the tree would remove their files under its own lock.
    fn let_go(&self) {
        let oldest_held = self.tree.current_version().id().saturating_sub(self.tree.version_free_list_len() as u64);
        let mut views = self.views();
        let newest = newest_of(&views).number();
        let is_gone = |view: &mut Arc<TreeView>| {
            view.number() < newest && view.version() < oldest_held && Arc::get_mut(view).is_some()
        };
        let gone: Vec<_> = views.extract_if(.., is_gone).collect();
        drop(views);
        drop(gone);
    }

    /// The filter of rows that compaction may drop.
    pub(crate) fn dead(&self) -> &DeadRows {
        &self.dead
    }

    /// Takes one compaction step, in whichever tier is due; false if none is. `oldest_read` is the oldest number in use
    /// by a reader.
    ///
    /// # Errors
    /// When the tree's files cannot be read or written.
    pub fn compact(&self, oldest_read: u64) -> Result<bool, StoreError> {
        Ok(self.compact_near(oldest_read, false)?
            || self.compact_middle(oldest_read, false)?
            || self.compact_deep(oldest_read, false)?)
    }

    /// Takes one step of the compaction that cuts depend on: drops files of dead tables, merges the newest runs. Waits
    /// for a concurrent call of itself, but never for the other two tiers. `idle`: no cut has come for a while.
    ///
    /// # Errors
    /// As [`compact`](Self::compact).
    pub fn compact_near(&self, oldest_read: u64, idle: bool) -> Result<bool, StoreError> {
        let _alone = self.near.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((first, last)) = self.dead_file() {
            let before = self.tree.current_version().id();
            self.tree.drop_range(first..=last).map_err(|error| self.fault(&error))?;
            // A file that is being merged is not dropped; the merge drops its dead rows.
            if self.is_past(before) {
                return Ok(true);
            }
        }
        self.take_step(oldest_read, |levels| tiers::near(levels, idle || self.reads_cost_more(levels)))
    }

    /// Takes one step of merging the results of [`compact_near`](Self::compact_near). Waits for a concurrent call of
    /// itself and, in a store that is still small, for [`compact_deep`](Self::compact_deep).
    ///
    /// # Errors
    /// As [`compact`](Self::compact).
    pub fn compact_middle(&self, oldest_read: u64, idle: bool) -> Result<bool, StoreError> {
        let _alone = self.middle.lock().unwrap_or_else(PoisonError::into_inner);
        self.take_step(oldest_read, |levels| tiers::middle(levels, idle || self.reads_cost_more(levels)))
    }

    /// Takes one step of merging large runs, which may take as long as writing the whole tree. Also false while another
    /// thread is in it.
    ///
    /// # Errors
    /// As [`compact`](Self::compact).
    pub fn compact_deep(&self, oldest_read: u64, idle: bool) -> Result<bool, StoreError> {
        let Ok(_alone) = self.deep.try_lock() else { return Ok(false) };
        self.deep_step(oldest_read, idle)
    }

    /// Takes every compaction step that would be due while cuts arrive, and waits for steps in other threads.
    ///
    /// # Errors
    /// As [`compact`](Self::compact).
    pub fn compact_until_idle(&self, oldest_read: u64) -> Result<(), StoreError> {
        loop {
            let near = self.compact_near(oldest_read, false)?;
            let middle = self.compact_middle(oldest_read, false)?;
            let _alone = self.deep.lock().unwrap_or_else(PoisonError::into_inner);
            if !self.deep_step(oldest_read, false)? && !near && !middle {
                return Ok(());
            }
        }
    }

    /// The caller holds `deep`.
    fn deep_step(&self, oldest_read: u64, idle: bool) -> Result<bool, StoreError> {
        if self.is_mostly_dead() {
            let before = self.tree.current_version().id();
            self.end_of_merge(self.tree.major_compact(FILE_BYTES, oldest_read))?;
            if self.is_past(before) {
                return Ok(true);
            }
        }
        if self.take_step(oldest_read, |levels| tiers::deep(levels, idle || self.reads_cost_more(levels)))? {
            return Ok(true);
        }
        let into_last = |levels: &_| tiers::into_last(levels, idle || self.reads_cost_more(levels));
        // Checked without the lock first, because a merge of the middle tier may hold it for long, then again under it.
        if into_last(&self.levels()).is_none() {
            return Ok(false);
        }
        let _between = self.middle.lock().unwrap_or_else(PoisonError::into_inner);
        self.take_step(oldest_read, into_last)
    }

    /// Aborts running merges, and prevents new ones until it is called with false.
    pub fn break_off_merges(&self, break_off: bool) {
        self.dead.break_off(break_off);
    }

    fn take_step(&self, oldest_read: u64, due: impl Fn(&tiers::Levels) -> Option<Step>) -> Result<bool, StoreError> {
        let before = self.tree.current_version().id();
        self.let_go();
        let Some(step) = due(&self.levels()) else { return Ok(false) };
        // Both strategies are meant for lsm-tree's own tests (its trait cannot be implemented outside the crate). They
        // take whole levels as they find them, so runs that reach level 0 between the check and the step are merged
        // too.
        let strategy: Arc<dyn CompactionStrategy> = match step {
            Step::Merge { from, to } => Arc::new(PullDown(from, to)),
            Step::Move { from, to } => Arc::new(MoveDown(from, to)),
        };
        self.end_of_merge(self.tree.compact(strategy, oldest_read))?;
        if matches!(step, Step::Merge { .. }) {
            self.ranges_read.store(0, Ordering::Relaxed);
        }
        Ok(self.is_past(before))
    }

    /// An aborted merge returns the error of the filter that aborted it, which counts as success. Any other error is a
    /// fault.
    fn end_of_merge(&self, result: lsm_tree::Result<()>) -> Result<(), StoreError> {
        match result {
            Err(lsm_tree::Error::Io(error)) if error.kind() == ErrorKind::Interrupted && self.dead.is_broken_off() => {
                Ok(())
            }
            result => result.map_err(|error| self.fault(&error)),
        }
    }

    /// Whether the tree has changed since this version. A cut that ended in the meantime counts too: one more check
    /// does no harm.
    fn is_past(&self, version: u64) -> bool {
        let did = self.tree.current_version().id() != version;
        if did {
            self.compacted.fetch_add(1, Ordering::Relaxed);
            // The content is the same under the new number; publishing it releases the old files.
            let version_lock = self.version_lock();
            self.take_over(&version_lock);
        }
        did
    }

    fn levels(&self) -> tiers::Levels {
        let version = self.tree.current_version();
        std::array::from_fn(|n| {
            let level = version.level(n);
            level.map_or_else(Level::default, |level| Level { runs: level.run_count(), bytes: level.size() })
        })
    }

    /// Contents of every level, newest first, for measurements. Reads the metadata of all files.
    #[must_use]
    pub fn level_stats(&self) -> Vec<LevelStats> {
        let version = self.tree.current_version();
        let levels = version.iter_levels().map(|level| LevelStats {
            runs: level.run_count() as u64,
            bytes: level.size(),
            entries: level.iter().flat_map(|run| run.iter()).map(|file| file.metadata.item_count).sum(),
        });
        levels.collect()
    }

    /// Whether the range reads since the last merge have cost more, for having many runs, than merging the runs would.
    fn reads_cost_more(&self, levels: &tiers::Levels) -> bool {
        let runs: usize = levels.iter().map(|level| level.runs).sum();
        let bytes: u64 = levels.iter().map(|level| level.bytes).sum();
        let lost_ns = self.ranges_read.load(Ordering::Relaxed) * runs.saturating_sub(1) as u64 * RUN_NS_PER_RANGE;
        lost_ns > bytes * MERGE_NS_PER_BYTE
    }

    /// First and last key of a file that holds only rows of dead tables.
    fn dead_file(&self) -> Option<(Slice, Slice)> {
        let known = self.dead.known();
        let version = self.tree.current_version();
        version.iter_tables().find_map(|file| {
            let range = &file.metadata.key_range;
            known.all_dead(range.min(), range.max()).then(|| (range.min().clone(), range.max().clone()))
        })
    }

    /// Whether files that begin or end with a dead table make up enough of the tree to justify rewriting it.
    fn is_mostly_dead(&self) -> bool {
        let known = self.dead.known();
        let version = self.tree.current_version();
        let (mut all, mut some_dead) = (0, 0);
        for file in version.iter_tables() {
            let range = &file.metadata.key_range;
            all += file.metadata.file_size;
            if known.dead_at_ends(range.min(), range.max()) {
                some_dead += file.metadata.file_size;
            }
        }
        some_dead > DEAD_BYTES_MIN && some_dead * 2 > all
    }

    /// Merges everything into one run, for measurements and tests.
    ///
    /// # Errors
    /// As `compact`.
    pub fn compact_fully(&self, oldest_read: u64) -> Result<(), StoreError> {
        self.tree.major_compact(FILE_BYTES, oldest_read).map_err(|error| self.fault(&error))?;
        let version_lock = self.version_lock();
        self.take_over(&version_lock);
        Ok(())
    }

    /// Number of sorted runs in level 0.
    #[must_use]
    pub fn l0_runs(&self) -> usize {
        self.tree.l0_run_count()
    }

    /// Whether compaction must run before the next cut.
    #[must_use]
    pub fn is_full(&self) -> bool {
        tiers::full(&self.levels())
    }

    /// Current size and debt of the tree.
    #[must_use]
    pub fn stats(&self) -> DiskStats {
        let levels = self.levels();
        let above = levels.iter().rev().skip(1);
        DiskStats {
            bytes: self.tree.disk_space(),
            l0_runs: self.tree.l0_run_count() as u64,
            debt_bytes: above.clone().map(|level| level.bytes).sum(),
            debt_runs: above.map(|level| level.runs as u64).sum(),
            written_bytes: self.written.load(Ordering::Relaxed),
            compactions: self.compacted.load(Ordering::Relaxed),
        }
    }
}

/// The newest view. There always is one: `let_go` keeps the last.
fn newest_of(views: &[Arc<TreeView>]) -> &Arc<TreeView> {
    match views.last() {
        Some(view) => view,
        None => panic!("the tree has no view"),
    }
}

/// A sorted run being written into the tree.
pub(crate) struct Run<'a> {
    disk: &'a Disk,
    ingestion: AnyIngestion<'a>,
    bytes: u64,
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
}

impl Run<'_> {
    /// Appends an entry. Keys must come in ascending order.
    pub(crate) fn put(&mut self, key: &[u8], value: &[u8]) -> Result<(), StoreError> {
        self.bytes += (key.len() + value.len()) as u64;
        self.ingestion.write(key, value).map_err(|error| self.disk.fault(&error))
    }

    /// Appends a tombstone. Keys must come in ascending order.
    pub(crate) fn remove(&mut self, key: &[u8]) -> Result<(), StoreError> {
        self.bytes += key.len() as u64;
        self.ingestion.write_tombstone(key).map_err(|error| self.disk.fault(&error))
    }

    /// Appends the cut's records, whose keys sort after all rows.
    pub(crate) fn records(&mut self, facts: CutFacts<'_>) -> Result<(), StoreError> {
        if let Some(catalog) = facts.catalog {
            let text = catalog.to_json().map_err(|error| self.disk.damaged(error.to_string()))?;
            self.put(&key_codec::record_key(CATALOG_RECORD), &text)?;
        }
        let record = CutRecord {
            format: if facts.consistent_at.is_some() { FORMAT_NOT_YET_CONSISTENT } else { FORMAT },
            sequence: facts.sequence,
            gtid_executed: facts.executed.to_string(),
            relay_file: facts.position.map(|(file, _)| file.to_owned()),
            relay_offset: facts.position.map_or(0, |(_, offset)| offset),
            rows: facts.rows,
            ledger: facts.ledger.to_owned(),
            consistent_at: facts.consistent_at.map(ToString::to_string),
            prepared: prepared_records(facts.prepared),
        };
        let text = serde_json::to_vec(&record).map_err(|error| self.disk.damaged(error.to_string()))?;
        self.put(&key_codec::record_key(CUT_RECORD), &text)?;
        // In order of number, which is the order of their keys.
        let mut changed = BTreeMap::new();
        changed.extend(facts.prepared_before.values().map(|old| (old.number, (old, false))));
        for new in facts.prepared.values() {
            if changed.remove(&new.number).is_none() {
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

    /// Adds the run to the tree, durably and atomically. The caller holds `version_lock` and publishes the new number.
    pub(crate) fn finish(self, _ending: &MutexGuard<'_, ()>) -> Result<u64, StoreError> {
        let disk = self.disk;
        let highest = disk.tree.get_highest_persisted_seqno().unwrap_or(0);
        assert!(disk.counter.get() > highest, "the tree's counter is behind its files (invariant 5)");
        self.ingestion.finish().map_err(|error| disk.fault(&error))?;
        disk.written.fetch_add(self.bytes, Ordering::Relaxed);
        Ok(self.bytes)
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

/// Removes a folder with everything in it; a missing folder is no error.
///
/// # Errors
/// When the operating system reports an error.
pub(crate) fn remove_folder(folder: &Path) -> Result<(), StoreError> {
    match fs::remove_dir_all(folder) {
        Ok(()) => Ok(()),
        Err(error) if error.kind() == ErrorKind::NotFound => Ok(()),
        Err(error) => Err(StoreError::io(folder, &error)),
    }
}

/// Ids of all tables of a catalog.
pub(crate) fn ids_of(catalog: &Catalog) -> BTreeSet<TableId> {
    catalog.tables().map(|table| table.id).collect()
}

/// Three overlapping runs of keys below `keys`; `has` decides which run contains which key. The last run also removes
/// some keys.
#[cfg(test)]
pub(crate) fn of_three_runs(folder: &Path, keys: u32, has: impl Fn(u32, u32) -> bool) -> Disk {
    let (disk, _) = Disk::open(folder, DiskOptions { cache_bytes: 1 << 20 }).unwrap();
    for number in 0..3 {
        let mut run = disk.begin().unwrap();
        for key in (0..keys).filter(|key| has(number, *key)) {
            match key % 11 {
                10 if number == 2 => run.remove(&key.to_be_bytes()).unwrap(),
                _ => run.put(&key.to_be_bytes(), &[number as u8; 20]).unwrap(),
            }
        }
        let version_lock = disk.version_lock();
        run.finish(&version_lock).unwrap();
        disk.take_over(&version_lock);
    }
    disk
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn not_yet_consistent() -> Value {
        json!({"format": 3, "sequence": 7, "gtid_executed": "", "relay_file": null, "relay_offset": 0, "rows": {"1": 2},
            "ledger": "{}", "settles_at": "", "prepared": [{"xid": "x", "gtid": null, "number": 5, "bytes": 9}]})
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
        let record = CutRecord::from_json(whole.clone(), FORMAT_NOT_YET_CONSISTENT).unwrap();
        assert_eq!(serde_json::to_value(&record).unwrap(), whole, "stored names changed");
        for place in ["", "/prepared/0"] {
            for key in keys(whole.pointer(place).unwrap()) {
                let lossy = without(whole.clone(), place, &key);
                let error = CutRecord::from_json(lossy, FORMAT_NOT_YET_CONSISTENT).err().expect(&key).to_string();
                assert!(error.contains(&format!("`{key}`")), "{key}: {error}");
            }
        }
        let mut renamed = whole;
        renamed["settled_at"] = Value::Null;
        assert!(CutRecord::from_json(renamed, FORMAT_NOT_YET_CONSISTENT).is_err(), "a name that is not known");
    }

    #[test]
    fn a_cut_record_of_format_1_has_no_prepared_transactions() {
        let mut old = without(without(not_yet_consistent(), "", "prepared"), "", "settles_at");
        old["format"] = json!(FORMAT_OLDEST);
        assert!(CutRecord::from_json(old.clone(), FORMAT_OLDEST).unwrap().prepared.is_empty());
        old["format"] = json!(FORMAT);
        assert!(CutRecord::from_json(old, FORMAT).is_err());
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
        }
    }
}
