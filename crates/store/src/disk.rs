//! The tree on disk.
//!
//! In: sorted rows and the record of their cut, in one ingestion (invariant 1). Out: rows at a tree number, the newest
//! cut's record. Never here: a log, a row above the cut, per-row deletions for a DDL statement (invariant 2).
//!
//! Tree numbers count changes to the tree and are not source sequence numbers (invariant 5); the cut's record maps one
//! to the other. Reads are exclusive: a read at n sees entries below n.

use std::fs;
use std::io::ErrorKind;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};

use lsm_tree::config::{BlockSizePolicy, PinningPolicy, RestartIntervalPolicy};
use lsm_tree::{AbstractTree, AnyIngestion, AnyTree, Cache, Config, DescriptorTable, SequenceNumberCounter, Slice};

use crate::compaction::filter::DeadRows;
use crate::compaction::policy;
use crate::compaction::room::Wanted;
use crate::compaction::writes::{Writes, Writing};
use crate::cut_record::{Recovered, RecoveredTables};
use crate::damage::{DamageList, DamagedFile};
use crate::disk_space::DiskSpace;
use crate::drift::{DriftList, Findings, TableDrift};
use crate::error::StoreError;
use crate::expectation::Expected;
use crate::tree_files;
use crate::tree_range::TreeRange;
use crate::tree_view::{TreeValue, TreeView};

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
    pub(crate) files: Arc<DescriptorTable>,
    pub(crate) open: StillOpen,
}

/// Held by all that holds files of these trees, and dropped after them.
#[derive(Clone, Debug, Default)]
pub(crate) struct StillOpen(Arc<()>);

/// Tells when a store is closed. A tree removes files while it is dropped, which is after its last reference is gone:
/// opened before that, the folder would lose files to it, also new ones of the same number.
#[derive(Clone, Debug, Default)]
pub struct Closing(Weak<()>);

impl Closing {
    /// True once nothing of the store touches its folders any more.
    #[must_use]
    pub fn is_closed(&self) -> bool {
        self.0.strong_count() == 0
    }
}

/// Limit on open files.
const FILES_OPEN_MAX: usize = 256;

impl Kept {
    pub(crate) fn new(options: DiskOptions) -> Kept {
        Kept {
            blocks: Arc::new(Cache::with_capacity_bytes(options.cache_bytes)),
            files: Arc::new(DescriptorTable::new(FILES_OPEN_MAX)),
            open: StillOpen::default(),
        }
    }
}

/// The tree on disk and the views through which it is read.
pub struct Disk {
    folder: Arc<Path>,
    pub(crate) tree: AnyTree,
    counter: SequenceNumberCounter,
    /// Views in ascending order of their numbers; new layers take the last one. Added to only under `version_lock`.
    /// Held here too, so that the last reference is dropped by the thread that can afford to remove files.
    views: Mutex<Vec<Arc<TreeView>>>,
    /// Serialises "finish ingestion" with "publish its number", so that nobody reads at a number in between.
    version_lock: Mutex<()>,
    pub(crate) dead: Arc<DeadRows>,
    damage: Arc<DamageList>,
    pub(crate) recovered_tables: Mutex<Option<RecoveredTables>>,
    written: AtomicU64,
    pub(crate) compacted: AtomicU64,
    /// Range reads since the last merge; each one looks into every run.
    pub(crate) ranges_read: AtomicU64,
    /// Each is held from reading the levels to the end of the resulting step. Lock `deep` before `middle`.
    pub(crate) near: Mutex<()>,
    pub(crate) middle: Mutex<()>,
    pub(crate) deep: Mutex<()>,
    /// Alone is who removes what failed writes left.
    pub(crate) writing: Writes,
    pub(crate) space: OnceLock<Arc<DiskSpace>>,
    pub(crate) wanted: Wanted,
    /// The last field: see [`StillOpen`].
    kept: Kept,
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
        disk.damage.list_from(&disk.tree, &disk.dead, &kept.open);
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
        let (disk, recovered) = Disk::open_stopped(folder, options)?;
        Ok(recovered.map(|recovered| (disk, recovered)))
    }

    /// Opens the tree of a stopped store for reading, also if it contains no cut yet.
    ///
    /// # Errors
    /// As `open`.
    pub fn open_stopped(folder: &Path, options: DiskOptions) -> Result<(Disk, Option<Recovered>), StoreError> {
        let disk = Disk::open_tree(folder, &Kept::new(options))?;
        let recovered = disk.recover()?;
        if recovered.is_none() {
            disk.recover_nothing();
        }
        Ok((disk, recovered))
    }

    /// Creates a tree for data that exceeds memory; removes whatever is in the folder.
    pub(crate) fn open_scratch(folder: &Path, kept: &Kept) -> Result<Disk, StoreError> {
        remove_folder(folder)?;
        // Damage there is not listed: the next start empties the folder and replays what was in it.
        Disk::open_tree(folder, kept)
    }

    /// Tells when nothing holds files of this tree, or of others that share its caches, any more.
    #[must_use]
    pub fn closing(&self) -> Closing {
        Closing(Arc::downgrade(&self.kept.open.0))
    }

    /// Caches to share with another tree.
    pub(crate) fn kept(&self) -> &Kept {
        &self.kept
    }

    fn open_tree(folder: &Path, kept: &Kept) -> Result<Disk, StoreError> {
        fs::create_dir_all(folder).map_err(|error| StoreError::io(folder, &error))?;
        let counter = SequenceNumberCounter::default();
        let visible = SequenceNumberCounter::default();
        let dead = Arc::new(DeadRows::new(DriftList::open(folder)?));
        let damage = Arc::new(DamageList::open(folder)?);
        let config = Config::new(folder, counter.clone(), visible.clone())
            .use_cache(Arc::clone(&kept.blocks))
            .use_descriptor_table(Some(Arc::clone(&kept.files)))
            .data_block_size_policy(BlockSizePolicy::all(8 * 1024))
            // A point read searches the heads and then on average half an interval entry by entry.
            .data_block_restart_interval_policy(RestartIntervalPolicy::all(8))
            .filter_block_pinning_policy(PinningPolicy::all(false))
            .index_block_pinning_policy(PinningPolicy::all(false))
            .with_compaction_filter_factory(Some(Arc::clone(&dead) as _));
        // Opening removes every version but the current one. A killed process may have left `current` renamed but not
        // durable: after a power cut, `current` would again name a version that no longer exists.
        let synced = fs::File::open(folder).and_then(|folder| folder.sync_all());
        synced.map_err(|error| StoreError::io(folder, &error))?;
        tree_files::check_manifest(folder)?;
        let tree = config.open().map_err(|error| StoreError::tree(folder, &error))?;
        // The tree does not restore its counter (invariant 5).
        let next = tree.get_highest_persisted_seqno().map_or(0, |highest| highest + 1);
        counter.fetch_max(next + 1);
        visible.fetch_max(next + 1);
        // What a cut's record says of older entries is read by `recover`.
        dead.set_expected_since(counter.get().next_multiple_of(Expected::SPAN));
        Ok(Disk {
            folder: folder.into(),
            views: Mutex::new(vec![Arc::new(TreeView::of(&tree, kept, counter.get()))]),
            tree,
            counter,
            version_lock: Mutex::new(()),
            dead,
            damage,
            recovered_tables: Mutex::new(None),
            written: AtomicU64::new(0),
            compacted: AtomicU64::new(0),
            ranges_read: AtomicU64::new(0),
            near: Mutex::new(()),
            middle: Mutex::new(()),
            deep: Mutex::new(()),
            writing: Writes::default(),
            space: OnceLock::new(),
            wanted: Wanted::default(),
            kept: kept.clone(),
        })
    }

    /// Says from which number on entries have expectations; None: only those to come do.
    pub(crate) fn expect_since(&self, number: Option<u64>) {
        if let Some(number) = number {
            // Merges lower numbers, so the highest one in the files may be below it.
            self.counter.fetch_max(number);
            self.dead.set_expected_since(number);
        }
    }

    /// Folder of the store.
    #[must_use]
    pub fn folder(&self) -> &Path {
        &self.folder
    }

    #[cfg(test)]
    pub(crate) fn tree(&self) -> &AnyTree {
        &self.tree
    }

    fn views(&self) -> MutexGuard<'_, Vec<Arc<TreeView>>> {
        self.views.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Calls `each` with every view.
    pub(crate) fn each_view(&self, mut each: impl FnMut(&TreeView)) {
        self.views().iter().for_each(|view| each(view));
    }

    /// The newest published view, independent of later ones.
    pub(crate) fn newest(&self) -> Arc<TreeView> {
        Arc::clone(newest_of(&self.views()))
    }

    /// The number that the next change of the tree gets.
    pub(crate) fn next_number(&self) -> u64 {
        self.counter.get()
    }

    /// A view of the tree as it is now, at a number.
    pub(crate) fn view_at(&self, number: u64) -> TreeView {
        TreeView::of(&self.tree, &self.kept, number)
    }

    /// The value of a key in a view.
    pub(crate) fn get_in(&self, view: &TreeView, key: &[u8]) -> Result<Option<TreeValue>, StoreError> {
        view.get(key).map_err(|fault| self.damage.view_fault(&fault))
    }

    /// Entries of a view from `from` (inclusive) to `to` (exclusive), in order.
    pub(crate) fn range_in(
        &self,
        view: &TreeView,
        from: &[u8],
        to: &[u8],
    ) -> impl DoubleEndedIterator<Item = Result<(Slice, Slice), StoreError>> + use<> {
        self.ranges_read.fetch_add(1, Ordering::Relaxed);
        let damage = Arc::clone(&self.damage);
        view.entries(from, to).map(move |entry| entry.map_err(|error| damage.fault(&error)))
    }

    pub(crate) fn fault(&self, error: &lsm_tree::Error) -> StoreError {
        self.damage.fault(error)
    }

    pub(crate) fn damaged(&self, text: impl Into<String>) -> StoreError {
        StoreError::damaged(&self.folder, text)
    }

    /// As `range_in`, without copies; meant for reading forward.
    pub(crate) fn tree_range(&self, view: &Arc<TreeView>, from: &[u8], to: &[u8]) -> TreeRange {
        self.ranges_read.fetch_add(1, Ordering::Relaxed);
        TreeRange::new(Arc::clone(view), Arc::clone(&self.damage), from, to)
    }

    /// Starts writing a sorted run.
    pub(crate) fn begin(&self) -> Result<Run<'_>, StoreError> {
        let writes = self.writes();
        let ingestion = self.tree.ingestion().map_err(|error| self.fault(&error))?;
        // Entries say by their numbers what is expected below them.
        let ingestion = ingestion.use_seqno_span(Expected::SPAN).map_err(|error| self.fault(&error))?;
        Ok(Run { disk: self, ingestion, bytes: 0, _writes: writes })
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
        let view = Arc::new(TreeView::of(&self.tree, &self.kept, at));
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
    pub(crate) fn let_go(&self) {
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

    /// Tables with rows that contradict the log, by id.
    #[must_use]
    pub fn drift(&self) -> Vec<TableDrift> {
        self.dead.drift().all()
    }

    /// A number that grows with each change of [`drift`](Self::drift).
    #[must_use]
    pub fn drift_changes(&self) -> u64 {
        self.dead.drift().changes()
    }

    /// Lists damage that is met from here on, in a tree that was opened for reading. The caller owns the folder.
    pub fn list_damage(&self) {
        self.damage.list_from(&self.tree, &self.dead, &self.kept.open);
    }

    /// Files of the tree that are damaged, and those that were and are gone.
    #[must_use]
    pub fn damage(&self) -> Vec<DamagedFile> {
        self.damage.all()
    }

    /// A number that grows with each change of [`damage`](Self::damage).
    #[must_use]
    pub fn damage_changes(&self) -> u64 {
        self.damage.changes()
    }

    /// Notes which tables (by name, quoted) are in quarantine because of a damaged file.
    pub fn note_quarantined(&self, file: u64, tables: &[String]) {
        self.damage.quarantined(file, tables);
    }

    pub(crate) fn damage_list(&self) -> &DamageList {
        &self.damage
    }

    /// Takes tables off the list that no cut knows any more.
    pub(crate) fn forget_dead_drift(&self) -> Result<(), StoreError> {
        let known = self.dead.known();
        self.dead.drift().forget(|id| known.is_dead(id)).map_err(|error| StoreError::io(&self.folder, &error))
    }

    /// Adds findings to the list, durably.
    pub(crate) fn save_drift(&self, findings: &mut Findings) -> Result<(), StoreError> {
        findings.save(self.dead.drift()).map_err(|error| StoreError::io(&self.folder, &error))
    }

    /// Takes a table off the list of [`drift`](Self::drift), durably.
    ///
    /// # Errors
    /// When the list cannot be written.
    pub fn forget_drift(&self, table: u32) -> Result<(), StoreError> {
        self.dead.drift().forget(|id| id == table).map_err(|error| StoreError::io(&self.folder, &error))
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

    /// Number of sorted runs in level 0.
    #[must_use]
    pub fn l0_runs(&self) -> usize {
        self.tree.l0_run_count()
    }

    /// Whether compaction must run before the next cut.
    #[must_use]
    pub fn is_full(&self) -> bool {
        // No merge reads a damaged file. It goes once a cut is durable that does not know its tables, so that cut must
        // not wait for a merge.
        let more = if self.damage.any() { policy::RUNS_BESIDE_DAMAGE } else { 0 };
        policy::full(&self.levels(), more)
    }

    /// Whether a damaged file keeps compaction from making room for the next cut.
    #[must_use]
    pub fn is_full_of_damage(&self) -> bool {
        self.damage.any() && self.is_full()
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
    pub(crate) disk: &'a Disk,
    ingestion: AnyIngestion<'a>,
    bytes: u64,
    /// Released behind the ingestion.
    _writes: Writing<'a>,
}

impl Run<'_> {
    /// Appends an entry. Keys must come in ascending order.
    pub(crate) fn put(&mut self, key: &[u8], value: &[u8]) -> Result<(), StoreError> {
        self.bytes += (key.len() + value.len()) as u64;
        self.ingestion.write(key, value).map_err(|error| self.disk.fault(&error))
    }

    /// As `put`, for a row of which the log says whether it existed below.
    pub(crate) fn put_row(&mut self, key: &[u8], value: &[u8], expected: Expected) -> Result<(), StoreError> {
        self.bytes += (key.len() + value.len()) as u64;
        let offset = u64::from(expected.bits());
        self.ingestion.write_at(key, value, offset).map_err(|error| self.disk.fault(&error))
    }

    /// As `remove`, for a row of which the log says whether it existed below.
    pub(crate) fn remove_row(&mut self, key: &[u8], expected: Expected) -> Result<(), StoreError> {
        self.bytes += key.len() as u64;
        let offset = u64::from(expected.bits());
        self.ingestion.write_tombstone_at(key, offset).map_err(|error| self.disk.fault(&error))
    }

    /// Appends a tombstone. Keys must come in ascending order.
    pub(crate) fn remove(&mut self, key: &[u8]) -> Result<(), StoreError> {
        self.bytes += key.len() as u64;
        self.ingestion.write_tombstone(key).map_err(|error| self.disk.fault(&error))
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
